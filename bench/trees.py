"""Figures of tree slots, diffs and blobs."""

from __future__ import annotations

import random

import chronicle_py as chronicle
from bench.figure import Measured, figure
from bench.measure import MS, US, alternate, each, median, seconds
from bench.plain_lmdb import PlainTable
from bench.stores import SLOT, Session, payload, relaxed

TREE = "tree"
FILES = 10_000
FOLDER = 100  # files to a folder
LOG = 100_000
_ROUND = 200
_BLOB = 64 << 10  # bytes
Times = tuple[list[float], ...]
_PUT, _GET = "a put of the value, committed", "a get of the value"


def path_of(i: int) -> str:
    return f"src/{i // FOLDER:03d}/file-{i % FOLDER:02d}.py"


def content(i: int) -> dict[str, object]:
    return {"size": i, "hash": f"{i * 2654435761 % (1 << 64):064x}"}


def _plain(session: Session) -> PlainTable:
    table = PlainTable(session.new())
    table.put_many([(path_of(i).encode(), bytes(90)) for i in range(FILES)])
    return table


def _tree(session: Session) -> dict[str, Times]:
    """Times of (ours, plain LMDB) on a tree of 10,000 files, by what is done."""
    raw = _plain(session)
    rounds = session.pick(15, 5)
    chance = random.Random(1)
    found: dict[str, Times] = {}
    with relaxed(session.copy(session.tree(FILES))) as store:
        tree = store.branch().state(TREE)
        some = [[chance.randrange(FILES) for _ in range(_ROUND)] for _ in range(rounds)]
        found["put"] = alternate(
            rounds,
            lambda n: each(tree.put, [(path_of(i), content(i + n + 1)) for i in some[n]]),
            lambda n: each(raw.put, [(path_of(i).encode(), bytes([n]) * 90) for i in some[n]]),
        )
        found["get"] = alternate(
            rounds,
            lambda n: each(tree.__getitem__, [(path_of(i),) for i in some[n]]),
            lambda n: each(raw.get, [(path_of(i).encode(),) for i in some[n]]),
        )
        found["list"] = alternate(
            rounds,
            lambda n: each(tree.list, [(f"src/{k:03d}",) for k in range(100)]),
            lambda n: each(raw.keys, [(f"src/{k:03d}/".encode(),) for k in range(100)]),
        )
        found["batch"] = alternate(
            rounds,
            lambda n: each(tree.batch, [([("put", path_of(i), content(i + n)) for i in range(k, k + 100)],)
                                        for k in range(0, 1_000, 100)]),
            lambda n: each(raw.put_many, [([(path_of(i).encode(), bytes(90)) for i in range(k, k + 100)],)
                                          for k in range(0, 1_000, 100)]),
        )  # fmt: skip
        found["remove"] = alternate(
            rounds,
            lambda n: each(tree.remove, [(path_of(i),) for i in range(n * _ROUND, n * _ROUND + _ROUND)]),
            lambda n: each(raw.delete, [(path_of(i).encode(),) for i in range(n * _ROUND, n * _ROUND + _ROUND)]),
        )
        if len(tree) != FILES - rounds * _ROUND or len(tree.list("src/099")) != FOLDER:
            raise AssertionError("the tree has other files than it should")
    raw.close()
    return found


def _of_tree(name: str, what: str, beside: str, scale: float = US, unit: str = "µs") -> None:
    @figure(name, unit, group="tree")
    def operation(session: Session) -> Measured:
        ours, plain = session.once(_tree)[what]
        return Measured.of(ours, scale, plain, beside)


_of_tree("put a file into a tree of 10,000, relaxed", "put", _PUT)
_of_tree("100 puts in one batch, relaxed", "batch", "putmulti of the 100, committed")
_of_tree("get a file of 10,000", "get", _GET)
_of_tree("list a folder of 100 files", "list", "100 keys by a cursor")
_of_tree("remove a file, relaxed", "remove", "a delete, committed")


# --- diff -----------------------------------------------------------------------------------------------------------


