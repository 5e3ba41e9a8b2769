"""Indexes against a naive model: the values at a path of a list's items or a dict's values, sorted."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from conftest import Clock, Entropy, Opener
from hypothesis import given
from hypothesis import strategies as st

import chronicle_py as chronicle
from chronicle_py import (
    Branch,
    Event,
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
from chronicle_py.event import encode_payload
from chronicle_py.exchange import export_lines, import_lines
from chronicle_py.index_keys import key_of, parse_path, path_text, value_of
from chronicle_py.kv import BLOCKS
from chronicle_py.records import BLOCK
from chronicle_py.tiers import Flips, Tiers
from chronicle_py.transaction import transaction

# --- the model -------------------------------------------------------------------------------------------------------

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
    assert repr(list(index.counts(reverse=True))) == repr(found[::-1])
    for probe in probes:
        wanted = [place for key, place, _ in rows if key == place_of(probe)]
        matches = index.equal(probe)
        assert (list(matches), len(matches), index.count(probe)) == (wanted, len(wanted), len(wanted))
        assert all(same(at_path(item, parts), probe) for _, item in matches.items())
    for low, high in pairwise(probes):
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


# --- random programs -------------------------------------------------------------------------------------------------

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
items: st.SearchStrategy[Any] = st.one_of(
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
    monkeypatch.setattr(checkpoints, "_WAY", 2 * BLOCK)
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


# --- keys and sets ---------------------------------------------------------------------------------------------------


numbers = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.sampled_from([0, -0.0, 5e-324, 2.0**63])


@given(numbers, numbers)
def test_numbers_sort_exactly_whether_int_or_float(a: float, b: float) -> None:
    keys = [key_of(a), key_of(b)]
    assert None not in keys
    assert (keys[0] < keys[1], keys[0] == keys[1]) == (a < b, a == b)  # type: ignore[operator]
    assert value_of(str(keys[0])) == a


@given(st.text(max_size=70), st.text(max_size=70))
def test_texts_sort_by_code_points_until_they_are_cut(a: str, b: str) -> None:
    keys = [str(key_of(a)) + "\0", str(key_of(b)) + "\0"]
    assert (keys[0] == keys[1]) == (a == b)
    if a[:64] != b[:64]:
        assert (keys[0].encode() < keys[1].encode()) == (a < b)
    if len(a) <= 64:
        assert value_of(keys[0][:-1]) == a


@given(st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=200))
def test_a_set_of_runs_is_a_set(small: None, changes: list[tuple[int, bool]]) -> None:
    model: set[str] = set()
    tiers_now = Tiers()
    for number, kept in changes:
        flips = Flips(tiers_now)
        entry = f"{number:02}"
        flips.flip(entry, entry not in model)
        model ^= {entry}
        flips.settle()
        if kept:
            tiers_now = flips.done()
        else:
            model ^= {entry}
    wanted = sorted(model)
    assert list(tiers_now.scan(None, None)) == wanted
    assert list(tiers_now.scan("10", "30", reverse=True)) == [e for e in wanted[::-1] if "10" <= e < "30"]
    assert tiers_now.count("10", "30") == sum("10" <= entry < "30" for entry in wanted)
    levels = [run.level for run in tiers_now.runs]
    assert levels == sorted(levels, reverse=True)
    assert max(Counter(levels).values(), default=0) < tiers.FANOUT


def test_paths_have_one_text_each() -> None:
    assert parse_path("meta.user.0") == ("meta", "user", "0") == parse_path(("meta", "user", 0))
    assert parse_path("") == parse_path(()) == ()
    assert path_text(("a.b", "c/d", "~")) == "a~1b.c~2d.~0"
    for wrong in ("a..b", ("a", ""), (1.5,), (True,), (-1,), 7, b"a"):
        with pytest.raises(InvalidName):
            parse_path(wrong)  # type: ignore[arg-type]


# --- registering -----------------------------------------------------------------------------------------------------


def fill(branch: Branch, count: int, start: int = 0) -> None:
    with transaction(branch.engine):
        for n in range(start, start + count):
            branch.state("log").append({"n": n % 10, "id": f"{n * 7919 % 100003:05}"})


@pytest.fixture
def log(store: Store) -> Store:
    store.register_state("log", kind="append_log")
    return store


def test_what_cannot_be_indexed_is_refused_and_nothing_is_stored(log: Store) -> None:
    log.register_state("value", kind="value")
    with pytest.raises(StateNotRegistered, match="no slot 'nope'"):
        log.register_index("nope", "a")
    with pytest.raises(InvalidOperation, match="'value' is of kind 'value'"):
        log.register_index("value", "a")
    with pytest.raises(InvalidName, match="at most 255 bytes"):
        log.register_index("log", "a" * 300)
    with pytest.raises(InvalidOperation, match="progress"):
        log.register_index("log", "a", progress=3)  # type: ignore[arg-type]
    log.register_state("log#taken", kind="value")
    with pytest.raises(StateExists, match="'log#taken' is registered already as kind 'value'"):
        log.register_index("log", "taken")
    assert log.indexes() == []


def test_an_index_is_a_slot_that_takes_nothing(log: Store, main: Branch) -> None:
    log.register_index("log", "n")
    log.register_index("log", "n")
    assert [(i.slot, i.path, i.kind, i.id) for i in log.indexes()] == [("log", ("n",), "append_log", "log#n")]
    assert [(s.id, s.kind, s.sources) for s in log.slots()] == [("log", "append_log", ()), ("log#n", "index", ("log",))]
    fill(main, 25)
    index = main.state("log#n", at=12)
    assert (index.seq, list(index.equal(1))) == (12, [1, 11])
    assert index.hash == main.state("log", at=12).where("n").hash != main.state("log#n").hash
    with pytest.raises(InvalidOperation, match="is an index"):
        main.append("t", 1, slot="log#n")
    with pytest.raises(InvalidOperation, match="is an index"):
        main.diff("log#n", 1, 2)
    with pytest.raises(StateExists, match="an index of slot 'log' by 'n'"):
        log.register_state("log#n", kind="value")
    with pytest.raises(InvalidOperation, match="of kind 'index'"):
        log.register_index("log#n", "n")
    with pytest.raises(NotFound, match=r"has no index by 'z' \(it has: n\)"):
        main.state("log").where("z")


def test_a_late_index_is_built_with_progress_and_entered_for_the_past(
    log: Store, main: Branch, opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "INDEX_STRIDE", 2)
    monkeypatch.setattr(checkpoints, "_WAY", 2 * BLOCK)
    fill(main, 5 * BLOCK)
    other = main.fork("other", at=3 * BLOCK + 7)
    fill(other, 2 * BLOCK, 1000)
    calls: list[tuple[int, int]] = []
    log.register_index("log", "n", progress=lambda done, total: calls.append((done, total)))
    assert calls[0] == (0, 7 * BLOCK)
    assert calls[-1] == (7 * BLOCK, 7 * BLOCK)
    assert calls == sorted(calls)
    with opener(readonly=True) as again:
        folded: list[int] = []
        plain = index_kind.LogIndex.fold

        def counted(self: index_kind.LogIndex, state: Any, lineage: int, events: list[Event]) -> Any:
            folded.append(len(events))
            return plain(self, state, lineage, events)

        monkeypatch.setattr(index_kind.LogIndex, "fold", counted)
        for name, seq in (("main", 5 * BLOCK), ("main", 4 * BLOCK + 3), ("other", 5 * BLOCK + 7)):
            folded.clear()
            log_then = again.branch(name).state("log", at=seq)
            assert log_then.where("n").count(3) == sum(item["n"] == 3 for item in log_then)
            assert sum(folded) < 2 * BLOCK
    assert log.verify(deep=True).problems == []


def test_a_build_that_was_broken_off_goes_on(log: Store, main: Branch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "INDEX_STRIDE", 1)
    fill(main, 80 * BLOCK)

    def stop(done: int, total: int) -> None:
        if done >= 40 * BLOCK:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        log.register_index("log", "n", progress=stop)
    assert main.state("log").where("n").count(3) == 8 * BLOCK
    log.register_index("log", "n")
    with log._engine.read() as reader:
        slot = log._engine.slots.table(reader).get("log#n")
        assert all(log._engine.checkpoints.has(reader, 1, b * BLOCK, slot) for b in range(1, 81))
    assert log.verify(deep=True).problems == []


def test_an_index_may_be_registered_and_used_inside_a_transaction(log: Store, main: Branch) -> None:
    fill(main, 3 * BLOCK)
    with suppress(ZeroDivisionError), log.transaction():
        log.register_index("log", "n")
        fill(main, 1)
        assert main.state("log").where("n").count(0) == 3 * BLOCK // 10 + 2
        raise ZeroDivisionError
    assert log.indexes() == []
    with log.transaction():
        log.register_index("log", "n")
        fill(main, 1)
        found = main.state("log").where("n").equal(0)
    assert len(found) == len(list(found)) == 3 * BLOCK // 10 + 2


def test_appends_fold_an_index_once_for_many_blocks(log: Store, main: Branch) -> None:
    log.register_index("log", "n")
    log.register_index("log", "id")
    fill(main, 1024 + 5 * BLOCK)
    with log._engine.kv.read() as reader:
        found = [checkpoints.decode_directory(key, value, "it") for key, value in reader.scan(BLOCKS, b"")]
    assert [n for n, directory in enumerate(found, 1) if 1 in directory.here] == [16]
    assert [n for n, directory in enumerate(found, 1) if 2 in directory.here] == [16]


def test_a_read_only_store_answers(log: Store, main: Branch, opener: Opener) -> None:
    log.register_index("log", "n")
    fill(main, 200)
    with opener(readonly=True) as again:
        again.register_index("log", "n")
        assert again.branch().state("log").where("n").count(4) == 20
        with pytest.raises(ReadOnly):
            again.register_index("log", "id")


# --- asking ----------------------------------------------------------------------------------------------------------


def test_what_was_found_stays_what_it_was(log: Store, main: Branch) -> None:
    log.register_index("log", "n")
    fill(main, 25)
    view = main.state("log").where("n")
    found = view.equal(3)
    main.state("log").set([])
    assert list(found.items()) == [(n, {"n": 3, "id": f"{n * 7919 % 100003:05}"}) for n in (3, 13, 23)]
    assert (len(view), list(view.equal(3)), bool(view.equal(3)), bool(found)) == (0, [], False, True)


def test_ranges_end_with_the_kind_of_their_bound(log: Store, main: Branch) -> None:
    log.register_index("log", "")
    values = [None, False, True, math.nan, -1, 2, 2.5, "a", b"a", [1], {"a": 1}, datetime(2024, 1, 1, tzinfo=UTC)]
    for value in values:
        main.state("log").append(value)
    index = main.state("log").where("")
    assert list(index.range()) == [0, 1, 2, 3, 4, 5, 6, 11, 7, 8]
    assert list(index.range(low=0)) == [5, 6]
    assert list(index.range(high=2)) == [4, 5]
    assert list(index.range(high=2, include="neither")) == [4]
    assert list(index.range(low=False)) == list(index.range(high=True)) == [1, 2]
    assert list(index.range(2, "b")) == [5, 6, 11, 7]
    assert list(index.range(5, 1)) == []
    assert len(index.range(5, 1)) == 0
    assert list(index.equal(math.nan)) == [3]
    assert list(index.equal(1)) == []
    assert (len(index), index.unindexed) == (10, 2)


def test_times_are_found_as_instants_and_without_a_zone_as_text(log: Store, main: Branch) -> None:
    log.register_index("log", "t")
    noon = datetime(2024, 5, 1, 12, tzinfo=UTC)
    plain = datetime(2024, 5, 1, 12)
    for t in (noon, noon + timedelta(microseconds=1), plain):
        main.state("log").append({"t": t})
    index = main.state("log").where("t")
    assert list(index.equal(noon.astimezone(timezone(timedelta(hours=5))))) == [0]
    assert list(index.range(low=noon, include="neither")) == [1]
    assert list(index.equal(plain)) == list(index.prefix("2024-05")) == [2]
    assert list(index.values()) == [noon, noon + timedelta(microseconds=1), plain.isoformat()]


def test_long_texts_with_a_common_beginning_are_told_apart(log: Store, main: Branch) -> None:
    log.register_index("log", "url")
    urls = [HEAD + end for end in ("c", "a", "b", "a", "", "ab")] + [HEAD[:64], HEAD[:63] + "~"]
    for url in urls:
        main.state("log").append({"url": url})
    index = main.state("log").where("url")
    order = [6, 4, 1, 3, 5, 2, 0, 7]
    assert list(index.range()) == order
    assert list(index.range(reverse=True)) == order[::-1]
    assert list(index.equal(HEAD + "a")) == [1, 3]
    assert list(index.prefix(HEAD + "a")) == [1, 3, 5]
    assert list(index.range(HEAD + "a", HEAD + "b", include="high")) == [5, 2]
    assert list(index.counts()) == [
        (HEAD[:64], 1), (HEAD, 1), (HEAD + "a", 2), (HEAD + "ab", 1), (HEAD + "b", 1), (HEAD + "c", 1), (urls[7], 1),
    ]  # fmt: skip


def test_values_of_many_places_are_counted_without_a_walk(log: Store, main: Branch) -> None:
    log.register_index("log", "n")
    fill(main, 1500)
    main.state("log").redact(100, 200)
    index = main.state("log").where("n")
    assert list(index.counts()) == [(n, 140) for n in range(10)]
    assert list(index.counts(reverse=True)) == [(n, 140) for n in range(9, -1, -1)]
    assert list(index.equal(5, limit=12))[8:] == [85, 95, 105, 115]  # indexes as they are after the redaction


@pytest.mark.parametrize(
    "ask",
    [
        lambda index: index.equal([1]),
        lambda index: index.equal(object()),
        lambda index: index.equal(2**70),
        lambda index: index.range({}),
        lambda index: index.range(1, 2, include="all"),
        lambda index: index.prefix(3),
        lambda index: index.prefix("\ud800"),
        lambda index: index.equal(1, limit=-1),
        lambda index: index.equal(1, reverse=1),
        lambda index: index.counts(reverse="no"),
    ],
)
def test_what_makes_no_sense_is_refused(log: Store, main: Branch, ask: Callable[[Any], Any]) -> None:
    log.register_index("log", "n")
    with pytest.raises(InvalidOperation):
        ask(main.state("log").where("n"))


def test_what_was_found_in_a_transaction_that_was_not_kept_is_void(log: Store, main: Branch) -> None:
    log.register_index("log", "n")
    fill(main, 5)
    with suppress(ZeroDivisionError), log.transaction():
        fill(main, 5)
        found = main.state("log").where("n").range()
        fixed = main.state("log", at=main.seq).where("n")
        raise ZeroDivisionError
    with pytest.raises(InvalidOperation, match="not kept"):
        list(found)
    with pytest.raises(InvalidOperation, match="not kept"):
        fixed.count(1)


def test_events_that_do_not_decode_leave_items_out_of_the_index(log: Store, main: Branch) -> None:
    """An import may bring what no view would have written."""
    log.register_state("tree", kind="tree")
    log.register_index("log", "n")
    log.register_index("tree", "n")
    damaged = b"\x81\xa1n\xa1\xff"  # {"n": a text that is no UTF-8}
    with transaction(log._engine) as tx:
        tx.append("main", "state.append", damaged, "log")
        for type in ("state.edit", "state.redact", "state.set", "state.put", "state.batch"):
            tx.append("main", type, damaged, "log" if type in ("state.edit", "state.redact", "state.set") else "tree")
        tx.append("main", "state.put", encode_payload({"path": "/no", "value": {"n": 1}}), "tree")
        tx.append("main", "state.append", encode_payload({"n": 1}), "log")
        tx.append("main", "state.append", encode_payload({"n": 1}), "log#n")
    index = main.state("log").where("n")
    assert (list(index.equal(1)), index.unindexed) == ([1], 1)
    assert len(main.state("tree").where("n")) == 0


def test_exports_carry_indexes(log: Store, main: Branch, opener: Opener, tmp_path: Path) -> None:
    log.register_index("log", ("a.b", "n"))
    log.register_index("log", "n")
    fill(main, 150)
    lines = list(export_lines(log))
    with opener(tmp_path / "copy") as copy:
        import_lines(copy, lines)
        assert copy.indexes() == log.indexes()
        assert copy.branch().state("log").where("n").hash == main.state("log").where("n").hash
        assert copy.verify(deep=True).problems == []
    wrong = [line.replace(b'["n"],null]', b'["m"],null]') for line in lines]
    assert wrong != lines
    with opener(tmp_path / "other") as other, pytest.raises(chronicle.ChronicleError, match="does not agree"):
        import_lines(other, wrong)
