"""Statistics of encrypted tables.

The owner of a table plans, makes keys and encrypts. A server computes with the evaluation keys alone. The
owner decrypts:

>>> import numpy as np
>>> from sudare import stats
>>> table = {"age": [31.0, 45.0, 52.0, 38.0], "dose": [1.0, 2.0, 2.5, 1.0]}
>>> plan = stats.plan(table)                                     # owner
>>> keys = plan.make_keys()
>>> encrypted = plan.encrypt(table, keys.secret)
>>> result = stats.compute(encrypted, keys.evaluation)           # server
>>> summary = stats.decrypt(result, keys.secret, like=table)     # owner
>>> print(np.round(summary.mean, 3))
[41.5    1.625]

`run` does all steps in one process. Tables are data frames of pandas, polars or pyarrow (with
`pip install narwhals`), dictionaries of columns, or arrays of rows and columns.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, overload

import numpy as np

from sudare import _native, errors
from sudare._coding import Cells, DateParts, MissingRules, Rules, coded, is_plain
from sudare._frames import Frame, Maker, read
from sudare._keys import expected
from sudare._native import EvaluationKeys, PublicKey, SecretKey
from sudare._native import Result as EncryptedResult
from sudare._native import Table as EncryptedTable
from sudare._plain import (
    Floats,
    choice,
    expect_type,
    flag,
    floats,
    has_axes,
    optional,
    path_of,
    real,
    shown,
    string,
    whole,
)
from sudare._plan import JobPlan, as_list
from sudare._progress import Progress, callback
from sudare._shown import Facts, columns_html

__all__ = [
    "EncryptedResult",
    "EncryptedTable",
    "Groups",
    "Histograms",
    "LeastSquares",
    "Plan",
    "Summary",
    "TTest",
    "compute",
    "decrypt",
    "plan",
    "release",
    "run",
]


def __dir__() -> list[str]:
    return sorted(__all__)


ColumnEdges: TypeAlias = Literal["equal", "quantile", "log"] | Sequence[float] | Floats
"""Edges of bins: equal widths, equal counts of values, equal ratios, or numbers, one more than bins."""

Edges: TypeAlias = ColumnEdges | Mapping[str, ColumnEdges]
"""Edges for all columns, or for each by its name. Other columns have bins of equal width."""

_QUARTILES = {"min": 0.0, "25%": 0.25, "50%": 0.5, "75%": 0.75, "max": 1.0}

@dataclass(frozen=True)
class TTest(Facts):
    """Welch's test of two samples with possibly different variances."""

    difference: float
    """Difference of the means, the first minus the second."""
    standard_error: float
    """Standard error of the difference."""
    t: float
    """The difference divided by its standard error."""
    degrees_of_freedom: float
    """Degrees of freedom by Welch and Satterthwaite."""
    p_value: float
    """Two-sided probability if the means are equal."""

    def _facts(self) -> dict[str, str]:
        return {name.replace("_", " "): f"{value:.6g}" for name, value in vars(self).items()}


@dataclass(frozen=True)
class LeastSquares:
    """A linear model of one column, fitted to the others with an intercept."""

    target: str
    """The column that is predicted."""
    predictors: tuple[str, ...]
    """The other columns, in the order of the arrays."""
    intercept: float
    """The prediction where all predictors are 0."""
    coefficients: Floats
    """Coefficients of the predictors."""
    standard_errors: Floats
    """Standard errors of the coefficients. NaN, here and elsewhere, is a figure that the errors of encryption hide."""
    p_values: Floats
    """Two-sided probabilities of such coefficients if the population has coefficients of 0."""
    r_squared: float
    """The share of the variance of the target that is explained."""
    residual_variance: float
    """Variance of the residuals: the sum of their squares over rows minus predictors minus 1."""
    condition: float
    """Condition number of the correlations of the predictors."""

    def _repr_html_(self) -> str:
        columns = {
            "predictor": self.predictors,
            "coefficient": self.coefficients,
            "standard error": self.standard_errors,
            "p value": self.p_values,
        }
        notes = [f"Intercept {self.intercept:.6g}, R squared {self.r_squared:.4f}."]
        return columns_html(f"Least squares of {self.target}", columns, notes)


