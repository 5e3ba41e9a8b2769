"""`Talk`: a conversation without a store, for tests of strategies. It folds each event as it comes; its own view.

A word is a token. Summaries are made by a function of the request that names its sources.
"""

from __future__ import annotations

import copy
from typing import Any

import msgspec
from blake3 import blake3

from chronicle_py.context.blocks import Block, Text, ToolResult, ToolUse, parse, plain
from chronicle_py.context.message import facts, role_of
from chronicle_py.context.message_index import MessageIndex
from chronicle_py.context.payloads import (
    ADOPT,
    EDIT,
    HEAD_RESET,
    MESSAGE,
    PIN,
    REMOVE,
    SUMMARY,
    UNPIN,
    EditPayload,
    HeadResetPayload,
    MessagePayload,
    PinPayload,
    RemovePayload,
    SummaryPayload,
    UnpinPayload,
)
from chronicle_py.context.tokens import Tokenizer
from chronicle_py.event import BlobRef, Event, build_event, decode_event, encode_payload
from chronicle_py.strategies import Budget, Entry, Rendering, Request, ViewedMessage, Work
from chronicle_py.strategies.naming import name_tokens


def words(text: str) -> int:
    return len(text.split())


WORDS = Tokenizer("words", words)
INDEX = MessageIndex()


def text_of(entry: Entry) -> str:
    """All text of an entry."""
    parts = []
    for block in entry.blocks:
        if isinstance(block, Text):
            parts.append(block.text)
        elif isinstance(block, ToolResult):
            parts.append(str(block.content))
        elif isinstance(block, ToolUse):
            parts.append(f"{block.name} {block.input}")
    return "\n".join(parts)


