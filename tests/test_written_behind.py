"""States that are entered into directories after their block was closed, by several handles at once."""

from __future__ import annotations

from pathlib import Path

import chronicle_py as chronicle
from chronicle_py.records import BLOCK


def test_two_handles_that_write_behind_keep_each_others_states(tmp_path: Path) -> None:
    path = tmp_path / "store"
    first, second = (chronicle.open(path, durability="relaxed") for _ in range(2))
    one, two = first.branch(), second.branch()
    for n in range(BLOCK):
        one.append("t", n)
    for slot in "XZ":
        first.register_state(slot, kind="append_log", types=["t"])
    for _ in range(BLOCK):
        one.append("u", 0)
    assert (len(two.state("Z")), len(one.state("X"))) == (BLOCK, BLOCK)  # both remember the newest directory
    one.append("u", 0)  # enters X there
    for _ in range(BLOCK - 1):
        one.append("u", 0)  # the next directory points to it
    two.append("u", 0)  # enters Z there, beside X
    first.close()
    second.close()
    with chronicle.open(path, durability="relaxed") as store:
        assert store.verify(deep=True).problems == []
        main = store.branch()
        for _ in range(2 * BLOCK - 1):
            main.append("t", -1)
        for slot in "XZ":
            assert len(main.state(slot)) == 3 * BLOCK - 1
            assert main.replay(slot).equal
        assert store.verify(deep=True).problems == []


def test_a_state_written_behind_before_its_registration_is_kept_by_the_next_block(tmp_path: Path) -> None:
    with chronicle.open(tmp_path / "store", durability="relaxed") as store:
        main = store.branch()
        for n in range(3 * BLOCK):
            main.append("t", n)
        store.register_state("late", kind="append_log", types=["t"])
        assert len(main.state("late")) == 3 * BLOCK
        for _ in range(2 * BLOCK):
            main.append("u", 0)  # the first enters the state; two directories follow
        engine = store._engine
        with engine.read() as reader:
            boundary = engine.checkpoints.boundary(reader, 1, 5 * BLOCK)
        assert boundary is not None
        number = 0
        assert boundary.directory.there[number] == (1, 2, -1)  # clean, where it was entered
        assert store.verify(deep=True).ok


def test_verify_names_a_directory_that_points_to_a_state_that_is_not_there(tmp_path: Path) -> None:
    import msgspec

    from chronicle_py import records
    from chronicle_py.checkpoints import decode_directory
    from chronicle_py.kv import BLOCKS

    with chronicle.open(tmp_path / "store", durability="relaxed") as store:
        store.register_state("v", kind="value")
        main = store.branch()
        main.state("v").set(1)
        for _ in range(2 * BLOCK):
            main.append("u", 0)
        key = records.pack_position(1, 0)
        with store.transaction():
            writer = store._engine.writer()
            directory = decode_directory(key, writer.get(BLOCKS, key) or b"", "a directory")
            emptied = msgspec.structs.replace(directory, here={})
            writer.put(BLOCKS, key, records.seal(key, records.encode(emptied)))
        problems = store.verify().problems
        assert [(p.where, "slot 0 lies in 1/0" in p.what) for p in problems] == [("blocks 1/1", True)]


class Sum:
    """Adds up payloads, and counts how many it has folded."""

    name, version = "sum", 1

    def __init__(self) -> None:
        self.folded = 0

    def initial(self) -> int:
        return 0

    def fold(self, state: int, event: chronicle.Event) -> int:
        self.folded += 1
        return state + int(event.payload)


def test_a_long_fold_leaves_waypoints_so_that_an_older_place_is_folded_from_nearby(tmp_path: Path) -> None:
    path, count = tmp_path / "store", 100 * BLOCK
    with chronicle.open(path, durability="relaxed") as store:
        main = store.branch()
        with store.transaction():
            for n in range(1, count + 1):
                main.append("t", n)
        sums = Sum()
        store.register_state("sum", reducer=sums, types=["t"])
        assert main.state("sum").get() == count * (count + 1) // 2
        assert sums.folded == count
        main.append("t", 0)  # enters the states on the way
        assert store.verify(deep=True).problems == []
    with chronicle.open(path, durability="relaxed") as store:
        sums = Sum()
        store.register_state("sum", reducer=sums, types=["t"])
        fork = store.branch().fork("back then", at=50 * BLOCK - 1)
        for branch in (store.branch(), fork):
            for at in (50 * BLOCK - 1, 17 * BLOCK, 40 * BLOCK + 5):
                sums.folded = 0
                assert branch.state("sum", at=at).get() == at * (at + 1) // 2
                assert sums.folded <= 16 * BLOCK
        assert store.branch().state("sum", at=5).get() == 15
