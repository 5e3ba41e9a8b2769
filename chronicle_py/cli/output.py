"""How commands print: JSON for programs, text and tables for people, progress while something takes long.

Text goes through `rich`, which colours it on a terminal and leaves it plain elsewhere. Off a terminal nothing is cut or
wrapped to a width.
"""

from __future__ import annotations

import select
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from chronicle_py import Event
from chronicle_py.event import stored_payload
from chronicle_py.exchange import to_json

if TYPE_CHECKING:
    from rich.console import Console

_PLAIN_WIDTH = 100_000


Piece = str | tuple[str, str]
"""Text, or text with a style of rich's."""


def line_writer() -> Callable[..., None]:
    """What writes a line made of pieces. The pieces are styled on a terminal only, where rich is needed."""
    if not sys.stdout.isatty():
        return lambda *pieces: say("".join(p if isinstance(p, str) else p[0] for p in pieces).rstrip())
    from rich.text import Text

    target = _console()
    return lambda *pieces: _paint(target, Text.assemble(*pieces))


def _paint(target: Console, drawn: Any, soft_wrap: bool = True) -> None:
    """Draws to stdout, no white space at ends of lines. Not by rich, which has its own way with closed pipes."""
    with target.capture() as captured:
        target.print(drawn, soft_wrap=soft_wrap)
    for line in captured.get().splitlines():
        say(line.rstrip())


def _console() -> Console:
    from rich.console import Console

    terminal = sys.stdout.isatty()
    return Console(
        file=sys.stdout,
        width=None if terminal else _PLAIN_WIDTH,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=True,
    )


def check_reader() -> None:
    """BrokenPipeError when stdout is a pipe that nobody reads any more. A write would say so, if there were one to do;
    a system without `poll` waits for that."""
    if not hasattr(select, "poll"):
        return
    try:
        number = sys.stdout.fileno()
    except (OSError, ValueError):  # no file, as under test
        return
    watch = select.poll()
    watch.register(number, 0)
    if any(found & select.POLLERR for _, found in watch.poll(0)):
        raise BrokenPipeError


def terminal_width() -> int | None:
    """Columns of the terminal, None where output goes elsewhere."""
    if not sys.stdout.isatty():
        return None
    import shutil

    return shutil.get_terminal_size().columns


def say(text: str) -> None:
    sys.stdout.write(text + "\n")


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], right: Sequence[str] = ()) -> None:
    """Rows under headings; the columns named in `right` are set flush right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=box.SIMPLE_HEAD if sys.stdout.isatty() else None, pad_edge=False, show_edge=False)
    for name in columns:
        drawn.add_column(name, justify="right" if name in right else "left", no_wrap=not sys.stdout.isatty())
    for row in rows:
        drawn.add_row(*(cell if isinstance(cell, Text) else Text(str(cell)) for cell in row))
    _paint(_console(), drawn, soft_wrap=False)


# --- JSON -----------------------------------------------------------------------------------------------------------


def print_json(value: Any) -> None:
    """One document, indented."""
    text = msgspec.json.format(msgspec.json.encode(to_json(value)), indent=2)
    sys.stdout.write(text.decode() + "\n")


def print_json_array(values: Iterable[Any]) -> None:
    """One document, an array with an element a line; never more than one of them in memory."""
    write, first = sys.stdout.write, True
    for value in values:
        write(("[" if first else ",") + "\n" + msgspec.json.encode(to_json(value)).decode())
        first = False
    write("[]\n" if first else "\n]\n")


def print_json_line(value: Any) -> None:
    """One value on one line."""
    sys.stdout.write(msgspec.json.encode(to_json(value)).decode() + "\n")


def pretty(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(to_json(value)), indent=2).decode()


def event_json(event: Event) -> dict[str, Any]:
    """An event as JSON shows it everywhere."""
    return {
        "id": event.id,
        "seq": event.seq,
        "type": event.type,
        "slot": event.slot,
        "time": event.time,
        "parents": event.parents,
        "caused_by": event.caused_by,
        "linked_to": event.linked_to,
        "blobs": event.blobs,
        "payload": stored_payload(event.raw),
    }


# --- small things ---------------------------------------------------------------------------------------------------


def short(id: str | None) -> str:
    """As much of an id as people read; more than `store.event` asks for."""
    return "-" if id is None else id[:10]


def when(time: int | None) -> str:
    """µs since the epoch in the zone of the reader."""
    if time is None:
        return "-"
    try:
        return datetime.fromtimestamp(time / 1e6).astimezone().isoformat(sep=" ", timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return f"{time} µs"


def count(number: int, thing: str) -> str:
    return f"{number:,} {thing}" + ("" if number == 1 else "es" if thing.endswith("ch") else "s")


def size(number: int) -> str:
    amount, units = float(number), ("bytes", "KiB", "MiB", "GiB", "TiB")
    for unit in units:
        if amount < 1024 or unit == units[-1]:
            break
        amount /= 1024
    return f"{number} bytes" if unit == "bytes" else f"{amount:.1f} {unit}"


@contextmanager
def progress(doing: str) -> Iterator[Callable[[int, int], None] | None]:
    """A bar on stderr while the block runs, fed by calls with (done, total); None where stderr is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(doing, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
