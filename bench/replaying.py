"""The process that `bench/memory.py` watches: opens a store, says so, waits for a line, and replays."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.stores import SLOT, relaxed


def main(path: Path) -> None:
    with relaxed(path) as store:
        branch = store.branch()
        print("idle", flush=True)
        sys.stdin.readline()
        found = branch.replay(SLOT)
        if not found.equal:
            raise AssertionError(f"replay did not give the stored state: {found}")
        print(f"{found.events:,} events at {found.events_per_second:,.0f}/s", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
