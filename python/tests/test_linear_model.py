"""Estimators against scikit-learn, and against the same training in NumPy."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn.linear_model
import sklearn.utils.class_weight
from numpy.polynomial import legendre
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import sudare
from sudare import errors, nn, stats
from sudare.linear_model import LinearRegression, LogisticRegression, Ridge, compute

Floats = np.ndarray[Any, np.dtype[np.float64]]

# A ring without security in which a training takes a second.
SMALL = 11

DATA = Path(__file__).parents[2] / "crates/table/data"


def bundled(name: str) -> tuple[pd.DataFrame, Floats]:
    table = pd.read_csv(DATA / f"{name}.csv")
    return table.drop(columns="y").astype(float), table["y"].to_numpy(float)


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [
        LogisticRegression(mode="simulate"),
        LinearRegression(mode="simulate"),
        Ridge(mode="simulate"),
    ],
    # Its table has more features than rows with positive weight, which least squares refuse.
    expected_failed_checks=lambda estimator: (
        {"check_sample_weight_equivalence_on_dense_data": "features depend on each other"}
        if type(estimator) is LinearRegression
        else {}
    ),
)
def test_conventions_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


# The training of the papers, whose weights can be computed step by step.
PAPERS: dict[str, Any] = {
    "preparation": "scale",
    "max_iter": 5,
    "learning_rate": 10.0,
    "rate": "decaying",
    "sigmoid_degree": 3,
    "sigmoid_range": 8.0,
    "alpha": 0.0,
    "calibrate": False,
}


def trained(
    rows: Floats,
    labels: Floats,
    *,
    iterations: int,
    rate: float = 10.0,
    alpha: float = 0.0,
    weights_of_rows: Floats | float = 1.0,
) -> Floats:
    """Nesterov's descent with a cubic for the sigmoid, intercept first, for features as given, with
    a penalty on the weights of standardised ones."""
    nodes, node_weights = legendre.leggauss(80)
    values = node_weights / (1 + np.exp(8 * nodes))
    series = [(k + 0.5) * values @ legendre.Legendre.basis(k)(nodes) for k in range(4)]
    divisors = np.abs(rows).max(axis=0)
    z = (2 * labels - 1)[:, np.newaxis] * np.column_stack([np.ones(len(rows)), rows / divisors])
    w = v = np.zeros(z.shape[1])
    penalised = np.append(0.0, (rows.std(axis=0) / divisors) ** 2)
    size = 0.0
    for t in range(iterations):
        slopes = weights_of_rows * legendre.legval(z @ v / 8, series)
        slope = slopes @ z / len(z) - alpha * penalised * v
        following = (1 + np.sqrt(1 + 4 * size**2)) / 2
        eta = (1 - size) / following
        ahead = v + rate / (t + 1) * slope
        w, v, size = ahead, (1 - eta) * ahead + eta * w, following
    return np.concatenate([w[:1], w[1:] / divisors])


def weights(model: LogisticRegression) -> Floats:
    return np.concatenate([model.intercept_, model.coef_[0]])


@pytest.mark.parametrize("name", ["lbw", "uis"])
def test_training_is_that_of_numpy(name: str) -> None:
    rows, labels = bundled(name)
    papers = PAPERS | {"max_iter": 7, "learning_rate": 4.0, "alpha": 0.1}
    model = LogisticRegression(**papers, mode="simulate").fit(rows, labels)
    expected = trained(rows.to_numpy(), labels, iterations=7, rate=4.0, alpha=0.1)
    np.testing.assert_allclose(weights(model), expected, atol=1e-9)
    assert model.n_iter_ == 7
    assert list(model.feature_names_in_) == list(rows.columns)


CLASS_WEIGHTS: list[tuple[Any, Callable[[Floats], Floats]]] = [
    ("balanced", lambda labels: 0.5 / np.where(labels, labels.mean(), 1 - labels.mean())),
    ({0: 1, 1: 3}, lambda labels: 1 + 2 * labels),
    ({1.0: 0.25}, lambda labels: 1 - 0.75 * labels),
    ({0: 5, 1: 5}, np.ones_like),
]


@pytest.mark.parametrize(("class_weight", "of_rows"), CLASS_WEIGHTS)
def test_class_weights_are_those_of_numpy(
    class_weight: Any, of_rows: Callable[[Floats], Floats]
) -> None:
    rows, labels = bundled("uis")
    papers = PAPERS | {"max_iter": 7, "learning_rate": 4.0, "alpha": 0.1}
    model = LogisticRegression(**papers, class_weight=class_weight, mode="simulate")
    model.fit(rows, labels)
    expected = trained(
        rows.to_numpy(),
        labels,
        iterations=7,
        rate=4.0,
        alpha=0.1,
        weights_of_rows=of_rows(labels) / of_rows(labels).mean(),
    )
    np.testing.assert_allclose(weights(model), expected, atol=1e-9)


@pytest.mark.parametrize("weight", [1, 3, 20])
def test_heavy_classes_are_those_of_scikit_learn(weight: int) -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(120, 3))
    x = (x - x.mean(0)) / x.std(0)
    y = (x @ [1.5, -1, 0.7] + rng.normal(size=120) * 0.7 > 0).astype(int)
    model = LogisticRegression(mode="simulate", class_weight={1: weight}, max_iter=40).fit(x, y)
    theirs = sklearn.linear_model.LogisticRegression(class_weight={1: weight}).fit(x, y)
    np.testing.assert_allclose(model.coef_, theirs.coef_, rtol=0.1)
    assert np.mean(model.predict(x) != theirs.predict(x)) < 0.01


@pytest.mark.parametrize("class_weight", ["balanced", {0: 4.0, 1: 1.0}])
def test_class_weights_are_those_of_scikit_learn(class_weight: Any) -> None:
    """Minimises the same objective, with the same `C` on standardised columns."""
    rows, labels = bundled("lbw")
    scaled = (rows - rows.mean()) / rows.std(ddof=0)
    model = LogisticRegression(
        max_iter=30, sigmoid_range=6.0, class_weight=class_weight, mode="simulate"
    ).fit(scaled, labels)
    exact = sklearn.linear_model.LogisticRegression(C=1.0, class_weight=class_weight)
    exact.fit(scaled, labels)
    found, expected = (m.predict_proba(scaled)[:, 1] for m in (model, exact))
    np.testing.assert_allclose(found, expected, atol=0.01)
    np.testing.assert_allclose(model.coef_, exact.coef_, atol=0.03 * np.abs(exact.coef_).max())
    plain = clone(model).set_params(class_weight=None).fit(scaled, labels)
    assert np.abs(plain.predict_proba(scaled)[:, 1] - expected).mean() > 0.1


@pytest.mark.parametrize("class_weight", ["balanced", {"a": 1, "b": 3}])
def test_weighted_execution_gives_what_simulation_gives(class_weight: Any) -> None:
    rows, labels = bundled("lbw")
    names = np.where(labels == 1, "b", "a")
    model = LogisticRegression(
        class_weight=class_weight, sigmoid_range=8.0, insecure_log_n=SMALL
    )
    executed = weights(model.fit(rows, names))
    simulated = weights(clone(model).set_params(mode="simulate").fit(rows, names))
    scale = np.append(1.0, rows.std(ddof=0))
    np.testing.assert_allclose(executed * scale, simulated * scale, atol=2.0**-10)

    owner = clone(model)
    plain, plan = clone(model).set_params(class_weight=None).plan(189, 9), owner.plan(189, 9)
    program, other = plan.explain().program, plain.explain().program
    assert program is not None and other is not None
    assert 1.5 < program.input_bytes / other.input_bytes < 2 and program.depth == other.depth
    keys = plan.make_keys()
    result = compute(owner.encrypt(rows, names, keys.public), keys.evaluation)
    owner.decrypt(result, keys.secret, rows, names)
    np.testing.assert_allclose(weights(owner) * scale, simulated * scale, atol=2.0**-10)


def test_class_weights_are_checked() -> None:
    rows, labels = bundled("lbw")
    cases: list[tuple[Any, type[Exception]]] = [
        ({0: 1, 2: 3}, errors.ArgumentError),
        ({"0": 1}, errors.ArgumentError),
        ("heavy", errors.ArgumentError),
        ({0: 0.0}, errors.ArgumentError),
        ({1: -1.0}, errors.ArgumentError),
        ({1: np.inf}, errors.ArgumentError),
    ]
    for class_weight, error in cases:
        model = LogisticRegression(class_weight=class_weight, mode="simulate")
        with pytest.raises(error) as caught:
            model.fit(rows, labels)
        assert isinstance(caught.value, ValueError)
    rare = np.arange(600) < 2
    with pytest.raises(errors.OutOfRoomError, match="at most 8"):
        LogisticRegression(class_weight="balanced", mode="simulate").fit(
            np.arange(1200.0).reshape(600, 2) % 7, rare
        )
    weighted = LogisticRegression(class_weight={1: 2}, insecure_log_n=SMALL)
    plain = LogisticRegression(insecure_log_n=SMALL)
    for owner, other, error in [
        (weighted, plain, errors.ArgumentError),
        (plain, weighted, errors.ArgumentError),
    ]:
        keys = owner.plan(*rows.shape).make_keys()
        with pytest.raises(error, match="planned with(out)? weights"):
            other.encrypt(rows, labels, keys.public)


def test_execution_gives_what_simulation_gives() -> None:
    """Checks errors against the plan's bound, for any transformation of the columns."""
    rows, labels = bundled("lbw")
    scale = np.append(1.0, rows.std(ddof=0))
    for own in ({}, {"preparation": "standardize", "max_iter": 4}, PAPERS):
        options: dict[str, Any] = {"insecure_log_n": SMALL, "calibrate": False, **own}
        executed = LogisticRegression(**options).fit(rows, labels)
        simulated = LogisticRegression(**options, mode="simulate").fit(rows, labels)
        np.testing.assert_allclose(
            weights(executed) * scale, weights(simulated) * scale, atol=2.0**-10
        )
        assert simulated.log2_error_ < -12
        assert executed.score(rows, labels) == pytest.approx(
            simulated.score(rows, labels), abs=0.01
        )


