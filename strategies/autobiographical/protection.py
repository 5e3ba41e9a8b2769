"""Pins and documents: ranges of messages that are never compressed. Pure.

The ranges are kept as they were given; the sequences that they cover, joined where they overlap, are what folds and
renders ask. A range protects whole pairs, worked out when it is asked, for an edit may change what belongs together.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from msgspec.structs import replace

from chronicle_py.context.payloads import PinPayload
from chronicle_py.errors import InvalidOperation
from chronicle_py.event import Event
from chronicle_py.strategies.autobiographical.chunks import Rule, settle
from chronicle_py.strategies.autobiographical.state import Pin, State
from chronicle_py.strategies.strategy import ProtectedRange


def pinned(state: State, event: Event, pin: PinPayload) -> State:
    """With one more protected range."""
    if pin.first_seq > pin.last_seq:
        return state
    new = Pin(
        event.seq, event.key, pin.first, pin.first_seq, pin.last, pin.last_seq, pin.kind, pin.name, event.time
    )  # fmt: skip
    guards = _with(state.guards, pin.first_seq, pin.last_seq)
    return replace(state, pins=state.pins.append(new), guards=guards)


def unpinned(state: State, rule: Rule, seq: int) -> State:
    """Without the range that the event at a sequence protected; its messages may be compressed again."""
    found = next((at for at, pin in enumerate(state.pins) if pin.seq == seq), None)
    if found is None:
        return state
    pin = state.pins[found]
    pins = state.pins.delete(found, found + 1)
    state = replace(state, pins=pins, guards=_joined([(pin.first_seq, pin.last_seq) for pin in pins]))
    messages = state.messages
    start, stop = messages.index_of(pin.first_seq), messages.index_of(pin.last_seq + 1)
    if start >= stop:
        return state
    return settle(state, rule, start, messages.unit_from(stop))


def _with(guards: tuple[tuple[int, int], ...], first: int, last: int) -> tuple[tuple[int, int], ...]:
    """The guards with one more range, joined with those that it overlaps or touches."""
    start = bisect_left(guards, first - 1, key=_last)
    stop = start
    while stop < len(guards) and guards[stop][0] <= last + 1:
        first, last = min(first, guards[stop][0]), max(last, guards[stop][1])
        stop += 1
    return (*guards[:start], (first, last), *guards[stop:])


def _last(guard: tuple[int, int]) -> int:
    return guard[1]


def _joined(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Ranges in order, those that overlap as one."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return tuple(found)


def protected_units(state: State) -> list[tuple[int, int]]:
    """Index ranges of the messages that are protected, whole pairs, in order. O(ranges · log n)."""
    messages = state.messages
    found: list[tuple[int, int]] = []
    for first, last in state.guards:
        start, stop = messages.index_of(first), messages.index_of(last + 1)
        if start >= stop:
            continue
        start, stop = messages.unit_start(start), messages.unit_from(stop)
        if found and start <= found[-1][1]:
            start = found.pop()[0]
        found.append((start, stop))
    return found


def ranges(state: State) -> list[ProtectedRange]:
    """The protected ranges, in the order they were made."""
    return [
        ProtectedRange(
            pin.key.hex(), pin.first, pin.last, pin.first_seq, pin.last_seq, pin.kind, pin.name, pin.created
        )
        for pin in state.pins
    ]  # fmt: skip


def check(state: State, pin: PinPayload) -> None:
    """InvalidOperation unless the range runs from one message that stands to the same or a later one."""
    for which, id, seq in (("first", pin.first, pin.first_seq), ("last", pin.last, pin.last_seq)):
        if state.messages.at(seq) is None:
            raise InvalidOperation(
                f"the {which} message of the range to protect, {id[:12]} at sequence {seq}, is not among the messages "
                "that stand; system messages need no protection, and one that was removed can have none"
            )
    if pin.first_seq > pin.last_seq:
        raise InvalidOperation(
            f"the range to protect runs backward, from sequence {pin.first_seq} to {pin.last_seq}; swap first and last"
        )
