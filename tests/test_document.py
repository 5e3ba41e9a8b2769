"""The document slot: its operations against plain Python, and its canonical form."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronicle_py import document
from chronicle_py.collections import List, Map
from chronicle_py.document import DocumentState
from chronicle_py.errors import ChronicleError, CorruptStore, InvalidOperation, PathKeyError
from chronicle_py.event import BlobRef, decode_payload, encode_payload
from chronicle_py.nodes import address_of


class Memory:
    """An object store in a dict that counts what is done to it."""

    def __init__(self) -> None:
        self.nodes: dict[bytes, bytes] = {}
        self.loads = 0

    def load(self, address: bytes) -> bytes:
        self.loads += 1
        if address not in self.nodes:
            raise CorruptStore("missing")
        return self.nodes[address]

    def store(self, address: bytes, data: bytes) -> None:
        assert address == address_of(data)
        self.nodes[address] = data

    def cached(self, address: bytes, decode: Callable[[bytes], Any]) -> Any:
        return decode(self.load(address))


# The oracle: RFC 7396 and append on plain values.


def merge_patch(target: Any, patch: Any) -> Any:
    """MergePatch of RFC 7396, section 2."""
    if not isinstance(patch, dict):
        return patch
    target = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            target.pop(name, None)
        else:
            target[name] = merge_patch(target.get(name), value)
    return target


def appended(value: Any, path: list[Any], item: Any) -> Any:
    if not path:
        return [*value, item]
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = appended(value[path[0]], path[1:], item)
    return copy


def arrays(value: Any, path: tuple[Any, ...] = ()) -> list[list[Any]]:
    """The paths of all arrays."""
    parts = enumerate(value) if isinstance(value, list) else value.items() if isinstance(value, dict) else ()
    own = [list(path)] if isinstance(value, list) else []
    return own + [found for key, part in parts for found in arrays(part, (*path, key))]


def bytes_of(value: Any) -> bytes:
    """Tells apart what == does not, like 1 and True; keys in order."""
    return msgspec.msgpack.encode(msgspec.to_builtins(value), order="sorted")


def change(state: DocumentState, kind: str, payload: Any) -> DocumentState:
    return document.apply(state, f"state.{kind}", encode_payload(payload))


def stored(state: DocumentState) -> bytes:
    return document.save(state, Memory())[0]


scalars = st.none() | st.booleans() | st.integers(-5, 300) | st.floats(allow_nan=False) | st.text(max_size=4)
keys = st.sampled_from([f"k{i}" for i in range(4)]) | st.text(max_size=3)
large_objects = st.builds(lambda n, part: {f"k{i}": part for i in range(n)}, st.integers(62, 67), scalars)
large_arrays = st.builds(lambda n: list(range(n)), st.integers(62, 67))
values = st.recursive(
    scalars | large_objects | large_arrays,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=8,
)
shrinking = st.builds(lambda at, n: {f"k{i}": None for i in range(at, at + n)}, st.integers(0, 66), st.integers(0, 6))
patches = st.dictionaries(keys, values | shrinking, max_size=4) | shrinking | values
steps = st.lists(
    st.tuples(st.just("set"), values)
    | st.tuples(st.just("patch"), patches)
    | st.tuples(st.just("append"), st.tuples(st.integers(0), st.lists(values, max_size=3))),
    max_size=8,
)

# RFC 7396, appendix A.
RFC_EXAMPLES = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


class TestOperations:
    @pytest.mark.parametrize(("before", "patch", "after"), RFC_EXAMPLES)
    def test_patch_does_what_the_rfc_shows(self, before: Any, patch: Any, after: Any) -> None:
        assert document.get(change(document.of(before), "patch", patch)) == after

    @given(values, steps, st.integers(0, 3))
    def test_any_operations_equal_those_on_plain_values(self, start: Any, todo: list[Any], reload: int) -> None:
        model, state, objects = start, document.of(start), Memory()
        kept = []
        for turn, (kind, payload) in enumerate(todo):
            kept.append((state, bytes_of(model)))
            if kind == "append":
                at, items = payload
                paths = arrays(model)
                for item in items if paths else ():
                    path = paths[at % len(paths)]
                    document.check_append(state, path, item)
                    state = change(state, "append", {"path": path, "item": item})
                    model = appended(model, path, item)
            else:
                state = change(state, kind, payload)
                model = payload if kind == "set" else merge_patch(model, payload)
            if turn % 4 == reload:
                state = document.load(document.save(state, objects)[0], objects)
        assert bytes_of(document.get(state)) == bytes_of(model)
        assert document.content(state) == document.content(document.of(model))
        assert stored(state) == stored(document.of(model))
        for old, expected in kept:
            assert bytes_of(document.get(old)) == expected

    def test_append_reaches_through_large_and_small_parts(self) -> None:
        value = {f"k{i}": [[i], {"x": []}] for i in range(70)}
        state = document.of(value)
        for _ in range(100):
            state = change(state, "append", {"path": ["k7", 1, "x"], "item": {"b": 1, "a": [2]}})
        assert document.get(state, ["k7"]) == [[7], {"x": [{"a": [2], "b": 1}] * 100}]
        assert document.get(state, ["k8"]) == value["k8"]

    def test_append_to_the_document_itself(self) -> None:
        assert document.get(change(document.of([1]), "append", {"path": [], "item": 2})) == [1, 2]

    def test_a_patch_that_changes_nothing_gives_the_same_parts(self) -> None:
        state = document.of({"a": {"b": 1}, "c": [2]})
        assert change(state, "patch", {"a": {"x": None}, "y": None}).root is state.root


class TestTotality:
    @pytest.mark.parametrize(
        ("kind", "payload"),
        [
            ("append", {"path": ["nothing"], "item": 1}),
            ("append", {"path": ["text"], "item": 1}),
            ("append", {"path": ["list", 9], "item": 1}),
            ("append", {"path": ["list", True], "item": 1}),
            ("append", {"path": ["list", "0"], "item": 1}),
            ("append", {"path": ["map", 0], "item": 1}),
            ("append", {"path": "list", "item": 1}),
            ("append", {"path": ["list"]}),
            ("append", ["list", 1]),
            ("append", {"path": ["list"], "item": {1: 2}}),
            ("set", {1: 2}),
            ("set", {"a": [{"x" * 257: 1}]}),
            ("patch", {"a": {"ü" * 129: None}}),
            ("put", {"path": "a", "value": 1}),
        ],
    )
    def test_an_event_that_does_not_apply_changes_nothing(self, kind: str, payload: Any) -> None:
        state = document.of({"text": "", "list": [1], "map": {}})
        assert change(state, kind, payload) is state

    @given(
        st.sampled_from(["state.set", "state.patch", "state.append", "state.edit", "note"]),
        st.binary(max_size=40),
    )
    def test_bytes_of_any_kind_never_raise(self, kind: str, raw: bytes) -> None:
        state = document.of({"a": [1], "b": {f"k{i}": i for i in range(70)}})
        after = document.apply(state, kind, raw)
        assert document.content(document.of(document.get(after))) == document.content(after)

    @given(patches, st.integers(0), st.binary(min_size=1, max_size=2))
    def test_damaged_payloads_never_raise(self, patch: Any, at: int, damage: bytes) -> None:
        raw = bytearray(encode_payload({"path": ["a"], "item": patch}))
        raw[at % len(raw) : at % len(raw) + len(damage)] = damage
        for kind in ("set", "patch", "append"):
            document.content(document.apply(document.of({"a": [1]}), f"state.{kind}", bytes(raw)))

    def test_a_missing_node_is_no_event_that_does_not_apply(self) -> None:
        value = {f"k{i}": [str(j) * 20 for j in range(99)] for i in range(99)}
        root, _ = document.save(document.of(value), Memory())
        with pytest.raises(CorruptStore):
            change(document.load(root, Memory()), "append", {"path": ["k5"], "item": 1})


class TestCanonicalForm:
    def test_the_form_depends_on_the_number_of_entries(self) -> None:
        state = document.of({"a": list(range(64)), "b": list(range(65)), "c": {f"{i}": i for i in range(65)}})
        assert [type(part) for part in state.root.values()] == [list, List, Map]
        assert type(document.get(state, ["b"])) is list

    @pytest.mark.parametrize("outer", [1, 70])
    def test_equal_objects_are_equal_by_any_route_across_the_limit(self, outer: int) -> None:
        def wrapped(inner: dict[str, Any]) -> dict[str, Any]:
            return {"in": inner, **{f"o{i}": i for i in range(outer)}}

        grown = document.of(wrapped({}))
        for i in reversed(range(80)):
            grown = change(grown, "patch", {"in": {f"k{i}": i}})
        for n in (80, 66, 65, 64, 63):
            grown = change(grown, "patch", {"in": {f"k{i}": None for i in range(n, 80)}})
            made = document.of(wrapped({f"k{i}": i for i in range(n)}))
            assert type(grown.root["in"]) is (Map if n > 64 else dict)
            assert document.content(grown) == document.content(made)
            assert stored(grown) == stored(made)

    def test_equal_arrays_are_equal_by_any_route_across_the_limit(self) -> None:
        grown = document.of({"x": []})
        for n in range(1, 70):
            grown = change(grown, "append", {"path": ["x"], "item": {"b": n, "a": n}})
            made = document.of({"x": [{"a": i, "b": i} for i in range(1, n + 1)]})
            assert (document.content(grown), stored(grown)) == (document.content(made), stored(made))

    def test_the_order_of_keys_does_not_count(self) -> None:
        names = ["b", "a", "é", "\U0001f600", "\uffff", "z" * 256, ""]
        forward = document.of({"o": {name: {"y": 1, "x": 2} for name in names}})
        back = document.of({"o": {name: {"x": 2, "y": 1} for name in reversed(names)}})
        assert document.content(forward) == document.content(back)
        assert list(document.get(forward, ["o"])) == sorted(names, key=str.encode)

    @pytest.mark.parametrize("outer", [1, 70])
    def test_a_key_patched_into_a_small_object_takes_its_place(self, outer: int) -> None:
        around = {f"o{i}": i for i in range(outer)}
        grown = change(document.of({"in": {"b": 1, "d": 2}, **around}), "patch", {"in": {"c": {"y": 1}, "a": 0}})
        grown = change(grown, "patch", {"in": {"c": {"x": 2}}})
        made = document.of({"in": {"a": 0, "b": 1, "c": {"x": 2, "y": 1}, "d": 2}, **around})
        assert list(document.get(grown, ["in"])) == ["a", "b", "c", "d"]
        assert list(document.get(grown, ["in", "c"])) == ["x", "y"]
        assert (document.content(grown), stored(grown)) == (document.content(made), stored(made))

    def test_different_documents_have_different_hashes(self) -> None:
        values: list[Any] = [1, 1.0, True, "1", b"1", None, [], {}, [[]], {"": None}]
        assert len({document.content(document.of(value)) for value in values}) == 10

    def test_saved_and_unsaved_states_have_one_hash(self) -> None:
        state, objects = document.of({"a": [{"n": i} for i in range(500)]}), Memory()
        root, saved = document.save(state, objects)
        assert document.content(saved) == document.content(document.load(root, objects)) == document.content(state)

    def test_any_other_value_comes_back(self) -> None:
        some = [
            BlobRef("ab" * 32),
            b"\0",
            datetime(2020, 1, 2, tzinfo=UTC),
            msgspec.msgpack.Ext(40, b"x"),
            -0.5,
        ]
        objects = Memory()
        for value in (some, some * 20, {"large": {f"k{i}": some for i in range(70)}}):
            root, _ = document.save(document.of(value), objects)
            assert document.get(document.load(root, objects)) == value


class TestCost:
    def test_a_small_change_of_a_large_document_writes_few_nodes(self) -> None:
        objects = Memory()
        value = {
            "map": {f"key{i}": {"n": i} for i in range(20_000)},
            "list": [f"item {i}" for i in range(20_000)],
        }
        root, _ = document.save(document.of(value), objects)
        total, objects.loads = len(objects.nodes), 0
        state = document.load(root, objects)
        state = change(state, "patch", {"map": {"key777": {"n": -1}}})
        state = change(state, "append", {"path": ["list"], "item": "one more"})
        document.save(state, objects)
        assert total > 300
        assert len(objects.nodes) - total <= 6
        assert objects.loads <= 12

    def test_reading_a_part_loads_what_leads_to_it(self) -> None:
        objects = Memory()
        value = {"map": {f"key{i}": list(range(70)) for i in range(5_000)}}
        root, _ = document.save(document.of(value), objects)
        state = document.load(root, objects)
        objects.loads = 0
        assert document.get(state, ["map", "key4321", -1]) == 69
        assert document.length(state, ["map"]) == 5_000
        assert objects.loads <= 8

    def test_an_aborted_save_can_be_done_again(self) -> None:
        state = document.of({"m": {f"k{i}": list(range(300)) for i in range(100)}})
        document.save(state, Memory())
        objects = Memory()
        root, _ = document.save(state, objects)
        assert document.get(document.load(root, objects)) == document.get(state)


class TestReading:
    state = document.of({"a": [{"b": 1}, 2], "big": {f"k{i}": [i] for i in range(70)}})

    @pytest.mark.parametrize(
        ("path", "found"), [(["a", 0], {"b": 1}), (["a", -1], 2), (["big", "k9"], [9]), (("a", 0, "b"), 1)]
    )
    def test_get_gives_the_part_at_a_path(self, path: Any, found: Any) -> None:
        assert document.get(self.state, path) == found

    @pytest.mark.parametrize(
        "path", [["x"], ["a", 2], ["a", -3], ["a", "0"], ["big", "k99"], ["big", 0], ["a", 1, "x"]]
    )
    def test_a_path_that_is_not_there(self, path: Any) -> None:
        with pytest.raises(PathKeyError, match="there is no document"):
            document.get(self.state, path)

    @pytest.mark.parametrize("path", ["a", [None], [True], [1.0], 3])
    def test_what_is_no_path(self, path: Any) -> None:
        with pytest.raises(InvalidOperation, match="a path is"):
            document.get(self.state, path)

    def test_what_is_returned_is_the_callers_own(self) -> None:
        document.get(self.state)["a"][0]["b"] = 100
        document.get(self.state, ["a"]).clear()
        assert document.get(self.state, ["a"]) == [{"b": 1}, 2]

    def test_length(self) -> None:
        paths: list[list[str | int]] = [[], ["a"], ["big"], ["a", 0]]
        assert [document.length(self.state, path) for path in paths] == [2, 2, 70, 1]
        with pytest.raises(InvalidOperation, match=r"document\['a'\]\[1\]: there is the value 2"):
            document.length(self.state, ["a", 1])


def nested(levels: int, value: Any = 1) -> Any:
    for i in range(levels):
        value = {"x": value} if i % 2 else [value]
    return value


class Note(msgspec.Struct):
    text: str


class TestChecks:
    def test_what_encodes_to_a_document_is_accepted(self) -> None:
        for value in (None, 1, {"a": Note("x")}, Note("x"), {"a": (1, {2})}, [BlobRef("00" * 32)]):
            document.check_set(value)
            document.check_patch(value)
            document.check_append(document.of([]), [], value)

    @pytest.mark.parametrize(
        ("value", "message"),
        [
            ({"a": [{1: 2}]}, r"document\['a'\]\[0\] has the key 1"),
            ({"a": {"k" * 257: 2}}, r"document\['a'\] has a key of 257 bytes"),
            ({"ü" * 129: None}, "has a key of 258 bytes"),
            (nested(201), "deeper than 200 levels"),
            ({"a": msgspec.msgpack.Ext(2, b"")}, r"document\['a'\] is an extension of the reserved code 2"),
            ([object()], "no MessagePack form"),
        ],
    )
    def test_what_a_document_cannot_hold_is_refused(self, value: Any, message: str) -> None:
        for check in (document.check_set, document.check_patch, document.of):
            with pytest.raises(InvalidOperation, match=message):
                check(value)
        with pytest.raises(InvalidOperation):
            document.check_append(document.of([]), [], value)

    def test_a_circular_value_is_refused(self) -> None:
        value: list[Any] = []
        value.append(value)
        with pytest.raises(InvalidOperation, match="deeper than 200"):
            document.check_set(value)

    def test_append_says_what_is_there(self) -> None:
        state = document.of({"a": {"b": 1}, "l": [1]})
        with pytest.raises(InvalidOperation, match=r"to document\['a'\]: there is an object of 1 keys, not an array"):
            document.check_append(state, ["a"], 1)
        with pytest.raises(PathKeyError, match=r"document\['l'\] is an array of 1 items without 4"):
            document.check_append(state, ["l", 4], 1)

    def test_the_deepest_document_works_and_one_level_more_does_not(self) -> None:
        deepest = nested(200)
        document.check_set(deepest)
        state, objects = document.of(deepest), Memory()
        assert document.get(document.load(document.save(state, objects)[0], objects)) == deepest
        path = [0 if i % 2 else "x" for i in range(198)]
        assert document.get(state, path) == {"x": [1]}
        path.append("x")
        document.check_append(state, path, 1)
        assert document.get(change(state, "append", {"path": path, "item": 1}), path) == [1, 1]
        with pytest.raises(InvalidOperation, match="200 levels"):
            document.check_append(state, path, [])
        assert change(state, "append", {"path": path, "item": []}) is state

    def test_large_objects_inside_one_another_to_any_depth(self) -> None:
        value: Any = [0]
        for _ in range(199):
            value = {**{f"k{i}": i for i in range(64)}, "z": value}
        state, objects = document.of(value), Memory()
        path = ["z"] * 199
        state = document.load(document.save(state, objects)[0], objects)
        state = change(state, "append", {"path": path, "item": 1})
        assert document.get(document.load(document.save(state, objects)[0], objects), path) == [0, 1]

    @given(values, patches)
    def test_what_is_accepted_applies(self, value: Any, patch: Any) -> None:
        document.check_set(value)
        document.check_patch(patch)
        after = change(document.of(value), "patch", patch)
        assert bytes_of(document.get(after)) == bytes_of(merge_patch(value, patch))

    @given(st.binary(max_size=30))
    def test_checks_and_apply_agree(self, raw: bytes) -> None:
        try:
            value = decode_payload(raw)
        except (msgspec.MsgspecError, ValueError, TypeError):
            return
        state = document.of({"a": 1})
        try:
            document.check_set(value)
        except ChronicleError:
            assert document.apply(state, "state.set", raw) is state
        else:
            assert document.apply(state, "state.set", raw) is not state
