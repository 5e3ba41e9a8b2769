"""Every decoder of bytes that come from outside, as a function of bytes: what the fuzzers call.

A target swallows `ChronicleError` (and what the command line calls a usage error); anything else that comes out of one
is a fault. Records are sealed first, so that their checksum does not keep the decoder from being reached. The targets
`store …` put the bytes into a keyspace of a real store, read all that there is, and abort.
"""

from __future__ import annotations

import atexit
import io
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

import typer
from blake3 import blake3

import chronicle_py as chronicle
from chronicle_py import BlobRef, ChronicleError, List, Map, Store, document, entries, exchange, nodes, records, runs
from chronicle_py.checkpoints import decode_directory
from chronicle_py.cli.options import json_argument, place
from chronicle_py.context.importers import FORMATS, import_file
from chronicle_py.event import BLOB, checked_event, decode_payload, event_id
from chronicle_py.exchange.json_form import faithful, from_json, to_json
from chronicle_py.item_log import ItemLog
from chronicle_py.kv import META, OBJECTS, SPACE_NAMES
from chronicle_py.objects import unpack_blob
from soak.programs import furnish, manager_of

Target = Callable[[bytes], object]
_MAP: Final = 64 << 20  # a small one: the memory that a case may take is limited, and maps count
_ITEMS: Final = 5000  # of a collection that are looked at


class _Undone(Exception):
    """Ends a transaction that must not be kept."""


