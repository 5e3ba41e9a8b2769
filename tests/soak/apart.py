"""Runs functions of this package in interpreters of their own: with one thread, everything loaded, and free to fork.

A worker that is to be killed starts fastest as a fork of a process that has the library loaded already. A process with
threads (a test runner) must not fork, so each harness runs its campaigns apart:

    python -m soak.apart '{"function": "soak.kills:campaign", "arguments": {"count": 10, "seed": 1}}'

The function gets one more argument, `report`, which it calls with the number of cases done so far. Both that and what
it returns go to the standard output as lines of JSON.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from soak.result import Progress, silent

TESTS = Path(__file__).resolve().parent.parent
Report = Callable[[int], None]
JOBS = 2


class Job(msgspec.Struct):
    """One call: a function by its name, "module:function", and its arguments."""

    function: str
    arguments: dict[str, Any]


class Line(msgspec.Struct, omit_defaults=True):
    """What a job says."""

    done: int | None = None
    returned: Any = None


def run_apart(
    jobs: Sequence[Job], total: int, progress: Progress = silent, at_once: int = JOBS, limit: float = 3600.0
) -> list[Any]:
    """What the jobs return, `at_once` running at a time; RuntimeError, with what it wrote, for one that failed.

    `progress` hears the sum of what they have done; `limit`: seconds after which a job is ended.
    """
    counts = [0] * len(jobs)
    lock = threading.Lock()

    def report(number: int, done: int) -> None:
        with lock:
            counts[number] = done
            progress(sum(counts), total)

    with ThreadPoolExecutor(at_once) as pool:
        running = [pool.submit(_run, job, partial(report, number), limit) for number, job in enumerate(jobs)]
        return [future.result() for future in running]


def _run(job: Job, report: Report, limit: float) -> Any:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *(entry for entry in sys.path if entry)])}
    command = [sys.executable, "-m", "soak.apart", msgspec.json.encode(job).decode()]
    found: list[Any] = []
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=environment) as process,
    ):
        ending = threading.Timer(limit, process.kill)
        ending.start()
        assert process.stdout is not None
        for text in process.stdout:
            with suppress(msgspec.DecodeError):
                line = msgspec.json.decode(text, type=Line)
                if line.done is not None:
                    report(line.done)
                else:
                    found.append(line.returned)
        code = process.wait()
        ending.cancel()
        errors.seek(0)
        said = errors.read().decode(errors="replace")[-4000:]
    if code or not found:
        raise RuntimeError(f"{job.function} ended with {code}: {said}")
    return found[0]


def main() -> None:
    """Runs the job on the command line."""
    job = msgspec.json.decode(sys.argv[1], type=Job)
    module, name = job.function.split(":")
    function = getattr(import_module(module), name)

    def say(line: Line) -> None:
        sys.stdout.write(msgspec.json.encode(line).decode() + "\n")
        sys.stdout.flush()

    returned = function(**job.arguments, report=lambda done: say(Line(done=done)))
    say(Line(returned=returned))


@contextmanager
def workspace(folder: str | os.PathLike[str] | None) -> Iterator[Path]:
    """A folder for stores: the given one, or a new one that is removed afterwards."""
    if folder is not None:
        yield Path(folder)
        return
    with tempfile.TemporaryDirectory(prefix="chronicle-soak-") as made:
        yield Path(made)


def shares(count: int, parts: int) -> list[int]:
    """`count` in as many parts as there are jobs, as equal as can be."""
    parts = max(1, min(count, parts))
    return [count // parts + (number < count % parts) for number in range(parts)]


def seeds_of(seed: int, parts: int) -> Sequence[int]:
    """A seed for each part."""
    return [seed * 1000 + number for number in range(parts)]


def arguments_of(**given: Any) -> Mapping[str, Any]:
    """Arguments as JSON can hold them."""
    return {name: str(value) if isinstance(value, os.PathLike) else value for name, value in given.items()}


if __name__ == "__main__":
    main()
