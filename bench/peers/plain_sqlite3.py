"""Beside Python's own sqlite3: a table of rows, WAL mode, no hashes and no branches: a floor, as plain LMDB is."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import msgspec

import chronicle_py as chronicle
from bench.figure import RATE, Measured, better, figure
from bench.measure import US, alternate, each, seconds
from bench.stores import BATCH, SLOT, Session, payload, relaxed

_GROUP = "beside sqlite3"
_NAME = f"sqlite3 (SQLite {sqlite3.sqlite_version})"
_INSERT = "INSERT INTO events (id, payload) VALUES (?, ?)"
EVENTS = 100_000
encode = msgspec.msgpack.encode


def connect(path: Path, synchronous: str) -> sqlite3.Connection:
    """A database with a table of events, each commit on its own."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute(f"PRAGMA synchronous={synchronous}")
    db.execute("CREATE TABLE IF NOT EXISTS events (seq INTEGER PRIMARY KEY, id BLOB, payload BLOB)")
    return db


def _id(i: int) -> bytes:
    return i.to_bytes(32, "big")


def _one_by_one(session: Session, synchronous: str, rounds: int, size: int) -> Measured:
    """The row's payload is encoded in the timed part, as ours is."""
    db = connect(session.new(), synchronous)
    insert: Callable[[int, dict[str, str]], object] = lambda i, item: db.execute(_INSERT, (_id(i), encode(item)))  # noqa: E731
    durability = "full" if synchronous == "FULL" else "relaxed"
    with chronicle.open(session.new(), durability=durability) as store:  # type: ignore[arg-type]
        store.register_state(SLOT, kind="append_log")
        log = store.branch().state(SLOT)
        ours, other = alternate(
            rounds,
            lambda n: each(log.append, [(payload(n * size + i),) for i in range(size)]),
            lambda n: each(insert, [(n * size + i, payload(n * size + i)) for i in range(size)]),
        )
    db.close()
    return Measured.of(ours, US, other, f"an INSERT, committed, WAL, synchronous={synchronous}")


@figure("append to an append_log slot, fully durable", "µs", better(1), group=_GROUP, against=_NAME)
def durable(session: Session) -> Measured:
    return _one_by_one(session, "FULL", session.pick(80, 20), 25)


@figure("append to an append_log slot, relaxed", "µs", group=_GROUP, against=_NAME)
def relaxed_append(session: Session) -> Measured:
    return _one_by_one(session, "NORMAL", session.pick(20, 5), 500)


@figure("append, 1,000 per transaction, relaxed: an event", "µs", group=_GROUP, against=_NAME)
def batched(session: Session) -> Measured:
    db = connect(session.new(), "NORMAL")
    with relaxed(session.new()) as store:
        store.register_state(SLOT, kind="append_log")
        log = store.branch().state(SLOT)

        def transact(items: list[dict[str, str]]) -> None:
            with store.transaction():
                for item in items:
                    log.append(item)

        def insert(first: int, items: list[dict[str, str]]) -> None:
            db.execute("BEGIN")
            db.executemany(_INSERT, [(_id(first + i), encode(item)) for i, item in enumerate(items)])
            db.execute("COMMIT")

        def batch(n: int) -> list[dict[str, str]]:
            return [payload(n * BATCH + i) for i in range(BATCH)]

        ours, other = alternate(
            session.pick(40, 10),
            lambda n: [t / BATCH for t in each(transact, [(batch(n),)])],
            lambda n: [t / BATCH for t in each(insert, [(n * BATCH, batch(n))])],
        )
    db.close()
    return Measured.of(ours, US, other, "executemany in one transaction")


@figure("walk all events", RATE, group=_GROUP, against=_NAME)
def walk(session: Session) -> Measured:
    db = connect(session.new(), "NORMAL")
    db.execute("BEGIN")
    db.executemany(_INSERT, [(_id(i), encode(payload(i))) for i in range(EVENTS)])
    db.execute("COMMIT")
    with relaxed(session.one_by_one(EVENTS)) as store:
        branch = store.branch()
        ours, other = alternate(
            session.pick(9, 3),
            lambda _: [seconds(lambda: sum(1 for _ in branch.events()))],
            lambda _: [seconds(lambda: sum(1 for _ in db.execute("SELECT seq, id, payload FROM events ORDER BY seq")))],
        )
    db.close()
    return Measured.rate(ours, EVENTS, other, "a SELECT of all rows, undecoded")
