"""chronicle-py: an embedded, branchable, event-sourced store for conversations and agents.

    import chronicle_py as chronicle

    with chronicle.open("agent.chronicle") as store:
        store.register_state("messages", kind="append_log")
        main = store.branch()
        main.state("messages").append({"role": "user", "content": "Hello"})
        other = main.fork("another-answer")

This page is the whole public surface of the engine; docs/tutorial.md walks through it.
"""

from chronicle_py.branch import Branch, Replay
from chronicle_py.branches import BranchInfo, Move
from chronicle_py.collections import List, Map
from chronicle_py.diff import Change
from chronicle_py.erased import Erased
from chronicle_py.erasing import EraseReport
from chronicle_py.errors import (
    BranchExists,
    ChronicleError,
    Conflict,
    CorruptStore,
    FormatVersion,
    InvalidName,
    InvalidOperation,
    ItemIndexError,
    NotFound,
    PathKeyError,
    ReadOnly,
    ReducerFailed,
    ReducerMissing,
    StateExists,
    StateNotRegistered,
    StoreFull,
)
from chronicle_py.event import BlobRef, Event
from chronicle_py.feed import BranchChange, CaughtUp, Followed, Gone
from chronicle_py.following import Follower
from chronicle_py.index_view import IndexView, Matches
from chronicle_py.indexing import IndexInfo
from chronicle_py.migrating import migrate
from chronicle_py.objects import Blob
from chronicle_py.reducers import Reducer, reducer
from chronicle_py.rescue.branching import SalvagedBranch
from chronicle_py.rescue.salvaging import LostBlob, SalvageReport, salvage
from chronicle_py.rescue.verifying import verify_file
from chronicle_py.store import Namespace, SlotInfo, Stats, Store, open
from chronicle_py.verify import Problem, Report
from chronicle_py.views import CustomView, DocumentView, LogView, TreeView, ValueView

__version__ = "0.1.0"

__all__ = [
    "Blob",
    "BlobRef",
    "Branch",
    "BranchChange",
    "BranchExists",
    "BranchInfo",
    "CaughtUp",
    "Change",
    "ChronicleError",
    "Conflict",
    "CorruptStore",
    "CustomView",
    "DocumentView",
    "EraseReport",
    "Erased",
    "Event",
    "Followed",
    "Follower",
    "FormatVersion",
    "Gone",
    "IndexInfo",
    "IndexView",
    "InvalidName",
    "InvalidOperation",
    "ItemIndexError",
    "List",
    "LogView",
    "LostBlob",
    "Map",
    "Matches",
    "Move",
    "Namespace",
    "NotFound",
    "PathKeyError",
    "Problem",
    "ReadOnly",
    "Reducer",
    "ReducerFailed",
    "ReducerMissing",
    "Replay",
    "Report",
    "SalvageReport",
    "SalvagedBranch",
    "SlotInfo",
    "StateExists",
    "StateNotRegistered",
    "Stats",
    "Store",
    "StoreFull",
    "TreeView",
    "ValueView",
    "__version__",
    "migrate",
    "open",
    "reducer",
    "salvage",
    "verify_file",
]
