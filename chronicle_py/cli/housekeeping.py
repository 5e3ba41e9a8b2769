"""Commands that keep a store small and safe: gc, compact, backup."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Final

import msgspec
import typer

from chronicle_py.cli import output
from chronicle_py.cli.app import app
from chronicle_py.cli.checking import SECTION
from chronicle_py.cli.options import DEFAULT_STORE, Json, StorePath, reading, writing
from chronicle_py.gc import GcReport

_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def age(text: str | None, option: str) -> timedelta | None:
    """The age that a text like 90s, 15m, 12h, 30d or 2w means; 0 needs no unit."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d{1,9})([smhdw])", text.strip())
    if found is None and text.strip() != "0":
        raise typer.BadParameter(
            f"{text!r} is no age; an age is like 90s, 15m, 12h, 30d or 2w, or 0", param_hint=option
        )
    try:
        return timedelta() if found is None else timedelta(**{_UNITS[found[2]]: int(found[1])})
    except OverflowError:
        raise typer.BadParameter(f"{text!r} is longer than time goes", param_hint=option) from None


@app.command(rich_help_panel=SECTION)
def gc(
    store: StorePath = DEFAULT_STORE,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    expire_reflog: Annotated[
        str | None,
        typer.Option(
            "--expire-reflog", metavar="AGE", help="Drop reflog entries of this age: 90s 15m 12h 30d 2w, 0: all."
        ),
    ] = None,
    branches: Annotated[
        str | None,
        typer.Option("--branches", metavar="PATTERN", help="First delete these branches: 'try/*'. Never main."),
    ] = None,
    older_than: Annotated[
        str | None, typer.Option("--older-than", metavar="AGE", help="Of --branches only those whose head is that old.")
    ] = None,
    unused_blobs: Annotated[
        bool, typer.Option("--unused-blobs", help="Also drop blobs that no event ever referred to.")
    ] = False,
    json: Json = False,
) -> None:
    """Collects what no branch and no reflog entry needs.

    Without options that is little: each branch that was deleted or rewound can be brought back as long as its reflog
    entry is there. --expire-reflog gives that up. The file keeps its size and has room for new events; `chronicle
    compact` makes it smaller.

    \b
    chronicle gc --dry-run --expire-reflog 30d
    chronicle gc --expire-reflog 30d
    chronicle gc --branches 'try/*' --older-than 2w --expire-reflog 2w
    """
    expire, old = age(expire_reflog, "--expire-reflog"), age(older_than, "--older-than")
    if old is not None and branches is None:
        raise typer.BadParameter(
            "says which of --branches go; give a pattern too, '*' for all", param_hint="--older-than"
        )
    with (reading if dry_run else writing)(store) as opened, output.progress("collecting") as report:
        found = opened.gc(
            dry_run=dry_run, expire_reflog=expire, branches=branches, older_than=old, unused_blobs=unused_blobs,
            progress=report,
        )  # fmt: skip
    if json:
        output.print_json(msgspec.to_builtins(found))
        return
    _say(found)


def _say(found: GcReport) -> None:
    verb = "would be collected" if found.dry_run else "collected"
    if found.branches:
        output.say(f"{'would be deleted' if found.dry_run else 'deleted'}: {', '.join(found.branches)}")
    parts = (
        (found.reflog, "reflog entry", "reflog entries"), (found.lineages, "lineage", "lineages"),
        (found.events, "event", "events"), (found.nodes, "node", "nodes"), (found.blobs, "blob", "blobs"),
    )  # fmt: skip
    said = ", ".join(f"{number:,} {one if number == 1 else many}" for number, one, many in parts if number)
    output.say(f"{verb}: {said or 'nothing'}" + (f" ({output.size(found.bytes)})" if found.bytes else ""))


@app.command(rich_help_panel=SECTION)
def compact(store: StorePath = DEFAULT_STORE, json: Json = False) -> None:
    """Writes the file anew, without free room.

    Programs that have the store open go on with the new file. Needs room for both files meanwhile.

    \b
    chronicle gc --expire-reflog 30d && chronicle compact
    """
    with writing(store) as opened, output.progress("compacting") as report:
        found = opened.compact(progress=report)
    if json:
        output.print_json(msgspec.to_builtins(found))
    else:
        output.say(f"compacted: {output.size(found.before)} before, {output.size(found.after)} after")


@app.command(rich_help_panel=SECTION)
def backup(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The copy; it must not exist yet.")],
    store: StorePath = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Copies the store as it is at this moment to a new file.

    Others may go on writing. The copy is a store, and is there when it is whole.

    \b
    chronicle backup monday.chronicle
    chronicle verify --store monday.chronicle
    """
    with reading(store) as opened, output.progress("copying") as report:
        size = opened.backup(file, progress=report)
    if json:
        output.print_json({"path": file, "bytes": size})
    else:
        output.say(f"copied to {file}: {output.size(size)}")
