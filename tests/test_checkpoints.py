"""Checkpoints: they spare work and never change a result. What is folded and read is counted, not timed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from conftest import Opener
from hypothesis import given
from hypothesis import strategies as st

import chronicle_py as chronicle
from chronicle_py import Branch, Event, List, Map, ReducerFailed, ReducerMissing, Store, reducer
from chronicle_py.checkpoints import Directory, decode_directory
from chronicle_py.kv import BLOCKS, EVENTS
from chronicle_py.lmdb_kv import LmdbReader
from chronicle_py.records import BLOCK
from chronicle_py.transaction import transaction


class Counting:
    """A reducer that counts its events, and how often it was asked to."""

    def __init__(self, version: int = 1, fingerprint: str = "") -> None:
        self.name = "counting"
        self.version = version
        self.fingerprint = fingerprint
        self.folded = 0

    def initial(self) -> int:
        return 0

    def fold(self, state: int, event: Event) -> int:
        self.folded += 1
        return state + self.version


def append(branch: Branch, count: int, type: str = "note") -> None:
    with transaction(branch.engine):
        for n in range(count):
            branch.append(type, n)


def directories(store: Store) -> list[Directory]:
    with store._engine.kv.read() as reader:
        return [decode_directory(key, value, "it") for key, value in reader.scan(BLOCKS, b"")]


# --- written behind ---------------------------------------------------------------------------------------------------


def test_an_append_runs_no_custom_reducer(store: Store, main: Branch) -> None:
    count = Counting()
    store.register_state("count", reducer=count, types=["note"])
    append(main, 5 * BLOCK)
    assert count.folded == 0
    assert main.state("count").get() == 5 * BLOCK == count.folded


def test_a_state_is_written_behind_and_the_next_process_goes_on_from_there(opener: Opener) -> None:
    store = opener()
    first = Counting()
    store.register_state("count", reducer=first, types=["note"])
    main = store.branch()
    append(main, 10 * BLOCK + 7)
    assert main.state("count").get() == first.folded == 10 * BLOCK + 7
    main.append("note", "the write that takes it along")
    store.close()

    store = opener()
    second = Counting()
    store.register_state("count", reducer=second, types=["note"])
    assert store.branch().state("count").get() == 10 * BLOCK + 8
    assert second.folded == 8
    append(store.branch(), 3 * BLOCK)
    assert store.branch().state("count").get() == 13 * BLOCK + 8
    assert second.folded == 3 * BLOCK + 8
    assert store.verify(deep=True).problems == []


def test_a_fork_goes_on_from_its_parents_state(opener: Opener) -> None:
    store = opener()
    store.register_state("count", reducer=Counting(), types=["note"])
    main = store.branch()
    append(main, 10 * BLOCK)
    main.state("count").get()
    fork = main.fork("fork")
    append(fork, 2 * BLOCK + 1)
    assert fork.state("count").get() == 12 * BLOCK + 1
    store.close()
    store = opener()
    count = Counting()
    store.register_state("count", reducer=count, types=["note"])
    assert store.branch("fork").state("count").get() == 12 * BLOCK + 1
    assert count.folded <= 2 * BLOCK + 1


def test_a_reader_alone_writes_nothing(opener: Opener) -> None:
    store = opener()
    store.register_state("count", reducer=Counting(), types=["note"])
    append(store.branch(), 4 * BLOCK)
    store.close()
    before = None
    for _ in range(2):
        store = opener(readonly=True)
        count = Counting()
        store.register_state("count", reducer=count, types=["note"])
        assert store.branch().state("count").get() == 4 * BLOCK == count.folded
        assert before in (None, store.stats())
        before = store.stats()
        store.close()


def test_states_written_behind_survive_only_with_their_transaction(store: Store, main: Branch) -> None:
    store.register_state("count", reducer=Counting(), types=["note"])
    append(main, 4 * BLOCK)
    main.state("count").get()
    before = directories(store)
    with pytest.raises(ZeroDivisionError), store.transaction():
        main.append("note", 1 / (main.append("note", 1).seq - 4 * BLOCK - 1))
    assert directories(store) == before
    assert main.state("count").get() == 4 * BLOCK
    main.append("note", 1)
    assert main.state("count").get() == 4 * BLOCK + 1
    assert store.verify(deep=True).problems == []


def test_another_identity_folds_anew_and_the_old_one_is_never_mistaken(opener: Opener) -> None:
    store = opener()
    main = store.branch()
    store.register_state("count", reducer=Counting(), types=["note"])
    append(main, 5 * BLOCK + 3)
    for version, fingerprint in ((1, ""), (2, ""), (2, "tuned"), (1, ""), (3, "")):
        count = Counting(version, fingerprint)
        store.register_state("count", reducer=count, types=["note"])
        for at in (3, BLOCK, 4 * BLOCK + 5, 5 * BLOCK + 3):
            assert main.state("count", at=at).get() == at * version
        assert main.replay("count").equal
        main.append("other", None)
        assert main.state("count").get() == (5 * BLOCK + 3) * version
        assert [s.version for s in store.slots()] == [version]
    assert store.verify(deep=True).problems == []


def test_the_declared_structs_are_part_of_the_identity(store: Store, main: Branch) -> None:
    class Old(msgspec.Struct):
        n: int = 1

    class New(msgspec.Struct):
        n: int = 2

    store.register_event("note", dict)
    main.append("note", {})
    for _ in range(BLOCK):
        main.append("other", None)
    for struct, wanted in ((Old, 1), (New, 2), (Old, 1)):
        total = reducer("total", initial=int, events={"note": struct})(lambda state, event: state + event.payload.n)
        store.register_state("total", reducer=total, types=["note"])
        assert main.state("total").get() == wanted
        main.append("other", None)


# --- reducers that misbehave ------------------------------------------------------------------------------------------


def test_a_missing_reducer_is_named_and_nothing_else_is_touched(opener: Opener) -> None:
    store = opener()
    store.register_state("count", reducer=Counting(), types=["note"])
    store.register_state("log", kind="append_log", types=["note"])
    append(store.branch(), BLOCK + 2)
    store.close()
    store = opener()
    main = store.branch()
    for call in (main.state("count").get, lambda: main.state("count", at=3), lambda: main.replay("count")):
        with pytest.raises(
            ReducerMissing, match="slot 'count' is folded by the reducer 'counting', which this process"
        ):
            call()
    append(main, BLOCK)
    assert len(main.state("log")) == 2 * BLOCK + 2
    report = store.verify(deep=True)
    assert (report.ok, report.skipped) == (True, ["count"])
    store.register_state("count", reducer=Counting(), types=["note"])
    assert main.state("count").get() == 2 * BLOCK + 2


@pytest.mark.parametrize("bad", [1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK])
def test_a_reducer_that_raises_fails_only_reads_of_its_slot(store: Store, main: Branch, bad: int) -> None:
    @reducer("picky", initial=list)
    def picky(state: list[int], event: Event) -> list[int]:
        if event.seq == bad:
            raise ZeroDivisionError("not this one")
        return [*state, event.seq]

    store.register_state("picky", reducer=picky, types=["note"])
    store.register_state("count", reducer=Counting(), types=["note"])
    store.register_state("log", kind="append_log", types=["note"])
    append(main, 3 * BLOCK + 5)
    bad_event = main.event(bad)
    for _ in range(2):
        for at in (bad, 3 * BLOCK + 5):
            words = rf"slot 'picky' raised ZeroDivisionError on event 'note' at sequence {bad} \({bad_event.id[:12]}"
            with pytest.raises(ReducerFailed, match=words):
                main.state("picky", at=at).get()
        assert main.state("picky", at=bad - 1).get() == list(range(1, bad))
        assert main.state("count").get() == len(main.state("log"))
        main.append("other", None)
    fork = main.fork("fork", bad - 1)
    fork.append("other", None)
    assert fork.state("picky").get() == list(range(1, bad))
    assert main.state("picky", at=bad - 1).get() == list(range(1, bad))


def test_a_state_that_cannot_be_stored_is_folded_at_every_read(store: Store, main: Branch) -> None:
    odd = reducer("odd", initial=lambda: {1j})(lambda state, event: {*state, event.seq * 1j})
    store.register_state("odd", reducer=odd, types=["note"])
    store.register_state("count", reducer=Counting(), types=["note"])
    append(main, 2 * BLOCK)
    for _ in range(2):
        assert len(main.state("odd").get()) == 2 * BLOCK
        assert main.state("count").get() == 2 * BLOCK
        main.append("other", None)
    with pytest.raises(ReducerFailed, match="has no stored form"):
        main.state("odd").hash  # noqa: B018
    assert main.head == main.event(2 * BLOCK + 2).id


class Basket(msgspec.Struct):
    items: list[Any]
    by_kind: dict[str, int]


@pytest.mark.parametrize("shared", [False, True], ids=["fresh initial", "one initial object"])
def test_a_reducer_that_changes_its_state_in_place_hurts_nobody(opener: Opener, shared: bool) -> None:
    start = Basket([], {})

    @reducer("mutating", initial=(lambda: start) if shared else (lambda: Basket([], {})), state_type=Basket)
    def mutating(state: Basket, event: Event) -> Basket:
        if event.payload == "fail":
            state.items.append("half done")
            raise ValueError("fail")
        state.items.append(event.payload)
        state.by_kind[event.type] = state.by_kind.get(event.type, 0) + 1
        return state

    store = opener()
    store.register_state("basket", reducer=mutating, types=["note"])
    main = store.branch()
    append(main, 3 * BLOCK + 5)
    forks = [main.fork(f"f{at}", at) for at in (0, 1, BLOCK, 2 * BLOCK + 9, 3 * BLOCK + 5)]
    fixed = {at: main.state("basket", at=at) for at in (1, BLOCK, BLOCK + 9, 3 * BLOCK, 3 * BLOCK + 5)}
    for fork in forks:
        for n in range(3):
            fork.append("note", [fork.name, n])
            assert len(fork.state("basket").get().items) == fork.seq
    main.append("note", "fail")
    for _ in range(3):
        with pytest.raises(ReducerFailed):
            main.state("basket").get()
    for at, view in fixed.items():
        view.get().items.append("the caller's own")
        assert view.get() == Basket(list(range(at)), {"note": at})
        assert main.state("basket", at=at).get() == view.get()
    assert [p.where for p in store.verify(deep=True).problems] == ["slots 'basket'"]  # it raises, that is all
    for fork in forks:
        shared_events = fork.seq - 3
        wanted = [*range(shared_events), *([fork.name, n] for n in range(3))]
        assert fork.state("basket").get().items == wanted
        assert fork.replay("basket").equal
    store.close()
    store = opener()
    store.register_state("basket", reducer=mutating, types=["note"])
    assert store.branch().state("basket", at=3 * BLOCK + 5).get().items == list(range(3 * BLOCK + 5))
    assert [p.where for p in store.verify(deep=True).problems] == ["slots 'basket'"]


class Chat(msgspec.Struct, frozen=True):
    messages: List[Any] = msgspec.field(default_factory=List)
    index: Map[Any] = msgspec.field(default_factory=Map)
    newest: int = 0


def test_collections_in_a_state_are_stored_by_what_changed(opener: Opener) -> None:
    @reducer("chat", initial=Chat)
    def chat(state: Chat, event: Event) -> Chat:
        key = f"k{event.payload % 500}"
        inner = state.index.get(key, List())
        return Chat(state.messages.append(event.payload), state.index.set(key, inner.append(event.seq)), event.seq)

    store = opener()
    store.register_state("chat", reducer=chat, types=["note"])
    main = store.branch()
    append(main, 3000)
    assert len(main.state("chat").get().messages) == 3000
    main.append("other", None)
    before = store.stats().objects
    for _ in range(3):
        append(main, BLOCK)
        assert main.state("chat").get().newest >= 3000
        main.append("other", None)
    assert 0 < store.stats().objects - before < 3 * 140
    store.close()
    store = opener()
    store.register_state("chat", reducer=chat, types=["note"])
    found = store.branch().state("chat").get()
    wanted = [*range(3000), *(n for _ in range(3) for n in range(BLOCK))]
    assert list(found.messages) == wanted
    assert sum(map(len, found.index.values())) == len(wanted)
    assert list(found.index["k7"])[:2] == [8, 508]
    assert store.branch().replay("chat").equal
    assert store.verify(deep=True).problems == []


# --- directories ------------------------------------------------------------------------------------------------------


def test_a_block_of_many_types_is_never_skipped(store: Store, main: Branch) -> None:
    for n in range(4 * BLOCK):
        main.append(f"type {n % 40}" if BLOCK <= n < 2 * BLOCK else "note", n)
    assert [d.types for d in directories(store)] == [["note"], None, ["note"], ["note"]]
    assert [e.payload for e in main.events(types=["type 7", "type 39"])] == [
        n for n in range(BLOCK, 2 * BLOCK) if n % 40 in (7, 39)
    ]
    assert list(main.events(types=["never"])) == []


def test_more_than_a_hundred_slots(opener: Opener) -> None:
    """Entries of slots not touched move to a map of their own."""
    store = opener()
    with store.transaction():
        for n in range(300):
            store.register_state(f"s{n}", kind="value" if n % 2 else "append_log")
    main = store.branch()
    wanted: dict[str, Any] = {}
    with store.transaction():
        for round in range(3):
            for n in range(round, 300, round + 1):
                if n % 2:
                    main.state(f"s{n}").set([round, n])
                    wanted[f"s{n}"] = [round, n]
                else:
                    main.state(f"s{n}").append(round)
                    wanted.setdefault(f"s{n}", []).append(round)
    assert any(d.more for d in directories(store))
    assert max(len(d.there) for d in directories(store)) <= 100
    main.state("s0").append("again")
    wanted["s0"].append("again")
    append(main, 3 * BLOCK, "other")
    fork = main.fork("fork", 200)
    append(fork, BLOCK, "other")
    before = {name: fork.state(name).hash for name in wanted}
    store.register_state("late", kind="append_log", types=["other"])
    store.close()
    store = opener()
    main, fork = store.branch(), store.branch("fork")
    for name, value in wanted.items():
        view = main.state(name)
        assert (view.get() if isinstance(view, chronicle.ValueView) else list(view)) == value, name
        assert fork.state(name).hash == before[name] == main.state(name, at=200).hash
    assert len(main.state("late")) == 3 * BLOCK
    assert main.state("s298").hash == main.replay("s298").hash
    append(main, BLOCK, "other")
    assert len(main.state("late")) == 4 * BLOCK
    assert store.verify(deep=True).problems == []


@pytest.fixture
def events_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many events each range read brought."""
    log: list[int] = []
    take = LmdbReader.take

    def counted(self: LmdbReader, space: int, start: bytes, count: int, reverse: bool = False) -> list[bytes]:
        found = take(self, space, start, count, reverse)
        if space == EVENTS:
            log.append(len(found))
        return found

    monkeypatch.setattr(LmdbReader, "take", counted)
    return log


