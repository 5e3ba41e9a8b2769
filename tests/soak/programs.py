"""What the workers of the kill harness do: every operation that writes, each announced, done and acknowledged.

A worker holds no state that the store does not: it can be killed anywhere, and the next one goes on. What an operation
needs before it (a block that is all but full, a state that was folded) is an operation of its own.
"""

from __future__ import annotations

import io
import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

import chronicle_py as chronicle
from chronicle_py import BlobRef, Branch, Event, List, Map, Store, exchange, reducer
from chronicle_py.context import ContextManager
from chronicle_py.context.importers import import_file
from chronicle_py.records import BLOCK
from chronicle_py.strategies import Autobiographical
from soak.ledger import Effect, Intent

SAMPLE = json.loads((Path(__file__).resolve().parent.parent.parent / "docs" / "sample.traj.json").read_text())
MOST_BRANCHES = 10


class Tally(msgspec.Struct, frozen=True):
    """The state of a custom slot: a plain field and both collections."""

    n: int = 0
    by_type: Map[int] = msgspec.field(default_factory=Map)
    recent: List[Any] = msgspec.field(default_factory=List)


@reducer("soak tally", initial=Tally)
def tally(state: Tally, event: Event) -> Tally:
    """Counts events by type, and keeps the last of them."""
    recent = state.recent.append(event.seq)
    return Tally(
        state.n + 1,
        state.by_type.set(event.type, state.by_type.get(event.type, 0) + 1),
        recent.delete(0, len(recent) - 30) if len(recent) > 40 else recent,
    )


def furnish(store: Store) -> None:
    """Registers what the workers write to; the same again is fine."""
    with store.transaction():
        for id, kind in (("log", "append_log"), ("tree", "tree"), ("doc", "document"), ("value", "value")):
            store.register_state(id, kind=kind)
        store.register_state("tally", reducer=tally, types=["note", "part"], sources=["log"])
        manager_of(store)
    store.register_index("log", "1")


def manager_of(store: Store) -> ContextManager:
    """The conversation of these stores, with a strategy that has something to fold soon."""
    strategy = Autobiographical(head_window_tokens=40, recent_window_tokens=60, target_chunk_tokens=40)
    return ContextManager(store, strategy=strategy, tokenizer=len, namespace="soak")


Announce = Callable[[Intent], None]


class Worker:
    """The operations, on one open store."""

    def __init__(self, store: Store, seed: int, say: Callable[[bytes], None]) -> None:
        self.store = store
        self.chance = random.Random(seed)
        self.main = store.branch()
        self._say = say

    def run(self, op: str) -> None:
        """One operation: announced, done, acknowledged."""
        found = OPERATIONS[op](self)
        intent, act = found
        intent.op = op
        self._say(b"in " + msgspec.json.encode(intent) + b"\n")
        begun = time.perf_counter()
        effect = act()
        effect.op, effect.took = op, time.perf_counter() - begun
        self._say(b"out " + msgspec.json.encode(effect) + b"\n")

    def payload(self) -> Any:
        """Something to append; now and then something large."""
        size = self.chance.choice((3, 30, 300, 300, 3000, 30_000))
        return ["x" * self.chance.randrange(size), self.chance.randrange(1000)]

    def name(self, start: str) -> str:
        """A name that no branch has had."""
        return f"{start} {self.chance.getrandbits(60):015x}"

    def side(self) -> str | None:
        """A branch that is not main."""
        names = [info.name for info in self.store.branches() if info.name != "main"]
        return self.chance.choice(names) if names else None

    def sequence(self) -> int:
        """A sequence of main that is not long ago."""
        return self.chance.randint(max(0, self.main.seq - 150), self.main.seq)


Operation = tuple[Intent, Callable[[], Effect]]


def _adds(number: int | None = 1, branch: str = "main") -> Intent:
    return Intent("", adds={branch: number})


def _added(*events: Event, branch: str = "main") -> Effect:
    return Effect("", adds={branch: [event.id for event in events]})


def _ids(branch: Branch, start: int = 1) -> list[str]:
    return [event.id for event in branch.events(start=start)]


def append(work: Worker) -> Operation:
    """An item of the list."""
    item = work.payload()
    return _adds(), lambda: _added(work.main.state("log").append(item))


def change(work: Worker) -> Operation:
    """One operation of a slot of another kind."""
    path, value = f"path/{work.chance.randrange(40)}", work.payload()
    kind = work.chance.randrange(4)

    def act() -> Any:
        if kind == 0:
            return work.main.state("value").set(value)
        if kind == 1:
            return work.main.state("doc").patch({path: value, "many": {str(work.chance.randrange(200)): 1}})
        if kind == 2:
            return work.main.state("tree").batch([("put", f"{path}/{n}", value) for n in range(30)])
        return work.main.state("tree").put(path, value)

    return _adds(), lambda: _added(act())


