"""The app with all its commands, in the order in which help lists them."""

from chronicle_py.cli import (  # noqa: F401  (they register)
    branching,
    checking,
    compiling,
    conversation,
    erasing,
    exchanging,
    following,
    history,
    housekeeping,
    indexes,
    remembering,
    rescuing,
    slots,
    writing,
)
from chronicle_py.cli.app import app

__all__ = ["app"]
