"""`List`: an immutable sequence with structural sharing.

Here lives the face of a list: Python's sequence protocol and versions that share a tail. The tree beneath
is `entries` and `tree`.

Theory of operation. A version is a settled spine and the first `n` entries of a tail, a buffer that
successive versions share: appending to the newest version adds to the buffer in place, older ones do not
look past their own `n`. The tail is cut into the spine ("settled") when it has grown, or when the hash or
the stored form is asked for.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from operator import sub
from typing import Any, Self, TypeVar, overload

from blake3 import blake3

from chronicle_py.entries import Entries, ListSpine
from chronicle_py.errors import InvalidOperation, ItemIndexError
from chronicle_py.nodes import Objects
from chronicle_py.shown import shown
from chronicle_py.values import LIST, Codec, Extension, encode_value, register_extension

T = TypeVar("T")

LARGE_ENTRY = 2048
_TAIL_ENTRIES = 1024
_TAIL_BYTES = 262_144
_HASHED_AS = b"\x03l"

_new = object.__new__


class _Tail:
    """Entries after the spine, shared by versions and threads.

    An entry is its bytes, or from the first weight on a pair: its bytes, and the sum of weights up to it.
    """

    __slots__ = ("entries", "size")

    def __init__(self, entries: list[bytes | tuple[bytes, int]]) -> None:
        self.entries = entries
        weighted = bool(entries) and type(entries[-1]) is tuple
        self.size = sum(map(len, map(_item_of, entries) if weighted else entries))


def _item_of(entry: bytes | tuple[bytes, int]) -> bytes:
    return entry[0] if type(entry) is tuple else entry  # type: ignore[return-value]


def _sum_of(entry: bytes | tuple[bytes, int]) -> int:
    return entry[1] if type(entry) is tuple else 0


class List(Sequence[T]):
    """An immutable list of values that MessagePack can hold; each change gives a new list.

    `weights` (0 or more each) are summed by `weight` and searched by `find`; they belong to the content.
    """

    __slots__ = ("_state",)
    _state: tuple[ListSpine, _Tail, int]  # replaced as one, so that threads may share a version

    def __init__(self, values: Iterable[T] = (), weights: Iterable[int] | None = None) -> None:
        self._state = (_EMPTY, _Tail([]), 0)
        if values != () or weights is not None:
            self._state = self.extend(values, weights)._state

    @property
    def __orig_class__(self) -> Any:
        raise AttributeError("__orig_class__")

    @__orig_class__.setter
    def __orig_class__(self, alias: Any) -> None:  # `List[Msg]()` binds its element type
        self._state = self.bind(alias.__args__[0])._state

    @classmethod
    def _of(cls, spine: ListSpine, tail: _Tail, n: int) -> Self:
        new = _new(cls)
        new._state = (spine, tail, n)
        return new

    # Reading

    def __len__(self) -> int:
        spine, _, n = self._state
        return sum(spine.counts) + n

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step == 1:
                return list(self._values(start, stop))
            return [self[i] for i in range(start, stop, step)]
        spine, tail, n = self._state
        at = _offset(index, sum(spine.counts) + n)
        settled = len(spine)
        if at >= settled:
            item = _item_of(tail.entries[at - settled])
        else:
            leaf, position = spine.locate(at)
            item = leaf.items[position]
        value: T = spine.codec.decode(item)
        return value

    def entries(self, start: int, stop: int) -> Iterator[tuple[int, Entries]]:
        """Entries of [start, stop), by runs: the index of a run's first entry, and the run."""
        spine, tail, n = self._state
        settled = len(spine)
        for base, leaf in spine.leaves(start, min(stop, settled)):
            first = max(start - base, 0)
            yield base + first, spine._part(leaf, first, min(stop - base, len(leaf)))
        if max(start, settled) < stop and n:
            first = max(start - settled, 0)
            yield settled + first, _unshared(tail.entries[:n], first, stop - settled)

    def _values(self, start: int, stop: int) -> Iterator[T]:
        decode = self._state[0].codec.decode
        for _, part in self.entries(start, stop):
            yield from map(decode, part.items)

    def __iter__(self) -> Iterator[T]:
        return self._values(0, len(self))

    def __reversed__(self) -> Iterator[T]:
        spine, tail, n = self._state
        decode = spine.codec.decode
        for entry in reversed(tail.entries[:n]):
            yield decode(_item_of(entry))
        for _, leaf in spine.leaves_back(0, len(spine)):
            yield from map(decode, reversed(leaf.items))

    def __eq__(self, other: object) -> bool:
        return self.content == other.content if isinstance(other, List) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.content)

    def __repr__(self) -> str:
        n = len(self)
        shown = ", ".join(map(repr, self[:5]))
        return f"List([{shown}])" if n <= 5 else f"List([{shown}, …], {n} entries)"

    # Weights

    def weight(self, stop: int | None = None) -> int:
        """The sum of the weights of the first `stop` entries (default: all); O(log n)."""
        spine, tail, n = self._state
        settled = len(spine)
        stop = slice(stop).indices(settled + n)[1]
        if stop < settled:
            return spine.weight_before(stop)
        return spine.weight + (_sum_of(tail.entries[stop - settled - 1]) if stop > settled else 0)

    def find(self, weight: int) -> int:
        """The first index at which the weights up to and with it exceed `weight`, else `len`. O(log n)."""
        spine, tail, n = self._state
        if weight < spine.weight:
            return spine.find(weight)
        return len(spine) + bisect_right(tail.entries, weight - spine.weight, hi=n, key=_sum_of)

    # Changing

    def append(self, value: T, weight: int = 0) -> "List[T]":
        """With one more entry at the end; copies nothing."""
        entry: bytes | tuple[bytes, int]
        item = entry = encode_value(value, LARGE_ENTRY)
        spine, tail, n = self._state
        entries = tail.entries
        if len(entries) != n:
            tail = _Tail(entries[:n])
            entries = tail.entries
        if weight:
            _check_weight(weight)
        if weight or (n and type(entries[n - 1]) is tuple):
            entry = (item, (_sum_of(entries[n - 1]) if n else 0) + weight)
        entries.append(entry)
        if entries[n] is not entry:  # another thread appended to the same version at the same time
            tail = _Tail([*entries[:n], entry])
        tail.size += len(item)
        new: List[T] = _new(List)
        new._state = (spine, tail, n + 1)
        if n >= _TAIL_ENTRIES or tail.size > _TAIL_BYTES:
            new.settled()
        return new

    def extend(self, values: Iterable[T], weights: Iterable[int] | None = None) -> "List[T]":
        """With more entries at the end. `weights` must be as many as `values`."""
        items = [encode_value(value, LARGE_ENTRY) for value in values]
        heads = [] if weights is None else list(weights)
        if weights is not None and len(heads) != len(items):
            raise InvalidOperation(f"{len(items)} values were given with {len(heads)} weights")
        for weight in heads:
            _check_weight(weight)
        end = len(self)
        return self._replace(end, end, Entries(heads if any(heads) else [], items)) if items else self

    def set(self, index: int, value: T, weight: int | None = None) -> "List[T]":
        """With another value at `index`, and another weight unless None; raises `IndexError` outside."""
        at = _offset(index, len(self))
        item = encode_value(value, LARGE_ENTRY)
        if weight is None:
            weight = self.weight(at + 1) - self.weight(at)
        _check_weight(weight)
        return self._replace(at, at + 1, Entries([weight] if weight else [], [item]))

    def insert(self, index: int, value: T, weight: int = 0) -> "List[T]":
        """With one more entry before `index`, clamped as Python's `list.insert` does."""
        _check_weight(weight)
        at, _, _ = slice(index, None).indices(len(self))
        return self._replace(at, at, Entries([weight] if weight else [], [encode_value(value, LARGE_ENTRY)]))

    def delete(self, start: int, stop: int) -> "List[T]":
        """Without the entries of [start, stop), clamped as a slice is."""
        start, stop, _ = slice(start, stop).indices(len(self))
        return self._replace(start, stop, Entries([], [])) if start < stop else self

    def _replace(self, start: int, stop: int, entries: Entries) -> "List[T]":
        """Replace a range; what lies in the tail is changed in a copy of the tail."""
        spine, tail, n = self._state
        settled = len(spine)
        if start == settled + n and n + len(entries) > _TAIL_ENTRIES:
            return List._of(self.settled().replace(start, start, entries), _Tail([]), 0)
        if start < settled:
            spine = spine.replace(start, min(stop, settled), entries)
            if stop <= settled:
                return List._of(spine, tail, n)
            entries = Entries([], [])
        old = tail.entries[:n]
        before, after = _unshared(old, 0, max(start - settled, 0)), _unshared(old, stop - settled, n)
        tail = _Tail(_shared(spine._join([before, entries, after])))
        new: List[T] = List._of(spine, tail, len(tail.entries))
        if len(tail.entries) > _TAIL_ENTRIES or tail.size > _TAIL_BYTES:
            new.settled()
        return new

    # Content and storage

    def settled(self) -> ListSpine:
        """The spine of all entries: the tail is cut into it, in this version alone."""
        spine, tail, n = self._state
        if n:
            end = len(spine)
            spine = spine.replace(end, end, _unshared(tail.entries[:n], 0, n))
            self._state = (spine, _Tail([]), 0)
        return spine

    @property
    def content(self) -> bytes:
        """The content hash: equal for equal entries and weights, however they came about."""
        return blake3(_HASHED_AS + self.settled().encode()).digest()

    @property
    def hash(self) -> str:
        """The content hash in hex."""
        return self.content.hex()

    @property
    def extension(self) -> int:
        return LIST

    def pending(self) -> bool:
        """Whether something must be stored before `encode` says all."""
        return self.settled().pending()

    def root(self) -> bytes:
        """The root, whether or not what it refers to is stored."""
        return self.settled().encode()

    def save(self, objects: Objects) -> "List[T]":
        """Store what is not stored yet: an equal list that reads it from `objects`. This one stays."""
        return List._of(self.settled().save(objects), _Tail([]), 0)

    def encode(self) -> bytes:
        """The root of a saved list; raises `InvalidOperation` when it was not saved."""
        if self.pending():
            raise InvalidOperation("a List must be saved before it is encoded: call save(objects) first")
        return self.root()

    @classmethod
    def decode(cls, data: bytes, objects: Objects | None) -> "List[T]":
        """The list of that root; raises `CorruptStore`."""
        return cls._of(ListSpine(Codec(Any, objects)).decoded(data), _Tail([]), 0)

    def bind(self, element: Any) -> "List[T]":
        """The same list, whose values are decoded to the type `element`."""
        spine, tail, n = self._state
        return List._of(spine.bound(element), tail, n)


