"""Looking through the summaries of a branch. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

import msgspec

from chronicle_py.context.query import check_number
from chronicle_py.errors import InvalidOperation
from chronicle_py.strategies.strategy import MessageView, SummaryInfo


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """A summary as it stands on a branch, with its text."""

    id: str  # "L1-0"
    level: int
    content: str
    tokens: int
    source_level: int  # 0: of messages
    source_ids: tuple[str, ...]  # of messages, or of summaries
    source_range: tuple[str, str]  # ids of the first and last message covered
    merged_into: str | None = None
    created: int  # µs since the epoch
    phase: str = ""


class SearchResult(msgspec.Struct, frozen=True):
    """A summary that was found. `matches`: how often; 0 where nothing was asked for."""

    summary: Summary
    matches: int

    @property
    def id(self) -> str:
        return self.summary.id

    @property
    def level(self) -> int:
        return self.summary.level

    @property
    def content(self) -> str:
        return self.summary.content


def summary_of(info: SummaryInfo, view: MessageView) -> Summary:
    """A summary with its text."""
    payload = info.payload
    return Summary(
        id=info.id, level=info.level, content=view.text(payload), tokens=info.tokens, source_level=info.level - 1,
        source_ids=payload.sources, source_range=(payload.first, payload.last), merged_into=info.merged_into,
        created=info.created, phase=info.phase,
    )  # fmt: skip


def counter(text: str | None, regex: str | None) -> Callable[[str], int] | None:
    """How often a text matches; None: everything is meant. InvalidOperation for a regex that does not compile."""
    if regex is not None:
        try:
            pattern = re.compile(regex)
        except (re.error, TypeError, OverflowError, RecursionError) as error:
            raise InvalidOperation(f"search(regex=) does not compile: {error}: {regex!r:.80}") from None
        if not isinstance(pattern.pattern, str):
            raise InvalidOperation(f"search(regex=) is a str, not {regex!r:.80}")
        return lambda content: sum(1 for _ in pattern.finditer(content))
    if text is None or text == "":
        return None
    if not isinstance(text, str):
        raise InvalidOperation(f"search(text=) is a str, not {text!r:.80}")
    wanted = text.casefold()
    return lambda content: content.casefold().count(wanted)


def levels_of(levels: int | Iterable[int] | None) -> frozenset[int] | None:
    """The levels meant; None: all."""
    if levels is None:
        return None
    if isinstance(levels, int):
        levels = (levels,)
    if not isinstance(levels, Iterable):
        raise InvalidOperation(f"search(levels=) takes several whole numbers from 1, not {levels!r:.80}")
    return frozenset(check_number("search(levels=)", level) for level in levels)


def found(
    summaries: Iterable[SummaryInfo],
    view: MessageView,
    count: Callable[[str], int] | None,
    levels: frozenset[int] | None,
    include_merged: bool,
) -> Iterator[SearchResult]:
    """Those that match, in the order given."""
    for info in summaries:
        if (levels is not None and info.level not in levels) or (info.merged_into is not None and not include_merged):
            continue
        if count is None:
            yield SearchResult(summary_of(info, view), 0)
        elif matches := count(view.text(info.payload)):
            yield SearchResult(summary_of(info, view), matches)
