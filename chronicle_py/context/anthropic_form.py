"""A compiled context as Anthropic's Messages API takes it. Pure.

Only fields that the API knows are sent. Thinking goes along with its signature, and not without. The first message must
be the user's: where it is not, one that says so is put before it. At most four cache breakpoints, the newest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from chronicle_py.context.blocks import Block, Media, Text, Thinking, ToolResult, ToolUse, Unknown
from chronicle_py.context.turns import (
    CompiledMessage,
    Piece,
    arguments,
    is_hidden_thinking,
    json_value,
    media_text,
    turns_of,
    unknown_text,
)

BREAKPOINTS: Final = 4
START: Final = "[The conversation starts here.]"
"""What stands first where the user did not speak first."""

_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_PDF = ("application/pdf",)
_DOCUMENT_FIELDS = ("title", "context", "citations")
_UNMARKED = ("thinking", "redacted_thinking")

Plain = dict[str, Any]


def to_anthropic(messages: Sequence[CompiledMessage], system: str) -> Plain:
    """{"system": …, "messages": […]}."""
    sent: list[Plain] = []
    marked: list[Plain] = []
    for turn in turns_of(messages, _sendable):
        blocks = [_block(piece) for piece in turn.pieces]
        for at, piece in enumerate(turn.pieces):
            target = next((b for b in reversed(blocks[: at + 1]) if b["type"] not in _UNMARKED), None)
            if piece.cache and target is not None and not any(target is m for m in marked):
                marked.append(target)
        sent.append({"role": turn.role, "content": blocks})
    for block in marked[-BREAKPOINTS:]:
        block["cache_control"] = {"type": "ephemeral"}
    if (sent and sent[0]["role"] != "user") or (not sent and (system or messages)):
        sent.insert(0, {"role": "user", "content": [{"type": "text", "text": START}]})
    if sent and sent[-1]["role"] == "assistant" and sent[-1]["content"][-1]["type"] == "text":
        last = sent[-1]["content"][-1]
        last["text"] = last["text"].rstrip()
    return {"system": system, "messages": sent}


def _sendable(block: Block) -> bool:
    return not isinstance(block, Thinking) or (block.signature is not None and bool(block.thinking.strip()))


def _block(piece: Piece) -> Plain:
    block = piece.block
    if isinstance(block, Text):
        return {"type": "text", "text": block.text}
    if isinstance(block, ToolUse):
        return {"type": "tool_use", "id": block.id, "name": block.name, "input": arguments(block.input)}
    if isinstance(block, ToolResult):
        return _result(block)
    if isinstance(block, Thinking):
        return {"type": "thinking", "thinking": block.thinking, "signature": block.signature}
    if isinstance(block, Media):
        return _media(block)
    if is_hidden_thinking(block):
        return {"type": "redacted_thinking", "data": block.data["data"]}
    return {"type": "text", "text": unknown_text(block)}


def _result(block: ToolResult) -> Plain:
    content: str | list[Plain]
    if isinstance(block.content, str):
        content = block.content if block.content.strip() else ""
    else:
        content = [_part(part) for part in block.content if not (isinstance(part, Text) and not part.text.strip())]
    plain: Plain = {"type": "tool_result", "tool_use_id": block.tool_use_id}
    if content:
        plain["content"] = content
    if block.is_error:
        plain["is_error"] = True
    return plain


def _part(part: Any) -> Plain:
    """A block inside a tool result."""
    if isinstance(part, Media):
        return _media(part)
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    if isinstance(part, Unknown):
        return {"type": "text", "text": unknown_text(part)}
    return {"type": "text", "text": str(part)}


def _media(block: Media) -> Plain:
    source = _source(block)
    if source is None:
        return {"type": "text", "text": media_text(block)}
    if block.kind == "image":
        return {"type": "image", "source": source}
    fields = {name: json_value(block.extra[name]) for name in _DOCUMENT_FIELDS if name in block.extra}
    return {"type": "document", "source": source, **fields}


def _source(block: Media) -> Plain | None:
    """The source as the API takes it; None where it does not."""
    source = block.source
    kind, media_type, data, url = (source.get(name) for name in ("type", "media_type", "data", "url"))
    if block.kind not in ("image", "document"):
        return None
    if kind == "url" and isinstance(url, str):
        return {"type": "url", "url": url}
    if kind == "base64" and media_type in (_IMAGES if block.kind == "image" else _PDF) and isinstance(data, str):
        return {"type": "base64", "media_type": media_type, "data": data}
    if block.kind == "document" and kind == "text" and isinstance(data, str) and data.strip():
        return {"type": "text", "media_type": "text/plain", "data": data}
    if block.kind == "document" and kind == "content" and isinstance(source.get("content"), str | list):
        return {"type": "content", "content": json_value(source["content"])}
    return None
