"""Statistics of encrypted tables.

The owner of a table plans, makes keys and encrypts; a server computes with the evaluation keys
alone; the owner decrypts:

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

`run` does all of it in one process. Tables are data frames of pandas, polars or pyarrow (with
`pip install narwhals`), dictionaries of columns, or arrays of rows and columns.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, overload

import numpy as np

from sudare import _native, errors
from sudare._context import expected
from sudare._frames import Columns, Frame, Maker, read
from sudare._native import EvaluationKeys, PublicKey, SecretKey
from sudare._native import Result as EncryptedResult
from sudare._native import Table as EncryptedTable
from sudare._plain import Floats, floats, to_native, whole
from sudare._plan import JobPlan, as_list
from sudare._progress import Progress, callback

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


ColumnEdges: TypeAlias = Literal["equal", "quantile", "log"] | Sequence[float] | Floats
"""Edges of bins: of equal width, of as many values each, of equal ratio, or numbers, one more than
bins."""

Edges: TypeAlias = ColumnEdges | Mapping[str, ColumnEdges]
"""Edges of all columns, or of each by its name; columns without have bins of equal width."""

_FIRST_INEXACT = 2.0**53
"""The first whole number that another, the next one, is rounded to."""


@dataclass(frozen=True)
class TTest:
    """Welch's test of two samples with possibly different variances."""

    difference: float
    """Difference of the means, the first less the second."""
    standard_error: float
    """Its standard error."""
    t: float
    """Their quotient."""
    degrees_of_freedom: float
    """Degrees of freedom by Welch and Satterthwaite."""
    p_value: float
    """Two-sided probability if the means are equal."""


@dataclass(frozen=True)
class LeastSquares:
    """A linear model of one column, fitted to the others with an intercept."""

    target: str
    """The column that is predicted."""
    predictors: tuple[str, ...]
    """The others, in the order of the arrays."""
    intercept: float
    """Predicted where all predictors are 0."""
    coefficients: Floats
    """Of each predictor."""
    standard_errors: Floats
    """Of the coefficients. Here and elsewhere, NaN is what the errors of encryption leave open."""
    p_values: Floats
    """Two-sided probabilities of such coefficients if those of the population are 0."""
    r_squared: float
    """Part of the variance of the target that is explained."""
    residual_variance: float
    """Variance of the residuals: their squares over rows less predictors less 1."""
    condition: float
    """Condition number of the correlations of the predictors."""


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
        """Undefined values are NaN."""
        return np.array(self._values[name], dtype=np.float64)

    def _index(self, column: str) -> int:
        if column not in self.columns:
            raise errors.UnknownColumnError(
                f"there is no column {column!r}: the columns are {', '.join(self.columns)}"
            )
        return self.columns.index(column)

    def _warn(self, untold: Sequence[bool] | np.ndarray[Any, Any], what: str, level: int = 5) -> None:
        """Names the columns for which the errors of encryption leave something open."""
        names = [name for name, found in zip(self.columns, untold, strict=True) if found]
        if names:
            warnings.warn(
                f"{what} of {', '.join(map(repr, names))} are not told, since the errors of the "
                "result leave them open: leave out outliers, or split the table",
                errors.PrecisionWarning,
                stacklevel=level,
            )


class Summary(_Named):
    """Statistics of the columns of a table, as arrays in the order of `columns`.

    Variances and covariances divide by `rows - 1` as pandas does, skewness and excess kurtosis
    are those of `scipy.stats`. What is undefined is NaN: dispersion of one row, shape and
    correlation of a constant column. So is what the errors of encryption leave open, with a
    `sudare.errors.PrecisionWarning`: variances below their error, and shapes and correlations that
    are off by more than a sixteenth. `mean_error`, `variance_error` and `covariance_error` bound how far
    figures may be off.
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
        # A variance that is too large for a number has a root.
        self.variance[np.isnan(self.variance) & ~np.isnan(self.std)] = np.inf
        if self.rows > 1:
            self._warn(np.isnan(self.std), "statistics")
            # 0 is exact, of constant columns.
            shapes = np.isnan(self.skewness) | np.isnan(self.kurtosis)
            self._warn(shapes & (self.std > 0), "skewness or kurtosis")

    def weighted_mean(self, weights: str) -> Floats:
        """The mean of each column with the values of a column as weights, whose sum must be above its
        error."""
        return np.array(self._decrypted.weighted_mean(self._index(weights)), dtype=np.float64)

    def least_squares(self, target: str) -> LeastSquares:
        """The linear model of a column on all others."""
        fit = self._decrypted.least_squares(self._index(target))
        names = ("coefficients", "standard_errors", "p_values")
        fit = {name: np.nan if value is None else value for name, value in fit.items()}
        arrays = {name: np.array(fit[name], dtype=np.float64) for name in names}
        return LeastSquares(**{**fit, **arrays, "predictors": tuple(fit["predictors"])})

    def t_test(self, a: str, b: str) -> TTest:
        """Welch's test of two columns."""
        (test,) = self._decrypted.t_test(self._index(a), self._index(b))
        assert test is not None
        return TTest(**test)

    def to_frame(self, what: Literal["columns", "covariance", "correlation"] = "columns") -> Any:
        """A row per column of the table: its statistics, or those with every column."""
        names = {"column": list(self.columns)}
        if what == "columns":
            values = {
                "mean": self.mean,
                "variance": self.variance,
                "std": self.std,
                "skewness": self.skewness,
                "kurtosis": self.kurtosis,
            }
        elif what in ("covariance", "correlation"):
            matrix = self.covariance if what == "covariance" else self.correlation
            values = dict(zip(self.columns, matrix, strict=True))
        else:
            raise errors.UsageError(
                f"{what!r}: a frame has 'columns', 'covariance' or 'correlation', choose one"
            )
        return self._make({**names, **values})

    def __repr__(self) -> str:
        return f"Summary of {self.rows} rows of {', '.join(self.columns)}"


