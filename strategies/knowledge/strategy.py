"""`Knowledge`: `Autobiographical` by phases of work. Pure.

The machinery is that of `Autobiographical`. Here is what differs: which phase a message belongs to, when a chunk ends,
what a summarizer is told, and how the memories of level 1 share their budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from blake3 import blake3

from chronicle_py.context.payloads import Facts
from chronicle_py.strategies.autobiographical import Autobiographical
from chronicle_py.strategies.autobiographical.options import MIN_CHUNK_MESSAGES
from chronicle_py.strategies.knowledge import phases
from chronicle_py.strategies.knowledge.options import PROMPTS, KnowledgeOptions

_MIN_MESSAGES: Final = 2  # of a chunk that ends because the phase changes
_HALVES: Final = {phases.RESEARCH: 4, phases.SUBAGENT: 4, phases.SYNTHESIS: 3, phases.LESSON: 2}  # of the target size


class Knowledge(KnowledgeOptions, Autobiographical, frozen=True, kw_only=True):
    """An agent's memory that tells research, the work of subagents, lessons and conclusions from each other.

    Takes the options of `KnowledgeOptions` and `Options`, by name. A merge's phase names those of its sources.
    """

    name = "knowledge"
    version = 2

    def folded(self) -> list[Any]:
        own = [list(self.lesson_tools), list(self.subagent_prefixes), list(self.research_prefixes)]
        return super().folded() + own

    def phase_of(self, facts: Facts, last: int) -> tuple[int, int]:
        """A message with tool calls has the phase of its tools, a bare result the last such one."""
        if facts.calls:
            phase = phases.of_tools(
                (call.name for call in facts.calls), self.lesson_tools, self.subagent_prefixes, self.research_prefixes
            )
            return phase, phase
        return (last, last) if facts.only_answers else (phases.SYNTHESIS, last)

    def phase_name(self, phase: int) -> str:
        return phases.NAMES[phase]

    def merged_phase(self, names: Sequence[str]) -> str:
        return phases.together(names)

    def full(self, messages: int, size: int, phase: int) -> bool:
        return messages >= MIN_CHUNK_MESSAGES and 2 * size >= _HALVES[phase] * self.target_chunk_tokens

    def parted(self, messages: int, phase: int, next: int) -> bool:
        return messages >= _MIN_MESSAGES and next != phase

    def missing(self, size: int) -> int:
        return 1  # the phase may change with the next message

    def instruction(self, level: int, phase: str, count: int) -> str:
        if level > 1:
            return super().instruction(level, phase, count)
        return self._prompt(phase).format(target=self.summary_target_tokens)

    def digest(self, level: int, phase: str) -> bytes:
        if level > 1:
            return super().digest(level, phase)
        parts = [level, self.system_prompt, self._prompt(phase), self.compression_model, self.summary_target_tokens]
        return blake3(msgspec.msgpack.encode(parts)).digest(length=8)

    def _prompt(self, phase: str) -> str:
        known = PROMPTS.get(phase, PROMPTS[phases.NAMES[phases.SYNTHESIS]])
        return self.phase_prompts.get(phase, known)

    def shares(self, level: int) -> Sequence[tuple[str, int, int]]:
        if level > 1:
            return super().shares(level)
        return (
            ("synthesis", round(self.synthesis_floor * 100), round(self.synthesis_cap * 100)),
            ("lesson", 0, 100),
            ("subagent", 0, 100),
            ("research", 0, round(self.research_cap * 100)),
        )
