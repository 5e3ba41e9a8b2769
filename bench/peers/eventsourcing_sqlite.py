"""Beside the library eventsourcing with its SQLite module: one aggregate whose events are messages.

An append triggers an event on the aggregate and saves it with the application (its mapper, its recorder, WAL mode); a
replay is `repository.get`, which folds all events of the aggregate. Its recorder alone, which stores bytes that it is
given, has a row as well.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec

import chronicle_py as chronicle
from bench.figure import RATE, SHOWN, Measured, Measurement, Must, better, figure
from bench.measure import US, alternate, each, seconds
from bench.peers import installed
from bench.stores import SLOT, TYPED, TYPED_SLOT, Counting, Message, Session, payload, relaxed

_GROUP = "beside eventsourcing"
REPLAYED = 10_000


def _application(path: Path, synchronous: str) -> Any:
    """An application on a database in WAL mode; the connections of its pool get this PRAGMA synchronous."""
    installed("eventsourcing")
    from eventsourcing.application import Application

    app: Any = Application(env={"PERSISTENCE_MODULE": "eventsourcing.sqlite", "SQLITE_DBNAME": str(path)})
    for connection in app.factory.datastore.pool._pool:
        connection._sqlite_conn.execute(f"PRAGMA synchronous={synchronous}")
    return app


def _aggregate() -> Any:
    from bench.peers.conversation_aggregate import Conversation

    return Conversation()


def _appends(session: Session, synchronous: str, rounds: int, size: int) -> Measured:
    app = _application(session.new(), synchronous)
    talk = _aggregate()

    def add(item: dict[str, str]) -> None:
        talk.add(**item)
        app.save(talk)

    durability = "full" if synchronous == "FULL" else "relaxed"
    with chronicle.open(session.new(), durability=durability) as store:  # type: ignore[arg-type]
        store.register_state(SLOT, kind="append_log")
        log = store.branch().state(SLOT)
        ours, theirs = alternate(
            rounds,
            lambda n: each(log.append, [(payload(n * size + i),) for i in range(size)]),
            lambda n: each(add, [(payload(n * size + i),) for i in range(size)]),
        )
    app.close()
    return Measured.of(ours, US, theirs, f"save of one event, synchronous={synchronous}", installed("eventsourcing"))


def _row(name: str, unit: str, must: Must = SHOWN) -> Callable[[Measurement], Measurement]:
    return figure(name, unit, must, group=_GROUP, against="eventsourcing")


@_row("append, relaxed", "µs", better(3))
def append(session: Session) -> Measured:
    return _appends(session, "NORMAL", session.pick(20, 4), 100)


@_row("append, both durable", "µs", better(1))
def append_durable(session: Session) -> Measured:
    return _appends(session, "FULL", session.pick(40, 8), 25)


@_row("append, relaxed, beside the recorder alone", "µs")
def append_recorder(session: Session) -> Measured:
    app = _application(session.new(), "NORMAL")
    from eventsourcing.persistence import StoredEvent

    recorder, origin, size = app.factory.application_recorder(), uuid4(), 100
    for connection in app.factory.datastore.pool._pool:
        connection._sqlite_conn.execute("PRAGMA synchronous=NORMAL")

    def insert(version: int, item: dict[str, str]) -> None:
        recorder.insert_events([StoredEvent(origin, version, "message", msgspec.msgpack.encode(item))])

    with relaxed(session.new()) as store:
        store.register_state(SLOT, kind="append_log")
        log = store.branch().state(SLOT)
        ours, theirs = alternate(
            session.pick(20, 4),
            lambda n: each(log.append, [(payload(n * size + i),) for i in range(size)]),
            lambda n: each(insert, [(n * size + i + 1, payload(n * size + i)) for i in range(size)]),
        )
    app.close()
    return Measured.of(ours, US, theirs, "insert_events of one, synchronous=NORMAL")


@_row(f"replay {REPLAYED:,} typed events into a count", RATE, better(15))
def replay(session: Session) -> Measured:
    app = _application(session.new(), "OFF")
    talk = _aggregate()
    for i in range(REPLAYED):
        talk.add(**payload(i))
    app.save(talk)
    with relaxed(session.typed(REPLAYED)) as store:
        store.register_event(TYPED, Message)
        store.register_state(TYPED_SLOT, reducer=Counting(), types=(TYPED,))
        branch = store.branch()

        def ours(_: int) -> list[float]:
            found = branch.replay(TYPED_SLOT)
            if not found.equal or found.events != REPLAYED:
                raise AssertionError(f"replay did not give the stored state: {found}")
            return [found.seconds]

        def theirs(_: int) -> list[float]:
            found: list[Any] = []
            taken = seconds(lambda: found.append(app.repository.get(talk.id)))
            if found[0].messages != REPLAYED:
                raise AssertionError("the aggregate has another count")
            return [taken]

        mine, others = alternate(session.pick(9, 3), ours, theirs)
    app.close()
    return Measured.rate(mine, REPLAYED, others, "repository.get of the aggregate")
