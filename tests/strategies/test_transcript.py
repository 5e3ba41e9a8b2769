"""The transcript: rows, pairs and windows after any changes, against plain lists."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from programs import run, steps
from talk import Talk

from chronicle_py.context.payloads import Call
from chronicle_py.strategies import Passthrough
from chronicle_py.strategies.pairs import follow
from chronicle_py.strategies.transcript import Row, Transcript
from chronicle_py.strategies.windows import head_end, recent_start, step_of, stepped

_only_messages = ("say", "says", "call", "answer", "pair", "image", "system", "edit", "edit call", "remove")


def units_of(rows: list[Row]) -> list[tuple[int, int]]:
    """(start, stop) of pairs and single messages, by the rule applied from the first row on."""
    open: tuple[Call, ...] = ()
    found: list[tuple[int, int]] = []
    for index, row in enumerate(rows):
        joined, open = follow(open, row.calls, row.answers)
        found = [*found[:-1], (found[-1][0], index + 1)] if joined else [*found, (index, index + 1)]
    return found


def made(program: list[Any]) -> tuple[Talk, Transcript]:
    talk = Talk(Passthrough())
    run(talk, [step for step in program if step[0] in _only_messages])
    return talk, talk.state


@given(steps)
def test_rows_and_pairs_follow_every_change(program: list[Any]) -> None:
    talk, transcript = made(program)
    rows = list(transcript.rows)
    standing = [message for _, message in sorted(talk.viewed.items()) if message.role != "system"]
    assert [(row.seq, row.id, row.tokens, row.text) for row in rows] == [
        (message.seq, message.id, message.tokens, message.text_tokens) for message in standing
    ]
    assert [row.edit.hex() or None for row in rows] == [message.edited for message in standing]
    units = units_of(rows)
    assert [(start, start + len(unit)) for start, unit in transcript.units(0, len(rows))] == units
    assert [(start, start + len(unit)) for start, unit in transcript.units_back(0, len(rows))] == units[::-1]
    for start, stop in units:
        for index in range(start, stop):
            assert (transcript.unit_start(index), transcript.unit_end(index)) == (start, stop)
    assert transcript.newest() == (units[-1][0] if units else 0)
    for seq in range(talk.seq + 2):
        assert transcript.index_of(seq) == sum(row.seq < seq for row in rows)


@given(steps, st.integers(0, 300), st.integers(0, 300))
def test_windows_take_whole_pairs(program: list[Any], tokens: int, start: int) -> None:
    _, transcript = made(program)
    rows = list(transcript.rows)
    units = units_of(rows)
    weight = [row.tokens for row in rows]
    fitting = [start for start, _ in units if sum(weight[start:]) <= tokens]
    if units:
        assert recent_start(transcript, tokens) == min([*fitting, units[-1][0]])
    begin = units[start % len(units)][0] if units else 0
    ends = [stop for _, stop in units if stop > begin and sum(weight[begin:stop]) <= tokens]
    if tokens:
        assert head_end(transcript, begin, tokens) == max([*ends, begin])


@given(st.lists(st.integers(0, 40), min_size=1, max_size=60), st.integers(40, 200))
def test_what_is_shown_begins_in_steps(sizes: list[int], window: int) -> None:
    """Message by message, the beginning moves after a step's worth of tokens, and never more than fits is shown."""
    talk = Talk(Passthrough())
    step = step_of(window, window)
    moves: list[int] = []
    begin = 0
    for size in sizes:
        talk.say("User", "w " * size)
        transcript = talk.state
        fits = recent_start(transcript, window)
        new = stepped(transcript, fits, step) if fits else 0
        assert new >= fits
        assert transcript.total() - transcript.offset(new) <= window
        assert new >= begin
        if new != begin:
            moves.append(transcript.total())
            begin = new
    for before, after in pairwise(moves):
        assert after - before >= step - 80  # a message at each end may be of the other side


def test_a_step_is_a_quarter_and_stays_while_the_room_changes_a_little() -> None:
    assert step_of(96_000, 96_000) == step_of(96_000, 80_000) == 24_000
    assert step_of(96_000, 60_000) == 12_000
    assert step_of(0, 0) == 1
