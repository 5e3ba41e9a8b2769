"""Which form a file has, told from what is in it; and its reader. Pure.

The first record that looks like something decides. `FORMATS` names what `chronicle import --format` takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from chronicle_py.context.importers import chatgpt, claude_code, message_lists, swe_agent
from chronicle_py.context.importers.chatgpt_content import Assets, no_assets
from chronicle_py.context.importers.documents import Document, Placed
from chronicle_py.context.importers.history import Read
from chronicle_py.errors import InvalidOperation

EXPORT: Final = "export"
CLAUDE_CODE: Final = "claude-code"
CHATGPT: Final = "chatgpt"
ANTHROPIC: Final = "anthropic"
OPENAI: Final = "openai"
SWE_AGENT: Final = "swe-agent"
FORMATS: Final = (EXPORT, CLAUDE_CODE, CHATGPT, ANTHROPIC, OPENAI, SWE_AGENT)
_SESSION_KEYS: Final = ("uuid", "parentUuid", "sessionId", "message", "leafUuid")


def format_of(document: Document) -> str | None:
    """The form of a parsed file; None for one that is not known here."""
    if document.records is not None:
        found = (_format_of_value(record.value) for record in document.records)
        return next((form for form in found if form is not None), None)
    if isinstance(document.value, list):
        if not document.value:
            return ANTHROPIC
        return next((form for item in document.value if (form := _format_of_value(item)) is not None), None)
    return _format_of_value(document.value)


def _format_of_value(value: Any) -> str | None:
    if isinstance(value, list):
        return next((form for item in value if (form := _format_of_value(item)) is not None), None)
    if not isinstance(value, dict):
        return None
    if "mapping" in value:
        return CHATGPT
    if isinstance(value.get("history"), list):
        return SWE_AGENT
    if isinstance(value.get("loglines"), list):
        return CLAUDE_CODE
    if isinstance(value.get("type"), str) and any(key in value for key in _SESSION_KEYS):
        return CLAUDE_CODE
    return ANTHROPIC if isinstance(value.get("messages"), list) or "role" in value else None


def read(name: str, format: str | None, document: Document, assets: Assets = no_assets) -> Read:
    """What a file holds, read in this form, or in that which it has. InvalidOperation where it has another, or none."""
    format = format_of(document) if format is None else format
    reader = _READERS.get(format or "")
    found = reader(document, assets) if reader is not None else None
    if found is None:
        raise InvalidOperation(
            f"{name} is "
            + ("of no form that is read here" if format is None else f"not of the form {format!r}")
            + ". Read are: an export of chronicle, a Claude Code session (JSON Lines), a ChatGPT export "
            "(conversations.json or the zip), a JSON list of messages of Anthropic or OpenAI (or an object with "
            '"messages"), and a SWE-agent trajectory (an object with "history")'
        )
    return found


def _claude_code(document: Document, assets: Assets) -> Read | None:
    value = document.value
    if document.records is not None:
        return claude_code.read(document.records, document.faults)
    if isinstance(value, dict) and isinstance(value.get("loglines"), list):
        return claude_code.read(_numbered("loglines[{}]", value["loglines"]), document.faults)
    if isinstance(value, list):
        return claude_code.read(_numbered("item {}", value), document.faults)
    return claude_code.read([Placed("line 1", value)], document.faults) if isinstance(value, dict) else None


def _chatgpt(document: Document, assets: Assets) -> Read | None:
    value = document.value
    if document.records is not None:
        items = [
            Placed(f"{where}, conversation", item)
            for where, found in document.records
            for item in (found if isinstance(found, list) else [found])
        ]
    elif isinstance(value, list):
        items = _numbered("conversation {}", value)
    elif isinstance(value, dict) and "mapping" in value:
        items = [Placed("conversation", value)]
    else:
        return None
    return chatgpt.read(items, document.faults, assets)


def _messages(document: Document, assets: Assets) -> Read | None:
    records, value = document.records, document.value
    if records is not None:
        if any(isinstance(r.value, list) or (isinstance(r.value, dict) and "messages" in r.value) for r in records):
            return message_lists.read(records, document.faults)
        return message_lists.read([("", records)], document.faults)
    if isinstance(value, dict) and "role" in value:
        value = [value]
    if isinstance(value, list) or (isinstance(value, dict) and isinstance(value.get("messages"), list)):
        return message_lists.read([("", value)], document.faults)
    return None


def _swe_agent(document: Document, assets: Assets) -> Read | None:
    value = document.value
    if isinstance(value, dict) and isinstance(value.get("history"), list):
        return swe_agent.read(value, document.faults)
    return None


def _numbered(form: str, items: list[Any]) -> list[Placed]:
    return [Placed(form.format(number), item) for number, item in enumerate(items)]


_READERS: Final[dict[str, Callable[[Document, Assets], Read | None]]] = {
    CLAUDE_CODE: _claude_code, CHATGPT: _chatgpt, ANTHROPIC: _messages, OPENAI: _messages, SWE_AGENT: _swe_agent,
}  # fmt: skip
