"""Transactions: all or nothing, for their own thread and task alone, and nothing remembered of what was not kept."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from conftest import Opener

import chronicle_py as chronicle
from chronicle_py import (
    Branch,
    BranchExists,
    ChronicleError,
    Conflict,
    InvalidOperation,
    List,
    Map,
    NotFound,
    StateNotRegistered,
    Store,
    lmdb_kv,
)


class Failure(Exception):
    """What these tests raise to end a transaction."""


class Tally(msgspec.Struct, frozen=True):
    """The state of a custom slot: collections and a plain field."""

    total: int = 0
    notes: List[Any] = List()
    last: Map[Any] = Map()


@chronicle.reducer("tally", initial=Tally, state_type=Tally)
def tally(state: Tally, event: chronicle.Event) -> Tally:
    return Tally(state.total + 1, state.notes.append(event.payload), state.last.set(event.type, event.payload))


@pytest.fixture
def filled(store: Store) -> Store:
    """A store with a slot of every kind, some events, a fork and a blob."""
    store.register_state("log", kind="append_log")
    store.register_state("value", kind="value")
    store.register_state("tree", kind="tree")
    store.register_state("document", kind="document")
    store.register_state("tally", reducer=tally, types=["note"])
    change(store.branch(), "before", 10)
    store.branch().fork("side", at=5)
    store.put_blob(b"before")
    return store


def change(branch: Branch, word: str, rounds: int) -> None:
    """Events of every kind, 5 a round, which say `word`."""
    for i in range(rounds):
        branch.state("log").append([word, i])
        branch.state("value").set([word, i])
        branch.state("tree").put(f"{word}/{i}", i)
        branch.state("document").patch({word: {str(i): i}})
        branch.append("note", [word, i])


def everything(store: Store) -> dict[Any, Any]:
    """All that a reader can see."""
    seen: dict[Any, Any] = {
        "branches": store.branches(),
        "slots": store.slots(),
        "entries": {name: size["entries"] for name, size in store.stats().keyspaces.items()},
    }
    for info in store.branches():
        branch = store.branch(info.name)
        seen[info.name] = [(event.id, event.payload) for event in branch.events()], branch.reflog()
        for slot in store.slots():
            seen[info.name, slot.id] = branch.state(slot.id).hash
            seen[info.name, slot.id, 5] = branch.state(slot.id, at=min(5, info.seq)).hash
    return seen


def fail_after(store: Store, work: Callable[[], object], error: type[BaseException] = Failure) -> None:
    """Does the work in a transaction, and raises."""
    with store.transaction():
        work()
        raise error


def in_thread(work: Callable[[], Any]) -> Any:
    """What the work returns or raises on another thread."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(work())
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()
    if isinstance(found[0], BaseException):
        raise found[0]
    return found[0]


# --- all or nothing ---------------------------------------------------------------------------------------------------


def everything_there_is(store: Store) -> None:
    main = store.branch()
    change(main, "lost", 40)
    main.fork("lost", at=3)
    store.branch("side").rewind(2)
    change(store.branch("side"), "lost", 1)
    store.delete_branch("side")
    store.orphan("other")
    store.restore_branch("side")
    store.register_state("lost", kind="value")
    store.put_blob(b"lost")
    main.append("linked", 1, caused_by=[main.event(1)], linked_to=[main.event(2)])


@pytest.mark.parametrize("error", [Failure, KeyboardInterrupt, SystemExit, GeneratorExit, InvalidOperation])
def test_an_exception_leaves_nothing_whatever_was_done(
    filled: Store, opener: Opener, error: type[BaseException]
) -> None:
    before = everything(filled)
    with pytest.raises(error):
        fail_after(filled, lambda: everything_there_is(filled), error)
    assert everything(filled) == before
    with pytest.raises(StateNotRegistered):
        filled.branch().state("lost")
    with pytest.raises(NotFound):
        filled.branch("lost")
    assert filled.effects(filled.branch().event(1)) == []
    assert filled.verify(deep=True).ok
    filled.close()
    again = opener()
    again.register_state("tally", reducer=tally, types=["note"])
    assert everything(again) == before


def test_without_an_exception_all_of_it_is_there_at_once(filled: Store, opener: Opener) -> None:
    with filled.transaction():
        everything_there_is(filled)
        within = everything(filled)
    within["entries"] = everything(filled)["entries"]  # which are those of the last commit
    assert everything(filled) == within
    assert [info.name for info in filled.branches()] == ["main", "lost", "other", "side"]
    assert filled.branch().state("value").get() == ["lost", 39]
    assert filled.branch().state("tally").get().total == 50
    assert filled.verify(deep=True).ok
    filled.close()
    again = opener()
    again.register_state("tally", reducer=tally, types=["note"])
    assert everything(again) == within


