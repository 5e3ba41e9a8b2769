"""`ContextManager`: messages on branches, compiling, injections, namespaces; on what a strategy cannot do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from conftest import Opener
from talking import manager, shown, talk
from tiny_strategy import Tiny

from chronicle_py import Store
from chronicle_py.context import Budget, ContextManager, Injection, Patience
from chronicle_py.context.message_index import MessageIndex
from chronicle_py.errors import (
    BranchExists,
    BudgetTooSmall,
    ChronicleError,
    InvalidName,
    InvalidOperation,
    NotFound,
    ReadOnly,
)
from chronicle_py.strategies import Autobiographical, Knowledge, Passthrough, SlidingWindow

CALL = {"type": "tool_use", "id": "t1", "name": "grep", "input": {"q": "needle"}}
ANSWER = {"type": "tool_result", "tool_use_id": "t1", "content": "found"}


@pytest.fixture
def cm(store: Store) -> ContextManager:
    return manager(store)


# --- opening --------------------------------------------------------------------------------------------------------


def test_open_owns_its_store(tmp_path: Path) -> None:
    with ContextManager.open(tmp_path / "store", strategy=Tiny(), durability="relaxed") as cm:
        talk(cm, "hello")
        assert shown(cm) == ["hello"]
    with pytest.raises(InvalidOperation, match="closed"):
        cm.messages()
    cm.close()
    with ContextManager.open(tmp_path / "store", strategy=Tiny()) as again:
        assert shown(again) == ["hello"]


def test_a_store_that_was_given_stays_open(store: Store) -> None:
    with manager(store) as cm:
        talk(cm, "hello")
    assert store.branch().seq == 1


def test_what_makes_no_manager_is_refused(store: Store, tmp_path: Path) -> None:
    for options in (
        {"isolate": True},
        {"isolate": True, "namespace": "context"},
        {"namespace": "a//b"},
        {"branch": "nowhere"},
        {"strategy": Tiny},
        {"strategy": object()},
        {"summarizer": 3},
        {"patience": Patience(attempts=0)},
        {"patience": Patience(timeout=-1)},
    ):
        with pytest.raises(ChronicleError):
            manager(store, **options)
    with pytest.raises(ChronicleError):
        ContextManager.open(tmp_path / "other", strategy=object())


def test_a_strategy_does_not_take_the_name_of_another_slot(store: Store) -> None:
    for name in ("messages", "memory", "log", "a/b", ""):
        strategy = Tiny()
        strategy.name = name
        with pytest.raises((InvalidOperation, InvalidName)):
            manager(store, strategy=strategy)


# --- compiling ------------------------------------------------------------------------------------------------------


def test_compile_gives_messages_tokens_and_both_forms(cm: ContextManager) -> None:
    cm.add_message("System", "Be brief.")
    first = cm.add_message("User", "hello there")
    cm.add_message("Claude", "hi")
    compiled = cm.compile()
    assert compiled.system == "Be brief."
    assert [(m.participant, m.role, m.id == first.id) for m in compiled.messages] == [
        ("User", "user", True),
        ("Claude", "assistant", False),
    ]
    assert compiled.tokens == 5
    assert compiled.to_anthropic()["system"] == "Be brief."
    assert compiled.to_openai()[0] == {"role": "system", "content": "Be brief."}
    assert compiled.text == "system: Be brief.\n\nUser: hello there\n\nClaude: hi"


def test_compile_writes_nothing(store: Store, cm: ContextManager) -> None:
    talk(cm, *"abcdefgh")
    cm.drain()
    before = store.stats(), store.branch().head
    assert cm.compile() == cm.compile()
    cm.pending(), cm.render_stats(), cm.stats(), cm.search()
    assert (store.stats(), store.branch().head) == before


@pytest.mark.parametrize("said", [0, 3])
@pytest.mark.parametrize("strategy", [Passthrough(), SlidingWindow(), Autobiographical(), Knowledge()])
def test_system_messages_that_exceed_the_budget_are_refused(store: Store, strategy: Any, said: int) -> None:
    cm = manager(store, strategy=strategy)
    cm.add_message("System", "be kind " * 40)
    talk(cm, *["hello"] * said)
    with pytest.raises(BudgetTooSmall, match=r"system messages and injections take 81 tokens.* leaves 50 for all"):
        cm.compile(Budget(60, 10), [Injection("x", "system", "now")])


@pytest.mark.parametrize("said", [0, 3])
@pytest.mark.parametrize("kind", [Autobiographical, Knowledge])
def test_a_budget_that_is_not_enforced_refuses_nothing_and_says_how_much_it_is_over(
    store: Store, kind: Any, said: int
) -> None:
    cm = manager(store, strategy=kind(enforce_budget=False))
    cm.add_message("System", "be kind " * 40)
    talk(cm, *["hello"] * said)
    compiled = cm.compile(Budget(60, 10), [Injection("x", "system", "now"), Injection("x", "after_user", "then")])
    assert len(compiled.messages) == said + 1
    assert compiled.tokens == 82 + said
    assert compiled.stats.over_budget == compiled.tokens - 50
    stats = cm.render_stats(Budget(60, 10))
    assert stats is not None
    assert stats.over_budget == 80 + said - 50


def test_a_budget_that_leaves_nothing_is_refused(cm: ContextManager) -> None:
    talk(cm, "hello")
    with pytest.raises(InvalidOperation, match="reserve"):
        cm.compile(Budget(max_tokens=100, reserve_for_response=100))
    with pytest.raises(InvalidOperation, match="max_tokens"):
        cm.compile(Budget(max_tokens=-1))
    for strategy in (Tiny(), Passthrough(), Autobiographical(enforce_budget=False)):
        cm.set_strategy(strategy)
        with pytest.raises(InvalidOperation, match="leaves nothing beside the reserve"):
            cm.render_stats(Budget(100, 200))
    cm.set_strategy(Tiny())
    cm.add_message("System", "one two three four")
    with pytest.raises(BudgetTooSmall, match="take 4 tokens"):
        cm.compile(Budget(max_tokens=3, reserve_for_response=0))


def test_media_come_back_whole_in_what_is_compiled(cm: ContextManager) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "cGl4ZWxz"}}
    cm.add_message("User", ["look", image])
    assert cm.compile().to_anthropic()["messages"][0]["content"][1] == image


# --- injections -----------------------------------------------------------------------------------------------------


def test_injections_stand_around_the_last_user_message_in_their_order(cm: ContextManager) -> None:
    talk(cm, "question")
    cm.add_message("Claude", [CALL])
    cm.add_message("User", [ANSWER])
    injections = [
        Injection("rag", "after_user", "after"),
        Injection("rag", "before_user", "before 1"),
        Injection("clock", "before_user", "before 2", {"why": "time"}),
        Injection("rules", "system", "rule"),
    ]
    compiled = cm.compile(injections=injections)
    assert [m.participant for m in compiled.messages] == [
        "injection:rag", "injection:clock", "User", "injection:rag", "Claude", "User",
    ]  # fmt: skip
    assert compiled.messages[1].metadata == {"why": "time"}
    assert compiled.system == "rule"
    assert compiled.tokens == cm.compile().tokens + 6


def test_without_a_user_message_injections_are_appended_not_lost(cm: ContextManager) -> None:
    cm.add_message("Claude", "hi")
    injections = [Injection("a", "after_user", "x"), Injection("b", "before_user", "y")]
    assert shown(cm, injections=injections) == ["hi", "x", "y"]


# --- branches -------------------------------------------------------------------------------------------------------


def test_a_fork_ends_with_the_message_it_was_made_at(cm: ContextManager) -> None:
    messages = talk(cm, "a", "b", "c", "d")
    info = cm.fork(at=messages[1].id)
    assert (info.name, info.parent, info.seq) == ("main-2", "main", 2)
    assert cm.branch == "main"
    cm.switch("main-2")
    assert shown(cm) == ["a", "b"]
    cm.add_message("User", "other")
    assert shown(cm) == ["a", "b", "other"]
    cm.switch("main")
    assert shown(cm) == ["a", "b", "c", "d"]
    assert [info.name for info in cm.branches()] == ["main", "main-2"]


def test_generated_names_are_readable_and_new(cm: ContextManager) -> None:
    talk(cm, "a")
    assert [cm.fork().name for _ in range(2)] == ["main-2", "main-3"]
    cm.switch("main-2")
    assert cm.fork().name == "main-4"
    assert cm.fork("idea").name == "idea"
    cm.switch("idea")
    assert cm.fork().name == "idea-2"
    with pytest.raises(BranchExists):
        cm.fork("idea")
    cm.store.delete_branch("main-3")
    assert cm.fork("x" * 255).name == "x" * 255
    cm.switch("x" * 255)
    assert cm.fork().name == "x" * 253 + "-2"


def test_a_generated_name_is_not_that_of_a_branch_that_can_be_restored(cm: ContextManager) -> None:
    talk(cm, "a")
    assert cm.fork().name == "main-2"
    cm.store.delete_branch("main-2")
    assert cm.fork().name == "main-3"
    cm.store.restore_branch("main-2")
    assert [info.name for info in cm.branches()] == ["main", "main-2", "main-3"]


def test_a_fork_at_what_is_no_message_is_refused(cm: ContextManager) -> None:
    (message,) = talk(cm, "a")
    pin = cm.pin(message.id)
    with pytest.raises(
        InvalidOperation, match=r"no message but of type 'pin'; fork at a message, or at its sequence, 2"
    ):
        cm.fork(at=pin)
    assert cm.fork(at=2).seq == 2


def test_switching_to_what_is_not_there_stays_where_it_was(cm: ContextManager) -> None:
    with pytest.raises(NotFound):
        cm.switch("nowhere")
    assert cm.branch == "main"
    with pytest.raises(NotFound):
        cm.fork(at="ab" * 32)


def test_undo_rewinds_to_before_a_turn(cm: ContextManager) -> None:
    talk(cm, "first", "answer")
    cm.add_message("User", "second")
    cm.add_message("Claude", [CALL])
    cm.add_message("User", [ANSWER])
    cm.add_message("Claude", "done")
    cm.undo()
    assert shown(cm) == ["first", "answer"]
    cm.undo()
    assert shown(cm) == []
    with pytest.raises(NotFound, match="0 turns"):
        cm.undo()


def test_undo_takes_several_turns_or_none(cm: ContextManager) -> None:
    talk(cm, "a", "b", "c", "d", "e")
    with pytest.raises(NotFound, match="3 turns"):
        cm.undo(4)
    for wrong in (0, -1, True, "1"):
        with pytest.raises(InvalidOperation):
            cm.undo(wrong)  # type: ignore[arg-type]
    assert len(cm.messages()) == 5
    cm.undo(2)
    assert shown(cm) == ["a", "b"]


def test_undo_takes_a_change_of_topic_back_with_the_turn_before_it(cm: ContextManager) -> None:
    talk(cm, "a", "b", "c", "d")
    cm.reset_head("something else")
    cm.undo()
    assert shown(cm) == ["a", "b"]


def test_two_managers_stand_on_branches_of_their_own(store: Store, cm: ContextManager) -> None:
    talk(cm, "a")
    cm.fork("other")
    second = manager(store, branch="other")
    second.add_message("User", "b")
    assert (shown(cm), shown(second)) == (["a"], ["a", "b"])


# --- namespaces -----------------------------------------------------------------------------------------------------


def test_the_namespace_of_the_agent_without_one_cannot_be_asked_for(store: Store) -> None:
    for isolate in (False, True):
        with pytest.raises(InvalidOperation, match="'context' is that of the agent without one"):
            manager(store, namespace="context", isolate=isolate)


def test_an_agent_is_isolated_or_not_for_good(store: Store) -> None:
    manager(store, namespace="lena", isolate=True)
    with pytest.raises(InvalidOperation, match=r"'lena' on this store has its own messages, for good: .*isolate=True"):
        manager(store, namespace="lena")
    manager(store, namespace="max")
    with pytest.raises(
        InvalidOperation, match=r"'max' on this store has the shared messages, for good: .*isolate=False"
    ):
        manager(store, namespace="max", isolate=True)


def test_agents_share_messages_and_nothing_else(store: Store) -> None:
    lena, max_ = manager(store, namespace="agents/lena"), manager(store, namespace="agents/max")
    messages = talk(lena, *"abcd")
    assert shown(max_) == ["a", "b", "c", "d"]
    lena.pin(messages[0].id)
    lena.tick()
    lena.context_log.append("User", "note")
    assert (len(lena.pins()), len(lena.search()), len(lena.context_log)) == (1, 1, 1)
    assert (len(max_.pins()), len(max_.search()), len(max_.context_log)) == (0, 0, 0)
    assert shown(max_) == ["a", "b", "c", "d"]


def test_isolated_agents_do_not_share_messages(store: Store, cm: ContextManager) -> None:
    alone = manager(store, namespace="alone", isolate=True)
    talk(cm, "shared")
    first = talk(alone, *"abcd")[0]
    assert (shown(cm), shown(alone)) == (["shared"], ["a", "b", "c", "d"])
    alone.tick()
    assert len(alone.compile().messages) == 1
    alone.edit_message(first.id, "new")
    assert shown(alone) == ["new", "b", "c", "d"]


# --- the strategy ---------------------------------------------------------------------------------------------------


def test_pins_and_summaries_stay_when_the_configuration_changes(cm: ContextManager) -> None:
    messages = talk(cm, *"abcdefgh")
    pin = cm.pin(messages[1].id)
    assert cm.drain() == 2
    cm.set_strategy(Tiny("Another prompt."))
    assert len(cm.pending()) == 2
    assert [p.id for p in cm.pins()] == [pin]
    cm.set_strategy(Tiny())
    assert cm.pending() == []


def test_two_configurations_in_one_process_do_not_disturb_each_other(store: Store) -> None:
    one, other = manager(store), manager(store, strategy=Tiny("Another prompt."))
    talk(one, *"abcd")
    one.drain()
    assert (len(one.compile().messages), len(other.compile().messages)) == (1, 4)
    talk(one, *"efgh")
    other.drain()
    assert (len(one.pending()), len(other.pending())) == (1, 0)
    before = store.stats()
    for _ in range(3):
        one.compile(), other.compile()
    assert store.stats() == before


class Bare:
    """A strategy with no capability at all."""

    name, version, types = "bare", 1, Tiny.types
    initial, fold, plan, request, complete, render = (
        Tiny.initial, Tiny.fold, Tiny.plan, Tiny.request, Tiny.complete, Tiny.render,
    )  # fmt: skip
    events, state_type = Tiny.events, Tiny.state_type
    prompt, held = "Sum up.", False
    _chunks, _raw, _standing = Tiny._chunks, Tiny._raw, Tiny._standing


def test_what_a_strategy_cannot_do_is_refused_by_name(store: Store) -> None:
    cm = manager(store, strategy=Bare())
    id = talk(cm, "a")[0].id
    for call in (
        lambda: cm.pin(id),
        lambda: cm.mark_document(id),
        lambda: cm.unpin(id),
        cm.pins,
        cm.search,
        lambda: cm.summary("L1-0"),
        lambda: cm.reset_head("x"),
    ):
        with pytest.raises(InvalidOperation, match=r"'bare'.*(Pinnable|Searchable|Resettable)"):
            call()
    assert cm.render_stats() is None
    assert cm.stats().messages == 1


def test_stats_say_what_there_is(cm: ContextManager) -> None:
    messages = talk(cm, "a b", "c", "d", "e", "f")
    cm.edit_message(messages[4].id, "f g")
    cm.drain()
    cm.pin(messages[0].id)
    cm.context_log.append("User", "note")
    stats = cm.stats()
    assert (stats.branch, stats.seq, stats.messages, stats.tokens, stats.edited) == ("main", 9, 5, 7, 1)
    assert (stats.strategy, stats.pending, stats.pins, stats.summaries, stats.log) == ("tiny", 0, 1, {1: 1}, 1)


# --- restarts, read-only, another process ---------------------------------------------------------------------------


def test_a_restart_changes_nothing(opener: Opener) -> None:
    store = opener()
    cm = manager(store)
    messages = talk(cm, *"abcdefghi")
    cm.pin(messages[1].id)
    cm.drain()
    before = cm.compile()
    store.close()
    again = manager(opener())
    assert again.compile() == before
    for slot in ("context/messages", "context/memory", "context/log", "context/tiny"):
        assert again.store.branch().replay(slot).equal


def test_a_read_only_store_compiles_also_for_a_strategy_it_never_had(opener: Opener) -> None:
    store = opener()
    cm = manager(store)
    talk(cm, *"abcdefghi")
    cm.drain()
    expected = cm.compile()
    store.close()
    reading = opener(readonly=True)
    assert manager(reading).compile() == expected
    other = manager(reading, strategy=Tiny("Another prompt."))
    assert len(other.compile().messages) == 9
    assert len(other.pending()) == 2
    other.switch("main")
    with pytest.raises(ReadOnly):
        other.add_message("User", "x")
    with pytest.raises(ReadOnly):
        other.tick()


def test_another_process_compiles_the_same(opener: Opener, tmp_path: Path) -> None:
    store = opener()
    cm = manager(store, tokenizer=None)
    talk(cm, *"abcdefghi")
    cm.drain()
    expected = repr(cm.compile().to_anthropic())
    store.close()
    code = (
        "import sys; sys.path.insert(0, sys.argv[2])\n"
        "from tiny_strategy import Tiny\n"
        "from chronicle_py.context import ContextManager\n"
        "with ContextManager.open(sys.argv[1], strategy=Tiny()) as cm:\n"
        "    print(repr(cm.compile().to_anthropic()))\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "store"), str(Path(__file__).parent)]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == expected


def test_nothing_compiles_to_nothing(cm: ContextManager) -> None:
    compiled = cm.compile()
    assert (compiled.messages, compiled.system, compiled.tokens) == ([], "", 0)
    assert compiled.to_anthropic() == {"system": "", "messages": []}
    assert compiled.to_openai() == []


def test_a_store_of_an_older_version_is_read_without_being_written(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opener() as store, monkeypatch.context() as older:
        older.setattr(MessageIndex, "version", 1)
        older.setattr(MessageIndex, "fold", lambda self, state, event: msgspec.structs.replace(state, edited=99))
        cm = manager(store, strategy=Passthrough())
        for n in range(200):  # enough for checkpoints
            cm.add_message(("Alice", "Bob")[n % 2], "hello")
        assert cm.stats().edited == 99
    with opener(readonly=True) as store:
        reading = manager(store, strategy=Autobiographical())
        assert reading.stats().messages == 200
        assert reading.stats().edited == 0
        assert reading.compile().tokens == 400
    with opener() as store:
        assert manager(store).stats().messages == 200
        assert store.branch("main").replay("context/messages").equal
