"""What every importer makes of a file: histories, each a tree of messages as another program kept them. Pure.

A reader of a format yields `Read`: its histories, and the records that were none, each with its place. Nothing here
knows a format or a store. Messages are named by a key within their history; a message comes after another one, or first
where that is None. No reader returns links that run in a circle: `without_circles` sees to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from blake3 import blake3

from chronicle_py.exchange.faults import Fault


class SourceMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message of a source, in the form that `Conversation.add` takes."""

    key: str
    after: str | None  # key of the message before it
    participant: str  # the source's role
    blocks: list[Any]  # plain, in Anthropic's form
    id: str | None = None  # the source's own, if it has one
    at: int | None = None  # µs since the epoch
    metadata: Mapping[str, Any] = {}
    where: str  # its place in the file


class History(msgspec.Struct, frozen=True, kw_only=True):
    """One conversation, all its branches."""

    source: str  # metadata.external.source of its messages
    messages: dict[str, SourceMessage]  # by key, in the order of the file
    current: str | None = None  # key of the message where the source stands
    side: frozenset[str] = frozenset()  # keys of first messages of side chains
    title: str = ""
    id: str = ""  # the source's own, where its messages' ids mean something only together with it
    updated: int | None = None  # µs since the epoch


class Read(msgspec.Struct, frozen=True):
    """What a reader found in a file."""

    form: str  # "ChatGPT export"
    histories: list[History]
    faults: list[Fault]


def path(history: History, end: str) -> list[SourceMessage]:
    """The messages from the first to this one."""
    found: list[SourceMessage] = []
    key: str | None = end
    while key is not None:
        message = history.messages[key]
        found.append(message)
        key = message.after
    return found[::-1]


def ends(history: History) -> list[str]:
    """Where each branch of a history ends: the current one first, side chains last, else in the order of the file."""
    parents = {message.after for message in history.messages.values()}
    leaves = [key for key in history.messages if key not in parents]
    current = history.current
    if current is None and leaves:
        current = leaves[-1]
    others = [key for key in leaves if key != current]
    if history.side:
        roots = _roots(history)
        others.sort(key=lambda key: roots[key] in history.side)
    return others if current is None else [current, *others]


def _roots(history: History) -> dict[str, str]:
    """The first message of the chain that each message is on."""
    found: dict[str, str] = {}
    for start in history.messages:
        chain, key = [], start
        while key not in found:
            chain.append(key)
            after = history.messages[key].after
            if after is None:
                found[key] = key
                break
            key = after
        for passed in chain:
            found[passed] = found[key]
    return found


def last_leaf(messages: Mapping[str, SourceMessage], key: str | None) -> str | None:
    """The leaf below a message, along its last children."""
    if key is None:
        return None
    children = {message.after: message.key for message in messages.values()}  # the last one of each stays
    while key in children:
        key = children[key]
    return key


def without_circles(after: Mapping[str, str | None]) -> dict[str, str | None]:
    """The links with each circle opened at that message of it which comes first in the file."""
    order = {key: number for number, key in enumerate(after)}
    found = dict(after)
    done: set[str] = set()
    for start in after:
        chain: dict[str, None] = {}
        key: str | None = start
        while key is not None and key not in done:
            if key in chain:
                walked = list(chain)
                circle = walked[walked.index(key) :]
                first = min(circle, key=order.__getitem__)
                found[first] = None
                break
            chain[key] = None
            key = found[key]
        done.update(chain)
    return found


def chains(history: History) -> dict[str, str]:
    """For each message the digest of all that was said up to it: who, what, under which id. Two histories share the
    messages whose digests are equal. What cannot be encoded counts as nothing."""
    found: dict[str, str] = {}
    for start in history.messages:
        for message in _unknown(history, start, found):
            before = f"{history.source}\0{history.id}" if message.after is None else found[message.after]
            said = (before, message.id, message.participant, message.blocks)
            try:
                encoded = msgspec.msgpack.encode(said)
            except (msgspec.MsgspecError, UnicodeEncodeError, OverflowError, TypeError, ValueError, RecursionError):
                encoded = repr((before, message.key)).encode(errors="backslashreplace")
            found[message.key] = blake3(encoded).hexdigest(length=16)
    return found


def _unknown(history: History, start: str, found: Mapping[str, str]) -> Iterator[SourceMessage]:
    """The messages up to this one that are not in `found`, oldest first."""
    waiting: list[SourceMessage] = []
    key: str | None = start
    while key is not None and key not in found:
        waiting.append(history.messages[key])
        key = waiting[-1].after
    yield from reversed(waiting)


def first_words(texts: Iterable[str], size: int = 60) -> str:
    """A title where there is none: the first words of the first text that has any."""
    for text in texts:
        words = " ".join(text.split())
        if words:
            return words if len(words) <= size else words[:size].rsplit(" ", 1)[0]
    return ""
