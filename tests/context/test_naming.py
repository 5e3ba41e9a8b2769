"""The names before users' words: counted with them, whoever speaks, in every strategy."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from talking import words

from chronicle_py.context import Budget, Compiled, ContextManager
from chronicle_py.context.anthropic_form import START
from chronicle_py.context.tokens import tokenizer
from chronicle_py.errors import BudgetTooSmall
from chronicle_py.strategies import Autobiographical, Knowledge, Passthrough, SlidingWindow
from chronicle_py.strategies.naming import name_tokens, named

_SMALL: dict[str, Any] = {"recent_window_tokens": 40, "target_chunk_tokens": 20, "summary_target_tokens": 8}
STRATEGIES: list[Any] = [
    Passthrough(),
    SlidingWindow(head_window_tokens=30),
    Autobiographical(**_SMALL, head_window_tokens=20, merge_threshold=2),
    Knowledge(**_SMALL, l1_budget_tokens=60),
]


def group(cm: ContextManager, count: int, text: str = "yes") -> None:
    """Messages by turns of two people whose names are longer than what they say."""
    for n in range(count):
        cm.add_message(("Alexandra Petrova", "Bartholomew Jones")[n % 2], text)


def texts(content: Any) -> list[str]:
    """All text of an API's plain data: of contents, results and parts; of calls their arguments."""
    if isinstance(content, str):
        return [content]
    if isinstance(content, list):
        return [text for part in content for text in texts(part)]
    if isinstance(content, dict):
        return texts(content.get("text")) + texts(content.get("content"))
    return []


def sent(compiled: Compiled) -> list[int]:
    """Words in each form, without what it says itself."""
    plain = compiled.to_anthropic()
    found = texts([plain["system"], plain["messages"]])
    return [sum(words(t) for t in found if t != START), sum(words(t) for t in texts(compiled.to_openai()))]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy.name)
def test_a_group_chat_stays_within_its_budget_and_fills_it(strategy: Any, tmp_path: Path) -> None:
    with ContextManager.open(tmp_path / "s", strategy=strategy, tokenizer=words, durability="relaxed") as cm:
        group(cm, 300)
        compiled = cm.compile(Budget(150, 10))
        assert 80 <= compiled.tokens <= 140
        assert sent(compiled) == [compiled.tokens] * 2
        assert compiled.stats.total == compiled.tokens
        stats = cm.render_stats(Budget(150, 10))
        assert stats is None or stats == compiled.stats


@pytest.mark.parametrize("strategy", STRATEGIES[:2], ids=lambda strategy: strategy.name)
def test_names_do_not_make_what_gives_way_go_all_at_once(strategy: Any, tmp_path: Path) -> None:
    with ContextManager.open(tmp_path / "s", strategy=strategy, tokenizer=words, durability="relaxed") as cm:
        group(cm, 200)
        gone = set()
        for _ in range(40):
            group(cm, 1)
            compiled = cm.compile(Budget(150, 10))
            assert compiled.tokens >= 80
            gone.add(compiled.stats.left_out)
        assert len(gone) <= 8  # so that the prompt's prefix stands for five turns and more


def test_one_user_and_what_is_nobodys_words_cost_no_name(tmp_path: Path) -> None:
    with ContextManager.open(tmp_path / "s", strategy=Autobiographical(), tokenizer=words) as cm:
        cm.add_message("User", "look here")
        cm.add_message("Claude", [{"type": "tool_use", "id": "t", "name": "look", "input": {}}])
        cm.add_message("tool", [{"type": "tool_result", "tool_use_id": "t", "content": "seen it"}])
        cm.add_message("tool", [{"type": "tool_result", "tool_use_id": "u", "content": "late"}])  # half a pair
        cm.reset_head("new")
        compiled = cm.compile()
        assert compiled.tokens == sum(message.tokens for message in compiled.messages)
        assert compiled.messages[0].tokens == 2
        assert "tool: " not in str(compiled.to_anthropic())
        assert "User: " not in str(compiled.to_openai())
        cm.add_message("Bob", "me too")
        named_now = cm.compile()
        assert named_now.messages[0].tokens == 3
        assert named_now.messages[-1].tokens == 3
        assert named_now.tokens == compiled.tokens + 4
        assert "tool: " not in str(named_now.to_anthropic())


def test_who_becomes_a_speaker_by_an_edit_is_counted(tmp_path: Path) -> None:
    with ContextManager.open(tmp_path / "s", tokenizer=words) as cm:
        cm.add_message("User", "look here")
        answer = cm.add_message("tool", [{"type": "tool_result", "tool_use_id": "u", "content": "late"}])
        assert cm.compile().messages[0].tokens == 2
        cm.edit_message(answer.id, "never mind")
        compiled = cm.compile()
        assert [message.tokens for message in compiled.messages] == [3, 3]
        assert sent(compiled) == [6, 6]


def test_the_context_log_counts_the_names_it_writes(tmp_path: Path) -> None:
    with ContextManager.open(tmp_path / "s", tokenizer=words) as cm:
        cm.context_log.append("Alice", "hello")
        assert cm.context_log.compile().tokens == 1
        cm.context_log.append("Bob", "hello")
        assert cm.context_log.compile().tokens == 4
        assert sent(cm.context_log.compile()) == [4, 4]


@given(st.text(max_size=80), st.sampled_from(["Bob", "user_17", "Ann O'Hara", "李"]))
def test_a_name_costs_what_the_tokenizer_says_of_both_together(text: str, name: str) -> None:
    count = tokenizer()
    assert count.count(named(name, text)) <= count.count(text) + name_tokens(name, text, count) + (len(text) > 64)


said = st.tuples(
    st.sampled_from(["User", "Alice B", "Claude", "tool", "Bob"]),
    st.sampled_from(["", "yes", "one two three", "result", "call", "image", "remove", "edit", "drain"]),
)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy.name)
@given(program=st.lists(said, min_size=1, max_size=30), room=st.sampled_from([15, 30, 60, 10_000]))
def test_no_more_is_sent_than_was_counted(strategy: Any, program: list[tuple[str, str]], room: int) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        ContextManager.open(folder + "/s", strategy=strategy, tokenizer=words, durability="relaxed") as cm,
    ):
        for name, step in program:
            standing = cm.messages()
            if step == "drain":
                cm.drain()
            elif step == "remove" and standing:
                cm.remove_message(standing[len(standing) // 2].id)
            elif step == "edit" and standing:
                cm.edit_message(standing[len(standing) // 2].id, "something else")
            else:
                cm.add_message(name, content(step))
        try:
            compiled = cm.compile(Budget(room, 0))
        except BudgetTooSmall:
            return
        assert compiled.tokens <= room
        assert max(sent(compiled)) <= compiled.tokens


def content(step: str) -> Any:
    if step == "result":
        return [{"type": "tool_result", "tool_use_id": "t", "content": "it is so"}]
    if step == "call":
        return ["now", {"type": "tool_use", "id": "t", "name": "look", "input": {}}]
    if step == "image":
        return [{"type": "image", "source": {"type": "url", "url": "https://example.org/x"}}, "see"]
    return step
