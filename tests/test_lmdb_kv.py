"""The traps of LMDB, each sprung on the real library: what the store does then, and what it keeps.

What may crash an interpreter, or takes limits or users of its own, runs in a process of its own (`run`).
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import lmdb
import pytest
from conftest import Opener
from script import run

import chronicle_py as chronicle
from chronicle_py import (
    BranchExists,
    ChronicleError,
    CorruptStore,
    FormatVersion,
    InvalidName,
    InvalidOperation,
    LogView,
    NotFound,
    ReadOnly,
    Store,
    StoreFull,
    lmdb_kv,
    records,
)
from chronicle_py.kv import META, SPACE_NAMES

UNPRIVILEGED = 65534


def filled(path: Path, items: int, **options: object) -> None:
    with chronicle.open(path, durability="relaxed", **options) as store:  # type: ignore[arg-type]
        store.register_state("log", kind="append_log")
        with store.transaction():
            for i in range(items):
                store.branch().state("log").append(i)


def fill_up(log: LogView) -> int:
    """Appends until the store is full; returns how many appends it acknowledged."""
    for done in range(10_000):
        try:
            log.append("x" * 2000)
        except StoreFull:
            return done
    raise AssertionError("the store never filled up")


def append_many(store: Store, count: int) -> None:
    with store.transaction():
        for _ in range(count):
            store.branch().state("log").append("x" * 2000)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def environment(store: Store) -> lmdb.Environment:
    return store._engine.kv._env


def snapshots_held(store: Store) -> list[str]:
    """The lines of LMDB's reader table that hold a transaction."""
    lines = environment(store).readers().splitlines()[1:]
    return [line for line in lines if line.split()[-1] != "-"]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users may enter."""
    folder = Path(tempfile.mkdtemp(prefix="chronicle-test-"))
    folder.chmod(0o755)
    yield folder
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755)
    shutil.rmtree(folder)


# --- room -----------------------------------------------------------------------------------------------------------


def test_a_full_map_refuses_the_write_and_keeps_all_that_was_acknowledged(opener: Opener, tmp_path: Path) -> None:
    store = opener(map_size=1 << 20)
    store.register_state("log", kind="append_log")
    log = store.branch().state("log")
    acknowledged = fill_up(log)
    assert acknowledged > 50
    with pytest.raises(StoreFull, match="Open it with a larger map_size"):
        log.append("x" * 2000)
    assert len(log) == store.branch().seq == acknowledged
    assert log[-1] == "x" * 2000
    assert store.verify(deep=True).ok
    store.close()
    larger = opener(map_size=1 << 22)
    assert larger.branch().state("log").append("goes on").seq == acknowledged + 1
    assert larger.verify(deep=True).ok


def test_a_transaction_that_fills_the_map_leaves_nothing(opener: Opener) -> None:
    store = opener(map_size=1 << 20)
    store.register_state("log", kind="append_log")
    log = store.branch().state("log")
    log.append("before")
    before = store.stats().keyspaces
    with pytest.raises(StoreFull, match="nothing of this write was kept"):
        append_many(store, 1000)
    assert list(log) == ["before"]
    assert {n: s["entries"] for n, s in store.stats().keyspaces.items()} == {n: s["entries"] for n, s in before.items()}
    log.append("after")
    assert list(log) == ["before", "after"]


def test_a_swallowed_full_map_still_refuses_the_transaction(opener: Opener) -> None:
    store = opener(map_size=1 << 20)

    def swallow() -> None:
        with store.transaction():
            store.branch().append("note", "small")
            with pytest.raises(StoreFull):
                store.put_blob(bytes(2 << 20))

    with pytest.raises(ChronicleError):
        swallow()
    assert store.branch().seq == 0
    assert store.branch().append("note", "small").seq == 1


def test_a_full_disk_refuses_the_write_and_keeps_all_that_was_acknowledged(tmp_path: Path) -> None:
    script = """
    import resource
    store = chronicle.open(path, durability=sys.argv[2])
    log = fill(store, ["first"])
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
    done = 1
    try:
        while True:
            log.append("x" * 2000)
            done += 1
    except chronicle.StoreFull as error:
        assert "nothing of this write was kept" in str(error).lower(), error
    assert 50 < done < 400, done
    assert len(log) == done
    try:
        with store.transaction():
            for _ in range(400):
                log.append("y" * 2000)
    except chronicle.StoreFull:
        pass
    assert len(log) == done
    check(store)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert log.append("goes on").seq == done + 1
    check(store)
    store.close()
    store = chronicle.open(path)
    assert store.branch().state("log")[-1] == "goes on"
    check(store)
    """
    for durability in ("full", "relaxed"):
        run(script, tmp_path / durability, durability)


def test_a_large_sparse_map_is_reserved_from_the_start(store: Store) -> None:
    assert environment(store).info()["map_size"] == lmdb_kv.DEFAULT_MAP_SIZE >= 1 << 30
    assert store.stats().file_bytes < 1 << 20
    assert os.stat(store.path).st_blocks * 512 < 1 << 20


# --- one file, several stores -----------------------------------------------------------------------------------------


def test_two_stores_of_one_file_share_it_and_see_each_other(opener: Opener, tmp_path: Path) -> None:
    first = opener()
    (tmp_path / "link").symlink_to(tmp_path / "store")
    os.link(tmp_path / "store", tmp_path / "hard")
    others = [opener(), opener(tmp_path / "link"), opener(tmp_path / "hard"), opener(Path(os.path.relpath(first.path)))]
    first.register_state("log", kind="append_log")
    for number, store in enumerate(others, 1):
        assert store.branch().state("log").append(number).seq == number
        assert first.branch().state("log")[:] == list(range(1, number + 1))
    first.close()
    others[0].close()
    assert len(others[1].branch().state("log")) == 4
    assert others[1].verify(deep=True).ok


def test_a_transaction_of_one_store_refuses_a_write_by_another_on_the_same_thread(opener: Opener) -> None:
    one, two = opener(), opener()
    with one.transaction():
        one.branch().append("note", 1)
        with pytest.raises(InvalidOperation, match=r"another Store of .* has a transaction open on this thread"):
            two.branch().append("note", 2)
        assert two.branch().seq == 0
    assert two.branch().append("note", 2).seq == 2


def test_durabilities_do_not_mix_in_one_process(opener: Opener) -> None:
    opener(durability="relaxed")
    with pytest.raises(InvalidOperation, match="durability='relaxed' already"):
        opener(durability="full")


def test_a_readonly_store_beside_a_writing_one_reads_and_does_not_write(opener: Opener) -> None:
    writing = opener()
    reading = opener(readonly=True)
    writing.branch().append("note", 1)
    assert reading.branch().seq == 1
    with pytest.raises(ReadOnly, match="readonly=True"):
        reading.branch().append("note", 2)
    assert writing.branch().seq == 1


def test_a_file_open_readonly_is_not_opened_to_write_until_it_is_closed(opener: Opener) -> None:
    opener().close()
    reading = opener(readonly=True)
    with pytest.raises(InvalidOperation, match="open read-only already; close that store"):
        opener()
    reading.close()
    assert opener().branch().append("note", 1).seq == 1


# --- readers ----------------------------------------------------------------------------------------------------------


def test_readers_left_by_killed_processes_are_cleared_at_the_next_open(tmp_path: Path, opener: Opener) -> None:
    filled(tmp_path / "store", 1)
    with pytest.raises(AssertionError, match="exit -9"):
        run(
            """
            import signal
            store = chronicle.open(path, durability="relaxed")
            held = [store._engine.kv.read() for _ in range(20)]
            os.kill(os.getpid(), signal.SIGKILL)
            """,
            tmp_path / "store",
        )
    store = opener()
    assert snapshots_held(store) == []
    assert store.branch().seq == 1


def test_a_reader_table_full_of_the_dead_is_cleared_when_needed(tmp_path: Path, opener: Opener) -> None:
    store = opener()
    store.branch().append("note", 1)
    with pytest.raises(AssertionError, match="exit -9"):
        run(
            """
            import signal
            kv = chronicle.open(path, durability="relaxed")._engine.kv
            held = []
            try:
                while True:
                    held.append(kv.read())
            except chronicle.InvalidOperation as error:
                assert "1024 readers" in str(error), error
            assert len(held) > 1000
            os.kill(os.getpid(), signal.SIGKILL)
            """,
            tmp_path / "store",
        )
    with store._engine.kv.read() as one, store._engine.kv.read() as two:
        assert one.version == two.version
    assert store.branch().seq == 1


def test_iterators_hold_no_snapshot_between_their_steps(opener: Opener) -> None:
    store = opener()
    store.register_state("log", kind="append_log")
    main = store.branch()
    log = main.state("log")
    with store.transaction():
        for i in range(3000):
            log.append(i)
    begun = [iter(main.events()), main.events(reverse=True), iter(log), reversed(log), main.events(slot="log")]
    assert [next(iterator) for iterator in begun][2:4] == [0, 2999]
    assert snapshots_held(store) == []
    size = store.stats().file_bytes
    for i in range(300):
        log.append(i)
    assert store.stats().file_bytes < size + 400_000
    assert [len(list(iterator)) for iterator in begun] == [2999] * 5


# --- names and sizes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["n" * 255, "é" * 127, "\N{GRINNING FACE}" * 63])
def test_the_longest_names_work_everywhere(store: Store, name: str) -> None:
    main = store.branch()
    store.register_state(name, kind="append_log", types=[name])
    main.append(name, 1)
    main.state(name).append(2)
    fork = main.fork(name)
    fork.rewind(1)
    store.delete_branch(name)
    store.restore_branch(name)
    with pytest.raises(BranchExists):
        main.fork(name)
    assert [move.kind for move in fork.reflog()] == ["fork", "rewind", "delete", "restore"]
    assert list(main.state(name)) == [1, 2]
    assert store.verify(deep=True).ok


def test_a_longer_name_is_refused_with_its_size(store: Store) -> None:
    for call in (store.branch().fork, store.orphan, store.branch, lambda n: store.register_state(n, kind="value")):
        with pytest.raises(InvalidName, match="at most 255 bytes of UTF-8, this one has 256"):
            call("é" * 128)


def test_a_payload_of_many_pages_comes_back(store: Store) -> None:
    data = os.urandom(5_000_000)
    store.branch().append("big", data)
    assert store.branch().event(1).payload == data


# --- other files ------------------------------------------------------------------------------------------------------


def test_a_file_that_is_no_lmdb_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    for content in (b"x", b"SQLite format 3\0" + bytes(8000), b"\xff" * 152):
        (tmp_path / "notes.txt").write_bytes(content)
        for readonly in (False, True):
            with pytest.raises(InvalidOperation, match="not a chronicle store"):
                chronicle.open(tmp_path / "notes.txt", readonly=readonly)
        assert files(tmp_path) == {"notes.txt": content}


def test_an_lmdb_file_of_another_program_is_refused_and_keeps_its_data(tmp_path: Path) -> None:
    path = tmp_path / "other.lmdb"
    with lmdb.open(str(path), subdir=False, max_dbs=2) as env, env.begin(write=True) as txn:
        txn.put(b"key", b"value")
        txn.put(b"more", b"value", db=env.open_db(b"events", txn=txn))
    before = path.read_bytes()
    for readonly in (False, True):
        with pytest.raises(InvalidOperation, match="belongs to another program"):
            chronicle.open(path, readonly=readonly)
    assert path.read_bytes() == before


def test_an_empty_file_becomes_a_store_and_is_none_to_a_reader(tmp_path: Path) -> None:
    path = tmp_path / "empty"
    path.touch()
    with pytest.raises(ChronicleError, match="empty"):
        chronicle.open(path, readonly=True)
    assert path.read_bytes() == b""
    with chronicle.open(path) as store:
        assert store.branch().append("note", 1).seq == 1


def test_a_device_or_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/null"):
        with pytest.raises(InvalidOperation, match="device, pipe or socket"):
            chronicle.open(path)
    assert not os.path.exists("/dev/null-lock")


def test_a_truncated_file_is_refused_or_whole(tmp_path: Path) -> None:
    """Wherever it was cut: no crash, no event silently missing, nothing written to it."""
    filled(tmp_path / "store", 700)
    out = run(
        """
        whole = open(path, "rb").read()
        refused = 0
        cuts = [*range(0, len(whole), 4096), *range(1, len(whole), 7 * 4096 - 100), 151, 152, 4095, 8191]
        for cut in cuts[1:]:
            with open(path, "wb") as file:
                file.write(whole[:cut])
            try:
                store = chronicle.open(path, durability="relaxed")
            except (chronicle.CorruptStore, chronicle.InvalidOperation) as error:
                assert path in str(error)
                assert open(path, "rb").read() == whole[:cut]
                refused += 1
            else:
                check(store)
                assert list(store.branch().state("log")) == list(range(700)), cut
                store.close()
        print(refused, len(cuts))
        """,
        tmp_path / "store",
    )
    refused, cuts = map(int, out.split())
    assert refused >= cuts - 12


def set_meta(path: Path, key: bytes, body: bytes) -> None:
    """Changes a record of `meta` behind the store's back."""
    with lmdb.open(str(path), subdir=False, max_dbs=len(SPACE_NAMES)) as env:
        db = env.open_db(SPACE_NAMES[META].encode())
        with env.begin(write=True) as txn:
            txn.put(key, records.seal(key, body), db=db)


