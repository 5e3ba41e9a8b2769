"""`Compiled`: what goes into a context window, and its forms for two APIs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from chronicle_py.context.anthropic_form import to_anthropic
from chronicle_py.context.blocks import Block, Media, Text, Thinking, ToolResult, ToolUse, Unknown
from chronicle_py.context.openai_form import to_openai
from chronicle_py.context.tokens import as_json
from chronicle_py.context.turns import CompiledMessage, media_text, unknown_text
from chronicle_py.strategies.strategy import RenderStats


class Compiled(msgspec.Struct, frozen=True):
    """A context: the same for the same branch head, strategy configuration, budget and injections.

    `tokens` are those of the messages, injections and system text as they were counted, and of "Name: " before users'
    words from where on a second user has spoken on the branch. The forms never write more text than that, but for what
    they say themselves: that the conversation starts, that a result is empty or an error, the names of media and the
    kinds of blocks that an API does not take. That, and what an API adds around messages, is what the budget's reserve
    is for.
    """

    messages: list[CompiledMessage]
    system: str = ""  # the system messages and injections, with blank lines between
    tokens: int = 0
    stats: RenderStats = RenderStats()

    def to_anthropic(self) -> dict[str, Any]:
        """{"system": str, "messages": list} for `client.messages.create(…, **it)`; plain data."""
        return to_anthropic(self.messages, self.system)

    def to_openai(self) -> list[dict[str, Any]]:
        """The messages for `client.chat.completions.create(messages=…)`; plain data."""
        return to_openai(self.messages, self.system)

    @property
    def text(self) -> str:
        """All of it for a person to read."""
        parts = [f"system: {self.system}"] if self.system else []
        parts += [f"{message.participant}: {spoken(message.blocks)}" for message in self.messages]
        return "\n\n".join(parts)


def system_text(parts: Sequence[Sequence[Block]]) -> str:
    """The text of system messages, those without any left out."""
    return "\n\n".join(text for blocks in parts if (text := spoken(blocks)).strip())


def spoken(blocks: Sequence[Any]) -> str:
    """Blocks as text alone."""
    return "\n\n".join(_spoken(block) for block in blocks)


def _spoken(block: Any) -> str:
    if isinstance(block, Text):
        return block.text
    if isinstance(block, ToolUse):
        return f"[{block.name} {as_json(block.input)}]"
    if isinstance(block, ToolResult):
        content = block.content if isinstance(block.content, str) else spoken(block.content)
        return f"[result{' (error)' if block.is_error else ''}] {content}"
    if isinstance(block, Thinking):
        return f"[thinking] {block.thinking}"
    return media_text(block) if isinstance(block, Media) else unknown_text(block) if isinstance(block, Unknown) else ""
