"""Chat messages and trajectories: what is read, how, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from exchange_stores import (
    Lines,
    exported_lines,
    fresh,
    put_in,
)

from chronicle_py import (
    InvalidName,
    InvalidOperation,
    NotFound,
    StateExists,
    Store,
)
from chronicle_py.exchange import MalformedFile, export_lines, import_file

SHARED = Path(__file__).parent.parent.parent.parent / "shared" / "data"


@pytest.fixture
def exported(store: Store) -> Lines:
    return exported_lines(store)


HELLO = {"role": "user", "content": "Hello"}
CALL = {
    "role": "assistant", "content": None,
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}],
}  # fmt: skip
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "a.py"}
BLOCKS = {
    "role": "assistant",
    "content": [{"type": "thinking", "thinking": "Hm.", "signature": "s"}, {"type": "text", "text": "Hi"}],
}


def file_of(tmp_path: Path, document: Any) -> Path:
    path = tmp_path / "conversation.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def test_messages_become_items_as_they_are(store: Store, tmp_path: Path) -> None:
    messages = [HELLO, CALL, RESULT, BLOCKS]
    done = import_file(store, file_of(tmp_path, messages))
    assert (done.form, done.events, done.slots) == ("chat messages", 4, 1)
    assert list(store.branch().state("messages")) == messages


def test_an_object_with_messages_is_read_and_its_system_prompt_is_first(store: Store, tmp_path: Path) -> None:
    import_file(store, file_of(tmp_path, {"model": "m", "system": "Be kind.", "messages": [HELLO]}))
    assert list(store.branch().state("messages")) == [{"role": "system", "content": "Be kind."}, HELLO]


def test_tool_calls_in_a_trajectory_are_read_where_they_can_be(store: Store, tmp_path: Path) -> None:
    calls = CALL["tool_calls"]
    history = [
        {"role": "assistant", "content": "a", "tool_calls": repr(calls)},
        {"role": "assistant", "content": "b", "tool_calls": "__import__('os')"},
        {"role": "tool", "content": "c", "tool_call_ids": ["c1"]},
    ]
    assert import_file(store, file_of(tmp_path, {"history": history})).form == "SWE-agent trajectory"
    found = list(store.branch().state("messages"))
    assert found[0] == {"role": "assistant", "content": "a", "tool_calls": calls}
    assert found[1:] == history[1:]


def test_messages_go_to_the_branch_that_is_named(store: Store, tmp_path: Path) -> None:
    store.orphan("second")
    import_file(store, file_of(tmp_path, [HELLO]), branch="second")
    assert (store.branch().seq, store.branch("second").seq) == (0, 1)
    with pytest.raises(NotFound, match="'third'"):
        import_file(store, file_of(tmp_path, [HELLO]), branch="third")


def test_every_bad_message_is_named_and_nothing_imported(store: Store, tmp_path: Path) -> None:
    messages = [HELLO, {"content": "x"}, "text", {"role": "user", "content": 5}, {"role": "user", "content": 2**70}]
    path = file_of(tmp_path, {"history": messages})
    with pytest.raises(MalformedFile) as caught:
        import_file(store, path)
    assert [fault.where for fault in caught.value.faults] == ["history[1]", "history[2]", "history[3]", "history[4]"]
    assert store.branch().seq == 0
    assert store.slots() == []
    done = import_file(store, path, skip_bad=True)
    assert (done.events, len(done.faults)) == (1, 4)


def test_a_message_that_no_payload_can_hold_is_named(store: Store, tmp_path: Path) -> None:
    with pytest.raises(MalformedFile, match=r"item 1: this payload has no MessagePack form"):
        import_file(store, file_of(tmp_path, [HELLO, {**HELLO, "n": 2**70}]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: is no JSON"),
        ('[\n{"role": "user",\n]', "line 3: is no JSON"),
        ('"text"', "no form that is read here"),
        ('{"loglines": []}', "no form that is read here"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_no_conversation_is_refused(store: Store, tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidOperation, match=message):
        import_file(store, file_of(tmp_path, text))


def test_bytes_that_are_no_utf8_are_named(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(b'[\n"\xff"]')
    with pytest.raises(MalformedFile, match="line 2: holds bytes that are no UTF-8"):
        import_file(store, path)


def test_a_file_that_is_not_there_is_named(store: Store, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="nowhere"):
        import_file(store, tmp_path / "nowhere")
    with pytest.raises(NotFound, match="cannot be read"):
        import_file(store, tmp_path)


def test_options_that_do_not_go_with_the_file_are_refused(store: Store, tmp_path: Path, exported: Lines) -> None:
    with pytest.raises(InvalidOperation, match="brings its own branches"):
        put_in(store, exported, branch="main")
    with pytest.raises(InvalidOperation, match="brings no branches"):
        import_file(store, file_of(tmp_path, [HELLO]), prefix="x/")
    with pytest.raises(InvalidName):
        put_in(store, exported, prefix="-")


def test_a_messages_slot_of_another_kind_is_refused(store: Store, tmp_path: Path) -> None:
    store.register_state("messages", kind="value")
    with pytest.raises(StateExists, match="'value'"):
        import_file(store, file_of(tmp_path, [HELLO]))


def test_progress_ends_at_the_total(store: Store, tmp_path: Path, exported: Lines) -> None:
    calls: list[tuple[int, int]] = []
    note = lambda done, total: calls.append((done, total))  # noqa: E731
    list(export_lines(store, progress=note))
    assert calls[-1] == (8, 8)
    with fresh() as target:
        put_in(target, exported, progress=note)
    size = sum(map(len, exported))
    assert calls[-1] == (size, size)
    import_file(store, file_of(tmp_path, [HELLO] * 3), progress=note)
    assert calls[-1] == (3, 3)


@pytest.mark.parametrize("name", ["swe-agent-function-calling.traj", "mini-swe-agent-github-issue.traj.json"])
def test_real_runs_come_in_and_out(store: Store, name: str) -> None:
    if not (SHARED / name).exists():
        pytest.skip("the shared data is not here")
    import_file(store, SHARED / name)
    found = list(store.branch().state("messages"))
    assert found[0]["role"] == "system"
    assert all(isinstance(message.get("tool_calls", []), list) for message in found)
    with fresh() as target:
        put_in(target, list(export_lines(store)))
        assert list(target.branch().state("messages")) == found
