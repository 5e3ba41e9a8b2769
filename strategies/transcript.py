"""`Transcript`: the messages of a branch as strategies fold them. Rows in order, whole pairs, windows by tokens. Pure.

A row holds what folds and renders need to know of a message without reading it; its weight is the tokens that were
recorded when it was added, so that token windows are found in O(log n). System messages have no row: they belong to no
window and no chunk. Rows are addressed by index here, and by sequence in events; `index_of` leads from one to the
other in O(log n). A message added costs one append; an edit or a removal O(log n + length of the pair it stands in).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from chronicle_py.collections import List
from chronicle_py.context.payloads import EDIT, MESSAGE, REMOVE, Call, EditFacts, Facts, RemovePayload
from chronicle_py.event import Event
from chronicle_py.strategies.pairs import follow

_BATCH: Final = 32  # rows read at once on the way through the messages
_MOST: Final = 1 << 40  # tokens that a message may weigh


class Row(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A message that stands."""

    seq: int
    key: bytes  # of its event: the 32 bytes of its id
    tokens: int
    text: int  # tokens without media
    back: int = 0  # messages from the first of its pair to it
    calls: tuple[Call, ...] = ()
    answers: tuple[str, ...] = ()
    edit: bytes = b""  # key of its last edit
    phase: int = 0  # what the message is about, for strategies with phases
    only_answers: bool = False
    ranks: tuple[int, ...] = ()  # of each answer, among those of its tool; 0: of no known tool

    @property
    def id(self) -> str:
        return self.key.hex()


class Transcript(msgspec.Struct, frozen=True):
    """The messages, and the calls that are open after the last one."""

    rows: List[Row] = msgspec.field(default_factory=List[Row])
    open: tuple[Call, ...] = ()
    back: int = 0  # of the last row

    def __len__(self) -> int:
        return len(self.rows)

    # --- looking up ---

    def index_of(self, seq: int) -> int:
        """The index of the first row whose sequence is not below `seq`; the number of rows if none is. O(log n)."""
        rows = self.rows
        low, high = 0, len(rows)
        if not high or (above := rows[high - 1].seq) < seq:
            return high
        below, high = 0, high - 1
        guess = True
        while low < high:  # rows[low - 1].seq < seq ≤ rows[high].seq = above
            if above == seq:
                return high
            middle = low + (seq - below) * (high - low) // (above - below) if guess else (low + high) // 2
            middle = min(max(middle, low), high - 1)
            width, found = high - low, rows[middle].seq
            if found < seq:
                low, below = middle + 1, found
            else:
                high, above = middle, found
            guess = high - low <= width // 2 or not guess
        return low

    def at(self, seq: int) -> int | None:
        """The index of the row of the message at a sequence; None: no such message stands. O(log n)."""
        index = self.index_of(seq)
        return index if index < len(self.rows) and self.rows[index].seq == seq else None

    def offset(self, index: int) -> int:
        """Tokens of the messages before an index. O(log n)."""
        return self.rows.weight(index)

    def total(self) -> int:
        """Tokens of all messages."""
        return self.rows.weight()

    def unit_start(self, index: int) -> int:
        """The index of the first message of the pair at an index. O(log n)."""
        return index - self.rows[index].back if index < len(self.rows) else len(self.rows)

    def unit_end(self, index: int) -> int:
        """The index after the pair at an index."""
        end = index + 1
        for row in self.walk(end, len(self.rows)):
            if not row.back:
                break
            end += 1
        return end

    def unit_from(self, index: int) -> int:
        """The first index, from `index` on, at which a pair (or a message without one) begins."""
        for row in self.walk(index, len(self.rows)):
            if not row.back:
                break
            index += 1
        return min(index, len(self.rows))

    def newest(self) -> int:
        """The index at which the pair of the newest message begins."""
        return len(self.rows) - 1 - self.back if self.rows else 0

    def walk(self, start: int, stop: int) -> Iterator[Row]:
        """The rows of [start, stop), read in stretches."""
        size = 8
        while start < stop:
            yield from self.rows[start : min(start + size, stop)]
            start, size = start + size, min(2 * size, _BATCH)

    def units(self, start: int, stop: int) -> Iterator[tuple[int, list[Row]]]:
        """Pairs and single messages of [start, stop), in order: the index of the first message, and the rows."""
        unit: list[Row] = []
        for row in self.walk(start, stop):
            if unit and not row.back:
                yield start, unit
                start += len(unit)
                unit = []
            unit.append(row)
        if unit:
            yield start, unit

    def units_back(self, start: int, stop: int) -> Iterator[tuple[int, list[Row]]]:
        """The same, the newest first."""
        unit: list[Row] = []
        while stop > start:
            size = min(_BATCH, stop - start)
            for row in reversed(self.rows[stop - size : stop]):
                stop -= 1
                unit.append(row)
                if not row.back or stop == start:
                    yield stop, unit[::-1]
                    unit = []

    # --- folding ---

    def added(self, event: Event, facts: Facts, phase: int = 0, ranks: tuple[int, ...] = ()) -> Transcript:
        """With one more message."""
        joined, open = follow(self.open, facts.calls, facts.answers)
        back = self.back + 1 if joined else 0
        row = row_of(event, facts, back, phase, ranks)
        return Transcript(self.rows.append(row, row.tokens), open, back)

    def edited(self, index: int, row: Row) -> Transcript:
        """With another row at an index."""
        return Transcript(self.rows.set(index, row, row.tokens), self.open, self.back)._paired(index)

    def removed(self, start: int, stop: int) -> Transcript:
        """Without the rows of [start, stop)."""
        return Transcript(self.rows.delete(start, stop), self.open, self.back)._paired(start)

    def _paired(self, index: int) -> Transcript:
        """With pairs worked out anew around an index at which something changed."""
        rows = self.rows
        start = self.unit_start(index - 1) if index else 0
        open: tuple[Call, ...] = ()
        back = 0
        for at, row in enumerate(self.walk(start, len(rows)), start):
            joined, after = follow(open, row.calls, row.answers)
            back = back + 1 if joined else 0
            if at > index and not back and not row.back:
                return Transcript(rows, self.open, self.back)  # from here on nothing depends on what stands before
            if back != row.back:
                rows = rows.set(at, msgspec.structs.replace(row, back=back))
            open = after
        return Transcript(rows, open, back) if rows else Transcript()


