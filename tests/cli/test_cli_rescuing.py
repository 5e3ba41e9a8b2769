"""The commands about damaged and old stores: verify, salvage, migrate."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_runner import Chronicle, in_folder, with_run

import chronicle_py
from chronicle_py.rescue.layout import PageFile
from chronicle_py.rescue.walk import walk


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Chronicle:
    return with_run(in_folder(tmp_path, monkeypatch))


def damage(path: Path, at: int) -> tuple[int, list[int]]:
    """Overwrites the leaf of events at an index with zeros; its page, and the sequences that were on it."""
    with PageFile(str(path)) as file:
        page = walk(file).leaves["events"][at]
        seqs = [int.from_bytes(node.key[4:], "big") for node in file.nodes(file.page(page) or b"")]
        start = page * file.page_size
        data = bytearray(path.read_bytes())
        data[start : start + file.page_size] = bytes(file.page_size)
    path.write_bytes(data)
    return page, seqs


def test_a_damaged_store_is_salvaged(run: Chronicle, tmp_path: Path) -> None:
    with chronicle_py.open("chronicle.store", durability="relaxed") as store, store.transaction():
        for n in range(600):
            store.branch().append("note", f"note {n} " * 20)
    page, seqs = damage(tmp_path / "chronicle.store", 12)
    assert f"first: page {page} (events)" in run.fails("verify")
    lines = run.lines("salvage", "chronicle.store", "new", "--leftovers", "left.jsonl")
    main = next(line for line in lines if line.startswith("main ")).split()
    assert main == ["main", "cut", str(seqs[0] - 1), f"{seqs[0]}-{seqs[-1]}", str(612 - seqs[-1])]
    assert f"{612 - seqs[-1]} events without a place are in left.jsonl" in lines
    assert len((tmp_path / "left.jsonl").read_text().splitlines()) == 612 - seqs[-1]
    assert run.lines("verify", "--store", "new")[-1] == "ok: everything agrees"
    found = run.json("salvage", "chronicle.store", "other")
    assert (found["whole"], found["branches"][0]["name"], found["branches"][0]["outcome"]) == (False, "main", "cut")
    assert found["branches"][0]["lost"] == [[seqs[0], seqs[-1]]]


def test_what_salvage_refuses(run: Chronicle, tmp_path: Path) -> None:
    (tmp_path / "rubbish").write_bytes(b"rubbish" * 2000)
    assert "exists already" in run.fails("salvage", "chronicle.store", "rubbish")
    assert "there is no store at nothing" in run.fails("salvage", "nothing", "new")
    assert "no LMDB file" in run.fails("salvage", "rubbish", "new")
    assert not (tmp_path / "new").exists()


def test_migrating_what_is_new(run: Chronicle) -> None:
    assert run.json("migrate") == {"path": "chronicle.store", "from": 2, "to": 2}
    assert "there is no store at nothing" in run.fails("migrate", "nothing")
