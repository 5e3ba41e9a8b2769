"""What the two APIs refuse, as checks. `check_anthropic` and `check_openai` raise AssertionError saying what."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

_ID = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")
_BLOCKS = {
    "text": ({"type", "text"}, {"cache_control"}),
    "thinking": ({"type", "thinking", "signature"}, set()),
    "redacted_thinking": ({"type", "data"}, set()),
    "tool_use": ({"type", "id", "name", "input"}, {"cache_control"}),
    "tool_result": ({"type", "tool_use_id"}, {"content", "is_error", "cache_control"}),
    "image": ({"type", "source"}, {"cache_control"}),
    "document": ({"type", "source"}, {"cache_control", "title", "context", "citations"}),
}
_SPOKEN_BY = {
    "thinking": "assistant",
    "redacted_thinking": "assistant",
    "tool_use": "assistant",
    "tool_result": "user",
}


def check_anthropic(sent: dict[str, Any]) -> None:
    json.dumps(sent, allow_nan=False)  # plain data
    assert set(sent) == {"system", "messages"}
    assert isinstance(sent["system"], str)
    messages = sent["messages"]
    roles = [message["role"] for message in messages]
    assert set(roles) <= {"user", "assistant"}
    assert not roles or roles[0] == "user", "the first message is the user's"
    assert all(a != b for a, b in itertools.pairwise(roles)), "roles alternate"
    ids: set[str] = set()
    waiting: list[str] = []
    marked = 0
    for message in messages:
        assert set(message) == {"role", "content"}
        content = message["content"]
        assert content, "no message is empty"
        results = [block["tool_use_id"] for block in content if block["type"] == "tool_result"]
        assert sorted(results) == sorted(waiting), "all calls are answered by the next message, and nothing else is"
        assert all(block["type"] == "tool_result" for block in content[: len(results)]), "results come first"
        waiting = []
        for block in content:
            _check_block(block, message["role"])
            marked += "cache_control" in block
            if block["type"] == "tool_use":
                assert block["id"] not in ids, "ids of calls are unique"
                ids.add(block["id"])
                waiting.append(block["id"])
    assert not waiting, "no call is left open"
    assert marked <= 4
    if messages and roles[-1] == "assistant" and messages[-1]["content"][-1]["type"] == "text":
        text = messages[-1]["content"][-1]["text"]
        assert text == text.rstrip(), "the last assistant message does not end with white space"


def _check_block(block: dict[str, Any], role: str) -> None:
    kind = block["type"]
    required, optional = _BLOCKS[kind]
    assert required <= set(block) <= required | optional, block
    assert _SPOKEN_BY.get(kind, role) == role, block
    if kind == "text":
        assert block["text"].strip(), "no text is blank"
    if kind == "thinking":
        assert block["thinking"]
        assert block["signature"]
    if kind == "tool_use":
        assert _ID.match(block["id"])
        assert _ID.match(block["name"])
        assert isinstance(block["input"], dict)
    if kind == "tool_result" and isinstance(block.get("content"), list):
        for part in block["content"]:
            assert part["type"] in ("text", "image", "document")
            _check_block(part, "user")
    if kind in ("image", "document"):
        assert block["source"]["type"] in ("base64", "url", "text", "content")


def check_openai(sent: list[dict[str, Any]]) -> None:
    json.dumps(sent, allow_nan=False)
    ids: set[str] = set()
    waiting: list[str] = []
    before = ""
    for at, message in enumerate(sent):
        role, content = message["role"], message["content"]
        assert role != "system" or at == 0
        if role == "tool":
            assert message["tool_call_id"] in waiting, "a tool message answers a call just before it"
            waiting.remove(message["tool_call_id"])
            assert isinstance(content, str)
            assert content
            before = role
            continue
        assert not waiting, "all calls are answered before anyone else speaks"
        assert role != before, "roles alternate"
        before = role
        if role == "assistant":
            calls = message.get("tool_calls")
            assert content or calls
            for call in calls or []:
                assert call["type"] == "function"
                assert _ID.match(call["id"])
                assert call["id"] not in ids
                assert _ID.match(call["function"]["name"])
                assert isinstance(json.loads(call["function"]["arguments"]), dict)
                ids.add(call["id"])
                waiting.append(call["id"])
        elif isinstance(content, str):
            assert role in ("system", "user")
            assert content.strip()
        else:
            assert role == "user"
            assert content
            for part in content:
                assert part["type"] in ("text", "image_url")
                assert part["type"] != "text" or part["text"].strip()
    assert not waiting
