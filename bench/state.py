"""Figures of reading state: at a sequence, at the head, all of it, on a fork, after opening, long untouched.

A *cold handle* is a newly opened store: nothing of it is remembered, and no page of the file is mapped into the process
yet (the file is in the system's page cache). The opening itself is not counted; it has figures of its own.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import chronicle_py as chronicle
from bench.figure import Measured, at_most, at_most_times, figure
from bench.measure import MS, US, alternate, each, seconds
from bench.plain_lmdb import PlainLmdb
from bench.stores import OLD_SLOT, SLOT, Session, relaxed

SMALL, LARGE = 10_000, 100_000
OLD = 300_000
FORKS = 10_000
_COLD_GET = "a get, newly opened"
_ROUND = 1_000

Times = tuple[list[float], ...]
ByFigure = dict[str, Times]


# --- cold -----------------------------------------------------------------------------------------------------------


def _cold(session: Session, path: Path, plain: Path, read: Callable[[chronicle.Store, int], object]) -> Times:
    """Times of (`read` on a newly opened store, a get in newly opened plain LMDB)."""

    def ours(n: int) -> list[float]:
        with relaxed(path) as store:
            return [seconds(lambda: read(store, n))]

    def beside(n: int) -> list[float]:
        raw = PlainLmdb(plain)
        taken = seconds(lambda: raw.get(1 + raw.count // 2 + n))
        raw.close()
        return [taken]

    return alternate(session.pick(300, 100), ours, beside)


def _state_at_middle(events: int) -> Callable[[chronicle.Store, int], None]:
    def read(store: chronicle.Store, n: int) -> None:
        at = events // 2 + n % 64  # all places in a block alike
        if len(store.branch().state(SLOT, at=at)) != at:
            raise AssertionError("a state of the wrong length")

    return read


def _old_value(branch: str, at: int | None = None) -> Callable[[chronicle.Store, int], None]:
    def read(store: chronicle.Store, n: int) -> None:
        if store.branch(branch).state(OLD_SLOT, at=at).get() != "set at event 1":
            raise AssertionError("the slot has another value")

    return read


# --- warm -----------------------------------------------------------------------------------------------------------


def _warm(session: Session, events: int) -> ByFigure:
    """Times of (ours, plain) on an open store, by what is read."""
    raw = PlainLmdb(session.plain(events))
    rounds = session.pick(10, 4)
    found: ByFigure = {}
    chance = random.Random(events)
    places = [[(chance.randrange(events),) for _ in range(_ROUND)] for _ in range(rounds)]
    with relaxed(session.one_by_one(events)) as store:
        log = store.branch().state(SLOT)
        if (len(log), len(log.tail(20))) != (events, 20):
            raise AssertionError("a log of the wrong length")
        found["tail"] = alternate(
            rounds,
            lambda n: each(log.tail, [(20,)] * _ROUND),
            lambda n: each(raw.tail, [(20,)] * _ROUND),
        )
        found["item"] = alternate(
            rounds,
            lambda n: each(log.__getitem__, places[n]),
            lambda n: each(raw.get, [(i + 1,) for (i,) in places[n]]),
        )
        found["length"] = alternate(
            rounds,
            lambda n: each(log.__len__, [()] * _ROUND),
            lambda n: each(raw.head, [()] * _ROUND),
        )
    raw.close()
    return found


def _small(session: Session) -> ByFigure:
    return {"state-at": _at_middle(session, SMALL), **_warm(session, SMALL)}


def _large(session: Session) -> ByFigure:
    return {"state-at": _at_middle(session, LARGE), **_warm(session, LARGE)}


def _at_middle(session: Session, events: int) -> Times:
    return _cold(session, session.one_by_one(events), session.plain(events), _state_at_middle(events))


def _at_100_000(what: str, name: str, limit: float, beside: str) -> None:
    """Registers a figure and that of its growth."""

    @figure(f"{name}, at 100,000 events", "µs", at_most(limit, "µs"))
    def large(session: Session) -> Measured:
        ours, raw = session.once(_large)[what]
        return Measured.of(ours, US, raw, beside)

    @figure(f"{name}, from 10,000 to 100,000 events", "µs", at_most_times(2, "that at 10,000"))
    def growth(session: Session) -> Measured:
        small, _ = session.once(_small)[what]
        large, _ = session.once(_large)[what]
        return Measured.of(large, US, small, "the same at 10,000")


_at_100_000("state-at", "state at the middle sequence, cold handle", 150, _COLD_GET)
_at_100_000("tail", "last 20 items", 25, "20 values by a cursor")
_at_100_000("item", "random item, warm", 5, "a random get")
_at_100_000("length", "length", 3, "a get of the head")


# --- events ---------------------------------------------------------------------------------------------------------


@figure("random event by its id, warm, at 100,000 events", "µs", group="point reads")
def event_by_id(session: Session) -> Measured:
    raw = PlainLmdb(session.plain(LARGE))
    chance = random.Random(3)
    with relaxed(session.one_by_one(LARGE)) as store:
        ids = [event.id for event in store.branch().events()]
        ours, plain = alternate(
            session.pick(10, 4),
            lambda n: each(store.event, [(chance.choice(ids),) for _ in range(_ROUND)]),
            lambda n: each(raw.get, [(chance.randrange(LARGE) + 1,) for _ in range(_ROUND)]),
        )
    raw.close()
    return Measured.of(ours, US, plain, "a random get")


@figure("last 20 events of a branch, at 100,000 events", "µs", group="point reads")
def last_events(session: Session) -> Measured:
    raw = PlainLmdb(session.plain(LARGE))
    with relaxed(session.one_by_one(LARGE)) as store:
        branch = store.branch()
        ours, plain = alternate(
            session.pick(10, 4),
            lambda n: each(lambda: list(branch.events(reverse=True, limit=20)), [()] * 200),
            lambda n: each(raw.tail, [(20,)] * 200),
        )
    raw.close()
    return Measured.of(ours, US, plain, "20 values by a cursor")


# --- opening --------------------------------------------------------------------------------------------------------


def _opening(events: int, quick: int) -> None:
    @figure(f"open an existing store, {events:,} events", "ms", at_most(2, "ms"))
    def opening(session: Session) -> Measured:
        size = session.pick(events, quick)
        path, plain = session.batched(size), session.plain_batched(size)
        ours: list[chronicle.Store] = []
        raws: list[PlainLmdb] = []

        def open_ours(n: int) -> list[float]:
            taken = seconds(lambda: ours.append(relaxed(path)))
            ours.pop().close()
            return [taken]

        def open_plain(n: int) -> list[float]:
            taken = seconds(lambda: raws.append(PlainLmdb(plain)))
            raws.pop().close()
            return [taken]

        mine, raw = alternate(session.pick(200, 100), open_ours, open_plain)
        note = "" if size == events else f"quick: {size:,} events"
        return Measured.of(mine, MS, raw, "lmdb.open, three databases", note)


_opening(10_000, 10_000)
_opening(100_000, 100_000)
_opening(1_000_000, 100_000)


# --- slots touched long ago -----------------------------------------------------------------------------------------


@figure("a slot set at event 1, read at 300,000, cold", "µs", at_most(500, "µs"))
def old_slot(session: Session) -> Measured:
    events = session.pick(OLD, OLD // 3)
    ours, raw = _cold(session, session.old_slot(events), session.plain_batched(events), _old_value("main"))
    return Measured.of(ours, US, raw, _COLD_GET)


@figure("a slot set at event 1, through 10,000 forks of one event each, cold", "µs", at_most(500, "µs"))
def deep_slot(session: Session) -> Measured:
    ours, raw = _cold(session, session.deep(FORKS), session.plain(SMALL), _old_value("deep"))
    return Measured.of(ours, US, raw, _COLD_GET)


@figure("an old sequence from there, cold", "µs", at_most(500, "µs"))
def deep_sequence(session: Session) -> Measured:
    ours, raw = _cold(session, session.deep(FORKS), session.plain(SMALL), _old_value("deep", at=FORKS // 2))
    return Measured.of(ours, US, raw, _COLD_GET, f"sequence {FORKS // 2:,} of {FORKS + 1:,}")


# --- everything -----------------------------------------------------------------------------------------------------


def _all_items(store: chronicle.Store) -> float:
    log = store.branch().state(SLOT)
    found: list[bytes] = []
    taken = seconds(lambda: found.extend(log.raw()))
    if len(found) != LARGE:
        raise AssertionError(f"{len(found)} items instead of {LARGE}")
    return taken


@figure("all 100,000 items of a log, as raw bytes", "ms", at_most(200, "ms"))
def all_items(session: Session) -> Measured:
    raw = PlainLmdb(session.plain(LARGE))
    with relaxed(session.one_by_one(LARGE)) as store:
        ours, plain = alternate(session.pick(11, 5), lambda _: [_all_items(store)], lambda _: [seconds(raw.values)])
    raw.close()
    return Measured.of(ours, MS, plain, "a list of all values")
