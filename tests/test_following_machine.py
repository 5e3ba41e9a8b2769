"""Followers of a store in which anything is done, read at any moment, stopped and resumed: what they return is a plain
list of what was committed, in order."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

from conftest import Clock, Entropy
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

import chronicle_py as chronicle
from chronicle_py import BranchChange, CaughtUp, Followed, Follower, Store
from chronicle_py.feed import Item

NAMES = ["main", "a", "b", "c"]
TYPES = ["note", "other"]
SLOTS = [None, "log", "more"]
Head = tuple[int, str] | None


class Done(NamedTuple):
    """What was done: an event (its id under `what`), or a change of a branch."""

    branch: str
    what: str
    type: str | None
    slot: str | None
    before: Head = None
    after: Head = None


class Wanted(NamedTuple):
    branch: list[str] | None
    types: list[str] | None
    slots: list[str] | None

    def __call__(self, done: Done) -> bool:
        if self.branch is not None and done.branch not in self.branch:
            return False
        if done.type is None:
            return self.types is None and self.slots is None
        return (self.types is None or done.type in self.types) and (self.slots is None or done.slot in self.slots)


class Reading:
    """A follower, what it returned so far, and what had been done when it began."""

    def __init__(self, wanted: Wanted, skipped: int, follower: Follower, past: int) -> None:
        self.wanted, self.skipped = wanted, skipped
        self.found: list[Done] = []
        self.resumed(follower, past)

    def resumed(self, follower: Follower, past: int) -> None:
        self.follower, self.past = follower, past
        self.caught_up = False

    def expected(self, done: list[Done]) -> list[Done]:
        return [one for one in done[self.skipped :] if self.wanted(one)]

    def take(self, item: Item, done: list[Done]) -> None:
        if isinstance(item, CaughtUp):
            assert not self.caught_up
            self.caught_up = True
            assert self.found == self.expected(done[: self.past])
        else:
            self.found.append(as_done(item))


def as_done(item: Item) -> Done:
    if isinstance(item, Followed):
        return Done(item.branch, item.event.id, item.event.type, item.event.slot)
    assert isinstance(item, BranchChange)
    return Done(item.branch, item.kind, None, None, item.before, item.after)


def head(history: list[str]) -> Head:
    return len(history), history[-1] if history else ""


class Aborted(Exception):
    """What a transaction of the test ends with."""


class FollowingMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="chronicle-following-"))
        self.clock, self.entropy = Clock(), Entropy()
        self.stores = [self._open(), self._open()]
        self.branches: dict[str, list[str]] = {"main": []}
        self.deleted: dict[str, list[str]] = {}
        self.done = [Done("main", "create", None, None, None, (0, ""))]
        self.readings: list[Reading] = []
        for store in self.stores[:1]:
            store.register_state("log", kind="append_log")
            store.register_state("more", kind="append_log")

    def _open(self) -> Store:
        return chronicle.open(self.folder / "store", durability="relaxed", clock=self.clock, entropy=self.entropy)

    def teardown(self) -> None:
        try:
            for reading in self.readings:
                rest = self.stores[0].follow(*reading.wanted, start=reading.follower.position, live=False)
                found = [as_done(item) for item in rest if not isinstance(item, CaughtUp)]
                assert reading.found + found == reading.expected(self.done)
        finally:
            for store in self.stores:
                store.close()
            shutil.rmtree(self.folder)

    # --- what is done ---

    def _change(self, name: str, kind: str, after: list[str] | None) -> None:
        before = self.branches.pop(name, None)
        if after is not None:
            self.branches[name] = list(after)
        heads = (None if h is None else head(h) for h in (before, after))
        self.done.append(Done(name, kind, None, None, *heads))

    def _step(self, data: st.DataObject, store: Store) -> None:
        name = data.draw(st.sampled_from(sorted(self.branches)), "branch")
        branch, history = store.branch(name), self.branches[name]
        kind = data.draw(st.sampled_from(["append"] * 4 + ["fork", "orphan", "rewind", "forward", "delete", "restore"]))
        if kind == "append":
            type, slot = data.draw(st.sampled_from(TYPES)), data.draw(st.sampled_from(SLOTS))
            for n in range(data.draw(st.sampled_from([1, 1, 1, 2, 5, 5, 300]))):
                event = branch.append(type, n) if slot is None else branch.state(slot).append(n)
                history.append(event.id)
                self.done.append(Done(name, event.id, event.type, event.slot))
        elif kind == "rewind":
            place = data.draw(st.integers(0, len(history)), "to")
            branch.rewind(place)
            if place < len(history):
                self._change(name, "rewind", history[:place])
        elif kind == "forward":
            heads = [m.before[1] for m in branch.reflog() if m.kind == "rewind" and m.before is not None]
            if heads and heads[-1] and heads[-1] not in history:
                branch.rewind(heads[-1])
                self._change(name, "rewind", [e.id for e in branch.events()])
        elif kind == "delete":
            if name != "main":
                store.delete_branch(name)
                self.deleted[name] = list(history)
                self._change(name, "delete", None)
        else:
            new = data.draw(st.sampled_from(NAMES), "new name")
            if new in self.branches:
                return
            if kind == "restore" and new in self.deleted:
                store.restore_branch(new)
                self._change(new, "restore", self.deleted[new])
            elif kind == "orphan":
                store.orphan(new)
                self._change(new, "orphan", [])
            elif kind == "fork":
                place = data.draw(st.integers(0, len(history)), "at")
                branch.fork(new, at=place)
                self._change(new, "fork", history[:place])

    @rule(data=st.data(), turn=st.integers(0, 1))
    def step(self, data: st.DataObject, turn: int) -> None:
        self._step(data, self.stores[turn])

    @rule(data=st.data(), turn=st.integers(0, 1), failing=st.booleans())
    def transaction(self, data: st.DataObject, turn: int, failing: bool) -> None:
        kept = {name: list(h) for name, h in self.branches.items()}, dict(self.deleted), list(self.done)
        try:
            with self.stores[turn].transaction():
                for _ in range(data.draw(st.integers(1, 4), "steps")):
                    self._step(data, self.stores[turn])
                if failing:
                    raise Aborted
        except Aborted:
            self.branches, self.deleted, self.done = kept

    # --- who follows ---

    @rule(
        turn=st.integers(0, 1),
        branch=st.none() | st.lists(st.sampled_from(NAMES), max_size=2),
        types=st.none() | st.none() | st.lists(st.sampled_from([*TYPES, "state.append"]), max_size=2),
        slots=st.none() | st.none() | st.lists(st.sampled_from(["log", "more", "later"]), max_size=2),
        now=st.booleans(),
    )
    def begin(
        self, turn: int, branch: list[str] | None, types: list[str] | None, slots: list[str] | None, now: bool
    ) -> None:
        wanted = Wanted(branch, types, slots)
        follower = self.stores[turn].follow(*wanted, start="now" if now else None)
        past = len(self.done)
        self.readings.append(Reading(wanted, past if now else 0, follower, past))

    @precondition(lambda self: self.readings)
    @rule(data=st.data(), most=st.sampled_from([1, 3, 50, 2000]))
    def read(self, data: st.DataObject, most: int) -> None:
        reading = data.draw(st.sampled_from(self.readings))
        for _ in range(most):
            item = reading.follower.next(timeout=0)
            if item is None:
                break
            reading.take(item, self.done)
        expected = reading.expected(self.done)
        assert reading.found == expected[: len(reading.found)]

    @precondition(lambda self: self.readings)
    @rule(data=st.data(), turn=st.integers(0, 1))
    def resume(self, data: st.DataObject, turn: int) -> None:
        reading = data.draw(st.sampled_from(self.readings))
        place = reading.follower.position
        reading.follower.close()
        assert reading.follower.position == place
        assert list(reading.follower) == []
        reading.resumed(self.stores[turn].follow(*reading.wanted, start=place), len(self.done))


TestFollowing = FollowingMachine.TestCase
TestFollowing.settings = settings(max_examples=settings().max_examples, stateful_step_count=30)
