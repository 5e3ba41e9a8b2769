"""The index behind the messages slot, against a model in plain Python."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronicle_py.context.message_index import MessageIndex, MessageIndexState, Row, _first_from, external_of
from chronicle_py.context.payloads import EDIT, MESSAGE, REMOVE, EditPayload, MessagePayload, RemovePayload
from chronicle_py.context.postings import Postings, name_key
from chronicle_py.event import Event

INDEX = MessageIndex()


def event(seq: int, type: str, payload: Any) -> Event:
    return Event(b"k", type, 0, b"", seq, None, 1, None, b"", msgspec.Raw(msgspec.msgpack.encode(payload)))


def message(seq: int, participant: str = "User", tokens: int = 10, role: str = "user", **metadata: Any) -> Event:
    payload = MessagePayload(
        participant, role, tokens, tokens, blocks=[{"type": "text", "text": "x"}], tokenizer="t", metadata=metadata
    )
    return event(seq, MESSAGE, payload)


def edit(seq: int, target: int, tokens: int = 20) -> Event:
    return event(seq, EDIT, EditPayload("User", "user", tokens, tokens, id="x", seq=target, blocks=[], tokenizer="t"))


def remove(seq: int, first: int, last: int) -> Event:
    return event(seq, REMOVE, RemovePayload("x", first, "y", last))


def folded(*events: Event) -> MessageIndexState:
    state = INDEX.initial()
    for each in events:
        state = INDEX.fold(state, each)
    return state


def test_an_empty_index_has_nothing() -> None:
    state = folded()
    assert state.tokens == 0
    assert state.position(1) is None
    assert state.row(0) is None
    assert list(state.externals("a", "b")) == []
    assert state.participants.names() == {}


def test_a_message_is_found_by_its_sequence() -> None:
    state = folded(message(3), message(7, "Claude", role="assistant"), message(20))
    assert [state.position(seq) for seq in (3, 7, 20)] == [0, 1, 2]
    assert [state.position(seq) for seq in (0, 1, 5, 21, -4, 1 << 62)] == [None] * 6
    assert state.row(7) == Row(7, 0, 10, "Claude", "assistant")
    assert [state.first_from(seq) for seq in (0, 3, 4, 8, 20, 21)] == [0, 0, 1, 2, 2, 3]
    assert state.tokens == 30


def test_an_edit_changes_tokens_and_says_where_it_lies() -> None:
    state = folded(message(1), message(2), edit(3, 1, tokens=50))
    assert state.row(1) == Row(1, 3, 50, "User", "user")
    assert state.tokens == 60
    assert state.edited == 1


def test_a_removed_range_is_in_no_index() -> None:
    state = folded(
        message(1, "A", external={"source": "s", "id": "1"}),
        message(2, "B", external={"source": "s", "id": "2"}),
        message(3, "System", role="system"),
        message(4, "A", external={"source": "s", "id": "4"}),
        remove(5, 2, 3),
    )
    assert [row.seq for row in state.entries] == [1, 4]
    assert state.participants.names() == {"A": 2}
    assert list(state.sources.sequences("s")) == [1, 4]
    assert list(state.externals("s", "2")) == []
    assert list(state.system) == []
    assert state.removed == 2
    assert state.tokens == 20


@pytest.mark.parametrize(
    "late",
    [
        edit(9, 2),
        edit(9, 5),
        edit(9, -1),
        remove(9, 2, 2),
        remove(9, 4, 3),
        remove(9, 10, 90),
        event(9, MESSAGE, {"text": "another application's"}),
        event(9, MESSAGE, ["?"]),
        event(9, EDIT, 5),
        event(9, REMOVE, None),
        event(9, "summary", {}),
    ],
)
def test_what_does_not_apply_changes_nothing(late: Event) -> None:
    state = folded(message(1), message(2), message(3), remove(4, 2, 2))
    assert INDEX.fold(state, late) == state


def test_one_external_id_may_name_several_messages() -> None:
    external = {"source": "discord", "id": 77}
    state = folded(message(1, external=external), message(2), message(3, external=external))
    assert list(state.externals("discord", 77)) == [1, 3]
    assert list(state.externals("discord", "77")) == [1, 3]
    state = INDEX.fold(state, remove(4, 1, 1))
    assert list(state.externals("discord", 77)) == [3]


@pytest.mark.parametrize(
    "external", ["s", 5, {}, {"source": "s"}, {"id": 5}, {"source": 5, "id": 5}, {"source": "s", "id": True}, []]
)
def test_an_external_of_another_shape_is_in_no_index(external: Any) -> None:
    state = folded(message(1, external=external))
    assert external_of(external) is None
    assert state.sources.names() == {}
    assert state.tokens == 10


@pytest.mark.parametrize(("source", "id"), [("a\0b", "c"), ("a", "b\0c"), ("s" * 300, "x"), ("ü" * 120, "i" * 500)])
def test_long_and_strange_external_ids_are_kept_apart(source: str, id: str) -> None:
    state = folded(message(1, external={"source": source, "id": id}), message(2, external={"source": "a", "id": "b"}))
    assert list(state.externals(source, id)) == [1]
    assert list(state.externals("a", "b")) == [2]
    assert next(state.sources.sequences(source)) == 1
    assert [row.seq for row in INDEX.fold(state, remove(3, 1, 1)).entries] == [2]


def test_name_keys_never_meet() -> None:
    keys = [name_key("a\0b", "c"), name_key("a", "b\0c"), name_key("a", "b", "c"), name_key("a"), name_key("", "a")]
    assert len(set(keys)) == 5


def test_system_messages_are_listed_with_their_tokens() -> None:
    state = folded(message(1, "System", 7, "system"), message(2), message(3, "System", 5, "system"), edit(4, 1, 100))
    assert list(state.system) == [1, 3]
    assert state.system.weight() == 105


def test_the_first_two_users_who_say_something_are_its_speakers() -> None:
    assert folded(message(1, "Claude", role="assistant"), message(2, "System", role="system")).speakers == ()
    assert folded(message(1), message(2, "Context Manager"), message(3)).speakers == ("User",)
    several = folded(message(1), message(2, "Bob"), message(3, "Alice"))
    assert several.speakers == ("User", "Bob")
    assert INDEX.fold(several, remove(4, 1, 3)).speakers == ("User", "Bob")
    answer = event(2, MESSAGE, MessagePayload("tool", "user", 1, 1, (), ("t",), True, blocks=[], tokenizer="t"))
    state = folded(message(1), answer)
    assert state.speakers == ("User",)
    assert INDEX.fold(state, edit(3, 2)).speakers == ("User", "tool")


def test_weights_find_the_message_at_a_token() -> None:
    state = folded(*[message(seq, tokens=seq) for seq in range(1, 11)])
    assert state.entries.find(0) == 0
    assert state.entries.find(1) == 1
    assert state.entries.weight(4) == 10


# --- against a model ------------------------------------------------------------------------------------------------

_NAMES = ["User", "Claude", "Alice", "System"]
_steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from(_NAMES), st.integers(0, 50), st.sampled_from([None, "d", "e"])),
        st.tuples(st.just("edit"), st.integers(0, 400), st.integers(0, 50)),
        st.tuples(st.just("remove"), st.integers(0, 400), st.integers(0, 6)),
        st.tuples(st.just("skip"), st.integers(1, 90)),
    ),
    max_size=60,
)


@given(_steps)
def test_the_index_is_what_a_list_of_messages_says(steps: list[Any]) -> None:
    state, model = INDEX.initial(), dict[int, dict[str, Any]]()
    seq = 0
    for step in steps:
        seq += step[1] if step[0] == "skip" else 1
        if step[0] == "add":
            _, name, tokens, source = step
            role = "system" if name == "System" else "user"
            external = {} if source is None else {"external": {"source": source, "id": seq % 3}}
            state = INDEX.fold(state, message(seq, name, tokens, role, **external))
            model[seq] = {"name": name, "tokens": tokens, "source": source, "id": str(seq % 3), "edit": 0}
        elif step[0] == "edit":
            target = step[1]
            state = INDEX.fold(state, edit(seq, target, step[2]))
            if target in model:
                model[target] |= {"tokens": step[2], "edit": seq}
        elif step[0] == "remove":
            first, last = step[1], step[1] + step[2]
            state = INDEX.fold(state, remove(seq, first, last))
            for gone in [s for s in model if first <= s <= last]:
                del model[gone]
    assert [(row.seq, row.edit, row.tokens, row.participant) for row in state.entries] == [
        (s, m["edit"], m["tokens"], m["name"]) for s, m in model.items()
    ]
    assert state.tokens == sum(m["tokens"] for m in model.values())
    standing = list(model)
    for probe in range(-1, seq + 2):
        assert state.position(probe) == (standing.index(probe) if probe in model else None)
    for name in _NAMES:
        mine = [s for s, m in model.items() if m["name"] == name]
        assert state.participants.count(name) == len(mine)
        assert list(state.participants.sequences(name)) == mine
        assert list(state.participants.sequences(name, reverse=True)) == mine[::-1]
    assert state.participants.names() == {
        name: n for name in sorted(_NAMES) if (n := sum(m["name"] == name for m in model.values()))
    }
    for source in ("d", "e"):
        for id in ("0", "1", "2"):
            assert list(state.externals(source, id)) == [
                s for s, m in model.items() if (m["source"], m["id"]) == (source, id)
            ]
    assert list(state.system) == [s for s, m in model.items() if m["name"] == "System"]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 200)), max_size=60), st.sets(st.integers(0, 70)))
def test_postings_are_sets_of_sequences(steps: list[tuple[str, int]], gone: set[int]) -> None:
    postings, model, seq = Postings(), list[tuple[str, int]](), 0
    for name, gap in steps:
        seq += gap
        postings = postings.add(name, seq)
        model.append((name, seq))
    for index in sorted(gone, reverse=True):
        if index < len(model):
            name, at = model.pop(index)
            postings = postings.remove(name, at).remove(name, at)
    for name in "abc":
        assert list(postings.sequences(name)) == [at for other, at in model if other == name]
        assert postings.count(name) == sum(other == name for other, _ in model)


@given(st.lists(st.sampled_from([1, 2, 60, 5000, 10**9]), min_size=1, max_size=300), st.data())
def test_a_position_is_found_in_few_probes(gaps: list[int], data: st.DataObject) -> None:
    """However unevenly the sequences lie: at most twice as many probes as halving takes."""
    sequences, seq = [], 0
    for gap in gaps:
        seq += gap
        sequences.append(seq)

    entries = _Counting(sequences)
    wanted = data.draw(st.sampled_from(sequences))
    assert _first_from(entries, wanted) == sequences.index(wanted)  # type: ignore[arg-type]
    assert entries.probes <= 2 * len(sequences).bit_length() + 2


class _Counting:
    """Rows at these sequences, which count how often they are looked at."""

    def __init__(self, sequences: list[int]) -> None:
        self.sequences = sequences
        self.probes = 0

    def __len__(self) -> int:
        return len(self.sequences)

    def __getitem__(self, index: int) -> Row:
        self.probes += 1
        return Row(self.sequences[index], 0, 1, "User", "user")
