"""What a context strategy is: a pure reducer over a branch's events, and pure functions of its state.

`fold` is run by the engine, like any reducer's; `plan` says what to summarise next; the text comes from outside and
returns as the event that `complete` makes; `render` chooses what goes into the window. None of them reads anything but
its arguments. docs/strategies.md shows how to write one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

import msgspec

from chronicle_py.context.blocks import Block
from chronicle_py.context.payloads import PinPayload, SummaryPayload
from chronicle_py.errors import InvalidOperation
from chronicle_py.event import Event

S = TypeVar("S")


class Budget(msgspec.Struct, frozen=True):
    """Tokens for one context. `used`: what injections and system messages take, set by the manager."""

    max_tokens: int = 100_000
    reserve_for_response: int = 4_000
    used: int = 0

    @property
    def available(self) -> int:
        """Tokens that the strategy may spend."""
        return self.max_tokens - self.reserve_for_response - self.used

    def check(self) -> None:
        """InvalidOperation unless both are whole numbers from 0 and something is left beside the reserve."""
        for name in ("max_tokens", "reserve_for_response"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise InvalidOperation(f"a budget's {name} is a whole number from 0, not {value!r}")
        if self.max_tokens <= self.reserve_for_response:
            raise InvalidOperation(
                f"a budget of {self.max_tokens} tokens leaves nothing beside the reserve of "
                f"{self.reserve_for_response} for the response; raise max_tokens or lower reserve_for_response"
            )


class ViewedMessage(msgspec.Struct, frozen=True):
    """A message as it stands on the branch."""

    id: str  # of its `message` event
    seq: int
    participant: str
    role: str  # "user", "assistant", "system"
    blocks: list[Block]
    tokens: int
    text_tokens: int
    time: int  # µs
    edited: str | None = None  # id of the last edit's event
    metadata: Mapping[str, Any] = {}


class MessageView(Protocol):
    """What `render`, `plan` (through its caller) and requests read messages through."""

    def message(self, seq: int) -> ViewedMessage:
        """The message at a sequence, as edited last. O(log n)."""
        ...

    def text(self, summary: SummaryPayload) -> str:
        """The text of a summary."""
        ...

    def count(self, text: str) -> int:
        """Tokens of a text, by the tokenizer that the messages were counted with."""
        ...

    def name_tokens(self, participant: str, text: str) -> int:
        """Tokens of "Name: " before a user's own words, which no message's count has; 0 as long as one user alone has
        spoken on the branch. `show` adds them."""
        ...


class Entry(msgspec.Struct, frozen=True):
    """One message of a rendering."""

    participant: str
    role: str  # "user" or "assistant"
    blocks: list[Block]
    tokens: int
    seq: int | None = None  # of the source message
    id: str | None = None  # of the source message
    summary: str | None = None  # id of the summary it shows, e.g. "L1-0"
    cache: bool = False  # a cache breakpoint stands after it
    answers: bool = False  # the message is tool results alone, whatever has become of them here: nobody's own words


class Share(msgspec.Struct, frozen=True):
    """Messages (or summaries) and their tokens."""

    count: int = 0
    tokens: int = 0


class RenderStats(msgspec.Struct, frozen=True):
    """What a rendering was made of. The tokens are those that the budget was spent by."""

    head: Share = Share()
    tail: Share = Share()  # the recent window
    middle: Share = Share()  # raw messages between
    summaries: Mapping[int, Share] = {}  # by level
    pending_chunks: int = 0
    pending_merges: int = 0
    total: int = 0  # tokens
    over_budget: int = 0  # tokens by which enforce_budget=False went over, system messages and injections included
    left_out: int = 0  # messages that are neither raw nor under a shown summary


class Rendering(msgspec.Struct, frozen=True):
    """What a strategy puts into the window, in order."""

    entries: list[Entry]
    stats: RenderStats = RenderStats()


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """A summary to be made: of the messages of a chunk (level 1), or of summaries (a merge)."""

    key: str  # of the summary, see SummaryPayload.key
    level: int
    sources: tuple[str, ...]
    source_seqs: tuple[int, ...]
    first: str
    last: str
    first_seq: int
    last_seq: int
    phase: str = ""
    held: bool = False  # planned, but held back from automatic compression (max_speculative_l1s)


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What a summarizer is asked: system prompt and messages, both plain; limits in tokens."""

    work: Work
    system: str
    entries: list[Entry]
    instruction: str
    target_tokens: int
    max_tokens: int
    model: str = ""
    temperature: float = 0.0


class ProtectedRange(msgspec.Struct, frozen=True):
    """A pin or document."""

    id: str
    first: str
    last: str
    first_seq: int
    last_seq: int
    kind: str  # "pin" or "document"
    name: str | None
    created: int  # µs


class SummaryInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A summary as it stands on a branch."""

    id: str  # "L1-0"
    level: int
    tokens: int
    payload: SummaryPayload
    merged_into: str | None
    created: int  # µs, of its event
    phase: str = ""


class Strategy(Protocol[S]):
    """A strategy is also a `Reducer`: name, version, initial, fold, and optionally fingerprint, state_type, events."""

    name: str
    version: int

    @property
    def types(self) -> frozenset[str]:
        """Types of the events without slot that it folds."""
        ...

    def initial(self) -> S: ...

    def fold(self, state: S, event: Event) -> S: ...

    def plan(self, state: S) -> Sequence[Work]:
        """What to summarise or merge next, oldest first."""
        ...

    def request(self, state: S, work: Work, view: MessageView) -> Request:
        """What to ask the summarizer for a piece of work."""
        ...

    def complete(self, work: Work, text: Any, tokens: int) -> SummaryPayload:
        """The payload of the event that records the result. `text`: BlobRef of the text."""
        ...

    def render(self, state: S, view: MessageView, budget: Budget) -> Rendering: ...


@runtime_checkable
class Pinnable(Protocol):
    """A strategy that keeps protected messages raw."""

    def pins(self, state: Any) -> list[ProtectedRange]: ...

    def check_pin(self, state: Any, pin: PinPayload) -> None:
        """InvalidOperation for a range that cannot be protected."""
        ...


@runtime_checkable
class Searchable(Protocol):
    """A strategy with summaries to look through."""

    def summaries(self, state: Any) -> Sequence[SummaryInfo]:
        """All that stand on the branch, merged ones included, oldest first."""
        ...

    def summary(self, state: Any, id: str) -> SummaryInfo | None: ...


@runtime_checkable
class Resettable(Protocol):
    """A strategy whose head window can start anew."""

    def head_start(self, state: Any) -> int:
        """The sequence at which the head window starts; 0: at the first message."""
        ...

    def recap(self, state: Any, view: MessageView, tokens: int) -> list[Entry]:
        """What was said so far, in at most so many tokens, for whoever sums it up; empty where there is nothing."""
        ...


@runtime_checkable
class RenderStatsCapable(Protocol):
    """A strategy that says what its rendering is made of."""

    def render_stats(self, state: Any, view: MessageView, budget: Budget) -> RenderStats: ...
