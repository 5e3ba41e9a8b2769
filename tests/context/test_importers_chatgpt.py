"""ChatGPT's exports: what real ones are like, and what becomes of it."""

from __future__ import annotations

import io
import json
import zipfile
from base64 import b64encode
from typing import Any

import pytest
from importing_files import blocks, messages, places, put, said, tree

from chronicle_py import InvalidOperation, Store
from chronicle_py.exchange import MalformedFile

PNG = b"\x89PNG\r\n\x1a\n"


def node(
    id: str, parent: str | None, content: Any, role: str = "user", time: float | None = None, **more: Any
) -> dict[str, Any]:
    """A node with a message; a str or list as content is a text."""
    if isinstance(content, str | list):
        content = {"content_type": "text", "parts": [content] if isinstance(content, str) else content}
    author = {"role": role, "name": more.pop("name", None)}
    metadata = more.pop("metadata", {})
    message = {"id": id, "author": author, "content": content, "create_time": time, "metadata": metadata, **more}
    return {"id": id, "parent": parent, "children": [], "message": message}


def chat(*nodes: dict[str, Any], current: str | None = None, title: str = "Walk", **more: Any) -> dict[str, Any]:
    """A conversation; who is whose child is told from the parents."""
    root: dict[str, Any] = {"id": "root", "message": None, "parent": None, "children": []}
    mapping = {n["id"]: n for n in (root, *nodes)}
    for n in nodes:
        if n["parent"] in mapping:
            mapping[n["parent"]]["children"].append(n["id"])
    return {"title": title, "mapping": mapping, "conversation_id": f"c-{title}",
            **({"current_node": current} if current else {}), **more}  # fmt: skip


WALK = (node("u", "root", "a"), node("x", "u", "b", "assistant"), node("y", "u", "c", "assistant"))


def test_the_tree_is_branches_and_the_current_node_is_on_main(store: Store) -> None:
    done = put(store, [chat(*WALK, current="x")])
    assert tree(store) == {"main": "a | b", "main-2": "a | c"}
    assert (done.form, done.events, done.current) == ("ChatGPT export", 3, "main")


def test_one_object_is_read_like_a_list_of_one(store: Store) -> None:
    put(store, chat(*WALK, current="y"))
    assert tree(store) == {"main": "a | c", "main-2": "a | b"}


def test_each_conversation_is_a_family_of_branches_named_by_its_title_and_the_newest_has_main(store: Store) -> None:
    done = put(
        store,
        [
            chat(*WALK, current="x", title="Coast Walk!", update_time=100.0),
            chat(node("u", "root", "new"), title="Picture", update_time=300.0),
            chat(node("u", "root", "other"), title="Coast walk", update_time=200.0),
            chat(node("u", "root", "?"), title="", update_time=50.0),
        ],
    )
    assert tree(store) == {
        "main": "new", "coast-walk": "other", "coast-walk-2": "a | b", "coast-walk-3": "a | c", "conversation": "?",
    }  # fmt: skip
    assert done.current == "main"


def test_nodes_without_a_message_and_hidden_ones_are_passed_through(store: Store) -> None:
    hidden = node("h", "root", "secret", "system", metadata={"is_visually_hidden_from_conversation": True})
    context = node("k", "h", {"content_type": "user_editable_context", "user_profile": "x"})
    nothing: dict[str, Any] = {"id": "n", "parent": "k", "children": [], "message": None}
    empty = node("e", "n", "", "assistant")
    done = put(store, chat(hidden, context, nothing, empty, node("u", "e", "a"), node("v", "u", "b", "assistant")))
    assert tree(store) == {"main": "a | b"}
    assert done.faults == []


def test_every_kind_of_content_is_read(store: Store) -> None:
    contents: list[Any] = [
        {"content_type": "text", "parts": ["one", "two"]},
        {"content_type": "code", "language": "python", "text": "print(1)"},
        {"content_type": "thoughts", "thoughts": [{"summary": "Plan", "content": "First."}]},
        {"content_type": "reasoning_recap", "content": "Thought for 3 s"},
        {"content_type": "tether_quote", "title": "Page", "url": "https://x", "text": "quoted"},
        {"content_type": "something_new", "payload": [1]},
    ]
    nodes = [
        node(f"n{at}", f"n{at - 1}" if at else "root", content, "assistant") for at, content in enumerate(contents)
    ]
    bare = node("b", "n5", None)
    bare["message"]["content"] = "bare"
    put(store, chat(*nodes, bare))
    assert said(store) == [
        "one two", "print(1)", "(Plan\nFirst.)", "Thought for 3 s", "Page\nhttps://x\nquoted", "{something_new}",
        "bare",
    ]  # fmt: skip
    assert blocks(store)[5] == [{"type": "something_new", "content_type": "something_new", "payload": [1]}]


