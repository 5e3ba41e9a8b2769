"""`FoldedSlot`: a slot of the conversation layer with the reducer that this manager means.

A slot is registered in the store, and a process has one reducer for it. Two managers of one process may mean different
configurations of a strategy, and a store may be read-only: then the reducer is not the registered one, and its states
are folded here, in memory, from the same events. Either way reading writes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from chronicle_py.context.message_events import Head
from chronicle_py.errors import ReadOnly
from chronicle_py.kv import Reader
from chronicle_py.records import SlotRecord
from chronicle_py.reducers import Custom, Reducer
from chronicle_py.slots import CUSTOM, Slot

if TYPE_CHECKING:
    from chronicle_py.store import Store

_REMEMBERED = 8  # histories whose newest state is kept


class FoldedSlot:
    """A slot as one reducer folds it. Registers the slot, unless the store is read-only."""

    def __init__(
        self, store: Store, id: str, reducer: Reducer[Any], types: Sequence[str] = (), sources: Sequence[str] = ()
    ) -> None:
        self.id = id
        self._engine = store._engine
        with suppress(ReadOnly):  # folded here, then
            store.register_state(id, reducer=reducer, types=types, sources=sources)
        self._kind = Custom(id, reducer, self._engine.objects)
        self._own = Slot(id, _record(reducer, types, sources), self._kind)
        self._epoch = b""
        self._states: dict[int, tuple[int, bytes, Any]] = {}  # of the epoch: lineage -> (sequence, event id, state)

    def state(self, head: Head) -> Any:
        """The state at a head, not to be changed. O(log n + K), or folded from the first event on at first."""
        with self._engine.read() as reader:
            table = self._engine.slots.table(reader)
            found = table.by_id.get(self.id)
            if found is not None and found.identity == self._kind.identity:
                return self._kind.copy(self._engine.checkpoints.state(reader, head.lineage, head.seq, found))
            if table.epoch != self._epoch:  # an erasure changes what was folded
                self._epoch, self._states = table.epoch, {}
            return self._kind.copy(self._folded(reader, head))

    def _folded(self, reader: Reader, head: Head) -> Any:
        log = self._engine.log
        at, state = 0, self._kind.initial()
        for seq, key, known in list(self._states.values()):
            if at < seq <= head.seq:
                _, event = log.on_chain(reader, head.lineage, seq)
                if event.key == key:  # an id commits to the whole history below it
                    at, state = seq, known
        if at == head.seq:
            return state
        state = self._kind.copy(state)
        for lineage, events in log.batches(reader, head.lineage, at + 1, head.seq):
            concerned = self._own.concerned(events)
            if concerned:
                state = self._kind.fold(state, lineage, concerned)
        self._states.pop(head.lineage, None)
        if len(self._states) >= _REMEMBERED:
            self._states.pop(next(iter(self._states)), None)
        self._states[head.lineage] = head.seq, head.key, state
        return state


def _record(reducer: Reducer[Any], types: Sequence[str], sources: Sequence[str]) -> SlotRecord:
    return SlotRecord(0, CUSTOM, reducer.name, reducer.version, "", tuple(types), tuple(sources), b"")
