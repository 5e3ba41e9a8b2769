"""Reading the feed: the global order of what was done, entry by entry, as the items that a follower gets.

Works on a snapshot that the caller hands in, and holds none itself. `Walk` reads one bounded batch from a `Cursor` on.

Theory of operation. The feed names runs of events and changes of branches; a run ends where the next entry says, the
last one at its branch's head. A cursor is the last thing that was passed: the number of an entry, the sequence within
its run, and a few bytes that say *which* event or change that was. So a cursor that fits what the store holds now goes
on right behind it, in O(log n), and one that does not is noticed: what it passed was collected since, or the store is
not the one it was made in. Collected entries leave one entry of kind "gone" where their group began, at or below each
of their numbers; a follower that finds its place there gets a `Gone` mark and goes on behind the group.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, NoReturn
from zlib import crc32

import msgspec

from chronicle_py import records
from chronicle_py.branches import head_of, read_ref
from chronicle_py.errors import CorruptStore, InvalidOperation, NotFound
from chronicle_py.event import Event, EventTypes, bind, checked_event, decode_event
from chronicle_py.kv import EVENTS, FEED, LINEAGES, META, Reader
from chronicle_py.records import FeedRecord, Ref, pack_lineage, pack_number, pack_position
from chronicle_py.shown import shown

BATCH: Final = 1024  # events read under one snapshot, at most
_BATCH_BYTES: Final = 4 << 20  # after which a batch ends early
_CHUNK: Final = 128  # events read at once, so that large ones do not add up
_ENTRIES: Final = 128  # entries of the feed looked at under one snapshot
_MARK: Final = 4  # bytes of an event's id in a cursor
_GONE: Final = "00000000"  # the mark of a cursor behind an entry "gone"
_LOST: Final = "ffffffff"  # and of one behind a run whose events are gone


class Followed(msgspec.Struct, frozen=True, gc=False):
    """An event, as a follower gets it."""

    event: Event
    branch: str  # the branch that it was appended to
    position: str  # `store.follow(start=position)` goes on right behind it


class BranchChange(msgspec.Struct, frozen=True, gc=False):
    """A branch was made, moved or deleted. A head is (sequence, hex id), or None where there was no branch."""

    kind: str  # create, fork, orphan, rewind, delete, restore, import
    branch: str
    before: tuple[int, str] | None
    after: tuple[int, str] | None
    position: str


class CaughtUp(msgspec.Struct, frozen=True, gc=False):
    """All that was committed when the following began has been returned. Comes once."""

    position: str


class Gone(msgspec.Struct, frozen=True, gc=False):
    """Here stood what has been collected since."""

    position: str
    branch: str | None  # None: not known any more
    entries: int  # runs of events and changes of branches that stood here, at least
    events: int | None  # how many events; None: not known any more


Item = Followed | BranchChange | CaughtUp | Gone


class Cursor(NamedTuple):
    """The last thing that was passed. The start of the feed is number 0."""

    number: int  # of its entry
    seq: int  # within a run; behind "gone" the number of the entry that came next
    mark: str  # 8 hex digits: which event or change that was


START: Final = Cursor(0, 0, _GONE)


class Wanted(NamedTuple):
    """What passes. None: everything."""

    branches: frozenset[str] | None
    types: frozenset[str] | None
    slots: frozenset[str] | None

    def branch(self, name: str) -> bool:
        return self.branches is None or name in self.branches

    @property
    def changes(self) -> bool:
        """Who asks for events of some kind asks for events."""
        return self.types is None and self.slots is None


# --- positions ------------------------------------------------------------------------------------------------------


def store_mark(reader: Reader) -> str:
    """What the positions of this store end in."""
    key = records.META_STORE
    return records.unseal(key, reader.get(META, key) or b"", "the store's id")[:4].hex()


def position(cursor: Cursor, store: str) -> str:
    """A cursor for people to keep: `number.sequence-mark`, and which store it is of."""
    return f"{cursor.number}.{cursor.seq}-{cursor.mark}{store}"


def parse_position(text: object, store: str) -> Cursor:
    """The cursor of a position; InvalidOperation for nonsense, and for a position of another store."""
    if not isinstance(text, str):
        raise InvalidOperation(
            f'follow(start=) is the .position of an item, "now", or None for the beginning, not {shown(text)}'
        )
    place, _, marks = text.partition("-")
    numbers = place.split(".")
    sound = len(numbers) == 2 and all(n.isascii() and n.isdigit() and len(n) <= 19 for n in numbers)
    if not sound or len(marks) != 16 or any(c not in "0123456789abcdef" for c in marks):
        raise InvalidOperation(
            f'{shown(text)} is no position; a position is what an item\'s .position says, as "17.42-3f9a2c015be07d11"'
        )
    if marks[8:] != store:
        raise InvalidOperation(
            f"{shown(text)} is a position in another store; positions hold in the store that gave them, and its copies"
        )
    return Cursor(int(numbers[0]), int(numbers[1]), marks[:8])


def _change_mark(entry: FeedRecord) -> str:
    """Of a change of this very branch, not of a later one of that name: hence the time when it was made."""
    heads = [ref and (ref.seq, ref.key, ref.created) for ref in (entry.before, entry.after)]
    return f"{crc32(records.encode((entry.kind, entry.branch, heads))):08x}"


def _event_mark(stored: bytes) -> str:
    return decode_event(stored).key[:_MARK].hex()


# --- walking --------------------------------------------------------------------------------------------------------

Entry = tuple[int, FeedRecord]
Decode = Callable[[bytes, bytes], Entry]


class Walk:
    """One batch of the feed, read from one snapshot: `items`, and the `cursor` behind them."""

    def __init__(self, reader: Reader, wanted: Wanted, bound: EventTypes) -> None:
        self._reader = reader
        self._wanted = wanted
        self._bound = bound
        self.store = store_mark(reader)
        self._room, self._bytes = BATCH, _BATCH_BYTES
        self._number = self._seq = 0
        self._mark: str | None = None  # None: to be looked up, where what was passed was not read
        self.items: list[Item] = []

    @property
    def cursor(self) -> Cursor:
        if self._mark is None:
            entry = self._entry(self._number)
            stored = self._reader.get(EVENTS, pack_position(entry.lineage, self._seq))
            self._mark = _LOST if stored is None else _event_mark(stored)
        return Cursor(self._number, self._seq, self._mark)

    def end(self) -> Cursor:
        """The end of the feed."""
        last = self._reader.scan(FEED, b"\xff" * 8, limit=1, reverse=True)
        if not last:
            return START
        number, entry = self._decoded(*last[0])
        if entry.kind == "gone":
            return Cursor(number, 0, _GONE)
        if entry.kind != "run":
            return Cursor(number, 0, _change_mark(entry))
        ref = self._open_ref(number, entry)
        return Cursor(number, ref.seq, ref.key[:_MARK].hex())

    def run(self, cursor: Cursor, until: Cursor | None) -> bool:
        """Reads on behind the cursor. True: up to `until`, or to the end of the feed; False: there is more."""
        self._number, self._seq, self._mark = cursor
        pairs = self._reader.scan(FEED, pack_number(max(1, cursor.number)), limit=_ENTRIES)
        entries = _Entries(pairs, self._decoded)
        resumed = bool(cursor.number) and self._fits(cursor, entries)
        if cursor.number and not resumed:
            number = self._gone_below(cursor)
            entries = _Entries(self._reader.scan(FEED, pack_number(number), limit=_ENTRIES), self._decoded)
        elif not cursor.number and entries.number(0) != 1:
            raise CorruptStore("the feed's first entries are missing. `chronicle verify` lists the damage")
        complete = len(entries) < _ENTRIES
        for index in range(len(entries) if complete else len(entries) - 1):
            number, entry = entries[index]
            if until is not None and number > until.number:
                return True
            following = entries[index + 1] if index + 1 < len(entries) else None
            if following is not None and following[0] != number + 1 and entry.kind != "gone":
                raise CorruptStore(
                    f"feed entries {number + 1} to {following[0] - 1} are missing. `chronicle verify` lists the damage"
                )
            if entry.kind == "run":
                first = cursor.seq + 1 if resumed and not index else entry.start
                stop = self._open_ref(number, entry).seq if following is None else following[1].stop_before
                if until is not None and number == until.number and until.seq:
                    stop = min(stop, until.seq)
                if not self._run(number, entry, first, stop, following is None):
                    return False
            elif not (resumed and not index):
                self._pass(number, entry, following)
            if not self._room:
                return complete and following is None
        return complete

    def _pass(self, number: int, entry: FeedRecord, following: Entry | None) -> None:
        """An entry that is no run."""
        self._room -= 1
        if entry.kind == "gone":
            behind = following[0] if following else 0
            self._gone(number, behind, _GONE, None, max(1, behind - number))
            return
        self._number, self._seq, self._mark = number, 0, _change_mark(entry)
        if self._wanted.changes and self._wanted.branch(entry.branch):
            at = position(self.cursor, self.store)
            self.items.append(BranchChange(entry.kind, entry.branch, head_of(entry.before), head_of(entry.after), at))

    def _gone(
        self, number: int, seq: int, mark: str, branch: str | None, entries: int, events: int | None = None
    ) -> None:
        self._number, self._seq, self._mark = number, seq, mark
        self.items.append(Gone(position(self.cursor, self.store), branch, entries, events))

    # --- runs ---

    def _run(self, number: int, entry: FeedRecord, first: int, stop: int, last: bool) -> bool:
        """The events first…stop of a run; False when the batch was full before. `last`: it may still grow."""
        if stop < first:
            return True
        if not self._wanted.branch(entry.branch):
            self._room -= 1
            self._number, self._seq, self._mark = number, stop, None
            return True
        while first <= stop and self._room > 0 and self._bytes > 0:
            until = min(stop, first + min(self._room, _CHUNK) - 1)
            start, end = pack_position(entry.lineage, first), pack_position(entry.lineage, until + 1)
            pairs = self._reader.scan(EVENTS, start, end)
            values = [value for _, value in pairs]
            events = self._decode(values, entry.lineage, first)
            if len(events) <= until - first:
                there = first + len(events)
                if last or (pairs and pairs[-1][0] != pack_position(entry.lineage, there - 1)):
                    self._missing(number, entry, first, stop)
                if not self._collected(entry, there):
                    self._missing(number, entry, first, stop)
                self._take(number, entry.branch, first, events)
                self._gone(number, stop, _LOST, entry.branch, 1, stop - there + 1)
                return True
            self._take(number, entry.branch, first, events)
            self._room -= len(values)
            self._bytes -= sum(map(len, values))
            first = until + 1
        return first > stop

    def _take(self, number: int, branch: str, first: int, events: list[Event]) -> None:
        if not events:
            return
        _, types, slots = self._wanted
        start, end, add, bound = f"{number}.", self.store, self.items.append, self._bound
        for seq, event in enumerate(events, first):
            if (types is None or event.type in types) and (slots is None or event.slot in slots):
                if bound:
                    bind(event, bound)
                add(Followed(event, branch, f"{start}{seq}-{event.key[:_MARK].hex()}{end}"))
        self._number, self._seq, self._mark = number, first + len(events) - 1, events[-1].key[:_MARK].hex()

    @staticmethod
    def _decode(values: list[bytes], lineage: int, first: int) -> list[Event]:
        try:
            return list(map(decode_event, values))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return [checked_event(v, f"sequence {first + i} of lineage {lineage}") for i, v in enumerate(values)]

    @staticmethod
    def _missing(number: int, entry: FeedRecord, first: int, stop: int) -> NoReturn:
        raise CorruptStore(
            f"events between sequences {first} and {stop} of lineage {entry.lineage}, of which feed entry {number} "
            "tells, are missing. `chronicle verify` lists the damage"
        )

    def _collected(self, entry: FeedRecord, seq: int) -> bool:
        """Whether nothing is left of a run's lineage from `seq` on, and its branch does not need it."""
        if self._reader.get(LINEAGES, pack_lineage(entry.lineage)) is None:
            return True
        start, end = pack_position(entry.lineage, seq), pack_position(entry.lineage + 1, 0)
        if self._reader.scan(EVENTS, start, end, limit=1):
            return False
        ref = self._ref(entry.branch)
        return ref is None or ref.lineage != entry.lineage or ref.seq < seq

    def _open_ref(self, number: int, entry: FeedRecord) -> Ref:
        """The branch whose head says where the last run ends."""
        ref = self._ref(entry.branch)
        if ref is None or ref.lineage != entry.lineage or ref.seq < entry.start:
            raise CorruptStore(
                f"feed entry {number}, the last one, is a run of events on branch {entry.branch!r}, which is not there "
                "or has its head elsewhere. `chronicle verify` lists the damage"
            )
        return ref

    def _ref(self, branch: str) -> Ref | None:
        try:
            return read_ref(self._reader, branch)
        except NotFound:
            return None

    # --- finding the place again ---

    def _fits(self, cursor: Cursor, entries: _Entries) -> bool:
        """Whether the first of the entries is the one that the cursor stands in."""
        if not entries or entries.number(0) != cursor.number:
            return False
        number, entry = entries[0]
        following = entries[1] if len(entries) > 1 else None
        if entry.kind == "gone":  # the group may have grown since
            return cursor.mark == _GONE and (following is None or following[0] in (cursor.seq, number + 1))
        if entry.kind != "run":
            return cursor.mark == _change_mark(entry)
        stop = following[1].stop_before if following else self._open_ref(number, entry).seq
        if not entry.start <= cursor.seq <= stop:
            return False
        stored = self._reader.get(EVENTS, pack_position(entry.lineage, cursor.seq))
        return stored is None or cursor.mark in (_LOST, _event_mark(stored))

    def _gone_below(self, cursor: Cursor) -> int:
        """The entry "gone" that stands for what the cursor passed."""
        at = cursor.number
        while at > 0:
            pairs = self._reader.scan(FEED, pack_number(at), limit=_ENTRIES, reverse=True)
            for pair in pairs:
                number, entry = self._decoded(*pair)
                if entry.kind == "gone":
                    return number
                at = number - 1
            if len(pairs) < _ENTRIES:
                break
        raise InvalidOperation(
            f"position {position(cursor, self.store)} is of a store that held other things than this one holds now: "
            'another copy of it was put in its place. Follow from the beginning (start=None), or from start="now"'
        )

    def _entry(self, number: int) -> FeedRecord:
        key = pack_number(number)
        return self._decoded(key, self._reader.get(FEED, key) or b"")[1]

    @staticmethod
    def _decoded(key: bytes, record: bytes) -> Entry:
        number = int.from_bytes(key, "big")
        return number, records.decode_feed(key, record, f"feed entry {number}")


class _Entries:
    """Entries of the feed, decoded as they are looked at: one run may fill the whole batch."""

    def __init__(self, pairs: list[tuple[bytes, bytes]], decode: Decode) -> None:
        self._pairs = pairs
        self._decode = decode
        self._known: dict[int, Entry] = {}

    def __len__(self) -> int:
        return len(self._pairs)

    def number(self, index: int) -> int:
        return int.from_bytes(self._pairs[index][0], "big") if index < len(self._pairs) else 0

    def __getitem__(self, index: int) -> Entry:
        found = self._known.get(index)
        if found is None:
            found = self._known[index] = self._decode(*self._pairs[index])
        return found
