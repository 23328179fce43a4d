"""Statistics of encrypted tables, against pandas, NumPy and SciPy."""

from __future__ import annotations

import datetime
import importlib
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import sudare
from sudare import errors, stats
from sudare._plain import Floats

ROWS = 189


def births() -> dict[str, np.ndarray[Any, Any]]:
    """A table with columns of different sizes and kinds, two of them correlated."""
    rng = np.random.default_rng(7)
    age = rng.integers(14, 46, ROWS)
    weight = 2.2 * age + rng.normal(60, 15, ROWS)
    smoker = rng.random(ROWS) < 0.4
    return {"age": age, "weight": weight, "smoker": smoker, "dose": rng.exponential(1e-3, ROWS)}


FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table, "dict": dict}


@pytest.fixture(scope="module")
def summary() -> stats.Summary:
    return stats.run(pd.DataFrame(births()))


def test_moments_are_those_of_pandas_and_scipy(summary: stats.Summary) -> None:
    frame = pd.DataFrame(births()).astype(float)
    assert summary.columns == tuple(frame.columns) and summary.rows == ROWS
    spread = frame.std().to_numpy()
    assert np.allclose((summary.mean - frame.mean()) / spread, 0, atol=1e-5)
    assert np.allclose(summary.variance, frame.var(), rtol=1e-5)
    assert np.allclose(summary.std, spread, rtol=1e-5)
    assert np.allclose(summary.skewness, scipy.stats.skew(frame), atol=1e-4)
    assert np.allclose(summary.kurtosis, scipy.stats.kurtosis(frame), atol=1e-3)
    scale = np.outer(spread, spread)
    assert np.allclose(summary.covariance / scale, frame.cov() / scale, atol=1e-5)
    assert np.allclose(summary.correlation, frame.corr(), atol=1e-5)


def test_biased_and_unbiased_figures_are_those_of_pandas_and_scipy(summary: stats.Summary) -> None:
    frame = pd.DataFrame(births()).astype(float)
    for ddof in (0, 1, 2):
        assert np.allclose(summary.var(ddof), frame.var(ddof=ddof), rtol=1e-5)
        assert np.allclose(summary.sem(ddof), frame.sem(ddof=ddof), rtol=1e-5)
    for bias in (True, False):
        assert np.allclose(summary.skew(bias=bias), scipy.stats.skew(frame, bias=bias), atol=1e-4)
        for fisher in (True, False):
            expected = scipy.stats.kurtosis(frame, fisher=fisher, bias=bias)
            assert np.allclose(summary.kurt(fisher=fisher, bias=bias), expected, atol=1e-3)
    assert np.allclose(summary.skew(bias=False), frame.skew(), atol=1e-4)
    assert np.allclose(summary.kurt(bias=False), frame.kurt(), atol=1e-3)
    groups = stats.run(frame.assign(ward=np.arange(ROWS) % 4), "groups", by="ward")
    by = frame.groupby(np.arange(ROWS) % 4)
    assert np.allclose(groups.var(0), by.var(ddof=0), rtol=1e-4)


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_estimates_that_few_rows_do_not_have_are_missing(rows: int) -> None:
    few = stats.run({"x": np.arange(float(rows)) ** 2})
    frame = pd.DataFrame({"x": np.arange(float(rows)) ** 2})
    assert np.allclose(few.skew(bias=False), frame.skew(), atol=1e-4, equal_nan=True)
    assert np.isnan(few.kurt(bias=False)).all()
    assert np.isnan(few.var(rows)).all()


def test_a_description_is_that_of_pandas(summary: stats.Summary) -> None:
    frame = pd.DataFrame(births()).astype(float)
    found = summary.describe(frame).set_index("statistic")
    assert np.allclose(found, frame.describe().loc[found.index], rtol=1e-5)
    assert list(found.index) == list(frame.describe().index)
    assert list(summary.describe()["statistic"]) == ["count", "mean", "std"]
    # In another order of columns, and as a dictionary.
    other = summary.describe({name: births()[name] for name in reversed(list(births()))})
    assert np.allclose(other.set_index("statistic"), found)
    with pytest.raises(errors.WrongFileError, match="188 rows"):
        summary.describe(frame[1:])
    with pytest.raises(errors.WrongFileError, match="'weight' has another mean"):
        summary.describe(frame.assign(weight=frame["weight"] + 1))
    with pytest.raises(errors.TableError, match="no column 'dose'"):
        summary.describe(frame.drop(columns="dose"))


