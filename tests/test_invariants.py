"""The invariants of the design, each by its number. Number 6 (a killed writer) is in test_crash.py, number 8 in full in
test_bad_input.py; the state machine of test_engine_machine.py mixes all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from conftest import Opener
from hypothesis import given
from hypothesis import strategies as st
from model import Happened, History, Spec, fold

import chronicle_py as chronicle
from chronicle_py import Branch, BranchExists, Event, InvalidName, InvalidOperation, NotFound, Store, reducer
from chronicle_py.kv import SPACE_NAMES
from chronicle_py.lmdb_kv import LmdbReader
from chronicle_py.records import BLOCK

encode = msgspec.msgpack.Encoder(order="sorted").encode

SPECS = (
    Spec("value", "value"),
    Spec("log", "append_log"),
    Spec("files", "tree"),
    Spec("doc", "document"),
    Spec("tally", "tally", types=("note",), sources=("log",)),
    Spec("heard", "append_log", types=("note",), sources=("log",)),
)


@reducer("tally", initial=lambda: {"n": 0, "by_type": {}, "recent": []})
def tally(state: dict[str, Any], event: Event) -> dict[str, Any]:
    count = state["by_type"].get(event.type, 0) + 1
    return {
        "n": state["n"] + 1,
        "by_type": {**state["by_type"], event.type: count},
        "recent": [*state["recent"], event.payload][-20:],
    }


def register(store: Store, *specs: Spec) -> None:
    for spec in specs:
        if spec.kind == "tally":
            store.register_state(spec.id, reducer=tally, types=spec.types, sources=spec.sources)
        else:
            store.register_state(spec.id, spec.kind, types=spec.types, sources=spec.sources)


def write(branch: Branch, history: History, n: int) -> None:
    """The n-th of a fixed mixture of all operations."""
    log = sum(1 for e in history if e.type == "state.append" and e.slot == "log")
    steps: list[Callable[[], tuple[Event, Any]]] = [
        lambda: (branch.state("log").append(n), n),
        lambda: (branch.append("note", {"n": n}), {"n": n}),
        lambda: (branch.state("files").put(f"d{n % 5}/f{n % 11}", n), {"path": f"d{n % 5}/f{n % 11}", "value": n}),
        lambda: (branch.state("log").append("same"), "same"),
        lambda: (branch.state("doc").patch({f"k{n % 9}": n}), {f"k{n % 9}": n}),
        lambda: (branch.state("value").set([n]), [n]),
        lambda: (branch.append("other", None), None),
    ]
    if log and n % 17 == 5:
        steps = [lambda: (branch.state("log").redact(0, 1), {"start": 0, "stop": 1})]
    elif log and n % 13 == 4 and len(branch.state("log")):
        last = len(branch.state("log")) - 1
        steps = [lambda: (branch.state("log").edit(-1, "edited"), {"index": last, "item": "edited"})]
    event, payload = steps[n % len(steps)]()
    history.append(Happened(event.id, event.type, event.slot, payload))


Plan = list[tuple[int, int, int]]
plans: st.SearchStrategy[Plan] = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 200), st.integers(0, 90)), min_size=1, max_size=5
)


def grow(store: Store, plan: Plan) -> dict[str, History]:
    """Branches of branches: each step forks an earlier one somewhere and appends to the fork."""
    grown: dict[str, History] = {"main": []}
    with store.transaction():
        for n in range(70):
            write(store.branch(), grown["main"], n)
    for number, (source, at, count) in enumerate(plan):
        parent = list(grown)[source % len(grown)]
        place = at % (len(grown[parent]) + 1)
        branch = store.branch(parent).fork(f"b{number}", place)
        grown[branch.name] = grown[parent][:place]
        with store.transaction():
            for n in range(count):
                write(branch, grown[branch.name], n + 3 * number)
    return grown


@pytest.fixture(scope="session")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Store]]:
    """Opens a new store for each example of a property."""
    opened: list[Store] = []

    def open_fresh() -> Store:
        while opened:
            opened.pop().close()
        folder = tmp_path_factory.mktemp("store")
        opened.append(chronicle.open(folder, durability="relaxed"))
        return opened[0]

    yield open_fresh
    for store in opened:
        store.close()


def matches(branch: Branch, spec: Spec, history: History, seq: int) -> bool:
    """Whether a slot's state at a sequence is the fold of the events up to there."""
    view, wanted = branch.state(spec.id, at=seq), fold(spec, history[:seq])
    if spec.kind == "append_log":
        return list(view) == [item.value for item in wanted]
    return bool((dict(view) if spec.kind == "tree" else view.get()) == wanted)


