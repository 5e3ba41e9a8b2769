"""Many processes and threads on one store at once: nothing lost, nothing torn, and a file that does not grow for ever.

- `crowd`: writers append to one branch, or each to its own, while readers check all along that what they see is whole,
  others fork and delete branches, and further writers are killed in the midst.
- `killed_reader`: a reader dies with a snapshot open; the file must stop growing while a writer goes on.
- `forked`, `threads`, `tasks`: fork() with an open store, threads on one `Store`, asyncio tasks.

Each runs in a process of its own with one thread, from which the others are forked.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import chronicle_py as chronicle
from chronicle_py import Branch, ChronicleError, InvalidOperation, Store
from soak.apart import Job, Report, arguments_of, run_apart, workspace
from soak.programs import furnish
from soak.result import Progress, Result, result, silent

NAME = "processes"
WRITERS: Final = 8
_GROWN: Final = 16 << 20  # bytes that a file may have grown by while a dead reader was not noticed yet


def run(count: int, seed: int, progress: Progress = silent, *, folder: str | os.PathLike[str] | None = None) -> Result:
    """`count` appends by each of eight writers, on one branch and on eight; and what else the module says."""
    begun = time.monotonic()
    commits = max(3000, 10 * count)
    kinds: dict[str, tuple[str, dict[str, Any], int]] = {
        "one branch": ("crowd", {"count": count, "seed": seed, "branches": 1}, WRITERS * count),
        "eight branches": ("crowd", {"count": count, "seed": seed + 1, "branches": WRITERS}, WRITERS * count),
        "killed reader": ("killed_reader", {"commits": commits, "seed": seed}, commits),
        "fork, threads and tasks": ("together", {"count": count, "seed": seed}, 3 * WRITERS * count),
    }
    total = sum(cases for _, _, cases in kinds.values())
    with workspace(folder) as home:
        jobs = []
        for name, (function, arguments, _) in kinds.items():
            place = home / name.replace(" ", "-")
            place.mkdir()
            jobs.append(Job(f"soak.processes:{function}", dict(arguments_of(folder=place, **arguments))))
        found = run_apart(jobs, total, progress)
    problems = [f"{name}: {what}" for name, part in zip(kinds, found, strict=True) for what in part["problems"]]
    figures = {name: part["figures"] for name, part in zip(kinds, found, strict=True)}
    return result(NAME, sum(part["cases"] for part in found), problems, seed, time.monotonic() - begun, figures)


def _opened(folder: str) -> Store:
    return chronicle.open(Path(folder) / "store", durability="relaxed")


class _Children:
    """Forked processes. Each runs a function on a store of its own; what it raises is a problem."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self.running: dict[int, str] = {}
        self.problems: list[str] = []

    def start(self, name: str, act: Callable[[Store], object]) -> int:
        child = os.fork()
        if child == 0:
            code = 0
            try:
                with _opened(str(self._folder)) as store:
                    furnish(store)
                    act(store)
            except BaseException as error:
                (self._folder / f"failed {os.getpid()}").write_text(f"{name}: {type(error).__name__}: {error}")
                code = 1
            os._exit(code)
        self.running[child] = name
        return child

    def wait(self, child: int, killed: bool = False) -> None:
        _, status = os.waitpid(child, 0)
        name = self.running.pop(child)
        if killed and os.WIFSIGNALED(status):
            return
        if status:
            said = self._folder / f"failed {child}"
            self.problems.append(said.read_text() if said.exists() else f"{name} ended with status {status}")


# --- many writers -------------------------------------------------------------------------------------------------


