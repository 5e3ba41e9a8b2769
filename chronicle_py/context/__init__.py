"""The conversation layer: messages, strategies at work, and what goes into a model's context window.

`ContextManager` is what an application holds. The names below are loaded at first use, so that the pure modules of this
package (blocks, payloads) can be imported by strategies without the rest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chronicle_py.context.auto_tick import AutoTickEntry
    from chronicle_py.context.blocks import Block, Media, Text, Thinking, ToolResult, ToolUse, Unknown
    from chronicle_py.context.compiled import Compiled
    from chronicle_py.context.context_log import Relation
    from chronicle_py.context.conversation import Conversation
    from chronicle_py.context.erasing_messages import ErasedMessage
    from chronicle_py.context.injections import Injection
    from chronicle_py.context.log_view import ContextLog, LogEntry
    from chronicle_py.context.manager import ContextManager, ContextStats
    from chronicle_py.context.message import Message
    from chronicle_py.context.searching import SearchResult, Summary
    from chronicle_py.context.summarizers import (
        AnthropicSummarizer,
        Extractive,
        OpenAISummarizer,
        Patience,
        Summarizer,
        TransientFailure,
    )
    from chronicle_py.context.tokens import Tokenizer
    from chronicle_py.context.turns import CompiledMessage
    from chronicle_py.strategies.strategy import (
        Budget,
        ProtectedRange,
        RenderStats,
        Request,
        Strategy,
        Work,
    )

_HOMES = {
    "auto_tick": ("AutoTickEntry",),
    "blocks": ("Block", "Media", "Text", "Thinking", "ToolResult", "ToolUse", "Unknown"),
    "compiled": ("Compiled",),
    "context_log": ("Relation",),
    "conversation": ("Conversation",),
    "erasing_messages": ("ErasedMessage",),
    "injections": ("Injection",),
    "log_view": ("ContextLog", "LogEntry"),
    "manager": ("ContextManager", "ContextStats"),
    "message": ("Message",),
    "searching": ("SearchResult", "Summary"),
    "summarizers": (
        "AnthropicSummarizer", "Extractive", "OpenAISummarizer", "Patience", "Summarizer", "TransientFailure",
    ),
    "tokens": ("Tokenizer",),
    "turns": ("CompiledMessage",),
}  # fmt: skip
_HOME = {name: f"{__name__}.{module}" for module, names in _HOMES.items() for name in names}
_HOME |= dict.fromkeys(
    ("Budget", "ProtectedRange", "RenderStats", "Request", "Strategy", "Work"), "chronicle_py.strategies.strategy"
)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(_HOME[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})


__all__ = [
    "AnthropicSummarizer",
    "AutoTickEntry",
    "Block",
    "Budget",
    "Compiled",
    "CompiledMessage",
    "ContextLog",
    "ContextManager",
    "ContextStats",
    "Conversation",
    "ErasedMessage",
    "Extractive",
    "Injection",
    "LogEntry",
    "Media",
    "Message",
    "OpenAISummarizer",
    "Patience",
    "ProtectedRange",
    "Relation",
    "RenderStats",
    "Request",
    "SearchResult",
    "Strategy",
    "Summarizer",
    "Summary",
    "Text",
    "Thinking",
    "Tokenizer",
    "ToolResult",
    "ToolUse",
    "TransientFailure",
    "Unknown",
    "Work",
]
