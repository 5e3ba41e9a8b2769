"""How a wrong value is shown in a message: briefly, and whatever it is. Pure.

A `repr` may be endless, take all of the stack or raise; a message about a wrong value must come about all the same.
"""

from __future__ import annotations

import reprlib

_brief = reprlib.Repr()
_brief.maxlevel = 4
_brief.maxstring = _brief.maxother = 80
_brief.maxlong = 40


def shown(value: object) -> str:
    """The value's `repr`, shortened where it is long."""
    try:
        return _brief.repr(value)
    except Exception:
        return f"<{type(value).__name__}>"
