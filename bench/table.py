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
README_BEGIN, README_END = "<!-- figures:begin -->", "<!-- figures:end -->"


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


def _value(value: float, spread: tuple[float, float] | None, unit: str) -> tuple[str, str]:
    """A value with its unit, and its quartiles in the same digits, if there are any."""
    if spread is None:
        return shown(value, unit), ""
    low, high = (shown(bound, unit).removesuffix(f" {unit}") for bound in sorted(spread))
    return shown(value, unit), f" ({low}–{high})"


def cells(row: Figure) -> tuple[str, ...]:
    baseline = ""
    if row.baseline is not None:
        baseline = f"{row.beside}: {''.join(_value(row.baseline, row.baseline_spread, row.unit))}"
    measured = row.error or ("not here" if row.value is None else "".join(_value(row.value, row.spread, row.unit)))
    ok = "error" if row.error else {True: "yes" if row.must else "", False: "NO", None: "–"}[row.ok]
    return row.name, row.must, baseline, measured, _ratio(row), ok


def _ratio(row: Figure) -> str:
    """Measured by baseline; beside other libraries, how many times better than they."""
    if row.ratio is None or row.gain is None:
        return ""
    if row.against:
        return f"{row.gain:.3g} × better" if row.gain >= 1 else f"{1 / row.gain:.3g} × worse"
    low, high = row.ratio_spread or (row.ratio, row.ratio)
    return f"{row.ratio:.2f}" + (f" ({low:.2f}–{high:.2f})" if row.ratio_spread else "")


def rich_table(results: Results) -> Table:
    table = Table(*COLUMNS, title=results.title, caption=_caption(results), title_justify="left")
    group = ""
    for row in results.figures:
        if row.group != group:
            group = row.group
            table.add_row(escape(group), style="bold", end_section=False)
        style = "" if row.ok or row.ok is None else "bold red"
        table.add_row(*map(escape, cells(row)), style=style)
    return table


def _caption(results: Results) -> str:
    missed = sum(row.ok is False for row in results.figures)
    return f"{len(results.figures)} figures, {missed or 'none'} missed; {results.seconds:.0f} s"


def markdown(results: Results) -> str:
    """The table, and what there is to say of single rows below it."""
    lines = [results.title, "", _line(COLUMNS), _line(["---"] * len(COLUMNS))]
    group = ""
    for row in results.figures:
        if row.group != group:
            group = row.group
            lines.append(_line([f"**{group}**", *[""] * (len(COLUMNS) - 1)]))
        lines.append(_line(_bold(cells(row), row)))
    notes = [f"- {row.group}, {row.name}: {row.note}" for row in results.figures if row.note]
    return "\n".join([*lines, "", _caption(results) + ".", *(["", *notes] if notes else []), ""])


def _line(texts: tuple[str, ...] | list[str]) -> str:
    return "| " + " | ".join(text.replace("|", "\\|").replace("\n", " ") for text in texts) + " |"


def _bold(texts: tuple[str, ...], row: Figure) -> tuple[str, ...]:
    """In bold: the measured value where it is what it must be, or else the better of the two."""
    if row.value is None or row.ok is False or (row.against and row.gain is not None and row.gain < 1):
        return texts
    value, quartiles = _value(row.value, row.spread, row.unit)
    return (*texts[:3], f"**{value}**{quartiles}", *texts[4:])


def section(text: str, begin: str, end: str, content: str, where: str) -> str:
    """The text with other content between two markers."""
    head, found, rest = text.partition(begin)
    _, closed, foot = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"{where} has no lines {begin} and {end}, between which the figures belong")
    return f"{head}{begin}\n{content}{end}{foot}"


def load(file: Path) -> Results:
    """The results in a JSON file."""
    return msgspec.json.decode(file.read_bytes(), type=Results)


# What the README says, by (group, figure) of the table, and in which words.
CLAIMS: tuple[tuple[str, str, str], ...] = (
    ("append", "append to an append_log slot, durable", "append a message, on disk when it returns"),
    ("append", "append to an append_log slot, relaxed: median", "append a message, relaxed"),
    ("read", "replay into an append_log, 1,000,000 events", "replay a million events"),
    ("read", "walk, 1,000,000 events", "walk a million events"),
    ("forks", "fork at the middle, relaxed, at 100,000 events", "fork in the middle of 100,000 events"),
    ("state", "open an existing store, 1,000,000 events", "open a store of a million events"),
    ("beside LangGraph", "bytes a turn, of 300 turns", "disk a turn, of 300 turns, beside LangGraph's SQLite saver"),
    ("beside LangGraph", "a turn of two messages, after 300 turns", "time a turn, after 300, beside the same"),
    (
        "beside eventsourcing",
        "replay 10,000 typed events into a count",
        "replay into a reducer of your own, beside eventsourcing + SQLite",
    ),
)


def claims(results: Results) -> str:
    """The table of the README: some rows of the large one."""
    rows = {(row.group, row.name): row for row in results.figures}
    lines = [_line(["", "measured", "beside"]), _line(["---"] * 3)]
    for group, name, words in CLAIMS:
        row = rows.get((group, name))
        if row is None or row.value is None:
            continue
        baseline = "" if row.baseline is None else f"{row.beside}: {shown(row.baseline, row.unit)}"
        lines.append(_line([words, f"**{shown(row.value, row.unit)}**", baseline]))
    return "\n".join([*lines, ""])


def document(text: str, results: Results) -> str:
    """docs/benchmarks.md with the table of these results."""
    return section(text, BEGIN, END, markdown(results), "benchmarks.md")


def readme(text: str, results: Results) -> str:
    """README.md with the figures of these results."""
    return section(text, README_BEGIN, README_END, claims(results), "README.md")


def write_document(docs: Path, results: Results) -> None:
    """Renews benchmarks.md and its plots in a folder, and README.md beside the folder."""
    from bench.plots import draw

    for file, renew in ((docs / "benchmarks.md", document), (docs.resolve().parent / "README.md", readme)):
        file.write_text(renew(file.read_text(encoding="utf-8"), results), encoding="utf-8")
    draw(results.figures, docs / "plots")
