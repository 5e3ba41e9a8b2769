"""Several processes on one store: one writer at a time, readers that never wait and never see half a commit.

The other processes are scripts (see `script.py`); they are told when to go on by lines on their input.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Opener
from script import ended, hear, run, say, start

import chronicle_py as chronicle
from chronicle_py import Conflict, NotFound, ReducerMissing, Store

COUNTING = """
import msgspec
class Count(msgspec.Struct, frozen=True):
    events: int = 0
    sum: int = 0
@chronicle.reducer("count", initial=Count, state_type=Count)
def count(state, event):
    return Count(state.events + 1, state.sum + event.payload)
"""


@pytest.mark.parametrize("durability", ["relaxed", "full"])
def test_three_append_to_one_branch_while_a_fourth_reads(tmp_path: Path, opener: Opener, durability: str) -> None:
    """No lost event, no hole, each writer's order kept; what a reader saw once stays as it was."""
    count = 200
    with opener(durability=durability) as store:
        store.register_state("log", kind="append_log")
    writer = """
    store = chronicle.open(path, durability=sys.argv[3])
    log = store.branch().state("log")
    print("ready", flush=True)
    sys.stdin.readline()
    for i in range(int(sys.argv[4])):
        if i % 20 == 7:
            with store.transaction():
                event = log.append([sys.argv[2], i])
                assert log[-1] == [sys.argv[2], i] and store.branch().seq == event.seq == len(log)
        else:
            event = log.append([sys.argv[2], i])
        assert store.branch().event(event.seq).id == event.id
    """
    reader = """
    store = chronicle.open(path, readonly=True)
    main = store.branch()
    print("ready", flush=True)
    sys.stdin.readline()
    ids, rounds = [], 0
    while len(ids) < int(sys.argv[2]):
        seen = [event.id for event in main.events()]
        assert seen[:len(ids)] == ids
        assert [event.seq for event in main.events(stop=len(seen))] == list(range(1, len(seen) + 1))
        state = main.state("log", at=len(seen))
        items = list(state)
        assert len(items) == len(seen) and state.hash == main.state("log", at=len(seen)).hash
        for name in "abc":
            mine = [i for n, i in items if n == name]
            assert mine == list(range(len(mine)))
        ids, rounds = seen, rounds + 1
    print(rounds)
    """
    writers = [start(writer, tmp_path / "store", name, durability, count) for name in "abc"]
    watching = start(reader, tmp_path / "store", 3 * count)
    for process in (*writers, watching):
        assert hear(process) == "ready"
    for process in (watching, *writers):
        say(process)
    assert int(ended(*writers, watching)[-1]) >= 1
    store = opener(durability=durability)
    main = store.branch()
    assert [event.seq for event in main.events()] == list(range(1, 3 * count + 1))
    items = list(main.state("log"))
    for name in "abc":
        assert [i for n, i in items if n == name] == list(range(count))
    assert main.replay("log").equal
    assert store.verify(deep=True).ok


def test_a_branch_never_trusts_a_head_it_read_before(store: Store) -> None:
    store.register_state("log", kind="append_log")
    main = store.branch()
    log = main.state("log")
    log.append("mine")
    other = start(
        """
        store = chronicle.open(path, durability="relaxed")
        log = store.branch().state("log")
        for line in sys.stdin:
            print(log.append(line.strip()).seq, flush=True)
        """,
        store.path,
    )
    for round in range(2, 160, 2):
        say(other, f"theirs {round}")
        assert hear(other) == str(round)
        if round % 3:
            assert main.seq == round
            assert log[-1] == f"theirs {round}"
        event = log.append("mine")
        assert event.seq == round + 1
        assert len(log) == round + 1
    ended(other)
    assert list(log)[1::2] == [f"theirs {round}" for round in range(2, 160, 2)]
    assert store.verify(deep=True).ok


def test_expect_sees_the_other_process(store: Store) -> None:
    main = store.branch()
    first = main.append("note", 1)
    run('chronicle.open(path, durability="relaxed").branch().append("note", "theirs")', store.path)
    with pytest.raises(Conflict, match=r"is .* at sequence 2"):
        main.append("note", 2, expect=first)
    assert main.append("note", 2, expect=main.head).seq == 3


