"""Content blocks: what a caller gives, what is stored, and back."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronicle_py.context.blocks import Media, Text, Thinking, ToolResult, ToolUse, Unknown, parse, plain
from chronicle_py.errors import InvalidOperation


def test_a_str_is_one_text_block() -> None:
    assert parse("hello") == [Text("hello")]
    assert parse("") == [Text("")]


def test_each_known_kind_becomes_its_block() -> None:
    blocks = parse(
        [
            {"type": "text", "text": "a"},
            {"type": "thinking", "thinking": "hm", "signature": "sig"},
            {"type": "tool_use", "id": "t1", "name": "grep", "input": {"q": 1}},
            {"type": "tool_result", "tool_use_id": "t1", "content": "3 hits", "is_error": True},
            {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}},
        ]
    )
    assert blocks == [
        Text("a"),
        Thinking("hm", "sig"),
        ToolUse("t1", "grep", {"q": 1}),
        ToolResult("t1", "3 hits", True),
        Media("image", {"type": "url", "url": "https://x/y.png"}),
    ]


def test_a_single_block_or_dict_needs_no_list() -> None:
    assert parse(Text("a")) == [Text("a")]
    assert parse({"type": "text", "text": "a"}) == [Text("a")]
    assert parse(MappingProxyType({"type": "text", "text": "a"})) == [Text("a")]


def test_strings_blocks_and_dicts_mix_in_any_iterable() -> None:
    assert parse(iter(["a", Text("b"), {"type": "text", "text": "c"}])) == [Text("a"), Text("b"), Text("c")]


def test_a_tool_result_holds_blocks() -> None:
    given_blocks = {
        "type": "tool_result",
        "tool_use_id": "t",
        "content": [
            {"type": "text", "text": "a"},
            {"type": "image", "source": {"type": "url", "url": "u"}},
            {"type": "odd"},
        ],
    }
    [block] = parse([given_blocks])
    assert block == ToolResult("t", [Text("a"), Media("image", {"type": "url", "url": "u"}), Unknown({"type": "odd"})])
    assert plain(block) == given_blocks


def test_a_tool_result_without_content_has_empty_text() -> None:
    assert parse([{"type": "tool_result", "tool_use_id": "t"}]) == [ToolResult("t", "")]
    assert parse([{"type": "tool_result", "tool_use_id": "t", "content": None, "is_error": None}]) == [
        ToolResult("t", "")
    ]


def test_fields_that_are_not_named_here_are_kept() -> None:
    given_block = {"type": "text", "text": "a", "citations": [1], "cache_control": {"type": "ephemeral"}, "extra": 5}
    [block] = parse([given_block])
    assert isinstance(block, Text)
    assert block.extra == {"citations": [1], "cache_control": {"type": "ephemeral"}, "extra": 5}
    assert plain(block) == given_block


@pytest.mark.parametrize(
    "odd",
    [
        {"type": "server_tool_use", "id": "x"},
        {"type": "text", "text": 5},
        {"type": "text"},
        {"type": "tool_use", "id": "x", "name": "y"},
        {"type": "tool_use", "id": 5, "name": "y", "input": {}},
        {"type": "tool_result", "tool_use_id": "x", "content": 7},
        {"type": "image", "source": "nowhere"},
        {"type": ["text"], "text": "a"},
        {"no": "type"},
    ],
)
def test_an_unknown_or_malformed_block_is_kept_as_it_came(odd: dict[str, Any]) -> None:
    [block] = parse([odd])
    assert block == Unknown(odd)
    assert plain(block) == odd


@pytest.mark.parametrize("bad", [None, 5, b"bytes", [None], [["a"]], [5], object()])
def test_what_is_no_content_is_refused(bad: object) -> None:
    with pytest.raises(InvalidOperation, match="content is a str, or a list"):
        parse(bad)


@pytest.mark.parametrize(
    "bad",
    [Text(5), ToolUse("a", None, {}), ToolResult("a", 5), Thinking(None), Media("pdf", {}), Media("image", "x")],  # type: ignore[arg-type]
)
def test_a_block_with_a_field_of_the_wrong_type_is_refused(bad: object) -> None:
    with pytest.raises(InvalidOperation, match="content is a str, or a list"):
        parse([bad])


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**31), 2**31) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
_extra = st.dictionaries(st.sampled_from(["cache_control", "citations", "title"]), _json, max_size=2)
_flat = st.one_of(
    st.builds(lambda t, e: {"type": "text", "text": t, **e}, st.text(), _extra),
    st.builds(lambda t, e: {"type": "thinking", "thinking": t, **e}, st.text(), _extra),
    st.builds(lambda i, v, e: {"type": "tool_use", "id": i, "name": "n", "input": v, **e}, st.text(), _json, _extra),
    st.builds(
        lambda u, k, e: {"type": k, "source": {"type": "url", "url": u}, **e},
        st.text(),
        st.sampled_from(["image", "document", "audio", "video"]),
        _extra,
    ),
    st.dictionaries(st.text(max_size=6), _json, max_size=4),
)
_blocks = st.lists(
    _flat | st.builds(lambda c: {"type": "tool_result", "tool_use_id": "t", "content": c}, st.lists(_flat, max_size=3)),
    max_size=5,
)


@given(_blocks)
def test_blocks_come_back_as_they_were_given(given_blocks: list[dict[str, Any]]) -> None:
    blocks = parse(given_blocks)
    assert [plain(block) for block in blocks] == given_blocks
    assert parse(blocks) == blocks
