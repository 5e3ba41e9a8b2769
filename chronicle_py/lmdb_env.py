"""Opening an LMDB environment.

py-lmdb refuses to open a file twice in one process, and knows files by their inode numbers. Its table forgets a file
only after LMDB has closed it. When the last reader of a replaced file ends on another thread, the inode may be free,
and given to a new file, a moment before that: the new file then counts as open already. Waiting is all it takes.
"""

from __future__ import annotations

import os
import time
from typing import Any, Final

import lmdb

_TRIES: Final = 200
_WAIT: Final = 0.005  # seconds from one to the next


def open_env(path: str, **options: Any) -> lmdb.Environment:
    """The environment in one file, not a folder. Raises what LMDB raises; options are its own."""
    for left in reversed(range(_TRIES)):
        try:
            return lmdb.open(os.fsencode(path), subdir=False, **options)
        except lmdb.Error as error:
            if not left or "already open in this process" not in str(error):
                raise
        time.sleep(_WAIT)
    raise AssertionError("the last try raises or returns")
