"""What a `Store` and its branches share: the open file, the caches, and who may read and write when.

Two things are decided here and nowhere else. *Which snapshot a read uses*: the running transaction's where it belongs
to the calling thread and task, else a new one. *What is still true of what was remembered*: everything that was derived
from committed events stays true while the `epoch` in the store stays the same; it rises with each registration,
erasure, collection and compaction. A transaction that ends in an abort takes everything with it that was remembered
since, by dropping all of it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from chronicle_py import records
from chronicle_py.checkpoints import Checkpoints
from chronicle_py.errors import FormatVersion, InvalidOperation, ReadOnly
from chronicle_py.event import SALT_SIZE, EventType
from chronicle_py.group_commit import GroupCommit
from chronicle_py.kv import META, Reader, ReadScope, Writer
from chronicle_py.lineages import Lineages
from chronicle_py.lmdb_kv import LmdbFile
from chronicle_py.log import Log
from chronicle_py.objects import Objects
from chronicle_py.shown import shown
from chronicle_py.slots import SlotTable
from chronicle_py.transaction import Tip, Transaction, current_task

Clock = Callable[[], int]
Entropy = Callable[[int], bytes]
T = TypeVar("T")
_SALTS = 256  # drawn from the system at once


def system_clock() -> int:
    """µs since the epoch."""
    return time.time_ns() // 1000


def _checked(clock: Clock) -> Clock:
    """A clock of the application's, whose every answer can be stored."""

    def now() -> int:
        found = clock()
        if type(found) is not int or not -(1 << 63) <= found < 1 << 63:
            raise InvalidOperation(f"the store's clock returns µs since the epoch as an int, not {shown(found)}")
        return found

    return now


def _let_go(lock: threading.RLock) -> None:
    """Releases the lock if this thread has it: an interrupt can come right after it was acquired, before we know."""
    with suppress(RuntimeError):  # it has not
        lock.release()


def check_format(path: str, found: int, readonly: bool) -> None:
    """An older format is read as it is, and written to after a migration; a newer one is not touched."""
    if found > records.FORMAT or found < 1:
        raise FormatVersion(
            f"{path} is a store of format {found} and this version of chronicle-py knows formats up to "
            f"{records.FORMAT}. Upgrade chronicle-py"
        )
    if found < records.FORMAT and not readonly:
        raise FormatVersion(
            f"{path} is a store of format {found}, which this version of chronicle-py reads but does not write. "
            f"`chronicle migrate` brings it to format {records.FORMAT}; or open it with readonly=True"
        )


