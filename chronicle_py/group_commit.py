"""Group commit: operations that wait for the writer share the next commit, and so one fsync.

An operation is a function of a transaction that runs no code of its caller's: an append whose payload is encoded and
checked already, a fork, a put. One that finds nobody in its way is a transaction of its own and never comes here
(`Engine.run`). One that would wait joins a queue. The first in it is the *leader*: its thread waits for the writer's
lock as any other writer does, then takes the whole queue into one transaction, in order, and commits once. The others
wait until that commit is on disk, or until they are told to lead.

What must stay true:

- Whoever is in the queue has a leader on the way to the lock; whoever leaves it early sees to the next one.
- An operation is over when the transaction it ran in has committed, or when it was refused. All others go back to the
  front of the queue when their leader is interrupted, and none is ever done twice.
- A refused operation fails alone. One that fails half-way takes its transaction along, so that each operation of that
  batch then runs once more, in one of its own. A commit that fails, fails for all and is not tried again: after a
  failed fsync nobody knows what the disk has.
- A leader leads once. So no caller works for others longer than for one batch.

Those who shared a commit are likely to come back together. So the next leader waits for as many, though no longer than
that commit took: the threads of a program that append one after the other then share every fsync, not every other.

Operations that tasks wait for (`AsyncOperation`) have no thread that could lead. Where one of them is first, a thread
of the group's own does, which ends when it has been idle for a while.
"""

from __future__ import annotations

import copy
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final, TypeVar

from chronicle_py.transaction import Transaction

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from chronicle_py.engine import Engine

MOST: Final = 1024  # operations in a batch
_LINGER: Final = 1.0  # seconds without work after which the group's own thread ends

T = TypeVar("T")


