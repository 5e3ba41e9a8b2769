"""The messages of a branch: adding, editing, removing, looking up; on forks, at sequences, after reopening."""

from __future__ import annotations

from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from conftest import Clock, Entropy, Opener
from hypothesis import given
from hypothesis import strategies as st

import chronicle_py as chronicle
from chronicle_py import BlobRef, Branch, Store
from chronicle_py.context.blocks import Media, Text, ToolResult, ToolUse, Unknown
from chronicle_py.context.conversation import Conversation
from chronicle_py.context.message import Message
from chronicle_py.context.payloads import MessagePayload, SummaryPayload
from chronicle_py.errors import ChronicleError, InvalidName, InvalidOperation, NotFound, ReadOnly, StateExists

IMAGE = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": b64encode(b"pixels").decode()},
}
CALL = {"type": "tool_use", "id": "t1", "name": "grep", "input": {"q": "needle"}}
ANSWER = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "found"}, IMAGE]}


def words(text: str) -> int:
    return len(text.split())


@pytest.fixture
def conversation(store: Store) -> Conversation:
    return Conversation(store, tokenizer=words)


def texts(messages: list[Message]) -> list[str]:
    return [message.text for message in messages]


# --- adding ---------------------------------------------------------------------------------------------------------


def test_a_message_says_all_about_itself(conversation: Conversation) -> None:
    message = conversation.add("Alice", "hello there", metadata={"tags": ["greeting"]})
    event = conversation.branch.event(1)
    assert message.id == event.id
    assert message.seq == 1
    assert message.participant == "Alice"
    assert message.role == "user"
    assert message.blocks == [Text("hello there")]
    assert message.text == "hello there"
    assert message.metadata == {"tags": ["greeting"]}
    assert message.timestamp == event.time
    assert message.tokens == message.text_tokens == 2
    assert message.tokenizer == "words"
    assert message.caused_by == ()
    assert message.edited is None
    assert conversation.get(message.id) == message


def test_the_event_carries_what_folds_need(conversation: Conversation) -> None:
    conversation.add("Claude", ["let me look", CALL])
    conversation.add("User", [ANSWER])
    call, answer = (event.payload for event in conversation.branch.events(types=["message"]))
    assert isinstance(call, MessagePayload)
    assert (call.role, call.tokens, call.text_tokens) == ("assistant", 24, 24)
    assert [(c.id, c.name) for c in call.calls] == [("t1", "grep")]
    assert not call.only_answers
    assert (answer.answers, answer.only_answers) == (("t1",), True)
    assert (answer.tokens, answer.text_tokens) == (1001, 1)


@pytest.mark.parametrize(
    ("participant", "role"),
    [("Claude", "assistant"), ("assistant", "assistant"), ("ASSISTANT", "assistant"), ("System", "system"),
     ("system", "system"), ("User", "user"), ("claude", "user"), ("Bob", "user")],
)  # fmt: skip
def test_roles_follow_the_participant(conversation: Conversation, participant: str, role: str) -> None:
    assert conversation.add(participant, "x").role == role


def test_the_assistant_may_have_another_name(store: Store) -> None:
    conversation = Conversation(store, assistant="Lena")
    assert conversation.add("Lena", "x").role == "assistant"
    assert conversation.add("Claude", "x").role == "user"


def test_blocks_come_back_with_their_media(conversation: Conversation) -> None:
    content = ["see", IMAGE, CALL, ANSWER, {"type": "odd", "n": 1}]
    message = conversation.add("Claude", content)
    assert message.blocks == [
        Text("see"),
        Media("image", IMAGE["source"]),  # type: ignore[arg-type]
        ToolUse("t1", "grep", {"q": "needle"}),
        ToolResult("t1", [Text("found"), Media("image", IMAGE["source"])]),  # type: ignore[arg-type]
        Unknown({"type": "odd", "n": 1}),
    ]
    assert conversation.get(message.id) == message
    assert conversation.slice() == [message]


