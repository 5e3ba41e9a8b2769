"""The figures in README.md and docs/benchmarks.md are those of docs/benchmarks.json, the last run."""

import re
from pathlib import Path

import pytest

from bench.figure import Measured, Registered, at_most, at_most_times, better
from bench.measure import quartiles, spread_of_ratio
from bench.playback import Playback
from bench.stores import Session
from bench.table import CLAIMS, README_BEGIN, README_END, Results, document, load, readme

ROOT = Path(__file__).parent.parent
# An interval ("every 10 ms") is no figure of speed.
FIGURE = re.compile(
    r"(?<![\d.,])(?<!every )\d[\d.,]* ?(×|µs|ms\b|MB\b|KB\b|%|(events|messages|tokens)/s|times (as|faster|less))"
)


@pytest.fixture(scope="module")
def results() -> Results:
    return load(ROOT / "docs" / "benchmarks.json")


def test_the_page_shows_the_last_run(results: Results) -> None:
    text = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert document(text, results) == text


def test_the_readme_quotes_rows_of_the_last_run(results: Results) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme(text, results) == text
    assert {(group, name) for group, name, _ in CLAIMS} <= {(row.group, row.name) for row in results.figures}


@pytest.mark.parametrize("page", ["README.md", "docs/context.md", "docs/strategies.md", "docs/architecture.md"])
def test_no_figure_of_speed_or_size_is_quoted_elsewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    head, _, rest = text.partition(README_BEGIN)
    prose = head + rest.partition(README_END)[2]
    assert [found.group() for found in FIGURE.finditer(prose)] == []


def test_each_plot_of_the_page_is_there_and_has_a_line_of_a_row(results: Results) -> None:
    text = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    plots = re.findall(r"\]\((plots/[\w-]+\.svg)\)", text)
    assert len(plots) == 4
    assert all("<svg" in (ROOT / "docs" / plot).read_text(encoding="utf-8")[:1000] for plot in plots)
    assert any(row.points for row in results.figures)


def test_a_row_follows_from_what_was_measured(tmp_path: Path) -> None:
    def measure(_: Session) -> Measured:
        return Measured.of([2e-6, 4e-6, 3e-6], 1e6, [6e-6, 6e-6, 6e-6], "theirs")

    session = Session(tmp_path)
    for must, ok in ((at_most(3, "µs"), True), (at_most_times(0.4, "theirs"), False), (better(2), True)):
        row, times = Registered("group", "name", must, "µs", measure, "theirs").run(session)
        assert [row.value, row.baseline, row.ratio, row.gain] == pytest.approx([3, 6, 0.5, 2])
        assert row.ok is ok
        assert row.spread == pytest.approx((2.5, 3.5))
        assert times == [2e-6, 4e-6, 3e-6]


def test_a_rate_is_better_when_it_is_higher(tmp_path: Path) -> None:
    entry = Registered("g", "n", better(4), "events/s", lambda _: Measured.rate([1.0], 100, [5.0], "theirs"))
    row, _ = entry.run(Session(tmp_path))
    assert (row.value, row.baseline, row.gain, row.ok) == (100, 20, 5, True)


def test_a_failed_measurement_is_a_row_with_its_error(tmp_path: Path) -> None:
    def fails(_: Session) -> Measured:
        raise AssertionError("the replay gave another hash")

    row, times = Registered("g", "n", better(1), "µs", fails).run(Session(tmp_path))
    assert (row.error, row.ok, times) == ("AssertionError: the replay gave another hash", False, [])


def test_spreads() -> None:
    assert quartiles([1.0]) == (1.0, 1.0)
    assert quartiles([4.0, 1.0, 2.0, 3.0, 5.0]) == (2.0, 4.0)
    assert spread_of_ratio([2.0, 4.0, 6.0], [1.0, 2.0, 3.0]) == (2.0, 2.0)


def test_recorded_times_are_played_back_by_the_clock() -> None:
    clock = Playback()
    seen: list[float] = []

    class Rounds:
        group: str | None = None
        extra_info: dict[str, object] = {}  # noqa: RUF012

        def pedantic(self, target: object, *, rounds: int = 1) -> object:
            for _ in range(rounds):
                start = clock()
                seen.append(clock() - start)
            return target

    clock.play(Rounds(), [0.5, 0.25, 2.0])
    assert seen == [0.5, 0.25, 2.0]