class _Named:
    """A decrypted result with named columns."""

    def __init__(
        self, decrypted: _native.Decrypted, values: Mapping[str, Any], make: Maker
    ) -> None:
        self._decrypted = decrypted
        self._values = values
        self._make = make
        self.columns: tuple[str, ...] = tuple(values["columns"])

    def _array(self, name: str) -> Floats:
        """Returns an array, with NaN for undefined values."""
        return np.array(self._values[name], dtype=np.float64)

    def _index(self, column: str) -> int:
        if not isinstance(column, str) or column not in self.columns:
            raise errors.of_kind(
                "UnknownColumn",
                f"there is no column {shown(column)}: the columns are {', '.join(self.columns)}"
            )
        return self.columns.index(column)

    def _warn(self, untold: Sequence[bool] | np.ndarray[Any, Any], what: str, level: int = 5) -> None:
        """Warns of columns with figures that the errors of encryption hide."""
        names = [name for name, found in zip(self.columns, untold, strict=True) if found]
        if names:
            warnings.warn(
                f"{what} of {', '.join(map(repr, names))} are missing, because the errors of the result are "
                "too large for them: leave out outliers, or split the table",
                errors.PrecisionWarning,
                stacklevel=level,
            )


class Summary(_Named):
    """Statistics of the columns of a table, as arrays in the order of `columns`.

    Variances and covariances divide by `rows - 1`, as pandas does. `skewness` and `kurtosis`, which is
    excess kurtosis, are the biased estimates, as `scipy.stats` computes by default. `var`, `skew` and `kurt`
    compute the others. Undefined figures are NaN: the dispersion of one row, the shape and the correlations of a
    constant column. Figures that the errors of encryption hide are NaN, too, with a
    `sudare.errors.PrecisionWarning`: variances below their error, and shapes and correlations that are off
    by more than a sixteenth. `mean_error`, `variance_error` and `covariance_error` bound the errors.
    """

    def __init__(
        self, decrypted: _native.Decrypted, values: Mapping[str, Any], make: Maker
    ) -> None:
        super().__init__(decrypted, values, make)
        self.rows: int = values["rows"]
        self.mean = self._array("mean")
        self.variance = self._array("variance")
        self.std = self._array("std_dev")
        self.skewness = self._array("skewness")
        self.kurtosis = self._array("kurtosis")
        self.covariance = self._array("covariance")
        self.correlation = self._array("correlation")
        self.mean_error = self._array("mean_error")
        self.covariance_error = self._array("covariance_error")
        self.variance_error = self.covariance_error.diagonal()
        # A variance may be too large for a number although its root is not.
        self.variance[np.isnan(self.variance) & ~np.isnan(self.std)] = np.inf
        if self.rows > 1:
            self._warn(np.isnan(self.std), "statistics")
            # A deviation of 0 is exact: the column is constant.
            shapes = np.isnan(self.skewness) | np.isnan(self.kurtosis)
            self._warn(shapes & (self.std > 0), "skewness or kurtosis")

    def var(self, ddof: float = 1) -> Floats:
        """Returns the variance of each column, which divides by `rows - ddof`, as in pandas."""
        return _variance(self.variance, self.rows, real(ddof, "ddof"))

    def sem(self, ddof: float = 1) -> Floats:
        """Returns the standard error of each mean, the root of `var(ddof)` over `rows`, as in pandas."""
        error: Floats = np.sqrt(self.var(ddof) / self.rows)
        return error

    def skew(self, *, bias: bool = True) -> Floats:
        """Returns the skewness of each column, as `scipy.stats.skew` does.

        `bias=False` returns the unbiased estimate, as pandas does: NaN for fewer than 3 rows.
        """
        n = self.rows
        if flag(bias, "bias"):
            return self.skewness.copy()
        factor = math.sqrt(n * (n - 1)) / (n - 2) if n > 2 else math.nan
        return factor * self.skewness

    def kurt(self, *, fisher: bool = True, bias: bool = True) -> Floats:
        """Returns the kurtosis of each column, as `scipy.stats.kurtosis` does.

        `fisher=True` returns excess kurtosis, 0 for a normal distribution. `bias=False` returns the unbiased
        estimate, as pandas does: NaN for fewer than 4 rows.
        """
        n = self.rows
        fisher, excess = flag(fisher, "fisher"), self.kurtosis.copy()
        if not flag(bias, "bias"):
            factor = (n - 1) / ((n - 2) * (n - 3)) if n > 3 else math.nan
            excess = factor * ((n + 1) * excess + 6)
        return excess if fisher else excess + 3

    def describe(self, table: Frame | None = None) -> Any:
        """Returns a row for each figure and a column for each column, as the `describe` of polars does.

        Parameters
        ----------
        table : data frame, dict or array_like, optional
            The rows of the owner, who knows their extremes and quartiles. They are in the clear, and a
            server cannot compute them. Without rows, only the number of rows, means and standard
            deviations are returned.
        """
        figures = {"count": np.full(len(self.columns), float(self.rows))}
        figures |= {"mean": self.mean, "std": self.std}
        if table is not None:
            values = self._rows_of(table)
            for name, share in _QUARTILES.items():
                figures[name] = np.quantile(values, share, axis=0)
        rows = np.array(list(figures.values()))
        columns = dict(zip(self.columns, rows.T, strict=True))
        return self._make({"statistic": list(figures), **columns})

    def _rows_of(self, table: Frame) -> Floats:
        """Returns the columns of these statistics of a table, whose rows they must describe."""
        found = read(table)
        values = found.values[:, [found.index(name) for name in self.columns]]
        if len(values) != self.rows:
            raise errors.of_kind(
                "OtherTable",
                f"the table has {len(values)} rows, but the statistics are of {self.rows}: pass the table "
                "that was encrypted",
            )
        # Decrypted means carry small errors.
        near = np.abs(values.mean(axis=0) - self.mean) <= self.mean_error + 1e-6 * np.abs(values).max(axis=0)
        if not near.all():
            column = self.columns[int(np.argmin(near))]
            raise errors.of_kind(
                "OtherTable",
                f"column {column!r} has another mean in the table: pass the table that was encrypted",
            )
        return values

    def weighted_mean(self, weights: str) -> Floats:
        """Returns the mean of each column, weighted by a column whose sum must exceed its error."""
        return np.array(self._decrypted.weighted_mean(self._index(weights)), dtype=np.float64)

    def least_squares(self, target: str) -> LeastSquares:
        """Fits a linear model of a column on all others."""
        fit = self._decrypted.least_squares(self._index(target))
        names = ("coefficients", "standard_errors", "p_values")
        fit = {name: np.nan if value is None else value for name, value in fit.items()}
        arrays = {name: np.array(fit[name], dtype=np.float64) for name in names}
        return LeastSquares(**{**fit, **arrays, "predictors": tuple(fit["predictors"])})

    def t_test(self, a: str, b: str) -> TTest:
        """Computes Welch's test of two columns."""
        (test,) = self._decrypted.t_test(self._index(a), self._index(b))
        assert test is not None
        return TTest(**test)

    def to_frame(self, what: Literal["columns", "covariance", "correlation"] = "columns") -> Any:
        """Returns a row per column of the table: its statistics, or its covariances or correlations."""
        names = {"column": list(self.columns)}
        what = choice(what, "what", ("columns", "covariance", "correlation"))
        if what == "columns":
            values = self._figures()
        else:
            matrix = self.covariance if what == "covariance" else self.correlation
            values = dict(zip(self.columns, matrix, strict=True))
        return self._make({**names, **values})

    def _figures(self) -> dict[str, Floats]:
        return {
            "mean": self.mean,
            "variance": self.variance,
            "std": self.std,
            "skewness": self.skewness,
            "kurtosis": self.kurtosis,
        }

    def __repr__(self) -> str:
        return f"Summary of {self.rows} rows of {', '.join(self.columns)}"

    def _repr_html_(self) -> str:
        columns = {"column": self.columns, **self._figures()}
        return columns_html(f"Summary of {self.rows} rows", columns)