def test_base64_is_in_a_blob_and_not_in_the_event(conversation: Conversation) -> None:
    conversation.add("User", [IMAGE, IMAGE])
    event = conversation.branch.event(1)
    assert len(event.blobs) == 1
    assert conversation.store.get_blob(event.blobs[0]).data == b"pixels"
    assert conversation.store.get_blob(event.blobs[0]).media_type == "image/png"
    assert b64encode(b"pixels") not in bytes(event.raw)


def test_removing_a_message_leaves_the_media_of_another(conversation: Conversation) -> None:
    first, second = conversation.add("User", [IMAGE]), conversation.add("User", [IMAGE])
    conversation.remove(first.id)
    assert conversation.get(second.id).blocks == [Media("image", IMAGE["source"])]  # type: ignore[arg-type]


def test_a_time_may_be_given(conversation: Conversation) -> None:
    assert conversation.add("User", "x", at=1_600_000_000_000_001).timestamp == 1_600_000_000_000_001
    moment = datetime(2024, 2, 29, 12, 30, 15, 123456, tzinfo=timezone(timedelta(hours=2)))
    assert conversation.add("User", "x", at=moment).timestamp == 1_709_202_615_123_456
    assert conversation.add("User", "x", at=0).timestamp == 0


def test_causes_are_recorded(conversation: Conversation) -> None:
    question = conversation.add("User", "?")
    answer = conversation.add("Claude", "!", caused_by=[question.id])
    assert answer.caused_by == (question.id,)
    assert [event.id for event in conversation.store.effects(question.id)] == [answer.id]


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        (("", "x"), {}),
        ((5, "x"), {}),
        (("a\nb", "x"), {}),
        (("User", None), {}),
        (("User", 5), {}),
        (("User", [None]), {}),
        (("User", "lone \ud800 surrogate"), {}),
        (("User", [{"type": "odd", "value": object()}]), {}),
        (("User", [{"type": "odd", "value": 1 << 70}]), {}),
        (("User", "x"), {"metadata": [1]}),
        (("User", "x"), {"metadata": {"a": object()}}),
        (("User", "x"), {"metadata": {5: "a"}}),
        (("User", "x"), {"at": "yesterday"}),
        (("User", "x"), {"at": 1.5}),
        (("User", "x"), {"at": True}),
        (("User", "x"), {"at": 1 << 63}),
        (("User", "x"), {"at": datetime(2024, 1, 1)}),
        (("User", "x"), {"caused_by": ["ab" * 32]}),
        (("User", "x"), {"caused_by": "ab" * 32}),
        (("User", [IMAGE, {**IMAGE, "source": {**IMAGE["source"], "data": "no base64!"}}]), {}),  # type: ignore[dict-item]
        (("User", [IMAGE]), {"caused_by": ["ab" * 32]}),
        (("User", [IMAGE]), {"caused_by": "ab" * 32}),
        (("User", [IMAGE]), {"metadata": {"a": object()}}),
        (("User", [IMAGE]), {"metadata": {5: "a"}}),
        (("User", [Media("image", {"type": "blob", "blob": BlobRef("ab" * 32)})]), {}),
    ],
)
def test_a_refused_message_leaves_nothing_and_does_not_spoil_a_transaction(
    conversation: Conversation, arguments: Any, options: Any
) -> None:
    objects = conversation.store.stats().objects
    with pytest.raises(ChronicleError):
        conversation.add(*arguments, **options)
    with conversation.store.transaction():
        conversation.add("User", "before")
        with pytest.raises(ChronicleError):
            conversation.add(*arguments, **options)
        conversation.add("User", "after")
    assert texts(conversation.slice()) == ["before", "after"]
    assert conversation.branch.seq == 2
    assert conversation.store.stats().objects == objects


def test_content_nested_without_end_is_refused(conversation: Conversation) -> None:
    content: list[Any] = []
    content.append({"type": "tool_result", "tool_use_id": "t", "content": content})
    with pytest.raises(InvalidOperation, match="nested too deeply"):
        conversation.add("User", content)


# --- editing and removing -------------------------------------------------------------------------------------------


