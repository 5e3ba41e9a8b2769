"""`python -m bench`: measures, and prints the table."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from bench import append, conversation, memory, read, size, state
from bench.figure import FIGURES, Registered
from bench.stores import Session
from bench.table import Results, machine, markdown, rich_table, write_section

# The order of the table that the project set itself; within a module that of registration.
ORDER = [module.__name__ for module in (append, read, state, size, memory, conversation)]


def selected(only: str) -> list[Registered]:
    ordered = sorted(FIGURES, key=lambda entry: ORDER.index(entry.measure.__module__))
    return [entry for entry in ordered if only.lower() in entry.name.lower()]


def measure(entries: list[Registered], folder: Path, quick: bool, console: Console) -> Results:
    session = Session(folder, quick=quick)
    where = machine(folder)
    started = time.perf_counter()
    figures = []
    with console.status("…") as status:
        for number, entry in enumerate(entries, 1):
            status.update(f"{number}/{len(entries)} {entry.name}")
            figures.append(entry.run(session))
    return Results(where, quick, time.perf_counter() - started, figures)


def main(
    quick: Annotated[bool, typer.Option("--quick", help="Fewer rounds and smaller stores: under 40 s.")] = False,
    only: Annotated[str, typer.Option(help="Only figures whose name contains this.")] = "",
    json: Annotated[str, typer.Option(help="Write the results as JSON to this file, or - for standard output.")] = "",
    into: Annotated[
        Path | None, typer.Option("--markdown", help="Write the table between the markers of this Markdown file.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Where to build the stores (about 1.5 GB); the system's temporary folder.")
    ] = None,
) -> None:
    """Measures chronicle-py beside plain LMDB. Exit code 1 when a measurement fails, 0 whatever the figures are."""
    entries = selected(only)
    if not entries:
        raise typer.BadParameter(f"no figure has a name that contains {only!r}", param_hint="--only")
    with tempfile.TemporaryDirectory(prefix="chronicle-bench-", dir=folder) as made:
        results = measure(entries, Path(made), quick, Console(stderr=True))
    if json == "-":
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(results)).decode() + "\n")
    elif sys.stdout.isatty():
        Console().print(rich_table(results))
    else:
        sys.stdout.write(markdown(results))
    if json and json != "-":
        Path(json).write_bytes(msgspec.json.format(msgspec.json.encode(results)) + b"\n")
    if into is not None:
        write_section(into, markdown(results))
    if any(row.error for row in results.figures):
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
