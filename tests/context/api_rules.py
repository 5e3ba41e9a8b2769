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


_THOUGHT = ("thinking", "redacted_thinking")
_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")


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
        assert content[-1]["type"] not in _THOUGHT, "no message ends in thinking"
        for block in content:
            _check_block(block, message["role"])
            if "cache_control" in block:
                marked += 1
                assert block["type"] not in _THOUGHT, "thinking bears no breakpoint"
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
    if kind == "redacted_thinking":
        assert block["data"]
    if kind == "tool_result":
        inner = block.get("content", "")
        assert "content" not in block or inner, "content is left out rather than empty"
        assert inner or not block.get("is_error"), "an error has content"
        for part in inner if isinstance(inner, list) else []:
            assert part["type"] in (("text",) if block.get("is_error") else ("text", "image", "document"))
            _check_block(part, "user")
        assert isinstance(inner, list) or not inner or inner.strip()
    if kind in ("image", "document"):
        assert role == "user", "media are the user's"
        _check_source(kind, block["source"])
    if kind == "document":
        assert all(block.get(name, "x").strip() for name in ("title", "context"))
        assert len(block.get("title", "")) <= 500
        assert isinstance(block.get("citations", {}).get("enabled", False), bool)


def _check_source(kind: str, source: dict[str, Any]) -> None:
    if source["type"] == "base64":
        assert set(source) == {"type", "media_type", "data"}
        assert source["media_type"] in (_IMAGES if kind == "image" else ("application/pdf",))
        assert source["data"]
    elif source["type"] == "url":
        assert set(source) == {"type", "url"}
        assert source["url"]
    elif source["type"] == "text":
        assert kind == "document"
        assert source["media_type"] == "text/plain"
        assert source["data"].strip()
    else:
        assert kind == "document"
        assert set(source) == {"type", "content"}
        assert source["type"] == "content"
        content = source["content"]
        assert content
        assert not isinstance(content, str) or content.strip()
        for part in content if isinstance(content, list) else []:
            assert part["type"] in ("text", "image"), "a document's content is text and images"
            _check_block(part, "user")


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
            assert content.strip()
            before = role
            continue
        assert not waiting, "all calls are answered before anyone else speaks"
        assert role != before, "roles alternate"
        before = role
        if role == "assistant":
            calls = message.get("tool_calls")
            assert calls or content
            assert content is None or (isinstance(content, str) and content.strip())
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
                if part["type"] == "image_url":
                    _check_url(part["image_url"]["url"])
    assert not waiting


def _check_url(url: str) -> None:
    assert url
    if url.startswith("data:"):
        kind, data = url.removeprefix("data:").split(";base64,")
        assert kind in _IMAGES
        assert data
