"""Figures of reading whole histories: the walk, and replay."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path

import chronicle_py as chronicle
from bench.figure import RATE, Measured, at_least, figure
from bench.measure import alternate, median, seconds
from bench.plain_lmdb import PlainLmdb
from bench.stores import SLOT, TYPED, TYPED_SLOT, Counting, Message, Session, relaxed

EVENTS = 100_000
_WALK = "a cursor walk"


def _beside_walk(session: Session, path: Path, read: Callable[[chronicle.Store], float]) -> tuple[float, float]:
    """Median seconds of (`read`, which times itself; a plain cursor walk over as many values)."""
    raw = PlainLmdb(session.plain(EVENTS))
    with relaxed(path) as store:
        ours, plain = alternate(session.pick(11, 5), lambda _: [read(store)], lambda _: [seconds(raw.walk)])
    raw.close()
    return median(ours), median(plain)


def _walk(store: chronicle.Store) -> float:
    branch = store.branch()
    return seconds(lambda: deque(branch.events(), maxlen=0))


def _walk_payloads(store: chronicle.Store) -> float:
    branch = store.branch()
    return seconds(lambda: deque((event.payload for event in branch.events()), maxlen=0))


def _replay(store: chronicle.Store, slot: str) -> float:
    found = store.branch().replay(slot)
    if not found.equal or found.events != EVENTS:
        raise AssertionError(f"replay did not give the stored state: {found}")
    return found.seconds


def _replay_typed(store: chronicle.Store) -> float:
    store.register_event(TYPED, Message)
    store.register_state(TYPED_SLOT, reducer=Counting(), types=(TYPED,))
    return _replay(store, TYPED_SLOT)


@figure("walk all events, decoded", RATE, at_least(1_500_000, RATE))
def walk(session: Session) -> Measured:
    path = session.one_by_one(EVENTS)
    ours, plain = _beside_walk(session, path, _walk)
    with_payloads, _ = _beside_walk(session, path, _walk_payloads)
    note = f"{EVENTS / with_payloads:,.0f} events/s when every payload is decoded too (it is lazy)"
    return Measured(EVENTS / ours, EVENTS / plain, _WALK, note)


@figure("replay into an append_log", RATE, at_least(800_000, RATE))
def replay(session: Session) -> Measured:
    ours, plain = _beside_walk(session, session.one_by_one(EVENTS), lambda store: _replay(store, SLOT))
    return Measured(EVENTS / ours, EVENTS / plain, _WALK, "the content hash of the state included")


@figure("replay into a custom reducer with a typed payload", RATE, at_least(350_000, RATE))
def replay_typed(session: Session) -> Measured:
    ours, plain = _beside_walk(session, session.typed(EVENTS), _replay_typed)
    return Measured(EVENTS / ours, EVENTS / plain, _WALK)
