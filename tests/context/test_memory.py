"""The memory of a namespace: pins, documents, search, head resets, and which summaries are there."""

from __future__ import annotations

from typing import Any

import pytest
from talking import manager, shown, talk, words
from tiny_strategy import Tiny

from chronicle_py import BlobRef, Store
from chronicle_py.context import ContextManager, Patience
from chronicle_py.context.blocks import Text
from chronicle_py.context.memory import Memory
from chronicle_py.context.payloads import ADOPT, SUMMARY, SummaryPayload
from chronicle_py.errors import InvalidOperation, NotFound, SummarizerFailed
from chronicle_py.strategies import Autobiographical, Request


@pytest.fixture
def cm(store: Store) -> ContextManager:
    return manager(store)


# --- pins -----------------------------------------------------------------------------------------------------------


def test_a_pin_is_there_until_it_is_taken_back(cm: ContextManager) -> None:
    messages = talk(cm, *"abcd")
    pin = cm.pin(messages[1].id, messages[2].id, name="names")
    document = cm.mark_document(messages[0].id, "paper")
    assert [(p.id, p.first_seq, p.last_seq, p.kind, p.name) for p in cm.pins()] == [
        (pin, 2, 3, "pin", "names"),
        (document, 1, 1, "document", "paper"),
    ]
    assert cm.unpin(pin[:10]) is True
    assert cm.unpin(pin) is False
    assert cm.unpin("00" * 32) is False
    assert [p.id for p in cm.pins()] == [document]


def test_a_pin_on_one_branch_is_not_on_the_other(cm: ContextManager) -> None:
    messages = talk(cm, *"abcd")
    cm.fork("other")
    cm.pin(messages[0].id)
    cm.switch("other")
    assert cm.pins() == []


def test_pins_that_make_no_sense_leave_nothing(cm: ContextManager) -> None:
    messages = talk(cm, *"abcd")
    cm.remove_message(messages[3].id)
    seq = cm.stats().seq
    with pytest.raises(InvalidOperation, match="swap"):
        cm.pin(messages[2].id, messages[0].id)
    with pytest.raises(NotFound):
        cm.pin("ab" * 32)
    with pytest.raises(NotFound, match="removed"):
        cm.pin(messages[3].id)
    with pytest.raises(InvalidOperation, match="refused"):
        cm.pin(messages[0].id, name="forbidden")
    with pytest.raises(InvalidOperation):
        cm.unpin("abc")
    assert cm.stats().seq == seq


# --- search ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def found(store: Store) -> ContextManager:
    cm = manager(store, summarizer=lambda request: f"About {request.entries[0].blocks[0].text}. Straße.")
    talk(cm, "apples and Apples", "b", "c", "d", "pears", "f", "g", "h")
    cm.drain()
    return cm


def test_text_is_found_in_any_case_newest_first_with_its_count(found: ContextManager) -> None:
    assert [(r.id, r.level, r.matches) for r in found.search("APPLES")] == [("L1-0", 1, 2)]
    assert [r.id for r in found.search("about")] == ["L1-1", "L1-0"]
    assert [r.id for r in found.search("strasse", limit=1)] == ["L1-1"]
    assert next((r.content, r.matches) for r in found.search()) == ("About pears. Straße.", 0)
    assert found.search("nothing") == found.search("about", levels=[2]) == found.search("about", limit=0) == []


def test_a_regex_wins_over_text(found: ContextManager) -> None:
    assert [(r.id, r.matches) for r in found.search("pears", regex=r"[aA]pples")] == [("L1-0", 2)]
    for wrong in ("(", b"x", 3):
        with pytest.raises(InvalidOperation, match="regex"):
            found.search(regex=wrong)  # type: ignore[arg-type]
    for options in ({"levels": "1"}, {"levels": [-1]}, {"limit": -1}, {"text": 3}):
        with pytest.raises(InvalidOperation):
            found.search(**options)


def test_a_summary_says_what_it_is_of(found: ContextManager) -> None:
    messages = found.messages()
    summary = found.summary("L1-0")
    assert (summary.level, summary.source_level, summary.content) == (1, 0, "About apples and Apples. Straße.")
    assert summary.source_ids == tuple(m.id for m in messages[:4])
    assert summary.source_range == (messages[0].id, messages[3].id)
    with pytest.raises(NotFound, match="L1-7"):
        found.summary("L1-7")


def test_what_was_edited_away_is_not_found(found: ContextManager) -> None:
    found.edit_message(found.messages()[0].id, "cherries")
    assert found.search("apples") == []
    assert shown(found)[0] == "cherries"


# --- head -----------------------------------------------------------------------------------------------------------


