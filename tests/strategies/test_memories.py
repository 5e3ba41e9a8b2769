"""Summaries: planned, taken in, merged, void, shared, found."""

from __future__ import annotations

import msgspec
import pytest
from talk import Talk, text_of
from test_chunks import chunks, talk_with

from chronicle_py.context.payloads import SUMMARY, SummaryPayload
from chronicle_py.strategies import Work


def ids(talk: Talk) -> list[str]:
    return [info.id for info in talk.strategy.summaries(talk.state)]


def works(talk: Talk) -> list[tuple[int, int, int]]:
    return [(work.level, work.first_seq, work.last_seq) for work in talk.strategy.plan(talk.state)]


def test_work_names_exactly_the_messages_of_its_chunk() -> None:
    talk = talk_with()
    talk.says(9)
    (work,) = talk.strategy.plan(talk.state)
    assert work.level == 1
    assert work.source_seqs == (1, 2, 3, 4, 5)
    assert work.sources == tuple(talk.viewed[seq].id for seq in range(1, 6))
    assert (work.first, work.last) == (talk.viewed[1].id, talk.viewed[5].id)


def test_merges_come_as_soon_as_enough_are_unmerged_up_to_the_third_level() -> None:
    talk = talk_with()
    talk.says(8 + 9 * 5 + 5)
    talk.drain()
    assert ids(talk) == [
        "L1-0", "L1-1", "L1-2", "L2-0", "L1-3", "L1-4", "L1-5", "L2-1", "L1-6", "L1-7", "L1-8", "L2-2", "L3-0", "L1-9",
    ]  # fmt: skip
    top = talk.strategy.summary(talk.state, "L3-0")
    assert top.payload.sources == ("L2-0", "L2-1", "L2-2")
    assert (top.payload.first_seq, top.payload.last_seq) == (1, 45)
    assert talk.strategy.summary(talk.state, "L2-1").merged_into == "L3-0"
    assert talk.strategy.summary(talk.state, "L1-4").merged_into == "L2-1"
    assert top.merged_into is None
    assert talk.shown() == ["L3-0", "L1-9"]


def test_a_plan_is_a_sequence_oldest_first() -> None:
    talk = talk_with()
    talk.says(60)
    for _ in range(4):
        talk.summarize(talk.strategy.plan(talk.state)[0])
    plan = talk.strategy.plan(talk.state)
    assert works(talk)[0] == (1, 16, 20)  # the merge of the first three was made
    assert [plan[at] for at in range(len(plan))] == list(plan)
    assert plan[-1] == list(plan)[-1]
    assert plan[1:3] == list(plan)[1:3]
    with pytest.raises(IndexError):
        plan[len(plan)]
    firsts = [work.first_seq for work in plan]
    assert firsts == sorted(firsts)


def test_without_a_hierarchy_there_is_one_level() -> None:
    talk = talk_with(hierarchical=False)
    talk.says(60)
    talk.drain()
    assert {work.level for work in talk.asked} == {1}
    assert talk.shown() == [f"L1-{at}" for at in range(11)]


def test_the_first_summary_of_a_chunk_counts() -> None:
    talk = talk_with()
    talk.says(9)
    (work,) = talk.strategy.plan(talk.state)
    talk.summarize(work, "the first")
    before = talk.state
    talk.append(SUMMARY, talk.strategy.complete(work, talk.store("the second"), 2))
    assert talk.state == before


def test_a_summary_of_what_has_changed_since_is_ignored() -> None:
    talk = talk_with()
    talk.says(9)
    (work,) = talk.strategy.plan(talk.state)
    talk.edit(3, "something else")
    before = talk.state
    talk.append(SUMMARY, talk.strategy.complete(work, talk.store("stale"), 1))
    assert talk.state == before
    assert works(talk) == [(1, 1, 5)]


@pytest.mark.parametrize("change", ["edit", "remove"])
def test_changing_a_source_voids_its_summary_and_every_merge_above(change: str) -> None:
    talk = talk_with()
    talk.says(8 + 9 * 5)
    talk.drain()
    assert talk.shown() == ["L3-0"]
    if change == "edit":
        talk.edit(22, "changed")
    else:
        talk.remove(22)
    assert talk.shown() == ["L2-0", "L1-3", "L1-5", "L2-2"]
    assert set(ids(talk)).isdisjoint({"L1-4", "L2-1", "L3-0"})
    assert talk.strategy.summary(talk.state, "L2-1") is None
    assert works(talk) == [(1, 21, 25)]
    assert talk.raw() == [seq for seq in [*range(21, 26), *range(46, 54)] if seq in talk.viewed]
    talk.drain()
    assert talk.shown() == ["L3-1"]


def test_keys_stand_for_sources_and_for_how_they_are_asked() -> None:
    talk = talk_with()
    talk.says(9)
    key = talk.strategy.plan(talk.state)[0].key

    def under(**options: object) -> str:
        other = talk.under(msgspec.structs.replace(talk.strategy, **options))
        return str(other.strategy.plan(other.state)[0].key)

    assert under(l1_budget_tokens=5, recent_window_tokens=30, enforce_budget=False) == key
    for options in (
        {"summary_target_tokens": 30},
        {"compression_model": "m"},
        {"system_prompt": "x"},
        {"chunk_prompt": "x"},
    ):
        other = under(**options)
        assert other[:32] == key[:32]
        assert other[32:] != key[32:]
    talk.edit(2, "new text")
    assert talk.strategy.plan(talk.state)[0].key[:32] != key[:32]


