"""The reducers of the conversation layer for the slots of a store that are folded by them.

A slot with a reducer of an application's own can be read only where that reducer is. Those that come with this package
are here, strategies with their default options: a slot of another configuration stays unread.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from chronicle_py import ChronicleError, SlotInfo, Store


def load_reducers(store: Store) -> None:
    """Registers what it can for the slots that have no reducer yet. Imports the conversation layer where it is used."""
    waiting = [slot for slot in store.slots() if not slot.loaded]
    if waiting:
        at_hand = _reducers()
        for slot in waiting:
            with suppress(ChronicleError):  # another configuration, another version
                _register(store, slot, at_hand)


def _register(store: Store, slot: SlotInfo, at_hand: dict[str, Any]) -> None:
    reducer = at_hand.get(slot.reducer or "")
    if reducer is not None:
        store.register_state(slot.id, reducer=reducer, types=slot.types, sources=slot.sources)


def _reducers() -> dict[str, Any]:
    from chronicle_py.context.context_log import ContextLogReducer
    from chronicle_py.context.memory import Memory
    from chronicle_py.context.message_index import MessageIndex
    from chronicle_py.strategies import Autobiographical, Knowledge, Passthrough, SlidingWindow

    own = (MessageIndex, Memory, ContextLogReducer, Passthrough, SlidingWindow, Autobiographical, Knowledge)
    found: list[Any] = [reducer() for reducer in own]
    return {reducer.name: reducer for reducer in found}
