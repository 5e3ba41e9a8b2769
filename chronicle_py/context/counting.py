"""What a content block counts in tokens. Pure: the tokenizer is an argument, and it is whatever has `count(text)`.

Text, thinking and text documents count by the tokenizer; a tool call as the JSON of its input plus 20; a tool result as
its content; an image as its own estimate (`token_estimate` of the block) or 1,000; other media 1,000; a block of an
unknown kind as its JSON. Nothing is added per block or message: the count recorded is what rendering uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

import msgspec

from chronicle_py.context.blocks import Block, Media, Text, Thinking, ToolResult, ToolUse, parse

MEDIA_TOKENS: Final = 1_000
CALL_TOKENS: Final = 20  # beside the JSON of a tool call's input
ESTIMATES: Final = ("token_estimate", "tokenEstimate")  # fields in which an image brings its own count


class Counter(Protocol):
    """Counts the tokens of a text: a `Tokenizer`, or a strategy's `MessageView`."""

    def count(self, text: str) -> int: ...


def count_blocks(blocks: Sequence[Block], tokenizer: Counter) -> tuple[int, int]:
    """(tokens, those of them that are not media) of content blocks."""
    if len(blocks) == 1 and type(block := blocks[0]) is Text:
        tokens = tokenizer.count(block.text)
        return tokens, tokens
    tokens = text_tokens = 0
    for block in blocks:
        all_of_it, text = count_block(block, tokenizer)
        tokens += all_of_it
        text_tokens += text
    return tokens, text_tokens


def count_block(block: Block, tokenizer: Counter) -> tuple[int, int]:
    """(tokens, those of them that are not media) of one block."""
    if isinstance(block, Media):
        return _count_media(block, tokenizer)
    if isinstance(block, ToolResult) and not isinstance(block.content, str):
        return count_blocks(block.content, tokenizer)
    tokens = _count_text(block, tokenizer)
    return tokens, tokens


def _count_text(block: Block, tokenizer: Counter) -> int:
    if isinstance(block, Text):
        return tokenizer.count(block.text)
    if isinstance(block, ToolUse):
        return tokenizer.count(as_json(block.input)) + CALL_TOKENS
    if isinstance(block, ToolResult):
        return tokenizer.count(str(block.content))
    if isinstance(block, Thinking):
        return tokenizer.count(block.thinking)
    return tokenizer.count(as_json(block.data if not isinstance(block, Media) else block.source))


def _count_media(block: Media, tokenizer: Counter) -> tuple[int, int]:
    if block.kind == "image":
        for name in ESTIMATES:
            estimate = block.extra.get(name)
            if type(estimate) is int and estimate >= 0:
                return estimate, 0
    source = block.source
    if source.get("type") == "text" and isinstance(source.get("data"), str):
        tokens = tokenizer.count(source["data"])
        return tokens, tokens
    if source.get("type") == "content" and isinstance(source.get("content"), str | list):
        return count_blocks(parse(source["content"]), tokenizer)
    return MEDIA_TOKENS, 0


def as_json(value: Any) -> str:
    """Compact JSON of a plain value, in its own order; what JSON has no form for stands as its `repr`."""
    try:
        return msgspec.json.encode(value, enc_hook=repr).decode()
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return repr(value)