def test_an_edit_replaces_the_content_alone(conversation: Conversation) -> None:
    message = conversation.add("Alice", "one", metadata={"k": 1}, at=5)
    edited = conversation.edit(message.id, ["one two three", CALL])
    assert edited.blocks == [Text("one two three"), ToolUse("t1", "grep", {"q": "needle"})]
    assert edited.tokens == 24
    assert edited.edited == conversation.branch.head
    assert (edited.id, edited.seq, edited.participant, edited.role, edited.metadata, edited.timestamp) == (
        message.id, 1, "Alice", "user", {"k": 1}, 5,
    )  # fmt: skip
    assert conversation.get(message.id) == edited
    assert conversation.slice() == [edited]
    assert conversation.index().tokens == 24


def test_a_message_may_be_seen_as_it_was(conversation: Conversation) -> None:
    message = conversation.add("User", "first")
    conversation.edit(message.id, "second")
    conversation.edit(message.id, "third")
    conversation.remove(message.id)
    assert [conversation.get(message.id, at=seq).text for seq in (1, 2, 3)] == ["first", "second", "third"]
    assert conversation.get(message.id, at=message.id).text == "first"
    with pytest.raises(NotFound, match=r"was removed from branch 'main' as of sequence 4; message\(id, at=…\)"):
        conversation.get(message.id, at=4)
    with pytest.raises(NotFound, match="was removed from branch 'main'; "):
        conversation.get(message.id)


def test_a_message_is_not_there_before_it_was_added(conversation: Conversation) -> None:
    conversation.add("User", "a")
    later = conversation.add("User", "b")
    with pytest.raises(NotFound, match="was added at sequence 2, so it is not on branch 'main' as of sequence 1"):
        conversation.get(later.id, at=1)
    with pytest.raises(NotFound, match="sequences 0 to 2, there is no 9"):
        conversation.get(later.id, at=9)


def test_a_range_is_removed_whole(conversation: Conversation) -> None:
    messages = [conversation.add("User", str(n)) for n in range(6)]
    conversation.remove(messages[2].id)
    assert conversation.remove_range(messages[1].id, messages[4].id) == 3
    assert texts(conversation.slice()) == ["0", "5"]
    assert len(conversation) == 2
    payload = list(conversation.branch.events(types=["message.remove"]))[-1].payload
    assert (payload.first_seq, payload.last_seq) == (2, 5)


def test_ids_that_do_not_fit_are_named(conversation: Conversation, store: Store) -> None:
    first, second, gone = (conversation.add("User", text) for text in "abc")
    conversation.remove(gone.id)
    other = store.orphan("other")
    elsewhere = conversation.on(other).add("User", "d")
    note = conversation.branch.append("note", {})
    head = conversation.branch.head
    changes: list[Any] = [conversation.remove, lambda id: conversation.edit(id, "x"), conversation.get]
    for change in (*changes, conversation.position, conversation.row):
        for id, error, said in (
            ("ab" * 32, NotFound, "no event has an id"),
            (elsewhere.id, NotFound, "is not on branch 'main'"),
            (gone.id, NotFound, "was removed"),
            (note.id, InvalidOperation, "is no message of this conversation: its type is 'note'"),
            ("zz", InvalidOperation, "hex digits"),
            (5, InvalidOperation, "named by its id"),
        ):
            with pytest.raises(error, match=said):
                change(id)
    with pytest.raises(InvalidOperation, match=r"stands after .* swap the two"):
        conversation.remove_range(second.id, first.id)
    with pytest.raises(NotFound, match="was removed"):
        conversation.remove_range(first.id, gone.id)
    with pytest.raises(InvalidOperation, match="content"):
        conversation.edit(first.id, None)
    assert conversation.branch.head == head
    assert len(conversation) == 2


def test_a_unique_prefix_of_an_id_is_enough(conversation: Conversation) -> None:
    message = conversation.add("User", "a")
    assert conversation.get(message.id[:10]) == message
    assert conversation.get(conversation.branch.event(1)) == message


def test_the_last_of_several_edits_counts_and_edits_of_the_removed_do_not(conversation: Conversation) -> None:
    message = conversation.add("User", "a")
    conversation.edit(message.id, "b")
    assert conversation.index().row(1).edit == 2  # type: ignore[union-attr]
    conversation.remove(message.id)
    assert conversation.index().edited == 1
    assert conversation.index().removed == 1


