"""Stores to be exported: a small known one, and random ones. What an export promises to bring over, as values.

The random ones have branches of branches, all kinds of slots, and payloads that JSON has no words for.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from conftest import Clock, Entropy
from hypothesis import strategies as st

import chronicle_py as chronicle
from chronicle_py import (
    BlobRef,
    Store,
    records,
)
from chronicle_py.exchange import export_lines, import_file
from chronicle_py.kv import FEED

KINDS = {"messages": "append_log", "notes": "append_log", "v": "value", "files": "tree", "doc": "document"}
Lines = list[bytes]


@contextmanager
def fresh(**options: Any) -> Iterator[Store]:
    """An empty store of its own."""
    with (
        tempfile.TemporaryDirectory() as folder,
        chronicle.open(
            f"{folder}/s", durability="relaxed", **{"clock": Clock(), "entropy": Entropy(), **options}
        ) as store,
    ):
        yield store


def put_in(store: Store, lines: Lines, folder: Path | None = None, **options: Any) -> Any:
    with tempfile.TemporaryDirectory() as own:
        path = (folder or Path(own)) / "e.jsonl"
        path.write_bytes(b"".join(lines))
        return import_file(store, path, **options)


def register(store: Store) -> None:
    for name, kind in KINDS.items():
        store.register_state(name, kind=kind, types=("note",) if name == "notes" else ())


def picture(store: Store) -> dict[str, Any]:
    """All that an export promises to bring over."""
    found: dict[str, Any] = {"slots": store.slots()}
    for info in store.branches():
        branch = store.branch(info.name)
        found[info.name] = {
            "info": (info.seq, info.head, info.parent, info.fork_seq, info.description),
            "ids": [(event.id, event.type, event.slot, bytes(event.raw)) for event in branch.events()],
            "states": {
                slot.id: [branch.state(slot.id, at=at).hash for at in {0, info.seq // 2, info.seq}]
                for slot in store.slots()
                if slot.loaded
            },
        }
    return found


def size_of(store: Store) -> dict[str, int]:
    return {name: space["entries"] for name, space in store.stats().keyspaces.items()}


def runs_of(store: Store) -> list[tuple[str, int, int]]:
    """Where the feed says that events were appended: (branch, lineage, sequence), one for each event, in order."""
    found = []
    with store._engine.read() as reader:
        feed = [records.decode_feed(key, value, "") for key, value in reader.scan(FEED, b"")]
    for record, after in zip(feed, [*feed[1:], None], strict=True):
        if record.kind == "run":
            stop = store.branch(record.branch).seq if after is None else after.stop_before
            found += [(record.branch, record.lineage, seq) for seq in range(record.start, stop + 1)]
    return found


def exported_lines(store: Store) -> Lines:
    """Writes and exports: main has 6 messages; `other` leaves it after 4 and has 2 of its own."""
    register(store)
    main = store.branch()
    for i in range(6):
        main.state("messages").append({"role": "user", "content": f"m{i}"})
    other = main.fork("other", at=4)
    for i in range(2):
        other.state("messages").append({"role": "user", "content": f"o{i}"})
    return list(export_lines(store))


# --- random stores ----------------------------------------------------------------------------------------------------

words = st.text(st.characters(codec="utf-8"), max_size=12)
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(), words, st.binary(max_size=8),
    st.just(msgspec.msgpack.Ext(7, b"seven")), st.just(datetime(2024, 2, 3, 4, 5, 6, 789, tzinfo=UTC)),
)  # fmt: skip
payloads = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(words, inner, max_size=3),
        st.dictionaries(st.one_of(st.integers(-5, 300), words), inner, max_size=3),
        st.just({"$blob": "ab" * 32}),
        st.just({"$bytes": "eA=="}),
    ),
    max_leaves=6,
)
plain = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-9, 9), words),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(words, inner, max_size=3)),
    max_leaves=5,
)
steps = st.lists(
    st.tuples(
        st.sampled_from(
            ("item", "item", "burst", "note", "set", "edit", "redact", "reset", "put", "doc", "blob", "fork", "fork",
             "orphan", "rewind", "delete")
        ),
        st.integers(0, 1000),
        payloads,
        plain,
    ),
    max_size=25,
)  # fmt: skip


def play(store: Store, script: list[tuple[str, int, Any, Any]], forward_only: bool = False) -> None:
    """Does the steps on branches that the numbers choose."""
    for count, (what, number, payload, simple) in enumerate(script):
        names = [info.name for info in store.branches()]
        branch = store.branch(names[number % len(names)])
        new_name = next(name for name in (f"é{count}" + "'" * more for more in range(99)) if name not in names)
        if what == "item":
            branch.state("messages").append(payload)
        elif what == "burst":
            with store.transaction():
                for i in range(number % 90):
                    branch.state("messages" if i % 3 else "notes").append({"n": i})
        elif what == "note":
            causes = [branch.head] if branch.head else []
            branch.append("note", payload, caused_by=causes)
        elif what == "set":
            branch.state("v").set(payload)
        elif what == "edit" and len(branch.state("messages")):
            branch.state("messages").edit(number % len(branch.state("messages")), payload)
        elif what == "redact":
            branch.state("messages").redact(number % 7, number % 7 + number % 5)
        elif what == "reset":
            branch.state("notes").set([payload, simple])
        elif what == "put":
            branch.state("files").put(f"d{number % 4}/f{number % 9}", payload)
        elif what == "doc":
            branch.state("doc").patch({f"k{number % 5}": simple})
        elif what == "blob":
            blob = store.put_blob(f"blob {number % 3}".encode(), "text/plain")
            branch.append("picture", {"is": [BlobRef(blob), payload]})
        elif what == "fork":
            branch.fork(new_name, at=number % (branch.seq + 1))
        elif what == "orphan":
            store.orphan(new_name)
        elif what == "rewind" and not forward_only:
            branch.rewind(number % (branch.seq + 1))
        elif what == "delete" and branch.name != "main" and not forward_only:
            store.delete_branch(branch.name)
