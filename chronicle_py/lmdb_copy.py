"""Writing a snapshot anew into another file: what a compaction and a backup are made of.

Every keyspace is copied in the order of its keys, so that pages come out full and no free ones are between them; LMDB's
own compacting copy leaves pages as they are, half-empty after a collection. This file knows no locks and no names.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

from chronicle_py.kv import META, SPACE_NAMES, Progress
from chronicle_py.lmdb_env import open_env

_BATCH: Final = 4096  # records put at once
_COMMIT: Final = 16  # batches to a commit: what is not committed is in memory


def copy_snapshot(
    txn: Any,
    dbs: list[Any],
    path: str,
    map_size: int,
    changes: Mapping[bytes, bytes | None],
    unlike: int,
    progress: Progress | None,
) -> None:
    """Writes what `txn` sees to `path`, a new or empty file, and returns when it is on disk. Raises what LMDB raises.

    `changes`: records of `meta` that differ in the copy (None: missing). `unlike`: a transaction number that neither
    the copy's newest nor the one before it has: by it a lock file of another data file is known. About 0.5 µs a record.
    """
    total = sum(txn.stat(db)["entries"] for db in dbs)
    done = 0
    env = open_env(
        path, map_size=map_size, max_dbs=len(SPACE_NAMES) + 5, sync=False, metasync=False,
        lock=False,
    )  # fmt: skip
    try:
        copies = [env.open_db(name.encode()) for name in SPACE_NAMES]
        for source, target in zip(dbs, copies, strict=True):
            pairs = txn.cursor(source).iternext()
            left = txn.stat(source)["entries"]
            while left:
                with env.begin(write=True, db=target) as writer:
                    cursor = writer.cursor()
                    for _ in range(_COMMIT):
                        cursor.putmulti(islice(pairs, _BATCH), append=True)
                        done, left = done + min(left, _BATCH), left - min(left, _BATCH)
                        if progress is not None:
                            progress(done, total)
                        if not left:
                            break
        with env.begin(write=True, db=copies[META]) as writer:
            for key, value in changes.items():
                if value is None:
                    writer.delete(key)
                else:
                    writer.put(key, value)
        while env.info()["last_txnid"] in (unlike, unlike + 1):
            with env.begin(write=True, db=copies[META]) as writer:
                for key, value in writer.cursor():
                    writer.put(key, value)
        env.sync(True)
        end = (env.info()["last_pgno"] + 1) * env.stat()["psize"]
    finally:
        env.close()
    if os.path.getsize(path) < end:  # the last pages were taken and given back
        os.truncate(path, end)
    sync_file(path)


def sync_file(path: str) -> None:
    """Returns when a file, or a folder's list of names, is on disk."""
    held = os.open(path, os.O_RDONLY)
    try:
        os.fsync(held)
    finally:
        os.close(held)
