"""`SlidingWindow`: the beginning of the conversation, and its newest messages. Pure."""

from __future__ import annotations

from typing import Any

from chronicle_py.context.payloads import MESSAGE_TYPES, SummaryPayload
from chronicle_py.errors import InvalidOperation
from chronicle_py.event import Event
from chronicle_py.strategies import transcript
from chronicle_py.strategies.filling import check_room, newest_first, too_small
from chronicle_py.strategies.showing import show
from chronicle_py.strategies.strategy import Budget, MessageView, Rendering, RenderStats, Request, Share, Work
from chronicle_py.strategies.transcript import Transcript
from chronicle_py.strategies.windows import head_end


class SlidingWindow:
    """Shows the head (the first messages) and the newest messages, without summaries.

    `head_window_tokens`: of the first messages, whole pairs. `recent_window_tokens`: of the newest; None: whatever the
    budget leaves. Where both together exceed the budget, the head shrinks in proportion. What gives way does so in
    steps of a quarter of the window of newest messages.
    """

    name = "sliding-window"
    version = 1
    fingerprint = ""
    state_type = Transcript
    types = frozenset(MESSAGE_TYPES)

    def __init__(self, *, head_window_tokens: int = 2_000, recent_window_tokens: int | None = None) -> None:
        for name, value in (("head_window_tokens", head_window_tokens), ("recent_window_tokens", recent_window_tokens)):
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
                raise InvalidOperation(f"SlidingWindow: {name} is a whole number of tokens from 0, not {value!r}")
        self.head_window_tokens = head_window_tokens
        self.recent_window_tokens = recent_window_tokens

    def __repr__(self) -> str:
        head, recent = self.head_window_tokens, self.recent_window_tokens
        return f"SlidingWindow(head_window_tokens={head}, recent_window_tokens={recent})"

    def initial(self) -> Transcript:
        return Transcript()

    def fold(self, state: Transcript, event: Event) -> Transcript:
        return transcript.fold(state, event)

    def plan(self, state: Transcript) -> tuple[Work, ...]:
        return ()

    def request(self, state: Transcript, work: Work, view: MessageView) -> Request:
        raise InvalidOperation("SlidingWindow makes no summaries, so there is nothing to ask a summarizer for")

    def complete(self, work: Work, text: Any, tokens: int) -> SummaryPayload:
        raise InvalidOperation("SlidingWindow makes no summaries, so there is none to record")

    def render(self, state: Transcript, view: MessageView, budget: Budget) -> Rendering:
        """BudgetTooSmall when the newest message with its pair does not fit. O(shown · log n)."""
        check_room(budget)
        if not len(state):
            return Rendering([])
        room = budget.available
        window = budget.max_tokens - budget.reserve_for_response
        recent = window if self.recent_window_tokens is None else self.recent_window_tokens
        newest = show(view, state.newest(), state.rows[state.newest() :])
        if newest.tokens > room:
            raise too_small(newest.tokens, 0, room)
        share = self.head_window_tokens
        if self.recent_window_tokens is not None and share + recent > room:
            share = share * room // (share + recent)
        share = min(share, room - newest.tokens)
        head = []
        for index, rows in state.units(0, min(head_end(state, 0, share), state.newest())):
            pair = show(view, index, rows)
            if pair.tokens > share:
                break
            share -= pair.tokens
            head.append(pair)
        kept = sum(len(pair.entries) for pair in head)
        room -= sum(pair.tokens for pair in head)
        tail = newest_first(state, view, max(newest.tokens, min(room, recent)), min(window, recent), kept)
        pairs = head + tail
        entries = [entry for pair in pairs for entry in pair.entries]
        stats = RenderStats(
            head=_share(head), tail=_share(tail), total=sum(pair.tokens for pair in pairs),
            left_out=len(state) - len(entries),
        )  # fmt: skip
        return Rendering(entries, stats)


def _share(pairs: list[Any]) -> Share:
    return Share(sum(len(pair.entries) for pair in pairs), sum(pair.tokens for pair in pairs))
