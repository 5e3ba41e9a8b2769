"""Scripts that run in an interpreter of their own: what may crash, fork or be killed, or takes limits of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from textwrap import dedent

PRELUDE = """
import os, sys, threading, time
import chronicle_py as chronicle
path = sys.argv[1]
def fill(store, items):
    store.register_state("log", kind="append_log")
    log = store.branch().state("log")
    for item in items:
        log.append(item)
    return log
def waited(child):
    assert os.waitpid(child, 0)[1] == 0, "the child failed"
def check(store):
    report = store.verify(deep=True)
    assert report.ok, report.problems
"""
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}


def run(script: str, *arguments: object, before: Sequence[str] = ()) -> str:
    """What a script, begun by PRELUDE, prints; it must end well. `before`: a command that runs it."""
    done = subprocess.run(
        [*before, sys.executable, "-c", PRELUDE + dedent(script), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        env=ENVIRONMENT,
    )
    assert done.returncode == 0, f"exit {done.returncode}: {done.stderr[-2000:]}"
    return done.stdout


def start(script: str, *arguments: object) -> subprocess.Popen[str]:
    """Such a script, running, with pipes for its input and output."""
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + dedent(script), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )


def say(process: subprocess.Popen[str], line: str = "go") -> None:
    """Sends it a line."""
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()


def hear(process: subprocess.Popen[str]) -> str:
    """The next line it prints."""
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


def rest(process: subprocess.Popen[str]) -> str:
    """Closes its input, returns what it prints until it ends. (`communicate` would lose what `hear` has buffered.)"""
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        with suppress(BrokenPipeError):
            process.stdin.close()
        return process.stdout.read()


def ended(*processes: subprocess.Popen[str]) -> list[str]:
    """What they still print; all must end well."""
    outputs = [rest(process) for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes)
    return outputs
