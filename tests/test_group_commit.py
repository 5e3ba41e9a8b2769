"""Group commit: who shares a commit, who is told what, and that nobody waits for ever or is done twice.

The stores here are opened relaxed, so that no test waits for a disk, and then told that they are durable, since only
those share commits.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from conftest import Opener
from script import run

import chronicle_py as chronicle
from chronicle_py import (
    Branch,
    BranchExists,
    ChronicleError,
    Conflict,
    Event,
    InvalidOperation,
    NotFound,
    Store,
    StoreFull,
    group_commit,
    lmdb_kv,
)
from chronicle_py.transaction import Transaction

Work = Callable[[], Any]


@pytest.fixture
def sharing(opener: Opener) -> Store:
    """A store whose writers share commits."""
    return told_durable(opener())


def told_durable(store: Store) -> Store:
    store._engine.kv.durable = True
    return store


class Caller(threading.Thread):
    """A thread that makes one call and keeps what comes of it."""

    def __init__(self, work: Work) -> None:
        super().__init__(daemon=True)
        self.work = work
        self.found: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.found = self.work()
        except BaseException as error:
            self.error = error


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.0005)


@contextmanager
def busy(store: Store) -> Iterator[None]:
    """Another thread has a transaction open."""
    inside, leave = threading.Event(), threading.Event()

    def work() -> None:
        with store.transaction():
            inside.set()
            assert leave.wait(20)

    holder = Caller(work)
    holder.start()
    assert inside.wait(20)
    try:
        yield
    finally:
        leave.set()
        holder.join(20)
        assert holder.error is None


def queued(store: Store) -> int:
    return len(store._engine.group._queue)


def all_waiting(store: Store, works: list[Work]) -> list[Caller]:
    """Makes the calls, each on its own thread, and returns when they wait in the queue, in this order."""
    callers = []
    for n, work in enumerate(works, queued(store) + 1):
        callers.append(Caller(work))
        callers[-1].start()
        until(lambda n=n: queued(store) == n)  # type: ignore[misc]
    return callers


def together(store: Store, works: list[Work]) -> list[Caller]:
    """Makes the calls so that they share a commit, as far as they can."""
    with busy(store):
        callers = all_waiting(store, works)
    for caller in callers:
        caller.join(20)
        assert not caller.is_alive()
    return callers


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The versions that were committed; those of empty transactions are left out."""
    found: list[int] = []
    commit = Transaction.commit

    def counting(tx: Transaction) -> None:
        commit(tx)
        if tx.changes:
            found.append(tx.tip.version)

    monkeypatch.setattr(Transaction, "commit", counting)
    return found


def payloads(branch: Branch) -> list[Any]:
    return [event.payload for event in branch.events()]


def note(branch: Branch, payload: Any, **options: Any) -> Work:
    return lambda: branch.append("note", payload, **options)


# --- one commit -------------------------------------------------------------------------------------------------------


def test_those_that_wait_share_one_commit_in_the_order_they_came(sharing: Store, commits: list[int]) -> None:
    main = sharing.branch()
    callers = together(sharing, [note(main, n) for n in range(8)])
    assert len(commits) == 1
    assert payloads(main) == list(range(8))
    assert [caller.found.seq for caller in callers] == list(range(1, 9))
    assert [caller.found.id for caller in callers] == [event.id for event in main.events()]
    assert sharing.verify(deep=True).ok


