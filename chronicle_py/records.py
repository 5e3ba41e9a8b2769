"""What is stored beside events and objects: the records of each keyspace, their keys and their checksums. Pure.

The one place that packs keys and encodes records. Every record ends in the CRC-32 of its key and its body, so that a
changed byte, or a record under another's key, is found and named. docs/format.md describes each of them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Annotated, Any, Final, TypeVar
from zlib import crc32

import msgspec

from chronicle_py.errors import CorruptStore

FORMAT: Final = 2
BLOCK: Final = 64  # K: events to a block
CRC_SIZE: Final = 4

Position = tuple[int, int]  # (lineage, seq): where an event lies
LineageNumber = Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]  # what keys have room for, checked where it is decoded
Sequence = Annotated[int, msgspec.Meta(ge=0, lt=(1 << 63) - 1)]

pack_position: Callable[[int, int], bytes] = struct.Struct(">IQ").pack
unpack_position: Callable[[bytes], tuple[int, int]] = struct.Struct(">IQ").unpack
pack_lineage: Callable[[int], bytes] = struct.Struct(">I").pack
pack_number: Callable[[int], bytes] = struct.Struct(">Q").pack
_pack_crc: Callable[[int], bytes] = struct.Struct(">I").pack

ID_PREFIX: Final = 16  # bytes of an event id that serve as a key
META_FORMAT, META_STORE, META_EPOCH = b"format", b"store", b"epoch"
META_MOVED, META_MOVING = b"moved", b"moving"
META_LOST = b"lost"
CAUSED_BY, LINKED_TO = b"c", b"l"


def reflog_key(branch: str, number: int) -> bytes:
    return branch.encode() + b"\0" + pack_number(number)


def lost_key(blob: bytes) -> bytes:
    """The key in `meta` that says of a blob that it was lost to damage, and is not to be looked for."""
    return META_LOST + blob


def cause_key(cause: bytes, relation: bytes, lineage: int, seq: int) -> bytes:
    return cause[:ID_PREFIX] + relation + pack_position(lineage, seq)


def seal(key: bytes, body: bytes) -> bytes:
    """The record of this body: body and checksum."""
    return body + _pack_crc(crc32(key + body))


def unseal(key: bytes, record: bytes, what: str) -> bytes:
    """The body of a record, or CorruptStore naming `what` and the key."""
    body = record[:-CRC_SIZE]
    if _pack_crc(crc32(body, crc32(key))) != record[-CRC_SIZE:]:
        raise CorruptStore(
            f"the record of {what} ({_shown(key)}) fails its checksum. `chronicle verify` lists the damage"
        )
    return body


def unseal_position(key: bytes, record: bytes, what: str) -> Position:
    """The position in a record of one, or CorruptStore."""
    body = unseal(key, record, what)
    if len(body) != 12:
        raise CorruptStore(f"the record of {what} ({_shown(key)}) is no position. `chronicle verify` lists the damage")
    return unpack_position(body)


def name_of(key: bytes, what: str) -> str:
    """The name that is a record's key, or CorruptStore."""
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise CorruptStore(f"the key of {what} ({key.hex()}) is no name. `chronicle verify` lists the damage") from None


def format_of(record: bytes) -> int:
    """The format version in a store's record of it."""
    return int.from_bytes(unseal(META_FORMAT, record, "the format version"), "big")


def _shown(key: bytes) -> str:
    """A key for people: a name, or lineage/sequence, or hex digits."""
    if len(key) == 12 and key[0] == 0:
        return "{}/{}".format(*unpack_position(key))
    text = key.decode(errors="replace")
    return text if text.isprintable() and "\ufffd" not in text else key.hex()


class Ref(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A branch: its head, and where it came from."""

    lineage: LineageNumber  # of the head; 0: the branch is empty
    seq: Sequence
    key: bytes  # the head's id; b"" when empty
    owned: bool  # this branch may append to `lineage`, whose end is the head
    created: int  # µs
    parent: str | None
    fork_seq: Sequence
    description: str = ""


class Lineage(msgspec.Struct, array_like=True, frozen=True):
    """A storage run: who it continues, and a jump over many ancestors (see lineages.py)."""

    parent: LineageNumber  # 0: it starts a history
    fork_seq: Sequence  # the last inherited sequence
    jump: LineageNumber
    jump_fork_seq: int
    depth: LineageNumber  # no more than there are lineages


class MoveRecord(msgspec.Struct, array_like=True, frozen=True):
    """One entry of a branch's reflog."""

    kind: str  # create, fork, orphan, rewind, delete, restore, import
    time: int
    before: Ref | None
    after: Ref | None


class SlotRecord(msgspec.Struct, array_like=True, frozen=True):
    """A registered slot."""

    number: int
    kind: str  # value, append_log, tree, document, custom
    reducer: str  # a custom reducer's name, else ""
    version: int
    fingerprint: str
    types: tuple[str, ...]
    sources: tuple[str, ...]
    initial: bytes  # MessagePack; b"" where the kind's own start is meant


class FeedRecord(msgspec.Struct, array_like=True, frozen=True):
    """One entry of the global order: a run of events on one branch, or a change of a branch.

    A run ends where the next record says it does (`stop_before`), the last one at its branch's head: so appending to a
    run writes nothing here.
    """

    kind: str  # "run", what a MoveRecord's kind says, or "gone": entries from here on that were collected
    branch: str
    lineage: LineageNumber
    start: Sequence
    stop_before: Sequence  # the last sequence of the run in the record before; 0 when that is no run
    before: Ref | None = None
    after: Ref | None = None


R = TypeVar("R")
encode: Callable[[Any], bytes] = msgspec.msgpack.Encoder().encode


def _decoder(kind: type[R]) -> Callable[[bytes, bytes, str], R]:
    decode = msgspec.msgpack.Decoder(kind).decode

    def read(key: bytes, record: bytes, what: str) -> R:
        body = unseal(key, record, what)
        try:
            return decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise CorruptStore(f"the record of {what} ({_shown(key)}) does not decode: {error}") from None

    return read


decode_ref = _decoder(Ref)
decode_lineage = _decoder(Lineage)
decode_move = _decoder(MoveRecord)
decode_slot = _decoder(SlotRecord)
decode_feed = _decoder(FeedRecord)
