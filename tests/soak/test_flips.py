"""A short run of the flips that `make soak` does by thousands."""

from __future__ import annotations

from soak.flips import run_flips


def test_every_flipped_byte_is_found_or_carries_nothing() -> None:
    done = run_flips(80, seed=20)
    assert (done.cases, done.wrong, done.details) == (80, 0, ())
    assert sum(done.figures.values()) == 80
    assert done.figures["found"] >= 40