def test_operations_of_every_kind_share_one_commit(sharing: Store, commits: list[int]) -> None:
    for kind in ("value", "append_log", "tree", "document"):
        sharing.register_state(kind, kind=kind)
    main = sharing.branch()
    log, tree, document = main.state("append_log"), main.state("tree"), main.state("document")
    log.set([1, 2, 3])
    tree.put("old", 1)
    document.set({"list": []})
    main.fork("gone")
    sharing.delete_branch("gone")
    side = main.fork("side")
    side.append("note", 1)
    commits.clear()
    callers = together(
        sharing,
        [
            lambda: main.state("value").set("new"),
            lambda: log.append(4),
            lambda: log.edit(-1, "four"),
            lambda: log.redact(0, 2),
            lambda: tree.put("a", 1),
            lambda: tree.remove("a"),
            lambda: tree.batch([("remove", "old"), ("put", "new", 2)]),
            lambda: document.append(["list"], "item"),
            lambda: document.patch({"key": 1}),
            lambda: main.fork("fork"),
            lambda: sharing.orphan("orphan"),
            lambda: sharing.restore_branch("gone"),
            lambda: sharing.delete_branch("fork"),
            lambda: side.rewind(2),
            lambda: sharing.put_blob(b"blob"),
        ],
    )
    assert [caller.error for caller in callers] == [None] * len(callers)
    assert len(commits) == 1
    assert main.state("value").get() == "new"
    assert list(log) == [3, "four"]
    assert dict(tree) == {"new": 2}
    assert document.get() == {"list": ["item"], "key": 1}
    assert [info.name for info in sharing.branches()] == ["main", "gone", "orphan", "side"]
    assert side.seq == 2
    assert sharing.get_blob(callers[-1].found).data == b"blob"
    assert sharing.verify(deep=True).ok


def test_ids_given_by_a_generator_are_walked_on_the_callers_thread(sharing: Store) -> None:
    main = sharing.branch()
    cause = main.append("note", 1)
    walked: list[threading.Thread] = []

    def ids() -> Iterator[Event]:
        walked.append(threading.current_thread())
        yield cause

    sharing.register_state("log", kind="append_log", initial=[0])
    works = [
        note(main, 2, caused_by=ids()),
        note(main, 3, linked_to=ids()),
        lambda: main.state("log").edit(0, 1, caused_by=ids()),
    ]
    with busy(sharing):
        callers = all_waiting(sharing, works)
        assert walked == callers
    for caller in callers:
        caller.join(20)
    assert [e.seq for e in sharing.effects(cause)] == [2, 4]
    assert [e.seq for e in sharing.links(cause)] == [3]


def test_a_transaction_block_runs_on_its_own_thread_and_in_a_commit_of_its_own(
    sharing: Store, commits: list[int]
) -> None:
    main = sharing.branch()
    ran: list[threading.Thread] = []

    def block() -> None:
        with sharing.transaction():
            ran.append(threading.current_thread())
            main.append("note", "block 1")
            main.append("note", "block 2")

    with busy(sharing):
        callers = all_waiting(sharing, [note(main, n) for n in range(3)])
        owner = Caller(block)
        owner.start()
    for caller in (*callers, owner):
        caller.join(20)
    assert ran == [owner]
    assert len(commits) == 2
    found = payloads(main)
    assert found in ([0, 1, 2, "block 1", "block 2"], ["block 1", "block 2", 0, 1, 2])


def test_a_batch_has_a_bound_and_the_next_leader_goes_on(
    sharing: Store, commits: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "MOST", 4)
    main = sharing.branch()
    together(sharing, [note(main, n) for n in range(10)])
    assert len(commits) == 3
    assert payloads(main) == list(range(10))


def test_a_relaxed_store_shares_nothing(store: Store, commits: list[int]) -> None:
    main = store.branch()
    callers = [Caller(note(main, n)) for n in range(4)]
    with busy(store):
        for caller in callers:
            caller.start()
        assert queued(store) == 0
    for caller in callers:
        caller.join(20)
    assert sorted(payloads(main)) == [0, 1, 2, 3]
    assert len(commits) == 4


# --- refusals and failures --------------------------------------------------------------------------------------------


