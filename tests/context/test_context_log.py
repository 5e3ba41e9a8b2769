"""The context log: entries that can be edited, and which of them change with the message they stand for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from talking import manager, talk

from chronicle_py import Store
from chronicle_py.context import ContextManager
from chronicle_py.context.blocks import Text
from chronicle_py.context.context_log import LOG_ADD, ContextLogReducer
from chronicle_py.errors import InvalidOperation, NotFound

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "cGl4ZWxz"}}


@pytest.fixture
def cm(store: Store) -> ContextManager:
    return manager(store)


def texts(cm: ContextManager) -> list[str]:
    return [entry.blocks[0].text for entry in cm.context_log if isinstance(entry.blocks[0], Text)]


def test_entries_are_a_sequence(cm: ContextManager) -> None:
    log = cm.context_log
    first = log.append("User", "one two")
    second = log.append("Claude", ["three", IMAGE], cache=True)
    assert (len(log), log[0], log[-1], log[0:1]) == (2, first, second, [first])
    assert (first.participant, first.role, first.tokens) == ("User", "user", 2)
    assert (first.source, first.relation) == (None, None)
    assert (second.role, second.cache, second.blocks[1].source) == ("assistant", True, IMAGE["source"])  # type: ignore[union-attr]
    assert log.get(first.id[:12]) == first
    assert log.tokens == 2 + 1 + 1000
    with pytest.raises(IndexError):
        log[2]


def test_entries_can_be_edited_marked_and_removed(cm: ContextManager) -> None:
    log = cm.context_log
    ids = [log.append("User", text).id for text in "abcde"]
    assert log.edit(ids[1], "new").blocks == [Text("new")]
    log.set_cache(ids[2])
    assert [entry.cache for entry in log] == [False, False, True, False, False]
    log.set_cache(ids[2], False)
    log.remove(ids[0])
    log.remove(ids[2], ids[3])
    assert texts(cm) == ["new", "e"]
    log.clear()
    log.clear()
    assert texts(cm) == []
    with pytest.raises(NotFound, match="removed"):
        log.get(ids[0])


def test_a_copy_takes_its_message_without_storing_it_again(cm: ContextManager) -> None:
    message = talk(cm, "hello there")[0]
    entry = cm.context_log.append(source=message.id, relation="copy")
    assert (entry.participant, entry.blocks, entry.tokens) == ("User", [Text("hello there")], 2)
    assert entry.source == message.id
    assert cm.store.branch().event(2).payload.blocks is None


@pytest.mark.parametrize(
    ("relation", "follows"), [(None, True), ("copy", True), ("derived", False), ("referenced", False)]
)
def test_copies_change_with_their_message_and_others_do_not(
    cm: ContextManager,
    relation: Any,
    follows: bool,
) -> None:
    messages = talk(cm, *"abc")
    for message in messages:
        cm.context_log.append(source=message.id, relation=relation)
        cm.context_log.append(source=message.id, content=f"own {message.text}", relation=relation)
    cm.edit_message(messages[1].id, "new words")
    expected = ["a", "own a", "new words", "new words", "c", "own c"]
    assert texts(cm) == (expected if follows else ["a", "own a", "b", "own b", "c", "own c"])
    assert cm.context_log[2].tokens == (2 if follows else 1)
    cm.remove_messages(messages[1].id, messages[2].id)
    assert texts(cm) == (["a", "own a"] if follows else ["a", "own a", "b", "own b", "c", "own c"])


def test_a_copy_of_an_edited_message_is_of_the_edit(cm: ContextManager) -> None:
    message = talk(cm, "old")[0]
    cm.edit_message(message.id, "new words")
    assert cm.context_log.append(source=message.id).blocks == [Text("new words")]


def test_the_log_follows_its_branch(cm: ContextManager) -> None:
    message = talk(cm, "a")[0]
    cm.context_log.append(source=message.id, relation="copy")
    cm.fork("other")
    cm.edit_message(message.id, "changed")
    cm.switch("other")
    assert texts(cm) == ["a"]
    cm.context_log.clear()
    cm.switch("main")
    assert texts(cm) == ["changed"]


def test_the_log_compiles_by_itself(cm: ContextManager) -> None:
    talk(cm, "not in the log")
    log = cm.context_log
    log.append("System", "Be brief.")
    log.append("User", "hello", cache=True)
    compiled = log.compile()
    assert (compiled.system, compiled.tokens) == ("Be brief.", 3)
    marked = {"type": "text", "text": "hello", "cache_control": {"type": "ephemeral"}}
    assert compiled.to_anthropic()["messages"] == [{"role": "user", "content": [marked]}]


def test_isolated_messages_change_their_own_log(store: Store) -> None:
    alone = manager(store, namespace="alone", isolate=True)
    message = talk(alone, "a")[0]
    alone.context_log.append(source=message.id)
    alone.edit_message(message.id, "new")
    assert texts(alone) == ["new"]


def test_entries_that_make_no_sense_leave_nothing(cm: ContextManager) -> None:
    message = talk(cm, "a")[0]
    log = cm.context_log
    ids = [log.append("User", text).id for text in "ab"]
    seq = cm.stats().seq
    for wrong in (
        lambda: log.append("User"),
        lambda: log.append(content="x"),
        lambda: log.append("User", "x", relation="copy"),
        lambda: log.append(source=message.id, relation="stolen"),  # type: ignore[arg-type]
        lambda: log.append("User", 3),
        lambda: log.append(source="ab" * 32),
        lambda: log.edit(message.id, "x"),
        lambda: log.edit(ids[0], None),
        lambda: log.remove(ids[1], ids[0]),
        lambda: log.get("ab" * 32),
    ):
        with pytest.raises((InvalidOperation, NotFound)):
            wrong()
    assert cm.stats().seq == seq


def test_events_of_another_shape_change_nothing(store: Store, cm: ContextManager) -> None:
    store._engine.event_types.pop(LOG_ADD)
    good = {"participant": "User", "role": "user", "tokens": 1, "blocks": []}
    branch = store.branch()
    for wrong in (None, {}, {**good, "tokens": -1}, {**good, "source_seq": 99}, {**good, "relation": "x"}):
        branch.append(LOG_ADD, wrong, slot="context/log")
    assert len(cm.context_log) == 0


operations = st.lists(
    st.tuples(st.sampled_from(["say", "edit", "cut", "copy", "derived", "own", "drop"]), st.integers(0, 30)),
    max_size=25,
)


@given(operations)
def test_the_log_is_what_a_plain_list_says(program: list[tuple[str, int]]) -> None:
    import tempfile

    import chronicle_py as chronicle

    with tempfile.TemporaryDirectory() as folder, chronicle.open(folder + "/s", durability="relaxed") as store:
        cm = manager(store)
        messages: dict[str, str] = {}
        model: list[dict[str, Any]] = []
        for step, (what, n) in enumerate(program):
            if what == "say":
                message = cm.add_message("User", f"m{step}")
                messages[message.id] = message.text
            elif what == "own" and model:
                entry = model[n % len(model)]
                cm.context_log.edit(entry["id"], f"own {step}")
                entry["text"] = f"own {step}"
            elif what == "drop" and model:
                cm.context_log.remove(model.pop(n % len(model))["id"])
            elif messages and what in ("edit", "cut", "copy", "derived"):
                id = list(messages)[n % len(messages)]
                if what == "edit":
                    cm.edit_message(id, f"e{step}")
                    messages[id] = f"e{step}"
                    for entry in model:
                        if entry["source"] == id and entry["relation"] == "copy":
                            entry["text"] = f"e{step}"
                elif what == "cut":
                    cm.remove_message(id)
                    del messages[id]
                    model = [e for e in model if not (e["source"] == id and e["relation"] == "copy")]
                else:
                    entry_id = cm.context_log.append(source=id, relation=what).id  # type: ignore[arg-type]
                    model.append({"id": entry_id, "text": messages[id], "source": id, "relation": what})
        assert [(e.id, e.blocks[0].text) for e in cm.context_log] == [(e["id"], e["text"]) for e in model]  # type: ignore[union-attr]
        assert store.branch().replay("context/log").equal
        assert ContextLogReducer().initial().position(1) is None
