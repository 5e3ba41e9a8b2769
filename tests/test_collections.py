"""List, Map and the states that hold them, against plain lists and dicts."""

import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.msgpack import Ext
from test_tree import Memory

from chronicle_py import values
from chronicle_py.collections import (
    Change,
    Extension,
    List,
    Map,
    decode_state,
    diff_lists,
    diff_maps,
    encode_state,
    register_extension,
    state_hash,
)
from chronicle_py.errors import CorruptStore, InvalidOperation

sizes = st.sampled_from([1, 2, 5, 30, 300])
some = st.integers(0, 3) | st.text(max_size=8) | st.sampled_from(["a" * 700, "b" * 2100, None])
few = settings(max_examples=120, deadline=None)


def pattern(seed: int, n: int) -> list[Any]:
    """Entries with few distinct values, long runs, and sizes that make several leaves of a few hundred."""
    kinds: list[Callable[[int], Any]] = [
        lambda k: seed,
        lambda k: k % 3,
        lambda k: f"{seed}/{k}" * 40,
        lambda k: f"{k // 50}" * 30,
        lambda k: {"role": "user", "n": k},
    ]
    return [kinds[seed % len(kinds)](k) for k in range(n)]


# List

steps = st.lists(
    st.tuples(
        st.sampled_from(["append", "extend", "set", "delete", "insert", "save", "keep"]),
        st.integers(0, 10**6),
        sizes,
    ),
    max_size=25,
)


@given(steps, st.booleans())
@few
def test_a_list_does_as_a_python_list_in_every_version(steps: list[tuple[str, int, int]], weighted: bool) -> None:
    objects = Memory()
    entries: List[Any] = List()
    model: list[Any] = []
    weights: list[int] = []
    versions: list[tuple[List[Any], list[Any], list[int]]] = [(entries, [], [])]
    for step, seed, size in steps:
        at = seed % (len(model) + 1)
        weight = seed % 4 if weighted else 0
        if step == "append":
            entries = entries.append(seed, weight)
            model, weights = [*model, seed], [*weights, weight]
        elif step == "extend":
            added, heads = pattern(seed, size), [k % (weight + 1) for k in range(size)]
            entries = entries.extend(added, heads)
            model, weights = model + added, weights + heads
        elif step == "set" and at < len(model):
            entries = entries.set(at, size, weight if seed % 2 else None)
            model = [*model[:at], size, *model[at + 1 :]]
            weights = [*weights[:at], weight, *weights[at + 1 :]] if seed % 2 else weights
        elif step == "delete":
            entries = entries.delete(at, at + size)
            model, weights = model[:at] + model[at + size :], weights[:at] + weights[at + size :]
        elif step == "insert":
            entries = entries.insert(at, seed, weight)
            model, weights = [*model[:at], seed, *model[at:]], [*weights[:at], weight, *weights[at:]]
        elif step == "save":
            entries = List.decode(entries.save(objects).encode(), objects)
        else:
            entries = versions[seed % len(versions)][0]
            _, model, weights = versions[seed % len(versions)]
        versions.append((entries, model, weights))
    for version, expected, expected_weights in versions:
        assert list(version) == expected
        assert [version.weight(n) for n in range(len(expected) + 1)] == [
            sum(expected_weights[:n]) for n in range(len(expected) + 1)
        ]
    direct = List(model, weights)
    assert entries == direct
    assert entries.hash == direct.hash
    assert entries.save(objects).encode() == direct.save(Memory()).encode()


@given(st.lists(some, max_size=400), st.data())
@few
def test_indexes_and_slices_are_those_of_python(model: list[Any], data: st.DataObject) -> None:
    entries = List(model).save(Memory())
    entries, model = entries.append("tail"), [*model, "tail"]
    index = st.integers(-len(model) - 3, len(model) + 3)
    start, stop, step = (
        data.draw(index | st.none()),
        data.draw(index | st.none()),
        data.draw(st.sampled_from([1, 2, -1])),
    )
    assert entries[start:stop:step] == model[start:stop:step]
    assert list(reversed(entries)) == model[::-1]
    assert len(entries) == len(model)
    at = data.draw(index)
    if -len(model) <= at < len(model):
        assert entries[at] == model[at]
        assert list(entries.set(at, "new"))[at] == "new"
    else:
        with pytest.raises(IndexError, match=f"no entry {at} in a list of {len(model)}"):
            entries[at]
        with pytest.raises(IndexError):
            entries.set(at, 1)
    assert list(entries.delete(start or 0, len(model) if stop is None else stop)) == [
        value for k, value in enumerate(model) if k not in range(*slice(start, stop).indices(len(model)))
    ]


