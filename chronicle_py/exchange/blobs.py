"""Finding a blob by the start of its id."""

from __future__ import annotations

from chronicle_py.errors import InvalidOperation, NotFound
from chronicle_py.event import BLOB
from chronicle_py.kv import OBJECTS
from chronicle_py.log import MIN_PREFIX
from chronicle_py.objects import Blob, unpack_blob
from chronicle_py.store import Store


def find_blob(store: Store, text: str) -> Blob:
    """The blob whose id is `text` or starts with it (a unique prefix of at least 6 hex digits)."""
    digits = text.lower()
    if not MIN_PREFIX <= len(digits) <= 64 or any(c not in "0123456789abcdef" for c in digits):
        raise InvalidOperation(f"a blob's id is {MIN_PREFIX} to 64 hex digits, not {text!r}")
    start = bytes.fromhex(digits + "0" * (-len(digits) % 2))
    found: list[tuple[bytes, bytes]] = []
    with store._engine.read() as reader:
        while len(found) < 2:
            pairs = reader.scan(OBJECTS, start, limit=4)
            same = [pair for pair in pairs if pair[0].hex().startswith(digits)]
            found += [pair for pair in same if pair[1][:1] == BLOB]
            if len(same) < 4:
                break
            start = pairs[-1][0] + b"\0"
    if not found:
        raise NotFound(f"no blob has an id that starts with {text!r}")
    if len(found) > 1:
        raise InvalidOperation(
            f"{text!r} is the start of several blobs' ids, of {found[0][0].hex()} for one; give more"
        )
    return unpack_blob(*found[0])
