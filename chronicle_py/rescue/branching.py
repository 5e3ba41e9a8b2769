"""The branches of a salvaged store: their heads, reflogs, and the feed that tells of them.

A branch ends where the history of its head is no longer whole. What its record was is told by `Surviving`, what there
is of its history by `Rebuilding`.
"""

from __future__ import annotations

from typing import Final

import msgspec

from chronicle_py import records
from chronicle_py.feed_gone import GONE
from chronicle_py.kv import FEED, REFLOG, REFS
from chronicle_py.records import FeedRecord, MoveRecord, Ref, seal
from chronicle_py.rescue.rebuilding import Rebuilding
from chronicle_py.rescue.surviving import OPEN, Surviving

_MAIN: Final = "main"


class SalvagedBranch(msgspec.Struct, frozen=True):
    """What became of a branch."""

    name: str
    outcome: str  # "whole"; "cut": ends before the first lost event; "mended": its head was worked out anew; "lost"
    seq: int
    head: str | None
    lost: list[tuple[int, int]]  # sequences (first, last) of which there is no event any more
    after: int  # events behind a gap, which are in the leftovers


class Branches:
    """Sets the branches of the new store, and brings reflog and feed."""

    def __init__(self, built: Rebuilding, surviving: Surviving, notes: list[str]) -> None:
        self._built = built
        self._surviving = surviving
        self._notes = notes
        self._owned: set[int] = set()
        self._changed: dict[str, Ref] = {}  # branches that are not what they were

    def run(self) -> list[SalvagedBranch]:
        if REFS in self._surviving.broken and FEED in self._surviving.broken:
            self._unnamed()
        refs = self._surviving.refs
        found = [self._branch(name, refs[name]) for name in sorted(refs, key=lambda n: (n != _MAIN, n))]
        if _MAIN not in refs:
            self._notes.append("nothing was found of the branch main; the new store has an empty one")
            self._set(_MAIN, Ref(0, 0, b"", False, 0, None, 0), changed=True)
            found.insert(0, SalvagedBranch(_MAIN, "lost", 0, None, [], 0))
        self._reflog()
        self._feed(found)
        return found

    def _unnamed(self) -> None:
        """Branches for histories that no name is left for."""
        inner: set[int] = set()
        for ref in self._surviving.refs.values():
            seq = self._built.ends.get(ref.lineage, 0) if ref.seq == OPEN else ref.seq
            inner.add(self._built.kept(ref.lineage, seq)[0])
        inner.update(record.parent for record in self._built.made.values())
        for number in sorted(self._built.made):
            if number not in inner and number not in self._surviving.stated:
                name = f"salvaged-{number}"
                self._surviving.refs[name] = Ref(number, OPEN, b"", True, 0, None, 0)
                self._notes.append(f"branch {name} holds a history of which no branch was known any more")

    def _branch(self, name: str, ref: Ref) -> SalvagedBranch:
        built = self._built
        mended = name in self._surviving.mended or ref.seq == OPEN
        if ref.seq == OPEN:
            ref = msgspec.structs.replace(ref, seq=max(built.ends.get(ref.lineage, 0), *self._open_end(ref.lineage)))
        lineage, seq = built.kept(ref.lineage, ref.seq)
        key = built.key_at(lineage, seq)
        whole = seq == ref.seq and (mended or key == ref.key)
        owned = ref.owned and whole and lineage == ref.lineage and built.ends.get(lineage) == seq
        owned = owned and lineage not in self._owned
        if owned:
            self._owned.add(lineage)
        now = Ref(lineage, seq, key, owned, ref.created, ref.parent, min(ref.fork_seq, seq), ref.description)
        self._set(name, now, changed=not whole)
        left = [] if whole else built.survivors(ref.lineage, seq, ref.seq)
        outcome = "cut" if not whole else "mended" if mended else "whole"
        return SalvagedBranch(
            name, outcome, seq, key.hex() or None, [] if whole else _gaps(seq + 1, ref.seq, left), len(left)
        )

    def _open_end(self, lineage: int) -> tuple[int, int]:
        left = self._built.left.get(lineage, [0])
        return self._surviving.stated.get(lineage, (0, b""))[0], left[-1]

    def _set(self, name: str, ref: Ref, changed: bool) -> None:
        key = name.encode()
        self._built.tx.writer.put(REFS, key, seal(key, records.encode(ref)))
        self._built.tx.changes += 1
        if changed:
            self._changed[name] = ref

    # --- reflog ---

    def _reflog(self) -> None:
        writer = self._built.tx.writer
        dropped = 0
        known: set[str] = set()
        last: dict[str, int] = {}
        for key, move in self._surviving.moves():
            name = key[:-9].decode()
            last[name] = max(last.get(name, 0), int.from_bytes(key[-8:], "big"))
            if self._holds(move.before) and self._holds(move.after):
                writer.put(REFLOG, key, seal(key, records.encode(move)))
                known.add(name)
            else:
                dropped += 1
        time = self._built._engine.clock()
        refs = self._surviving.refs
        for name in {*refs, _MAIN}:
            if name in known and name not in self._changed:
                continue
            stored = writer.get(REFS, name.encode())
            ref = records.decode_ref(name.encode(), stored or b"", name)
            key = records.reflog_key(name, last.get(name, 0) + 1)
            writer.put(REFLOG, key, seal(key, records.encode(MoveRecord("import", time, None, ref))))
        if dropped:
            self._notes.append(f"{dropped} entries of reflogs named events that are lost, and were left out")

    def _holds(self, ref: Ref | None) -> bool:
        return ref is None or ref.seq == 0 or self._built.key_at(ref.lineage, ref.seq) == ref.key

    # --- feed ---

    def _feed(self, branches: list[SalvagedBranch]) -> None:
        """The feed as it was, if all of it is there and true; else one that tells of each branch once."""
        writer = self._built.tx.writer
        if all(branch.outcome == "whole" for branch in branches) and not self._changed and self._copied():
            return
        self._notes.append("the feed was made anew: it brings each branch once, with its events, `main` first")
        told: dict[int, int] = {}
        number = before = 0
        for branch in branches:
            key = branch.name.encode()
            ref = records.decode_ref(key, writer.get(REFS, key) or b"", branch.name)
            entries = [FeedRecord("import", branch.name, 0, 0, before, None, ref)]
            before = 0
            for lineage, first, last in self._pieces(ref, told):
                entries.append(FeedRecord("run", branch.name, lineage, first, before))
                before = last
            for entry in entries:
                number += 1
                place = records.pack_number(number)
                writer.put(FEED, place, seal(place, records.encode(entry)))

    def _pieces(self, ref: Ref, told: dict[int, int]) -> list[tuple[int, int, int]]:
        """The parts of a branch's history that no branch has told yet, oldest first."""
        found: list[tuple[int, int, int]] = []
        lineage, seq = ref.lineage, ref.seq
        while lineage:
            record = self._built.made[lineage]
            start = told.get(lineage, record.fork_seq)
            if seq > start:
                found.append((lineage, start + 1, seq))
                told[lineage] = seq
            if start > record.fork_seq:
                break
            lineage, seq = record.parent, min(seq, record.fork_seq)
        return found[::-1]

    def _copied(self) -> bool:
        """Copies the feed; False, with nothing of it left, where not all of it is there."""
        writer = self._built.tx.writer
        ends = self._built.ends
        number, jump = 0, False
        whole = FEED not in self._surviving.broken
        if whole:
            for key, record in self._surviving.read(FEED, records.decode_feed):
                before, number = number, int.from_bytes(key, "big")
                follows = number > before if jump else number == before + 1
                if not follows or (record.kind == "run" and record.start > ends.get(record.lineage, 0)):
                    whole = False
                    break
                writer.put(FEED, key, seal(key, records.encode(record)))
                jump = record.kind == GONE
        if whole and FEED not in self._surviving.broken:  # it may have turned out to be while it was read
            return True
        while found := writer.scan(FEED, b"", limit=1024):
            for key, _ in found:
                writer.delete(FEED, key)
        return False


def _gaps(start: int, stop: int, there: list[int]) -> list[tuple[int, int]]:
    """The stretches of start…stop without those that are there."""
    found: list[tuple[int, int]] = []
    at = start
    for seq in there:
        if seq > at:
            found.append((at, seq - 1))
        at = max(at, seq + 1)
    if at <= stop:
        found.append((at, stop))
    return found
