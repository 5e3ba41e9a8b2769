"""Importers on trees and damage of any shape: each path is a branch, nothing comes twice, no surprise is raised."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from conftest import Clock, Entropy
from hypothesis import given
from hypothesis import strategies as st
from importing_files import DATA, put, said, tree

import chronicle_py as chronicle
from chronicle_py import ChronicleError, Store
from chronicle_py.context.importers import import_file


@contextmanager
def fresh() -> Iterator[Store]:
    with (
        tempfile.TemporaryDirectory() as folder,
        chronicle.open(f"{folder}/s", durability="relaxed", clock=Clock(), entropy=Entropy()) as store,
    ):
        yield store


# A tree: for each node the number of its parent among those before it, or None for a first message.
trees = st.lists(st.one_of(st.none(), st.integers(0, 30)), min_size=1, max_size=14).map(
    lambda parents: [None if at == 0 or p is None else p % at for at, p in enumerate(parents)]
)


def paths(parents: list[int | None]) -> list[str]:
    """What is said from a first message to each leaf, sorted."""
    found = []
    for leaf in set(range(len(parents))) - set(parents):
        path: list[str] = []
        at: int | None = leaf
        while at is not None:
            path.append(f"m{at}")
            at = parents[at]
        found.append(" | ".join(reversed(path)))
    return sorted(found)


def as_session(parents: list[int | None], passed: list[int]) -> bytes:
    """User messages linked so, some of them through records that are no messages."""
    records: list[dict[str, Any]] = []
    for at, parent in enumerate(parents):
        link = None if parent is None else f"m{parent}"
        for number in range(passed[at % len(passed)] if link else 0):
            uuid = f"p{at}-{number}"
            records.append({"type": "progress", "uuid": uuid, "parentUuid": link})
            link = uuid
        message = {"role": "user", "content": f"m{at}"}
        records.append({"type": "user", "uuid": f"m{at}", "parentUuid": link, "message": message})
    return "\n".join(map(json.dumps, records)).encode()


def as_chat(parents: list[int | None]) -> dict[str, Any]:
    mapping: dict[str, Any] = {"root": {"parent": None, "message": None}}
    for at, parent in enumerate(parents):
        message = {"author": {"role": "user"}, "content": f"m{at}"}
        mapping[f"n{at}"] = {"parent": "root" if parent is None else f"n{parent}", "message": message}
    return {"title": "T", "mapping": mapping, "current_node": f"n{len(parents) - 1}"}


@given(trees, st.lists(st.integers(0, 2), min_size=1, max_size=3))
def test_every_path_of_a_session_is_a_branch(parents: list[int | None], passed: list[int]) -> None:
    linked = any(parent is not None for parent in parents)
    expected = paths(parents) if linked else [" | ".join(f"m{at}" for at in range(len(parents)))]
    with fresh() as store:
        done = put(store, as_session(parents, passed))
        assert sorted(tree(store).values()) == expected
        assert said(store)[-1] == f"m{len(parents) - 1}"
        assert (done.events, done.faults, done.current) == (len(parents), [], "main")
        assert put(store, as_session(parents, passed)).events == 0
        assert sorted(tree(store).values()) == expected


@given(trees)
def test_every_path_of_a_chat_is_a_branch(parents: list[int | None]) -> None:
    with fresh() as store:
        assert put(store, as_chat(parents)).events == len(parents)
        assert sorted(tree(store).values()) == paths(parents)
        assert said(store)[-1] == f"m{len(parents) - 1}"
        assert put(store, as_chat(parents)).events == 0


@given(trees, st.integers(1, 13))
def test_a_chat_that_grew_comes_to_the_same_as_one_that_came_at_once(parents: list[int | None], first: int) -> None:
    with fresh() as store:
        put(store, as_chat(parents[:first]))
        done = put(store, as_chat(parents))
        assert done.events == max(0, len(parents) - first)
        assert set(paths(parents)) <= set(tree(store).values())


junk = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.just("\ud800")),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=5,
)


def spoiled(value: Any, at: int, by: Any) -> Any:
    """The value with one of its parts, chosen by a number, replaced."""
    places: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict | list):
            for key in found if isinstance(found, dict) else range(len(found)):
                places.append((found, key))
                waiting.append(found[key])
    found, key = places[at % len(places)]
    found[key] = by
    return value


CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
LIST = [
    {"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "text", "text": "a"}], "timestamp": 1.5},
    {"role": "assistant", "content": None, "tool_calls": [CALL]}, {"role": "tool", "tool_call_id": "c", "content": "r"},
    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]},
]  # fmt: skip
SESSION = [json.loads(line) for line in (DATA / "claude-code-branched.jsonl").read_text().splitlines()[:13]]
CHATS = json.loads((DATA / "chatgpt-branched.json").read_text())


@given(
    st.sampled_from([LIST, {"history": LIST}, {"messages": LIST}, SESSION, {"loglines": SESSION}, CHATS]),
    st.lists(st.tuples(st.integers(0, 5000), junk), min_size=1, max_size=4),
)
def test_no_damage_raises_what_nobody_foresaw(document: Any, damage: list[tuple[int, Any]]) -> None:
    value = json.loads(json.dumps(document))
    for at, by in damage:
        value = spoiled(value, at, by)
    with fresh() as store:
        data = json.dumps(value).encode()
        try:
            import_file(store, io.BytesIO(data), tokenizer=len)
            assert import_file(store, io.BytesIO(data), tokenizer=len).events == 0
        except ChronicleError:
            assert store.branch().seq == 0
        assert store.verify(deep=True).ok


@given(
    st.sampled_from(["claude-code-branched.jsonl", "chatgpt-branched.json"]),
    st.integers(0, 8000),
    st.binary(max_size=3),
)
def test_no_bytes_raise_what_nobody_foresaw(name: str, at: int, by: bytes) -> None:
    data = (DATA / name).read_bytes()
    at %= len(data)
    with fresh() as store:
        for damaged in (data[:at] + by + data[at + len(by) :], data[:at]):
            try:
                import_file(store, io.BytesIO(damaged), tokenizer=len)
            except ChronicleError:
                continue
        assert store.verify(deep=True).ok
