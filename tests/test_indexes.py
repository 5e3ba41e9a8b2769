"""Indexes against a naive model: the values at a path of a list's items or a dict's values, sorted."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from conftest import Clock, Entropy
from hypothesis import given, settings
from hypothesis import strategies as st

import chronicle_py as chronicle
from chronicle_py import (
    Branch,
    InvalidName,
    InvalidOperation,
    NotFound,
    ReadOnly,
    StateExists,
    StateNotRegistered,
    Store,
    checkpoints,
    index_kind,
    slots,
    tiers,
)
from chronicle_py.index_keys import key_of, value_of
from chronicle_py.records import BLOCK

# --- the model ----------------------------------------------------------------------------------------------------------

MISSING = object()
ORDER = [type(None), bool, "nan", float, datetime, str, bytes]


def place_of(value: Any) -> Any:
    """What values are sorted by; None for one that has no place."""
    kind: Any = type(value)
    if kind is float and math.isnan(value):
        return (2, 0)
    kind = float if kind is int else kind
    return (ORDER.index(kind), 0 if value is None else value) if kind in ORDER else None


def at_path(item: Any, parts: tuple[str, ...]) -> Any:
    for part in parts:
        if isinstance(item, dict) and part in item:
            item = item[part]
        elif isinstance(item, list) and part.isdigit() and int(part) < len(item):
            item = item[int(part)]
        else:
            return MISSING
    return item


def indexed(state: Any, parts: tuple[str, ...]) -> list[tuple[Any, Any, Any]]:
    """(what it is sorted by, place, value), in order."""
    pairs = enumerate(state) if isinstance(state, list) else state.items()
    rows = [(place_of(value), place, value) for place, item in pairs if (value := at_path(item, parts)) is not MISSING]
    return sorted((row for row in rows if row[0] is not None), key=lambda row: row[:2])


def same(a: Any, b: Any) -> bool:
    return bool(place_of(a) == place_of(b))


def check(view: Any, state: Any, path: str, probes: list[Any], prefixes: list[Any]) -> None:
    """Every question that an index answers, compared with the model's answer."""
    parts = tuple(path.split(".")) if path else ()
    index, rows = view.where(path), indexed(state, parts)
    assert (len(index), index.unindexed) == (len(rows), len(state) - len(rows))
    everything = [place for _, place, _ in rows]
    assert list(index.range()) == everything
    assert list(index.range(reverse=True)) == everything[::-1]
    assert list(index.range(limit=3).items()) == [(place, state[place]) for place in everything[:3]]
    counted = Counter(key for key, _, _ in rows)
    found = list(index.counts())
    assert [(place_of(value), n) for value, n in found] == sorted(counted.items())
    assert [value for value, _ in index.counts(reverse=True)].__repr__() == [v for v, _ in found[::-1]].__repr__()
    for probe in probes:
        wanted = [place for key, place, _ in rows if key == place_of(probe)]
        matches = index.equal(probe)
        assert (list(matches), len(matches), index.count(probe)) == (wanted, len(wanted), len(wanted))
        assert all(same(at_path(item, parts), probe) for _, item in matches.items())
    for low, high in zip(probes, probes[1:], strict=False):
        for include in ("both", "low", "high", "neither"):
            wanted = [place for key, place, _ in rows if between(key, low, high, include)]
            assert list(index.range(low, high, include=include)) == wanted, (low, high, include)
            assert len(index.range(low, high, include=include)) == len(wanted)
    for prefix in prefixes:
        wanted = [p for _, p, value in rows if type(value) is type(prefix) and value.startswith(prefix)]
        assert list(index.prefix(prefix)) == wanted, prefix
        assert list(index.prefix(prefix, reverse=True)) == wanted[::-1]


def between(key: Any, low: Any, high: Any, include: str) -> bool:
    least, most = (None if bound is None else place_of(bound) for bound in (low, high))
    if least is not None and not (key >= least if include in ("both", "low") else key > least):
        return False
    if most is not None and not (key <= most if include in ("both", "high") else key < most):
        return False
    if least is None and most is not None:
        return bool(key[0] == most[0])
    return bool(most is not None or least is None or key[0] == least[0])


