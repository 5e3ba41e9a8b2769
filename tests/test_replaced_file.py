"""Another file in the place of the open one: a compaction, a backup put back. Open stores go on with what is there."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import Opener
from script import ended, hear, run, say, start

import chronicle_py as chronicle
from chronicle_py import ChronicleError, CorruptStore, FormatVersion, InvalidOperation, NotFound, Store, lmdb_kv

LOOK = lmdb_kv._LOOK_EVERY * 1.5


def make(path: Path, word: str, items: int) -> None:
    """A closed store with a log of `items` items that say `word`."""
    with chronicle.open(path, durability="relaxed") as store:
        store.register_state("log", kind="append_log")
        with store.transaction():
            for i in range(items):
                store.branch().state("log").append(f"{word} {i}")
    Path(f"{path}-lock").unlink()


def put(tmp_path: Path, word: str, items: int) -> None:
    """Puts such a store in the place of the open one, as `mv` would."""
    make(tmp_path / "other", word, items)
    os.replace(tmp_path / "other", tmp_path / "store")


def old_store(opener: Opener, tmp_path: Path, items: int = 100, **options: Any) -> Store:
    make(tmp_path / "store", "old", items)
    store = opener(**options)
    assert store.branch().seq == items
    return store


@pytest.mark.parametrize("durability", ["full", "relaxed"])
@pytest.mark.parametrize("items", [3, 100, 500])
def test_reads_and_writes_go_to_the_new_file(opener: Opener, tmp_path: Path, durability: str, items: int) -> None:
    store = old_store(opener, tmp_path, durability=durability)
    log = store.branch().state("log")
    assert len(log) == 100
    put(tmp_path, "new", items)
    time.sleep(LOOK)
    assert list(log) == [f"new {i}" for i in range(items)]
    assert log.append("after").seq == items + 1
    assert store.branch().event(1).payload == "new 0"
    assert store.verify(deep=True).ok
    for more in range(3):  # and again
        put(tmp_path, f"newer {more}", 70)
        time.sleep(LOOK)
        assert log.append("after").seq == 71
        assert log[0] == f"newer {more} 0"
    store.close()
    with chronicle.open(tmp_path / "store") as again:
        assert again.branch().state("log")[-1] == "after"
        assert again.verify(deep=True).ok


WORKER = """
name, late = sys.argv[2:]
def opened():
    return chronicle.open(path, durability="relaxed")
if not late:
    store = opened()
    log = store.branch().state("log")
    assert len(log) == 100
print("ready", flush=True)
sys.stdin.readline()
if late:
    store = opened()
    log = store.branch().state("log")
for i in range(60):
    log.append([name, i])
check(store)
"""


def test_other_processes_go_on_with_it_too(tmp_path: Path) -> None:
    """Three that had the old file open, and one that comes later, write to the one new file: nothing is lost."""
    make(tmp_path / "store", "old", 100)
    make(tmp_path / "other", "new", 30)
    workers = [
        start(WORKER, tmp_path / "store", name, late) for name, late in zip("abcd", ["", "", "", "late"], strict=True)
    ]
    assert [hear(worker) for worker in workers] == ["ready"] * 4
    os.replace(tmp_path / "other", tmp_path / "store")
    time.sleep(LOOK)
    for worker in workers:
        say(worker)
        if worker is workers[2]:
            time.sleep(0.02)
    ended(*workers)
    with chronicle.open(tmp_path / "store") as store:
        items = list(store.branch().state("log"))
        assert items[:30] == [f"new {i}" for i in range(30)]
        for name in "abcd":
            assert [i for n, i in items[30:] if n == name] == list(range(60))
        assert len(items) == 270
        assert store.verify(deep=True).ok


def test_the_moved_mark_sends_a_store_to_the_new_file_at_once(
    opener: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a compaction does: it holds the write lock, marks the old file as moved, and renames. No look is needed."""
    store = old_store(opener, tmp_path)
    log = store.branch().state("log")
    assert log[0] == "old 0"
    monkeypatch.setattr(lmdb_kv, "_LOOK_EVERY", 3600)
    make(tmp_path / "other", "new", 20)
    run(
        """
        import lmdb
        from chronicle_py import records
        with lmdb.open(path, subdir=False, max_dbs=20) as env:
            meta = env.open_db(b"meta")
            with env.begin(write=True) as txn:
                epoch = int.from_bytes(records.unseal(b"epoch", txn.get(b"epoch", db=meta), ""), "big") + 1
                txn.put(b"epoch", records.seal(b"epoch", epoch.to_bytes(8, "big")), db=meta)
                txn.put(records.META_MOVED, records.seal(records.META_MOVED, b""), db=meta)
                os.unlink(path + "-lock")
                os.replace(path[:-5] + "other", path)
        """,
        tmp_path / "store",
    )
    assert log.append("after").seq == 21
    assert list(log) == [*(f"new {i}" for i in range(20)), "after"]
    assert store.verify(deep=True).ok