@given(plan=plans)
def test_1_sequences_have_no_holes_and_a_fork_shares_the_events_of_its_parent(
    plan: Plan, fresh: Callable[[], Store]
) -> None:
    store = fresh()
    register(store, *SPECS)
    for name, history in grow(store, plan).items():
        events = list(store.branch(name).events())
        assert [e.seq for e in events] == list(range(1, len(history) + 1))
        assert [e.id for e in events] == [e.id for e in history]
        assert all(e.parents == (p.id,) for p, e in pairwise(events))


def reads(store: Store, names: list[str]) -> dict[tuple[str, str, int], Any]:
    """What can be read of some branches, at every eleventh sequence."""
    found: dict[tuple[str, str, int], Any] = {}
    for name in names:
        branch = store.branch(name)
        found[name, "events", 0] = [e.id for e in branch.events()]
        found[name, "reflog", 0] = branch.reflog()
        for spec in SPECS:
            for seq in range(0, branch.seq + 1, 11):
                found[name, spec.id, seq] = branch.state(spec.id, at=seq).hash
    return found


@given(plan=plans, victim=st.integers(0, 9))
def test_2_nothing_done_on_one_branch_changes_a_read_on_another(
    plan: Plan, victim: int, fresh: Callable[[], Store]
) -> None:
    store = fresh()
    register(store, *SPECS)
    grown = grow(store, plan)
    busy = list(grown)[victim % len(grown)]
    others = [name for name in grown if name != busy]
    before = reads(store, others)
    branch = store.branch(busy)
    branch.state("log").set(["all", "new"])
    branch.state("doc").set({"all": "new"})
    branch.rewind(branch.seq // 2)
    for n in range(BLOCK + 3):
        branch.append("note", n)
    branch.fork("another").state("value").set("elsewhere")
    if busy != "main":
        store.delete_branch(busy)
    assert reads(store, others) == before
    with chronicle.open(store.path, durability="relaxed") as cold:
        register(cold, *SPECS)
        assert reads(cold, others) == before


@given(plan=plans, late=st.sets(st.sampled_from([s.id for s in SPECS if s.types or s.sources])), data=st.data())
def test_3_a_state_is_the_fold_of_the_events_whatever_was_checkpointed_or_registered_late(
    plan: Plan, late: set[str], data: st.DataObject, fresh: Callable[[], Store]
) -> None:
    store = fresh()
    register(store, *(spec for spec in SPECS if spec.id not in late))
    grown = grow(store, plan)
    register(store, *(spec for spec in SPECS if spec.id in late))
    places = [(name, seq) for name, history in grown.items() for seq in range(len(history) + 1)]
    for name, seq in data.draw(st.lists(st.sampled_from(places), max_size=25), "first"):
        for spec in SPECS:
            assert matches(store.branch(name), spec, grown[name], seq)
        write(store.branch("main"), grown["main"], seq)  # lets what was folded be written behind
    for name, seq in places[:: max(1, len(places) // 60)]:
        for spec in SPECS:
            assert matches(store.branch(name), spec, grown[name], seq)
    assert store.verify(deep=True).problems == []


def test_3_at_every_single_sequence(store: Store) -> None:
    register(store, *SPECS)
    grown = grow(store, [(0, 66, 70), (1, 64, 3), (2, 65, 130)])
    for name, history in grown.items():
        for seq in range(len(history) + 1):
            for spec in SPECS:
                assert matches(store.branch(name), spec, history, seq), (name, spec.id, seq)


@given(plan=plans)
def test_4_replay_gives_the_stored_hash(plan: Plan, fresh: Callable[[], Store]) -> None:
    store = fresh()
    register(store, *SPECS)
    for name, history in grow(store, plan).items():
        for spec in SPECS:
            replayed = store.branch(name).replay(spec.id)
            assert replayed.equal
            assert replayed.hash == store.branch(name).state(spec.id).hash
            assert replayed.events == len(history)


@given(items=st.lists(st.sampled_from(["a", "b", 1, 1.0, True, b"a", None]) | st.text(max_size=3), max_size=80))
def test_4_equal_content_has_equal_hashes_however_it_was_reached(items: list[Any], fresh: Callable[[], Store]) -> None:
    store = fresh()
    for id in ("one", "two"):
        store.register_state(id, kind="append_log")
        store.register_state(f"{id}/tree", kind="tree")
        store.register_state(f"{id}/doc", kind="document")
    main, orphan = store.branch(), store.orphan("elsewhere")
    for n, item in enumerate(items):
        main.state("one").append("to be edited")
        main.state("one").append("to be redacted")
        main.state("one").edit(-2, item)
        main.state("one").redact(n + 1, n + 2)
        main.state("one/tree").put(f"p{n:03}", item)
        main.state("one/doc").patch({f"p{n:03}": [item]})
    orphan.state("two").set(items)
    orphan.state("two/tree").batch([("put", f"p{n:03}", item) for n, item in reversed(list(enumerate(items)))])
    orphan.state("two/doc").set({f"p{n:03}": [item] for n, item in reversed(list(enumerate(items)))})
    for slot in ("", "/tree", "/doc"):
        first, second = main.state("one" + slot), orphan.state("two" + slot)
        assert first.hash == second.hash == orphan.replay("two" + slot).hash
    different = orphan.fork("different")
    different.state("two").append(None)
    assert different.state("two").hash != orphan.state("two").hash


@pytest.mark.parametrize("length", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK])
def test_5_after_set_nothing_older_comes_back(store: Store, main: Branch, length: int) -> None:
    register(store, *SPECS)
    with store.transaction():
        for n in range(length):
            write(main, [], n)
    old_value = "old, and must not return"
    main.state("log").append(old_value)
    main.state("files").put("old/file", old_value)
    main.state("doc").patch({"old": old_value})
    main.state("value").set(old_value)
    at = main.seq
    main.state("log").set(["new"])
    main.state("doc").set({"new": True})
    main.state("value").set("new")
    main.state("files").batch([("remove", path) for path in main.state("files")])
    for n in range(2 * BLOCK):
        main.append("other", n)
    fork = main.fork("fork", at + 4)
    fork.append("other", "its own lineage")
    with chronicle.open(store.path, durability="relaxed") as cold:
        for branch in (main, fork, cold.branch(), cold.branch("fork")):
            for state in (None, at + 4, at + 5, branch.seq):
                log = branch.state("log", at=state)
                assert list(log) == list(reversed(log)) == log[:] == log.tail(99) == log[-1:] == ["new"]
                assert (len(log), log[0], log.raw(), log.origin(0).seq) == (1, "new", [encode("new")], at + 1)
                with pytest.raises(IndexError):
                    log[1]
                assert branch.state("doc", at=state).get() == {"new": True}
                assert branch.state("value", at=state).get() == "new"
                files = branch.state("files", at=state)
                assert (dict(files), len(files), list(files), files.list("old")) == ({}, 0, [], [])
                assert "old/file" not in files
            for slot in ("log", "doc", "value", "files"):
                assert branch.replay(slot).equal
    assert main.state("log", at=at)[-1] == old_value


# --- 7 ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def complete(store: Store) -> Store:
    """A store with records in every keyspace."""
    register(store, *SPECS)
    blob = chronicle.BlobRef(store.put_blob(b"a picture", "image/png"))
    grow(store, [(0, 66, 70), (1, 80, 5), (0, 64, 1)])
    main = store.branch()
    first = main.append("note", {"image": blob})
    main.append("note", "caused", caused_by=[first])
    main.append("note", "linked", linked_to=[first])
    main.state("files").batch([("put", f"many/{n:04}", f"value {n}") for n in range(400)])
    with store.transaction():
        for n in range(2 * BLOCK):
            write(main, [], n)
    main.state("tally").get()
    main.rewind(main.seq - 3)
    assert store.verify(deep=True).problems == []
    return store


def shown(space: str, key: bytes) -> str:
    """How `verify` names a record."""
    if space in ("events", "blocks"):
        return f"{space} {int.from_bytes(key[:4], 'big')}/{int.from_bytes(key[4:], 'big')}"
    if space in ("ids", "causes"):
        return f"{space} {key.hex()[:12]}"
    if space == "objects":
        return f"{space} {key.hex()[:16]}"
    if space in ("lineages", "feed"):
        return f"{space} {int.from_bytes(key, 'big')}"
    if space == "reflog":
        return f"{space} {key[:-9].decode()!r}/{int.from_bytes(key[-8:], 'big')}"
    return f"{space} {key.decode()!r}"


def put_raw(store: Store, space: int, key: bytes, value: bytes) -> None:
    engine = store._engine
    writer = engine.kv.write()
    writer.put(space, key, value)
    writer.commit()
    engine.forget()


def pairs_of(store: Store, space: int) -> list[tuple[bytes, bytes]]:
    with store._engine.kv.read() as reader:
        return reader.scan(space, b"")


@pytest.mark.parametrize("space", range(len(SPACE_NAMES)), ids=SPACE_NAMES)
def test_7_any_flipped_byte_is_found_and_named(complete: Store, space: int) -> None:
    name = SPACE_NAMES[space]
    pairs = pairs_of(complete, space)
    assert pairs
    sample = pairs[:: max(1, len(pairs) // 12)]
    shortest = min(pairs, key=lambda pair: len(pair[1]))
    flips = [(key, value, n * (len(value) - 1) // 2) for key, value in sample for n in range(3)]
    flips += [(*shortest, at) for at in range(len(shortest[1]))]
    for key, value, at in flips:
        flipped = bytearray(value)
        flipped[at] ^= 1 << at % 8
        put_raw(complete, space, key, bytes(flipped))
        report = complete.verify()
        where = shown(name, key)
        assert not report.ok, f"byte {at} of {where}"
        assert [p for p in report.problems if p.where.startswith(where)], (at, where, report.problems)
        put_raw(complete, space, key, value)
    assert complete.verify(deep=True).problems == []


@pytest.mark.parametrize("space", range(len(SPACE_NAMES)), ids=SPACE_NAMES)
def test_7_a_missing_record_is_found(complete: Store, space: int) -> None:
    name = SPACE_NAMES[space]
    for key, value in pairs_of(complete, space)[:: max(1, len(pairs_of(complete, space)) // 6)]:
        if name in ("slots", "reflog") or (name in ("refs", "feed") and (key, value) == pairs_of(complete, space)[-1]):
            continue  # nothing else says that there must be one
        if name == "refs" and key != b"main":
            continue
        engine = complete._engine
        writer = engine.kv.write()
        writer.delete(space, key)
        writer.commit()
        engine.forget()
        report = complete.verify(deep=True)
        assert not report.ok, shown(name, key)
        put_raw(complete, space, key, value)
    assert complete.verify(deep=True).problems == []


@pytest.mark.parametrize("space", range(len(SPACE_NAMES)), ids=SPACE_NAMES)
def test_7_deep_verify_reports_damage_and_does_not_raise(complete: Store, space: int) -> None:
    for key, value in pairs_of(complete, space)[:4]:
        put_raw(complete, space, key, value[:-1] + bytes([value[-1] ^ 1]))
        assert not complete.verify(deep=True).ok
        put_raw(complete, space, key, value)


def test_7_a_swapped_record_is_found(complete: Store) -> None:
    """Two records that are each well-formed, under each other's keys."""
    for space, name in enumerate(SPACE_NAMES):
        (a, first), (b, second) = pairs_of(complete, space)[:2]
        put_raw(complete, space, a, second)
        put_raw(complete, space, b, first)
        assert not complete.verify().ok, name
        put_raw(complete, space, a, first)
        put_raw(complete, space, b, second)


def test_7_a_wrong_checkpoint_with_a_right_checksum_is_found_by_deep(complete: Store) -> None:
    from chronicle_py import records
    from chronicle_py.checkpoints import decode_directory
    from chronicle_py.kv import BLOCKS

    key, value = pairs_of(complete, BLOCKS)[0]
    directory = decode_directory(key, value, "it")
    number = complete._engine.slots.table(complete._engine.kv.read()).by_id["value"].number
    identity, root = directory.here[number]
    lie = msgspec.Raw(msgspec.msgpack.encode((1, 1)))
    assert bytes(root) != bytes(lie)
    changed = msgspec.structs.replace(directory, here={**directory.here, number: (identity, lie)})
    put_raw(complete, BLOCKS, key, records.seal(key, records.encode(changed)))
    assert complete.verify().ok
    assert [p.what for p in complete.verify(deep=True).problems] == [
        "its checkpoint of slot 'value' is not the fold of the events"
    ]


# --- 8, 9 -------------------------------------------------------------------------------------------------------------


def test_8_a_refused_call_says_why_and_leaves_the_store_unchanged(store: Store) -> None:
    register(store, *SPECS)
    grow(store, [(0, 30, 10)])
    before = reads(store, ["main", "b0"]), store.stats().events, store.branches()
    main = store.branch()
    calls: list[tuple[type[Exception], str, Callable[[], object]]] = [
        (InvalidName, "event type", lambda: main.append("", 1)),
        (InvalidOperation, "payload", lambda: main.append("note", object())),
        (BranchExists, "'b0'", lambda: main.fork("b0")),
        (NotFound, "sequences 0 to 70", lambda: main.fork("new", 71)),
        (NotFound, "sequences 0 to 70", lambda: main.rewind(71)),
        (IndexError, "there is no item 1000", lambda: main.state("log").edit(1000, "x")),
        (KeyError, "no such path", lambda: main.state("files").remove("not/there")),
        (NotFound, "not an array|there is no", lambda: main.state("doc").append(["none"], 1)),
        (InvalidOperation, "cannot be deleted", lambda: store.delete_branch("main")),
    ]
    for error, words, call in calls:
        with pytest.raises(error, match=words) as caught:
            call()
        assert isinstance(caught.value, chronicle.ChronicleError)
    assert (reads(store, ["main", "b0"]), store.stats().events, store.branches()) == before


@pytest.fixture
def touched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keyspaces read from, one entry a look-up and one for every value of a range."""
    log: list[str] = []
    get, take, scan = LmdbReader.get, LmdbReader.take, LmdbReader.scan

    def counted_get(self: LmdbReader, space: int, key: bytes) -> bytes | None:
        log.append(SPACE_NAMES[space])
        return get(self, space, key)

    def counted_take(self: LmdbReader, space: int, start: bytes, count: int, reverse: bool = False) -> list[bytes]:
        found = take(self, space, start, count, reverse)
        log.extend([SPACE_NAMES[space]] * len(found))
        return found

    def counted_scan(self: LmdbReader, space: int, start: bytes, *args: Any, **options: Any) -> Any:
        found = scan(self, space, start, *args, **options)
        log.extend([SPACE_NAMES[space]] * len(found))
        return found

    monkeypatch.setattr(LmdbReader, "get", counted_get)
    monkeypatch.setattr(LmdbReader, "take", counted_take)
    monkeypatch.setattr(LmdbReader, "scan", counted_scan)
    return log


def test_9_a_slot_set_once_is_read_with_as_many_look_ups_after_20000_events(opener: Opener, touched: list[str]) -> None:
    store = opener()
    register(store, *SPECS)
    main = store.branch()
    main.state("value").set("long ago")
    main.state("log").append("long ago")
    counts = []
    for _ in range(2):
        with store.transaction():
            for n in range(10_000 - main.seq % 10_000 + 20):
                main.append("other", n)
        store.close()
        store = opener()
        main = store.branch()
        for at in (None, main.seq - 10, main.seq // 2):
            for slot, wanted in (("value", "long ago"), ("log", ["long ago"])):
                store._engine.forget()
                touched.clear()
                view = main.state(slot, at=at)
                assert (view.get() if slot == "value" else list(view)) == wanted
                counts.append(len(touched))
    assert max(counts) <= 20 + BLOCK
    assert abs(max(counts[:6]) - max(counts[6:])) <= BLOCK // 2


def test_9_a_slot_set_once_is_read_through_2000_forks_of_one_event_each(opener: Opener, touched: list[str]) -> None:
    store = opener()
    register(store, *SPECS)
    branch = store.branch()
    branch.state("value").set("long ago")
    with store.transaction():
        for n in range(2000):
            branch = branch.fork(f"fork {n}")
            branch.append("other", n)
    for at, limit in ((None, 220), (1000, 220), (3, 90)):
        store._engine.forget()
        touched.clear()
        assert branch.state("value", at=at).get() == "long ago"
        assert len(touched) <= limit, at
        store._engine.forget()
        touched.clear()
        assert branch.event(2).payload == 0
        assert touched.count("lineages") <= 40
