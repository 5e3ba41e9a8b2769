"""`MessageIndex`: the reducer behind the messages slot. What stands on a branch, in order, and how to find it. Pure.

The state holds references, never content: a row per message that stands, weighted by its tokens; its sequences by
participant and by external source; external ids; the system messages; whether more than one user speaks. Every event
costs O(log n), a removed range O(log n) for each message in it. A message is addressed by its sequence; where that
stands among the rows is found by interpolation, in a few probes.

Payloads are decoded here, to Structs that leave the blocks out. The fold is total: a payload of another shape, and an
edit or removal of what does not stand, change nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from chronicle_py.collections import List, Map
from chronicle_py.context.payloads import EDIT, MESSAGE, REMOVE, EditFacts, Facts, RemovePayload
from chronicle_py.context.postings import Postings, name_key
from chronicle_py.event import Event
from chronicle_py.strategies.naming import is_speaker


class Row(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A message that stands."""

    seq: int
    edit: int  # sequence of its last edit's event; 0: never edited
    tokens: int
    participant: str
    role: str
    only_answers: bool = False  # nothing but tool results
    source: str | None = None  # metadata.external.source
    external: str | None = None  # metadata.external.id


class MessageIndexState(msgspec.Struct, frozen=True):
    """The messages of a branch at one sequence."""

    entries: List[Row] = msgspec.field(default_factory=List[Row])  # by sequence; weights: tokens
    participants: Postings = Postings()
    sources: Postings = Postings()
    external: Map[None] = msgspec.field(default_factory=Map[None])  # source NUL id NUL sequence
    system: List[int] = msgspec.field(default_factory=List[int])  # sequences of system messages; weights: tokens
    edited: int = 0  # edits that applied
    removed: int = 0  # messages that were removed
    speakers: tuple[str, ...] = ()  # the first two users who said something of their own, on this branch up to here

    @property
    def tokens(self) -> int:
        """Of all messages that stand."""
        return self.entries.weight()

    def position(self, seq: int) -> int | None:
        """The index in `entries` of the message at a sequence; None: none stands there. O(log n)."""
        at = _first_from(self.entries, seq)
        return at if at < len(self.entries) and self.entries[at].seq == seq else None

    def row(self, seq: int) -> Row | None:
        """The row of the message at a sequence; None: none stands there. O(log n)."""
        at = self.position(seq)
        return None if at is None else self.entries[at]

    def first_from(self, seq: int) -> int:
        """The index of the first message whose sequence is not below `seq`. O(log n)."""
        return _first_from(self.entries, seq)

    def externals(self, source: str, id: str | int) -> Iterator[int]:
        """Sequences of the messages with this external id, oldest first. O(log n + those there are)."""
        for key, _ in self.external.scan(external_key(source, id)):
            yield int(key[-12:], 16)


def _first_from(entries: List[Row], seq: int) -> int:
    """The first index whose row's sequence is not below `seq`.

    Interpolates between the rows known on both sides, and halves where that does not bring the ends much closer.
    """
    low, high = 0, len(entries)  # entries[low - 1].seq < seq ≤ entries[high].seq
    below, above = 0, 0
    if high:
        above = entries[high - 1].seq
        if seq >= above:
            return high - 1 if seq == above else high
        high -= 1
    halve = False
    while low < high:
        if halve:
            middle = (low + high) // 2
        else:  # `low - 1` is at `below`, `high` at `above`
            middle = low - 1 + (seq - below) * (high - low + 1) // (above - below)
            middle = min(max(middle, low), high - 1)
        width = high - low
        found = entries[middle].seq
        if found == seq:
            return middle
        if found < seq:
            low, below = middle + 1, found
        else:
            high, above = middle, found
        halve = high - low > width // 2 and not halve
    return low


# --- the fold -------------------------------------------------------------------------------------------------------


class _Metadata(msgspec.Struct, frozen=True, gc=False):
    external: Any = None


class _Indexed(Facts, frozen=True, kw_only=True):
    """What the index reads of a `message`, and that the rest is of the right shape."""

    blocks: list[msgspec.Raw]
    tokenizer: str
    at: int | None = None
    metadata: _Metadata = _Metadata()


class _IndexedEdit(EditFacts, frozen=True, kw_only=True):
    blocks: list[msgspec.Raw]
    tokenizer: str


_decode_message = msgspec.msgpack.Decoder(_Indexed).decode
_decode_edit = msgspec.msgpack.Decoder(_IndexedEdit).decode
_decode_remove = msgspec.msgpack.Decoder(RemovePayload).decode


