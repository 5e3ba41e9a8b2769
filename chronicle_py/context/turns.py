"""Turns: compiled messages as an exchange of two roles, in which every tool call is answered by the next turn. Pure.

What both APIs ask for is settled here; how each writes it is in `anthropic_form` and `openai_form`.

- A `tool_use` is always the assistant's and a `tool_result` the user's, so that a message with both becomes more turns.
- Neighbours of one role are one turn. In a user's turn the results come first, then all else, each in its order.
- An assistant's turn does not end in thinking: what was thought last, before an interruption, is left out, and with it
  a turn of thinking alone.
- A call counts when the very next turn answers it, a result when it answers such a call, first come first served where
  ids repeat. All others become text that names the call.
- Ids are made unique over the whole exchange and, like names, get the letters that APIs accept.
- "Name: " stands before the text of user messages when more than one name speaks among them (see strategies/naming).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from chronicle_py.context.blocks import Block, Media, Text, Thinking, ToolResult, ToolUse, Unknown, parse, plain
from chronicle_py.context.counting import Counter, as_json
from chronicle_py.errors import InvalidOperation
from chronicle_py.strategies.naming import first_text, is_speaker, name_tokens, named, says_something
from chronicle_py.strategies.pairs import half

_FOREIGN = re.compile(r"[^a-zA-Z0-9_-]")
_ID_SIZE = 64
_NAMED = 200  # characters of a URL or title by which media are named

IMAGES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")
"""The types of images that both APIs read."""

NO_OUTPUT: Final = "(no output)"
"""What stands for the content of a result that has none, where there must be some."""


class CompiledMessage(msgspec.Struct, frozen=True):
    """One message of a compiled context."""

    participant: str
    role: str  # "user" or "assistant"
    blocks: list[Block]
    tokens: int
    id: str | None = None  # of the source message
    summary: str | None = None  # id of the summary that it shows
    cache: bool = False  # a cache breakpoint stands after it
    metadata: dict[str, Any] = {}  # of an injection
    answers: bool = False  # tool results alone, whatever has become of them: nobody's own words


class Piece(msgspec.Struct):
    """A block of a turn."""

    block: Block
    cache: bool = False  # a cache breakpoint stands after it


class Turn(msgspec.Struct):
    role: str
    pieces: list[Piece]


def turns_of(messages: Sequence[CompiledMessage], sendable: Callable[[Block], bool]) -> list[Turn]:
    """The exchange. `sendable`: whether an API takes a block at all; blank text is never sent."""
    several = len(speakers(messages)) > 1
    turns: list[Turn] = []
    for message in messages:
        name = message.participant if several and _speaks(message) else None
        for block in message.blocks:
            if (isinstance(block, Text) and not block.text.strip()) or not sendable(block):
                continue
            role = role_of(block, message.role)
            if name is not None and role == "user" and isinstance(block, Text):
                block, name = Text(named(name, block.text)), None
            if not turns or turns[-1].role != role:
                turns.append(Turn(role, []))
            turns[-1].pieces.append(Piece(block))
        if message.cache and turns:
            turns[-1].pieces[-1].cache = True
    turns = _concluded(turns)
    _settle_pairs(turns)
    return turns


def _concluded(turns: list[Turn]) -> list[Turn]:
    """The turns, without thinking that nothing follows. A breakpoint on what goes moves to what stands before it."""
    kept: list[Turn] = []
    for turn in turns:
        pieces = turn.pieces
        marked = False
        while pieces and _is_thought(pieces[-1].block):
            marked = pieces.pop().cache or marked
        if not pieces:
            if marked and kept:
                kept[-1].pieces[-1].cache = True
            continue
        pieces[-1].cache = pieces[-1].cache or marked
        if kept and kept[-1].role == turn.role:
            kept[-1].pieces += pieces
        else:
            kept.append(turn)
    return kept


def _is_thought(block: Block) -> bool:
    return isinstance(block, Thinking) or (isinstance(block, Unknown) and is_hidden_thinking(block))


def role_of(block: Block, role: str) -> str:
    """Who says a block of a message of this role."""
    if isinstance(block, ToolUse) or _is_thought(block):
        return "assistant"
    return "user" if isinstance(block, ToolResult) else role


def is_hidden_thinking(block: Unknown) -> bool:
    return block.data.get("type") == "redacted_thinking" and isinstance(block.data.get("data"), str)


def _speaks(message: CompiledMessage) -> bool:
    """Whether it is a message of a user's own words."""
    spoken = message.id is not None and is_speaker(message.participant, message.role, message.answers)
    return spoken and says_something(message.blocks)


def name_sizes(messages: Sequence[CompiledMessage], counter: Counter) -> int:
    """Tokens of all names that the forms write."""
    if len(speakers(messages)) < 2:
        return 0
    texts = [(message.participant, first_text(message.blocks)) for message in messages if _speaks(message)]
    return sum(name_tokens(name, text, counter) for name, text in texts if text is not None)


