"""The key-value interface on LMDB. The only file that imports lmdb.

What LMDB asks of its users is handled here and nowhere else:

- The map cannot safely grow while several processes use the file, so a large sparse one is reserved from the start. A
  full map or disk ends as `StoreFull`; the transaction is gone, what was committed before is untouched.
- One process must open one file once. Opens are counted in `_open_files`, keyed by device and inode, and share one
  environment.
- An environment must not be used across fork(). The child opens the file anew, at its next use, and never touches what
  it inherited: freeing that would give the parent's reader slots away.
- A reader that was killed keeps its slot, and with it the pages of its snapshot; stale slots are cleared at open, when
  the table is full, and by writers once a second.
- Readers and locks live in the lock file, written through a map. A hole in it would end the process (SIGBUS) when the
  disk is full, so that all of it is reserved before it is mapped.
- The file may be replaced under us (a compaction, a backup put back). Each write, and at most every 20 ms a read, looks
  whether the path still names the open file, and opens it anew if not. A lock file counts the transactions of one data
  file: beside another one it would lead readers to the wrong pages. So the first to notice removes it, and a file that
  is opened beside a foreign one is refused.
- A compaction replaces the file itself (`put_in_place`), holding the write lock of the old one. It renames and removes
  the lock file in one block (`_alone_in`) in which others open neither, so that the pair is never mixed. A process that
  waited for the old file's lock finds a mark in it, see engine.py; and if the compaction was killed before it made the
  mark, the file is `watched`: whoever gets the lock then looks again whether the path still names it.
- LMDB trusts its pages. A file that is no LMDB file, or was cut short, is refused before LMDB maps it.
"""

from __future__ import annotations

import errno
import os
import stat as modes
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from types import TracebackType
from typing import Any, Final, NoReturn, Self

import lmdb
import lmdb._envid
import lmdb.verify

from chronicle_py.errors import ChronicleError, CorruptStore, InvalidOperation, NotFound, ReadOnly, StoreFull
from chronicle_py.kv import SPACE_NAMES, Progress, Reader, Writer
from chronicle_py.lmdb_copy import copy_snapshot, sync_file
from chronicle_py.lmdb_env import open_env
from chronicle_py.rescue.layout import PageFile
from chronicle_py.rescue.walk import walk
from chronicle_py.shown import shown

if sys.platform != "win32":  # there, an open file cannot be replaced either
    import fcntl

DATA_FILE: Final = "chronicle.lmdb"  # inside a folder
DEFAULT_MAP_SIZE: Final = 64 << 30 if sys.maxsize > 1 << 32 and os.name == "posix" else 1 << 30
MAX_MAP_SIZE: Final = 64 << 40  # half of what processes can address on x86-64
MAX_READERS: Final = 1024
_LOOK_EVERY: Final = 0.02  # seconds between two looks at whether the file was replaced, for reads
_FRESH: Final = "-new"  # ends the name of a lock file that is about to replace one
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_CLEAR_EVERY: Final = 1.0  # seconds between two looks of a writer for readers that were killed
_LOCK_SIZE: Final = 64 * (MAX_READERS + 16)  # bytes of a lock file: a cache line for each reader, a few for the locks

_SMALLEST: Final = 8192  # bytes of a store: two pages
_PAGE_HEADER: Final = 16
_MAGIC: Final = 0xBEEFC0DE


