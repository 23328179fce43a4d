"""Tables of numbers: data frames, dictionaries of columns, arrays of rows and columns."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sudare import errors
from sudare._optional import missing
from sudare._plain import Floats, encodable, floats, shown

Frame: TypeAlias = Any
"""A data frame of pandas, polars or pyarrow, a dictionary of columns, or an array of rows and
columns."""


@dataclass(frozen=True)
class Columns:
    """Numbers in named columns."""

    names: list[str]
    values: Floats

    def index(self, name: str) -> int:
        """Returns the place of the column with this name."""
        if name not in self.names:
            raise errors.of_kind(
                "UnknownColumn",
                f"there is no column {name!r}: the columns are {', '.join(self.names)}"
            )
        return self.names.index(name)


def read(table: Frame) -> Columns:
    """Reads the columns of a table, which must be finite numbers under different names."""
    if isinstance(table, Mapping):
        columns = _dictionary(table)
    elif isinstance(table, (np.ndarray, Sequence)):
        return _array(table)
    else:
        columns = _frame(table)
    names = list(columns)
    if not names:
        raise errors.ShapeError("the table has no columns: pass at least one")
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise errors.ShapeError(f"columns have different numbers of values, {lengths}: pass columns of equal length")
    return Columns(names, np.column_stack(list(columns.values())))


def _array(table: object) -> Columns:
    """Names columns x0, x1, ..., as scikit-learn does."""
    values = floats(table)
    if values.ndim != 2:
        raise errors.ShapeError(
            f"an array of shape {values.shape} is not a table: pass an array of rows and columns, or a "
            "dictionary of columns"
        )
    return Columns([f"x{i}" for i in range(values.shape[1])], values)


def _dictionary(table: Mapping[Any, object]) -> dict[str, Floats]:
    columns = {_named(name): _column(name, values) for name, values in table.items()}
    for name, values in columns.items():
        if values.ndim != 1:
            raise errors.ShapeError(
                f"column {name!r} has the shape {values.shape}: pass one number per row"
            )
    return columns


def _named(name: object) -> str:
    if not isinstance(name, str):
        raise errors.of_kind(
            "UnnamedColumn",
            f"a column is named {shown(name)}: rename it to text"
        )
    return encodable(name, "the name of a column")


def _column(name: object, values: object) -> Floats:
    try:
        return floats(values)
    except errors.Error as error:
        raise errors.of_kind(error.kind, f"column {name!r}: {error}") from None


def opened(table: Any) -> Any:
    """Opens a data frame of any library with narwhals. Its columns must have different names."""
    narwhals = narwhals_for(table)
    try:
        frame = narwhals.from_native(table, eager_only=True)
        names = list(frame.columns)
    except narwhals.exceptions.DuplicateError as error:
        raise errors.of_kind(
            "DuplicateColumn",
            f"columns have the same name: rename them: {error}"
        ) from None
    except TypeError:
        raise errors.DtypeError(
            f"a {type(table).__name__} is not a table in memory: pass a data frame of pandas, polars or "
            "pyarrow (collect() a lazy one), a dictionary of columns, or an array of rows and columns"
        ) from None
    repeated = sorted({str(name) for name in names if names.count(name) > 1})
    if repeated:
        raise errors.of_kind(
            "DuplicateColumn",
            f"several columns have the names {', '.join(repeated)}: rename them"
        )
    return frame


def _frame(table: Any) -> dict[str, Floats]:
    narwhals, frame = narwhals_for(table), opened(table)
    columns = {}
    for name in [_named(name) for name in frame.columns]:
        series = frame[name]
        if not (series.dtype.is_numeric() or series.dtype == narwhals.Boolean):
            raise errors.DtypeError(
                f"column {name!r} has the type {series.dtype}, but numbers are needed: leave it out, or code "
                "its values as numbers"
            )
        missing = series.is_null()
        if missing.any():
            row = int(missing.to_numpy().argmax())
            raise errors.of_kind("MissingValue",
                f"column {name!r} has no value in row {row}: fill missing values, or drop the row or the "
                "column"
            )
        columns[name] = _column(name, _numbers(series, narwhals))
    return columns


def _numbers(series: Any, narwhals: Any) -> object:
    if series.dtype.is_integer() and len(series) > 0:
        # Some libraries refuse to round, others do; columns that tell groups apart are checked.
        largest = max(abs(int(series.min())), abs(int(series.max())))
        if largest >= 2**53:
            return np.array(series.to_list(), dtype=np.float64)
    return series.cast(narwhals.Float64).to_numpy()


def narwhals_for(table: object) -> Any:
    """Returns narwhals, which reads the frames of all libraries."""
    try:
        return importlib.import_module("narwhals.stable.v2")
    except ImportError:
        raise missing(
            "narwhals",
            "frames",
            f"reading a {type(table).__module__}.{type(table).__name__}",
            "pass a dictionary of columns or an array",
        ) from None


class Maker:
    """Makes frames of one library."""

    def __init__(self, narwhals: Any, implementation: Any) -> None:
        self._narwhals = narwhals
        self._implementation = implementation

    @classmethod
    def like(cls, table: Frame | None) -> Maker:
        """Makes frames of the library of `table`, or dictionaries of arrays if it is not a frame."""
        if table is None or isinstance(table, (Mapping, np.ndarray, Sequence)):
            return cls(None, None)
        narwhals = narwhals_for(table)
        return cls(narwhals, opened(table).implementation)

    def __call__(self, columns: Mapping[str, Any]) -> Any:
        """Makes a frame with these columns."""
        if self._narwhals is None:
            return {name: np.asarray(values) for name, values in columns.items()}
        values = {name: list(column) for name, column in columns.items()}
        return self._narwhals.from_dict(values, backend=self._implementation).to_native()


def names_of(X: object) -> npt.NDArray[np.object_] | None:
    """Returns the names of the columns of a frame, if they are strings."""
    # The columns of a pyarrow table are arrays, not names.
    columns = getattr(X, "column_names", None)
    if columns is None:
        columns = getattr(X, "columns", None)
    if columns is None or not all(isinstance(name, str) for name in columns):
        return None
    return np.asarray(list(columns), dtype=object)


def expect_numbers(X: object) -> None:
    """Refuses arrays of dates, durations and bytes, which NumPy would convert to numbers."""
    kind = getattr(getattr(X, "dtype", None), "kind", None)
    if kind is not None and kind in "mMSV":
        raise errors.DtypeError(
            f"X has the type {getattr(X, 'dtype', None)}, but numbers are needed: pass numbers, such as "
            "seconds or days since a date"
        )


def is_missing(value: object) -> bool:
    """Returns whether a value is missing: None, NaN, or a missing value of pandas."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))
