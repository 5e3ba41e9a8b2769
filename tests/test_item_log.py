"""ItemLog against a plain list of references and a dict of the items they name."""

import random
import threading
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_tree import Memory

from chronicle_py.collections import Change, diff_lists
from chronicle_py.errors import CorruptStore, InvalidOperation
from chronicle_py.item_log import ItemLog, Ref
from chronicle_py.runs import Runs, join_runs, pack_run, pack_runs, refs_of, runs_of, unpack_runs

few = settings(max_examples=150, deadline=None)


class Events:
    """Items by reference, made as they are appended; counts what is fetched."""

    def __init__(self) -> None:
        self.items: dict[Ref, bytes] = {}
        self.fetched = 0
        self.calls = 0

    def fetch(self, refs: Sequence[Ref]) -> list[bytes]:
        self.calls += 1
        self.fetched += len(refs)
        return [self.items[ref] for ref in refs]

    def add(self, ref: Ref, item: bytes) -> bytes:
        self.items[ref] = item
        return item

    def run(self, seq: int, n: int, lineage: int = 1) -> list[bytes]:
        return [self.add(Ref(lineage, seq + k), item_of(seq + k)) for k in range(n)]


def item_of(n: int) -> bytes:
    """The MessagePack of a string of some size, or of a small number."""
    size = n * 7919 % 200
    return bytes((n % 3,)) if n % 11 == 0 else b"\xd9" + bytes((size + 9,)) + b"%09d" % n + b"x" * size


steps = st.lists(
    st.tuples(
        st.sampled_from(["append", "run", "bulk", "lazy", "subs", "edit", "delete", "save", "keep"]),
        st.integers(0, 10**6),
        st.sampled_from([1, 2, 10, 70, 400]),
    ),
    max_size=20,
)


@given(steps)
@few
def test_a_log_does_as_a_list_of_references_in_every_version(steps: list[tuple[str, int, int]]) -> None:
    objects, events = Memory(), Events()
    log = ItemLog.empty(events.fetch, objects)
    model: list[Ref] = []
    versions = [(log, model)]
    seq = 1
    for step, seed, size in steps:
        added: list[Ref] = []
        if step == "append":
            added = [Ref(1, seq)]
            item = events.add(added[0], item_of(seed))
            log = log.append(1, seq, item if seed % 2 else None)
        elif step == "run":
            added = [Ref(1, seq + k) for k in range(size)]
            for ref, item in zip(added, events.run(seq, size), strict=True):
                log = log.append(1, ref.seq, item)
        elif step == "bulk":
            added = [Ref(1, seq + k) for k in range(size)]
            log = log.extend_run(1, seq, events.run(seq, size))
        elif step == "lazy":
            added = [Ref(2, seq + k) for k in range(size)]
            events.run(seq, size, 2)
            log = log.extend_run(2, seq, None, size)
        elif step == "subs":
            added = [Ref(1, seq, k) for k in range(size)]
            items = [events.add(ref, item_of(k)) for k, ref in enumerate(added)]
            log = log.extend(added, items if seed % 2 else None)
        elif step == "edit" and model:
            at = seed % len(model)
            ref = model[at]._replace(edit_lineage=1, edit_seq=seq)
            item = events.add(ref, item_of(seed))
            log = log.set(at, ref, item if seed % 2 else None)
            model = [*model[:at], ref, *model[at + 1 :]]
        elif step == "delete":
            at = seed % (len(model) + 1)
            log = log.delete(at, at + size)
            model = model[:at] + model[at + size :]
        elif step == "save":
            log = ItemLog.decode(log.save(objects).encode(), events.fetch, objects)
        elif step == "keep":
            log, model = versions[seed % len(versions)]
        model = model + added
        seq += size + seed % 2
        versions.append((log, model))
    for version, expected in versions:
        assert len(version) == len(expected)
        assert list(version.refs()) == expected
        assert [version.ref(n) for n in range(0, len(expected), 7)] == expected[::7]
    direct = ItemLog.empty(events.fetch, objects).extend(model)
    assert log == direct
    assert log.save(objects).encode() == direct.save(Memory()).encode()


