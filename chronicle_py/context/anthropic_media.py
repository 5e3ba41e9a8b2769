"""Images and documents as Anthropic's Messages API takes them. Pure.

Only what the API accepts comes out: sources with something in them, of the types it reads; documents of text and
images. `media` gives None for anything else, which is then sent as text that names it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from chronicle_py.context.blocks import Media, Text
from chronicle_py.context.turns import IMAGES, media_words, parts_of, words_of

Plain = dict[str, Any]

_PDF: Final = ("application/pdf",)
_TITLE: Final = 500  # characters that a document's title may have


def media(block: Media) -> Plain | None:
    """The block as it is sent; None where the API does not take it."""
    source = _source(block)
    if source is None:
        return None
    return {"type": block.kind, "source": source, **(_fields(block.extra) if block.kind == "document" else {})}


def media_or_text(block: Media) -> Plain:
    """The block as it is sent, or text that names it."""
    return media(block) or {"type": "text", "text": media_words(block)}


def _source(block: Media) -> Plain | None:
    source = block.source
    kind, media_type, data, url = (source.get(name) for name in ("type", "media_type", "data", "url"))
    if block.kind not in ("image", "document"):
        return None
    if kind == "url" and _says(url):
        return {"type": "url", "url": url}
    if kind == "base64" and media_type in (IMAGES if block.kind == "image" else _PDF) and _says(data):
        return {"type": "base64", "media_type": media_type, "data": data}
    if block.kind == "document" and kind == "text" and _says(data):
        return {"type": "text", "media_type": "text/plain", "data": data}
    if block.kind == "document" and kind == "content":
        content = _content(source.get("content"))
        return {"type": "content", "content": content} if content else None
    return None


def _says(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _content(content: Any) -> str | Sequence[Plain] | None:
    """What stands in a document that is made of blocks: text and images, everything else as text."""
    if not isinstance(content, list):
        return content if _says(content) else None
    found = []
    for part in parts_of(content):
        image = media(part) if isinstance(part, Media) and part.kind == "image" else None
        text = part.text if isinstance(part, Text) else words_of(part)
        if image is not None or text.strip():
            found.append(image or {"type": "text", "text": text})
    return found


def _fields(extra: Plain) -> Plain:
    """The fields of a document that the API knows, where they have its form."""
    fields: Plain = {name: extra[name] for name in ("title", "context") if _says(extra.get(name))}
    if "title" in fields:
        fields["title"] = fields["title"][:_TITLE]
    citations = extra.get("citations")
    if isinstance(citations, dict) and isinstance(citations.get("enabled"), bool):
        fields["citations"] = {"enabled": citations["enabled"]}
    return fields