def test_a_reader_never_sees_half_a_transaction(store: Store, tmp_path: Path) -> None:
    """Each transaction adds 1 to two values, an item to a log and a fork: at every look they agree."""
    store.register_state("log", kind="append_log")
    for name in ("left", "right"):
        store.register_state(name, kind="value", initial=0)
    writer = start(
        """
        store = chronicle.open(path, durability="relaxed")
        main = store.branch()
        print("ready", flush=True)
        for i in range(1, 151):
            with store.transaction():
                main.state("left").set(i)
                main.state("log").append(i)
                main.fork(f"fork {i}")
                main.state("right").set(i)
        """,
        store.path,
    )
    assert hear(writer) == "ready"
    main = store.branch()
    seen = 0
    while seen < 150:
        head = main.seq
        assert head % 3 == 0
        left, right = main.state("left", at=head).get(), main.state("right", at=head).get()
        assert left == right == head // 3 == len(main.state("log", at=head))
        forks = len(store.branches()) - 1
        assert forks >= left
        if left:
            assert store.branch(f"fork {left}").state("right").get() == left - 1
        seen = left
    ended(writer)
    assert store.verify(deep=True).ok


def test_a_registration_is_seen_by_the_other_process(store: Store) -> None:
    other = start(
        """
        store = chronicle.open(path, durability="relaxed")
        main = store.branch()
        main.append("note", 1)
        print([slot.id for slot in store.slots()], flush=True)
        sys.stdin.readline()
        print([slot.id for slot in store.slots()], flush=True)
        main.state("log").append("theirs")
        sys.stdin.readline()
        for _ in range(130):
            main.append("note", 2)
        print(main.state("notes")[-1], len(main.state("notes")))
        """,
        store.path,
    )
    main = store.branch()
    assert hear(other) == "[]"
    store.register_state("log", kind="append_log")
    say(other)
    assert hear(other) == "['log']"
    while not main.state("log"):
        pass
    store.register_state("notes", kind="append_log", types=["note"])
    say(other)
    assert ended(other) == ["2 131\n"]
    assert list(main.state("log")) == ["theirs"]
    assert list(main.state("notes")) == [1] + [2] * 130
    assert store.verify(deep=True).ok


def test_a_slot_registered_late_elsewhere_while_this_process_closes_blocks(store: Store) -> None:
    """The states are right on both sides, whoever closed which block knowing of which slots."""
    main = store.branch()
    for i in range(100):
        main.append("note", i)
    other = start(
        COUNTING
        + """
store = chronicle.open(path, durability="relaxed")
main = store.branch()
for line in sys.stdin:
    name = line.strip()
    store.register_state(name, kind="append_log", types=["note"])
    store.register_state("count of " + name, reducer=count, types=["note"])
    state = main.state("count of " + name).get()
    print(len(main.state(name)), state.events, state.sum, flush=True)
    main.append("other", name)
""",
        store.path,
    )
    notes = 100
    for round in range(8):
        say(other, f"slot {round}")
        assert hear(other) == f"{notes} {notes} {sum(range(notes))}"
        for _ in range(50):
            main.append("note", notes)
            notes += 1
    ended(other)
    for round in range(8):
        view = main.state(f"slot {round}")
        assert list(view) == list(range(notes))
        for at in (64, 100, 128, 300, main.seq):
            expected = [event.payload for event in main.events(stop=at, types=["note"])]
            assert list(main.state(f"slot {round}", at=at)) == expected
        assert main.replay(f"slot {round}").equal
        with pytest.raises(ReducerMissing, match="the reducer 'count'"):
            main.state(f"count of slot {round}").get()
    assert store.verify(deep=True).ok
    out = run(
        COUNTING
        + """
store = chronicle.open(path)
for round in range(8):
    store.register_state(f"count of slot {round}", reducer=count, types=["note"])
    state = store.branch().state(f"count of slot {round}").get()
    assert (state.events, state.sum) == (500, sum(range(500)))
    assert store.branch().replay(f"count of slot {round}").equal
check(store)
print("ok")
""",
        store.path,
    )
    assert out == "ok\n"


