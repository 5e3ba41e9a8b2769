"""Sweeping: removing the objects that nothing in a store needs any more.

A node is needed while a directory's state refers to it. A blob is needed while an event that was not erased, a slot's
initial value or a state refers to it. A blob that nothing refers to may have been put for an event that is still to
come, and nobody can say how old it is: so only those blobs go of which the caller says that something referred to them
once, or all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from typing import NamedTuple

from chronicle_py import records
from chronicle_py.checkpoints import decode_directory
from chronicle_py.event import BLOB, ID_SIZE, checked_event, payload_blobs
from chronicle_py.kv import BLOCKS, EVENTS, OBJECTS, SLOTS, Progress
from chronicle_py.marking import Marks
from chronicle_py.records import unpack_position
from chronicle_py.removal import Removal
from chronicle_py.transaction import Transaction

_KEYS = 4096  # read at once
Kept = Callable[[int, int], bool]
"""Whether the event at (lineage, seq) stays."""


class Swept(NamedTuple):
    """How many objects were removed, and their bytes."""

    nodes: int
    blobs: int
    node_bytes: int
    blob_bytes: int


def sweep_objects(tx: Transaction, progress: Progress | None = None, blobs: Set[bytes] | None = frozenset()) -> Swept:
    """Removes the nodes that no directory needs, and of `blobs` (ids; None: of all blobs) those that nothing refers to.

    Within the caller's transaction, which must have set `written_behind` to False, raises the epoch with
    `Engine.raise_epoch_for_all` and has put everything it wants kept. CorruptStore, before anything is removed, where a
    node that is needed cannot be read. O(directories + objects), and O(events) when there are blobs to look for; 32
    bytes of memory (some 100 with Python's share) for each object that stays.
    """
    tx.flush()
    return sweep(Removal(tx.scope, tx, progress), blobs, lambda lineage, seq: True)


def sweep(removal: Removal, blobs: Set[bytes] | None, kept: Kept) -> Swept:
    """As `sweep_objects`, for a removal that may be a rehearsal and then still has what is not `kept`."""
    reader = removal.reader
    marks = Marks(reader)
    for key, stored in removal.scan(BLOCKS):
        lineage, block = unpack_position(key)
        if kept(lineage, (block + 1) * records.BLOCK):
            marks.directory(decode_directory(key, stored, f"the directory of block {block} on lineage {lineage}"))
        removal.step()
    if blobs is None or blobs:
        marks.blobs |= _referred(removal, kept)
    nodes = gone = node_bytes = blob_bytes = 0
    for key in _keys(removal):
        if key in marks.nodes or key in marks.blobs:
            continue
        value = reader.get(OBJECTS, key)
        if value is None:
            continue
        if value[:1] != BLOB:
            nodes += 1
            node_bytes += len(key) + len(value)
        elif blobs is None or key in blobs:
            gone += 1
            blob_bytes += len(key) + len(value)
        else:
            continue
        removal.delete(OBJECTS, key, value)
    return Swept(nodes, gone, node_bytes, blob_bytes)


def _referred(removal: Removal, kept: Kept) -> set[bytes]:
    """The blobs that events and initial values refer to."""
    found: set[bytes] = set()
    for key, stored in removal.scan(SLOTS):
        record = records.decode_slot(key, stored, f"slot {key.decode()!r}")
        if record.initial:
            found.update(_split(payload_blobs(record.initial)))
    for key, stored in removal.scan(EVENTS):
        event = checked_event(stored, "{}/{}".format(*unpack_position(key)))
        if event.refs is not None and event.refs[0] and not event.is_erased and kept(*unpack_position(key)):
            found.update(_split(event.refs[0]))
    return found


def _split(ids: bytes) -> list[bytes]:
    return [ids[i : i + ID_SIZE] for i in range(0, len(ids), ID_SIZE)]


def _keys(removal: Removal) -> Iterator[bytes]:
    """All objects' ids, read in batches."""
    start = b""
    while True:
        keys = removal.reader.keys(OBJECTS, start, _KEYS)
        yield from keys
        removal.step(len(keys))
        if len(keys) < _KEYS:
            return
        start = keys[-1] + b"\0"
