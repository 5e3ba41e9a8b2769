"""`ContextManager`: what an application holds. The messages of a branch, a strategy that folds them, what it compiles.

Everything it is asked is answered from the branch it stands on; everything it does is events on that branch. It keeps
no truth of its own: another manager on the same store, now or after a restart, compiles the same. Which branch it
stands on belongs to the object, and is stored nowhere.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import msgspec

from chronicle_py import store as engine_store
from chronicle_py.branches import BranchInfo, branch_info, branch_names
from chronicle_py.context import context_log, memory
from chronicle_py.context.auto_tick import AutoTick, AutoTickEntry
from chronicle_py.context.branch_view import BranchView
from chronicle_py.context.compiled import Compiled
from chronicle_py.context.compiling import compiled
from chronicle_py.context.conversation import Conversation, Id
from chronicle_py.context.folded_slot import FoldedSlot
from chronicle_py.context.injections import Injection
from chronicle_py.context.log_view import ContextLog
from chronicle_py.context.memory_operations import MemoryOperations
from chronicle_py.context.message_operations import MessageOperations
from chronicle_py.context.names import fork_name, slot_names
from chronicle_py.context.payloads import CONTEXT_MANAGER, MESSAGE, MESSAGE_TYPES
from chronicle_py.context.query import check_number
from chronicle_py.context.runner import Outcome, Runner, Scene
from chronicle_py.context.summarizers.asking import Patience
from chronicle_py.context.summarizers.protocol import Summarizer
from chronicle_py.context.summarizers.protocol import summarizer as summarizer_of
from chronicle_py.context.tokens import Counts, Tokenizer
from chronicle_py.errors import BranchExists, InvalidOperation, NotFound
from chronicle_py.event import Event
from chronicle_py.store import Store
from chronicle_py.strategies import Passthrough
from chronicle_py.strategies.strategy import (
    Budget,
    Pinnable,
    RenderStats,
    RenderStatsCapable,
    Searchable,
    Strategy,
    Work,
)

_BUDGET = Budget()
_STRATEGY = ("initial", "fold", "plan", "request", "complete", "render")
_ATTEMPTS = 100  # at a generated name, while others fork at the same time


class ContextStats(msgspec.Struct, frozen=True):
    """Figures of the branch that a manager stands on."""

    branch: str
    seq: int
    messages: int
    tokens: int  # of the messages, as they stand
    edited: int
    removed: int
    strategy: str
    pending: int
    pins: int
    summaries: Mapping[int, int]  # by level, merged ones included
    log: int  # entries of the context log


class ContextManager(MessageOperations, MemoryOperations):
    """See the module. A context manager: leaving it stops the background thread, and closes the store if it opened it.

    `strategy`: default `Passthrough()`. `namespace` keeps strategy, pins, summaries and context log apart from other
    agents' on the store; `isolate` the messages too. `summarizer`: a `Summarizer` or a function of a `Request`, default
    `Extractive()`. `tokenizer`: see `tokens.tokenizer`. `assistant`: the participant who is the model. `patience`: how
    long and how often the summarizer is asked.
    """

    def __init__(
        self,
        store: Store,
        *,
        strategy: Strategy[Any] | None = None,
        namespace: str | None = None,
        isolate: bool = False,
        summarizer: Summarizer | Any = None,
        tokenizer: str | Counts | Tokenizer | None = None,
        branch: str = "main",
        assistant: str = "Claude",
        patience: Patience | None = None,
    ) -> None:
        self._names = slot_names(namespace, isolate)
        self.store = store
        self.namespace = namespace
        self._owns_store = False
        patience = patience or Patience()
        patience.check()
        self._runner = Runner(store, summarizer_of(summarizer), patience)
        self._conversation = Conversation(
            store, branch, slot=self._names.messages, isolated=isolate, tokenizer=tokenizer, assistant=assistant
        )
        for type, struct in (memory.EVENT_TYPES | context_log.EVENT_TYPES).items():
            store.register_event(type, struct)
        self._check_isolation()
        self._memory = FoldedSlot(store, self._names.memory, memory.Memory())
        self._log = FoldedSlot(store, self._names.log, context_log.ContextLogReducer(), *self._heard())
        self._auto = AutoTick(lambda: self.branch, self._tick_unheld, self._settle)
        self.set_strategy(Passthrough() if strategy is None else strategy)

    def _check_isolation(self) -> None:
        """InvalidOperation where the namespace was set up with the other choice of `isolate`."""
        log = next((slot for slot in self.store.slots() if slot.id == self._names.log), None)
        if log is not None and log.reducer == context_log.ContextLogReducer.name:
            isolated = bool(log.sources)
            if isolated != self._names.isolated:
                raise InvalidOperation(
                    f"the agent of namespace {self.namespace!r} on this store has "
                    + ("its own messages" if isolated else "the shared messages")
                    + f", for good: open it with isolate={isolated}, or choose another namespace"
                )

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], *, durability: engine_store.Durability = "full", **options: Any
    ) -> Self:
        """Opens a store (made at first use) that the manager closes; `options` as for the class."""
        store = engine_store.open(path, durability)
        try:
            manager = cls(store, **options)
        except BaseException:
            store.close()
            raise
        manager._owns_store = True
        return manager

    def close(self) -> None:
        """Ends the background thread; closes the store that `open` opened. Closing twice is fine."""
        self._auto.stop()
        if self._owns_store:
            self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        where = f" of {self.namespace!r}" if self.namespace else ""
        return f"<ContextManager{where} on branch {self.branch!r}, {self._strategy.name}>"

    def _noted(self) -> None:
        if self._automatic:
            self._auto.wake()

    # --- branches ---

    @property
    def branch(self) -> str:
        """The name of the branch that the manager stands on."""
        return self._conversation.branch.name

    def branches(self) -> list[BranchInfo]:
        """All branches of the store, `main` first."""
        return self.store.branches()

    def fork(self, name: str | None = None, at: Id | int | None = None) -> BranchInfo:
        """A new branch that ends with the message `at` (default: where this one ends). The manager stays where it is.

        Without a name it is the branch's with the next number that no branch has or had: "main-2". Summaries that exist
        elsewhere for what is planned there are adopted. O(log n + planned work).
        """
        branch = self._conversation.branch
        if isinstance(at, str | Event) and (place := branch.event(at)).type != MESSAGE:
            raise InvalidOperation(
                f"event {place.id[:12]} is no message but of type {place.type!r}; fork at a message, or at its "
                f"sequence, {place.seq}"
            )
        for _ in range(_ATTEMPTS):
            chosen = fork_name(branch.name, self._taken()) if name is None else name
            try:
                new = branch.fork(chosen, at)
                break
            except BranchExists:
                if name is not None:
                    raise
        else:
            raise BranchExists(f"no free name was found for a fork of {branch.name!r}; give one with fork(name)")
        self._runner.adopt(self._scene(new.name))
        return branch_info(self.store._engine, new.name)

    def _taken(self) -> set[str]:
        """Names of branches, and of those that were deleted and may be restored."""
        return branch_names(self.store._engine)

    def switch(self, name: str) -> None:
        """Stands on another branch from now on; adopts summaries that exist elsewhere for what is planned there."""
        self._conversation = self._conversation.on(name)
        self._adopt()
        self._noted()

    def undo(self, turns: int = 1) -> None:
        """Rewinds the whole branch to before the n-th last turn. A turn starts at a user's message that is not only
        tool results. NotFound when there are fewer; nothing is rewound then. What is undone stays in the reflog."""
        if check_number("undo(turns=)", turns) == 0:
            raise InvalidOperation("undo takes back at least one turn")
        left = turns
        for row in reversed(self._conversation.index().entries):
            if row.role == "user" and not row.only_answers and row.participant != CONTEXT_MANAGER:
                left -= 1
                if left == 0:
                    self._conversation.branch.rewind(row.seq - 1)
                    self._adopt()
                    self._noted()
                    return
        raise NotFound(f"branch {self.branch!r} has {turns - left} turns, so {turns} cannot be undone")

    # --- the strategy ---

    @property
    def strategy(self) -> Strategy[Any]:
        """The strategy in use."""
        return self._strategy

    def set_strategy(self, strategy: Strategy[Any]) -> None:
        """Another strategy, or the same with another configuration; it folds the branch anew. Pins and summaries are
        the namespace's, and stay."""
        missing = [part for part in _STRATEGY if not callable(getattr(strategy, part, None))]
        if missing or isinstance(strategy, type):
            raise InvalidOperation(
                f"a strategy is an object with {', '.join(_STRATEGY)}; {strategy!r} "
                + (f"lacks {', '.join(missing)}" if missing else "is a class: call it")
            )
        slot = self._names.strategy(strategy.name)
        types, sources = self._heard()
        self._slot = FoldedSlot(self.store, slot, strategy, types, (*sources, self._names.memory))
        self._strategy = strategy
        options = getattr(strategy, "options", strategy)
        self._automatic = bool(getattr(options, "auto_tick", False)) and not self.store._engine.readonly
        self._noted()

    def _heard(self) -> tuple[Sequence[str], Sequence[str]]:
        """Types and sources by which a slot hears of messages."""
        return ((), (self._names.messages,)) if self._names.isolated else (MESSAGE_TYPES, ())

    def _scene(self, branch: str | None = None) -> Scene:
        conversation = self._conversation if branch is None else self._conversation.on(branch)
        return Scene(conversation, self._strategy, self._slot, self._memory)

    def _now(self) -> tuple[BranchView, Any]:
        """What stands at the head, and the strategy's state there."""
        view = self._conversation.view()
        return view, self._slot.state(view.head)

    def compile(self, budget: Budget = _BUDGET, injections: Iterable[Injection] = ()) -> Compiled:
        """What goes into the context window. Reads this branch alone, writes nothing, calls no model.

        BudgetTooSmall when what must be there does not fit. O(what is shown · log n).
        """
        view, state = self._now()
        tokenizer = self._conversation.tokenizer
        return compiled(self.store, self._strategy, state, view, budget, injections, tokenizer)

    def render_stats(self, budget: Budget = _BUDGET) -> RenderStats | None:
        """What `compile` with this budget is made of; None for a strategy that does not say. Fails where that does."""
        budget.check()
        if not isinstance(self._strategy, RenderStatsCapable):
            return None
        view, state = self._now()
        used = msgspec.structs.replace(budget, used=view.index.system.weight())
        return self._strategy.render_stats(state, view, used)

    # --- summaries ---

    def pending(self) -> list[Work]:
        """What is to be summarised, oldest first; held-back work too."""
        return list(self._scene().plan(self._conversation.view()))

    @property
    def ready(self) -> bool:
        """Whether nothing is to be summarised, but what is held back."""
        return all(work.held for work in self._scene().plan(self._conversation.view()))

    @property
    def auto_log(self) -> list[AutoTickEntry]:
        """What the background thread did, oldest first (the last 256), failures too."""
        return list(self._auto.log)

    def auto_idle(self, timeout: float | None = None) -> bool:
        """Waits until the background thread has nothing to do; False when the time (seconds) is up first."""
        return self._auto.idle(timeout)

    def tick(self) -> bool:
        """Makes one planned summary, or adopts those that exist on other branches. False: there was nothing to do, or
        what came of it was dropped because its sources changed meanwhile. SummarizerFailed: nothing was written."""
        return self._runner.tick(self._scene()) in (Outcome.RECORDED, Outcome.ADOPTED)

    def drain(self, limit: int | None = None) -> int:
        """Ticks until nothing is planned, or `limit` ticks made or adopted summaries; returns how many did."""
        limit = None if limit is None else check_number("drain(limit=)", limit)
        done = 0
        scene = self._scene()
        while limit is None or done < limit:
            outcome = self._runner.tick(scene)
            if outcome is Outcome.IDLE:
                break
            if outcome is Outcome.BUSY:
                self._runner.wait(0.1)
            done += outcome in (Outcome.RECORDED, Outcome.ADOPTED)
        return done

    async def atick(self) -> bool:
        """`tick` that does not block the loop while the summarizer works."""
        return await self._runner.atick(self._scene()) in (Outcome.RECORDED, Outcome.ADOPTED)

    async def adrain(self, limit: int | None = None) -> int:
        """`drain` that does not block the loop while the summarizer works."""
        limit = None if limit is None else check_number("adrain(limit=)", limit)
        done = 0
        scene = self._scene()
        while limit is None or done < limit:
            outcome = await self._runner.atick(scene)
            if outcome is Outcome.IDLE:
                break
            if outcome is Outcome.BUSY:
                await asyncio.sleep(0.02)
            done += outcome in (Outcome.RECORDED, Outcome.ADOPTED)
        return done

    def _adopt(self) -> None:
        self._runner.adopt(self._scene())

    def _tick_unheld(self, branch: str) -> Outcome:
        return self._runner.tick(self._scene(branch), automatic=True)

    def _settle(self) -> None:
        """Returns when the transaction is over that another thread may have open."""
        with self.store.transaction():
            pass

    # --- the rest ---

    @property
    def context_log(self) -> ContextLog:
        """The context log of this branch: a working set of entries that can be edited."""
        return ContextLog(self._conversation, self._log)

    def stats(self) -> ContextStats:
        """Figures of this branch. O(summaries)."""
        view, state = self._now()
        strategy: object = self._strategy
        levels: dict[int, int] = {}
        if isinstance(strategy, Searchable):
            for info in strategy.summaries(state):
                levels[info.level] = levels.get(info.level, 0) + 1
        index = view.index
        return ContextStats(
            branch=self.branch, seq=view.seq, messages=len(index.entries), tokens=index.tokens, edited=index.edited,
            removed=index.removed, strategy=self._strategy.name, pending=sum(1 for _ in self._scene().plan(view)),
            pins=len(strategy.pins(state)) if isinstance(strategy, Pinnable) else 0,
            summaries=dict(sorted(levels.items())), log=len(self._log.state(view.head).entries),
        )  # fmt: skip
