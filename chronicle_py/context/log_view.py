"""`ContextLog`: the face of the context log. A sequence of entries that can be appended to, edited and removed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

import msgspec

from chronicle_py.context.blocks import Block, Text, parse, plain
from chronicle_py.context.compiled import Compiled, system_text
from chronicle_py.context.context_log import (
    LOG_ADD,
    LOG_CACHE,
    LOG_EDIT,
    LOG_REMOVE,
    RELATIONS,
    ContextLogState,
    LogAddPayload,
    LogCachePayload,
    LogEditPayload,
    LogRemovePayload,
    LogRow,
    Relation,
)
from chronicle_py.context.conversation import Conversation, Id
from chronicle_py.context.folded_slot import FoldedSlot
from chronicle_py.context.media import restored, stored
from chronicle_py.context.message import role_of
from chronicle_py.context.message_events import Head
from chronicle_py.context.tokens import count_blocks
from chronicle_py.context.turns import CompiledMessage, name_sizes
from chronicle_py.errors import InvalidOperation, NotFound
from chronicle_py.event import Event, encode_payload, event_type
from chronicle_py.names import check_name


class LogEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of the context log. Its id is that of the event that added it."""

    id: str
    seq: int
    participant: str
    role: str
    blocks: list[Block]
    tokens: int
    source: str | None = None  # id of the message that it stands for
    relation: str | None = None  # "copy", "derived", "referenced"
    cache: bool = False  # a cache breakpoint stands after it


class _Source(msgspec.Struct):
    source: str | None = None


class _Content(msgspec.Struct):
    blocks: list[Any] | None = None


_decode_source = msgspec.msgpack.Decoder(_Source).decode
_decode_content = event_type("content", _Content).decoder.decode


