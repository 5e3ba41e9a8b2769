"""Readable names for the branches of what is imported. Pure."""

from __future__ import annotations

import re
from collections.abc import Container

from chronicle_py.context.names import fork_name

_SIZE = 60
_FOREIGN = re.compile(r"[^\w.]+")


def name_of(title: str) -> str:
    """A title as a name: "Coast walk!" -> "coast-walk"."""
    words = _FOREIGN.sub("-", title.casefold()).strip("-._")
    if len(words) > _SIZE:
        words = words[:_SIZE].rsplit("-", 1)[0]
    return words.strip("-._") or "conversation"


def free(name: str, taken: Container[str] | set[str]) -> str:
    """The name itself, or with the first number that is free: "coast-walk-2"."""
    return fork_name(name, taken) if name in taken else name  # type: ignore[arg-type]
