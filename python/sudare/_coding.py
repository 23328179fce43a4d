"""Frames with categories, truth values and gaps, on their way to numbers.

What is coded, and how, is decided by native code: an encoding, which is JSON, is fitted to the
table of its owner and kept with the model, so that rows that come later are treated alike.
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sudare import _native, errors
from sudare._estimator import names_of
from sudare._frames import narwhals_for
from sudare._plain import Floats, Native, from_native, to_native

_Text = list[str | None]


@dataclass(frozen=True)
class Cells:
    """A table as it comes."""

    names: list[str]
    """Of the columns."""
    numbers: Floats
    """Of shape `(n_rows, n_columns)`; NaN where a number is missing, and in columns of text."""
    texts: dict[int, _Text]
    """The values of columns that are text, by place; `None` where one is missing."""

    def gaps(self) -> npt.NDArray[np.bool_]:
        """Which rows lack a value."""
        lacking = np.isnan(self.numbers)
        for place, text in self.texts.items():
            lacking[:, place] = [value is None for value in text]
        return np.asarray(lacking.any(axis=1))

    def complete(self, labels: npt.NDArray[Any]) -> tuple[Cells, npt.NDArray[Any]]:
        """The rows that lack no value, and their labels."""
        kept = np.flatnonzero(~self.gaps())
        if len(kept) == 0:
            raise errors.NoCompleteRowError(
                f"each of {len(self.numbers)} rows lacks a value, at least one without gaps is "
                "needed: fill gaps with missing='mean', or leave columns out"
            )
        texts = {at: [text[row] for row in kept] for at, text in self.texts.items()}
        return Cells(self.names, self.numbers[kept], texts), labels[kept]

    def beside(self, name: str, text: Sequence[str]) -> Cells:
        """The same with a column of text after the others."""
        gaps = np.full((len(self.numbers), 1), np.nan)
        texts = {**self.texts, len(self.names): list[str | None](text)}
        return Cells([*self.names, name], np.hstack([self.numbers, gaps]), texts)

    def named(self, names: list[str]) -> Cells:
        """The same under other names."""
        return Cells(names, self.numbers, self.texts)

    def fit(
        self, target: tuple[str, Sequence[str]] | None, *, missing: str, unseen: str
    ) -> str:
        """The encoding of this table, for a target of this name and classes."""
        return _native.fit_encoding(*self.native(), missing=missing, unseen=unseen, target=target)

    def encode(self, encoding: str) -> tuple[list[str], Floats]:
        """The features that an encoding makes of this table, and their numbers."""
        names, found = _native.encode(encoding, *self.native())
        return names, from_native(found)

    def native(self) -> tuple[list[str], Native, list[tuple[int, _Text]]]:
        """As native code takes it."""
        return self.names, to_native(self.numbers), list(self.texts.items())


def has_categories(X: object) -> bool:
    """Whether a frame has columns that are neither numbers nor truth values."""
    if not hasattr(X, "columns"):
        return False
    try:
        narwhals = narwhals_for(X)
    except errors.MissingDependencyError:
        if np.asarray(X).dtype.kind in "biuf":
            return False
        raise
    try:
        frame = narwhals.from_native(X, eager_only=True)
    except TypeError:
        return False
    return not all(_is_numeric(narwhals, series) for series in frame.iter_columns())


def read(X: Any) -> Cells:
    """The cells of a frame, or of an array of numbers, whose columns are called x0, x1, ..."""
    if not hasattr(X, "columns"):
        found = _array(X)
        return Cells([f"x{i}" for i in range(found.shape[1])], found, {})
    narwhals = narwhals_for(X)
    columns: list[Floats] = []
    texts: dict[int, _Text] = {}
    for place, series in enumerate(narwhals.from_native(X, eager_only=True).iter_columns()):
        if _is_numeric(narwhals, series):
            values = [np.nan if value is None else value for value in _values(series)]
            columns.append(np.array(values, dtype=np.float64))
        else:
            texts[place] = [_text(narwhals, series, value) for value in _values(series)]
            columns.append(np.full(len(texts[place]), np.nan))
    names = names_of(X)
    named = [f"x{i}" for i in range(len(columns))] if names is None else list(names)
    return Cells(named, np.column_stack(columns), texts)


def text_of(value: object) -> str:
    """How a label or a category is called: text as it is, truth values 0 and 1, and numbers in the
    shortest way that is read as the same number."""
    if isinstance(value, (bool, np.bool_)):
        return str(int(value))
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, (numbers.Real, np.floating)):
        return np.format_float_positional(float(value) + 0.0, trim="-")
    return str(value)


def _array(X: object) -> Floats:
    try:
        found = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise errors.DtypeError(
            f"{error}: give numbers, or a data frame, of which columns may be categories"
        ) from None
    if found.ndim != 2:
        raise errors.ShapeError(
            f"X has {found.ndim} axes, two are needed: a row for each sample, a column for each "
            "feature"
        )
    return found


def _is_numeric(narwhals: Any, series: Any) -> bool:
    if series.dtype == narwhals.Object:
        return all(isinstance(value, (numbers.Real, np.bool_)) for value in series.drop_nulls())
    return bool(series.dtype.is_numeric() or series.dtype == narwhals.Boolean)


def _values(series: Any) -> list[Any]:
    """`None` where one is missing."""
    missing = series.is_null().to_list()
    return [None if gap else value for gap, value in zip(missing, series.to_list(), strict=True)]


def _text(narwhals: Any, series: Any, value: object) -> str | None:
    kinds = (narwhals.String, narwhals.Categorical, narwhals.Enum, narwhals.Object)
    if not any(series.dtype == kind for kind in kinds):
        raise errors.DtypeError(
            f"column {series.name!r} is of type {series.dtype}, but numbers, truth values or "
            "categories are needed: leave it out, or bring its values into such a form"
        )
    return None if value is None else text_of(value)
