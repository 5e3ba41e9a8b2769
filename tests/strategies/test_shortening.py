"""How content is shortened."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from talk import WORDS

from chronicle_py.context.blocks import Block, Media, Text, Thinking, ToolResult, ToolUse
from chronicle_py.context.counting import count_blocks
from chronicle_py.context.tokens import tokenizer
from chronicle_py.strategies.shortening import cut_input, cut_message, cut_text, marked

BPE = tokenizer()


def test_a_text_that_fits_is_left_alone() -> None:
    assert cut_text("one two three", 3, WORDS) == "one two three"


def test_a_longer_text_is_cut_and_says_how_long_it_was() -> None:
    text = " ".join(f"word{i}" for i in range(100))
    cut = cut_text(text, 30, WORDS)
    assert cut.endswith("… [cut, 100 tokens in all]")
    assert 20 <= WORDS.count(cut) <= 30
    assert text.startswith(cut[: cut.index("…")])


def test_a_limit_below_the_note_leaves_the_note() -> None:
    assert cut_text("a b c d e f g h i j", 1, WORDS) == "… [cut, 10 tokens in all]"


@given(st.text(min_size=200, max_size=600), st.integers(20, 60))
def test_a_cut_text_never_has_more_than_the_limit(text: str, limit: int) -> None:
    cut = cut_text(text, limit, BPE)
    assert BPE.count(cut) <= limit
    assert cut == text or text.startswith(cut[: cut.rindex("…")])


def test_the_longest_blocks_of_a_message_are_cut_and_none_is_dropped() -> None:
    blocks: list[Block] = [
        Text("short one"),
        Thinking("deep " * 10),
        ToolUse("a", "bash", {}),
        ToolResult("a", "long " * 200),
        ToolResult("b", [Text("long " * 200), Media("image", {"type": "url", "url": "x"}, {"token_estimate": 7})]),
    ]
    tokens = count_blocks(blocks, WORDS)[0]
    cut = cut_message(blocks, tokens, 120, WORDS)
    assert [type(block) for block in cut] == [type(block) for block in blocks]
    assert cut[:3] == blocks[:3]
    assert count_blocks(cut, WORDS)[0] <= 120
    assert [block.tool_use_id for block in cut if isinstance(block, ToolResult)] == ["a", "b"]


def test_a_large_input_becomes_a_note_and_its_first_keys() -> None:
    call = ToolUse("a", "write", {"path": "a b", "mode": "x", "text": "long " * 50, "last": 1})
    cut = cut_input(call, 10, WORDS)
    assert cut.input == {"_truncated": True, "_originalTokens": 52, "path": "a b", "mode": "x"}
    assert cut_input(call, 60, WORDS) is call
    assert cut_input(ToolUse("a", "write", "long " * 50), 10, WORDS).input == {
        "_truncated": True, "_originalTokens": 51,
    }  # fmt: skip


@pytest.mark.parametrize("content", ["", []])
def test_an_empty_result_needs_no_marker(content: str | list[Block]) -> None:
    result = ToolResult("a", content)
    assert marked(result, "bash") is result


def test_a_marked_result_keeps_its_id_and_names_the_tool() -> None:
    assert marked(ToolResult("a", "files", is_error=True), "bash") == ToolResult(
        "a", "[An earlier result of bash, left out]", is_error=True
    )
