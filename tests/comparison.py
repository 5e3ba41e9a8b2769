"""Comparing a view with the model's state of the same events.

Each check reads the view in every way it offers, and returns the content that the state's hash must stand for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from model import Item, Spec

from chronicle_py.erased import ERASED_EXT, encode_erased


def _encode_erased(value: Any) -> msgspec.msgpack.Ext:
    return msgspec.msgpack.Ext(ERASED_EXT, encode_erased(value))


encode = msgspec.msgpack.Encoder(enc_hook=_encode_erased).encode
encode_sorted = msgspec.msgpack.Encoder(enc_hook=_encode_erased, order="sorted").encode


def _check_value(view: Any, state: Any) -> bytes:
    assert encode(view.get()) == encode(state)
    return encode(state)


def _check_log(view: Any, state: list[Item]) -> bytes:
    values = [item.value for item in state]
    content = encode(values)
    assert encode(list(view)) == content
    assert len(view) == len(values)
    assert encode(view.tail(3)) == encode(values[-3:])
    assert encode(list(reversed(view))) == encode(values[::-1])
    assert b"".join(view.raw()) == b"".join(map(encode, values))
    for index in {0, len(values) // 2, len(values) - 1} if values else ():
        item = state[index]
        assert encode(view[index]) == encode(view[index - len(values)]) == encode(item.value)
        if item.origin is not None:
            assert view.origin(index).id == item.origin
        edited = view.edited(index)
        assert (None if edited is None else edited.id) == item.edited
    middle = len(values) // 3
    assert encode(view[middle : 2 * middle]) == encode(values[middle : 2 * middle])
    with pytest.raises(IndexError):
        view[len(values)]
    return content


def _check_tree(view: Any, state: dict[str, Any]) -> bytes:
    wanted = sorted(state.items(), key=lambda pair: pair[0].encode())
    assert encode(list(view.items())) == encode(wanted)
    assert len(view) == len(state)
    assert view.list("src") == [path for path, _ in wanted if path == "src" or path.startswith("src/")]
    assert "never/there" not in view
    for path in list(state)[:3]:
        assert encode(view[path]) == encode(state[path])
    return encode(wanted)


def _check_document(view: Any, state: Any) -> bytes:
    assert encode_sorted(view.get()) == encode_sorted(state)
    if isinstance(state, dict):
        for key in list(state)[:3]:
            assert encode_sorted(view.get([key])) == encode_sorted(state[key])
    return encode_sorted(state)


def _check_tally(view: Any, state: dict[str, Any]) -> bytes:
    found = view.get()
    assert found.n == state["n"]
    assert dict(found.by_type) == state["by_type"]
    assert encode(list(found.recent)) == encode(state["recent"])
    return encode_sorted(state)


def _check_scratch(view: Any, state: list[Any]) -> bytes:
    assert view.get() == state
    return encode(state)


CHECKS: dict[str, Callable[[Any, Any], bytes]] = {
    "value": _check_value,
    "append_log": _check_log,
    "tree": _check_tree,
    "document": _check_document,
    "tally": _check_tally,
    "scratch": _check_scratch,
}


def arrays_in(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    """The paths of the arrays in a document."""
    if isinstance(value, list):
        yield path
    for key, part in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from arrays_in(part, (*path, key))


def plain(state: Any) -> Any:
    """A model's state, with the values of a log's items alone."""
    if isinstance(state, list) and state and isinstance(state[0], Item):
        return [item.value for item in state]
    return state


def canonical(spec: Spec, state: Any) -> bytes:
    if spec.kind == "tree":
        return encode(sorted(state.items()))
    return encode(state) if spec.kind in ("value", "append_log") else encode_sorted(state)
