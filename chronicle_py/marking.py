"""Marking: which objects the directories of a store still need, beginning with the states that they hold.

Here lives `Marks`, which follows references from a state to nodes, from nodes to nodes, and notes blobs on the way. It
reads and removes nothing of its own accord, and does not know what a slot is.

Theory of operation. A state refers to nodes in two ways: as the root of a spine (append_log, tree, the overflow of a
directory), whose rows name their children, or as a MessagePack value with collections in it as extensions. An address
is followed by what lies there: the first byte of a node says what it is. Extensions are looked for as byte patterns
and not decoded: a value may have a form that only its own type can decode. So something may be kept because it looks
like a reference to an object that is there; nothing is missed.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from chronicle_py.checkpoints import Directory
from chronicle_py.errors import CorruptStore
from chronicle_py.event import BLOB_MARK
from chronicle_py.kv import OBJECTS, Reader
from chronicle_py.nodes import HASH_SIZE, LEAF, NODE, ROW, RUNS, VALUE, Row, unpack_row
from chronicle_py.tree import Root

# A blob reference, a large value's address, or a collection's root that is long enough to hold an address.
_EXTENSION: Final = re.compile(rb"(?s)(?=(\xc7\x20[\x01\x04])|(\xc7.|\xc8..|\xc9....)[\x02\x03])")
_decode_root: Final = msgspec.msgpack.Decoder(Root).decode
_KINDS: Final = (LEAF, RUNS, ROW, VALUE)


class Marks:
    """What was found to be needed."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.nodes: set[bytes] = set()
        self.blobs: set[bytes] = set()
        self._waiting: list[bytes] = []  # addresses of nodes that were not looked into yet

    def directory(self, directory: Directory) -> None:
        """Marks all that the states in a directory need. Costs a read for each node not marked before."""
        for _, root in directory.here.values():
            self._state(bytes(root))
        if directory.more:
            self._state(directory.more)
        while self._waiting:
            self._node(self._waiting.pop())

    def _state(self, data: bytes) -> None:
        self._root(data)
        self._value(data)

    def _root(self, data: bytes) -> None:
        """The children of a root's rows, where these bytes are a root."""
        try:
            root = _decode_root(data)
            rows = [unpack_row(row) for row in root.rows]
        except (msgspec.MsgspecError, CorruptStore):
            return
        for row in rows:
            self._row(row)

    def _row(self, row: Row) -> None:
        for k in range(len(row)):
            address = row.at(k)
            if len(address) == HASH_SIZE and address not in self.nodes:  # else a leaf that stands in its parent
                self.nodes.add(address)
                self._waiting.append(address)

    def _value(self, data: bytes) -> None:
        """What the extensions in these bytes refer to."""
        for match in _EXTENSION.finditer(data):
            at = match.start()
            if match[1] == BLOB_MARK:
                self.blobs.add(data[at + 3 : at + 3 + HASH_SIZE])
            elif match[1]:
                self._large(data[at + 3 : at + 3 + HASH_SIZE])
            if match[2]:
                start = at + len(match[2]) + 1
                self._root(data[start : start + int.from_bytes(match[2][1:], "big")])

    def _large(self, address: bytes) -> None:
        if address not in self.nodes and self._reader.get(OBJECTS, address) is not None:
            self.nodes.add(address)
            self._waiting.append(address)

    def _node(self, address: bytes) -> None:
        stored = self._reader.get(OBJECTS, address)
        if stored is None or stored[:1] != NODE or stored[1:2] not in _KINDS:
            raise CorruptStore(
                f"the node {address.hex()} is missing or damaged, so that what it refers to is not known, and nothing "
                "was removed. `chronicle verify` lists the damage; restore a backup"
            )
        kind = stored[1:2]
        if kind == ROW:
            self._row(unpack_row(stored[2:]))
        elif kind != RUNS:
            self._value(stored[2:])
