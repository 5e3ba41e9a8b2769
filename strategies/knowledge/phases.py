"""The phases of an agent's work, and how they are told by the tools it uses. Pure.

A phase is a number: the higher one prevails where several meet in one message, pair or chunk.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

SYNTHESIS, RESEARCH, SUBAGENT, LESSON = range(4)
NAMES: Final = ("synthesis", "research", "subagent", "lesson")


def of_tools(
    tools: Iterable[str], lessons: Sequence[str], subagents: tuple[str, ...], research: tuple[str, ...]
) -> int:
    """The phase of a message that calls these tools: lessons by name, the others by how the name begins."""
    phase = SYNTHESIS
    for tool in tools:
        if tool in lessons:
            return LESSON
        if tool.startswith(subagents):
            phase = SUBAGENT
        elif phase < RESEARCH and tool.startswith(research):
            phase = RESEARCH
    return phase


def together(phases: Iterable[str]) -> str:
    """The phases of what is merged, each once, in the order in which they come up."""
    return ", ".join(dict.fromkeys(name for phase in phases for name in phase.split(", ") if name))