@given(st.lists(st.integers(0, 50), max_size=600), st.integers(0, 600))
@few
def test_find_is_the_first_index_past_a_weight(weights: list[int], settled: int) -> None:
    entries: List[int] = List(range(len(weights[:settled])), weights[:settled])
    assert entries.hash
    for weight in weights[settled:]:
        entries = entries.append(0, weight)
    total = sum(weights)
    for wanted in {-1, 0, 1, total // 3, total // 2, total - 1, total, total + 1}:
        sums = [sum(weights[: n + 1]) for n in range(len(weights))]
        assert entries.find(wanted) == next((n for n, at in enumerate(sums) if at > wanted), len(weights))
    assert entries.weight() == total


def test_weights_through_several_levels() -> None:
    weights = [n % 7 for n in range(30_000)]
    entries = List(range(30_000), weights).save(Memory())
    assert entries.weight(20_000) == sum(weights[:20_000])
    assert entries.find(sum(weights[:20_001]) - 1) == 20_000
    assert entries.delete(0, 10_000).weight() == sum(weights[10_000:])


def test_weights_belong_to_the_content() -> None:
    assert List([1, 2], [0, 0]) == List([1, 2])
    assert List([1, 2], [0, 1]) != List([1, 2])
    assert List([1, 2], [0, 1]).set(1, 2, 0) == List([1, 2])


def test_a_tail_is_shared_without_showing_later_entries() -> None:
    first: List[int] = List()
    versions = [first]
    for n in range(3_000):
        versions.append(versions[-1].append(n))
    assert all(len(version) == n for n, version in enumerate(versions))
    branch = versions[1_000].append(-1)
    assert branch[-1] == -1
    assert versions[1_001][-1] == 1_000
    assert list(versions[2_500]) == list(range(2_500))


def test_threads_may_append_to_the_same_version() -> None:
    start: List[Any] = List(range(10)).append(10)
    results: list[List[Any]] = []

    def grow(name: str) -> None:
        entries = start
        for n in range(300):
            entries = entries.append(f"{name}{n}", 1)
        results.append(entries)

    threads = [threading.Thread(target=grow, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for entries in results:
        name = entries[-1][0]
        assert list(entries) == [*range(11), *(f"{name}{n}" for n in range(300))]
        assert entries.weight() == 300


@pytest.mark.parametrize("rest", [5, 4_000])
def test_few_distinct_values_in_long_runs(rest: int) -> None:
    objects = Memory()
    entries = List([1] * 6_000 + [2] * rest).save(objects)
    cut = entries.delete(2_999, 3_000)
    assert cut == List([1] * 5_999 + [2] * rest)
    assert cut.insert(0, 1) == entries
    assert cut.insert(0, 1).save(objects).encode() == entries.encode()


def test_deletions_around_every_boundary_leave_the_same_root() -> None:
    model = [f"{n}" * 60 for n in range(300)]
    entries = List(model).save(Memory())
    ends = [base for base, _ in entries.entries(0, 300)]
    for end in ends:
        for start, stop in [(end - 1, end), (end, end + 1), (end - 1, end + 1), (end, end + 40)]:
            if start >= 0:
                assert entries.delete(start, stop) == List(model[:start] + model[stop:])


def test_large_values_are_objects_of_their_own() -> None:
    objects = Memory()
    entries: List[Any] = List(["x" * 2_045, "y" * 2_046, "z" * 100_000])
    assert [*entries] == ["x" * 2_045, "y" * 2_046, "z" * 100_000]
    saved = entries.save(objects)
    assert len(objects.data) == 2
    assert len(saved.encode()) < 2_300
    assert List.decode(saved.encode(), objects)[2] == "z" * 100_000
    with pytest.raises(InvalidOperation, match="saved before"):
        entries.encode()


def test_a_value_that_looks_like_a_reference_comes_back() -> None:
    value = Ext(4, bytes(32))
    entries = List([value]).save(Memory())
    assert entries[0] == value
    assert entries.append(value)[1] == value


def test_unknown_extensions_pass_through() -> None:
    assert List([Ext(77, b"abc"), {"a": [Ext(9, b"x" * 32)]}])[1] == {"a": [Ext(9, b"x" * 32)]}


def test_the_order_of_a_dict_is_kept() -> None:
    assert list(List([{"b": 1, "a": 2}])[0]) == ["b", "a"]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: List([object()]),
        lambda: List([2**70]),
        lambda: List([1], [-1]),
        lambda: List([1], [1, 2]),
        lambda: List([1], ["a"]),  # type: ignore[list-item]
    ],
)
def test_what_cannot_be_kept_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidOperation):
        wrong()