def test_a_search_reads_only_blocks_that_may_match(store: Store, main: Branch, events_read: list[int]) -> None:
    store.register_state("log", kind="append_log")
    append(main, 20 * BLOCK)
    main.append("rare", 1)
    append(main, 20 * BLOCK)
    main.state("log").append("once")
    append(main, 20 * BLOCK + 5)
    searches: list[tuple[Callable[[], Any], list[int]]] = [
        (lambda: main.events(types=["rare"]), [20 * BLOCK + 1]),
        (lambda: main.events(types=["rare"], reverse=True), [20 * BLOCK + 1]),
        (lambda: main.events(slot="log"), [40 * BLOCK + 2]),
        (lambda: main.events(types=["never"]), []),
        (lambda: main.events(slot="log", types=["rare"]), []),
        (lambda: main.events(slot="log", types=["rare", "state.append"]), [40 * BLOCK + 2]),
    ]
    for search, wanted in searches:
        events_read.clear()
        assert [e.seq for e in search()] == wanted
        assert sum(events_read) <= 2 * BLOCK


def test_a_late_slot_reads_only_blocks_that_may_concern_it(store: Store, main: Branch, events_read: list[int]) -> None:
    append(main, 20 * BLOCK)
    main.append("rare", "found")
    append(main, 20 * BLOCK)
    store.register_state("rare", kind="append_log", types=["rare"])
    events_read.clear()
    assert list(main.state("rare")) == ["found"]
    assert sum(events_read) <= 2 * BLOCK + 2


