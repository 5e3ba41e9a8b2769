"""Draws growth from n to 10 n, a line for each figure that has points, as SVG: logarithmic on both axes.

The files hold no date and no random ids, and letters as letters, so that they only differ where the figures do.
"""

from __future__ import annotations

from pathlib import Path

from bench.figure import Figure

_TOGETHER = {
    "growth-cold.svg": ("on a newly opened store", "cold handle", "open, from"),
    "growth-history.svg": ("a whole history, by event", "an event"),
    "growth-trees.svg": ("a tree of files", "of a tree", "into a tree"),
    "growth-conversation.svg": ("a conversation", "message"),
}


def draw(figures: list[Figure], folder: Path) -> None:
    """Writes the plots; without matplotlib, leaves those that are there as they are and says so."""
    try:
        import matplotlib as mpl
    except ImportError:
        print("the plots were not drawn: matplotlib is missing (pip install -e .[bench])")
        return
    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "chronicle-py", "svg.fonttype": "none", "path.simplify": True})
    from matplotlib import pyplot

    folder.mkdir(exist_ok=True)
    for name, (title, *parts) in _TOGETHER.items():
        rows = [row for row in figures if row.points and any(part in row.name for part in parts)]
        if not rows:
            continue
        chart, axes = pyplot.subplots(figsize=(7, 4.2))
        for row in rows:
            scale = 1_000 if row.unit == "ms" else 1
            sizes = [point.n for point in row.points]
            (line,) = axes.plot(sizes, [p.value * scale for p in row.points], marker="o", label=_label(row))
            low, high = ([getattr(p, side) * scale for p in row.points] for side in ("low", "high"))
            axes.fill_between(sizes, low, high, color=line.get_color(), alpha=0.2, linewidth=0)
        axes.set(xscale="log", yscale="log", xlabel="n", ylabel="µs (median; shaded: quartiles)", title=title)
        axes.grid(True, which="major", alpha=0.3)
        axes.legend(fontsize=8)
        chart.tight_layout()
        chart.savefig(folder / name, metadata={"Date": None, "Creator": None})
        pyplot.close(chart)


def _label(row: Figure) -> str:
    return row.name.partition(", from")[0]