def test_a_store_of_another_format_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "store"
    filled(path, 1)
    set_meta(path, records.META_FORMAT, (records.FORMAT + 41).to_bytes(4, "big"))
    before = path.read_bytes()
    for readonly in (False, True):
        with pytest.raises(FormatVersion, match=r"format 43 .* formats up to 2\. Upgrade chronicle-py"):
            chronicle.open(path, readonly=readonly)
    assert path.read_bytes() == before
    set_meta(path, records.META_FORMAT, records.FORMAT.to_bytes(4, "big"))
    with chronicle.open(path) as store:
        assert store.branch().seq == 1


def test_a_damaged_format_record_is_corrupt(tmp_path: Path) -> None:
    path = tmp_path / "store"
    filled(path, 1)
    with lmdb.open(str(path), subdir=False, max_dbs=len(SPACE_NAMES)) as env:
        db = env.open_db(SPACE_NAMES[META].encode())
        with env.begin(write=True) as txn:
            txn.put(records.META_FORMAT, b"\0\0\0\1abcd", db=db)
    with pytest.raises(CorruptStore, match=r"format version .*fails its checksum"):
        chronicle.open(path)


# --- paths and rights -------------------------------------------------------------------------------------------------


def test_where_a_path_leads(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    cases = {
        str(tmp_path / "file.chronicle"): tmp_path / "file.chronicle",
        str(tmp_path / "folder"): tmp_path / "folder" / "chronicle.lmdb",
        str(tmp_path / "new" / "deep") + "/": tmp_path / "new" / "deep" / "chronicle.lmdb",
    }
    for path, file in cases.items():
        with chronicle.open(path) as store:
            assert store.path == str(file)
            store.branch().append("note", path)
        with chronicle.open(file, create=False) as store:
            assert store.branch().event(1).payload == path
        with chronicle.open(os.fsencode(path), readonly=True) as store:  # type: ignore[arg-type]
            assert store.branch().seq == 1


def test_a_path_of_any_bytes_works(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/caf\xe9 \xf0\x9f\x98\x80"
    with chronicle.open(os.fsdecode(path)) as store:
        assert store.branch().append("note", 1).seq == 1
    assert os.path.exists(path)


def test_a_missing_folder_or_store_is_not_found_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"the folder .*/absent .* does not exist; make it first"):
        chronicle.open(tmp_path / "absent" / "store")
    for options in ({"create": False}, {"readonly": True}):
        for name in ("store", "absent/"):
            with pytest.raises(NotFound, match="there is no store at"):
                chronicle.open(f"{tmp_path}/{name}", **options)  # type: ignore[arg-type]
    (tmp_path / "file").write_text("x")
    for below in ("file/store", "file/folder/"):
        with pytest.raises(ChronicleError, match="file"):
            chronicle.open(f"{tmp_path}/{below}")
    assert os.listdir(tmp_path) == ["file"]


def test_the_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with chronicle.open(tmp_path / "store"):
            pass
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"store": 0o600, "store-lock": 0o600}


