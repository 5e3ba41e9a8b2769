"""`Runner`: the one impure step of a strategy. Has planned summaries made, and records them as events.

Theory of operation. A piece of work is begun (planned on a branch, claimed, its request made), asked for outside any
transaction, and finished: inside one transaction the plan is made again, and the summary is recorded only if the work
still stands there, on the branch it was planned for. Otherwise the text is dropped. Before a summarizer is asked, a
summary of the same key is looked for on any branch, and adopted by an event. A failure writes nothing.

Claims keep the threads of one process from asking for one summary twice, on whatever branch.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import Enum
from itertools import chain
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import msgspec

from chronicle_py.context.branch_view import BranchView
from chronicle_py.context.conversation import Conversation
from chronicle_py.context.folded_slot import FoldedSlot
from chronicle_py.context.media import restored
from chronicle_py.context.memory import MemoryState
from chronicle_py.context.payloads import ADOPT, SUMMARY, SummaryPayload
from chronicle_py.context.summarizers.asking import Patience, ask, ask_async
from chronicle_py.context.summarizers.protocol import Summarizer
from chronicle_py.errors import InvalidOperation, NotFound, ReadOnly
from chronicle_py.event import BlobRef, bind
from chronicle_py.kv import Reader
from chronicle_py.records import LINKED_TO
from chronicle_py.strategies.strategy import Request, Strategy, Work

if TYPE_CHECKING:
    from chronicle_py.store import Store


class Outcome(Enum):
    """What became of one tick."""

    RECORDED = "recorded"
    ADOPTED = "adopted"
    DISCARDED = "discarded"  # its sources changed while the summarizer worked
    BUSY = "busy"  # what is planned is being worked on elsewhere in this process
    IDLE = "idle"  # nothing is planned


class Scene(msgspec.Struct, frozen=True):
    """Where work is planned: one branch, one strategy."""

    conversation: Conversation
    strategy: Strategy[Any]
    slot: FoldedSlot
    memory: FoldedSlot

    def plan(self, view: BranchView) -> Iterator[Work]:
        """What is to be summarised at a head, without what a summary was recorded for already. Each piece is worked out
        as it is asked for."""
        planned = self.strategy.plan(self.slot.state(view.head))
        if planned:
            known: MemoryState = self.memory.state(view.head)
            yield from (work for work in planned if not known.has(work.key))

    def planned(self, view: BranchView, key: str) -> Work | None:
        """The piece of this key, if it is planned at a head."""
        return next((work for work in self.plan(view) if work.key == key), None)


class Job(msgspec.Struct, frozen=True):
    """Work that was begun."""

    work: Work
    request: Request


class _Claims:
    """The keys that are being worked on in this process."""

    def __init__(self) -> None:
        self.keys: set[tuple[str, str]] = set()
        self.changed = threading.Condition()


_claims: WeakKeyDictionary[Any, _Claims] = WeakKeyDictionary()
_claims_lock = threading.Lock()


def _claims_of(store: Store) -> _Claims:
    with _claims_lock:
        return _claims.setdefault(store._engine, _Claims())


class Runner:
    """Works off what strategies plan."""

    def __init__(self, store: Store, summarizer: Summarizer, patience: Patience) -> None:
        self._store = store
        self._claims = _claims_of(store)
        self.summarizer = summarizer
        self.patience = patience

    def tick(self, scene: Scene, automatic: bool = False) -> Outcome:
        """Adopts what there is, or has one planned summary made. SummarizerFailed: nothing was written."""
        with self._begun(scene, automatic) as (outcome, job):
            if job is None:
                return outcome
            return self._finish(scene, job, ask(self.summarizer, job.request, self.patience))

    async def atick(self, scene: Scene) -> Outcome:
        """The same without blocking the loop while the summarizer works."""
        with self._begun(scene, False) as (outcome, job):
            if job is None:
                return outcome
            return self._finish(scene, job, await ask_async(self.summarizer, job.request, self.patience))

    def wait(self, seconds: float) -> None:
        """Returns when work somewhere in this process has ended, or the time is up."""
        with self._claims.changed:
            self._claims.changed.wait(seconds)

    def adopt(self, scene: Scene) -> int:
        """Records the summaries that exist on other branches for what is planned here; returns how many.

        One look-up for each piece of planned work; writes nothing when there are none.
        """
        if self._store._engine.readonly:
            return 0
        view = scene.conversation.view()
        missing: set[str] = set()
        found = self._adoptable(scene, view, missing)
        if not found:
            return 0
        adopted = 0
        with self._store.transaction():
            if scene.conversation.view().head != view.head:  # somebody wrote since
                found = self._adoptable(scene, scene.conversation.view(), missing)
            while found:
                for work, summary in found:
                    payload = scene.strategy.complete(work, summary.text, summary.tokens)
                    scene.conversation.branch.append(ADOPT, payload, slot=scene.memory.id, linked_to=(work.first,))
                adopted += len(found)
                found = self._adoptable(scene, scene.conversation.view(), missing)  # what these make plannable
        return adopted

    def _adoptable(self, scene: Scene, view: BranchView, missing: set[str]) -> list[tuple[Work, SummaryPayload]]:
        """What is planned and there is a summary of. `missing`: the keys that were looked for in vain, added to."""
        found = []
        with self._store._engine.read() as reader:
            for work in scene.plan(view):
                if work.key not in missing:
                    summary = self._recorded(reader, scene.memory.id, work)
                    if summary is None:
                        missing.add(work.key)
                    else:
                        found.append((work, summary))
        return found

    def _recorded(self, reader: Reader, slot: str, work: Work) -> SummaryPayload | None:
        """The summary of a key on whatever branch: its event is linked to the first message that it covers."""
        engine = self._store._engine
        for event in engine.log.naming(reader, bytes.fromhex(work.first), LINKED_TO):
            if event.slot == slot and event.type in (SUMMARY, ADOPT):
                payload = bind(event, engine.event_types).payload
                if isinstance(payload, SummaryPayload) and payload.key == work.key:
                    return payload
        return None

    @contextmanager
    def _begun(self, scene: Scene, automatic: bool) -> Iterator[tuple[Outcome, Job | None]]:
        """What to do next, claimed while the block runs."""
        self.may_ask()
        view = scene.conversation.view()
        planned = (work for work in scene.plan(view) if not (automatic and work.held))
        first = next(planned, None)
        if first is None:
            yield Outcome.IDLE, None
            return
        work = self._claim(scene, chain((first,), planned))
        if work is None:
            yield Outcome.BUSY, None
            return
        try:
            # Whoever worked on it until the claim was free may have recorded it since the plan was read: here …
            now = scene.conversation.view()
            if now.head != view.head:
                view = now
                if scene.planned(view, work.key) is None:
                    yield Outcome.BUSY, None
                    return
            with self._store._engine.read() as reader:  # … or on another branch
                elsewhere = self._recorded(reader, scene.memory.id, work)
            if elsewhere is not None and self.adopt(scene):
                yield Outcome.ADOPTED, None
                return
            request = scene.strategy.request(scene.slot.state(view.head), work, view)
            yield Outcome.IDLE, Job(work, self.whole(request))
        finally:
            with self._claims.changed:
                self._claims.keys.discard((scene.memory.id, work.key))
                self._claims.changed.notify_all()

    def may_ask(self) -> None:
        """InvalidOperation where a transaction is open, ReadOnly where what is made could not be recorded."""
        if self._store._engine.readonly:
            raise ReadOnly(f"{self._store.path} was opened with readonly=True; open it without to make summaries")
        writer = self._store._engine.kv.writer
        if writer is not None and writer.mine():
            raise InvalidOperation(
                "summaries are not made inside a transaction, which would keep everyone from writing while the model "
                "answers; leave the `with` block first"
            )

    def _claim(self, scene: Scene, planned: Iterable[Work]) -> Work | None:
        with self._claims.changed:
            for work in planned:
                claim = (scene.memory.id, work.key)
                if claim not in self._claims.keys:
                    self._claims.keys.add(claim)
                    return work
        return None

    def whole(self, request: Request) -> Request:
        """The request with its media as they were given."""
        entries = [
            msgspec.structs.replace(entry, blocks=restored(entry.blocks, self._store)) for entry in request.entries
        ]
        return msgspec.structs.replace(request, entries=entries)

    def _finish(self, scene: Scene, job: Job, text: str) -> Outcome:
        """Records the summary where its work still stands."""
        try:
            with self._store.transaction():
                view = scene.conversation.view()
                work = scene.planned(view, job.work.key)
                if work is None:
                    return Outcome.DISCARDED
                blob = self._store.put_blob(text.encode("utf-8", "replace"), "text/plain")
                payload = scene.strategy.complete(work, BlobRef(blob), view.count(text))
                scene.conversation.branch.append(SUMMARY, payload, slot=scene.memory.id, linked_to=(work.first,))
                return Outcome.RECORDED
        except NotFound:
            if all(info.name != scene.conversation.branch.name for info in self._store.branches()):
                return Outcome.DISCARDED  # the branch was deleted meanwhile
            raise
