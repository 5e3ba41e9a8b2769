"""Views: a log is a Sequence, a tree a Mapping, both like Python's own; live or fixed; diffs and replays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from conftest import Opener
from hypothesis import given
from hypothesis import strategies as st
from model import patched

import chronicle_py as chronicle
from chronicle_py import (
    Branch,
    Change,
    CustomView,
    DocumentView,
    InvalidOperation,
    LogView,
    NotFound,
    ReadOnly,
    Store,
    TreeView,
    ValueView,
    reducer,
)
from chronicle_py.records import BLOCK


@pytest.fixture
def slots(store: Store, main: Branch) -> Branch:
    """`main`, with a slot of each kind named after it."""
    for kind in ("value", "append_log", "tree", "document"):
        store.register_state(kind, kind=kind)
    store.register_state("custom", reducer=reducer("count", initial=int)(lambda s, e: s + 1), types=["note"])
    return main


# --- a log is a sequence ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hundred(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A log of the numbers 0…149, some of them by edits, and after redactions."""
    with chronicle.open(tmp_path_factory.mktemp("hundred"), durability="relaxed") as store:
        store.register_state("log", kind="append_log")
        log = store.branch().state("log")
        with store.transaction():
            log.set(range(30))
            for n in range(30, 160):
                log.append(n)
            for n in range(3, 150, 11):
                log.edit(n, n)
            log.redact(150, 160)
        yield log


@given(index=st.integers(-200, 200))
def test_an_index_is_pythons(hundred: LogView, index: int) -> None:
    try:
        wanted = list(range(150))[index]
    except IndexError:
        with pytest.raises(IndexError, match="has 150 items"):
            hundred[index]
    else:
        assert hundred[index] == wanted


@given(
    part=st.slices(150) | st.builds(slice, st.integers(-300, 300), st.integers(-300, 300), st.sampled_from([1, -1, 7]))
)
def test_a_slice_is_pythons(hundred: LogView, part: slice) -> None:
    assert hundred[part] == list(range(150))[part]


def test_a_log_is_a_sequence(hundred: LogView) -> None:
    numbers = list(range(150))
    assert isinstance(hundred, Sequence)
    assert (list(hundred), list(reversed(hundred)), len(hundred)) == (numbers, numbers[::-1], 150)
    assert hundred == numbers != hundred[1:]
    assert hundred == tuple(numbers)
    assert (hundred.index(77), hundred.count(5), 149 in hundred, 150 in hundred) == (77, 1, True, False)
    assert (hundred.tail(3), hundred.tail(0), hundred.tail(999)) == ([147, 148, 149], [], numbers)
    assert [int.from_bytes(raw[-1:], "big") for raw in hundred.raw()[:100]] == numbers[:100]
    assert bool(hundred)
    with pytest.raises(TypeError):
        hash(hundred)


@pytest.mark.parametrize("index", ["0", 1.0, None, True, (0,), b"a"])
def test_other_indexes_are_refused(hundred: LogView, index: Any) -> None:
    with pytest.raises(InvalidOperation, match="an item is named by its index"):
        hundred[index]
    with pytest.raises(InvalidOperation):
        hundred.tail(index) if not isinstance(index, int) or index is True else hundred.tail(-1)


def test_origins_are_the_events_that_brought_the_items(hundred: LogView) -> None:
    assert [hundred.origin(i).type for i in (0, 29, 30)] == ["state.set", "state.set", "state.append"]
    assert hundred.origin(-1).payload == 149
    edit = hundred.edited(14)
    assert edit is not None
    assert (edit.type, edit.payload) == ("state.edit", {"index": 14, "item": 14})
    assert (hundred.edited(15), hundred.origin(14).type) == (None, "state.set")
    for call in (hundred.origin, hundred.edited):
        with pytest.raises(IndexError):
            call(150)


def test_initial_items_have_no_origin(store: Store, main: Branch) -> None:
    store.register_state("log", kind="append_log", initial=["first"])
    log = main.state("log")
    log.append("second")
    assert (list(log), log.origin(1).seq) == (["first", "second"], 1)
    with pytest.raises(InvalidOperation, match="item 0 of slot 'log' is an initial one; no event brought it"):
        log.origin(0)
    edit = log.edit(0, "edited")
    assert (log[0], log.edited(0)) == ("edited", edit)


def test_a_log_of_nothing(slots: Branch) -> None:
    log = slots.state("append_log")
    assert (list(log), len(log), log[:], log.tail(1), log.raw(), bool(log)) == ([], 0, [], [], [], False)
    with pytest.raises(IndexError):
        log[0]
    with pytest.raises(IndexError):
        log[-1]


# --- a tree is a mapping ----------------------------------------------------------------------------------------------


