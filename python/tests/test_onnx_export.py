"""Estimators as ONNX models, against onnxruntime."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
import sklearn.linear_model
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

import sudare
from sudare import errors, nn
from sudare.linear_model import LinearRegression, LogisticRegression, Ridge, to_onnx

CANCER = load_breast_cancer()
IRIS = load_iris()
# Columns from 0.05 to 800: without a shift, digits would be lost.
ROWS = CANCER.data[:, [0, 3, 4, 21]]


def computed(path: Path, rows: npt.NDArray[Any]) -> dict[str, Any]:
    """The outputs of a model by name."""
    onnx.checker.check_model(onnx.load(path), full_check=True)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"X": rows}), strict=True))


@pytest.mark.parametrize(
    ("rows", "labels"),
    [
        (ROWS, CANCER.target),
        (ROWS, CANCER.target_names[CANCER.target]),
        (ROWS, CANCER.target == 1),
        (ROWS, np.array(["né", "Ω"])[CANCER.target]),
        (IRIS.data, IRIS.target * 3 - 1),
        (IRIS.data, IRIS.target_names[IRIS.target]),
    ],
)
def test_classifiers_predict_the_same(
    rows: npt.NDArray[Any], labels: npt.NDArray[Any], tmp_path: Path
) -> None:
    model = LogisticRegression(mode="simulate").fit(rows, labels)
    to_onnx(model, tmp_path / "model.onnx")
    found = computed(tmp_path / "model.onnx", rows)
    scores = model.decision_function(rows)
    np.testing.assert_allclose(found["scores"].reshape(scores.shape), scores, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(rows), rtol=1e-9, atol=1e-15)
    assert found["label"].tolist() == model.predict(rows).tolist()

    to_onnx(model, tmp_path / "model.onnx", outputs="scores", overwrite=True)
    assert list(computed(tmp_path / "model.onnx", rows)) == ["scores"]
    network = nn.Network.load(tmp_path / "model.onnx")
    np.testing.assert_allclose(
        network.predict(rows).reshape(scores.shape), scores, rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("scaler", [StandardScaler(), MinMaxScaler(), MaxAbsScaler(), RobustScaler()])
@pytest.mark.parametrize("last", [LogisticRegression, LinearRegression, Ridge])
def test_pipelines_predict_the_same(scaler: Any, last: Any, tmp_path: Path) -> None:
    model = make_pipeline(scaler, last(mode="simulate")).fit(ROWS, CANCER.target)
    to_onnx(model, tmp_path / "model.onnx")
    found = computed(tmp_path / "model.onnx", ROWS)
    if last is LogisticRegression:
        np.testing.assert_allclose(found["probabilities"], model.predict_proba(ROWS), rtol=1e-8, atol=1e-15)
        return
    assert list(found) == ["scores"]
    np.testing.assert_allclose(found["scores"][:, 0], model.predict(ROWS), atol=1e-9)


def test_an_encrypted_model_comes_with_a_warning(tmp_path: Path) -> None:
    model = LinearRegression(insecure_log_n=9).fit(ROWS[:40], CANCER.target[:40])
    with pytest.warns(errors.SecurityWarning, match="tell about the secret key"):
        to_onnx(model, tmp_path / "raw.onnx")
    shared = LinearRegression(insecure_log_n=9, share_bits=8).fit(ROWS[:40], CANCER.target[:40])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        to_onnx(shared, tmp_path / "shared.onnx")
    assert (tmp_path / "shared.onnx").stat().st_mode & 0o77 == 0


def test_what_is_not_exported_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    fitted = LogisticRegression(mode="simulate", max_iter=2).fit(IRIS.data, IRIS.target)
    to_onnx(fitted, path)
    with pytest.raises(errors.ExistsError, match="overwrite=True"):
        to_onnx(fitted, path)
    with pytest.raises(errors.NotFittedError):
        to_onnx(LogisticRegression(), path)
    frame = {"ward": list("abab") * 5, "x": np.arange(20.0)}
    coded = LogisticRegression(mode="simulate", max_iter=2).fit(frame, np.arange(20) % 3 > 0)
    other = sklearn.linear_model.LogisticRegression().fit(IRIS.data, IRIS.target)
    turned = make_pipeline(PCA(2), LogisticRegression(mode="simulate", max_iter=2))
    for model, says in [
        (coded, "text, dates or gaps"),
        (other, "skl2onnx"),
        (turned.fit(IRIS.data, IRIS.target), "a PCA does not"),
    ]:
        with pytest.raises(errors.UnsupportedError, match=says):
            to_onnx(model, path, overwrite=True)
    with pytest.raises(errors.ArgumentError, match="outputs"):
        to_onnx(fitted, path, outputs="labels", overwrite=True)  # type: ignore[arg-type]
    with pytest.raises(errors.FileError):
        to_onnx(fitted, tmp_path / "none" / "model.onnx")
    assert sudare.linear_model.to_onnx is to_onnx