def test_batches_are_in_an_order_that_random_state_decides() -> None:
    rows, labels = bundled("lbw")
    model = LogisticRegression(
        max_iter=4, batch_size=64, mode="simulate", insecure_log_n=SMALL, random_state=1
    )
    first = weights(model.fit(rows, labels))
    np.testing.assert_array_equal(weights(model.fit(rows, labels)), first)
    assert not np.array_equal(weights(model.set_params(random_state=2).fit(rows, labels)), first)
    executed = clone(model).set_params(mode="execute", random_state=1).fit(rows, labels)
    scale = np.append(1.0, rows.std(ddof=0))
    np.testing.assert_allclose(weights(executed) * scale, first * scale, atol=2.0**-10)


@pytest.mark.parametrize(
    "names", [["a", "b"], [False, True], [3, 7], [-1.0, 2.0], ["10", "9"]]
)
def test_classes_may_be_of_any_type(names: list[Any], tmp_path: Path) -> None:
    rows, labels = bundled("lbw")
    labels = labels.astype(int)
    named = np.array(names)[1 - labels]
    model = LogisticRegression(mode="simulate").fit(rows, named)
    order = sorted(names)
    assert model.classes_.tolist() == order
    assert set(model.predict(rows).tolist()) == set(names)
    other = LogisticRegression(mode="simulate").fit(rows, labels)
    flip = names[0] == order[0]
    second = model.predict_proba(rows)[:, 1]
    np.testing.assert_allclose(second, other.predict_proba(rows)[:, int(not flip)], atol=1e-9)
    np.testing.assert_allclose(model.predict_log_proba(rows), np.log(model.predict_proba(rows)))
    # A file stores them as text. They are numbers again if all are.
    model.save(tmp_path / "model.json")
    opened = LogisticRegression.open(tmp_path / "model.json")
    found = json.loads((tmp_path / "model.json").read_text())["classes"]
    assert [str(label) for label in opened.classes_] == found
    assert (opened.predict(rows) == opened.classes_[0]).tolist() == (
        model.predict(rows) == model.classes_[0]
    ).tolist()


