"""The event: an immutable entry of the log, its bytes and its id.

Everything about how an event is encoded, hashed and read back lives here, as pure functions of values. This file knows
no store, clock or random source: time and salt arrive as arguments.

Theory of operation
-------------------
    header  = MessagePack array [type, time, parents, seq, slot, schema, refs]
    id      = BLAKE3(EVENT ‖ header ‖ BLAKE3(PAYLOAD ‖ salt ‖ payload))
    stored  = MessagePack array [id, *header, salt, payload]

The stored bytes contain the hashed header and payload unchanged, so that checking an id re-encodes nothing, and one
pass of the decoder turns them into an `Event`. The payload stays encoded (`raw`) until somebody asks for it. It enters
the id through its own salted digest: it can be erased later and the chain above it still verifies, and a short payload
cannot be guessed from the id.

`refs` is null for most events, else [blobs, caused_by, linked_to], each the concatenation of 32-byte ids.

An erased event has that digest in place of its salt, 32 bytes instead of 16, and a stub (see erased.py) as payload.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, NamedTuple

import msgspec
from blake3 import blake3

from chronicle_py.erased import DIGEST_SIZE, ERASED_EXT, Erased, decode_erased
from chronicle_py.errors import CorruptStore, InvalidOperation
from chronicle_py.shown import shown

# The first byte of whatever is hashed: what it is. Two different things never hash the same bytes.
EVENT, PAYLOAD, NODE, BLOB = b"\x01", b"\x02", b"\x03", b"\x04"
ID_SIZE = 32
SALT_SIZE = 16
MAX_PAYLOAD = 1 << 30  # bytes; an LMDB value ends at 4 GiB, and a copy in memory must be possible

_BLOB_EXT = 1
_RESERVED_EXT = range(1, 5)  # blob references, what collections are made of, and what is left of erased payloads
BLOB_MARK = b"\xc7\x20\x01"  # how MessagePack writes an extension of 32 bytes and type 1
_STORED_START = b"\x9a\xc4\x20"  # array of 10, then 32 bytes: the id
_SALT_MARK = b"\xc4\x10"  # 16 bytes: the salt
_DIGEST_MARK = b"\xc4\x20"  # 32 bytes in its place: the digest of an erased payload
_HEADER = len(_STORED_START) + ID_SIZE  # where in the stored bytes the parts of the header begin
_HASHED_START = EVENT + b"\x97"  # array of 7: the header as it is hashed


class BlobRef:
    """A payload's reference to a blob, by the hex id that `Store.put_blob` returned. Anything else is only data."""

    __slots__ = ("hash",)

    def __init__(self, hash: str) -> None:
        try:
            raw = bytes.fromhex(hash)
        except (ValueError, TypeError):
            raw = b""
        if len(raw) != ID_SIZE:
            raise InvalidOperation(
                f"a blob reference takes the 64 hex digits that put_blob returned, not {shown(hash)}"
            )
        self.hash = raw.hex()

    def __repr__(self) -> str:
        return f"BlobRef({self.hash!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BlobRef) and other.hash == self.hash

    def __hash__(self) -> int:
        return hash(self.hash)


class EventType(NamedTuple):
    """How payloads of one event type are decoded: to `struct`, older versions through `upcast`."""

    struct: type[Any]
    version: int
    upcast: Mapping[int, Callable[[Any], Any]]
    decoder: msgspec.msgpack.Decoder[Any]


EventTypes = Mapping[str, EventType]


class Event(msgspec.Struct, array_like=True, frozen=True, gc=False, eq=False):
    """One immutable entry of the log. Decoding the payload is lazy, and repeated at each access.

    Attributes: `id` (64 hex digits), `seq` (depth on its branch, from 1), `type`, `time` (µs since the epoch),
    `payload`, `parents`, `slot` (or None), `caused_by`, `linked_to`, `blobs` (tuples of hex ids), `erased` (None, or an
    `Erased`, which is then the payload too; its blobs may be gone).
    """

    key: bytes  # the 32 bytes of the id
    type: str
    time: int
    parent_keys: bytes
    seq: Annotated[int, msgspec.Meta(ge=0, lt=(1 << 63) - 1)]  # what a key has room for
    slot: str | None
    schema: int
    refs: tuple[bytes, bytes, bytes] | None
    salt: bytes  # of an erased event: the digest of salt and payload
    raw: msgspec.Raw
    types: EventTypes | None = None  # in memory only: how the reader of this event decodes payloads

    @property
    def id(self) -> str:
        return self.key.hex()

    @property
    def is_erased(self) -> bool:
        """Whether the payload was erased. A comparison, nothing is decoded."""
        return len(self.salt) == DIGEST_SIZE

    @property
    def erased(self) -> Erased | None:
        """Why and when the payload was erased, or None."""
        if len(self.salt) != DIGEST_SIZE:
            return None
        found = decode_payload(self.raw)
        return found if isinstance(found, Erased) else Erased("", 0)

    @property
    def payload(self) -> Any:
        if len(self.salt) == DIGEST_SIZE:
            return self.erased
        try:
            if self.types is not None and (kind := self.types.get(self.type)) is not None:
                return decode_typed(self, kind)
            return decode_payload(self.raw)
        except msgspec.ValidationError as error:
            raise InvalidOperation(
                f"the payload of event {self.id[:12]} is not what is registered for type {self.type!r}: {error}. "
                "Register the type as it was written, or an upcaster; `raw` has the bytes"
            ) from None
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise CorruptStore(f"the payload of event {self.id[:12]} is no MessagePack: {error}") from None

    @property
    def parents(self) -> tuple[str, ...]:
        return split_keys(self.parent_keys)

    @property
    def blobs(self) -> tuple[str, ...]:
        return split_keys(self.refs[0]) if self.refs else ()

    @property
    def caused_by(self) -> tuple[str, ...]:
        return split_keys(self.refs[1]) if self.refs else ()

    @property
    def linked_to(self) -> tuple[str, ...]:
        return split_keys(self.refs[2]) if self.refs else ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Event) and other.key == self.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        where = f" slot={self.slot!r}" if self.slot is not None else ""
        return f"<Event {self.seq} {self.id[:12]} {self.type!r}{where}>"


