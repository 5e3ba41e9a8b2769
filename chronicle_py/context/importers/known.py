"""Which messages of a source the store has already, and where: what keeps a second import from adding anything.

Each imported message carries the digest of all that was said up to it (`history.chains`). The branches that hold any of
a file's messages are walked, and those that messages were removed from, each shared stretch once: what was removed
since counts as there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from chronicle_py.context.conversation import Conversation
from chronicle_py.context.message import metadata_of
from chronicle_py.context.message_index import MessageIndexState
from chronicle_py.context.payloads import MESSAGE
from chronicle_py.event import Event


class Spot(NamedTuple):
    """Where a message stands."""

    branch: str
    seq: int


class Known:
    """The messages that are there, by the digest of what was said up to them."""

    def __init__(self) -> None:
        self.spots: dict[str, Spot] = {}
        self.tips: dict[str, list[str]] = {}  # digest -> branches that end with the message

    def look(self, conversation: Conversation, names: Iterable[str], ids: Mapping[str, Collection[str]]) -> None:
        """Looks through these branches. `ids`: external ids of the file's messages by source."""
        seen: set[str] = set()
        for name in names:
            on = conversation.on(name)
            index = on.index()
            if index.removed or any(_holds(index, source, wanted) for source, wanted in ids.items()):
                self._walk(on, seen)

    def _walk(self, conversation: Conversation, seen: set[str]) -> None:
        name = conversation.branch.name
        newest = True
        for event in conversation.branch.events(types=(MESSAGE,), reverse=True):
            if event.slot is not None:
                continue
            digest = digest_of(event)
            if newest and digest is not None:
                self.tips.setdefault(digest, []).append(name)
            newest = False
            if event.id in seen:
                return
            seen.add(event.id)
            if digest is not None:
                self.spots.setdefault(digest, Spot(name, event.seq))

    def add(self, digest: str, spot: Spot, before: str | None) -> None:
        """Notes a message that was appended to its branch, after the one of the digest `before`."""
        self.spots[digest] = spot
        if before is not None and spot.branch in self.tips.get(before, ()):
            self.tips[before].remove(spot.branch)
        self.tips.setdefault(digest, []).append(spot.branch)


def _holds(index: MessageIndexState, source: str, wanted: Collection[str]) -> bool:
    """Whether any of these messages stands on a branch. O(the fewer of the two · log n)."""
    if index.sources.count(source) > len(wanted):
        return any(next(index.externals(source, id), None) is not None for id in wanted)
    rows = (index.row(seq) for seq in index.sources.sequences(source))
    return any(row is not None and row.external in wanted for row in rows)


def digest_of(event: Event) -> str | None:
    """The digest that an imported message carries; it is the id where the source had none."""
    metadata: Any = metadata_of(event)
    external = metadata.get("external") if isinstance(metadata, dict) else None
    digest = external.get("said", external.get("id")) if isinstance(external, dict) else None
    return digest if isinstance(digest, str) else None
