"""`ItemLog`: the state of a list slot, which refers to the events that hold its items.

Here live the spine of references and the face of the log. How events are read is the caller's: `fetch`
gives the bytes of items; this module does no other I/O.

Theory of operation. Where chunks end and what is hashed is decided by the items' bytes, so logs of equal
items have equal content hashes wherever the items lie; what is stored are the references, in runs. A leaf
of consecutive appends packs into some ten bytes and stands in its parent in place of an address; only long
ones are objects. Versions share a tail as those of `List` do; reading a reference needs no item, settling
the tail needs those of the open leaf and the tail.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Self

from blake3 import blake3
from msgspec import Raw
from msgspec.msgpack import Encoder

from chronicle_py.chunking import MAX_ENTRIES, entry_cuts
from chronicle_py.entries import array_header
from chronicle_py.errors import CorruptStore, InvalidOperation, ItemIndexError
from chronicle_py.nodes import ROW, RUNS, Child, Objects, Row, address_of, body_of, other_size
from chronicle_py.runs import Ref, Run, Runs, join_runs, pack_run, pack_runs, refs_of, runs_of, unpack_runs
from chronicle_py.shown import shown
from chronicle_py.tree import Edit, Root, Spine

__all__ = ["Fetch", "ItemLog", "Ref"]

Fetch = Callable[[Sequence[Ref]], list[bytes]]
_Entry = tuple[int, int, int, int, int, bytes | None]  # a Ref and the item, where it is known

_SPREAD = 12000  # leaves of some 10 KB of items: hashed as fast as half of it, and few bytes are stored
_INLINE = 200  # bytes of packed runs up to which a leaf stands inside its parent
_TAIL_ENTRIES = 1024
_TAIL_BYTES = 262_144
_BULK = 64
_PADDED = 2048  # bytes above which what is hashed is padded to a power of two: BLAKE3 is twice as fast on those
_HASHED_LEAF, _HASHED_ROW, _HASHED_AS = b"\x03c", b"\x03i", b"\x03a"

_encode = Encoder().encode
_new = object.__new__


_HEADERS = [_HASHED_LEAF + array_header(n) for n in range(MAX_ENTRIES + 1)]


def _content_of(items: list[bytes]) -> bytes:
    """The content hash of a leaf. The array's header says where the items end, so padding adds no meaning."""
    data = b"".join([_HEADERS[len(items)], *items])
    size = len(data)
    return blake3(data.ljust(1 << (size - 1).bit_length(), b"\0") if size > _PADDED else data).digest()


def _load_runs(data: bytes) -> Runs:
    return unpack_runs(body_of(data, RUNS))


