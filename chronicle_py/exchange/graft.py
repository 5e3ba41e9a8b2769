"""Grafting: writing events that were made elsewhere, ids and all, into a running transaction.

Theory of operation. An event keeps its id, parent and sequence, so its place is given: after its parent. Where the
store has it already, that position is used again. Else it is appended to a lineage that this graft opened and whose end
is its parent, or opens a child lineage at its parent's position. Lineages that were there before are never appended to:
they may belong to a branch. Blocks are closed as for any append.

Branches are set when the events are in. One that is new, empty, or behind the imported head moves there, with a reflog
entry `import`; the feed gets that, and then the new events as runs on the first branch that has them.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from chronicle_py.errors import Conflict
from chronicle_py.exchange.lines import ReadEvent
from chronicle_py.kv import OBJECTS
from chronicle_py.records import BLOCK, FeedRecord, Position, Ref
from chronicle_py.transaction import Transaction

_RECENT = 1000  # events whose positions are kept at hand before they are put

Outcome = Literal["new", "moved", "same", "behind"]


class Head(NamedTuple):
    """Where an imported branch ends. Sequence 0 on lineage 0 with key b"": it is empty."""

    lineage: int
    seq: int
    key: bytes


class Graft:
    """The events and branches that one import adds."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._engine = tx.engine
        self._made: dict[int, int] = {}  # lineage opened here -> the sequence it starts after
        self._ends: dict[int, int] = {}  # those of them that may still grow -> their last sequence
        self._told: dict[int, int] = {}  # lineage opened here -> its last sequence that is in the feed
        self._recent: dict[bytes, Position] = {}
        self.added = 0

    def find(self, key: bytes) -> Position | None:
        """Where the event of this id lies, if it is here."""
        return self._recent.get(key) or self._engine.log.find(self._tx.writer, key)

    def add(self, event: ReadEvent, parent: Position | None) -> None:
        """Writes an event that is not here yet after its parent (None: it is the first of a history)."""
        above, at = parent or (0, 0)
        lineage = above
        if not above or self._ends.get(above) != at:
            lineage = self._tx.open_lineage(above, at)
            self._made[lineage] = at
        if len(self._recent) >= _RECENT:
            self._tx.flush_events()
            self._recent.clear()
        self._tx.write_event(lineage, event.seq, event.key, event.stored, event.refs)
        self._recent[event.key] = lineage, event.seq
        self._ends[lineage] = event.seq
        self.added += 1
        if event.seq % BLOCK == 0:
            self._engine.checkpoints.close_block(self._tx, lineage, event.seq)

    def add_blob(self, key: bytes, stored: bytes) -> bool:
        """Stores a blob; whether it is new."""
        if self._tx.writer.get(OBJECTS, key) is not None:
            return False
        self._tx.writer.put(OBJECTS, key, stored)
        self._tx.changes += 1
        return True

    # --- branches ---

    def set_branch(self, name: str, head: Head, wanted: Ref) -> Outcome:
        """Brings a branch to an imported head. `wanted` says what a new one is besides its head."""
        tx = self._tx
        tx.flush()
        now = tx.find_ref(name)
        if now is not None:
            if now.key == head.key:
                return "same"
            if not self._continues(head, now):
                if self._continues(Head(now.lineage, now.seq, now.key), Ref(*head, False, 0, None, 0)):
                    return "behind"
                raise Conflict(
                    f"branch {name!r} is at {now.key.hex()[:12]} (sequence {now.seq}) here and at "
                    f"{head.key.hex()[:12]} (sequence {head.seq}) in the file, and neither continues the other. "
                    "Nothing was imported; give the file's branches names of their own, as with --prefix imported/"
                )
        owned = self._ends.get(head.lineage) == head.seq
        if owned:
            del self._ends[head.lineage]  # only this branch appends to it from now on
        kept = now if now is not None and (now.seq or now.parent) else wanted  # an unused main is as good as new
        after = Ref(*head, owned, kept.created, kept.parent, kept.fork_seq, kept.description)
        tx.move("import", name, now, after, self._engine.clock())
        self._tell(name, head)
        return "new" if now is None else "moved"

    def _continues(self, head: Head, ref: Ref) -> bool:
        """Whether the history up to `head` contains the whole of the branch's."""
        if ref.seq == 0:
            return True
        if ref.seq > head.seq:
            return False
        return self._engine.log.on_chain(self._tx.writer, head.lineage, ref.seq)[1].key == ref.key

    def _tell(self, name: str, head: Head) -> None:
        """Puts the new events of a branch into the feed."""
        pieces: list[tuple[int, int, int]] = []
        number, last = head.lineage, head.seq
        while number in self._made:
            start = self._made[number]
            told = self._told.get(number, start)
            if last > told:
                pieces.append((number, told + 1, last))
                self._told[number] = last
            if told > start:
                break
            number, last = self._engine.lineages.get(self._tx.writer, number).parent, start
        before = 0
        for lineage, first, last in reversed(pieces):
            self._tx._feed(FeedRecord("run", name, lineage, first, before))
            before = last
