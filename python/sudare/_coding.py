"""Coding of tables with categories, dates, truth values and gaps as numbers.

Native code fits an encoding, which is JSON, to the table of the owner. It stays with the plan or the model,
so that later rows are coded in the same way.
"""

from __future__ import annotations

import datetime
import difflib
import json
import numbers
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from sudare import _native, errors
from sudare._frames import expect_numbers, is_missing, names_of, narwhals_for, opened
from sudare._plain import Floats, choice, encodable, items, mapping, optional, shown, string, whole

# Two literals, since stubtest takes one literal of several words for a union that it misses at runtime.
Missing: TypeAlias = Literal["refuse", "drop"] | Literal["mean", "median", "most_frequent", "flag"]
"""Treatments of missing values."""

MissingRules: TypeAlias = Missing | Mapping[str, Missing]
"""A treatment of missing values for all columns, or one for each column by its name. The name `"*"` stands for
all other columns."""

DateParts: TypeAlias = Mapping[str, Sequence[Literal["days", "year", "month"] | Literal["day", "weekday", "hour"]]]
"""Parts of dates that take the place of columns, by their names."""

_MISSING = ("refuse", "mean", "median", "most_frequent", "drop", "flag")

_DATE_PARTS = ("days", "year", "month", "day", "weekday", "hour")

_Text = list[str | None]

_FIRST_INEXACT = 2.0**53
"""The first whole number whose successor is rounded to it."""

_NUMBERS = (numbers.Real, Decimal, np.bool_)
"""Types of numbers and truth values. `Decimal` and `bool_` are not registered as `Real`."""


@dataclass(frozen=True)
class Rules:
    """The rules by which columns become numbers."""

    columns: Sequence[str] | None = None
    drop: Sequence[str] | None = None
    missing: MissingRules = "refuse"
    """After construction, the treatment of columns without one of their own."""
    unseen: str = "refuse"
    rare: int | None = None
    dates: DateParts | None = None
    missing_of: Mapping[str, str] = field(init=False, default_factory=dict)
    """Treatments of single columns."""

    def __post_init__(self) -> None:
        for name in ("columns", "drop"):
            found = optional(items, getattr(self, name), name, "names of columns")
            for column in found or ():
                string(column, f"the name of a column in {name}")
            object.__setattr__(self, name, found)
        rules: dict[str, str] = {}
        if isinstance(self.missing, Mapping):
            for column, rule in self.missing.items():
                string(column, "the name of a column in missing")
                rules[column] = choice(rule, f"missing[{column!r}]", _MISSING)
        else:
            rules["*"] = choice(self.missing, "missing", _MISSING)
        object.__setattr__(self, "missing", rules.pop("*", "refuse"))
        object.__setattr__(self, "missing_of", rules)
        dates: dict[str, list[str]] = {}
        if self.dates is not None:
            for column, parts in mapping(self.dates, "dates", "parts of dates by column").items():
                string(column, "the name of a column in dates")
                what = f"dates[{column!r}]"
                dates[column] = [
                    choice(part, f"a part of {what}", _DATE_PARTS)
                    for part in items(parts, what, "parts of dates, such as ['year', 'month']")
                ]
        object.__setattr__(self, "dates", dates)
        choice(self.unseen, "unseen", ("refuse", "zero"))
        object.__setattr__(self, "rare", optional(whole, self.rare, "rare", 2))

    def is_default(self) -> bool:
        """Tells whether all columns are used as they are, and none may lack values."""
        plain = (self.columns, self.drop, self.missing, self.rare) == (None, None, "refuse", None)
        return plain and not self.missing_of and not self.dates

    def grouped(self, by: str, names: Sequence[str]) -> Rules:
        """Returns the rules for a table of the columns `names` and `by`, which is coded without `by`. The
        treatment of columns without one of their own becomes the one of `by`, which the encoding keeps."""
        rules = {
            name: self.missing_of.get(name, str(self.missing))
            for name in names
            if name != by and not self.skips(name)
        }
        rules |= {name: rule for name, rule in self.missing_of.items() if name != by}
        rules["*"] = self.missing_of.get(by, str(self.missing))
        # The values are those that were checked before.
        missing: Any = rules
        return Rules(self.columns, self.drop, missing, self.unseen, self.rare, self.dates)

    def skips(self, name: str) -> bool:
        """Returns whether a column is left out."""
        return name in (self.drop or ()) or (self.columns is not None and name not in self.columns)

    def native(self, categorical: Sequence[str]) -> _native.Rules:
        """Returns the rules for native code, for a table with these declared categories."""
        columns = None if self.columns is None else list(self.columns)
        return _native.Rules(
            missing={"*": str(self.missing), **self.missing_of},
            dates=self.dates or {},
            unseen=self.unseen,
            categorical=[name for name in categorical if not self.skips(name)],
            columns=columns,
            drop=list(self.drop or ()),
            rare=self.rare or 0,
        )


