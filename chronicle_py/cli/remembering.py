"""Commands about what a conversation remembers: pin, unpin, pins, summarize, search."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer

from chronicle_py import NotFound
from chronicle_py.cli import output, preview
from chronicle_py.cli.app import app
from chronicle_py.cli.compiling import DEFAULT_STRATEGY
from chronicle_py.cli.managing import (
    SUMMARIZERS,
    Namespace,
    Settings,
    StrategyName,
    managing,
    message_id,
    strategy_of,
    summarizer_of,
)
from chronicle_py.cli.options import DEFAULT_STORE, BranchName, Json, StorePath, place

SECTION = "Conversation"
_PREVIEW = 100

PlaceOfMessage = Annotated[str, typer.Argument(metavar="MESSAGE", help="Its sequence, or the start of its id.")]


# --- pins -----------------------------------------------------------------------------------------------------------


@app.command(rich_help_panel=SECTION)
def pin(
    first: PlaceOfMessage,
    last: Annotated[
        str | None, typer.Argument(metavar="[LAST]", help="The last message of a range.", show_default=False)
    ] = None,
    store: StorePath = DEFAULT_STORE,
    branch: BranchName = "main",
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="What to call it.")] = None,
    document: Annotated[bool, typer.Option("--document", help="As a document: one message.")] = False,
    namespace: Namespace = None,
    json: Json = False,
) -> None:
    """Keeps messages raw and in their place, on this branch.

    Whole pairs of a tool's call and result, whatever becomes of the rest.

    \b
    chronicle pin 3
    chronicle pin 3 6 -b other --name "the plan"
    """
    if document and last is not None:
        raise typer.BadParameter("a document is one message; leave LAST out", param_hint="--document")
    with managing(store, branch, strategy_of(DEFAULT_STRATEGY, None), namespace, write=True) as manager:
        target = manager.store.branch(branch)
        start = message_id(target, first)
        if document:
            id = manager.mark_document(start, name)
        else:
            id = manager.pin(start, None if last is None else message_id(target, last), name)
        made = next(found for found in manager.pins() if found.id == id)
        seq = target.event(id).seq
    if json:
        output.print_json(msgspec.to_builtins(made))
    else:
        output.say(f"pinned: {seq} {output.short(id)} keeps {_range(made)} on {branch}")


@app.command(rich_help_panel=SECTION)
def unpin(
    pin: Annotated[str, typer.Argument(metavar="PIN", help="Its sequence, or the start of its id.")],
    store: StorePath = DEFAULT_STORE,
    branch: BranchName = "main",
    namespace: Namespace = None,
    json: Json = False,
) -> None:
    """Takes a pin back, on this branch.

    \b
    chronicle unpin 15
    chronicle unpin 3f9a2c
    """
    with managing(store, branch, strategy_of(DEFAULT_STRATEGY, None), namespace, write=True) as manager:
        found = place(manager.store.branch(branch), pin)
        id = found if isinstance(found, str) else manager.store.branch(branch).event(found).id
        if not manager.unpin(id):
            raise NotFound(f"there is no pin {pin} on {branch}; `chronicle pins -b {branch}` lists them")
    if json:
        output.print_json({"unpinned": id})
    else:
        output.say(f"unpinned: {output.short(id)} on {branch}")


@app.command(rich_help_panel=SECTION)
def pins(
    store: StorePath = DEFAULT_STORE, branch: BranchName = "main", namespace: Namespace = None, json: Json = False
) -> None:
    """Lists the pins and documents of a branch.

    \b
    chronicle pins -b other
    """
    with managing(store, branch, strategy_of(DEFAULT_STRATEGY, None), namespace) as manager:
        found = manager.pins()
        seqs = [manager.store.branch(branch).event(pin.id).seq for pin in found]
    if json:
        output.print_json([msgspec.to_builtins(pin) for pin in found])
    elif not found:
        output.say("no pins")
    else:
        rows = [
            (seq, output.short(pin.id), pin.kind, _range(pin), pin.name or "-", output.when(pin.created))
            for seq, pin in zip(seqs, found, strict=True)
        ]
        output.table(("at", "pin", "kind", "keeps", "name", "since"), rows, right=("at",))


def _range(pin: Any) -> str:
    if pin.first_seq == pin.last_seq:
        return f"message {pin.first_seq}"
    return f"messages {pin.first_seq} to {pin.last_seq}"


# --- summaries ------------------------------------------------------------------------------------------------------


@app.command(rich_help_panel=SECTION)
def summarize(
    store: StorePath = DEFAULT_STORE,
    branch: BranchName = "main",
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, metavar="N", help="At most N.", show_default="all")
    ] = None,
    summarizer: Annotated[
        str, typer.Option("--summarizer", metavar="NAME", help=f"Who writes them: {', '.join(SUMMARIZERS)}.")
    ] = "extractive",
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="The model of openai, anthropic.")
    ] = None,
    strategy: StrategyName = DEFAULT_STRATEGY,
    settings: Settings = None,
    namespace: Namespace = None,
    json: Json = False,
) -> None:
    """Folds old messages into memories: makes the summaries that a strategy has planned.

    By itself without a network ("extractive" takes sentences of the conversation). What was summarised on another
    branch is taken over, not made again. Interrupted, it keeps what is done.

    \b
    chronicle summarize
    chronicle summarize --set target_chunk_tokens=1000 --set recent_window_tokens=2000
    chronicle summarize --summarizer anthropic --model claude-haiku-4-5
    """
    chosen = strategy_of(strategy, settings)
    by = summarizer_of(summarizer, model)
    with managing(store, branch, chosen, namespace, write=True, summarizer=by) as manager:
        before = manager.stats().summaries
        with output.progress("summarising") as report:
            done = 0
            while (limit is None or done < limit) and manager.drain(1):
                done += 1
                if report is not None:
                    report(done, done + len(manager.pending()))
        after, left = manager.stats().summaries, len(manager.pending())
    if json:
        output.print_json({"done": done, "pending": left, "summaries": {str(k): v for k, v in after.items()}})
        return
    output.say(f"summarised: {_count(done)} made or taken over on {branch}, {left:,} pending")
    for level, number in after.items():
        new = number - before.get(level, 0)
        output.say(f"  L{level}: {number:,}" + (f", {new:,} of them new" if new else ""))


def _count(number: int) -> str:
    return f"{number:,} summar" + ("y" if number == 1 else "ies")


@app.command(rich_help_panel=SECTION)
def search(
    text: Annotated[
        str | None, typer.Argument(metavar="[TEXT]", help="Words, in any case; without it, all.", show_default=False)
    ] = None,
    store: StorePath = DEFAULT_STORE,
    branch: BranchName = "main",
    regex: Annotated[str | None, typer.Option("--regex", metavar="PATTERN", help="A regular expression.")] = None,
    levels: Annotated[
        list[int] | None, typer.Option("--level", min=1, metavar="N", help="Only of this level. Repeatable.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, metavar="N", help="At most N, 0 for all.")] = 50,
    merged: Annotated[bool, typer.Option("--merged", help="Those that were merged into higher ones, too.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Whole summaries, not a line of each.")] = False,
    strategy: StrategyName = DEFAULT_STRATEGY,
    settings: Settings = None,
    namespace: Namespace = None,
    json: Json = False,
) -> None:
    """Looks through the summaries of a branch, newest first.

    \b
    chronicle search "rounding error"
    chronicle search --regex 'fields?[.]py' --level 1 --merged
    """
    with managing(store, branch, strategy_of(strategy, settings), namespace) as manager:
        found = manager.search(text, regex, levels, limit or None, merged)
    if json:
        output.print_json([{**msgspec.to_builtins(result.summary), "matches": result.matches} for result in found])
        return
    for result in found:
        matches = f", {output.count(result.matches, 'match')}" if result.matches else ""
        head = f"{result.id} ({result.summary.tokens:,} tokens{matches})"
        if full:
            output.say(f"{head}\n{result.content}\n")
        else:
            width = (output.terminal_width() or _PREVIEW + len(head) + 1) - len(head) - 1
            output.say(f"{head} {preview.cut(preview.clean(result.content[:600]), width)}")
    if not found:
        output.say("nothing found")
