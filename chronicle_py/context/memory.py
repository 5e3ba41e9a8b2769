"""`Memory`: the reducer behind the memory slot, which carries what a namespace keeps beside the messages. Pure.

Summaries, adoptions, pins and head resets carry this slot, and every strategy of the namespace folds them, so that they
are kept when the strategy or its configuration changes. The slot's own state says which summaries are there, by key.
"""

from __future__ import annotations

from typing import Final

import msgspec

from chronicle_py.collections import Map
from chronicle_py.context.payloads import (
    ADOPT,
    HEAD_RESET,
    PIN,
    SUMMARY,
    UNPIN,
    HeadResetPayload,
    PinPayload,
    SummaryPayload,
    UnpinPayload,
)
from chronicle_py.event import Event

EVENT_TYPES: Final = {
    SUMMARY: SummaryPayload,
    ADOPT: SummaryPayload,
    PIN: PinPayload,
    UNPIN: UnpinPayload,
    HEAD_RESET: HeadResetPayload,
}
"""What a store is told of the payloads of the memory slot's events."""

_KEY_BYTES = 256  # a Map's longest key


class MemoryState(msgspec.Struct, frozen=True):
    """The summaries of a branch at one sequence."""

    keys: Map[int] = msgspec.field(default_factory=Map[int])  # key -> sequence of its first summary event

    def has(self, key: str) -> bool:
        """Whether a summary of this key was recorded on the branch, standing or not. O(log n)."""
        return key in self.keys


class _Key(msgspec.Struct, frozen=True, gc=False):
    key: str


_decode = msgspec.msgpack.Decoder(_Key).decode


class Memory:
    """The reducer. See the module."""

    name = "memory"
    version = 1

    def initial(self) -> MemoryState:
        return MemoryState()

    def fold(self, state: MemoryState, event: Event) -> MemoryState:
        if event.type != SUMMARY and event.type != ADOPT:
            return state
        try:
            key = _decode(event.raw).key
        except msgspec.MsgspecError:
            return state
        if not 0 < len(key.encode("utf-8", "replace")) <= _KEY_BYTES or key in state.keys:
            return state  # the first one of a key counts
        return MemoryState(state.keys.set(key, event.seq))
