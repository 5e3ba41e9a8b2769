"""`Line` and links, against sorted lists and dicts."""

from __future__ import annotations

from bisect import bisect_left

from hypothesis import given
from hypothesis import strategies as st

from chronicle_py.collections import List
from chronicle_py.strategies.autobiographical.line import NONE, Line, link_of, linked
from chronicle_py.strategies.autobiographical.state import Queued

changes = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 400)),
        st.tuples(st.just("end"), st.integers(1, 5)),
        st.tuples(st.just("front"), st.integers(1, 80)),
        st.tuples(st.just("out"), st.integers(0, 10_000)),
    ),
    max_size=60,
)


@given(changes, st.integers(0, 400), st.integers(0, 5_000))
def test_a_line_is_a_sorted_list_of_which_the_first_leave(steps: list[tuple[str, int]], first: int, at: int) -> None:
    line = Line(List[Queued]())
    model: list[tuple[int, int]] = []  # (first, weight), the weight tells which one it is
    for kind, number in steps:
        if kind == "add" and all(number != known for known, _ in model):
            line = line.added(Queued(number, number), number % 7 + 1)
            model.insert(bisect_left(model, (number, 0)), (number, number % 7 + 1))
        elif kind == "end":
            for _ in range(number * 20):
                new = model[-1][0] + 1 if model else 1
                line, model = line.added(Queued(new, new), 2), [*model, (new, 2)]
        elif kind == "front":
            for _ in range(min(number, len(model))):
                line, model = line.without(0), model[1:]
        elif kind == "out" and model:
            number %= len(model)
            line, model = line.without(number), model[:number] + model[number + 1 :]
    firsts = [known for known, _ in model]
    assert [entry.first for entry in line] == firsts
    assert [entry.first for entry in reversed(line)] == firsts[::-1]
    assert len(line) == len(model)
    assert line.place(first) == bisect_left(firsts, first)
    assert line.weight() == sum(weight for _, weight in model)
    at %= len(model) + 1
    assert line.weight(at) == sum(weight for _, weight in model[:at])
    sums = [sum(weight for _, weight in model[: i + 1]) for i in range(len(model))]
    assert line.find(at) == next((i for i, known in enumerate(sums) if known > at), len(model))
    assert line.between(at // 2, at) == [Queued(known, known) for known in firsts[at // 2 : at]]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(-1, 9)), max_size=40))
def test_links_are_a_mapping(made: list[tuple[int, int]]) -> None:
    links, model = List[int](), {}
    for number, to in made:
        links, model[number] = linked(links, number, to), to
    assert [link_of(links, number) for number in range(60)] == [model.get(number, NONE) for number in range(60)]
