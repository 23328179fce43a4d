"""Compares trained models with scikit-learn's, on several tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import sklearn.linear_model
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.impute import SimpleImputer
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from sudare import errors
from sudare.linear_model import LogisticRegression, compute

Floats = npt.NDArray[np.float64]

# A ring without security in which a training takes a second.
SMALL = 11

DATA = Path(__file__).parents[2] / "crates/table/data"


def bundled(name: str) -> tuple[Floats, npt.NDArray[Any]]:
    table = pd.read_csv(DATA / f"{name}.csv")
    return table.drop(columns="y").to_numpy(float), table["y"].to_numpy()


TABLES: dict[str, Any] = {
    "breast cancer": lambda: load_breast_cancer(return_X_y=True),
    "wine": lambda: load_wine(return_X_y=True),
    "digits": lambda: load_digits(return_X_y=True),
    "lbw": lambda: bundled("lbw"),
    "uis": lambda: bundled("uis"),
}


def auc(model: Any, rows: Any, classes: Any) -> float:
    found = model.predict_proba(rows)
    second = found[:, 1] if found.shape[1] == 2 else found
    return float(roc_auc_score(classes, second, multi_class="ovr"))


def twin(**options: Any) -> Any:
    """Fits scikit-learn's model on standardised columns."""
    exact = sklearn.linear_model.LogisticRegression(max_iter=10_000, tol=1e-8, **options)
    return make_pipeline(StandardScaler(), exact)


@pytest.mark.parametrize("name", TABLES)
def test_defaults_are_as_good_as_scikit_learn(name: str) -> None:
    """Compares both on held-out rows of four divisions of the table."""
    rows, classes = TABLES[name]()
    found: list[tuple[float, float]] = []
    expected: list[tuple[float, float]] = []
    for seed in range(4):
        parts = train_test_split(rows, classes, test_size=0.3, random_state=seed, stratify=classes)
        seen, unseen, of_seen, of_unseen = parts
        for model, results in ((LogisticRegression(mode="simulate"), found), (twin(), expected)):
            model.fit(seen, of_seen)
            results.append((auc(model, unseen, of_unseen), model.score(unseen, of_unseen)))
    difference = np.mean(expected, axis=0) - np.mean(found, axis=0)
    assert difference[0] < 0.005 and difference[1] < 0.01, difference


@pytest.mark.parametrize("name", ["breast cancer", "wine"])
def test_encrypted_defaults_are_as_good_as_scikit_learn(name: str) -> None:
    rows, classes = TABLES[name]()
    seen, unseen, of_seen, of_unseen = train_test_split(
        rows, classes, test_size=0.3, random_state=1, stratify=classes
    )
    model = LogisticRegression(insecure_log_n=12).fit(seen, of_seen)
    exact = twin().fit(seen, of_seen)
    assert auc(model, unseen, of_unseen) > auc(exact, unseen, of_unseen) - 0.005
    assert model.score(unseen, of_unseen) > exact.score(unseen, of_unseen) - 0.01
    simulated = clone(model).set_params(mode="simulate").fit(seen, of_seen)
    assert model.coef_.shape == simulated.coef_.shape
    scale = seen.std(axis=0)
    largest = np.abs(simulated.coef_ * scale).max()
    np.testing.assert_allclose(
        model.coef_ * scale, simulated.coef_ * scale, atol=0.02 * max(1.0, largest)
    )


