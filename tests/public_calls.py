"""Every public call of a store, with arguments that are right in a store that `furnish` has filled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

import chronicle_py as chronicle
from chronicle_py import BlobRef, Store


class Point(msgspec.Struct):
    x: int
    y: int = 0


class Sum(msgspec.Struct, frozen=True):
    total: int = 0


@chronicle.reducer("sum", initial=Sum, state_type=Sum)
def summing(state: Sum, event: chronicle.Event) -> Sum:
    return Sum(state.total + event.payload)


def furnish(store: Store) -> None:
    """A store with 70 events, a fork, a deleted branch, a slot of every kind, a typed event and a blob."""
    main = store.branch()
    for kind in ("append_log", "value", "tree", "document"):
        store.register_state(kind, kind=kind)
    store.register_state("custom", reducer=summing)
    store.register_event("point", Point)
    with store.transaction():
        for i in range(60):
            main.state("append_log").append(i)
        main.state("tree").put("a/b", 1)
        main.state("document").set({"list": [1, 2], "key": "value"})
        main.append("add", 5, slot="custom")
    main.fork("side", at=30).append("point", Point(1))
    main.fork("gone")
    store.delete_branch("gone")
    store.put_blob(b"blob", "text/plain")


class Call(NamedTuple):
    """A public call: what makes it, given the store and arguments, and arguments that are right."""

    make: Callable[..., Any]
    good: tuple[Any, ...]
    names: str  # of the arguments


def drained(found: Any) -> Any:
    """What was asked for, an iterator to its end."""
    return list(found) if isinstance(found, Iterator) else found


def view_call(slot: str, method: str, good: tuple[Any, ...], names: str) -> Call:
    return Call(lambda store, *a: drained(getattr(store.branch().state(slot), method)(*a)), good, names)


def event_calls() -> dict[str, Call]:
    def append(store: Store, type: Any, payload: Any, slot: Any, caused_by: Any, linked_to: Any, expect: Any) -> Any:
        return store.branch().append(type, payload, slot=slot, caused_by=caused_by, linked_to=linked_to, expect=expect)

    def aappend(store: Store, type: Any, payload: Any, slot: Any, caused_by: Any, linked_to: Any, expect: Any) -> Any:
        options = {"slot": slot, "caused_by": caused_by, "linked_to": linked_to, "expect": expect}
        return asyncio.run(store.branch().aappend(type, payload, **options))

    def events(store: Store, *arguments: Any) -> Any:
        return list(store.branch().events(*arguments))

    return {
        "append": Call(append, ("note", 1, None, (), (), None), "type payload slot caused_by linked_to expect"),
        "aappend": Call(aappend, ("note", 1, None, (), (), None), "type payload slot caused_by linked_to expect"),
        "append typed": Call(lambda s, p: s.branch().append("point", p), ({"x": 1},), "payload"),
        "events": Call(events, (1, None, None, None, False, None), "start stop types slot reverse limit"),
        "event": Call(lambda s, at: s.branch().event(at), (5,), "at"),
        "store.event": Call(lambda s, id: s.event(id), ("ab" * 32,), "id"),
        "effects": Call(lambda s, id: s.effects(id), ("ab" * 32,), "id"),
        "links": Call(lambda s, id: s.links(id), ("ab" * 32,), "id"),
    }


def branch_calls() -> dict[str, Call]:
    return {
        "branch": Call(lambda s, name: s.branch(name).seq, ("side",), "name"),
        "fork": Call(lambda s, name, at: s.branch().fork(name, at), ("new", 5), "name at"),
        "rewind": Call(lambda s, to: s.branch().rewind(to), (60,), "to"),
        "orphan": Call(lambda s, name: s.orphan(name), ("new",), "name"),
        "delete_branch": Call(lambda s, name: s.delete_branch(name), ("side",), "name"),
        "restore_branch": Call(lambda s, name: s.restore_branch(name), ("gone",), "name"),
        "state": Call(lambda s, slot, at: s.branch().state(slot, at).hash, ("tree", 5), "slot at"),
        "diff": Call(lambda s, slot, a, b: s.branch().diff(slot, a, b), ("tree", 5, 60), "slot a b"),
        "replay": Call(lambda s, slot, progress: s.branch().replay(slot, progress), ("tree", None), "slot progress"),
    }


def store_calls() -> dict[str, Call]:
    registration = (None, None, (), (), None)
    names = "id kind reducer types sources initial"
    return {
        "register_state": Call(lambda s, *a: s.register_state(*a), ("new", "value", *registration[1:]), names),
        "register_state log": Call(lambda s, *a: s.register_state(*a), ("new", "append_log", *registration[1:]), names),
        "register_state tree": Call(lambda s, *a: s.register_state(*a), ("new", "tree", *registration[1:]), names),
        "register_state document": Call(
            lambda s, *a: s.register_state(*a), ("new", "document", *registration[1:]), names
        ),
        "register_state reducer": Call(lambda s, *a: s.register_state(*a), ("new", None, summing, (), (), None), names),
        "register_event": Call(
            lambda s, *a: s.register_event(*a), ("new", Point, 2, {1: dict}), "type struct version upcast"
        ),
        "namespace": Call(lambda s, prefix: s.namespace(prefix), ("agents/lena",), "prefix"),
        "state_id": Call(lambda s, id: s.namespace("n").state_id(id), ("slot",), "id"),
        "namespace.namespace": Call(lambda s, id: s.namespace("n").namespace(id), ("below",), "prefix"),
        "namespace.register_state": Call(
            lambda s, *a: s.namespace("n").register_state(*a), ("new", "value", *registration[1:]), names
        ),
        "put_blob": Call(lambda s, *a: s.put_blob(*a), (b"data", "text/plain"), "data media_type"),
        "get_blob": Call(lambda s, hash: s.get_blob(hash), ("ab" * 32,), "hash"),
        "BlobRef": Call(lambda s, hash: BlobRef(hash), ("ab" * 32,), "hash"),
        "follow": Call(
            lambda s, *a: list(s.follow(*a, live=False)),
            ("main", ["note"], ["tree"], "now"),
            "branch types slots start",
        ),
        "erase": Call(lambda s, *a: s.erase(*a), ((), "asked for", None), "event reason progress"),
        "verify": Call(lambda s, deep, progress: s.verify(deep, progress), (False, None), "deep progress"),
    }


def view_calls() -> dict[str, Call]:
    def operation(slot: str, method: str, good: tuple[Any, ...], names: str) -> Call:
        """With what every operation takes beside its own arguments."""

        def make(store: Store, *arguments: Any) -> Any:
            *own, caused_by, linked_to, expect = arguments
            change = getattr(store.branch().state(slot), method)
            return change(*own, caused_by=caused_by, linked_to=linked_to, expect=expect)

        return Call(make, (*good, (), (), None), f"{names} caused_by linked_to expect")

    return {
        "log.append": operation("append_log", "append", (1,), "item"),
        "log.edit": operation("append_log", "edit", (1, 1), "index item"),
        "log.redact": operation("append_log", "redact", (1, 3), "start stop"),
        "log.set": operation("append_log", "set", ([1],), "items"),
        "log.tail": view_call("append_log", "tail", (3,), "n"),
        "log.origin": view_call("append_log", "origin", (0,), "index"),
        "log.edited": view_call("append_log", "edited", (0,), "index"),
        "log[]": view_call("append_log", "__getitem__", (0,), "index"),
        "log in": view_call("append_log", "__contains__", (0,), "item"),
        "log ==": view_call("append_log", "__eq__", (0,), "other"),
        "value.set": operation("value", "set", (1,), "value"),
        "tree.put": operation("tree", "put", ("x/y", 1), "path value"),
        "tree.remove": operation("tree", "remove", ("a/b",), "path"),
        "tree.batch": operation("tree", "batch", ([("put", "x", 1)],), "ops"),
        "tree.list": view_call("tree", "list", ("a",), "prefix"),
        "tree.scan": view_call("tree", "scan", ("a",), "prefix"),
        "tree[]": view_call("tree", "__getitem__", ("a/b",), "path"),
        "tree.get": view_call("tree", "get", ("a/b", None), "path default"),
        "tree in": view_call("tree", "__contains__", ("a/b",), "path"),
        "document.set": operation("document", "set", ({"a": 1},), "value"),
        "document.patch": operation("document", "patch", ({"a": 1},), "patch"),
        "document.append": operation("document", "append", (["list"], 1), "path item"),
        "document.get": view_call("document", "get", (["list", 0],), "path"),
    }


CALLS: dict[str, Call] = {**event_calls(), **branch_calls(), **store_calls(), **view_calls()}
