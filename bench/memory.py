"""The figure of memory: what a process holds while it replays, above what it held before.

The replay runs in a process of its own (`bench/replaying.py`). This one looks at its `RssAnon` every few milliseconds:
anonymous memory only. Pages of the file that LMDB has mapped, which the system takes back when it needs them, do not
count.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from bench.figure import Measured, Unmeasurable, at_most, figure
from bench.stores import Session

_EVERY = 0.004  # seconds
_ROOT = str(Path(__file__).resolve().parent.parent)


def rss_anon(pid: int) -> int:
    """Bytes of anonymous memory that a process has in RAM."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


def replaying(path: Path) -> tuple[int, int, str]:
    """(RssAnon of the idle process, its peak during a replay, what the process said of the replay)."""
    paths = [_ROOT, *filter(None, [os.environ.get("PYTHONPATH")])]
    with subprocess.Popen(
        [sys.executable, "-m", "bench.replaying", str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            if child.stdout.readline() != "idle\n":
                raise RuntimeError("the replaying process did not start")
            idle = peak = rss_anon(child.pid)
            child.stdin.write("go\n")
            child.stdin.flush()
            while child.poll() is None:
                peak = max(peak, rss_anon(child.pid))
                time.sleep(_EVERY)
            said = child.stdout.read().strip()
        finally:
            child.kill()
    if child.returncode or not said:
        raise RuntimeError(f"the replaying process ended with {child.returncode}")
    return idle, peak, said


@figure("memory to replay 1,000,000 events, above the idle process", "MB", at_most(100, "MB of RssAnon"))
def replay(session: Session) -> Measured:
    if not Path("/proc/self/status").exists():
        raise Unmeasurable("RssAnon is read from /proc, which this system has not")
    events = session.pick(1_000_000, 100_000)
    idle, peak, said = replaying(session.batched(events))
    return Measured((peak - idle) / 1e6, note=f"{said}; the idle process has {idle / 1e6:.0f} MB", beside="")
