"""Figures of disk space: the size of the file, beside the bytes of the payloads in it."""

from __future__ import annotations

from pathlib import Path

from bench.figure import PAYLOAD, Measured, at_most, at_most_times, figure
from bench.stores import PAYLOAD_BYTES, Session

EVENTS = 100_000
_BESIDE = "three puts an event"


def _times_payload(path: Path) -> float:
    return path.stat().st_size / (EVENTS * PAYLOAD_BYTES)


@figure("disk, one by one", PAYLOAD, at_most(3.0, PAYLOAD))
def one_by_one(session: Session) -> Measured:
    return Measured(_times_payload(session.one_by_one(EVENTS)), _times_payload(session.plain(EVENTS)), _BESIDE)


@figure("disk, in transactions of 1,000", PAYLOAD, at_most(3.3, PAYLOAD))
def batched(session: Session) -> Measured:
    return Measured(_times_payload(session.batched(EVENTS)), _times_payload(session.plain_batched(EVENTS)), _BESIDE)


@figure("disk, 100 branches growing by turns", PAYLOAD, at_most(3.8, PAYLOAD))
def by_turns(session: Session) -> Measured:
    return Measured(_times_payload(session.by_turns(EVENTS)), _times_payload(session.plain(EVENTS)), _BESIDE)


@figure("disk, 4 n events beside n (n = 25,000)", "MB", at_most_times(4.4, "the bytes of n"))
def growth(session: Session) -> Measured:
    small, large = (session.one_by_one(n).stat().st_size / 1e6 for n in (EVENTS // 4, EVENTS))
    return Measured(large, small, "n events")