def edit(work: Worker) -> Operation:
    """An edit or a redaction of the list."""
    log = work.main.state("log")
    if not len(log):
        return append(work)
    at = work.chance.randrange(len(log))
    if work.chance.random() < 0.5:
        return _adds(), lambda: _added(log.redact(at, at + 3))
    return _adds(), lambda: _added(log.edit(at, "edited"))


def transaction(work: Worker) -> Operation:
    """Many events in one commit, now and then with a fork among them."""
    number, forked = work.chance.randrange(2, 150), work.chance.random() < 0.2
    start, name = work.main.seq, work.name("in a transaction")
    intent = _adds(number)
    if forked:
        intent.makes[name] = start + 3

    def act() -> Effect:
        with work.store.transaction():
            events = [work.main.append("part", [number, n]) for n in range(number)]
            effect = _added(*events)
            if forked:
                on_it = work.main.fork(name, at=start + 2).append("note", "on a fork")
                effect.makes[name] = [*_ids(work.main)[: start + 2], on_it.id]
        return effect

    return intent, act


def nearly_close(work: Worker) -> Operation:
    """All but the last event of a block."""
    number = (BLOCK - 1 - work.main.seq) % BLOCK

    def act() -> Effect:
        with work.store.transaction():
            return _added(*(work.main.append("note", n) for n in range(number)))

    return _adds(number), act


def close_block(work: Worker) -> Operation:
    """An event of its own commit; after `nearly_close` the one that writes a block's directory."""
    return _adds(), lambda: _added(work.main.append("note", "closes"))


def fold(work: Worker) -> Operation:
    """More events than a block, and the custom state after them, which the next write enters into a directory."""

    def act() -> Effect:
        with work.store.transaction():
            events = [work.main.append("note", n) for n in range(BLOCK + 10)]
        work.main.state("tally").get()
        return _added(*events)

    return _adds(BLOCK + 10), act


def write_behind(work: Worker) -> Operation:
    """The write after `fold`."""
    work.main.state("tally").get()
    return _adds(), lambda: _added(work.main.append("note", "writes behind"))


def fork(work: Worker) -> Operation:
    """A fork, and an event on it: one commit."""
    if len(work.store.branches()) >= MOST_BRANCHES:
        return delete(work)
    at, name = work.sequence(), work.name("fork")

    def act() -> Effect:
        with work.store.transaction():
            event = work.main.fork(name, at=at).append("note", "on a fork")
        return Effect("", forks={name: ("main", at)}, adds={name: [event.id]})

    return Intent("", makes={name: at + 1}), act


def orphan(work: Worker) -> Operation:
    """A branch without history."""
    if len(work.store.branches()) >= MOST_BRANCHES:
        return delete(work)
    name = work.name("orphan")

    def act() -> Effect:
        work.store.orphan(name)
        return Effect("", makes={name: []})

    return Intent("", makes={name: 0}), act


def rewind(work: Worker) -> Operation:
    """A branch goes back."""
    name = work.side() if work.chance.random() < 0.7 else "main"
    branch = work.store.branch(name or "main")
    to = work.chance.randint(max(0, branch.seq - 20), branch.seq)

    def act() -> Effect:
        branch.rewind(to)
        return Effect("", rewinds={branch.name: to})

    return Intent("", rewinds={branch.name: to}), act


def delete(work: Worker) -> Operation:
    """A branch is deleted, and in the same program often restored."""
    name = work.side()
    if name is None:
        return append(work)

    def act() -> Effect:
        work.store.delete_branch(name)
        return Effect("", drops=[name])

    return Intent("", drops=[name]), act


def restore(work: Worker) -> Operation:
    """A branch is deleted and restored, in one commit: nothing may have changed."""
    name = work.side()
    if name is None:
        return append(work)

    def act() -> Effect:
        with work.store.transaction():
            work.store.delete_branch(name)
            work.store.restore_branch(name)
        return Effect("")

    return Intent(""), act


def blob(work: Worker) -> Operation:
    """A blob and an event that refers to it."""
    data = work.chance.randbytes(work.chance.choice((10, 5_000, 200_000)))

    def act() -> Effect:
        with work.store.transaction():
            id = work.store.put_blob(data, "application/x-soak")
            event = work.main.append("note", {"data": BlobRef(id)})
        effect = _added(event)
        effect.blobs[event.id] = id
        return effect

    return _adds(), act


def message(work: Worker) -> Operation:
    """A message, now and then with a picture."""
    cm = manager_of(work.store)
    content: Any = "word " * work.chance.randrange(1, 12)
    if work.chance.random() < 0.2:
        picture = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo" + "A" * 5}
        content = [{"type": "text", "text": content}, {"type": "image", "source": picture}]
    who = work.chance.choice(("User", "Claude"))
    seq = work.main.seq

    def act() -> Effect:
        cm.add_message(who, content)
        return Effect("", adds={"main": _ids(work.main, seq + 1)})

    return _adds(), act


