"""`chronicle gc`, `compact`, `backup` and `stats --deep`."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
import typer
from cli_runner import Chronicle, in_folder

import chronicle_py
from chronicle_py.cli.housekeeping import age


def test_ages() -> None:
    found = [age(text, "--x") for text in ("90s", "15m", "12h", "30d", "2w", "0", "0d")]
    assert found == [
        timedelta(seconds=90), timedelta(minutes=15), timedelta(hours=12), timedelta(days=30), timedelta(weeks=2),
        timedelta(), timedelta(),
    ]  # fmt: skip
    assert age(None, "--x") is None
    for text in ("", "3", "3y", "-1d", "1.5h", "d", "999999999w"):
        with pytest.raises(typer.BadParameter):
            age(text, "--x")


@pytest.fixture
def chronicle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Chronicle:
    runner: Chronicle = in_folder(tmp_path, monkeypatch)
    with chronicle_py.open(tmp_path / "chronicle.store") as store:
        store.register_state("doc", kind="document")
        store.register_state("log", kind="append_log")
        with store.transaction():
            for n in range(200):
                store.branch().state("log").append(n)
                store.branch().state("doc").patch({"list": list(range(n)), "plain": "x" * 40})
        other = store.branch().fork("try/1", at=3)
        store.put_blob(b"unused")
        with store.transaction():
            for n in range(200):
                other.state("doc").patch({"map": {f"k{n}": "y" * 100}})
    return runner


def test_gc_says_and_does_the_same(chronicle: Chronicle) -> None:
    options = ("gc", "--branches", "try/*", "--expire-reflog", "0", "--unused-blobs", "--json")
    rehearsed, done = json.loads(chronicle(*options, "--dry-run")), json.loads(chronicle(*options))
    assert {**rehearsed, "dry_run": False} == done
    assert (done["branches"], done["events"], done["blobs"], done["reflog"]) == (["try/1"], 200, 1, 3)
    assert chronicle("gc") == "collected: nothing\n"
    assert chronicle("verify", "--deep").endswith("ok: everything agrees\n")


def test_gc_leaves_young_branches(chronicle: Chronicle) -> None:
    assert chronicle("gc", "--branches", "*", "--older-than", "1h") == "collected: nothing\n"
    assert chronicle("gc", "--branches", "*", "--dry-run").splitlines()[0] == "would be deleted: try/1"
    assert "try/1" in chronicle("branches")


def test_compact_and_backup(chronicle: Chronicle, tmp_path: Path) -> None:
    before = (tmp_path / "chronicle.store").stat().st_size
    found = json.loads(chronicle("compact", "--json"))
    assert found == {"before": before, "after": (tmp_path / "chronicle.store").stat().st_size}
    assert found["after"] < before
    copied = json.loads(chronicle("backup", "copy", "--json"))
    assert copied == {"path": "copy", "bytes": (tmp_path / "copy").stat().st_size}
    assert chronicle("log", "--store", "copy") == chronicle("log")


def test_deep_figures(chronicle: Chronicle) -> None:
    assert "deep" not in json.loads(chronicle("stats", "--json"))
    found = json.loads(chronicle("stats", "--deep", "--json"))["deep"]
    assert found["blobs"] == 1
    assert found["blob_bytes"] == 32 + len(b"\x04\x18application/octet-stream") + 6
    assert found["nodes"] > 5
    assert found["node_bytes"] > 32 * found["nodes"]
    doc, log = found["slots"]["doc"], found["slots"]["log"]
    assert 50 < doc["plain"] < 100 < doc["checkpoint"]
    assert log["plain"] == 0 < log["checkpoint"]
    shown = chronicle("stats", "--deep")
    assert "plain fields" in shown
    assert "blobs       1, 64 bytes" in shown
