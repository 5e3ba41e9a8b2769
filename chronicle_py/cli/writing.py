"""Commands that write single things: append, blob."""

from __future__ import annotations

import mimetypes
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from chronicle_py import Branch, Event, InvalidOperation, Store
from chronicle_py.cli import output
from chronicle_py.cli.app import app
from chronicle_py.cli.options import (
    DEFAULT_STORE,
    BranchName,
    Json,
    StorePath,
    binary_input,
    json_argument,
    reading,
    writing,
)  # fmt: skip
from chronicle_py.event import decode_payload
from chronicle_py.exchange import find_blob

SECTION = "Writing"


@app.command(rich_help_panel=SECTION)
def append(
    type: Annotated[
        str, typer.Argument(metavar="TYPE", help="The event's type. Left out with --slot of a built-in kind.")
    ],
    payload: Annotated[
        str | None,
        typer.Argument(metavar="JSON", help='The payload; "-" reads it from the standard input.', show_default=False),
    ] = None,
    store: StorePath = DEFAULT_STORE,
    branch: BranchName = "main",
    slot: Annotated[str | None, typer.Option("--slot", metavar="SLOT", help="Change this slot.")] = None,
    caused_by: Annotated[
        list[str] | None, typer.Option("--caused-by", metavar="ID", help="An event that led to this one. Repeatable.")
    ] = None,
    linked_to: Annotated[
        list[str] | None, typer.Option("--linked-to", metavar="ID", help="An event it has to do with. Repeatable.")
    ] = None,
    expect: Annotated[
        str | None, typer.Option("--expect", metavar="ID", help="Fail unless this is the head; 0: unless it is empty.")
    ] = None,
    json: Json = False,
) -> None:
    """Appends one event.

    Of a type of your own, or an operation on a slot. With --slot the JSON alone is given: an append_log gets it as an
    item, a value is set to it, a document is patched with it (JSON merge patch), and of a tree it puts each path of an
    object, and removes those whose value is null. In JSON, {"$blob": ID} refers to a blob.

    \b
    chronicle append note '{"text": "looks good"}'
    chronicle append --slot messages '{"role": "user", "content": "Go on."}'
    chronicle append --slot files '{"src/a.py": "print(1)", "old.py": null}'
    echo '{"n": 1}' | chronicle append metric -
    """
    alone = payload is None
    if alone and slot is None:
        raise typer.BadParameter("an event takes a TYPE and JSON; JSON alone goes with --slot", param_hint="JSON")
    value = decode_payload(json_argument(type if payload is None else payload))
    references: dict[str, Any] = {
        "caused_by": caused_by or (),
        "linked_to": linked_to or (),
        "expect": 0 if expect == "0" else expect,
    }
    with writing(store) as opened:
        target = opened.branch(branch)
        if alone:
            event = _operate(opened, target, str(slot), value, references)
        else:
            event = target.append(type, value, slot=slot, **references)
    if json:
        output.print_json(output.event_json(event))
    else:
        output.say(f"appended: {event.seq} {output.short(event.id)} to {branch}")


def _operate(store: Store, branch: Branch, slot: str, value: Any, references: dict[str, Any]) -> Event:
    """The operation that a value alone means for a slot of its kind."""
    view = branch.state(slot)
    kind = next(found.kind for found in store.slots() if found.id == slot)
    event: Event
    if kind == "append_log":
        event = view.append(value, **references)
    elif kind == "value":
        event = view.set(value, **references)
    elif kind == "document":
        event = view.patch(value, **references)
    elif kind == "tree":
        if not isinstance(value, dict):
            raise InvalidOperation(f"slot {slot!r} is a tree and takes an object of paths and values, not {value!r}")
        ops = [("remove", path) if item is None else ("put", path, item) for path, item in value.items()]
        event = view.batch(ops, **references)
    elif kind == "index":
        raise InvalidOperation(f"slot {slot!r} is an index and follows from the slot it is of; change that one")
    else:
        raise InvalidOperation(
            f"slot {slot!r} has a reducer of its own, which takes events: give a TYPE before the JSON"
        )
    return event


# --- blobs ----------------------------------------------------------------------------------------------------------

blob_app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)
app.add_typer(blob_app, name="blob", rich_help_panel=SECTION)


@blob_app.callback()
def blob() -> None:
    """Stores files by their content, and gets them back.

    \b
    chronicle blob put picture.png
    chronicle blob get 5d41402abc > picture.png
    """


@blob_app.command("put")
def put(
    file: Annotated[str, typer.Argument(metavar="FILE", help='The file; "-" is the standard input.')],
    store: StorePath = DEFAULT_STORE,
    media_type: Annotated[
        str | None,
        typer.Option("--media-type", metavar="TYPE", help="Like image/png.", show_default="by the file's name"),
    ] = None,
    json: Json = False,
) -> None:
    """Stores a file, and prints its id.

    However often the same is put, it is stored once. Payloads refer to it as {"$blob": ID}.

    \b
    chronicle blob put picture.png
    """
    data = binary_input(file)
    guessed = mimetypes.guess_type(file)[0] or "application/octet-stream"
    kind = guessed if media_type is None else media_type
    with writing(store) as opened:
        id = opened.put_blob(data, kind)
    if json:
        output.print_json({"blob": id, "media_type": kind, "size": len(data)})
    else:
        output.say(id)


@blob_app.command("get")
def get(
    id: Annotated[str, typer.Argument(metavar="ID", help="The id, or its first 6 digits or more.")],
    store: StorePath = DEFAULT_STORE,
    to: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Where to.", show_default="stdout")
    ] = None,
) -> None:
    """Writes a blob's bytes.

    \b
    chronicle blob get 5d41402abc -o picture.png
    """
    with reading(store) as opened:
        found = find_blob(opened, id)
    if to is None or to == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(found.data)
        sys.stdout.buffer.flush()
    else:
        Path(to).write_bytes(found.data)
