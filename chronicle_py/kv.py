"""What the engine needs of a key-value store: ordered keyspaces, snapshots, one writer at a time.

Only the interface lives here; `lmdb_kv.py` implements it on LMDB. Nothing above this line may depend on how a commit
reaches the disk, and nothing below it knows what an event is.

A *reader* is a snapshot. A *writer* is a snapshot with changes of its own that become visible to others, all at once,
at `commit`. `version` numbers the snapshots of one open file: two snapshots with equal versions are the same, and a
writer whose version is one above the last snapshot seen has missed nothing in between. It means nothing across a
`generation`: when the file behind the path was replaced, what was remembered must be dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Final, Protocol, Self

# Keyspaces, by number: an index into SPACE_NAMES. See docs/format.md for what each holds.
EVENTS: Final = 0
IDS: Final = 1
REFS: Final = 2
LINEAGES: Final = 3
REFLOG: Final = 4
SLOTS: Final = 5
BLOCKS: Final = 6
OBJECTS: Final = 7
CAUSES: Final = 8
FEED: Final = 9
META: Final = 10
SPACE_NAMES: Final = (
    "events", "ids", "refs", "lineages", "reflog", "slots", "blocks", "objects", "causes", "feed", "meta",
)  # fmt: skip


Progress = Callable[[int, int], None]
"""Called with (done, total), now and then."""


class Reader(Protocol):
    """A snapshot. Cheap to open (0.1 µs), to be closed soon: an old snapshot keeps its pages from being reused."""

    @property
    def version(self) -> int: ...

    @property
    def snapshot(self) -> tuple[int, int] | None:
        """Equal for equal snapshots of committed data, over all generations; None inside a write transaction."""
        ...

    def get(self, space: int, key: bytes) -> bytes | None: ...

    def take(self, space: int, start: bytes, count: int, reverse: bool = False) -> list[bytes]:
        """The values of up to `count` consecutive keys, from the first key >= start (reverse: <= start) on."""
        ...

    def scan(
        self, space: int, start: bytes, stop: bytes | None = None, *, limit: int | None = None, reverse: bool = False
    ) -> list[tuple[bytes, bytes]]:
        """The pairs with start <= key < stop in order; reverse: start >= key > stop, downwards."""
        ...

    def keys(self, space: int, start: bytes, count: int, reverse: bool = False) -> list[bytes]:
        """As `take`, the keys alone."""
        ...

    def count(self, space: int) -> int: ...

    def copy_to(
        self, path: str, map_size: int, changes: Mapping[bytes, bytes | None], progress: Progress | None = None
    ) -> None:
        """Writes all of it to a new or empty file, packed as densely as can be, and returns when that is on disk.
        `changes`: records of META that differ there (None: missing)."""
        ...


class Writer(Reader, Protocol):
    """A snapshot with changes. Exactly one is open at a time, over all processes."""

    @property
    def committed(self) -> bool:
        """Whether `commit` has done its work, also where an interrupt followed that hid its return."""
        ...

    def put(self, space: int, key: bytes, value: bytes, append: bool = False, overwrite: bool = True) -> None:
        """`append`: the key is above all keys there, which then fill whole pages. Without `overwrite` a key that is
        there keeps its value."""
        ...

    def put_many(
        self, space: int, items: Iterable[tuple[bytes, bytes]], append: bool = False, overwrite: bool = True
    ) -> None:
        """Many puts in one call, in the order of the items."""
        ...

    def delete(self, space: int, key: bytes) -> bool: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...


class ReadScope(Reader, Protocol):
    """A reader that closes itself at the end of a `with` block."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Kv(Protocol):
    """An open file."""

    @property
    def path(self) -> str: ...

    @property
    def readonly(self) -> bool: ...

    @property
    def durable(self) -> bool: ...

    @property
    def generation(self) -> int:
        """Rises when the file behind the path was replaced, or the process forked, and the file opened anew."""
        ...

    def read(self) -> ReadScope: ...

    def write(self) -> Writer: ...

    def sync(self) -> None: ...

    def sizes(self) -> dict[str, dict[str, int]]:
        """Per keyspace: entries, and bytes of its pages. Cost: O(1)."""
        ...

    def file_size(self) -> tuple[int, int]:
        """Bytes of the file, and bytes of it that hold no data (free pages)."""
        ...

    @property
    def compact_path(self) -> str:
        """Where a compaction writes its file."""
        ...

    def put_in_place(self) -> None:
        """Gives the file at `compact_path` the name of the open one. For a holder of the write lock alone."""
        ...

    def replaced(self) -> bool:
        """Whether the path names another file than the open one."""
        ...

    def reads_now(self, reader: Reader) -> bool:
        """Whether a snapshot is of the file that is open now, not of one that was open before."""
        ...

    def reopen(self) -> None: ...

    def close(self) -> None: ...
