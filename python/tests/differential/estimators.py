"""Compares linear models of random tables with scikit-learn."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl
import pyarrow as pa
import sklearn.linear_model
from sklearn.multiclass import OneVsRestClassifier

from sudare import LinearRegression, LogisticRegression, Ridge, errors
from sudare.linear_model import compute

from .core import Case, Generator, Outcome, Rng, Verdict, attempt, judge, said
from .tables import command
from .values import Floats, magnitude, ordered

SMALL = 11
"""`log2` of the degree of a ring in which a training takes a second."""


def labels_of(rng: Rng, places: npt.NDArray[np.int64]) -> tuple[Any, str]:
    """Labels of all kinds for classes by number."""
    count = int(places.max()) + 1
    options: list[tuple[str, Callable[[], Any]]] = [
        ("integers", lambda: places),
        ("negative integers", lambda: places * 2 - 3),
        ("text", lambda: np.array(["no", "yes", "maybe", "never"])[places]),
        ("text of numbers", lambda: np.array(["3", "8", "10", "007"])[places]),
        ("text of decimals", lambda: np.array(["1.0", "2.5", "1e3", "-0"])[places]),
        ("objects of text", lambda: np.array(["b", "a", "ü", "c"], dtype=object)[places]),
        ("floats", lambda: places.astype(float) + 1.0),
        ("negative zero", lambda: np.array([-0.0, 1.0, 2.0, 3.0])[places]),
        ("small integers", lambda: places.astype(np.int8)),
        ("large integers", lambda: places + 2**53),
        ("Series of categories", lambda: pd.Series(np.array(list("xyzw"))[places], dtype="category")),
        ("column", lambda: places.reshape(-1, 1)),
        ("list", lambda: places.tolist()),
    ]
    if count == 2:
        options.append(("truth values", lambda: places.astype(bool)))
    name, make = options[rng.integers(len(options))]
    return make(), name


FRAMES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "pyarrow": lambda table: pa.table({name: pa.array(np.asarray(v).tolist()) for name, v in table.items()}),
}


@dataclass(frozen=True)
class ClassifierCase(Case):
    """A logistic regression, simulated and sometimes executed, and scikit-learn's."""

    X: Floats
    y: Any
    kind: str
    """Kind of the labels."""
    options: tuple[tuple[str, Any], ...]
    frame: str
    categories: tuple[str, ...] | None
    """A column of text."""

    def describe(self) -> str:
        return (
            f"X = {np.round(self.X, 4).tolist()[:12]}... of shape {self.X.shape} as {self.frame}, "
            f"categories {None if self.categories is None else self.categories[:12]}\n"
            f"y = {np.asarray(self.y).ravel().tolist()[:24]} ({self.kind})\n"
            f"LogisticRegression({', '.join(f'{k}={v!r}' for k, v in self.options)})"
        )

    def table(self, order: list[int] | None = None) -> Any:
        """The rows in their frame, with columns in another order."""
        if self.frame == "array":
            return np.asfortranarray(self.X)
        columns: dict[str, Any] = {f"c{j}": self.X[:, j] for j in range(self.X.shape[1])}
        if self.categories is not None:
            columns["w"] = list(self.categories)
        names = list(columns)
        if order is not None:
            names = [names[i] for i in np.argsort(order)] if len(order) == len(names) else names[::-1]
        return FRAMES[self.frame]({name: columns[name] for name in names})

    def features(self) -> Floats:
        """Returns the columns for scikit-learn: standardised, with categories as columns of 0 and 1."""
        columns = [self.X]
        if self.categories is not None:
            words = sorted(set(self.categories))
            columns.append(np.array([[w == word for word in words] for w in self.categories], dtype=float))
        x = np.hstack(columns)
        spread = x.std(axis=0)
        return np.asarray((x - x.mean(axis=0)) / np.where(spread > 0, spread, 1.0))

    def run(self, *, execute: bool) -> Verdict:
        fitted = attempt(lambda: self._fit("simulate"))
        outcomes = {"simulate": fitted}
        if execute:
            outcomes["execute"] = attempt(lambda: self._fit("execute", insecure_log_n=SMALL))
        if fitted.error is not None:
            return judge(outcomes, {})
        fault = self._compare(fitted.value)
        if fault is not None:
            return fault
        if execute:
            other = outcomes["execute"]
            if other.error is not None:
                return judge({"execute": other, "simulate": Outcome(0)}, None)
            first, second = (m.decision_function(self.table()) for m in (fitted.value, other.value))
            off = np.abs(first - second).max()
            if off > 0.02 * (1 + np.abs(first).max()):
                return Verdict("finding", "wrong value", f"execute: scores off by {off:.3g} from simulation")
        return Verdict("right", "right")

    def _fit(self, mode: Any, **more: Any) -> LogisticRegression:
        options: dict[str, Any] = dict(self.options)
        return LogisticRegression(**options, mode=mode, random_state=1, **more).fit(self.table(), self.y)

    def _compare(self, model: LogisticRegression) -> Verdict | None:
        labels = np.asarray(self.y).ravel()
        table = self.table()
        classes = np.unique(labels)
        if [*model.classes_.tolist()] != [*classes.tolist()]:
            return _finding(f"classes_ {model.classes_.tolist()}, expected {classes.tolist()}")
        predicted = model.predict(table)
        if predicted.dtype.kind != classes.dtype.kind:
            return _finding(f"predictions of type {predicted.dtype}, labels of {classes.dtype}")
        if abs(model.score(table, self.y) - np.mean(predicted == labels)) > 1e-9:
            return _finding(f"score {model.score(table, self.y)}, expected {np.mean(predicted == labels)}")
        return self._beside(model, labels) or self._reopened(model) or self._reordered(model)

    def _beside(self, model: LogisticRegression, labels: npt.NDArray[Any]) -> Verdict | None:
        """Compares scores with scikit-learn's."""
        options: dict[str, Any] = dict(self.options)
        x = self.features()
        if x.shape[1] != len(model.columns_):
            return _finding(f"features {list(model.columns_)[:9]}, expected {x.shape[1]}")
        given = options.get("class_weight")
        C = options.get("C", 1.0)
        if not np.isfinite(C) or options.get("max_iter") is None or options.get("alpha") is not None:
            return None
        theirs: Any = sklearn.linear_model.LogisticRegression(C=C, class_weight=None, max_iter=5000, tol=1e-8)
        weights = np.ones(len(labels))
        if given == "balanced":
            values, counts = np.unique(labels, return_counts=True)
            by = {v: len(labels) / (len(values) * n) for v, n in zip(values.tolist(), counts, strict=True)}
            weights = np.array([by[v] for v in labels.tolist()])
        elif given is not None:
            weights = np.array([given.get(v, 1.0) for v in labels.tolist()])
        binary = len(np.unique(labels)) == 2
        if not binary:
            return None
        theirs.fit(x, labels, sample_weight=weights)
        expected, found = theirs.decision_function(x), model.decision_function(self.table())
        # Training beyond the polynomial's range differs, so large scores are left out.
        if np.abs(expected).max() > 5:
            return None
        off = np.abs(found - expected).max()
        allowed = 0.12 * np.abs(expected - np.median(expected)).max() + 0.08
        if off > allowed:
            i = int(np.abs(found - expected).argmax())
            return _finding(f"score {found[i]:.3f} of row {i}, scikit-learn {expected[i]:.3f} within {allowed:.2g}")
        return None

    def _reopened(self, model: LogisticRegression) -> Verdict | None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "m.json"

            def save_and_open() -> LogisticRegression:
                model.save(path)
                return LogisticRegression.open(path)

            saved = attempt(save_and_open)
            if saved.error is not None:
                return None if saved.refused else _finding(said(saved.error), "foreign exception")
        scored = attempt(lambda: saved.value.score(self.table(), self.y))
        if scored.error is not None:
            return None if scored.refused else _finding(said(scored.error), "foreign exception")
        if abs(scored.value - model.score(self.table(), self.y)) > 1e-9:
            return _finding(f"reopened: score {scored.value}, before {model.score(self.table(), self.y)}")
        return None

    def _reordered(self, model: LogisticRegression) -> Verdict | None:
        """Scores columns in another order, which their names reveal: the same scores, or a refusal."""
        if self.frame == "array" or self.X.shape[1] + (self.categories is not None) < 2:
            return None
        other = attempt(lambda: model.decision_function(self.table([1])))
        if other.error is not None:
            return None if other.refused else _finding(said(other.error), "foreign exception")
        off = np.abs(other.value - model.decision_function(self.table())).max()
        if off > 1e-6:
            return _finding(f"columns in another order: scores off by {off:.3g}")
        return None

    def smaller(self) -> Iterator[Case]:
        for i in range(len(self.options)):
            yield replace(self, options=self.options[:i] + self.options[i + 1 :])
        if self.categories is not None:
            yield replace(self, categories=None)
        if self.X.shape[1] > 1:
            yield replace(self, X=self.X[:, :-1])


