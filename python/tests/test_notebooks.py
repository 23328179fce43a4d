"""Tests completion, tables and progress in notebooks, and runs the notebooks of the examples."""

from __future__ import annotations

import ast
import importlib
import json
import pickle
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sudare
from sudare import _progress, errors, nn, pool, scoring, search, stats
from sudare._shown import columns_html
from sudare.linear_model import LinearRegression, LogisticRegression

ROOT = Path(__file__).parents[2]
MODULES = (
    *("client", "distributed", "errors", "functions", "linear_model", "nn", "pool", "scoring"),
    *("search", "stats"),
)


def blocks() -> str:
    """Lists the Python blocks of the documents and the examples."""
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "python/README.md"]
    texts = [page.read_text(encoding="utf-8") for page in pages]
    found = [block for text in texts for block in re.findall(r"```python[^\n]*\n(.*?)```", text, re.S)]
    found += [path.read_text(encoding="utf-8") for path in (ROOT / "python/examples").glob("*.py")]
    return "\n".join(found)


def test_names_of_the_documents_complete() -> None:
    text = blocks()
    used = set(re.findall(r"\bsudare\.([A-Za-z]\w*)", text))
    used |= set(
        name
        for names in re.findall(r"^from sudare import ([\w, ]+)", text, re.M)
        for name in names.split(", ")
    )
    assert {"Context", "LogisticRegression", "nn", "Client"} <= used
    assert used <= set(dir(sudare)), used - set(dir(sudare))
    for name in MODULES:
        module = importlib.import_module(f"sudare.{name}")
        used = set(re.findall(rf"\b{name}\.([A-Z]\w*|[a-z]\w*)\(", text)) if name != "client" else set()
        assert used <= set(dir(module)), (name, used - set(dir(module)))


@pytest.mark.parametrize("name", ["", *MODULES])
def test_names_are_those_of_the_interface(name: str) -> None:
    module = importlib.import_module(f"sudare.{name}".rstrip("."))
    assert dir(module) == sorted(module.__all__)
    for found in module.__all__:
        value = getattr(module, found)
        assert name == "" or not isinstance(value, ModuleType), found


class _Checked(HTMLParser):
    """Checks that tags are balanced, and keeps the text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)
        self.tags.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += f"{data} "


TABLE = {"<b>age</b>": [31.0, 45.0, 52.0, 38.0], "dose": [1.0, 2.0, 2.5, 1.0], "ward": [0, 1, 0, 1]}


def shown() -> dict[str, Any]:
    """Makes values of each class with a notebook view, by a text in that view."""
    simulated = sudare.Context(depth=1, mode="simulate")
    integers = sudare.IntegerContext(65537, 1)
    summary = stats.run(TABLE)
    groups = stats.run(TABLE, "groups", by="ward")
    rng = np.random.default_rng(0)
    rows, classes = rng.normal(size=(40, 2)), np.arange(40) % 2
    targets = rows[:, 0] + rng.normal(size=40)
    network = nn.Network.dense([(np.eye(2), np.zeros(2)), (np.eye(2), np.zeros(2))])
    planned = nn.plan(network, batch=2, calibration=rows)
    model = LogisticRegression(mode="simulate", max_iter=2).fit(rows, classes)
    return {
        "evaluation keys": sudare.Context(depth=1).explain(),
        "nothing is encrypted": simulated,
        "made when you first need them": sudare.Context(depth=1),
        "BGV": integers,
        "from -32768 to 32768": integers.explain(),
        "EncryptedArray in simulation": simulated.encrypt([1.0, 2.0]),
        "stats:4x3": stats.plan(TABLE),
        "Summary of 4 rows": summary,
        "2 groups by ward": groups,
        "Histograms of 4 rows": stats.run(TABLE, "histogram", bins=2),
        "degrees of freedom": summary.t_test("dose", "ward"),
        "Least squares of dose": stats.run({"dose": targets, "a": rows[:, 0]}).least_squares("dose"),
        "Network": network,
        "samples": planned,
        "headroom": planned.simulate(rows[:1]),
        "log2 QP": planned.explain(),
        "odds_ratio": model.summary(rows, classes),
        "R squared 0": LinearRegression(mode="simulate").fit(rows, targets).summary(),
        "leakage": search.plan(100, 8),
        "owners": pool.Schema.draft(rows, classes, owners=["north", "<i>south</i>"]),
        "predict:4x2": scoring.plan(4, 2),
    }


def test_values_are_tables() -> None:
    for text, value in shown().items():
        html = value._repr_html_()
        checked = _Checked(html)
        assert text in checked.text, (type(value), checked.text)
        assert set(checked.tags) <= {"table", "caption", "thead", "tbody", "tr", "th", "td", "p", "br"}
        assert "\n" not in repr(value) and " at 0x" not in repr(value), repr(value)


def test_names_of_users_are_escaped_and_long_tables_are_cut() -> None:
    html = stats.run(TABLE)._repr_html_()
    assert "<b>" not in html and "&lt;b&gt;age" in html
    checked = _Checked(columns_html("long", {"x": np.arange(100.0)}))
    assert checked.tags.count("tr") == 61 and "40 more rows" in checked.text


@pytest.mark.parametrize("has_sklearn", [True, False])
def test_estimators_are_shown_with_or_without_scikit_learn(has_sklearn: bool) -> None:
    program = f"""
