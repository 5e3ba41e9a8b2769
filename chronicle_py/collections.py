"""Persistent collections for the state of reducers.

Here are the public names, and the encoding of whole states that hold collections. How `List` and `Map` work
is in `persistent_list` and `persistent_map`; this module does no I/O but through `Objects`.

Theory of operation. A state is any value that msgspec encodes: a Struct, a dict, a collection. Its bytes
are MessagePack with all keys sorted, so equal states have equal bytes; a collection inside is an extension
with its root. A field declared `List[Msg]` or `Map[int]` comes back as a collection bound to that element
type.
"""

from typing import Any, TypeVar

import msgspec
from blake3 import blake3
from msgspec.msgpack import Encoder, Ext

from chronicle_py.errors import InvalidOperation
from chronicle_py.nodes import Objects
from chronicle_py.persistent_list import List
from chronicle_py.persistent_map import Map
from chronicle_py.tree_diff import Change, diff_lists, diff_maps
from chronicle_py.values import Extension, Unsaved, encode_extension, register_extension, value_decoder

__all__ = [
    "Change",
    "Extension",
    "List",
    "Map",
    "decode_state",
    "diff_lists",
    "diff_maps",
    "encode_state",
    "register_extension",
    "state_hash",
]

S = TypeVar("S")


def encode_state(value: S, objects: Objects) -> tuple[bytes, S]:
    """Store the collections in a state: its bytes, and an equal state that reads them from `objects`.

    Raises `InvalidOperation` where a value cannot be encoded.
    """
    saved = _saved(value, objects)
    try:
        return _encode_sorted(saved), saved
    except Unsaved:
        raise InvalidOperation(
            "a state holds a collection inside an object other than Struct, dict, list or tuple: move it"
        ) from None
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidOperation(f"a state cannot be encoded: {error}") from None


def decode_state(data: bytes, type: Any, objects: Objects | None) -> Any:
    """The state of those bytes, as `type`; raises `CorruptStore`, or `InvalidOperation` if it is another."""
    return value_decoder(type, objects)(data)


def state_hash(value: Any) -> bytes:
    """The content hash of a state: collections enter with theirs, whether saved or not."""
    return blake3(b"\x03s" + _encode_contents(value)).digest()


def _saved(value: Any, objects: Objects) -> Any:
    """The value with its collections saved; itself when there are none."""
    if isinstance(value, List | Map):
        return value.save(objects)
    if isinstance(value, msgspec.Struct):
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        changed = {name: new for name, old in fields.items() if (new := _saved(old, objects)) is not old}
        return msgspec.structs.replace(value, **changed) if changed else value
    if isinstance(value, dict):
        entries = {key: _saved(old, objects) for key, old in value.items()}
        return entries if any(entries[key] is not old for key, old in value.items()) else value
    if isinstance(value, list | tuple):
        parts = [_saved(old, objects) for old in value]
        if all(new is old for new, old in zip(parts, value, strict=True)):
            return value
        if isinstance(value, list):
            return parts
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


def _encode_content(value: Any) -> Ext:
    if isinstance(value, List | Map):
        return Ext(value.extension, value.content)
    return encode_extension(value)


_encode_sorted = Encoder(enc_hook=encode_extension, order="sorted").encode
_encode_contents = Encoder(enc_hook=_encode_content, order="sorted").encode