def _diff_of_logs(session: Session) -> Times:
    """Times of (diffs of two branches with 100,000 items in common and 10 and 1 of their own, comparing all items)."""
    with relaxed(session.copy(session.batched(LOG))) as store:
        main = store.branch()
        other = main.fork("other")
        for i in range(10):
            main.state(SLOT).append(payload(LOG + i))
        other.state(SLOT).append(payload(2 * LOG))

        def ours(_: int) -> list[float]:
            changes: list[chronicle.Change] = []
            taken = seconds(lambda: changes.extend(main.diff(SLOT, main, other)))
            if not changes:
                raise AssertionError("two different logs have no difference")
            return [taken]

        def whole(_: int) -> list[float]:
            logs = main.state(SLOT), other.state(SLOT)
            return [seconds(lambda: logs[0].raw() == logs[1].raw())]

        return alternate(session.pick(9, 3), lambda n: [ours(n)[0] for _ in range(10)], whole)


@figure("what differs between two branches of 100,000 items", "ms", group="diff")
def diff_of_logs(session: Session) -> Measured:
    ours, whole = session.once(_diff_of_logs)
    return Measured.of(ours, MS, whole, "both read whole and compared", "10 items on one branch, 1 on the other")


@figure("what differs between two trees of 10,000 files", "ms", group="diff")
def diff_of_trees(session: Session) -> Measured:
    with relaxed(session.copy(session.tree(FILES))) as store:
        main = store.branch()
        before = main.seq
        for i in range(0, FILES, FILES // 10):
            main.state(TREE).put(path_of(i), content(i + 1))

        def ours(_: int) -> list[float]:
            changes: list[chronicle.Change] = []
            taken = seconds(lambda: changes.extend(main.diff(TREE, before, main)))
            if len(changes) != 10:
                raise AssertionError(f"{len(changes)} changes instead of 10")
            return [taken]

        def whole(_: int) -> list[float]:
            trees = main.state(TREE, at=before), main.state(TREE)
            return [seconds(lambda: dict(trees[0]) == dict(trees[1]))]

        found = alternate(session.pick(9, 3), lambda n: [ours(n)[0] for _ in range(10)], whole)
    return Measured.of(found[0], MS, found[1], "both read whole and compared", "10 files differ")


# --- blobs ----------------------------------------------------------------------------------------------------------


def _blobs(session: Session) -> dict[str, Times]:
    raw = PlainTable(session.new())
    rounds, size = session.pick(10, 4), 20
    chance = random.Random(2)
    data = [chance.randbytes(_BLOB) for _ in range(rounds * size)]
    keys: list[str] = []
    with relaxed(session.new()) as store:

        def put(n: int) -> list[float]:
            batch = data[n * size : n * size + size]
            return [seconds(lambda d=d: keys.append(store.put_blob(d, "image/png"))) for d in batch]  # type: ignore[misc]

        puts = alternate(
            rounds,
            put,
            lambda n: each(raw.put, [(f"{i:032d}".encode(), data[i]) for i in range(n * size, n * size + size)]),
        )
        gets = alternate(
            rounds,
            lambda n: each(store.get_blob, [(key,) for key in keys[n * size : n * size + size]]),
            lambda n: each(raw.get, [(f"{i:032d}".encode(),) for i in range(n * size, n * size + size)]),
        )
        if store.get_blob(keys[7]).data != data[7]:
            raise AssertionError("a blob has other bytes")
    raw.close()
    return {"put": puts, "get": gets}


@figure("put a blob of 64 KB, relaxed", "µs", group="blobs")
def put_blob(session: Session) -> Measured:
    ours, plain = session.once(_blobs)["put"]
    return Measured.of(ours, US, plain, _PUT, f"hashed; {_BLOB / 1e6 / median(ours):,.0f} MB/s")


@figure("get a blob of 64 KB", "µs", group="blobs")
def get_blob(session: Session) -> Measured:
    ours, plain = session.once(_blobs)["get"]
    return Measured.of(ours, US, plain, _GET, "checked against its hash")
