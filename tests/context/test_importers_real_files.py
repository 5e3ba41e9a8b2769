"""The real files of ../shared/data: what comes of each, counted by hand, and that all of it fits a context.

Where that folder is missing, the two files that were written for this project are taken from data/, and tests of the
others are skipped.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from importing_files import DATA, SHARED, blocks, messages, places, tree

from chronicle_py import Store
from chronicle_py.context import Budget, ContextManager
from chronicle_py.context.importers import import_file
from chronicle_py.exchange import Imported
from chronicle_py.strategies import Autobiographical, Knowledge, Passthrough, SlidingWindow

STRATEGIES = (Passthrough, SlidingWindow, Autobiographical, Knowledge)
BUDGETS = (Budget(2_000, 400), Budget(8_000, 1_600), Budget(100_000))

# messages of the file, messages of each branch, places of bad records
FILES: dict[str, tuple[int, dict[str, int], list[str]]] = {
    # two conversations, 9 messages in a tree of three leaves, and 2; each one's hidden or empty nodes are none
    "chatgpt-branched.json": (11, {"main": 2, "coast-walk": 4, "coast-walk-2": 4, "coast-walk-3": 4}, []),
    # u1 to a3 are 6; two ways on of 2 messages each; a side chain of 2; line 14 is torn
    "claude-code-branched.jsonl": (12, {"main": 8, "main-2": 8, "main-side": 2}, ["line 14"]),
    # 18 lines: 6 of them no records, or messages without content, and a summary; no links, so one branch
    "claude-code-edge-cases.jsonl": (12, {"main": 12}, [f"line {n}" for n in (10, 11, 13, 14, 15, 16)]),
    "claude-code-sample-session.json": (33, {"main": 33}, []),  # 33 log lines
    "claude-code-todowrite.jsonl": (11, {"main": 11}, []),  # 12 lines, one of them a summary
    "mini-swe-agent-github-issue.traj.json": (22, {"main": 22}, []),
    "swe-agent-function-calling.traj": (24, {"main": 24}, []),
    "swe-agent-replace-from-source.traj": (28, {"main": 28}, []),
}


def path_of(name: str) -> Path:
    found = next((folder / name for folder in (SHARED, DATA) if (folder / name).exists()), None)
    if found is None:
        pytest.skip("the shared data is not here")
    return found


def load(store: Store, name: str) -> Imported:
    return import_file(store, path_of(name))


@pytest.mark.parametrize("name", FILES)
def test_a_real_file_brings_its_messages_and_branches(store: Store, name: str) -> None:
    count, branches, bad = FILES[name]
    done = load(store, name)
    assert (done.events, done.known, places(done), done.current) == (count, 0, bad, "main")
    assert {info.name: len(messages(store, info.name)) for info in store.branches()} == branches
    assert store.verify(deep=True).ok


@pytest.mark.parametrize("name", FILES)
def test_a_real_file_adds_nothing_the_second_time(store: Store, name: str) -> None:
    done = load(store, name)
    heads = [(info.name, info.head) for info in store.branches()]
    again = load(store, name)
    assert (again.events, again.known) == (0, done.events)
    assert [(info.name, info.head) for info in store.branches()] == heads


@pytest.mark.parametrize("name", FILES)
def test_a_real_file_adds_nothing_where_all_of_it_was_removed(store: Store, name: str) -> None:
    done = load(store, name)
    with ContextManager(store) as cm:
        said = cm.messages()
        cm.remove_messages(said[0].id, said[-1].id)
    heads = [(info.name, info.head) for info in store.branches()]
    again = load(store, name)
    assert (again.events, again.known) == (0, done.events)
    assert [(info.name, info.head) for info in store.branches()] == heads


def test_all_real_files_live_in_one_store(store: Store) -> None:
    for name in FILES:
        load(store, name)
    # Two runs of SWE-agent begin with the same two messages, so that one is a fork of the other.
    assert store.branch().seq == 2
    assert sum(len({m.id for m in messages(store, info.name)}) > 0 for info in store.branches()) == 13
    ids = {message.id for info in store.branches() for message in messages(store, info.name)}
    assert len(ids) == sum(count for count, _, _ in FILES.values()) - shared_start()


def shared_start() -> int:
    """How many messages the two runs of SWE-agent begin with alike."""
    names = ("swe-agent-function-calling.traj", "swe-agent-replace-from-source.traj")
    one, two = (json.loads(path_of(name).read_text())["history"] for name in names)
    count = 0
    while (one[count]["role"], one[count]["content"]) == (two[count]["role"], two[count]["content"]):
        count += 1
    return count


# --- nothing is lost --------------------------------------------------------------------------------------------------


def said_in(blocks_of: list[list[dict[str, Any]]]) -> list[tuple[str, Any]]:
    """Texts, thoughts, calls and results, in order."""
    found: list[tuple[str, Any]] = []
    for block in (block for message in blocks_of for block in message):
        kind = block["type"]
        if kind == "tool_use":
            found.append((kind, (block["id"], block["name"], block["input"])))
        elif kind == "tool_result":
            found.append((kind, (block["tool_use_id"], block["content"], block.get("is_error", False))))
        else:
            found.append((kind, block.get(kind)))
    return found


def in_openais_form(items: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for item in items:
        if item["role"] == "tool":
            found.append(("tool_result", (item["tool_call_ids"][0], item["content"], False)))
            continue
        found.append(("text", item["content"]))
        for call in item.get("tool_calls") or ():
            function = call["function"]
            found.append(("tool_use", (call["id"], function["name"], json.loads(function["arguments"]))))
    return found


def in_anthropics_form(records: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    contents = [record["message"]["content"] for record in records]
    return said_in([[{"type": "text", "text": c}] if isinstance(c, str) else c for c in contents])


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith((".traj", ".traj.json"))])
def test_texts_calls_and_results_of_a_run_come_back(store: Store, name: str) -> None:
    document = json.loads(path_of(name).read_text())
    load(store, name)
    expected = in_openais_form(document if isinstance(document, list) else document["history"])
    assert said_in(blocks(store)) == expected


@pytest.mark.parametrize("name", ["claude-code-sample-session.json", "claude-code-todowrite.jsonl"])
def test_texts_calls_and_results_of_a_session_come_back(store: Store, name: str) -> None:
    text = path_of(name).read_text()
    records = json.loads(text)["loglines"] if name.endswith(".json") else [json.loads(x) for x in text.splitlines()]
    load(store, name)
    assert said_in(blocks(store)) == in_anthropics_form([r for r in records if r["type"] in ("user", "assistant")])


def test_the_branches_of_a_session_say_what_the_source_says(store: Store) -> None:
    load(store, "claude-code-branched.jsonl")
    text = path_of("claude-code-branched.jsonl").read_text()
    records = {r["uuid"]: r for r in map(json.loads, text.splitlines()[1:13])}
    shared = ["u1", "a1", "r1", "a2", "r2", "a3"]
    for branch, ids in (
        ("main", [*shared, "u2b", "a4b"]),
        ("main-2", [*shared, "u2", "a4"]),
        ("main-side", ["s1", "s2"]),
    ):
        assert said_in(blocks(store, branch)) == in_anthropics_form([records[id] for id in ids])
        assert [message.metadata["external"]["id"] for message in messages(store, branch)] == ids


def test_the_branches_of_a_chat_say_what_the_source_says(store: Store) -> None:
    load(store, "chatgpt-branched.json")
    found = tree(store)
    assert found["main"] == "{image} What does this picture show? | A tide table."
    starts = [found[name].split(" | ")[-1][:14] for name in ("coast-walk", "coast-walk-2", "coast-walk-3")]
    assert starts == ["Then: 24, 27 a", "12, 14 and 10 ", "Then: 14, 16 a"]  # where the source stands is the first
    [image, _] = blocks(store)[0]
    assert image["source"]["asset_pointer"] == "file-service://file-abc"


# --- into a context ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", FILES)
def test_a_real_file_compiles_under_every_budget(store: Store, name: str, strategy: Any) -> None:
    load(store, name)
    for info in store.branches():
        with ContextManager(store, strategy=strategy(), branch=info.name) as cm:
            for budget in BUDGETS:
                compiled = cm.compile(budget)
                newest = cm.tail(1)[0]
                assert compiled.tokens <= budget.max_tokens - budget.reserve_for_response
                assert compiled.messages[-1].id == newest.id
                sent = compiled.to_anthropic()["messages"]
                roles = [message["role"] for message in sent]
                assert roles == (["user", "assistant"] * len(roles))[: len(roles)]
                assert_paired(sent)
                assert compiled.to_openai()


def assert_paired(sent: list[dict[str, Any]]) -> None:
    """Each call is answered by the next message, and nothing else is."""
    open_calls: list[str] = []
    for message in sent:
        results = [b["tool_use_id"] for b in message["content"] if b["type"] == "tool_result"]
        assert results == open_calls
        open_calls = [b["id"] for b in message["content"] if b["type"] == "tool_use"]
    assert open_calls == []


@pytest.mark.parametrize("strategy", [Autobiographical, Knowledge])
@pytest.mark.parametrize("name", [name for name in FILES if name.startswith("swe-agent")])
def test_a_run_folds(store: Store, name: str, strategy: Any) -> None:
    load(store, name)
    chosen = strategy(recent_window_tokens=1_000, target_chunk_tokens=800, summary_target_tokens=200)
    with ContextManager(store, strategy=chosen) as cm:
        assert cm.drain() >= 2
        for budget in BUDGETS[1:]:
            compiled = cm.compile(budget)
            assert any(message.summary for message in compiled.messages)
            assert compiled.tokens <= budget.max_tokens - budget.reserve_for_response
            assert_paired(compiled.to_anthropic()["messages"])


def repeated(count: int) -> dict[str, Any]:
    """A run of this many messages, made by repeating the real ones under fresh ids of their calls."""
    names = ("swe-agent-function-calling.traj", "swe-agent-replace-from-source.traj")
    runs = [json.loads(path_of(name).read_text())["history"] for name in names]
    found: list[dict[str, Any]] = []
    round = 0
    while len(found) < count:
        for item in runs[round % 2][1 if round else 0 :]:
            new = json.loads(json.dumps(item))
            for call in new.get("tool_calls") or ():
                call["id"] += f"-{round}"
            if "tool_call_ids" in new:
                new["tool_call_ids"] = [f"{id}-{round}" for id in new["tool_call_ids"]]
            found.append(new)
        round += 1
    return {"history": found[:count]}


def test_ten_thousand_messages_fold_to_three_levels(store: Store, tmp_path: Path) -> None:
    data = json.dumps(repeated(10_000)).encode()
    counted = lambda text: len(text) // 4  # noqa: E731  (a real tokenizer takes most of the time)
    assert import_file(store, io.BytesIO(data), tokenizer=counted).events == 10_000
    strategy = Autobiographical(target_chunk_tokens=40_000, recent_window_tokens=10_000)
    with ContextManager(store, strategy=strategy, tokenizer=counted) as cm:
        cm.drain()
        summaries = cm.stats().summaries
        assert summaries[1] > 36
        assert summaries[2] == summaries[1] // 6
        assert summaries[3] == summaries[2] // 6 >= 1
        compiled = cm.compile(Budget(100_000))
        assert compiled.stats.left_out == 0
        assert {message.summary[:2] for message in compiled.messages if message.summary} >= {"L3"}
        assert_paired(compiled.to_anthropic()["messages"])
