"""A compiled context as Anthropic's Messages API takes it. Pure.

Only fields that the API knows are sent. Thinking goes along with its signature, and not without. Images and documents
are the user's alone: what the assistant shows is named as text, and so is what the API does not take. A result that is
an error holds text alone, its media stand behind the results. The first message must be the user's: where it is not,
one that says so is put before it. At most four cache breakpoints, the newest; none stands on thinking.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from chronicle_py.context.anthropic_media import media, media_or_text
from chronicle_py.context.blocks import Block, Media, Text, Thinking, ToolResult, ToolUse, Unknown
from chronicle_py.context.turns import (
    NO_OUTPUT,
    CompiledMessage,
    Turn,
    arguments,
    is_hidden_thinking,
    media_text,
    turns_of,
    words_of,
)

BREAKPOINTS: Final = 4
START: Final = "[The conversation starts here.]"
"""What stands first where the user did not speak first."""

_UNMARKED = ("thinking", "redacted_thinking")

Plain = dict[str, Any]


def to_anthropic(messages: Sequence[CompiledMessage], system: str) -> Plain:
    """{"system": …, "messages": […]}."""
    turns = turns_of(messages, _sendable)
    sent: list[Plain] = []
    if (turns and turns[0].role != "user") or (not turns and (system or messages)):
        sent.append({"role": "user", "content": [{"type": "text", "text": START}]})
    written = [(turn.role, _turn(turn)) for turn in turns]
    sent += [{"role": role, "content": [block for block, _ in blocks]} for role, blocks in written]
    _mark(sent, [block for _, blocks in written for block, cache in blocks if cache])
    if sent and sent[-1]["role"] == "assistant" and sent[-1]["content"][-1]["type"] == "text":
        last = sent[-1]["content"][-1]
        last["text"] = last["text"].rstrip()
    return {"system": system, "messages": sent}


def _mark(sent: list[Plain], marks: list[Plain]) -> None:
    """Puts a breakpoint after each of these blocks, or after the last one before it that may bear one."""
    wanted = {id(block) for block in marks}
    marked: list[Plain] = []
    bearer: Plain | None = None
    for block in [block for message in sent for block in message["content"]]:
        if block["type"] not in _UNMARKED:
            bearer = block
        if id(block) in wanted and bearer is not None and not (marked and marked[-1] is bearer):
            marked.append(bearer)
    for block in marked[-BREAKPOINTS:]:
        block["cache_control"] = {"type": "ephemeral"}


def _sendable(block: Block) -> bool:
    if isinstance(block, Thinking):
        return bool(block.signature and block.thinking.strip())
    return not isinstance(block, Unknown) or not is_hidden_thinking(block) or bool(block.data["data"])


def _turn(turn: Turn) -> list[tuple[Plain, bool]]:
    """The blocks of a turn, and whether a breakpoint stands after each. Results come first; the media of those that are
    errors, which may hold text alone, are directly behind them."""
    results: list[tuple[Plain, bool]] = []
    media_of_errors: list[tuple[Plain, bool]] = []
    others: list[tuple[Plain, bool]] = []
    for piece in turn.pieces:
        block = piece.block
        if isinstance(block, ToolResult):
            results.append((_result(block), piece.cache))
            if block.is_error and not isinstance(block.content, str):
                found = [media(part) for part in block.content if isinstance(part, Media)]
                media_of_errors += [(part, False) for part in found if part is not None]
        else:
            others.append((_block(block, turn.role), piece.cache))
    if media_of_errors and results[-1][1]:
        results[-1] = (results[-1][0], False)
        media_of_errors[-1] = (media_of_errors[-1][0], True)
    return results + media_of_errors + others


def _block(block: Block, role: str) -> Plain:
    if isinstance(block, Text):
        return {"type": "text", "text": block.text}
    if isinstance(block, ToolUse):
        return {"type": "tool_use", "id": block.id, "name": block.name, "input": arguments(block.input)}
    if isinstance(block, Thinking):
        return {"type": "thinking", "thinking": block.thinking, "signature": block.signature}
    if isinstance(block, Media) and role == "user":
        return media_or_text(block)
    if isinstance(block, Unknown) and is_hidden_thinking(block):
        return {"type": "redacted_thinking", "data": block.data["data"]}
    return {"type": "text", "text": words_of(block)}


def _result(block: ToolResult) -> Plain:
    content: str | list[Plain]
    if isinstance(block.content, str):
        content = block.content if block.content.strip() else ""
    else:
        content = [_part(part, block.is_error) for part in block.content if words_of(part).strip()]
    plain: Plain = {"type": "tool_result", "tool_use_id": block.tool_use_id}
    if content or block.is_error:
        plain["content"] = content or NO_OUTPUT
    if block.is_error:
        plain["is_error"] = True
    return plain


def _part(part: Block, error: bool) -> Plain:
    """A block inside a tool result; inside one that is an error, text alone."""
    if isinstance(part, Media) and not error:
        return media_or_text(part)
    if isinstance(part, Media) and media(part) is not None:  # it follows behind
        return {"type": "text", "text": media_text(part)}
    return {"type": "text", "text": words_of(part)}