def test_figures_from_moments(summary: stats.Summary) -> None:
    frame = pd.DataFrame(births()).astype(float)
    weighted = np.average(frame, axis=0, weights=frame["weight"])
    assert np.allclose(summary.weighted_mean("weight"), weighted, rtol=1e-5)

    fit = summary.least_squares("weight")
    assert fit.predictors == ("age", "smoker", "dose")
    x = np.column_stack([np.ones(ROWS), frame[list(fit.predictors)]])
    expected, residues, *_ = np.linalg.lstsq(x, frame["weight"], rcond=None)
    assert np.allclose([fit.intercept, *fit.coefficients], expected, rtol=1e-3)
    total = ((frame["weight"] - frame["weight"].mean()) ** 2).sum()
    assert np.isclose(fit.r_squared, 1 - residues[0] / total, atol=1e-5)
    assert np.isclose(fit.residual_variance, residues[0] / (ROWS - 4), rtol=1e-4)

    test = summary.t_test("age", "weight")
    twin = scipy.stats.ttest_ind(frame["age"], frame["weight"], equal_var=False)
    assert np.isclose(test.t, twin.statistic, rtol=1e-4)
    assert np.isclose(test.degrees_of_freedom, twin.df, rtol=1e-4)
    assert np.isclose(test.p_value, twin.pvalue, rtol=1e-2, atol=1e-12)


@pytest.mark.parametrize("library", FRAMES)
def test_frames_come_back_in_the_library_that_came_in(library: str) -> None:
    table = FRAMES[library]({"k": [1, 2, 2, 1, 2], "x": [1.5, 2.5, 3.5, 4.5, -1.0]})
    groups = stats.run(table, "groups", by="k")
    twin = pd.DataFrame({"k": [1, 2, 2, 1, 2], "x": [1.5, 2.5, 3.5, 4.5, -1.0]}).groupby("k")["x"]
    assert groups.by == "k" and groups.labels.tolist() == [1, 2] and groups.columns == ("x",)
    assert groups.count.tolist() == twin.count().tolist()
    for ours, theirs in (
        (groups.sum, twin.sum()),
        (groups.mean, twin.mean()),
        (groups.variance, twin.var()),
        (groups.std, twin.std()),
    ):
        assert np.allclose(ours[:, 0], theirs, atol=1e-5)
    test = groups.t_test(1, 2)["x"]
    expected = scipy.stats.ttest_ind([1.5, 4.5], [2.5, 3.5, -1.0], equal_var=False)
    assert test is not None and np.isclose(test.p_value, expected.pvalue, atol=1e-5)

    frame: Any = groups.to_frame()
    assert type(frame) is type(table)
    names = frame.column_names if library == "pyarrow" else list(getattr(frame, "columns", frame))
    assert names == ["k", "column", "count", "sum", "mean", "variance"]


def test_matrices_have_named_rows_and_columns(summary: stats.Summary) -> None:
    covariance = summary.to_frame("covariance").set_index("column")
    twin = pd.DataFrame(births()).astype(float).cov()
    assert list(covariance.columns) == list(covariance.index) == list(twin.columns)
    assert np.isclose(covariance.loc["age", "weight"], twin.loc["age", "weight"], rtol=1e-4)
    columns = summary.to_frame()
    assert columns["column"].tolist() == list(summary.columns)
    assert np.allclose(columns["std"], summary.std)


