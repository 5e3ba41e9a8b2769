"""The command that takes a payload out of a store for good: erase."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import msgspec
import typer

from chronicle_py import Event, Store
from chronicle_py.cli import output, preview
from chronicle_py.cli.app import Failure, app
from chronicle_py.cli.checking import SECTION
from chronicle_py.cli.options import DEFAULT_STORE, BranchName, Json, Place, StorePath, place, writing

_MESSAGE = "message"


@app.command(rich_help_panel=SECTION)
def erase(
    where: Place,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it stays in the store.")],
    store: StorePath = DEFAULT_STORE,
    branch: BranchName = "main",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    compact: Annotated[bool, typer.Option("--compact", help="Then write the file anew, without the bytes.")] = False,
    json: Json = False,
) -> None:
    """Takes the payload of an event out of the store, on all branches, for good.

    Of a message of a conversation, with its edits, the summaries made of it, and its copies in context logs. Type,
    time, slot and ids stay, so that the history still verifies; states are folded anew without it. The file has the
    bytes in its free pages until `chronicle compact`; backups and exports made before keep them.

    \b
    chronicle erase 12 --reason "asked for by the customer"
    chronicle erase 3f9a2c --reason "a password" --yes --compact
    """
    with writing(store) as opened:
        found = place(opened.branch(branch), where)
        event = opened.event(found) if isinstance(found, str) else opened.branch(branch).event(found)
        if not yes:
            _confirm(opened, event)
        said = _erase(opened, event, reason)
        if compact:
            with output.progress("compacting") as report:
                said["compacted"] = msgspec.to_builtins(opened.compact(progress=report))
    if json:
        output.print_json(said)
        return
    _say(said)


def _confirm(store: Store, event: Event) -> None:
    """Asks, where somebody can answer."""
    if not _is_asked():
        raise typer.BadParameter(
            "erasing cannot be taken back; give --yes where nobody can be asked", param_hint="--yes"
        )
    kinds = {slot.id: slot.kind for slot in store.slots()}
    output.say(f"{event.seq} {output.short(event.id)} {preview.event_line(event, kinds)}")
    if not typer.confirm("Erase this for good?", err=True):
        raise Failure("nothing was erased")


def _is_asked() -> bool:
    return sys.stdin.isatty()


def _erase(store: Store, event: Event, reason: str) -> dict[str, Any]:
    with output.progress("erasing") as progress:
        if event.type != _MESSAGE:
            return {"id": event.id, **msgspec.to_builtins(store.erase(event, reason, progress=progress))}
        from chronicle_py.context.erasing_messages import erase_message

        found = msgspec.to_builtins(erase_message(store._engine, event, reason, progress))
        return {**{name: value for name, value in found.items() if name != "report"}, **found["report"]}


def _say(said: dict[str, Any]) -> None:
    parts = [
        (said.get(name, 0), one, many)
        for name, one, many in (
            ("edits", "edit", "edits"), ("summaries", "summary", "summaries"),
            ("log", "event of a context log", "events of a context log"), ("pins", "pin", "pins"),
            ("blobs", "blob", "blobs"),
        )
    ]  # fmt: skip
    more = ", ".join(f"{number:,} {one if number == 1 else many}" for number, one, many in parts if number)
    if not said["events"]:
        output.say(f"{output.short(said['id'])} was erased before")
    else:
        output.say(f"erased: {output.short(said['id'])}" + (f", with {more}" if more else ""))
    if "compacted" in said:
        sizes = said["compacted"]
        output.say(f"compacted: {output.size(sizes['before'])} before, {output.size(sizes['after'])} after")
    else:
        output.say("the bytes leave the file with `chronicle compact`")
