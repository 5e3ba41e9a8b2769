"""`Passthrough` and `SlidingWindow`."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from programs import run, steps
from talk import Talk
from test_autobiographical_properties import measured, pairs_hold

from chronicle_py.errors import BudgetTooSmall, InvalidOperation
from chronicle_py.reducers import Reducer
from chronicle_py.strategies import (
    Autobiographical,
    Knowledge,
    Passthrough,
    Pinnable,
    RenderStatsCapable,
    Resettable,
    Searchable,
    SlidingWindow,
)


@pytest.mark.parametrize("strategy", [Passthrough(), SlidingWindow(), Autobiographical(), Knowledge()])
def test_every_strategy_is_a_reducer_and_says_what_it_can(strategy: Any) -> None:
    assert strategy.types == {"message", "message.edit", "message.remove"}
    assert isinstance(strategy, Reducer)
    able = isinstance(strategy, Autobiographical)
    for capability in (Pinnable, Searchable, Resettable, RenderStatsCapable):
        assert isinstance(strategy, capability) is able


def test_passthrough_shows_everything_that_fits() -> None:
    talk = Talk(Passthrough())
    talk.says(10)
    assert talk.raw(100) == list(range(1, 11))
    assert talk.render(100).stats.left_out == 0


def test_passthrough_shows_the_newest_beginning_in_steps() -> None:
    talk = Talk(Passthrough())
    talk.says(11)
    assert talk.raw(100) == list(range(4, 12))  # a step is 25 tokens: from the first message behind 25
    talk.says(1)
    assert talk.raw(100) == list(range(4, 13))
    talk.says(2)
    assert talk.raw(100) == list(range(6, 15))


def test_a_newest_message_that_does_not_fit_is_refused_with_numbers() -> None:
    talk = Talk(Passthrough())
    talk.says(2, 10)
    with pytest.raises(BudgetTooSmall, match=r"takes 10 tokens, and the budget leaves 9 .* by at least 1"):
        talk.render(9)


def test_nothing_said_renders_as_nothing() -> None:
    for strategy in (Passthrough(), SlidingWindow(), Autobiographical(), Knowledge()):
        talk = Talk(strategy)
        talk.say("system", "be kind")
        assert talk.render(1).entries == []


def test_sliding_window_keeps_the_head() -> None:
    talk = Talk(SlidingWindow(head_window_tokens=20))
    talk.says(30)
    assert talk.raw(100)[:2] == [1, 2]
    assert talk.raw(100)[2:] == list(range(23, 31))
    assert talk.render(100).stats.head.count == 2


def test_sliding_window_shows_no_more_than_its_recent_window() -> None:
    talk = Talk(SlidingWindow(head_window_tokens=0, recent_window_tokens=40))
    talk.says(30)
    assert talk.raw() == [27, 28, 29, 30]
    with pytest.raises(InvalidOperation, match="head_window_tokens is a whole number"):
        SlidingWindow(head_window_tokens=-1)


def test_neither_plans_or_makes_summaries() -> None:
    for strategy in (Passthrough(), SlidingWindow()):
        talk = Talk(strategy)
        talk.says(100)
        assert not strategy.plan(talk.state)


@given(st.sampled_from([Passthrough(), SlidingWindow(head_window_tokens=30)]), steps, st.integers(0, 300))
def test_any_conversation_renders_within_its_budget(strategy: Any, program: list[Any], room: int) -> None:
    talk = Talk(strategy)
    run(talk, [step for step in program if step[0] not in ("pin", "unpin", "tick", "drain", "reset")])
    rows = list(talk.state.rows)
    try:
        rendering = talk.render(room)
    except BudgetTooSmall:
        newest = rows[talk.state.newest()].seq
        entries = talk.render(1_000_000).entries
        assert sum(entry.tokens for entry in entries if entry.seq is not None and entry.seq >= newest) > room
        return
    raw = [entry.seq for entry in rendering.entries]
    assert sum(entry.tokens for entry in rendering.entries) == rendering.stats.total <= room
    assert all(entry.tokens == measured(entry, talk) for entry in rendering.entries)
    assert raw == sorted(seq for seq in raw if seq is not None)
    assert {row.seq for row in rows[talk.state.newest() :]} <= set(raw)
    assert rendering.stats.left_out == len(rows) - len(raw)
    pairs_hold(rendering.entries)
    if talk.state.total() + 20 * len(rows) <= room and isinstance(strategy, Passthrough):
        assert raw == [row.seq for row in rows]
