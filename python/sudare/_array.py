"""Encrypted arrays of real numbers."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from types import EllipsisType
from typing import Any, ClassVar, Protocol, SupportsIndex, TypeAlias

import numpy as np

from sudare import _native, errors
from sudare._encrypted import Encrypted, FUNCTIONS, sizes, sizes_of, ufuncs
from sudare._native import Op
from sudare._plain import MOST, ends_of, flag, floats, several, shown, whole

Axes: TypeAlias = int | Sequence[int] | None
"""One axis, several, or all of them."""

_Index: TypeAlias = SupportsIndex | slice | EllipsisType | None
Key: TypeAlias = _Index | tuple[_Index, ...]
"""The indices of an array: integers, slices without a step, `...` and `None`."""


class Backend(Protocol):
    """A context that computes with arrays of real numbers."""

    def _apply(self, op: Op, operands: list[Any]) -> EncryptedArray: ...

    def _log2_error(self, array: EncryptedArray) -> float | None:
        """Returns `log2` of the error to expect in an array, where it is known beforehand."""


class EncryptedArray(Encrypted[Backend]):
    """An array of real numbers that only the owner of the secret key can read.

    An array has any shape, and consists of one or more ciphertexts. Operators, methods and the NumPy
    functions of the same names compute on it. Rescaling, alignment of levels and bootstrapping are
    automatic. Operations that encryption does not support raise `UnsupportedError`. Arrays come from
    `Context.encrypt` and `Context.load`, and never change.
    """

    __slots__ = ()

    _native = _native.Array
    _plain: ClassVar[Any] = staticmethod(floats)
    _instead = "approximate functions on an interval with sudare.functions, such as compare and abs"
    _missing = "//, %, abs, round, float and int"

    @property
    def dtype(self) -> np.dtype[np.float64]:
        """The type of decrypted elements: `float64`."""
        return np.dtype(np.float64)

    @property
    def level(self) -> int | None:
        """The level; `None` before `Context.attach`."""
        level: int | None = self._value.level
        return level

    @property
    def log2_scale(self) -> float | None:
        """`log2` of the scale; `None` before `Context.attach`."""
        scale: float | None = self._value.log2_scale
        return scale

    @property
    def key_id(self) -> str | None:
        """The key pair, in hexadecimal; `None` in simulation."""
        key: str | None = self._value.key_id
        return key

    @property
    def log2_error(self) -> float | None:
        """An estimate of `log2` of the error of an element: of the largest standard deviation in any
        ciphertext.

        It is known in simulation. In execution it is known for the results of the program that
        `Context.for_program` planned, without bootstrapping. The context recognises them by their
        shape, their level and their operations.
        """
        known: float | None = self._value.log2_error
        if known is None and self._backend is not None:
            return self._backend._log2_error(self)
        return known

    @property
    def low(self) -> float | None:
        """A lower bound of all elements; `None` where none is known."""
        return None if self._value.range is None else float(self._value.range[0])

    @property
    def high(self) -> float | None:
        """An upper bound of all elements; `None` where none is known."""
        return None if self._value.range is None else float(self._value.range[1])

    def within(self, low: float, high: float) -> EncryptedArray:
        """Returns the same array, whose elements you promise to lie from `low` to `high`.

        Use it where you know more than the ranges of the inputs tell, such as that a weighted sum
        stays within the interval of a function. Simulation refuses values outside. In execution
        nobody can see them: a promise that does not hold gives wrong results, which `decrypt`
        refuses only where they leave the range.
        """
        return self._apply(Op.within(*ends_of((low, high), "a range")))

    @property
    def T(self) -> EncryptedArray:
        """The array with its axes in reverse order."""
        return self.transpose()

    def _kind(self) -> str:
        if self._value.key_id:
            return "EncryptedArray"
        return f"EncryptedArray {'of a program' if self._value.level is None else 'in simulation'}"

    def _facts(self) -> dict[str, str]:
        value = self._value
        facts = {"shape": str(self.shape)}
        if value.level is None and value.key_id is None:
            return facts
        if value.level is not None and value.log2_scale is not None:
            facts |= {"level": str(value.level), "scale": f"2^{value.log2_scale:.1f}"}
        facts["size"] = sizes(value)
        if value.key_id:
            facts["key_id"] = value.key_id
        if (error := self.log2_error) is not None:
            facts["error"] = f"2^{error:.1f}"
        return facts

    # Arithmetic.

    def __truediv__(self, other: object) -> EncryptedArray:
        return _divide(self, other)

    def __rtruediv__(self, other: object) -> EncryptedArray:
        return _divide(other, self)

    def __pow__(self, exponent: object) -> EncryptedArray:
        return _power(self, exponent)

    def __rpow__(self, base: object) -> EncryptedArray:
        return _power(base, self)

    # Reductions.

    def sum(self, axis: Axes = None, keepdims: bool = False) -> EncryptedArray:
        """Returns the sum along axes."""
        return self._apply(Op.sum(axes=self._axes(axis), keepdims=flag(keepdims, "keepdims")))

    def mean(self, axis: Axes = None, keepdims: bool = False) -> EncryptedArray:
        """Returns the mean along axes."""
        return self._apply(Op.mean(axes=self._axes(axis), keepdims=flag(keepdims, "keepdims")))

    def var(self, axis: Axes = None, ddof: int = 0, keepdims: bool = False) -> EncryptedArray:
        """Returns the variance along axes, with the divisor `n - ddof`."""
        axes, ddof = self._axes(axis), whole(ddof, "ddof", -MOST, MOST)
        count = math.prod(self.shape[i] for i in axes)
        if not 0 <= ddof < count:
            raise errors.ShapeError(
                f"ddof is {ddof} for a variance of {count} elements: choose ddof from 0 to {count - 1}"
            )
        return self._apply(Op.var(axes=axes, keepdims=flag(keepdims, "keepdims"), ddof=ddof))

    # Shapes.

    def transpose(self, *axes: int | Sequence[int]) -> EncryptedArray:
        """Returns the axes in another order; in reverse by default."""
        order = [_axis(axis, self.ndim) for axis in sizes_of(axes)] or list(range(self.ndim))[::-1]
        if sorted(order) != list(range(self.ndim)):
            raise errors.ShapeError(
                f"axes {tuple(order)} do not match an array of dimension {self.ndim}: name each axis once"
            )
        return self._apply(Op.transpose(axes=order))

    def __getitem__(self, key: Key) -> EncryptedArray:
        ranges, shape = _selection(key, self.shape)
        part = self
        if ranges != [(0, size) for size in self.shape]:
            part = self._apply(Op.slice(ranges=ranges))
        return part if list(part.shape) == shape else part._apply(Op.reshape(shape=shape))

    def __iter__(self) -> Iterator[EncryptedArray]:
        return (self[i] for i in range(len(self)))

    def _axes(self, axis: Axes) -> list[int]:
        if axis is None:
            return list(range(self.ndim))
        axes = [_axis(i, self.ndim) for i in several(axis)]
        if len(set(axes)) < len(axes):
            raise errors.ShapeError(f"duplicate value in axis {tuple(axes)}: name each axis once")
        return sorted(axes)


def _divide(left: object, right: object) -> EncryptedArray:
    if not isinstance(left, EncryptedArray) or isinstance(right, EncryptedArray):
        raise errors.UnsupportedError(
            "an array cannot be divided by encrypted values: multiply with "
            "sudare.functions.inverse(interval)(x), where the values lie in the interval"
        )
    divisor = floats(right)
    if (divisor == 0).any():
        raise errors.of_kind("NotFinite", "a divisor is 0: divide by other numbers")
    return left * (1.0 / divisor)


def _power(base: object, exponent: object) -> EncryptedArray:
    if isinstance(base, EncryptedArray) and not isinstance(exponent, EncryptedArray):
        value = floats(exponent)
        if value.shape == () and value == int(value) and 1 <= value <= 2**16:
            return base._apply(Op.power(exponent=int(value)))
    raise errors.UnsupportedError(
        "encrypted values support whole exponents from 1 to 65536: approximate other powers on an "
        "interval with sudare.functions"
    )


def _axis(axis: object, ndim: int) -> int:
    index = whole(axis, "an axis", -MOST, MOST)
    if not -ndim <= index < ndim:
        raise errors.ShapeError(
            f"axis {index} is out of bounds for an array of dimension {ndim}"
            + (f": choose one from {-ndim} to {ndim - 1}" if ndim else ": leave it out")
        )
    return index % ndim


def _selection(key: Key, shape: tuple[int, ...]) -> tuple[list[tuple[int, int]], list[int]]:
    """Returns the range that `key` selects along each axis, and the shape of the selection."""
    keys = list(key) if isinstance(key, tuple) else [key]
    named = sum(k is not None and k is not Ellipsis for k in keys)
    dots = sum(k is Ellipsis for k in keys)
    if dots > 1 or named > len(shape):
        raise errors.ShapeError(
            f"too many indices: array is {len(shape)}-dimensional, but {named} were indexed with {dots} "
            "ellipses: pass at most one index for each axis and one ellipsis"
        )
    rest = [slice(None)] * (len(shape) - named)
    place = next((i for i, k in enumerate(keys) if k is Ellipsis), len(keys))
    keys = [*keys[:place], *rest, *keys[place + 1 :]]
    ranges: list[tuple[int, int]] = []
    result: list[int] = []
    for k in keys:
        if k is None:
            result.append(1)
            continue
        axis = len(ranges)
        size = shape[axis]
        if isinstance(k, slice):
            try:
                start, stop, step = k.indices(size)
            except (TypeError, ValueError):
                raise errors.ShapeError(
                    f"{shown(k)} is not a slice of axis {axis}: pass whole numbers as its ends"
                ) from None
            if step != 1:
                raise errors.UnsupportedError(
                    f"slices with step {step} are not supported: use a slice without a step, or multiply with "
                    "a plain matrix that selects"
                )
            if stop <= start:
                raise errors.ShapeError(
                    f"the slice {start}:{stop} of axis {axis} is empty: select at least one element"
                )
            ranges.append((start, stop))
            result.append(stop - start)
            continue
        try:
            index = operator.index(k)  # type: ignore[arg-type]
        except TypeError:
            raise errors.UnsupportedError(
                f"{shown(k)} cannot index an encrypted array: use integers and slices, or multiply with a plain "
                "matrix that selects"
            ) from None
        if isinstance(k, (bool, np.bool_)) or not -size <= index < size:
            raise errors.ShapeError(
                f"index {shown(k)} is out of bounds for axis {axis} with size {size}"
            )
        ranges.append((index % size, index % size + 1))
    return ranges, result


def _reshaped_as(function: Callable[..., Any], a: EncryptedArray, axis: object) -> EncryptedArray:
    """Returns the elements in the shape that a function of NumPy gives."""
    try:
        shape = function(np.broadcast_to(0.0, a.shape), axis).shape
    except (TypeError, ValueError, OverflowError) as error:
        raise errors.ShapeError(f"axis is {shown(axis)} for the shape {a.shape}: {error}") from None
    return a.reshape(shape)


def _sum(a: EncryptedArray, axis: Axes = None, keepdims: bool = False) -> EncryptedArray:
    return a.sum(axis, keepdims)


EncryptedArray._ufuncs = {
    **ufuncs(EncryptedArray),
    "add.reduce": _sum,
    "divide": _divide,
    "true_divide": _divide,
    "power": _power,
    "float_power": _power,
    "square": lambda a: _power(a, 2),
}

EncryptedArray._functions = {
    **FUNCTIONS,
    "sum": _sum,
    "mean": lambda a, axis=None, keepdims=False: a.mean(axis, keepdims),
    "var": lambda a, axis=None, ddof=0, keepdims=False: a.var(axis, ddof, keepdims),
    "dot": EncryptedArray._dot,
    "transpose": lambda a, axes=None: a.transpose() if axes is None else a.transpose(axes),
    "expand_dims": lambda a, axis: _reshaped_as(np.expand_dims, a, axis),
    "squeeze": lambda a, axis=None: _reshaped_as(np.squeeze, a, axis),
}
