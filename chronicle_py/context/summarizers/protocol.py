"""What a summarizer is, and how a function becomes one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, runtime_checkable

from chronicle_py.errors import InvalidOperation, SummarizerFailed
from chronicle_py.strategies.strategy import Request


class TransientFailure(SummarizerFailed):
    """A failure that may not come again: a lost connection, a busy server. Raise it to be asked once more."""


@runtime_checkable
class Summarizer(Protocol):
    """Answers a request with the text of a summary, at once or as an awaitable. May raise anything: nothing is recorded
    then. `SummarizerFailed` says it best, and `TransientFailure` where another attempt may help."""

    def summarize(self, request: Request) -> str | Awaitable[str]: ...


class _Function:
    """A function as a summarizer."""

    def __init__(self, function: Callable[[Request], Any]) -> None:
        self.summarize = function

    def __repr__(self) -> str:
        return f"<summarizer {self.summarize!r}>"


def summarizer(spec: Summarizer | Callable[[Request], Any] | None) -> Summarizer:
    """The summarizer meant by one, a function of a request (async too), or None: the extractive one."""
    if spec is None:
        from chronicle_py.context.summarizers.extractive import Extractive

        return Extractive()
    if isinstance(spec, Summarizer) and not isinstance(spec, type):
        return spec
    if callable(spec) and not isinstance(spec, type):
        return _Function(spec)
    raise InvalidOperation(f"a summarizer has summarize(request), or is a function of a request, not {spec!r:.80}")
