"""Branches: names for head events. Forking, orphans, rewinding, deleting and restoring, and the reflog.

A branch is one record; making, moving or deleting one copies and deletes no event. Every such change leaves an entry
in the branch's reflog with its head before and after, so that each can be undone.
"""

from __future__ import annotations

import msgspec

from chronicle_py import records
from chronicle_py.engine import Engine
from chronicle_py.errors import BranchExists, InvalidOperation, NotFound
from chronicle_py.event import Event
from chronicle_py.kv import REFLOG, REFS, Reader
from chronicle_py.names import check_branch, check_name
from chronicle_py.records import MoveRecord, Ref
from chronicle_py.shown import shown
from chronicle_py.transaction import Transaction

MAIN = "main"


class BranchInfo(msgspec.Struct, frozen=True):
    """What `store.branches()` says of a branch."""

    name: str
    seq: int
    head: str | None  # hex id; None: the branch is empty
    time: int | None  # µs, of the head
    parent: str | None  # the branch it was forked from
    fork_seq: int  # the last sequence it shares with its parent, as it was forked
    created: int  # µs
    description: str


class Move(msgspec.Struct, frozen=True):
    """One entry of a branch's reflog. A head is (sequence, hex id), or None where there was no branch."""

    number: int  # rises by one an entry; entries that have expired are missing at the start
    kind: str  # create, fork, orphan, rewind, delete, restore, import
    time: int  # µs
    before: tuple[int, str] | None
    after: tuple[int, str] | None


def head_of(ref: Ref | None) -> tuple[int, str] | None:
    """A head as the public face shows it; the id of an empty branch is ""."""
    return None if ref is None else (ref.seq, ref.key.hex())


def read_ref(reader: Reader, name: str) -> Ref:
    """The branch's record as the snapshot has it. O(log branches)."""
    key = name.encode()
    record = reader.get(REFS, key)
    if record is None:
        raise NotFound(f"there is no branch {name!r}; see store.branches(), `chronicle branches`")
    return records.decode_ref(key, record, "a branch")


def list_branches(engine: Engine) -> list[BranchInfo]:
    """All branches in the order of their names, `main` first."""
    with engine.read() as reader:
        found = []
        for key, record in reader.scan(REFS, b""):
            name = records.name_of(key, "a branch")
            found.append(_info(engine, reader, name, records.decode_ref(key, record, f"branch {name!r}")))
    return sorted(found, key=lambda info: (info.name != MAIN, info.name))


def branch_info(engine: Engine, name: str) -> BranchInfo:
    """What `list_branches` says of one branch. O(log n)."""
    with engine.read() as reader:
        return _info(engine, reader, name, read_ref(reader, name))


def _info(engine: Engine, reader: Reader, name: str, ref: Ref) -> BranchInfo:
    time = engine.log.at(reader, ref.lineage, ref.seq).time if ref.seq else None
    return BranchInfo(
        name, ref.seq, ref.key.hex() or None, time, ref.parent, ref.fork_seq, ref.created, ref.description
    )


def branch_names(engine: Engine) -> set[str]:
    """The names of all branches, of those as well that were deleted and can be restored. O(names · log n)."""
    with engine.read() as reader:
        names = {key.decode() for key, _ in reader.scan(REFS, b"")}
        start = b""
        while found := reader.scan(REFLOG, start, limit=1):
            name = found[0][0][:-9]
            names.add(name.decode())
            start = name + b"\1"  # behind all entries of this name: they go on with NUL
    return names


def _new_name(tx: Transaction, name: str) -> str:
    check_branch(name)
    if tx.find_ref(name) is not None:
        raise BranchExists(f"there is a branch {name!r} already; choose another name or delete that one")
    return name


def position_of(engine: Engine, reader: Reader, ref: Ref, name: str, at: int | str | Event) -> tuple[int, int, bytes]:
    """(lineage, seq, id) of a sequence or event id on a branch. Sequence 0 is (0, 0, b"")."""
    if isinstance(at, Event):
        at = at.id
    if isinstance(at, str):
        _, event = engine.log.resolve(reader, at)
        if event.seq <= ref.seq:
            lineage, found = engine.log.on_chain(reader, ref.lineage, event.seq)
            if found.key == event.key:
                return lineage, event.seq, event.key
        raise NotFound(f"event {event.id[:12]} exists but is not on branch {name!r}; look with `chronicle log`")
    seq = check_seq(at, name, ref.seq)
    if seq == ref.seq:
        return ref.lineage, ref.seq, ref.key
    if seq == 0:
        return 0, 0, b""
    lineage, found = engine.log.on_chain(reader, ref.lineage, seq)
    return lineage, seq, found.key


def check_seq(seq: object, name: str, head: int) -> int:
    if not isinstance(seq, int) or isinstance(seq, bool):
        raise InvalidOperation(f"a place on branch {name!r} is a sequence (int) or an event id (str), not {shown(seq)}")
    if not 0 <= seq <= head:
        raise NotFound(f"branch {name!r} has sequences 0 to {head}, there is no {shown(seq)}")
    return seq


