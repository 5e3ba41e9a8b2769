"""Following what comes: threads, asyncio, other processes, and a file that is replaced meanwhile."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from conftest import Opener
from script import ended, hear, rest, run, say, start

import chronicle_py as chronicle
from chronicle_py import Branch, CaughtUp, Followed, Follower, InvalidOperation, Store, lmdb_kv
from chronicle_py.feed import Item

LOOK = lmdb_kv._LOOK_EVERY * 1.5
PATIENCE = 20  # seconds within which anything must have come


def payload(item: Item | None) -> object:
    assert isinstance(item, Followed), item
    return item.event.payload


def take(follower: Follower, count: int) -> list[object]:
    return [payload(follower.next(PATIENCE)) for _ in range(count)]


def now(store: Store) -> Follower:
    """A follower that is caught up."""
    follower = store.follow(start="now")
    assert isinstance(next(follower), CaughtUp)
    return follower


def test_a_waiting_thread_gets_what_another_commits(store: Store, main: Branch) -> None:
    follower = now(store)
    found: list[object] = []
    reader = threading.Thread(target=lambda: found.extend(take(follower, 200)))
    reader.start()
    for i in range(100):
        main.append("note", i)
    with store.transaction():
        for i in range(100, 200):
            main.append("note", i)
    reader.join(PATIENCE)
    assert found == list(range(200))
    assert store._engine.kv.bells == set()


def test_the_bell_wakes_who_waits(store: Store, main: Branch, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, the test would end no sooner than the next look at what other processes do."""
    monkeypatch.setattr("chronicle_py.following.POLL", 3600)
    follower = now(store)
    found: list[object] = []
    reader = threading.Thread(target=lambda: found.extend(take(follower, 3)))
    reader.start()
    for i in range(3):
        main.append("note", i)
    reader.join(PATIENCE)
    assert found == [0, 1, 2]

    async def later() -> list[object]:
        waiting = asyncio.ensure_future(anext(follower))
        await asyncio.sleep(0)
        main.append("note", 3)
        first = payload(await waiting)
        waiting = asyncio.ensure_future(anext(follower))
        await asyncio.sleep(0.01)
        await asyncio.to_thread(main.append, "note", 4)
        return [first, payload(await waiting)]

    assert asyncio.run(asyncio.wait_for(later(), PATIENCE)) == [3, 4]
    assert store._engine.kv.bells == set()


def test_an_aborted_transaction_is_never_seen(store: Store, main: Branch) -> None:
    follower = now(store)
    with suppress(RuntimeError), store.transaction():
        main.append("note", "aborted")
        raise RuntimeError
    main.append("note", "kept")
    assert take(follower, 1) == ["kept"]


def test_a_transaction_of_another_thread_is_seen_when_it_has_committed(store: Store, main: Branch) -> None:
    follower = now(store)
    inside, leave = threading.Event(), threading.Event()

    def write() -> None:
        with store.transaction():
            main.append("note", 1)
            inside.set()
            leave.wait(PATIENCE)

    writer = threading.Thread(target=write)
    writer.start()
    inside.wait(PATIENCE)
    assert follower.next(timeout=0.03) is None
    leave.set()
    assert take(follower, 1) == [1]
    writer.join()


def test_a_timeout_ends_the_waiting(store: Store) -> None:
    follower = now(store)
    started = time.monotonic()
    assert follower.next(timeout=0.05) is None
    assert time.monotonic() - started >= 0.05
    assert follower.next(timeout=-1) is None


def test_closing_ends_who_waits(opener: Opener, store: Store) -> None:
    follower = now(store)
    found: list[list[Item]] = []
    reader = threading.Thread(target=lambda: found.append(list(follower)))
    reader.start()
    time.sleep(0.03)
    follower.close()
    reader.join(PATIENCE)
    assert found == [[]]


def test_closing_the_store_ends_who_waits_with_an_error(store: Store) -> None:
    follower = now(store)
    found: list[str] = []

    def wait() -> None:
        try:
            next(follower)
        except InvalidOperation as error:
            found.append(str(error))

    reader = threading.Thread(target=wait)
    reader.start()
    time.sleep(0.03)
    store.close()
    reader.join(PATIENCE)
    assert len(found) == 1
    assert "closed" in found[0]