def test_a_folder_that_may_not_be_written_refuses_a_new_store(open_folder: Path) -> None:
    open_folder.chmod(0o555)
    out = run(
        f"""
        if os.getuid() == 0:
            os.setuid({UNPRIVILEGED})
        for name in ("store", "sub/"):
            try:
                chronicle.open(os.path.join(path, name))
            except chronicle.ReadOnly as error:
                assert "ermission denied" in str(error), error
                print(type(error).__name__)
        print(os.listdir(path))
        """,
        open_folder,
    )
    assert out == "ReadOnly\nReadOnly\n[]\n"


def test_a_store_that_may_not_be_written_is_refused_and_names_the_lock_file(open_folder: Path) -> None:
    filled(open_folder / "store", 5)
    before = files(open_folder)
    for path in (*open_folder.iterdir(), open_folder):
        path.chmod(0o555 if path.is_dir() else 0o444)
    out = run(
        f"""
        if os.getuid() == 0:
            os.setuid({UNPRIVILEGED})
        for readonly in (False, True):
            try:
                chronicle.open(path, readonly=readonly, durability="relaxed")
            except chronicle.ReadOnly as error:
                print(error)
        """,
        open_folder / "store",
    )
    assert out.count("Permission denied. Readers too write the lock file beside it") == 2
    assert files(open_folder) == before


