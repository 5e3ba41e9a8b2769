"""Bad input of any kind, into every public call: a ChronicleError that says what is wrong, and a store as it was.

`CALLS` has the calls, each with good arguments. A table says what a call with one particular wrong argument must
answer; a sweep puts every piece of `GARBAGE` into every place; and hypothesis combines them.
"""

from __future__ import annotations

import datetime
import decimal
import fractions
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from conftest import Opener
from hypothesis import given, settings
from hypothesis import strategies as st
from public_calls import CALLS, Call, Point, Sum, furnish, summing

import chronicle_py as chronicle
from chronicle_py import (
    BlobRef,
    Branch,
    BranchExists,
    ChronicleError,
    Conflict,
    InvalidName,
    InvalidOperation,
    ItemIndexError,
    NotFound,
    PathKeyError,
    ReadOnly,
    ReducerFailed,
    StateExists,
    StateNotRegistered,
    Store,
)


@pytest.fixture
def furnished(store: Store) -> Store:
    furnish(store)
    return store


def figures(store: Store) -> tuple[Any, ...]:
    """What must not change when a call is refused."""
    return store.branches(), store.slots(), {n: size["entries"] for n, size in store.stats().keyspaces.items()}


class Opaque:
    """Something that is nothing to a store."""


class Unspeakable:
    """Something that cannot even be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no words")


class Ambiguous:
    """Something without a truth value, as arrays of numbers are."""

    def __bool__(self) -> bool:
        raise ValueError("the truth value of this is ambiguous")


def nested(levels: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(levels):
        found = [found]
    return found


def endless() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


class Broken:
    """A reducer whose parts are wrong."""

    def __init__(self, **parts: Any) -> None:
        self.name: Any = "broken"
        self.version: Any = 1
        self.__dict__.update(parts)

    def initial(self) -> Any:
        return 0

    def fold(self, state: Any, event: Any) -> Any:
        return state


def failing_initial() -> Any:
    raise RuntimeError("no beginning")


def itself(value: Any) -> Any:
    return value


PIECES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    61,
    10**6,
    2**31,
    2**63 - 1,
    2**63,
    2**64,
    -(2**63) - 1,
    10**400,
    1.5,
    0.0,
    -0.0,
    float("nan"),
    float("inf"),
    1j,
    "",
    " ",
    "a",
    " a",
    "a ",
    "a\0b",
    "a\nb",
    "\x7f",
    "\ud800",
    "a/\udfff",
    "x" * 255,
    "x" * 256,
    "é" * 128,
    "x" * 100_000,
    "main",
    "side",
    "-flag",
    "../up",
    "/top",
    "a//b",
    ".",
    "a/./b",
    "state.set",
    "abcde",
    "abcdef",
    "ab" * 32,
    "AB" * 32,
    "zz" * 32,
    "ab" * 33,
    "ab " * 32,
    "٣" * 64,
    b"",
    b"x",
    b"\xff" * 32,
    bytearray(b"x"),
    memoryview(b"abcdef")[::2],
    (),
    [],
    [1],
    [None],
    ["note"],
    ["ab" * 32],
    [[]],
    {},
    {"a": 1},
    {1: 2},
    {None: 1},
    {(1, 2): 3},
    {"a": Opaque()},
    {"\ud800": 1},
    set(),
    {1},
    frozenset({"a"}),
    range(3),
    slice(None),
    slice("a", None),
    slice(None, None, 0),
    slice(2**70),
    object,
    int,
    Opaque(),
    Unspeakable(),
    Ambiguous(),
    10**5000,
    len,
    Ellipsis,
    NotImplemented,
    ValueError("x"),
    datetime.datetime(1, 1, 1),
    datetime.timedelta(days=10**8),
    decimal.Decimal("NaN"),
    fractions.Fraction(1, 3),
    uuid.UUID(int=0),
    Path("path"),
    BlobRef("ab" * 32),
    Point(1),
    Point,
    msgspec.UNSET,
    msgspec.Raw(b"\xc1"),
    msgspec.Raw(b""),
    msgspec.Raw(b"\x01\x02"),
    msgspec.Raw(b"\xa1\xff"),
    msgspec.msgpack.Ext(1, b"short"),
    msgspec.msgpack.Ext(-1, b"xxx"),
    msgspec.msgpack.Ext(2, b""),
    [("put",)],
    [("put", "a", 1, 2)],
    [("remove", "absent")],
    [("move", "a")],
    [5],
    ["put"],
    ["list", "key"],
    ["absent", 0],
    [True],
    ["list", 2**70],
    Broken(name=""),
    Broken(name=5),
    Broken(name="\ud800"),
    Broken(version="1"),
    Broken(version=2**70),
    Broken(version=-1),
    Broken(version=True),
    Broken(initial=failing_initial),
    Broken(events=5),
    Broken(events={"a": 5}),
    Broken(events={5: Point}),
    Broken(fingerprint=5),
    Broken(state_type=5),
    Broken(initial=Opaque),
    Broken(fold=None),
)
GARBAGE: list[Callable[[], Any]] = [
    *(partial(itself, piece) for piece in PIECES),
    lambda: nested(100),
    lambda: nested(5000),
    endless,
    lambda: iter(()),
    lambda: (i for i in range(3)),
    lambda: iter(["ab" * 32]),
]


def attempt(store: Store, call: Call, arguments: tuple[Any, ...], before: tuple[Any, ...]) -> tuple[Any, ...]:
    """Makes a call; a refusal is a ChronicleError with a message, and changes nothing. Returns the figures after."""
    refusal: ChronicleError | None = None
    try:
        call.make(store, *arguments)
    except ChronicleError as error:
        refusal = error
    after = figures(store)
    if refusal is not None:
        assert 20 <= len(str(refusal)) <= 2000
        assert "object has no attribute" not in str(refusal)
        assert after == before, refusal
    return after


@pytest.mark.parametrize("name", CALLS)
def test_no_garbage_in_any_place_gets_anything_but_a_chronicle_error(furnished: Store, name: str) -> None:
    call = CALLS[name]
    before = figures(furnished)
    for place in range(len(call.good)):
        for garbage in GARBAGE:
            if call.names.split()[place] == "progress" and callable(garbage()):
                continue  # what a function raises is its caller's
            arguments = (*call.good[:place], garbage(), *call.good[place + 1 :])
            before = attempt(furnished, call, arguments, before)
    report = furnished.verify(deep=True)
    assert report.ok, report.problems


@pytest.mark.parametrize("name", CALLS)
def test_the_good_arguments_are_good(furnished: Store, name: str) -> None:
    call = CALLS[name]
    assert len(call.names.split()) == len(call.good)
    if call.good == ("ab" * 32,) and name != "BlobRef":
        with pytest.raises(NotFound, match="abababab"):  # a well-formed id
            call.make(furnished, *call.good)
    else:
        call.make(furnished, *call.good)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=20)
    | st.text("abc/.-_ \0\ud800", max_size=6)
    | st.binary(max_size=40),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=3)
    ),
    max_leaves=6,
)


def argument(data: st.DataObject, good: Any) -> Any:
    kind = data.draw(st.sampled_from(["good", "garbage", "value"]))
    if kind == "good":
        return good
    return data.draw(VALUES) if kind == "value" else GARBAGE[data.draw(st.integers(0, len(GARBAGE) - 1))]()


@given(data=st.data())
def test_combinations_of_anything(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("sweep") / "store"
    with chronicle.open(path, durability="relaxed") as store:
        furnish(store)
        before = figures(store)
        for _ in range(8):
            call = CALLS[data.draw(st.sampled_from(sorted(CALLS)))]
            arguments = tuple(argument(data, good) for good in call.good)
            if "progress" in call.names and callable(arguments[-1]):
                continue
            before = attempt(store, call, arguments, before)
        assert store.verify(deep=True).ok


# --- what exactly is answered -----------------------------------------------------------------------------------------

Case = tuple[str, dict[str, Any], type[ChronicleError], str]

CASES: list[Case] = [
    ("append", {"type": 5}, InvalidName, r"an event type is a str, not 5"),
    ("append", {"type": ""}, InvalidName, r"an event type may not be empty"),
    ("append", {"type": "a\nb"}, InvalidName, r"no control characters .*'a\\nb'"),
    ("append", {"type": "x" * 256}, InvalidName, r"at most 255 bytes of UTF-8, this one has 256"),
    ("append", {"type": "\ud800"}, InvalidName, r"lone surrogates"),
    ("append", {"type": "state.append"}, InvalidName, r"the engine's own, .* branch\.state\(slot\)\.append"),
    ("append", {"payload": Opaque()}, InvalidOperation, r"no MessagePack form: .*Opaque.*A payload may hold"),
    ("append", {"payload": 2**64}, InvalidOperation, r"no MessagePack form: .*64-bit integers"),
    ("append", {"payload": "\ud800"}, InvalidOperation, r"no MessagePack form: .*surrogates"),
    ("append", {"payload": nested(5000)}, InvalidOperation, r"no MessagePack form: .*recursion"),
    ("append", {"payload": BlobRef("ab" * 32)}, NotFound, r"blob abab\w+, which is not here; put_blob it first"),
    ("append", {"slot": "absent"}, StateNotRegistered, r"no slot 'absent' .*\(registered: .*tree.*\); call .*register"),
    ("append", {"slot": "tree"}, InvalidOperation, r"slot 'tree' is of kind 'tree' and is changed through"),
    (
        "append",
        {"caused_by": "ab" * 32},
        InvalidOperation,
        r"caused_by is a sequence of event ids, not one id; write \(",
    ),
    ("append", {"caused_by": 5}, InvalidOperation, r"caused_by is a sequence of event ids, not 5"),
    ("append", {"linked_to": [5]}, InvalidOperation, r"an event id is a str of hex digits, not 5"),
    ("append", {"linked_to": ["abc"]}, InvalidOperation, r"6 to 64 hex digits, not 'abc'"),
    ("append", {"linked_to": ["ab" * 32]}, NotFound, r"no event has an id that starts with 'abab"),
    ("append", {"expect": 5}, InvalidOperation, r"expect is the id of the event that must be the head, or 0, not 5"),
    ("append", {"expect": False}, InvalidOperation, r"or 0, not False"),
    (
        "append",
        {"expect": 0},
        Conflict,
        r"branch 'main': the head was expected to be none and is \w{12} at sequence 63",
    ),
    ("append", {"expect": "ab" * 32}, Conflict, r"expected to be abababababab and is \w{12} at sequence 63\. Read"),
    ("append typed", {"payload": {"x": "one"}}, InvalidOperation, r"no Point, .* type 'point': .*`\$\.x`"),
    ("append typed", {"payload": {"y": 1}}, InvalidOperation, r"missing required field `x`"),
    ("events", {"start": -1}, InvalidOperation, r"events\(start=\) takes a whole number from 0, not -1"),
    ("events", {"stop": 1.5}, InvalidOperation, r"events\(stop=\) takes a whole number from 0, not 1\.5"),
    ("events", {"limit": True}, InvalidOperation, r"events\(limit=\) .* not True"),
    ("events", {"types": "note"}, InvalidOperation, r"takes several types, not one str; write \('note',\)"),
    ("events", {"types": 5}, InvalidOperation, r"takes several types, not 5"),
    ("events", {"slot": "absent"}, StateNotRegistered, r"no slot 'absent'"),
    ("event", {"at": 0}, NotFound, r"sequence 0 of branch 'main' is before its first event"),
    ("event", {"at": 64}, NotFound, r"branch 'main' has sequences 0 to 63, there is no 64"),
    ("event", {"at": -1}, NotFound, r"has sequences 0 to 63, there is no -1"),
    ("event", {"at": 1.5}, InvalidOperation, r"is a sequence \(int\) or an event id \(str\), not 1\.5"),
    ("event", {"at": True}, InvalidOperation, r"not True"),
    ("store.event", {"id": "xyz"}, InvalidOperation, r"an event id is 6 to 64 hex digits, not 'xyz'"),
    ("store.event", {"id": 5}, InvalidOperation, r"an event id is a str of hex digits, not 5"),
    ("effects", {"id": "abcdef"}, NotFound, r"no event has an id that starts with 'abcdef'"),
    ("branch", {"name": "absent"}, NotFound, r"there is no branch 'absent'; see store\.branches\(\)"),
    ("branch", {"name": None}, InvalidName, r"a branch name is a str, not None"),
    ("fork", {"name": "side"}, BranchExists, r"there is a branch 'side' already; choose another name or delete"),
    ("fork", {"name": "-x"}, InvalidName, r"does not start with '-'"),
    ("fork", {"at": 64}, NotFound, r"has sequences 0 to 63, there is no 64"),
    ("rewind", {"to": 64}, NotFound, r"there is no 64; to go forward again, give an event id of its reflog"),
    ("rewind", {"to": "ab" * 32}, NotFound, r"no event has an id that starts with"),
    ("orphan", {"name": "main"}, BranchExists, r"there is a branch 'main' already"),
    ("delete_branch", {"name": "main"}, InvalidOperation, r"'main' cannot be deleted; rewind it"),
    ("delete_branch", {"name": "gone"}, NotFound, r"there is no branch 'gone'"),
    ("restore_branch", {"name": "never"}, NotFound, r"no branch 'never' was deleted"),
    ("restore_branch", {"name": "side"}, BranchExists, r"there is a branch 'side' already"),
    ("state", {"slot": "absent"}, StateNotRegistered, r"no slot 'absent'"),
    ("state", {"slot": "a//b"}, InvalidName, r"non-empty components between '/', not 'a//b'"),
    ("state", {"at": 64}, NotFound, r"has sequences 0 to 63"),
    ("diff", {"a": 64}, NotFound, r"has sequences 0 to 63"),
    ("diff", {"b": 1.5}, InvalidOperation, r"is a sequence \(int\) or an event id"),
    ("replay", {"progress": 5}, InvalidOperation, r"replay\(progress=\) is a function of \(done, total\), not 5"),
    ("verify", {"progress": 5}, InvalidOperation, r"progress=\) is a function of \(done, total\), not 5"),
    ("register_state", {"id": 5}, InvalidName, r"a slot id is a str, not 5"),
    ("register_state", {"kind": "list"}, InvalidOperation, r"kind= is one of value, append_log, .*, not 'list'"),
    ("register_state", {"kind": None}, InvalidOperation, r"takes either kind= \(one of .*\) or reducer=, not both"),
    ("register_state", {"reducer": summing}, InvalidOperation, r"either kind= .* or reducer=, not both"),
    (
        "register_state",
        {"id": "tree"},
        StateExists,
        r"slot 'tree' is registered already as kind 'tree', which is not kind",
    ),
    ("register_state", {"types": "note"}, InvalidOperation, r"types= and sources= are sequences of str, not one str"),
    ("register_state", {"types": 5}, InvalidOperation, r"types= is a sequence of str, not 5"),
    ("register_state", {"sources": [5]}, InvalidName, r"a source is a str, not 5"),
    ("register_state", {"initial": Opaque()}, InvalidOperation, r"no MessagePack form"),
    ("register_state log", {"initial": 5}, InvalidOperation, r"the initial value of an append_log is a list, not 5"),
    ("register_state tree", {"initial": []}, InvalidOperation, r"the initial value of a tree is a dict, not \[\]"),
    ("register_state tree", {"initial": {"/a": 1}}, InvalidOperation, r"without a leading '/': '/a'"),
    ("register_state tree", {"types": ["note"]}, InvalidOperation, r"a tree cannot be made of events of other types"),
    ("register_state document", {"initial": {"k" * 300: 1}}, InvalidOperation, r"key of 300 bytes"),
    ("register_state document", {"initial": nested(300)}, InvalidOperation, r"deeper than 200 levels"),
    ("register_state reducer", {"reducer": Opaque()}, InvalidOperation, r"a reducer has name \(str\), version \(int\)"),
    ("register_state reducer", {"reducer": Broken(version="1")}, InvalidOperation, r"version \(int\)"),
    ("register_state reducer", {"reducer": Broken(initial=failing_initial)}, ReducerFailed, r"'broken' .*no beginning"),
    ("register_event", {"struct": 5}, InvalidOperation, r"event type 'new': 5 is no type that msgspec can decode"),
    (
        "register_event",
        {"version": 0},
        InvalidOperation,
        r"the version of event type 'new' must be a whole number from 1",
    ),
    ("register_event", {"upcast": {5: dict}}, InvalidOperation, r"maps a version below 2 to a function, not 5"),
    ("register_event", {"upcast": 5}, InvalidOperation, r"5 is no mapping"),
    ("register_event", {"type": "state.x"}, InvalidName, r"the engine's own"),
    ("namespace", {"prefix": "/a"}, InvalidName, r"a namespace is made of non-empty components"),
    ("put_blob", {"data": "text"}, InvalidOperation, r"a blob is bytes, not str; encode text first"),
    ("put_blob", {"media_type": "é"}, InvalidName, r"a media type is 1 to 255 ASCII characters"),
    ("get_blob", {"hash": "xyz"}, InvalidName, r"the 64 hex digits that put_blob returned, not 'xyz'"),
    ("get_blob", {"hash": "ab" * 32}, NotFound, r"there is no blob abab"),
    ("BlobRef", {"hash": 5}, InvalidOperation, r"the 64 hex digits that put_blob returned, not 5"),
    (
        "log.edit",
        {"index": 60},
        ItemIndexError,
        r"slot 'append_log' of branch 'main' has 60 items, there is no item 60",
    ),
    ("log.edit", {"index": -61}, ItemIndexError, r"there is no item -61"),
    ("log.edit", {"index": "0"}, InvalidOperation, r"an item is named by its index \(int\), not by '0'"),
    ("log.redact", {"start": -1}, InvalidOperation, r"0 <= start <= stop, not -1 and 3"),
    ("log.redact", {"start": 4}, InvalidOperation, r"0 <= start <= stop, not 4 and 3"),
    ("log.redact", {"stop": 2.0}, InvalidOperation, r"two indexes \(int\), not 2\.0"),
    ("log.set", {"items": "abc"}, InvalidOperation, r"set takes the items as a list, not 'abc'"),
    ("log.set", {"items": 5}, InvalidOperation, r"set takes the items as a list, not 5"),
    ("log.tail", {"n": -1}, InvalidOperation, r"a number of items from 0, not -1"),
    ("log[]", {"index": 60}, ItemIndexError, r"has 60 items, there is no item 60"),
    ("log[]", {"index": slice(None, None, 0)}, InvalidOperation, r"slice step cannot be zero"),
    ("log.origin", {"index": 99}, ItemIndexError, r"there is no item 99"),
    ("tree.put", {"path": "/a"}, InvalidOperation, r"a path is relative, without a leading '/': '/a'"),
    ("tree.put", {"path": "a/../b"}, InvalidOperation, r"no empty, '\.' or '\.\.' component and no NUL: 'a/\.\./b'"),
    ("tree.put", {"path": "a\0"}, InvalidOperation, r"no NUL"),
    ("tree.put", {"path": "é" * 129}, InvalidOperation, r"at most 256 bytes of UTF-8, this one has 258"),
    ("tree.put", {"path": 5}, InvalidOperation, r"a path is a non-empty str, not 5"),
    ("tree.put", {"value": Opaque()}, InvalidOperation, r"no MessagePack form"),
    (
        "tree.remove",
        {"path": "a"},
        PathKeyError,
        r"removing 'a': slot 'tree' of branch 'main' has no such path; \.list\(\)",
    ),
    ("tree.batch", {"ops": [("move", "a")]}, InvalidOperation, r'is \("put", path, value\) or \("remove", path\), not'),
    ("tree.batch", {"ops": 5}, InvalidOperation, r"batch takes a list of operations, not 5"),
    ("tree.batch", {"ops": [("remove", "x")]}, PathKeyError, r"removing 'x'"),
    ("tree[]", {"path": "absent"}, PathKeyError, r"slot 'tree' of branch 'main' has no path 'absent'"),
    ("tree.list", {"prefix": 5}, InvalidOperation, r"a prefix of paths is a str, not 5"),
    (
        "document.set",
        {"value": {"a": {1: 2}}},
        InvalidOperation,
        r"document\['a'\] has the key 1; the keys of an object are",
    ),
    ("document.patch", {"patch": {"a": nested(300)}}, InvalidOperation, r"deeper than 200 levels"),
    ("document.append", {"path": ["key"]}, InvalidOperation, r"append to document\['key'\]: .*'value', not an array"),
    ("document.append", {"path": "list"}, InvalidOperation, r"a path is a list of keys and indexes, .* not 'list'"),
    ("document.append", {"path": ["absent"]}, PathKeyError, r"there is no document\['absent'\]"),
    ("document.get", {"path": 5}, InvalidOperation, r"a path is a list of keys and indexes, .* not 5"),
    ("document.get", {"path": ["list", 9]}, PathKeyError, r"there is no document\['list'\]\[9\]"),
]


@pytest.mark.parametrize(
    ("name", "wrong", "error", "message"), CASES, ids=[f"{i}-{c[0]}({','.join(c[1])})" for i, c in enumerate(CASES)]
)
def test_the_answer_says_what_is_wrong(
    furnished: Store, name: str, wrong: dict[str, Any], error: type[ChronicleError], message: str
) -> None:
    call = CALLS[name]
    arguments = [wrong.get(argument, good) for argument, good in zip(call.names.split(), call.good, strict=True)]
    before = figures(furnished)
    with pytest.raises(error, match=message) as caught:
        call.make(furnished, *arguments)
    assert type(caught.value) is error
    assert figures(furnished) == before


# --- things of another store, and of the past -------------------------------------------------------------------------


def test_things_of_another_store_are_not_found_or_refused(furnished: Store, opener: Opener, tmp_path: Path) -> None:
    other = opener(tmp_path / "other")
    for i in range(70):
        foreign = other.branch().append("note", i)
    before = figures(furnished)
    main = furnished.branch()
    refused: list[Callable[[], object]] = [
        lambda: main.append("note", 1, caused_by=[foreign]),
        lambda: main.append("note", 1, linked_to=[foreign.id]),
        lambda: main.append("note", 1, expect=foreign),
        lambda: main.fork("new", at=foreign),
        lambda: main.rewind(foreign),
        lambda: main.event(foreign),
        lambda: furnished.effects(foreign),
        lambda: main.state("tree", at=foreign),
        lambda: main.diff("tree", 1, other.branch()),
    ]
    for call in refused:
        with pytest.raises((NotFound, Conflict, InvalidOperation)):
            call()
    assert figures(furnished) == before


def test_an_event_of_another_branch_is_not_on_this_one(furnished: Store) -> None:
    elsewhere = furnished.branch("side").event(31)
    for call in (
        lambda: furnished.branch().fork("new", at=elsewhere),
        lambda: furnished.branch().state("tree", at=elsewhere.id),
        lambda: furnished.branch().event(elsewhere.id[:20]),
    ):
        with pytest.raises(NotFound, match=rf"event {elsewhere.id[:12]} exists but is not on branch 'main'"):
            call()
    with pytest.raises(NotFound, match="neither on branch 'main' nor below a head in its reflog; fork a branch"):
        furnished.branch().rewind(elsewhere)


def test_a_view_of_the_past_does_not_change(furnished: Store) -> None:
    before = figures(furnished)
    main = furnished.branch()
    changes: list[Callable[[], object]] = [
        lambda: main.state("append_log", at=5).append(1),
        lambda: main.state("append_log", at=5).edit(0, 1),
        lambda: main.state("append_log", at=5).redact(0, 1),
        lambda: main.state("append_log", at=5).set([]),
        lambda: main.state("value", at=5).set(1),
        lambda: main.state("tree", at=62).put("a", 1),
        lambda: main.state("tree", at=62).remove("a/b"),
        lambda: main.state("tree", at=62).batch([]),
        lambda: main.state("document", at=62).set({}),
        lambda: main.state("document", at=62).patch({}),
        lambda: main.state("document", at=62).append(["list"], 1),
    ]
    for change in changes:
        with pytest.raises(ReadOnly, match=r"as it was at sequence \d+; change the slot through .* or fork the branch"):
            change()
    assert figures(furnished) == before


def test_a_branch_that_was_deleted_is_not_found(furnished: Store) -> None:
    side = furnished.branch("side")
    view = side.state("tree")
    furnished.delete_branch("side")
    uses: list[Callable[[], object]] = [
        lambda: side.seq,
        lambda: side.append("note", 1),
        lambda: list(side.events()),
        lambda: side.fork("new"),
        lambda: side.rewind(1),
        lambda: len(view),
        lambda: view.put("a", 1),
        lambda: side.replay("tree"),
    ]
    for use in uses:
        with pytest.raises(NotFound, match="there is no branch 'side'"):
            use()
    assert side.reflog()[-1].kind == "delete"


# --- opening ----------------------------------------------------------------------------------------------------------

WRONG_OPENINGS: list[tuple[dict[str, Any], str]] = [
    ({"path": 5}, r"a store's path is a str or a path object, not 5"),
    ({"path": None}, r"not None"),
    ({"path": ""}, r"may not be empty"),
    ({"path": "a\0b"}, r"contain NUL"),
    ({"path": "\ud800"}, r"lone surrogates"),
    ({"durability": "none"}, r'durability is "full" or "relaxed", not \'none\''),
    ({"durability": None}, r"not None"),
    ({"durability": []}, r"not \[\]"),
    ({"map_size": 0}, r"map_size is a number of bytes from 1,048,576"),
    ({"map_size": 2**80}, r"map_size is a number of bytes"),
    ({"map_size": 1e9}, r"not 1000000000\.0"),
    ({"map_size": True}, r"not True"),
    ({"clock": 5}, r"clock= is a function"),
    ({"entropy": b"x"}, r"entropy= is a function"),
    ({"clock": lambda: "noon"}, r"clock returns µs since the epoch as an int, not 'noon'"),
    ({"entropy": lambda size: "x" * size}, r"entropy was asked for 16 bytes and returned 'x"),
    ({"entropy": lambda size: b"x"}, r"asked for 16 bytes and returned b'x'"),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG_OPENINGS, ids=range(len(WRONG_OPENINGS)))
def test_opening_with_a_wrong_argument(tmp_path: Path, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidOperation, match=message):
        chronicle.open(**{"path": tmp_path / "store", "durability": "relaxed", **wrong})
    with chronicle.open(tmp_path / "store", durability="relaxed") as store:  # whatever a refusal left does not matter
        assert store.branch().append("note", 1).seq == 1
        assert store.verify(deep=True).ok


@settings(max_examples=40)
@given(
    place=st.sampled_from(["path", "durability", "readonly", "create", "clock", "entropy", "map_size"]),
    value=st.sampled_from(range(len(GARBAGE))),
)
def test_opening_with_anything(tmp_path: Path, place: str, value: int, monkeypatch_cwd: None) -> None:
    given_arguments = {"path": "store", "durability": "relaxed", "map_size": 1 << 24, place: GARBAGE[value]()}
    try:
        store = chronicle.open(**given_arguments)
    except ChronicleError:
        return
    with store:
        assert isinstance(store.branch(), Branch)


@pytest.fixture
def monkeypatch_cwd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# --- reducers ---------------------------------------------------------------------------------------------------------


def test_what_a_reducer_raises_fails_its_own_reads_and_nothing_else(furnished: Store) -> None:
    main = furnished.branch()
    bad = main.append("add", "no number", slot="custom")
    before = figures(furnished)
    for read in (lambda: main.state("custom").get(), lambda: main.state("custom").hash, lambda: main.replay("custom")):
        with pytest.raises(
            ReducerFailed,
            match=rf"'sum' of slot 'custom' raised TypeError on event 'add' at sequence 64 \({bad.id[:12]}",
        ):
            read()
    assert main.state("custom", at=63).get() == Sum(5)
    assert main.state("append_log")[:3] == [0, 1, 2]
    assert figures(furnished) == before
    for i in range(130):
        main.append("note", i)
    assert furnished.verify().ok


@pytest.mark.parametrize("options", [{"initial": 5}, {"events": 5}, {"version": "1"}, {"fingerprint": 5}], ids=str)
def test_a_reducer_made_of_the_wrong_parts_is_refused(furnished: Store, options: dict[str, Any]) -> None:
    with pytest.raises(ChronicleError):
        furnished.register_state(
            "new", reducer=chronicle.reducer("wrong", **{"initial": int, **options})(lambda s, e: s)
        )
    assert [slot.id for slot in furnished.slots()] == ["append_log", "custom", "document", "tree", "value"]
