"""Coding of frames with categories, truth values and gaps as numbers.

Native code fits an encoding, which is JSON, to the table of the owner. It stays with the model, so that
later rows are coded in the same way.
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from sudare import _native, errors
from sudare._estimator import expect_numbers, is_missing, names_of
from sudare._frames import narwhals_for, opened
from sudare._plain import Floats, encodable, shown

_Text = list[str | None]

_NUMBERS = (numbers.Real, Decimal, np.bool_)
"""Types of numbers and truth values. `Decimal` and `bool_` are not registered as `Real`."""


@dataclass(frozen=True)
class Cells:
    """A table before coding."""

    names: list[str]
    """Names of the columns."""
    numbers: Floats
    """Numbers of shape `(n_rows, n_columns)`; NaN where one is missing, and in columns of text."""
    texts: dict[int, _Text]
    """Values of columns of text, by place; `None` where one is missing."""

    def gaps(self) -> npt.NDArray[np.bool_]:
        """Marks rows that lack a value."""
        lacking = np.isnan(self.numbers)
        for place, text in self.texts.items():
            lacking[:, place] = [value is None for value in text]
        return np.asarray(lacking.any(axis=1))

    def complete(self, labels: npt.NDArray[Any]) -> tuple[Cells, npt.NDArray[Any]]:
        """Returns the rows that lack no value, and their labels."""
        kept = np.flatnonzero(~self.gaps())
        if len(kept) == 0:
            raise errors.of_kind(
                "NoCompleteRow",
                f"each of {len(self.numbers)} rows lacks a value: fill gaps with missing='mean', or leave "
                "columns out"
            )
        texts = {at: [text[row] for row in kept] for at, text in self.texts.items()}
        return Cells(self.names, self.numbers[kept], texts), labels[kept]

    def beside(self, name: str, text: Sequence[str | None]) -> Cells:
        """Returns the table with another column of text."""
        gaps = np.full((len(self.numbers), 1), np.nan)
        texts = {**self.texts, len(self.names): list[str | None](text)}
        return Cells([*self.names, name], np.hstack([self.numbers, gaps]), texts)

    def named(self, names: list[str]) -> Cells:
        """Returns the table with other names of columns."""
        return Cells(names, self.numbers, self.texts)

    def fit(
        self, target: tuple[str, Sequence[str]] | None, *, missing: str, unseen: str
    ) -> str:
        """Fits an encoding to this table, for a target of this name and classes."""
        return _native.fit_encoding(*self.native(), missing=missing, unseen=unseen, target=target)

    def encode(self, encoding: str) -> tuple[list[str], Floats]:
        """Returns the features of this table under an encoding, and their numbers."""
        return _native.encode(encoding, *self.native())

    def native(self) -> tuple[list[str], Floats, list[tuple[int, _Text]]]:
        """Returns the table for native code."""
        return self.names, self.numbers, list(self.texts.items())


def has_categories(X: object) -> bool:
    """Tells whether a frame has columns that are neither numbers nor truth values."""
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


def read(X: Any) -> Cells:
    """Reads the cells of a frame, or of an array of numbers, whose columns are named x0, x1, ..."""
    if not hasattr(X, "columns"):
        found = _array(X)
        return Cells([f"x{i}" for i in range(found.shape[1])], found, {})
    narwhals, frame = narwhals_for(X), opened(X)
    columns: list[Floats] = []
    texts: dict[int, _Text] = {}
    for place, series in enumerate(frame.iter_columns()):
        if _is_numeric(narwhals, series):
            values = [np.nan if value is None else value for value in _values(series)]
            columns.append(np.array(values, dtype=np.float64))
        else:
            texts[place] = [_text(narwhals, series, value) for value in _values(series)]
            columns.append(np.full(len(texts[place]), np.nan))
    if not columns or not len(columns[0]):
        raise errors.ShapeError(
            f"X has {len(frame)} rows and {len(columns)} columns: pass at least one of each"
        )
    return Cells(_names(frame.columns), np.column_stack(columns), texts)


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
    """Tells whether classes are text, even if they look like numbers."""
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
    kinds = (narwhals.String, narwhals.Categorical, narwhals.Enum, narwhals.Object)
    if not any(series.dtype == kind for kind in kinds):
        raise errors.DtypeError(
            f"column {series.name!r} has the type {series.dtype}, but numbers, truth values or categories "
            "are needed: leave it out, or convert its values"
        )
    if value is None or is_missing(value):
        return None
    # Categories that were declared as such may be intervals or dates, whose text tells them apart.
    declared = series.dtype != narwhals.Object and not isinstance(value, (bytes, bytearray))
    if not (declared or isinstance(value, (str, *_NUMBERS))):
        raise errors.DtypeError(
            f"column {series.name!r} holds {shown(value)} of type {type(value).__name__}, but numbers, truth "
            "values or text are needed: leave it out, or convert its values"
        )
    return text_of(value)