def _offset(index: int, n: int) -> int:
    """Python's index into `n` entries as an offset; raises `IndexError` outside."""
    at = index + n if index < 0 else index
    if not 0 <= at < n:
        raise ItemIndexError(f"there is no entry {shown(index)} in a list of {n}")
    return at


def _unshared(entries: list[bytes | tuple[bytes, int]], start: int, stop: int) -> Entries:
    """Entries of a tail as those of a leaf."""
    part = entries[start:stop]
    if not part or type(part[-1]) is not tuple:
        return Entries([], part)  # type: ignore[arg-type]
    before = _sum_of(entries[start - 1]) if start else 0
    sums = list(map(_sum_of, part))
    weights = list(map(sub, sums, [before, *sums[:-1]]))
    return Entries(weights if any(weights) else [], list(map(_item_of, part)))


def _shared(entries: Entries) -> list[bytes | tuple[bytes, int]]:
    """Entries of a leaf as those of a tail."""
    if not entries.heads:
        return list(entries.items)
    return list(zip(entries.items, accumulate(entries.heads), strict=True))


def _check_weight(weight: int) -> None:
    if not isinstance(weight, int) or not 0 <= weight < 2**63:
        raise InvalidOperation(f"a weight must be an integer from 0 up, not {shown(weight)}")


_EMPTY = ListSpine(Codec(Any, None))
register_extension(LIST, Extension(List, List.root, List.decode))
