"""Slots: registration, and the special cases of every built-in kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from conftest import Opener
from hypothesis import given
from hypothesis import strategies as st

import chronicle_py as chronicle
from chronicle_py import (
    BlobRef,
    Branch,
    InvalidName,
    InvalidOperation,
    SlotInfo,
    StateExists,
    StateNotRegistered,
    Store,
    reducer,
)
from chronicle_py.records import BLOCK

EDGES = [BLOCK - 2, BLOCK - 1, BLOCK, BLOCK + 1]


def fill(branch: Branch, slot: str, count: int) -> list[Any]:
    for n in range(count):
        branch.state(slot).append(n)
    return list(range(count))


@pytest.fixture
def log(store: Store) -> Any:
    store.register_state("log", kind="append_log")
    return store.branch().state("log")


# --- registering ------------------------------------------------------------------------------------------------------


def test_the_same_registration_twice_is_fine_and_another_is_refused(store: Store) -> None:
    store.register_state("log", kind="append_log", types=["a", "b"], initial=[1])
    store.register_state("log", kind="append_log", types=("b", "a", "a"), initial=[1])
    other: list[dict[str, Any]] = [
        {"kind": "value"}, {"kind": "append_log"}, {"kind": "append_log", "types": ["a", "b"]},
        {"kind": "append_log", "types": ["a"], "initial": [1]}, {"reducer": reducer("r", initial=int)(lambda s, e: s)},
        {"kind": "append_log", "types": ["a", "b"], "initial": [1], "sources": ["x"]},
    ]  # fmt: skip
    for options in other:
        with pytest.raises(StateExists, match=r"slot 'log' is registered already as kind 'append_log' with types="):
            store.register_state("log", **options)
    assert [s.id for s in store.slots()] == ["log"]


def test_registrations_outlive_the_process(opener: Opener) -> None:
    store = opener()
    store.register_state("files", kind="tree")
    store.register_state("count", reducer=reducer("counter", initial=int, version=3)(lambda s, e: s + 1), types=["t"])
    store.branch().state("files").put("a", 1)
    store.close()
    store = opener()
    assert store.slots() == [
        SlotInfo("count", "custom", "counter", 3, ("t",), (), False),
        SlotInfo("files", "tree", None, 1, (), (), True),
    ]
    assert dict(store.branch().state("files")) == {"a": 1}
    store.branch().state("files").put("b", 2)
    assert dict(store.branch().state("files")) == {"a": 1, "b": 2}


def test_a_slot_that_is_not_registered_is_named_with_those_that_are(store: Store, main: Branch, log: Any) -> None:
    for call in (
        lambda: main.state("lag"), lambda: main.replay("lag"), lambda: main.diff("lag", 0, 0),
        lambda: main.events(slot="lag"), lambda: main.append("note", 1, slot="lag"),
    ):  # fmt: skip
        with pytest.raises(StateNotRegistered, match=r"no slot 'lag' is registered in this store \(registered: log\)"):
            call()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "either kind= .one of value, append_log, tree, document. or reducer=, not both"),
        ({"kind": "list"}, "kind= is one of"),
        ({"kind": "append_log", "initial": {}}, "initial value of an append_log is a list"),
        ({"kind": "tree", "initial": []}, "initial value of a tree is a dict"),
        ({"kind": "tree", "initial": {"/a": 1}}, "a path is relative"),
        ({"kind": "tree", "types": ["a"]}, "a tree cannot be made of events of other types"),
        ({"kind": "value", "types": "a"}, "sequences of str, not one str"),
        ({"kind": "value", "initial": object()}, "no MessagePack form"),
        ({"reducer": "x"}, "a reducer has name"),
    ],
)
def test_registrations_that_are_refused(store: Store, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidOperation, match=words):
        store.register_state("slot", **options)
    assert store.slots() == []


def test_names_of_slots(store: Store, main: Branch) -> None:
    names = ["x" * 255, "agents/lena/日本語", "with space", "é" * 127]
    for n, name in enumerate(names):
        store.register_state(name, kind="value")
        main.state(name).set(n)
    for n in range(BLOCK):
        main.append("note", n)
    assert [main.state(name).get() for name in names] == [0, 1, 2, 3]
    assert [s.id for s in store.slots()] == sorted(names)
    for bad in ("", "/a", "a/", "a//b", " a", "a\t", "x" * 256, "\udc00", 7, None):
        with pytest.raises(InvalidName, match="a slot id"):
            store.register_state(bad, kind="value")  # type: ignore[arg-type]


def test_namespaces_keep_components_apart(store: Store, main: Branch) -> None:
    lena, max = store.namespace("agents/lena"), store.namespace("agents").namespace("max")
    assert lena.register_state("summaries", kind="append_log") == "agents/lena/summaries"
    assert max.register_state("summaries", kind="value") == max.state_id("summaries") == "agents/max/summaries"
    main.state("agents/lena/summaries").append(1)
    main.state(max.state_id("summaries")).set(2)
    assert list(main.state("agents/lena/summaries")) == [1]
    with pytest.raises(InvalidName):
        store.namespace("a/")
    with pytest.raises(InvalidName):
        store.namespace("x" * 200).state_id("y" * 100)


def test_late_registration_sees_the_events_that_were_there(opener: Opener) -> None:
    store = opener()
    main = store.branch()
    for n in range(3 * BLOCK + 5):
        main.append("note" if n % 5 else "rare", n)
    fork = main.fork("fork", BLOCK + 1)
    fork.append("rare", "fork's")
    store.register_state("rare", kind="append_log", types=["rare"])
    store.register_state("last", kind="value", types=["note"], initial="none yet")
    for _ in range(2):
        wanted = [n for n in range(3 * BLOCK + 5) if n % 5 == 0]
        assert list(main.state("rare")) == wanted
        assert list(fork.state("rare")) == [*(n for n in wanted if n <= BLOCK), "fork's"]
        assert main.state("last", at=1).get() == "none yet"
        assert main.state("last", at=2).get() == 1
        assert fork.state("last").get() == BLOCK
        main.append("other", None)
        for n in range(BLOCK):
            fork.append("other", n)
        store.close()
        store = opener()
        main, fork = store.branch(), store.branch("fork")
    assert store.verify(deep=True).problems == []


@pytest.mark.parametrize("before", [1, BLOCK - 1, BLOCK, BLOCK + 1])
@pytest.mark.parametrize("between", [0, 1, BLOCK - 1, BLOCK, 2 * BLOCK])
@pytest.mark.parametrize("after", [0, BLOCK, 2 * BLOCK])
def test_late_registration_long_after_the_last_event_that_concerns_the_slot(
    opener: Opener, before: int, between: int, after: int
) -> None:
    """Blocks close after the registration that hold nothing for the slot: they may not say that it is untouched."""
    store = opener()
    main = store.branch()
    with store.transaction():
        for n in range(before + between):
            main.append("rare" if n < before else "other", n)
    store.register_state("rare", kind="append_log", types=["rare"])
    store.register_state("count", reducer=reducer("count", initial=int)(lambda state, event: state + 1), types=["rare"])
    fork = main.fork("fork")
    for branch in (main, fork):
        with store.transaction():
            for n in range(after):
                branch.append("other", n)
    store.close()
    store = opener()
    store.register_state("count", reducer=reducer("count", initial=int)(lambda state, event: state + 1), types=["rare"])
    for name in ("main", "fork"):
        branch = store.branch(name)
        assert list(branch.state("rare")) == list(range(before))
        assert branch.state("count").get() == before
        branch.append("rare", "one more")
        assert branch.state("rare").tail(1) == ["one more"]
        assert branch.state("count").get() == before + 1


def test_a_slot_may_follow_another_that_comes_later(store: Store, main: Branch) -> None:
    store.register_state("copy", kind="append_log", sources=["log"])
    store.register_state("log", kind="append_log")
    main.state("log").append(1)
    main.state("copy").append("own")
    main.state("log").append(2)
    main.state("log").edit(0, "edited")
    assert list(main.state("copy")) == ["edited", "own", 2]
    assert list(main.state("log")) == ["edited", 2]


def test_an_event_with_a_slot_is_not_heard_by_type(store: Store, main: Branch) -> None:
    count = reducer("count", initial=int)(lambda state, event: state + 1)
    store.register_state("own", reducer=count)
    store.register_state("heard", kind="append_log", types=["note"])
    main.append("note", 1, slot="own")
    main.append("note", 2)
    assert (list(main.state("heard")), main.state("own").get()) == ([2], 1)
    with pytest.raises(InvalidOperation, match="is of kind 'append_log' and is changed through"):
        main.append("note", 1, slot="heard")


# --- append_log -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", EDGES)
def test_edits_and_redactions_across_a_block_boundary(store: Store, main: Branch, log: Any, count: int) -> None:
    wanted = fill(main, "log", count)
    for n in range(6):
        log.edit(n * 9 % len(wanted), f"edit {n}")
        wanted[n * 9 % len(wanted)] = f"edit {n}"
        log.redact(count - 8 - n, count - 6 - n)
        del wanted[count - 8 - n : count - 6 - n]
        log.append(("later", n))
        wanted.append(["later", n])
        assert list(log) == wanted
    fork = main.fork("fork", count)
    assert list(fork.state("log")) == list(range(count))
    fork.state("log").edit(-1, "fork's")
    assert fork.state("log")[-1] == "fork's"
    assert list(log) == wanted
    assert main.replay("log").equal


@pytest.mark.parametrize("count", EDGES)
def test_set_followed_by_appends_at_a_boundary(store: Store, main: Branch, log: Any, count: int) -> None:
    fill(main, "log", count)
    log.set(["a", "b"])
    wanted = ["a", "b"]
    for n in range(BLOCK + 2):
        log.append(n)
        wanted.append(n)  # type: ignore[arg-type]
    assert list(log) == wanted
    assert [list(main.state("log", at=count + 1 + n)) for n in range(3)] == [wanted[: 2 + n] for n in range(3)]
    assert [log.origin(i).seq for i in range(4)] == [count + 1, count + 1, count + 2, count + 3]
    assert main.replay("log").equal


def test_edits_keep_the_origin_and_name_the_last_edit(main: Branch, log: Any) -> None:
    first = log.append("a")
    log.append("b")
    edit = log.edit(-2, "A")
    again = log.edit(0, "AA")
    assert (log[0], log.origin(0), log.edited(0), log.edited(1)) == ("AA", first, again, None)
    assert main.state("log", at=edit)[0] == "A"
    assert main.state("log", at=edit).edited(0) == edit
    log.redact(0, 1)
    assert (list(log), log.edited(0)) == (["b"], None)


def test_redact_clamps_and_edit_does_not(log: Any, main: Branch) -> None:
    log.set([1, 2, 3])
    assert log.redact(2, 99).payload == {"start": 2, "stop": 3}
    assert log.redact(5, 9).payload == {"start": 2, "stop": 2}
    assert list(log) == [1, 2]
    for start, stop in ((-1, 2), (2, 1)):
        with pytest.raises(InvalidOperation, match=r"redact takes 0 <= start <= stop"):
            log.redact(start, stop)
    for index in (2, -3):
        with pytest.raises(IndexError, match=f"has 2 items, there is no item {index}"):
            log.edit(index, 0)
    assert main.seq == 3


def test_few_distinct_items_and_long_runs_of_equal_ones(store: Store, main: Branch, log: Any) -> None:
    wanted: list[Any] = []
    with store.transaction():
        for n in range(3000):
            item = "a" if n < 1500 else "ab"[n % 2]
            log.append(item)
            wanted.append(item)
    assert list(log) == wanted
    size = store.stats().objects
    for n in (0, 700, 1499, 1500, 2999, 1):
        log.edit(n, "b")
        wanted[n] = "b"
    log.redact(100, 200)
    del wanted[100:200]
    for _ in range(BLOCK):
        log.append("a")
        wanted.append("a")
    assert list(log) == wanted
    assert store.stats().objects - size < 40
    orphan = store.orphan("orphan")
    orphan.state("log").set(wanted)
    assert orphan.state("log").hash == log.hash == main.replay("log").hash


@pytest.mark.parametrize("item", [None, "", b"", [], {}, 0, False, "𝒰nïcödé\u202e", "\0", {"": [None]}, 2**64 - 1])
def test_small_and_strange_items_come_back_as_they_are(main: Branch, log: Any, item: Any) -> None:
    for _ in range(BLOCK):
        log.append(item)
    log.append("last")
    log.edit(3, item)
    assert log[:BLOCK] == [item] * BLOCK
    assert type(log[0]) is type(item)


def test_mapping_order_is_kept(log: Any) -> None:
    log.append({"z": 1, "a": 2, "m": {"y": 1, "b": 2}})
    assert list(log[0]) == ["z", "a", "m"]
    assert list(log[0]["m"]) == ["y", "b"]


@given(steps=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 400), st.integers(0, 400)), max_size=30))
def test_large_logs_under_edits_and_redactions(
    steps: list[tuple[int, int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    with chronicle.open(tmp_path_factory.mktemp("log"), durability="relaxed") as store, store.transaction():
        store.register_state("log", kind="append_log")
        log = store.branch().state("log")
        wanted: list[Any] = list(range(300))
        log.set(wanted)
        for what, a, b in steps:
            if what == 0 and wanted:
                log.edit(a % len(wanted), "x" * b)
                wanted[a % len(wanted)] = "x" * b
            elif what == 1:
                log.redact(min(a, b), max(a, b))
                del wanted[min(a, b) : max(a, b)]
            else:
                log.append(b)
                wanted.append(b)
        assert list(log) == wanted
        assert [log[i] for i in range(len(wanted))] == wanted


# --- the others -------------------------------------------------------------------------------------------------------


def test_a_value_is_what_was_set_last(store: Store, main: Branch) -> None:
    store.register_state("value", kind="value")
    store.register_state("other", kind="value", initial={"a": [1]})
    value = main.state("value")
    assert (value.get(), main.state("other").get()) == (None, {"a": [1]})
    value.set({"x": 1})
    value.set(None)
    assert (value.get(), main.state("value", at=1).get(), main.state("value", at=0).get()) == (None, {"x": 1}, None)
    main.state("other").set(3)
    for n in range(3 * BLOCK):
        main.append("note", n)
    assert (main.state("other").get(), main.state("other", at=0).get()) == (3, {"a": [1]})


def test_a_tree_is_sorted_by_the_bytes_of_its_paths(store: Store, main: Branch) -> None:
    store.register_state("tree", kind="tree", initial={"b": 1, "a": 2})
    tree = main.state("tree")
    paths = ["z", "ä", "a/b", "a-b", "a", "𝒰", "\uffff", "A", "a b", "a" * 256]
    for n, path in enumerate(paths):
        tree.put(path, n)
    assert list(tree) == sorted([*paths, "b"], key=str.encode)
    assert tree.list("a") == ["a", "a/b"]
    assert tree.list("a/") == ["a", "a/b"]
    assert tree.list("nothing") == []
    tree.remove("a")
    assert (tree.list("a"), "a" in tree, tree.get("a")) == (["a/b"], False, None)
    with pytest.raises(KeyError, match="has no such path"):
        tree.remove("a")


@pytest.mark.parametrize("path", ["", "/a", "a/", "a//b", ".", "..", "a/./b", "a/../b", "a\0b", "é" * 129, "\ud800", 1])
def test_paths_that_a_tree_refuses(store: Store, main: Branch, path: Any) -> None:
    store.register_state("tree", kind="tree")
    tree = main.state("tree")
    calls: list[Callable[[], object]] = [
        lambda: tree.put(path, 1), lambda: tree.remove(path), lambda: tree.batch([("put", "ok", 1), ("put", path, 1)]),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(InvalidOperation, match="a path "):
            call()
    assert (main.seq, path in tree) == (0, False)


def test_a_batch_is_one_event_applied_in_order(store: Store, main: Branch) -> None:
    store.register_state("tree", kind="tree")
    tree = main.state("tree")
    tree.batch([("put", "a", 1), ("put", "b", 1), ("remove", "a"), ("put", "b", 2), ["put", "c", None]])
    assert (dict(tree), main.seq) == ({"b": 2, "c": None}, 1)
    with pytest.raises(KeyError):
        tree.batch([("put", "x", 1), ("remove", "y")])
    with pytest.raises(InvalidOperation, match="a tree operation is"):
        tree.batch([("move", "a", "b")])
    assert tree.batch([]).payload == []
    assert dict(tree) == {"b": 2, "c": None}


def test_a_document_is_patched_by_rfc_7396(store: Store, main: Branch) -> None:
    store.register_state("doc", kind="document")
    doc = main.state("doc")
    assert doc.get() == {}
    doc.set({"a": "b", "c": {"d": "e", "f": "g"}, "list": []})
    doc.patch({"a": "z", "c": {"f": None}})
    doc.append(["list"], {"n": 1})
    doc.append(["list"], None)
    assert doc.get() == {"a": "z", "c": {"d": "e"}, "list": [{"n": 1}, None]}
    assert doc.get(["list", 0, "n"]) == doc.get(["list", -2, "n"]) == 1
    doc.patch({"list": {"no": "list"}})
    assert doc.get(["list"]) == {"no": "list"}
    with pytest.raises(InvalidOperation, match="not an array"):
        doc.append(["list"], 1)
    with pytest.raises(KeyError, match="there is no"):
        doc.append(["none"], 1)
    assert main.seq == 5


def test_a_document_that_grows_writes_what_changed(store: Store, main: Branch) -> None:
    store.register_state("doc", kind="document")
    doc = main.state("doc")
    doc.set({"items": [{"n": n, "text": "x" * 50} for n in range(2000)], "index": {f"k{n}": n for n in range(2000)}})
    for n in range(BLOCK):
        main.append("note", n)
    before = store.stats().objects
    for n in range(BLOCK):
        doc.append(["items"], n)
        doc.patch({"index": {"k7": -n}})
    assert store.stats().objects - before < 20
    assert len(doc.get(["items"])) == 2000 + BLOCK
    assert (doc.get(["index", "k7"]), doc.get(["index", "k8"])) == (1 - BLOCK, 8)
    assert main.replay("doc").equal


def test_a_stored_array_stays_readable_when_the_object_around_it_outgrows_its_form(opener: Opener) -> None:
    """The 65th key turns the object into a `Map`, which holds a `List` that lies in the store already."""
    store = opener()
    store.register_state("doc", kind="document")
    wanted = {"list": list(range(3000)), **{f"k{n:02}": n for n in range(63)}}
    store.branch().state("doc").set(wanted)
    for n in range(BLOCK):
        store.branch().append("note", n)
    store.close()
    store = opener()
    doc = store.branch().state("doc")
    doc.patch({"one more": None, "k99": 99})
    assert doc.get(["list", 1500]) == 1500
    assert doc.get() == {**wanted, "k99": 99}
    doc.append(["list"], "end")
    assert doc.get(["list"]) == [*range(3000), "end"]
    assert store.branch().replay("doc").equal


def test_what_is_read_is_the_callers_own(store: Store, main: Branch) -> None:
    """Changing what a view returned changes nothing in the store."""
    collect = reducer("collect", initial=list)(lambda state, event: [*state, event.payload])
    store.register_state("doc", kind="document", initial={"a": {"b": [1]}})
    store.register_state("value", kind="value", initial=[1])
    store.register_state("custom", reducer=collect, types=["note"])
    store.register_state("tree", kind="tree", initial={"p": [1]})
    main.append("note", {"x": [1]})
    main.state("doc").get()["a"]["b"].append(2)
    main.state("doc").get(["a"])["b"].append(2)
    main.state("value").get().append(2)
    main.state("custom").get()[0]["x"].append(2)
    main.state("tree")["p"].append(2)
    main.event(1).payload["x"].append(2)
    assert main.state("doc").get() == {"a": {"b": [1]}}
    assert (main.state("value").get(), main.state("tree")["p"]) == ([1], [1])
    assert main.state("custom").get() == [{"x": [1]}]


def test_what_was_given_may_change_afterwards(store: Store, main: Branch) -> None:
    store.register_state("doc", kind="document")
    store.register_state("tree", kind="tree")
    item: dict[str, Any] = {"list": [1]}
    main.state("doc").set(item)
    main.state("tree").put("p", item)
    item["list"].append(2)
    assert main.state("doc").get() == main.state("tree")["p"] == {"list": [1]}


# --- sizes ------------------------------------------------------------------------------------------------------------


def test_a_payload_of_50_megabytes(opener: Opener) -> None:
    store = opener()
    store.register_state("log", kind="append_log")
    store.register_state("tree", kind="tree")
    large = bytes(range(256)) * (50 << 12)
    main = store.branch()
    main.state("log").append(large)
    main.state("log").append("small")
    main.state("tree").put("large", large[: 1 << 20])
    blob = store.put_blob(large[: 1 << 20])
    main.append("note", BlobRef(blob))
    for n in range(BLOCK):
        main.state("log").append(n)
    store.close()
    store = opener()
    main = store.branch()
    assert main.state("log")[0] == large
    assert main.state("tree")["large"] == store.get_blob(blob).data == large[: 1 << 20]
    assert main.event(4).blobs == (blob,)
    assert main.state("log")[1:3] == ["small", 0]
    assert store.verify(deep=True).ok


def test_blobs_are_stored_once_and_empty_ones_are_blobs(store: Store, main: Branch) -> None:
    first = store.put_blob(b"", "text/plain")
    assert store.put_blob(b"", "text/plain") == first != store.put_blob(b"", "image/png")
    objects = store.stats().objects
    for _ in range(5):
        store.put_blob(b"the same")
    assert store.stats().objects == objects + 1
    blob = store.get_blob(first)
    assert (blob.hash, blob.media_type, blob.data) == (first, "text/plain", b"")
    store.register_state("log", kind="append_log")
    event = main.state("log").append({"file": BlobRef(first)})
    assert event.blobs == (first,)
    assert main.state("log")[0] == {"file": BlobRef(first)}
