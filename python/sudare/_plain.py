"""Checks of plain numbers."""

from __future__ import annotations

import math
import numbers
import operator
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sudare import errors

Floats: TypeAlias = npt.NDArray[np.float64]
"""Real numbers."""

MOST = 2**40
"""The maximum number of elements of an array."""


def array_of(values: object) -> npt.NDArray[Any]:
    """Converts `values` to an array with elements, none of them masked."""
    try:
        array = np.asarray(values)
    except (ValueError, OverflowError) as error:
        raise errors.ShapeError(
            f"values cannot become an array ({error}): pass rows of equal length"
        ) from None
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise errors.DtypeError("values are masked: fill them first")
    if 0 in array.shape:
        raise errors.ShapeError(
            f"an array of shape {array.shape} is empty: pass at least one element along every axis"
        )
    return array


def floats(values: object) -> Floats:
    """Converts `values` to an array of finite real numbers."""
    array = array_of(values)
    if array.dtype == object and all(type(x) is int for x in array.flat):
        # Integers of more than 64 bits.
        try:
            array = array.astype(np.float64)
        except OverflowError:
            raise errors.of_kind(
                "NotFinite", "an integer has more than 1024 bits: pass numbers that a float can hold"
            ) from None
    if array.dtype.kind not in "biuf":
        raise errors.DtypeError(
            f"values have the type {array.dtype}, but real numbers are needed: pass an array of floats or "
            "integers, with rows of equal length"
        )
    found = np.asarray(array, dtype=np.float64, order="C")
    finite = np.isfinite(found)
    if not finite.all():
        place = tuple(int(i) for i in np.argwhere(~finite)[0])
        raise errors.of_kind(
            "NotFinite",
            f"the value at {place} is {found[place]}, but numbers must be finite: fill or leave out what "
            "is missing",
        )
    return found


def whole(number: object, what: str, least: int = 0, most: int = 2**32 - 1) -> int:
    """Returns a whole number in a range; messages call it `what`."""
    try:
        found = operator.index(number)  # type: ignore[arg-type]
    except TypeError:
        raise errors.ArgumentError(f"{what} is {number!r}: pass a whole number") from None
    if not least <= found <= most:
        raise errors.ArgumentError(f"{what} is {found}: pass a number from {least} to {most}")
    return found


def real(number: object, what: str) -> float:
    """Returns a finite real number; messages call it `what`."""
    try:
        found = float(number)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if isinstance(number, (str, bytes)) or not math.isfinite(found):
        raise errors.ArgumentError(f"{what} is {number!r}: pass a finite number")
    return found


def ends_of(interval: object, what: str) -> tuple[float, float]:
    """Returns the two ends of an interval; messages call it `what`."""
    ends: tuple[object, ...]
    try:
        ends = tuple(interval)  # type: ignore[arg-type]
        start, end = ends
    except (TypeError, ValueError):
        raise errors.ArgumentError(
            f"{what} is {interval!r}: pass its two ends, the lower one first, such as (-8, 8)"
        ) from None
    low = real(start, f"the start of {what}")
    high = real(end, f"the end of {what}")
    if low > high:
        raise errors.ArgumentError(f"{what} is {interval!r}: pass the lower end first")
    return low, high


def reals(values: object, what: str, kind: str) -> Floats:
    """Converts `values` to an array of real numbers, which may be NaN.

    Messages call the values `what`; errors are of a kind.
    """
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise errors.of_kind(kind, f"{what} are masked: fill them first")
    try:
        array = np.asarray(values)
        if array.dtype.kind == "O" and all(_is_real(value) for value in array.flat):
            array = array.astype(np.float64)
    except (OverflowError, TypeError, ValueError) as error:
        raise errors.of_kind(
            kind, f"{what} cannot become an array ({error}): pass rows of equal length"
        ) from None
    if array.dtype.kind not in "biuf":
        raise errors.of_kind(
            kind,
            f"{what} have the type {array.dtype}, but real numbers are needed: pass real and imaginary "
            "parts as numbers of their own, and convert text with astype(float)",
        )
    return np.asarray(array, dtype=np.float64, order="C")


def _is_real(value: object) -> bool:
    return isinstance(value, numbers.Real | Decimal)


def octets(data: object, what: str) -> bytes:
    """Returns the bytes of a file; messages call them `what`."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise errors.ArgumentError(f"{what} is of type {type(data).__name__}: pass bytes")
    return bytes(data)
