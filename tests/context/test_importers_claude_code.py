"""Claude Code sessions: what real ones are like, and what becomes of it."""

from __future__ import annotations

from typing import Any

import pytest
from importing_files import blocks, lines, messages, places, put, said, tree

from chronicle_py import Store
from chronicle_py.exchange import MalformedFile


def user(uuid: str, parent: str | None, text: Any, **more: Any) -> dict[str, Any]:
    return {"type": "user", "uuid": uuid, "parentUuid": parent, "message": {"role": "user", "content": text}, **more}


def model(uuid: str, parent: str | None, *parts: Any, id: str | None = None, **more: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
    message = {"role": "assistant", "content": content, **({"id": id} if id else {})}
    return {"type": "assistant", "uuid": uuid, "parentUuid": parent, "message": message, **more}


def call(id: str, name: str = "Bash") -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": {"of": id}}


def answer(uuid: str, parent: str | None, *ids: str, **more: Any) -> dict[str, Any]:
    results = [{"type": "tool_result", "tool_use_id": id, "content": f"did {id}"} for id in ids]
    return user(uuid, parent, results, **more)


def test_parent_links_are_branches_and_the_last_message_is_where_the_session_stands(store: Store) -> None:
    done = put(
        store,
        lines(
            user("u1", None, "a"), model("a1", "u1", "b"), user("u2", "a1", "old"), model("a2", "u2", "old too"),
            user("u3", "a1", "new"), model("a3", "u3", "new too"),
        ),
    )  # fmt: skip
    assert tree(store) == {"main": "a | b | new | new too", "main-2": "a | b | old | old too"}
    assert (done.form, done.events, done.current) == ("Claude Code session", 6, "main")
    assert done.branches == {"main": "moved", "main-2": "new"}
    assert store.branch("main").event(2).id == store.branch("main-2").event(2).id


def test_roles_timestamps_and_ids_are_kept(store: Store) -> None:
    put(
        store,
        lines(
            user("u1", None, "a", timestamp="2026-01-10T09:00:00.250Z", sessionId="s", cwd="/x", isMeta=True),
            model("a1", "u1", "b", id="msg_1", timestamp="2026-01-10T09:00:04Z"),
        ),
    )
    first, second = messages(store)
    assert (first.participant, first.role, second.participant, second.role) == (
        "user",
        "user",
        "assistant",
        "assistant",
    )
    assert (first.timestamp, second.timestamp) == (1_768_035_600_250_000, 1_768_035_604_000_000)
    assert first.metadata["external"]["source"] == "claude-code"
    assert first.metadata["external"]["id"] == "u1"
    assert (first.metadata["session"], first.metadata["cwd"], first.metadata["meta"]) == ("s", "/x", True)
    assert second.metadata["message_id"] == "msg_1"


def test_thinking_calls_results_and_images_are_kept_as_they_are(store: Store) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "sig"}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "x"}, image],
              "is_error": True}  # fmt: skip
    done = put(
        store,
        lines(user("u1", None, [image]), model("a1", "u1", thinking, call("t1")), user("r1", "a1", [result])),
    )
    assert blocks(store) == [[image], [thinking, call("t1")], [result]]
    assert done.blobs == 2  # the picture twice, stored once


def test_a_parent_that_was_never_written_means_the_record_before(store: Store) -> None:
    put(store, lines(user("u1", None, "a"), model("a1", "u1", "b"), user("u2", "lost", "c"), model("a2", "u2", "d")))
    assert tree(store) == {"main": "a | b | c | d"}


def test_records_that_repeat_after_a_fork_are_kept_once(store: Store) -> None:
    first = [user("u1", None, "a", sessionId="old"), model("a1", "u1", "b", sessionId="old")]
    copied = [{**record, "sessionId": "new"} for record in first]
    done = put(store, lines(*first, user("u2", "a1", "c"), *copied, user("u3", "a1", "d")))
    assert tree(store) == {"main": "a | b | d", "main-2": "a | b | c"}
    assert done.events == 4


def test_the_last_line_may_be_torn(store: Store) -> None:
    done = put(store, lines(user("u1", None, "a"), model("a1", "u1", "b"), '{"type": "user", "uuid": "u2", "par'))
    assert said(store) == ["a", "b"]
    assert places(done) == ["line 3"]


