"""All figures, in the order of the table."""

from __future__ import annotations

from bench import (
    append,
    conversation,
    forks,
    growth,
    memory,
    read,
    size,
    state,
    tokens,
    trees,
    verifying,
)
from bench.figure import FIGURES, Registered
from bench.peers import eventsourcing_sqlite, langgraph_sqlite, openai_agents, plain_sqlite3, prolly

ENGINE = [
    module.__name__
    for module in (append, read, state, forks, trees, verifying, size, memory, conversation, tokens, growth)
]
PEERS = [module.__name__ for module in (plain_sqlite3, eventsourcing_sqlite, langgraph_sqlite, openai_agents, prolly)]


def selected(only: str = "", *, peers: bool = True) -> list[Registered]:
    """The figures whose name, group or library contains `only`; `peers`: those beside other libraries as well."""
    order = ENGINE + PEERS if peers else ENGINE
    found = [entry for entry in FIGURES if entry.measure.__module__ in order]
    found.sort(key=lambda entry: order.index(entry.measure.__module__))
    text = only.lower()
    return [entry for entry in found if text in f"{entry.group}\n{entry.name}\n{entry.against}".lower()]