def _refuse(error: Exception, doing: str, path: str) -> NoReturn:
    """Turns what LMDB raised into what a caller can act on."""
    text = str(error)
    if "closed/deleted" in text:
        raise InvalidOperation(f"{doing} {path}: the store was closed meanwhile; open it again") from error
    if isinstance(error, lmdb.MapFullError):
        raise StoreFull(
            f"{doing} {path}: the store has reached the size reserved for it, and nothing of this write was kept. "
            "Open it with a larger map_size (bytes), in every process that uses it"
        ) from error
    if any(word in text for word in ("No space left", "File too large", "quota")):
        raise StoreFull(f"{doing} {path}: {text}. Nothing of this write was kept; free some space and go on") from error
    if "Input/output error" in text:  # LMDB's word for a write of which the disk took only a part
        raise StoreFull(f"{doing} {path}: {text}. The disk is full or fails; nothing of this write was kept") from error
    if isinstance(error, lmdb.ReadonlyError) or "Permission denied" in text or "Read-only file system" in text:
        raise ReadOnly(
            f"{doing} {path}: {text}. Readers too write the lock file beside it (readonly=True needs none on a "
            "read-only file system): give this user the right to, or open a copy"
        ) from error
    if isinstance(error, lmdb.ReadersFullError):
        raise InvalidOperation(
            f"{doing} {path}: {MAX_READERS} readers are at work on it at once; close some"
        ) from error
    if isinstance(error, lmdb.CorruptedError | lmdb.PageNotFoundError | lmdb.PanicError | lmdb.InvalidError):
        raise CorruptStore(
            f"{doing} {path}: {text}. `chronicle verify` lists what is damaged; restore a backup"
        ) from error
    if isinstance(error, lmdb.BadValsizeError):
        raise InvalidOperation(f"{doing} {path}: a key or value is larger than LMDB takes: {text}") from error
    raise ChronicleError(f"{doing} {path}: {text}") from error


