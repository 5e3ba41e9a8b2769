"""Erasing: the payload is gone from the file, what was made of it is folded anew, and the chain of ids still holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from conftest import Opener

import chronicle_py as chronicle
from chronicle_py import (
    BlobRef,
    Branch,
    Erased,
    Event,
    Followed,
    InvalidName,
    InvalidOperation,
    List,
    NotFound,
    ReadOnly,
    ReducerFailed,
    Store,
    reducer,
)
from chronicle_py.event import decode_event, event_id
from chronicle_py.kv import EVENTS
from chronicle_py.records import BLOCK, pack_position
from chronicle_py.transaction import transaction

SECRET = "Ottilie Quandt, Mondstr. 7"
WHY = "asked for on May 3rd"


class Collected(msgspec.Struct, frozen=True):
    """A custom state that holds all payloads."""

    seen: List[Any] = msgspec.field(default_factory=List[Any])


@reducer("collect", initial=Collected)
def collect(state: Collected, event: Event) -> Collected:
    return Collected(state.seen.append(event.payload))


def secret(size: int = 0) -> dict[str, Any]:
    return {"text": SECRET + "." * size}


def holds(store: Store, *texts: str) -> bool:
    """Whether the compacted file holds one of these texts."""
    store.compact()
    data = Path(store.path).read_bytes()
    return any(text.encode() in data for text in texts)


def sound(store: Store) -> bool:
    report = store.verify(deep=True)
    assert report.ok, report.problems
    return True


def filled(branch: Branch, count: int, slot: str = "log") -> None:
    with transaction(branch.engine):
        view = branch.state(slot)
        for n in range(count):
            view.append(n)


def test_the_payload_is_gone_and_the_rest_of_the_event_stays(store: Store, main: Branch) -> None:
    first = main.append("note", {"n": 1})
    event = main.append("note", secret(), caused_by=(first.id,))
    after = main.append("note", {"n": 3})
    assert holds(store, SECRET)
    report = store.erase(event.id, WHY)
    assert (report.events, report.places) == ((event.id,), 1)
    assert not holds(store, SECRET)
    found = store.event(event.id)
    assert found.erased == found.payload
    assert found.erased is not None
    assert (found.erased.reason, found.erased.time > event.time) == (WHY, True)
    assert (found.id, found.seq, found.type, found.time, found.parents, found.caused_by) == (
        event.id, 2, "note", event.time, (first.id,), (first.id,),
    )  # fmt: skip
    assert first.erased is None
    assert main.event(3).parents == (event.id,) == (main.event(2).id,)
    assert main.head == after.id
    assert [e.id for e in store.effects(first)] == [event.id]
    assert sound(store)


@pytest.mark.parametrize("size", [0, 200, 5_000, 50_000])
@pytest.mark.parametrize("kind", ["append_log", "value", "tree", "document", "custom"])
def test_no_kind_of_slot_keeps_the_payload(store: Store, main: Branch, kind: str, size: int) -> None:
    if kind == "custom":
        store.register_state("s", reducer=collect)
    else:
        store.register_state("s", kind=kind)
    store.register_state("log", kind="append_log")
    filled(main, 10)
    if kind == "custom":
        event = main.append("note", secret(size), slot="s")
    else:
        view = main.state("s")
        event = {
            "append_log": lambda: view.append(secret(size)),
            "value": lambda: view.set(secret(size)),
            "tree": lambda: view.put("people/o", secret(size)),
            "document": lambda: view.patch({"people": secret(size)}),
        }[kind]()
    filled(main, 3 * BLOCK)
    other = main.fork("other", at=event.seq + 5)
    filled(other, 2 * BLOCK)
    for branch in (main, other):  # the custom one is written behind
        branch.state("s").hash  # noqa: B018
        branch.append("note", 1)
    assert holds(store, SECRET)
    store.erase(event.id, WHY)
    assert not holds(store, SECRET)
    for branch in (main, other):
        state = branch.state("s")
        seen = {
            "append_log": lambda s=state: s[0],
            "value": state.get if kind == "value" else None,
            "tree": lambda s=state: len(s),
            "document": state.get if kind == "document" else None,
            "custom": (lambda s=state: s.get().seen[0]) if kind == "custom" else None,
        }[kind]()  # type: ignore[misc]
        assert seen == {"tree": 0, "document": {}}.get(kind, store.event(event.id).payload)
        assert branch.replay("s").equal
    assert sound(store)
    assert not holds(store, SECRET)


def test_a_list_keeps_its_places(store: Store, main: Branch) -> None:
    store.register_state("log", kind="append_log")
    log = main.state("log")
    start = log.set(["a", SECRET, "c"])
    appended = log.append("d")
    edit = log.edit(0, "A")
    cut = log.redact(1, 2)
    log.edit(2, "D")
    assert list(log) == ["A", "c", "D"]
    gone = Erased(WHY, 0)
    for event, expected in (
        (edit, [gone, "c", "D"]), (start, [gone, gone, "D"]), (cut, [gone, gone, "D"]), (appended, [gone, gone, "D"]),
    ):  # fmt: skip
        store.erase(event.id, WHY)
        assert [Erased(WHY, 0) if isinstance(item, Erased) else item for item in log] == expected
        assert main.replay("log").equal
    log.edit(0, "again")
    assert log[0] == "again"
    assert list(main.state("log", at=1)) == [store.event(start.id).payload] * 3
    assert log.origin(1) == start
    assert log.edited(2) is not None
    assert sound(store)


def test_what_a_log_holds_cannot_be_put_back_as_an_item(store: Store, main: Branch) -> None:
    store.register_state("log", kind="append_log")
    log = main.state("log")
    store.erase(log.append(SECRET).id, WHY)
    with pytest.raises(InvalidOperation, match="is what is left of an erased payload"):
        log.append(log[0])
    with pytest.raises(InvalidOperation):
        main.append("note", msgspec.msgpack.Ext(4, b"\x92\xa1x\x01"))


def test_operations_on_trees_and_documents_are_as_if_they_had_not_been(store: Store, main: Branch) -> None:
    store.register_state("files", kind="tree")
    store.register_state("doc", kind="document")
    files, doc = main.state("files"), main.state("doc")
    files.put("a", 1)
    second = files.put("a", 2)
    removal = files.remove("a")
    doc.set({"x": [1]})
    patch = doc.patch({"x": None})
    store.erase([second, removal, patch.id], WHY)
    assert dict(files) == {"a": 1}
    assert doc.get() == {"x": [1]}
    assert [c.op for c in main.diff("files", 0, main)] == ["add"]
    assert sound(store)


def test_all_branches_that_inherit_it_lose_it(store: Store, main: Branch) -> None:
    store.register_state("log", kind="append_log")
    filled(main, 2 * BLOCK)
    event = main.state("log").append(SECRET)
    filled(main, BLOCK)
    before = main.fork("before", at=2 * BLOCK)
    filled(before, 2 * BLOCK)
    after = main.fork("after", at=2 * BLOCK + 10)
    filled(after, BLOCK)
    deeper = after.fork("deeper", at=3 * BLOCK + 1)
    filled(deeper, 2 * BLOCK)
    main.rewind(BLOCK)
    hashes = before.state("log").hash
    report = store.erase(event.id, WHY)
    assert report.places == 1
    for branch in (after, deeper):
        assert isinstance(branch.state("log")[2 * BLOCK], Erased)
        assert branch.replay("log").equal
    assert before.state("log").hash == hashes
    main.rewind(event.id)
    assert isinstance(main.state("log")[-1], Erased)
    assert sound(store)
    assert not holds(store, SECRET)


def test_the_same_event_is_erased_at_all_places_where_it_lies(opener: Opener, tmp_path: Path) -> None:
    class Same:
        def __call__(self, size: int) -> bytes:
            return bytes(size)

    store = opener(tmp_path / "same", clock=lambda: 5, entropy=Same())
    main = store.branch()
    first = main.append("note", "x")
    other = main.fork("other")
    one, two = main.append("note", SECRET), other.append("note", SECRET)
    assert one.id == two.id != first.id
    assert store.erase(one.id, WHY).places == 2
    assert other.event(2).erased == main.event(2).erased is not None
    assert sound(store)
    assert not holds(store, SECRET)


def test_blobs_go_that_nothing_else_refers_to(store: Store, main: Branch) -> None:
    own = store.put_blob(SECRET.encode(), "text/plain")
    shared = store.put_blob(b"shared", "text/plain")
    unused = store.put_blob(b"for an event to come", "text/plain")
    event = main.append("note", [BlobRef(own), BlobRef(shared)])
    other = main.append("note", BlobRef(shared))
    assert store.erase(event.id, WHY).blobs == 1
    with pytest.raises(NotFound):
        store.get_blob(own)
    assert store.get_blob(shared).data == b"shared"
    assert store.get_blob(unused).data
    assert main.event(1).blobs == (own, shared)
    assert sound(store)
    assert store.erase(other.id, WHY).blobs == 1
    assert sound(store)
    assert not holds(store, SECRET)


def test_custom_reducers_see_that_an_event_was_erased(store: Store, main: Branch) -> None:
    class Note(msgspec.Struct):
        text: str

    @reducer("strict", initial=int, events={"note": Note})
    def strict(state: int, event: Event) -> int:
        return state if event.erased else state + len(event.payload.text)

    @reducer("careless", initial=int, events={"note": Note})
    def careless(state: int, event: Event) -> int:
        return state + len(event.payload.text)

    store.register_event("note", Note)
    store.register_state("strict", reducer=strict, types=["note"])
    store.register_state("careless", reducer=careless, types=["note"])
    event = main.append("note", Note("abc"))
    main.append("note", Note("de"))
    store.erase(event, WHY)
    assert isinstance(main.event(1).payload, Erased)
    assert isinstance(next(main.events()).payload, Erased)
    assert main.state("strict").get() == 2
    with pytest.raises(ReducerFailed, match="at sequence 1"):
        main.state("careless").get()


def test_states_of_reducers_that_are_not_at_hand_go_too(opener: Opener) -> None:
    with opener() as store:
        store.register_state("s", reducer=collect, types=["note"])
        main = store.branch()
        event = main.append("note", secret(3000))
        with transaction(main.engine):
            for n in range(3 * BLOCK):
                main.append("note", n)
        main.state("s").hash  # noqa: B018
        main.append("note", 0)
    with opener() as store:
        assert holds(store, SECRET)
        store.erase(event.id, WHY)
        assert not holds(store, SECRET)
        assert store.verify(deep=True).ok
        store.register_state("s", reducer=collect, types=["note"])
        assert isinstance(store.branch().state("s").get().seen[0], Erased)
        assert store.branch().replay("s").equal
        store.branch().append("note", 0)
        assert sound(store)


def test_erasing_again_changes_nothing(store: Store, main: Branch) -> None:
    event = main.append("note", SECRET)
    store.erase(event.id, WHY)
    found = store.event(event.id).erased
    report = store.erase(event.id, "another reason")
    assert (report.events, report.places) == ((), 0)
    assert store.event(event.id).erased == found


def test_what_is_refused_changes_nothing(opener: Opener, store: Store, main: Branch) -> None:
    event = main.append("note", SECRET)
    for reason in ("", "x" * 256, "a\nb", None, 3):
        with pytest.raises(InvalidName, match="the reason of an erasure"):
            store.erase(event.id, reason)  # type: ignore[arg-type]
    with pytest.raises(NotFound):
        store.erase([event.id, "ab" * 32], WHY)
    with pytest.raises(InvalidOperation, match="erase takes the id"):
        store.erase(3, WHY)  # type: ignore[arg-type]
    with pytest.raises(InvalidOperation, match="transaction of its own"), store.transaction():
        store.erase(event.id, WHY)
    with pytest.raises(ReadOnly):
        opener(readonly=True).erase(event.id, WHY)
    assert main.event(1).payload == SECRET
    assert store.erase([], WHY).events == ()


def test_another_handle_forgets_what_it_had_folded(opener: Opener, store: Store, main: Branch) -> None:
    store.register_state("log", kind="append_log")
    store.register_state("s", reducer=collect, types=["note"])
    event = main.state("log").append(SECRET)
    note = main.append("note", SECRET)
    filled(main, BLOCK)
    other = opener()
    other.register_state("s", reducer=collect, types=["note"])
    branch = other.branch()
    assert branch.state("log")[0] == SECRET
    assert branch.state("s").get().seen[0] == SECRET
    other.erase([event, note], WHY)
    assert isinstance(branch.state("log")[0], Erased)
    assert isinstance(main.state("log")[0], Erased)
    assert isinstance(main.state("s").get().seen[0], Erased)


def test_a_changed_byte_of_what_is_left_is_found(store: Store, main: Branch) -> None:
    event = main.append("note", SECRET)
    store.erase(event.id, WHY)
    key = pack_position(1, 1)
    with store._engine.read() as reader:
        stored = reader.get(EVENTS, key) or b""
    assert event_id(stored, decode_event(stored)) == event.key
    assert decode_event(stored).salt not in (event.salt, b"")
    for at in range(len(stored)):
        changed = bytearray(stored)
        changed[at] ^= 1
        with transaction(store._engine) as tx:
            tx.writer.put(EVENTS, key, bytes(changed))
            tx.changes += 1
        assert not store.verify().ok, at


def test_progress_is_told(store: Store, main: Branch) -> None:
    store.register_state("log", kind="append_log")
    event = main.state("log").append(SECRET)
    filled(main, 5 * BLOCK)
    seen: list[tuple[int, int]] = []
    store.erase(event.id, WHY, progress=lambda done, total: seen.append((done, total)))
    assert seen
    assert all(0 <= done <= total for done, total in seen)
    assert seen[-1][0] == seen[-1][1]


@pytest.mark.parametrize("late", [False, True])
def test_indexes_do_not_keep_it(store: Store, main: Branch, late: bool) -> None:
    store.register_state("log", kind="append_log")
    store.register_state("files", kind="tree")
    if not late:
        store.register_index("log", "who")
        store.register_index("files", "who")
    log, files = main.state("log"), main.state("files")
    start = log.set([{"who": "a"}, {"who": SECRET}, {"who": "c"}])
    edit = log.edit(0, {"who": SECRET})
    put = files.put("x", {"who": SECRET})
    append = log.append({"who": SECRET})
    with transaction(main.engine):
        for n in range(17 * BLOCK):
            log.append({"who": "b"})
            files.put(f"p{n % 100}", {"who": "b"})
    other = main.fork("other", at=16 * BLOCK + 3)
    with transaction(main.engine):
        for _ in range(17 * BLOCK):
            other.state("log").append({"who": "d"})
    if late:
        store.register_index("log", "who")
        store.register_index("files", "who")
    cut = log.redact(2, 3)
    assert list(log.where("who").equal(SECRET)) == [0, 1, 2]
    assert holds(store, SECRET)
    store.erase([edit.id, put.id, append.id, cut.id], WHY)
    assert list(log.where("who").equal(SECRET)) == [1]
    assert log.where("who").unindexed == 2
    store.erase(start.id, WHY)
    for branch in (main, other):
        for slot in ("log", "files"):
            found = branch.state(slot).where("who")
            assert list(found.equal(SECRET)) == []
            assert found.count("b") == sum(
                isinstance(value, dict) and value["who"] == "b"
                for value in (branch.state(slot) if slot == "log" else dict(branch.state(slot)).values())
            )
            assert branch.replay(f"{slot}#who").equal
    assert not holds(store, SECRET)
    assert sound(store)


def test_followers_read_what_is_left(store: Store, main: Branch) -> None:
    event = main.append("note", SECRET)
    main.append("note", 2)
    store.erase(event.id, WHY)
    seen = [item.event for item in store.follow(live=False) if isinstance(item, Followed)]
    assert [e.erased is not None for e in seen] == [True, False]


def test_a_salvage_takes_over_what_is_left(store: Store, main: Branch, tmp_path: Path) -> None:
    store.register_state("log", kind="append_log")
    filled(main, BLOCK)
    blob = store.put_blob(SECRET.encode(), "text/plain")
    events = [main.append("note", [BlobRef(blob)]), main.state("log").append(SECRET)]
    filled(main, BLOCK)
    store.erase(events, WHY)
    store.close()
    found = chronicle.salvage(store.path, tmp_path / "saved", leftovers=tmp_path / "left")
    assert (found.whole, found.lost_blobs, found.leftovers) == (True, [], 0)
    assert SECRET.encode() not in (tmp_path / "saved").read_bytes()
    assert not (tmp_path / "left").exists() or SECRET.encode() not in (tmp_path / "left").read_bytes()
    with chronicle.open(tmp_path / "saved") as saved:
        assert [saved.branch().event(event.seq).id for event in events] == [event.id for event in events]
        assert all(isinstance(saved.event(event.id).payload, Erased) for event in events)
        assert sound(saved)
