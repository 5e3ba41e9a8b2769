"""The store and the export that the first released format wrote: read as they are, migrated, written to."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import Opener
from public_calls import summing
from test_lmdb_kv import set_meta

import chronicle_py as chronicle
from chronicle_py import FormatVersion, NotFound, Store, records
from chronicle_py.exchange import import_file

DATA = Path(__file__).parent / "data"
sys.path.insert(0, str(DATA))

from format_1_writer import found  # noqa: E402


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "old"
    path.write_bytes(gzip.decompress((DATA / "format-1.store.gz").read_bytes()))
    return path


@pytest.fixture(scope="module")
def expected() -> Any:
    return json.loads((DATA / "format-1.json").read_text())


def seen(store: Store) -> Any:
    store.register_state("custom", reducer=summing)
    return json.loads(json.dumps(found(store)))


def test_format_1_is_read_as_it_is(old: Path, expected: Any) -> None:
    before = old.read_bytes()
    with chronicle.open(old, readonly=True) as store:
        assert store.stats().format == 1
        assert seen(store) == expected
        assert store.verify(deep=True).problems == []
    assert chronicle.verify_file(old, deep=True).problems == []
    assert old.read_bytes() == before


def test_format_1_is_not_written_to(old: Path) -> None:
    before = old.read_bytes()
    with pytest.raises(FormatVersion, match=r"of format 1, .*`chronicle migrate` brings it to format 2"):
        chronicle.open(old)
    assert old.read_bytes() == before


def test_a_migrated_store_is_the_same_and_goes_on(old: Path, expected: Any) -> None:
    assert chronicle.migrate(old) == (1, 2)
    assert chronicle.migrate(old) == (2, 2)
    with chronicle.open(old, durability="relaxed") as store:
        assert store.stats().format == 2
        assert seen(store) == expected
        assert store.verify(deep=True).problems == []
        for n in range(130):
            store.branch().state("append_log").append(n)
        store.branch("side").fork("new").append("note", 1)
        assert store.verify(deep=True).problems == []
        assert (
            store.branch().state("append_log", at=205).hash
            == expected["branches"]["main"]["states"]["append_log"]["205"]
        )


def test_migrating_raises_the_epoch(old: Path) -> None:
    def epoch() -> bytes:
        with chronicle.open(old, readonly=True) as store, store._engine.read() as reader:
            return reader.get(10, records.META_EPOCH) or b""

    before = epoch()
    chronicle.migrate(old)
    assert epoch()[:8] > before[:8]


def test_a_newer_store_is_not_migrated(opener: Opener, tmp_path: Path) -> None:
    opener().close()
    set_meta(tmp_path / "store", records.META_FORMAT, (9).to_bytes(4, "big"))
    for call in (chronicle.migrate, chronicle.verify_file):
        with pytest.raises(FormatVersion, match=r"format 9 .*Upgrade"):
            call(tmp_path / "store")
    with pytest.raises(FormatVersion, match=r"format 9 .*Upgrade"):
        chronicle.salvage(tmp_path / "store", tmp_path / "new")


def test_migrating_nothing(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        chronicle.migrate(tmp_path / "store")
    assert list(tmp_path.iterdir()) == []


def test_an_export_of_format_1_is_imported(store: Store, expected: Any) -> None:
    done = import_file(store, DATA / "format-1.export.jsonl")
    assert (done.events, done.faults) == (1, [])
    alone = store.branch("alone")
    assert [event.id for event in alone.events()] == expected["branches"]["alone"]["ids"]
    assert alone.state("value").get() == "on its own"


def test_the_fixtures_are_small() -> None:
    assert sum(path.stat().st_size for path in DATA.glob("format-1*")) < 200_000
