"""Damaged files: what `verify_file` names and `salvage` saves. No process here may end in a way of its own."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Clock, Entropy
from public_calls import summing
from soak.flips import Uses, fill

import chronicle_py as chronicle
from chronicle_py import ChronicleError, InvalidOperation, NotFound, SalvageReport, Store, records
from chronicle_py.kv import FEED, OBJECTS, REFS
from chronicle_py.rescue.layout import PageFile
from chronicle_py.rescue.walk import walk


class Sound:
    """A filled store, its bytes, which of its pages are whose, and what it holds."""

    def __init__(self, path: Path) -> None:
        with chronicle.open(path, durability="relaxed", clock=Clock(), entropy=Entropy()) as store:
            fill(store)
        self.data = path.read_bytes()
        self.uses = Uses(path)
        self.page_size = self.uses.page_size
        with PageFile(str(path)) as file:
            found = walk(file)
            self.leaves = {name: list(pages) for name, pages in found.leaves.items()}
            self.live = [page for page in range(2, len(found.live)) if found.live[page]]
            self.branch_pages = [
                page for page in self.live if (file.page(page) or b"")[10] == 1 and page not in self.uses._long
            ]
        with chronicle.open(path, readonly=True) as store:
            self.branches = histories(store)
            self.payloads = {e.id: e.raw for b in self.branches for e in store.branch(b).events()}


def histories(store: Store) -> dict[str, list[str]]:
    return {info.name: [event.id for event in store.branch(info.name).events()] for info in store.branches()}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Sound:
    return Sound(tmp_path_factory.mktemp("sound") / "store")


class Bench:
    """A damaged copy of the sound store, salvaged."""

    def __init__(self, folder: Path, sound: Sound) -> None:
        self.sound = sound
        self.bad, self.new, self.left = folder / "bad", folder / "new", folder / "left.jsonl"

    def damage(self, change: Callable[[bytearray], object]) -> None:
        data = bytearray(self.sound.data)
        change(data)
        self.bad.write_bytes(data)

    def zero(self, *pages: int) -> None:
        size = self.sound.page_size
        self.damage(lambda data: [data.__setitem__(slice(p * size, p * size + size), bytes(size)) for p in pages])

    def salvage(self) -> SalvageReport:
        """Salvages; the new store must be right in itself, and its branches starts of what they were."""
        for path in (self.new, self.left, self.new.with_name("new-lock")):
            path.unlink(missing_ok=True)
        before = self.bad.read_bytes()
        report = chronicle.salvage(self.bad, self.new, leftovers=self.left)
        assert self.bad.read_bytes() == before
        assert sorted(p.name for p in self.new.parent.iterdir() if p.name.startswith(".")) == []
        with chronicle.open(self.new, durability="relaxed") as store:
            if "custom" in {slot.id for slot in store.slots()}:
                store.register_state("custom", reducer=summing)
            assert store.verify(deep=True).problems == []
            self.saved = histories(store)
            for branch in report.branches:
                assert (branch.seq, branch.head) == (store.branch(branch.name).seq, store.branch(branch.name).head)
                ids = self.sound.branches.get(branch.name)
                if ids is not None:
                    assert self.saved[branch.name] == ids[: branch.seq], branch.name
                    assert branch.outcome != "whole" or branch.seq == len(ids)
            store.branch().append("after", "all")
            assert store.verify(deep=True).problems == []
        return report

    def left_ids(self) -> set[str]:
        lines = [json.loads(line) for line in self.left.read_text().splitlines()]
        return {line["id"] for line in lines if line["record"] == "event"}


@pytest.fixture
def bench(tmp_path: Path, sound: Sound) -> Bench:
    return Bench(tmp_path, sound)


# --- whole stores -----------------------------------------------------------------------------------------------------


def test_a_sound_store_comes_over_whole(bench: Bench, sound: Sound) -> None:
    bench.damage(lambda data: None)
    report = bench.salvage()
    assert (report.whole, report.damaged, report.notes, report.leftovers) == (True, [], [], 0)
    assert bench.saved == {**sound.branches}
    assert [branch.outcome for branch in report.branches] == ["whole"] * len(sound.branches)
    with chronicle.open(bench.bad, readonly=True) as old, chronicle.open(bench.new, readonly=True) as new:
        assert new.stats().store == old.stats().store
        assert new.slots() == old.slots()
        assert new.stats().events == old.stats().events + 1  # that bench.salvage appends
        for name in sound.branches:
            assert new.branch(name).reflog() == old.branch(name).reflog()
            for slot in (s.id for s in old.slots() if s.loaded and name != "main"):
                assert new.branch(name).state(slot).hash == old.branch(name).state(slot).hash
        with old._engine.read() as a, new._engine.read() as b:
            feed = a.scan(FEED, b"")
            assert b.scan(FEED, b"")[: len(feed)] == feed


def test_a_store_that_was_collected_comes_over_whole(bench: Bench, sound: Sound) -> None:
    """Its feed has gaps, and its highest lineage may have no events; neither is damage."""
    bench.damage(lambda data: None)
    with chronicle.open(bench.bad, durability="relaxed") as store:
        store.branch("talk").fork("last").append("note", 1)
        assert store.gc(branches="[las]*", expire_reflog=0).events > 0
        kept, top = histories(store), store._engine.begin()
        number = top.top_lineage()
        store._engine.end(top, top.changes, None)
    report = chronicle.salvage(bench.bad, bench.new)
    assert (report.whole, report.notes) == (True, [])
    with chronicle.open(bench.bad, readonly=True) as old, chronicle.open(bench.new, durability="relaxed") as new:
        new.register_state("custom", reducer=summing)
        assert new.verify(deep=True).problems == []
        assert histories(new) == kept
        with old._engine.read() as a, new._engine.read() as b:
            assert a.scan(FEED, b"") == b.scan(FEED, b"")
        new.branch("talk").fork("next").append("note", 2)
        with new._engine.read() as reader:
            assert reader.scan(REFS, b"next")[0][0] == b"next"
            assert records.decode_ref(b"next", reader.get(REFS, b"next") or b"", "").lineage == number + 1


# --- one kind of damage each ------------------------------------------------------------------------------------------


def test_a_damaged_branch_page_loses_nothing(bench: Bench, sound: Sound) -> None:
    assert sound.branch_pages
    for page in sound.branch_pages:
        bench.zero(page)
        report = chronicle.verify_file(bench.bad)
        assert [p.where for p in report.problems if p.where.startswith(f"page {page} (")]
        assert {b.outcome for b in bench.salvage().branches} <= {"whole", "mended"}
        assert {name: bench.saved[name] for name in sound.branches} == sound.branches


def test_a_lost_page_of_events_cuts_and_leaves_the_rest_readable(bench: Bench, sound: Sound) -> None:
    """A page from the middle of the first lineage, of which no older copy lies about."""
    middle = sound.leaves["events"][len(sound.leaves["events"]) // 3]
    with _pages_of(sound, bench.bad) as file:
        seqs = [int.from_bytes(node.key[4:], "big") for node in file.nodes(file.page(middle) or b"")]
    bench.zero(middle)
    report = bench.salvage()
    cut = {branch.name: branch for branch in report.branches if branch.outcome == "cut"}
    assert cut
    main = cut["main"]
    assert main.seq == seqs[0] - 1
    assert main.lost == [(seqs[0], seqs[-1])]
    assert main.after == len(sound.branches["main"]) - seqs[-1]
    assert report.leftovers >= main.after
    kept = {id for ids in bench.saved.values() for id in ids}
    lost = {id for ids in sound.branches.values() for id in ids} - kept - bench.left_ids()
    assert len(lost) == len(seqs)


def _pages_of(sound: Sound, path: Path) -> PageFile:
    path.write_bytes(sound.data)
    return PageFile(str(path))


@pytest.mark.parametrize("space", ["refs", "feed", "reflog", "lineages", "ids", "causes", "blocks"])
def test_what_follows_from_the_events_or_the_feed_is_made_anew(bench: Bench, sound: Sound, space: str) -> None:
    bench.zero(*sound.leaves[space])
    assert not chronicle.verify_file(bench.bad).ok
    report = bench.salvage()
    assert {b.outcome for b in report.branches} <= {"whole", "mended"}
    assert {name: bench.saved[name] for name in sound.branches} == sound.branches


def test_without_refs_feed_and_reflog_the_histories_are_there(bench: Bench, sound: Sound) -> None:
    bench.zero(*sound.leaves["refs"], *sound.leaves["feed"], *sound.leaves["reflog"])
    bench.salvage()
    kept = {id for ids in bench.saved.values() for id in ids}
    assert {id for ids in sound.branches.values() for id in ids} <= kept


@pytest.mark.parametrize("pages", [(0,), (1,), (0, 1)])
def test_lost_metas(bench: Bench, sound: Sound, pages: tuple[int, ...]) -> None:
    bench.zero(*pages)
    report = chronicle.verify_file(bench.bad)
    assert report.problems[0].where == f"page {pages[0]} (meta)"
    bench.salvage()
    assert {name: bench.saved[name] for name in sound.branches} == sound.branches


def test_a_changed_payload_is_named_and_left_readable(bench: Bench, sound: Sound) -> None:
    text, size = b"message 1/30 ", sound.page_size
    at = sound.data.index(text)
    while at // size not in sound.leaves["events"] or sound.uses.of(at) != "used":  # copies in old pages and in gaps
        at = sound.data.index(text, at + 1)
    bench.damage(lambda data: data.__setitem__(at, data[at] ^ 1))
    named = [p.where for p in chronicle.verify_file(bench.bad).problems if p.where.startswith("events ")]
    bench.salvage()
    damaged = [json.loads(line) for line in bench.left.read_text().splitlines() if "damaged-event" in line]
    assert len(damaged) == 1
    for line in damaged:
        assert f"events {line['lineage']}/{line['seq']}" in named
        assert "essage 1/30" in line["payload"]["text"]


def test_a_lost_blob_is_named_with_those_who_refer_to_it(bench: Bench, sound: Sound, tmp_path: Path) -> None:
    with chronicle.open(_sound_path(sound, tmp_path), readonly=True) as store:
        event = next(e for e in store.branch().events(types=["picture"]))
        blob = event.blobs[0]
        users = [e.id for e in store.branch().events(types=["picture"])]
    where = sound.data.index(bytes(range(256)) * 15)
    bench.damage(lambda data: [data.__setitem__(i, 0) for i in range(where, where + 64)])
    report = bench.salvage()
    assert [lost.id for lost in report.lost_blobs] == [blob]
    assert set(users) <= set(report.lost_blobs[0].named_by)
    assert not report.whole
    with chronicle.open(bench.new) as store:
        with pytest.raises(NotFound, match="was lost to damage"):
            store.get_blob(blob)
        assert store.put_blob(bytes(range(256)) * 40, "image/png") == blob
        assert store.get_blob(blob).media_type == "image/png"
        assert store.verify(deep=True).ok


def _sound_path(sound: Sound, folder: Path) -> Path:
    path = folder / "sound"
    path.write_bytes(sound.data)
    return path


# --- any damage -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_any_damage_is_survived(bench: Bench, sound: Sound, seed: int) -> None:
    chance = random.Random(seed)
    size = sound.page_size

    def cut(data: bytearray) -> None:
        del data[chance.randrange(len(data)) :]

    def rubbish(data: bytearray) -> None:
        for page in chance.sample(sound.live, 3):
            data[page * size : (page + 1) * size] = chance.randbytes(size)

    def flips(data: bytearray) -> None:
        for _ in range(200):
            data[chance.choice(sound.uses.pages) * size + chance.randrange(size)] ^= chance.randrange(1, 256)

    def headers(data: bytearray) -> None:
        for page in chance.sample(sound.live, 10):
            data[page * size + chance.randrange(16)] ^= chance.randrange(1, 256)

    for change in (cut, rubbish, flips, headers):
        bench.damage(change)
        try:
            assert not chronicle.verify_file(bench.bad, deep=True).ok
            bench.salvage()
        except InvalidOperation as error:
            assert "is part of a chronicle store" in str(error) or "no LMDB file" in str(error)  # noqa: PT017


@pytest.mark.parametrize("size", [0, 1, 100, 4096, 100_000])
def test_rubbish_is_refused(tmp_path: Path, size: int) -> None:
    (tmp_path / "bad").write_bytes(random.Random(size).randbytes(size))
    for call in (
        lambda: chronicle.salvage(tmp_path / "bad", tmp_path / "new"),
        lambda: chronicle.verify_file(tmp_path / "bad"),
    ):
        with pytest.raises(InvalidOperation, match="is not a chronicle store"):
            call()
    assert [path.name for path in tmp_path.iterdir()] == ["bad"]


def test_a_page_that_leads_back_up_ends_the_walk(bench: Bench, sound: Sound) -> None:
    """Each branch page's children all become its own page, then its parent."""
    size = sound.page_size
    for page in sound.branch_pages:
        for target in (page, sound.branch_pages[0], 0, 1 << 40):

            def change(data: bytearray, page: int = page, target: int = target) -> None:
                start = page * size
                lower = int.from_bytes(data[start + 12 : start + 14], "little")
                for at in range(start + 16, start + lower, 2):
                    node = start + int.from_bytes(data[at : at + 2], "little")
                    data[node : node + 6] = target.to_bytes(6, "little")

            bench.damage(change)
            assert not chronicle.verify_file(bench.bad).ok
    bench.salvage()


