"""Commands about slots: slots, state, diff, replay."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Any

import msgspec
import typer

from chronicle_py import Branch, IndexView, LogView, NotFound, Replay, SlotInfo, Store, TreeView
from chronicle_py.cli import output, preview
from chronicle_py.cli.app import Failure, app
from chronicle_py.cli.conversation import listed, message_json
from chronicle_py.cli.message_slots import change_json, change_line, differing, is_messages, messages_at
from chronicle_py.cli.options import (
    DEFAULT_STORE,
    At,
    BranchName,
    Json,
    StorePath,
    json_argument,
    optional_place,
    place,
    reading,
    writing,
)  # fmt: skip
from chronicle_py.cli.reducers_at_hand import load_reducers
from chronicle_py.event import decode_payload

SECTION = "State"
_LIMIT = 20
_PREVIEW = 120

SlotId = Annotated[str, typer.Argument(metavar="SLOT", help="The slot's id.")]


@app.command(rich_help_panel=SECTION)
def slots(
    store: StorePath = DEFAULT_STORE,
    add: Annotated[str | None, typer.Option("--add", metavar="SLOT", help="Register this slot.")] = None,
    kind: Annotated[str | None, typer.Option("--kind", help="Its kind: value, append_log, tree or document.")] = None,
    types: Annotated[list[str] | None, typer.Option("--type", help="It follows events of this type too.")] = None,
    sources: Annotated[list[str] | None, typer.Option("--source", help="It follows this slot's events too.")] = None,
    initial: Annotated[
        str | None, typer.Option("--initial", metavar="JSON", help="Its state before any event.")
    ] = None,
    json: Json = False,
) -> None:
    """Lists the slots, the named pieces of state; or adds one.

    A slot is registered for good; the same again changes nothing.

    \b
    chronicle slots
    chronicle slots --add summary --kind value
    chronicle slots --add notes --kind append_log --type note
    """
    if add is None:
        if kind is not None or types or sources or initial is not None:
            raise typer.BadParameter("--kind, --type, --source and --initial go with --add SLOT")
        with reading(store) as opened:
            load_reducers(opened)
            found = opened.slots()
    else:
        if kind is None:
            raise typer.BadParameter("--add takes a kind, as in --kind append_log", param_hint="--kind")
        start = None if initial is None else decode_payload(json_argument(initial))
        with writing(store) as opened:
            opened.register_state(add, kind=kind, types=types or (), sources=sources or (), initial=start)
            found = [slot for slot in opened.slots() if slot.id == add]
    if json:
        output.print_json([msgspec.structs.asdict(slot) for slot in found])
    elif not found:
        output.say("no slots; `chronicle slots --add SLOT --kind KIND` makes one")
    else:
        output.table(("slot", "kind", "also follows", "readable here"), map(_slot_row, found))


def _slot_row(slot: SlotInfo) -> tuple[str, ...]:
    followed = [*slot.types, *(f"slot {source}" for source in slot.sources)]
    return (
        slot.id,
        slot.kind if slot.reducer is None else f"{slot.reducer} version {slot.version}",
        ", ".join(followed) or "-",
        "yes" if slot.loaded else "no, its reducer is not loaded",
    )


# --- state ----------------------------------------------------------------------------------------------------------


@app.command(rich_help_panel=SECTION)
def state(
    slot: SlotId,
    store: StorePath = DEFAULT_STORE,
    branch: BranchName = "main",
    at: At = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", "-n", min=0, metavar="N", help="The newest N items, the first N paths; 0 for all.",
            show_default="20, with --json all",
        ),
    ] = None,
    json: Json = False,
) -> None:  # fmt: skip
    """Shows a slot at a branch's head, or at any place.

    \b
    chronicle state context/messages
    chronicle state context/messages --at 6 -b other
    chronicle state summary --json
    """
    most = (None if json else _LIMIT) if limit is None else limit or None
    with reading(store) as opened:
        load_reducers(opened)
        kind = _kind(opened, slot)
        source = opened.branch(branch)
        where = optional_place(source, at)
        view = source.state(slot, at=source.seq if where is None else where)
        said = messages_at(opened, source, slot, view.seq, most) if is_messages(opened, slot) else None
        if json:
            value = _value(view, most) if said is None else [message_json(message) for message in said]
            found: dict[str, Any] = {"slot": slot, "kind": kind, "branch": branch, "seq": view.seq, "hash": view.hash}
            if isinstance(view, LogView | TreeView):
                found["length"] = len(view)
            output.print_json({**found, "value": value})
            return
        things = {"append_log": "item", "tree": "path", "messages": "message"}.get(kind)
        length = len(view.get().entries) if said is not None else 0 if things is None else len(view)
        size = "" if things is None else f", {output.count(length, things)}"
        output.say(f"{slot} ({kind}) on {branch} at {view.seq}{size}, hash {output.short(view.hash)}")
        for line in _lines(view, most) if said is None else map(listed, said):
            output.say(line)


def _kind(store: Store, slot: str) -> str:
    for found in store.slots():
        if found.id == slot:
            return found.kind if found.reducer is None else found.reducer
    known = ", ".join(found.id for found in store.slots()[:8]) or "none"
    raise NotFound(f"there is no slot {slot!r} in this store (there are: {known})")


def _value(view: Any, limit: int | None) -> Any:
    """The state as plain data."""
    if isinstance(view, TreeView):
        return dict(islice(view.items(), limit))
    if isinstance(view, LogView):
        return list(view) if limit is None else view.tail(limit)
    if isinstance(view, IndexView):
        return [{"value": value, "count": count} for value, count in islice(view.counts(), limit)]
    return view.get()


def _lines(view: Any, limit: int | None) -> Iterator[str]:
    width = (output.terminal_width() or _PREVIEW + 8) - 8
    if isinstance(view, TreeView):
        for path, value in islice(view.items(), limit):
            yield preview.cut(f"{preview.clean(path)} = {preview.compact(value)}", width)
        if limit is not None and len(view) > limit:
            yield f"⋮ {len(view) - limit:,} more; --limit 0 shows all"
    elif isinstance(view, LogView):
        first = 0 if limit is None else max(0, len(view) - limit)
        if first:
            yield f"⋮ {first:,} earlier; --limit 0 shows all"
        digits = len(str(len(view)))
        for index, item in enumerate(view if limit is None else view.tail(limit), first):
            yield f"{index:>{digits}} {preview.item_line(item, width)}"
    elif isinstance(view, IndexView):
        for value, count in islice(view.counts(), limit):
            yield preview.cut(f"{count:,} × {preview.compact(value)}", width)
    else:
        yield output.pretty(view.get())


# --- diff -----------------------------------------------------------------------------------------------------------


@app.command(rich_help_panel=SECTION)
def diff(
    slot: SlotId,
    before: Annotated[str, typer.Argument(metavar="A", help="A place on --branch, or a branch.")],
    after: Annotated[str, typer.Argument(metavar="B", help="The same.")],
    store: StorePath = DEFAULT_STORE,
    branch: BranchName = "main",
    json: Json = False,
) -> None:
    """Shows what changed in a slot from A to B.

    A number is a sequence of --branch, a branch's name is that branch's head, anything else the start of an id.

    \b
    chronicle diff context/messages 6 12         between two places of main
    chronicle diff context/messages main other   between two branches
    """
    with reading(store) as opened:
        load_reducers(opened)
        base = opened.branch(branch)
        names = {info.name for info in opened.branches()}
        sides = _side(opened, base, names, before), _side(opened, base, names, after)
        if is_messages(opened, slot):
            _show_messages([_messages(opened, base, slot, side) for side in sides], json)
            return
        changes = base.diff(slot, *sides)
    if json:
        output.print_json([{"op": c.op, "path": c.path, "before": c.before, "after": c.after} for c in changes])
        return
    width = (output.terminal_width() or _PREVIEW + 8) - 2
    write = output.line_writer()
    for change in changes:
        text, style = _change(change)
        write((preview.cut(text, width), style))
    if not changes:
        output.say("no difference")


def _messages(store: Store, base: Branch, slot: str, side: int | str | Branch) -> list[Any]:
    if isinstance(side, Branch):
        return messages_at(store, side, slot)
    return messages_at(store, base, slot, side)


def _show_messages(sides: list[list[Any]], json: bool) -> None:
    changes = list(differing(*sides))
    if json:
        output.print_json([change_json(change) for change in changes])
        return
    width = (output.terminal_width() or _PREVIEW + 8) - 2
    write = output.line_writer()
    for change in changes:
        text, style = change_line(change)
        write((preview.cut(text, width), style))
    if not changes:
        output.say("no difference")


def _side(store: Store, base: Branch, names: set[str], text: str) -> int | str | Branch:
    if text in names and not (text.isascii() and text.isdigit()):
        return store.branch(text)
    return place(base, text)


def _change(change: Any) -> tuple[str, str]:
    path = change.path
    where = f"[{path}]" if isinstance(path, int) else preview.clean(path) if isinstance(path, str) else ""
    if isinstance(path, tuple):
        where = ".".join(preview.clean(str(part)) for part in path)
    where = f"{where} " if where else ""
    if change.op == "add":
        return f"+ {where}{preview.item_line(change.after)}", "green"
    if change.op == "remove":
        return f"- {where}{preview.item_line(change.before)}", "red"
    old, new = preview.cut(preview.item_line(change.before), 48), preview.item_line(change.after)
    return f"~ {where}{old} ⇒ {new}", "yellow"


# --- replay ---------------------------------------------------------------------------------------------------------


@app.command(rich_help_panel=SECTION)
def replay(
    slot: Annotated[str | None, typer.Argument(metavar="[SLOT]", help="The slot; without it, all that can be.")] = None,
    store: StorePath = DEFAULT_STORE,
    branch: BranchName = "main",
    json: Json = False,
) -> None:
    """Folds slots anew, from the first event on.

    Compares the hash of the result with that of the stored state, and exits with 1 if they differ.

    \b
    chronicle replay
    chronicle replay context/messages -b other --json
    """
    with reading(store) as opened:
        load_reducers(opened)
        target = opened.branch(branch)
        wanted = [found.id for found in opened.slots() if found.loaded] if slot is None else [slot]
        results = []
        for id in wanted:
            with output.progress(f"replaying {id}") as report:
                results.append(target.replay(id, progress=report))
    if json:
        output.print_json([_replay_json(result) for result in results])
    else:
        for result in results:
            verdict = "equals" if result.equal else f"DIFFERS from {output.short(result.stored_hash)},"
            output.say(
                f"{result.slot}: {output.count(result.events, 'event')} in {result.seconds:.3f} s, "
                f"{result.events_per_second:,.0f} events/s; hash {output.short(result.hash)} {verdict} the stored one"
            )
        if not results:
            output.say("no slots to replay")
    wrong = [result.slot for result in results if not result.equal]
    if wrong:
        raise Failure(
            f"replay gives another state than the stored one: {', '.join(wrong)}; see `chronicle verify --deep`"
        )


def _replay_json(result: Replay) -> dict[str, Any]:
    return {
        **msgspec.structs.asdict(result),
        "equal": result.equal,
        "events_per_second": round(result.events_per_second),
    }
