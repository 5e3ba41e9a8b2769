"""The commands of the conversation layer: messages, say, compile, context-stats, pins, summarize, search."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from cli_runner import SAMPLE, Chronicle, in_folder, with_conversation

import chronicle_py
from chronicle_py.context import Budget, ContextManager
from chronicle_py.strategies import Autobiographical, SlidingWindow

MESSAGES = json.loads(SAMPLE.read_text())["history"]
SMALL = ("--set", "recent_window_tokens=60", "--set", "target_chunk_tokens=60", "--set", "summary_target_tokens=40")


@pytest.fixture
def chronicle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Chronicle:
    return in_folder(tmp_path, monkeypatch)


@pytest.fixture
def run(chronicle: Chronicle) -> Chronicle:
    return with_conversation(chronicle)


def store() -> chronicle_py.Store:
    return chronicle_py.open("chronicle.store", create=False)


# --- messages ---------------------------------------------------------------------------------------------------------


def test_messages_shows_a_line_of_each(run: Chronicle) -> None:
    lines = run.lines("messages", "-n", "2")
    assert lines[0] == "⋮ 10 earlier; --limit 0 shows all"
    assert lines[2].endswith("tool: File updated. 12 passed")
    assert len(run.lines("messages", "-n", "0")) == 12
    assert [line.split(" ", 3)[-1] for line in run.lines("messages", "-b", "other", "-n", "2")[1:]]
    assert run.lines("messages", "-b", "other")[-1].endswith("assistant: Because.")


def test_messages_as_they_were_and_of_one_participant(run: Chronicle) -> None:
    assert [found["seq"] for found in run.json("messages", "--at", "3")] == [1, 2, 3]
    assert [found["seq"] for found in run.json("messages", "-p", "assistant", "-n", "2")] == [9, 11]
    assert [found["seq"] for found in run.json("messages", "-p", "tool", "--at", "6")] == [4, 6]
    assert run("messages", "-p", "nobody") == "no messages\n"


def test_messages_in_full(run: Chronicle) -> None:
    text = run("messages", "--full", "-p", "user", "-n", "1")
    assert MESSAGES[1]["content"] in text
    assert text.startswith("2 ")


def test_messages_as_json_have_all_that_is_known(run: Chronicle) -> None:
    found = run.json("messages")[1]
    assert found["blocks"] == [{"type": "text", "text": MESSAGES[1]["content"]}]
    assert found["role"] == found["participant"] == "user"
    assert found["metadata"]["external"]["source"] == "swe-agent"
    assert found["tokens"] > 10


def test_say_adds_a_message(run: Chronicle) -> None:
    assert run("say", "-b", "other", "And then?").startswith("said: 9 ")
    assert run.json("say", "-p", "Alice", "-", input="two\nlines")["blocks"][0]["text"] == "two\nlines"
    assert [found["participant"] for found in run.json("messages", "-n", "1")] == ["Alice"]


def test_say_begins_a_conversation(chronicle: Chronicle) -> None:
    chronicle("say", "Hello")
    assert chronicle.lines("messages")[0].endswith("user: Hello")


def test_the_log_shows_what_was_done(run: Chronicle) -> None:
    run("pin", "3", "--name", "look")
    run("summarize", *SMALL)
    lines = run.lines("log", "--limit", "0")
    assert any(line.endswith("pin 3 as 'look'") for line in lines)
    assert any(" summary L1 of 2 to " in line for line in lines)


def test_the_slot_of_messages_is_shown_by_what_was_said(run: Chronicle) -> None:
    lines = run.lines("state", "context/messages", "--at", "3")
    assert lines[0].startswith("context/messages (messages) on main at 3, 3 messages, hash ")
    assert lines[2].endswith(run.lines("messages", "--at", "2")[-1][16:])
    assert len(run.json("state", "context/messages")["value"]) == 12
    assert run.lines("diff", "context/messages", "main", "other")[-2:] == [
        "+ [6] user: Why?",
        "+ [7] assistant: Because.",
    ]
    assert [found["op"] for found in run.json("diff", "context/messages", "10", "12")] == ["add", "add"]
    assert run("diff", "context/messages", "6", "6") == "no difference\n"
    assert "context/messages: 12 events" in run("replay", "context/messages")
    assert run.lines("slots")[-1].endswith("yes")


def test_an_edit_is_a_difference(run: Chronicle) -> None:
    with store() as opened, ContextManager(opened, branch="other") as manager:
        manager.edit_message(manager.tail(1)[0].id, "Since.")
    assert run.lines("diff", "context/messages", "8", "9", "-b", "other") == [
        "~ [7] assistant: Because. ⇒ assistant: Since."
    ]
    assert run.lines("messages", "-b", "other")[-1].endswith("Since. (edited)")
    assert "edited 8 assistant: Since." in run("log", "-b", "other", "-n", "1")


# --- compile ----------------------------------------------------------------------------------------------------------


def test_compile_prints_what_a_model_would_get(run: Chronicle) -> None:
    with store() as opened, ContextManager(opened, strategy=Autobiographical()) as manager:
        compiled = manager.compile(Budget(100_000))
    assert run("compile") == compiled.text + "\n"
    assert run.json("compile", "--format", "anthropic") == json.loads(json.dumps(compiled.to_anthropic()))
    assert json.loads(run("compile", "-f", "openai")) == json.loads(json.dumps(compiled.to_openai()))
    found = run.json("compile")
    assert (found["tokens"], len(found["messages"])) == (compiled.tokens, 11)


def test_compile_keeps_to_a_budget_and_a_strategy(run: Chronicle) -> None:
    with store() as opened, ContextManager(opened, strategy=SlidingWindow(head_window_tokens=50)) as manager:
        compiled = manager.compile(Budget(300, 60))
    window = ("--strategy", "sliding-window", "--set", "head_window_tokens=50")
    found = run.json("compile", "--budget", "300", *window)
    assert found["tokens"] == compiled.tokens <= 240
    assert run.json("compile", "--budget", "300", "--reserve", "0", *window)["tokens"] <= 300


@pytest.mark.parametrize("strategy", ["passthrough", "sliding-window", "autobiographical", "knowledge"])
def test_compile_knows_every_strategy(run: Chronicle, strategy: str) -> None:
    assert "Because." in run("compile", "-b", "other", "--strategy", strategy)


def test_compile_writes_nothing(run: Chronicle) -> None:
    before = run("export"), run("slots", "--json")
    run("compile", "--budget", "2000", "--strategy", "knowledge")
    run("context-stats")
    run("search")
    assert (run("export"), run("slots", "--json")) == before


# --- memories ---------------------------------------------------------------------------------------------------------


def test_a_pin_is_on_its_branch_alone(run: Chronicle) -> None:
    said = run("pin", "3", "-b", "main", "--name", "look")
    assert said.endswith(" keeps message 3 on main\n")
    seq, id = said.split()[1:3]
    assert run.lines("pins")[1].split()[:5] == [seq, id, "pin", "message", "3"]
    assert run("pins", "-b", "other") == "no pins\n"
    assert f"there is no pin {id} on other; `chronicle pins -b other` lists them" in run.fails(
        "unpin", id, "-b", "other"
    )
    assert run("unpin", seq) == f"unpinned: {id} on main\n"
    assert run.json("pins") == []


def test_a_range_and_a_document_can_be_pinned(run: Chronicle) -> None:
    first = run.json("show", "2")["id"]
    found = run.json("pin", first[:10], "4")
    assert (found["first_seq"], found["last_seq"], found["kind"]) == (2, 4, "pin")
    assert run.json("pin", "2", "--document", "--name", "task")["kind"] == "document"
    assert len(run.json("pins")) == 2


def test_summarize_folds_and_stats_draw_it(run: Chronicle) -> None:
    before = run.json("context-stats", "--budget", "2000", *SMALL)
    assert before["planned"]["chunks"] >= 2
    assert before["render"]["summaries"] == {}
    lines = run.lines("summarize", *SMALL)
    done = before["planned"]["chunks"]
    assert lines == [
        f"summarised: {done} summaries made or taken over on main, 0 pending",
        f"  L1: {done}, {done} of them new",
    ]
    after = run.json("context-stats", "--budget", "2000", *SMALL)
    assert after["planned"] == {"chunks": 0, "merges": 0}
    assert after["render"]["summaries"]["1"]["count"] == done
    assert after["compiled_tokens"] < before["compiled_tokens"]
    drawn = run("context-stats", "--budget", "2000", *SMALL)
    assert f"{done} summaries" in drawn
    assert "█" in drawn
    assert "pending: 0 chunks, 0 merges; 0 pins" in drawn
    assert "[Recall L1-0]" in run("compile", *SMALL)


def test_summaries_are_taken_over_by_another_branch(run: Chronicle) -> None:
    run("summarize", *SMALL)
    found = run.json("summarize", "-b", "other", *SMALL)
    assert found["done"] == 1
    one, two = (run.json("search", "-b", branch, *SMALL)[-1] for branch in ("main", "other"))
    assert (one["id"], one["content"]) == (two["id"], two["content"])
    assert " taken over, " in run("log", "-b", "other", "-n", "1")


def test_summarize_stops_at_a_limit(run: Chronicle) -> None:
    assert run.json("summarize", "--limit", "1", *SMALL)["done"] == 1
    assert run.json("context-stats", *SMALL)["planned"]["chunks"] >= 1


def test_search_finds_words_and_patterns(run: Chronicle) -> None:
    run("summarize", *SMALL)
    assert run.lines("search", "MINUTES")[0].startswith("L1-")
    assert run.json("search", "--regex", "minutes? ?/ ?60")[0]["matches"] >= 1
    assert run("search", "nowhere to be found") == "nothing found\n"
    assert run.json("search", "--level", "2") == []
    assert len(run.json("search", "--limit", "1")) == 1
    assert run.json("search", "--limit", "1")[0]["content"] in run("search", "--full")


def test_an_isolated_agent_is_found_by_its_namespace(chronicle: Chronicle) -> None:
    with chronicle_py.open("chronicle.store", durability="relaxed") as store:
        cm = ContextManager(store, namespace="agents/lena", isolate=True)
        cm.add_message("User", "For Lena alone.")
    assert "keep their messages apart; name one with --namespace: agents/lena" in chronicle.fails("messages")
    lena = ("--namespace", "agents/lena")
    (message,) = chronicle.json("messages", *lena)
    assert message["blocks"] == [{"type": "text", "text": "For Lena alone."}]
    assert "For Lena alone." in chronicle("compile", *lena)
    chronicle("pin", "1", *lena)
    assert len(chronicle.json("pins", *lena)) == 1
    assert chronicle.json("summarize", *lena)["done"] == 0
    assert chronicle.json("context-stats", *lena)["messages"] == 1


def test_a_namespace_has_pins_of_its_own(run: Chronicle) -> None:
    run("pin", "3", "--namespace", "agents/lena")
    assert run("pins") == "no pins\n"
    assert len(run.json("pins", "--namespace", "agents/lena")) == 1


# --- what goes wrong --------------------------------------------------------------------------------------------------

FAILURES: list[tuple[Sequence[str], int, str]] = [
    (("compile", "--budget", "20"), 1, "tokens"),
    (("compile", "-b", "nope"), 1, "no branch 'nope'"),
    (("compile", "--reserve", "100000"), 1, "leaves nothing beside the reserve"),
    (("compile", "--format", "word"), 2, "none of text, anthropic, openai"),
    (("compile", "--strategy", "word"), 2, "none of passthrough"),
    (("compile", "--set", "word"), 2, "no OPTION=VALUE"),
    (("compile", "--set", "word=1"), 2, "autobiographical has no option 'word'"),
    (("compile", "--set", "merge_threshold=x"), 1, "merge_threshold is a whole number"),
    (("context-stats", "--budget", "0"), 2, "--budget"),
    (("pin", "13"), 1, "sequences 0 to 12"),
    (("pin", "6", "3"), 1, "swap the two"),
    (("pin", "2", "3", "--document"), 2, "one message"),
    (("unpin", "ab"), 2, "'ab' is no place"),
    (("search", "--regex", "("), 1, "does not compile"),
    (("search", "--strategy", "passthrough"), 1, "lacks the capability"),
    (("summarize", "--summarizer", "word"), 2, "none of extractive"),
    (("messages", "--at", "13"), 1, "sequences 0 to 12"),
    (("say", "-p", "", "x"), 1, "may not be empty"),
    (("say", "-b", "nope", "x"), 1, "no branch 'nope'"),
]


@pytest.mark.parametrize(("args", "code", "message"), FAILURES, ids=[" ".join(args)[:40] for args, _, _ in FAILURES])
def test_what_cannot_be_done_is_one_line_and_changes_nothing(
    run: Chronicle, args: Sequence[str], code: int, message: str
) -> None:
    before = run("branches", "--json")
    assert message in run.fails(*args, code=code)
    assert run("branches", "--json") == before
