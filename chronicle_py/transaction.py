"""The write transaction: what one commit changes, gathered and written together.

Everything that is written to the log passes through here: events, the heads of branches, new lineages, the reflog, the
feed. The folding of slots is left to `checkpoints.py`, which is called when an event completes a block.

What the last commit left (heads, the end of the feed, the newest lineage) is kept as a `Tip`. A writer whose version is
one above that commit's knows that nobody wrote in between and reads none of it again; any other starts with an empty
one. So a head that is used inside a write is always the stored one.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from chronicle_py import records
from chronicle_py.errors import Conflict, InvalidOperation, NotFound
from chronicle_py.event import Event, build_event
from chronicle_py.kv import CAUSES, EVENTS, FEED, IDS, LINEAGES, REFLOG, REFS, Writer
from chronicle_py.records import BLOCK, FeedRecord, Lineage, MoveRecord, Ref, pack_lineage, pack_number, pack_position

if TYPE_CHECKING:
    from chronicle_py.engine import Engine

_FLUSH = 1024  # events held back before they are put


T = TypeVar("T")


def current_task() -> object | None:
    """The asyncio task that runs on this thread, without importing asyncio for those who do not use it."""
    asyncio: Any = sys.modules.get("asyncio")
    if asyncio is None or asyncio._get_running_loop() is None:
        return None
    task: object | None = asyncio.current_task()
    return task


class Tip:
    """What the newest commit left, as far as it was looked at."""

    __slots__ = ("feed", "feed_number", "generation", "last_lineage", "refs", "top_lineage", "version")

    def __init__(self, version: int, generation: int) -> None:
        self.version = version
        self.generation = generation
        self.refs: dict[str, Ref | None] = {}
        self.feed: FeedRecord | None = None
        self.feed_number = -1  # not looked at
        self.top_lineage = -1  # not looked at
        self.last_lineage = -1  # not looked at


class Transaction:
    """One write transaction. Made by `Engine.begin`, ended by `Engine.end`."""

    __slots__ = (
        "_scope", "abandoned", "aborted", "causes", "changes", "depth", "dirty", "engine", "failure", "keys", "places",
        "run", "run_lineage", "stored", "task", "thread", "tip", "writer", "written_behind",
    )  # fmt: skip

    def __init__(self, engine: Engine, writer: Writer, tip: Tip) -> None:
        self.engine = engine
        self.writer = writer
        self.tip = tip
        self.depth = 1
        self.thread = threading.get_ident()
        self.task = current_task()
        self.aborted = False
        self.abandoned = False  # left on another thread, where LMDB cannot end it
        self.changes = 0  # rises with everything that is written: tells a refused call from a half-done one
        self.failure: str | None = None
        # Whether the commit enters states that were folded before. Not where objects or payloads are taken out: what
        # was folded may rest on them, and afterwards all of it is forgotten.
        self.written_behind = True
        self.dirty: set[str] = set()
        # Held back, in columns, so that nothing is kept per event that the garbage collector must look at.
        self.keys: list[bytes] = []  # ids of the events that are in no index yet
        self.places: list[bytes] = []  # where those lie
        self.stored: list[bytes] = []  # the bytes of the newest of them, which are not put yet
        self.causes: list[tuple[bytes, bytes]] = []
        self.run_lineage = 0
        self.run: list[Event] = []  # what was appended there since its last block boundary, or less
        self._scope: TransactionScope | None = None

    @property
    def scope(self) -> TransactionScope:
        """This transaction's snapshot, as a reader."""
        if self._scope is None:
            self._scope = TransactionScope(self)
        return self._scope

    # --- branches ---

    def find_ref(self, name: str) -> Ref | None:
        refs = self.tip.refs
        if name in refs:
            return refs[name]
        key = name.encode()
        record = self.writer.get(REFS, key)
        ref = None if record is None else records.decode_ref(key, record, f"branch {name!r}")
        refs[name] = ref
        return ref

    def ref(self, name: str) -> Ref:
        ref = self.find_ref(name)
        if ref is None:
            raise NotFound(f"there is no branch {name!r}; see store.branches(), `chronicle branches`")
        return ref

    def set_ref(self, name: str, ref: Ref | None) -> None:
        self.tip.refs[name] = ref
        self.dirty.add(name)
        self.changes += 1

    def move(self, kind: str, name: str, before: Ref | None, after: Ref | None, time: int) -> None:
        """Changes what a branch is, and leaves an entry in its reflog and in the feed."""
        self._feed(FeedRecord(kind, name, 0, 0, self._run_stop(), before, after))
        self.set_ref(name, after)
        key = records.reflog_key(name, self.next_move(name))
        self.writer.put(REFLOG, key, records.seal(key, records.encode(MoveRecord(kind, time, before, after))))

    def next_move(self, name: str) -> int:
        prefix = name.encode() + b"\0"
        last = self.writer.scan(REFLOG, prefix + b"\xff" * 8, prefix, limit=1, reverse=True)
        return int.from_bytes(last[0][0][-8:], "big") + 1 if last else 1

    # --- lineages and feed ---

    def open_lineage(self, parent: int, fork_seq: int) -> int:
        number = self.top_lineage() + 1
        record: Lineage = self.engine.lineages.child_of(self.writer, parent, fork_seq)
        key = pack_lineage(number)
        self.writer.put(LINEAGES, key, records.seal(key, records.encode(record)))
        self.engine.lineages.note(number, record)
        self.tip.top_lineage = self.tip.last_lineage = number
        self.changes += 1
        return number

    def top_lineage(self) -> int:
        if self.tip.top_lineage < 0:
            last = self.writer.scan(LINEAGES, b"\xff" * 4, limit=1, reverse=True)
            self.tip.top_lineage = int.from_bytes(last[0][0], "big") if last else 0
        return self.tip.top_lineage

    def last_lineage(self) -> int:
        """The highest lineage that has events: the top one, unless that was collected."""
        if self.tip.last_lineage < 0:
            last = self.writer.keys(EVENTS, b"\xff" * 12, 1, reverse=True)
            self.tip.last_lineage = int.from_bytes(last[0][:4], "big") if last else 0
        return self.tip.last_lineage

    def last_feed(self) -> FeedRecord | None:
        tip = self.tip
        if tip.feed_number < 0:
            last = self.writer.scan(FEED, b"\xff" * 8, limit=1, reverse=True)
            if last:
                key, record = last[0]
                tip.feed_number = int.from_bytes(key, "big")
                tip.feed = records.decode_feed(key, record, f"feed entry {tip.feed_number}")
            else:
                tip.feed_number = 0
        return tip.feed

    def _run_stop(self) -> int:
        """Where the run in the last feed entry ends: at its branch's head, which nothing has moved since."""
        feed = self.last_feed()
        if feed is None or feed.kind != "run":
            return 0
        return self.ref(feed.branch).seq

    def _feed(self, record: FeedRecord) -> None:
        self.last_feed()
        self.tip.feed_number += 1
        self.tip.feed = record
        key = pack_number(self.tip.feed_number)
        self.writer.put(FEED, key, records.seal(key, records.encode(record)))
        self.changes += 1

    # --- events ---

    def append(
        self,
        name: str,
        type: str,
        payload: bytes,
        slot: str | None = None,
        schema: int = 0,
        refs: tuple[bytes, bytes, bytes] | None = None,
        expect: bytes | None = None,
    ) -> Event:
        """One event at the head of a branch. `expect`: the id that the head must have (b"": an empty branch)."""
        ref = self.tip.refs.get(name) or self.ref(name)
        if expect is not None and expect != ref.key:
            found = f"{ref.key.hex()[:12]} at sequence {ref.seq}" if ref.seq else "none, the branch is empty"
            raise Conflict(
                f"branch {name!r}: the head was expected to be {expect.hex()[:12] or 'none'} and is {found}. "
                "Read what was appended since and try again"
            )
        lineage = ref.lineage if ref.owned else self.open_lineage(ref.lineage, ref.seq)
        engine = self.engine
        time = engine.clock()
        salts = engine.salts
        salt = salts.pop() if salts else engine.salt()
        seq = ref.seq + 1
        try:
            key, stored = build_event(type, time, ref.key, seq, slot, schema, refs, salt, payload)
        except (TypeError, OverflowError) as error:
            raise InvalidOperation(f"the store's clock or entropy returned what no event can hold: {error}") from None
        feed = self.tip.feed if self.tip.feed_number > 0 else self.last_feed()
        if feed is None or feed.lineage != lineage or feed.branch != name:
            self._feed(FeedRecord("run", name, lineage, seq, self._run_stop()))
        self.write_event(lineage, seq, key, stored, refs)
        self.tip.refs[name] = Ref(lineage, seq, key, True, ref.created, ref.parent, ref.fork_seq, ref.description)
        self.dirty.add(name)
        event = Event(key, type, time, ref.key, seq, slot, schema, refs, salt, msgspec.Raw(payload), engine.event_types)
        if self.run_lineage != lineage:
            self.run_lineage, self.run = lineage, []
        self.run.append(event)
        if seq % BLOCK == 0:
            engine.checkpoints.close_block(self, lineage, seq, self.run)
            self.run = []
        return event

    def write_event(
        self, lineage: int, seq: int, key: bytes, stored: bytes, refs: tuple[bytes, bytes, bytes] | None
    ) -> None:
        """Puts an event where it lies and into the indexes."""
        self.keys.append(key)
        self.places.append(pack_position(lineage, seq))
        self.stored.append(stored)
        self.changes += 1
        if refs is not None:
            for relation, keys in ((records.CAUSED_BY, refs[1]), (records.LINKED_TO, refs[2])):
                for i in range(0, len(keys), 32):
                    cause = records.cause_key(keys[i : i + 32], relation, lineage, seq)
                    self.causes.append((cause, records.seal(cause, b"")))
        if len(self.keys) >= _FLUSH:
            self.flush_events()
            self._flush_indexes()

    def flush(self) -> None:
        """Puts all that is held back, so that it can be read in this transaction."""
        self.flush_events()
        self._flush_indexes()
        for name in self.dirty:
            ref = self.tip.refs[name]
            key = name.encode()
            if ref is None:
                self.writer.delete(REFS, key)
            else:
                self.writer.put(REFS, key, records.seal(key, records.encode(ref)))
        self.dirty.clear()

    def flush_events(self) -> None:
        """Puts the events alone, for those who read them by position."""
        count = len(self.stored)
        if not count:
            return
        top = pack_lineage(self.last_lineage())
        if count == 1:
            place = self.places[-1]
            self.writer.put(EVENTS, place, self.stored.pop(), place[:4] == top)
            return
        places = self.places[-count:]
        if min(places)[:4] == top:  # all at the end of the newest lineage: they fill whole pages
            self.writer.put_many(EVENTS, zip(places, self.stored, strict=True), append=True)
        else:
            items = list(zip(places, self.stored, strict=True))
            self.writer.put_many(EVENTS, sorted(item for item in items if item[0][:4] != top))
            self.writer.put_many(EVENTS, [item for item in items if item[0][:4] == top], append=True)
        self.stored.clear()

    def _flush_indexes(self) -> None:
        if len(self.keys) == 1:
            short = self.keys[0][: records.ID_PREFIX]
            self.writer.put(IDS, short, records.seal(short, self.places[0]), overwrite=False)
        elif self.keys:
            shorts = [key[: records.ID_PREFIX] for key in self.keys]
            entries = sorted(zip(shorts, map(records.seal, shorts, self.places), strict=True))
            self.writer.put_many(IDS, entries, overwrite=False)
        self.keys.clear()
        self.places.clear()
        if self.causes:
            self.writer.put_many(CAUSES, sorted(self.causes))
            self.causes.clear()

    def commit(self) -> None:
        behind = self.engine.checkpoints.write_behind(self) if self.written_behind else []
        self.flush()
        self.writer.commit()
        self.engine.checkpoints.remember(behind)
        # A commit without changes leaves LMDB's number as it was.
        self.tip.version = self.writer.version if self.changes else self.writer.version - 1

    def failed(self, error: BaseException, start: int) -> None:
        """A part of it that began at `start` changes failed: when it had changed something, all of it will fail."""
        if self.changes != start:
            self.failure = self.failure or f"{type(error).__name__}: {error}"

    # --- whose it is ---

    def mine(self) -> bool:
        return self.thread == threading.get_ident() and self.task is current_task()


