"""Payloads as JSON. Pure.

Readable JSON says less than MessagePack: it has no bytes, no NaN, no keys that are numbers. So there are two directions
that are not each other's inverse:

    to_json    any payload as JSON for people and programs: {"$blob": hex}, {"$bytes": base64}, {"$float": "nan"},
               {"$time": ISO 8601}, {"$ext": [code, base64]}, {"$erased": …}; a key that is no string is shown as one
    from_json  JSON as a payload, in which {"$blob": hex} alone is special: a reference to a blob

`faithful` tells whether a payload's JSON leads back to the very same bytes.
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from chronicle_py.erased import Erased
from chronicle_py.errors import InvalidOperation
from chronicle_py.event import BlobRef, decode_payload, encode_payload

_BLOB_KEY = "$blob"
_BLOB_TEXT = b'"$blob"'


def to_json(value: Any) -> Any:
    """A value as what JSON can hold."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": str(value)}
    if isinstance(value, dict):
        return {key if isinstance(key, str) else str(to_json(key)): to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return {"$bytes": b64encode(value).decode()}
    if isinstance(value, BlobRef):
        return {_BLOB_KEY: value.hash}
    if isinstance(value, Erased):
        return {"$erased": {"reason": value.reason, "time": value.time}}
    if isinstance(value, datetime):
        return {"$time": value.isoformat()}
    if isinstance(value, msgspec.msgpack.Ext):
        return {"$ext": [value.code, b64encode(value.data).decode()]}
    if isinstance(value, Mapping):  # of a state: a persistent one
        return to_json(dict(value.items()))
    if isinstance(value, Sequence):
        return to_json(list(value))
    if isinstance(value, msgspec.Struct):
        return {name: to_json(getattr(value, name)) for name in value.__struct_fields__}
    return to_json(msgspec.to_builtins(value))


def from_json(text: bytes | str | msgspec.Raw) -> bytes:
    """The payload bytes of a JSON text. InvalidOperation when it is no JSON or cannot be a payload."""
    data = text.encode(errors="surrogateescape") if isinstance(text, str) else bytes(text)
    try:
        value = msgspec.json.decode(data)
        return encode_payload(_with_blobs(value) if _BLOB_TEXT in data else value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidOperation(f"this is no JSON: {error}") from None


def _with_blobs(value: Any) -> Any:
    if isinstance(value, dict):
        if len(value) == 1 and isinstance(value.get(_BLOB_KEY), str):
            return BlobRef(value[_BLOB_KEY])
        return {key: _with_blobs(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_blobs(item) for item in value]
    return value


def _quick(value: Any) -> Any:
    if isinstance(value, BlobRef):
        return {_BLOB_KEY: value.hash}
    raise TypeError


_encode_quickly = msgspec.json.Encoder(enc_hook=_quick).encode


def faithful(payload: bytes) -> tuple[bytes, bool]:
    """The JSON text of a payload, and whether it leads back to the same bytes. About 2 µs for a small one."""
    try:
        value = decode_payload(payload)
        try:
            text = _encode_quickly(value)
            if from_json(text) == payload:
                return text, True
        except (InvalidOperation, TypeError, ValueError, msgspec.MsgspecError):
            pass  # it holds what JSON has no word for
        return msgspec.json.encode(to_json(value)), False
    except (RecursionError, TypeError, ValueError, msgspec.MsgspecError):
        return b"null", False
