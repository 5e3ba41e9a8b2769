"""pytest-benchmark on appending. The figures that count are those of `python -m bench`, beside their baseline."""

from __future__ import annotations

from itertools import count

import chronicle_py as chronicle
from bench.plain_lmdb import PlainLmdb
from bench.stores import BATCH, SLOT, Session, payload, relaxed
from bench.suite import Benchmark


def test_append_relaxed(benchmark: Benchmark, session: Session) -> None:
    with relaxed(session.new()) as store:
        store.register_state(SLOT, kind="append_log")
        branch = store.branch()
        log = branch.state(SLOT)
        numbers = count()
        benchmark.pedantic(lambda item: log.append(item), setup=lambda: ((payload(next(numbers)),), {}), rounds=2_000)
        assert len(log) == branch.seq == next(numbers)


def test_append_relaxed_plain_lmdb(benchmark: Benchmark, session: Session) -> None:
    raw = PlainLmdb(session.new())
    benchmark.pedantic(raw.commit, setup=lambda: (raw.entries(1)[0], {}), rounds=2_000)
    assert len(raw.values()) == raw.count
    raw.close()


def test_append_durable(benchmark: Benchmark, session: Session) -> None:
    with chronicle.open(session.new()) as store:
        store.register_state(SLOT, kind="append_log")
        branch = store.branch()
        log = branch.state(SLOT)
        numbers = count()
        benchmark.pedantic(lambda item: log.append(item), setup=lambda: ((payload(next(numbers)),), {}), rounds=300)
        assert len(log) == branch.seq == next(numbers)


def test_append_1000_in_a_transaction(benchmark: Benchmark, session: Session) -> None:
    with relaxed(session.new()) as store:
        store.register_state(SLOT, kind="append_log")
        log = store.branch().state(SLOT)
        items = [payload(i) for i in range(BATCH)]

        def transact() -> None:
            with store.transaction():
                for item in items:
                    log.append(item)

        benchmark.pedantic(transact, rounds=30)
        assert len(log) == 30 * BATCH