def test_nested_transactions_are_one(store: Store) -> None:
    main = store.branch()

    def work() -> None:
        with store.transaction() as same:
            assert same is store
            main.append("note", 1)
            with store.transaction():
                main.append("note", 2)

    with pytest.raises(Failure):
        fail_after(store, work)
    assert main.seq == 0
    with store.transaction():
        work()
        assert in_thread(lambda: main.seq) == 0
    assert main.seq == 2


def test_a_half_done_part_refuses_the_whole_though_its_failure_was_swallowed(store: Store) -> None:
    main = store.branch()

    def work() -> None:
        with store.transaction():
            main.append("note", 1)
            with suppress(Failure), store.transaction():
                main.append("note", 2)
                raise Failure("half-way")
            main.append("note", 3)

    with pytest.raises(InvalidOperation, match="failed half-way: Failure: half-way"):
        work()
    assert main.seq == 0


def test_a_refused_call_inside_does_not_end_the_transaction(filled: Store) -> None:
    main = filled.branch()
    head = main.seq
    with filled.transaction():
        main.append("note", 1)
        refusals: list[Callable[[], object]] = [
            lambda: main.append("note", object()),
            lambda: main.append("note", 1, expect=main.event(1)),
            lambda: main.append("note", 1, caused_by=["ab" * 32]),
            lambda: main.state("tree").remove("absent"),
            lambda: main.state("tree").batch([("put", "new", 1), ("remove", "absent")]),
            lambda: main.state("log").edit(99, 1),
            lambda: main.fork("side"),
            lambda: main.rewind(999),
            lambda: filled.delete_branch("absent"),
            lambda: filled.restore_branch("absent"),
            lambda: filled.register_state("log", kind="value"),
        ]
        for refusal in refusals:
            with pytest.raises(ChronicleError):
                refusal()
        main.append("note", 2)
    assert [event.payload for event in main.events(head + 1)] == [1, 2]
    assert filled.verify(deep=True).ok


def test_a_transaction_without_writes_changes_nothing(store: Store) -> None:
    for _ in range(3):
        with store.transaction():
            assert store.branch().seq == 0
        store.branch().fork("x")
        store.delete_branch("x")
    assert store.branch().append("note", 1).seq == 1


def test_a_clock_that_fails_leaves_the_store_as_it_was(opener: Opener) -> None:
    answers: list[Any] = [1, 2, Failure("the clock stopped"), "noon", 2**80, None, 3.5, True, 7]

    def clock() -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    store = opener(clock=clock)
    main = store.branch()
    main.append("note", 1)
    with pytest.raises(Failure):
        main.append("note", "never")
    for _ in range(5):
        with pytest.raises(InvalidOperation, match="clock returns µs"):
            main.append("note", "never")
    assert main.append("note", 2).time == 7
    assert [event.payload for event in main.events()] == [1, 2]


# --- who sees what ----------------------------------------------------------------------------------------------------


def test_reads_inside_see_its_writes_and_other_threads_do_not(filled: Store) -> None:
    main = filled.branch()
    head, before = main.seq, everything(filled)
    with filled.transaction():
        change(main, "inside", 30)
        filled.put_blob(b"inside")
        main.fork("inside")
        assert main.seq == head + 150
        assert main.state("log")[-1] == ["inside", 29]
        assert main.state("tree")["inside/29"] == 29
        assert main.state("tally").get().total == 40
        assert main.state("log", at=head + 1)[-1] == ["inside", 0]
        assert next(main.events(reverse=True)).payload == ["inside", 29]
        assert len(list(main.events())) == head + 150
        assert filled.branch("inside").seq == main.seq
        assert filled.event(main.head or "").seq == main.seq
        assert in_thread(lambda: everything(filled)) == before
        assert in_thread(lambda: main.seq) == head
    assert in_thread(lambda: main.seq) == head + 150


def test_another_store_of_the_file_sees_nothing_before_the_commit(filled: Store, opener: Opener) -> None:
    other = opener()
    other.register_state("tally", reducer=tally, types=["note"])
    before = everything(other)
    with filled.transaction():
        change(filled.branch(), "inside", 30)
        assert everything(other) == before
        filled.register_state("late", kind="value")
        assert [slot.id for slot in other.slots()] == ["document", "log", "tally", "tree", "value"]
    assert everything(other) == everything(filled)
    assert everything(other) != before


# --- after an abort ---------------------------------------------------------------------------------------------------


