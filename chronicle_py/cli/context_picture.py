"""What a context is made of, drawn as bars. Plain functions of figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from chronicle_py.cli import output

if TYPE_CHECKING:
    from chronicle_py.context import Budget, ContextStats, RenderStats

_BAR = 32
_FULL, _EMPTY = "█", "░"


def pictured(
    stats: ContextStats, rendered: RenderStats, tokens: int, budget: Budget, pending: Sequence[int]
) -> Iterator[str]:
    """The lines. `tokens`: of the compiled context; `pending`: the levels of what is planned."""
    yield (
        f"{stats.branch} at {stats.seq}: {output.count(stats.messages, 'message')}, {stats.tokens:,} tokens"
        f" ({stats.edited:,} edited, {stats.removed:,} removed); {stats.strategy}"
    )
    room = budget.max_tokens - budget.reserve_for_response
    reserve = budget.reserve_for_response
    yield f"compiled: {tokens:,} of {room:,} tokens (budget {budget.max_tokens:,}, {reserve:,} reserved)"
    rows = [("head, raw", "message", rendered.head.count, rendered.head.tokens)]
    levels = sorted(rendered.summaries.items(), reverse=True)
    rows += [(f"folded, L{level}", "summary", share.count, share.tokens) for level, share in levels]
    rows += [
        ("middle, raw", "message", rendered.middle.count, rendered.middle.tokens),
        ("recent, raw", "message", rendered.tail.count, rendered.tail.tokens),
    ]
    other = tokens - sum(row[3] for row in rows)
    if other > 0:
        rows.append(("system", "", 0, other))
    width = max(len(name) for name, *_ in rows)
    for name, thing, count, share in rows:
        of = f"  {_things(count, thing)}" if thing else ""
        yield f"{name:<{width}} {_bar(share, room)} {share:>9,} tokens{of}"
    chunks = sum(level == 1 for level in pending)
    planned = f"{output.count(chunks, 'chunk')}, {output.count(len(pending) - chunks, 'merge')}"
    yield f"pending: {planned}; {output.count(stats.pins, 'pin')}"
    if rendered.left_out:
        yield f"left out: {output.count(rendered.left_out, 'message')}, for which the budget has no room"
    if rendered.over_budget:
        yield f"over budget by {rendered.over_budget:,} tokens"


def _things(count: int, thing: str) -> str:
    return f"{count:,} summaries" if thing == "summary" and count != 1 else output.count(count, thing)


def _bar(tokens: int, room: int) -> str:
    filled = min(_BAR, -(-tokens * _BAR // room)) if room > 0 and tokens > 0 else 0
    return _FULL * filled + _EMPTY * (_BAR - filled)
