"""The commands about the log and branches: what they show and do where all is well."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from cli_runner import SAMPLE, Chronicle, in_folder, with_run

import chronicle_py

MESSAGES = json.loads(SAMPLE.read_text())["history"]


@pytest.fixture
def chronicle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Chronicle:
    return in_folder(tmp_path, monkeypatch)


@pytest.fixture
def run(chronicle: Chronicle) -> Chronicle:
    return with_run(chronicle)


# --- looking --------------------------------------------------------------------------------------------------------


def test_log_shows_the_newest_first(run: Chronicle) -> None:
    lines = run.lines("log", "--limit", "2")
    assert re.fullmatch(r"● 12 [0-9a-f]{10} tool: File updated. 12 passed \(main\)", lines[0])
    assert re.fullmatch(r"● 11 [0-9a-f]{10} assistant: A whole hour .*… → edit\(report/length.py, return .*…", lines[1])
    assert lines[2:] == ["⋮ 10 more"]


def test_log_names_the_branches_that_leave(run: Chronicle) -> None:
    assert [line[-7:] for line in run.lines("log", "-n", "0") if "⑂" in line] == ["⑂ other"]
    assert run.lines("log", "-b", "other", "-n", "1")[0].endswith("assistant: Because. (other)")


def test_log_draws_all_branches(run: Chronicle) -> None:
    graph = [re.sub(r" *(\d*)( [0-9a-f]{10}.*)", r" \1", line) for line in run.lines("log", "--all", "-n", "3")]
    assert graph == ["● 12", "● 11", "● 10", "⋮ 2 more", "● 7", "│ ● 8", "│ ● 7", "├─╯", "● 6", "⋮ 4 more", "● 1"]


def test_log_names_empty_branches_too(run: Chronicle) -> None:
    run("orphan", "nothing")
    assert run.lines("log", "--all")[-1] == "empty: nothing"


def test_log_draws_the_newest_fifty_branches(run: Chronicle) -> None:
    with chronicle_py.open("chronicle.store") as opened:
        for number in range(60):
            opened.orphan(f"o{number}").append("note", number)
    assert run.lines("log", "--all")[-1] == "12 older branches not drawn; see `chronicle branches`"
    assert len(run.json("log", "--all", "-n", "1")) == 2 + 49


def test_log_as_json_is_one_array(run: Chronicle) -> None:
    found = run.json("log", "--limit", "2")
    assert [event["seq"] for event in found] == [12, 11]
    assert found[0]["payload"] == MESSAGES[11]
    assert (found[0]["heads"], found[1]["heads"]) == (["main"], [])
    assert found[0]["parents"] == [found[1]["id"]]
    assert [event["seq"] for event in run.json("log", "--all", "-n", "0")] == [
        12,
        11,
        10,
        9,
        8,
        7,
        8,
        7,
        6,
        5,
        4,
        3,
        2,
        1,
    ]


def test_log_up_to_a_place(run: Chronicle) -> None:
    [event] = run.json("log", "--at", "4", "-n", "1")
    assert event["payload"] == MESSAGES[3]
    assert run.json("log", "--at", event["id"][:6], "-n", "1") == [event]
    assert run.json("log", "--at", "0") == []
    assert run("log", "--at", "0") == "no events\n"


def test_log_of_some_types_or_a_slot(run: Chronicle) -> None:
    run("append", "note", '"a"')
    run("append", "metric", "1")
    assert [event["type"] for event in run.json("log", "--type", "note", "--type", "metric")] == ["metric", "note"]
    assert [event["seq"] for event in run.json("log", "--slot", "messages", "-n", "2")] == [12, 11]
    assert [event["seq"] for event in run.json("log", "--type", "note", "--at", "12")] == []
    assert len(run.lines("log", "--slot", "messages")) == 12


def test_show_one_event(run: Chronicle) -> None:
    found = run.json("show", "3")
    assert (found["seq"], found["type"], found["slot"], found["payload"]) == (
        3,
        "state.append",
        "messages",
        MESSAGES[2],
    )
    assert found["effects"] == found["linked_from"] == []
    assert run.json("show", found["id"][:6]) == run.json("show", found["id"].upper()) == found
    text = run("show", "3")
    assert f"event       {found['id']}\nsequence    3\n" in text
    assert json.loads(text.split("\n\n", 1)[1]) == MESSAGES[2]


def test_show_finds_an_id_on_any_branch_and_tells_what_refers_to_it(run: Chronicle) -> None:
    first = run.json("append", "note", "1", "-b", "other")["id"]
    second = run.json("append", "note", "2", "--caused-by", first, "--linked-to", first[:10])
    assert (second["caused_by"], second["linked_to"]) == ([first], [first])
    found = run.json("show", first)
    assert found["effects"] == found["linked_from"] == [second["id"]]
    assert f"effects     {second['id']}" in run("show", first)


def test_reflog_tells_what_became_of_a_branch(run: Chronicle) -> None:
    run("rewind", "5", "-b", "other")
    run("delete-branch", "other")
    found = run.json("reflog", "-b", "other")
    assert [(move["kind"], (move["before"] or {}).get("seq")) for move in found] == [
        ("fork", None), ("rewind", 8), ("delete", 5),
    ]  # fmt: skip
    assert re.fullmatch(r"2  rewind  .*  8 [0-9a-f]{10}  5 [0-9a-f]{10}", run.lines("reflog", "-b", "other")[2])


# --- branches -------------------------------------------------------------------------------------------------------


def test_branches_lists_them(run: Chronicle) -> None:
    main, other = run.json("branches")
    assert (main["name"], main["seq"], main["parent"]) == ("main", 12, None)
    assert (other["name"], other["seq"], other["parent"], other["fork_seq"]) == ("other", 8, "main", 6)
    lines = run.lines("branches")
    assert lines[0].split() == ["branch", "sequence", "head", "newest", "forked", "from"]
    assert lines[2].startswith("other ")
    assert lines[2].endswith("  main at 6")


def test_fork_at_the_head_a_sequence_or_an_id(run: Chronicle) -> None:
    id = run.json("show", "4")["id"]
    assert run.json("fork", "a") == {"branch": "a", "seq": 12, "head": run.json("show", "12")["id"]}
    assert run.json("fork", "b", "--at", id[:8])["head"] == id
    assert run.json("fork", "c", "-b", "other", "--at", "7")["seq"] == 7
    assert run("fork", "d", "--at", "0") == "forked: d is empty\n"


def test_rewind_and_forward_again(run: Chronicle) -> None:
    head = run.json("show", "12")["id"]
    assert re.fullmatch(r"rewound: main is at 2 [0-9a-f]{10}\n", run("rewind", "2"))
    assert run.json("rewind", head[:8]) == {"branch": "main", "seq": 12, "head": head}


def test_a_deleted_branch_is_restored(run: Chronicle) -> None:
    head = run.json("branches")[1]["head"]
    assert "restore-branch other" in run("delete-branch", "other")
    assert len(run.json("branches")) == 1
    assert run.json("restore-branch", "other") == {"branch": "other", "seq": 8, "head": head}
    assert run.json("delete-branch", "other") == {"branch": "other", "deleted": True}


def test_an_orphan_has_no_history(run: Chronicle) -> None:
    assert run.json("orphan", "alone") == {"branch": "alone", "seq": 0, "head": None}
    assert run.json("state", "messages", "-b", "alone")["value"] == []
