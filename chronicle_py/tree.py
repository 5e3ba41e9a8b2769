"""The persistent sequence beneath List, Map and ItemLog.

Here lives `Spine`: finding entries, walking leaves, replacing ranges, saving and the root encoding, for
leaves of any form. What a leaf is (entries or runs of references), how it is hashed and packed, is decided
by the subclasses; where chunks end by `chunking`; how a level is edited by `splice`.

Theory of operation. Entries are cut greedily into leaves, the leaves into nodes, those into nodes again.
Only finished chunks are closed and stored; at each level the remainder that is not finished stays open, in
the root. So appending writes no half-filled nodes, and the whole is a function of the content: equal
content, equal root. In order, the content is the remainder of the top level, then that of the level below,
and at last the open leaf. Empty levels at the top are dropped. A root is one MessagePack array: counts and
weights by level from the leaf up, the open leaf, the rows.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any, Generic, Protocol, Self, TypeVar

from msgspec import MsgspecError, Raw, Struct
from msgspec.msgpack import Decoder, Encoder

from chronicle_py.chunking import child_cuts
from chronicle_py.errors import CorruptStore
from chronicle_py.nodes import (
    EMPTY_ROW,
    ROW,
    Child,
    Objects,
    Row,
    address_of,
    join_rows,
    load_row,
    other_size,
    unpack_row,
)
from chronicle_py.splice import Edit, Found, rechunk

__all__ = ["Edit", "Leaf", "Objects", "Spine", "address_of"]


class Leaf(Protocol):
    """Entries side by side: those of a closed leaf, or open ones."""

    def __len__(self) -> int: ...
    def position(self, offset: int) -> int: ...

    @property
    def weight(self) -> int: ...


L = TypeVar("L", bound=Leaf)


class Root(Struct, array_like=True):
    """A spine in bytes."""

    counts: list[int]
    weights: list[int]
    open: Raw
    rows: list[Raw]


_encode = Encoder().encode
_decode = Decoder(Root).decode


class Spine(ABC, Generic[L]):
    """An immutable sequence of entries in a chunk tree."""

    __slots__ = ("_open", "_rows", "counts", "objects", "weights")

    def __init__(self, objects: Objects | None) -> None:
        self.objects = objects
        self.counts = [0]  # entries in the remainder of each level, from the open leaf up
        self.weights = [0]
        self._open: L | Raw = self._join([])
        self._rows: list[Row | Raw] = [EMPTY_ROW]  # of each level; that of the leaf level is not used

    # What a leaf is

    @abstractmethod
    def _part(self, leaf: L, start: int, stop: int) -> L: ...

    @abstractmethod
    def _join(self, parts: list[L]) -> L: ...

    @abstractmethod
    def _cuts(self, leaf: L) -> list[int]: ...

    @abstractmethod
    def _close(self, leaf: L) -> Child:
        """Describe a finished leaf; `node` holds it unless `at` does."""

    def _close_all(self, leaf: L, ends: list[int]) -> list[Child]:
        """Describe the finished leaves that `leaf` consists of up to the last end."""
        return [self._close(self._part(leaf, start, end)) for start, end in zip([0, *ends], ends, strict=False)]

    @abstractmethod
    def _close_row(self, row: Row) -> Child: ...

    @abstractmethod
    def leaf_of(self, row: Row, k: int) -> L:
        """The leaf that is child `k` of a row of the lowest level."""

    @abstractmethod
    def _store_leaf(self, address: bytes, node: Any, objects: Objects) -> None: ...

    @abstractmethod
    def _pack_open(self, leaf: L) -> bytes: ...

    @abstractmethod
    def _unpack_open(self, body: Raw) -> L: ...

    def _stored_open(self, leaf: L, objects: Objects) -> L:
        """The open leaf once what its entries carry is stored."""
        return leaf

    def _like(self) -> Self:
        """A copy without content: what subclasses add, they copy here."""
        new = object.__new__(type(self))
        new.objects = self.objects
        return new

    # Reading

    def __len__(self) -> int:
        return sum(self.counts)

    @property
    def weight(self) -> int:
        return sum(self.weights)

    @property
    def open(self) -> L:
        """The open leaf."""
        leaf = self._open
        if isinstance(leaf, Raw):
            leaf = self._open = self._unpack_open(leaf)
        return leaf

    @property
    def top(self) -> int:
        """The highest level, 0 when there is but the open leaf."""
        return len(self.counts) - 1

    def row(self, level: int) -> Row:
        """The open remainder of a level above the leaves."""
        if level > self.top:
            return EMPTY_ROW
        row = self._rows[level]
        if isinstance(row, Raw):
            row = unpack_row(row)
            if row.total != self.counts[level]:
                raise other_size("a remainder", row.total, self.counts[level])
            self._rows[level] = row
        return row

    def row_of(self, row: Row, k: int) -> Row:
        """The inner node that is child `k` of a row above the lowest level."""
        if row.nodes and row.nodes[k] is not None:
            node: Row = row.nodes[k]
            return node
        below = self._objects().cached(row.at(k), load_row)
        if not below.counts or (below._ends or below.ends)[-1] != row.counts[k]:
            raise other_size("an inner node", below.total, row.counts[k])
        return below

    def _objects(self) -> Objects:
        if self.objects is None:
            raise CorruptStore("a stored node is referred to, but there is no store to read it from")
        return self.objects

    def locate(self, index: int) -> tuple[L, int]:
        """The leaf that holds entry `index`, and where in it; O(log n)."""
        counts = self.counts
        for level in range(len(counts) - 1, 0, -1):
            if index < counts[level]:
                row = self.row(level)
                while True:
                    ends = row._ends or row.ends
                    k = bisect_right(ends, index)
                    if k:
                        index -= ends[k - 1]
                    if level == 1:
                        return self.leaf_of(row, k), index
                    level -= 1
                    row = self.row_of(row, k)
            index -= counts[level]
        return self.open, index

    def leaves(self, start: int, stop: int) -> Iterator[tuple[int, L]]:
        """Leaves that hold entries of [start, stop), each with the index of its first entry."""
        if start >= stop:
            return
        base = 0
        for level in range(self.top, 0, -1):
            end = base + self.counts[level]
            if start < end and base < stop:
                yield from self._leaves_below(level, self.row(level), base, start, stop)
            base = end
        if base < stop and self.counts[0]:
            yield base, self.open

    def _leaves_below(self, level: int, row: Row, base: int, start: int, stop: int) -> Iterator[tuple[int, L]]:
        ends = row.ends
        k = bisect_right(ends, start - base) if start > base else 0
        while k < len(ends):
            first = base + (ends[k - 1] if k else 0)
            if first >= stop:
                return
            if level == 1:
                yield first, self.leaf_of(row, k)
            else:
                yield from self._leaves_below(level - 1, self.row_of(row, k), first, start, stop)
            k += 1

    def leaves_back(self, start: int, stop: int) -> Iterator[tuple[int, L]]:
        """As `leaves`, last first."""
        if start >= stop:
            return
        base = len(self) - self.counts[0]
        if base < stop and self.counts[0]:
            yield base, self.open
        for level in range(1, self.top + 1):
            base -= self.counts[level]
            if self.counts[level] and base < stop and start < base + self.counts[level]:
                yield from self._leaves_below_back(level, self.row(level), base, start, stop)

    def _leaves_below_back(self, level: int, row: Row, base: int, start: int, stop: int) -> Iterator[tuple[int, L]]:
        ends = row.ends
        for k in range(bisect_left(ends, min(stop - base, ends[-1])), -1, -1):
            first = base + (ends[k - 1] if k else 0)
            if base + ends[k] <= start:
                return
            if level == 1:
                yield first, self.leaf_of(row, k)
            else:
                yield from self._leaves_below_back(level - 1, self.row_of(row, k), first, start, stop)

    # Changing

    def splice(self, edits: list[Edit[L]]) -> Self:
        """Replace ranges, given in order; O(log n) nodes are read and made for each."""
        new = self._like()
        new.counts, new.weights = self.counts.copy(), self.weights.copy()
        new._open, new._rows = self._open, self._rows.copy()
        above, leaf = rechunk(_LeafLevel(self), edits)
        if leaf is not None:
            new._open, new.counts[0], new.weights[0] = leaf, len(leaf), leaf.weight
        level = 1
        while above := [edit for edit in above if edit.start < edit.stop or len(edit.new)]:
            if level == len(new.counts):
                new.counts.append(0)
                new.weights.append(0)
                new._rows.append(EMPTY_ROW)
            above, row = rechunk(_RowLevel(self, level), above)
            if row is not None:
                new._rows[level], new.counts[level], new.weights[level] = row, row.total, row.weight
            level += 1
        while len(new.counts) > 1 and not new.counts[-1]:
            del new.counts[-1], new.weights[-1], new._rows[-1]
        return new

    def chunk(self, level: int, offset: int) -> tuple[int, int, L | Row] | None:
        """The closed chunk of a level at an offset, as (start, stop, chunk); None: it is open there."""
        if offset >= sum(self.counts[level + 1 :]):
            return None
        base = 0
        at = self.top
        while offset >= base + self.counts[at]:
            base += self.counts[at]
            at -= 1
        row = self.row(at)
        while True:
            k = bisect_right(row.ends, offset - base)
            base += row.ends[k - 1] if k else 0
            stop = base + row.counts[k]
            at -= 1
            if at == level:
                return base, stop, self.row_of(row, k) if level else self.leaf_of(row, k)
            row = self.row_of(row, k)

    # Storing

    def pending(self) -> bool:
        """Whether closed nodes are not stored yet."""
        return any(isinstance(row, Row) and bool(row.nodes) for row in self._rows)

    def save(self, objects: Objects) -> Self:
        """Store what is not stored yet; an equal spine that reads it from `objects`."""
        new = self._like()
        new.objects, new.counts, new.weights = objects, self.counts, self.weights
        new._rows = [
            row if isinstance(row, Raw) else self._store_below(level, row, objects)
            for level, row in enumerate(self._rows)
        ]
        new._open = self._open if isinstance(self._open, Raw) else self._stored_open(self._open, objects)
        return new

    def _store_below(self, level: int, row: Row, objects: Objects) -> Row:
        for k, node in enumerate(row.nodes):
            if node is None:
                continue
            if level == 1:
                self._store_leaf(row.at(k), node, objects)
            else:
                self._store_below(level - 1, node, objects)
                objects.store(row.at(k), ROW + node.pack())
        return row.stored()

    def encode(self) -> bytes:
        """The root: everything that is not in closed nodes."""
        body = self._open if isinstance(self._open, Raw) else Raw(self._pack_open(self._open))
        rows = [row if isinstance(row, Raw) else Raw(row.pack()) for row in self._rows[1:]]
        return _encode(Root(self.counts, self.weights if any(self.weights) else [], body, rows))

    def decoded(self, data: bytes | memoryview) -> Self:
        """The spine of that root, with this one's store; raises `CorruptStore`."""
        try:
            root = _decode(data)
        except MsgspecError as error:
            raise CorruptStore(f"the root of a collection cannot be read: {error}") from None
        levels = len(root.counts)
        if len(root.rows) != levels - 1 or len(root.weights) not in (0, levels):
            raise CorruptStore(f"the root of a collection has {levels} counts for {len(root.rows)} rows")
        if not levels or min(root.counts) < 0 or any(root.weights[i] < 0 for i in range(len(root.weights))):
            raise CorruptStore("the root of a collection has a negative count, or none")
        new = self._like()
        new.counts = root.counts
        new.weights = root.weights or [0] * levels
        new._open = root.open
        new._rows = [EMPTY_ROW, *root.rows]
        return new


