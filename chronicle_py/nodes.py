"""Inner nodes of persistent trees, and how nodes are addressed.

Here live `Objects` (what the trees ask of a store), the address of a node, and `Row`: children side by
side, kept in columns. No cut rule, no leaf, no I/O.

Theory of operation. A closed node is described by a `Child`: how many entries and what weight lie beneath
it, the greatest key, the hash of its content, and where it is stored (`at`; empty: its content hash is its
address). A node that is not stored yet hangs on its Child directly, so a fold that is thrown away leaves
nothing behind. A `Row` is the body of a closed inner node and also an open remainder; in columns it is
read, cut, joined and packed by C code.

Stored bytes begin with one byte for their kind: `L` a leaf of entries, `R` a leaf of runs, `I` a row, `V` a
value of its own. An address is BLAKE3(3 ‖ stored bytes).
"""

from bisect import bisect_left
from collections.abc import Callable
from itertools import accumulate, chain
from typing import Any, NamedTuple, Protocol, TypeVar

from blake3 import blake3
from msgspec import MsgspecError, Struct
from msgspec.msgpack import Decoder, Encoder

from chronicle_py.errors import CorruptStore

T = TypeVar("T")

NODE = b"\x03"  # the first byte of what is hashed to an address; events, payloads and blobs have others
LEAF = b"L"
RUNS = b"R"
ROW = b"I"
VALUE = b"V"
HASH_SIZE = 32


class Objects(Protocol):
    """Content-addressed bytes, as a store provides them."""

    def load(self, address: bytes) -> bytes:
        """The bytes stored there; raises `CorruptStore` when there are none."""

    def store(self, address: bytes, data: bytes) -> None:
        """Stage `data` into the current transaction; storing the same again does nothing."""

    def cached(self, address: bytes, decode: Callable[[bytes], T]) -> T:
        """`decode(load(address))`, through a bounded cache of decoded nodes."""


def address_of(data: bytes) -> bytes:
    """Where stored bytes are found: the hash of them as a node."""
    return blake3(NODE + data).digest()


class Child(NamedTuple):
    """What a parent knows of one closed node."""

    size: int
    weight: int
    key: bytes
    content: bytes
    at: bytes
    node: Any  # the node itself while it is not stored, else None


class _Columns(Struct, array_like=True):
    counts: list[int]
    contents: bytes
    weights: list[int]
    keys: list[bytes]
    ats: list[bytes]


_encode = Encoder().encode
_decode = Decoder(_Columns).decode


