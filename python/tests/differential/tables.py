"""Compares statistics of random tables with pandas and SciPy, and tests tables that the command reads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.stats

from sudare import errors, stats

from .core import Case, Generator, Outcome, Rng, Verdict, attempt, judge, said
from .values import Floats, magnitude, numbers

ERROR = 2.0**-19
"""Allowed error of a result, as a part of the column's range."""


class Refused(errors.Error):
    """The command refused its input with a documented error."""


def command(*arguments: str, folder: Path) -> Any:
    """Runs a command. Returns its JSON, or raises its refusal."""
    program = os.environ.get("SUDARE")
    start = [program] if program else [sys.executable, "-m", "sudare"]
    done = subprocess.run(
        [*start, *arguments, "--json"], cwd=folder, capture_output=True, text=True, timeout=300
    )
    if done.returncode == 2 and done.stderr.strip():
        raise Refused(done.stderr.strip()[-300:])
    if done.returncode != 0:
        raise RuntimeError(f"status {done.returncode}: {done.stderr.strip()[-300:]}")
    return json.loads(done.stdout)


@dataclass(frozen=True)
class Column:
    """A column: the numbers that a careful reader sees, and the passed values."""

    name: str
    truth: Any
    """An array of numbers, or a list of labels."""
    given: Any
    what: str

    def cut(self, rows: slice) -> Column:
        """The same for some rows."""
        return Column(self.name, self.truth[rows], self.given[rows], self.what)


@dataclass
class Close:
    """Comparisons of named results."""

    faults: list[str]

    def near(
        self,
        name: str,
        found: Any,
        expected: Any,
        tolerance: Any,
        *,
        undefined: Any = False,
    ) -> None:
        """Notes results that are off by more than a tolerance, at each element. Where `undefined`, a result may be
        NaN. Where it must be NaN, `expected` is."""
        with np.errstate(all="ignore"):
            got = np.asarray(found, dtype=np.float64)
            right = np.asarray(expected, dtype=np.float64)
            if got.shape != right.shape:
                self.faults.append(f"{name}: shape {got.shape}, expected {right.shape}")
                return
            fine = np.abs(got - right) <= tolerance
            fine |= got == right
            fine |= np.isnan(got) & (np.isnan(right) | np.asarray(undefined))
        if not fine.all():
            place = tuple(int(i) for i in np.argwhere(~fine)[0])
            allowed = np.broadcast_to(tolerance, got.shape)[place]
            self.faults.append(
                f"{name} at {place}: found {got[place]:.6g}, expected {right[place]:.6g} "
                f"within {allowed:.2g}"
            )

    def verdict(self) -> Verdict:
        """Returns the first fault, if any."""
        if self.faults:
            return Verdict("finding", "wrong value", "; ".join(self.faults[:3]))
        return Verdict("right", "right")


FRAMES = ["dict", "dict of lists", "pandas", "pandas nullable", "polars", "pyarrow", "pyarrow chunked", "array"]


def framed(kind: str, columns: list[Column]) -> Any:
    """Returns the columns in a frame of this kind."""
    given = {column.name: column.given for column in columns}
    if kind == "dict":
        return given
    if kind == "dict of lists":
        return {name: np.asarray(values).tolist() for name, values in given.items()}
    if kind == "pandas":
        return pd.DataFrame(given)
    if kind == "pandas nullable":
        return pd.DataFrame(given).convert_dtypes()
    if kind == "polars":
        return pl.DataFrame({name: np.ascontiguousarray(values) for name, values in given.items()})
    if kind.startswith("pyarrow"):
        table = pa.table({name: pa.array(np.ascontiguousarray(values)) for name, values in given.items()})
        if kind == "pyarrow chunked" and table.num_rows > 1:
            half = table.num_rows // 2
            table = pa.concat_tables([table.slice(0, half), table.slice(half)])
        return table
    matrix = np.column_stack([np.asarray(column.truth, dtype=np.float64) for column in columns])
    return np.asfortranarray(matrix)


def column(rng: Rng, name: str, rows: int) -> Column:
    """A column of numbers."""
    size = magnitude(rng)
    kind = rng.integers(0, 9)
    if kind == 0:
        values = rng.normal(170 * size, 9 * size, rows)
    elif kind == 1:
        values = rng.exponential(size, rows)
    elif kind == 2:
        values = rng.integers(0, 2, rows).astype(np.float64)
    elif kind == 3:
        values = rng.integers(-50, 90, rows).astype(np.float64)
    else:
        values = numbers(rng, (rows,), size)
    given: npt.NDArray[Any] = values
    if kind == 2 and rng.random() < 0.5:
        given = values.astype(bool)
    elif kind == 3:
        given = values.astype(str(rng.choice(["int8", "int16", "int64", "float32"])))
        values = given.astype(np.float64)
    elif rng.random() < 0.2:
        given = values.astype(np.float32)
        values = given.astype(np.float64)
    if rng.random() < 0.1:
        given = given[::-1].copy()[::-1]
    return Column(name, values, given, f"column {kind} of {given.dtype}")