def standardised(rows: Floats) -> Floats:
    spread = rows.std(axis=0)
    scaled: Floats = (rows - rows.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return scaled


def converged(rows: Floats, classes: Any, **options: Any) -> LogisticRegression:
    """Compares both after enough iterations, calibrated or not."""
    own: dict[str, Any] = {"max_iter": 40, "sigmoid_degree": 7, **options}
    return LogisticRegression(mode="simulate", **own).fit(rows, classes)


@pytest.mark.parametrize(("name", "C"), [("lbw", 1.0), ("uis", 1.0), ("lbw", 0.01), ("uis", 0.003)])
def test_coefficients_are_those_of_scikit_learn(name: str, C: float) -> None:
    rows, classes = TABLES[name]()
    scaled = standardised(rows)
    exact = sklearn.linear_model.LogisticRegression(C=C, tol=1e-9, max_iter=10_000)
    expected = exact.fit(scaled, classes).coef_
    tolerance = 0.02 * np.abs(expected).max()
    for preparation in ("whiten", "standardize"):
        model = converged(scaled, classes, C=C, preparation=preparation)
        np.testing.assert_allclose(model.coef_, expected, atol=tolerance)
    # The same for unchanged columns, and with `alpha`.
    model = converged(rows, classes, alpha=1 / (C * len(rows)))
    np.testing.assert_allclose(model.coef_ * rows.std(axis=0), expected, atol=tolerance)
    assert model.intercept_ == pytest.approx(
        exact.intercept_ - expected @ (rows.mean(axis=0) / rows.std(axis=0)), abs=20 * tolerance
    )


def badly_conditioned(seed: int, condition: float) -> tuple[Floats, npt.NDArray[Any]]:
    """Columns of very different sizes whose standardised forms depend on each other."""
    random = np.random.default_rng(seed)
    count, width = 300, 6
    left, _, right = np.linalg.svd(random.normal(size=(count, width)), full_matrices=False)
    rows: Floats = (left * np.geomspace(1, 1 / condition, width)) @ right
    logits = 3 * standardised(rows) @ random.normal(size=width) / width**0.5
    classes = (random.random(count) < 1 / (1 + np.exp(-logits))).astype(int)
    return rows * 10 ** random.uniform(-8, 8, width) + random.normal(size=width), classes


@pytest.mark.parametrize("condition", [1e1, 1e2, 1e4, 1e6, 1e8])
@pytest.mark.parametrize("seed", range(3))
def test_columns_of_any_size_that_depend_on_each_other(seed: int, condition: float) -> None:
    rows, classes = badly_conditioned(seed, condition)
    model, exact = LogisticRegression(mode="simulate").fit(rows, classes), twin()
    exact.fit(rows, classes)
    assert auc(model, rows, classes) > auc(exact, rows, classes) - 0.005
    assert model.score(rows, classes) > exact.score(rows, classes) - 0.02
    found = model.predict_proba(rows)[:, 1]
    np.testing.assert_allclose(found, exact.predict_proba(rows)[:, 1], atol=0.12)


def test_constant_and_repeated_columns_change_nothing() -> None:
    rows, classes = bundled("lbw")
    plain = LogisticRegression(mode="simulate").fit(rows, classes)
    more = np.column_stack([rows, np.full(len(rows), 7.0), 3 * rows[:, 0] - 1])
    model = LogisticRegression(mode="simulate").fit(more, classes)
    assert abs(model.coef_[0, 9]) < 1e-12
    np.testing.assert_allclose(
        model.predict_proba(more), plain.predict_proba(rows), atol=0.03
    )
    exact = twin().fit(more, classes)
    assert auc(model, more, classes) > auc(exact, more, classes) - 0.005
    with pytest.raises(errors.Error):
        LogisticRegression(mode="simulate").fit(np.full((9, 2), 3.0), np.arange(9) % 1)


def test_more_columns_than_rows() -> None:
    random = np.random.default_rng(5)
    rows = random.normal(size=(40, 120))
    classes = rows[:, :3].sum(axis=1) > 0
    model, exact = LogisticRegression(mode="simulate").fit(rows, classes), twin().fit(rows, classes)
    assert model.score(rows, classes) == exact.score(rows, classes) == 1.0
    new = random.normal(size=(400, 120))
    truth = new[:, :3].sum(axis=1) > 0
    assert auc(model, new, truth) > auc(exact, new, truth) - 0.02


def test_far_away_columns_lose_no_digits() -> None:
    rows, classes = bundled("lbw")
    far = LogisticRegression(mode="simulate").fit(rows + 1e9, classes)
    near = LogisticRegression(mode="simulate").fit(rows, classes)
    found = far.decision_function(rows + 1e9)
    np.testing.assert_allclose(found, near.decision_function(rows), atol=1e-4)


def test_several_classes() -> None:
    rows, classes = load_wine(return_X_y=True)
    names = np.array(["barolo", "grignolino", "barbera"])[classes]
    model = LogisticRegression(mode="simulate", history=True).fit(rows, names)
    assert list(model.classes_) == ["barbera", "barolo", "grignolino"]
    assert (model.coef_.shape, model.intercept_.shape) == ((3, 13), (3,))
    scores, found = model.decision_function(rows), model.predict_proba(rows)
    assert scores.shape == (178, 3)
    softmax = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found, softmax, atol=1e-12)
    np.testing.assert_array_equal(model.predict(rows), model.classes_[scores.argmax(axis=1)])
    assert model.history_.shape == (model.n_iter_, 3, 14)
    plain = clone(model).set_params(calibrate=False).fit(rows, names)
    last = np.column_stack([plain.intercept_, plain.coef_])
    np.testing.assert_allclose(model.history_[-1], last, atol=1e-9)
    # Each class against all others.
    for place, name in enumerate(plain.classes_):
        alone = clone(plain).fit(rows, names == name)
        np.testing.assert_allclose(plain.coef_[place], alone.coef_[0], atol=0.05)


