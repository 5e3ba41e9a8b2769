"""`Map`: an immutable mapping from str, in the order of the keys' UTF-8 bytes, with structural sharing.

Here lives the face of a map: Python's mapping protocol and versions that share their latest changes. The
tree beneath is `entries` and `tree`.

Theory of operation. A version is a settled spine and a stamp into an overlay of changes that successive
versions share. The overlay keeps, for each key, its changes with the stamps of their versions, newest
first; a version looks past those that are younger than itself. Only the newest version writes in place;
another copies what it sees. The overlay goes into the spine in one sorted batch ("settled") when it has
grown, or when the hash or the stored form is asked for.
"""

from collections.abc import ItemsView, Iterable, Iterator, Mapping, ValuesView
from threading import Lock
from typing import Any, NamedTuple, Self, TypeVar

from blake3 import blake3

from chronicle_py.entries import Entries, MapSpine
from chronicle_py.errors import InvalidOperation, PathKeyError
from chronicle_py.nodes import Objects
from chronicle_py.shown import shown
from chronicle_py.tree import Edit
from chronicle_py.values import MAP, Codec, Extension, encode_value, register_extension

T = TypeVar("T")

LARGE_VALUE = 128
MAX_KEY = 256
_OVERLAY_CHANGES = 256
_HASHED_AS = b"\x03m"
_NIL = b"\xc0"  # how MessagePack writes None

_new = object.__new__


class _Change(NamedTuple):
    stamp: int
    item: bytes | None  # None: removed
    older: "_Change | None"


class _Overlay:
    """Changes after the spine, shared by versions."""

    __slots__ = ("changes", "lock", "stamp")

    def __init__(self, changes: list[tuple[bytes, bytes | None]] | None = None) -> None:
        self.changes = {key: _Change(0, item, None) for key, item in changes or ()}
        self.stamp = 0
        self.lock = Lock()