def test_a_pointer_to_a_picture_stays_where_the_picture_is_not_there(store: Store) -> None:
    pointer = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://file-abc", "width": 640}
    put(store, chat(node("u", "root", {"content_type": "multimodal_text", "parts": [pointer, "What is it?"]})))
    source = {"asset_pointer": "file-service://file-abc", "width": 640, "type": "asset"}
    assert blocks(store) == [[{"type": "image", "source": source}, {"type": "text", "text": "What is it?"}]]


def test_a_zip_brings_its_pictures(store: Store) -> None:
    picture = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://file-abc"}
    other = {"content_type": "image_asset_pointer", "asset_pointer": "sediment://file_def"}
    parts = {"content_type": "multimodal_text", "parts": [picture, other]}
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as zip:
        zip.writestr("export/conversations.json", json.dumps([chat(node("u", "root", parts))]))
        zip.writestr("export/file-abc-photo.png", PNG)
        zip.writestr("export/file_def.jpg", b"jpg")
        zip.writestr("export/chat.html", "<html>")
    done = put(store, data.getvalue())
    source = {"type": "base64", "media_type": "image/png", "data": b64encode(PNG).decode()}
    assert blocks(store)[0][0] == {"type": "image", "source": source}
    assert blocks(store)[0][1]["source"]["media_type"] == "image/jpeg"
    assert (done.events, done.blobs) == (1, 2)


def test_a_zip_with_its_conversations_in_several_files_is_read_whole(store: Store) -> None:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as zip:
        for number in range(2):
            text = json.dumps([chat(node("u", "root", f"t{number}"), title=f"T{number}", update_time=number + 1)])
            zip.writestr(f"conversations-{number:03}.json", text)
    put(store, data.getvalue())
    assert tree(store) == {"main": "t1", "t0": "t0"}


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [("other.json", "[]", "without conversations.json"), ("conversations.json", "{{", "line 1: is no JSON")],
)
def test_a_zip_that_is_none_of_chatgpts_is_refused(store: Store, name: str, text: str, error: str) -> None:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as zip:
        zip.writestr(name, text)
    with pytest.raises(InvalidOperation, match=error):
        put(store, data.getvalue())
    with pytest.raises(InvalidOperation, match="begins like a zip"):
        put(store, data.getvalue()[:40])


def test_a_call_of_a_tool_and_its_output_are_a_pair(store: Store) -> None:
    put(
        store,
        chat(
            node("u", "root", "1 + 1?"),
            node("c", "u", {"content_type": "code", "text": "print(1 + 1)"}, "assistant", recipient="python"),
            node("t", "c", {"content_type": "execution_output", "text": "2"}, "tool", name="python"),
            node("d", "t", '{"q": "two"}', "assistant", recipient="web.run"),
            node("e", "d", {"content_type": "system_error", "text": "no net"}, "tool", name="web.run"),
            node("f", "e", "alone", "tool"),
        ),
    )
    call = {"type": "tool_use", "id": "c", "name": "python", "input": "print(1 + 1)"}
    result = {"type": "tool_result", "tool_use_id": "c", "content": "2"}
    assert blocks(store)[1:4] == [
        [call], [result], [{"type": "tool_use", "id": "d", "name": "web.run", "input": {"q": "two"}}],
    ]  # fmt: skip
    error = {"type": "tool_result", "tool_use_id": "d", "content": "no net", "is_error": True}
    assert blocks(store)[4] == [error]
    assert [message.participant for message in messages(store)] == [
        "user", "assistant", "tool", "assistant", "tool", "tool",
    ]  # fmt: skip
    assert messages(store)[2].metadata["name"] == "python"


def test_an_output_without_a_call_names_one_that_is_not_there(store: Store) -> None:
    put(store, chat(node("t", "root", "out of nowhere", "tool")))
    assert blocks(store) == [[{"type": "tool_result", "tool_use_id": "call-before-t", "content": "out of nowhere"}]]


