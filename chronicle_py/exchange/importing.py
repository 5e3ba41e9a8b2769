"""Importing an export of a store, in one transaction. Conversations of other programs: `context/importers`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import BinaryIO, Final

from chronicle_py.errors import InvalidOperation, NotFound
from chronicle_py.exchange.faults import Imported
from chronicle_py.exchange.restoring import restore
from chronicle_py.names import check_branch
from chronicle_py.store import Store

Progress = Callable[[int, int], None]
_START: Final = b'{"record"'
_EVERY = 256  # lines between two reports of progress


def is_export(first: bytes, second: bytes) -> bool:
    """Whether a file is an export, by its first two lines; the very first may be damaged."""
    return first.startswith(_START) or second.startswith(_START)


def import_file(
    store: Store,
    source: str | os.PathLike[str] | BinaryIO,
    *,
    prefix: str = "",
    skip_bad: bool = False,
    progress: Progress | None = None,
) -> Imported:
    """Imports an export. All of it or, on any error, nothing.

    `prefix`: put before the names of its branches. `skip_bad`: leave bad records out instead of raising MalformedFile,
    which names the place of each. `progress(done, total)` counts bytes. An export that was imported before adds
    nothing. Costs about 15 µs an event.
    """
    if isinstance(source, str | os.PathLike):
        try:
            with open(source, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                return _import(store, file, os.fspath(source), size, prefix, skip_bad, progress)
        except OSError as error:
            raise NotFound(f"{os.fspath(source)} cannot be read: {error.strerror or error}") from None
    return _import(store, source, "the input", 0, prefix, skip_bad, progress)


def _import(
    store: Store, file: BinaryIO, name: str, size: int, prefix: str, skip_bad: bool, progress: Progress | None
) -> Imported:
    first, second = file.readline(), file.readline()
    if not is_export(first, second):
        raise InvalidOperation(
            f"{name} is no export of a store; conversations of other programs are imported with "
            "chronicle_py.context.importers.import_file, or `chronicle import`"
        )
    return import_lines(store, chain((first, second), file), name, size, prefix, skip_bad, progress)


def import_lines(
    store: Store,
    lines: Iterable[bytes],
    name: str = "the input",
    size: int = 0,
    prefix: str = "",
    skip_bad: bool = False,
    progress: Progress | None = None,
) -> Imported:
    """Imports the lines of an export; see `import_file`. `name` stands for it in errors; `size` in bytes, if known."""
    if prefix:
        check_branch(prefix + "x")
    return restore(store, name, _counted(iter(lines), size, progress), prefix, skip_bad)


def _counted(lines: Iterator[bytes], size: int, progress: Progress | None) -> Iterator[tuple[int, bytes]]:
    done = 0
    for number, line in enumerate(lines, 1):
        if line:
            yield number, line
        done += len(line)
        if progress is not None and number % _EVERY == 0:
            progress(done, max(size, done))
    if progress is not None:
        progress(done, max(size, done))