def _finding(detail: str, reason: str = "wrong value") -> Verdict:
    return Verdict("finding", reason, detail)


def draw(rng: Rng) -> Case:
    """A classifier."""
    few = rng.random() < 0.15
    rows = int(rng.integers(2, 12)) if few else int(rng.integers(40, 160))
    columns = int(rng.integers(2, 12)) if few else int(rng.integers(1, 6))
    size = magnitude(rng)
    X = rng.normal(size=(rows, columns)) * size * 10.0 ** rng.integers(-2, 3, columns)
    if rng.random() < 0.5:
        X = X + size * rng.integers(-30, 30, columns)
    if rng.random() < 0.2 and columns > 1:
        X[:, -1] = (X[:, -1] > X[:, -1].mean()) * size
    z = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), 1)
    score = z @ rng.normal(size=columns) + rng.logistic(size=rows) * 1.2
    count = 2 if rng.random() < 0.8 or few else int(rng.integers(3, 5))
    places = np.digitize(score, np.quantile(score, np.arange(1, count) / count)).astype(np.int64)
    if rng.random() < 0.3 and count == 2 and rows > 20:
        places = (score > np.quantile(score, 0.8)).astype(np.int64)
    places[:count] = np.arange(count)
    y, kind = labels_of(rng, places)
    options: dict[str, Any] = {}
    if rng.random() < 0.8:
        options |= {"calibrate": False, "max_iter": 40}
    if rng.random() < 0.7:
        options["C"] = float(rng.choice([0.01, 0.1, 0.3, 1.0, 3.0, 10.0]))
    classes = np.unique(np.asarray(y).ravel()).tolist()
    weighted = rng.random()
    if weighted < 0.15:
        options["class_weight"] = "balanced"
    elif weighted < 0.5:
        options["class_weight"] = {c: float(rng.choice([0.2, 1, 3, 8])) for c in classes[int(rng.integers(0, 2)) :]}
    if rng.random() < 0.15:
        options["preparation"] = "standardize"
    if rng.random() < 0.1:
        options["missing"] = str(rng.choice(["mean", "drop", "flag"]))
    if "max_iter" not in options and rng.random() < 0.2:
        options["batch_size"] = int(rng.integers(8, 64))
    frame = str(rng.choice(["array", "array", "pandas", "polars", "pyarrow"]))
    words = np.array(["a", "b", "NA", "None", "3"])[rng.integers(0, 5, rows)] if rng.random() < 0.3 else None
    categories = tuple(str(w) for w in words) if words is not None and frame != "array" else None
    return ClassifierCase(X, y, kind, tuple(options.items()), frame, categories)


