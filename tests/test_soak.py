"""The short forms of the harnesses in `soak/`, and what makes them able to find anything.

`make soak` runs the same functions with many more cases; docs/reliability.md says what they are about.
"""

from __future__ import annotations

import errno
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmdb
import msgspec
import pytest
from blake3 import blake3
from conftest import Opener
from hypothesis import given, settings
from hypothesis import strategies as st
from script import hear, rest, say, start
from soak import faults, fuzz, kills, processes
from soak.decoders import FUZZ_TARGETS, small_store
from soak.fuzz_seeds import seeds, spoiled
from soak.ledger import Effect, Intent, Ledger
from soak.result import Result

import chronicle_py as chronicle
from chronicle_py import CorruptStore, InvalidOperation, List, Store, StoreFull, entries, lmdb_kv, nodes, records, runs
from chronicle_py.context.importers import archive, read_bytes
from chronicle_py.event import BLOB
from chronicle_py.kv import SLOTS
from chronicle_py.objects import unpack_blob


def nothing_wrong(found: Result) -> None:
    assert found.wrong == 0, "\n".join(found.details)


def test_30_killed_writers_lose_nothing_they_acknowledged(tmp_path: Path) -> None:
    found = kills.run(30, 1, deep_every=4, folder=tmp_path)
    nothing_wrong(found)
    assert found.cases == 30
    assert found.figures["kills inside an operation"] >= 10
    assert found.figures["acknowledged events"] > 100


def test_injected_faults_are_clear_errors_and_lose_nothing(tmp_path: Path) -> None:
    found = faults.run(24, 1, folder=tmp_path)
    nothing_wrong(found)
    assert {"file size limit", "full map", "permissions"} <= found.figures["by kind"].keys()
    assert found.cases >= 24


def test_many_processes_lose_and_tear_nothing_and_the_file_stops_growing(tmp_path: Path) -> None:
    found = processes.run(40, 1, folder=tmp_path)
    nothing_wrong(found)
    assert found.cases >= 2 * 8 * 40
    assert found.figures["one branch"]["writers killed in the midst"] >= 1


def test_spoiled_bytes_get_chronicle_errors_soon_and_in_little_memory() -> None:
    found = fuzz.run(400, 1)
    nothing_wrong(found)
    assert found.cases >= 380


@given(data=st.data())
@settings(max_examples=200)
def test_any_bytes_into_any_decoder(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([name for name in FUZZ_TARGETS if not name.startswith("store ")]))
    known = seeds(name)
    given_bytes = data.draw(st.binary(max_size=60) | st.integers(0, 1 << 32).map(lambda n: _spoiled(n, known)))
    FUZZ_TARGETS[name](given_bytes)


def _spoiled(number: int, known: list[bytes]) -> bytes:
    chance = random.Random(number)
    return spoiled(chance, chance.choice(known), known)


def test_each_target_takes_its_seeds_and_reaches_its_decoder() -> None:
    for name, target in FUZZ_TARGETS.items():
        known = seeds(name)
        assert known
        assert max(map(len, known)) > 0, name
        target(known[0])
    assert small_store().verify(deep=True).ok


# --- the ledger sees what it must ---------------------------------------------------------------------------------


def test_the_ledger_sees_lost_events_halves_and_branches_that_nobody_made(store: Store) -> None:
    main = store.branch()
    ids = [main.append("note", n).id for n in range(5)]
    ledger = Ledger()
    ledger.take(Effect("append", adds={"main": ids}))
    assert ledger.problems(store, None) == []
    main.rewind(3)
    assert ledger.problems(store, None) == [
        "branch main: 5 events were acknowledged, and of these the first 3 are there"
    ]
    more = [main.append("note", n).id for n in range(2)]
    half = Intent("transaction", adds={"main": 4})
    assert ledger.problems(store, half) == ["branch main: 2 of the 4 events of transaction are there"]
    ledger.take(Effect("append", adds={"main": []}))
    main.fork("side", at=2)
    assert ledger.problems(store, None) == ["branch side: there is one that nobody made"]
    store.delete_branch("side")
    assert ledger.problems(store, None) == ["branch side is gone, with 2 acknowledged events"]
    both = Intent("transaction", adds={"main": 1}, makes={"other": 3})
    main.fork("other", at=3)
    assert ledger.problems(store, both)[0].startswith("transaction: half of it was kept")
    assert more == [event.id for event in main.events(start=4)]


