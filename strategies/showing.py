"""From messages to entries: one pair, or a message without one, as a context shows it. Pure.

The content of a pair is settled here: half pairs become text, and what the limits ask for is shortened. Where several
users speak on the branch, their names are counted with their words. A pair depends on nothing around it, so that it
costs the same tokens wherever it is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from chronicle_py.context.blocks import Block, ToolResult, ToolUse
from chronicle_py.context.counting import count_blocks
from chronicle_py.strategies.naming import first_text, is_speaker
from chronicle_py.strategies.pairs import half, match
from chronicle_py.strategies.shortening import cut_input, cut_message, marked
from chronicle_py.strategies.strategy import Entry, MessageView, ViewedMessage
from chronicle_py.strategies.transcript import Row


class Limits(msgspec.Struct, frozen=True):
    """How a message's content is shortened."""

    message: int = 0  # tokens of a message's texts and tool results; 0: no limit
    input: int = 0  # tokens of a tool call's input; 0: no limit
    old: Callable[[str, int], bool] | None = None  # whether a result of a tool, of this rank, is an old one


NO_LIMITS = Limits()


class Shown(msgspec.Struct, frozen=True, gc=False):
    """A pair, or a message without one, as it is shown."""

    index: int  # of its first message
    entries: list[Entry]
    tokens: int
    names: int = 0  # tokens among them that are the names of who speaks
    turn: bool = False  # a turn begins here: a user's message that is no tool result


def show(view: MessageView, index: int, rows: Sequence[Row], limits: Limits = NO_LIMITS) -> Shown:
    """The entries of one pair. Cost: reading its messages; tokens are counted only where content is changed."""
    messages = [view.message(row.seq) for row in rows]
    contents = [message.blocks for message in messages]
    if any(row.calls or row.answers for row in rows):
        contents = _settled(contents, rows, limits, view)
    entries = []
    total = names = 0
    for message, row, blocks in zip(messages, rows, contents, strict=True):
        tokens = row.tokens
        if blocks is not message.blocks:
            tokens = count_blocks(blocks, view)[0]
        if limits.message and tokens > limits.message:
            blocks = cut_message(blocks, tokens, limits.message, view)
            tokens = count_blocks(blocks, view)[0]
        name = _name(message, row, blocks, view)
        names += name
        total += tokens + name
        entries.append(_entry(message, row, blocks, tokens + name))
    return Shown(index, entries, total, names, messages[0].role == "user" and not rows[0].answers)


def _name(message: ViewedMessage, row: Row, blocks: list[Block], view: MessageView) -> int:
    """Tokens of the name before the message."""
    if not is_speaker(message.participant, message.role, row.only_answers):
        return 0
    text = first_text(blocks)
    return 0 if text is None else view.name_tokens(message.participant, text)


def _entry(message: ViewedMessage, row: Row, blocks: list[Block], tokens: int) -> Entry:
    return Entry(message.participant, message.role, blocks, tokens, message.seq, message.id, answers=row.only_answers)


def _settled(contents: list[list[Block]], rows: Sequence[Row], limits: Limits, view: MessageView) -> list[list[Block]]:
    """The contents of a pair, with half pairs as text and calls and results shortened; unchanged ones as they are."""
    names = match(contents)
    settled = []
    for at, (row, blocks) in enumerate(zip(rows, contents, strict=True)):
        new: list[Block] = []
        answer = 0
        for place, block in enumerate(blocks):
            name = names.get((at, place))
            if isinstance(block, ToolUse):
                call = cut_input(block, limits.input, view) if limits.input else block
                new += [call] if name is not None else half(call)
            elif isinstance(block, ToolResult):
                rank = row.ranks[answer] if answer < len(row.ranks) else 0
                answer += 1
                if name is None:
                    new += half(block)
                elif rank and limits.old is not None and limits.old(name, rank):
                    new.append(marked(block, name))
                else:
                    new.append(block)
            else:
                new.append(block)
        same = len(new) == len(blocks) and all(a is b for a, b in zip(new, blocks, strict=True))
        settled.append(blocks if same else new)
    return settled
