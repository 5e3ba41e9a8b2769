"""Verify: checks everything stored against everything else, and names what is wrong and where.

Reads one snapshot and writes nothing. `verify` checks each keyspace by itself and against the events: ids and the chain
of parents, the index of ids, causes, lineages, refs, reflog, feed, slots, directories, objects. `deep` also folds every
slot of every lineage anew (see `DeepCheck`) and compares each checkpoint with the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec
from blake3 import blake3

from chronicle_py import records
from chronicle_py.erased import DIGEST_SIZE, decode_stub, fits
from chronicle_py.errors import ChronicleError
from chronicle_py.event import BLOB, NODE, SALT_SIZE, Event, decode_event, event_id
from chronicle_py.feed_gone import GONE
from chronicle_py.kv import BLOCKS, CAUSES, EVENTS, FEED, IDS, LINEAGES, META, OBJECTS, REFLOG, REFS, SLOTS, Reader
from chronicle_py.records import BLOCK, Lineage, Ref, pack_position, unpack_position
from chronicle_py.verify_deep import DeepCheck

if TYPE_CHECKING:
    from chronicle_py.engine import Engine

Progress = Callable[[int, int], None]
"""Called with (events checked, events in all), now and then."""
_SCAN = 2048
_MOST = 1000  # problems reported


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong. `where` names the keyspace and the place, `what` what was found there."""

    where: str
    what: str


class Report(msgspec.Struct, frozen=True):
    """What `store.verify` found. `checked`: how many of each kind were looked at."""

    problems: list[Problem]
    checked: dict[str, int]
    deep: bool
    skipped: list[str]  # slots whose reducer this process has not registered, not folded

    @property
    def ok(self) -> bool:
        return not self.problems


def verify(engine: Engine, deep: bool, progress: Progress | None) -> Report:
    """Checks a whole store. About 3.5 µs an event, deep about 5, on a core of its own."""
    with engine.read() as reader:
        return _Check(engine, reader, deep, progress).run()


def scan(reader: Reader, space: int) -> Iterator[tuple[bytes, bytes]]:
    """All pairs of a keyspace, in batches."""
    start = b""
    while True:
        pairs = reader.scan(space, start, limit=_SCAN)
        yield from pairs
        if len(pairs) < _SCAN:
            return
        start = pairs[-1][0] + b"\0"


