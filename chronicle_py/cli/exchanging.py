"""Commands that exchange whole histories with files: import, export."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from chronicle_py.cli import output
from chronicle_py.cli.app import app
from chronicle_py.cli.options import DEFAULT_STORE, Json, StorePath, reading, writing
from chronicle_py.exchange import Imported, export_lines

SECTION = "Exchange"


@app.command("import", rich_help_panel=SECTION)
def import_(
    file: Annotated[str, typer.Argument(metavar="FILE", help='The file; "-" is the standard input.')],
    store: StorePath = DEFAULT_STORE,
    format: Annotated[
        str | None,
        typer.Option(
            "--format", "-f", metavar="FORM", help="export, claude-code, chatgpt, anthropic, openai or swe-agent.",
            show_default="by its contents",
        ),
    ] = None,
    branch: Annotated[
        str | None,
        typer.Option(
            "--branch", "-b", metavar="NAME", help="Where a conversation's current path goes.", show_default="main"
        ),
    ] = None,
    prefix: Annotated[str, typer.Option("--prefix", help="Put before the names of an export's branches.")] = "",
    strict: Annotated[bool, typer.Option("--strict", help="Refuse a conversation with bad records.")] = False,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave bad records of an export out and go on.")] = False,
    json: Json = False,
) -> None:  # fmt: skip
    """Imports a conversation of another program, with all its branches, or an export.

    In one transaction; the store is made where there is none. Known by their contents are: a Claude Code session (JSON
    Lines), a ChatGPT export (conversations.json or the zip), messages as Anthropic or OpenAI have them (a list, or an
    object with "messages"), a SWE-agent trajectory ("history"), and an export of chronicle. Importing a file again adds
    nothing. Bad records of a conversation are named and left out; an export with any is refused.

    \b
    chronicle import session.jsonl
    chronicle import conversations.zip
    chronicle import run.traj -b second-run
    chronicle import backup.jsonl --prefix old/
    curl … | chronicle import -
    """
    if file != "-":
        Path(file).open("rb").close()  # a mistyped name should not leave a store behind
    from chronicle_py.context.importers import import_file

    with writing(store, create=True) as opened, output.progress("importing") as report:
        source = sys.stdin.buffer if file == "-" else file
        done = import_file(
            opened,
            source,
            format=format,
            branch=branch,
            prefix=prefix,
            strict=strict,
            skip_bad=skip_bad,
            progress=report,
        )
    if json:
        output.print_json(msgspec.to_builtins(done))
        return
    for line in _told(done):
        output.say(line)


def _told(done: Imported) -> Iterable[str]:
    thing = "new event" if done.current is None else "new message"
    known = f", {done.known:,} were there already" if done.known else ""
    yield f"imported: {done.form}, {output.count(done.events, thing)}{known}"
    for number, thing in ((done.slots, "new slot"), (done.blobs, "new blob")):
        if number:
            yield f"  {output.count(number, thing)}"
    words = {"new": "is new", "moved": "moved", "same": "is as it was", "behind": "is further here and was left alone"}
    for name, outcome in done.branches.items():
        current = " (current)" if name == done.current and len(done.branches) > 1 else ""
        yield f"  branch {name} {words[outcome]}{current}"
    for fault in done.faults:
        yield f"  bad record, {fault}"


@app.command(rich_help_panel=SECTION)
def export(
    store: StorePath = DEFAULT_STORE,
    branches: Annotated[
        list[str] | None,
        typer.Option("--branch", "-b", metavar="NAME", help="Only this branch. Repeatable.", show_default="all"),
    ] = None,
    to: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Where to.", show_default="stdout")
    ] = None,
) -> None:
    """Writes branches as JSON Lines.

    With their events, slots and blobs; `chronicle import` reads them back with the same ids.

    \b
    chronicle export -o backup.jsonl
    chronicle export -b other | gzip > other.jsonl.gz
    """
    with reading(store) as opened, output.progress("exporting") as report:
        lines = export_lines(opened, branches or None, progress=report)
        if to is None or to == "-":
            sys.stdout.flush()
            sys.stdout.buffer.writelines(lines)
            sys.stdout.buffer.flush()
        else:
            _write(Path(to), lines)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _write(path: Path, lines: Iterable[bytes]) -> None:
    """Writes a file that appears only when it is complete."""
    if path.exists() and not path.is_file():  # a device or a pipe
        with path.open("wb") as file:
            file.writelines(lines)
        return
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(unfinished, "wb", opener=_private) as file:
            file.writelines(lines)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
