"""What `view.where(path)` returns: the index of a slot, to be asked for values, and what was found."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from chronicle_py.branches import read_ref
from chronicle_py.errors import InvalidOperation
from chronicle_py.event import decode_payload
from chronicle_py.index_keys import (
    LONG,
    asked_for,
    head_of,
    is_long,
    kind_span,
    prefix_key,
    value_at,
    value_of,
)
from chronicle_py.index_kind import IndexKind, IndexState
from chronicle_py.indexing import find_index
from chronicle_py.shown import shown
from chronicle_py.tiers import bound_after
from chronicle_py.transaction import Transaction, while_kept
from chronicle_py.views import View

if TYPE_CHECKING:
    from chronicle_py.branch import Branch

_JUMP = 32  # entries of one value that are walked before its end is searched
INCLUDED = ("both", "low", "high", "neither")
_NOT_LOW, _NOT_HIGH = ("high", "neither"), ("low", "neither")


class _Check(NamedTuple):
    """What the values of long texts must be, besides having a key in the span."""

    low: Any = None
    high: Any = None
    include: str = "both"
    prefix: Any = None

    def fits(self, value: Any) -> bool:
        if self.prefix is not None:
            return bool(value.startswith(self.prefix))
        if type(value) is type(self.low) and (value < self.low or (value == self.low and self.include in _NOT_LOW)):
            return False
        too_high = type(value) is type(self.high) and (
            value > self.high or (value == self.high and self.include in _NOT_HIGH)
        )
        return not too_high


class _Span(NamedTuple):
    """Keys from `low` up to but without `high`, those of long texts at its ends kept only if `fits`."""

    low: str | None
    high: str | None
    check: _Check | None = None


class _Found(NamedTuple):
    """One state of an index, and of the slot that it is of."""

    kind: IndexKind
    state: IndexState
    source: _Source


class _Source:
    """The indexed slot at the same place, looked up when it is needed."""

    def __init__(self, branch: Branch, slot: str, lineage: int, seq: int, within: Transaction | None) -> None:
        self._branch = branch
        self._slot = slot
        self._at = lineage, seq
        self.seq = seq
        self.within = within
        self._state: Any = None

    def state(self) -> Any:
        if self._state is None:
            engine = self._branch.engine
            with engine.read() as reader:
                found = engine.slots.table(reader).get(self._slot)
                self._state = engine.checkpoints.state(reader, *self._at, found)
        return self._state

    def item(self, place: Any) -> Any:
        """The item at an index, or the value at a path."""
        state = self.state()
        return state[place] if isinstance(place, str) else decode_payload(state.fetch([state.ref(place)])[0])

    def length(self) -> int:
        return len(self.state())


class Matches:
    """What a query found: places in the order of their values, and among equal values in their own.

    Iterating gives places: indexes into an `append_log`, paths of a `tree`. All of it is of the one state that the
    query was asked at, whatever happens to the slot meanwhile. Lazy: O(log n) to begin, then what is taken.
    """

    def __init__(self, found: _Found, span: _Span, limit: int | None, reverse: bool) -> None:
        self._found = found
        self._span = span
        self._limit = limit
        self._reverse = reverse

    def __iter__(self) -> Iterator[Any]:
        return (place for _, place in self._entries())

    def __len__(self) -> int:
        """How many there are. O(log n), unless long texts have to be looked at."""
        span = self._span
        if span.check is None:
            n = self._found.state.order.count(span.low, span.high)
            return n if self._limit is None else min(n, self._limit)
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return next(iter(self), None) is not None

    def __repr__(self) -> str:
        return f"<Matches of slot {self._found.kind.spec.slot!r} at {self._found.source.seq}>"

    def items(self) -> Iterator[tuple[Any, Any]]:
        """(place, item): an index with its item, a path with its value."""
        item = self._found.source.item
        return ((place, item(place)) for _, place in self._entries())

    def _entries(self) -> Iterator[tuple[str, Any]]:
        found = while_kept(ordered(self._found, self._span, self._reverse), self._found.source.within)
        return found if self._limit is None else islice(found, self._limit)


def ordered(found: _Found, span: _Span, reverse: bool) -> Iterator[tuple[str, Any]]:
    """(key, place) in order. Long texts that begin alike are sorted by their values, which takes reading them."""
    entries = found.kind.entries(found.state, span.low, span.high, reverse)
    for head, group in groupby(entries, key=lambda entry: head_of(entry[0]) if is_long(entry[0]) else None):
        if head is None:
            yield from group
            continue
        values: dict[str, Any] = {}  # by key: one item is read for each value
        kept = []
        for key, place in group:
            value = values.get(key)
            if value is None:
                value = values[key] = value_in(found, key, place)
            if span.check is None or span.check.fits(value):
                kept.append((key, place))
        kept.sort(key=lambda entry: (values[entry[0]], entry[1]), reverse=reverse)
        yield from kept


def value_in(found: _Found, key: str, place: Any) -> Any:
    """The value of a key, of which `place` is one place."""
    return value_of(key) if not is_long(key) else value_at(found.source.item(place), found.kind.spec.path)


class IndexView(View):
    """The index of a slot by a path. Live without `at`, as views are; each query answers from one state."""

    def _look(self) -> _Found:
        engine = self._branch.engine
        fixed = self._fixed
        with engine.read() as reader:
            slot = engine.slots.table(reader).get(self._slot)
            assert isinstance(slot.kind, IndexKind)
            if fixed is not None:
                self._now()  # InvalidOperation where the transaction it was read in was not kept
                lineage, seq, within, state = fixed.lineage, fixed.seq, fixed.within, fixed.state
            else:
                ref = read_ref(reader, self._branch.name)
                lineage, seq, within = ref.lineage, ref.seq, engine.running()
                state = self._at_head(reader)[1]
            source = _Source(self._branch, slot.kind.spec.slot, lineage, seq, within)
            return _Found(slot.kind, state, source)

    def __len__(self) -> int:
        """How many items or paths are in the index. O(log n)."""
        return len(self._look().state.order)

    def __bool__(self) -> bool:
        return True

    @property
    def unindexed(self) -> int:
        """How many items or paths are not: they have nothing at the path, or a list or an object."""
        found = self._look()
        return found.source.length() - len(found.state.order)

    def equal(self, value: Any, *, limit: int | None = None, reverse: bool = False) -> Matches:
        """The places whose value is this one. 2 and 2.0 are equal, True is no number, NaN is found by NaN."""
        return self._matches(_span_of(asked_for(value)[0]), limit, reverse)

    def range(
        self, low: Any = None, high: Any = None, *, include: str = "both", limit: int | None = None,
        reverse: bool = False,
    ) -> Matches:  # fmt: skip
        """The places whose values lie between `low` and `high`, which both belong to it unless `include` is "low",
        "high" or "neither".

        None: no bound; the range then goes as far as there are values of the kind of the other bound. Without both it
        is all there is. Bounds of two kinds take in all kinds between, in the order None < False < True < NaN < numbers
        < times < text < bytes.
        """
        if include not in INCLUDED:
            raise InvalidOperation(f"range(include=) is one of {', '.join(INCLUDED)}, not {shown(include)}")
        return self._matches(_range(low, high, include), limit, reverse)

    def prefix(self, text: str | bytes, *, limit: int | None = None, reverse: bool = False) -> Matches:
        """The places whose text begins with this one, by characters; bytes find bytes."""
        if not isinstance(text, str | bytes):
            raise InvalidOperation(f"prefix takes a str, or bytes to find bytes, not {shown(text)}")
        key, text = asked_for(text)
        low, check = (head_of(key), _Check(prefix=text)) if is_long(key) else (prefix_key(text), None)
        return self._matches(_Span(low, bound_after(low), check), limit, reverse)

    def count(self, value: Any) -> int:
        """How many places have this value. O(log n), however many there are."""
        span = _span_of(asked_for(value)[0])
        return self._look().state.order.count(span.low, span.high)

    def counts(self, *, reverse: bool = False) -> Iterator[tuple[Any, int]]:
        """(value, how many places have it), in order. O(log n) for each value, of whatever number of places."""
        _check_reverse(reverse)
        found = self._look()
        return while_kept(_counted(found, reverse), found.source.within)

    def values(self, *, reverse: bool = False) -> Iterator[Any]:
        """The values there are, each once, in order."""
        return (value for value, _ in self.counts(reverse=reverse))

    def _matches(self, span: _Span, limit: int | None, reverse: bool) -> Matches:
        if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 0):
            raise InvalidOperation(f"limit is a whole number from 0, not {shown(limit)}")
        _check_reverse(reverse)
        return Matches(self._look(), span, limit, reverse)


def _check_reverse(reverse: object) -> None:
    if not isinstance(reverse, bool):
        raise InvalidOperation(f"reverse is True or False, not {shown(reverse)}")


def _counted(found: _Found, reverse: bool) -> Iterator[tuple[Any, int]]:
    low: str | None = None
    high: str | None = None
    while True:
        behind = yield from _walked(found, low, high, reverse)
        if behind is None:
            return
        low, high = (None, behind.low) if reverse else (behind.high, None)


def _walked(
    found: _Found, low: str | None, high: str | None, reverse: bool
) -> Generator[tuple[Any, int], None, _Span | None]:
    """Values with their counts, up to and with the first one of many places: the entries of that are counted without
    being walked. Returns its span, behind which it goes on."""
    order = found.state.order
    entries = found.kind.entries(found.state, low, high, reverse)
    for key, group in groupby(entries, key=lambda entry: head_of(entry[0]) if is_long(entry[0]) else entry[0]):
        walked = list(islice(group, None if key.endswith(LONG) else _JUMP + 1))
        if key.endswith(LONG):
            places = dict(walked)  # one place of each of these texts, which begin alike
            values = sorted(((value_in(found, long, place), long) for long, place in places.items()), reverse=reverse)
            yield from ((value, order.count(*_span_of(long)[:2])) for value, long in values)
        elif len(walked) <= _JUMP:
            yield value_of(key), len(walked)
        else:
            span = _span_of(key)
            yield value_of(key), order.count(span.low, span.high)
            return span
    return None


def _span_of(key: str) -> _Span:
    return _Span(key + "\0", key + "\1")


def _range(low: Any, high: Any, include: str) -> _Span:
    start = end = None
    long = False
    if low is not None:
        key, low = asked_for(low)
        long = is_long(key)
        start = head_of(key) if long else key + ("\0" if include not in _NOT_LOW else "\1")
        end = kind_span(key)[1]
    if high is not None:
        key, high = asked_for(high)
        end = bound_after(head_of(key)) if is_long(key) else key + ("\1" if include not in _NOT_HIGH else "\0")
        start = kind_span(key)[0] if start is None else start
        long = long or is_long(key)
    if start is not None and end is not None and end < start:
        end = start
    return _Span(start, end, _Check(low, high, include) if long else None)


def where(view: View, path: Any) -> IndexView:
    """The index of a view's slot by a path, at the view's place."""
    engine = view._branch.engine
    with engine.read() as reader:
        slot = find_index(engine, reader, view._slot, path)
        fixed = view._fixed
        if fixed is None:
            return IndexView(view._branch, slot.id)
        view._now()
        state = engine.checkpoints.state(reader, fixed.lineage, fixed.seq, slot)
        return IndexView(view._branch, slot.id, fixed._replace(state=state))