class Map(Mapping[str, T]):
    """An immutable mapping from str to values that MessagePack can hold; each change gives a new map."""

    __slots__ = ("_len", "_state")
    _len: int | None
    _state: tuple[MapSpine, _Overlay, int]  # replaced as one, so that threads may share a version

    def __init__(self, values: Mapping[str, T] | Iterable[tuple[str, T]] = ()) -> None:
        self._state, self._len = (_EMPTY, _Overlay(), 0), None
        if values != ():
            self._state = self.update(values)._state

    @property
    def __orig_class__(self) -> Any:
        raise AttributeError("__orig_class__")

    @__orig_class__.setter
    def __orig_class__(self, alias: Any) -> None:  # `Map[int]()` binds its value type
        self._state = self.bind(alias.__args__[0])._state

    @classmethod
    def _of(cls, spine: MapSpine, overlay: _Overlay | None = None, stamp: int = 0) -> Self:
        new = _new(cls)
        new._state, new._len = (spine, overlay or _Overlay(), stamp), None
        return new

    @classmethod
    def of_sorted(cls, keys: list[bytes]) -> "Map[None]":
        """The map from these keys, UTF-8, ascending and distinct, to None: made in one pass. Their size is up to the
        caller."""
        edit = Edit(0, 0, Entries(keys, [_NIL] * len(keys)))
        return Map._of(_EMPTY.splice([edit]) if keys else _EMPTY)

    # Reading

    def _find(self, key: object) -> bytes | None:
        """The entry of a key, or None."""
        if not isinstance(key, str):
            return None
        try:
            raw = key.encode()
        except UnicodeEncodeError:
            return None
        spine, overlay, stamp = self._state
        change = overlay.changes.get(raw)
        while change is not None:
            if change.stamp <= stamp:
                return change.item
            change = change.older
        return spine.get(raw)

    def __getitem__(self, key: str) -> T:
        item = self._find(key)
        if item is None:
            raise PathKeyError(f"there is no key {shown(key)} in a map of {len(self)}")
        value: T = self._state[0].codec.decode(item)
        return value

    def __contains__(self, key: object) -> bool:
        return self._find(key) is not None

    def __len__(self) -> int:
        if self._len is None:
            spine, overlay, stamp = self._state
            n = len(spine)
            for key, item in _visible(overlay, stamp):
                n += (item is not None) - (spine.get(key) is not None)
            self._len = n
        return self._len

    def __iter__(self) -> Iterator[str]:
        return (key.decode() for key, _ in self._entries(None, None, False))

    def __reversed__(self) -> Iterator[str]:
        return (key.decode() for key, _ in self._entries(None, None, True))

    def items(self) -> ItemsView[str, T]:
        return _Items(self)

    def values(self) -> ValuesView[T]:
        return _Values(self)

    def scan(
        self, prefix: str = "", start: str | None = None, stop: str | None = None, reverse: bool = False
    ) -> Iterator[tuple[str, T]]:
        """Keys that begin with `prefix`, from `start` up to but without `stop`, with their values, in order.

        O(log n) to begin; the version's content is what it was at the call, whatever is made of it meanwhile.
        """
        low, high = prefix.encode(), _after(prefix)
        if start is not None:
            low = max(low, start.encode())
        if stop is not None:
            high = stop.encode() if high is None else min(high, stop.encode())
        decode = self._state[0].codec.decode
        return ((key.decode(), decode(item)) for key, item in self._entries(low, high, reverse))

    def scan_keys(self, low: str | None, high: str | None, reverse: bool = False) -> Iterator[str]:
        """The keys of [low, high), None: no bound; no value is decoded."""
        span = None if low is None else low.encode(), None if high is None else high.encode()
        return (key.decode() for key, _ in self._entries(*span, reverse))

    def between(self, low: str | None, high: str | None) -> int:
        """How many keys are in [low, high), None: no bound. O(log n)."""
        spine = self.settled()
        start = 0 if low is None else spine.seek(low.encode())[2]
        return (len(spine) if high is None else spine.seek(high.encode())[2]) - start

    def raw_keys(self) -> list[bytes]:
        """All keys, in order, as UTF-8."""
        spine = self.settled()
        return [key for _, leaf in spine.leaves(0, len(spine)) for key in leaf.heads]

    def _entries(self, low: bytes | None, high: bytes | None, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        """Keys of [low, high) with their entries."""
        spine, overlay, stamp = self._state
        changes = [
            change
            for change in _visible(overlay, stamp)
            if (low is None or change[0] >= low) and (high is None or change[0] < high)
        ]
        settled = _settled(spine, low, high, reverse)
        if not changes:
            return settled
        if reverse:
            changes.reverse()
        return _merged(settled, changes, reverse)

    def __eq__(self, other: object) -> bool:
        return self.content == other.content if isinstance(other, Map) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.content)

    def __repr__(self) -> str:
        n = len(self)
        shown = ", ".join(f"{key!r}: {value!r}" for (key, value), _ in zip(self.scan(), range(5), strict=False))
        return f"Map({{{shown}}})" if n <= 5 else f"Map({{{shown}, …}}, {n} entries)"

    # Changing

    def set(self, key: str, value: T) -> "Map[T]":
        """With `key` at `value`; copies nothing."""
        return self._change(_checked(key), encode_value(value, LARGE_VALUE))

    def remove(self, key: str) -> "Map[T]":
        """Without `key`; raises `KeyError` when it is not there."""
        if self._find(key) is None:
            raise PathKeyError(f"there is no key {shown(key)} in a map of {len(self)}")
        return self._change(key.encode(), None)

    def update(self, values: Mapping[str, T] | Iterable[tuple[str, T]]) -> "Map[T]":
        """With all these keys set; of equal keys the last one counts."""
        pairs = values.items() if isinstance(values, Mapping) else values
        batch = {_checked(key): encode_value(value, LARGE_VALUE) for key, value in pairs}
        if len(batch) > _OVERLAY_CHANGES:
            return Map._of(self.settled().changed(sorted(batch.items())))
        new = self
        for key, item in batch.items():
            new = new._change(key, item)
        return new

    def _change(self, key: bytes, item: bytes | None) -> "Map[T]":
        spine, overlay, stamp = self._state
        with overlay.lock:
            newest = overlay.stamp == stamp
            if newest:
                overlay.changes[key] = _Change(stamp + 1, item, overlay.changes.get(key))
                overlay.stamp = stamp + 1
        if not newest:
            overlay = _Overlay([*_visible(overlay, stamp), (key, item)])
            stamp = -1
        new: Map[T] = _new(Map)
        new._state, new._len = (spine, overlay, stamp + 1), None
        if overlay.stamp >= _OVERLAY_CHANGES or len(overlay.changes) >= _OVERLAY_CHANGES:
            new.settled()
        return new

    # Content and storage

    def settled(self) -> MapSpine:
        """The spine of all entries: the overlay goes into it, in this version alone."""
        spine, overlay, stamp = self._state
        if overlay.changes:
            spine = spine.changed(_visible(overlay, stamp))
            self._state = (spine, _Overlay(), 0)
        return spine

    @property
    def content(self) -> bytes:
        """The content hash: equal for equal keys and values, however they came about."""
        return blake3(_HASHED_AS + self.settled().encode()).digest()

    @property
    def hash(self) -> str:
        """The content hash in hex."""
        return self.content.hex()

    @property
    def extension(self) -> int:
        return MAP

    def pending(self) -> bool:
        """Whether something must be stored before `encode` says all."""
        return self.settled().pending()

    def root(self) -> bytes:
        """The root, whether or not what it refers to is stored."""
        return self.settled().encode()

    def save(self, objects: Objects) -> "Map[T]":
        """Store what is not stored yet: an equal map that reads it from `objects`. This one stays."""
        return Map._of(self.settled().save(objects))

    def encode(self) -> bytes:
        """The root of a saved map; raises `InvalidOperation` when it was not saved."""
        if self.pending():
            raise InvalidOperation("a Map must be saved before it is encoded: call save(objects) first")
        return self.root()

    @classmethod
    def decode(cls, data: bytes, objects: Objects | None) -> "Map[T]":
        """The map of that root; raises `CorruptStore`."""
        return cls._of(MapSpine(Codec(Any, objects)).decoded(data))

    def bind(self, element: Any) -> "Map[T]":
        """The same map, whose values are decoded to the type `element`."""
        spine, overlay, stamp = self._state
        return Map._of(spine.bound(element), overlay, stamp)


