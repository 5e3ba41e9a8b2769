"""The forms of a compiled context: what both APIs accept, whatever was said."""

from __future__ import annotations

import json
from typing import Any

import pytest
from api_rules import check_anthropic, check_openai
from hypothesis import given
from hypothesis import strategies as st

from chronicle_py.context.blocks import Block, Media, Text, Thinking, ToolResult, ToolUse, Unknown, parse
from chronicle_py.context.compiled import Compiled, system_text
from chronicle_py.context.injections import Injection, checked, places
from chronicle_py.context.turns import CompiledMessage
from chronicle_py.errors import InvalidOperation

PNG = {"type": "base64", "media_type": "image/png", "data": "cGl4ZWxz"}
PDF = {"type": "base64", "media_type": "application/pdf", "data": "cGRm"}


def said(participant: str, *content: Any, cache: bool = False) -> CompiledMessage:
    role = "assistant" if participant == "Claude" else "user"
    return CompiledMessage(participant, role, parse(list(content)), 1, id="id", cache=cache)


def anthropic(*messages: CompiledMessage, system: str = "") -> list[tuple[str, list[dict[str, Any]]]]:
    sent = Compiled(list(messages), system).to_anthropic()
    check_anthropic(sent)
    return [(message["role"], message["content"]) for message in sent["messages"]]


def openai(*messages: CompiledMessage, system: str = "") -> list[dict[str, Any]]:
    sent = Compiled(list(messages), system).to_openai()
    check_openai(sent)
    return sent


