"""The feed after a collection: entries that speak of nothing that is left become one entry `gone` for each stretch.

A run goes when none of its events is left; a move goes when its branch, all of the branch's reflog and all of the
branch's runs are. Numbers are never given twice: an entry `gone` has the first number of its stretch, the others of the
stretch are taken out, but for the last entry of the whole feed, which then becomes `gone` by itself. Entries that stay
are not changed: a run of which the last events are gone still says where it ended, and a follower sees that they lack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from typing import Final, NamedTuple

from chronicle_py import records
from chronicle_py.kv import FEED
from chronicle_py.records import FeedRecord
from chronicle_py.removal import Removal

GONE: Final = "gone"
RUN: Final = "run"
_MOVES: Final = frozenset(("create", "fork", "orphan", "rewind", "delete", "restore", "import"))


class Entry(NamedTuple):
    """An entry of the feed with its bytes."""

    key: bytes
    stored: bytes
    record: FeedRecord


class Left(NamedTuple):
    """What is left of what the feed speaks of."""

    end: Callable[[int], int]  # lineage -> its last event that stays, 0 when there is none
    branches: Set[str]  # those that are, or have a reflog

    def has(self, record: FeedRecord) -> bool:
        """Whether an entry has to stay for its own sake."""
        if record.kind == RUN:
            return record.start <= self.end(record.lineage)
        return record.kind != GONE and (record.kind not in _MOVES or record.branch in self.branches)


def forget_entries(removal: Removal, left: Left, coming: Iterable[tuple[bytes, bytes]] = ()) -> int:
    """Brings the feed in line with what is left; how many entries went. `coming`: entries that a rehearsal pretends to
    have written. O(entries)."""
    runs = {
        entry.record.branch for entry in _entries(removal, ()) if entry.record.kind == RUN and left.has(entry.record)
    }
    return _Pass(removal, Left(left.end, left.branches | runs)).over(_entries(removal, coming))


def _entries(removal: Removal, coming: Iterable[tuple[bytes, bytes]]) -> Iterator[Entry]:
    for pairs in (removal.scan(FEED), coming):
        for key, stored in pairs:
            what = f"feed entry {int.from_bytes(key, 'big')}"
            yield Entry(key, stored, records.decode_feed(key, stored, what))


class _Pass:
    """One walk over the feed."""

    def __init__(self, removal: Removal, left: Left) -> None:
        self._removal = removal
        self._left = left
        self._in_stretch = False
        self._spare: Entry | None = None  # the newest of the stretch, unless it is the first: it goes if more follows
        self._gone = 0

    def over(self, entries: Iterable[Entry]) -> int:
        for entry in entries:
            if self._spare is not None:
                self._removal.delete(FEED, self._spare.key, self._spare.stored)
                self._spare = None
            if self._left.has(entry.record):
                self._in_stretch = False
            else:
                self._go(entry)
        if self._spare is not None:
            self._become_gone(self._spare, 0)
        return self._gone

    def _go(self, entry: Entry) -> None:
        self._gone += entry.record.kind != GONE
        if self._in_stretch:
            self._spare = entry
        else:
            self._become_gone(entry, entry.record.stop_before)
        self._in_stretch = True

    def _become_gone(self, entry: Entry, stop_before: int) -> None:
        record = FeedRecord(GONE, "", 0, 0, stop_before)
        if record != entry.record:
            stored = records.seal(entry.key, records.encode(record))
            self._removal.bytes += len(entry.stored) - len(stored)
            self._removal.replace(FEED, entry.key, stored)
