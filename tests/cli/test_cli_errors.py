"""What goes wrong: the exit code, one line on stderr, and a store that is as it was."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from cli_runner import COMMAND, ENVIRONMENT, SAMPLE, Chronicle, in_folder, with_run

import chronicle_py
from chronicle_py import Store

PIPE = subprocess.PIPE


@pytest.fixture
def chronicle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Chronicle:
    return in_folder(tmp_path, monkeypatch)


@pytest.fixture
def run(chronicle: Chronicle) -> Chronicle:
    return with_run(chronicle)


NEEDS_A_STORE = [
    ("append", "note", "1"), ("log",), ("log", "--all"), ("follow",), ("show", "1"), ("branches",), ("fork", "x"),
    ("orphan", "x"), ("rewind", "1"), ("reflog",), ("delete-branch", "x"), ("restore-branch", "x"), ("slots",),
    ("state", "messages"), ("slots", "--add", "x", "--kind", "value"), ("diff", "messages", "1", "2"),
    ("blob", "put", __file__), ("blob", "get", "abcdef"), ("replay",), ("verify",), ("stats",), ("export",),
]  # fmt: skip


@pytest.mark.parametrize("args", NEEDS_A_STORE, ids=" ".join)
def test_a_store_that_is_not_there_is_not_made(chronicle: Chronicle, args: Sequence[str], tmp_path: Path) -> None:
    line = chronicle.fails(*args)
    assert line.startswith("chronicle: there is no store at chronicle.store; make one with `chronicle init`")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("args", [("init",), *NEEDS_A_STORE], ids=" ".join)
def test_a_file_that_is_no_store_is_left_alone(chronicle: Chronicle, args: Sequence[str], tmp_path: Path) -> None:
    (tmp_path / "x").write_text("no store at all" * 100)
    assert "no LMDB file" in chronicle.fails(*args, "--store", "x")
    assert (tmp_path / "x").read_text() == "no store at all" * 100


FAILURES = [
    (("log", "-b", "nope"), "no branch 'nope'"),
    (("log", "--at", "13"), "sequences 0 to 12"),
    (("log", "--at", "abcdef"), "no event has an id that starts with 'abcdef'"),
    (("log", "--slot", "nope"), "no slot 'nope'"),
    (("follow", "--from", "12"), "'12' is no position"),
    (("follow", "--from", "1.2-0123456789abcdef"), "is a position in another store"),
    (("follow", "-b", "a\nb"), "control characters"),
    (("show", "13"), "sequences 0 to 12"),
    (("show", "0"), "before its first event"),
    (("show", "999999"), "no event has an id that starts with '999999'"),
    (("show", "1", "-b", "nope"), "no branch 'nope'"),
    (("fork", "other"), "a branch 'other' already"),
    (("fork", "a\nb"), "control characters"),
    (("fork", "x" * 300), "255 bytes"),
    (("fork", "x", "--at", "13"), "sequences 0 to 12"),
    (("fork", "x", "-b", "nope"), "no branch 'nope'"),
    (("orphan", "main"), "a branch 'main' already"),
    (("rewind", "13"), "sequences 0 to 12"),
    (("rewind", "abcdef0123"), "no event"),
    (("reflog", "-b", "nope"), "no branch 'nope'"),
    (("delete-branch", "main"), "cannot be deleted"),
    (("delete-branch", "nope"), "no branch 'nope'"),
    (("restore-branch", "nope"), "no branch 'nope' was deleted"),
    (("restore-branch", "other"), "a branch 'other' already"),
    (("slots", "--add", "x", "--kind", "queue"), "'queue'"),
    (("slots", "--add", "messages", "--kind", "value"), "registered already"),
    (("slots", "--add", "a//b", "--kind", "value"), "non-empty components"),
    (("slots", "--add", "x", "--kind", "tree", "--initial", "[]"), "is a dict"),
    (("state", "nope"), "no slot 'nope'"),
    (("state", "messages", "-b", "nope"), "no branch 'nope'"),
    (("state", "messages", "--at", "13"), "sequences 0 to 12"),
    (("diff", "nope", "1", "2"), "no slot 'nope'"),
    (("diff", "messages", "1", "13"), "sequences 0 to 12"),
    (("replay", "nope"), "no slot 'nope'"),
    (("replay", "-b", "nope"), "no branch 'nope'"),
    (("append", "state.set", "1"), "the engine's own"),
    (("append", "", "1"), "may not be empty"),
    (("append", "note", "1", "-b", "nope"), "no branch 'nope'"),
    (("append", "note", "1", "--slot", "messages"), "branch.state('messages')"),
    (("append", "--slot", "nope", "1"), "no slot 'nope'"),
    (("append", "note", "1", "--expect", "abcdef"), "no event"),
    (("append", "note", "1", "--caused-by", "abcdef"), "no event"),
    (("append", "note", '{"$blob": "' + "ab" * 32 + '"}'), "put_blob it first"),
    (("blob", "put", "nowhere"), "nowhere: No such file or directory"),
    (("blob", "put", str(SAMPLE), "--media-type", ""), "a media type is"),
    (("blob", "get", "abcdef"), "no blob"),
    (("blob", "get", "ab"), "6 to 64 hex digits"),
    (("import", "nowhere"), "nowhere: No such file or directory"),
    (("import", str(SAMPLE), "-b", "-x"), "does not start with '-'"),
    (("import", str(SAMPLE), "--format", "word"), "no format 'word'"),
    (("import", str(SAMPLE), "--format", "chatgpt"), "not of the form 'chatgpt'"),
    (("messages",), "no conversation in"),
    (("compile",), "no conversation in"),
    (("pins",), "no conversation in"),
    (("import", str(SAMPLE), "--prefix", "x"), "brings no branches"),
    (("import", __file__), "line 1: is no JSON"),
    (("export", "-b", "nope"), "no branch 'nope'"),
    (("export", "-o", "nowhere/x"), "No such file or directory"),
    (("init", "-s", "nowhere/x"), "does not exist"),
]


@pytest.mark.parametrize(("args", "message"), FAILURES, ids=[" ".join(args)[:40] for args, _ in FAILURES])
def test_what_cannot_be_done_is_one_line_and_changes_nothing(run: Chronicle, args: Sequence[str], message: str) -> None:
    before = run("export"), run("stats", "--json")
    line = run.fails(*args)
    assert line.startswith("chronicle: ")
    assert message in line
    assert (run("export"), run("stats", "--json")) == before


USAGE = [
    (("nope",), "No such command 'nope'"),
    (("log", "--nope"), "--nope"),
    (("log", "--limit", "x"), "--limit"),
    (("log", "--limit", "-1"), "--limit"),
    (("log", "x"), "unexpected extra argument"),
    (("log", "--all", "--at", "3"), "--all shows whole branches"),
    (("log", "--at", "xyz"), "'xyz' is no place"),
    (("show",), "PLACE"),
    (("show", "abc"), "'abc' is no place"),
    (("show", "-b"), "-b"),
    (("fork",), "NAME"),
    (("fork", "x", "--at", "2.5"), "'2.5' is no place"),
    (("orphan",), "NAME"),
    (("rewind",), "PLACE"),
    (("rewind", "-1"), "-1"),
    (("reflog", "x"), "unexpected extra argument"),
    (("delete-branch",), "NAME"),
    (("restore-branch",), "NAME"),
    (("slots", "--kind", "value"), "--add SLOT"),
    (("slots", "--add", "x"), "--add takes a kind"),
    (("slots", "--add", "x", "--kind", "value", "--initial", "{"), "this is no JSON"),
    (("state",), "SLOT"),
    (("diff", "messages", "1"), "B"),
    (("diff", "messages", "1", "!"), "'!' is no place"),
    (("replay", "a", "b"), "unexpected extra argument"),
    (("append",), "TYPE"),
    (("append", "note"), "an event takes a TYPE and JSON"),
    (("append", "note", "hello"), "a text needs its own quotes"),
    (("append", "note", '{"a": 1'), "this is no JSON"),
    (("append", "note", "1" * 30), "JSON"),
    (("append", "note", '{"$blob": "x"}'), "64 hex digits"),
    (("blob", "nope"), "No such command 'nope'"),
    (("blob", "put"), "FILE"),
    (("blob", "get"), "ID"),
    (("import",), "FILE"),
    (("export", "x"), "unexpected extra argument"),
    (("verify", "x"), "unexpected extra argument"),
    (("stats", "x"), "unexpected extra argument"),
    (("init", "x"), "unexpected extra argument"),
    (("branches", "x"), "unexpected extra argument"),
]


@pytest.mark.parametrize(("args", "message"), USAGE, ids=[" ".join(args)[:40] for args, _ in USAGE])
def test_wrong_usage_is_one_line_that_names_the_help(run: Chronicle, args: Sequence[str], message: str) -> None:
    line = run.fails(*args, code=2)
    assert message in line
    assert "--help`" in line


def test_a_bad_import_makes_no_half_store(chronicle: Chronicle, tmp_path: Path) -> None:
    chronicle.fails("import", "nowhere.json")
    assert list(tmp_path.iterdir()) == []


def test_an_import_with_many_bad_records_is_still_one_line(run: Chronicle) -> None:
    line = run.fails("import", "-", "--strict", input="[" + ",".join(['{"role": 1}'] * 50) + "]")
    assert "50 bad records, nothing was imported: item 0: a message has a role" in line
    assert "without --strict" in line


def test_a_replay_that_differs_is_a_failure(run: Chronicle, monkeypatch: pytest.MonkeyPatch) -> None:
    from chronicle_py.branch import Branch, Replay

    monkeypatch.setattr(Branch, "replay", lambda self, slot, progress=None: Replay(slot, "ab" * 32, "cd" * 32, 3, 0.5))
    assert "messages" in run.fails("replay")
    assert "DIFFERS from cdcdcdcdcd" in run.run("replay").stdout


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (KeyboardInterrupt(), 130, "chronicle: interrupted"),
        (RuntimeError("odd\nthings"), 1, "chronicle: unexpected RuntimeError: odd things. Please report it"),
        (OSError(errno.ENOSPC, "No space left on device", "x"), 1, "chronicle: x: No space left on device"),
        (RecursionError("too deep"), 1, "chronicle: unexpected RecursionError"),
    ],
)
def test_nothing_ends_in_a_traceback(
    run: Chronicle, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, line: str
) -> None:
    def fail(self: Store, *, deep: bool = False) -> Any:
        raise error

    monkeypatch.setattr(Store, "stats", fail)
    assert run.fails("stats", code=code).startswith(line)


# --- as a process of its own ----------------------------------------------------------------------------------------


def spawn(*args: str, **options: str) -> subprocess.CompletedProcess[str]:
    env = {**ENVIRONMENT, **options}
    return subprocess.run([*COMMAND, *args], capture_output=True, text=True, check=False, env=env)


def test_the_process_ends_with_the_code(run: Chronicle) -> None:
    done = spawn("log", "-n", "1")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("⋮ 11 more\n")
    done = spawn("log", "-b", "nope")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    done = spawn("log", "--nope")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1


def test_a_reader_that_goes_away_is_no_error(run: Chronicle) -> None:
    with chronicle_py.open("chronicle.store") as store, store.transaction():
        view = store.branch().state("messages")
        for i in range(3000):
            view.append({"role": "user", "content": f"{i} " * 50})
    for args in (["log", "-n", "0"], ["export"], ["log", "--json", "-n", "0"]):
        with subprocess.Popen([*COMMAND, *args], stdout=PIPE, stderr=PIPE, env=ENVIRONMENT) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.read(10)
            process.stdout.close()
            assert (process.wait(20), process.stderr.read()) == (141, b"")


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_ctrl_c_is_one_line(run: Chronicle, tmp_path: Path) -> None:
    line = [*COMMAND, "import", "-", "-s", "new"]
    with subprocess.Popen(line, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=ENVIRONMENT) as process:
        assert process.stderr is not None
        while process.poll() is None and not (tmp_path / "new").exists():  # then it waits for its input
            time.sleep(0.02)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        assert process.stderr.read() == b"chronicle: interrupted\n"
    assert run.json("stats", "-s", "new")["events"] == 0


def test_a_terminal_that_cannot_show_the_letters_is_no_error(run: Chronicle) -> None:
    done = spawn("log", "--all", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\n| *  7 " in done.stdout
    assert "\n|-'\n" in done.stdout


def test_a_terminal_gets_colours_and_a_file_none(run: Chronicle, tmp_path: Path) -> None:
    pty = pytest.importorskip("pty")
    leader, follower = pty.openpty()
    env = {**ENVIRONMENT, "TERM": "xterm"}
    with subprocess.Popen([*COMMAND, "log"], stdout=follower, stderr=follower, env=env) as process:
        assert process.wait(20) == 0
    os.close(follower)
    assert b"\x1b[33m" in os.read(leader, 10_000)
    os.close(leader)
    assert "\x1b" not in spawn("log").stdout


def test_help_does_not_wait_for_what_it_does_not_need() -> None:
    code = """
import sys
from chronicle_py.cli import main
try:
    main()
finally:
    print("rich" in sys.modules, file=sys.stderr)
"""
    line = [sys.executable, "-c", code, "--help"]
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=ENVIRONMENT)
    assert done.stderr == "False\n"
