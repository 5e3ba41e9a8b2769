"""What goes into the window, in which order, and what gives way."""

from __future__ import annotations

from itertools import pairwise

import pytest
from talk import Talk, text_of
from test_chunks import talk_with

from chronicle_py.context.blocks import Text, ToolResult, ToolUse
from chronicle_py.errors import BudgetTooSmall
from chronicle_py.strategies import Autobiographical, Entry, Share
from chronicle_py.strategies.autobiographical.render import last_old_result


def marks(talk: Talk, tokens: int = 1_000_000) -> list[str]:
    """What the cache markers stand after: sequences and ids of summaries."""
    return [str(entry.summary or entry.seq) for entry in talk.render(tokens).entries if entry.cache]


def shape(entries: list[Entry]) -> list[object]:
    return [entry.seq if entry.seq is not None else entry.summary for entry in entries]


def test_head_memories_middle_recent_in_the_order_of_what_they_cover() -> None:
    talk = talk_with(head_window_tokens=20)
    talk.says(20)
    talk.tick()
    talk.tick()
    entries = talk.render().entries
    assert shape(entries) == [1, 2, "L1-0", "L1-0", "L1-1", "L1-1", *range(13, 21)]
    question, answer = entries[2:4]
    assert (question.role, question.blocks) == ("user", [Text("[Recall L1-0]")])
    assert (answer.role, answer.participant, text_of(answer)) == ("assistant", "Claude", "summary of 3 to 7, level 1")
    stats = talk.render().stats
    assert (stats.head, stats.middle, stats.tail) == (Share(2, 20), Share(4, 40), Share(4, 40))
    assert stats.summaries == {1: Share(2, 18)}
    assert stats.total == sum(entry.tokens for entry in entries) == 118


def test_a_chunk_without_memory_is_raw_between_memories() -> None:
    talk = talk_with()
    talk.says(24)
    first, second, third, _ = talk.strategy.plan(talk.state)
    talk.summarize(first)
    talk.summarize(third)
    assert shape(talk.render().entries) == [
        "L1-0", "L1-0", *second.source_seqs, "L1-1", "L1-1", *range(16, 25),
    ]  # fmt: skip


def test_all_memories_in_one_pair_between_head_and_middle() -> None:
    talk = talk_with(head_window_tokens=20, positioned_recall_pairs=False, summary_context_label="And before?")
    talk.says(20)
    talk.drain()
    entries = talk.render().entries
    assert shape(entries)[:4] == [1, 2, "L1-0, L1-1", "L1-0, L1-1"]
    assert text_of(entries[2]) == "And before?"
    assert text_of(entries[3]) == "summary of 3 to 7, level 1\nsummary of 8 to 12, level 1"


def test_the_question_is_made_of_a_template() -> None:
    talk = talk_with(recall_header_template="What of {id}, level {level}, from {first} to {last}?")
    talk.says(9)
    talk.drain()
    first, last = talk.viewed[1].id, talk.viewed[5].id
    assert text_of(talk.render().entries[0]) == f"What of L1-0, level 1, from {first} to {last}?"


def test_what_lies_before_a_new_head_renders_before_it() -> None:
    talk = talk_with(head_window_tokens=20)
    talk.says(14)
    talk.drain()
    seq = talk.reset()
    assert shape(talk.render().entries)[-5:] == [10, 11, 12, 13, 14, seq][-5:]
    talk.drain()
    entries = talk.render().entries
    assert [entry.seq for entry in entries if entry.seq is not None] == [seq]
    assert talk.render().stats.left_out == 0
    talk.says(1)
    assert talk.render().stats.head.count == 1


def test_the_recent_window_never_reaches_over_a_head() -> None:
    talk = talk_with(recent_window_tokens=1000)
    talk.says(14)
    assert talk.render().stats.tail.count == 14
    talk.reset()
    assert talk.render().stats.tail.count == 1
    assert talk.render().stats.middle.count == 14


def test_a_pinned_message_over_a_summarised_chunk_renders_right_after_its_summary() -> None:
    talk = talk_with()
    talk.says(23)
    talk.drain()
    assert talk.shown() == ["L2-0"]
    talk.pin(3)
    talk.pin(12)
    assert shape(talk.render().entries)[:4] == ["L2-0", "L2-0", 3, 12]
    assert talk.render().stats.left_out == 0