def test_create_time_may_be_null(store: Store) -> None:
    put(store, chat(node("u", "root", "a", time=1718000010.1), node("x", "u", "b", "assistant")))
    first, second = messages(store)
    assert first.timestamp == 1_718_000_010_100_000
    assert second.timestamp == store.branch().event(2).time


def test_the_model_may_stand_on_the_conversation(store: Store) -> None:
    own = node("y", "x", "c", "assistant", metadata={"model_slug": "gpt-5"})
    put(store, chat(node("u", "root", "a"), node("x", "u", "b", "assistant"), own, default_model_slug="gpt-4o"))
    assert [message.metadata.get("model") for message in messages(store)] == [None, "gpt-4o", "gpt-5"]


def test_several_first_messages_are_branches(store: Store) -> None:
    put(store, chat(node("u", "root", "a"), node("v", "root", "b"), node("w", "v", "c", "assistant"), current="w"))
    assert tree(store) == {"main": "b | c", "main-2": "a"}


def test_without_a_current_node_the_newest_end_is_current(store: Store) -> None:
    late = node("x", "u", "b", "assistant", time=30.0)
    put(store, chat(node("u", "root", "a", time=10.0), late, node("y", "u", "c", "assistant", time=20.0)))
    assert tree(store) == {"main": "a | b", "main-2": "a | c"}


def test_a_current_node_without_a_message_stands_for_the_one_above(store: Store) -> None:
    blank: dict[str, Any] = {"id": "n", "parent": "x", "children": [], "message": None}
    put(store, chat(*WALK, blank, current="n"))
    assert tree(store)["main"] == "a | b"


def test_a_current_node_in_the_middle_is_where_main_ends(store: Store) -> None:
    put(store, chat(*WALK, current="u"))
    assert tree(store) == {"main": "a", "main-2": "a | b", "main-3": "a | c"}


def test_links_may_run_in_a_circle(store: Store) -> None:
    ring = [node("p", "q", "1"), node("q", "p", "2", "assistant")]
    done = put(store, [chat(node("u", "root", "a"), *ring, current="u")])
    assert tree(store) == {"main": "a", "main-2": "1 | 2"}
    assert places(done) == ["conversation 0 'Walk', node p"]


def test_a_parent_that_is_not_there_is_taken_from_the_lists_of_children(store: Store) -> None:
    conversation = chat(node("u", "root", "a"), node("x", "gone", "b", "assistant"), current="x")
    conversation["mapping"]["u"]["children"] = ["x"]
    put(store, conversation)
    assert tree(store) == {"main": "a | b"}


def test_what_is_malformed_takes_neither_a_conversation_nor_the_file_with_it(store: Store) -> None:
    bad = chat(node("u", "root", "a"), node("x", "u", 5, "assistant"), node("y", "x", "c"), title="Bad")
    bad["mapping"]["z"] = "no node"
    bad["mapping"]["w"] = {"parent": "y", "message": {"content": {"content_type": "text", "parts": ["?"]}}}
    done = put(store, [{"title": "Nothing"}, bad, 7, chat(node("u", "root", "good"), update_time=9.0)])
    assert tree(store) == {"main": "good", "bad": "a | c"}
    assert places(done) == [
        "conversation 0", "conversation 1 'Bad', node z", "conversation 1 'Bad', node x",
        "conversation 1 'Bad', node w", "conversation 2",
    ]  # fmt: skip
    with pytest.raises(MalformedFile, match="5 bad records"):
        put(store, [{"title": "Nothing"}, bad, 7], strict=True)


def test_a_list_that_was_cut_short_keeps_the_conversations_before_the_cut(store: Store) -> None:
    whole = json.dumps([chat(*WALK, current="x"), chat(node("u", "root", "lost"), title="Lost")])
    done = put(store, whole[:-30].encode())
    assert tree(store) == {"main": "a | b", "main-2": "a | c"}
    assert len(done.faults) == 1


def test_a_long_conversation_is_no_recursion(store: Store) -> None:
    nodes = [node(f"n{at}", f"n{at - 1}" if at else "root", str(at)) for at in range(3000)]
    assert put(store, chat(*nodes)).events == 3000
    assert len(messages(store)) == 3000
