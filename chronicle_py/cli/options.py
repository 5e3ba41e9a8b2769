"""What commands take: the options they share, and how a store, a place and a JSON value are named."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

import chronicle_py
from chronicle_py import Branch, NotFound, Store
from chronicle_py.lmdb_kv import DATA_FILE

DEFAULT_STORE = "chronicle.store"
_SEQUENCE_DIGITS = 12  # a longer number is the start of an id
_ID_DIGITS = 6

StorePath = Annotated[
    str,
    typer.Option(
        "--store",
        "-s",
        metavar="PATH",
        envvar="CHRONICLE_STORE",
        help="The store: a file, or a folder.",
        show_envvar=True,
    ),
]
BranchName = Annotated[str, typer.Option("--branch", "-b", metavar="NAME", help="The branch.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, for programs.")]
Place = Annotated[str, typer.Argument(metavar="PLACE", help="A sequence, or the start of an event's id.")]
At = Annotated[
    str | None,
    typer.Option("--at", metavar="PLACE", help="A sequence, or the start of an event's id.", show_default="head"),
]


def exists(path: str) -> bool:
    return os.path.isfile(path) or os.path.isfile(os.path.join(path, DATA_FILE))


@contextmanager
def reading(path: str) -> Iterator[Store]:
    """The store, which must exist, opened read-only."""
    must_exist(path)
    with chronicle_py.open(path, readonly=True, create=False) as store:
        yield store


@contextmanager
def writing(path: str, create: bool = False) -> Iterator[Store]:
    """The store, opened to write."""
    if not create:
        must_exist(path)
    with chronicle_py.open(path, create=create) as store:
        yield store


def must_exist(path: str) -> None:
    """NotFound, with what to do, where there is no store file."""
    if not exists(path) and not os.path.isfile(path):
        raise NotFound(f"there is no store at {path}; make one with `chronicle init`, or name another with --store")


def place(branch: Branch, text: str) -> int | str:
    """A sequence, or an id. Digits alone are a sequence, unless the branch has none such and they could be an id."""
    if text.isascii() and text.isdigit() and len(text) <= _SEQUENCE_DIGITS:
        number = int(text)
        if len(text) < _ID_DIGITS or number <= branch.seq:
            return number
        return text
    digits = text.lower()
    if not _ID_DIGITS <= len(digits) <= 64 or any(c not in "0123456789abcdef" for c in digits):
        raise typer.BadParameter(
            f"{text!r} is no place; a place is a sequence, or {_ID_DIGITS} to 64 hex digits of an event's id"
        )
    return digits


def optional_place(branch: Branch, text: str | None) -> int | str | None:
    return None if text is None else place(branch, text)


def json_argument(text: str) -> bytes:
    """The payload bytes of a JSON argument; "-" reads it from the standard input."""
    from chronicle_py.errors import InvalidOperation
    from chronicle_py.exchange import from_json

    source = sys.stdin.buffer.read() if text == "-" else text
    try:
        return from_json(source)
    except InvalidOperation as error:
        hint = " (a text needs its own quotes: '\"…\"')" if text[:1] not in ('"', "{", "[", "-") else ""
        raise typer.BadParameter(f"{error}{hint}", param_hint="JSON") from None


def binary_input(path: str) -> bytes:
    """The bytes of a file; "-" is the standard input."""
    return sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
