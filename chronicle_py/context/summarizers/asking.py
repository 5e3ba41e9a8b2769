"""Asking a summarizer: with a time limit, again after a failure that may pass, and checking what it says.

Theory of operation. An ordinary function runs in a thread of its own, which is left behind when the time is up (Python
cannot stop it; it ends with the process, and what it returns is dropped). A coroutine runs in the caller's loop, or in
one of its own where there is none. Whatever goes wrong comes out as `SummarizerFailed`.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable
from concurrent.futures import Future, TimeoutError
from typing import Any

import msgspec
import tenacity

from chronicle_py.context.summarizers.protocol import Summarizer, TransientFailure
from chronicle_py.errors import InvalidOperation, SummarizerFailed
from chronicle_py.strategies.strategy import Request


class Patience(msgspec.Struct, frozen=True):
    """How long and how often a summarizer is asked. Seconds."""

    timeout: float | None = 120.0  # for one attempt; None: no limit. One that runs into it is not asked again
    attempts: int = 4
    first_wait: float = 1.0  # before the second attempt; doubles with each
    longest_wait: float = 30.0

    def check(self) -> None:
        """InvalidOperation for numbers that make no sense."""
        seconds = (self.first_wait, self.longest_wait, 1.0 if self.timeout is None else self.timeout)
        if not all(isinstance(s, int | float) and s >= 0 for s in seconds) or self.timeout == 0:
            raise InvalidOperation(f"the times of Patience are seconds from 0 (timeout: above 0, or None), not {self}")
        if not isinstance(self.attempts, int) or self.attempts < 1:
            raise InvalidOperation(f"Patience(attempts=) is a whole number from 1, not {self.attempts!r}")


def ask(summarizer: Summarizer, request: Request, patience: Patience) -> str:
    """The text of the summary. SummarizerFailed when there is none. Blocks until then."""
    for attempt in tenacity.Retrying(**_policy(patience)):
        with attempt:
            future = _in_thread(lambda: _answer(summarizer, request))
            try:
                found = future.result(patience.timeout)
            except TimeoutError as error:
                if not future.done():
                    raise _too_slow(patience) from None
                raise _failure(error) from error
            except (Exception, SystemExit, asyncio.CancelledError) as error:  # of the summarizer's own
                raise _failure(error) from error
    return _checked(found)


async def ask_async(summarizer: Summarizer, request: Request, patience: Patience) -> str:
    """The same without blocking the loop."""
    async for attempt in tenacity.AsyncRetrying(**_policy(patience)):
        with attempt:
            if inspect.iscoroutinefunction(summarizer.summarize):
                waiting: asyncio.Future[Any] = asyncio.ensure_future(summarizer.summarize(request))
            else:
                waiting = asyncio.wrap_future(_in_thread(lambda: _answer(summarizer, request)))
            try:
                done, _ = await asyncio.wait([waiting], timeout=patience.timeout)
            finally:
                waiting.cancel()  # what is done stays so
            if not done:
                raise _too_slow(patience)
            try:
                found = waiting.result()
            except (Exception, SystemExit, asyncio.CancelledError) as error:  # of the summarizer's own
                raise _failure(error) from error
    return _checked(found)


def _policy(patience: Patience) -> dict[str, Any]:
    return {
        "stop": tenacity.stop_after_attempt(patience.attempts),
        "wait": tenacity.wait_exponential(multiplier=patience.first_wait, max=patience.longest_wait),
        "retry": tenacity.retry_if_exception_type(TransientFailure),
        "reraise": True,
    }


def _answer(summarizer: Summarizer, request: Request) -> Any:
    found = summarizer.summarize(request)
    return asyncio.run(_awaited(found)) if inspect.isawaitable(found) else found


async def _awaited(found: Any) -> Any:
    return await found


def _in_thread(work: Callable[[], Any]) -> Future[Any]:
    future: Future[Any] = Future()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            found = context.run(work)
        except BaseException as error:
            if not future.cancelled():
                future.set_exception(error)
        else:
            if not future.cancelled():
                future.set_result(found)

    threading.Thread(target=run, name="chronicle-summarizer", daemon=True).start()
    return future


def _too_slow(patience: Patience) -> SummarizerFailed:
    return SummarizerFailed(
        f"the summarizer did not answer within {patience.timeout:g} s; nothing was recorded and the work stays "
        "planned. Give it more time with patience=Patience(timeout=…)"
    )


def _failure(error: BaseException) -> SummarizerFailed:
    if isinstance(error, SummarizerFailed):
        return error
    kind = TransientFailure if isinstance(error, ConnectionError | TimeoutError) else SummarizerFailed
    return kind(
        f"the summarizer raised {type(error).__name__}: {error}; nothing was recorded and the work stays planned"
    )


def _checked(found: Any) -> str:
    if not isinstance(found, str) or not found.strip():
        raise SummarizerFailed(
            f"the summarizer returned {found!r:.80} in place of a text; nothing was recorded and the work stays planned"
        )
    return found.strip()
