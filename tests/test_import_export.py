"""Exports and imports: what leaves a store comes back the same, and nothing else comes in.

The property tests write random stores (branches of branches, all kinds of slots, payloads that JSON has no words for),
export them and import the file elsewhere.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from conftest import Clock, Entropy, Opener
from hypothesis import given
from hypothesis import strategies as st

import chronicle_py as chronicle
from chronicle_py import (
    BlobRef,
    Branch,
    ChronicleError,
    Conflict,
    FormatVersion,
    InvalidName,
    InvalidOperation,
    NotFound,
    ReducerMissing,
    StateExists,
    Store,
)
from chronicle_py.event import decode_payload, encode_payload
from chronicle_py.exchange import Fault, MalformedFile, export_lines, find_blob, from_json, import_file, to_json
from chronicle_py.exchange.json_form import faithful

SHARED = Path(__file__).parent.parent.parent / "shared" / "data"
KINDS = {"messages": "append_log", "notes": "append_log", "v": "value", "files": "tree", "doc": "document"}
Lines = list[bytes]


@contextmanager
def fresh(**options: Any) -> Iterator[Store]:
    """An empty store of its own."""
    with (
        tempfile.TemporaryDirectory() as folder,
        chronicle.open(
            f"{folder}/s", durability="relaxed", **{"clock": Clock(), "entropy": Entropy(), **options}
        ) as store,
    ):
        yield store


def put_in(store: Store, lines: Lines, folder: Path | None = None, **options: Any) -> Any:
    with tempfile.TemporaryDirectory() as own:
        path = (folder or Path(own)) / "e.jsonl"
        path.write_bytes(b"".join(lines))
        return import_file(store, path, **options)


def register(store: Store) -> None:
    for name, kind in KINDS.items():
        store.register_state(name, kind=kind, types=("note",) if name == "notes" else ())


def picture(store: Store) -> dict[str, Any]:
    """All that an export promises to bring over."""
    found: dict[str, Any] = {"slots": store.slots()}
    for info in store.branches():
        branch = store.branch(info.name)
        found[info.name] = {
            "info": (info.seq, info.head, info.parent, info.fork_seq, info.description),
            "ids": [(event.id, event.type, event.slot, bytes(event.raw)) for event in branch.events()],
            "states": {
                slot.id: [branch.state(slot.id, at=at).hash for at in {0, info.seq // 2, info.seq}]
                for slot in store.slots()
                if slot.loaded
            },
        }
    return found


def size_of(store: Store) -> dict[str, int]:
    return {name: space["entries"] for name, space in store.stats().keyspaces.items()}


# --- random stores --------------------------------------------------------------------------------------------------

words = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(), words, st.binary(max_size=8),
    st.just(msgspec.msgpack.Ext(7, b"seven")), st.just(datetime(2024, 2, 3, 4, 5, 6, 789, tzinfo=UTC)),
)  # fmt: skip
payloads = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(words, inner, max_size=3),
        st.dictionaries(st.one_of(st.integers(-5, 300), words), inner, max_size=3),
        st.just({"$blob": "ab" * 32}),
        st.just({"$bytes": "eA=="}),
    ),
    max_leaves=6,
)
plain = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-9, 9), words),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(words, inner, max_size=3)),
    max_leaves=5,
)
steps = st.lists(
    st.tuples(
        st.sampled_from(
            ("item", "item", "burst", "note", "set", "edit", "redact", "reset", "put", "doc", "blob", "fork", "fork",
             "orphan", "rewind", "delete")
        ),
        st.integers(0, 1000),
        payloads,
        plain,
    ),
    max_size=25,
)  # fmt: skip


def play(store: Store, script: list[tuple[str, int, Any, Any]], forward_only: bool = False) -> None:
    """Does the steps on branches that the numbers choose."""
    for count, (what, number, payload, simple) in enumerate(script):
        names = [info.name for info in store.branches()]
        branch = store.branch(names[number % len(names)])
        if what == "item":
            branch.state("messages").append(payload)
        elif what == "burst":
            with store.transaction():
                for i in range(number % 90):
                    branch.state("messages" if i % 3 else "notes").append({"n": i})
        elif what == "note":
            causes = [branch.head] if branch.head else []
            branch.append("note", payload, caused_by=causes)
        elif what == "set":
            branch.state("v").set(payload)
        elif what == "edit" and len(branch.state("messages")):
            branch.state("messages").edit(number % len(branch.state("messages")), payload)
        elif what == "redact":
            branch.state("messages").redact(number % 7, number % 7 + number % 5)
        elif what == "reset":
            branch.state("notes").set([payload, simple])
        elif what == "put":
            branch.state("files").put(f"d{number % 4}/f{number % 9}", payload)
        elif what == "doc":
            branch.state("doc").patch({f"k{number % 5}": simple})
        elif what == "blob":
            blob = store.put_blob(f"blob {number % 3}".encode(), "text/plain")
            branch.append("picture", {"is": [BlobRef(blob), payload]})
        elif what == "fork":
            branch.fork(f"b{count}·{len(names)}", at=number % (branch.seq + 1))
        elif what == "orphan":
            store.orphan(f"o{count}·{len(names)}")
        elif what == "rewind" and not forward_only:
            branch.rewind(number % (branch.seq + 1))
        elif what == "delete" and branch.name != "main" and not forward_only:
            store.delete_branch(branch.name)


@given(steps)
def test_an_imported_export_has_the_same_ids_heads_slots_and_state_hashes(script: list[Any]) -> None:
    with fresh() as source, fresh(clock=Clock(5)) as target:
        register(source)
        play(source, script)
        lines = list(export_lines(source))
        put_in(target, lines)
        assert picture(target) == picture(source)
        assert target.verify(deep=True).problems == []
        assert list(export_lines(target))[1:] == lines[1:] or source.branch().seq == 0


@given(steps)
def test_importing_an_export_twice_adds_nothing(script: list[Any]) -> None:
    with fresh() as source, fresh() as target:
        register(source)
        play(source, script)
        lines = list(export_lines(source))
        first = put_in(target, lines)
        before = size_of(target), picture(target)
        second = put_in(target, lines)
        assert (size_of(target), picture(target)) == before
        assert (second.events, second.known) == (0, first.events)
        assert set(second.branches.values()) == {"same"}
        assert put_in(source, lines).events == 0


@given(steps, steps)
def test_a_later_export_goes_on_where_the_earlier_one_ended(first: list[Any], second: list[Any]) -> None:
    with fresh() as source, fresh() as target:
        register(source)
        play(source, first, forward_only=True)
        put_in(target, list(export_lines(source)))
        play(source, second, forward_only=True)
        put_in(target, list(export_lines(source)))
        assert picture(target) == picture(source)
        assert target.verify(deep=True).problems == []
        assert size_of(target)["events"] == size_of(source)["events"]


@given(steps, steps)
def test_imported_branches_go_on_like_any_others(first: list[Any], second: list[Any]) -> None:
    with fresh() as source, fresh() as target:
        register(source)
        play(source, first)
        put_in(target, list(export_lines(source)))
        play(target, second)
        with fresh() as third:
            put_in(third, list(export_lines(target)))
            assert picture(third) == picture(target)
        assert target.verify(deep=True).problems == []


@given(steps, st.integers(0, 1000))
def test_one_branch_is_exported_with_all_that_it_stands_on(script: list[Any], number: int) -> None:
    with fresh() as source, fresh() as target:
        register(source)
        play(source, script)
        names = [info.name for info in source.branches()]
        name = names[number % len(names)]
        lines = list(export_lines(source, [name]))
        put_in(target, lines)
        assert picture(target)[name] == picture(source)[name]
        assert {info.name for info in target.branches()} == {"main", name}
        assert target.verify(deep=True).problems == []
        used = {blob for event in source.branch(name).events() for blob in event.blobs}
        assert {json.loads(line)["id"] for line in lines if line.startswith(b'{"record":"blob"')} == used


@given(steps, st.data())
def test_a_damaged_export_is_refused_with_its_place_or_means_the_same(script: list[Any], data: st.DataObject) -> None:
    with fresh() as source, fresh() as target:
        register(source)
        play(source, script)
        lines = list(export_lines(source))
        target.orphan("before")
        before = size_of(target), picture(target)
        events = [n for n, line in enumerate(lines) if line.startswith((b'{"record":"event"', b'{"record":"blob"'))]
        if events and data.draw(st.booleans(), "garble"):
            number = data.draw(st.sampled_from(events), "line")
            at = data.draw(st.integers(0, len(lines[number]) - 2), "at")
            lines[number] = lines[number][:at] + data.draw(st.binary(max_size=1)) + lines[number][at + 1 :]
            place = f"line {number + 1}:"
        else:
            whole = b"".join(lines)
            whole = whole[: data.draw(st.integers(len(lines[0]), len(whole) - 2), "cut at")]
            lines, place = [whole], "end of file:"
        refusal = refusal_of(target, lines)
        if refusal:
            assert place in refusal
            assert (size_of(target), picture(target)) == before
        else:
            expected = picture(source)
            assert {name: found for name, found in picture(target).items() if name != "before"} == expected


def refusal_of(store: Store, lines: Lines) -> str:
    try:
        put_in(store, lines)
    except MalformedFile as error:
        return str(error)
    return ""


@given(payloads)
def test_a_payloads_json_is_valid_and_says_whether_it_leads_back(value: Any) -> None:
    payload = encode_payload(value)
    text, exact = faithful(payload)
    json.loads(text)
    if exact:
        assert from_json(text) == payload


@given(plain)
def test_what_json_can_say_needs_no_second_form(value: Any) -> None:
    text, exact = faithful(encode_payload(value))
    assert exact
    assert json.loads(text) == value


# --- the lines ------------------------------------------------------------------------------------------------------


@pytest.fixture
def exported(store: Store, main: Branch) -> Lines:
    """Main has 6 messages; `other` leaves it after 4 and has 2 of its own."""
    register(store)
    for i in range(6):
        main.state("messages").append({"role": "user", "content": f"m{i}"})
    other = main.fork("other", at=4)
    for i in range(2):
        other.state("messages").append({"role": "user", "content": f"o{i}"})
    return list(export_lines(store))


def test_an_export_is_readable_and_in_order(exported: Lines) -> None:
    records = [json.loads(line) for line in exported]
    assert [record["record"] for record in records] == (
        ["chronicle-export", *["slot"] * 5, *["event"] * 8, *["branch"] * 2, "end"]
    )
    first = records[6]
    assert first["payload"] == {"role": "user", "content": "m0"}
    assert "bytes" not in first
    assert records[-3] == {
        "record": "branch",
        "name": "main",
        "head": records[11]["id"],
        "seq": 6,
        "created": first_time,
    }
    assert (records[-2]["parent"], records[-2]["fork_seq"]) == ("main", 4)
    assert records[-1] == {"record": "end", "slots": 5, "blobs": 0, "events": 8, "branches": 2}


def test_a_payload_that_json_cannot_hold_comes_with_its_bytes(store: Store, main: Branch) -> None:
    main.append("odd", {1: float("nan"), "b": b"\0", "when": datetime(2024, 1, 1, tzinfo=UTC)})
    line = json.loads(next(line for line in export_lines(store) if b'"event"' in line))
    assert line["payload"] == {
        "1": {"$float": "nan"}, "b": {"$bytes": "AA=="}, "when": {"$time": "2024-01-01T00:00:00+00:00"},
    }  # fmt: skip
    assert "bytes" in line


def test_to_json_says_everything_a_payload_can_hold() -> None:
    blob = "ab" * 32
    value = [1.5, float("-inf"), b"\1", BlobRef(blob), msgspec.msgpack.Ext(5, b"\2"), {2: (3,)}, True, None]
    assert to_json(value) == [
        1.5, {"$float": "-inf"}, {"$bytes": "AQ=="}, {"$blob": blob}, {"$ext": [5, "Ag=="]}, {"2": [3]}, True, None,
    ]  # fmt: skip


def test_blob_references_in_json_become_references() -> None:
    blob = "cd" * 32
    assert decode_payload(from_json(f'{{"a": [{{"$blob": "{blob}"}}]}}')) == {"a": [BlobRef(blob)]}
    with pytest.raises(InvalidOperation, match="64 hex digits"):
        from_json('{"$blob": "short"}')


def test_a_whole_export_brings_every_blob_and_a_branch_its_own(store: Store, main: Branch, opener: Opener) -> None:
    used, unused = store.put_blob(b"used", "text/plain"), store.put_blob(b"unused", "text/plain")
    main.append("picture", BlobRef(used))
    with fresh() as target:
        assert put_in(target, list(export_lines(store, ["main"]))).blobs == 1
        assert target.get_blob(used).data == b"used"
        with pytest.raises(NotFound):
            target.get_blob(unused)
        assert put_in(target, list(export_lines(store))).blobs == 1
        assert target.get_blob(unused).media_type == "text/plain"


def test_causes_and_links_come_along(store: Store, main: Branch) -> None:
    first = main.append("note", 1)
    second = main.append("note", 2, caused_by=[first], linked_to=[first.id])
    with fresh() as target:
        put_in(target, list(export_lines(store)))
        assert target.effects(first.id) == target.links(first.id) == [second]


def test_a_custom_slot_is_registered_without_its_code(store: Store, main: Branch) -> None:
    count = chronicle.reducer("count", initial=int, version=3)(lambda state, event: state + 1)
    store.register_state("n", reducer=count, types=["note"])
    main.append("note", 1)
    with fresh() as target:
        put_in(target, list(export_lines(store)))
        [slot] = target.slots()
        assert (slot.id, slot.reducer, slot.version, slot.types, slot.loaded) == ("n", "count", 3, ("note",), False)
        with pytest.raises(ReducerMissing, match="count"):
            target.branch().state("n").get()
        target.register_state("n", reducer=count, types=["note"])
        assert target.branch().state("n").get() == 1
        assert target.branch().state("n").hash == main.state("n").hash


def test_an_initial_value_comes_along_byte_for_byte(store: Store) -> None:
    store.register_state("v", kind="value", initial={"b": b"\0", "n": 1})
    with fresh() as target:
        put_in(target, list(export_lines(store)))
        assert target.branch().state("v").get() == {"b": b"\0", "n": 1}
        assert target.branch().state("v").hash == store.branch().state("v").hash


def test_the_event_that_closes_a_block_far_down_a_fork_is_checkpointed(store: Store, main: Branch) -> None:
    register(store)
    with store.transaction():
        for i in range(1000):
            main.state("messages").append(i)
    deep = main
    for at in (999, 640, 639, 64, 63):
        deep = deep.fork(f"from {at}", at=at)
        with store.transaction():
            for i in range(130):
                deep.state("messages").append([at, i])
    with fresh() as target:
        put_in(target, list(export_lines(store)))
        assert picture(target) == picture(store)
        assert target.verify(deep=True).problems == []


# --- branches that are there already --------------------------------------------------------------------------------


def test_a_branch_that_went_on_here_is_left_alone(exported: Lines, store: Store, main: Branch) -> None:
    newest = main.state("messages").append("later")
    assert put_in(store, exported).branches == {"main": "behind", "other": "same"}
    assert main.head == newest.id


def test_a_branch_that_went_another_way_is_a_conflict(exported: Lines, store: Store, main: Branch) -> None:
    main.rewind(5)
    main.append("note", "another way")
    before = size_of(store), picture(store)
    with pytest.raises(Conflict, match=r"'main' is at .* --prefix"):
        put_in(store, exported)
    assert (size_of(store), picture(store)) == before


def test_a_prefix_brings_branches_in_beside_those_there(exported: Lines, store: Store, main: Branch) -> None:
    before = picture(store)
    main.rewind(5)
    main.append("note", "another way")
    done = put_in(store, exported, prefix="old/")
    assert done.branches == {"old/main": "new", "old/other": "new"}
    assert [event.id for event in store.branch("old/main").events()] == [e[0] for e in before["main"]["ids"]]
    info = next(info for info in store.branches() if info.name == "old/other")
    assert (info.parent, info.fork_seq) == ("old/main", 4)
    assert store.verify(deep=True).ok


def test_a_prefix_keeps_the_name_of_a_parent_that_is_not_in_the_file(exported: Lines, store: Store) -> None:
    put_in(store, list(export_lines(store, ["other"])), prefix="x/")
    assert next(info for info in store.branches() if info.name == "x/other").parent == "main"


def test_a_deleted_branch_comes_back(exported: Lines, store: Store) -> None:
    head = store.branch("other").head
    store.delete_branch("other")
    assert put_in(store, exported).branches["other"] == "new"
    assert store.branch("other").head == head


def test_an_import_leaves_an_entry_in_the_reflog(exported: Lines, store: Store) -> None:
    with fresh() as target:
        put_in(target, exported)
        move = target.branch().reflog()[-1]
        assert (move.kind, move.before, move.after) == ("import", (0, ""), (6, store.branch().head))
        target.branch().rewind(2)
        assert put_in(target, exported).branches["main"] == "moved"


def test_a_contradicting_registration_refuses_the_import(exported: Lines) -> None:
    with fresh() as target:
        target.register_state("v", kind="tree")
        before = size_of(target)
        with pytest.raises(StateExists, match="'v'"):
            put_in(target, exported)
        with pytest.raises(StateExists, match="'v'"):
            put_in(target, exported, skip_bad=True)
        assert size_of(target) == before


# --- bad files ------------------------------------------------------------------------------------------------------


def refused(lines: Lines, **options: Any) -> list[Fault]:
    """The faults of an import into an empty store, which stays empty."""
    with fresh() as target:
        before = size_of(target)
        with pytest.raises(MalformedFile) as caught:
            put_in(target, lines, **options)
        assert size_of(target) == before
        return caught.value.faults


def test_every_bad_line_is_named(exported: Lines) -> None:
    exported[7] = b"garbage\n"
    exported[9] = exported[9].replace(b"m3", b"mx")
    exported[10] = b'{"record":"event"}\n'
    faults = refused(exported)
    assert [fault.where for fault in faults] == ["line 8", "line 10", "line 11"]
    assert "is no record of an export" in faults[0].what
    assert "the line was changed" in faults[1].what
    assert "missing required field `id`" in faults[2].what


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"seq": 9}, "contents have the id"),
        ({"time": 0}, "contents have the id"),
        ({"salt": "00" * 16}, "contents have the id"),
        ({"salt": "xy"}, "non-hexadecimal"),
        ({"parents": []}, "do not agree"),
        ({"parents": ["ab" * 32, "cd" * 32]}, "2 parents"),
        ({"id": "ab"}, "64 hex digits"),
        ({"type": ""}, "may not be empty"),
        ({"slot": "a//b"}, "non-empty components"),
        ({"bytes": "?"}, "no base64"),
        ({"schema": -(2**70)}, ""),
        ({"caused_by": ["zz"]}, "64 hex digits"),
    ],
)
def test_a_changed_event_is_refused(exported: Lines, change: dict[str, Any], what: str) -> None:
    exported[8] = json.dumps({**json.loads(exported[8]), **change}).encode() + b"\n"
    [fault] = refused(exported)
    assert fault.where == "line 9"
    assert what in fault.what


def test_an_event_without_its_parent_is_refused(exported: Lines) -> None:
    del exported[7]
    faults = refused(exported)
    assert [fault.where for fault in faults] == ["line 8"]
    assert "its parent" in faults[0].what


def test_an_event_of_a_slot_that_nobody_registered_is_refused(exported: Lines) -> None:
    lines = [line for line in exported if b'"messages","kind"' not in line]
    assert "slot 'messages'" in refused(lines)[0].what


def test_an_event_whose_blob_is_missing_is_refused(store: Store, main: Branch) -> None:
    main.append("picture", BlobRef(store.put_blob(b"x", "text/plain")))
    lines = [line for line in export_lines(store) if b'"record":"blob"' not in line]
    assert "refers to blob" in refused(lines)[0].what


def test_a_changed_blob_is_refused(store: Store) -> None:
    store.put_blob(b"x", "text/plain")
    lines = [line.replace(b"text/plain", b"text/html") for line in export_lines(store)]
    assert "the line was changed" in refused(lines)[0].what


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"name": "-x"}, "does not start with '-'"),
        ({"head": "ab" * 32}, "neither in the file nor in the store"),
        ({"seq": 5}, "neither in the file nor in the store"),
        ({"seq": 0}, "do not agree"),
        ({"fork_seq": -1}, "do not agree"),
        ({"description": "\n"}, "no control characters"),
    ],
)
def test_a_bad_branch_is_refused(exported: Lines, change: dict[str, Any], what: str) -> None:
    exported[-2] = json.dumps({**json.loads(exported[-2]), **change}).encode() + b"\n"
    [fault] = refused(exported)
    assert fault.where == f"line {len(exported) - 1}"
    assert what in fault.what


@pytest.mark.parametrize("kind", ["queue", "custom"])
def test_a_bad_slot_is_refused(exported: Lines, kind: str) -> None:
    exported[1] = json.dumps({**json.loads(exported[1]), "kind": kind}).encode() + b"\n"
    assert refused(exported)[0].where == "line 2"


def test_a_file_that_ends_early_is_refused(exported: Lines) -> None:
    assert [fault.where for fault in refused(exported[:-1])] == ["end of file"]
    assert "the export had 8 events" in refused([*exported[:13], exported[14], *exported[14:]])[0].what


def test_two_exports_in_one_file_are_refused(exported: Lines) -> None:
    assert "second header" in refused(exported + exported)[0].what


def test_a_newer_format_is_named(exported: Lines) -> None:
    exported[0] = exported[0].replace(b'"format":1', b'"format":2')
    with fresh() as target, pytest.raises(FormatVersion, match="format 2"):
        put_in(target, exported)


def test_skipping_leaves_out_what_stands_on_a_bad_event(exported: Lines, store: Store) -> None:
    exported[9] = b"garbage\n"  # the fourth message, which both branches have
    with fresh() as target:
        done = put_in(target, exported, skip_bad=True)
        assert done.faults[0].where == "line 10"
        assert [event.id for event in target.branch().events()] == [e.id for e in store.branch().events(stop=3)]
        assert target.branch("other").seq == 3
        assert any("ends at sequence 3" in fault.what for fault in done.faults)
        assert target.verify(deep=True).ok


def test_skipping_a_changed_event_keeps_the_other_branch_whole(exported: Lines, store: Store) -> None:
    exported[11] = exported[11].replace(b"m5", b"mx")  # main's newest
    with fresh() as target:
        put_in(target, exported, skip_bad=True)
        assert target.branch().seq == 5
        assert target.branch("other").head == store.branch("other").head
        target.branch().append("note", "goes on")
        assert target.verify(deep=True).ok


def test_skipping_the_end_of_a_cut_file_keeps_what_there_is(exported: Lines, store: Store) -> None:
    with fresh() as target:
        done = put_in(target, exported[:-1], skip_bad=True)
        assert done.events == 8
        assert picture(target) == picture(store)


def test_an_import_joins_a_running_transaction(exported: Lines) -> None:
    with fresh() as target:
        with suppress(ZeroDivisionError), target.transaction():
            put_in(target, exported)
            raise ZeroDivisionError
        assert target.branch().seq == 0
        with target.transaction():
            put_in(target, exported)
            target.branch().append("note", 1)
        assert target.branch().seq == 7
        assert target.verify(deep=True).ok


# --- conversations --------------------------------------------------------------------------------------------------

HELLO = {"role": "user", "content": "Hello"}
CALL = {
    "role": "assistant", "content": None,
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}],
}  # fmt: skip
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "a.py"}
BLOCKS = {
    "role": "assistant",
    "content": [{"type": "thinking", "thinking": "Hm.", "signature": "s"}, {"type": "text", "text": "Hi"}],
}


def file_of(tmp_path: Path, document: Any) -> Path:
    path = tmp_path / "conversation.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def test_messages_become_items_as_they_are(store: Store, tmp_path: Path) -> None:
    messages = [HELLO, CALL, RESULT, BLOCKS]
    done = import_file(store, file_of(tmp_path, messages))
    assert (done.form, done.events, done.slots) == ("chat messages", 4, 1)
    assert list(store.branch().state("messages")) == messages


def test_an_object_with_messages_is_read_and_its_system_prompt_is_first(store: Store, tmp_path: Path) -> None:
    import_file(store, file_of(tmp_path, {"model": "m", "system": "Be kind.", "messages": [HELLO]}))
    assert list(store.branch().state("messages")) == [{"role": "system", "content": "Be kind."}, HELLO]


def test_tool_calls_in_a_trajectory_are_read_where_they_can_be(store: Store, tmp_path: Path) -> None:
    calls = CALL["tool_calls"]
    history = [
        {"role": "assistant", "content": "a", "tool_calls": repr(calls)},
        {"role": "assistant", "content": "b", "tool_calls": "__import__('os')"},
        {"role": "tool", "content": "c", "tool_call_ids": ["c1"]},
    ]
    assert import_file(store, file_of(tmp_path, {"history": history})).form == "SWE-agent trajectory"
    found = list(store.branch().state("messages"))
    assert found[0] == {"role": "assistant", "content": "a", "tool_calls": calls}
    assert found[1:] == history[1:]


def test_messages_go_to_the_branch_that_is_named(store: Store, tmp_path: Path) -> None:
    store.orphan("second")
    import_file(store, file_of(tmp_path, [HELLO]), branch="second")
    assert (store.branch().seq, store.branch("second").seq) == (0, 1)
    with pytest.raises(NotFound, match="'third'"):
        import_file(store, file_of(tmp_path, [HELLO]), branch="third")


def test_every_bad_message_is_named_and_nothing_imported(store: Store, tmp_path: Path) -> None:
    messages = [HELLO, {"content": "x"}, "text", {"role": "user", "content": 5}, {"role": "user", "content": 2**70}]
    path = file_of(tmp_path, {"history": messages})
    with pytest.raises(MalformedFile) as caught:
        import_file(store, path)
    assert [fault.where for fault in caught.value.faults] == ["history[1]", "history[2]", "history[3]", "history[4]"]
    assert store.branch().seq == 0
    assert store.slots() == []
    done = import_file(store, path, skip_bad=True)
    assert (done.events, len(done.faults)) == (1, 4)


def test_a_message_that_no_payload_can_hold_is_named(store: Store, tmp_path: Path) -> None:
    with pytest.raises(MalformedFile, match=r"item 1: this payload has no MessagePack form"):
        import_file(store, file_of(tmp_path, [HELLO, {**HELLO, "n": 2**70}]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: is no JSON"),
        ('[\n{"role": "user",\n]', "line 3: is no JSON"),
        ('"text"', "no form that is read here"),
        ('{"loglines": []}', "no form that is read here"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_no_conversation_is_refused(store: Store, tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidOperation, match=message):
        import_file(store, file_of(tmp_path, text))


def test_bytes_that_are_no_utf8_are_named(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(b'[\n"\xff"]')
    with pytest.raises(MalformedFile, match="line 2: holds bytes that are no UTF-8"):
        import_file(store, path)


def test_a_file_that_is_not_there_is_named(store: Store, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="nowhere"):
        import_file(store, tmp_path / "nowhere")
    with pytest.raises(NotFound, match="cannot be read"):
        import_file(store, tmp_path)


def test_options_that_do_not_go_with_the_file_are_refused(store: Store, tmp_path: Path, exported: Lines) -> None:
    with pytest.raises(InvalidOperation, match="brings its own branches"):
        put_in(store, exported, branch="main")
    with pytest.raises(InvalidOperation, match="brings no branches"):
        import_file(store, file_of(tmp_path, [HELLO]), prefix="x/")
    with pytest.raises(InvalidName):
        put_in(store, exported, prefix="-")


def test_a_messages_slot_of_another_kind_is_refused(store: Store, tmp_path: Path) -> None:
    store.register_state("messages", kind="value")
    with pytest.raises(StateExists, match="'value'"):
        import_file(store, file_of(tmp_path, [HELLO]))


def test_progress_ends_at_the_total(store: Store, tmp_path: Path, exported: Lines) -> None:
    calls: list[tuple[int, int]] = []
    note = lambda done, total: calls.append((done, total))  # noqa: E731
    list(export_lines(store, progress=note))
    assert calls[-1] == (8, 8)
    with fresh() as target:
        put_in(target, exported, progress=note)
    size = sum(map(len, exported))
    assert calls[-1] == (size, size)
    import_file(store, file_of(tmp_path, [HELLO] * 3), progress=note)
    assert calls[-1] == (3, 3)


@pytest.mark.parametrize("name", ["swe-agent-function-calling.traj", "mini-swe-agent-github-issue.traj.json"])
def test_real_runs_come_in_and_out(store: Store, name: str) -> None:
    if not (SHARED / name).exists():
        pytest.skip("the shared data is not here")
    import_file(store, SHARED / name)
    found = list(store.branch().state("messages"))
    assert found[0]["role"] == "system"
    assert all(isinstance(message.get("tool_calls", []), list) for message in found)
    with fresh() as target:
        put_in(target, list(export_lines(store)))
        assert list(target.branch().state("messages")) == found


# --- blobs by the start of their id ---------------------------------------------------------------------------------


def test_a_blob_is_found_by_the_start_of_its_id(store: Store, main: Branch) -> None:
    ids = [store.put_blob(str(i).encode(), "text/plain") for i in range(50)]
    for i, id in enumerate(ids):
        assert find_blob(store, id[:8].upper()).data == str(i).encode()
    assert find_blob(store, ids[0]).hash == ids[0]
    with pytest.raises(NotFound):
        find_blob(store, "000000")
    with pytest.raises(InvalidOperation):
        find_blob(store, "00")


def test_bad_input_is_always_a_chronicle_error(store: Store) -> None:
    with pytest.raises(ChronicleError):
        export_lines(store, ["nope"])
