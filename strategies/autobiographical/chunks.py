"""Closing chunks: which messages become one, and when. Pure.

The middle is gone through from left to right, by whole pairs. `grow` says where the next chunk ends; it closes when all
of it has left the recent window. How many tokens there must be for that is known beforehand (`State.due`), so that a
message costs one comparison until then, and each chunk is looked at twice. A closed chunk never changes when messages
are added. Behind the frontier no message stays unassigned: what becomes free there (`settle`) joins the unfinished rest
where it touches it, else it forms chunks of any size.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Protocol

from msgspec.structs import replace

from chronicle_py.strategies.autobiographical.line import insert, place
from chronicle_py.strategies.autobiographical.state import Chunk, Draft, Head, Queued, Span, State
from chronicle_py.strategies.transcript import Row
from chronicle_py.strategies.windows import head_end, recent_start


class Rule(Protocol):
    """What closing chunks needs to know of the configuration."""

    @property
    def head_window_tokens(self) -> int: ...
    @property
    def recent_window_tokens(self) -> int: ...
    @property
    def attachments_ignore_size(self) -> bool: ...

    def full(self, messages: int, size: int, phase: int) -> bool:
        """Whether a chunk of so many messages and tokens is one."""
        ...

    def parted(self, messages: int, phase: int, next: int) -> bool:
        """Whether a chunk of so many messages ends because the next message has another phase."""
        ...

    def missing(self, size: int) -> int:
        """Tokens that must at least come in before a chunk of `size` tokens can be one."""
        ...

    def phase_name(self, phase: int) -> str: ...


def grow(state: State, rule: Rule, start: int, stop: int) -> Draft:
    """The next chunk of the messages in [start, stop), closed or not. Protected messages are no part of it."""
    ignore, guards = rule.attachments_ignore_size, state.guards
    begin, end, last = -1, start, start
    messages = size = tokens = phase = 0
    spans: list[tuple[int, int]] = []
    apart = closed = True
    for index, rows in state.messages.units(start, stop):
        if guards and guarded(guards, rows):
            apart = True
            continue
        new = rows[0].phase if len(rows) == 1 else max([row.phase for row in rows])
        if begin < 0:
            begin = index
        elif rule.parted(messages, phase, new):
            break
        phase = max(phase, new)
        messages += len(rows)
        for row in rows:
            tokens += row.tokens
            size += row.text if ignore else row.tokens
        first = rows[0].seq if apart else spans.pop()[0]
        spans.append((first, rows[-1].seq))
        apart = False
        end, last = index + len(rows), index
        if rule.full(messages, size, phase):
            break
    else:
        closed = False
    return Draft(stop if begin < 0 else begin, end, last, messages, size, tokens, phase, closed, tuple(spans))


def advance(state: State, rule: Rule) -> State:
    """Closes what can be closed, and works out when to look again."""
    messages = state.messages
    start, stop = messages.index_of(state.frontier), recent_start(messages, rule.recent_window_tokens)
    begin = head_stop = start
    if state.head.end < 0:
        head_stop = head_end(messages, head_index(state), rule.head_window_tokens)
        begin = max(start, head_stop)
    while True:
        draft = grow(state, rule, begin, len(messages))
        if not draft.closed or draft.end > stop:
            break
        if state.head.end < 0:
            state = replace(state, head=Head(state.head.start, seq_at(state, head_stop)))
        state = close(state, rule, draft)
        begin = draft.end
    reached = max(begin, min(draft.start, stop))
    if state.head.end >= 0 and reached > start:
        state = replace(state, frontier=seq_at(state, reached))
    if state.head.end < 0 and head_stop == len(messages):  # the last pair may outgrow the head
        return replace(state, due=max(state.total, rule.recent_window_tokens) + 1, next=None)
    return _looked(state, rule, draft)


def come_due(state: State, rule: Rule) -> State:
    """The same after a message was added and the tokens have reached `due`. Costs a look at each chunk that closes."""
    while state.total >= state.due:
        draft = state.next
        if draft is None or state.head.end < 0:
            return advance(state, rule)
        state = close(state, rule, draft)
        state = replace(state, frontier=seq_at(state, draft.end))
        state = _looked(state, rule, grow(state, rule, draft.end, len(state.messages)))
    return state


def _looked(state: State, rule: Rule, draft: Draft) -> State:
    """With the next chunk as it stands, and when it leaves the recent window."""
    messages = state.messages
    first = draft.last if draft.closed else draft.start
    due = messages.offset(min(first, len(messages))) + rule.recent_window_tokens + 1
    if draft.closed:  # the newest pair may still grow: what holds it is worked out again
        return replace(state, due=due, next=draft if draft.end <= messages.newest() else None)
    return replace(state, due=max(due, state.total + rule.missing(draft.size)), next=None)


def close(state: State, rule: Rule, draft: Draft) -> State:
    """With one more chunk, queued for its memory."""
    return add_chunk(state, Chunk(draft.spans, draft.messages, draft.tokens, phase=rule.phase_name(draft.phase)))


def add_chunk(state: State, chunk: Chunk) -> State:
    number, spans = len(state.chunks), state.spans
    for first, last in chunk.spans:
        spans = insert(spans, Span(first, last, number))
    state = replace(state, chunks=state.chunks.append(chunk), spans=spans)
    return enqueue(state, number)


def enqueue(state: State, number: int) -> State:
    """With a chunk queued."""
    chunk = state.chunks[number]
    return replace(state, queue=state.queue.added(Queued(chunk.first, number), chunk.tokens))


def dequeue(state: State, number: int, first: int) -> State:
    """Without a chunk, which begins at `first`, in the queue."""
    at = state.queue.place(first)
    if at < len(state.queue) and state.queue[at].chunk == number:
        return replace(state, queue=state.queue.without(at))
    return state


def drop_chunk(state: State, number: int) -> State:
    """Without a chunk that has no memory; its messages are free."""
    chunk = state.chunks[number]
    state = dequeue(state, number, chunk.first)
    spans = state.spans
    for first, _ in chunk.spans:
        at = place(spans, first)
        spans = spans.delete(at, at + 1)
    return replace(state, spans=spans, chunks=state.chunks.set(number, Chunk((), 0, 0)))


def settle(state: State, rule: Rule, start: int, stop: int) -> State:
    """Assigns the free messages of [start, stop) behind the frontier."""
    messages = state.messages
    start = messages.unit_start(start)
    for first, last in reversed(list(_free(state, start, min(stop, messages.index_of(state.frontier))))):
        frontier = messages.index_of(state.frontier)
        seq = seq_at(state, first)
        if last == frontier and seq >= max(state.head.start, state.head.end):
            state = replace(state, frontier=seq)
            continue
        while (draft := grow(state, rule, first, last)).messages:
            state = close(state, rule, draft)
            first = draft.end
    return state


def _free(state: State, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Runs of messages that belong to no chunk, not to the head, and are not all protected."""
    head, guards = state.head, state.guards
    begin, free = -1, False
    for index, rows in state.messages.units(start, stop):
        protected = guarded(guards, rows)
        for at, row in enumerate(rows, index):
            if head.start <= row.seq < head.end or chunk_at(state, row.seq) is not None:
                if free:
                    yield begin, at
                begin, free = -1, False
            else:
                begin = at if begin < 0 else begin
                free = free or not protected
    if free:
        yield begin, stop


# --- looking up -----------------------------------------------------------------------------------------------------


def guarded(guards: tuple[tuple[int, int], ...], rows: Sequence[Row]) -> bool:
    """Whether one of these messages is protected, and so the whole pair."""
    for row in rows:
        at = bisect_right(guards, row.seq, key=_first) - 1
        if at >= 0 and row.seq <= guards[at][1]:
            return True
    return False


def _first(guard: tuple[int, int]) -> int:
    return guard[0]


def head_index(state: State) -> int:
    """The index at which the head begins."""
    return state.messages.index_of(state.head.start) if state.head.start else 0


def seq_at(state: State, index: int) -> int:
    """The sequence of the message at an index, or the one after the last."""
    rows = state.messages.rows
    if index < len(rows):
        return rows[index].seq
    return rows[-1].seq + 1 if rows else 0


def chunk_at(state: State, seq: int) -> int | None:
    """The number of the chunk that the message at a sequence belongs to. O(log n)."""
    at = place(state.spans, seq + 1) - 1
    if at < 0:
        return None
    span = state.spans[at]
    return span.chunk if span.first <= seq <= span.last else None