def test_roles_are_separate(tmp_path: Path) -> None:
    """Exchanges files and pickles between owner and server. The server has no secret."""
    table = births()
    plan = stats.plan(table)
    keys = plan.make_keys()
    explained = plan.explain()
    assert explained.security_bits >= 128 and "time" in str(explained)
    assert explained.evaluation_key_bytes == keys.evaluation.nbytes
    encrypted = plan.encrypt(table, keys.public, path=tmp_path / "table.ct")

    at_server = pickle.loads(pickle.dumps((encrypted, keys.evaluation)))
    answer = pickle.dumps(stats.compute(*at_server))

    summary = stats.decrypt(pickle.loads(answer), keys.secret)
    assert isinstance(summary, stats.Summary)
    assert np.allclose(summary.mean, [np.mean(column) for column in table.values()], rtol=1e-4)
    assert b"weight" not in encrypted.to_bytes() and b"weight" not in answer
    # In another process with only the keys.
    again = stats.Plan.of(keys.public)
    assert again.job == plan.job == encrypted.job == f"stats:{ROWS}x4"
    assert sudare.EncryptedTable is stats.EncryptedTable is type(encrypted)


def test_undefined_values_are_nan_and_padding_is_no_value() -> None:
    one = stats.run({"x": [3.0], "y": [-2.0]})
    assert np.allclose(one.mean, [3, -2], atol=1e-5) and np.isnan(one.variance).all()
    constant = stats.run({"x": [5.0, 5.0, 5.0], "y": [1.0, 2.0, 4.0]})
    assert np.isnan(constant.skewness[0]) and np.isnan(constant.correlation[0, 1])
    assert np.allclose(constant.mean, [5, 7 / 3], atol=1e-5)
    # Far from 0, where a slot of padding would show.
    far = np.array([[1e6, -1e6], [1e6 + 1, -1e6], [1e6 + 2, -1e6 - 3]])
    found = stats.run(far)
    assert found.columns == ("x0", "x1")
    assert np.allclose(found.mean, far.mean(axis=0), rtol=0, atol=1e-5)
    assert np.allclose(found.covariance, np.cov(far.T), atol=1e-4)


@pytest.mark.parametrize(
    ("table", "error", "says"),
    [
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), errors.TableError, "'a' 2 times"),
        (pa.table([[1], [2]], names=["a", "a"]), errors.TableError, "'a' 2 times"),
        (pd.DataFrame([[1.0]]), errors.TableError, "named 0"),
        ({"": [1.0]}, errors.TableError, "no name"),
        (pd.DataFrame({"a": [1 + 2j]}), errors.DtypeError, "column 'a'"),
        (pl.DataFrame({"a": [datetime.timedelta(1)]}), errors.DtypeError, "Duration"),
        (np.array([[None]]), errors.DtypeError, "object"),
        (pd.DataFrame({"a": [1, np.nan]}), errors.TableError, 'row 1, column "a".*missing="mean"'),
        (pl.DataFrame({"a": [None, 1]}), errors.TableError, 'row 0, column "a"'),
        (pa.table({"a": [1, None]}), errors.TableError, 'row 1, column "a"'),
        (pl.DataFrame({"a": [1.0, np.nan]}), errors.TableError, 'row 1, column "a"'),
        (np.array([[1.0, np.inf]]), errors.OutsideRangeError, "inf"),
        (np.ones(3), errors.ShapeError, "rows and columns"),
        (np.ones((0, 3)), errors.ShapeError, "empty"),
        ({}, errors.ShapeError, "no columns"),
        ({"a": [1.0], "b": [1.0, 2.0]}, errors.ShapeError, "equal length"),
        ({"a": [[1.0, 2.0]]}, errors.ShapeError, "one number per row"),
        (pl.LazyFrame({"a": [1.0]}), errors.DtypeError, "collect"),
        (pd.Series([1.0]), errors.DtypeError, "Series"),
        (5, errors.DtypeError, "int"),
    ],
)
def test_bad_tables_are_refused(
    summary: stats.Summary, table: object, error: type[errors.Error], says: str
) -> None:
    with pytest.raises(error, match=says):
        stats.run(table)


