"""The key of a summary: what it was made of, and how it was asked for. Pure.

48 hex digits: 32 for the sources as they stand (for messages the event and its last edit, for a merge the keys of its
sources), 16 for level, phase, prompts, model and target size. By the first part a fold knows whether a summary is of
what stands on its branch, also one that another configuration made.
"""

from __future__ import annotations

from collections.abc import Iterable

from blake3 import blake3

from chronicle_py.strategies.transcript import Row

_SOURCES = 16  # bytes
_NO_EDIT = bytes(32)


def of_messages(rows: Iterable[Row]) -> bytes:
    """The digest of messages as they stand."""
    return blake3(b"".join([row.key + (row.edit or _NO_EDIT) for row in rows])).digest(length=_SOURCES)


def of_memories(keys: Iterable[str]) -> bytes:
    """The digest of the summaries that were merged."""
    return blake3("\n".join(keys).encode()).digest(length=_SOURCES)


def key_of(sources: bytes, configuration: bytes) -> str:
    return (sources + configuration).hex()


def made_of(key: str) -> bytes | None:
    """The digest of the sources in a key; None: it is no key of this form, and says nothing of its sources."""
    if len(key) != 48:
        return None
    try:
        return bytes.fromhex(key)[:_SOURCES]
    except ValueError:
        return None
