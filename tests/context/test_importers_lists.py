"""Lists of messages and trajectories: Anthropic's, OpenAI's, SWE-agent's; what real ones are like."""

from __future__ import annotations

from typing import Any

import pytest
from importing_files import blocks, lines, messages, places, put, said, tree

from chronicle_py import Store
from chronicle_py.context import ContextManager

HELLO = {"role": "user", "content": "Hello"}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}


def call(id: str, arguments: Any = '{"q": 1}', name: str = "find") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def calling(*calls: Any, content: Any = None) -> dict[str, Any]:
    return {"role": "assistant", "content": content, "tool_calls": list(calls)}


def use(id: str, input: Any, name: str = "find") -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": input}


def result(id: str, content: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": content}


def test_content_is_a_text_a_list_of_blocks_or_null_beside_calls(store: Store) -> None:
    put(store, [HELLO, {"role": "assistant", "content": [{"type": "text", "text": "Hi"}, "you"]}, calling(call("c1"))])
    assert said(store) == ["Hello", "Hi you", "[find]"]
    assert [message.participant for message in messages(store)] == ["user", "assistant", "assistant"]


def test_blocks_of_anthropics_stay_as_they_are(store: Store) -> None:
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    odd = {"type": "server_tool_use", "id": "x", "name": "web", "input": {}}
    answer = {"type": "tool_result", "tool_use_id": "t", "content": [IMAGE], "is_error": True}
    contents = [[IMAGE, {"type": "text", "text": "?"}], [thinking, odd, use("t", {"a": 1})], [answer]]
    roles = ("user", "assistant", "user")
    put(store, [{"role": role, "content": content} for role, content in zip(roles, contents, strict=True)])
    assert blocks(store) == contents


def test_parts_of_openais_become_blocks(store: Store) -> None:
    parts = [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
        {"type": "image_url", "image_url": {"url": "https://x/y.png", "detail": "low"}},
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"}},
        {"type": "refusal", "refusal": "no"},
    ]
    put(store, [{"role": "user", "content": parts}])
    assert blocks(store) == [
        [
            {"type": "text", "text": "see"},
            IMAGE,
            {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}},
            {"type": "audio", "source": {"type": "base64", "media_type": "audio/mp3", "data": "AAAA"}},
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "AAAA"},
                "title": "a.pdf",
            },
            {"type": "text", "text": "no"},
        ]
    ]


def test_calls_and_the_output_of_tools_become_blocks(store: Store) -> None:
    output = {"role": "tool", "tool_call_id": "c1", "content": "found"}
    put(store, [HELLO, calling(call("c1"), call("c2"), content="I look."), output, {**output, "tool_call_id": "c2"}])
    assert blocks(store)[1:] == [
        [{"type": "text", "text": "I look."}, use("c1", {"q": 1}), use("c2", {"q": 1})],
        [result("c1", "found")],
        [result("c2", "found")],
    ]
    assert messages(store)[2].participant == "tool"


@pytest.mark.parametrize("arguments", ['{"q": ', "not json", "[1]", '"text"'])
def test_arguments_that_are_no_object_are_kept_as_the_text_they_are(store: Store, arguments: str) -> None:
    done = put(store, [calling(call("c1", arguments))])
    assert blocks(store) == [[use("c1", arguments)]]
    assert done.faults == []


@pytest.mark.parametrize("arguments", ["", None, "{}"])
def test_no_arguments_are_an_empty_input(store: Store, arguments: Any) -> None:
    put(store, [calling(call("c1", arguments))])
    assert blocks(store) == [[use("c1", {})]]


def test_a_result_whose_call_is_not_in_the_file_keeps_its_id_and_compiles_as_text(store: Store) -> None:
    put(store, [HELLO, {"role": "tool", "tool_call_id": "gone", "content": "found"}])
    assert blocks(store)[1] == [result("gone", "found")]
    with ContextManager(store) as cm:
        [sent] = cm.compile().to_anthropic()["messages"]
    assert sent["role"] == "user"
    assert {block["type"] for block in sent["content"]} == {"text"}
    assert "gone" in sent["content"][1]["text"]


def test_the_output_of_a_tool_is_no_other_speaker(store: Store) -> None:
    put(store, [HELLO, calling(call("c1")), {"role": "tool", "tool_call_id": "c1", "content": "found"}])
    with ContextManager(store) as cm:
        sent = cm.compile().to_anthropic()["messages"]
    assert sent[0]["content"][0]["text"] == "Hello"
    assert [message["role"] for message in sent] == ["user", "assistant", "user"]


def test_the_older_form_of_calls_is_read(store: Store) -> None:
    old = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": '{"a": 2}'}}
    put(store, [old, {"role": "function", "name": "f", "content": "4"}])
    assert blocks(store) == [[use("call-0-0", {"a": 2}, "f")], [result("call-0-0", "4")]]


