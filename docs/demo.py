"""What chronicle-py is for, in ten seconds: `make demo`.

A real agent run is imported, forked at an early message and continued differently on both branches; both are looked at,
compared, compiled for a small context window before and after folding, verified and replayed. Everything happens in a
temporary folder, by the `chronicle` command and a few lines of Python, each shown before it runs. Needs no network, no
keys and no terminal.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

import chronicle_py as chronicle
from chronicle_py.context import Budget, ContextManager, Conversation
from chronicle_py.context.compiled import spoken
from chronicle_py.strategies import Autobiographical

ROOT = Path(__file__).resolve().parent.parent
RUNS = (ROOT.parent / "shared" / "data" / "swe-agent-function-calling.traj", ROOT / "docs" / "sample.traj.json")
OTHER = "test-first"
BRANCHES = ("main", OTHER)
MESSAGES = "context/messages"
FORK_AT = 6
LARGE = 100_000

out = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 120)


def chapter(title: str, text: str) -> None:
    out.print(f"\n[bold]{title}[/]\n{text}\n")


def run(*args: str) -> None:
    """Shows a command and runs it, as a process of its own."""
    out.print(f"[bold green]$ chronicle {' '.join(map(shlex.quote, args))}[/]", markup=True)
    sys.stdout.flush()
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))}
    code = subprocess.run([sys.executable, "-m", "chronicle_py.cli", *args], check=False, env=env).returncode
    if code:
        sys.exit(code)
    out.print()


def python(code: str) -> None:
    """Shows the lines of Python that have just run."""
    for line in code.splitlines():
        out.print(f">>> {line}", style="bold green", markup=False)


def must(true: bool, what: str) -> None:
    if not true:
        raise SystemExit(f"the demo found what must not be: {what}")


def first_words(text: str, width: int = 30) -> str:
    words = " ".join(text.split())
    return words[:width] + ("…" if len(words) > width else "")


def import_a_run() -> None:
    source = next(path for path in RUNS if path.exists())
    chapter(
        "1. A conversation becomes a log of events",
        "An agent mended a bug. Each message of its run becomes one event: immutable, with an id that is the hash of\n"
        "what it says and of all that came before it.",
    )
    run("import", str(source))
    run("log", "--limit", "5")


def go_another_way() -> None:
    chapter(
        f"2. Fork at event {FORK_AT}, and go on differently",
        "What if the agent had been told to write a test first? A branch from there shares the events so far and\n"
        "copies none of them. The old one goes on too.",
    )
    run("fork", OTHER, "--at", str(FORK_AT))
    run("say", "-b", OTHER, "Wait. Write a test that fails, before you edit.")
    run("say", "-b", OTHER, "-p", "assistant", "A test first, then: it fails, as it should. Now the edit.")
    run("say", "Thank you. Please say in one line what you changed.")
    run("log", "--all", "--limit", "3")


def look_back() -> None:
    chapter(
        "3. State at any moment of any branch",
        "The list of messages is a slot: a fold of the events, never the truth itself. So it can be read as it was\n"
        "after any event, on every branch, without replaying the rest.",
    )
    python(
        'store.branch("main").state("context/messages", at=3)\n'
        'store.branch("test-first").state("context/messages", at=3)      # … and so on'
    )
    table = Table("at", "main", OTHER, "state hashes", box=None, pad_edge=False)
    with chronicle.open("chronicle.store", readonly=True) as store:
        conversations = [Conversation(store, name) for name in BRANCHES]
        main, other = (conversation.branch for conversation in conversations)
        for seq in (3, FORK_AT, FORK_AT + 2):
            a, b = (branch.state("context/messages", at=seq) for branch in (main, other))
            newest = [c.get(c.branch.event(seq).id) for c in conversations]
            same = "equal" if a.hash == b.hash else "different"
            must((a.hash == b.hash) == (newest[0].id == newest[1].id), f"hashes at sequence {seq}")
            said = [escape(f"{m.participant}: {first_words(spoken(m.blocks))}") for m in newest]
            table.add_row(str(seq), *said, f"{a.hash[:8]} {b.hash[:8]} {same}")
        shared = [x.id for x, y in zip(main.events(), other.events(), strict=False) if x.id == y.id]
    out.print(table, soft_wrap=False)
    must(len(shared) == FORK_AT, "ids that the branches share")
    out.print()
    python("[a.id for a, b in zip(main.events(), other.events()) if a.id == b.id]")
    ends = f"{shared[0][:10]}… to {shared[-1][:10]}…"
    out.print(f"{len(shared)} ids are the same on both, up to the fork and not one more: {ends}\n")
    run("diff", "context/messages", "main", OTHER)


def fold() -> None:
    chapter(
        "4. A small context window",
        "What a model gets is compiled on demand, within a budget. What does not fit is left out, until it is folded\n"
        "into memories: summaries of whole chunks, events like all others. What both branches share is folded once.",
    )
    with chronicle.open("chronicle.store", readonly=True) as store, ContextManager(store, branch=OTHER) as manager:
        tokens = manager.stats().tokens
    budget = Budget(tokens * 9 // 10, tokens // 20)
    settings = {"recent_window_tokens": 60, "target_chunk_tokens": tokens // 8, "summary_target_tokens": tokens // 12}
    chosen = [f"--set={name}={value}" for name, value in settings.items()]
    limits = ["--budget", str(budget.max_tokens), "--reserve", str(budget.reserve_for_response)]
    before = compiled(budget, settings)
    run("context-stats", "-b", OTHER, *limits, *chosen)
    run("pin", "4", "--name", "what the agent saw first")
    run("pins", "-b", OTHER)
    run("summarize", *chosen)
    run("summarize", "-b", OTHER, *chosen)
    run("context-stats", "-b", OTHER, *limits, *chosen)
    run("context-stats", *limits, *chosen)
    after = compiled(budget, settings)
    python(
        "cm = ContextManager(store, branch=…, strategy=Autobiographical(…))\n"
        "[message for message in cm.compile(Budget(…)).messages]           # before and after folding, on both branches"
    )
    table = Table("branch", "before folding", "", "after", "", box=None, pad_edge=False)
    for name in BRANCHES:
        for line in range(max(len(before[name]), len(after[name]))):
            cells = [escape(cell) for side in (before, after) for cell in (side[name][line:] or [("", "")])[0]]
            table.add_row(name if line == 0 else "", *cells)
    out.print(table, soft_wrap=False)
    out.print()
    for name in BRANCHES:
        must(not any(kind.startswith("L") for kind, _ in before[name]), f"summaries on {name} before folding")
        must(any(kind.startswith("L") for kind, _ in after[name]), f"no summary on {name} after folding")
    with chronicle.open("chronicle.store", readonly=True) as store:
        pins = [len(ContextManager(store, branch=name, strategy=Autobiographical()).pins()) for name in BRANCHES]
    must(pins == [1, 0], "pins of the branches")
    out.print("The pin is on main alone, and so is what it keeps.\n")


def compiled(budget: Budget, settings: dict[str, int]) -> dict[str, list[tuple[str, str]]]:
    """What each branch compiles to, a line of each message: (sequence or summary, first words)."""
    found = {}
    with chronicle.open("chronicle.store", readonly=True) as store:
        for name in BRANCHES:
            strategy = Autobiographical(**settings)  # type: ignore[arg-type]
            with ContextManager(store, branch=name, strategy=strategy) as manager:
                messages = manager.compile(budget).messages
                must(manager.compile(budget).messages == messages, "a second compile that differs")
                found[name] = [
                    (
                        message.summary or (str(manager.message(message.id).seq) if message.id else ""),
                        first_words(spoken(message.blocks), 40),
                    )
                    for message in messages
                ]
    return found


def check() -> None:
    chapter(
        "5. Nothing is taken on trust",
        "Verify checks every id, index and checksum, and folds all state anew. Replay folds a slot from its first\n"
        "event and compares hashes. An export carries all of it to another store, under the same ids.",
    )
    run("verify", "--deep")
    run("replay", "context/messages")
    run("replay", "context/messages", "-b", OTHER)
    run("export", "--output", "backup.jsonl")
    run("import", "backup.jsonl", "--store", "copy.store")
    with chronicle.open("chronicle.store", readonly=True) as a, chronicle.open("copy.store", readonly=True) as b:
        heads = [(info.name, info.seq, info.head) for info in a.branches()]
        must(heads == [(info.name, info.seq, info.head) for info in b.branches()], "heads after export and import")
        for store in (a, b):
            Conversation(store)  # makes its reducer known here
        must(a.verify(deep=True).ok and b.verify(deep=True).ok, "a problem that verify found")
        for name, _, _ in heads:
            must(a.branch(name).replay(MESSAGES).equal, f"a replay of {name} that differs")
            must(a.branch(name).state(MESSAGES).hash == b.branch(name).state(MESSAGES).hash, f"the copy of {name}")
    out.print(
        f"heads and state hashes of both branches are equal in the copy: {', '.join(name for name, _, _ in heads)}\n"
    )


def at_size() -> None:
    chapter(
        f"6. The same with {LARGE:,} messages",
        "A fork, and a look at the past, take microseconds still.",
    )
    message = {"role": "user", "content": "The quick brown fox jumps over the lazy dog. " * 4}
    with chronicle.open("large.store", durability="relaxed") as store:
        store.register_state("messages", kind="append_log")
        main = store.branch()
        view = main.state("messages")
        started = time.perf_counter()
        for first in range(0, LARGE, 1000):
            with store.transaction():
                for number in range(first, first + 1000):
                    view.append({**message, "n": number})
        seconds = time.perf_counter() - started
        python(f"with store.transaction():\n    view.append(message)          # {LARGE:,} times, 1,000 a transaction")
        out.print(f"{LARGE:,} events in {seconds:.2f} s: {seconds / LARGE * 1e6:.1f} µs each, checkpoints included\n")
        started = time.perf_counter()
        half = main.fork("half", at=LARGE // 2)
        forked = time.perf_counter()
        items = half.state("messages").tail(20)
        seen = time.perf_counter()
        must(items[-1]["n"] == LARGE // 2 - 1, "the last message of the branch that was forked in the middle")
        python(f'half = main.fork("half", at={LARGE // 2})\nhalf.state("messages").tail(20)')
        fork, look = (forked - started) * 1e6, (seen - forked) * 1e6
        out.print(f"forked in {fork:.0f} µs, its last 20 messages read in {look:.0f} µs\n")
    run("replay", "messages", "--store", "large.store")


def main() -> None:
    os.environ.pop("CHRONICLE_STORE", None)
    with tempfile.TemporaryDirectory(prefix="chronicle-demo-") as folder:
        os.chdir(folder)
        try:
            import_a_run()
            go_another_way()
            look_back()
            fold()
            check()
            at_size()
        finally:
            os.chdir(ROOT)
    out.print("[bold]That is it:[/] README.md shows the same as a library, docs/cli.md every command.")


if __name__ == "__main__":
    main()
