"""Tests the command's search for the owner's page."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sudare

SERVER = "https://server.example"
FILES = {
    "index.html": '<meta content="{POLICY}"><body data-server="{SERVER}">',
    "worker.js": "// the thread with the keys",
}


def make_page(folder: Path) -> Path:
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The package as it is installed from source, without a page."""
    source, package = Path(sudare.__file__).parent, tmp_path / "site" / "sudare"
    ignore = shutil.ignore_patterns("page", "__pycache__")
    shutil.copytree(source, package, copy_function=os.symlink, ignore=ignore)
    return package


def export(package: Path, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Exports the page by `sudare web` of a package, and returns its output."""
    command = [sys.executable, "-m", "sudare", "--json", "web", "--server", SERVER]
    environment = {name: os.environ[name] for name in os.environ if name != "SUDARE_PAGE"}
    return subprocess.run(
        [*command, "--export", str(folder)],
        env={**environment, "PYTHONPATH": str(package.parent), **variables},
        cwd=package.parent,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_page_of_the_package_is_exported(package: Path, tmp_path: Path) -> None:
    make_page(package / "page")
    run = export(package, tmp_path / "out")
    assert run.returncode == 0, run.stderr
    files = json.loads(run.stdout)["files"]
    assert files.keys() == FILES.keys()
    for name, file in files.items():
        assert (tmp_path / "out" / name).stat().st_size == file["bytes"]
    assert f'data-server="{SERVER}"' in (tmp_path / "out/index.html").read_text()


def test_another_page_can_be_named(package: Path, tmp_path: Path) -> None:
    page = make_page(tmp_path / "page")
    run = export(package, tmp_path / "out", SUDARE_PAGE=str(page))
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "out/worker.js").read_text() == FILES["worker.js"]


def test_a_package_without_a_page_says_what_to_do(package: Path, tmp_path: Path) -> None:
    run = export(package, tmp_path / "out")
    assert run.returncode == 2
    error = json.loads(run.stderr.splitlines()[-1])
    assert error["kind"] == "Usage"
    assert str(package / "page") in error["error"]
    assert "make web" in error["error"] and "--page" in error["error"]