# --- looking up -----------------------------------------------------------------------------------------------------


@pytest.fixture
def chat(conversation: Conversation) -> Conversation:
    """Twelve messages by three participants, from two sources, one in three tagged."""
    for n in range(12):
        conversation.add(
            ("Alice", "Bob", "Claude")[n % 3],
            f"m{n}",
            metadata={
                "external": {"source": "discord" if n < 8 else "mail", "id": n, "channel": f"c{n % 2}"},
                "tags": ["even"] if n % 2 == 0 else ["odd", "n"],
                "flags": {"seen": n % 4 == 0},
            },
        )
    return conversation


def test_slices_are_those_of_a_list(chat: Conversation) -> None:
    everything = [f"m{n}" for n in range(12)]
    for start, stop in ((0, None), (3, 5), (-2, None), (5, 3), (0, 99), (-99, 2), (4, -4)):
        assert texts(chat.slice(start, stop)) == everything[start:stop]
    assert [texts(chat.tail(n)) for n in (0, 1, 3, 99)] == [[], ["m11"], ["m9", "m10", "m11"], everything]
    for wrong in (-1, True, "3", None):
        with pytest.raises(InvalidOperation):
            chat.tail(wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidOperation):
        chat.slice("a")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, range(12)),
        ({"participant": "Bob"}, [1, 4, 7, 10]),
        ({"participant": "Nobody"}, []),
        ({"source": "mail"}, [8, 9, 10, 11]),
        ({"source": "mail", "participant": "Claude"}, [8, 11]),
        ({"source": "discord", "participant": "Claude"}, [2, 5]),
        ({"external_ids": [3, "5", 99, 3]}, [3, 5]),
        ({"external_ids": 3}, [3]),
        ({"external_ids": [3, 9], "source": "mail"}, [9]),
        ({"external_ids": [3, 4], "participant": "Alice"}, [3]),
        ({"external_ids": []}, []),
        ({"metadata": {"external.channel": "c1"}}, [1, 3, 5, 7, 9, 11]),
        ({"metadata": {"external.channel": "c1", "flags.seen": False}, "participant": "Bob"}, [1, 7]),
        ({"metadata": {"tags": "even"}}, [0, 2, 4, 6, 8, 10]),
        ({"metadata": {"tags": ["odd", "n"]}}, [1, 3, 5, 7, 9, 11]),
        ({"metadata": {"tags.1": "n"}}, [1, 3, 5, 7, 9, 11]),
        ({"metadata": {"flags.seen": True}}, [0, 4, 8]),
        ({"metadata": {"flags.seen": 1}}, []),
        ({"metadata": {"external.id": 4}}, [4]),
        ({"metadata": {"external.none": None}}, []),
        ({"metadata": {"tags.x.y": 1}}, []),
    ],
)
def test_filters(chat: Conversation, filters: Any, expected: Any) -> None:
    expected = [f"m{n}" for n in expected]
    for limit in (None, 0, 1, 2, 50):
        found, total = chat.query(**filters, limit=limit)
        assert (texts(found), total) == (expected[:limit], len(expected))
        found, total = chat.query(**filters, limit=limit, reverse=True)
        assert (texts(found), total) == (expected[::-1][:limit], len(expected))


@pytest.mark.parametrize(
    "wrong",
    [
        {"source": 5},
        {"participant": b"x"},
        {"external_ids": [1.5]},
        {"external_ids": [True]},
        {"external_ids": {"a": 1}},
        {"metadata": [1]},
        {"metadata": {"": 1}},
        {"metadata": {5: 1}},
        {"limit": -1},
        {"limit": True},
        {"limit": "5"},
    ],
)
def test_filters_of_the_wrong_shape_are_refused(chat: Conversation, wrong: Any) -> None:
    with pytest.raises(InvalidOperation, match=r"query|takes"):
        chat.query(**wrong)


