"""pytest-benchmark on forking."""

from __future__ import annotations

from itertools import count

from bench.stores import SLOT, Session, relaxed
from bench.suite import Benchmark

_EVENTS = 20_000


def test_fork_at_the_middle(benchmark: Benchmark, session: Session) -> None:
    with relaxed(session.copy(session.batched(_EVENTS))) as store:
        main = store.branch()
        numbers = count()
        fork = benchmark.pedantic(main.fork, setup=lambda: ((f"fork-{next(numbers)}", _EVENTS // 2), {}), rounds=500)
        assert len(fork.state(SLOT)) == fork.seq == _EVENTS // 2


def test_fork_and_first_append(benchmark: Benchmark, session: Session) -> None:
    with relaxed(session.copy(session.batched(_EVENTS))) as store:
        main = store.branch()
        numbers = count()

        def branch_off(name: str) -> None:
            main.fork(name, _EVENTS // 2).state(SLOT).append({"role": "user", "content": name})

        benchmark.pedantic(branch_off, setup=lambda: ((f"fork-{next(numbers)}",), {}), rounds=500)
        assert store.branch("fork-7").state(SLOT)[-1]["content"] == "fork-7"
