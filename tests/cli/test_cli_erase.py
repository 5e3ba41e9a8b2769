"""`chronicle erase`, and how other commands show what was erased."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_runner import Chronicle, in_folder, with_conversation

import chronicle_py

SECRET = "Ottilie-Quandt"


@pytest.fixture
def chronicle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Chronicle:
    return in_folder(tmp_path, monkeypatch)


@pytest.fixture
def logged(chronicle: Chronicle) -> Chronicle:
    with chronicle_py.open("chronicle.store") as store:
        store.register_state("log", kind="append_log")
        log = store.branch().state("log")
        log.append("first")
        log.append({"who": SECRET})
        store.branch().append("note", SECRET)
    return chronicle


def held() -> bool:
    return SECRET.encode() in Path("chronicle.store").read_bytes()


def test_an_event_is_erased_and_says_so_from_then_on(logged: Chronicle) -> None:
    said = logged("erase", "2", "--reason", "asked for", "--yes")
    assert said.splitlines()[0].startswith("erased: ")
    assert said.splitlines()[1] == "the bytes leave the file with `chronicle compact`"
    assert "log state.append erased: asked for" in logged("log")
    shown = logged("show", "2").splitlines()
    assert shown[-1].startswith("erased      asked for (")
    assert logged.json("show", "2")["payload"]["$erased"]["reason"] == "asked for"
    assert "erased: asked for" in logged("state", "log")
    assert logged.json("erase", "3", "--reason", "asked for", "--yes", "--compact")["places"] == 1
    assert not held()
    assert logged("verify", "--deep").endswith("ok: everything agrees\n")
    assert "was erased before" in logged("erase", "3", "--reason", "again", "-y")


def test_diff_shows_what_was_erased(logged: Chronicle) -> None:
    logged("erase", "2", "--reason", "asked for", "--yes")
    assert "erased" in logged("diff", "log", "1", "2")


def test_a_message_goes_with_its_edits(chronicle: Chronicle) -> None:
    with_conversation(chronicle)
    id = chronicle.json("say", SECRET)["id"]
    chronicle("pin", id, "--name", SECRET)
    found = chronicle.json("erase", id, "--reason", "asked for", "--yes", "--compact")
    assert (found["id"], found["pins"], found["edits"]) == (id, 1, 0)
    assert not held()
    assert SECRET not in chronicle("messages")
    assert chronicle("verify", "--deep").endswith("ok: everything agrees\n")


def test_nothing_is_erased_without_a_word(logged: Chronicle, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "--yes" in logged.fails("erase", "2", "--reason", "x", code=2)
    assert "--reason" in logged.fails("erase", "2", code=2)
    assert "may not be empty" in logged.fails("erase", "2", "--reason", "", "--yes")
    assert "no event" in logged.fails("erase", "abcdefabcdef", "--reason", "x", "--yes")
    monkeypatch.setattr("chronicle_py.cli.erasing._is_asked", lambda: True)
    refused = logged.run("erase", "2", "--reason", "x", input="n\n")
    assert refused.exit_code == 1
    assert "nothing was erased" in refused.stderr
    assert SECRET in refused.stdout
    assert SECRET in logged("show", "2")
    assert logged.run("erase", "2", "--reason", "x", input="y\n").exit_code == 0
    assert SECRET not in logged("show", "2")
