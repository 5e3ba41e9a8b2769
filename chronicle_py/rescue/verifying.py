"""Verifying a whole store: first its pages, without the engine, and then what they hold.

Where the walk over the pages finds damage, LMDB is kept from following it: what can be checked is then read from the
sound pages only. So verify names what is hit and neither crashes nor hangs, whatever the file is.

Another process may write meanwhile, and pages of a snapshot that nobody holds are used again. An open store therefore
has its own snapshot walked. A file is walked as it lies; only if that finds something wrong and the file has changed
since, is it done again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final, cast

import msgspec

from chronicle_py.engine import Engine
from chronicle_py.errors import CorruptStore, FormatVersion, InvalidOperation, NotFound
from chronicle_py.kv import Reader
from chronicle_py.lmdb_kv import LmdbFile, data_file, engine_problems
from chronicle_py.rescue.layout import PageFile
from chronicle_py.rescue.reading import PageReader, PagesKv
from chronicle_py.rescue.walk import Walk, walk
from chronicle_py.shown import shown
from chronicle_py.store import Store, open
from chronicle_py.verify import Problem, Progress, Report, verify

_TRIES: Final = 8


def verify_file(
    path: str | os.PathLike[str],
    deep: bool = False,
    progress: Progress | None = None,
    prepare: Callable[[Store], None] | None = None,
) -> Report:
    """Checks the store in a file that need not be sound: pages, then all that is stored. Never crashes on damage.

    `deep` also folds every slot anew; `prepare` is called with the store before that, to register reducers.
    `progress(done, total)` counts pages, then events. Costs about 10 µs an event. NotFound, InvalidOperation where
    there is no file or no LMDB file; FormatVersion for a store of a newer format.
    """
    if not isinstance(deep, bool):
        raise InvalidOperation(f"verify_file(deep=) is True or False, not {shown(deep)}")
    file_path = data_file(path)
    with open_pages(file_path) as file:
        found = _settled(file, progress)
        if found.ok:
            others = engine_problems(file_path)
            if not others or changed(file):
                try:
                    with open(file_path, readonly=True, create=False) as store:
                        if prepare is not None:
                            prepare(store)
                        return _with_pages(verify(store._engine, deep, progress), found)
                except FormatVersion:
                    raise
                except CorruptStore:
                    pass  # in what opening reads; it is named below
            for text in others:
                found.report("pages", text)
        with Store(_engine(file, found)) as store:
            if prepare is not None:
                prepare(store)
            return _with_pages(verify(store._engine, deep, progress), found)


def verify_store(store: Store, deep: bool, progress: Progress | None) -> Report:
    """As `verify_file`, for an open store and the snapshot that it reads."""
    engine = store._engine
    with engine.read() as reader, open_pages(engine.kv.path) as file:
        found = _of_snapshot(file, reader)
        if found.ok:
            return _with_pages(verify(engine, deep, progress), found)
        sound = _engine(file, found)
        sound.slots.adopt(engine.slots)
        return _with_pages(verify(sound, deep, progress), found)


def _engine(file: PageFile, found: Walk) -> Engine:
    """An engine that reads the sound pages of a file. What an engine does with its file beyond reading is out of its
    reach, since it is read-only: so the pages can stand in for the file."""
    pages = PagesKv(file.path, PageReader(file, found))
    return Engine(cast("LmdbFile", pages), readonly=True, checked=False)


def open_pages(path: str) -> PageFile:
    """The pages of a file; NotFound or InvalidOperation where there are none."""
    try:
        file = PageFile(path)
    except OSError as error:
        raise NotFound(f"{path} cannot be read: {error.strerror or error}") from None
    if not file.is_lmdb():
        file.close()
        what = "it is no LMDB file" if file.size else "it is empty"
        raise InvalidOperation(f"{path} is not a chronicle store: {what}. Choose another path")
    return file


def changed(file: PageFile) -> bool:
    """Whether another process has committed since the metas were read."""
    before = file.metas
    file.reload()
    return file.metas != before


def _settled(file: PageFile, progress: Progress | None) -> Walk:
    """A walk over a file as it lies, again where somebody wrote meanwhile."""
    for _ in range(_TRIES):
        found = walk(file, progress)
        if found.ok or not changed(file):
            break
    return found


def _of_snapshot(file: PageFile, reader: Reader) -> Walk:
    """A walk over the snapshot that a reader holds."""
    transaction = reader.version if reader.snapshot is not None else None
    if any(meta is not None and meta.transaction == transaction for meta in file.metas):
        return walk(file, None, transaction)
    return _settled(file, None)  # two commits later, the pages of the newest snapshot are what can be walked


def _with_pages(report: Report, found: Walk) -> Report:
    pages = [Problem(*problem) for problem in found.problems]
    return msgspec.structs.replace(
        report, problems=pages + report.problems, checked={"pages": found.pages, **report.checked}
    )