class Groups(_Named):
    """Sums by groups of rows.

    Arrays have a row per group, in the order of `labels`, and a column for each of `columns`. Undefined
    figures are NaN: means of no rows, variances of fewer than two. So are variances below the errors of
    encryption, with a `sudare.errors.PrecisionWarning`. `sum_error`, `mean_error` and `variance_error`
    bound the errors. `count_error` bounds the errors of counts, and is 0 where they are exact.
    """

    def __init__(
        self, decrypted: _native.Decrypted, values: Mapping[str, Any], make: Maker
    ) -> None:
        super().__init__(decrypted, values, make)
        self.by: str = values["key"]
        labels = values["labels"]
        is_text = any(isinstance(label, str) for label in labels)
        self.labels = np.array(labels, dtype=object) if is_text else self._array("labels")
        self.count = np.array(values["count"], dtype=np.int64)
        self.sum = self._array("sum")
        self.mean = self._array("mean")
        self.variance = self._array("variance")
        self.std = np.sqrt(self.variance)
        self.count_error: float = values["count_error"]
        self.sum_error = self._array("sum_error")
        self.mean_error = self._array("mean_error")
        self.variance_error = self._array("variance_error")
        several = (self.count > 1)[:, None]
        open_ones: Any = (several & np.isnan(self.variance)).any(axis=0)
        self._warn(open_ones, "variances by group")

    def var(self, ddof: float = 1) -> Floats:
        """Returns the variances, which divide by the rows of each group minus `ddof`, as in pandas."""
        return _variance(self.variance, self.count[:, np.newaxis], real(ddof, "ddof"))

    def t_test(self, a: float | str, b: float | str) -> dict[str, TTest | None]:
        """Computes Welch's test of each column between two groups, by their labels.

        The test is `None` where the column is constant in both groups, where a group has fewer than two
        rows, and where the errors of encryption change `t` by more than a sixteenth.
        """
        places = []
        is_text = self.labels.dtype == object
        for given, what in ((a, "a"), (b, "b")):
            label = string(given, what) if is_text else real(given, what)
            (found,) = np.nonzero(self.labels == label)
            if len(found) == 0:
                known = ", ".join(label if isinstance(label, str) else f"{label:g}" for label in self.labels)
                raise errors.of_kind("Group", f"there is no group {label!r} of {self.by}: the groups are {known}")
            places.append(int(found[0]))
        tests = self._decrypted.t_test(*places)
        made = [None if test is None else TTest(**test) for test in tests]
        pairs = self.variance[places]
        # These columns have a variance, but no test.
        varied: Any = ~np.isnan(pairs).any(axis=0) & (pairs > 0).any(axis=0)
        self._warn(varied & np.array([test is None for test in made]), "tests", 3)
        return dict(zip(self.columns, made, strict=True))

    def to_frame(self) -> Any:
        """Returns a row per group and column."""
        return self._make(self._figures())

    def _figures(self) -> dict[str, Any]:
        groups, columns = len(self.labels), len(self.columns)
        return {
            self.by: np.repeat(self.labels, columns),
            "column": list(self.columns) * groups,
            "count": np.repeat(self.count, columns),
            "sum": self.sum.ravel(),
            "mean": self.mean.ravel(),
            "variance": self.variance.ravel(),
        }

    def __repr__(self) -> str:
        return f"Groups by {self.by}: {len(self.labels)} of {', '.join(self.columns)}"

    def _repr_html_(self) -> str:
        return columns_html(f"{len(self.labels)} groups by {self.by}", self._figures())


