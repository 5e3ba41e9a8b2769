"""Commands that read the log: log, show, reflog."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any

import typer

from chronicle_py import Branch, Event, Store
from chronicle_py.cli import graph, output, preview
from chronicle_py.cli.app import app
from chronicle_py.cli.options import (
    DEFAULT_STORE,
    At,
    BranchName,
    Json,
    Place,
    StorePath,
    optional_place,
    place,
    reading,
)

SECTION = "Looking"
_LIMIT, _LIMIT_OF_ALL = 20, 6
_MOST_BRANCHES = 50
PREVIEW = 100  # characters, off a terminal


@app.command(rich_help_panel=SECTION)
def log(
    store: StorePath = DEFAULT_STORE,
    branch: BranchName = "main",
    everything: Annotated[bool, typer.Option("--all", "-a", help="All branches, as a graph.")] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", "-n", min=0, metavar="N", help="How many events, 0 for all; of each stretch with --all.",
            show_default="20, with --all 6",
        ),
    ] = None,
    at: At = None,
    types: Annotated[list[str] | None, typer.Option("--type", help="Only events of this type. Repeatable.")] = None,
    slot: Annotated[str | None, typer.Option("--slot", help="Only operations on this slot.")] = None,
    json: Json = False,
) -> None:  # fmt: skip
    """Shows events, newest first.

    Names in parentheses are branches whose head is there; ⑂ names branches that were forked there.

    \b
    chronicle log                       the newest 20 events of main
    chronicle log -b other --at 12      what other had at sequence 12, and before
    chronicle log --all                 all branches, and where they part
    chronicle log --type note --limit 0 --json
    """
    if everything and (at is not None or types or slot is not None):
        raise typer.BadParameter("--all shows whole branches and goes with neither --at, --type nor --slot")
    most = (_LIMIT_OF_ALL if everything else _LIMIT) if limit is None else limit or None
    with reading(store) as opened:
        view = _Log(opened, json, everything)
        if everything:
            view.show(view.all_branches(most))
        elif types or slot is not None:
            view.show(view.matching(opened.branch(branch), at, types, slot, most))
        else:
            view.show(view.one_branch(opened.branch(branch), at, most))


class _Log:
    """What `log` prints, row by row."""

    def __init__(self, store: Store, json: bool, drawn: bool) -> None:
        self._store = store
        self._drawn_forks = drawn
        self._json = json
        self._kinds = {slot.id: slot.kind for slot in store.slots()}
        self._infos = store.branches()
        self._heads: dict[str, list[str]] = {}
        for info in self._infos:
            if info.head is not None:
                self._heads.setdefault(info.head, []).append(info.name)
        self._digits = len(str(max(info.seq for info in self._infos)))

    # --- what is shown: pairs of a graph and an event, or a remark ---

    def one_branch(self, branch: Branch, at: str | None, limit: int | None) -> Iterator[tuple[str, Event | str]]:
        where = optional_place(branch, at)
        top = branch.seq if where is None else where if where == 0 else branch.event(where).seq
        trunk = graph.Limb(branch.name, 0, top)
        trunk.marks.clear()
        yield from self._drawn(trunk, limit)

    def matching(
        self, branch: Branch, at: str | None, types: list[str] | None, slot: str | None, limit: int | None
    ) -> Iterator[tuple[str, Event | str]]:
        where = optional_place(branch, at)
        stop = None if where is None else where if where == 0 else branch.event(where).seq
        found = branch.events(stop=stop, types=types or None, slot=slot, reverse=True, limit=limit)
        yield from ((graph.NODE, event) for event in found)

    def all_branches(self, limit: int | None) -> Iterator[tuple[str, Event | str]]:
        newest = sorted(self._infos, key=lambda info: (info.name != "main", -(info.time or 0), info.name))
        branches = {info.name: self._store.branch(info.name) for info in newest[:_MOST_BRANCHES]}
        tips = [graph.Tip(info.name, info.seq) for info in newest[:_MOST_BRANCHES]]
        trunks = graph.limbs(tips, lambda name, seq: branches[name].event(seq).id)
        for number, trunk in enumerate(trunks):
            if number:
                yield "", ""
            yield from self._drawn(trunk, limit)
        empty = [tip.name for tip in tips if not tip.seq]
        if empty:
            yield "", f"empty: {', '.join(empty)}"
        if len(newest) > _MOST_BRANCHES:
            yield (
                "",
                f"{output.count(len(newest) - _MOST_BRANCHES, 'older branch')} not drawn; see `chronicle branches`",
            )

    def _drawn(self, trunk: graph.Limb, limit: int | None) -> Iterator[tuple[str, Event | str]]:
        for row in graph.rows(trunk, limit):
            if row.kind == graph.NODE:
                branch = self._store.branch(row.branch)
                for event in branch.events(start=row.last, stop=row.first, reverse=True):
                    yield row.graph, event
            elif row.kind == graph.GAP:
                yield row.graph, f"{row.first - row.last + 1:,} more"
            else:
                yield row.graph, ""

    # --- how it is shown ---

    def show(self, rows: Iterable[tuple[str, Event | str]]) -> None:
        if self._json:
            output.print_json_array(self._as_json(what) for _, what in rows if isinstance(what, Event))
            return
        empty = True
        write = output.line_writer()
        width = output.terminal_width()
        for drawn, what in rows:
            write(*self._pieces(drawn, what, width))
            empty = False
        if empty:
            output.say("no events")

    def _as_json(self, event: Event) -> dict[str, Any]:
        return {**output.event_json(event), "heads": self._heads.get(event.id, [])}

    def _pieces(self, drawn: str, what: Event | str, width: int | None) -> list[output.Piece]:
        if not can_print(drawn):
            drawn = drawn.translate(graph.ASCII)
        if isinstance(what, str):
            return [(drawn, "yellow"), " " if drawn else "", (what, "dim")]
        seq = f" {what.seq:>{self._digits}} "
        names = self._names(what)
        used = len(drawn) + len(seq) + 11 + len(names)
        room = PREVIEW if width is None else max(20, width - used - 1)
        return [(drawn, "yellow"), (seq, "cyan"), *event_pieces(what, self._kinds, room), (names, "green")]

    def _names(self, event: Event) -> str:
        heads = self._heads.get(event.id, [])
        forks = [] if self._drawn_forks else [name for name in self._forks_at(event) if name not in heads]
        return (f" ({', '.join(heads)})" if heads else "") + (f" ⑂ {', '.join(forks)}" if forks else "")

    def _forks_at(self, event: Event) -> list[str]:
        return [
            info.name
            for info in self._infos
            if info.parent is not None and info.fork_seq == event.seq <= info.seq
            if self._store.branch(info.name).event(event.seq).id == event.id
        ]


def event_pieces(event: Event, kinds: Mapping[str, str], room: int) -> list[output.Piece]:
    """An event's id, and what it did in at most `room` characters."""
    role, colon, rest = preview.event_line(event, kinds, room).partition(":")
    bold = "bold" if colon and " " not in role else ""
    return [(output.short(event.id), "dim"), " ", (role, bold), colon + rest]


