"""`Postings`: which messages a name stands for (a participant's, a source's), as a persistent value. Pure.

A name's sequences are kept as bits, 64 sequences to a number: key `name NUL block` -> mask. The newest block is kept
aside, in plain fields, so that a message costs no change of a map until the next block begins. Counts are kept beside,
so that a total needs no walk.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from blake3 import blake3

from chronicle_py.collections import Map

_BITS = 6  # 64 sequences a block
_MASK = 63
_KEY_BYTES = 240  # of UTF-8, which leaves room for NUL and the block in a Map's key


class Postings(msgspec.Struct, frozen=True):
    """Sequences by name. `open` holds (name, mask) of block `open_block`, in the order of their first message."""

    blocks: Map[int] = msgspec.field(default_factory=Map)
    counts: Map[int] = msgspec.field(default_factory=Map)
    open_block: int = -1
    open: tuple[tuple[str, int], ...] = ()

    def add(self, name: str, seq: int) -> Postings:
        """With a sequence above all there are. O(1), and O(log n) once in 64 sequences."""
        block, bit = seq >> _BITS, 1 << (seq & _MASK)
        if block != self.open_block:
            blocks, counts = self._closed()
            return Postings(blocks, counts, block, ((name, bit),))
        open = self.open
        for i, (other, mask) in enumerate(open):
            if other == name:
                return Postings(self.blocks, self.counts, block, (*open[:i], (name, mask | bit), *open[i + 1 :]))
        return Postings(self.blocks, self.counts, block, (*open, (name, bit)))

    def _closed(self) -> tuple[Map[int], Map[int]]:
        """The maps with the open block in them."""
        blocks, counts = self.blocks, self.counts
        for name, mask in self.open:
            if mask:
                blocks = blocks.set(_key(name, self.open_block), mask)
                counts = counts.set(key := name_key(name), counts.get(key, 0) + mask.bit_count())
        return blocks, counts

    def remove(self, name: str, seq: int) -> Postings:
        """Without a sequence; the same where it is not there. O(log n)."""
        block, bit = seq >> _BITS, 1 << (seq & _MASK)
        if block == self.open_block:
            open = tuple((other, mask & ~bit if other == name else mask) for other, mask in self.open)
            return Postings(self.blocks, self.counts, block, open)
        key, short = _key(name, block), name_key(name)
        mask = self.blocks.get(key, 0)
        if not mask & bit:
            return self
        blocks = self.blocks.set(key, mask & ~bit) if mask != bit else self.blocks.remove(key)
        left = self.counts[short] - 1
        counts = self.counts.set(short, left) if left else self.counts.remove(short)
        return Postings(blocks, counts, self.open_block, self.open)

    def count(self, name: str) -> int:
        """How many sequences a name has. O(log n)."""
        return self.counts.get(name_key(name), 0) + self._open_mask(name).bit_count()

    def _open_mask(self, name: str) -> int:
        return next((mask for other, mask in self.open if other == name), 0)

    def sequences(self, name: str, reverse: bool = False) -> Iterator[int]:
        """A name's sequences in order. O(log n) to begin, then O(1) each."""
        newest = _bits(self.open_block, self._open_mask(name), reverse)
        if reverse:
            yield from newest
        for key, mask in self.blocks.scan(name_key(name) + "\0", reverse=reverse):
            yield from _bits(int(key[-12:], 16), mask, reverse)
        if not reverse:
            yield from newest

    def names(self) -> dict[str, int]:
        """Every name with its count, in the order of the names (long ones as their digest). O(names)."""
        found = dict(self.counts.items())
        for name, mask in self.open:
            if mask:
                key = name_key(name)
                found[key] = found.get(key, 0) + mask.bit_count()
        return dict(sorted(found.items()))


def name_key(*parts: str) -> str:
    """The parts as the start of a Map's key: joined with NUL, or a digest where that would be long or ambiguous."""
    if parts[0] and not any("\0" in part for part in parts):
        joined = "\0".join(parts)
        if len(joined) * 4 <= _KEY_BYTES or len(joined.encode()) <= _KEY_BYTES:
            return joined
    return "\0" + blake3(msgspec.msgpack.encode(parts)).hexdigest()


def _key(name: str, block: int) -> str:
    return f"{name_key(name)}\0{block:012x}"


def _bits(block: int, mask: int, reverse: bool) -> Iterator[int]:
    """The sequences of a block's mask, in order."""
    base = block << _BITS
    while mask:
        bit = mask.bit_length() - 1 if reverse else (mask & -mask).bit_length() - 1
        yield base + bit
        mask &= ~(1 << bit)
