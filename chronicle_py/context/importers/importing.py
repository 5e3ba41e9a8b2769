"""Importing a file of any form that is known here, in one transaction: conversations, and this store's own exports."""

from __future__ import annotations

import os
from itertools import chain
from pathlib import PurePath
from typing import BinaryIO

import msgspec

from chronicle_py.context.conversation import Conversation
from chronicle_py.context.importers import detect
from chronicle_py.context.importers.archive import MAGIC, Archive
from chronicle_py.context.importers.documents import parsed
from chronicle_py.context.importers.history import Read
from chronicle_py.context.importers.placing import Placing, Progress
from chronicle_py.context.tokens import Counts, Tokenizer
from chronicle_py.errors import InvalidOperation, NotFound
from chronicle_py.exchange import Imported, MalformedFile, import_lines, is_export
from chronicle_py.names import check_branch
from chronicle_py.store import Store

_NOT_STRICT = ", or let them be left out, without --strict (strict=True)"


def import_file(
    store: Store,
    source: str | os.PathLike[str] | BinaryIO,
    *,
    format: str | None = None,
    branch: str | None = None,
    prefix: str = "",
    strict: bool = False,
    skip_bad: bool = False,
    tokenizer: str | Counts | Tokenizer | None = None,
    progress: Progress | None = None,
) -> Imported:
    """Imports a file of another program's conversations, or an export of a store. One transaction.

    `format`: one of `FORMATS`, where the contents should not decide. `branch`: where the newest conversation's current
    path goes (made if need be; one with a history goes on). `prefix`: before the names of an export's branches.
    `strict`: refuse conversations with bad records (MalformedFile names the place of each); otherwise these are left
    out, and named in the result. An export, which is a backup, is the other way about: refused unless `skip_bad`.
    Messages that are there already are not added again. About 100 µs a message.
    """
    if format is not None and format not in detect.FORMATS:
        raise InvalidOperation(f"there is no format {format!r}; the formats are {', '.join(detect.FORMATS)}")
    options = _Options(format, branch, prefix, strict, skip_bad, tokenizer, progress)
    if isinstance(source, str | os.PathLike):
        name = os.fspath(source)
        try:
            with open(source, "rb") as file:
                options.size = os.fstat(file.fileno()).st_size
                return _import(store, file, name, options)
        except OSError as error:
            raise NotFound(f"{name} cannot be read: {error.strerror or error}") from None
    return _import(store, source, "the input", options)


class _Options(msgspec.Struct):
    """What `import_file` was asked for."""

    format: str | None
    branch: str | None
    prefix: str
    strict: bool
    skip_bad: bool
    tokenizer: str | Counts | Tokenizer | None
    progress: Progress | None
    size: int = 0  # of the file in bytes, if known


def _import(store: Store, file: BinaryIO, name: str, options: _Options) -> Imported:
    first, second = file.readline(), file.readline()
    if options.format == detect.EXPORT or (options.format is None and is_export(first, second)):
        if options.branch is not None:
            raise InvalidOperation(
                f"{name} is an export and brings its own branches, so that no branch can be chosen; give them other "
                "names with a prefix (--prefix)"
            )
        lines = chain((first, second), file)
        return import_lines(store, lines, name, options.size, options.prefix, options.skip_bad, options.progress)
    if options.prefix:
        raise InvalidOperation(
            f"{name} is no export and brings no branches that a prefix could be for; choose a branch"
        )
    if options.branch is not None:
        check_branch(options.branch)
    found = read_bytes(name, first + second + file.read(), options.format)
    if options.strict and found.faults:
        raise MalformedFile(name, found.faults, _NOT_STRICT)
    return _place(store, name, found, options)


def read_bytes(name: str, data: bytes, format: str | None = None) -> Read:
    """What the bytes of a file hold. `name` stands for it in errors."""
    if data.startswith(MAGIC):
        if format not in (None, detect.CHATGPT):
            raise InvalidOperation(f"{name} is a zip, and of the formats only {detect.CHATGPT!r} is read from one")
        archive = Archive(name, data)
        return detect.read(name, detect.CHATGPT, archive.document(), archive.asset)
    return detect.read(name, format, parsed(name, data))


def _place(store: Store, name: str, found: Read, options: _Options) -> Imported:
    with store.transaction():
        slots = len(store.slots())
        conversation = Conversation(store, tokenizer=options.tokenizer)
        placing = Placing(conversation, found.histories, options.branch, PurePath(name).stem, options.progress)
        placing.place()
        if options.strict and placing.faults:
            raise MalformedFile(name, placing.faults, _NOT_STRICT)
        return Imported(
            form=found.form, events=placing.added, known=placing.there_before, slots=len(store.slots()) - slots,
            blobs=placing.blobs, branches=placing.outcomes, faults=[*found.faults, *placing.faults],
            current=placing.current,
        )  # fmt: skip