def test_bad_arguments_are_refused(summary: stats.Summary) -> None:
    table = births()
    for arguments in (
        {"what": "sums"},
        {"what": "groups"},
        {"by": "age"},
        {"bins": 3},
        {"what": "histogram", "groups": 2},
    ):
        with pytest.raises(errors.ArgumentError):
            stats.plan(table, **arguments)
    with pytest.raises(errors.ArgumentError, match="groups="):
        stats.plan((10, 2), "groups", by="k")
    with pytest.raises(errors.ShapeError, match="2 different"):
        stats.plan(table, "groups", by="smoker", groups=3)
    with pytest.raises(errors.TableError, match="'size'.*age, weight"):
        stats.plan(table, "groups", by="size")
    with pytest.raises(errors.ShapeError):
        stats.plan((10, 2), "histogram", bins=1)
    for shape in ((-1, 2), (2.5, 3)):
        with pytest.raises(errors.Error):
            stats.plan(shape)
    wrong: list[Any] = [-1, 2.5, "3"]
    for bins in wrong:
        with pytest.raises(errors.ArgumentError, match="bins is"):
            stats.plan((10, 2), "histogram", bins=bins)
    assert stats.plan(((1.0, 2.0), (3.0, 5.0), (4.0, 1.0))).job == "stats:3x2"
    with pytest.raises(errors.ArgumentError, match="'cov'.*'covariance'"):
        summary.to_frame("cov")  # type: ignore[arg-type]
    with pytest.raises(errors.TableError):
        summary.weighted_mean("size")
    dependent = stats.run({"x": [1.0, 2, 3, 4], "y": [2.0, 4, 6, 8], "z": [1.0, 0, 1, 1]})
    with pytest.raises(errors.ArgumentError, match="leave"):
        dependent.least_squares("z")

    plan = stats.plan((3, 2))
    keys = plan.make_keys()
    with pytest.raises(errors.ShapeError, match="the plan is for 1 to 3"):
        plan.encrypt(table, keys.public)
    encrypted = plan.encrypt(np.ones((3, 2)), keys.public)
    with pytest.raises(errors.MismatchError):
        stats.compute(encrypted, plan.make_keys().evaluation)
    with pytest.raises(errors.MismatchError):
        stats.plan((3, 3)).encrypt(np.ones((3, 3)), keys.public)
    grouped = stats.plan((4, 1), "groups", by="k", groups=2)
    keys = grouped.make_keys()
    with pytest.raises(errors.ArgumentError, match="by="):
        stats.Plan.of(keys.public).encrypt({"k": [1, 2, 1, 2], "x": [1, 2, 3, 4]}, keys.public)
    with pytest.raises(errors.ShapeError, match="found 3 groups.*at most 2"):
        grouped.encrypt({"k": [1, 2, 3, 2], "x": [1, 2, 3, 4]}, keys.public)


def histograms(table: Any, bins: int, **options: Any) -> stats.Histograms:
    """Uses a small ring, because the secure one is large."""
    rows, columns = np.shape(table)
    native = sudare._native.TablePlan.histogram(rows, columns, bins, insecure_log_n=11)
    plan = stats.Plan(native, **options)
    keys = plan.make_keys()
    result = stats.compute(plan.encrypt(table, keys.public), keys.evaluation)
    found = stats.decrypt(result, keys.secret, like=pd.DataFrame())
    assert isinstance(found, stats.Histograms)
    return found


def test_histograms_and_quantiles() -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(size=(60, 3)) * [1, 50, 9]
    values[:, 2] = values[:, 2].round()
    found = histograms(values, 4)
    assert (found.errors == 0).all() and (found.below == 0).all() and (found.above == 0).all()
    for j in range(3):
        low, high = values[:, j].min(), values[:, j].max()
        if j < 2:
            assert np.array_equal(found.edges[j], np.linspace(low, high, 5))
        else:
            # Between whole numbers, of equal width.
            assert (found.edges[j] % 1 == 0.5).all() and len(set(np.diff(found.edges[j]))) == 1
        expected, _ = np.histogram(values[:, j], bins=found.edges[j])
        assert found.counts[j].tolist() == expected.tolist()
    parts = [0, 0.1, 0.25, 0.5, 0.9, 1]
    low, high = found.quantile_bounds(parts)
    middle = found.quantile(parts)
    true = np.quantile(values, parts, axis=0)
    assert (low <= true).all() and (true <= high).all()
    assert (low <= middle).all() and (middle <= high).all()
    assert (high - low <= 2 * np.diff(found.edges)[:, 0] + 1e-9).all()
    assert found.quantile(0.5).shape == found.quantile_bounds(0.5)[0].shape == (3,)
    assert found.quantile([0.25, 0.5]).shape == (2, 3)
    for of_quantile in (found.quantile, found.quantile_bounds):
        with pytest.raises(errors.ArgumentError):
            of_quantile(2)
    assert list(found.to_frame().columns) == ["column", "low", "high", "count", "error"]