def test_a_key_does_not_depend_on_the_memories_shown_along() -> None:
    talk = talk_with()
    talk.says(14)
    second = talk.strategy.plan(talk.state)[1].key
    talk.tick()
    assert talk.strategy.plan(talk.state)[0].key == second


def test_another_branch_adopts_what_it_would_have_made() -> None:
    talk = talk_with()
    talk.says(8 + 9 * 5)
    other = talk.fork()
    talk.drain()
    made = {}
    for event in talk.events:
        if event.type == SUMMARY:
            payload = msgspec.convert(event.payload, SummaryPayload)
            made[payload.key] = payload
    other.say("system", "this branch is another one")
    while plan := other.strategy.plan(other.state):
        other.adopt(made[plan[0].key])
    assert other.asked == []
    assert other.shown() == ["L3-0"]


def test_merges_are_adopted_where_their_sources_have_other_numbers() -> None:
    talk = talk_with()
    talk.says(8 + 3 * 5)
    other = talk.fork()
    talk.drain()
    merge = talk.events[-1].payload
    plan = list(other.strategy.plan(other.state))
    for work in reversed(plan):
        other.summarize(work, f"summary of {work.first_seq} to {work.last_seq}, level 1")
    assert [entry.number for entry in other.state.levels[0].unmerged] == [2, 1, 0]
    other.adopt(msgspec.convert(merge, SummaryPayload))
    assert other.shown() == ["L2-0"]


def test_another_configuration_closes_exactly_what_a_summary_names() -> None:
    talk = talk_with()
    talk.says(24)
    first = talk.strategy.plan(talk.state)[0]
    talk.summarize(first)
    other = talk.under(talk_with(target_chunk_tokens=80, recent_window_tokens=60).strategy)
    assert sorted(chunks(other)) == [[1, 2, 3, 4, 5], [6, 7, 8], [9, 10, 11, 12, 13, 14, 15, 16]]
    assert other.shown() == ["L1-0"]
    assert other.raw() == list(range(6, 25))


def test_unsummarised_chunks_that_overlap_it_dissolve() -> None:
    talk = talk_with()
    talk.says(24)
    second = talk.strategy.plan(talk.state)[1]
    assert second.source_seqs == (6, 7, 8, 9, 10)
    talk.summarize(second)
    other = talk.under(talk_with(target_chunk_tokens=80).strategy)
    # [1-8] and [9-16] dissolve; what is free behind the frontier forms chunks of any size
    assert sorted(chunks(other)) == [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10], [11, 12, 13, 14, 15, 16, 17, 18]]
    assert other.shown() == ["L1-0"]
    assert set(other.raw()) == set(range(1, 6)) | set(range(11, 25))


def test_a_summary_of_what_has_one_already_is_ignored() -> None:
    talk = talk_with()
    talk.says(24)
    talk.drain()
    before = ids(talk)
    for event in list(talk.events):
        if event.type == SUMMARY and event.payload["level"] == 1:
            payload = msgspec.convert(event.payload, SummaryPayload)
            overlapping = msgspec.structs.replace(payload, key="foreign", source_seqs=payload.source_seqs[1:])
            talk.adopt(overlapping)
    assert ids(talk) == before


@pytest.mark.parametrize("id", ["", "L1", "L1-", "L1-x", "L0-0", "L4-0", "L1-01", "l1-0", "L1-99", "L1-0 "])
def test_an_id_of_no_summary_finds_none(id: str) -> None:
    talk = talk_with()
    talk.says(9)
    talk.drain()
    assert talk.strategy.summary(talk.state, "L1-0").id == "L1-0"
    assert talk.strategy.summary(talk.state, id) is None


def test_a_request_shows_earlier_memories_then_the_chunk_as_text() -> None:
    talk = talk_with(compression_model="m", summary_target_tokens=30)
    talk.says(5)
    talk.call("a", text="look")
    talk.answer("a", text="found " * 400)
    talk.says(12)
    talk.tick()
    work = talk.strategy.plan(talk.state)[0]
    assert 6 in work.source_seqs
    request = talk.strategy.request(talk.state, work, talk)
    assert (request.target_tokens, request.max_tokens, request.temperature, request.model) == (30, 45, 0.0, "m")
    assert request.entries[0].summary == "L1-0"
    assert (request.entries[0].role, request.entries[0].participant) == ("assistant", "Claude")
    assert [entry.seq for entry in request.entries[1:]] == list(work.source_seqs)
    texts = {entry.seq: text_of(entry) for entry in request.entries}
    assert texts[6] == 'look\n[Tool call bash: {"cmd":"ls"}]'
    assert texts[7].startswith("[Result of bash: found found")
    assert texts[7].endswith("… [cut, 400 tokens in all]]")
    assert "30 tokens" in request.instruction


def test_a_request_for_an_older_chunk_shows_nothing_of_what_came_later() -> None:
    talk = talk_with()
    talk.says(30)
    talk.drain()
    talk.edit(3, "changed")
    (work,) = [work for work in talk.strategy.plan(talk.state) if work.level == 1]
    assert [entry.seq for entry in talk.strategy.request(talk.state, work, talk).entries] == [1, 2, 3, 4, 5]


def test_a_request_for_a_merge_shows_its_sources() -> None:
    talk = talk_with()
    talk.says(8 + 3 * 5)
    while (plan := talk.strategy.plan(talk.state))[0].level != 2:
        talk.tick()
    work: Work = plan[0]
    request = talk.strategy.request(talk.state, work, talk)
    assert [entry.summary for entry in request.entries] == ["L1-0", "L1-1", "L1-2"]
    assert "3 memories" in request.instruction