class _Check:
    """One run over one snapshot."""

    def __init__(self, engine: Engine, reader: Reader, deep: bool, progress: Progress | None) -> None:
        self._engine = engine
        self._reader = reader
        self._progress = progress
        self.problems: list[Problem] = []
        self.checked: dict[str, int] = {}
        self._lineages: dict[int, Lineage] = {}
        self._ends: dict[int, int] = {}  # lineage -> its last sequence
        self._indexed_events = 0
        self._deep: DeepCheck | None = None
        if deep:
            try:
                self._deep = DeepCheck(engine, reader, self.report)
            except ChronicleError as error:
                self.report("slots", f"no slot can be folded anew: {error}")

    def run(self) -> Report:
        for check in (
            self._meta, self._slots, self._lineage_records, self._events, self._indexes, self._refs, self._reflog,
            self._feed, self._directories, self._objects,
        ):  # fmt: skip
            try:
                check()
            except Exception as error:  # a record that says absurd things, and has the right checksum
                self.report(check.__name__.strip("_"), f"could not be checked to the end: {error}")
        skipped = self._deep.skipped if self._deep is not None else []
        return Report(self.problems, self.checked, self._deep is not None, skipped)

    def report(self, where: str, what: str) -> None:
        if len(self.problems) < _MOST:
            self.problems.append(Problem(where, what))

    def _record(self, where: str, read: Callable[[], object]) -> bool:
        """Runs one decoding; what it raises is a problem."""
        try:
            read()
        except (ChronicleError, UnicodeDecodeError, ValueError) as error:
            self.report(where, str(error))
            return False
        return True

    # --- records ---

    def _meta(self) -> None:
        for key in (records.META_FORMAT, records.META_STORE, records.META_EPOCH):
            stored = self._reader.get(META, key)
            where = f"meta {key.decode()!r}"
            if stored is None:
                self.report(where, "is missing")
            else:
                self._record(where, lambda k=key, s=stored: records.unseal(k, s, k.decode()))  # type: ignore[misc]

    def _slots(self) -> None:
        numbers: dict[int, str] = {}
        for key, stored in scan(self._reader, SLOTS):
            name = key.decode(errors="replace")
            try:
                record = records.decode_slot(key, stored, f"slot {name!r}")
            except ChronicleError as error:
                self.report(f"slots {name!r}", str(error))
                continue
            if record.number in numbers:
                self.report(f"slots {name!r}", f"has the number {record.number} of slot {numbers[record.number]!r}")
            numbers[record.number] = name
        self.checked["slots"] = len(numbers)

    def _lineage_records(self) -> None:
        for key, stored in scan(self._reader, LINEAGES):
            number = int.from_bytes(key, "big")
            where = f"lineages {number}"
            try:
                record = records.decode_lineage(key, stored, f"lineage {number}")
            except ChronicleError as error:
                self.report(where, str(error))
                continue
            above = self._lineages.get(record.parent)
            if record.parent and (above is None or record.fork_seq <= above.fork_seq):
                self.report(where, f"continues lineage {record.parent} after {record.fork_seq}, which is not there")
                continue
            self._lineages[number] = record
            try:
                right = self._engine.lineages.child_of(self._reader, record.parent, record.fork_seq)
            except ChronicleError as error:
                self.report(where, f"its jump link cannot be checked: {error}")
                continue
            if right != record:
                self.report(where, "has a jump link or depth that does not follow from its parent")
        self.checked["lineages"] = len(self._lineages)

    # --- events ---

    def _events(self) -> None:
        total = self._reader.count(EVENTS)
        done = indexed = 0
        lineage, seq, parent = 0, 0, b""
        batch: list[Event] = []
        get, seal = self._reader.get, records.seal
        for key, stored in scan(self._reader, EVENTS):
            number, at = unpack_position(key)
            if number != lineage:
                self._close_lineage(lineage, seq, batch)
                lineage, seq, parent, batch = number, *self._start(number), []
            done += 1
            event = self._event(number, at, stored)
            if at != seq + 1:
                self.report(f"events {number}/{at}", f"sequence {seq + 1} should come here: events are missing")
            if event is not None:
                if event.parent_keys != parent:
                    self.report(f"events {number}/{at}", f"its parent is not the event at sequence {at - 1}")
                found = get(IDS, short := event.key[: records.ID_PREFIX])
                indexed += found == seal(short, key) or self._indexed_elsewhere(number, at, event, found)
                batch.append(event)
                parent = event.key
            seq = at
            if at % BLOCK == 0 and len(batch) >= BLOCK:
                self._fold(lineage, batch)
                batch = []
                if self._progress is not None and done % 4096 < BLOCK:
                    self._progress(done, total)
        self._close_lineage(lineage, seq, batch)
        self.checked["events"] = done
        self._indexed_events = indexed
        if self._progress is not None:
            self._progress(done, total)

    def _start(self, number: int) -> tuple[int, bytes]:
        """The sequence before a lineage's first event, and the id there."""
        record = self._lineages.get(number)
        if record is None:
            self.report(f"events {number}/…", f"lineage {number} has no record")
            return 0, b""
        if not record.parent:
            return 0, b""
        stored = self._reader.get(EVENTS, pack_position(record.parent, record.fork_seq))
        try:
            return record.fork_seq, decode_event(stored or b"").key
        except (msgspec.MsgspecError, UnicodeDecodeError):
            self.report(
                f"lineages {number}", f"the event it continues, {record.parent}/{record.fork_seq}, is not there"
            )
            return record.fork_seq, b""

    def _close_lineage(self, number: int, seq: int, batch: list[Event]) -> None:
        if number:
            self._fold(number, batch)
            self._ends[number] = seq
            if self._deep is not None:
                self._deep.leave(number)

    def _fold(self, lineage: int, batch: list[Event]) -> None:
        if self._deep is not None and batch and lineage in self._lineages:
            self._deep.fold(lineage, batch)

    def _event(self, lineage: int, seq: int, stored: bytes) -> Event | None:
        try:
            event = decode_event(stored)
            right = event_id(stored, event)
        except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as error:
            self.report(f"events {lineage}/{seq}", f"is no event: {error}")
            return None
        if right != event.key:
            self.report(
                f"events {lineage}/{seq}",
                f"its bytes do not hash to its id {event.id[:12]}: header, salt or payload was changed",
            )
        if len(event.salt) not in (SALT_SIZE, DIGEST_SIZE):
            self.report(f"events {lineage}/{seq}", f"its salt has {len(event.salt)} bytes")
        elif event.is_erased and ((stub := decode_stub(event.raw)) is None or not fits(event.key, stub)):
            self.report(f"events {lineage}/{seq}", "what is left of its erased payload was changed")
        if event.seq != seq:
            self.report(f"events {lineage}/{seq}", f"says it is at sequence {event.seq}")
        if event.refs is not None:
            self._references(lineage, seq, event)
        return event

    def _references(self, lineage: int, seq: int, event: Event) -> None:
        where = f"events {lineage}/{seq}"
        for blob in () if event.is_erased else event.blobs:
            if self._reader.get(OBJECTS, bytes.fromhex(blob)) is None and not self._known_lost(bytes.fromhex(blob)):
                self.report(where, f"refers to blob {blob[:12]}, which is missing")
        for relation, ids in ((records.CAUSED_BY, event.caused_by), (records.LINKED_TO, event.linked_to)):
            for cause in ids:
                key = records.cause_key(bytes.fromhex(cause), relation, lineage, seq)
                if self._reader.get(CAUSES, key) is None:
                    self.report(where, f"is not in the index of causes under {cause[:12]}")

    def _known_lost(self, blob: bytes) -> bool:
        """Whether a salvage has noted that a blob is gone."""
        key = records.lost_key(blob)
        mark = self._reader.get(META, key)
        return mark is not None and self._record(
            f"meta 'lost' {blob.hex()[:12]}", lambda: records.unseal(key, mark, "")
        )

    def _indexed_elsewhere(self, lineage: int, seq: int, event: Event, stored: bytes | None) -> bool:
        """For an event whose record in the index of ids names another place, or none: whether it counts as its own."""
        short = event.key[: records.ID_PREFIX]
        where = f"ids {short.hex()[:12]}"
        if stored is None:
            self.report(where, f"the event at {lineage}/{seq} is not in the index of ids")
            return False
        try:
            found = records.unseal_position(short, stored, where)
        except ChronicleError as error:
            self.report(where, str(error))
            return True
        other = self._reader.get(EVENTS, pack_position(*found))
        if other is None or event.key not in other[:40]:
            self.report(where, f"names {found[0]}/{found[1]}, where another event lies; it should be {lineage}/{seq}")
        return False

    def _indexes(self) -> None:
        count = self._reader.count(IDS)
        self.checked["ids"] = count
        if count != self._indexed_events:
            for short, stored in scan(self._reader, IDS):
                place = stored[: -records.CRC_SIZE]
                event = self._reader.get(EVENTS, place) if len(place) == 12 else None
                if event is None or short not in event[:40]:
                    self.report(f"ids {short.hex()[:12]}", "names a place where no event of this id lies")
        self.checked["causes"] = 0
        for key, stored in scan(self._reader, CAUSES):
            where = f"causes {key.hex()[:12]}"
            self.checked["causes"] += 1
            if not self._record(where, lambda k=key, s=stored: records.unseal(k, s, "a cause")):  # type: ignore[misc]
                continue
            cause, relation, place = key[:16], key[16:17], key[17:]
            try:
                effect = decode_event(self._reader.get(EVENTS, place) or b"")
            except (msgspec.MsgspecError, UnicodeDecodeError):
                self.report(where, "names an effect that is not there")
                continue
            ids = effect.caused_by if relation == records.CAUSED_BY else effect.linked_to
            if not any(bytes.fromhex(i)[:16] == cause for i in ids):
                self.report(where, f"names {effect.id[:12]} as an effect, which does not name it")

    # --- branches ---

    def _refs(self) -> None:
        owners: dict[int, str] = {}
        count = 0
        for key, stored in scan(self._reader, REFS):
            name = key.decode(errors="replace")
            where = f"refs {name!r}"
            count += 1
            try:
                ref = records.decode_ref(key, stored, f"branch {name!r}")
            except ChronicleError as error:
                self.report(where, str(error))
                continue
            self._head(where, ref)
            if not ref.owned:
                continue
            if ref.lineage in owners:
                self.report(where, f"may append to lineage {ref.lineage}, and so may branch {owners[ref.lineage]!r}")
            owners[ref.lineage] = name
            if self._ends.get(ref.lineage, 0) != ref.seq:
                self.report(where, f"its head is at {ref.seq} and its lineage ends at {self._ends.get(ref.lineage, 0)}")
        self.checked["refs"] = count
        if self._reader.get(REFS, b"main") is None:
            self.report("refs 'main'", "is missing")

    def _head(self, where: str, ref: Ref) -> None:
        if ref.seq == 0:
            return
        stored = self._reader.get(EVENTS, pack_position(ref.lineage, ref.seq))
        if stored is None or ref.key not in stored[:40]:
            self.report(where, f"the head {ref.key.hex()[:12]} is not at {ref.lineage}/{ref.seq}")

    def _reflog(self) -> None:
        count = 0
        for key, stored in scan(self._reader, REFLOG):
            name = key[:-9].decode(errors="replace")
            where = f"reflog {name!r}/{int.from_bytes(key[-8:], 'big')}"
            count += 1
            try:
                move = records.decode_move(key, stored, where)
            except ChronicleError as error:
                self.report(where, str(error))
                continue
            for ref in (move.before, move.after):
                if ref is not None:
                    self._head(where, ref)
        self.checked["reflog"] = count

    def _feed(self) -> None:
        expected = count = 0
        gone = False
        for key, stored in scan(self._reader, FEED):
            expected, count = expected + 1, count + 1
            number = int.from_bytes(key, "big")
            where = f"feed {number}"
            if gone and number > expected:  # it stands for those that were collected
                expected = number
            gone = False
            if number != expected:
                self.report(where, f"entry {expected} should come here: entries are missing")
                expected = number
            try:
                record = records.decode_feed(key, stored, where)
            except ChronicleError as error:
                self.report(where, str(error))
                continue
            gone = record.kind == GONE
            if record.kind == "run" and self._reader.get(EVENTS, pack_position(record.lineage, record.start)) is None:
                self.report(where, f"its run starts at {record.lineage}/{record.start}, where no event is")
        self.checked["feed"] = count

    # --- directories and objects ---

    def _directories(self) -> None:
        from chronicle_py.checkpoints import decode_directory

        held: dict[tuple[int, int], frozenset[int]] = {}  # what each has; those it is pointed to from come later
        for key, stored in scan(self._reader, BLOCKS):
            lineage, block = unpack_position(key)
            where = f"blocks {lineage}/{block}"
            try:
                directory = decode_directory(key, stored, where)
            except ChronicleError as error:
                self.report(where, str(error))
                continue
            held[lineage, block] = frozenset(directory.here)
            for number, (holder, at, _) in directory.there.items():
                if holder and number not in held.get((holder, at), ()):
                    self.report(where, f"says the state of slot {number} lies in {holder}/{at}, where it is not")
        self.checked["blocks"] = len(held)
        for lineage, end in self._ends.items():
            record = self._lineages.get(lineage)
            if record is None:
                continue
            for block in range(record.fork_seq // BLOCK, end // BLOCK):
                if len(self.problems) >= _MOST:
                    return  # `end` may be what a damaged key says
                if self._reader.get(BLOCKS, pack_position(lineage, block)) is None:
                    self.report(f"blocks {lineage}/{block}", "is missing")

    def _objects(self) -> None:
        count = 0
        for key, stored in scan(self._reader, OBJECTS):
            count += 1
            if stored[:1] not in (NODE, BLOB) or blake3(stored).digest() != key:
                kind = "blob" if stored[:1] == BLOB else "node"
                self.report(
                    f"objects {key.hex()[:16]}", f"its bytes do not hash to its id ({kind} of {len(stored)} bytes)"
                )
        self.checked["objects"] = count
