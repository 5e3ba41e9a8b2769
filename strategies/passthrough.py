"""`Passthrough`: all messages, or where they do not fit, the newest that do. Pure."""

from __future__ import annotations

from typing import Any

from chronicle_py.context.payloads import MESSAGE_TYPES, SummaryPayload
from chronicle_py.errors import InvalidOperation
from chronicle_py.event import Event
from chronicle_py.strategies import transcript
from chronicle_py.strategies.filling import check_room, newest_first
from chronicle_py.strategies.strategy import Budget, MessageView, Rendering, RenderStats, Request, Share, Work
from chronicle_py.strategies.transcript import Transcript


class Passthrough:
    """Shows the conversation as it is, without summaries.

    Where it does not fit the budget, the oldest messages give way, whole pairs, in steps of a quarter of the budget.
    """

    name = "passthrough"
    version = 1
    fingerprint = ""
    state_type = Transcript
    types = frozenset(MESSAGE_TYPES)

    def __repr__(self) -> str:
        return "Passthrough()"

    def initial(self) -> Transcript:
        return Transcript()

    def fold(self, state: Transcript, event: Event) -> Transcript:
        return transcript.fold(state, event)

    def plan(self, state: Transcript) -> tuple[Work, ...]:
        return ()

    def request(self, state: Transcript, work: Work, view: MessageView) -> Request:
        raise InvalidOperation("Passthrough makes no summaries, so there is nothing to ask a summarizer for")

    def complete(self, work: Work, text: Any, tokens: int) -> SummaryPayload:
        raise InvalidOperation("Passthrough makes no summaries, so there is none to record")

    def render(self, state: Transcript, view: MessageView, budget: Budget) -> Rendering:
        """BudgetTooSmall when the newest message with its pair does not fit. O(shown · log n)."""
        check_room(budget)
        shown = newest_first(state, view, budget.available, budget.max_tokens - budget.reserve_for_response, 0)
        entries = [entry for pair in shown for entry in pair.entries]
        tokens = sum(pair.tokens for pair in shown)
        stats = RenderStats(tail=Share(len(entries), tokens), total=tokens, left_out=len(state) - len(entries))
        return Rendering(entries, stats)
