"""Features whose packages are not installed: errors that name the package and the extra."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

FEATURES = [
    ("httpx", "client", "sudare.Client"),
    ("blake3", "client", "from sudare import client"),
    ("narwhals", "frames", "import pandas, sudare.stats; sudare.stats.plan(pandas.DataFrame({'a': [1.0, 2.0]}))"),
    ("matplotlib", "plot", "from sudare import _plot; _plot.axes(1, None)"),
]


@pytest.mark.parametrize(("package", "extra", "code"), FEATURES)
def test_errors_name_the_extra(package: str, extra: str, code: str) -> None:
    # A name that is None in `sys.modules` cannot be imported.
    absent = f"sys.modules.update(dict.fromkeys(['{package}', '{package}.pyplot', '{package}.stable.v2']))"
    code = (
        f"import sys, sudare; {absent}\ntry:\n    {code}\n"
        "except sudare.errors.MissingDependencyError as error:\n    print(error.kind, error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert f"needs {package}: pip install {package}" in done.stdout, done.stdout + done.stderr
    assert f"the extra `{extra}`" in done.stdout and done.stdout.startswith("MissingDependency ")
    requirements = re.search(rf"(?m)^{extra} = \[(.*)\]$", (ROOT / "pyproject.toml").read_text())
    assert requirements is not None and re.search(rf'"{package}\b', requirements[1])
