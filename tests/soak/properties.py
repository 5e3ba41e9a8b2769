"""The property tests of the suite with many more examples, looking for new ones: a row of the table of `make soak`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time

from soak.apart import TESTS
from soak.result import Progress, Result, result, silent

NAME = "properties"
FILES = (
    "test_engine_machine.py", "test_invariants.py", "test_collections.py", "test_item_log.py", "test_tree.py",
    "test_document.py", "test_bad_input.py", "context/test_properties.py", "context/test_importers_properties.py",
)  # fmt: skip
_PASSED = re.compile(r"(\d+) passed")
_FAILED = re.compile(r"(\d+) (?:failed|error)")


def run(seconds: float, seed: int, progress: Progress = silent, *, profile: str = "ci") -> Result:
    """The files of properties under a profile of conftest.py, ended after `seconds`. A case is a test."""
    begun = time.monotonic()
    command = [
        sys.executable, "-m", "pytest", "-n", "2", f"--hypothesis-profile={profile}", f"--hypothesis-seed={seed}",
        "-p", "no:cacheprovider", *(str(TESTS / name) for name in FILES),
    ]  # fmt: skip
    process = subprocess.Popen(
        command, cwd=TESTS.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        said, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        said, _ = process.communicate()
        return result(NAME, 0, [f"not done after {seconds:.0f} seconds: {said[-500:]}"], seed, seconds)
    progress(1, 1)
    passed, failed = _PASSED.search(said), _FAILED.search(said)
    good = int(passed[1]) if passed else said.count(".")
    bad = int(failed[1]) if failed else 0
    problems = [said[-3000:]] if process.returncode else []
    return result(NAME, good + bad, problems, seed, time.monotonic() - begun, {"profile": profile})
