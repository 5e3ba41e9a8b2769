"""Values that no payload can hold, made into ones that say what was there. Pure."""

from __future__ import annotations

from typing import Any

from chronicle_py.context.media import decoded
from chronicle_py.errors import InvalidOperation

_LARGEST = (1 << 64) - 1
_SMALLEST = -(1 << 63)
_DEPTH = 60


def mended(value: Any, depth: int = 0) -> Any:
    """The value with half surrogates replaced, too large numbers as text, too deep nesting cut, and media whose base64
    is none as a text that says so."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, bool) or value is None or isinstance(value, float):
        return value
    if isinstance(value, int):
        return value if _SMALLEST <= value <= _LARGEST else str(value)
    if depth > _DEPTH:
        return "(nested too deeply)"
    if isinstance(value, dict):
        source = value.get("source")
        if isinstance(source, dict) and source.get("type") == "base64" and not _is_base64(source):
            return {"type": "text", "text": f"[{value.get('type')}, whose data is no base64]"}
        return {mended(str(key), depth): mended(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [mended(item, depth + 1) for item in value]
    return value


def _is_base64(source: dict[str, Any]) -> bool:
    data, media_type = source.get("data"), source.get("media_type")
    if not isinstance(data, str) or not (media_type is None or isinstance(media_type, str)):
        return False
    try:
        decoded(data)
    except InvalidOperation:
        return False
    return True