def test_forks_rewinds_and_deletions_by_another_process(store: Store) -> None:
    store.register_state("log", kind="append_log")
    main = store.branch()
    side = main.fork("side")
    for i in range(100):
        main.state("log").append(i)
        side.state("log").append(-i)
    views = main.state("log"), side.state("log")
    assert [view[-1] for view in views] == [99, -99]
    run(
        """
        store = chronicle.open(path, durability="relaxed")
        main, side = store.branch(), store.branch("side")
        main.rewind(70)
        main.state("log").append("other way")
        side.fork("of side", at=10).state("log").append("fork")
        store.delete_branch("side")
        """,
        store.path,
    )
    assert list(views[0]) == [*range(70), "other way"]
    assert main.append("note", 1).seq == 72
    assert list(store.branch("of side").state("log")) == [*(-i for i in range(10)), "fork"]
    for use in (lambda: side.append("note", 1), lambda: len(views[1]), lambda: side.seq, lambda: store.branch("side")):
        with pytest.raises(NotFound, match="there is no branch 'side'"):
            use()
    assert [move.kind for move in main.reflog()] == ["create", "rewind"]
    assert [move.kind for move in side.reflog()] == ["fork", "delete"]
    run('chronicle.open(path, durability="relaxed").restore_branch("side").append("note", "back")', store.path)
    assert side.seq == 101
    assert [info.name for info in store.branches()] == ["main", "of side", "side"]
    assert store.verify(deep=True).ok


def test_branches_made_by_turns_keep_apart(store: Store) -> None:
    """Two processes open lineages by turns: none is given out twice."""
    other = start(
        """
        store = chronicle.open(path, durability="relaxed")
        for line in sys.stdin:
            main = store.branch()
            fork = main.fork(f"theirs {line.strip()}", at=main.seq // 2)
            fork.append("note", "theirs")
            print(fork.seq, flush=True)
        """,
        store.path,
    )
    main = store.branch()
    for round in range(40):
        main.append("note", round)
        say(other, str(round))
        assert hear(other) == str((round + 1) // 2 + 1)
        fork = store.branch(f"theirs {round}").fork(f"mine {round}")
        fork.append("note", "mine")
        store.branch(f"theirs {round}").append("note", "also mine")
    ended(other)
    for round in range(40):
        own = [*range((round + 1) // 2), "theirs"]
        assert [event.payload for event in store.branch(f"mine {round}").events()] == [*own, "mine"]
        assert [event.payload for event in store.branch(f"theirs {round}").events()] == [*own, "also mine"]
    assert [event.payload for event in main.events()] == list(range(40))
    assert store.verify(deep=True).ok


def test_a_reader_is_not_held_up_by_a_long_transaction(store: Store) -> None:
    store.branch().append("note", 1)
    other = start(
        """
        store = chronicle.open(path, durability="relaxed")
        with store.transaction():
            store.branch().append("note", 2)
            print("inside", flush=True)
            sys.stdin.readline()
        """,
        store.path,
    )
    assert hear(other) == "inside"
    assert store.branch().seq == 1
    readonly = run("print(chronicle.open(path, readonly=True).branch().seq)", store.path)
    assert readonly == "1\n"
    say(other)
    ended(other)
    assert store.branch().seq == 2


def test_a_new_store_opened_by_many_at_once_is_made_once(tmp_path: Path) -> None:
    processes = [
        start(
            """
            sys.stdin.readline()
            store = chronicle.open(path, durability="relaxed")
            store.register_state("log", kind="append_log")
            store.branch().state("log").append(sys.argv[2])
            print(store.stats().store)
            """,
            tmp_path / "store",
            number,
        )
        for number in range(4)
    ]
    for process in processes:
        say(process)
    assert len(set(ended(*processes))) == 1
    with chronicle.open(tmp_path / "store") as store:
        assert sorted(store.branch().state("log")) == ["0", "1", "2", "3"]
        assert [move.kind for move in store.branch().reflog()] == ["create"]
        assert store.verify(deep=True).ok