class Histograms(_Named):
    """Counts of the values of columns in bins: a row of arrays per column.

    A bin contains its lower edge but not its upper edge, except the last bin, which contains both, as in
    `numpy.histogram`. `errors` bounds the error of each count. It is 0 where counts are exact, such as with
    `exact=True`, and NaN where it is not known. `below` and `above` count values beyond the edges.
    """

    def __init__(
        self, decrypted: _native.Decrypted, values: Mapping[str, Any], make: Maker
    ) -> None:
        super().__init__(decrypted, values, make)
        self.rows: int = values["rows"]
        histograms = values["histograms"]
        self.edges = np.array([h["edges"] for h in histograms], dtype=np.float64)
        self.counts = np.array([h["counts"] for h in histograms], dtype=np.float64)
        self.errors = np.array([h["errors"] for h in histograms], dtype=np.float64)
        self.below = np.array([h["below"] for h in histograms], dtype=np.int64)
        self.above = np.array([h["above"] for h in histograms], dtype=np.int64)

    def quantile(self, p: float | Sequence[float]) -> Floats:
        """Returns the quantiles of each column, linear within bins, or for several `p` a row for each.

        They lie between `quantile_bounds(p)`.
        """
        probabilities = _probabilities(p)
        found = np.array(self._decrypted.quantiles(probabilities.ravel().tolist())).T
        return found if probabilities.ndim else found[0]

    def quantile_bounds(self, p: float | Sequence[float]) -> tuple[Floats, Floats]:
        """Returns lower and upper bounds of the quantiles that `numpy.quantile` computes.

        There is one per column, or for several `p` a row for each. Without values beyond the edges, the
        bounds hold for the whole column.
        """
        probabilities = _probabilities(p)
        found = np.array(self._decrypted.quantile_bounds(probabilities.ravel().tolist()))
        low = found[:, :, 0].T
        high = found[:, :, 1].T
        return (low, high) if probabilities.ndim else (low[0], high[0])

    def to_frame(self) -> Any:
        """Returns a row per column and bin."""
        return self._make(self._figures())

    def _figures(self) -> dict[str, Any]:
        bins = self.counts.shape[1]
        return {
            "column": [column for column in self.columns for _ in range(bins)],
            "low": self.edges[:, :-1].ravel(),
            "high": self.edges[:, 1:].ravel(),
            "count": self.counts.ravel(),
            "error": self.errors.ravel(),
        }

    def __repr__(self) -> str:
        return f"Histograms of {', '.join(self.columns)}, {self.counts.shape[1]} bins"

    def _repr_html_(self) -> str:
        return columns_html(f"Histograms of {self.rows} rows", self._figures())