def test_weights_of_several_classes() -> None:
    rows, classes = load_wine(return_X_y=True)
    model = LogisticRegression(mode="simulate", class_weight={0: 5.0, 2: 0.2}, C=0.001)
    plain = clone(model).set_params(class_weight=None).fit(rows, classes)
    shares = model.fit(rows, classes).predict_proba(rows).mean(axis=0)
    assert shares[0] > 1.5 * plain.predict_proba(rows).mean(axis=0)[0] and shares[2] < 0.15
    balanced = clone(model).set_params(class_weight="balanced").fit(rows, classes)
    assert balanced.score(rows, classes) > 0.9


def test_several_classes_are_trained_on_a_server() -> None:
    rows, classes = load_wine(return_X_y=True)
    names = np.array(["c", "a", "b"])[classes]
    owner = LogisticRegression(insecure_log_n=12)
    for plan in (owner.plan(*rows.shape, n_classes=3), owner.plan(rows, names)):
        assert "3 classes" in plan.job
        keys = plan.make_keys()
        result = compute(owner.encrypt(rows, names, keys.public), keys.evaluation, history=True)
        other = LogisticRegression().decrypt(result, keys.secret)
        assert list(other.classes_) == ["a", "b", "c"] and other.coef_.shape == (3, 13)
        assert other.history_.shape == (other.n_iter_, 3, 14)
        simulated = clone(owner).set_params(
            mode="simulate", calibrate=False, sigmoid_range=other.sigmoid_range_
        )
        expected = simulated.fit(rows, names).coef_ * rows.std(axis=0)
        np.testing.assert_allclose(other.coef_ * rows.std(axis=0), expected, atol=2.0**-7)
        owner.decrypt(result, keys.secret, rows, names)
        assert owner.score(rows, names) > 0.98
    with pytest.raises(errors.ArgumentError, match="n_classes"):
        owner.plan(*rows.shape, n_classes=-1)
    with pytest.raises(errors.ArgumentError):
        owner.plan(*rows.shape, n_classes=1)


def patients(count: int = 400, seed: int = 0) -> tuple[pd.DataFrame, npt.NDArray[Any]]:
    """Rows of numbers, truth values and categories of three types."""
    random = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": random.normal(50, 10, count),
            "ward": random.choice(["east", "north", "south"], count, p=[0.5, 0.3, 0.2]),
            "smoker": random.random(count) < 0.3,
            "grade": pd.Categorical(random.choice([1, 2, 10], count)),
            "weight": random.normal(70, 12, count),
        }
    )
    frame["insured"] = np.array(["yes", "no"], dtype=object)[random.integers(0, 2, count)]
    logits = (
        (frame["age"] - 50) / 8
        + 1.5 * (frame["ward"] == "south")
        - 1.0 * frame["smoker"]
        + 0.8 * (frame["grade"] == 10)
    )
    ill = random.random(count) < 1 / (1 + np.exp(-logits))
    return frame, np.where(ill, "ill", "well")


CODED = ["age", "ward=east", "ward=north", "ward=south", "smoker", "grade=1", "grade=2",
         "grade=10", "weight", "insured=no", "insured=yes"]  # fmt: skip


def coded_twin() -> Any:
    """Standardised one-hot columns, which is how categories are penalised here."""
    texts = ["ward", "grade", "insured"]
    coder = make_column_transformer(
        (OneHotEncoder(sparse_output=False), texts),
        (SimpleImputer(), ["age", "weight", "smoker"]),
    )
    return make_pipeline(coder, StandardScaler(), sklearn.linear_model.LogisticRegression())