def test_histograms_with_edges_of_ones_choice() -> None:
    rng = np.random.default_rng(5)
    values = np.exp(rng.normal(size=(50, 2)) * 3)
    found = histograms(values, 5, edges={"x0": "quantile", "x1": "log"})
    assert np.allclose(found.edges[0], np.quantile(values[:, 0], np.linspace(0, 1, 6)))
    assert found.counts[0].tolist() == [10] * 5
    ends = values[:, 1].min(), values[:, 1].max()
    assert np.allclose(found.edges[1], np.geomspace(*ends, 6))
    assert found.counts[1].sum() == 50

    edges = [0.5, 1.0, 2.0, 10.0]
    found = histograms(values, 3, edges=edges)
    for j in range(2):
        assert found.counts[j].tolist() == np.histogram(values[:, j], bins=edges)[0].tolist()
    assert found.below.tolist() == (values < 0.5).sum(axis=0).tolist()
    assert found.above.tolist() == (values > 10).sum(axis=0).tolist()

    extreme = np.array([[-1e308], [0.0], [1e308], [0.5]])
    found = histograms(extreme, 4)
    assert found.counts[0].tolist() == [1, 0, 2, 1] and np.isfinite(found.quantile(0.5)).all()
    assert np.allclose(found.edges[0] / 1e308, [-1, -0.5, 0, 0.5, 1])

    table = {"a": [1.5, 2.5, 4.0], "b": [1.0, 2.0, 3.0]}
    assert stats.plan(table, "histogram", edges=[0, 1, 2]).job == "histogram:3x2x2"
    assert stats.plan(table, "histogram", edges={"a": [0, 1, 2]}).job == "histogram:3x2x2"
    assert stats.plan(table, "histogram", bins=3, edges="log").job == "histogram:3x2x3"
    wrong: list[tuple[type[errors.Error], dict[str, Any]]] = [
        (errors.ShapeError, {"edges": [0, 1, 2], "bins": 3}),
        (errors.ShapeError, {"edges": {"a": [0, 1, 2], "b": [0, 1, 2, 3]}}),
        (errors.ArgumentError, {"share_bits": 4, "exact": True}),
    ]
    for error, options in wrong:
        with pytest.raises(error):
            stats.plan(table, "histogram", **options)
    with pytest.raises(errors.ArgumentError, match="edges is not for"):
        stats.plan(table, edges="log")
    refused: list[tuple[Any, str]] = [([0, 2, 1], "ascend"), ({"c": "log"}, "'c'"), ("even", "even")]
    for edges, says in refused:
        with pytest.raises(errors.Error, match=says):
            histograms(pd.DataFrame(table), 2, edges=edges)
    with pytest.raises(errors.ArgumentError, match="positive"):
        histograms(np.array([[0.0], [1.0]]), 2, edges="log")


def test_exact_counts_are_planned() -> None:
    """Uses more precise parameters, which only a plan has here."""
    usual = stats.plan((100_000, 1), "histogram", bins=3)
    exact = stats.plan((100_000, 1), "histogram", bins=3, exact=True)
    assert exact.explain().security_bits >= 128
    assert str(exact.explain()) != str(usual.explain())


def test_zeros_of_both_signs_are_one_group() -> None:
    keys = [-1.0, -0.0, 0.0, -1.0]
    found = stats.run({"k": keys, "x": [1.0, 2, 3, 10]}, "groups", by="k")
    assert found.labels.tolist() == [-1, 0] and not np.signbit(found.labels[1])
    assert found.count.tolist() == [2, 2] and np.allclose(found.sum[:, 0], [11, 5], atol=1e-4)