# Columns of unusual types.


@dataclass(frozen=True)
class ColumnsCase(Case):
    """A classifier of a frame with a column that is no plain number: a number for each row as a
    reader sees it, a category, or a refusal."""

    numbers: Floats
    given: Any
    what: str
    truth: Floats | None
    """Numbers of the second column, `None` for text."""
    frame: str
    y: npt.NDArray[np.int64]

    def describe(self) -> str:
        return f"{self.frame}, c0 = {self.numbers.tolist()[:8]}..., c1 = {list(self.given)[:8]}... ({self.what})"

    def run(self, *, execute: bool) -> Verdict:
        options: dict[str, Any] = {"mode": "simulate", "random_state": 1}
        table = {"c0": self.numbers, "c1": self.given}
        found = attempt(lambda: LogisticRegression(**options).fit(self._framed(table), self.y))
        if found.error is not None:
            return judge({"simulate": found}, {})
        if self.truth is not None:
            plain = LogisticRegression(**options).fit(pd.DataFrame({"c0": self.numbers, "c1": self.truth}), self.y)
            if len(found.value.columns_) != len(plain.columns_):
                return _finding(
                    f"{len(found.value.columns_)} features of two columns of numbers: {list(found.value.columns_)[:5]}"
                )
            off = np.abs(plain.coef_ - found.value.coef_).max() / (1 + np.abs(plain.coef_).max())
            if off > 1e-6:
                return _finding(f"coefficients {found.value.coef_}, of floats {plain.coef_}")
        return Verdict("right", "right")

    def _framed(self, table: dict[str, Any]) -> Any:
        if self.frame == "pyarrow":
            return pa.table({name: pa.array(list(values)) for name, values in table.items()})
        if self.frame == "polars":
            return pl.DataFrame({name: list(values) for name, values in table.items()})
        return pd.DataFrame(table)


