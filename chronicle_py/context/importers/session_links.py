"""Which message a record of a session comes after. Pure.

- Records that are no messages (progress, system, summary, snapshots, compact boundaries), and messages that were left
  out, are passed through; a compact boundary goes on from its `logicalParentUuid`.
- A parent that was never written, and a record without links, mean the message before it in the file, of its chain.
- Without a parent, a user's own words are a first message. But not in a file where nothing is linked, and not the
  summary after a compaction: these go on from the message before them.
- A side chain's first record has no parent here, whatever it names; the main chain never goes on from a side chain.
"""

from __future__ import annotations

from typing import Any, Final

_LINKS: Final = ("parentUuid", "logicalParentUuid")
_MAIN: Final = None


class Record:
    """A record of a session."""

    __slots__ = (
        "answers",
        "blocks",
        "is_message",
        "message_id",
        "number",
        "only_results",
        "side",
        "uuid",
        "value",
        "where",
    )

    def __init__(self, number: int, where: str, value: dict[str, Any], is_message: bool) -> None:
        self.number = number
        self.where = where
        self.value = value
        self.is_message = is_message
        uuid = value.get("uuid")
        self.uuid: str | None = uuid if isinstance(uuid, str) and uuid else None
        self.side: str | None = str(value.get("agentId") or "side") if value.get("isSidechain") is True else _MAIN
        self.blocks: list[dict[str, Any]] = []
        self.message_id: str | None = None
        if is_message:
            message = value["message"]
            content = message["content"]
            parts = [content] if isinstance(content, str) else content
            self.blocks = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
            id = message.get("id")
            if self.is_assistant and isinstance(id, str) and id:
                self.message_id = id
        self.answers = {str(b.get("tool_use_id")) for b in self.blocks if b.get("type") == "tool_result"}
        self.only_results = bool(self.blocks) and all(block.get("type") == "tool_result" for block in self.blocks)

    @property
    def is_assistant(self) -> bool:
        return bool(self.value["type"] == "assistant")

    def on_main(self) -> Record:
        """The record as one of the main chain."""
        self.side = _MAIN
        return self

    @property
    def parent(self) -> str | None:
        """The uuid that it names as the record before it."""
        return next((link for name in _LINKS if isinstance(link := self.value.get(name), str) and link), None)

    @property
    def may_be_first(self) -> bool:
        """Whether a conversation can begin with it."""
        return not (self.is_assistant or self.answers or self.value.get("isCompactSummary"))


def key_of(record: Record) -> str:
    """What names a message's record: its uuid, or its place."""
    return record.uuid if record.uuid is not None else f"#{record.number}"


def parents(records: list[Record]) -> dict[str, str | None]:
    """For each record that is a message the key of the one it comes after; None: it is a first one."""
    by_uuid = {record.uuid: record for record in records if record.uuid is not None}
    before: dict[int, str | None] = {}  # number of a record -> the message before it on its chain
    newest: dict[str | None, str] = {}
    linked: set[str | None] = set()  # chains with a link that leads somewhere
    for record in records:
        before[record.number] = newest.get(record.side)
        if record.is_message:
            newest[record.side] = key_of(record)
            if record.parent in by_uuid:
                linked.add(record.side)
    found: dict[str, str | None] = {}
    for record in records:
        if record.is_message:
            found[key_of(record)] = _parent(record, by_uuid, before, record.side in linked)
    return found


def _parent(record: Record, by_uuid: dict[str, Record], before: dict[int, str | None], linked: bool) -> str | None:
    previous = before[record.number]
    if record.parent is None:
        unlinked = record.uuid is None or not linked
        first = record.may_be_first and not (unlinked and record.side is _MAIN)
        return None if first else previous
    passed: set[int] = set()
    at = record
    while True:
        passed.add(at.number)
        above = by_uuid.get(at.parent) if at.parent is not None else None
        if above is None or above.number in passed:
            break
        if above.side != record.side:
            if record.side is not _MAIN:
                return None
        elif above.is_message:
            return key_of(above)
        at = above
    return before[at.number] if at.side == record.side else previous