def split_keys(keys: bytes) -> tuple[str, ...]:
    """The hex ids in a concatenation of 32-byte ids."""
    return tuple(keys[i : i + ID_SIZE].hex() for i in range(0, len(keys), ID_SIZE))


def bind(event: Event, types: EventTypes) -> Event:
    """The event, decoding its payload by `types` from now on. Only for an event nobody else holds yet."""
    msgspec.structs.force_setattr(event, "types", types)
    return event


# --- payloads -------------------------------------------------------------------------------------------------------


def _encode_extension(value: Any) -> Any:
    if isinstance(value, BlobRef):
        return msgspec.msgpack.Ext(_BLOB_EXT, bytes.fromhex(value.hash))
    if isinstance(value, Erased):
        raise TypeError(f"{value!r} is what is left of an erased payload and cannot be part of a new one")
    raise TypeError(f"a value of type {type(value).__name__} has no MessagePack form")


def _decode_extension(code: int, data: memoryview) -> Any:
    if code == _BLOB_EXT and len(data) == ID_SIZE:
        return BlobRef(data.hex())
    if code == ERASED_EXT:
        return decode_erased(data)
    return msgspec.msgpack.Ext(code, bytes(data))


def _check_extension(code: int, data: memoryview) -> Any:
    if code in _RESERVED_EXT and not (code == _BLOB_EXT and len(data) == ID_SIZE):
        raise ValueError(f"MessagePack extensions 1 to 4 belong to the store, and one of code {code} is in it")
    return bytes(data)


_payload_encoder = msgspec.msgpack.Encoder(enc_hook=_encode_extension)
_payload_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(ext_hook=_decode_extension)
_check_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(ext_hook=_check_extension)


def encode_payload(value: Any) -> bytes:
    """The MessagePack bytes of a payload, mapping order kept. InvalidOperation when there are none."""
    try:
        data = _payload_encoder.encode(value)
        _check_decoder.decode(data)  # what goes in must come out: e.g. a mapping keyed by Structs would not
    except Exception as error:  # among them whatever the properties of an unknown object raise
        raise InvalidOperation(
            f"this payload has no MessagePack form: {error}. A payload may hold None, bool, 64-bit integers, floats, "
            "str, bytes, lists, dicts, Structs, datetimes and BlobRef"
        ) from None
    if len(data) > MAX_PAYLOAD:
        raise InvalidOperation(
            f"this payload takes {len(data):,} bytes and the limit is {MAX_PAYLOAD:,}: store it as several blobs"
        )
    return data


def decode_payload(data: bytes | msgspec.Raw) -> Any:
    """The value of a payload's MessagePack bytes."""
    return _payload_decoder.decode(data)


def stored_payload(data: bytes | msgspec.Raw) -> Any:
    """As `decode_payload`, of bytes that a store holds; CorruptStore when they are none."""
    try:
        return _payload_decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CorruptStore(
            f"a stored payload is no MessagePack: {error}. `chronicle verify` lists the damage"
        ) from None


def payload_blobs(payload: bytes) -> bytes:
    """The ids of the blobs that a payload refers to, concatenated in order of appearance, each once."""
    if BLOB_MARK not in payload:
        return b""
    found: dict[bytes, None] = {}

    def note(code: int, data: memoryview) -> None:
        if code == _BLOB_EXT and len(data) == ID_SIZE:
            found[bytes(data)] = None

    msgspec.msgpack.Decoder(ext_hook=note).decode(payload)
    return b"".join(found)


