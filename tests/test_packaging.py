"""What `pip install` brings: the package, its parts and its types, and nothing else at top level."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import shutil
import subprocess
import sys
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path
from typing import Any

import pytest

import chronicle_py

HOME = Path(__file__).resolve().parent.parent
PROJECT: dict[str, Any] = tomllib.loads((HOME / "pyproject.toml").read_text())


def packages_on_disk() -> set[str]:
    found = {".".join(path.parent.relative_to(HOME).parts) for path in (HOME / "chronicle_py").rglob("__init__.py")}
    return found | {
        ".".join(("chronicle_py", *path.parent.relative_to(HOME).parts))
        for path in (HOME / "strategies").rglob("__init__.py")
    }


def test_the_project_lists_every_package_and_no_other() -> None:
    setup = PROJECT["tool"]["setuptools"]
    assert set(setup["packages"]) == packages_on_disk()
    assert setup["package-dir"] == {"chronicle_py.strategies": "strategies"}


def test_the_metadata_says_what_it_needs() -> None:
    project = PROJECT["project"]
    assert project["name"] == "chronicle-py"
    assert project["version"] == chronicle_py.__version__
    needed = {requirement.split(">=")[0] for requirement in project["dependencies"]}
    assert needed >= {"blake3", "lmdb", "msgspec", "rich", "typer"}
    assert "lmdb>=3.0" in project["dependencies"]
    assert project["scripts"] == {"chronicle": "chronicle_py.cli:main"}
    assert importlib.util.find_spec("chronicle_py.cli") is not None


def can_build() -> bool:
    setuptools = importlib.util.find_spec("setuptools")
    if setuptools is None or importlib.util.find_spec("pip") is None:
        return False
    return int(importlib.metadata.version("setuptools").split(".")[0]) >= 77


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    if not can_build():
        pytest.skip("building a wheel takes setuptools 77 or newer in this environment")
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(HOME / name, source)
    for name in ("chronicle_py", "strategies"):
        shutil.copytree(HOME / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", folder, source],
        check=True,
        capture_output=True,
    )
    (built,) = folder.glob("*.whl")
    return zipfile.ZipFile(built)


def test_the_wheel_holds_the_package_and_nothing_else_at_top_level(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    assert {name.split("/")[0] for name in names} == {
        "chronicle_py",
        f"chronicle_py-{chronicle_py.__version__}.dist-info",
    }
    for name in ("py.typed", "__init__.py", "strategies/__init__.py", "strategies/py.typed", "cli/__init__.py"):
        assert f"chronicle_py/{name}" in names
    for path in (HOME / "chronicle_py").rglob("*"):
        if path.suffix in (".py", ".typed", ".json") and not any(part[0] in "._" for part in path.parent.parts[1:]):
            assert path.relative_to(HOME).as_posix() in names
    for path in (HOME / "strategies").rglob("*.py"):
        assert f"chronicle_py/{path.relative_to(HOME).as_posix()}" in names


def test_the_wheels_metadata(wheel: zipfile.ZipFile) -> None:
    info = f"chronicle_py-{chronicle_py.__version__}.dist-info"
    metadata = Parser().parsestr(wheel.read(f"{info}/METADATA").decode())
    assert metadata["Name"] == "chronicle-py"
    assert metadata["Version"] == chronicle_py.__version__
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["License-Expression"] == "MIT"
    assert "chronicle = chronicle_py.cli:main" in wheel.read(f"{info}/entry_points.txt").decode()


def test_the_wheel_works_where_it_is_unpacked(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path)
    script = """
import sys
sys.path.insert(0, sys.argv[1])
import chronicle_py, chronicle_py.strategies
assert chronicle_py.__file__.startswith(sys.argv[1]), chronicle_py.__file__
assert chronicle_py.strategies.__doc__
with chronicle_py.open(sys.argv[1] + "/store") as store:
    store.register_state("messages", kind="append_log")
    store.branch().state("messages").append("hello")
    print(list(store.branch().state("messages")))
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", script, str(tmp_path)], capture_output=True, text=True, cwd=tmp_path, timeout=60
    )
    assert (done.stdout, done.stderr) == ("['hello']\n", "")
