"""What differs between two collections, at the cost of what differs.

Here live the comparisons of List, Map and ItemLog. Pure functions over their spines; nothing is changed.

Theory of operation. Both trees are walked from the top, level by level, keeping only *gaps*: spans of nodes
on either side that were not found equal. At each level the nodes in a gap are matched by their content
hashes, in order; what lies between the matches becomes the gaps of the level below. The nodes that a level
leaves open follow those of the levels above, so they join the last gap. At the leaves the gaps hold
entries.

Matching is by common ends first, then by values that occur once on either side (their longest common run in
order), and in small spans by difflib.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any, Literal, NamedTuple, TypeVar

from chronicle_py.entries import Entries
from chronicle_py.errors import InvalidOperation
from chronicle_py.item_log import ItemLog
from chronicle_py.nodes import Row, join_rows
from chronicle_py.persistent_list import List
from chronicle_py.persistent_map import Map
from chronicle_py.tree import Spine
from chronicle_py.values import value_decoder

L = TypeVar("L", bound=Any)
Key = TypeVar("Key", bound=Hashable)

_SMALL = 128  # entries on both sides together up to which difflib is used at once
_QUADRATIC = 1 << 17  # pairs of entries up to which it is used if no value is unique: it may look at each


class Change(NamedTuple):
    """One difference. `a` and `b` are indexes into the two lists, or the key in the maps; None: not there."""

    op: Literal["add", "remove", "change"]
    a: Any
    b: Any
    before: Any
    after: Any


class Gap(NamedTuple):
    """Nodes or entries of both sides that may differ, each with the offset at which they begin."""

    a_start: int
    a: Any
    b_start: int
    b: Any


class Side(NamedTuple):
    """One of two sequences: its spine, what is compared of a leaf's entries, and a token's value."""

    spine: Any
    tokens: Callable[[Any], list[Any]]
    decode: Callable[[Any], Any]


def diff_lists(a: "List[Any] | ItemLog", b: "List[Any] | ItemLog") -> list[Change]:
    """The changes that make `b` of `a`, in order; values decoded. Both must be of one kind."""
    if type(a) is not type(b):
        raise InvalidOperation(f"a {type(a).__name__} and a {type(b).__name__} cannot be compared")
    return list(_list_changes(_side(a), _side(b)))


def _side(entries: "List[Any] | ItemLog") -> Side:
    if isinstance(entries, ItemLog):
        log = entries.settled()
        return Side(log, lambda leaf: list(map(bytes, log.items_of(leaf))), value_decoder(Any, None))
    spine = entries.settled()
    return Side(spine, _weighted, lambda token: spine.codec.decode(token[0]))


def _weighted(leaf: Entries) -> list[tuple[bytes, int]]:
    return list(zip(leaf.items, leaf.heads or [0] * len(leaf.items), strict=True))


def diff_maps(a: Map[Any], b: Map[Any]) -> list[Change]:
    """The changes that make `b` of `a`, in the order of keys; values decoded."""
    left, right = a.settled(), b.settled()
    changes = []
    for gap in _gaps(left, right):
        before = dict(zip(gap.a.heads, gap.a.items, strict=True))
        after = dict(zip(gap.b.heads, gap.b.items, strict=True))
        for raw in sorted(before.keys() | after.keys()):
            key, old, new = raw.decode(), before.get(raw), after.get(raw)
            if old == new:
                continue
            if old is None:
                changes.append(Change("add", None, key, None, right.codec.decode(after[raw])))
            elif new is None:
                changes.append(Change("remove", key, None, left.codec.decode(old), None))
            else:
                changes.append(Change("change", key, key, left.codec.decode(old), right.codec.decode(new)))
    return changes


def _list_changes(left: Side, right: Side) -> Iterator[Change]:
    for gap in _gaps(left.spine, right.spine):
        a, b = left.tokens(gap.a), right.tokens(gap.b)
        for i, i_end, j, j_end in _unmatched(a, b):
            paired = min(i_end - i, j_end - j)
            for k in range(paired):
                if a[i + k] == b[j + k]:
                    continue  # an equal pair that was not matched, for there were too many candidates
                at_a, at_b = gap.a_start + i + k, gap.b_start + j + k
                yield Change("change", at_a, at_b, left.decode(a[i + k]), right.decode(b[j + k]))
            for k in range(i + paired, i_end):
                yield Change("remove", gap.a_start + k, None, left.decode(a[k]), None)
            for k in range(j + paired, j_end):
                yield Change("add", None, gap.b_start + k, None, right.decode(b[k]))


def _gaps(a: Spine[L], b: Spine[L]) -> list[Gap]:
    """Spans of entries that may differ; the leaves of either side joined."""
    top = max(a.top, b.top)
    gaps = [Gap(0, a.row(top), 0, b.row(top))] if top else [Gap(0, a.open, 0, b.open)]
    for level in range(top, 0, -1):
        below = [small for gap in gaps for small in _narrowed(gap)]
        last = _last(a, b, level, below)
        gaps = [Gap(gap.a_start, _opened(a, level, gap.a), gap.b_start, _opened(b, level, gap.b)) for gap in below]
        a_end, b_end = _with_open(a, level, last.a), _with_open(b, level, last.b)
        gaps.append(Gap(last.a_start, a_end, last.b_start, b_end))
    return gaps


def _with_open(spine: Spine[L], level: int, row: Row) -> Any:
    """The children of a row's children, and after them what the level below leaves open."""
    if level > 1:
        return join_rows([_opened(spine, level, row), spine.row(level - 1)])
    return spine._join([_opened(spine, level, row), spine.open])


