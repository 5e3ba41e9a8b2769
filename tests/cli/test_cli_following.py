"""The command that waits: what it prints, at once, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from cli_runner import COMMAND, ENVIRONMENT, Chronicle, in_folder

import chronicle_py
from chronicle_py import BranchChange, Gone
from chronicle_py.cli.following import _as_json, _Lines

PIPE = subprocess.PIPE


@pytest.fixture
def chronicle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Chronicle:
    """The command where 3 notes are, a fork with a log's item of its own, and a rewind."""
    with chronicle_py.open(tmp_path / "chronicle.store", durability="relaxed") as store:
        store.register_state("log", kind="append_log")
        main = store.branch()
        for i in range(3):
            main.append("note", {"n": i})
        main.fork("other", at=2).state("log").append("an item")
        main.rewind(1)
    return in_folder(tmp_path, monkeypatch)


def without_ids(lines: list[str]) -> list[str]:
    """The lines, each id shown as a dot."""
    digits = set("0123456789abcdef")
    return [" ".join("·" if len(w) == 10 and set(w) <= digits else w for w in line.split(" ")) for line in lines]


def test_what_is_past(chronicle: Chronicle) -> None:
    *lines, last = chronicle.lines("follow", "--once")
    assert without_ids(lines) == [
        "main  create - → empty",
        'main  1 · note {"n":0}',
        'main  2 · note {"n":1}',
        'main  3 · note {"n":2}',
        "other fork - → 2 ·",
        "other 3 · log + an item",
        "main  rewind 3 · → 1 ·",
    ]
    assert last.startswith("caught up at 5.0-")
    assert chronicle("follow", "--no-live") == chronicle("follow", "--once")
    place = last.removeprefix("caught up at ")
    assert chronicle.lines("follow", "--once", "--from", place) == [last]
    assert chronicle.lines("follow", "--once", "--from", "now") == [last]


def test_filters(chronicle: Chronicle) -> None:
    def shown(*args: str) -> list[str]:
        return without_ids(chronicle.lines("follow", "--once", *args))[:-1]

    assert shown("-b", "other") == ["other fork - → 2 ·", "other 3 · log + an item"]
    assert len(shown("-b", "other", "-b", "main")) == 7
    assert shown("--slot", "log") == ["other 3 · log + an item"]
    assert len(shown("--type", "note", "--type", "state.append")) == 4
    assert shown("--type", "note", "--slot", "log") == []


def test_one_json_object_a_line(chronicle: Chronicle) -> None:
    found = [json.loads(line) for line in chronicle.lines("follow", "--once", "--json")]
    assert [one["item"] for one in found] == ["change", *["event"] * 3, "change", "event", "change", "caught up"]
    logged = chronicle.json("log", "-b", "other", "--limit", "1")[0]
    del logged["heads"]
    assert found[5] == {"item": "event", "branch": "other", "position": found[5]["position"], **logged}
    assert found[6] == {
        "item": "change",
        "branch": "main",
        "position": found[6]["position"],
        "kind": "rewind",
        "before": {"seq": 3, "id": found[3]["id"]},
        "after": {"seq": 1, "id": found[1]["id"]},
    }
    rest = chronicle.lines("follow", "--once", "--json", "--from", found[5]["position"])
    assert [json.loads(line) for line in rest] == found[6:]


def test_what_was_collected(chronicle: Chronicle, capsys: pytest.CaptureFixture[str]) -> None:
    marks = [Gone("1.1-0", None, 3, None), Gone("1.1-0", "main", 1, 1)]
    with chronicle_py.open("chronicle.store") as store:
        lines = _Lines(store)
        for mark in marks:
            lines.show(mark)
        lines.show(BranchChange("delete", "x", (3, "ab" * 32), None, "1.1-0"))
    assert capsys.readouterr().out.splitlines() == [
        "collected: 3 entries",
        "collected: 1 entry of main, 1 event",
        "x     delete 3 ababababab → -",
    ]
    assert _as_json(marks[0]) == {"item": "gone", "branch": None, "position": "1.1-0", "entries": 3, "events": None}


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_what_comes_is_shown_at_once_until_interrupted(chronicle: Chronicle) -> None:
    line = [*COMMAND, "follow", "--from", "now", "--json"]
    with (
        subprocess.Popen(line, stdout=PIPE, stderr=PIPE, env=ENVIRONMENT, text=True) as process,
        chronicle_py.open("chronicle.store", durability="relaxed") as store,
    ):
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())["item"] == "caught up"
        for i in range(3):
            event = store.branch().append("note", i)
            found = json.loads(process.stdout.readline())
            assert (found["id"], found["payload"]) == (event.id, i)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        assert (process.stdout.read(), process.stderr.read()) == ("", "chronicle: interrupted\n")


@pytest.mark.skipif(os.name == "nt", reason="asks the system whether a pipe is read")
def test_it_ends_when_nobody_reads_it_though_nothing_comes(chronicle: Chronicle) -> None:
    with subprocess.Popen([*COMMAND, "follow"], stdout=PIPE, stderr=PIPE, env=ENVIRONMENT) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        time.sleep(0.05)
        process.stdout.close()
        assert (process.wait(20), process.stderr.read()) == (141, b"")
