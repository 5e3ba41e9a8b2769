"""How times that were measured in alternating rounds come to pytest-benchmark.

pytest-benchmark times one function, and the figures need two sides in turns. So a figure measures itself, and its
times are played back to pytest-benchmark through its clock: there they can be stored and compared between two commits
(`--benchmark-autosave`, `--benchmark-compare`). Nothing is measured twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Benchmark(Protocol):
    """What is used of pytest-benchmark's fixture."""

    group: str | None
    extra_info: dict[str, Any]

    def pedantic(self, target: Callable[..., object], *, rounds: int = 1) -> object:
        """Times the function so many times."""
        ...


class Playback:
    """A clock that is read before and after each round, and has then gone on by the next of the recorded times."""

    def __init__(self) -> None:
        self._steps: list[float] = []
        self._reads = 0
        self._now = 0.0

    def __call__(self) -> float:
        if self._reads % 2:
            self._now += self._steps[self._reads // 2]
        self._reads += 1
        return self._now

    def play(self, benchmark: Benchmark, times: list[float]) -> None:
        self._steps, self._reads = times, 0
        benchmark.pedantic(lambda: None, rounds=len(times))


CLOCK = Playback()