def _variance(variance: Floats, rows: Any, ddof: float) -> Floats:
    """Converts a variance that divides by `rows - 1` to one that divides by `rows - ddof`."""
    freedom = np.asarray(rows - ddof, dtype=np.float64)
    converted: Floats = variance * (rows - 1) / np.where(freedom > 0, freedom, np.nan)
    return converted


def _probabilities(p: object) -> Floats:
    """Checks one probability or several."""
    found = floats(p)
    if found.ndim > 1:
        raise errors.ShapeError(f"p has the shape {found.shape}: pass a number or a list of numbers")
    return found


@dataclass(frozen=True, repr=False)
class Plan(JobPlan):
    """The statistics of a table of known shape, with parameters for them. Made by `plan`."""

    by: str | None = None
    """The column that groups rows, if there are groups."""

    edges: Edges | None = None
    """The edges of bins, if there are bins."""

    rules: Rules = Rules()
    """The choice of columns, and the treatment of missing values and rare categories."""

    encoding: str | None = None
    """The encoding of the planned table's columns, as JSON, for all tables of the plan."""

    @classmethod
    def of(
        cls,
        key: PublicKey | EvaluationKeys | SecretKey,
        *,
        by: str | None = None,
        edges: Edges | None = None,
        columns: Sequence[str] | None = None,
        drop: Sequence[str] | None = None,
        missing: MissingRules = "refuse",
        rare: int | None = None,
        dates: DateParts | None = None,
    ) -> Plan:
        """Returns the plan that a key was made for.

        Keys do not know the column `by`, the `edges`, and how the columns of a table become numbers.
        `encrypt` needs them; the arguments are as for `plan`.
        """
        expect_type(key, "key", PublicKey, EvaluationKeys, SecretKey)
        rules = Rules(columns, drop, missing, rare=rare, dates=dates)
        native = _native.TablePlan.of(key)
        return cls(native, optional(string, by, "by"), _edges(edges), rules)

    def encrypt(
        self,
        table: Frame,
        key: PublicKey | SecretKey,
        *,
        expect: str | None = None,
        path: str | os.PathLike[str] | None = None,
        overwrite: bool = False,
        progress: Progress = None,
    ) -> EncryptedTable:
        """Encrypts a table with the planned number of columns, and at most the planned rows and groups.

        Columns become numbers as in the table that was planned, if a table was. Otherwise this table
        decides about its categories, and about the numbers that replace missing ones.

        Parameters
        ----------
        table : data frame, dict or array_like
            The table, encrypted with the names of its columns.
        key : PublicKey or SecretKey
            The key. The secret key needs half the bytes.
        expect : str, optional
            The digest of the public key. Another key is refused.
        path : path, optional
            A file for the encrypted table, which is otherwise in memory.
        overwrite : bool, default False
            Whether the file may exist.
        progress : callable or bool, optional
            Called as `progress(step, done, total)`. `True` shows bars of tqdm.
        """
        expect_type(key, "key", PublicKey, SecretKey)
        if self._native.kind == "groups" and self.by is None:
            raise errors.of_kind(
                "Usage",
                "a key does not know the column that groups rows: write Plan.of(key, by=...)"
            )
        by = self.by if self._native.kind == "groups" else None
        found = coded(_cells(table, self.rules), self.rules, by=by, encoding=self.encoding, calls=2)
        return self._native.encrypt(
            expected(key, expect),
            found.data(),
            by=by,
            edges=self._edges(found.names),
            path=optional(path_of, path),
            overwrite=flag(overwrite, "overwrite"),
            progress=callback(progress),
        )

    def _edges(self, columns: list[str]) -> list[str | list[float]] | None:
        """Returns the edges of each column for native code."""
        if self.edges is None:
            return None
        if not isinstance(self.edges, Mapping):
            return [_listed(self.edges)]
        for name in self.edges:
            if name not in columns:
                raise errors.of_kind(
                    "UnknownColumn",
                    f"there is no column {name!r}: the columns are {', '.join(columns)}"
                )
        return [_listed(self.edges.get(name, "equal")) for name in columns]


