"""What a harness returns, and how it tells how far it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

Progress = Callable[[int, int], None]
"""Called with (done, total)."""

SHOWN = 20  # faults that a result names; all are counted


class Result(msgspec.Struct, frozen=True):
    """What a harness found: how many cases it tried, and how many went wrong."""

    name: str
    cases: int
    wrong: int
    details: tuple[str, ...] = ()  # the first of what went wrong, one line or more each
    seed: int = 0
    seconds: float = 0.0
    figures: Mapping[str, Any] = {}  # by the harness: what the cases were


def result(
    name: str, cases: int, problems: list[str], seed: int, seconds: float, figures: Mapping[str, Any] | None = None
) -> Result:
    """The result of a run in which these problems came up."""
    return Result(name, cases, len(problems), tuple(problems[:SHOWN]), seed, round(seconds, 1), figures or {})


def silent(done: int, total: int) -> None:
    """A progress that nobody watches."""
