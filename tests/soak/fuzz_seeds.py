"""Valid bytes for each target, cut out of a small real store, and the ways in which a fuzzer spoils them."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, Final
from zipfile import ZipFile

import msgspec

from chronicle_py import List, exchange, records
from chronicle_py.checkpoints import decode_directory
from chronicle_py.event import decode_event
from chronicle_py.kv import BLOCKS, EVENTS, FEED, LINEAGES, OBJECTS, REFLOG, REFS, SLOTS, SPACE_NAMES
from chronicle_py.tree import Root
from soak.decoders import FUZZ_TARGETS, keys_of, small_store
from soak.programs import SAMPLE

DATA: Final = Path(__file__).resolve().parent.parent / "context" / "data"
_INTERESTING: Final = (
    b"\xdd\xff\xff\xff\xff", b"\xdc\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\xdb\x7f\xff\xff\xff",
    b"\xcf" + b"\xff" * 8, b"\xd3\x80" + b"\0" * 7, b"\xc9\xff\xff\xff\xff\x01", b"\xc7\x20\x04", b"\xc7\x20\x01",
    b"\x90", b"\x80", b"\xc0", b"\xc1", b"\xff", b"\0", b"\x91" * 40, b"[" * 60, b'{"a":' * 40, b"\xed\xa0\x80",
    b'"\\ud800"', b"1e999", b"-0", b"null", b"NaN", b"99999999999999999999", b'{"$blob":"ab"}', b"\n", b"]", b"}",
)  # fmt: skip
_ANTHROPIC: Final[list[dict[str, Any]]] = [
    {"role": "user", "content": "What is there?"},
    {"role": "assistant", "content": [
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        {"type": "tool_use", "id": "t1", "name": "ls", "input": {"path": "."}},
    ]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "a.py", "is_error": False}]},
    {"role": "user", "content": [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
    ]},
]  # fmt: skip
_PICTURE: Final = "data:image/png;base64,iVBORw0KGgo="
_OPENAI: Final[list[dict[str, Any]]] = [
    {"role": "system", "content": "Be short."},
    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": _PICTURE}}, "hi"]},
    {"role": "assistant", "content": None, "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": '{"path": "."}'}},
    ]},
    {"role": "tool", "tool_call_id": "c1", "content": "a.py"},
]  # fmt: skip


@cache
def seeds(target: str) -> list[bytes]:
    """Valid input for a target, the smallest kinds first."""
    found = _SEEDS.get(target)
    if found is None and target.startswith("store "):
        return _records(SPACE_NAMES.index(target.removeprefix("store ")))
    return [seed for seed in (found() if found is not None else []) if len(seed) < 60_000] or [b""]


def _values(space: int) -> list[bytes]:
    with small_store()._engine.kv.read() as reader:
        return [value for _, value in reader.scan(space, b"")]


def _bodies(space: int) -> list[bytes]:
    return [value[: -records.CRC_SIZE] for value in _values(space)][:12]


def _records(space: int) -> list[bytes]:
    """For the targets that put a record into a store: which one, sealed or not, and its bytes."""
    pairs = list(zip(keys_of(space), _values(space), strict=True))
    step = max(1, len(pairs) // 40)
    whole = space in (EVENTS, OBJECTS)
    return [
        n.to_bytes(2, "big") + b"\0" + (value if whole else value[: -records.CRC_SIZE])
        for n, (_, value) in enumerate(pairs)
        if n % step == 0
    ]


def _nodes(kind: bytes) -> list[bytes]:
    return [value[1:] for value in _values(OBJECTS) if value[:2] == b"\3" + kind][:8]


def _roots(slot: str) -> list[bytes]:
    """The roots of a slot in the directories."""
    engine = small_store()._engine
    with engine.kv.read() as reader:
        number = engine.slots.table(reader).by_id[slot].number
        pairs = reader.scan(BLOCKS, b"")
    found = (decode_directory(key, value, "a directory").here.get(number) for key, value in pairs)
    return [bytes(entry[1]) for entry in found if entry is not None][:6]


def _rows() -> list[bytes]:
    """Inner nodes: those that roots hold, as they would be stored."""
    roots = [msgspec.msgpack.decode(root, type=Root) for root in _roots("tree") + _roots("log")]
    return [b"I" + bytes(row) for root in roots for row in root.rows][:8]


def _lists() -> list[bytes]:
    """Roots of lists, with their closed nodes in the store."""
    found = []
    store = small_store()
    with store.transaction():
        for size in (0, 3, 30, 3000):
            saved = List(range(size), [n % 3 for n in range(size)]).save(store._engine.objects)
            found.append(saved.root())
    return found


def _export() -> list[bytes]:
    lines = list(exchange.export_lines(small_store()))
    events = [line for line in lines if b'"event"' in line[:40]]
    short = [line for line in lines if line not in events[20:]]
    return [b"".join(short), b"".join(lines[:3]), b"".join(lines[-2:])]


def _zipped() -> bytes:
    out = io.BytesIO()
    with ZipFile(out, "w") as archive:
        archive.writestr("conversations.json", (DATA / "chatgpt-branched.json").read_text())
        archive.writestr("file-abc.png", b"png")
    return out.getvalue()


def _conversations() -> dict[str, list[bytes]]:
    return {
        "claude-code": [(DATA / "claude-code-branched.jsonl").read_bytes()],
        "chatgpt": [(DATA / "chatgpt-branched.json").read_bytes(), _zipped()],
        "anthropic": [json.dumps(_ANTHROPIC).encode(), json.dumps({"system": "s", "messages": _ANTHROPIC}).encode()],
        "openai": [json.dumps(_OPENAI).encode(), json.dumps({"messages": _OPENAI}).encode()],
        "swe-agent": [json.dumps(SAMPLE).encode()],
    }


def _payloads() -> list[bytes]:
    return [bytes(decode_event(value).raw) for value in _values(EVENTS)[:20]]


_SEEDS: Final[dict[str, Callable[[], list[bytes]]]] = {
    "event": lambda: _values(EVENTS)[:20],
    "unsealed records": lambda: [_values(space)[0] for space in (REFS, LINEAGES, REFLOG, SLOTS, BLOCKS)],
    "record ref": lambda: _bodies(REFS),
    "record lineage": lambda: _bodies(LINEAGES),
    "record move": lambda: _bodies(REFLOG),
    "record slot": lambda: _bodies(SLOTS),
    "record feed": lambda: _bodies(FEED),
    "directory": lambda: _bodies(BLOCKS),
    "node row": _rows,
    "node list leaf": lambda: _nodes(b"L"),
    "node map leaf": lambda: _nodes(b"L"),
    "node runs": lambda: [msgspec.msgpack.encode([12, 1, 7]), msgspec.msgpack.encode([13, 1, 7, 0, 6, 1, 2, 3, 4])],
    "root of a list": _lists,
    "root of a map": lambda: _roots("tree"),
    "root of a log": lambda: _roots("log"),
    "document": lambda: _roots("doc"),
    "blob": lambda: [b"\x09image/pnga picture", b"\x01x"],
    "export": _export,
    "export, bad lines left out": _export,
    "import": lambda: [seed for found in _conversations().values() for seed in found],
    **{f"import {name}": partial(_conversations().__getitem__, name) for name in _conversations()},
    "json": lambda: [json.dumps(_OPENAI).encode(), b'{"$blob": "' + b"ab" * 32 + b'"}', b'[1, -2.5, "\\u00e9", null]'],
    "payload as json": _payloads,
    "argument": lambda: [b"12", b"abcdef", b"ab" * 32, b"main", b'{"n": 1}', b"-", "٣".encode()],
}
assert _SEEDS.keys() | {name for name in FUZZ_TARGETS if name.startswith("store ")} == FUZZ_TARGETS.keys()


def spoiled(chance: random.Random, data: bytes, others: list[bytes]) -> bytes:
    """The bytes with one to four changes: flips, cuts, insertions, splices, repetitions, lengths made huge."""
    found = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 2, 4))):
        at = chance.randrange(len(found) + 1)
        kind = chance.randrange(8)
        if kind == 0 and found:
            found[at % len(found)] ^= 1 << chance.randrange(8)
        elif kind == 1 and found:
            found[at % len(found)] = chance.choice((0, 1, 127, 128, 255, chance.randrange(256)))
        elif kind == 2:
            del found[at:]
        elif kind == 3:
            del found[at : at + chance.randrange(1, 9)]
        elif kind == 4:
            found[at:at] = chance.choice(_INTERESTING)
        elif kind == 5:
            piece = chance.choice(_INTERESTING)
            found[at : at + len(piece)] = piece
        elif kind == 6 and others:
            other = chance.choice(others)
            found[at:] = other[chance.randrange(len(other) + 1) :]
        elif kind == 7:
            end = at + chance.randrange(1, 200)
            found[at:at] = bytes(found[at:end]) * chance.randrange(1, 4)
    return bytes(found)