def draw_columns(rng: Rng) -> Case:
    """A frame with an unusual column."""
    rows = int(rng.integers(20, 60))
    x = np.round(rng.normal(size=rows) * 5, 2)
    texts: list[tuple[str, Any, Floats | None]] = [
        ("Decimal", [Decimal(str(v)) for v in x], x),
        ("objects of floats", np.array(x.tolist(), dtype=object), x),
        ("objects of integers", np.array([int(v) for v in x], dtype=object), np.trunc(x)),
        ("truth values", x > 0, (x > 0).astype(float)),
        ("objects of truth values", np.array((x > 0).tolist(), dtype=object), (x > 0).astype(float)),
        ("nullable integers", pd.array([int(v) for v in x], dtype="Int64"), np.trunc(x)),
        ("nullable truth values", pd.array((x > 0).tolist(), dtype="boolean"), (x > 0).astype(float)),
        ("float32", x.astype(np.float32), x.astype(np.float32).astype(float)),
        ("unsigned", np.abs(x).astype(np.uint8), np.abs(x).astype(np.uint8).astype(float)),
        ("lists", [[float(v)] for v in x], np.full(0, 0.0)),
        ("bytes", [str(int(v)).encode() for v in x], np.full(0, 0.0)),
        # Days since 1970.
        ("dates", pd.to_datetime(np.abs(x * 1e5).astype(int), unit="h"), np.abs(x * 1e5).astype(int) / 24),
        ("complex", x + 1j, np.full(0, 0.0)),
        ("text of numbers", [str(v) for v in np.round(x / 5)], None),
        ("categories", pd.Categorical([str(int(v) % 3) for v in x]), None),
        ("durations", pd.to_timedelta(np.abs(x), unit="s"), np.full(0, 0.0)),
    ]
    what, given, truth = texts[rng.integers(len(texts))]
    frame = str(rng.choice(["pandas", "pandas", "pyarrow", "polars"]))
    y = (x + rng.normal(size=rows) > 0).astype(np.int64)
    y[:2] = [0, 1]
    other = rng.normal(size=rows)
    if truth is not None and len(truth) == 0:
        return RefusedColumnsCase(other, given, what, None, frame, y)
    return ColumnsCase(other, given, what, truth, frame, y)