def test_a_tree_is_a_mapping(slots: Branch) -> None:
    tree = slots.state("tree")
    tree.batch([("put", "b/x", {"n": 1}), ("put", "a", None), ("put", "b", 2)])
    assert isinstance(tree, Mapping)
    assert dict(tree) == {"a": None, "b": 2, "b/x": {"n": 1}} == dict(tree.items())
    assert (list(tree), list(tree.keys()), list(tree.values())) == (
        ["a", "b", "b/x"],
        ["a", "b", "b/x"],
        [None, 2, {"n": 1}],
    )
    assert (tree["b/x"], tree.get("c", "default"), "a" in tree, "c" in tree, len(tree)) == (
        {"n": 1},
        "default",
        True,
        False,
        3,
    )
    assert tree == {"a": None, "b": 2, "b/x": {"n": 1}}
    with pytest.raises(KeyError, match="has no path 'c'"):
        tree["c"]
    assert (5 in tree, None in tree, "../x" in tree) == (False, False, False)


# --- live and fixed ---------------------------------------------------------------------------------------------------


def test_each_kind_has_its_view(slots: Branch) -> None:
    kinds = {
        "value": ValueView,
        "append_log": LogView,
        "tree": TreeView,
        "document": DocumentView,
        "custom": CustomView,
    }
    for slot, kind in kinds.items():
        assert type(slots.state(slot)) is kind
        assert repr(slots.state(slot)) == f"<{kind.__name__} '{slot}' of branch 'main'>"
        assert repr(slots.state(slot, at=0)) == f"<{kind.__name__} '{slot}' of branch 'main' at 0>"


def test_a_live_view_reads_the_head_and_an_iteration_keeps_the_one_it_began_with(slots: Branch) -> None:
    log, again = slots.state("append_log"), slots.state("append_log")
    for n in range(3):
        log.append(n)
    iteration = iter(log)
    backwards = reversed(log)
    assert next(iteration) == 0
    again.set(["new"])
    assert (list(iteration), list(backwards)) == ([1, 2], [2, 1, 0])
    assert (list(log), log.seq) == (["new"], 4)
    slots.rewind(2)
    assert (list(log), log.seq) == ([0, 1], 2)


