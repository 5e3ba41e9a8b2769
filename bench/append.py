"""Figures of appending: durable, relaxed, many in a transaction, and many threads at once."""

from __future__ import annotations

import threading
from collections.abc import Callable

import chronicle_py as chronicle
from bench.figure import RATE, Measured, at_least_times, at_most, at_most_times, figure
from bench.measure import MS, US, alternate, each, mean, median, quantile, seconds
from bench.plain_lmdb import PlainLmdb
from bench.stores import BATCH, SLOT, Session, payload, relaxed

_BESIDE = "a commit of three puts"
_DURABLE_ROUND = 25  # small: what a disk does changes from second to second
_RELAXED_ROUND = 2_000
_BATCHED_ROUND = 5  # transactions
_THREADS = (1, 2, 4, 16)
_THREADED_ROUND = 240  # events, over all threads: a multiple of each number of them
_BATCHED_ROUNDS = 20  # so up to 100,000 events: random ids cost more as their tree grows

Append = Callable[[dict[str, str]], object]


def _commits(
    session: Session, store: chronicle.Store, *, durable: bool, rounds: int, size: int
) -> tuple[list[float], ...]:
    """Times of (appends to an append_log slot, appends of plain events, plain commits)."""
    raw = PlainLmdb(session.new(), durable=durable)
    store.register_state(SLOT, kind="append_log")
    log = store.branch().state(SLOT)
    events = store.orphan("events")
    try:
        return alternate(
            rounds,
            lambda n: each(log.append, [(payload(n * size + i),) for i in range(size)]),
            lambda n: each(events.append, [("note", payload(n * size + i)) for i in range(size)]),
            lambda n: each(raw.commit, raw.entries(size)),
        )
    finally:
        raw.close()


def _durable(session: Session) -> tuple[list[float], ...]:
    with chronicle.open(session.new(), durability="full") as store:
        return _commits(session, store, durable=True, rounds=session.pick(120, 15), size=_DURABLE_ROUND)


def _relaxed(session: Session) -> tuple[list[float], ...]:
    with relaxed(session.new()) as store:
        return _commits(session, store, durable=False, rounds=session.pick(50, 10), size=_RELAXED_ROUND)


def _batched(session: Session) -> tuple[list[float], ...]:
    """Seconds an event: (into a slot, plain events, plain LMDB), each transaction giving one number."""
    raw = PlainLmdb(session.new())
    with relaxed(session.new()) as store, relaxed(session.new()) as other:  # each grows to as many events as the floor
        store.register_state(SLOT, kind="append_log")
        log = store.branch().state(SLOT)
        events = other.branch()

        def transact(items: list[dict[str, str]]) -> None:
            with store.transaction():
                for item in items:
                    log.append(item)

        def transact_plain(items: list[dict[str, str]]) -> None:
            with other.transaction():
                for item in items:
                    events.append("note", item)

        def timed(call: Callable[[list[dict[str, str]]], None], n: int) -> list[float]:
            first = n * _BATCHED_ROUND
            batches = [[payload((first + k) * BATCH + i) for i in range(BATCH)] for k in range(_BATCHED_ROUND)]
            return [seconds(lambda b=batch: call(b)) / BATCH for batch in batches]  # type: ignore[misc]

        def plain(n: int) -> list[float]:
            batches = [raw.entries(BATCH) for _ in range(_BATCHED_ROUND)]
            return [seconds(lambda b=batch: raw.commit_many(b)) / BATCH for batch in batches]  # type: ignore[misc]

        times = alternate(_BATCHED_ROUNDS, lambda n: timed(transact, n), lambda n: timed(transact_plain, n), plain)
    raw.close()
    return times


@figure("append to an append_log slot, durable", "µs", at_most_times(1.2, "a raw durable commit"))
def durable(session: Session) -> Measured:
    ours, _, raw = session.once(_durable)
    note = f"{len(ours):,} each; means {mean(ours) * US:.0f} and {mean(raw) * US:.0f} µs"
    return Measured.of(ours, US, raw, _BESIDE, note)


@figure("append to an append_log slot, relaxed: median", "µs", at_most_times(2.0, "a raw relaxed commit"))
def relaxed_median(session: Session) -> Measured:
    ours, _, raw = session.once(_relaxed)
    return Measured.of(ours, US, raw, _BESIDE, f"{len(ours):,} each")


