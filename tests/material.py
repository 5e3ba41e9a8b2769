"""What the engine's state machine works with: names, slots, reducers, and strategies of what is put into them."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st
from model import Spec

from chronicle_py import Event, List, Map, reducer
from chronicle_py.reducers import FunctionReducer

# --- what there is --------------------------------------------------------------------------------------------------

NAMES = ("main", "a", "b", "ünïcode/分支", "x" * 255)
SLOTS = (
    Spec("value", "value"),
    Spec("log", "append_log"),
    Spec("files", "tree"),
    Spec("doc", "document"),
    Spec("heard", "append_log", types=("note", "typed")),
    Spec("last", "value", types=("note",), initial={"never": [b"set"]}),
    Spec("mixed", "append_log", types=("note",), sources=("log", "value"), initial=["first", 2, None]),
    Spec("echo", "value", sources=("log", "value"), initial=0),
    Spec("shadow", "tree", sources=("files",), initial={"src/a": 1, "z": [1, 2]}),
    Spec("agents/lena/début", "document", initial={"list": [], "many": {str(n): n for n in range(70)}}),
    Spec("tally", "tally", types=("note", "typed"), sources=("log", "files")),
    Spec("scratch", "scratch", types=("note",)),
    Spec("own", "tally"),
)


class Typed(msgspec.Struct):
    n: int
    text: str = ""


class Counted(msgspec.Struct, frozen=True):
    n: int = 0
    by_type: Map[int] = msgspec.field(default_factory=Map)
    recent: List[Any] = msgspec.field(default_factory=List)


def reducer_of(spec: Spec) -> FunctionReducer | None:
    if spec.kind == "tally":

        @reducer("tally", initial=Counted, version=spec.version)
        def tally(state: Counted, event: Event) -> Counted:
            recent = state.recent.append(event.payload)
            return Counted(
                state.n + spec.version,
                state.by_type.set(event.type, state.by_type.get(event.type, 0) + 1),
                recent.delete(0, len(recent) - 20) if len(recent) > 20 else recent,
            )

        return tally
    if spec.kind == "scratch":

        @reducer("scratch", initial=list)
        def scratch(state: list[str], event: Event) -> list[str]:
            """Changes its state in place, which a reducer should not do, and which may hurt nobody else."""
            if len(state) < 50:
                state.append(event.type)
            else:
                state.clear()
            return state

        return scratch
    return None


# --- what is put in -------------------------------------------------------------------------------------------------

_scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False), st.text(max_size=8),
    st.binary(max_size=8),
)  # fmt: skip
_keys = st.sampled_from(["a", "b", "list", "ключ", ""])
_values = st.recursive(
    _scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys, inner, max_size=3), max_leaves=6
)
items = st.one_of(st.sampled_from(["same", "other", "", b""]), st.integers(0, 2), _values, st.text("x", min_size=2100))
paths = st.sampled_from(
    ["src/a", "src/b", "src/b/c", "srcs", "z", "ä/日本", "e\u0301", *(f"p{n:02}" for n in range(30))]
)
names = st.sampled_from(NAMES)
patches = st.dictionaries(_keys, _values, max_size=3)
