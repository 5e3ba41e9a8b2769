"""The branch graph: which events stand in which column, in which order. Pure.

Branches are put on a trunk one after the other. Each is a *limb*: its own events, and where it leaves another limb. A
limb is drawn newest first, and the limbs that leave it are drawn to its right, each just before the event that it
leaves after; so the width is the depth of nesting, not the number of branches:

    ● 8  main's newest
    │ ● 7  other's newest
    │ ● 6
    ├─╯
    ● 5  the last event that both have

Of a long stretch only the newest events are drawn, and those where something begins, ends or leaves; the rest is a gap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

NODE, LINE, JOIN, GAP = "●", "│", "├─╯", "⋮"
ASCII = str.maketrans({NODE: "*", LINE: "|", "├": "|", "─": "-", "╯": "'", GAP: ":"})

IdAt = Callable[[str, int], str]
"""The id of the event at a sequence (≥ 1) of a branch."""


class Tip(NamedTuple):
    """A branch to be drawn."""

    name: str
    seq: int


class Limb:
    """A branch's own events, base + 1 … top, and what leaves them."""

    def __init__(self, name: str, base: int, top: int) -> None:
        self.name = name
        self.base = base
        self.top = top
        self.leaving: dict[int, list[Limb]] = {}  # sequence -> limbs that leave after it
        self.marks: set[int] = {base + 1, top}  # sequences that are always drawn

    def own(self, seq: int) -> bool:
        return self.base < seq <= self.top


class Row(NamedTuple):
    """A row, or as many as there are events from `first` down to `last` of a branch."""

    graph: str
    kind: str  # NODE, GAP or JOIN
    branch: str
    first: int
    last: int


def shared(a: Tip, b: Tip, id_at: IdAt) -> int:
    """The last sequence that two branches have in common. O(log n) look-ups."""
    low, high = 0, min(a.seq, b.seq)
    while low < high:
        middle = (low + high + 1) // 2
        if id_at(a.name, middle) == id_at(b.name, middle):
            low = middle
        else:
            high = middle - 1
    return low


def limbs(tips: Sequence[Tip], id_at: IdAt) -> list[Limb]:
    """The trunks, with everything that leaves them. The first tips are drawn leftmost."""
    trunks: list[Limb] = []
    placed: list[tuple[Tip, Limb]] = []
    for tip in tips:
        base, owner = 0, None
        for other, limb in placed:
            common = shared(tip, other, id_at)
            if limb.own(common) and common > base:
                base, owner = common, limb
        limb = Limb(tip.name, base, tip.seq)
        if owner is None:
            trunks.append(limb)
        else:
            owner.marks |= {base, min(base + 1, owner.top)}
            if tip.seq > base:
                owner.leaving.setdefault(base, []).append(limb)
        if tip.seq > base:
            placed.append((tip, limb))
    return [trunk for trunk in trunks if trunk.top]


def rows(limb: Limb, limit: int | None, depth: int = 0) -> Iterator[Row]:
    """The rows of a limb and of what leaves it, newest first; `limit` events of a stretch, None for all."""
    margin = f"{LINE} " * depth
    floor = 1 if limit is None else max(1, limb.top - limit + 1)
    top = limb.top
    for at in sorted(limb.leaving, reverse=True):
        yield from _stretch(limb, margin, top, at + 1, floor)
        for other in limb.leaving[at]:
            yield from rows(other, limit, depth + 1)
            yield Row(margin + JOIN, JOIN, other.name, at, at)
        top = at
    yield from _stretch(limb, margin, top, limb.base + 1, floor)


def _stretch(limb: Limb, margin: str, top: int, bottom: int, floor: int) -> Iterator[Row]:
    """The events top … bottom of a limb: those from `floor` on, the marked ones, and gaps."""
    if top < bottom:
        return
    pieces: list[tuple[int, int]] = []
    if top >= floor:
        pieces.append((top, max(floor, bottom)))
    pieces += [(at, at) for at in sorted(limb.marks, reverse=True) if bottom <= at <= top and at < floor]
    at = top
    for first, last in pieces:
        yield from _gap(limb, margin, at, first + 1)
        yield Row(margin + NODE, NODE, limb.name, first, last)
        at = last - 1
    yield from _gap(limb, margin, at, bottom)


def _gap(limb: Limb, margin: str, top: int, bottom: int) -> Iterator[Row]:
    if top == bottom:
        yield Row(margin + NODE, NODE, limb.name, top, top)
    elif top > bottom:
        yield Row(margin + GAP, GAP, limb.name, top, bottom)
