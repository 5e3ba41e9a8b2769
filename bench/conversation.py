"""Figures of the conversation layer: adding messages, compiling, forking, folding, and how stable a prompt's prefix is.

The messages are those of a real agent's run, repeated, where `../shared/data` is present; else ones of the same sizes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import chronicle_py as chronicle
from bench.figure import RATE, Measured, at_least, at_most, figure
from bench.measure import MS, US, mean, median, quartiles, seconds
from bench.stores import Session, relaxed
from chronicle_py.context import Budget, ContextManager
from chronicle_py.strategies import Autobiographical

SMALL, LARGE = 1_000, 10_000
BUDGET = Budget(max_tokens=100_000)
TURNS = 200
_RUN = Path(__file__).parents[2] / "shared" / "data" / "swe-agent-replace-from-source.traj"


def texts() -> list[tuple[str, str]]:
    """(participant, text) of the messages of one run."""
    if not _RUN.exists():
        return [
            ("User" if n % 2 == 0 else "Claude", f"{n}: " + "words and more words " * (5 + n % 40)) for n in range(40)
        ]
    history = json.loads(_RUN.read_text())["history"]
    return [("Claude" if m["role"] == "assistant" else "User", str(m["content"])) for m in history[1:]]


def spoken(count: int, start: int = 0) -> Iterator[tuple[str, str]]:
    """`count` messages, all different."""
    said = texts()
    for n in range(start, start + count):
        who, text = said[n % len(said)]
        yield who, f"[{n}] {text[:2_000]}"


def _built(session: Session, count: int) -> Path:
    """A store with a conversation, folded by the offline summarizer."""

    def build(path: Path) -> None:
        with relaxed(path) as store:
            cm = ContextManager(store, strategy=Autobiographical())
            with store.transaction():
                for who, text in spoken(count):
                    cm.add_message(who, text)
            cm.drain()

    return session.built(("conversation", count), build)


def added(session: Session, count: int) -> list[float]:
    """Seconds to add a short message to a conversation of so many, for some in turn."""
    with relaxed(session.copy(_built(session, count))) as store:
        cm = ContextManager(store, strategy=Autobiographical())
        short = [(who, text[:260]) for who, text in spoken(session.pick(1_000, 300), count)]
        return [seconds(lambda w=who, t=text: cm.add_message(w, t)) for who, text in short]  # type: ignore[misc]


@figure("add a message of 260 characters, tokens counted", "µs", at_most(60, "µs"))
def add(session: Session) -> Measured:
    return Measured.of(added(session, LARGE), US)


def compiled_after_one(session: Session, count: int) -> list[float]:
    """Seconds to compile a conversation of so many messages after one more, for some in turn."""
    with relaxed(session.copy(_built(session, count))) as store:
        cm = ContextManager(store, strategy=Autobiographical())
        cm.compile(BUDGET)
        times = []
        for who, text in spoken(session.pick(40, 12), count):
            cm.add_message(who, text)
            times.append(seconds(lambda: cm.compile(BUDGET)))
    return times


@figure("compile 10,000 messages into 100,000 tokens, after one more", "ms", at_most(20, "ms"))
def compile_warm(session: Session) -> Measured:
    return Measured.of(compiled_after_one(session, LARGE), MS, compiled_after_one(session, SMALL), "the same at 1,000")


@figure("compile 10,000 messages into 100,000 tokens, newly opened", "ms", at_most(300, "ms"))
def compile_cold(session: Session) -> Measured:
    path = _built(session, LARGE)

    def once() -> None:
        with relaxed(path) as store:
            ContextManager(store, strategy=Autobiographical()).compile(BUDGET)

    return Measured.of([seconds(once) for _ in range(session.pick(9, 3))], MS, note="opening included")


@figure("fork at a message and compile there", "ms", at_most(50, "ms"))
def fork_and_compile(session: Session) -> Measured:
    with relaxed(session.copy(_built(session, LARGE))) as store:
        cm = ContextManager(store, strategy=Autobiographical())
        cm.compile(BUDGET)
        places = [message.id for message in cm.messages(LARGE // 2, LARGE // 2 + session.pick(9, 4))]
        times = []
        for place in places:

            def once(at: str = place) -> None:
                cm.switch(cm.fork(at=at).name)
                cm.compile(BUDGET)

            times.append(seconds(once))
            cm.switch("main")
    return Measured.of(times, MS)


@figure("fold of a strategy from the first event", RATE, at_least(100_000, RATE))
def fold(session: Session) -> Measured:
    with relaxed(_built(session, LARGE)) as store:
        ContextManager(store, strategy=Autobiographical())
        runs = [store.branch().replay("context/autobiographical") for _ in range(session.pick(5, 2))]
    if not all(run.equal for run in runs):
        raise AssertionError("a replay gave another state")
    return Measured.rate([run.seconds for run in runs], runs[0].events)


def _shared(a: bytes, b: bytes) -> int:
    """How many bytes two prompts begin with alike."""
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _shares(session: Session) -> list[float]:
    """For each turn past the budget: how much of the prompt begins the next one, byte by byte."""
    shares = []
    with chronicle.open(session.new(), durability="relaxed") as store:
        budget = Budget(max_tokens=24_000)
        cm = ContextManager(store, strategy=Autobiographical(recent_window_tokens=12_000))
        turn = 0
        before = b""
        speech = spoken(10_000)
        tokens = 0
        while turn < TURNS:
            who, text = next(speech)
            tokens += cm.add_message(who, text).tokens
            cm.drain()
            if tokens < 30_000:
                continue
            prompt = (
                json.dumps(cm.compile(budget).to_anthropic()["messages"])
                .replace(', "cache_control": {"type": "ephemeral"}', "")
                .encode()
            )
            if before:
                shares.append(_shared(before, prompt) / len(before))
                turn += 1
            before = prompt
    return shares


@figure("share of a prompt that begins the next one, median", "%", at_least(95, "%"))
def prefix_median(session: Session) -> Measured:
    shares = [100 * share for share in session.once(_shares)]
    return Measured(median(shares), spread=quartiles(shares))


@figure("share of a prompt that begins the next one, mean", "%", at_least(80, "%"))
def prefix_mean(session: Session) -> Measured:
    shares = [100 * share for share in session.once(_shares)]
    return Measured(mean(shares), spread=quartiles(shares))
