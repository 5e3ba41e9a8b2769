"""The rules of the house, read off the source: who may import what, and the public names and signatures."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import chronicle_py as chronicle
from chronicle_py import Branch, DocumentView, Event, LogView, Namespace, Replay, Report, Store, TreeView, ValueView

HOME = Path(__file__).resolve().parent.parent
PACKAGE = "chronicle_py"

FILES = {
    **{
        ".".join((PACKAGE, *path.relative_to(HOME / PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): path
        for path in (HOME / PACKAGE).rglob("*.py")
    },
    **{
        ".".join((PACKAGE, "strategies", *path.relative_to(HOME / "strategies").with_suffix("").parts)).removesuffix(
            ".__init__"
        ): path
        for path in (HOME / "strategies").rglob("*.py")
    },
}
TREES = {name: ast.parse(path.read_text(), str(path)) for name, path in FILES.items()}

PURE = [
    f"{PACKAGE}.{name}" for name in ("event", "errors", "names", "tree", "collections", "reducers", "document", "diff")
]
PURE += [name for name in FILES if name.startswith(f"{PACKAGE}.strategies")]
IMPURE_LIBRARIES = {
    "asyncio",
    "fcntl",
    "getpass",
    "glob",
    "http",
    "importlib",
    "io",
    "lmdb",
    "locale",
    "logging",
    "mmap",
    "multiprocessing",
    "os",
    "pathlib",
    "pickle",
    "platform",
    "random",
    "secrets",
    "select",
    "shelve",
    "shutil",
    "signal",
    "socket",
    "sqlite3",
    "subprocess",
    "sys",
    "tempfile",
    "time",
    "urllib",
    "uuid",
}
IMPURE_MODULES = {f"{PACKAGE}.{name}" for name in ("kv", "lmdb_kv", "engine", "store", "transaction", "branch", "cli")}
IMPURE_CALLS = {"open", "input", "print", "exec", "eval", "breakpoint", "__import__"}
IMPURE_METHODS = {"now", "utcnow", "today"}
ENGINE = [
    name
    for name in FILES
    if not name.startswith((f"{PACKAGE}.context", f"{PACKAGE}.strategies", f"{PACKAGE}.cli")) and name != PACKAGE
]


def at_run_time(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those below `if TYPE_CHECKING`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            continue
        yield child
        yield from at_run_time(child)


def imports(name: str, everything: bool = False) -> set[str]:
    """The modules that a module imports: those of this package by their full names, of others the top ones."""
    found: set[str] = set()
    for node in ast.walk(TREES[name]) if everything else at_run_time(TREES[name]):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} imports relatively"
            module = node.module or ""
            for alias in node.names:
                full = f"{module}.{alias.name}"
                found.add(full if full in FILES else module)
    return {module if module.startswith(PACKAGE) else module.split(".")[0] for module in found}


def reached(name: str) -> dict[str, str]:
    """The package's modules that importing this one brings along, each with the one that does."""
    found = {name: name}
    waiting = [name]
    while waiting:
        current = waiting.pop()
        for module in imports(current):
            if module in FILES and module not in found and module != PACKAGE:
                found[module] = current
                waiting.append(module)
    return found


def test_the_modules_of_the_design_are_there() -> None:
    expected = (
        "event", "errors", "kv", "lmdb_kv", "log", "branches", "objects", "tree", "collections", "reducers", "store",
        "verify", "cli", "strategies",
    )  # fmt: skip
    assert [name for name in expected if f"{PACKAGE}.{name}" not in FILES] == []


@pytest.mark.parametrize("name", sorted(PURE))
def test_the_pure_core_reads_no_clock_file_or_store(name: str) -> None:
    for module, because in reached(name).items():
        assert module not in IMPURE_MODULES, f"{because} imports {module}"
        assert imports(module) & IMPURE_LIBRARIES == set(), module
        for node in at_run_time(TREES[module]):
            if isinstance(node, ast.Call):
                called = node.func
                if isinstance(called, ast.Name):
                    assert called.id not in IMPURE_CALLS, f"{module}:{node.lineno}"
                if isinstance(called, ast.Attribute):
                    assert called.attr not in IMPURE_METHODS, f"{module}:{node.lineno}"