@given(
    counts=st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(1, 90)), min_size=1, max_size=6),
    types=st.sets(st.sampled_from(["a", "b", "c", "state.append"])) | st.none(),
    slot=st.sampled_from([None, "log", "count"]),
    bounds=st.tuples(st.integers(0, 400), st.integers(0, 400)),
    reverse=st.booleans(),
)
def test_searching_equals_the_naive_filter(
    counts: list[tuple[str, int]],
    types: set[str] | None,
    slot: str | None,
    bounds: tuple[int, int],
    reverse: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with chronicle.open(tmp_path_factory.mktemp("search"), durability="relaxed") as store:
        store.register_state("log", kind="append_log")
        store.register_state("count", reducer=Counting())
        branch = store.branch()
        with store.transaction():
            for number, (type, count) in enumerate(counts):
                for n in range(count):
                    if type == "c":
                        branch.state("log").append(n)
                    else:
                        branch.append(type, n, slot="count" if n % 50 == 49 else None)
                branch = branch.fork(f"f{number}", max(0, branch.seq - number))
        every = list(branch.events())
        wanted = [
            e.id
            for e in every
            if bounds[0] <= e.seq <= bounds[1] and (types is None or e.type in types) and slot in (None, e.slot)
        ]
        found = [e.id for e in branch.events(*bounds, types, slot, reverse)]
        assert found == (wanted[::-1] if reverse else wanted)
        assert [e.id for e in branch.events(*bounds, types, slot, reverse, 3)] == found[:3]
