"""Beside LangGraph's SqliteSaver: a checkpoint a turn with the whole message list, against the two messages.

The list holds LangChain's messages, as LangGraph's `MessagesState` does; rows with "plain dicts" hold those instead,
which the saver packs much faster. Its database is in WAL mode, as it sets it, with synchronous=NORMAL: relaxed on both
sides. LangGraph can also keep a list as deltas (a checkpoint without it, and the writes of the turn beside it): that
has a row of its own.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from bench.figure import SHOWN, Measured, Must, better, figure
from bench.measure import US, alternate, each, seconds
from bench.peers import installed
from bench.stores import SLOT, Session, payload, relaxed

_GROUP = "beside LangGraph"
_PACKAGE = "langgraph-checkpoint-sqlite"
Times = tuple[list[float], ...]
Messages = list[dict[str, str]]
List = list[Any]  # of messages as LangGraph holds them


class Saver:
    """One thread of checkpoints in a SqliteSaver."""

    def __init__(self, path: Path) -> None:
        self.version = installed(_PACKAGE)
        from langgraph.checkpoint.base import empty_checkpoint
        from langgraph.checkpoint.base.id import uuid6
        from langgraph.checkpoint.sqlite import SqliteSaver

        self.path = path
        self._empty, self._uuid = empty_checkpoint, uuid6
        self.db = sqlite3.connect(path, check_same_thread=False)
        self._saver = SqliteSaver(self.db)
        self._saver.setup()
        self.db.execute("PRAGMA synchronous=NORMAL")
        self.config: Any = {"configurable": {"thread_id": "1", "checkpoint_ns": ""}}
        self.configs: list[Any] = []  # after each turn
        self._steps = 0

    def put(self, messages: List, *, after: Any = None) -> None:
        """A checkpoint with the whole list; `after`: the checkpoint it goes on from, else the last one."""
        self._steps += 1
        version = f"{self._steps:032}.0"
        checkpoint = self._empty()
        checkpoint["id"] = str(self._uuid(clock_seq=self._steps))
        checkpoint["channel_values"] = {"messages": messages}
        checkpoint["channel_versions"] = {"messages": version}
        metadata: Any = {"source": "loop", "step": self._steps}
        config = self._saver.put(after or self.config, checkpoint, metadata, {"messages": version})
        if after is None:
            self.config = config
            self.configs.append(config)

    def put_delta(self, messages: List) -> None:
        """A checkpoint without the list, and the two messages as the writes of a task."""
        self.put([])
        self._saver.put_writes(self.config, [("messages", messages)], task_id=str(self._steps))

    def go_on(self, place: int, messages: List) -> None:
        """From the checkpoint after a turn: its state read, and one put with more messages."""
        found = self._saver.get_tuple(self.configs[place])
        assert found is not None
        self.put(found.checkpoint["channel_values"]["messages"] + messages, after=self.configs[place])

    def bytes(self) -> int:
        self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return self.path.stat().st_size


def _turn(n: int) -> Messages:
    return [payload(2 * n), payload(2 * n + 1)]


def _held(messages: Messages, plain: bool) -> List:
    """Messages in the form that LangGraph's state holds."""
    if plain:
        return list(messages)
    installed("langchain-core")
    from langchain_core.messages import AIMessage, HumanMessage

    kinds = (HumanMessage, AIMessage)
    return [kinds[k % 2](content=m["content"], id=m["content"][:10]) for k, m in enumerate(messages)]


