"""Importers: real conversations of other programs as messages, every branch of the source a branch here.

    from chronicle_py.context.importers import import_file

    done = import_file(store, "session.jsonl")
    done.current, done.branches, done.faults

One module reads each format (claude_code, chatgpt, message_lists, swe_agent) into histories (history.py), pure;
placing.py writes them. docs/importing.md says what becomes of what.
"""

from chronicle_py.context.importers.detect import FORMATS
from chronicle_py.context.importers.history import History, Read, SourceMessage
from chronicle_py.context.importers.importing import import_file, read_bytes

__all__ = ["FORMATS", "History", "Read", "SourceMessage", "import_file", "read_bytes"]