def talk(work: Worker) -> Operation:
    """Twenty messages in one commit: something to pin and to fold."""

    def act() -> Effect:
        cm, seq = manager_of(work.store), work.main.seq
        with work.store.transaction():
            for n in range(20):
                cm.add_message("Claude" if n % 2 else "User", f"line {n} " * 3)
        return Effect("", adds={"main": _ids(work.main, seq + 1)})

    return _adds(20), act


def pin(work: Worker) -> Operation:
    """A pin over a message."""
    cm, seq = manager_of(work.store), work.main.seq
    last = cm.tail(1)
    if not last:
        return talk(work)

    def act() -> Effect:
        cm.pin(last[0].id)
        return Effect("", adds={"main": _ids(work.main, seq + 1)})

    return _adds(), act


def summarize(work: Worker) -> Operation:
    """What has grown old is folded: a few commits, each with what it says of it."""
    cm, seq = manager_of(work.store), work.main.seq

    def act() -> Effect:
        cm.drain(limit=3)
        return Effect("", adds={"main": _ids(work.main, seq + 1)})

    return _adds(None), act


def import_conversation(work: Worker) -> Operation:
    """A SWE-agent run, told a little differently each time, onto a branch of its own."""
    if len(work.store.branches()) >= MOST_BRANCHES:
        return delete(work)
    name = work.name("run")
    history = [{**step, "content": f"{name}: {step.get('content')}"} for step in SAMPLE["history"]]
    data = json.dumps({**SAMPLE, "history": history}).encode()

    def act() -> Effect:
        import_file(work.store, io.BytesIO(data), branch=name, tokenizer=len)
        return Effect("", makes={name: _ids(work.store.branch(name))})

    return Intent("", makes={name: len(history)}), act


def import_export(work: Worker) -> Operation:
    """An export of another store: its slots, blobs, events and two branches."""
    if len(work.store.branches()) >= MOST_BRANCHES - 1:
        return delete(work)
    prefix = work.name("from afar") + "/"
    folder = Path(work.store.path).parent / prefix.replace("/", "")
    with chronicle.open(folder, durability="relaxed") as other:
        other.register_state("log", kind="append_log")
        id = other.put_blob(prefix.encode())
        with other.transaction():
            for n in range(90):
                other.branch().state("log").append([prefix, n])
            other.branch().append("note", BlobRef(id))
            other.branch().fork("side", at=70).append("note", prefix)
        lines = list(exchange.export_lines(other))
    for name in (folder, Path(f"{folder}-lock")):
        name.unlink()

    def act() -> Effect:
        exchange.import_lines(work.store, lines, prefix=prefix)
        names = (f"{prefix}main", f"{prefix}side")
        return Effect("", makes={name: _ids(work.store.branch(name)) for name in names})

    return Intent("", makes={f"{prefix}main": 91, f"{prefix}side": 71}), act


def sync(work: Worker) -> Operation:
    """Everything to the disk."""

    def act() -> Effect:
        work.store.sync()
        return Effect("")

    return Intent(""), act


def gc(work: Worker) -> Operation:
    """What nobody needs is collected; with the reflogs gone, deleted branches are, too."""
    forgets = work.chance.random() < 0.6

    def act() -> Effect:
        work.store.gc(expire_reflog=0 if forgets else None)
        return Effect("", collects=forgets)

    return Intent("", collects=forgets), act


def compact(work: Worker) -> Operation:
    """The file is written anew and replaced; whoever has it open goes on with the new one."""

    def act() -> Effect:
        work.store.compact()
        return Effect("")

    return Intent(""), act


def backup(work: Worker) -> Operation:
    """A copy beside the store; the one of the time before is removed first."""
    target = copy_of(work.store.path)

    def act() -> Effect:
        target.unlink(missing_ok=True)
        work.store.backup(target)
        return Effect("")

    return Intent(""), act


def copy_of(path: str | Path) -> Path:
    """Where `backup` writes to: a file that is whole, or not there."""
    return Path(f"{path} copy")


OPERATIONS: dict[str, Callable[[Worker], Operation]] = {
    "append": append,
    "change": change,
    "edit": edit,
    "transaction": transaction,
    "nearly close a block": nearly_close,
    "close a block": close_block,
    "fold": fold,
    "write behind": write_behind,
    "fork": fork,
    "orphan": orphan,
    "rewind": rewind,
    "delete": delete,
    "restore": restore,
    "blob": blob,
    "message": message,
    "talk": talk,
    "pin": pin,
    "summarize": summarize,
    "import a conversation": import_conversation,
    "import an export": import_export,
    "sync": sync,
    "gc": gc,
    "compact": compact,
    "backup": backup,
}  # fmt: skip
BEFORE = {"close a block": "nearly close a block", "write behind": "fold", "pin": "talk", "summarize": "talk"}
"""What makes an operation the one it is to be."""
