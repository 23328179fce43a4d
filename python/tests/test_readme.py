"""The programs of the README run as they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest


def test_the_readme_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (Path(__file__).parents[1] / "README.md").read_text()
    programs = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(programs) == 6
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for program in programs:
        exec(program, names)
    printed = capsys.readouterr().out
    numbers = [float(x) for x in re.findall(r"\d+\.\d+", printed)[:4]]
    assert numbers == pytest.approx([27 + 2 / 3, 36 + 2 / 3, 47 + 2 / 3, 60 + 2 / 3], abs=1e-4)
    assert "security" in printed
