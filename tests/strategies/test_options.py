"""Options: defaults, what is refused, and what a fold depends on; pins that are refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from test_chunks import talk_with

from chronicle_py.context.payloads import PinPayload
from chronicle_py.errors import InvalidOperation
from chronicle_py.strategies import Autobiographical, Budget, Knowledge


def test_the_defaults_are_those_of_the_specification() -> None:
    found = {
        name: value
        for name, value in msgspec.structs.asdict(Autobiographical()).items()
        if not name.endswith("_prompt")
    }
    assert found == {
        "head_window_tokens": 0, "recent_window_tokens": 30_000, "target_chunk_tokens": 3_000,
        "attachments_ignore_size": True, "hierarchical": True, "merge_threshold": 6, "summary_target_tokens": 2_000,
        "l1_budget_tokens": 30_000, "l2_budget_tokens": 30_000, "l3_budget_tokens": 30_000,
        "positioned_recall_pairs": True, "recall_header_template": "[Recall {id}]",
        "summary_context_label": "What do you remember from earlier?", "summary_participant": "Claude",
        "tool_result_max_last_n": None, "tool_use_input_max_tokens": 0, "max_speculative_l1s": None,
        "enforce_budget": True, "max_message_tokens": 0, "compression_model": "", "auto_tick": False,
    }  # fmt: skip
    assert repr(Autobiographical(enforce_budget=False)) == "Autobiographical(enforce_budget=False)"


@pytest.mark.parametrize(
    "options",
    [
        {"head_window_tokens": -1},
        {"recent_window_tokens": 1.5},
        {"target_chunk_tokens": 0},
        {"summary_target_tokens": True},
        {"merge_threshold": 1},
        {"max_speculative_l1s": -1},
        {"hierarchical": 1},
        {"summary_participant": None},
        {"tool_result_max_last_n": -1},
        {"tool_result_max_last_n": {"bash": "2"}},
        {"recall_header_template": "{nothing}"},
        {"chunk_prompt": "{target"},
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOperation, match=f"Autobiographical: {next(iter(options))} is .*, not "):
        Autobiographical(**options)


def test_the_fingerprint_is_of_what_the_fold_depends_on() -> None:
    plain = Autobiographical().fingerprint
    assert Autobiographical(l1_budget_tokens=1, enforce_budget=False, summary_participant="Me").fingerprint == plain
    for options in (
        {"target_chunk_tokens": 1},
        {"head_window_tokens": 1},
        {"recent_window_tokens": 1},
        {"hierarchical": False},
        {"merge_threshold": 2},
        {"tool_result_max_last_n": 3},
        {"attachments_ignore_size": False},
    ):
        assert Autobiographical(**options).fingerprint != plain
    assert Knowledge(lesson_tools=("learn",)).fingerprint != Knowledge().fingerprint


def test_a_pin_must_run_over_messages_that_stand_from_the_earlier_to_the_later() -> None:
    talk = talk_with()
    talk.says(4)
    talk.remove(2)
    check = talk.strategy.check_pin
    check(talk.state, PinPayload(first="a", first_seq=1, last="b", last_seq=4))
    with pytest.raises(InvalidOperation, match="the first message of the range to protect, a at sequence 2, is not"):
        check(talk.state, PinPayload(first="a", first_seq=2, last="b", last_seq=4))
    with pytest.raises(InvalidOperation, match="the last message"):
        check(talk.state, PinPayload(first="a", first_seq=1, last="b", last_seq=9))
    with pytest.raises(InvalidOperation, match="runs backward"):
        check(talk.state, PinPayload(first="a", first_seq=4, last="b", last_seq=1))


def test_pins_are_listed_as_they_were_made_until_they_are_taken_back() -> None:
    talk = talk_with()
    talk.says(6)
    first = talk.pin(2, 3, name="plan")
    second = talk.pin(5, kind="document")
    found = talk.strategy.pins(talk.state)
    assert [(pin.id, pin.first_seq, pin.last_seq, pin.kind, pin.name) for pin in found] == [
        (first.id, 2, 3, "pin", "plan"), (second.id, 5, 5, "document", None),
    ]  # fmt: skip
    assert found[0].created == first.time
    talk.unpin(first)
    talk.unpin(first)
    assert [pin.id for pin in talk.strategy.pins(talk.state)] == [second.id]


@pytest.mark.parametrize(("tokens", "reserve"), [(-1, 0), (10, -1), (1.5, 0), (10, 10), (4, 10), (True, 0)])
def test_a_budget_that_leaves_nothing_is_refused(tokens: Any, reserve: Any) -> None:
    with pytest.raises(InvalidOperation, match="budget"):
        Budget(tokens, reserve).check()