def fork(engine: Engine, source: str, name: str, at: int | str | Event | None, description: str = "") -> None:
    """A new branch that shares the history of `source` up to `at`. O(log n), whatever the size of the history."""
    if description:
        check_name("a branch description", description)

    def work(tx: Transaction) -> None:
        ref = tx.ref(source)
        _new_name(tx, name)
        if at is not None:
            tx.flush()
        lineage, seq, key = (
            (ref.lineage, ref.seq, ref.key) if at is None else position_of(engine, tx.writer, ref, source, at)
        )
        now = engine.clock()
        tx.move("fork", name, None, Ref(lineage, seq, key, False, now, source, seq, description), now)

    engine.run(work)


def orphan(engine: Engine, name: str) -> None:
    """A new branch without history."""

    def work(tx: Transaction) -> None:
        _new_name(tx, name)
        now = engine.clock()
        tx.move("orphan", name, None, Ref(0, 0, b"", False, now, None, 0), now)

    engine.run(work)


def rewind(engine: Engine, name: str, to: int | str | Event) -> None:
    """Sets a branch's head to a place on its history, or to the event of any id in its reflog, forward too."""

    def work(tx: Transaction) -> None:
        ref = tx.ref(name)
        tx.flush()
        try:
            lineage, seq, key = position_of(engine, tx.writer, ref, name, to)
        except NotFound:
            if isinstance(to, int):
                raise NotFound(
                    f"branch {name!r} has sequences 0 to {ref.seq}, there is no {shown(to)}; to go forward again, give "
                    "an event id of its reflog"
                ) from None
            lineage, seq, key = _in_reflog(engine, tx, name, to.id if isinstance(to, Event) else to)
        if key == ref.key:
            return
        now = engine.clock()
        after = Ref(lineage, seq, key, False, ref.created, ref.parent, ref.fork_seq, ref.description)
        tx.move("rewind", name, ref, after, now)

    engine.run(work)


def _in_reflog(engine: Engine, tx: Transaction, name: str, to: str) -> tuple[int, int, bytes]:
    """A place on the history of any head that this branch once had."""
    _, event = engine.log.resolve(tx.writer, to)
    for _, move in _moves(tx.writer, name, reverse=True):
        for ref in (move.after, move.before):
            if ref is not None and ref.seq >= event.seq:
                lineage, found = engine.log.on_chain(tx.writer, ref.lineage, event.seq)
                if found.key == event.key:
                    return lineage, event.seq, event.key
    raise NotFound(
        f"event {event.id[:12]} is neither on branch {name!r} nor below a head in its reflog; fork a branch from it "
        "instead. (Entries of the reflog expire where gc was told so.)"
    )


def delete(engine: Engine, name: str) -> None:
    """Removes the name. The events stay, and `restore` brings the branch back."""
    if name == MAIN:
        raise InvalidOperation("the branch 'main' cannot be deleted; rewind it instead")
    check_branch(name)
    engine.run(lambda tx: tx.move("delete", name, tx.ref(name), None, engine.clock()))


def restore(engine: Engine, name: str) -> None:
    """Brings back a deleted branch with the head it had."""

    def work(tx: Transaction) -> None:
        _new_name(tx, name)
        last = next(iter(_moves(tx.writer, name, reverse=True)), None)
        if last is None or last[1].before is None:
            raise NotFound(
                f"no branch {name!r} was deleted, or so long ago that its reflog has expired and gc may have collected "
                "its events; see store.branches(), `chronicle branches`"
            )
        before = last[1].before
        after = msgspec.structs.replace(before, owned=False)
        tx.move("restore", name, None, after, engine.clock())

    engine.run(work)


def _moves(reader: Reader, name: str, reverse: bool = False) -> list[tuple[int, MoveRecord]]:
    """The entries of a branch's reflog with their numbers."""
    prefix = name.encode() + b"\0"
    end = prefix + b"\xff" * 8
    pairs = reader.scan(REFLOG, end, prefix, reverse=True) if reverse else reader.scan(REFLOG, prefix, end)
    what = f"reflog entry of branch {name!r}"
    return [(int.from_bytes(key[-8:], "big"), records.decode_move(key, record, what)) for key, record in pairs]


def reflog(engine: Engine, name: str) -> list[Move]:
    """What became of a branch, oldest first; also of a deleted one."""
    check_branch(name)
    with engine.read() as reader:
        moves = _moves(reader, name)
        if not moves and reader.get(REFS, name.encode()) is None:
            raise NotFound(
                f"there is and was no branch {name!r}, or its reflog has expired; see store.branches(), "
                "`chronicle branches`"
            )
    return [Move(n, m.kind, m.time, head_of(m.before), head_of(m.after)) for n, m in moves]
