"""Random conversations for property tests: programs of steps, and running them on a `Talk`."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from talk import Talk

Step = tuple[Any, ...]

_size = st.integers(1, 30)
_at = st.integers(0, 10_000)
_ids = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3)
_tool = st.sampled_from(["bash", "edit", "mcpl:search", "subagent:run", "lessons:create"])

_messages: st.SearchStrategy[Step] = st.one_of(
    st.tuples(st.just("say"), st.sampled_from(["User", "Claude", "Alice"]), _size),
    st.tuples(st.just("says"), st.integers(4, 20), _size),
    st.tuples(st.just("call"), _ids, _tool),
    st.tuples(st.just("answer"), _ids, _size),
    st.tuples(st.just("pair"), _ids, _tool, _size),
    st.tuples(st.just("pair"), _ids, _tool, _size),
    st.tuples(st.just("image"), st.sampled_from(["User", "Claude"])),
    st.tuples(st.just("system")),
)
_changes: st.SearchStrategy[Step] = st.one_of(
    st.tuples(st.just("edit"), _at, _size),
    st.tuples(st.just("edit call"), _at, _ids),
    st.tuples(st.just("remove"), _at, st.integers(0, 4)),
    st.tuples(st.just("pin"), _at, st.integers(0, 5)),
    st.tuples(st.just("unpin"), _at),
    st.tuples(st.just("reset")),
    st.tuples(st.just("tick")),
    st.tuples(st.just("drain")),
)
steps: st.SearchStrategy[list[Step]] = st.lists(st.one_of(_messages, _messages, _changes), max_size=40)
talks: st.SearchStrategy[list[Step]] = st.lists(_messages, max_size=40)


def run(talk: Talk, program: list[Step]) -> None:
    for step in program:
        apply(talk, step)


def apply(talk: Talk, step: Step) -> None:
    kind, *rest = step
    standing = sorted(seq for seq, message in talk.viewed.items() if message.role != "system")
    if kind == "say":
        talk.say(rest[0], f"m{talk.seq + 1}" + " word" * (rest[1] - 1))
    elif kind == "says":
        talk.says(*rest)
    elif kind == "call":
        talk.call(*rest[0], tool=rest[1])
    elif kind == "answer":
        talk.answer(*rest[0], text=f"r{talk.seq + 1}" + " word" * rest[1])
    elif kind == "pair":
        talk.call(*rest[0], tool=rest[1], text=f"m{talk.seq + 1}")
        if rest[2] % 2:
            talk.answer(*rest[0], text=f"r{talk.seq + 1}" + " word" * rest[2])
        else:
            for id in rest[0]:
                talk.answer(id, text=f"r{talk.seq + 1}" + " word" * rest[2])
    elif kind == "image":
        talk.say(rest[0], [{"type": "image", "source": {"type": "url", "url": "x"}, "token_estimate": 25}])
    elif kind == "system":
        talk.say("system", "be kind")
    elif kind == "tick":
        talk.tick()
    elif kind == "drain":
        talk.drain()
    elif kind == "reset":
        talk.reset()
    elif kind == "unpin":
        pins = talk.strategy.pins(talk.state)
        if pins:
            pin = pins[rest[0] % len(pins)]
            talk.unpin(next(event for event in talk.events if event.id == pin.id))
    elif standing:
        at = rest[0] % len(standing)
        if kind == "edit":
            talk.edit(standing[at], f"e{talk.seq + 1}" + " word" * (rest[1] - 1))
        elif kind == "edit call":
            talk.edit(standing[at], [{"type": "tool_use", "id": id, "name": "bash", "input": {}} for id in rest[1]])
        else:
            last = standing[min(at + rest[1], len(standing) - 1)]
            (talk.remove if kind == "remove" else talk.pin)(standing[at], last)
