"""Coding sessions of Claude Code: a record a line (or `loglines` of an object), linked by `parentUuid`. Pure.

Records of the types "user" and "assistant" are messages, or pieces of one; all others carry links and are passed
through. Where a link leads is settled in session_links.py. Then:

- Several assistant records of one `message.id` on one path are one message, with the blocks of all.
- Tool results that answer one message are a run, one after the other, also where each names its own call's record as
  its parent; what follows any of them follows the run. They part only where the same call is answered twice.
- A side chain (`isSidechain`) starts a branch of its own. The last message of the file is where the session stands.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from chronicle_py.context.importers.documents import Placed
from chronicle_py.context.importers.history import History, Read, SourceMessage, last_leaf, without_circles
from chronicle_py.context.importers.moments import moment
from chronicle_py.context.importers.session_links import Record, key_of, parents
from chronicle_py.exchange.faults import Fault

FORM = "Claude Code session"
SOURCE = "claude-code"
_ROLES = ("user", "assistant")
_KEPT = {
    "sessionId": "session", "cwd": "cwd", "gitBranch": "git_branch", "agentId": "agent", "isMeta": "meta",
    "isCompactSummary": "compact_summary", "isApiErrorMessage": "api_error", "isSidechain": "sidechain",
}  # fmt: skip


def read(records: Iterable[Placed], faults: list[Fault]) -> Read:
    """The session in these records. `faults`: those that are known already."""
    faults = list(faults)
    found: list[Record] = []
    titles: dict[str, str] = {}
    for number, placed in enumerate(records):
        value = placed.value
        if not isinstance(value, dict) or not isinstance(value.get("type"), str):
            faults.append(Fault(placed.where, f"a record is an object with a type, not {_short(value)}"))
            continue
        title = value.get("customTitle") or value.get("summary")
        if isinstance(title, str) and title.strip():
            titles["custom" if value.get("customTitle") else str(value.get("leafUuid"))] = title
        wrong = _wrong(value) if value["type"] in _ROLES else None
        if wrong is not None:
            faults.append(Fault(placed.where, f"{wrong}"))
        found.append(Record(number, placed.where, value, value["type"] in _ROLES and wrong is None))
    kept = _once(found)
    if all(record.side is not None for record in kept if record.is_message):  # the file of one agent
        kept = [record.on_main() for record in kept]
    history = _Session(kept).history(_title(titles, kept))
    return Read(FORM, [history] if history.messages else [], faults)


def _wrong(value: dict[str, Any]) -> str | None:
    """What keeps a record of a message's type from being one."""
    message = value.get("message")
    if not isinstance(message, dict):
        return f"a record of type {value['type']!r} has a message, an object, not {_short(message)}"
    content = message.get("content")
    if not isinstance(content, str | list):
        return f"a message's content is a text or a list of blocks, not {_short(content)}"
    if isinstance(content, list) and not all(isinstance(block, dict | str) for block in content):
        return "a message's content is a list of blocks, and one of these is none"
    return None


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:40] + "…"


def _title(titles: dict[str, str], records: list[Record]) -> str:
    if "custom" in titles:
        return titles["custom"]
    uuids = {record.uuid for record in records}
    return next((title for leaf, title in reversed(titles.items()) if leaf in uuids), "")


def _once(records: list[Record]) -> list[Record]:
    """One record of each uuid: the first, but a message rather than a record that is none."""
    best: dict[str, Record] = {}
    for record in records:
        if record.uuid is not None:
            other = best.get(record.uuid)
            if other is None or (record.is_message and not other.is_message):
                best[record.uuid] = record
    return [record for record in records if record.uuid is None or best[record.uuid] is record]


class _Piece:
    """A message in the making."""

    def __init__(self, record: Record) -> None:
        self.records = [record]
        self.blocks = list(record.blocks)
        self.key = key_of(record)

    def join(self, record: Record) -> None:
        """Another record of the same message; a call that it repeats is not made twice."""
        calls = {block.get("id") for block in self.blocks if block.get("type") == "tool_use"}
        self.blocks += [b for b in record.blocks if not (b.get("type") == "tool_use" and b.get("id") in calls)]
        self.records.append(record)


