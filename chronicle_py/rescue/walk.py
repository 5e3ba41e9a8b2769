"""The walk over all pages that a store's newest snapshot is made of: is the structure sound that LMDB would trust?

Checked for every page that can be reached from the newest meta: it is there, has its own number and one kind; its nodes
lie inside it, do not overlap and fill what its bounds say; its keys ascend and are within what the branches above say;
no page is reached twice; each tree has the depth, pages and entries that its record says; and the pages that are in use
and those listed as free are together all pages, none of them twice.

What values mean is not looked at: `verify` does that. A byte that no check here or there covers is one that nothing
reads: a gap, padding, what follows a value on its last page, the older meta.

The work is bounded by the size of the file, whatever stands in it: a page is looked at once, and a list of free pages
or a long value counts only as far as its pages are new.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable
from itertools import islice
from operator import lt
from typing import Final, NamedTuple

from chronicle_py.kv import SPACE_NAMES
from chronicle_py.rescue.layout import (
    BIG,
    BRANCH,
    DIRTY,
    FREE_FLAGS,
    LEAF,
    MAX_DEPTH,
    METAS,
    NO_PAGE,
    NODE,
    OVERFLOW,
    SUB,
    Meta,
    Node,
    PageFile,
    Tree,
    branch_node,
    extent_pages,
    header,
    key_size,
    leaf_node,
    node_ends,
    number,
    offsets,
    parse_tree,
    plausible,
)

Progress = Callable[[int, int], None]
_FREE: Final = "the free pages"
_MAIN: Final = "the keyspaces"
_MOST: Final = 1000  # problems kept
_REPORT_EVERY: Final = 512  # pages
_SLACK: Final = 1 << 20  # pages that a sound file may be shorter than it says, at the most


class Found(NamedTuple):
    """One thing that is wrong: `where` names the page and whose it is."""

    where: str
    what: str


class Walk:
    """What a walk found. `leaves` lists the leaf pages of each keyspace in order, damaged ones left out."""

    def __init__(self, pages: int) -> None:
        self.problems: list[Found] = []
        self.pages = 0  # looked at
        self.live = bytearray(pages)
        self.sound = bytearray(pages)  # in use, and nothing wrong with them
        self.free = bytearray(pages)
        self.leaves: dict[str, array[int]] = {}
        self.suspects: dict[str, array[int]] = {}  # leaves with something wrong in them
        self.broken: set[str] = set()  # trees of which something may be missing
        self.entries: dict[str, int] = {}

    @property
    def ok(self) -> bool:
        return not self.problems

    def report(self, where: str, what: str) -> None:
        if len(self.problems) < _MOST:
            self.problems.append(Found(where, what))


def check_metas(file: PageFile) -> list[Found]:
    """What is wrong with the two meta pages."""
    found: list[Found] = []
    for page, meta in enumerate(file.metas):
        where = f"page {page} (meta)"
        if meta is None:
            found.append(Found(where, "is cut off"))
        elif not plausible(meta):
            found.append(Found(where, "is no meta page of LMDB: its mark, version, kind or page size was changed"))
        elif meta.page != page:
            found.append(Found(where, f"says it is page {meta.page}"))
        elif meta.page_size != file.page_size:
            found.append(Found(where, f"says that pages have {meta.page_size} bytes, the other {file.page_size}"))
        elif meta.free.flags not in FREE_FLAGS:
            found.append(Found(where, f"has flags {meta.free.flags:#x}"))
    first, second = file.metas
    if found or first is None or second is None:
        return found
    numbers = first.transaction, second.transaction
    if numbers != (0, 0) and (numbers[0] & 1 or abs(numbers[0] - numbers[1]) != 1):
        found.append(Found("page 0 (meta)", f"the meta pages are of transactions {numbers[0]} and {numbers[1]}"))
    if first.free.flags != second.free.flags:
        found.append(Found("page 0 (meta)", f"has flags {first.free.flags:#x}, page 1 {second.free.flags:#x}"))
    newest = newest_meta(file)
    if newest is not None and newest.address:
        found.append(Found(f"page {newest.page} (meta)", f"names an address, {newest.address:#x}, which none does"))
    return found


def newest_meta(file: PageFile, transaction: int | None = None) -> Meta | None:
    """The meta page that LMDB would go by, or that of a transaction; None where there is none."""
    good = [m for m in file.metas if m is not None and plausible(m) and m.page_size == file.page_size]
    if transaction is not None:
        good = [meta for meta in good if meta.transaction == transaction]
    return max(good, key=lambda meta: meta.transaction, default=None)


def walk(file: PageFile, progress: Progress | None = None, transaction: int | None = None) -> Walk:
    """Walks the newest snapshot, or that of a transaction. About 1 µs an entry. Never raises on damage."""
    metas = check_metas(file)
    meta = newest_meta(file, transaction)
    last = 0 if meta is None else meta.last_page
    pages = file.pages if last + 1 > file.pages + max(file.pages, _SLACK) else last + 1
    found = Walk(max(pages, METAS))
    found.problems += metas
    if meta is None:
        found.broken.update(SPACE_NAMES)
        return found
    if pages != last + 1:
        found.report(f"page {meta.page} (meta)", f"says that page {last} is the last, the file has {file.pages}")
    _Walker(file, found, progress).run(meta)
    return found


class _Walker:
    """One walk."""

    def __init__(self, file: PageFile, found: Walk, progress: Progress | None) -> None:
        self._file = file
        self._found = found
        self._progress = progress
        self._total = min(len(found.live), file.pages)
        self._lists: list[tuple[int, bytes]] = []  # of free pages, by transaction
        self._spaces: dict[str, Tree] = {}

    def run(self, meta: Meta) -> None:
        found = self._found
        _Tree(self, _FREE, meta.free).walk()
        _Tree(self, _MAIN, meta.main).walk()
        for name, tree in self._spaces.items():
            _Tree(self, name, tree).walk()
        for name in SPACE_NAMES:
            if name not in self._spaces:
                found.broken.add(name)
        missing = [name for name in SPACE_NAMES if name not in self._spaces]
        if missing and (self._spaces or found.problems):
            found.report(f"page {meta.main.root} ({_MAIN})", f"has no keyspace {', '.join(missing)}")
        self._free_pages(meta)
        if self._progress is not None:
            self._progress(self._total, self._total)

    # --- what trees share ---

    def read(self, name: str, page: int, kinds: tuple[int, ...]) -> bytes | None:
        """A page that a tree refers to, if it can be one."""
        where = f"page {page} ({name})"
        if not self.take(name, page, 1):
            return None
        data = self._file.page(page)
        self._found.pages += 1
        if self._progress is not None and self._found.pages % _REPORT_EVERY == 0:
            self._progress(min(self._found.pages, self._total), self._total)
        if data is None:
            self._found.report(where, "lies beyond the end of the file")
            return None
        own, flags, _, _ = header(data)
        if own != page:
            self._found.report(where, f"says it is page {own}")
            return None
        if flags not in kinds:
            dirty = ": it was never finished" if flags & DIRTY else ""
            self._found.report(where, f"is of kind {flags:#x}, which has no place here{dirty}")
            return None
        return data

    def take(self, name: str, page: int, count: int) -> bool:
        """Marks pages as in use; whether they were not yet."""
        live = self._found.live
        if page < METAS or page + count > len(live):
            self._found.report(f"page {page} ({name})", f"is outside of the file's {len(live)} pages")
            return False
        if live.find(1, page, page + count) >= 0:
            self._found.report(f"page {page} ({name})", "is in use twice")
            return False
        live[page : page + count] = b"\1" * count
        return True

    def extent(self, name: str, node: Node, page: int) -> bytes | None:
        """Checks a value on pages of its own; returns it for the list of free pages."""
        count = extent_pages(node.size, self._file.page_size)
        if not self.take(name, node.extent, count):
            return None
        self._found.pages += count
        start = self._file.page(node.extent)
        where = f"page {node.extent} ({name})"
        if start is None or node.extent + count > self._file.pages:
            self._found.report(where, "lies beyond the end of the file")
            return None
        own, flags, _, _ = header(start)
        held = int.from_bytes(start[12:16], sys.byteorder)
        if own != node.extent or flags != OVERFLOW or held != count:
            self._found.report(
                where, f"should begin a value of {count} pages for page {page}: says page {own}, {flags:#x}, {held}"
            )
            return None
        self._found.sound[node.extent : node.extent + count] = b"\1" * count
        return self._file.extent(node.extent, node.size) if name == _FREE else b""

    def leaf(self, name: str, page: int, node: Node) -> str:
        """What is wrong with a node of a leaf, by the tree that it is in; "" if nothing is."""
        if name == _MAIN:
            if node.flags != SUB or node.data is None or len(node.data) != 48:
                return f"names {node.key!r}, which is no keyspace"
            self._spaces[node.key.decode(errors="replace")] = parse_tree(node.data)
            return ""
        if node.flags not in (0, BIG):
            return f"has a value of kind {node.flags:#x}"
        data = node.data
        if data is None:
            data = self.extent(name, node, page)
            if data is None:
                return f"has a value on page {node.extent} that is not there"
        if name == _FREE:
            if len(node.key) != 8:
                return "has a key that is no transaction"
            self._lists.append((page, data))
        return ""

    # --- free pages ---

    def _free_pages(self, meta: Meta) -> None:
        found = self._found
        live, free = found.live, found.free
        for page, data in self._lists:
            where = f"page {page} ({_FREE})"
            count = number(data)[0] if len(data) >= 8 else -1
            if count != len(data) // 8 - 1 or len(data) % 8:
                found.report(where, "has a list that is not as long as it says")
                continue
            above = len(free)
            for at in range(8, len(data), 8):
                listed = number(data, at)[0]
                if not METAS <= listed < above:
                    found.report(where, f"lists page {listed} where none from {above} up may stand")
                    break
                if live[listed] or free[listed]:
                    found.report(where, f"lists page {listed}, which is {'in use' if live[listed] else 'listed twice'}")
                free[listed] = 1
                above = listed
        if found.problems:
            return  # what lies below a damaged page is in use too, and is not known
        for page in range(METAS, len(live)):
            if not live[page] and not free[page]:
                found.report(f"page {page}", "is neither in use nor free")


class _Tree:
    """The walk down one B-tree."""

    def __init__(self, walker: _Walker, name: str, tree: Tree) -> None:
        self._walker = walker
        self._found = walker._found
        self._name = name
        self._tree = tree
        self._branches = self._leaves = self._overflow = self._entries = 0
        self._good = True
        self._found.leaves[name] = array("Q")
        self._found.suspects[name] = array("Q")

    def walk(self) -> None:
        name, tree, found = self._name, self._tree, self._found
        self._last: bytes | int | None = None
        before = len(found.problems)
        if name != _FREE and (tree.flags or tree.pad):
            found.report(f"the record of {name}", f"has flags {tree.flags:#x} and pad {tree.pad}, where none may be")
        if tree.root != NO_PAGE:
            if not 1 <= tree.depth <= MAX_DEPTH:
                found.report(f"the record of {name}", f"says it is {tree.depth} levels deep")
            self._page(tree.root, 1, None, None)
        counted = self._branches, self._leaves, self._overflow, self._entries
        said = tree.branches, tree.leaves, tree.overflow, tree.entries
        if counted != said or (tree.root == NO_PAGE and tree.depth):
            if len(found.problems) == before or self._good:
                words = "{} branches, {} leaves, {} long pages and {} entries"
                found.report(
                    f"the record of {name}",
                    f"says there are {words.format(*said)}; found were {words.format(*counted)}",
                )
            self._good = False
        found.entries[name] = self._entries
        if not self._good or len(found.problems) != before:
            found.broken.add(name)

    def _key(self, key: bytes) -> bytes | int:
        return int.from_bytes(key, sys.byteorder) if self._name == _FREE else key

    def _bad(self, page: int, what: str) -> None:
        self._good = False
        self._found.report(f"page {page} ({self._name})", what)

    def _page(self, page: int, depth: int, low: bytes | None, high: bytes | None) -> None:
        kinds = (LEAF,) if depth >= self._tree.depth else (BRANCH,)
        data = self._walker.read(self._name, page, kinds)
        if data is None:
            self._good = False
            return
        places = offsets(data)
        if not places:
            self._bad(page, "has bounds that make no sense" if places is None else "is empty")
        elif depth >= self._tree.depth:
            self._leaf(page, data, places, low, high)
        else:
            self._branch(page, data, places, depth, low, high)

    def _fills(self, page: int, data: bytes, taken: list[tuple[int, int]]) -> bool:
        """Whether nodes at (offset, length) lie side by side from the page's upper bound to its end."""
        at = header(data)[3]
        for start, length in sorted(taken):
            if start != at:
                self._bad(page, f"has nodes that overlap or leave holes at byte {at}")
                return False
            at += length
        if at != len(data):
            self._bad(page, f"has nodes up to byte {at} only")
        return at == len(data)

    def _plainly_sound(self, data: bytes, places: tuple[int, ...], low: bytes | None, high: bytes | None) -> bool:
        """Whether a leaf is as it should be, with values of its own alone: what nearly all are, in a third of the time.
        All else is for those who say what is wrong."""
        keys, ends = node_ends(data, places)
        starts = sorted(places)
        if len(keys) < len(places) or starts[0] != header(data)[3] or sorted(ends) != [*starts[1:], len(data)]:
            return False
        last = self._last
        if isinstance(last, int) or not all(map(lt, keys, islice(keys, 1, None))):
            return False
        return (
            (last is None or last < keys[0]) and (low is None or low <= keys[0]) and (high is None or keys[-1] < high)
        )

    def _leaf(self, page: int, data: bytes, places: tuple[int, ...], low: bytes | None, high: bytes | None) -> None:
        self._leaves += 1
        if self._name not in (_FREE, _MAIN) and self._plainly_sound(data, places, low, high):
            self._entries += len(places)
            self._last = data[places[-1] + NODE : places[-1] + NODE + key_size(data, places[-1])]
            self._found.leaves[self._name].append(page)
            self._found.sound[page] = 1
            return
        taken: list[tuple[int, int]] = []
        good = True
        last = self._last
        limit = None if high is None else self._key(high)
        if low is not None and (last is None or last < self._key(low)):  # type: ignore[operator]
            floor: bytes | int | None = self._key(low)
        else:
            floor = None
        for at in places:
            node = leaf_node(data, at)
            if node is None:
                self._bad(page, f"has a node at byte {at} that does not lie inside it")
                good = False
                continue
            taken.append((at, node.length))
            self._entries += 1
            wrong = self._walker.leaf(self._name, page, node)
            if wrong:
                self._bad(page, wrong)
                good = False
            if node.data is None:
                self._overflow += extent_pages(node.size, self._walker._file.page_size)
            key = self._key(node.key)
            outside = (
                (last is not None and key <= last)  # type: ignore[operator]
                or (floor is not None and key < floor)  # type: ignore[operator]
                or (limit is not None and key >= limit)  # type: ignore[operator]
            )
            if outside:
                self._bad(page, f"has a key that is out of order: {node.key[:32].hex()}")
                good = False
            last, floor = key, None
        self._last = last
        if good and self._fills(page, data, taken):
            self._found.leaves[self._name].append(page)
            self._found.sound[page] = 1
        else:
            self._found.suspects[self._name].append(page)

    def _branch(
        self, page: int, data: bytes, places: tuple[int, ...], depth: int, low: bytes | None, high: bytes | None
    ) -> None:
        self._branches += 1
        children: list[tuple[bytes, int]] = []
        taken: list[tuple[int, int]] = []
        for at in places:
            node = branch_node(data, at)
            if node is None:
                self._bad(page, f"has a node at byte {at} that does not lie inside it")
                continue
            key, child, length = node
            taken.append((at, length))
            children.append((key, child))
        if len(taken) == len(places) and self._fills(page, data, taken):
            self._found.sound[page] = 1
        for k, (key, child) in enumerate(children):
            start = low if k == 0 else key
            stop = high if k + 1 == len(children) else children[k + 1][0]
            if start is not None and stop is not None and self._key(start) >= self._key(stop):  # type: ignore[operator]
                self._bad(page, f"has keys that are out of order at child {k}")
                start = stop = None
            self._page(child, depth + 1, start, stop)
