"""`python -m soak`: all harnesses one after the other, a table of what went wrong, and the seed that repeats it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from soak import faults, fuzz, kills, processes, properties
from soak.result import Progress as Report
from soak.result import Result

Harness = Callable[[int, Report], Result]


def harnesses(quick: bool) -> dict[str, Harness]:
    """By name, each a function of seed and progress. `quick`: a few of everything, in about a minute."""
    part = 0.03 if quick else 1.0
    found: dict[str, Harness] = {
        "kills": lambda seed, report: kills.run(int(1200 * part), seed, report),
        "faults": lambda seed, report: faults.run(int(600 * part), seed, report),
        "processes": lambda seed, report: processes.run(int(1000 * part), seed, report),
        "fuzz": lambda seed, report: fuzz.run(int(60_000 * part), seed, report),
        "guided fuzz": lambda seed, report: fuzz.run_guided(480 * part, seed, report),
    }
    if find_spec("soak.flips") is not None:
        run_flips: Any = import_module("soak.flips").run_flips
        found["flips"] = partial(_flips, run_flips, int(2000 * part))
    if not quick:
        found["properties"] = lambda seed, report: properties.run(900, seed, report)
    return found


def _flips(run_flips: Any, count: int, seed: int, report: Report) -> Result:
    found: Result = run_flips(count, seed)
    report(count, count)
    return found


def main() -> int:
    """Runs what the command line asks for; 1 when anything went wrong."""
    parser = argparse.ArgumentParser(prog="python -m soak", description=__doc__)
    names = list(harnesses(False))
    parser.add_argument("--only", action="append", choices=names, metavar="NAME", help=f"one of {', '.join(names)}")
    parser.add_argument("--quick", action="store_true", help="a few of everything")
    parser.add_argument("--seed", type=int, default=1, help="repeats a run, as far as a kill can be repeated")
    parser.add_argument("--json", action="store_true", help="one JSON document on the standard output")
    options = parser.parse_args()
    console = Console(stderr=True)
    results: list[Result] = []
    for name, harness in harnesses(options.quick).items():
        if options.only and name not in options.only:
            continue
        results.append(_watched(console, name, harness, options.seed))
    if options.json:
        sys.stdout.write(json.dumps(msgspec.to_builtins(results), indent=2, ensure_ascii=False) + "\n")
    else:
        _show(Console(), results)
    return 1 if any(found.wrong for found in results) else 0


def _watched(console: Console, name: str, harness: Harness, seed: int) -> Result:
    columns = (TextColumn("{task.description:12}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(name, total=None)
        found = harness(seed, lambda done, total: bar.update(task, completed=done, total=total))
    console.print(f"{name}: {found.cases:,} cases, {found.wrong:,} wrong, {found.seconds:.0f} s", highlight=False)
    return found


def _show(console: Console, results: list[Result]) -> None:
    table = Table("what", "cases", "wrong", "seconds", "seed")
    for column in table.columns[1:]:
        column.justify = "right"
    for found in results:
        table.add_row(
            found.name, f"{found.cases:,}", f"{found.wrong:,}", f"{found.seconds:.0f}", str(found.seed),
            style="red" if found.wrong else "",
        )  # fmt: skip
    console.print(table)
    for found in results:
        for name, figure in found.figures.items():
            console.print(f"{found.name}: {name}: {figure}", highlight=False, soft_wrap=True)
        for detail in found.details:
            console.print(f"{found.name}: WRONG: {detail}", style="red", highlight=False, soft_wrap=True, markup=False)


if __name__ == "__main__":
    sys.exit(main())