def test_a_store_on_a_read_only_file_system_is_read(tmp_path: Path) -> None:
    filled(tmp_path / "store", 5)
    mount = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && shift && exec "$@"'
    mounted = ["unshare", "-m", "sh", "-c", mount, "sh", str(tmp_path)]
    if not shutil.which("unshare") or subprocess.run([*mounted, "true"], capture_output=True).returncode:
        pytest.skip("mounting takes root and unshare")
    out = run(
        """
        for options in ({}, {"readonly": True}):
            try:
                store = chronicle.open(path, **options)
            except chronicle.ReadOnly as error:
                assert "Read-only file system" in str(error), error
                print("refused")
            else:
                print(list(store.branch().state("log")), store.verify(deep=True).ok)
        """,
        tmp_path / "store",
        before=mounted,
    )
    assert out == "refused\n[0, 1, 2, 3, 4] True\n"


def test_a_store_that_may_not_be_read_is_refused(open_folder: Path) -> None:
    filled(open_folder / "store", 5)
    (open_folder / "store").chmod(0)
    out = run(
        f"""
        if os.getuid() == 0:
            os.setuid({UNPRIVILEGED})
        for readonly in (False, True):
            try:
                chronicle.open(path, readonly=readonly)
            except chronicle.ReadOnly as error:
                print(error)
        """,
        open_folder / "store",
    )
    assert out.count("cannot be read") == 2


