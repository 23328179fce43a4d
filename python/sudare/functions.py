"""Functions of encrypted numbers, as polynomials on an interval.

Each is made once, in the clear, for numbers in an interval and to a precision, says the error that
it reaches, and is then called on arrays:

>>> import sudare
>>> sigmoid = sudare.functions.sigmoid((-8, 8), precision_bits=10)
>>> sigmoid.max_error < 2**-10
True

Numbers outside the interval give wrong results, far from the function: whoever computes cannot see
them. Nothing else may be known of the numbers; a wide interval takes a polynomial of a large
degree, hence levels, which `Context.explain` counts.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sudare import _native, errors
from sudare._array import EncryptedArray, _binary, encrypted
from sudare._native import Op
from sudare._plain import Floats, floats, from_native, to_native, whole

__all__ = [
    "Function",
    "PairFunction",
    "abs",
    "compare",
    "exp",
    "inverse",
    "log",
    "maximum",
    "minimum",
    "relu",
    "sigmoid",
    "sign",
    "sqrt",
    "step",
    "tanh",
]

Interval = tuple[float, float]


class _Fitted:
    """What functions of one number and of two have in common."""

    __slots__ = ("_native", "gap", "interval", "name")

    def __init__(
        self,
        name: str,
        interval: Interval,
        degree: int | None,
        precision_bits: float,
        gap: float = 0.0,
    ) -> None:
        if np.shape(interval) != (2,):
            raise errors.ArgumentError(
                f"{interval!r} is no interval: give its start and its end, such as (-8, 8)"
            )
        start, end = floats(interval)
        if degree is not None:
            degree = whole(degree, "the degree")
        self.name = name
        self.interval = (float(start), float(end))
        self.gap = float(gap)
        self._native = _native.Function(name, self.interval, self.gap, degree, precision_bits)

    @property
    def max_error(self) -> float:
        """The largest error on the interval, the gap left out, measured in the clear; what
        encryption adds, simulation knows."""
        return self._native.max_error

    @property
    def depth(self) -> int:
        """Levels that it takes at least."""
        return self._native.depth

    @property
    def degrees(self) -> tuple[int, ...]:
        """Degrees of the polynomials that are evaluated one after the other."""
        return tuple(self._native.degrees)

    def _evaluate(self, operands: list[Floats], exact: bool) -> Floats:
        equal = np.broadcast_arrays(*operands)
        native = [to_native(np.ascontiguousarray(x)) for x in equal]
        return from_native(self._native.evaluate(native, exact)).reshape(equal[0].shape)

    def __repr__(self) -> str:
        gap = f", gap={self.gap:g}" if self.gap else ""
        return (
            f"{self.name} on [{self.interval[0]:g}, {self.interval[1]:g}]"
            f"(error={self.max_error:.1e}{gap}, degrees={list(self.degrees)}, depth={self.depth})"
        )


class Function(_Fitted):
    """A function of each element of an array."""

    __slots__ = ()

    def __call__(self, x: EncryptedArray) -> EncryptedArray:
        """The function of every element of `x`, which lies in the interval."""
        return encrypted(x)._apply(Op.function(self._native))

    def in_the_clear(self, x: object) -> Floats:
        """What is computed instead of the function, of plain numbers."""
        return self._evaluate([floats(x)], False)

    def exact(self, x: object) -> Floats:
        """The function itself, of plain numbers."""
        return self._evaluate([floats(x)], True)


class PairFunction(_Fitted):
    """A function of pairs of elements of two arrays, with broadcasting."""

    __slots__ = ()

    def __call__(self, a: object, b: object) -> EncryptedArray:
        """The function of pairs of elements in the interval; one of both may be plain."""
        return _binary(Op.function(self._native), a, b)

    def in_the_clear(self, a: object, b: object) -> Floats:
        """What is computed instead of the function, of plain numbers."""
        return self._evaluate([floats(a), floats(b)], False)

    def exact(self, a: object, b: object) -> Floats:
        """The function itself, of plain numbers."""
        return self._evaluate([floats(a), floats(b)], True)


def _smooth(name: str, what: str) -> Callable[..., Function]:
    def make(
        interval: Interval, *, degree: int | None = None, precision_bits: float = 16
    ) -> Function:
        return Function(name, interval, degree, precision_bits)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = (
        f"{what}, for numbers in `interval`: by a polynomial of `degree`, 255 at most, or of the "
        "least depth with an error of at most `2**-precision_bits`."
    )
    return make


inverse = _smooth("inverse", "`1 / x`, for a positive interval")
exp = _smooth("exp", "The exponential")
log = _smooth("log", "The natural logarithm, for a positive interval")
sqrt = _smooth("sqrt", "The square root, for an interval that is not negative")
sigmoid = _smooth("sigmoid", "`1 / (1 + exp(-x))`")
tanh = _smooth("tanh", "The hyperbolic tangent")
relu = _smooth("relu", "`max(x, 0)`")
abs = _smooth("abs", "The absolute value")


def sign(
    interval: Interval, *, gap: float, degree: int | None = None, precision_bits: float = 16
) -> Function:
    """-1 or 1, for numbers in `interval`; anything between for those nearer to 0 than `gap`."""
    return Function("sign", interval, degree, precision_bits, gap)


def step(
    interval: Interval, *, gap: float, degree: int | None = None, precision_bits: float = 16
) -> Function:
    """1 for positive numbers and 0 for negative ones; anything between for those nearer to 0 than
    `gap`."""
    return Function("step", interval, degree, precision_bits, gap)


def compare(
    interval: Interval, *, gap: float, degree: int | None = None, precision_bits: float = 16
) -> PairFunction:
    """1 where the first number of a pair in `interval` is the larger one, and 0 where the second
    one is; anything between for numbers that differ by less than `gap`."""
    return PairFunction("compare", interval, degree, precision_bits, gap)


def maximum(
    interval: Interval, *, degree: int | None = None, precision_bits: float = 16
) -> PairFunction:
    """The larger of two numbers in `interval`."""
    return PairFunction("maximum", interval, degree, precision_bits)


def minimum(
    interval: Interval, *, degree: int | None = None, precision_bits: float = 16
) -> PairFunction:
    """The smaller of two numbers in `interval`."""
    return PairFunction("minimum", interval, degree, precision_bits)