def test_threads_that_share_a_follower_get_each_item_once(store: Store, main: Branch) -> None:
    follower = now(store)
    found: list[object] = []

    def share() -> None:
        for item in follower:
            found.append(payload(item))
            if len(found) >= 500:
                follower.close()

    readers = [threading.Thread(target=share) for _ in range(3)]
    for reader in readers:
        reader.start()
    for i in range(500):
        main.append("note", i)
    for reader in readers:
        reader.join(PATIENCE)
    assert sorted(found, key=str) == sorted(range(500), key=str)


# --- asyncio --------------------------------------------------------------------------------------------------------


def test_following_as_a_task(store: Store, main: Branch) -> None:
    async def main_task() -> tuple[list[object], int]:
        found: list[object] = []
        turns = 0

        async def follow() -> None:
            async with store.follow(branch="main", types=["note"]) as follower:
                async for item in follower:
                    found.append(payload(item) if isinstance(item, Followed) else "caught up")
                    if found[-1] == "last":
                        return

        task = asyncio.ensure_future(follow())
        while not found:
            await asyncio.sleep(0)
        for i in range(50):
            main.append("note", i)
            await asyncio.sleep(0)
        while len(found) < 51:
            turns += 1
            await asyncio.sleep(0.001)
        with store.transaction():  # of this task: the other one sees it when it is committed
            main.append("note", "last")
        await asyncio.wait_for(task, PATIENCE)
        return found, turns

    found, _ = asyncio.run(main_task())
    assert found == ["caught up", *range(50), "last"]


def test_waiting_and_a_long_past_do_not_block_the_loop(store: Store, main: Branch) -> None:
    with store.transaction():
        for i in range(5000):
            main.append("note", i)

    async def turns_taken() -> tuple[int, int]:
        turns = 0
        done = False

        async def count() -> None:
            nonlocal turns
            while not done:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.ensure_future(count())
        seen = 0
        async for item in store.follow(live=False):
            seen += isinstance(item, Followed)
        before = turns
        follower = store.follow(start="now")
        await anext(follower)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(follower), 0.03)
        assert turns > before + 10
        main.append("note", "after the timeout")
        assert payload(await asyncio.wait_for(anext(follower), PATIENCE)) == "after the timeout"
        await follower.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(follower)
        done = True
        await counting
        return seen, before

    seen, turns = asyncio.run(turns_taken())
    assert seen == 5000
    assert turns >= 4
    assert store._engine.kv.bells == set()


# --- processes ------------------------------------------------------------------------------------------------------


