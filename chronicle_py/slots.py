"""Slots: the named pieces of state that a store knows, and which events concern which of them.

A registration is stored once and for all processes; the code of a custom reducer is not, each process brings its own. A
built-in slot can be read by a process that never heard of it.

An event concerns a slot when it carries that slot or one of the slot's `sources`; or when it carries no slot and its
type is among the slot's `types`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from chronicle_py import records
from chronicle_py.document import check_set
from chronicle_py.errors import (
    ChronicleError,
    CorruptStore,
    InvalidOperation,
    ReducerMissing,
    StateExists,
    StateNotRegistered,
)
from chronicle_py.event import Event, encode_payload
from chronicle_py.index_kind import decode_spec, index_kind
from chronicle_py.item_log import Ref
from chronicle_py.kv import META, SLOTS, Reader
from chronicle_py.names import check_name, check_slot, check_type
from chronicle_py.records import SlotRecord
from chronicle_py.reducers import (
    BUILT_IN,
    Custom,
    Kind,
    Reducer,
    built_in,
    check_path,
    decode_items,
    edit_in,
    item_in,
)
from chronicle_py.shown import shown
from chronicle_py.transaction import Transaction, transaction

if TYPE_CHECKING:
    from chronicle_py.engine import Engine

CUSTOM: Final = "custom"
INDEX: Final = "index"
_WITH_TYPES: Final = ("value", "append_log", CUSTOM)
MAX_SLOTS = 1 << 20
INDEX_STRIDE: Final = 16  # an index is folded in batches of 1,024 events: cheaper by far than in those of a block


class Slot:
    """A registered slot as this process sees it."""

    __slots__ = ("_kind", "follows", "id", "identity", "index", "number", "record", "slots", "stride", "types")

    def __init__(self, id: str, record: SlotRecord, kind: Kind | None) -> None:
        self.id = id
        self.record = record
        self.number = record.number
        self.index = record.kind == INDEX
        self.slots = frozenset(record.sources if self.index else (id, *record.sources))
        self.types = frozenset(record.types)
        self.follows = bool(record.types or record.sources)  # events from before its registration may concern it
        self.stride = INDEX_STRIDE if self.index else 1  # blocks from one boundary that holds its state to the next
        self._kind = kind
        self.identity = kind.identity if kind is not None else b""

    @property
    def custom(self) -> bool:
        return self.record.kind == CUSTOM

    @property
    def kind(self) -> Kind:
        if self._kind is None:
            raise ReducerMissing(
                f"slot {self.id!r} is folded by the reducer {self.record.reducer!r}, which this process has not "
                "registered; call store.register_state with it, or open the store with the application that has it"
            )
        return self._kind

    def concerned(self, events: list[Event]) -> list[Event]:
        """Those of the events that concern the slot."""
        slots, types = self.slots, self.types
        if types:
            return [e for e in events if (e.type in types if e.slot is None else e.slot in slots)]
        if len(slots) == 1:
            (own,) = slots
            return [e for e in events if e.slot == own]
        return [e for e in events if e.slot in slots]


class Table:
    """All slots, as of one epoch."""

    def __init__(self, epoch: bytes, slots: Iterable[Slot]) -> None:
        self.epoch = epoch
        self.by_id = {slot.id: slot for slot in slots}
        self.by_number = {slot.number: slot for slot in self.by_id.values()}
        self.next_number = max(self.by_number, default=-1) + 1
        self.by_slot: dict[str, list[Slot]] = {}
        self.by_type: dict[str, list[Slot]] = {}
        for slot in self.by_id.values():
            for name in slot.slots:
                self.by_slot.setdefault(name, []).append(slot)
            for name in slot.types:
                self.by_type.setdefault(name, []).append(slot)
        self.following = [slot for slot in self.by_id.values() if slot.follows]
        self.indexes = [slot for slot in self.following if slot.index]

    def get(self, id: str) -> Slot:
        slot = self.by_id.get(id)
        if slot is None:
            known = ", ".join(sorted(self.by_id)[:8]) or "none"
            raise StateNotRegistered(
                f"no slot {id!r} is registered in this store (registered: {known}); call "
                f"store.register_state({id!r}, …)"
            )
        return slot


class SlotTable:
    """Reads registrations, and makes them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._reducers: dict[str, Custom] = {}  # what this process brought
        self._kinds: dict[tuple[str, SlotRecord], Kind] = {}
        self._table: Table | None = None

    def forget(self) -> None:
        self._table = None

    def adopt(self, other: SlotTable) -> None:
        """Takes over the reducers that this process brought to another table."""
        self._reducers.update(other._reducers)
        self.forget()

    def table(self, reader: Reader) -> Table:
        """The slots as the snapshot has them. 0.3 µs while the epoch stays the same."""
        epoch = reader.get(META, records.META_EPOCH) or b""
        table = self._table
        if table is None or table.epoch != epoch:
            table = Table(epoch, [self._slot(records.name_of(k, "a slot"), v) for k, v in reader.scan(SLOTS, b"")])
            self._table = table
        return table

    def _slot(self, id: str, stored: bytes) -> Slot:
        record = records.decode_slot(id.encode(), stored, f"slot {id!r}")
        key = (id, record)
        if record.kind not in (*BUILT_IN, INDEX, CUSTOM):
            raise CorruptStore(f"slot {id!r} is registered as kind {record.kind!r}, which there is not")
        if record.kind != CUSTOM:
            kind = self._kinds.get(key)
            if kind is None:
                kind = self._kinds[key] = self._made(id, record)
            return Slot(id, record, kind)
        return Slot(id, record, self._reducers.get(id))

    def _made(self, id: str, record: SlotRecord) -> Kind:
        """The kind of a slot that is not custom."""
        try:
            if record.kind == INDEX:
                return index_kind(decode_spec(record.initial), self._engine.objects)
            fetch = self._fetch(record.initial) if record.kind in ("append_log", "value") else _no_items
            return built_in(record.kind, record.initial, fetch, self._engine.objects)
        except (ChronicleError, msgspec.MsgspecError, TypeError, ValueError, AttributeError) as error:
            raise CorruptStore(f"the initial value of slot {id!r} is none of its kind: {error}") from None

    def _fetch(self, initial: bytes) -> Callable[[Sequence[Ref]], list[bytes]]:
        """Reads the items that an append_log or value refers to."""
        engine = self._engine
        started = decode_items(initial) if initial and initial[:1] and _is_array(initial) else []

        def fetch(refs: Sequence[Ref]) -> list[bytes]:
            with engine.read() as reader:
                try:
                    return [self._item(reader, ref, started) for ref in refs]
                except (IndexError, msgspec.MsgspecError) as error:
                    raise CorruptStore(f"a list refers to an item that its event does not hold: {error}") from None

        return fetch

    def _item(self, reader: Reader, ref: Ref, started: list[msgspec.Raw]) -> bytes:
        lineage, seq, sub, edit_lineage, edit_seq = ref
        log = self._engine.log
        if edit_seq:
            return edit_in(log.at(reader, edit_lineage, edit_seq))[1]
        if lineage == 0:
            return bytes(started[sub])
        return item_in(log.at(reader, lineage, seq), sub)

    # --- registering ---

    def register(
        self,
        id: str,
        kind: str | None,
        reducer: Reducer[Any] | None,
        types: Sequence[str],
        sources: Sequence[str],
        initial: Any,
    ) -> None:
        check_slot(id)
        custom = None if reducer is None else self._custom(id, reducer)
        self.add(id, self._record(id, kind, custom, types, sources, initial))
        if custom is not None:
            mine = self._reducers.get(id)
            if mine is None or mine.identity != custom.identity:
                self._reducers[id] = custom
                self.forget()

    def add(self, id: str, record: SlotRecord) -> None:
        """Stores a checked registration, unless it is there; StateExists when another one is.

        A store opened to read takes a reducer of another version or fingerprint for this process alone: checkpoints
        name the identity they were made under, so that its states are folded anew from the events.
        """
        with self._engine.read() as reader:
            found = self.table(reader).by_id.get(id)
        same = found is not None and self._same(id, found.record, record)
        if not same and (found is None or not self._engine.readonly):
            with transaction(self._engine) as tx:
                table = self.table(tx.writer)
                found = table.by_id.get(id)
                if found is None or not self._same(id, found.record, record):
                    number = table.next_number if found is None else found.number
                    if number >= MAX_SLOTS:
                        raise InvalidOperation(f"a store holds at most {MAX_SLOTS:,} slots")
                    self._store(tx, id, msgspec.structs.replace(record, number=number))

    def _custom(self, id: str, reducer: Reducer[Any]) -> Custom:
        name, version = getattr(reducer, "name", None), getattr(reducer, "version", None)
        if not isinstance(reducer, Reducer) or not isinstance(name, str) or type(version) is not int:
            raise InvalidOperation(
                f"registering slot {id!r}: a reducer has name (str), version (int), initial() and fold(state, event); "
                f"{shown(reducer)} has not. The decorator chronicle_py.reducer makes one of a function"
            )
        check_name("a reducer's name", name)
        if not 0 <= version < 1 << 63:
            raise InvalidOperation(f"registering slot {id!r}: a reducer's version is from 0 up, not {shown(version)}")
        return Custom(id, reducer, self._engine.objects)

    def _store(self, tx: Transaction, id: str, record: SlotRecord) -> None:
        key = id.encode()
        tx.writer.put(SLOTS, key, records.seal(key, records.encode(record)))
        self._engine.raise_epoch(tx)
        self.forget()

    @staticmethod
    def _same(id: str, found: SlotRecord, wanted: SlotRecord) -> bool:
        """Whether two registrations are the same; StateExists when they contradict each other. A custom reducer may
        come back with another version or fingerprint: its states are folded anew."""
        a = msgspec.structs.replace(found, number=0)
        if a == wanted:
            return True
        if (
            found.kind == wanted.kind == CUSTOM
            and found.reducer == wanted.reducer
            and ((found.types, found.sources) == (wanted.types, wanted.sources))
        ):
            return False
        raise StateExists(
            f"slot {id!r} is registered already as {_describe(found)}, which is not {_describe(wanted)}; use another "
            "id, or register the same"
        )

    @staticmethod
    def _record(
        id: str, kind: str | None, custom: Custom | None, types: Sequence[str], sources: Sequence[str], initial: Any
    ) -> SlotRecord:
        """The checked registration, without its number."""
        if (kind is None) == (custom is None):
            raise InvalidOperation(
                f"registering slot {id!r} takes either kind= (one of {', '.join(BUILT_IN)}) or reducer=, not both"
            )
        if isinstance(types, str) or isinstance(sources, str):
            raise InvalidOperation(f"registering slot {id!r}: types= and sources= are sequences of str, not one str")
        for what, names in (("types", types), ("sources", sources)):
            if not isinstance(names, Iterable):
                raise InvalidOperation(f"registering slot {id!r}: {what}= is a sequence of str, not {shown(names)}")
        heard = tuple(sorted({check_type(t) for t in types}))
        followed = tuple(sorted({check_slot(s, "a source") for s in sources} - {id}))
        if custom is not None:
            if initial is not None:
                raise InvalidOperation(f"registering slot {id!r}: a reducer's own initial() says what it starts with")
            return SlotRecord(
                0, CUSTOM, custom.name, custom.source.version, custom.identity.hex(), heard, followed, b""
            )
        if kind not in BUILT_IN:
            raise InvalidOperation(f"registering slot {id!r}: kind= is one of {', '.join(BUILT_IN)}, not {shown(kind)}")
        if heard and kind not in _WITH_TYPES:
            raise InvalidOperation(
                f"registering slot {id!r}: a {kind} cannot be made of events of other types; use a reducer for that"
            )
        start = b"" if initial is None else _check_initial(id, str(kind), initial)
        return SlotRecord(0, str(kind), "", 1, "", heard, followed, start)


