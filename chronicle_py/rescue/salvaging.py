"""Salvage: a new store of everything in a damaged one that still verifies, and an account of what does not.

The pages are read without LMDB: what the trees hold, as far as they are sound, and then every other page of the file.
Events prove themselves by their ids, blobs by their hashes, records by checksums. Indexes, block directories and the
nodes of states follow from the events and are made anew. The source is only read. The new store is built in a folder
beside the target and moved there when it is complete.
"""

from __future__ import annotations

import os
import shutil
import struct
import tempfile
from pathlib import Path
from typing import BinaryIO, Final

import msgspec
from blake3 import blake3

from chronicle_py import records
from chronicle_py.engine import Engine, check_format
from chronicle_py.errors import CorruptStore, InvalidOperation, NotFound, ReadOnly
from chronicle_py.event import BLOB
from chronicle_py.kv import EVENTS, META, OBJECTS, REFS, SLOTS
from chronicle_py.lmdb_kv import DATA_FILE, DEFAULT_MAP_SIZE, MAX_MAP_SIZE, LmdbFile, data_file, open_file
from chronicle_py.records import seal
from chronicle_py.rescue.branching import Branches, SalvagedBranch
from chronicle_py.rescue.finding import Finder, Scratch
from chronicle_py.rescue.layout import PageFile
from chronicle_py.rescue.leftovers import Leftovers
from chronicle_py.rescue.reading import PageReader
from chronicle_py.rescue.rebuilding import Rebuilding
from chronicle_py.rescue.surviving import Surviving, checked_slot
from chronicle_py.rescue.verifying import open_pages
from chronicle_py.rescue.walk import Progress, walk
from chronicle_py.shown import shown
from chronicle_py.verify import Problem

_MOST: Final = 1000  # problems and lost blobs reported


class LostBlob(msgspec.Struct, frozen=True):
    """A blob that is gone, and the events (ids) that refer to it."""

    id: str
    named_by: list[str]


class SalvageReport(msgspec.Struct, frozen=True):
    """What a salvage saved, and what it could not. `whole`: nothing that a branch had is missing."""

    source: str
    target: str
    whole: bool
    events: int
    blobs: int
    slots: int
    branches: list[SalvagedBranch]
    lost_blobs: list[LostBlob]
    leftovers: int  # events that no branch can hold
    damaged: list[Problem]  # pages and records that were found damaged
    notes: list[str]


def salvage(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    progress: Progress | None = None,
    *,
    leftovers: str | os.PathLike[str] | None = None,
) -> SalvageReport:
    """Copies everything that verifies in the store `source` to a new store `target`, which must not exist.

    A branch whose history is whole comes over as it is, at the same places. One with a gap ends before it; events after
    a gap, which have no parent any more, and damaged ones that can still be read go to the file `leftovers` as JSON
    Lines. `progress(done, total)` counts pages, then events. About 30 µs an event; on disk it takes the size of the
    store, and briefly that of its damaged and free pages. NotFound, InvalidOperation where there is nothing to save;
    FormatVersion for a newer format.
    """
    path = data_file(source)
    final = _new_path(target)
    if progress is not None and not callable(progress):
        raise InvalidOperation(f"salvage(progress=) is a function of (done, total), not {shown(progress)}")
    if leftovers is not None and os.path.exists(leftovers):
        raise InvalidOperation(f"{os.fspath(leftovers)} exists already; choose another name for the leftovers")
    try:
        folder = Path(tempfile.mkdtemp(prefix=f".{final.name}.", dir=final.parent))
    except OSError as error:
        raise ReadOnly(f"salvaging to {final}: {error.strerror or error}") from None
    try:
        try:
            with open_pages(path) as file:
                report = _Salvage(file, str(final), folder, progress).run()
        except (ArithmeticError, LookupError, TypeError, ValueError, struct.error) as error:
            # What is damaged by accident fails its checks; this is a file that was made to mislead.
            raise CorruptStore(f"{path} cannot be salvaged: a record in it says what none can: {error}") from error
        if leftovers is not None:
            os.replace(folder / "leftovers", leftovers)
        try:
            os.link(folder / DATA_FILE, final)  # unlike a rename, never over another file
        except FileExistsError:
            raise InvalidOperation(f"{final} came into being meanwhile; salvage to another path") from None
        except OSError:  # a file system without links
            os.rename(folder / DATA_FILE, final)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return report


def _new_path(target: str | os.PathLike[str]) -> Path:
    """Where the new data file goes."""
    try:
        text = os.fsdecode(target)
    except TypeError:
        raise InvalidOperation(f"a store's path is a str or a path object, not {shown(target)}") from None
    if not text or "\0" in text:
        raise InvalidOperation(f"a store's path may not be empty or contain NUL: {shown(text)}")
    path = Path(os.path.abspath(text))
    if os.path.lexists(path):
        raise InvalidOperation(f"{text} exists already; salvage makes a new store, choose another path")
    if not path.parent.is_dir():
        raise NotFound(f"the folder {path.parent} does not exist; make it first")
    if text.endswith(os.sep):
        path.mkdir(mode=0o700)
        return path / DATA_FILE
    return path