def _edges(edges: object) -> Edges | None:
    """Checks edges for all columns, or for each by its name."""
    if edges is None:
        return None
    if not isinstance(edges, Mapping):
        return _column_edges(edges, "edges")
    return {
        string(name, "the name of a column in edges"): _column_edges(given, f"the edges of {shown(name)}")
        for name, given in edges.items()
    }


def _column_edges(edges: object, what: str) -> ColumnEdges:
    """Checks edges of a column."""
    if isinstance(edges, str):
        word: Literal["equal", "quantile", "log"]
        word = choice(edges, what, ("equal", "quantile", "log"), "Edges")
        return word
    found = floats(edges)
    if found.ndim != 1:
        raise errors.ShapeError(f"{what} have the shape {found.shape}: pass a list of numbers")
    # A list, because plans are compared.
    edges_of: list[float] = found.tolist()
    return edges_of


def _listed(edges: ColumnEdges) -> str | list[float]:
    """Returns edges of a column for native code."""
    return edges if isinstance(edges, str) else floats(edges).tolist()


def _bins(bins: int | None, edges: Edges | None) -> int:
    """Returns the number of bins, from their number or their edges."""
    each = edges.values() if isinstance(edges, Mapping) else [edges]
    given = {np.size(e) - 1 for e in each if e is not None and not isinstance(e, str)}
    if len(given) > 1:
        raise errors.ShapeError(
            f"columns have {', '.join(map(str, sorted(given)))} bins: pass the same number of edges for each"
        )
    found = given.pop() if given else None
    if None not in (bins, found) and bins != found:
        raise errors.ShapeError(
            f"bins is {bins}, but the edges make {found} bins: leave bins out"
        )
    bins = found if bins is None else bins
    return 10 if bins is None else bins