def _talk(session: Session, turns: int, plain: bool) -> tuple[Times, tuple[float, float], str]:
    """Seconds of the last turns of so many, with their messages in (chronicle-py, LangGraph); bytes a turn of both."""
    saver = Saver(session.new())
    path = session.new()
    said: list[List] = [[]]
    with relaxed(path) as store:
        store.register_state(SLOT, kind="append_log")
        log = store.branch().state(SLOT)

        def ours(messages: Messages) -> None:
            with store.transaction():
                for message in messages:
                    log.append(message)

        def theirs(n: int) -> list[float]:
            said[0] = said[0] + _held(_turn(n), plain)
            return each(saver.put, [(said[0],)])

        mine, others = alternate(turns, lambda n: each(ours, [(_turn(n),)]), theirs)
        if list(log[-2:]) != _turn(turns - 1):
            raise AssertionError("the last messages are not those of the last turn")
    size = saver.bytes()
    saver.db.close()
    last = max(20, turns // 10)  # of the last turns: the list is long then
    return (mine[-last:], others[-last:]), (path.stat().st_size / turns, size / turns), saver.version


def _of_turns(turns: int, plain: bool, time: Must = SHOWN, size: Must = SHOWN) -> None:
    def talk(session: Session) -> tuple[Times, tuple[float, float], str]:
        return _talk(session, turns, plain)

    of = ", plain dicts" if plain else ""

    @figure(f"a turn of two messages, after {turns:,} turns{of}", "µs", time, group=_GROUP, against="LangGraph")
    def turn(session: Session) -> Measured:
        (ours, theirs), _, version = session.once(talk)
        return Measured.of(ours, US, theirs, "put of the whole list, synchronous=NORMAL", version)

    @figure(f"bytes a turn, of {turns:,} turns{of}", "bytes", size, group=_GROUP, against="LangGraph")
    def bytes_of_turn(session: Session) -> Measured:
        _, (ours, theirs), _ = session.once(talk)
        return Measured(ours, theirs, "file size by turns")


_of_turns(100, False)
_of_turns(300, False, better(10), better(50))
_of_turns(1_000, False)
_of_turns(300, True)


@figure("a turn of two messages, against a delta channel", "µs", group=_GROUP, against="LangGraph")
def delta(session: Session) -> Measured:
    saver = Saver(session.new())
    with relaxed(session.new()) as store:
        store.register_state(SLOT, kind="append_log")
        log = store.branch().state(SLOT)

        def ours(messages: Messages) -> None:
            with store.transaction():
                for message in messages:
                    log.append(message)

        mine, theirs = alternate(
            session.pick(300, 50),
            lambda n: each(ours, [(_turn(n),)]),
            lambda n: each(saver.put_delta, [(_held(_turn(n), False),)]),
        )
    saver.db.close()
    return Measured.of(
        mine, US, theirs, "put without the list, put_writes of two messages", "does not grow on either side"
    )


def _fork(session: Session, turns: int) -> Times:
    """Seconds of (a fork at the middle turn, the same with two messages appended, going on from that checkpoint)."""
    saver = Saver(session.new())
    said: List = []
    for n in range(turns):
        said = said + _held(_turn(n), False)
        saver.put(said)
    middle = turns // 2
    with relaxed(session.new()) as store:
        store.register_state(SLOT, kind="append_log")
        main = store.branch()
        for n in range(turns):
            for message in _turn(n):
                main.state(SLOT).append(message)

        def fork_and_append(name: str) -> None:
            with store.transaction():
                log = main.fork(name, 2 * middle).state(SLOT)
                for message in _turn(turns):
                    log.append(message)

        found = alternate(
            session.pick(100, 20),
            lambda n: [seconds(lambda: main.fork(f"fork-{n}", 2 * middle))],
            lambda n: [seconds(lambda: fork_and_append(f"appended-{n}"))],
            lambda n: [seconds(lambda: saver.go_on(middle - 1, _held(_turn(turns), False)))],
        )
    saver.db.close()
    return found


def _fork_at(turns: int, must: Must) -> None:
    def forks(session: Session) -> Times:
        return _fork(session, turns)

    beside = "get_tuple of the checkpoint, put of its list with two more"

    @figure(f"fork at the middle of {turns:,} turns", "µs", must, group=_GROUP, against="LangGraph")
    def fork(session: Session) -> Measured:
        ours, _, theirs = session.once(forks)
        return Measured.of(ours, US, theirs, beside)

    @figure(f"fork there and append two messages, {turns:,} turns", "µs", group=_GROUP, against="LangGraph")
    def appended(session: Session) -> Measured:
        _, ours, theirs = session.once(forks)
        return Measured.of(ours, US, theirs, beside)


_fork_at(300, SHOWN)
_fork_at(1_000, better(50))