class _Session:
    """The messages of a session, as they come out of its records."""

    def __init__(self, records: list[Record]) -> None:
        self.messages = [record for record in records if record.is_message]
        self.parents = parents(records)
        self.pieces: dict[str, _Piece] = {}  # by key
        self.home: dict[str, str] = {}  # key of a record -> key of its message
        self.after: dict[str, str | None] = {}  # between messages

    def history(self, title: str) -> History:
        self._gather()
        self._line_up_results()
        after = without_circles(self.after)
        messages = {key: self._message(piece, after[key]) for key, piece in self.pieces.items()}
        side = frozenset(k for k, piece in self.pieces.items() if piece.records[0].side is not None and not after[k])
        last = next((self.home[key_of(r)] for r in reversed(self.messages) if r.side is None), None)
        return History(
            source=SOURCE, messages=messages, current=last_leaf(messages, last), side=side, title=title,
            updated=max((m.at for m in messages.values() if m.at is not None), default=None),
        )  # fmt: skip

    def _gather(self) -> None:
        """Joins records of one message."""
        by_key = {key_of(record): record for record in self.messages}
        siblings: dict[tuple[str, str | None], str] = {}
        for record in self.messages:
            key, mid = key_of(record), record.message_id
            parent = self.parents[key]
            home = self._same_message(by_key, parent, mid) if mid else None
            if mid and home is None:
                home = siblings.get((mid, parent))
            if home is None:
                home = key
                self.pieces[key] = _Piece(record)
            else:
                self.pieces[home].join(record)
            self.home[key] = home
            if mid:
                siblings.setdefault((mid, parent), home)
        for key, piece in self.pieces.items():
            parent = self.parents[key_of(piece.records[0])]
            self.after[key] = None if parent is None else self.home[parent]

    def _same_message(self, by_key: dict[str, Record], parent: str | None, mid: str) -> str | None:
        """The message of this `message.id` that a record continues: right above it, or above results it got."""
        passed = set()
        while parent is not None and parent not in passed and by_key[parent].only_results:
            passed.add(parent)
            parent = self.parents[parent]
        if parent is None or by_key[parent].message_id != mid:
            return None
        return self.home.get(parent)

    def _line_up_results(self) -> None:
        """Makes one run of the results that answer one message."""
        runs: dict[str, list[_Run]] = {}  # by the message they answer
        run_of: dict[str, _Run] = {}  # by the key of a result
        for key, piece in self.pieces.items():
            parent = self.after[key]
            answers = piece.records[0].answers
            if parent is None or not piece.records[0].only_results:
                continue
            beside = run_of.get(parent)
            if beside is None and not self.pieces[parent].records[0].is_assistant:
                continue
            caller = parent if beside is None else beside.caller
            fitting = [beside] if beside is not None else runs.get(caller, [])
            run = next((run for run in fitting if run.answers.isdisjoint(answers)), None)
            if run is None:
                if beside is not None:
                    continue
                run = _Run(caller)
                runs.setdefault(caller, []).append(run)
            else:
                self.after[key] = run.tail
            run.tail = key
            run.answers |= answers
            run_of[key] = run
        for key, parent in self.after.items():
            if parent is not None and key not in run_of and (run := run_of.get(parent)) is not None:
                self.after[key] = run.tail

    def _message(self, piece: _Piece, after: str | None) -> SourceMessage:
        record = piece.records[0]
        said = record.value["message"]
        metadata = {name: record.value[key] for key, name in _KEPT.items() if record.value.get(key)}
        for name in ("model", "stop_reason"):
            value = next(
                (r.value["message"][name] for r in reversed(piece.records) if r.value["message"].get(name)), None
            )
            if value is not None:
                metadata[name] = value
        if record.message_id:
            metadata["message_id"] = record.message_id
        role = said.get("role")
        return SourceMessage(
            key=piece.key, after=after, participant=role if isinstance(role, str) and role else record.value["type"],
            blocks=piece.blocks, id=record.uuid, at=moment(record.value.get("timestamp")), metadata=metadata,
            where=record.where,
        )  # fmt: skip


class _Run:
    """Results that answer one message, one after the other."""

    def __init__(self, caller: str) -> None:
        self.caller = caller
        self.tail = ""
        self.answers: set[str] = set()
