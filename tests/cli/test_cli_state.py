"""The commands about slots, and those that write: what they show and do where all is well."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from cli_runner import SAMPLE, Chronicle, in_folder, with_run

import chronicle_py
from chronicle_py import BlobRef

MESSAGES = json.loads(SAMPLE.read_text())["history"]
STORE = "chronicle.store"


@pytest.fixture
def chronicle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Chronicle:
    return in_folder(tmp_path, monkeypatch)


@pytest.fixture
def run(chronicle: Chronicle) -> Chronicle:
    return with_run(chronicle)


def store() -> chronicle_py.Store:
    return chronicle_py.open(STORE, create=False)


# --- state ----------------------------------------------------------------------------------------------------------


def test_slots_are_added_and_listed(chronicle: Chronicle) -> None:
    chronicle("init")
    assert chronicle("slots").startswith("no slots")
    chronicle("slots", "--add", "summary", "--kind", "value", "--initial", '"none"')
    chronicle("slots", "--add", "notes", "--kind", "append_log", "--type", "note", "--source", "summary")
    notes, summary = chronicle.json("slots")
    assert (notes["kind"], notes["types"], notes["sources"]) == ("append_log", ["note"], ["summary"])
    assert notes["loaded"]
    assert summary["id"] == "summary"
    assert chronicle.json("state", "summary")["value"] == "none"
    assert chronicle.lines("slots")[1] == "notes    append_log  note, slot summary  yes"


def test_state_at_any_place(run: Chronicle) -> None:
    found = run.json("state", "messages", "--at", "3")
    assert (found["kind"], found["seq"], found["length"], found["value"]) == ("append_log", 3, 3, MESSAGES[:3])
    assert run.json("state", "messages", "-b", "other")["value"][6:] == [
        {"role": "user", "content": "Why?"}, {"role": "assistant", "content": "Because."},
    ]  # fmt: skip
    with store() as opened:
        assert found["hash"] == opened.branch().state("messages", at=3).hash


def test_state_shows_the_newest_items(run: Chronicle) -> None:
    lines = run.lines("state", "messages", "--limit", "2")
    assert lines[0].startswith("messages (append_log) on main at 12, 12 items, hash ")
    assert lines[1:] == [
        "⋮ 10 earlier; --limit 0 shows all", lines[2], "11 tool: File updated. 12 passed",
    ]  # fmt: skip
    assert len(run.lines("state", "messages", "--limit", "0")) == 13
    assert run.json("state", "messages", "-n", "1")["value"] == MESSAGES[11:]


def test_every_kind_of_slot_is_written_and_read(chronicle: Chronicle) -> None:
    chronicle("init")
    for kind in ("value", "append_log", "tree", "document"):
        chronicle("slots", "--add", f"a/{kind}", "--kind", kind)
    chronicle("append", "--slot", "a/value", '{"n": 1}')
    chronicle("append", "--slot", "a/append_log", "[1, 2]")
    chronicle("append", "--slot", "a/tree", '{"src/a": 1, "src/b": {"x": []}, "c": 3}')
    chronicle("append", "--slot", "a/tree", '{"c": null}')
    chronicle("append", "--slot", "a/document", '{"a": {"b": 1, "c": 2}}')
    chronicle("append", "--slot", "a/document", '{"a": {"b": null}}')
    assert chronicle.json("state", "a/value")["value"] == {"n": 1}
    assert chronicle.json("state", "a/append_log")["value"] == [[1, 2]]
    assert chronicle.json("state", "a/tree")["value"] == {"src/a": 1, "src/b": {"x": []}}
    assert chronicle.json("state", "a/document")["value"] == {"a": {"c": 2}}
    assert chronicle.lines("state", "a/tree")[1:] == ["src/a = 1", 'src/b = {"x":[]}']
    assert chronicle.lines("state", "a/tree", "-n", "1")[1:] == ["src/a = 1", "⋮ 1 more; --limit 0 shows all"]
    assert json.loads(chronicle("state", "a/document").split("\n", 1)[1]) == {"a": {"c": 2}}


def test_diff_between_places(run: Chronicle) -> None:
    found = run.json("diff", "messages", "4", "6")
    assert found == [
        {"op": "add", "path": 4, "before": None, "after": MESSAGES[4]},
        {"op": "add", "path": 5, "before": None, "after": MESSAGES[5]},
    ]
    assert run("diff", "messages", "6", "6") == "no difference\n"
    assert run.lines("diff", "messages", "7", run.json("show", "6")["id"][:9]) == [
        "- [6] assistant: I divide with a remainder and keep both parts. "
        "→ edit(report/length.py, hours, rest = divmod(minutes, 60))"
    ]


def test_diff_between_branches(run: Chronicle) -> None:
    lines = run.lines("diff", "messages", "other", "main")
    assert lines[0].startswith("~ [6] user: Why? ⇒ assistant: I divide")
    assert lines[1] == "~ [7] assistant: Because. ⇒ tool: File updated."
    assert [line[:5] for line in lines[2:]] == ["+ [8]", "+ [9]", "+ [10", "+ [11"]


def test_diff_of_a_document_names_the_path(chronicle: Chronicle) -> None:
    chronicle("init")
    chronicle("slots", "--add", "doc", "--kind", "document")
    chronicle("append", "--slot", "doc", '{"a": {"b": 1}}')
    chronicle("append", "--slot", "doc", '{"a": {"b": 2}, "c": "x"}')
    assert chronicle.lines("diff", "doc", "1", "2") == ["~ a.b 1 ⇒ 2", "+ c x"]
    assert chronicle.json("diff", "doc", "1", "2")[0] == {"op": "change", "path": ["a", "b"], "before": 1, "after": 2}


def test_replay_compares_hashes(run: Chronicle) -> None:
    [found] = run.json("replay", "messages", "-b", "other")
    assert (found["slot"], found["events"], found["equal"]) == ("messages", 8, True)
    assert found["hash"] == found["stored_hash"] == run.json("state", "messages", "-b", "other")["hash"]
    assert re.fullmatch(
        r"messages: 12 events in [\d.]+ s, [\d,]+ events/s; hash [0-9a-f]{10} equals the stored one\n", run("replay")
    )


def test_a_custom_slot_is_listed_and_names_its_reducer(run: Chronicle) -> None:
    with store() as opened:
        count = chronicle_py.reducer("count", initial=int)(lambda state, event: state + 1)
        opened.register_state("n", reducer=count, sources=["messages"])
    assert run.lines("slots")[2].endswith("slot messages  no, its reducer is not loaded")
    assert "'count'" in run.fails("state", "n")
    assert "'count'" in run.fails("replay", "n")
    assert [found["slot"] for found in run.json("replay")] == ["messages"]
    assert "give a TYPE before" in run.fails("append", "--slot", "n", "1")
    assert run.json("append", "tick", "1", "--slot", "n")["slot"] == "n"
    assert run.lines("log", "-n", "1")[0].endswith(" n tick 1 (main)")


# --- writing --------------------------------------------------------------------------------------------------------


def test_append_an_event_of_ones_own(run: Chronicle) -> None:
    assert re.fullmatch(r"appended: 13 [0-9a-f]{10} to main\n", run("append", "note", '{"text": "é"}'))
    found = run.json("append", "note", "-", input='{"n": [1.5, null]}')
    assert (found["seq"], found["type"], found["payload"]) == (14, "note", {"n": [1.5, None]})


def test_append_an_item_from_the_standard_input(run: Chronicle) -> None:
    run("append", "--slot", "messages", "-", input='{"role": "user", "content": "Go on."}')
    assert run.lines("log", "-n", "1")[0].endswith("user: Go on. (main)")


def test_append_only_where_the_head_is_the_expected_one(run: Chronicle) -> None:
    head = run.json("show", "12")["id"]
    run("append", "note", "1", "--expect", head[:12])
    assert "expected" in run.fails("append", "note", "1", "--expect", head)
    assert "expected" in run.fails("append", "note", "1", "--expect", "0")
    run("orphan", "new")
    run("append", "note", "1", "--expect", "0", "-b", "new")


def test_blobs_go_in_and_out(run: Chronicle, tmp_path: Path) -> None:
    data = bytes(range(256)) * 40
    (tmp_path / "a.png").write_bytes(data)
    id = run("blob", "put", "a.png").strip()
    assert run.json("blob", "put", "-", "--media-type", "image/png", input=data) == {
        "blob": id, "media_type": "image/png", "size": len(data),
    }  # fmt: skip
    assert run.run("blob", "get", id[:8]).stdout_bytes == data
    run("blob", "get", id, "-o", "b.png")
    assert (tmp_path / "b.png").read_bytes() == data
    event = run.json("append", "picture", json.dumps({"is": {"$blob": id}}))
    assert (event["blobs"], event["payload"]) == ([id], {"is": {"$blob": id}})
    with store() as opened:
        assert opened.branch().event(13).payload == {"is": BlobRef(id)}


def test_payloads_that_json_has_no_word_for_are_shown(run: Chronicle) -> None:
    with store() as opened:
        opened.branch().append("odd", {1: b"\0\1", "x": float("inf")})
    assert run.json("show", "13")["payload"] == {"1": {"$bytes": "AAE="}, "x": {"$float": "inf"}}
    assert '"$bytes"' in run("log", "-n", "1")
