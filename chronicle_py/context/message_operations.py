"""What a `ContextManager` does with messages: all of it handed on to the `Conversation` of its branch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from chronicle_py.context.conversation import Conversation, Id
from chronicle_py.context.erasing_messages import ErasedMessage
from chronicle_py.context.message import Message
from chronicle_py.event import Event
from chronicle_py.kv import Progress


class MessageOperations(ABC):
    """A part of `ContextManager`."""

    _conversation: Conversation

    @abstractmethod
    def _noted(self) -> None:
        """Something was done after which there may be work."""

    # --- messages ---

    def add_message(
        self,
        participant: str,
        content: object,
        *,
        metadata: Mapping[str, Any] | None = None,
        caused_by: Iterable[Id] = (),
        at: int | datetime | None = None,
    ) -> Message:
        """Appends a message. `content`: a str, blocks, or plain dicts in Anthropic's form; `at`: when it was said, µs
        since the epoch or an aware datetime, where that is not now. Cost: the tokenizer's, and one append."""
        message = self._conversation.add(participant, content, metadata=metadata, caused_by=caused_by, at=at)
        self._noted()
        return message

    def edit_message(self, id: Id, content: object) -> Message:
        """Replaces a message's content. NotFound unless it stands on this branch."""
        message = self._conversation.edit(id, content)
        self._noted()
        return message

    def remove_message(self, id: Id) -> None:
        """Takes a message out. NotFound unless it stands on this branch."""
        self._conversation.remove(id)
        self._noted()

    def remove_messages(self, first: Id, last: Id) -> int:
        """Takes out all messages from `first` to `last`, both included, and returns how many."""
        removed = self._conversation.remove_range(first, last)
        self._noted()
        return removed

    def erase_message(self, id: Id, reason: str, progress: Progress | None = None) -> ErasedMessage:
        """Erases a message for good, on all branches, with its edits, the summaries made of it and its copies in
        context logs; see `Conversation.erase`. What they covered is planned again without it."""
        erased = self._conversation.erase(id, reason, progress)
        self._noted()
        return erased

    def message(self, id: Id, at: int | str | Event | None = None) -> Message:
        """A message as it stands, or with `at` (sequence or event id) as it stood. NotFound where it does not."""
        return self._conversation.get(id, at)

    def messages(self, start: int = 0, stop: int | None = None) -> list[Message]:
        """The messages from one index up to another, as a slice of a list. O(log n + what it returns)."""
        return self._conversation.slice(start, stop)

    def tail(self, n: int) -> list[Message]:
        """The last n messages, or all where there are fewer."""
        return self._conversation.tail(n)

    def query(
        self,
        source: str | None = None,
        external_ids: Iterable[str | int] | None = None,
        participant: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        limit: int | None = None,
        reverse: bool = False,
    ) -> tuple[list[Message], int]:
        """(messages that pass all filters, how many do); see `Conversation.query`."""
        return self._conversation.query(source, external_ids, participant, metadata, limit, reverse)

    def find_external(self, source: str, id: str | int) -> Message | None:
        """The first message with `metadata["external"]` of this source and id. O(log n)."""
        return self._conversation.find_external(source, id)