def text(*lines: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": line} for line in lines]


CALL = ToolUse("t1", "grep", {"q": "needle"})
ANSWER = ToolResult("t1", "found it")


# --- turns ----------------------------------------------------------------------------------------------------------


def test_neighbours_of_one_role_are_one_message() -> None:
    assert anthropic(said("User", "a"), said("User", "b"), said("Claude", "c"), said("Claude", "d")) == [
        ("user", text("a", "b")),
        ("assistant", text("c", "d")),
    ]
    assert openai(said("User", "a"), said("User", "b"), said("Claude", "c", "d")) == [
        {"role": "user", "content": "a\n\nb"},
        {"role": "assistant", "content": "c\n\nd"},
    ]


def test_one_name_speaks_without_it_and_two_are_told_apart() -> None:
    assert anthropic(said("Alice", "hi")) == [("user", text("hi"))]
    both = (said("Alice", "hi", "there"), said("Bob", "hello"), said("Claude", "yes?"), said("Context Manager", "new"))
    assert anthropic(*both) == [
        ("user", text("Alice: hi", "there", "Bob: hello")),
        ("assistant", text("yes?")),
        ("user", text("new")),
    ]


def test_a_tool_that_only_answers_and_an_injection_are_no_second_speaker() -> None:
    injected = CompiledMessage("injection:rag", "user", [Text("facts")], 1)
    found = anthropic(said("User", "look"), said("Claude", CALL), said("tool", ANSWER), injected)
    assert found[0] == ("user", text("look"))
    assert found[2][1][1:] == text("facts")


def test_a_call_and_its_result_in_one_message_become_two_turns() -> None:
    found = anthropic(said("User", "go"), said("Claude", "I look.", CALL, ANSWER, "There."))
    assert [role for role, _ in found] == ["user", "assistant", "user", "assistant"]
    assert [block["type"] for _, content in found for block in content] == [
        "text", "text", "tool_use", "tool_result", "text",
    ]  # fmt: skip


def test_results_come_first_in_their_message() -> None:
    found = anthropic(said("User", "go"), said("Claude", CALL), said("User", "here", ANSWER))
    assert [block["type"] for block in found[2][1]] == ["tool_result", "text"]


def test_openai_has_calls_as_json_and_results_as_messages_of_their_own() -> None:
    failed = ToolResult("t1", [Text("no such file"), Media("image", PNG)], is_error=True)
    assert openai(said("User", "go"), said("Claude", "I look.", CALL), said("tool", failed), system="Be brief.") == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {"id": "t1", "type": "function", "function": {"name": "grep", "arguments": '{"q":"needle"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "t1", "content": "Error: no such file\n[image: image/png]"},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,cGl4ZWxz"}}]},
    ]


def test_half_a_pair_is_text_that_names_the_call() -> None:
    assert anthropic(said("User", "go"), said("Claude", CALL)) == [
        ("user", text("go")),
        ("assistant", text('[Tool call grep (t1), without a result: {"q":"needle"}]')),
    ]
    assert anthropic(said("User", ANSWER)) == [
        ("user", text("[Result of tool call t1, whose call is not here: found it]")),
    ]
    late = anthropic(said("User", "a"), said("Claude", CALL), said("User", "b"), said("Claude", "c"), said("t", ANSWER))
    assert {block["type"] for _, content in late for block in content} == {"text"}


def test_ids_that_come_again_and_names_with_colons_are_made_acceptable() -> None:
    lesson = ToolUse("call:1", "lessons:create", "no json")
    pair = (said("Claude", lesson), said("tool", ToolResult("call:1")))
    found = anthropic(said("User", "go"), *pair, *pair)
    uses = [block for _, content in found for block in content if block["type"] == "tool_use"]
    assert [(use["id"], use["name"], use["input"]) for use in uses] == [
        ("call_1", "lessons_create", {"input": "no json"}),
        ("call_1-2", "lessons_create", {"input": "no json"}),
    ]
    assert found[2][1] == [{"type": "tool_result", "tool_use_id": "call_1"}]
    assert openai(said("User", "go"), *pair)[2] == {"role": "tool", "tool_call_id": "call_1", "content": "(no output)"}


def test_the_first_result_of_a_call_counts() -> None:
    found = anthropic(said("User", "go"), said("Claude", CALL), said("tool", ANSWER, ToolResult("t1", "again")))
    assert found[2][1][0]["content"] == "found it"
    assert found[2][1][1] == text("[Result of tool call t1, whose call is not here: again]")[0]


# --- blocks ---------------------------------------------------------------------------------------------------------


def test_thinking_goes_to_anthropic_with_its_signature_and_nowhere_else() -> None:
    messages = said("User", "go"), said("Claude", Thinking("hm", "sig"), Thinking("unsigned"), "yes")
    assert anthropic(*messages)[1][1] == [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "text", "text": "yes"},
    ]
    assert openai(*messages)[1] == {"role": "assistant", "content": "yes"}


def test_media_are_sent_where_they_are_known_and_named_where_not() -> None:
    sound = Media("audio", {"type": "base64", "media_type": "audio/wav", "data": "d2F2"})
    paper = Media("document", PDF, {"title": "Paper", "weight": 3})
    link = Media("image", {"type": "url", "url": "https://example.org/a.png"})
    assert anthropic(said("User", Media("image", PNG), link, paper, sound))[0][1] == [
        {"type": "image", "source": PNG},
        {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
        {"type": "document", "source": PDF, "title": "Paper"},
        {"type": "text", "text": "[audio: audio/wav]"},
    ]
    assert openai(said("User", link, paper))[0]["content"] == [
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "text", "text": "[document 'Paper': application/pdf]"},
    ]


def test_what_was_thought_last_is_left_out_and_its_neighbours_join() -> None:
    hidden = {"type": "redacted_thinking", "data": "xx"}
    assert anthropic(said("User", "go"), said("Claude", "so", Thinking("hm", "sig"), hidden), said("User", "stop")) == [
        ("user", text("go")),
        ("assistant", text("so")),
        ("user", text("stop")),
    ]
    interrupted = said("Claude", hidden, Thinking("hm", "sig"))
    assert anthropic(said("User", "go"), interrupted, said("User", "stop")) == [("user", text("go", "stop"))]
    assert anthropic(said("User", "go"), interrupted) == [("user", text("go"))]
    assert anthropic(interrupted) == [("user", text("[The conversation starts here.]"))]
    found = anthropic(said("User", "go"), said("Claude", CALL), interrupted, said("tool", ANSWER), interrupted)
    assert [block["type"] for _, content in found for block in content] == ["text", "tool_use", "tool_result"]
    assert anthropic(said("User", "go"), interrupted, said("Claude", "yes"))[1][1][-1] == text("yes")[0]


def test_a_turn_of_thinking_between_a_call_and_its_result_does_not_part_them() -> None:
    between = said("User", "wait"), said("Claude", Thinking("hm", "sig"))
    found = anthropic(said("User", "go"), said("Claude", CALL), *between, said("tool", ANSWER))
    assert [block["type"] for block in found[2][1]] == ["tool_result", "text"]


@pytest.mark.parametrize("signature", [None, ""])
def test_thinking_without_a_signature_is_not_sent(signature: str | None) -> None:
    assert anthropic(said("User", "go"), said("Claude", Thinking("hm", signature), "yes"))[1][1] == text("yes")


@pytest.mark.parametrize("nothing", ["", " \n", [], [Text(" ")]])
def test_an_error_that_says_nothing_says_so(nothing: Any) -> None:
    pair = said("User", "go"), said("Claude", CALL), said("tool", ToolResult("t1", nothing, is_error=True))
    assert anthropic(*pair)[2][1] == [
        {"type": "tool_result", "tool_use_id": "t1", "content": "(no output)", "is_error": True}
    ]
    assert openai(*pair)[2]["content"] == "Error: (no output)"


def test_the_media_of_an_error_stand_behind_the_results() -> None:
    paper = Media("document", {"type": "text", "data": "plain"})
    failed = ToolResult("t1", [Text("failed"), Media("image", PNG), paper, Media("audio", {})], is_error=True)
    calls = said("Claude", CALL, ToolUse("t2", "grep", {}))
    found = anthropic(said("User", "go"), calls, said("tool", failed, ToolResult("t2", "ok"), cache=True))
    assert found[2][1] == [
        {
            "type": "tool_result",
            "tool_use_id": "t1",
            "content": text("failed", "[image: image/png]", "[document]", "[audio]"),
            "is_error": True,
        },
        {"type": "tool_result", "tool_use_id": "t2", "content": "ok"},
        {"type": "image", "source": PNG},
        {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": "plain"},
            "cache_control": {"type": "ephemeral"},
        },
    ]
    then = anthropic(said("User", "go"), calls, said("tool", failed, ToolResult("t2", "ok")), said("User", "so?"))
    assert then[2][1][-1] == text("so?")[0]


def test_what_the_assistant_shows_is_named() -> None:
    paper = Media("document", {"type": "text", "data": "plain"}, {"title": "Paper"})
    shown = said("User", "draw"), said("Claude", Media("image", PNG), paper, "done")
    assert anthropic(*shown)[1] == ("assistant", text("[image: image/png]", "[document 'Paper']\nplain", "done"))
    assert openai(*shown)[1]["content"] == "[image: image/png]\n\n[document 'Paper']\nplain\n\ndone"


@pytest.mark.parametrize(
    ("kind", "source", "words"),
    [
        ("image", {**PNG, "data": ""}, "[image: image/png]"),
        ("image", {**PNG, "media_type": "image/svg+xml"}, "[image: image/svg+xml]"),
        ("image", {"type": "url", "url": " "}, "[image]"),
        ("image", {"type": "url", "url": "data:" + "x" * 999}, None),
        ("document", {"type": "content", "content": []}, "[document]"),
        ("document", {"type": "content", "content": [{"type": "text", "text": " "}]}, "[document]"),
        ("document", {"type": "text", "data": "\n"}, "[document]"),
    ],
)
def test_media_with_nothing_in_them_are_named(kind: str, source: dict[str, Any], words: str | None) -> None:
    block = Media(kind, source)
    if words is not None:
        assert anthropic(said("User", block)) == [("user", text(words))]
        assert openai(said("User", block)) == [{"role": "user", "content": words}]
    assert len(str(anthropic(said("Claude", block))[1][1])) < 300


def test_a_document_of_blocks_holds_text_and_images_alone() -> None:
    inside = [{"type": "text", "text": " "}, {"type": "text", "text": "a", "x": 1}, {"type": "image", "source": PNG}]
    inside += [
        {"type": "image", "source": {**PNG, "data": ""}},
        {"type": "video", "source": {"type": "url", "url": "v"}},
    ]
    paper = Media("document", {"type": "content", "content": inside}, {"title": "T" * 600, "context": ""})
    (block,) = anthropic(said("User", paper))[0][1]
    assert block["title"] == "T" * 500
    assert block["source"]["content"] == [
        *text("a"), {"type": "image", "source": PNG}, *text("[image: image/png]", "[video: v]"),
    ]  # fmt: skip
    assert openai(said("User", Media("document", {"type": "content", "content": inside[1:2]})))[0]["content"] == (
        "[document]\na"
    )


def test_unknown_blocks_are_sent_as_text_and_foreign_fields_are_not_sent() -> None:
    odd = {"type": "hologram", "x": 1}
    tagged = {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}, "mood": "good"}
    assert anthropic(said("User", odd, tagged))[0][1] == text('[hologram] {"type":"hologram","x":1}', "hi")


