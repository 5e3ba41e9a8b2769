"""The command that waits: follow."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from chronicle_py import BranchChange, CaughtUp, Followed, Follower, Gone, Store
from chronicle_py.cli import output
from chronicle_py.cli.app import app
from chronicle_py.cli.history import PREVIEW, can_print, event_pieces, head_json, head_text
from chronicle_py.cli.options import DEFAULT_STORE, StorePath, reading
from chronicle_py.cli.preview import clean
from chronicle_py.feed import Item

_LOOK_EVERY = 0.5  # seconds between two looks at whether anybody still reads the output
_MOST_NAME = 24  # columns that names of branches are set to, at most


@app.command(rich_help_panel="Looking")
def follow(
    store: StorePath = DEFAULT_STORE,
    branches: Annotated[
        list[str] | None,
        typer.Option("--branch", "-b", metavar="NAME", help="Only this branch. Repeatable.", show_default="all"),
    ] = None,
    types: Annotated[list[str] | None, typer.Option("--type", help="Only events of this type. Repeatable.")] = None,
    slots: Annotated[list[str] | None, typer.Option("--slot", help="Only events of this slot. Repeatable.")] = None,
    start: Annotated[
        str, typer.Option("--from", metavar="POSITION", help='Right behind an item, from the "start", or from "now".')
    ] = "start",
    once: Annotated[bool, typer.Option("--once", "--no-live", help="End when all that is past was shown.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line, for programs.")] = False,
) -> None:  # fmt: skip
    """Shows what is done as it is done, until interrupted.

    Events and changes of branches in the order of their commits, on all branches: first what is past, then what any
    program does from now on. --type and --slot ask for events alone. Each item has a position, to go on from it later.

    \b
    chronicle follow --from now                  only what comes
    chronicle follow -b main --type message --json | while read -r line; do …; done
    chronicle follow --from 17.42-3f9a2c015be07d11 --once
    """
    with reading(store) as opened:
        names, kinds, ids = branches or None, types or None, slots or None
        place = None if start == "start" else start
        with opened.follow(names, kinds, ids, place, live=not once) as follower:
            show = _json_line if json else _Lines(opened).show
            for item in follower if once else _watched(follower):
                show(item)


def _watched(follower: Follower) -> Iterator[Item]:
    """What comes, shown at once. Ends with BrokenPipeError when nobody reads it, also while nothing comes."""
    while True:
        item = follower.next(timeout=0)
        if item is None:
            sys.stdout.flush()
            output.check_reader()
            item = follower.next(timeout=_LOOK_EVERY)
        if item is not None:
            yield item


# --- how it is shown ------------------------------------------------------------------------------------------------


def _json_line(item: Item) -> None:
    output.print_json_line(_as_json(item))


def _as_json(item: Item) -> dict[str, Any]:
    if isinstance(item, Followed):
        return {"item": "event", "branch": item.branch, "position": item.position, **output.event_json(item.event)}
    if isinstance(item, CaughtUp):
        return {"item": "caught up", "position": item.position}
    where = {"branch": item.branch, "position": item.position}
    if isinstance(item, Gone):
        return {"item": "gone", **where, "entries": item.entries, "events": item.events}
    heads = {"before": head_json(item.before), "after": head_json(item.after)}
    return {"item": "change", **where, "kind": item.kind, **heads}


class _Lines:
    """One line for each item, as `log` shows events."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kinds: dict[str, str] = {}
        infos = store.branches()
        self._name = min(_MOST_NAME, max(len(info.name) for info in infos))
        self._digits = len(str(max(info.seq for info in infos)))
        self._write = output.line_writer()

    def show(self, item: Item) -> None:
        self._write(*self._pieces(item))

    def _pieces(self, item: Item) -> list[output.Piece]:
        if isinstance(item, CaughtUp):
            return [(f"caught up at {item.position}", "dim")]
        if isinstance(item, Gone):
            entries = "1 entry" if item.entries == 1 else f"{item.entries:,} entries"
            where = "" if item.branch is None else f" of {clean(item.branch)}"
            events = "" if item.events is None else f", {output.count(item.events, 'event')}"
            return [(f"collected: {entries}{where}{events}", "yellow")]
        name = f"{clean(item.branch):<{self._name}} "
        if isinstance(item, BranchChange):
            arrow = "→" if can_print("→") else "->"
            heads = f"{head_text(item.before)} {arrow} {head_text(item.after)}"
            return [(name, "green"), (item.kind, "yellow"), " ", (heads, "dim")]
        event = item.event
        if event.slot is not None and event.slot not in self._kinds:
            self._kinds = {slot.id: slot.kind for slot in self._store.slots()}
        seq = f"{event.seq:>{self._digits}} "
        width = output.terminal_width()
        room = PREVIEW if width is None else max(20, width - len(name) - len(seq) - 12)
        return [(name, "green"), (seq, "cyan"), *event_pieces(event, self._kinds, room)]