def test_a_snapshot_that_is_open_keeps_the_old_file(opener: Opener, tmp_path: Path) -> None:
    store = old_store(opener, tmp_path)
    with store._engine.kv.read() as snapshot:
        put(tmp_path, "new", 20)
        time.sleep(LOOK)
        assert store.branch().seq == 20
        assert snapshot.count(0) == 100


def test_a_transaction_ends_in_the_file_it_began_in(opener: Opener, tmp_path: Path) -> None:
    store = old_store(opener, tmp_path)
    main = store.branch()
    with store.transaction():
        main.append("note", 1)
        put(tmp_path, "new", 20)
        time.sleep(LOOK)
        assert main.append("note", 2).seq == 102
    time.sleep(LOOK)
    assert main.seq == 20
    assert main.append("note", 3).seq == 21


def test_an_iteration_over_a_replaced_file_does_not_go_on_silently_elsewhere(opener: Opener, tmp_path: Path) -> None:
    store = old_store(opener, tmp_path, items=3000)
    iterations = [store.branch().events(), store.branch().state("log")]
    begun = [iter(iteration) for iteration in iterations]
    for iteration in begun:
        next(iteration)
    put(tmp_path, "new", 20)
    time.sleep(LOOK)
    for iteration in begun:
        with pytest.raises(ChronicleError):
            list(iteration)


def test_a_file_taken_away_is_not_found_until_it_is_back(opener: Opener, tmp_path: Path) -> None:
    store = old_store(opener, tmp_path)
    os.rename(tmp_path / "store", tmp_path / "away")
    time.sleep(LOOK)
    for use in (lambda: store.branch().seq, lambda: store.branch().append("note", 1)):
        with pytest.raises(NotFound, match="is gone from under this process"):
            use()
    os.rename(tmp_path / "away", tmp_path / "store")
    assert store.branch().append("note", 1).seq == 101


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (b"no store" * 1000, InvalidOperation, "is no LMDB file"),
        ("foreign", InvalidOperation, "belongs to another program"),
        ("newer", FormatVersion, "format 9"),
        ("cut", CorruptStore, "cut short or damaged"),
    ],
)
def test_a_file_that_is_no_store_is_refused_until_a_store_is_there(
    opener: Opener, tmp_path: Path, content: bytes | str, error: type[ChronicleError], message: str
) -> None:
    store = old_store(opener, tmp_path)
    other = tmp_path / "other"
    if isinstance(content, bytes):
        other.write_bytes(content)
    else:
        make(other, "new", 30)
        run(
            """
            import lmdb
            from chronicle_py import records
            if sys.argv[2] == "foreign":
                os.unlink(path)
            with lmdb.open(path, subdir=False, max_dbs=20) as env, env.begin(write=True) as txn:
                if sys.argv[2] == "foreign":
                    txn.put(b"key", b"value")
                if sys.argv[2] == "newer":
                    body = (9).to_bytes(4, "big")
                    txn.put(b"format", records.seal(b"format", body), db=env.open_db(b"meta", txn=txn))
            if sys.argv[2] == "cut":
                os.truncate(path, os.path.getsize(path) // 2)
            os.unlink(path + "-lock")
            """,
            other,
            content,
        )
    os.rename(tmp_path / "store", tmp_path / "kept")
    os.replace(other, tmp_path / "store")
    for _ in range(2):
        time.sleep(LOOK)
        with pytest.raises(error, match=message):
            store.branch().append("note", 1)
        with pytest.raises(error, match=message):
            store.branch()
    os.replace(tmp_path / "kept", tmp_path / "store")
    time.sleep(LOOK)
    assert store.branch().append("note", 1).seq == 101
    assert store.verify(deep=True).ok