class Operation:
    """An operation in the queue, which a thread waits for."""

    __slots__ = ("error", "found", "refused", "wake", "within", "work")

    def __init__(self, work: Callable[[Transaction], Any]) -> None:
        self.work = work
        self.within: Transaction | None = None  # the transaction it ran in last
        self.found: Any = None
        self.error: Exception | None = None
        self.refused = False  # whatever becomes of that transaction
        self.wake = threading.Lock()
        self.wake.acquire()

    @property
    def over(self) -> bool:
        """Whether its caller may return: it was refused, or what it wrote is committed."""
        return self.refused or (self.within is not None and self.within.writer.committed)

    def attempt(self, tx: Transaction) -> bool:
        """Runs it. False: it failed half-way, and nothing of the transaction may be kept."""
        self.within = tx
        start = tx.changes
        try:
            self.found, self.error = self.work(tx), None
        except Exception as error:
            # Without this frame, from which the others of the batch could be reached.
            self.error = error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)
            return tx.changes == start
        return True

    def refuse(self, error: Exception) -> None:
        """Ends it with an error of its own: one that two threads raise would show the traceback of both."""
        own = copy.copy(error)
        own.__cause__ = error
        self.error = own
        self.refused = True

    def result(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.found

    def lead(self) -> None:
        """Makes its thread lead."""
        self.notify()

    def notify(self) -> None:
        """Wakes its thread, to return or to lead. Once too often does no harm."""
        if self.wake.locked():
            self.wake.release()


class AsyncOperation(Operation):
    """An operation that a task waits for."""

    __slots__ = ("_group", "_loop", "future")

    def __init__(self, work: Callable[[Transaction], Any], group: GroupCommit, loop: AbstractEventLoop) -> None:
        super().__init__(work)
        self._group = group
        self._loop = loop
        self.future = loop.create_future()

    def lead(self) -> None:
        self._group.serve(self)

    def notify(self) -> None:
        with suppress(RuntimeError):  # the loop was closed, with whoever waited
            self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        if not self.future.done():
            self.future.set_result(None)


class GroupCommit:
    """The queue of one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.reset()
        _groups.add(self)

    def reset(self) -> None:
        """An empty queue. For a forked child: who waited in it is in the parent."""
        self.leader: Operation | None = None  # on the way to the writer's lock
        self.expected = 1  # operations in the next batch: as many as in the last. Above 1, all comers join the queue
        self._patience = 0.0  # seconds that the next leader gives them to come
        self._parted = 0.0  # when the last batch was over
        self._gathered = threading.Lock()  # free when they are here
        self._queue: list[Operation] = []
        self._mutex = threading.Lock()  # of the three; held for moments
        self._server: threading.Thread | None = None
        self._led: SimpleQueue[AsyncOperation] = SimpleQueue()  # what that thread shall lead for

    # --- waiting ---

    def run(self, work: Callable[[Transaction], T]) -> T:
        """Runs an operation with whatever else waits. Returns or raises when that is committed.

        An interrupt (KeyboardInterrupt) while waiting takes it out of the queue; one that has begun may be kept or not.
        """
        own = Operation(work)
        try:
            self._join(own)
            while not own.over:
                if self.leader is own:
                    self._lead()
                else:
                    own.wake.acquire()
        except BaseException:
            while True:
                try:
                    self._withdraw(own)
                    break
                except Exception:
                    raise
                except BaseException:  # interrupted once more
                    continue
            raise
        found: T = own.result()
        return found

    async def arun(self, work: Callable[[Transaction], T]) -> T:
        """The same for a task. Cancelling it is as an interrupt."""
        import asyncio  # which costs more than the rest of the package, and those who await have it

        own = AsyncOperation(work, self, asyncio.get_running_loop())
        try:
            self._join(own)
            await own.future
        except BaseException:
            self._withdraw(own)
            raise
        found: T = own.result()
        return found

    def _join(self, own: Operation) -> None:
        with self._mutex:
            self._queue.append(own)
            if self.leader is None:
                self.leader = own
                if isinstance(own, AsyncOperation):
                    own.lead()
            elif len(self._queue) >= self.expected and self._gathered.locked():
                self._gathered.release()

    def _withdraw(self, own: Operation) -> None:
        with self._mutex:
            self._queue = [operation for operation in self._queue if operation is not own]
            if self.leader is own:
                self.leader = None
            self._appoint()

    def _appoint(self) -> None:
        """Sees to it that the queue has a leader, who knows. Holding the mutex. Once too often does no harm."""
        if self._queue:
            self.leader = self.leader or self._queue[0]
            self.leader.lead()

    # --- leading ---

    def _lead(self) -> None:
        """Waits for the writer's lock, and runs what waits by then."""
        batch: list[Operation] = []
        self._gather()
        try:
            self._run(batch)
        finally:
            interrupt: BaseException | None = None
            while True:
                try:
                    self._part(batch)
                    break
                except Exception:
                    raise
                except BaseException as error:  # those who wait for this thread must not have to wait for ever
                    interrupt = error
            if interrupt is not None:
                raise interrupt

    def _gather(self) -> None:
        """Gives those who shared the last commit a moment to come again, as they do who append one after the other."""
        with self._mutex:
            left = self._parted + self._patience - time.monotonic()
            if left <= 0 or len(self._queue) >= self.expected:
                return
            self._gathered.acquire(False)
        self._gathered.acquire(timeout=left)

    def _run(self, batch: list[Operation]) -> None:
        try:
            tx = self._engine.begin()
        except Exception as error:
            self._take(batch)
            _refuse(batch, error)
            return
        try:
            self._take(batch)
        except BaseException as error:
            self._engine.end(tx, tx.changes, error)
            raise
        if self._attempt(tx, batch):
            return
        for operation in batch:
            try:
                tx = self._engine.begin()
            except Exception as error:
                operation.refuse(error)
                continue
            if not self._attempt(tx, [operation]):
                operation.refused = True

    def _take(self, batch: list[Operation]) -> None:
        with self._mutex:
            waiting = self._queue
            batch += waiting[:MOST]  # these two are one step: no interrupt comes between operations without a call
            self._queue = waiting[MOST:]
            self.leader = None
            self._appoint()

    def _attempt(self, tx: Transaction, batch: list[Operation]) -> bool:
        """Runs operations in one transaction and ends that. False: one failed half-way, and nothing was kept."""
        half_done: Exception | None = None
        try:
            for operation in batch:
                if not operation.attempt(tx):
                    half_done = operation.error
                    break
            began = time.monotonic()
            self._engine.end(tx, tx.changes, half_done)
        except BaseException as error:
            self._engine.end(tx, tx.changes, error)
            if not isinstance(error, Exception):
                raise
            _refuse(batch, error)
        if self._engine.kv.durable:
            self._parted = time.monotonic()
            self._patience = self._parted - began  # no longer than the commit takes that it may save
            self.expected = len(batch)
        return half_done is None

    def _part(self, batch: list[Operation]) -> None:
        """Wakes those whose operations are over; the others wait for the next leader, before all who came later."""
        over = [operation for operation in batch if operation.over]
        if len(over) < len(batch):
            left = [operation for operation in batch if not operation.over]
            with self._mutex:
                self._queue, batch[:] = left + self._queue, over
                self._appoint()
        for operation in over:
            operation.notify()

    # --- the thread that leads for tasks ---

    def serve(self, operation: AsyncOperation) -> None:
        """Has the group's own thread lead. Holding the mutex."""
        self._led.put(operation)
        if self._server is None:
            server = threading.Thread(target=self._serve, name="chronicle-commit", daemon=True)
            server.start()
            self._server = server

    def _serve(self) -> None:
        while True:
            try:
                operation = self._led.get(timeout=_LINGER)
            except Empty:
                with self._mutex:
                    if not self._led.empty():
                        continue
                    self._server = None
                    return
            if self.leader is operation:
                self._lead()


def _refuse(batch: Iterable[Operation], error: Exception) -> None:
    for operation in batch:
        operation.refuse(error)


_groups: weakref.WeakSet[GroupCommit] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for group in list(_groups):
        group.reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
