"""The baseline: LMDB by itself, with the puts that an append needs at least, and no more.

An append has to write the event, where its id is found, and the head of the branch. So the baseline writes into three
databases of one file, opened with the flags that chronicle-py uses: 332 bytes (an event with a payload of 211) under a
key of 12 in ascending order, 16 bytes under a random key of 16, and 60 bytes over the same key again and again. There
is no hashing, no encoding and no state: it is a floor, not a competitor.
"""

from __future__ import annotations

import os
import struct
from collections import deque
from itertools import islice, takewhile
from pathlib import Path

import lmdb

VALUE = 332  # bytes
HEAD = 60
_MAP_SIZE = 64 << 30
_HEAD_KEY = b"main"
_position = struct.Struct(">IQ").pack


class PlainLmdb:
    """An LMDB file with `count` entries that look like events."""

    def __init__(self, path: Path, *, durable: bool = False) -> None:
        self.path = path
        self.count = 0
        self._env = lmdb.open(
            str(path),
            subdir=False,
            map_size=_MAP_SIZE,
            max_dbs=16,
            max_readers=1024,
            max_spare_txns=8,
            sync=durable,
            metasync=durable,
        )
        self._events, self._ids, self._refs = (self._env.open_db(name) for name in (b"events", b"ids", b"refs"))
        with self._env.begin() as txn:
            self.count = int(txn.stat(self._events)["entries"])
        self._value = os.urandom(VALUE)
        self._head = os.urandom(HEAD)

    def close(self) -> None:
        self._env.close()

    def entries(self, count: int) -> list[tuple[bytes, bytes]]:
        """(key, random key) of entries to come, made ahead of the timed part."""
        first = self.count + 1
        self.count += count
        return [(_position(1, seq), os.urandom(16)) for seq in range(first, first + count)]

    def commit(self, key: bytes, id: bytes) -> None:
        """One commit of three puts."""
        with self._env.begin(write=True) as txn:
            txn.put(key, self._value, db=self._events, append=True)
            txn.put(id, id, db=self._ids)
            txn.put(_HEAD_KEY, self._head, db=self._refs)

    def commit_many(self, entries: list[tuple[bytes, bytes]]) -> None:
        """One commit of many entries, in the fastest way there is: sorted, by putmulti, the head once."""
        value = self._value
        with self._env.begin(write=True) as txn:
            txn.cursor(self._events).putmulti([(key, value) for key, _ in entries], append=True)
            txn.cursor(self._ids).putmulti(sorted((id, id) for _, id in entries))
            txn.put(_HEAD_KEY, self._head, db=self._refs)

    def walk(self) -> None:
        """All values by one cursor."""
        with self._env.begin() as txn:
            deque(txn.cursor(self._events).iternext(keys=False), maxlen=0)

    def values(self) -> list[bytes]:
        with self._env.begin() as txn:
            return list(txn.cursor(self._events).iternext(keys=False))

    def get(self, seq: int) -> bytes:
        """One value, under a snapshot of its own."""
        with self._env.begin() as txn:
            return txn.get(_position(1, seq), db=self._events) or b""

    def head(self) -> bytes:
        with self._env.begin() as txn:
            return txn.get(_HEAD_KEY, db=self._refs) or b""

    def tail(self, count: int) -> list[bytes]:
        """The last values, by one cursor."""
        with self._env.begin() as txn:
            cursor = txn.cursor(self._events)
            cursor.set_range(_position(1, self.count - count + 1))
            return list(islice(cursor.iternext(keys=False), count))


class PlainTable:
    """One database of keys and values in an LMDB file of its own, without syncs; each call is a transaction."""

    def __init__(self, path: Path) -> None:
        self._env = lmdb.open(str(path), subdir=False, map_size=_MAP_SIZE, max_spare_txns=8, sync=False, metasync=False)

    def close(self) -> None:
        self._env.close()

    def put(self, key: bytes, value: bytes) -> None:
        with self._env.begin(write=True) as txn:
            txn.put(key, value)

    def put_many(self, pairs: list[tuple[bytes, bytes]]) -> None:
        with self._env.begin(write=True) as txn:
            txn.cursor().putmulti(pairs)

    def delete(self, key: bytes) -> None:
        with self._env.begin(write=True) as txn:
            txn.delete(key)

    def get(self, key: bytes) -> bytes:
        with self._env.begin() as txn:
            return txn.get(key) or b""

    def keys(self, prefix: bytes) -> list[bytes]:
        """The keys that start with a prefix, by one cursor."""
        with self._env.begin() as txn:
            cursor = txn.cursor()
            if not cursor.set_range(prefix):
                return []
            return list(takewhile(lambda key: key.startswith(prefix), cursor.iternext(values=False)))