class RefusedColumnsCase(ColumnsCase):
    """Draws a column without numbers, with fewer categories than values."""

    def run(self, *, execute: bool) -> Verdict:
        made = attempt(lambda: self._framed({"c0": self.numbers, "c1": self.given}))
        if made.error is not None:
            return Verdict("refused", "by the library of the frame")
        found = attempt(lambda: LogisticRegression(mode="simulate").fit(made.value, self.y))
        return judge({"simulate": found}, None)


# Least squares.


@dataclass(frozen=True)
class SquaresCase(Case):
    """Linear regression or ridge, and the solution by NumPy."""

    X: Any
    y: Any
    alpha: float | None
    intercept: bool

    def describe(self) -> str:
        return f"X of shape {np.shape(self.X)}, alpha {self.alpha}, fit_intercept {self.intercept}"

    def run(self, *, execute: bool) -> Verdict:
        ways = {"simulate": attempt(lambda: self._fit("simulate"))}
        if execute:
            ways["execute"] = attempt(lambda: self._fit("execute", insecure_log_n=SMALL))
        X, y = np.asarray(self.X, dtype=float), np.asarray(self.y, dtype=float).ravel()
        expected = self._expected(X, y)
        scale = y.std() + 1e-6 * np.abs(y).max() + (0.0 if self.intercept else np.abs(y).max() + np.abs(expected).max())
        for way, outcome in ways.items():
            if outcome.error is None:
                found = outcome.value.predict(self.X)
                off = np.abs(found - expected).max()
                if off > 3e-4 * scale:
                    i = int(np.abs(found - expected).argmax())
                    return _finding(
                        f"{way}: prediction {found[i]:.6g}, expected {expected[i]:.6g} within {3e-4 * scale:.2g}"
                    )
        refused = [way for way, outcome in ways.items() if outcome.error is not None]
        if refused and len(refused) < len(ways) and getattr(ways[refused[0]].error, "kind", "") != "Regression":
            return judge({way: Outcome(0, o.error) for way, o in ways.items()}, None)
        if refused:
            return judge({way: ways[way] for way in refused}, {})
        return Verdict("right", "right")

    def _expected(self, X: Floats, y: Floats) -> Floats:
        """Compares predictions from columns divided by their sizes, because scikit-learn ignores small columns."""
        middle = X.mean(axis=0) if self.intercept else np.zeros(X.shape[1])
        target = y.mean() if self.intercept else 0.0
        centred = X - middle
        sizes = np.sqrt((centred**2).sum(axis=0) + (self.alpha or 0.0))
        used = sizes > 1e-12 * np.abs(X).max(axis=0)
        matrix = centred[:, used] / sizes[used]
        penalty = np.diag(np.sqrt(self.alpha or 0.0) / sizes[used])
        system = np.vstack([matrix, penalty])
        wanted = np.concatenate([y - target, np.zeros(len(penalty))])
        found: Floats = matrix @ np.linalg.lstsq(system, wanted, rcond=None)[0] + target
        return found

    def _fit(self, mode: Any, **more: Any) -> Any:
        options: dict[str, Any] = {"fit_intercept": self.intercept, "mode": mode, **more}
        made = LinearRegression(**options) if self.alpha is None else Ridge(alpha=self.alpha, **options)
        return made.fit(self.X, self.y)


