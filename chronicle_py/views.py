"""What `branch.state(slot)` returns: a slot's state, to be read and changed like Python's own containers.

A live view reads the head of its branch once at each call; an iteration keeps the head it began with. A view made with
`at=` is fixed: it holds one state and cannot be changed. Changing a slot appends one event; what is asked for is
checked against the state first, in the same transaction, so that a refused call leaves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard, TypeVar, overload

import msgspec

from chronicle_py import document
from chronicle_py.branches import read_ref
from chronicle_py.collections import Map
from chronicle_py.errors import InvalidOperation, ItemIndexError, PathKeyError, ReadOnly
from chronicle_py.event import Event, encode_payload, stored_payload
from chronicle_py.item_log import ItemLog
from chronicle_py.kv import Reader
from chronicle_py.log import BATCH
from chronicle_py.reducers import (
    APPEND,
    EDIT,
    PATCH,
    PUT,
    REDACT,
    REMOVE,
    SET,
    Custom,
    Kind,
    Value,
    check_path,
)  # fmt: skip
from chronicle_py.reducers import (
    BATCH as TREE_BATCH,
)
from chronicle_py.shown import shown
from chronicle_py.transaction import Transaction, while_kept

if TYPE_CHECKING:
    from chronicle_py.branch import Branch
    from chronicle_py.index_view import IndexView

T = TypeVar("T")
Ids = Iterable[str | Event]


def listed(what: str, ids: Ids) -> tuple[str | Event, ...]:
    """The ids that a caller gave, walked on its own thread: an iterable may run code of its own."""
    if isinstance(ids, str | Event):
        raise InvalidOperation(f"{what} is a sequence of event ids, not one id; write ({shown(ids)},)")
    if not isinstance(ids, Iterable):
        raise InvalidOperation(f"{what} is a sequence of event ids, not {shown(ids)}")
    return tuple(ids)


class Fixed(NamedTuple):
    """The one state of a view made with `at=`."""

    seq: int
    state: Any
    within: Transaction | None  # the transaction it was read in, whose abort makes it void
    lineage: int  # where the sequence lies


class View:
    """What all views have."""

    def __init__(self, branch: Branch, slot: str, fixed: Fixed | None = None) -> None:
        self._branch = branch
        self._slot = slot
        self._fixed = fixed
        self._seen: tuple[tuple[int, int] | None, int, Any] = (None, 0, None)  # snapshot, sequence, state

    def _now(self) -> tuple[int, Any]:
        """(sequence, state): the fixed one, or that at the head."""
        fixed = self._fixed
        if fixed is not None:
            if fixed.within is not None and fixed.within.aborted:
                raise InvalidOperation(
                    f"this state of slot {self._slot!r} was read in a transaction that was not kept; read it again"
                )
            return fixed.seq, fixed.state
        with self._branch.engine.read() as reader:
            return self._at_head(reader)

    def _at_head(self, reader: Reader) -> tuple[int, Any]:
        """(sequence, state) at the head, looked up once for each snapshot."""
        snapshot, seq, state = self._seen
        if snapshot is not None and snapshot == reader.snapshot:
            return seq, state
        seq, state = self._find(reader)
        self._seen = (reader.snapshot, seq, state)
        return seq, state

    def _find(self, reader: Reader) -> tuple[int, Any]:
        engine = self._branch.engine
        ref = read_ref(reader, self._branch.name)
        slot = engine.slots.table(reader).get(self._slot)
        return ref.seq, engine.checkpoints.state(reader, ref.lineage, ref.seq, slot)

    def _kind(self) -> Kind:
        engine = self._branch.engine
        with engine.read() as reader:
            return engine.slots.table(reader).get(self._slot).kind

    @property
    def seq(self) -> int:
        """The sequence that this state is of."""
        return self._now()[0]

    @property
    def hash(self) -> str:
        """64 hex digits, equal for equal states however they were reached. Cost: O(log n + K)."""
        return self._kind().content(self._now()[1]).hex()

    def _operate(
        self, type: str, payload: bytes, caused_by: Ids, linked_to: Ids, expect: str | Event | int | None
    ) -> Event:
        self._writable()
        return self._branch.operate(self._slot, type, payload, caused_by, linked_to, expect)

    def _change(
        self,
        type: str,
        payload: Callable[[Any], bytes],
        caused_by: Ids,
        linked_to: Ids,
        expect: str | Event | int | None,
    ) -> Event:
        """As `_operate`, with a payload that is made of, or refused for, the state at the head."""
        self._writable()
        caused_by, linked_to = listed("caused_by", caused_by), listed("linked_to", linked_to)
        return self._branch.engine.run(
            lambda tx: self._operate(type, payload(self._state_in(tx)), caused_by, linked_to, expect)
        )

    def _writable(self) -> None:
        if self._fixed is not None:
            raise ReadOnly(
                f"this view shows slot {self._slot!r} as it was at sequence {self._fixed.seq}; change the slot through "
                f"branch.state({self._slot!r}), or fork the branch there"
            )

    def _state_in(self, tx: Transaction) -> Any:
        """The state at the head inside a transaction."""
        tx.flush()
        ref = tx.ref(self._branch.name)
        engine = self._branch.engine
        slot = engine.slots.table(tx.writer).get(self._slot)
        return engine.checkpoints.state(tx.writer, ref.lineage, ref.seq, slot)

    def __repr__(self) -> str:
        where = f" at {self._fixed.seq}" if self._fixed is not None else ""
        return f"<{type(self).__name__} {self._slot!r} of branch {self._branch.name!r}{where}>"


class ValueView(View):
    """A `value` slot."""

    def get(self) -> Any:
        """The value last set, the initial one (None unless given) before."""
        kind = self._kind()
        assert isinstance(kind, Value)
        return stored_payload(kind.raw(self._now()[1]))

    def set(
        self, value: Any, *, caused_by: Ids = (), linked_to: Ids = (), expect: str | Event | int | None = None
    ) -> Event:
        return self._operate(SET, encode_payload(value), caused_by, linked_to, expect)


class CustomView(View):
    """A slot with a reducer of the application's own."""

    def get(self) -> Any:
        """The state. A state that could be changed in place is returned as a copy: O(its size)."""
        kind = self._kind()
        assert isinstance(kind, Custom)
        return kind.copy(self._now()[1])


