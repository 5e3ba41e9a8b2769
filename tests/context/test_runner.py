"""The runner: summaries made and recorded, failures, retries, edits meanwhile, branches that moved on, sharing."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from conftest import Opener
from talking import manager, shown, talk
from tiny_strategy import Tiny

from chronicle_py import Store
from chronicle_py.context import ContextManager, Patience, Request, TransientFailure
from chronicle_py.context.payloads import ADOPT, SUMMARY, SummaryPayload
from chronicle_py.errors import ChronicleError, InvalidOperation, SummarizerFailed

QUICK = Patience(timeout=5.0, attempts=3, first_wait=0.0)


class Asked:
    """A summarizer that counts, and does something before it answers."""

    def __init__(self, before: Callable[[Request], Any] = lambda request: None) -> None:
        self.requests: list[Request] = []
        self.before = before

    def __call__(self, request: Request) -> str:
        self.requests.append(request)
        self.before(request)
        return f"sum {len(self.requests)} of {request.entries[0].blocks[0].text}"  # type: ignore[union-attr]


def events(store: Store, *types: str, branch: str = "main") -> list[Any]:
    return list(store.branch(branch).events(types=types))


# --- one tick -------------------------------------------------------------------------------------------------------


def test_a_tick_makes_the_oldest_summary_and_records_it(store: Store) -> None:
    asked = Asked()
    cm = manager(store, summarizer=asked)
    messages = talk(cm, *"abcdefghi")
    assert [work.first for work in cm.pending()] == [messages[0].id, messages[4].id]
    assert [cm.ready, cm.tick()] == [False, True]
    (event,) = events(store, SUMMARY)
    payload = event.payload
    assert isinstance(payload, SummaryPayload)
    assert (event.slot, event.linked_to) == ("context/memory", (messages[0].id,))
    assert payload.sources == tuple(m.id for m in messages[:4])
    assert payload.tokens == 4
    blob = store.get_blob(payload.text.hash)
    assert (blob.data, blob.media_type) == (b"sum 1 of a", "text/plain")
    assert [cm.tick(), cm.tick(), cm.ready] == [True, False, True]
    assert shown(cm) == ["sum 1 of a", "sum 2 of e", "i"]
    assert len(asked.requests) == 2


def test_drain_stops_at_its_limit(store: Store) -> None:
    cm = manager(store, summarizer=Asked())
    talk(cm, *"abcdefghijkl")
    assert cm.drain(limit=0) == 0
    assert cm.drain(limit=2) == 2
    assert len(cm.pending()) == 1
    assert cm.drain() == 1
    assert cm.drain() == 0
    with pytest.raises(InvalidOperation):
        cm.drain(limit=-1)


def test_a_summarizer_gets_media_as_they_were_given(store: Store) -> None:
    asked = Asked()
    cm = manager(store, summarizer=asked)
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "cGl4ZWxz"}}
    cm.add_message("User", ["look", image])
    talk(cm, *"abc")
    cm.tick()
    assert asked.requests[0].entries[0].blocks[1].source == image["source"]  # type: ignore[union-attr]


def test_async_summarizers_and_async_ticks(store: Store) -> None:
    async def summarize(request: Request) -> str:
        await asyncio.sleep(0)
        return "async " + request.entries[0].blocks[0].text  # type: ignore[union-attr]

    cm = manager(store, summarizer=summarize)
    talk(cm, *"abcdefghijkl")
    assert cm.tick() is True  # a coroutine function works without a loop, too
    assert asyncio.run(cm.atick()) is True
    assert asyncio.run(cm.adrain()) == 1
    assert asyncio.run(cm.atick()) is False
    assert shown(cm) == ["async a", "async e", "async i"]
    plain = manager(store, summarizer=Asked(), namespace="plain")
    assert asyncio.run(plain.adrain()) == 3


def test_the_loop_is_not_blocked_while_a_plain_summarizer_works(store: Store) -> None:
    release = threading.Event()
    cm = manager(store, summarizer=Asked(lambda request: release.wait(5)))
    talk(cm, *"abcd")

    async def main() -> bool:
        ticking = asyncio.ensure_future(cm.atick())
        while not ticking.done() and not release.is_set():
            await asyncio.sleep(0.001)
            release.set()
        return await ticking

    assert asyncio.run(main()) is True


def test_no_summary_is_made_inside_a_transaction(store: Store) -> None:
    asked = Asked()
    cm = manager(store, summarizer=asked)
    talk(cm, *"abcd")
    with store.transaction(), pytest.raises(InvalidOperation, match="inside a transaction"):
        cm.tick()
    assert asked.requests == []


# --- failures -------------------------------------------------------------------------------------------------------


def failing(error: BaseException) -> Callable[[Request], str]:
    def summarize(request: Request) -> str:
        raise error

    return summarize


@pytest.mark.parametrize(
    "summarizer",
    [
        failing(ValueError("broken")),
        failing(SummarizerFailed("refused")),
        failing(ConnectionError("gone")),
        failing(SystemExit(3)),
        failing(asyncio.CancelledError()),
        lambda request: "",
        lambda request: " \n",
        lambda request: None,
        lambda request: 3,
    ],
)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_failure_changes_nothing_and_reaches_the_caller(store: Store, summarizer: Any, asynchronous: bool) -> None:
    cm = manager(store, summarizer=summarizer, patience=QUICK)
    talk(cm, *"abcd")
    before = store.stats()
    with pytest.raises(SummarizerFailed):
        asyncio.run(cm.atick()) if asynchronous else cm.tick()
    assert store.stats() == before
    assert len(cm.pending()) == 1
    cm._runner.summarizer = manager(store)._runner.summarizer
    assert cm.tick() is True


def test_a_summarizer_that_hangs_is_given_up(store: Store) -> None:
    release = threading.Event()
    cm = manager(
        store, summarizer=Asked(lambda request: release.wait(10)), patience=Patience(timeout=0.05, first_wait=0.0)
    )
    talk(cm, *"abcd")
    before = store.stats()
    started = time.monotonic()
    for tick in (cm.tick, lambda: asyncio.run(cm.atick())):
        with pytest.raises(SummarizerFailed, match=r"within 0.05 s"):
            tick()
    assert time.monotonic() - started < 2
    release.set()
    assert store.stats() == before


@pytest.mark.parametrize("error", [TransientFailure("busy"), ConnectionError("gone"), TimeoutError("slow")])
def test_what_may_pass_is_tried_again(store: Store, error: Exception) -> None:
    asked = Asked()

    def twice(request: Request) -> None:
        if len(asked.requests) < 3:
            raise error

    asked.before = twice
    cm = manager(store, summarizer=asked, patience=QUICK)
    talk(cm, *"abcd")
    assert cm.tick() is True
    assert len(asked.requests) == 3


def test_what_will_not_pass_is_not_tried_again(store: Store) -> None:
    asked = Asked(failing(SummarizerFailed("refused")))
    cm = manager(store, summarizer=asked, patience=QUICK)
    talk(cm, *"abcd")
    with pytest.raises(SummarizerFailed, match="refused"):
        cm.drain()
    assert len(asked.requests) == 1


# --- what happens meanwhile -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["edit", "remove", "undo", "delete"])
def test_a_summary_is_dropped_when_its_sources_change_while_the_model_works(store: Store, change: str) -> None:
    asked = Asked()
    cm = manager(store, summarizer=asked)
    messages = talk(cm, *"abcd")
    cm.fork("side")
    cm.switch("side")
    other = manager(store, branch="side")
    changes: dict[str, Callable[[], Any]] = {
        "edit": lambda: other.edit_message(messages[1].id, "new"),
        "remove": lambda: other.remove_message(messages[1].id),
        "undo": other.undo,
        "delete": lambda: store.delete_branch("side"),
    }
    asked.before = lambda request: changes[change]() if len(asked.requests) == 1 else None
    assert cm.tick() is False
    for branch in store.branches():
        assert events(store, SUMMARY, branch=branch.name) == []
    if change == "edit":
        assert cm.drain() == 1
        assert shown(cm) == ["sum 2 of a"]


def test_messages_that_come_meanwhile_do_not_matter(store: Store) -> None:
    asked = Asked()
    cm = manager(store, summarizer=asked)
    talk(cm, *"abcd")
    asked.before = lambda request: cm.add_message("User", "more")
    assert cm.tick() is True
    assert shown(cm) == ["sum 1 of a", "more"]


def test_a_summary_goes_to_the_branch_it_was_planned_for(store: Store) -> None:
    asked = Asked()
    cm = manager(store, summarizer=asked)
    messages = talk(cm, *"abcd")
    cm.fork("other", at=messages[1].id)
    asked.before = lambda request: cm.switch("other")
    assert cm.tick() is True
    assert cm.branch == "other"
    assert (len(events(store, SUMMARY)), len(events(store, SUMMARY, branch="other"))) == (1, 0)


def test_two_threads_never_ask_for_the_same_summary(store: Store) -> None:
    asked = Asked(lambda request: time.sleep(0.005))
    managers = [manager(store, summarizer=asked) for _ in range(3)]
    talk(managers[0], *"abcdefghijklmnopqrstuvwx")
    threads = [threading.Thread(target=cm.drain) for cm in managers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    keys = [request.work.key for request in asked.requests]
    assert len(keys) == len(set(keys)) == 6
    assert len(events(store, SUMMARY)) == 6
    assert managers[0].pending() == []


# --- sharing --------------------------------------------------------------------------------------------------------


def test_ten_forks_pay_for_their_past_once(store: Store) -> None:
    asked = Asked()
    cm = manager(store, summarizer=asked)
    messages = talk(cm, *"abcdefgh")
    for n in range(9):
        cm.fork(f"fork-{n}", at=messages[-1].id)
    for n in range(9):
        cm.switch(f"fork-{n}")
        cm.drain()
        assert shown(cm) == ["sum 1 of a", "sum 2 of e"]
    cm.switch("main")
    assert len(asked.requests) == 2
    assert cm.pending() == []
    assert len(events(store, ADOPT)) == 2
    assert len(list(store.branch("fork-0").events(types=[SUMMARY]))) == 2


def test_a_fork_before_the_summary_adopts_it_at_once(store: Store) -> None:
    cm = manager(store, summarizer=Asked())
    messages = talk(cm, *"abcd")
    cm.add_message("User", "e")
    cm.drain()
    cm.fork("early", at=messages[3].id)
    assert [event.type for event in store.branch("early").events(start=5)] == [ADOPT]
    cm.switch("early")
    assert shown(cm) == ["sum 1 of a"]


def test_undo_adopts_what_it_took_back(store: Store) -> None:
    asked = Asked()
    cm = manager(store, summarizer=asked)
    talk(cm, *"abcdefg")
    cm.drain()
    cm.undo()
    assert shown(cm) == ["sum 1 of a", "e", "f"]
    assert len(asked.requests) == 1


def test_another_namespace_makes_its_own(store: Store) -> None:
    asked = Asked()
    cm, other = manager(store, summarizer=asked), manager(store, summarizer=asked, namespace="other")
    talk(cm, *"abcd")
    cm.drain()
    other.drain()
    assert len(asked.requests) == 2


def test_an_edited_message_is_summarised_anew(store: Store) -> None:
    asked = Asked()
    cm = manager(store, summarizer=asked)
    messages = talk(cm, *"abcd")
    cm.drain()
    cm.fork("other")
    cm.edit_message(messages[0].id, "new")
    assert shown(cm) == ["new", "b", "c", "d"]
    cm.drain()
    assert shown(cm) == ["sum 2 of new"]
    cm.switch("other")
    assert shown(cm) == ["sum 1 of a"]
    assert cm.drain() == 0


def test_a_summary_with_lone_surrogates_is_stored(store: Store) -> None:
    cm = manager(store, summarizer=lambda request: "a\ud800b")
    talk(cm, *"abcd")
    assert cm.tick() is True
    assert shown(cm) == ["a?b"]


# --- in the background ----------------------------------------------------------------------------------------------


def test_auto_tick_works_in_the_background(opener: Opener) -> None:
    asked = Asked()
    with manager(opener(), strategy=Tiny(auto_tick=True), summarizer=asked) as cm:
        talk(cm, *"abcdefgh")
        assert cm.auto_idle(5)
        assert shown(cm) == ["sum 1 of a", "sum 2 of e"]
        assert [(entry.branch, entry.outcome, entry.error) for entry in cm.auto_log] == [
            ("main", "recorded", None),
            ("main", "recorded", None),
        ]


def test_auto_tick_sees_what_a_transaction_brings_when_it_is_over(opener: Opener) -> None:
    store = opener()
    with manager(store, strategy=Tiny(auto_tick=True), summarizer=Asked()) as cm:
        with store.transaction():
            talk(cm, *"abcd")
            time.sleep(0.02)
        assert cm.auto_idle(5)
        assert shown(cm) == ["sum 1 of a"]


@pytest.mark.parametrize("what", ["open", "switch", "undo", "set_strategy", "edit", "remove", "unpin", "reset_head"])
def test_auto_tick_wakes_by_whatever_may_bring_work(opener: Opener, what: str) -> None:
    store = opener()
    asked = Asked(failing(SummarizerFailed("not yet")))
    auto = Tiny(auto_tick=True)
    with manager(store, strategy=auto, summarizer=asked, patience=QUICK) as cm:
        said = talk(cm, *"abcdefgh")
        assert cm.auto_idle(5)
        pin = cm.pin(said[0].id)
        cm.fork("other")
        asked.before = lambda request: None
        if what == "open":
            cm = manager(store, strategy=auto, summarizer=asked)
        elif what == "switch":
            cm.switch("other")
        elif what == "undo":
            cm.undo()
        elif what == "set_strategy":
            cm.set_strategy(auto)
        elif what == "edit":
            cm.edit_message(said[7].id, "H")
        elif what == "remove":
            cm.remove_message(said[7].id)
        elif what == "unpin":
            assert cm.unpin(pin)
        else:
            cm.reset_head("another topic")
        assert cm.auto_idle(5)
        assert cm.auto_log[-1].outcome in ("recorded", "adopted")
        cm.close()


def test_auto_tick_leaves_what_is_held_back(opener: Opener) -> None:
    with manager(opener(), strategy=Tiny(auto_tick=True, held=True), summarizer=Asked()) as cm:
        talk(cm, *"abcd")
        assert cm.auto_idle(5)
        assert (len(cm.pending()), cm.ready, cm.auto_log) == (1, True, [])
        assert cm.tick() is True


def test_a_failure_in_the_background_is_logged_and_tried_again(opener: Opener) -> None:
    asked = Asked(failing(SummarizerFailed("refused")))
    with manager(opener(), strategy=Tiny(auto_tick=True), summarizer=asked, patience=QUICK) as cm:
        talk(cm, *"abcd")
        assert cm.auto_idle(5)
        (entry,) = {entry.outcome for entry in cm.auto_log}
        assert entry == "failed"
        assert isinstance(cm.auto_log[0].error, SummarizerFailed)
        asked.before = lambda request: None
        cm.add_message("User", "e")
        assert cm.auto_idle(5)
        assert cm.auto_log[-1].outcome == "recorded"


def test_closing_ends_the_background(opener: Opener) -> None:
    store = opener()
    cm = manager(store, strategy=Tiny(auto_tick=True), summarizer=Asked())
    talk(cm, *"abcd")
    cm.close()
    cm.close()
    assert not any(thread.name == "chronicle-auto-tick" for thread in threading.enumerate())
    cm.add_message("User", "e")  # the store was given, and is still open
    store.close()
    with pytest.raises(ChronicleError):
        cm.add_message("User", "f")


def test_the_default_summarizer_needs_nothing(cm_default: ContextManager) -> None:
    talk(cm_default, "We walk along the coast. It is far.", "Good.", "When do we start?", "At nine.")
    assert cm_default.drain() == 1
    assert "We walk along the coast." in shown(cm_default)[0]


@pytest.fixture
def cm_default(store: Store) -> ContextManager:
    return ContextManager(store, strategy=Tiny())


def test_a_tick_that_is_cancelled_leaves_the_work_for_another(store: Store) -> None:
    async def summarize(request: Request) -> str:
        await asyncio.sleep(0 if ready else 60)
        return "done"

    ready: list[int] = []
    cm = manager(store, summarizer=summarize)
    talk(cm, *"abcd")

    async def main() -> None:
        ticking = asyncio.ensure_future(cm.atick())
        await asyncio.sleep(0.01)
        ticking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ticking
        ready.append(1)
        assert await cm.atick() is True

    asyncio.run(main())
    assert shown(cm) == ["done"]


def test_async_ticks_share_the_work(store: Store) -> None:
    asked: list[str] = []

    async def summarize(request: Request) -> str:
        asked.append(request.work.key)
        await asyncio.sleep(0.001)
        return "done"

    managers = [manager(store, summarizer=summarize) for _ in range(3)]
    talk(managers[0], *"abcdefghijklmnop")

    async def main() -> list[int]:
        return list(await asyncio.gather(*(cm.adrain() for cm in managers)))

    assert sum(asyncio.run(main())) == 4
    assert len(asked) == len(set(asked)) == 4


def test_a_strategy_that_breaks_does_not_end_the_background(opener: Opener) -> None:
    class Broken(Tiny):
        def request(self, state: Any, work: Any, view: Any) -> Request:
            raise KeyError("broken")

    with manager(opener(), strategy=Broken(auto_tick=True), summarizer=Asked()) as cm:
        talk(cm, *"abcd")
        assert cm.auto_idle(5)
        assert isinstance(cm.auto_log[-1].error, KeyError)
