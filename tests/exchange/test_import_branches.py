"""Importing an export where its branches, or others, are there already."""

from __future__ import annotations

from typing import Any

import pytest
from exchange_stores import (
    Lines,
    exported_lines,
    fresh,
    picture,
    play,
    put_in,
    register,
    runs_of,
    size_of,
    steps,
)
from hypothesis import given

from chronicle_py import (
    Branch,
    Conflict,
    StateExists,
    Store,
)
from chronicle_py.exchange import export_lines


@pytest.fixture
def exported(store: Store) -> Lines:
    return exported_lines(store)


def test_a_branch_that_went_on_here_is_left_alone(exported: Lines, store: Store, main: Branch) -> None:
    newest = main.state("messages").append("later")
    assert put_in(store, exported).branches == {"main": "behind", "other": "same"}
    assert main.head == newest.id


def test_a_branch_that_went_another_way_is_a_conflict(exported: Lines, store: Store, main: Branch) -> None:
    main.rewind(5)
    main.append("note", "another way")
    before = size_of(store), picture(store)
    with pytest.raises(Conflict, match=r"'main' is at .* --prefix"):
        put_in(store, exported)
    assert (size_of(store), picture(store)) == before


def test_a_prefix_brings_branches_in_beside_those_there(exported: Lines, store: Store, main: Branch) -> None:
    before = picture(store)
    main.rewind(5)
    main.append("note", "another way")
    done = put_in(store, exported, prefix="old/")
    assert done.branches == {"old/main": "new", "old/other": "new"}
    assert [event.id for event in store.branch("old/main").events()] == [e[0] for e in before["main"]["ids"]]
    info = next(info for info in store.branches() if info.name == "old/other")
    assert (info.parent, info.fork_seq) == ("old/main", 4)
    assert store.verify(deep=True).ok


def test_a_prefix_keeps_the_name_of_a_parent_that_is_not_in_the_file(exported: Lines, store: Store) -> None:
    put_in(store, list(export_lines(store, ["other"])), prefix="x/")
    assert next(info for info in store.branches() if info.name == "x/other").parent == "main"


@given(steps)
def test_the_feed_has_every_imported_event_in_one_run(script: list[Any]) -> None:
    with fresh() as source, fresh() as target:
        register(source)
        play(source, script)
        put_in(target, list(export_lines(source)))
        runs = [(lineage, seq) for _, lineage, seq in runs_of(target)]
        assert len(runs) == len(set(runs)) == size_of(target)["events"]
        target.branch().append("note", 1)
        assert len(runs_of(target)) == len(runs) + 1


def test_the_feed_follows_a_branch_over_several_lineages(exported: Lines, store: Store) -> None:
    store.branch("other").fork("third", at=5).append("note", 1)
    *lines, first, second, third, end = export_lines(store)
    with fresh() as target:
        put_in(target, [*lines, third, second, first, end])
        assert runs_of(target) == [
            *(("third", 1, seq) for seq in range(1, 5)), ("third", 2, 5), ("third", 3, 6),
            ("other", 2, 6), ("main", 1, 5), ("main", 1, 6),
        ]  # fmt: skip


def test_a_deleted_branch_comes_back(exported: Lines, store: Store) -> None:
    head = store.branch("other").head
    store.delete_branch("other")
    assert put_in(store, exported).branches["other"] == "new"
    assert store.branch("other").head == head


def test_an_import_leaves_an_entry_in_the_reflog(exported: Lines, store: Store) -> None:
    with fresh() as target:
        put_in(target, exported)
        move = target.branch().reflog()[-1]
        assert (move.kind, move.before, move.after) == ("import", (0, ""), (6, store.branch().head))
        target.branch().rewind(2)
        assert put_in(target, exported).branches["main"] == "moved"


def test_a_contradicting_registration_refuses_the_import(exported: Lines) -> None:
    with fresh() as target:
        target.register_state("v", kind="tree")
        before = size_of(target)
        with pytest.raises(StateExists, match="'v'"):
            put_in(target, exported)
        with pytest.raises(StateExists, match="'v'"):
            put_in(target, exported, skip_bad=True)
        assert size_of(target) == before