@pytest.mark.parametrize("library", FRAMES)
def test_large_whole_numbers_tell_no_groups_apart(library: str) -> None:
    ids = 95820843523155097 + np.repeat(np.arange(3), 2)
    table = FRAMES[library]({"id": ids, "x": np.arange(6.0)})
    with pytest.raises(errors.ArgumentError, match="'id'.*number the groups"):
        stats.plan(table, "groups", by="id")
    plan = stats.plan((6, 1), "groups", by="id", groups=3)
    with pytest.raises(errors.ArgumentError):
        plan.encrypt(table, plan.make_keys().secret)
    # As numbers, they are rounded to double precision.
    assert stats.plan(table).job == "stats:6x2"


def untold(found: Floats, true: Any, error: Floats) -> None:
    """Checks that each figure is within its error, and that missing ones are below it."""
    true = np.asarray(true, dtype=np.float64)
    told = ~np.isnan(found)
    assert (np.abs(found - true)[told] <= error[told] + 1e-12 * np.abs(true[told])).all()
    assert (np.abs(true[~told]) <= 2 * error[~told]).all()


@pytest.mark.filterwarnings("ignore::sudare.errors.PrecisionWarning")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e9])
def test_groups_are_those_of_pandas_whatever_is_elsewhere(seed: int, unit: float) -> None:
    """Tests groups of any size: one constant, one of a single row, and one far from all others."""
    rng = np.random.default_rng(seed)
    sizes = [30, 20, 1, 5, 12]
    parts = [
        rng.normal(1.0, 0.1, 30),
        rng.normal(1.06, 0.1, 20),
        rng.normal(size=1),
        np.full(5, 1.7),
        rng.normal(size=12) * 10.0 ** rng.integers(3, 7),
    ]
    table = pd.DataFrame({"k": np.repeat(np.arange(5.0), sizes), "x": unit * np.concatenate(parts)})
    table["y"] = rng.permutation(table["x"])
    found = stats.run(table, "groups", by="k")
    twin = table.groupby("k")
    assert found.count.tolist() == sizes and found.count_error == 0
    untold(found.sum, twin.sum(), found.sum_error)
    untold(found.mean, twin.mean(), found.mean_error)
    assert np.isnan(found.variance[2]).all() and found.variance[3, 0] == 0
    others = [0, 1, 3, 4]
    untold(found.variance[others], twin.var().to_numpy()[others], found.variance_error[others])
    # No group costs digits in another.
    assert np.allclose(found.std[:2, 0], twin["x"].std()[:2], rtol=1e-3)
    tests = found.t_test(0, 1)
    expected = scipy.stats.ttest_ind(parts[0], parts[1], equal_var=False)
    assert tests["x"] is not None
    assert np.isclose(tests["x"].p_value, expected.pvalue, rtol=1e-2)
    assert found.t_test(3, 3)["x"] is None and found.t_test(2, 0)["x"] is None


@pytest.mark.filterwarnings("ignore::sudare.errors.PrecisionWarning")
@pytest.mark.parametrize("seed", range(3))
def test_statistics_are_told_within_their_errors(seed: int) -> None:
    """Columns of any size and place, with outliers, and constant ones."""
    rng = np.random.default_rng(seed)
    n = 60
    unit = 10.0 ** rng.integers(-6, 10, 5)
    table = unit * (rng.normal(size=(n, 5)) + rng.normal(size=5) * 100)
    table[0, 1] += unit[1] * 10.0 ** rng.integers(3, 7)
    table[:, 3] = 7
    table[:, 4] += table[:, 0] * unit[4] / unit[0]
    found = stats.run(table)
    frame = pd.DataFrame(table)
    untold(found.mean, frame.mean(), found.mean_error)
    untold(found.covariance, frame.cov(), found.covariance_error)
    untold(found.variance, frame.var(), found.variance_error)
    told = ~np.isnan(found.correlation)
    assert told[np.ix_([0, 2, 4], [0, 2, 4])].all() and not told[3].any()
    with np.errstate(divide="ignore", invalid="ignore"):
        correlation: Any = np.corrcoef(table.T)
    assert np.allclose(found.correlation[told], correlation[told], atol=1e-2)
    for ours, theirs in (
        (found.skewness, scipy.stats.skew(table)),
        (found.kurtosis, scipy.stats.kurtosis(table)),
    ):
        told = ~np.isnan(ours)
        assert told[[0, 2, 4]].all() and not told[3]
        assert np.allclose(ours[told], theirs[told], rtol=1 / 16, atol=1 / 16)