def test_an_objects_system_prompt_is_its_first_message(store: Store) -> None:
    put(store, {"model": "m", "system": [{"type": "text", "text": "Be kind."}], "messages": [HELLO]})
    assert [(message.role, message.text) for message in messages(store)] == [("system", "Be kind."), ("user", "Hello")]


def test_a_developer_speaks_as_the_system(store: Store) -> None:
    put(store, [{"role": "developer", "content": "Be kind."}, HELLO])
    first = messages(store)[0]
    assert (first.participant, first.role, first.metadata["role"]) == ("system", "system", "developer")


def test_what_a_model_thought_and_other_fields_are_kept(store: Store) -> None:
    put(
        store,
        [{"role": "assistant", "content": "4", "reasoning_content": "2 + 2", "name": "bot", "created": 1718000000}],
    )
    [message] = messages(store)
    assert blocks(store) == [[{"type": "thinking", "thinking": "2 + 2"}, {"type": "text", "text": "4"}]]
    assert message.metadata["name"] == "bot"
    assert message.timestamp == 1_718_000_000_000_000


def test_a_line_may_be_a_message_or_a_whole_conversation(store: Store) -> None:
    put(store, lines(HELLO, "{torn", {"role": "assistant", "content": "Hi"}))
    assert tree(store) == {"main": "Hello | Hi"}
    put(
        store,
        lines({"messages": [{"role": "user", "content": "One"}]}, {"messages": [{"role": "user", "content": "Two"}]}),
    )
    assert tree(store) == {"main": "Hello | Hi", "one": "One", "two": "Two"}


def test_bad_messages_are_named_and_left_out(store: Store) -> None:
    bad: list[Any] = [
        {"content": "x"},
        "text",
        {"role": "user", "content": 5},
        {"role": "user", "content": [1]},
        {"role": "a"},
    ]
    done = put(store, {"messages": [HELLO, *bad, {"role": "assistant", "content": "Hi"}]})
    assert said(store) == ["Hello", "Hi"]
    assert places(done) == [f"messages[{at}]" for at in range(1, 6)]


def test_what_no_payload_can_hold_is_replaced_and_named(store: Store) -> None:
    odd = [
        {"role": "user", "content": "half \ud83d", "n": 2**70},
        {"role": "user", "content": [{"type": "image", "source": {"type": "base64", "data": "%%%"}}]},
        {"role": "x" * 300, "content": "?"},
    ]
    done = put(store, [HELLO, *odd])
    assert said(store) == ["Hello", "half ?", "[image, whose data is no base64]"]
    assert messages(store)[1].metadata["n"] == str(2**70)
    assert places(done) == ["item 1", "item 2", "item 3"]
    replaced = [fault.what.endswith("that part was replaced") for fault in done.faults]
    assert replaced == [True, True, False]


# --- SWE-agent --------------------------------------------------------------------------------------------------------


def test_a_trajectory_is_read_with_its_calls_and_results(store: Store) -> None:
    history = [
        {"role": "system", "content": "Be an agent.", "agent": "main", "message_type": "system_prompt"},
        {"role": "assistant", "content": "I look.", "thought": "I look.", "action": "ls", "tool_calls": [call("c1")]},
        {"role": "tool", "content": "a.py", "tool_call_ids": ["c1"]},
        {"role": "assistant", "content": "b", "tool_calls": repr([call("c2"), call("c3")])},
        {"role": "tool", "content": [{"type": "text", "text": "both"}], "tool_call_ids": ["c2", "c3"]},
        {"role": "assistant", "content": "c", "tool_calls": "__import__('os')"},
    ]
    done = put(store, {"history": history, "trajectory": [], "info": {}})
    assert done.form == "SWE-agent trajectory"
    assert blocks(store)[1:] == [
        [{"type": "text", "text": "I look."}, use("c1", {"q": 1})],
        [result("c1", "a.py")],
        [{"type": "text", "text": "b"}, use("c2", {"q": 1}), use("c3", {"q": 1})],
        [result("c2", "both"), result("c3", "")],
        [{"type": "text", "text": "c"}],
    ]
    first, second = messages(store)[:2]
    assert (first.metadata["agent"], second.metadata["action"], "thought" in second.metadata) == ("main", "ls", False)


def test_thinking_of_a_trajectory_is_kept(store: Store) -> None:
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    put(store, {"history": [{"role": "assistant", "content": "a", "thinking_blocks": [thinking]}]})
    assert blocks(store) == [[thinking, {"type": "text", "text": "a"}]]


@pytest.mark.parametrize("id", ["\ud800", "a\ud800", ""])
def test_a_message_whose_id_cannot_be_kept_is_known_the_second_time(store: Store, id: str) -> None:
    file = [{"role": "user", "content": "hi", "id": id}, {"role": "assistant", "content": "ho"}]
    done = [put(store, file) for _ in range(3)]
    assert [(found.events, found.known) for found in done] == [(2, 0), (0, 2), (0, 2)]
    assert [info.name for info in store.branches()] == ["main"]