def test_a_store_read_only_writes_nothing(tmp_path: Path) -> None:
    filled(tmp_path / "store", 70)
    before = (tmp_path / "store").read_bytes()
    with chronicle.open(tmp_path / "store", readonly=True) as store:
        main = store.branch()
        assert main.state("log")[-1] == 69
        assert store.verify(deep=True).ok
        for write in (
            lambda: main.append("note", 1),
            lambda: main.fork("other"),
            lambda: main.rewind(1),
            lambda: store.orphan("other"),
            lambda: store.put_blob(b"x"),
            lambda: store.register_state("new", kind="value"),
            lambda: store.transaction().__enter__(),
        ):
            with pytest.raises(ReadOnly):
                write()
    assert (tmp_path / "store").read_bytes() == before


# --- closing ----------------------------------------------------------------------------------------------------------


def test_closing_twice_is_fine_and_use_after_close_says_so(opener: Opener) -> None:
    store = opener()
    store.register_state("log", kind="append_log")
    main = store.branch()
    log = main.state("log")
    fixed = main.state("log", at=0)
    with store.transaction():
        for i in range(2000):
            log.append(i)
    iterator, items = main.events(), iter(log)
    next(iterator), next(items)
    store.close()
    store.close()
    uses: list[Callable[[], object]] = [
        lambda: main.append("note", 1),
        lambda: main.seq,
        lambda: main.head,
        lambda: main.fork("x"),
        lambda: main.rewind(1),
        lambda: log.append(1),
        lambda: len(log),
        lambda: log[0],
        lambda: main.events(),
        lambda: list(iterator),
        lambda: list(items),
        lambda: store.branch(),
        lambda: store.branches(),
        lambda: store.stats(),
        lambda: store.sync(),
        lambda: store.verify(),
        lambda: store.put_blob(b""),
        lambda: store.transaction().__enter__(),
        lambda: store.register_state("other", kind="value"),
        lambda: store.event("abcdef"),
        lambda: fixed.hash,
    ]
    for use in uses:
        with pytest.raises(InvalidOperation, match="was closed; open it again"):
            use()
    assert repr(store) == f"<Store {store.path} (closed)>"
    assert opener().branch().seq == 2000


