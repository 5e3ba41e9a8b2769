"""What a `ContextManager` does with the memory of its namespace: pins, documents, search, head resets.

Each needs a capability of the strategy and says so when it is not there. All of it is events of the memory slot, which
any strategy of the namespace folds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any

from chronicle_py.context import searching
from chronicle_py.context.blocks import Text
from chronicle_py.context.branch_view import BranchView
from chronicle_py.context.conversation import Conversation, Id
from chronicle_py.context.folded_slot import FoldedSlot
from chronicle_py.context.message import Message
from chronicle_py.context.payloads import (
    CONTEXT_MANAGER,
    HEAD_RESET,
    PIN,
    UNPIN,
    HeadResetPayload,
    PinPayload,
    UnpinPayload,
)
from chronicle_py.context.query import check_number
from chronicle_py.context.runner import Runner
from chronicle_py.context.searching import SearchResult, Summary
from chronicle_py.context.summarizers.asking import ask
from chronicle_py.context.transition import transition_request
from chronicle_py.errors import InvalidOperation, NotFound
from chronicle_py.names import check_name
from chronicle_py.strategies.strategy import Pinnable, ProtectedRange, Resettable, Searchable, Strategy

if TYPE_CHECKING:
    from chronicle_py.store import Store

TRANSITION = "[Topic Transition]"


class MemoryOperations(ABC):
    """A part of `ContextManager`."""

    store: Store
    _conversation: Conversation
    _strategy: Strategy[Any]
    _memory: FoldedSlot
    _runner: Runner

    @abstractmethod
    def _now(self) -> tuple[BranchView, Any]:
        """What stands at the head, and the strategy's state there."""

    @abstractmethod
    def _noted(self) -> None:
        """Something was done after which there may be work."""

    # --- pins ---

    def pin(self, first: Id, last: Id | None = None, name: str | None = None) -> str:
        """Keeps the messages from `first` to `last` (default: the one) raw and in their place; returns the pin's id.

        They take whole pairs of tool calls and results. NotFound for messages that do not stand on this branch.
        """
        return self._protect("pin", "pins", first, first if last is None else last, name)

    def mark_document(self, id: Id, name: str | None = None) -> str:
        """Keeps a message raw as a document; returns the mark's id, which `unpin` takes."""
        return self._protect("document", "documents", id, id, name)

    def _protect(self, kind: str, what: str, first: Id, last: Id, name: str | None) -> str:
        strategy = self._pinnable(what)
        if name is not None:
            check_name(f"a {kind}'s name", name)
        with self.store.transaction():
            start, stop = self._conversation.get(first), self._conversation.get(last)
            if start.seq > stop.seq:
                raise InvalidOperation(
                    f"message {start.id[:12]} stands after {stop.id[:12]}: a range runs from the earlier to the later; "
                    "swap the two"
                )
            pin = PinPayload(first=start.id, first_seq=start.seq, last=stop.id, last_seq=stop.seq, kind=kind, name=name)
            strategy.check_pin(self._now()[1], pin)
            return self._conversation.branch.append(PIN, pin, slot=self._memory.id).id

    def unpin(self, id: str) -> bool:
        """Takes a pin or document mark back, by its id or unique prefix. False: there is none of that id here."""
        strategy = self._pinnable("pins")
        with self.store.transaction():
            found = self._pin_of(strategy.pins(self._now()[1]), id)
            if found is None:
                return False
            payload = UnpinPayload(found.id, self._conversation.branch.event(found.id).seq)
            self._conversation.branch.append(UNPIN, payload, slot=self._memory.id)
        self._noted()
        return True

    def pins(self) -> list[ProtectedRange]:
        """The pins and documents of this branch, oldest first."""
        return list(self._pinnable("pins").pins(self._now()[1]))

    def _pin_of(self, pins: list[ProtectedRange], id: object) -> ProtectedRange | None:
        if not isinstance(id, str) or len(id) < 6:
            raise InvalidOperation(f"a pin is named by its id, or at least 6 digits of it, not by {id!r:.80}")
        found = [pin for pin in pins if pin.id.startswith(id.lower())]
        if len(found) > 1:
            raise InvalidOperation(f"{len(found)} pins have ids that start with {id!r}; give more digits")
        return found[0] if found else None

    def _pinnable(self, what: str) -> Pinnable:
        strategy: object = self._strategy
        if not isinstance(strategy, Pinnable):
            raise self._incapable(what, "Pinnable")
        return strategy

    def _incapable(self, what: str, capability: str) -> InvalidOperation:
        return InvalidOperation(
            f"strategy {self._strategy.name!r} has no {what}: it lacks the capability {capability}, which "
            "'autobiographical' and 'knowledge' have; choose such a strategy with set_strategy (--strategy)"
        )

    # --- search ---

    def search(
        self,
        text: str | None = None,
        regex: str | None = None,
        levels: int | Iterable[int] | None = None,
        limit: int | None = 50,
        include_merged: bool = False,
    ) -> list[SearchResult]:
        """The summaries that hold `text` (in any case) or match `regex`, which wins; all without either. Newest first.

        `levels`: only these; `include_merged`: those that were merged into higher ones too. O(summaries).
        """
        count = searching.counter(text, regex)
        wanted = searching.levels_of(levels)
        stop = None if limit is None else check_number("search(limit=)", limit)
        strategy = self._searchable()
        view, state = self._now()
        newest_first = reversed(strategy.summaries(state))
        return list(islice(searching.found(newest_first, view, count, wanted, include_merged), stop))

    def summary(self, id: str) -> Summary:
        """The summary of an id like "L1-0" on this branch. NotFound where none stands."""
        strategy = self._searchable()
        view, state = self._now()
        found = strategy.summary(state, id) if isinstance(id, str) else None
        if found is None:
            raise NotFound(
                f"no summary {id!r} stands on branch {self._conversation.branch.name!r}; search() lists them"
            )
        return searching.summary_of(found, view)

    def _searchable(self) -> Searchable:
        strategy: object = self._strategy
        if not isinstance(strategy, Searchable):
            raise self._incapable("summaries to search", "Searchable")
        return strategy

    # --- head ---

    def reset_head(self, text: str | None = None) -> Message:
        """Starts the head window anew at a "[Topic Transition]" message with `text`, or with a summary of the old head
        and the memories that is made now. Returns that message. SummarizerFailed: nothing was written."""
        strategy: object = self._strategy
        if not isinstance(strategy, Resettable):
            raise self._incapable("head to reset", "Resettable")
        if text is None:
            view, state = self._now()
            request = transition_request(strategy, state, view)
            if request is None:
                raise InvalidOperation("there is nothing to go on from: the branch has no messages; add some first")
            self._runner.may_ask()
            text = ask(self._runner.summarizer, self._runner.whole(request), self._runner.patience)
        elif not isinstance(text, str) or not text.strip():
            raise InvalidOperation(
                f"reset_head takes the text of the transition, or None to have one made, not {text!r}"
            )
        with self.store.transaction():
            message = self._conversation.add(CONTEXT_MANAGER, [Text(f"{TRANSITION}\n\n{text.strip()}")])
            payload = HeadResetPayload(message.id, message.seq)
            self._conversation.branch.append(HEAD_RESET, payload, slot=self._memory.id)
        self._noted()
        return message
