"""How results are shown: a table for a terminal, Markdown, JSON; and the machine they were measured on."""

from __future__ import annotations

import os
import platform
from datetime import date
from importlib.metadata import version
from pathlib import Path

import lmdb
import msgspec
from rich.markup import escape
from rich.table import Table

from bench.figure import Figure, shown

BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"
COLUMNS = ("figure", "must be", "baseline", "measured", "ratio", "ok")


class Results(msgspec.Struct, frozen=True):
    """A run."""

    machine: str
    quick: bool
    seconds: float
    figures: list[Figure]

    @property
    def title(self) -> str:
        return self.machine + ("; quick, so less certain" if self.quick else "")


def machine(folder: Path) -> str:
    """What a reader has to know of this machine, in a line."""
    system = f"{platform.system()} {platform.release()}, {_filesystem(folder)}"
    libraries = f"lmdb {version('lmdb')} (LMDB {'.'.join(map(str, lmdb.version()))}), msgspec {version('msgspec')}, "
    libraries += f"blake3 {version('blake3')}"
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{date.today()}: {_processor()}, {os.cpu_count()} cores{_load()}, {system}; {python}, {libraries}"


def _load() -> str:
    """What the machine had to do besides: above 0.5, times in µs are longer than they need be."""
    try:
        return f" (load {os.getloadavg()[0]:.1f} at the start)"
    except OSError:
        return ""


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _filesystem(folder: Path) -> str:
    """The kind of file system, which decides what a durable commit costs: none on tmpfs."""
    try:
        mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return "file system unknown"
    path = folder.resolve()
    above = [(len(point), kind) for point, kind in mounts if path.is_relative_to(point)]
    return max(above)[1] if above else "file system unknown"


def cells(row: Figure) -> tuple[str, ...]:
    baseline = "" if row.baseline is None else f"{shown(row.baseline, row.unit)} ({row.beside})"
    measured = row.error or ("not here" if row.value is None else shown(row.value, row.unit))
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    ok = "error" if row.error else {True: "yes", False: "NO", None: "–"}[row.ok]
    return row.name, row.must, baseline, measured, ratio, ok


def rich_table(results: Results) -> Table:
    table = Table(*COLUMNS, title=results.title, caption=_caption(results), title_justify="left")
    for row in results.figures:
        style = "" if row.ok or row.ok is None else "bold red"
        table.add_row(*map(escape, cells(row)), style=style)
    return table


def _caption(results: Results) -> str:
    missed = sum(row.ok is False for row in results.figures)
    return f"{len(results.figures)} figures, {missed or 'none'} missed; {results.seconds:.0f} s"


def markdown(results: Results) -> str:
    """The table, and what there is to say of single rows below it."""
    lines = [results.title, "", _line(COLUMNS), _line(["---"] * len(COLUMNS))]
    lines += [_line(_bold(cells(row), row.ok is not False)) for row in results.figures]
    notes = [f"- {row.name}: {row.note}" for row in results.figures if row.note]
    return "\n".join([*lines, "", _caption(results) + ".", *(["", *notes] if notes else []), ""])


def _line(texts: tuple[str, ...] | list[str]) -> str:
    return "| " + " | ".join(text.replace("|", "\\|").replace("\n", " ") for text in texts) + " |"


def _bold(texts: tuple[str, ...], met: bool) -> tuple[str, ...]:
    """The measured value in bold where it is what it must be."""
    return (*texts[:3], f"**{texts[3]}**" if met else texts[3], *texts[4:])


def write_section(file: Path, text: str) -> None:
    """Puts the text between the two markers of a Markdown file."""
    old = file.read_text(encoding="utf-8")
    head, begin, rest = old.partition(BEGIN)
    _, end, foot = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{file} has no lines {BEGIN} and {END}, between which the table belongs")
    file.write_text(f"{head}{BEGIN}\n{text}{END}{foot}", encoding="utf-8")
