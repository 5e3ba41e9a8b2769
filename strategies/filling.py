"""Filling a budget with messages, the newest first. Pure."""

from __future__ import annotations

from chronicle_py.errors import BudgetTooSmall
from chronicle_py.strategies.showing import NO_LIMITS, Limits, Shown, show
from chronicle_py.strategies.strategy import Budget, MessageView
from chronicle_py.strategies.transcript import Transcript
from chronicle_py.strategies.windows import step_of, stepped


def newest_first(
    transcript: Transcript, view: MessageView, room: int, window: int, start: int, limits: Limits = NO_LIMITS
) -> list[Shown]:
    """The newest pairs from `start` on that fit into `room` tokens, oldest first, the first of them moving in steps.

    `window`: the size, in tokens, of which a step is a quarter. BudgetTooSmall when the newest message with its pair
    does not fit. O(shown · log n). Steps are counted in the messages' own tokens, without the names of who speaks.
    """
    shown: list[Shown] = []
    left = room
    for index, rows in transcript.units_back(start, len(transcript)):
        pair = show(view, index, rows, limits)
        if pair.tokens > left:
            if not shown:
                raise too_small(pair.tokens, 0, room)
            step = step_of(window, room - shown[0].tokens - sum(pair.names for pair in shown[1:]))
            first = stepped(transcript, shown[-1].index, step)
            shown = [pair for pair in shown if pair.index >= first]
            break
        left -= pair.tokens
        shown.append(pair)
    return shown[::-1]


def check_room(budget: Budget) -> None:
    """BudgetTooSmall when system messages and injections alone exceed the budget."""
    room = budget.max_tokens - budget.reserve_for_response
    if budget.used > room:
        raise BudgetTooSmall(
            f"system messages and injections take {budget.used} tokens, and a budget of {budget.max_tokens} less the "
            f"reserve of {budget.reserve_for_response} leaves {room} for all; raise max_tokens"
        )


def too_small(newest: int, protected: int, room: int) -> BudgetTooSmall:
    """What to raise when the newest message with its pair, and protected messages, do not fit."""
    pinned = f" and protected messages {protected} tokens" if protected else ""
    return BudgetTooSmall(
        f"the newest message with its pair takes {newest} tokens{pinned}, and the budget leaves {room} beside the "
        f"reserve, system messages and injections; raise max_tokens by at least {newest + protected - room}"
        + (", or unpin something" if protected else "")
    )