# --- random programs ----------------------------------------------------------------------------------------------------

HEAD = "https://example.org/a/long/beginning/that/many/texts/share/and/then/"
TEXTS = [
    "",
    "a",
    "ab",
    "a\0",
    "a\x01",
    "b\0\x03",
    "é",
    "\U0010ffff",
    "\ud7ff",
    HEAD[:64],
    HEAD,
    HEAD + "x",
    HEAD + "xy",
]
VALUES = [
    None, True, False, 0, 1, 1.0, -0.0, 2**53, 2**53 + 1, float(2**53), -(2**63), 2**64 - 1, 0.1, -3.5, math.inf,
    -math.inf, math.nan, 5e-324, datetime(2024, 5, 1, tzinfo=UTC), datetime(1969, 1, 1, 1, tzinfo=UTC), b"", b"a",
    b"\xff\0\x01", b"x" * 70, b"x" * 70 + b"y", *TEXTS,
]  # fmt: skip
scalars = st.sampled_from(VALUES) | st.integers(-3, 3) | st.text(max_size=3)
items = st.one_of(
    st.fixed_dictionaries({"a": scalars}),
    st.fixed_dictionaries({"a": st.fixed_dictionaries({"b": scalars}), "z": st.just(1)}),
    st.fixed_dictionaries({"a": st.lists(scalars, max_size=2)}),
    st.just({}),
    scalars,
)
PATHS = ["a", "a.b", "a.0", ""]
names = st.sampled_from(["p", "q", "q/r", "s"])
operations = st.one_of(
    st.tuples(st.just("append"), st.lists(items, min_size=1, max_size=9)),
    st.tuples(st.just("edit"), st.integers(0, 40), items),
    st.tuples(st.just("redact"), st.integers(0, 20), st.integers(0, 12)),
    st.tuples(st.just("set"), st.lists(items, max_size=12)),
    st.tuples(st.just("put"), st.lists(st.tuples(names, items), min_size=1, max_size=4)),
    st.tuples(st.just("batch"), st.lists(st.tuples(names, st.none() | st.tuples(items)), max_size=4)),
    st.tuples(st.just("other"), st.integers(1, 70)),
    st.tuples(st.just("fork"), st.integers(0, 400)),
    st.tuples(st.just("rewind"), st.integers(0, 400)),
    st.tuples(st.just("switch"), st.integers(0, 5)),
    st.tuples(st.just("register"), st.sampled_from(["log", "tree"]), st.sampled_from(PATHS)),
    st.tuples(st.just("reopen")),
    st.tuples(st.just("ask"), st.integers(0, 400), st.lists(st.sampled_from(VALUES), min_size=2, max_size=4)),
)


