"""Cut rules, nodes and splices: what holds for every persistent tree, whatever its leaves are."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronicle_py.chunking import (
    MAX_BYTES,
    MAX_CHILDREN,
    MAX_ENTRIES,
    MAX_KEYS,
    MIN_CHILDREN,
    WINDOW,
    child_cuts,
    entry_cuts,
    key_cuts,
)
from chronicle_py.collections import List, Map
from chronicle_py.errors import CorruptStore
from chronicle_py.nodes import Child, Row, address_of, join_rows, load_row, unpack_row
from chronicle_py.tree import Objects

SPREAD = 2600


class Memory:
    """Objects in a dict; counts what is asked of it."""

    def __init__(self) -> None:
        self.data: dict[bytes, bytes] = {}
        self.nodes: dict[Any, Any] = {}
        self.loads = 0

    def load(self, address: bytes) -> bytes:
        self.loads += 1
        if address not in self.data:
            raise CorruptStore(f"the node {address.hex()} is missing")
        return self.data[address]

    def store(self, address: bytes, data: bytes) -> None:
        self.data[address] = data

    def cached(self, address: bytes, decode: Callable[[bytes], Any]) -> Any:
        key = address, decode
        if key not in self.nodes:
            self.nodes[key] = decode(self.load(address))
        return self.nodes[key]

    def forget(self) -> None:
        self.nodes.clear()
        self.loads = 0


def test_memory_is_what_trees_ask_for() -> None:
    objects: Objects = Memory()
    objects.store(b"a", b"b")
    assert objects.load(b"a") == b"b"


# Cut rules

entries = st.lists(st.binary(max_size=40) | st.sampled_from([b"", b"x", b"y" * 3000]), max_size=700)


@given(entries)
@settings(max_examples=60, deadline=None)
def test_a_cut_depends_only_on_the_chunk(items: list[bytes]) -> None:
    ends = entry_cuts(items, SPREAD)
    start = 0
    for n, end in enumerate(ends):
        assert entry_cuts(items[start:], SPREAD) == [later - start for later in ends[n:]]
        assert entry_cuts(items[start:end], SPREAD) == [end - start]
        assert entry_cuts(items[start : end - 1], SPREAD) == []
        start = end


@given(entries)
@settings(max_examples=60, deadline=None)
def test_chunks_of_entries_keep_their_limits(items: list[bytes]) -> None:
    start = 0
    for end in entry_cuts(items, SPREAD):
        size = sum(map(len, items[start:end]))
        assert end - start <= MAX_ENTRIES
        assert size - len(items[end - 1]) < MAX_BYTES
        assert end - start >= WINDOW or size >= MAX_BYTES
        start = end
    assert len(items) - start < MAX_ENTRIES


def test_a_batch_border_leaves_no_trace() -> None:
    items = [b"%d" % (n * n) for n in range(9000)]
    ends = entry_cuts(items, SPREAD)
    some = ends[len(ends) // 3]
    assert [some + end for end in entry_cuts(items[some:], SPREAD)] == ends[len(ends) // 3 + 1 :]


def test_ordinary_messages_are_cut_near_four_kilobytes() -> None:
    items = [b"%0211d" % (n * 7919) for n in range(20_000)]
    chunks = len(entry_cuts(items, SPREAD))
    assert 3500 < 20_000 * 211 / chunks < 4700


@given(st.lists(st.binary(max_size=12), unique=True, max_size=500))
@settings(max_examples=40, deadline=None)
def test_keys_alone_decide_where_map_leaves_end(keys: list[bytes]) -> None:
    ends = key_cuts(keys)
    assert all(end - start <= MAX_KEYS for start, end in zip([0, *ends], ends, strict=False))
    if ends:
        assert key_cuts(keys[ends[0] :]) == [end - ends[0] for end in ends[1:]]


def test_levels_cut_by_bits_of_their_own() -> None:
    contents = b"".join(address_of(b"%d" % n) for n in range(5000))
    first, second = child_cuts(contents, 1), child_cuts(contents, 2)
    assert first != second
    for ends in (first, second):
        sizes = [end - start for start, end in zip([0, *ends], ends, strict=False)]
        assert min(sizes) >= MIN_CHILDREN
        assert max(sizes) <= MAX_CHILDREN
        assert 20 < sum(sizes) / len(sizes) < 28


# Rows


def child(n: int, weight: int = 0, key: bytes = b"") -> Child:
    return Child(n + 1, weight, key, address_of(b"%d" % n), b"", None)


def columns(row: Row) -> tuple[Any, ...]:
    return row.counts, row.contents, row.weights, row.keys, row.ats


def test_a_row_comes_back_from_its_bytes() -> None:
    row = Row.of([child(n, weight=n % 3, key=b"%d" % n) for n in range(20)])
    again = load_row(b"I" + row.pack())
    assert columns(again) == columns(row)
    assert (again.total, again.weight, again.content(3)) == (210, 19, address_of(b"3"))


def test_a_column_without_content_is_empty_after_a_cut() -> None:
    row = Row.of([child(0, weight=5), child(1), child(2)])
    assert row.part(1, 3).weights == []
    assert columns(join_rows([row.part(0, 1), row.part(1, 3)])) == columns(row)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"L\x90",
        b"I",
        b"I\x90",
        b"I\xc1",
        b"I" + Row.of([child(1)]).pack()[:-3],
        b"I\x95\x91\x01\xc4\x00\x90\x90\x90",
    ],
)
def test_a_damaged_row_is_named_as_such(data: bytes) -> None:
    with pytest.raises(CorruptStore):
        load_row(data)


def test_a_row_of_unequal_columns_is_refused() -> None:
    row = Row([1, 2], bytes(64), [1], [], [], [])
    with pytest.raises(CorruptStore, match="columns of other lengths"):
        unpack_row(row.pack())


# Trees


def test_an_edit_reads_and_writes_few_nodes() -> None:
    objects = Memory()
    entries = List([f"message {n} " + "x" * 150 for n in range(20_000)]).save(objects)
    stored = len(objects.data)
    objects.forget()
    decoded: List[Any] = List.decode(entries.encode(), objects)
    edited = decoded.set(9_000, "other")
    assert objects.loads <= 8
    edited.save(objects)
    assert len(objects.data) - stored <= 8


def test_an_append_writes_only_what_it_finished() -> None:
    objects = Memory()
    entries = List([f"message {n} " + "x" * 150 for n in range(20_000)]).save(objects)
    stored = len(objects.data)
    entries = entries.append("one more").save(objects)
    assert len(objects.data) - stored <= 1
    for n in range(64):
        entries = entries.append(f"more {n} " + "x" * 150)
    entries.save(objects)
    assert len(objects.data) - stored <= 8


def test_what_an_aborted_save_wrote_can_be_saved_again() -> None:
    lost, kept = Memory(), Memory()
    numbers: List[Any] = List(range(5_000))
    entries = numbers.append("x" * 5000).append({"nested": List(range(3_000))})
    entries.save(lost)
    again = entries.save(kept)
    kept.forget()
    assert list(again)[:5_001] == [*range(5_000), "x" * 5000]
    assert list(again[5_001]["nested"]) == list(range(3_000))
    assert lost.data == kept.data


def test_an_address_is_the_hash_of_what_is_stored() -> None:
    objects = Memory()
    List([*range(9_000), "long" * 900]).save(objects)
    Map({f"{n}": "v" * (n % 300) for n in range(3_000)}).save(objects)
    assert len(objects.data) > 100
    assert all(address_of(data) == address for address, data in objects.data.items())


def test_a_missing_node_is_named() -> None:
    objects = Memory()
    root = List(range(9_000)).save(objects).encode()
    objects.data.clear()
    objects.forget()
    with pytest.raises(CorruptStore, match="missing"):
        List.decode(root, objects)[0]


@pytest.mark.parametrize(
    "data",
    [b"", b"\x90", b"\xc1", b"\x94\x91\x00\x90\x91\x90\x91\x90", b"\x94\x92\x00\x01\x91\x01\x91\x90\x90"],
)
def test_a_damaged_root_is_named_as_such(data: bytes) -> None:
    with pytest.raises(CorruptStore):
        List.decode(data, None)


def test_an_open_leaf_of_another_length_is_named() -> None:
    with pytest.raises(CorruptStore, match="open leaf"):
        list(List.decode(b"\x94\x91\x02\x90\x92\x90\x01\x90", None))
