"""What holds of `Autobiographical` and `Knowledge` for any conversation."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from programs import run, steps, talks
from talk import Talk, text_of

from chronicle_py.collections import decode_state, encode_state, state_hash
from chronicle_py.context.blocks import Text, ToolResult, ToolUse
from chronicle_py.context.counting import count_blocks
from chronicle_py.errors import BudgetTooSmall
from chronicle_py.strategies import Autobiographical, Knowledge, Rendering
from chronicle_py.strategies.autobiographical.chunks import advance, chunk_at, guarded
from chronicle_py.strategies.autobiographical.line import link_of
from chronicle_py.strategies.autobiographical.memories import chunk_rows
from chronicle_py.strategies.autobiographical.protection import protected_units

_numbers = st.fixed_dictionaries(
    {
        "head_window_tokens": st.sampled_from([0, 0, 25, 60]),
        "recent_window_tokens": st.sampled_from([0, 30, 80]),
        "target_chunk_tokens": st.sampled_from([20, 50]),
        "merge_threshold": st.sampled_from([2, 3]),
        "summary_target_tokens": st.just(20),
        "l1_budget_tokens": st.sampled_from([0, 20, 1000]),
        "l2_budget_tokens": st.sampled_from([0, 20, 1000]),
        "l3_budget_tokens": st.sampled_from([0, 20, 1000]),
        "positioned_recall_pairs": st.booleans(),
        "hierarchical": st.sampled_from([True, True, False]),
        "tool_result_max_last_n": st.sampled_from([None, None, 1, {"bash": 2}]),
        "tool_use_input_max_tokens": st.sampled_from([0, 0, 1]),
        "max_message_tokens": st.sampled_from([0, 0, 12]),
    }
)
strategies_under_test: st.SearchStrategy[Autobiographical] = st.builds(
    lambda kind, numbers: kind(**numbers), st.sampled_from([Autobiographical, Autobiographical, Knowledge]), _numbers
)


def check_state(talk: Talk) -> None:
    """The state holds together."""
    state = talk.state
    rows = list(state.messages.rows)
    assert [row.seq for row in rows] == [seq for seq, m in sorted(talk.viewed.items()) if m.role != "system"]
    assert state.total == sum(row.tokens for row in rows) == state.messages.total()
    for row in rows:
        assert row.tokens == talk.viewed[row.seq].tokens
    spans = list(state.spans)
    assert all(a.first <= a.last < b.first for a, b in pairwise(spans))
    owned: Counter[int] = Counter()
    for number, chunk in enumerate(state.chunks):
        assert [(span.first, span.last) for span in spans if span.chunk == number] == list(chunk.spans)
        members = chunk_rows(state, chunk)
        assert bool(members) == bool(chunk.spans)
        owned.update(row.seq for row in members)
        assert (chunk.messages, chunk.tokens) == (len(members), sum(row.tokens for row in members))
        queued = [entry for entry in state.queue if entry.chunk == number]
        held = link_of(state.memories, number)
        assert len(queued) == (1 if chunk.spans and held < 0 else 0)
        if held >= 0:
            memory = state.levels[0].all[held]
            assert memory.sources == (number,)
            assert not memory.void
            assert memory.messages == len(members)
    assert all(count == 1 for count in owned.values())
    assert state.queue.weight() == sum(state.chunks[entry.chunk].tokens for entry in state.queue)
    for entries in (state.queue, *(level.unmerged for level in state.levels)):
        firsts = [entry.first for entry in entries]
        assert firsts == sorted(firsts)
    for at, level in enumerate(state.levels):
        standing = {m.number for m in level.all if not m.void and link_of(level.parents, m.number) < 0}
        assert sorted(entry.number for entry in level.unmerged) == sorted(standing)
        for memory in level.all:
            into = link_of(level.parents, memory.number)
            if not memory.void and into >= 0:
                parent = state.levels[at + 1].all[into]
                assert not parent.void
                assert memory.number in parent.sources
    guarded_seqs = {row.seq for a, b in protected_units(state) for row in rows[a:b]}
    for index, row in enumerate(rows):
        unit = rows[state.messages.unit_start(index) : state.messages.unit_end(index)]
        assert guarded(state.guards, unit) == (row.seq in guarded_seqs)
        behind = row.seq < state.frontier
        head = state.head.start <= row.seq < state.head.end
        if behind:
            assert owned[row.seq] or row.seq in guarded_seqs or head, "a message behind the frontier is lost"
        else:
            assert not owned[row.seq]
    assert len(advance(state, talk.strategy).chunks) == len(state.chunks), "a chunk should have closed"


def check_rendering(talk: Talk, rendering: Rendering, enforced: bool, room: int) -> None:
    state = talk.state
    rows = list(state.messages.rows)
    entries = rendering.entries
    raw = [entry.seq for entry in entries if entry.seq is not None]
    assert raw == sorted(raw)
    assert len(set(raw)) == len(raw)
    total = sum(entry.tokens for entry in entries)
    assert total == rendering.stats.total
    assert rendering.stats.over_budget == max(0, total - room)
    for entry in entries:
        if entry.seq is not None or talk.strategy.max_message_tokens == 0:
            assert entry.tokens == measured(entry, talk)
    assert sum(entry.cache for entry in entries) <= 4
    pairs_hold(entries)
    if not rows:
        return
    assert {row.seq for row in rows[state.messages.newest() :]} <= set(raw)
    protected = {row.seq for a, b in protected_units(state) for row in rows[a:b]}
    assert protected <= set(raw)
    for entry in entries:
        if entry.seq is not None and entry.seq in protected:
            for word in text_of_message(talk, entry.seq):
                assert word in text_of(entry)
    # each middle message at most once
    shown = {id for entry in entries if entry.summary and entry.role == "assistant" for id in entry.summary.split(", ")}
    newest = {row.seq for row in rows[state.messages.newest() :]}
    missing = 0
    for row in rows:
        times = int(row.seq in raw) + summaries_over(state, row.seq, shown)
        if row.seq not in protected and row.seq not in newest:
            assert times <= 1
            if not enforced:
                assert times == 1
        missing += times == 0
    assert rendering.stats.left_out == missing
    if not enforced:
        assert missing == 0
    stats = rendering.stats
    assert stats.head.count + stats.tail.count + stats.middle.count == len(raw)
    assert {level: share.count for level, share in stats.summaries.items()} == Counter(int(id[1]) for id in shown)


def text_of_message(talk: Talk, seq: int) -> list[str]:
    words: list[str] = []
    for block in talk.viewed[seq].blocks:
        if isinstance(block, ToolResult):
            words += str(block.content).split()
        elif hasattr(block, "text"):
            words += block.text.split()
    return words


def measured(entry: Any, talk: Talk) -> int:
    """The tokens of an entry: its blocks, and the name before a user's own words once two users have spoken."""
    name = 0
    own = entry.role == "user" and entry.seq is not None and entry.participant != "Context Manager"
    if own and len(talk.spoke) > 1 and not all(isinstance(b, ToolResult) for b in talk.viewed[entry.seq].blocks):
        name = any(isinstance(block, Text) for block in entry.blocks) * len(entry.participant.split())
    return count_blocks(entry.blocks, talk)[0] + name