def test_blank_text_is_not_sent_and_something_always_is() -> None:
    assert anthropic(said("User", "", " \n"), said("Claude", "yes  ")) == [
        ("user", text("[The conversation starts here.]")),
        ("assistant", text("yes")),
    ]
    assert anthropic(said("User", " ")) == [("user", text("[The conversation starts here.]"))]
    assert anthropic(system="Be brief.") == [("user", text("[The conversation starts here.]"))]
    assert anthropic() == []


# --- cache breakpoints ----------------------------------------------------------------------------------------------


def test_breakpoints_stand_where_the_markers_are_and_are_four_at_most() -> None:
    turns = [said("User" if n % 2 == 0 else "Claude", f"m{n}", cache=True) for n in range(6)]
    marked = [c[0]["text"] for _, c in anthropic(*turns) if "cache_control" in c[0]]
    assert marked == ["m2", "m3", "m4", "m5"]


def test_a_breakpoint_after_what_cannot_bear_one_stands_before_it() -> None:
    found = anthropic(said("User", "go"), said("Claude", "so", Thinking("hm", "sig"), cache=True))
    assert found[1][1][0]["cache_control"] == {"type": "ephemeral"}
    moved = anthropic(said("User", "go"), said("Claude", CALL), said("User", "text", ANSWER, cache=True))
    assert [("cache_control" in block) for block in moved[2][1]] == [False, True]