@given(st.lists(st.integers(0, 3), max_size=500), st.integers(0, 500))
@few
def test_equal_items_have_equal_content_wherever_they_lie(numbers: list[int], cut: int) -> None:
    items = [bytes((n,)) for n in numbers]
    here, there = Events(), Events()
    a = ItemLog.empty(here.fetch, None).extend_run(
        1, 1, [here.add(Ref(1, n + 1), item) for n, item in enumerate(items)]
    )
    refs = [Ref(5, 9, n) if n < cut else Ref(6, 3 * n, -1, 7, n + 1) for n in range(len(items))]
    b = ItemLog.empty(there.fetch, None).extend(
        refs, [there.add(ref, item) for ref, item in zip(refs, items, strict=True)]
    )
    assert a.hash == b.hash
    assert a == b
    assert hash(a) == hash(b)
    assert a.append(1, 9_999, b"\x07") != b
    assert diff_lists(a, b) == []


def test_appending_and_reading_references_fetches_nothing() -> None:
    events = Events()
    log = ItemLog.empty(events.fetch, None)
    for seq in range(1, 5_000):
        log = log.append(1, seq)
    log = log.set(4_000, Ref(1, 4_001, -1, 1, 5_000))
    assert (len(log), log.ref(-1), log.ref(4_000)) == (4_999, Ref(1, 4_999), Ref(1, 4_001, -1, 1, 5_000))
    assert events.calls == 0


def test_a_decoded_log_fetches_the_open_leaf_only_when_it_goes_on() -> None:
    objects, events = Memory(), Events()
    root = ItemLog.empty(events.fetch, objects).extend_run(1, 1, events.run(1, 5_000)).save(objects).encode()
    log = ItemLog.decode(root, events.fetch, objects)
    for n, item in enumerate(events.run(5_001, 64)):
        log = log.append(1, 5_001 + n, item)
    assert events.calls == 0
    log.save(objects)
    assert events.calls == 1
    assert events.fetched <= 256


def test_an_edit_fetches_about_one_leaf() -> None:
    objects, events = Memory(), Events()
    log = ItemLog.empty(events.fetch, objects).extend_run(1, 1, events.run(1, 20_000)).save(objects)
    ref = Ref(1, 9_001, -1, 1, 30_000)
    log.set(9_000, ref, events.add(ref, b"\x05")).save(objects)
    assert events.fetched <= 1_200
    assert events.calls <= 6


def test_leaves_of_consecutive_appends_stand_in_their_parents() -> None:
    objects, events = Memory(), Events()
    log = ItemLog.empty(events.fetch, objects).extend_run(3, 1_000_000, events.run(1_000_000, 20_000, 3)).save(objects)
    leaves = 20_000 // 60
    assert len(objects.data) < leaves / 10
    assert sum(map(len, objects.data.values())) < leaves * 60 * 2
    assert len(pack_run(3, 1_000_000, 38)) <= 12
    assert list(ItemLog.decode(log.encode(), events.fetch, objects).runs()) == [(3, 1_000_000, 20_000)]


def test_long_leaves_are_objects() -> None:
    objects, events = Memory(), Events()
    refs = [Ref(n % 5 * 1_000 + 1, n * n * 1_000 + 1, -1, 9, n + 1) for n in range(3_000)]
    log = ItemLog.empty(events.fetch, objects).extend(
        refs, [events.add(ref, b"\x01%c" % (n % 90)) for n, ref in enumerate(refs)]
    )
    saved = log.save(objects)
    assert any(data[:1] == b"R" for data in objects.data.values())
    objects.forget()
    assert list(ItemLog.decode(saved.encode(), events.fetch, objects).refs()) == refs
    with pytest.raises(InvalidOperation, match="saved before"):
        log.encode()


def test_runs_join_across_leaves_and_the_tail() -> None:
    objects, events = Memory(), Events()
    log = ItemLog.empty(events.fetch, objects).extend_run(1, 1, events.run(1, 3_000)).save(objects)
    log = log.append(1, 3_001).append(1, 3_002).append(2, 7).set(1_500, Ref(1, 1_501, -1, 2, 8), b"\x01")
    assert list(log.runs()) == [(1, 1, 1_500), Ref(1, 1_501, -1, 2, 8), (1, 1_502, 1_501), (2, 7, 1)]
    assert list(log.runs(1_490, 1_503)) == [(1, 1_491, 10), Ref(1, 1_501, -1, 2, 8), (1, 1_502, 2)]
    assert list(log.runs(2_999, -1)) == [(1, 3_000, 3)]
    assert list(log.runs(5, 5)) == []


def test_indexes_are_those_of_python() -> None:
    log = ItemLog.empty(Events().fetch, None).append(1, 1).append(1, 2)
    assert (log.ref(-1), log.ref(0)) == (Ref(1, 2), Ref(1, 1))
    for index in (2, -3):
        with pytest.raises(IndexError, match=f"no item {index} in a list of 2"):
            log.ref(index)
        with pytest.raises(IndexError):
            log.set(index, Ref(1, 1))
    assert repr(log) == "<ItemLog of 2 items>"
    assert (log == 5) is False


