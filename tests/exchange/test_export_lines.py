"""What the lines of an export say, and that all of it comes in again."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import msgspec
import pytest
from conftest import Opener
from exchange_stores import (
    Lines,
    exported_lines,
    fresh,
    picture,
    put_in,
    register,
)

import chronicle_py as chronicle
from chronicle_py import (
    BlobRef,
    Branch,
    ChronicleError,
    CorruptStore,
    InvalidOperation,
    NotFound,
    ReducerMissing,
    Store,
)
from chronicle_py.event import decode_payload
from chronicle_py.exchange import export_lines, find_blob, from_json, to_json
from chronicle_py.kv import OBJECTS
from chronicle_py.transaction import transaction


@pytest.fixture
def exported(store: Store) -> Lines:
    return exported_lines(store)


def test_an_export_is_readable_and_in_order(exported: Lines) -> None:
    found = [json.loads(line) for line in exported]
    assert [record["record"] for record in found] == (
        ["chronicle-export", *["slot"] * 5, *["event"] * 8, *["branch"] * 2, "end"]
    )
    first = found[6]
    assert first["payload"] == {"role": "user", "content": "m0"}
    assert "bytes" not in first
    assert found[-3] == {
        "record": "branch",
        "name": "main",
        "head": found[11]["id"],
        "seq": 6,
        "created": 1_700_000_000_000_001,
    }
    assert (found[-2]["parent"], found[-2]["fork_seq"]) == ("main", 4)
    assert found[-1] == {"record": "end", "slots": 5, "blobs": 0, "events": 8, "branches": 2}


def test_a_payload_that_json_cannot_hold_comes_with_its_bytes(store: Store, main: Branch) -> None:
    main.append("odd", {1: float("nan"), "b": b"\0", "when": datetime(2024, 1, 1, tzinfo=UTC)})
    line = json.loads(next(line for line in export_lines(store) if b'"event"' in line))
    assert line["payload"] == {
        "1": {"$float": "nan"}, "b": {"$bytes": "AA=="}, "when": {"$time": "2024-01-01T00:00:00+00:00"},
    }  # fmt: skip
    assert "bytes" in line


def test_to_json_says_everything_a_payload_can_hold() -> None:
    blob = "ab" * 32
    value = [1.5, float("-inf"), b"\1", BlobRef(blob), msgspec.msgpack.Ext(5, b"\2"), {2: (3,)}, True, None]
    assert to_json(value) == [
        1.5, {"$float": "-inf"}, {"$bytes": "AQ=="}, {"$blob": blob}, {"$ext": [5, "Ag=="]}, {"2": [3]}, True, None,
    ]  # fmt: skip


def test_blob_references_in_json_become_references() -> None:
    blob = "cd" * 32
    assert decode_payload(from_json(f'{{"a": [{{"$blob": "{blob}"}}]}}')) == {"a": [BlobRef(blob)]}
    with pytest.raises(InvalidOperation, match="64 hex digits"):
        from_json('{"$blob": "short"}')


def test_a_whole_export_brings_every_blob_and_a_branch_its_own(store: Store, main: Branch, opener: Opener) -> None:
    used, unused = store.put_blob(b"used", "text/plain"), store.put_blob(b"unused", "text/plain")
    main.append("picture", BlobRef(used))
    with fresh() as target:
        assert put_in(target, list(export_lines(store, ["main"]))).blobs == 1
        assert target.get_blob(used).data == b"used"
        with pytest.raises(NotFound):
            target.get_blob(unused)
        assert put_in(target, list(export_lines(store))).blobs == 1
        assert target.get_blob(unused).media_type == "text/plain"


def test_an_export_of_a_store_that_lost_a_blob_names_it(store: Store, main: Branch) -> None:
    id = store.put_blob(b"x", "text/plain")
    main.append("picture", BlobRef(id))
    with transaction(store._engine) as tx:
        tx.writer.delete(OBJECTS, bytes.fromhex(id))
        tx.changes += 1
    with pytest.raises(CorruptStore, match=id):
        list(export_lines(store, ["main"]))


def test_a_blob_that_an_initial_value_names_comes_along_if_it_is_there(store: Store) -> None:
    id = store.put_blob(b"x", "text/plain")
    store.register_state("v", kind="value", initial=[BlobRef(id), BlobRef("ab" * 32)])
    with fresh() as target:
        assert put_in(target, list(export_lines(store, ["main"]))).blobs == 1
        assert target.branch().state("v").get() == [BlobRef(id), BlobRef("ab" * 32)]


def test_causes_and_links_come_along(store: Store, main: Branch) -> None:
    first = main.append("note", 1)
    second = main.append("note", 2, caused_by=[first], linked_to=[first.id])
    with fresh() as target:
        put_in(target, list(export_lines(store)))
        assert target.effects(first.id) == target.links(first.id) == [second]


def test_a_custom_slot_is_registered_without_its_code(store: Store, main: Branch) -> None:
    count = chronicle.reducer("count", initial=int, version=3)(lambda state, event: state + 1)
    store.register_state("n", reducer=count, types=["note"])
    main.append("note", 1)
    with fresh() as target:
        put_in(target, list(export_lines(store)))
        [slot] = target.slots()
        assert (slot.id, slot.reducer, slot.version, slot.types, slot.loaded) == ("n", "count", 3, ("note",), False)
        with pytest.raises(ReducerMissing, match="count"):
            target.branch().state("n").get()
        target.register_state("n", reducer=count, types=["note"])
        assert target.branch().state("n").get() == 1
        assert target.branch().state("n").hash == main.state("n").hash


def test_an_initial_value_comes_along_byte_for_byte(store: Store) -> None:
    store.register_state("v", kind="value", initial={"b": b"\0", "n": 1})
    with fresh() as target:
        put_in(target, list(export_lines(store)))
        assert target.branch().state("v").get() == {"b": b"\0", "n": 1}
        assert target.branch().state("v").hash == store.branch().state("v").hash


def test_the_event_that_closes_a_block_far_down_a_fork_is_checkpointed(store: Store, main: Branch) -> None:
    register(store)
    with store.transaction():
        for i in range(1000):
            main.state("messages").append(i)
    deep = main
    for at in (999, 640, 639, 64, 63):
        deep = deep.fork(f"from {at}", at=at)
        with store.transaction():
            for i in range(130):
                deep.state("messages").append([at, i])
    with fresh() as target:
        put_in(target, list(export_lines(store)))
        assert picture(target) == picture(store)
        assert target.verify(deep=True).problems == []


def test_a_blob_is_found_by_the_start_of_its_id(store: Store, main: Branch) -> None:
    ids = [store.put_blob(str(i).encode(), "text/plain") for i in range(50)]
    for i, id in enumerate(ids):
        assert find_blob(store, id[:8].upper()).data == str(i).encode()
    assert find_blob(store, ids[0]).hash == ids[0]
    with pytest.raises(NotFound):
        find_blob(store, "000000")
    with pytest.raises(InvalidOperation):
        find_blob(store, "00")


def test_bad_input_is_always_a_chronicle_error(store: Store) -> None:
    with pytest.raises(ChronicleError):
        export_lines(store, ["nope"])