def test_a_breakpoint_is_never_lost_to_thinking() -> None:
    thought = Thinking("hm", "sig")

    def marks(*messages: CompiledMessage) -> list[Any]:
        blocks = [block for _, content in anthropic(*messages) for block in content]
        return [block["text"] for block in blocks if "cache_control" in block]

    assert marks(said("User", "go"), said("Claude", "so", thought, cache=True), said("User", "on")) == ["so"]
    assert marks(said("User", "go"), said("Claude", thought, cache=True), said("User", "on")) == ["go"]
    assert marks(said("User", "go"), said("Claude", thought, cache=True), said("Claude", "yes")) == ["go"]
    assert marks(said("Claude", thought, cache=True), said("Claude", "yes")) == ["[The conversation starts here.]"]
    late = said("User", ToolResult("t9", "late"), cache=True)
    assert marks(said("User", "go"), late, said("User", "on")) == [
        "[Result of tool call t9, whose call is not here: late]"
    ]


# --- injections -----------------------------------------------------------------------------------------------------


def test_an_injection_never_comes_between_a_call_and_its_result() -> None:
    blocks: list[list[Block]] = [[Text("a")], [CALL], [ANSWER, Text("more")], [Text("b")]]
    assert places(blocks, 2) == (1, 3)
    assert places(blocks, 0) == (0, 1)
    assert places([[Text("go"), CALL], [ANSWER]], 0) == (0, 2)