def test_only_two_modules_import_lmdb() -> None:
    users = {name for name in FILES if "lmdb" in imports(name, everything=True)}
    assert users == {f"{PACKAGE}.{name}" for name in ("lmdb_kv", "lmdb_env")}


def test_only_the_shell_names_the_lmdb_implementation() -> None:
    """What stands on `kv.py` shall not notice when another engine stands behind it."""
    users = {name for name in ENGINE if f"{PACKAGE}.lmdb_kv" in imports(name)}
    shell = {"engine", "store", "migrating", "rescue.finding", "rescue.salvaging", "rescue.verifying"}
    assert users - {f"{PACKAGE}.{name}" for name in shell} == set()


def test_the_command_is_imported_by_nobody() -> None:
    for name in FILES:
        if not name.startswith(f"{PACKAGE}.cli"):
            assert [module for module in imports(name, everything=True) if module.startswith(f"{PACKAGE}.cli")] == [], (
                name
            )


def test_the_engine_imports_neither_context_nor_strategies() -> None:
    above = (f"{PACKAGE}.context", f"{PACKAGE}.strategies")
    for name in ENGINE:
        assert [module for module in imports(name, everything=True) if module.startswith(above)] == [], name


def test_the_engine_needs_three_libraries() -> None:
    import sys

    used = set().union(*(imports(name) for name in ENGINE))
    foreign = {module for module in used if not module.startswith(PACKAGE) and module not in sys.stdlib_module_names}
    assert foreign == {"blake3", "lmdb", "msgspec"}


@pytest.mark.parametrize("name", sorted(FILES))
def test_every_module_opens_with_what_lives_there(name: str) -> None:
    if name.endswith("__main__"):
        return
    docstring = ast.get_docstring(TREES[name])
    assert docstring is not None
    assert docstring.split("\n")[0].rstrip().endswith((".", ":", "!", ";")) or len(docstring.split("\n")[0]) > 60


# --- public names -----------------------------------------------------------------------------------------------------

NAMES = [
    "open",
    "Store",
    "Branch",
    "Namespace",
    "BranchInfo",
    "Move",
    "Event",
    "Blob",
    "BlobRef",
    "Report",
    "Replay",
    "Change",
    "Followed",
    "BranchChange",
    "CaughtUp",
    "Gone",
    "Follower",
    "List",
    "Map",
    "Reducer",
    "reducer",
    "ChronicleError",
    "NotFound",
    "BranchExists",
    "StateExists",
    "StateNotRegistered",
    "Conflict",
    "InvalidName",
    "InvalidOperation",
    "CorruptStore",
    "StoreFull",
    "ReadOnly",
    "FormatVersion",
    "ReducerMissing",
    "ReducerFailed",
]

