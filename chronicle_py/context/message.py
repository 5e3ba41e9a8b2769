"""`Message`: a message of a conversation as its readers see it, and what folds are told of its content. Pure.

A message is stored as the payload of one `message` event; an edit's payload replaces its blocks. Here the two become a
`Message`, and blocks become the `Facts` that a payload carries beside them.
"""

from __future__ import annotations

from typing import Any, Final, Literal, cast

import msgspec

from chronicle_py.context.blocks import Block, Text, ToolResult, ToolUse, parse
from chronicle_py.context.payloads import (
    EDIT,
    MESSAGE,
    REMOVE,
    Call,
    EditPayload,
    Facts,
    MessagePayload,
    RemovePayload,
)
from chronicle_py.context.tokens import Tokenizer, count_blocks
from chronicle_py.erased import Erased
from chronicle_py.errors import NotFound
from chronicle_py.event import Event, event_type

Role = Literal["user", "assistant", "system"]

EVENT_TYPES: Final = {MESSAGE: MessagePayload, EDIT: EditPayload, REMOVE: RemovePayload}
"""What a store is told of the payloads of messages."""


class _Metadata(msgspec.Struct, frozen=True):
    metadata: dict[str, Any] = {}


_decode_metadata = event_type(MESSAGE, _Metadata).decoder.decode
_decode_message = event_type(MESSAGE, MessagePayload).decoder.decode
_decode_edit = event_type(EDIT, EditPayload).decoder.decode


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A message as it stands (or stood) on a branch. Its id is that of its `message` event."""

    id: str
    seq: int
    participant: str
    role: Role
    blocks: list[Block]
    metadata: dict[str, Any] = {}
    timestamp: int  # µs since the epoch: the one given, else when it was recorded
    caused_by: tuple[str, ...] = ()
    tokens: int
    text_tokens: int
    tokenizer: str
    edited: str | None = None  # id of the last edit's event

    @property
    def text(self) -> str:
        """Its text blocks, one after the other, with a line break between."""
        return "\n".join(block.text for block in self.blocks if isinstance(block, Text))


def role_of(participant: str, assistant: str) -> Role:
    """The role that a participant speaks in: the model's, the system's, or a user's."""
    if participant == assistant:
        return "assistant"
    folded = participant.lower()
    if folded == "assistant":
        return "assistant"
    return "system" if folded == "system" else "user"


def facts(blocks: list[Block], participant: str, role: Role, tokenizer: Tokenizer) -> Facts:
    """What folds are told of a message with these blocks. Cost: that of counting the tokens."""
    tokens, text_tokens = count_blocks(blocks, tokenizer)
    calls = tuple([Call(block.id, block.name) for block in blocks if isinstance(block, ToolUse)])
    answers = tuple([block.tool_use_id for block in blocks if isinstance(block, ToolResult)])
    return Facts(participant, role, tokens, text_tokens, calls, answers, bool(answers) and len(answers) == len(blocks))


def message_of(event: Event, edit: Event | None) -> Message:
    """The message of a `message` event and the last edit of it. Media stay references to blobs. NotFound where one of
    them was erased since the caller looked up what stands."""
    for read in (event, edit):
        if read is not None and read.erased is not None:
            raise erased_since(event, read.erased)
    payload: MessagePayload = _decode_message(event.raw)
    content: MessagePayload | EditPayload = payload if edit is None else _decode_edit(edit.raw)
    return Message(
        id=event.id,
        seq=event.seq,
        participant=payload.participant,
        role=cast("Role", payload.role),
        blocks=parse(content.blocks),
        metadata=payload.metadata,
        timestamp=event.time if payload.at is None else payload.at,
        caused_by=event.caused_by,
        tokens=content.tokens,
        text_tokens=content.text_tokens,
        tokenizer=content.tokenizer,
        edited=None if edit is None else edit.id,
    )


def erased_since(message: Event, erased: Erased) -> NotFound:
    return NotFound(f"message {message.id[:12]} was erased: {erased.reason}")


def metadata_of(event: Event) -> dict[str, Any]:
    """The metadata of a `message` event alone; its content is skipped, not decoded."""
    if event.erased is not None:
        raise erased_since(event, event.erased)
    found: dict[str, Any] = _decode_metadata(event.raw).metadata
    return found
