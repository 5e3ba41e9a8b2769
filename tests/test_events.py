"""Events: ids computed anew from the design's words, payloads that come back, types, references."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from blake3 import blake3
from conftest import Clock, Entropy, Opener
from hypothesis import given
from hypothesis import strategies as st

import chronicle_py as chronicle
from chronicle_py import BlobRef, Branch, Event, InvalidName, InvalidOperation, NotFound, Store, reducer
from chronicle_py.event import decode_event, decode_payload, encode_payload, event_id
from chronicle_py.kv import EVENTS

pack = msgspec.msgpack.Encoder().encode


def stored_events(store: Store) -> list[bytes]:
    with store._engine.kv.read() as reader:
        return [value for _, value in reader.scan(EVENTS, b"")]


def expected_id(stored: bytes) -> bytes:
    """BLAKE3(1 ‖ header ‖ BLAKE3(2 ‖ salt ‖ payload)), from the stored array [id, *header, salt, payload]."""
    _, *header, salt, payload = msgspec.msgpack.decode(stored, type=list[msgspec.Raw])
    inner = blake3(b"\x02" + msgspec.msgpack.decode(salt) + bytes(payload)).digest()
    return blake3(b"\x01" + b"\x97" + b"".join(map(bytes, header)) + inner).digest()


def test_an_id_is_the_salted_two_level_hash(store: Store, main: Branch) -> None:
    store.register_state("log", kind="append_log")
    blob = store.put_blob(b"x")
    first = main.append("note", {"b": 1, "a": [None, True, 1.5, "é", b"\xff"]})
    second = main.state("log").append(BlobRef(blob), caused_by=[first], linked_to=[first.id, first])
    third = main.append("note", "")
    stored = stored_events(store)
    assert [expected_id(s).hex() for s in stored] == [first.id, second.id, third.id]
    fields = msgspec.msgpack.decode(stored[1])
    assert fields == [
        bytes.fromhex(second.id), "state.append", second.time, bytes.fromhex(first.id), 2, "log", 0,
        [bytes.fromhex(blob), bytes.fromhex(first.id), bytes.fromhex(first.id)], second.salt,
        msgspec.msgpack.Ext(1, bytes.fromhex(blob)),
    ]  # fmt: skip
    assert (second.caused_by, second.linked_to, second.blobs) == ((first.id,), (first.id,), (blob,))
    assert (first.parents, third.parents) == ((), (second.id,))


def test_the_clock_and_the_entropy_are_the_stores(opener: Opener, tmp_path: Any) -> None:
    ids = []
    for name in "ab":
        with opener(tmp_path / name, clock=Clock(5), entropy=Entropy()) as store:
            first = store.branch().append("note", 1)
            store.branch().fork("fork").append("note", 2)
            ids.append([e.id for e in store.branch("fork").events()])
            assert first.time == 7
    assert ids[0] == ids[1]
    with opener(tmp_path / "c", clock=Clock(5), entropy=None) as store:
        assert store.branch().append("note", 1).id != ids[0][0]


@pytest.mark.parametrize("field", range(1, 10))
def test_changing_any_field_changes_the_id(store: Store, main: Branch, field: int) -> None:
    store.register_state("log", kind="append_log")
    cause = main.append("note", 0)
    main.state("log").append("payload", caused_by=[cause])
    parts = msgspec.msgpack.decode(stored_events(store)[1], type=list[msgspec.Raw])
    others: list[Any] = [None, "other", 1, b"\0" * 32, 3, "slot", 9, None, b"\1" * 16, "another"]
    parts[field] = msgspec.Raw(pack(others[field]))
    changed = pack(parts)
    assert event_id(changed, decode_event(changed)) != decode_event(changed).key


def test_equal_payloads_have_different_ids(main: Branch) -> None:
    """The salt keeps a short payload from being guessed."""
    assert len({main.append("note", "yes").id for _ in range(20)} | {main.fork("f").append("note", "yes").id}) == 21


# --- payloads ---------------------------------------------------------------------------------------------------------

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.builds(msgspec.msgpack.Ext, st.integers(5, 127) | st.just(0) | st.integers(-128, -2), st.binary())
    | st.datetimes(
        min_value=datetime.datetime(1970, 1, 1),
        max_value=datetime.datetime(2200, 1, 1),
        timezones=st.just(datetime.UTC),
    ),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text() | st.integers(0, 9) | st.binary(), inner, max_size=4)
    ),
    max_leaves=10,
)


@given(payload=plain)
def test_what_was_put_in_comes_back(payload: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "payloads"
    with chronicle.open(path, durability="relaxed") as store:
        event = store.branch().append("note", payload)
        found = store.event(event.id)
        assert found.payload == event.payload == payload
        assert bytes(found.raw) == bytes(event.raw) == pack(payload)
        assert pack(found.payload) == pack(payload)


def test_payloads_may_be_structs_dates_tuples_and_sets(main: Branch) -> None:
    class Point(msgspec.Struct, tag="point"):
        x: int
        y: int = 0

    moment = datetime.datetime(2024, 5, 6, 7, 8, 9, 123456, tzinfo=datetime.UTC)
    assert main.append("note", Point(3)).payload == {"type": "point", "x": 3, "y": 0}
    assert main.append("note", (1, moment, {7})).payload == [1, moment, [7]]
    assert main.append("note", float("inf")).payload == float("inf")


@pytest.mark.parametrize(
    "payload",
    [2**64, -(2**63) - 1, object(), 1j, print, {"a": [object()]}, "\ud800", {(1, 2): 3}, msgspec.msgpack.Ext(2, b"x")],
    ids=lambda p: repr(p)[:20],
)
def test_what_messagepack_does_not_hold_is_refused(main: Branch, payload: Any) -> None:
    if isinstance(payload, dict) and (1, 2) in payload:
        assert main.append("note", {"ok": 1}).payload == {"ok": 1}  # tuples as keys are for msgspec to say
        return
    with pytest.raises(InvalidOperation, match="this payload has no MessagePack form"):
        main.append("note", payload)
    assert main.seq == 0


def test_a_payload_that_refers_to_itself_is_refused(main: Branch) -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(InvalidOperation, match="no MessagePack form"):
        main.append("note", loop)


@pytest.mark.parametrize("type", ["", "state.append", "state.", " a", "a\n", "x" * 256, "\ud800", None, 3])
def test_types_that_are_refused(main: Branch, type: Any) -> None:
    with pytest.raises(InvalidName, match="event type"):
        main.append(type, 1)


def test_types_are_any_other_name(main: Branch) -> None:
    names = ["x" * 255, "тип", "a/b", "a b", "States", "state"]
    for name in names:
        main.append(name, 1)
    assert [e.type for e in main.events()] == names
    assert [e.seq for e in main.events(types=["a b", "тип"])] == [2, 4]


# --- types with a Struct ----------------------------------------------------------------------------------------------


class Part(msgspec.Struct):
    text: str


class Message(msgspec.Struct):
    role: str
    parts: list[Part] = []


def test_a_registered_type_is_checked_when_appended_and_a_struct_when_read(store: Store, main: Branch) -> None:
    store.register_event("message", Message, version=2)
    event = main.append("message", {"role": "user", "parts": [{"text": "hi"}], "unknown": 1})
    main.append("message", Message("user"))
    assert event.payload == Message("user", [Part("hi")])
    assert store.event(event.id).payload == next(main.events()).payload == main.event(1).payload == event.payload
    assert [e.schema for e in main.events()] == [2, 2]
    with pytest.raises(
        InvalidOperation, match=r"this payload is no Message, .*Expected `str`, got `int` - at `\$.parts"
    ):
        main.append("message", {"role": "user", "parts": [{"text": "a"}, {"text": 5}]})
    with pytest.raises(InvalidOperation, match="missing required field `role`"):
        main.append("message", {})
    assert main.seq == 2


def test_older_versions_pass_through_the_upcasters(opener: Opener) -> None:
    store = opener()
    store.branch().append("message", "plain, before the type was registered")
    store.register_event("message", str, version=1)
    store.branch().append("message", "first")
    store.close()
    store = opener()
    upcast: dict[int, Callable[[Any], Any]] = {
        0: lambda old: f"({old})", 1: lambda old: {"who": old}, 2: lambda old: Message(old["who"]),
    }  # fmt: skip
    store.register_event("message", Message, version=3, upcast=upcast)
    store.branch().append("message", Message("third"))
    payloads = [e.payload for e in store.branch().events()]
    assert payloads == [Message("(plain, before the type was registered)"), Message("first"), Message("third")]
    store.close()
    store = opener()
    store.register_event("message", Message, version=3, upcast={2: upcast[2]})
    plain = [e.payload for e in store.branch().events(stop=2)]
    assert plain == ["plain, before the type was registered", "first"]
    assert [e.schema for e in store.branch().events()] == [0, 1, 3]


def test_a_newer_version_than_registered_stays_plain(opener: Opener) -> None:
    store = opener()
    store.register_event("message", Message, version=5)
    store.branch().append("message", Message("new"))
    store.register_event("message", Message, version=4)
    assert store.branch().event(1).payload == {"role": "new", "parts": []}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("t", Message, 0), "whole number from 1"),
        (("t", Message, True), "whole number from 1"),
        (("t", Message, 2, {2: print}), "a version below 2"),
        (("t", Message, 2, {1: "f"}), "to a function"),
        (("t", Message | Part), "no type that msgspec can decode"),
    ],
)
def test_event_types_that_are_refused(store: Store, arguments: tuple[Any, ...], words: str) -> None:
    with pytest.raises(InvalidOperation, match=words):
        store.register_event(*arguments)
    with pytest.raises(InvalidName):
        store.register_event("state.append", Message)


def test_a_fold_sees_what_its_reducer_declares_and_not_what_the_application_registers(opener: Opener) -> None:
    class Old(msgspec.Struct):
        role: str

    seen: list[Any] = []

    def note(state: int, event: Event) -> int:
        seen.append(event.payload)
        return state + 1

    store = opener()
    store.register_event("message", Message)
    store.register_state(
        "typed", reducer=reducer("typed", initial=int, events={"message": Old})(note), types=["message"]
    )
    store.register_state("plain", reducer=reducer("plain", initial=int)(note), types=["message"])
    main = store.branch()
    main.append("message", {"role": "user"})
    assert (main.state("typed").get(), main.state("plain").get()) == (1, 1)
    assert (type(seen[0]), seen[1]) == (Old, {"role": "user"})
    assert main.event(1).payload == Message("user")
    hashes = main.state("typed").hash, main.state("plain").hash
    store.register_event("message", Part)
    assert main.replay("typed").equal
    assert (main.state("typed").hash, main.state("plain").hash) == hashes
    assert [type(s) for s in seen] == [Old, dict, Old]


def test_a_reducers_upcasters_are_its_own(store: Store, main: Branch) -> None:
    main.append("message", "plain")
    events = {"message": (Message, 1, {0: lambda old: {"role": old}})}
    roles = reducer("roles", initial=list, events=events)(lambda state, event: [*state, event.payload.role])
    store.register_state("roles", reducer=roles, types=["message"])
    assert main.state("roles").get() == ["plain"]
    assert main.event(1).payload == "plain"


# --- references -------------------------------------------------------------------------------------------------------


def test_causes_and_links_are_found_from_both_ends(store: Store, main: Branch) -> None:
    store.register_state("log", kind="append_log")
    a, b = main.append("note", "a"), main.append("note", "b")
    fork = main.fork("fork", 1)
    c = main.append("note", "c", caused_by=[a, b.id])
    d = fork.state("log").append("d", caused_by=(a.id[:12],), linked_to=[b])
    assert store.effects(a) == [c, d]
    assert store.effects(b.id) == [c]
    assert store.links(b) == [d]
    assert (store.links(a), store.effects(d)) == ([], [])
    assert (c.caused_by, d.linked_to) == ((a.id, b.id), (b.id,))
    assert main.append("note", "twice", caused_by=[a, a.id, a.id[:8]]).caused_by == (a.id,)


def test_a_reference_to_nothing_is_refused(store: Store, main: Branch) -> None:
    event = main.append("note", 1)
    with pytest.raises(NotFound, match="no event has an id that starts with"):
        main.append("note", 1, caused_by=["0" * 64])
    with pytest.raises(NotFound, match=r"refers to blob 0{64}, which is not here; put_blob it first"):
        main.append("note", {"deep": [BlobRef("0" * 64)]})
    with pytest.raises(InvalidOperation, match="is a sequence of event ids, not one id"):
        main.append("note", 1, caused_by=event.id)
    with pytest.raises(InvalidOperation, match="6 to 64 hex digits"):
        main.append("note", 1, linked_to=["abc"])
    assert main.seq == 1


def test_references_within_a_transaction(store: Store, main: Branch) -> None:
    with store.transaction():
        cause = main.append("note", 1)
        blob = store.put_blob(b"new")
        effect = main.append("note", BlobRef(blob), caused_by=[cause])
        assert store.effects(cause) == [effect]
    assert store.effects(cause) == [effect]


def test_only_the_extension_is_a_blob_reference(store: Store, main: Branch) -> None:
    blob = store.put_blob(b"x")
    raw = b"\xc7\x20\x01" + bytes.fromhex(blob)
    assert main.append("note", {"hex": blob, "bytes": bytes.fromhex(blob), "mark": raw}).blobs == ()
    assert main.append("note", [BlobRef(blob), {"again": BlobRef(blob)}]).blobs == (blob,)
    with pytest.raises(InvalidOperation, match="64 hex digits"):
        BlobRef("xyz")


def test_a_prefix_finds_one_event_or_says_why_not(store: Store, main: Branch) -> None:
    event = main.append("note", 1)
    assert store.event(event.id[:6]) == store.event(event.id.upper()) == store.event(event.id[:33]) == event
    for bad in (event.id[:5], "", "xyzxyz", event.id + "0", 5, None):
        with pytest.raises(InvalidOperation, match="an event id"):
            store.event(bad)  # type: ignore[arg-type]
    wrong = event.id[:-1] + ("0" if event.id[-1] != "0" else "1")
    with pytest.raises(NotFound):
        store.event(wrong)


def test_an_ambiguous_prefix_is_refused(store: Store, main: Branch) -> None:
    with store.transaction():
        for n in range(20_000):
            main.append("note", n)
    ids = sorted(e.id for e in main.events())
    twins = [(a, b) for a, b in pairwise(ids) if a[:6] == b[:6]]
    assert twins
    first, second = twins[0]
    with pytest.raises(InvalidOperation, match="is the start of several ids"):
        store.event(first[:6])
    assert store.event(first[:20]).id == first
    assert store.event(second[:20]).id == second


def test_events_compare_by_id_and_show_what_they_are(main: Branch) -> None:
    event = main.append("note", 1)
    assert event == main.event(1) == next(main.events())
    assert len({event, main.event(1)}) == 1
    assert repr(event) == f"<Event 1 {event.id[:12]} 'note'>"
    assert event != 1
    with pytest.raises(AttributeError):
        event.type = "other"  # type: ignore[misc]


def test_decoding_checks_nothing_and_encoding_everything() -> None:
    assert decode_payload(encode_payload({"a": (1, 2)})) == {"a": [1, 2]}
    assert encode_payload({"b": 1, "a": 2}) == b"\x82\xa1b\x01\xa1a\x02"
