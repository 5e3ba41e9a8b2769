"""Writers killed with SIGKILL at random moments inside every operation that writes.

A campaign keeps a store through many kills, so that damage would add up. For each kill it forks a worker, lets it come
to the operation that is this kill's aim, waits for a random part of the time that it takes, and kills. Then:

- every branch holds what was acknowledged, by id, and of the operation that was under way everything or nothing;
- sequences have no hole, and each event names the one before it as its parent;
- `verify()` is clean, and `verify(deep=True)` after every `deep_every`-th kill and at the end of each store;
- the next append works.

Half of the stores are open in the campaign's own process all the while, which takes over the dead one's locks; the
others are opened anew after each kill. Half are "full", half "relaxed": a kill must not make a difference.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

import chronicle_py as chronicle
from chronicle_py import ChronicleError, Store
from soak.apart import JOBS, Job, Report, arguments_of, run_apart, seeds_of, shares, workspace
from soak.ledger import Effect, Intent, Ledger
from soak.programs import BEFORE, OPERATIONS, Worker, copy_of, furnish
from soak.result import Progress, Result, result, silent

NAME = "kills"
KILLS_A_STORE = 40
_FIRST_GUESS = 0.0005  # seconds that an operation takes, until one was seen
_LONGEST = 20.0  # seconds until a worker that says nothing counts as hanging
_LATEST = 1.15  # of an operation's time: a little after its end, too


def run(
    count: int,
    seed: int,
    progress: Progress = silent,
    *,
    deep_every: int = 1,
    kills_a_store: int = KILLS_A_STORE,
    folder: str | os.PathLike[str] | None = None,
) -> Result:
    """Kills `count` writers. `deep_every`: kills from one deep verify to the next."""
    begun = time.monotonic()
    with workspace(folder) as home:
        parts = shares(count, JOBS)
        jobs = []
        for part, part_seed in zip(parts, seeds_of(seed, len(parts)), strict=True):
            place = home / f"campaign {part_seed}"
            place.mkdir()
            given = arguments_of(
                count=part, seed=part_seed, folder=place, deep_every=deep_every, kills_a_store=kills_a_store
            )
            jobs.append(Job("soak.kills:campaign", dict(given)))
        found = run_apart(jobs, count, progress)
    problems = [problem for part in found for problem in part["problems"]]
    inside: Counter[str] = Counter()
    for part in found:
        inside.update(part["inside"])
    figures = {
        "kills inside an operation": inside.total(),
        "by operation": dict(inside.most_common()),
        "acknowledged events": sum(part["acknowledged"] for part in found),
    }
    return result(NAME, sum(part["kills"] for part in found), problems, seed, time.monotonic() - begun, figures)


def campaign(count: int, seed: int, folder: str, deep_every: int, kills_a_store: int, report: Report) -> dict[str, Any]:
    """One run of kills, in this process. What `run` adds up."""
    chance = random.Random(seed)
    state = _Campaign(chance)
    while state.kills < count:
        number = state.kills // kills_a_store
        durability = "full" if number % 2 == 0 else "relaxed"
        keeps_open = (number + seed) % 2 == 0
        history = _History(Path(folder) / f"store {number}", durability, keeps_open)
        for _ in range(min(kills_a_store, count - state.kills)):
            deep = state.kills % deep_every == 0
            state.one(history, deep)
            report(state.kills)
        state.note(history, history.close())
    return {
        "kills": state.kills,
        "problems": state.problems,
        "inside": state.inside,
        "acknowledged": state.acknowledged,
    }


class _History:
    """A store through its kills, and what it must hold."""

    def __init__(self, path: Path, durability: Any, keeps_open: bool) -> None:
        self.path = path
        self.durability = durability
        self.keeps_open = keeps_open
        self.ledger = Ledger()
        self._store: Store | None = None
        with self.opened() as store:
            furnish(store)

    def opened(self) -> _Opened:
        return _Opened(self)

    def open(self) -> Store:
        if self._store is None:
            self._store = chronicle.open(self.path, durability=self.durability)
        return self._store

    def leave(self, store: Store) -> None:
        if not self.keeps_open:
            store.close()
            self._store = None

    def close(self) -> list[str]:
        """Checks everything once more, from the disk."""
        if self._store is not None:
            self._store.close()
            self._store = None
        with chronicle.open(self.path, durability=self.durability) as store:
            furnish(store)
            report = store.verify(deep=True)
            problems = self.ledger.problems(store, None)
        self.ledger = Ledger()
        return [*problems, *(f"verify at the end: {problem}" for problem in report.problems)]


class _Opened:
    """A `with` block that has the store of a history."""

    def __init__(self, history: _History) -> None:
        self._history = history

    def __enter__(self) -> Store:
        self.store = self._history.open()
        return self.store

    def __exit__(self, *_: object) -> None:
        self._history.leave(self.store)


class _Campaign:
    """What goes on over all stores of a campaign."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.kills = 0
        self.acknowledged = 0
        self.problems: list[str] = []
        self.inside: Counter[str] = Counter()
        self._takes: dict[str, float] = {}
        self._aims: list[str] = []

    def note(self, history: _History, found: list[str]) -> None:
        self.problems += [f"kill {self.kills}, {history.path.name} ({history.durability}): {what}" for what in found]

    def aim(self) -> str:
        """The operation that is to be killed next: each in turn, in random order."""
        if not self._aims:
            self._aims = list(OPERATIONS)
            self.chance.shuffle(self._aims)
        return self._aims.pop()

    def one(self, history: _History, deep: bool) -> None:
        """One kill, and the look at what it left."""
        aim = self.aim()
        plan = self.chance.choices(list(OPERATIONS), k=self.chance.randrange(3))
        plan += [BEFORE[aim]] if aim in BEFORE else []
        unsure, problem = self._kill(history, [*plan, aim])
        self.kills += 1
        if problem:
            self.note(history, [problem])
        self.note(history, self._look(history, unsure, deep))

    def _kill(self, history: _History, plan: list[str]) -> tuple[Intent | None, str]:
        """Starts a worker and kills it in the last operation of the plan. Returns what it left unacknowledged."""
        reading, writing = os.pipe()
        seed = self.chance.getrandbits(32)
        part = self.chance.uniform(0.0, _LATEST)
        child = os.fork()
        if child == 0:
            os.close(reading)
            _work(history, plan, seed, writing)
        os.close(writing)
        heard = _Heard(reading)
        aim = plan[-1]
        begun = heard.until_begun(len(plan))
        if begun:
            time.sleep(part * self._takes.get(aim, _FIRST_GUESS))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        heard.rest()
        os.close(reading)
        for effect in heard.effects:
            history.ledger.take(effect)
            self.acknowledged += sum(map(len, effect.adds.values())) + sum(map(len, effect.makes.values()))
            self._takes[effect.op] = 0.7 * self._takes.get(effect.op, effect.took) + 0.3 * effect.took
        unsure = heard.unsure
        if unsure is not None:
            self.inside[unsure.op] += 1
        if not os.WIFSIGNALED(status) or os.WTERMSIG(status) != signal.SIGKILL or not begun:
            return unsure, f"the worker ended by itself ({status}) in {plan}: {heard.words}"
        return unsure, ""

    def _look(self, history: _History, unsure: Intent | None, deep: bool) -> list[str]:
        try:
            with history.opened() as store:
                furnish(store)
                found = history.ledger.problems(store, unsure)
                found += [f"verify(deep={deep}): {problem}" for problem in store.verify(deep=deep).problems]
                event = store.branch().state("log").append(["after kill", self.kills])
                if event.seq != len(history.ledger.branches["main"]) + 1:
                    found.append(f"the next append got sequence {event.seq}")
                history.ledger.branches["main"].append(event.id)
            return [*found, *_wrong_copy(history.path)]
        except (ChronicleError, OSError) as error:
            return [f"after {unsure.op if unsure else 'nothing'}: {type(error).__name__}: {error}"]