SIGNATURES: list[tuple[Any, str]] = [
    (chronicle.open, "path, durability='full', readonly=False, create=True, clock=None, entropy=None"),
    (Store.branch, "name='main'"),
    (Store.branches, ""),
    (Store.orphan, "name"),
    (Store.delete_branch, "name"),
    (Store.restore_branch, "name"),
    (Store.register_state, "id, kind=None, reducer=None, types=(), sources=(), initial=None"),
    (Store.register_event, "type, struct, version=1, upcast=None"),
    (Store.namespace, "prefix"),
    (Namespace.register_state, "id, kind=None, reducer=None, types=(), sources=(), initial=None"),
    (Namespace.state_id, "id"),
    (Store.event, "id"),
    (Store.effects, "id"),
    (Store.links, "id"),
    (Store.follow, "branch=None, types=None, slots=None, start=None, live=True"),
    (Store.put_blob, "data, media_type='application/octet-stream'"),
    (Store.get_blob, "hash"),
    (Store.transaction, ""),
    (Store.sync, ""),
    (Store.stats, ""),
    (Store.erase, "event, reason, progress=None"),
    (Store.close, ""),
    (Store.verify, "deep=False, progress=None"),
    (Branch.append, "type, payload, *, caused_by=(), linked_to=(), expect=None"),
    (Branch.aappend, "type, payload, *, caused_by=(), linked_to=(), expect=None"),
    (Branch.events, "start=1, stop=None, types=None, slot=None, reverse=False, limit=None"),
    (Branch.fork, "name, at=None"),
    (Branch.rewind, "to"),
    (Branch.reflog, ""),
    (Branch.state, "slot, at=None"),
    (Branch.diff, "slot, a, b"),
    (Branch.replay, "slot, progress=None"),
    (LogView.append, "item"),
    (LogView.edit, "index, item"),
    (LogView.redact, "start, stop"),
    (LogView.set, "items"),
    (LogView.tail, "n"),
    (LogView.origin, "index"),
    (LogView.edited, "index"),
    (LogView.raw, ""),
    (TreeView.put, "path, value"),
    (TreeView.remove, "path"),
    (TreeView.batch, "ops"),
    (TreeView.list, "prefix=''"),
    (ValueView.get, ""),
    (ValueView.set, "value"),
    (DocumentView.get, "path=()"),
    (DocumentView.set, "value"),
    (DocumentView.patch, "patch"),
]


def test_the_public_names_are_exported() -> None:
    assert [name for name in NAMES if name not in chronicle.__all__] == []
    assert [name for name in chronicle.__all__ if not hasattr(chronicle, name)] == []


@pytest.mark.parametrize(("function", "expected"), SIGNATURES, ids=lambda part: getattr(part, "__qualname__", ""))
def test_the_public_signatures(function: Any, expected: str) -> None:
    """Positional parameters are these, in this order and with these defaults; keyword-only ones may be more."""
    parameters = [p for p in inspect.signature(function).parameters.values() if p.name != "self"]
    wanted, _, keywords = expected.partition("*, ")
    positional = [p for p in parameters if p.kind is not p.KEYWORD_ONLY]
    shown = ", ".join(p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in positional)
    assert shown == wanted.rstrip(", ")
    named = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
    for keyword in filter(None, keywords.split(", ")):
        name, _, default = keyword.partition("=")
        assert repr(named[name]) == default
    assert all(p.default is not p.empty for p in parameters if p.kind is p.KEYWORD_ONLY)


def test_the_attributes_of_the_design(tmp_path: Path) -> None:
    with chronicle.open(tmp_path / "store") as store:
        main = store.branch()
        event = main.append("note", {"a": 1})
        assert (main.name, main.seq, main.head) == ("main", 1, event.id)
        for name in ["id", "seq", "type", "time", "payload", "parents", "slot", "caused_by", "linked_to"]:
            assert hasattr(event, name)
        assert (event.seq, event.type, event.payload, event.parents, event.slot) == (1, "note", {"a": 1}, (), None)
        assert (event.caused_by, event.linked_to) == ((), ())
        assert int(event.id, 16) > 0
        assert len(event.id) == 64
        report = store.verify()
        assert isinstance(report, Report)
        assert (report.ok, report.problems) == (True, [])
        store.register_state("log", kind="append_log")
        replay = main.replay("log")
        assert isinstance(replay, Replay)
        assert (replay.hash, replay.events) == (main.state("log").hash, 1)
        assert isinstance(event, Event)


def test_every_error_is_a_chronicle_error() -> None:
    errors = [getattr(chronicle, name) for name in chronicle.__all__]
    classes = [e for e in errors if inspect.isclass(e) and issubclass(e, Exception)]
    assert len(classes) >= 15
    assert all(issubclass(e, chronicle.ChronicleError) for e in classes)
