"""Checkpoints: the directory that every completed block leaves, and the state of a slot at any sequence.

Theory of operation
-------------------
Block b of a branch is its sequences bK+1 … (b+1)K, inherited ones counted. The event that completes it writes, in its
own transaction, one directory under (lineage of that event, b). For each slot it says where a state is found that is
true at this boundary:

    here    the state itself (the root of it; closed nodes of collections are objects)
    there   (lineage, block) of a directory that has it here, and up to which sequence it is true: CLEAN, when no event
            since concerned the slot, else that sequence; lineage 0 means the slot's initial state
    more    a Map of further `there` entries, once they are many
    absent  no event has ever concerned the slot

The states of built-in slots that the block touched are folded and put `here`. A custom slot's reducer is not run by an
append: its entry goes stale, and the process that folded further enters the state at the newest boundary with its next
write ("written behind"). A slot registered late that follows other events is stale from the start. All of this is an
optimisation: a state is the fold of the events, and whatever is missing or of another identity is folded again.

So a read does one look-up for the last boundary, at most one more to where the state lies, and folds what follows.

A directory also says which types and slots the block's events have, so that a search for others skips the block.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import msgspec

from chronicle_py import records
from chronicle_py.collections import Map
from chronicle_py.errors import CorruptStore, ReducerFailed
from chronicle_py.event import Event
from chronicle_py.kv import BLOCKS, Reader
from chronicle_py.records import BLOCK, pack_position

if TYPE_CHECKING:
    from chronicle_py.engine import Engine
    from chronicle_py.slots import Slot, Table
    from chronicle_py.transaction import Transaction

T = TypeVar("T")

CLEAN: Final = -1
_POINTERS: Final = 100  # `there` entries that a directory holds itself
_TYPES: Final = 32  # distinct types that a directory names; a block with more is never skipped
_NEWEST: Final = -1
_BOUNDARIES: Final = 256  # directories remembered
_STATE_BYTES: Final = 64 << 20  # of states remembered, estimated
_WAY: Final = 16 * BLOCK  # events between two places of a long fold that are remembered, or a multiple of it; as far
# apart as the places where indexes have their states, so that a late one's are found
_WAYPOINTS: Final = 32  # of such places in one fold
_CATCH_UP: Final = 64 * BLOCK  # events that an append folds at most for an index that has fallen behind
_AMORTISE: Final = 16 << 10  # bytes of a custom state that may be written behind per block


class Directory(msgspec.Struct, array_like=True, frozen=True):
    """What is stored for a block."""

    types: list[str] | None  # of its events; None: too many to name
    slots: list[int]  # numbers of the slots that its events carry
    known: int  # slots numbered below were registered when it was written
    here: dict[int, tuple[bytes, msgspec.Raw]]  # slot number -> (identity, root)
    there: dict[int, tuple[records.LineageNumber, records.Sequence, int]]  # slot number -> (lineage, block, true to)
    more: bytes  # root of a Map of such entries, or b""


class Summary(msgspec.Struct, array_like=True, frozen=True):
    """The first fields of a directory, decoded alone."""

    types: list[str] | None
    slots: list[int]


class Boundary(NamedTuple):
    """A directory, where it lies, and the states of it that are at hand."""

    lineage: int
    block: int
    directory: Directory
    live: dict[int, Any]

    @property
    def seq(self) -> int:
        return (self.block + 1) * BLOCK


class Place(NamedTuple):
    """Where the state of a slot lies and up to which sequence it is true. Lineage 0: the initial state."""

    lineage: int
    block: int
    true_to: int


_decode_directory = msgspec.msgpack.Decoder(Directory).decode
_decode_summary = msgspec.msgpack.Decoder(Summary).decode


def decode_directory(key: bytes, record: bytes, what: str) -> Directory:
    return _decoded(_decode_directory, records.unseal(key, record, what), what)


def _decoded(decode: Callable[[bytes], T], body: bytes, what: str) -> T:
    try:
        return decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CorruptStore(f"{what} does not decode: {error}. `chronicle verify` lists the damage") from None


Concerned = dict[tuple[int, frozenset[str], frozenset[str]], list[tuple[int, list[Event]]]]


class Checkpoints:
    """States of slots, and the directories that make them cheap."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.since = (0, 0)  # the first snapshot of this epoch; what is read from older ones is not remembered
        self.forget()

    def forget(self) -> None:
        self._lock = threading.Lock()  # around the changes of what is remembered; a new one, for a forked child
        self._boundaries: dict[tuple[int, int], Boundary] = {}
        self._states: dict[tuple[int, int, bytes, int], tuple[int, Any, int]] = {}  # newest of a lineage, or of a block
        self._state_bytes = 0
        self._behind: dict[tuple[int, int, int], tuple[bytes, Any]] = {}
        self._sizes: dict[int, int] = {}  # slot number -> bytes of its last root

    # --- directories ---

    def boundary(self, reader: Reader, lineage: int, seq: int) -> Boundary | None:
        """The directory at the boundary `seq` (a multiple of K) of the chain that ends in `lineage`; None at 0."""
        if seq == 0:
            return None
        owner, _ = self._engine.lineages.owner(reader, lineage, seq)
        return self._at(reader, owner, seq // BLOCK - 1)

    def _at(self, reader: Reader, lineage: int, block: int, fresh: bool = False) -> Boundary:
        """The directory of a block. What is remembered may lack states that another process has entered since."""
        found = None if fresh else self._boundaries.get((lineage, block))
        if found is None:
            key = pack_position(lineage, block)
            record = reader.get(BLOCKS, key)
            if record is None:
                raise CorruptStore(
                    f"the directory of block {block} on lineage {lineage} is missing. `chronicle verify` lists the "
                    "damage"
                )
            directory = decode_directory(key, record, "the directory of a block")
            found = Boundary(lineage, block, directory, {})
            if not self._outdated(reader):
                self._remember(found)
        return found

    def _outdated(self, reader: Reader) -> bool:
        """Whether a snapshot is from before the epoch: what it has may be gone from the store, and is used only by
        whoever holds it."""
        return reader.snapshot is not None and reader.snapshot < self.since

    def _remember(self, boundary: Boundary) -> None:
        with self._lock:
            if len(self._boundaries) >= _BOUNDARIES:
                self._boundaries.pop(next(iter(self._boundaries)), None)
            self._boundaries[boundary.lineage, boundary.block] = boundary

    def _place(self, boundary: Boundary | None, slot: Slot) -> Place:
        """What a directory says of a slot, whatever the identity of the state."""
        if boundary is None:
            return Place(0, 0, 0)
        directory, number = boundary.directory, slot.number
        if number in directory.here:
            return Place(boundary.lineage, boundary.block, boundary.seq)
        found = directory.there.get(number)
        if found is None and directory.more:
            found = Map.decode(directory.more, self._engine.objects).get(f"{number:08x}")
        if found is not None:
            lineage, block, true_to = found
            return Place(lineage, block, boundary.seq if true_to == CLEAN else true_to)
        if slot.follows and number >= directory.known:
            return Place(0, 0, 0)
        return Place(0, 0, boundary.seq)

    def _load(self, reader: Reader, place: Place, slot: Slot) -> tuple[int, Any]:
        """(sequence, state) at a place; (0, initial) when what lies there is of another identity."""
        kind = slot.kind
        if place.lineage == 0:
            return place.true_to, kind.initial()
        boundary = self._at(reader, place.lineage, place.block)
        entry = boundary.directory.here.get(slot.number)
        if entry is None or entry[0] != kind.identity:
            boundary = self._at(reader, place.lineage, place.block, fresh=True)  # others may have written behind
            entry = boundary.directory.here.get(slot.number)
        if entry is None or entry[0] != kind.identity:
            return 0, kind.initial()
        state = boundary.live.get(slot.number)
        if state is None:
            state = kind.load(bytes(entry[1]))
            self._sizes[slot.number] = len(bytes(entry[1]))
            if not slot.custom:
                boundary.live[slot.number] = state
        return place.true_to, state

    def newest_root(self, reader: Reader, lineage: int, seq: int, slot: Slot) -> bytes | None:
        """The bytes of the newest state of a slot that is stored at or below the boundary `seq`, of whatever
        identity."""
        place = self._place(self.boundary(reader, lineage, seq), slot)
        if place.lineage == 0:
            return None
        entry = self._at(reader, place.lineage, place.block, fresh=True).directory.here.get(slot.number)
        return None if entry is None else bytes(entry[1])

    # --- states ---

    def state(self, reader: Reader, lineage: int, seq: int, slot: Slot) -> Any:
        """The state of a slot at a sequence of the chain that ends in `lineage`.

        O(log n + K), however long ago the slot was touched; a custom slot that was never written behind is folded from
        where it was.
        """
        kind = slot.kind
        if seq == 0 or lineage == 0:
            return kind.initial()
        base = seq - seq % BLOCK
        found = self._states.get((lineage, slot.number, kind.identity, _NEWEST))
        if found is not None and found[0] > seq:
            found = self._states.get((lineage, slot.number, kind.identity, seq // BLOCK))
        if found is not None and base <= found[0] <= seq:
            at, state = found[0], found[1]
            if at == seq:
                return state
            state = kind.copy(state)  # a reducer may change it in place, under those who hold it
        else:
            place = self._place(self.boundary(reader, lineage, base), slot)
            stored_at, stored = self._load(reader, place, slot)
            at, state = self._nearest(reader, lineage, seq, slot, place, stored_at) or (stored_at, stored)
            if at < base:  # stale, or of another identity
                state = self._far_fold(reader, lineage, at, base, slot, state, stored_at)
                at = base
        state = self.fold(reader, lineage, at + 1, seq, slot, state)
        if not self._outdated(reader):
            self._keep(lineage, seq, slot, state, seq - at)
        return state

    def _nearest(
        self, reader: Reader, lineage: int, seq: int, slot: Slot, place: Place, stored_at: int
    ) -> tuple[int, Any] | None:
        """The newest state at or below `seq` that is at hand, if it is newer than the stored one."""
        if stored_at >= seq - seq % BLOCK:
            return None
        upper, number = seq, lineage
        for _ in range(BLOCK):
            found = self._states.get((number, slot.number, slot.kind.identity, _NEWEST))
            if found is not None and found[0] <= upper:
                return (found[0], slot.kind.copy(found[1])) if found[0] > stored_at else None
            record = self._engine.lineages.get(reader, number)
            if record.parent == 0 or record.fork_seq <= place.true_to:
                break
            number, upper = record.parent, record.fork_seq
        return None

    def _far_fold(
        self, reader: Reader, lineage: int, at: int, base: int, slot: Slot, state: Any, stored_at: int
    ) -> Any:
        """The state at the boundary `base`, from an older one at `at`; kept for the next write to enter. A long way is
        gone by waypoints that are kept as well, so that whoever goes to some place on it later starts nearby."""
        for way in range(base - base % _WAY, at, -_WAY):
            place = self._place(self.boundary(reader, lineage, way), slot)
            if place.true_to > at:
                found, known = self._load(reader, place, slot)
                if found > at:
                    at = stored_at = found
                    state = slot.kind.copy(known)
                    break
        step = _WAY * max(1, -(-(base - at) // (_WAY * _WAYPOINTS)))
        while at < base:
            stop = min(base, at - at % step + step)
            state = self.fold(reader, lineage, at + 1, stop, slot, state)
            self._write_later(reader, lineage, stop, slot, state, stop - stored_at)
            at = stop
        return state

    def _keep(self, lineage: int, seq: int, slot: Slot, state: Any, folded: int) -> None:
        key = (lineage, slot.number, slot.kind.identity, _NEWEST)
        size = 2048 + self._sizes.get(slot.number, 0) + 256 * folded
        with self._lock:
            found = self._states.get(key)
            if found is not None and found[0] > seq:  # a fork that has not been written to reads its parent's lineage
                key = (*key[:3], seq // BLOCK)
                found = self._states.get(key)
                if found is not None and found[0] > seq:
                    return
            self._states.pop(key, None)
            self._state_bytes += size - (found[2] if found is not None else 0)
            self._states[key] = (seq, state, size)
            while len(self._states) > 1 and self._state_bytes > _STATE_BYTES:
                self._state_bytes -= self._states.pop(next(iter(self._states)))[2]

    def fold(self, reader: Reader, lineage: int, start: int, stop: int, slot: Slot, state: Any) -> Any:
        """Folds the events start…stop of a chain that concern the slot."""
        kind = slot.kind
        for number, concerned in self._concerned(reader, lineage, start, stop, slot):
            state = kind.fold(state, number, concerned)
        return state

    def _concerned(
        self, reader: Reader, lineage: int, start: int, stop: int, slot: Slot
    ) -> Iterator[tuple[int, list[Event]]]:
        """The events start…stop of a chain that concern the slot, by lineage."""
        if start > stop:
            return
        pieces: Iterator[tuple[int, int]] = iter(((start, stop),))
        if stop - start > 4 * BLOCK:
            table = self._engine.slots.table(reader)
            numbers = {s.number for name in slot.slots if (s := table.by_id.get(name)) is not None}
            pieces = self.matching(
                reader,
                lineage,
                start,
                stop,
                lambda has: not numbers.isdisjoint(has.slots) or not slot.types.isdisjoint(has.types or ()),
            )
        for first, last in pieces:
            for number, events in self._engine.log.batches(reader, lineage, first, last):
                concerned = slot.concerned(events)
                if concerned:
                    yield number, concerned

    def matching(
        self,
        reader: Reader,
        lineage: int,
        start: int,
        stop: int,
        wanted: Callable[[Summary], bool],
        reverse: bool = False,
    ) -> Iterator[tuple[int, int]]:
        """The stretches of start…stop whose blocks hold something wanted, and those that are not complete. One small
        read for each complete block."""
        blocks = range((start - 1) // BLOCK, (stop - 1) // BLOCK + 1)
        open_at: int | None = None
        edge = 0
        for block in reversed(blocks) if reverse else blocks:
            first, last = max(start, block * BLOCK + 1), min(stop, (block + 1) * BLOCK)
            hit = last % BLOCK != 0 or self._may_hold(reader, lineage, block, wanted)
            if hit:
                if open_at is None:
                    open_at = last if reverse else first
                edge = first if reverse else last
            full = open_at is not None and abs(edge - open_at) >= 16 * BLOCK
            if open_at is not None and (not hit or full):
                yield (edge, open_at) if reverse else (open_at, edge)
                open_at = None
        if open_at is not None:
            yield (edge, open_at) if reverse else (open_at, edge)

    def _may_hold(self, reader: Reader, lineage: int, block: int, wanted: Callable[[Summary], bool]) -> bool:
        owner, _ = self._engine.lineages.owner(reader, lineage, (block + 1) * BLOCK)
        key = pack_position(owner, block)
        record = reader.get(BLOCKS, key)
        if record is None:
            return True
        what = "the directory of a block"
        summary = _decoded(_decode_summary, records.unseal(key, record, what), what)
        return summary.types is None or wanted(summary)

    # --- writing ---

    def close_block(self, tx: Transaction, lineage: int, seq: int, run: list[Event] | None = None) -> None:
        """Writes the directory of the block that the event at `seq` has completed. `run`: the newest events of the
        lineage, as far as they are at hand."""
        engine, reader = self._engine, tx.writer
        table = engine.slots.table(reader)
        previous = seq - BLOCK
        before = self.boundary(reader, lineage, previous)
        if run is not None and len(run) == BLOCK:
            pieces = [(lineage, run)]
        else:
            tx.flush_events()
            pieces = [
                (number, engine.log.events(reader, number, first, last))
                for number, first, last in engine.lineages.segments(reader, lineage, previous + 1, seq)
            ]
        types, loose, carried = contents(pieces)
        here: dict[int, tuple[bytes, msgspec.Raw]] = {}
        there = dict(before.directory.there) if before is not None else {}
        live: dict[int, Any] = {}
        touched = touched_slots(table, loose, carried)
        if before is not None:
            for number in before.directory.here:
                if number not in touched:
                    there[number] = (before.lineage, before.block, CLEAN)
            for slot in table.following:
                late = slot.number >= before.directory.known and slot.number not in touched
                if late and slot.number not in there and self._place(before, slot).true_to == 0:
                    there[slot.number] = (0, 0, 0)
        for slot in touched.values():
            place = self._place(before, slot)
            if slot.custom or slot.index or place.true_to < previous:
                there[slot.number] = place
                continue
            at, state = self._load(reader, place, slot)
            if at < previous:  # nothing of this identity is where it should be: whoever reads it folds it anew
                there[slot.number] = (0, 0, 0)
                continue
            for number, events in pieces:
                concerned = slot.concerned(events)
                if concerned:
                    state = slot.kind.fold(state, number, concerned)
            root, state = slot.kind.save(state, engine.objects)
            here[slot.number] = (slot.kind.identity, msgspec.Raw(root))
            there.pop(slot.number, None)
            live[slot.number] = state
            self._sizes[slot.number] = len(root)
            self._keep(lineage, seq, slot, state, 0)
        read: Concerned = {}
        for slot in table.indexes:
            if seq % (slot.stride * BLOCK) == 0:
                found = self._advanced(tx, lineage, previous, seq, slot, slot.number in touched, read)
                if found is not None:
                    root, live[slot.number] = slot.kind.save(found, engine.objects)
                    here[slot.number] = (slot.kind.identity, msgspec.Raw(root))
                    there.pop(slot.number, None)
                    self._sizes[slot.number] = len(root)
                    self._keep(lineage, seq, slot, live[slot.number], 0)
        more = before.directory.more if before is not None else b""
        if len(there) > _POINTERS:
            more, there = self._more(more, there), {}
        numbers = sorted({found.number for name in carried if (found := table.by_id.get(name)) is not None})
        named = sorted(types) if len(types) <= _TYPES and len(numbers) == len(carried) else None
        directory = Directory(named, numbers, table.next_number, here, there, more)
        self.remember([self._put(tx, Boundary(lineage, seq // BLOCK - 1, directory, live))])

    def _advanced(
        self, tx: Transaction, lineage: int, previous: int, seq: int, slot: Slot, touched: bool, read: Concerned
    ) -> Any | None:
        """The state of an index at the boundary `seq`, which ends the block that is being closed. None: it is the one
        of the boundary before, or so far behind that it is left to whoever reads it. `read` keeps events for the next
        index of the same slot."""
        reader = tx.writer
        place = self._place(self.boundary(reader, lineage, previous), slot)
        if place.true_to >= previous and not touched:
            return None
        last = max(0, seq - slot.stride * BLOCK)
        if place.true_to < last:  # a late one: building enters its states there, and in no directory between
            place = max(place, self._place(self.boundary(reader, lineage, last), slot), key=lambda p: p.true_to)
        held = self._states.get((lineage, slot.number, slot.kind.identity, _NEWEST))
        at, state = (0, None) if held is None else held[:2]
        if not place.true_to <= at <= seq or held is None:
            at, state = self._load(reader, place, slot)
        if seq - at > _CATCH_UP:
            return None
        tx.flush_events()
        key = at, slot.slots, slot.types
        if key not in read:
            read[key] = list(self._concerned(reader, lineage, at + 1, seq, slot))
        for number, events in read[key]:
            state = slot.kind.fold(state, number, events)
        return state

    def _more(self, root: bytes, there: dict[int, tuple[int, int, int]]) -> bytes:
        objects = self._engine.objects
        pointers: Map[Any] = Map.decode(root, objects) if root else Map()
        changes = {f"{number:08x}": list(place) for number, place in there.items()}
        return pointers.update(changes).save(objects).encode()

    def _put(self, tx: Transaction, boundary: Boundary) -> Boundary:
        key = pack_position(boundary.lineage, boundary.block)
        tx.writer.put(BLOCKS, key, records.seal(key, records.encode(boundary.directory)))
        tx.changes += 1
        return boundary

    # --- written behind ---

    def _write_later(self, reader: Reader, lineage: int, base: int, slot: Slot, state: Any, folded: int) -> None:
        """Keeps a state that no directory has, for the next write of this process to enter. `folded`: events since the
        stored state, however few of them were folded just now."""
        if (
            self._engine.readonly
            or self._outdated(reader)
            or folded * _AMORTISE < self._sizes.get(slot.number, 0) * BLOCK
        ):
            return
        if slot.index and folded < _CATCH_UP:  # the next append at a multiple of its stride does it
            return
        owner, _ = self._engine.lineages.owner(reader, lineage, base)
        kept = slot.kind.copy(state)
        with self._lock:
            if len(self._behind) >= BLOCK:
                self._behind.pop(next(iter(self._behind)))
            self._behind[owner, base // BLOCK - 1, slot.number] = (slot.kind.identity, kept)

    def has(self, reader: Reader, lineage: int, seq: int, slot: Slot) -> bool:
        """Whether the directory at the boundary `seq` says where the state is."""
        return self._place(self.boundary(reader, lineage, seq), slot).true_to >= seq

    def enter(self, lineage: int, seq: int, slot: Slot, state: Any) -> None:
        """Keeps the state at a boundary that lies on this lineage, for the next write of this process to enter."""
        with self._lock:
            self._behind[lineage, seq // BLOCK - 1, slot.number] = (slot.kind.identity, state)

    def write_behind(self, tx: Transaction) -> list[Boundary]:
        """Enters the states that were kept for this moment. Returns the directories that have them, for `remember`
        after the commit: until then, other threads read these blocks and would not find the states' nodes."""
        fresh: dict[tuple[int, int], Boundary] = {}
        if not self._behind:
            return []
        with self._lock:
            waiting, self._behind = self._behind, {}
        table = self._engine.slots.table(tx.writer)
        for (lineage, block, number), (identity, state) in waiting.items():
            slot = table.by_number.get(number)
            if slot is None or slot.identity != identity:
                continue
            boundary = fresh.get((lineage, block)) or self._at(tx.writer, lineage, block, fresh=True)
            try:
                root, saved = slot.kind.save(state, self._engine.objects)
            except ReducerFailed:
                continue  # such a state is folded at every read, and nothing else is disturbed
            self._sizes[number] = len(root)
            directory = boundary.directory
            here = {**directory.here, number: (identity, msgspec.Raw(root))}
            there = {n: place for n, place in directory.there.items() if n != number}
            live = boundary.live if slot.custom else {**boundary.live, number: saved}
            changed = msgspec.structs.replace(directory, here=here, there=there)
            fresh[lineage, block] = self._put(tx, Boundary(lineage, block, changed, live))
        return list(fresh.values())

    def remember(self, boundaries: list[Boundary]) -> None:
        """Keeps directories at hand that others may see."""
        for boundary in boundaries:
            self._boundaries.pop((boundary.lineage, boundary.block), None)
            self._remember(boundary)


def contents(pieces: list[tuple[int, list[Event]]]) -> tuple[set[str], set[str], set[str]]:
    """The types of all events, those of the events without slot, and the slots of the others."""
    kinds = {(e.type, e.slot) for _, events in pieces for e in events}
    return (
        {type for type, _ in kinds},
        {type for type, slot in kinds if slot is None},
        {slot for _, slot in kinds if slot is not None},
    )


def touched_slots(table: Table, types: set[str], carried: set[str]) -> dict[int, Slot]:
    found: dict[int, Slot] = {}
    for name in carried:
        for slot in table.by_slot.get(name, ()):
            found[slot.number] = slot
    for name in types:
        for slot in table.by_type.get(name, ()):
            found[slot.number] = slot
    return dict(sorted(found.items()))
