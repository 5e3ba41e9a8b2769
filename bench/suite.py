"""What the pytest-benchmark suites use of its `benchmark` fixture, with types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


class Benchmark(Protocol):
    def __call__(self, function: Callable[..., T], *args: Any) -> T:
        """Times the function as often as is worth while; returns its last result."""
        ...

    def pedantic(self, target: Callable[..., T], *, setup: Callable[[], Arguments] | None = None, rounds: int = 1) -> T:
        """Times the function so many times, on the arguments that `setup` makes outside the timed part."""
        ...