class LmdbReader:
    """A snapshot of the file."""

    __slots__ = ("_dbs", "_path", "_txn", "snapshot", "version")

    def __init__(self, txn: lmdb.Transaction, dbs: list[Any], path: str, generation: int = -1) -> None:
        self._txn: Any = txn
        self._dbs = dbs
        self._path = path
        self.version: int = txn.id()
        self.snapshot = (generation, self.version) if generation >= 0 else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._txn.abort()

    def get(self, space: int, key: bytes) -> bytes | None:
        try:
            found: bytes | None = self._txn.get(key, None, self._dbs[space])
            return found
        except lmdb.Error as error:
            _refuse(error, "reading", self._path)

    def take(self, space: int, start: bytes, count: int, reverse: bool = False) -> list[bytes]:
        return self._column(space, start, count, reverse, keys=False)

    def keys(self, space: int, start: bytes, count: int, reverse: bool = False) -> list[bytes]:
        return self._column(space, start, count, reverse, keys=True)

    def _column(self, space: int, start: bytes, count: int, reverse: bool, keys: bool) -> list[bytes]:
        try:
            cursor = self._txn.cursor(self._dbs[space])
            if reverse:
                if not self._seek_back(cursor, start):
                    return []
                return list(islice(cursor.iterprev(keys=keys, values=not keys), count))
            if not cursor.set_range(start):
                return []
            return list(islice(cursor.iternext(keys=keys, values=not keys), count))
        except lmdb.Error as error:
            _refuse(error, "reading", self._path)

    def scan(
        self, space: int, start: bytes, stop: bytes | None = None, *, limit: int | None = None, reverse: bool = False
    ) -> list[tuple[bytes, bytes]]:
        found: list[tuple[bytes, bytes]] = []
        try:
            cursor = self._txn.cursor(self._dbs[space])
            if not (self._seek_back(cursor, start) if reverse else cursor.set_range(start)):
                return found
            for key, value in islice(cursor.iterprev() if reverse else cursor.iternext(), limit):
                if stop is not None and (key <= stop if reverse else key >= stop):
                    break
                found.append((key, value))
        except lmdb.Error as error:
            _refuse(error, "reading", self._path)
        return found

    @staticmethod
    def _seek_back(cursor: lmdb.Cursor, start: bytes) -> bool:
        """Stands on the last key <= start."""
        if not cursor.set_range(start):
            return bool(cursor.last())
        return cursor.key() == start or bool(cursor.prev())

    def count(self, space: int) -> int:
        return int(self._txn.stat(self._dbs[space])["entries"])

    def copy_to(
        self, path: str, map_size: int, changes: Mapping[bytes, bytes | None], progress: Progress | None = None
    ) -> None:
        """Writes what this snapshot has to a new file, and returns when it is on disk. `changes`: records of `meta`
        that differ there (None: missing)."""
        try:
            copy_snapshot(self._txn, self._dbs, path, map_size, changes, self.version - 1, progress)
        except lmdb.Error as error:
            _refuse(error, "writing the copy", path)

    def page_bytes(self, space: int) -> int:
        stat = self._txn.stat(self._dbs[space])
        return int(stat["psize"]) * int(stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"])


class LmdbWriter(LmdbReader):
    """The one write transaction."""

    __slots__ = ("committed",)

    def __init__(self, txn: lmdb.Transaction, dbs: list[Any], path: str) -> None:
        self._txn: Any = txn
        self._dbs = dbs
        self._path = path
        self.version: int = txn.id()
        self.snapshot = None
        self.committed = False

    def put(self, space: int, key: bytes, value: bytes, append: bool = False, overwrite: bool = True) -> None:
        try:
            self._txn.put(key, value, True, overwrite, append, self._dbs[space])
        except lmdb.Error as error:
            _refuse(error, "writing to", self._path)

    def put_many(
        self, space: int, items: Iterable[tuple[bytes, bytes]], append: bool = False, overwrite: bool = True
    ) -> None:
        try:
            self._txn.cursor(self._dbs[space]).putmulti(items, overwrite=overwrite, append=append)
        except lmdb.Error as error:
            _refuse(error, "writing to", self._path)

    def delete(self, space: int, key: bytes) -> bool:
        try:
            return bool(self._txn.delete(key, db=self._dbs[space]))
        except lmdb.Error as error:
            _refuse(error, "writing to", self._path)

    def commit(self) -> None:
        try:
            self._txn.commit()
        except lmdb.Error as error:
            with suppress(lmdb.Error):
                self._txn.abort()
            _refuse(error, "committing to", self._path)
        except BaseException as error:
            self.committed = not isinstance(error, Exception)  # an interrupt waits until LMDB's call is over
            raise
        self.committed = True

    def abort(self) -> None:
        self._txn.abort()


class LmdbFile:
    """An open file, shared by all stores of this process that use it."""

    def __init__(self, path: str, *, readonly: bool, durable: bool, map_size: int) -> None:
        self.path = path
        self.readonly = readonly
        self.durable = durable
        self.generation = 0
        self.map_size = map_size
        self.users = 0
        self.lock = threading.RLock()  # held by the writer of this process, see engine.py; no thread takes it twice
        self.writer: Any = None  # that writer's Transaction
        self.bells: set[Callable[[], None]] = set()  # called after each commit here, for those who wait for one
        self.watched = False  # a compaction is at work on the file, or was killed
        self._opening = threading.Lock()
        self._forked = False
        self._looked = 0.0
        self._cleared = time.monotonic()
        self._folder = os.path.dirname(path)
        self._folder_time = 0
        with _alone_in(self._folder):
            env = self._attach()
        self._open(env)

    # --- opening ---

    def _attach(self) -> lmdb.Environment:
        """Opens the file and the lock file that the path names. Inside `_alone_in`, so that they belong together; waits
        for no writer, since one may be waiting for that block."""
        new = _size(self.path) == 0
        try:
            _reserve(self.path + "-lock")
            env = open_env(
                self.path,
                map_size=self.map_size,
                max_dbs=len(SPACE_NAMES) + 5,
                max_readers=MAX_READERS,
                max_spare_txns=8,
                readonly=self.readonly,
                create=not self.readonly,
                mode=0o600,
                sync=self.durable,
                metasync=self.durable,
                lock=True,
            )
        except (lmdb.Error, OSError) as error:
            if new and 0 < _size(self.path) < _SMALLEST:  # a disk that filled up: no store yet, and never one
                with suppress(OSError):
                    os.unlink(self.path)
            _refuse(error, "opening", self.path)
        identity = _identity(self.path)
        if identity is None:
            env.close()
            raise NotFound(f"opening {self.path}: the file is gone again")
        self._attached = identity, _identity(self.path + "-lock")
        return env

    def _open(self, env: lmdb.Environment) -> None:
        try:
            if not self.readonly:
                env.reader_check()
            self._check_lock(env)
            dbs = self._open_spaces(env)
        except BaseException:
            env.close()
            raise
        self.identity, self._lock_identity = self._attached
        self._env, self._dbs = env, dbs
        self.watched = False

    def _check_lock(self, env: lmdb.Environment) -> None:
        """Refuses a lock file that counts the transactions of another data file, one that still is in use elsewhere."""
        for _ in range(50):
            with env.begin() as txn:
                counted = txn.id()
            if counted == env.info()["last_txnid"]:
                return
            time.sleep(0.001)  # another process is between its commit and counting it
        raise InvalidOperation(
            f"opening {self.path}: this file was put in the place of another one that a process still has open; close "
            "the store there and open this one again"
        )

    def _open_spaces(self, env: lmdb.Environment) -> list[Any]:
        try:
            with env.begin() as txn:
                new = not txn.stat()["entries"]
            if self.readonly:
                if new:
                    raise InvalidOperation(
                        f"opening {self.path}: the file holds no store; open it without readonly=True"
                    )
                return [env.open_db(name.encode(), create=False) for name in SPACE_NAMES]
            # py-lmdb keeps handles of write transactions only, so that this waits for whoever is writing.
            with env.begin(write=True) as txn:
                if _identity(self.path) == self._attached[0]:  # no compaction is at work: it would hold this lock
                    for left in (self.compact_path, f"{self.path}-lock{_FRESH}"):
                        with suppress(OSError):
                            os.unlink(left)
                return [env.open_db(name.encode(), txn=txn, create=new) for name in SPACE_NAMES]
        except lmdb.NotFoundError:
            raise InvalidOperation(
                f"opening {self.path}: this LMDB file belongs to another program, not to chronicle. Choose another path"
            ) from None
        except lmdb.Error as error:
            _refuse(error, "opening", self.path)

    def reopen(self) -> None:
        """Opens what the path names now. Snapshots that are still open keep the old file until they end."""
        with self._opening:
            with _alone_in(self._folder):
                if not self._forked and not self.replaced():
                    return  # another thread has done it
                _check_file(self.path)
                _open_files.pop(self.identity, None)
                if _identity(self.path) != self.identity and _identity(self.path + "-lock") == self._lock_identity:
                    with suppress(OSError):
                        os.unlink(self.path + "-lock")
                env = self._attach()
            self._open(env)
            _open_files[self.identity] = self
            self.generation += 1
            self._forked = False

    def _after_fork(self) -> None:
        _abandon(self._env)
        self.lock = threading.RLock()
        self._opening = threading.Lock()
        self.writer = None
        self.bells = set()
        self._forked = True

    def _look(self) -> None:
        """Reopens when the path names another file than the open one."""
        if self._forked:
            self.reopen()
            return
        found = _identity(self.path)
        if found is None and not _may_look(self.path):
            raise ReadOnly(
                f"the store at {self.path} cannot be reached any more: permission denied. Nothing of this write was "
                "kept; give this user the right to enter its folder again and go on"
            )
        if found is None:
            raise NotFound(f"the store at {self.path} is gone from under this process; put it back or close it here")
        if found != self.identity:
            self.reopen()

    def _folder_changed(self) -> bool:
        """Whether a name in the file's folder may have changed. A look at the file itself before each durable commit
        would make that commit a fifth slower: its inode's times are then written along."""
        try:
            changed = os.stat(self._folder).st_mtime_ns
        except OSError:
            return True
        if changed == self._folder_time:
            return False
        self._folder_time = changed
        return True

    # --- transactions ---

    def read(self) -> LmdbReader:
        now = time.monotonic()
        if self._forked or now - self._looked > _LOOK_EVERY:
            self._look()
            self._looked = now
        try:
            return self._reader()
        except lmdb.ReadersFullError:
            self._env.reader_check()
        except lmdb.Error as error:
            _refuse(error, "reading", self.path)
        try:
            return self._reader()
        except lmdb.Error as error:
            _refuse(error, "reading", self.path)

    def _reader(self) -> LmdbReader:
        generation = self.generation  # before the rest: a number that is too old only makes others look again
        env, dbs = self._env, self._dbs  # of one opening, whatever other threads do
        return LmdbReader(env.begin(), dbs, self.path, generation)

    def write(self) -> LmdbWriter:
        if self.readonly:
            raise ReadOnly(f"{self.path} was opened with readonly=True; open it without to write")
        now = time.monotonic()
        if self._forked or now - self._looked > _LOOK_EVERY or (self.durable and self._folder_changed()):
            self._look()
            self._looked = now
        try:
            env, dbs = self._env, self._dbs
            if now - self._cleared > _CLEAR_EVERY:
                self._cleared = now
                env.reader_check()
            writer = LmdbWriter(env.begin(write=True), dbs, self.path)
            while env is not self._env or (self.watched and self.replaced()):
                writer.abort()
                self.reopen()
                env, dbs = self._env, self._dbs
                writer = LmdbWriter(env.begin(write=True), dbs, self.path)
            return writer
        except lmdb.Error as error:
            _refuse(error, "writing to", self.path)

    def ring(self) -> None:
        """Tells those in this process who wait that there may be something new."""
        for bell in tuple(self.bells):
            bell()

    def replaced(self) -> bool:
        """Whether the path names another file than the open one."""
        return _identity(self.path) != self.identity

    def reads_now(self, reader: Reader) -> bool:
        """Whether a snapshot is of the file that is open now, not of one that was open before."""
        return isinstance(reader, LmdbReader) and reader._dbs is self._dbs

    # --- compaction ---

    @property
    def compact_path(self) -> str:
        """Where a compaction writes. Whoever holds the write lock may remove what lies there."""
        return self.path + "-compact"

    def put_in_place(self) -> None:
        """Has the path name what was written to `compact_path`, which whoever calls must have done holding the write
        lock, and goes on doing so. The open file has no name then; this and other processes have to reopen."""
        lock = self.path + "-lock"
        with suppress(OSError):
            found = os.stat(self.path)
            os.chmod(self.compact_path, modes.S_IMODE(found.st_mode))
            os.chown(self.compact_path, found.st_uid, found.st_gid)
        try:
            with _alone_in(self._folder):
                fresh = _fresh_lock(lock)  # first: without room for it nobody could open the new file
                os.rename(self.compact_path, self.path)
                _new_lock(fresh, lock)
                sync_file(self._folder)
        except OSError as error:
            if error.errno in _NO_ROOM:
                _refuse(error, "compacting", self.path)
            raise ReadOnly(
                f"compacting {self.path}: {error}. Give this user the right to replace files there"
            ) from error

    def sync(self) -> None:
        try:
            self._env.sync(True)
        except lmdb.Error as error:
            _refuse(error, "syncing", self.path)

    # --- figures ---

    def sizes(self) -> dict[str, dict[str, int]]:
        with self.read() as reader:
            return {
                name: {"entries": reader.count(number), "bytes": reader.page_bytes(number)}
                for number, name in enumerate(SPACE_NAMES)
            }

    def file_size(self) -> tuple[int, int]:
        with self.read() as reader:
            used = sum(reader.page_bytes(number) for number in range(len(SPACE_NAMES)))
        psize = int(self._env.stat()["psize"])
        end = (int(self._env.info()["last_pgno"]) + 1) * psize
        return os.stat(self.path).st_size, max(0, end - used - 3 * psize)

    # --- closing ---

    def close(self) -> None:
        """Gives up one use; the last one closes the file."""
        with _registry:
            self.users -= 1
            if self.users > 0:
                return
        # A transaction of another thread must end first: LMDB would make it void, and then wait for it to end.
        with self.lock, _registry:
            if self.users > 0:
                return  # opened again meanwhile
            if _open_files.get(self.identity) is self:
                del _open_files[self.identity]
            if not self._forked:
                self._env.close()


_open_files: dict[tuple[int, int], LmdbFile] = {}
_registry = threading.Lock()
_find_problems: Callable[..., list[str]] = lmdb.verify.verify
_keys_of_path: Callable[[str, bool], tuple[Any, ...]] = lmdb._envid.env_keys


def _identity(path: str) -> tuple[int, int] | None:
    """The file that a path names now, or None."""
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


def _may_look(path: str) -> bool:
    """False where this user may not even see whether there is a file."""
    try:
        os.stat(path)
    except PermissionError:
        return False
    except OSError:
        pass
    return True


def _size(path: str) -> int:
    """Bytes of a file; 0 where there is none, or none that this user may see."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _reserve(lock: str) -> None:
    """Gives a lock file all its blocks, a new one its size as well. OSError when the disk has no room for them."""
    if not hasattr(os, "posix_fallocate"):
        return
    try:
        found = os.stat(lock)
        size, holds = found.st_size, found.st_blocks * 512
    except OSError:
        size = holds = 0
    if size and holds >= size:
        return  # also because closing a file gives up what locks this process has on it
    try:
        file = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return  # LMDB opens it too, and says what is wrong; on a read-only file system it does without
    try:
        os.posix_fallocate(file, 0, size or _LOCK_SIZE)
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise
    finally:
        os.close(file)


@contextmanager
def _alone_in(folder: str) -> Iterator[None]:
    """Waits for other processes that are in such a block for the same folder."""
    if sys.platform == "win32":
        yield
        return
    try:
        held = os.open(folder, os.O_RDONLY)
    except OSError:  # a folder that may be used but not listed
        yield
        return
    try:
        with suppress(OSError):  # a file system without such locks
            fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


def _new_lock(fresh: str, path: str) -> None:
    """Puts a fresh lock file in the place of one that others go on using."""
    os.rename(fresh, path)


def _fresh_lock(path: str) -> str:
    """Makes such a file, with the same rights and all its blocks; its path. A killed one's is removed at opening."""
    mode = modes.S_IMODE(os.stat(path).st_mode)
    fresh = path + _FRESH
    os.close(os.open(fresh, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, mode))
    try:
        os.chmod(fresh, mode)
        _reserve(fresh)
    except OSError:
        os.unlink(fresh)
        raise
    return fresh


def _keys_of_process(path: str, subdir: bool) -> tuple[Any, ...]:
    return tuple((os.getpid(), key) for key in _keys_of_path(path, subdir))


def _abandon(env: lmdb.Environment) -> None:
    """Keeps an inherited environment from ever being freed, also when the interpreter ends."""
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(env))


