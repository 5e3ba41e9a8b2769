"""What a salvage could not attach, written down as JSON Lines, so that no payload is lost that can be read.

An event behind a gap is a line as in an export (docs/cli.md). One whose bytes were changed, and that still decodes, is
a line `damaged-event`: what it says is not certain.
"""

from __future__ import annotations

from typing import BinaryIO, Final

import msgspec

from chronicle_py.errors import ChronicleError
from chronicle_py.event import Event, decode_event

_REMEMBERED: Final = 100_000


class _Damaged(msgspec.Struct, frozen=True, tag_field="record", tag="damaged-event"):
    lineage: int
    seq: int
    type: str
    slot: str | None
    time: int
    payload: msgspec.Raw


class Leftovers:
    """The file, and how many whole events are in it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._seen: set[tuple[int, int]] = set()
        self.events = 0

    def event(self, lineage: int, event: Event) -> None:
        from chronicle_py.exchange.lines import event_line

        self.events += 1
        self._file.write(event_line(event))

    def damaged(self, lineage: int, seq: int, stored: bytes) -> None:
        """An event whose bytes are not what its id says, as far as it can be read."""
        from chronicle_py.exchange.json_form import faithful

        if (lineage, seq) in self._seen or len(self._seen) >= _REMEMBERED:
            return
        self._seen.add((lineage, seq))
        try:
            event = decode_event(stored)
            text, _ = faithful(bytes(event.raw))
        except (ChronicleError, msgspec.MsgspecError, ValueError, RecursionError):
            return
        line = _Damaged(lineage, seq, event.type, event.slot, event.time, msgspec.Raw(text))
        self._file.write(msgspec.json.encode(line) + b"\n")
