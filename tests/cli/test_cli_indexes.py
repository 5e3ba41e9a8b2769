"""The commands about indexes: index, indexes, find, and what others say of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_runner import Chronicle, in_folder

ORDERS = [{"by": {"e.mail": "a"}, "n": 3}, {"by": {"e.mail": "b"}, "n": 1}, {"n": 2.5}, {"by": 1, "n": "x"}]


@pytest.fixture
def chronicle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Chronicle:
    made = in_folder(tmp_path, monkeypatch)
    made("init")
    made("slots", "--add", "orders", "--kind", "append_log")
    made("slots", "--add", "files", "--kind", "tree")
    for order in ORDERS:
        made("append", "--slot", "orders", json.dumps(order))
    made("append", "--slot", "files", '{"a.py": {"size": 7}, "b.py": {"size": 9}, "c": "text"}')
    made("index", "orders", "n")
    made("index", "files", "size")
    return made


def test_an_index_is_made_once_and_listed(chronicle: Chronicle) -> None:
    assert chronicle.json("index", "orders", '["by", "e.mail"]') == {
        "slot": "orders", "path": ["by", "e.mail"], "indexed": 2, "unindexed": 2,
    }  # fmt: skip
    assert chronicle("index", "orders", "n") == "index of orders by n: 4 values, 0 without one on main\n"
    assert [(i["slot"], i["path"], i["kind"]) for i in chronicle.json("indexes")] == [
        ("files", ["size"], "tree"), ("orders", ["by", "e.mail"], "append_log"), ("orders", ["n"], "append_log"),
    ]  # fmt: skip
    assert "the values of a tree" in chronicle("indexes")
    chronicle("init", "--store", "empty")
    assert chronicle("indexes", "--store", "empty") == "no indexes; `chronicle index SLOT PATH` makes one\n"


def test_find_answers_in_the_order_of_values(chronicle: Chronicle) -> None:
    def places(*args: str) -> list[int | str]:
        return [match["at"] for match in chronicle.json("find", *args)["matches"]]

    assert places("orders", "n") == [1, 2, 0, 3]
    assert places("orders", "n", "--reverse", "-n", "2") == [3, 0]
    assert places("orders", "n", "--equal", "3.0") == [0]
    assert places("orders", "n", "--from", "2", "--to", "3") == [2, 0]
    assert places("orders", "n", "--from", "0", "--at", "2") == [1, 0]
    assert places("orders", "n", "--prefix", "x") == [3]
    assert places("files", "size", "--from", "8") == ["b.py"]
    found = chronicle.json("find", "orders", "n", "--equal", "1")
    assert found == {
        "slot": "orders", "path": "n", "branch": "main", "seq": 5, "found": 1,
        "matches": [{"at": 1, "item": ORDERS[1]}],
    }  # fmt: skip
    assert chronicle.lines("find", "orders", "n", "-n", "1") == [
        "orders by n on main at 5: 4 matches",
        '1 {"by":{"e.mail":"b"},"n":1}',
        "⋮ 3 more; --limit 0 shows all",
    ]


def test_counts_and_the_state_of_an_index(chronicle: Chronicle) -> None:
    assert chronicle.json("find", "files", "size", "--counts")["counts"] == [
        {"value": 7, "count": 1}, {"value": 9, "count": 1},
    ]  # fmt: skip
    assert chronicle.lines("find", "files", "size", "--counts", "--reverse") == ["count  value", "    1  9", "    1  7"]
    assert chronicle.json("state", "files#size")["value"] == [{"value": 7, "count": 1}, {"value": 9, "count": 1}]
    assert chronicle.lines("state", "files#size")[1:] == ["1 × 7", "1 × 9"]


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("find", "orders", "zz"), 1, "has no index by 'zz'"),
        (("find", "orders", "n", "--equal", "1", "--counts"), 2, "ask one thing"),
        (("find", "orders", "n", "--equal", "[1]"), 1, "an index holds None"),
        (("find", "orders", "n", "--equal", "x"), 2, "its own quotes"),
        (("find", "orders#n", "n"), 1, "has no index"),
        (("index", "nope", "n"), 1, "no slot 'nope'"),
        (("index", "orders", "a..b"), 1, "made of names"),
        (("index", "orders", '["a"'), 2, "no JSON"),
        (("append", "--slot", "orders#n", "1"), 1, "is an index"),
        (("diff", "orders#n", "1", "2"), 1, "is an index"),
    ],
)
def test_what_makes_no_sense_ends_with_one_line(
    chronicle: Chronicle, args: tuple[str, ...], code: int, said: str
) -> None:
    assert said in chronicle.fails(*args, code=code)
