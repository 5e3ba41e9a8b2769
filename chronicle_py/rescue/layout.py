"""LMDB's data file as bytes: metas, pages, nodes. Read with bounds checked everywhere, never through LMDB.

Nothing that stands in the file is believed: a number may be anything, a page may be missing, and each function returns
what is there or None. Files are read, not mapped, so that one that shrinks meanwhile ends nothing.

    page  = number u64 · pad u16 · flags u16 · lower u16 · upper u16 · u16 offsets of nodes … gap … nodes
    node  = low u16 · high u16 · flags u16 · key size u16 · key · data    (branch: low, high and flags are the child)
    meta  = page header · magic u32 · version u32 · address u64 · map size u64 · 2 trees · last page · transaction
    tree  = pad u32 · flags u16 · depth u16 · branches u64 · leaves u64 · overflow pages u64 · entries u64 · root u64

Layout of LMDB 0.9 (data version 1) on a 64-bit machine, in its byte order.
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Iterator
from types import TracebackType
from typing import Final, NamedTuple, Self

HEADER: Final = 16
NODE: Final = 8
META_SIZE: Final = HEADER + 136
MAGIC: Final = 0xBEEFC0DE
VERSION: Final = 1
METAS: Final = 2
MAX_DEPTH: Final = 32
NO_PAGE: Final = (1 << 64) - 1
MAX_KEY: Final = 511
PAGE_SIZES: Final = (4096, 8192, 16384, 32768)  # what systems have

BRANCH, LEAF, OVERFLOW, META, DIRTY = 0x01, 0x02, 0x04, 0x08, 0x10
BIG, SUB, DUP = 0x01, 0x02, 0x04  # flags of a leaf's node: value on pages of its own, a tree, several values
FREE_FLAGS: Final = (0x08, 0x4008)  # of the tree of free pages: integer keys; the file is not in a folder of its own

_page = struct.Struct("=QHHHH").unpack_from
_node = struct.Struct("=HHHH").unpack_from
_tree = struct.Struct("=IHHQQQQQ").unpack_from
_meta_start = struct.Struct("=IIQQ").unpack_from
_meta_end = struct.Struct("=QQ").unpack_from
number: Final = struct.Struct("=Q").unpack_from
_pages: Final = struct.Struct("=I").unpack_from


class Tree(NamedTuple):
    """The record of a B-tree."""

    pad: int
    flags: int
    depth: int
    branches: int
    leaves: int
    overflow: int
    entries: int
    root: int


class Meta(NamedTuple):
    """A meta page."""

    page: int
    flags: int
    magic: int
    version: int
    address: int
    map_size: int
    free: Tree
    main: Tree
    last_page: int
    transaction: int

    @property
    def page_size(self) -> int:
        return self.free.pad


class Node(NamedTuple):
    """A node of a leaf, as far as it lies inside its page. `data`: None where the value lies on pages of its own."""

    key: bytes
    flags: int
    size: int
    data: bytes | None
    extent: int  # first page of the value, where it has pages of its own
    at: int  # its offset in the page
    length: int  # bytes it takes there, an even number


def parse_meta(page: bytes | None) -> Meta | None:
    """The meta record of a page; None where the page is too short."""
    if page is None or len(page) < META_SIZE:
        return None
    own, _, flags, _, _ = _page(page, 0)
    free, main = Tree(*_tree(page, HEADER + 24)), Tree(*_tree(page, HEADER + 72))
    magic, version, address, map_size = _meta_start(page, HEADER)
    last_page, transaction = _meta_end(page, HEADER + 120)
    return Meta(own, flags, magic, version, address, map_size, free, main, last_page, transaction)


def parse_tree(record: bytes) -> Tree:
    """The tree in a keyspace's record of 48 bytes."""
    return Tree(*_tree(record, 0))


def plausible(meta: Meta | None) -> bool:
    """Whether LMDB would take this for a meta page."""
    return (
        meta is not None
        and meta.magic == MAGIC
        and meta.version == VERSION
        and bool(meta.flags & META)
        and meta.page_size in PAGE_SIZES
    )


def header(page: bytes) -> tuple[int, int, int, int]:
    """(number, flags, lower, upper) of a page."""
    own, _, flags, lower, upper = _page(page, 0)
    return own, flags, lower, upper


def offsets(page: bytes) -> tuple[int, ...] | None:
    """Where the nodes of a branch or leaf lie; None where the page's own bounds make no sense."""
    _, _, lower, upper = header(page)
    if lower < HEADER or lower & 1 or lower > upper or upper > len(page):
        return None
    count = (lower - HEADER) >> 1
    found: tuple[int, ...] = struct.unpack_from(f"={count}H", page, HEADER)
    return found


