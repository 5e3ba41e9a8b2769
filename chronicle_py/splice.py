"""Replacing entries at one level of a tree.

Here lives the one algorithm by which a persistent tree changes, for leaves and inner nodes alike. It reads
old chunks through `Level`, knows no encoding and writes nothing.

Theory of operation. Edits of a level are replacements of ranges, given in entries of the old tree, in
order. The chunk in which an edit begins is cut anew from its start; chunks that follow are taken in one by
one until a new boundary falls on an old one. From there on the old chunks stand, because a cut depends only
on entries since the chunk's start. What was cut anew is a replacement of a range of children, which is an
edit of the level above.
"""

from typing import Generic, NamedTuple, Protocol, TypeVar

from chronicle_py.nodes import Child, Row


class Chunk(Protocol):
    def __len__(self) -> int: ...
    def position(self, offset: int) -> int: ...


X = TypeVar("X", bound=Chunk)


class Edit(NamedTuple, Generic[X]):
    """Replace the old entries from `start` to `stop` by `new`."""

    start: int
    stop: int
    new: X


class Found(NamedTuple, Generic[X]):
    """An old chunk: where it starts, where it stops (None: it is the open remainder), what it holds."""

    start: int
    stop: int | None
    chunk: X


class Level(Protocol[X]):
    """One level of an old tree, as `rechunk` reads it."""

    def find(self, offset: int) -> Found[X]:
        """The chunk that holds the entry at `offset`, or the open remainder."""

    def part(self, chunk: X, start: int, stop: int) -> X: ...
    def join(self, parts: list[X]) -> X: ...
    def cuts(self, chunk: X) -> list[int]: ...
    def close(self, chunk: X, ends: list[int]) -> list[Child]:
        """Describe the finished chunks that `chunk` consists of up to the last end."""


def rechunk(level: Level[X], edits: list[Edit[X]]) -> tuple[list[Edit[Row]], X | None]:
    """Apply edits at one level: those of the level above, and the open remainder unless the old one holds."""
    above: list[Edit[Row]] = []
    done = 0
    while done < len(edits):
        begin, stop, chunk = level.find(edits[done].start)
        start = position = begin
        closed: list[Child] = []
        parts: list[X] = []
        while True:
            while done < len(edits) and (stop is None or edits[done].start < stop):
                edit = edits[done]
                done += 1
                parts.append(level.part(chunk, chunk.position(position - start), chunk.position(edit.start - start)))
                parts.append(edit.new)
                position = edit.stop
                if stop is not None and position >= stop:
                    start, stop, chunk = level.find(position)
            parts.append(level.part(chunk, chunk.position(position - start), len(chunk)))
            rest = _cut(level, level.join(parts), closed)
            if stop is None:
                above.append(Edit(begin, start, Row.of(closed)))
                return above, rest
            position = stop
            if not len(rest):
                break
            parts = [rest]
            start, stop, chunk = level.find(position)
        above.append(Edit(begin, position, Row.of(closed)))
    return above, None


def _cut(level: Level[X], entries: X, closed: list[Child]) -> X:
    ends = level.cuts(entries)
    if not ends:
        return entries
    closed += level.close(entries, ends)
    return level.part(entries, ends[-1], len(entries))
