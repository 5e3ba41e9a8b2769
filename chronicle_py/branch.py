"""`Branch`: the public face of one branch. Appending, reading, forking, rewinding; states, diffs and replay of slots.

A `Branch` is a name and holds nothing else: two of the same name are the same branch, in any thread or process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from chronicle_py import branches, diff
from chronicle_py.branches import Move, position_of, read_ref
from chronicle_py.errors import InvalidOperation, NotFound
from chronicle_py.event import (
    BLOB_MARK,
    ID_SIZE,
    Event,
    bind,
    encode_payload,
    payload_blobs,
    validate_payload,
)
from chronicle_py.index_view import IndexView
from chronicle_py.kv import OBJECTS, Reader
from chronicle_py.log import BATCH
from chronicle_py.names import check_branch, check_name, check_slot, check_type
from chronicle_py.records import Ref
from chronicle_py.shown import shown
from chronicle_py.transaction import Transaction, while_kept
from chronicle_py.views import VIEWS, Fixed, Ids, LogView, View, listed

if TYPE_CHECKING:
    from chronicle_py.engine import Engine

_NONE: tuple[str, ...] = ()  # the one empty tuple there is, the default of `caused_by` and `linked_to`
Progress = Callable[[int, int], None]
"""Called with (done, total) in events, now and then."""


class Replay(msgspec.Struct, frozen=True):
    """What `branch.replay` found: the hash of the state folded from the first event on, beside the one in use."""

    slot: str
    hash: str
    stored_hash: str
    events: int
    seconds: float

    @property
    def equal(self) -> bool:
        """Whether replaying gave the state that reads return."""
        return self.hash == self.stored_hash

    @property
    def events_per_second(self) -> float:
        return self.events / self.seconds if self.seconds else 0.0


class Branch:
    """A branch of a store. Made by `store.branch(name)`."""

    __slots__ = ("engine", "name")

    def __init__(self, engine: Engine, name: str) -> None:
        self.engine = engine
        self.name = name

    def __repr__(self) -> str:
        return f"<Branch {self.name!r} of {self.engine.kv.path}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Branch) and other.name == self.name and other.engine is self.engine

    def __hash__(self) -> int:
        return hash((self.name, id(self.engine)))

    # --- the head ---

    @property
    def seq(self) -> int:
        """The sequence of the head; 0 when the branch is empty."""
        with self.engine.read() as reader:
            seq: int = self._ref(reader).seq
        return seq

    @property
    def head(self) -> str | None:
        """The hex id of the newest event, or None when the branch is empty."""
        with self.engine.read() as reader:
            return self._ref(reader).key.hex() or None

    def _ref(self, reader: Reader) -> Ref:
        return read_ref(reader, self.name)

    # --- appending ---

    def append(
        self,
        type: str,
        payload: Any,
        *,
        slot: str | None = None,
        caused_by: Ids = (),
        linked_to: Ids = (),
        expect: str | Event | int | None = None,
    ) -> Event:
        """Appends one event, atomically and, with durability "full", on disk when the call returns.

        `payload`: anything MessagePack holds, or the Struct registered for the type. `slot`: the custom slot that the
        event belongs to. `caused_by`, `linked_to`: ids of events in the store. `expect`: the id of the event that must
        be the head (0: the branch must be empty), else Conflict. O(log n). Threads that append at once share a commit.
        """
        data, version = self._checked(type, payload, slot)
        return self.operate(slot, type, data, caused_by, linked_to, expect, version)

    async def aappend(
        self,
        type: str,
        payload: Any,
        *,
        slot: str | None = None,
        caused_by: Ids = (),
        linked_to: Ids = (),
        expect: str | Event | int | None = None,
    ) -> Event:
        """As `append`, for a task: its loop goes on meanwhile, and tasks that append at once share a commit.

        In a transaction of the task's own it is `append`. A task that is cancelled meanwhile may have appended or not.
        """
        data, version = self._checked(type, payload, slot)
        caused_by, linked_to = listed("caused_by", caused_by), listed("linked_to", linked_to)
        return await self.engine.arun(lambda tx: self.operate(slot, type, data, caused_by, linked_to, expect, version))

    def _checked(self, type: str, payload: Any, slot: str | None) -> tuple[bytes, int]:
        """The encoded payload and the version of its schema, of an event that may be appended."""
        check_type(type)
        kind = self.engine.event_types.get(type)
        data = encode_payload(payload)
        if kind is not None:
            validate_payload(type, kind, data)
        if slot is not None:
            check_slot(slot)
            with self.engine.read() as reader:
                found = self.engine.slots.table(reader).get(slot)
            if found.index:
                raise InvalidOperation(f"slot {slot!r} is an index and follows from the slot it is of; change that one")
            if not found.custom:
                raise InvalidOperation(
                    f"slot {slot!r} is of kind {found.record.kind!r} and is changed through branch.state({slot!r}); "
                    "only a slot with a reducer of your own takes events of other types"
                )
        return data, kind.version if kind else 0

    def operate(
        self,
        slot: str | None,
        type: str,
        payload: bytes,
        caused_by: Ids,
        linked_to: Ids,
        expect: str | Event | int | None,
        schema: int = 0,
    ) -> Event:
        """Appends an event whose type, slot and encoded payload were checked. For views, and `append`."""
        plain = caused_by is _NONE and linked_to is _NONE and BLOB_MARK not in payload
        if not plain:
            caused_by, linked_to = listed("caused_by", caused_by), listed("linked_to", linked_to)
        engine = self.engine
        tx = engine.running()
        if tx is not None:  # a part of it, at no cost but its own
            start = tx.changes
            try:
                return self._append(slot, type, payload, schema, plain, caused_by, linked_to, expect, tx)
            except BaseException as error:
                tx.failed(error, start)
                raise
        tx = engine.begin_at_once()
        if tx is None:
            return engine.group.run(
                partial(self._append, slot, type, payload, schema, plain, caused_by, linked_to, expect)
            )
        start = tx.changes
        try:
            event = self._append(slot, type, payload, schema, plain, caused_by, linked_to, expect, tx)
            engine.end(tx, start, None)
        except BaseException as error:
            engine.end(tx, start, error)
            raise
        return event

    def _append(
        self,
        slot: str | None,
        type: str,
        payload: bytes,
        schema: int,
        plain: bool,
        caused_by: Ids,
        linked_to: Ids,
        expect: str | Event | int | None,
        tx: Transaction,
    ) -> Event:
        return tx.append(
            self.name,
            type,
            payload,
            slot,
            schema,
            None if plain else self._refs(tx, payload, caused_by, linked_to),
            None if expect is None else self._expected(tx, expect),
        )

    def _refs(
        self, tx: Transaction, payload: bytes, caused_by: Ids, linked_to: Ids
    ) -> tuple[bytes, bytes, bytes] | None:
        """The references of an event, each checked to exist."""
        blobs = payload_blobs(payload)
        for i in range(0, len(blobs), 32):
            if tx.writer.get(OBJECTS, blobs[i : i + 32]) is None:
                raise NotFound(
                    f"the payload refers to blob {blobs[i : i + 32].hex()}, which is not here; put_blob it first"
                )
        refs = blobs, self._keys(tx, caused_by), self._keys(tx, linked_to)
        return refs if any(refs) else None

    def _keys(self, tx: Transaction, ids: Ids) -> bytes:
        if not ids:
            return b""
        found = [self._key(tx, i.id if isinstance(i, Event) else i) for i in ids]
        return b"".join(dict.fromkeys(found))

    def _key(self, tx: Transaction, id: object) -> bytes:
        """The id of an event that must be there. Only the start of an id, or a new one, needs what is held back."""
        log = self.engine.log
        if isinstance(id, str) and len(id) == 2 * ID_SIZE:
            with suppress(ValueError):
                key = bytes.fromhex(id)
                if len(key) == ID_SIZE and log.find(tx.writer, key) is not None:
                    return key
        tx.flush()
        return log.resolve(tx.writer, id)[1].key

    def _expected(self, tx: Transaction, expect: str | Event | int) -> bytes:
        if isinstance(expect, Event):
            return expect.key
        if type(expect) is int and expect == 0:
            return b""
        if isinstance(expect, str):
            if len(expect) == 64:
                try:
                    return bytes.fromhex(expect)
                except ValueError:
                    pass
            tx.flush()
            return self.engine.log.resolve(tx.writer, expect)[1].key
        raise InvalidOperation(f"expect is the id of the event that must be the head, or 0, not {shown(expect)}")

    # --- reading ---

    def events(
        self,
        start: int = 1,
        stop: int | None = None,
        types: Iterable[str] | None = None,
        slot: str | None = None,
        reverse: bool = False,
        limit: int | None = None,
    ) -> Iterator[Event]:
        """The events with start ≤ sequence ≤ stop, inherited ones included; newest first with `reverse`.

        Fixes the head at the call, and holds no snapshot between batches. `types` and `slot` keep those that match; a
        block that has none of them is skipped, not read. 0.4 µs an event.
        """
        wanted = self._check_types(types)
        if slot is not None:
            check_slot(slot)
        for name, bound in (("start", start), ("stop", stop), ("limit", limit)):
            if bound is None and name != "start":
                continue
            if not isinstance(bound, int) or isinstance(bound, bool) or bound < 0:
                raise InvalidOperation(f"events({name}=) takes a whole number from 0, not {shown(bound)}")
        if not isinstance(reverse, bool):
            raise InvalidOperation(f"events(reverse=) is True or False, not {shown(reverse)}")
        with self.engine.read() as reader:
            ref = self._ref(reader)
            if slot is not None:
                self.engine.slots.table(reader).get(slot)
        first, last = max(1, start), ref.seq if stop is None else min(stop, ref.seq)
        if limit is not None and wanted is None and slot is None:  # then no more than these need be read
            first, last = (max(first, last - limit + 1), last) if reverse else (first, min(last, first + limit - 1))
        found = self._walk(ref.lineage, first, last, wanted, slot, reverse)
        found = while_kept(found, self.engine.running())
        return found if limit is None else _limited(found, limit)

    @staticmethod
    def _check_types(types: Iterable[str] | None) -> frozenset[str] | None:
        if types is None:
            return None
        if isinstance(types, str):
            raise InvalidOperation(f"events(types=) takes several types, not one str; write ({shown(types)},)")
        if not isinstance(types, Iterable):
            raise InvalidOperation(f"events(types=) takes several types, not {shown(types)}")
        return frozenset(check_name("an event type", t) for t in types)

    def _walk(
        self, lineage: int, first: int, last: int, types: frozenset[str] | None, slot: str | None, reverse: bool
    ) -> Iterator[Event]:
        engine = self.engine
        bound = engine.event_types
        edges = range(first, last + 1, BATCH)
        for edge in reversed(edges) if reverse else edges:
            with engine.read() as reader:
                batch = self._batch(reader, lineage, edge, min(edge + BATCH - 1, last), types, slot)
            if bound:
                for event in batch:
                    bind(event, bound)
            yield from reversed(batch) if reverse else batch

    def _batch(
        self, reader: Reader, lineage: int, first: int, last: int, types: frozenset[str] | None, slot: str | None
    ) -> list[Event]:
        engine = self.engine
        if types is None and slot is None:
            pieces = list(engine.log.batches(reader, lineage, first, last))
            return pieces[0][1] if len(pieces) == 1 else [e for _, events in pieces for e in events]
        number = -1 if slot is None else engine.slots.table(reader).get(slot).number
        found: list[Event] = []
        for start, stop in engine.checkpoints.matching(
            reader,
            lineage,
            first,
            last,
            lambda has: (
                (slot is None or number in has.slots) and (types is None or not types.isdisjoint(has.types or ()))
            ),
        ):
            for _, events in engine.log.batches(reader, lineage, start, stop):
                found += [e for e in events if (slot is None or e.slot == slot) and (types is None or e.type in types)]
        return found

    def event(self, at: int | str | Event) -> Event:
        """The event at a sequence of this branch, or of an id that is on it. O(log n)."""
        with self.engine.read() as reader:
            ref = self._ref(reader)
            lineage, seq, _ = position_of(self.engine, reader, ref, self.name, at)
            if seq == 0:
                raise NotFound(f"sequence 0 of branch {self.name!r} is before its first event")
            return bind(self.engine.log.at(reader, lineage, seq), self.engine.event_types)

    # --- moving ---

    def fork(self, name: str, at: int | str | Event | None = None) -> Branch:
        """A new branch with the history of this one up to `at` (a sequence or event id; default the head). O(log n)."""
        branches.fork(self.engine, self.name, name, at)
        return Branch(self.engine, name)

    def rewind(self, to: int | str | Event) -> None:
        """Sets the head back to a sequence, or to any event below a head in the reflog, forward too. Loses nothing."""
        branches.rewind(self.engine, self.name, to)

    def reflog(self) -> list[Move]:
        """The forks, rewinds, deletions and restorations of this branch, oldest first."""
        return branches.reflog(self.engine, self.name)

    # --- slots ---

    def state(self, slot: str, at: int | str | Event | None = None) -> Any:
        """The state of a slot: live without `at`, else fixed at a sequence or event id. O(log n + K).

        Returns a `ValueView`, `LogView`, `TreeView`, `DocumentView`, `CustomView` or `IndexView`, by the slot's kind.
        """
        check_slot(slot)
        engine = self.engine
        with engine.read() as reader:
            found = engine.slots.table(reader).get(slot)
            kind = IndexView if found.index else VIEWS[found.record.kind]
            if at is None:
                self._ref(reader)
                return kind(self, slot)
            lineage, seq, _ = position_of(engine, reader, self._ref(reader), self.name, at)
            state = engine.checkpoints.state(reader, lineage, seq, found)
            tx = engine.kv.writer
            return kind(self, slot, Fixed(seq, state, tx if tx is not None and reader is tx.scope else None, lineage))

    def diff(self, slot: str, a: int | str | Event | Branch, b: int | str | Event | Branch) -> list[diff.Change]:
        """What changed in a slot from `a` to `b`: sequences, event ids, or other branches. Costs what it finds."""
        before, after = (self._side(slot, side) for side in (a, b))
        if isinstance(before, IndexView):
            raise InvalidOperation(f"slot {slot!r} is an index and follows from the slot it is of; compare that one")
        kind = before._kind()
        old, new = before._now()[1], after._now()[1]
        if isinstance(before, LogView):
            return diff.diff_logs(old, new, before._item)
        if kind.name == "value" and not kind.custom:
            return diff.diff_value(before.get(), after.get())
        if kind.name == "tree" and not kind.custom:
            return diff.diff_trees(old, new)
        if kind.name == "document" and not kind.custom:
            return diff.diff_documents(old, new)
        return diff.diff_custom(old, new)

    def _side(self, slot: str, side: int | str | Event | Branch) -> Any:
        if isinstance(side, Branch):
            if side.engine is not self.engine:
                raise InvalidOperation("diff compares branches of one store; export and import to compare two stores")
            return side.state(slot, at=side.seq)
        return self.state(slot, at=side)

    def replay(self, slot: str, progress: Progress | None = None) -> Replay:
        """Folds a slot from the first event on, ignoring checkpoints, and compares the result with the stored state."""
        check_slot(slot)
        if progress is not None and not callable(progress):
            raise InvalidOperation(f"replay(progress=) is a function of (done, total), not {shown(progress)}")
        engine = self.engine
        with engine.read() as reader:
            ref = self._ref(reader)
            found = engine.slots.table(reader).get(slot)
        kind = found.kind
        state = kind.initial()
        started = time.perf_counter()
        for first in range(1, ref.seq + 1, 16 * BATCH):
            last = min(first + 16 * BATCH - 1, ref.seq)
            with engine.read() as reader:
                for lineage, events in engine.log.batches(reader, ref.lineage, first, last):
                    concerned = found.concerned(events)
                    if concerned:
                        state = kind.fold(state, lineage, concerned)
            if progress is not None:
                progress(last, ref.seq)
        content = kind.content(state)
        seconds = time.perf_counter() - started
        with engine.read() as reader:
            stored = kind.content(engine.checkpoints.state(reader, ref.lineage, ref.seq, found))
        return Replay(slot, content.hex(), stored.hex(), ref.seq, seconds)


def _limited(events: Iterator[Event], limit: int) -> Iterator[Event]:
    for _, event in zip(range(limit), events, strict=False):
        yield event


def branch_at(engine: Engine, name: object) -> Branch:
    """The branch of this name, which must exist."""
    found = Branch(engine, check_branch(name))
    with engine.read() as reader:
        found._ref(reader)
    return found


__all__ = ["Branch", "Move", "Progress", "Replay", "View", "branch_at"]
