"""Figures of reading whole histories: the walk, and replay, at 1,000 to 1,000,000 events."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path

import chronicle_py as chronicle
from bench.figure import RATE, SHOWN, Measured, Must, at_least, figure
from bench.measure import alternate, median, seconds
from bench.plain_lmdb import PlainLmdb
from bench.stores import SLOT, TYPED, TYPED_SLOT, Counting, Message, Session, relaxed

EVENTS = 100_000
MILLION = 1_000_000
_WALK = "a cursor walk"
Read = Callable[[chronicle.Store, int], float]


def beside_walk(
    session: Session, path: Path, plain: Path, read: Callable[[chronicle.Store], float], rounds: int
) -> tuple[list[float], ...]:
    """Seconds of (`read`, which times itself; a plain cursor walk over as many values)."""
    raw = PlainLmdb(plain)
    with relaxed(path) as store:
        found = alternate(rounds, lambda _: [read(store)], lambda _: [seconds(raw.walk)])
    raw.close()
    return found


def _walk(store: chronicle.Store, events: int) -> float:
    branch = store.branch()
    return seconds(lambda: deque(branch.events(), maxlen=0))


def _walk_payloads(store: chronicle.Store, events: int) -> float:
    branch = store.branch()
    return seconds(lambda: deque((event.payload for event in branch.events()), maxlen=0))


def _replay_slot(store: chronicle.Store, slot: str, events: int) -> float:
    found = store.branch().replay(slot)
    if not found.equal or found.events != events:
        raise AssertionError(f"replay did not give the stored state: {found}")
    return found.seconds


def _replay(store: chronicle.Store, events: int) -> float:
    return _replay_slot(store, SLOT, events)


def _replay_typed(store: chronicle.Store, events: int) -> float:
    store.register_event(TYPED, Message)
    store.register_state(TYPED_SLOT, reducer=Counting(), types=(TYPED,))
    return _replay_slot(store, TYPED_SLOT, events)


def _measured(session: Session, path: Path, plain: Path, events: int, read: Read, note: str = "") -> Measured:
    rounds = session.pick(11, 5) if events < MILLION else 3
    ours, raw = beside_walk(session, path, plain, lambda store: read(store, events), rounds)
    return Measured.rate(ours, events, raw, _WALK, note)


@figure("walk all events, decoded", RATE, at_least(1_500_000, RATE))
def walk(session: Session) -> Measured:
    path, plain = session.one_by_one(EVENTS), session.plain(EVENTS)
    with relaxed(path) as store:
        with_payloads = median(_walk_payloads(store, EVENTS) for _ in range(session.pick(5, 3)))
    note = f"{EVENTS / with_payloads:,.0f} events/s when every payload is decoded too (it is lazy)"
    return _measured(session, path, plain, EVENTS, _walk, note)


@figure("replay into an append_log", RATE, at_least(800_000, RATE))
def replay(session: Session) -> Measured:
    note = "the content hash of the state included"
    return _measured(session, session.one_by_one(EVENTS), session.plain(EVENTS), EVENTS, _replay, note)


@figure("replay into a custom reducer with a typed payload", RATE, at_least(350_000, RATE))
def replay_typed(session: Session) -> Measured:
    return _measured(session, session.typed(EVENTS), session.plain(EVENTS), EVENTS, _replay_typed)


def _built_in(kind: str) -> None:
    @figure(f"replay into a {kind}", RATE)
    def replay_kind(session: Session) -> Measured:
        events = session.pick(EVENTS, EVENTS // 10)
        path = session.operations(kind, events)
        plain = session.plain(events)
        return _measured(session, path, plain, events, lambda store, n: _replay_slot(store, kind, n))


for _kind in ("value", "tree", "document"):
    _built_in(_kind)


def _of_size(events: int, name: str, read: Read, typed: bool, must: Must) -> None:
    """Registers a figure on a batched store; `quick` has none of a million."""

    @figure(f"{name}, {events:,} events", RATE, must)
    def of_size(session: Session) -> Measured:
        size = min(events, session.pick(MILLION, EVENTS))
        path = session.typed(size) if typed else session.batched(size)
        note = "" if size == events else f"quick: {size:,} events"
        return _measured(session, path, session.plain_batched(size), size, read, note)


_of_size(MILLION, "walk", _walk, False, at_least(2_000_000, RATE))
for _events in (1_000, 10_000, MILLION):
    _must = at_least(1_000_000, RATE) if _events == MILLION else SHOWN
    _of_size(_events, "replay into an append_log", _replay, False, _must)
    _of_size(_events, "replay into a custom reducer", _replay_typed, True, SHOWN)
