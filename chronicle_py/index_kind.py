"""The states of indexes: which key the value at a path has, in each item of an `append_log` or value of a `tree`.

An index is a slot that follows the events of the slot it is of, and folds them as that slot does. A fold is total: an
item that does not decode, has nothing at the path, or has a list or an object there is not in the index. Pure.

Theory of operation. Two collections make the state. One goes from what is changed to its key, so that an edit, a
redaction or a removal knows what it takes away: a `List` of keys beside the items, or a `Map` from paths to keys. The
other is the order: a `Tiers` of `key ‖ NUL ‖ place`, a place being a path or an item's number. An item keeps its number
while others before it come and go; the weights of the list are the gaps between numbers, so that a number becomes an
index, and an index a number, in O(log n).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from blake3 import blake3

from chronicle_py.collections import List, Map, decode_state, encode_state
from chronicle_py.event import Event, decode_payload
from chronicle_py.index_keys import Parts, key_of, picker, value_at
from chronicle_py.nodes import Objects
from chronicle_py.reducers import (
    APPEND,
    EDIT,
    REDACT,
    SET,
    cut_in,
    decode_items,
    digest,
    edit_in,
    set_items,
    tree_changes,
)
from chronicle_py.tiers import FLUSH, Flips, Tiers, TiersForm

INDEXED: Final = ("append_log", "tree")
_END: Final = "\0"  # of a key in an entry
_SIZES: Final = [chr(0x40 + n) for n in range(17)]
_FEW: Final = 16  # items that are appended one by one


class IndexSpec(msgspec.Struct, array_like=True, frozen=True):
    """What an index is of: stored as the `initial` of its slot."""

    slot: str
    kind: str  # of that slot: append_log or tree
    path: Parts
    initial: msgspec.Raw  # of that slot; nil where none was given


decode_spec = msgspec.msgpack.Decoder(IndexSpec).decode


class IndexState(NamedTuple):
    """Keys by place, and places by key."""

    keys: Any  # List[str | None] of a log, Map[str] of a tree
    order: Tiers


class _Form(msgspec.Struct, array_like=True, frozen=True):
    keys: Any
    order: TiersForm


def number_text(number: int) -> str:
    """An item's number, as text that sorts as numbers do."""
    digits = f"{number:x}"
    return _SIZES[len(digits)] + digits


class IndexKind(ABC):
    """What the two kinds of index share."""

    name = "index"
    custom = False

    def __init__(self, spec: IndexSpec, objects: Objects) -> None:
        self.spec = spec
        self._objects = objects
        self._pick = picker(spec.path)
        self.identity = digest("index", 1, spec.kind, spec.path, bytes(spec.initial))
        self._start: IndexState | None = None

    def key(self, raw: Any) -> str | None:
        """The key of an item's bytes; None: it is not in the index."""
        try:
            return key_of(self._pick(raw))
        except (LookupError, ValueError, RecursionError, msgspec.MsgspecError):
            return None

    @abstractmethod
    def fold(self, state: IndexState, lineage: int, events: list[Event]) -> IndexState:
        """With what these events change; total, like any fold."""

    def initial(self) -> IndexState:
        if self._start is None:
            self._start = self._initial()
        return self._start

    @abstractmethod
    def _initial(self) -> IndexState:
        """The state before the first event."""

    def save(self, state: IndexState, objects: Objects) -> tuple[bytes, IndexState]:
        form, order = state.order.save(objects)
        root, saved = encode_state(_Form(state.keys, form), objects)
        return root, IndexState(saved.keys, order)

    def load(self, root: bytes) -> IndexState:
        form: _Form = decode_state(root, _Form, self._objects)
        return IndexState(form.keys, Tiers.load(form.order))

    def copy(self, state: IndexState) -> IndexState:
        return state

    def content(self, state: IndexState) -> bytes:
        """Of all entries, in order. O(n)."""
        hasher = blake3(b"index")
        for key, place in self.entries(state, None, None):
            hasher.update(f"{key}\0{place}\0".encode())
        return hasher.digest()

    @abstractmethod
    def entries(
        self, state: IndexState, low: str | None, high: str | None, reverse: bool = False
    ) -> Iterator[tuple[str, Any]]:
        """(key, place) of the entries of [low, high), by key and then by place."""


