"""The options that `Knowledge` has beside those of `Autobiographical`, and its prompts. Pure."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from chronicle_py.strategies.autobiographical.options import Options
from chronicle_py.strategies.knowledge import phases

_LEADS = (
    " Mark each question, lead or loose end that is not resolved with [LEAD] at the beginning of its line. Write the "
    "memory alone."
)
PROMPTS: Final = {
    "research": "What stands above is research. Write down, in about {target} tokens, what was looked for, where, what "
    "was found with exact names, figures and sources, and what was not found." + _LEADS,
    "subagent": "What stands above is the work of subagents. Write down, in about {target} tokens, what each was "
    "asked, what it reported, and how far that can be trusted." + _LEADS,
    "lesson": "What stands above made or changed lessons. Write down, in about {target} tokens, each lesson in full, "
    "what it was learned from and when it applies." + _LEADS,
    "synthesis": "What stands above is thinking and talk. Write down, in the first person and in about {target} "
    "tokens, what was concluded, decided and agreed, and why." + _LEADS,
}
MERGE_PROMPT: Final = (
    "The {count} memories above follow each other; their phases: {phases}. Write one memory of them, in the first "
    "person, in about {target} tokens. Keep conclusions, lessons and exact facts; leave out what was settled or "
    "repeated. Keep every line marked [LEAD] that is still open, marked so. Write the memory alone."
)


class KnowledgeOptions(Options, frozen=True, kw_only=True):
    """What can be chosen beside the options of `Autobiographical`.

    `lesson_tools`: names of tools. `subagent_prefixes`, `research_prefixes`: how names of tools begin.
    `phase_prompts`: the instruction for chunks of a phase (research, subagent, lesson, synthesis), instead of the one
    in `PROMPTS`; may use {target}. There is no use for `chunk_prompt` here.
    `synthesis_floor`, `synthesis_cap`, `research_cap`: shares (0 to 1) of the budget for L1 that synthesis has at least
    and may take at most, and that research may take at most.
    """

    merge_prompt: str = MERGE_PROMPT
    lesson_tools: tuple[str, ...] = ("lessons:create", "lessons:update")
    subagent_prefixes: tuple[str, ...] = ("subagent:",)
    research_prefixes: tuple[str, ...] = ("mcpl:", "zulip:")
    phase_prompts: dict[str, str] = msgspec.field(default_factory=dict)
    synthesis_floor: float = 0.4
    synthesis_cap: float = 0.7
    research_cap: float = 0.3

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("lesson_tools", "subagent_prefixes", "research_prefixes"):
            value: Any = getattr(self, name)
            if not isinstance(value, tuple) or not all(isinstance(text, str) and text for text in value):
                raise self._wrong(name, "a tuple of names that are not empty")
        for name in ("synthesis_floor", "synthesis_cap", "research_cap"):
            value = getattr(self, name)
            if not isinstance(value, float | int) or isinstance(value, bool) or not 0 <= value <= 1:
                raise self._wrong(name, "a share from 0 to 1")
        if self.synthesis_floor > self.synthesis_cap:
            raise self._wrong("synthesis_floor", f"not above synthesis_cap, {self.synthesis_cap}")
        prompts: Any = self.phase_prompts
        try:
            for name, prompt in prompts.items():
                if name not in phases.NAMES:
                    raise KeyError(name)
                prompt.format(target=1)
        except (KeyError, IndexError, ValueError, AttributeError, TypeError):
            raise self._wrong(
                "phase_prompts", f"a dict of templates, with {{target}} at most, by phases: {', '.join(phases.NAMES)}"
            ) from None
