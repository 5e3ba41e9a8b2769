"""What to ask a summarizer for when the topic changes: the old head and the memories, in a few paragraphs. Pure."""

from __future__ import annotations

from typing import Any

from chronicle_py.context.branch_view import BranchView
from chronicle_py.strategies.strategy import Request, Resettable, Work

_TARGET = 600  # tokens
_SHOWN = 30_000  # tokens of the old head and memories that are shown
_SYSTEM = "You keep the memory of a conversation whose topic is about to change."
_INSTRUCTION = (
    "The topic of this conversation changes now. Say in a few short paragraphs what was done and agreed up to here, so "
    "that it can be built upon: names, decisions, results, and what is still open. Write the text alone."
)


def transition_request(strategy: Resettable, state: Any, view: BranchView) -> Request | None:
    """The request; None where there is nothing to tell of."""
    entries = strategy.recap(state, view, _SHOWN)
    if not entries:
        return None
    sources = tuple(entry.id for entry in entries if entry.id is not None)
    seqs = tuple(entry.seq for entry in entries if entry.seq is not None)
    work = Work(
        key="", level=0, sources=sources, source_seqs=seqs, first=sources[0] if sources else "",
        last=sources[-1] if sources else "", first_seq=min(seqs, default=0), last_seq=max(seqs, default=0),
    )  # fmt: skip
    return Request(
        work=work, system=_SYSTEM, entries=entries, instruction=_INSTRUCTION, target_tokens=_TARGET,
        max_tokens=_TARGET * 3 // 2,
    )  # fmt: skip
