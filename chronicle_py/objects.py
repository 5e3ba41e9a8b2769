"""Content-addressed objects: the nodes of collections, and blobs.

An object is stored once under the BLAKE3 of its bytes, of which the first says what it is (event.NODE or event.BLOB).
Nodes that were read stay decoded in a cache with a bound in bytes: an object never changes, so that no entry is ever
wrong while the file is the same. This file does not know what a node means.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import msgspec
from blake3 import blake3

from chronicle_py.errors import CorruptStore, InvalidName, InvalidOperation
from chronicle_py.event import BLOB, NODE
from chronicle_py.kv import OBJECTS, ReadScope, Writer
from chronicle_py.shown import shown

T = TypeVar("T")
CACHE_BYTES = 64 << 20
_DECODED = 4  # a decoded node takes about this many times its bytes
MAX_BLOB = 1 << 30


class Blob(msgspec.Struct, frozen=True):
    """Bytes with a media type. `hash` is the id that payloads refer to: it covers both."""

    hash: str
    media_type: str
    data: bytes


class Access(Protocol):
    """What objects need of the engine: the snapshot to read from, and the transaction to write into."""

    def read(self) -> ReadScope: ...

    def writer(self) -> Writer: ...


class Objects:
    """Reads and stores nodes. Implements `tree.Objects`."""

    def __init__(self, access: Access, limit: int = CACHE_BYTES) -> None:
        self._access = access
        self._half = limit // 2
        self.forget()

    def forget(self) -> None:
        self._young: dict[tuple[bytes, Any], Any] = {}
        self._old: dict[tuple[bytes, Any], Any] = {}
        self._size = 0

    def load(self, address: bytes) -> bytes:
        with self._access.read() as reader:
            stored = reader.get(OBJECTS, address)
        if stored is None or stored[:1] != NODE:
            raise CorruptStore(f"the node {address.hex()} is missing. `chronicle verify` lists the damage")
        if blake3(stored).digest() != address:
            raise CorruptStore(f"the node {address.hex()} is damaged. `chronicle verify` lists the damage")
        return stored[1:]

    def store(self, address: bytes, data: bytes) -> None:
        self._access.writer().put(OBJECTS, address, NODE + data)

    def cached(self, address: bytes, decode: Callable[[bytes], T]) -> T:
        """The decoded node. Two generations stand in for a least-recently-used list: a hit costs one look-up."""
        key = (address, decode)
        found = self._young.get(key)
        if found is None:
            found = self._old.get(key)
            if found is None:
                data = self.load(address)
                found = decode(data)
                self._size += len(data) * _DECODED
            else:
                self._size += self._half // 4096
            if self._size > self._half:
                self._old, self._young, self._size = self._young, {}, 0
            self._young[key] = found
        result: T = found
        return result


def pack_blob(data: object, media_type: object) -> tuple[bytes, bytes]:
    """The id and the stored bytes of a blob."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise InvalidOperation(f"a blob is bytes, not {type(data).__name__}; encode text first, as in text.encode()")
    if isinstance(data, memoryview):
        data = data.tobytes()  # of what may lie scattered, or be made of other items than bytes
    if not isinstance(media_type, str) or not media_type.isascii() or not 0 < len(media_type) < 256:
        raise InvalidName(f"a media type is 1 to 255 ASCII characters, like 'image/png', not {shown(media_type)}")
    if len(data) > MAX_BLOB:
        raise InvalidOperation(f"a blob has at most {MAX_BLOB:,} bytes, this one has {len(data):,}; split it")
    stored = b"".join((BLOB, bytes((len(media_type),)), media_type.encode(), data))
    return blake3(stored).digest(), stored


def unpack_blob(key: bytes, stored: bytes) -> Blob:
    """The blob in these bytes; CorruptStore when they do not hash to its id."""
    if stored[:1] != BLOB or blake3(stored).digest() != key:
        raise CorruptStore(f"the blob {key.hex()} is damaged. `chronicle verify` lists the damage; restore a backup")
    media_type, data = stored[2:][: sum(stored[1:2])], stored[2 + sum(stored[1:2]) :]
    if not media_type or len(media_type) != stored[1] or not media_type.isascii():
        raise CorruptStore(f"the blob {key.hex()} has no media type: whoever wrote it did not follow the format")
    return Blob(key.hex(), media_type.decode(), data)
