"""What a figure is: a name, what it must be, and the function that measures it. The list of all of them.

A measurement is a function of the `Session`, registered with the decorator `figure` under a name and a `Must`. It
returns `Measured`; whether that is good enough, and what the table says of it, follows from the `Must` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Literal, Self

import msgspec

from bench.measure import median, quartiles, spread_of_ratio
from bench.stores import Session

RATE: Final = "events/s"
PAYLOAD: Final = "× payload"
SAMPLES = 2_000  # of a figure that are kept for pytest-benchmark, evenly chosen
Quartiles = tuple[float, float]


class Must(msgspec.Struct, frozen=True):
    """A limit on the value, on its ratio to the baseline, or on how many times better than the baseline it is."""

    text: str
    limit: float | None = None
    of: Literal["value", "ratio", "gain"] = "value"
    least: bool = False

    def met(self, value: float, ratio: float | None, gain: float | None) -> bool | None:
        found = {"value": value, "ratio": ratio, "gain": gain}[self.of]
        if self.limit is None:
            return True
        if found is None:
            return None
        return found >= self.limit if self.least else found <= self.limit


SHOWN: Final = Must("")  # no limit was set
"""For a row that is there to be seen."""


def at_most(limit: float, unit: str, note: str = "") -> Must:
    return Must(f"≤ {shown(limit, unit)}{note}", limit)


def at_least(limit: float, unit: str) -> Must:
    return Must(f"≥ {shown(limit, unit)}", limit, least=True)


def at_most_times(limit: float, what: str) -> Must:
    return Must(f"≤ {limit:g} × {what}", limit, of="ratio")


def at_least_times(limit: float, what: str) -> Must:
    return Must(f"≥ {limit:g} × {what}", limit, of="ratio", least=True)


def better(times: float) -> Must:
    """So many times as fast, or as small, as the baseline."""
    text = "level or better" if times == 1 else f"≥ {times:g} × better"
    return Must(text, times, of="gain", least=True)


class Point(msgspec.Struct, frozen=True):
    """Of a growth: what is measured at size n, with its quartiles."""

    n: int
    value: float
    low: float
    high: float


class Measured(msgspec.Struct, frozen=True):
    """What a measurement returns. `baseline` is in the same unit; `beside` says what it is.

    `spread` and `baseline_spread`: the quartiles of what was measured. `ratio_spread`: those of the ratio of the two
    sides, round by round. `times`: some of the single measurements, in seconds.
    """

    value: float
    baseline: float | None = None
    beside: str = ""
    note: str = ""
    spread: Quartiles | None = None
    baseline_spread: Quartiles | None = None
    ratio_spread: Quartiles | None = None
    times: list[float] = []
    points: list[Point] = []

    def with_points(self, points: list[Point]) -> Measured:
        return msgspec.structs.replace(self, points=points)

    @classmethod
    def of(
        cls,
        ours: Iterable[float],
        scale: float,
        baseline: Iterable[float] | None = None,
        beside: str = "",
        note: str = "",
        at: Callable[[list[float]], float] = median,
    ) -> Self:
        """Of times in seconds, shown in a unit with `scale` to the second; `at`: what is quoted, the median."""
        return cls._of(list(ours), lambda s: s * scale, baseline, beside, note, at)

    @classmethod
    def rate(
        cls, ours: Iterable[float], count: float, baseline: Iterable[float] | None = None, beside: str = "",
        note: str = "",
    ) -> Self:  # fmt: skip
        """`count` things in each of these times, as a rate."""
        return cls._of(list(ours), lambda s: count / s, baseline, beside, note, median)

    @classmethod
    def _of(
        cls,
        ours: list[float],
        convert: Callable[[float], float],
        baseline: Iterable[float] | None,
        beside: str,
        note: str,
        at: Callable[[list[float]], float],
    ) -> Self:
        mine = [convert(s) for s in ours]
        others = [convert(s) for s in baseline] if baseline is not None else None
        kept = ours[:: max(1, -(-len(ours) // SAMPLES))]
        if not others:
            return cls(at(mine), None, beside, note, quartiles(mine), times=kept)
        return cls(
            at(mine), at(others), beside, note, quartiles(mine), quartiles(others), spread_of_ratio(mine, others), kept
        )


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the table. `ratio` is value by baseline; `gain` how many times better the value is than the baseline."""

    group: str
    name: str
    must: str
    unit: str
    value: float | None = None
    spread: Quartiles | None = None
    baseline: float | None = None
    baseline_spread: Quartiles | None = None
    beside: str = ""
    ratio: float | None = None
    ratio_spread: Quartiles | None = None
    gain: float | None = None
    against: str = ""  # the other library, where the baseline is one
    ok: bool | None = None  # None: not measurable here
    note: str = ""
    error: str = ""
    points: list[Point] = []  # of a growth, the sizes


class Unmeasurable(Exception):
    """This machine cannot measure the figure; the message says why."""


Measurement = Callable[[Session], Measured]


class Registered(msgspec.Struct, frozen=True):
    group: str
    name: str
    must: Must
    unit: str
    measure: Measurement
    against: str = ""

    def run(self, session: Session) -> tuple[Figure, list[float]]:
        """The row, and some single times behind it. A failure becomes a row with `error`, and stops no other."""
        row = Figure(group=self.group, name=self.name, must=self.must.text, unit=self.unit, against=self.against)
        try:
            found = self.measure(session)
        except Unmeasurable as reason:
            return msgspec.structs.replace(row, note=str(reason)), []
        except Exception as error:
            return msgspec.structs.replace(row, ok=False, error=f"{type(error).__name__}: {error}"), []
        ratio = found.value / found.baseline if found.baseline else None
        gain = ratio if ratio is None or self.unit.endswith("/s") else 1 / ratio
        row = msgspec.structs.replace(
            row, value=found.value, spread=found.spread, baseline=found.baseline, beside=found.beside, note=found.note,
            points=found.points, baseline_spread=found.baseline_spread, ratio=ratio,
            ratio_spread=found.ratio_spread, gain=gain,
            ok=self.must.met(found.value, ratio, gain),
        )  # fmt: skip
        return row, found.times


FIGURES: list[Registered] = []


def figure(
    name: str, unit: str, must: Must = SHOWN, *, group: str = "", against: str = ""
) -> Callable[[Measurement], Measurement]:
    """Registers a measurement; the table has them by module, in the order of their registration.

    `group`: the heading in the table, else the module's name. `against`: the library that the baseline is.
    """

    def register(measure: Measurement) -> Measurement:
        where = group or measure.__module__.rpartition(".")[2].replace("_", " ")
        FIGURES.append(Registered(where, name, must, unit, measure, against))
        return measure

    return register


def shown(value: float, unit: str) -> str:
    """A number with its unit, in as many digits as mean something."""
    if unit.endswith("/s") and value >= 1_000:
        return f"{round(value, -3 if value >= 10_000 else -1):,.0f} {unit}"
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"
