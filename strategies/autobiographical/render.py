"""What of a branch goes into the window: protected messages, head, recent messages, memories, raw middle. Pure.

The budget is spent in that order, after injections and system messages, which the manager has counted; the newest
message with its pair goes with the protected ones. All stand in the order of what they cover. Of the messages only
those that are shown are read, and one pair more where they do not all fit.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from chronicle_py.strategies.autobiographical.chunks import chunk_at, head_index, seq_at
from chronicle_py.strategies.autobiographical.fold import removed_results, results_of
from chronicle_py.strategies.autobiographical.line import NONE, link_of
from chronicle_py.strategies.autobiographical.plan import Plan, PlanRule
from chronicle_py.strategies.autobiographical.protection import protected_units
from chronicle_py.strategies.autobiographical.recall import Recall, Recalled, RecallRule
from chronicle_py.strategies.autobiographical.state import LEVELS, State, level_of
from chronicle_py.strategies.filling import check_room, too_small
from chronicle_py.strategies.showing import NO_LIMITS, Limits, Shown, show
from chronicle_py.strategies.strategy import Budget, Entry, MessageView, Rendering, RenderStats, Share
from chronicle_py.strategies.transcript import Row
from chronicle_py.strategies.windows import head_end, recent_start, step_of, stepped


class RenderRule(RecallRule, PlanRule, Protocol):
    """What rendering needs to know of the configuration."""

    @property
    def head_window_tokens(self) -> int: ...
    @property
    def recent_window_tokens(self) -> int: ...
    @property
    def l1_budget_tokens(self) -> int: ...
    @property
    def l2_budget_tokens(self) -> int: ...
    @property
    def l3_budget_tokens(self) -> int: ...
    @property
    def tool_use_input_max_tokens(self) -> int: ...
    @property
    def tool_result_max_last_n(self) -> int | dict[str, int] | None: ...
    @property
    def enforce_budget(self) -> bool: ...

    def results_kept(self, tool: str) -> int | None: ...


class _Sizes(NamedTuple):
    """Tokens of the windows and of the levels 1, 2, 3."""

    head: int
    recent: int
    levels: tuple[int, int, int]


def sizes(rule: RenderRule, room: int) -> _Sizes:
    """The windows and level budgets, shrunk in proportion where together they exceed the room."""
    wanted = (
        rule.head_window_tokens, rule.recent_window_tokens, rule.l1_budget_tokens, rule.l2_budget_tokens,
        rule.l3_budget_tokens,
    )  # fmt: skip
    whole = sum(wanted)
    if whole > room:
        wanted = tuple(size * max(0, room) // whole for size in wanted)  # type: ignore[assignment]
    return _Sizes(wanted[0], wanted[1], (wanted[2], wanted[3], wanted[4]))


def limits(state: State, rule: RenderRule) -> Limits:
    """How messages are shortened, unless they are protected."""
    old = None
    if rule.tool_result_max_last_n is not None:
        last: dict[str, int] = {}

        def old(tool: str, rank: int) -> bool:
            if tool not in last:
                last[tool] = last_old_result(
                    results_of(state.tools, tool), rule.results_kept(tool), removed_results(state.gone, tool)
                )
            return rank <= last[tool]

    return Limits(rule.max_message_tokens, rule.tool_use_input_max_tokens, old)


def last_old_result(results: int, kept: int | None, removed: Sequence[int] = ()) -> int:
    """The rank of the newest result of a tool that is shown as a marker; 0: none. At most `kept` keep their content,
    and the limit moves in steps of half of them. `removed`: ranks of results that do not count, in order."""
    if kept is None or results <= kept:
        return 0
    step = max(1, kept // 2)
    last = -(-(results - kept) // step) * step
    while last and results - (last - step) - (len(removed) - bisect_right(removed, last - step)) <= kept:
        last -= step
    return last


class _Canvas:
    """One rendering while it is made."""

    def __init__(self, state: State, view: MessageView, rule: RenderRule, room: int) -> None:
        self.state = state
        self.messages = state.messages
        self.view = view
        self.rule = rule
        self.limits = limits(state, rule)
        self.enforced = rule.enforce_budget
        self.left = room
        self.raw: dict[int, Shown] = {}  # by the index of the first message
        self.taken: set[int] = set()  # indexes of the messages that are shown
        self.must: list[Shown] = []  # protected, and the newest with its pair
        self.loose: list[Shown] = []  # of the recent window and the middle, newest first
        self.cut = False  # whether some did not fit

    def fits(self, pair: Shown, limit: int | None = None) -> bool:
        return not self.enforced or pair.tokens <= (self.left if limit is None else min(limit, self.left))

    def put(self, pair: Shown) -> None:
        self.raw[pair.index] = pair
        self.taken.update(range(pair.index, pair.index + len(pair.entries)))
        self.left -= pair.tokens

    def make(self, index: int, rows: list[Row], whole: bool = False) -> Shown:
        return show(self.view, index, rows, NO_LIMITS if whole else self.limits)

    # --- in the order in which the budget is spent ---

    def protected(self, room: int) -> int:
        """Protected messages and the newest with its pair. Returns the tokens of the protected ones."""
        messages = self.messages
        for start, stop in protected_units(self.state):
            for index, rows in messages.units(start, stop):
                self.put(self.make(index, rows, whole=True))
        taken = sum(pair.tokens for pair in self.raw.values())
        self.must = list(self.raw.values())
        newest = messages.newest()
        if newest not in self.raw:
            pair = self.make(newest, messages.rows[newest:])
            self.put(pair)
            self.must.append(pair)
        if self.enforced and self.left < 0:
            last = self.raw[newest].tokens
            raise too_small(last, room - self.left - last, room)
        return taken

    def head(self, start: int, stop: int, limit: int) -> int:
        """The head within its window. Returns the index after it."""
        for index, rows in self.messages.units(start, stop):
            if index in self.taken:
                continue
            pair = self.make(index, rows)
            if not self.fits(pair, limit):
                return index
            limit -= pair.tokens
            self.put(pair)
        return stop

    def recent(self, start: int, limit: int) -> int:
        """The recent window from an index on, newest first. Returns the index of its first message."""
        newest = self.messages.newest()
        limit -= self.raw[newest].tokens
        for index, rows in self.messages.units_back(start, newest):
            if index in self.taken:
                continue
            pair = self.make(index, rows)
            if not self.fits(pair, limit):
                self.cut = not self.fits(pair)  # else it is the first of the raw middle
                return index + len(rows)
            limit -= pair.tokens
            self.put(pair)
            self.loose.append(pair)
        return min(start, newest)

    def middle(self, runs: Iterator[tuple[int, int]]) -> None:
        """The raw middle, newest first, as far as it fits."""
        for start, stop in runs:
            for index, rows in self.messages.units_back(start, stop):
                if index in self.taken:
                    continue
                pair = self.make(index, rows)
                if self.cut or not self.fits(pair):
                    self.cut = True
                    return
                self.put(pair)
                self.loose.append(pair)

    def step(self, tail: int, window: int, recent: int) -> None:
        """Where not all raw messages fit, the first one moves in steps: of `recent` tokens up to the beginning of the
        recent window, of `window` tokens before it."""
        if not self.cut or not self.loose:
            return
        first = min(
            stepped(self.messages, min(tail, self.loose[-1].index), window), stepped(self.messages, tail, recent)
        )
        for pair in self.loose:
            if pair.index < first:
                del self.raw[pair.index]
                self.left += pair.tokens


def render(state: State, view: MessageView, budget: Budget, rule: RenderRule) -> Rendering:
    """The context. BudgetTooSmall when protected messages and the newest with its pair do not fit."""
    room = budget.available
    if rule.enforce_budget:
        check_room(budget)
    messages = state.messages
    if not len(messages):
        return Rendering([], RenderStats(over_budget=max(0, -room)))
    canvas = _Canvas(state, view, rule, room)
    protected = canvas.protected(room)
    window = budget.max_tokens - budget.reserve_for_response
    whole = sizes(rule, 1 << 60)
    steady = sizes(rule, window) if canvas.enforced else whole
    given = sizes(rule, room - protected) if canvas.enforced else whole

    head_first = head_index(state)
    fixed = state.head.end >= 0
    head_last = messages.index_of(state.head.end) if fixed else head_end(messages, head_first, rule.head_window_tokens)
    head_stop = canvas.head(head_first, head_last, given.head)

    rest = max(messages.index_of(state.frontier), head_last if fixed else head_stop)
    tail = canvas.recent(max(recent_start(messages, given.recent), rest), given.recent)

    recall = Recall(state, view, rule)
    shown = recall.within(given.levels, steady.levels, canvas.left) if canvas.enforced else recall.everything()
    canvas.left -= recall.cost(shown)
    recent = [pair for index, pair in canvas.raw.items() if index >= tail]
    raw_room = canvas.left + sum(pair.tokens for pair in recent)
    newest = canvas.raw[messages.newest()].tokens
    leftover = (head_stop, head_last) if fixed else (0, 0)
    canvas.middle(_middle(state, rest, tail, leftover))
    names = sum(pair.names for pair in canvas.loose)  # steps are counted in the messages' own tokens, without names
    in_tail = sum(pair.names for pair in recent)
    canvas.step(tail, step_of(window, raw_room - newest - names), step_of(steady.recent, given.recent - in_tail))

    pairs = sorted(canvas.raw.values(), key=lambda pair: pair.index)
    entries = _placed(canvas, recall, shown, pairs, head_stop)
    stats = _stats(canvas, rule, shown, pairs, (head_first, head_stop, tail))
    total = sum(entry.tokens for entry in entries)
    return Rendering(entries, replace(stats, total=total, over_budget=max(0, total - room)))


def _middle(state: State, rest: int, tail: int, leftover: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """Index ranges of the raw middle, newest first: the unfinished rest, chunks without memory, what the head left."""
    messages = state.messages
    yield rest, tail
    for queued in reversed(state.queue):
        if queued.first < state.head.start and leftover[0] < leftover[1]:
            yield leftover
            leftover = (0, 0)
        for first, last in reversed(state.chunks[queued.chunk].spans):
            yield messages.index_of(first), messages.index_of(last + 1)
    yield leftover


def _placed(canvas: _Canvas, recall: Recall, shown: list[Recalled], pairs: list[Shown], head_stop: int) -> list[Entry]:
    """The entries in the order of what they cover, with the cache markers."""
    items: list[tuple[int, int, list[Entry]]] = [(pair.entries[0].seq or 0, 1, pair.entries) for pair in pairs]
    shown = sorted(shown, key=lambda one: (one.memory.first_seq, -one.memory.level))
    if recall.positioned:
        items += [(one.memory.first_seq, 0, recall.pair(one)) for one in shown]
    elif shown:
        items.append((seq_at(canvas.state, head_stop), -1, recall.together(shown)))
    items.sort(key=lambda item: item[:2])
    entries = [entry for _, _, some in items for entry in some]
    marks = {at for at, entry in enumerate(entries) if entry.summary is not None}
    marks = {max(marks)} if marks else set()
    limit = seq_at(canvas.state, head_stop)
    first = canvas.state.head.start
    head = [at for at, entry in enumerate(entries) if entry.seq is not None and first <= entry.seq < limit]
    marks |= set(head[-1:])
    turn = next((pair.entries[0].seq for pair in reversed(pairs) if pair.turn), None)
    if turn is not None:
        marks |= {at - 1 for at, entry in enumerate(entries) if at and entry.seq == turn}
    for at in marks:
        entries[at] = replace(entries[at], cache=True)
    return entries


def _stats(
    canvas: _Canvas, rule: RenderRule, shown: list[Recalled], pairs: list[Shown], regions: tuple[int, int, int]
) -> RenderStats:
    """What the rendering is made of."""
    head_first, head_stop, tail = regions
    shares: dict[str, list[int]] = {"head": [0, 0], "tail": [0, 0], "middle": [0, 0]}
    for pair in pairs:
        region = "tail" if pair.index >= tail else "head" if head_first <= pair.index < head_stop else "middle"
        shares[region][0] += len(pair.entries)
        shares[region][1] += pair.tokens
    summaries = {}
    for level in range(1, LEVELS + 1):
        of_level = [one for one in shown if one.memory.level == level]
        if of_level:
            summaries[level] = Share(len(of_level), sum(one.tokens for one in of_level))
    covered = sum(one.memory.messages for one in shown) - _twice(canvas, shown)
    raw = sum(len(pair.entries) for pair in pairs)
    plan = Plan(canvas.state, rule)
    return RenderStats(
        head=Share(*shares["head"]), tail=Share(*shares["tail"]), middle=Share(*shares["middle"]),
        summaries=summaries, pending_chunks=plan.chunks, pending_merges=plan.merges,
        left_out=len(canvas.messages) - raw - covered,
    )  # fmt: skip


def _twice(canvas: _Canvas, shown: list[Recalled]) -> int:
    """Messages that are shown raw and under a shown summary: protected ones, and the newest."""
    state = canvas.state
    visible = {(one.memory.level, one.memory.number) for one in shown}
    if not visible:
        return 0
    count = 0
    for pair in canvas.must:
        for entry in pair.entries:
            number = chunk_at(state, entry.seq or 0)
            level, memory = 1, NONE if number is None else link_of(state.memories, number)
            while memory >= 0:
                if (level, memory) in visible:
                    count += 1
                    break
                level, memory = level + 1, link_of(level_of(state, level).parents, memory)
    return count
