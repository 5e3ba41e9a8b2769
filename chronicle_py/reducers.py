"""Reducers: the pure functions that slots are folds of. The protocol for custom ones, and the built-in kinds.

No store, clock, random source or I/O here: what a fold needs of the log (the bytes of items) and of the object store
comes in as functions. A fold is total: an event that does not apply changes nothing. So does an erased one, but where
it set a value or brought items: those read as `Erased`, and keep their places.

Inside the engine every reducer, built-in or custom, is a `Kind`: it folds a batch of events of one lineage at a time,
turns a state into the bytes of a checkpoint and back, and computes a state's content hash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

import msgspec
from blake3 import blake3

from chronicle_py import document, records
from chronicle_py.collections import Extension, List, Map, decode_state, encode_state, register_extension, state_hash
from chronicle_py.document import DocumentState
from chronicle_py.erased import ERASED_EXT, Erased, decode_erased, decode_stub, encode_erased
from chronicle_py.errors import CorruptStore, InvalidOperation, ReducerFailed
from chronicle_py.event import BlobRef, Event, EventType, bind, decode_payload, encode_payload, event_type
from chronicle_py.item_log import ItemLog, Ref
from chronicle_py.shown import shown
from chronicle_py.tree import Objects

S = TypeVar("S")

register_extension(1, Extension(BlobRef, lambda ref: bytes.fromhex(ref.hash), lambda data, _: BlobRef(data.hex())))
register_extension(ERASED_EXT, Extension(Erased, encode_erased, lambda data, _: decode_erased(data)))

SET: Final = "state.set"
APPEND: Final = "state.append"
EDIT: Final = "state.edit"
REDACT: Final = "state.redact"
PUT: Final = "state.put"
REMOVE: Final = "state.remove"
BATCH: Final = "state.batch"
PATCH: Final = "state.patch"

Fetch = Callable[[Sequence[Ref]], list[bytes]]


@runtime_checkable
class Reducer(Protocol[S]):
    """A custom reducer. Name, version and fingerprint are its identity: change one of them whenever `fold` would give
    another state for the same events, and states are folded anew.

    Optional attributes: `fingerprint` (str) of its configuration; `state_type`, the type that a checkpoint decodes to
    (default: that of `initial()`); `events`, a mapping of event types to the Structs that `fold` wants to see as
    payload, or to (Struct, version, upcasters) — all other payloads are plain values.

    The payload of an event that was erased is an `Erased`, whatever its type.
    """

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> int: ...

    def initial(self) -> S: ...

    def fold(self, state: S, event: Event) -> S: ...


class FunctionReducer(msgspec.Struct, frozen=True):
    """A reducer made of a function, see `reducer`."""

    name: str
    version: int
    start: Callable[[], Any]
    function: Callable[[Any, Event], Any]
    fingerprint: str = ""
    state_type: Any = None
    events: Mapping[str, Any] | None = None

    def initial(self) -> Any:
        return self.start()

    def fold(self, state: Any, event: Event) -> Any:
        return self.function(state, event)


def reducer(
    name: str,
    *,
    initial: Callable[[], Any],
    version: int = 1,
    fingerprint: str = "",
    state_type: Any = None,
    events: Mapping[str, Any] | None = None,
) -> Callable[[Callable[[Any, Event], Any]], FunctionReducer]:
    """Makes a reducer of a function `(state, event) -> state`; `initial` makes the state before the first event.

    @reducer("count", initial=int)
    def count(state: int, event: Event) -> int:
        return state + 1
    """

    def wrap(function: Callable[[Any, Event], Any]) -> FunctionReducer:
        return FunctionReducer(name, version, initial, function, fingerprint, state_type, events)

    return wrap


class Kind(Protocol):
    """How the engine folds, stores and hashes the states of a slot."""

    name: str
    identity: bytes  # 8 bytes; a checkpoint under another identity is not this state
    custom: bool

    def initial(self) -> Any: ...

    def fold(self, state: Any, lineage: int, events: list[Event]) -> Any:
        """Events of one lineage, in order, that concern the slot."""
        ...

    def save(self, state: Any, objects: Objects) -> tuple[bytes, Any]:
        """The bytes of a checkpoint, and an equal state that keeps no stored node in memory."""
        ...

    def load(self, root: bytes) -> Any: ...

    def content(self, state: Any) -> bytes:
        """32 bytes, equal for equal states."""
        ...

    def copy(self, state: Any) -> Any:
        """The state itself where nothing can change it in place, else a copy of it."""
        ...


def digest(*parts: object) -> bytes:
    return blake3(msgspec.msgpack.encode(parts)).digest()[:8]


# --- value ----------------------------------------------------------------------------------------------------------


class Value:
    """The last value set. Its state is where that event lies, or None before the first."""

    name = "value"
    custom = False

    def __init__(self, fetch: Fetch, initial: bytes) -> None:
        self._fetch = fetch
        self._initial = initial or encode_payload(None)
        self.identity = digest("value", 1, initial)

    def initial(self) -> tuple[int, int] | None:
        return None

    def fold(self, state: tuple[int, int] | None, lineage: int, events: list[Event]) -> tuple[int, int] | None:
        for event in reversed(events):
            if event.slot is None or event.type == SET:
                return lineage, event.seq
        return state

    def raw(self, state: tuple[int, int] | None) -> bytes:
        return self._initial if state is None else self._fetch([Ref(*state, -1, 0, 0)])[0]

    def save(self, state: tuple[int, int] | None, objects: Objects) -> tuple[bytes, tuple[int, int] | None]:
        return msgspec.msgpack.encode(state), state

    def load(self, root: bytes) -> tuple[int, int] | None:
        try:
            return _decode_place(root)
        except msgspec.MsgspecError as error:
            raise CorruptStore(f"the state of a value is no place of an event: {error}") from None

    def copy(self, state: tuple[int, int] | None) -> tuple[int, int] | None:
        return state

    def content(self, state: tuple[int, int] | None) -> bytes:
        return blake3(b"value" + self.raw(state)).digest()


# --- append_log -----------------------------------------------------------------------------------------------------


class EditPayload(msgspec.Struct):
    index: int
    item: msgspec.Raw


class RedactPayload(msgspec.Struct):
    start: int
    stop: int


_decode_place = msgspec.msgpack.Decoder(tuple[records.LineageNumber, records.Sequence] | None).decode
decode_edit = msgspec.msgpack.Decoder(EditPayload).decode
decode_items = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
decode_redact = msgspec.msgpack.Decoder(RedactPayload).decode


_MOST_ITEMS: Final = 1 << 26  # of an erased list: an import brings the number without the items

# What an operation on a list says, whether its payload is there or was erased; MsgspecError when it says nothing. The
# items of an erased one are its stub, each of them.


def set_items(event: Event) -> list[bytes]:
    """The items that a `state.set` puts in the place of all others."""
    if event.is_erased:
        (count,) = _kept(event, 1)
        return [bytes(event.raw)] * max(0, min(count, _MOST_ITEMS))
    return [bytes(item) for item in decode_items(event.raw)]


def edit_in(event: Event) -> tuple[int, bytes]:
    """The index and the new item of a `state.edit`."""
    if event.is_erased:
        return _kept(event, 1)[0], bytes(event.raw)
    edit = decode_edit(event.raw)
    return edit.index, bytes(edit.item)


def cut_in(event: Event) -> tuple[int, int]:
    """From where to where a `state.redact` takes items out."""
    if event.is_erased:
        start, stop = _kept(event, 2)
        return start, stop
    cut = decode_redact(event.raw)
    return cut.start, cut.stop


def _kept(event: Event, count: int) -> tuple[int, ...]:
    """The numbers that were kept of an erased operation, as many as are wanted."""
    stub = decode_stub(event.raw)
    numbers = msgspec.convert(None if stub is None else stub.kept, tuple[int, ...])
    if len(numbers) != count:
        raise msgspec.ValidationError(f"{len(numbers)} numbers were kept of an operation that has {count}")
    return numbers


def structure_of(event: Event) -> tuple[int, ...] | None:
    """What is kept of an operation on a list when its payload is erased: how many items it set, which one it edited,
    from where to where it redacted. None for anything else."""
    try:
        if event.type == SET:
            return (len(decode_items(event.raw)),)
        if event.type == EDIT:
            return (edit_in(event)[0],)
        if event.type == REDACT:
            return cut_in(event)
    except msgspec.MsgspecError:
        pass  # it says nothing to a list
    return None


def item_in(event: Event, sub: int) -> bytes:
    """The bytes of the item that an event brought: the whole payload (-1), or one element of it."""
    return bytes(event.raw) if sub < 0 or event.is_erased else bytes(decode_items(event.raw)[sub])


class AppendLog:
    """A list of items, each held by the event that brought it. Its state is an `ItemLog`."""

    name = "append_log"
    custom = False

    def __init__(self, fetch: Fetch, objects: Objects, initial: bytes) -> None:
        self._initial_items = len(decode_items(initial)) if initial else 0
        self._empty = ItemLog.empty(fetch, objects)
        self._fetch, self._objects = fetch, objects
        self.identity = digest("append_log", 1, initial)

    def initial(self) -> ItemLog:
        log = self._empty
        for i in range(self._initial_items):
            log = log.extend([Ref(0, 0, i, 0, 0)])
        return log

    def fold(self, state: ItemLog, lineage: int, events: list[Event]) -> ItemLog:
        at, end = 0, len(events)
        raws: list[bytes] = [e.raw for e in events if e.slot is None or e.type == APPEND]
        if len(raws) == end and events[-1].seq - events[0].seq == end - 1:  # nothing but appends, one after the other
            return state.extend_run(lineage, events[0].seq, raws)
        while at < end:
            first = events[at]
            stop = at
            while (
                stop < end and (e := events[stop]).seq - first.seq == stop - at and (e.slot is None or e.type == APPEND)
            ):
                stop += 1
            if stop > at:
                state = state.extend_run(lineage, first.seq, [e.raw for e in events[at:stop]])
                at = stop
            else:
                state = self._change(state, lineage, first)
                at += 1
        return state

    def _change(self, state: ItemLog, lineage: int, event: Event) -> ItemLog:
        try:
            if event.type == SET:
                items = set_items(event)
                refs = [Ref(lineage, event.seq, i, 0, 0) for i in range(len(items))]
                return self._empty.extend(refs, items)
            if event.type == EDIT:
                index, item = edit_in(event)
                if 0 <= index < len(state):
                    old = state.ref(index)
                    return state.set(index, Ref(old.lineage, old.seq, old.sub, lineage, event.seq), item)
            elif event.type == REDACT:
                start, stop = cut_in(event)
                return state.delete(max(0, start), max(0, stop))
        except msgspec.MsgspecError:
            pass  # an import may bring what no view would have written
        return state

    def save(self, state: ItemLog, objects: Objects) -> tuple[bytes, ItemLog]:
        saved = state.save(objects)
        return saved.encode(), saved

    def load(self, root: bytes) -> ItemLog:
        return ItemLog.decode(root, self._fetch, self._objects)

    def copy(self, state: ItemLog) -> ItemLog:
        return state

    def content(self, state: ItemLog) -> bytes:
        return state.content


# --- tree -----------------------------------------------------------------------------------------------------------


class TreeOp(msgspec.Struct, omit_defaults=True):
    """One change of a `tree`: a path with its new value, or without one a removal."""

    path: str
    value: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_decode_op = msgspec.msgpack.Decoder(TreeOp).decode
_decode_ops = msgspec.msgpack.Decoder(list[TreeOp]).decode


def tree_changes(event: Event) -> Iterator[tuple[str, Any]]:
    """What an event does to a `tree`: paths with their new values, or UNSET where they are taken out. It ends where
    the event does not apply: an import may bring what no view would have written."""
    try:
        if event.type == PUT or event.type == REMOVE:
            ops = [_decode_op(event.raw)]
        elif event.type == BATCH:
            ops = _decode_ops(event.raw)
        else:
            return
        for op in ops:
            if isinstance(op.value, msgspec.Raw):
                yield check_path(op.path), decode_payload(op.value)
            else:
                yield op.path, msgspec.UNSET
    except (msgspec.MsgspecError, InvalidOperation):
        return


def check_path(path: object) -> str:
    """A relative path of non-empty components, none of them '.' or '..'."""
    if not isinstance(path, str) or not path:
        raise InvalidOperation(f"a path is a non-empty str, not {shown(path)}")
    if path.startswith("/"):
        raise InvalidOperation(f"a path is relative, without a leading '/': {shown(path)}")
    if "\0" in path or any(part in ("", ".", "..") for part in path.split("/")):
        raise InvalidOperation(f"a path has no empty, '.' or '..' component and no NUL: {shown(path)}")
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        raise InvalidOperation(f"a path is valid Unicode, without lone surrogates: {shown(path)}") from None
    if size > 256:
        raise InvalidOperation(f"a path has at most 256 bytes of UTF-8, this one has {size}: {path[:40]!r}…")
    return path


class Tree:
    """Paths in the order of their UTF-8 bytes, each with a value. Its state is a `Map`."""

    name = "tree"
    custom = False

    def __init__(self, objects: Objects, initial: bytes) -> None:
        self._objects = objects
        self._initial: Map[Any] = Map(decode_payload(initial)) if initial else Map()
        self.identity = digest("tree", 1, initial)

    def initial(self) -> Map[Any]:
        return self._initial

    def fold(self, state: Map[Any], lineage: int, events: list[Event]) -> Map[Any]:
        for event in events:
            for path, value in tree_changes(event):
                if value is not msgspec.UNSET:
                    state = state.set(path, value)
                elif path in state:
                    state = state.remove(path)
        return state

    def save(self, state: Map[Any], objects: Objects) -> tuple[bytes, Map[Any]]:
        saved = state.save(objects)
        return saved.encode(), saved

    def load(self, root: bytes) -> Map[Any]:
        return Map.decode(root, self._objects)

    def copy(self, state: Map[Any]) -> Map[Any]:
        return state

    def content(self, state: Map[Any]) -> bytes:
        return bytes.fromhex(state.hash)


# --- custom ---------------------------------------------------------------------------------------------------------


def _event_types(given: Mapping[str, Any]) -> dict[str, EventType]:
    if not isinstance(given, Mapping):
        raise InvalidOperation(f"a reducer's `events` maps event types to Structs; {shown(given)} is no mapping")
    found = {}
    for name, kind in given.items():
        parts = kind if isinstance(kind, tuple) else (kind,)
        if not isinstance(name, str) or not 1 <= len(parts) <= 3:
            raise InvalidOperation(
                "a reducer's `events` maps event types to a Struct, or to (Struct, version, upcasters), not "
                f"{shown(name)} to {shown(kind)}"
            )
        found[name] = event_type(name, *parts)
    return found


def _schema(types: Mapping[str, EventType]) -> list[Any]:
    """What of the declared payload types a fold depends on."""
    found = []
    for name, kind in sorted(types.items()):
        try:
            shape: Any = msgspec.json.encode(msgspec.json.schema(kind.struct), order="sorted")
        except TypeError:
            shape = getattr(kind.struct, "__qualname__", "")
        found.append([name, shape, kind.version, sorted(kind.upcast)])
    return found


class Custom:
    """A slot folded by an application's reducer."""

    custom = True

    def __init__(self, slot: str, source: Reducer[Any], objects: Objects) -> None:
        self.name = source.name
        self.slot = slot
        self.source = source
        self._objects = objects
        events = getattr(source, "events", None)
        self._types = {} if events is None else _event_types(events)
        fingerprint = getattr(source, "fingerprint", "")
        if not isinstance(fingerprint, str) or not fingerprint.isascii():
            raise InvalidOperation(f"a reducer's fingerprint is a str of ASCII characters, not {shown(fingerprint)}")
        self.fingerprint = fingerprint
        self._state_type: Any = getattr(source, "state_type", None)
        start = self.initial()
        if self._state_type is None:
            self._state_type = type(start) if isinstance(start, msgspec.Struct) else Any
        try:
            msgspec.msgpack.Decoder(self._state_type)
        except Exception as error:  # a TypeError, or what the type itself raises
            raise InvalidOperation(
                f"the state_type of reducer {self.name!r} is no type that msgspec can decode: {error!s:.300}"
            ) from None
        self.identity = digest("custom", source.name, source.version, self.fingerprint, _schema(self._types))

    def initial(self) -> Any:
        try:
            return self.copy(self.source.initial())
        except Exception as error:
            raise ReducerFailed(
                f"reducer {self.name!r} of slot {self.slot!r} raised {type(error).__name__} when asked for its initial "
                f"state: {error}. Mend its initial()"
            ) from error

    def fold(self, state: Any, lineage: int, events: list[Event]) -> Any:
        fold = self.source.fold
        types = self._types
        event: Event | None = None
        try:
            for event in events:
                if types:
                    bind(event, types)
                state = fold(state, event)
        except Exception as error:
            where = f"{event.type!r} at sequence {event.seq} ({event.id[:12]})" if event is not None else "no event"
            raise ReducerFailed(
                f"reducer {self.name!r} of slot {self.slot!r} raised {type(error).__name__} on event {where}: {error}. "
                "Other slots are not affected; mend the reducer and raise its version"
            ) from error
        return state

    def save(self, state: Any, objects: Objects) -> tuple[bytes, Any]:
        try:
            return encode_state(state, objects)
        except (InvalidOperation, TypeError, ValueError, OverflowError) as error:
            raise self._unstorable(error) from error

    def _unstorable(self, error: Exception) -> ReducerFailed:
        return ReducerFailed(
            f"the state of slot {self.slot!r} has no stored form: {error}. A state is made of Structs, plain values "
            "with str keys, List and Map"
        )

    def load(self, root: bytes) -> Any:
        return decode_state(root, self._state_type, self._objects)

    def content(self, state: Any) -> bytes:
        try:
            return state_hash(state)
        except (InvalidOperation, TypeError, ValueError, OverflowError) as error:
            raise self._unstorable(error) from error

    def copy(self, state: Any) -> Any:
        """The state itself where nothing can change it in place, else a copy of it."""
        return state if _immutable(state) else deepcopy(state)


