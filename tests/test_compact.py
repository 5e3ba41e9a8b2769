"""`store.compact` and `store.backup`: smaller files, and nothing lost whoever is at work meanwhile."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest
from conftest import Opener
from script import ended, hear, run, start

import chronicle_py as chronicle
from chronicle_py import Branch, InvalidOperation, ReadOnly, Store, lmdb_kv
from chronicle_py.kv import META
from chronicle_py.records import META_EPOCH, META_MOVED, META_MOVING


def filled(store: Store, branches: int, each: int = 300) -> None:
    """A conversation that every branch continues by appends to a log and a tree."""
    store.register_state("log", kind="append_log")
    store.register_state("files", kind="tree")
    main = store.branch()
    for name in ["main", *(f"b{n}" for n in range(branches))]:
        branch = main if name == "main" else main.fork(name, at=2 * each - 10)
        with store.transaction():
            for n in range(each):
                branch.state("log").append({"name": name, "n": n, "text": f"{name} {n} " * (n % 20)})
                branch.state("files").put(f"{name}/{n % 50}", "x" * n)


def reads(store: Store) -> dict[str, object]:
    return {b.name: (b.head, store.branch(b.name).state("log").hash) for b in store.branches()}


def meta(store: Store, key: bytes) -> bytes | None:
    with store._engine.read() as reader:
        return reader.get(META, key)


def test_half_the_branches_gone_the_file_is_as_small_as_without_them(opener: Opener, tmp_path: Path) -> None:
    """Within 1.3 times a store that never had them."""
    store, never = opener(tmp_path / "store"), opener(tmp_path / "never")
    filled(store, 20)
    filled(never, 10)
    assert store.gc(branches="b1?", expire_reflog=0).branches == tuple(f"b1{n}" for n in range(10))
    report = store.compact()
    assert report.after == os.path.getsize(store.path) < report.before
    assert report.after < 1.3 * os.path.getsize(never.path)
    assert report.after < 1.3 * never.compact().after
    assert [b.name for b in store.branches()] == ["main", *(f"b{n}" for n in range(10))]
    assert store.stats().free_bytes < 0.05 * report.after
    assert store.verify(deep=True).ok


def test_everything_reads_as_before_and_goes_on(opener: Opener, tmp_path: Path) -> None:
    store, other = opener(), opener()
    filled(store, 3)
    before, epoch = reads(store), meta(store, META_EPOCH)
    assert reads(other) == before
    mode = stat.S_IMODE(os.stat(store.path).st_mode)
    told: list[tuple[int, int]] = []
    store.compact(progress=lambda done, total: told.append((done, total)))
    assert told[-1][0] == told[-1][1] > 1000
    assert reads(store) == reads(other) == before
    assert meta(store, META_EPOCH) != epoch
    assert meta(store, META_MOVED) is meta(store, META_MOVING) is None
    assert stat.S_IMODE(os.stat(store.path).st_mode) == mode
    store.branch().state("log").append("after")
    assert other.branch().state("log")[-1] == "after"
    other.branch("b1").state("log").append("after")
    assert store.verify(deep=True).ok
    for _ in range(3):
        other.compact()
    assert store.verify(deep=True).ok
    assert sorted(os.listdir(tmp_path)) == ["store", "store-lock"]


def test_an_open_snapshot_and_an_iteration_go_on(opener: Opener) -> None:
    store = opener()
    main = store.branch()
    with store.transaction():
        for n in range(3000):
            main.append("note", n)
    events = main.events()
    assert next(events).payload == 0
    with store._engine.kv.read() as snapshot:
        store.compact()
        assert snapshot.count(0) == 3000
        assert [e.payload for e in events] == list(range(1, 3000))


WRITER = """
name = sys.argv[2]
store = chronicle.open(path, durability="relaxed")
print("ready", flush=True)
sys.stdin.readline()
done = []
def write(who):
    branch = store.branch()
    for i in range(60):
        branch.append("note", [who, i])
        assert branch.seq
        done.append((who, i))
threads = [threading.Thread(target=write, args=(name + t,)) for t in "xy"]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert len(done) == 120
print(len(list(store.branch().events())))
"""


def test_eight_writers_lose_nothing_while_the_file_is_replaced_again_and_again(opener: Opener, tmp_path: Path) -> None:
    store = opener()
    main = store.branch()
    workers = [start(WRITER, store.path, str(n)) for n in range(8)]
    assert [hear(worker) for worker in workers] == ["ready"] * 8
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    stop = threading.Event()
    lengths: list[int] = []

    def read() -> None:
        while not stop.is_set():
            lengths.append(sum(1 for _ in main.events()))

    reader = threading.Thread(target=read)
    reader.start()
    compactions = 0
    try:
        while compactions < 5 or workers[0].poll() is None:
            store.compact()
            compactions += 1
        ended(*workers)
    finally:
        stop.set()
        reader.join()
    events = list(main.events())
    assert [e.seq for e in events] == list(range(1, 8 * 2 * 60 + 1))
    for who in (f"{n}{t}" for n in range(8) for t in "xy"):
        assert [e.payload[1] for e in events if e.payload[0] == who] == list(range(60))
    assert lengths == sorted(lengths)
    report = store.verify(deep=True)
    assert report.ok, report.problems


KILLED = """
from chronicle_py import compacting, lmdb_copy, lmdb_kv
from chronicle_py.lmdb_kv import LmdbFile
where = sys.argv[2]
def die(*args, **options):
    os._exit(9)