def _describe(record: SlotRecord) -> str:
    if record.kind == INDEX:
        spec = decode_spec(record.initial)
        return f"an index of slot {spec.slot!r} by {'.'.join(spec.path)!r}"
    what = f"reducer {record.reducer!r} version {record.version}" if record.kind == CUSTOM else f"kind {record.kind!r}"
    for name, value in (("types", record.types), ("sources", record.sources)):
        if value:
            what += f" with {name}={list(value)}"
    return what + (" and an initial value" if record.initial else "")


def _check_initial(id: str, kind: str, initial: Any) -> bytes:
    data = encode_payload(initial)
    if kind == "append_log" and not _is_array(data):
        raise InvalidOperation(
            f"registering slot {id!r}: the initial value of an append_log is a list, not {shown(initial)}"
        )
    if kind == "document":
        check_set(initial)
    if kind == "tree":
        if not isinstance(initial, dict):
            raise InvalidOperation(
                f"registering slot {id!r}: the initial value of a tree is a dict, not {shown(initial)}"
            )
        for path in initial:
            check_path(path)
    return data


def _is_array(data: bytes) -> bool:
    return 0x90 <= data[0] <= 0x9F or data[0] in (0xDC, 0xDD)


def _no_items(refs: Sequence[Ref]) -> list[bytes]:
    raise InvalidOperation("this kind of slot refers to no items")
