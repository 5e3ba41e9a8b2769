"""A compiled context as OpenAI's Chat Completions API takes it, and the servers that speak like it. Pure.

Text is sent as one string, images of the user as parts beside it, all other media as text that names them. Thinking is
not sent, and a tool's images follow in a user message, as tool messages hold text alone. There are no cache
breakpoints: the API caches prefixes by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chronicle_py.context.blocks import Block, Media, Text, Thinking, ToolResult, ToolUse, Unknown
from chronicle_py.context.tokens import as_json
from chronicle_py.context.turns import (
    CompiledMessage,
    Turn,
    arguments,
    is_hidden_thinking,
    media_text,
    turns_of,
    unknown_text,
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
    text = "\n\n".join(_words(block) for block in blocks if not isinstance(block, ToolUse))
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
            parts.append(_image(block) or {"type": "text", "text": _words(block)})
    if parts:
        only_text = all(part["type"] == "text" for part in parts)
        sent.append({"role": "user", "content": "\n\n".join(p["text"] for p in parts) if only_text else parts})
    return sent


def _result(block: ToolResult) -> str:
    text = block.content if isinstance(block.content, str) else "\n".join(_words(part) for part in block.content)
    if not text.strip():
        text = "(no output)"
    return f"Error: {text}" if block.is_error else text


def _words(block: Any) -> str:
    if isinstance(block, Text):
        return block.text
    if isinstance(block, Media):
        source = block.source
        if source.get("type") == "text" and isinstance(source.get("data"), str):
            return f"{media_text(block)}\n{source['data']}"
        return media_text(block)
    return unknown_text(block) if isinstance(block, Unknown) else str(block)


def _image(block: Any) -> Plain | None:
    """The part for an image; None for anything else."""
    if not isinstance(block, Media) or block.kind != "image":
        return None
    source = block.source
    if source.get("type") == "base64":
        url = f"data:{source.get('media_type') or 'image/png'};base64,{source.get('data')}"
    elif isinstance(source.get("url"), str):
        url = source["url"]
    else:
        return None
    return {"type": "image_url", "image_url": {"url": url}}