def _last(a: Spine[L], b: Spine[L], level: int, below: list[Gap]) -> Gap:
    """Take out the gap that reaches the end of the level: open nodes of the level below are added to it."""
    a_end, b_end = sum(a.counts[level:]), sum(b.counts[level:])
    if below:
        gap = below[-1]
        if gap.a_start + gap.a.total == a_end and gap.b_start + gap.b.total == b_end:
            return below.pop()
    empty = Row([], b"", [], [], [], [])
    return Gap(a_end, empty, b_end, empty)


def _narrowed(gap: Gap) -> Iterator[Gap]:
    """The gaps that remain when equal children are matched."""
    a, b = gap.a, gap.b
    for i, i_end, j, j_end in _unmatched(_contents(a), _contents(b)):
        a_start = gap.a_start + (a.ends[i - 1] if i else 0)
        b_start = gap.b_start + (b.ends[j - 1] if j else 0)
        yield Gap(a_start, a.part(i, i_end), b_start, b.part(j, j_end))


def _contents(row: Row) -> list[bytes]:
    return [row.content(k) for k in range(len(row))]


def _opened(spine: Spine[L], level: int, row: Row) -> Any:
    """The children of a row's children, joined."""
    if level > 1:
        return join_rows([spine.row_of(row, k) for k in range(len(row))])
    return spine._join([spine.leaf_of(row, k) for k in range(len(row))])


# Matching


def _unmatched(a: Sequence[Key], b: Sequence[Key]) -> Iterator[tuple[int, int, int, int]]:
    """Spans (i, i_end, j, j_end) of `a` and `b` between matches, in order."""
    i = j = 0
    for match_a, match_b, size in _matches(a, b, 0, len(a), 0, len(b)):
        if match_a > i or match_b > j:
            yield i, match_a, j, match_b
        i, j = match_a + size, match_b + size
    if i < len(a) or j < len(b):
        yield i, len(a), j, len(b)


def _matches(
    a: Sequence[Key], b: Sequence[Key], i: int, i_end: int, j: int, j_end: int
) -> Iterator[tuple[int, int, int]]:
    """Equal spans (start in a, start in b, length), in order."""
    first_a, first_b, end = i, j, i_end
    while i < i_end and j < j_end and a[i] == b[j]:
        i, j = i + 1, j + 1
    while i < i_end and j < j_end and a[i_end - 1] == b[j_end - 1]:
        i_end, j_end = i_end - 1, j_end - 1
    if i > first_a:
        yield first_a, first_b, i - first_a
    if i < i_end and j < j_end:
        yield from _inner_matches(a, b, i, i_end, j, j_end)
    if end > i_end:
        yield i_end, j_end, end - i_end


def _inner_matches(
    a: Sequence[Key], b: Sequence[Key], i: int, i_end: int, j: int, j_end: int
) -> Iterator[tuple[int, int, int]]:
    anchors = _anchors(a, b, i, i_end, j, j_end) if i_end - i + j_end - j > _SMALL else []
    if not anchors:
        if (i_end - i) * (j_end - j) <= _QUADRATIC:
            for block in SequenceMatcher(None, a[i:i_end], b[j:j_end], autojunk=False).get_matching_blocks():
                if block.size:
                    yield i + block.a, j + block.b, block.size
        return
    for at_a, at_b in anchors:
        if at_a < i or at_b < j:
            continue
        yield from _matches(a, b, i, at_a, j, at_b)
        size = 0
        while at_a + size < i_end and at_b + size < j_end and a[at_a + size] == b[at_b + size]:
            size += 1
        yield at_a, at_b, size
        i, j = at_a + size, at_b + size
    yield from _matches(a, b, i, i_end, j, j_end)


def _anchors(a: Sequence[Key], b: Sequence[Key], i: int, i_end: int, j: int, j_end: int) -> list[tuple[int, int]]:
    """Positions of values that occur once on either side: the longest run of pairs that rises in both."""
    once_a, once_b = Counter(a[i:i_end]), Counter(b[j:j_end])
    where = {b[k]: k for k in range(j, j_end) if once_b[b[k]] == 1}
    pairs = [(k, where[a[k]]) for k in range(i, i_end) if once_a[a[k]] == 1 and a[k] in where]
    return _rising(pairs)


def _rising(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest subsequence that rises in its second members; O(n log n)."""
    tails: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for n, (_, at) in enumerate(pairs):
        k = bisect_left(tails, at)
        before.append(last[k - 1] if k else -1)
        if k == len(tails):
            tails.append(at)
            last.append(n)
        else:
            tails[k], last[k] = at, n
    chosen = []
    n = last[-1] if last else -1
    while n >= 0:
        chosen.append(pairs[n])
        n = before[n]
    return chosen[::-1]
