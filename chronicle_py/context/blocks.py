"""Content blocks, with the field names of Anthropic's messages. Pure.

`parse` turns what a caller gives (a str, blocks, plain dicts) into a list of blocks; `plain` turns blocks into the dicts
that are stored and sent. A block of an unknown kind, or a known one that does not decode, is kept verbatim; so are
fields of a known block that are not named here (`extra`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from chronicle_py.errors import InvalidOperation


class Text(msgspec.Struct, frozen=True, tag_field="type", tag="text"):
    text: str
    extra: dict[str, Any] = {}


class Thinking(msgspec.Struct, frozen=True, tag_field="type", tag="thinking"):
    thinking: str
    signature: str | None = None
    extra: dict[str, Any] = {}


class ToolUse(msgspec.Struct, frozen=True, tag_field="type", tag="tool_use"):
    id: str
    name: str
    input: Any
    extra: dict[str, Any] = {}


class ToolResult(msgspec.Struct, frozen=True, tag_field="type", tag="tool_result"):
    tool_use_id: str
    content: str | list[Any] = ""  # text, or blocks (of this module)
    is_error: bool = False
    extra: dict[str, Any] = {}


class Media(msgspec.Struct, frozen=True):
    """An image, document, audio or video. `source`: {"type": "base64", media_type, data}, {"type": "url", url}, or, as
    stored, {"type": "blob", media_type, blob: BlobRef}."""

    kind: str  # "image", "document", "audio", "video"
    source: dict[str, Any]
    extra: dict[str, Any] = {}


class Unknown(msgspec.Struct, frozen=True):
    """Kept as it came."""

    data: dict[str, Any]


Block = Text | Thinking | ToolUse | ToolResult | Media | Unknown
MEDIA_KINDS = ("image", "document", "audio", "video")
_KINDS: dict[str, type[Any]] = {"text": Text, "thinking": Thinking, "tool_use": ToolUse, "tool_result": ToolResult}


def parse(content: object) -> list[Block]:
    """The blocks of a message's content: a str, a block, or an iterable of blocks and plain dicts."""
    if isinstance(content, str):
        return [Text(content)]
    if isinstance(content, Block):
        return [content]
    if isinstance(content, Mapping) or not isinstance(content, Iterable):
        content = [content]
    return [_parse_one(part) for part in content]


def _parse_one(part: object) -> Block:
    if isinstance(part, Block):
        return part
    if isinstance(part, str):
        return Text(part)
    if not isinstance(part, Mapping):
        raise InvalidOperation(
            f"a message's content is a str, or a list of content blocks or dicts with a 'type', not {part!r:.80}"
        )
    data = dict(part)
    kind = data.get("type")
    if kind in MEDIA_KINDS and isinstance(data.get("source"), Mapping):
        rest = {k: v for k, v in data.items() if k not in ("type", "source")}
        return Media(str(kind), dict(data["source"]), rest)
    known = _KINDS.get(kind) if isinstance(kind, str) else None
    if known is None:
        return Unknown(data)
    names = [f for f in known.__struct_fields__ if f != "extra"]
    fields = {name: data[name] for name in names if name in data}
    extra = {k: v for k, v in data.items() if k not in fields and k != "type"}
    try:
        block: Block = msgspec.convert({**fields, "type": kind, "extra": extra}, known)
    except msgspec.ValidationError:
        return Unknown(data)
    if isinstance(block, ToolResult) and not isinstance(block.content, str):
        return msgspec.structs.replace(block, content=parse(block.content))
    return block


def plain(block: Block) -> dict[str, Any]:
    """The block as a plain dict, in Anthropic's form."""
    if isinstance(block, Unknown):
        return dict(block.data)
    if isinstance(block, Media):
        return {"type": block.kind, "source": dict(block.source), **block.extra}
    if isinstance(block, Text):
        return {"type": "text", "text": block.text, **block.extra}
    if isinstance(block, Thinking):
        signed = {} if block.signature is None else {"signature": block.signature}
        return {"type": "thinking", "thinking": block.thinking, **signed, **block.extra}
    if isinstance(block, ToolUse):
        return {"type": "tool_use", "id": block.id, "name": block.name, "input": block.input, **block.extra}
    content = block.content if isinstance(block.content, str) else [plain(part) for part in block.content]
    error = {"is_error": True} if block.is_error else {}
    return {"type": "tool_result", "tool_use_id": block.tool_use_id, "content": content, **error, **block.extra}