@figure("append to an append_log slot, relaxed: mean", "µs", at_most_times(2.5, "a raw relaxed commit"))
def relaxed_mean(session: Session) -> Measured:
    ours, _, raw = session.once(_relaxed)
    return Measured.of(ours, US, raw, _BESIDE, at=mean)


@figure("append to an append_log slot, relaxed: 99.9th percentile", "ms", at_most(1, "ms"))
def relaxed_tail(session: Session) -> Measured:
    ours, _, raw = session.once(_relaxed)
    note = f"99th percentile {quantile(ours, 0.99) * US:.0f} µs, slowest {max(ours) * MS:.1f} ms"
    return Measured.of(ours, MS, raw, _BESIDE, note, at=lambda times: quantile(times, 0.999))


@figure(
    "append to an append_log slot, 1,000 per transaction: an event", "µs", at_most(7, "µs", ", checkpoints included")
)
def batched(session: Session) -> Measured:
    ours, _, raw = session.once(_batched)
    note = f"{len(ours)} transactions, up to {len(ours) * BATCH:,} events; mean {mean(ours) * US:.2f} µs"
    return Measured.of(ours, US, raw, "putmulti of events and ids", note)


@figure("append a plain event, durable", "µs", at_most_times(1.2, "a raw durable commit"))
def durable_plain(session: Session) -> Measured:
    _, ours, raw = session.once(_durable)
    return Measured.of(ours, US, raw, _BESIDE)


@figure("append a plain event, relaxed", "µs", at_most_times(2.0, "a raw relaxed commit"))
def relaxed_plain(session: Session) -> Measured:
    _, ours, raw = session.once(_relaxed)
    return Measured.of(ours, US, raw, _BESIDE)


@figure("append a plain event, 1,000 per transaction: an event", "µs", at_most(7, "µs"))
def batched_plain(session: Session) -> Measured:
    _, ours, raw = session.once(_batched)
    return Measured.of(ours, US, raw, "putmulti of events and ids")


def _threaded(session: Session, appends: Callable[[chronicle.Store], list[Append]]) -> Measured:
    """Durable appends of 16 threads beside those of one; `appends` gives each thread its own."""
    with chronicle.open(session.new(), durability="full") as store:
        store.register_state(SLOT, kind="append_log")
        calls = appends(store)

        def at_once(threads: int) -> list[float]:
            """Seconds an event."""
            share = _THREADED_ROUND // threads
            barrier = threading.Barrier(threads + 1)

            def work(append: Append) -> None:
                items = [payload(i) for i in range(share)]
                barrier.wait()
                each(append, [(item,) for item in items])
                barrier.wait()

            workers = [threading.Thread(target=work, args=(call,)) for call in calls[:threads]]
            for worker in workers:
                worker.start()
            barrier.wait()
            found = seconds(barrier.wait) / _THREADED_ROUND
            for worker in workers:
                worker.join()
            return [found]

        times = alternate(session.pick(12, 6), *(lambda n, threads=threads: at_once(threads) for threads in _THREADS))
    rates = {threads: 1 / median(found) for threads, found in zip(_THREADS, times, strict=True)}
    note = ", ".join(f"{threads} threads {rates[threads] / rates[1]:.2f} ×" for threads in _THREADS[1:-1])
    return Measured.rate(times[-1], 1, times[0], "one thread", note)


def _notes(branch: chronicle.Branch) -> Append:
    return lambda item: branch.append("note", item)


@figure("16 threads appending durably to a branch", RATE, at_least_times(3, "one thread"))
def threads_branch(session: Session) -> Measured:
    return _threaded(session, lambda store: [_notes(store.branch())] * 16)


@figure("16 threads appending durably to an append_log slot", RATE, at_least_times(3, "one thread"))
def threads_slot(session: Session) -> Measured:
    return _threaded(session, lambda store: [store.branch().state(SLOT).append] * 16)


@figure("16 threads appending durably to a slot on 16 branches", RATE, at_least_times(3, "one thread"))
def threads_branches(session: Session) -> Measured:
    return _threaded(session, lambda store: [store.branch().fork(f"{n}").state(SLOT).append for n in range(16)])
