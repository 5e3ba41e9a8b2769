"""For `pytest bench`, which needs pytest-benchmark: one session for all suites, so that stores are built once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.stores import Session


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    yield Session(tmp_path_factory.mktemp("bench"), quick=True)
