"""Scores of encrypted rows, against the model in the clear and the command line."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

import sudare
from sudare import errors, scoring, stats
from sudare.linear_model import LogisticRegression, train

# A ring without security.
SMALL = 11
ROWS, FEATURES = 60, 3


def table(seed: int = 0, rows: int = ROWS) -> tuple[pd.DataFrame, np.ndarray[Any, Any]]:
    """Rows whose largest magnitudes have more digits than a short decimal."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (rows, FEATURES)) * [np.pi, 1e3, 1e-3]
    y = np.where(x[:, 0] + x[:, 1] / 500 + rng.normal(size=rows) > 0, "yes", "no")
    return pd.DataFrame(x, columns=["a", "b", "c"]), y


@pytest.fixture(scope="module")
def model() -> LogisticRegression:
    return LogisticRegression(mode="simulate", learning_rate=3.0).fit(*table())


class Owner:
    """A plan and its keys."""

    def __init__(self) -> None:
        self.plan = scoring.plan(ROWS, FEATURES, insecure_log_n=SMALL)
        self.keys = self.plan.make_keys()


@pytest.fixture(scope="module")
def owner() -> Owner:
    return Owner()


@pytest.mark.parametrize("encrypted", [False, True])
def test_scores_are_those_of_the_model(
    owner: Owner, model: LogisticRegression, encrypted: bool
) -> None:
    assert owner.plan.job == f"predict:{ROWS}x{FEATURES}"
    x, y = table(1)
    # Columns in any order.
    rows = owner.plan.encrypt(x[["c", "a", "b"]], owner.keys.public, like=model, y=y)
    assert (rows.kind, rows.rows, rows.features) == ("predict", ROWS, FEATURES)
    by = owner.plan.encrypt_model(model, owner.keys.public) if encrypted else model
    # What the server has.
    rows, evaluation = pickle.loads(pickle.dumps((rows, owner.keys.evaluation)))
    steps: list[tuple[str, int, int]] = []
    result = scoring.score(rows, by, evaluation, lambda *step: steps.append(step))
    assert result.content == "scores" and steps[-1][0] == "scoring"
    found = scoring.decrypt(pickle.loads(pickle.dumps(result)), owner.keys.secret)
    expected = model.decision_function(x)
    np.testing.assert_allclose(found.scores, expected, atol=1e-3)
    assert not np.array_equal(found.scores, expected)
    np.testing.assert_allclose(found.probabilities, model.predict_proba(x)[:, 1], atol=1e-3)
    assert found.accuracy == pytest.approx(model.score(x, y), abs=1 / ROWS)
    assert found.auc == pytest.approx(roc_auc_score(y == "yes", expected), abs=0.01)
    assert repr(found) == f"Scores of {ROWS} rows"


def test_probabilities_of_the_server(model: LogisticRegression) -> None:
    plan = scoring.plan(ROWS, FEATURES, probability_bits=6, sigmoid_range=24.0, insecure_log_n=SMALL)
    keys = plan.make_keys()
    x, _ = table(2)
    rows = plan.encrypt(x, keys.public, like=model)
    found = scoring.decrypt(scoring.score(rows, model, keys.evaluation), keys.secret)
    exact = 1 / (1 + np.exp(-found.scores))
    assert 1e-9 < abs(found.probabilities - exact).max() < 0.02
    assert found.accuracy is None and found.auc is None


def test_models_are_scored_by_as_a_training_leaves_them() -> None:
    x, y = table()
    owner = LogisticRegression(max_iter=3, scorable=True, insecure_log_n=SMALL)
    keys = owner.plan(*x.shape).make_keys()
    encrypted = train(owner.encrypt(x, y, keys.public), keys.evaluation)
    # Any number of rows; the owner has no model yet, but the table.
    new, _ = table(3, rows=100)
    rows = scoring.Plan.of(keys.public, len(new)).encrypt(new, keys.public, like=x)
    scored = scoring.decrypt(scoring.score(rows, encrypted, keys.evaluation), keys.secret)
    model = owner.load(encrypted, keys.secret)
    np.testing.assert_allclose(scored.scores, model.decision_function(new), atol=0.01)
    again = scoring.decrypt(scoring.score(rows, model, keys.evaluation), keys.secret)
    np.testing.assert_allclose(again.scores, scored.scores, atol=0.01)
    other = LogisticRegression(max_iter=3, insecure_log_n=SMALL).plan(*x.shape).make_keys()
    with pytest.raises(errors.NotScorableError):
        scoring.Plan.of(other.public, 10)