def _after_fork_in_child() -> None:
    global _registry
    _registry = threading.Lock()
    # py-lmdb refuses to open a file twice in one process, and takes the parent's environments for this one's.
    lmdb._envid.env_keys = _keys_of_process
    for file in list(_open_files.values()):
        file._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def open_file(
    path: str | os.PathLike[str], *, readonly: bool, create: bool, durable: bool, map_size: int | None
) -> LmdbFile:
    """Opens the store file at `path`, or shares it where this process has it open already."""
    file_path = _file_path(path, create=create and not readonly)
    size = DEFAULT_MAP_SIZE if map_size is None else map_size
    if not isinstance(size, int) or not 1 << 20 <= size <= MAX_MAP_SIZE:
        raise InvalidOperation(
            f"map_size is a number of bytes from {1 << 20:,} to {MAX_MAP_SIZE:,}, not {shown(map_size)}"
        )
    with _registry:
        try:
            stat = os.stat(file_path)
            shared = _open_files.get((stat.st_dev, stat.st_ino))
        except OSError:
            shared = None
        if shared is None:
            _check_file(file_path)
            shared = LmdbFile(file_path, readonly=readonly, durable=durable, map_size=size)
            _open_files[shared.identity] = shared
        elif shared.readonly and not readonly:
            raise InvalidOperation(
                f"this process has {file_path} open read-only already; close that store before opening it to write"
            )
        elif shared.durable != durable and not readonly:
            raise InvalidOperation(
                f"this process has {file_path} open with durability={'full' if shared.durable else 'relaxed'!r} "
                "already; open it with the same, or close that store first"
            )
        shared.users += 1
    return shared