def test_a_pin_takes_the_whole_pair() -> None:
    talk = talk_with()
    talk.says(3)
    call = talk.call("a", "b")
    first, last = talk.answer("a"), talk.answer("b")
    talk.says(24)
    talk.drain()
    talk.pin(first)
    entries = [entry for entry in talk.render().entries if entry.seq in (call, first, last)]
    assert [entry.seq for entry in entries] == [call, first, last]
    assert isinstance(entries[0].blocks[0], ToolUse)


def test_protected_messages_and_the_newest_come_first() -> None:
    talk = talk_with()
    talk.says(40)
    talk.drain()
    talk.pin(7, 8)
    assert talk.raw(30) == [7, 8, 40]
    with pytest.raises(BudgetTooSmall, match="takes 10 tokens and protected messages 20 tokens, and the budget leaves"):
        talk.render(29)


def test_the_newest_comes_with_its_pair() -> None:
    talk = talk_with()
    talk.says(10)
    call = talk.call("a", text="look here")
    answer = talk.answer("a", text="found it")
    rendering = talk.render(25)
    assert [entry.seq for entry in rendering.entries] == [call, answer]
    with pytest.raises(BudgetTooSmall, match="raise max_tokens by at least 1"):
        talk.render(24)


def test_windows_and_levels_shrink_in_proportion() -> None:
    talk = talk_with(
        head_window_tokens=100, recent_window_tokens=100, l1_budget_tokens=100, l2_budget_tokens=100,
        l3_budget_tokens=100, merge_threshold=100,
    )  # fmt: skip
    talk.says(120)
    talk.drain()
    stats = talk.render(250).stats
    assert stats.head.tokens == 50
    assert stats.tail.tokens <= 50
    assert stats.summaries[1].tokens <= 150
    assert stats.summaries[1].tokens > 100  # what the other levels leave goes to the next
    assert stats.total <= 250


def test_a_merged_memory_shows_where_its_parent_may_not() -> None:
    talk = talk_with(l3_budget_tokens=0, l2_budget_tokens=20)
    talk.says(8 + 9 * 5)
    talk.drain()
    assert talk.shown() == ["L1-0", "L1-1", "L1-2", "L2-1", "L2-2"]
    talk = talk_with(l3_budget_tokens=9, l2_budget_tokens=20)
    talk.says(8 + 9 * 5)
    talk.drain()
    assert talk.shown() == ["L3-0"]


def test_older_memories_give_way_in_steps() -> None:
    talk = talk_with(hierarchical=False, l1_budget_tokens=90, l2_budget_tokens=0, l3_budget_tokens=0)
    firsts = []
    for _ in range(40):
        talk.says(5)
        talk.drain()
        shown = talk.shown(10_000)
        assert len(shown) <= 10
        if shown:
            firsts.append(shown[0])
    moves = sum(before != after for before, after in pairwise(firsts))
    assert moves < 20
    assert len(set(firsts)) == moves + 1


def test_the_first_message_stays_put_for_many_turns() -> None:
    talk = talk_with(recent_window_tokens=400)
    talk.says(100)
    firsts = []
    for _ in range(100):
        talk.says(1)
        firsts.append(talk.raw(500)[0])
    moves = sum(before != after for before, after in pairwise(firsts))
    assert moves <= 10


def test_without_enforcement_everything_is_there_and_the_stats_say_how_much_too_much() -> None:
    talk = talk_with(enforce_budget=False)
    talk.says(60)
    talk.drain()
    whole = talk.render()
    over = talk.render(50)
    assert over.entries == whole.entries
    assert over.stats.over_budget == whole.stats.total - 50
    assert whole.stats.over_budget == 0
    assert over.stats.left_out == 0


def test_cache_markers_stand_after_head_last_summary_and_previous_turn() -> None:
    talk = talk_with(head_window_tokens=20)
    talk.says(17)
    talk.drain()
    assert marks(talk) == ["2", "L1-1", "16"]
    talk.call("a")
    talk.answer("a")
    assert marks(talk) == ["2", "L1-1", "16"]  # results begin no turn
    question = next(entry for entry in talk.render().entries if entry.summary == "L1-1")
    assert not question.cache


