"""Migrating: bringing a store of an older format to this version's, in one transaction.

Format 2 only adds to format 1: a store changes its number and its epoch, and nothing else moves.
"""

from __future__ import annotations

import os

from chronicle_py import records
from chronicle_py.engine import Engine, check_format
from chronicle_py.errors import InvalidOperation
from chronicle_py.kv import META
from chronicle_py.lmdb_kv import data_file, open_file
from chronicle_py.transaction import transaction


def migrate(path: str | os.PathLike[str]) -> tuple[int, int]:
    """Brings a store to this version's format and returns (what it was, what it is). One that has it is left alone.

    O(1). Nothing changes unless all of it does; versions of chronicle-py that only know the old format refuse the store
    from then on. FormatVersion for a newer format; NotFound, InvalidOperation where there is no store.
    """
    file = open_file(data_file(path), readonly=False, create=False, durable=True, map_size=None)
    engine = Engine(file, readonly=False, checked=False)
    try:
        with engine.read() as reader:
            found = reader.get(META, records.META_FORMAT)
        if found is None:
            raise InvalidOperation(f"{file.path} holds no store; there is nothing to migrate")
        before = records.format_of(found)
        check_format(file.path, before, readonly=True)
        if before < records.FORMAT:
            with transaction(engine) as tx:
                key = records.META_FORMAT
                tx.writer.put(META, key, records.seal(key, records.FORMAT.to_bytes(4, "big")))
                engine.raise_epoch(tx)
        return before, records.FORMAT
    finally:
        engine.close()
