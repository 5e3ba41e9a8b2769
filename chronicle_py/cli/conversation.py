"""Commands about the messages of a branch: messages, say."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from chronicle_py.cli import output, preview
from chronicle_py.cli.app import app
from chronicle_py.cli.managing import MESSAGES_SLOT, Namespace, messages_slot
from chronicle_py.cli.options import DEFAULT_STORE, At, BranchName, Json, StorePath, optional_place, reading, writing

if TYPE_CHECKING:
    from chronicle_py.context import Message

SECTION = "Conversation"
_LIMIT = 20
_PREVIEW = 110


@app.command(rich_help_panel=SECTION)
def messages(
    store: StorePath = DEFAULT_STORE,
    branch: BranchName = "main",
    at: At = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", "-n", min=0, metavar="N", help="The newest N, 0 for all.", show_default="20, with --json all"
        ),
    ] = None,
    participant: Annotated[
        str | None, typer.Option("--participant", "-p", metavar="NAME", help="Only what this one said.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Whole messages, not a line of each.")] = False,
    namespace: Namespace = None,
    json: Json = False,
) -> None:  # fmt: skip
    """Shows the messages of a branch, as they stand.

    \b
    chronicle messages                       the newest 20 of main
    chronicle messages -b other --at 12      as they were at event 12
    chronicle messages -p assistant --full
    """
    from chronicle_py.context import Conversation

    most = (None if json else _LIMIT) if limit is None else limit or None
    with reading(store) as opened:
        slot = messages_slot(opened, namespace)
        conversation = Conversation(opened, branch, slot=slot, isolated=slot != MESSAGES_SLOT)
        where = optional_place(conversation.branch, at)
        if participant is not None and where is None:
            found, total = conversation.query(participant=participant, limit=most, reverse=True)
            found.reverse()
        else:
            rows = conversation.index(where).entries
            wanted = [row for row in rows if participant is None or row.participant == participant]
            total = len(wanted)
            found = [conversation.get(_id(conversation, row.seq), where) for row in wanted[-most if most else 0 :]]
    if json:
        output.print_json([message_json(message) for message in found])
        return
    if total > len(found):
        output.say(f"⋮ {total - len(found):,} earlier; --limit 0 shows all")
    for message in found:
        for line in _whole(message) if full else [listed(message)]:
            output.say(line)
    if not found:
        output.say("no messages")


def _id(conversation: Any, seq: int) -> str:
    return str(conversation.branch.event(seq).id)


def message_json(message: Message) -> dict[str, Any]:
    """A message as JSON shows it."""
    from chronicle_py.context.blocks import plain

    return {**msgspec.structs.asdict(message), "blocks": [plain(block) for block in message.blocks]}


def message_line(participant: str, blocks: list[Any], width: int) -> str:
    """Who said what, in a line."""
    from chronicle_py.context.blocks import plain

    item = {"role": participant, "content": [plain(block) for block in blocks]}
    return preview.item_line(item, width)


def listed(message: Message) -> str:
    """A message in a line of a list."""
    width = (output.terminal_width() or _PREVIEW + 24) - 24
    edited = " (edited)" if message.edited else ""
    line = message_line(message.participant, message.blocks, width)
    return f"{message.seq:>4} {output.short(message.id)} {line}{edited}"


def _whole(message: Message) -> list[str]:
    from chronicle_py.context.compiled import spoken

    text = "\n".join(
        "".join(c if c.isprintable() or c == "\t" else " " for c in line) for line in spoken(message.blocks).split("\n")
    )
    head = f"{message.seq} {output.short(message.id)} {preview.clean(message.participant)}"
    return [f"{head}, {output.when(message.timestamp)}, {output.count(message.tokens, 'token')}", text, ""]


@app.command(rich_help_panel=SECTION)
def say(
    text: Annotated[str, typer.Argument(metavar="TEXT", help='What is said; "-" reads it from the standard input.')],
    store: StorePath = DEFAULT_STORE,
    branch: BranchName = "main",
    participant: Annotated[
        str, typer.Option("--participant", "-p", metavar="NAME", help='Who says it; "assistant" is the model.')
    ] = "user",
    json: Json = False,
) -> None:
    """Adds a message to a branch.

    \b
    chronicle say "Write a test first."
    chronicle say -b other -p assistant "Here it is: …"
    """
    from chronicle_py.context import Conversation

    with writing(store, create=True) as opened:
        conversation = Conversation(opened, branch)
        message = conversation.add(participant, sys.stdin.read() if text == "-" else text)
    if json:
        output.print_json(message_json(message))
    else:
        output.say(f"said: {message.seq} {output.short(message.id)} on {branch}")
