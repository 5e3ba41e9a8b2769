"""`Conversation`: the messages of one branch. Adding, editing and removing them, and every way to look them up.

What is written is an event, and one transaction (it joins the running one); all is checked before anything is written,
so that a refused call leaves nothing behind, in a transaction of many as well. What stands is read from the messages
slot, a fold; nothing here is a truth of its own but caches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from chronicle_py.branch import Branch
from chronicle_py.context import query
from chronicle_py.context.blocks import Block, parse, plain
from chronicle_py.context.branch_view import BranchView, RecentViews
from chronicle_py.context.erasing_messages import ErasedMessage, erase_message
from chronicle_py.context.media import Upload, restored, stored
from chronicle_py.context.message import EVENT_TYPES, Message, erased_since, facts, message_of, metadata_of, role_of
from chronicle_py.context.message_events import Head, head_of, read_rows, state_at
from chronicle_py.context.message_index import MessageIndex, MessageIndexState, Row
from chronicle_py.context.payloads import (
    EDIT,
    MESSAGE,
    MESSAGE_TYPES,
    REMOVE,
    EditPayload,
    MessagePayload,
    RemovePayload,
)
from chronicle_py.context.tokens import Counts, Tokenizer
from chronicle_py.context.tokens import tokenizer as tokenizer_of
from chronicle_py.errors import InvalidOperation, NotFound
from chronicle_py.event import Event, encode_payload
from chronicle_py.kv import Progress, Reader
from chronicle_py.names import check_name, check_slot
from chronicle_py.store import Store

Id = str | Event
_BATCH = 1024  # messages looked through at once
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Conversation:
    """The messages of a branch. Two of one branch and slot are the same conversation."""

    def __init__(
        self,
        store: Store,
        branch: Branch | str = "main",
        *,
        slot: str = "context/messages",
        isolated: bool = False,
        tokenizer: str | Counts | Tokenizer | None = None,
        assistant: str = "Claude",
    ) -> None:
        """Registers the slot and the types of its events.

        `isolated`: messages carry the slot and only such are heard, so that another conversation on the store does not
        see them. `assistant`: the participant who is the model. `tokenizer`: see `tokens.tokenizer`.
        """
        self.store = store
        self.slot = check_slot(slot)
        self.isolated = isolated
        self.tokenizer = tokenizer_of(tokenizer)
        self.assistant = check_name("the assistant's name", assistant)
        self.branch = branch if isinstance(branch, Branch) else store.branch(branch)
        self._engine = store._engine
        self._views = RecentViews()
        store.register_state(slot, reducer=MessageIndex(), types=() if isolated else MESSAGE_TYPES)
        for type, struct in EVENT_TYPES.items():
            store.register_event(type, struct)

    def __repr__(self) -> str:
        return f"<Conversation {self.slot!r} on branch {self.branch.name!r}>"

    def on(self, branch: Branch | str) -> Conversation:
        """The same conversation on another branch; what was read of either is remembered for both."""
        new = object.__new__(Conversation)
        new.__dict__.update(self.__dict__)
        new.branch = branch if isinstance(branch, Branch) else self.store.branch(branch)
        return new

    # --- writing ---

    def add(
        self,
        participant: str,
        content: object,
        *,
        metadata: Mapping[str, Any] | None = None,
        caused_by: Iterable[Id] = (),
        at: int | datetime | None = None,
    ) -> Message:
        """Appends a message. `content`: a str, blocks, or plain dicts in Anthropic's form; `at`: when it was said, µs
        since the epoch or an aware datetime, where that is not now. InvalidOperation says what is wrong with them.

        Cost: the tokenizer's, and one append.
        """
        check_name("a participant's name", participant)
        if metadata is not None and not (isinstance(metadata, Mapping) and all(isinstance(k, str) for k in metadata)):
            raise InvalidOperation(f"a message's metadata is a mapping with str keys, not {metadata!r:.80}")
        role = role_of(participant, self.assistant)
        blocks, uploads = self._content(content)
        known = facts(blocks, participant, role, self.tokenizer)
        payload = MessagePayload(
            participant, role, known.tokens, known.text_tokens, known.calls, known.answers, known.only_answers,
            blocks=[plain(block) for block in blocks], tokenizer=self.tokenizer.name, at=_microseconds(at),
            metadata=dict(metadata) if metadata else {},
        )  # fmt: skip
        event = self._append(MESSAGE, payload, uploads, caused_by)
        return self._whole(message_of(event, None))

    def edit(self, id: Id, content: object) -> Message:
        """Replaces a message's content; participant, role and metadata stay. NotFound unless it stands here."""
        with self.store.transaction(), self._engine.read() as reader:
            event, row, _ = self._standing(reader, id, self._head(reader))
            blocks, uploads = self._content(content)
            known = facts(blocks, row.participant, message_of(event, None).role, self.tokenizer)
            payload = EditPayload(
                row.participant, row.role, known.tokens, known.text_tokens, known.calls, known.answers,
                known.only_answers, id=event.id, seq=event.seq, blocks=[plain(block) for block in blocks],
                tokenizer=self.tokenizer.name,
            )  # fmt: skip
            edit = self._append(EDIT, payload, uploads, ())
            return self._whole(message_of(event, edit))

    def remove(self, id: Id) -> None:
        """Takes a message out. NotFound unless it stands here. What it said stays in the history, as it was."""
        self.remove_range(id, id)

    def remove_range(self, first: Id, last: Id) -> int:
        """Takes out all messages from `first` to `last`, both included, and returns how many; both must stand here."""
        with self.store.transaction(), self._engine.read() as reader:
            head = self._head(reader)
            start, _, at = self._standing(reader, first, head)
            stop, _, end = self._standing(reader, last, head)
            if at > end:
                raise InvalidOperation(
                    f"message {start.id[:12]} stands after {stop.id[:12]}: a range runs from the earlier to the later; "
                    "swap the two"
                )
            payload = RemovePayload(start.id, start.seq, stop.id, stop.seq)
            self.branch.append(REMOVE, payload, slot=self._slot_of_events)
            return end - at + 1

    def erase(self, id: Id, reason: str, progress: Progress | None = None) -> ErasedMessage:
        """Erases a message for good, with its edits, the summaries made of it, and its copies in context logs, on all
        branches and as it ever was. What is left is that there was one. See `store.erase` for what that means.

        NotFound for an id of no event, InvalidOperation for one of no message of this conversation, and inside a
        transaction. What a model had before it while it wrote something else (another summary, an answer) is not
        looked for. O(events after it on its branches + objects).
        """
        found = self.store.event(id.id if isinstance(id, Event) else id)
        self._must_be_message(found)
        return erase_message(self._engine, found, reason, progress)

    def _must_be_message(self, event: Event) -> None:
        if event.type != MESSAGE or event.slot != self._slot_of_events:
            raise InvalidOperation(
                f"event {event.id[:12]} is no message of this conversation: its type is {event.type!r}"
                + (f", its slot {event.slot!r}" if event.slot else "")
            )

    @property
    def _slot_of_events(self) -> str | None:
        return self.slot if self.isolated else None

    def _content(self, content: object) -> tuple[list[Block], list[Upload]]:
        """The blocks as they are stored, and the blobs they need."""
        try:
            return stored(parse(content))
        except RecursionError:
            raise InvalidOperation("a message's content is nested too deeply") from None

    def _append(self, type: str, payload: Any, uploads: list[Upload], caused_by: Iterable[Id]) -> Event:
        if not uploads:
            return self.branch.append(type, payload, slot=self._slot_of_events, caused_by=caused_by)
        # A call that fails half-way spoils the transaction around it: what may be refused is, before a blob is written.
        encode_payload(payload)
        if isinstance(caused_by, str | Event) or not isinstance(caused_by, Iterable):
            raise InvalidOperation(f"caused_by is a sequence of message or event ids, not {caused_by!r:.80}")
        causes = [self.store.event(cause.id if isinstance(cause, Event) else cause) for cause in caused_by]
        with self.store.transaction():
            for upload in uploads:
                self.store.put_blob(*upload)
            return self.branch.append(type, payload, slot=self._slot_of_events, caused_by=causes)

    # --- reading one ---

    def get(self, id: Id, at: int | str | Event | None = None) -> Message:
        """The message of this id, or unique prefix of it, as it stands; with `at` (sequence or event id), as it stood.

        NotFound when it is not on this branch, was removed, or was not there yet.
        """
        with self._engine.read() as reader:
            head = self._head(reader, at)
            _, row, _ = self._standing(reader, id, head, at is not None)
            return self._messages(reader, head, [row])[0]

    def row(self, id: Id) -> Row:
        """The index's row of a message that stands."""
        with self._engine.read() as reader:
            return self._standing(reader, id, self._head(reader))[1]

    def position(self, id: Id) -> int:
        """The index of a message among those that stand, as `slice` counts them."""
        with self._engine.read() as reader:
            return self._standing(reader, id, self._head(reader))[2]

    def find_external(self, source: str, id: str | int) -> Message | None:
        """The first message that stands with `metadata["external"]` of this source and id. O(log n)."""
        query.filters(source, (id,), None, None)
        with self._engine.read() as reader:
            head = self._head(reader)
            index = self._index(reader, head)
            row = next((row for seq in index.externals(source, id) if (row := index.row(seq)) is not None), None)
            return None if row is None else self._messages(reader, head, [row])[0]

    # --- reading many ---

    def __len__(self) -> int:
        """How many messages stand."""
        return len(self.index().entries)

    def slice(self, start: int = 0, stop: int | None = None) -> list[Message]:
        """The messages from one index up to another, as a slice of a list. O(log n + what it returns)."""
        for bound in (start, stop):
            if bound is not None and (not isinstance(bound, int) or isinstance(bound, bool)):
                raise InvalidOperation(f"messages are sliced by whole numbers, not by {bound!r}")
        with self._engine.read() as reader:
            head = self._head(reader)
            return self._messages(reader, head, self._index(reader, head).entries[start:stop])

    def tail(self, n: int) -> list[Message]:
        """The last n messages, or all where there are fewer. O(log n + n)."""
        return self.slice(-n) if query.check_number("tail", n) else []

    def query(
        self,
        source: str | None = None,
        external_ids: Iterable[str | int] | None = None,
        participant: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        limit: int | None = None,
        reverse: bool = False,
    ) -> tuple[list[Message], int]:
        """(messages that pass all filters, how many do), oldest first, or newest with `reverse`; at most `limit`.

        `source` and `external_ids` are those of `metadata["external"]`. `metadata` maps dotted paths to values; a list
        there matches by each of its items too. Cost: O(log n + what it returns) by participant, source or external ids;
        several of them O(what the narrowest leaves); metadata reads every message that the others leave.
        """
        wanted = query.filters(source, external_ids, participant, metadata)
        if limit is not None:
            query.check_number("query(limit=)", limit)
        with self._engine.read() as reader:
            head = self._head(reader)
            index = self._index(reader, head)
            if not wanted.metadata:
                rows, total = query.rows(index, wanted, limit, reverse)
                return self._messages(reader, head, rows), total
            rows, _ = query.rows(index, wanted, None, reverse)
            kept: list[Message] = []
            total = 0
            for start in range(0, len(rows), _BATCH):
                for event, edit in read_rows(self._engine, reader, head, rows[start : start + _BATCH]):
                    if query.matches(metadata_of(event), wanted.metadata):
                        total += 1
                        if limit is None or total <= limit:
                            kept.append(self._whole(message_of(event, edit)))
            return kept, total

    def index(self, at: int | str | Event | None = None) -> MessageIndexState:
        """The state of the messages slot: the rows of what stands, and how to find them. O(log n + K)."""
        with self._engine.read() as reader:
            return self._index(reader, self._head(reader, at))

    def view(self, at: int | str | Event | None = None) -> BranchView:
        """What strategies read messages through, fixed at the head or at a place of the branch. Inside a transaction it
        shows what is not committed yet, and is void when that is not kept."""
        with self._engine.read() as reader:
            transaction = self._engine.kv.writer
            committed = transaction is None or reader is not transaction.scope
            head = self._head(reader, at)
            return self._views.view(self.store, reader, head, self.slot, self.tokenizer, committed)

    # --- inside a snapshot ---

    def _head(self, reader: Reader, at: int | str | Event | None = None) -> Head:
        return head_of(self._engine, reader, self.branch.name, at)

    def _index(self, reader: Reader, head: Head) -> MessageIndexState:
        found: MessageIndexState = state_at(self._engine, reader, head, self.slot)
        return found

    def _standing(self, reader: Reader, id: Id, head: Head, past: bool = False) -> tuple[Event, Row, int]:
        """The event of a message, its row and its index; NotFound unless it stands at the head."""
        if not isinstance(id, str | Event):
            raise InvalidOperation(f"a message is named by its id, a str, not by {id!r:.80}")
        place = self._head(reader, id)
        event = self._engine.log.at(reader, place.lineage, place.seq)
        self._must_be_message(event)
        if event.erased is not None:
            raise erased_since(event, event.erased)
        where = f"branch {self.branch.name!r}" + (f" as of sequence {head.seq}" if past else "")
        if event.seq > head.seq:
            raise NotFound(f"message {event.id[:12]} was added at sequence {event.seq}, so it is not on {where}")
        index = self._index(reader, head)
        position = index.position(event.seq)
        if position is None:
            raise NotFound(
                f"message {event.id[:12]} was removed from {where}; message(id, at=…) shows it as it was before"
            )
        return event, index.entries[position], position

    def _messages(self, reader: Reader, head: Head, rows: list[Row]) -> list[Message]:
        return [self._whole(message_of(*pair)) for pair in read_rows(self._engine, reader, head, rows)]

    def _whole(self, message: Message) -> Message:
        """The message with its media as they were given."""
        blocks = restored(message.blocks, self.store)
        return message if blocks is message.blocks else msgspec.structs.replace(message, blocks=blocks)


def _microseconds(at: object) -> int | None:
    if at is None or (isinstance(at, int) and not isinstance(at, bool) and -(1 << 63) <= at < 1 << 63):
        return at
    if isinstance(at, datetime) and at.tzinfo is not None:
        return (at - _EPOCH) // _MICROSECOND
    raise InvalidOperation(f"a message's time is µs since the epoch (int) or a datetime with a time zone, not {at!r}")