def command(*args: object) -> Any:
    run = [sys.executable, "-m", "sudare", *map(str, args), "--json"]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_files_are_those_of_the_command(
    owner: Owner, model: LogisticRegression, tmp_path: Path
) -> None:
    names = ("secret.key", "public.key", "evaluation.key", "rows.ct", "scores.ct", "model.ct")
    secret, public, evaluation, rows, scores, encrypted = (tmp_path / name for name in names)
    owner.keys.secret.save(secret)
    owner.keys.public.save(public)
    owner.keys.evaluation.save(evaluation)
    plain, csv = tmp_path / "model.json", tmp_path / "new.csv"
    model.save(plain)
    x, y = table(4)
    x.to_csv(csv, index=False)
    owner.plan.encrypt(x, owner.keys.public, like=model, y=y, path=rows)
    owner.plan.encrypt_model(model, owner.keys.public).save(encrypted)
    expected = model.decision_function(x)
    server = ["predict", "--evaluation-key", evaluation, "-i", rows, "-o", scores, "--force"]
    for by in (plain, encrypted):
        command(*server, "--model", by)
        values = command("decrypt", "--secret", secret, "-i", scores)["values"]
        np.testing.assert_allclose(values["scores"], expected, atol=1e-3)
        assert values["accuracy"] == pytest.approx(model.score(x, y), abs=1 / ROWS)

    # And the other way, with a file that says how features are scaled.
    encrypt = ["encrypt", "--public", public, "--force"]
    command(*encrypt, "--data", csv, "--like", plain, "-o", rows)
    command(*encrypt, "--model", plain, "-o", encrypted)
    opened = sudare.EncryptedTable.open(rows)
    for given in (LogisticRegression.open(plain), stats.EncryptedResult.open(encrypted)):
        result = scoring.score(opened, given, owner.keys.evaluation)
        found = scoring.decrypt(result, owner.keys.secret)
        np.testing.assert_allclose(found.scores, expected, atol=1e-3)
    inputs = {name: json.loads(plain.read_text())[name] for name in ("columns", "divisors")}
    (tmp_path / "inputs.json").write_text(json.dumps(inputs))
    own = owner.plan.encrypt(x, owner.keys.public, like=tmp_path / "inputs.json")
    found = scoring.decrypt(scoring.score(own, model, owner.keys.evaluation), owner.keys.secret)
    np.testing.assert_allclose(found.scores, expected, atol=1e-3)


def test_what_cannot_be_scored_is_refused(owner: Owner, model: LogisticRegression) -> None:
    (x, y), (plan, keys) = table(5), (owner.plan, owner.keys)
    rows = plan.encrypt(x, keys.public, like=model)
    far = x.assign(a=x["a"] + 100)
    for bad, options, error, says in [
        (x[:9], {"like": model}, errors.TableShapeError, "9 rows"),
        (far, {"like": model}, errors.FeatureTooLargeError, "column"),
        (x.rename(columns={"a": "z"}), {"like": model}, errors.UsageError, "z, b, c"),
        (x, {"like": model, "y": y[1:]}, errors.ShapesError, "59 classes"),
        (x, {"like": model, "y": ["maybe"] * ROWS}, errors.ArgumentError, "'maybe'"),
        (x, {"like": x, "y": y}, errors.DtypeError, "real numbers"),
        (x, {"like": x, "y": [3] * ROWS}, errors.TargetNotBinaryError, "3"),
        (x, {"like": LogisticRegression()}, errors.NotFittedError, "call fit"),
        (x, {"like": "missing.json"}, errors.NoFileError, "missing.json"),
    ]:
        with pytest.raises(error, match=says):
            plan.encrypt(bad, keys.public, **options)  # type: ignore[arg-type]
    for share in (0, 17):
        with pytest.raises(errors.Error):
            scoring.plan(ROWS, FEATURES, probability_bits=share)
    # Rows that were scaled otherwise, by either kind of model.
    other = plan.encrypt(x, keys.public, like=2 * x)
    for by in (model, plan.encrypt_model(model, keys.public)):
        scores = scoring.score(other, by, keys.evaluation)
        with pytest.raises(errors.UsageError, match="scaled for other columns"):
            scoring.decrypt(scores, keys.secret)
    with pytest.raises(errors.OtherJobError, match="statistics, groups"):
        rows.compute(keys.evaluation)
    summary = stats.Plan(sudare._native.TablePlan.statistics(6, 2, insecure_log_n=SMALL))
    wrong = summary.make_keys()
    statistics = summary.encrypt(np.eye(6)[:, :2], wrong.public)
    with pytest.raises(errors.OtherJobError, match="to be scored"):
        scoring.score(statistics, model, wrong.evaluation)
    with pytest.raises(errors.OtherJobError, match="scores are needed"):
        scoring.decrypt(stats.compute(statistics, wrong.evaluation), wrong.secret)
    with pytest.raises(errors.UsageError, match="predict:ROWSxFEATURES"):
        scoring.Plan.of(wrong.public, 6)
    with pytest.raises(errors.OtherJobError, match="statistics"):
        stats.decrypt(scoring.score(rows, model, keys.evaluation), keys.secret)
    with pytest.raises(errors.UsageError, match="holds scores, but model"):
        scoring.score(rows, scoring.score(rows, model, keys.evaluation), keys.evaluation)
