"""Beside the sessions of openai-agents: SQLiteSession, and AdvancedSQLiteSession with its branches.

Both open their database in WAL mode with SQLite's own synchronous=FULL: durable on both sides. They are called within
one running event loop; each call goes through their worker threads, as it always does.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import chronicle_py as chronicle
from bench.figure import Measured, better, figure
from bench.measure import US, alternate, each, seconds
from bench.peers import installed
from bench.stores import SLOT, Session, payload

_GROUP = "beside openai-agents"
_SIZE = 20
ITEMS = 300
Times = tuple[list[float], ...]


def _item(i: int) -> dict[str, str]:
    return {**payload(i), "role": "user" if i % 2 == 0 else "assistant"}


async def _awaited(calls: Iterable[Callable[[], Awaitable[object]]]) -> list[float]:
    found = []
    for call in calls:
        start = time.perf_counter()
        await call()
        found.append(time.perf_counter() - start)
    return found


def _session(session: Session, advanced: bool) -> Any:
    installed("openai-agents")
    if advanced:
        from agents.extensions.memory import AdvancedSQLiteSession

        return AdvancedSQLiteSession(session_id="1", db_path=session.new(), create_tables=True)
    from agents import SQLiteSession

    return SQLiteSession("1", session.new())


def _measure(session: Session, advanced: bool) -> dict[str, Times]:
    """Times of (ours, theirs), by what is done; of "branch" ours are a fork, and a fork with one message appended."""
    other = _session(session, advanced)
    found: dict[str, Times] = {}
    with asyncio.Runner() as runner, chronicle.open(session.new(), durability="full") as store:
        store.register_state(SLOT, kind="append_log")
        main = store.branch()
        log = main.state(SLOT)

        def add(n: int) -> list[float]:
            calls = [lambda i=i: other.add_items([_item(i)]) for i in range(n * _SIZE, n * _SIZE + _SIZE)]
            return runner.run(_awaited(calls))

        found["add"] = alternate(
            ITEMS // _SIZE,
            lambda n: each(log.append, [(_item(i),) for i in range(n * _SIZE, n * _SIZE + _SIZE)]),
            add,
        )
        found["get"] = alternate(
            session.pick(30, 10),
            lambda _: [seconds(lambda: list(log))],
            lambda _: runner.run(_awaited([other.get_items])),
        )
        if list(log) != runner.run(other.get_items()):
            raise AssertionError("the two have different items")
        if advanced:
            turn = ITEMS // 2  # the last one: all items before it belong to the branch

            def branch(n: int) -> list[float]:
                taken = runner.run(_awaited([lambda: other.create_branch_from_turn(turn, f"branch-{n}")]))
                runner.run(other.switch_to_branch("main"))
                return taken

            found["branch"] = alternate(
                session.pick(40, 10),
                lambda n: [seconds(lambda: main.fork(f"branch-{n}", 2 * turn - 2))],
                branch,
            )
        other.close()
    return found


def _simple(session: Session) -> dict[str, Times]:
    return _measure(session, False)


def _advanced(session: Session) -> dict[str, Times]:
    return _measure(session, True)


def _note() -> str:
    return installed("openai-agents")


@figure("add one item, both durable", "µs", better(1.4), group=_GROUP, against="AdvancedSQLiteSession")
def add_advanced(session: Session) -> Measured:
    ours, theirs = session.once(_advanced)["add"]
    return Measured.of(ours, US, theirs, "AdvancedSQLiteSession.add_items of one", _note())


@figure(f"branch at {ITEMS} items, both durable", "µs", better(40), group=_GROUP, against="AdvancedSQLiteSession")
def branch(session: Session) -> Measured:
    ours, theirs = session.once(_advanced)["branch"]
    return Measured.of(ours, US, theirs, "create_branch_from_turn of the last turn")


@figure(f"get {ITEMS} items, with branches", "µs", group=_GROUP, against="AdvancedSQLiteSession")
def get_advanced(session: Session) -> Measured:
    ours, theirs = session.once(_advanced)["get"]
    return Measured.of(ours, US, theirs, "AdvancedSQLiteSession.get_items")


@figure("add one item to the plain session, both durable", "µs", group=_GROUP, against="SQLiteSession")
def add(session: Session) -> Measured:
    ours, theirs = session.once(_simple)["add"]
    return Measured.of(ours, US, theirs, "SQLiteSession.add_items of one")


@figure(f"get {ITEMS} items", "µs", group=_GROUP, against="SQLiteSession")
def get(session: Session) -> Measured:
    ours, theirs = session.once(_simple)["get"]
    return Measured.of(ours, US, theirs, "SQLiteSession.get_items")
