"""Garbage collection: lineages, events and objects that no branch and no reflog entry needs.

Theory of operation. Every head that a ref or a reflog entry names keeps its whole history. So a lineage is needed up to
the highest sequence at which a head or a needed child stands on it; what lies above, or a lineage that nothing stands
on, goes with all that is kept for it: directories, the indexes of ids and causes, its part of the feed. Then the
objects are swept. Links do not keep anything: an event may name a cause that was collected.

What a needed history rests on lies in itself: a directory points to directories of its own ancestors, a state refers to
events of them, jump links go to them. So a lineage is cut without a look at what it refers to.

All is one write transaction: readers and crashes see the store before or after it. It raises the epoch, and nothing
that was folded before is written after. Lineage numbers are not given twice: in the place of the highest one, if it
goes, a record without events stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from fnmatch import fnmatchcase
from itertools import groupby
from typing import TYPE_CHECKING, Final

import msgspec

from chronicle_py import records
from chronicle_py.branches import MAIN, read_ref
from chronicle_py.errors import InvalidOperation
from chronicle_py.event import ID_SIZE, checked_event
from chronicle_py.feed_gone import Left, forget_entries
from chronicle_py.kv import BLOCKS, CAUSES, EVENTS, FEED, IDS, LINEAGES, OBJECTS, REFLOG, REFS, Progress
from chronicle_py.names import check_name
from chronicle_py.records import BLOCK, FeedRecord, Lineage, MoveRecord, Ref, pack_number, pack_position
from chronicle_py.removal import Removal
from chronicle_py.shown import shown
from chronicle_py.sweeping import sweep
from chronicle_py.transaction import Transaction, transaction

if TYPE_CHECKING:
    from chronicle_py.engine import Engine

Age = int | timedelta
"""µs, or a timedelta."""
_EMPTY: Final = Lineage(parent=0, fork_seq=0, jump=0, jump_fork_seq=-1, depth=1)
_LAST: Final = (1 << 64) - 1


class GcReport(msgspec.Struct, frozen=True):
    """What `store.gc` removed, or would remove. Counts, and bytes of keys and values; a file does not shrink, it has
    so much more room, see `store.compact`."""

    dry_run: bool
    branches: tuple[str, ...]  # deleted because of `branches=`
    reflog: int  # entries that expired
    lineages: int
    events: int
    directories: int
    ids: int
    causes: int
    feed: int  # entries that were taken together or out
    nodes: int
    blobs: int
    bytes: int  # of all of it
    event_bytes: int
    node_bytes: int
    blob_bytes: int


class Request(msgspec.Struct, frozen=True):
    """What `store.gc` was asked for, checked. Ages in µs."""

    dry_run: bool
    expire: int | None
    branches: str | None
    older_than: int | None
    unused_blobs: bool


def checked_request(
    dry_run: object, expire_reflog: object, branches: object, older_than: object, unused_blobs: object
) -> Request:
    """The request that these arguments are; InvalidOperation when they make no sense."""
    for name, switch in (("dry_run", dry_run), ("unused_blobs", unused_blobs)):
        if not isinstance(switch, bool):
            raise InvalidOperation(f"gc({name}=) is True or False, not {shown(switch)}")
    if branches is not None:
        check_name("gc(branches=), a pattern of branch names,", branches)
    elif older_than is not None:
        raise InvalidOperation("gc(older_than=) says which of the branches= go; give a pattern too, '*' for all")
    expire, old = _age("expire_reflog", expire_reflog), _age("older_than", older_than)
    return Request(bool(dry_run), expire, None if branches is None else str(branches), old, bool(unused_blobs))


def _age(name: str, value: object) -> int | None:
    if isinstance(value, timedelta):
        value = value // timedelta(microseconds=1)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return value
    raise InvalidOperation(f"gc({name}=) is an age: µs as an int from 0 on, or a timedelta; not {shown(value)}")


def gc(engine: Engine, request: Request, progress: Progress | None) -> GcReport:
    """Collects, or says what would be collected."""
    if engine.running() is not None:
        raise InvalidOperation("gc is a transaction of its own; leave the open one first")
    if request.dry_run:
        with engine.read() as reader:
            return _Collection(engine, Removal(reader, None, progress), None, request).run()
    with transaction(engine) as tx:
        tx.written_behind = False
        report = _Collection(engine, Removal(tx.scope, tx, progress), tx, request).run()
        if tx.changes:
            engine.raise_epoch_for_all(tx)
    return report


class _Collection:
    """One run."""

    def __init__(self, engine: Engine, removal: Removal, tx: Transaction | None, request: Request) -> None:
        self._engine = engine
        self._removal = removal
        self._reader = removal.reader
        self._tx = tx
        self._request = request
        self._now = engine.clock()
        self._keep: dict[int, int] = {}  # lineage -> its last sequence that is needed
        self._moves: dict[bytes, bytes] = {}  # reflog entries that a rehearsal pretends to have written
        self._coming: list[tuple[bytes, bytes]] = []  # entries of the feed, likewise
        self._blobs: set[bytes] = set()  # referred to by collected events
        self._moved: set[bytes] = set()  # keys of index entries of collected events that other lineages may have
        self._lineages = self._events = self._event_bytes = 0

    def run(self) -> GcReport:
        reader, removal = self._reader, self._removal
        removal.expect(reader.count(BLOCKS) + reader.count(OBJECTS))
        refs = self._refs()
        doomed = self._doomed(refs)
        for name in doomed:
            self._delete(name, refs.pop(name))
        if self._tx is not None:
            self._tx.flush()
        left = {*refs, *self._reflog()}
        for ref in refs.values():
            self._need(ref)
        self._collect()
        feed = forget_entries(removal, Left(lambda lineage: self._keep.get(lineage, 0), left), self._coming)
        swept = sweep(removal, None if self._request.unused_blobs else self._blobs, self._kept)
        counts = removal.counts
        return GcReport(
            dry_run=self._request.dry_run, branches=tuple(doomed), reflog=counts[REFLOG], lineages=self._lineages,
            events=counts[EVENTS], directories=counts[BLOCKS], ids=counts[IDS], causes=counts[CAUSES], feed=feed,
            nodes=swept.nodes, blobs=swept.blobs, bytes=removal.bytes, event_bytes=self._event_bytes,
            node_bytes=swept.node_bytes, blob_bytes=swept.blob_bytes,
        )  # fmt: skip

    # --- branches and reflog ---

    def _refs(self) -> dict[str, Ref]:
        pairs = self._removal.scan(REFS)
        return {key.decode(): records.decode_ref(key, record, f"branch {key.decode()!r}") for key, record in pairs}

    def _doomed(self, refs: dict[str, Ref]) -> list[str]:
        """The branches that go because of `branches=`; `main` is never among them."""
        pattern, age = self._request.branches, self._request.older_than
        if pattern is None:
            return []
        named = [name for name in refs if name != MAIN and fnmatchcase(name, pattern)]
        return [name for name in named if age is None or self._time(refs[name]) <= self._now - age]

    def _time(self, ref: Ref) -> int:
        return self._engine.log.at(self._reader, ref.lineage, ref.seq).time if ref.seq else ref.created

    def _delete(self, name: str, ref: Ref) -> None:
        """Deletes a branch, as `store.delete_branch` does. A rehearsal notes what that would write."""
        if self._tx is not None:
            self._tx.move("delete", name, ref, None, self._now)
            return
        prefix = name.encode() + b"\0"
        last = self._reader.keys(REFLOG, prefix + b"\xff" * 8, 1, reverse=True)
        number = int.from_bytes(last[0][-8:], "big") + 1 if last and last[0].startswith(prefix) else 1
        key = records.reflog_key(name, number)
        self._moves[key] = records.seal(key, records.encode(MoveRecord("delete", self._now, ref, None)))
        before = self._coming or self._removal.reader.scan(FEED, b"\xff" * 8, limit=1, reverse=True)
        entry = int.from_bytes(before[-1][0], "big") + 1 if before else 1
        stop = 0
        if before and not self._coming:
            newest = records.decode_feed(*before[-1], "the newest feed entry")
            if newest.kind == "run":
                stop = read_ref(self._reader, newest.branch).seq
        key = pack_number(entry)
        record = FeedRecord("delete", name, 0, 0, stop, ref)
        self._coming.append((key, records.seal(key, records.encode(record))))

    def _reflog(self) -> Iterator[str]:
        """Expires entries, notes what the others need, and yields the branches that have some left.

        The oldest go first, whatever their times say: what is left of a branch's reflog has no holes.
        """
        age = self._request.expire
        pairs = self._removal.scan(REFLOG)
        if self._moves:
            pairs = iter(sorted([*pairs, *self._moves.items()]))
        for name, entries in groupby(pairs, key=lambda pair: pair[0][:-9].decode()):
            expiring = age is not None
            for key, stored in entries:
                move = records.decode_move(key, stored, f"reflog entry of branch {name!r}")
                expiring = expiring and (not age or move.time <= self._now - age)
                if expiring:
                    self._removal.delete(REFLOG, key, stored)
                    continue
                for ref in (move.before, move.after):
                    if ref is not None:
                        self._need(ref)
                yield name

    def _need(self, ref: Ref) -> None:
        if ref.lineage:
            self._keep[ref.lineage] = max(ref.seq, self._keep.get(ref.lineage, 0))

    # --- lineages ---

    def _kept(self, lineage: int, seq: int) -> bool:
        return seq <= self._keep.get(lineage, 0)

    def _collect(self) -> None:
        """Takes out what no head and no needed lineage stands on."""
        found: list[tuple[int, bytes, bytes]] = []
        parents: dict[int, Lineage] = {}
        for key, stored in self._removal.scan(LINEAGES):
            number = int.from_bytes(key, "big")
            found.append((number, key, stored))
            parents[number] = records.decode_lineage(key, stored, f"lineage {number}")
        for number in sorted(parents, reverse=True):  # children come after their parents
            record = parents[number]
            if number in self._keep and record.parent:
                self._keep[record.parent] = max(record.fork_seq, self._keep.get(record.parent, 0))
        doubles = self._reader.count(IDS) != self._reader.count(EVENTS)
        for number, key, stored in found:
            end = self._keep.get(number, 0)
            had = self._cut(number, end, doubles)
            if not end:
                self._lineages += had
                self._drop_lineage(key, stored, number == found[-1][0])
        if self._moved:
            self._move_ids()

    def _drop_lineage(self, key: bytes, stored: bytes, highest: bool) -> None:
        if not highest:
            self._removal.delete(LINEAGES, key, stored)
            return
        placeholder = records.seal(key, records.encode(_EMPTY))
        if placeholder != stored:
            self._removal.replace(LINEAGES, key, placeholder)

    def _cut(self, lineage: int, end: int, doubles: bool) -> bool:
        """Takes out a lineage's events above `end` and what is kept for them; whether there was one."""
        removal, reader = self._removal, self._reader
        had = False
        for place, stored in removal.scan(EVENTS, pack_position(lineage, end + 1), pack_position(lineage, _LAST)):
            had = True
            event = checked_event(stored, "{}/{}".format(*records.unpack_position(place)))
            short = event.key[: records.ID_PREFIX]
            entry = reader.get(IDS, short)
            if entry is not None and records.unseal(short, entry, f"id {event.id[:12]}") == place:
                if doubles:
                    self._moved.add(short)
                else:
                    removal.delete(IDS, short, entry)
            if event.refs is not None:
                self._unlink(lineage, event.seq, event.refs)
            removal.delete(EVENTS, place, stored)
            self._event_bytes += len(place) + len(stored)
        if had:
            for key, stored in removal.scan(
                BLOCKS, pack_position(lineage, end // BLOCK), pack_position(lineage, _LAST)
            ):
                removal.delete(BLOCKS, key, stored)
        return had

    def _unlink(self, lineage: int, seq: int, refs: tuple[bytes, bytes, bytes]) -> None:
        blobs, causes, links = refs
        self._blobs.update(blobs[i : i + ID_SIZE] for i in range(0, len(blobs), ID_SIZE))
        for relation, ids in ((records.CAUSED_BY, causes), (records.LINKED_TO, links)):
            for i in range(0, len(ids), ID_SIZE):
                key = records.cause_key(ids[i : i + ID_SIZE], relation, lineage, seq)
                stored = self._reader.get(CAUSES, key)
                if stored is not None:
                    self._removal.delete(CAUSES, key, stored)

    def _move_ids(self) -> None:
        """Has the index name another place for collected events that lie in a needed lineage too, and takes out the
        entries of the others."""
        for place, stored in self._removal.scan(EVENTS):
            event = checked_event(stored, "{}/{}".format(*records.unpack_position(place)))
            short = event.key[: records.ID_PREFIX]
            if short in self._moved and self._kept(*records.unpack_position(place)):
                self._moved.discard(short)
                self._removal.replace(IDS, short, records.seal(short, place))
        for short in sorted(self._moved):
            self._removal.delete(IDS, short, self._reader.get(IDS, short) or b"")
