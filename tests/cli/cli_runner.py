"""Running the command inside the test's own process, in a folder of its own."""

from __future__ import annotations

import json
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.testing
from typer.testing import CliRunner, Result

import chronicle_py
from chronicle_py.cli.commands import app

ROOT = Path(__file__).parent.parent.parent
SAMPLE = ROOT / "docs" / "sample.traj.json"
COMMAND = [sys.executable, "-m", "chronicle_py.cli"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}  # of processes that run it


# Building the app's commands anew each time takes most of a test.
typer.testing._get_command = cache(typer.testing._get_command)  # type: ignore[attr-defined]


class Chronicle:
    """`chronicle` as a person sees it: what it prints, and how it ends."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._runner = CliRunner()

    def run(self, *args: str, input: str | bytes | None = None) -> Result:
        return self._runner.invoke(app, list(args), input=input, prog_name="chronicle")

    def __call__(self, *args: str, input: str | bytes | None = None) -> str:
        """The output of a command that must succeed, and says nothing on stderr."""
        done = self.run(*args, input=input)
        assert (done.exit_code, done.stderr) == (0, ""), f"{args}: {done.stderr}"
        return done.stdout

    def lines(self, *args: str, input: str | bytes | None = None) -> list[str]:
        return self(*args, input=input).splitlines()

    def json(self, *args: str, input: str | bytes | None = None) -> Any:
        return json.loads(self(*args, "--json", input=input))

    def fails(self, *args: str, code: int = 1, input: str | bytes | None = None) -> str:
        """The one line on stderr of a command that must fail."""
        done = self.run(*args, input=input)
        assert done.exit_code == code, f"{args}: {done.exit_code}, {done.stdout}{done.stderr}"
        assert done.stderr.endswith("\n")
        assert len(done.stderr.splitlines()) == 1, done.stderr
        assert "Traceback" not in done.stderr
        return done.stderr.strip()


def in_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Chronicle:
    """The command in an empty folder."""
    monkeypatch.chdir(folder)
    monkeypatch.delenv("CHRONICLE_STORE", raising=False)
    return Chronicle(folder)


def with_conversation(chronicle: Chronicle) -> Chronicle:
    """The command where a run of 12 messages was imported, and `other` leaves main after 6 with 2 of its own."""
    chronicle("import", str(SAMPLE))
    chronicle("fork", "other", "--at", "6")
    chronicle("say", "-b", "other", "Why?")
    chronicle("say", "-b", "other", "-p", "assistant", "Because.")
    return chronicle


def with_run(chronicle: Chronicle) -> Chronicle:
    """The command where a log of 12 items is, and `other` leaves main after 6 with 2 of its own."""
    with chronicle_py.open("chronicle.store", durability="relaxed") as store:
        store.register_state("messages", kind="append_log")
        view = store.branch().state("messages")
        for item in json.loads(SAMPLE.read_text())["history"]:
            view.append(item)
    chronicle("fork", "other", "--at", "6")
    chronicle("append", "-b", "other", "--slot", "messages", '{"role": "user", "content": "Why?"}')
    chronicle("append", "-b", "other", "--slot", "messages", '{"role": "assistant", "content": "Because."}')
    return chronicle
