"""Plain numbers on their way into native code."""

from __future__ import annotations

import numbers
import operator
from decimal import Decimal
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sudare import errors

Floats: TypeAlias = npt.NDArray[np.float64]
"""Real numbers."""

Native: TypeAlias = tuple[list[int], bytes]
"""A shape, and the numbers in C order, eight bytes each, as this machine has them."""


MOST = 2**40
"""Most elements of an array."""


def floats(values: object) -> Floats:
    """`values` as an array of finite real numbers."""
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise errors.ShapeError(
            f"values make no array ({error}): give rows of equal length"
        ) from None
    if array.dtype == object and array.size and all(type(x) is int for x in array.flat):
        # Integers of more than 64 bits.
        try:
            array = array.astype(np.float64)
        except OverflowError:
            raise errors.NotFiniteError(
                "an integer has more than 1024 bits: give numbers that a float can hold"
            ) from None
    if array.dtype.kind not in "biuf":
        raise errors.DtypeError(
            f"values of type {array.dtype} cannot be encrypted or computed with: real numbers are "
            "needed; give an array of floats or integers, of rows of equal length"
        )
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise errors.DtypeError("masked values have no number: fill them first")
    if 0 in array.shape:
        raise errors.ShapeError(
            f"an array of shape {array.shape} has no values: give at least one along every axis"
        )
    numbers = np.asarray(array, dtype=np.float64, order="C")
    finite = np.isfinite(numbers)
    if not finite.all():
        place = tuple(int(i) for i in np.argwhere(~finite)[0])
        raise errors.NotFiniteError(
            f"the value at {place} is {numbers[place]}: only finite numbers can be encrypted or "
            "computed with; fill or leave out what is missing"
        )
    return numbers


def whole(number: object, what: str, least: int = 0, most: int = 2**32 - 1) -> int:
    """A whole number in a range; messages call it `what`."""
    try:
        found = operator.index(number)  # type: ignore[arg-type]
    except TypeError:
        raise errors.ArgumentError(f"{what} is {number!r}: give a whole number") from None
    if not least <= found <= most:
        raise errors.ArgumentError(f"{what} is {found}: give a number from {least} to {most}")
    return found


def to_native(array: Floats) -> Native:
    """What native code takes."""
    return list(array.shape), array.tobytes()


def from_native(native: Native) -> Floats:
    """What native code gives."""
    shape, data = native
    return np.frombuffer(data, dtype=np.float64).reshape(shape).copy()


def reals(values: object, what: str, refused: type[errors.Error]) -> Floats:
    """`values` as an array of real numbers, which may be NaN; messages call them `what`."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise refused(f"{what} are masked, and have no number there: fill them first")
    try:
        array = np.asarray(values)
        if array.dtype.kind == "O" and all(_is_real(value) for value in array.flat):
            array = array.astype(np.float64)
    except (OverflowError, TypeError, ValueError) as error:
        raise refused(f"{what} make no array ({error}): give rows of equal length") from None
    if array.dtype.kind not in "biuf":
        raise refused(
            f"{what} are of type {array.dtype}: real numbers are needed; of complex ones give real and "
            "imaginary parts as numbers of their own, and convert text with astype(float)"
        )
    return np.asarray(array, dtype=np.float64, order="C")


def _is_real(value: object) -> bool:
    return isinstance(value, numbers.Real | Decimal)


def real(number: object, what: str) -> float:
    """A finite real number; messages call it `what`."""
    if not _is_real(number) or not np.isfinite(found := float(number)):  # type: ignore[arg-type]
        raise errors.ArgumentError(f"{what} is {number!r}: give a finite number")
    return found


def octets(data: object, what: str) -> bytes:
    """Bytes of a file; messages call them `what`."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise errors.ArgumentError(f"{what} is of type {type(data).__name__}: give bytes")
    return bytes(data)