def test_extreme_columns_have_their_spread() -> None:
    ulp = np.spacing(1.0)
    table = {"huge": [-1e308, 0.0, 1e308, 5e307], "ulps": [1.0, 1 + ulp, 1 + 2 * ulp, 1.0]}
    with np.errstate(over="ignore"):
        found = stats.run(table)
    expected = np.std(np.array(table["huge"]) / 1e300, ddof=1)
    assert np.isclose(found.std[0] / 1e300, expected, rtol=1e-4)
    steps = np.array([0.0, 1, 2, 0])
    assert np.isclose(found.std[1] / ulp, steps.std(ddof=1), rtol=1e-4)
    assert np.isfinite(found.correlation).all() and found.variance[0] == np.inf


def test_undecided_figures_are_refused() -> None:
    found = stats.run({"w": [-1.0, 1, -1, 1, -1, 1], "x": [1.0, 2, 3, 4, 5, 6], "c": [2.0] * 6})
    with pytest.raises(errors.ArgumentError, match="may not be positive"):
        found.weighted_mean("w")
    x = np.arange(1, 7)
    columns = np.array([[-1, 1, -1, 1, -1, 1], x, np.full(6, 2)])
    expected: Any = np.average(columns, axis=1, weights=x)
    assert np.allclose(found.weighted_mean("x"), expected, atol=1e-4)
    with pytest.raises(errors.ArgumentError):
        found.t_test("c", "c")
    rng = np.random.default_rng(0)
    # A plane without residuals has no standard errors.
    plane = {"a": rng.normal(size=30), "b": rng.normal(size=30)}
    plane["y"] = 2 * plane["a"] - plane["b"] + 1
    fit = stats.run(plane).least_squares("y")
    assert np.allclose(fit.coefficients, [2, -1], rtol=1e-3) and np.isclose(fit.intercept, 1, atol=1e-2)
    assert np.isnan(fit.residual_variance) and np.isnan(fit.p_values).all()
    assert np.isclose(fit.r_squared, 1, atol=1e-3)


@pytest.fixture(scope="module")
def small() -> tuple[stats.Plan, sudare.Keys]:
    """A plan for 6 rows of 2 columns and its keys, in a small ring."""
    plan = stats.Plan(sudare._native.TablePlan.statistics(6, 2, insecure_log_n=11))
    return plan, plan.make_keys()


@given(
    numbers=arrays(np.float64, (6, 2), elements=st.floats(-1, 1, width=16)),
    centre=st.sampled_from([0.0, 1.0, -1e4]),
    size=st.sampled_from([1e-6, 1.0, 1e6]),
)
@settings(max_examples=20, deadline=None)
def test_any_numbers_have_their_moments(
    small: tuple[stats.Plan, sudare.Keys], numbers: Floats, centre: float, size: float
) -> None:
    plan, keys = small
    table = size * (centre + numbers)
    result = stats.compute(plan.encrypt(table, keys.public), keys.evaluation)
    found = stats.decrypt(result, keys.secret)
    assert isinstance(found, stats.Summary)
    half = np.ptp(table, axis=0) / 2
    rounding = 1e-14 * np.abs(table).max() + 1e-300
    assert (np.abs(found.mean - table.mean(axis=0)) <= 1e-5 * half + rounding).all()
    covariance = np.abs(found.covariance - np.cov(table.T))
    rounding *= 10 * (half.max() + rounding)
    assert (covariance <= 1e-4 * np.outer(half, half) + rounding).all()


def test_frames_need_narwhals_and_arrays_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.import_module

    def missing(name: str, package: str | None = None) -> object:
        if name.startswith("narwhals"):
            raise ImportError(name)
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(errors.MissingDependencyError, match="pip install narwhals"):
        stats.plan(pd.DataFrame({"a": [1.0]}))
    assert stats.plan({"a": [1.0, 2.0]}).job == "stats:2x1"


def test_importing_takes_no_optional_package() -> None:
    code = "import sys, sudare.stats; print({'pandas', 'polars', 'narwhals'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
