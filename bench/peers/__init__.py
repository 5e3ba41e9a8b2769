"""Other libraries on the same work, in the same run. Each is optional (`pip install -e .[bench]`).

Rules for all of them: the same payloads, one connection kept open, WAL mode, the same durability class on both sides
(SQLite's synchronous=FULL beside "full", NORMAL or OFF beside "relaxed", said in the row), rounds in turns, and the
fastest way the peer has for the work; where it has a faster one for many at once, that has a row of its own.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from bench.figure import Unmeasurable


def installed(package: str) -> str:
    """ "name version" of an installed package; Unmeasurable when it is missing."""
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        raise Unmeasurable(f"{package} is not installed: pip install -e .[bench]") from None
