"""A compiled context as OpenAI's Chat Completions API takes it, and the servers that speak like it. Pure.

Text is sent as one string, images of the user as parts beside it, all other media as text that names them. Thinking is
not sent, and a tool's images follow in a user message, as tool messages hold text alone. There are no cache
breakpoints: the API caches prefixes by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chronicle_py.context.blocks import Block, Media, Thinking, ToolResult, ToolUse, Unknown
from chronicle_py.context.tokens import as_json
from chronicle_py.context.turns import (
    IMAGES,
    NO_OUTPUT,
    CompiledMessage,
    Turn,
    arguments,
    is_hidden_thinking,
    turns_of,
    words_of,
)

Plain = dict[str, Any]


def to_openai(messages: Sequence[CompiledMessage], system: str) -> list[Plain]:
    """The list of messages, the system's first."""
    sent: list[Plain] = [{"role": "system", "content": system}] if system else []
    for turn in turns_of(messages, _sendable):
        sent += [_assistant(turn)] if turn.role == "assistant" else _user(turn)
    return sent


def _sendable(block: Block) -> bool:
    return not isinstance(block, Thinking) and not (isinstance(block, Unknown) and is_hidden_thinking(block))


def _assistant(turn: Turn) -> Plain:
    blocks = [piece.block for piece in turn.pieces]
    text = "\n\n".join(words_of(block) for block in blocks if not isinstance(block, ToolUse))
    calls = [
        {
            "id": block.id,
            "type": "function",
            "function": {"name": block.name, "arguments": as_json(arguments(block.input))},
        }
        for block in blocks
        if isinstance(block, ToolUse)
    ]
    return {"role": "assistant", "content": text or None, **({"tool_calls": calls} if calls else {})}


def _user(turn: Turn) -> list[Plain]:
    sent: list[Plain] = []
    parts: list[Plain] = []
    for piece in turn.pieces:
        block = piece.block
        if isinstance(block, ToolResult):
            sent.append({"role": "tool", "tool_call_id": block.tool_use_id, "content": _result(block)})
            if not isinstance(block.content, str):
                parts += [image for part in block.content if (image := _image(part)) is not None]
        else:
            parts.append(_image(block) or {"type": "text", "text": words_of(block)})
    if parts:
        only_text = all(part["type"] == "text" for part in parts)
        sent.append({"role": "user", "content": "\n\n".join(p["text"] for p in parts) if only_text else parts})
    return sent


def _result(block: ToolResult) -> str:
    text = block.content if isinstance(block.content, str) else "\n".join(words_of(part) for part in block.content)
    if not text.strip():
        text = NO_OUTPUT
    return f"Error: {text}" if block.is_error else text


def _image(block: Any) -> Plain | None:
    """The part for an image that the API takes; None for anything else."""
    if not isinstance(block, Media) or block.kind != "image":
        return None
    source = block.source
    url = source.get("url")
    if source.get("type") == "base64":
        media_type, data = source.get("media_type") or "image/png", source.get("data")
        known = media_type in IMAGES and isinstance(data, str) and data.strip()
        url = f"data:{media_type};base64,{data}" if known else None
    return {"type": "image_url", "image_url": {"url": url}} if isinstance(url, str) and url.strip() else None
