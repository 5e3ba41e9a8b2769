"""For `pytest bench`, which needs pytest-benchmark: one session for all suites, so that stores are built once."""

from __future__ import annotations

import pytest

from bench.stores import Session


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    return Session(tmp_path_factory.mktemp("bench"), quick=True)
