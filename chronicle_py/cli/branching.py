"""Commands about branches: branches, fork, orphan, rewind, delete-branch, restore-branch."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from chronicle_py import Branch
from chronicle_py.cli import output
from chronicle_py.cli.app import app
from chronicle_py.cli.options import (
    DEFAULT_STORE,
    At,
    BranchName,
    Json,
    StorePath,
    optional_place,
    place,
    reading,
    writing,
)

SECTION = "Branches"
NewName = Annotated[str, typer.Argument(metavar="NAME", help="The branch.")]


def _tell(branch: Branch, what: str, json: bool) -> None:
    """Prints where a branch is now."""
    seq, head = branch.seq, branch.head
    if json:
        output.print_json({"branch": branch.name, "seq": seq, "head": head})
    else:
        output.say(f"{what}: {branch.name} is " + (f"at {seq} {output.short(head)}" if seq else "empty"))


@app.command(rich_help_panel=SECTION)
def branches(store: StorePath = DEFAULT_STORE, json: Json = False) -> None:
    """Lists the branches, with their heads and fork points.

    \b
    chronicle branches --json
    """
    with reading(store) as opened:
        infos = opened.branches()
    if json:
        output.print_json([msgspec.structs.asdict(info) for info in infos])
        return
    output.table(
        ("branch", "sequence", "head", "newest", "forked from"),
        [
            (
                info.name, info.seq, output.short(info.head), output.when(info.time),
                "-" if info.parent is None else f"{info.parent} at {info.fork_seq}",
            )
            for info in infos
        ],
        right=("sequence",),
    )  # fmt: skip


@app.command(rich_help_panel=SECTION)
def fork(
    name: NewName, store: StorePath = DEFAULT_STORE, branch: BranchName = "main", at: At = None, json: Json = False
) -> None:
    """Makes a branch that shares the events of another.

    Up to its head, or to a place on it. Copies nothing, and costs the same at any size.

    \b
    chronicle fork other --at 6          shares events 1 to 6 of main
    chronicle fork third -b other        shares all that other has
    """
    with writing(store) as opened:
        source = opened.branch(branch)
        _tell(source.fork(name, at=optional_place(source, at)), "forked", json)


@app.command(rich_help_panel=SECTION)
def orphan(name: NewName, store: StorePath = DEFAULT_STORE, json: Json = False) -> None:
    """Makes a branch without any history.

    \b
    chronicle orphan second-run
    chronicle import second.traj -b second-run
    """
    with writing(store) as opened:
        _tell(opened.orphan(name), "made", json)


@app.command(rich_help_panel=SECTION)
def rewind(
    where: Annotated[
        str, typer.Argument(metavar="PLACE", help="A sequence, or the start of an id; of the reflog too.")
    ],
    store: StorePath = DEFAULT_STORE,
    branch: BranchName = "main",
    json: Json = False,
) -> None:
    """Sets a branch back to a place.

    Or forward again, to an event of its reflog: events are never lost.

    \b
    chronicle rewind 6 -b other          its head is event 6 now
    chronicle reflog -b other            shows where it was
    chronicle rewind 3f9a2c -b other     and there it is again
    """
    with writing(store) as opened:
        target = opened.branch(branch)
        target.rewind(place(target, where))
        _tell(target, "rewound", json)


@app.command("delete-branch", rich_help_panel=SECTION)
def delete_branch(name: NewName, store: StorePath = DEFAULT_STORE, json: Json = False) -> None:
    """Removes a branch's name. Its events stay, and restore-branch brings it back.

    \b
    chronicle delete-branch other
    """
    with writing(store) as opened:
        opened.delete_branch(name)
    if json:
        output.print_json({"branch": name, "deleted": True})
    else:
        output.say(f"deleted: {name}; `chronicle restore-branch {name}` brings it back")


@app.command("restore-branch", rich_help_panel=SECTION)
def restore_branch(name: NewName, store: StorePath = DEFAULT_STORE, json: Json = False) -> None:
    """Brings back a deleted branch with the head it had.

    \b
    chronicle restore-branch other
    """
    with writing(store) as opened:
        _tell(opened.restore_branch(name), "restored", json)