def speakers(messages: Sequence[CompiledMessage]) -> set[str]:
    """The users who say something of their own."""
    return {message.participant for message in messages if _speaks(message)}


# --- pairs ----------------------------------------------------------------------------------------------------------


def _settle_pairs(turns: list[Turn]) -> None:
    """Leaves calls that the next turn answers, with their results first in it, under ids of their own."""
    taken: set[str] = set()
    open_calls: list[tuple[str, str]] = []  # of the turn before: (id as it was, id as it is sent)
    for at, turn in enumerate(turns):
        if turn.role == "user":
            _settle_results(turn, open_calls)
        open_calls = []
        if turn.role == "assistant":
            answers = _answers(turns[at + 1]) if at + 1 < len(turns) else []
            for piece in turn.pieces:
                call = piece.block
                if not isinstance(call, ToolUse):
                    continue
                if call.id in answers:
                    answers.remove(call.id)
                    sent = _unique(call.id, taken)
                    open_calls.append((call.id, sent))
                    piece.block = ToolUse(sent, name_of(call.name), call.input)
                else:
                    (piece.block,) = half(call)


def _answers(turn: Turn) -> list[str]:
    return [piece.block.tool_use_id for piece in turn.pieces if isinstance(piece.block, ToolResult)]


def _settle_results(turn: Turn, calls: list[tuple[str, str]]) -> None:
    results: list[Piece] = []
    others: list[Piece] = []
    marked = any(piece.cache for piece in turn.pieces)
    waiting = list(calls)
    for piece in turn.pieces:
        result = piece.block
        if not isinstance(result, ToolResult):
            others.append(piece)
            continue
        found = next((call for call in waiting if call[0] == result.tool_use_id), None)
        if found is None:
            others += [Piece(block) for block in half(result)]
            others[-1].cache = piece.cache
        else:
            waiting.remove(found)
            results.append(Piece(ToolResult(found[1], result.content, result.is_error), piece.cache))
    turn.pieces = results + others
    if marked and results and others:  # what was moved would be cached in part
        for piece in turn.pieces:
            piece.cache = False
        turn.pieces[-1].cache = True


def _unique(id: str, taken: set[str]) -> str:
    plain = _FOREIGN.sub("_", id)[:_ID_SIZE] or "call"
    found, number = plain, 2
    while found in taken:
        end = f"-{number}"
        found = plain[: _ID_SIZE - len(end)] + end
        number += 1
    taken.add(found)
    return found


def name_of(name: str) -> str:
    """A tool's name in the letters that APIs accept."""
    return _FOREIGN.sub("_", name)[:_ID_SIZE] or "tool"


# --- as text --------------------------------------------------------------------------------------------------------


def media_text(block: Media) -> str:
    """Media that an API does not take, named."""
    source = block.source
    what = source.get("url") if isinstance(source.get("url"), str) else source.get("media_type")
    what = f": {str(what)[:_NAMED]}" if str(what or "").strip() else ""
    title = block.extra.get("title")
    title = f" {title[:_NAMED]!r}" if isinstance(title, str) and title else ""
    return f"[{block.kind}{title}{what}]"


def media_words(block: Media) -> str:
    """Media that an API does not take, named, with the text that is in it."""
    source = block.source
    text: Any = None
    if source.get("type") == "text":
        text = source.get("data")
    elif source.get("type") == "content":
        text = source.get("content")
        if isinstance(text, list):
            text = "\n".join(words_of(part) for part in parts_of(text))
    named = media_text(block)
    return f"{named}\n{text}" if isinstance(text, str) and text.strip() else named


def parts_of(content: Sequence[Any]) -> list[Block]:
    """What stands in a document's or result's content; what is no block as its JSON."""
    found: list[Block] = []
    for part in content:
        try:
            found += parse([part])
        except InvalidOperation:
            found.append(Text(as_json(part)))
    return found


def words_of(block: Block) -> str:
    """A block as text alone."""
    if isinstance(block, Text):
        return block.text
    if isinstance(block, Media):
        return media_words(block)
    return unknown_text(block) if isinstance(block, Unknown) else as_json(plain(block))


def unknown_text(block: Unknown) -> str:
    """A block of a kind that an API may not know."""
    return f"[{block.data.get('type') or 'block'}] {as_json(block.data)}"


def json_value(value: Any) -> Any:
    """The value with nothing in it that JSON has no form for."""
    if isinstance(value, str | bool | int) or value is None:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(item) for item in value]
    return repr(value)


def arguments(input: Any) -> dict[str, Any]:
    """A call's input as the object that APIs ask for."""
    plain = json_value(input)
    return plain if isinstance(plain, dict) else {"input": plain}
