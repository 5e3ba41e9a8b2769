"""The app with all its commands, in the order in which help lists them."""

from chronicle_py.cli import branching, checking, exchanging, history, slots, writing  # noqa: F401  (they register)
from chronicle_py.cli.app import app

__all__ = ["app"]
