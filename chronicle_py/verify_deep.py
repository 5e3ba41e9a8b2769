"""The deep part of verify: folds every slot along every lineage anew, and compares each checkpoint with the result.

Lineages come in the order of their numbers, so that a parent is folded before its children; the states at each fork
are kept until they are needed. Nothing is read from checkpoints: the nodes of the fresh states are compared with the
stored ones as they would be saved, so that a missing node is found as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from chronicle_py import records
from chronicle_py.checkpoints import CLEAN, Directory, contents, decode_directory, touched_slots
from chronicle_py.errors import ChronicleError
from chronicle_py.event import NODE, Event
from chronicle_py.kv import BLOCKS, LINEAGES, OBJECTS, Reader
from chronicle_py.records import BLOCK, pack_position

if TYPE_CHECKING:
    from chronicle_py.engine import Engine
    from chronicle_py.slots import Slot

T = TypeVar("T")
States = dict[int, Any]
Contents = tuple[set[str], set[str], set[str]]  # as `contents` returns it


class _Compared:
    """Stands in for the object store: what would be stored must be there."""

    def __init__(self, reader: Reader, report: Callable[[str, str], None]) -> None:
        self._reader = reader
        self._report = report
        self._missing: dict[bytes, bytes] = {}
        self._decoded: dict[tuple[bytes, Any], Any] = {}

    def store(self, address: bytes, data: bytes) -> None:
        if address in self._missing or self._reader.get(OBJECTS, address) is not None:
            return
        self._missing[address] = data
        self._report(f"objects {address.hex()[:16]}", "is missing: a checkpoint needs this node")

    def load(self, address: bytes) -> bytes:
        found = self._missing.get(address)
        if found is None:
            stored = self._reader.get(OBJECTS, address)
            found = stored[1:] if stored is not None and stored[:1] == NODE else b""
        return found

    def cached(self, address: bytes, decode: Callable[[bytes], T]) -> T:
        key = (address, decode)
        if key not in self._decoded:
            if len(self._decoded) > 4096:
                self._decoded.clear()
            self._decoded[key] = decode(self.load(address))
        result: T = self._decoded[key]
        return result


class DeepCheck:
    """The fresh states while verify walks the events."""

    def __init__(self, engine: Engine, reader: Reader, report: Callable[[str, str], None]) -> None:
        self._engine = engine
        self._reader = reader
        self._report = report
        self._objects = _Compared(reader, report)
        self._table = engine.slots.table(reader)
        self.skipped = sorted(s.id for s in self._table.by_id.values() if s.custom and not s.identity)
        self._forks: dict[int, dict[int, int]] = {}  # lineage -> sequence -> children that start there
        for key, stored in reader.scan(LINEAGES, b""):
            try:
                record = records.decode_lineage(key, stored, "a lineage")
            except ChronicleError:
                continue  # reported by verify
            places = self._forks.setdefault(record.parent, {})
            places[record.fork_seq] = places.get(record.fork_seq, 0) + 1
        self._kept: dict[tuple[int, int], list[Any]] = {}  # (lineage, seq) -> [children left, states, touched]
        self._lineage = 0
        self._states: States = {}
        self._touched: dict[int, int] = {}  # slot number -> the last sequence that concerned it
        self._broken: set[int] = set()

    def _enter(self, lineage: int) -> None:
        self._lineage = lineage
        record = self._engine.lineages.get(self._reader, lineage)
        kept = self._kept.get((record.parent, record.fork_seq))
        if kept is None:
            self._states, self._touched = {}, {}
            return
        kept[0] -= 1
        self._states, self._touched = self._copy(kept[1]), dict(kept[2])
        if not kept[0]:
            del self._kept[record.parent, record.fork_seq]

    def _copy(self, states: States) -> States:
        """The states for another lineage to fold on from: a reducer may change them in place."""
        return {number: self._table.by_number[number].kind.copy(state) for number, state in states.items()}

    def leave(self, lineage: int) -> None:
        if lineage == self._lineage:
            self._lineage = 0

    def fold(self, lineage: int, events: list[Event]) -> None:
        """The next events of a lineage, up to a block boundary or its end."""
        if lineage != self._lineage:
            self._enter(lineage)
        places = self._forks.get(lineage, {})
        end = events[-1].seq
        if not places and len(events) == BLOCK and not end % BLOCK and events[0].seq == end - BLOCK + 1:
            self._compare(lineage, end // BLOCK - 1, events, self._advance(lineage, events))  # so it is nearly always
            return
        stops = sorted({e.seq for e in events if e.seq in places or e.seq % BLOCK == 0} | {events[-1].seq})
        first = 0
        for stop in stops:
            last = next(i for i in range(first, len(events)) if events[i].seq == stop) + 1
            self._advance(lineage, events[first:last])
            first = last
            if stop in places:
                self._kept[lineage, stop] = [places[stop], self._copy(self._states), dict(self._touched)]
            if stop % BLOCK == 0:
                self._compare(lineage, stop // BLOCK - 1, events[max(0, last - BLOCK) : last])

    def _advance(self, lineage: int, events: list[Event]) -> Contents:
        """Folds some events into the states; returns what they concern."""
        found = contents([(lineage, events)])
        _, loose, carried = found
        for slot in touched_slots(self._table, loose, carried).values():
            concerned = slot.concerned(events)
            self._touched[slot.number] = concerned[-1].seq
            if slot.number in self._broken or not slot.identity:
                continue
            try:
                state = self._states.get(slot.number)
                start = slot.kind.initial() if slot.number not in self._states else state
                self._states[slot.number] = slot.kind.fold(start, lineage, concerned)
            except ChronicleError as error:
                self._broken.add(slot.number)
                self._report(f"slots {slot.id!r}", str(error))
        return found

    def _compare(self, lineage: int, block: int, events: list[Event], found: Contents | None = None) -> None:
        """The directory of a block against the fresh states. `events`: those of the block that are at hand.

        `found`: what they concern, where it is known.
        """
        key = pack_position(lineage, block)
        stored = self._reader.get(BLOCKS, key)
        if stored is None:
            return  # reported by verify
        where = f"blocks {lineage}/{block}"
        try:
            directory = decode_directory(key, stored, where)
        except ChronicleError:
            return  # reported by verify
        for number, (identity, root) in directory.here.items():
            slot = self._table.by_number.get(number)
            if slot is not None and slot.identity == identity and number not in self._broken:
                self._compare_state(where, slot, bytes(root))
        self._compare_claims(where, (block + 1) * BLOCK, directory)
        self._compare_summary(where, lineage, block, directory, events, found)

    def _compare_state(self, where: str, slot: Slot, root: bytes) -> None:
        kind = slot.kind
        state = self._states[slot.number] if slot.number in self._states else kind.initial()
        try:
            fresh, saved = kind.save(state, self._objects)
        except ChronicleError as error:
            self._report(where, f"the state of slot {slot.id!r} cannot be computed: {error}")
            return
        self._states[slot.number] = saved
        if fresh != root:
            self._report(where, f"its checkpoint of slot {slot.id!r} is not the fold of the events")

    def _compare_claims(self, where: str, seq: int, directory: Directory) -> None:
        """What a directory says of slots whose state lies elsewhere."""
        for number, (_, block, true_to) in directory.there.items():
            if true_to == CLEAN and self._touched.get(number, 0) > (block + 1) * BLOCK:
                self._report(where, f"says slot {number} was last touched in block {block}, it was later")
        if directory.more:
            return
        for number, last in self._touched.items():
            known = number < directory.known and number not in directory.here and number not in directory.there
            if known and last <= seq:
                self._report(where, f"says that no event concerns slot {number}, but that at sequence {last} does")

    def _compare_summary(
        self,
        where: str,
        lineage: int,
        block: int,
        directory: Directory,
        events: list[Event],
        found: Contents | None,
    ) -> None:
        if directory.types is None:
            return
        pieces = [(lineage, events)]
        if len(events) < BLOCK:
            try:
                pieces = list(self._engine.log.batches(self._reader, lineage, block * BLOCK + 1, (block + 1) * BLOCK))
            except ChronicleError:
                return  # reported by verify
        types, _, carried = contents(pieces) if found is None else found
        numbers = sorted(slot.number for name in carried if (slot := self._table.by_id.get(name)) is not None)
        if sorted(types) != directory.types or numbers != directory.slots:
            self._report(
                where, f"says its events are of types {directory.types} and slots {directory.slots}; they are not"
            )
