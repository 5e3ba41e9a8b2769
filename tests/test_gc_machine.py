"""The engine's state machine, collected at random moments: what is left reads as the model says, and nothing else is
left."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule
from test_engine_machine import EngineMachine

from chronicle_py import BranchChange, CaughtUp, Followed, Store
from chronicle_py.kv import OBJECTS
from chronicle_py.verify_deep import _Compared


class CollectedMachine(EngineMachine):
    def __init__(self) -> None:
        super().__init__()
        self.superseded = False  # a custom slot has states of an older version
        self.positions: list[tuple[str, set[str]]] = []  # where a follower stood, and the events it had got

    def change_reducer(self, data: st.DataObject) -> None:
        self.superseded = True
        super().change_reducer(data)

    @rule(data=st.data(), turn=st.integers(0, 1))
    def collect(self, data: st.DataObject, turn: int) -> None:
        self.turn = turn
        try:
            self._collect(data)
        except BaseException:
            self.failed = True
            raise

    def _collect(self, data: st.DataObject) -> None:
        times = sorted({move.time for name in self.model.moves for move in self._reflog(name)})
        until = data.draw(st.none() | st.sampled_from([*times, None]) | st.just(0), "reflog expires up to")
        pattern = data.draw(st.sampled_from([None, None, None, "a", "[ab]", "*"]), "branches")
        expired = {
            name: sum(1 for move in self._reflog(name) if until is not None and move.time <= until)
            for name in self.model.moves
        }
        doomed = tuple(n for n in sorted(self.model.branches) if pattern and n != "main" and fnmatchcase(n, pattern))

        def age() -> int | None:
            return until if not until else self.clock.now + 1 - until

        rehearsed = self.store.gc(dry_run=True, expire_reflog=age(), branches=pattern)
        report = self.store.gc(expire_reflog=age(), branches=pattern)
        assert msgspec.structs.replace(rehearsed, dry_run=False) == report
        assert report.branches == doomed
        for name in doomed:
            self.model.delete(name)
        for name, moves in list(self.model.moves.items()):
            self.model.moves[name] = [] if until == 0 else moves[expired[name] :]
            if not self.model.moves[name] and name not in self.model.branches:
                del self.model.moves[name], self.model.deleted[name]
        self._check_what_is_left()
        self.compare_branches(data)

    def _check_what_is_left(self) -> None:
        needed: set[bytes] = set()
        store = _Compared.store

        def noted(compared: Any, address: bytes, node: bytes) -> None:
            needed.add(address)
            store(compared, address, node)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_Compared, "store", noted)
            report = self.store.verify(deep=True)
        assert report.ok, report.problems
        assert not report.skipped
        with self.store._engine.read() as reader:
            stored = set(reader.keys(OBJECTS, b"", 1 << 30))
        assert needed <= stored
        assert self.superseded or needed == stored
        histories = [h for moves in self.model.moves.values() for _, *both in moves for h in both if h]
        histories += self.model.branches.values()
        assert report.checked["ids"] == len({event.id for history in histories for event in history})
        self._compare_feed(self.store)

    def _compare_feed(self, store: Store) -> None:
        """A follower gets what is left in order, all events of branches once; of what is gone nothing but moves of
        branches that have a story left. Every position it was ever at is still one to go on from."""
        items = list(store.follow(live=False))
        found = [
            (item.event.id if isinstance(item, Followed) else item.kind, item.branch)
            for item in items
            if isinstance(item, Followed | BranchChange)
        ]
        done = iter(self.model.done)
        assert all(entry in done for entry in found)
        events = {event.id for history in self.model.branches.values() for event in history}
        told = [what for what, _ in found if what in events]
        assert sorted(told) == sorted(events)
        for position, before in self.positions:
            rest = [item for item in store.follow(start=position, live=False) if isinstance(item, Followed)]
            ids = {item.event.id for item in rest}
            assert events <= ids | before
            assert not ids & before
        ids = set()
        for item in items:
            if isinstance(item, Followed):
                ids.add(item.event.id)
            if isinstance(item, CaughtUp) or (len(self.positions) < 40 and len(ids) % 29 == 0):
                self.positions.append((item.position, set(ids)))


TestCollected = CollectedMachine.TestCase
TestCollected.settings = settings(max_examples=max(40, settings().max_examples // 2), stateful_step_count=30)
