"""Standard errors, tests, intervals and weights of rows, against statsmodels and scikit-learn."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn.linear_model
import statsmodels.api as sm
from sklearn.base import clone

from sudare import errors
from sudare.linear_model import LinearRegression, LogisticRegression, Ridge, compute
from test_linear_model import SMALL, bundled

Floats = np.ndarray[Any, np.dtype[np.float64]]


def linear(rows: int = 300) -> tuple[pd.DataFrame, Floats, Floats]:
    """Rows with columns of other units, their targets and weights."""
    rng = np.random.default_rng(5)
    X = pd.DataFrame(rng.normal(size=(rows, 3)) * [1, 10, 0.1] + [0, 50, 1], columns=list("abc"))
    y = X.to_numpy() @ [1.0, 0.2, 5.0] + 2 * rng.normal(size=rows)
    return X, y, rng.uniform(0.1, 3.0, rows)


def expect_equal(found: Any, reference: Any, rtol: float) -> None:
    """Compares a summary with a result of statsmodels."""
    bse = np.asarray(reference.bse)
    off = np.abs(found.coefficients - np.asarray(reference.params)) / bse
    assert off.max() < max(rtol, 1e-9)
    np.testing.assert_allclose(found.standard_errors, bse, rtol=rtol)
    np.testing.assert_allclose(found.p_values, reference.pvalues, rtol=50 * rtol, atol=1e-12)
    ends = np.asarray(reference.conf_int())
    size = bse.max() * 4
    np.testing.assert_allclose(found.low, ends[:, 0], atol=2 * rtol * size)
    np.testing.assert_allclose(found.high, ends[:, 1], atol=2 * rtol * size)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_least_squares_are_those_of_statsmodels(fit_intercept: bool, weighted: bool) -> None:
    X, y, weights = linear()
    if not fit_intercept:
        X, y = X - X.mean(), y - y.mean()
    design = sm.add_constant(X) if fit_intercept else X
    reference = sm.WLS(y, design, weights).fit() if weighted else sm.OLS(y, design).fit()
    model = LinearRegression(mode="simulate", fit_intercept=fit_intercept)
    found = model.fit(X, y, weights if weighted else None).summary()
    expect_equal(found, reference, 1e-8)
    assert found.r_squared == pytest.approx(reference.rsquared, abs=1e-9)
    assert found.residual_variance == pytest.approx(reference.mse_resid, rel=1e-9)
    assert (found.rows, found.degrees_of_freedom) == (len(X), reference.df_resid)
    assert found.names == (("intercept", *"abc") if fit_intercept else tuple("abc"))
    weight = weights if weighted else None
    mean = np.average(X, axis=0, weights=weight)
    deviations = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weight))
    np.testing.assert_allclose(found.per_std[-3:], model.coef_ * deviations, rtol=1e-9)


def test_encrypted_least_squares_have_the_same_summary() -> None:
    X, y, weights = linear()
    for weight in (None, weights):
        reference = sm.WLS(y, sm.add_constant(X), 1.0 if weight is None else weight).fit()
        model = LinearRegression(insecure_log_n=SMALL).fit(X, y, weight)
        expect_equal(model.summary(), reference, 1e-5)
    # From the result alone, in another estimator.
    owner = LinearRegression(insecure_log_n=SMALL)
    keys = owner.plan(X, y).make_keys()
    result = compute(owner.encrypt(X, y, keys.secret), keys.evaluation)
    other = LinearRegression().decrypt(result, keys.secret)
    expect_equal(other.summary(), sm.OLS(y, sm.add_constant(X)).fit(), 1e-5)


def test_other_levels_of_intervals() -> None:
    X, y, _ = linear(12)
    model, reference = LinearRegression(mode="simulate").fit(X, y), sm.OLS(y, sm.add_constant(X)).fit()
    for level in (0.5, 0.99):
        found = model.summary(level=level)
        np.testing.assert_allclose(found.low, reference.conf_int(1 - level)[0], rtol=1e-8)
    for wrong in (0.0, 1.0, 95):
        with pytest.raises(errors.ArgumentError, match="level"):
            model.summary(level=wrong)


def test_summaries_print_and_become_frames() -> None:
    X, y, _ = linear()
    found = LinearRegression(mode="simulate").fit(X, y).summary()
    frame = found.to_frame(like=X)
    assert list(frame.columns) == [
        *("name", "coefficient", "standard_error", "t", "p_value", "low", "high", "per_std")
    ]
    np.testing.assert_array_equal(frame["standard_error"], found.standard_errors)
    assert set(found.to_frame()) == set(frame.columns)
    assert "R squared" in str(found) and "intercept" in str(found)
    html = found._repr_html_()
    assert html.count("<tr>") == 5 and "residual variance" in html


def test_figures_that_encryption_hides_are_missing() -> None:
    X, _, _ = linear()
    y = X["a"] + 1e-4 * np.random.default_rng(0).normal(size=len(X))
    model = LinearRegression(mode="simulate").fit(X, y)
    with pytest.warns(errors.PrecisionWarning, match="standard errors are missing"):
        found = model.summary()
    assert np.isnan(found.standard_errors).all() and np.isfinite(found.coefficients).all()


def test_summaries_without_residuals_or_with_a_penalty_are_refused() -> None:
    X, y, _ = linear(4)
    with pytest.raises(errors.ArgumentError, match="no residuals"):
        LinearRegression(mode="simulate").fit(X, y).summary()
    X, y, _ = linear()
    with pytest.raises(errors.UnsupportedError, match="biased"):
        Ridge(mode="simulate").fit(X, y).summary()
    assert len(Ridge(alpha=0.0, mode="simulate").fit(X, y).summary().names) == 4
    with pytest.raises(errors.NotFittedError):
        LinearRegression().summary()


@pytest.mark.parametrize("name", ["lbw", "uis"])
def test_logistic_regression_is_that_of_statsmodels(name: str) -> None:
    X, y = bundled(name)
    reference = sm.Logit(y, sm.add_constant(X)).fit(disp=0)
    model = LogisticRegression(mode="simulate", C=np.inf, max_iter=30, sigmoid_range=4.0)
    found = model.fit(X, y).summary(X, y)
    # Within a hundredth of a standard error, and standard errors within 1 %.
    expect_equal(found, reference, 1e-2)
    off = np.abs(found.coefficients - reference.params) / reference.bse
    assert off.max() < 0.005 and found.penalty == 0
    assert found.distance == pytest.approx(off.max(), rel=0.05)
    assert found.log_likelihood == pytest.approx(reference.llf, abs=1e-3)
    np.testing.assert_allclose(found.odds_ratios, np.exp(found.coefficients))
    np.testing.assert_allclose(found.odds_ratios_high, np.exp(found.high))
    np.testing.assert_allclose(found.per_std[1:], model.coef_[0] * X.std(ddof=0))
    # The covariance is right at these coefficients, as in statsmodels.
    at = sm.Logit(y, sm.add_constant(X)).hessian(found.coefficients)
    np.testing.assert_allclose(found.standard_errors**2, np.diag(np.linalg.inv(-at)), rtol=1e-8)


def test_an_encrypted_model_has_a_summary() -> None:
    X, y = bundled("lbw")
    model = LogisticRegression(C=np.inf, insecure_log_n=SMALL, random_state=0).fit(X, y)
    expect_equal(model.summary(X, y), sm.Logit(y, sm.add_constant(X)).fit(disp=0), 2e-2)


def test_a_penalty_is_part_of_the_information() -> None:
    X, y = bundled("lbw")
    near = np.column_stack([np.ones(len(X)), (X - X.mean()) / X.std(ddof=0)])
    strengths: list[tuple[dict[str, Any], float]] = [
        ({"C": 0.2}, 5.0),
        ({"alpha": 0.02}, 0.02 * len(X)),
    ]
    for options, penalty in strengths:
        model = LogisticRegression(mode="simulate", max_iter=15, calibrate=False, **options)
        found = model.fit(X, y).summary(X, y)
        assert found.penalty == pytest.approx(penalty)
        assert "inverse of the penalised information" in str(found)
        sk = sklearn.linear_model.LogisticRegression(C=1 / penalty, tol=1e-10).fit(near[:, 1:], y)
        p = sk.predict_proba(near[:, 1:])[:, 1]
        information = near.T @ (near * (p * (1 - p))[:, None]) + penalty * np.diag([0, *[1] * 9])
        errors_of_near = np.sqrt(np.diag(np.linalg.inv(information)))[1:]
        np.testing.assert_allclose(
            found.standard_errors[1:], errors_of_near / X.std(ddof=0), rtol=1e-2
        )
        off = np.abs(found.per_std[1:] - sk.coef_[0]) / errors_of_near
        assert off.max() == pytest.approx(found.distance, abs=0.02)


def test_a_training_that_stopped_early_warns() -> None:
    X, y = bundled("lbw")
    papers = LogisticRegression(mode="simulate", preparation="scale", alpha=0.0, calibrate=False)
    papers.fit(X, y)
    with pytest.warns(errors.PrecisionWarning, match="more iterations"):
        assert papers.summary(X, y).distance > 0.25


def test_summaries_of_other_models_and_rows_are_refused() -> None:
    X, y = bundled("lbw")
    simulated: dict[str, Any] = {"mode": "simulate", "max_iter": 3}
    model = LogisticRegression(**simulated).fit(X, y)
    with pytest.raises(errors.WrongFileError, match="188 rows"):
        model.summary(X[1:], y[1:])
    three = LogisticRegression(**simulated).fit(X, np.arange(len(X)) % 3)
    with pytest.raises(errors.UnsupportedError, match="3 classes"):
        three.summary(X, np.arange(len(X)) % 3)
    weighted = LogisticRegression(**simulated, class_weight="balanced").fit(X, y)
    with pytest.raises(errors.UnsupportedError, match="weights"):
        weighted.summary(X, y)
    # All categories of a column are linearly dependent. Only a penalty makes them unique.
    rows = pd.DataFrame({"group": list("abc") * 60, "x": np.arange(180.0) % 7})
    classes = (np.arange(180) % 5 > 2).astype(int)
    free = LogisticRegression(mode="simulate", C=np.inf).fit(rows, classes)
    with pytest.raises(errors.ArgumentError, match="linear functions of each other"):
        free.summary(rows, classes)
    assert len(LogisticRegression(mode="simulate").fit(rows, classes).summary(rows, classes).names) == 5


def test_a_weight_is_a_number_of_copies() -> None:
    X, y = bundled("uis")
    rng = np.random.default_rng(1)
    counts = rng.integers(0, 4, len(X))
    copies = np.repeat(np.arange(len(X)), counts)
    weights: list[dict[str, Any]] = [
        {},
        {"class_weight": "balanced"},
        {"C": 0.01, "class_weight": {0: 1, 1: 3}},
    ]
    for options in weights:
        model = LogisticRegression(mode="simulate", max_iter=5, sigmoid_range=8.0, **options)
        weighted = clone(model).fit(X, y, counts.astype(float))
        repeated = clone(model).fit(X.iloc[copies], y[copies])
        np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-6)
        np.testing.assert_allclose(weighted.intercept_, repeated.intercept_, rtol=1e-6)
    # The size of weights matters for C alone, as in scikit-learn.
    free = LogisticRegression(mode="simulate", max_iter=5, alpha=0.01)
    np.testing.assert_allclose(
        clone(free).fit(X, y, counts * 1e6).coef_, clone(free).fit(X, y, counts).coef_, rtol=1e-9
    )


def test_weighted_rows_are_those_of_scikit_learn() -> None:
    X, y = bundled("uis")
    weights = np.random.default_rng(2).uniform(0.2, 4.0, len(X))
    mean = np.average(X, axis=0, weights=weights)
    deviations = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weights))
    near = (X - mean) / deviations
    sk = sklearn.linear_model.LogisticRegression(tol=1e-10).fit(near, y, weights)
    model = LogisticRegression(mode="simulate", max_iter=30)
    model.set_params(calibrate=False).fit(X, y, weights)
    np.testing.assert_allclose(model.coef_[0] * deviations, sk.coef_[0], atol=1.2e-2)
    assert np.abs(model.coef_ - clone(model).fit(X, y).coef_).max() > 1e-2


def test_owner_and_server_train_on_weighted_rows() -> None:
    X, y = bundled("lbw")
    weights = np.random.default_rng(3).uniform(0.2, 2.0, len(X))
    owner = LogisticRegression(
        insecure_log_n=SMALL, max_iter=2, sigmoid_range=8.0, batch_size=100, random_state=0
    )
    keys = owner.plan(len(X), 9, sample_weight=True).make_keys()
    table = owner.encrypt(X, y, keys.secret, sample_weight=weights)
    result = compute(table, keys.evaluation)
    order = np.random.default_rng(4).permutation(len(X))
    owner.decrypt(result, keys.secret, X.iloc[order], y[order], sample_weight=weights[order])
    simulated = clone(owner).set_params(mode="simulate").fit(X, y, weights)
    np.testing.assert_allclose(owner.coef_, simulated.coef_, atol=1e-4)
    for other in (None, np.roll(weights, 1)):
        with pytest.raises(errors.ArgumentError, match="not the table"):
            owner.decrypt(result, keys.secret, X, y, sample_weight=other)
    with pytest.raises(errors.ArgumentError, match="one for each row"):
        owner.encrypt(X, y, keys.secret)
    unweighted = clone(owner).plan(len(X), 9).make_keys()
    with pytest.raises(errors.ArgumentError, match="planned without weights"):
        owner.encrypt(X, y, unweighted.secret, sample_weight=weights)


def test_weights_that_cannot_be_used_are_refused() -> None:
    X, y = bundled("lbw")
    for model in (LogisticRegression(mode="simulate"), LinearRegression(mode="simulate")):
        for weights in (np.zeros(len(X)), -np.ones(len(X)), np.full(len(X), np.nan)):
            with pytest.raises(errors.Error, match="weight|finite"):
                model.fit(X, y, weights)
        with pytest.raises(errors.ShapeError, match="one weight for each"):
            model.fit(X, y, np.ones(5))
    few = np.ones(len(X))
    few[0] = 1e6
    with pytest.raises(errors.OutOfRoomError, match="closer together"):
        LogisticRegression(insecure_log_n=SMALL).fit(X, y, few)
    owner = LinearRegression(insecure_log_n=SMALL)
    keys = owner.plan(X, y).make_keys()
    with pytest.raises(errors.UnsupportedError, match="call fit with sample_weight"):
        owner.encrypt(X, y, keys.secret, sample_weight=np.ones(len(X)))


def test_rows_that_lack_values_are_left_out_with_their_weights() -> None:
    X, y = bundled("lbw")
    weights = np.random.default_rng(3).uniform(0.2, 2.0, len(X))
    gaps = X.copy()
    gaps.iloc[[0, 7], 1] = np.nan
    model = LogisticRegression(mode="simulate", max_iter=3, missing="drop")
    kept = np.setdiff1d(np.arange(len(X)), [0, 7])
    reference = clone(model).fit(X.iloc[kept], y[kept], weights[kept])
    np.testing.assert_allclose(clone(model).fit(gaps, y, weights).coef_, reference.coef_, rtol=1e-9)


def test_models_do_not_carry_the_moments_of_weighted_rows() -> None:
    X, y, weights = linear()
    model = LinearRegression(mode="simulate").fit(X, y, weights)
    again = pickle.loads(pickle.dumps(model))
    assert again._weighting is None
    np.testing.assert_array_equal(again.summary().low, model.summary().low)
