"""The branch graph and the one-line previews, which are plain functions."""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronicle_py import Event
from chronicle_py.cli.graph import GAP, JOIN, NODE, Limb, Tip, limbs, rows, shared
from chronicle_py.cli.output import count, size, when
from chronicle_py.cli.preview import clean, compact, cut, event_line, item_line
from chronicle_py.event import BlobRef, encode_payload

Branches = dict[str, list[str]]


def draw(branches: Branches, limit: int | None = None) -> list[str]:
    """The graph of branches given as lists of ids; each row with the ids it stands for."""
    tips = [Tip(name, len(ids)) for name, ids in branches.items()]
    found = []
    for trunk in limbs(tips, lambda name, seq: branches[name][seq - 1]):
        for row in rows(trunk, limit):
            if row.kind == NODE:
                found += [f"{row.graph} {branches[row.branch][seq - 1]}" for seq in range(row.first, row.last - 1, -1)]
            else:
                found.append(row.graph + (f" {row.first - row.last + 1}" if row.kind == GAP else ""))
    return found


def test_one_branch_is_a_line() -> None:
    assert draw({"main": ["a", "b", "c"]}) == ["● c", "● b", "● a"]


def test_a_fork_leaves_to_the_right() -> None:
    assert draw({"main": ["a", "b", "c"], "x": ["a", "p", "q"]}) == ["● c", "● b", "│ ● q", "│ ● p", "├─╯", "● a"]


def test_forks_of_forks_nest() -> None:
    branches = {"main": list("abc"), "x": list("apqr"), "y": list("apst"), "z": list("apqv")}
    assert draw(branches) == [
        "● c", "● b", "│ ● r", "│ │ ● v", "│ ├─╯", "│ ● q", "│ │ ● t", "│ │ ● s", "│ ├─╯", "│ ● p", "├─╯", "● a",
    ]  # fmt: skip


def test_a_branch_that_ends_on_another_draws_nothing_of_its_own() -> None:
    assert draw({"main": ["a", "b", "c"], "x": ["a", "b"]}) == ["● c", "● b", "● a"]


def test_a_branch_that_goes_on_from_anothers_head_stands_above_it() -> None:
    assert draw({"main": ["a"], "x": ["a", "b"]}) == ["│ ● b", "├─╯", "● a"]


def test_orphans_are_trunks_of_their_own() -> None:
    assert draw({"main": ["a"], "x": ["p"], "empty": []}) == ["● a", "● p"]


def test_long_stretches_have_gaps() -> None:
    branches = {"main": [f"m{i}" for i in range(1, 31)], "x": ["m1", "m2", "m3", *[f"x{i}" for i in range(20)]]}
    assert draw(branches, 2) == [
        "● m30", "● m29", "⋮ 24", "● m4", "│ ● x19", "│ ● x18", "│ ⋮ 17", "│ ● x0", "├─╯", "● m3", "● m2", "● m1",
    ]  # fmt: skip


trees = st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100), st.integers(0, 12)), max_size=8)


def grown(script: list[tuple[int, int, int]]) -> Branches:
    """Branches that leave others at random places."""
    branches: Branches = {"main": [f"main{i}" for i in range(10)]}
    for number, (parent, at, length) in enumerate(script):
        ids = branches[list(branches)[parent % len(branches)]]
        name = f"b{number}"
        branches[name] = ids[: at % (len(ids) + 1)] + [f"{name}.{i}" for i in range(length)]
    return branches


@given(trees)
def test_every_event_is_drawn_once_after_all_that_follow_it(script: list[tuple[int, int, int]]) -> None:
    branches = grown(script)
    drawn = [line.split()[-1] for line in draw(branches) if NODE in line]
    assert sorted(drawn) == sorted({id for ids in branches.values() for id in ids})
    at = {id: place for place, id in enumerate(drawn)}
    for ids in branches.values():
        assert all(at[earlier] > at[later] for earlier, later in pairwise(ids))


@given(trees, st.integers(1, 5))
def test_with_gaps_every_event_is_drawn_or_counted(script: list[tuple[int, int, int]], limit: int) -> None:
    branches = grown(script)
    lines = draw(branches, limit)
    hidden = sum(int(line.split()[-1]) for line in lines if GAP in line)
    drawn = [line.split()[-1] for line in lines if NODE in line]
    assert len(drawn) + hidden == len({id for ids in branches.values() for id in ids})
    assert {ids[-1] for ids in branches.values() if ids} <= set(drawn)


@given(trees)
def test_every_row_hangs_together(script: list[tuple[int, int, int]]) -> None:
    """Below a limb's last row comes the joint that leads back to the column it left."""
    depth = 0
    for line in draw(grown(script)):
        if line.endswith(JOIN):
            assert line.count("│") == depth - 1
            depth -= 1
        else:
            depth = line.count("│")


def test_the_common_part_is_found_in_few_looks() -> None:
    looks = []

    def id_at(name: str, seq: int) -> str:
        looks.append(seq)
        return f"{seq}" if seq <= 77_777 else f"{name}{seq}"

    assert shared(Tip("a", 100_000), Tip("b", 90_000), id_at) == 77_777
    assert len(looks) <= 36