def plan(
    table: Frame | tuple[int, int],
    what: Literal["summary", "groups", "histogram"] = "summary",
    *,
    by: str | None = None,
    groups: int | None = None,
    bins: int | None = None,
    edges: Edges | None = None,
    exact: bool = False,
    share_bits: int | None = None,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    missing: MissingRules = "refuse",
    rare: int | None = None,
    dates: DateParts | None = None,
) -> Plan:
    """Plans statistics of a table, in the smallest secure ring.

    The shape is public. The plan also serves tables with fewer rows and groups, whose number the server
    does not learn.

    Columns are numbers, truth values, dates, or categories as text. Dates become days since 1970-01-01. A
    column of categories becomes a column of 0 and 1 for each category, whose mean is the share of its rows.
    Columns that identify rows are left out with an `IdentifierWarning`: columns of at least 20 rows with
    text where nine in ten values differ, or with different integers under the name of an identifier, such as
    `patient_id`.

    Parameters
    ----------
    table : data frame, dict, array_like or (int, int)
        The table, or its numbers of rows and columns.
    what : {"summary", "groups", "histogram"}, default "summary"
        `"summary"` has moments, covariances and correlations of columns. `"groups"` has sums, means and
        variances by groups of rows. `"histogram"` has counts in bins, and quantiles.
    by : str, optional
        For groups: the column whose values group the rows. It does not count as a column.
    groups : int, optional
        For groups: their number, required if `table` is a shape.
    bins : int, optional
        For histograms: the number of bins, 10 by default.
    edges : str, sequence of float or dict, optional
        For histograms: `"equal"` for equal widths (between whole numbers where columns hold them),
        `"quantile"` for equal counts of values, `"log"` for positive values, numbers, one more than bins,
        or a dictionary of these by column. They stay with the owner: the server learns only the number of
        bins.
    exact : bool, default False
        For histograms: whether counts are exact for any number of rows. Otherwise counts have bounds of
        their errors, which are 0 for few rows.
    share_bits : int, optional
        From 1 to 12: results are precise enough for `release` to this number of bits.
    columns : sequence of str, optional
        The columns to use. Columns that identify rows are used if they are named here.
    drop : sequence of str, optional
        Columns to leave out.
    missing : {"refuse", "mean", "median", "most_frequent", "drop", "flag"} or dict, default "refuse"
        The treatment of missing values, as for `LogisticRegression`. Missing values of `by` are refused,
        or their rows dropped with `"drop"`.
    rare : int, optional
        Categories with fewer rows are joined as one category, `other`, of at least this number of rows.
    dates : dict, optional
        Parts of dates in place of columns, as for `LogisticRegression`.
    """
    what = choice(what, "what", ("summary", "groups", "histogram"), "Usage")
    by, edges, exact = optional(string, by, "by"), _edges(edges), flag(exact, "exact")
    groups, bins = optional(whole, groups, "groups"), optional(whole, bins, "bins")
    share_bits = optional(whole, share_bits, "share_bits")
    given = {
        "by": by is not None,
        "groups": groups is not None,
        "bins": bins is not None,
        "edges": edges is not None,
        "exact": exact,
    }
    of_what = {
        "summary": set[str](),
        "groups": {"by", "groups"},
        "histogram": {"bins", "edges", "exact"},
    }
    for name in given:
        if given[name] and name not in of_what[what]:
            raise errors.of_kind("Usage", f"{name} is not for {what!r}: leave it out")
    if what == "groups" and by is None:
        raise errors.of_kind("Usage", "groups need the column that groups rows: pass by=...")

    rules = Rules(columns, drop, missing, rare=rare, dates=dates)
    encoding = None
    if isinstance(table, tuple) and len(table) == 2 and not any(map(has_axes, table)):
        rows, width = whole(table[0], "the number of rows"), whole(table[1], "the number of columns")
        if what == "groups" and groups is None:
            raise errors.of_kind("Usage", "a shape does not tell the number of groups: pass groups=...")
    else:
        data = coded(_cells(table, rules), rules, by=by, calls=2)
        encoding = data.encoding
        rows, width = data.values.shape
        if data.by is not None:
            found = len(data.by[1])
            if groups not in (None, found):
                raise errors.ShapeError(f"{by!r} has {found} different values, not {groups}")
            groups = found
    if what == "summary":
        planned = _native.TablePlan.statistics(rows, width, share_bits=share_bits)
    elif what == "groups":
        assert groups is not None
        planned = _native.TablePlan.groups(rows, width, groups, share_bits=share_bits)
    else:
        bins = _bins(bins, edges)
        planned = _native.TablePlan.histogram(rows, width, bins, share_bits=share_bits, exact=exact)
    # Tables of numbers may have other names of columns.
    encoding = None if encoding is None or is_plain(encoding) else encoding
    return Plan(planned, by, edges, rules, encoding)


def _cells(table: Frame, rules: Rules) -> Frame | Cells:
    """Returns a table of numbers, checked, and any other table unchanged."""
    if not rules.is_default():
        return table
    try:
        columns = read(table)
    except (errors.DtypeError, errors.TableError, errors.OutsideRangeError) as error:
        # Text, dates and gaps of frames and dictionaries are left to the coding.
        # A lazy frame has no length, and must be collected.
        has_names = all(hasattr(type(table), name) for name in ("columns", "__len__"))
        if not (isinstance(table, Mapping) or has_names) or error.kind in ("UnnamedColumn", "DuplicateColumn"):
            raise
        return table
    return Cells(columns.names, columns.values, {})


def compute(
    table: EncryptedTable, keys: EvaluationKeys, progress: Progress = None
) -> EncryptedResult:
    """Computes the statistics of an encrypted table: the server's part, which learns no value."""
    expect_type(table, "table", EncryptedTable)
    expect_type(keys, "keys", EvaluationKeys)
    return table.compute(keys, callback(progress))


def decrypt(
    result: EncryptedResult,
    key: SecretKey,
    *,
    table: EncryptedTable | None = None,
    like: Frame | None = None,
) -> Summary | Groups | Histograms:
    """Decrypts statistics, for the owner of the key.

    The values carry errors that depend on the secret key. To share values, use `release`.

    Parameters
    ----------
    result : EncryptedResult
        The result of the server.
    key : SecretKey
        The key of the owner.
    table : EncryptedTable, optional
        The encrypted table. Results of another table are refused.
    like : data frame, optional
        A frame of the library that `to_frame` shall use. Otherwise `to_frame` returns dictionaries of
        columns.
    """
    return _named(result, key, None, table, like)


