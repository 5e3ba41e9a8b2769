"""The state of a `document` slot: one nested value, changed by set, JSON merge patch and append.

Here live its canonical form, the three operations, and the checks of what they are given. Nothing here reads
or writes a store but through the `Objects` of the collections, or knows more of an event than type and
payload.

Theory of operation. Objects and arrays of up to 64 entries are plain dicts and lists, larger ones are `Map`
and `List`, so that growth is not rewritten. Which of the two a part is depends only on how many entries it
has and how deep it lies, and the keys of objects are kept sorted (by code points, which is the order of
their UTF-8 bytes): equal documents have equal bytes and hashes, however they came about. An operation copies
the small parts on its way and shares the rest.

What a document may hold: None, bool, numbers, str, bytes, datetimes, `BlobRef`, foreign extensions, arrays,
and objects whose keys are str of at most 256 bytes, in at most 200 levels. `check_*` refuse anything else
before an event is written; `apply` meets it in imported events only, and such an event changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, Final, NoReturn

import msgspec
from msgspec.msgpack import Ext

from chronicle_py.collections import List, Map, decode_state, encode_state, state_hash
from chronicle_py.erased import Erased
from chronicle_py.errors import CorruptStore, InvalidOperation, PathKeyError
from chronicle_py.event import BlobRef, decode_payload, encode_payload
from chronicle_py.nodes import Objects
from chronicle_py.shown import shown
from chronicle_py.values import LIST, MAP

MAX_PLAIN: Final = 64  # entries of an object or array that is kept as a dict or list
MAX_LEVELS: Final = 200
MAX_KEY: Final = 256  # bytes; a longer key could not stand in a Map
_PERSISTENT_LEVELS = 32  # below, all is plain: saving a Map inside a Map takes more of Python's stack
_RESERVED = (1, LIST, MAP)  # extensions that are not to be had as such: blob references, arrays and objects

Path = Sequence[str | int]

_OBJECT = (dict, Map)
_ARRAY = (list, List)
_SCALARS = frozenset((type(None), bool, int, float, str, bytes, datetime, BlobRef))
_DECODED = _SCALARS | {dict, list, Ext}


class DocumentState(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A document in its canonical form. Nothing beneath `root` may be changed in place: states share it."""

    root: Any


def of(value: Any) -> DocumentState:
    """The state that is this value; raises `InvalidOperation` where a document cannot hold it."""
    check_set(value)
    return DocumentState(_formed(decode_payload(encode_payload(value)), 1))


# --- folding ------------------------------------------------------------------------------------------------


def apply(state: DocumentState, event_type: str, raw: bytes | msgspec.Raw) -> DocumentState:
    """The state after one event; the same one where it does not apply. O(size of the payload · log n)."""
    operation = _OPERATIONS.get(event_type)
    if operation is None:
        return state
    try:
        return DocumentState(operation(state.root, _decoded(raw)))
    except (InvalidOperation, PathKeyError):
        return state  # an import may bring what no view would have written


def _decoded(raw: bytes | msgspec.Raw) -> Any:
    try:
        value = decode_payload(raw)
    except (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise InvalidOperation(f"a payload cannot be decoded: {error}") from None
    if isinstance(value, Erased):
        raise InvalidOperation("the payload was erased")
    return value


def _set(root: Any, value: Any) -> Any:
    _check(value, ())
    return _formed(value, 1)


def _patch(root: Any, patch: Any) -> Any:
    _check(patch, ())
    return _merged(root, patch, 1)


def _append(root: Any, payload: Any) -> Any:
    if not isinstance(payload, dict) or not isinstance(payload.get("path"), list) or "item" not in payload:
        raise InvalidOperation("the payload of an append is an object with 'path' and 'item'")
    path, item = payload["path"], payload["item"]
    _check_path(path)
    _check(item, (*path, -1))
    return _appended(root, path, 0, item)


_OPERATIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "state.set": _set,
    "state.patch": _patch,
    "state.append": _append,
}


def _formed(value: Any, level: int) -> Any:
    """The canonical form of a decoded value, in which containers lie at `level` (the root: 1) or deeper."""
    if type(value) is dict:
        return _object({key: _formed(value[key], level + 1) for key in sorted(value)}, level)
    if type(value) is list:
        return _array([_formed(item, level + 1) for item in value], level)
    return value


