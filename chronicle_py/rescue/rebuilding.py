"""Rebuilding histories: the events of each lineage, one after the other, as far as the chain of parents is whole.

Theory of operation. Lineages come in the order of their numbers, so that a parent is there before its children. Each
starts where its record says, or, where that is lost, after the event that its first event names as parent. From there
on each event must be the child of the one before. Where the tree has none that is, one that was found elsewhere and
fits is taken. Where there is none, the lineage ends, and everything on it after that, and on lineages that go on from
there, has nothing to stand on: it is handed to `leftover`.

Every event keeps its place, so that all that names places (branches, reflog, feed, runs in states) stays true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from chronicle_py import records
from chronicle_py.engine import Engine
from chronicle_py.errors import CorruptStore
from chronicle_py.event import Event
from chronicle_py.kv import EVENTS, LINEAGES, META, OBJECTS
from chronicle_py.records import BLOCK, Lineage, pack_lineage, pack_position, seal, unpack_position
from chronicle_py.rescue.finding import Scratch, intact, past
from chronicle_py.rescue.reading import PageReader
from chronicle_py.rescue.surviving import Surviving
from chronicle_py.transaction import Transaction

_COMMIT_EVERY: Final = 8192  # events
_STRAYS: Final = 10_000
Found = tuple[Event, bytes]


class Rebuilding:
    """Writes events into a new store."""

    def __init__(
        self,
        engine: Engine,
        live: PageReader,
        scratch: Scratch,
        surviving: Surviving,
        leftover: Callable[[int, Event], None],
        damaged: Callable[[int, int, bytes], None],
        step: Callable[[int], None],
    ) -> None:
        self._engine = engine
        self._live = live
        self._scratch = scratch
        self._surviving = surviving
        self._leftover = leftover
        self._damaged = damaged
        self._step = step
        self.made: dict[int, Lineage] = {}  # lineages that have events in the new store
        self.ends: dict[int, int] = {}  # and their last sequences
        self.left: dict[int, list[int]] = {}  # lineage -> sequences of events that could not be attached
        self.lost_blobs: dict[bytes, list[str]] = {}
        self.events = 0
        self._strays: dict[tuple[bytes, int], Found] = {}  # by parent and sequence: those under a damaged key
        self._tx: Transaction | None = None

    # --- transactions ---

    @property
    def tx(self) -> Transaction:
        if self._tx is None:
            self._tx = self._engine.begin()
        return self._tx

    def commit(self) -> None:
        tx, self._tx = self._tx, None
        if tx is not None:
            self._engine.end(tx, tx.changes, None)

    def abandon(self, error: BaseException) -> None:
        tx, self._tx = self._tx, None
        if tx is not None:
            self._engine.end(tx, tx.changes, error)

    # --- lineages ---

    def run(self) -> None:
        for number in self._numbers():
            self._lineage(number)
        for event, _ in self._strays.values():
            self._leave(0, event)
        self._keep_numbers()
        self.commit()

    def _keep_numbers(self) -> None:
        """Numbers of lineages are not given twice: where the highest has no events, a record without any stays."""
        top = max(self._surviving.lineages, default=0)
        if top and top not in self.made and 0 < top <= 0xFFFFFFFF:
            key = pack_lineage(top)
            self.tx.writer.put(LINEAGES, key, seal(key, records.encode(self._child(0, 0))))

    def _numbers(self) -> Iterator[int]:
        """All lineages of which there are records or events, in order."""
        known = sorted(self._surviving.lineages, reverse=True)
        number = 0
        while True:
            nexts = [known[-1]] if known else []
            pair = next(self._live.pairs(EVENTS, past(number)), None)
            if pair is not None and len(pair[0]) == 12:
                nexts.append(unpack_position(pair[0])[0])
            found = self._scratch.next_lineage(number)
            if found is not None:
                nexts.append(found)
            if not nexts or min(nexts) <= number:
                return
            number = min(nexts)
            if known and known[-1] == number:
                known.pop()
            yield number
            if number >= 0xFFFFFFFF:
                return

    def _lineage(self, number: int) -> None:
        start = self._start(number)
        events = self._stored(number)
        if start is None:
            for event, _ in events:
                self._leave(number, event)
            self._leave_found(number, 1)
            return
        record, last = start
        seq = record.fork_seq
        stated = self._surviving.stated.get(number, (0, b""))
        waiting = next(events, None)
        broken = waiting is not None and waiting[0].seq <= seq
        while not broken:
            if waiting is not None and waiting[0].seq == seq + 1 and waiting[0].parent_keys == last:
                found: Found | None = waiting
                waiting = next(events, None)
            else:
                found = self._fill(number, seq + 1, last, waiting, stated)
            if found is None:
                break
            self._write(number, record, *found)
            last, seq = found[0].key, seq + 1
        if seq > record.fork_seq:
            self.ends[number] = seq
        if waiting is not None:
            self._leave(number, waiting[0])
            for event, _ in events:
                self._leave(number, event)
        if waiting is not None or seq < stated[0]:
            self._leave_found(number, seq + 1)

    def _start(self, number: int) -> tuple[Lineage, bytes] | None:
        """The record of a lineage and the id before its first event; None where that event is not there."""
        record = self._surviving.lineages.get(number)
        if record is not None:
            if not record.parent:
                return self._child(0, 0), b""
            if record.parent < number and record.fork_seq <= self.ends.get(record.parent, 0):
                made = self.made[record.parent]
                if record.fork_seq > made.fork_seq:
                    return self._child(record.parent, record.fork_seq), self._key(record.parent, record.fork_seq)
        first = next(self._stored(number), None)
        if first is None:
            found = self._scratch.of_lineage(number, 0)[:1]
            first = self._scratch.short(found[0][1]) if found else None
        if first is None:
            return None
        event = first[0]
        if event.seq == 1 and not event.parent_keys:
            return self._child(0, 0), b""
        self.tx.flush()
        place = self._engine.log.find(self.tx.writer, event.parent_keys)
        if place is None or place[1] + 1 != event.seq or place[0] >= number:
            return None
        return self._child(*place), event.parent_keys

    def _child(self, parent: int, fork_seq: int) -> Lineage:
        return self._engine.lineages.child_of(self.tx.writer, parent, fork_seq)

    def _key(self, lineage: int, seq: int) -> bytes:
        self.tx.flush_events()
        return self._engine.log.at(self.tx.writer, lineage, seq).key

    def _stored(self, number: int) -> Iterator[Found]:
        """The events of a lineage in the tree whose bytes are right. The others are reported once."""
        for key, stored in self._live.pairs(EVENTS, pack_position(number, 0), past(number)):
            event = intact(stored)
            seq = unpack_position(key)[1] if len(key) == 12 else 0
            if event is not None and event.seq == seq:
                yield event, stored
            elif event is not None and len(self._strays) < _STRAYS:
                self._strays[event.parent_keys, event.seq] = event, stored
            else:
                self._damaged(number, seq, stored)

    def _fill(
        self, number: int, seq: int, last: bytes, waiting: Found | None, stated: tuple[int, bytes]
    ) -> Found | None:
        """An event found elsewhere that goes on from `last`, where there must have been one."""
        if waiting is None and seq > stated[0] and (stated[0] or EVENTS not in self._surviving.broken):
            return None
        stray = self._strays.pop((last, seq), None)
        if stray is not None:
            return stray
        wanted = b""
        if waiting is not None and waiting[0].seq == seq + 1:
            wanted = waiting[0].parent_keys
        elif seq == stated[0]:
            wanted = stated[1]
        if wanted:
            found = self._scratch.event(wanted)
            return found if found is not None and self._fits(found[0], seq, last) else None
        for short in self._scratch.claiming(number, seq):
            found = self._scratch.short(short)
            if found is not None and self._fits(found[0], seq, last):
                return found
        return None

    @staticmethod
    def _fits(event: Event, seq: int, last: bytes) -> bool:
        return event.seq == seq and event.parent_keys == last

    # --- writing ---

    def _write(self, number: int, record: Lineage, event: Event, stored: bytes) -> None:
        tx = self.tx
        if number not in self.made:
            key = pack_lineage(number)
            tx.flush_events()  # while the newest lineage is another
            tx.writer.put(LINEAGES, key, seal(key, records.encode(record)))
            self._engine.lineages.note(number, record)
            tx.top_lineage()
            tx.tip.top_lineage = max(tx.tip.top_lineage, number)
            self.made[number] = record
        tx.write_event(number, event.seq, event.key, stored, event.refs)
        self.events += 1
        if event.refs is not None and event.refs[0] and not event.is_erased:
            self._blobs(event)
        if event.seq % BLOCK == 0:
            self._engine.checkpoints.close_block(tx, number, event.seq)
        if self.events % _COMMIT_EVERY == 0:
            self.commit()
            self._step(self.events)

    def _blobs(self, event: Event) -> None:
        """Brings the blobs that an event refers to, or notes that they are lost."""
        for text in event.blobs:
            key = bytes.fromhex(text)
            if self.tx.writer.get(OBJECTS, key) is not None:
                continue
            found = self._scratch.reader().get(OBJECTS, key)
            if found is not None:
                self.tx.writer.put(OBJECTS, key, found)
                self.tx.changes += 1
                continue
            self.lost_blobs.setdefault(key, []).append(event.id)
            mark = records.lost_key(key)
            self.tx.writer.put(META, mark, seal(mark, b""))

    # --- what cannot be attached ---

    def _leave(self, number: int, event: Event) -> None:
        left = self.left.setdefault(number, [])
        if not left or left[-1] != event.seq:
            left.append(event.seq)
        self._leftover(number, event)

    def _leave_found(self, number: int, start: int) -> None:
        """What was found of a lineage elsewhere, as far as its tree does not have it."""
        stated = self._surviving.stated.get(number, (0, b""))[0]
        there = set(self.left.get(number, ()))
        while pairs := self._scratch.of_lineage(number, start):
            for seq, short in pairs:
                found = self._scratch.short(short)
                if seq not in there and found is not None and found[0].seq == seq and (seq <= stated or not stated):
                    there.add(seq)
                    self._leave(number, found[0])
            start = pairs[-1][0] + 1
        if number in self.left:
            self.left[number].sort()

    # --- places ---

    def kept(self, lineage: int, seq: int) -> tuple[int, int]:
        """Where a history that ended at (lineage, seq) ends now; (0, 0) where nothing of it is left."""
        while lineage:
            record = self.made.get(lineage)
            if record is not None:
                end = min(seq, self.ends[lineage])
                if end > record.fork_seq:
                    return lineage, end
            else:
                record = self._surviving.lineages.get(lineage)
                if record is None or record.parent >= lineage:
                    return 0, 0
            lineage, seq = record.parent, min(seq, record.fork_seq)
        return 0, 0

    def key_at(self, lineage: int, seq: int) -> bytes:
        """The id at a place of the new store; b"" where nothing is."""
        if not lineage or seq > self.ends.get(lineage, 0):
            return b""
        try:
            return self._key(lineage, seq)
        except CorruptStore:
            return b""

    def survivors(self, lineage: int, after: int, seq: int) -> list[int]:
        """The sequences in (after, seq] of a chain of which there are events that could not be attached."""
        found: set[int] = set()
        while lineage and seq > after:
            record = self._surviving.lineages.get(lineage) or self.made.get(lineage)
            below = record.fork_seq if record is not None else 0
            found.update(s for s in self.left.get(lineage, ()) if max(after, below) < s <= seq)
            if record is None or record.parent >= lineage:
                break
            lineage, seq = record.parent, min(seq, below)
        return sorted(found)