class LogSpine(Spine[Runs]):
    """References, cut by the items they refer to."""

    __slots__ = ("fetch",)

    def __init__(self, fetch: Fetch, objects: Objects | None) -> None:
        self.fetch = fetch
        super().__init__(objects)

    def _like(self) -> Self:
        new = super()._like()
        new.fetch = self.fetch
        return new

    def items_of(self, leaf: Runs) -> list[bytes]:
        """The bytes of a leaf's items, fetched unless they are known."""
        if leaf.items is not None:
            return leaf.items
        return self.fetched(list(refs_of(leaf.runs)))

    def fetched(self, refs: Sequence[Ref]) -> list[bytes]:
        items = self.fetch(refs)
        if len(items) != len(refs):
            raise CorruptStore(f"{len(refs)} items were asked for, {len(items)} were found")
        return items

    def _part(self, leaf: Runs, start: int, stop: int) -> Runs:
        return leaf.part(start, stop)

    def _join(self, parts: list[Runs]) -> Runs:
        parts = [part for part in parts if part.size]
        if not parts:
            return Runs([], 0, [])
        if len(parts) == 1 and parts[0].items is not None:
            return parts[0]
        runs = join_runs(chain.from_iterable(part.runs for part in parts))
        items: list[bytes] = []
        for part in parts:
            items += self.items_of(part)
        joined = Runs(runs, len(items), items)
        joined.looked = parts[0].looked
        return joined

    def _cuts(self, leaf: Runs) -> list[int]:
        ends = entry_cuts(self.items_of(leaf), _SPREAD, leaf.looked)
        leaf.cut_at = ends[-1] if ends else 0
        if not ends:
            leaf.looked = len(leaf)
        return ends

    def _close_all(self, leaf: Runs, ends: list[int]) -> list[Child]:
        run, items = leaf.runs[0], leaf.items
        if len(leaf.runs) > 1 or run[2] >= 0 or run[4] or items is None:
            return super()._close_all(leaf, ends)
        closed = []
        start = 0
        for end in ends:
            at = pack_run(run[0], run[1] + start, end - start)
            closed.append(Child(end - start, 0, b"", _content_of(items[start:end]), at, None))
            start = end
        return closed

    def _close(self, leaf: Runs) -> Child:
        content = _content_of(self.items_of(leaf))
        packed = pack_runs(leaf.runs)
        if len(packed) <= _INLINE:
            return Child(leaf.size, 0, b"", content, packed, None)
        return Child(leaf.size, 0, b"", content, address_of(RUNS + packed), Runs(leaf.runs, leaf.size))

    def _close_row(self, row: Row) -> Child:
        content = blake3(_HASHED_ROW + Row(row.counts, row.contents, [], [], [], []).pack()).digest()
        return Child(row.total, 0, b"", content, address_of(ROW + row.pack()), row)

    def leaf_of(self, row: Row, k: int) -> Runs:
        memo = row.memo
        if memo is None:
            memo = row.memo = [None] * len(row.counts)
        leaf: Runs | None = memo[k]
        if leaf is not None:
            return leaf
        if row.nodes and row.nodes[k] is not None:
            leaf = row.nodes[k]
        elif not row.ats:
            raise CorruptStore("an inner node of a list says nowhere where its leaves lie")
        elif len(row.ats[k]) == 32:
            leaf = self._objects().cached(row.ats[k], _load_runs)
            if leaf.size != row.counts[k]:
                raise other_size("a leaf", leaf.size, row.counts[k])
            return leaf
        else:
            leaf = unpack_runs(row.ats[k])
        assert leaf is not None
        if leaf.size != row.counts[k]:
            raise other_size("a leaf", leaf.size, row.counts[k])
        memo[k] = leaf
        return leaf

    def _store_leaf(self, address: bytes, node: Any, objects: Objects) -> None:
        objects.store(address, RUNS + pack_runs(node.runs))

    def _pack_open(self, leaf: Runs) -> bytes:
        return pack_runs(leaf.runs)

    def _unpack_open(self, body: Raw) -> Runs:
        leaf = unpack_runs(body)
        if leaf.size != self.counts[0]:
            raise CorruptStore(f"an open leaf has {leaf.size} entries instead of {self.counts[0]}")
        return leaf

    @property
    def content(self) -> bytes:
        """The content hash: of the items, wherever they lie."""
        items = self.items_of(self.open)
        rows = [self.row(level) for level in range(1, self.top + 1)]
        bodies = [Raw(Row(row.counts, row.contents, [], [], [], []).pack()) for row in rows]
        body = Raw(b"".join((array_header(len(items)), *items)))
        return blake3(_HASHED_AS + _encode(Root(self.counts, [], body, bodies))).digest()