def _wrong_copy(path: Path) -> list[str]:
    """A backup that is there opens and is sound, whatever was killed. It is looked at once."""
    target = copy_of(path)
    if not target.exists():
        return []
    with chronicle.open(target, durability="relaxed") as copy:
        furnish(copy)
        found = [f"the backup: {problem}" for problem in copy.verify(deep=True).problems]
    for name in (target, Path(f"{target}-lock")):
        name.unlink(missing_ok=True)
    return found


class _Heard:
    """What a worker says on its pipe."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._buffer = b""
        self.effects: list[Effect] = []
        self.unsure: Intent | None = None
        self.words = ""
        self._begun = 0

    def until_begun(self, number: int) -> bool:
        """Reads until the worker is in its `number`-th operation; False when it ends or hangs before."""
        end = time.monotonic() + _LONGEST
        while self._begun < number and time.monotonic() < end:
            if not self._read():
                return False
        return self._begun >= number

    def rest(self) -> None:
        while self._read():
            pass

    def _read(self) -> bool:
        data = os.read(self._pipe, 1 << 20)
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            word, _, body = line.partition(b" ")
            if word == b"in":
                self.unsure = msgspec.json.decode(body, type=Intent)
                self._begun += 1
            elif word == b"out":
                self.effects.append(msgspec.json.decode(body, type=Effect))
                self.unsure = None
            else:
                self.words += line.decode(errors="replace") + " "
        return bool(data)


def _work(history: _History, plan: list[str], seed: int, pipe: int) -> None:
    """The life of a worker: the plan, and then anything, until it is killed. Never returns."""
    try:
        store = chronicle.open(history.path, durability=history.durability)
        furnish(store)
        worker = Worker(store, seed, lambda line: _say(pipe, line))
        for op in plan:
            worker.run(op)
        while True:
            worker.run(worker.chance.choice(list(OPERATIONS)))
    except BaseException as error:
        _say(pipe, f"{type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(3)


def _say(pipe: int, line: bytes) -> None:
    while line:
        line = line[os.write(pipe, line) :]
