"""Readers of plain arguments.

Each public function reads its arguments here before it uses them, so that values of every other type end
in an error of this package, which names the argument, the value and the need.
"""

from __future__ import annotations

import math
import numbers
import operator
import os
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from sudare import _native, errors

_P = ParamSpec("_P")
_R = TypeVar("_R")
_W = TypeVar("_W", bound=str)

Floats: TypeAlias = npt.NDArray[np.float64]
"""Real numbers."""

MOST = 2**40
"""The maximum number of elements of an array."""

_SHOWN = 60
"""The maximum number of characters of a value in a message."""


def shown(value: object) -> str:
    """Returns the text of a value for a message: on one line, and cut to a sensible length."""
    try:
        text = " ".join(repr(value).split())
    # Objects can fail in any way here, and integers of more than 4300 digits do.
    except Exception:
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def plain_array(values: object, what: str = "values", kind: str = "Shape") -> npt.NDArray[Any]:
    """Converts `values` to an array; messages call them `what`, and errors are of a kind."""
    try:
        return np.asarray(values)
    except errors.Error:
        raise
    # Objects of other libraries refuse with different errors.
    except (AttributeError, OverflowError, RuntimeError, TypeError, ValueError) as error:
        raise errors.of_kind(
            kind, f"{what} cannot become an array ({error}): pass rows of equal length"
        ) from None


def array_of(values: object) -> npt.NDArray[Any]:
    """Converts `values` to an array with elements, none of them masked."""
    array = plain_array(values)
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


def optional(
    read: Callable[Concatenate[object, _P], _R], value: object, *args: _P.args, **kwargs: _P.kwargs
) -> _R | None:
    """Returns `None`, or reads an argument that is given."""
    return None if value is None else read(value, *args, **kwargs)


def whole(number: object, what: str, least: int = 0, most: int = 2**32 - 1) -> int:
    """Returns a whole number in a range; messages call it `what`."""
    try:
        found = operator.index(number)  # type: ignore[arg-type]
    except TypeError:
        raise errors.ArgumentError(f"{what} is {shown(number)}: pass a whole number") from None
    if not least <= found <= most:
        raise errors.ArgumentError(f"{what} is {shown(found)}: pass a number from {least} to {most}")
    return found


def real(number: object, what: str, *, finite: bool = True) -> float:
    """Returns a real number, which must be finite if nothing else is said; messages call it `what`."""
    kind = getattr(getattr(number, "dtype", None), "kind", "f")
    # Python and NumPy would also convert text, and arrays of one element.
    odd = isinstance(number, (str, bytes, bytearray)) or kind not in tuple("biuf")
    axes: Any = getattr(number, "ndim", 0)
    found: float | None = None
    try:
        if not (odd or axes):
            found = float(number)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        pass
    if found is None or finite and not math.isfinite(found):
        needed = "a finite number" if finite else "a number"
        raise errors.ArgumentError(f"{what} is {shown(number)}: pass {needed}")
    return found


def flag(value: object, what: str) -> bool:
    """Returns a truth value, which may be 0 or 1; messages call it `what`."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)) and value in (0, 1):
        return bool(value)
    raise errors.ArgumentError(f"{what} is {shown(value)}: pass True or False")


def string(value: object, what: str) -> str:
    """Returns a text that UTF-8 can hold; messages call it `what`."""
    if not isinstance(value, str):
        raise errors.ArgumentError(f"{what} is {shown(value)}: pass text")
    return encodable(value, what)


def hidden(value: object, what: str) -> str:
    """Returns a text that messages, which call it `what`, never repeat."""
    if not isinstance(value, str):
        raise errors.ArgumentError(f"{what} is of type {type(value).__name__}: pass text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise errors.ArgumentError(f"{what} has a half of a surrogate pair: pass other text") from None
    return value


def encodable(value: str, what: str) -> str:
    """Returns a text without halves of surrogate pairs, which files cannot hold."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise errors.ArgumentError(
            f"{what} is {shown(value)}, which has a half of a surrogate pair: read it with the encoding of "
            "its source"
        ) from None
    return value


def choice(value: object, what: str, options: Sequence[_W], kind: str = "Argument") -> _W:
    """Returns one of several words; messages call it `what`, and errors are of a kind."""
    for option in options:
        if isinstance(value, str) and value == option:
            return option
    *most, last = map(repr, options)
    raise errors.of_kind(kind, f"{what} is {shown(value)}: pass {', '.join(most)} or {last}")