def _object(entries: dict[str, Any], level: int) -> Any:
    return Map(entries) if len(entries) > MAX_PLAIN and level <= _PERSISTENT_LEVELS else entries


def _array(items: list[Any], level: int) -> Any:
    return List(items) if len(items) > MAX_PLAIN and level <= _PERSISTENT_LEVELS else items


def _merged(target: Any, patch: Any, level: int) -> Any:
    """RFC 7396, MergePatch(target, patch); `target` itself where nothing changes."""
    if type(patch) is not dict:
        return _formed(patch, level)
    if not isinstance(target, _OBJECT):
        target = {}
    changed: dict[str, Any] = {}
    removed: list[str] = []
    for key, part in patch.items():
        if part is None:
            if key in target:
                removed.append(key)
        elif type(part) is dict and key in target:
            old = target[key]
            new = _merged(old, part, level + 1)
            if new is not old:
                changed[key] = new
        else:
            changed[key] = _merged(None, part, level + 1)
    if not changed and not removed:
        return target
    if type(target) is Map:
        return _changed_map(target, changed, removed)
    return _changed_dict(target, changed, removed, level)


def _changed_map(target: Map[Any], changed: dict[str, Any], removed: list[str]) -> Any:
    target = target.update(changed)
    for key in removed:
        target = target.remove(key)
    return dict(target.scan()) if removed and _is_small(target) else target


def _is_small(entries: Map[Any]) -> bool:
    return next(islice(entries, MAX_PLAIN, None), None) is None  # `len` would look at every unsettled change


def _changed_dict(target: dict[str, Any], changed: dict[str, Any], removed: list[str], level: int) -> Any:
    entries = target | changed
    for key in removed:
        del entries[key]
    if not changed.keys() <= target.keys():
        entries = {key: entries[key] for key in sorted(entries)}
    return _object(entries, level)


def _appended(node: Any, path: Path, depth: int, item: Any) -> Any:
    """`node`, which lies at path[:depth], with `item` at the end of the array at `path`."""
    if depth == len(path):
        _check_array(node, path)
        new = _formed(item, depth + 2)
        return node.append(new) if type(node) is List else _array([*node, new], depth + 1)
    key = _key(node, path, depth)
    new = _appended(node[key], path, depth + 1, item)
    if type(node) is dict:
        return node | {key: new}
    return [*node[:key], new, *node[key + 1 :]] if type(node) is list else node.set(key, new)


# --- storing ------------------------------------------------------------------------------------------------


def save(state: DocumentState, objects: Objects) -> tuple[bytes, DocumentState]:
    """The bytes of a checkpoint, and an equal state without stored nodes in memory. Writes new nodes only."""
    data, root = encode_state(state.root, objects)
    return data, DocumentState(root)


def load(root: bytes, objects: Objects) -> DocumentState:
    """The state of those bytes; raises `CorruptStore`."""
    return DocumentState(decode_state(root, Any, objects))


def content(state: DocumentState) -> bytes:
    """32 bytes, equal for equal documents."""
    try:
        return state_hash(state.root)
    except (TypeError, ValueError) as error:  # what no operation can make, and bytes that lie can hold
        raise CorruptStore(f"a document holds what no document can: {error}") from None


# --- reading ------------------------------------------------------------------------------------------------


def get(state: DocumentState, path: Path = ()) -> Any:
    """The document, or the part at `path`, as plain values that are the caller's own.

    Raises `PathKeyError` where there is no such part. Indexes may be negative, as Python's. Reads only what
    it returns, and O(log n) on the way there.
    """
    return plain(_at(state, path))


def length(state: DocumentState, path: Path = ()) -> int:
    """How many entries the object or array at `path` has.

    Raises `PathKeyError` where there is no such part, `InvalidOperation` where it is neither.
    """
    node = _at(state, path)
    if not isinstance(node, _OBJECT + _ARRAY):
        raise InvalidOperation(
            f"asked for the length of {_shown(path)}: there is {_named(node)}; objects and arrays have one"
        )
    return len(node)


def plain(value: Any) -> Any:
    """A copy with dicts and lists in place of `Map` and `List`."""
    kind = type(value)
    if kind is dict:
        return {key: plain(part) for key, part in value.items()}
    if kind is list or kind is List:
        return [plain(part) for part in value]
    if kind is Map:
        return {key: plain(part) for key, part in value.scan()}
    return value


