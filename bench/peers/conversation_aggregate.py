"""The aggregate that eventsourcing_sqlite.py measures; its library finds the class of an event by module and name."""

from __future__ import annotations

from eventsourcing.domain import Aggregate, event


class Conversation(Aggregate):  # type: ignore[misc, unused-ignore]
    """Counts its messages, as `bench.stores.Counting` does."""

    def __init__(self) -> None:
        self.messages = 0
        self.characters = 0

    @event("MessageAdded")  # type: ignore[misc, unused-ignore, untyped-decorator]
    def add(self, role: str, content: str) -> None:
        self.messages += 1
        self.characters += len(content)
