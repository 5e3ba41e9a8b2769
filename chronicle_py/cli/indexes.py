"""Commands about indexes: index, indexes, find."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Annotated, Any, Final

import msgspec
import typer

from chronicle_py import IndexInfo, IndexView, LogView, NotFound, TreeView
from chronicle_py.cli import output, preview
from chronicle_py.cli.app import app
from chronicle_py.cli.options import (
    DEFAULT_STORE,
    At,
    BranchName,
    Json,
    StorePath,
    json_argument,
    optional_place,
    reading,
    writing,
)
from chronicle_py.event import decode_payload

SECTION: Final = "State"
_LIMIT: Final = 20
_PREVIEW: Final = 120

SlotId = Annotated[str, typer.Argument(metavar="SLOT", help="The slot's id.")]
Path = Annotated[
    str,
    typer.Argument(
        metavar="PATH", help='Where the value is: names between dots; a JSON array where names hold dots; "" the whole.'
    ),
]


def _path(text: str) -> Any:
    """A path as the library takes it."""
    return decode_payload(json_argument(text)) if text.startswith("[") else text


@app.command(rich_help_panel=SECTION)
def index(slot: SlotId, path: Path, store: StorePath = DEFAULT_STORE, json: Json = False) -> None:
    """Registers an index of a slot by the value at a path, and builds it.

    The slot is an append_log or a tree. An index is registered for good, holds on every branch and at every place, and
    is kept as events come; the same again changes nothing.

    \b
    chronicle index notes kind
    chronicle index files meta.size
    """
    with writing(store) as opened:
        with output.progress(f"indexing {slot} by {path}") as report:
            opened.register_index(slot, _path(path), progress=report)
        view = opened.branch().state(slot).where(_path(path))
        found = {"slot": slot, "path": _path(path), "indexed": len(view), "unindexed": view.unindexed}
    if json:
        output.print_json(found)
    else:
        output.say(f"index of {slot} by {path}: {len_text(found)} on main")


def len_text(found: dict[str, Any]) -> str:
    """How many are in an index, and how many are not."""
    return f"{output.count(found['indexed'], 'value')}, {found['unindexed']:,} without one"


@app.command(rich_help_panel=SECTION)
def indexes(store: StorePath = DEFAULT_STORE, json: Json = False) -> None:
    """Lists the indexes.

    \b
    chronicle indexes
    """
    with reading(store) as opened:
        found = opened.indexes()
    if json:
        output.print_json([msgspec.structs.asdict(info) for info in found])
    elif not found:
        output.say("no indexes; `chronicle index SLOT PATH` makes one")
    else:
        output.table(("slot", "path", "of"), map(_row, found))


def _row(info: IndexInfo) -> tuple[str, ...]:
    what = "items" if info.kind == "append_log" else "values"
    return info.slot, ".".join(info.path) or '""', f"the {what} of a {info.kind.replace('append_log', 'log')}"


@app.command(rich_help_panel=SECTION)
def find(
    slot: SlotId,
    path: Path,
    equal: Annotated[str | None, typer.Option("--equal", metavar="JSON", help="The value is this.")] = None,
    low: Annotated[str | None, typer.Option("--from", metavar="JSON", help="It is at least this.")] = None,
    high: Annotated[str | None, typer.Option("--to", metavar="JSON", help="It is at most this.")] = None,
    prefix: Annotated[str | None, typer.Option("--prefix", metavar="TEXT", help="It begins with this text.")] = None,
    counts: Annotated[bool, typer.Option("--counts", help="The values, and how many have each.")] = False,
    reverse: Annotated[bool, typer.Option("--reverse", help="The greatest value first.")] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", "-n", min=0, metavar="N", help="The first N; 0 for all.", show_default="20, with --json all"
        ),
    ] = None,
    store: StorePath = DEFAULT_STORE,
    branch: BranchName = "main",
    at: At = None,
    json: Json = False,
) -> None:
    """Finds items of a log, or paths of a tree, by the value at a path, in the order of the values.

    The slot has an index by that path, which `chronicle index` makes. --from and --to are a range; with neither of the
    options all is shown.

    \b
    chronicle find notes kind --equal '"idea"'
    chronicle find notes kind --counts
    chronicle find files meta.size --from 1000 --at 12
    """
    ranged = low is not None or high is not None
    if sum((equal is not None, ranged, prefix is not None, counts)) > 1:
        raise typer.BadParameter("ask one thing: --equal, --from and --to, --prefix, or --counts")
    most = (None if json else _LIMIT) if limit is None else limit or None
    with reading(store) as opened:
        source = opened.branch(branch)
        where = optional_place(source, at)
        state = source.state(slot, at=source.seq if where is None else where)
        if not isinstance(state, LogView | TreeView):
            raise NotFound(
                f"slot {slot!r} has no index: those are of the items of an append_log, or of a tree's values"
            )
        view = state.where(_path(path))
        head: dict[str, Any] = {"slot": slot, "path": _path(path), "branch": branch, "seq": view.seq}
        if counts:
            _show_counts(view, head, most, reverse, json)
            return
        if equal is not None:
            found = view.equal(_value(equal), reverse=reverse)
        elif prefix is not None:
            found = view.prefix(prefix, reverse=reverse)
        else:
            found = view.range(_value(low), _value(high), reverse=reverse)
        rows = islice(found.items(), most)
        if json:
            matches = [{"at": place, "item": item} for place, item in rows]
            output.print_json({**head, "found": len(found), "matches": matches})
            return
        output.say(f"{slot} by {path} on {branch} at {view.seq}: {output.count(len(found), 'match')}")
        _show(rows, len(found), most)


def _value(text: str | None) -> Any:
    return None if text is None else decode_payload(json_argument(text))


def _show(rows: Iterable[tuple[Any, Any]], total: int, most: int | None) -> None:
    width = (output.terminal_width() or _PREVIEW + 8) - 8
    for place, item in rows:
        where = str(place) if isinstance(place, int) else preview.clean(place)
        output.say(preview.cut(f"{where} {preview.item_line(item, width)}", width + 8))
    if most is not None and total > most:
        output.say(f"⋮ {total - most:,} more; --limit 0 shows all")


def _show_counts(view: IndexView, head: dict[str, Any], most: int | None, reverse: bool, json: bool) -> None:
    rows: Iterator[tuple[Any, int]] = islice(view.counts(reverse=reverse), most)
    if json:
        output.print_json({**head, "counts": [{"value": value, "count": count} for value, count in rows]})
        return
    output.table(("count", "value"), ((f"{count:,}", preview.compact(value)) for value, count in rows), ("count",))
