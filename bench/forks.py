"""Figures of forking: at the middle of a long history, and below forks of forks."""

from __future__ import annotations

from bench.figure import Measured, at_most, at_most_times, figure
from bench.measure import US, alternate, each, median, seconds
from bench.plain_lmdb import PlainLmdb
from bench.stores import SLOT, Session, relaxed

EVENTS = 100_000
DEPTHS = (1, 100, 10_000)
_COMMIT = "a commit of three puts"
_ROUND = 50
Times = tuple[list[float], ...]


def _at_middle(session: Session) -> Times:
    """Times of (forks at the middle, the first read of state on each, plain commits)."""
    raw = PlainLmdb(session.new())
    middle = EVENTS // 2
    reads: list[float] = []
    with relaxed(session.copy(session.one_by_one(EVENTS))) as store:
        main = store.branch()

        def fork(n: int) -> list[float]:
            numbers = range(n * _ROUND, n * _ROUND + _ROUND)
            taken = each(main.fork, [(f"fork-{k}", middle + k % 640) for k in numbers])
            for k in numbers:
                branch = store.branch(f"fork-{k}")
                reads.append(seconds(lambda b=branch: len(b.state(SLOT))))  # type: ignore[misc]
                if len(branch.state(SLOT)) != middle + k % 640:
                    raise AssertionError("the state of a fork is of another length than its history")
            return taken

        forks, plain = alternate(session.pick(40, 20), fork, lambda n: each(raw.commit, raw.entries(_ROUND)))
    raw.close()
    return forks, reads, plain


def _by_depth(session: Session) -> Times:
    """Times of forks in the middle of histories of 1, 100 and 10,000 forks of one event each, and of plain commits."""
    raw = PlainLmdb(session.new())
    stores = [relaxed(session.copy(session.deep(depth))) for depth in DEPTHS]
    try:
        branches = [store.branch("deep") for store in stores]

        found = alternate(
            session.pick(20, 8),
            *(
                lambda n, b=branch, at=max(1, depth // 2): each(
                    b.fork, [(f"new-{n * _ROUND + i}", at) for i in range(_ROUND)]
                )
                for branch, depth in zip(branches, DEPTHS, strict=True)
            ),
            lambda n: each(raw.commit, raw.entries(_ROUND)),
        )
    finally:
        for store in stores:
            store.close()
        raw.close()
    return found


@figure("fork at the middle, relaxed, at 100,000 events", "µs", at_most(40, "µs"))
def fork(session: Session) -> Measured:
    forks, _, plain = session.once(_at_middle)
    return Measured.of(forks, US, plain, _COMMIT, f"{len(forks):,} forks")


@figure("the state of that fork, at once", "µs")
def fork_state(session: Session) -> Measured:
    forks, reads, _ = session.once(_at_middle)
    return Measured.of(reads, US, forks, "the fork itself", "the length, checked on every fork")


def _at_depth(k: int) -> None:
    @figure(f"fork at depth {DEPTHS[k]:,}, relaxed", "µs", at_most(40, "µs"))
    def at_depth(session: Session) -> Measured:
        times = session.once(_by_depth)
        return Measured.of(times[k], US, times[-1], _COMMIT)


for _k in range(len(DEPTHS)):
    _at_depth(_k)


@figure("fork, from depth 100 to 10,000", "µs", at_most_times(2, "that at depth 100"))
def depth_growth(session: Session) -> Measured:
    times = session.once(_by_depth)
    note = f"median at depth 1 {median(times[0]) * US:.1f} µs"
    return Measured.of(times[2], US, times[1], "the same at depth 100", note)
