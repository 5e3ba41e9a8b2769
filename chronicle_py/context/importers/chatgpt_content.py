"""The content of ChatGPT's messages as content blocks. Pure.

Known kinds become text, thinking and media; one that is not known is kept as it is. Pictures and sounds are pointers to
files that a zip may bring along; without the file the pointer stays, in the block's source.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from typing import Any

Plain = dict[str, Any]
Assets = Callable[[str], tuple[bytes, str] | None]
"""The bytes and media type of a pointer; None where the file is not there."""

_NO_MESSAGE = ("user_editable_context", "model_editable_context")
_TEXT_OF = {
    "code": "text", "execution_output": "text", "system_error": "text", "tether_browsing_display": "result",
    "reasoning_recap": "content", "sonic_webpage": "text", "computer_output": "text",
}  # fmt: skip


def no_assets(pointer: str) -> tuple[bytes, str] | None:
    """Where there are no files."""
    return None


def blocks_of(content: Any, assets: Assets) -> list[Plain] | None:
    """The blocks of a content; none where it says nothing; None where it is no content."""
    if isinstance(content, str):
        return _texts([content])
    if not isinstance(content, dict):
        return None
    kind = content.get("content_type")
    if kind in _NO_MESSAGE:
        return []
    if isinstance(content.get("parts"), list):
        return [block for part in content["parts"] for block in _part(part, assets)]
    if kind == "thoughts" and isinstance(content.get("thoughts"), list):
        return [block for thought in content["thoughts"] for block in _thought(thought)]
    if kind == "tether_quote":
        return _texts(["\n".join(str(content[k]) for k in ("title", "url", "text") if content.get(k))])
    text = content.get(_TEXT_OF.get(str(kind), "text"))
    if isinstance(text, str):
        return _texts([text])
    if not isinstance(kind, str) or not kind:
        return None
    if kind in _TEXT_OF or kind in ("text", "multimodal_text"):
        return []
    return [{**content, "type": kind}]


def _texts(texts: list[str]) -> list[Plain]:
    return [{"type": "text", "text": text} for text in texts if text.strip()]


def _thought(thought: Any) -> list[Plain]:
    if isinstance(thought, str):
        words = thought
    elif isinstance(thought, dict):
        words = "\n".join(str(thought[key]) for key in ("summary", "content") if thought.get(key))
    else:
        return []
    return [{"type": "thinking", "thinking": words}] if words.strip() else []


def _part(part: Any, assets: Assets) -> list[Plain]:
    if isinstance(part, str):
        return _texts([part])
    if not isinstance(part, dict):
        return [] if part is None else [{"type": "part", "part": part}]
    kind = part.get("content_type")
    if isinstance(part.get("text"), str):
        return _texts([part["text"]])
    if kind == "image_asset_pointer":
        return [_media("image", part, assets)]
    if kind == "audio_asset_pointer":
        return [_media("audio", part, assets)]
    if kind == "real_time_user_audio_video_asset_pointer" and isinstance(part.get("audio_asset_pointer"), dict):
        return [_media("audio", part["audio_asset_pointer"], assets)]
    return [{**part, "type": str(kind or "part")}]


def _media(kind: str, part: Plain, assets: Assets) -> Plain:
    pointer = part.get("asset_pointer")
    found = assets(pointer) if isinstance(pointer, str) else None
    if found is not None:
        data, media_type = found
        return {"type": kind, "source": {"type": "base64", "media_type": media_type, "data": b64encode(data).decode()}}
    known = {name: value for name, value in part.items() if name != "content_type" and value is not None}
    return {"type": kind, "source": {**known, "type": "asset"}}
