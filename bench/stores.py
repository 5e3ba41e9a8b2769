"""The stores that figures are measured on, built once a run in a folder that is removed afterwards.

Payloads have 211 bytes and are all different: equal ones would give the content-defined chunks of a list nothing to cut
by, which no conversation does.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

import chronicle_py as chronicle
from bench.plain_lmdb import PlainLmdb

PAYLOAD_BYTES = 211
BATCH = 1_000  # events in a transaction
BRANCHES = 100
SLOT = "messages"
OLD_SLOT = "title"
TYPED_SLOT = "figures"
TYPED = "message"

T = TypeVar("T")


def payload(i: int) -> dict[str, str]:
    """A message of 211 bytes, different for each i."""
    return {"role": "user", "content": f"{i:010d}" + "x" * 180}


class Message(msgspec.Struct):
    """The payload of a typed event; as many bytes as `payload`."""

    role: str
    content: str


class Count(msgspec.Struct, frozen=True):
    messages: int = 0
    characters: int = 0


class Counting:
    """A small but real custom reducer: reads a field of each typed payload."""

    name = "bench/count"
    version = 1
    events: Final = {TYPED: Message}

    def initial(self) -> Count:
        return Count()

    def fold(self, state: Count, event: chronicle.Event) -> Count:
        return Count(state.messages + 1, state.characters + len(event.payload.content))


def relaxed(path: Path) -> chronicle.Store:
    return chronicle.open(path, durability="relaxed")


class Session:
    """One run: its folder, how thorough it is, and what was built or measured already."""

    def __init__(self, folder: Path, *, quick: bool = False) -> None:
        self.folder = folder
        self.quick = quick
        self._once: dict[object, Any] = {}
        self._files = 0

    def pick(self, thorough: int, quick: int) -> int:
        """A number of rounds or events."""
        return quick if self.quick else thorough

    def once(self, measure: Callable[[Session], T]) -> T:
        """The result of a measurement that several figures share."""
        if measure not in self._once:
            self._once[measure] = measure(self)
        found: T = self._once[measure]
        return found

    # --- files ---

    def new(self) -> Path:
        """A path where nothing is yet."""
        self._files += 1
        return self.folder / f"{self._files}.chronicle"

    def copy(self, path: Path) -> Path:
        """A copy, for measurements that write."""
        return self.copy_to(path, self.new())

    def copy_to(self, path: Path, other: Path) -> Path:
        shutil.copyfile(path, other)
        return other

    def built(self, key: tuple[object, ...], build: Callable[[Path], object]) -> Path:
        if key not in self._once:
            path = self.new()
            build(path)
            self._once[key] = path
        found: Path = self._once[key]
        return found

    # --- stores ---

    def one_by_one(self, events: int) -> Path:
        """An append_log slot with one commit an event."""

        def build(path: Path) -> None:
            with relaxed(path) as store:
                store.register_state(SLOT, kind="append_log")
                log = store.branch().state(SLOT)
                for i in range(events):
                    log.append(payload(i))

        return self.built(("one by one", events), build)

    def batched(self, events: int) -> Path:
        """The same in transactions of 1,000."""

        def build(path: Path) -> None:
            with relaxed(path) as store:
                store.register_state(SLOT, kind="append_log")
                _append_batched(store, 0, events)

        return self.built(("batched", events), build)

    def by_turns(self, events: int) -> Path:
        """100 branches that grow by turns, an event and a commit at a time: forks of a main with one event."""

        def build(path: Path) -> None:
            with relaxed(path) as store:
                store.register_state(SLOT, kind="append_log")
                main = store.branch()
                main.state(SLOT).append(payload(0))
                branches = [main, *(main.fork(f"branch-{n}") for n in range(1, BRANCHES))]
                logs = [branch.state(SLOT) for branch in branches]
                for i in range(1, events):
                    logs[i % BRANCHES].append(payload(i))

        return self.built(("by turns", events), build)

    def typed(self, events: int) -> Path:
        """Events with a registered Struct, and a custom slot that folds them."""

        def build(path: Path) -> None:
            with relaxed(path) as store:
                store.register_event(TYPED, Message)
                store.register_state(TYPED_SLOT, reducer=Counting(), types=(TYPED,))
                main = store.branch()
                for first in range(0, events, BATCH):
                    with store.transaction():
                        for i in range(first, min(first + BATCH, events)):
                            main.append(TYPED, Message(**payload(i)))

        return self.built(("typed", events), build)

    def operations(self, kind: str, events: int) -> Path:
        """A slot of a built-in kind, called like it, with so many operations: sets, puts of files, or patches."""

        def build(path: Path) -> None:
            with relaxed(path) as store:
                store.register_state(kind, kind=kind)
                state = store.branch().state(kind)
                for first in range(0, events, BATCH):
                    with store.transaction():
                        for i in range(first, min(first + BATCH, events)):
                            if kind == "tree":
                                state.put(f"folder-{i % 97}/file-{i * 31 % 10_007}", payload(i))
                            elif kind == "document":
                                state.patch({f"field-{i % 50}": payload(i)})
                            else:
                                state.set(payload(i))

        return self.built((kind, events), build)

    def tree(self, files: int) -> Path:
        """A tree slot called "tree"; see trees.py for its files."""
        from bench.trees import TREE, content, path_of

        def build(path: Path) -> None:
            with relaxed(path) as store:
                store.register_state(TREE, kind="tree")
                tree = store.branch().state(TREE)
                for first in range(0, files, BATCH):
                    tree.batch([("put", path_of(i), content(i)) for i in range(first, min(first + BATCH, files))])

        return self.built(("files", files), build)

    def old_slot(self, events: int) -> Path:
        """A slot set at event 1 and never again, below a long history."""

        def build(path: Path) -> None:
            with relaxed(path) as store:
                store.register_state(SLOT, kind="append_log")
                store.register_state(OLD_SLOT, kind="value")
                store.branch().state(OLD_SLOT).set("set at event 1")
                _append_batched(store, 1, events)

        return self.built(("old slot", events), build)

    def deep(self, forks: int) -> Path:
        """A slot set at event 1, below so many forks of forks of one event each. The last one is called "deep"."""

        def build(path: Path) -> None:
            with relaxed(path) as store:
                store.register_state(OLD_SLOT, kind="value")
                branch = store.branch()
                branch.state(OLD_SLOT).set("set at event 1")
                for n in range(1, forks + 1):
                    branch = branch.fork("deep" if n == forks else f"fork-{n}")
                    branch.append("note", payload(n))

        return self.built(("deep", forks), build)

    # --- baselines ---

    def plain(self, events: int) -> Path:
        """Plain LMDB, one commit an entry."""

        def build(path: Path) -> None:
            raw = PlainLmdb(path)
            for key, id in raw.entries(events):
                raw.commit(key, id)
            raw.close()

        return self.built(("plain", events), build)

    def plain_batched(self, events: int) -> Path:
        """Plain LMDB, 1,000 entries a commit."""

        def build(path: Path) -> None:
            raw = PlainLmdb(path)
            for first in range(0, events, BATCH):
                raw.commit_many(raw.entries(min(BATCH, events - first)))
            raw.close()

        return self.built(("plain batched", events), build)


def _append_batched(store: chronicle.Store, start: int, stop: int) -> None:
    log = store.branch().state(SLOT)
    for first in range(start, stop, BATCH):
        with store.transaction():
            for i in range(first, min(first + BATCH, stop)):
                log.append(payload(i))