def test_repr_shows_the_beginning() -> None:
    assert repr(List([1, "a"])) == "List([1, 'a'])"
    assert repr(List(range(9))) == "List([0, 1, 2, 3, 4, …], 9 entries)"
    assert repr(Map({"b": 1, "a": 2})) == "Map({'a': 2, 'b': 1})"
    assert repr(Map({f"{n}": n for n in range(9)})) == "Map({'0': 0, '1': 1, '2': 2, '3': 3, '4': 4, …}, 9 entries)"


def test_equality_with_others_is_left_to_them() -> None:
    assert List([1]) != [1]
    assert Map({"a": 1}) != {"a": 1}
    assert List() != Map()
    assert List().hash != Map().hash
    assert {List([1]), List([1])} == {List([1])}
    assert {Map({"a": 1}), Map({"a": 1})} == {Map({"a": 1})}


# Map

keys = st.text(st.sampled_from("ab/é漢😀"), max_size=4) | st.integers(0, 400).map(lambda n: f"key/{n:03d}")
changes = st.lists(st.tuples(keys, st.none() | some), max_size=60)
map_steps = st.lists(
    st.tuples(st.sampled_from(["change", "update", "save", "keep", "hash"]), changes, st.integers(0, 10**6)),
    max_size=12,
)


@given(map_steps)
@few
def test_a_map_does_as_a_dict_in_every_version(steps: list[tuple[str, list[tuple[str, Any]], int]]) -> None:
    objects = Memory()
    entries: Map[Any] = Map()
    model: dict[str, Any] = {}
    versions = [(entries, model)]
    for step, batch, seed in steps:
        model = dict(model)
        if step == "change":
            for key, value in batch:
                if value is not None:
                    entries, model[key] = entries.set(key, value), value
                elif key in model:
                    entries = entries.remove(key)
                    del model[key]
                versions.append((entries, dict(model)))
        elif step == "update":
            batch += [(f"key/{n:03d}", n) for n in range(seed % 400)]
            entries = entries.update(batch)
            model.update(batch)
        elif step == "save":
            entries = Map.decode(entries.save(objects).encode(), objects)
        elif step == "hash":
            assert entries.hash
        else:
            entries, model = versions[seed % len(versions)]
        versions.append((entries, model))
    for version, expected in versions[-20:]:
        in_order = sorted(expected.items(), key=lambda entry: entry[0].encode())
        assert list(version.items()) == in_order
        assert list(version) == [key for key, _ in in_order]
        assert list(version.values()) == [value for _, value in in_order]
        assert list(reversed(version)) == [key for key, _ in in_order][::-1]
        assert len(version) == len(expected)
    assert entries == Map(model)
    assert entries.save(objects).encode() == Map(dict(sorted(model.items()))).save(Memory()).encode()


