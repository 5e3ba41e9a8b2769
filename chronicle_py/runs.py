"""References to the events that hold a list's items, in runs.

Here live `Ref`, the leaf `Runs`, and the bytes of runs. No tree, no reading of events.

Theory of operation. Items appended one after the other lie in events with consecutive sequences on one
lineage, so a leaf is a few runs: (lineage, seq, sub, edit_lineage, edit_seq, count). With `sub` -1 a run is
`count` whole payloads of consecutive events; else it is `count` consecutive elements of one event's list.
An edited item is a run of its own. Packed, each run is a few integers: count and kind in one, and the
differences to the run before.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any, NamedTuple

from msgspec import MsgspecError
from msgspec.msgpack import Decoder, Encoder

from chronicle_py.errors import CorruptStore


class Ref(NamedTuple):
    """Where an item is: an event, an element of its list (-1: all), and the event that edited it last."""

    lineage: int
    seq: int
    sub: int = -1
    edit_lineage: int = 0
    edit_seq: int = 0  # 0: never edited


Run = tuple[int, int, int, int, int, int]

_SUB, _EDITED = 1, 2
_INLINE_SIZE_OF_ADDRESS = 32

_encode = Encoder().encode
_decode = Decoder(list[int]).decode


class Runs:
    """References side by side, with the bytes of their items where those are known.

    `looked`: how many of the first are known to be of one unfinished chunk; `cut_at`: where the last chunk in it ends,
    once that was looked for. So what is appended to an open leaf is looked at alone.
    """

    __slots__ = ("_ends", "cut_at", "items", "looked", "runs", "size")

    def __init__(self, runs: list[Run], size: int, items: list[bytes] | None = None) -> None:
        self.runs = runs
        self.size = size
        self.items = items
        self.looked = 0
        self.cut_at = -1
        self._ends: list[int] | None = None

    def __len__(self) -> int:
        return self.size

    def position(self, offset: int) -> int:
        return offset

    @property
    def weight(self) -> int:
        return 0

    def _run_at(self, index: int) -> tuple[int, int]:
        """The run that holds an entry, and where in it."""
        if len(self.runs) == 1:
            return 0, index
        if self._ends is None:
            self._ends = list(accumulate(run[5] for run in self.runs))
        k = bisect_right(self._ends, index)
        return k, index - self._ends[k - 1] if k else index

    def ref(self, index: int) -> Ref:
        k, at = self._run_at(index)
        lineage, seq, sub, edit_lineage, edit_seq, _ = self.runs[k]
        if sub < 0:
            return Ref(lineage, seq + at, -1, edit_lineage, edit_seq)
        return Ref(lineage, seq, sub + at, edit_lineage, edit_seq)

    def part(self, start: int, stop: int) -> "Runs":
        if start == 0 and stop == self.size:
            return self
        if start >= stop:
            return Runs([], 0, [])
        items = None if self.items is None else self.items[start:stop]
        part = Runs(self.runs_between(start, stop), stop - start, items)
        if start == self.cut_at:
            part.looked = stop - start
        elif start == 0:
            part.looked = min(self.looked, stop)
        return part

    def runs_between(self, start: int, stop: int) -> list[Run]:
        """The runs of a part that is not empty, the first and the last cut."""
        first, skipped = self._run_at(start)
        last, kept = self._run_at(stop - 1)
        if first == last:
            return [_cut_run(self.runs[first], skipped, kept + 1)]
        return [
            _cut_run(self.runs[first], skipped, self.runs[first][5]),
            *self.runs[first + 1 : last],
            _cut_run(self.runs[last], 0, kept + 1),
        ]


def _cut_run(run: Run, start: int, stop: int) -> Run:
    lineage, seq, sub, edit_lineage, edit_seq, _ = run
    if sub < 0:
        return lineage, seq + start, sub, edit_lineage, edit_seq, stop - start
    return lineage, seq, sub + start, edit_lineage, edit_seq, stop - start


def join_runs(runs: Iterable[Run]) -> list[Run]:
    """The same references in as few runs as can be."""
    joined: list[Run] = []
    for run in runs:
        _push(joined, run)
    return joined


def _push(joined: list[Run], run: Run) -> None:
    if joined and (merged := _merged(joined[-1], run)) is not None:
        joined[-1] = merged
    else:
        joined.append(run)


def runs_of(refs: Iterable[tuple[Any, ...]]) -> list[Run]:
    """Single references in as few runs as can be; what follows a reference's five members does not count."""
    joined: list[Run] = []
    first = count = 0
    lineage = next_seq = -1  # what would go on from a run of whole payloads that is not in `joined` yet
    for ref in refs:
        if ref[1] == next_seq and ref[0] == lineage and ref[2] < 0 and not ref[4]:
            count += 1
            next_seq += 1
            continue
        if count:
            joined.append((lineage, first, -1, 0, 0, count))
        if ref[2] < 0 and not ref[4]:
            lineage, first, count, next_seq = ref[0], ref[1], 1, ref[1] + 1
        else:
            count, next_seq = 0, -1
            _push(joined, (ref[0], ref[1], ref[2], ref[3], ref[4], 1))
    if count:
        joined.append((lineage, first, -1, 0, 0, count))
    return joined


