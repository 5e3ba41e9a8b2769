"""The lines of an export: what each of them holds, and their JSON. Pure.

An export is JSON Lines, one record a line, told apart by `record`, in an order in which everything comes before what
refers to it:

    header, slots, blobs and events (a parent before its children), branches, end

The `end` line counts the others, so that a file that was cut short is noticed. An event line carries all that its id is
computed from: header fields, salt and the payload, as JSON, and as base64 in `bytes` where the JSON would not lead back
to the same bytes. Of an erased event it carries `erased` instead: the digest of its payload, why it went, and when.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Final

import msgspec

from chronicle_py.erased import DIGEST_SIZE, check_reason, decode_stub, encode_stub
from chronicle_py.errors import ChronicleError, CorruptStore, FormatVersion
from chronicle_py.event import SALT_SIZE, Event, build_erased, build_event, payload_blobs
from chronicle_py.exchange.json_form import faithful, from_json
from chronicle_py.names import check_name, check_slot
from chronicle_py.objects import pack_blob
from chronicle_py.records import Ref, SlotRecord

FORMAT: Final = 1
_KINDS: Final = ("value", "append_log", "tree", "document", "custom", "index")


class BadLine(Exception):
    """What is wrong with one line. Inside this package only."""


class _Line(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="record"):
    pass


class Header(_Line, frozen=True, tag="chronicle-export"):
    format: int
    store: str  # the id of the store it came from, hex


class SlotLine(_Line, frozen=True, tag="slot"):
    id: str
    kind: str
    reducer: str = ""
    version: int = 1
    fingerprint: str = ""
    types: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    initial: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    bytes: str | None = None  # of the initial value, base64


class BlobLine(_Line, frozen=True, tag="blob"):
    id: str
    media_type: str
    data: str  # base64


class ErasedLine(msgspec.Struct, frozen=True, omit_defaults=True):
    digest: str  # by which the payload entered the id, hex
    reason: str
    time: int
    kept: tuple[int, ...] | None = None  # what folds have to know
    blobs: tuple[str, ...] = ()  # that the payload referred to; they need not be there


class EventLine(_Line, frozen=True, tag="event"):
    id: str
    seq: int
    type: str
    time: int
    salt: str = ""
    payload: msgspec.Raw = msgspec.Raw(b"null")
    parents: tuple[str, ...] = ()
    slot: str | None = None
    schema: int = 0
    caused_by: tuple[str, ...] = ()
    linked_to: tuple[str, ...] = ()
    bytes: str | None = None  # of the payload, base64
    erased: ErasedLine | None = None


class BranchLine(_Line, frozen=True, tag="branch"):
    name: str
    head: str | None
    seq: int
    parent: str | None = None
    fork_seq: int = 0
    created: int = 0
    description: str = ""


class End(_Line, frozen=True, tag="end"):
    slots: int
    blobs: int
    events: int
    branches: int


Line = Header | SlotLine | BlobLine | EventLine | BranchLine | End
_decoder: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)
_encode = msgspec.json.Encoder().encode


def encode(line: Line) -> bytes:
    return _encode(line) + b"\n"


def decode(text: bytes) -> Line:
    try:
        return _decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadLine(f"is no record of an export: {error}") from None


def check_format(header: Header) -> None:
    if not 1 <= header.format <= FORMAT:
        raise FormatVersion(
            f"this export is of format {header.format} and this version of chronicle-py reads formats up to {FORMAT}; "
            "upgrade it"
        )


# --- writing --------------------------------------------------------------------------------------------------------


def slot_line(id: str, record: SlotRecord) -> bytes:
    text, exact = faithful(record.initial) if record.initial else (b"", True)
    return encode(
        SlotLine(
            id, record.kind, record.reducer, record.version, record.fingerprint, record.types, record.sources,
            msgspec.Raw(text) if text else msgspec.UNSET, None if exact else b64encode(record.initial).decode(),
        )
    )  # fmt: skip


def blob_line(key: bytes, media_type: str, data: bytes) -> bytes:
    return encode(BlobLine(key.hex(), media_type, b64encode(data).decode()))


def event_line(event: Event) -> bytes:
    if event.is_erased:
        return _erased_line(event)
    payload = bytes(event.raw)
    text, exact = faithful(payload)
    return encode(
        EventLine(
            event.id, event.seq, event.type, event.time, event.salt.hex(), msgspec.Raw(text), event.parents, event.slot,
            event.schema, event.caused_by, event.linked_to, None if exact else b64encode(payload).decode(),
        )
    )  # fmt: skip


def _erased_line(event: Event) -> bytes:
    stub = decode_stub(event.raw)
    if stub is None:
        raise CorruptStore(f"what is left of event {event.id} is damaged. `chronicle verify` lists the damage")
    erased = ErasedLine(event.salt.hex(), stub.reason, stub.time, stub.kept, event.blobs)
    return encode(
        EventLine(
            event.id, event.seq, event.type, event.time, parents=event.parents, slot=event.slot, schema=event.schema,
            caused_by=event.caused_by, linked_to=event.linked_to, erased=erased,
        )
    )  # fmt: skip


def branch_line(name: str, ref: Ref) -> bytes:
    return encode(
        BranchLine(name, ref.key.hex() or None, ref.seq, ref.parent, ref.fork_seq, ref.created, ref.description)
    )


# --- reading --------------------------------------------------------------------------------------------------------


class ReadEvent(msgspec.Struct, frozen=True, gc=False):
    """An event line whose id was computed anew and found to be the recorded one."""

    key: bytes
    stored: bytes
    seq: int
    parent: bytes  # b"" for the first event of a history
    slot: str | None
    refs: tuple[bytes, bytes, bytes] | None
    erased: bool = False


def key_of(text: str, what: str) -> bytes:
    """The 32 bytes of an id in full."""
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != 32:
        raise BadLine(f"{what} is 64 hex digits, not {text[:80]!r}")
    return key


def _keys(texts: tuple[str, ...], what: str) -> bytes:
    return b"".join([key_of(text, what) for text in texts])


def _base64(text: str, what: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError as error:
        raise BadLine(f"{what} is no base64: {error}") from None


def _payload(text: msgspec.Raw, encoded: str | None, what: str) -> bytes:
    try:
        return from_json(text) if encoded is None else _base64(encoded, what)
    except ChronicleError as error:
        raise BadLine(f"{what}: {error}") from None


def read_event(line: EventLine) -> ReadEvent:
    """The event of a line; BadLine unless its id is that of its contents."""
    key = key_of(line.id, "an event's id")
    if len(line.parents) > 1:
        raise BadLine(f"event {line.id[:12]} has {len(line.parents)} parents; this version reads events with one")
    if line.seq < 1 or (line.seq == 1) != (not line.parents):
        raise BadLine(
            f"event {line.id[:12]} has sequence {line.seq} and {len(line.parents)} parents, which do not agree"
        )
    gone = line.erased
    payload = b"" if gone is not None else _payload(line.payload, line.bytes, "the payload")
    try:
        check_name("an event type", line.type)
        if line.slot is not None:
            check_slot(line.slot)
        salt = bytes.fromhex(line.salt if gone is None else gone.digest)
        blobs = payload_blobs(payload) if gone is None else _keys(gone.blobs, "a blob's id")
        causes, links = _keys(line.caused_by, "a cause"), _keys(line.linked_to, "a link")
        refs = (blobs, causes, links) if blobs or causes or links else None
        parent = _keys(line.parents, "a parent")
        header = (line.type, line.time, parent, line.seq, line.slot, line.schema, refs)
        if gone is None:
            found, stored = build_event(*header, salt, payload)
        else:
            check_reason(gone.reason)
            found, stored = build_erased(*header, salt, lambda id: encode_stub(id, gone.reason, gone.time, gone.kept))
    except (ChronicleError, ValueError, TypeError, OverflowError, msgspec.MsgspecError) as error:
        raise BadLine(f"event {line.id[:12]}: {error}") from None
    if found != key or len(salt) != (SALT_SIZE if gone is None else DIGEST_SIZE):
        raise BadLine(f"event {line.id[:12]}: its contents have the id {found.hex()[:12]}; the line was changed")
    return ReadEvent(key, stored, line.seq, parent, line.slot, refs, gone is not None)


def read_blob(line: BlobLine) -> tuple[bytes, bytes]:
    """(id, stored bytes) of a blob line; BadLine unless the id is that of its contents."""
    try:
        key, stored = pack_blob(_base64(line.data, f"blob {line.id[:12]}"), line.media_type)
    except ChronicleError as error:
        raise BadLine(f"blob {line.id[:12]}: {error}") from None
    if key != key_of(line.id, "a blob's id"):
        raise BadLine(f"blob {line.id[:12]}: its contents have the id {key.hex()[:12]}; the line was changed")
    return key, stored


def read_slot(line: SlotLine) -> SlotRecord:
    """The registration of a slot line, without its number."""
    if line.kind not in _KINDS or (line.kind == "custom") != bool(line.reducer):
        raise BadLine(f"slot {line.id!r}: kind {line.kind!r} is none of {', '.join(_KINDS)}, or its reducer is missing")
    initial = b"" if line.initial is msgspec.UNSET else _payload(line.initial, line.bytes, f"slot {line.id!r}")
    try:
        check_slot(line.id)
    except ChronicleError as error:
        raise BadLine(str(error)) from None
    return SlotRecord(0, line.kind, line.reducer, line.version, line.fingerprint, line.types, line.sources, initial)
