"""Removal: taking records out of a store, or only counting what would be taken.

Whoever decides what goes does it the same way for a rehearsal and for earnest; here is the one difference.
"""

from __future__ import annotations

from collections.abc import Iterator

from chronicle_py.kv import SPACE_NAMES, Progress, Reader
from chronicle_py.transaction import Transaction

_SCAN = 1024


class Removal:
    """What is taken out of one snapshot. Without a transaction it is counted and stays."""

    def __init__(self, reader: Reader, tx: Transaction | None, progress: Progress | None = None) -> None:
        self.reader = reader
        self._tx = tx
        self._progress = progress
        self._done = self._total = 0
        self.counts = [0] * len(SPACE_NAMES)
        self.bytes = 0  # of keys and values

    def delete(self, space: int, key: bytes, value: bytes) -> None:
        """Takes a record out."""
        self.counts[space] += 1
        self.bytes += len(key) + len(value)
        if self._tx is not None:
            self._tx.writer.delete(space, key)
            self._tx.changes += 1

    def replace(self, space: int, key: bytes, value: bytes) -> None:
        """Puts another record in the place of one."""
        if self._tx is not None:
            self._tx.writer.put(space, key, value)
            self._tx.changes += 1

    def scan(self, space: int, start: bytes = b"", stop: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """The records of a range in order, in batches; those it has yielded may be taken out."""
        while True:
            pairs = self.reader.scan(space, start, stop, limit=_SCAN)
            yield from pairs
            if len(pairs) < _SCAN:
                return
            start = pairs[-1][0] + b"\0"

    def expect(self, total: int) -> None:
        """Says how many steps there will be."""
        self._total = total

    def step(self, count: int = 1) -> None:
        """Says that some of them are done."""
        before, self._done = self._done, self._done + count
        if self._progress is not None and (before >> 10 != self._done >> 10 or self._done >= self._total):
            self._progress(min(self._done, self._total), self._total)