def draw_squares(rng: Rng) -> Case:
    """A regression."""
    rows, columns = int(rng.integers(8, 120)), int(rng.integers(1, 5))
    X = rng.normal(size=(rows, columns)) * 10.0 ** rng.integers(-3, 4, columns)
    if rng.random() < 0.4:
        X = X + rng.integers(-30, 30, columns) * X.std(axis=0)
    if rng.random() < 0.1:
        X[:, 0] = 3.0
    y = X / (X.std(axis=0) + 1e-9) @ rng.normal(size=columns) + rng.normal(size=rows) + rng.choice([0, 10, 1000])
    y = y * magnitude(rng)
    alpha = None if rng.random() < 0.5 else float(10.0 ** rng.integers(-2, 4))
    given: Any = ordered(rng, X)
    if rng.random() < 0.3:
        given = pd.DataFrame(X, columns=[f"c{j}" for j in range(columns)])
    return SquaresCase(given, y if rng.random() < 0.8 else pd.Series(y, name="c0"), alpha, bool(rng.random() < 0.8))


# Tables that differ from the encrypted ones.


@dataclass(frozen=True)
class LoadCase(Case):
    """Calibration with an altered table, which is refused or gives the model of the original."""

    change: str
    seed: int
    text: bool

    def describe(self) -> str:
        return f"LogisticRegression.decrypt(result, key, X, y) with {self.change}, data of seed {self.seed}"

    def run(self, *, execute: bool) -> Verdict:
        rng = np.random.default_rng(self.seed)
        X = rng.normal(size=(60, 3)) * [1, 20, 0.1] + [0, 100, 5]
        y: Any = ((X - X.mean(axis=0)) / X.std(axis=0) @ [1.0, -1.5, 0.5] + rng.logistic(size=60) > 0.3).astype(int)
        if self.text:
            y = np.array(["3", "8"])[y]
        owner = LogisticRegression(max_iter=3, insecure_log_n=SMALL, random_state=1)
        keys = owner.plan(X, y).make_keys()
        result = compute(owner.encrypt(X, y, keys.secret), keys.evaluation)
        right = LogisticRegression(max_iter=3, insecure_log_n=SMALL).decrypt(result, keys.secret, X, y)
        A, b = altered(self.change, X, y, rng)
        again = LogisticRegression(max_iter=3, insecure_log_n=SMALL)
        found = attempt(lambda: again.decrypt(result, keys.secret, A, b))
        if self.change in ("nothing", "rows in another order"):
            if found.error is not None:
                return judge({"execute": found}, {}, must="rows may come in any order")
        elif found.error is not None:
            return judge({"execute": found}, None)
        first, second = (m.predict_proba(X)[:, 1] for m in (right, found.value))
        if np.abs(first - second).max() > 1e-3:
            return _finding(
                f"{self.change}: probabilities off by {np.abs(first - second).max():.3g}, "
                f"score {again.score(X, y):.3f} for {right.score(X, y):.3f}"
            )
        if again.score(X, y) != right.score(X, y) or abs(right.score(X, y) - np.mean(right.predict(X) == y)) > 1e-9:
            return _finding(f"{self.change}: score {again.score(X, y)}")
        return Verdict("right", "right")


CHANGES = ["nothing", "rows in another order", "labels flipped", "a column times 3", "columns reversed", "fewer rows", "a row of another table", "labels moved"]