class Row:
    """Children side by side. A column that says nothing (no weight, no key, `at` the content) is empty."""

    __slots__ = (
        "_ends",
        "_packed",
        "_weight_ends",
        "ats",
        "contents",
        "counts",
        "keys",
        "memo",
        "nodes",
        "weights",
    )

    def __init__(
        self,
        counts: list[int],
        contents: bytes,
        weights: list[int],
        keys: list[bytes],
        ats: list[bytes],
        nodes: list[Any],
    ) -> None:
        self.counts = counts
        self.contents = contents
        self.weights = weights
        self.keys = keys
        self.ats = ats
        self.nodes = nodes
        self.memo: list[Any] | None = None  # decoded leaves that are stored inside this row
        self._ends: list[int] | None = None
        self._weight_ends: list[int] | None = None
        self._packed: bytes | None = None

    @classmethod
    def of(cls, children: list[Child]) -> "Row":
        if not children:
            return EMPTY_ROW
        counts, weights, keys, contents, ats, nodes = map(list, zip(*children, strict=True))
        return cls(
            counts,
            b"".join(contents),
            _unless_void(weights),
            _unless_void(keys),
            _unless_void(ats),
            nodes if any(node is not None for node in nodes) else [],
        )

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def ends(self) -> list[int]:
        """For each child, how many entries lie beneath it and those before it."""
        if self._ends is None:
            self._ends = list(accumulate(self.counts))
        return self._ends

    @property
    def weight_ends(self) -> list[int]:
        """As `ends`, for weights; empty when there is none."""
        if self._weight_ends is None:
            self._weight_ends = list(accumulate(self.weights))
        return self._weight_ends

    @property
    def total(self) -> int:
        return self.ends[-1] if self.counts else 0

    @property
    def weight(self) -> int:
        return sum(self.weights)

    def content(self, k: int) -> bytes:
        return self.contents[k * HASH_SIZE : (k + 1) * HASH_SIZE]

    def at(self, k: int) -> bytes:
        return self.ats[k] if self.ats else self.contents[k * HASH_SIZE : (k + 1) * HASH_SIZE]

    def part(self, start: int, stop: int) -> "Row":
        if start == 0 and stop == len(self.counts):
            return self
        nodes = self.nodes[start:stop]
        return Row(
            self.counts[start:stop],
            self.contents[start * HASH_SIZE : stop * HASH_SIZE],
            _unless_void(self.weights[start:stop]),
            _unless_void(self.keys[start:stop]),
            self.ats[start:stop],
            nodes if any(node is not None for node in nodes) else [],
        )

    def position(self, offset: int) -> int:
        """The child that begins `offset` entries into this row."""
        return bisect_left(self.ends, offset) + 1 if offset else 0

    def pack(self) -> bytes:
        """The row as one MessagePack value: the body of a stored node, or a remainder inside a root."""
        if self._packed is None:
            self._packed = _encode(_Columns(self.counts, self.contents, self.weights, self.keys, self.ats))
        return self._packed

    def stored(self) -> "Row":
        """This row once its children are stored: equal, and holding none of them in memory."""
        if not self.nodes:
            return self
        row = Row(self.counts, self.contents, self.weights, self.keys, self.ats, [])
        row._ends, row._packed, row._weight_ends = self._ends, self._packed, self._weight_ends
        return row


def _unless_void(column: list[T]) -> list[T]:
    return column if any(column) else []


def join_rows(rows: list[Row]) -> Row:
    """The children of several rows in one."""
    rows = [row for row in rows if row.counts]
    if len(rows) < 2:
        return rows[0] if rows else EMPTY_ROW
    return Row(
        list(chain.from_iterable(row.counts for row in rows)),
        b"".join([row.contents for row in rows]),
        _column(rows, [row.weights for row in rows], 0),
        _column(rows, [row.keys for row in rows], b""),
        _column(rows, [row.ats for row in rows], b""),
        _column(rows, [row.nodes for row in rows], None),
    )


def _column(rows: list[Row], columns: list[list[T]], void: T) -> list[T]:
    if not any(columns):
        return []
    filled = (column or [void] * len(row) for row, column in zip(rows, columns, strict=True))
    return list(chain.from_iterable(filled))


EMPTY_ROW = Row([], b"", [], [], [], [])


def unpack_row(body: Any) -> Row:
    """The row packed in `body` (bytes, memoryview or Raw); raises `CorruptStore`."""
    try:
        columns = _decode(body)
    except MsgspecError as error:
        raise CorruptStore(f"an inner tree node cannot be read: {error}") from None
    n = len(columns.counts)
    lengths = {len(columns.weights), len(columns.keys), len(columns.ats)}
    if len(columns.contents) != n * HASH_SIZE or not lengths <= {0, n}:
        raise CorruptStore(f"an inner tree node of {n} children has columns of other lengths")
    if n and min(columns.counts) < 1:
        raise CorruptStore("an inner tree node has a child without entries")
    return Row(columns.counts, columns.contents, columns.weights, columns.keys, columns.ats, [])


def other_size(what: str, found: int, expected: int) -> CorruptStore:
    """The error of a node that does not hold as many entries as the one above it says."""
    return CorruptStore(f"{what} of a tree holds {found} entries, and the node above it says {expected}")


def load_row(data: bytes) -> Row:
    """The row of a stored inner node; raises `CorruptStore`."""
    return unpack_row(body_of(data, ROW))


def body_of(data: bytes, kind: bytes) -> memoryview:
    """What follows the kind byte of stored bytes; raises `CorruptStore` when they are of another kind."""
    if data[:1] != kind:
        raise CorruptStore(f"a tree node of kind {data[:1]!r} stands where {kind!r} must be")
    return memoryview(data)[1:]
