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
from sudare.linear_model import LogisticRegression, compute

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
    # The server's files.
    rows, evaluation = pickle.loads(pickle.dumps((rows, owner.keys.evaluation)))
    steps: list[tuple[str, int, int]] = []
    result = scoring.compute(rows, by, evaluation, lambda *step: steps.append(step))
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
    plan = scoring.plan(ROWS, FEATURES, probability_bits=6, sigmoid_range=32.0, insecure_log_n=SMALL)
    keys = plan.make_keys()
    x, _ = table(2)
    rows = plan.encrypt(x, keys.secret, like=model)
    with pytest.raises(errors.ArgumentError, match="of a public key"):
        plan.encrypt(x, keys.secret, like=model, expect="0" * 64)
    found = scoring.decrypt(scoring.compute(rows, model, keys.evaluation), keys.secret)
    exact = 1 / (1 + np.exp(-found.scores))
    assert 1e-9 < abs(found.probabilities - exact).max() < 0.02
    assert found.accuracy is None and found.auc is None


def test_models_are_scored_by_as_a_training_leaves_them() -> None:
    x, y = table()
    owner = LogisticRegression(max_iter=3, scorable=True, insecure_log_n=SMALL)
    keys = owner.plan(*x.shape).make_keys()
    encrypted = compute(owner.encrypt(x, y, keys.public), keys.evaluation)
    # Any number of rows. The owner has the table, but no model yet.
    new, known = table(3, rows=100)
    plan = scoring.Plan.of(keys.public, len(new))
    rows = plan.encrypt(new, keys.public, like=owner, y=known)
    scored = scoring.decrypt(scoring.compute(rows, encrypted, keys.evaluation), keys.secret)
    like_table = plan.encrypt(new[:40], keys.public, like=(x, y))
    few = scoring.decrypt(scoring.compute(like_table, encrypted, keys.evaluation), keys.secret)
    np.testing.assert_allclose(few.scores, scored.scores[:40], atol=0.01)
    with pytest.raises(errors.ArgumentError, match="like=\\(X, y\\)"):
        plan.encrypt(new, keys.public, like=x)
    model = owner.decrypt(encrypted, keys.secret)
    assert scored.accuracy == pytest.approx(model.score(new, known), abs=0.01)
    assert set(scored.predicted) <= {"no", "yes"} and list(scored.classes) == ["no", "yes"]
    np.testing.assert_allclose(scored.scores, model.decision_function(new), atol=0.01)
    again = scoring.decrypt(scoring.compute(rows, model, keys.evaluation), keys.secret)
    np.testing.assert_allclose(again.scores, scored.scores, atol=0.01)
    like_model = plan.encrypt(new, keys.public, like=model)
    last = scoring.decrypt(scoring.compute(like_model, encrypted, keys.evaluation), keys.secret)
    np.testing.assert_allclose(last.scores, scored.scores, atol=0.01)
    other = LogisticRegression(max_iter=3, insecure_log_n=SMALL).plan(*x.shape).make_keys()
    with pytest.raises(errors.ParametersError):
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

    # The reverse, with a file of the features' scales.
    encrypt = ["encrypt", "--public", public, "--force"]
    command(*encrypt, "--data", csv, "--like", plain, "-o", rows)
    command(*encrypt, "--model", plain, "-o", encrypted)
    opened = sudare.EncryptedTable.open(rows)
    for given in (LogisticRegression.open(plain), stats.EncryptedResult.open(encrypted)):
        result = scoring.compute(opened, given, owner.keys.evaluation)
        found = scoring.decrypt(result, owner.keys.secret)
        np.testing.assert_allclose(found.scores, expected, atol=1e-3)
    described = ("columns", "centers", "divisors")
    inputs = {name: json.loads(plain.read_text())[name] for name in described}
    (tmp_path / "inputs.json").write_text(json.dumps(inputs))
    own = owner.plan.encrypt(x, owner.keys.public, like=tmp_path / "inputs.json")
    found = scoring.decrypt(scoring.compute(own, model, owner.keys.evaluation), owner.keys.secret)
    np.testing.assert_allclose(found.scores, expected, atol=1e-3)


