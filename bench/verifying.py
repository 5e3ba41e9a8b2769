"""Figures of verify, shallow and deep."""

from __future__ import annotations

from blake3 import blake3

from bench.figure import RATE, SHOWN, Measured, Must, at_least, figure
from bench.measure import alternate, seconds
from bench.plain_lmdb import PlainLmdb
from bench.stores import Session, relaxed

_BESIDE = "all values hashed once"
SMALL, LARGE = 100_000, 1_000_000


def _verify(session: Session, events: int, deep: bool) -> Measured:
    raw = PlainLmdb(session.plain_batched(events))

    def hashed() -> None:
        for value in raw.values():
            blake3(value).digest()

    with relaxed(session.batched(events)) as store:

        def ours(_: int) -> list[float]:
            reports = []
            taken = seconds(lambda: reports.append(store.verify(deep=deep)))
            if not reports[0].ok or reports[0].checked["events"] != events:
                raise AssertionError(f"verify found {reports[0].problems[:1]}")
            return [taken]

        found = alternate(2 if events == LARGE else session.pick(5, 2), ours, lambda _: [seconds(hashed)])
    raw.close()
    return Measured.rate(found[0], events, found[1], _BESIDE)


def _figure(events: int, deep: bool, must: Must) -> None:
    @figure(f"{'deep verify' if deep else 'verify'}, {events:,} events", RATE, must)
    def verify(session: Session) -> Measured:
        return _verify(session, min(events, session.pick(events, 30_000)), deep)


_figure(SMALL, False, SHOWN)
_figure(SMALL, True, SHOWN)
_figure(LARGE, False, SHOWN)
_figure(LARGE, True, at_least(200_000, RATE))