def reads(branch: Branch) -> dict[str, Any]:
    """Every state of every slot around the block boundaries, in values."""
    found: dict[str, Any] = {}
    for at in (None, 50, 60, 63, 64, 65, 127, 128, 129, 150, branch.seq):
        if at is None or at <= branch.seq:
            state = branch.state("tally", at=at).get()
            found[f"tally {at}"] = state.total, list(state.notes), dict(state.last)
            found[f"log {at}"] = list(branch.state("log", at=at))
            found[f"value {at}"] = branch.state("value", at=at).get()
            found[f"tree {at}"] = dict(branch.state("tree", at=at))
            found[f"document {at}"] = branch.state("document", at=at).get()
    return found


def test_the_same_places_filled_by_other_events_show_those_alone(filled: Store, opener: Opener) -> None:
    main = filled.branch()
    for word in ("lost once", "lost twice"):

        def lose(word: str = word) -> None:
            change(main, word, 30)
            reads(main)
            main.fork(word)
            change(filled.branch(word), word, 20)
            reads(filled.branch(word))

        with pytest.raises(Failure):
            fail_after(filled, lose)
    change(main, "kept", 30)
    fork = main.fork("lost once")
    change(fork, "also kept", 20)
    seen = reads(main), reads(fork)
    assert "lost" not in repr(seen)
    filled.close()
    again = opener()
    again.register_state("tally", reducer=tally, types=["note"])
    assert (reads(again.branch()), reads(again.branch("lost once"))) == seen
    assert again.verify(deep=True).ok


def test_views_fixed_in_a_lost_transaction_refuse(filled: Store) -> None:
    main = filled.branch()
    taken: dict[str, Any] = {}
    live = {slot.id: main.state(slot.id) for slot in filled.slots()}

    def work() -> None:
        change(main, "lost", 30)
        for slot in filled.slots():
            taken[slot.id] = main.state(slot.id, at=main.seq)

    with pytest.raises(Failure):
        fail_after(filled, work)
    change(main, "kept", 30)
    for slot, view in taken.items():
        with pytest.raises(InvalidOperation, match="was not kept; read it again"):
            assert view.hash
        with pytest.raises(InvalidOperation, match="was not kept; read it again"):
            assert view.seq
        assert live[slot].hash == main.state(slot, at=main.seq).hash
    for read in (lambda: len(taken["log"]), lambda: taken["tree"]["lost/1"], lambda: taken["value"].get()):
        with pytest.raises(InvalidOperation, match="was not kept"):
            read()


def test_views_fixed_in_a_kept_transaction_go_on(filled: Store) -> None:
    main = filled.branch()
    with filled.transaction():
        change(main, "kept", 30)
        views = [main.state(slot.id, at=main.seq) for slot in filled.slots()]
        hashes = [view.hash for view in views]
    change(main, "later", 30)
    assert [view.hash for view in views] == hashes


ITERATIONS: dict[str, Callable[[Branch], Iterator[Any]]] = {
    "events": lambda branch: branch.events(),
    "events backwards": lambda branch: branch.events(reverse=True),
    "events of a slot": lambda branch: branch.events(slot="log"),
    "items": lambda branch: iter(branch.state("log")),
    "items backwards": lambda branch: reversed(branch.state("log")),
    "paths": lambda branch: iter(branch.state("tree").items()),
}


@pytest.mark.parametrize("name", ITERATIONS)
def test_an_iteration_begun_in_a_lost_transaction_shows_no_mixture(filled: Store, name: str) -> None:
    """It may show what it began with to the end, or refuse; what was put in the same places later it does not show."""
    main = filled.branch()
    head = main.seq
    begun: list[Iterator[Any]] = []

    def fill(word: str) -> None:
        for i in range(2500):
            main.state("log").append(f"{word} {i}")
        main.state("tree").batch([("put", f"{word} {i}", "x" * 50) for i in range(2500)])

    def lose() -> None:
        fill("lost")
        begun.append(ITERATIONS[name](main))
        next(begun[0])

    with pytest.raises(Failure):
        fail_after(filled, lose)
    with filled.transaction():
        fill("kept")
    shown = []
    with suppress(InvalidOperation):
        for item in begun[0]:
            shown.append(item.payload if isinstance(item, chronicle.Event) else item)  # noqa: PERF401
    assert "kept" not in repr(shown)
    assert main.seq == head + 2501
    assert sum("kept" in repr(item) for item in main.state("log")) == 2500


