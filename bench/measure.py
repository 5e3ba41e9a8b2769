"""Timing: how often a thing is done, in which order, and what is made of the numbers.

Two things are always timed in small alternating rounds, never one after the other: a disk or a neighbour that is slow
for a second then slows both, and their ratio stands. Medians are quoted unless a figure says otherwise.

Garbage collection stays on, so that what the code under test leaves behind is paid for; `settled` only moves what was
there before out of its way.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

US, MS = 1e6, 1e3  # seconds to µs, to ms

Round = Callable[[int], list[float]]
"""Does round n of something, and returns how many seconds each of its parts took."""


@contextmanager
def settled() -> Iterator[None]:
    """A block that pays for its own garbage only."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def seconds(call: Callable[[], object]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def each(call: Callable[..., object], arguments: Iterable[tuple[object, ...]]) -> list[float]:
    """How long each of the calls takes, the arguments made before."""
    clock = time.perf_counter
    found = []
    for given in list(arguments):
        start = clock()
        call(*given)
        found.append(clock() - start)
    return found


def alternate(rounds: int, *sides: Round) -> tuple[list[float], ...]:
    """The times of several things, done in turns: round 0 of each, round 1 of each, …"""
    times: tuple[list[float], ...] = tuple([] for _ in sides)
    with settled():
        for n in range(rounds):
            for found, side in zip(times, sides, strict=True):
                found += side(n)
    return times


def median(times: Iterable[float]) -> float:
    return statistics.median(times)


def mean(times: list[float]) -> float:
    return sum(times) / len(times)


def quantile(times: list[float], q: float) -> float:
    """The time that a share `q` of all stays below."""
    return sorted(times)[min(len(times) - 1, int(len(times) * q))]


def quartiles(times: list[float]) -> tuple[float, float]:
    """The spread: a quarter of all lies below the first, and a quarter above the second."""
    if len(times) < 2:
        return times[0], times[0]
    low, _, high = statistics.quantiles(times, n=4, method="inclusive")
    return low, high


_PARTS = 20


def spread_of_ratio(ours: list[float], others: list[float]) -> tuple[float, float]:
    """The quartiles of the ratio of two medians, over parts of a run that were measured at the same time."""
    parts = min(_PARTS, len(ours), len(others))

    def medians(times: list[float]) -> list[float]:
        return [median(times[k * len(times) // parts : (k + 1) * len(times) // parts]) for k in range(parts)]

    return quartiles([mine / other for mine, other in zip(medians(ours), medians(others), strict=True)])
