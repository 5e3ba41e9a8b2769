"""What a figure is: a name, what it must be, and the function that measures it. The list of all of them.

A measurement is a function of the `Session`, registered with the decorator `figure` under a name and a `Must`. It
returns `Measured`; whether that is good enough, and what the table says of it, follows from the `Must` alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

import msgspec

from bench.stores import Session

RATE: Final = "events/s"
PAYLOAD: Final = "× payload"


class Must(msgspec.Struct, frozen=True):
    """A limit on the value or on its ratio to the baseline. Without one, the measurement itself decides."""

    text: str
    limit: float | None = None
    of: Literal["value", "ratio"] = "value"
    least: bool = False

    def met(self, value: float, ratio: float | None) -> bool | None:
        found = value if self.of == "value" else ratio
        if self.limit is None:
            return True
        if found is None:
            return None
        return found >= self.limit if self.least else found <= self.limit


def at_most(limit: float, unit: str, note: str = "") -> Must:
    return Must(f"≤ {shown(limit, unit)}{note}", limit)


def at_least(limit: float, unit: str) -> Must:
    return Must(f"≥ {shown(limit, unit)}", limit, least=True)


def at_most_times(limit: float, what: str) -> Must:
    return Must(f"≤ {limit:g} × {what}", limit, of="ratio")


def at_least_times(limit: float, what: str) -> Must:
    return Must(f"≥ {limit:g} × {what}", limit, of="ratio", least=True)


class Measured(msgspec.Struct, frozen=True):
    """What a measurement returns. `baseline` is in the same unit; `beside` says what it is."""

    value: float
    baseline: float | None = None
    beside: str = ""
    note: str = ""


class Figure(msgspec.Struct, frozen=True):
    """A row of the table."""

    name: str
    must: str
    unit: str
    value: float | None
    baseline: float | None
    beside: str
    ratio: float | None
    ok: bool | None  # None: not measurable here
    note: str = ""
    error: str = ""


class Unmeasurable(Exception):
    """This machine cannot measure the figure; the message says why."""


Measurement = Callable[[Session], Measured]


class Registered(msgspec.Struct, frozen=True):
    name: str
    must: Must
    unit: str
    measure: Measurement

    def run(self, session: Session) -> Figure:
        """Measures. A failure becomes a row with `error`, and does not stop the others."""
        try:
            found = self.measure(session)
        except Unmeasurable as reason:
            return Figure(self.name, self.must.text, self.unit, None, None, "", None, None, str(reason))
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            return Figure(self.name, self.must.text, self.unit, None, None, "", None, False, error=text)
        ratio = found.value / found.baseline if found.baseline else None
        ok = self.must.met(found.value, ratio)
        return Figure(
            self.name, self.must.text, self.unit, found.value, found.baseline, found.beside, ratio, ok, found.note
        )


FIGURES: list[Registered] = []


def figure(name: str, unit: str, must: Must) -> Callable[[Measurement], Measurement]:
    """Registers a measurement; the table has them in the order of their registration."""

    def register(measure: Measurement) -> Measurement:
        FIGURES.append(Registered(name, must, unit, measure))
        return measure

    return register


def shown(value: float, unit: str) -> str:
    """A number with its unit, in as many digits as mean something."""
    if unit == RATE:
        return f"{round(value, -3 if value >= 10_000 else -1):,.0f} {unit}"
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"
