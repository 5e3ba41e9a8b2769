"""Where a chunk of a persistent tree ends.

Here live the cut rules and nothing else: pure functions from entries to positions. They know no node, no
encoding and no store.

Theory of operation. A sequence is cut greedily from left to right, and whether a chunk ends after an entry
depends only on the entries since that chunk's start. So the chunks are a function of the content alone,
whatever edits led to it, and after an edit the old chunks come back as soon as one boundary falls where an
old one was. Each function takes entries that begin at a chunk's start and returns the ends of the chunks
that are finished; what follows the last end is the open remainder.

- Entries of a list: from the 8th on, a chunk ends where the sum of the CRC-32s of its last 8 entries
  (modulo 2**32) falls below a threshold in proportion to the size of the entry. `spread` is how many bytes
  then pass on average; a hundredth of it is added to each size, so that boundaries come in tiny entries as
  well. A rule on single entries would degenerate where few distinct values repeat. The window lies inside
  the chunk, so candidates do not depend on where the chunk began and are found for a whole batch at once.
- Keys of a map: the key's CRC-32 alone, so changing a value never moves a boundary.
- Children of an inner node: one byte of the child's content hash, another byte at each level. With the same
  bits at every level each child would be a boundary again.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from zlib import crc32

WINDOW = 8
MAX_ENTRIES = 256
MAX_BYTES = 32_768
KEYS_AIMED_AT = 28
MAX_KEYS = 128
MIN_CHILDREN = 8
MAX_CHILDREN = 64

_MASK = 0xFFFF_FFFF
_BATCH = 4096  # entries looked at together: bounds the memory of a bulk load
_LEAST = 2**32 // 100  # chance of a boundary at an entry without bytes
_KEY_THRESHOLD = 2**32 // KEYS_AIMED_AT
_CHILD_THRESHOLD = 15  # of 256: 8 children and 16 more on average


def entry_cuts(items: Sequence[bytes], spread: int, looked: int = 0) -> list[int]:
    """Ends of the finished chunks of list entries; O(n). `spread`: bytes past the 8th entry, on average. `looked`: how
    many of the first entries are known to be of an unfinished chunk, so that none ends among them."""
    per_byte = 2**32 // spread
    ends: list[int] = []
    start = 0
    total = len(items)
    while True:
        stop = min(start + _BATCH, total)
        start = _cut_batch(items[start:stop], per_byte, start, ends, looked if start == 0 else 0)
        if stop == total:
            return ends


def _cut_batch(items: Sequence[bytes], per_byte: int, base: int, ends: list[int], looked: int) -> int:
    """Append the ends found in a batch that begins at a chunk's start; return where the open chunk begins."""
    sizes = list(map(len, items))
    volume = list(accumulate(sizes, initial=0))
    start = 0
    for end in _candidates(items, sizes, per_byte, max(0, looked - WINDOW + 1)):
        if end - start >= MAX_ENTRIES or volume[end] - volume[start] >= MAX_BYTES:
            start = _cut_full(volume, start, end, base, ends)
        if end - start >= WINDOW:
            ends.append(base + end)
            start = end
    return base + _cut_full(volume, start, len(items), base, ends)


def _candidates(items: Sequence[bytes], sizes: list[int], per_byte: int, first: int) -> list[int]:
    """Where the window of 8 entries that ends there allows a boundary; wherever the chunk began. Only windows that
    begin at `first` or later are looked at."""
    sums = list(accumulate(map(crc32, items[first:] if first else items), initial=0))
    most = max(sizes, default=0) * per_byte + _LEAST
    windows = zip(range(first + WINDOW, first + len(sums)), sums[WINDOW:], sums, strict=False)
    likely = [(end, after - before & _MASK) for end, after, before in windows if after - before & _MASK < most]
    return [end for end, sum in likely if sum < sizes[end - 1] * per_byte + _LEAST]


def _cut_full(volume: list[int], start: int, end: int, base: int, ends: list[int]) -> int:
    """Cut what has grown to its limit before `end` is reached."""
    while end - start >= MAX_ENTRIES or volume[end] - volume[start] >= MAX_BYTES:
        start = min(start + MAX_ENTRIES, bisect_left(volume, volume[start] + MAX_BYTES, start))
        ends.append(base + start)
    return start


def key_cuts(keys: Sequence[bytes]) -> list[int]:
    """Ends of the finished chunks of map entries, in order; O(n)."""
    ends: list[int] = []
    start = 0
    for end, key in enumerate(keys, 1):
        if crc32(key) < _KEY_THRESHOLD or end - start == MAX_KEYS:
            ends.append(end)
            start = end
    return ends


def child_cuts(contents: bytes, level: int) -> list[int]:
    """Ends of the finished chunks of children, given their 32-byte content hashes in a row; O(n)."""
    ends: list[int] = []
    start = 0
    for end, bits in enumerate(contents[level % 32 :: 32], 1):
        held = end - start
        if (bits < _CHILD_THRESHOLD and held >= MIN_CHILDREN) or held == MAX_CHILDREN:
            ends.append(end)
            start = end
    return ends
