"""Files as JSON: one document, or a record a line. What does not parse is left out, with its place. Pure.

A list that was cut short keeps the items before the cut. Bytes that are no UTF-8 are replaced, which is a fault too.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from chronicle_py.exchange.faults import Fault, MalformedFile

_SPACE = " \t\r\n,"


class Placed(NamedTuple):
    """A value with its place in the file."""

    where: str
    value: Any


class Document(NamedTuple):
    """A parsed file: `value` where it is one JSON document, else `records`."""

    value: Any
    records: list[Placed] | None
    faults: list[Fault]


def parsed(name: str, data: bytes) -> Document:
    """MalformedFile when there is nothing in it that can be read."""
    faults: list[Fault] = []
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        faults.append(Fault(f"line {line}", "holds bytes that are no UTF-8; they were replaced"))
        text = data.decode("utf-8-sig", errors="replace")
    try:
        return Document(json.loads(text), None, faults)
    except json.JSONDecodeError as error:
        wrong = error
    except RecursionError:
        raise MalformedFile(name, [Fault("the file", "is nested too deeply")]) from None
    records, bad = _lines(text)
    if any(isinstance(record.value, dict | list) for record in records):
        return Document(None, records, faults + bad)
    items = _items(text)
    if items:
        cut = Fault(f"line {wrong.lineno}", f"is no JSON: {wrong.msg}; what comes after is left out")
        return Document(items, None, [*faults, cut])
    raise MalformedFile(name, [*faults, Fault(f"line {wrong.lineno}", f"is no JSON: {wrong.msg}")])


def _lines(text: str) -> tuple[list[Placed], list[Fault]]:
    records: list[Placed] = []
    bad: list[Fault] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            records.append(Placed(f"line {number}", json.loads(line)))
        except json.JSONDecodeError as error:
            bad.append(Fault(f"line {number}", f"is no JSON: {error.msg}"))
        except RecursionError:
            bad.append(Fault(f"line {number}", "is nested too deeply"))
    return records, bad


def _items(text: str) -> list[Any]:
    """The whole items at the start of a list that does not end, or breaks off somewhere."""
    at = len(text) - len(text.lstrip())
    if text[at : at + 1] != "[":
        return []
    found: list[Any] = []
    decode = json.JSONDecoder().raw_decode
    at += 1
    while True:
        while at < len(text) and text[at] in _SPACE:
            at += 1
        try:
            value, at = decode(text, at)
        except (json.JSONDecodeError, RecursionError):
            return found
        found.append(value)
