"""pytest-benchmark on reading a whole history."""

from __future__ import annotations

from bench.stores import SLOT, TYPED, TYPED_SLOT, Counting, Message, Session, relaxed
from bench.suite import Benchmark

_EVENTS = 20_000


def test_walk(benchmark: Benchmark, session: Session) -> None:
    with relaxed(session.batched(_EVENTS)) as store:
        branch = store.branch()
        assert benchmark(lambda: sum(1 for _ in branch.events())) == _EVENTS


def test_replay_append_log(benchmark: Benchmark, session: Session) -> None:
    with relaxed(session.batched(_EVENTS)) as store:
        found = benchmark(store.branch().replay, SLOT)
        assert (found.events, found.equal) == (_EVENTS, True)


def test_replay_custom_reducer(benchmark: Benchmark, session: Session) -> None:
    with relaxed(session.typed(_EVENTS)) as store:
        store.register_event(TYPED, Message)
        store.register_state(TYPED_SLOT, reducer=Counting(), types=(TYPED,))
        found = benchmark(store.branch().replay, TYPED_SLOT)
        assert (found.events, found.equal) == (_EVENTS, True)
        assert store.branch().state(TYPED_SLOT).get().messages == _EVENTS
