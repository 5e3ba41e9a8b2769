"""What tests of the manager begin with: a manager, a few messages, what is shown."""

from __future__ import annotations

from typing import Any

from tiny_strategy import Tiny

from chronicle_py import Store
from chronicle_py.context import ContextManager, Message


def words(text: str) -> int:
    return len(text.split())


def manager(store: Store, **options: Any) -> ContextManager:
    return ContextManager(store, **{"strategy": Tiny(), "tokenizer": words, **options})


def talk(cm: ContextManager, *texts: str) -> list[Message]:
    """Messages by User and Claude in turn."""
    return [cm.add_message("User" if n % 2 == 0 else "Claude", text) for n, text in enumerate(texts)]


def shown(cm: ContextManager, **options: Any) -> list[str]:
    """The first text of each compiled message."""
    return [getattr(message.blocks[0], "text", "") for message in cm.compile(**options).messages]
