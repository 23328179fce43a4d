"""Pictures of models."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss, roc_auc_score, roc_curve

from sudare import errors
from sudare.linear_model import LogisticRegression

matplotlib.use("Agg")

HISTORY = [[0.0, 0.5, 0.0], [0.1, 1.0, -0.5], [0.2, 1.5, -1.0]]


def model(folder: Path, *, history: bool) -> LogisticRegression:
    values = {
        "kind": "logistic regression",
        "weights": HISTORY[-1],
        "columns": ["a", "b"],
        "target": "y",
        "divisors": [2.0, 4.0],
        "iterations": 3,
        "rows": 9,
    }
    (folder / "m.json").write_text(json.dumps(values | ({"history": HISTORY} if history else {})))
    return LogisticRegression.open(folder / "m.json")


def table() -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(3)
    rows = rng.integers(-3, 4, (200, 2)).astype(float)
    members = rows[:, 0] - rows[:, 1] / 2 + rng.normal(size=200) > 0
    return pd.DataFrame(rows, columns=["a", "b"]), members.astype(int)


def test_curves_are_those_of_scikit_learn(tmp_path: Path) -> None:
    fitted, (rows, members) = model(tmp_path, history=True), table()
    losses, roc = fitted.plot(rows, members)
    x, y = losses.lines[0].get_data()
    np.testing.assert_array_equal(x, [1, 2, 3])
    for weights, loss in zip(np.array(HISTORY), y, strict=True):
        scores = weights[0] + rows.to_numpy() @ (weights[1:] / [2, 4])
        assert loss == pytest.approx(log_loss(members, 1 / (1 + np.exp(-scores))), rel=1e-9)
    x, y = roc.lines[0].get_data()
    scores = fitted.decision_function(rows)
    first, second, _ = roc_curve(members, scores, drop_intermediate=False)
    np.testing.assert_allclose([x, y], [first, second])
    shown = f"AUC {roc_auc_score(members, scores):.4f}"
    assert roc.get_legend().get_texts()[0].get_text() == shown


def test_axes_of_plots(tmp_path: Path) -> None:
    fitted, (rows, members) = model(tmp_path, history=False), table()
    assert not hasattr(fitted, "history_")
    (drawn,) = fitted.plot(rows, members)
    assert fitted.plot(rows, members, axes=drawn) == [drawn]
    fitted = model(tmp_path, history=True)
    with pytest.raises(errors.ArgumentError, match="1 axes"):
        fitted.plot(rows, members, axes=drawn)
    for classes in [members[:-1], np.ones(200)]:
        with pytest.raises(errors.ArgumentError, match="rows of all of 0, 1"):
            fitted.plot(rows, classes)


def test_fits_have_a_training_curve() -> None:
    rows, members = table()
    fitted = LogisticRegression(mode="simulate", history=True, calibrate=False).fit(rows, members)
    losses, _ = fitted.plot(rows, members)
    x, y = losses.lines[0].get_data()
    np.testing.assert_array_equal(x, [1, 2, 3, 4, 5])
    assert y[-1] < y[0] < np.log(2)
    assert y[-1] == pytest.approx(log_loss(members, fitted.predict_proba(rows)[:, 1]), rel=1e-6)


def test_several_classes_have_a_curve_each() -> None:
    rows, members = table()
    three = members + (rows["b"] > 1)
    fitted = LogisticRegression(mode="simulate", history=True, calibrate=False).fit(rows, three)
    losses, roc = fitted.plot(rows, three)
    _, y = losses.lines[0].get_data()
    assert y[-1] == pytest.approx(log_loss(three, fitted.predict_proba(rows)), rel=1e-6)
    shown = [text.get_text() for text in roc.get_legend().get_texts()]
    of_class = fitted.decision_function(rows)[:, 2]
    assert shown[2] == f"2 AUC {roc_auc_score(three == 2, of_class):.4f}" and len(shown) == 3


def test_matplotlib_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(errors.MissingDependencyError, match="pip install matplotlib"):
        model(tmp_path, history=True).plot(*table())
