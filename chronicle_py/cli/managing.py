"""Which `ContextManager` a command works with: its strategy with options, its branch, its summarizer.

The conversation layer is imported when a command runs, so that others start as quickly as before.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from chronicle_py import Branch, NotFound, Store
from chronicle_py.cli.options import place, reading, writing

if TYPE_CHECKING:
    from chronicle_py.context import Budget, ContextManager

STRATEGIES: Final = ("passthrough", "sliding-window", "autobiographical", "knowledge")
SUMMARIZERS: Final = ("extractive", "openai", "anthropic")
MESSAGES_SLOT: Final = "context/messages"
MESSAGES: Final = "messages"  # the reducer of such slots
RESERVE: Final = 4_000
_RESERVED_PART: Final = 5  # of a small budget, the fifth part

StrategyName = Annotated[
    str, typer.Option("--strategy", metavar="NAME", help=f"How the context is made: {', '.join(STRATEGIES)}.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="OPTION=VALUE", help="An option of the strategy, see docs/strategies.md. Repeatable."
    ),
]
Namespace = Annotated[
    str | None, typer.Option("--namespace", metavar="NAME", help="Whose pins and memories.", show_default="the shared")
]
BudgetTokens = Annotated[int, typer.Option("--budget", min=1, metavar="N", help="Tokens of the whole window.")]
ReserveTokens = Annotated[
    int | None,
    typer.Option(
        "--reserve", min=0, metavar="N", help="Tokens of the budget that are left for the answer.",
        show_default=f"{RESERVE:,}, at most a fifth",
    ),
]  # fmt: skip


def budget_of(tokens: int, reserve: int | None) -> Budget:
    """The budget of a command line."""
    from chronicle_py.context import Budget

    return Budget(tokens, min(RESERVE, tokens // _RESERVED_PART) if reserve is None else reserve)


def strategy_of(name: str, settings: list[str] | None) -> Any:
    """The strategy of this name with these options, each NAME=VALUE, the value JSON or a plain text."""
    from chronicle_py import strategies

    classes = dict(
        zip(
            STRATEGIES,
            (strategies.Passthrough, strategies.SlidingWindow, strategies.Autobiographical, strategies.Knowledge),
            strict=True,
        )
    )
    if name not in classes:
        raise typer.BadParameter(f"{name!r} is none of {', '.join(STRATEGIES)}", param_hint="--strategy")
    options = dict(_setting(text) for text in settings or ())
    try:
        return classes[name](**options)
    except TypeError as error:
        unknown = next((key for key in options if f"'{key}'" in str(error)), None)
        wrong = f"{name} has no option {unknown!r}" if unknown else f"{name}: {error}"
        raise typer.BadParameter(wrong, param_hint="--set") from None


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    name = name.strip().replace("-", "_")
    if not equals or not name.isidentifier():
        raise typer.BadParameter(f"{text!r} is no OPTION=VALUE", param_hint="--set")
    try:
        return name, msgspec.json.decode(value)
    except msgspec.DecodeError:
        return name, {"True": True, "False": False, "None": None}.get(value, value)


def summarizer_of(name: str, model: str | None) -> Any:
    """What makes summaries; keys of models' APIs come from their own environment variables."""
    from chronicle_py import context

    if name not in SUMMARIZERS:
        raise typer.BadParameter(f"{name!r} is none of {', '.join(SUMMARIZERS)}", param_hint="--summarizer")
    if name == "extractive":
        return context.Extractive()
    named = {} if model is None else {"model": model}
    return context.OpenAISummarizer(**named) if name == "openai" else context.AnthropicSummarizer(**named)


@contextmanager
def managing(
    path: str, branch: str, strategy: Any = None, namespace: str | None = None, write: bool = False, **options: Any
) -> Iterator[ContextManager]:
    """A manager on a store that holds a conversation, opened read-only unless `write`."""
    from chronicle_py.context import ContextManager

    with (writing if write else reading)(path) as store:
        options["isolate"] = messages_slot(store, namespace) != MESSAGES_SLOT
        with ContextManager(store, strategy=strategy, namespace=namespace, branch=branch, **options) as manager:
            yield manager


def messages_slot(store: Store, namespace: str | None) -> str:
    """The slot of an agent's messages: its own, where it was set up so, else the shared one. NotFound without any."""
    known = [slot.id for slot in store.slots() if slot.reducer == MESSAGES]
    own = f"{namespace}/messages"
    if own in known:
        return own
    if MESSAGES_SLOT in known:
        return MESSAGES_SLOT
    if known:
        agents = ", ".join(slot.removesuffix("/messages") for slot in known)
        raise NotFound(f"the agents of {store.path} keep their messages apart; name one with --namespace: {agents}")
    raise NotFound(
        f"there is no conversation in {store.path}; `chronicle import FILE` or `chronicle say TEXT` brings one"
    )


def message_id(branch: Branch, text: str) -> str:
    """The id of the event at a place."""
    return branch.event(place(branch, text)).id
