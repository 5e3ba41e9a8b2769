"""A part of an OpenAI message as a content block. Pure. What is a block of Anthropic's already stays as it is."""

from __future__ import annotations

import re
from typing import Any

Plain = dict[str, Any]
_DATA_URL = re.compile(r"data:(?P<type>[^;,]*)(?P<rest>[^,]*);base64,(?P<data>.*)", re.DOTALL)


def block_of(part: Any) -> Plain:
    """The block of a part: a text, an image, a sound, a file, or the part itself."""
    if isinstance(part, str):
        return {"type": "text", "text": part}
    kind = part.get("type")
    if kind in ("input_text", "output_text") and isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    if kind == "refusal" and isinstance(part.get("refusal"), str):
        return {"type": "text", "text": part["refusal"]}
    if kind in ("image_url", "input_image"):
        url = part.get("image_url")
        url = url.get("url") if isinstance(url, dict) else url
        if isinstance(url, str):
            return {"type": "image", "source": source_of(url)}
    if kind == "input_audio" and isinstance(part.get("input_audio"), dict):
        sound = part["input_audio"]
        if isinstance(sound.get("data"), str):
            return {"type": "audio", "source": _base64(f"audio/{sound.get('format') or 'wav'}", sound["data"])}
    if kind == "file" and isinstance(part.get("file"), dict):
        file = part["file"]
        name = {"title": file["filename"]} if isinstance(file.get("filename"), str) else {}
        if isinstance(file.get("file_data"), str):
            return {"type": "document", "source": source_of(file["file_data"], "application/pdf"), **name}
        return {"type": "document", "source": {**file, "type": "file"}, **name}
    return dict(part)


def source_of(url: str, media_type: str = "image/png") -> Plain:
    """The source behind a URL: base64 for a data URL, or for bare base64 where no URL can be meant."""
    found = _DATA_URL.fullmatch(url)
    if found:
        return _base64(found["type"] or media_type, found["data"])
    if media_type == "application/pdf" and ":" not in url:
        return _base64(media_type, url)
    return {"type": "url", "url": url}


def _base64(media_type: str, data: str) -> Plain:
    return {"type": "base64", "media_type": media_type, "data": data}