def _names(rng: Rng, count: int) -> list[str]:
    pool = ["age", "weight", "dose", "bp (mm)", "naïve", "x y", "A", "a", "1", "sum", "count", "k%"]
    return [str(name) for name in rng.permutation(pool)[:count]]


def _half(values: Floats) -> float:
    """Returns half the range of a column, the unit of its error."""
    return float((values.max() / 2 - values.min() / 2)) or float(np.abs(values).max()) * 1e-12


@dataclass(frozen=True)
class TableCase(Case):
    """Statistics of a table."""

    columns: tuple[Column, ...]
    frame: str
    what: str
    """`summary`, `groups` or `histogram`."""
    bins: int
    by: Column | None
    way: str
    """`python`, `csv` or `parquet`."""
    must: bool

    def describe(self) -> str:
        lines = [f"table as {self.frame}, {self.what} by {self.way}, bins {self.bins}"]
        for item in (*self.columns, *([self.by] if self.by else [])):
            values = np.asarray(item.given).tolist()
            lines.append(f"{item.name!r}: {values[:24]}{'...' if len(values) > 24 else ''}  # {item.what}")
        return "\n".join(lines)

    def run(self, *, execute: bool) -> Verdict:
        close = Close([])
        found = attempt(lambda: self._found())
        if found.error is not None:
            must = "the table has nothing odd" if self.must else None
            return judge({"execute": found}, {}, must=must)
        check = {"summary": self._summary, "groups": self._groups, "histogram": self._histogram}
        checked = attempt(lambda: check[self.what](found.value, close))
        if checked.error is not None:
            if checked.refused:
                return Verdict("refused", type(checked.error).__name__, said(checked.error))
            return Verdict("finding", "foreign exception", said(checked.error))
        return close.verdict()

    def smaller(self) -> Iterator[Case]:
        if self.frame != "dict" and self.way == "python":
            yield replace(self, frame="dict")
        if len(self.columns) > 1:
            for i in range(len(self.columns)):
                yield replace(self, columns=self.columns[:i] + self.columns[i + 1 :])
        rows = len(self.columns[0].truth)
        for part in (slice(0, rows // 2), slice(rows // 2, rows)):
            if rows > 4:
                by = self.by.cut(part) if self.by else None
                yield replace(self, columns=tuple(c.cut(part) for c in self.columns), by=by)

    def _all(self) -> list[Column]:
        return [*self.columns, *([self.by] if self.by else [])]

    def _found(self) -> Any:
        if self.way != "python":
            return self._by_command()
        table = framed(self.frame, self._all())
        by = None if self.by is None else (f"x{len(self.columns)}" if self.frame == "array" else self.by.name)
        options: dict[str, Any] = {"by": by} if by is not None else {}
        if self.what == "histogram":
            options["bins"] = self.bins
        result = stats.run(table, self.what, **options)  # type: ignore[call-overload]
        names = [f"x{i}" for i in range(len(self.columns))] if self.frame == "array" else [c.name for c in self.columns]
        if list(result.columns) != names:
            raise AssertionError(f"columns {result.columns}, expected {names}")
        return result

    def _by_command(self) -> Any:
        """Returns the values of the command under Python's names."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            table = pd.DataFrame({c.name: c.given for c in self._all()})
            data = "t.csv" if self.way == "csv" else "t.parquet"
            if self.way == "csv":
                table.astype({c: int for c in table if table[c].dtype == bool}).to_csv(folder / data, index=False)
            else:
                pq.write_table(pa.Table.from_pandas(table), folder / data, row_group_size=7)
            shape = f"{len(table)}x{len(self.columns)}"
            job = {
                "summary": f"stats:{shape}",
                "groups": f"groups:{shape}x{len(_groups(self.by)) if self.by else 0}",
                "histogram": f"histogram:{shape}x{self.bins}",
            }[self.what]
            command("keygen", "--params", "auto", "--for", job, "--out", "k", folder=folder)
            by = ["--by", self.by.name] if self.by else []
            command(
                "encrypt", "--secret", "k/secret.key", "--data", data, *by, "-o", "t.ct", folder=folder
            )
            command("stats", "--evaluation-key", "k/evaluation.key", "-i", "t.ct", "-o", "r.ct", folder=folder)
            found = command("decrypt", "--secret", "k/secret.key", "-i", "r.ct", folder=folder)
            values = found["values"]
        return _Values(values)

    def _summary(self, found: Any, close: Close) -> None:
        x = np.column_stack([np.asarray(c.truth, dtype=np.float64) for c in self.columns])
        rows = len(x)
        half = np.array([_half(v) for v in x.T])
        close.near("mean", found.mean, x.mean(axis=0), ERROR * half + 1e-12 * np.abs(x).max(axis=0))
        if rows < 2:
            return
        # The mean of equal numbers is rounded, so that NumPy's own deviations of them are no zeros.
        alike = x.max(axis=0) == x.min(axis=0)
        centred = np.where(alike, 0.0, x - x.mean(axis=0)) / np.where(half > 0, half, 1.0)
        cov = centred.T @ centred / (rows - 1)
        unit = np.outer(half, half)
        allowed = 8 * ERROR * unit
        close.near("covariance", found.covariance, cov * unit, allowed, undefined=_unsure(cov))
        var = np.diag(cov)
        close.near("variance", found.variance, var * half**2, 8 * ERROR * half**2, undefined=_unsure(var))
        deviation = np.sqrt(np.diag(cov))
        off = np.sqrt(var + 8 * ERROR) - deviation
        close.near("std", found.std, deviation * half, off * half, undefined=_unsure(var))
        with np.errstate(all="ignore"):
            moment = [(centred**k).mean(axis=0) for k in range(5)]
            skew = moment[3] / moment[2] ** 1.5
            kurtosis = moment[4] / moment[2] ** 2 - 3
            small = np.sqrt(moment[2])
            skew_off = 32 * ERROR * (1 + np.abs(skew)) / small**3
            kurtosis_off = 64 * ERROR * (1 + np.abs(kurtosis)) / small**4
            constant = _unsure(var)
            vague = constant | (skew_off > 0.3)
            close.near("skewness", found.skewness, skew, np.where(vague, np.inf, skew_off), undefined=vague)
            vague = constant | (kurtosis_off > 0.3)
            close.near("kurtosis", found.kurtosis, kurtosis, np.where(vague, np.inf, kurtosis_off), undefined=vague)
            spread = np.outer(small, small)
            correlation = cov / np.outer(deviation, deviation)
            off = 32 * ERROR / spread**2
            vague2 = _unsure(np.minimum.outer(var, var)) | (off > 0.3)
            close.near("correlation", found.correlation, correlation, np.where(vague2, np.inf, off), undefined=vague2)
        if not isinstance(found, _Values):
            self._follows(found, x, half, close)

    def _follows(self, found: Any, x: Floats, half: Floats, close: Close) -> None:
        """Returns the figures that Python computes from decrypted moments."""
        rows = len(x)
        for i, c in enumerate(self.columns):
            name = f"x{i}" if self.frame == "array" else c.name
            weights = x[:, i]
            weighted = attempt(lambda name=name: found.weighted_mean(name))  # type: ignore[misc]
            if weighted.foreign:
                close.faults.append(f"weighted_mean: {said(weighted.error)}")
            elif weighted.error is None:
                total = weights.sum()
                expected = (x * weights[:, None]).sum(axis=0) / total if total else np.full(x.shape[1], np.nan)
                reach = np.abs(x).max(axis=0)
                factor = np.abs(weights).max() * rows / max(abs(total), 1e-300)
                off = 32 * ERROR * factor * (half + reach * min(1.0, half[i] / max(np.abs(weights).max(), 1e-300)))
                sure = factor * ERROR < 1e-2
                if not sure and factor * ERROR > 1:
                    close.faults.append(
                        f"weighted_mean by {c.name!r}: the weights sum to {total:.3g}, which errors hide, "
                        f"and {np.asarray(weighted.value).tolist()} is found"
                    )
                elif sure:
                    close.near(f"weighted_mean by {c.name!r}", weighted.value, expected, off + 1e-9 * reach)
        if x.shape[1] >= 2 and rows > 4:
            self._test(found, x, half, close)

    def _test(self, found: Any, x: Floats, half: Floats, close: Close) -> None:
        names = [f"x{i}" for i in range(2)] if self.frame == "array" else [c.name for c in self.columns[:2]]
        test = attempt(lambda: found.t_test(*names))
        if test.foreign:
            close.faults.append(f"t_test: {said(test.error)}")
        if test.error is not None or test.value is None:
            return
        with np.errstate(all="ignore"):
            expected = scipy.stats.ttest_ind(x[:, 0], x[:, 1], equal_var=False)
            squares = x[:, :2].var(axis=0, ddof=1)
            sure = squares.sum() > 2.0**7 * ERROR * (half[:2] ** 2).sum()
            off = 32 * ERROR * (half[:2] ** 2).sum() / squares.sum() * (1 + abs(expected.statistic))
            off += 4 * ERROR * half[:2].sum() / np.sqrt(squares.sum() / len(x))
        if sure and np.isfinite(expected.statistic):
            close.near("t", test.value.t, expected.statistic, off)
            close.near("p", test.value.p_value, expected.pvalue, min(1.0, off))

    def _groups(self, found: Any, close: Close) -> None:
        assert self.by is not None
        labels, places = _coded(self.by)
        count = np.bincount(places, minlength=len(labels))
        got = np.asarray(found.count)
        if got.tolist() != count.tolist():
            close.faults.append(f"count {got.tolist()}, expected {count.tolist()} for groups {labels}")
            return
        shown = np.asarray(found.labels)
        same = [_label(a) == _label(b) for a, b in zip(shown.tolist(), labels, strict=True)]
        if not all(same):
            close.faults.append(f"labels {shown.tolist()}, expected {labels}")
        if any(str(_label(a)).startswith("-0") and float(a) == 0 for a in shown.tolist()):
            close.faults.append(f"labels {shown.tolist()} show -0")
        x = np.column_stack([np.asarray(c.truth, dtype=np.float64) for c in self.columns])
        half = np.array([_half(v) for v in x.T])
        rows = len(x)
        parts = [x[places == g] for g in range(len(labels))]
        with np.errstate(all="ignore"):
            factor = (rows / count)[:, None]
            mean = np.array([part.mean(axis=0) for part in parts])
            near = 1e-12 * np.abs(x).max(axis=0)
            close.near("mean", found.mean, mean, 4 * ERROR * factor * half + near)
            total = np.array([part.sum(axis=0) for part in parts])
            close.near("sum", found.sum, total, 4 * ERROR * rows * half + rows * near)
            var = np.array([part.var(axis=0, ddof=1) if len(part) > 1 else part[0] * np.nan for part in parts])
            unit = half**2
            off = 16 * ERROR * factor * unit + 0 * var
            unsure = ~(var > 64 * off)
            # A variance below its error is missing, or within the error of the right one.
            close.near("variance", found.variance, var, off, undefined=unsure)
            deviation = np.sqrt(var)
            close.near("std", getattr(found, "std", np.sqrt(np.asarray(found.variance, dtype=float))), deviation, np.sqrt(var + off) - deviation + 1e-12, undefined=unsure)
        if isinstance(found, _Values) or len(labels) < 2:
            return
        test = attempt(lambda: found.t_test(found.labels[0], found.labels[1]))
        if test.foreign:
            close.faults.append(f"t_test: {said(test.error)}")
        if test.error is not None:
            return
        for j, item in enumerate(test.value.values()):
            self._group_test(item, parts[0][:, j], parts[1][:, j], off[:2, j], close)

    def _group_test(self, item: Any, a: Floats, b: Floats, off: Any, close: Close) -> None:
        if item is None or min(len(a), len(b)) < 2:
            return
        with np.errstate(all="ignore"):
            expected = scipy.stats.ttest_ind(a, b, equal_var=False)
            square = a.var(ddof=1) / len(a) + b.var(ddof=1) / len(b)
            part = float((off[0] / len(a) + off[1] / len(b)) / square) if square > 0 else np.inf
        far = abs(item.p_value - expected.pvalue) > 0.02
        if not np.isfinite(part) or part > 0.5:
            # Keys may be more precise than stated, so the test may succeed.
            if far:
                close.faults.append(
                    f"t_test: t {item.t:.4g}, p {item.p_value:.3g} where errors hide the variances; "
                    f"expected t {expected.statistic:.4g}, p {expected.pvalue:.3g}, or none"
                )
        elif part < 0.02:
            close.near("t", item.t, expected.statistic, part * (1 + 2 * abs(expected.statistic)) + 1e-3 * (1 + abs(expected.statistic)))
            close.near("p", item.p_value, expected.pvalue, 0.02 + 4 * part)

    def _histogram(self, found: Any, close: Close) -> None:
        for j, c in enumerate(self.columns):
            x = np.asarray(c.truth, dtype=np.float64)
            with np.errstate(all="ignore"):
                low, high = float(x.min()), float(x.max())
                edges = low + (high / self.bins - low / self.bins) * np.arange(self.bins + 1)
                got = np.asarray(found.edges[j], dtype=np.float64)
                reach = max(abs(low), abs(high))
            if low == high:
                continue
            if (x == np.round(x)).all():
                # Bins of whole numbers may end between them.
                wide = low - 1 <= got[0] <= low and high <= got[-1] <= high + self.bins
                even = np.allclose(np.diff(got), got[1] - got[0])
                if wide and even:
                    edges, low = got, float(got[0])
            close.near(f"edges of {c.name!r}", got, edges, 1e-9 * reach)
            width = edges[1] - edges[0]
            if width < 1e-9 * reach:
                continue
            count = np.histogram(x, bins=edges[:-1].tolist() + [np.inf])[0]
            place = (x - low) / width
            doubtful = np.abs(place - np.round(place)) < 0.126
            inner = doubtful & (np.round(place) > 0) & (np.round(place) < self.bins)
            slack = np.zeros(self.bins)
            for edge in np.round(place[inner]).astype(int):
                slack[edge] += 1
                slack[edge - 1] += 1
            close.near(f"counts of {c.name!r}", found.counts[j], count, slack + 0.6)
            if isinstance(found, _Values):
                continue
            wanted = [0.1, 0.5, 0.9]
            quantiles = np.asarray(found.quantile(wanted))[:, j]
            near = np.quantile(x, wanted, method="inverted_cdf")
            after = np.quantile(x, wanted, method="higher")
            gap = np.abs(after - near)
            sparse = len(x) < 20
            if not sparse:
                close.near(f"quantiles of {c.name!r}", quantiles, near, 2 * width + gap)


class _Values:
    """Renames results of the command as in Python."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def __getattr__(self, name: str) -> Any:
        values = self._values
        if name == "std":
            name = "std_dev"
        if name in ("edges", "counts"):
            return [part[name] for part in values["histograms"]]
        if name == "labels":
            return np.array(values["labels"])
        found = values[name] if name in values else None
        if name == "std_dev" and found is None:
            found = np.sqrt(np.array(values["variance"], dtype=np.float64)).tolist()
        return np.array(found, dtype=np.float64)


def _unsure(variance: Any) -> Any:
    """Returns the places where a variance may be 0, as a part of half the range squared."""
    return ~(np.asarray(variance) > 2.0**7 * ERROR)


def _groups(by: Column) -> list[Any]:
    return _coded(by)[0]


def _coded(by: Column) -> tuple[list[Any], npt.NDArray[np.int64]]:
    """Returns the distinct keys in order, and each row's place among them, compared exactly."""
    keys = [_label(key) for key in np.asarray(by.truth).tolist()]
    labels = sorted(set(keys), key=lambda key: (isinstance(key, str), key))
    return labels, np.array([labels.index(key) for key in keys])


def _label(key: Any) -> Any:
    """Normalises a key: -0 becomes 0, and 3.0 becomes 3. Integers stay exact."""
    if isinstance(key, (bool, np.bool_)):
        return int(key)
    if isinstance(key, str):
        try:
            return int(key)
        except ValueError:
            return key
    if isinstance(key, float) and key == int(key):
        return int(key)
    return key


def _key(rng: Rng, rows: int) -> Column:
    """Draws a column whose values define groups."""
    count = int(rng.integers(1, 6))
    places = rng.integers(0, count, rows)
    places[:count] = np.arange(count)[:rows]
    kind = int(rng.integers(0, 9))
    if kind == 0:
        values: Any = np.array([-0.0, 0.0, 1.0, 2.0, -1.0])[places]
    elif kind == 1:
        values = 95820843523155097 + places
    elif kind == 2:
        values = (places % 2).astype(bool)
    elif kind == 3:
        values = places.astype(np.float64) + 0.5
    elif kind == 4:
        values = np.round(rng.uniform(-1, 1, count), 0)[places]
    elif kind == 5:
        values = (2**53 + places).astype(np.uint64)
    elif kind == 6:
        values = np.array([1e-300, -1e300, 0.1, 0.1 + 2**-55, 7.0])[places]
    else:
        values = places - 2
    return Column("key", values, values, f"key {kind} of {values.dtype}")


def draw(rng: Rng) -> Case:
    """Statistics of a table."""
    rows = int(rng.choice([1, 2, 3, 5, 8, 12, 30, 60, 200], p=[0.03, 0.05, 0.07, 0.1, 0.1, 0.15, 0.2, 0.2, 0.1]))
    columns = [column(rng, name, rows) for name in _names(rng, int(rng.integers(1, 5)))]
    if len(columns) > 1 and rng.random() < 0.2:
        # Nearly dependent columns.
        first = np.asarray(columns[0].truth, dtype=np.float64)
        twin = first * 2 + rng.normal(0, 1e-3, rows) * (np.abs(first).max() or 1)
        columns[1] = Column(columns[1].name, twin, twin, "nearly twice the first")
    what = str(rng.choice(["summary", "summary", "groups", "groups", "histogram"]))
    by = _key(rng, rows) if what == "groups" else None
    if by is not None and rng.random() < 0.4 and rows > 8:
        # One group with much larger values than the others.
        large = np.asarray(columns[0].truth, dtype=np.float64).copy()
        place = np.asarray(by.truth) == np.asarray(by.truth)[-1]
        large[place] *= 10.0 ** rng.integers(1, 6)
        columns[0] = Column(columns[0].name, large, large, "with an outlying group")
    way = str(rng.choice(["python", "csv", "parquet"], p=[0.9, 0.05, 0.05]))
    frame = str(rng.choice(FRAMES))
    bins = int(rng.choice([2, 3, 5, 10, 16]))
    exact = by is None or by.what.split()[1] in "023478"
    must = rows > 2 and exact and not (frame == "array" and by is not None)
    must = must and all(np.ptp(np.asarray(c.truth, dtype=float)) > 0 for c in columns)
    return TableCase(tuple(columns), frame, what, bins, by, way, must)


# Tables as text.


@dataclass(frozen=True)
class TextCase(Case):
    """A table of text or Parquet that `sudare predict` reads: scores are sums of the columns."""

    columns: tuple[tuple[str, tuple[str, ...], tuple[float, ...] | None], ...]
    """Name, cells and the numbers that a careful reader sees; `None` where there is more than one
    way to read them, or none."""
    separator: str
    ends: str
    quoted: bool
    mark: str
    encoding: str
    options: tuple[str, ...]

    def describe(self) -> str:
        return f"{self._text()!r} in {self.encoding}, sudare predict {' '.join(self.options)}"

    def _text(self) -> str:
        def cell(text: str) -> str:
            quote = self.quoted or self.separator in text or '"' in text
            return '"' + text.replace('"', '""') + '"' if quote else text

        names = [name for name, _, _ in self.columns]
        rows = zip(*(cells for _, cells, _ in self.columns), strict=True)
        lines = [self.separator.join(map(cell, row)) for row in [names, *rows]]
        return self.mark + self.ends.join([*lines, ""])

    def run(self, *, execute: bool) -> Verdict:
        truths = [truth for _, _, truth in self.columns]
        outcome = attempt(lambda: self._scores())
        if any(truth is None for truth in truths):
            return judge({"command": outcome}, None)
        expected = np.sum(np.array(truths, dtype=np.float64), axis=0)
        size = np.abs(np.array(truths, dtype=np.float64)).max()
        if outcome.error is not None:
            return judge({"command": outcome}, {})
        close = Close([])
        close.near("scores", outcome.value, expected, 1e-12 * size)
        return close.verdict()

    def _scores(self) -> Any:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "t.csv").write_bytes(self._text().encode(self.encoding))
            (folder / "m.json").write_text(json.dumps(model([name for name, _, _ in self.columns])))
            line = ["predict", "--model", "m.json", "--data", "t.csv", *self.options]
            return command(*line, folder=folder)["scores"]

    def smaller(self) -> Iterator[Case]:
        if len(self.columns) > 1:
            for i in range(len(self.columns)):
                yield replace(self, columns=self.columns[:i] + self.columns[i + 1 :])
        if self.quoted:
            yield replace(self, quoted=False)


def model(names: list[str]) -> dict[str, Any]:
    """The file of a model whose scores are the sums of the columns."""
    return {
        "kind": "logistic regression",
        "weights": [0.0] + [1.0] * len(names),
        "columns": names,
        "target": "target of none",
        "divisors": [1.0] * len(names),
        "iterations": 1,
        "rows": 1,
    }


def _cells(rng: Rng, rows: int, kind: str, comma: bool) -> tuple[list[str], list[float] | None]:
    """Draws the cells of a column, with their numbers if these are unambiguous."""
    values = np.round(rng.uniform(-900, 900, rows), int(rng.integers(1, 5)))
    mark = "," if comma else "."
    if kind == "whole":
        found = [int(v) for v in values]
        return [str(v) for v in found], [float(v) for v in found]
    if kind == "exponent":
        texts = [f"{v:.5e}" for v in values]
        return [text.replace(".", mark) for text in texts], [float(text) for text in texts]
    if kind == "zeros":
        texts = [str(rng.choice(["-0", "0", "-0.0", "+0", "0.00", "1"])) for _ in range(rows)]
        return [text.replace(".", mark) for text in texts], [float(text) + 0.0 for text in texts]
    if kind == "thousands":
        # Exactly three digits follow each mark: thousands, or thousandths.
        texts = [f"{int(rng.integers(1, 999))}{mark}{int(rng.integers(0, 999)):03d}" for _ in range(rows)]
        return texts, None
    if kind == "grouped":
        # Two marks, which are unambiguous, or too many.
        texts = [f"{int(rng.integers(1, 9))}{mark}{int(rng.integers(0, 999)):03d}{mark}{int(rng.integers(0, 999)):03d}" for _ in range(rows)]
        return texts, None
    if kind == "words":
        word = str(rng.choice(["NA", "nan", "None", "null", "-", "?", "", "inf", "1e999", "0x10", "1_000", "١", "½", "1 2", "#N/A", "TRUE", "12%", "€5"]))
        texts = [f"{v:.3f}".replace(".", mark) for v in values]
        texts[int(rng.integers(rows))] = word
        return texts, None
    texts = [f"{v:.4f}" for v in values]
    # Four digits after a mark cannot be thousands.
    return [text.replace(".", mark) for text in texts], [float(text) for text in texts]


def draw_text(rng: Rng) -> Case:
    """A table of text."""
    separator = str(rng.choice([",", ";", "\t", "|"]))
    comma = separator != "," and rng.random() < 0.4 or rng.random() < 0.05
    rows = int(rng.integers(1, 6))
    columns: list[tuple[str, tuple[str, ...], tuple[float, ...] | None]] = []
    for name in _names(rng, int(rng.integers(1, 4))):
        kind = str(rng.choice(["plain", "whole", "exponent", "zeros", "thousands", "grouped", "words"], p=[0.35, 0.2, 0.1, 0.1, 0.1, 0.05, 0.1]))
        if kind in ("thousands", "grouped") and separator == "," and not comma and kind == "thousands":
            # Between commas, a point is a decimal point.
            cells = [f"{int(rng.integers(1, 99))}.{int(rng.integers(0, 999)):03d}" for _ in range(rows)]
            columns.append((name, tuple(cells), tuple(float(cell) for cell in cells)))
            continue
        found, truth = _cells(rng, rows, kind, comma)
        columns.append((name, tuple(found), None if truth is None else tuple(truth)))
    # The marks of one column explain the marks of another.
    said = any("," in cell or "." in cell for _, cells, truth in columns if truth is not None for cell in cells)
    options: tuple[str, ...] = ()
    if rng.random() < 0.2:
        options = ("--delimiter", separator)
    if rng.random() < 0.2:
        options += ("--decimal", "," if comma else ".")
    if ("--decimal" in options or said) and separator != ",":
        mark = "," if comma else "."
        columns = [
            (name, cells, tuple(float(cell.replace(mark, ".")) for cell in cells) if truth is None and _thousands(cells, mark) else truth)
            for name, cells, truth in columns
        ]
    return TextCase(
        tuple(columns),
        separator,
        str(rng.choice(["\n", "\r\n"])),
        bool(rng.random() < 0.3),
        str(rng.choice(["", "", "\ufeff"])),
        "utf-8",
        options,
    )


def _thousands(cells: tuple[str, ...], mark: str) -> bool:
    """Returns whether all cells have one mark followed by three digits."""
    return all(cell.count(mark) == 1 and len(cell.rpartition(mark)[2]) == 3 for cell in cells)


# Parquet.


@dataclass(frozen=True)
class ParquetCase(Case):
    """A table of Parquet with columns of any type."""

    table: Any
    truths: tuple[Floats | None, ...]
    kinds: tuple[str, ...]
    options: tuple[tuple[str, Any], ...]

    def describe(self) -> str:
        return f"{self.table.to_pydict()} of {self.kinds}, written with {dict(self.options)}"

    def run(self, *, execute: bool) -> Verdict:
        outcome = attempt(self._scores)
        if any(truth is None for truth in self.truths):
            return judge({"command": outcome}, None)
        found: list[Any] = [truth for truth in self.truths if truth is not None]
        if outcome.error is not None:
            must = "plain numbers can be read" if not set(self.kinds) & ODD else None
            return judge({"command": outcome}, {}, must=must)
        close = Close([])
        close.near("scores", outcome.value, np.sum(found, axis=0), 1e-12 * np.abs(found).max())
        return close.verdict()

    def _scores(self) -> Any:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            pq.write_table(self.table, folder / "t.parquet", **dict(self.options))
            (folder / "m.json").write_text(json.dumps(model(self.table.column_names)))
            return command("predict", "--model", "m.json", "--data", "t.parquet", folder=folder)["scores"]


ODD = {"decimal", "text", "date", "duration", "time", "gap", "float16", "dictionary", "nan", "list", "timestamp"}


def draw_parquet(rng: Rng) -> Case:
    """A table of Parquet."""
    rows = int(rng.integers(1, 30))
    makers: dict[str, Callable[[], tuple[Any, Any]]] = {
        "int8": lambda: _arrow(rng.integers(-128, 128, rows), pa.int8()),
        "uint8": lambda: _arrow(rng.integers(0, 256, rows), pa.uint8()),
        "int16": lambda: _arrow(rng.integers(-(2**15), 2**15, rows), pa.int16()),
        "uint32": lambda: _arrow(rng.integers(0, 2**32, rows), pa.uint32()),
        "int64": lambda: _arrow(rng.integers(-(2**52), 2**52, rows), pa.int64()),
        "uint64": lambda: _arrow(rng.integers(0, 2**53, rows), pa.uint64()),
        "bool": lambda: _arrow(rng.random(rows) < 0.5, pa.bool_()),
        "float32": lambda: _arrow(rng.normal(size=rows).astype(np.float32), pa.float32()),
        "float64": lambda: _arrow(rng.normal(size=rows), pa.float64()),
        "float16": lambda: _arrow(rng.normal(size=rows).astype(np.float16), pa.float16()),
        "decimal": lambda: _decimals(rng, rows),
        "text": lambda: (pa.array([f"w{i}" for i in range(rows)]), None),
        "date": lambda: _days(rng.integers(0, 20000, rows).astype(np.int32), pa.date32(), 1.0),
        "time": lambda: (pa.array(rng.integers(0, 80000, rows).astype(np.int32)).cast(pa.time32("s")), None),
        "timestamp": lambda: _days(rng.integers(0, 10**9, rows), pa.timestamp("ms"), 86_400_000.0),
        "duration": lambda: (pa.array(rng.integers(0, 10**6, rows)).cast(pa.duration("ms")), None),
        "gap": lambda: (pa.array([None, *rng.normal(size=rows - 1).tolist()], type=pa.float64()), None),
        "nan": lambda: (pa.array([np.nan, *rng.normal(size=rows - 1).tolist()]), None),
        "dictionary": lambda: _dictionary(rng, rows),
        "list": lambda: (pa.array([[1.0]] * rows), None),
    }
    kinds = [str(k) for k in rng.choice(list(makers), int(rng.integers(1, 4)))]
    made = [makers[kind]() for kind in kinds]
    table = pa.table([array for array, _ in made], names=_names(rng, len(kinds)))
    options = {
        "compression": str(rng.choice(["none", "snappy", "gzip", "zstd", "lz4"])),
        "row_group_size": int(rng.integers(1, 40)),
        "use_dictionary": bool(rng.integers(0, 2)),
        "data_page_version": str(rng.choice(["1.0", "2.0"])),
    }
    return ParquetCase(table, tuple(truth for _, truth in made), tuple(kinds), tuple(options.items()))


def _arrow(values: Any, kind: Any) -> tuple[Any, Floats]:
    return pa.array(values, type=kind), np.asarray(values).astype(np.float64)


def _days(values: Any, kind: Any, units: float) -> tuple[Any, Floats]:
    """Draws dates with this number of units a day, and their days since 1970."""
    return pa.array(values).cast(kind), values / units


def _decimals(rng: Rng, rows: int) -> tuple[Any, Floats]:
    from decimal import Decimal

    values = [Decimal(int(v)) / 100 for v in rng.integers(-(10**6), 10**6, rows)]
    return pa.array(values, type=pa.decimal128(12, 2)), np.array([float(v) for v in values])


def _dictionary(rng: Rng, rows: int) -> tuple[Any, Floats]:
    values = np.round(rng.normal(size=4), 2)[rng.integers(0, 4, rows)]
    return pa.array(values).dictionary_encode(), values


GENERATORS = [
    Generator(
        "statistics",
        draw,
        (
            "negative zeros and large integers that name groups",
            "variances below their error",
            "weights whose sum is below its error",
            "types, orders and containers of operands",
            "errors of other packages",
        ),
        share=0.5,
    ),
    Generator(
        "text tables",
        draw_text,
        ("marks of thousands", "words for missing values"),
        share=0.15,
    ),
    Generator("parquet tables", draw_parquet, ("types that are no numbers",), share=0.15),
]
