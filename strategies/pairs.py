"""Pairs: a message with tool calls, and the run of messages directly after it that answer them. Pure.

`follow` is the rule: a message belongs to the run before it when it answers a call that is still open there; ids match
within that run only, for real agents repeat them. It is used on what folds know of messages (ids of calls and answers),
so that windows, pins, chunks and evictions take whole pairs; and `whole` applies it to the content of neighbouring
messages, where half a pair becomes text that names the call. What comes out of `whole` is unchanged by another pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chronicle_py.context.blocks import Block, Media, Text, ToolResult, ToolUse
from chronicle_py.context.counting import as_json
from chronicle_py.context.payloads import Call


def follow(open: tuple[Call, ...], calls: tuple[Call, ...], answers: Sequence[str]) -> tuple[bool, tuple[Call, ...]]:
    """Whether a message belongs to the run before it, and the calls that are open after it.

    `open`: the calls that are open before it. A message with calls of its own closes those before.
    """
    left = open
    if open and answers:
        for answer in answers:
            for at, call in enumerate(left):
                if call.id == answer:
                    left = left[:at] + left[at + 1 :]
                    break
    joined = left is not open
    return joined, calls or (left if joined else ())


def answered(open: tuple[Call, ...], answers: Sequence[str]) -> list[str | None]:
    """For each answer, the name of the tool whose open call it answers; None where it answers none."""
    left = list(open)
    names: list[str | None] = []
    for answer in answers:
        at = next((at for at, call in enumerate(left) if call.id == answer), None)
        names.append(None if at is None else left.pop(at).name)
    return names


class _Asked:
    """A call in the content of a message, while its answer is looked for."""

    __slots__ = ("call", "message", "place")

    def __init__(self, call: ToolUse, message: int, place: int) -> None:
        self.call = call
        self.message = message
        self.place = place


def whole(contents: Sequence[list[Block]]) -> list[list[Block]]:
    """The contents of messages that stand next to each other, calls without answer and answers without call as text.

    Contents that need no change are returned as they are, the same objects.
    """
    found = list(contents)
    names = match(contents)
    for at, blocks in enumerate(contents):
        if any(names.get((at, place), "") is None for place in range(len(blocks))):
            found[at] = [
                part
                for place, block in enumerate(blocks)
                for part in (half(block) if names.get((at, place), "") is None else [block])
            ]
    return found


def match(contents: Sequence[list[Block]]) -> dict[tuple[int, int], str | None]:
    """The name of the tool for each call that is answered and each answer that has its call, None for the others; by
    (index of the message, index of the block)."""
    names: dict[tuple[int, int], str | None] = {}
    open: list[_Asked] = []
    for at, blocks in enumerate(contents):
        own: list[_Asked] = []
        joined = False
        for place, block in enumerate(blocks):
            if isinstance(block, ToolUse):
                names[at, place] = None
                own.append(_Asked(block, at, place))
            elif isinstance(block, ToolResult):
                asked = _take(open, block.tool_use_id)
                joined = joined or asked is not None
                asked = asked or _take(own, block.tool_use_id)
                names[at, place] = None
                if asked is not None:
                    names[at, place] = names[asked.message, asked.place] = asked.call.name
        open = own or (open if joined else [])
    return names


def _take(asked: list[_Asked], id: str) -> _Asked | None:
    for at, one in enumerate(asked):
        if one.call.id == id:
            return asked.pop(at)
    return None


def half(block: Block) -> list[Block]:
    """A call without answer, or an answer without call, as text that names the call, with its media behind it."""
    if isinstance(block, ToolUse):
        return [Text(f"[Tool call {block.name} ({block.id}), without a result: {as_json(block.input)}]")]
    if isinstance(block, ToolResult):
        text = f"[Result of tool call {block.tool_use_id}, whose call is not here: {text_of(block.content)}]"
        parts = block.content if isinstance(block.content, list) else []
        return [Text(text), *(part for part in parts if isinstance(part, Media))]
    return [block]


def text_of(content: str | list[Any]) -> str:
    """The content of a tool result as text; media are named by their kind."""
    if isinstance(content, str):
        return content
    parts = []
    for block in content:
        if isinstance(block, Text):
            parts.append(block.text)
        elif isinstance(block, Media):
            parts.append(f"[{block.kind}]")
        else:
            parts.append(as_json(block))
    return "\n".join(parts)
