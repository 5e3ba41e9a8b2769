"""Writers killed at any moment: nothing acknowledged is lost, nothing half-done is there, and the next write works.

A writer reports each event on a pipe after `append` has returned: what the pipe holds was acknowledged.
"""

from __future__ import annotations

import random
import time
from itertools import pairwise
from pathlib import Path

import pytest
from script import hear, rest, start

import chronicle_py as chronicle
from chronicle_py import Store

WRITER = """
import random
random.seed(int(sys.argv[3]))
store = chronicle.open(path, durability=sys.argv[2])
main = store.branch()
log, tree = main.state("log"), main.state("tree")
seq = main.seq
out = sys.stdout.fileno()
os.write(out, b"ready\\n")
while True:
    kind = random.random()
    if kind < 0.6:
        event = log.append(["x" * random.randrange(300), seq])
        os.write(out, b"%d %s\\n" % (event.seq, event.id.encode()))
    elif kind < 0.8:
        event = tree.put(f"path/{random.randrange(50)}", seq)
        os.write(out, b"%d %s\\n" % (event.seq, event.id.encode()))
    else:
        with store.transaction():
            whole = random.randrange(2, 150)
            events = [main.append("part", [whole, i]) for i in range(whole)]
            if random.random() < 0.1:
                main.fork(f"fork {events[-1].seq}", at=events[0].seq).append("on a fork", whole)
        os.write(out, b"".join(b"%d %s\\n" % (event.seq, event.id.encode()) for event in events))
    seq = main.seq
"""


THREADS = """
store = chronicle.open(path, durability=sys.argv[2])
main = store.branch()
log = main.state("log")
out = sys.stdout.fileno()
def work(number):
    own = store.branch(f"own {number}")
    while True:
        event = log.append([number, main.seq])
        os.write(out, b"main %d %s\\n" % (event.seq, event.id.encode()))
        event = own.append("note", number)
        os.write(out, b"own.%d %d %s\\n" % (number, event.seq, event.id.encode()))
os.write(out, b"ready\\n")
for number in range(8):
    threading.Thread(target=work, args=(number,)).start()
"""


def killed_writer(path: Path, durability: str, seed: int, after: float) -> list[tuple[int, str]]:
    """Starts a writer, kills it; returns the (sequence, id) that it had reported."""
    process = start(WRITER, path, durability, seed)
    assert hear(process) == "ready"
    time.sleep(after)
    process.kill()
    reported = rest(process).splitlines(keepends=True)
    assert process.returncode == -9
    whole = (line.split() for line in reported if line.endswith("\n"))
    return [(int(seq), id) for seq, id in whole]


def check(store: Store, acknowledged: dict[int, str]) -> None:
    main = store.branch()
    events = list(main.events())
    assert [event.seq for event in events] == list(range(1, main.seq + 1))
    assert all(before.id == after.parents[0] for before, after in pairwise(events))
    ids = {event.seq: event.id for event in events}
    lost = {seq: id for seq, id in acknowledged.items() if ids.get(seq) != id}
    assert lost == {}
    whole, at = 0, 0
    for event in events:  # of a transaction all parts are there, in order
        if event.type == "part":
            whole, part = event.payload
            assert part == at
            at = (at + 1) % whole
        else:
            assert at == 0
    assert at == 0
    items = [event.payload for event in events if event.slot == "log"]
    assert list(main.state("log")) == items
    report = store.verify(deep=True)
    assert report.ok, report.problems


@pytest.mark.parametrize(("durability", "kills"), [("full", 12), ("relaxed", 18)])
def test_a_killed_writer_loses_nothing_it_acknowledged(tmp_path: Path, durability: str, kills: int) -> None:
    path = tmp_path / "store"
    chance = random.Random(durability)
    with chronicle.open(path, durability="relaxed") as store:
        store.register_state("log", kind="append_log")
        store.register_state("tree", kind="tree")
    acknowledged: dict[int, str] = {}
    for round in range(kills):
        reported = killed_writer(path, durability, round, after=chance.uniform(0.0, 0.03))
        acknowledged.update(reported)
        if round % 3 and round < kills - 1:
            continue  # killed after killed, with nobody to tidy up
        with chronicle.open(path, durability="relaxed") as store:
            check(store, acknowledged)
            event = store.branch().state("log").append(["after", round])
            acknowledged[event.seq] = event.id
    assert len(acknowledged) > kills


def test_threads_that_share_commits_lose_nothing_when_killed(tmp_path: Path) -> None:
    path = tmp_path / "store"
    chance = random.Random("threads")
    with chronicle.open(path, durability="relaxed") as store:
        store.register_state("log", kind="append_log")
        for number in range(8):
            store.branch().fork(f"own {number}")
    acknowledged: dict[tuple[str, int], str] = {}
    for _ in range(5):
        process = start(THREADS, path, "full")
        assert hear(process) == "ready"
        begun = hear(process)
        time.sleep(chance.uniform(0.0, 0.03))
        process.kill()
        reported = [begun + "\n", *rest(process).splitlines(keepends=True)]
        for name, seq, id in (line.split() for line in reported if line.endswith("\n")):
            acknowledged[name.replace(".", " "), int(seq)] = id
        with chronicle.open(path, durability="relaxed") as store:
            for info in store.branches():
                ids = {event.seq: event.id for event in store.branch(info.name).events()}
                assert {
                    seq: id for (name, seq), id in acknowledged.items() if name == info.name and ids.get(seq) != id
                } == {}
            assert list(store.branch().state("log")) == [event.payload for event in store.branch().events()]
            assert store.verify(deep=True).ok
    assert len(acknowledged) >= 5


def test_a_writer_killed_while_others_use_the_store_does_not_disturb_them(tmp_path: Path) -> None:
    path = tmp_path / "store"
    chance = random.Random(1)
    with chronicle.open(path, durability="relaxed") as store:
        store.register_state("log", kind="append_log")
        store.register_state("tree", kind="tree")
        acknowledged: dict[int, str] = {}
        for round in range(5):
            acknowledged.update(killed_writer(path, "relaxed", 100 + round, after=chance.uniform(0.0, 0.02)))
            event = store.branch().state("log").append(["beside", round])  # the dead one's lock is taken over
            acknowledged[event.seq] = event.id
        check(store, acknowledged)


def test_a_process_killed_inside_its_first_commit_leaves_a_new_or_no_store(tmp_path: Path) -> None:
    chance = random.Random(2)
    for round in range(6):
        path = tmp_path / f"store {round}"
        process = start(
            """
            print("ready", flush=True)
            store = chronicle.open(path)
            store.branch().append("note", 1)
            sys.stdin.readline()
            """,
            path,
        )
        assert hear(process) == "ready"
        time.sleep(chance.uniform(0.0, 0.004))
        process.kill()
        rest(process)
        with chronicle.open(path, durability="relaxed") as store:
            assert store.branch().seq in (0, 1)
            assert store.branch().append("note", 2).seq in (1, 2)
            assert store.verify(deep=True).ok
