"""From a strategy's rendering to a `Compiled`: system messages, injections and media join it. Reads, writes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from chronicle_py.context.blocks import Block, Text
from chronicle_py.context.branch_view import BranchView
from chronicle_py.context.compiled import Compiled, system_text
from chronicle_py.context.injections import Injection, checked, places
from chronicle_py.context.media import restored
from chronicle_py.context.tokens import Tokenizer, count_blocks
from chronicle_py.context.turns import CompiledMessage
from chronicle_py.strategies.filling import check_room
from chronicle_py.strategies.strategy import Budget, Entry, Strategy

if TYPE_CHECKING:
    from chronicle_py.store import Store


def compiled(
    store: Store,
    strategy: Strategy[Any],
    state: Any,
    view: BranchView,
    budget: Budget,
    injections: Iterable[Injection],
    tokenizer: Tokenizer,
) -> Compiled:
    """What the strategy renders within what system messages and injections leave of the budget."""
    budget.check()
    extra = [(injection, blocks, count_blocks(blocks, tokenizer)[0]) for injection, blocks in checked(injections)]
    system = view.index.system
    used = system.weight() + sum(tokens for _, _, tokens in extra)
    budget = msgspec.structs.replace(budget, used=used)
    rendering = strategy.render(state, view, budget)
    if not rendering.stats.over_budget:  # else the strategy has chosen to exceed it, and says so
        check_room(budget)
    messages = [_message(entry, store) for entry in rendering.entries]
    parts = [view.message(seq).blocks for seq in system]
    parts += [blocks for injection, blocks, _ in extra if injection.position == "system"]
    around = [item for item in extra if item[0].position != "system"]
    if around:
        messages = _injected(messages, around, _anchor(rendering.entries, view))
    return Compiled(messages, system_text(parts), used + sum(e.tokens for e in rendering.entries), rendering.stats)


def _message(entry: Entry, store: Store) -> CompiledMessage:
    blocks = entry.blocks
    if len(blocks) != 1 or type(blocks[0]) is not Text:
        blocks = restored(blocks, store)
    return CompiledMessage(
        entry.participant, entry.role, blocks, entry.tokens, entry.id, entry.summary, entry.cache, answers=entry.answers
    )


def _anchor(entries: list[Entry], view: BranchView) -> int | None:
    """The index of the last user message that is not only tool results."""
    for at in range(len(entries) - 1, -1, -1):
        entry = entries[at]
        if entry.role == "user" and entry.seq is not None and entry.summary is None:
            row = view.index.row(entry.seq)
            if row is None or not row.only_answers:
                return at
    return None


def _injected(
    messages: list[CompiledMessage], extra: list[tuple[Injection, list[Block], int]], anchor: int | None
) -> list[CompiledMessage]:
    new = [
        (
            injection.position,
            CompiledMessage(
                f"injection:{injection.namespace}", "user", blocks, tokens, metadata=dict(injection.metadata)
            ),
        )
        for injection, blocks, tokens in extra
    ]
    if anchor is None:  # both kinds at the end, in the order given
        return messages + [message for _, message in new]
    before, after = places([message.blocks for message in messages], anchor)
    first = [message for position, message in new if position == "before_user"]
    last = [message for position, message in new if position == "after_user"]
    return messages[:before] + first + messages[before:after] + last + messages[after:]
