"""Importing a file of any form that is known here, in one transaction.

The form is told from the contents. An export brings its own branches (see restoring.py). A conversation's messages are
appended to the slot `messages` of one branch, an event each.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, BinaryIO, Final

from chronicle_py.errors import ChronicleError, InvalidOperation, NotFound, StateExists
from chronicle_py.event import encode_payload
from chronicle_py.exchange.faults import Fault, Imported, MalformedFile
from chronicle_py.exchange.messages import Conversation, read_conversation
from chronicle_py.exchange.restoring import restore
from chronicle_py.names import check_branch
from chronicle_py.store import Store

Progress = Callable[[int, int], None]
SLOT: Final = "messages"
_EXPORT_START: Final = b'{"record"'
_EVERY = 256  # lines or messages between two reports of progress


def import_file(
    store: Store,
    source: str | os.PathLike[str] | BinaryIO,
    *,
    branch: str | None = None,
    prefix: str = "",
    skip_bad: bool = False,
    progress: Progress | None = None,
) -> Imported:
    """Imports an export, a JSON list of chat messages or a SWE-agent trajectory. All of it or, on any error, nothing.

    `branch`: where messages go, default `main`. `prefix`: put before the names of an export's branches. `skip_bad`:
    leave bad records out instead of raising MalformedFile, which names the place of each. `progress(done, total)`
    counts bytes, or messages. An export that was imported before adds nothing; messages are appended each time. Costs
    about 15 µs an event.
    """
    if isinstance(source, str | os.PathLike):
        try:
            with open(source, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                return _import(store, file, os.fspath(source), size, branch, prefix, skip_bad, progress)
        except OSError as error:
            raise NotFound(f"{os.fspath(source)} cannot be read: {error.strerror or error}") from None
    return _import(store, source, "the input", 0, branch, prefix, skip_bad, progress)


def _import(
    store: Store,
    file: BinaryIO,
    name: str,
    size: int,
    branch: str | None,
    prefix: str,
    skip_bad: bool,
    progress: Progress | None,
) -> Imported:
    first, second = file.readline(), file.readline()
    if first.startswith(_EXPORT_START) or second.startswith(_EXPORT_START):
        if branch is not None:
            raise InvalidOperation(
                f"{name} is an export and brings its own branches, so that no branch can be chosen; give them other "
                "names with a prefix (--prefix)"
            )
        if prefix:
            check_branch(prefix + "x")
        numbered = _counted(chain((first, second), file), size, progress)
        return restore(store, name, numbered, prefix, skip_bad)
    if prefix:
        raise InvalidOperation(
            f"{name} is no export and brings no branches that a prefix could be for; choose a branch"
        )
    conversation = _conversation(name, first + second + file.read())
    return _append(store, name, conversation, branch or "main", skip_bad, progress)


def _counted(lines: Iterator[bytes], size: int, progress: Progress | None) -> Iterator[tuple[int, bytes]]:
    done = 0
    for number, line in enumerate(lines, 1):
        if line:
            yield number, line
        done += len(line)
        if progress is not None and number % _EVERY == 0:
            progress(done, max(size, done))
    if progress is not None:
        progress(done, max(size, done))


def _conversation(name: str, data: bytes) -> Conversation:
    try:
        document: Any = json.loads(data.decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        raise MalformedFile(name, [Fault(f"line {error.lineno}", f"is no JSON: {error.msg}")]) from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise MalformedFile(name, [Fault(f"line {line}", "holds bytes that are no UTF-8")]) from None
    except RecursionError:
        raise MalformedFile(name, [Fault("the file", "is nested too deeply")]) from None
    found = read_conversation(document)
    if found is None:
        raise InvalidOperation(
            f"{name} is of no form that is read here: an export of chronicle, a JSON list of chat messages (or an "
            'object with "messages"), or a SWE-agent trajectory (an object with "history")'
        )
    return found


def _append(
    store: Store, name: str, conversation: Conversation, branch: str, skip_bad: bool, progress: Progress | None
) -> Imported:
    items: list[dict[str, Any]] = []
    faults = list(conversation.faults)
    for where, message in conversation.messages:
        try:
            encode_payload(message)
            items.append(message)
        except ChronicleError as error:
            faults.append(Fault(where, str(error)))
    if faults and not skip_bad:
        raise MalformedFile(name, faults)
    slots = {slot.id: slot.kind for slot in store.slots()}
    if slots.get(SLOT, "append_log") != "append_log":
        raise StateExists(
            f"messages go to the append_log slot {SLOT!r}, and in this store that is a slot of kind {slots[SLOT]!r}"
        )
    with store.transaction():
        target = store.branch(branch)
        if SLOT not in slots:
            store.register_state(SLOT, kind="append_log")
        view = target.state(SLOT)
        for done, item in enumerate(items, 1):
            view.append(item)
            if progress is not None and done % _EVERY == 0:
                progress(done, len(items))
    if progress is not None:
        progress(len(items), len(items))
    new = int(SLOT not in slots)
    return Imported(conversation.form, len(items), 0, new, 0, {branch: "moved" if items else "same"}, faults)
