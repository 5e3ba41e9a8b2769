"""The events of the conversation layer: their types and what their payloads hold. Pure.

Targets are named by id and sequence: ids for people and for the record, sequences for folds, which address by sequence
alone. Tokens are counted once, when a message is added, and recorded with the tokenizer's name, so that no fold needs a
tokenizer. What folds look at (`Facts`) stands beside the blocks, so that they decode without them.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

MESSAGE: Final = "message"
EDIT: Final = "message.edit"
REMOVE: Final = "message.remove"
SUMMARY: Final = "summary"
ADOPT: Final = "summary.adopt"
PIN: Final = "pin"
UNPIN: Final = "unpin"
HEAD_RESET: Final = "head.reset"
MESSAGE_TYPES: Final = (MESSAGE, EDIT, REMOVE)

CONTEXT_MANAGER: Final = "Context Manager"
"""The participant of messages that the conversation layer writes; it is nobody's name."""


class Call(msgspec.Struct, frozen=True):
    """A tool call inside a message."""

    id: str
    name: str


class Facts(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a fold needs to know of a message's content."""

    participant: str
    role: str  # "user", "assistant" or "system"
    tokens: int  # of everything, as it renders
    text_tokens: int  # of its text, tool calls and tool results alone, without media
    calls: tuple[Call, ...] = ()  # its tool_use blocks, in order
    answers: tuple[str, ...] = ()  # tool_use_id of its tool_result blocks, in order
    only_answers: bool = False  # it has tool results and nothing else


class MessagePayload(Facts, frozen=True, kw_only=True):
    """`message`: blocks in Anthropic's plain form, base64 media replaced by blob references."""

    blocks: list[Any]
    tokenizer: str
    at: int | None = None  # µs since the epoch, where it is not the event's own time
    metadata: dict[str, Any] = {}


class EditPayload(Facts, frozen=True, kw_only=True):
    """`message.edit`: the new content of the message at `seq`. Facts are those of the new content."""

    id: str
    seq: int
    blocks: list[Any]
    tokenizer: str


class EditFacts(Facts, frozen=True, kw_only=True):
    """What a fold reads of an edit."""

    id: str
    seq: int


class RemovePayload(msgspec.Struct, frozen=True):
    """`message.remove`: the messages with first_seq ≤ sequence ≤ last_seq are gone."""

    first: str
    first_seq: int
    last: str
    last_seq: int


class SummaryPayload(msgspec.Struct, frozen=True, kw_only=True):
    """`summary` (text: inline) and `summary.adopt` (made on another branch): the text is the blob `text`."""

    key: str  # digest of the sources as they stand, level, prompts, model and target size
    level: int
    text: Any  # BlobRef of the text
    tokens: int
    sources: tuple[str, ...]  # L1: ids of the messages; merges: ids of the summaries ("L1-0", …)
    source_seqs: tuple[int, ...]  # L1: their sequences; merges: empty
    first: str  # id of the first message covered
    last: str
    first_seq: int
    last_seq: int
    model: str = ""
    phase: str = ""


class PinPayload(msgspec.Struct, frozen=True, kw_only=True):
    """`pin`: the messages with first_seq ≤ sequence ≤ last_seq are protected. The pin's id is its event's."""

    first: str
    first_seq: int
    last: str
    last_seq: int
    kind: str = "pin"  # "pin" or "document"
    name: str | None = None


class UnpinPayload(msgspec.Struct, frozen=True):
    """`unpin`: takes back the pin of that event."""

    pin: str
    pin_seq: int


class HeadResetPayload(msgspec.Struct, frozen=True):
    """`head.reset`: the head window starts at the message at `seq`."""

    id: str
    seq: int
