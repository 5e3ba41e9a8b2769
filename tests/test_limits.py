"""The limits that docs/reliability.md states, each with its error; and what a store's files may do to whom."""

from __future__ import annotations

import ast
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Opener
from script import run
from test_imports import TREES

import chronicle_py as chronicle
from chronicle_py import Branch, InvalidName, InvalidOperation, Store, event, objects, slots


def deep(levels: int, inside: Any = 1) -> Any:
    for _ in range(levels):
        inside = [inside]
    return inside


def unchanged(store: Store) -> tuple[int, int, int]:
    found = store.stats()
    return found.events, found.branches, found.slots


NAMES: dict[str, Callable[[Store, str], object]] = {
    "branch": lambda store, name: store.branch().fork(name),
    "slot": lambda store, name: store.register_state(name, kind="value"),
    "type": lambda store, name: store.branch().append(name, 1),
    "namespace": lambda store, name: store.namespace(name),
}


@pytest.mark.parametrize("what", NAMES)
def test_a_name_has_255_bytes_at_most(store: Store, what: str) -> None:
    for longest in ("x" * 255, "ü" * 127 + "x"):
        NAMES[what](store, longest)
    before = unchanged(store)
    for name in ("x" * 256, "ü" * 128, "", "a\nb"):
        with pytest.raises(InvalidName):
            NAMES[what](store, name)
    assert unchanged(store) == before
    assert store.verify(deep=True).ok


def test_a_payload_has_a_limit(main: Branch, monkeypatch: pytest.MonkeyPatch) -> None:
    assert event.MAX_PAYLOAD == 1 << 30
    monkeypatch.setattr(event, "MAX_PAYLOAD", 1000)
    main.append("note", b"x" * 997)
    with pytest.raises(InvalidOperation, match=r"takes 1,001 bytes and the limit is 1,000"):
        main.append("note", b"x" * 998)
    assert main.seq == 1


def test_a_blob_has_a_limit(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    assert objects.MAX_BLOB == 1 << 30
    monkeypatch.setattr(objects, "MAX_BLOB", 1000)
    store.put_blob(bytes(1000))
    with pytest.raises(InvalidOperation, match=r"at most 1,000 bytes, this one has 1,001"):
        store.put_blob(bytes(1001))
    assert store.stats().objects == 1


def test_slots_have_a_limit(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    assert slots.MAX_SLOTS == 1 << 20
    monkeypatch.setattr(slots, "MAX_SLOTS", 2)
    store.register_state("a", kind="value")
    store.register_state("b", kind="value")
    with pytest.raises(InvalidOperation, match="at most 2 slots"):
        store.register_state("c", kind="value")
    assert [slot.id for slot in store.slots()] == ["a", "b"]


WRITES: dict[str, Callable[[Branch, Any], object]] = {
    "append": lambda main, value: main.append("note", value),
    "item": lambda main, value: main.state("append_log").append(value),
    "items": lambda main, value: main.state("append_log").set([value]),
    "value": lambda main, value: main.state("value").set(value),
    "tree": lambda main, value: main.state("tree").put("a", value),
    "batch": lambda main, value: main.state("tree").batch([("put", "a", value)]),
    "document": lambda main, value: main.state("document").set({"a": value}),
    "patch": lambda main, value: main.state("document").patch({"a": value}),
}


@pytest.mark.parametrize("how", WRITES)
@pytest.mark.parametrize("shape", ["lists", "objects"])
def test_nesting_has_a_limit(store: Store, main: Branch, how: str, shape: str) -> None:
    for kind in ("append_log", "value", "tree", "document"):
        store.register_state(kind, kind=kind)
    value: Any = 1
    for _ in range(10_000):
        value = [value] if shape == "lists" else {"a": value}
    with pytest.raises(InvalidOperation):
        WRITES[how](main, value)
    assert main.seq == 0
    WRITES[how](main, deep(100))
    assert main.seq == 1
    main.state("append_log").hash, main.state("document").hash, main.state("tree").hash


def test_a_path_of_a_tree_has_256_bytes_at_most(store: Store, main: Branch) -> None:
    store.register_state("files", kind="tree")
    main.state("files").put("ü" * 128, 1)
    with pytest.raises(InvalidOperation, match="at most 256 bytes"):
        main.state("files").put("ü" * 128 + "x", 1)
    assert list(main.state("files")) == ["ü" * 128]


def test_an_event_may_name_hundreds_of_causes(store: Store, main: Branch) -> None:
    with store.transaction():
        causes = [main.append("note", n).id for n in range(500)]
    effect = main.append("effect", None, caused_by=causes, linked_to=causes)
    assert main.event(effect.seq).caused_by == tuple(causes)
    assert [found.id for found in store.effects(causes[123])] == [effect.id]
    assert store.verify().ok


def test_thousands_of_branches_and_lineages(store: Store, main: Branch) -> None:
    main.append("note", 0)
    with store.transaction():
        for n in range(2000):
            main.fork(f"branch {n}").append("note", n)
    assert (store.stats().branches, store.stats().lineages) == (2001, 2001)
    assert store.branch("branch 1999").event(2).payload == 1999


@pytest.mark.parametrize("size", [0, (1 << 20) - 1, (64 << 40) + 1, "1 GiB", 2.5])
def test_the_map_has_limits(tmp_path: Path, size: Any) -> None:
    with pytest.raises(InvalidOperation, match="map_size is a number of bytes from 1,048,576 to 70,368,744,177,664"):
        chronicle.open(tmp_path / "store", map_size=size)


# --- files ------------------------------------------------------------------------------------------------------------


def test_what_is_made_is_for_its_owner_only(tmp_path: Path) -> None:
    run(
        """
        os.umask(0)
        with chronicle.open(path) as store:
            store.branch().append("note", 1)
        with chronicle.open(path + ".folder/") as store:
            pass
        chronicle.salvage(path, path + ".saved", leftovers=path + ".left")
        sys.argv[1:] = ["export", "-s", path, "-o", path + ".jsonl"]
        from chronicle_py.cli import main
        try:
            main()
        except SystemExit as ended:
            assert not ended.code, ended.code
        """,
        tmp_path / "store",
    )
    made = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    assert {path.name for path in made} == {
        "store", "store-lock", "store.saved", "store.left", "store.jsonl", "chronicle.lmdb", "chronicle.lmdb-lock",
    }  # fmt: skip
    assert {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in made} == {p.name: "0o600" for p in made}


def test_a_file_that_is_there_keeps_its_mode(opener: Opener, tmp_path: Path) -> None:
    opener().close()
    os.chmod(tmp_path / "store", 0o640)
    opener().branch().append("note", 1)
    assert stat.S_IMODE((tmp_path / "store").stat().st_mode) == 0o640


RUNS_CODE = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "yaml", "importlib", "runpy", "code"}
BY_NAMES_IN_THE_SOURCE = {  # modules of this package, and a file of it
    ("chronicle_py.context", "importlib"), ("chronicle_py.context.tokens", "importlib.resources"),
}  # fmt: skip
RUNNING_CALLS = {"eval", "exec", "compile", "__import__"}


@pytest.mark.parametrize("name", sorted(TREES))
def test_nothing_in_the_package_turns_data_into_code(name: str) -> None:
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.Import):
            assert not RUNS_CODE & {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            if (name, node.module) not in BY_NAMES_IN_THE_SOURCE:
                assert (node.module or "").split(".")[0] not in RUNS_CODE
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in RUNNING_CALLS, f"{name}:{node.lineno}"
