"""Each figure as a test on pytest-benchmark. It fails when the measurement fails, not when a limit is missed."""

from __future__ import annotations

import pytest

from bench.figure import Figure, Registered
from bench.playback import CLOCK, Benchmark
from bench.stores import Session


@pytest.mark.benchmark(timer=CLOCK)
def test_figure(entry: Registered, session: Session, rows: list[Figure], request: pytest.FixtureRequest) -> None:
    row, times = entry.run(session)
    rows.append(row)
    assert not row.error, row.error
    if times:
        benchmark: Benchmark = request.getfixturevalue("benchmark")
        benchmark.group = row.group
        benchmark.extra_info.update(value=row.value, unit=row.unit, baseline=row.baseline, ratio=row.ratio)
        CLOCK.play(benchmark, times)