def test_threads_may_append_to_the_same_version() -> None:
    start = ItemLog.empty(Events().fetch, None).append(1, 1)
    results: list[ItemLog] = []

    def grow(lineage: int) -> None:
        log = start
        for seq in range(2, 400):
            log = log.append(lineage, seq)
        results.append(log)

    threads = [threading.Thread(target=grow, args=(lineage,)) for lineage in range(2, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for log in results:
        assert list(log.runs()) == [(1, 1, 1), (log.ref(-1).lineage, 2, 398)]


def test_a_heavy_tail_is_settled_on_the_way() -> None:
    events = Events()
    log = ItemLog.empty(events.fetch, None)
    for n, item in enumerate(events.run(1, 3_000)):
        log = log.append(1, n + 1, item)
    assert log._state[2] < 1_200
    assert events.calls == 0


def test_a_fetch_that_finds_too_little_is_named() -> None:
    log = ItemLog.empty(lambda refs: [], None).append(1, 1)
    with pytest.raises(CorruptStore, match="1 items were asked for, 0 were found"):
        log.hash  # noqa: B018
    with pytest.raises(InvalidOperation, match="2 references were given with 1 items"):
        log.extend([Ref(1, 1), Ref(1, 2)], [b"\x01"])


def test_a_diff_of_logs_compares_items() -> None:
    objects, events = Memory(), Events()
    items = [b"\xcd%c%c" % divmod(n, 256) for n in range(20_000)]
    log = ItemLog.empty(events.fetch, objects)
    log = log.extend_run(1, 1, [events.add(Ref(1, n + 1), item) for n, item in enumerate(items)]).save(objects)
    ref = Ref(1, 1, -1, 1, 99_999)
    events.add(ref, b"\xa3new")
    other = log.set(777, ref).delete(15_000, 15_001).save(objects)
    objects.forget()
    events.fetched = 0
    assert diff_lists(log, other) == [
        Change("change", 777, 777, 777, "new"),
        Change("remove", 15_000, None, 15_000, None),
    ]
    assert objects.loads <= 20
    assert events.fetched <= 3_000


# Runs

refs = st.builds(
    Ref,
    st.integers(0, 3),
    st.integers(1, 2**40) | st.integers(1, 5),
    st.integers(-1, 3),
    st.integers(0, 2),
    st.integers(0, 2) | st.integers(0, 2**40),
).map(lambda ref: ref if ref.edit_seq else ref._replace(edit_lineage=0))


@given(st.lists(refs, max_size=60), st.data())
@few
def test_references_come_back_from_runs(given_refs: list[Ref], data: st.DataObject) -> None:
    runs = runs_of(given_refs)
    assert list(refs_of(runs)) == given_refs
    assert runs == join_runs((*ref, 1) for ref in given_refs)
    leaf = unpack_runs(pack_runs(runs))
    assert (leaf.runs, leaf.size) == (runs, len(given_refs))
    assert [leaf.ref(n) for n in range(leaf.size)] == given_refs
    start = data.draw(st.integers(0, len(given_refs)))
    stop = data.draw(st.integers(start, len(given_refs)))
    assert list(refs_of(leaf.part(start, stop).runs)) == given_refs[start:stop]


def test_packed_runs_are_never_as_long_as_an_address() -> None:
    source = random.Random(5)
    lengths = set()
    for _ in range(3_000):
        runs = [(source.randrange(300), source.randrange(2**30), -1, 0, 0, source.randrange(1, 90)) for _ in range(4)]
        packed = pack_runs(runs)
        lengths.add(len(packed))
        assert unpack_runs(packed).runs == runs
    assert 32 not in lengths
    assert {31, 33} <= lengths


def test_one_run_packs_as_runs_do() -> None:
    assert pack_run(3, 70_000, 19) == pack_runs([(3, 70_000, -1, 0, 0, 19)])


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x91\x04", b"\x92\x07\x01", b"\xa1a"])
def test_damaged_runs_are_named_as_such(data: bytes) -> None:
    with pytest.raises(CorruptStore, match="a leaf of references"):
        unpack_runs(data)


def test_a_part_without_entries_is_empty() -> None:
    assert len(Runs([(1, 1, -1, 0, 0, 5)], 5).part(3, 3)) == 0