def test_a_refused_operation_fails_for_its_caller_alone(sharing: Store, commits: list[int]) -> None:
    main = sharing.branch()
    sharing.register_state("log", kind="append_log", initial=["x"])
    first = main.append("note", "first")
    commits.clear()
    callers = together(
        sharing,
        [
            note(main, 1, expect=first),
            note(main, 2, expect=first),
            note(main, 3, caused_by=["ab" * 32]),
            lambda: main.state("log").edit(5, 1),
            lambda: main.fork("fork"),
            lambda: main.fork("fork"),
            note(Branch(main.engine, "absent"), 4),
            note(main, 5),
        ],
    )
    kinds = [type(caller.error) for caller in callers]
    nothing = type(None)
    assert kinds == [
        nothing, Conflict, NotFound, chronicle.ItemIndexError, nothing, BranchExists, NotFound, nothing,
    ]  # fmt: skip
    assert f"and is {callers[0].found.id[:12]} at sequence 2" in str(callers[1].error)
    assert len(commits) == 1
    assert payloads(main) == ["first", 1, 5]
    assert sharing.verify(deep=True).ok


def half_done(branch: Branch) -> Work:
    """An operation that fails after it has written."""

    def work(tx: Transaction) -> None:
        tx.append(branch.name, "note", b"\xa4half")
        raise LookupError("half-way")

    return lambda: branch.engine.run(work)


def test_an_operation_that_fails_half_way_leaves_the_others_alone(sharing: Store, commits: list[int]) -> None:
    main = sharing.branch()
    works = [note(main, 1), half_done(main), note(main, 2), note(main, 3, expect=0), note(main, 4)]
    callers = together(sharing, works)
    assert [type(caller.error) for caller in callers] == [type(None), LookupError, type(None), Conflict, type(None)]
    assert payloads(main) == [1, 2, 4]
    assert [callers[n].found.seq for n in (0, 2, 4)] == [1, 2, 3]
    assert len(commits) == 3
    assert sharing.verify(deep=True).ok


def test_an_error_shows_where_it_was_raised_and_not_the_batch(sharing: Store) -> None:
    callers = together(sharing, [note(sharing.branch(), 1), half_done(sharing.branch())])
    error = callers[1].error
    assert error is not None
    frames = []
    trace = error.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame.f_code.co_name)
        trace = trace.tb_next
    assert frames[-1] == "work"
    assert "attempt" not in frames


