"""Which names the store accepts, and why not. Pure.

One rule for all: 1 to 255 bytes of UTF-8, no control characters, no surrounding white space. LMDB's keys end at 511
bytes and the longest key holds one name and 9 bytes more. Slot ids and namespaces are `/`-separated as well.
"""

from __future__ import annotations

from chronicle_py.errors import InvalidName
from chronicle_py.shown import shown

MAX_NAME = 255  # bytes of UTF-8
RESERVED_TYPES = "state."  # the types of the engine's own operations start so


def check_name(what: str, name: object) -> str:
    """The name itself, or InvalidName saying what is wrong with it. `what` is e.g. "a branch name"."""
    if not isinstance(name, str):
        raise InvalidName(f"{what} is a str, not {shown(name)}")
    if not name:
        raise InvalidName(f"{what} may not be empty")
    if name.isascii() and name.isprintable() and name[0] != " " != name[-1] and len(name) <= MAX_NAME:
        return name
    if any(ord(c) < 32 or ord(c) == 127 for c in name) or name != name.strip():
        raise InvalidName(f"{what} holds no control characters and neither starts nor ends with space: {shown(name)}")
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise InvalidName(f"{what} is valid Unicode, without lone surrogates: {shown(name)}") from None
    if size > MAX_NAME:
        raise InvalidName(f"{what} has at most {MAX_NAME} bytes of UTF-8, this one has {size}: {name[:40]!r}…")
    return name


def check_branch(name: object) -> str:
    checked = check_name("a branch name", name)
    if checked.startswith("-"):
        raise InvalidName(f"a branch name does not start with '-', which the command reads as an option: {shown(name)}")
    return checked


def check_slot(name: object, what: str = "a slot id") -> str:
    """A slot id or namespace prefix: components between `/`, none of them empty."""
    checked = check_name(what, name)
    if "/" in checked and not all(checked.split("/")):
        raise InvalidName(f"{what} is made of non-empty components between '/', not {shown(name)}")
    return checked


def check_type(name: object) -> str:
    """The type of an application's own event."""
    checked = check_name("an event type", name)
    if checked.startswith(RESERVED_TYPES):
        raise InvalidName(
            f"event types that start with {RESERVED_TYPES!r} are the engine's own, {shown(name)} too: change a slot "
            "through its view, as in branch.state(slot).append(item)"
        )
    return checked
