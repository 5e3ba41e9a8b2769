"""What is to be summarised next: queued chunks, and merges of unmerged memories; oldest first. Pure.

A plan is worked out piece by piece as it is read: the first one costs O(log n + its messages), whatever waits behind
it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol, overload

from chronicle_py.context.payloads import SummaryPayload
from chronicle_py.strategies.autobiographical import keys
from chronicle_py.strategies.autobiographical.memories import chunk_rows
from chronicle_py.strategies.autobiographical.state import LEVELS, State, level_of
from chronicle_py.strategies.strategy import Work


class PlanRule(Protocol):
    """What planning needs to know of the configuration."""

    @property
    def hierarchical(self) -> bool: ...
    @property
    def merge_threshold(self) -> int: ...
    @property
    def max_speculative_l1s(self) -> int | None: ...
    @property
    def compression_model(self) -> str: ...

    def digest(self, level: int, phase: str) -> bytes: ...

    def merged_phase(self, phases: Sequence[str]) -> str:
        """The phase of a merge of summaries with these phases."""
        ...


class _Merge(NamedTuple):
    first: int  # sequence of the first message covered
    level: int  # of the summary that will be made
    start: int  # index of the first source among the unmerged
    before: int  # chunks in the queue that are older


class Plan(Sequence[Work]):
    """The work that waits. An immutable sequence; its pieces are made as they are read."""

    def __init__(self, state: State, rule: PlanRule) -> None:
        self._state = state
        self._rule = rule
        limit = rule.max_speculative_l1s
        waiting = len(state.queue) + len(level_of(state, 1).unmerged)
        self._held = limit is not None and waiting > limit
        self._merges = sorted(self._planned_merges()) if rule.hierarchical else []

    def _planned_merges(self) -> Iterator[_Merge]:
        size = self._rule.merge_threshold
        for level in range(1, LEVELS):
            unmerged = level_of(self._state, level).unmerged
            for start in range(0, len(unmerged) - size + 1, size):
                first = unmerged[start].first
                yield _Merge(first, level + 1, start, self._state.queue.place(first))

    @property
    def chunks(self) -> int:
        """Chunks that wait for their memory."""
        return len(self._state.queue)

    @property
    def merges(self) -> int:
        """Merges that wait."""
        return len(self._merges)

    def __len__(self) -> int:
        return len(self._state.queue) + len(self._merges)

    def __iter__(self) -> Iterator[Work]:
        done = 0
        for merge in self._merges:
            for at in range(done, merge.before):
                yield self._chunk(at)
            done = max(done, merge.before)
            yield self._merge(merge)
        for at in range(done, len(self._state.queue)):
            yield self._chunk(at)

    @overload
    def __getitem__(self, index: int) -> Work: ...
    @overload
    def __getitem__(self, index: slice) -> list[Work]: ...
    def __getitem__(self, index: int | slice) -> Work | list[Work]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError(f"there is no work {index} in a plan of {len(self)}")
        for passed, merge in enumerate(self._merges):
            if at < merge.before + passed:
                return self._chunk(at - passed)
            if at == merge.before + passed:
                return self._merge(merge)
        return self._chunk(at - len(self._merges))

    def __repr__(self) -> str:
        return f"<Plan of {self.chunks} chunks and {self.merges} merges>"

    def _chunk(self, at: int) -> Work:
        chunk = self._state.chunks[self._state.queue[at].chunk]
        rows = chunk_rows(self._state, chunk)
        return Work(
            key=keys.key_of(keys.of_messages(rows), self._rule.digest(1, chunk.phase)), level=1,
            sources=tuple([row.id for row in rows]), source_seqs=tuple([row.seq for row in rows]),
            first=rows[0].id, last=rows[-1].id, first_seq=rows[0].seq, last_seq=rows[-1].seq, phase=chunk.phase,
            held=self._held,
        )  # fmt: skip

    def _merge(self, merge: _Merge) -> Work:
        below = level_of(self._state, merge.level - 1)
        stop = merge.start + self._rule.merge_threshold
        sources = [below.all[entry.number] for entry in below.unmerged.between(merge.start, stop)]
        phase = self._rule.merged_phase([memory.phase for memory in sources])
        last = max(sources, key=lambda memory: memory.last_seq)
        return Work(
            key=keys.key_of(keys.of_memories(memory.key for memory in sources), self._rule.digest(merge.level, phase)),
            level=merge.level, sources=tuple(memory.id for memory in sources), source_seqs=(),
            first=sources[0].first.hex(), last=last.last.hex(), first_seq=sources[0].first_seq,
            last_seq=last.last_seq, phase=phase,
        )  # fmt: skip


def result(work: Work, text: Any, tokens: int, model: str) -> SummaryPayload:
    """The payload of the event that records a summary."""
    return SummaryPayload(
        key=work.key, level=work.level, text=text, tokens=tokens, sources=work.sources, source_seqs=work.source_seqs,
        first=work.first, last=work.last, first_seq=work.first_seq, last_seq=work.last_seq, model=model,
        phase=work.phase,
    )  # fmt: skip
