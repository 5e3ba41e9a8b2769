"""One line for an event or an item: who said what, or what was done to which slot. Pure.

A message (an object with a role) is shown as its role and first words, followed by the tools it calls. Text comes from
anywhere, so control characters are taken out before a terminal sees them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from chronicle_py import Erased, Event
from chronicle_py.event import decode_payload
from chronicle_py.exchange import to_json

MESSAGES = "messages"  # the slot that is not named, since it is the one that everybody looks at
_MOST = 600  # characters of a text that are looked at
_CALL = 24  # characters that a text, and the calls after it, get in any case


def clean(text: str) -> str:
    """The text on one line, without control characters."""
    words = " ".join(text.split())
    return words if words.isprintable() else "".join(c if c.isprintable() else " " for c in words)


def cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


def compact(value: Any) -> str:
    """A value as one line of JSON."""
    if isinstance(value, str):
        return clean(value[:_MOST])
    if isinstance(value, Erased):
        return f"erased: {clean(value.reason)}"
    try:
        return clean(msgspec.json.encode(to_json(value)).decode()[:_MOST])
    except RecursionError:
        return "(nested too deeply to be shown)"


def item_line(item: Any, width: int = _MOST) -> str:
    """A message as "role: words → tool(arguments)", anything else as JSON. Words make room for the tools called."""
    if isinstance(item, Mapping) and isinstance(item.get("role"), str):
        role = clean(item["role"])
        said = clean(" ".join(_parts(item.get("content")))[:_MOST])
        calls = cut(" ".join(_calls(item)), max(_CALL, width // 2))
        if said and calls:
            said = cut(said, max(_CALL, width - len(role) - len(calls) - 3))
        return cut(f"{role}: {' '.join(filter(None, (said, calls)))}".rstrip(), width)
    return cut(compact(item), width)


def _parts(content: Any) -> Iterator[str]:
    """The words of a message's content: a text, or a list of parts as OpenAI and Anthropic write them."""
    if isinstance(content, str):
        yield content[:_MOST]
        return
    for part in content if isinstance(content, list) else ():
        if not isinstance(part, Mapping):
            yield compact(part)
            continue
        kind = part.get("type")
        if isinstance(part.get("text"), str):
            yield part["text"][:_MOST]
        elif kind == "tool_use":
            yield _call(part.get("name"), part.get("input"))
        elif kind == "tool_result":
            yield from _parts(part.get("content"))
        elif kind == "thinking" and isinstance(part.get("thinking"), str):
            yield f"({part['thinking'][:_MOST]})"
        else:
            yield f"<{clean(str(kind))}>"


def _calls(item: Mapping[str, Any]) -> Iterator[str]:
    calls = item.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, Mapping) else None
        if isinstance(function, Mapping):
            yield _call(function.get("name"), function.get("arguments"))


def _call(name: Any, arguments: Any) -> str:
    if isinstance(arguments, str):
        try:
            arguments = msgspec.json.decode(arguments)
        except (msgspec.MsgspecError, RecursionError):
            arguments = {"": arguments}
    values = arguments.values() if isinstance(arguments, Mapping) else ()
    return f"→ {clean(str(name))}({cut(', '.join(map(compact, values)), 60)})"


def event_line(event: Event, kinds: Mapping[str, str], width: int = _MOST) -> str:
    """What an event did, in at most `width` characters. `kinds`: slot id -> kind."""
    if event.erased is not None:
        what = event.type if event.slot is None else f"{event.slot} {event.type}"
        return cut(f"{clean(what)} {compact(event.erased)}", width)
    if event.type == "state.append" and event.slot == MESSAGES and kinds.get(MESSAGES) == "append_log":
        return item_line(decode_payload(event.raw), width)
    return cut(_event_line(event, kinds, width), width)


def _event_line(event: Event, kinds: Mapping[str, str], width: int) -> str:
    try:
        payload = decode_payload(event.raw)
    except msgspec.MsgspecError:
        return f"{clean(event.type)} (its payload cannot be read)"
    said = _conversation_line(event.type, payload, width) if isinstance(payload, Mapping) else None
    if said is not None:
        return said
    if event.slot is None:
        return f"{clean(event.type)} {item_line(payload)}"
    slot, kind = clean(event.slot), kinds.get(event.slot)
    if kind == "custom" or not event.type.startswith("state."):
        return f"{slot} {clean(event.type)} {item_line(payload)}"
    if kind == "append_log" and event.type == "state.append":
        return f"{slot} + {item_line(payload)}"
    return f"{slot} {_operation(event.type, payload, kind)}"


def _conversation_line(type: str, payload: Mapping[str, Any], width: int) -> str | None:
    """What an event of the conversation layer did; None for any other."""
    if type in ("message", "message.edit") and isinstance(payload.get("blocks"), list) and "participant" in payload:
        line = item_line({"role": str(payload["participant"]), "content": payload["blocks"]}, width)
        return line if type == "message" else f"edited {payload.get('seq')} {line}"
    first, last = payload.get("first_seq"), payload.get("last_seq")
    where = f"{first}" if first == last else f"{first} to {last}"
    if first is None:
        if type == "unpin" and "pin_seq" in payload:
            return f"unpinned what {payload['pin_seq']} had pinned"
        return f"head starts at {payload['seq']}" if type == "head.reset" and "seq" in payload else None
    name = f" as {clean(str(payload['name']))!r}" if payload.get("name") else ""
    return {
        "message.remove": f"removed {where}",
        "pin": f"{clean(str(payload.get('kind', 'pin')))} {where}{name}",
        "summary": f"summary L{payload.get('level')} of {where}, {payload.get('tokens')} tokens",
        "summary.adopt": f"summary L{payload.get('level')} of {where} taken over, {payload.get('tokens')} tokens",
    }.get(type)


def _operation(type: str, payload: Any, kind: str | None) -> str:
    """What an operation on a built-in slot did."""
    if type == "state.set":
        return f"= {compact(payload)}"
    if type == "state.patch":
        return f"patched with {compact(payload)}"
    if type == "state.batch" and isinstance(payload, list):
        return "; ".join(_path(op) for op in payload[:4]) + ("; …" if len(payload) > 4 else "")
    if isinstance(payload, Mapping):
        if type == "state.edit":
            return f"[{payload.get('index')}] = {item_line(payload.get('item'))}"
        if type == "state.redact":
            return f"[{payload.get('start')}:{payload.get('stop')}] taken out"
        if type in ("state.put", "state.remove"):
            return _path(payload)
        if type == "state.append" and kind == "document":
            return f"{compact(payload.get('path'))} + {item_line(payload.get('item'))}"
    return f"{type} {compact(payload)}"


def _path(op: Any) -> str:
    if not isinstance(op, Mapping):
        return compact(op)
    path = clean(str(op.get("path")))
    return f"{path} = {compact(op['value'])}" if "value" in op else f"{path} removed"
