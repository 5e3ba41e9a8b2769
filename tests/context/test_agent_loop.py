"""README's agent loop, word for word: it answers, is killed, and goes on where it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

README = Path(__file__).parents[2] / "README.md"
LOOP = """\
from chronicle_py.context import Budget, ContextManager
from chronicle_py.strategies import Autobiographical

with ContextManager.open("agent.chronicle", strategy=Autobiographical()) as cm:
    while True:
        last = cm.tail(1)
        if not last or last[0].role == "assistant":                  # whose turn it is, after a restart too
            text = ask_user()
            if not text:
                break
            cm.add_message("User", text)
        context = cm.compile(Budget(max_tokens=100_000))             # what fits: memories, then the recent messages
        cm.add_message("Claude", ask_model(**context.to_anthropic()))
        cm.drain()                                                   # folds what has grown old; nothing is lost
"""


def test_readme_shows_this_loop() -> None:
    text = README.read_text()
    if "ContextManager.open" in text:
        assert LOOP in text


class Crash(BaseException):
    pass


def test_the_loop_survives_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("chronicle_py.strategies.autobiographical")
    monkeypatch.chdir(tmp_path)
    asked: list[str] = []
    questions = iter(["first", "second", "third", ""])

    def ask_model(system: str, messages: list[dict[str, Any]]) -> str:
        asked.append(messages[-1]["content"][0]["text"])
        if len(asked) == 2:
            raise Crash
        return f"answer to {asked[-1]}"

    names = {"ask_user": lambda: next(questions), "ask_model": ask_model}
    with pytest.raises(Crash):
        exec(LOOP, dict(names))
    exec(LOOP, dict(names))
    assert asked == ["first", "second", "second", "third"]
