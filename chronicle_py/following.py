"""Following a store: an iterator, and an async one, over all that is done in it, past and to come.

Everything about waiting lives here; what there is to read, and where a position stands, is `feed.py`.

Theory of operation. A `Follower` reads the feed in bounded batches, each from a snapshot of its own that is closed
before anything is returned: a slow consumer keeps no pages from being reused. When a batch has come to the end, it
waits: for the bell that commits of this process ring for those who wait (`LmdbFile.bells`), and at most 10 ms, after
which it looks whether another process has made a newer snapshot. Nothing is registered while nobody waits, so that
followers cost an append nothing.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from chronicle_py.errors import InvalidOperation
from chronicle_py.feed import START, CaughtUp, Cursor, Item, Walk, Wanted, parse_position, position, store_mark
from chronicle_py.names import check_branch, check_name, check_slot
from chronicle_py.shown import shown

if TYPE_CHECKING:
    from chronicle_py.engine import Engine

POLL: Final = 0.01  # seconds between two looks at what other processes did
NOW: Final = "now"


class Follower(Iterator[Item], AsyncIterator[Item]):
    """What `store.follow` returns: `for item in follower`, `async for item in follower`, or `follower.next(timeout)`.

    Threads may share one; each item is returned once.
    """

    def __init__(self, engine: Engine, wanted: Wanted, start: str | None, live: bool) -> None:
        self._engine = engine
        self._wanted = wanted
        self._live = live
        self._lock = threading.Lock()  # held while a batch is read
        self._items: deque[Item] = deque()
        self._last: Item | None = None  # returned
        self._seen: object = None  # the snapshot of which everything was read
        self._over = False
        self._refuse_in_transaction()
        with engine.read() as reader:
            self._store = store_mark(reader)
            end = Walk(reader, wanted, engine.event_types).end()
        self._until: Cursor | None = end  # what is past
        if start is None:
            self._cursor = START
        else:
            self._cursor = end if start == NOW else parse_position(start, self._store)
        self._begun = self._cursor
        self._read_on()

    def __repr__(self) -> str:
        return f"<Follower of {self._engine.kv.path} at {self.position}{' (closed)' if self._over else ''}>"

    @property
    def position(self) -> str:
        """Where `store.follow(start=…)` goes on with what this one has not returned yet."""
        if self._items:
            return position(self._begun, self._store) if self._last is None else self._last.position
        return position(self._cursor, self._store)

    # --- reading ---

    def _refuse_in_transaction(self) -> None:
        if self._engine.running() is not None:
            raise InvalidOperation(
                "a follower returns what is committed, and a transaction is open here; leave its `with` block first"
            )

    def _read_on(self) -> bool:
        """Reads a batch. False: there is nothing new. True: there is, if only things that do not pass the filters."""
        with self._lock:
            if self._items or self._over:
                return True
            self._refuse_in_transaction()
            with self._engine.read() as reader:
                snapshot = reader.snapshot
                if snapshot == self._seen:
                    return False
                walk = Walk(reader, self._wanted, self._engine.event_types)
                if walk.store != self._store:
                    raise InvalidOperation(
                        f"{self._engine.kv.path} was replaced by another store; follow that one from its beginning"
                    )
                ended = walk.run(self._cursor, self._until)
                self._cursor = walk.cursor
            self._items.extend(walk.items)
            if ended and self._until is not None:
                self._until = None
                self._items.append(CaughtUp(position(self._cursor, self._store)))
            elif ended:
                self._seen = snapshot
            return True

    def _taken(self) -> Item | None:
        """The next item of those that were read."""
        try:
            item = self._items.popleft()
        except IndexError:
            return None
        self._last = item
        if not self._live and isinstance(item, CaughtUp):
            self._over = True
        return item

    # --- waiting ---

    def next(self, timeout: float | None = None) -> Item | None:
        """The next item, waited for at most `timeout` seconds (None: for as long as it takes). None: there was none in
        that time, or the iteration has ended."""
        seconds = isinstance(timeout, int | float) and not isinstance(timeout, bool) and timeout == timeout
        if timeout is not None and not seconds:
            raise InvalidOperation(f"next(timeout=) is a number of seconds or None, not {shown(timeout)}")
        item = self._taken()
        if item is not None or self._over:
            return item
        deadline = None if timeout is None else time.monotonic() + timeout
        bell = threading.Event()
        ring = bell.set
        bells = self._engine.kv.bells
        bells.add(ring)  # before looking, so that no commit is missed
        try:
            while True:
                bell.clear()
                news = self._read_on()
                item = self._taken()
                if item is not None or self._over:
                    return item
                left = POLL if deadline is None else min(POLL, deadline - time.monotonic())
                if left <= 0:
                    return None
                if not news:
                    bell.wait(left)
        finally:
            bells.discard(ring)

    def __next__(self) -> Item:
        item = self._taken() or self.next()
        if item is None:
            raise StopIteration
        return item

    async def __anext__(self) -> Item:
        while True:
            item = self._taken()
            if item is not None:
                return item
            if self._over:
                raise StopAsyncIteration
            await self._read_on_later()

    async def _read_on_later(self) -> None:
        """Reads a batch, or waits until there may be one. Others have their turn in any case."""
        import asyncio  # only who uses it pays for it

        loop = asyncio.get_running_loop()
        bells = self._engine.kv.bells
        bell = loop.create_future()

        def answer() -> None:
            if not bell.done():
                bell.set_result(None)

        def ring() -> None:  # once, on the thread that commits, perhaps when the loop is closed
            bells.discard(ring)
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(answer)

        bells.add(ring)
        try:
            if self._read_on():
                await asyncio.sleep(0)
                return
            timer = loop.call_later(POLL, answer)
            try:
                await bell
            finally:
                timer.cancel()
        finally:
            bells.discard(ring)

    def __aiter__(self) -> Self:
        return self

    # --- ending ---

    def close(self) -> None:
        """Ends the iteration, also one that waits on another thread; `position` stays. Closing twice is fine."""
        with self._lock:
            at = self.position
            self._over = True
            self._items.clear()
            self._cursor = parse_position(at, self._store)

    async def aclose(self) -> None:
        """As `close`."""
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def follow(engine: Engine, branch: Any, types: Any, slots: Any, start: Any, live: Any) -> Follower:
    """As `Store.follow`, with every argument checked."""
    if not isinstance(live, bool):
        raise InvalidOperation(f"follow(live=) is True or False, not {shown(live)}")
    names = (branch,) if isinstance(branch, str) else branch
    wanted = Wanted(
        _names("branch", names, check_branch),
        _names("types", types, lambda name: check_name("an event type", name)),
        _names("slots", slots, check_slot),
    )
    return Follower(engine, wanted, start, live)


def _names(what: str, given: Any, check: Callable[[object], str]) -> frozenset[str] | None:
    if given is None:
        return None
    if isinstance(given, str):
        raise InvalidOperation(f"follow({what}=) takes several, not one str; write ({shown(given)},)")
    if not isinstance(given, Iterable):
        raise InvalidOperation(f"follow({what}=) takes names, not {shown(given)}")
    return frozenset(check(name) for name in given)
