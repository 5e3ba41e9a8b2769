"""How long it takes from an append to a follower: in another thread, in an asyncio task, in another process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import chronicle_py as chronicle
from chronicle_py import CaughtUp, Followed, Follower

COUNT = 1000
PAUSE = 0.003  # seconds between two appends


def write(path: str) -> None:
    with chronicle.open(path, durability="relaxed") as store:
        main = store.branch()
        for _ in range(COUNT):
            time.sleep(PAUSE)
            main.append("time", time.time())


def caught_up(store: chronicle.Store) -> Follower:
    follower = store.follow(types=["time"], start="now")
    assert isinstance(next(follower), CaughtUp)
    return follower


def delay(item: object) -> float:
    assert isinstance(item, Followed)
    return time.time() - float(item.event.payload)


def from_thread(store: chronicle.Store) -> list[float]:
    follower = caught_up(store)
    writer = threading.Thread(target=write, args=(store.path,))
    writer.start()
    delays = [delay(next(follower)) for _ in range(COUNT)]
    writer.join()
    return delays


async def in_task(store: chronicle.Store) -> list[float]:
    follower = caught_up(store)
    writing = asyncio.create_task(asyncio.to_thread(write, store.path))
    delays = [delay(await anext(follower)) for _ in range(COUNT)]
    await writing
    return delays


def from_process(store: chronicle.Store) -> list[float]:
    follower = caught_up(store)
    writer = subprocess.Popen([sys.executable, __file__, store.path])
    delays = [delay(next(follower)) for _ in range(COUNT)]
    writer.wait()
    return delays


def idle(store: chronicle.Store) -> float:
    """The part of a core that waiting takes."""
    follower = caught_up(store)
    before = time.process_time()
    follower.next(timeout=5)
    return (time.process_time() - before) / 5


def main() -> None:
    if len(sys.argv) > 1:
        write(sys.argv[1])
        return
    with tempfile.TemporaryDirectory() as folder:
        store = chronicle.open(Path(folder) / "store", durability="relaxed")
        for name, delays in (
            ("another thread", from_thread(store)),
            ("a task", asyncio.run(in_task(store))),
            ("another process", from_process(store)),
        ):
            ms = [1000 * d for d in sorted(delays)]
            print(
                f"{name:<16} median {ms[COUNT // 2]:.2f} ms  99 % {ms[COUNT * 99 // 100]:.2f} ms  max {ms[-1]:.2f} ms"
            )
        print(f"waiting          {idle(store):.2%} of a core")
        store.close()


if __name__ == "__main__":
    main()