def test_injections_are_checked() -> None:
    assert checked([Injection("rag", "system", "facts")])[0][1] == [Text("facts")]
    for wrong in ("facts", [{"namespace": "rag"}], [Injection("rag", "middle", "x")], [Injection("", "system", "x")]):  # type: ignore[arg-type]
        with pytest.raises((InvalidOperation, ValueError, Exception)) as found:
            checked(wrong)  # type: ignore[arg-type]
        assert type(found.value).__module__ == "chronicle_py.errors"


def test_system_text_joins_what_says_something() -> None:
    assert system_text([[Text("a"), Text("b")], [Text(" ")], [Media("image", PNG)]]) == "a\n\nb\n\n[image: image/png]"


# --- anything -------------------------------------------------------------------------------------------------------

ids = st.sampled_from(["t1", "t2", "c:3", "x" * 70])
words = st.sampled_from(["", " ", "hello", "hello  ", "Name: x", "line\nline"])
inputs = st.sampled_from([{}, {"q": 1}, {"deep": [{"x": float("nan")}, b"raw"]}, "text", None, [1]])
media = st.builds(
    Media,
    st.sampled_from(["image", "document", "audio", "video"]),
    st.sampled_from(
        [
            PNG,
            PDF,
            {},
            {**PNG, "data": ""},
            {**PDF, "data": ""},
            {**PNG, "media_type": "image/svg+xml"},
            {"type": "url", "url": "https://example.org/x"},
            {"type": "url", "url": ""},
            {"type": "text", "data": "plain"},
            {"type": "text", "data": " "},
            {"type": "content", "content": "plain"},
            {"type": "content", "content": " "},
            {"type": "content", "content": []},
            {"type": "content", "content": [{"type": "text", "text": " "}]},
            {"type": "content", "content": [{"type": "video", "source": PNG}, {"type": "image", "source": PNG}, "x"]},
            {"type": "content", "content": [{"type": "image", "source": {}}, {"type": "odd"}, 5, None]},
        ]
    ),
    st.sampled_from(
        [
            {},
            {"title": "T", "cache_control": {"type": "ephemeral"}},
            {"title": "", "context": 5, "citations": None},
            {"title": "T" * 600, "context": "c", "citations": {"enabled": True, "more": 1}},
        ]
    ),
)
inner = st.builds(Text, words) | media | st.builds(Unknown, st.sampled_from([{"type": "odd"}, {}]))
blocks = st.one_of(
    st.builds(Text, words),
    st.builds(Thinking, words, st.sampled_from([None, "", "sig", "sig"])),
    st.builds(ToolUse, ids, st.sampled_from(["grep", "mcpl:send", ""]), inputs),
    st.builds(ToolResult, ids, words | st.lists(inner, max_size=3), st.booleans()),
    inner,
    st.builds(lambda data: Unknown({"type": "redacted_thinking", "data": data}), st.sampled_from(["", "xx"])),
)
messages = st.builds(
    lambda who, content, real, cache: CompiledMessage(
        who, "assistant" if who == "Claude" else "user", content, 1, "id" if real else None, None, cache
    ),
    st.sampled_from(["User", "Alice", "Claude", "Claude", "injection:x"]),
    st.lists(blocks, max_size=4),
    st.booleans(),
    st.booleans(),
)


def said_in(message: CompiledMessage) -> bool:
    """Whether something of it is sent that a breakpoint may stand on."""
    return any(isinstance(block, Text) and block.text.strip() for block in message.blocks)


@given(st.lists(messages, max_size=10), st.sampled_from(["", "Be brief."]))
def test_whatever_was_said_both_apis_accept_it(found: list[CompiledMessage], system: str) -> None:
    compiled = Compiled(found, system)
    first = compiled.to_anthropic()
    check_anthropic(first)
    check_openai(compiled.to_openai())
    assert bool(first["messages"]) == bool(found or system)
    if any(message.cache and said_in(message) for message in found):
        assert any("cache_control" in block for sent in first["messages"] for block in sent["content"])
    assert compiled.to_anthropic() == first
    said_text = json.dumps(first)
    for message in found:
        for block in message.blocks:
            if isinstance(block, Text) and block.text.strip():
                assert json.dumps(block.text.rstrip())[1:-1] in said_text