def test_classes_that_cannot_be_told_apart_are_refused() -> None:
    rows, labels = bundled("lbw")
    model = LogisticRegression(mode="simulate")
    with pytest.raises(errors.ArgumentError, match="one class"):
        model.fit(rows, np.ones(len(rows)))
    mixed = np.array(["1", 1], dtype=object)[labels.astype(int)]
    with pytest.raises(errors.Error) as caught:
        model.fit(rows, mixed)
    assert isinstance(caught.value, (TypeError, ValueError))


def test_models_of_single_classes_are_those_of_scikit_learns_wrapper() -> None:
    rows, labels = bundled("lbw")
    three = labels + (rows["age"] > 25)
    own = LogisticRegression(mode="simulate", calibrate=False, sigmoid_range=8.0)
    wrapped = OneVsRestClassifier(own).fit(rows, three)
    found = clone(own).fit(rows, three)
    scores = np.column_stack([model.decision_function(rows) for model in wrapped.estimators_])
    np.testing.assert_allclose(found.decision_function(rows), scores, atol=1e-9)


def test_estimators_work_in_pipelines_and_searches() -> None:
    rows, labels = bundled("lbw")
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(mode="simulate"))
    search = GridSearchCV(
        pipeline,
        {"logisticregression__max_iter": [3, 5], "logisticregression__C": [0.1, 1.0]},
        cv=3,
        scoring="roc_auc",
    ).fit(rows, labels)
    assert search.best_score_ > 0.65
    fitted = search.best_estimator_
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_proba(rows), fitted.predict_proba(rows))
    network = nn.Network.from_sklearn(clone(fitted).fit(rows, labels))
    scores = network.predict(rows)[:, 0]
    np.testing.assert_allclose(scores, fitted.decision_function(rows), atol=1e-9)
    weighted = clone(pipeline).fit(rows, labels, logisticregression__sample_weight=1.0 + labels)
    assert abs(weighted.predict_proba(rows) - fitted.predict_proba(rows)).max() > 0.05
    assert cross_val_score(Ridge(mode="simulate"), rows, labels, cv=3).shape == (3,)