class _Items(ItemsView[str, T]):
    """Entries by one walk, where the inherited view would look each key up."""

    __slots__ = ()
    _mapping: Map[T]

    def __iter__(self) -> Iterator[tuple[str, T]]:
        return self._mapping.scan()


class _Values(ValuesView[T]):
    __slots__ = ()
    _mapping: Map[T]

    def __iter__(self) -> Iterator[T]:
        return (value for _, value in self._mapping.scan())


def _visible(overlay: _Overlay, stamp: int) -> list[tuple[bytes, bytes | None]]:
    """The changes that a version sees, in the order of keys."""
    visible = []
    for key, change in list(overlay.changes.items()):
        seen: _Change | None = change
        while seen is not None and seen.stamp > stamp:
            seen = seen.older
        if seen is not None:
            visible.append((key, seen.item))
    visible.sort(key=_key_of)
    return visible


def _key_of(change: tuple[bytes, bytes | None]) -> bytes:
    return change[0]


def _settled(spine: MapSpine, low: bytes | None, high: bytes | None, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
    """Keys of [low, high) in the spine with their entries."""
    start = spine.seek(low)[2] if low else 0
    stop = len(spine) if high is None else spine.seek(high)[2]
    for base, leaf in spine.leaves_back(start, stop) if reverse else spine.leaves(start, stop):
        span = slice(max(start - base, 0), max(stop - base, 0))
        keys, items = leaf.heads[span], leaf.items[span]
        yield from (zip(reversed(keys), reversed(items), strict=True) if reverse else zip(keys, items, strict=True))


def _merged(
    settled: Iterator[tuple[bytes, bytes]], changes: list[tuple[bytes, bytes | None]], reverse: bool
) -> Iterator[tuple[bytes, bytes]]:
    """Settled entries with changes laid over them, both in the same order."""
    at = 0
    for key, item in settled:
        while at < len(changes) and (changes[at][0] > key if reverse else changes[at][0] < key):
            changed, new = changes[at]
            at += 1
            if new is not None:
                yield changed, new
        if at < len(changes) and changes[at][0] == key:
            continue
        yield key, item
    yield from ((key, new) for key, new in changes[at:] if new is not None)


def _checked(key: str) -> bytes:
    if not isinstance(key, str):
        raise InvalidOperation(f"a key of a Map must be a str, not {shown(key)}")
    try:
        raw = key.encode()
    except UnicodeEncodeError:
        raise InvalidOperation(f"a key of a Map must be encodable as UTF-8: {shown(key)} is not") from None
    if len(raw) > MAX_KEY:
        raise InvalidOperation(f"a key of a Map has at most {MAX_KEY} bytes, not {len(raw)}: {key[:40]!r}…")
    return raw


def _after(prefix: str) -> bytes | None:
    """The least key above all that begin with `prefix`; None: there is none. UTF-8 has no byte 0xff."""
    raw = prefix.encode()
    return raw[:-1] + bytes((raw[-1] + 1,)) if raw else None


_EMPTY = MapSpine(Codec(Any, None))
register_extension(MAP, Extension(Map, Map.root, Map.decode))