class DocumentView(View):
    """A `document` slot."""

    def get(self, path: Sequence[str | int] = ()) -> Any:
        """The document, or the part of it at a path of keys and indexes; reads only what it returns."""
        return document.get(self._now()[1], path)

    def set(
        self, value: Any, *, caused_by: Ids = (), linked_to: Ids = (), expect: str | Event | int | None = None
    ) -> Event:
        document.check_set(value)
        return self._operate(SET, encode_payload(value), caused_by, linked_to, expect)

    def patch(
        self, patch: Any, *, caused_by: Ids = (), linked_to: Ids = (), expect: str | Event | int | None = None
    ) -> Event:
        """A JSON merge patch (RFC 7396): objects are merged, None removes a key, all else replaces."""
        document.check_patch(patch)
        return self._operate(PATCH, encode_payload(patch), caused_by, linked_to, expect)

    def append(
        self,
        path: Sequence[str | int],
        item: Any,
        *,
        caused_by: Ids = (),
        linked_to: Ids = (),
        expect: str | Event | int | None = None,
    ) -> Event:
        """Appends to the array at a path. O(log n)."""

        def payload(state: Any) -> bytes:
            document.check_append(state, path, item)
            return encode_payload({"path": list(path), "item": item})

        return self._change(APPEND, payload, caused_by, linked_to, expect)


