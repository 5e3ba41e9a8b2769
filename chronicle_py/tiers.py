"""`Tiers`: a persistent sorted set of texts that takes many small changes cheaply.

Where entries come in no order, changing one map entry by entry would write a leaf for each of them. Here the newest
changes are kept together until there are enough of them for a map of their own, a *run*, and four runs of a size are
merged into one of the next size: each entry is written once for each size, and a look-up asks a few runs. Pure.

Theory of operation. A change flips an entry: in, if it was out, or out, if it was in. A run holds the entries that it
adds and those that it removes; since changes of one entry alternate, its membership is the sum over the runs, the
entries in a range are *counted* by two searches in each run, and what two runs say of an entry either cancels out or is
said by one of them alone. Runs stand from the oldest to the newest and never grow in size in that order. When one is
made, and which are merged, depends on the changes alone and not on how they were batched: the same history has the same
stored form.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from heapq import merge
from itertools import groupby

import msgspec

from chronicle_py.collections import List, Map
from chronicle_py.nodes import Objects

FLUSH = 1024  # changes that make a run
FANOUT = 4  # runs of a size that are merged


class _Run(msgspec.Struct, array_like=True, frozen=True):
    """Entries that came in and those that went out, while it was the newest."""

    added: Map[None]
    removed: Map[None]

    @property
    def level(self) -> int:
        size, level = (len(self.added) + len(self.removed)) // FLUSH, 0
        while size >= FANOUT:
            size //= FANOUT
            level += 1
        return level


class TiersForm(msgspec.Struct, array_like=True, frozen=True):
    """What is stored of a `Tiers`."""

    runs: List[_Run]
    added: list[str]
    removed: list[str]


class Tiers:
    """An immutable sorted set of texts; `Flips` makes another one of it."""

    __slots__ = ("_sorted", "recent", "runs")

    def __init__(self, runs: tuple[_Run, ...] = (), recent: Mapping[str, bool] | None = None) -> None:
        self.runs = runs
        self.recent: Mapping[str, bool] = recent or {}  # since the last run. True: came in, False: went out
        self._sorted: list[str] | None = None

    def _newest(self, low: str | None, high: str | None) -> list[str]:
        """The entries of [low, high) among the newest changes, in order; they are sorted at the first question."""
        entries = self._sorted
        if entries is None:
            entries = self._sorted = sorted(self.recent)
        start = 0 if low is None else bisect_left(entries, low)
        return entries[start:] if high is None else entries[start : bisect_left(entries, high)]

    def __len__(self) -> int:
        return self.count(None, None)

    def count(self, low: str | None, high: str | None) -> int:
        """How many entries are in [low, high); None: no bound. O(runs · log n)."""
        total = sum(run.added.between(low, high) - run.removed.between(low, high) for run in self.runs)
        return total + sum(1 if self.recent[entry] else -1 for entry in self._newest(low, high))

    def scan(self, low: str | None, high: str | None, reverse: bool = False) -> Iterator[str]:
        """The entries of [low, high) in order. O(runs · log n) to begin, then O(log runs) for each."""
        streams = [run.added.scan_keys(low, high, reverse) for run in self.runs]
        gone = [run.removed.scan_keys(low, high, reverse) for run in self.runs if len(run.removed)]
        mine = self._newest(low, high)
        if reverse:
            mine.reverse()
        streams.append(iter([entry for entry in mine if self.recent[entry]]))
        out = [entry for entry in mine if not self.recent[entry]]
        if not gone and not out:
            return merge(*streams, reverse=reverse)
        return _remaining(merge(*streams, reverse=reverse), merge(*gone, out, reverse=reverse))

    def save(self, objects: Objects) -> tuple[TiersForm, Tiers]:
        """The stored form, and an equal set that keeps no stored node in memory."""
        runs = tuple(_Run(run.added.save(objects), run.removed.save(objects)) for run in self.runs)
        entries = sorted(self.recent)
        added = [entry for entry in entries if self.recent[entry]]
        removed = [entry for entry in entries if not self.recent[entry]]
        return TiersForm(List(runs), added, removed), Tiers(runs, self.recent)

    @classmethod
    def load(cls, form: TiersForm) -> Tiers:
        return cls(tuple(form.runs), {**dict.fromkeys(form.added, True), **dict.fromkeys(form.removed, False)})


def _remaining(came: Iterator[str], gone: Iterator[str]) -> Iterator[str]:
    """Entries that came in once more often than they went out. Each one's visits alternate, so it is one or none."""
    out = next(gone, None)
    for entry, group in groupby(came):
        count = sum(1 for _ in group)
        while out == entry:  # what went out had come in: every one of them is met here
            count -= 1
            out = next(gone, None)
        if count:
            yield entry


class Flips:
    """Changes to a `Tiers`, in order."""

    __slots__ = ("recent", "runs")

    def __init__(self, start: Tiers) -> None:
        self.runs = list(start.runs)
        self.recent = dict(start.recent)

    def flip(self, entry: str, came: bool) -> None:
        """One entry comes in or goes out."""
        if entry in self.recent:
            del self.recent[entry]  # it had gone the other way
        else:
            self.recent[entry] = came

    def settle(self) -> None:
        """To be called after each event: makes a run when there are enough changes."""
        if len(self.recent) < FLUSH:
            return
        added = sorted(entry for entry, came in self.recent.items() if came)
        removed = sorted(entry for entry, came in self.recent.items() if not came)
        self.recent = {}
        self._push(_Run(Map.of_sorted([e.encode() for e in added]), Map.of_sorted([e.encode() for e in removed])))

    def _push(self, run: _Run) -> None:
        """Puts a run behind the others, merged with those that are smaller, and with three of its own size."""
        runs = self.runs
        while True:
            level = run.level
            smaller = same = len(runs)
            while smaller and runs[smaller - 1].level < level:
                smaller -= 1
            same = smaller
            while same and runs[same - 1].level == level:
                same -= 1
            start = same if smaller - same >= FANOUT - 1 else smaller
            if start == len(runs):
                break
            run = _merged([*runs[start:], run])
            del runs[start:]
        if len(run.added) or len(run.removed):
            runs.append(run)

    def replace(self, other: Tiers) -> None:
        """All else is forgotten."""
        self.runs, self.recent = list(other.runs), dict(other.recent)

    def done(self) -> Tiers:
        return Tiers(tuple(self.runs), self.recent)


def _merged(runs: list[_Run]) -> _Run:
    """One run that says what these say one after the other."""
    if not any(len(run.removed) for run in runs):
        keys: list[bytes] = []
        for run in runs:
            keys += run.added.raw_keys()
        keys.sort()
        return _Run(Map.of_sorted(keys), Map())
    added: set[bytes] = set()
    removed: set[bytes] = set()
    for run in runs:
        came, went = set(run.added.raw_keys()), set(run.removed.raw_keys())
        added, removed = (added - went) | (came - removed), (removed - came) | (went - added)
    return _Run(Map.of_sorted(sorted(added)), Map.of_sorted(sorted(removed)))


def bound_after(prefix: str) -> str:
    """The least text above all that begin with `prefix`, of which some character is not the greatest there is."""
    head = prefix.rstrip("\U0010ffff")
    last = ord(head[-1]) + 1
    return head[:-1] + chr(0xE000 if last == 0xD800 else last)  # no text holds a surrogate
