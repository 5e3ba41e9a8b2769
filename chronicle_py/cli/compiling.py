"""Commands about what goes into a context window: compile, context-stats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from chronicle_py.cli import output
from chronicle_py.cli.app import app
from chronicle_py.cli.context_picture import pictured
from chronicle_py.cli.managing import (
    BudgetTokens,
    Namespace,
    ReserveTokens,
    Settings,
    StrategyName,
    budget_of,
    managing,
    strategy_of,
)
from chronicle_py.cli.options import DEFAULT_STORE, BranchName, Json, StorePath

if TYPE_CHECKING:
    from chronicle_py.context import Compiled

SECTION = "Conversation"
_BUDGET = 100_000
_FORMATS = ("text", "anthropic", "openai")
DEFAULT_STRATEGY = "autobiographical"


@app.command(rich_help_panel=SECTION)
def compile(
    store: StorePath = DEFAULT_STORE,
    branch: BranchName = "main",
    budget: BudgetTokens = _BUDGET,
    reserve: ReserveTokens = None,
    strategy: StrategyName = DEFAULT_STRATEGY,
    settings: Settings = None,
    format: Annotated[
        str, typer.Option("--format", "-f", metavar="FORM", help=f"One of {', '.join(_FORMATS)}.")
    ] = "text",
    namespace: Namespace = None,
    json: Json = False,
) -> None:
    """Prints what a model would get: the conversation of a branch within a budget of tokens.

    With --format anthropic or openai the JSON that these APIs take. Writes nothing and calls no model; what is to be
    summarised is shown raw, or left out, until `chronicle summarize`.

    \b
    chronicle compile --budget 8000
    chronicle compile --budget 8000 --strategy sliding-window --format openai
    chronicle compile -b other --set recent_window_tokens=2000
    """
    if format not in _FORMATS:
        raise typer.BadParameter(f"{format!r} is none of {', '.join(_FORMATS)}", param_hint="--format")
    chosen = strategy_of(strategy, settings)
    with managing(store, branch, chosen, namespace) as manager:
        compiled = manager.compile(budget_of(budget, reserve))
    if format == "anthropic":
        output.print_json(compiled.to_anthropic())
    elif format == "openai":
        output.print_json(compiled.to_openai())
    elif json:
        output.print_json(compiled_json(compiled))
    else:
        output.say(_printable(compiled.text))


def compiled_json(compiled: Compiled) -> dict[str, Any]:
    """A compiled context as JSON shows it."""
    from chronicle_py.context.blocks import plain

    messages = [
        {**msgspec.structs.asdict(message), "blocks": [plain(block) for block in message.blocks]}
        for message in compiled.messages
    ]
    return {
        "tokens": compiled.tokens,
        "stats": msgspec.to_builtins(compiled.stats),
        "system": compiled.system,
        "messages": messages,
    }


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() or c in "\n\t" else " " for c in text)


@app.command("context-stats", rich_help_panel=SECTION)
def context_stats(
    store: StorePath = DEFAULT_STORE,
    branch: BranchName = "main",
    budget: BudgetTokens = _BUDGET,
    reserve: ReserveTokens = None,
    strategy: StrategyName = DEFAULT_STRATEGY,
    settings: Settings = None,
    namespace: Namespace = None,
    json: Json = False,
) -> None:
    """Draws what a context is made of: how much is raw, how much folded into memories, what is pending.

    \b
    chronicle context-stats --budget 8000
    chronicle context-stats -b other --set recent_window_tokens=2000 --json
    """
    chosen = strategy_of(strategy, settings)
    with managing(store, branch, chosen, namespace) as manager:
        stats = manager.stats()
        limits = budget_of(budget, reserve)
        compiled = manager.compile(limits)
        rendered = manager.render_stats(limits) or compiled.stats
        pending = [work.level for work in manager.pending()]
    if json:
        output.print_json(
            {
                **msgspec.structs.asdict(stats),
                "budget": msgspec.to_builtins(limits),
                "compiled_tokens": compiled.tokens,
                "compiled_messages": len(compiled.messages),
                "render": msgspec.to_builtins(rendered),
                "planned": {"chunks": pending.count(1), "merges": len(pending) - pending.count(1)},
            }
        )
        return
    for line in pictured(stats, rendered, compiled.tokens, limits, pending):
        output.say(line)
