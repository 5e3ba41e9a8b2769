"""For `pytest bench`: one session for all figures, so that stores are built once; the figures chosen by options."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.figure import Figure
from bench.registry import selected
from bench.running import ROWS
from bench.stores import Session


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("figures")
    group.addoption("--thorough", action="store_true", help="all rounds and sizes, as `make bench` has them")
    group.addoption("--peers", action="store_true", help="other libraries too")
    group.addoption("--only", default="", help="figures whose name, group or library contains this")
    group.addoption("--folder", default=None, help="where to build the stores; the system's temporary folder")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "entry" in metafunc.fixturenames:
        option = metafunc.config.getoption
        entries = selected(str(option("--only")), peers=bool(option("--peers")))
        metafunc.parametrize("entry", entries, ids=[f"{entry.group}: {entry.name}" for entry in entries])


@pytest.fixture(scope="session")
def session(pytestconfig: pytest.Config) -> Iterator[Session]:
    option = pytestconfig.getoption
    with tempfile.TemporaryDirectory(prefix="chronicle-bench-", dir=option("--folder")) as folder:
        yield Session(Path(folder), quick=not option("--thorough"))


@pytest.fixture
def rows(pytestconfig: pytest.Config) -> list[Figure]:
    """The rows measured so far."""
    return pytestconfig.stash.setdefault(ROWS, [])
