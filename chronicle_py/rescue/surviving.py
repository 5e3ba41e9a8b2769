"""The records of a damaged store that still verify: slots, lineages, branches, reflog, store id.

Those that the trees hold come first. Where a keyspace is damaged, what was found on other pages fills in, and the head
of a branch whose record is lost is worked out from the feed, which has every change of a branch and every run of
events on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeVar

import msgspec

from chronicle_py import records
from chronicle_py.errors import ChronicleError
from chronicle_py.index_kind import decode_spec
from chronicle_py.indexing import index_id, index_record
from chronicle_py.kv import FEED, LINEAGES, META, REFLOG, REFS, SLOTS, SPACE_NAMES, Reader
from chronicle_py.records import FeedRecord, MoveRecord, Ref, SlotRecord
from chronicle_py.rescue.reading import PageReader
from chronicle_py.rescue.walk import Walk
from chronicle_py.slots import INDEX

R = TypeVar("R")
Report = Callable[[str, str], None]
OPEN: Final = -1  # the sequence of a head that is wherever its lineage ends


class Surviving:
    """What was read, and which keyspaces (by number) lack something."""

    def __init__(self, live: PageReader, found: Reader, walked: Walk, report: Report) -> None:
        self._live = live
        self._found = found
        self._report = report
        self._old = any("(meta)" in problem.where for problem in walked.problems)  # the newest snapshot may be another
        self.broken = {number for number, name in enumerate(SPACE_NAMES) if self._old or name in walked.broken}
        self.store_id = self._meta(records.META_STORE)
        self.epoch = self._meta(records.META_EPOCH)
        self.format = self._meta(records.META_FORMAT)
        self.slots = {k.decode(): r for k, r in self.read(SLOTS, records.decode_slot)}
        self.lineages = {int.from_bytes(k, "big"): r for k, r in self.read(LINEAGES, records.decode_lineage)}
        self.refs = {k.decode(): r for k, r in self.read(REFS, records.decode_ref)}
        if self._old:
            self._newer_refs()
        self.stated: dict[int, tuple[int, bytes]] = {}  # lineage -> the furthest head that something names on it
        self.mended: set[str] = set()  # branches whose records are lost, and whose heads were worked out
        self._last: dict[str, MoveRecord] = {}
        for ref in self.refs.values():
            self._state(ref)
        for key, move in self.moves():
            self._state(move.before)
            self._state(move.after)
            self._last[key[:-9].decode()] = move
        if REFS in self.broken:
            self._mend_refs()

    def _meta(self, key: bytes) -> bytes:
        """The body of a record of `meta`, b"" where it is lost."""
        for reader in (self._live, self._found):
            stored = reader.get(META, key)
            if stored is not None:
                try:
                    return records.unseal(key, stored, key.decode())
                except ChronicleError as error:
                    self._report(f"meta {key.decode()!r}", str(error))
        self.broken.add(META)
        return b""

    def read(self, space: int, decode: Callable[[bytes, bytes, str], R]) -> Iterator[tuple[bytes, R]]:
        """The records of a keyspace: those in its tree, and then, where some are lost, those found elsewhere."""
        name = SPACE_NAMES[space]
        seen: set[bytes] | None = set() if space != FEED else None
        for key, stored in self._live.pairs(space, b""):
            try:
                _named(space, key)
                record = decode(key, stored, name)
            except (ChronicleError, UnicodeDecodeError) as error:
                self._report(f"{name} {key[:40].hex()}", str(error))
                self.broken.add(space)
                continue
            if seen is not None:
                seen.add(key)
            yield key, record
        if space not in self.broken:
            return
        start = b""
        while pairs := self._found.scan(space, start, limit=1024):
            start = pairs[-1][0] + b"\0"
            for key, stored in pairs:
                if (seen is None and self._live.get(space, key) is None) or (seen is not None and key not in seen):
                    try:
                        _named(space, key)
                        record = decode(key, stored, name)
                    except (ChronicleError, UnicodeDecodeError):
                        continue
                    yield key, record

    def moves(self) -> Iterator[tuple[bytes, MoveRecord]]:
        """The entries of all reflogs."""
        return self.read(REFLOG, records.decode_move)

    def _state(self, ref: Ref | None) -> None:
        if ref is not None and ref.lineage and ref.seq > self.stated.get(ref.lineage, (0, b""))[0]:
            self.stated[ref.lineage] = ref.seq, ref.key

    def _newer_refs(self) -> None:
        for name, ref in self.refs.items():
            key = name.encode()
            stored = self._found.get(REFS, key)
            if stored is not None:
                other = records.decode_ref(key, stored, name)
                if (other.lineage, other.seq) > (ref.lineage, ref.seq):
                    self.refs[name] = other

    # --- lost branches ---

    def _mend_refs(self) -> None:
        """Adds the branches whose records are lost. What was found on old pages is only taken where nothing newer says
        what became of the branch."""
        known = {key.decode() for key, _ in self._live.pairs(REFS, b"") if key.decode(errors="replace") in self.refs}
        for name, ref in self.refs.items():
            if name not in known and ref.owned:  # an old record: its branch's head is where its lineage ends
                self.refs[name] = msgspec.structs.replace(ref, seq=OPEN, key=b"")
        for name, last in self._from_feed().items():
            if name in known:
                continue
            if last is None:
                self.refs.pop(name, None)
            else:
                self.refs[name] = last
        for name, move in self._last.items():
            if move.after is None and name not in known:
                self.refs.pop(name, None)
            elif name not in self.refs and move.after is not None:
                self.refs[name] = msgspec.structs.replace(move.after, owned=False)
        self.mended = set(self.refs) - known

    def _from_feed(self) -> dict[str, Ref | None]:
        found: dict[str, Ref | None] = {}
        run: FeedRecord | None = None
        expected = 1
        entries = dict(self.read(FEED, records.decode_feed)) if FEED in self.broken else None
        for key, record in sorted(entries.items()) if entries is not None else self.read(FEED, records.decode_feed):
            number = int.from_bytes(key, "big")
            if run is not None and number == expected and record.stop_before:
                self._end_run(found, run, record.stop_before)
            expected = number + 1
            run = record if record.kind == "run" else None
            if run is None:
                found[record.branch] = record.after
            else:
                self._end_run(found, run, OPEN)
        return found

    def _end_run(self, found: dict[str, Ref | None], run: FeedRecord, seq: int) -> None:
        before = found.get(run.branch)
        if before is None:
            before = Ref(0, 0, b"", False, 0, None, 0)
        found[run.branch] = msgspec.structs.replace(before, lineage=run.lineage, seq=seq, key=b"", owned=True)


def _named(space: int, key: bytes) -> None:
    """Raises UnicodeDecodeError where a key must be a name and is none."""
    if space in (SLOTS, REFS):
        key.decode()
    elif space == REFLOG:
        key[:-9].decode()


def checked_slot(name: str, record: SlotRecord, slots: Mapping[str, SlotRecord]) -> SlotRecord | None:
    """The registration, None where it is none that the engine could have written. `slots`: all that there are."""
    if record.kind == INDEX:
        try:
            spec = decode_spec(record.initial)
            made = index_record(spec.slot, slots[spec.slot], spec.path)
            agrees = name == index_id(spec.slot, spec.path) and made == msgspec.structs.replace(record, number=0)
        except (ChronicleError, msgspec.MsgspecError, KeyError):
            return None
        return record if agrees else None
    from chronicle_py.exchange.lines import BadLine
    from chronicle_py.exchange.restoring import _checked_slot

    try:
        return _checked_slot(name, record)
    except BadLine:
        return None
