"""Which memories a context shows, and how. Pure.

Each level has a budget; what it leaves goes to the next one below. Within a level the newest are shown. Memories that
were merged come in only where what they were merged into is not shown itself. Where the unmerged of a level do not all
fit, the first one shown moves in steps, as messages do. Cost: what is shown, times O(log n).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Protocol

import msgspec

from chronicle_py.context.blocks import Block, Text
from chronicle_py.context.payloads import CONTEXT_MANAGER, SummaryPayload
from chronicle_py.event import BlobRef
from chronicle_py.strategies.autobiographical.state import LEVELS, Memory, State, level_of
from chronicle_py.strategies.shortening import cut_text
from chronicle_py.strategies.strategy import Entry, MessageView
from chronicle_py.strategies.windows import step_of

Share = tuple[str, int, int]  # a phase, and the percentages of the level's budget that it has at least, and at most


class RecallRule(Protocol):
    """What recalling needs to know of the configuration."""

    @property
    def hierarchical(self) -> bool: ...
    @property
    def positioned_recall_pairs(self) -> bool: ...
    @property
    def recall_header_template(self) -> str: ...
    @property
    def summary_context_label(self) -> str: ...
    @property
    def summary_participant(self) -> str: ...
    @property
    def max_message_tokens(self) -> int: ...

    def shares(self, level: int) -> Sequence[Share]:
        """The phases of a level in the order in which they are served. A phase not named is served with the first."""
        ...


class Recalled(msgspec.Struct, frozen=True, gc=False):
    """A memory that is shown."""

    memory: Memory
    question: str
    text: str
    asked: int  # tokens of the question; 0 where all share one
    told: int  # tokens of the text

    @property
    def tokens(self) -> int:
        return self.asked + self.told


def payload_of(memory: Memory, sources: tuple[str, ...] = (), seqs: tuple[int, ...] = ()) -> SummaryPayload:
    """A memory as the payload of its event, with these sources."""
    return SummaryPayload(
        key=memory.key, level=memory.level, text=BlobRef(memory.text.hex()), tokens=memory.tokens, sources=sources,
        source_seqs=seqs, first=memory.first.hex(), last=memory.last.hex(), first_seq=memory.first_seq,
        last_seq=memory.last_seq, model=memory.model, phase=memory.phase,
    )  # fmt: skip


class Recall:
    """Chooses and shows the memories of one rendering."""

    def __init__(self, state: State, view: MessageView, rule: RecallRule) -> None:
        self._state = state
        self._view = view
        self._rule = rule
        self.positioned = rule.positioned_recall_pairs or not rule.hierarchical
        self._top = LEVELS if rule.hierarchical else 1

    def everything(self) -> list[Recalled]:
        """All unmerged memories."""
        return [
            self._recalled(self._memory(level, entry.number))
            for level in range(self._top, 0, -1)
            for entry in level_of(self._state, level).unmerged
        ]

    def within(self, budgets: Sequence[int], windows: Sequence[int], room: int) -> list[Recalled]:
        """The memories that fit. `budgets` of the levels 1, 2, 3 in tokens, `windows` what their steps are a quarter
        of, `room` what all together may take."""
        if not self.positioned:
            room -= self._view.count(self._rule.summary_context_label)
        found: list[Recalled] = []
        left = 0
        hidden: Iterator[Memory] = iter(())  # of the level above, newest first
        for level in range(LEVELS, 0, -1):
            left += budgets[level - 1]
            if level > self._top:
                continue
            limit = min(left, room)
            shown, hidden = self._fill(level, hidden, max(0, limit), windows[level - 1])
            taken = sum(one.tokens for one in shown)
            left, room = left - taken, room - taken
            found += shown
        return found

    def _fill(
        self, level: int, above: Iterator[Memory], limit: int, window: int
    ) -> tuple[list[Recalled], Iterator[Memory]]:
        """What of a level is shown, and what is not, the newest first."""
        unmerged = level_of(self._state, level).unmerged
        own = len(unmerged)
        candidates = chain(
            (self._memory(level, entry.number) for entry in reversed(unmerged)),
            (self._memory(level, number) for parent in above for number in reversed(parent.sources)),
        )
        shares = self._rule.shares(level)
        if len(shares) > 1:
            return self._shared(candidates, shares, limit), iter(())
        shown: list[Recalled] = []
        left = limit
        for memory in candidates:
            one = self._recalled(memory)
            if one.tokens > left:
                dropped: list[Recalled] = []
                if len(shown) < own:
                    kept = own - self._stepped(level, own - len(shown), step_of(window, limit))
                    shown, dropped = shown[:kept], shown[kept:]
                return shown, chain((one.memory for one in dropped), [memory], candidates)
            left -= one.tokens
            shown.append(one)
        return shown, iter(())

    def _stepped(self, level: int, start: int, step: int) -> int:
        """The index of the first unmerged memory shown, at `start` or behind it, so that it moves in steps."""
        unmerged = level_of(self._state, level).unmerged
        offset = unmerged.weight(start)
        anchor = -(-offset // step) * step
        if not offset or anchor == offset or start == len(unmerged):
            return start
        if anchor - step <= 0 or unmerged.find(anchor - step - 1) + 1 < start:
            return min(len(unmerged), unmerged.find(anchor - 1) + 1)
        return start

    def _shared(self, candidates: Iterator[Memory], shares: Sequence[Share], limit: int) -> list[Recalled]:
        """The newest of each phase within its share, one phase served after the other."""
        found: dict[str, list[Recalled]] = {phase: [] for phase, _, _ in shares}
        left = {phase: limit * most // 100 for phase, _, most in shares}
        for memory in candidates:
            phase = memory.phase if memory.phase in left else shares[0][0]
            if left[phase] < 0:
                if all(room < 0 for room in left.values()):
                    break
                continue
            one = self._recalled(memory)
            left[phase] -= one.tokens
            if left[phase] >= 0:
                found[phase].append(one)
        shown: list[Recalled] = []
        for phase, least, _ in shares:
            taken = 0
            for one in found[phase]:
                if taken + one.tokens > limit:
                    break
                taken += one.tokens
                shown.append(one)
            if found[phase]:  # where there are any, their part is kept for them
                limit -= max(taken, min(limit, (limit * least) // 100))
        return shown

    def _memory(self, level: int, number: int) -> Memory:
        return level_of(self._state, level).all[number]

    def _recalled(self, memory: Memory) -> Recalled:
        text = self._view.text(payload_of(memory))
        told = memory.tokens
        most = self._rule.max_message_tokens
        if most and told > most:
            text = cut_text(text, most, self._view, told)
            told = self._view.count(text)
        if not self.positioned:
            return Recalled(memory, "", text, 0, told)
        question = self._rule.recall_header_template.format(
            id=memory.id, level=memory.level, first=memory.first.hex(), last=memory.last.hex()
        )
        return Recalled(memory, question, text, self._view.count(question), told)

    # --- showing ---

    def cost(self, shown: list[Recalled]) -> int:
        """Tokens of what is shown, the question that all share included."""
        told = sum(one.tokens for one in shown)
        return told if self.positioned or not shown else told + self._view.count(self._rule.summary_context_label)

    def pair(self, one: Recalled) -> list[Entry]:
        """A memory as its own question and answer."""
        blocks: list[Block] = [Text(one.question)]
        return [
            Entry(CONTEXT_MANAGER, "user", blocks, one.asked, summary=one.memory.id),
            Entry(self._rule.summary_participant, "assistant", [Text(one.text)], one.told, summary=one.memory.id),
        ]

    def together(self, shown: list[Recalled]) -> list[Entry]:
        """All memories as one question and answer."""
        label = self._rule.summary_context_label
        ids = ", ".join(one.memory.id for one in shown)
        return [
            Entry(CONTEXT_MANAGER, "user", [Text(label)], self._view.count(label), summary=ids),
            Entry(
                self._rule.summary_participant, "assistant", [Text(one.text) for one in shown],
                sum(one.told for one in shown), summary=ids,
            ),
        ]  # fmt: skip