class TreeView(View, Mapping[str, Any]):
    """A `tree` slot: a mapping from paths to values, in the order of the paths' UTF-8 bytes."""

    def _map(self) -> Map[Any]:
        found: Map[Any] = self._now()[1]
        return found

    def __getitem__(self, path: str) -> Any:
        if not _is_path(path):
            raise PathKeyError(
                f"slot {self._slot!r} of branch {self._branch.name!r} has no path {shown(path)}: it is no path"
            )
        found = self._map()
        try:
            return found[path]
        except KeyError:
            raise PathKeyError(
                f"slot {self._slot!r} of branch {self._branch.name!r} has no path {shown(path)}"
            ) from None

    def __contains__(self, path: object) -> bool:
        return _is_path(path) and path in self._map()

    def __iter__(self) -> Iterator[str]:
        return iter(self._map())

    def __len__(self) -> int:
        return len(self._map())

    def items(self) -> Any:
        """The pairs, of one state."""
        return self._map().items()

    def list(self, prefix: str = "") -> list[str]:
        """The paths at and below a prefix of whole components: `list("src")` has "src/a.py" and not "srcs"."""
        return [path for path, _ in self.scan(prefix)]

    def scan(self, prefix: str = "") -> Iterator[tuple[str, Any]]:
        """The pairs at and below a prefix of whole components. O(log n + what it yields)."""
        if not isinstance(prefix, str):
            raise InvalidOperation(f"a prefix of paths is a str, not {shown(prefix)}")
        found = self._map()
        prefix = prefix.rstrip("/")
        if not prefix:
            return iter(found.items())
        check_path(prefix)
        own = [(prefix, found[prefix])] if prefix in found else []
        return iter(own + list(found.scan(prefix + "/")))

    def where(self, path: str | Sequence[str | int]) -> IndexView:
        """The index of this slot by a path, made by `store.register_index`, at this view's place."""
        from chronicle_py.index_view import where  # which is made of views

        return where(self, path)

    def put(
        self,
        path: str,
        value: Any,
        *,
        caused_by: Ids = (),
        linked_to: Ids = (),
        expect: str | Event | int | None = None,
    ) -> Event:
        payload = encode_payload({"path": check_path(path), "value": value})
        return self._operate(PUT, payload, caused_by, linked_to, expect)

    def remove(
        self, path: str, *, caused_by: Ids = (), linked_to: Ids = (), expect: str | Event | int | None = None
    ) -> Event:
        """Takes a path out; PathKeyError (a NotFound) when it is not there."""
        self._writable()
        encoded = encode_payload({"path": check_path(path)})

        def payload(state: Map[Any]) -> bytes:
            self._must_have(state, path)
            return encoded

        return self._change(REMOVE, payload, caused_by, linked_to, expect)

    def batch(
        self,
        ops: Iterable[Sequence[Any]],
        *,
        caused_by: Ids = (),
        linked_to: Ids = (),
        expect: str | Event | int | None = None,
    ) -> Event:
        """Several changes as one event: ("put", path, value) and ("remove", path), applied in order."""
        self._writable()
        if not isinstance(ops, Iterable):
            raise InvalidOperation(f"batch takes a list of operations, not {shown(ops)}")
        changes: list[dict[str, Any]] = []
        for op in ops:
            if isinstance(op, tuple | list) and len(op) == 3 and op[0] == "put":
                changes.append({"path": check_path(op[1]), "value": op[2]})
            elif isinstance(op, tuple | list) and len(op) == 2 and op[0] == "remove":
                changes.append({"path": check_path(op[1])})
            else:
                raise InvalidOperation(f'a tree operation is ("put", path, value) or ("remove", path), not {shown(op)}')
        encoded = encode_payload(changes)

        def payload(state: Map[Any]) -> bytes:
            there: dict[str, bool] = {}
            for change in changes:
                path = change["path"]
                if "value" not in change and not there.get(path, False):
                    if path in there:
                        raise self._missing(path)
                    self._must_have(state, path)
                there[path] = "value" in change
            return encoded

        return self._change(TREE_BATCH, payload, caused_by, linked_to, expect)

    def _must_have(self, state: Map[Any], path: str) -> None:
        if path not in state:
            raise self._missing(path)

    def _missing(self, path: str) -> PathKeyError:
        return PathKeyError(
            f"removing {shown(path)}: slot {self._slot!r} of branch {self._branch.name!r} has no such path; .list() "
            "shows those there are"
        )