def test_fewer_rows_than_planned_are_scored(owner: Owner, model: LogisticRegression) -> None:
    x, y = table(6, rows=11)
    rows = owner.plan.encrypt(x, owner.keys.public, like=model, y=y)
    found = scoring.decrypt(scoring.compute(rows, model, owner.keys.evaluation), owner.keys.secret)
    np.testing.assert_allclose(found.scores, model.decision_function(x), atol=1e-3)
    assert found.accuracy == pytest.approx(model.score(x, y), abs=1 / 11)


@pytest.mark.parametrize("trained", [False, True])
def test_categories_and_several_classes_are_scored(trained: bool) -> None:
    """Scores by a given model, plain and encrypted, and by the result of a training."""
    rng = np.random.default_rng(7)
    x = pd.DataFrame({"size": rng.normal(size=90), "ward": rng.choice(["a", "b", "c"], 90)})
    y = np.where(x["size"] > 0.4, "large", np.where(x["ward"] == "b", "other", "small"))
    owner = LogisticRegression(max_iter=3, scorable=trained, insecure_log_n=SMALL)
    if trained:
        training = owner.plan(x, y).make_keys()
        encrypted = compute(owner.encrypt(x, y, training.public), training.evaluation)
        plan, keys, like = scoring.Plan.of(training.public, 90), training, owner
        rows = plan.encrypt(x, keys.public, like=like, y=y)
        fitted = sudare.LogisticRegression().decrypt(encrypted, keys.secret)
        by: list[Any] = [encrypted, fitted]
    else:
        fitted = owner.set_params(mode="simulate").fit(x, y)
        plan = scoring.plan(90, 4, n_classes=3, insecure_log_n=SMALL)
        keys = plan.make_keys()
        rows = plan.encrypt(x, keys.public, like=fitted, y=y)
        by = [fitted, plan.encrypt_model(fitted, keys.public)]
    for model in by:
        found = scoring.decrypt(scoring.compute(rows, model, keys.evaluation), keys.secret)
        expected = fitted.decision_function(x)
        np.testing.assert_allclose(found.scores, expected, atol=0.01)
        np.testing.assert_allclose(found.probabilities, fitted.predict_proba(x), atol=0.01)
        assert np.mean(found.predicted == fitted.predict(x)) > 0.97
        assert list(found.classes) == ["large", "other", "small"]
        assert found.accuracy == pytest.approx(fitted.score(x, y), abs=0.03)
        assert found.auc == pytest.approx(
            roc_auc_score(y, fitted.predict_proba(x), multi_class="ovr"), abs=0.01
        )
        assert found.largest_class == pytest.approx(max(np.unique(y, return_counts=True)[1]) / 90)
    with pytest.raises(errors.TableError, match="'z'|\"z\""):
        plan.encrypt(x.replace("a", "z"), keys.public, like=fitted)


