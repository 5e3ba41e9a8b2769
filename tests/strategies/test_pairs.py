"""Pairs: which messages belong together, and what becomes of halves."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from chronicle_py.context.blocks import Block, Media, Text, ToolResult, ToolUse
from chronicle_py.context.payloads import Call
from chronicle_py.strategies.pairs import answered, follow, match, whole

A, B = Call("a", "bash"), Call("b", "edit")
USE_A, USE_B = ToolUse("a", "bash", {"cmd": "ls"}), ToolUse("b", "edit", {})
RESULT_A, RESULT_B = ToolResult("a", "files"), ToolResult("b", "done")


def test_a_message_that_answers_an_open_call_belongs_to_the_run() -> None:
    assert follow((A, B), (), ["b"]) == (True, (A,))
    assert follow((A,), (), ["a"]) == (True, ())


def test_a_message_that_answers_nothing_open_ends_the_run() -> None:
    assert follow((A,), (), []) == (False, ())
    assert follow((A,), (), ["b"]) == (False, ())


def test_calls_of_its_own_close_those_before() -> None:
    assert follow((A, B), (A,), ["a"]) == (True, (A,))
    assert follow((A,), (B,), []) == (False, (B,))


def test_a_repeated_id_is_answered_as_often_as_it_was_called() -> None:
    assert follow((A, A), (), ["a"]) == (True, (A,))
    assert answered((A, A), ["a", "a", "a"]) == ["bash", "bash", None]


def test_whole_pairs_are_left_as_they_are() -> None:
    contents: list[list[Block]] = [[Text("look"), USE_A, USE_B], [RESULT_A], [RESULT_B]]
    assert all(new is old for new, old in zip(whole(contents), contents, strict=True))
    assert match(contents) == {(0, 1): "bash", (0, 2): "edit", (1, 0): "bash", (2, 0): "edit"}


def test_a_call_without_answer_becomes_text_that_names_it() -> None:
    assert whole([[Text("look"), USE_A]]) == [
        [Text("look"), Text('[Tool call bash (a), without a result: {"cmd":"ls"}]')]
    ]


def test_an_answer_without_call_becomes_text_and_keeps_its_media() -> None:
    image = Media("image", {"type": "url", "url": "x"})
    assert whole([[ToolResult("a", [Text("see"), image])]]) == [
        [Text("[Result of tool call a, whose call is not here: see\n[image]]"), image]
    ]


def test_ids_match_only_within_the_run() -> None:
    contents: list[list[Block]] = [[USE_A], [Text("wait")], [RESULT_A]]
    texts = [[block.text for block in blocks if isinstance(block, Text)] for blocks in whole(contents)]
    assert [len(found) for found in texts] == [1, 1, 1]


def test_one_of_two_calls_unanswered_leaves_the_other_pair_whole() -> None:
    first, second = whole([[USE_A, USE_B], [RESULT_B]])
    assert [type(block) for block in first] == [Text, ToolUse]
    assert second == [RESULT_B]


_block = st.one_of(
    st.just(Text("t")),
    st.builds(lambda id: ToolUse(id, f"tool-{id}", {}), st.sampled_from("abc")),
    st.builds(lambda id: ToolResult(id, "r"), st.sampled_from("abc")),
)


@given(st.lists(st.lists(_block, max_size=4), max_size=6))
def test_what_comes_out_is_whole_and_stays_so(contents: list[list[Block]]) -> None:
    found = whole(contents)
    assert None not in match(found).values()
    again = whole(found)
    assert all(new is old for new, old in zip(again, found, strict=True))
    assert [sum(type(b) is not Text for b in blocks) for blocks in found] == [
        sum(match(contents).get((at, place)) is not None for place in range(len(blocks)))
        for at, blocks in enumerate(contents)
    ]