@given(
    st.dictionaries(keys, some, max_size=200),
    changes,
    st.text(st.sampled_from("ab/ké"), max_size=3),
    st.data(),
)
@few
def test_scans_are_ranges_of_the_sorted_keys(
    model: dict[str, Any], batch: list[tuple[str, Any]], prefix: str, data: st.DataObject
) -> None:
    entries = Map(model).save(Memory()).update(batch)
    model = {**model, **dict(batch)}
    start, stop = data.draw(st.none() | keys), data.draw(st.none() | keys)
    expected = [
        (key, model[key])
        for key in sorted(model, key=str.encode)
        if key.startswith(prefix)
        and (start is None or key.encode() >= start.encode())
        and (stop is None or key.encode() < stop.encode())
    ]
    assert list(entries.scan(prefix, start, stop)) == expected
    assert list(entries.scan(prefix, start, stop, reverse=True)) == expected[::-1]


def test_get_contains_and_missing_keys() -> None:
    entries = Map({"a": 1, "b": None}).set("c", 3).remove("a")
    assert (entries.get("a"), entries.get("c"), entries["b"]) == (None, 3, None)
    assert "b" in entries
    assert "a" not in entries
    assert 5 not in entries  # type: ignore[comparison-overlap]
    assert "\ud800" not in entries
    with pytest.raises(KeyError, match="no key 'a' in a map of 2"):
        entries["a"]
    with pytest.raises(KeyError, match="no key 'a'"):
        entries.remove("a")


@pytest.mark.parametrize("key", ["x" * 257, "é" * 129, "\ud800", 5, None])
def test_keys_that_cannot_be_kept_are_refused(key: Any) -> None:
    with pytest.raises(InvalidOperation, match="a key of a Map"):
        Map[int]().set(key, 1)


def test_the_longest_key_is_kept() -> None:
    assert Map({"é" * 128: 1}).save(Memory())["é" * 128] == 1


def test_many_keys_through_several_levels() -> None:
    objects = Memory()
    model: dict[str, Any] = {f"path/{n * 7919 % 20_000:05d}": n for n in range(20_000)}
    entries = Map(model).save(objects)
    stored = len(objects.data)
    changed = entries.set("path/00777", "new").remove("path/13000")
    assert len(changed) == 19_999
    assert [key for key, _ in changed.scan(start="path/12999", stop="path/13002")] == [
        "path/12999",
        "path/13001",
    ]
    changed.save(objects)
    assert len(objects.data) - stored <= 10
    assert changed.set("path/13000", model["path/13000"]).set("path/00777", model["path/00777"]) == entries


def test_setting_the_same_value_changes_nothing() -> None:
    entries = Map({f"{n}": n for n in range(1000)}).save(Memory())
    assert entries.set("5", 5).hash == entries.hash
    assert entries.set("5", 6).set("5", 5).encode() == entries.encode()


def test_a_scan_keeps_what_it_began_with() -> None:
    entries: Map[Any] = Map({f"{n:03d}": n for n in range(100)})
    scan = entries.scan()
    assert next(scan) == ("000", 0)
    entries.set("001", "later").hash  # noqa: B018
    assert next(scan) == ("001", 1)


def test_large_values_of_a_map_are_objects() -> None:
    objects = Memory()
    entries = Map({"small": "x" * 120, "large": "y" * 130}).save(objects)
    assert len(objects.data) == 1
    assert Map.decode(entries.encode(), objects)["large"] == "y" * 130