def test_filters_know_what_was_removed(chat: Conversation) -> None:
    chat.remove_range(chat.slice(1)[0].id, chat.slice(9)[0].id)
    assert texts(chat.query(participant="Bob")[0]) == ["m10"]
    assert chat.query(source="discord")[1] == 1
    assert chat.query(external_ids=range(12))[1] == 3


def test_an_external_id_leads_to_its_message(chat: Conversation) -> None:
    found = chat.find_external("discord", 5)
    assert found is not None
    assert found.text == "m5"
    assert chat.find_external("discord", "5") == found
    assert chat.find_external("mail", 5) is None
    chat.remove(found.id)
    assert chat.find_external("discord", 5) is None
    with pytest.raises(InvalidOperation):
        chat.find_external("discord", None)  # type: ignore[arg-type]


def test_positions_count_what_stands(chat: Conversation) -> None:
    messages = chat.slice()
    assert [chat.position(message.id) for message in messages] == list(range(12))
    chat.remove(messages[0].id)
    assert chat.position(messages[5].id) == 4
    assert chat.row(messages[5].id).participant == "Claude"


# --- branches, namespaces, restarts ---------------------------------------------------------------------------------


def test_what_is_done_on_one_branch_is_not_on_another(conversation: Conversation, main: Branch) -> None:
    first, second = conversation.add("User", "a"), conversation.add("User", "b")
    fork = conversation.on(main.fork("fork"))
    fork.edit(first.id, "changed")
    fork.remove(second.id)
    fork.add("User", "c")
    conversation.add("User", "d")
    assert texts(conversation.slice()) == ["a", "b", "d"]
    assert texts(fork.slice()) == ["changed", "c"]
    assert fork.on("main").get(first.id).text == "a"


def test_isolated_conversations_do_not_hear_each_other(store: Store) -> None:
    shared = Conversation(store)
    lena = Conversation(store, slot="lena/messages", isolated=True)
    otto = Conversation(store, slot="otto/messages", isolated=True)
    a, b, c = shared.add("User", "all"), lena.add("User", "lena's"), otto.add("User", "otto's")
    lena.edit(b.id, "hers")
    otto.remove(c.id)
    assert [texts(each.slice()) for each in (shared, lena, otto)] == [["all"], ["hers"], []]
    with pytest.raises(InvalidOperation, match=r"no message of this conversation.* its slot 'lena/messages'"):
        shared.get(b.id)
    with pytest.raises(InvalidOperation, match="no message of this conversation"):
        lena.remove(a.id)


def test_a_slot_is_isolated_or_not_for_good(store: Store) -> None:
    Conversation(store)
    with pytest.raises(StateExists):
        Conversation(store, isolated=True)


def test_arguments_are_checked(store: Store) -> None:
    with pytest.raises(InvalidName):
        Conversation(store, assistant="")
    with pytest.raises(InvalidName):
        Conversation(store, slot="a//b")
    with pytest.raises(NotFound):
        Conversation(store, "nowhere")
    with pytest.raises(InvalidOperation):
        Conversation(store, tokenizer="klingon")


def test_all_is_there_after_reopening(opener: Opener) -> None:
    with opener() as store:
        conversation = Conversation(store, tokenizer=words)
        kept = [conversation.add("User", [f"m{n}", IMAGE], metadata={"n": n}) for n in range(150)]
        conversation.edit(kept[3].id, "edited")
        conversation.remove_range(kept[10].id, kept[19].id)
        before, hash = conversation.slice(), store.branch().state("context/messages").hash
    with opener() as store:
        conversation = Conversation(store, tokenizer=words)
        assert conversation.slice() == before
        assert store.branch().state("context/messages").hash == hash
        assert store.branch().replay("context/messages").hash == hash
        assert store.verify(deep=True).ok
    with opener(readonly=True) as store:
        conversation = Conversation(store)
        assert conversation.slice() == before
        with pytest.raises(ReadOnly):
            conversation.add("User", "x")


