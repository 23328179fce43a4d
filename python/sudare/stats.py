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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np

from sudare import _native, errors
from sudare._context import expected
from sudare._frames import Columns, Frame, Maker, read
from sudare._native import EvaluationKeys, PublicKey, SecretKey
from sudare._native import Result as EncryptedResult
from sudare._native import Table as EncryptedTable
from sudare._plain import Floats, to_native, whole
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
    """Of the coefficients."""
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


class Summary(_Named):
    """Statistics of the columns of a table, as arrays in the order of `columns`.

    Variances and covariances divide by `rows - 1` as pandas does, skewness and excess kurtosis
    are those of `scipy.stats`. What is undefined is NaN: dispersion of one row, shape and
    correlation of a constant column.
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

    def weighted_mean(self, weights: str) -> Floats:
        """The mean of each column with the values of a column as weights."""
        return np.array(self._decrypted.weighted_mean(self._index(weights)))

    def least_squares(self, target: str) -> LeastSquares:
        """The linear model of a column on all others."""
        fit = self._decrypted.least_squares(self._index(target))
        names = ("coefficients", "standard_errors", "p_values")
        arrays = {name: np.array(fit[name]) for name in names}
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

    What is undefined is NaN: means of no rows, variances of fewer than two.
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

    def t_test(self, a: float, b: float) -> dict[str, TTest | None]:
        """Welch's test of each column between the groups with these labels; none where the column
        is constant in both or a group has fewer than two rows."""
        places = []
        for label in (a, b):
            (found,) = np.nonzero(self.labels == label)
            if len(found) == 0:
                known = ", ".join(f"{label:g}" for label in self.labels)
                raise errors.GroupError(f"there is no group {label!r} of {self.by}, but {known}")
            places.append(int(found[0]))
        tests = self._decrypted.t_test(*places)
        made = [None if test is None else TTest(**test) for test in tests]
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
    """Counts of the values of columns in bins of equal width between their smallest and largest:
    a row of arrays per column.

    A value nearer to an edge than an eighth of a bin counts partly in both bins; counts are else
    right to about a half.
    """

    def __init__(
        self, decrypted: _native.Decrypted, values: Mapping[str, Any], make: Maker
    ) -> None:
        super().__init__(decrypted, values, make)
        self.rows: int = values["rows"]
        self.edges = np.array([h["edges"] for h in values["histograms"]])
        self.counts = np.array([h["counts"] for h in values["histograms"]])

    def quantile(self, p: float | Sequence[float]) -> Floats:
        """The values below which the parts `p` of each column lie, right to about the width of a
        bin: per column, or for several `p` a row for each."""
        probabilities = np.atleast_1d(np.asarray(p, dtype=np.float64))
        found = np.array(self._decrypted.quantiles(probabilities.tolist())).T
        return found if np.ndim(p) else found[0]

    def to_frame(self) -> Any:
        """A row per column and bin."""
        bins = self.counts.shape[1]
        return self._make(
            {
                "column": [column for column in self.columns for _ in range(bins)],
                "low": self.edges[:, :-1].ravel(),
                "high": self.edges[:, 1:].ravel(),
                "count": self.counts.ravel(),
            }
        )

    def __repr__(self) -> str:
        return f"Histograms of {', '.join(self.columns)}, {self.counts.shape[1]} bins"


@dataclass(frozen=True, repr=False)
class Plan(JobPlan):
    """What to compute of a table of known shape, and parameters for it: made by `plan`."""

    by: str | None = None
    """The column whose values tell groups apart, if there are groups."""

    @classmethod
    def of(cls, key: PublicKey | EvaluationKeys | SecretKey, *, by: str | None = None) -> Plan:
        """The plan that a key was made for."""
        return cls(_native.TablePlan.of(key), by)

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
        columns.index(self.by)
        return self.by


def plan(
    table: Frame | tuple[int, int],
    what: Literal["summary", "groups", "histogram"] = "summary",
    *,
    by: str | None = None,
    groups: int | None = None,
    bins: int | None = None,
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
    - `histogram`: counts in `bins`, ten if left out, and quantiles.
    """
    given = {"by": by is not None, "groups": groups is not None, "bins": bins is not None}
    of_what = {"summary": set[str](), "groups": {"by", "groups"}, "histogram": {"bins"}}
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
            found = len(np.unique(data.values[:, data.index(by)]))
            if groups not in (None, found):
                raise errors.ShapeError(f"{by!r} has {found} different values, not {groups}")
            columns, groups = columns - 1, found
    if what == "summary":
        return Plan(_native.TablePlan.statistics(rows, columns, share_bits=share_bits))
    if what == "groups":
        groups = whole(groups, "groups")
        return Plan(_native.TablePlan.groups(rows, columns, groups, share_bits=share_bits), by)
    bins = 10 if bins is None else whole(bins, "bins")
    return Plan(_native.TablePlan.histogram(rows, columns, bins, share_bits=share_bits))


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
    progress: Progress = ...,
) -> Summary: ...
@overload
def run(
    table: Frame, what: Literal["groups"], *, by: str, bins: None = ..., progress: Progress = ...
) -> Groups: ...
@overload
def run(
    table: Frame,
    what: Literal["histogram"],
    *,
    by: None = ...,
    bins: int | None = ...,
    progress: Progress = ...,
) -> Histograms: ...
def run(
    table: Frame,
    what: Literal["summary", "groups", "histogram"] = "summary",
    *,
    by: str | None = None,
    bins: int | None = None,
    progress: Progress = None,
) -> Summary | Groups | Histograms:
    """Plans, makes keys, encrypts, computes and decrypts in this process: to see what there is,
    since nobody is kept from anything."""
    planned = plan(table, what, by=by, bins=bins)
    keys = planned.make_keys(progress)
    encrypted = planned.encrypt(table, keys.secret, progress=progress)
    return decrypt(compute(encrypted, keys.evaluation, progress), keys.secret, like=table)