import sys
if not {has_sklearn}:
    sys.modules["sklearn"] = None
import sudare
model = sudare.LogisticRegression(mode="simulate", C=0.5)
assert "LogisticRegression" in model._repr_html_() and "0.5" in model._repr_html_()
fitted = model.fit([[0.0], [1.0]] * 9, [0, 1] * 9, sample_weight=[1, 2] * 9)
print(fitted.classes_)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "[0 1]\n"


def test_keys_show_no_secret(ctx: sudare.Context) -> None:
    for value in (ctx, ctx.keys):
        html = value._repr_html_()
        _Checked(html)
        assert ctx.keys.secret.key_id in html
        secret = [part for part in re.findall(r"<td[^>]*>(.*?)</td>", html) if "SecretKey" in part]
        assert secret == [f"SecretKey(key_id={ctx.keys.secret.key_id}, ...)"]
    assert "ciphertext" in ctx.encrypt([1.0])._repr_html_()
    with pytest.raises(errors.UnsupportedError):
        pickle.dumps(ctx)


def test_progress_without_tqdm_is_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    context = sudare.Context(depth=1, progress=True)
    count = len(context.keys.evaluation)
    LogisticRegression(mode="simulate", max_iter=2, progress=True).fit([[0.0], [1.0]] * 9, [0, 1] * 9)
    samples = np.eye(2)
    network = nn.Network.dense([(np.eye(2), np.zeros(2))])
    nn.plan(network, batch=1, calibration=samples).execute(samples, progress=True)
    text = capsys.readouterr().err
    assert f"evaluation keys: {count} of {count}\n" in text
    assert "training in the clear: 2 of 2\n" in text
    assert "computing: 1 of 2\ncomputing: 2 of 2\n" in text
    lines = len(text.splitlines())
    report = _progress.callback(True)
    assert report is not None
    for done in range(1001):
        report("step", done, 1000)
    assert len(capsys.readouterr().err.splitlines()) == 2 < lines


def test_parts_of_a_single_step_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    calls = []
    report = _progress.callback_of_parts(lambda *call: calls.append(call), "computing")
    assert report is not None and _progress.callback_of_parts(None, "computing") is None
    report(1, 2)
    assert calls == [(1, 2)]
    shows = _progress.callback_of_parts(True, "computing")
    assert shows is not None
    shows(1, 1)
    assert "computing" in capsys.readouterr().err


def test_files_are_replaced_only_on_request(tmp_path: Path) -> None:
    network, path = nn.Network.dense([(np.eye(2), np.zeros(2))]), tmp_path / "network.json"
    network.save(path)
    with pytest.raises(errors.ExistsError, match="network.json"):
        network.save(path)
    network.save(path, overwrite=True)
    assert nn.Network.load(path).input_shape == (2,)


NOTEBOOKS = sorted(path.name for path in (ROOT / "python/examples").glob("*.ipynb"))


def cells(name: str) -> list[dict[str, Any]]:
    document = json.loads((ROOT / "python/examples" / name).read_text(encoding="utf-8"))
    assert document["nbformat"] == 4
    found: list[dict[str, Any]] = document["cells"]
    return found


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    last: object = None
    for number, cell in enumerate(cells(name)):
        if cell["cell_type"] != "code":
            continue
        tree = ast.parse("".join(cell["source"]), f"{name}, cell {number}")
        value = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, f"{name}, cell {number}", "exec"), names)
        if isinstance(value, ast.Expr):
            code = compile(ast.Expression(value.value), f"{name}, cell {number}", "eval")
            last = eval(code, names)
            # The value of a cell is shown.
            if hasattr(last, "_repr_html_"):
                last._repr_html_()
    assert last is not None
    assert not list(tmp_path.iterdir()), "a notebook leaves no file behind"


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_is_short_and_has_no_outputs(name: str) -> None:
    found = cells(name)
    assert found[0]["cell_type"] == "markdown"
    code = [cell for cell in found if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    assert sum(len(cell["source"]) for cell in code) <= 60
    index = (ROOT / "python/examples/README.md").read_text(encoding="utf-8")
    assert f"`{name}`" in index