def path_of(value: object, what: str = "path") -> Path:
    """Returns the path of a file or a directory; messages call it `what`."""
    try:
        found = os.fspath(value)  # type: ignore[call-overload]
    except TypeError:
        found = None
    # An empty path would be the working directory.
    if not isinstance(found, str) or not found or "\0" in found:
        raise errors.ArgumentError(f"{what} is {shown(value)}: pass the path of a file or a directory")
    return Path(encodable(found, what))


def expect_type(value: object, what: str, *kinds: type[Any]) -> None:
    """Refuses an object that is of none of several classes; messages call it `what`."""
    if not isinstance(value, kinds):
        names = " or ".join(map(_public, kinds))
        raise errors.ArgumentError(
            f"{what} is {shown(value)} of type {_public(type(value))}, but {names} is needed: pass one"
        )


def _public(kind: type[object]) -> str:
    """Returns the public name of a class."""
    renamed = {_native.Table: "EncryptedTable", _native.Result: "EncryptedResult"}
    return renamed.get(kind, kind.__name__)


def called(value: Any, what: str) -> Callable[..., Any]:
    """Returns a function; messages call it `what`."""
    if not callable(value):
        raise errors.ArgumentError(f"{what} is {shown(value)}: pass a function")
    found: Callable[..., Any] = value
    return found


def items(value: object, what: str, needed: str) -> list[Any]:
    """Returns the items of a sequence, which is no text; messages call it `what`."""
    try:
        if isinstance(value, (str, bytes, bytearray, Mapping)):
            raise TypeError
        return list(value)  # type: ignore[call-overload, no-any-return]
    except errors.Error:
        raise
    except TypeError:
        raise errors.ArgumentError(f"{what} is {shown(value)}: pass {needed}") from None


def pair(value: object, what: str, needed: str) -> tuple[Any, Any]:
    """Returns two values; messages call them `what`."""
    found = items(value, what, needed)
    if len(found) != 2:
        raise errors.ArgumentError(f"{what} is {shown(value)}: pass {needed}")
    return found[0], found[1]


def mapping(value: object, what: str, needed: str) -> Mapping[Any, Any]:
    """Returns a dictionary; messages call it `what`."""
    if not isinstance(value, Mapping):
        raise errors.ArgumentError(f"{what} is {shown(value)}: pass {needed}")
    return value


def several(value: object) -> Sequence[Any]:
    """Returns the values of an argument that may be a single one: `f(1)` means `f((1,))`."""
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray)):
        return value
    return [value]


def has_axes(value: object) -> bool:
    """Returns whether a value is a table or a sequence rather than one number."""
    try:
        return np.ndim(value) > 0  # type: ignore[arg-type]
    except errors.Error:
        raise
    # Rows of different lengths.
    except ValueError:
        return True


def seeded(state: object, what: str, count: int) -> bytes:
    """Returns random bytes of a generator of NumPy or of a seed; messages call it `what`."""
    if state is np.random or isinstance(state, np.random.Generator | np.random.RandomState):
        return bytes(state.bytes(count))
    try:
        return np.random.default_rng(state).bytes(count)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise errors.ArgumentError(
            f"{what} is {shown(state)}: pass a whole number from 0, or a numpy.random.Generator"
        ) from None


def ends_of(interval: object, what: str) -> tuple[float, float]:
    """Returns the two ends of an interval; messages call it `what`."""
    start, end = pair(interval, what, "its two ends, the lower one first, such as (-8, 8)")
    low = real(start, f"the start of {what}")
    high = real(end, f"the end of {what}")
    if low > high:
        raise errors.ArgumentError(f"{what} is {shown(interval)}: pass the lower end first")
    return low, high


def reals(values: object, what: str, kind: str) -> Floats:
    """Converts `values` to an array of real numbers, which may be NaN.

    Messages call the values `what`; errors are of a kind.
    """
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise errors.of_kind(kind, f"{what} are masked: fill them first")
    array = plain_array(values, what, kind)
    if array.dtype.kind == "O" and all(_is_real(value) for value in array.flat):
        try:
            array = array.astype(np.float64)
        except (OverflowError, TypeError, ValueError) as error:
            raise errors.of_kind(kind, f"{what} cannot become floats ({error}): pass smaller numbers") from None
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
