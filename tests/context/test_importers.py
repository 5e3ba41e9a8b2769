"""Importing: which form a file has, where its branches go, and that nothing is added twice."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Opener
from importing_files import lines, messages, places, put, said, tree

from chronicle_py import InvalidName, InvalidOperation, NotFound, Store
from chronicle_py.context import Conversation
from chronicle_py.context.importers import FORMATS, import_file
from chronicle_py.exchange import MalformedFile, export_lines

SESSION = lines(
    {"type": "user", "uuid": "u1", "parentUuid": None, "message": {"role": "user", "content": "a"}},
    {"type": "assistant", "uuid": "a1", "parentUuid": "u1", "message": {"role": "assistant", "content": "b"}},
    {"type": "user", "uuid": "u2", "parentUuid": "u1", "message": {"role": "user", "content": "c"}},
)


def talk(*texts: str) -> list[dict[str, str]]:
    return [{"role": "user" if at % 2 == 0 else "assistant", "content": text} for at, text in enumerate(texts)]


CONVERSATION = {
    "title": "T",
    "mapping": {"n": {"parent": None, "message": {"author": {"role": "user"}, "content": "hi"}}},
}


# --- which form -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "form"),
    [
        (SESSION, "Claude Code session"),
        ({"loglines": [json.loads(SESSION.split(b"\n")[0])]}, "Claude Code session"),
        (SESSION.split(b"\n")[0], "Claude Code session"),
        (CONVERSATION, "ChatGPT export"),
        ([{"oops": 1}, CONVERSATION], "ChatGPT export"),
        (lines(CONVERSATION, "torn {"), "ChatGPT export"),
        (talk("a"), "chat messages"),
        ([], "chat messages"),
        ({"role": "user", "content": "a"}, "chat messages"),
        ({"messages": talk("a")}, "chat messages"),
        ({"history": talk("a")}, "SWE-agent trajectory"),
        (b"\xef\xbb\xbf" + json.dumps(talk("a")).encode(), "chat messages"),
    ],
)
def test_the_form_is_told_from_what_is_in_the_file(store: Store, content: Any, form: str) -> None:
    assert put(store, content).form == form


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", "line 1: is no JSON"),
        (b'[\n{"role": "user",\n]', "line 3: is no JSON"),
        (b'"text"', "no form that is read here"),
        (b'{"a": 1}\n{"b": 2}', "no form that is read here"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_no_conversation_is_refused(store: Store, content: bytes, error: str) -> None:
    with pytest.raises(InvalidOperation, match=error):
        put(store, content)
    assert store.slots() == []


def test_the_form_can_be_said(store: Store) -> None:
    record = {"type": "user", "role": "user", "content": "a", "message": {"role": "user", "content": "b"}}
    put(store, [record], format="anthropic")
    assert said(store) == ["a"]
    put(store, [record], format="claude-code", branch="other")
    assert said(store, "other") == ["b"]


def test_a_form_that_the_file_does_not_have_is_refused(store: Store) -> None:
    for format in ("swe-agent", "chatgpt"):
        with pytest.raises(InvalidOperation, match=f"not of the form '{format}'"):
            put(store, {"messages": []}, format=format)
    with pytest.raises(InvalidOperation, match=f"no format 'word'; the formats are {', '.join(FORMATS)}"):
        put(store, [], format="word")


def test_bytes_that_are_no_utf8_are_replaced_and_named(store: Store) -> None:
    done = put(store, b'[\n{"role": "user", "content": "caf\xe9"}]')
    assert said(store) == ["caf�"]
    assert places(done) == ["line 2"]


def test_an_export_of_a_store_brings_the_same_events(store: Store, opener: Opener, tmp_path: Path) -> None:
    put(store, SESSION)
    exported = b"".join(export_lines(store))
    target = opener(tmp_path / "copy")
    done = put(target, exported)
    assert (done.form, done.events, tree(target)) == ("chronicle export", 3, tree(store))
    assert target.branch().head == store.branch().head
    assert put(target, exported, format="export").events == 0
    assert put(target, SESSION).events == 0


def test_an_export_is_refused_where_it_is_bad_unless_bad_records_may_be_left_out(store: Store, opener: Opener) -> None:
    put(store, SESSION)
    exported = b"".join(export_lines(store)).replace(b'"c"', b'"C"')
    target = opener(Path(store.path).parent / "copy")
    with pytest.raises(MalformedFile, match="--skip-bad"):
        put(target, exported)
    assert len(put(target, exported, skip_bad=True).faults) == 2


def test_options_that_do_not_go_with_the_file_are_refused(store: Store, tmp_path: Path) -> None:
    with pytest.raises(InvalidOperation, match="brings its own branches"):
        put(store, b"".join(export_lines(store)), branch="main")
    with pytest.raises(InvalidOperation, match="brings no branches"):
        put(store, talk("a"), prefix="x/")
    with pytest.raises(InvalidName):
        put(store, talk("a"), branch="-x")
    with pytest.raises(NotFound, match="nowhere"):
        import_file(store, tmp_path / "nowhere")
    with pytest.raises(NotFound, match="cannot be read"):
        import_file(store, tmp_path)


# --- where it goes ----------------------------------------------------------------------------------------------------


def test_the_path_that_is_current_goes_to_main_while_that_is_empty(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "My talk.json"
    path.write_text(json.dumps(talk("a", "b")))
    assert import_file(store, path).current == "main"
    path.write_text(json.dumps([{"role": "system", "content": "x"}]))
    assert import_file(store, path).current == "my-talk"
    assert tree(store) == {"main": "a | b", "my-talk": "x"}


def test_a_conversation_without_a_title_is_named_by_what_was_asked(store: Store) -> None:
    put(store, talk("a"))
    put(store, talk("Why is the sky blue? Really"))
    assert list(tree(store)) == ["main", "why-is-the-sky-blue-really"]


def test_the_branch_that_is_named_takes_the_current_path(store: Store) -> None:
    done = put(store, SESSION, branch="mine")
    assert (done.current, tree(store)) == ("mine", {"main": "", "mine": "a | c", "mine-2": "a | b"})
    store.orphan("empty")
    assert put(store, talk("x"), branch="empty").branches == {"empty": "moved"}


def test_a_named_branch_that_has_a_history_goes_on(store: Store) -> None:
    put(store, talk("a", "b"))
    done = put(store, SESSION, branch="main")
    assert done.branches == {"main": "moved", "main-2": "new"}
    assert tree(store) == {"main": "a | b | a | c", "main-2": "a | b | a | b"}
    assert put(store, SESSION, branch="main").events == 0


def test_a_known_conversation_gets_another_branch_for_nothing(store: Store) -> None:
    put(store, talk("a", "b"))
    done = put(store, talk("a", "b"), branch="other")
    assert (done.events, done.branches, done.current) == (0, {"other": "new"}, "other")
    assert store.branch("other").head == store.branch().head
    assert put(store, talk("a", "b"), branch="other").branches == {"other": "same"}


# --- nothing twice ----------------------------------------------------------------------------------------------------


def picture(store: Store) -> Any:
    return [(info.name, info.head) for info in store.branches()]


@pytest.mark.parametrize("content", [SESSION, [CONVERSATION, {**CONVERSATION, "title": "U"}], talk("a", "a", "a")])
def test_importing_twice_adds_nothing(store: Store, content: Any) -> None:
    first = put(store, content)
    before = picture(store)
    second = put(store, content)
    assert (second.events, second.known) == (0, first.events)
    assert set(second.branches.values()) == {"same"}
    assert picture(store) == before


def test_what_was_edited_or_removed_since_does_not_come_back(store: Store) -> None:
    put(store, talk("a", "b", "c"))
    conversation = Conversation(store, tokenizer=len)
    first, second, _ = conversation.slice()
    conversation.edit(first.id, "A")
    conversation.remove(second.id)
    assert put(store, talk("a", "b", "c")).events == 0
    assert said(store) == ["A", "c"]


def test_a_longer_conversation_goes_on_where_the_shorter_ended(store: Store) -> None:
    put(store, talk("a", "b"))
    done = put(store, talk("a", "b", "c", "d"))
    assert (done.events, done.known, done.branches) == (2, 2, {"main": "moved"})
    assert said(store) == ["a", "b", "c", "d"]


def test_a_conversation_that_went_on_here_is_left_alone(store: Store) -> None:
    put(store, talk("a", "b"))
    Conversation(store, tokenizer=len).add("user", "mine")
    done = put(store, talk("a", "b", "theirs"))
    assert (done.events, done.current) == (1, "main-2")
    assert tree(store) == {"main": "a | b | mine", "main-2": "a | b | theirs"}


def test_the_same_words_under_another_id_or_after_other_words_are_new(store: Store) -> None:
    put(store, [{"id": "1", **talk("a")[0]}])
    assert put(store, [{"id": "2", **talk("a")[0]}]).events == 1
    assert put(store, talk("x", "a")).events == 2


def test_a_message_is_found_by_its_external_id(store: Store) -> None:
    put(store, SESSION)
    conversation = Conversation(store, tokenizer=len)
    found = conversation.find_external("claude-code", "u2")
    assert found is not None
    assert (found.text, found.metadata["external"]["source"]) == ("c", "claude-code")


# --- one transaction --------------------------------------------------------------------------------------------------


def test_a_failure_on_the_way_leaves_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    put(store, talk("before"))
    before = picture(store)
    add = Conversation.add

    def failing(self: Conversation, participant: str, content: object, **more: Any) -> Any:
        if participant == "assistant":
            raise OSError("the disk")
        return add(self, participant, content, **more)

    monkeypatch.setattr(Conversation, "add", failing)
    with pytest.raises(OSError, match="the disk"):
        put(store, SESSION)
    assert picture(store) == before


def test_progress_counts_messages(store: Store) -> None:
    seen: list[tuple[int, int]] = []
    put(store, talk(*map(str, range(600))), progress=lambda done, total: seen.append((done, total)))
    assert seen == [(256, 600), (512, 600), (600, 600)]


def test_what_comes_in_can_be_verified_and_exported(store: Store, opener: Opener, tmp_path: Path) -> None:
    put(store, SESSION)
    put(store, [CONVERSATION])
    assert store.verify(deep=True).ok
    target = opener(tmp_path / "copy")
    import_file(target, io.BytesIO(b"".join(export_lines(store))))
    assert tree(target) == tree(store)
    assert [message.id for message in messages(target)] == [message.id for message in messages(store)]
