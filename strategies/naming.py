"""Names: "Name: " before a user's own words, where more than one user speaks. Pure.

Here is said whose messages are a user's own words, how they begin, and what that costs. A strategy spends its budget on
names as soon as a second user has spoken on the branch; a form writes them only where more than one speaks among what
is shown, so that what is sent never exceeds what was counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from chronicle_py.context.blocks import Block, Text, Thinking, ToolResult, ToolUse
from chronicle_py.context.counting import Counter
from chronicle_py.context.payloads import CONTEXT_MANAGER

BEGINNING: Final = 64
"""Characters of a text that a name is counted together with."""


def named(name: str, text: str) -> str:
    """A text with the name of who says it."""
    return f"{name}: {text}"


def is_speaker(participant: str, role: str, only_answers: bool) -> bool:
    """Whether a message of this kind counts as one of a user's own words."""
    return role == "user" and not only_answers and participant != CONTEXT_MANAGER


def says_something(blocks: Sequence[Block]) -> bool:
    """Whether there is more in it than a tool's business."""
    return any(not isinstance(block, ToolResult | ToolUse | Thinking) for block in blocks)


def first_text(blocks: Sequence[Block]) -> str | None:
    """The text that the name stands before; None where there is none."""
    return next((block.text for block in blocks if isinstance(block, Text) and block.text.strip()), None)


def name_tokens(name: str, text: str, counter: Counter) -> int:
    """What a text takes more with the name than without. Counted with the beginning of the text, as tokens may reach
    over the seam: a few µs, however long the text is."""
    beginning = text[:BEGINNING]
    return max(0, counter.count(named(name, beginning)) - counter.count(beginning))