# --- what the harnesses have found --------------------------------------------------------------------------------


def test_a_lock_file_has_all_its_blocks_so_that_a_full_disk_cannot_end_the_process(opener: Opener) -> None:
    lock = Path(f"{opener().path}-lock").stat()
    assert lock.st_blocks * 512 >= lock.st_size >= 64 * 1024


def test_a_compaction_without_room_for_a_lock_file_changes_nothing(
    opener: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opener()
    store.branch().append("note", 1)
    reserve = lmdb_kv._reserve

    def full(lock: str) -> None:
        if lock.endswith("-new"):
            raise OSError(errno.ENOSPC, "No space left on device")
        reserve(lock)

    monkeypatch.setattr(lmdb_kv, "_reserve", full)
    with pytest.raises(StoreFull, match=r"compacting .*free some space"):
        store.compact()
    assert store.branch().append("note", 2).seq == 2
    assert sorted(os.listdir(tmp_path)) == ["store", "store-lock"]
    monkeypatch.undo()
    store.compact()
    assert [event.payload for event in store.branch().events()] == [1, 2]


def test_a_file_with_the_inode_of_one_just_closed_is_opened_a_moment_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, refusals = lmdb.open, iter(range(3))

    def late(path: bytes, **options: Any) -> lmdb.Environment:
        if next(refusals, None) is not None:
            raise lmdb.Error(f"The environment {path!r} is already open in this process.")
        return opened(path, **options)

    monkeypatch.setattr(lmdb, "open", late)
    with chronicle.open(tmp_path / "store", durability="relaxed") as store:
        assert store.branch().append("note", 1).seq == 1


def test_a_writer_that_goes_on_for_long_notices_that_a_reader_died(opener: Opener, tmp_path: Path) -> None:
    store = opener()
    store.register_state("value", kind="value")
    reader = start(
        """
        store = chronicle.open(path, readonly=True)
        with store._engine.kv.read():
            print("reading", flush=True)
            sys.stdin.readline()
            os.kill(os.getpid(), 9)
        """,
        store.path,
    )
    assert hear(reader) == "reading"
    say(reader)
    rest(reader)
    store._engine.kv._cleared = time.monotonic() - 2  # what a second of work would bring
    view = store.branch().state("value")
    for n in range(50):
        view.set(n)
    before = os.stat(store.path).st_size
    for n in range(300):
        view.set(n)
    assert os.stat(store.path).st_size - before < 1 << 20


def test_a_file_that_others_write_to_is_not_taken_for_one_that_was_cut(tmp_path: Path) -> None:
    """An opening that looks at a file while it grows must not find it too short for its pages."""
    path = tmp_path / "store"
    with chronicle.open(path, durability="relaxed") as store:
        store.branch().append("note", "x" * 10_000)
    writer = start(
        """
        store = chronicle.open(path, durability="relaxed")
        print("ready", flush=True)
        for n in range(400):
            store.branch().append("note", "x" * 20_000)
        """,
        path,
    )
    assert hear(writer) == "ready"
    while writer.poll() is None:
        with chronicle.open(path, readonly=True) as store:
            assert store.branch().seq >= 1
    rest(writer)
    assert writer.returncode == 0


def test_a_payload_that_is_no_messagepack_is_damage_and_one_of_another_shape_is_named() -> None:
    from chronicle_py.event import bind, build_event, checked_event, event_type

    class Point(msgspec.Struct):
        x: int

    def event(payload: bytes) -> chronicle.Event:
        return checked_event(build_event("point", 1, b"", 1, None, 1, None, bytes(16), payload)[1], "here")

    with pytest.raises(CorruptStore, match="no MessagePack"):
        event(b"\xa1\xff").payload  # noqa: B018
    with pytest.raises(InvalidOperation, match="not what is registered for type 'point'"):
        bind(event(b"\x80"), {"point": event_type("point", Point)}).payload  # noqa: B018


def test_a_lineage_that_goes_on_from_a_newer_one_is_damage_and_no_endless_walk(store: Store) -> None:
    from chronicle_py.kv import LINEAGES

    store.branch().append("note", 1)
    key = records.pack_lineage(1)
    writer = store._engine.kv.write()
    writer.put(LINEAGES, key, records.seal(key, records.encode(records.Lineage(1, 5, 1, 5, 2))))
    writer.commit()
    store._engine.forget()
    with pytest.raises(CorruptStore, match="goes on from lineage 1, which is no older"):
        list(store.branch().events())


def test_a_zip_that_unpacks_to_too_much_or_whose_offsets_lie_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    data = next(seed for seed in seeds("import chatgpt") if seed.startswith(archive.MAGIC))
    end = data.rindex(b"PK\x05\x06")
    with pytest.raises(chronicle.ChronicleError, match="zip"):
        read_bytes("lies.zip", data[: end + 16] + b"\xff\xff\xff\x00" + data[end + 20 :])
    monkeypatch.setattr(archive, "LARGEST", 100)
    with pytest.raises(chronicle.ChronicleError, match="at most 100 are read"):
        read_bytes("bomb.zip", data)


def test_a_document_and_a_lineage_that_no_operation_makes_are_damage(store: Store) -> None:
    from chronicle_py import document

    with pytest.raises(CorruptStore, match="what no document can"):
        document.content(document.load(b"\x81\xa1a\x82\x01\x02\xa1b\x03", store._engine.objects))
    key = records.pack_lineage(7)
    deep = records.seal(key, records.encode((1, 5, 0, -1, (1 << 64) - 1)))
    with pytest.raises(CorruptStore, match="does not decode"):
        records.decode_lineage(key, deep, "a lineage")


def packed(*columns: object) -> bytes:
    return msgspec.msgpack.encode(columns)


LYING: dict[str, tuple[Callable[[], object], str]] = {
    "a blob without a media type": (lambda: blob(b"\x00data"), "has no media type"),
    "a blob that ends in its media type": (lambda: blob(b"\x09image"), "has no media type"),
    "a media type that is no ASCII": (lambda: blob(b"\x02\xff\xfedata"), "has no media type"),
    "a key that is no text": (lambda: entries.load_map_leaf(b"L" + packed([b"\xff"], 1)), "is no UTF-8"),
    "a position of another length": (lambda: records.unseal_position(b"k", records.seal(b"k", b"x"), "it"), "position"),
    "a lineage that no key has room for": (
        lambda: records.decode_ref(b"k", records.seal(b"k", packed(1 << 40, 1, b"", False, 0, None, 0)), "it"),
        "does not decode",
    ),
    "a child without entries": (lambda: nodes.load_row(b"I" + packed([0], bytes(32), [], [], [])), "without entries"),
    "references to nowhere": (lambda: runs.unpack_runs(packed(4, -5, 1)), "cannot be"),
    "a root of no levels": (lambda: List.decode(packed([], [], [[]], []), None)[0], "root of a collection"),
    "a remainder of another size": (
        lambda: List.decode(packed([0, 9], [], [[]], [[[1], bytes(32), [], [], []]]), None)[0],
        "the node above it says 9",
    ),
}


def blob(stored: bytes) -> object:
    whole = BLOB + stored
    return unpack_blob(blake3(whole).digest(), whole)


@pytest.mark.parametrize("name", LYING)
def test_bytes_that_decode_and_lie_are_damage(name: str) -> None:
    act, words = LYING[name]
    with pytest.raises(CorruptStore, match=words):
        act()


def test_a_slot_of_no_kind_or_with_a_beginning_of_another_is_damage(store: Store) -> None:
    store.register_state("tree", kind="tree")
    record = records.SlotRecord(0, "tree", "", 1, "", (), (), b"")
    for changed, words in (
        (("kind", "shrub"), "which there is not"),
        (("initial", b"\x93\x01\x02\x03"), "none of its kind"),
    ):
        stored = records.seal(b"tree", records.encode(msgspec.structs.replace(record, **dict([changed]))))
        writer = store._engine.kv.write()
        writer.put(SLOTS, b"tree", stored)
        writer.commit()
        store._engine.forget()
        with pytest.raises(CorruptStore, match=words):
            store.branch().state("tree")
