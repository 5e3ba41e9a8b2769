"""One exception hierarchy, so that a caller needs to catch one class.

Only classes live here. A message says what was asked, what was found and what to do about it; it is written where the
fault is found, never here. Nothing in the package raises anything else on bad input, with two exceptions that
Python's own protocols demand: `IndexError` from a sequence view and `KeyError` from a mapping view, each raised as a
class that is a `ChronicleError` as well.
"""


class ChronicleError(Exception):
    """Anything that chronicle-py refuses or cannot do."""


class NotFound(ChronicleError):
    """A branch, event, sequence, blob, path or file that does not exist."""


class ItemIndexError(NotFound, IndexError):
    """An index outside a sequence view (an `IndexError` too, as Python's sequences promise)."""


class PathKeyError(NotFound, KeyError):
    """A key that a mapping view does not hold (a `KeyError` too, as Python's mappings promise)."""

    def __str__(self) -> str:  # KeyError shows the repr of its argument, which spoils a sentence
        return str(self.args[0]) if self.args else ""


class BranchExists(ChronicleError):
    """A branch of that name is already there."""


class StateExists(ChronicleError):
    """A slot of that id is registered with another kind, reducer or options."""


class StateNotRegistered(ChronicleError):
    """No slot of that id is registered in this store."""


class Conflict(ChronicleError):
    """The branch's head is not the one that was expected."""


class InvalidName(ChronicleError):
    """A name of a branch, slot, event type or path that the store does not accept."""


class InvalidOperation(ChronicleError):
    """A call that makes no sense here: a wrong argument, a wrong moment, a wrong thread."""


class CorruptStore(ChronicleError):
    """Stored bytes are not what they must be."""


class StoreFull(ChronicleError):
    """The disk or the reserved map has no room left; nothing of the write was kept."""


class ReadOnly(ChronicleError):
    """A write to a store that was opened, or lies, read-only."""


class FormatVersion(ChronicleError):
    """The file is a store of a format that this version does not read."""


class ReducerMissing(ChronicleError):
    """A custom slot whose reducer this process has not registered."""


class ReducerFailed(ChronicleError):
    """A custom reducer raised while folding an event."""


class BudgetTooSmall(ChronicleError):
    """What must be in the context does not fit the token budget."""


class SummarizerFailed(ChronicleError):
    """A summarizer raised, refused, timed out or returned nothing; nothing was recorded."""
