"""Spoiled bytes for every decoder: only a `ChronicleError` may come out, soon, and without much memory.

`run` tries mutations of valid bytes on each target of `FUZZ_TARGETS`, in processes whose memory is limited and with a
limit on the time of each case. `run_guided` lets atheris, which sees what code a case reaches, look for cases; where it
is not installed (it has no wheels for some versions of Python) it says so, and counts none.
"""

from __future__ import annotations

import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from soak.apart import JOBS, TESTS, Job, Report, arguments_of, run_apart, workspace
from soak.decoders import FUZZ_TARGETS
from soak.fuzz_seeds import seeds, spoiled
from soak.result import Progress, Result, result, silent

NAME = "fuzz"
SLOW: Final = 2.0  # seconds of this process that a case may take
MEMORY: Final = 1 << 30  # bytes that all cases may take, above what the process has when it starts
_SLOWER: Final = 20  # times that a case which reads a whole store takes
_DONE = re.compile(r"Done (\d+) runs")
_SOME = re.compile(r"^#(\d+)\s", re.MULTILINE)


def run(count: int, seed: int, progress: Progress = silent) -> Result:
    """About `count` spoiled inputs, spread over all targets."""
    begun = time.monotonic()
    names = list(FUZZ_TARGETS)
    shares = [1 / _SLOWER if name.startswith("store ") else 1.0 for name in names]
    counts = {name: max(1, int(count * share / sum(shares))) for name, share in zip(names, shares, strict=True)}
    jobs = [
        Job("soak.fuzz:campaign", dict(arguments_of(counts={name: counts[name] for name in names[n::JOBS]}, seed=seed)))
        for n in range(JOBS)
    ]
    total = sum(counts.values())
    found = run_apart(jobs, total, progress)
    problems = [problem for part in found for problem in part["problems"]]
    figures = {"targets": len(names), "slowest case, seconds": max(part["slowest"] for part in found)}
    return result(NAME, total, problems, seed, time.monotonic() - begun, figures)


class TooSlow(Exception):
    """A case took longer than it may."""


def campaign(counts: dict[str, int], seed: int, report: Report) -> dict[str, Any]:
    """So many cases for each of these targets, in this process."""
    for name in counts:  # what is made once is made before the limit
        FUZZ_TARGETS[name](seeds(name)[0])
    limit_memory(MEMORY)
    signal.signal(signal.SIGVTALRM, _too_slow)
    problems: list[str] = []
    slowest, done = 0.0, 0
    for name, count in counts.items():
        chance = random.Random(f"{seed} {name}")
        known = seeds(name)
        for number in range(count):
            data = (
                known[number] if number < min(len(known), count // 4) else spoiled(chance, chance.choice(known), known)
            )
            took, problem = attempt(name, data)
            slowest = max(slowest, took)
            problems += [problem] if problem else []
            done += 1
            if done % 50 == 0:
                report(done)
    report(done)
    return {"problems": problems, "slowest": round(slowest, 2)}


def attempt(name: str, data: bytes) -> tuple[float, str]:
    """One case: how long it took, and what is wrong, or ""."""
    begun = time.process_time()
    signal.setitimer(signal.ITIMER_VIRTUAL, 4 * SLOW)
    problem = ""
    try:
        FUZZ_TARGETS[name](data)
    except Exception as error:
        problem = f"{name}: {type(error).__name__}: {str(error)[:200]}; the bytes: {data[:400].hex()}"
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    took = time.process_time() - begun
    if not problem and took > SLOW:
        problem = f"{name}: took {took:.1f} seconds; the bytes: {data[:400].hex()}"
    return took, problem


def _too_slow(*_: object) -> None:
    raise TooSlow(f"still at work after {4 * SLOW} seconds")


def limit_memory(more: int) -> None:
    """Lets this process take so many bytes more than it has; MemoryError comes of the next one."""
    status = Path("/proc/self/statm")
    if status.exists():
        now = int(status.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + more, resource.getrlimit(resource.RLIMIT_AS)[1]))


# --- guided by coverage -------------------------------------------------------------------------------------------


def guided_here() -> bool:
    """Whether atheris is installed."""
    return find_spec("atheris") is not None


def run_guided(seconds: float, seed: int, progress: Progress = silent) -> Result:
    """Each target under atheris, for its share of `seconds`; two at a time."""
    begun = time.monotonic()
    if not guided_here():
        why = "atheris is not installed; pip install 'chronicle-py[soak]'"
        return result("guided fuzz", 0, [], seed, 0.0, {"not run": why})
    names = list(FUZZ_TARGETS)
    each = max(2, int(seconds * JOBS / len(names)))
    done = 0
    with workspace(None) as home, ThreadPoolExecutor(JOBS) as pool:
        counts, problems = [], []
        for cases, problem in pool.map(lambda name: _guided(name, each, seed, home), names):
            done += 1
            progress(done, len(names))
            counts.append(cases)
            problems += [problem] if problem else []
    figures = {"targets": len(names), "seconds of each": each}
    return result("guided fuzz", sum(counts), problems, seed, time.monotonic() - begun, figures)


def _guided(name: str, seconds: int, seed: int, home: Path) -> tuple[int, str]:
    place = home / name.replace(" ", "-").replace(",", "")
    corpus = place / "corpus"
    corpus.mkdir(parents=True)
    for number, data in enumerate(seeds(name)):
        (corpus / f"seed {number}").write_bytes(data)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *(entry for entry in sys.path if entry)])}
    options = [
        f"-max_total_time={seconds}", f"-seed={seed + 1}", "-timeout=20", "-rss_limit_mb=2048", "-max_len=65536",
        "-print_final_stats=0", f"-artifact_prefix={place}/",
    ]  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "soak.guided", name, *options, str(corpus)],
        capture_output=True, text=True, errors="replace", env=environment, cwd=place,
    )  # fmt: skip
    said = done.stdout + done.stderr
    finished = _DONE.search(said)
    cases = int(finished[1]) if finished else max((int(n) for n in _SOME.findall(said)), default=0)
    if done.returncode == 0 and cases:
        return cases, ""
    found = [path.read_bytes()[:400].hex() for path in place.iterdir() if path.is_file()]
    return cases, f"{name}: exit {done.returncode}: {said[-1500:]}; the bytes: {found}"
