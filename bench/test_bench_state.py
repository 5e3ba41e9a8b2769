"""pytest-benchmark on reading state."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest

import chronicle_py as chronicle
from bench.stores import SLOT, Session, payload, relaxed
from bench.suite import Benchmark

_EVENTS = 20_000


@pytest.fixture
def path(session: Session) -> Path:
    return session.batched(_EVENTS)


def test_state_at_cold(benchmark: Benchmark, path: Path) -> None:
    """On a newly opened store each time; opening and closing are not counted."""
    stores: list[chronicle.Store] = []

    def newly_opened() -> tuple[tuple[chronicle.Store], dict[str, Any]]:
        while stores:
            stores.pop().close()
        stores.append(relaxed(path))
        return (stores[0],), {}

    length = benchmark.pedantic(
        lambda store: len(store.branch().state(SLOT, at=_EVENTS // 2)), setup=newly_opened, rounds=200
    )
    stores.pop().close()
    assert length == _EVENTS // 2


def test_state_at_warm(benchmark: Benchmark, path: Path) -> None:
    with relaxed(path) as store:
        branch = store.branch()
        numbers = count(1)
        length = benchmark(lambda: len(branch.state(SLOT, at=next(numbers) * 37 % _EVENTS)))
        assert 0 <= length < _EVENTS


def test_tail(benchmark: Benchmark, path: Path) -> None:
    with relaxed(path) as store:
        found = benchmark(store.branch().state(SLOT).tail, 20)
        assert found == [payload(i) for i in range(_EVENTS - 20, _EVENTS)]


def test_item(benchmark: Benchmark, path: Path) -> None:
    with relaxed(path) as store:
        log = store.branch().state(SLOT)
        assert benchmark(lambda: log[_EVENTS // 3]) == payload(_EVENTS // 3)


def test_length(benchmark: Benchmark, path: Path) -> None:
    with relaxed(path) as store:
        log = store.branch().state(SLOT)
        assert benchmark(log.__len__) == _EVENTS