def test_threads_may_change_the_same_version() -> None:
    start = Map({"a": 0}).set("b", 0)
    results: list[tuple[int, Map[int]]] = []

    def change(name: int) -> None:
        entries = start
        for n in range(200):
            entries = entries.set(f"{n}", name)
        results.append((name, entries))

    threads = [threading.Thread(target=change, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name, entries in results:
        assert dict(entries) == {"a": 0, "b": 0, **{f"{n}": name for n in range(200)}}
    assert dict(start) == {"a": 0, "b": 0}


# Nested collections and states


class Msg(msgspec.Struct):
    role: str
    text: str = ""


class Inner(msgspec.Struct):
    log: List[Msg]
    note: str = ""


class State(msgspec.Struct):
    messages: List[Msg] = msgspec.field(default_factory=List[Msg])
    index: Map[int] = msgspec.field(default_factory=Map[int])
    anything: List[Any] | None = None
    inner: Inner | None = None
    by_name: dict[str, List[Any]] = {}
    count: int = 0


def test_collections_inside_values_come_back_before_and_after_saving() -> None:
    objects = Memory()
    inner = Map({f"{n}": n for n in range(2_000)})
    entries: List[Any] = List([{"deep": [inner, List(range(2_000))]}, List([1, List([2])])])
    for version in (entries, entries.save(objects), List.decode(entries.save(objects).encode(), objects)):
        assert version[0]["deep"][0] == inner
        assert list(version[0]["deep"][1]) == list(range(2_000))
        assert version[1][1][0] == 2
    both: Map[Any] = Map({"a": entries})
    again = both.set("b", inner).save(objects)
    objects.forget()
    decoded: Map[Any] = Map.decode(again.encode(), objects)
    assert decoded["b"]["1999"] == 1_999
    assert list(decoded["a"][0]["deep"][1])[-1] == 1_999


def test_nested_content_counts_not_how_it_came_about() -> None:
    saved = List(range(3_000)).save(Memory())
    grown: List[Any] = List()
    for n in range(3_000):
        grown = grown.append(n)
    assert List([grown]) == List([saved])
    assert Map({"a": saved}) == Map({"a": grown})


def test_a_saved_state_holds_no_nodes_and_equals_the_old_one() -> None:
    objects = Memory()
    messages = [Msg("user", "x" * n) for n in range(500)]
    state = State(List(messages), Map({"a": 1}), List([1]), Inner(List([Msg("system")])), {"b": List(range(999))}, 7)
    data, saved = encode_state(state, objects)
    assert not saved.messages.pending()
    assert not saved.by_name["b"].pending()
    assert (saved.count, saved.inner is not None) == (7, True)
    objects.forget()
    decoded = decode_state(data, State, objects)
    assert decoded.messages[3] == Msg("user", "xxx")
    assert decoded.inner.log[0] == Msg("system")
    assert list(decoded.by_name["b"]) == list(range(999))
    assert decoded == state
    assert encode_state(decoded, objects)[0] == data
    assert state_hash(state) == state_hash(saved) == state_hash(decoded)
    assert state_hash(msgspec.structs.replace(state, messages=state.messages.append(Msg("user")))) != state_hash(state)


def test_a_collection_made_from_its_alias_is_bound() -> None:
    state = State()
    assert state.messages.append(Msg("user"))[0] == Msg("user")
    assert Map[Msg]({"a": Msg("user")})["a"] == Msg("user")
    plain: List[Any] = List([Msg("user")])
    assert plain[0] == {"role": "user", "text": ""}
    assert List([Msg("user")]).bind(Msg).save(Memory()).append(Msg("b"))[0] == Msg("user")


def test_states_are_encoded_with_sorted_keys() -> None:
    objects = Memory()
    assert encode_state({"b": 1, "a": [2]}, objects)[0] == encode_state({"a": [2], "b": 1}, objects)[0]
    assert state_hash({"b": 1, "a": List([1])}) == state_hash({"a": List([1]), "b": 1})


def test_plain_states_are_returned_as_they_are() -> None:
    state = {"a": [1, (2, 3)], "b": State}
    assert encode_state(state["a"], Memory())[1] is state["a"]
    pair = (List(range(2_000)), 1)
    saved = encode_state(pair, Memory())[1]
    assert saved == pair
    assert not saved[0].pending()


def test_states_that_do_not_fit_are_refused() -> None:
    objects = Memory()
    with pytest.raises(InvalidOperation):
        encode_state({"a": object()}, objects)
    data, _ = encode_state({"messages": 5}, objects)
    with pytest.raises(InvalidOperation, match="messages"):
        decode_state(data, State, objects)
    data, _ = encode_state({"messages": Map()}, objects)
    with pytest.raises(InvalidOperation, match="messages"):
        decode_state(data, State, objects)
    with pytest.raises(CorruptStore):
        decode_state(b"\xc1", Any, objects)
    with pytest.raises(InvalidOperation, match="element type"):
        List([1]).bind(str)[0]


def test_other_types_plug_in_as_extensions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "_EXTENSIONS", dict(values._EXTENSIONS))

    class Mark:
        def __init__(self, name: bytes) -> None:
            self.name = name

    register_extension(99, Extension(Mark, lambda mark: mark.name, lambda data, _: Mark(data)))
    assert List([{"a": Mark(b"x")}]).save(Memory())[0]["a"].name == b"x"
    data, _ = encode_state({"a": Mark(b"y")}, Memory())
    assert decode_state(data, dict[str, Mark], None)["a"].name == b"y"


# Diff


def applied(a: list[Any], changes: list[Change]) -> list[Any]:
    """What the changes make of `a`."""
    result = list(a)
    for change in reversed([change for change in changes if change.op != "add"]):
        if change.op == "change":
            result[change.a] = change.after
        else:
            assert result[change.a] == change.before
            del result[change.a]
    for change in changes:
        if change.op == "add":
            result.insert(change.b, change.after)
    return result


@given(
    st.integers(0, 20),
    sizes,
    st.lists(st.tuples(st.booleans(), st.integers(0, 10**6), st.integers(0, 40)), max_size=6),
)
@few
def test_a_diff_of_lists_leads_from_one_to_the_other(seed: int, size: int, edits: list[tuple[bool, int, int]]) -> None:
    model = pattern(seed, size * 4)
    other = list(model)
    for insert, at, n in edits:
        at %= len(other) + 1
        other[at : at + (0 if insert else n)] = pattern(at, n) if insert else []
    found = diff_lists(List(model).save(Memory()), List(other))
    assert applied(model, found) == other
    assert all(change.before != change.after for change in found)
    assert bool(found) == (model != other)


def test_a_diff_finds_just_the_edit() -> None:
    entries = List([f"{n}" * 30 for n in range(5_000)])
    assert diff_lists(entries, entries) == []
    assert diff_lists(entries, entries.set(70, "new")) == [Change("change", 70, 70, "70" * 30, "new")]
    assert diff_lists(entries, entries.delete(4_000, 4_002)) == [
        Change("remove", 4_000, None, "4000" * 30, None),
        Change("remove", 4_001, None, "4001" * 30, None),
    ]
    assert diff_lists(entries.append("x"), entries) == [Change("remove", 5_000, None, "x", None)]
    assert diff_lists(entries, entries.insert(0, "x")) == [Change("add", None, 0, None, "x")]
    assert diff_lists(List([1], [1]), List([1], [2])) == [Change("change", 0, 0, 1, 1)]


@given(st.dictionaries(keys, some, max_size=300), changes, st.integers(0, 400))
@few
def test_a_diff_of_maps_is_what_differs(model: dict[str, Any], batch: list[tuple[str, Any]], n: int) -> None:
    model |= {f"key/{k:03d}": k for k in range(n)}
    other = {key: value for key, value in {**model, **dict(batch)}.items() if value is not None}
    found = diff_maps(Map(model).save(Memory()), Map(other))
    expected = [
        Change("add", None, key, None, other[key])
        if key not in model
        else Change("remove", key, None, model[key], None)
        if key not in other
        else Change("change", key, key, model[key], other[key])
        for key in sorted(model.keys() | other.keys(), key=str.encode)
        if key not in model or key not in other or model[key] != other[key]
    ]
    assert found == expected


def test_a_diff_loads_as_much_as_it_finds() -> None:
    objects = Memory()
    entries = List([f"message {n} " + "x" * 150 for n in range(20_000)]).save(objects)
    edited = entries.set(12_345, "other").save(objects)
    mapping: Map[Any] = Map({f"{n}": n for n in range(20_000)}).save(objects)
    changed = mapping.set("12345", 0).save(objects)
    objects.forget()
    assert len(diff_lists(entries, edited)) == 1
    assert objects.loads <= 12
    objects.forget()
    assert diff_maps(mapping, changed) == [Change("change", "12345", "12345", 12_345, 0)]
    assert objects.loads <= 12


def test_only_lists_of_one_kind_are_compared() -> None:
    with pytest.raises(InvalidOperation, match="cannot be compared"):
        diff_lists(List(), [])  # type: ignore[arg-type]
