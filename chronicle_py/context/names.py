"""Which slots the conversation layer keeps its state in, by namespace. Pure.

<messages>/messages   what stands on a branch           <messages>: the namespace when isolated, else "context"
<prefix>/memory       summaries, pins, head resets      <prefix>: the namespace, or "context" without one
<prefix>/log          the context log
<prefix>/<strategy>   the strategy's own state, by its name
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from chronicle_py.errors import InvalidOperation
from chronicle_py.names import MAX_NAME, check_name, check_slot

CONTEXT: Final = "context"
_RESERVED: Final = ("messages", "memory", "log")
_NUMBERED = re.compile(r"^(?P<base>.*?)-(?P<number>[1-9][0-9]*)$")


class SlotNames(msgspec.Struct, frozen=True):
    """The slots of one manager."""

    prefix: str = CONTEXT
    isolated: bool = False

    @property
    def messages(self) -> str:
        return f"{self.prefix if self.isolated else CONTEXT}/messages"

    @property
    def memory(self) -> str:
        return f"{self.prefix}/memory"

    @property
    def log(self) -> str:
        return f"{self.prefix}/log"

    def strategy(self, name: object) -> str:
        """The slot of a strategy of this name."""
        check_name("a strategy's name", name)
        if name in _RESERVED or "/" in str(name):
            raise InvalidOperation(
                f"a strategy cannot be named {name!r}: {', '.join(_RESERVED)} are slots of the conversation layer, and "
                "a name holds no '/'"
            )
        return check_slot(f"{self.prefix}/{name}")


def slot_names(namespace: object, isolate: bool) -> SlotNames:
    """The slots of a namespace (None: the shared one); InvalidOperation for isolation without a namespace."""
    if namespace is None:
        if isolate:
            raise InvalidOperation(
                "isolate=True keeps an agent's messages to its namespace; give one, like namespace='agents/lena'"
            )
        return SlotNames()
    prefix = check_slot(namespace, "a namespace")
    if prefix == CONTEXT:
        raise InvalidOperation(
            f"the namespace {CONTEXT!r} is that of the agent without one; leave it out, or choose another name"
        )
    return SlotNames(prefix, bool(isolate))


def fork_name(branch: str, taken: Iterable[str]) -> str:
    """A name for a fork of a branch that is not taken: "main-2", "main-3", … also for a fork of "main-2"."""
    found = _NUMBERED.match(branch)
    base = found["base"] if found else branch
    names = set(taken)
    number = 2
    while True:
        end = f"-{number}"
        name = _shortened(base, MAX_NAME - len(end)) + end
        if name not in names:
            return name
        number += 1


def _shortened(name: str, size: int) -> str:
    """The start of a name that takes at most this many bytes."""
    return name.encode()[:size].decode("utf-8", "ignore").rstrip()
