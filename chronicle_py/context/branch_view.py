"""`BranchView`: the messages of a branch at one fixed head, as strategies read them.

Messages are read a stretch at a time and stay in memory. A view at another head of the same history takes over what an
earlier one had read, less what was edited or removed on the way: an entry holds at every head from its last change up
to the next, so that it is enough to look through the events between the two heads. Media stay references to blobs here.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import msgspec

from chronicle_py.context.message import Message, message_of
from chronicle_py.context.message_events import Head, events_between, read_rows, state_at
from chronicle_py.context.message_index import MessageIndexState
from chronicle_py.context.payloads import EDIT, REMOVE, EditFacts, RemovePayload, SummaryPayload
from chronicle_py.context.tokens import Tokenizer
from chronicle_py.errors import NotFound
from chronicle_py.event import BlobRef
from chronicle_py.kv import Reader
from chronicle_py.strategies.naming import BEGINNING, name_tokens
from chronicle_py.strategies.strategy import ViewedMessage

if TYPE_CHECKING:
    from chronicle_py.store import Store

_STRETCH = 32  # messages read at once around one that is asked for
_CARRIED = 4096  # events looked through to take over what an earlier view had read
_REMEMBERED = 64 << 20  # bytes of payloads that a view keeps in memory
_LINEAGES = 8  # histories of which the newest view is remembered
_TEXTS = 4096  # summaries whose texts are remembered
_NAMES = 16_384  # messages for which the tokens of the name before them are remembered

_decode_edit = msgspec.msgpack.Decoder(EditFacts).decode
_decode_remove = msgspec.msgpack.Decoder(RemovePayload).decode


class BranchView:
    """A `MessageView`. Made by `Conversation.view`; holds a position in the store and no snapshot of it."""

    def __init__(self, store: Store, head: Head, slot: str, tokenizer: Tokenizer, index: MessageIndexState) -> None:
        self._engine = store._engine
        self._store = store
        self._slot = slot
        self._tokenizer = tokenizer
        self._texts: dict[str, str] = {}
        self._names: dict[tuple[Tokenizer, str, str], int] = {}
        self._seen: dict[int, ViewedMessage] = {}
        self._edits: dict[int, int] = {}  # of those seen: sequence -> that of its edit
        self._size = 0
        self.head = head
        self.index = index

    def __repr__(self) -> str:
        return f"<BranchView of {self._slot!r} at sequence {self.head.seq}>"

    @property
    def seq(self) -> int:
        """The sequence of the head."""
        return self.head.seq

    def message(self, seq: int) -> ViewedMessage:
        """The message at a sequence, as it stands at the head. NotFound when none does. O(1) when read before."""
        return self._seen.get(seq) or self._load(seq)

    def text(self, summary: SummaryPayload) -> str:
        """The text of a summary."""
        reference = summary.text
        hash: str = reference.hash if isinstance(reference, BlobRef) else reference
        found = self._texts.get(hash)
        if found is None:
            found = self._store.get_blob(hash).data.decode("utf-8", "replace")
            if len(self._texts) >= _TEXTS:
                self._texts.clear()
            self._texts[hash] = found
        return found

    def count(self, text: str) -> int:
        """Tokens of a text."""
        return self._tokenizer.count(text)

    def name_tokens(self, participant: str, text: str) -> int:
        """Tokens of "Name: " before a user's own words; 0 as long as one user alone has spoken on the branch."""
        if len(self.index.speakers) < 2:
            return 0
        key = self._tokenizer, participant, text[:BEGINNING]
        found = self._names.get(key)
        if found is None:
            if len(self._names) >= _NAMES:
                self._names.clear()
            self._names[key] = found = name_tokens(participant, text, self._tokenizer)
        return found

    def state(self, slot: str) -> Any:
        """The state of any custom slot at this same head; a copy where it could be changed. O(log n + K)."""
        with self._engine.read() as reader:
            kind = self._engine.slots.table(reader).get(slot).kind
            return kind.copy(state_at(self._engine, reader, self.head, slot))

    def _load(self, seq: int) -> ViewedMessage:
        """Reads the stretch of messages around one."""
        entries = self.index.entries
        at = self.index.position(seq)
        if at is None:
            raise NotFound(f"no message stands at sequence {seq} of this history, as of sequence {self.head.seq}")
        start = at - at % _STRETCH
        if self._size > _REMEMBERED:
            self._seen, self._edits, self._size = {}, {}, 0
        rows = [row for row in entries[start : start + _STRETCH] if row.seq not in self._seen]
        with self._engine.read() as reader:
            pairs = read_rows(self._engine, reader, self.head, rows)
        for event, edit in pairs:
            if event.seq != seq and (event.is_erased or (edit is not None and edit.is_erased)):
                continue  # since this view was made
            self._size += len(bytes((edit or event).raw))
            self._seen[event.seq] = viewed(message_of(event, edit))
            if edit is not None:
                self._edits[event.seq] = edit.seq
        return self._seen[seq]

    def take_over(self, reader: Reader, earlier: BranchView, common: int) -> None:
        """Remembers what `earlier` had read and still holds here. `common`: up to it the two histories are one."""
        if self.head.seq - common > _CARRIED:
            return
        seen, edits = dict(earlier._seen), dict(earlier._edits)
        late: list[int] = []
        if common < earlier.head.seq:
            late += [seq for seq in seen if seq > common or edits.get(seq, 0) > common]
        for event in events_between(self._engine, reader, self.head, common):
            try:
                if event.type == EDIT:
                    late.append(_decode_edit(event.raw).seq)
                elif event.type == REMOVE:
                    cut = _decode_remove(event.raw)
                    late += [seq for seq in seen if cut.first_seq <= seq <= cut.last_seq]
            except msgspec.MsgspecError:
                continue
        for seq in late:
            seen.pop(seq, None)
            edits.pop(seq, None)
        self._seen, self._edits, self._size = seen, edits, earlier._size


