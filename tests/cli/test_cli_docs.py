"""docs/cli.md: its commands are run in order and must print what the page shows, but for ids, times and figures."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cli_runner import ENVIRONMENT, SAMPLE, Chronicle, in_folder

PAGE = Path(__file__).parent.parent.parent / "docs" / "cli.md"
COMMANDS = (
    "init", "import", "append", "log", "follow", "show", "branches", "fork", "orphan", "rewind", "reflog",
    "delete-branch", "restore-branch", "slots", "state", "diff", "blob", "replay", "verify", "stats", "export",
    "messages", "say", "compile", "context-stats", "summarize", "search", "pin", "pins", "unpin",
    "index", "indexes", "find", "gc", "compact", "backup", "erase", "salvage", "migrate",
)  # fmt: skip


def sessions() -> list[tuple[str, str]]:
    """The commands of the page, each with the output that is shown."""
    found: list[tuple[str, str]] = []
    for block in re.findall(r"^```console\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            found.append((command, shown))
    return found


def likened(text: str, folder: str = "/home/you") -> str:
    """The text without what differs from run to run."""
    text = text.replace(folder, "FOLDER")
    text = re.sub(r"\b[0-9a-f]{10,64}\b", "ID", text)
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d\d:\d\d", "TIME", text)
    text = re.sub(r"\d+\.\d{3} s, [\d,]+ events/s", "SPEED", text)
    text = re.sub(r"\b\d+\.\d KiB", "SIZE", text)
    return re.sub(r"\b\d{16}\b", "TIME", text)


def test_the_page_shows_every_command() -> None:
    shown = " ".join(command for command, _ in sessions())
    for name in COMMANDS:
        assert f"chronicle {name}" in shown, name


def test_the_page_shows_what_the_commands_print(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chronicle: Chronicle = in_folder(tmp_path, monkeypatch)
    shutil.copy(SAMPLE, tmp_path)
    (tmp_path / "chronicle").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m chronicle_py.cli "$@"\n')
    (tmp_path / "chronicle").chmod(0o755)
    for command, shown in sessions():
        if "|" in command:
            line = ["sh", "-c", f"PATH=.:$PATH; {command}"]
            printed = subprocess.run(line, env=ENVIRONMENT, capture_output=True, text=True, check=True).stdout
        else:
            printed = chronicle(*shlex.split(command)[1:])
        assert likened(printed, str(tmp_path)) == likened(shown), command