def test_the_limit_for_results_moves_in_steps_and_never_back() -> None:
    assert [last_old_result(results, 1) for results in range(5)] == [0, 0, 1, 2, 3]
    assert [last_old_result(results, 4) for results in range(4, 10)] == [0, 2, 2, 4, 4, 6]
    assert [last_old_result(results, 0) for results in range(3)] == [0, 1, 2]
    assert last_old_result(1000, None) == 0
    for kept in range(1, 12):
        last = 0
        for results in range(60):
            now = last_old_result(results, kept)
            assert last <= now
            assert min(1, results) <= results - now <= kept
            last = now


def test_only_the_newest_results_of_a_tool_keep_their_content() -> None:
    talk = talk_with(recent_window_tokens=10_000, tool_result_max_last_n={"bash": 2})
    for at in range(5):
        talk.call(f"a{at}", tool="bash")
        talk.answer(f"a{at}", text=f"bash result {at}")
        talk.call(f"b{at}", tool="edit")
        talk.answer(f"b{at}", text=f"edit result {at}")
    results = [block for entry in talk.render().entries for block in entry.blocks if isinstance(block, ToolResult)]
    assert [block.content for block in results if block.tool_use_id.startswith("a")] == [
        "[An earlier result of bash, left out]", "[An earlier result of bash, left out]",
        "[An earlier result of bash, left out]", "bash result 3", "bash result 4",
    ]  # fmt: skip
    assert [block.content for block in results if block.tool_use_id.startswith("b")] == [
        f"edit result {at}" for at in range(5)
    ]


def test_results_that_were_removed_do_not_count_as_the_newest() -> None:
    talk = talk_with(recent_window_tokens=10_000, tool_result_max_last_n=2)
    calls = []
    for at in range(6):
        calls.append(talk.call(f"a{at}", tool="bash"))
        talk.answer(f"a{at}", text=f"result {at}")

    def kept() -> list[str]:
        blocks = [block for entry in talk.render().entries for block in entry.blocks if isinstance(block, ToolResult)]
        return [str(block.content) for block in blocks if "left out" not in str(block.content)]

    assert kept() == ["result 4", "result 5"]
    talk.remove(calls[4], calls[5] + 1)
    assert kept() == ["result 2", "result 3"]
    talk.call("b", tool="bash")
    talk.answer("b", text="result 6")
    assert kept() == ["result 3", "result 6"]
    talk.remove(calls[1], calls[1] + 1)  # an old one
    assert kept() == ["result 3", "result 6"]
    talk.remove(calls[3], calls[3] + 1)
    assert kept() == ["result 2", "result 6"]


def test_pinned_messages_are_shown_in_full() -> None:
    talk = talk_with(tool_result_max_last_n=0, max_message_tokens=15, tool_use_input_max_tokens=1)
    talk.call("a")
    answer = talk.answer("a", text="word " * 40)
    talk.says(3)
    pin = talk.pin(answer)
    shown = talk.render().entries[:2]
    assert [entry.blocks for entry in shown] == [talk.viewed[1].blocks, talk.viewed[2].blocks]
    talk.unpin(pin)
    assert [block.content for block in talk.render().entries[1].blocks if isinstance(block, ToolResult)] == [
        "[An earlier result of bash, left out]"
    ]


def test_long_texts_are_cut_summaries_as_well() -> None:
    talk = talk_with(max_message_tokens=15, recent_window_tokens=20)
    talk.says(3, 40)
    talk.says(6)
    talk.summarize(talk.strategy.plan(talk.state)[0], "long " * 50)
    entries = talk.render().entries
    assert all(entry.tokens <= 15 for entry in entries)
    assert text_of(entries[1]).endswith("… [cut, 50 tokens in all]")


def test_rendering_reads_only_what_it_shows() -> None:
    talk = Talk(Autobiographical(recent_window_tokens=100, target_chunk_tokens=50, merge_threshold=3))
    talk.says(400)
    talk.drain()
    read: list[int] = []
    message = talk.message

    def counted(seq: int) -> object:
        read.append(seq)
        return message(seq)

    talk.message = counted  # type: ignore[method-assign, assignment]
    shown = talk.raw(150)
    assert len(read) <= len(shown) + 3


def test_half_pairs_are_text_in_the_rendering() -> None:
    talk = talk_with()
    call = talk.call("a")
    answer = talk.answer("a")
    talk.says(1)
    talk.remove(call)
    assert text_of(talk.render().entries[0]) == "[Result of tool call a, whose call is not here: done well]"
    talk.remove(answer)
    talk.call("b")
    assert text_of(talk.render().entries[-1]).startswith("[Tool call bash (b), without a result")