def event_type(
    name: str, struct: type[Any], version: int = 1, upcast: Mapping[int, Callable[[Any], Any]] | None = None
) -> EventType:
    """A checked `EventType`. `upcast[v]` turns the plain payload of version v into that of version v + 1."""
    if upcast is not None and not isinstance(upcast, Mapping):
        raise InvalidOperation(
            f"upcast of event type {name!r} maps versions to functions; {shown(upcast)} is no mapping"
        )
    upcast = dict(upcast or {})
    if not isinstance(version, int) or isinstance(version, bool) or not 1 <= version < 1 << 32:
        raise InvalidOperation(
            f"the version of event type {name!r} must be a whole number from 1, not {shown(version)}"
        )
    for step, function in upcast.items():
        if not isinstance(step, int) or not 0 <= step < version or not callable(function):
            raise InvalidOperation(
                f"upcast of event type {name!r} maps a version below {version} to a function, not {shown(step)}: "
                f"{shown(function)}"
            )
    try:
        decoder = msgspec.msgpack.Decoder(struct, ext_hook=_decode_extension, dec_hook=_decode_custom)
    except Exception as error:  # a TypeError, or what the type itself raises
        raise InvalidOperation(
            f"event type {name!r}: {shown(struct)} is no type that msgspec can decode: {error!s:.300}"
        ) from None
    return EventType(struct, version, upcast, decoder)


def _decode_custom(kind: type[Any], value: Any) -> Any:
    if isinstance(value, kind):
        return value
    raise ValueError(f"Expected `{kind.__name__}`, got `{type(value).__name__}`")


def validate_payload(name: str, kind: EventType, payload: bytes) -> None:
    """InvalidOperation with the path to the wrong field, unless the payload decodes to the registered Struct."""
    try:
        kind.decoder.decode(payload)
    except msgspec.MsgspecError as error:
        raise InvalidOperation(
            f"this payload is no {kind.struct.__name__}, as registered for events of type {name!r}: {error}"
        ) from None


def decode_typed(event: Event, kind: EventType) -> Any:
    """The payload as the registered Struct; a version without a path of upcasters stays plain.

    An event written with schema 0 (before its type was registered) is plain unless there is an upcaster from 0.
    """
    version = event.schema
    if version == kind.version:
        return kind.decoder.decode(event.raw)
    if version > kind.version or any(step not in kind.upcast for step in range(version, kind.version)):
        return decode_payload(event.raw)
    value = decode_payload(event.raw)
    for step in range(version, kind.version):
        value = kind.upcast[step](value)
    if isinstance(value, kind.struct):
        return value
    return kind.decoder.decode(_payload_encoder.encode(value))


# --- bytes and ids --------------------------------------------------------------------------------------------------

_encode = msgspec.msgpack.Encoder().encode
_event_decoder = msgspec.msgpack.Decoder(Event)
decode_event: Callable[[bytes], Event] = _event_decoder.decode
"""An `Event` from its stored bytes, 0.3 µs. `checked_event` is the one that turns damage into CorruptStore."""


def build_event(
    type: str,
    time: int,
    parents: bytes,
    seq: int,
    slot: str | None,
    schema: int,
    refs: tuple[bytes, bytes, bytes] | None,
    salt: bytes,
    payload: bytes,
) -> tuple[bytes, bytes]:
    """The id (32 bytes) and the stored bytes of an event. Cost: two BLAKE3 and one encoding, about 2 µs."""
    header = _encode((type, time, parents, seq, slot, schema, refs))
    key = blake3(EVENT + header + blake3(PAYLOAD + salt + payload).digest()).digest()
    return key, b"".join((_STORED_START, key, header[1:], _SALT_MARK, salt, payload))


def event_id(stored: bytes, event: Event) -> bytes:
    """The id that these stored bytes must have; it differs from `event.key` when a byte was changed.

    Header, salt and payload are cut out of the stored bytes as they were hashed: what lies between them are lengths,
    and decoding has shown those to be right.
    """
    salt = len(stored) - len(event.raw) - len(event.salt)
    payload = event.salt if event.is_erased else blake3(PAYLOAD + stored[salt:]).digest()
    return blake3(_HASHED_START + stored[_HEADER : salt - len(_SALT_MARK)] + payload).digest()


def without_payload(stored: bytes, event: Event, stub: bytes) -> bytes:
    """The stored bytes of an event with its digest and a stub in place of salt and payload. The id stays."""
    salt = len(stored) - len(event.raw) - len(event.salt)
    digest = event.salt if event.is_erased else blake3(PAYLOAD + stored[salt:]).digest()
    return b"".join((stored[: salt - len(_SALT_MARK)], _DIGEST_MARK, digest, stub))


def build_erased(
    type: str,
    time: int,
    parents: bytes,
    seq: int,
    slot: str | None,
    schema: int,
    refs: tuple[bytes, bytes, bytes] | None,
    digest: bytes,
    stub: Callable[[bytes], bytes],
) -> tuple[bytes, bytes]:
    """As `build_event`, of an event that was erased elsewhere. `stub` makes the stub for an id."""
    header = _encode((type, time, parents, seq, slot, schema, refs))
    key = blake3(EVENT + header + digest).digest()
    return key, b"".join((_STORED_START, key, header[1:], _DIGEST_MARK, digest, stub(key)))


def checked_event(stored: bytes, where: str) -> Event:
    """The event in these bytes, or CorruptStore naming `where` when they are none."""
    try:
        return decode_event(stored)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CorruptStore(f"the bytes at {where} are no event: {error}. `chronicle verify` lists the damage") from None
