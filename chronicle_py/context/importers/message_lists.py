"""Lists of messages as Anthropic's and OpenAI's APIs have them, whole requests with `messages` too. Pure.

Both forms are read by one reader, for real files mix them. Blocks stay as they are where they are Anthropic's; OpenAI's
parts, `tool_calls` and messages of the role `tool` become blocks. Arguments that are no JSON are kept as the text they
are, and a result whose call is not there keeps the id it names. `developer` speaks as the system.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from chronicle_py.context.importers.documents import Placed
from chronicle_py.context.importers.history import History, Read, SourceMessage, first_words
from chronicle_py.context.importers.moments import moment
from chronicle_py.context.importers.openai_parts import block_of
from chronicle_py.exchange.faults import Fault

FORM = "chat messages"
SOURCE = "chat"
_RESULTS = ("tool", "function")
_TIMES = ("timestamp", "created_at", "create_time", "created")
_READ = {
    "role", "content", "tool_calls", "function_call", "tool_call_id", "tool_call_ids", "reasoning_content", "refusal",
    "thinking_blocks", "id", "type", *_TIMES,
}  # fmt: skip

Plain = dict[str, Any]


def read(lists: Iterable[tuple[str, Any]], faults: list[Fault]) -> Read:
    """A history of each list, or object with `messages`, in a file. The place of a list is "" where it is the file."""
    faults = list(faults)
    histories = []
    for where, document in lists:
        items: Any = document
        title: Any = ""
        first: list[Placed] = []
        if isinstance(document, dict):
            items, title = document.get("messages"), document.get("title")
            if document.get("system"):
                first = [Placed(_place(where, "system"), {"role": "system", "content": document["system"]})]
        if not isinstance(items, list):
            faults.append(Fault(where or "the file", "is no list of messages"))
            continue
        form = "messages[{}]" if isinstance(document, dict) else "item {}"
        placed = [*first, *(_placed(item, _place(where, form.format(at))) for at, item in enumerate(items))]
        history = history_of(placed, SOURCE, faults, title if isinstance(title, str) else "")
        if history.messages:
            histories.append(history)
    return Read(FORM, histories, faults)


def _place(where: str, what: str) -> str:
    return f"{where}, {what}" if where else what


def _placed(item: Any, where: str) -> Placed:
    """An item with its place: the one it has, where it is a line of a file."""
    return item if isinstance(item, Placed) else Placed(where, item)


def history_of(items: Iterable[Placed], source: str, faults: list[Fault], title: str = "") -> History:
    """The messages one after the other; adds what is none to `faults`."""
    messages: dict[str, SourceMessage] = {}
    last: str | None = None
    waiting: list[str] = []  # ids of calls that nothing has answered yet
    for number, (where, item) in enumerate(items):
        wrong = _wrong(item)
        if wrong is not None:
            faults.append(Fault(where, f"{wrong}"))
            continue
        key = str(number)
        id = item.get("id")
        role = "system" if item["role"] == "developer" else item["role"]
        messages[key] = SourceMessage(
            key=key, after=last, participant=role, blocks=_blocks(item, key, waiting),
            id=id if isinstance(id, str) and id else None,
            at=next((at for name in _TIMES if (at := moment(item.get(name))) is not None), None),
            metadata=_others(item), where=where,
        )  # fmt: skip
        last = key
    title = title or first_words(
        str(b["text"]) for m in messages.values() if m.participant == "user" for b in m.blocks if b.get("text")
    )
    return History(
        source=source, messages=messages, current=last, title=title,
        updated=max((m.at for m in messages.values() if m.at is not None), default=None),
    )  # fmt: skip


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
    if isinstance(content, list) and not all(isinstance(part, dict | str) for part in content):
        return "a message's content is a list of parts, and one of these is none"
    if "content" not in item and not (item.keys() - {"role"}):
        return "a message has content, or calls of tools; this one has only a role"
    return None


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:40] + "…"


def _others(item: Plain) -> Plain:
    found = {name: value for name, value in item.items() if name not in _READ and value is not None}
    if item["role"] == "developer":
        found["role"] = "developer"
    return found


def _blocks(item: Plain, key: str, waiting: list[str]) -> list[Plain]:
    content = item.get("content")
    parts = [content] if isinstance(content, str) else content or []
    blocks = [block_of(part) for part in parts]
    if item["role"] in _RESULTS:
        return _results(item, blocks, waiting)
    if isinstance(item.get("thinking_blocks"), list):
        blocks[:0] = [block for block in item["thinking_blocks"] if isinstance(block, dict)]
    elif isinstance(item.get("reasoning_content"), str) and item["reasoning_content"]:
        blocks.insert(0, {"type": "thinking", "thinking": item["reasoning_content"]})
    if isinstance(item.get("refusal"), str) and item["refusal"]:
        blocks.append({"type": "text", "text": item["refusal"]})
    blocks += _calls(item, key)
    if blocks and any(block.get("type") == "tool_use" for block in blocks):
        blocks = [block for block in blocks if block != {"type": "text", "text": ""}]
    waiting += [str(block.get("id")) for block in blocks if block.get("type") == "tool_use"]
    return blocks


def _calls(item: Plain, key: str) -> list[Plain]:
    """The tool calls of a message; of a function, in the older form, too."""
    calls = item.get("tool_calls")
    found = list(calls) if isinstance(calls, list) else []
    if isinstance(item.get("function_call"), dict):
        found.append({"function": item["function_call"]})
    return [_call(call, f"call-{key}-{number}") for number, call in enumerate(found)]


def _call(call: Any, id: str) -> Plain:
    function = call.get("function") or call.get("custom") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        return {"type": "tool_call", "call": call}
    arguments = function.get("arguments", function.get("input"))
    given = call.get("id")
    return {
        "type": "tool_use", "id": given if isinstance(given, str) and given else id,
        "name": str(function.get("name") or "tool"), "input": _input(arguments),
    }  # fmt: skip


def _input(arguments: Any) -> Any:
    if not isinstance(arguments, str):
        return {} if arguments is None else arguments
    if not arguments.strip():
        return {}
    try:
        found = json.loads(arguments)
    except (json.JSONDecodeError, RecursionError):
        return arguments
    return found if isinstance(found, dict) else arguments


def _results(item: Plain, blocks: list[Plain], waiting: list[str]) -> list[Plain]:
    """The output of a tool. Without an id it answers the oldest call that waits; with several, the first has it."""
    if any(block.get("type") == "tool_result" for block in blocks):
        return blocks
    named = item.get("tool_call_ids") or item.get("tool_call_id")
    ids = [str(id) for id in (named if isinstance(named, list) else [named]) if id]
    if not ids:
        ids = waiting[:1] or ["unknown"]
    for id in ids:
        if id in waiting:
            waiting.remove(id)
    only_text = all(set(block) == {"type", "text"} for block in blocks)
    content: Any = "\n".join(block["text"] for block in blocks) if only_text else blocks
    first = {"type": "tool_result", "tool_use_id": ids[0], "content": content}
    if item.get("is_error") is True:
        first["is_error"] = True
    return [first, *({"type": "tool_result", "tool_use_id": id, "content": ""} for id in ids[1:])]
