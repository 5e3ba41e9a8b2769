"""A real store and the model of `model.py`, driven through the same random steps and compared all along.

Two `Store`s of one file take turns, so that each finds in every cache what the other has made stale. What a read must
give is always the model's fold from the first event on.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any

import msgspec
import pytest
from comparison import CHECKS, arrays_in, canonical, encode, plain
from conftest import Clock, Entropy
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from material import SLOTS, Typed, items, names, patches, paths, reducer_of
from model import Happened, Model, Spec, fold, head, patched

import chronicle_py as chronicle
from chronicle_py import (
    Branch,
    BranchExists,
    Conflict,
    Event,
    InvalidOperation,
    NotFound,
    ReducerMissing,
    StateExists,
    StateNotRegistered,
    Store,
)
from chronicle_py.kv import FEED
from chronicle_py.records import BLOCK, decode_feed


class Aborted(Exception):
    """What a transaction of the test ends with."""


class EngineMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="chronicle-machine-"))
        self.clock, self.entropy = Clock(), Entropy()
        self.model = Model()
        self.slots: dict[str, Spec] = {}
        self.hashes: dict[tuple[str, bytes], str] = {}
        self.contents: dict[tuple[str, str], bytes] = {}
        self.events: dict[str, Happened] = {}  # all that was ever kept
        self.stores = [self._open(), self._open()]
        self.turn = 0
        self.inside = False  # a transaction
        self.registered = 0  # how many registrations changed the store
        self.failed = False

    def _open(self) -> Store:
        store = chronicle.open(self.folder / "store", durability="relaxed", clock=self.clock, entropy=self.entropy)
        store.register_event("typed", Typed)
        return store

    def teardown(self) -> None:
        try:
            if not self.failed:
                self._compare_all()
        finally:
            for store in self.stores:
                store.close()
            shutil.rmtree(self.folder)

    def _compare_all(self) -> None:
        for name, history in self.model.branches.items():
            for spec in self.slots.values():
                self._compare(self._branch(name), spec, len(history), live=True)
        for store in self.stores:
            store.close()
        with self._open() as store:
            self._load_reducers(store)
            report = store.verify(deep=True)
            assert report.ok, report.problems
            self._compare_feed(store)
            for name, history in self.model.branches.items():
                assert [e.id for e in store.branch(name).events()] == [e.id for e in history]
                for spec in self.slots.values():
                    self._compare(store.branch(name), spec, len(history) // 2, live=False)

    def _compare_feed(self, store: Store) -> None:
        assert feed_of(store) == self.model.done

    # --- either store, a branch, a place on it ---

    @property
    def store(self) -> Store:
        return self.stores[self.turn]

    def _branch(self, name: str) -> Branch:
        return self.store.branch(name)

    def _name(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.model.branches)), "branch")

    def _place(self, data: st.DataObject, length: int) -> int:
        """A sequence from 0 to `length`, by preference one where something begins or ends."""
        edges = {0, 1, length, length - 1, *(b + d for b in range(BLOCK, length + 2, BLOCK) for d in (-1, 0, 1))}
        some = st.sampled_from(sorted(s for s in edges if 0 <= s <= length))
        return data.draw(some | st.integers(0, length), "sequence")

    def _load_reducers(self, store: Store) -> None:
        for spec in self.slots.values():
            self._register(store, spec)

    @staticmethod
    def _register(store: Store, spec: Spec) -> None:
        custom = reducer_of(spec)
        if custom is not None:
            store.register_state(spec.id, reducer=custom, types=spec.types, sources=spec.sources)
        else:
            store.register_state(spec.id, spec.kind, types=spec.types, sources=spec.sources, initial=spec.initial)

    @initialize(first=st.sets(st.sampled_from([spec.id for spec in SLOTS]), min_size=3))
    def begin(self, first: set[str]) -> None:
        for spec in SLOTS:
            if spec.id in first:
                self._add_slot(spec)

    # --- writing: each step is done to the store, then to the model ---

    def _add_slot(self, spec: Spec) -> None:
        self._register(self.store, spec)
        self.registered += self.slots.get(spec.id) != spec
        self.slots[spec.id] = spec
        if not self.inside:
            self._load_reducers(self.stores[1 - self.turn])

    def _note(self, name: str, event: Event, payload: Any, slot: str | None) -> None:
        """Enters an event in the model, after checking what the store says of it."""
        history = self.model.branches[name]
        assert event.seq == len(history) + 1
        assert event.parents == ((history[-1].id,) if history else ())
        assert event.slot == slot
        assert encode(msgspec.msgpack.decode(event.raw)) == encode(payload)
        self.model.append(name, Happened(event.id, event.type, slot, payload))

    def _has(self, *ids: str) -> bool:
        return any(id in self.slots for id in ids)

    def _slot_of(self, data: st.DataObject, kind: str) -> str | None:
        found = sorted(spec.id for spec in self.slots.values() if spec.kind == kind)
        return data.draw(st.sampled_from(found), "slot") if found else None

    def append_event(self, data: st.DataObject) -> None:
        name = self._name(data)
        branch = self._branch(name)
        type = data.draw(st.sampled_from(["note", "typed", "other"]))
        payload = {"n": data.draw(st.integers(-5, 5))} if type == "typed" else data.draw(items)
        slot = data.draw(st.sampled_from([None, None, "own"])) if "own" in self.slots and type != "typed" else None
        given = Typed(payload["n"]) if type == "typed" and data.draw(st.booleans()) else payload
        event = branch.append(type, given, slot=slot)
        self._note(name, event, {"n": given.n, "text": ""} if isinstance(given, Typed) else payload, slot)
        if type == "typed":
            assert branch.event(event.seq).payload == Typed(payload["n"])

    def refuse(self, data: st.DataObject) -> None:
        """Calls that must fail, and leave nothing."""
        name = self._name(data)
        branch, history = self._branch(name), self.model.branches[name]
        with pytest.raises(InvalidOperation, match=r"Expected `int`, got `str` - at `\$.n`"):
            branch.append("typed", {"n": "one"})
        with pytest.raises(Conflict):
            branch.append("note", 1, expect="00" * 32)
        if history:
            with pytest.raises(Conflict, match="head was expected"):
                branch.append("note", 1, expect=0)
            with pytest.raises(NotFound):
                branch.append("note", 1, caused_by=["00" * 32])
        if "log" in self.slots:
            length = len(fold(self.slots["log"], history))
            with pytest.raises(IndexError):
                branch.state("log").edit(length, "x")
        if "files" in self.slots:
            with pytest.raises(KeyError):
                branch.state("files").remove("never/there")
            with pytest.raises(KeyError):
                branch.state("files").batch([("put", "q", 1), ("remove", "q"), ("remove", "q")])
        for spec in SLOTS:
            if spec.id in self.slots:
                with pytest.raises(StateExists):
                    self.store.register_state(spec.id, "value", initial="another")
            else:
                with pytest.raises(StateNotRegistered):
                    branch.state(spec.id)
        assert branch.seq == len(history)

    def append_expecting(self, data: st.DataObject) -> None:
        name = self._name(data)
        history = self.model.branches[name]
        expect: str | int = history[-1].id if history else 0
        cause = [history[self._place(data, len(history)) - 1].id] if history else []
        event = self._branch(name).append("note", "as expected", expect=expect, caused_by=cause)
        assert event.caused_by == tuple(cause)
        self._note(name, event, "as expected", None)
        if cause:
            assert event in self.store.effects(cause[0])

    def set_value(self, data: st.DataObject) -> None:
        slot, value = self._slot_of(data, "value"), data.draw(items)
        if slot is not None:
            name = self._name(data)
            self._note(name, self._branch(name).state(slot).set(value), value, slot)

    def change_log(self, data: st.DataObject) -> None:
        slot = self._slot_of(data, "append_log")
        if slot is None:
            return
        name = self._name(data)
        view = self._branch(name).state(slot)
        length = len(fold(self.slots[slot], self.model.branches[name]))
        assert len(view) == length
        what = data.draw(st.sampled_from(["append", "append", "edit", "redact", "set"]))
        if what == "append" or (what == "edit" and not length):
            item = data.draw(items)
            self._note(name, view.append(item), item, slot)
        elif what == "edit":
            at, item = data.draw(st.integers(-length, length - 1), "index"), data.draw(items)
            self._note(name, view.edit(at, item), {"index": at % length, "item": item}, slot)
        elif what == "redact":
            start = data.draw(st.integers(0, length + 2), "start")
            stop = start + data.draw(st.integers(0, 5) | st.integers(0, length + 5), "how many")
            cut = {"start": min(start, length), "stop": min(stop, length)}
            self._note(name, view.redact(start, stop), cut, slot)
        else:
            values = data.draw(st.lists(items, max_size=3)) * data.draw(st.sampled_from([1, 1, 30]))
            self._note(name, view.set(values), values, slot)

    def change_tree(self, data: st.DataObject) -> None:
        slot = self._slot_of(data, "tree")
        if slot is None:
            return
        name = self._name(data)
        view = self._branch(name).state(slot)
        there = fold(self.slots[slot], self.model.branches[name])
        if data.draw(st.booleans()):
            ops: list[tuple[Any, ...]] = []
            for path, value in data.draw(st.lists(st.tuples(paths, items), max_size=40)):
                if path in there and data.draw(st.booleans()):
                    ops.append(("remove", path))
                    del there[path]
                else:
                    ops.append(("put", path, value))
                    there[path] = value
            payload: Any = [{"path": op[1], **({"value": op[2]} if op[0] == "put" else {})} for op in ops]
            self._note(name, view.batch(ops), payload, slot)
            return
        path = data.draw(paths)
        if path in there and data.draw(st.booleans()):
            self._note(name, view.remove(path), {"path": path}, slot)
        else:
            value = data.draw(items)
            self._note(name, view.put(path, value), {"path": path, "value": value}, slot)

    def change_document(self, data: st.DataObject) -> None:
        slot = self._slot_of(data, "document")
        if slot is None:
            return
        name = self._name(data)
        view = self._branch(name).state(slot)
        state = fold(self.slots[slot], self.model.branches[name])
        arrays = list(arrays_in(state, ()))
        what = data.draw(st.sampled_from(["patch", "append", "append", "set", "grow"]))
        if what == "append" and arrays:
            path, item = data.draw(st.sampled_from(arrays)), data.draw(items)
            self._note(name, view.append(path, item), {"path": list(path), "item": item}, slot)
        elif what == "set":
            value = data.draw(patches)
            self._note(name, view.set(value), value, slot)
        else:
            patch = data.draw(patches)
            if what == "grow":  # over and under the size from which objects and arrays are stored in chunks
                size = data.draw(st.sampled_from([3, 64, 65, 90]))
                patch["wide"] = {f"k{n:03}": None if data.draw(st.booleans()) else n for n in range(size)}
                patch["list"] = list(range(data.draw(st.sampled_from([3, 64, 65, 90]))))
            self._note(name, view.patch(patch), patch, slot)

    def append_many(self, data: st.DataObject) -> None:
        """Many events of one pattern, to come over block boundaries; each its own commit, or all in one."""
        name = self._name(data)
        branch = self._branch(name)
        count = data.draw(st.integers(1, 2 * BLOCK + 2), "count")
        pattern = data.draw(st.sampled_from([p for p, slot in _PATTERNS if slot is None or slot in self.slots]))

        def append() -> None:
            for n in range(count):
                self._note(name, *_PATTERN[pattern](branch, n))

        if data.draw(st.booleans(), "in one transaction"):
            with self.store.transaction():
                append()
        else:
            append()

    # --- branches ---

    def fork(self, data: st.DataObject) -> None:
        source, name = self._name(data), data.draw(names, "new name")
        history = self.model.branches[source]
        if name in self.model.branches:
            with pytest.raises(BranchExists):
                self._branch(source).fork(name)
            return
        place = self._place(data, len(history))
        by_id = place > 0 and data.draw(st.booleans(), "by id")
        at = history[place - 1].id if by_id else None if place == len(history) else place
        assert self._branch(source).fork(name, at).seq == place
        self.model.new("fork", name, history[:place], source)

    def orphan(self, data: st.DataObject) -> None:
        name = data.draw(names)
        if name not in self.model.branches:
            assert self.store.orphan(name).head is None
            self.model.new("orphan", name, [], None)

    def rewind(self, data: st.DataObject) -> None:
        name = self._name(data)
        branch, history = self._branch(name), self.model.branches[name]
        if data.draw(st.booleans(), "by sequence"):
            place = self._place(data, len(history))
            branch.rewind(place)
            target = history[:place]
        else:
            reachable = self.model.reachable(name)
            if not reachable:
                return
            id = data.draw(st.sampled_from(sorted(reachable)), "to")
            branch.rewind(id)
            target = reachable[id]
        if head(target) != head(history):
            self.model.move("rewind", name, target)

    def rewind_too_far(self, data: st.DataObject) -> None:
        name = self._name(data)
        branch, history = self._branch(name), self.model.branches[name]
        with pytest.raises(NotFound, match="to go forward again, give an event id"):
            branch.rewind(len(history) + 1)
        reachable = self.model.reachable(name)
        strange = [e.id for h in self.model.branches.values() for e in h if e.id not in reachable]
        if strange:
            with pytest.raises(NotFound, match="neither on branch"):
                branch.rewind(data.draw(st.sampled_from(strange)))

    def delete(self, data: st.DataObject) -> None:
        name = self._name(data)
        if name == "main":
            with pytest.raises(InvalidOperation, match="cannot be deleted"):
                self.store.delete_branch(name)
            return
        self.store.delete_branch(name)
        self.model.delete(name)
        with pytest.raises(NotFound):
            self.store.branch(name)

    def restore(self, data: st.DataObject) -> None:
        name = data.draw(names)
        if name in self.model.branches:
            with pytest.raises(BranchExists):
                self.store.restore_branch(name)
        elif name not in self.model.deleted:
            with pytest.raises(NotFound):
                self.store.restore_branch(name)
        else:
            self.store.restore_branch(name)
            self.model.restore(name)

    # --- slots ---

    def register_late(self, data: st.DataObject) -> None:
        left = [spec for spec in SLOTS if spec.id not in self.slots]
        if left:
            self._add_slot(left[data.draw(st.integers(0, len(left) - 1), "slot")])

    def change_reducer(self, data: st.DataObject) -> None:
        """A custom reducer comes back with another version: every state of its slot is another one."""
        slot = self._slot_of(data, "tally")
        if slot is not None:
            self._add_slot(self.slots[slot]._replace(version=data.draw(st.integers(1, 3))))

    # --- reading ---

    def read_one(self, data: st.DataObject) -> None:
        name = self._name(data)
        history = self.model.branches[name]
        place = self._place(data, len(history))
        spec = self.slots[data.draw(st.sampled_from(sorted(self.slots)), "slot")]
        self._compare(self._branch(name), spec, place, live=False)
        self._compare(self._branch(name), spec, len(history), live=True)

    def read_all(self, data: st.DataObject) -> None:
        name = self._name(data)
        place = self._place(data, len(self.model.branches[name]))
        for spec in self.slots.values():
            self._compare(self._branch(name), spec, place, live=False)

    def _compare(self, branch: Branch, spec: Spec, seq: int, live: bool) -> None:
        history = self.model.branches[branch.name][:seq]
        state = fold(spec, history)
        view = branch.state(spec.id) if live else branch.state(spec.id, at=history[-1].id if seq % 2 else seq)
        assert view.seq == seq
        content = CHECKS[spec.kind](view, state)
        hash = view.hash
        assert self.hashes.setdefault((spec.kind, content), hash) == hash, "equal states, different hashes"
        assert self.contents.setdefault((spec.kind, hash), content) == content, "different states, equal hashes"

    def walk(self, data: st.DataObject) -> None:
        name = self._name(data)
        history = self.model.branches[name]
        start, stop = self._place(data, len(history)), self._place(data, len(history))
        types = data.draw(st.none() | st.sets(st.sampled_from(["note", "typed", "other", "state.append", "state.put"])))
        slot = data.draw(st.none() | st.sampled_from(sorted(self.slots)), "slot")
        reverse, limit = data.draw(st.booleans()), data.draw(st.none() | st.integers(0, 5) | st.integers(0, 200))
        found = list(self._branch(name).events(start, stop, types, slot, reverse, limit))
        wanted = [
            (seq, e)
            for seq, e in enumerate(history, 1)
            if start <= seq <= stop and (types is None or e.type in types) and (slot is None or e.slot == slot)
        ]
        wanted = (wanted[::-1] if reverse else wanted)[:limit]
        assert [(e.seq, e.id, e.type, e.slot) for e in found] == [(seq, e.id, e.type, e.slot) for seq, e in wanted]

    def diff(self, data: st.DataObject) -> None:
        name, other = self._name(data), self._name(data)
        spec = self.slots[data.draw(st.sampled_from(sorted(self.slots)), "slot")]
        branch, history = self._branch(name), self.model.branches[name]
        place = self._place(data, len(history))
        old = plain(fold(spec, history[:place]))
        if data.draw(st.booleans(), "with another branch"):
            new = plain(fold(spec, self.model.branches[other]))
            changes = branch.diff(spec.id, place, self._branch(other))
        else:
            until = self._place(data, len(history))
            new = plain(fold(spec, history[:until]))
            changes = branch.diff(spec.id, place, until)
        assert (changes == []) == (canonical(spec, old) == canonical(spec, new))
        assert canonical(spec, patched(old, changes)) == canonical(spec, new)

    def replay(self, data: st.DataObject) -> None:
        name = self._name(data)
        spec = self.slots[data.draw(st.sampled_from(sorted(self.slots)), "slot")]
        replayed = self._branch(name).replay(spec.id)
        assert replayed.equal
        assert replayed.events == len(self.model.branches[name])
        assert replayed.hash == self._branch(name).state(spec.id).hash

    def compare_branches(self, data: st.DataObject) -> None:
        listed = {info.name: info for info in self.store.branches()}
        assert list(listed) == ["main", *sorted(set(self.model.branches) - {"main"})]
        for name, history in self.model.branches.items():
            info = listed[name]
            assert (info.seq, info.head or "") == head(history)
            assert (info.parent, info.fork_seq) == self.model.origin[name]
        for name, moves in self.model.moves.items():
            said = [(m.kind, m.before, m.after) for m in self._reflog(name)]
            assert said == [(kind, head(before), head(after)) for kind, before, after in moves]

    def _reflog(self, name: str) -> list[chronicle.Move]:
        if name in self.model.branches:
            return self._branch(name).reflog()
        return Branch(self._branch("main").engine, name).reflog()

    # --- the steps themselves ---

    _WRITES = (
        append_event, append_expecting, set_value, change_log, change_log, change_tree, change_document, append_many,
    )  # fmt: skip
    _MOVES = (
        fork,
        fork,
        orphan,
        rewind,
        rewind,
        rewind_too_far,
        delete,
        restore,
        register_late,
        change_reducer,
        refuse,
    )
    _READS = (read_one, read_one, read_all, walk, diff, diff, replay, compare_branches)

    def _step(self, data: st.DataObject, steps: tuple[Callable[[EngineMachine, st.DataObject], None], ...]) -> None:
        step = data.draw(st.sampled_from(steps), "step")
        try:
            step(self, data)
        except BaseException:
            self.failed = True
            raise

    @rule(data=st.data(), turn=st.integers(0, 1))
    def write(self, data: st.DataObject, turn: int) -> None:
        self.turn = turn
        self._step(data, self._WRITES)

    @rule(data=st.data(), turn=st.integers(0, 1))
    def move(self, data: st.DataObject, turn: int) -> None:
        self.turn = turn
        self._step(data, self._MOVES)

    @rule(data=st.data(), turn=st.integers(0, 1))
    def read(self, data: st.DataObject, turn: int) -> None:
        self.turn = turn
        self._step(data, self._READS)

    @rule(data=st.data(), turn=st.integers(0, 1))
    def transaction(self, data: st.DataObject, turn: int) -> None:
        """Steps that count together, or not at all."""
        self.turn = turn
        model, slots = self.model.copy(), dict(self.slots)
        failing = data.draw(st.booleans(), "failing")
        try:
            with self._transaction():
                self._steps_inside(data)
                if failing:
                    raise Aborted
        except Aborted:
            self.model, self.slots = model, slots
        self._load_both()

    @rule(data=st.data(), turn=st.integers(0, 1))
    def transaction_within(self, data: st.DataObject, turn: int) -> None:
        """An inner failure that is swallowed: what it had written cannot be kept, so that nothing is."""
        self.turn = turn
        model, slots = self.model.copy(), dict(self.slots)
        with self._maybe_refused(model) as kept, self._transaction():
            self._steps_inside(data)
            before, registered = self.model.copy(), self.registered
            try:
                with self.store.transaction():
                    self._steps_inside(data)
                    if data.draw(st.booleans(), "failing"):
                        raise Aborted
            except Aborted:
                changed = self.model.branches != before.branches or self.model.moves != before.moves
                if changed or self.registered != registered:
                    kept.append(False)
            self._steps_inside(data)
        if False in kept:
            self.model, self.slots = model, slots
        self._load_both()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self.inside = True
        try:
            with self.store.transaction():
                yield
        finally:
            self.inside = False

    def _load_both(self) -> None:
        """Brings the reducers to the store that took no part, and back to the one whose transaction was not kept."""
        for store in self.stores:
            self._load_reducers(store)

    @contextmanager
    def _maybe_refused(self, model: Model) -> Iterator[list[bool]]:
        kept: list[bool] = []
        try:
            yield kept
        except InvalidOperation as error:
            if "nothing of this transaction was kept" not in str(error):
                raise
            refused = [False]
        else:
            refused = []
        assert kept == refused

    def _steps_inside(self, data: st.DataObject) -> None:
        steps = self._WRITES + self._MOVES + self._READS
        for _ in range(data.draw(st.integers(0, 4), "steps")):
            self._step(data, steps)

    @rule(turn=st.integers(0, 1), readers=st.booleans())
    def reopen(self, turn: int, readers: bool) -> None:
        """A new process, as far as the store can tell, when both are closed. Built-in slots need no registration."""
        for store in self.stores if turn else self.stores[:1]:
            store.close()
        if readers:
            with chronicle.open(self.folder / "store", readonly=True, durability="relaxed") as store:
                for spec in self.slots.values():
                    if reducer_of(spec) is None:
                        self._compare(store.branch(), spec, len(self.model.branches["main"]), live=True)
                    else:
                        with pytest.raises(ReducerMissing, match=spec.kind):
                            store.branch().state(spec.id).get()
        for i in range(1 + turn):
            self.stores[i] = self._open()
            self._load_reducers(self.stores[i])

    @precondition(lambda self: any(self.model.branches.values()))
    @rule(data=st.data())
    def by_id(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(n for n, h in self.model.branches.items() if h)))
        history = self.model.branches[name]
        event = data.draw(st.sampled_from(history))
        assert self.store.event(event.id[:32]).id == event.id
        assert self.store.event(event.id.upper()).seq == history.index(event) + 1


def feed_of(store: Store) -> list[tuple[str, str]]:
    """Everything done, in the global order that followers will read; a run of events is one entry of it."""
    found: list[tuple[str, str]] = []
    with store._engine.read() as reader:
        entries = [decode_feed(key, value, "it") for key, value in reader.scan(FEED, b"")]
        for entry, following in zip_longest(entries, entries[1:]):
            if entry.kind != "run":
                found.append((entry.kind, entry.branch))
                continue
            stop = following.stop_before if following else store.branch(entry.branch).seq
            events = store._engine.log.events(reader, entry.lineage, entry.start, stop)
            found += [(event.id, entry.branch) for event in events]
    return found


_PATTERNS: tuple[tuple[str, str | None], ...] = (
    ("numbers", "log"), ("equal", "log"), ("pairs", "log"), ("notes", None), ("paths", "files"), ("values", "value"),
    ("patches", "doc"), ("turns", "log"),
)  # fmt: skip


def _note(branch: Branch, n: int) -> tuple[Event, Any, str | None]:
    return branch.append("note", n), n, None


def _log(branch: Branch, item: Any) -> tuple[Event, Any, str | None]:
    return branch.state("log").append(item), item, "log"


_PATTERN: dict[str, Callable[[Branch, int], tuple[Event, Any, str | None]]] = {
    "numbers": _log,
    "equal": lambda branch, n: _log(branch, "the same again and again"),
    "pairs": lambda branch, n: _log(branch, "ab"[n % 2] * 50),
    "notes": _note,
    "paths": lambda branch, n: (
        branch.state("files").put(f"dir{n % 7}/f{n}", n), {"path": f"dir{n % 7}/f{n}", "value": n}, "files",
    ),
    "values": lambda branch, n: (branch.state("value").set([n]), [n], "value"),
    "patches": lambda branch, n: (branch.state("doc").patch({f"key{n}": n}), {f"key{n}": n}, "doc"),
    "turns": lambda branch, n: _note(branch, n) if n % 3 else _log(branch, n),
}  # fmt: skip


TestEngine = EngineMachine.TestCase
TestEngine.settings = settings(max_examples=3 * settings().max_examples, stateful_step_count=40)
