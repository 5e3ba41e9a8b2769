"""Erasing a message: it is gone with its edits, summaries and copies, on every branch; the rest of the memory stays."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from conftest import Opener
from talking import manager, talk, words

from chronicle_py import Erased, InvalidName, InvalidOperation, NotFound, Store
from chronicle_py.context import Budget, ContextManager, Request, Text
from chronicle_py.strategies import Autobiographical

SECRET = "Ottilie-Quandt"
WHY = "asked for"
SMALL: dict[str, Any] = {
    "head_window_tokens": 4, "recent_window_tokens": 8, "target_chunk_tokens": 6, "merge_threshold": 3,
}  # fmt: skip


class Telling:
    """A summarizer that repeats the secret where it is asked about it."""

    def __init__(self) -> None:
        self.seq = 0
        self.asked: list[tuple[int, int, int]] = []

    def __call__(self, request: Request) -> str:
        work = request.work
        self.asked.append((work.level, work.first_seq, work.last_seq))
        within = self.seq in work.source_seqs if work.level == 1 else work.first_seq <= self.seq <= work.last_seq
        return f"level {work.level} of {work.first_seq} to {work.last_seq}" + (f" {SECRET}" if within else "")


def holds(store: Store) -> bool:
    store.compact()
    return SECRET.encode() in Path(store.path).read_bytes()


def sound(store: Store) -> bool:
    report = store.verify(deep=True)
    assert report.ok, report.problems
    return True


@pytest.fixture
def told() -> Telling:
    return Telling()


@pytest.fixture
def cm(store: Store, told: Telling) -> ContextManager:
    return ContextManager(store, strategy=Autobiographical(**SMALL), tokenizer=words, summarizer=told)


def everything(cm: ContextManager) -> str:
    """All that can be read of the branch that the manager stands on."""
    compiled = cm.compile(Budget(100_000))
    log = [entry.blocks for entry in cm.context_log.entries()]
    found = [cm.messages(), compiled, log, cm.search(include_merged=True), cm.pins(), cm.query(), cm.stats()]
    return repr(found)


def test_all_that_repeats_a_message_goes_on_all_branches(store: Store, cm: ContextManager, told: Telling) -> None:
    talk(cm, *(f"before {n} it" for n in range(4)))
    secret = cm.add_message("User", f"I am {SECRET}", metadata={"external": {"source": "mail", "id": SECRET}})
    told.seq = secret.seq
    cm.edit_message(secret.id, f"my name is {SECRET}")
    cm.pin(secret.id, name=SECRET)
    document = cm.mark_document(secret.id, SECRET)
    for pin in cm.pins():
        cm.unpin(pin.id)
    assert document
    copied = cm.context_log.append(source=secret.id, relation="copy")
    shown = cm.context_log.append(source=secret.id, relation="referenced")
    own = cm.context_log.append("User", f"copy of {SECRET}", source=secret.id)
    cm.context_log.edit(own.id, f"edited {SECRET}")
    derived = cm.context_log.append("User", "somebody", source=secret.id, relation="derived")
    talk(cm, *(f"after {n} it" for n in range(30)))
    cm.drain()
    cm.fork("other")
    cm.switch("other")
    cm.edit_message(secret.id, f"on another branch {SECRET}")
    talk(cm, *(f"other {n} it" for n in range(20)))
    cm.drain()
    assert SECRET in everything(cm)
    assert holds(store)
    kept = {
        (s.level, s.source_range)
        for s in (r.summary for r in cm.search(include_merged=True))
        if SECRET not in s.content
    }

    erased = cm.erase_message(secret.id[:12], WHY)

    assert (erased.id, erased.edits, erased.log, erased.pins) == (secret.id, 2, 4, 2)
    assert erased.summaries >= 2
    assert not holds(store)
    for branch in ("main", "other"):
        cm.switch(branch)
        assert SECRET not in everything(cm)
        assert [m.text for m in cm.messages()][:5] == [*(f"before {n} it" for n in range(4)), "after 0 it"]
        assert [entry.id for entry in cm.context_log] == [derived.id]
        with pytest.raises(NotFound, match=f"was erased: {WHY}"):
            cm.message(secret.id)
        with pytest.raises(NotFound):
            cm.message(secret.id, at=secret.seq)
        with pytest.raises(NotFound):
            cm.context_log.get(copied.id)
    assert shown.source == secret.id
    assert cm.find_external("mail", SECRET) is None
    left = {(r.summary.level, r.summary.source_range) for r in cm.search(include_merged=True)}
    assert kept <= left  # what was summarised of others is not asked for again
    told.asked.clear()
    told.seq = 0  # it does not know any more
    cm.drain()
    assert told.asked
    assert SECRET not in everything(cm)
    assert not holds(store)
    assert sound(store)
    assert isinstance(store.event(secret.id).payload, Erased)


def test_another_process_sees_it(opener: Opener, store: Store, cm: ContextManager) -> None:
    first, secret, *_ = talk(cm, "a b", SECRET, "c d")
    with opener() as other:
        second = manager(other)
        view = second._conversation.view()
        assert [m.text for m in second.messages()] == ["a b", SECRET, "c d"]
        cm.erase_message(secret.id, WHY)
        assert [m.text for m in second.messages()] == ["a b", "c d"]
        assert view.message(first.seq).id == first.id
    with opener(readonly=True) as other:
        third = ContextManager(other, tokenizer=words)
        assert [m.text for m in third.messages()] == ["a b", "c d"]


def test_a_manager_that_folds_by_itself_forgets_too(opener: Opener, store: Store, cm: ContextManager) -> None:
    _, secret, _ = talk(cm, "a b", SECRET, "c d")
    with opener(readonly=True) as other:
        reader = ContextManager(other, strategy=Autobiographical(recent_window_tokens=5), tokenizer=words)
        assert SECRET in repr(reader.compile(Budget(100_000)))
        cm.erase_message(secret.id, WHY)
        assert SECRET not in repr(reader.compile(Budget(100_000)))


def test_what_was_erased_is_not_read_through_an_older_view(cm: ContextManager) -> None:
    _, secret, _ = talk(cm, "a b", SECRET, "c d")
    view = cm._conversation.view()
    cm.erase_message(secret.id, WHY)
    with pytest.raises(NotFound, match="was erased: asked for"):
        view.message(secret.seq)


def test_a_removed_message_can_be_erased(store: Store, cm: ContextManager) -> None:
    _, secret, _ = talk(cm, "a b", SECRET, "c d")
    cm.remove_message(secret.id)
    cm.erase_message(secret.id, WHY)
    assert not holds(store)
    assert [m.text for m in cm.messages()] == ["a b", "c d"]
    assert cm.erase_message(secret.id, "again").report.events == ()


def test_media_of_a_message_go(store: Store, cm: ContextManager) -> None:
    data = (SECRET * 40).encode()
    source = {"type": "base64", "media_type": "text/plain", "data": b64encode(data).decode()}
    message = cm.add_message("User", [{"type": "document", "source": source}])
    assert holds(store)
    assert cm.erase_message(message.id, WHY).report.blobs == 1
    assert not holds(store)
    assert sound(store)


def test_a_store_that_erases_the_events_alone_says_so_in_the_log(store: Store, cm: ContextManager) -> None:
    (message,) = talk(cm, SECRET)
    cm.context_log.append(source=message.id, relation="referenced")
    edited = cm.add_message("User", "first words")
    edit = cm.edit_message(edited.id, SECRET)
    assert edit.edited is not None
    store.erase([message.id, edit.edited], WHY)
    assert [entry.blocks for entry in cm.context_log] == [[Text(f"[erased: {WHY}]")]]
    assert [m.text for m in cm.messages()] == ["first words"]  # the edit says nothing any more
    assert sound(store)


def test_tools_and_their_results_stand_without_each_other(store: Store, cm: ContextManager) -> None:
    call = cm.add_message("Claude", [{"type": "tool_use", "id": "t1", "name": "look", "input": {"q": SECRET}}])
    cm.add_message("User", [{"type": "tool_result", "tool_use_id": "t1", "content": "found"}])
    talk(cm, "a b", "c d")
    cm.erase_message(call.id, WHY)
    assert SECRET not in everything(cm)
    assert not holds(store)
    assert sound(store)


def test_what_is_refused(store: Store, cm: ContextManager) -> None:
    (message,) = talk(cm, "a")
    note = store.branch().append("note", 1)
    with pytest.raises(InvalidOperation, match="no message"):
        cm.erase_message(note.id, WHY)
    with pytest.raises(NotFound):
        cm.erase_message("ab" * 32, WHY)
    with pytest.raises(InvalidName):
        cm.erase_message(message.id, "")
    with pytest.raises(InvalidOperation, match="transaction of its own"), store.transaction():
        cm.erase_message(message.id, WHY)
    apart = ContextManager(store, namespace="lena", isolate=True, tokenizer=words)
    with pytest.raises(InvalidOperation, match="no message of this conversation"):
        apart.erase_message(message.id, WHY)
    assert cm.message(message.id).text == "a"