def release(
    result: EncryptedResult,
    key: SecretKey,
    bits: int,
    *,
    table: EncryptedTable | None = None,
    like: Frame | None = None,
) -> Summary | Groups | Histograms:
    """Decrypts statistics that others than the owner of the key may see.

    The server computes means of columns, scaled to [-1, 1], and of their products, or counts, as
    parts of all rows. Noise hides their errors, which depend on the key, and they are rounded to `bits`
    bits after the point. All other figures follow from them. Plan with `plan(..., share_bits=bits)` for
    enough precision. A call is one of the 1024 releases of a key, which are counted in a ledger next to the
    file of the secret key, or with a key that is only in memory. The same result, to the same bits, is the
    same release with the same values. `table` and `like` are as for `decrypt`.
    """
    return _named(result, key, whole(bits, "bits"), table, like)


def _named(
    result: EncryptedResult,
    key: SecretKey,
    bits: int | None,
    table: EncryptedTable | None,
    like: Frame | None,
) -> Summary | Groups | Histograms:
    """Returns statistics with the names of their columns, to be shared to a number of bits if one is given."""
    expect_type(result, "result", EncryptedResult)
    expect_type(key, "key", SecretKey)
    make = Maker.like(like)
    decrypted = result.decrypt(key, bits, tables=optional(as_list, table))
    values = decrypted.values()
    kinds: dict[str, type[Summary | Groups | Histograms]] = {
        "statistics": Summary,
        "groups": Groups,
        "histograms": Histograms,
    }
    if values["kind"] not in kinds:
        raise errors.of_kind(
            "OtherJob",
            f"the result holds {values['kind']}, but statistics are needed: pass the result of `compute`"
        )
    return kinds[values["kind"]](decrypted, values, make)


@overload
def run(
    table: Frame,
    what: Literal["summary"] = ...,
    *,
    by: None = ...,
    bins: None = ...,
    edges: None = ...,
    exact: Literal[False] = ...,
    columns: Sequence[str] | None = ...,
    drop: Sequence[str] | None = ...,
    missing: MissingRules = ...,
    rare: int | None = ...,
    dates: DateParts | None = ...,
    progress: Progress = ...,
) -> Summary: ...
@overload
def run(
    table: Frame,
    what: Literal["groups"],
    *,
    by: str,
    bins: None = ...,
    edges: None = ...,
    exact: Literal[False] = ...,
    columns: Sequence[str] | None = ...,
    drop: Sequence[str] | None = ...,
    missing: MissingRules = ...,
    rare: int | None = ...,
    dates: DateParts | None = ...,
    progress: Progress = ...,
) -> Groups: ...
@overload
def run(
    table: Frame,
    what: Literal["histogram"],
    *,
    by: None = ...,
    bins: int | None = ...,
    edges: Edges | None = ...,
    exact: bool = ...,
    columns: Sequence[str] | None = ...,
    drop: Sequence[str] | None = ...,
    missing: MissingRules = ...,
    rare: int | None = ...,
    dates: DateParts | None = ...,
    progress: Progress = ...,
) -> Histograms: ...
def run(
    table: Frame,
    what: Literal["summary", "groups", "histogram"] = "summary",
    *,
    by: str | None = None,
    bins: int | None = None,
    edges: Edges | None = None,
    exact: bool = False,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    missing: MissingRules = "refuse",
    rare: int | None = None,
    dates: DateParts | None = None,
    progress: Progress = None,
) -> Summary | Groups | Histograms:
    """Plans, makes keys, encrypts, computes and decrypts in one process, to try statistics.

    Nothing stays secret from this process. The parameters are as for `plan`.
    """
    planned = plan(
        table,
        what,
        by=by,
        bins=bins,
        edges=edges,
        exact=exact,
        columns=columns,
        drop=drop,
        missing=missing,
        rare=rare,
        dates=dates,
    )
    keys = planned.make_keys(progress)
    encrypted = planned.encrypt(table, keys.secret, progress=progress)
    return decrypt(compute(encrypted, keys.evaluation, progress), keys.secret, like=table)
