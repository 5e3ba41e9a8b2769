"""Slots of messages, as `state` and `diff` show them: by what was said, not by what the index holds."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from chronicle_py import Branch, Store
from chronicle_py.cli.conversation import message_json, message_line
from chronicle_py.cli.managing import MESSAGES, MESSAGES_SLOT

if TYPE_CHECKING:
    from chronicle_py.context import Message

Change = tuple[str, int, "Message | None", "Message | None"]


def is_messages(store: Store, slot: str) -> bool:
    """Whether a slot is one of messages."""
    return any(found.id == slot and found.reducer == MESSAGES for found in store.slots())


def messages_at(
    store: Store, branch: Branch, slot: str, at: int | str | None = None, limit: int | None = None
) -> list[Message]:
    """The messages that stood on a branch at a place, or the last of them."""
    from chronicle_py.context import Conversation

    conversation = Conversation(store, branch, slot=slot, isolated=slot != MESSAGES_SLOT)
    rows = conversation.index(at).entries
    wanted = rows[-limit:] if limit else rows[:]
    return [conversation.get(branch.event(row.seq).id, at) for row in wanted]


def differing(before: list[Message], after: list[Message]) -> Iterator[Change]:
    """(op, index, before, after) of each message that is on one side alone, or that was edited."""
    old, new = [(m.id, m.edited) for m in before], [(m.id, m.edited) for m in after]
    for op, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if op == "equal":
            continue
        edited = {m.id: m for m in after[c:d]}
        for at in range(a, b):
            other = edited.pop(before[at].id, None)
            yield ("remove", at, before[at], None) if other is None else ("change", at, before[at], other)
        yield from (("add", at, None, after[at]) for at in range(c, d) if after[at].id in edited)


def change_line(change: Change) -> tuple[str, str]:
    """A change in a line, with its style."""
    op, at, before, after = change
    old = "" if before is None else message_line(before.participant, before.blocks, 600)
    new = "" if after is None else message_line(after.participant, after.blocks, 600)
    if op == "add":
        return f"+ [{at}] {new}", "green"
    return (f"- [{at}] {old}", "red") if op == "remove" else (f"~ [{at}] {old[:48]} ⇒ {new}", "yellow")


def change_json(change: Change) -> dict[str, Any]:
    """A change as JSON shows it."""
    op, at, before, after = change
    sides = {"before": before, "after": after}
    return {"op": op, "path": at, **{name: None if m is None else message_json(m) for name, m in sides.items()}}
