"""What a summarizer is asked: earlier memories as the agent's own words, then what is to be remembered. Pure.

Everything is text: tool calls stand with their inputs and results, shortened, never dropped, for a model that is asked
for a summary has no tools; media are named. Earlier memories are those of what came before, the newest of each level
within its budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from chronicle_py.context.blocks import Block, Media, Text, Thinking, ToolResult, ToolUse
from chronicle_py.context.counting import as_json
from chronicle_py.strategies.autobiographical.recall import payload_of
from chronicle_py.strategies.autobiographical.state import LEVELS, Memory, State, level_of
from chronicle_py.strategies.pairs import match, text_of
from chronicle_py.strategies.shortening import cut_text
from chronicle_py.strategies.strategy import Entry, MessageView, Request, ViewedMessage, Work

_SHORT: Final = 300  # tokens of a tool call's input, of a result and of thinking


class RequestRule(Protocol):
    """What a request needs to know of the configuration."""

    @property
    def l1_budget_tokens(self) -> int: ...
    @property
    def l2_budget_tokens(self) -> int: ...
    @property
    def l3_budget_tokens(self) -> int: ...
    @property
    def summary_target_tokens(self) -> int: ...
    @property
    def summary_participant(self) -> str: ...
    @property
    def compression_model(self) -> str: ...
    @property
    def system_prompt(self) -> str: ...

    def instruction(self, level: int, phase: str, count: int) -> str: ...


def request(state: State, work: Work, view: MessageView, rule: RequestRule) -> Request:
    """The request for a piece of work. Cost: reading its messages, and the memories shown along."""
    budgets = (rule.l1_budget_tokens, rule.l2_budget_tokens, rule.l3_budget_tokens)
    entries = [
        remembered(memory, view, rule)
        for level in range(LEVELS, 0, -1)
        for memory in _earlier(state, level, work.first_seq, budgets[level - 1])
    ]
    if work.level == 1:
        entries += said([view.message(seq) for seq in work.source_seqs], view)
    else:
        entries += [remembered(memory, view, rule) for memory in _sources(state, work)]
    target = rule.summary_target_tokens
    return Request(
        work=work, system=rule.system_prompt, entries=entries,
        instruction=rule.instruction(work.level, work.phase, len(work.sources)), target_tokens=target,
        max_tokens=target * 3 // 2, model=rule.compression_model, temperature=0.0,
    )  # fmt: skip


def _earlier(state: State, level: int, before: int, budget: int) -> list[Memory]:
    """The unmerged memories of a level that end before a sequence, the newest that fit the budget, oldest first."""
    known = level_of(state, level)
    found: list[Memory] = []
    for at in range(known.unmerged.place(before) - 1, -1, -1):
        entry = known.unmerged[at]
        if entry.last >= before:
            continue
        budget -= entry.tokens
        if budget < 0:
            break
        found.append(known.all[entry.number])
    return found[::-1]


def _sources(state: State, work: Work) -> Iterator[Memory]:
    known = level_of(state, work.level - 1).all
    for id in work.sources:
        yield known[int(id.partition("-")[2])]


def remembered(memory: Memory, view: MessageView, rule: RequestRule) -> Entry:
    """A memory as the agent's own words."""
    blocks: list[Block] = [Text(view.text(payload_of(memory)))]
    return Entry(rule.summary_participant, "assistant", blocks, memory.tokens, summary=memory.id)


def said(messages: Sequence[ViewedMessage], view: MessageView) -> list[Entry]:
    """Messages as text."""
    names = match([message.blocks for message in messages])
    entries = []
    for at, message in enumerate(messages):
        blocks: list[Block] = []
        for place_of, block in enumerate(message.blocks):
            text = _as_text(block, names.get((at, place_of)), view)
            if text:
                blocks.append(Text(text))
        entries.append(Entry(message.participant, message.role, blocks, message.tokens, message.seq, message.id))
    return entries


def _as_text(block: Block, tool: str | None, view: MessageView) -> str:
    if isinstance(block, Text):
        return block.text
    if isinstance(block, Thinking):
        return f"[Thinking: {cut_text(block.thinking, _SHORT, view)}]"
    if isinstance(block, ToolUse):
        return f"[Tool call {block.name}: {cut_text(as_json(block.input), _SHORT, view)}]"
    if isinstance(block, ToolResult):
        error = " (an error)" if block.is_error else ""
        return f"[Result of {tool or block.tool_use_id}{error}: {cut_text(text_of(block.content), _SHORT, view)}]"
    return f"[{block.kind}]" if isinstance(block, Media) else cut_text(as_json(block.data), _SHORT, view)