def test_a_store_does_not_close_inside_its_own_transaction(opener: Opener) -> None:
    store = opener()
    with store.transaction():
        store.branch().append("note", 1)
        with pytest.raises(InvalidOperation, match="leave its `with` block before closing"):
            store.close()
    assert store.branch().seq == 1


def test_closing_while_other_threads_read_and_write(tmp_path: Path) -> None:
    """They are told that it was closed; nothing crashes, and what was acknowledged is there."""
    run(
        """
        import random
        for round in range(15):
            store = chronicle.open(path, durability="relaxed")
            log = fill(store, [])
            acknowledged, ends = [len(log)], []
            def write():
                try:
                    while True:
                        with store.transaction():
                            log.append("x" * 300)
                            log.append("x" * 300)
                        acknowledged[0] += 2
                except chronicle.InvalidOperation as error:
                    ends.append(str(error))
            def read():
                try:
                    while True:
                        list(log)
                        list(store.branch().events(reverse=True, limit=20))
                except chronicle.InvalidOperation as error:
                    ends.append(str(error))
            threads = [threading.Thread(target=f, daemon=True) for f in (write, read, read)]
            for thread in threads:
                thread.start()
            time.sleep(random.random() * 0.02)
            store.close()
            for thread in threads:
                thread.join(10)
                assert not thread.is_alive()
            assert len(ends) == 3 and all("closed" in end for end in ends), ends
            with chronicle.open(path, durability="relaxed") as again:
                assert again.branch().seq == acknowledged[0], (again.branch().seq, acknowledged)
        with chronicle.open(path) as store:
            check(store)
        """,
        tmp_path / "store",
    )