@pytest.mark.parametrize("kind", ["progress", "system", "summary", "file-history-snapshot", "attachment"])
def test_links_pass_through_records_that_are_no_messages(store: Store, kind: str) -> None:
    put(
        store,
        lines(
            user("u1", None, "a"), {"type": kind, "uuid": "p1", "parentUuid": "u1"},
            {"type": kind, "uuid": "p2", "parentUuid": "p1"}, model("a1", "p2", "b"), user("u2", "a1", "c"),
        ),
    )  # fmt: skip
    assert tree(store) == {"main": "a | b | c"}


def test_records_that_are_no_messages_make_no_forks(store: Store) -> None:
    side = [{"type": "progress", "uuid": f"p{n}", "parentUuid": "u1"} for n in range(5)]
    put(
        store,
        lines(
            user("u1", None, "a"), *side, model("a1", "u1", "b"), {"type": "system", "uuid": "s", "parentUuid": "a1"}
        ),
    )
    assert tree(store) == {"main": "a | b"}


def test_links_pass_through_a_compact_boundary(store: Store) -> None:
    boundary = {"type": "system", "subtype": "compact_boundary", "uuid": "c", "parentUuid": None}
    done = put(
        store,
        lines(
            user("u1", None, "a"), model("a1", "u1", "b"), {**boundary, "logicalParentUuid": "a1"},
            user("u2", "c", "in short", isCompactSummary=True), model("a2", "u2", "d"),
            {**boundary, "uuid": "c2"}, user("u3", "c2", "shorter", isCompactSummary=True),
        ),
    )  # fmt: skip
    assert tree(store) == {"main": "a | b | in short | d | shorter"}
    assert messages(store)[2].metadata["compact_summary"] is True
    assert done.faults == []


def test_lines_of_one_message_id_are_one_message(store: Store) -> None:
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    put(
        store,
        lines(
            user("u1", None, "go"), model("a1", "u1", thinking, id="m"), model("a2", "a1", "I look.", id="m"),
            model("a3", "a2", call("t1"), id="m"), answer("r1", "a3", "t1"), model("a4", "r1", "done", id="m2"),
        ),
    )  # fmt: skip
    assert said(store) == ["go", "(hm) I look. [Bash]", "<did t1>", "done"]


def test_results_of_calls_made_side_by_side_are_no_fork(store: Store) -> None:
    put(
        store,
        lines(
            user("u1", None, "go"), model("a1", "u1", call("t1"), id="m"), model("a2", "a1", call("t2"), id="m"),
            answer("r1", "a1", "t1"), answer("r2", "a2", "t2"), model("a3", "r2", "done", id="m2"),
        ),
    )  # fmt: skip
    assert tree(store) == {"main": "go | [Bash] [Bash] | <did t1> | <did t2> | done"}


def test_a_message_goes_on_after_a_result_that_came_in_between(store: Store) -> None:
    put(
        store,
        lines(
            user("u1", None, "go"), model("a1", "u1", call("t1"), id="m"), answer("r1", "a1", "t1"),
            model("a2", "r1", call("t2"), id="m"), answer("r2", "a2", "t2"), model("a3", "r1", "done", id="m2"),
        ),
    )  # fmt: skip
    assert tree(store) == {"main": "go | [Bash] [Bash] | <did t1> | <did t2> | done"}


def test_the_same_call_answered_twice_is_a_fork(store: Store) -> None:
    put(
        store,
        lines(
            user("u1", None, "go"), model("a1", "u1", call("t1"), id="m"), answer("r1", "a1", "t1"),
            model("a2", "r1", "one", id="m2"), answer("r1b", "a1", "t1"), model("a3", "r1b", "two", id="m3"),
        ),
    )  # fmt: skip
    assert sorted(tree(store).values()) == ["go | [Bash] | <did t1> | one", "go | [Bash] | <did t1> | two"]


def test_side_chains_are_branches_of_their_own(store: Store) -> None:
    done = put(
        store,
        lines(
            user("u1", None, "a"), model("a1", "u1", "b"),
            user("s1", None, "look", isSidechain=True), model("s2", "s1", "found", isSidechain=True),
            user("t1", "a1", "count", isSidechain=True, agentId="x"),
            model("t2", "t1", "3", isSidechain=True, agentId="x"),
            user("u2", "a1", "c"),
        ),
    )  # fmt: skip
    assert tree(store) == {"main": "a | b | c", "main-side": "look | found", "main-side-2": "count | 3"}
    assert done.current == "main"
    assert messages(store, "main-side")[0].metadata["sidechain"] is True


