"""Figures of growth: what costs how much more when there is ten times as much. plots.py draws them.

Each is measured on stores of several sizes in turns; the row compares the two largest. A *cold handle* is a store
opened for this one measurement (see state.py); opening is not counted, except in the row about it.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from pathlib import Path

import chronicle_py as chronicle
from bench import conversation
from bench.figure import Measured, Point, at_most_times, figure
from bench.measure import MS, US, alternate, each, median, quartiles, seconds
from bench.stores import SLOT, Session, payload, relaxed
from bench.trees import TREE, content, path_of

Timed = Callable[[chronicle.Store, int, int], float]
"""Seconds of something on a newly opened store of `n` events, in a round."""
Times = tuple[list[float], ...]


def _compared(sizes: tuple[int, ...], times: Times, scale: float, of: str) -> Measured:
    points = [
        Point(n, median(found) * scale, *(q * scale for q in quartiles(found)))
        for n, found in zip(sizes, times, strict=True)
    ]
    note = ", ".join(f"{point.value:.3g} at {point.n:,}" for point in points)
    found = Measured.of(times[-1], scale, times[-2], f"the same at {sizes[-2]:,} {of}", note)
    return found.with_points(points)


def _sizes(session: Session, most: int) -> tuple[int, ...]:
    """From 1,000 on, each ten times the one before; `quick` stops at 100,000."""
    return tuple(n for n in (1_000, 10_000, 100_000, 1_000_000) if n <= min(most, session.pick(1_000_000, 100_000)))


def _series(
    name: str, unit: str, limit: float, measure: Callable[[Session, tuple[int, ...]], Times],
    *, most: int = 1_000_000, of: str = "events",
) -> None:  # fmt: skip
    scale = {"µs": US, "ms": MS}[unit]

    @figure(f"{name}, from {most // 10:,} to {most:,} {of}", unit, at_most_times(limit, "that at a tenth"))
    def series(session: Session) -> Measured:
        sizes = _sizes(session, most)
        return _compared(sizes, measure(session, sizes), scale, of)


# --- on a cold handle -----------------------------------------------------------------------------------------------


def _written(session: Session, events: int) -> Path:
    """A store that measurements may write to."""
    return session.built(("written", events), lambda path: session.copy_to(session.batched(events), path))


def _cold(read: Timed, *, writes: bool = False) -> Callable[[Session, tuple[int, ...]], Times]:
    def measure(session: Session, sizes: tuple[int, ...]) -> Times:
        paths = [_written(session, n) if writes else session.batched(n) for n in sizes]

        def once(path: Path, events: int, n: int) -> float:
            with relaxed(path) as store:
                return read(store, events, n)

        return alternate(
            session.pick(100, 30),
            *(lambda n, p=path, e=events: [once(p, e, n)] for path, events in zip(paths, sizes, strict=True)),
        )

    return measure


def _append(store: chronicle.Store, events: int, n: int) -> float:
    item = payload(n)
    return seconds(lambda: store.branch().state(SLOT).append(item))


def _tail(store: chronicle.Store, events: int, n: int) -> float:
    return seconds(lambda: store.branch().state(SLOT).tail(20))


def _state_at(store: chronicle.Store, events: int, n: int) -> float:
    return seconds(lambda: len(store.branch().state(SLOT, at=events // 2 + n % 64)))


def _fork(store: chronicle.Store, events: int, n: int) -> float:
    name = f"fork-{len(store.branches())}"
    return seconds(lambda: store.branch().fork(name, events // 2))


def _item(store: chronicle.Store, events: int, n: int) -> float:
    place = random.Random(n).randrange(events)
    return seconds(lambda: store.branch().state(SLOT)[place])


def _diff(store: chronicle.Store, events: int, n: int) -> float:
    return seconds(lambda: store.branch().diff(SLOT, events - 10, events))


def _open(session: Session, sizes: tuple[int, ...]) -> Times:
    def once(path: Path) -> float:
        opened: list[chronicle.Store] = []
        taken = seconds(lambda: opened.append(relaxed(path)))
        opened[0].close()
        return taken

    return alternate(
        session.pick(100, 30),
        *(lambda n, p=session.batched(events): [once(p)] for events in sizes),
    )


_series("append, cold handle", "µs", 1.3, _cold(_append, writes=True))
_series("open", "µs", 1.3, _open)
_series("last 20 items, cold handle", "µs", 1.3, _cold(_tail))
_series("state at the middle sequence, cold handle", "µs", 2, _cold(_state_at))
_series("fork at the middle, cold handle", "µs", 2, _cold(_fork, writes=True))
_series("random item, cold handle", "µs", 2, _cold(_item))
_series("diff of 10 items, cold handle", "µs", 2, _cold(_diff))


# --- whole histories, by event --------------------------------------------------------------------------------------


def _by_event(read: Callable[[chronicle.Store], float], rounds: int) -> Callable[[Session, tuple[int, ...]], Times]:
    def measure(session: Session, sizes: tuple[int, ...]) -> Times:
        def once(events: int) -> float:
            with relaxed(session.batched(events)) as store:
                return read(store) / events

        return alternate(rounds, *(lambda n, e=events: [once(e)] for events in sizes))

    return measure


def _walk(store: chronicle.Store) -> float:
    return seconds(lambda: deque(store.branch().events(), maxlen=0))


_series("walk, an event", "µs", 1.3, _by_event(_walk, 5))
_series("replay, an event", "µs", 1.3, _by_event(lambda store: store.branch().replay(SLOT).seconds, 3))
_series(
    "deep verify, an event", "µs", 1.3, _by_event(lambda store: seconds(lambda: store.verify(deep=True)), 3),
    most=100_000,
)  # fmt: skip


# --- trees and conversations ----------------------------------------------------------------------------------------


def _in_tree(session: Session, sizes: tuple[int, ...], write: bool) -> Times:
    stores = [relaxed(session.copy(session.tree(files))) for files in sizes]
    chance = random.Random(4)

    def once(store: chronicle.Store, files: int, n: int) -> list[float]:
        tree = store.branch().state(TREE)
        some = [chance.randrange(files) for _ in range(200)]
        if write:
            return each(tree.put, [(path_of(i), content(i + n + 1)) for i in some])
        return each(tree.__getitem__, [(path_of(i),) for i in some])

    try:
        return alternate(
            session.pick(10, 4),
            *(lambda n, s=store, f=files: once(s, f, n) for store, files in zip(stores, sizes, strict=True)),
        )
    finally:
        for store in stores:
            store.close()


_series("get a file of a tree", "µs", 2, lambda s, n: _in_tree(s, n, False), most=100_000, of="files")
_series("put a file into a tree", "µs", 2, lambda s, n: _in_tree(s, n, True), most=100_000, of="files")
_series(
    "add a message", "µs", 1.3, lambda s, sizes: tuple(conversation.added(s, n) for n in sizes),
    most=10_000, of="messages",
)  # fmt: skip
_series(
    "compile after one message", "ms", 2, lambda s, sizes: tuple(conversation.compiled_after_one(s, n) for n in sizes),
    most=10_000, of="messages",
)  # fmt: skip
