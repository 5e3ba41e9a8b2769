"""ChatGPT's exports: conversations as trees of nodes (`mapping`). Pure.

A node's parent is what its `parent` says, else the node that lists it among its children. Nodes without a message,
hidden ones, and those that say nothing are passed through. Several first messages are branches, like any others. The
conversation stands at `current_node`, else at the newest end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from chronicle_py.context.importers.chatgpt_content import Assets, blocks_of, no_assets
from chronicle_py.context.importers.documents import Placed
from chronicle_py.context.importers.history import (
    History,
    Read,
    SourceMessage,
    first_words,
    last_leaf,
    without_circles,
)
from chronicle_py.context.importers.moments import moment
from chronicle_py.exchange.faults import Fault

FORM = "ChatGPT export"
SOURCE = "chatgpt"
_NOBODY = ("all", "assistant", "user", "")  # recipients that are no tools


def read(documents: Iterable[Placed], faults: list[Fault], assets: Assets = no_assets) -> Read:
    """The conversations of an export; one that cannot be read takes no other with it."""
    faults = list(faults)
    histories = []
    for placed in documents:
        where, value = placed
        if not isinstance(value, dict) or not isinstance(value.get("mapping"), dict):
            faults.append(Fault(where, "a conversation is an object with a mapping of nodes"))
            continue
        history = _Conversation(where, value, faults, assets).history()
        if history.messages:
            histories.append(history)
    return Read(FORM, histories, faults)


class _Conversation:
    def __init__(self, where: str, value: dict[str, Any], faults: list[Fault], assets: Assets) -> None:
        title = value.get("title")
        self.title = title if isinstance(title, str) else ""
        self.where = f"{where} {self.title!r}" if self.title else where
        self.value = value
        self.nodes: dict[str, dict[str, Any]] = {}
        self.faults = faults
        self.assets = assets
        for key, node in value["mapping"].items():
            if isinstance(node, dict):
                self.nodes[key] = node
            else:
                self._fault(key, "a node is an object")
        self.above = self._links()

    def _fault(self, node: str, what: str) -> None:
        self.faults.append(Fault(f"{self.where}, node {node}", what))

    def _links(self) -> dict[str, str | None]:
        listed: dict[str, str] = {}
        for key, node in self.nodes.items():
            children = node.get("children")
            for child in children if isinstance(children, list) else ():
                if isinstance(child, str):
                    listed.setdefault(child, key)
        above: dict[str, str | None] = {}
        for key, node in self.nodes.items():
            parent = node.get("parent")
            above[key] = parent if isinstance(parent, str) and parent in self.nodes else listed.get(key)
        opened = without_circles(above)
        for key, parent in opened.items():
            if parent != above[key]:
                self._fault(key, "its links run in a circle; it is taken as a first message")
        return opened

    def history(self) -> History:
        found: dict[str, SourceMessage] = {}
        calls: dict[str, str] = {}  # node that calls a tool -> id of the call
        ids: dict[str, SourceMessage | None] = {}
        for key in self._parents_first():
            after = self._message_above(key, ids)
            message = self._message(key, after, found, calls)
            ids[key] = message
            if message is not None:
                found[key] = message
        number = {key: at for at, key in enumerate(self._in_order())}
        messages = dict(sorted(found.items(), key=lambda item: number[item[0]]))
        id = self.value.get("conversation_id") or self.value.get("id") or self.title
        return History(
            source=SOURCE, messages=messages, current=self._current(messages), id=id if isinstance(id, str) else "",
            title=self.title or first_words(b["text"] for m in messages.values() for b in m.blocks if b.get("text")),
            updated=moment(self.value.get("update_time"))
            or max((m.at for m in messages.values() if m.at is not None), default=None),
        )  # fmt: skip

    def _parents_first(self) -> list[str]:
        order: dict[str, None] = {}
        for start in self.nodes:
            chain, key = [], start
            while key not in order:
                chain.append(key)
                parent = self.above[key]
                if parent is None:
                    break
                key = parent
            order.update(dict.fromkeys(reversed(chain)))
        return list(order)

    def _in_order(self) -> list[str]:
        """The nodes, each one's children in the order that it lists them in."""
        children: dict[str | None, list[str]] = {}
        for key in self.nodes:
            children.setdefault(self.above[key], []).append(key)
        for parent, found in children.items():
            listed = self.nodes[parent].get("children") if parent is not None else None
            if isinstance(listed, list):
                place = {child: at for at, child in enumerate(listed) if isinstance(child, str)}
                found.sort(key=lambda key: place.get(key, len(place)))
        order: list[str] = []
        waiting = children.get(None, [])[::-1]
        while waiting:
            key = waiting.pop()
            order.append(key)
            waiting += children.get(key, [])[::-1]
        return order

    def _message_above(self, key: str, ids: Mapping[str, SourceMessage | None]) -> str | None:
        above = self.above[key]
        while above is not None:
            message = ids[above]
            if message is not None:
                return message.key
            above = self.above[above]
        return None

    def _current(self, messages: Mapping[str, SourceMessage]) -> str | None:
        key = self.value.get("current_node")
        while isinstance(key, str) and key in self.nodes:
            if key in messages:
                return key
            key = self.above[key]
        newest = max(messages.values(), key=lambda message: message.at or 0, default=None)
        return None if newest is None else last_leaf(messages, newest.key)

    def _message(
        self, key: str, after: str | None, found: Mapping[str, SourceMessage], calls: dict[str, str]
    ) -> SourceMessage | None:
        """The message of a node, if it has one to show."""
        message = self.nodes[key].get("message")
        if message is None:
            return None
        if not isinstance(message, dict):
            self._fault(key, "a node's message is an object or null")
            return None
        author, content, extra = message.get("author"), message.get("content"), message.get("metadata")
        extra = extra if isinstance(extra, dict) else {}
        if extra.get("is_visually_hidden_from_conversation"):
            return None
        role = author.get("role") if isinstance(author, dict) else author
        if not isinstance(role, str) or not role:
            self._fault(key, "a message has an author with a role")
            return None
        blocks = blocks_of(content, self.assets)
        if blocks is None:
            self._fault(key, "a message's content is an object with a content_type, or a text")
            return None
        if not blocks:
            return None
        name = author.get("name") if isinstance(author, dict) else None
        recipient = message.get("recipient")
        id = message.get("id") if isinstance(message.get("id"), str) else key
        if role == "assistant" and isinstance(recipient, str) and recipient not in _NOBODY:
            blocks, calls[key] = _call(blocks, recipient, str(id)), str(id)
        elif role == "tool":
            failed = isinstance(content, dict) and content.get("content_type") == "system_error"
            blocks = [_result(blocks, self._call_above(after, found, calls) or f"call-before-{id}", failed)]
        metadata = {
            "name": name,
            "model": extra.get("model_slug") or (self.value.get("default_model_slug") if role == "assistant" else None),
            "attachments": extra.get("attachments") or None,
            "title": self.title or None if after is None else None,
            "conversation": self.value.get("conversation_id") or self.value.get("id"),
        }
        return SourceMessage(
            key=key, after=after, participant=role, blocks=blocks, id=id, at=moment(message.get("create_time")),
            metadata={name: value for name, value in metadata.items() if value is not None},
            where=f"{self.where}, node {key}",
        )  # fmt: skip

    @staticmethod
    def _call_above(after: str | None, found: Mapping[str, SourceMessage], calls: Mapping[str, str]) -> str | None:
        """The call that a tool's output answers: the one before it, past other outputs."""
        while after is not None:
            if after in calls:
                return calls[after]
            if found[after].participant != "tool":
                return None
            after = found[after].after
        return None


def _call(blocks: list[dict[str, Any]], tool: str, id: str) -> list[dict[str, Any]]:
    """A message to a tool as a call of it: its text is the input, as JSON where it is some."""
    import json

    texts = [block["text"] for block in blocks if block.get("type") == "text"]
    text = "\n".join(texts)
    try:
        input: Any = json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        input = text
    others = [block for block in blocks if block.get("type") != "text"]
    call = {"type": "tool_use", "id": id, "name": tool, "input": input if isinstance(input, dict) else text}
    return [*others, call]


def _result(blocks: list[dict[str, Any]], call: str, failed: bool) -> dict[str, Any]:
    only_text = all(set(block) == {"type", "text"} for block in blocks)
    content = "\n".join(block["text"] for block in blocks) if only_text else blocks
    error = {"is_error": True} if failed else {}
    return {"type": "tool_result", "tool_use_id": call, "content": content, **error}
