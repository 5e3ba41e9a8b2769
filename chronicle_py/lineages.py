"""Lineages: the storage runs that branches are made of, and finding the one that holds a sequence.

A lineage starts after `fork_seq` of its parent and is only ever appended to. A branch's history is a chain of them:
    sequences 1…f1 on A, f1+1…f2 on B (fork_seq f1), f2+1… on C (fork_seq f2)
Which of them holds an old sequence is found in O(log depth) steps by jump links, one to each record, laid out as in
Myers, "An applicative random-access stack" (Information Processing Letters 17, 1983): the link of a new node goes
either to its parent or as far as two equal jumps in a row have gone. A record also says where its jump's fork lies, so
that it is followed only when it does not overshoot.

Records never change, so they are remembered (within limits) for as long as the file is the same.
"""

from __future__ import annotations

from chronicle_py.errors import CorruptStore
from chronicle_py.kv import LINEAGES, Reader
from chronicle_py.records import Lineage, decode_lineage, pack_lineage

Segment = tuple[int, int, int]  # (lineage, first seq, last seq)

_NONE = Lineage(parent=0, fork_seq=-1, jump=0, jump_fork_seq=-1, depth=0)
_REMEMBERED = 200_000


class Lineages:
    """Reads lineage records, and remembers them."""

    def __init__(self) -> None:
        self._known: dict[int, Lineage] = {0: _NONE}

    def forget(self) -> None:
        self._known = {0: _NONE}

    def get(self, reader: Reader, number: int) -> Lineage:
        found = self._known.get(number)
        if found is None:
            key = pack_lineage(number)
            record = reader.get(LINEAGES, key)
            if record is None:
                raise CorruptStore(f"lineage {number} is missing. `chronicle verify` lists the damage")
            found = decode_lineage(key, record, "a lineage")
            if found.parent >= number or found.jump >= number:  # so that no walk goes in a circle
                raise CorruptStore(
                    f"lineage {number} goes on from lineage {max(found.parent, found.jump)}, which is no older. "
                    "`chronicle verify` lists the damage"
                )
            if len(self._known) > _REMEMBERED:
                self.forget()
            self._known[number] = found
        return found

    def owner(self, reader: Reader, lineage: int, seq: int) -> tuple[int, int | None]:
        """The lineage in the chain of `lineage` that holds `seq` (≥ 1), and the last sequence that the chain takes from
        it (None: all, it is `lineage` itself). O(log depth)."""
        upper: int | None = None
        record = self.get(reader, lineage)
        while record.fork_seq >= seq:
            if record.jump_fork_seq >= seq:
                lineage = record.jump
            else:
                lineage, upper = record.parent, record.fork_seq
            record = self.get(reader, lineage)
        return lineage, upper

    def segments(self, reader: Reader, lineage: int, start: int, stop: int) -> list[Segment]:
        """The pieces that make up start…stop of the chain, in order. O(log depth + pieces)."""
        if stop < start:
            return []
        number, _ = self.owner(reader, lineage, stop)
        pieces: list[Segment] = []
        last = stop
        while True:
            fork = self.get(reader, number).fork_seq
            pieces.append((number, max(start, fork + 1), last))
            if fork < start:
                break
            number, last = self.get(reader, number).parent, fork
        pieces.reverse()
        return pieces

    def child_of(self, reader: Reader, parent: int, fork_seq: int) -> Lineage:
        """The record of a new lineage that continues `parent` after `fork_seq`; parent 0 starts a history."""
        if parent == 0:
            return Lineage(parent=0, fork_seq=0, jump=0, jump_fork_seq=-1, depth=1)
        above = self.get(reader, parent)
        jump = self.get(reader, above.jump)
        equal = above.depth - jump.depth == jump.depth - self.get(reader, jump.jump).depth
        target = jump.jump if equal else parent
        far = self.get(reader, target).fork_seq
        return Lineage(parent=parent, fork_seq=fork_seq, jump=target, jump_fork_seq=far, depth=above.depth + 1)

    def note(self, number: int, record: Lineage) -> None:
        self._known[number] = record
