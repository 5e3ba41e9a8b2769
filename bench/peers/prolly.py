"""Beside prollytree, a prolly tree in Rust: keys and values, in memory; ours in memory and in a file, as a row says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.figure import SHOWN, Measured, Measurement, Must, better, figure
from bench.measure import US, alternate, each, seconds
from bench.peers import installed
from bench.stores import Session, relaxed
from bench.trees import path_of
from chronicle_py.collections import Map

_GROUP = "beside prollytree"
_SIZE = 1_000
Times = tuple[list[float], ...]


def _tree() -> Any:
    installed("prollytree")
    from prollytree import ProllyTree

    return ProllyTree("memory")


def _pairs(n: int) -> list[tuple[bytes, bytes]]:
    return [(path_of(i * 7919 % 100_000).encode(), bytes(80) + str(i).encode()) for i in range(n)]


def _inserts(session: Session) -> Times:
    """Seconds of inserts one at a time, each followed by the new root: (Map, prollytree); the trees grow alike."""
    theirs = _tree()
    pairs = _pairs(session.pick(3, 2) * _SIZE)
    mine: list[Map[bytes]] = [Map()]

    def set_ours(key: str, value: bytes) -> None:
        mine[0] = mine[0].set(key, value)
        _ = mine[0].content

    def set_theirs(key: bytes, value: bytes) -> None:
        theirs.insert(key, value)
        theirs.get_root_hash()

    size = 100
    found = alternate(
        len(pairs) // size,
        lambda n: each(set_ours, [(key.decode(), value) for key, value in pairs[n * size : n * size + size]]),
        lambda n: each(set_theirs, pairs[n * size : n * size + size]),
    )
    if len(mine[0]) != theirs.size():
        raise AssertionError("the two trees have different sizes")
    return found


def _row(name: str, must: Must = SHOWN) -> Callable[[Measurement], Measurement]:
    return figure(name, "µs", must, group=_GROUP, against="prollytree")


@_row("insert one at a time into a Map in memory, its root computed each time")
def insert(session: Session) -> Measured:
    ours, theirs = session.once(_inserts)
    return Measured.of(ours, US, theirs, "insert, storage in memory", f"{len(ours):,} keys; {installed('prollytree')}")


@_row("insert one at a time into a tree slot, committed to a file with its history, relaxed", better(10))
def insert_committed(session: Session) -> Measured:
    theirs = session.once(_inserts)[1]
    pairs = _pairs(len(theirs))
    with relaxed(session.new()) as store:
        store.register_state("tree", kind="tree")
        tree = store.branch().state("tree")
        ours = each(tree.put, [(key.decode(), value) for key, value in pairs])
    return Measured.of(ours, US, theirs, "insert, storage in memory")


@_row("insert in one batch, a key")
def insert_batch(session: Session) -> Measured:
    _tree()
    pairs = _pairs(10_000)
    named = [(key.decode(), value) for key, value in pairs]

    def theirs() -> None:
        tree = _tree()
        tree.insert_batch(pairs)
        tree.get_root_hash()

    ours, other = alternate(
        session.pick(9, 3),
        lambda _: [seconds(lambda: Map(named).content) / len(pairs)],
        lambda _: [seconds(theirs) / len(pairs)],
    )
    return Measured.of(ours, US, other, "insert_batch of 10,000", "theirs is Rust")


@_row("get a key of 3,000")
def get(session: Session) -> Measured:
    theirs = _tree()
    pairs = _pairs(3_000)
    theirs.insert_batch(pairs)
    mine: Map[bytes] = Map([(key.decode(), value) for key, value in pairs])
    _ = mine.content
    ours, other = alternate(
        session.pick(5, 2),
        lambda _: each(mine.__getitem__, [(key.decode(),) for key, _ in pairs]),
        lambda _: each(theirs.find, [(key,) for key, _ in pairs]),
    )
    return Measured.of(ours, US, other, "find")