def _file_path(path: str | os.PathLike[str], *, create: bool) -> str:
    """The data file that a user's path means: an existing folder or a trailing "/" is a folder, all else one file."""
    try:
        text = os.fsdecode(path)
    except TypeError:
        raise InvalidOperation(f"a store's path is a str or a path object, not {shown(path)}") from None
    if not text or "\0" in text:
        raise InvalidOperation(f"a store's path may not be empty or contain NUL: {shown(text)}")
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise InvalidOperation(f"a store's path is valid Unicode, without lone surrogates: {shown(text)}") from None
    folder = text.endswith(os.sep) or os.path.isdir(text)
    file_path = os.path.abspath(os.path.join(text, DATA_FILE) if folder else text)
    if os.path.exists(file_path):
        return os.path.realpath(file_path)
    if not create:
        raise NotFound(f"there is no store at {text}; chronicle.open(path) or `chronicle init` makes one")
    parent = os.path.dirname(file_path)
    try:
        if folder:
            os.makedirs(parent, exist_ok=True)
        elif not os.path.isdir(parent):
            raise NotFound(f"the folder {parent} of the store {text} does not exist; make it first")
    except OSError as error:
        raise ReadOnly(f"the folder {parent} of the store {text} cannot be made: {error}") from error
    return file_path