# --- events ---------------------------------------------------------------------------------------------------------


class Said(Facts, frozen=True, kw_only=True, gc=False):
    """What is read of a `message`, and that the rest has the shape of one."""

    blocks: msgspec.Raw
    tokenizer: str
    at: int | None = None
    metadata: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict)


class Changed(EditFacts, frozen=True, kw_only=True, gc=False):
    """What is read of a `message.edit`."""

    blocks: msgspec.Raw
    tokenizer: str


_decode_said = msgspec.msgpack.Decoder(Said).decode
_decode_changed = msgspec.msgpack.Decoder(Changed).decode
_decode_removal = msgspec.msgpack.Decoder(RemovePayload).decode


def message_facts(event: Event) -> Facts | None:
    """What a `message` event says of a message that strategies see; None for system messages and for anything else
    under that type."""
    try:
        facts = _decode_said(event.raw)
    except msgspec.MsgspecError:
        return None
    return None if facts.role == "system" or not _is_array(facts.blocks) else facts


def edit_facts(event: Event) -> EditFacts | None:
    """What a `message.edit` event says."""
    try:
        change = _decode_changed(event.raw)
    except msgspec.MsgspecError:
        return None
    return change if _is_array(change.blocks) else None


def _is_array(raw: msgspec.Raw) -> bool:
    """Whether this is a MessagePack array, as the blocks of a message are; its items are left alone."""
    first = memoryview(raw)[0]
    return 0x90 <= first <= 0x9F or first in (0xDC, 0xDD)


def removal(event: Event) -> RemovePayload | None:
    """What a `message.remove` event says."""
    try:
        return _decode_removal(event.raw)
    except msgspec.MsgspecError:
        return None


def weight_of(facts: Facts) -> int:
    """The tokens of a message, whatever another application may have written."""
    return facts.tokens if 0 <= facts.tokens < _MOST else min(max(0, facts.tokens), _MOST)


def row_of(event: Event, facts: Facts, back: int = 0, phase: int = 0, ranks: tuple[int, ...] = ()) -> Row:
    """The row of a message that was added."""
    tokens, text = weight_of(facts), facts.text_tokens
    return Row(
        event.seq, event.key, tokens, text if 0 <= text <= tokens else tokens, back, facts.calls, facts.answers, b"",
        phase, facts.only_answers, ranks,
    )  # fmt: skip


def changed_row(row: Row, event: Event, facts: Facts, phase: int = 0, ranks: tuple[int, ...] = ()) -> Row:
    """The row of a message after an edit."""
    new = row_of(event, facts, row.back, phase, ranks)
    return msgspec.structs.replace(new, seq=row.seq, key=row.key, edit=event.key)


def fold(transcript: Transcript, event: Event) -> Transcript:
    """The transcript after a message, an edit or a removal; the fold of strategies that keep nothing else."""
    kind = event.type
    if kind == MESSAGE:
        facts = message_facts(event)
        return transcript if facts is None else transcript.added(event, facts)
    if kind == EDIT and (change := edit_facts(event)) is not None:
        index = transcript.at(change.seq)
        if index is not None:
            return transcript.edited(index, changed_row(transcript.rows[index], event, change))
    elif kind == REMOVE and (cut := removal(event)) is not None:
        start, stop = transcript.index_of(cut.first_seq), transcript.index_of(cut.last_seq + 1)
        if start < stop:
            return transcript.removed(start, stop)
    return transcript