def test_an_exception_takes_a_whole_transaction_back(conversation: Conversation) -> None:
    kept = conversation.add("User", "kept")

    def fail() -> None:
        with conversation.store.transaction():
            conversation.add("User", [IMAGE])
            conversation.edit(kept.id, "changed")
            assert texts(conversation.slice()) == ["changed", ""]
            assert conversation.view().message(1).blocks == [Text("changed")]
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert conversation.slice() == [kept]
    assert conversation.view().message(1).blocks == [Text("kept")]
    conversation.add("User", "next")
    assert conversation.view().message(2).blocks == [Text("next")]


def test_events_of_another_application_are_no_messages(conversation: Conversation, main: Branch) -> None:
    store = conversation.store
    del store._engine.event_types["message"]  # as in a process that knows nothing of conversations
    odd = main.append("message", {"text": "not ours"})
    kept = Conversation(store).add("User", "ours")
    assert conversation.slice() == [kept]
    with pytest.raises(NotFound):
        conversation.get(odd.id)


# --- views ----------------------------------------------------------------------------------------------------------


def test_a_view_shows_the_head_it_was_made_at(conversation: Conversation) -> None:
    message = conversation.add("Alice", ["old", IMAGE], metadata={"k": 1}, at=7)
    view = conversation.view()
    conversation.edit(message.id, "new")
    conversation.branch.rewind(0)
    conversation.add("User", "another history")
    seen = view.message(1)
    assert (seen.id, seen.seq, seen.participant, seen.role, seen.time) == (message.id, 1, "Alice", "user", 7)
    assert (seen.tokens, seen.text_tokens, seen.edited, seen.metadata) == (1001, 1, None, {"k": 1})
    assert isinstance(seen.blocks[1], Media)
    assert isinstance(seen.blocks[1].source["blob"], BlobRef)
    assert conversation.view().message(1).blocks == [Text("another history")]
    assert conversation.store.event(view.head.key.hex()).seq == view.seq == 1
    assert view.state("context/messages") == view.index
    assert view.count("a b c") == 3


def test_a_view_has_no_message_where_none_stands(conversation: Conversation) -> None:
    empty = conversation.view()
    with pytest.raises(NotFound, match="no message stands at sequence 1"):
        empty.message(1)
    message = conversation.add("User", "a")
    conversation.remove(message.id)
    with pytest.raises(NotFound):
        conversation.view().message(1)
    assert conversation.view(at=1).message(1).id == message.id


def test_a_view_reads_a_summary(conversation: Conversation) -> None:
    blob = conversation.store.put_blob(b"what was said", "text/plain")
    summary = SummaryPayload(
        key="k",
        level=1,
        text=BlobRef(blob),
        tokens=3,
        sources=(),
        source_seqs=(),
        first="",
        last="",
        first_seq=1,
        last_seq=1,
    )
    assert conversation.view().text(summary) == "what was said"
    assert conversation.view().text(summary) == "what was said"


def test_a_later_view_takes_over_what_was_read(conversation: Conversation) -> None:
    messages = [conversation.add("User", str(n)) for n in range(40)]
    first = conversation.view()
    before = [first.message(message.seq) for message in messages]
    conversation.edit(messages[5].id, "edited")
    conversation.remove_range(messages[7].id, messages[9].id)
    conversation.add("User", "new")
    view = conversation.view()
    assert view is conversation.view()
    assert all(view.message(m.seq) is before[n] for n, m in enumerate(messages) if n not in (5, 7, 8, 9))
    assert view.message(messages[5].seq).blocks == [Text("edited")]
    with pytest.raises(NotFound):
        view.message(messages[8].seq)
    assert first.message(messages[5].seq) is before[5]
    fork = conversation.on(conversation.branch.fork("fork", at=20))
    fork.add("User", "on the fork")
    assert fork.view().message(3) is before[2]
    assert fork.view().message(6).blocks == [Text("5")]
    assert fork.view().message(21).blocks == [Text("on the fork")]


def test_threads_may_share_a_conversation(conversation: Conversation) -> None:
    messages = [conversation.add("User", str(n)) for n in range(100)]

    def read(_: int) -> None:
        for _ in range(20):
            view = conversation.view()
            assert view.index.entries[-1].seq <= view.seq
            assert [view.message(message.seq).id for message in messages] == [message.id for message in messages]
            assert len(conversation.tail(5)) == 5

    def write(_: int) -> None:
        for n in range(20):
            conversation.edit(messages[n].id, "edited")
            conversation.add("Claude", "x")

    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(job, 0) for job in (read, write, read, write)]
        for job in jobs:
            job.result()
    assert len(conversation) == 140
    assert conversation.index().edited == 40