def test_categories_are_coded(tmp_path: Path) -> None:
    frame, classes = patients()
    model = LogisticRegression(mode="simulate").fit(frame, classes)
    assert list(model.columns_) == CODED and model.coef_.shape == (1, len(CODED))
    assert list(model.feature_names_in_) == list(frame.columns) and model.n_features_in_ == 6
    assert model.encoding_ is not None and model.encoding_["target"]["classes"] == ["ill", "well"]
    exact = coded_twin().fit(frame, classes)
    new, truth = patients(seed=1)
    found, expected = (m.predict_proba(new)[:, 1] for m in (model, exact))
    np.testing.assert_allclose(found, expected, atol=0.03)
    # Columns in any order; through a file; pickled data types do not matter.
    shuffled = new[new.columns[::-1]].astype({"grade": object, "smoker": object})
    np.testing.assert_array_equal(model.predict_proba(shuffled)[:, 1], found)
    model.save(tmp_path / "model.json")
    opened = LogisticRegression.open(tmp_path / "model.json")
    np.testing.assert_allclose(opened.predict_proba(new)[:, 1], found, atol=1e-12)
    assert opened.encoding_ == model.encoding_ == json.loads(
        (tmp_path / "model.json").read_text()
    )["encoding"]
    assert opened.score(new, truth) == model.score(new, truth)
    for bad, error, says in [
        (new.replace({"ward": {"east": "west"}}), errors.TableError, "west"),
        (new.drop(columns="ward"), errors.TableError, "ward"),
        (new.assign(height=1.0), errors.TableError, "height"),
        (new.mask(new["age"] > 60), errors.Error, "missing|empty|lacks|value"),
        (new.to_numpy()[:, :3], errors.Error, "numbers|features"),
    ]:
        with pytest.raises(error, match=says):
            model.predict(bad)
    zero = LogisticRegression(mode="simulate", unseen="zero").fit(frame, classes)
    west = new.replace({"ward": {"east": "west", "north": "west", "south": "west"}})
    expected = zero.decision_function(new.assign(ward="east")) - zero.coef_[0, 1]
    np.testing.assert_allclose(zero.decision_function(west), expected, atol=1e-9)


def test_categories_are_trained_on_a_server() -> None:
    frame, classes = patients(200)
    owner = LogisticRegression(insecure_log_n=12)
    plan = owner.plan(frame, classes)
    assert f"200x{len(CODED)}" in plan.job
    keys = plan.make_keys()
    result = compute(owner.encrypt(frame, classes, keys.public), keys.evaluation)
    loaded = LogisticRegression().decrypt(result, keys.secret, frame, classes)
    assert list(loaded.classes_) == ["ill", "well"] and list(loaded.columns_) == CODED
    simulated = LogisticRegression(mode="simulate").fit(frame, classes)
    np.testing.assert_allclose(
        loaded.predict_proba(frame), simulated.predict_proba(frame), atol=0.01
    )
    # Rows of other categories have another number of features.
    with pytest.raises(errors.ShapeError, match="features"):
        owner.encrypt(frame.replace({"ward": {"south": "east"}}), classes, keys.public)


