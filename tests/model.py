"""The oracle: what a store must do, in plain Python.

A branch is a list of events, copied at every fork. A state is folded from the first event at every read, on plain lists
and dicts. Nothing here knows of lineages, blocks, checkpoints, caches or bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from typing import Any, NamedTuple

import msgspec


class Happened(NamedTuple):
    """An event."""

    id: str
    type: str
    slot: str | None
    payload: Any
    before: Any = None  # the payload of an erased event, of which only the shape counts
    erased: bool = False


class Spec(NamedTuple):
    """A registered slot."""

    id: str
    kind: str  # a built-in one, or the name of a custom reducer below
    types: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    initial: Any = None
    version: int = 1


class Item(NamedTuple):
    """An item of an append_log."""

    value: Any
    origin: str | None
    edited: str | None = None


History = list[Happened]


def concerned(spec: Spec, history: Iterable[Happened]) -> History:
    slots = {spec.id, *spec.sources}
    return [e for e in history if (e.type in spec.types if e.slot is None else e.slot in slots)]


def fold(spec: Spec, history: Iterable[Happened]) -> Any:
    """The state after these events."""
    step, state = _STEPS[spec.kind], _start(spec)
    for event in concerned(spec, history):
        state = step(state, deepcopy(event), spec)
    return state


def _start(spec: Spec) -> Any:
    if spec.kind == "value":
        return deepcopy(spec.initial)
    if spec.kind == "append_log":
        return [Item(value, None) for value in spec.initial or []]
    if spec.kind in ("tree", "document"):
        return deepcopy(spec.initial or {})
    return {"tally": {"n": 0, "by_type": {}, "recent": []}, "scratch": []}[spec.kind]


def _value(state: Any, event: Happened, spec: Spec) -> Any:
    return event.payload if event.slot is None or event.type == "state.set" else state


def _shaped(event: Happened) -> Any:
    """The payload of an operation on a list, with what is left of an erased one in the place of each item."""
    before, gone = event.before, event.payload
    if event.type == "state.set" and isinstance(before, list):
        return [gone] * len(before)
    if event.type == "state.edit":
        return {"index": before["index"], "item": gone}
    return before if event.type == "state.redact" else gone


def _log(state: list[Item], event: Happened, spec: Spec) -> list[Item]:
    payload = _shaped(event) if event.erased else event.payload
    if event.slot is None or event.type == "state.append":
        return [*state, Item(payload, event.id)]
    if event.type == "state.set" and isinstance(payload, list):
        return [Item(value, event.id) for value in payload]
    if event.type == "state.edit" and payload["index"] < len(state):
        at = payload["index"]
        return [*state[:at], state[at]._replace(value=payload["item"], edited=event.id), *state[at + 1 :]]
    if event.type == "state.redact":
        return state[: payload["start"]] + state[payload["stop"] :]
    return state


def _tree(state: dict[str, Any], event: Happened, spec: Spec) -> dict[str, Any]:
    if event.erased:
        return state
    ops = event.payload if event.type == "state.batch" else [event.payload]
    for op in ops:
        if "value" in op:
            state[op["path"]] = op["value"]
        else:
            state.pop(op["path"], None)
    return state


def _document(state: Any, event: Happened, spec: Spec) -> Any:
    if event.erased:
        return state
    if event.type == "state.set":
        return event.payload
    if event.type == "state.patch":
        return merged(state, event.payload)
    part = state
    for step in event.payload["path"]:
        part = part[step]
    part.append(event.payload["item"])
    return state


def merged(target: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def _tally(state: dict[str, Any], event: Happened, spec: Spec) -> dict[str, Any]:
    """Counts by `spec.version` and by type, and keeps the last twenty payloads."""
    state["n"] += spec.version
    state["by_type"][event.type] = state["by_type"].get(event.type, 0) + 1
    state["recent"] = [*state["recent"], event.payload][-20:]
    return state


def _scratch(state: list[Any], event: Happened, spec: Spec) -> list[Any]:
    return [*state, event.type] if len(state) < 50 else []


_STEPS = {
    "value": _value,
    "append_log": _log,
    "tree": _tree,
    "document": _document,
    "tally": _tally,
    "scratch": _scratch,
}


# --- diffs ----------------------------------------------------------------------------------------------------------


def patched(old: Any, changes: Iterable[Any]) -> Any:
    """The newer value, made of the older one and what `branch.diff` said; paths as tuples."""
    changes = list(changes)
    if not changes:
        return old
    own: dict[tuple[bool, Any], Any] = {}
    inner: dict[Any, list[Any]] = {}
    for change in changes:
        path = change.path if isinstance(change.path, tuple) else (change.path,)
        if not path:
            return change.after
        if len(path) == 1:
            own[change.op == "add", path[0]] = change
        else:
            inner.setdefault(path[0], []).append(msgspec.structs.replace(change, path=path[1:]))
    removed = {key for (added, key), change in own.items() if change.op == "remove"}
    kept = dict(enumerate(old)) if isinstance(old, list) else dict(old)
    for key, deeper in inner.items():
        kept[key] = patched(kept[key], deeper)
    for (_, key), change in own.items():
        if change.op == "change":
            kept[key] = change.after
    kept = {key: value for key, value in kept.items() if key not in removed}
    adds = {key: change.after for (added, key), change in own.items() if added}
    if isinstance(old, list):
        result = list(kept.values())
        for key in sorted(adds):
            result.insert(key, adds[key])
        return result
    return {**kept, **adds}


# --- branches -------------------------------------------------------------------------------------------------------

Head = tuple[int, str]


class Model:
    """All branches of a store, and what became of them."""

    def __init__(self) -> None:
        self.branches: dict[str, History] = {"main": []}
        self.origin: dict[str, tuple[str | None, int]] = {"main": (None, 0)}
        self.moves: dict[str, list[tuple[str, History | None, History | None]]] = {"main": [("create", None, [])]}
        self.deleted: dict[str, tuple[History, tuple[str | None, int]]] = {}
        self.done: list[tuple[str, str]] = [("create", "main")]  # (kind of move or id of event, branch), in order

    def copy(self) -> Model:
        other = Model()
        other.branches = {name: list(history) for name, history in self.branches.items()}
        other.origin, other.deleted = dict(self.origin), dict(self.deleted)
        other.moves = {name: list(moves) for name, moves in self.moves.items()}
        other.done = list(self.done)
        return other

    def append(self, name: str, event: Happened) -> None:
        self.branches[name].append(event)
        self.done.append((event.id, name))

    def move(self, kind: str, name: str, after: History | None) -> None:
        self.done.append((kind, name))
        before = self.branches.pop(name, None)
        if after is not None:
            self.branches[name] = list(after)
        self.moves.setdefault(name, []).append((kind, before and list(before) if before else before, after))

    def new(self, kind: str, name: str, history: History, parent: str | None) -> None:
        self.move(kind, name, history)
        self.origin[name] = (parent, len(history))

    def delete(self, name: str) -> None:
        self.deleted[name] = (list(self.branches[name]), self.origin[name])
        self.move("delete", name, None)

    def restore(self, name: str) -> None:
        history, self.origin[name] = self.deleted[name]
        self.move("restore", name, history)

    def histories(self) -> list[History]:
        """All that is named anywhere."""
        past = [h for moves in self.moves.values() for _, before, after in moves for h in (before, after) if h]
        return [*self.branches.values(), *past, *(history for history, _ in self.deleted.values())]

    def erase(self, id: str, left: Any) -> None:
        """Puts what is left of an event in the place of its payload, wherever it is."""
        for history in self.histories():
            for at, event in enumerate(history):
                if event.id == id and not event.erased:
                    history[at] = event._replace(payload=left, before=event.payload, erased=True)

    def reachable(self, name: str) -> dict[str, History]:
        """Where a rewind may go: event id -> the history that ends in it."""
        past = [h for _, before, after in self.moves[name] for h in (before, after) if h]
        return {h[i].id: h[: i + 1] for h in [*past, self.branches[name]] for i in range(len(h))}


def head(history: History | None) -> Head | None:
    return None if history is None else (len(history), history[-1].id if history else "")