class Groups(_Named):
    """Sums by groups of rows: arrays have a row per group, in the order of `labels`, and a column
    for each of `columns`.

    What is undefined is NaN: means of no rows, variances of fewer than two. So are variances below
    the errors of encryption, with a `sudare.errors.PrecisionWarning`. `sum_error`, `mean_error` and
    `variance_error` bound how far figures may be off, and `count_error` how many rows counts may be
    off, 0 where they are exact.
    """

    def __init__(
        self, decrypted: _native.Decrypted, values: Mapping[str, Any], make: Maker
    ) -> None:
        super().__init__(decrypted, values, make)
        self.by: str = values["key"]
        self.labels = self._array("labels")
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

    def t_test(self, a: float, b: float) -> dict[str, TTest | None]:
        """Welch's test of each column between the groups with these labels; none where the column
        is constant in both or a group has fewer than two rows, and where the errors of encryption
        leave `t` open by more than a sixteenth."""
        places = []
        for label in (a, b):
            (found,) = np.nonzero(self.labels == label)
            if len(found) == 0:
                known = ", ".join(f"{label:g}" for label in self.labels)
                raise errors.GroupError(f"there is no group {label!r} of {self.by}, but {known}")
            places.append(int(found[0]))
        tests = self._decrypted.t_test(*places)
        made = [None if test is None else TTest(**test) for test in tests]
        pairs = self.variance[places]
        # Without a test, though there is a variance.
        varied: Any = ~np.isnan(pairs).any(axis=0) & (pairs > 0).any(axis=0)
        self._warn(varied & np.array([test is None for test in made]), "tests", 3)
        return dict(zip(self.columns, made, strict=True))

    def to_frame(self) -> Any:
        """A row per group and column."""
        groups, columns = len(self.labels), len(self.columns)
        return self._make(
            {
                self.by: np.repeat(self.labels, columns),
                "column": list(self.columns) * groups,
                "count": np.repeat(self.count, columns),
                "sum": self.sum.ravel(),
                "mean": self.mean.ravel(),
                "variance": self.variance.ravel(),
            }
        )

    def __repr__(self) -> str:
        return f"Groups by {self.by}: {len(self.labels)} of {', '.join(self.columns)}"


