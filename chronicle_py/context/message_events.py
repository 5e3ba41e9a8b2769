"""Reading what lies behind messages: the events of a history, and the states of slots at its head.

A `Head` is a position, not a branch: what lies below it never changes, so that everything read through one belongs
together however the branch moves meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from chronicle_py.branches import position_of, read_ref
from chronicle_py.context.message_index import Row
from chronicle_py.event import Event
from chronicle_py.kv import Reader

if TYPE_CHECKING:
    from chronicle_py.engine import Engine

_GAP = 16  # unwanted events between two wanted ones that are rather read than skipped


class Head(NamedTuple):
    """Where a history ends."""

    lineage: int
    seq: int
    key: bytes  # id of the event there; b"" at 0


def head_of(engine: Engine, reader: Reader, branch: str, at: int | str | Event | None = None) -> Head:
    """The head of a branch, or the place of a sequence or event id on it. NotFound where there is none."""
    ref = read_ref(reader, branch)
    if at is None:
        return Head(ref.lineage, ref.seq, ref.key)
    return Head(*position_of(engine, reader, ref, branch, at))


def state_at(engine: Engine, reader: Reader, head: Head, slot: str) -> Any:
    """The state of a custom slot at a head: the one that is remembered, not to be changed. O(log n + K)."""
    return engine.checkpoints.state(reader, head.lineage, head.seq, engine.slots.table(reader).get(slot))


def read_rows(engine: Engine, reader: Reader, head: Head, rows: Sequence[Row]) -> list[tuple[Event, Event | None]]:
    """The `message` event of each row and the last edit of it, by as few walks over the log as pay."""
    wanted = sorted({row.seq for row in rows} | {row.edit for row in rows if row.edit})
    found: dict[int, Event] = {}
    for first, last in _runs(wanted):
        for _, events in engine.log.batches(reader, head.lineage, first, last):
            for event in events:
                found[event.seq] = event
    return [(found[row.seq], found[row.edit] if row.edit else None) for row in rows]


def events_between(engine: Engine, reader: Reader, head: Head, after: int) -> Iterator[Event]:
    """The events after a sequence, up to the head."""
    for _, events in engine.log.batches(reader, head.lineage, after + 1, head.seq):
        yield from events


def _runs(wanted: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Stretches that hold all of these ascending sequences."""
    first = last = 0
    for seq in wanted:
        if not first:
            first = seq
        elif seq - last > _GAP:
            yield first, last
            first = seq
        last = seq
    if first:
        yield first, last