def _check_file(path: str) -> None:
    """Refuses what LMDB would crash on: no LMDB file at all, or one that was cut short."""
    looked: tuple[int, list[tuple[int, int]]] | None = None
    while True:
        found = _measured(path)
        if found is None:
            return
        size, needed, ends = found
        if size >= needed:
            return
        if looked == (size, ends):
            break
        looked = size, ends
        # Pages that were taken and given back inside one transaction are never written, so that a sound file may end a
        # little early. Only a walk over the pages tells such a one from a file that was cut; and what a walk says of a
        # file that others write to meanwhile means nothing.
        with PageFile(path) as pages:
            problems = walk(pages).problems
        if not problems:
            return
    raise CorruptStore(
        f"{path} was cut short or damaged ({size:,} bytes, its pages reach to {needed:,}): {problems[0].where} "
        f"{problems[0].what}. Restore a backup, or save what can be with `chronicle salvage`"
    )


def _measured(path: str) -> tuple[int, int, list[tuple[int, int]]] | None:
    """A file's bytes, how many its pages need, and the ends that its meta pages name. None: it is new, or not there."""
    try:
        kind = os.stat(path).st_mode
        if not modes.S_ISREG(kind) and not modes.S_ISDIR(kind):
            raise InvalidOperation(f"{path} is no file but a device, pipe or socket. Choose another path")
        with open(path, "rb") as file:
            start = file.read(_PAGE_HEADER + 136)
            size = os.fstat(file.fileno()).st_size
            if len(start) < _PAGE_HEADER + 136 or struct.unpack_from("=I", start, _PAGE_HEADER)[0] != _MAGIC:
                if size == 0:
                    return None
                raise InvalidOperation(f"{path} is not a chronicle store: it is no LMDB file. Choose another path")
            page = struct.unpack_from("=I", start, _PAGE_HEADER + 24)[0]
            ends = [_last_page(start)]
            file.seek(page)
            second = file.read(_PAGE_HEADER + 136)
            if len(second) == _PAGE_HEADER + 136:
                ends.append(_last_page(second))
            size = os.fstat(file.fileno()).st_size  # last: writers put the pages before the meta page that needs them
    except FileNotFoundError:
        return None
    except IsADirectoryError:
        raise InvalidOperation(f"{path} is a folder, a store's data file was expected there") from None
    except PermissionError as error:
        raise ReadOnly(f"{path} cannot be read: {error}. Give this user access to the file") from None
    return size, (max(ends)[1] + 1) * page, ends


def data_file(path: str | os.PathLike[str]) -> str:
    """The data file of a store that must exist, sound or not; NotFound or InvalidOperation where none can be."""
    found = _file_path(path, create=False)
    if not os.path.isfile(found):
        raise InvalidOperation(f"{found} is no file. A store is a file, or a folder with {DATA_FILE} in it")
    return found


def engine_problems(path: str) -> list[str]:
    """What py-lmdb's own checker finds wrong with a file that was found to be sound: a second opinion."""
    try:
        return _find_problems(path, subdir=False)
    except (lmdb.verify.VerifyError, OSError, ValueError, struct.error) as error:
        return [str(error)]


def _last_page(meta: bytes) -> tuple[int, int]:
    """(transaction number, last page in use) of a meta page."""
    last, txn = struct.unpack_from("=QQ", meta, _PAGE_HEADER + 120)
    return txn, last


def _conforms(reader: LmdbReader, writer: LmdbWriter) -> tuple[Reader, Writer]:
    return reader, writer
