"""What chronicle-py is for, in ten seconds: `make demo`.

A real agent run is imported, forked at an early message and continued differently on both branches; both are looked at,
compared, verified and replayed. Everything happens in a temporary folder, by the `chronicle` command and a few lines of
Python, each shown before it runs. Needs no network, no keys and no terminal.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

import chronicle_py as chronicle

ROOT = Path(__file__).resolve().parent.parent
RUNS = (ROOT.parent / "shared" / "data" / "swe-agent-function-calling.traj", ROOT / "docs" / "sample.traj.json")
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


def say(role: str, content: str, **more: object) -> str:
    return json.dumps({"role": role, "content": content, **more})


def call(tool: str, **arguments: str) -> list[object]:
    return [{"type": "function", "id": "call_x", "function": {"name": tool, "arguments": json.dumps(arguments)}}]


def must(true: bool, what: str) -> None:
    if not true:
        raise SystemExit(f"the demo found what must not be: {what}")


def first_words(item: dict[str, object]) -> str:
    words = " ".join(str(item["content"]).split())
    return f"{item['role']}: {words[:30]}" + ("…" if len(words) > 30 else "")


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
    run("fork", "test-first", "--at", str(FORK_AT))
    run(
        "append",
        "-b",
        "test-first",
        "--slot",
        "messages",
        say("user", "Wait. Write a test that fails, before you edit."),
    )
    answer = say("assistant", "A test first, then.", tool_calls=call("create", file="test_bug.py"))
    run("append", "-b", "test-first", "--slot", "messages", answer)
    run("append", "--slot", "messages", say("user", "Thank you. Please say in one line what you changed."))
    run("log", "--all", "--limit", "3")


def look_back() -> None:
    chapter(
        "3. State at any moment of any branch",
        "The list of messages is a slot: a fold of the events, never the truth itself. So it can be read as it was\n"
        "after any event, on every branch, without replaying the rest.",
    )
    python(
        'store.branch("main").state("messages", at=3)\n'
        'store.branch("test-first").state("messages", at=3)      # … and so on'
    )
    table = Table("at", "main", "test-first", "state hashes", box=None, pad_edge=False)
    with chronicle.open("chronicle.store", readonly=True) as store:
        main, other = store.branch("main"), store.branch("test-first")
        for seq in (3, FORK_AT, FORK_AT + 2):
            a, b = main.state("messages", at=seq), other.state("messages", at=seq)
            same = "equal" if a.hash == b.hash else "different"
            must((a.hash == b.hash) == (seq <= FORK_AT), f"hashes at sequence {seq}")
            table.add_row(str(seq), first_words(a[-1]), first_words(b[-1]), f"{a.hash[:8]} {b.hash[:8]} {same}")
        shared = [x.id for x, y in zip(main.events(), other.events(), strict=False) if x.id == y.id]
    out.print(table, soft_wrap=False)
    must(len(shared) == FORK_AT, "ids that the branches share")
    out.print()
    python("[a.id for a, b in zip(main.events(), other.events()) if a.id == b.id]")
    ends = f"{shared[0][:10]}… to {shared[-1][:10]}…"
    out.print(f"{len(shared)} ids are the same on both, up to the fork and not one more: {ends}\n")
    run("diff", "messages", "main", "test-first")


def check() -> None:
    chapter(
        "4. Nothing is taken on trust",
        "Verify checks every id, index and checksum, and folds all state anew. Replay folds a slot from its first\n"
        "event and compares hashes. An export carries all of it to another store, under the same ids.",
    )
    run("verify", "--deep")
    run("replay", "messages")
    run("replay", "messages", "-b", "test-first")
    run("export", "--output", "backup.jsonl")
    run("import", "backup.jsonl", "--store", "copy.store")
    with chronicle.open("chronicle.store", readonly=True) as a, chronicle.open("copy.store", readonly=True) as b:
        heads = [(info.name, info.seq, info.head) for info in a.branches()]
        must(heads == [(info.name, info.seq, info.head) for info in b.branches()], "heads after export and import")
        must(a.verify(deep=True).ok and b.verify(deep=True).ok, "a problem that verify found")
        for name, _, _ in heads:
            must(a.branch(name).replay("messages").equal, f"a replay of {name} that differs")
            must(a.branch(name).state("messages").hash == b.branch(name).state("messages").hash, f"the copy of {name}")
    out.print(
        f"heads and state hashes of both branches are equal in the copy: {', '.join(name for name, _, _ in heads)}\n"
    )


def at_size() -> None:
    chapter(
        f"5. The same with {LARGE:,} messages",
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
            check()
            at_size()
        finally:
            os.chdir(ROOT)
    out.print("[bold]That is it:[/] README.md shows the same as a library, docs/cli.md every command.")


if __name__ == "__main__":
    main()
