"""Lineages: finding the owner of a sequence on chains of any shape, at a cost of O(log depth)."""

from __future__ import annotations

import random

import pytest
from conftest import Opener
from hypothesis import given
from hypothesis import strategies as st

from chronicle_py import Branch, Store
from chronicle_py.kv import LINEAGES
from chronicle_py.lineages import Lineages
from chronicle_py.records import BLOCK, Lineage, encode, pack_lineage, seal


class Records:
    """A reader of lineage records, in memory."""

    version = 0
    snapshot = (0, 0)

    def __init__(self) -> None:
        self.stored: dict[bytes, bytes] = {}
        self.gets = 0

    def get(self, space: int, key: bytes) -> bytes | None:
        assert space == LINEAGES
        self.gets += 1
        return self.stored.get(key)

    def take(self, space: int, start: bytes, count: int, reverse: bool = False) -> list[bytes]:
        raise AssertionError

    def keys(self, space: int, start: bytes, count: int, reverse: bool = False) -> list[bytes]:
        raise AssertionError

    def scan(self, *args: object, **options: object) -> list[tuple[bytes, bytes]]:
        raise AssertionError

    def copy_to(self, *args: object, **options: object) -> None:
        raise AssertionError

    def count(self, space: int) -> int:
        return len(self.stored)

    def add(self, lineages: Lineages, parent: int, fork_seq: int) -> int:
        record = lineages.child_of(self, parent, fork_seq)
        number = len(self.stored) + 1
        key = pack_lineage(number)
        self.stored[key] = seal(key, encode(record))
        return number


def chain_of(parents: dict[int, tuple[int, int]], lineage: int) -> list[tuple[int, int]]:
    """(lineage, its first sequence), newest first, by walking one by one."""
    found = []
    while lineage:
        parent, fork = parents[lineage]
        found.append((lineage, fork + 1))
        lineage = parent
    return found


@given(
    shape=st.lists(st.tuples(st.integers(0, 1000), st.integers(1, 80)), min_size=1, max_size=60),
    picks=st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000), st.integers(0, 1000)), max_size=20),
)
def test_the_owner_is_the_one_a_walk_finds(shape: list[tuple[int, int]], picks: list[tuple[int, int, int]]) -> None:
    records, lineages = Records(), Lineages()
    parents: dict[int, tuple[int, int]] = {}
    for at, length in shape:
        parent = at % (len(parents) + 1)
        fork = parents[parent][1] + length if parent else 0
        parents[records.add(lineages, parent, fork)] = (parent, fork)
    for pick, a, b in picks:
        lineage = pick % len(parents) + 1
        chain = chain_of(parents, lineage)
        end = chain[0][1] + 50
        seq = a % end + 1
        owner = next(number for number, first in chain if first <= seq)
        found, upper = Lineages().owner(records, lineage, seq)
        assert found == owner
        newer = [first for number, first in chain if first > seq]
        assert upper == (newer[-1] - 1 if newer else None)
        start, stop = sorted((seq, b % end + 1))
        pieces = Lineages().segments(records, lineage, start, stop)
        flat = [(number, s) for number, first, last in pieces for s in range(first, last + 1)]
        assert flat == [(next(n for n, f in chain if f <= s), s) for s in range(start, stop + 1)]


def test_an_old_owner_is_found_in_few_steps_on_a_chain_of_ten_thousand() -> None:
    records, lineages = Records(), Lineages()
    number = 0
    for depth in range(10_000):
        number = records.add(lineages, number, 2 * depth)
    for seq in random.Random(1).sample(range(1, 20_000), 300):
        records.gets = 0
        owner, _ = Lineages().owner(records, number, seq)
        assert owner == (seq + 1) // 2
        assert records.gets <= 60


def test_a_jump_never_leaves_the_chain() -> None:
    records, lineages = Records(), Lineages()
    number = 0
    for depth in range(300):
        number = records.add(lineages, number, depth)
        record: Lineage = lineages.get(records, number)
        assert record.depth == depth + 1
        assert 0 <= record.jump < number
        assert record.jump_fork_seq == lineages.get(records, record.jump).fork_seq


def test_a_deep_branch_reads_the_same_anywhere(store: Store, main: Branch) -> None:
    """20,000 events, several levels of trees."""
    store.register_state("log", kind="append_log")
    store.register_state("files", kind="tree")
    for start in range(0, 20_000, 1000):
        with store.transaction():
            for n in range(start, start + 1000):
                if n % 4:
                    main.state("log").append(n)
                else:
                    main.state("files").put(f"dir{n % 97}/file{n}", n)
    log = main.state("log")
    assert (len(log), main.seq) == (15_000, 20_000)
    assert log[:] == [n for n in range(20_000) if n % 4]
    for seq in (1, 63, 64, 65, 4096, 9_999, 10_000, 19_999):
        past = main.state("log", at=seq)
        assert len(past) == seq - (seq + 3) // 4
        assert past[-1:] == [n for n in range(seq) if n % 4][-1:]
        assert len(main.state("files", at=seq)) == (seq + 3) // 4
    assert main.state("files").list("dir5") == sorted(f"dir5/file{n}" for n in range(0, 20_000, 4) if n % 97 == 5)
    assert main.replay("log").equal
    fork = main.fork("fork", 10_000)
    fork.state("log").set(["new"])
    assert (list(fork.state("log")), len(log)) == (["new"], 15_000)


def test_a_bushy_store_of_three_thousand_lineages(opener: Opener) -> None:
    store = opener()
    store.register_state("log", kind="append_log")
    rng = random.Random(3)
    model: dict[str, list[int]] = {"main": []}
    with store.transaction():
        for n in range(3000):
            source = rng.choice(list(model)[-200:])
            place = rng.randint(max(0, len(model[source]) - 20), len(model[source]))
            name = f"b{n}"
            branch = store.branch(source).fork(name, place)
            model[name] = [*model[source][:place], n]
            branch.state("log").append(n)
    assert store.stats().lineages == 3000
    store.close()
    store = opener()
    depth = max(model, key=lambda name: len(model[name]))
    for name in [depth, *rng.sample(sorted(model), 150)]:
        assert list(store.branch(name).state("log")) == model[name]
        assert [e.payload for e in store.branch(name).events()] == model[name]
    assert store.verify(deep=True).problems == []


def test_branches_that_grow_by_turns(store: Store) -> None:
    store.register_state("log", kind="append_log")
    main = store.branch()
    main.state("log").append("root")
    branches = [main.fork(f"b{n}") for n in range(20)]
    for round in range(BLOCK + 6):
        for branch in branches:
            branch.state("log").append(round)
    for branch in branches:
        assert list(branch.state("log")) == ["root", *range(BLOCK + 6)]
        assert branch.state("log", at=BLOCK)[-1] == BLOCK - 2


@pytest.mark.parametrize("step", [1, 2, BLOCK - 1, BLOCK, BLOCK + 1])
def test_a_chain_of_forks_with_a_few_events_each(store: Store, step: int) -> None:
    store.register_state("log", kind="append_log")
    branch = store.branch()
    wanted: list[int] = []
    with store.transaction():
        for n in range(300 // step + 3):
            branch = branch.fork(f"f{n}")
            for _ in range(step):
                branch.state("log").append(len(wanted))
                wanted.append(len(wanted))
    for seq in range(0, branch.seq + 1, 7):
        assert list(branch.state("log", at=seq)) == wanted[:seq]
