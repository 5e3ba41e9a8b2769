"""Writes that fail: no room on the disk, no room in the map, no permission, a read-only file system.

A round takes the room away from a store and goes on with the operations of `programs.py` until one fails. Then:

- the error is a `StoreFull` (`ReadOnly` for permissions) whose message says what to do;
- what the store holds can be read as before, all that was acknowledged and nothing of what failed;
- when there is room again the same operation works, in the same process and on the same open store (a full map needs
  it opened with a larger one);
- `verify(deep=True)` is clean, then and after it was opened anew.

Each round runs in a process of its own, a fork: a crash (a page of a map that the disk has no room for) is seen.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

import chronicle_py as chronicle
from chronicle_py import ChronicleError, ReadOnly, Store, StoreFull
from soak.apart import Job, Report, arguments_of, run_apart, workspace
from soak.ledger import Effect, Intent, Ledger
from soak.programs import OPERATIONS, Worker, furnish
from soak.result import Progress, Result, result, silent
from soak.small_disk import FileLimit, FullDisk, Squeeze, mount_small, remount

NAME = "faults"
DISK: Final = 8 << 20  # bytes of the small file system
_NOBODY: Final = 65534
_TRIES: Final = 400  # operations until one must have failed
_ROOMS: Final = (0, 4096, 20_000, 80_000, 300_000)  # bytes that are left to begin with


def run(count: int, seed: int, progress: Progress = silent, *, folder: str | os.PathLike[str] | None = None) -> Result:
    """At least `count` injected faults, half of them on a file system of 8 MB where one can be mounted."""
    begun = time.monotonic()
    with workspace(folder) as home:
        jobs = []
        for name in ("limits", "disk"):
            (home / name).mkdir()
            given = arguments_of(count=(count + 1) // 2, seed=seed, folder=home / name)
            jobs.append(Job(f"soak.faults:{name}_campaign", dict(given)))
        found = run_apart(jobs, count, progress)
    by_kind: Counter[str] = Counter()
    for part in found:
        by_kind.update(part["faults"])
    problems = [problem for part in found for problem in part["problems"]]
    figures: dict[str, Any] = {"by kind": dict(by_kind.most_common())}
    without = [part["without"] for part in found if part["without"]]
    if without:
        figures["no small file system"] = without[0]
    return result(NAME, by_kind.total(), problems, seed, time.monotonic() - begun, figures)


class Outcome(msgspec.Struct):
    """What a round found."""

    faults: dict[str, int] = {}
    problems: list[str] = []


Round = Callable[[Path, random.Random], Outcome]


def limits_campaign(count: int, seed: int, folder: str, report: Report) -> dict[str, Any]:
    """Rounds that need no file system of their own."""
    rounds: dict[str, Round] = {
        "file size limit": lambda place, chance: _squeezed("file size limit", FileLimit(), place, chance),
        "full map": _full_map,
        "permissions": _permissions,
    }
    return _campaign(rounds, count, seed, Path(folder), report)


def disk_campaign(count: int, seed: int, folder: str, report: Report) -> dict[str, Any]:
    """Rounds on a file system of 8 MB; with limits on file sizes where none can be mounted."""
    place = Path(folder)
    without = mount_small(place, DISK)
    if without:
        return {**limits_campaign(count, seed + 1, folder, report), "without": without}
    rounds: dict[str, Round] = {
        "full disk": lambda place, chance: _squeezed("full disk", FullDisk(place.parent), place, chance),
        "full in a transaction": _full_inside,
        "opened on a full disk": _opened_full,
        "read-only file system": _read_only,
        "exported to a full disk": _exported,
    }
    return _campaign(rounds, count, seed, place, report)


def _campaign(rounds: dict[str, Round], count: int, seed: int, folder: Path, report: Report) -> dict[str, Any]:
    chance = random.Random(seed)
    faults: Counter[str] = Counter()
    problems: list[str] = []
    number, idle = 0, 0
    while (faults.total() < count or number < len(rounds)) and idle < 20:
        name = list(rounds)[number % len(rounds)]
        place = folder / f"round {number}"
        place.mkdir()
        found = _apart(rounds[name], place, chance.getrandbits(32))
        faults.update(found.faults)
        problems += [f"{name}, round {number}: {problem}" for problem in found.problems]
        subprocess.run(["rm", "-rf", str(place), str(folder / "ballast")], check=True)
        number, idle = number + 1, 0 if found.faults else idle + 1
        report(min(faults.total(), count))
    if idle:
        problems.append("no round fails any more: the harness injects nothing")
    return {"faults": faults, "problems": problems, "without": ""}


def _apart(act: Round, place: Path, seed: int) -> Outcome:
    """A round in a process of its own."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            outcome = act(place, random.Random(seed))
        except BaseException as error:
            outcome = Outcome(problems=[f"{type(error).__name__}: {error}"])
        os.write(writing, msgspec.json.encode(outcome)[:60_000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    if status or not said:
        return Outcome({"crash": 1}, [f"the process crashed with signal {os.WTERMSIG(status)}"])
    return msgspec.json.decode(said, type=Outcome)


# --- no room ------------------------------------------------------------------------------------------------------


class _Store:
    """A store with a ledger, and the operations on it."""

    def __init__(self, path: Path, chance: random.Random, **options: Any) -> None:
        self.path, self.chance = path, chance
        self.ledger = Ledger()
        self.outcome = Outcome()
        self._intent = Intent("")
        self.open(**options)

    def open(self, **options: Any) -> None:
        given = {"durability": self.chance.choice(("full", "relaxed")), **options}
        self.store: Store = chronicle.open(self.path, **given)
        furnish(self.store)
        self.worker = Worker(self.store, self.chance.getrandbits(32), self._hear)

    def _hear(self, line: bytes) -> None:
        word, _, body = line.partition(b" ")
        if word == b"in":
            self._intent = msgspec.json.decode(body, type=Intent)
        else:
            self.ledger.take(msgspec.json.decode(body, type=Effect))

    def wrong(self, what: str) -> None:
        self.outcome.problems.append(what)

    def fault(self, kind: str, error: ChronicleError, wanted: type[ChronicleError] = StoreFull) -> None:
        """An operation failed; it must have failed well."""
        self.outcome.faults[kind] = self.outcome.faults.get(kind, 0) + 1
        words = str(error)
        if not isinstance(error, wanted):
            self.wrong(f"{kind}: {type(error).__name__} instead of {wanted.__name__}: {words}")
        elif str(self.path.parent) not in words or len(words) < 40:
            self.wrong(f"{kind}: the message does not say where, or what to do: {words}")
        if None in self._intent.adds.values():  # of several commits, the first ones may have been made
            self.outcome.problems += self.ledger.problems(self.store, self._intent)

    def check(self, when: str, deep: bool = False) -> None:
        """Everything acknowledged is there, and nothing else."""
        self.outcome.problems += [f"{when}: {problem}" for problem in self.ledger.problems(self.store, None)]
        if deep:
            self.outcome.problems += [f"{when}: verify: {problem}" for problem in self.store.verify(deep=True).problems]

    def reopened(self, **options: Any) -> None:
        self.store.close()
        self.open(**options)
        self.check("opened anew", deep=True)
        self.worker.run("append")


def _until_full(work: _Store, kind: str) -> str | None:
    """Goes on until an operation fails; its name."""
    for _ in range(_TRIES):
        op = work.chance.choice(list(OPERATIONS))
        try:
            work.worker.run(op)
        except ChronicleError as error:
            work.fault(kind, error)
            return op
    return None


def _squeezed(kind: str, squeeze: Squeeze, place: Path, chance: random.Random) -> Outcome:
    work = _Store(place / "store", chance)
    for _ in range(chance.randrange(6)):
        work.worker.run(chance.choice(list(OPERATIONS)))
    for _ in range(3):
        squeeze.tighten(work.path, chance.choice(_ROOMS))
        failed = [op for _ in range(3) if (op := _until_full(work, kind)) is not None]
        work.check("while it is full")
        squeeze.loosen()
        work.check("with room again", deep=True)
        for op in failed:
            work.worker.run(op)
    work.check("going on", deep=True)
    work.reopened()
    return work.outcome


def _full_map(place: Path, chance: random.Random) -> Outcome:
    size = chance.choice((1 << 20, 2 << 20))
    work = _Store(place / "store", chance, map_size=size)
    failed = [op for _ in range(3) if (op := _until_full(work, "full map")) is not None]
    work.check("while the map is full", deep=True)
    work.reopened(map_size=size * 16)
    for op in failed:
        work.worker.run(op)
    work.check("with a larger map", deep=True)
    return work.outcome


def _full_inside(place: Path, chance: random.Random) -> Outcome:
    """The room goes away between the begin and the end of a transaction."""
    work = _Store(place / "store", chance)
    work.worker.run("fold")
    disk = FullDisk(place.parent)
    for _ in range(4):
        main = work.store.branch()
        try:
            with work.store.transaction():
                for n in range(chance.randrange(1, 60)):
                    main.append("note", [n, "x" * 4000])
                disk.tighten(work.path, chance.choice((0, 4096, 20_000)))
                for n in range(chance.randrange(40, 120)):
                    main.append("note", [n, "x" * 4000])
                main.fork(work.worker.name("lost"), at=main.seq)
            work.wrong("a transaction without room was kept")
        except ChronicleError as error:
            work.fault("full in a transaction", error)
        work.check("after it")
        disk.loosen()
        work.worker.run("transaction")
    work.check("going on", deep=True)
    work.reopened()
    return work.outcome


def _opened_full(place: Path, chance: random.Random) -> Outcome:
    """Opening, with and without the lock file, and making a new store."""
    work = _Store(place / "store", chance)
    work.worker.run("fold")
    disk = FullDisk(place.parent)
    for kind in ("existing", "without its lock", "new"):
        work.store.close()
        if kind == "without its lock":
            Path(f"{work.path}-lock").unlink()
        disk.tighten(work.path, chance.choice((0, 4096, 8192, 40_000, 70_000, 74_000, 78_000)))
        other = place / f"new {chance.random()}"
        try:
            with chronicle.open(other if kind == "new" else work.path) as store:
                for n in range(1000):
                    store.branch().append("lost", "x" * 5000) if kind == "new" else store.branch().event(1 + n % 70)
        except StoreFull as error:
            work.outcome.faults["opened on a full disk"] = work.outcome.faults.get("opened on a full disk", 0) + 1
            if "space" not in str(error):
                work.wrong(f"opening: the message does not say what to do: {error}")
        disk.loosen()
        with chronicle.open(other) as store:
            store.branch().append("note", "there is room")
            work.outcome.problems += map(str, store.verify(deep=True).problems)
        work.open()
        work.check(f"opened with room again ({kind})", deep=True)
        work.worker.run("append")
    return work.outcome


def _exported(place: Path, chance: random.Random) -> Outcome:
    """`chronicle export -o` onto a full disk, and to a device that is always full."""
    work = _Store(place / "store", chance)
    for op in ("fold", "talk", "blob", "fork"):
        work.worker.run(op)
    disk = FullDisk(place.parent)
    disk.tighten(work.path, chance.choice((0, 4096, 12_000)))
    target = place / "export.jsonl"
    for command in (["-o", str(target)], ["-o", "/dev/full"]):
        done = subprocess.run(
            [sys.executable, "-m", "chronicle_py.cli", "export", "-s", str(work.path), *command],
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        work.outcome.faults["exported to a full disk"] = work.outcome.faults.get("exported to a full disk", 0) + 1
        if done.returncode != 1 or len(done.stderr.strip().splitlines()) != 1 or "space" not in done.stderr:
            work.wrong(f"export {command} on a full disk: exit {done.returncode}: {done.stderr[-600:]}")
    left = [path.name for path in place.iterdir() if "export" in path.name]
    if left:
        work.wrong(f"a failed export left {left} behind")
    disk.loosen()
    work.check("after it", deep=True)
    return work.outcome


# --- no permission ------------------------------------------------------------------------------------------------


def _read_only(place: Path, chance: random.Random) -> Outcome:
    work = _Store(place / "store", chance)
    work.worker.run("fold")
    work.store.close()
    if chance.random() < 0.5:
        Path(f"{work.path}-lock").unlink()
    remount(place.parent, readonly=True, size=DISK)
    try:
        try:
            chronicle.open(work.path).close()
            work.wrong("a store on a read-only file system was opened to write")
        except ChronicleError as error:
            work.fault("read-only file system", error, ReadOnly)
        with chronicle.open(work.path, readonly=True) as work.store:
            work.check("on a read-only file system")
            try:
                work.store.branch().append("note", 1)
            except ChronicleError as error:
                work.fault("read-only file system", error, ReadOnly)
    finally:
        remount(place.parent, readonly=False, size=DISK)
    work.open()
    work.check("writable again", deep=True)
    work.worker.run("append")
    return work.outcome


def _permissions(place: Path, chance: random.Random) -> Outcome:
    """A user who loses the right to the file, to its lock, or to its folder, with the store open and closed."""
    if os.getuid() == 0:  # whom no permission stops
        for path in (place, *place.parents):
            if path.stat().st_uid == 0 and not path.stat().st_mode & 0o001:
                path.chmod(path.stat().st_mode | 0o011)
        os.chown(place, _NOBODY, _NOBODY)
        os.setgroups([])
        os.setgid(_NOBODY)
        os.setuid(_NOBODY)
    work = _Store(place / "store", chance)
    work.worker.run("fold")
    kind = "permissions"
    time.sleep(0.03)  # until it looks again whether the file is still there
    place.chmod(0)
    try:
        work.worker.run("append")
        work.wrong("a store in a folder that may not be entered was written")
    except ChronicleError as error:
        work.fault(kind, error, ReadOnly)
    place.chmod(0o700)
    work.worker.run("append")  # goes on, on the same open store
    work.path.chmod(0o400)
    work.worker.run("transaction")  # it was opened when that was allowed
    work.store.close()
    for name, mode in (("store", 0o400), ("store", 0o000), ("store-lock", 0o000)):
        path = place / name
        path.chmod(mode)
        try:
            chronicle.open(work.path).close()
            work.wrong(f"{name} with mode {mode:o} was opened to write")
        except ChronicleError as error:
            work.fault(kind, error, ReadOnly)
        path.chmod(0o600)
    place.chmod(0o500)
    try:
        chronicle.open(place / "another").close()
        work.wrong("a store was made in a folder that may not be written")
    except ChronicleError as error:
        work.outcome.faults[kind] += 1
        if not isinstance(error, ReadOnly):
            work.wrong(f"a new store in such a folder: {type(error).__name__}: {error}")
    work.open()  # the store itself is there, and writable
    work.worker.run("append")
    place.chmod(0o700)
    work.check("allowed again", deep=True)
    work.reopened()
    return work.outcome
