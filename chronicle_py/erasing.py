"""Erasing: taking the payloads of events out of a store, and all that was folded from them.

Theory of operation. An event that is erased keeps its header, its id and the digest of its payload (see erased.py), so
that the chain above it still verifies. What else may hold the payload is state: in the directories of the blocks from
the event on, on each lineage that inherits it. They are gone through in order, parents before children. A built-in
slot that the event concerns is folded anew from the boundary before it, wherever a directory has its state. A custom
one loses its states there, and is pointed to that boundary: its reducer is not run here, whoever reads it folds it and
writes behind, as ever. All other entries stay as they are, since which events concern which slot has not changed. Then
the objects are swept: nodes that only the old states needed, and blobs that only erased events referred to.

All is one write transaction with a raised epoch: readers and crashes see the store before or after it, and every
process forgets what it had folded. The bytes leave the file when LMDB uses their pages again, or with a compaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final

import msgspec

from chronicle_py import records
from chronicle_py.checkpoints import Boundary, Checkpoints, Directory, Place, decode_directory
from chronicle_py.erased import check_reason, encode_stub
from chronicle_py.errors import InvalidOperation
from chronicle_py.event import ID_SIZE, Event, checked_event, without_payload
from chronicle_py.kv import BLOCKS, EVENTS, LINEAGES, OBJECTS, Progress
from chronicle_py.records import BLOCK, Position, pack_position
from chronicle_py.reducers import structure_of
from chronicle_py.removal import Removal
from chronicle_py.shown import shown
from chronicle_py.sweeping import sweep
from chronicle_py.transaction import Transaction, transaction

if TYPE_CHECKING:
    from chronicle_py.engine import Engine
    from chronicle_py.slots import Slot

_LAST: Final = (1 << 64) - 1
_KEY = slice(3, 3 + ID_SIZE)  # where the id stands in a stored event


class EraseReport(msgspec.Struct, frozen=True):
    """What `store.erase` did. The file does not shrink, and still has the bytes in free pages: see `store.compact`."""

    events: tuple[str, ...]  # ids of those that were erased now, oldest first; what was erased before is not among them
    places: int  # where they lay
    directories: int  # of blocks that were written anew
    nodes: int  # of states that went
    blobs: int


def erase(
    engine: Engine, ids: str | Event | Iterable[str | Event], reason: object, progress: Progress | None
) -> EraseReport:
    """Erases events, in a transaction of its own."""
    why = check_reason(reason)
    wanted = [ids] if isinstance(ids, str | Event) else _listed(ids)
    with erasing(engine) as tx:
        log = engine.log
        events = [log.resolve(tx.writer, i.id if isinstance(i, Event) else i)[1] for i in wanted]
        return erase_events(tx, events, why, progress)


def _listed(ids: object) -> list[Any]:
    if not isinstance(ids, Iterable):
        raise InvalidOperation(f"erase takes the id of an event, or several of them, not {shown(ids)}")
    return list(ids)


def erasing(engine: Engine) -> AbstractContextManager[Transaction]:
    """The `with` block of a transaction in which events may be erased. InvalidOperation inside another one: what that
    one folded before would have to be forgotten half-way."""
    if engine.running() is not None:
        raise InvalidOperation("erasing is a transaction of its own; leave the open one first")
    return transaction(engine)


def erase_events(
    tx: Transaction,
    events: Iterable[Event],
    reason: str,
    progress: Progress | None = None,
) -> EraseReport:
    """Erases events within a transaction of `erasing`, as the last thing in it.

    O(events after the oldest of them, on all lineages that have it) for the slots that they concern, and O(directories
    + objects), with blobs O(events).
    """
    tx.flush()
    chosen = {event.key: event for event in events if not event.is_erased}
    if not chosen:
        return EraseReport((), 0, 0, 0, 0)
    tx.written_behind = False
    engine = tx.engine
    removal = Removal(tx.scope, tx, progress)
    steps = 2 * tx.writer.count(BLOCKS) + tx.writer.count(OBJECTS)
    removal.expect(steps)
    time = engine.clock()
    run = _Erasure(tx, removal)
    places = run.find(chosen)
    blobs: set[bytes] = set()
    for (lineage, seq), event in places.items():
        key = pack_position(lineage, seq)
        stored = engine.log.stored(tx.writer, lineage, seq)
        stub = encode_stub(event.key, reason, time, structure_of(event))
        tx.writer.put(EVENTS, key, without_payload(stored, event, stub))
        if event.refs is not None:
            blobs.update(event.refs[0][i : i + ID_SIZE] for i in range(0, len(event.refs[0]), ID_SIZE))
    tx.changes += 1
    directories = run.fold_anew(places)
    swept = sweep(removal, blobs, lambda lineage, seq: True)
    engine.raise_epoch_for_all(tx)
    if progress is not None:
        progress(steps, steps)
    ids = tuple(event.id for event in sorted(chosen.values(), key=lambda event: (event.seq, event.key)))
    return EraseReport(ids, len(places), directories, swept.nodes, swept.blobs)


class _Erasure:
    """What has to be folded anew, and where."""

    def __init__(self, tx: Transaction, removal: Removal) -> None:
        self._tx = tx
        self._engine: Engine = tx.engine
        self._removal = removal
        self._reader = tx.scope
        self._table = self._engine.slots.table(tx.writer)
        # Of its own: what the store remembers was folded from the payloads, and other threads still read by it.
        self._checkpoints = Checkpoints(self._engine)
        self._lineages = [int.from_bytes(key, "big") for key, _ in removal.scan(LINEAGES)]

    def find(self, chosen: Mapping[bytes, Event]) -> dict[Position, Event]:
        """All places where these events lie; the index of ids names one of each. O(lineages · events)."""
        found: dict[Position, Event] = {}
        by_seq: dict[int, set[bytes]] = {}
        for event in chosen.values():
            by_seq.setdefault(event.seq, set()).add(event.key)
        for lineage in self._lineages:
            start = self._engine.lineages.get(self._reader, lineage).fork_seq
            for seq, keys in by_seq.items():
                if seq <= start:
                    continue
                stored = self._reader.get(EVENTS, pack_position(lineage, seq))
                if stored is not None and stored[_KEY] in keys:
                    found[lineage, seq] = checked_event(stored, f"sequence {seq} of lineage {lineage}")
        return found

    def fold_anew(self, places: Mapping[Position, Event]) -> int:
        """Rewrites what directories say of the slots that events at these places concern; how many directories."""
        written = 0
        for lineage in self._lineages:  # children come after their parents
            first = self._concerned(lineage, places)
            if not first:
                continue
            start = (min(first.values()) - 1) // BLOCK
            pairs = self._removal.scan(BLOCKS, pack_position(lineage, start), pack_position(lineage, _LAST))
            befores = {
                number: self._before(lineage, self._table.by_number[number], seq) for number, seq in first.items()
            }
            for key, stored in pairs:
                block = records.unpack_position(key)[1]
                directory = decode_directory(key, stored, f"the directory of block {block} on lineage {lineage}")
                written += self._directory(key, Boundary(lineage, block, directory, {}), first, befores)
                self._removal.step()
        return written

    def _concerned(self, lineage: int, places: Mapping[Position, Event]) -> dict[int, int]:
        """The slots that some of the events on a lineage's chain concern: number -> the first such sequence."""
        first: dict[int, int] = {}
        for (holder, seq), event in places.items():
            if holder != lineage and self._engine.lineages.owner(self._reader, lineage, seq)[0] != holder:
                continue
            for slot in self._slots_of(event):
                first[slot.number] = min(seq, first.get(slot.number, seq))
        return first

    def _slots_of(self, event: Event) -> Iterable[Slot]:
        table = self._table
        return table.by_type.get(event.type, ()) if event.slot is None else table.by_slot.get(event.slot, ())

    def _before(self, lineage: int, slot: Slot, seq: int) -> Place:
        """Where the newest state of a slot lies from before an event at `seq`."""
        boundary = self._checkpoints.boundary(self._reader, lineage, (seq - 1) // BLOCK * BLOCK)
        return self._checkpoints._place(boundary, slot)

    def _directory(
        self, key: bytes, boundary: Boundary, first: Mapping[int, int], befores: Mapping[int, Place]
    ) -> bool:
        """Writes a directory anew where it has a state from after an event, or names one that was taken out."""
        directory: Directory = boundary.directory
        here, there, live = dict(directory.here), dict(directory.there), {}
        for number, seq in first.items():
            if seq > boundary.seq:
                continue
            slot = self._table.by_number[number]
            if not slot.custom:
                if number in here:
                    state = self._state(boundary, slot)
                    root, live[number] = slot.kind.save(state, self._engine.objects)
                    here[number] = (slot.kind.identity, msgspec.Raw(root))
                continue
            place = self._checkpoints._place(boundary, slot)
            if place.lineage and (place.block + 1) * BLOCK >= seq:
                here.pop(number, None)
                there[number] = (*befores[number],)
        if here == directory.here and there == directory.there:
            return False
        changed = Boundary(
            boundary.lineage, boundary.block, msgspec.structs.replace(directory, here=here, there=there), live
        )
        self._tx.writer.put(BLOCKS, key, records.seal(key, records.encode(changed.directory)))
        self._checkpoints.remember([changed])
        return True

    def _state(self, boundary: Boundary, slot: Slot) -> Any:
        """The state of a built-in slot at a boundary, from the one before it, whose directory is right already."""
        lineage, seq = boundary.lineage, boundary.seq
        state = self._checkpoints.state(self._reader, lineage, seq - 1, slot)
        return self._checkpoints.fold(self._reader, lineage, seq, seq, slot, state)
