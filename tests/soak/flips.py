"""Flipping bytes: does `verify` name the place, wherever in a store's pages a byte is changed?

A store with all kinds of contents is made once. Each round changes one byte of a copy, on a page that is in use (as the
page walk says), and verifies it without the engine below. Where nothing is found, the byte must be one that nothing
reads: which those are is computed here from the layout of each page, node by node, not taken from the checks.
"""

from __future__ import annotations

import random
import struct
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from conftest import Clock, Entropy
from public_calls import summing

import chronicle_py as chronicle
from chronicle_py import BlobRef, ChronicleError, Store
from chronicle_py.context import ContextManager
from chronicle_py.rescue.layout import HEADER, METAS, NODE, PageFile
from chronicle_py.rescue.walk import walk
from soak.result import Result, result

FREE = "the free pages"


def fill(store: Store, size: int = 1) -> None:
    """All kinds of slots, blobs, branches, a conversation; pages that were freed, values on pages of their own."""
    main = store.branch()
    for kind in ("append_log", "value", "tree", "document"):
        store.register_state(kind, kind=kind)
    store.register_state("heard", kind="append_log", types=("note",), initial=["first"])
    store.register_state("custom", reducer=summing)
    picture = store.put_blob(bytes(range(256)) * 40, "image/png")
    for turn in range(4 * size):
        with store.transaction():
            for i in range(60):
                main.state("append_log").append({"n": i, "text": f"message {turn}/{i} " * (1 + i % 9)})
                main.state("tree").put(f"src/{i % 17:03}/{turn}.py", f"print({i})")
                if i % 9 == 0:
                    main.append("add", i, slot="custom")
                    main.append("picture", {"is": BlobRef(picture)}, caused_by=[main.event(1).id])
        if turn == 1:
            store.register_index("append_log", "n")
        main.append("note", "long " * 2000)
        main.state("value").set({"turn": turn})
        main.state("document").patch({f"k{n}": [turn, n] for n in range(90)})
        main.state("custom").get()
        side = main.fork(f"side-{turn}", at=main.seq - 30)
        for i in range(20):
            side.state("append_log").append(f"side {i}")
        side.state("append_log").edit(3, "edited")
    main.rewind(main.seq - 10)
    main.state("append_log").append("after the rewind")
    store.delete_branch("side-1")
    store.orphan("alone").state("value").set("on its own")
    store.orphan("talk")
    talk = ContextManager(store, branch="talk")
    for n in range(20):
        talk.add_message("User", f"question {n} " * 30)
        talk.add_message("Claude", f"answer {n} " * 60)
    for n in range(12):  # small commits leave pages behind that are free
        main.append("note", n)


@contextmanager
def made(size: int = 1) -> Iterator[Path]:
    """A filled store, closed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store"
        with chronicle.open(path, durability="relaxed", clock=Clock(), entropy=Entropy()) as store:
            fill(store, size)
        yield path


class Uses:
    """Which bytes of a sound file carry something, by the layout of its pages."""

    def __init__(self, path: Path) -> None:
        with PageFile(str(path)) as file:
            found = walk(file)
            assert found.ok, found.problems
            self.page_size = file.page_size
            self.pages = [page for page in range(len(found.live)) if found.live[page] or page < METAS]
            newest = max((m for m in file.metas if m is not None), key=lambda m: m.transaction)
            self._meta = newest.page
            free_leaves = set(found.leaves[FREE])
            self._free_leaves = free_leaves
            self._long: dict[int, tuple[int, int]] = {}  # page of a long value -> (its first page, bytes)
            for leaves in found.leaves.values():
                for page in leaves:
                    for node in file.nodes(file.page(page) or b""):
                        if node.data is None:
                            for k in range((HEADER - 1 + node.size) // file.page_size + 1):
                                self._long[node.extent + k] = node.extent, node.size
            self._data = path.read_bytes()

    def of(self, offset: int) -> str:
        """What the byte at an offset is: "used", "slack" or "free"."""
        page, at = divmod(offset, self.page_size)
        data = self._data[page * self.page_size : (page + 1) * self.page_size]
        if page < METAS:
            return self._of_meta(page, at)
        if page in self._long:
            first, size = self._long[page]
            inside = (page - first) * self.page_size + at
            return "free" if inside in (8, 9) or inside >= HEADER + size else "used"
        _, _, flags, lower, upper = struct.unpack_from("=QHHHH", data)
        if at in (8, 9) or lower <= at < upper:
            return "free"
        if at < lower:
            return "used"
        for k, (start,) in enumerate(struct.iter_unpack("=H", data[HEADER:lower])):
            low, high, kind, key = struct.unpack_from("=HHHH", data, start)
            branch = bool(flags & 1)
            size = NODE + key + (0 if branch else 8 if kind & 1 else low | high << 16)
            if start <= at < start + size:
                in_key = start + NODE <= at < start + NODE + key
                if in_key and (branch or page in self._free_leaves):
                    return "slack" if k or not branch else "free"
                return "used"
        return "free"  # the byte that makes a node's size even

    def _of_meta(self, page: int, at: int) -> str:
        if at in (8, 9) or 12 <= at < 16 or at >= HEADER + 136:
            return "free"
        if HEADER + 16 <= at < HEADER + 24:
            return "free"  # the size of the map: every process says its own
        if page != self._meta and (HEADER + 8 <= at < HEADER + 24 or HEADER + 30 <= at < HEADER + 128):
            return "free"  # the snapshot before the newest, which the next commit overwrites
        return "used"


def places(uses: Uses, count: int, seed: int) -> Iterator[tuple[int, int]]:
    """Random (offset, bits to change) in pages that are in use."""
    chance = random.Random(seed)
    for _ in range(count):
        yield chance.choice(uses.pages) * uses.page_size + chance.randrange(uses.page_size), chance.randrange(1, 256)


def flip(path: Path, offset: int, bits: int) -> None:
    """Changes bits of a byte of a file. Twice is as before."""
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ bits]))


def run_flips(count: int, seed: int, size: int = 1) -> Result:
    """Flips one byte at `count` random places, one at a time, and verifies the file each time.

    Wrong is a flip that `verify` does not name, of a byte that carries something. The figures: how many were `found`;
    how many bytes were `free`, which nothing reads; how many `slack`, which may have several right values (a key that
    separates two pages, since when pages are free).
    """
    began = time.monotonic()
    found, harmless = 0, {"free": 0, "slack": 0}
    problems: list[str] = []
    with made(size) as path:
        uses = Uses(path)
        for offset, bits in places(uses, count, seed):
            flip(path, offset, bits)
            try:
                report = chronicle.verify_file(path)
                named = bool(report.problems) and all(p.where and p.what for p in report.problems)
            except ChronicleError:
                named = True  # e.g. it is no LMDB file any more
            use = uses.of(offset)
            if named:
                found += 1
            elif use in harmless:
                harmless[use] += 1
            else:
                page, at = divmod(offset, uses.page_size)
                problems.append(f"bits {bits:#04x} of byte {at} on page {page} were changed, and verify found nothing")
            flip(path, offset, bits)
    return result("flips", count, problems, seed, time.monotonic() - began, {"found": found, **harmless})