def test_fitted_estimators_are_picklable() -> None:
    rows, labels = bundled("lbw")
    for model in (LogisticRegression(mode="simulate"), Ridge(mode="simulate")):
        fitted = model.fit(rows, labels)
        again = pickle.loads(pickle.dumps(fitted))
        np.testing.assert_array_equal(again.predict(rows), fitted.predict(rows))


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("mode", ["simulate", "execute"])
def test_least_squares_are_those_of_scikit_learn(mode: Any, fit_intercept: bool) -> None:
    rows, _ = bundled("uis")
    rows, targets = rows.drop(columns="beck"), rows["beck"]
    shared = {"fit_intercept": fit_intercept}
    own = {"mode": mode, "insecure_log_n": SMALL, **shared}
    tolerance = 1e-9 if mode == "simulate" else 1e-4
    for model, twin in [
        (LinearRegression(**own), sklearn.linear_model.LinearRegression(**shared)),
        (Ridge(alpha=20.0, **own), sklearn.linear_model.Ridge(alpha=20.0, **shared)),
    ]:
        model.fit(rows, targets)
        twin.fit(rows, targets)
        scale = np.abs(twin.coef_).max()
        np.testing.assert_allclose(model.coef_, twin.coef_, atol=tolerance * scale)
        np.testing.assert_allclose(model.predict(rows), twin.predict(rows), atol=tolerance * 100)
        assert model.score(rows, targets) == pytest.approx(twin.score(rows, targets), abs=1e-5)


