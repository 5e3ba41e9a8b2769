"""`open` and `Store`: the public face of a store. Branches, slots, event types, blobs, transactions, figures."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from types import TracebackType
from typing import Any, Literal, Self

import msgspec

from chronicle_py import branches, indexing, records
from chronicle_py.branch import Branch, branch_at
from chronicle_py.branches import BranchInfo
from chronicle_py.compacting import CompactReport, backup, compact
from chronicle_py.deep_stats import DeepStats, deep_stats
from chronicle_py.engine import Clock, Engine, Entropy
from chronicle_py.erasing import EraseReport, erase
from chronicle_py.errors import InvalidName, InvalidOperation, NotFound
from chronicle_py.event import Event, bind, event_type
from chronicle_py.following import Follower, follow
from chronicle_py.gc import GcReport, checked_request, gc
from chronicle_py.indexing import IndexInfo
from chronicle_py.kv import EVENTS, LINEAGES, META, OBJECTS, REFS
from chronicle_py.lmdb_kv import open_file
from chronicle_py.names import check_slot, check_type
from chronicle_py.objects import Blob, pack_blob, unpack_blob
from chronicle_py.reducers import Reducer
from chronicle_py.shown import shown
from chronicle_py.transaction import Transaction, transaction
from chronicle_py.verify import Progress, Report

Durability = Literal["full", "relaxed"]


class SlotInfo(msgspec.Struct, frozen=True):
    """What `store.slots()` says of a slot."""

    id: str
    kind: str
    reducer: str | None
    version: int
    types: tuple[str, ...]
    sources: tuple[str, ...]
    loaded: bool  # this process can read it


class Stats(msgspec.Struct, frozen=True):
    """Figures of a store. Cost: O(slots)."""

    path: str
    store: str  # its id, hex
    format: int
    events: int
    branches: int
    lineages: int
    objects: int
    slots: int
    file_bytes: int
    free_bytes: int
    keyspaces: dict[str, dict[str, int]]  # name -> entries, bytes
    deep: DeepStats | None = None


def open(
    path: str | os.PathLike[str],
    durability: Durability = "full",
    readonly: bool = False,
    create: bool = True,
    clock: Clock | None = None,
    entropy: Entropy | None = None,
    *,
    map_size: int | None = None,
) -> Store:
    """Opens a store, made at first use. An existing folder or a trailing "/" is a folder, anything else one file.

    `durability`: "full" returns from a commit when it is on disk; "relaxed" when it is with the operating system: a
    killed process loses nothing, a power failure may lose the newest commits and damage the file. `clock` returns µs
    since the epoch, `entropy(n)` n bytes, each called by whichever thread commits; give both and everything about the
    store repeats exactly. `map_size`: bytes
    reserved (not used) for the file, 64 GiB; the same in every process. O(1), about 0.2 ms.
    """
    if durability not in ("full", "relaxed"):
        raise InvalidOperation(f'durability is "full" or "relaxed", not {shown(durability)}')
    for name, switch in (("readonly", readonly), ("create", create)):
        if not isinstance(switch, bool):
            raise InvalidOperation(f"{name}= is True or False, not {shown(switch)}")
    file = open_file(path, readonly=readonly, create=create, durable=durability == "full", map_size=map_size)
    try:
        return Store(Engine(file, readonly=readonly, clock=clock, entropy=entropy))
    except BaseException:
        file.close()
        raise


class Store:
    """An open store, a context manager. Threads may share it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._engine.closed else "open"
        return f"<Store {self.path} ({state})>"

    @property
    def path(self) -> str:
        """The store's file."""
        return self._engine.kv.path

    # --- branches ---

    def branch(self, name: str = branches.MAIN) -> Branch:
        """The branch of this name; NotFound when there is none."""
        return branch_at(self._engine, name)

    def branches(self) -> list[BranchInfo]:
        """All branches, `main` first. O(branches)."""
        return branches.list_branches(self._engine)

    def orphan(self, name: str) -> Branch:
        """A new branch without history or inherited state."""
        branches.orphan(self._engine, name)
        return Branch(self._engine, name)

    def delete_branch(self, name: str) -> None:
        """Removes a branch's name; its events stay and `restore_branch` brings it back."""
        branches.delete(self._engine, name)

    def restore_branch(self, name: str) -> Branch:
        """Brings a deleted branch back with the head it had."""
        branches.restore(self._engine, name)
        return Branch(self._engine, name)

    # --- slots and event types ---

    def register_state(
        self,
        id: str,
        kind: str | None = None,
        reducer: Reducer[Any] | None = None,
        types: Sequence[str] = (),
        sources: Sequence[str] = (),
        initial: Any = None,
    ) -> None:
        """Registers a slot, for good. The same again is fine, another one raises StateExists.

        `kind`: "value", "append_log", "tree" or "document"; or `reducer`, one of your own. `types`: events without slot
        of these types concern the slot as well (a value is set to their payload, an append_log gets it as an item);
        `sources`: so do the events of these slots. `initial`: the state before the first event. May come late: events
        that are there already count.
        """
        self._engine.slots.register(id, kind, reducer, types, sources, initial)

    def register_index(self, slot: str, path: str | Sequence[str | int], progress: Progress | None = None) -> None:
        """Registers an index of an append_log's items or a tree's values by what they hold at a path, for good.

        `path`: dotted ("meta.user.id", "tags.0"), or a sequence of parts where names hold dots; empty for the value
        itself. Builds what of it is missing, `progress(done, total)` in events, 5 to 10 µs each; the same again is fine
        and builds on. Asked through `branch.state(slot).where(path)`. StateNotRegistered, or InvalidOperation for a
        slot of another kind. See docs/indexes.md.
        """
        indexing.register_index(self._engine, slot, path, progress)

    def indexes(self) -> list[IndexInfo]:
        """All indexes, by slot and path."""
        return indexing.indexes(self._engine)

    def slots(self) -> list[SlotInfo]:
        """All registered slots, by id."""
        with self._engine.read() as reader:
            table = self._engine.slots.table(reader)
        return [
            SlotInfo(
                slot.id, slot.record.kind, slot.record.reducer or None, slot.record.version, slot.record.types,
                slot.record.sources, not slot.custom or slot.identity != b"",
            )
            for slot in sorted(table.by_id.values(), key=lambda slot: slot.id)
        ]  # fmt: skip

    def namespace(self, prefix: str) -> Namespace:
        """A prefix for slot ids, so that components of one application do not meet."""
        return Namespace(self, check_slot(prefix, "a namespace"))

    def register_event(
        self,
        type: str,
        struct: type[Any],
        version: int = 1,
        upcast: Mapping[int, Callable[[Any], Any]] | None = None,
    ) -> None:
        """Declares what payloads of a type look like, in this process: checked when appended, a `struct` when read.

        `upcast[v]` turns the plain payload written as version v into that of version v + 1.
        """
        name = check_type(type)
        self._engine.event_types[name] = event_type(name, struct, version, upcast)

    # --- events by id ---

    def event(self, id: str) -> Event:
        """The event with this id or unique prefix (at least 6 hex digits), on whatever branch. O(log n)."""
        with self._engine.read() as reader:
            _, event = self._engine.log.resolve(reader, id)
        return bind(event, self._engine.event_types)

    def effects(self, id: str | Event) -> list[Event]:
        """The events that name this one in `caused_by`."""
        return self._naming(id, records.CAUSED_BY)

    def links(self, id: str | Event) -> list[Event]:
        """The events that name this one in `linked_to`."""
        return self._naming(id, records.LINKED_TO)

    def _naming(self, id: str | Event, relation: bytes) -> list[Event]:
        engine = self._engine
        with engine.read() as reader:
            _, event = engine.log.resolve(reader, id.id if isinstance(id, Event) else id)
            return [bind(effect, engine.event_types) for effect in engine.log.naming(reader, event.key, relation)]

    # --- following ---

    def follow(
        self,
        branch: str | Iterable[str] | None = None,
        types: Iterable[str] | None = None,
        slots: Iterable[str] | None = None,
        start: str | None = None,
        live: bool = True,
    ) -> Follower:
        """All that is done in the store, in commit order: what is past, a `CaughtUp`, and what comes, within 50 ms.

        Returns an iterator, which is an async one too, over `Followed` events, `BranchChange`s, and `Gone` where
        something was collected. `branch`: one name or several; they need not be there yet. `types`, `slots`: only
        events of one of these types, that carry one of these slots; branch changes are left out then. `start`: the
        `.position` of an item, to go on right behind it; "now"; None is the beginning. Without `live` it ends after
        `CaughtUp`. O(log n) to start, O(1) an event; no snapshot is held between batches. Once the store is closed,
        `next` raises InvalidOperation.
        """
        return follow(self._engine, branch, types, slots, start, live)

    # --- blobs ---

    def put_blob(self, data: bytes, media_type: str = "application/octet-stream") -> str:
        """Stores bytes once and returns their id, to be used in payloads as `BlobRef(id)`."""
        key, stored = pack_blob(data, media_type)

        def work(tx: Transaction) -> None:
            if tx.writer.get(OBJECTS, key) is None:
                tx.writer.put(OBJECTS, key, stored)
                tx.writer.delete(META, records.lost_key(key))
                tx.changes += 1

        self._engine.run(work)
        return key.hex()

    def get_blob(self, hash: str) -> Blob:
        """The blob of this id, checked against it."""
        try:
            key = bytes.fromhex(hash)
        except (ValueError, TypeError):
            key = b""
        if len(key) != 32:
            raise InvalidName(f"a blob's id is the 64 hex digits that put_blob returned, not {shown(hash)}")
        with self._engine.read() as reader:
            stored = reader.get(OBJECTS, key)
            lost = stored is None and reader.get(META, records.lost_key(key)) is not None
        if stored is None:
            raise NotFound(f"the blob {hash} was lost to damage" if lost else f"there is no blob {hash}")
        return unpack_blob(key, stored)

    # --- the whole ---

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """A `with` block that is one commit: all of it or, after an exception, nothing. A nested one joins."""
        with transaction(self._engine):
            yield self

    def sync(self) -> None:
        """Returns when everything committed so far is on disk."""
        self._engine.read().__exit__(None, None, None)
        self._engine.kv.sync()

    def stats(self, *, deep: bool = False) -> Stats:
        """Figures: events, branches, bytes by keyspace; `deep` also of nodes, blobs and slots, reading all objects."""
        if not isinstance(deep, bool):
            raise InvalidOperation(f"stats(deep=) is True or False, not {shown(deep)}")
        engine = self._engine
        with engine.read() as reader:
            counts = {space: reader.count(space) for space in (EVENTS, REFS, LINEAGES, OBJECTS)}
            slots = len(engine.slots.table(reader).by_id)
            key = records.META_STORE
            store = records.unseal(key, reader.get(META, key) or b"", "the store's id")
            form = records.format_of(reader.get(META, records.META_FORMAT) or b"")
            more = deep_stats(engine, reader) if deep else None
        size, free = engine.kv.file_size()
        return Stats(
            self.path, store.hex(), form, counts[EVENTS], counts[REFS], counts[LINEAGES], counts[OBJECTS],
            slots, size, free, engine.kv.sizes(), more,
        )  # fmt: skip

    def gc(
        self,
        *,
        dry_run: bool = False,
        expire_reflog: int | timedelta | None = None,
        branches: str | None = None,
        older_than: int | timedelta | None = None,
        unused_blobs: bool = False,
        progress: Progress | None = None,
    ) -> GcReport:
        """Collects what no branch and no reflog entry needs: events, states, blobs. `dry_run` only says what would go.

        `branches`: delete those whose names match the pattern first (`*`, `?`, `[…]`; never `main`), with `older_than`
        only those whose head is that old. `expire_reflog`: drop reflog entries of that age or more (0: all), and with
        them the way back to the heads they name; without it every head in a reflog, also of a deleted branch, stays.
        Ages are µs or a timedelta. Blobs go with the last event that refers to them; `unused_blobs`: also those that no
        event ever referred to. One write transaction; others wait, readers go on. O(events + objects), ~2 µs each.
        The file keeps its size, see `compact`.
        """
        request = checked_request(dry_run, expire_reflog, branches, older_than, unused_blobs)
        return gc(self._engine, request, _checked_progress("gc", progress))

    def erase(
        self, event: str | Event | Iterable[str | Event], reason: str, progress: Progress | None = None
    ) -> EraseReport:
        """Takes the payload of an event (or of several, by id) out of the log and of all that was made of it, for good.

        `reason`: 1 to 255 bytes, kept with the event; write nothing personal into it. Type, time, slot and ids stay,
        and the chain of ids still verifies. Reading the event, or an item that it brought, gives an `Erased`; states
        after it are folded anew. Blobs go that only erased events refer to. What was erased before stays as it is.
        NotFound for an unknown id, InvalidOperation inside a transaction: erasing is one of its own. The file holds the
        bytes in free pages until `compact`; backups and exports made before keep them. O(events after it on its
        branches + objects).
        """
        return erase(self._engine, event, reason, _checked_progress("erase", progress))

    def compact(self, progress: Progress | None = None) -> CompactReport:
        """Writes the store anew without free room and puts it in the place of its file; other processes go on with it.

        Writers wait, readers go on. Needs room for a second file; a kill at any moment leaves the old or the new one
        whole. About 1 µs an event. Not on Windows, where an open file cannot be replaced (InvalidOperation).
        """
        return compact(self._engine, _checked_progress("compact", progress))

    def backup(self, path: str | os.PathLike[str], progress: Progress | None = None) -> int:
        """Writes a consistent copy to a new file, which opens as a store, and returns its bytes. Others go on writing.

        Overwrites nothing; the file is there when it is whole and on disk. The copy has the same store id: it is this
        store as it was, not another one.
        """
        return backup(self._engine, path, _checked_progress("backup", progress))

    def verify(self, deep: bool = False, progress: Progress | None = None) -> Report:
        """Checks the pages, then everything stored against everything else; `deep` also folds every slot anew and
        compares. `verify_file` is for a store that may be too damaged to open."""
        from chronicle_py.rescue.verifying import verify_store

        if not isinstance(deep, bool):
            raise InvalidOperation(f"verify(deep=) is True or False, not {shown(deep)}")
        return verify_store(self, deep, _checked_progress("verify", progress))

    def close(self) -> None:
        """Closes the store; closing twice is fine. Iterators and views of it raise InvalidOperation afterwards."""
        self._engine.close()


def _checked_progress(call: str, progress: Progress | None) -> Progress | None:
    if progress is not None and not callable(progress):
        raise InvalidOperation(f"{call}(progress=) is a function of (done, total), not {shown(progress)}")
    return progress


class Namespace:
    """A prefix of slot ids."""

    def __init__(self, store: Store, prefix: str) -> None:
        self._store = store
        self.prefix = prefix

    def __repr__(self) -> str:
        return f"<Namespace {self.prefix!r}>"

    def state_id(self, id: str) -> str:
        """The full id of a slot of this namespace."""
        return check_slot(f"{self.prefix}/{check_slot(id)}")

    def register_state(
        self,
        id: str,
        kind: str | None = None,
        reducer: Reducer[Any] | None = None,
        types: Sequence[str] = (),
        sources: Sequence[str] = (),
        initial: Any = None,
    ) -> str:
        """As `store.register_state`, under the prefix; returns the full id. `sources` are full ids."""
        full = self.state_id(id)
        self._store.register_state(full, kind, reducer, types, sources, initial)
        return full

    def namespace(self, prefix: str) -> Namespace:
        """A namespace below this one."""
        return Namespace(self._store, self.state_id(prefix))
