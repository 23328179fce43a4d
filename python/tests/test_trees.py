"""Trees on encrypted rows, against scikit-learn and recorded models of other libraries."""

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.ensemble import (
    AdaBoostClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from sudare import errors, trees

RECORDED = Path(__file__).parents[2] / "crates/apps/tests/trees"
CANCER, DIABETES, IRIS = (load(return_X_y=True) for load in (load_breast_cancer, load_diabetes, load_iris))


def predicted(model: Any, x: Any) -> Any:
    return model.predict_proba(x) if hasattr(model, "predict_proba") else model.predict(x)


@pytest.mark.parametrize(
    ("model", "table"),
    [
        (DecisionTreeClassifier(max_depth=4, random_state=1), IRIS),
        (DecisionTreeRegressor(max_depth=5, random_state=1), DIABETES),
        (RandomForestClassifier(7, max_depth=4, random_state=1), CANCER),
        (RandomForestClassifier(7, max_depth=4, random_state=1), IRIS),
        (RandomForestRegressor(7, max_depth=4, random_state=1), DIABETES),
        (ExtraTreesRegressor(5, max_depth=6, random_state=1), DIABETES),
        (GradientBoostingClassifier(n_estimators=9, random_state=1), CANCER),
        (GradientBoostingClassifier(n_estimators=9, loss="exponential", random_state=1), CANCER),
        (GradientBoostingClassifier(n_estimators=4, init="zero", random_state=1), CANCER),
        (GradientBoostingClassifier(n_estimators=4, random_state=1), IRIS),
        (GradientBoostingRegressor(n_estimators=9, loss="huber", random_state=1), DIABETES),
    ],
)
def test_estimators_predict_alike(model: Any, table: Any) -> None:
    x, y = table
    model.fit(x, y)
    forest = trees.Forest.from_estimator(model)
    np.testing.assert_allclose(forest.predict(x), predicted(model, x), rtol=1e-6, atol=1e-9)
    assert forest.classes == [str(label) for label in getattr(model, "classes_", [])]


def test_encrypted_rows_have_the_predictions_of_the_grid(tmp_path: Path) -> None:
    x, y = CANCER
    x = x[:, :6]
    model = GradientBoostingClassifier(n_estimators=12, max_depth=3, random_state=1).fit(x[:400], y[:400])
    forest = trees.Forest.from_estimator(model)
    plan = trees.plan(forest, trees.Grid.fitted(x), tolerance=0.01)
    explained = plan.explain()
    assert (explained.bootstraps, explained.trees, explained.height) == (0, 12, 3)
    assert explained.error <= 0.01 and explained.security_bits >= 128
    assert "relinearisations" in str(explained)
    # The owner has no more than the setup, and the files of keys.
    setup = trees.Setup(plan.setup.to_json())
    secret, keys = setup.make_keys()
    secret.save(tmp_path / "secret.key", passphrase="six random words")
    keys.save(tmp_path / "evaluation.key")
    with pytest.raises(errors.PassphraseError):
        trees.Secret.open(tmp_path / "secret.key")
    secret = trees.Secret.open(tmp_path / "secret.key", passphrase="six random words")
    keys = trees.Keys.open(tmp_path / "evaluation.key")
    rows = x[400:]
    encrypted = setup.encrypt(secret, rows)
    steps: list[tuple[str, int, int]] = []
    scores = plan.compute(keys, encrypted, progress=lambda what, done, total: steps.append((what, done, total)))
    found = setup.decrypt(secret, scores)
    assert steps[-1] == ("blocks", 1, 1)
    # Raw scores are within the error, and the sigmoid has a slope of 1/4 at most.
    expected = forest.predict(plan.on_grid(rows))
    assert found.shape == expected.shape and np.abs(found - expected).max() <= 0.01 / 4
    assert np.abs(found - expected).max() > 0
    agreement = np.mean(found.argmax(axis=1) == model.predict(rows))
    assert agreement > 0.97
    # Other keys, other files.
    other, _ = setup.make_keys()
    with pytest.raises(errors.MismatchError):
        setup.decrypt(other, scores)
    with pytest.raises(errors.WrongFileError):
        plan.compute(keys, scores)
    with pytest.raises(errors.WrongFileError):
        setup.decrypt(secret, encrypted)
    with pytest.raises(errors.WrongFileError):
        plan.compute(keys, encrypted[: len(encrypted) // 2])
    with pytest.raises(errors.Error):
        pickle.dumps(secret)
    longer = GradientBoostingClassifier(n_estimators=13, max_depth=3, random_state=1).fit(x, y)
    another = trees.plan(trees.Forest.from_estimator(longer), trees.Grid.fitted(x))
    with pytest.raises(errors.TreesError, match="the model"):
        another.compute(keys, encrypted)
    with pytest.raises(errors.MismatchError):
        another.setup.encrypt(secret, rows)


def test_whole_numbers_keep_their_predictions() -> None:
    rng = np.random.default_rng(1)
    x = rng.integers(0, 100, (300, 3)).astype(float)
    y = (x[:, 0] > 40) * 1.0 + (x[:, 1] > x[:, 2]) * 2.0
    model = RandomForestClassifier(5, max_depth=4, random_state=1).fit(x, y)
    plan = trees.plan(trees.Forest.from_estimator(model), trees.Grid.fitted(x))
    np.testing.assert_array_equal(plan.on_grid(x), x)
    found = plan.execute(x[:50])
    assert np.abs(found - model.predict_proba(x[:50])).max() <= plan.explain().error


@pytest.mark.parametrize(
    "name",
    ["xgboost-classes.model.json", "lightgbm-binary.model.txt", "onnx-regression.model.onnx"],
)
def test_models_of_other_libraries_are_read(name: str, tmp_path: Path) -> None:
    read = {"x": trees.Forest.from_xgboost, "l": trees.Forest.from_lightgbm, "o": trees.Forest.from_onnx}
    forest = read[name[0]](RECORDED / name)
    recorded = json.loads((RECORDED / f"{name.split('.')[0]}.json").read_text())
    found = forest.predict(recorded["rows"])
    expected = np.array(recorded["predictions"])
    np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=1e-5, atol=1e-6)
    forest.save(tmp_path / "forest.json")
    np.testing.assert_array_equal(trees.Forest.load(tmp_path / "forest.json").predict(recorded["rows"]), found)
    with pytest.raises(errors.ExistsError):
        forest.save(tmp_path / "forest.json")


class Booster:
    """A model of XGBoost, as this package sees it."""

    def __init__(self, missing: float) -> None:
        self.missing = missing

    def save_raw(self, raw_format: str) -> bytearray:
        assert raw_format == "json"
        return bytearray((RECORDED / "xgboost-binary.model.json").read_bytes())


def test_misuse_is_refused() -> None:
    x, y = IRIS
    model = DecisionTreeClassifier(max_depth=2, random_state=1).fit(x, y)
    forest = trees.Forest.from_estimator(model)
    plan = trees.plan(forest, trees.Grid.fitted(x))
    with pytest.raises(errors.TreesError, match="row 1 is 1000000"):
        raise_outside = x[:2].copy()
        raise_outside[1, 2] = 1e6
        plan.execute(raise_outside)
    with pytest.raises(errors.TreesError, match="row 0 is NaN"):
        forest.predict([[np.nan, 1, 1, 1]])
    for rows in [x[:, :2], x[0], x[:0]]:
        with pytest.raises(errors.TreesError, match="shape"):
            plan.execute(rows)
    with pytest.raises(errors.NotFittedError):
        trees.Forest.from_estimator(RandomForestClassifier())
    for other in [
        HistGradientBoostingClassifier(max_iter=2).fit(x, y),
        AdaBoostClassifier(n_estimators=2).fit(x, y),
        GradientBoostingRegressor(n_estimators=2, init=DecisionTreeRegressor()).fit(x, y),
        RandomForestRegressor(2).fit(x, np.stack([y, y], axis=1)),
        RandomForestClassifier(2).fit(x, np.zeros(len(x))),
    ]:
        with pytest.raises(errors.TreesError):
            trees.Forest.from_estimator(other)
    assert len(trees.Forest.from_xgboost(Booster(np.nan))) == 6
    with pytest.raises(errors.TreesError, match="missing"):
        trees.Forest.from_xgboost(Booster(0))
    with pytest.raises(errors.TreesError):
        trees.Grid.fitted(x * np.nan)
    with pytest.raises(errors.TreesError):
        trees.Setup("{}")
    with pytest.raises(errors.TreesError):
        trees.plan(forest, trees.Grid.fitted(x[:, :3]))
    with pytest.raises(errors.TreesError):
        trees.plan(forest, trees.Grid.fitted(x), tolerance=1e-300)
