"""Changes between two states: they make the newer of the older, and finding them costs what differs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronicle_py import document
from chronicle_py.collections import List, Map, decode_state, encode_state
from chronicle_py.diff import Change, diff_custom, diff_documents, diff_logs, diff_trees, diff_value
from chronicle_py.errors import InvalidOperation
from chronicle_py.event import BlobRef, decode_payload, encode_payload
from chronicle_py.item_log import ItemLog, Ref


class Memory:
    """An object store in a dict that counts what is read from it."""

    def __init__(self) -> None:
        self.nodes: dict[bytes, bytes] = {}
        self.loads = 0

    def load(self, address: bytes) -> bytes:
        self.loads += 1
        return self.nodes[address]

    def store(self, address: bytes, data: bytes) -> None:
        self.nodes[address] = data

    def cached(self, address: bytes, decode: Callable[[bytes], Any]) -> Any:
        return decode(self.load(address))


# The oracle: make the newer state of the older one.


def patched(value: Any, changes: list[tuple[Change, tuple[Any, ...]]]) -> Any:
    """`value` after changes, each given with its path from here."""
    if not changes:
        return value
    if any(not path for _, path in changes):
        assert len(changes) == 1, "the whole changes once"
        assert same(changes[0][0].before, value)
        return changes[0][0].after
    adds = [(change, path[0]) for change, path in changes if len(path) == 1 and change.op == "add"]
    inside: dict[Any, list[tuple[Change, tuple[Any, ...]]]] = {}
    for change, path in changes:
        if len(path) > 1 or change.op != "add":
            inside.setdefault(path[0], []).append((change, path[1:]))
    removed = {key for key, found in inside.items() if found[0][0].op == "remove" and not found[0][1]}
    entries = enumerate(value) if isinstance(value, list) else value.items()
    kept = {key: patched(part, inside.get(key, [])) for key, part in entries if key not in removed}
    for key in removed:
        assert same(inside[key][0][0].before, value[key])
    if isinstance(value, dict):
        assert not value.keys() & {key for _, key in adds}
        return kept | {key: change.after for change, key in adds}
    items = list(kept.values())
    for change, index in sorted(adds, key=lambda found: found[1]):
        items.insert(index, change.after)
    return items


def same(a: Any, b: Any) -> bool:
    return msgspec.msgpack.encode(a, order="sorted") == msgspec.msgpack.encode(b, order="sorted")


def applied(value: Any, changes: list[Change]) -> Any:
    paths = [change.path if isinstance(change.path, tuple) else (change.path,) for change in changes]
    return patched(value, list(zip(changes, paths, strict=True)))


scalars = st.none() | st.booleans() | st.integers(-2, 9) | st.floats(allow_nan=False) | st.text(max_size=2)
keys = st.sampled_from("abcd") | st.text(max_size=2)
large_objects = st.builds(lambda n, by: {f"k{i}": i // by for i in range(n)}, st.integers(62, 67), st.integers(1, 9))
large_arrays = st.builds(lambda n, by: [i // by for i in range(n)], st.integers(62, 67), st.integers(1, 9))
large = large_objects | large_arrays
values = st.recursive(
    scalars | large,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=9,
)


@st.composite
def edited(draw: Any, value: Any) -> Any:
    """A value that shares much with the given one."""
    if isinstance(value, dict) and value and draw(st.integers(0, 4)):
        key = draw(st.sampled_from(sorted(value)))
        return value | {key: draw(edited(value[key]))}
    if isinstance(value, list) and draw(st.integers(0, 4)):
        start, stop = (draw(st.integers(0, len(value))) for _ in range(2))
        return value[:start] + draw(st.lists(scalars, max_size=2)) + value[stop:]
    return draw(values)


pairs = values.flatmap(lambda value: st.tuples(st.just(value), edited(value) | values))


class TestDocuments:
    @given(pairs, st.booleans())
    def test_the_changes_make_the_newer_document_of_the_older(self, pair: Any, reload: bool) -> None:
        a, b = map(document.of, pair)
        changes = diff_documents(a, b)
        assert same(applied(pair[0], changes), pair[1])
        assert bool(changes) == (document.content(a) != document.content(b))
        if reload:
            objects = Memory()
            a, b = (document.load(document.save(state, objects)[0], objects) for state in (a, b))
            assert repr(diff_documents(a, b)) == repr(changes)

    def test_only_the_smallest_parts_that_differ_are_named(self) -> None:
        a = {
            "title": "x",
            "tags": ["a", "b", "c"],
            "meta": {"by": "me", "at": {"line": 1, "page": 2}},
            "old": 1,
        }
        b = {
            "title": "x",
            "tags": ["a", "c", "d"],
            "meta": {"by": "me", "at": {"line": 3, "page": 2}},
            "new": 2,
        }
        assert diff_documents(document.of(a), document.of(b)) == [
            Change("change", ("meta", "at", "line"), 1, 3),
            Change("add", ("new",), None, 2),
            Change("remove", ("old",), 1, None),
            Change("remove", ("tags", 1), "b", None),
            Change("add", ("tags", 2), None, "d"),
        ]

    def test_changes_inside_items_of_a_large_array_are_found(self) -> None:
        a = {"rows": [{"id": i, "cells": [i]} for i in range(1000)]}
        b = {"rows": [{"id": i, "cells": [i, 0] if i == 500 else [i]} for i in range(1000)]}
        assert diff_documents(document.of(a), document.of(b)) == [Change("add", ("rows", 500, "cells", 1), None, 0)]

    def test_values_of_other_types_differ(self) -> None:
        a, b = [1, True, 0.0, None, b"x"], [1.0, 1, -0.0, {}, "x"]
        states = [document.of({str(i): part for i, part in enumerate(value)}) for value in (a, b)]
        found = [(change.before, change.after) for change in diff_documents(*states)]
        assert repr(found) == repr([(1, 1.0), (True, 1), (0.0, -0.0), (None, {}), (b"x", "x")])
        assert diff_documents(document.of([float("nan")]), document.of([float("nan")])) == []

    def test_a_part_that_crosses_the_limit_is_compared_entry_by_entry(self) -> None:
        small = {"o": {f"k{i:02}": i for i in range(63)}, "l": list(range(63))}
        big = {"o": {f"k{i:02}": i for i in range(66)}, "l": list(range(66))}
        changes = diff_documents(document.of(small), document.of(big))
        assert [(change.op, change.path) for change in changes] == [
            *(("add", ("l", i)) for i in (63, 64, 65)),
            *(("add", ("o", f"k{i}")) for i in (63, 64, 65)),
        ]

    def test_large_parts_in_changes_are_plain(self) -> None:
        inner = {"l": [[i] for i in range(70)]}
        (change,) = diff_documents(document.of({}), document.of({"x": inner}))
        assert type(change.after["l"]) is list
        assert change == Change("add", ("x",), None, inner)

    def test_the_cost_is_that_of_what_differs(self) -> None:
        objects = Memory()
        value = {
            "map": {f"key{i}": {"n": i} for i in range(20_000)},
            "list": [f"item {i}" * 5 for i in range(20_000)],
        }
        root, _ = document.save(document.of(value), objects)
        a = document.load(root, objects)
        patch = {"map": {"key777": {"n": -1}, "key30000": 1}}
        b = document.apply(a, "state.patch", encode_payload(patch))
        b = document.apply(b, "state.append", encode_payload({"path": ["list"], "item": "one more"}))
        b = document.load(document.save(b, objects)[0], objects)
        objects.loads = 0
        assert diff_documents(a, b) == [
            Change("add", ("list", 20_000), None, "one more"),
            Change("add", ("map", "key30000"), None, 1),
            Change("change", ("map", "key777", "n"), 777, -1),
        ]
        assert objects.loads <= 24
        objects.loads = 0
        assert diff_documents(a, document.load(root, objects)) == []
        assert objects.loads == 0


class TestValues:
    def test_equal_values_have_no_changes(self) -> None:
        assert diff_value({"a": 1, 2: [BlobRef("00" * 32)]}, {"a": 1, 2: [BlobRef("00" * 32)]}) == []

    def test_different_values_are_one_change_of_the_whole(self) -> None:
        assert diff_value({"a": 1}, {"a": 2}) == [Change("change", (), {"a": 1}, {"a": 2})]
        assert len(diff_value({"a": 1, "b": 2}, {"b": 2, "a": 1})) == 1
        assert diff_value(None, 0) == [Change("change", (), None, 0)]
        assert diff_value(1, True) == [Change("change", (), 1, True)]


class Events:
    """What holds the items of a log."""

    def __init__(self) -> None:
        self.items: list[bytes] = []

    def fetch(self, refs: Sequence[Ref]) -> list[bytes]:
        return [self.items[ref.edit_seq or ref.seq] for ref in refs]

    def log(self, values: Sequence[Any]) -> ItemLog:
        first = len(self.items) or 1
        self.items += [b""] * (first - len(self.items)) + [encode_payload(value) for value in values]
        log = ItemLog.empty(self.fetch, Memory())
        for i in range(len(values)):
            log = log.append(1, first + i)
        return log

    def read(self, log: ItemLog, index: int) -> Any:
        return decode_payload(self.fetch([log.ref(index)])[0])


class TestLogs:
    @given(st.lists(st.integers(0, 5), max_size=30).flatmap(lambda v: st.tuples(st.just(v), edited(v))))
    def test_the_changes_make_the_newer_log_of_the_older(self, pair: Any) -> None:
        before, after = pair[0], pair[1] if isinstance(pair[1], list) else [pair[1]]
        events = Events()
        changes = diff_logs(events.log(before), events.log(after), events.read)
        assert same(applied(before, changes), after)
        assert bool(changes) == (not same(before, after))

    def test_an_edit_a_redaction_and_an_append(self) -> None:
        events = Events()
        old = events.log([{"n": i} for i in range(2_000)])
        edit = len(events.items)
        events.items.append(encode_payload({"n": "edited"}))
        new = old.set(100, Ref(1, old.ref(100).seq, -1, 1, edit)).delete(1000, 1002).append(1, edit)
        assert diff_logs(old, new, events.read) == [
            Change("change", 100, {"n": 100}, {"n": "edited"}),
            Change("remove", 1000, {"n": 1000}, None),
            Change("remove", 1001, {"n": 1001}, None),
            Change("add", 1998, None, {"n": "edited"}),
        ]


class TestTrees:
    @given(st.dictionaries(keys, scalars | large, max_size=20).flatmap(lambda v: st.tuples(st.just(v), edited(v))))
    def test_the_changes_make_the_newer_tree_of_the_older(self, pair: Any) -> None:
        before, after = pair[0], pair[1] if isinstance(pair[1], dict) else {}
        changes = diff_trees(Map(before), Map(after))
        assert same(applied(before, changes), after)
        paths = [str(change.path) for change in changes]
        assert paths == sorted(paths)

    def test_puts_changes_and_removals(self) -> None:
        before: Map[Any] = Map({f"src/{i}.py": {"size": i} for i in range(3_000)})
        after = before.set("src/7.py", BlobRef("ab" * 32)).remove("src/8.py").set("doc", "new")
        assert diff_trees(before, after) == [
            Change("add", "doc", None, "new"),
            Change("change", "src/7.py", {"size": 7}, BlobRef("ab" * 32)),
            Change("remove", "src/8.py", {"size": 8}, None),
        ]


class Message(msgspec.Struct, frozen=True):
    role: str
    tokens: int


class State(msgspec.Struct, frozen=True):
    count: int
    messages: List[Message]
    index: Map[int]
    by_day: dict[str, list[str]] = {}
    pair: tuple[int, int] = (0, 0)
    last: Message | None = None


class TestCustomStates:
    before = State(1, List([Message("user", i) for i in range(300)]), Map({"a": 1, "b": 2}), {"1": ["x"], "20": ["y"]})

    def test_structs_are_compared_by_their_fields(self) -> None:
        after = State(
            2,
            self.before.messages.set(7, Message("user", -7)).append(Message("bot", 1)),
            self.before.index.set("c", 3).remove("a"),
            {"1": ["x", "z"], "3": []},
            (0, 5),
            Message("bot", 1),
        )
        expected = [
            Change("change", ("count",), 1, 2),
            Change("change", ("messages", 7, "tokens"), 7, -7),
            Change("add", ("messages", 300), None, Message("bot", 1)),
            Change("remove", ("index", "a"), 1, None),
            Change("add", ("index", "c"), None, 3),
            Change("add", ("by_day", "1", 1), None, "z"),
            Change("remove", ("by_day", "20"), ["y"], None),
            Change("add", ("by_day", "3"), None, []),
            Change("change", ("pair", 1), 0, 5),
            Change("change", ("last",), None, Message("bot", 1)),
        ]
        objects = Memory()
        states = [decode_state(encode_state(state, objects)[0], State, objects) for state in (self.before, after)]
        assert diff_custom(*states) == expected

    @pytest.mark.parametrize("state", [None, 0, [1, {"a": List([1])}], before, {1, 2}])
    def test_a_state_does_not_differ_from_itself(self, state: Any) -> None:
        assert diff_custom(state, state) == []

    @pytest.mark.parametrize(("a", "b"), [(0, 1), (None, [1]), ({1, 2}, {1, 3}), (b"", ""), (before, Message("a", 1))])
    def test_what_has_no_parts_is_one_change_of_the_whole(self, a: Any, b: Any) -> None:
        assert diff_custom(a, b) == [Change("change", (), a, b)]

    @pytest.mark.parametrize("state", [{1: 2}, {"a": [{(1, 2): 3}]}, [object()]])
    def test_a_state_that_cannot_be_stored_is_refused(self, state: Any) -> None:
        with pytest.raises(InvalidOperation, match=r"a \w+ in one of them cannot be stored|cannot be kept"):
            diff_custom(state, [{"a": [{}]}] if isinstance(state, list) else {"a": [{}]})

    def test_collections_are_given_as_plain_values(self) -> None:
        assert diff_custom(None, Map({"a": List([1])})) == [Change("change", (), None, {"a": [1]})]

    def test_collections_on_one_side_only_are_compared_by_entries(self) -> None:
        assert diff_custom({"x": Map({"a": 1}), "y": [1]}, {"x": {"a": 2}, "y": List([1, 2])}) == [
            Change("change", ("x", "a"), 1, 2),
            Change("add", ("y", 1), None, 2),
        ]
