"""A request as messages: what was said, then the instruction, as the user's words. Pure."""

from __future__ import annotations

from chronicle_py.context.blocks import Text
from chronicle_py.context.compiled import Compiled
from chronicle_py.context.payloads import CONTEXT_MANAGER
from chronicle_py.context.turns import CompiledMessage
from chronicle_py.strategies.strategy import Request


def compiled(request: Request) -> Compiled:
    """What to send to a model."""
    messages = [
        CompiledMessage(entry.participant, entry.role, entry.blocks, entry.tokens, entry.id, entry.summary, entry.cache)
        for entry in request.entries
    ]
    if request.instruction:
        messages.append(CompiledMessage(CONTEXT_MANAGER, "user", [Text(request.instruction)], 0))
    return Compiled(messages, request.system)