def altered(change: str, X: Floats, y: Any, rng: Rng) -> tuple[Floats, Any]:
    """Alters a table slightly."""
    A, b = X.copy(), np.array(y)
    classes = np.unique(b)
    if change == "rows in another order":
        order = rng.permutation(len(A))
        return A[order], b[order]
    if change == "labels flipped":
        return A, np.where(b == classes[0], classes[-1], classes[0])
    if change == "a column times 3":
        A[:, int(rng.integers(A.shape[1]))] *= 3
    elif change == "columns reversed":
        A = A[:, ::-1].copy()
    elif change == "fewer rows":
        return A[: len(A) * 4 // 5], b[: len(A) * 4 // 5]
    elif change == "a row of another table":
        A[0] += 5 * A.std(axis=0)
    elif change == "labels moved":
        return A, np.roll(b, 1)
    return A, b


def draw_load(rng: Rng) -> Case:
    """A changed table."""
    return LoadCase(str(rng.choice(CHANGES)), int(rng.integers(1000)), bool(rng.random() < 0.3))


@dataclass(frozen=True)
class HeldOutCase(Case):
    """Held-out rows, looked up in an altered table."""

    change: str
    seed: int
    step: str
    """`evaluate`, `report` or `calibrate`."""

    def describe(self) -> str:
        return f"sudare {self.step} of a table with {self.change}, data of seed {self.seed}"

    def run(self, *, execute: bool) -> Verdict:
        rng = np.random.default_rng(self.seed)
        X = rng.normal(size=(80, 3)) * [1, 20, 0.1] + [0, 100, 5]
        score = (X - X.mean(axis=0)) / X.std(axis=0) @ [1.0, -1.5, 0.5]
        y = (score + rng.logistic(size=80) > 0.3).astype(int)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            right = self._trained(folder, X, y)
            A, b = altered(self.change, X, y, rng)
            _written(folder / "other.csv", A, b)
            found = attempt(lambda: self._step(folder, "other.csv"))
        if found.error is not None:
            same = self.change == "nothing"
            return judge({"command": found}, {}, must="the table is the same" if same else None)
        if found.value != right:
            return _finding(f"{self.change}: {str(found.value)[:150]}, of the table itself {str(right)[:150]}")
        return Verdict("right", "right")

    def _trained(self, folder: Path, X: Floats, y: Any) -> Any:
        _written(folder / "t.csv", X, y)
        command("keygen", "--params", "auto", "--for", "train:80x3", "--iterations", "2", "--out", "k", folder=folder)
        command(
            "encrypt", "--secret", "k/secret.key", "--data", "t.csv", "--target", "y", "--hold-out", "0.25", "-o", "t.ct",
            folder=folder,
        )  # fmt: skip
        command("train", "--evaluation-key", "k/evaluation.key", "-i", "t.ct", "-o", "m.ct", folder=folder)
        command("decrypt", "--secret", "k/secret.key", "-i", "m.ct", "-o", "m.json", folder=folder)
        return self._step(folder, "t.csv")

    def _step(self, folder: Path, data: str) -> Any:
        if self.step == "evaluate":
            return command("evaluate", "--model", "m.json", "--data", data, "--held-out", folder=folder)
        if self.step == "report":
            command("report", "--model", "m.json", "--data", data, "--held-out", "-o", f"{data}.html", folder=folder)
            return (folder / f"{data}.html").read_text()
        out = f"{data}.json"
        command("decrypt", "--secret", "k/secret.key", "-i", "m.ct", "--calibrate", data, "-o", out, folder=folder)
        return json.loads((folder / out).read_text())["weights"]


def _written(path: Path, X: Floats, y: Any) -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame["y"] = y
    frame.to_csv(path, index=False)


def draw_held_out(rng: Rng) -> Case:
    """A changed table for the command."""
    step = str(rng.choice(["evaluate", "report", "calibrate"]))
    return HeldOutCase(str(rng.choice(CHANGES)), int(rng.integers(1000)), step)


GENERATORS = [
    Generator(
        "held-out rows",
        draw_held_out,
        ("other tables in later steps",),
        share=0.05,
    ),
    Generator(
        "classifiers",
        draw,
        (
            "penalties and weights of classes",
            "labels that change their kind",
            "columns in another order",
            "few rows",
            "types, orders and containers of operands",
        ),
        executed_every=10,
        share=0.5,
    ),
    Generator("columns", draw_columns, ("types that are no numbers",), share=0.3),
    Generator("least squares", draw_squares, ("variances below their error",), executed_every=10, share=0.2),
    Generator(
        "calibration",
        draw_load,
        ("other tables in later steps", "labels that change their kind"),
        share=0.1,
    ),
]
