"""Indexes of a store: registering one, building it for the history that is there, and listing them.

An index of slot `messages` by `meta.user` is the slot `messages#meta.user`, of kind `index`. It follows whatever
concerns the slot it is of; how it is folded is in `index_kind`.

Building enters its state into the directories at every 1,024th sequence of every branch, oldest first, a few of them a
commit: so it holds up no other writer, may be broken off and goes on where it was, and afterwards the index is found as
quickly in the past as it is at the heads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from chronicle_py import records
from chronicle_py.errors import InvalidOperation, NotFound
from chronicle_py.index_keys import Parts, parse_path, path_text
from chronicle_py.index_kind import INDEXED, IndexSpec, decode_spec
from chronicle_py.kv import REFS, Reader
from chronicle_py.names import check_slot
from chronicle_py.records import BLOCK, SlotRecord
from chronicle_py.slots import INDEX, Slot
from chronicle_py.transaction import transaction

if TYPE_CHECKING:
    from chronicle_py.engine import Engine

Progress = Callable[[int, int], None]
_AT_ONCE: Final = 32  # states entered by one commit
_NIL: Final = b"\xc0"


class IndexInfo(msgspec.Struct, frozen=True):
    """What `store.indexes()` says of an index."""

    slot: str  # that it is of
    path: tuple[str, ...]
    kind: str  # of that slot: append_log or tree
    id: str  # of the slot that holds the index


def index_id(slot: str, parts: Parts) -> str:
    """The id of the slot that holds an index."""
    return f"{slot}#{path_text(parts)}"


def index_record(source_id: str, source: SlotRecord, parts: Parts) -> SlotRecord:
    """The registration of an index, without its number."""
    if source.kind not in INDEXED:
        raise InvalidOperation(
            f"slot {source_id!r} is of kind {source.kind!r}; an index is of the items of an append_log, or of the "
            "values of a tree"
        )
    spec = IndexSpec(source_id, source.kind, parts, msgspec.Raw(source.initial or _NIL))
    sources = tuple(sorted({source_id, *source.sources}))
    return SlotRecord(0, INDEX, "", 1, "", source.types, sources, records.encode(spec))


def register_index(engine: Engine, slot: str, path: str | Sequence[str | int], progress: Progress | None) -> None:
    """Registers an index and builds what of it is missing."""
    if progress is not None and not callable(progress):
        raise InvalidOperation(f"register_index(progress=) is a function of (done, total), not {progress!r:.80}")
    parts = parse_path(path)
    id = check_slot(index_id(check_slot(slot), parts), "the id of an index, SLOT#PATH,")
    with engine.read() as reader:
        source = engine.slots.table(reader).get(slot)
    engine.slots.add(id, index_record(slot, source.record, parts))
    if not engine.readonly:
        _build(engine, id, progress)


def indexes(engine: Engine) -> list[IndexInfo]:
    """All indexes, by slot and path."""
    with engine.read() as reader:
        table = engine.slots.table(reader)
    found = [(decode_spec(slot.record.initial), slot.id) for slot in table.indexes]
    return sorted(
        (IndexInfo(spec.slot, spec.path, spec.kind, id) for spec, id in found), key=lambda info: (info.slot, info.path)
    )


def find_index(engine: Engine, reader: Reader, slot: str, path: str | Sequence[str | int]) -> Slot:
    """The index of a slot by a path; NotFound when there is none."""
    parts = parse_path(path)
    table = engine.slots.table(reader)
    found = table.by_id.get(index_id(slot, parts))
    if found is None or not found.index:
        known = sorted(".".join(i.path) or "()" for i in indexes(engine) if i.slot == slot)
        raise NotFound(
            f"slot {slot!r} has no index by {'.'.join(parts)!r} (it has: {', '.join(known) or 'none'}); call "
            f"store.register_index({slot!r}, {path!r:.80})"
        )
    return found


# --- building -------------------------------------------------------------------------------------------------------


def _build(engine: Engine, id: str, progress: Progress | None) -> None:
    with engine.read() as reader:
        slot = engine.slots.table(reader).get(id)
        heads = [records.decode_ref(key, record, "a branch") for key, record in reader.scan(REFS, b"")]
        pieces = list(_pieces(engine, reader, [(ref.lineage, ref.seq) for ref in heads]))
    total, done = sum(last - first + 1 for _, first, last in pieces), 0
    if progress is not None and total:
        progress(0, total)
    for lineage, first, last in pieces:
        _build_piece(engine, slot, lineage, first, last, done, total, progress)
        done += last - first + 1


def _pieces(engine: Engine, reader: Reader, heads: list[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """What the branches consist of, each event once and parents before their children: (lineage, first, last)."""
    covered: dict[int, int] = {}
    for lineage, seq in heads:
        pieces: list[tuple[int, int, int]] = []
        while lineage:
            record = engine.lineages.get(reader, lineage)
            known = covered.get(lineage)
            start = record.fork_seq if known is None else known
            if seq > start:
                pieces.append((lineage, start + 1, seq))
                covered[lineage] = seq
            if known is not None:
                break
            covered.setdefault(lineage, record.fork_seq)
            lineage, seq = record.parent, min(seq, record.fork_seq)
        yield from reversed(pieces)


def _build_piece(
    engine: Engine, slot: Slot, lineage: int, first: int, last: int, done: int, total: int, progress: Progress | None
) -> None:
    stride = slot.stride * BLOCK
    state: Any = None
    at = waiting = 0
    for seq in range(first + (-first) % stride, last + 1, stride):
        with engine.read() as reader:
            if engine.checkpoints.has(reader, lineage, seq, slot):
                state = None
            else:
                if state is None:
                    at = seq - stride
                    state = engine.checkpoints.state(reader, lineage, at, slot)
                state = engine.checkpoints.fold(reader, lineage, at + 1, seq, slot, state)
                at = seq
                engine.checkpoints.enter(lineage, seq, slot, state)
                waiting += 1
        if waiting == _AT_ONCE:
            _commit(engine)
            state, waiting = None, 0  # it is read again, without the nodes that are stored now
        if progress is not None:
            progress(done + seq - first + 1, total)
    if waiting:
        _commit(engine)
    if progress is not None:
        progress(done + last - first + 1, total)


def _commit(engine: Engine) -> None:
    """What waits to be written behind is, when a transaction ends; inside an outer one, at the end of that."""
    with transaction(engine):
        pass
