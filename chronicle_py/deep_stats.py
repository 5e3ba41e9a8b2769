"""Where the bytes of a store are, beyond what its keyspaces say: the kinds of objects, and the states of slots."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from chronicle_py.branches import MAIN, read_ref
from chronicle_py.event import BLOB
from chronicle_py.kv import OBJECTS, Reader
from chronicle_py.records import BLOCK
from chronicle_py.values import LIST, MAP

if TYPE_CHECKING:
    from chronicle_py.engine import Engine

_KEYS: Final = 4096  # read at once
_SPINES: Final = ("append_log", "tree")  # whose state is the root of a collection and nothing else


class SlotBytes(msgspec.Struct, frozen=True):
    """The newest checkpoint of a slot on `main`: all bytes that it rewrites, and those of them that are plain fields.
    What lies in List and Map is written once, as nodes; plain fields are written with each checkpoint."""

    checkpoint: int
    plain: int


class DeepStats(msgspec.Struct, frozen=True):
    """What `store.stats(deep=True)` adds. Bytes are those of keys and values. Cost: O(objects)."""

    nodes: int
    node_bytes: int
    blobs: int
    blob_bytes: int
    slots: dict[str, SlotBytes]  # those that have a checkpoint


def deep_stats(engine: Engine, reader: Reader) -> DeepStats:
    nodes = node_bytes = blobs = blob_bytes = 0
    for key in _keys(reader):
        stored = reader.get(OBJECTS, key) or b""
        if stored[:1] == BLOB:
            blobs += 1
            blob_bytes += len(key) + len(stored)
        else:
            nodes += 1
            node_bytes += len(key) + len(stored)
    return DeepStats(nodes, node_bytes, blobs, blob_bytes, dict(_slots(engine, reader)))


def _keys(reader: Reader) -> Iterator[bytes]:
    start = b""
    while keys := reader.keys(OBJECTS, start, _KEYS):
        yield from keys
        start = keys[-1] + b"\0"


def _slots(engine: Engine, reader: Reader) -> Iterator[tuple[str, SlotBytes]]:
    ref = read_ref(reader, MAIN)
    last = ref.seq - ref.seq % BLOCK
    for slot in sorted(engine.slots.table(reader).by_id.values(), key=lambda slot: slot.id):
        root = engine.checkpoints.newest_root(reader, ref.lineage, last, slot)
        if root is not None:
            yield slot.id, SlotBytes(len(root), 0 if slot.record.kind in _SPINES else plain_bytes(root))


def plain_bytes(root: bytes) -> int:
    """The bytes of a state that are not the roots of collections in it."""
    inside = 0

    def note(code: int, data: memoryview) -> None:
        nonlocal inside
        if code in (LIST, MAP):
            inside += len(data)

    msgspec.msgpack.Decoder(ext_hook=note).decode(root)
    return len(root) - inside
