"""The app, and how every command ends.

Exit codes: 0 done; 1 it could not be done, or was found wrong; 2 the command line makes no sense; 130 interrupted; 141
the reader of the output went away. What went wrong is one line on stderr, never a traceback (CHRONICLE_TRACEBACK=1
shows it, for whoever mends the command).
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any, Final, NoReturn

import typer
from typer.core import TyperGroup

from chronicle_py.errors import ChronicleError

UsageError: Any = typer.BadParameter.__mro__[1]  # typer keeps these two to itself, or takes them from click
ClickException: Any = UsageError.__mro__[1]

FAILED: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130
PIPE_CLOSED: Final = 141
SECTIONS: Final = ("Conversation", "Looking", "Writing", "Branches", "State", "Exchange", "The store")


class _Ended(Exception):
    """The user or the reader of the output ended the command. Hides that from typer, which has ways of its own."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Failure(Exception):
    """A command did what it was asked, and the answer is bad news: one line and exit 1."""


def _fate(error: BaseException, name: str) -> tuple[int, str]:
    """The exit code that an error means, and the line that says so."""
    if isinstance(error, ClickException):
        ctx = getattr(error, "ctx", None)
        command = ctx.command_path if ctx is not None else name
        message = str(error.format_message()).rstrip(".")
        return USAGE, f"{command}: {message}. See `{command} --help`"
    if isinstance(error, _Ended):
        return error.code, f"{name}: {error}" if error.args[0] else ""
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        return INTERRUPTED, f"{name}: interrupted"
    if isinstance(error, BrokenPipeError):
        return PIPE_CLOSED, ""
    if os.environ.get("CHRONICLE_TRACEBACK"):
        raise error
    if isinstance(error, ChronicleError | Failure):
        return FAILED, f"{name}: {error}"
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return FAILED, f"{name}: {where}{error.strerror or error}"
    return FAILED, f"{name}: unexpected {type(error).__name__}: {error}. Please report it (CHRONICLE_TRACEBACK=1)"


def _end(code: int, line: str) -> NoReturn:
    if code == PIPE_CLOSED:
        _swallow_output()
    try:
        sys.stdout.flush()
        if line:
            print(" ".join(line.split()), file=sys.stderr, flush=True)
    except OSError:
        _swallow_output()
    sys.exit(code)


def _swallow_output() -> None:
    """Lets the interpreter end without another error about the closed pipe."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class Group(TyperGroup):
    """The app as a group of commands that lists them by section, and turns whatever is raised into an exit code."""

    def main(self, *args: Any, **extra: Any) -> Any:
        try:
            code = super().main(*args, **{**extra, "standalone_mode": False})
            sys.stdout.flush()
        except (Exception, KeyboardInterrupt) as error:
            _end(*_fate(error, str(extra.get("prog_name") or "chronicle")))
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise _Ended(INTERRUPTED, "interrupted") from None
        except BrokenPipeError:
            raise _Ended(PIPE_CLOSED, "") from None

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {title: [] for title in SECTIONS}
        width = formatter.width - 6 - max(map(len, self.commands))
        for name, command in self.commands.items():
            section = str(getattr(command, "rich_help_panel", "Commands"))
            sections.setdefault(section, []).append((name, command.get_short_help_str(width)))
        for title, rows in sections.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


app = typer.Typer(
    cls=Group,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def chronicle(
    ctx: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version and end."),
) -> None:
    """A branchable store for conversations and agents: every change is an event, every state a fold of events.

    \b
    chronicle import run.traj            a conversation into ./chronicle.store
    chronicle log                        its events, newest first
    chronicle fork other --at 6          another branch that shares events 1 to 6
    chronicle say -b other "Why?"        and goes on differently
    chronicle log --all                  both branches as a graph
    chronicle messages --at 6            the conversation as it was at event 6
    chronicle diff context/messages main other
    chronicle compile --budget 8000      what a model would get

    The store is ./chronicle.store, or what --store or the variable CHRONICLE_STORE names: a file, or a folder. A PLACE
    is a sequence (12) or an event's id, of which the first 6 digits or more suffice (3f9a2c).
    """
    if version:
        from chronicle_py import __version__

        typer.echo(f"chronicle {__version__}")
        raise typer.Exit
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())
