"""Context strategies: pure reducers that fold a conversation into what a model should see.

    Passthrough         everything, or the newest that fits
    SlidingWindow       the beginning and the newest
    Autobiographical    the agent's own memories in place of old messages
    Knowledge           the same, by phases of work

Installed as `chronicle_py.strategies`. Nothing here does I/O, reads a clock or writes to a store. docs/strategies.md
shows how to write one.
"""

from chronicle_py.strategies.autobiographical import Autobiographical
from chronicle_py.strategies.knowledge import Knowledge
from chronicle_py.strategies.passthrough import Passthrough
from chronicle_py.strategies.sliding_window import SlidingWindow
from chronicle_py.strategies.strategy import (
    Budget,
    Entry,
    MessageView,
    Pinnable,
    ProtectedRange,
    Rendering,
    RenderStats,
    RenderStatsCapable,
    Request,
    Resettable,
    Searchable,
    Share,
    Strategy,
    SummaryInfo,
    ViewedMessage,
    Work,
)

__all__ = [
    "Autobiographical",
    "Budget",
    "Entry",
    "Knowledge",
    "MessageView",
    "Passthrough",
    "Pinnable",
    "ProtectedRange",
    "RenderStats",
    "RenderStatsCapable",
    "Rendering",
    "Request",
    "Resettable",
    "Searchable",
    "Share",
    "SlidingWindow",
    "Strategy",
    "SummaryInfo",
    "ViewedMessage",
    "Work",
]
