"""Base64 media: blobs in the store, base64 for readers."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronicle_py import BlobRef, Store
from chronicle_py.context.blocks import Media, Text, ToolResult, parse
from chronicle_py.context.media import Upload, decoded, restored, stored
from chronicle_py.errors import ChronicleError, InvalidOperation, NotFound

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


def image(data: bytes = PNG, **more: Any) -> dict[str, Any]:
    return {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": b64encode(data).decode()},
        **more,
    }


def round_trip(store: Store, content: object) -> Any:
    blocks, uploads = stored(parse(content))
    for upload in uploads:
        store.put_blob(*upload)
    return restored(blocks, store)


def test_base64_becomes_a_reference_to_a_blob() -> None:
    blocks, uploads = stored(parse([image(title="a chart")]))
    [block] = blocks
    assert isinstance(block, Media)
    assert uploads == [Upload(PNG, "image/png")]
    assert block.source["type"] == "blob"
    assert block.source["media_type"] == "image/png"
    assert isinstance(block.source["blob"], BlobRef)
    assert block.extra == {"title": "a chart"}
    assert "data" not in block.source


def test_reading_gives_the_original_back(store: Store) -> None:
    content = [
        image(),
        {"type": "text", "text": "between"},
        {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "shot"}, image(b"other")]},
        {"type": "document", "source": {"type": "content", "content": [image(b"inside")]}, "title": "x"},
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}},
        {"type": "audio", "source": {"type": "base64", "data": "AAAA"}},
        {"type": "video", "source": {"type": "url", "url": "https://x"}},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "plain words"}},
    ]
    assert round_trip(store, content) == parse(content)


def test_the_same_bytes_are_one_blob(store: Store) -> None:
    before = store.stats().objects
    round_trip(store, [image(), image()])
    round_trip(store, [image()])
    assert store.stats().objects == before + 1


def test_text_alone_is_passed_through_untouched() -> None:
    blocks = [Text("a"), ToolResult("t", "x")]
    assert stored(blocks)[0] is blocks  # type: ignore[arg-type]


def test_line_breaks_in_base64_are_accepted(store: Store) -> None:
    wrapped = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD\nREVG\r\n"}}
    [block] = round_trip(store, [wrapped])
    assert block.source["data"] == "QUJDREVG"


@pytest.mark.parametrize("bad", ["no base64!", "QUJ", "QUJD=", "QU=JD", "QUI=QUI=", "-_-_", "naïve===", "ＱＵＪＤ"])
def test_base64_that_is_not_is_refused(bad: str) -> None:
    with pytest.raises(InvalidOperation, match="is no base64"):
        stored(parse([{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": bad}}]))


@pytest.mark.parametrize(
    "source", [{"data": 5}, {}, {"data": "QUJD", "media_type": 5}, {"data": "QUJD", "media_type": "ü/x"}]
)
def test_a_source_of_the_wrong_shape_is_refused(source: dict[str, Any]) -> None:
    with pytest.raises(ChronicleError):
        stored(parse([{"type": "image", "source": {"type": "base64", **source}}]))


def test_a_reference_to_a_blob_that_is_not_there_says_so(store: Store) -> None:
    missing = Media("image", {"type": "blob", "media_type": "image/png", "blob": BlobRef("ab" * 32)})
    with pytest.raises(NotFound, match="there is no blob"):
        restored([missing], store)


@given(st.binary(max_size=300))
def test_any_bytes_survive(data: bytes) -> None:
    assert decoded(b64encode(data).decode()) == data
