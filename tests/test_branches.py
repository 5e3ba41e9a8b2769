"""Branches: forks at every kind of place, orphans, rewinding both ways, deleting and restoring, the reflog."""

from __future__ import annotations

import pytest
from conftest import Clock, Opener
from hypothesis import given
from hypothesis import strategies as st

import chronicle_py as chronicle
from chronicle_py import Branch, BranchExists, BranchInfo, Conflict, InvalidName, InvalidOperation, NotFound, Store
from chronicle_py.names import check_branch
from chronicle_py.records import BLOCK


@pytest.fixture
def messages(store: Store, main: Branch) -> Branch:
    """`main` with two and a half blocks of numbers in the slot `log`, from 1 on as sequences are."""
    store.register_state("log", kind="append_log")
    with store.transaction():
        for n in range(1, 2 * BLOCK + 33):
            main.state("log").append(n)
    return main


def ids(branch: Branch) -> list[str]:
    return [e.id for e in branch.events()]


PLACES = [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK - 1, 2 * BLOCK, 2 * BLOCK + 1, 2 * BLOCK + 31, 2 * BLOCK + 32]


@pytest.mark.parametrize("place", PLACES)
def test_a_fork_shares_what_came_before_and_grows_alone(messages: Branch, place: int) -> None:
    before = ids(messages)
    fork = messages.fork("fork", place)
    assert (fork.seq, fork.head) == (place, before[place - 1] if place else None)
    assert list(fork.state("log")) == list(range(1, place + 1))
    for n in range(BLOCK + 2):
        fork.state("log").append(-n)
    assert ids(fork)[:place] == before[:place]
    assert list(fork.state("log")) == [*range(1, place + 1), *range(0, -BLOCK - 2, -1)]
    assert ids(messages) == before
    assert list(messages.state("log")) == list(range(1, len(before) + 1))
    for seq in {0, place, place + 1, fork.seq}:
        assert list(fork.state("log", at=seq)) == [*range(1, place + 1), *range(0, place - seq, -1)][:seq]


@pytest.mark.parametrize("place", PLACES)
def test_a_fork_of_a_fork_at_each_kind_of_place(store: Store, messages: Branch, place: int) -> None:
    child = messages.fork("child", BLOCK + 10)
    with store.transaction():
        for n in range(BLOCK + 22):
            child.state("log").append(-n)
    want = [*range(1, BLOCK + 11), *range(0, -BLOCK - 22, -1)]
    grandchild = child.fork("grandchild", min(place, child.seq))
    assert list(grandchild.state("log")) == want[:place]
    grandchild.state("log").append("new")
    assert list(grandchild.state("log")) == [*want[:place], "new"]
    assert list(child.state("log")) == want


def test_a_fork_by_event_or_id_or_prefix(messages: Branch) -> None:
    event = messages.event(70)
    for name, at in (("event", event), ("id", event.id), ("prefix", event.id[:12]), ("upper", event.id.upper())):
        assert messages.fork(name, at).head == event.id


def test_a_fork_of_an_empty_branch_is_empty_and_starts_a_history_of_its_own(store: Store, main: Branch) -> None:
    fork = main.fork("fork")
    assert (fork.seq, fork.head, list(fork.events())) == (0, None, [])
    first = fork.append("note", 1)
    assert (first.seq, first.parents) == (1, ())
    assert main.seq == 0
    main.append("note", 2)
    assert ids(main) != ids(fork)


def test_two_forks_at_one_place_do_not_meet(messages: Branch) -> None:
    forks = [messages.fork(f"fork {n}", BLOCK) for n in range(5)]
    for round in range(3):
        for fork in forks:
            fork.state("log").append([fork.name, round])
    for fork in forks:
        assert fork.state("log")[BLOCK:] == [[fork.name, n] for n in range(3)]


def test_a_fork_at_the_head_leaves_its_parent_free_to_go_on(messages: Branch) -> None:
    fork = messages.fork("fork")
    messages.state("log").append("main's")
    fork.state("log").append("fork's")
    messages.state("log").append("main's")
    assert messages.state("log").tail(2) == ["main's", "main's"]
    assert fork.state("log").tail(2) == [2 * BLOCK + 32, "fork's"]