def test_a_commit_that_fails_fails_for_all_and_keeps_nothing(sharing: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    main = sharing.branch()
    commit = lmdb_kv.LmdbWriter.commit
    failures: list[bool] = []

    def full(writer: lmdb_kv.LmdbWriter) -> None:
        if main.engine.kv.writer.changes and not failures:
            failures.append(True)
            raise StoreFull("committing: no room")
        commit(writer)

    monkeypatch.setattr(lmdb_kv.LmdbWriter, "commit", full)
    callers = together(sharing, [note(main, 1), note(main, 2, expect=0), note(main, 3)])
    errors = [caller.error for caller in callers]
    assert [str(error) for error in errors] == ["committing: no room"] * 3
    assert all(type(error) is StoreFull for error in errors)
    assert len(set(map(id, errors))) == 3
    assert main.seq == 0
    assert main.append("note", "after").seq == 1
    assert sharing.verify(deep=True).ok


def test_closing_the_store_refuses_those_that_wait(sharing: Store) -> None:
    main = sharing.branch()
    with busy(sharing):
        callers = all_waiting(sharing, [note(main, n) for n in range(3)])
        closer = Caller(sharing.close)
        closer.start()
        until(lambda: sharing._engine.closed)
    for caller in (*callers, closer):
        caller.join(20)
        assert not caller.is_alive()
    for caller in callers:
        assert isinstance(caller.error, InvalidOperation)
        assert "was closed" in str(caller.error)


# --- interrupts -------------------------------------------------------------------------------------------------------


def test_an_interrupted_leader_hands_the_others_to_the_next(sharing: Store, commits: list[int]) -> None:
    main = sharing.branch()
    times: list[threading.Thread] = []

    def interrupted(tx: Transaction) -> str:
        times.append(threading.current_thread())
        if len(times) == 1:
            raise KeyboardInterrupt
        return "done by the next leader"

    callers = together(
        sharing, [note(main, "leader's"), note(main, 1), lambda: main.engine.run(interrupted), note(main, 2)]
    )
    assert isinstance(callers[0].error, KeyboardInterrupt)
    assert times == [callers[0], callers[1]]
    assert callers[2].found == "done by the next leader"
    assert payloads(main) == [1, 2]
    assert len(commits) == 1


def test_an_interrupt_right_after_the_commit_does_nothing_twice(
    sharing: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python raises it once LMDB's call is over, so that it looks as if the commit had raised."""
    main = sharing.branch()
    write = lmdb_kv.LmdbFile.write

    class Interrupted:
        def __init__(self, txn: Any) -> None:
            self._txn = txn

        def __getattr__(self, name: str) -> Any:
            return getattr(self._txn, name)

        def commit(self) -> None:
            self._txn.commit()
            raise KeyboardInterrupt

    def interrupted(file: lmdb_kv.LmdbFile) -> lmdb_kv.LmdbWriter:
        writer = write(file)
        writer._txn = Interrupted(writer._txn)
        monkeypatch.undo()
        return writer

    with busy(sharing):
        callers = all_waiting(sharing, [note(main, n) for n in range(4)])
        monkeypatch.setattr(lmdb_kv.LmdbFile, "write", interrupted)
    for caller in callers:
        caller.join(20)
        assert not caller.is_alive()
    assert isinstance(callers[0].error, KeyboardInterrupt)
    assert [caller.found.seq for caller in callers[1:]] == [2, 3, 4]
    assert payloads(main) == [0, 1, 2, 3]
    assert main.append("note", 4).seq == 5
    assert sharing.verify(deep=True).ok


INTERRUPTED = """
import signal
from contextlib import contextmanager
store = chronicle.open(path)
main = store.branch()
group = store._engine.group
inside, leave = threading.Event(), threading.Event()
def hold():
    with store.transaction():
        inside.set()
        leave.wait(20)
holder = threading.Thread(target=hold)
holder.start()
inside.wait(20)
def after(waiting, then):
    def work():
        while len(group._queue) < waiting:
            time.sleep(0.001)
        time.sleep(0.02)
        then()
    thread = threading.Thread(target=work)
    thread.start()
    return thread
"""


@pytest.mark.parametrize("place", ["leader", "follower"])
def test_an_interrupt_while_waiting_takes_the_operation_back(tmp_path: Path, place: str) -> None:
    out = run(
        INTERRUPTED
        + f"""
other = lambda: main.append("note", "other")
if {place!r} == "follower":
    threads = [threading.Thread(target=other)]
    threads[0].start()
    while len(group._queue) < 1:
        time.sleep(0.001)
else:
    threads = [after(1, other)]
threads.append(after(2, lambda: os.kill(os.getpid(), signal.SIGINT)))
try:
    main.append("note", "interrupted")
except KeyboardInterrupt:
    print("interrupted")
print(len(group._queue))
leave.set()
for thread in threads:
    thread.join(20)
main.append("note", "after")
print([event.payload for event in main.events()])
check(store)
""",
        tmp_path / "store",
    )
    assert out.splitlines() == ["interrupted", "1", "['other', 'after']"]


def test_a_forked_child_starts_with_an_empty_queue(tmp_path: Path) -> None:
    out = run(
        INTERRUPTED
        + """
threads = [threading.Thread(target=lambda n=n: main.append("note", n)) for n in range(3)]
for thread in threads:
    thread.start()
while len(group._queue) < 3:
    time.sleep(0.001)
with group._mutex:  # as a thread may hold it that the child has not
    child = os.fork()
    if child == 0:
        assert group.leader is None and not group._queue
        children = [threading.Thread(target=lambda n=n: main.append("child", n)) for n in range(3)]
        for thread in children:
            thread.start()
        for thread in children:
            thread.join()
        os._exit(0)
leave.set()
for thread in threads:
    thread.join()
waited(child)
print(sorted((event.type, event.payload) for event in main.events()))
check(store)
""",
        tmp_path / "store",
    )
    assert out == f"{[(type, n) for type in ('child', 'note') for n in range(3)]}\n"


# --- many threads against a model -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_threads_and_the_model(opener: Opener, seed: int) -> None:
    """All that was acknowledged is there once, where it was said to be, in each thread's order; nothing else is."""
    stores = [opener(), opener()]
    first = told_durable(stores[0])
    first.register_state("log", kind="append_log")
    first.branch().fork("side")
    acknowledged: list[list[tuple[str, Event]]] = []
    problems: list[BaseException] = []

    def work(number: int) -> None:
        chance = random.Random(f"{seed} {number}")
        store = stores[number % 5 == 4]  # one thread in five has another store of the file
        mine: list[tuple[str, Event]] = []
        acknowledged.append(mine)
        for n in range(40):
            name = chance.choice(["main", "main", "side"])
            branch = store.branch(name)
            item = [number, n]
            what = chance.random()
            if what < 0.4:
                mine.append((name, branch.append("note", item)))
            elif what < 0.65:
                mine.append((name, branch.state("log").append(item)))
            elif what < 0.75:
                with suppress(Conflict):
                    mine.append((name, branch.append("note", item, expect=branch.head or 0)))
            elif what < 0.85:
                with store.transaction():
                    both = [(name, branch.append("note", [*item, part])) for part in range(2)]
                mine += both
            elif what < 0.9:
                with pytest.raises(LookupError):
                    half_done(branch)()
            elif what < 0.95:
                with pytest.raises(NotFound):
                    branch.append("note", item, caused_by=["cd" * 32])
            else:
                with pytest.raises(BranchExists):
                    branch.fork("side")
            if mine:
                assert store.event(mine[-1][1].id).seq == mine[-1][1].seq  # one's own write is seen

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert problems == []
    for name in ("main", "side"):
        events = list(first.branch(name).events())
        said = {event.seq: event.id for mine in acknowledged for at, event in mine if at == name}
        assert {event.seq: event.id for event in events} == said
        assert sum(at == name for mine in acknowledged for at, _ in mine) == len(events)
        assert list(first.branch(name).state("log")) == [event.payload for event in events if event.slot == "log"]
        for number in range(10):
            own = [event.payload[1:] for event in events if event.payload[0] == number]
            assert own == sorted(own)
    assert first.verify(deep=True).ok


# --- tasks ------------------------------------------------------------------------------------------------------------


def test_tasks_share_commits(sharing: Store, commits: list[int]) -> None:
    main = sharing.branch()

    async def scenario() -> list[Event]:
        return await asyncio.gather(*(main.aappend("note", n) for n in range(200)))

    events = asyncio.run(scenario())
    assert [event.seq for event in events] == list(range(1, 201))
    assert payloads(main) == list(range(200))
    assert len(commits) < 100


@pytest.mark.parametrize("durability", ["full", "relaxed"])
def test_tasks_and_threads_append_beside_each_other(opener: Opener, durability: str) -> None:
    store = opener()
    store._engine.kv.durable = durability == "full"
    main = store.branch()

    async def task(number: int) -> None:
        for n in range(20):
            await main.aappend("note", [number, n])

    def thread(number: int) -> None:
        for n in range(20):
            main.append("note", [number, n])

    async def scenario() -> None:
        await asyncio.gather(*map(task, range(8)), *(asyncio.to_thread(thread, number) for number in (8, 9)))

    asyncio.run(scenario())
    found = payloads(main)
    assert Counter(number for number, _ in found) == dict.fromkeys(range(10), 20)
    for number in range(10):
        assert [n for k, n in found if k == number] == list(range(20))


def test_what_a_task_asks_for_wrongly_is_refused_as_in_append(sharing: Store, opener: Opener) -> None:
    main = sharing.branch()
    sharing.register_state("log", kind="append_log")

    async def scenario() -> None:
        first = await main.aappend("note", 1, expect=0)
        assert (await main.aappend("note", 2, caused_by=[first], expect=first)).caused_by == (first.id,)
        for error, options in (
            (Conflict, {"expect": first}),
            (NotFound, {"caused_by": ["ab" * 32]}),
            (InvalidOperation, {"linked_to": first}),
            (InvalidOperation, {"slot": "log"}),
        ):
            with pytest.raises(error):
                await main.aappend("note", 3, **options)
        sharing.close()
        with pytest.raises(InvalidOperation, match="was closed"):
            await main.aappend("note", 3)
        readonly = opener(readonly=True)
        with pytest.raises(chronicle.ReadOnly, match="readonly=True"):
            await readonly.branch().aappend("note", 3)

    asyncio.run(scenario())


def test_a_task_joins_its_own_transaction_and_waits_for_that_of_another(sharing: Store, commits: list[int]) -> None:
    main = sharing.branch()

    async def scenario() -> None:
        with sharing.transaction():
            await main.aappend("note", "within")
            other = asyncio.create_task(main.aappend("note", "other"))
            await asyncio.sleep(0.005)
            await main.aappend("note", "within")
            assert not other.done()
        assert (await other).seq == 3

    asyncio.run(scenario())
    assert payloads(main) == ["within", "within", "other"]
    assert len(commits) == 2


def test_a_cancelled_task_takes_back_what_has_not_begun(sharing: Store) -> None:
    main = sharing.branch()

    async def scenario() -> None:
        with busy(sharing):
            tasks = [asyncio.create_task(main.aappend("note", n)) for n in range(4)]
            while queued(sharing) < 4:
                await asyncio.sleep(0)
            for n in (0, 2):  # the first leads
                tasks[n].cancel()
            await asyncio.wait([tasks[0], tasks[2]])
            assert queued(sharing) == 2
        await asyncio.wait(tasks)
        assert [task.cancelled() for task in tasks] == [True, False, True, False]

    asyncio.run(scenario())
    assert payloads(main) == [1, 3]


def test_a_loop_that_is_gone_holds_nobody_up(sharing: Store) -> None:
    main = sharing.branch()
    loop = asyncio.new_event_loop()
    with busy(sharing):
        lost = loop.create_task(main.aappend("note", "of a closed loop"))
        loop.call_later(0.01, loop.stop)
        loop.run_forever()
        assert queued(sharing) == 1
        loop.close()
        caller = Caller(note(main, "thread"))
        caller.start()
        until(lambda: queued(sharing) == 2)
    caller.join(20)
    assert payloads(main) == ["of a closed loop", "thread"]
    assert caller.found.seq == 2
    assert not lost.done()
    lost._log_destroy_pending = False  # type: ignore[attr-defined]
    with suppress(RuntimeError):
        lost.get_coro().close()


def test_the_thread_that_leads_for_tasks_ends_when_it_is_idle(sharing: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "_LINGER", 0.01)
    main = sharing.branch()
    for n in range(2):
        assert asyncio.run(main.aappend("note", n)).seq == n + 1
        until(lambda: main.engine.group._server is None)
    assert payloads(main) == [0, 1]


def test_errors_are_chronicle_errors_of_their_own(sharing: Store) -> None:
    """Each caller of a failed batch gets its own instance, with the text and the class of the first."""
    error = chronicle.PathKeyError("the path")
    operation = group_commit.Operation(lambda tx: None)
    operation.refuse(error)
    with pytest.raises(chronicle.PathKeyError, match="the path") as caught:
        operation.result()
    assert caught.value is not error
    assert caught.value.__cause__ is error
    assert isinstance(caught.value, ChronicleError)
