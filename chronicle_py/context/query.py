"""Filters over messages: which rows of the index they leave, without reading a message where an index answers. Pure.

Participant, source and external ids are answered by the index. Several of them together walk the one that holds the
least. Metadata is in no index: `matches` is asked of each message that the others leave.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from chronicle_py.context.message_index import MessageIndexState, Row
from chronicle_py.errors import InvalidOperation


class Filters(msgspec.Struct, frozen=True, kw_only=True):
    """What a message must have. None: anything."""

    source: str | None = None  # metadata.external.source
    external_ids: tuple[str, ...] | None = None  # one of these as metadata.external.id
    participant: str | None = None
    metadata: Mapping[str, Any] = {}  # dotted path -> value


def filters(source: object, external_ids: object, participant: object, metadata: object) -> Filters:
    """Checked filters; InvalidOperation says which one is wrong."""
    for name, value in (("source", source), ("participant", participant)):
        if value is not None and not isinstance(value, str):
            raise InvalidOperation(f"query({name}=) takes a str, not {value!r}")
    ids: tuple[str, ...] | None = None
    if external_ids is not None:
        if isinstance(external_ids, str | int):
            external_ids = (external_ids,)
        if not isinstance(external_ids, Sequence | set | frozenset):
            raise InvalidOperation(f"query(external_ids=) takes several ids, not {external_ids!r}")
        ids = tuple(dict.fromkeys(check_external("query(external_ids=)", id) for id in external_ids))
    wanted = {} if metadata is None else metadata
    if not isinstance(wanted, Mapping) or not all(isinstance(path, str) and path for path in wanted):
        raise InvalidOperation(
            f"query(metadata=) maps dotted paths, like 'external.channel', to values, not {metadata!r}"
        )
    return Filters(source=source, external_ids=ids, participant=participant, metadata=wanted)  # type: ignore[arg-type]


def check_external(what: str, id: object) -> str:
    if isinstance(id, bool) or not isinstance(id, str | int):
        raise InvalidOperation(f"{what} takes an external id as a str or int, not {id!r}")
    return str(id)


def check_number(what: str, value: object) -> int:
    """A whole number from 0."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidOperation(f"{what} takes a whole number from 0, not {value!r}")
    return value


def rows(index: MessageIndexState, wanted: Filters, limit: int | None, reverse: bool) -> tuple[list[Row], int]:
    """The first `limit` rows that pass all filters but metadata, and how many there are.

    One filter: O(log n + limit). Several: O(what the narrowest leaves). No filter: a slice.
    """
    by_participant, by_source = wanted.participant, wanted.source
    if wanted.external_ids is not None:
        found = sorted(set(_with_ids(index, wanted.external_ids, by_source)), reverse=reverse)
        return _checked(index, iter(found), by_participant, None, limit)
    if by_participant is not None and by_source is not None:
        if index.sources.count(by_source) <= index.participants.count(by_participant):
            return _checked(index, index.sources.sequences(by_source, reverse), by_participant, None, limit)
        return _checked(index, index.participants.sequences(by_participant, reverse), None, by_source, limit)
    for postings, name in ((index.participants, by_participant), (index.sources, by_source)):
        if name is not None:
            return list(_rows(index, islice(postings.sequences(name, reverse), limit))), postings.count(name)
    total = len(index.entries)
    taken = total if limit is None else min(limit, total)
    return (index.entries[total - taken :][::-1] if reverse else index.entries[:taken]), total


def _with_ids(index: MessageIndexState, ids: tuple[str, ...], source: str | None) -> Iterator[int]:
    names = index.sources.names() if source is None else (source,)
    for name in names:
        for id in ids:
            yield from index.externals(name, id)


def _rows(index: MessageIndexState, sequences: Iterator[int]) -> Iterator[Row]:
    for seq in sequences:
        row = index.row(seq)
        if row is not None:
            yield row


def _checked(
    index: MessageIndexState,
    sequences: Iterator[int],
    participant: str | None,
    source: str | None,
    limit: int | None,
) -> tuple[list[Row], int]:
    found: list[Row] = []
    total = 0
    for row in _rows(index, sequences):
        if (participant is None or row.participant == participant) and (source is None or row.source == source):
            total += 1
            if limit is None or total <= limit:
                found.append(row)
    return found, total


def matches(metadata: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether metadata has every value at its path. A list at a path has each of its items as well."""
    return all(_at(metadata, path, value) for path, value in wanted.items())


def _at(metadata: Any, path: str, value: Any) -> bool:
    for key in path.split("."):
        if isinstance(metadata, Mapping) and key in metadata:
            metadata = metadata[key]
        elif isinstance(metadata, list) and key.isdecimal() and int(key) < len(metadata):
            metadata = metadata[int(key)]
        else:
            return False
    return _equal(metadata, value) or (isinstance(metadata, list) and any(_equal(item, value) for item in metadata))


def _equal(found: Any, value: Any) -> bool:
    """Equal, and a truth value no number."""
    return bool(found == value) and isinstance(found, bool) == isinstance(value, bool)