def test_what_cannot_be_scored_is_refused(owner: Owner, model: LogisticRegression) -> None:
    (x, y), (plan, keys) = table(5), (owner.plan, owner.keys)
    rows = plan.encrypt(x, keys.public, like=model)
    far = x.assign(a=x["a"] + 100)
    for bad, options, error, says in [
        (table(5, 61)[0], {"like": model}, errors.ShapeError, "61 rows"),
        (far, {"like": model}, errors.OutsideIntervalError, "column"),
        (x.rename(columns={"a": "z"}), {"like": model}, errors.ArgumentError, "z, b, c"),
        (x, {"like": model, "y": y[1:]}, errors.ShapeError, "59 classes"),
        (x, {"like": model, "y": ["maybe"] * ROWS}, errors.ArgumentError, "maybe"),
        (x, {"like": x, "y": y}, errors.ArgumentError, "the model has 0, 1"),
        (x, {"like": x, "y": [3] * ROWS}, errors.ArgumentError, "the model has 0, 1"),
        (x, {"like": LogisticRegression()}, errors.NotFittedError, "call fit"),
        (x, {"like": "missing.json"}, errors.MissingFileError, "missing.json"),
    ]:
        with pytest.raises(error, match=says):
            plan.encrypt(bad, keys.public, **options)  # type: ignore[arg-type]
    for share in (0, 17):
        with pytest.raises(errors.Error):
            scoring.plan(ROWS, FEATURES, probability_bits=share)
    # Rows with another scaling, by either kind of model.
    other = plan.encrypt(x, keys.public, like=2 * x)
    for by in (model, plan.encrypt_model(model, keys.public)):
        scores = scoring.compute(other, by, keys.evaluation)
        with pytest.raises(errors.ArgumentError, match="not prepared for"):
            scoring.decrypt(scores, keys.secret)
    with pytest.raises(errors.MismatchError, match="statistics, groups"):
        rows.compute(keys.evaluation)
    summary = stats.Plan(sudare._native.TablePlan.statistics(6, 2, insecure_log_n=SMALL))
    wrong = summary.make_keys()
    statistics = summary.encrypt(np.eye(6)[:, :2], wrong.public)
    with pytest.raises(errors.MismatchError, match="to be scored"):
        scoring.compute(statistics, model, wrong.evaluation)
    with pytest.raises(errors.MismatchError, match="scores are needed"):
        scoring.decrypt(stats.compute(statistics, wrong.evaluation), wrong.secret)
    with pytest.raises(errors.ArgumentError, match="predict:ROWSxFEATURES"):
        scoring.Plan.of(wrong.public, 6)
    with pytest.raises(errors.MismatchError, match="statistics"):
        stats.decrypt(scoring.compute(rows, model, keys.evaluation), keys.secret)
    with pytest.raises(errors.ArgumentError, match="holds scores, but model"):
        scoring.compute(rows, scoring.compute(rows, model, keys.evaluation), keys.evaluation)


def test_scores_of_other_rows_are_refused(owner: Owner, model: LogisticRegression) -> None:
    x, _ = table(1)
    first, second = (owner.plan.encrypt(x, owner.keys.public, like=model) for _ in range(2))
    result = scoring.compute(first, model, owner.keys.evaluation)
    with pytest.raises(errors.WrongFileError, match="it says that it comes from"):
        scoring.decrypt(result, owner.keys.secret, table=second)
    assert len(scoring.decrypt(result, owner.keys.secret, table=first).scores) == ROWS


def test_scores_are_released_to_the_bits_planned_for(model: LogisticRegression) -> None:
    plan = scoring.plan(ROWS, FEATURES, share_bits=8, score_range=32.0, insecure_log_n=SMALL)
    assert plan.job == f"predict:{ROWS}x{FEATURES}, for others up to a score of 32"
    keys = plan.make_keys()
    x, y = table(4)
    rows = plan.encrypt(x, keys.public, like=model, y=y)
    result = scoring.compute(rows, model, keys.evaluation)
    own, shown = scoring.decrypt(result, keys.secret), scoring.release(result, keys.secret, 8)
    scoring.release(result, keys.secret, 8)
    assert keys.secret.releases == (1, 1024)
    assert 0 < abs(own.scores - shown.scores).max() <= 2.0**-8
    assert (shown.scores * 256 % 1 == 0).all()
    np.testing.assert_allclose(shown.probabilities, 1 / (1 + np.exp(-shown.scores)))
    with pytest.raises(errors.ArgumentError, match="not precise enough"):
        scoring.release(result, keys.secret, 12)


def test_scores_that_were_not_planned_for_it_are_not_released(
    owner: Owner, model: LogisticRegression
) -> None:
    rows = owner.plan.encrypt(table(5)[0], owner.keys.public, like=model)
    result = scoring.compute(rows, model, owner.keys.evaluation)
    with pytest.raises(errors.ArgumentError, match="not precise enough"):
        scoring.release(result, owner.keys.secret, 1)
    assert owner.keys.secret.releases == (0, 1024)
    for options in ({"share_bits": 4}, {"score_range": 4.0}):
        with pytest.raises(errors.ArgumentError, match="give both, or neither"):
            scoring.plan(ROWS, FEATURES, **options)
    with pytest.raises(errors.ArgumentError, match="probabilities follow"):
        scoring.plan(ROWS, FEATURES, share_bits=4, score_range=4.0, probability_bits=4)
    with pytest.raises(errors.ReleaseError):
        scoring.plan(ROWS, FEATURES, share_bits=13, score_range=4.0)