def crowd(count: int, seed: int, branches: int, folder: str, report: Report) -> dict[str, Any]:
    """Eight writers on this many branches, with readers, forkers and killed writers among them."""
    chance = random.Random(seed)
    with _opened(folder) as store:
        furnish(store)
        for number in range(1, branches):
            store.branch().fork(f"own {number}")
    names = ["main", *(f"own {number}" for number in range(1, branches))]
    children = _Children(folder)
    over = Path(folder) / "over"
    writers = [
        children.start(f"writer {n}", partial(_write, name=names[n % branches], number=n, count=count))
        for n in range(WRITERS)
    ]
    others = [children.start(f"reader {n}", lambda store: _read(store, names, over)) for n in range(2)]
    others += [children.start("forker", lambda store: _fork_and_delete(store, names, seed, over))]
    kills = 0
    while any(_alive(writer) for writer in writers):
        victim = children.start("victim", lambda store: _write(store, names[0], -1, 1 << 30))
        time.sleep(chance.uniform(0.0, 0.06))
        os.kill(victim, signal.SIGKILL)
        children.wait(victim, killed=True)
        kills += 1
    for writer in writers:
        children.wait(writer)
        report(count * (WRITERS - len([w for w in writers if w in children.running])))
    over.touch()
    for other in others:
        children.wait(other)
    problems = children.problems
    with _opened(folder) as store:
        furnish(store)
        for number in range(WRITERS):
            branch = store.branch(names[number % branches])
            mine = [item[1] for item in branch.state("log") if item[0] == number]
            if mine != list(range(count)):
                problems.append(f"writer {number}: {len(mine)} of its {count} appends are there, in order or not")
        for name in names:
            branch = store.branch(name)
            if [event.seq for event in branch.events()] != list(range(1, branch.seq + 1)):
                problems.append(f"branch {name}: its sequences have holes")
            if not branch.replay("log").equal or not branch.replay("tally").equal:
                problems.append(f"branch {name}: a replay leads to another state")
        problems += [str(problem) for problem in store.verify(deep=True).problems]
        events = store.stats().events
    figures = {"writers killed in the midst": kills, "events": events}
    return {"cases": WRITERS * count, "problems": problems, "figures": figures}


def _alive(child: int) -> bool:
    """Whether a child still runs; it is not reaped."""
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


def _write(store: Store, name: str, number: int, count: int) -> None:
    branch = store.branch(name)
    log = branch.state("log")
    for n in range(count):
        if n % 20 == 7:
            with store.transaction():
                event = log.append([number, n])
                assert log[-1] == [number, n], "a transaction does not read what it wrote"
        else:
            event = log.append([number, n])
        if branch.event(event.seq).id != event.id:
            raise AssertionError(f"event {event.seq} of {name} is not the one that was acknowledged")


def _read(store: Store, names: list[str], over: Path) -> None:
    """What was seen once stays; sequences have no hole; a state is the fold of the events; parts are whole."""
    seen: dict[str, list[str]] = {name: [] for name in names}
    while not over.exists():
        for name in names:
            branch = store.branch(name)
            known = seen[name]
            events = list(branch.events(start=max(1, len(known) - 5)))
            start = max(1, len(known) - 5)
            assert [event.seq for event in events] == list(range(start, start + len(events))), f"{name} has a hole"
            overlap = known[start - 1 :]
            assert [event.id for event in events[: len(overlap)]] == overlap, f"{name} changed behind its head"
            known += [event.id for event in events[len(overlap) :]]
            if known:
                _check_state(branch, len(known))


def _check_state(branch: Branch, at: int) -> None:
    start = max(1, at - 100)
    fold = [event.payload for event in branch.events(start=start, stop=at) if event.slot == "log"]
    items = branch.state("log", at=at).tail(len(fold))
    assert list(items) == fold, f"{branch.name} at {at}: the list is not the fold of its events"
    tally = branch.state("tally", at=at).get()
    assert tally.n == len(branch.state("log", at=at)), f"{branch.name} at {at}: {tally.n} counted"


def _fork_and_delete(store: Store, names: list[str], seed: int, over: Path) -> None:
    chance = random.Random(seed)
    number = 0
    while not over.exists():
        number += 1
        source = store.branch(chance.choice(names))
        at = source.seq
        fork = source.fork(f"fork {number}", at=at)
        mine = fork.append("on a fork", number)
        assert mine.seq == at + 1
        assert fork.seq == at + 1, "another writer's event is on a fork"
        if number > 5 and chance.random() < 0.9:
            store.delete_branch(f"fork {number}")
            if chance.random() < 0.1:
                assert store.restore_branch(f"fork {number}").head == mine.id


# --- a reader that dies -------------------------------------------------------------------------------------------


