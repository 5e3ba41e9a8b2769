"""The zip that ChatGPT sends: its conversations, in one file or several, and the files that they point to."""

from __future__ import annotations

import lzma
import mimetypes
import re
import struct
import zlib
from io import BytesIO
from pathlib import PurePosixPath
from typing import Final
from zipfile import BadZipFile, ZipFile

from chronicle_py.context.importers.documents import Document, parsed
from chronicle_py.context.media import UNKNOWN_TYPE
from chronicle_py.errors import InvalidOperation
from chronicle_py.exchange.faults import Fault, MalformedFile

MAGIC: Final = b"PK\x03\x04"
LARGEST: Final = 1 << 30  # bytes of one file in it, unpacked
_CONVERSATIONS = re.compile(r"conversations(-\d+)?\.json")
_POINTER = re.compile(r"^(?:file-service|sediment)://(?P<id>.+)$")


class Archive:
    """An opened zip."""

    def __init__(self, name: str, data: bytes) -> None:
        self.name = name
        try:
            self._zip = ZipFile(BytesIO(data))
        except (BadZipFile, ValueError, IndexError, struct.error, OverflowError, NotImplementedError) as error:
            raise InvalidOperation(f"{name} begins like a zip and is none: {error}") from None
        self._members = [info.filename for info in self._zip.infolist() if not info.is_dir()]

    def document(self) -> Document:
        """All conversations in it. InvalidOperation when there are none, MalformedFile when they cannot be read."""
        names = sorted(m for m in self._members if _CONVERSATIONS.fullmatch(PurePosixPath(m).name))
        if not names:
            raise InvalidOperation(f"{self.name} is a zip without conversations.json: no export of ChatGPT")
        conversations: list[object] = []
        faults: list[Fault] = []
        for name in names:
            try:
                found = parsed(f"{self.name}, {name}", self._bytes(name))
            except MalformedFile as error:
                faults += [Fault(f"{name}, {fault.where}", fault.what) for fault in error.faults]
                continue
            faults += [Fault(f"{name}, {fault.where}", fault.what) for fault in found.faults]
            values = [found.value] if found.records is None else [record.value for record in found.records]
            for value in values:
                conversations += value if isinstance(value, list) else [value]
        if faults and not conversations:
            raise MalformedFile(self.name, faults)
        return Document(conversations, None, faults)

    def asset(self, pointer: str) -> tuple[bytes, str] | None:
        """The file that a pointer means, with its media type."""
        found = _POINTER.match(pointer)
        if found is None:
            return None
        for name in self._members:
            base = PurePosixPath(name).name
            if base.startswith(found["id"]) and not base[len(found["id"]) :][:1].isalnum():
                try:
                    return self._bytes(name), mimetypes.guess_type(base)[0] or UNKNOWN_TYPE
                except MalformedFile:
                    return None
        return None

    def _bytes(self, name: str) -> bytes:
        try:
            size = self._zip.getinfo(name).file_size
            if size > LARGEST:  # a few bytes may unpack to anything
                raise MalformedFile(
                    self.name, [Fault(name, f"unpacks to {size:,} bytes, and at most {LARGEST:,} are read")]
                )
            return self._zip.read(name)
        except (BadZipFile, zlib.error, lzma.LZMAError, ValueError, IndexError, struct.error, OverflowError, OSError,
                RuntimeError, NotImplementedError, EOFError) as error:  # fmt: skip
            raise MalformedFile(self.name, [Fault(name, f"cannot be read from the zip: {error}")]) from None
