"""Tables of every kind as rows of a model: names, types, gaps, labels, against pandas and pyarrow."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn.linear_model
import sklearn.metrics

from sudare import errors, pool, scoring
from sudare.linear_model import LinearRegression, LogisticRegression, compute

# A ring without security in which a training takes a second.
SMALL = 11

Floats = npt.NDArray[np.float64]


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    random = np.random.default_rng(3)
    values = random.normal(size=(120, 2)) * [1, 5] + [0, 50]
    return pd.DataFrame({"a": values[:, 0], "b": values[:, 1], "w": list("abc") * 40})


@pytest.fixture(scope="module")
def classes(rows: pd.DataFrame) -> npt.NDArray[np.int_]:
    found: npt.NDArray[np.int_] = (rows["a"] > (rows["b"] - 50) / 5).to_numpy().astype(int)
    return found


def simulated(**options: Any) -> LogisticRegression:
    return LogisticRegression(mode="simulate", **options)


def chunked(table: pa.Table) -> pa.Table:
    return pa.concat_tables([table.slice(0, 7), table.slice(7, 0), table.slice(7)])


FRAMES: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda frame: frame,
    "index": lambda frame: frame.set_index(np.arange(len(frame))[::-1] * 3),
    "category": lambda frame: frame.astype(
        {"w": pd.CategoricalDtype(["unused", "c", "b", "a"])}
    ),
    "float32": lambda frame: frame.astype({"a": np.float32, "b": np.float64}),
    "polars": lambda frame: pl.from_pandas(frame),
    "pyarrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "chunked": lambda frame: chunked(pa.Table.from_pandas(frame, preserve_index=False)),
    "dictionary": lambda frame: pa.table(
        {
            "a": pa.array(frame["a"]),
            "b": pa.array(frame["b"]),
            "w": pa.array(frame["w"]).dictionary_encode(),
        }
    ),
}


@pytest.mark.parametrize("name", FRAMES)
def test_columns_are_found_by_name_in_frames_of_any_library(
    name: str, rows: pd.DataFrame, classes: npt.NDArray[np.int_]
) -> None:
    expected = simulated().fit(rows, classes)
    frame, other = FRAMES[name](rows), FRAMES[name](rows)
    other = other.select(["w", "b", "a"]) if hasattr(other, "select") else other[["w", "b", "a"]]
    model = simulated().fit(frame, classes)
    assert list(model.columns_) == ["a", "b", "w=a", "w=b", "w=c"]
    tolerance = 1e-6 if name == "float32" else 1e-12
    for table in (frame, other):
        found = model.predict_proba(table)
        np.testing.assert_allclose(found, expected.predict_proba(rows), atol=tolerance)
        np.testing.assert_allclose(expected.predict_proba(table), found, atol=tolerance)


def test_owners_and_scores_take_frames_of_any_library(
    rows: pd.DataFrame, classes: npt.NDArray[np.int_]
) -> None:
    table = pa.Table.from_pandas(rows, preserve_index=False)
    other = table.select(["w", "b", "a"])
    drafts = [pool.Schema.draft(frame, classes, owners=["x", "y"]) for frame in (rows, table)]
    assert drafts[0] == drafts[1] and "w=a" in drafts[0].columns
    keys = pool.plan(drafts[0], 240).make_keys()
    assert pool.encrypt_sums(drafts[0], other, classes, "x", keys.public) is not None
    model = simulated().fit(rows, classes)
    plan = scoring.plan(120, 5, insecure_log_n=12)
    secret = plan.make_keys()
    encrypted = plan.encrypt(other, secret.secret, like=model, y=classes)
    scores = scoring.decrypt(scoring.compute(encrypted, model, secret.evaluation), secret.secret)
    np.testing.assert_allclose(scores.scores, model.decision_function(rows), atol=1e-3)
    assert scores.accuracy == model.score(table, classes)


NUMBERS: dict[str, Callable[[Floats], Any]] = {
    "Decimal": lambda x: [Decimal(f"{value:.2f}") for value in x],
    "Fraction": lambda x: [Fraction(f"{value:.2f}") for value in x],
    "object": lambda x: pd.Series(x, dtype=object),
    "object integers": lambda x: pd.Series([int(100 * value) for value in x], dtype=object),
    "nullable": lambda x: pd.Series(np.round(100 * x).astype(int), dtype="Int64"),
    "unsigned": lambda x: np.round(100 * x).astype(np.uint64),
    "half": lambda x: x.astype(np.float16),
    "boolean": lambda x: x > 50,
    "arrow decimal": lambda x: pd.Series(
        pa.array([Decimal(f"{value:.2f}") for value in x]), dtype=pd.ArrowDtype(pa.decimal128(9, 2))
    ),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_of_any_type_are_one_feature(name: str) -> None:
    random = np.random.default_rng(0)
    price = random.normal(50, 5, 80).round(2)
    frame = pd.DataFrame({"price": NUMBERS[name](price), "q": random.normal(size=80)})
    plain = frame.astype({"price": float})
    classes = price > 50
    expected = simulated().fit(plain, classes).predict_proba(plain)
    for options in ({}, {"missing": "mean"}):
        model = simulated(**options).fit(frame, classes)
        assert list(model.columns_) == ["price", "q"]
        np.testing.assert_allclose(model.predict_proba(frame), expected, atol=1e-9)


OTHERS: dict[str, Any] = {
    "bytes": lambda i: b"%d" % i,
    "lists": lambda i: [i],
    "tuples": lambda i: (i, i),
    "dictionaries": lambda i: {"a": i},
    "times of day": lambda i: datetime.time(1 + i % 3),
    "complex": lambda i: complex(i, 1),
    "objects": lambda i: object(),
    "mixed": lambda i: "a" if i % 2 else b"a",
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_objects_are_refused_by_the_name_of_their_column(name: str) -> None:
    column = pd.Series([OTHERS[name](i) for i in range(12)], dtype=object)
    frame = pd.DataFrame({"q": np.arange(12.0), "what": column})
    with pytest.raises(errors.DtypeError, match="what"):
        simulated().fit(frame, np.arange(12) % 2)


@pytest.mark.parametrize(
    "column",
    [
        pd.timedelta_range("1h", periods=12),
        pd.period_range("2024-01", periods=12, freq="M"),
    ],
)
def test_times_are_refused(column: Any) -> None:
    frame = pd.DataFrame({"q": np.arange(12.0), "when": column})
    with pytest.raises(errors.DtypeError, match="when"):
        simulated().fit(frame, np.arange(12) % 2)
    if hasattr(column, "to_numpy") and column.to_numpy().dtype.kind in "mM":
        values = np.column_stack([column.to_numpy(), column.to_numpy()])
        with pytest.raises(errors.DtypeError):
            simulated().fit(values, np.arange(12) % 2)


def test_categories_may_mix_text_and_numbers() -> None:
    codes = pd.Series([10115, "A-1010", 10115, "A-1010"] * 3, dtype=object)
    model = simulated().fit(pd.DataFrame({"zip": codes}), np.arange(12) % 2)
    assert list(model.columns_) == ["zip=10115", "zip=A-1010"]
    intervals = pd.DataFrame({"x": pd.cut(np.arange(12.0), 2)})
    assert len(simulated().fit(intervals, np.arange(12) % 2).columns_) == 2


def test_names_must_tell_columns_apart() -> None:
    values, classes = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
    for frame in (
        pd.DataFrame(values, columns=["a", "b", "a"]),
        pa.table(list(values.T), names=["a", "b", "a"]),
    ):
        for options in ({}, {"missing": "mean"}):
            with pytest.raises(errors.TableError, match="a"):
                simulated(**options).fit(frame, classes)
    mixed = pd.DataFrame(values, columns=["a", "b", 3]).assign(w="x")
    with pytest.raises(errors.TableError, match="3"):
        simulated().fit(mixed, classes)
    # Only text names count, as in scikit-learn.
    assert simulated().fit(pd.DataFrame(values), classes).columns_.tolist() == ["x0", "x1", "x2"]


def test_columns_that_lack_all_values_are_named() -> None:
    for gap in (None, np.nan):
        frame = pd.DataFrame({"q": np.arange(12.0), "empty": pd.Series([gap] * 12, dtype=object)})
        with pytest.raises(errors.TableError, match="empty"):
            simulated(missing="mean").fit(frame, np.arange(12) % 2)
        with pytest.raises(errors.Error):
            simulated().fit(frame, np.arange(12) % 2)


def test_arrays_of_any_layout_are_the_same(rows: pd.DataFrame, classes: Any) -> None:
    values = rows[["a", "b"]].to_numpy()
    expected = simulated().fit(values, classes).predict_proba(values)
    wide = np.empty((240, 4))
    wide[::2, ::2] = values
    for layout in (np.asfortranarray(values), wide[::2, ::2], values[::-1][::-1], values.tolist()):
        found = simulated().fit(layout, classes).predict_proba(layout)
        np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize(
    "labels",
    [
        lambda y: np.where(y, "8", "3"),
        lambda y: np.where(y, "8", "3").astype(object),
        lambda y: pd.Series(np.where(y, "8", "3"), dtype="category"),
        lambda y: pa.chunked_array([np.where(y, "8", "3")[:50], np.where(y, "8", "3")[50:]]),
        lambda y: pl.Series(np.where(y, "8", "3")),
    ],
)
def test_labels_that_are_text_stay_text(
    labels: Callable[[Any], Any], rows: pd.DataFrame, classes: Any, tmp_path: Path
) -> None:
    values, named = rows[["a", "b"]].to_numpy(), labels(classes)
    model = simulated().fit(values, named)
    model.save(tmp_path / "m.json")
    assert json.loads((tmp_path / "m.json").read_text())["text_labels"] is True
    opened = LogisticRegression.open(tmp_path / "m.json")
    assert opened.classes_.tolist() == ["3", "8"]
    assert opened.score(values, named) == model.score(values, named) > 0.9
    assert opened.predict(values).tolist() == model.predict(values).tolist()


def test_labels_of_a_server_are_those_of_the_owner(rows: pd.DataFrame, classes: Any) -> None:
    values, text, numbers = rows[["a", "b"]].to_numpy(), np.where(classes, "8", "3"), 3 + 5 * classes
    options: dict[str, Any] = {"insecure_log_n": SMALL, "max_iter": 2}
    owner = LogisticRegression(**options)
    keys = owner.plan(*values.shape).make_keys()
    result = compute(owner.encrypt(values, text, keys.secret), keys.evaluation)
    own = owner.decrypt(result, keys.secret).score(values, text)
    other = LogisticRegression(**options).decrypt(result, keys.secret)
    assert other.classes_.tolist() == ["3", "8"]
    # Labels are compared as text.
    assert own == other.score(values, text) == other.score(values, numbers) > 0.9
    calibrated = LogisticRegression(**options).decrypt(result, keys.secret, values, numbers)
    assert calibrated.classes_.tolist() == [3, 8] and calibrated.score(values, text) > 0.9
    with pytest.raises(errors.ArgumentError, match="knows"):
        other.score(values, np.where(classes, "yes", "no"))
    # An unknown class counts as wrong, as in scikit-learn.
    some = np.where(np.arange(120) < 12, "9", text)
    expected = sklearn.metrics.accuracy_score(some, other.predict(values))
    assert other.score(values, some) == pytest.approx(expected)
    for bad in (text[:-1], text[:1]):
        with pytest.raises(errors.ShapeError):
            other.score(values, bad)


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["2024-01-01", "2024-01-02"] * 6, dtype="datetime64[D]"),
        np.array([b"a", b"b"] * 6),
        pd.Series([b"a", b"b"] * 6, dtype=object),
        pd.Series(["a", None] * 6, dtype=object),
        pd.Series([1, pd.NA] * 6, dtype="Int64"),
        np.array([0.0, np.nan] * 6),
        np.array([1j, 2j] * 6),
    ],
)
def test_labels_of_other_types_and_gaps_are_refused(labels: Any) -> None:
    values = np.arange(24.0).reshape(12, 2) ** 0.5
    frame = pd.DataFrame({"x": values[:, 0], "w": list("ab") * 6})
    for table in (values, frame):
        with pytest.raises(errors.Error):
            simulated().fit(table, labels)


def test_gaps_among_the_labels_of_an_owner_are_gaps() -> None:
    rows = pd.DataFrame({"x": np.arange(6.0)})
    labels = pd.Series(["a", "b", None, "a", "b", np.nan], dtype=object)
    with pytest.raises(errors.Error):
        pool.Schema.draft(rows, labels, owners=["x", "y"])
    schema = pool.Schema.draft(rows, labels, owners=["x", "y"], missing="drop")
    assert schema.classes == ["a", "b"]


@pytest.mark.parametrize("weight", [3.0, 20.0, 0.05])
def test_the_penalty_counts_class_weights_as_scikit_learn_does(weight: float) -> None:
    random = np.random.default_rng(3)
    values = random.normal(size=(120, 3))
    values = (values - values.mean(0)) / values.std(0)
    classes = (values @ [1.5, -1, 0.7] + random.normal(size=120) * 0.7 > 0).astype(int)
    three = classes + (values[:, 0] > 0.8)
    for labels, given in ((classes, {1: weight}), (three, {1: weight, 2: 2 * weight})):
        of_rows = np.array([given.get(label, 1.0) for label in labels.tolist()])
        # Small weights, for which the polynomial is close to the sigmoid and the penalty matters.
        options: dict[str, Any] = {"C": 4 / of_rows.sum(), "tol": 1e-8}
        model = simulated(
            class_weight=given, C=options["C"], max_iter=30, sigmoid_range=6.0, calibrate=False
        ).fit(values, labels)
        # Each class is separated from all others, with the same row weights.
        places = range(3) if labels is three else [1]
        for found, place in zip(model.coef_, places, strict=True):
            exact = sklearn.linear_model.LogisticRegression(**options)
            expected = exact.fit(values, labels == place, sample_weight=of_rows).coef_[0]
            np.testing.assert_allclose(found, expected, atol=0.05 * np.abs(expected).max())


def test_owners_together_have_the_penalty_of_scikit_learn() -> None:
    """Returns the strength of the penalty on a direction, `penalty / |basis|^2`."""
    random = np.random.default_rng(5)
    values = random.normal(size=(90, 2))
    classes = np.where(values[:, 0] + random.normal(size=90) > 0, "late", "paid")
    schema = pool.Schema.draft(pd.DataFrame(values, columns=["a", "b"]), classes, owners=["x", "y"])
    given = {"late": 7.0, "paid": 0.5}
    model = LogisticRegression(C=2.0, class_weight=given, max_iter=2, insecure_log_n=SMALL)
    keys = pool.plan(schema, 90, model).make_keys()
    halves = [("x", slice(0, 40)), ("y", slice(40, 90))]
    sums = [
        pool.encrypt_sums(
            schema, pd.DataFrame(values[part], columns=["a", "b"]), classes[part], owner, keys.public
        )
        for owner, part in halves
    ]
    total = pool.add(schema, sums)
    found = json.loads(
        pool.make_transform(schema, total, keys.secret, class_weight=given).to_json()
    )["transform"]
    basis = np.array(found["basis"]).reshape(2, 2)
    alpha = np.array(found["penalty"]) / (basis**2).sum(axis=1)
    weight_of_rows = sum(given[name] for name in classes)
    np.testing.assert_allclose(alpha, 1 / (2.0 * weight_of_rows), rtol=1e-9)


def test_rows_may_count_differently_in_a_score(rows: pd.DataFrame, classes: Any) -> None:
    values = rows[["a", "b"]].to_numpy()
    weights = np.arange(120.0)
    model = simulated().fit(values[:60], classes[:60])
    expected = sklearn.metrics.accuracy_score(
        classes, model.predict(values), sample_weight=weights
    )
    assert model.score(values, classes, sample_weight=weights) == pytest.approx(expected)
    line = LinearRegression(mode="simulate").fit(values[:60], values[:60, 0] ** 2)
    targets = values[:, 0] ** 2
    expected = sklearn.metrics.r2_score(targets, line.predict(values), sample_weight=weights)
    assert line.score(values, targets, weights) == pytest.approx(expected)
    for bad in (weights[:-1], -weights, 0 * weights, np.full(120, np.nan)):
        for fitted, truth in ((model, classes), (line, targets)):
            with pytest.raises(errors.Error):
                fitted.score(values, truth, sample_weight=bad)
    with pytest.raises(errors.ShapeError):
        line.score(values, targets[:1])


def test_other_tables_do_not_calibrate_a_model(rows: pd.DataFrame, classes: Any) -> None:
    frame = rows[["a", "b"]]
    options: dict[str, Any] = {"insecure_log_n": SMALL, "max_iter": 2}
    owner = LogisticRegression(**options)
    keys = owner.plan(*frame.shape).make_keys()
    result = compute(owner.encrypt(frame, classes, keys.secret), keys.evaluation)
    order = np.random.default_rng(1).permutation(120)
    expected = LogisticRegression(**options).decrypt(result, keys.secret, frame, classes).coef_
    shuffled = LogisticRegression(**options)
    shuffled.decrypt(result, keys.secret, frame.iloc[order], classes[order])
    np.testing.assert_allclose(shuffled.coef_, expected, rtol=1e-6)
    moved = frame.assign(a=frame["a"].to_numpy()[::-1])
    for table, labels, what in (
        (frame, 1 - classes, "values or classes"),
        (frame, classes[order], "values or classes"),
        (frame.assign(b=3 * frame["b"]), classes, "column b"),
        (moved, classes, "values or classes"),
        (frame.iloc[:100], classes[:100], "100 rows"),
        (frame.to_numpy()[:, ::-1], classes, "column a, b"),
    ):
        with pytest.raises(errors.ArgumentError, match=what):
            LogisticRegression(**options).decrypt(result, keys.secret, table, labels)


@pytest.mark.parametrize(("n_rows", "n_features"), [(2, 4), (3, 8), (16, 32)])
def test_few_rows_of_many_columns_are_simulated_as_they_are_trained(
    n_rows: int, n_features: int
) -> None:
    random = np.random.default_rng(0)
    values, classes = random.normal(size=(n_rows, n_features)), np.arange(n_rows) % 2
    executed = LogisticRegression(insecure_log_n=SMALL).fit(values, classes)
    found = simulated().fit(values, classes)
    np.testing.assert_array_equal(found.predict(values), classes)
    np.testing.assert_allclose(
        executed.decision_function(values), found.decision_function(values), atol=0.05
    )