class _Salvage:
    """One salvage."""

    def __init__(self, file: PageFile, target: str, folder: Path, progress: Progress | None) -> None:
        self._file = file
        self._target = target
        self._folder = folder
        self._progress = progress
        self._problems: list[Problem] = []
        self._notes: list[str] = []
        self._blobs = 0
        self._map_size = min(MAX_MAP_SIZE, max(DEFAULT_MAP_SIZE, 8 * file.size))

    def run(self) -> SalvageReport:
        found = walk(self._file, self._progress)
        self._problems += [Problem(*problem) for problem in found.problems]
        live = PageReader(self._file, found)
        scratch_file = self._open("scratch")
        try:
            Finder(self._file, found, live, scratch_file).run(self._progress)
            scratch = Scratch(scratch_file)
            try:
                surviving = Surviving(live, scratch.reader(), found, self._report)
                self._check(surviving, live, scratch)
                new = self._open(DATA_FILE)
                with open(self._folder / "leftovers", "xb", opener=_private) as lines:
                    return self._build(new, live, scratch, surviving, lines)
            finally:
                scratch.close()
        finally:
            scratch_file.close()

    def _open(self, name: str) -> LmdbFile:
        path = self._folder / name
        return open_file(path, readonly=False, create=True, durable=False, map_size=self._map_size)

    def _report(self, where: str, what: str) -> None:
        if len(self._problems) < _MOST:
            self._problems.append(Problem(where, what))

    def _check(self, surviving: Surviving, live: PageReader, scratch: Scratch) -> None:
        """Refuses a file in which there is nothing of a store, or one of a newer format."""
        if surviving.format:
            check_format(self._file.path, int.from_bytes(surviving.format, "big"), readonly=True)
        something = surviving.store_id or surviving.refs or surviving.slots or surviving.lineages
        if not something and scratch.next_lineage(0) is None:
            raise InvalidOperation(f"{self._file.path}: nothing in this file is part of a chronicle store")

    # --- building ---

    def _build(
        self, new: LmdbFile, live: PageReader, scratch: Scratch, surviving: Surviving, lines: BinaryIO
    ) -> SalvageReport:
        slots = self._start(new, surviving)
        engine = Engine(new, readonly=False)
        left = Leftovers(lines)
        total = live.count(EVENTS)

        def damaged(lineage: int, seq: int, stored: bytes) -> None:
            self._report(f"events {lineage}/{seq}", "its bytes do not hash to its id")
            left.damaged(lineage, seq, stored)

        def step(done: int) -> None:
            if self._progress is not None:
                self._progress(done, max(done, total))

        built = Rebuilding(engine, live, scratch, surviving, left.event, damaged, step)
        try:
            self._copy_blobs(built, live, scratch, surviving)
            built.run()
            branches = Branches(built, surviving, self._notes).run()
            built.commit()
            new.sync()
        except BaseException as error:
            built.abandon(error)
            raise
        finally:
            engine.close()
        lost = [LostBlob(key.hex(), ids[:_MOST]) for key, ids in list(built.lost_blobs.items())[:_MOST]]
        whole = (
            not lost
            and all(branch.outcome in ("whole", "mended") for branch in branches)
            and slots == len(surviving.slots)
        )
        whole = whole and SLOTS not in surviving.broken and REFS not in surviving.broken
        return SalvageReport(
            self._file.path, self._target, whole, built.events, self._blobs, slots, branches, lost, left.events,
            self._problems, self._notes,
        )  # fmt: skip

    def _start(self, new: LmdbFile, surviving: Surviving) -> int:
        """Writes what a store starts with, and the slots; returns how many those are."""
        writer = new.write()
        store_id = surviving.store_id
        if len(store_id) != 16:
            self._notes.append("the store's own id was lost; the new store has a new one")
            store_id = os.urandom(16)
        epoch = (int.from_bytes(surviving.epoch[:8], "big") + 1) & (1 << 64) - 1
        for key, body in (
            (records.META_FORMAT, records.FORMAT.to_bytes(4, "big")),
            (records.META_STORE, store_id),
            (records.META_EPOCH, epoch.to_bytes(8, "big")),
        ):
            writer.put(META, key, seal(key, body))
        numbers: set[int] = set()
        kept = 0
        for name, record in surviving.slots.items():
            checked = checked_slot(name, record, surviving.slots)
            if checked is None or checked.number in numbers or not 0 <= checked.number < 1 << 20:
                self._report(f"slots {name!r}", "is no registration that this version makes")
                continue
            numbers.add(checked.number)
            kept += 1
            writer.put(SLOTS, name.encode(), seal(name.encode(), records.encode(checked)))
        if SLOTS in surviving.broken:
            self._notes.append("the record of slots was damaged; a slot that is missing must be registered again")
        writer.commit()
        return kept

    def _copy_blobs(self, built: Rebuilding, live: PageReader, scratch: Scratch, surviving: Surviving) -> None:
        """All blobs that the tree has; where it is damaged, also those that were found elsewhere."""
        sources = [live.pairs(OBJECTS, b"")]
        if OBJECTS in surviving.broken:
            sources.append(scratch.pairs(OBJECTS))
        for pairs in sources:
            for key, stored in pairs:
                if stored[:1] != BLOB:
                    continue
                if blake3(stored).digest() != key:
                    self._report(f"objects {key.hex()[:16]}", f"is no blob of that id ({len(stored)} bytes)")
                    continue
                built.tx.writer.put(OBJECTS, key, stored)
                built.tx.changes += 1
                self._blobs += 1
                if self._blobs % 256 == 0:
                    built.commit()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