def _at(state: DocumentState, path: Path) -> Any:
    _check_path(path)
    node = state.root
    for depth in range(len(path)):
        node = node[_key(node, path, depth)]
    return node


def _key(node: Any, path: Path, depth: int) -> Any:
    """path[depth] as a key or index of `node`, which must have it."""
    step = path[depth]
    if isinstance(node, _OBJECT):
        if isinstance(step, str) and step in node:
            return step
    elif isinstance(node, _ARRAY) and isinstance(step, int) and -len(node) <= step < len(node):
        return step if step >= 0 else step + len(node)
    raise PathKeyError(
        f"there is no {_shown(path)}: {_shown(path[:depth])} is {_named(node)} without {shown(step)}; "
        "get() shows what is there"
    )


# --- checks -------------------------------------------------------------------------------------------------


def check_set(value: Any) -> None:
    """Raises `InvalidOperation` unless a document can be this value."""
    _check(value, ())


def check_patch(patch: Any) -> None:
    """Raises `InvalidOperation` unless this can be merged into a document.

    A patch that is no object replaces the whole document, as RFC 7396 has it.
    """
    _check(patch, ())


def check_append(state: DocumentState, path: Path, item: Any) -> None:
    """Raises `PathKeyError` where there is nothing at `path`, `InvalidOperation` where that is no array or a
    document cannot hold the item."""
    node = _at(state, path)
    _check_array(node, path)
    _check(item, (*path, len(node)))


def _check_path(path: Any) -> None:
    if not isinstance(path, list | tuple):
        raise InvalidOperation(f"a path is a list of keys and indexes, like ['messages', 3], not {shown(path)}")
    for step in path:
        if not isinstance(step, str | int) or isinstance(step, bool):
            raise InvalidOperation(f"a path is made of keys (str) and indexes (int), not of {shown(step)}")


def _check_array(node: Any, path: Path) -> None:
    if not isinstance(node, _ARRAY):
        raise InvalidOperation(
            f"asked to append to {_shown(path)}: there is {_named(node)}, not an array; "
            "put an array there first, with set or patch"
        )


def _check(value: Any, path: tuple[str | int, ...]) -> None:
    """Refuse what a document cannot hold. In events all is decoded; a caller's value may be a Struct too."""
    if type(value) not in _DECODED:
        value = decode_payload(encode_payload(value))
    if type(value) is dict:
        _check_level(path)
        if not all(type(key) is str for key in value):
            value = decode_payload(encode_payload(value))
        for key, part in value.items():
            _check_key(key, path)
            if type(part) not in _SCALARS:
                _check(part, (*path, key))
    elif type(value) is list:
        _check_level(path)
        for i, part in enumerate(value):
            if type(part) not in _SCALARS:
                _check(part, (*path, i))
    elif type(value) is Ext and value.code in _RESERVED:
        _refuse(path, f"is an extension of the reserved code {value.code}", "use another code, from 16 on")


def _check_level(path: tuple[str | int, ...]) -> None:
    if len(path) >= MAX_LEVELS:
        _refuse(path[:3], f"goes deeper than {MAX_LEVELS} levels", "flatten it, or keep its inside as bytes")


def _check_key(key: Any, path: tuple[str | int, ...]) -> None:
    if not isinstance(key, str):
        _refuse(path, f"has the key {shown(key)}", "the keys of an object are str")
    if len(key) > MAX_KEY // 4 and (size := len(key.encode("utf-8", "surrogatepass"))) > MAX_KEY:
        _refuse(path, f"has a key of {size} bytes, {key[:40]!r}…", f"a key takes at most {MAX_KEY} in UTF-8")


def _refuse(path: Path, found: str, advice: str) -> NoReturn:
    raise InvalidOperation(f"a document cannot hold this: {_shown(path)} {found}; {advice}")


def _shown(path: Iterable[str | int]) -> str:
    steps = "".join(f"[{shown(step)}]" for step in path)
    return f"document{steps}"


def _named(node: Any) -> str:
    """What a node is, for messages."""
    if isinstance(node, _OBJECT):
        return f"an object of {len(node)} keys"
    if isinstance(node, _ARRAY):
        return f"an array of {len(node)} items"
    return f"the value {node!r:.40}"
