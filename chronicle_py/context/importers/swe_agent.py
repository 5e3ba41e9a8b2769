"""SWE-agent's trajectories: the messages of `history`, OpenAI's but for what is named here. Pure.

`tool_calls` may be the repr of a Python list, and a result names its calls in `tool_call_ids`. What the agent thought
is part of what it said, and its action is the call.
"""

from __future__ import annotations

import ast
from typing import Any

from chronicle_py.context.importers.documents import Placed
from chronicle_py.context.importers.history import Read
from chronicle_py.context.importers.message_lists import history_of
from chronicle_py.exchange.faults import Fault

FORM = "SWE-agent trajectory"
SOURCE = "swe-agent"


def read(document: dict[str, Any], faults: list[Fault]) -> Read:
    """The run of an object with `history`."""
    faults = list(faults)
    items = [Placed(f"history[{at}]", _plain(item)) for at, item in enumerate(document["history"])]
    title = document.get("environment")
    history = history_of(items, SOURCE, faults, title if isinstance(title, str) and title != "main" else "")
    return Read(FORM, [history] if history.messages else [], faults)


def _plain(item: Any) -> Any:
    """A message with its calls as a list, and without what repeats its content."""
    if not isinstance(item, dict):
        return item
    found = dict(item)
    if isinstance(found.get("tool_calls"), str):
        calls = _literal(found["tool_calls"])
        if isinstance(calls, list):
            found["tool_calls"] = calls
        else:
            found["unread_tool_calls"] = found.pop("tool_calls")
    if found.get("thought") == found.get("content"):
        found.pop("thought", None)
    return found


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