class RecentViews:
    """The newest view of each of a few histories, for the next one to take over from."""

    def __init__(self) -> None:
        self._epoch = b""
        self._views: dict[int, BranchView] = {}
        self._texts: dict[str, str] = {}
        self._names: dict[tuple[Tokenizer, str, str], int] = {}
        self._lock = threading.Lock()

    def view(self, store: Store, reader: Reader, head: Head, slot: str, tokenizer: Tokenizer, keep: bool) -> BranchView:
        """The view at a head. `keep`: the head is committed, so that later views may build upon this one."""
        engine = store._engine
        epoch = engine.slots.table(reader).epoch
        if epoch != self._epoch:  # erasures and compactions change what was read
            with self._lock:
                self._epoch, self._views, self._texts = epoch, {}, {}
        found = self._views.get(head.lineage)
        if found is not None and found.head == head and found._tokenizer is tokenizer:
            return found
        view = BranchView(store, head, slot, tokenizer, state_at(engine, reader, head, slot))
        view._texts, view._names = self._texts, self._names
        if found is not None:
            view.take_over(reader, found, min(found.head.seq, head.seq))
        elif head.lineage:
            record = engine.lineages.get(reader, head.lineage)
            parent = self._views.get(record.parent)
            if parent is not None:
                view.take_over(reader, parent, min(parent.head.seq, record.fork_seq, head.seq))
        if keep:
            self._remember(head.lineage, view, epoch)
        return view

    def _remember(self, lineage: int, view: BranchView, epoch: bytes) -> None:
        with self._lock:
            if self._epoch == epoch:
                self._views.pop(lineage, None)
                if len(self._views) >= _LINEAGES:
                    del self._views[next(iter(self._views))]
                self._views[lineage] = view


def viewed(message: Message) -> ViewedMessage:
    """A message as strategies see it."""
    return ViewedMessage(
        message.id, message.seq, message.participant, message.role, message.blocks, message.tokens,
        message.text_tokens, message.timestamp, message.edited, message.metadata,
    )  # fmt: skip
