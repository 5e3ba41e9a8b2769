"""What a store must hold: all that was acknowledged, and of what was not, everything or nothing.

A worker announces an operation before it begins (`Intent`) and says what it did when it has returned (`Effect`). The
ledger takes effects in; after a kill at most one operation is announced and not acknowledged, and `problems` holds the
store to either side of it.
"""

from __future__ import annotations

from itertools import pairwise

import msgspec

from chronicle_py import ChronicleError, Store


class Intent(msgspec.Struct, omit_defaults=True):
    """What an operation is about to do."""

    op: str
    adds: dict[str, int | None] = {}  # branch -> events it gets; None: not known before
    makes: dict[str, int | None] = {}  # new branch -> how long it will be
    rewinds: dict[str, int] = {}  # branch -> to which sequence
    drops: list[str] = []  # branches that are deleted
    collects: bool = False  # afterwards a deleted branch may not come back


class Effect(msgspec.Struct, omit_defaults=True):
    """What an operation did."""

    op: str
    took: float = 0.0  # seconds
    adds: dict[str, list[str]] = {}  # branch -> ids of its new events
    makes: dict[str, list[str]] = {}  # new branch -> ids of all its events
    forks: dict[str, tuple[str, int]] = {}  # new branch -> (branch, sequence); it has the events up to there
    rewinds: dict[str, int] = {}
    drops: list[str] = []
    blobs: dict[str, str] = {}  # id of an event -> the blob it refers to
    collects: bool = False


class Ledger:
    """What was acknowledged, by branch."""

    def __init__(self) -> None:
        self.branches: dict[str, list[str]] = {"main": []}
        self.deleted: dict[str, list[str]] = {}
        self.blobs: dict[str, str] = {}

    def take(self, effect: Effect) -> None:
        """An operation was acknowledged."""
        for name, (source, seq) in effect.forks.items():
            self.branches[name] = self.branches[source][:seq]
        for name, ids in effect.makes.items():
            self.branches[name] = list(ids)
            self.deleted.pop(name, None)
        for name, seq in effect.rewinds.items():
            del self.branches[name][seq:]
        for name, ids in effect.adds.items():
            self.branches[name] += ids
        for name in effect.drops:
            self.deleted[name] = self.branches.pop(name)
        self.blobs.update(effect.blobs)
        if effect.collects:
            self.deleted.clear()

    def problems(self, store: Store, unsure: Intent | None) -> list[str]:
        """What the store lost or made up; afterwards the ledger knows on which side of `unsure` the store stands."""
        if unsure is not None and unsure.collects:
            self.deleted.clear()
        found: list[str] = []
        actual: dict[str, list[str]] = {}
        for info in store.branches():
            events = list(store.branch(info.name).events())
            if [event.seq for event in events] != list(range(1, info.seq + 1)):
                found.append(f"branch {info.name}: its sequences have holes")
            if any(before.id != after.parents[0] for before, after in pairwise(events)):
                found.append(f"branch {info.name}: its chain of parents is broken")
            actual[info.name] = [event.id for event in events]
        done = _Sides(self.branches, actual, unsure)
        for name in self.branches.keys() | actual.keys():
            found += done.judge(name)
        if len(done.sides) > 1:
            found.append(f"{unsure.op if unsure else '?'}: half of it was kept: {done.told}")
        alive = {id for ids in actual.values() for id in ids}
        found += self._lost_blobs(store, alive)
        for name in self.branches.keys() - actual.keys():
            self.deleted[name] = self.branches[name]
        for name in actual:
            self.deleted.pop(name, None)
        self.branches = actual
        return found

    def _lost_blobs(self, store: Store, alive: set[str]) -> list[str]:
        lost = []
        for event, blob in self.blobs.items():
            if event in alive:
                try:
                    store.get_blob(blob)
                except ChronicleError as error:
                    lost.append(f"the blob of event {event[:12]}: {error}")
        self.blobs = {event: blob for event, blob in self.blobs.items() if event in alive}
        return lost


class _Sides:
    """On which side of an unacknowledged operation each branch is: it must be the same one."""

    def __init__(self, before: dict[str, list[str]], actual: dict[str, list[str]], unsure: Intent | None) -> None:
        self.before = before
        self.actual = actual
        self.unsure = unsure or Intent("none")
        self.sides: set[bool] = set()
        self.told: dict[str, bool] = {}

    def _stands(self, name: str, done: bool) -> list[str]:
        self.sides.add(done)
        self.told[name] = done
        return []

    def judge(self, name: str) -> list[str]:
        """What is wrong with one branch."""
        old, new, unsure = self.before.get(name), self.actual.get(name), self.unsure
        if old is None:
            assert new is not None
            if name not in unsure.makes:
                return [f"branch {name}: there is one that nobody made"]
            wanted = unsure.makes[name]
            if wanted is not None and len(new) != wanted:
                return [f"branch {name}: made by a half of {unsure.op}: {len(new)} events, not {wanted}"]
            return self._stands(name, True)
        if new is None:
            if name in unsure.drops:
                return self._stands(name, True)
            return [f"branch {name} is gone, with {len(old)} acknowledged events"]
        if new == old:
            if any(name in part for part in (unsure.adds, unsure.rewinds, unsure.drops)) and unsure.adds.get(name) != 0:
                return [] if unsure.adds.get(name, 0) is None else self._stands(name, False)
            return []
        if name in unsure.rewinds and new == old[: unsure.rewinds[name]]:
            return self._stands(name, True)
        if name in unsure.adds and new[: len(old)] == old:
            more = unsure.adds[name]
            if more is None or len(new) == len(old) + more:
                return self._stands(name, True)
            return [f"branch {name}: {len(new) - len(old)} of the {more} events of {unsure.op} are there"]
        kept = next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
        return [f"branch {name}: {len(old)} events were acknowledged, and of these the first {kept} are there"]
