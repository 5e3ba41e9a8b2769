"""The summaries of a branch, as searching and people see them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

from chronicle_py.strategies.autobiographical.line import link_of
from chronicle_py.strategies.autobiographical.memories import chunk_rows
from chronicle_py.strategies.autobiographical.recall import payload_of
from chronicle_py.strategies.autobiographical.state import LEVELS, Memory, State, level_of
from chronicle_py.strategies.strategy import SummaryInfo


def summary_of(state: State, id: str) -> SummaryInfo | None:
    """The summary of an id; None when there is none, or it is void."""
    level, _, number = id.removeprefix("L").partition("-")
    if not (level.isascii() and level.isdigit() and number.isascii() and number.isdigit() and len(number) < 12):
        return None
    if id != f"L{level}-{number}" or not 1 <= int(level) <= LEVELS:
        return None
    known = level_of(state, int(level)).all
    if int(number) >= len(known):
        return None
    memory = known[int(number)]
    return None if memory.void or memory.id != id else info(state, memory)


def info(state: State, memory: Memory) -> SummaryInfo:
    if memory.level == 1:
        rows = chunk_rows(state, state.chunks[memory.sources[0]])
        payload = payload_of(memory, tuple([row.id for row in rows]), tuple([row.seq for row in rows]))
    else:
        payload = payload_of(memory, tuple([f"L{memory.level - 1}-{number}" for number in memory.sources]))
    parent = link_of(level_of(state, memory.level).parents, memory.number)
    into = None if parent < 0 else f"L{memory.level + 1}-{parent}"
    return SummaryInfo(
        id=memory.id, level=memory.level, tokens=memory.tokens, payload=payload, merged_into=into,
        created=memory.created, phase=memory.phase,
    )  # fmt: skip


class Summaries(Sequence[SummaryInfo]):
    """The summaries that stand, in the order in which they came. Which they are is worked out at once, each as it is
    read."""

    def __init__(self, state: State) -> None:
        self._state = state
        found = [memory for level in range(1, LEVELS + 1) for memory in level_of(state, level).all if not memory.void]
        self._memories = sorted(found, key=lambda memory: (memory.created, memory.level, memory.number))

    def __len__(self) -> int:
        return len(self._memories)

    def __iter__(self) -> Iterator[SummaryInfo]:
        return (info(self._state, memory) for memory in self._memories)

    def __reversed__(self) -> Iterator[SummaryInfo]:
        return (info(self._state, memory) for memory in reversed(self._memories))

    @overload
    def __getitem__(self, index: int) -> SummaryInfo: ...
    @overload
    def __getitem__(self, index: slice) -> list[SummaryInfo]: ...
    def __getitem__(self, index: int | slice) -> SummaryInfo | list[SummaryInfo]:
        if isinstance(index, slice):
            return [info(self._state, memory) for memory in self._memories[index]]
        return info(self._state, self._memories[index])

    def __repr__(self) -> str:
        return f"<{len(self)} summaries>"
