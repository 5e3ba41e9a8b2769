"""Commands about a store that is damaged or old: salvage, migrate."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

import chronicle_py
from chronicle_py.cli import output
from chronicle_py.cli.app import app
from chronicle_py.cli.options import DEFAULT_STORE, Json, must_exist

SECTION = "The store"


@app.command(rich_help_panel=SECTION)
def salvage(
    damaged: Annotated[str, typer.Argument(metavar="DAMAGED", help="The damaged store; it is only read.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="Where the new store goes; nothing may be there.")],
    leftovers: Annotated[
        str | None,
        typer.Option("--leftovers", metavar="FILE", help="Where events go, as JSON Lines, that no branch can hold."),
    ] = None,
    json: Json = False,
) -> None:
    """Copies everything that still verifies to a new store, and says what it could not.

    A branch whose history is whole comes over as it is, with the same ids at the same places. One with a gap ends
    before the gap; events after it cannot be attached to anything and go to the leftovers.

    \b
    chronicle salvage damaged.store saved.store --leftovers lost.jsonl
    """
    must_exist(damaged)
    with output.progress("salvaging") as report:
        found = chronicle_py.salvage(damaged, new, report, leftovers=leftovers)
    if json:
        output.print_json(msgspec.to_builtins(found))
        return
    output.say(
        f"salvaged: {output.count(found.events, 'event')}, {output.count(found.blobs, 'blob')} to {found.target}"
    )
    rows = []
    for branch in found.branches:
        lost = ", ".join(f"{a}-{b}" if a != b else f"{a}" for a, b in branch.lost)
        rows.append((branch.name, branch.outcome, branch.seq, lost or "-", branch.after or "-"))
    output.table(("branch", "is", "head", "lost", "events after that"), rows, right=("head",))
    for blob in found.lost_blobs:
        output.say(f"lost: blob {output.short(blob.id)}, which {', '.join(blob.named_by[:5])} refer to")
    for line in found.notes:
        output.say(f"note: {line}")
    if found.leftovers and leftovers is None:
        output.say(f"note: {output.count(found.leftovers, 'event')} had no place; --leftovers FILE writes them down")
    elif found.leftovers:
        output.say(f"{output.count(found.leftovers, 'event')} without a place are in {leftovers}")
    if found.whole:
        output.say("nothing is missing")


@app.command(rich_help_panel=SECTION)
def migrate(
    path: Annotated[str, typer.Argument(metavar="PATH", help="The store: a file, or a folder.")] = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Brings a store of an older format to this version's.

    In one transaction. A store that has the format already is left as it is. Older versions of chronicle-py refuse the
    store from then on.

    \b
    chronicle migrate chronicle.store
    """
    must_exist(path)
    before, after = chronicle_py.migrate(path)
    if json:
        output.print_json({"path": path, "from": before, "to": after})
    elif before == after:
        output.say(f"{path} has format {after} already")
    else:
        output.say(f"{path}: format {before} became {after}")
