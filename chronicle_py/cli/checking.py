"""Commands about a store as a whole: init, stats, verify."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

import chronicle_py
from chronicle_py.cli import output
from chronicle_py.cli.app import Failure, app
from chronicle_py.cli.options import DEFAULT_STORE, Json, StorePath, exists, must_exist, reading, writing
from chronicle_py.cli.reducers_at_hand import load_reducers
from chronicle_py.deep_stats import DeepStats

SECTION = "The store"


@app.command(rich_help_panel=SECTION)
def init(store: StorePath = DEFAULT_STORE, json: Json = False) -> None:
    """Makes an empty store.

    It has the branch main. A store that is there already is left as it is.

    \b
    chronicle init
    chronicle init --store data/          a folder
    """
    there = exists(store)
    with writing(store, create=True) as opened:
        path, id = opened.path, opened.stats().store
    if json:
        output.print_json({"path": path, "store": id, "created": not there})
    else:
        output.say(f"{'there is a store already' if there else 'made a store'}: {path}")


@app.command(rich_help_panel=SECTION)
def stats(
    store: StorePath = DEFAULT_STORE,
    deep: Annotated[bool, typer.Option("--deep", help="Also read all objects: bytes of states and blobs.")] = False,
    json: Json = False,
) -> None:
    """Shows figures of the store: events, branches, bytes.

    With --deep also how much of the objects are blobs, and what each slot's checkpoint rewrites.

    \b
    chronicle stats --json
    chronicle stats --deep
    """
    with reading(store) as opened:
        found = opened.stats(deep=deep)
    if json:
        figures = msgspec.to_builtins(found)
        if not deep:
            del figures["deep"]
        output.print_json(figures)
        return
    for name, value in (
        ("path", found.path), ("store", found.store), ("format", found.format), ("events", f"{found.events:,}"),
        ("branches", f"{found.branches:,}"), ("slots", f"{found.slots:,}"), ("lineages", f"{found.lineages:,}"),
        ("objects", f"{found.objects:,}"), ("file", output.size(found.file_bytes)),
        ("free in it", output.size(found.free_bytes)),
    ):  # fmt: skip
        output.say(f"{name:<11} {value}")
    output.say("")
    output.table(
        ("keyspace", "entries", "size"),
        [(name, f"{space['entries']:,}", output.size(space["bytes"])) for name, space in found.keyspaces.items()],
        right=("entries", "size"),
    )
    if found.deep is not None:
        _say_deep(found.deep)


def _say_deep(deep: DeepStats) -> None:
    output.say("")
    output.say(f"{'nodes':<11} {deep.nodes:,}, {output.size(deep.node_bytes)}")
    output.say(f"{'blobs':<11} {deep.blobs:,}, {output.size(deep.blob_bytes)}")
    if deep.slots:
        output.say("")
        output.table(
            ("slot", "checkpoint", "plain fields"),
            [(id, output.size(slot.checkpoint), output.size(slot.plain)) for id, slot in deep.slots.items()],
            right=("checkpoint", "plain fields"),
        )


@app.command(rich_help_panel=SECTION)
def verify(
    store: StorePath = DEFAULT_STORE,
    deep: Annotated[
        bool, typer.Option("--deep", help="Also fold every slot anew and compare every checkpoint.")
    ] = False,
    json: Json = False,
) -> None:
    """Checks all that is stored, first the pages of the file, which may be damaged anyhow.

    Names what is wrong and where, and exits with 1 if anything is; `chronicle salvage` saves what is not.

    \b
    chronicle verify
    chronicle verify --deep --json
    """
    must_exist(store)
    with output.progress("verifying") as report:
        found = chronicle_py.verify_file(store, deep, report, load_reducers if deep else None)
    problems = [{"where": problem.where, "what": problem.what} for problem in found.problems]
    if json:
        output.print_json({"ok": found.ok, "deep": deep, "checked": found.checked, "problems": problems})
    else:
        checked = ", ".join(f"{number:,} {name}" for name, number in found.checked.items() if number)
        output.say(f"checked: {checked or 'an empty store'}")
        if found.problems:
            output.table(("where", "what is wrong"), [(p["where"], p["what"]) for p in problems])
        else:
            output.say("ok: everything agrees")
    if problems:
        raise Failure(f"{output.count(len(problems), 'problem')} found in {store}, first: {problems[0]['where']}")