# --- against a model ------------------------------------------------------------------------------------------------

_content = st.sampled_from(["a", "b c", ["x", IMAGE], [CALL], [ANSWER], [{"type": "odd"}]])
_programs = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from(["User", "Claude", "System"]), _content),
        st.tuples(st.just("edit"), st.integers(0, 99), _content),
        st.tuples(st.just("remove"), st.integers(0, 99), st.integers(0, 4)),
        st.tuples(st.just("note"), st.integers(1, 80)),
        st.tuples(st.just("fork"), st.integers(0, 99)),
        st.tuples(st.just("switch"), st.integers(0, 9)),
        st.tuples(st.just("rewind"), st.integers(0, 99)),
        st.tuples(st.just("reopen")),
    ),
    max_size=30,
)

Model = list[Message]


@given(program=_programs)
def test_conversations_are_lists_of_messages(program: list[Any], tmp_path_factory: pytest.TempPathFactory) -> None:
    """Every branch holds what a list per branch holds, at its head and at every sequence, in every kind of read."""
    clock, entropy = Clock(), Entropy()
    path = tmp_path_factory.mktemp("model") / "store"

    def connect() -> Conversation:
        store = chronicle.open(path, durability="relaxed", clock=clock, entropy=entropy)
        return Conversation(store, tokenizer=words)

    conversation = connect()
    histories: dict[str, list[Model]] = {"main": [[]]}  # branch -> the messages at each sequence
    name = "main"
    for step in program:
        here = conversation.on(name)
        history = histories[name]
        model = history[-1]
        match step:
            case ("add", participant, content):
                history.append([*model, here.add(participant, content)])
            case ("edit", n, content) if model:
                at = n % len(model)
                history.append([*model[:at], here.edit(model[at].id, content), *model[at + 1 :]])
            case ("remove", n, width) if model:
                first = n % len(model)
                last = min(first + width, len(model) - 1)
                assert here.remove_range(model[first].id, model[last].id) == last - first + 1
                history.append(model[:first] + model[last + 1 :])
            case ("note", count):
                for _ in range(count):
                    here.branch.append("note", {})
                    history.append(model)
            case ("fork", n):
                at = n % len(history)
                new = f"b{len(histories)}"
                here.branch.fork(new, at=at)
                histories[new] = history[: at + 1]
                name = new
            case ("switch", n):
                name = sorted(histories)[n % len(histories)]
            case ("rewind", n):
                at = n % len(history)
                here.branch.rewind(at)
                del history[at + 1 :]
            case ("reopen",):
                conversation.store.close()
                conversation = connect()
        _check(conversation.on(name), histories[name][-1])
    for name, history in histories.items():
        here = conversation.on(name)
        _check(here, history[-1])
        for seq in range(0, len(history), 7):
            rows = [(row.seq, row.tokens, row.participant) for row in here.index(at=seq).entries]
            assert rows == [(m.seq, m.tokens, m.participant) for m in history[seq]]
            view = here.view(at=seq)
            assert [view.message(m.seq).edited for m in history[seq]] == [m.edited for m in history[seq]]
            assert [here.get(m.id, at=seq) for m in history[seq][-2:]] == history[seq][-2:]
    conversation.store.close()


def _check(here: Conversation, model: Model) -> None:
    assert here.slice() == model
    assert len(here) == len(model)
    assert here.tail(2) == model[-2:]
    view = here.view()
    for message in model:
        seen = view.message(message.seq)
        assert (seen.id, seen.edited, seen.tokens) == (message.id, message.edited, message.tokens)
    spoken = [message for message in model if message.participant == "Claude"]
    assert here.query(participant="Claude", limit=3, reverse=True) == (spoken[::-1][:3], len(spoken))
    assert list(here.index().system) == [message.seq for message in model if message.role == "system"]
