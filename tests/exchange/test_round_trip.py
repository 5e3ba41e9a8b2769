"""Export and import of random stores: the same comes out, and nothing else."""

from __future__ import annotations

import json
from typing import Any

from conftest import Clock
from exchange_stores import (
    Lines,
    fresh,
    payloads,
    picture,
    plain,
    play,
    put_in,
    register,
    size_of,
    steps,
)
from hypothesis import given
from hypothesis import strategies as st

from chronicle_py import (
    Store,
)
from chronicle_py.event import encode_payload
from chronicle_py.exchange import MalformedFile, export_lines, from_json
from chronicle_py.exchange.json_form import faithful


@given(steps)
def test_an_imported_export_has_the_same_ids_heads_slots_and_state_hashes(script: list[Any]) -> None:
    with fresh() as source, fresh(clock=Clock(5)) as target:
        register(source)
        play(source, script)
        lines = list(export_lines(source))
        put_in(target, lines)
        assert picture(target) == picture(source)
        assert target.verify(deep=True).problems == []
        assert list(export_lines(target))[1:] == lines[1:] or source.branch().seq == 0


@given(steps)
def test_importing_an_export_twice_adds_nothing(script: list[Any]) -> None:
    with fresh() as source, fresh() as target:
        register(source)
        play(source, script)
        lines = list(export_lines(source))
        first = put_in(target, lines)
        before = size_of(target), picture(target)
        second = put_in(target, lines)
        assert (size_of(target), picture(target)) == before
        assert (second.events, second.known) == (0, first.events)
        assert set(second.branches.values()) == {"same"}
        assert put_in(source, lines).events == 0


@given(steps, steps)
def test_a_later_export_goes_on_where_the_earlier_one_ended(first: list[Any], second: list[Any]) -> None:
    with fresh() as source, fresh() as target:
        register(source)
        play(source, first, forward_only=True)
        put_in(target, list(export_lines(source)))
        play(source, second, forward_only=True)
        put_in(target, list(export_lines(source)))
        assert picture(target) == picture(source)
        assert target.verify(deep=True).problems == []
        assert size_of(target)["events"] == size_of(source)["events"]


@given(steps, steps)
def test_imported_branches_go_on_like_any_others(first: list[Any], second: list[Any]) -> None:
    with fresh() as source, fresh() as target:
        register(source)
        play(source, first)
        put_in(target, list(export_lines(source)))
        play(target, second)
        with fresh() as third:
            put_in(third, list(export_lines(target)))
            assert picture(third) == picture(target)
        assert target.verify(deep=True).problems == []


@given(steps, st.integers(0, 1000))
def test_one_branch_is_exported_with_all_that_it_stands_on(script: list[Any], number: int) -> None:
    with fresh() as source, fresh() as target:
        register(source)
        play(source, script)
        names = [info.name for info in source.branches()]
        name = names[number % len(names)]
        lines = list(export_lines(source, [name]))
        put_in(target, lines)
        assert picture(target)[name] == picture(source)[name]
        assert {info.name for info in target.branches()} == {"main", name}
        assert target.verify(deep=True).problems == []
        used = {blob for event in source.branch(name).events() for blob in event.blobs}
        assert {json.loads(line)["id"] for line in lines if line.startswith(b'{"record":"blob"')} == used


@given(steps, st.data())
def test_a_damaged_export_is_refused_with_its_place_or_means_the_same(script: list[Any], data: st.DataObject) -> None:
    with fresh() as source, fresh() as target:
        register(source)
        play(source, script)
        lines = list(export_lines(source))
        target.orphan("before")
        before = size_of(target), picture(target)
        events = [n for n, line in enumerate(lines) if line.startswith((b'{"record":"event"', b'{"record":"blob"'))]
        garble = data.draw(st.booleans(), "garble")
        if events and garble:
            number = data.draw(st.sampled_from(events), "line")
            at = data.draw(st.integers(0, len(lines[number]) - 2), "at")
            lines[number] = lines[number][:at] + data.draw(st.binary(max_size=1)) + lines[number][at + 1 :]
            place = f"line {number + 1}:"
        else:
            whole = b"".join(lines)
            whole = whole[: data.draw(st.integers(len(lines[0]), len(whole) - 2), "cut at")]
            lines, place = [whole], "end of file:"
        refusal = refusal_of(target, lines)
        if refusal:
            assert place in refusal
            assert (size_of(target), picture(target)) == before
        else:
            expected = picture(source)
            assert {name: found for name, found in picture(target).items() if name != "before"} == expected


def refusal_of(store: Store, lines: Lines) -> str:
    try:
        put_in(store, lines)
    except MalformedFile as error:
        return str(error)
    return ""


@given(payloads)
def test_a_payloads_json_is_valid_and_says_whether_it_leads_back(value: Any) -> None:
    payload = encode_payload(value)
    text, exact = faithful(payload)
    json.loads(text)
    if exact:
        assert from_json(text) == payload


@given(plain)
def test_what_json_can_say_needs_no_second_form(value: Any) -> None:
    text, exact = faithful(encode_payload(value))
    assert exact
    assert json.loads(text) == value
