"""Leaves of List and Map: entries side by side, with a weight or a key each.

Here live the leaf `Entries`, its bytes, and the two spines made of it. No API of a collection and no codec
of values.

Theory of operation. A leaf is one MessagePack array: first the array of weights (List; empty when all are
0) or of keys (Map), then the entries. A node's content hash is its address, because a leaf's bytes say all
that it means: values above a limit and nested collections enter with their hashes.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from itertools import accumulate
from typing import Any, Self

from blake3 import blake3
from msgspec import MsgspecError, Raw
from msgspec.msgpack import Decoder, Encoder

from chronicle_py.chunking import entry_cuts, key_cuts
from chronicle_py.errors import CorruptStore
from chronicle_py.nodes import LEAF, NODE, ROW, Child, Objects, Row, address_of, body_of, other_size
from chronicle_py.tree import Edit, Spine
from chronicle_py.values import Codec, stored_entry

_encode = Encoder().encode
_decode_entries = Decoder(list[Raw]).decode
_decode_weights = Decoder(list[int]).decode
_decode_keys = Decoder(list[bytes]).decode
_SPREAD = 2600  # leaves of about 4 KB: the open one is written with each root
_ADDRESSED = NODE + LEAF
_NO_HEADS = b"\x90"


class Entries:
    """Items with their heads: weights (none: all are 0), or keys."""

    __slots__ = ("heads", "items")

    def __init__(self, heads: list[Any], items: list[bytes]) -> None:
        self.heads = heads
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def position(self, offset: int) -> int:
        return offset

    @property
    def weight(self) -> int:
        heads = self.heads
        return sum(heads) if heads and isinstance(heads[0], int) else 0

    def pack(self) -> bytes:
        """The entries as one MessagePack array."""
        heads = _encode(self.heads) if self.heads else _NO_HEADS
        return b"".join([array_header(len(self.items) + 1), heads, *self.items])

    def address(self) -> bytes:
        """`address_of` the stored leaf, without a copy of it."""
        heads = _encode(self.heads) if self.heads else _NO_HEADS
        return blake3(b"".join([_ADDRESSED, array_header(len(self.items) + 1), heads, *self.items])).digest()


def array_header(n: int) -> bytes:
    """How a MessagePack array of `n` elements, up to 65,535, begins."""
    return bytes((0x90 | n,)) if n < 16 else b"\xdc" + n.to_bytes(2, "big")


def unpack_list_leaf(body: Any) -> Entries:
    """The entries of a packed List leaf; raises `CorruptStore`."""
    leaf = _unpacked(body, _decode_weights)
    if leaf.heads and len(leaf.heads) != len(leaf.items):
        raise CorruptStore(f"a leaf of {len(leaf.items)} entries has {len(leaf.heads)} weights")
    return leaf


def unpack_map_leaf(body: Any) -> Entries:
    """The entries of a packed Map leaf; raises `CorruptStore`."""
    leaf = _unpacked(body, _decode_keys)
    if len(leaf.heads) != len(leaf.items):
        raise CorruptStore(f"a leaf of {len(leaf.items)} entries has {len(leaf.heads)} keys")
    try:
        b"\0".join(leaf.heads).decode()  # all at once: a NUL keeps one key from completing another
    except UnicodeDecodeError as error:
        raise CorruptStore(f"a key in a leaf of {len(leaf.items)} entries is no UTF-8: {error}") from None
    return leaf


def _unpacked(body: Any, decode_heads: Callable[[Any], list[Any]]) -> Entries:
    try:
        heads, *items = _decode_entries(body)
        return Entries(decode_heads(heads), list(map(bytes, items)))
    except (MsgspecError, ValueError) as error:
        raise CorruptStore(f"a leaf of a collection cannot be read: {error}") from None


def load_list_leaf(data: bytes) -> Entries:
    """The entries of a stored List leaf; raises `CorruptStore`."""
    return unpack_list_leaf(body_of(data, LEAF))


def load_map_leaf(data: bytes) -> Entries:
    """The entries of a stored Map leaf; raises `CorruptStore`."""
    return unpack_map_leaf(body_of(data, LEAF))


class EntrySpine(Spine[Entries]):
    """What the spines of List and Map share."""

    __slots__ = ("codec",)
    _load: Callable[[bytes], Entries]  # plain functions: a cache may know a node by its decoder, too
    _unpack: Callable[[Any], Entries]

    def __init__(self, codec: Codec) -> None:
        super().__init__(codec.objects)
        self.codec = codec

    def _like(self) -> Self:
        new = super()._like()
        new.codec = self.codec
        return new

    def bound(self, element: Any) -> Self:
        """The same spine, whose values are decoded to `element`."""
        new = self._like()
        new.counts, new.weights, new._open, new._rows = self.counts, self.weights, self._open, self._rows
        new.codec = self.codec.bound(element)
        return new

    def save(self, objects: Objects) -> Self:
        new = super().save(objects)
        if self.codec.objects is not objects:
            new.codec = Codec(self.codec.element, objects)
        return new

    def pending(self) -> bool:
        return super().pending() or (
            isinstance(self._open, Entries) and any(type(item) is not bytes for item in self._open.items)
        )

    def _part(self, leaf: Entries, start: int, stop: int) -> Entries:
        if start == 0 and stop == len(leaf.items):
            return leaf
        return Entries(leaf.heads[start:stop], leaf.items[start:stop])

    def _join(self, parts: list[Entries]) -> Entries:
        parts = [part for part in parts if part.items]
        if len(parts) < 2:
            return parts[0] if parts else Entries([], [])
        heads: list[Any] = []
        items: list[bytes] = []
        with_heads = any(part.heads for part in parts)
        for part in parts:
            items += part.items
            if with_heads:
                heads += part.heads or [0] * len(part.items)
        return Entries(heads, items)

    def _close_row(self, row: Row) -> Child:
        key = row.keys[-1] if row.keys else b""
        return Child(row.total, row.weight, key, address_of(ROW + row.pack()), b"", row)

    def leaf_of(self, row: Row, k: int) -> Entries:
        if row.nodes and row.nodes[k] is not None:
            leaf: Entries = row.nodes[k]
            return leaf
        leaf = self._objects().cached(row.content(k), self._load)
        if len(leaf.items) != row.counts[k]:
            raise other_size("a leaf", len(leaf.items), row.counts[k])
        return leaf

    def _store_leaf(self, address: bytes, node: Any, objects: Objects) -> None:
        for item in node.items:
            if type(item) is not bytes:
                stored_entry(item, objects)
        objects.store(address, LEAF + node.pack())

    def _pack_open(self, leaf: Entries) -> bytes:
        return leaf.pack()

    def _unpack_open(self, body: Raw) -> Entries:
        leaf = self._unpack(body)
        if len(leaf.items) != self.counts[0]:
            raise CorruptStore(f"an open leaf has {len(leaf.items)} entries instead of {self.counts[0]}")
        return leaf

    def _stored_open(self, leaf: Entries, objects: Objects) -> Entries:
        if all(type(item) is bytes for item in leaf.items):
            return leaf
        return Entries(leaf.heads, [stored_entry(item, objects) for item in leaf.items])


class ListSpine(EntrySpine):
    """Entries with weights, cut by what they contain."""

    __slots__ = ()
    _load = staticmethod(load_list_leaf)
    _unpack = staticmethod(unpack_list_leaf)

    def _cuts(self, leaf: Entries) -> list[int]:
        return entry_cuts(leaf.items, _SPREAD)

    def _part(self, leaf: Entries, start: int, stop: int) -> Entries:
        if start == 0 and stop == len(leaf.items):
            return leaf
        heads = leaf.heads[start:stop]
        return Entries(heads if any(heads) else [], leaf.items[start:stop])

    def _close(self, leaf: Entries) -> Child:
        return Child(len(leaf.items), leaf.weight, b"", leaf.address(), b"", leaf)

    def replace(self, start: int, stop: int, entries: Entries) -> Self:
        """Put `entries` where [start, stop) is."""
        return self.splice([Edit(start, stop, entries)])

    def weight_before(self, index: int) -> int:
        """The sum of the weights of the entries before `index`; O(log n)."""
        base = 0
        for level in range(self.top, 0, -1):
            if index < self.counts[level]:
                row = self.row(level)
                while True:
                    k = bisect_right(row.ends, index)
                    if k:
                        index -= row.ends[k - 1]
                        base += row.weight_ends[k - 1] if row.weights else 0
                    if level == 1:
                        weights: list[int] = self.leaf_of(row, k).heads
                        return base + sum(weights[:index])
                    level -= 1
                    row = self.row_of(row, k)
            index -= self.counts[level]
            base += self.weights[level]
        weights = self.open.heads
        return base + sum(weights[:index])

    def find(self, weight: int) -> int:
        """The first index at which the weights up to and with it exceed `weight`, as all do; O(log n)."""
        base = 0
        for level in range(self.top, 0, -1):
            if weight < self.weights[level]:
                row = self.row(level)
                while True:
                    k = bisect_right(row.weight_ends, weight)
                    if k:
                        weight -= row.weight_ends[k - 1]
                        base += row.ends[k - 1]
                    if level == 1:
                        return base + bisect_right(list(accumulate(self.leaf_of(row, k).heads)), weight)
                    level -= 1
                    row = self.row_of(row, k)
            weight -= self.weights[level]
            base += self.counts[level]
        return base + bisect_right(list(accumulate(self.open.heads)), weight)


class MapSpine(EntrySpine):
    """Entries in the order of their keys, cut by the keys alone."""

    __slots__ = ()
    _load = staticmethod(load_map_leaf)
    _unpack = staticmethod(unpack_map_leaf)

    def _cuts(self, leaf: Entries) -> list[int]:
        return key_cuts(leaf.heads)

    def _close(self, leaf: Entries) -> Child:
        return Child(len(leaf.items), 0, leaf.heads[-1], leaf.address(), b"", leaf)

    def seek(self, key: bytes) -> tuple[Entries, int, int]:
        """The first entry whose key is not below `key`: its leaf, where in it, and its index; O(log n)."""
        base = 0
        for level in range(self.top, 0, -1):
            row = self.row(level)
            if row.counts and key <= (row.keys[-1] if row.keys else b""):
                while True:
                    k = bisect_left(row.keys, key)  # a column of empty keys is left out: that is child 0
                    base += row.ends[k - 1] if k else 0
                    if level == 1:
                        leaf = self.leaf_of(row, k)
                        position: int = bisect_left(leaf.heads, key)
                        return leaf, position, base + position
                    level -= 1
                    row = self.row_of(row, k)
            base += self.counts[level]
        leaf = self.open
        position = bisect_left(leaf.heads, key)
        return leaf, position, base + position

    def get(self, key: bytes) -> bytes | None:
        """The entry of a key."""
        leaf, position, _ = self.seek(key)
        return leaf.items[position] if position < len(leaf.heads) and leaf.heads[position] == key else None

    def changed(self, changes: list[tuple[bytes, bytes | None]]) -> Self:
        """Set and remove (None) keys, given in order."""
        edits = []
        for key, item in changes:
            leaf, position, index = self.seek(key)
            present = position < len(leaf.heads) and leaf.heads[position] == key
            if item is None:
                if present:
                    edits.append(Edit(index, index + 1, Entries([], [])))
            elif not present or leaf.items[position] != item:
                edits.append(Edit(index, index + present, Entries([key], [item])))
        return self.splice(edits) if edits else self