class LogIndex(IndexKind):
    """An index of the items of an `append_log`. Places are indexes."""

    def _initial(self) -> IndexState:
        raws = [] if bytes(self.spec.initial) == b"\xc0" else decode_items(self.spec.initial)
        return self._of_items(raws)

    def _of_items(self, raws: Sequence[bytes]) -> IndexState:
        flips = Flips(Tiers())
        keys = [self.key(raw) for raw in raws]
        for number, key in enumerate(keys):
            if key is not None:
                flips.flip(key + _END + number_text(number), True)
        flips.settle()
        return IndexState(List(keys, [1] * len(keys)), flips.done())

    def fold(self, state: IndexState, lineage: int, events: list[Event]) -> IndexState:
        keys: List[str | None] = state.keys
        flips = Flips(state.order)
        new: list[str | None] = []  # of items that were appended and are not in `keys` yet
        number = keys.weight()
        make, flip, settle, sizes = self.key, flips.flip, flips.settle, _SIZES
        for event in events:
            if event.slot is None or event.type == APPEND:
                key = make(event.raw)
                new.append(key)
                if key is not None:
                    digits = f"{number:x}"
                    flip(f"{key}\0{sizes[len(digits)]}{digits}", True)
                    if len(flips.recent) >= FLUSH:
                        settle()
                number += 1
                continue
            keys = _extended(keys, new)
            new = []
            keys = self._change(keys, flips, event)
            settle()
            number = keys.weight()
        return IndexState(_extended(keys, new), flips.done())

    def _change(self, keys: List[str | None], flips: Flips, event: Event) -> List[str | None]:
        """As `AppendLog` does it."""
        try:
            if event.type == SET:
                state = self._of_items(set_items(event))
                flips.replace(state.order)
                return state.keys  # type: ignore[no-any-return]
            if event.type == EDIT:
                index, item = edit_in(event)
                if 0 <= index < len(keys):
                    return self._edit(keys, flips, index, self.key(item))
            elif event.type == REDACT:
                start, stop = cut_in(event)
                return self._redact(keys, flips, max(0, start), min(max(0, stop), len(keys)))
        except msgspec.MsgspecError:
            pass
        return keys

    def _edit(self, keys: List[str | None], flips: Flips, at: int, key: str | None) -> List[str | None]:
        old = keys[at]
        if old == key:
            return keys
        number = number_text(keys.weight(at + 1) - 1)
        if old is not None:
            flips.flip(old + _END + number, False)
        if key is not None:
            flips.flip(key + _END + number, True)
        return keys.set(at, key)

    def _redact(self, keys: List[str | None], flips: Flips, start: int, stop: int) -> List[str | None]:
        if start >= stop:
            return keys
        if start == 0 and stop == len(keys):
            flips.replace(Tiers())
            return List()
        straight = keys.weight() == len(keys)
        for at, key in enumerate(keys[start:stop], start):
            if key is not None:
                flips.flip(key + _END + number_text(at if straight else keys.weight(at + 1) - 1), False)
        if stop < len(keys):  # the next item keeps its number
            keys = keys.set(stop, keys[stop], keys.weight(stop + 1) - keys.weight(start))
        return keys.delete(start, stop)

    def entries(
        self, state: IndexState, low: str | None, high: str | None, reverse: bool = False
    ) -> Iterator[tuple[str, int]]:
        keys: List[str | None] = state.keys
        straight = keys.weight() == len(keys)
        for entry in state.order.scan(low, high, reverse):
            key, _, number = entry.partition(_END)
            at = int(number[1:], 16)
            yield key, at if straight else keys.find(at)


def _extended(keys: List[str | None], new: list[str | None]) -> List[str | None]:
    if len(new) >= _FEW:
        return keys.extend(new, [1] * len(new))
    for key in new:
        keys = keys.append(key, 1)
    return keys


class TreeIndex(IndexKind):
    """An index of the values of a `tree`. Places are paths."""

    def _initial(self) -> IndexState:
        found = {} if bytes(self.spec.initial) == b"\xc0" else decode_payload(self.spec.initial)
        return self._changed(IndexState(Map(), Tiers()), [found.items()])

    def key_at(self, value: Any) -> str | None:
        """The key of a value of the tree."""
        try:
            return key_of(value_at(value, self.spec.path))
        except LookupError:
            return None

    def fold(self, state: IndexState, lineage: int, events: list[Event]) -> IndexState:
        return self._changed(state, map(tree_changes, events))

    def _changed(self, state: IndexState, changes: Any) -> IndexState:
        keys: Map[str] = state.keys
        flips = Flips(state.order)
        for change in changes:
            for path, value in change:
                key = None if value is msgspec.UNSET else self.key_at(value)
                old = keys.get(path)
                if old == key:
                    continue
                if old is not None:
                    flips.flip(old + _END + path, False)
                if key is None:
                    keys = keys.remove(path)
                else:
                    flips.flip(key + _END + path, True)
                    keys = keys.set(path, key)
            flips.settle()
        return IndexState(keys, flips.done())

    def entries(
        self, state: IndexState, low: str | None, high: str | None, reverse: bool = False
    ) -> Iterator[tuple[str, str]]:
        for entry in state.order.scan(low, high, reverse):
            key, _, path = entry.partition(_END)
            yield key, path


def index_kind(spec: IndexSpec, objects: Objects) -> IndexKind:
    """The reducer of this index."""
    return LogIndex(spec, objects) if spec.kind == "append_log" else TreeIndex(spec, objects)