class ContextLog(Sequence[LogEntry]):
    """The context log of a branch, live: each call reads the head once. Made by `ContextManager.context_log`."""

    def __init__(self, conversation: Conversation, slot: FoldedSlot) -> None:
        self._conversation = conversation
        self._engine = conversation.store._engine
        self._slot = slot

    def __repr__(self) -> str:
        return f"<ContextLog of branch {self._conversation.branch.name!r}, {len(self)} entries>"

    # --- reading ---

    def __len__(self) -> int:
        return len(self._now()[1].entries)

    @overload
    def __getitem__(self, index: int) -> LogEntry: ...
    @overload
    def __getitem__(self, index: slice) -> list[LogEntry]: ...
    def __getitem__(self, index: int | slice) -> LogEntry | list[LogEntry]:
        head, state = self._now()
        if isinstance(index, slice):
            return self._entries(head, state.entries[index])
        return self._entries(head, [state.entries[index]])[0]

    def __iter__(self) -> Iterator[LogEntry]:
        return iter(self.entries())

    def entries(self) -> list[LogEntry]:
        """All entries, in order. About 20 µs each."""
        head, state = self._now()
        return self._entries(head, state.entries[:])

    def get(self, id: str) -> LogEntry:
        """The entry of this id, or unique prefix of it. NotFound where it does not stand on this branch."""
        head, state = self._now()
        return self._entries(head, [self._row(state, id)])[0]

    @property
    def tokens(self) -> int:
        """Of all entries."""
        return self._now()[1].entries.weight()

    def compile(self) -> Compiled:
        """The entries as a context, all of them, for `.to_anthropic()` and `.to_openai()`. System entries are its
        system text. The strategy has no part in it."""
        entries = self.entries()
        messages = [
            CompiledMessage(e.participant, e.role, e.blocks, e.tokens, e.source or e.id, None, e.cache)
            for e in entries
            if e.role != "system"
        ]
        names = name_sizes(messages, self._conversation.tokenizer)
        system = system_text([entry.blocks for entry in entries if entry.role == "system"])
        return Compiled(messages, system, sum(entry.tokens for entry in entries) + names)

    # --- changing ---

    def append(
        self,
        participant: str | None = None,
        content: object = None,
        *,
        source: Id | None = None,
        relation: Relation | None = None,
        cache: bool = False,
    ) -> LogEntry:
        """Adds an entry. `source`: the message it stands for, whose participant and content are the default.

        With relation "copy" or none it changes and goes with its message; "derived" and "referenced" ones stay.
        """
        if relation is not None and relation not in RELATIONS:
            raise InvalidOperation(f"an entry's relation is one of {', '.join(RELATIONS)} or None, not {relation!r}")
        if source is None and (participant is None or content is None or relation is not None):
            raise InvalidOperation(
                "an entry without a source message has a participant and content, and no relation to it; give source="
            )
        store = self._conversation.store
        with store.transaction():
            message = None if source is None else self._conversation.get(source)
            if participant is None:
                assert message is not None
                participant, role = message.participant, str(message.role)
            else:
                check_name("a participant's name", participant)
                role = role_of(participant, self._conversation.assistant)
            payload = LogAddPayload(
                participant=participant, role=role, tokens=0, relation=relation, cache=bool(cache),
                source=None if message is None else message.id, source_seq=0 if message is None else message.seq,
            )  # fmt: skip
            if content is None:
                assert message is not None
                row = self._conversation.row(message.id)
                payload = msgspec.structs.replace(payload, tokens=row.tokens, content=row.edit or row.seq)
            else:
                blocks, tokens = self._content(content)
                payload = msgspec.structs.replace(payload, tokens=tokens, blocks=blocks)
            return self.get(self._append(LOG_ADD, payload).id)

    def edit(self, id: str, content: object) -> LogEntry:
        """Replaces an entry's content. A later edit of its message does so again, where it is a copy."""
        with self._conversation.store.transaction():
            row = self._row(self._now()[1], id)
            blocks, tokens = self._content(content)
            self._append(LOG_EDIT, LogEditPayload(entry=row.seq, tokens=tokens, blocks=blocks))
            return self.get(id)

    def remove(self, first: str, last: str | None = None) -> None:
        """Takes out an entry, or all from `first` to `last`, both included."""
        with self._conversation.store.transaction():
            state = self._now()[1]
            start = self._row(state, first).seq
            stop = start if last is None else self._row(state, last).seq
            if start > stop:
                raise InvalidOperation(f"entry {first[:12]} stands after {str(last)[:12]}; swap the two")
            self._append(LOG_REMOVE, LogRemovePayload(first=start, last=stop))

    def clear(self) -> None:
        """Takes out all entries."""
        with self._conversation.store.transaction():
            entries = self._now()[1].entries
            if entries:
                self._append(LOG_REMOVE, LogRemovePayload(first=entries[0].seq, last=entries[-1].seq))

    def set_cache(self, id: str, cache: bool = True) -> None:
        """Whether a cache breakpoint stands after an entry."""
        with self._conversation.store.transaction():
            row = self._row(self._now()[1], id)
            self._append(LOG_CACHE, LogCachePayload(entry=row.seq, cache=bool(cache)))

    # --- inside ---

    def _now(self) -> tuple[Head, ContextLogState]:
        head = self._conversation.view().head
        state: ContextLogState = self._slot.state(head)
        return head, state

    def _append(self, type: str, payload: Any) -> Event:
        return self._conversation.branch.append(type, payload, slot=self._slot.id)

    def _content(self, content: object) -> tuple[list[Any], int]:
        """Blocks as they are stored (their media are, already), and their tokens."""
        blocks, uploads = stored(parse(content))
        found = [plain(block) for block in blocks]
        encode_payload(found)  # what may be refused is, before a blob is written
        for upload in uploads:
            self._conversation.store.put_blob(*upload)
        return found, count_blocks(blocks, self._conversation.tokenizer)[0]

    def _row(self, state: ContextLogState, id: object) -> LogRow:
        if not isinstance(id, str):
            raise InvalidOperation(f"an entry is named by its id, a str, not by {id!r:.80}")
        branch = self._conversation.branch
        event = branch.event(id)
        if event.type != LOG_ADD or event.slot != self._slot.id:
            raise InvalidOperation(f"event {event.id[:12]} is no entry of this context log: its type is {event.type!r}")
        at = state.position(event.seq)
        if at is None:
            raise NotFound(f"entry {event.id[:12]} was removed from the context log of branch {branch.name!r}")
        return state.entries[at]

    def _entries(self, head: Head, rows: list[LogRow]) -> list[LogEntry]:
        with self._engine.read() as reader:
            found = [
                [self._engine.log.on_chain(reader, head.lineage, seq)[1] for seq in (row.seq, row.content)]
                for row in rows
            ]
        return [self._entry(row, *events) for row, events in zip(rows, found, strict=True)]

    def _entry(self, row: LogRow, added: Event, held: Event) -> LogEntry:
        if added.erased is not None:
            raise NotFound(f"entry {added.id[:12]} was erased: {added.erased.reason}")
        source = _decode_source(added.raw).source
        if held.erased is not None:  # the message's event alone: erasing the message takes the entry out
            blocks: list[Block] = [Text(f"[erased: {held.erased.reason}]")]
        else:
            blocks = restored(parse(_decode_content(held.raw).blocks or []), self._conversation.store)
        return LogEntry(
            id=added.id, seq=row.seq, participant=row.participant, role=row.role, blocks=blocks, tokens=row.tokens,
            source=source, relation=row.relation, cache=row.cache,
        )  # fmt: skip