@dataclass(frozen=True)
class Cells:
    """A table before coding."""

    names: list[str]
    """Names of the columns."""
    numbers: Floats
    """Numbers of shape `(n_rows, n_columns)`; NaN where one is missing, and in columns of text."""
    texts: dict[int, _Text]
    """Values of columns of text, by place; `None` where one is missing."""
    declared: list[str] = field(default_factory=list)
    """Columns whose types say that they are categories."""

    def gaps(self, columns: Collection[str]) -> npt.NDArray[np.bool_]:
        """Marks rows that lack a value in one of these columns."""
        lacking = np.isnan(self.numbers)
        for place, text in self.texts.items():
            lacking[:, place] = [value is None for value in text]
        used = [name in columns for name in self.names]
        return np.asarray(lacking[:, used].any(axis=1))

    def complete(
        self, labels: npt.NDArray[Any], columns: Collection[str]
    ) -> tuple[Cells, npt.NDArray[Any]]:
        """Returns the rows that lack no value in these columns, and their labels."""
        kept = np.flatnonzero(~self.gaps(columns))
        if len(kept) == 0:
            raise errors.of_kind(
                "NoCompleteRow",
                f"each of {len(self.numbers)} rows lacks a value: fill gaps with missing='mean', or leave "
                "columns out"
            )
        texts = {at: [text[row] for row in kept] for at, text in self.texts.items()}
        return Cells(self.names, self.numbers[kept], texts, self.declared), labels[kept]

    def beside(self, name: str, text: Sequence[str | None]) -> Cells:
        """Returns the table with another column of text."""
        gaps = np.full((len(self.numbers), 1), np.nan)
        texts = {**self.texts, len(self.names): list[str | None](text)}
        numbers = np.hstack([self.numbers, gaps])
        return Cells([*self.names, name], numbers, texts, self.declared)

    def without(self, name: str) -> Cells:
        """Returns the table without one of its columns."""
        left = self.names.index(name)
        texts = {at - (at > left): text for at, text in self.texts.items() if at != left}
        names = [other for other in self.names if other != name]
        return Cells(names, np.delete(self.numbers, left, axis=1), texts, self.declared)

    def named(self, names: list[str]) -> Cells:
        """Returns the table with other names of columns."""
        return Cells(names, self.numbers, self.texts, self.declared)

    def fit(self, target: tuple[str, Sequence[str]] | None, rules: Rules) -> str:
        """Fits an encoding to this table, for a target of this name and classes."""
        return _native.fit_encoding(*self.native(), rules.native(self.declared), target=target)

    def encode(self, encoding: str) -> tuple[list[str], Floats]:
        """Returns the features of this table under an encoding, and their numbers."""
        return _native.encode(encoding, *self.native())

    def native(self) -> tuple[list[str], Floats, list[tuple[int, _Text]]]:
        """Returns the table for native code."""
        return self.names, self.numbers, list(self.texts.items())


def has_categories(X: object) -> bool:
    """Returns whether a frame has columns that are neither numbers nor truth values."""
    if not hasattr(X, "columns"):
        return False
    try:
        narwhals = narwhals_for(X)
    except errors.MissingDependencyError:
        if np.asarray(X).dtype.kind in "biuf":
            return False
        raise
    try:
        frame = opened(X)
    except errors.DtypeError:
        return False
    return not all(_is_numeric(narwhals, series) for series in frame.iter_columns())


def left_out(encoding: str, *, identifiers: bool = False) -> list[str]:
    """Returns the columns that an encoding leaves out, or only the ones that identify rows."""
    found = []
    for column in json.loads(encoding)["inputs"]:
        code = column["code"]
        if "left_out" in code and (not identifiers or code["left_out"]["reason"] == "identifier"):
            found.append(column["name"])
    return found


