"""The options of `Autobiographical`, their defaults, and what is checked of them. Pure."""

from __future__ import annotations

from typing import Any

import msgspec
from blake3 import blake3

from chronicle_py.errors import InvalidOperation

SYSTEM_PROMPT = (
    "You are the memory of an agent. You read a part of its conversation and write down what it should remember, in "
    "its own voice: what was asked, what was done and found, names, paths, figures, decisions and their reasons, and "
    "what is still open. You invent nothing."
)
CHUNK_PROMPT = (
    "Write your memory of the part of the conversation above that follows your earlier memories, in the first person, "
    "in about {target} tokens. Keep what will matter later: facts, decisions, results, exact names and figures, open "
    "questions. Write the memory alone."
)
MERGE_PROMPT = (
    "The {count} memories above follow each other. Write one memory of them, in the first person, in about {target} "
    "tokens. Keep what still matters, in order; leave out what was settled or repeated. Write the memory alone."
)

_TOKENS = (
    "head_window_tokens", "recent_window_tokens", "l1_budget_tokens", "l2_budget_tokens", "l3_budget_tokens",
    "tool_use_input_max_tokens", "max_message_tokens",
)  # fmt: skip
_POSITIVE = ("target_chunk_tokens", "summary_target_tokens")
_TEXTS = (
    "recall_header_template", "summary_context_label", "summary_participant", "compression_model", "system_prompt",
    "chunk_prompt", "merge_prompt",
)  # fmt: skip
_SWITCHES = ("attachments_ignore_size", "hierarchical", "positioned_recall_pairs", "enforce_budget", "auto_tick")
_FOLDED = (
    "head_window_tokens", "recent_window_tokens", "target_chunk_tokens", "attachments_ignore_size", "hierarchical",
    "merge_threshold",
)  # fmt: skip

MIN_CHUNK_MESSAGES = 4


class Options(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """What can be chosen. All tokens are whole numbers from 0.

    Chunks and summaries:
    `head_window_tokens`, `recent_window_tokens`: of the first and the newest messages, which stay raw.
    `target_chunk_tokens`: of a chunk, at least. `attachments_ignore_size`: media do not count toward it.
    `hierarchical`: summaries are merged, `merge_threshold` of one level into one of the next, up to level 3.
    `summary_target_tokens`: of a summary; the request's limit is 1.5 times that.
    `max_speculative_l1s`: unmerged L1 plus queued chunks above it hold back automatic compression.
    `auto_tick`: the manager works off what is planned by itself.
    `compression_model`, `system_prompt`, `chunk_prompt`, `merge_prompt`: what a summary is asked of and with; part of
    its key. The prompts may use {target} and {count}.

    Rendering:
    `l1_budget_tokens`, `l2_budget_tokens`, `l3_budget_tokens`: what a level may take; what it leaves goes to the next.
    `positioned_recall_pairs`: each summary is a question and answer at the place of what it covers, the question made
    of `recall_header_template` ({id}, {level}, {first}, {last}); else one pair for all, asked by
    `summary_context_label`, between head and middle. `summary_participant`: who answers.
    `tool_result_max_last_n`: how many results of a tool keep their content; for all tools, or by name.
    `tool_use_input_max_tokens`, `max_message_tokens`: limits above which inputs, and texts and results, are shortened.
    `enforce_budget`: False shows everything, even over budget.
    """

    head_window_tokens: int = 0
    recent_window_tokens: int = 30_000
    target_chunk_tokens: int = 3_000
    attachments_ignore_size: bool = True
    hierarchical: bool = True
    merge_threshold: int = 6
    summary_target_tokens: int = 2_000
    l1_budget_tokens: int = 30_000
    l2_budget_tokens: int = 30_000
    l3_budget_tokens: int = 30_000
    positioned_recall_pairs: bool = True
    recall_header_template: str = "[Recall {id}]"
    summary_context_label: str = "What do you remember from earlier?"
    summary_participant: str = "Claude"
    tool_result_max_last_n: int | dict[str, int] | None = None
    tool_use_input_max_tokens: int = 0
    max_speculative_l1s: int | None = None
    enforce_budget: bool = True
    max_message_tokens: int = 0
    compression_model: str = ""
    system_prompt: str = SYSTEM_PROMPT
    chunk_prompt: str = CHUNK_PROMPT
    merge_prompt: str = MERGE_PROMPT
    auto_tick: bool = False

    def __post_init__(self) -> None:
        for name in _TOKENS:
            self._number(name, 0)
        for name in _POSITIVE:
            self._number(name, 1)
        self._number("merge_threshold", 2)
        if self.max_speculative_l1s is not None:
            self._number("max_speculative_l1s", 0)
        for name in _SWITCHES:
            if not isinstance(getattr(self, name), bool):
                raise self._wrong(name, "True or False")
        for name in _TEXTS:
            if not isinstance(getattr(self, name), str):
                raise self._wrong(name, "a str")
        self._check_results()
        self._check_templates()

    def _number(self, name: str, least: int) -> None:
        value = getattr(self, name)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 1 << 40:
            raise self._wrong(name, f"a whole number from {least}")

    def _wrong(self, name: str, wanted: str) -> InvalidOperation:
        return InvalidOperation(f"{type(self).__name__}: {name} is {wanted}, not {getattr(self, name)!r}")

    def _check_results(self) -> None:
        value: Any = self.tool_result_max_last_n
        counts = list(value.values()) if isinstance(value, dict) else [value] if value is not None else []
        if any(not isinstance(n, int) or isinstance(n, bool) or n < 0 for n in counts) or (
            isinstance(value, dict) and not all(isinstance(name, str) for name in value)
        ):
            raise self._wrong("tool_result_max_last_n", "None, a whole number from 0, or such by names of tools")

    def _check_templates(self) -> None:
        try:
            self.recall_header_template.format(id="L1-0", level=1, first="", last="")
        except (KeyError, IndexError, ValueError, AttributeError):
            raise self._wrong(
                "recall_header_template", "a template with {id}, {level}, {first} and {last} at most"
            ) from None
        for name in ("chunk_prompt", "merge_prompt"):
            try:
                getattr(self, name).format(target=1, count=1, phases="")
            except (KeyError, IndexError, ValueError, AttributeError):
                raise self._wrong(name, "a template with {target}, {count} and {phases} at most") from None

    # --- what follows from them ---

    def folded(self) -> list[Any]:
        """The options that the fold depends on."""
        return [getattr(self, name) for name in _FOLDED] + [self.tool_result_max_last_n is not None]

    @property
    def fingerprint(self) -> str:
        """Of the options that the fold depends on: with others, states are folded anew."""
        return blake3(msgspec.json.encode(self.folded())).hexdigest(length=16)

    def results_kept(self, tool: str) -> int | None:
        """How many results of a tool keep their content; None: all."""
        limit = self.tool_result_max_last_n
        return limit.get(tool) if isinstance(limit, dict) else limit

    # --- by level and phase; Knowledge has its own ---

    def instruction(self, level: int, phase: str, count: int) -> str:
        """What a summarizer is told at the end of a request."""
        prompt = self.chunk_prompt if level == 1 else self.merge_prompt
        return prompt.format(target=self.summary_target_tokens, count=count, phases=phase)

    def digest(self, level: int, phase: str) -> bytes:
        """What of the configuration a summary's key stands for."""
        prompt = self.chunk_prompt if level == 1 else self.merge_prompt
        parts = [level, self.system_prompt, prompt, self.compression_model, self.summary_target_tokens]
        return blake3(msgspec.msgpack.encode(parts)).digest(length=8)