def test_values_taken_out_of_a_lost_transaction_do_not_become_others(filled: Store) -> None:
    """Lists and Maps are values: such a one says what it said, or refuses."""
    main = filled.branch()
    taken: list[Tally] = []

    def lose() -> None:
        for i in range(2000):
            main.append("note", f"lost {i}")
        taken.append(main.state("tally").get())

    with pytest.raises(Failure):
        fail_after(filled, lose)
    with filled.transaction():
        for i in range(2000):
            main.append("note", f"kept {i}")
    with suppress(ChronicleError):
        assert "kept" not in repr(list(taken[0].notes))
        assert taken[0].last["note"] == "lost 1999"
    assert main.state("tally").get().notes[-1] == "kept 1999"


# --- whose it is ------------------------------------------------------------------------------------------------------


def test_other_threads_wait_for_the_transaction(store: Store) -> None:
    main = store.branch()
    store.register_state("log", kind="append_log")
    order: list[str] = []

    def write(name: str) -> None:
        with store.transaction():
            order.append(name)
            for i in range(50):
                main.state("log").append([name, i])
            order.append(name)

    threads = [threading.Thread(target=write, args=(f"thread {n}",)) for n in range(4)]
    with store.transaction():
        order.append("main")
        for thread in threads:
            thread.start()
        main.state("log").append("main")
        order.append("main")
    for thread in threads:
        thread.join(20)
    assert order[::2] == order[1::2]
    assert order[0] == "main"
    items = list(main.state("log"))
    assert items[0] == "main"
    assert [name for name, _ in items[1::50]] == order[2::2]
    assert [i for _, i in items[1:]] == list(range(50)) * 4
    assert store.verify(deep=True).ok