def test_everything_of_another_process_comes_in_order_and_soon(store: Store) -> None:
    """The bound is generous for loaded machines; docs/following.md has what was measured."""
    follower = now(store)
    writer = start(
        """
        store = chronicle.open(path, durability="relaxed")
        main = store.branch()
        for i in range(100):
            main.append("note", [i, time.time()])
            if i % 10 == 0:
                time.sleep(0.005)
                with store.transaction():
                    main.fork(f"fork {i}").append("note", [i, time.time()])
        """,
        store.path,
    )
    found: list[str] = []
    delays: list[float] = []
    for _ in range(120):
        item = follower.next(PATIENCE)
        if isinstance(item, Followed):
            found.append(f"{item.branch} {item.event.payload[0]}")
            delays.append(time.time() - item.event.payload[1])
        else:
            assert isinstance(item, chronicle.BranchChange)
            found.append(f"{item.kind} {item.branch}")
    ended(writer)
    expected: list[str] = []
    for i in range(100):
        expected += [f"main {i}"] + ([f"fork fork {i}", f"fork {i} {i}"] if i % 10 == 0 else [])
    assert found == expected
    assert sorted(delays)[len(delays) // 2] < 5


def test_two_processes_write_and_a_follower_gets_each_ones_order(store: Store) -> None:
    follower = now(store)
    script = """
        store = chronicle.open(path, durability="relaxed")
        branch = store.orphan(sys.argv[2])
        sys.stdin.readline()
        for i in range(100):
            branch.append("note", i)
            if i == 50:
                branch.fork(sys.argv[2] + "'")
        """
    writers = [start(script, store.path, name) for name in "ab"]
    for writer in writers:
        say(writer)
    items = [follower.next(PATIENCE) for _ in range(2 * 102)]
    ended(*writers)
    assert follower.next(timeout=0.03) is None
    for name in "ab":
        own = [item for item in items if getattr(item, "branch", "")[:1] == name]
        assert [payload(item) if isinstance(item, Followed) else item.kind for item in own] == [  # type: ignore[union-attr]
            "orphan", *range(51), "fork", *range(51, 100),
        ]  # fmt: skip


def test_a_child_process_follows_what_the_parent_does(store: Store, main: Branch) -> None:
    child = start(
        """
        with chronicle.open(path, readonly=True, durability="relaxed") as store:
            with store.follow(start="now") as follower:
                for item in follower:
                    if isinstance(item, chronicle.CaughtUp):
                        print("caught up", flush=True)
                    else:
                        print(item.event.payload, flush=True)
                        if item.event.payload == "end":
                            break
        """,
        store.path,
    )
    assert hear(child) == "caught up"
    main.append("note", "one")
    assert hear(child) == "one"
    main.append("note", "end")
    assert rest(child) == "end\n"
    assert child.returncode == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks of POSIX")
def test_a_follower_goes_on_in_a_forked_process(store: Store) -> None:
    out = run(
        """
        store = chronicle.open(path, durability="relaxed")
        main = store.branch()
        follower = store.follow(start="now")
        next(follower)
        main.append("note", "both")
        child = os.fork()
        if not child:
            assert next(follower).event.payload == "both"
            assert next(follower).event.payload == "later"
            os._exit(0)
        assert next(follower).event.payload == "both"
        main.append("note", "later")
        assert next(follower).event.payload == "later"
        waited(child)
        print("ok")
        """,
        store.path,
    )
    assert out == "ok\n"


# --- the file is replaced -------------------------------------------------------------------------------------------


def test_a_follower_goes_on_in_a_file_that_takes_the_place(opener: Opener, tmp_path: Path) -> None:
    """As after a compaction: the same store in another file."""
    store = opener()
    main = store.branch()
    follower = now(store)
    late = store.follow()
    next(late)
    for i in range(3):
        main.append("note", i)
    assert take(follower, 2) == [0, 1]
    shutil.copy(store.path, tmp_path / "copy")
    with chronicle.open(tmp_path / "copy", durability="relaxed") as copy:
        copy.branch().append("note", 3)
    os.unlink(tmp_path / "copy-lock")
    os.replace(tmp_path / "copy", store.path)
    time.sleep(LOOK)
    assert take(follower, 2) == [2, 3]
    main.append("note", 4)
    assert take(follower, 1) == [4]
    assert isinstance(next(late), CaughtUp)
    assert take(late, 5) == [0, 1, 2, 3, 4]


def test_an_older_copy_or_another_store_in_the_place_is_an_error(opener: Opener, tmp_path: Path) -> None:
    store = opener()
    main = store.branch()
    main.append("note", 0)
    shutil.copy(store.path, tmp_path / "old")
    follower = now(store)
    main.append("note", 1)
    main.fork("side").append("note", 2)
    assert payload(next(follower)) == 1
    assert next(follower).position == follower.position
    os.unlink(f"{store.path}-lock")
    os.replace(tmp_path / "old", store.path)
    time.sleep(LOOK)
    assert payload(next(follower)) == 2  # was read before
    main.append("note", "another way")
    with pytest.raises(InvalidOperation, match="another copy of it was put in its place"):
        next(follower)
    with chronicle.open(tmp_path / "other", durability="relaxed"):
        pass
    os.unlink(tmp_path / "other-lock")
    os.replace(tmp_path / "other", store.path)
    time.sleep(LOOK)
    with pytest.raises(InvalidOperation, match="was replaced by another store; follow that one from its beginning"):
        next(follower)