def summaries_over(state: Any, seq: int, shown: set[str]) -> int:
    number = chunk_at(state, seq)
    if number is None:
        return 0
    count, level, memory = 0, 1, link_of(state.memories, number)
    while memory >= 0:
        count += f"L{level}-{memory}" in shown
        memory = link_of(state.levels[level - 1].parents, memory)
        level += 1
    return count


def pairs_hold(entries: list[Any]) -> None:
    """Every call is answered in the run of entries directly after it, every answer has its call before it."""
    open: list[str] = []
    for entry in entries:
        results = [block.tool_use_id for block in entry.blocks if isinstance(block, ToolResult)]
        calls = [block.id for block in entry.blocks if isinstance(block, ToolUse)]
        for id in results:
            assert id in open, "an answer without call"
            open.remove(id)
        if not results:
            assert not open, "a call without answer"
        open += calls
    assert not open


@given(strategies_under_test, steps, st.integers(0, 400))
def test_any_conversation_folds_and_renders(strategy: Autobiographical, program: list[Any], room: int) -> None:
    talk = Talk(strategy)
    run(talk, program)
    check_state(talk)
    try:
        rendering = talk.render(room)
    except BudgetTooSmall:
        must = talk.render(1_000_000)
        newest = talk.state.messages.newest()
        rows = talk.state.messages.rows
        kept = {row.seq for a, b in protected_units(talk.state) for row in rows[a:b]} | {r.seq for r in rows[newest:]}
        assert sum(entry.tokens for entry in must.entries if entry.seq in kept) > room
        return
    check_rendering(talk, rendering, True, room)
    assert rendering.stats.total <= room
    assert talk.render(room) == rendering
    if min(strategy.l1_budget_tokens, strategy.l2_budget_tokens, strategy.l3_budget_tokens) >= 1000:
        assert talk.render(100_000).stats.left_out == 0


@given(strategies_under_test, steps)
def test_without_a_budget_nothing_is_missing(strategy: Autobiographical, program: list[Any]) -> None:
    import msgspec

    talk = Talk(msgspec.structs.replace(strategy, enforce_budget=False))
    run(talk, program)
    check_rendering(talk, talk.render(100), False, 100)


@given(strategies_under_test, steps, steps)
def test_a_state_that_was_stored_goes_on_the_same(
    strategy: Autobiographical, program: list[Any], more: list[Any]
) -> None:
    talk = Talk(strategy)
    run(talk, program)
    other = talk.fork()
    objects = Stored()
    data, _ = encode_state(talk.state, objects)
    other.state = decode_state(data, type(talk.state), objects)
    assert state_hash(other.state) == state_hash(talk.state)
    for branch in (talk, other):
        run(branch, more)
    assert state_hash(other.state) == state_hash(talk.state)
    again = talk.under(strategy)
    assert state_hash(again.state) == state_hash(talk.state)


@given(strategies_under_test, talks, talks)
def test_closed_chunks_never_change_when_messages_are_added(
    strategy: Autobiographical, program: list[Any], more: list[Any]
) -> None:
    talk = Talk(strategy)
    run(talk, program)
    before = list(talk.state.chunks)
    run(talk, more)
    assert list(talk.state.chunks)[: len(before)] == before


@given(strategies_under_test, strategies_under_test, steps)
def test_another_configuration_takes_over_the_summaries(
    strategy: Autobiographical, other: Autobiographical, program: list[Any]
) -> None:
    talk = Talk(strategy)
    run(talk, program)
    again = talk.under(other)
    check_state(again)
    check_rendering(again, again.render(), True, 1_000_000)
    again.drain()
    check_state(again)


class Stored(dict[bytes, bytes]):
    """An object store in memory."""

    def store(self, address: bytes, data: bytes) -> None:
        self[address] = data

    def load(self, address: bytes) -> bytes:
        return self[address]

    def cached(self, address: bytes, decode: Any) -> Any:
        return decode(self[address])
