"""Exports of stores with erased events: ids stay, the payload does not come back."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Opener

from chronicle_py import BlobRef, Branch, Erased, Store
from chronicle_py.exchange import MalformedFile, export_lines, import_file


def exported(store: Store, path: Path, branches: list[str] | None = None) -> Path:
    path.write_bytes(b"".join(export_lines(store, branches)))
    return path


@pytest.mark.parametrize("branches", [None, ["main"]])
def test_an_export_carries_what_is_left(
    store: Store, main: Branch, opener: Opener, tmp_path: Path, branches: list[str] | None
) -> None:
    store.register_state("log", kind="append_log")
    log = main.state("log")
    start = log.set(["a", "Ottilie", "c"])
    edit = log.edit(0, "Quandt")
    blob = store.put_blob(b"Ottilie's picture", "image/png")
    note = main.append("note", BlobRef(blob), caused_by=(start.id,))
    log.append("d")
    store.erase([start.id, edit.id, note.id], "asked for")
    file = exported(store, tmp_path / "export", branches)
    assert b"Ottilie" not in file.read_bytes()
    with opener(tmp_path / "copy") as copy:
        found = import_file(copy, file)
        assert (found.events, found.faults) == (4, [])
        assert copy.branch().head == main.head
        assert [e.erased for e in copy.branch().events()] == [e.erased for e in main.events()]
        assert list(copy.branch().state("log")) == [
            edit.erased or store.event(edit.id).erased, *[store.event(start.id).erased] * 2, "d",
        ]  # fmt: skip
        assert copy.branch().state("log").hash == log.hash
        assert copy.verify(deep=True).ok
        assert (
            exported(copy, tmp_path / "again", branches).read_bytes().split(b"\n")[1:]
            == file.read_bytes().split(b"\n")[1:]
        )
        assert import_file(copy, file).events == 0


def test_an_import_does_not_bring_an_erased_payload_back(store: Store, main: Branch, tmp_path: Path) -> None:
    event = main.append("note", "Ottilie")
    main.append("note", 2)
    file = exported(store, tmp_path / "export")
    store.erase(event.id, "asked for")
    found = import_file(store, file)
    assert found.events == 0
    assert isinstance(main.event(1).payload, Erased)


def test_a_line_of_an_erased_event_that_was_changed_is_refused(
    store: Store, main: Branch, opener: Opener, tmp_path: Path
) -> None:
    event = main.append("note", "Ottilie")
    store.erase(event.id, "asked for")
    text = exported(store, tmp_path / "export").read_bytes()
    digest = event_digest(text)
    for old, new in ((digest, digest[:-2] + b"00"), (digest, digest[:-2]), (b'"asked for"', b'""')):
        (tmp_path / "bad").write_bytes(text.replace(old, new))
        with opener(tmp_path / f"copy{len(new)}") as copy, pytest.raises(MalformedFile):
            import_file(copy, tmp_path / "bad")


def event_digest(text: bytes) -> bytes:
    at = text.index(b'"digest":"') + len(b'"digest":"')
    return text[at : at + 64]
