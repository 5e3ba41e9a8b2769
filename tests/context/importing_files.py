"""What tests of importers begin with: a file of something, imported, and the branches that come of it."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

from chronicle_py import Store
from chronicle_py.context import Conversation, Message
from chronicle_py.context.blocks import plain
from chronicle_py.context.importers import import_file
from chronicle_py.exchange import Imported

DATA = Path(__file__).parent / "data"
SHARED = Path(__file__).parent.parent.parent.parent / "shared" / "data"


def lines(*records: Any) -> bytes:
    """JSON Lines; a str is a line as it is."""
    return "\n".join(record if isinstance(record, str) else json.dumps(record) for record in records).encode()


def put(store: Store, content: Any, **options: Any) -> Imported:
    """Imports bytes, or a value as JSON."""
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    return import_file(store, io.BytesIO(data), **{"tokenizer": len, **options})


def messages(store: Store, branch: str = "main") -> list[Message]:
    return Conversation(store, branch, tokenizer=len).slice()


def words(message: Message) -> str:
    """A message in a few letters: its text, [name] for a call, <answer> for a result, (thought), {kind} for others."""
    found = []
    for block in map(plain, message.blocks):
        kind = block["type"]
        if kind == "text":
            found.append(block["text"])
        elif kind == "tool_use":
            found.append(f"[{block['name']}]")
        elif kind == "tool_result":
            content = block["content"]
            found.append(f"<{content if isinstance(content, str) else ' '.join(p.get('text', '') for p in content)}>")
        elif kind == "thinking":
            found.append(f"({block['thinking']})")
        else:
            found.append(f"{{{kind}}}")
    return " ".join(found)


def said(store: Store, branch: str = "main") -> list[str]:
    return [words(message) for message in messages(store, branch)]


def tree(store: Store) -> dict[str, str]:
    """Each branch with what is said on it."""
    return {info.name: " | ".join(said(store, info.name)) for info in store.branches()}


def blocks(store: Store, branch: str = "main") -> list[list[dict[str, Any]]]:
    return [[plain(block) for block in message.blocks] for message in messages(store, branch)]


def places(done: Imported) -> list[str]:
    return [fault.where for fault in done.faults]
