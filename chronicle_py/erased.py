"""What is left of an erased payload: why and when it was erased, and what folds still have to know. Pure.

Theory of operation. An erased event has, in the place of its salt, the digest of salt and payload, so that its id can
still be checked; and in the place of its payload a *stub*, one MessagePack extension. So whatever reads a payload, or
an item that is one, reads an `Erased`. The stub does not enter the id; a checksum under the id stands in it instead.

What folds have to know is the shape of an operation on a list, without which later operations would hit other items:
how many items a `state.set` brought, which one a `state.edit` replaced, which ones a `state.redact` took out. The layer
that made an event may have something kept that its own folds need.
"""

from __future__ import annotations

from typing import Any, Final
from zlib import crc32

import msgspec

from chronicle_py.names import check_name

ERASED_EXT: Final = 4  # a stub. In a collection, an entry of 32 bytes under this code is an address, see values.py
DIGEST_SIZE: Final = 32


class Erased:
    """Stands where an erased payload, or an item of one, was. `reason` as it was given, `time` in µs since the epoch.

    Two are equal when they are of the same event: what was erased elsewhere was something else.
    """

    __slots__ = ("_data", "reason", "time")

    def __init__(self, reason: str, time: int, data: bytes = b"") -> None:
        self.reason = reason
        self.time = time
        self._data = data  # of the stub that it was read from

    def __repr__(self) -> str:
        return f"Erased({self.reason!r}, {self.time})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Erased) and encode_erased(other) == encode_erased(self)

    def __hash__(self) -> int:
        return hash((self.reason, self.time))


class Stub(msgspec.Struct, array_like=True, frozen=True):
    """What stands in the place of the payload."""

    reason: str
    time: int
    kept: Any = None  # what folds have to know
    check: int = 0  # CRC-32 of the event's id and the fields before


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Stub).decode
_decode_extension = msgspec.msgpack.Decoder(msgspec.msgpack.Ext).decode


def _check(key: bytes, reason: str, time: int, kept: Any) -> int:
    return crc32(_encode((reason, time, kept)), crc32(key))


def check_reason(reason: object) -> str:
    """The reason itself, or InvalidName: it is 1 to 255 bytes of UTF-8 on one line."""
    return check_name("the reason of an erasure", reason)


def encode_stub(key: bytes, reason: str, time: int, kept: Any) -> bytes:
    """The stub of the event of an id."""
    stub = Stub(reason, time, kept, _check(key, reason, time, kept))
    return _encode(msgspec.msgpack.Ext(ERASED_EXT, _encode(stub)))


def decode_stub(raw: bytes | msgspec.Raw) -> Stub | None:
    """The stub in these bytes; None when they are none."""
    try:
        found = _decode_extension(raw)
        return _decode(found.data) if found.code == ERASED_EXT else None
    except msgspec.MsgspecError:
        return None


def fits(key: bytes, stub: Stub) -> bool:
    """Whether a stub is as it was written for the event of an id."""
    return stub.check == _check(key, stub.reason, stub.time, stub.kept)


def encode_erased(value: Erased) -> bytes:
    """The extension's data of an `Erased` that a state holds: that of the stub it was read from."""
    return value._data or _encode((value.reason, value.time))


def decode_erased(data: bytes | memoryview) -> Any:
    """What an extension of the code means: an `Erased`, or where it is none of ours the extension as it is."""
    try:
        stub = _decode(data)
    except msgspec.MsgspecError:
        return msgspec.msgpack.Ext(ERASED_EXT, bytes(data))
    return Erased(stub.reason, stub.time, bytes(data))
