"""The state of `Autobiographical`: messages, chunks, memories, pins, head. Values; what changes them is elsewhere.

A chunk is numbered and never moves; it holds the messages of its spans. A span is a run of neighbouring messages of
one chunk; where a chunk leaves out pinned messages it has several. Spans do not overlap, so the chunk of a message is
found by one search. A memory is a summary as it stands: of a chunk (level 1) or of memories one level below. Memories
are kept in one list per level, by number; those that are in no memory above are listed once more, in the order of what
they cover, weighted by their tokens. What a chunk or a memory became part of is kept beside it, as a link, so that the
usual event only appends. Nothing here is read as a whole by a fold or a render.
"""

from __future__ import annotations

import msgspec

from chronicle_py.collections import List, Map
from chronicle_py.strategies.autobiographical.line import Line
from chronicle_py.strategies.transcript import Transcript

LEVELS = 3


class Span(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A run of messages that belong to one chunk: those that stand from `first` to `last`."""

    first: int  # sequence
    last: int
    chunk: int  # number


class Chunk(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Closed messages. Without spans it is gone: its messages were removed, or it dissolved."""

    spans: tuple[tuple[int, int], ...]  # (first, last) sequence of each
    messages: int
    tokens: int
    phase: str = ""

    @property
    def first(self) -> int:
        return self.spans[0][0]

    @property
    def last(self) -> int:
        return self.spans[-1][1]


class Queued(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A chunk without a memory."""

    first: int  # sequence
    chunk: int


class Memory(msgspec.Struct, frozen=True, array_like=True):
    """A summary as it stands."""

    number: int
    level: int
    key: str
    text: bytes  # hash of the blob
    tokens: int
    messages: int  # that it covers
    first: bytes  # key of the first message covered
    last: bytes
    first_seq: int
    last_seq: int
    sources: tuple[int, ...]  # numbers of memories one level below; of level 1 the number of its chunk
    created: int  # µs
    model: str = ""
    phase: str = ""
    void: bool = False

    @property
    def id(self) -> str:
        return f"L{self.level}-{self.number}"


class Unmerged(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A memory that is in none above."""

    first: int  # sequence of the first message covered
    number: int
    last: int
    tokens: int


class Level(msgspec.Struct, frozen=True):
    """The memories of a level."""

    all: List[Memory] = msgspec.field(default_factory=List[Memory])  # by number
    unmerged: Line[Unmerged] = msgspec.field(default_factory=lambda: Line(List[Unmerged]()))  # weights: tokens
    parents: List[int] = msgspec.field(default_factory=List[int])  # by number: the memory it was merged into


class Pin(msgspec.Struct, frozen=True, array_like=True):
    """A protected range."""

    seq: int  # of the event
    key: bytes  # of the event
    first: str  # ids and sequences of the first and last message, as they were given
    first_seq: int
    last: str
    last_seq: int
    kind: str
    name: str | None
    created: int  # µs


class Head(msgspec.Struct, frozen=True, array_like=True):
    """The head window: it begins at the first message from `start` on. `end`: the sequence of the first message behind
    it, fixed when the first chunk behind it closed; -1 before, when it is as long as its tokens allow."""

    start: int = 0
    end: int = -1


class Draft(msgspec.Struct, frozen=True, array_like=True):
    """What may become a chunk. Its indexes hold until something else than a new message comes."""

    start: int  # index of its first message
    end: int  # index after its last
    last: int  # index at which its last pair begins
    messages: int = 0
    size: int = 0  # tokens that count toward the size of a chunk
    tokens: int = 0
    phase: int = 0
    closed: bool = False
    spans: tuple[tuple[int, int], ...] = ()


class State(msgspec.Struct, frozen=True):
    """What is folded of a branch."""

    messages: Transcript = msgspec.field(default_factory=Transcript)
    total: int = 0  # tokens of all messages
    due: int = 0  # tokens in all at which the next chunk may close; before, nothing is looked at
    next: Draft | None = None  # what closes then, where that is known
    frontier: int = 0  # sequence up to which (exclusive) messages were assigned to chunks, pins or head
    chunks: List[Chunk] = msgspec.field(default_factory=List[Chunk])  # by number
    spans: List[Span] = msgspec.field(default_factory=List[Span])  # by first
    memories: List[int] = msgspec.field(default_factory=List[int])  # by number of a chunk: its L1
    queue: Line[Queued] = msgspec.field(default_factory=lambda: Line(List[Queued]()))  # weights: tokens
    levels: tuple[Level, ...] = msgspec.field(default_factory=lambda: tuple(Level() for _ in range(LEVELS)))
    pins: List[Pin] = msgspec.field(default_factory=List[Pin])  # in the order they were made
    guards: tuple[tuple[int, int], ...] = ()  # the sequences they cover, ranges that overlap joined, in order
    head: Head = Head()
    tools: Map[int] = msgspec.field(default_factory=Map[int])  # results of a tool so far
    last_phase: int = 0  # of the last message with tool calls
    gone: Map[tuple[int, ...]] = msgspec.field(
        default_factory=Map[tuple[int, ...]]
    )  # by tool: ranks of removed results


def level_of(state: State, level: int) -> Level:
    return state.levels[level - 1]


def with_level(state: State, level: int, new: Level) -> State:
    levels = tuple(new if at == level - 1 else old for at, old in enumerate(state.levels))
    return msgspec.structs.replace(state, levels=levels)