class TransactionScope:
    """The snapshot of a running transaction, as a reader that its `with` block does not end."""

    __slots__ = ("_transaction", "copy_to", "count", "get", "keys", "scan", "snapshot", "take", "version")

    def __init__(self, transaction: Transaction) -> None:
        writer = transaction.writer
        self._transaction = transaction
        self.get = writer.get
        self.take = writer.take
        self.scan = writer.scan
        self.keys = writer.keys
        self.copy_to = writer.copy_to
        self.count = writer.count
        self.version = writer.version
        self.snapshot = None

    def __enter__(self) -> TransactionScope:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def while_kept(found: Iterator[T], within: Transaction | None) -> Iterator[T]:
    """What an iteration finds that began inside a transaction: once that was aborted, other things may lie there."""
    return found if within is None else _while_kept(found, within)


def _while_kept(found: Iterator[T], within: Transaction) -> Iterator[T]:
    for item in found:
        if within.aborted:
            raise InvalidOperation("this iteration began in a transaction that was not kept; begin it again")
        yield item


@contextmanager
def transaction(engine: Engine) -> Iterator[Transaction]:
    """A `with` block that is one commit, or nothing. Joins the one that is open on this thread and task."""
    running = engine.begin()
    start = running.changes
    try:
        yield running
        engine.end(running, start, None)
    except BaseException as error:
        engine.end(running, start, error)
        raise
