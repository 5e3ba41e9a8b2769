"""The engine's state machine, in which events are erased at random moments: every state, at every sequence of every
branch, is that of a history that never had their payloads."""

from __future__ import annotations

from blake3 import blake3
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule
from test_engine_machine import EngineMachine

from chronicle_py import Erased
from chronicle_py.event import PAYLOAD


class ErasedMachine(EngineMachine):
    @rule(data=st.data(), turn=st.integers(0, 1))
    def erase(self, data: st.DataObject, turn: int) -> None:
        self.turn = turn
        try:
            self._erase(data)
        except BaseException:
            self.failed = True
            raise

    def _erase(self, data: st.DataObject) -> None:
        there = sorted({event.id for history in self.model.histories() for event in history})
        if not there:
            return
        chosen = data.draw(st.lists(st.sampled_from(there), min_size=1, max_size=4, unique=True), "erased")
        before = {id: self.store.event(id) for id in chosen}
        report = self.store.erase(chosen, "drawn")
        assert set(report.events) == {id for id, event in before.items() if event.erased is None}
        for id, event in before.items():
            found = self.store.event(id)
            assert isinstance(found.erased, Erased)
            assert found.key == event.key
            if event.erased is None:
                assert found.salt == blake3(PAYLOAD + event.salt + bytes(event.raw)).digest()
                self.model.erase(id, found.erased)
            else:
                assert found.erased == event.erased
        for store in self.stores:
            checked = store.verify(deep=True)
            assert checked.ok, checked.problems
        self.read_all(data)
        self.replay(data)
        assert self.store.gc(dry_run=True).nodes == 0  # no state of before is left over


TestErased = ErasedMachine.TestCase
TestErased.settings = settings(max_examples=max(40, settings().max_examples // 2), stateful_step_count=30)
