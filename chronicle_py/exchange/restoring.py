"""Importing an export: its lines, checked one by one and grafted onto the store, in one transaction.

After the first bad line the rest is only checked, so that all bad places are named at once, and nothing is kept. With
`skip_bad` the bad lines are left out, and so is what stands on them: an event without its parent cannot be. A branch
whose head is lost that way ends at its last event that could be kept, or is left out where that is not known.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from chronicle_py.errors import ChronicleError, InvalidOperation
from chronicle_py.event import decode_payload
from chronicle_py.exchange import lines
from chronicle_py.exchange.faults import SKIP_BAD, Fault, Imported, MalformedFile
from chronicle_py.exchange.graft import Graft, Head, Outcome
from chronicle_py.exchange.lines import BadLine, BlobLine, BranchLine, End, EventLine, Header, Line, ReadEvent, SlotLine
from chronicle_py.index_kind import decode_spec
from chronicle_py.indexing import index_id, index_record
from chronicle_py.kv import OBJECTS
from chronicle_py.names import check_branch, check_name
from chronicle_py.records import Position, Ref, SlotRecord
from chronicle_py.slots import CUSTOM, INDEX, MAX_SLOTS, SlotTable
from chronicle_py.store import Store
from chronicle_py.transaction import Transaction, transaction

FORM = "chronicle export"


def restore(store: Store, name: str, numbered: Iterable[tuple[int, bytes]], prefix: str, skip_bad: bool) -> Imported:
    """Imports the lines (number, text) of an export called `name`. Branch names get the prefix."""
    with transaction(store._engine) as tx:
        return _Restore(tx, prefix, skip_bad).run(name, numbered)


class _Restore:
    """One import."""

    def __init__(self, tx: Transaction, prefix: str, skip_bad: bool) -> None:
        self._tx = tx
        self._engine = tx.engine
        self._prefix = prefix
        self._skip = skip_bad
        self._graft = Graft(tx)
        self._faults: list[Fault] = []
        self._counts = {SlotLine: 0, BlobLine: 0, EventLine: 0, BranchLine: 0}
        self._header = self._ended = False
        self._slots: dict[str, SlotRecord] = {}  # read and not registered yet
        self._slot_names = set(self._engine.slots.table(tx.writer).by_id)
        self._blobs: set[bytes] = set()
        self._branches: list[tuple[str, BranchLine]] = []
        self._last: tuple[bytes, Position] = b"", (0, 0)
        self._lost = _Lost()
        self._new_slots = self._new_blobs = self._known = 0

    def run(self, name: str, numbered: Iterable[tuple[int, bytes]]) -> Imported:
        for number, text in numbered:
            if text.isspace():
                continue
            where = f"line {number}"
            try:
                self._line(where, lines.decode(text))
            except BadLine as error:
                self._faults.append(Fault(where, str(error)))
        if not self._ended:
            self._faults.append(Fault("end of file", "the line that ends an export is missing; the file was cut short"))
        self._register()
        outcomes = self._set_branches() if self._writing else {}
        if self._faults and not self._skip:
            raise MalformedFile(name, self._faults, SKIP_BAD)
        return Imported(
            FORM, self._graft.added, self._known, self._new_slots, self._new_blobs, dict(outcomes), self._faults
        )

    @property
    def _writing(self) -> bool:
        return self._skip or not self._faults

    def _line(self, where: str, line: Line) -> None:
        if isinstance(line, Header):
            if self._header:
                raise BadLine("is a second header; import one export at a time")
            lines.check_format(line)
            self._header = True
            return
        if self._ended:
            raise BadLine("comes after the line that ends the export")
        if isinstance(line, End):
            self._end(line)
            return
        self._counts[type(line)] += 1
        if isinstance(line, EventLine):
            self._event(line)
        elif isinstance(line, BlobLine):
            key, stored = lines.read_blob(line)
            if self._writing:
                self._new_blobs += self._graft.add_blob(key, stored)
        elif isinstance(line, SlotLine):
            if line.id in self._slots:
                raise BadLine(f"slot {line.id!r} is in the file twice")
            record = lines.read_slot(line)
            if record.kind == INDEX:
                self._slots[line.id] = self._checked_index(line.id, record)
            else:
                self._slots[line.id] = _checked_slot(line.id, record)
        else:
            self._branches.append((where, self._checked_branch(line)))

    def _end(self, line: End) -> None:
        self._ended = True
        found = End(*self._counts.values())
        if found != line and not self._faults:
            raise BadLine(
                f"the export had {line.events} events, {line.blobs} blobs, {line.slots} slots and {line.branches} "
                f"branches, the file has {found.events}, {found.blobs}, {found.slots} and {found.branches}"
            )

    # --- slots ---

    def _checked_index(self, id: str, record: SlotRecord) -> SlotRecord:
        """The registration, which must be what registering the index of that slot would make."""
        try:
            spec = decode_spec(record.initial)
            source = self._slots.get(spec.slot)
            if source is None:
                source = self._engine.slots.table(self._tx.writer).get(spec.slot).record
            agrees = record == index_record(spec.slot, source, spec.path) and id == index_id(spec.slot, spec.path)
        except (ChronicleError, msgspec.MsgspecError) as error:
            raise BadLine(f"index {id!r}: {error}") from None
        if not agrees:
            raise BadLine(f"index {id!r} does not agree with slot {spec.slot!r}, which it is of")
        return record

    def _register(self) -> None:
        """Registers the slots read so far: together, since each lookup after a registration reads all of them."""
        slots, self._slots = self._slots, {}
        if not slots or not self._writing:
            return
        registry = self._engine.slots
        table = registry.table(self._tx.writer)
        next_number = table.next_number
        for id, record in slots.items():
            found = table.by_id.get(id)
            if found is not None:
                registry._same(id, found.record, record)  # or StateExists
            elif id not in self._slot_names:
                if next_number >= MAX_SLOTS:
                    raise InvalidOperation(f"a store holds at most {MAX_SLOTS:,} slots")
                registry._store(self._tx, id, msgspec.structs.replace(record, number=next_number))
                self._slot_names.add(id)
                next_number += 1
                self._new_slots += 1

    # --- events ---

    def _event(self, line: EventLine) -> None:
        if self._slots:
            self._register()
        try:
            event = lines.read_event(line)
        except BadLine:
            self._lost.note_bad(line, self._graft)
            raise
        if not self._writing:
            return
        found = self._graft.find(event.key)
        if found is None:
            found = self._add(event)
        else:
            self._known += 1
        self._last = event.key, found

    def _add(self, event: ReadEvent) -> Position:
        parent: Position | None = None
        if event.parent:
            parent = self._last[1] if self._last[0] == event.parent else self._graft.find(event.parent)
            if parent is None:
                self._lost.note_orphan(event)
                raise BadLine(
                    f"event {event.key.hex()[:12]}: its parent {event.parent.hex()[:12]} is neither in the file before "
                    "it nor in the store"
                )
            if parent[1] + 1 != event.seq:
                raise BadLine(f"event {event.key.hex()[:12]} has sequence {event.seq} and its parent {parent[1]}")
        try:
            self._check(event)
        except BadLine:
            self._lost.note(event.key, parent or (0, 0))
            raise
        self._graft.add(event, parent)
        return self._graft.find(event.key) or (0, 0)

    def _check(self, event: ReadEvent) -> None:
        if event.slot is not None and event.slot not in self._slot_names:
            raise BadLine(
                f"event {event.key.hex()[:12]} belongs to slot {event.slot!r}, which is registered neither in the file "
                "before it nor in the store"
            )
        blobs = event.refs[0] if event.refs is not None and not event.erased else b""
        for i in range(0, len(blobs), 32):
            key = blobs[i : i + 32]
            if key not in self._blobs:
                if self._tx.writer.get(OBJECTS, key) is None:
                    raise BadLine(
                        f"event {event.key.hex()[:12]} refers to blob {key.hex()[:12]}, which is neither in the file "
                        "before it nor in the store"
                    )
                self._blobs.add(key)

    # --- branches ---

    def _checked_branch(self, line: BranchLine) -> BranchLine:
        try:
            check_branch(self._prefix + line.name)
            if line.parent is not None:
                check_branch(line.parent)
            if line.description:
                check_name("a branch description", line.description)
        except ChronicleError as error:
            raise BadLine(str(error)) from None
        if line.head is not None:
            lines.key_of(line.head, f"the head of branch {line.name!r}")
        agrees = (line.head is None) == (line.seq == 0) and line.fork_seq >= 0 and line.seq >= 0
        if not agrees or not 0 <= line.created < 1 << 63:
            raise BadLine(f"branch {line.name!r}: head, sequence, fork point and time do not agree")
        return line

    def _set_branches(self) -> dict[str, Outcome]:
        outcomes: dict[str, Outcome] = {}
        names = {line.name for _, line in self._branches}
        for where, line in self._branches:
            head = self._head(where, line)
            if head is None:
                if not self._writing:
                    break
                continue
            parent = self._prefix + line.parent if line.parent in names else line.parent
            wanted = Ref(0, 0, b"", False, line.created, parent, line.fork_seq, line.description)
            name = self._prefix + line.name
            outcomes[name] = self._graft.set_branch(name, head, wanted)
        return outcomes

    def _head(self, where: str, line: BranchLine) -> Head | None:
        """Where a branch is to end; None, with a fault, where that cannot be said."""
        if line.head is None:
            return Head(0, 0, b"")
        key = bytes.fromhex(line.head)
        found = self._graft.find(key)
        if found is not None and found[1] == line.seq:
            return Head(*found, key)
        kept = self._lost.nearest(key) if found is None and self._skip else None
        end = "it is left out" if kept is None else f"it ends at sequence {kept[1]} instead"
        wrong = f"its head {line.head[:12]} (sequence {line.seq}) is neither in the file nor in the store"
        self._faults.append(Fault(where, f"branch {line.name!r}: {wrong}" + (f"; {end}" if self._skip else "")))
        if kept is None:
            return None
        self._tx.flush()
        event = self._engine.log.at(self._tx.writer, *kept) if kept[1] else None
        return Head(*kept, event.key if event is not None else b"")


def _checked_slot(id: str, record: SlotRecord) -> SlotRecord:
    """The registration, held to the same rules as one by `store.register_state`: a bad one would spoil every read."""
    try:
        custom = record.kind == CUSTOM
        if custom and record.initial:
            raise BadLine(f"slot {id!r} has a reducer, which says itself what it starts with")
        start = decode_payload(record.initial) if record.initial else None
        kind = "value" if custom else record.kind
        checked = SlotTable._record(id, kind, None, record.types, record.sources, start)
    except (ChronicleError, msgspec.MsgspecError) as error:
        raise BadLine(str(error)) from None
    initial = record.initial if checked.initial else b""
    return msgspec.structs.replace(record, types=checked.types, sources=checked.sources, initial=initial)


class _Lost:
    """Where the histories of events that were left out break off: what a branch falls back to.

    Followed along the parents that the lines name, never guessed: an event in a line that cannot be read at all has no
    known ancestor, and a branch that ends there is left out.
    """

    def __init__(self) -> None:
        self._kept: dict[bytes, Position] = {}  # a lost event -> its nearest ancestor that was kept

    def note(self, key: bytes, ancestor: Position) -> None:
        self._kept[key] = ancestor

    def note_bad(self, line: EventLine, graft: Graft) -> None:
        """A line whose id is not that of its contents."""
        try:
            key = lines.key_of(line.id, "an event's id")
            parent = lines.key_of(line.parents[0], "a parent") if line.parents else b""
        except BadLine:
            return
        found = graft.find(parent) if parent else (0, 0)
        found = found or self.nearest(parent)
        if found is not None:
            self.note(key, found)

    def note_orphan(self, event: ReadEvent) -> None:
        found = self.nearest(event.parent)
        if found is not None:
            self.note(event.key, found)

    def nearest(self, key: bytes) -> Position | None:
        """The nearest ancestor of a lost event that was kept, where it is known."""
        return self._kept.get(key)