class Histograms(_Named):
    """Counts of the values of columns in bins: a row of arrays per column.

    A bin has the values from its lower edge to below its upper one, the last one with both, as
    `numpy.histogram` has it. `errors` bounds how many values each count may be off: 0 where counts
    are exact, as all are of plans with `exact=True`, and NaN where it is not known. `below` and
    `above` are numbers of values beyond the edges.
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
        """The values below which the parts `p` of each column lie, linear within bins: per column, or
        for several `p` a row for each. They lie between `quantile_bounds(p)`."""
        probabilities = np.atleast_1d(np.asarray(p, dtype=np.float64))
        found = np.array(self._decrypted.quantiles(probabilities.tolist())).T
        return found if np.ndim(p) else found[0]

    def quantile_bounds(self, p: float | Sequence[float]) -> tuple[Floats, Floats]:
        """The edges between which the quantiles of `numpy.quantile` lie, lower and upper ones: per
        column, or for several `p` a row for each. Without values beyond the edges they are those of
        the whole column."""
        probabilities = np.atleast_1d(np.asarray(p, dtype=np.float64))
        found = np.array(self._decrypted.quantile_bounds(probabilities.tolist()))
        low = found[:, :, 0].T
        high = found[:, :, 1].T
        return (low, high) if np.ndim(p) else (low[0], high[0])

    def to_frame(self) -> Any:
        """A row per column and bin."""
        bins = self.counts.shape[1]
        return self._make(
            {
                "column": [column for column in self.columns for _ in range(bins)],
                "low": self.edges[:, :-1].ravel(),
                "high": self.edges[:, 1:].ravel(),
                "count": self.counts.ravel(),
                "error": self.errors.ravel(),
            }
        )

    def __repr__(self) -> str:
        return f"Histograms of {', '.join(self.columns)}, {self.counts.shape[1]} bins"


@dataclass(frozen=True, repr=False)
class Plan(JobPlan):
    """What to compute of a table of known shape, and parameters for it: made by `plan`."""

    by: str | None = None
    """The column whose values tell groups apart, if there are groups."""

    edges: Edges | None = None
    """The edges of bins, if there are bins."""

    @classmethod
    def of(
        cls,
        key: PublicKey | EvaluationKeys | SecretKey,
        *,
        by: str | None = None,
        edges: Edges | None = None,
    ) -> Plan:
        """The plan that a key was made for. Keys do not know the column `by` and the `edges`, which
        are for `encrypt`."""
        return cls(_native.TablePlan.of(key), by, edges)

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
        """A table with as many columns as planned and at most as many rows and groups, encrypted
        with the names of its columns; with `path` it is written to that file and not held in
        memory. Under the secret key it takes half the bytes that it takes under the public one.
        With `expect`, any other public key than that of this digest is refused."""
        columns = read(table)
        return self._native.encrypt(
            expected(key, expect),
            _native.Data(columns.names, to_native(columns.values)),
            by=self._check(columns),
            edges=self._edges(columns),
            path=path,
            overwrite=overwrite,
            progress=callback(progress),
        )

    def _check(self, columns: Columns) -> str | None:
        if self._native.kind != "groups":
            return None
        if self.by is None:
            raise errors.UsageError(
                "which column tells groups apart is not in keys: write Plan.of(key, by=...)"
            )
        _groups(columns, self.by)
        return self.by

    def _edges(self, columns: Columns) -> list[str | list[float]] | None:
        """Of each column, as native code takes them."""
        if self.edges is None:
            return None
        if not isinstance(self.edges, Mapping):
            return [_column_edges(self.edges)]
        for name in self.edges:
            columns.index(name)
        return [_column_edges(self.edges.get(name, "equal")) for name in columns.names]


def _column_edges(edges: ColumnEdges) -> str | list[float]:
    return edges if isinstance(edges, str) else floats(edges).ravel().tolist()


def _groups(columns: Columns, by: str) -> int:
    """How many groups the values of a column tell apart."""
    keys = columns.values[:, columns.index(by)]
    if (np.abs(keys) >= _FIRST_INEXACT).any():
        raise errors.GroupKeyError(
            f"column {by!r} has whole numbers of 2^53 and more, which are not exact here, so that "
            "different ones could be one group: number the groups from 0, as pandas.factorize does"
        )
    return len(np.unique(keys))


def _bins(bins: int | None, edges: Edges | None) -> int:
    """How many bins there are, by their number or their edges."""
    each = edges.values() if isinstance(edges, Mapping) else [edges]
    given = {np.size(e) - 1 for e in each if e is not None and not isinstance(e, str)}
    if len(given) > 1:
        raise errors.ShapeError(
            f"columns have {', '.join(map(str, sorted(given)))} bins: give as many edges for each"
        )
    found = given.pop() if given else None
    if None not in (bins, found) and bins != found:
        raise errors.ShapeError(
            f"{found} bins have the edges that are given, not {bins}: leave bins out"
        )
    bins = found if bins is None else whole(bins, "bins")
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
) -> Plan:
    """What to compute of a table, or of one of so many rows and columns, in the smallest secure
    ring: the shape is public. It serves tables with fewer rows and groups, too, whose number the
    server does not learn.

    With `share_bits`, from 1 to 12, the results are precise enough for `release` to so many bits.

    - `summary`: moments, covariances and correlations of columns, and what follows from them.
    - `groups`: sums, means and variances by groups of rows, which the values of the column `by`
      tell apart. It does not count as a column, and of a shape alone the number of `groups` must
      be said.
    - `histogram`: counts in `bins`, ten if left out, and quantiles. `edges` are "equal" (between whole
      numbers where columns hold such), "quantile" for bins of as many values, "log" for positive
      values, or numbers, one more than bins; or a dictionary of these by column. They are the
      owner's: the server learns the number of bins alone. With `exact=True` parameters are precise
      enough for exact counts of any number of rows; without, counts come with a bound of their
      errors, which is 0 for few rows.
    """
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
    if what not in of_what:
        raise errors.UsageError(f"{what!r}: one of {', '.join(of_what)} can be planned")
    for name in given:
        if given[name] and name not in of_what[what]:
            raise errors.UsageError(f"{name} is not for {what!r}: leave it out")
    if what == "groups" and by is None:
        raise errors.UsageError("name the column whose values tell groups apart: by=...")

    if isinstance(table, tuple) and len(table) == 2 and not any(map(np.ndim, table)):
        rows, columns = whole(table[0], "the number of rows"), whole(table[1], "that of columns")
        if what == "groups" and groups is None:
            raise errors.UsageError("of a shape alone, the number of groups is needed: groups=...")
    else:
        data = read(table)
        rows, columns = data.values.shape
        if by is not None:
            found = _groups(data, by)
            if groups not in (None, found):
                raise errors.ShapeError(f"{by!r} has {found} different values, not {groups}")
            columns, groups = columns - 1, found
    if what == "summary":
        return Plan(_native.TablePlan.statistics(rows, columns, share_bits=share_bits))
    if what == "groups":
        groups = whole(groups, "groups")
        return Plan(_native.TablePlan.groups(rows, columns, groups, share_bits=share_bits), by)
    bins = _bins(bins, edges)
    planned = _native.TablePlan.histogram(rows, columns, bins, share_bits=share_bits, exact=exact)
    return Plan(planned, edges=edges)


def compute(
    table: EncryptedTable, keys: EvaluationKeys, progress: Progress = None
) -> EncryptedResult:
    """What a table was encrypted for: the server's part, which learns no value."""
    return table.compute(keys, callback(progress))


