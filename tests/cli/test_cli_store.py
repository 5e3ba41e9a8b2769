"""The commands about a store as a whole and about files: init, stats, verify, import, export. And help."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from cli_runner import SAMPLE, Chronicle, in_folder, with_run

import chronicle_py

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


# --- the store ------------------------------------------------------------------------------------------------------


def test_init_makes_a_store_once(chronicle: Chronicle) -> None:
    assert chronicle("init").startswith("made a store: ")
    assert chronicle("init").startswith("there is a store already: ")
    with store() as opened:
        assert [info.name for info in opened.branches()] == ["main"]


def test_init_makes_a_folder_where_the_path_ends_so(chronicle: Chronicle, tmp_path: Path) -> None:
    found = chronicle.json("init", "--store", "data/")
    assert found["created"] is True
    assert found["path"] == str(tmp_path / "data" / "chronicle.lmdb")
    assert chronicle.json("init", "-s", "data")["created"] is False


def test_the_store_can_be_named_by_the_environment(chronicle: Chronicle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHRONICLE_STORE", "elsewhere")
    chronicle("import", str(SAMPLE))
    assert Path("elsewhere").is_file()
    assert not Path(STORE).exists()
    assert chronicle.json("stats")["events"] == 12


def test_stats_counts(run: Chronicle) -> None:
    found = run.json("stats")
    assert (found["events"], found["branches"], found["slots"], found["format"]) == (14, 2, 1, 2)
    assert found["keyspaces"]["ids"]["entries"] == 14
    text = run("stats")
    assert re.search(r"^events +14$", text, re.MULTILINE)
    assert re.search(r"^ids +14 +4\.0 KiB$", text, re.MULTILINE)


@pytest.mark.parametrize("deep", [(), ("--deep",)])
def test_verify_says_that_all_is_well(run: Chronicle, deep: tuple[str, ...]) -> None:
    assert run.lines("verify", *deep)[-1] == "ok: everything agrees"
    found = run.json("verify", *deep)
    assert (found["ok"], found["deep"], found["problems"]) == (True, bool(deep), [])
    assert found["checked"]["events"] == 14


def test_verify_names_what_is_wrong(run: Chronicle) -> None:
    path = Path(STORE)
    data = path.read_bytes()
    assert data.count(b"Because.") == 1
    path.write_bytes(data.replace(b"Because.", b"Becausf."))
    assert run.fails("verify") == "chronicle: 1 problem found in chronicle.store, first: events 2/8"
    done = run.run("verify")
    assert "events 2/8" in done.stdout
    assert "do not hash to its id" in done.stdout
    assert json.loads(run.run("verify", "--json").stdout)["problems"][0]["where"] == "events 2/8"


# --- exchange -------------------------------------------------------------------------------------------------------


def test_import_brings_a_conversation(chronicle: Chronicle) -> None:
    assert chronicle.lines("import", str(SAMPLE)) == [
        "imported: SWE-agent trajectory, 12 new messages", "  1 new slot", "  branch main moved",
    ]  # fmt: skip
    found = chronicle.json("messages")
    assert [message["participant"] for message in found[:4]] == ["system", "user", "assistant", "tool"]
    assert found[1]["blocks"] == [{"type": "text", "text": MESSAGES[1]["content"]}]
    again = chronicle.lines("import", str(SAMPLE))
    assert again[0] == "imported: SWE-agent trajectory, 0 new messages, 12 were there already"


def test_import_reads_the_standard_input(chronicle: Chronicle) -> None:
    found = chronicle.json("import", "-", input='[{"role": "user", "content": "é"}]')
    assert found == {
        "form": "chat messages", "events": 1, "known": 0, "slots": 1, "blobs": 0, "branches": {"main": "moved"},
        "faults": [], "current": "main",
    }  # fmt: skip


def test_import_leaves_bad_records_out_unless_it_is_strict(chronicle: Chronicle) -> None:
    text = '[{"role": "user", "content": "a"}, {"role": 1}, {"role": "user", "content": "b"}]'
    assert "item 1: a message has a role" in chronicle.fails("import", "-", "--strict", input=text)
    assert not chronicle.json("log")
    lines = chronicle.lines("import", "-", input=text)
    assert lines[0] == "imported: chat messages, 2 new messages"
    assert lines[-1].startswith("  bad record, item 1: ")


def test_import_knows_the_form_or_is_told(chronicle: Chronicle) -> None:
    text = '{"type": "user", "role": "user", "content": "a", "message": {"role": "user", "content": "b"}}'
    assert chronicle.json("import", "-", input=text)["form"] == "Claude Code session"
    assert chronicle.json("import", "-", "--format", "openai", input=text)["form"] == "chat messages"
    assert "no format 'word'" in chronicle.fails("import", "-", "--format", "word", input=text)


def test_import_says_which_branches_came_of_it(chronicle: Chronicle) -> None:
    fork = [("u", None, "user", "a"), ("x", "u", "assistant", "b"), ("y", "u", "assistant", "c")]
    text = "\n".join(
        json.dumps({"type": role, "uuid": id, "parentUuid": parent, "message": {"role": role, "content": said}})
        for id, parent, role, said in fork
    )
    assert chronicle.lines("import", "-", input=text)[2:] == ["  branch main moved (current)", "  branch main-2 is new"]


def test_import_to_a_branch(chronicle: Chronicle) -> None:
    chronicle("init")
    chronicle("orphan", "second")
    chronicle("import", str(SAMPLE), "-b", "second")
    chronicle("import", "-", "-b", "third", input='[{"role": "user", "content": "x"}]')
    assert [info["seq"] for info in chronicle.json("branches")] == [0, 12, 1]


def test_what_is_exported_is_imported_with_the_same_ids(run: Chronicle) -> None:
    run("export", "--output", "all.jsonl")
    told = run.lines("import", "all.jsonl", "-s", "copy")
    assert told == [
        "imported: chronicle export, 14 new events", "  1 new slot", "  branch main moved", "  branch other is new",
    ]  # fmt: skip
    assert run.json("log", "--all", "-n", "0", "-s", "copy") == run.json("log", "--all", "-n", "0")
    again = run.lines("import", "all.jsonl", "-s", "copy")
    assert again[0] == "imported: chronicle export, 0 new events, 14 were there already"
    assert again[1:] == ["  branch main is as it was", "  branch other is as it was"]


def test_export_writes_to_stdout_some_branches_only(run: Chronicle) -> None:
    records = [json.loads(line) for line in run.lines("export", "-b", "other")]
    assert [r["name"] for r in records if r["record"] == "branch"] == ["other"]
    assert sum(r["record"] == "event" for r in records) == 8
    assert run("export", "-b", "other", "-b", "main") == run("export")


def test_an_export_that_fails_leaves_no_file(run: Chronicle, tmp_path: Path) -> None:
    run.fails("export", "-b", "nope", "-o", "x.jsonl")
    run.fails("export", "-o", "no/folder/x.jsonl")
    assert not [path for path in tmp_path.iterdir() if "x.jsonl" in path.name]


def test_an_export_may_go_to_a_device(run: Chronicle) -> None:
    run("export", "-o", os.devnull)
    assert not Path(os.devnull).is_file()


def test_import_with_a_prefix(run: Chronicle) -> None:
    run("export", "-o", "all.jsonl")
    run("rewind", "6")
    run("append", "note", "1")
    assert "--prefix" in run.fails("import", "all.jsonl")
    run("import", "all.jsonl", "--prefix", "old/")
    assert [info["name"] for info in run.json("branches")] == ["main", "old/main", "old/other", "other"]


# --- help -----------------------------------------------------------------------------------------------------------

COMMANDS = (
    "init", "import", "append", "log", "show", "branches", "fork", "orphan", "rewind", "reflog", "delete-branch",
    "restore-branch", "slots", "state", "diff", "blob", "replay", "verify", "stats", "export", "messages", "say",
    "compile", "context-stats", "pin", "unpin", "pins", "summarize", "search",
)  # fmt: skip


def test_help_lists_every_command_by_section(chronicle: Chronicle) -> None:
    text = chronicle("--help")
    assert text == chronicle() == chronicle("-h")
    for name in COMMANDS:
        assert re.search(rf"^  {name} +[A-Z].*\.$", text, re.MULTILINE), name
    sections = ("Conversation:", "Looking:", "Writing:", "Branches:", "State:", "Exchange:", "The store:")
    assert [line for line in text.splitlines() if line in sections] == list(sections)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_commands_help_teaches_by_example(chronicle: Chronicle, name: str) -> None:
    assert f"chronicle {name}" in chronicle(name, "--help").replace("Usage: chronicle", "")


def test_version(chronicle: Chronicle) -> None:
    assert chronicle("--version") == f"chronicle {chronicle_py.__version__}\n"
