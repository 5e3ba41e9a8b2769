"""The fold of `Autobiographical`: which event changes what. Pure.

It is total: an event that does not apply changes nothing.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec
from blake3 import blake3
from msgspec.structs import replace

from chronicle_py.collections import Map
from chronicle_py.context.payloads import (
    ADOPT,
    EDIT,
    HEAD_RESET,
    MESSAGE,
    PIN,
    REMOVE,
    SUMMARY,
    UNPIN,
    Call,
    EditFacts,
    Facts,
    HeadResetPayload,
    PinPayload,
    RemovePayload,
    SummaryPayload,
    UnpinPayload,
)
from chronicle_py.event import Event, event_type
from chronicle_py.strategies.autobiographical.chunks import (
    Rule,
    advance,
    chunk_at,
    come_due,
    dequeue,
    drop_chunk,
    enqueue,
    settle,
)
from chronicle_py.strategies.autobiographical.line import place
from chronicle_py.strategies.autobiographical.memories import chunk_rows, take_in, take_in_merge, void_chunk
from chronicle_py.strategies.autobiographical.protection import pinned, unpinned
from chronicle_py.strategies.autobiographical.state import Head, State
from chronicle_py.strategies.pairs import answered, follow
from chronicle_py.strategies.transcript import (
    changed_row,
    edit_facts,
    message_facts,
    removal,
    weight_of,
)

_GONE = 256  # removed results of a tool that are remembered
_LONGEST_NAME = 64  # characters; a character has at most 4 bytes


class FoldRule(Rule, Protocol):
    """What the fold needs to know of the configuration."""

    @property
    def hierarchical(self) -> bool: ...
    @property
    def tool_result_max_last_n(self) -> int | dict[str, int] | None: ...

    def phase_of(self, facts: Facts, last: int) -> tuple[int, int]:
        """The phase of a message, and the last phase of tools after it."""
        ...


_DECODE: dict[str, Any] = {
    kind: event_type(kind, struct).decoder.decode
    for kind, struct in (
        (SUMMARY, SummaryPayload),
        (ADOPT, SummaryPayload),
        (PIN, PinPayload),
        (UNPIN, UnpinPayload),
        (HEAD_RESET, HeadResetPayload),
    )
}


def fold(state: State, event: Event, rule: FoldRule) -> State:
    """The state after one more event. O(1) amortised for a message, O(log n) for what changes one."""
    kind = event.type
    if kind == MESSAGE:
        facts = message_facts(event)
        return state if facts is None else _added(state, event, facts, rule)
    if kind == EDIT:
        change = edit_facts(event)
        return state if change is None else _edited(state, event, change, rule)
    if kind == REMOVE:
        cut = removal(event)
        return state if cut is None else _removed(state, cut, rule)
    decode = _DECODE.get(kind)
    if decode is None:
        return state
    try:
        payload = decode(event.raw)
    except msgspec.MsgspecError:
        return state
    after = _remembered(state, event, payload, rule)
    same = after.frontier == state.frontier and after.guards is state.guards and after.head is state.head
    return after if same else advance(after, rule)


def _added(state: State, event: Event, facts: Facts, rule: FoldRule) -> State:
    phase, last_phase = rule.phase_of(facts, state.last_phase)
    ranks: tuple[int, ...] = ()
    tools = state.tools
    if facts.answers and rule.tool_result_max_last_n is not None:
        ranks, tools = _ranked(state, facts)
    messages = state.messages.added(event, facts, phase, ranks)
    total = state.total + weight_of(facts)
    state = State(
        messages, total, state.due, state.next, state.frontier, state.chunks, state.spans, state.memories,
        state.queue, state.levels, state.pins, state.guards, state.head, tools, last_phase, state.gone,
    )  # fmt: skip
    return come_due(state, rule) if total >= state.due else state


def _ranked(state: State, facts: Facts) -> tuple[tuple[int, ...], Any]:
    """The rank of each answer among the results of its tool, and the counts after them."""
    tools, ranks = state.tools, []
    for name in answered(state.messages.open, facts.answers):
        rank = 0
        if name is not None:
            rank = results_of(tools, name) + 1
            tools = tools.set(tool_key(name), rank)
        ranks.append(rank)
    return tuple(ranks), tools


def _forgotten(state: State, start: int, stop: int) -> Map[tuple[int, ...]]:
    """The ranks of removed results, with those of the messages of [start, stop)."""
    gone, messages = state.gone, state.messages
    for index, rows in messages.units(messages.unit_start(start), stop):
        open: tuple[Call, ...] = ()
        for at, row in enumerate(rows, index):
            if at >= start:
                for name, rank in zip(answered(open, row.answers), row.ranks, strict=False):
                    if name is not None and rank:
                        known = gone.get(tool_key(name), ())
                        gone = gone.set(tool_key(name), tuple(sorted({*known, rank})[-_GONE:]))
            _, open = follow(open, row.calls, row.answers)
    return gone


def removed_results(gone: Map[tuple[int, ...]], name: str) -> tuple[int, ...]:
    """The ranks of the results of a tool that were removed, the newest of them, in order."""
    return gone.get(tool_key(name), ())


def tool_key(name: str) -> str:
    """A tool's name as the key of a map, which has at most 256 bytes."""
    return name if len(name) <= _LONGEST_NAME else blake3(name.encode()).hexdigest()


