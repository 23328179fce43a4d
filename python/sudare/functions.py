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

import math
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
    "polynomial",
    "relu",
    "sigmoid",
    "sign",
    "sqrt",
    "step",
    "tanh",
]

Interval = tuple[float, float]


def _number(value: object, what: str) -> float:
    """A finite number; messages call it `what`."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if isinstance(value, (str, bytes)) or not math.isfinite(number):
        raise errors.ArgumentError(f"{what} is {value!r}: give a finite number")
    return number


def _ends(interval: object) -> Interval:
    """The start and the end of an interval."""
    ends: tuple[object, ...]
    try:
        ends = tuple(interval)  # type: ignore[arg-type]
        start, end = ends
    except (TypeError, ValueError):
        raise errors.ArgumentError(
            f"{interval!r} is not an interval: give its start and its end, such as (-8, 8)"
        ) from None
    return _number(start, "the start of the interval"), _number(end, "the end of the interval")


class _Fitted:
    """The common part of functions of one number and of two."""

    __slots__ = ("_native", "gap", "interval", "name")

    def __init__(
        self,
        name: str,
        interval: Interval,
        degree: int | None,
        precision_bits: float,
        gap: float = 0.0,
    ) -> None:
        if degree is not None:
            degree = whole(degree, "the degree")
        bits = _number(precision_bits, "precision_bits")
        self.name = name
        self.interval = _ends(interval)
        self.gap = _number(gap, "the gap")
        self._native = _native.Function(name, self.interval, self.gap, degree, bits)

    @property
    def max_error(self) -> float:
        """The largest error of the approximation on the interval, the gap left out. It is measured
        in the clear; `stated_error` adds the errors of encryption."""
        return self._native.max_error

    def stated_error(self, noise: float = 2**-20, between: float | None = None) -> float:
        """The largest error of an encrypted result.

        It holds if no argument is off by more than `noise`, which the function amplifies where it
        is steep, and no value between two polynomials by more than `between`, a quarter of `noise`
        if you do not give it. The default is six standard deviations of a new array in the largest
        ring at the default scale. With bootstrapping give eight times its mean error for both:
        `2**-18` for the set `n16-boot`, `2**-10` for `n16-boot-fast`.
        """
        argument = _number(noise, "noise")
        rest = argument / 4 if between is None else _number(between, "between")
        if min(argument, rest) < 0:
            raise errors.ArgumentError(f"noise is {min(argument, rest)}: give a positive number")
        return self._native.stated_error(argument, rest)

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

    @classmethod
    def _polynomial(cls, coefficients: object, interval: object) -> Function:
        numbers = floats(coefficients)
        if numbers.ndim != 1:
            raise errors.ShapeError(
                f"coefficients have the shape {numbers.shape}: give a list, that of degree 0 first"
            )
        function = cls.__new__(cls)
        function.name = "polynomial"
        function.interval = _ends(interval)
        function.gap = 0.0
        function._native = _native.Function.polynomial(numbers.tolist(), function.interval)
        return function

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


def polynomial(coefficients: object, interval: Interval) -> Function:
    """`sum(c * x**n for n, c in enumerate(coefficients))`, for numbers in `interval`.

    Real coefficients, that of degree 0 first, up to degree 255. It is evaluated in Chebyshev
    polynomials of the interval, whose values stay small, and its depth is the number of binary
    digits of its degree. `max_error` is what rounding the coefficients costs.
    """
    return Function._polynomial(coefficients, interval)


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