class _LeafLevel(Generic[L]):
    """The leaves of a spine, as `rechunk` reads them."""

    def __init__(self, spine: Spine[L]) -> None:
        self.spine = spine
        self.part = spine._part
        self.join = spine._join
        self.cuts = spine._cuts
        self.close = spine._close_all

    def find(self, offset: int) -> Found[L]:
        found: Any = self.spine.chunk(0, offset)
        return Found(*found) if found else Found(sum(self.spine.counts[1:]), None, self.spine.open)


class _RowLevel:
    """The inner nodes of one level of a spine, as `rechunk` reads them."""

    def __init__(self, spine: Spine[Any], level: int) -> None:
        self.spine = spine
        self.level = level
        self.join = join_rows

    def find(self, offset: int) -> Found[Row]:
        found: Any = self.spine.chunk(self.level, offset)
        if found:
            return Found(*found)
        return Found(sum(self.spine.counts[self.level + 1 :]), None, self.spine.row(self.level))

    def part(self, chunk: Row, start: int, stop: int) -> Row:
        return chunk.part(start, stop)

    def cuts(self, chunk: Row) -> list[int]:
        return child_cuts(chunk.contents, self.level)

    def close(self, chunk: Row, ends: list[int]) -> list[Child]:
        close = self.spine._close_row
        return [close(chunk.part(start, end)) for start, end in zip([0, *ends], ends, strict=False)]