def command(*args: object) -> dict[str, Any]:
    run = [sys.executable, "-m", "sudare", *map(str, args), "--json"]
    done = subprocess.run(run, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    output: dict[str, Any] = json.loads(done.stdout)
    return output


class Training:
    """Makes a table and its keys, in files."""

    def __init__(self, folder: Path) -> None:
        self.rows, self.labels = bundled("lbw")
        self.owner = LogisticRegression(max_iter=5, insecure_log_n=SMALL)
        self.keys = self.owner.plan(*self.rows.shape).make_keys()
        self.keys.evaluation.save(folder / "evaluation.key")
        self.keys.secret.save(folder / "secret.key")
        self.folder = folder
        self.table = self.owner.encrypt(
            self.rows, self.labels, self.keys.public, path=folder / "table.ct"
        )
        self.result = compute(self.table, self.keys.evaluation)


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Training:
    return Training(tmp_path_factory.mktemp("training"))


def test_owner_and_server_work_apart(training: Training) -> None:
    server = pickle.loads(pickle.dumps((training.table, training.keys.evaluation)))
    steps: list[tuple[str, int, int]] = []
    result = compute(*server, progress=lambda *step: steps.append(step))
    assert result.to_bytes() == training.result.to_bytes()
    assert steps == [("training", done, 5) for done in range(2, 6)]
    model = LogisticRegression().decrypt(result, training.keys.secret)
    scale = training.rows.std(ddof=0).to_numpy()
    for calibrate in (False, True):
        expected = clone(training.owner).set_params(mode="simulate", calibrate=calibrate)
        # The same as a plan without the table.
        expected.set_params(sigmoid_range=8.0).fit(training.rows, training.labels)
        if calibrate:
            shuffled = np.random.default_rng(1).permutation(len(training.rows))
            table = training.rows.iloc[shuffled], training.labels[shuffled]
            model.decrypt(result, training.keys.secret, *table)
        np.testing.assert_allclose(model.coef_ * scale, expected.coef_ * scale, atol=2.0**-10)
        assert model.sigmoid_range_ == 8.0
    with pytest.raises(errors.ArgumentError, match="188 rows"):
        model.decrypt(result, training.keys.secret, training.rows[1:], training.labels[1:])
    with pytest.raises(errors.ArgumentError, match="both"):
        model.decrypt(result, training.keys.secret, training.rows)
    assert list(model.feature_names_in_) == list(training.rows.columns)
    assert list(model.classes_) == [0, 1] and model.n_iter_ == 5


def test_trainings_go_on_from_their_states(training: Training, tmp_path: Path) -> None:
    states = tmp_path / "states"
    arguments = training.table, training.keys.evaluation
    expected = training.result.to_bytes()
    assert compute(*arguments, checkpoint=states).to_bytes() == expected
    with pytest.raises(errors.ExistsError):
        compute(*arguments, checkpoint=states)
    (states / "iteration-000005.ct").write_bytes(b"damaged")
    keys = sudare.EvaluationKeys.open(training.folder / "evaluation.key")
    steps: list[int] = []
    with pytest.warns(UserWarning, match="trying the state before it"):
        result = compute(
            training.table,
            keys,
            checkpoint=states,
            resume=True,
            progress=lambda _, done, __: steps.append(done),
        )
    assert result.to_bytes() == expected and steps == [5]
    other = training.owner.encrypt(training.rows, training.labels, training.keys.public)
    with pytest.raises(errors.ArgumentError, match="another encrypted table"):
        compute(other, keys, checkpoint=states, resume=True)
    compute(other, keys, checkpoint=states, overwrite=True)


def test_keys_that_change_end_a_training_that_can_go_on(
    training: Training, tmp_path: Path
) -> None:
    path, states = tmp_path / "evaluation.key", tmp_path / "states"
    training.keys.evaluation.save(path)
    keys = sudare.EvaluationKeys.open(path)
    whole = path.read_bytes()

    def spoil(_: str, done: int, __: int) -> None:
        if done == 3:
            with path.open("r+b") as file:
                file.truncate(100)

    with pytest.raises(errors.FileError, match="evaluation.key"):
        compute(training.table, keys, checkpoint=states, progress=spoil)
    with pytest.raises(errors.FileError):
        compute(training.table, keys)
    path.unlink()
    path.write_bytes(whole)
    steps: list[int] = []
    result = compute(
        training.table,
        sudare.EvaluationKeys.open(path),
        checkpoint=states,
        resume=True,
        progress=lambda _, done, __: steps.append(done),
    )
    assert steps == [4, 5] and result.to_bytes() == training.result.to_bytes()


@pytest.mark.skipif(sys.platform != "linux", reason="limits the size of files")
def test_a_full_disk_ends_a_training_that_can_go_on(training: Training, tmp_path: Path) -> None:
    """Simulates a full disk by a limit on file sizes."""
    code = f"""
import resource, signal, sys
import sudare
from sudare.linear_model import compute

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
table = sudare.EncryptedTable.open({str(training.folder / "table.ct")!r})
keys = sudare.EvaluationKeys.open({str(training.folder / "evaluation.key")!r})

def fill(what, done, total):
    if done == 3:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))

try:
    compute(table, keys, checkpoint="states", progress=fill)
except sudare.errors.FileError as error:
    assert isinstance(error, OSError)
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
steps = []
result = compute(
    table, keys, checkpoint="states", resume=True, progress=lambda _, done, __: steps.append(done)
)
result.save("model.ct")
print(steps)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    message, steps = done.stdout.splitlines()
    assert "after iteration 4" in message and "resume=True" in message
    assert steps == "[4, 5]"
    assert (tmp_path / "model.ct").read_bytes() == training.result.to_bytes()
    assert not list((tmp_path / "states").glob(".*.part"))


def test_files_are_those_of_the_command(training: Training, tmp_path: Path) -> None:
    folder, states = training.folder, tmp_path / "states"
    inputs = ["--evaluation-key", folder / "evaluation.key", "-i", folder / "table.ct"]
    compute(training.table, training.keys.evaluation, checkpoint=states)
    (states / "iteration-000005.ct").unlink()
    model, text = tmp_path / "model.ct", tmp_path / "model.json"
    report = command("train", *inputs, "-o", model, "--checkpoint", states, "--resume")
    assert report["resumed_after"] == 4
    assert model.read_bytes() == training.result.to_bytes()
    command("decrypt", "--secret", folder / "secret.key", "-i", model, "-o", text)
    opened = LogisticRegression.open(text)
    loaded = LogisticRegression().decrypt(training.result, training.keys.secret)
    np.testing.assert_array_equal(opened.predict(training.rows), loaded.predict(training.rows))
    saved = tmp_path / "saved.json"
    loaded.save(saved)
    found, expected = (json.loads(file.read_text()) for file in (saved, text))
    np.testing.assert_allclose(found.pop("weights"), expected.pop("weights"), rtol=1e-15)
    np.testing.assert_allclose(found.pop("divisors"), expected.pop("divisors"), rtol=1e-15)
    assert found == expected
    with pytest.raises(errors.ExistsError):
        loaded.save(saved)
    scores = command("predict", "--model", saved, "--data", DATA / "lbw.csv", "--target", "y")
    np.testing.assert_allclose(scores["scores"], loaded.decision_function(training.rows))
    with pytest.raises(errors.WrongFileError):
        LogisticRegression.open(DATA / "lbw.csv")


def test_models_are_shared_to_the_bits_planned_for(tmp_path: Path) -> None:
    rows, labels = bundled("lbw")
    owner = LogisticRegression(share_bits=10, insecure_log_n=SMALL)
    keys = owner.plan(*rows.shape).make_keys()
    result = compute(owner.encrypt(rows, labels, keys.public), keys.evaluation)
    raw = LogisticRegression().decrypt(result, keys.secret)
    assert keys.secret.releases == (0, 1024)
    shared = owner.decrypt(result, keys.secret)
    assert keys.secret.releases == (1, 1024)
    again = LogisticRegression().decrypt(result, keys.secret, share=10)
    assert keys.secret.releases == (1, 1024)
    np.testing.assert_array_equal(shared.coef_, again.coef_)
    assert not np.array_equal(shared.coef_, raw.coef_)
    np.testing.assert_allclose(
        shared.decision_function(rows), raw.decision_function(rows), atol=0.1
    )
    with pytest.raises(errors.ArgumentError, match="leave out X and y"):
        owner.decrypt(result, keys.secret, rows, labels)
    with pytest.raises(errors.ArgumentError, match="to be shared to 10 bits"):
        raw.decrypt(result, keys.secret, share=11)
    # A model for its owner alone states this.
    for alone in (raw, LogisticRegression().decrypt(result, keys.secret, rows, labels)):
        with pytest.warns(errors.SecurityWarning, match="share_bits"):
            pickle.dumps(alone)
        with pytest.warns(errors.SecurityWarning, match="tell about the secret key"):
            alone.save(tmp_path / "raw.json", overwrite=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error", errors.SecurityWarning)
        again = pickle.loads(pickle.dumps(shared))
        shared.save(tmp_path / "shared.json")
        pickle.dumps(LogisticRegression(mode="simulate", insecure_log_n=SMALL).fit(rows, labels))
        pickle.dumps(LogisticRegression())
    np.testing.assert_array_equal(again.coef_, shared.coef_)
    told = [json.loads((tmp_path / name).read_text()) for name in ("shared.json", "raw.json")]
    assert [values.get("shared_bits") for values in told] == [10, None]
    # In one process.
    fitted = LogisticRegression(share_bits=10, sigmoid_range=8.0, insecure_log_n=SMALL)
    fitted.fit(rows, labels)
    assert not hasattr(fitted, "history_") and not fitted._raw
    np.testing.assert_allclose(fitted.coef_, shared.coef_, atol=0.01)


def test_least_squares_are_shared_to_the_bits_planned_for() -> None:
    rng = np.random.default_rng(3)
    rows = rng.uniform(-1, 1, (60, 2))
    targets = rows @ [1.0, -0.5] + 0.25
    for estimator in (LinearRegression, Ridge):
        owner = estimator(share_bits=12, insecure_log_n=SMALL)
        keys = owner.plan(rows, targets).make_keys()
        table = owner.encrypt(rows, targets, keys.public)
        result = stats.compute(table, keys.evaluation)
        raw = estimator().decrypt(result, keys.secret)
        shared = owner.decrypt(result, keys.secret)
        assert keys.secret.releases == (1, 1024) and not shared._raw
        assert not np.array_equal(raw.coef_, shared.coef_)
        np.testing.assert_allclose(shared.coef_, raw.coef_, atol=0.01)
        with pytest.warns(errors.SecurityWarning, match="share_bits"):
            pickle.dumps(raw)


def test_weights_after_each_iteration_are_kept_if_asked_for(
    training: Training, tmp_path: Path
) -> None:
    scale = np.append(1.0, np.abs(training.rows.to_numpy()).max(axis=0))
    model = LogisticRegression(**PAPERS, history=True, insecure_log_n=SMALL)
    model.fit(training.rows, training.labels)
    simulated = clone(model).set_params(mode="simulate").fit(training.rows, training.labels)
    for iterations in range(1, 6):
        expected = trained(training.rows.to_numpy(), training.labels, iterations=iterations)
        for fitted, tolerance in ((model, 2.0**-10), (simulated, 1e-9)):
            found = fitted.history_[iterations - 1]
            np.testing.assert_allclose(found * scale, expected * scale, atol=tolerance)
    assert not hasattr(clone(model).set_params(history=False).fit(training.rows, training.labels),
                       "history_")

    # The same as the command stores, also in states.
    states = tmp_path / "states"
    result = compute(training.table, training.keys.evaluation, checkpoint=states, history=True)
    (states / "iteration-000005.ct").unlink()
    (states / "weights-000005.ct").unlink()
    folder = training.folder
    inputs = ["--evaluation-key", folder / "evaluation.key", "-i", folder / "table.ct"]
    more = ["--checkpoint", states, "--resume", "--history"]
    command("train", *inputs, "-o", tmp_path / "model.ct", *more)
    assert (tmp_path / "model.ct").read_bytes() == result.to_bytes()
    (states / "iteration-000005.ct").unlink()
    again = compute(
        training.table, training.keys.evaluation, checkpoint=states, resume=True, history=True
    )
    assert again.to_bytes() == result.to_bytes()
    loaded = LogisticRegression().decrypt(result, training.keys.secret)
    np.testing.assert_allclose(loaded.history_[-1], weights(loaded), rtol=1e-12)


def test_what_does_not_belong_together_is_refused(training: Training) -> None:
    with pytest.raises(errors.MismatchError):
        Ridge().decrypt(training.result, training.keys.secret)
    keys = Ridge(insecure_log_n=SMALL).plan(10, 3).make_keys()
    with pytest.raises(errors.Error):
        compute(training.table, keys.evaluation)
    with pytest.raises(errors.Error):
        training.owner.encrypt(training.rows, training.labels, keys.public)
    with pytest.raises(errors.ShapeError, match="at most 189"):
        twice = pd.concat([training.rows, training.rows])
        training.owner.encrypt(twice, np.tile(training.labels, 2), training.keys.public)
    with pytest.raises(errors.ShapeError):
        three = training.labels + (training.rows["age"] > 25)
        training.owner.encrypt(training.rows, three, training.keys.public)
    with pytest.raises(errors.NotFittedError):
        training.owner.predict(training.rows)


def test_plans_say_what_a_training_takes() -> None:
    few, many = (
        LogisticRegression(max_iter=k).plan(189, 9).explain() for k in (5, 30)
    )
    assert few.security_bits >= 128 and many.security_bits >= 128
    assert few.program is not None and many.program is not None
    assert few.program.bootstraps == 0 < many.program.bootstraps
    assert few.bootstrap_levels is None and many.bootstrap_levels is not None
    assert 0 < few.program.seconds < many.program.seconds
    assert few.program.input_bytes < few.program.peak_memory_bytes
    assert "bootstrappings" in str(many)


def test_features_that_depend_on_each_other_are_refused() -> None:
    rows, _ = bundled("uis")
    rows["twice"] = 2 * rows["age"] + 1
    with pytest.raises(errors.ArgumentError, match="Ridge"):
        LinearRegression(mode="simulate").fit(rows, rows["beck"])
    Ridge(mode="simulate").fit(rows, rows["beck"])


def sized(seed: int, condition: float) -> tuple[Floats, Floats]:
    """Columns of sizes from 1e-8 to 1e8 and offsets, whose standardised forms have a condition."""
    random = np.random.default_rng(seed)
    left, _, right = np.linalg.svd(random.normal(size=(300, 5)), full_matrices=False)
    rows = (left * np.geomspace(1, 1 / condition, 5)) @ right
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    targets = rows @ random.normal(size=5) + 0.1 * random.normal(size=300) + 5
    return (rows + random.normal(size=5)) * 10 ** random.uniform(-8, 8, 5), targets


@pytest.mark.parametrize("mode", ["simulate", "execute"])
@pytest.mark.parametrize("seed", range(3))
def test_least_squares_of_columns_of_any_size(mode: Any, seed: int) -> None:
    for condition in (1.0, 10.0, 100.0):
        rows, targets = sized(seed, condition)
        spread = rows.std(axis=0)
        scaled = (rows - rows.mean(axis=0)) / spread
        twin = sklearn.linear_model.LinearRegression().fit(scaled, targets)
        model = LinearRegression(mode=mode, insecure_log_n=SMALL).fit(rows, targets)
        expected = twin.predict(scaled)
        number = np.linalg.cond(np.corrcoef(rows.T))
        within = (1e-6 if number <= 100 else 1e-5) * targets.std()
        np.testing.assert_allclose(model.predict(rows), expected, atol=within)
        tolerance = (1e-7 + 1e-8 * number) * np.abs(twin.coef_).max()
        np.testing.assert_allclose(model.coef_ * spread, twin.coef_, atol=tolerance)
        # One penalty for columns of all sizes leaves nothing of the small ones.
        centred = rows - rows.mean(axis=0)
        ridge = Ridge(alpha=2.0, mode=mode, insecure_log_n=SMALL).fit(rows, targets)
        sizes = np.sqrt(np.sum(centred**2, axis=0) + 2.0)
        augmented = np.vstack([centred, np.sqrt(2.0) * np.eye(5)]) / sizes
        padded = np.append(targets - targets.mean(), np.zeros(5))
        coefficients = np.linalg.lstsq(augmented, padded, rcond=None)[0] / sizes
        expected = centred @ coefficients + targets.mean()
        np.testing.assert_allclose(ridge.predict(rows), expected, atol=within)


@pytest.mark.parametrize("condition", [1e4, 1e6, 1e8])
def test_least_squares_of_collinear_columns_are_refused(condition: float) -> None:
    rows, targets = sized(0, condition)
    modes: list[Any] = ["simulate", "execute"]
    for mode in modes:
        model = LinearRegression(mode=mode, insecure_log_n=SMALL)
        with pytest.raises(errors.ArgumentError, match="condition number"):
            model.fit(rows, targets)
        scaled = (rows - rows.mean(axis=0)) / rows.std(axis=0)
        ridge = Ridge(alpha=3.0, mode=mode, insecure_log_n=SMALL)
        twin = sklearn.linear_model.Ridge(alpha=3.0).fit(scaled, targets)
        found = ridge.fit(scaled, targets).predict(scaled)
        np.testing.assert_allclose(found, twin.predict(scaled), atol=1e-5 * targets.std())


def test_least_squares_of_constant_columns_and_fewer_rows() -> None:
    rows, targets = sized(1, 3.0)
    more = np.column_stack([rows, np.full(300, 4.0)])
    owner = LinearRegression(insecure_log_n=SMALL)
    plain = clone(owner).fit(rows, targets)
    keys = owner.plan(500, 6).make_keys()
    table = owner.encrypt(more, targets, keys.public)
    result = compute(table, keys.evaluation)
    assert result.to_bytes() == sudare.stats.compute(table, keys.evaluation).to_bytes()
    with pytest.raises(errors.ArgumentError, match="leave out checkpoint"):
        compute(table, keys.evaluation, history=True)
    owner.decrypt(result, keys.secret)
    assert owner.coef_[5] == 0.0
    np.testing.assert_allclose(owner.predict(more), plain.predict(rows), atol=1e-6)


def test_bad_data_is_refused_before_anything_else() -> None:
    rows, labels = bundled("lbw")
    model = LogisticRegression(mode="simulate")
    for bad, target, error in [
        (rows.to_numpy()[:, 0], labels, ValueError),
        (rows, labels[1:], ValueError),
        (rows.where(rows > 0), labels, ValueError),
        (rows, np.zeros(len(rows)), ValueError),
        (rows.astype(complex).to_numpy() * 1j, labels, ValueError),
        (rows.astype(complex) * 1j, labels, TypeError),
        ([["a", "b"]] * len(labels), labels, ValueError),
        (rows, labels / 3 + np.arange(len(labels)) / 1000, ValueError),
    ]:
        with pytest.raises(errors.Error) as caught:
            model.fit(bad, target)
        assert isinstance(caught.value, error)
    with pytest.raises(errors.NotFittedError):
        model.predict(rows)
    with pytest.raises(errors.ArgumentError, match="mode"):
        LogisticRegression(mode="fast").fit(rows, labels)  # type: ignore[arg-type]
    with pytest.raises(errors.ArgumentError):
        LogisticRegression(sigmoid_degree=4, mode="simulate").fit(rows, labels)
    penalties: list[dict[str, Any]] = [
        {"alpha": -1.0}, {"alpha": np.inf}, {"C": 0.0}, {"C": -1.0}, {"C": np.nan}
    ]
    words: list[dict[str, Any]] = [{"preparation": "none"}, {"rate": "falling"}]
    for penalty in penalties:
        with pytest.raises(errors.ArgumentError, match="must be"):
            LogisticRegression(**penalty, mode="simulate").fit(rows, labels)
    for option in words:
        with pytest.raises(errors.ArgumentError, match=": pass "):
            LogisticRegression(**option, mode="simulate").fit(rows, labels)
    with pytest.raises(errors.ArgumentError):
        LogisticRegression(workers=0, mode="simulate").fit(rows, labels)
    impossible: list[Any] = [-1, 2.5, "5"]
    for max_iter in impossible:
        with pytest.raises(errors.ArgumentError, match="max_iter is"):
            LogisticRegression(max_iter=max_iter, mode="simulate").fit(rows, labels)
    with pytest.raises(errors.OutOfRoomError, match="learning rate"):
        model.set_params(**PAPERS).set_params(learning_rate=15.0, rate="constant", max_iter=8)
        model.fit(rows, labels)


def test_estimators_need_no_scikit_learn() -> None:
    code = """
import sys, pickle
for name in ("sklearn", "pandas"):
    sys.modules[name] = None
import numpy as np
import sudare
from sudare import errors, stats

rng = np.random.default_rng(0)
x = rng.normal(size=(60, 3))
model = sudare.LogisticRegression(mode="simulate").fit(x, x @ [1, 2, -1] > 0)
assert model.score(x, x @ [1, 2, -1] > 0) > 0.8
assert pickle.loads(pickle.dumps(model)).n_features_in_ == 3
assert repr(model) == "LogisticRegression(mode='simulate')", repr(model)
assert model.get_params()["C"] == 1.0
three = np.where(x[:, 0] > 0.5, "a", np.where(x[:, 1] > 0, "b", "c"))
assert sudare.LogisticRegression(mode="simulate").fit(x, three).predict_proba(x).shape == (60, 3)
gaps = np.where(x > 2, np.nan, x)
filled = sudare.LogisticRegression(mode="simulate", missing="mean").fit(gaps, three)
assert filled.predict(gaps).shape == (60,)
y = x @ [1, 2, -1] + 4
fitted = sudare.Ridge(alpha=0.0, mode="simulate").fit(x, y[:, None])
np.testing.assert_allclose(fitted.coef_, [1, 2, -1], atol=1e-9)
for call, error in [
    (lambda: model.predict(x[:, :2]), ValueError),
    (lambda: model.fit(x, y), errors.ArgumentError),
    (lambda: model.fit(x, y[1:]), errors.ShapeError),
    (lambda: model.fit(x[0], y), errors.ShapeError),
    (lambda: model.fit(x * np.nan, y), errors.OutsideRangeError),
    (lambda: model.set_params(epochs=3), errors.ArgumentError),
    (lambda: sudare.LinearRegression().predict(x), errors.NotFittedError),
]:
    try:
        call()
    except error:
        pass
    else:
        raise AssertionError(error)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def test_importing_the_package_leaves_scikit_learn_alone() -> None:
    code = "import sys, sudare; assert 'sklearn' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
    assert sudare.LogisticRegression is LogisticRegression
