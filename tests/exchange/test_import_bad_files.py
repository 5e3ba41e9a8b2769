"""Exports that were changed, cut or torn: the place of each bad record, nothing half-imported, and going on."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from exchange_stores import (
    Lines,
    exported_lines,
    fresh,
    picture,
    put_in,
    size_of,
)

import chronicle_py as chronicle
from chronicle_py import (
    BlobRef,
    Branch,
    FormatVersion,
    Store,
)
from chronicle_py.event import build_event, encode_payload
from chronicle_py.exchange import Fault, MalformedFile, export_lines


@pytest.fixture
def exported(store: Store) -> Lines:
    return exported_lines(store)


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


def test_an_event_that_does_not_follow_its_parent_is_refused(exported: Lines) -> None:
    line = json.loads(exported[8])
    payload, parent, salt = (
        encode_payload(line["payload"]),
        bytes.fromhex(line["parents"][0]),
        bytes.fromhex(line["salt"]),
    )
    key, _ = build_event(line["type"], line["time"], parent, 7, line["slot"], 0, None, salt, payload)
    exported[8] = json.dumps({**line, "id": key.hex(), "seq": 7}).encode() + b"\n"
    assert "has sequence 7 and its parent 2" in refused(exported)[0].what


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


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "queue"},
        {"kind": "custom"},
        {"kind": "tree", "types": ["note"]},
        {"types": ["state.set"]},
        {"sources": [""]},
        {"initial": 5},
        {"initial": [], "bytes": "wQ=="},
        {"kind": "tree", "initial": {"/a": 1}},
        {"kind": "custom", "reducer": "count", "initial": 0},
        {"id": "a//b"},
        {"id": "notes"},
    ],
)
def test_a_bad_slot_is_refused(exported: Lines, change: dict[str, Any]) -> None:
    line = {**json.loads(exported[1]), **change}
    assert line["id"] == "messages" or "id" in change
    exported[1] = json.dumps(line).encode() + b"\n"
    place = "line 3" if change == {"id": "notes"} else "line 2"
    assert refused(exported)[0].where == place


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
        assert [branch.name for branch in target.branches()] == ["main"]  # nobody knows what the lost event stood on
        assert target.branch().seq == 0
        assert sum("it is left out" in fault.what for fault in done.faults) == 2
        assert target.verify(deep=True).ok


def test_skipping_a_changed_event_keeps_the_other_branch_whole(exported: Lines, store: Store) -> None:
    exported[11] = exported[11].replace(b"m5", b"mx")  # main's newest
    with fresh() as target:
        put_in(target, exported, skip_bad=True)
        assert target.branch().seq == 5
        assert target.branch("other").head == store.branch("other").head
        target.branch().append("note", "goes on")
        assert target.verify(deep=True).ok


def test_skipping_a_changed_event_that_others_stand_on_ends_both_branches_before_it(exported: Lines) -> None:
    exported[9] = exported[9].replace(b"m3", b"mx")
    with fresh() as target:
        done = put_in(target, exported, skip_bad=True)
        assert [fault.where for fault in done.faults][:2] == ["line 10", "line 11"]
        assert (target.branch().seq, target.branch("other").seq) == (3, 3)
        assert target.verify(deep=True).ok


def test_skipping_an_event_whose_blob_is_missing_ends_the_branch_before_it(store: Store, main: Branch) -> None:
    main.append("note", 1)
    main.append("picture", BlobRef(store.put_blob(b"x", "text/plain")))
    main.append("note", 2)
    lines = [line for line in export_lines(store) if b'"record":"blob"' not in line]
    with fresh() as target:
        put_in(target, lines, skip_bad=True)
        assert target.branch().seq == 1


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


def test_skipping_never_puts_the_history_of_one_branch_on_another(tmp_path: Path) -> None:
    with chronicle.open(tmp_path / "source", durability="relaxed") as store:
        main, other = store.branch(), store.orphan("other")
        for n in range(10):
            main.append("t", n)
        for n in range(8):
            other.append("t", -n)
        exported = list(export_lines(store))
    events = [at for at, line in enumerate(exported) if b'"record":"event"' in line]
    exported[events[7]] = b"garbage\n"  # the eighth of main
    del exported[events[17]]  # the last of the other
    with fresh() as target:
        put_in(target, exported, skip_bad=True)
        assert [(branch.name, branch.seq) for branch in target.branches()] == [("main", 0)]
        assert target.verify(deep=True).ok