def decrypt(
    result: EncryptedResult,
    key: SecretKey,
    *,
    table: EncryptedTable | None = None,
    like: Frame | None = None,
) -> Summary | Groups | Histograms:
    """The values of a result, for the owner of the key. Its frames are of the library of `like`,
    or dictionaries of columns. With `table`, a result that says that it comes from another encrypted
    table is refused.

    The values carry errors that depend on the secret key: `release` makes what others may see.
    """
    return _named(result.decrypt(key, tables=_tables(table)), like)


def release(
    result: EncryptedResult,
    key: SecretKey,
    bits: int,
    *,
    table: EncryptedTable | None = None,
    like: Frame | None = None,
) -> Summary | Groups | Histograms:
    """The values of a result as others than the owner of the key may see them.

    What the server computed, means of columns and of their products as parts of their ranges, or
    counts as parts of all rows, has noise that hides the error which depends on the key, and is
    rounded to `bits` bits after the point; all else follows from that. Keys are made precise
    enough with `plan(..., share_bits=bits)`. It is one of the 1024 releases that a key has, which are
    counted in a ledger beside the file of the secret key, or with a key that is in memory only; the
    same result, to the same bits, is the same release and has the same values. `table` and `like` are
    as for `decrypt`.
    """
    return _named(result.decrypt(key, bits, tables=_tables(table)), like)


def _tables(table: EncryptedTable | None) -> list[EncryptedTable] | None:
    return None if table is None else as_list(table)


def _named(decrypted: _native.Decrypted, like: Frame | None) -> Summary | Groups | Histograms:
    """Statistics with their names."""
    values = decrypted.values()
    kinds: dict[str, type[Summary | Groups | Histograms]] = {
        "statistics": Summary,
        "groups": Groups,
        "histograms": Histograms,
    }
    if values["kind"] not in kinds:
        raise errors.OtherJobError(
            f"the result is a {values['kind']}, but one of statistics is needed: give that"
        )
    return kinds[values["kind"]](decrypted, values, Maker.like(like))


@overload
def run(
    table: Frame,
    what: Literal["summary"] = ...,
    *,
    by: None = ...,
    bins: None = ...,
    edges: None = ...,
    exact: Literal[False] = ...,
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
    progress: Progress = None,
) -> Summary | Groups | Histograms:
    """Plans, makes keys, encrypts, computes and decrypts in this process: to see what there is,
    since nobody is kept from anything."""
    planned = plan(table, what, by=by, bins=bins, edges=edges, exact=exact)
    keys = planned.make_keys(progress)
    encrypted = planned.encrypt(table, keys.secret, progress=progress)
    return decrypt(compute(encrypted, keys.evaluation, progress), keys.secret, like=table)