def test_a_head_reset_is_a_message_and_an_event(cm: ContextManager) -> None:
    talk(cm, "a", "b")
    message = cm.reset_head("Now the garden.")
    assert (message.participant, message.text) == ("Context Manager", "[Topic Transition]\n\nNow the garden.")
    assert cm.stats().seq == 4
    assert cm.strategy.head_start(cm.store.branch().state("context/tiny").get()) == message.seq  # type: ignore[attr-defined]


def test_a_transition_is_summarised_when_no_text_is_given(store: Store) -> None:
    cm = manager(store, summarizer=lambda request: "We spoke of " + request.entries[0].blocks[0].text)
    with pytest.raises(InvalidOperation, match="no messages"):
        cm.reset_head()
    talk(cm, "apples")
    assert cm.reset_head().text == "[Topic Transition]\n\nWe spoke of apples"
    for wrong in ("", " ", 3):
        with pytest.raises(InvalidOperation):
            cm.reset_head(wrong)  # type: ignore[arg-type]


def test_a_transition_that_cannot_be_summarised_leaves_nothing(store: Store) -> None:
    cm = manager(store, summarizer=lambda request: "", patience=Patience(attempts=1))
    talk(cm, "apples")
    with pytest.raises(SummarizerFailed):
        cm.reset_head()
    assert cm.stats().seq == 1


# --- the reducer ----------------------------------------------------------------------------------------------------


def test_the_first_summary_of_a_key_counts(store: Store, cm: ContextManager) -> None:
    blob = store.put_blob(b"text", "text/plain")

    def payload(key: str) -> SummaryPayload:
        return SummaryPayload(
            key=key, level=1, text=BlobRef(blob), tokens=1, sources=(), source_seqs=(), first="", last="", first_seq=1,
            last_seq=1,
        )  # fmt: skip

    branch = store.branch()
    for type, key in ((SUMMARY, "k1"), (ADOPT, "k2"), (ADOPT, "k1"), (SUMMARY, ""), (SUMMARY, "x" * 300)):
        branch.append(type, payload(key), slot="context/memory")
    state = branch.state("context/memory").get()
    assert dict(state.keys.items()) == {"k1": 1, "k2": 2}
    assert (state.has("k1"), state.has("k3")) == (True, False)


def test_events_of_another_shape_change_nothing(store: Store) -> None:
    store.register_state("m", reducer=Memory())
    branch = store.branch()
    for payload in (None, {"key": 3}, [1]):
        branch.append(SUMMARY, payload, slot="m")
    assert dict(branch.state("m").get().keys.items()) == {}


def test_tiny_is_a_strategy_with_every_capability() -> None:
    from chronicle_py.strategies.strategy import Pinnable, RenderStatsCapable, Resettable, Searchable

    for capability in (Pinnable, Searchable, Resettable, RenderStatsCapable):
        assert isinstance(Tiny(), capability)


def texts_of(request: Request) -> list[str]:
    return [block.text for entry in request.entries for block in entry.blocks if isinstance(block, Text)]


@pytest.mark.parametrize("options", [{}, {"enforce_budget": False}])
def test_a_transition_tells_of_head_and_memories_not_of_pins_and_what_is_recent(
    store: Store, options: dict[str, Any]
) -> None:
    asked: list[Request] = []

    def told(request: Request) -> str:
        asked.append(request)
        return "summary"

    strategy = Autobiographical(
        head_window_tokens=50, recent_window_tokens=60, target_chunk_tokens=50, summary_target_tokens=20, **options
    )
    cm = ContextManager(store, strategy=strategy, tokenizer=words, summarizer=told)
    document = cm.add_message("User", "page " * 31_000)
    cm.mark_document(document.id)
    for n in range(20):
        cm.add_message("User" if n % 2 else "Claude", f"turn{n} " * 10)
    cm.drain()
    asked.clear()
    cm.reset_head()
    (request,) = asked
    texts = texts_of(request)
    assert sum(map(words, texts)) < 30_000
    assert [entry.summary for entry in request.entries if entry.summary] == ["L1-0", "L1-1"]
    assert not any("turn19" in text for text in texts)


def test_a_transition_without_head_or_memories_tells_of_the_newest_messages(store: Store) -> None:
    asked: list[Request] = []

    def told(request: Request) -> str:
        asked.append(request)
        return "summary"

    cm = ContextManager(store, strategy=Autobiographical(), tokenizer=words, summarizer=told)
    cm.add_message("User", "first")
    cm.add_message("User", "long " * 31_000)
    cm.add_message("Claude", "last")
    cm.reset_head()
    texts = texts_of(asked[0])
    assert (texts[0], texts[-1]) == ("first", "last")
    assert 1_000 < words(texts[1]) < 3_000
