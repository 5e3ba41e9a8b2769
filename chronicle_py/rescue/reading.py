"""The sound pages of a damaged file behind the interface of `kv.py`, so that all that reads a store can read them.

Only leaves are used, as the walk found them, in order: a damaged branch page costs what lies under it and nothing else.
What cannot be read is as if it were not there. Reads only, about 10 µs each, nothing of it in memory but the first key
of each leaf.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self

from chronicle_py.errors import ReadOnly
from chronicle_py.kv import SPACE_NAMES, Reader, Writer
from chronicle_py.rescue.layout import Node, PageFile
from chronicle_py.rescue.walk import Walk

_KEPT = 64  # parsed leaves remembered


class PageReader:
    """What the sound leaves of a file hold, as one snapshot."""

    def __init__(self, file: PageFile, found: Walk) -> None:
        self._file = file
        self._found = found
        self._order: dict[int, tuple[list[bytes], list[int]]] = {}  # keyspace -> first keys and pages of its leaves
        self._parsed: dict[int, list[Node]] = {}
        self.version = 0
        self.snapshot = (0, 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def _leaves(self, space: int) -> tuple[list[bytes], list[int]]:
        found = self._order.get(space)
        if found is None:
            firsts = []
            for page in self._found.leaves.get(SPACE_NAMES[space], ()):
                nodes = self._nodes(page)
                if nodes:
                    firsts.append((nodes[0].key, page))
            firsts.sort()
            found = self._order[space] = [key for key, _ in firsts], [page for _, page in firsts]
        return found

    def _nodes(self, page: int) -> list[Node]:
        found = self._parsed.get(page)
        if found is None:
            found = list(self._file.nodes(self._file.page(page) or b"\0" * self._file.page_size))
            if len(self._parsed) >= _KEPT:
                self._parsed.pop(next(iter(self._parsed)))
            self._parsed[page] = found
        return found

    def get(self, space: int, key: bytes) -> bytes | None:
        firsts, pages = self._leaves(space)
        at = bisect_right(firsts, key) - 1
        if at < 0:
            return None
        for node in self._nodes(pages[at]):
            if node.key == key:
                return self._file.value(node)
        return None

    def pairs(self, space: int, start: bytes, stop: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """The pairs with start <= key < stop, in order."""
        firsts, pages = self._leaves(space)
        for page in pages[max(0, bisect_right(firsts, start) - 1) :]:
            for node in self._nodes(page):
                if node.key < start:
                    continue
                if stop is not None and node.key >= stop:
                    return
                value = self._file.value(node)
                if value is not None:
                    yield node.key, value

    def _down(self, space: int, start: bytes, stop: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        firsts, pages = self._leaves(space)
        for page in reversed(pages[: bisect_right(firsts, start)]):
            for node in reversed(self._nodes(page)):
                if node.key > start:
                    continue
                if stop is not None and node.key <= stop:
                    return
                value = self._file.value(node)
                if value is not None:
                    yield node.key, value

    def take(self, space: int, start: bytes, count: int, reverse: bool = False) -> list[bytes]:
        return [value for _, value in self.scan(space, start, limit=count, reverse=reverse)]

    def scan(
        self, space: int, start: bytes, stop: bytes | None = None, *, limit: int | None = None, reverse: bool = False
    ) -> list[tuple[bytes, bytes]]:
        found: list[tuple[bytes, bytes]] = []
        if limit is not None and limit <= 0:
            return found
        for pair in self._down(space, start, stop) if reverse else self.pairs(space, start, stop):
            found.append(pair)
            if len(found) == limit:
                break
        return found

    def keys(self, space: int, start: bytes, count: int, reverse: bool = False) -> list[bytes]:
        return [key for key, _ in self.scan(space, start, limit=count, reverse=reverse)]

    def count(self, space: int) -> int:
        return sum(1 for page in self._leaves(space)[1] for _ in self._nodes(page))


class PagesKv:
    """A damaged file as something to open an engine on."""

    def __init__(self, path: str, reader: PageReader) -> None:
        self.path = path
        self.readonly = True
        self.durable = True
        self.generation = 0
        self.lock = threading.RLock()
        self.writer: Any = None
        self.watched = False
        self.bells: set[Callable[[], None]] = set()
        self._reader = reader

    def read(self) -> PageReader:
        return self._reader

    def write(self) -> Writer:
        raise ReadOnly(f"{self.path} is damaged, and only read page by page; `chronicle salvage` makes a sound copy")

    def ring(self) -> None:
        pass

    def sync(self) -> None:
        pass

    def sizes(self) -> dict[str, dict[str, int]]:
        return {}

    def file_size(self) -> tuple[int, int]:
        return 0, 0

    def reopen(self) -> None:
        pass

    def replaced(self) -> bool:
        return False

    def reads_now(self, reader: Reader) -> bool:
        return True

    def close(self) -> None:
        pass
