"""What lies on pages that no sound tree leads to: under a damaged branch, freed, or damaged themselves.

Such a page does not say whose it is, so each entry is taken for what it proves to be: an event by its id, a blob by its
hash, a record by its checksum and its shape. Old pages hold old versions, so nothing found here is believed before what
the trees hold; it fills gaps. Everything goes to a scratch file, in this layout:

    EVENTS    id (16 bytes)                  -> the position that was claimed for it ‖ the event
    BLOCKS    position ‖ id                  -> nothing
    CAUSES    parent's id ‖ sequence ‖ id    -> nothing
    the rest  as in a store
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
from blake3 import blake3

from chronicle_py import records
from chronicle_py.errors import ChronicleError
from chronicle_py.event import BLOB, Event, decode_event, event_id
from chronicle_py.kv import (
    BLOCKS,
    CAUSES,
    EVENTS,
    FEED,
    LINEAGES,
    META,
    OBJECTS,
    REFLOG,
    REFS,
    SLOTS,
    Reader,
    Writer,
)  # fmt: skip
from chronicle_py.lmdb_kv import LmdbFile
from chronicle_py.records import Position, pack_number, pack_position, unpack_position
from chronicle_py.rescue.layout import LEAF, METAS, PageFile, header
from chronicle_py.rescue.reading import PageReader
from chronicle_py.rescue.walk import Progress, Walk

_COMMIT_EVERY: Final = 2048  # entries
MAX_SEQ: Final = (1 << 64) - 1  # that a key can hold
_SHORT: Final = records.ID_PREFIX
_RECORDS: Final = (
    (LINEAGES, records.decode_lineage),
    (FEED, records.decode_feed),
    (REFS, records.decode_ref),
    (SLOTS, records.decode_slot),
    (REFLOG, records.decode_move),
)
_META_KEYS: Final = (records.META_FORMAT, records.META_STORE, records.META_EPOCH)


def past(lineage: int) -> bytes:
    """What is above all positions of a lineage."""
    return pack_position(lineage, MAX_SEQ) + b"\xff" * 17


def intact(stored: bytes) -> Event | None:
    """The event in these bytes, if they hash to its id."""
    try:
        event = decode_event(stored)
        return event if event_id(stored, event) == event.key else None
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError):
        return None


class Scratch:
    """What was found, as the scratch file holds it: one snapshot of it, once all is there."""

    def __init__(self, file: LmdbFile) -> None:
        self._reading = file.read()

    def reader(self) -> Reader:
        return self._reading

    def pairs(self, space: int) -> Iterator[tuple[bytes, bytes]]:
        """All of a keyspace."""
        start = b""
        while pairs := self._reading.scan(space, start, limit=64):
            yield from pairs
            start = pairs[-1][0] + b"\0"

    def close(self) -> None:
        self._reading.__exit__(None, None, None)

    def event(self, key: bytes) -> tuple[Event, bytes] | None:
        """The event of an id, and its bytes."""
        found = self._reading.get(EVENTS, key[:_SHORT])
        if found is None:
            return None
        event = intact(found[12:])
        return (event, found[12:]) if event is not None and event.key == key else None

    def claiming(self, lineage: int, seq: int) -> list[bytes]:
        """Ids (16 bytes) of the events that were found at a position."""
        place = pack_position(lineage, seq)
        return [key[12:] for key, _ in self._reading.scan(BLOCKS, place, place + b"\xff" * 17)]

    def of_lineage(self, lineage: int, start: int) -> list[tuple[int, bytes]]:
        """(sequence, short id) of what was found on a lineage, up to 1,024 of them, from a sequence on."""
        if start > MAX_SEQ:
            return []
        pairs = self._reading.scan(BLOCKS, pack_position(lineage, start), past(lineage), limit=1024)
        return [(unpack_position(key[:12])[1], key[12:]) for key, _ in pairs]

    def short(self, short: bytes) -> tuple[Event, bytes] | None:
        """The event of the start of an id."""
        found = self._reading.get(EVENTS, short)
        event = None if found is None else intact(found[12:])
        return None if event is None or found is None else (event, found[12:])

    def next_lineage(self, above: int) -> int | None:
        """The next lineage that something was found of."""
        pairs = self._reading.scan(BLOCKS, past(above), limit=1)
        return unpack_position(pairs[0][0][:12])[0] if pairs else None


class Finder:
    """One pass over the pages."""

    def __init__(self, file: PageFile, found: Walk, live: PageReader, scratch: LmdbFile) -> None:
        self._file = file
        self._walk = found
        self._live = live
        self._scratch = scratch
        self.entries = 0

    def run(self, progress: Progress | None) -> None:
        """Reads every page that is not known to be sound."""
        writer = self._scratch.write()
        waiting = 0
        sound = self._walk.sound
        try:
            for page in range(METAS, self._file.pages):
                if progress is not None and page % 1024 == 0:
                    progress(page, self._file.pages)
                if page < len(sound) and sound[page]:
                    continue
                count = self._page(writer, page)
                waiting += count
                self.entries += count
                if waiting >= _COMMIT_EVERY:
                    writer.commit()
                    waiting, writer = 0, self._scratch.write()
        except BaseException:
            writer.abort()
            raise
        writer.commit()

    def _page(self, writer: Writer, page: int) -> int:
        data = self._file.page(page)
        if data is None:
            return 0
        own, flags, _, _ = header(data)
        proper = own == page and flags == LEAF
        count = 0
        for node in self._file.nodes(data):
            value = self._file.value(node)
            if value is not None and node.key:
                count += self._entry(writer, node.key, value, proper)
        return count

    def _entry(self, writer: Writer, key: bytes, value: bytes, proper: bool) -> bool:
        """Keeps an entry if it proves to be something. `proper`: it lies on a page that is a leaf by its own account;
        a checksum alone, unlike an id, could as well have been put into a payload."""
        if value[:1] == b"\x9a" and len(key) == 12:
            event = intact(value)
            if event is not None:
                self._event(writer, unpack_position(key), event, value)
                return True
        if len(key) == 32 and value[:1] == BLOB and blake3(value).digest() == key:
            if self._live.get(OBJECTS, key) != value:
                writer.put(OBJECTS, key, value)
            return True
        if not proper or len(value) < records.CRC_SIZE:
            return False
        return self._record(writer, key, value)

    def _event(self, writer: Writer, claimed: Position, event: Event, stored: bytes) -> None:
        place = pack_position(*claimed)
        there = self._live.get(EVENTS, place)
        if there == stored:
            return
        short = event.key[:_SHORT]
        writer.put(EVENTS, short, place + stored, overwrite=event.is_erased)  # the payload may be on an old page still
        writer.put(BLOCKS, place + short, b"")
        above = event.parent_keys[:_SHORT].ljust(_SHORT, b"\0")
        writer.put(CAUSES, above + pack_number(event.seq) + short, b"")

    def _record(self, writer: Writer, key: bytes, value: bytes) -> bool:
        space = META if key in _META_KEYS else _space_of(key, value)
        if space is None:
            return False
        before = writer.get(space, key)
        if before is None or _newer(space, key, value, before):
            writer.put(space, key, value)
        return True


def _space_of(key: bytes, value: bytes) -> int | None:
    """The keyspace that a record belongs to, by its shape; None where its checksum fails or it has none of them."""
    for space, decode in _RECORDS:
        try:
            decode(key, value, "")
        except (ChronicleError, UnicodeDecodeError, ValueError):
            continue
        return space
    return None


def _newer(space: int, key: bytes, value: bytes, before: bytes) -> bool:
    """Which of two versions of a record is the later one, as far as that shows."""
    if space != REFS:
        return space == META and value > before
    a, b = records.decode_ref(key, value, ""), records.decode_ref(key, before, "")
    return (a.created, a.lineage, a.seq) > (b.created, b.lineage, b.seq)
