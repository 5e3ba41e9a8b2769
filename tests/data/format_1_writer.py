"""What wrote `format-1.store.gz` and `format-1.json`, run once with chronicle-py 0.1.0: a store of format 1.

    python tests/data/format_1_writer.py       (with that version; a later one writes a later format)

Slots of every kind, forks of forks, a rewind, a deleted and a restored branch, an orphan, blobs, causes and links, a
transaction, states written behind. The JSON holds what a reader of it must find.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from conftest import Clock, Entropy
from public_calls import summing

import chronicle_py as chronicle
from chronicle_py import BlobRef, Store

HERE = Path(__file__).parent


def write(store: Store) -> None:
    main = store.branch()
    for kind in ("append_log", "value", "tree", "document"):
        store.register_state(kind, kind=kind)
    store.register_state("heard", kind="append_log", types=("note",), initial=["first"])
    store.register_state("custom", reducer=summing)
    picture = store.put_blob(b"\x89PNG" + bytes(range(256)) * 20, "image/png")
    with store.transaction():
        for i in range(150):
            main.state("append_log").append({"role": "user", "content": f"message {i}", "n": i})
            if i % 5 == 0:
                main.state("tree").put(f"src/{i:03}.py", f"print({i})")
            if i % 7 == 0:
                main.append("add", i, slot="custom")
    first = main.append("note", {"text": "a cause", "picture": BlobRef(picture)})
    main.append("note", "an effect", caused_by=[first.id], linked_to=[main.event(1).id])
    main.state("value").set({"temperature": 0.5})
    main.state("document").set({"list": list(range(80)), "map": {f"k{n:02}": n for n in range(70)}})
    main.state("custom").get()
    side = main.fork("side", at=100)
    for i in range(40):
        side.state("append_log").append(f"side {i}")
    side.state("append_log").edit(3, "edited")
    side.state("append_log").redact(0, 2)
    deep = side.fork("deep/er", at=120)
    deep.state("document").patch({"new": True})
    deep.state("tree").remove("src/000.py") if "src/000.py" in deep.state("tree") else None
    alone = store.orphan("alone")
    alone.state("value").set("on its own")
    main.rewind(204)
    main.state("append_log").append("after the rewind")
    main.fork("gone")
    store.delete_branch("gone")
    main.fork("back")
    store.delete_branch("back")
    store.restore_branch("back")
    store.put_blob(b"nobody refers to this", "text/plain")


def found(store: Store) -> dict[str, Any]:
    """All that a reader must find."""
    branches = {}
    for info in store.branches():
        branch = store.branch(info.name)
        branches[info.name] = {
            "head": info.head,
            "parent": info.parent,
            "fork_seq": info.fork_seq,
            "created": info.created,
            "ids": [event.id for event in branch.events()],
            "payloads": [bytes(event.raw).hex() for event in branch.events()],
            "reflog": [[m.kind, m.time, m.before, m.after] for m in branch.reflog()],
            "states": {
                slot.id: {str(at): branch.state(slot.id, at=at).hash for at in (0, branch.seq // 2, branch.seq)}
                for slot in store.slots()
            },
        }
    blobs = [event.blobs[0] for event in store.branch().events() if event.blobs]
    cause = next(event for event in store.branch().events() if event.blobs)
    return {
        "store": store.stats().store,
        "slots": [[s.id, s.kind, s.reducer, s.version, list(s.types), list(s.sources)] for s in store.slots()],
        "branches": branches,
        "blobs": {blob: [store.get_blob(blob).media_type, len(store.get_blob(blob).data)] for blob in blobs},
        "effects": [event.id for event in store.effects(cause.id)],
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store"
        with chronicle.open(path, durability="relaxed", clock=Clock(), entropy=Entropy(), map_size=1 << 30) as store:
            write(store)
            assert store.stats().format == 1
            assert store.verify(deep=True).ok
            text = json.dumps(found(store), indent=1)
        (HERE / "format-1.store.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
        (HERE / "format-1.json").write_text(text + "\n")