def test_a_key_that_says_a_huge_sequence_ends_the_check(bench: Bench, sound: Sound) -> None:
    """The last key of the events: still in order, and 2^62 events are missing before it."""
    page = sound.leaves["events"][-1]
    start = page * sound.page_size

    def change(data: bytearray) -> None:
        last = int.from_bytes(data[start + 12 : start + 14], "little") - 2
        node = start + int.from_bytes(data[start + last : start + last + 2], "little")
        assert int.from_bytes(data[node + 6 : node + 8], "little") == 12
        data[node + 8 + 4] = 0x40

    bench.damage(change)
    problems = chronicle.verify_file(bench.bad, deep=True).problems
    assert any(problem.where.startswith("events 8/") for problem in problems)
    assert {branch.outcome for branch in bench.salvage().branches} == {"whole"}
    assert {name: bench.saved[name] for name in sound.branches} == sound.branches


# --- an open store ----------------------------------------------------------------------------------------------------


def test_an_open_store_verifies_the_snapshot_it_reads(store: Store) -> None:
    fill(store)
    report = store.verify(deep=True)
    assert report.problems == []
    assert report.checked["pages"] >= 100
    with store.transaction():
        store.branch().append("note", "not committed yet")
        assert store.verify().ok


def test_an_open_store_names_a_damaged_page(bench: Bench, sound: Sound) -> None:
    bench.zero(sound.leaves["causes"][0])
    with chronicle.open(bench.bad, readonly=True) as store:
        found = [problem.where for problem in store.verify(deep=True).problems]
    assert found[0] == f"page {sound.leaves['causes'][0]} (causes)"