def _is_path(path: object) -> TypeGuard[str]:
    try:
        check_path(path)
    except InvalidOperation:
        return False
    return True


class LogView(View, Sequence[Any]):
    """An `append_log` slot: a sequence of items."""

    def _items(self) -> ItemLog:
        found: ItemLog = self._now()[1]
        return found

    # --- reading ---

    def __len__(self) -> int:
        return len(self._items())

    @overload
    def __getitem__(self, index: int) -> Any: ...

    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            log = self._items()
            try:
                start, stop, step = index.indices(len(log))
            except (TypeError, ValueError) as error:
                raise InvalidOperation(f"reading {shown(index)} of slot {self._slot!r}: {error}") from None
            if step == 1:
                return [stored_payload(raw) for raw in self._raw(log, start, max(start, stop))]
            return [self._item(log, i) for i in range(start, stop, step)]
        return self._one(index)

    def __iter__(self) -> Iterator[Any]:
        log = self._items()
        found = (stored_payload(raw) for raw in self._raw(log, 0, len(log)))
        return while_kept(found, self._branch.engine.running())

    def __reversed__(self) -> Iterator[Any]:
        return while_kept(self._backwards(self._items()), self._branch.engine.running())

    def _backwards(self, log: ItemLog) -> Iterator[Any]:
        for stop in range(len(log), 0, -BATCH):
            yield from map(stored_payload, reversed(list(self._raw(log, max(0, stop - BATCH), stop))))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, LogView):
            return self.hash == other.hash
        if isinstance(other, Sequence) and not isinstance(other, str | bytes):
            return list(self) == list(other)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def tail(self, n: int) -> list[Any]:
        """The last n items, or all where there are fewer. O(log n + n)."""
        if not isinstance(n, int) or isinstance(n, bool) or n < 0:
            raise InvalidOperation(f"tail takes a number of items from 0, not {shown(n)}")
        log = self._items()
        return [stored_payload(raw) for raw in self._raw(log, max(0, len(log) - n), len(log))]

    def raw(self) -> list[bytes]:
        """All items as the MessagePack bytes they are stored in. The fastest way to read a whole log."""
        log = self._items()
        return list(self._raw(log, 0, len(log)))

    def origin(self, index: int) -> Event:
        """The event that brought an item, whether it was edited since or not."""
        ref = self._ref(index)
        if ref.lineage == 0:
            raise InvalidOperation(f"item {index} of slot {self._slot!r} is an initial one; no event brought it")
        return self._event(ref.lineage, ref.seq)

    def edited(self, index: int) -> Event | None:
        """The event that last edited an item, or None."""
        ref = self._ref(index)
        return self._event(ref.edit_lineage, ref.edit_seq) if ref.edit_seq else None

    def where(self, path: str | Sequence[str | int]) -> IndexView:
        """The index of this slot by a path, made by `store.register_index`, at this view's place."""
        from chronicle_py.index_view import where  # which is made of views

        return where(self, path)

    def _ref(self, index: int) -> Any:
        log = self._items()
        return log.ref(self._index(log, index))

    def _event(self, lineage: int, seq: int) -> Event:
        engine = self._branch.engine
        with engine.read() as reader:
            return engine.log.at(reader, lineage, seq)

    def _index(self, log: ItemLog, index: object) -> int:
        if not isinstance(index, int) or isinstance(index, bool):
            raise InvalidOperation(f"an item is named by its index (int), not by {shown(index)}")
        length = len(log)
        if not -length <= index < length:
            raise ItemIndexError(
                f"slot {self._slot!r} of branch {self._branch.name!r} has {length} items, there is no item "
                f"{shown(index)}"
            )
        return index if index >= 0 else length + index

    def _item(self, log: ItemLog, index: int) -> Any:
        return stored_payload(log.fetch([log.ref(index)])[0])

    def _one(self, index: int) -> Any:
        """One item, found and read under one snapshot."""
        if self._fixed is not None:
            log = self._items()
            return self._item(log, self._index(log, index))
        engine = self._branch.engine
        with engine.read() as reader:
            log = self._at_head(reader)[1]
            try:
                ref = log.ref(index if type(index) is int else self._index(log, index))
            except IndexError:
                ref = log.ref(self._index(log, index))  # says it in a view's words
            if ref.edit_seq or ref.sub >= 0:
                return stored_payload(log.fetch([ref])[0])
            return stored_payload(engine.log.at(reader, ref.lineage, ref.seq).raw)

    def _raw(self, log: ItemLog, start: int, stop: int) -> Iterator[bytes]:
        """The items' bytes, runs of neighbouring events by one walk each."""
        engine = self._branch.engine
        for run in log.runs(start, stop):
            if len(run) != 3:
                yield log.fetch([run])[0]
                continue
            lineage, first, count = run
            for at in range(first, first + count, BATCH):
                with engine.read() as reader:
                    events = engine.log.events(reader, lineage, at, min(at + BATCH, first + count) - 1)
                for event in events:
                    yield bytes(event.raw)

    # --- changing ---

    def append(
        self, item: Any, *, caused_by: Ids = (), linked_to: Ids = (), expect: str | Event | int | None = None
    ) -> Event:
        if self._fixed is not None:
            self._writable()
        return self._branch.operate(self._slot, APPEND, encode_payload(item), caused_by, linked_to, expect)

    def edit(
        self,
        index: int,
        item: Any,
        *,
        caused_by: Ids = (),
        linked_to: Ids = (),
        expect: str | Event | int | None = None,
    ) -> Event:
        """Replaces one item; ItemIndexError (an IndexError) outside. Its origin stays known."""
        self._writable()
        raw = msgspec.Raw(encode_payload(item))

        def payload(state: ItemLog) -> bytes:
            return encode_payload({"index": self._index(state, index), "item": raw})

        return self._change(EDIT, payload, caused_by, linked_to, expect)

    def redact(
        self,
        start: int,
        stop: int,
        *,
        caused_by: Ids = (),
        linked_to: Ids = (),
        expect: str | Event | int | None = None,
    ) -> Event:
        """Takes the items [start, stop) out of the log, clamped to its length; 0 ≤ start ≤ stop."""
        for bound in (start, stop):
            if not isinstance(bound, int) or isinstance(bound, bool):
                raise InvalidOperation(f"redact takes two indexes (int), not {shown(bound)}")
        if not 0 <= start <= stop:
            raise InvalidOperation(f"redact takes 0 <= start <= stop, not {shown(start)} and {shown(stop)}")

        def payload(state: ItemLog) -> bytes:
            length = len(state)
            return encode_payload({"start": min(start, length), "stop": min(stop, length)})

        return self._change(REDACT, payload, caused_by, linked_to, expect)

    def set(
        self, items: Iterable[Any], *, caused_by: Ids = (), linked_to: Ids = (), expect: str | Event | int | None = None
    ) -> Event:
        """Replaces the whole log."""
        if isinstance(items, str | bytes | Mapping) or not isinstance(items, Iterable):
            raise InvalidOperation(f"set takes the items as a list, not {shown(items)}")
        return self._operate(SET, encode_payload(list(items)), caused_by, linked_to, expect)


VIEWS: dict[str, type[View]] = {
    "value": ValueView,
    "append_log": LogView,
    "tree": TreeView,
    "document": DocumentView,
    "custom": CustomView,
}
__all__ = ["VIEWS", "CustomView", "DocumentView", "Fixed", "LogView", "TreeView", "ValueView", "View"]
