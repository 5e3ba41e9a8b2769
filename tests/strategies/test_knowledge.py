"""`Knowledge`: phases, when chunks end, what is asked, and the shares of the budget."""

from __future__ import annotations

from typing import Any

import pytest
from talk import Talk
from test_chunks import chunks

from chronicle_py.errors import InvalidOperation
from chronicle_py.strategies import Knowledge
from chronicle_py.strategies.knowledge import phases


def talk_with(**options: Any) -> Talk:
    defaults = {"recent_window_tokens": 0, "target_chunk_tokens": 40, "merge_threshold": 3, "summary_target_tokens": 20}
    return Talk(Knowledge(**{**defaults, **options}))


def phases_of(talk: Talk) -> list[str]:
    return [chunk.phase for chunk in talk.state.chunks if chunk.spans]


def use(talk: Talk, tool: str, size: int = 8) -> None:
    talk.call("x", tool=tool)
    talk.answer("x", text="r " * size)


@pytest.mark.parametrize(
    ("tools", "phase"),
    [
        (["lessons:create", "subagent:run", "mcpl:search"], "lesson"),
        (["mcpl:search", "subagent:run"], "subagent"),
        (["bash", "zulip:read"], "research"),
        (["bash"], "synthesis"),
        (["lessons:delete"], "synthesis"),
        ([], "synthesis"),
    ],
)
def test_the_phase_is_told_by_the_tools(tools: list[str], phase: str) -> None:
    found = phases.of_tools(tools, ("lessons:create", "lessons:update"), ("subagent:",), ("mcpl:", "zulip:"))
    assert phases.NAMES[found] == phase


def test_a_chunk_closes_where_the_phase_changes() -> None:
    talk = talk_with()
    use(talk, "mcpl:search")
    use(talk, "mcpl:read")
    talk.says(2, 5)
    use(talk, "subagent:run")
    talk.says(1)
    assert chunks(talk) == [[1, 2, 3, 4], [5, 6], [7, 8]]
    assert phases_of(talk) == ["research", "synthesis", "subagent"]


def test_one_message_alone_is_no_chunk_of_its_own() -> None:
    talk = talk_with()
    talk.says(1)
    use(talk, "mcpl:search")
    talk.says(2, 5)
    assert chunks(talk) == [[1, 2, 3]]
    assert phases_of(talk) == ["research"]


def test_a_bare_result_has_the_phase_of_the_last_tool() -> None:
    talk = talk_with()
    talk.call("x", tool="mcpl:search")
    talk.says(1)
    answer = talk.answer("x")
    assert talk.state.messages.rows[talk.state.messages.at(answer)].phase == phases.RESEARCH


@pytest.mark.parametrize(("tool", "factor"), [("mcpl:a", 2), ("subagent:a", 2), ("lessons:create", 1), ("bash", 1.5)])
def test_a_chunk_closes_at_the_size_of_its_phase(tool: str, factor: float) -> None:
    talk = talk_with(target_chunk_tokens=200)
    while not chunks(talk):
        use(talk, tool, 20)
    size = sum(talk.viewed[seq].tokens for seq in chunks(talk)[0])
    assert 200 * factor <= size < 200 * factor + 60


def test_each_phase_has_its_own_instruction_and_leads_are_marked() -> None:
    talk = talk_with()
    use(talk, "mcpl:search")
    use(talk, "lessons:create")
    talk.says(3, 5)
    first, second = talk.strategy.plan(talk.state)[:2]
    texts = [talk.strategy.request(talk.state, work, talk).instruction for work in (first, second)]
    assert "research" in texts[0]
    assert "lesson" in texts[1]
    assert all("[LEAD]" in text and "20 tokens" in text for text in texts)
    own = Talk(Knowledge(phase_prompts={"research": "Say it in {target}."}))
    assert own.strategy.instruction(1, "research", 4) == "Say it in 2000."
    assert own.strategy.digest(1, "research") != Knowledge().digest(1, "research")
    assert own.strategy.digest(1, "lesson") == Knowledge().digest(1, "lesson")


def test_a_merge_names_the_phases_of_its_sources_and_keeps_leads() -> None:
    talk = talk_with()
    use(talk, "mcpl:search")
    use(talk, "subagent:run")
    use(talk, "mcpl:search")
    talk.says(2, 5)
    for _ in range(3):
        talk.tick()
    (work,) = talk.strategy.plan(talk.state)
    assert (work.level, work.phase) == (2, "research, subagent")
    instruction = talk.strategy.request(talk.state, work, talk).instruction
    assert "research, subagent" in instruction
    assert "[LEAD]" in instruction
    talk.tick()
    assert talk.strategy.summary(talk.state, "L2-0").phase == "research, subagent"


def test_synthesis_is_served_first_and_research_last() -> None:
    talk = talk_with(
        merge_threshold=100, l1_budget_tokens=100, l2_budget_tokens=0, l3_budget_tokens=0, recall_header_template=""
    )
    for _ in range(12):
        use(talk, "mcpl:search")
        talk.says(2, 5)
        use(talk, "lessons:create")
    talk.says(2, 5)
    while plan := talk.strategy.plan(talk.state):
        talk.summarize(plan[0], "s " * 10)
    counts = dict.fromkeys(phases.NAMES, 0)
    for id in talk.shown(10_000):
        counts[talk.strategy.summary(talk.state, id).phase] += 1
    assert counts == {"synthesis": 7, "lesson": 3, "subagent": 0, "research": 0}


@pytest.mark.parametrize(("synthesised", "lessons"), [(0, 10), (1, 6)])
def test_others_leave_the_floor_of_synthesis_where_there_is_any(synthesised: int, lessons: int) -> None:
    talk = talk_with(
        merge_threshold=100, l1_budget_tokens=100, l2_budget_tokens=0, l3_budget_tokens=0, recall_header_template=""
    )
    for _ in range(12):
        use(talk, "mcpl:search")
        use(talk, "lessons:create")
    for _ in range(synthesised):
        talk.says(4, 40)
        use(talk, "lessons:create")
    talk.says(2, 5)
    while plan := talk.strategy.plan(talk.state):
        talk.summarize(plan[0], "s " * 10)
    counts = dict.fromkeys(phases.NAMES, 0)
    for id in talk.shown(10_000):
        counts[talk.strategy.summary(talk.state, id).phase] += 1
    assert counts == {"synthesis": synthesised, "lesson": lessons, "subagent": 0, "research": 0}


@pytest.mark.parametrize(
    "options",
    [
        {"lesson_tools": "x"},
        {"research_prefixes": ("",)},
        {"synthesis_cap": 1.5},
        {"synthesis_floor": 0.8},
        {"phase_prompts": {"other": "x"}},
        {"phase_prompts": {"lesson": "{what}"}},
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOperation, match=f"Knowledge: {next(iter(options))} is "):
        Knowledge(**options)
