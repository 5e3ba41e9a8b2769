"""One target under atheris: `python -m soak.guided TARGET [options of libFuzzer] [corpus]`, from `tests/`."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any


def main() -> None:
    """Instruments the package, and fuzzes until libFuzzer ends the process."""
    atheris: Any = import_module("atheris")
    name, *options = sys.argv[1:]
    with atheris.instrument_imports(include=["chronicle_py"]):
        decoders = import_module("soak.decoders")
    target = decoders.FUZZ_TARGETS[name]
    decoders.small_store()
    atheris.Setup([sys.argv[0], *options], target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
