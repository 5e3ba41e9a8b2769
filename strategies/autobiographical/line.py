"""`Line`: entries in order, of which mostly the first leave; and links from number to number. Pure.

Both are lists whose usual changes cost O(1): an entry that leaves at the front is passed over and cut off with others,
and links are mostly made in the order of the numbers. Any other change costs O(log n).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from chronicle_py.collections import List

_PASSED: Final = 64  # entries passed over before they are cut off
NONE: Final = -1  # no link


class Placed(Protocol):
    @property
    def first(self) -> int: ...


P = TypeVar("P", bound=Placed)


class Line(msgspec.Struct, Generic[P], frozen=True):
    """Entries in the order of `first`, with weights."""

    entries: List[P]
    passed: int = 0  # entries at the front that have left

    def __len__(self) -> int:
        return len(self.entries) - self.passed

    def __iter__(self) -> Iterator[P]:
        return iter(self.between(0, len(self)))

    def __reversed__(self) -> Iterator[P]:
        left = len(self)
        return (entry for entry, _ in zip(reversed(self.entries), range(left), strict=False))

    def __getitem__(self, index: int) -> P:
        """The entry at an index, from 0."""
        return self.entries[index + self.passed]

    def between(self, start: int, stop: int) -> list[P]:
        """The entries of [start, stop)."""
        return self.entries[start + self.passed : stop + self.passed]

    def weight(self, stop: int | None = None) -> int:
        """The sum of the weights of the first `stop` entries (default: all). O(log n)."""
        before = self.entries.weight(self.passed) if self.passed else 0
        return self.entries.weight(None if stop is None else stop + self.passed) - before

    def find(self, weight: int) -> int:
        """The first index at which the weights up to and with it exceed `weight`, else the length. O(log n)."""
        before = self.entries.weight(self.passed) if self.passed else 0
        return self.entries.find(weight + before) - self.passed

    def place(self, first: int) -> int:
        """The index of the first entry that begins at `first` or later. O(log n), O(1) at the front."""
        if len(self) and self[0].first >= first:
            return 0
        return max(0, place(self.entries, first) - self.passed)

    def added(self, entry: P, weight: int = 0) -> Line[P]:
        """With one more entry, in its place."""
        at = place(self.entries, entry.first)
        if at < self.passed:  # it comes before what has left
            return Line(insert(self.entries.delete(0, self.passed), entry, weight))
        return Line(_inserted(self.entries, at, entry, weight), self.passed)

    def without(self, index: int) -> Line[P]:
        """Without the entry at an index."""
        if index:
            return Line(self.entries.delete(index + self.passed, index + self.passed + 1), self.passed)
        passed = self.passed + 1
        return Line(self.entries, passed) if passed < _PASSED else Line(self.entries.delete(0, passed))


def place(entries: List[P], first: int) -> int:
    """The index of the first entry, of entries in the order of `first`, that begins at `first` or later. O(log n)."""
    low, high = 0, len(entries)
    if not high or (above := entries[high - 1].first) < first:
        return high
    if (below := entries[0].first) >= first:
        return 0
    low, high = 1, high - 1
    guess = True
    while low < high:  # entries[low - 1].first < first ≤ entries[high].first, which are `below` and `above`
        middle = low + (first - below) * (high - low) // (above - below) if guess else (low + high) // 2
        width = high - low
        middle = min(middle, high - 1)
        found = entries[middle].first
        if found < first:
            low, below = middle + 1, found
        else:
            high, above = middle, found
        guess = high - low <= width // 2 or not guess
    return low


def insert(entries: List[P], entry: P, weight: int = 0) -> List[P]:
    """With one more entry, in its place. O(log n); O(1) at the end."""
    return _inserted(entries, place(entries, entry.first), entry, weight)


def _inserted(entries: List[P], at: int, entry: P, weight: int) -> List[P]:
    return entries.append(entry, weight) if at == len(entries) else entries.insert(at, entry, weight)


# --- links ----------------------------------------------------------------------------------------------------------


def link_of(links: List[int], number: int) -> int:
    """What a number leads to; NONE where it leads nowhere."""
    return links[number] if number < len(links) else NONE


def linked(links: List[int], number: int, to: int) -> List[int]:
    """With a number leading elsewhere."""
    missing = number - len(links)
    if missing < 0:
        return links.set(number, to)
    return links.extend([NONE] * missing).append(to) if missing else links.append(to)
