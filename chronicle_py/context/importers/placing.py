"""Writing histories into a store: each path of a source becomes a branch, and what is there already is not added again.

Where a path goes: on from the longest part of it that the store has; at the end of a branch when that is where the part
ends, else on a fork from there. A path of which nothing is there starts a branch without a history. The path where the
source stands takes the branch that was asked for, else `main` while that is empty, else one that is named by the title;
the others are named after it, numbered, side chains with "-side". Several conversations each do so, the newest first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chronicle_py.branch import Branch
from chronicle_py.context.conversation import Conversation
from chronicle_py.context.importers.branch_names import free, name_of
from chronicle_py.context.importers.history import History, SourceMessage, chains, ends, path
from chronicle_py.context.importers.known import Known, Spot
from chronicle_py.context.importers.mending import mended
from chronicle_py.context.names import fork_name
from chronicle_py.errors import ChronicleError
from chronicle_py.exchange.faults import Fault

Progress = Callable[[int, int], None]
MAIN = "main"
_EVERY = 256  # messages between two reports of progress


class Placing:
    """One import of histories into a store, inside a transaction."""

    def __init__(
        self,
        conversation: Conversation,
        histories: list[History],
        branch: str | None,
        name: str,
        progress: Progress | None,
    ) -> None:
        self.store = conversation.store
        self.conversation = conversation
        self.asked = branch
        self.name = name
        self.faults: list[Fault] = []
        self.added = 0
        self.blobs = 0  # media that were stored
        self.there_before = 0  # messages of the source
        self._taken: set[str] = set()  # names of branches
        self._settled: set[str] = set()  # branches that end where a path of the source does
        self.known = Known()
        self.outcomes: dict[str, str] = {}
        self.current: str | None = None
        self._progress = progress
        self._done = 0
        self._histories = sorted(histories, key=lambda history: -(history.updated or 0))
        self._total = sum(len(history.messages) for history in histories)

    def place(self) -> None:
        """Writes all of them."""
        digests = [chains(history) for history in self._histories]
        names = [info.name for info in self.store.branches()]
        self._taken = set(names)
        ids: dict[str, set[str]] = {}
        for history, said in zip(self._histories, digests, strict=True):
            ids.setdefault(history.source, set()).update(_id(m, said[m.key]) for m in history.messages.values())
        self.known.look(self.conversation, names, ids)
        self.there_before = sum(digest in self.known.spots for said in digests for digest in set(said.values()))
        for history, said in zip(self._histories, digests, strict=True):
            self._place(history, said)
        if self._progress is not None:
            self._progress(self._total, self._total)

    def _place(self, history: History, said: dict[str, str]) -> None:
        base: str | None = None
        start: Spot | None = None  # where first messages go on from
        for number, end in enumerate(ends(history)):
            messages = path(history, end)
            side = messages[0].key in history.side
            target: Branch
            last = next((m for m in reversed(messages) if said[m.key] in self.known.spots), None)
            rest = messages if last is None else messages[messages.index(last) + 1 :]
            before = None if last is None else said[last.key]
            if not rest and before is not None:
                name = self._home(before, number == 0)
                self.outcomes.setdefault(name, "same")
            else:
                if before is not None:
                    target = self._after(before, number == 0)
                elif number == 0:
                    target, start = self._first(history)
                elif start is not None and not side:
                    target = self._forked(self._numbered(base), start)
                else:
                    target = self._orphan(free(f"{base}-side", self._taken) if side else self._numbered(base))
                name = target.name
                self._append(target, history, rest, said, before)
            self._settled.add(name)
            if number == 0:
                base = name
                if self.current is None:
                    self.current = name

    # --- branches ---

    def _numbered(self, base: str | None) -> str:
        return fork_name(base or MAIN, self._taken)

    def _forked(self, name: str, spot: Spot) -> Branch:
        self.outcomes[name] = "new"
        self._taken.add(name)
        return self.store.branch(spot.branch).fork(name, spot.seq)

    def _orphan(self, name: str) -> Branch:
        self.outcomes[name] = "new"
        self._taken.add(name)
        return self.store.orphan(name)

    def _home(self, digest: str, first: bool) -> str:
        """The branch that a known message ends, or is on. A new one, where another was asked for."""
        tips = self.known.tips.get(digest, [])
        asked = self._take_asked() if first else None
        if asked in tips:
            return str(asked)
        if asked is not None and asked not in self._taken:
            self._forked(asked, self.known.spots[digest])
            self.known.tips.setdefault(digest, []).append(asked)
            return asked
        return tips[0] if tips else self.known.spots[digest].branch

    def _after(self, digest: str, first: bool) -> Branch:
        """The branch that goes on from a known message."""
        asked = self._take_asked() if first else None
        tips = self.known.tips.get(digest, [])
        if asked is None or asked in self._taken:
            open_ended = [name for name in tips if name not in self._settled]
            found = asked if asked in open_ended else next(iter(open_ended), None)
            if found is not None:
                self.outcomes.setdefault(found, "moved")
                return self.store.branch(found)
        spot = self.known.spots[digest]
        name = asked if asked is not None and asked not in self._taken else self._numbered(spot.branch)
        return self._forked(name, spot)

    def _take_asked(self) -> str | None:
        """The branch that was asked for, once: the newest conversation's current path takes it."""
        asked, self.asked = self.asked, None
        return asked

    def _first(self, history: History) -> tuple[Branch, Spot | None]:
        """The branch for a current path of which nothing is known, and where it goes on from."""
        taken = self._taken
        asked = self._take_asked()
        if asked is None and self.current is None and self.store.branch(MAIN).seq == 0:
            asked = MAIN
        if asked is None:
            return self._orphan(free(name_of(history.title or self.name), taken)), None
        if asked not in taken:
            return self._orphan(asked), None
        branch = self.store.branch(asked)
        self.outcomes[asked] = "moved"
        return branch, Spot(asked, branch.seq) if branch.seq else None

    # --- messages ---

    def _append(
        self, branch: Branch, history: History, messages: list[SourceMessage], said: dict[str, str], before: str | None
    ) -> None:
        if self.outcomes.get(branch.name) == "same":
            self.outcomes[branch.name] = "moved"
        conversation = self.conversation.on(branch)
        for message in messages:
            digest = said[message.key]
            seq = self._add(conversation, history, message, digest)
            self._done += 1
            if seq is not None:
                self.known.add(digest, Spot(branch.name, seq), before)
                before = digest
            if self._progress is not None and self._done % _EVERY == 0:
                self._progress(self._done, self._total)

    def _add(self, conversation: Conversation, history: History, message: SourceMessage, digest: str) -> int | None:
        external = {"source": history.source, "id": _id(message, digest)}
        if message.id:
            external["said"] = digest
        metadata: dict[str, Any] = {**message.metadata, "external": external}
        try:
            added = conversation.add(message.participant, message.blocks, metadata=metadata, at=message.at)
        except (ChronicleError, UnicodeEncodeError) as error:
            wrong = str(error)
            try:
                blocks, metadata = mended(message.blocks), mended(metadata)
                added = conversation.add(message.participant, blocks, metadata=metadata, at=message.at)
            except (ChronicleError, UnicodeEncodeError):
                self.faults.append(Fault(message.where, wrong))
                return None
            self.faults.append(Fault(message.where, f"{wrong}; that part was replaced"))
        self.added += 1
        self.blobs += len(conversation.branch.event(added.seq).blobs) if _has_media(message) else 0
        return added.seq


def _has_media(message: SourceMessage) -> bool:
    return any(block.get("type") not in ("text", "thinking", "tool_use") for block in message.blocks)


def _id(message: SourceMessage, digest: str) -> str:
    """The external id, as it is stored: the source's own, else the digest."""
    return str(mended(message.id)) if message.id else digest
