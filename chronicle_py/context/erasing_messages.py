"""Erasing a message of a conversation with all that repeats it: edits, summaries, copies in context logs, marks.

What was made of a message lies in events of its own, after it, on whatever branch. They are looked for along every
lineage that has the message:

    message.edit                its edits
    summary, summary.adopt      level 1: those that name it as a source; above: those that cover one that is erased
    context.add, context.edit   entries that are copies of it or show its event's content, and what they were edited to
    pin                         marks on it alone, since a mark may have a name

Folds skip what was erased: the message is gone as if it had not been said, and what was summarised is planned anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from chronicle_py.context.context_log import LOG_ADD, LOG_EDIT, LogAddPayload, LogEditPayload
from chronicle_py.context.payloads import ADOPT, EDIT, MESSAGE, PIN, SUMMARY, EditFacts, PinPayload, SummaryPayload
from chronicle_py.erased import check_reason
from chronicle_py.erasing import EraseReport, erase_events, erasing
from chronicle_py.errors import InvalidOperation
from chronicle_py.event import Event, checked_event, event_type
from chronicle_py.kv import EVENTS, LINEAGES, Progress, Reader
from chronicle_py.records import Position, pack_position, unpack_position

if TYPE_CHECKING:
    from chronicle_py.engine import Engine

_BATCH = 1024
_LAST: Final = (1 << 64) - 1
_DECODE: Final[dict[str, Any]] = {
    kind: event_type(kind, struct).decoder.decode
    for kind, struct in (
        (EDIT, EditFacts),
        (SUMMARY, SummaryPayload),
        (ADOPT, SummaryPayload),
        (PIN, PinPayload),
        (LOG_ADD, LogAddPayload),
        (LOG_EDIT, LogEditPayload),
    )
}


class ErasedMessage(msgspec.Struct, frozen=True):
    """What `erase_message` erased: how many events of each kind beside the message's own, on all branches."""

    id: str
    edits: int
    summaries: int  # merges and adoptions included
    log: int  # entries of context logs, and edits of them
    pins: int
    report: EraseReport


def erase_message(engine: Engine, id: str | Event, reason: object, progress: Progress | None = None) -> ErasedMessage:
    """Erases a message and what repeats it, on all branches, in a transaction of its own.

    InvalidOperation for an event of another type. O(events after it on its branches), and what `store.erase` costs.
    """
    why = check_reason(reason)
    with erasing(engine) as tx:
        tx.flush()
        event = engine.log.resolve(tx.writer, id.id if isinstance(id, Event) else id)[1]
        if event.type != MESSAGE:
            raise InvalidOperation(
                f"event {event.id[:12]} is no message but of type {event.type!r}; store.erase erases any event"
            )
        found = _Traces(engine, tx.scope, event)
        repeated = list(found)
        report = erase_events(tx, [event, *repeated], why, progress)
    kinds = [trace.type for trace in {trace.key: trace for trace in repeated}.values()]
    return ErasedMessage(
        id=event.id,
        edits=kinds.count(EDIT),
        summaries=kinds.count(SUMMARY) + kinds.count(ADOPT),
        log=kinds.count(LOG_ADD) + kinds.count(LOG_EDIT),
        pins=kinds.count(PIN),
        report=report,
    )


class _Told(NamedTuple):
    """A summary that is to be erased."""

    place: Position
    slot: str | None
    level: int
    first: int
    last: int


class _Traces:
    """The events that repeat a message, oldest first along each lineage."""

    def __init__(self, engine: Engine, reader: Reader, message: Event) -> None:
        self._engine = engine
        self._reader = reader
        self._message = message
        self._told: list[_Told] = []
        self._entries: dict[tuple[str | None, int], list[Position]] = {}  # slot, sequence -> where such an entry lies

    def __iter__(self) -> Iterator[Event]:
        seq = self._message.seq
        for key, _ in self._pairs(LINEAGES, b"", None):
            lineage = int.from_bytes(key, "big")
            owner, _ = self._engine.lineages.owner(self._reader, lineage, seq)
            stored = self._reader.get(EVENTS, pack_position(owner, seq))
            if stored is None or self._message.key not in stored[:40]:
                continue
            start = max(seq, self._engine.lineages.get(self._reader, lineage).fork_seq) + 1
            for place, value in self._pairs(EVENTS, pack_position(lineage, start), pack_position(lineage, _LAST)):
                event = checked_event(value, "{}/{}".format(*unpack_position(place)))
                if event.type in _DECODE and not event.is_erased and self._repeats((lineage, event.seq), event):
                    yield event

    def _pairs(self, space: int, start: bytes, stop: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        while True:
            pairs = self._reader.scan(space, start, stop, limit=_BATCH)
            yield from pairs
            if len(pairs) < _BATCH:
                return
            start = pairs[-1][0] + b"\0"

    def _repeats(self, place: Position, event: Event) -> bool:
        try:
            payload = _DECODE[event.type](event.raw)
        except msgspec.MsgspecError:
            return False  # another application's event of that type
        id, seq = self._message.id, self._message.seq
        if isinstance(payload, EditFacts):
            return payload.id == id
        if isinstance(payload, PinPayload):
            return payload.first == payload.last == id
        if isinstance(payload, SummaryPayload):
            told = _Told(place, event.slot, payload.level, payload.first_seq, payload.last_seq)
            direct = seq in payload.source_seqs and id in payload.sources
            if direct or any(self._covers(told, below) for below in self._told):
                self._told.append(told)
                return True
            return False
        if isinstance(payload, LogAddPayload):
            if payload.source != id or not (payload.blocks is None or payload.relation in (None, "copy")):
                return False
            self._entries.setdefault((event.slot, event.seq), []).append(place)
            return True
        known = self._entries.get((event.slot, payload.entry), ())
        return any(self._inherits(place[0], entry) for entry in known)

    def _covers(self, told: _Told, below: _Told) -> bool:
        """Whether a merge is of a summary that is to be erased. Numbers of summaries may be others on another branch,
        so it goes by what they cover."""
        return (
            told.level > below.level
            and told.slot == below.slot
            and told.first <= below.first
            and below.last <= told.last
            and self._inherits(told.place[0], below.place)
        )

    def _inherits(self, lineage: int, place: Position) -> bool:
        return self._engine.lineages.owner(self._reader, lineage, place[1])[0] == place[0]
