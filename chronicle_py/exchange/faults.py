"""What an import found wrong, and where; and what it did."""

from __future__ import annotations

import msgspec

from chronicle_py.errors import InvalidOperation

_SHOWN = 10
SKIP_BAD = ", or leave them out with --skip-bad (skip_bad=True)"


class Fault(msgspec.Struct, frozen=True):
    """A record that could not be imported: its place in the file, and why."""

    where: str  # "line 12", "messages[3]"
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


class MalformedFile(InvalidOperation):
    """A file with bad records, of which nothing was imported. `faults` has all of them."""

    def __init__(self, name: str, faults: list[Fault], advice: str = "") -> None:
        self.faults = faults
        shown = "; ".join(map(str, faults[:_SHOWN])) + ("; …" if len(faults) > _SHOWN else "")
        count = "one bad record" if len(faults) == 1 else f"{len(faults):,} bad records"
        super().__init__(f"{name}: {count}, nothing was imported: {shown}. Mend the file{advice}")


class Imported(msgspec.Struct, frozen=True):
    """What an import brought. `known`: events of the file that were in the store already."""

    form: str  # "chronicle export", "ChatGPT export"
    events: int
    known: int
    slots: int
    blobs: int
    branches: dict[str, str]  # name -> "new", "moved", "same" or "behind" (the store's own head is further)
    faults: list[Fault]
    current: str | None = None  # the branch that the newest conversation stands on
