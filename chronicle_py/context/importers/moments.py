"""Times as other programs write them, as µs since the epoch. Pure."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_LAST_SECONDS = 1e11  # above: milliseconds
_LAST_MILLISECONDS = 1e14  # above: microseconds


def moment(value: Any) -> int | None:
    """A number (s, ms or µs by its size) or ISO 8601 text (UTC where it names no zone); None for anything else."""
    if isinstance(value, str):
        try:
            found = datetime.fromisoformat(value.strip())
            return ((found if found.tzinfo else found.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND
        except (ValueError, OverflowError):
            return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        return None
    if value < _LAST_SECONDS:
        return round(value * 1_000_000)
    if value < _LAST_MILLISECONDS:
        return round(value * 1_000)
    return round(value) if value < 1 << 62 else None
