"""A run of the figures: pytest with pytest-benchmark, which `python -m bench` starts and takes the rows from."""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path

import pytest
from rich.status import Status

from bench.figure import Figure

ROWS = pytest.StashKey[list[Figure]]()
_HERE = Path(__file__).parent


class Run:
    """A pytest plugin that keeps the rows and says which figure is being measured."""

    def __init__(self, status: Status, count: int) -> None:
        self.rows: list[Figure] = []
        self._status = status
        self._count = count

    def pytest_configure(self, config: pytest.Config) -> None:
        config.stash[ROWS] = self.rows

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._status.update(f"{len(self.rows) + 1}/{self._count} {nodeid.partition('[')[2].rstrip(']')}")


def run(arguments: list[str], status: Status, count: int) -> list[Figure]:
    """The rows of the figures that these options of bench/conftest.py select. What pytest prints is not shown."""
    plugin = Run(status, count)
    printed = io.StringIO()
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "filterwarnings=ignore", "--benchmark-quiet"]
    with contextlib.redirect_stdout(printed):
        code = pytest.main(
            [str(_HERE / "test_figures.py"), "--rootdir", str(_HERE.parent), *options, *arguments], [plugin]
        )
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        sys.stderr.write(printed.getvalue())
    return plugin.rows
