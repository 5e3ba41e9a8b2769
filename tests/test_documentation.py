"""The Python of the README and of docs/ runs: the blocks of one page, in order, in one namespace."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[int, str]]:
    """(the line a block begins at, its code)."""
    text = page.read_text()
    return [(text.count("\n", 0, found.start(1)), found.group(1)) for found in _BLOCK.finditer(text)]


PAGES = [page for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) if page.exists() and blocks(page)]


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_the_code_on_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "documentation"}
    for line, code in blocks(page):
        exec(compile("\n" * line + code, str(page), "exec", dont_inherit=True), namespace)


def test_the_readme_shows_code_on_its_first_screen() -> None:
    line, code = blocks(ROOT / "README.md")[0]
    assert line < 20
    assert "chronicle_py" in code
    assert ".fork(" in code
    assert len(code.splitlines()) <= 15


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{p.name}" for p in sorted((ROOT / "docs").glob("*.md")))])
def test_links_between_pages_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text()
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if "://" not in target and not target.startswith("mailto:"):
            assert ((ROOT / page).parent / target).exists(), f"{page} links to {target}"
