"""What a message's content may be shortened to: long texts, the inputs of tool calls, old tool results. Pure.

Each function takes content and gives content; what it gives depends on its arguments alone, so that a message that was
shortened once reads the same in every later context. The counter is the view that a render reads through.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from chronicle_py.context.blocks import Block, Text, ToolResult, ToolUse
from chronicle_py.context.counting import Counter, as_json, count_block

_NOTE = 10  # tokens kept for the note that a text was cut


def cut_text(text: str, limit: int, counter: Counter, tokens: int | None = None) -> str:
    """The text, or where it has more than `limit` tokens its beginning and how many it had, `limit` tokens in all.

    `tokens`: of the text, where they are known.
    """
    tokens = counter.count(text) if tokens is None else tokens
    if tokens <= limit:
        return text
    note = f"… [cut, {tokens} tokens in all]"
    size = len(text) * max(0, limit - _NOTE) // tokens
    while size > 0:
        found = text[:size] + note
        taken = counter.count(found)
        if taken <= limit:
            return found
        size = min(size - 1, size * limit // taken)
    return note


def cut_message(blocks: Sequence[Block], tokens: int, limit: int, counter: Counter) -> list[Block]:
    """The content of a message of `tokens` tokens, its texts and tool results cut so that it has `limit`.

    What cannot be cut keeps its size; the shortest texts stay whole. No block is dropped.
    """
    sizes = _cuttable(blocks, tokens, counter)
    room = limit - (tokens - sum(sizes.values()))
    share = 0
    for left, size in zip(range(len(sizes), 0, -1), sorted(sizes.values()), strict=True):
        share = max(0, room) // left
        if size > share:
            break
        room -= size
    return [
        _cut(block, share, counter, sizes[at]) if sizes.get(at, 0) > share else block for at, block in enumerate(blocks)
    ]


def _cuttable(blocks: Sequence[Block], tokens: int, counter: Counter) -> dict[int, int]:
    """The tokens of the texts and tool results among these blocks, by index."""
    places = [at for at, block in enumerate(blocks) if isinstance(block, Text | ToolResult)]
    if len(places) == 1 and _plain(blocks[places[0]]):  # so that a long text is not counted again
        rest = sum(count_block(block, counter)[0] for at, block in enumerate(blocks) if at != places[0])
        return {places[0]: max(0, tokens - rest)}
    return {at: count_block(blocks[at], counter)[1] for at in places}


def _plain(block: Block) -> bool:
    return not isinstance(block, ToolResult) or isinstance(block.content, str)


def _cut(block: Block, limit: int, counter: Counter, tokens: int) -> Block:
    if isinstance(block, Text):
        return Text(cut_text(block.text, limit, counter, tokens), block.extra)
    assert isinstance(block, ToolResult)
    if isinstance(block.content, str):
        return msgspec.structs.replace(block, content=cut_text(block.content, limit, counter, tokens))
    parts: list[Any] = []
    for part in block.content:
        if isinstance(part, Text):
            kept = cut_text(part.text, max(0, limit), counter)
            limit -= counter.count(kept)
            part = Text(kept, part.extra)
        parts.append(part)
    return msgspec.structs.replace(block, content=parts)


def cut_input(call: ToolUse, limit: int, counter: Counter) -> ToolUse:
    """The call, its input replaced by a note and its first keys where it has more than `limit` tokens."""
    tokens = counter.count(as_json(call.input))
    if tokens <= limit:
        return call
    kept: dict[str, Any] = {"_truncated": True, "_originalTokens": tokens}
    if isinstance(call.input, Mapping):
        for key, value in call.input.items():
            if counter.count(as_json({**kept, key: value})) > limit:
                break
            kept[key] = value
    return msgspec.structs.replace(call, input=kept)


def marked(result: ToolResult, tool: str) -> ToolResult:
    """An old result of a tool as a short marker, which stays the same for good."""
    if (isinstance(result.content, list) and not result.content) or result.content == "":
        return result
    return msgspec.structs.replace(result, content=f"[An earlier result of {tool}, left out]")
