"""Memories come, are merged, and become void. Pure.

A summary is taken in when it is of what stands on the branch: an L1 closes exactly the messages that it names, whatever
configuration it was made under, and unsummarised chunks that overlap it dissolve; a merge takes its sources out of the
unmerged. One that is made of what has changed since, or covers what has a memory already, is ignored. When a message
changes, the memory of its chunk is void, and every merge above it; what these had merged is unmerged again.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from chronicle_py.context.payloads import SummaryPayload
from chronicle_py.event import BlobRef, Event
from chronicle_py.strategies.autobiographical import keys
from chronicle_py.strategies.autobiographical.chunks import (
    Rule,
    add_chunk,
    dequeue,
    drop_chunk,
    enqueue,
    head_index,
    seq_at,
    settle,
)
from chronicle_py.strategies.autobiographical.line import NONE, Line, link_of, linked, place
from chronicle_py.strategies.autobiographical.state import (
    LEVELS,
    Chunk,
    Head,
    Level,
    Memory,
    State,
    Unmerged,
    level_of,
    with_level,
)
from chronicle_py.strategies.transcript import Row
from chronicle_py.strategies.windows import head_end


def chunk_rows(state: State, chunk: Chunk) -> list[Row]:
    """The messages of a chunk, as they stand."""
    messages = state.messages
    if len(chunk.spans) == 1:  # read at once what most likely is all
        start = messages.index_of(chunk.first)
        rows = messages.rows[start : start + chunk.messages]
        if rows and rows[-1].seq == chunk.last:
            return rows
    rows = []
    for first, last in chunk.spans:
        for row in messages.walk(messages.index_of(first), len(messages)):
            if row.seq > last:
                break
            rows.append(row)
    return rows


# --- taking in ------------------------------------------------------------------------------------------------------


def take_in(state: State, rule: Rule, event: Event, payload: SummaryPayload) -> State:
    """With a summary of messages, where it is of what stands."""
    if not isinstance(payload.text, BlobRef) or not payload.source_seqs:
        return state
    waiting = _waiting(state, payload.source_seqs)
    if waiting is not None:
        number, chunk, rows = waiting
        sources = keys.made_of(payload.key)
        if sources is not None and sources != keys.of_messages(rows):
            return state
        return _remember(state, number, chunk, rows, event, payload)
    found = _named(state, payload.source_seqs)
    if found is None:
        return state
    index, rows = found
    sources = keys.made_of(payload.key)
    if sources is not None and sources != keys.of_messages(rows):
        return state
    overlapping = _overlapping(state, rows)
    if any(link_of(state.memories, number) >= 0 for number in overlapping):
        return state
    return _impose(state, rule, overlapping, index, rows, event, payload)


def _waiting(state: State, seqs: tuple[int, ...]) -> tuple[int, Chunk, list[Row]] | None:
    """The chunk in the queue that is of exactly the messages at these sequences, if there is one, and its messages."""
    at = state.queue.place(seqs[0])
    if at == len(state.queue) or (entry := state.queue[at]).first != seqs[0]:
        return None
    chunk = state.chunks[entry.chunk]
    if chunk.messages != len(seqs) or chunk.last != seqs[-1]:
        return None
    rows = chunk_rows(state, chunk)
    return (entry.chunk, chunk, rows) if tuple([row.seq for row in rows]) == seqs else None


def _overlapping(state: State, rows: list[Row]) -> list[int]:
    """The chunks that some of these messages belong to."""
    at = max(0, place(state.spans, rows[0].seq + 1) - 1)
    found: list[int] = []
    left = iter(rows)
    row = next(left, None)
    while row is not None and at < len(state.spans):
        span = state.spans[at]
        while row is not None and row.seq < span.first:
            row = next(left, None)
        if row is not None and row.seq <= span.last and span.chunk not in found:
            found.append(span.chunk)
        if row is not None and row.seq <= span.last:
            row = next(left, None)
        else:
            at += 1
    return sorted(found)


def _named(state: State, seqs: tuple[int, ...]) -> tuple[int, list[Row]] | None:
    """The messages at these sequences and the index of the first; None unless all of them stand, in order."""
    start = state.messages.at(seqs[0])
    if start is None:
        return None
    rows: list[Row] = []
    for row in state.messages.walk(start, len(state.messages)):
        if row.seq == seqs[len(rows)]:
            rows.append(row)
            if len(rows) == len(seqs):
                return start, rows
        elif row.seq > seqs[len(rows)]:
            return None
    return None


def _impose(
    state: State, rule: Rule, overlapping: list[int], index: int, rows: list[Row], event: Event, payload: SummaryPayload
) -> State:
    """With a chunk of exactly these messages, as another configuration closed it."""
    messages = state.messages
    start, stop = index, messages.index_of(rows[-1].seq) + 1
    old, after = messages.index_of(state.frontier), stop
    for number in overlapping:
        chunk = state.chunks[number]
        start, stop = min(start, messages.index_of(chunk.first)), max(stop, messages.index_of(chunk.last) + 1)
        state = drop_chunk(state, number)
    head, freed = _head_before(state, rule, index, rows[0].seq)
    chunk = Chunk(tuple(_runs(state, index, rows)), len(rows), sum([row.tokens for row in rows]))
    state = add_chunk(replace(state, head=head), chunk)
    if after > old:
        state, start = replace(state, frontier=seq_at(state, after)), min(start, old)
    state = _remember(state, len(state.chunks) - 1, chunk, rows, event, payload)
    return settle(state, rule, start, max(stop, freed))


def _head_before(state: State, rule: Rule, index: int, seq: int) -> tuple[Head, int]:
    """The head, ending where a chunk from `index` on begins, and the index up to which it reached if that is within."""
    head, messages = state.head, state.messages
    first = head_index(state)
    if index < first:
        return head, 0
    end = messages.index_of(head.end) if head.end >= 0 else head_end(messages, first, rule.head_window_tokens)
    return (Head(head.start, seq), end) if index < end else (Head(head.start, seq_at(state, end)), 0)


def _runs(state: State, index: int, rows: list[Row]) -> Iterable[tuple[int, int]]:
    """Runs of neighbours among these messages, the first of which stands at `index`."""
    first = last = rows[0].seq
    at = 1
    for row in state.messages.walk(index + 1, len(state.messages)):
        if at == len(rows):
            break
        if row.seq != rows[at].seq:
            if first >= 0:
                yield first, last
            first = -1
            continue
        first, last = (row.seq if first < 0 else first), row.seq
        at += 1
    yield first, last


def _remember(state: State, number: int, chunk: Chunk, rows: list[Row], event: Event, payload: SummaryPayload) -> State:
    """With the memory of a chunk."""
    memory = _memory(len(level_of(state, 1).all), payload, event, rows[0].seq, rows[-1].seq, rows[0].key, rows[-1].key)
    state = dequeue(state, number, chunk.first)
    state = replace(state, memories=linked(state.memories, number, memory.number))
    return _add(state, replace(memory, sources=(number,), messages=len(rows)))


def take_in_merge(state: State, event: Event, payload: SummaryPayload) -> State:
    """With a summary of summaries, where these stand unmerged."""
    if not 2 <= payload.level <= LEVELS or not isinstance(payload.text, BlobRef):
        return state
    sources = _sources(state, payload)
    if not sources:
        return state
    below = level_of(state, payload.level - 1)
    first, last = min(sources, key=lambda m: m.first_seq), max(sources, key=lambda m: m.last_seq)
    number = len(level_of(state, payload.level).all)
    memory = _memory(number, payload, event, first.first_seq, last.last_seq, first.first, last.last)
    unmerged, parents = below.unmerged, below.parents
    for source in sources:
        unmerged = unmerged.without(_place(unmerged, source))
        parents = linked(parents, source.number, number)
    state = with_level(state, payload.level - 1, Level(below.all, unmerged, parents))
    numbers = tuple(source.number for source in sources)
    return _add(state, replace(memory, sources=numbers, messages=sum(source.messages for source in sources)))


def _sources(state: State, payload: SummaryPayload) -> list[Memory]:
    """The unmerged memories that a merge was made of. Their numbers may be others on the branch it was made on, so they
    are looked for by what the merge covers, then by their ids."""
    below = level_of(state, payload.level - 1)
    wanted = keys.made_of(payload.key)
    if wanted is not None:
        at = below.unmerged.place(payload.first_seq)
        covered = []
        while at < len(below.unmerged) and (entry := below.unmerged[at]).first <= payload.last_seq:
            if entry.last <= payload.last_seq:
                covered.append(below.all[entry.number])
            at += 1
        if covered and keys.of_memories(memory.key for memory in covered) == wanted:
            return covered
    named = []
    for id in payload.sources:
        level, _, number = id.removeprefix("L").partition("-")
        if level != str(payload.level - 1) or not number.isascii() or not number.isdigit() or len(number) > 12:
            return []
        if int(number) >= len(below.all):
            return []
        memory = below.all[int(number)]
        if memory.void or link_of(below.parents, memory.number) >= 0:
            return []
        named.append(memory)
    if len({memory.number for memory in named}) < len(named):
        return []
    return named if wanted is None or keys.of_memories(memory.key for memory in named) == wanted else []


def _memory(
    number: int, payload: SummaryPayload, event: Event, first_seq: int, last_seq: int, first: bytes, last: bytes
) -> Memory:
    return Memory(
        number, payload.level, payload.key, bytes.fromhex(payload.text.hash), max(0, min(payload.tokens, 1 << 40)), 0,
        first, last, first_seq, last_seq, (), event.time, payload.model, payload.phase,
    )  # fmt: skip


def _add(state: State, memory: Memory) -> State:
    level = level_of(state, memory.level)
    new = Level(level.all.append(memory), _unmerged(level.unmerged, memory), level.parents)
    return with_level(state, memory.level, new)


# --- becoming void --------------------------------------------------------------------------------------------------


def void_chunk(state: State, number: int) -> State:
    """Without the memory of a chunk, and the merges above it; the chunk is queued again."""
    memory = link_of(state.memories, number)
    if memory < 0:
        return state
    state = _void(state, 1, memory)
    return enqueue(replace(state, memories=linked(state.memories, number, NONE)), number)


def _void(state: State, number_level: int, number: int) -> State:
    parent = link_of(level_of(state, number_level).parents, number)
    if parent >= 0:
        state = _void(state, number_level + 1, parent)
    level = level_of(state, number_level)
    memory = level.all[number]
    everything = level.all.set(number, replace(memory, void=True))
    unmerged = level.unmerged.without(_place(level.unmerged, memory))
    state = with_level(state, number_level, Level(everything, unmerged, level.parents))
    if number_level == 1:
        return state
    below = level_of(state, number_level - 1)
    unmerged, parents = below.unmerged, below.parents
    for source in memory.sources:
        unmerged = _unmerged(unmerged, below.all[source])
        parents = linked(parents, source, NONE)
    return with_level(state, number_level - 1, Level(below.all, unmerged, parents))


# --- the unmerged ---------------------------------------------------------------------------------------------------


def _unmerged(entries: Line[Unmerged], memory: Memory) -> Line[Unmerged]:
    return entries.added(Unmerged(memory.first_seq, memory.number, memory.last_seq, memory.tokens), memory.tokens)


def _place(entries: Line[Unmerged], memory: Memory) -> int:
    """The index of a memory among the unmerged."""
    at = entries.place(memory.first_seq)
    while entries[at].number != memory.number:
        at += 1
    return at