def codes(encoding: Mapping[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    """Returns the columns of an encoding, the treatment of their missing values, and their codes. Parts of a
    column of dates are columns."""
    found = []
    for column in encoding["inputs"]:
        name, code = column["name"], column["code"]
        if "split" in code:
            for part in code["split"]["parts"]:
                found.append((f"{name} {part['part']}", part["missing"], part["code"]))
        elif "ruled" in code:
            found.append((name, code["ruled"]["missing"], code["ruled"]["code"]))
        else:
            found.append((name, encoding["missing"], code))
    return found


def dropping(encoding: str) -> list[str]:
    """Returns the columns whose missing values an encoding drops, with their rows."""
    parts = json.loads(encoding)
    found = []
    for column in parts["inputs"]:
        of_column = codes({**parts, "inputs": [column]})
        if any(rule == "drop" and "left_out" not in code for _, rule, code in of_column):
            found.append(column["name"])
    return found


def is_plain(encoding: str) -> bool:
    """Returns whether an encoding changes nothing: all columns are numbers, and none may be missing."""
    parts = json.loads(encoding)
    numbers_alone = all("number" in column["code"] for column in parts["inputs"])
    return numbers_alone and parts["missing"] == "refuse"


def warn_of_identifiers(encoding: str, calls: int) -> None:
    """Warns of columns that were left out because they identify rows."""
    warn_of_left_out(left_out(encoding, identifiers=True), calls + 1)


def warn_of_left_out(found: list[str], calls: int) -> None:
    """Warns of columns that were left out because they identify rows, if any are `found`."""
    if found:
        warnings.warn(
            f"left out {', '.join(map(repr, found))}, because the values identify rows: name the columns to use "
            f"with columns=[...] to use it, or leave it out with drop={found!r}",
            errors.IdentifierWarning,
            stacklevel=calls + 1,
        )


def read(X: Any, skips: Collection[str] = (), rules: Rules | None = None) -> Cells:
    """Reads the cells of a frame or a dictionary of columns, or of an array of numbers, whose columns are
    named x0, x1, ... Columns in `skips`, and columns that `rules` leave out, are not read."""
    if isinstance(X, Mapping):
        X = _Dictionary(X)
    if not hasattr(X, "columns"):
        found = _array(X)
        return Cells([f"x{i}" for i in range(found.shape[1])], found, {})
    if isinstance(X, _Dictionary):
        return X.cells(skips, rules)
    narwhals, frame = narwhals_for(X), opened(X)
    columns: list[Floats] = []
    texts: dict[int, _Text] = {}
    declared: list[str] = []
    for place, series in enumerate(frame.iter_columns()):
        if series.name in skips or (rules is not None and rules.skips(series.name)):
            columns.append(np.full(len(frame), np.nan))
        elif _is_numeric(narwhals, series):
            values = [np.nan if value is None else value for value in _values(series)]
            columns.append(_numbers(series.name, values))
        else:
            texts[place] = [_text(narwhals, series, value) for value in _values(series)]
            columns.append(np.full(len(texts[place]), np.nan))
            if series.dtype in (narwhals.Categorical, narwhals.Enum):
                declared.append(series.name)
    if not columns or not len(columns[0]):
        raise errors.ShapeError(
            f"X has {len(frame)} rows and {len(columns)} columns: pass at least one of each"
        )
    return Cells(_names(frame.columns), np.column_stack(columns), texts, declared)


class _Dictionary:
    """A dictionary of columns."""

    def __init__(self, columns: Mapping[Any, Any]) -> None:
        self.columns = list(columns)
        self._values = list(columns.values())

    def cells(self, skips: Collection[str], rules: Rules | None) -> Cells:
        """Reads the cells."""
        if not any(isinstance(name, str) for name in self.columns):
            raise errors.of_kind("UnnamedColumn", f"columns are named {self.columns!r}: name them by text")
        names = _names(self.columns)
        columns: list[Floats] = []
        texts: dict[int, _Text] = {}
        for place, (name, given) in enumerate(zip(names, self._values, strict=True)):
            plain = given.tolist() if hasattr(given, "tolist") else given
            values = items(plain, f"column {name!r}", "a value for each row")
            if isinstance(given, np.ndarray) and given.dtype.kind == "M":
                values = given.astype("datetime64[us]").tolist()
            gaps = [is_missing(value) for value in values]
            known = [value for value, gap in zip(values, gaps, strict=True) if not gap]
            if name in skips or (rules is not None and rules.skips(name)):
                columns.append(np.full(len(values), np.nan))
            elif all(isinstance(value, _NUMBERS) for value in known):
                numbers = [np.nan if gap else value for value, gap in zip(values, gaps, strict=True)]
                columns.append(_numbers(name, numbers))
            else:
                texts[place] = [
                    None if gap else _object_text(name, value) for value, gap in zip(values, gaps, strict=True)
                ]
                columns.append(np.full(len(values), np.nan))
        lengths = {name: len(values) for name, values in zip(names, columns, strict=True)}
        if len(set(lengths.values())) != 1 or 0 in lengths.values():
            raise errors.ShapeError(
                f"columns have the numbers of values {lengths}: pass columns of equal length, with values"
            )
        return Cells(names, np.column_stack(columns), texts)


def _numbers(name: str, values: list[Any]) -> Floats:
    """Returns the numbers of a column."""
    try:
        return np.array(values, dtype=np.float64)
    except OverflowError:
        raise errors.OutsideRangeError(
            f"column {name!r} holds an integer beyond the range of floats: leave it out, or divide it"
        ) from None


def _names(names: Sequence[object]) -> list[str]:
    """Returns the names of columns, or x0, x1, ... if none of them is text."""
    texts = [name for name in names if isinstance(name, str)]
    if not texts:
        return [f"x{i}" for i in range(len(names))]
    if len(texts) < len(names):
        other = next(name for name in names if not isinstance(name, str))
        raise errors.of_kind(
            "UnnamedColumn",
            f"a column is named {shown(other)}, but others have names of text: give all columns names of text"
        )
    return [encodable(name, "the name of a column") for name in texts]


def classes_of(
    labels: npt.NDArray[Any],
) -> tuple[npt.NDArray[Any], list[str], npt.NDArray[np.intp]]:
    """Returns the classes in order, their names as text, and the place of each label among them."""
    if labels.dtype.kind not in "biufOUT":
        raise errors.DtypeError(
            f"labels have the type {labels.dtype}: pass whole numbers, truth values or text"
        )
    try:
        classes, members = np.unique(labels, return_inverse=True)
    # Objects of a column may not compare, or not to one truth value.
    except (TypeError, ValueError) as error:
        raise errors.DtypeError(f"labels have different types ({error}): pass labels of one type") from None
    other = [label for label in classes.tolist() if not isinstance(label, (str, *_NUMBERS))]
    if other:
        raise errors.DtypeError(
            f"label {shown(other[0])} has the type {type(other[0]).__name__}: pass whole numbers, truth values or "
            "text"
        )
    texts = [text_of(label) for label in classes.tolist()]
    if len(set(texts)) < len(texts):
        raise errors.ArgumentError(
            f"different classes have the same name, among {', '.join(texts)}: rename them"
        )
    return classes, texts, members.ravel()


def are_text(classes: npt.NDArray[Any]) -> bool:
    """Returns whether classes are text, even if they look like numbers."""
    return all(isinstance(label, str) for label in classes.tolist())


def text_of(value: object) -> str:
    """Returns the name of a label or a category: text unchanged, truth values as 0 and 1, and numbers as
    the shortest text that reads as the same number."""
    if isinstance(value, (bool, np.bool_)):
        return str(int(value))
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, (*_NUMBERS, np.floating)):
        # Adding 0 turns -0 into 0, which is the same category.
        return np.format_float_positional(float(value) + 0.0, trim="-")
    return encodable(str(value), "a label or a category")


def _array(X: object) -> Floats:
    expect_numbers(X)
    try:
        found = np.asarray(X, dtype=np.float64)
    except errors.Error:
        raise
    except (AttributeError, OverflowError, RuntimeError, TypeError, ValueError) as error:
        raise errors.DtypeError(
            f"{error}: pass numbers, or a data frame, whose columns may be categories"
        ) from None
    if found.ndim != 2:
        raise errors.ShapeError(
            f"X has {found.ndim} axes instead of 2: pass a row for each sample and a column for each feature"
        )
    return found


def _is_numeric(narwhals: Any, series: Any) -> bool:
    if series.dtype == narwhals.Object:
        return all(isinstance(value, _NUMBERS) for value in series.drop_nulls())
    if series.dtype == narwhals.Unknown:
        # Half precision, and sparse columns of pandas.
        native = series.to_native()
        kind = getattr(getattr(native, "dtype", None), "kind", "")
        return kind in tuple("biuf") or str(getattr(native, "type", "")) == "halffloat"
    return bool(series.dtype.is_numeric() or series.dtype == narwhals.Boolean)


def _values(series: Any) -> list[Any]:
    """Returns the values of a column, with `None` where one is missing."""
    missing = series.is_null().to_list()
    return [None if gap else value for gap, value in zip(missing, series.to_list(), strict=True)]


def _text(narwhals: Any, series: Any, value: object) -> str | None:
    kinds = (
        narwhals.String,
        narwhals.Categorical,
        narwhals.Enum,
        narwhals.Object,
        narwhals.Date,
        narwhals.Datetime,
    )
    if not any(series.dtype == kind for kind in kinds):
        raise errors.DtypeError(
            f"column {series.name!r} has the type {series.dtype}, but numbers, truth values, dates or "
            f"categories are needed: leave it out with drop=[{series.name!r}], or convert its values"
        )
    if value is None or is_missing(value):
        return None
    # Categories that were declared as such may be intervals, whose text tells them apart.
    declared = series.dtype in (narwhals.Categorical, narwhals.Enum)
    if declared and not isinstance(value, (bytes, bytearray)):
        return text_of(value)
    return _object_text(series.name, value)


def _object_text(name: str, value: object) -> str:
    """Returns the text of a category or a date."""
    if isinstance(value, datetime.date):
        is_day = not isinstance(value, datetime.datetime) or (
            value.tzinfo is None and value.time() == datetime.time()
        )
        # As the command reads the date of a file.
        return f"{value:%Y-%m-%d}".rjust(10, "0") if is_day else value.isoformat()
    if not isinstance(value, (str, *_NUMBERS)):
        raise errors.DtypeError(
            f"column {name!r} holds {shown(value)} of type {type(value).__name__}, but numbers, truth values, "
            f"dates or text are needed: leave it out with drop=[{name!r}], or convert its values"
        )
    return text_of(value)


@dataclass(frozen=True)
class Coded:
    """A table of numbers, and how it became one."""

    names: list[str]
    """Names of the features."""
    values: Floats
    """Numbers of the features, a row for each row."""
    encoding: str
    """The encoding, as JSON."""
    by: tuple[str, list[str], list[int]] | None
    """The column that groups rows: its name, the groups in order, and the group of each row."""
    by_is_text: bool
    """True if the groups are text."""

    def data(self) -> _native.Data:
        """Returns the table for native code."""
        return _native.Data(
            self.names,
            self.values,
            labels=self.by,
            encoding=self.encoding,
            text_labels=self.by_is_text,
        )


def coded(
    table: Any, rules: Rules, *, by: str | None = None, encoding: str | None = None, calls: int = 1
) -> Coded:
    """Codes a table as numbers, by rules or by an encoding that was fitted before."""
    kept: Rules | None = rules
    if encoding is not None:
        kept = None
    elif by is not None and rules.columns is not None:
        kept = Rules([*rules.columns, by], rules.drop)
    skips = [] if encoding is None else left_out(encoding)
    if isinstance(table, Cells):
        cells = table
    else:
        cells = read(table, skips, kept)
    _expect_known([by] if by is not None else [], cells.names)
    labels: npt.NDArray[Any] = np.arange(len(cells.numbers))
    keys: Sequence[str | None] | Floats = ()
    if by is not None:
        place = cells.names.index(by)
        keys = cells.texts.get(place, cells.numbers[:, place])
        cells = cells.without(by)
    if encoding is None:
        ruled = rules if by is None else rules.grouped(by, cells.names)
        encoding = cells.fit(None, ruled)
        warn_of_identifiers(encoding, calls + 1)
    missing = json.loads(encoding)["missing"]
    complete = dropping(encoding)
    if by is not None:
        gaps = np.array([is_missing(key) for key in keys])
        if missing == "drop":
            labels, cells = labels[~gaps], _rows(cells, np.flatnonzero(~gaps))
        elif gaps.any():
            raise errors.of_kind(
                "MissingValue",
                f"column {by!r} has no value in row {int(gaps.argmax())}, so the group of the row is unknown: "
                "fill it, or pass missing='drop'"
            )
    if complete:
        cells, labels = cells.complete(labels, complete)
    names, values = cells.encode(encoding)
    if by is None:
        return Coded(names, values, encoding, None, False)
    is_text = not isinstance(keys, np.ndarray)
    if isinstance(keys, np.ndarray) and (np.abs(keys[labels]) >= _FIRST_INEXACT).any():
        raise errors.of_kind(
            "GroupKey",
            f"column {by!r} has whole numbers of 2^53 or more, which are not exact here, so that different "
            "ones could become one group: number the groups from 0, as pandas.factorize does"
        )
    taken = np.array([keys[row] for row in labels], dtype=object if is_text else np.float64)
    _, groups, members = classes_of(taken)
    return Coded(names, values, encoding, (by, groups, members.tolist()), is_text)


def _rows(cells: Cells, rows: npt.NDArray[np.intp]) -> Cells:
    texts = {at: [text[row] for row in rows] for at, text in cells.texts.items()}
    return Cells(cells.names, cells.numbers[rows], texts, cells.declared)


def _expect_known(names: Sequence[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise errors.of_kind(
                "UnknownColumns", f"there is no column {name!r}{hint}: the columns are {', '.join(known)}"
            )