def _immutable(state: Any) -> bool:
    if isinstance(state, msgspec.Struct):
        return state.__struct_config__.frozen and all(_immutable(getattr(state, f)) for f in state.__struct_fields__)
    if isinstance(state, tuple):
        return all(map(_immutable, state))
    return state is None or isinstance(state, str | bytes | int | float | bool | frozenset | List | Map)


BUILT_IN: Final = ("value", "append_log", "tree", "document")


def built_in(kind: str, initial: bytes, fetch: Fetch, objects: Objects) -> Kind:
    """The built-in kind of this name."""
    if kind == "value":
        return Value(fetch, initial)
    if kind == "append_log":
        return AppendLog(fetch, objects, initial)
    if kind == "tree":
        return Tree(objects, initial)
    return DocumentKind(objects, initial)


class DocumentKind:
    """A nested document. Its state is a `DocumentState`, see document.py."""

    name = "document"
    custom = False

    def __init__(self, objects: Objects, initial: bytes) -> None:
        self._objects = objects
        self._initial = document.of(decode_payload(initial)) if initial else document.of({})
        self.identity = digest("document", 1, initial)

    def initial(self) -> DocumentState:
        return self._initial

    def fold(self, state: DocumentState, lineage: int, events: list[Event]) -> DocumentState:
        for event in events:
            state = document.apply(state, event.type, event.raw)
        return state

    def save(self, state: DocumentState, objects: Objects) -> tuple[bytes, DocumentState]:
        return document.save(state, objects)

    def load(self, root: bytes) -> DocumentState:
        return document.load(root, self._objects)

    def copy(self, state: DocumentState) -> DocumentState:
        return state

    def content(self, state: DocumentState) -> bytes:
        return document.content(state)