def test_a_limb_owns_what_is_above_its_base() -> None:
    limb = Limb("x", 3, 5)
    assert [seq for seq in range(8) if limb.own(seq)] == [4, 5]


# --- previews -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("item", "line"),
    [
        ({"role": "user", "content": " Hello\n  world "}, "user: Hello world"),
        ({"role": "user", "content": "a\x1b[31mb\x07c"}, "user: a [31mb c"),
        ({"role": "user"}, "user:"),
        ({"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "image"}]}, "user: Hi <image>"),
        (
            {"role": "assistant", "content": [{"type": "tool_use", "name": "ls", "input": {"path": "a", "all": True}}]},
            "assistant: → ls(a, true)",
        ),
        ({"role": "user", "content": [{"type": "tool_result", "content": [{"text": "ok"}]}]}, "user: ok"),
        ({"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm"}, "x"]}, "assistant: (Hm) x"),
        (
            {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "not json"}}]},
            "assistant: → f(not json)",
        ),
        ({"role": "assistant", "content": "x", "tool_calls": "raw"}, "assistant: x"),
        ({"role": 1}, '{"role":1}'),
        ([1, b"\0", BlobRef("ab" * 32)], f'[1,{{"$bytes":"AA=="}},{{"$blob":"{"ab" * 32}"}}]'),
        ("text\n", "text"),
        (None, "null"),
    ],
)  # fmt: skip
def test_an_item_on_one_line(item: Any, line: str) -> None:
    assert item_line(item) == line


def test_words_make_room_for_the_tool() -> None:
    call = {"function": {"name": "bash", "arguments": '{"command": "pytest -q"}'}}
    line = item_line({"role": "assistant", "content": "word " * 50, "tool_calls": [call]}, 60)
    assert line == "assistant: word word word word word word … → bash(pytest -q)"


@given(
    st.recursive(
        st.text() | st.integers() | st.binary() | st.none(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_any_item_is_one_printable_line(item: Any) -> None:
    for line in (item_line(item, 80), item_line({"role": "r", "content": item}, 80), compact(item)[:80]):
        assert line.isprintable()
        assert len(line) <= 80


def event(type: str, payload: Any, slot: str | None = "s") -> Event:
    raw = msgspec.Raw(encode_payload(payload))
    return Event(b"\1" * 32, type, 0, b"", 1, slot, 0, None, b"", raw)


@pytest.mark.parametrize(
    ("type", "payload", "kind", "line"),
    [
        ("state.append", {"role": "user", "content": "Hi"}, "append_log", "s + user: Hi"),
        ("state.edit", {"index": 3, "item": 7}, "append_log", "s [3] = 7"),
        ("state.redact", {"start": 1, "stop": 4}, "append_log", "s [1:4] taken out"),
        ("state.set", [1, 2], "append_log", "s = [1,2]"),
        ("state.put", {"path": "a/b", "value": None}, "tree", "s a/b = null"),
        ("state.remove", {"path": "a/b"}, "tree", "s a/b removed"),
        ("state.batch", [{"path": "a", "value": 1}, {"path": "b"}], "tree", "s a = 1; b removed"),
        ("state.patch", {"x": None}, "document", 's patched with {"x":null}'),
        ("state.append", {"path": ["a", 0], "item": 5}, "document", 's ["a",0] + 5'),
        ("state.edit", "garbage", "append_log", "s state.edit garbage"),
        ("tick", 1, "custom", "s tick 1"),
    ],
)
def test_an_operation_on_one_line(type: str, payload: Any, kind: str, line: str) -> None:
    assert event_line(event(type, payload), {"s": kind}) == line


def test_an_event_of_ones_own_on_one_line() -> None:
    assert event_line(event("note", {"a": 1}, None), {}) == 'note {"a":1}'
    assert event_line(
        event("state.append", {"role": "user", "content": "Hi"}, "messages"), {"messages": "append_log"}
    ) == ("user: Hi")


def test_what_cannot_be_read_is_said_so() -> None:
    deep: list[Any] = []
    for _ in range(sys.getrecursionlimit()):
        deep = [deep]
    assert compact(deep) == "(nested too deeply to be shown)"
    torn = Event(b"\1" * 32, "note", 0, b"", 1, None, 0, None, b"", msgspec.Raw(b"\xc1"))
    assert event_line(torn, {}) == "note (its payload cannot be read)"


def test_small_things() -> None:
    assert (cut("abcdef", 4), cut("abc", 4), clean("a\tb")) == ("abc…", "abc", "a b")
    assert (count(1, "branch"), count(2_000, "branch"), count(2, "event")) == ("1 branch", "2,000 branches", "2 events")
    assert (size(0), size(1023), size(1536), size(5 << 30)) == ("0 bytes", "1023 bytes", "1.5 KiB", "5.0 GiB")
    assert (when(None), when(10**30)) == ("-", f"{10**30} µs")