def results_of(tools: Any, name: str) -> int:
    """How many results of a tool there were so far."""
    count: int = tools.get(tool_key(name), 0)
    return count


def _edited(state: State, event: Event, change: EditFacts, rule: FoldRule) -> State:
    messages = state.messages
    index = messages.at(change.seq)
    if index is None:
        return state
    old, stop = messages.rows[index], messages.unit_end(index)
    phase, _ = rule.phase_of(change, old.phase)
    ranks = old.ranks if len(change.answers) == len(old.answers) else ()
    new = changed_row(old, event, change, phase, ranks)
    state = replace(state, messages=messages.edited(index, new), total=state.total + new.tokens - old.tokens)
    number = chunk_at(state, change.seq)
    if number is not None:
        state = void_chunk(state, number)
        state = _recounted(state, number)
    return _mended(state, rule, index, stop)


def _removed(state: State, cut: RemovePayload, rule: FoldRule) -> State:
    messages = state.messages
    start, stop = messages.index_of(cut.first_seq), messages.index_of(cut.last_seq + 1)
    if start >= stop:
        return state
    lost, end = messages.offset(stop) - messages.offset(start), messages.unit_end(stop - 1)
    if rule.tool_result_max_last_n is not None:
        state = replace(state, gone=_forgotten(state, start, stop))
    touched = []
    at = max(0, place(state.spans, messages.rows[start].seq + 1) - 1)
    while at < len(state.spans) and (span := state.spans[at]).first <= cut.last_seq:
        if span.last >= cut.first_seq and span.chunk not in touched:
            touched.append(span.chunk)
        at += 1
    state = replace(state, messages=messages.removed(start, stop), total=state.total - lost)
    for number in touched:
        state = void_chunk(state, number)
        state = _recounted(state, number)
    return _mended(state, rule, start, end - (stop - start))


def _recounted(state: State, number: int) -> State:
    """With the size of a queued chunk as its messages stand now; without the chunk where none does."""
    chunk = state.chunks[number]
    rows = chunk_rows(state, chunk)
    if not rows:
        return drop_chunk(state, number)
    tokens = sum([row.tokens for row in rows])
    state = dequeue(state, number, chunk.first)
    chunk = replace(chunk, messages=len(rows), tokens=tokens)
    return enqueue(replace(state, chunks=state.chunks.set(number, chunk)), number)


def _mended(state: State, rule: FoldRule, index: int, stop: int) -> State:
    """After a change at an index: what it freed is assigned, for pairs and with them protection may have changed up to
    `stop`, where the pair ended that stood there."""
    messages = state.messages
    if state.guards and len(messages):
        at = min(index, len(messages) - 1)
        state = settle(state, rule, max(0, at - 1), max(stop, messages.unit_end(at)))
    return advance(state, rule)


def _remembered(state: State, event: Event, payload: Any, rule: FoldRule) -> State:
    """After an event of the memory slot."""
    if isinstance(payload, SummaryPayload):
        if payload.level == 1:
            return take_in(state, rule, event, payload)
        return take_in_merge(state, event, payload) if rule.hierarchical else state
    if isinstance(payload, PinPayload):
        return pinned(state, event, payload)
    if isinstance(payload, UnpinPayload):
        return unpinned(state, rule, payload.pin_seq)
    return _reset(state, payload, rule)


def _reset(state: State, payload: HeadResetPayload, rule: FoldRule) -> State:
    """With the head beginning at another message: what stands before it is closed, in chunks of any size at the end."""
    messages, old = state.messages, state.head
    index = messages.at(payload.seq)
    if index is None or payload.seq <= old.start or payload.seq < state.frontier:
        return state
    rest = messages.index_of(state.frontier)
    state = replace(state, head=Head(payload.seq), frontier=payload.seq)
    if old.end >= 0:
        state = settle(state, rule, messages.index_of(old.start), messages.index_of(old.end))
    return settle(state, rule, min(rest, index), index)