class World:
    """A store and, for each branch, the model's states at every sequence."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock, self.entropy = Clock(), Entropy()
        self.store = self.open()
        self.store.register_state("log", kind="append_log", sources=["more"], types=["said"], initial=[{"a": 1}, 5])
        self.store.register_state("more", kind="append_log")
        self.store.register_state("tree", kind="tree", initial={"i": {"a": "initial"}})
        self.histories: dict[str, list[tuple[list[Any], dict[str, Any]]]] = {
            "main": [([{"a": 1}, 5], {"i": {"a": "initial"}})]
        }
        self.name = "main"
        self.registered: set[tuple[str, str]] = set()

    def open(self) -> Store:
        return chronicle.open(self.path, durability="relaxed", clock=self.clock, entropy=self.entropy)

    @property
    def branch(self) -> Branch:
        return self.store.branch(self.name)

    def note(self, change: Callable[[list[Any], dict[str, Any]], None]) -> None:
        log, tree = self.histories[self.name][-1]
        log, tree = list(log), dict(tree)
        change(log, tree)
        self.histories[self.name].append((log, tree))

    def run(self, op: tuple[Any, ...]) -> None:
        getattr(self, op[0])(*op[1:])

    def append(self, new: list[Any]) -> None:
        for n, item in enumerate(new):
            if n % 3 == 0:
                self.branch.state("log").append(item)
            elif n % 3 == 1:
                self.branch.state("more").append(item)
            else:
                self.branch.append("said", item)
            self.note(lambda log, tree, item=item: log.append(item))  # type: ignore[misc]

    def edit(self, at: int, item: Any) -> None:
        log = self.histories[self.name][-1][0]
        if log:
            at %= len(log)
            self.branch.state("log").edit(at, item)
            self.note(lambda log, tree: log.__setitem__(at, item))

    def redact(self, start: int, count: int) -> None:
        self.branch.state("log").redact(start, start + count)
        self.note(lambda log, tree: log.__delitem__(slice(start, start + count)))

    def set(self, new: list[Any]) -> None:
        self.branch.state("log").set(new)
        self.note(lambda log, tree: log.__setitem__(slice(None), new))

    def put(self, pairs: list[tuple[str, Any]]) -> None:
        for path, value in pairs:
            self.branch.state("tree").put(path, value)
            self.note(lambda log, tree, path=path, value=value: tree.__setitem__(path, value))  # type: ignore[misc]

    def batch(self, changes: list[tuple[str, tuple[Any] | None]]) -> None:
        there = set(self.histories[self.name][-1][1])
        ops: list[tuple[Any, ...]] = []
        for path, value in changes:
            if value is not None:
                ops.append(("put", path, value[0]))
                there.add(path)
            elif path in there:
                ops.append(("remove", path))
                there.discard(path)
        self.branch.state("tree").batch(ops)

        def change(log: list[Any], tree: dict[str, Any]) -> None:
            for _, path, *value in ops:
                if value:
                    tree[path] = value[0]
                else:
                    del tree[path]

        self.note(change)

    def other(self, count: int) -> None:
        with self.store.transaction():
            for n in range(count):
                self.branch.append("noise", n)
                self.note(lambda log, tree: None)

    def fork(self, at: int) -> None:
        history = self.histories[self.name]
        at %= len(history)
        name = f"b{len(self.histories)}"
        self.branch.fork(name, at=at)
        self.histories[name] = history[: at + 1]
        self.name = name

    def rewind(self, to: int) -> None:
        history = self.histories[self.name]
        to %= len(history)
        self.branch.rewind(to)
        del history[to + 1 :]

    def switch(self, to: int) -> None:
        self.name = sorted(self.histories)[to % len(self.histories)]

    def register(self, slot: str, path: str) -> None:
        self.store.register_index(slot, path)
        self.registered.add((slot, path))

    def reopen(self) -> None:
        self.store.close()
        self.store = self.open()

    def ask(self, at: int, probes: list[Any]) -> None:
        history = self.histories[self.name]
        prefixes = [probe[:k] for probe in probes if isinstance(probe, str | bytes) for k in (1, 66, 100)]
        for slot, path in sorted(self.registered):
            for seq in (at % len(history), None):
                log, tree = history[-1 if seq is None else seq]
                state = log if slot == "log" else dict(sorted(tree.items(), key=lambda pair: pair[0].encode()))
                check(self.branch.state(slot, at=seq), state, path, probes, prefixes)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs and strides so small that short programs meet many of them."""
    monkeypatch.setattr(tiers, "FLUSH", 5)
    monkeypatch.setattr(index_kind, "FLUSH", 5)
    monkeypatch.setattr(slots, "INDEX_STRIDE", 2)
    monkeypatch.setattr(checkpoints, "_CATCH_UP", 4 * BLOCK)


@given(st.lists(operations, min_size=5, max_size=40), st.lists(st.sampled_from(VALUES), min_size=2, max_size=4))
def test_an_index_is_what_a_scan_of_the_slot_would_find(
    tmp_path_factory: pytest.TempPathFactory, small: None, program: list[tuple[Any, ...]], probes: list[Any]
) -> None:
    world = World(tmp_path_factory.mktemp("world") / "store")
    try:
        world.register("log", "a")
        for op in program:
            world.run(deepcopy(op))
        for name in world.histories:
            world.name = name
            world.ask(len(world.histories[name]) // 2, probes)
        for slot, path in world.registered:
            assert world.branch.replay(f"{slot}#{path}").equal
        assert world.store.verify(deep=True).problems == []
    finally:
        world.store.close()
