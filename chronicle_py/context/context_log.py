"""The context log's reducer: an editable working set of entries, and how messages change those that copy them. Pure.

An entry may stand for a message: as its `copy`, `derived` from it, or `referenced`. Editing or removing a message (a
range too) changes its copies, and entries without a relation; never derived or referenced ones. The rule is in the
fold, so that it holds on every branch and at every sequence.

Entries are addressed by the sequence of the event that added them. Their content is stored once: the state says which
event holds it, the entry's own, an edit of it, or that of the message.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, Final, Literal, get_args

import msgspec

from chronicle_py.collections import List, Map
from chronicle_py.context.payloads import EDIT, REMOVE, EditFacts, RemovePayload
from chronicle_py.event import Event

LOG_ADD: Final = "context.add"
LOG_EDIT: Final = "context.edit"
LOG_REMOVE: Final = "context.remove"
LOG_CACHE: Final = "context.cache"

Relation = Literal["copy", "derived", "referenced"]
RELATIONS: Final = get_args(Relation)


class LogAddPayload(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """`context.add`."""

    participant: str
    role: str
    tokens: int
    blocks: list[Any] | None = None  # None: those of the event at `content`
    content: int = 0  # sequence of the event of the message, or of its last edit
    source: str | None = None  # id of the message
    source_seq: int = 0  # its sequence; 0: none
    relation: Relation | None = None
    cache: bool = False


class LogEditPayload(msgspec.Struct, frozen=True, kw_only=True):
    """`context.edit`: the entry added at `entry` has these blocks."""

    entry: int
    tokens: int
    blocks: list[Any]


class LogRemovePayload(msgspec.Struct, frozen=True, kw_only=True):
    """`context.remove`: the entries with first ≤ sequence ≤ last are gone."""

    first: int
    last: int


class LogCachePayload(msgspec.Struct, frozen=True, kw_only=True):
    """`context.cache`: whether a cache breakpoint stands after the entry."""

    entry: int
    cache: bool


EVENT_TYPES: Final = {
    LOG_ADD: LogAddPayload,
    LOG_EDIT: LogEditPayload,
    LOG_REMOVE: LogRemovePayload,
    LOG_CACHE: LogCachePayload,
}
"""What a store is told of the payloads of the context log."""


class LogRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An entry."""

    seq: int  # of the event that added it
    content: int  # sequence of the event that holds its blocks
    tokens: int
    participant: str
    role: str
    source: int = 0  # sequence of the message; 0: none
    relation: str | None = None
    cache: bool = False

    @property
    def follows(self) -> bool:
        """Whether it changes with its message."""
        return self.source > 0 and self.relation in (None, "copy")


class ContextLogState(msgspec.Struct, frozen=True):
    """The entries of a branch at one sequence."""

    entries: List[LogRow] = msgspec.field(default_factory=List[LogRow])  # weights: tokens
    copies: Map[None] = msgspec.field(default_factory=Map[None])  # source and entry sequence, of those that follow

    def position(self, seq: int) -> int | None:
        """The index of the entry added at a sequence; None: there is none. O(log n)."""
        at = bisect_left(self.entries, seq, key=_seq)
        return at if at < len(self.entries) and self.entries[at].seq == seq else None


_decode_add = msgspec.msgpack.Decoder(LogAddPayload).decode
_decode_edit = msgspec.msgpack.Decoder(LogEditPayload).decode
_decode_remove = msgspec.msgpack.Decoder(LogRemovePayload).decode
_decode_cache = msgspec.msgpack.Decoder(LogCachePayload).decode
_decode_message_edit = msgspec.msgpack.Decoder(EditFacts).decode
_decode_message_remove = msgspec.msgpack.Decoder(RemovePayload).decode


class ContextLogReducer:
    """The reducer. See the module. Events cost O(log n), those of messages O(log n) for each copy they change."""

    name = "context-log"
    version = 1

    def initial(self) -> ContextLogState:
        return ContextLogState()

    def fold(self, state: ContextLogState, event: Event) -> ContextLogState:
        try:
            if event.type == EDIT:
                return _message_edited(state, event) if state.copies else state
            if event.type == REMOVE:
                return _message_removed(state, event) if state.copies else state
            if event.type == LOG_ADD:
                return _added(state, event.seq, _decode_add(event.raw))
            if event.type == LOG_EDIT:
                edit = _decode_edit(event.raw)
                return _changed(state, edit.entry, content=event.seq, tokens=max(0, edit.tokens))
            if event.type == LOG_CACHE:
                mark = _decode_cache(event.raw)
                return _changed(state, mark.entry, cache=mark.cache)
            if event.type == LOG_REMOVE:
                return _removed(state, _decode_remove(event.raw))
        except msgspec.MsgspecError:
            pass  # another application's event of that type
        return state


def _seq(row: LogRow) -> int:
    return row.seq


def _copy_key(source: int, entry: int = 0) -> str:
    return f"{source:012x}{entry:012x}"


def _added(state: ContextLogState, seq: int, added: LogAddPayload) -> ContextLogState:
    content = seq if added.blocks is not None else added.content
    if not 0 < content <= seq or not 0 <= added.source_seq < seq or added.tokens < 0:
        return state
    row = LogRow(
        seq, content, added.tokens, added.participant, added.role, added.source_seq, added.relation, added.cache
    )
    copies = state.copies.set(_copy_key(row.source, seq), None) if row.follows else state.copies
    return ContextLogState(state.entries.append(row, row.tokens), copies)


def _changed(state: ContextLogState, seq: int, **changes: Any) -> ContextLogState:
    at = state.position(seq)
    if at is None:
        return state
    row = msgspec.structs.replace(state.entries[at], **changes)
    return ContextLogState(state.entries.set(at, row, row.tokens), state.copies)


def _removed(state: ContextLogState, cut: LogRemovePayload) -> ContextLogState:
    start = bisect_left(state.entries, cut.first, key=_seq)
    stop = bisect_left(state.entries, cut.last + 1, key=_seq)
    if start >= stop:
        return state
    copies = state.copies
    for row in state.entries[start:stop]:
        if row.follows:
            copies = copies.remove(_copy_key(row.source, row.seq))
    return ContextLogState(state.entries.delete(start, stop), copies)


def _message_edited(state: ContextLogState, event: Event) -> ContextLogState:
    edit = _decode_message_edit(event.raw)
    for entry in _copies(state, edit.seq, edit.seq):
        state = _changed(state, entry, content=event.seq, tokens=max(0, edit.tokens))
    return state


def _message_removed(state: ContextLogState, event: Event) -> ContextLogState:
    cut = _decode_message_remove(event.raw)
    for entry in _copies(state, cut.first_seq, cut.last_seq):
        state = _removed(state, LogRemovePayload(first=entry, last=entry))
    return state


def _copies(state: ContextLogState, first: int, last: int) -> list[int]:
    """The entries that follow the messages of these sequences."""
    if not 0 <= first <= last:
        return []
    found = state.copies.scan(start=_copy_key(first), stop=_copy_key(last + 1))
    return [int(key[12:], 16) for key, _ in found]