def can_print(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


@app.command(rich_help_panel=SECTION)
def show(
    where: Place,
    store: StorePath = DEFAULT_STORE,
    branch: BranchName = "main",
    json: Json = False,
) -> None:
    """Shows one event in full.

    By its sequence on a branch, or by the start of its id, on whatever branch it is.

    \b
    chronicle show 3
    chronicle show 3f9a2c --json
    """
    with reading(store) as opened:
        found = place(opened.branch(branch), where)
        event = opened.event(found) if isinstance(found, str) else opened.branch(branch).event(found)
        effects = [effect.id for effect in opened.effects(event)]
        links = [link.id for link in opened.links(event)]
    if json:
        output.print_json({**output.event_json(event), "effects": effects, "linked_from": links})
        return
    rows: list[tuple[str, object]] = [
        ("event", event.id),
        ("sequence", event.seq),
        ("type", preview.clean(event.type)),
        ("slot", "-" if event.slot is None else preview.clean(event.slot)),
        ("time", output.when(event.time)),
        ("parent", ", ".join(event.parents) or "-"),
    ]
    for name, ids in (
        ("caused by", event.caused_by), ("linked to", event.linked_to), ("effects", effects), ("linked from", links),
        ("blobs", event.blobs),
    ):  # fmt: skip
        if ids:
            rows.append((name, ", ".join(ids)))
    if event.erased is not None:
        rows.append(("erased", f"{preview.clean(event.erased.reason)} ({output.when(event.erased.time)})"))
    for name, value in rows:
        output.say(f"{name:<11} {value}")
    if event.erased is not None:
        return
    output.say("")
    output.say(output.pretty(output.event_json(event)["payload"]))


@app.command(rich_help_panel=SECTION)
def reflog(
    store: StorePath = DEFAULT_STORE,
    branch: BranchName = "main",
    json: Json = False,
) -> None:
    """Shows what became of a branch.

    Forks, rewinds, deletions, restorations; also of a deleted one. An id under `before` can be given to
    `chronicle rewind`, to go back to where the branch was.

    \b
    chronicle reflog -b other
    """
    with reading(store) as opened:
        moves = Branch(opened._engine, branch).reflog()
    if json:
        output.print_json(
            [
                {
                    "number": m.number,
                    "kind": m.kind,
                    "time": m.time,
                    "before": head_json(m.before),
                    "after": head_json(m.after),
                }
                for m in moves
            ]
        )  # fmt: skip
        return
    output.table(
        ("#", "what", "time", "before", "after"),
        [(m.number, m.kind, output.when(m.time), head_text(m.before), head_text(m.after)) for m in moves],
        right=("#",),
    )


def head_json(head: tuple[int, str] | None) -> dict[str, Any] | None:
    return None if head is None else {"seq": head[0], "id": head[1] or None}


def head_text(head: tuple[int, str] | None) -> str:
    return "-" if head is None else "empty" if not head[0] else f"{head[0]} {output.short(head[1])}"