def test_a_fork_outlives_its_parent(store: Store, messages: Branch) -> None:
    child = messages.fork("child", 100)
    child.state("log").append("child's")
    grandchild = child.fork("grandchild")
    store.delete_branch("child")
    with pytest.raises(NotFound, match="there is no branch 'child'"):
        child.append("note", 1)
    with pytest.raises(NotFound):
        child.state("log").append(1)
    grandchild.state("log").append("grandchild's")
    assert list(grandchild.state("log")) == [*range(1, 101), "child's", "grandchild's"]
    assert store.branches()[1].parent == "child"
    assert grandchild.fork("again", 101).state("log")[-1] == "child's"


def test_an_orphan_inherits_nothing(store: Store, messages: Branch) -> None:
    orphan = store.orphan("orphan")
    assert (orphan.seq, list(orphan.state("log"))) == (0, [])
    orphan.state("log").append("own")
    assert list(orphan.state("log")) == ["own"]
    assert len(messages.state("log")) == 2 * BLOCK + 32
    assert not set(ids(orphan)) & set(ids(messages))
    with pytest.raises(BranchExists):
        store.orphan("orphan")


def test_rewinding_back_and_forward(messages: Branch) -> None:
    before = ids(messages)
    messages.rewind(50)
    assert (messages.seq, list(messages.state("log"))) == (50, list(range(1, 51)))
    messages.state("log").append("another way")
    other = messages.head
    messages.rewind(before[99])
    assert (messages.seq, messages.state("log")[-1]) == (100, 100)
    messages.rewind(before[-1])
    assert ids(messages) == before
    assert other is not None
    messages.rewind(other)
    assert messages.state("log").tail(2) == [50, "another way"]
    messages.rewind(0)
    assert (messages.seq, messages.head, list(messages.state("log"))) == (0, None, [])
    messages.rewind(before[0])
    assert list(messages.state("log")) == [1]


def test_appending_after_a_rewind_overwrites_nothing(store: Store, messages: Branch) -> None:
    before = ids(messages)
    events = store.stats().events
    for n in range(3):
        messages.rewind(BLOCK)
        messages.state("log").append(-n)
    assert store.stats().events == events + 3
    assert [store.event(id).seq for id in before] == list(range(1, len(before) + 1))
    messages.rewind(before[-1])
    assert list(messages.state("log")) == list(range(1, len(before) + 1))


def test_rewinding_to_where_one_is_changes_nothing(messages: Branch) -> None:
    moves = messages.reflog()
    messages.rewind(messages.seq)
    messages.rewind(messages.head or "")
    assert messages.reflog() == moves
    messages.state("log").append("still on its lineage")


def test_a_rewind_goes_nowhere_strange(store: Store, messages: Branch) -> None:
    elsewhere = store.orphan("elsewhere").append("note", 1)
    with pytest.raises(NotFound, match="neither on branch 'main' nor below a head in its reflog; fork a branch"):
        messages.rewind(elsewhere)
    with pytest.raises(NotFound, match=r"sequences 0 to 160, there is no 161; to go forward again, give an event id"):
        messages.rewind(161)
    with pytest.raises(NotFound):
        messages.rewind(-1)
    with pytest.raises(NotFound, match="no event has an id that starts with"):
        messages.rewind("f" * 64)
    with pytest.raises(InvalidOperation, match=r"a sequence \(int\) or an event id"):
        messages.rewind(True)
    assert messages.seq == 160


def test_the_reflog_tells_what_was_done(store: Store) -> None:
    main = store.branch()
    first = main.append("note", 1)
    second = main.append("note", 2)
    fork = main.fork("fork", 1)
    fork.append("note", 3)
    head = fork.head
    fork.rewind(0)
    store.delete_branch("fork")
    store.restore_branch("fork")
    fork.rewind(head or "")
    assert [(m.number, m.kind, m.before, m.after) for m in fork.reflog()] == [
        (1, "fork", None, (1, first.id)),
        (2, "rewind", (2, head), (0, "")),
        (3, "delete", (0, ""), None),
        (4, "restore", None, (0, "")),
        (5, "rewind", (0, ""), (2, head)),
    ]
    assert [m.kind for m in main.reflog()] == ["create"]
    assert main.head == second.id
    times = [m.time for m in fork.reflog()]
    assert times == sorted(times)