class MessageIndex:
    """The reducer. See the module."""

    name = "messages"
    version = 2

    def initial(self) -> MessageIndexState:
        return MessageIndexState()

    def fold(self, state: MessageIndexState, event: Event) -> MessageIndexState:
        try:
            if event.type == MESSAGE:
                return _added(state, event.seq, _decode_message(event.raw))
            if event.type == EDIT:
                return _edited(state, event.seq, _decode_edit(event.raw))
            if event.type == REMOVE:
                return _removed(state, _decode_remove(event.raw))
        except msgspec.MsgspecError:
            pass  # another application's event of that type
        return state


def external_of(external: Any) -> tuple[str, str] | None:
    """(source, id) of a message's `metadata["external"]`; None where it has none that can be found by."""
    if not isinstance(external, dict):
        return None
    source, id = external.get("source"), external.get("id")
    if isinstance(source, str) and source and isinstance(id, str | int) and not isinstance(id, bool) and id != "":
        return source, str(id)
    return None


def external_key(source: str, id: str | int) -> str:
    """How the keys of the messages with this external id begin."""
    return name_key(name_key(source), str(id)) + "\0"


def _weight(tokens: int) -> int:
    """A count as the weight of a list, whatever another application may have written."""
    return min(max(0, tokens), 1 << 40)


def _added(state: MessageIndexState, seq: int, message: _Indexed) -> MessageIndexState:
    tokens = _weight(message.tokens)
    external = message.metadata.external
    source = id = None
    sources, ids, system = state.sources, state.external, state.system
    if external is not None and (found := external_of(external)) is not None:
        source, id = found
        sources = sources.add(source, seq)
        ids = ids.set(f"{external_key(source, id)}{seq:012x}", None)
    if message.role == "system":
        system = system.append(seq, tokens)
    speakers = _heard(state.speakers, message.participant, message.role, message.only_answers)
    row = Row(seq, 0, tokens, message.participant, message.role, message.only_answers, source, id)
    return MessageIndexState(
        state.entries.append(row, tokens),
        state.participants.add(message.participant, seq),
        sources,
        ids,
        system,
        state.edited,
        state.removed,
        speakers,
    )


def _heard(speakers: tuple[str, ...], participant: str, role: str, only_answers: bool) -> tuple[str, ...]:
    """Who has spoken after this message. A speaker stays one when the messages go: what is asked is whether names have
    to be reckoned with, and to know that none has would take a count of every name."""
    if len(speakers) < 2 and participant not in speakers and is_speaker(participant, role, only_answers):
        return (*speakers, participant)
    return speakers


def _edited(state: MessageIndexState, seq: int, edit: EditFacts) -> MessageIndexState:
    at = state.position(edit.seq)
    if at is None:
        return state
    tokens = _weight(edit.tokens)
    old = state.entries[at]
    row = Row(old.seq, seq, tokens, old.participant, old.role, edit.only_answers, old.source, old.external)
    system = state.system
    if old.role == "system":
        system = system.set(_place(system, old.seq), old.seq, tokens)
    speakers = _heard(state.speakers, old.participant, old.role, edit.only_answers)
    entries = state.entries.set(at, row, tokens)
    return msgspec.structs.replace(state, entries=entries, system=system, edited=state.edited + 1, speakers=speakers)


def _removed(state: MessageIndexState, cut: RemovePayload) -> MessageIndexState:
    start = _first_from(state.entries, cut.first_seq)
    stop = _first_from(state.entries, cut.last_seq + 1)
    if start >= stop:
        return state
    participants, sources, ids, system = state.participants, state.sources, state.external, state.system
    for row in state.entries[start:stop]:
        participants = participants.remove(row.participant, row.seq)
        if row.source is not None and row.external is not None:
            sources = sources.remove(row.source, row.seq)
            ids = ids.remove(f"{external_key(row.source, row.external)}{row.seq:012x}")
        if row.role == "system":
            place = _place(system, row.seq)
            system = system.delete(place, place + 1)
    entries = state.entries.delete(start, stop)
    removed = state.removed + stop - start
    return MessageIndexState(entries, participants, sources, ids, system, state.edited, removed, state.speakers)


def _place(sequences: List[int], seq: int) -> int:
    """The index of a sequence that is there. O(log n)."""
    low, high = 0, len(sequences)
    while low < high:
        middle = (low + high) // 2
        if sequences[middle] < seq:
            low = middle + 1
        else:
            high = middle
    return low
