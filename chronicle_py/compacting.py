"""Compaction and backup: the store written anew, in the place of its file or to another.

Theory of operation. A compaction holds the write lock of the old file from the copy until after the rename, so that
nothing can be committed that the copy lacks. Its steps, and what a kill between two of them leaves:

    1  commit `moving` into the old file       the old file; its writers look twice, which is all
    2  take the write lock, copy, sync         the old file, and a leftover that the next one to open or compact removes
    3  rename, a fresh lock file, sync folder  the new file; whoever still gets the old one's lock finds `moving`, sees
                                               that the path names another file, and goes there
    4  commit `moved` into the old file        the new file; `moved` says the same without a look
    5  let go, open the new file

So `moved` is never in the file that the path names, and no commit is acknowledged in a file without a name. The copy
has neither mark, and the highest epoch. Snapshots of the old file go on until they end.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING
from uuid import uuid4

import msgspec

from chronicle_py import records
from chronicle_py.errors import ChronicleError, InvalidOperation, ReadOnly
from chronicle_py.kv import META, Progress
from chronicle_py.lmdb_copy import sync_file
from chronicle_py.shown import shown
from chronicle_py.transaction import Transaction, transaction

if TYPE_CHECKING:
    from chronicle_py.engine import Engine


class CompactReport(msgspec.Struct, frozen=True):
    """What `store.compact` did. Bytes of the file."""

    before: int
    after: int


def compact(engine: Engine, progress: Progress | None) -> CompactReport:
    """Writes the file anew and replaces it."""
    if sys.platform == "win32":
        raise InvalidOperation(
            "compact replaces an open file, which Windows does not allow; use backup, and move files"
        )
    if engine.running() is not None:
        raise InvalidOperation("compact is a transaction of its own; leave the open one first")
    before = engine.kv.file_size()[0]
    with transaction(engine) as tx:
        _mark(tx, records.META_MOVING)
    engine.kv.watched = True
    try:
        with transaction(engine) as tx:
            tx.written_behind = False
            _replace(tx, progress)
    except BaseException:
        with suppress(ChronicleError):
            _unmark(engine)
        raise
    finally:
        if engine.kv.replaced():
            engine.kv.reopen()
    return CompactReport(before, engine.kv.file_size()[0])


def _mark(tx: Transaction, mark: bytes) -> None:
    tx.writer.put(META, mark, records.seal(mark, b""))
    tx.engine.raise_epoch_for_all(tx)


def _replace(tx: Transaction, progress: Progress | None) -> None:
    kv = tx.engine.kv
    _mark(tx, records.META_MOVED)
    with suppress(FileNotFoundError):
        os.unlink(kv.compact_path)
    try:
        _make(kv.compact_path)
        changes = {records.META_MOVING: None, records.META_MOVED: None, records.META_EPOCH: _next_epoch(tx)}
        tx.writer.copy_to(kv.compact_path, kv.map_size, changes, progress)
        kv.put_in_place()
    except BaseException:
        with suppress(OSError):
            os.unlink(kv.compact_path)
        raise


def _next_epoch(tx: Transaction) -> bytes:
    """The epoch after that of the old file: a thread that knows the new file's must not take the old one for it."""
    key = records.META_EPOCH
    number = int.from_bytes(records.unseal(key, tx.writer.get(META, key) or b"", "the epoch"), "big")
    return records.seal(key, (number + 1).to_bytes(8, "big"))


def _unmark(engine: Engine) -> None:
    with transaction(engine) as tx:
        if tx.writer.delete(META, records.META_MOVING):
            engine.raise_epoch_for_all(tx)


def _make(path: str) -> None:
    """An empty file for this user alone; it must not be there yet."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError as error:
        raise ReadOnly(f"{path} cannot be made: {error.strerror}") from error


def backup(engine: Engine, path: str | os.PathLike[str], progress: Progress | None) -> int:
    """Writes one consistent snapshot to a new file; its bytes."""
    if engine.running() is not None:
        raise InvalidOperation("backup copies what is committed; leave the open transaction first")
    try:
        target = os.path.abspath(os.fsdecode(path))
    except TypeError:
        raise InvalidOperation(f"backup takes the path of a new file, not {shown(path)}") from None
    if os.path.lexists(target):
        raise InvalidOperation(f"{target} is there already, and a backup overwrites nothing; name a new file")
    part = f"{target}.{uuid4().hex[:8]}.part"
    _make(part)
    try:
        with engine.read() as reader:
            reader.copy_to(part, engine.kv.map_size, {records.META_MOVING: None}, progress)
        _name(part, target)
    finally:
        with suppress(OSError):
            os.unlink(part)
    return os.stat(target).st_size


def _name(part: str, target: str) -> None:
    """Gives a finished file its name, unless something has it meanwhile."""
    try:
        try:
            os.link(part, target)
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            if os.path.lexists(target):
                raise
            os.rename(part, target)
        sync_file(os.path.dirname(target))
    except FileExistsError:
        raise InvalidOperation(f"{target} appeared while the backup was made; name a new file") from None
    except OSError as error:
        raise ReadOnly(f"{target} cannot be made: {error.strerror}") from error