def test_a_deleted_branch_comes_back_with_its_head(store: Store, messages: Branch) -> None:
    fork = messages.fork("fork", 40)
    fork.state("log").append("kept")
    head = fork.head
    store.delete_branch("fork")
    assert [b.name for b in store.branches()] == ["main"]
    assert [m.kind for m in fork.reflog()] == ["fork", "delete"]
    restored = store.restore_branch("fork")
    assert (restored.head, list(restored.state("log"))) == (head, [*range(1, 41), "kept"])
    restored.state("log").append("and goes on")
    assert restored.state("log").tail(2) == ["kept", "and goes on"]
    with pytest.raises(BranchExists):
        store.restore_branch("fork")
    with pytest.raises(NotFound, match="no branch 'never' was deleted"):
        store.restore_branch("never")


def test_a_name_can_be_used_again_after_a_deletion(store: Store, messages: Branch) -> None:
    messages.fork("name", 10).state("log").append("first")
    store.delete_branch("name")
    again = messages.fork("name", 20)
    assert again.seq == 20
    with pytest.raises(BranchExists):
        store.restore_branch("name")
    store.delete_branch("name")
    assert store.restore_branch("name").seq == 20


def test_main_cannot_be_deleted(store: Store) -> None:
    with pytest.raises(InvalidOperation, match="'main' cannot be deleted; rewind it instead"):
        store.delete_branch("main")
    with pytest.raises(NotFound):
        store.delete_branch("none")


def test_listing_branches(opener: Opener) -> None:
    clock = Clock(1000)
    store = opener(clock=clock)
    main = store.branch()
    first = main.append("note", 1)
    main.fork("zebra")
    main.fork("ant", 0)
    second = store.branch("zebra").append("note", 2)
    assert store.branches() == [
        BranchInfo("main", 1, first.id, first.time, None, 0, 1001, ""),
        BranchInfo("ant", 0, None, None, "main", 0, 1004, ""),
        BranchInfo("zebra", 2, second.id, second.time, "main", 1, 1003, ""),
    ]


@pytest.mark.parametrize(
    "name", ["", " a", "a ", "a\n", "a\0b", "-a", "\ud800", "é" * 128, None, 5, b"a"], ids=lambda n: repr(n)[:12]
)
def test_names_that_are_refused(store: Store, main: Branch, name: object) -> None:
    for call in (main.fork, store.orphan, store.branch):
        with pytest.raises(InvalidName, match="a branch name"):
            call(name)  # type: ignore[arg-type]
    assert len(store.branches()) == 1


@given(name=st.text(min_size=1, max_size=40))
def test_any_other_unicode_is_a_name(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    try:
        check_branch(name)
    except InvalidName:
        return
    path = tmp_path_factory.getbasetemp() / "names"
    with chronicle.open(path, durability="relaxed") as store, store.transaction():
        branch = store.orphan(name) if name not in [b.name for b in store.branches()] else store.branch(name)
        branch.append("note", name)
        assert branch.event(branch.seq).payload == name
        assert branch.reflog()[0].kind in ("orphan", "create")


def test_the_longest_name_and_its_neighbours_keep_apart(store: Store, main: Branch) -> None:
    names = ["x" * 255, "x" * 254, "é" * 127 + "x", "a/b", "a", "a b", "a\u2028b"]
    for n, name in enumerate(names):
        branch = main.fork(name)
        branch.append("note", n)
        branch.rewind(0)
    for name in names:
        assert [m.kind for m in store.branch(name).reflog()] == ["fork", "rewind"]
    assert {b.name for b in store.branches()} == {"main", *names}


def test_expect_names_the_head(store: Store, main: Branch) -> None:
    first = main.append("note", 1, expect=0)
    with pytest.raises(Conflict, match="head was expected to be none and is " + first.id[:12]):
        main.append("note", 2, expect=0)
    second = main.append("note", 2, expect=first)
    third = main.append("note", 3, expect=second.id)
    fourth = main.append("note", 4, expect=third.id[:10])
    with pytest.raises(Conflict, match="Read what was appended since and try again"):
        main.append("note", 5, expect=third.id)
    with pytest.raises(InvalidOperation, match="expect is the id"):
        main.append("note", 5, expect=4)
    assert main.head == fourth.id


def test_a_branch_is_its_name(store: Store, main: Branch) -> None:
    assert main == store.branch("main") != main.fork("other")
    assert len({main, store.branch()}) == 1
    assert repr(main) == f"<Branch 'main' of {store.path}>"
    with pytest.raises(NotFound, match=r"there is no branch 'none'; see store.branches\(\)"):
        store.branch("none")