@pytest.mark.parametrize("missing", ["mean", "flag", "drop"])
def test_missing_values(missing: Any) -> None:
    frame, classes = patients()
    gaps = frame.copy()
    random = np.random.default_rng(2)
    gaps.loc[random.random(len(gaps)) < 0.2, "age"] = np.nan
    gaps.loc[random.random(len(gaps)) < 0.1, "ward"] = None
    with pytest.raises(errors.Error):
        LogisticRegression(mode="simulate").fit(gaps, classes)
    model = LogisticRegression(mode="simulate", missing=missing).fit(gaps, classes)
    whole = gaps.notna().all(axis=1)
    names = list(model.columns_)
    assert ("age missing" in names) == (missing == "flag")
    assert ("ward missing" in names) == (missing in ("mean", "flag"))
    if missing == "drop":
        again = LogisticRegression(mode="simulate").fit(gaps[whole], classes[whole])
        np.testing.assert_allclose(model.coef_, again.coef_, atol=1e-9)
        with pytest.raises(errors.TableError, match="row"):
            model.predict(gaps)
        return
    assert model.score(gaps, classes) > 0.7
    mean = gaps["age"].mean()
    filled = gaps.assign(age=gaps["age"].fillna(mean))
    if missing == "mean":
        np.testing.assert_allclose(
            model.decision_function(gaps), model.decision_function(filled), atol=1e-9
        )
    # A gap that the training table lacks.
    found = model.decision_function(gaps.assign(weight=np.nan))
    expected = model.decision_function(gaps.assign(weight=gaps["weight"].mean()))
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_missing_values_of_arrays() -> None:
    rows, classes = bundled("uis")
    gaps = rows.copy()
    gaps[::7, 2] = np.nan
    with pytest.raises(errors.ArgumentError, match="NaN"):
        LogisticRegression(mode="simulate").fit(gaps, classes)
    model = LogisticRegression(mode="simulate", missing="mean").fit(gaps, classes)
    filled = np.where(np.isnan(gaps), np.nanmean(gaps, axis=0), gaps)
    plain = LogisticRegression(mode="simulate").fit(filled, classes)
    np.testing.assert_allclose(model.predict_proba(gaps), plain.predict_proba(filled), atol=1e-9)
    with pytest.raises(errors.ShapeError, match="expecting 8 features"):
        model.predict(gaps[:, :3])
    with pytest.raises(errors.TableError):
        LogisticRegression(mode="simulate", missing="drop").fit(gaps * np.nan, classes)
    with pytest.raises(errors.ArgumentError, match="missing is"):
        LogisticRegression(mode="simulate", missing="guess").fit(gaps, classes)  # type: ignore[arg-type]


def test_tables_may_have_fewer_rows_than_keys_were_made_for() -> None:
    rows, classes = bundled("lbw")
    owner = LogisticRegression(insecure_log_n=SMALL)
    keys = owner.plan(1000, 9).make_keys()
    table = owner.encrypt(rows, classes, keys.public)
    assert table.rows == 1000
    model = owner.decrypt(compute(table, keys.evaluation), keys.secret, rows, classes)
    simulated = LogisticRegression(mode="simulate", sigmoid_range=8.0).fit(rows, classes)
    np.testing.assert_allclose(
        model.predict_proba(rows), simulated.predict_proba(rows), atol=1e-3
    )


def test_the_sigmoid_is_fitted_to_the_table() -> None:
    rows, classes = load_breast_cancer(return_X_y=True)
    steps: list[str] = []
    model = LogisticRegression(
        mode="simulate", max_iter=20, progress=lambda what, *_: steps.append(what)
    )
    with pytest.warns(UserWarning, match="rough"):
        model.fit(rows, classes)
    assert model.sigmoid_range_ > 16
    assert f"widening the sigmoid's range to {model.sigmoid_range_:g}" in steps
    few = LogisticRegression(mode="simulate", max_iter=7)
    assert few.fit(rows, classes).sigmoid_range_ == 12
    with pytest.raises(errors.OutsideIntervalError, match="with a range of 12"):
        clone(few).set_params(sigmoid_range=8.0).fit(rows, classes)
    with pytest.raises(errors.OutOfRoomError, match="widen the sigmoid's range"):
        clone(model).set_params(sigmoid_range=8.0).fit(rows, classes)
    # Keys for a shape lack the range that the table needs.
    owner = clone(few).set_params(mode="execute", insecure_log_n=12)
    keys = owner.plan(*rows.shape).make_keys()
    with pytest.raises(errors.OutsideIntervalError):
        owner.encrypt(rows, classes, keys.public)
    keys = owner.plan(rows, classes).make_keys()
    assert owner.encrypt(rows, classes, keys.public).rows == 569


def test_defaults_follow_the_shape_of_the_table() -> None:
    few, many = (LogisticRegression().plan(count, 5).job for count in (1000, 100_000))
    assert "5 iterations, whitened columns, C = 1" in few
    assert "iterations of 32768 rows" in many
    papers = LogisticRegression(preparation="scale", alpha=0.0).plan(1000, 5).job
    assert papers.endswith("5 iterations, scaled columns")
    with pytest.raises(errors.ParametersError, match="at most 4096"):
        LogisticRegression(mode="simulate").fit(np.eye(8, 4097), np.arange(8) % 2)
