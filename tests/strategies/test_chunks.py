"""When chunks close, and what they hold."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from programs import run, talks
from talk import Talk
from test_autobiographical_properties import check_state
from test_transcript import units_of

from chronicle_py.context.blocks import ToolResult
from chronicle_py.strategies import Autobiographical
from chronicle_py.strategies.autobiographical.chunks import head_index
from chronicle_py.strategies.autobiographical.memories import chunk_rows


def talk_with(**options: Any) -> Talk:
    defaults = {
        "recent_window_tokens": 40,
        "target_chunk_tokens": 50,
        "merge_threshold": 3,
        "summary_target_tokens": 20,
    }
    return Talk(Autobiographical(**{**defaults, **options}))


def chunks(talk: Talk) -> list[list[int]]:
    return [[row.seq for row in chunk_rows(talk.state, chunk)] for chunk in talk.state.chunks if chunk.spans]


def test_a_chunk_closes_at_four_messages_and_the_target_size_once_all_have_left_the_recent_window() -> None:
    talk = talk_with()
    talk.says(8)
    assert chunks(talk) == []
    talk.says(1)
    assert chunks(talk) == [[1, 2, 3, 4, 5]]
    talk.says(4)
    assert chunks(talk) == [[1, 2, 3, 4, 5]]
    talk.says(1)
    assert chunks(talk) == [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]


def test_large_messages_still_make_four() -> None:
    talk = talk_with(recent_window_tokens=0)
    talk.says(5, 60)
    assert chunks(talk) == [[1, 2, 3, 4]]


def test_a_chunk_takes_whole_pairs() -> None:
    talk = talk_with(recent_window_tokens=0)
    talk.says(3, 20)
    talk.call("a", "b")
    talk.answer("a")
    talk.answer("b")
    talk.says(1)
    assert chunks(talk) == [[1, 2, 3, 4, 5, 6]]


def test_media_count_only_where_they_are_told_to() -> None:
    image = [{"type": "image", "source": {"type": "url", "url": "x"}}]
    for ignore, expected in ((True, []), (False, [[1, 2, 3, 4]])):
        talk = talk_with(recent_window_tokens=0, attachments_ignore_size=ignore)
        for _ in range(5):
            talk.say("User", image)
        assert chunks(talk) == expected


def test_system_messages_are_in_no_chunk() -> None:
    talk = talk_with(recent_window_tokens=0)
    for _ in range(6):
        talk.says(1)
        talk.say("System", "rules " * 100)
    assert chunks(talk) == [[1, 3, 5, 7, 9]]


def test_the_head_is_in_no_chunk() -> None:
    talk = talk_with(head_window_tokens=25)
    talk.says(11)
    assert chunks(talk) == [[3, 4, 5, 6, 7]]
    assert talk.render().stats.head.count == 2


def test_a_chunk_spans_pinned_messages_which_do_not_belong_to_it() -> None:
    talk = talk_with()
    talk.says(3)
    talk.pin(2)
    talk.says(7)
    assert chunks(talk) == [[1, 3, 5, 6, 7]]  # the pin is the event at 4
    assert talk.state.chunks[0].spans == ((1, 1), (3, 7))


def test_a_message_unpinned_behind_the_frontier_forms_a_chunk_of_its_own() -> None:
    talk = talk_with()
    talk.says(6)
    pin = talk.pin(2, 3)
    talk.says(8)
    assert chunks(talk) == [[1, 4, 5, 6, 8]]
    talk.unpin(pin)
    assert chunks(talk) == [[1, 4, 5, 6, 8], [2, 3]]


def test_messages_unpinned_at_the_frontier_join_the_unfinished_rest() -> None:
    talk = talk_with()
    talk.says(9)
    pin = talk.pin(6, 8)
    talk.says(6)
    before = chunks(talk)
    assert before == [[1, 2, 3, 4, 5]]
    talk.unpin(pin)
    assert chunks(talk)[1:] == [[6, 7, 8, 9, 11]]


def test_an_edit_before_the_chunk_closes_counts_with_its_new_size() -> None:
    talk = talk_with()
    talk.says(8)
    talk.edit(1, "word " * 60)
    assert chunks(talk) == [[1, 2, 3, 4]]


def test_a_removed_message_leaves_its_chunk() -> None:
    talk = talk_with()
    talk.says(14)
    talk.remove(2, 3)
    assert chunks(talk) == [[1, 4, 5], [6, 7, 8, 9, 10]]
    talk.remove(1, 5)
    assert chunks(talk) == [[6, 7, 8, 9, 10]]


def test_the_unfinished_rest_stays_raw() -> None:
    talk = talk_with()
    talk.says(12)
    talk.drain()
    assert talk.raw() == list(range(6, 13))


def test_a_head_reset_closes_what_stands_before_it() -> None:
    talk = talk_with(head_window_tokens=25)
    talk.says(14)
    assert chunks(talk) == [[3, 4, 5, 6, 7]]
    seq = talk.reset()
    assert sorted(chunks(talk)) == [[1, 2], [3, 4, 5, 6, 7], [8, 9, 10, 11, 12], [13, 14]]
    assert talk.strategy.head_start(talk.state) == seq
    talk.says(10)
    assert sorted(chunks(talk))[-1][0] > seq
    assert talk.render().stats.head.count == 2


def test_a_head_begins_where_it_was_reset_to_also_when_that_message_becomes_half_of_a_pair() -> None:
    talk = talk_with(head_window_tokens=25)
    talk.says(13)
    talk.call("c1")
    seq = talk.reset()
    talk.edit(seq, [ToolResult("c1", "an answer after all")])
    talk.says(10)
    state = talk.state
    assert state.messages.rows[state.messages.index_of(seq)].back == 1
    assert head_index(state) == state.messages.index_of(seq)
    assert talk.strategy.head_start(state) == seq
    check_state(talk)


def test_a_reset_to_what_is_not_there_changes_nothing() -> None:
    from chronicle_py.context.payloads import HEAD_RESET, HeadResetPayload

    talk = talk_with()
    talk.says(14)
    before = talk.state
    for seq in (0, 3, 999):
        talk.append(HEAD_RESET, HeadResetPayload("x", seq))
        assert talk.state == before


def test_chunks_wait_while_too_many_are_unmerged_but_only_automatically() -> None:
    talk = talk_with(max_speculative_l1s=2)
    talk.says(14)
    assert [work.held for work in talk.strategy.plan(talk.state)] == [False, False]
    talk.says(5)
    assert [work.held for work in talk.strategy.plan(talk.state)] == [True, True, True]
    talk.drain()
    talk.says(5)
    assert [work.held for work in talk.strategy.plan(talk.state)] == [False]


def test_events_of_another_shape_change_nothing() -> None:
    talk = talk_with()
    talk.says(14)
    before = talk.state
    for type in ("message", "message.edit", "message.remove", "summary", "pin", "unpin", "head.reset", "other"):
        for payload in (None, {}, {"seq": "x"}, [1]):
            talk.append(type, payload)
    assert talk.state == before


@given(talks, st.sampled_from([0, 30, 90]), st.sampled_from([0, 40]), st.sampled_from([20, 60]))
def test_chunks_are_what_a_plain_walk_makes_of_the_messages(
    program: list[Any], recent: int, head: int, target: int
) -> None:
    """The oracle: go through all pairs from left to right; a chunk counts once all of it has left the window."""
    talk = talk_with(recent_window_tokens=recent, head_window_tokens=head, target_chunk_tokens=target)
    run(talk, program)
    rows = list(talk.state.messages.rows)
    units = units_of(rows)
    at = used = 0
    while at < len(units) and used + sum(row.tokens for row in rows[slice(*units[at])]) <= head:
        used += sum(row.tokens for row in rows[slice(*units[at])])
        at += 1
    expected: list[list[int]] = []
    chunk: list[int] = []
    size = 0
    for start, stop in units[at:-1]:
        if sum(row.tokens for row in rows[start:]) <= recent:
            break
        chunk += [row.seq for row in rows[start:stop]]
        size += sum(row.text for row in rows[start:stop])
        if len(chunk) >= 4 and size >= target:
            expected.append(chunk)
            chunk, size = [], 0
    assert chunks(talk) == expected


@pytest.mark.parametrize("count", [500])
def test_a_fold_looks_at_rows_only_when_a_chunk_is_due(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from chronicle_py.strategies.autobiographical import chunks as module

    looks = 0
    grow = module.grow

    def counted(*arguments: Any) -> Any:
        nonlocal looks
        looks += 1
        return grow(*arguments)

    monkeypatch.setattr(module, "grow", counted)
    talk = talk_with(recent_window_tokens=500)
    talk.says(count)
    assert len(chunks(talk)) == (count - 50) // 5
    assert looks <= len(chunks(talk)) + 10
