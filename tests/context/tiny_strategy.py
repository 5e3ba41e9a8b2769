"""`Tiny`: a strategy small enough to read at once, for tests of the manager and the runner.

Every four messages are a chunk; a chunk has one summary, which takes its place. No merges, no windows, no budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from chronicle_py.context.blocks import Text
from chronicle_py.context.payloads import (
    ADOPT,
    EDIT,
    HEAD_RESET,
    MESSAGE,
    PIN,
    REMOVE,
    SUMMARY,
    UNPIN,
    EditFacts,
    Facts,
    HeadResetPayload,
    PinPayload,
    RemovePayload,
    SummaryPayload,
    UnpinPayload,
)
from chronicle_py.errors import InvalidOperation
from chronicle_py.event import Event
from chronicle_py.strategies.strategy import (
    Budget,
    Entry,
    MessageView,
    ProtectedRange,
    Rendering,
    RenderStats,
    Request,
    Share,
    SummaryInfo,
    Work,
)

SIZE = 4


class Said(msgspec.Struct, frozen=True):
    seq: int
    id: str
    edit: str = ""


class TinyState(msgspec.Struct, frozen=True):
    said: tuple[Said, ...] = ()
    summaries: tuple[tuple[SummaryPayload, int], ...] = ()
    pins: tuple[ProtectedRange, ...] = ()
    head: int = 0


class Tiny:
    name = "tiny"
    version = 1
    types = frozenset({MESSAGE, EDIT, REMOVE})
    state_type = TinyState
    events = {  # noqa: RUF012
        MESSAGE: Facts, EDIT: EditFacts, REMOVE: RemovePayload, SUMMARY: SummaryPayload, ADOPT: SummaryPayload,
        PIN: PinPayload, UNPIN: UnpinPayload, HEAD_RESET: HeadResetPayload,
    }  # fmt: skip

    def __init__(self, prompt: str = "Sum up.", auto_tick: bool = False, held: bool = False) -> None:
        self.prompt = prompt
        self.auto_tick = auto_tick
        self.held = held
        self.fingerprint = prompt

    def initial(self) -> TinyState:
        return TinyState()

    def fold(self, state: TinyState, event: Event) -> TinyState:
        said = state.said
        payload: Any = event.payload
        if event.type == MESSAGE:
            return msgspec.structs.replace(state, said=(*said, Said(event.seq, event.id)))
        if event.type == EDIT:
            new = tuple(Said(m.seq, m.id, event.id) if m.seq == payload.seq else m for m in said)
            return msgspec.structs.replace(state, said=new)
        if event.type == REMOVE:
            new = tuple(m for m in said if not payload.first_seq <= m.seq <= payload.last_seq)
            return msgspec.structs.replace(state, said=new)
        if event.type in (SUMMARY, ADOPT):
            return msgspec.structs.replace(state, summaries=(*state.summaries, (payload, event.time)))
        if event.type == PIN:
            pin = ProtectedRange(
                event.id, payload.first, payload.last, payload.first_seq, payload.last_seq, payload.kind, payload.name,
                event.time,
            )  # fmt: skip
            return msgspec.structs.replace(state, pins=(*state.pins, pin))
        if event.type == UNPIN:
            return msgspec.structs.replace(state, pins=tuple(pin for pin in state.pins if pin.id != payload.pin))
        if event.type == HEAD_RESET:
            return msgspec.structs.replace(state, head=payload.seq)
        return state

    def _chunks(self, state: TinyState) -> list[tuple[str, tuple[Said, ...]]]:
        found = []
        for at in range(0, len(state.said) - SIZE + 1, SIZE):
            chunk = state.said[at : at + SIZE]
            found.append((self.prompt + "|" + ",".join(m.id[:16] + m.edit[:16] for m in chunk), chunk))
        return found

    def plan(self, state: TinyState) -> Sequence[Work]:
        done = {payload.key for payload, _ in state.summaries}
        return [
            Work(
                key=key,
                level=1,
                sources=tuple(m.id for m in chunk),
                source_seqs=tuple(m.seq for m in chunk),
                first=chunk[0].id,
                last=chunk[-1].id,
                first_seq=chunk[0].seq,
                last_seq=chunk[-1].seq,
                held=self.held,
            )
            for key, chunk in self._chunks(state)
            if key not in done
        ]

    def request(self, state: TinyState, work: Work, view: MessageView) -> Request:
        entries = [self._raw(view, seq) for seq in work.source_seqs]
        return Request(
            work=work, system="", entries=entries, instruction=self.prompt, target_tokens=60, max_tokens=90
        )  # fmt: skip

    def complete(self, work: Work, text: Any, tokens: int) -> SummaryPayload:
        return SummaryPayload(
            key=work.key, level=1, text=text, tokens=tokens, sources=work.sources, source_seqs=work.source_seqs,
            first=work.first, last=work.last, first_seq=work.first_seq, last_seq=work.last_seq,
        )  # fmt: skip

    def render(self, state: TinyState, view: MessageView, budget: Budget) -> Rendering:
        shown = {payload.first_seq: (payload, id) for payload, id in self._standing(state)}
        entries: list[Entry] = []
        covered: set[int] = set()
        for message in state.said:
            if message.seq in shown:
                payload, id = shown[message.seq]
                covered.update(payload.source_seqs)
                text = view.text(payload)
                entries.append(Entry("Claude", "assistant", [Text(text)], payload.tokens, summary=id))
            pinned = any(pin.first_seq <= message.seq <= pin.last_seq for pin in state.pins)
            if (message.seq not in covered or pinned) and view.message(message.seq).role != "system":
                entries.append(self._raw(view, message.seq))
        return Rendering(entries, RenderStats(total=sum(entry.tokens for entry in entries)))

    def _raw(self, view: MessageView, seq: int) -> Entry:
        message = view.message(seq)
        return Entry(message.participant, message.role, message.blocks, message.tokens, seq, message.id)

    def _standing(self, state: TinyState) -> list[tuple[SummaryPayload, str]]:
        keys = {key for key, _ in self._chunks(state)}
        found: dict[str, tuple[SummaryPayload, str]] = {}
        for number, (payload, _) in enumerate(state.summaries):
            if payload.key in keys:
                found.setdefault(payload.key, (payload, f"L1-{number}"))
        return list(found.values())

    def pins(self, state: TinyState) -> list[ProtectedRange]:
        return list(state.pins)

    def check_pin(self, state: TinyState, pin: PinPayload) -> None:
        if pin.name == "forbidden":
            raise InvalidOperation("this pin is refused")

    def summaries(self, state: TinyState) -> Sequence[SummaryInfo]:
        return [self._info(payload, id) for payload, id in self._standing(state)]

    def summary(self, state: TinyState, id: str) -> SummaryInfo | None:
        return next((info for info in self.summaries(state) if info.id == id), None)

    def _info(self, payload: SummaryPayload, id: str) -> SummaryInfo:
        return SummaryInfo(id=id, level=1, tokens=payload.tokens, payload=payload, merged_into=None, created=0)

    def head_start(self, state: TinyState) -> int:
        return state.head

    def recap(self, state: TinyState, view: MessageView, tokens: int) -> list[Entry]:
        return self.render(state, view, Budget(tokens, 0)).entries

    def render_stats(self, state: TinyState, view: MessageView, budget: Budget) -> RenderStats:
        return RenderStats(tail=Share(0, 0), total=self.render(state, view, budget).stats.total)
