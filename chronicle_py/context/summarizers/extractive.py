"""`Extractive`: a summarizer without a model. Deterministic: it picks the sentences that say most, and names the tools.

A sentence weighs by how often its words come up in the whole piece, more where it opens a message, holds a figure, path
or name, tells of an error or decision, or is marked `[LEAD]`. The heaviest that fit the target are kept, in order.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Final, NamedTuple

from chronicle_py.context.blocks import Text, ToolResult, ToolUse
from chronicle_py.context.tokens import Tokenizer, as_json, tokenizer
from chronicle_py.strategies.strategy import Entry, Request

_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_WORD = re.compile(r"[^\W\d_]{4,}")
_CONCRETE = re.compile(r"\d|[/\\_]|\.[a-z]{1,4}\b|[A-Z][a-z]+[A-Z]|`")
_TELLING = re.compile(
    r"\b(error|fail|failed|fix|fixed|bug|because|decid|must|should|need|want|plan|result|found|cause|therefore|conclu|"
    r"important|never|always|agree|chose|choose|done|pass|passed)", re.IGNORECASE
)  # fmt: skip
_LINE_CHARACTERS: Final = 240
_READ_CHARACTERS: Final = 4_000  # of one block
_SENTENCES: Final = 24  # of one block
_CALL_CHARACTERS: Final = 120


class _Line(NamedTuple):
    weight: int
    place: int
    text: str


class Extractive:
    """See the module. `tokens`: counts what fits, a `Tokenizer`, default cl100k_base. About 3 ms per 3,000 tokens."""

    def __init__(self, tokens: Tokenizer | None = None) -> None:
        self._tokens = tokens or tokenizer()

    def __repr__(self) -> str:
        return "<Extractive summarizer>"

    def summarize(self, request: Request) -> str:
        lines = _lines(_sources(request))
        if not lines:
            return "(Nothing was said.)"
        limit = max(16, request.target_tokens)
        kept: list[_Line] = []
        for line in sorted(lines, key=lambda line: (-line.weight, line.place)):
            cost = self._tokens.count(line.text) + 1
            if cost <= limit:
                kept.append(line)
                limit -= cost
            elif limit < 16:
                break
        if not kept:
            return lines[0].text[: 2 * max(16, request.target_tokens)]
        return "\n".join(line.text for line in sorted(kept, key=lambda line: line.place))


def _sources(request: Request) -> list[Entry]:
    """The entries that are to be summarised, without those shown along."""
    seqs, ids = set(request.work.source_seqs), set(request.work.sources)
    own = [entry for entry in request.entries if entry.seq in seqs or entry.id in ids or entry.summary in ids]
    spoken = [entry for entry in own if entry.summary is None or entry.role == "assistant"]
    return spoken or own or request.entries


def _lines(entries: list[Entry]) -> list[_Line]:
    said: list[tuple[str, str, int]] = []  # who, what, weight beside that of its words
    seen: set[str] = set()
    for entry in entries:
        for block in entry.blocks:
            said += _said(entry.participant if entry.summary is None else "", block, seen)
    counts: Counter[str] = Counter()
    words = [[word.lower() for word in _WORD.findall(text)] for _, text, _ in said]
    for found in words:
        counts.update(set(found))
    lines = []
    for place, ((who, text, extra), found) in enumerate(zip(said, words, strict=True)):
        shared = sum(min(counts[word], 20) for word in set(found))
        weight = 100 * shared // (4 + len(found)) + extra
        weight += 40 * bool(_CONCRETE.search(text)) + 60 * bool(_TELLING.search(text)) + 5_000 * ("[LEAD]" in text)
        lines.append(_Line(weight, place, f"- {who}: {text}" if who else f"- {text}"))
    return lines


def _said(who: str, block: Any, seen: set[str]) -> list[tuple[str, str, int]]:
    if isinstance(block, Text):
        found = []
        for at, text in enumerate(_sentences(block.text, seen)):
            found.append((who, text, 80 if at == 0 else 0))
        return found
    if isinstance(block, ToolUse):
        text = f"used {block.name} {as_json(block.input)}"
        return [(who, _cut(text, _CALL_CHARACTERS), 30)]
    if isinstance(block, ToolResult):
        content = block.content if isinstance(block.content, str) else _text_of(block.content)
        first = next(iter(_sentences(content, set())), "")
        return (
            [("", f"{'error' if block.is_error else 'result'}: {first}", 90 if block.is_error else 0)] if first else []
        )
    return []


def _text_of(blocks: list[Any]) -> str:
    return "\n".join(block.text for block in blocks if isinstance(block, Text))


def _sentences(text: str, seen: set[str]) -> list[str]:
    found = []
    for part in _SENTENCE.split(text[:_READ_CHARACTERS]):
        line = _cut(part.strip().removeprefix("- "), _LINE_CHARACTERS)
        if len(line) > 3 and line not in seen:
            seen.add(line)
            found.append(line)
            if len(found) == _SENTENCES:
                break
    return found


def _cut(text: str, size: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= size else text[: size - 1].rstrip() + "…"
