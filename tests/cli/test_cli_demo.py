"""docs/demo.py: it runs without a terminal and without the shared data, and shows what it promises."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from cli_runner import ROOT, SAMPLE


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The demo on the sample, with fewer messages at the end."""
    spec = importlib.util.spec_from_file_location("demo", ROOT / "docs" / "demo.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "demo", module)
    monkeypatch.chdir(tmp_path)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "RUNS", (tmp_path / "missing", SAMPLE))
    monkeypatch.setattr(module, "LARGE", 2000)
    return module


def test_the_demo_shows_the_main_job(demo: ModuleType, capfd: pytest.CaptureFixture[str]) -> None:
    demo.main()
    shown, errors = capfd.readouterr()
    assert errors == ""
    for text in (
        "$ chronicle import ", "tool: File updated. 12 passed (main)", "forked: test-first is at 6", "├─╯",
        "6 ids are the same on both", "left out: ", "pinned: ", "no pins", "1 summary made or taken over on test-first",
        "folded, L1", "The pin is on main alone", "ok: everything agrees", "equals the stored one", "2,000 events in",
    ):  # fmt: skip
        assert text in shown, text
