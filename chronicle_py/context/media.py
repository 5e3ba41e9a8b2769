"""Media in and out of the store: base64 becomes a blob, stored once, and base64 again when it is read.

A source {"type": "base64", "media_type": …, "data": …} is stored as {"type": "blob", "media_type": …, "blob": BlobRef},
inside tool results and documents made of blocks as well; every other field and every other kind of source stays as it
is. Blobs are content-addressed and nothing here deletes one, so that removing a message takes no other's media away.
"""

from __future__ import annotations

from base64 import b64encode
from binascii import Error, a2b_base64
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from chronicle_py.context.blocks import Block, Media, ToolResult, parse, plain
from chronicle_py.errors import InvalidOperation
from chronicle_py.event import BlobRef
from chronicle_py.objects import pack_blob
from chronicle_py.store import Store

UNKNOWN_TYPE: Final = "application/octet-stream"  # of a source that does not say what it is

Source = dict[str, Any]


class Upload(NamedTuple):
    """Bytes that a payload refers to, to be put into the store before it."""

    data: bytes
    media_type: str


def stored(blocks: list[Block]) -> tuple[list[Block], list[Upload]]:
    """The blocks with references in place of base64 media, and what they refer to. Writes nothing.

    InvalidOperation for base64 that is not; line breaks in it are accepted, and not kept.
    """
    uploads: list[Upload] = []
    return _mapped(blocks, lambda source: _to_blob(source, uploads)), uploads


def restored(blocks: list[Block], store: Store) -> list[Block]:
    """The blocks with their media as base64 again. Cost: reading the blobs."""
    return _mapped(blocks, lambda source: _from_blob(source, store))


def _mapped(blocks: list[Block], change: Callable[[Source], Source]) -> list[Block]:
    """The blocks with their sources changed; the same list where there is none."""
    if not any(isinstance(block, Media) or _parts(block) for block in blocks):
        return blocks
    return [_mapped_one(block, change) for block in blocks]


def _parts(block: Block) -> list[Block] | None:
    return block.content if isinstance(block, ToolResult) and isinstance(block.content, list) else None


def _mapped_one(block: Block, change: Callable[[Source], Source]) -> Block:
    if isinstance(block, Media):
        source = block.source
        if source.get("type") == "content" and isinstance(source.get("content"), list):
            inner = [plain(part) for part in _mapped(parse(source["content"]), change)]
            return msgspec.structs.replace(block, source={**source, "content": inner})
        new = change(source)
        return block if new is source else msgspec.structs.replace(block, source=new)
    parts = _parts(block)
    if not parts:
        return block
    return msgspec.structs.replace(block, content=_mapped(parts, change))


def _to_blob(source: Source, uploads: list[Upload]) -> Source:
    if source.get("type") != "base64":
        return source
    data, media_type = source.get("data"), source.get("media_type")
    if not isinstance(data, str):
        raise InvalidOperation(f"a base64 source has its data as a str, not {data!r:.60}")
    if media_type is not None and not isinstance(media_type, str):
        raise InvalidOperation(f"the media_type of a base64 source is a str like 'image/png', not {media_type!r:.60}")
    upload = Upload(decoded(data), media_type or UNKNOWN_TYPE)
    key, _ = pack_blob(*upload)
    uploads.append(upload)
    others = {name: value for name, value in source.items() if name not in ("type", "data")}
    return {"type": "blob", **others, "blob": BlobRef(key.hex())}


def decoded(data: str) -> bytes:
    """The bytes of strict base64 (RFC 4648 §4, white space allowed). InvalidOperation for anything else."""
    try:
        if len(data) % 4:
            raise Error("its length is no multiple of 4")
        return a2b_base64(data, strict_mode=True)
    except (Error, ValueError) as error:
        bare = "".join(data.split())
        if bare != data:
            return decoded(bare)
        raise InvalidOperation(f"the data of a base64 source is no base64: {error}: {data[:40]!r}") from None


def _from_blob(source: Source, store: Store) -> Source:
    blob = source.get("blob")
    if source.get("type") != "blob" or not isinstance(blob, BlobRef):
        return source
    others = {key: value for key, value in source.items() if key not in ("type", "blob")}
    return {"type": "base64", **others, "data": b64encode(store.get_blob(blob.hash).data).decode()}
