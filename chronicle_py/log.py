"""Reading events: one by position or id, or a range of a branch's history in batches.

Works on a snapshot that the caller hands in, and holds none itself. A history is read lineage by lineage, each piece by
one cursor walk; a missing event shows at once, since the last of n values must be the n-th of its lineage.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from chronicle_py import records
from chronicle_py.errors import CorruptStore, InvalidOperation, NotFound
from chronicle_py.event import ID_SIZE, Event, checked_event, decode_event
from chronicle_py.kv import CAUSES, EVENTS, IDS, Reader
from chronicle_py.lineages import Lineages
from chronicle_py.records import Position, pack_position, unpack_position
from chronicle_py.shown import shown

BATCH = 1024  # events read under one snapshot
MIN_PREFIX = 6  # hex digits of an id that a person may give


class Log:
    """Reads events."""

    def __init__(self, lineages: Lineages) -> None:
        self._lineages = lineages

    def stored(self, reader: Reader, lineage: int, seq: int) -> bytes:
        value = reader.get(EVENTS, pack_position(lineage, seq))
        if value is None:
            raise CorruptStore(
                f"the event at sequence {seq} of lineage {lineage} is missing. `chronicle verify` lists the damage"
            )
        return value

    def at(self, reader: Reader, lineage: int, seq: int) -> Event:
        """The event that lies at a position."""
        stored = self.stored(reader, lineage, seq)
        try:
            return decode_event(stored)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return checked_event(stored, f"sequence {seq} of lineage {lineage}")

    def on_chain(self, reader: Reader, lineage: int, seq: int) -> tuple[int, Event]:
        """The event at a sequence (≥ 1) of the chain that ends in `lineage`, and the lineage that holds it."""
        owner, _ = self._lineages.owner(reader, lineage, seq)
        return owner, self.at(reader, owner, seq)

    def values(self, reader: Reader, lineage: int, start: int, stop: int) -> list[bytes]:
        """The stored bytes of sequences start…stop of one lineage."""
        count = stop - start + 1
        values = reader.take(EVENTS, pack_position(lineage, start), count)
        if len(values) != count or self._seq(values[-1]) != stop:
            raise CorruptStore(
                f"events between sequences {start} and {stop} of lineage {lineage} are missing. `chronicle verify` "
                "lists the damage"
            )
        return values

    def _seq(self, value: bytes) -> int:
        return checked_event(value, "the end of a range").seq

    def events(self, reader: Reader, lineage: int, start: int, stop: int) -> list[Event]:
        """The decoded events of sequences start…stop of one lineage."""
        values = self.values(reader, lineage, start, stop)
        try:
            return list(map(decode_event, values))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return [checked_event(v, f"sequence {start + i} of lineage {lineage}") for i, v in enumerate(values)]

    def batches(self, reader: Reader, lineage: int, start: int, stop: int) -> Iterator[tuple[int, list[Event]]]:
        """The history start…stop of a chain as (lineage, events) pieces of at most BATCH, in order."""
        for number, first, last in self._lineages.segments(reader, lineage, start, stop):
            for at in range(first, last + 1, BATCH):
                yield number, self.events(reader, number, at, min(at + BATCH - 1, last))

    # --- by id ---

    def find(self, reader: Reader, key: bytes) -> Position | None:
        """Where the event of this id (all 32 bytes) lies first."""
        short = key[: records.ID_PREFIX]
        record = reader.get(IDS, short)
        if record is None:
            return None
        lineage, seq = records.unseal_position(short, record, f"id {key.hex()[:12]}")
        return (lineage, seq) if self.at(reader, lineage, seq).key == key else None

    def naming(self, reader: Reader, key: bytes, relation: bytes) -> Iterator[Event]:
        """The events that name the one of this id in `caused_by` or `linked_to`, each once, by where they lie."""
        prefix = key[: records.ID_PREFIX] + relation
        seen: set[bytes] = set()
        for cause, record in reader.scan(CAUSES, prefix, prefix + b"\xff" * 12):
            records.unseal(cause, record, f"the effects of event {key.hex()[:12]}")
            effect = self.at(reader, *unpack_position(cause[len(prefix) :]))
            named = effect.refs[1 if relation == records.CAUSED_BY else 2] if effect.refs else b""
            if effect.key not in seen and any(named[i : i + ID_SIZE] == key for i in range(0, len(named), ID_SIZE)):
                seen.add(effect.key)
                yield effect

    def resolve(self, reader: Reader, text: object) -> tuple[Position, Event]:
        """The event whose id is `text` or starts with it (a unique prefix of at least 6 hex digits)."""
        if not isinstance(text, str):
            raise InvalidOperation(f"an event id is a str of hex digits, not {shown(text)}")
        digits = text.lower()
        if len(digits) < MIN_PREFIX or len(digits) > 64 or any(c not in "0123456789abcdef" for c in digits):
            raise InvalidOperation(f"an event id is {MIN_PREFIX} to 64 hex digits, not {shown(text)}")
        start = bytes.fromhex(digits + "0" * (-len(digits) % 2))[: records.ID_PREFIX]
        above = int(digits[: 2 * records.ID_PREFIX], 16) + 1
        size = min(len(digits), 2 * records.ID_PREFIX)
        stop = (above << (4 * (2 * records.ID_PREFIX - size))).to_bytes(records.ID_PREFIX + 1, "big")[1:]
        pairs = reader.scan(IDS, start, stop if any(stop) else None, limit=2)
        found: list[tuple[Position, Event]] = []
        for short, record in pairs:
            lineage, seq = records.unseal_position(short, record, f"id {short.hex()[:12]}")
            event = self.at(reader, lineage, seq)
            if event.id.startswith(digits):
                found.append(((lineage, seq), event))
        if not found:
            raise NotFound(f"no event has an id that starts with {shown(text)}")
        if len(found) > 1:
            raise InvalidOperation(
                f"{shown(text)} is the start of several ids, of {found[0][1].id} for one; give more digits"
            )
        return found[0]
