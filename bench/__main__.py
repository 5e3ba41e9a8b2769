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

from bench.registry import selected
from bench.running import run
from bench.table import Results, machine, markdown, rich_table, write_document

_JSON = "benchmarks.json"


def main(
    quick: Annotated[bool, typer.Option("--quick", help="Fewer rounds, smaller stores, no peers: under 40 s.")] = False,
    only: Annotated[str, typer.Option(help="Only figures whose name, group or library contains this.")] = "",
    json: Annotated[str, typer.Option(help="Write the results as JSON to this file, or - for standard output.")] = "",
    docs: Annotated[
        Path | None,
        typer.Option(help="Renew benchmarks.json, benchmarks.md, the plots and the README's figures, in this folder."),
    ] = None,
    peers: Annotated[
        bool | None, typer.Option("--peers/--no-peers", help="Other libraries too; as by default unless --quick.")
    ] = None,
    save: Annotated[
        Path | None, typer.Option(help="Every single time, as pytest-benchmark's JSON, to compare two commits.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Where to build the stores (about 2 GB); the system's temporary folder.")
    ] = None,
) -> None:
    """Measures chronicle-py beside plain LMDB and others. Exit 1 when a measurement fails, else 0."""
    others = not quick if peers is None else peers
    entries = selected(only, peers=others)
    if not entries:
        raise typer.BadParameter(f"no figure has a name that contains {only!r}", param_hint="--only")
    arguments = [f"--only={only}"]
    arguments += [] if quick else ["--thorough"]
    arguments += ["--peers"] if others else []
    arguments += [f"--folder={folder}"] if folder is not None else []
    arguments += [f"--benchmark-json={save}"] if save is not None else []
    where = machine(folder or Path(tempfile.gettempdir()))
    started = time.perf_counter()
    with Console(stderr=True).status("…") as status:
        rows = run(arguments, status, len(entries))
    results = Results(where, quick, time.perf_counter() - started, rows)
    encoded = msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n"
    if json == "-":
        sys.stdout.write(encoded.decode())
    elif sys.stdout.isatty():
        Console().print(rich_table(results))
    else:
        sys.stdout.write(markdown(results))
    if json and json != "-":
        Path(json).write_bytes(encoded)
    if docs is not None:
        (docs / _JSON).write_bytes(encoded)
        write_document(docs, results)
    if len(rows) < len(entries) or any(row.error for row in rows):
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