def _merged(a: Run, b: Run) -> Run | None:
    """Both runs as one, where the second goes on from the first."""
    if a[0] != b[0] or a[4] or b[4]:
        return None
    goes_on = b[2] < 0 and b[1] == a[1] + a[5] if a[2] < 0 else b[1] == a[1] and b[2] == a[2] + a[5]
    return (*a[:5], a[5] + b[5]) if goes_on else None


def refs_of(runs: list[Run]) -> Iterator[Ref]:
    for lineage, seq, sub, edit_lineage, edit_seq, count in runs:
        for k in range(count):
            if sub < 0:
                yield Ref(lineage, seq + k, -1, edit_lineage, edit_seq)
            else:
                yield Ref(lineage, seq, sub + k, edit_lineage, edit_seq)


def pack_runs(runs: list[Run]) -> bytes:
    """Runs as one MessagePack array of integers, never as long as an address: it can stand for one."""
    numbers: list[int] = []
    last_lineage = next_seq = 0
    for lineage, seq, sub, edit_lineage, edit_seq, count in runs:
        kind = (_SUB if sub >= 0 else 0) | (_EDITED if edit_seq else 0)
        numbers += (count << 2 | kind, lineage - last_lineage, seq - next_seq)
        if sub >= 0:
            numbers.append(sub)
        if edit_seq:
            numbers += (edit_lineage - lineage, edit_seq - seq)
        last_lineage, next_seq = lineage, seq + (count if sub < 0 else 0)
    packed = _encode(numbers)
    if len(packed) == _INLINE_SIZE_OF_ADDRESS:
        packed = _encode([*numbers, 0])
    return packed


def pack_run(lineage: int, seq: int, count: int) -> bytes:
    """As `pack_runs`, of whole payloads of consecutive events."""
    return _encode((count << 2, lineage, seq))


def unpack_runs(packed: Any) -> Runs:
    """The leaf of packed runs; raises `CorruptStore`."""
    runs: list[Run] = []
    lineage = seq = size = 0
    try:
        numbers = iter(_decode(packed))
        for code in numbers:
            count = code >> 2
            if not count:
                break
            lineage += next(numbers)
            seq += next(numbers)
            sub = next(numbers) if code & _SUB else -1
            edit_lineage, edit_seq = (lineage + next(numbers), seq + next(numbers)) if code & _EDITED else (0, 0)
            if count < 0 or not (0 <= lineage | edit_lineage < 1 << 32 and 0 <= seq | edit_seq | count < 1 << 62):
                raise CorruptStore("a leaf of references names a place that cannot be")
            runs.append((lineage, seq, sub, edit_lineage, edit_seq, count))
            size += count
            if sub < 0:
                seq += count
    except (MsgspecError, StopIteration) as error:
        raise CorruptStore(f"a leaf of references cannot be read: {error!r}") from None
    return Runs(runs, size)
