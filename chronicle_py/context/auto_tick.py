"""`AutoTick`: a thread that works off planned summaries as messages come in, for strategies with `auto_tick`.

It takes what is not held back, one piece after the other, on the branch that the manager stands on, and keeps what
became of each in `log`. A failure is logged and tried again at the next message.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

import msgspec

from chronicle_py.context.runner import Outcome

_LOGGED = 256


class AutoTickEntry(msgspec.Struct, frozen=True):
    """What became of one piece of work in the background."""

    branch: str
    outcome: str  # "recorded", "adopted", "discarded" or "failed"
    error: Exception | None = None


class AutoTick:
    """The thread, started at the first wake-up. `tick` takes the branch and works off one piece."""

    def __init__(self, branch: Callable[[], str], tick: Callable[[str], Outcome], settle: Callable[[], None]) -> None:
        self._branch = branch
        self._tick = tick
        self._settle = settle  # returns when the transaction that woke us is over
        self._changed = threading.Condition()
        self._wanted = self._working = self._stopped = False
        self._thread: threading.Thread | None = None
        self.log: deque[AutoTickEntry] = deque(maxlen=_LOGGED)

    def wake(self) -> None:
        """There may be work."""
        with self._changed:
            if self._stopped:
                return
            self._wanted = True
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="chronicle-auto-tick", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def idle(self, timeout: float | None = None) -> bool:
        """Waits until nothing is left to do; False when the time (seconds) is up first."""
        with self._changed:
            return self._changed.wait_for(lambda: not (self._wanted or self._working), timeout)

    def stop(self, timeout: float | None = 5.0) -> None:
        """Ends the thread after the piece it works on; waits for it at most so many seconds."""
        with self._changed:
            self._stopped = True
            self._wanted = False
            self._changed.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._working = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._wanted or self._stopped)
                if self._stopped:
                    return
                self._wanted, self._working = False, True
            self._work_off()

    def _work_off(self) -> None:
        branch = self._branch()
        try:
            self._settle()
            while not self._stopped:
                branch = self._branch()
                outcome = self._tick(branch)
                if outcome in (Outcome.IDLE, Outcome.BUSY):
                    return
                self.log.append(AutoTickEntry(branch, outcome.value))
        except Exception as error:
            if not self._stopped:
                self.log.append(AutoTickEntry(branch, "failed", error))