def test_a_read_of_a_damaged_node_raises(bench: Bench, sound: Sound) -> None:
    """A changed byte in a node of a tree slot is not returned as state."""
    with chronicle.open(_sound_path(sound, bench.bad.parent), readonly=True) as store, store._engine.read() as reader:
        pairs = [(key, value) for key, value in reader.scan(OBJECTS, b"") if value[:2] == b"\x03L"]
    wrong = 0
    for _key, value in pairs:
        at = sound.data.find(value[:200])
        assert at >= 0
        bench.damage(lambda data, at=at: data.__setitem__(at + 100, data[at + 100] ^ 1))  # type: ignore[misc]
        with chronicle.open(bench.bad, readonly=True) as store:
            try:
                for name in sound.branches:
                    list(store.branch(name).state("tree"))
            except ChronicleError as error:
                assert "damaged" in str(error)  # noqa: PT017
                wrong += 1
        if wrong:
            break
    assert wrong


# --- arguments --------------------------------------------------------------------------------------------------------


def test_where_salvage_may_write(bench: Bench, tmp_path: Path) -> None:
    bench.damage(lambda data: None)
    (tmp_path / "there").write_text("mine")
    for target in (tmp_path / "there", bench.bad, tmp_path):
        with pytest.raises(InvalidOperation, match="exists already"):
            chronicle.salvage(bench.bad, target)
    with pytest.raises(InvalidOperation, match="exists already"):
        chronicle.salvage(bench.bad, bench.new, leftovers=tmp_path / "there")
    with pytest.raises(NotFound, match="does not exist"):
        chronicle.salvage(bench.bad, tmp_path / "no" / "folder")
    with pytest.raises(NotFound, match="there is no store"):
        chronicle.salvage(tmp_path / "nothing", bench.new)
    bad: Any = 5
    for arguments in ((bad, bench.new), (bench.bad, bad), (bench.bad, ""), (bench.bad, bench.new, bad)):
        with pytest.raises(ChronicleError):
            chronicle.salvage(*arguments)
    assert (tmp_path / "there").read_text() == "mine"
    assert not bench.new.exists()
    assert chronicle.salvage(bench.bad, f"{tmp_path}/folder/").target == str(tmp_path / "folder" / "chronicle.lmdb")


def test_progress_is_told(bench: Bench) -> None:
    bench.damage(lambda data: None)
    told: list[tuple[int, int]] = []
    chronicle.salvage(bench.bad, bench.new, lambda done, total: told.append((done, total)))
    assert told
    assert all(0 <= done <= total for done, total in told)