def killed_reader(commits: int, seed: int, folder: str, report: Report) -> dict[str, Any]:
    """Grows of the file while a reader lives with an old snapshot, and after it was killed."""
    children = _Children(folder)
    ready = Path(folder) / "ready"

    def hold(store: Store) -> None:
        with store._engine.kv.read():
            ready.touch()
            time.sleep(600)

    with _opened(folder) as store:
        furnish(store)
        store.branch().append("note", 0)
    reader = children.start("reader", hold)
    while not ready.exists():
        time.sleep(0.001)
    problems: list[str] = []
    with _opened(folder) as store:
        value = store.branch().state("value")

        def write(number: int) -> int:
            for n in range(number):
                value.set(["x" * 200, n])
            return os.stat(store.path).st_size

        held = write(commits // 3)
        os.kill(reader, signal.SIGKILL)
        children.wait(reader, killed=True)
        time.sleep(1.05)  # a writer looks once a second for readers that died
        write(10)
        free_before = store.stats().free_bytes
        sizes = [write(commits // 6) for _ in range(4)]
        events = store.stats().events
        problems += [str(problem) for problem in store.verify(deep=True).problems]
        spaces = sum(space["bytes"] for space in store.stats().keyspaces.values())
        report(commits)
    if sizes[-1] - spaces > max(_GROWN, held):
        problems.append(f"the file has {sizes[-1]:,} bytes for {spaces:,} of data, long after the reader died")
    if sizes[-1] > sizes[0] + max(4 << 20, events * 1200):
        problems.append(f"the file grew from {sizes[0]:,} to {sizes[-1]:,} bytes after the reader died")
    figures = {
        "bytes at the kill": held,
        "free at the kill": free_before,
        "bytes after": sizes[-1],
        "bytes of data": spaces,
    }
    return {"cases": commits, "problems": problems + children.problems, "figures": figures}


# --- fork, threads, tasks -----------------------------------------------------------------------------------------


def together(count: int, seed: int, folder: str, report: Report) -> dict[str, Any]:
    """Forked children with the parent's store, threads on one store, and tasks: each eight times `count` appends."""
    problems = []
    kinds: dict[str, Callable[[Store, int], list[str]]] = {"forked": _forked, "threads": _threads, "tasks": _tasks}
    for done, (name, act) in enumerate(kinds.items(), 1):
        place = Path(folder) / name
        place.mkdir()
        with _opened(str(place)) as store:
            furnish(store)
            problems += [f"{name}: {what}" for what in act(store, count)]
            for number in range(WRITERS):
                mine = [item[1] for item in store.branch().state("log") if item[0] == number]
                if mine != list(range(count)):
                    problems.append(f"{name}: writer {number}: {len(mine)} of its {count} appends are there")
            problems += [f"{name}: {problem}" for problem in store.verify(deep=True).problems]
        report(done * WRITERS * count)
    return {"cases": len(kinds) * WRITERS * count, "problems": problems, "figures": {"of each": WRITERS * count}}


def _forked(store: Store, count: int) -> list[str]:
    """The children use the store that the parent has open; one of them forks again."""
    children = []
    for number in range(WRITERS):
        child = os.fork()
        if child == 0:
            try:
                _write(store, "main", number, count)
                os._exit(0)
            except BaseException:
                os._exit(1)
        children.append(child)
    found = [f"child {number} failed" for number, child in enumerate(children) if os.waitpid(child, 0)[1]]
    return [*found, *([] if len(store.branch().state("log")) == WRITERS * count else ["the parent does not see all"])]


def _threads(store: Store, count: int) -> list[str]:
    found: list[str] = []

    def work(number: int) -> None:
        try:
            _write(store, "main", number, count)
        except Exception as error:
            found.append(f"thread {number}: {type(error).__name__}: {error}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        branch = store.branch()
        at = branch.seq
        if at:
            _check_state(branch, at)
    return found


def _tasks(store: Store, count: int) -> list[str]:
    """Tasks by turns; one that finds another's transaction open is refused, and tries again."""
    log = store.branch().state("log")
    refused = 0

    async def work(number: int) -> None:
        nonlocal refused
        for n in range(count):
            while True:
                try:
                    if n % 10 == 3:
                        with store.transaction():
                            log.append([number, n])
                            await asyncio.sleep(0)
                    else:
                        log.append([number, n])
                    break
                except InvalidOperation:
                    refused += 1
                    await asyncio.sleep(0)
            await asyncio.sleep(0)

    async def all_of_them() -> None:
        await asyncio.gather(*(work(number) for number in range(WRITERS)))

    try:
        asyncio.run(all_of_them())
    except ChronicleError as error:
        return [f"{type(error).__name__}: {error}"]
    return [] if refused else ["no task ever met another's transaction: the harness tests nothing"]