def dying_after(function):
    def wrapped(*args, **options):
        function(*args, **options)
        os._exit(9)
    return wrapped
store = chronicle.open(path, durability="relaxed")
if where == "marked":
    compacting._replace = die
elif where == "copying":
    lmdb_copy.sync_file = die
elif where == "copied":
    LmdbFile.put_in_place = die
elif where == "renamed":
    lmdb_kv._new_lock = die
elif where == "lock":
    lmdb_kv._new_lock = dying_after(lmdb_kv._new_lock)
elif where == "placed":
    LmdbFile.put_in_place = dying_after(LmdbFile.put_in_place)
elif where == "moved":
    LmdbFile.reopen = die
store.compact()
"""


@pytest.mark.parametrize("where", ["marked", "copying", "copied", "renamed", "lock", "placed", "moved"])
def test_a_compaction_killed_anywhere_leaves_a_whole_store(opener: Opener, tmp_path: Path, where: str) -> None:
    """Others that have the old file open lose nothing that was acknowledged; who comes later finds one store."""
    store = opener()
    main = store.branch()
    events = [main.append("note", n) for n in range(100)]
    killed = start(KILLED, store.path, where)
    assert killed.wait() == 9
    killed.communicate()
    events += [main.append("note", n) for n in range(100, 200)]
    assert [e.id for e in main.events()] == [e.id for e in events]
    events += [main.append("note", n) for n in range(200, 210)]
    run("fill(chronicle.open(path, durability='relaxed'), range(10))", store.path)
    assert main.seq == 220
    assert [e.id for e in main.events(stop=210)] == [e.id for e in events]
    assert store.verify(deep=True).ok
    assert meta(store, META_MOVED) is None
    store.compact()
    assert meta(store, META_MOVING) is None
    assert main.seq == 220
    assert sorted(os.listdir(tmp_path)) == ["store", "store-lock"]


def test_who_opens_to_write_removes_a_leftover(opener: Opener, tmp_path: Path) -> None:
    opener().close()
    leftover = tmp_path / "store-compact"
    leftover.write_bytes(b"half a copy")
    opener(readonly=True).close()
    assert leftover.exists()
    opener()
    assert not leftover.exists()


def test_a_compaction_that_fails_changes_nothing(opener: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opener()
    filled(store, 1)
    before = reads(store)

    def full(path: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(chronicle.lmdb_copy, "sync_file", full)
    with pytest.raises((OSError, chronicle.ChronicleError)):
        store.compact()
    monkeypatch.undo()
    assert reads(store) == before
    assert meta(store, META_MOVING) is None
    assert os.listdir(os.path.dirname(store.path)) != []
    assert not os.path.exists(store._engine.kv.compact_path)
    store.branch().append("note", 1)
    store.compact()
    assert store.verify(deep=True).ok


def test_compact_and_backup_refuse_what_they_cannot_do(
    opener: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opener()
    for call in (store.compact, lambda: store.backup(tmp_path / "copy")):
        with pytest.raises(InvalidOperation, match="leave the open"), store.transaction():
            call()
    with pytest.raises(InvalidOperation, match=r"progress=.* is a function"):
        store.compact(progress=1)  # type: ignore[arg-type]
    with pytest.raises(InvalidOperation, match="overwrites nothing"):
        store.backup(store.path)
    with pytest.raises(InvalidOperation, match="path of a new file"):
        store.backup(3)  # type: ignore[arg-type]
    with pytest.raises(ReadOnly, match="cannot be made"):
        store.backup(tmp_path / "nowhere" / "copy")
    monkeypatch.setattr("sys.platform", "win32")
    with pytest.raises(InvalidOperation, match="Windows"):
        store.compact()
    monkeypatch.undo()
    store.close()
    with pytest.raises(ReadOnly):
        opener(readonly=True).compact()


def test_a_backup_is_one_moment_while_others_write(opener: Opener, tmp_path: Path, main: Branch, store: Store) -> None:
    store.register_state("log", kind="append_log")
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            with store.transaction():  # always two
                main.state("log").append("one")
                main.state("log").append("two")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        sizes = [store.backup(tmp_path / f"copy{n}") for n in range(5)]
    finally:
        stop.set()
        writer.join()
    for n, size in enumerate(sizes):
        path = tmp_path / f"copy{n}"
        assert os.path.getsize(path) == size
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        copy = opener(path)
        assert copy.stats().store == store.stats().store
        items = list(copy.branch().state("log"))
        assert items == ["one", "two"] * (len(items) // 2)
        assert copy.verify(deep=True).ok
        copy.branch().append("note", "of its own")
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".part")]


def test_a_read_only_store_can_be_backed_up(opener: Opener, tmp_path: Path) -> None:
    store = opener()
    store.branch().append("note", 1)
    store.close()
    opener(readonly=True).backup(tmp_path / "copy")
    assert opener(tmp_path / "copy").branch().seq == 1
    assert lmdb_kv._open_files


def test_a_follower_goes_on_in_the_new_file(opener: Opener) -> None:
    store = opener()
    main = store.branch()
    main.append("note", 1)
    follower = store.follow(types=["note"])
    assert [getattr(next(follower), "branch", None) for _ in range(2)] == ["main", None]
    store.compact()
    main.append("note", 2)
    assert next(follower).event.seq == 2  # type: ignore[union-attr]
    run(
        "store = chronicle.open(path, durability='relaxed'); store.compact(); store.branch().append('note', 3)",
        store.path,
    )
    assert next(follower).event.payload == 3  # type: ignore[union-attr]
    follower.close()