def test_the_main_chain_never_goes_on_from_a_side_chain(store: Store) -> None:
    put(
        store,
        lines(
            user("u1", None, "a"), user("s1", None, "look", isSidechain=True), model("a1", "lost", "b"),
            user("u2", "s1", "c"),
        ),
    )  # fmt: skip
    assert tree(store) == {"main": "a | b | c", "main-side": "look"}


def test_a_file_of_one_agent_alone_is_a_conversation_like_any_other(store: Store) -> None:
    put(
        store,
        lines(*(user(f"s{n}", f"s{n - 1}" if n else None, str(n), isSidechain=True, agentId="x") for n in range(3))),
    )
    assert tree(store) == {"main": "0 | 1 | 2"}


def test_another_first_message_is_a_branch(store: Store) -> None:
    put(store, lines(user("u1", None, "a"), model("a1", "u1", "b"), user("u2", None, "A"), model("a2", "u2", "B")))
    assert tree(store) == {"main": "A | B", "main-2": "a | b"}


def test_where_nothing_is_linked_the_order_of_the_file_counts(store: Store) -> None:
    put(store, lines(user("u1", None, "a"), model("a1", None, "b"), user("u2", None, "c")))
    assert tree(store) == {"main": "a | b | c"}


def test_records_without_ids_are_read_in_their_order(store: Store) -> None:
    plain = [{"type": "user", "message": {"role": "user", "content": text}} for text in "abc"]
    put(store, {"loglines": plain})
    assert tree(store) == {"main": "a | b | c"}


def test_links_that_run_in_a_circle_end(store: Store) -> None:
    put(store, lines(user("u1", "a1", "a"), model("a1", "u1", "b"), user("u2", "u2", "c")))
    assert tree(store) == {"main": "a | b | c"}


def test_a_malformed_record_takes_nothing_with_it(store: Store) -> None:
    done = put(
        store,
        lines(
            user("u1", None, "a"), {"type": "assistant", "uuid": "a1", "parentUuid": "u1", "message": "oh"},
            user("u2", "a1", "b"), 42, {"silly": 1}, model("a2", "u2", "c"), user("u3", "a2", 7), user("u4", "u3", "d"),
        ),
    )  # fmt: skip
    assert said(store) == ["a", "b", "c", "d"]
    assert places(done) == ["line 2", "line 4", "line 5", "line 7"]


def test_a_good_record_is_taken_rather_than_a_bad_one_of_the_same_uuid(store: Store) -> None:
    put(store, lines(user("u1", None, "a"), user("u2", "u1", None), user("u2", "u1", "b"), model("a2", "u2", "c")))
    assert said(store) == ["a", "b", "c"]


def test_strict_refuses_the_file(store: Store) -> None:
    with pytest.raises(MalformedFile, match=r"one bad record, nothing was imported: line 2: .*without --strict"):
        put(store, lines(user("u1", None, "a"), 42), strict=True)
    assert store.branch().seq == 0
    assert store.slots() == []


def test_the_summary_of_a_session_names_it(store: Store) -> None:
    put(store, [{"role": "user", "content": "in the way"}])
    summary = {"type": "summary", "summary": "Mend the Report!", "leafUuid": "a1"}
    done = put(store, lines(summary, user("u1", None, "a"), model("a1", "u1", "b")))
    assert done.current == "mend-the-report"


def test_a_session_that_went_on_is_only_added_to(store: Store) -> None:
    records = [user("u1", None, "a"), model("a1", "u1", "b"), user("u2", "a1", "c")]
    put(store, lines(*records[:2]))
    head = store.branch().head
    done = put(store, lines(*records))
    assert (done.events, done.known, done.branches) == (1, 2, {"main": "moved"})
    assert store.branch().event(2).id == head
    fork = put(store, lines(*records, user("u3", "a1", "d")))
    assert (fork.events, fork.known, fork.current) == (1, 3, "main-2")
    assert tree(store) == {"main": "a | b | c", "main-2": "a | b | d"}
