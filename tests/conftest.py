"""Stores that repeat exactly, and how much the property tests try.

A test's store lies in its own `tmp_path`, is `relaxed` (no test of this suite pulls the plug), and takes its clock and
its salts from counters, so that two runs give the same ids. `--hypothesis-profile=ci` tries more, `soak` for long.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from blake3 import blake3
from hypothesis import HealthCheck, settings

import chronicle_py as chronicle
from chronicle_py import Branch, Store

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
# The default repeats exactly, so that a change is judged by the same programs each time; `soak` looks for new ones.
settings.register_profile("default", deadline=None, max_examples=60, suppress_health_check=_SLOW, derandomize=True)
settings.register_profile("ci", deadline=None, max_examples=300, suppress_health_check=_SLOW, print_blob=True)
settings.register_profile("soak", deadline=None, max_examples=5_000, suppress_health_check=_SLOW, print_blob=True)
settings.load_profile("default")


class Clock:
    """A clock that ticks once a look."""

    def __init__(self, start: int = 1_700_000_000_000_000) -> None:
        self.now = start

    def __call__(self) -> int:
        self.now += 1
        return self.now


class Entropy:
    """Bytes that look random and are a function of how often they were asked for."""

    def __init__(self) -> None:
        self.drawn = 0

    def __call__(self, size: int) -> bytes:
        self.drawn += 1
        return blake3(self.drawn.to_bytes(8, "big")).digest(length=size)


class Opener(Protocol):
    def __call__(self, path: Path | None = None, **options: Any) -> Store: ...


@pytest.fixture
def opener(tmp_path: Path) -> Iterator[Opener]:
    """Opens stores (at `tmp_path / "store"` unless told otherwise) with one clock and entropy; closes them."""
    clock, entropy = Clock(), Entropy()
    opened: list[Store] = []

    def open_store(path: Path | None = None, **options: Any) -> Store:
        given = {"durability": "relaxed", "clock": clock, "entropy": entropy, **options}
        store = chronicle.open(tmp_path / "store" if path is None else path, **given)
        opened.append(store)
        return store

    yield open_store
    for store in opened:
        store.close()


@pytest.fixture
def store(opener: Opener) -> Store:
    """A new store."""
    return opener()


@pytest.fixture
def main(store: Store) -> Branch:
    """The `main` branch of `store`."""
    return store.branch()
