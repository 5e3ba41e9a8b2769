"""`store.gc`: what it takes, what it leaves, and what it says of both."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from conftest import Clock, Opener

import chronicle_py as chronicle
from chronicle_py import BlobRef, Branch, CorruptStore, Event, InvalidOperation, Map, NotFound, ReadOnly, Store, reducer
from chronicle_py.branches import read_ref
from chronicle_py.kv import FEED, META, OBJECTS
from chronicle_py.nodes import address_of
from chronicle_py.records import BLOCK, META_EPOCH, FeedRecord, decode_feed
from chronicle_py.sweeping import sweep_objects
from chronicle_py.transaction import transaction


def append(branch: Branch, count: int, type: str = "note") -> list[Event]:
    with transaction(branch.engine):
        return [branch.append(type, n) for n in range(count)]


def feed(store: Store) -> list[tuple[int, FeedRecord]]:
    with store._engine.read() as reader:
        return [(int.from_bytes(k, "big"), decode_feed(k, v, "it")) for k, v in reader.scan(FEED, b"")]


def epoch(store: Store) -> bytes:
    with store._engine.read() as reader:
        return reader.get(META, META_EPOCH) or b""


def sound(store: Store) -> bool:
    report = store.verify(deep=True)
    assert report.ok, report.problems
    return True


def test_nothing_goes_that_a_branch_or_a_reflog_entry_names(store: Store, main: Branch) -> None:
    events = append(main, 100)
    other = main.fork("other", at=70)
    tail = append(other, 30)
    main.rewind(10)
    append(main, 5)
    store.delete_branch("other")
    before = epoch(store)
    report = store.gc()
    assert (report.events, report.lineages, report.reflog, report.nodes, report.bytes) == (0, 0, 0, 0, 0)
    assert epoch(store) == before  # nobody has to forget anything
    assert store.restore_branch("other").head == tail[-1].id
    main.rewind(events[-1].id)
    assert main.seq == 100
    assert sound(store)


def test_a_deleted_branch_goes_with_its_reflog(store: Store, main: Branch) -> None:
    append(main, 100)
    other = main.fork("other", at=70)
    gone = append(other, 200)
    store.delete_branch("other")
    report = store.gc(expire_reflog=0)
    assert (report.lineages, report.events, report.ids, report.directories) == (1, 200, 200, 270 // BLOCK - 70 // BLOCK)
    assert report.reflog == 3  # main's creation, the fork, the deletion
    assert report.bytes > report.event_bytes > 200 * 100
    with pytest.raises(NotFound, match="no branch 'other' was deleted, or so long ago that its reflog has expired"):
        store.restore_branch("other")
    with pytest.raises(NotFound):
        store.event(gone[0].id)
    assert main.reflog() == []
    assert store.stats().events == 100
    assert sound(store)


def test_a_lineage_is_kept_as_far_as_something_stands_on_it(store: Store, main: Branch) -> None:
    append(main, 3 * BLOCK)
    child = main.fork("child", at=BLOCK + 10)
    append(child, 5)
    main.rewind(BLOCK + 2)
    report = store.gc(expire_reflog=0)
    assert (report.lineages, report.events, report.directories) == (0, 2 * BLOCK - 10, 2)
    assert (main.seq, child.seq) == (BLOCK + 2, BLOCK + 15)
    assert [e.payload for e in child.events()] == [*range(BLOCK + 10), *range(5)]
    append(main, 2 * BLOCK)
    append(child, 2 * BLOCK)
    assert sound(store)


def test_an_expired_head_cannot_be_rewound_to(store: Store, main: Branch) -> None:
    events = append(main, 20)
    main.rewind(10)
    branch_head = events[-1].id
    store.gc(expire_reflog=0)
    with pytest.raises(NotFound, match="no event has an id"):
        main.rewind(branch_head)


def test_reflog_entries_expire_by_age_oldest_first(opener: Opener) -> None:
    clock = Clock(0)
    store = opener(clock=clock)
    main = store.branch()
    append(main, 30)
    for at, seq in ((1_000, 20), (2_000, 15), (3_000, 10)):
        clock.now = at
        main.rewind(seq)
    clock.now = 500  # a clock that was set back: its entry waits for the older ones
    main.rewind(5)
    clock.now = 4_000
    report = store.gc(expire_reflog=timedelta(microseconds=2_500))
    assert [move.number for move in main.reflog()] == [3, 4, 5]
    assert (report.reflog, report.events) == (2, 30 - 20)
    assert store.gc(expire_reflog=1_500).reflog == 1
    assert store.gc(expire_reflog=500).reflog == 2
    assert main.seq == 5
    assert store.stats().events == 5
    assert sound(store)


def test_branches_go_by_pattern_and_age(opener: Opener) -> None:
    clock = Clock(0)
    store = opener(clock=clock)
    main = store.branch()
    append(main, 10)
    old, new = main.fork("try/1"), main.fork("try/2")
    keep = main.fork("keep")
    append(old, 1)
    append(keep, 1)
    clock.now = 1_000_000
    append(new, 1)
    rehearsed = store.gc(branches="try/*", older_than=500_000, dry_run=True)
    assert rehearsed.branches == ("try/1",)
    assert [b.name for b in store.branches()] == ["main", "keep", "try/1", "try/2"]
    report = store.gc(branches="try/*", older_than=500_000)
    assert report.branches == ("try/1",)
    assert report.events == 0  # its reflog still has the head
    assert store.gc(branches="*").branches == ("keep", "try/2")  # never main
    assert store.restore_branch("try/1").seq == 11
    assert sound(store)


def test_lineage_numbers_are_not_given_twice(store: Store, main: Branch) -> None:
    append(main, 3)
    append(main.fork("a"), 3)
    store.gc(branches="a", expire_reflog=0)
    assert store.stats().lineages == 2  # the number 2 stays taken
    append(main.fork("b"), 3)
    with store._engine.read() as reader:
        assert read_ref(reader, "b").lineage == 3
    assert store.gc(expire_reflog=0).lineages == 0
    assert store.stats().lineages == 2
    assert sound(store)


def test_what_the_feed_says_of_what_went(store: Store, main: Branch) -> None:
    append(main, 3)  # 1 create, 2 run
    a = main.fork("a")  # 3
    append(a, 4)  # 4 run
    append(main, 2)  # 5 run
    b = main.fork("b")  # 6
    append(b, 2)  # 7 run
    main.rewind(4)  # 8
    store.delete_branch("a")  # 9
    store.delete_branch("b")  # 10
    report = store.gc(expire_reflog=0)
    found = [(n, r.kind, r.branch, r.lineage, r.start, r.stop_before) for n, r in feed(store)]
    assert found == [
        (1, "create", "main", 0, 0, 0),
        (2, "run", "main", 1, 1, 0),
        (3, "gone", "", 0, 0, 3),
        (5, "run", "main", 1, 4, 7),  # says where the run before ended, which is gone
        (6, "gone", "", 0, 0, 5),  # the run before ended at 5, though only 4 is left
        (8, "rewind", "main", 0, 0, 7),
        (9, "gone", "", 0, 0, 0),
        (10, "gone", "", 0, 0, 0),  # keeps its number from being given again
    ]
    assert report.feed == 6
    assert store.gc(expire_reflog=0).feed == 0
    append(main, 1)
    assert [(n, r.kind) for n, r in feed(store)][-2:] == [(10, "gone"), (11, "run")]
    assert store.gc(expire_reflog=0).feed == 0
    assert [n for n, _ in feed(store)] == [1, 2, 3, 5, 6, 8, 9, 11]
    assert sound(store)


def test_a_branch_that_others_stand_on_keeps_its_story(store: Store, main: Branch) -> None:
    a = main.fork("a")
    append(a, 10)
    append(a.fork("b", at=6), 1)
    store.gc(branches="a", expire_reflog=0)
    kinds = [(r.kind, r.branch) for _, r in feed(store)]
    assert kinds == [("create", "main"), ("fork", "a"), ("run", "a"), ("fork", "b"), ("run", "b"), ("delete", "a")]
    followed = [(type(item).__name__, getattr(item, "events", None)) for item in store.follow(live=False)]
    assert followed.count(("Followed", None)) == 7
    assert ("Gone", 4) in followed
    assert [e.seq for e in store.branch("b").events()] == [*range(1, 8)]
    assert sound(store)


def test_causes_and_blobs_go_with_the_events_that_named_them(store: Store, main: Branch) -> None:
    cause = main.append("cause", None)
    shared, own, unused = (store.put_blob(data) for data in (b"shared", b"own", b"unused"))
    main.append("picture", BlobRef(shared))
    other = main.fork("other")
    other.append("effect", [BlobRef(shared), BlobRef(own)], caused_by=[cause.id], linked_to=[cause.id])
    effect = main.append("effect", 1, caused_by=[cause.id])
    report = store.gc(branches="other", expire_reflog=0)
    assert (report.causes, report.blobs) == (2, 1)
    assert report.blob_bytes == 32 + len(b"\x04\x18application/octet-stream") + 3
    assert store.effects(cause.id) == [effect]
    assert store.links(cause.id) == []
    assert store.get_blob(shared).data == b"shared"
    assert store.get_blob(unused).data == b"unused"  # nobody can say for whom it waits
    with pytest.raises(NotFound):
        store.get_blob(own)
    assert store.gc(unused_blobs=True, dry_run=True).blobs == 1
    assert store.gc(unused_blobs=True).blobs == 1
    assert store.get_blob(shared).data == b"shared"
    assert sound(store)


def test_blobs_of_initial_values_and_states_stay(store: Store, main: Branch) -> None:
    initial, named = store.put_blob(b"initial"), store.put_blob(b"named")
    store.register_state("value", kind="value", initial={"icon": BlobRef(initial)})

    @reducer("pictures", initial=list)
    def pictures(state: list[Any], event: Event) -> list[Any]:
        return [BlobRef(event.payload)]

    store.register_state("pictures", reducer=pictures, types=["named"])
    with store.transaction():
        for _ in range(2 * BLOCK):
            main.append("named", named)  # as a plain text: only the state refers to the blob
    assert main.state("pictures").get() == [BlobRef(named)]
    main.append("note", 1)  # writes the state behind
    report = store.gc(unused_blobs=True)
    assert report.blobs == 0
    assert store.get_blob(main.state("value").get()["icon"].hash).data == b"initial"


def test_events_that_lie_in_two_lineages_stay_found(opener: Opener) -> None:
    """Two branches that did the same at the same time with the same salt have the same events."""
    store = opener(clock=lambda: 7, entropy=lambda size: bytes(size))
    main = store.branch()
    append(main, 5)
    branches = [main.fork(name) for name in "abc"]
    for branch in branches:
        events = append(branch, 10)
    append(branches[0], 1, "alone")
    assert store.stats().events == 36
    report = store.gc(branches="a", expire_reflog=0, dry_run=True)
    assert (report.events, report.ids) == (11, 1)
    assert told(store.gc(branches="a", expire_reflog=0)) == told(report)
    assert [store.event(e.id).seq for e in events] == [*range(6, 16)]
    assert sound(store)
    store.gc(branches="b", expire_reflog=0)
    assert store.event(events[3].id).seq == 9
    assert sound(store)
    assert store.gc(branches="c", expire_reflog=0).ids == 10
    assert sound(store)


def told(report: Any) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.structs.asdict(report)
    del found["dry_run"]
    return found


def counter(version: int) -> Any:
    @reducer("count", initial=lambda: Map(), version=version)
    def count(state: Map[Any], event: Event) -> Map[Any]:
        return state.set(f"{event.seq:05}", [version, "x" * 100])

    return count


def test_states_of_an_identity_that_was_superseded_go(opener: Opener) -> None:
    store, other = opener(), opener()
    main = store.branch()
    store.register_state("count", reducer=counter(1), types=["note"])
    append(main, 10 * BLOCK)
    first = main.state("count").hash
    append(main, 1)  # enters the state
    other.register_state("count", reducer=counter(1), types=["note"])
    assert len(other.branch().state("count").get()) == 10 * BLOCK + 1
    store.register_state("count", reducer=counter(2), types=["note"])
    assert main.state("count", at=10 * BLOCK).hash != first
    append(main, 1)
    assert store.gc(dry_run=True).nodes > 10
    assert store.gc().nodes > 10
    assert store.gc().nodes == 0
    # The other one forgets what it knew, and can write the states that are gone anew.
    other.branch().append("note", 1)
    assert other.branch().state("count", at=10 * BLOCK).hash == first
    append(other.branch(), 1)
    assert sound(other)
    assert sound(store)


def test_states_that_were_read_from_an_older_snapshot_are_not_written_behind(opener: Opener) -> None:
    """A reader that began before the collection must not leave what it read to those who come after it."""
    store, other = opener(), opener()
    main = store.branch()
    store.register_state("count", reducer=counter(1), types=["note"])
    append(main, 10 * BLOCK)
    assert len(main.state("count").get()) == 10 * BLOCK
    append(main, 1)
    other.register_state("count", reducer=counter(1), types=["note"])
    engine = other._engine
    with engine.read() as old:
        slot = engine.slots.table(old).get("count")
        store.register_state("count", reducer=counter(2), types=["note"])
        assert len(main.state("count").get()) == 10 * BLOCK + 1
        append(main, 1)
        assert store.gc().nodes > 0
        assert other.branch().seq == 10 * BLOCK + 2  # has noticed
        assert len(engine.checkpoints.state(old, 1, 10 * BLOCK, slot)) == 10 * BLOCK
    other.register_state("count", reducer=counter(1), types=["note"])
    append(main, BLOCK)
    assert len(other.branch().state("count").get()) == 11 * BLOCK + 2
    append(other.branch(), 1)
    assert sound(other)


def test_one_engine_forgets_too(store: Store, main: Branch) -> None:
    store.register_state("log", kind="append_log")
    other = main.fork("other")
    for i in range(3 * BLOCK):
        other.state("log").append(i)
    view = other.state("log")
    assert view[-1] == 3 * BLOCK - 1
    fixed = other.state("log", at=BLOCK)
    store.gc(branches="other", expire_reflog=0)
    with pytest.raises(NotFound):
        view[-1]
    with pytest.raises(CorruptStore):
        fixed.origin(0)


def test_gc_refuses_what_makes_no_sense(store: Store, opener: Opener) -> None:
    for options, match in (
        ({"dry_run": 1}, "dry_run=.* is True or False"),
        ({"unused_blobs": "yes"}, "unused_blobs=.* is True or False"),
        ({"expire_reflog": -1}, "expire_reflog=.* is an age"),
        ({"expire_reflog": True}, "is an age"),
        ({"expire_reflog": timedelta(days=-1)}, "is an age"),
        ({"branches": "*", "older_than": 1.5}, "older_than=.* is an age"),
        ({"older_than": 1}, "give a pattern too"),
        ({"progress": 3}, "is a function"),
    ):
        with pytest.raises(InvalidOperation, match=match):
            store.gc(**options)
    with pytest.raises(chronicle.InvalidName):
        store.gc(branches="")
    with pytest.raises(InvalidOperation, match="leave the open one first"), store.transaction():
        store.gc()
    store.close()
    reading = opener(readonly=True)
    assert reading.gc(dry_run=True).events == 0
    with pytest.raises(ReadOnly):
        reading.gc()


def test_a_damaged_tree_keeps_everything(store: Store, main: Branch) -> None:
    store.register_state("files", kind="tree")
    with store.transaction():
        for i in range(4 * BLOCK):
            main.state("files").put(f"f{i:04}", "x" * 100)
    with transaction(store._engine) as tx:
        key, value = tx.writer.scan(OBJECTS, b"", limit=1)[0]
        tx.writer.put(OBJECTS, key, b"\x03?" + value[2:])
        tx.changes += 1
    objects = store.stats().objects
    with pytest.raises(CorruptStore, match="nothing was removed"):
        store.gc(expire_reflog=0)
    assert store.stats().objects == objects
    assert main.reflog() != []


def test_sweeping_alone(store: Store, main: Branch) -> None:
    """What others need who take something out of states: the objects go that nothing refers to."""
    blob = bytes.fromhex(store.put_blob(b"to be gone"))
    node = b"R\x90"
    with transaction(store._engine) as tx:
        store._engine.objects.store(address_of(node), node)
        tx.changes += 1
        tx.written_behind = False
        swept = sweep_objects(tx, blobs={blob})
        store._engine.raise_epoch_for_all(tx)
    assert swept == (1, 1, 32 + 3, 32 + len(b"\x04\x18application/octet-stream") + 10)
    assert store.stats().objects == 0


def test_progress_reaches_its_end(store: Store, main: Branch) -> None:
    store.register_state("log", kind="append_log")
    with store.transaction():
        for i in range(1000):
            main.state("log").append(str(i) * 10)
    told: list[tuple[int, int]] = []
    store.gc(progress=lambda done, total: told.append((done, total)))
    assert told[-1][0] == told[-1][1] > 0


def test_what_was_appended_after_is_packed_as_densely(store: Store, main: Branch, tmp_path: Path) -> None:
    """The highest lineage number is taken, but its events are gone: those of another come last and fill their pages."""
    append(main, 10)
    append(main.fork("a"), 10)
    store.gc(branches="a", expire_reflog=0)
    append(main, 5_000)
    used = store.stats().keyspaces["events"]
    assert used["bytes"] / used["entries"] < 160


def test_the_states_of_indexes_stay(store: Store, main: Branch) -> None:
    store.register_state("log", kind="append_log")
    store.register_index("log", "n")
    other = main.fork("other")
    for branch in (main, other):
        with store.transaction():
            for n in range(20 * BLOCK):
                branch.state("log").append({"n": f"{branch.name} {n % 300}"})
    report = store.gc(branches="other", expire_reflog=0)
    assert report.nodes > 0
    assert store.gc(dry_run=True).nodes == 0
    assert main.state("log").where("n").count("main 7") == 5
    assert main.state("log", at=300).where("n").count("main 7") == 1
    assert sound(store)
