"""What changed in a slot between two of its states.

Here live the public `Change` and one function for each kind of slot. How collections are compared, at the
cost of what differs, is in `tree_diff`; here its findings get paths, and what lies inside changed parts is
compared in turn.

Theory of operation. Two objects (dict, `Map`, Struct of one type) are compared key by key, two arrays (list,
tuple, `List`) item by item once they are aligned; any two other values that differ are one change. Values
are equal when their stored forms are: 1 is not 1.0 and not True.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from chronicle_py.collections import List, Map, diff_lists, diff_maps, state_hash
from chronicle_py.document import DocumentState, plain
from chronicle_py.erased import Erased
from chronicle_py.errors import InvalidOperation
from chronicle_py.event import encode_payload
from chronicle_py.item_log import ItemLog

Op = Literal["add", "remove", "change"]
Path = tuple[str | int, ...]

_EXACT = frozenset((type(None), bool, int, str, bytes))  # in one of these types, == says that all is equal


class Change(msgspec.Struct, frozen=True):
    """One difference between an older state and a newer one.

    `path`: the index of the item (`append_log`), the path (`tree`), or a tuple of keys, field names and
    indexes (`document` and custom states; empty: the whole, as always for `value`). An index that ends the
    path of an "add" counts in the newer state, any other in the older one. `before` is None for an "add",
    `after` for a "remove".
    """

    op: Op
    path: str | int | Path
    before: Any
    after: Any


def diff_value(before: Any, after: Any) -> list[Change]:
    """At most one change, of the whole. The order of keys counts, as it does in the hash of a `value`."""
    if isinstance(before, Erased) or isinstance(after, Erased):
        return [] if before == after else [Change("change", (), before, after)]
    return [] if encode_payload(before) == encode_payload(after) else [Change("change", (), before, after)]


def diff_logs(a: ItemLog, b: ItemLog, read: Callable[[ItemLog, int], Any]) -> list[Change]:
    """Items added, removed and changed, in order; `read` gives an item of a log."""
    return [
        Change(
            found.op,
            found.b if found.op == "add" else found.a,
            None if found.op == "add" else read(a, found.a),
            None if found.op == "remove" else read(b, found.b),
        )
        for found in diff_lists(a, b)
    ]


def diff_trees(a: Map[Any], b: Map[Any]) -> list[Change]:
    """Paths put, removed and changed, in order."""
    return [
        Change(found.op, found.b if found.op == "add" else found.a, plain(found.before), plain(found.after))
        for found in diff_maps(a, b)
    ]


def diff_documents(a: DocumentState, b: DocumentState) -> list[Change]:
    """The smallest parts that differ, objects in the order of keys and arrays in that of items."""
    return list(_changes(a.root, b.root, ()))


def diff_custom(a: Any, b: Any) -> list[Change]:
    """As for documents, Structs by their fields; what is neither object nor array is compared as a whole."""
    return list(_changes(a, b, ()))


def _changes(a: Any, b: Any, path: Path) -> Iterator[Change]:
    if a is b:
        return
    if isinstance(a, Map) and isinstance(b, Map):
        for found in diff_maps(a, b):
            key = found.b if found.op == "add" else found.a
            yield from _found(found.op, found.before, found.after, (*path, key))
    elif _is_object(a) and _is_object(b):
        yield from _object_changes(a, b, path)
    elif isinstance(a, msgspec.Struct) and type(a) is type(b):
        for name in a.__struct_fields__:
            yield from _changes(getattr(a, name), getattr(b, name), (*path, name))
    elif _is_array(a) and _is_array(b):
        yield from _array_changes(a, b, path)
    elif not _same(a, b):
        yield Change("change", path, plain(a), plain(b))


def _found(op: Op, before: Any, after: Any, path: Path) -> Iterator[Change]:
    if op == "change":
        yield from _changes(before, after, path)
    else:
        yield Change(op, path, plain(before), plain(after))


def _object_changes(a: Mapping[str, Any], b: Mapping[str, Any], path: Path) -> Iterator[Change]:
    a, b = dict(a.items()), dict(b.items())
    for key in sorted(a.keys() | b.keys()):
        op: Op = "add" if key not in a else "remove" if key not in b else "change"
        yield from _found(op, a.get(key), b.get(key), (*path, key))


def _array_changes(a: Sequence[Any], b: Sequence[Any], path: Path) -> Iterator[Change]:
    both = isinstance(a, List) and isinstance(b, List)
    for found in diff_lists(a, b) if both else diff_lists(_marks(a), _marks(b)):  # type: ignore[arg-type]
        before = found.before if both or found.a is None else a[found.a]
        after = found.after if both or found.b is None else b[found.b]
        yield from _found(found.op, before, after, (*path, found.b if found.op == "add" else found.a))


def _marks(items: Sequence[Any]) -> List[bytes]:
    """A list to align by: what stands for each item is equal where the items are."""
    return List(map(_mark, items))


def _is_object(value: Any) -> bool:
    return isinstance(value, Map) or (isinstance(value, dict) and all(isinstance(key, str) for key in value))


def _is_array(value: Any) -> bool:
    return isinstance(value, list | tuple | List)


def _same(a: Any, b: Any) -> bool:
    if type(a) is type(b) and type(a) in _EXACT:
        return bool(a == b)
    return _mark(a) == _mark(b)


def _mark(value: Any) -> bytes:
    """Bytes that are equal where values are; raises `InvalidOperation` where a value has no stored form."""
    try:
        return state_hash(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidOperation(
            f"asked to compare states: a {type(value).__name__} in one of them cannot be stored: {error}; "
            "make states of Structs, plain values, dicts with str keys, List and Map"
        ) from None