class Talk:
    """One branch: its events, the state of one strategy, and the messages as they stand."""

    def __init__(self, strategy: Any) -> None:
        self.strategy = strategy
        self.state = strategy.initial()
        self.index = INDEX.initial()
        self.spoke: set[str] = set()  # users who ever said something of their own
        self.events: list[Event] = []
        self.seq = 0
        self.head = b""
        self.viewed: dict[int, ViewedMessage] = {}
        self.texts: dict[str, str] = {}
        self.asked: list[Work] = []

    # --- events ---

    def append(self, type: str, payload: Any) -> Event:
        self.seq += 1
        salt = self.seq.to_bytes(16, "big")
        raw = encode_payload(payload)
        _, stored = build_event(type, 1_000_000 + self.seq, self.head, self.seq, None, 1, None, salt, raw)
        event = decode_event(stored)
        self.head = event.key
        self.events.append(event)
        self.state = self.strategy.fold(self.state, event)
        self.index = INDEX.fold(self.index, event)
        return event

    def say(self, participant: str, content: object) -> int:
        """Adds a message; its sequence."""
        blocks = parse(content)
        role = role_of(participant, "Claude")
        known = facts(blocks, participant, role, WORDS)
        event = self.append(
            MESSAGE,
            MessagePayload(
                **msgspec.structs.asdict(known), blocks=[plain(block) for block in blocks], tokenizer="words"
            ),
        )
        self._heard(participant, role, blocks)
        self.viewed[event.seq] = ViewedMessage(
            event.id, event.seq, participant, role, blocks, known.tokens, known.text_tokens, event.time
        )
        return event.seq

    def _heard(self, participant: str, role: str, blocks: list[Block]) -> None:
        if role == "user" and participant != "Context Manager" and not all(isinstance(b, ToolResult) for b in blocks):
            self.spoke.add(participant)

    def says(self, count: int, size: int = 10, word: str = "word") -> list[int]:
        """Adds messages of `size` tokens, by turns of the user and the model."""
        found = []
        for _ in range(count):
            name = "User" if len(self.viewed) % 2 == 0 else "Claude"
            found.append(self.say(name, f"m{self.seq + 1} " + " ".join([word] * (size - 1))))
        return found

    def call(self, *ids: str, tool: str = "bash", text: str = "") -> int:
        uses = [ToolUse(id, tool, {"cmd": "ls"}) for id in ids]
        return self.say("Claude", [Text(text), *uses] if text else uses)

    def answer(self, *ids: str, text: str = "done well") -> int:
        return self.say("User", [ToolResult(id, text) for id in ids])

    def edit(self, seq: int, content: object) -> None:
        old = self.viewed[seq]
        blocks = parse(content)
        known = facts(blocks, old.participant, role_of(old.participant, "Claude"), WORDS)
        event = self.append(
            EDIT,
            EditPayload(
                **msgspec.structs.asdict(known), id=old.id, seq=seq, blocks=[plain(block) for block in blocks],
                tokenizer="words",
            ),
        )  # fmt: skip
        self._heard(old.participant, old.role, blocks)
        self.viewed[seq] = msgspec.structs.replace(
            old, blocks=blocks, tokens=known.tokens, text_tokens=known.text_tokens, edited=event.id
        )

    def remove(self, first: int, last: int | None = None) -> None:
        last = first if last is None else last
        self.append(REMOVE, RemovePayload(self.viewed[first].id, first, self.viewed[last].id, last))
        for seq in [seq for seq in self.viewed if first <= seq <= last]:
            del self.viewed[seq]

    def pin(self, first: int, last: int | None = None, kind: str = "pin", name: str | None = None) -> Event:
        last = first if last is None else last
        return self.append(
            PIN,
            PinPayload(
                first=f"{first:064x}", first_seq=first, last=f"{last:064x}", last_seq=last, kind=kind, name=name
            ),
        )  # fmt: skip

    def unpin(self, pin: Event) -> None:
        self.append(UNPIN, UnpinPayload(pin.id, pin.seq))

    def reset(self, text: str = "[Topic Transition] on to something else") -> int:
        seq = self.say("Context Manager", text)
        self.append(HEAD_RESET, HeadResetPayload(self.viewed[seq].id, seq))
        return seq

    # --- summaries ---

    def store(self, text: str) -> BlobRef:
        ref = BlobRef(blake3(text.encode()).hexdigest())
        self.texts[ref.hash] = text
        return ref

    def summarize(self, work: Work, text: str | None = None) -> SummaryPayload:
        """Records the summary of a piece of work."""
        request: Request = self.strategy.request(self.state, work, self)
        assert request.work == work
        self.asked.append(work)
        text = text or f"summary of {work.first_seq} to {work.last_seq}, level {work.level}"
        payload: SummaryPayload = self.strategy.complete(work, self.store(text), words(text))
        self.append(SUMMARY, payload)
        return payload

    def adopt(self, payload: SummaryPayload) -> None:
        self.append(ADOPT, payload)

    def tick(self) -> bool:
        plan = self.strategy.plan(self.state)
        if not plan:
            return False
        self.summarize(plan[0])
        return True

    def drain(self) -> int:
        done = 0
        while self.tick():
            done += 1
        return done

    # --- the view, and rendering ---

    def message(self, seq: int) -> ViewedMessage:
        return self.viewed[seq]

    def text(self, summary: SummaryPayload) -> str:
        return self.texts[summary.text.hash]

    def count(self, text: str) -> int:
        return words(text)

    def name_tokens(self, participant: str, text: str) -> int:
        return name_tokens(participant, text, WORDS) if len(self.index.speakers) > 1 else 0

    def render(self, tokens: int = 1_000_000) -> Rendering:
        found: Rendering = self.strategy.render(self.state, self, Budget(tokens, 0))
        return found

    def raw(self, tokens: int = 1_000_000) -> list[int]:
        """The sequences of the messages shown raw."""
        return [entry.seq for entry in self.render(tokens).entries if entry.seq is not None]

    def shown(self, tokens: int = 1_000_000) -> list[str]:
        """The ids of the summaries shown."""
        return [entry.summary for entry in self.render(tokens).entries if entry.summary and entry.role == "assistant"]

    # --- other branches, other strategies ---

    def fork(self) -> Talk:
        other = copy.copy(self)
        other.events, other.viewed, other.texts = list(self.events), dict(self.viewed), self.texts
        other.asked = []
        return other

    def under(self, strategy: Any) -> Talk:
        """The same branch, folded by another strategy."""
        other = self.fork()
        other.strategy, other.state = strategy, strategy.initial()
        for event in self.events:
            other.state = strategy.fold(other.state, event)
        return other