def test_a_fixed_view_stays_and_cannot_be_changed(slots: Branch) -> None:
    for slot, change in (("append_log", "append"), ("value", "set")):
        getattr(slots.state(slot), change)(1)
    slots.state("tree").put("a", 1)
    slots.state("document").set({"list": []})
    fixed = {slot: slots.state(slot, at=slots.seq) for slot in ("append_log", "value", "tree", "document", "custom")}
    before = {slot: view.hash for slot, view in fixed.items()}
    calls: list[Callable[[], object]] = [
        lambda: fixed["append_log"].append(2), lambda: fixed["append_log"].edit(0, 2), lambda: fixed["value"].set(2),
        lambda: fixed["append_log"].redact(0, 1), lambda: fixed["append_log"].set([]),
        lambda: fixed["tree"].put("b", 1),
        lambda: fixed["tree"].remove("a"), lambda: fixed["tree"].batch([]), lambda: fixed["document"].set({}),
        lambda: fixed["document"].patch({}), lambda: fixed["document"].append(["list"], 1),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(ReadOnly, match="as it was at sequence 4; change the slot through"):
            call()
    assert slots.seq == 4
    slots.state("append_log").set([])
    slots.state("tree").remove("a")
    slots.state("value").set(None)
    slots.append("note", 1)
    assert {slot: view.hash for slot, view in fixed.items()} == before
    assert (list(fixed["append_log"]), dict(fixed["tree"]), fixed["value"].get()) == ([1], {"a": 1}, 1)
    assert all(view.seq == 4 for view in fixed.values())


def test_at_takes_a_sequence_an_id_or_an_event(slots: Branch) -> None:
    first = slots.state("append_log").append(1)
    slots.state("append_log").append(2)
    for at in (1, first, first.id, first.id[:10]):
        assert list(slots.state("append_log", at=at)) == [1]
    assert list(slots.state("append_log", at=0)) == []
    fork = slots.fork("fork", 0)
    other = fork.append("note", 1)
    for bad, error in (
        (3, NotFound),
        (-1, NotFound),
        (other, NotFound),
        (1.5, InvalidOperation),
        (True, InvalidOperation),
    ):
        with pytest.raises(error):
            slots.state("append_log", at=bad)  # type: ignore[arg-type]


def test_every_operation_returns_its_event_and_takes_its_references(slots: Branch) -> None:
    cause = slots.append("note", 0)
    log, tree, doc = slots.state("append_log"), slots.state("tree"), slots.state("document")
    events = [
        log.append(1, caused_by=[cause]), log.edit(0, 2, caused_by=[cause]), log.redact(0, 0, caused_by=[cause]),
        log.set([1], caused_by=[cause]), tree.put("a", 1, caused_by=[cause]), tree.remove("a", caused_by=[cause]),
        tree.batch([], caused_by=[cause]), doc.set({"a": []}, caused_by=[cause]), doc.patch({}, caused_by=[cause]),
        doc.append(["a"], 1, caused_by=[cause]), slots.state("value").set(1, caused_by=[cause]),
    ]  # fmt: skip
    types = ["append", "edit", "redact", "set", "put", "remove", "batch", "set", "patch", "append", "set"]
    assert [e.type for e in events] == [f"state.{t}" for t in types]
    assert [e.seq for e in events] == list(range(2, 13))
    assert all(e.caused_by == (cause.id,) for e in events)
    assert slots.engine.closed is False
    with pytest.raises(chronicle.Conflict):
        log.append(1, expect=cause)
    with pytest.raises(chronicle.Conflict):
        doc.append(["a"], 1, expect=0)


def test_every_accepted_operation_is_one_event_also_one_that_changes_nothing(slots: Branch) -> None:
    log, tree, doc = slots.state("append_log"), slots.state("tree"), slots.state("document")
    log.set(["a"])
    tree.put("p", 1)
    hashes = log.hash, tree.hash, doc.hash
    log.edit(0, "a")
    log.redact(1, 5)
    tree.put("p", 1)
    tree.batch([])
    doc.patch({})
    doc.patch({"none": None})
    assert slots.seq == 8
    assert (log.hash, tree.hash, doc.hash) == hashes


# --- diff and replay --------------------------------------------------------------------------------------------------


def test_diffs_of_each_kind(slots: Branch) -> None:
    log, tree, doc, value = (slots.state(s) for s in ("append_log", "tree", "document", "value"))
    log.set(["a", "b", "c"])
    tree.batch([("put", "x", 1), ("put", "y", {"deep": [1]})])
    doc.set({"a": {"b": 1}, "list": [1, 2, 3]})
    value.set([1])
    slots.append("note", 1)
    before = slots.seq
    log.redact(0, 1)
    log.append("d")
    log.edit(0, "B")
    tree.batch([("remove", "x"), ("put", "y", {"deep": [2]}), ("put", "z", None)])
    doc.patch({"a": {"b": 2, "c": 3}})
    doc.append(["list"], 4)
    value.set([2])
    slots.append("note", 1)
    after = slots.seq
    assert slots.diff("tree", before, after) == [
        Change("remove", "x", 1, None), Change("change", "y", {"deep": [1]}, {"deep": [2]}),
        Change("add", "z", None, None),
    ]  # fmt: skip
    assert slots.diff("document", before, after) == [
        Change("change", ("a", "b"), 1, 2), Change("add", ("a", "c"), None, 3), Change("add", ("list", 3), None, 4),
    ]  # fmt: skip
    assert slots.diff("value", before, after) == [Change("change", (), [1], [2])]
    assert slots.diff("custom", before, after) == [Change("change", (), 1, 2)]
    assert patched(["a", "b", "c"], slots.diff("append_log", before, after)) == ["B", "c", "d"]
    for slot in ("append_log", "tree", "document", "value", "custom"):
        assert slots.diff(slot, after, after) == []
        assert slots.diff(slot, slots, slots.head or "") == []


def test_a_diff_with_another_branch_and_across_forks(store: Store, slots: Branch) -> None:
    log = slots.state("append_log")
    for n in range(2 * BLOCK):
        log.append(n)
    fork = slots.fork("fork", BLOCK)
    fork.state("append_log").append("fork's")
    log.append("main's")
    changes = slots.diff("append_log", slots, fork)
    assert patched(list(log), changes) == [*range(BLOCK), "fork's"]
    assert patched(list(fork.state("append_log")), fork.diff("append_log", fork, slots)) == list(log)
    assert fork.diff("append_log", BLOCK, slots.fork("same", BLOCK)) == []
    with pytest.raises(NotFound):
        fork.diff("append_log", 0, slots.head or "")


def test_a_diff_between_stores_is_refused(opener: Opener, slots: Branch, tmp_path: Any) -> None:
    other = opener(tmp_path / "other")
    with pytest.raises(InvalidOperation, match="diff compares branches of one store"):
        slots.diff("tree", slots, other.branch())


def test_a_replay_reports_progress_and_equality(store: Store, slots: Branch) -> None:
    with store.transaction():
        for n in range(40 * BLOCK):
            slots.state("append_log").append(n)
    seen: list[tuple[int, int]] = []
    replay = slots.replay("append_log", progress=lambda done, total: seen.append((done, total)))
    assert (replay.slot, replay.events, replay.equal) == ("append_log", 40 * BLOCK, True)
    assert replay.hash == replay.stored_hash == slots.state("append_log").hash
    assert replay.seconds > 0
    assert replay.events_per_second == replay.events / replay.seconds
    assert seen[-1] == (40 * BLOCK, 40 * BLOCK)
    empty = store.orphan("empty").replay("tree")
    assert (empty.events, empty.equal, empty.hash) == (0, True, store.branch("empty").state("tree").hash)


def test_events_of_a_branch_are_fixed_at_the_call(slots: Branch) -> None:
    for n in range(3):
        slots.append("note", n)
    events = slots.events()
    slots.append("note", 3)
    slots.rewind(0)
    assert [e.payload for e in events] == [0, 1, 2]
    assert list(slots.events()) == []


@pytest.mark.parametrize(
    "bound", [{"start": -1}, {"stop": 1.5}, {"limit": "3"}, {"start": True}, {"types": "note"}, {"types": 3}]
)
def test_bounds_of_events_that_are_refused(slots: Branch, bound: dict[str, Any]) -> None:
    with pytest.raises(InvalidOperation, match=r"events\("):
        slots.events(**bound)