@cache
def small_store() -> Store:
    """A store with something in every keyspace; its clock and its salts are counters, so that it is always the same."""
    folder = tempfile.mkdtemp(prefix="chronicle-fuzz-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    drawn = iter(range(1 << 30))
    store = chronicle.open(
        Path(folder) / "store",
        durability="relaxed",
        clock=lambda: 1_700_000_000_000_000 + next(drawn),
        entropy=lambda size: blake3(next(drawn).to_bytes(8, "big")).digest(length=size),
        map_size=_MAP,
    )
    furnish(store)
    main = store.branch()
    with store.transaction():
        picture = BlobRef(store.put_blob(b"a picture", "image/png"))
        first = main.append("note", {"image": picture, "text": "ünïcode", "n": [1, -1, 2.5, None, b"bytes"]})
        main.append("note", "caused", caused_by=[first], linked_to=[first])
        for n in range(150):
            main.state("log").append([n, "x" * (n % 50)])
            main.state("tree").put(f"path/{n:03}", {"n": n})
        main.state("log").edit(3, "edited")
        main.state("log").redact(5, 9)
        main.state("log").set([1, 2, 3])
        main.state("doc").patch(
            {"list": list(range(100)), "many": {str(n): n for n in range(100)}, "large": "x" * 3000}
        )
        main.state("tree").batch([("put", f"more/{n:04}", "y" * 150) for n in range(400)])
        cm = manager_of(store)
        for n in range(12):
            cm.add_message("User" if n % 2 else "Claude", f"line {n} " * 4)
        cm.pin(cm.tail(1)[0].id)
        main.state("value").set("a value")
        fork = main.fork("fork", at=70)
        for n in range(70):
            fork.append("note", n)
    main.state("tally").get()
    main.append("note", "writes behind")
    main.rewind(main.seq - 2)
    return store


def read_everything(store: Store) -> None:
    """All that a store answers; the first thing that cannot be read ends the part that it belongs to."""
    for part in (_read_branches, _read_slots, _read_ids, _verify):
        with _refusing():
            part(store)


def _read_branches(store: Store) -> None:
    store.stats()
    for info in store.branches():
        with _refusing():
            branch = store.branch(info.name)
            branch.reflog()
            for event in islice(branch.events(), _ITEMS):
                _look(event)
            for event in islice(branch.events(reverse=True, types=["note"]), 50):
                _look(event)
            branch.fork("of it", at=min(branch.seq, 3))


def _read_slots(store: Store) -> None:
    store.slots()
    for info in store.branches():
        branch = store.branch(info.name)
        for slot in ("log", "tree", "doc", "value", "tally"):
            for at in (None, branch.seq, 64, 100):
                with _refusing():
                    view = branch.state(slot, at=at)
                    _walk(view.get() if hasattr(view, "get") and not hasattr(view, "keys") else view)
                    view.hash  # noqa: B018
            with _refusing():
                branch.diff(slot, 65, branch.seq)
                branch.replay(slot)
        with _refusing():
            branch.state("log").append("more")
            branch.state("tree").put("path/000", "more")


def _read_ids(store: Store) -> None:
    event = store.event(_known_ids()[0])
    store.effects(event)
    store.links(event)
    for id in _known_ids():
        _look(store.event(id))
        exchange.find_blob(store, "ab" * 5)


@cache
def _known_ids() -> list[str]:
    return [event.id for event in small_store().branch().events(limit=4)]


def _verify(store: Store) -> None:
    store.verify(deep=True)
    list(exchange.export_lines(store))


@contextmanager
def _refusing() -> Iterator[None]:
    with suppress(ChronicleError):
        yield


def _look(event: Any) -> None:
    repr(event), event.payload, event.parents, event.caused_by, event.linked_to, event.blobs


def _walk(value: Any) -> None:
    """Reads a state, as far as it goes."""
    if isinstance(value, str | bytes):
        return
    if hasattr(value, "keys"):
        for key in islice(value, _ITEMS):
            value.get(key)
    elif hasattr(value, "__getitem__"):
        for _ in islice(value, _ITEMS):
            pass
        if len(value):
            value[-1]
            value[len(value) // 2]


# --- targets ----------------------------------------------------------------------------------------------------------


def _event(data: bytes) -> None:
    event = checked_event(data, "the fuzzer")
    _look(event)
    event_id(data, event)


def _sealed(decode: Callable[[bytes, bytes, str], Any], data: bytes) -> None:
    decode(b"key", records.seal(b"key", data), "a record")


def _unsealed(data: bytes) -> None:
    for decode in (records.decode_ref, records.decode_lineage, records.decode_move, records.decode_slot):
        with _refusing():
            decode(b"key", data, "a record")
    decode_directory(b"key", data, "a directory")


def _collection(kind: Any, data: bytes) -> None:
    found = kind.decode(data, small_store()._engine.objects)
    _walk(found)
    found.hash  # noqa: B018
    changed = found.append("more") if isinstance(found, List) else found.set("more", 1)
    changed.hash  # noqa: B018


def _log(data: bytes) -> None:
    engine = small_store()._engine
    found = ItemLog.decode(data, lambda refs: [b"\xc0"] * len(refs), engine.objects)
    len(found), found.content
    _walk([found.ref(n) for n in range(min(len(found), _ITEMS))])


def _document(data: bytes) -> None:
    state = document.load(data, small_store()._engine.objects)
    document.get(state)
    document.content(state)


def _blob(data: bytes) -> None:
    stored = BLOB + data
    unpack_blob(blake3(stored).digest(), stored)
    unpack_blob(bytes(32), data)


def _aborted(act: Callable[[], object]) -> None:
    """Runs an act in a transaction that is not kept; what it read or wrote is gone afterwards."""
    store = small_store()
    try:
        with store.transaction():
            try:
                act()
            finally:
                raise _Undone
    except _Undone as error:
        wrong = error.__context__
        if wrong is not None and not isinstance(wrong, ChronicleError):
            raise wrong from None


def _export(skip_bad: bool, data: bytes) -> None:
    lines = data.splitlines(keepends=True)
    _aborted(lambda: exchange.import_lines(small_store(), lines, prefix="x/", skip_bad=skip_bad))


def _import(format: str | None, data: bytes) -> None:
    _aborted(lambda: import_file(small_store(), io.BytesIO(data), format=format, branch="imported", tokenizer=len))


def _json(data: bytes) -> None:
    payload = from_json(data)
    to_json(decode_payload(payload))
    faithful(payload)


def _payload_as_json(data: bytes) -> None:
    faithful(data)


def _argument(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    store = small_store()
    for ask in (
        store.event, store.get_blob, store.branch, store.effects, store.branch().event, store.branch().state,
        partial(exchange.find_blob, store), BlobRef, store.branch().rewind, store.branch().fork,
    ):  # fmt: skip
        with _refusing():
            _aborted(partial(ask, text))
    for parse in (partial(place, store.branch()), json_argument):
        if text != "-":  # which reads the standard input
            with _usage():
                parse(text)


@contextmanager
def _usage() -> Iterator[None]:
    with suppress(typer.BadParameter, ChronicleError):
        yield


def _in_store(space: int, data: bytes) -> None:
    """The first two bytes choose a record, the third whether to seal what follows."""
    store = small_store()
    keys = keys_of(space)
    key, body = keys[int.from_bytes(data[:2], "big") % len(keys)], data[3:]
    value = body if space == OBJECTS else body if space == 0 or data[2:3] == b"\x01" else records.seal(key, body)

    def act() -> None:
        tx = store._engine.running()
        assert tx is not None
        tx.writer.put(space, key, value)
        tx.changes += 1
        store._engine.forget()
        read_everything(store)

    _aborted(act)


@cache
def keys_of(space: int) -> list[bytes]:
    """The keys of a keyspace of the small store."""
    with small_store()._engine.kv.read() as reader:
        return [key for key, _ in reader.scan(space, b"")]


def _targets() -> dict[str, Target]:
    found: dict[str, Target] = {"event": _event, "unsealed records": _unsealed}
    for name in ("ref", "lineage", "move", "slot", "feed"):
        found[f"record {name}"] = partial(_sealed, getattr(records, f"decode_{name}"))
    found |= {
        "directory": partial(_sealed, decode_directory),
        "node row": nodes.load_row,
        "node list leaf": entries.load_list_leaf,
        "node map leaf": entries.load_map_leaf,
        "node runs": runs.unpack_runs,
        "root of a list": partial(_collection, List),
        "root of a map": partial(_collection, Map),
        "root of a log": _log,
        "document": _document,
        "blob": _blob,
        "export": partial(_export, False),
        "export, bad lines left out": partial(_export, True),
        "import": partial(_import, None),
        **{f"import {format}": partial(_import, format) for format in FORMATS if format != "export"},
        "json": _json,
        "payload as json": _payload_as_json,
        "argument": _argument,
    }
    found |= {f"store {name}": partial(_in_store, space) for space, name in enumerate(SPACE_NAMES) if space != META}
    return {name: partial(_guarded, target) for name, target in found.items()}


def _guarded(target: Target, data: bytes) -> None:
    with suppress(ChronicleError):
        target(data)


FUZZ_TARGETS: Final[dict[str, Target]] = _targets()
"""By name: a function that takes any bytes, and raises only when something is wrong."""