class Engine:
    """The inside of one open store."""

    def __init__(
        self,
        file: LmdbFile,
        *,
        readonly: bool,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
        checked: bool = True,
    ) -> None:
        """`checked`: refuse a format that is not this version's; without, whatever is there is looked at."""
        self.kv = file
        self.readonly = readonly
        for name, source in (("clock", clock), ("entropy", entropy)):
            if source is not None and not callable(source):
                raise InvalidOperation(f"{name}= is a function, as chronicle.open says, not {shown(source)}")
        self.clock = system_clock if clock is None else _checked(clock)
        self._entropy = entropy
        self.salts: list[bytes] = []
        self.closed = False
        self.event_types: dict[str, EventType] = {}
        self.lineages = Lineages()
        self.objects = Objects(self)
        self.log = Log(self.lineages)
        self.slots = SlotTable(self)
        self.checkpoints = Checkpoints(self)
        self.group = GroupCommit(self)
        self._tip: Tip | None = None
        self._version = -1  # of the newest snapshot seen
        self._generation = file.generation
        self._epoch = b""
        if checked:
            self._prepare()

    # --- opening ---

    def _prepare(self) -> None:
        """Checks the format, or writes what a new store starts with."""
        with self.kv.read() as reader:
            if self._check_format(reader):
                return
        if self.kv.readonly:
            raise InvalidOperation(f"{self.kv.path} holds no store yet; open it once without readonly=True")
        self._create()

    def _check_format(self, reader: Reader) -> bool:
        """Whether there is a store; FormatVersion when it is of a format that this version cannot use so."""
        found = reader.get(META, records.META_FORMAT)
        if found is None:
            return False
        check_format(self.kv.path, records.format_of(found), self.readonly)
        return True

    def _create(self) -> None:
        writer = self.kv.write()
        try:
            if writer.get(META, records.META_FORMAT) is None:
                for key, body in (
                    (records.META_FORMAT, records.FORMAT.to_bytes(4, "big")),
                    (records.META_STORE, self.random(16)),
                    (records.META_EPOCH, (1).to_bytes(8, "big")),
                ):
                    writer.put(META, key, records.seal(key, body))
                self.create_main(writer)
        except BaseException:
            writer.abort()
            raise
        writer.commit()

    def create_main(self, writer: Writer) -> None:
        tx = Transaction(self, writer, Tip(writer.version, self.kv.generation))
        now = self.clock()
        tx.move("create", "main", None, records.Ref(0, 0, b"", False, now, None, 0), now)
        tx.flush()

    # --- injected impurities ---

    def random(self, size: int) -> bytes:
        source = self._entropy or os.urandom
        found = source(size)
        if not isinstance(found, bytes) or len(found) != size:
            raise InvalidOperation(f"the store's entropy was asked for {size} bytes and returned {shown(found)}")
        return found

    def salt(self) -> bytes:
        if self._entropy is not None:
            return self.random(SALT_SIZE)
        if not self.salts:
            drawn = os.urandom(SALT_SIZE * _SALTS)
            self.salts = [drawn[i : i + SALT_SIZE] for i in range(0, len(drawn), SALT_SIZE)]
        return self.salts.pop()

    # --- reading ---

    def read(self) -> ReadScope:
        """A snapshot for the calling thread and task; its `with` block closes it."""
        if self.closed:
            raise self._was_closed()
        tx: Transaction | None = self.kv.writer
        if tx is not None and tx.engine is self and tx.mine():
            if not tx.abandoned:
                tx.flush()
                return tx.scope
            self._give_up(tx)
        reader = self.kv.read()
        if reader.version != self._version or self._generation != self.kv.generation:
            try:
                while self._notice(reader):
                    reader.__exit__(None, None, None)
                    reader = self.kv.read()
            except BaseException:
                reader.__exit__(None, None, None)
                raise
        return reader

    def _notice(self, reader: Reader) -> bool:
        """Drops what a foreign change may have made wrong. True: the file was moved and has been opened anew."""
        if self._generation != self.kv.generation:
            if not self._check_format(reader):
                raise InvalidOperation(f"{self.kv.path} was replaced by a file that holds no store; put the store back")
            self._generation = self.kv.generation
            self.salts = []
            self._tip = None
            self.forget()
        epoch = reader.get(META, records.META_EPOCH) or b""
        if epoch != self._epoch:
            if reader.get(META, records.META_MOVED) is not None:
                self.kv.reopen()
                if not self.kv.reads_now(reader):
                    return True
                # Somebody gave the file its name back: it is the store again.
            if reader.get(META, records.META_MOVING) is not None:  # and perhaps killed before it said `moved`
                self.kv.watched = True
                if self.kv.replaced():
                    self.kv.reopen()
                    return True
            if self._epoch:
                self.forget()
            self.checkpoints.since = reader.snapshot or (self.kv.generation, reader.version - 1)
            self._epoch = epoch
        self._version = reader.version
        return False

    def forget(self) -> None:
        """Drops all that is remembered of the store. Right at any time, and slow after."""
        self._epoch = b""
        self._version = -1
        self.lineages.forget()
        self.objects.forget()
        self.slots.forget()
        self.checkpoints.forget()

    # --- writing ---

    def running(self) -> Transaction | None:
        """The transaction of the calling thread and task, if it has one open."""
        tx: Transaction | None = self.kv.writer
        if tx is None or tx.engine is not self or not tx.mine() or tx.abandoned or self.closed:
            return None
        return tx

    def writer(self) -> Writer:
        tx: Transaction | None = self.kv.writer
        if tx is None or tx.engine is not self or not tx.mine():
            raise InvalidOperation("objects are stored inside a transaction only")
        return tx.writer

    def run(self, work: Callable[[Transaction], T]) -> T:
        """Runs an operation in the running transaction, or in one of its own, whose commit it may share with others.

        `work` may run on another thread, and again after a failure of others: it runs no code of the caller's, and
        changes nothing but the transaction.
        """
        tx = self.begin_at_once()
        if tx is None:
            return self.group.run(work)
        start = tx.changes
        try:
            found = work(tx)
            self.end(tx, start, None)
        except BaseException as error:
            self.end(tx, start, error)
            raise
        return found

    async def arun(self, work: Callable[[Transaction], T]) -> T:
        """The same for a task, which waits without holding up its loop."""
        if self.running() is not None:
            return self.run(work)
        self._check_writable()
        return await self.group.arun(work)

    def begin(self) -> Transaction:
        """The running transaction of this thread and task, joined, or a new one. Waits for other writers."""
        tx = self.begin_at_once()
        if tx is not None:
            return tx
        lock = self.kv.lock
        try:
            lock.acquire()
            return self._begin()
        except BaseException:
            _let_go(lock)
            raise

    def begin_at_once(self) -> Transaction | None:
        """As `begin`; None where the commit should be shared with those of others that wait."""
        if self.closed:
            raise self._was_closed()
        tx: Transaction | None = self.kv.writer
        mine = tx is not None and tx.thread == threading.get_ident()
        if tx is not None and mine and tx.abandoned:
            tx.engine._give_up(tx)
            mine = False
        if tx is not None and mine:
            if tx.engine is not self:
                raise InvalidOperation(
                    f"another Store of {self.kv.path} has a transaction open on this thread; end it first, or use "
                    "one Store"
                )
            if tx.task is not current_task():
                raise InvalidOperation(
                    f"a transaction of another task is open on {self.kv.path}; a transaction belongs to the task that "
                    "began it. Do not await between its start and its end, or write from that task"
                )
            tx.depth += 1
            return tx
        if self.readonly:
            self._check_writable()
        group, lock = self.group, self.kv.lock
        try:
            if not self.kv.durable:  # then a commit costs less than to wake one who waits for it: nothing is shared
                lock.acquire()
            elif group.leader is not None or group.expected > 1 or not lock.acquire(False):
                return None
            return self._begin()
        except BaseException:
            _let_go(lock)
            raise

    def _was_closed(self) -> InvalidOperation:
        return InvalidOperation(f"the store {self.kv.path} was closed; open it again")

    def _check_writable(self) -> None:
        if self.closed:
            raise self._was_closed()
        if self.readonly:
            raise ReadOnly(f"the store {self.kv.path} was opened with readonly=True; open it without to write")

    def _begin(self) -> Transaction:
        """A new transaction. The caller has the lock."""
        if self.closed:  # while this thread waited
            raise self._was_closed()
        writer = self.kv.write()
        try:
            tip = self._tip
            if (
                tip is None
                or tip.version + 1 != writer.version
                or tip.generation != self.kv.generation
                or self._generation != self.kv.generation
                or self._version != tip.version
            ):
                while self._notice(writer):  # it may have been replaced again, while this waited for the lock
                    writer.abort()
                    writer = self.kv.write()
                tip = Tip(writer.version - 1, self.kv.generation)
            tx = Transaction(self, writer, tip)
        except BaseException:
            writer.abort()
            raise
        self._tip = None  # until it has committed
        self.kv.writer = tx
        return tx

    def end(self, tx: Transaction, start: int, error: BaseException | None) -> None:
        """Leaves a transaction; the outermost leaving commits, or aborts. `start`: its `changes` when it was joined.

        Once more with the error, after this has raised it itself (an interrupt comes at any place), does no harm.
        """
        if self.kv.writer is not tx:
            if error is not None:
                return
            raise InvalidOperation(
                f"a transaction on {self.kv.path} was open when this process was forked; it belongs to the process "
                "that began it, and nothing was written here"
            )
        tx.depth -= 1
        if error is not None:
            tx.failed(error, start)
        if tx.depth > 0:
            return
        if tx.thread != threading.get_ident():
            tx.abandoned = True
            if error is not None:
                return
            raise InvalidOperation(
                f"a transaction on {self.kv.path} ends on the thread that began it; nothing of this one is kept, and "
                "others wait until that thread uses the store again"
            )
        try:
            if error is None and tx.failure is None:
                tx.commit()
                if tx.written_behind and tx.tip.generation == self.kv.generation:
                    self._tip = tx.tip
                    self._version = tx.tip.version
                return
            self._abort(tx)
        except BaseException:
            self._abort(tx)
            raise
        finally:
            self.kv.writer = None
            self.kv.lock.release()
            if self.kv.bells:
                self.kv.ring()
        if error is None:
            raise InvalidOperation(
                f"nothing of this transaction was kept, because a part of it failed half-way: {tx.failure}"
            )

    def _give_up(self, tx: Transaction) -> None:
        """Aborts a transaction that was left on another thread."""
        try:
            self._abort(tx)
        finally:
            self.kv.writer = None
            self.kv.lock.release()

    def _abort(self, tx: Transaction) -> None:
        tx.aborted = not tx.writer.committed  # it is when an interrupt came right after its commit
        tx.writer.abort()
        self.forget()

    def raise_epoch(self, tx: Transaction) -> None:
        """Makes every other process drop what it remembers; this one has to drop what changed itself."""
        key = records.META_EPOCH
        found = tx.writer.get(META, key)
        number = int.from_bytes(records.unseal(key, found, "the epoch"), "big") if found else 0
        sealed = records.seal(key, (number + 1).to_bytes(8, "big"))
        tx.writer.put(META, key, sealed)
        self._epoch = sealed
        tx.changes += 1

    def raise_epoch_for_all(self, tx: Transaction) -> None:
        """Makes every process drop what it remembers, this one too: it finds the new epoch as the others do."""
        epoch = self._epoch
        self.raise_epoch(tx)
        self._epoch = epoch
        self._version = -1  # that of this transaction, where it looked itself: then nobody would look again

    def close(self) -> None:
        if self.closed:
            return
        tx: Transaction | None = self.kv.writer
        if tx is not None and tx.engine is self and tx.thread == threading.get_ident():
            if not tx.abandoned:
                raise InvalidOperation("a transaction is open; leave its `with` block before closing the store")
            self._give_up(tx)
        self.closed = True
        self.forget()
        self.kv.close()