def leaf_node(page: bytes, at: int) -> Node | None:
    """The node at an offset of a leaf; None where it does not lie inside the page."""
    size = len(page)
    if at + NODE > size:
        return None
    low, high, flags, key_size = _node(page, at)
    start = at + NODE + key_size
    length = low | high << 16
    inside = 8 if flags & BIG else length
    if start + inside > size or key_size > MAX_KEY:
        return None
    taken = NODE + key_size + inside
    key = page[at + NODE : start]
    if flags & BIG:
        return Node(key, flags, length, None, number(page, start)[0], at, taken + (taken & 1))
    return Node(key, flags, length, page[start : start + length], 0, at, taken + (taken & 1))


def node_ends(page: bytes, places: tuple[int, ...]) -> tuple[list[bytes], list[int]]:
    """The keys of a leaf's nodes and where the nodes end, up to the first that does not lie inside the page or whose
    value does not lie in it."""
    keys: list[bytes] = []
    ends: list[int] = []
    size = len(page)
    for at in places:
        start = at + NODE
        if start > size:
            break
        low, high, flags, length = _node(page, at)
        stop = start + length
        end = stop + (low | high << 16)
        if flags or length > MAX_KEY or end > size:
            break
        keys.append(page[start:stop])
        ends.append(end + (end - at & 1))
    return keys, ends


def key_size(page: bytes, at: int) -> int:
    """Bytes of the key of the node at an offset, which lies inside the page."""
    return int(_node(page, at)[3])


def branch_node(page: bytes, at: int) -> tuple[bytes, int, int] | None:
    """(key, child page, bytes taken) of the node at an offset of a branch."""
    if at + NODE > len(page):
        return None
    low, high, top, key_size = _node(page, at)
    if at + NODE + key_size > len(page) or key_size > MAX_KEY:
        return None
    taken = NODE + key_size
    return page[at + NODE : at + taken], low | high << 16 | top << 32, taken + (taken & 1)


def extent_pages(size: int, page_size: int) -> int:
    """How many pages a value of this size takes."""
    return (HEADER - 1 + size) // page_size + 1


class PageFile:
    """An open data file, read page by page. A context manager."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115  (closed by `close`)
        self.reload()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    def reload(self) -> None:
        """Reads size and metas as they are now."""
        self.size = os.fstat(self._file.fileno()).st_size
        first = parse_meta(self.bytes_at(0, META_SIZE))
        self.page_size = first.page_size if first is not None and plausible(first) else self._guess()
        self.metas = (first, parse_meta(self.bytes_at(self.page_size, META_SIZE)))

    def _guess(self) -> int:
        """The page size of a file whose first page does not say it: the one by which most pages have their number."""
        best, most = PAGE_SIZES[0], 0
        for size in PAGE_SIZES:
            second = parse_meta(self.bytes_at(size, META_SIZE))
            if second is not None and plausible(second) and second.page_size == size:
                return size
            right = 0
            for page in range(METAS, min(self.size // size, 2048)):
                right += self.bytes_at(page * size, 8) == page.to_bytes(8, sys.byteorder)
            if right > most:
                best, most = size, right
        return best

    def is_lmdb(self) -> bool:
        """Whether anything of an LMDB file is there: the mark on a meta page, or a page with its own number."""
        if any(meta is not None and meta.magic == MAGIC for meta in self.metas):
            return True
        numbers = range(METAS, min(self.pages, 1 << 16))
        return any(self.bytes_at(n * self.page_size, 8) == n.to_bytes(8, sys.byteorder) for n in numbers)

    @property
    def pages(self) -> int:
        """Whole pages in the file."""
        return self.size // self.page_size

    def bytes_at(self, start: int, count: int) -> bytes:
        """As many of the bytes as there are."""
        self._file.seek(start)
        parts: list[bytes] = []
        while count > 0:
            part = self._file.read(min(count, 1 << 24))
            if not part:
                break
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def page(self, at: int) -> bytes | None:
        """A page, None where the file does not hold all of it."""
        if not 0 <= at < self.pages:
            return None
        found = self.bytes_at(at * self.page_size, self.page_size)
        return found if len(found) == self.page_size else None

    def extent(self, at: int, size: int) -> bytes | None:
        """A value on pages of its own, whose first is `at`; None unless that is what lies there."""
        count = extent_pages(size, self.page_size)
        if not at >= METAS or at + count > self.pages:
            return None
        start = self.bytes_at(at * self.page_size, HEADER)
        if len(start) < HEADER or header(start)[0] != at or header(start)[1] != OVERFLOW:
            return None
        if _pages(start, 12)[0] != count:
            return None
        found = self.bytes_at(at * self.page_size + HEADER, size)
        return found if len(found) == size else None

    def value(self, node: Node) -> bytes | None:
        """The value of a leaf's node; None where its pages are damaged."""
        return node.data if node.data is not None else self.extent(node.extent, node.size)

    def nodes(self, page: bytes) -> Iterator[Node]:
        """The nodes of a leaf that lie inside it, in order; none where its bounds make no sense."""
        for at in offsets(page) or ():
            node = leaf_node(page, at) if at >= HEADER else None
            if node is not None:
                yield node
