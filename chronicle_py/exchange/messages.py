"""Conversations in other programs' JSON: chat messages and SWE-agent trajectories. Pure.

Three forms are read: a list of messages, an object with `messages` (a request to OpenAI or Anthropic; the latter's
`system` becomes the first message), and an object with `history` (SWE-agent). A message is kept as the object it is.
"""

from __future__ import annotations

import ast
from typing import Any, NamedTuple

from chronicle_py.exchange.faults import Fault

CHAT = "chat messages"
SWE_AGENT = "SWE-agent trajectory"


class Conversation(NamedTuple):
    """The messages of a file, each with its place in it, and the ones that are none."""

    form: str
    messages: list[tuple[str, dict[str, Any]]]
    faults: list[Fault]


def read_conversation(document: Any) -> Conversation | None:
    """The conversation in a JSON document, None when it is of no form that is read here."""
    if isinstance(document, list):
        return _conversation(CHAT, "", document)
    if not isinstance(document, dict):
        return None
    if isinstance(document.get("history"), list):
        return _conversation(SWE_AGENT, "history", [_with_calls(item) for item in document["history"]])
    if isinstance(document.get("messages"), list):
        found = _conversation(CHAT, "messages", document["messages"])
        system = document.get("system")
        if system:
            found.messages.insert(0, ("system", {"role": "system", "content": system}))
        return found
    return None


def _conversation(form: str, name: str, items: list[Any]) -> Conversation:
    found = Conversation(form, [], [])
    for index, item in enumerate(items):
        where = f"{name}[{index}]" if name else f"item {index}"
        wrong = _wrong(item)
        if wrong is None:
            found.messages.append((where, item))
        else:
            found.faults.append(Fault(where, wrong))
    return found


def _wrong(item: Any) -> str | None:
    """What keeps an item from being a message."""
    if not isinstance(item, dict):
        return f"a message is an object, not {_short(item)}"
    role = item.get("role")
    if not isinstance(role, str) or not role:
        return f'a message has a role, as in {{"role": "user", …}}; this one has {_short(role)}'
    content = item.get("content")
    if content is not None and not isinstance(content, str | list):
        return f"a message's content is a text or a list of parts, not {_short(content)}"
    if "content" not in item and not (item.keys() - {"role"}):
        return "a message has content, or calls of tools; this one has only a role"
    return None


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:40] + "…"


def _with_calls(item: Any) -> Any:
    """SWE-agent writes `tool_calls` as JSON or as the repr of a Python list; the latter is read where it can be."""
    if isinstance(item, dict) and isinstance(item.get("tool_calls"), str):
        try:
            calls = ast.literal_eval(item["tool_calls"])
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return item
        if isinstance(calls, list):
            return {**item, "tool_calls": calls}
    return item
