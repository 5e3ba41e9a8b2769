"""Injections: content that an application puts into one compiled context and that is no message. Pure.

Positions: `system` (after the system messages), `before_user` and `after_user` of the last user message that is not
only tool results; without one, at the end. The order within a position is kept. An injection never comes between a tool
call and its results: where its place is there, it goes before the call, or after the last result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, get_args

import msgspec

from chronicle_py.context.blocks import Block, ToolResult, parse
from chronicle_py.errors import InvalidOperation
from chronicle_py.names import check_name

Position = Literal["system", "before_user", "after_user"]
_POSITIONS: Final = get_args(Position)


class Injection(msgspec.Struct, frozen=True):
    """Content for one compilation. `blocks`: a str, blocks, or dicts in Anthropic's form; it appears as participant
    `injection:<namespace>`. `metadata` comes along in `Compiled`, and goes to no model."""

    namespace: str
    position: Position
    blocks: Any
    metadata: Mapping[str, Any] = {}


def checked(injections: Iterable[Injection]) -> list[tuple[Injection, list[Block]]]:
    """The injections with their parsed blocks; InvalidOperation says what is wrong with one."""
    if isinstance(injections, Injection | str | Mapping) or not isinstance(injections, Iterable):
        raise InvalidOperation(
            f"compile(injections=) takes several Injections, not {injections!r:.80}; write [injection]"
        )
    found = []
    for injection in injections:
        if not isinstance(injection, Injection):
            raise InvalidOperation(f"an injection is an Injection(namespace, position, blocks), not {injection!r:.80}")
        check_name("an injection's namespace", injection.namespace)
        if injection.position not in _POSITIONS:
            raise InvalidOperation(
                f"an injection's position is one of {', '.join(_POSITIONS)}, not {injection.position!r}"
            )
        found.append((injection, parse(injection.blocks)))
    return found


def places(messages: Sequence[Sequence[Block]], anchor: int) -> tuple[int, int]:
    """Where `before_user` and `after_user` go among messages of these blocks. `anchor`: index of the user message."""
    before, after = anchor, anchor + 1
    while before > 0 and _answers(messages[before]):
        before -= 1
    while after < len(messages) and _answers(messages[after]):
        after += 1
    return before, after


def _answers(blocks: Sequence[Block]) -> bool:
    return any(isinstance(block, ToolResult) for block in blocks)
