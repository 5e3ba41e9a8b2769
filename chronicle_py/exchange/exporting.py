"""Exporting: a store's branches as lines, streamed. Reads only.

Which branches and heads is fixed at the start; events never change, so that they can be read in small snapshots after
it. Each event is written once, however many branches have it: along each branch, whatever of its lineages has not been
written yet, which puts parents before children and needs memory for the lineages only.

All branches together are a backup and bring every blob; some branches bring the blobs that their events refer to.
Events that are on no branch any more (rewound, of deleted branches) and the reflog stay behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from chronicle_py import records
from chronicle_py.branches import read_ref
from chronicle_py.engine import Engine
from chronicle_py.errors import CorruptStore
from chronicle_py.event import BLOB, payload_blobs, split_keys
from chronicle_py.exchange.lines import FORMAT, End, Header, blob_line, branch_line, encode, event_line, slot_line
from chronicle_py.kv import EVENTS, META, OBJECTS, REFS
from chronicle_py.log import BATCH
from chronicle_py.objects import unpack_blob
from chronicle_py.records import Ref, SlotRecord
from chronicle_py.store import Store

Progress = Callable[[int, int], None]
_OBJECTS = 8  # read at once; each may be large


def export_lines(
    store: Store, branches: Sequence[str] | None = None, progress: Progress | None = None
) -> Iterator[bytes]:
    """The lines of an export, each with its line end: of all branches, or of those named; NotFound for a name of none.

    `progress(done, total)` counts events. Costs about 5 µs an event, and memory for one batch of them.
    """
    engine = store._engine
    with engine.read() as reader:
        key = records.META_STORE
        store_id = records.unseal(key, reader.get(META, key) or b"", "the store's id").hex()
        slots = sorted(engine.slots.table(reader).by_id.items(), key=lambda item: item[1].number)
        if branches is None:
            found = reader.scan(REFS, b"")
            named = [(records.name_of(key, "a branch"), key, record) for key, record in found]
            refs = {name: records.decode_ref(key, record, f"branch {name!r}") for name, key, record in named}
        else:
            refs = {name: read_ref(reader, name) for name in branches}
        total = min(reader.count(EVENTS), sum(ref.seq for ref in refs.values()))
    slot_records = [(id, slot.record) for id, slot in slots]
    return _Export(engine, store_id, slot_records, refs, branches is None, total, progress).lines()


class _Export:
    """One export."""

    def __init__(
        self,
        engine: Engine,
        store_id: str,
        slots: list[tuple[str, SlotRecord]],
        refs: dict[str, Ref],
        whole: bool,
        total: int,
        progress: Progress | None,
    ) -> None:
        self._engine = engine
        self._store_id = store_id
        self._slots = slots
        self._refs = dict(sorted(refs.items(), key=lambda item: (item[0] != "main", item[0])))
        self._whole = whole
        self._total = total
        self._progress = progress
        self._written: dict[int, int] = {}  # lineage -> its last sequence that was written
        self._blobs: set[bytes] = set()
        self._blob_count = 0
        self._event_count = 0

    def lines(self) -> Iterator[bytes]:
        yield encode(Header(FORMAT, self._store_id))
        for id, record in self._slots:
            yield slot_line(id, record)
        if self._whole:
            yield from self._every_blob()
        for _, record in self._slots:
            yield from self._blobs_of(payload_blobs(record.initial) if record.initial else b"", missing_ok=True)
        for ref in self._refs.values():
            yield from self._history(ref)
        for name, ref in self._refs.items():
            yield branch_line(name, ref)
        yield encode(End(len(self._slots), self._blob_count, self._event_count, len(self._refs)))

    def _history(self, ref: Ref) -> Iterator[bytes]:
        for lineage, first, last in self._unwritten(ref):
            self._written[lineage] = last
            for at in range(first, last + 1, BATCH):
                with self._engine.read() as reader:
                    events = self._engine.log.events(reader, lineage, at, min(at + BATCH - 1, last))
                for event in events:
                    if event.refs is not None and event.refs[0] and not event.is_erased:
                        yield from self._blobs_of(event.refs[0])
                    yield event_line(event)
                self._event_count += len(events)
                if self._progress is not None:
                    self._progress(self._event_count, max(self._total, self._event_count))

    def _unwritten(self, ref: Ref) -> list[tuple[int, int, int]]:
        """The pieces of a branch's history that no line has yet, oldest first."""
        pieces: list[tuple[int, int, int]] = []
        number, last = ref.lineage, ref.seq
        with self._engine.read() as reader:
            while number:
                record = self._engine.lineages.get(reader, number)
                written = self._written.get(number, record.fork_seq)
                if last > written:
                    pieces.append((number, written + 1, last))
                if number in self._written:
                    break
                number, last = record.parent, min(last, record.fork_seq)
        pieces.reverse()
        return pieces

    # --- blobs ---

    def _every_blob(self) -> Iterator[bytes]:
        start = b""
        while True:
            with self._engine.read() as reader:
                pairs = reader.scan(OBJECTS, start, limit=_OBJECTS)
            for key, stored in pairs:
                if stored[:1] == BLOB:
                    yield self._blob(key, stored)
            if len(pairs) < _OBJECTS:
                return
            start = pairs[-1][0] + b"\0"

    def _blobs_of(self, keys: bytes, missing_ok: bool = False) -> Iterator[bytes]:
        if self._whole:
            return
        for text in split_keys(keys):
            key = bytes.fromhex(text)
            if key in self._blobs:
                continue
            with self._engine.read() as reader:
                stored = reader.get(OBJECTS, key)
            if stored is None:
                if missing_ok:  # the initial value of a slot may name a blob that was never put
                    continue
                raise CorruptStore(f"the blob {text} is missing. `chronicle verify` lists the damage")
            self._blobs.add(key)
            yield self._blob(key, stored)

    def _blob(self, key: bytes, stored: bytes) -> bytes:
        blob = unpack_blob(key, stored)
        self._blob_count += 1
        return blob_line(key, blob.media_type, blob.data)
