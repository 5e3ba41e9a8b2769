"""Random conversations through the manager, on branches, in two namespaces, with restarts; what must hold at any time.

Every text holds a word of its own, and the summarizer says all words again, so that what may not be said any more is
seen wherever it shows.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from api_rules import check_anthropic, check_openai
from hypothesis import given, settings
from hypothesis import strategies as st
from talking import words
from tiny_strategy import Tiny

import chronicle_py as chronicle
from chronicle_py import Store, strategies
from chronicle_py.context import Budget, Compiled, ContextManager, Injection, Message, Request
from chronicle_py.context.blocks import Text, ToolResult, ToolUse
from chronicle_py.context.payloads import Call
from chronicle_py.errors import BudgetTooSmall, InvalidOperation, NotFound
from chronicle_py.strategies.pairs import follow
from chronicle_py.strategies.strategy import Pinnable, Searchable

_WORD = re.compile(r"w[0-9]+w")
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "cGl4ZWxz"}}
LARGE = Budget(1_000_000, 0)
BUDGETS = (LARGE, Budget(60, 10), Budget(3_000, 100))


def _small(name: str, **options: Any) -> Any:
    """A strategy of the library with windows so small that a short conversation fills them; None: not there."""
    kind = getattr(strategies, name, None)
    return None if kind is None else kind(**options)


def _strategies() -> dict[str, Any]:
    small = {"recent_window_tokens": 12, "target_chunk_tokens": 6, "merge_threshold": 2, "summary_target_tokens": 8}
    found = {
        "tiny": Tiny(),
        "passthrough": _small("Passthrough"),
        "sliding_window": _small("SlidingWindow"),
        "autobiographical": _small("Autobiographical", **small),
        "loose": _small("Autobiographical", **small, enforce_budget=False, hierarchical=False),
        "knowledge": _small("Knowledge", **small),
    }
    return {name: strategy for name, strategy in found.items() if strategy is not None}


STRATEGIES = _strategies()
STEPS = (
    "say", "say", "say", "answer", "answer", "call", "call", "drain", "system", "media", "half", "edit", "remove",
    "range", "pin", "document", "unpin", "fork", "switch", "undo", "tick", "tick", "drain", "reset", "restart", "other",
)  # fmt: skip
programs = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 40)), min_size=5, max_size=60)


class World:
    """A store, two agents on it, and what each branch compiled when it was last touched."""

    def __init__(self, folder: str, strategy: Any) -> None:
        self.path = folder + "/store"
        self.strategy = strategy
        self.asked: list[tuple[str, str]] = []
        self.word = 0
        self.store: Store
        self.agents: list[ContextManager] = []
        self.open(("main", "main"))

    def open(self, branches: tuple[str, str]) -> None:
        self.store = chronicle.open(self.path, durability="relaxed")
        self.visitors: dict[tuple[str, int], ContextManager] = {}
        self.agents = [
            ContextManager(
                self.store, strategy=self.strategy, namespace=namespace, tokenizer=words, branch=branch,
                summarizer=lambda request, namespace=namespace: self.summarize(request, str(namespace)),
            )
            for namespace, branch in zip((None, "second"), branches, strict=True)
        ]  # fmt: skip

    def summarize(self, request: Request, namespace: str) -> str:
        self.asked.append((namespace, request.work.key))
        seqs, ids = set(request.work.source_seqs), set(request.work.sources)
        own = [e for e in request.entries if e.seq in seqs or e.id in ids or e.summary in ids] or request.entries
        return " ".join(_WORD.findall(repr([entry.blocks for entry in own]))) or "nothing"

    def new(self) -> str:
        self.word += 1
        return f"w{self.word}w"

    def do(self, step: str, n: int) -> None:
        agent, other = self.agents
        if step == "other":  # the second agent works on the same branch
            if other.branch != agent.branch:
                other.switch(agent.branch)
            if n % 2:
                self.protect(other, "pin", n)
            else:
                other.tick()
        elif step == "restart":
            branches = agent.branch, other.branch
            self.store.close()
            self.open(branches)
        elif step == "switch":
            names = [info.name for info in agent.branches()]
            agent.switch(names[n % len(names)])
        elif step == "fork":
            self.fork(agent, n)
        elif step == "undo":
            agent.undo(1 + n % 2)
        elif step == "tick":
            agent.tick()
        elif step == "drain":
            agent.drain()
        elif step == "reset":
            agent.reset_head(self.new())
        elif step in ("pin", "document", "unpin"):
            self.protect(agent, step, n)
        elif step in ("edit", "remove", "range"):
            self.change(agent, step, n)
        else:
            self.say(agent, step, n)

    def say(self, agent: ContextManager, step: str, n: int) -> None:
        word = self.new()
        if step == "say":
            agent.add_message(("User", "Alice")[n % 7 == 0], f"{word} " + "x " * (n % 5))
        elif step == "answer":
            agent.add_message("Claude", f"{word} y")
        elif step == "system":
            agent.add_message("System", word)
        elif step == "media":
            agent.add_message("User", [word, IMAGE])
        else:
            call = f"t{n % 3}"
            agent.add_message("Claude", [word, {"type": "tool_use", "id": call, "name": "look", "input": {"q": word}}])
            if step == "call":
                agent.add_message("User", [{"type": "tool_result", "tool_use_id": call, "content": self.new()}])

    def change(self, agent: ContextManager, step: str, n: int) -> None:
        messages = [m for m in agent.messages() if m.role != "system"]
        if not messages:
            return
        at = n % len(messages)
        if step == "edit":
            agent.edit_message(messages[at].id, self.new())
        elif step == "remove":
            agent.remove_message(messages[at].id)
        else:
            agent.remove_messages(messages[at].id, messages[at : at + 3][-1].id)

    def protect(self, agent: ContextManager, step: str, n: int) -> None:
        messages = [m for m in agent.messages() if m.role != "system"]  # those need no protection
        if not messages or not isinstance(agent.strategy, Pinnable):
            return
        if step == "unpin":
            pins = agent.pins()
            if pins:
                assert agent.unpin(pins[n % len(pins)].id)
        elif step == "document":
            agent.mark_document(messages[n % len(messages)].id)
        else:
            at = n % len(messages)
            agent.pin(messages[at].id, messages[min(at + n % 3, len(messages) - 1)].id)

    def fork(self, agent: ContextManager, n: int) -> None:
        messages = agent.messages()
        if len(agent.branches()) > 4 or not messages:
            return
        if n % 3 == 0:
            info = agent.fork()
            if agent.store.branch(agent.branch).seq != info.seq:
                return  # it has adopted something
            before = agent.compile(LARGE)
            there = ContextManager(self.store, strategy=self.strategy, branch=info.name, tokenizer=words)
            assert there.compile(LARGE) == before  # the same events compile the same
        else:
            agent.fork(at=messages[n % len(messages)].id)

    # --- what must hold ---

    def compiled(self, branch: str, agent: int, budgets: Sequence[Budget] = BUDGETS) -> dict[int, Compiled | str]:
        """What a branch compiles for an agent, by budget, without moving it."""
        manager = self.agents[agent]
        there = manager if manager.branch == branch else self._at(branch, agent)
        found: dict[int, Compiled | str] = {}
        for number, budget in enumerate(budgets):
            try:
                found[number] = there.compile(budget)
            except BudgetTooSmall as error:
                found[number] = str(error)
        return found

    def _at(self, branch: str, agent: int) -> ContextManager:
        if (branch, agent) not in self.visitors:
            self.visitors[branch, agent] = ContextManager(
                self.store,
                strategy=self.strategy,
                namespace=self.agents[agent].namespace,
                branch=branch,
                tokenizer=words,
            )
        return self.visitors[branch, agent]

    def all(self, budgets: Sequence[Budget] = BUDGETS) -> dict[tuple[str, int], dict[int, Compiled | str]]:
        names = [info.name for info in self.store.branches()]
        return {(name, agent): self.compiled(name, agent, budgets) for name in names for agent in (0, 1)}


def check_sound(compiled: Compiled, budget: Budget, enforced: bool) -> None:
    check_anthropic(compiled.to_anthropic())
    check_openai(compiled.to_openai())
    if enforced:
        assert compiled.tokens <= budget.max_tokens - budget.reserve_for_response


def check_said(agent: ContextManager, compiled: Compiled) -> None:
    """Pinned messages in full; nothing that was edited away or removed; the newest message; each at most once."""
    said = repr([m.blocks for m in compiled.messages]) + compiled.system
    shown = {message.id: message for message in compiled.messages if message.id is not None}
    ids = [message.id for message in compiled.messages if message.id is not None]
    assert len(ids) == len(set(ids))
    messages = agent.messages()
    if isinstance(agent.strategy, Pinnable):
        for pin in agent.pins():
            for message in messages:
                if pin.first_seq <= message.seq <= pin.last_seq and message.role != "system":
                    assert message.id in shown, "a pinned message is there"
                    for block in message.blocks:
                        if isinstance(block, Text):
                            assert block in shown[message.id].blocks
    if messages and messages[-1].role != "system" and agent.strategy.name != "tiny":
        assert messages[-1].id in shown
    standing = set(_WORD.findall(repr([m.blocks for m in messages])))
    assert set(_WORD.findall(said)) <= standing, "nothing is said that was edited away, removed or undone"
    if isinstance(agent.strategy, Searchable):
        for result in agent.search(limit=None, include_merged=True):
            assert set(_WORD.findall(result.content)) <= standing


def protected(agent: ContextManager) -> set[str]:
    """The messages that are pinned or the newest, with all of their pairs: those may stand beside a summary of them."""
    found: set[str] = set()
    pins = agent.pins() if isinstance(agent.strategy, Pinnable) else []
    pair: list[Message] = []
    open_calls: tuple[Call, ...] = ()
    for message in [m for m in agent.messages() if m.role != "system"]:
        calls = tuple(Call(block.id, block.name) for block in message.blocks if isinstance(block, ToolUse))
        answers = [block.tool_use_id for block in message.blocks if isinstance(block, ToolResult)]
        joined, open_calls = follow(open_calls, calls, answers)
        pair = [*pair, message] if joined else [message]
        if any(pin.first_seq <= m.seq <= pin.last_seq for pin in pins for m in pair):
            found.update(m.id for m in pair)
    return found | {m.id for m in pair}


def said_once(messages: list[Message], compiled: Compiled, pinned: set[str]) -> None:
    """With room for all, every message is said once, raw or by one summary; but those `pinned`."""
    counts: dict[str, int] = {}
    for message in compiled.messages:
        for word in set(_WORD.findall(repr(message.blocks))):
            counts[word] = counts.get(word, 0) + 1
    for said in messages:
        if said.role == "system" or said.id in pinned:
            continue
        for block in said.blocks:
            if isinstance(block, Text) and _WORD.search(block.text):
                (word,) = set(_WORD.findall(block.text))
                assert counts.get(word, 0) == 1, word
            if isinstance(block, ToolResult) and (found := _WORD.search(str(block.content))):
                assert counts.get(found[0], 0) == 1, found[0]


@pytest.mark.parametrize("name", STRATEGIES)
@settings(max_examples=max(20, settings().max_examples // 2))
@given(programs)
def test_what_must_hold_of_any_conversation(name: str, program: list[tuple[str, int]]) -> None:
    strategy = STRATEGIES[name]
    enforced = name not in ("tiny", "loose")
    with tempfile.TemporaryDirectory() as folder:
        world = World(folder, strategy)
        before = world.all((LARGE,))
        for step, n in program:
            here = world.agents[0].branch
            seen = _private(world.agents[1])
            try:
                world.do(step, n)
            except (NotFound, InvalidOperation):
                assert step in ("undo", "reset", "other"), "nothing to undo, no such capability"
            after = world.all((LARGE,))
            for key, compiled in before.items():
                branch = key[0]
                if key in after and branch != here and not (step == "switch" and branch == world.agents[0].branch):
                    assert after[key] == compiled, f"{step} on {here} changed what {branch} compiles"
            if step not in ("other", "switch", "undo", "restart", "edit", "remove", "range", "fork"):
                assert _private(world.agents[1]) == seen
            before = after
        _check_end(world, enforced)
        world.store.close()


def _private(agent: ContextManager) -> Any:
    """What an agent keeps for itself."""
    pins = agent.pins() if isinstance(agent.strategy, Pinnable) else None
    found = agent.search(limit=None, include_merged=True) if isinstance(agent.strategy, Searchable) else None
    return pins, found


def _check_end(world: World, enforced: bool) -> None:
    figures = world.store.stats()
    known = world.all()
    assert world.all() == known  # the same twice, and nothing was written
    assert world.store.stats() == figures
    for by_budget in known.values():
        for number, compiled in by_budget.items():
            if isinstance(compiled, Compiled):
                check_sound(compiled, BUDGETS[number], enforced)
            else:
                assert world.agents[0].strategy is not STRATEGIES["loose"], "what is not enforced refuses nothing"
    agent = world.agents[0]
    for compiled in known[agent.branch, 0].values():
        if isinstance(compiled, Compiled):
            check_said(agent, compiled)
    full = known[agent.branch, 0][0]
    assert isinstance(full, Compiled)
    pinned = protected(agent)
    said_once(agent.messages(), full, pinned)
    assert len(world.asked) == len(set(world.asked)), "no summary is paid for twice"
    injected = agent.compile(LARGE, [Injection("x", position, "i") for position in ("before_user", "after_user")])
    check_sound(injected, LARGE, enforced)
    branches = agent.branch, world.agents[1].branch
    world.store.close()
    world.open(branches)
    assert world.all() == known  # the same after reopening
    for info in world.store.branches():
        for slot in world.store.slots():
            assert world.store.branch(info.name).replay(slot.id).equal, slot.id


_ELSEWHERE = """
import sys
sys.path.insert(0, sys.argv[2])
from test_properties import BUDGETS, STRATEGIES, words
from chronicle_py.context import ContextManager
from chronicle_py.errors import BudgetTooSmall
with ContextManager.open(sys.argv[1], strategy=STRATEGIES[sys.argv[3]], tokenizer=words) as cm:
    for budget in BUDGETS:
        try:
            print(repr(cm.compile(budget)))
        except BudgetTooSmall as error:
            print(error)
"""


@pytest.mark.parametrize("name", STRATEGIES)
def test_another_process_compiles_the_same(name: str, tmp_path: Path) -> None:
    world = World(str(tmp_path), STRATEGIES[name])
    for n in range(60):
        world.do(STEPS[(n * 7) % 16], n)
        if n % 10 == 9:
            world.do("drain", n)
    found = world.compiled("main", 0)
    expected = "\n".join(repr(c) if isinstance(c, Compiled) else c for c in found.values())
    world.store.close()
    here = Path(__file__).parent
    command = [sys.executable, "-c", _ELSEWHERE, world.path, str(here), name]
    for seed in ("1", "2"):
        env = {"PYTHONHASHSEED": seed, "PYTHONPATH": f"{here}:{here.parent}:{':'.join(sys.path)}"}
        done = subprocess.run(command, capture_output=True, text=True, env=env)
        assert done.stdout.strip() == expected, done.stderr[-2000:]
