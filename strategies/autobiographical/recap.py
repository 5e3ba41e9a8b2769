"""What a conversation was about so far, for one who is to say so: the old head and the top memories. Pure.

The recent window, and what is pinned outside the head, are no part of it. Of the tokens the head gets half at most, the
memories what is left, the highest level first and of a level the newest. Where there is neither, the newest messages
stand for them. Long messages are cut. All is text, as in other requests.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from msgspec.structs import replace

from chronicle_py.context.blocks import Block, Text
from chronicle_py.strategies.autobiographical.chunks import head_index
from chronicle_py.strategies.autobiographical.request import RequestRule, remembered, said
from chronicle_py.strategies.autobiographical.state import LEVELS, Memory, State, level_of
from chronicle_py.strategies.shortening import cut_text
from chronicle_py.strategies.strategy import Entry, MessageView
from chronicle_py.strategies.transcript import Row
from chronicle_py.strategies.windows import head_end

_LONGEST = 16  # of the tokens, the part that one message may take


class RecapRule(RequestRule, Protocol):
    """What a recap needs to know of the configuration."""

    @property
    def head_window_tokens(self) -> int: ...


def recap(state: State, view: MessageView, tokens: int, rule: RecapRule) -> list[Entry]:
    """The entries, in the order of what they cover; together at most so many tokens. O(shown · log n)."""
    messages = state.messages
    first = head_index(state)
    fixed = state.head.end >= 0
    stop = messages.index_of(state.head.end) if fixed else head_end(messages, first, rule.head_window_tokens)
    most = max(1, tokens // _LONGEST)
    head = _fitting(messages.units(first, stop), view, tokens // 2, most)
    left = tokens - sum(entry.tokens for entry in head)
    memories = []
    for memory in _memories(state):
        if memory.tokens > left:
            break
        left -= memory.tokens
        memories.append(memory)
    if not head and not memories:
        return _fitting(messages.units_back(0, len(messages)), view, tokens, most, newest_first=True)
    told = [(memory.first_seq, remembered(memory, view, rule)) for memory in memories]
    placed = [*((entry.seq or 0, entry) for entry in head), *told]
    return [entry for _, entry in sorted(placed, key=lambda item: item[0])]


def _memories(state: State) -> Iterator[Memory]:
    for number in range(LEVELS, 0, -1):
        level = level_of(state, number)
        yield from (level.all[entry.number] for entry in reversed(level.unmerged))


def _fitting(
    units: Iterator[tuple[int, list[Row]]], view: MessageView, tokens: int, most: int, newest_first: bool = False
) -> list[Entry]:
    """Pairs as they come, as text, each message cut to `most`, until the tokens are used up."""
    found: list[list[Entry]] = []
    for _, rows in units:
        entries = [_cut(entry, view, most) for entry in said([view.message(row.seq) for row in rows], view)]
        tokens -= sum(entry.tokens for entry in entries)
        if tokens < 0:
            break
        found.append(entries)
    return [entry for entries in (reversed(found) if newest_first else found) for entry in entries]


def _cut(entry: Entry, view: MessageView, most: int) -> Entry:
    texts = [block.text for block in entry.blocks if isinstance(block, Text)]
    text = cut_text("\n".join(texts), most, view)
    blocks: list[Block] = [Text(text)] if text else []
    return replace(entry, blocks=blocks, tokens=view.count(text))