class ItemLog:
    """An immutable list of references to items; each change gives a new one."""

    __slots__ = ("_state",)
    _state: tuple[LogSpine, list[_Entry], int]  # spine, shared tail, how much of it; replaced as one

    @classmethod
    def empty(cls, fetch: Fetch, objects: Objects | None = None) -> "ItemLog":
        """The log without items. `fetch` gives the bytes of the items that references name, in order."""
        return cls._of(LogSpine(fetch, objects), [], 0)

    @classmethod
    def decode(cls, data: bytes, fetch: Fetch, objects: Objects | None) -> "ItemLog":
        """The log of a root; raises `CorruptStore`."""
        return cls._of(LogSpine(fetch, objects).decoded(data), [], 0)

    @classmethod
    def _of(cls, spine: LogSpine, tail: list[_Entry], n: int) -> "ItemLog":
        new = _new(cls)
        new._state = (spine, tail, n)
        return new

    # Reading

    def __len__(self) -> int:
        spine, _, n = self._state
        return sum(spine.counts) + n

    def __repr__(self) -> str:
        return f"<ItemLog of {len(self)} items>"

    def __eq__(self, other: object) -> bool:
        return self.content == other.content if isinstance(other, ItemLog) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.content)

    def fetch(self, refs: Sequence[Ref]) -> list[bytes]:
        """The bytes of the items that references name."""
        return self._state[0].fetched(refs)

    def ref(self, index: int) -> Ref:
        """Where item `index` (Python's index) lies; raises `IndexError` outside. O(log n)."""
        spine, tail, n = self._state
        settled = sum(spine.counts)
        at = self._offset(index, settled + n)
        if at >= settled:
            return Ref(*tail[at - settled][:5])
        leaf, position = spine.locate(at)
        return leaf.ref(position)

    @staticmethod
    def _offset(index: int, n: int) -> int:
        at = index + n if index < 0 else index
        if not 0 <= at < n:
            raise ItemIndexError(f"there is no item {shown(index)} in a list of {n}")
        return at

    def refs(self, start: int = 0, stop: int | None = None) -> Iterator[Ref]:
        """The references of [start, stop), clamped as a slice is."""
        for run in self._runs(start, stop):
            yield from refs_of([run])

    def runs(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, int, int] | Ref]:
        """[start, stop) in as few parts as can be.

        (lineage, first_seq, count) for whole payloads of consecutive events, a `Ref` for any other item.
        """
        held: tuple[int, int, int] | None = None
        for lineage, seq, sub, edit_lineage, edit_seq, count in self._runs(start, stop):
            if sub >= 0 or edit_seq:
                if held is not None:
                    yield held
                    held = None
                yield from refs_of([(lineage, seq, sub, edit_lineage, edit_seq, count)])
            elif held is not None and held[0] == lineage and held[1] + held[2] == seq:
                held = (lineage, held[1], held[2] + count)
            else:
                if held is not None:
                    yield held
                held = (lineage, seq, count)
        if held is not None:
            yield held

    def _runs(self, start: int, stop: int | None) -> Iterator[Run]:
        spine, tail, n = self._state
        settled = len(spine)
        start, stop, _ = slice(start, stop).indices(settled + n)
        for base, leaf in spine.leaves(start, min(stop, settled)):
            if start <= base and base + leaf.size <= stop:
                yield from leaf.runs
            else:
                yield from leaf.runs_between(max(start - base, 0), min(stop - base, leaf.size))
        yield from runs_of(tail[max(start - settled, 0) : max(stop - settled, 0)])

    # Changing

    def append(self, lineage: int, seq: int, item: bytes | None = None) -> "ItemLog":
        """With one more item, an event's payload; copies nothing. `item`: its bytes, if they are at hand."""
        entry = (lineage, seq, -1, 0, 0, item)
        spine, tail, n = self._state
        if len(tail) != n:
            tail = tail[:n]
        tail.append(entry)
        if tail[n] is not entry:  # another thread appended to the same version at the same time
            tail = [*tail[:n], entry]
        new = _new(ItemLog)
        new._state = (spine, tail, n + 1)
        if not (n + 1) % _BULK:
            new._settle_when_heavy()
        return new

    def extend_run(self, lineage: int, seq: int, items: list[bytes] | None, count: int | None = None) -> "ItemLog":
        """With the payloads of consecutive events from `seq` on: their bytes, or None and how many."""
        if items is None:
            return self.extend([Ref(lineage, seq + k) for k in range(count or 0)])
        if len(items) < _BULK:
            return self.extend([Ref(lineage, seq + k) for k in range(len(items))], items)
        spine = self.settled()
        end = len(spine)
        added = Runs([(lineage, seq, -1, 0, 0, len(items))], len(items), items)
        return ItemLog._of(spine.splice([Edit(end, end, added)]), [], 0)

    def extend(self, refs: Iterable[Ref], items: Sequence[bytes] | None = None) -> "ItemLog":
        """With more items at the end; `items` are their bytes, where they are at hand, as many as `refs`."""
        refs = list(refs)
        if items is not None and len(items) != len(refs):
            raise InvalidOperation(f"{len(refs)} references were given with {len(items)} items")
        if not refs:
            return self
        known: Sequence[bytes | None] = [None] * len(refs) if items is None else items
        added: list[_Entry] = [(*ref, item) for ref, item in zip(refs, known, strict=True)]
        spine, tail, n = self._state
        if len(tail) != n:
            tail = tail[:n]
        tail.extend(added)
        if tail[n] is not added[0]:  # another thread appended to the same version at the same time
            tail = [*tail[:n], *added]
        new = ItemLog._of(spine, tail, n + len(added))
        if n // _BULK != len(tail) // _BULK:
            new._settle_when_heavy()
        return new

    def set(self, index: int, ref: Ref, item: bytes | None = None) -> "ItemLog":
        """With another reference at `index`; raises `IndexError` outside."""
        spine, tail, n = self._state
        settled = len(spine)
        at = self._offset(index, settled + n)
        if at >= settled:
            k = at - settled
            return ItemLog._of(spine, [*tail[:k], (*ref, item), *tail[k + 1 : n]], n)
        entry = Runs([(*ref, 1)], 1, None if item is None else [item])
        return ItemLog._of(spine.splice([Edit(at, at + 1, entry)]), tail, n)

    def delete(self, start: int, stop: int) -> "ItemLog":
        """Without the items of [start, stop), clamped as a slice is."""
        spine, tail, n = self._state
        settled = len(spine)
        start, stop, _ = slice(start, stop).indices(settled + n)
        if start >= stop:
            return self
        if start < settled:
            spine = spine.splice([Edit(start, min(stop, settled), Runs([], 0, []))])
        if stop > settled:
            tail = [*tail[: max(start - settled, 0)], *tail[stop - settled : n]]
            n = len(tail)
        return ItemLog._of(spine, tail, n)

    def _settle_when_heavy(self) -> None:
        """Settle a tail that has grown, unless items would have to be fetched for it."""
        _, tail, n = self._state
        latest = [entry[5] for entry in tail[max(n - _BULK, 0) : n]]
        if n == 0 or None in latest:
            return
        size = sum(len(item) for item in latest if item is not None) * n // len(latest)
        if n >= _TAIL_ENTRIES or size > _TAIL_BYTES:
            self.settled()

    # Content and storage

    def settled(self) -> LogSpine:
        """The spine of all items: the tail is cut into it, in this version alone."""
        spine, tail, n = self._state
        if n:
            entries = tail[:n]
            runs = runs_of(entries)
            missing = [Ref(*entry[:5]) for entry in entries if entry[5] is None]
            found = iter(spine.fetched(missing) if missing else ())
            items = [next(found) if entry[5] is None else entry[5] for entry in entries]
            end = len(spine)
            spine = spine.splice([Edit(end, end, Runs(runs, n, items))])
            self._state = (spine, [], 0)
        return spine

    @property
    def content(self) -> bytes:
        """The content hash: equal for equal items, wherever they lie."""
        return self.settled().content

    @property
    def hash(self) -> str:
        """The content hash in hex."""
        return self.content.hex()

    def save(self, objects: Objects) -> "ItemLog":
        """Store what is not stored yet: an equal log that reads it from `objects`. This one stays."""
        return ItemLog._of(self.settled().save(objects), [], 0)

    def encode(self) -> bytes:
        """The root of a saved log; raises `InvalidOperation` when it was not saved."""
        spine = self.settled()
        if spine.pending():
            raise InvalidOperation("an ItemLog must be saved before it is encoded: call save(objects) first")
        return spine.encode()
