"""`Autobiographical`: options, fold, plan and render under one name. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chronicle_py.context.payloads import MESSAGE_TYPES, Facts, PinPayload, SummaryPayload
from chronicle_py.event import Event
from chronicle_py.strategies.autobiographical import fold as folding
from chronicle_py.strategies.autobiographical import protection
from chronicle_py.strategies.autobiographical.known import Summaries, summary_of
from chronicle_py.strategies.autobiographical.options import MIN_CHUNK_MESSAGES, Options
from chronicle_py.strategies.autobiographical.plan import Plan, result
from chronicle_py.strategies.autobiographical.recap import recap
from chronicle_py.strategies.autobiographical.render import render
from chronicle_py.strategies.autobiographical.request import request
from chronicle_py.strategies.autobiographical.state import State
from chronicle_py.strategies.strategy import (
    Budget,
    Entry,
    MessageView,
    ProtectedRange,
    Rendering,
    RenderStats,
    Request,
    SummaryInfo,
    Work,
)


class Autobiographical(Options, frozen=True, kw_only=True):
    """An agent's memory of a long conversation: old messages give way to summaries of them, and these to summaries of
    summaries, while the beginning, the newest messages and what is pinned stay as they are.

    Takes the options of `Options`, by name. Pinnable, searchable, resettable, with render statistics.
    """

    name = "autobiographical"
    version = 2
    state_type = State
    types = frozenset(MESSAGE_TYPES)

    # --- the reducer ---

    def initial(self) -> State:
        return State()

    def fold(self, state: State, event: Event) -> State:
        """See fold.py. O(1) amortised for a message, O(log n) for a change of one."""
        return folding.fold(state, event, self)

    # --- summaries ---

    def plan(self, state: State) -> Plan:
        """Queued chunks and merges, oldest first; worked out as it is read. See plan.py."""
        return Plan(state, self)

    def request(self, state: State, work: Work, view: MessageView) -> Request:
        """See request.py."""
        return request(state, work, view, self)

    def complete(self, work: Work, text: Any, tokens: int) -> SummaryPayload:
        """The payload of the `summary` event. `text`: BlobRef of the text."""
        return result(work, text, tokens, self.compression_model)

    # --- contexts ---

    def render(self, state: State, view: MessageView, budget: Budget) -> Rendering:
        """See render.py. BudgetTooSmall when what must be there does not fit. O(shown · log n)."""
        return render(state, view, budget, self)

    def render_stats(self, state: State, view: MessageView, budget: Budget) -> RenderStats:
        """What a rendering is made of. Cost: that of rendering."""
        return render(state, view, budget, self).stats

    # --- pins, search, head ---

    def pins(self, state: State) -> list[ProtectedRange]:
        """Protected ranges, in the order they were made."""
        return protection.ranges(state)

    def check_pin(self, state: State, pin: PinPayload) -> None:
        """InvalidOperation for a range that cannot be protected."""
        protection.check(state, pin)

    def summaries(self, state: State) -> Summaries:
        """All summaries that stand, oldest first; made as they are read."""
        return Summaries(state)

    def summary(self, state: State, id: str) -> SummaryInfo | None:
        """The summary of an id like "L1-0"; None when there is none, or it is void. O(log n + its sources)."""
        return summary_of(state, id)

    def head_start(self, state: State) -> int:
        """The sequence at which the head window begins; 0: at the first message."""
        return state.head.start

    def recap(self, state: State, view: MessageView, tokens: int) -> list[Entry]:
        """The old head and the top memories, for whoever writes the transition. See recap.py."""
        return recap(state, view, tokens, self)

    # --- the rules that Knowledge has its own for ---

    def full(self, messages: int, size: int, phase: int) -> bool:
        return messages >= MIN_CHUNK_MESSAGES and size >= self.target_chunk_tokens

    def parted(self, messages: int, phase: int, next: int) -> bool:
        return False

    def missing(self, size: int) -> int:
        return max(1, self.target_chunk_tokens - size)

    def phase_of(self, facts: Facts, last: int) -> tuple[int, int]:
        return 0, 0

    def phase_name(self, phase: int) -> str:
        return ""

    def merged_phase(self, phases: Sequence[str]) -> str:
        return ""

    def shares(self, level: int) -> Sequence[tuple[str, int, int]]:
        return (("", 0, 100),)