def test_threads_share_a_store(store: Store) -> None:
    """Four write single events to branches and slots of their own and to a common one, while two read."""
    store.register_state("common", kind="append_log")
    store.register_state("tally", reducer=tally, types=["note"])
    main = store.branch()
    done = threading.Event()
    problems: list[BaseException] = []

    def write(name: str) -> None:
        own = main.fork(name)
        store.register_state(name, kind="append_log")
        for i in range(150):
            main.state("common").append([name, i])
            own.append("note", i)
            own.state(name).append(i)

    def read() -> None:
        seen = 0
        while not done.is_set():
            items = list(main.state("common"))
            assert len(items) >= seen
            seen = len(items)
            for info in store.branches():
                branch = store.branch(info.name)
                total = branch.state("tally").get().total
                assert len(list(branch.events(types=["note"]))) >= total

    def guarded(work: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            try:
                work()
            except BaseException as error:
                problems.append(error)

        return threading.Thread(target=run)

    names = [f"writer-{n}" for n in range(4)]
    writers = [guarded(lambda name=name: write(name)) for name in names]  # type: ignore[misc]
    readers = [guarded(read) for _ in range(2)]
    for thread in writers + readers:
        thread.start()
    for thread in writers:
        thread.join(30)
    done.set()
    for thread in readers:
        thread.join(30)
    assert problems == []
    items = list(main.state("common"))
    assert len(items) == main.seq == 600
    for name in names:
        assert [i for n, i in items if n == name] == list(range(150))
        assert list(store.branch(name).state(name)) == list(range(150))
        assert store.branch(name).state("tally").get().total == 150
    assert store.verify(deep=True).ok


def test_a_second_task_of_the_same_thread_is_refused(store: Store) -> None:
    main = store.branch()

    async def other() -> str:
        for use in (lambda: main.append("note", "other"), lambda: store.transaction().__enter__()):
            with pytest.raises(InvalidOperation, match="another task"):
                use()
        return f"reads {main.seq}"

    async def scenario() -> None:
        with store.transaction():
            main.append("note", "first")
            assert await asyncio.create_task(other()) == "reads 0"
            main.append("note", "first")
        assert await asyncio.create_task(asyncio.to_thread(lambda: main.append("note", "thread").seq)) == 3

    asyncio.run(scenario())
    assert [event.payload for event in main.events()] == ["first", "first", "thread"]


def test_the_callers_own_transaction_is_not_that_of_a_task(store: Store) -> None:
    async def scenario() -> None:
        with pytest.raises(InvalidOperation, match="another task"):
            store.branch().append("note", 1)

    with store.transaction():
        asyncio.run(scenario())
        store.branch().append("note", 2)
    assert [event.payload for event in store.branch().events()] == [2]


def test_a_generator_left_open_in_a_transaction(store: Store) -> None:
    """The transaction stays open until the generator is closed, and is given up then, with what was written in it."""
    main = store.branch()

    def work() -> Iterator[int]:
        with store.transaction():
            main.append("note", "in the generator")
            yield 1

    generator = work()
    next(generator)
    main.append("note", "joins")
    assert main.seq == 2
    generator.close()  # type: ignore[attr-defined]
    assert main.seq == 0
    assert main.append("note", "after").seq == 1
    assert in_thread(lambda: main.append("note", "thread").seq) == 2


def test_a_generator_with_a_transaction_closed_on_another_thread(store: Store) -> None:
    """LMDB ends a write transaction on its own thread only: it waits for that thread, and nothing is kept."""
    main = store.branch()

    def work() -> Iterator[int]:
        with store.transaction():
            main.append("note", "in the generator")
            yield 1

    generator = work()
    next(generator)
    with suppress(InvalidOperation):
        in_thread(generator.close)  # type: ignore[attr-defined]
    assert in_thread(lambda: main.seq) == 0
    assert main.append("note", "after").seq == 1
    assert in_thread(lambda: main.append("note", "thread").seq) == 2
    assert [event.payload for event in main.events()] == ["after", "thread"]
    assert store.verify(deep=True).ok


def test_states_written_behind_are_seen_by_other_threads_after_the_commit(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit enters the states that reads have folded; until it is done, nobody may follow them to their nodes."""
    main = store.branch()
    with store.transaction():
        for i in range(2000):
            main.append("note", i)
    store.register_state("tally", reducer=tally, types=["note"])
    assert main.state("tally").get().total == 2000
    commit = lmdb_kv.LmdbWriter.commit
    looked: list[list[Any]] = []

    def look_and_commit(writer: lmdb_kv.LmdbWriter) -> None:
        looked.append(in_thread(lambda: list(main.state("tally", at=1984).get().notes)))
        commit(writer)

    monkeypatch.setattr(lmdb_kv.LmdbWriter, "commit", look_and_commit)
    main.append("other", 1)
    monkeypatch.undo()
    assert looked == [list(range(1984))]
    assert store.verify(deep=True).ok
    assert list(main.state("tally", at=1984).get().notes) == list(range(1984))


# --- expect -----------------------------------------------------------------------------------------------------------


def test_expect_lets_one_of_many_racers_through(store: Store) -> None:
    main = store.branch()
    won: list[int] = []
    conflicts: list[Conflict] = []
    barrier = threading.Barrier(4)

    def race(number: int) -> None:
        for _ in range(25):
            barrier.wait(20)
            head: str | int = main.head or 0
            barrier.wait(20)
            try:
                main.append("note", number, expect=head)
                won.append(number)
            except Conflict as error:
                conflicts.append(error)

    threads = [threading.Thread(target=race, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (len(won), len(conflicts)) == (25, 75)
    assert main.seq == 25
    assert [event.payload for event in main.events()] == won


def test_expect_says_what_it_found(store: Store) -> None:
    main = store.branch()
    first = main.append("note", 1, expect=0)
    for wrong in (0, "ab" * 32):
        with pytest.raises(Conflict, match=rf"expected to be .* and is {first.id[:12]} at sequence 1"):
            main.append("note", 2, expect=wrong)
    for right in (first, first.id, first.id[:8]):
        fork = main.fork(f"fork-{right if isinstance(right, str) else 'event'}")
        assert fork.append("note", 2, expect=right).seq == 2
    with pytest.raises(Conflict, match="is none, the branch is empty"):
        store.orphan("empty").append("note", 1, expect=first)
    with store.transaction():
        second = main.append("note", 2, expect=first)
        third = main.append("note", 3, expect=second)
    assert main.head == third.id
    store.register_state("log", kind="append_log")
    with pytest.raises(Conflict):
        main.state("log").append(1, expect=second)
    assert main.state("log").append(1, expect=third).seq == 4


# --- durability -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("durability", ["full", "relaxed"])
def test_both_durabilities_keep_what_was_committed(opener: Opener, durability: str) -> None:
    store = opener(durability=durability)
    main = store.branch()
    for i in range(10):
        main.append("note", i)
    with store.transaction():
        for i in range(100):
            main.append("note", i)
    with pytest.raises(Failure):
        fail_after(store, lambda: main.append("note", "lost"))
    store.sync()
    with store.transaction():
        main.append("note", "last")
        store.sync()
    store.close()
    again = opener(durability=durability)
    assert again.branch().seq == 111
    assert again.branch().event(111).payload == "last"
    assert again.verify(deep=True).ok


def test_a_name_freed_by_an_abort_can_be_taken(store: Store) -> None:
    main = store.branch()
    with pytest.raises(Failure):
        fail_after(store, lambda: main.fork("name"))
    assert main.fork("name").name == "name"
    with pytest.raises(BranchExists):
        main.fork("name")
    assert [move.kind for move in store.branch("name").reflog()] == ["fork"]
