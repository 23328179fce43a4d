"""Runs the programs in `examples`, which check their own results."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
PROGRAMS = sorted(path.name for path in EXAMPLES.glob("*.py"))
MAX_LINES = 60


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    program = [sys.executable, "-W", "error::DeprecationWarning:__main__", str(EXAMPLES / name)]
    ran = subprocess.run(program, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
    assert ran.stdout.strip(), "an example prints a result"
    assert not list(tmp_path.iterdir()), "an example leaves no file behind"


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_example_is_short_enough_to_copy(name: str) -> None:
    lines = (EXAMPLES / name).read_text(encoding="utf-8").splitlines()
    assert len(lines) <= MAX_LINES


def test_the_index_lists_every_example() -> None:
    index = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert PROGRAMS == sorted(name for name in PROGRAMS if f"`{name}`" in index)
