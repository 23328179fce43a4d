"""Functions of encrypted numbers, as polynomials on an interval.

Make a function once, in the clear, for an interval and a precision. It states its error. Then call it on
arrays:

>>> import sudare
>>> sigmoid = sudare.functions.sigmoid((-8, 8), precision_bits=10)
>>> sigmoid.max_error < 2**-10
True

Numbers outside the interval would give results far from the function, and the server cannot see
them. Arrays know ranges for their elements, so that calls which could leave the interval are refused. A
wide interval needs a polynomial of a high degree, and so more levels, which `Context.explain` counts.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sudare import _native, errors
from sudare._array import EncryptedArray
from sudare._native import Op
from sudare._plain import Floats, ends_of, floats, optional, real, whole

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


def __dir__() -> list[str]:
    return sorted(__all__)

Interval = tuple[float, float]


class _Fitted:
    """The common part of functions of one number and of two numbers."""

    __slots__ = ("_native", "gap", "interval", "name")

    def __init__(
        self,
        name: str,
        interval: Interval,
        degree: int | None,
        precision_bits: float,
        gap: float = 0.0,
    ) -> None:
        degree = optional(whole, degree, "degree")
        bits = real(precision_bits, "precision_bits")
        self.name = name
        self.interval = ends_of(interval, "the interval")
        self.gap = real(gap, "gap")
        self._native = _native.Function(name, self.interval, self.gap, degree, bits)

    @property
    def max_error(self) -> float:
        """The largest error of the approximation on the interval without the gap.

        It is measured in the clear. `stated_error` adds the errors of encryption.
        """
        return self._native.max_error

    def stated_error(self, noise: float = 2**-20, between: float | None = None) -> float:
        """Returns the largest error of an encrypted result.

        With bootstrapping, pass eight times its mean error for both arguments: `2**-18` for the set
        `n16-boot`, `2**-10` for `n16-boot-fast`.

        Parameters
        ----------
        noise : float, default 2**-20
            The largest error of an argument, which the function amplifies where it is steep. The default
            is six standard deviations of a new array in the largest ring at the default scale.
        between : float, optional
            The largest error of a value between two polynomials; a quarter of `noise` by default.
        """
        argument = real(noise, "noise")
        rest = argument / 4 if between is None else real(between, "between")
        if min(argument, rest) < 0:
            raise errors.ArgumentError(f"noise is {min(argument, rest)}: pass a positive number")
        return self._native.stated_error(argument, rest)

    @property
    def depth(self) -> int:
        """The minimum number of levels that it takes."""
        return self._native.depth

    @property
    def degrees(self) -> tuple[int, ...]:
        """The degrees of its polynomials, in the order of evaluation."""
        return tuple(self._native.degrees)

    def _evaluate(self, operands: list[Floats], exact: bool) -> Floats:
        try:
            equal = np.broadcast_arrays(*operands)
        except ValueError:
            raise errors.ShapeError(
                f"shapes {' and '.join(str(x.shape) for x in operands)} do not go together: pass shapes that "
                "broadcast"
            ) from None
        return self._native.evaluate(list(equal), exact)

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
                f"coefficients have the shape {numbers.shape}: pass a list, degree 0 first"
            )
        function = cls.__new__(cls)
        function.name = "polynomial"
        function.interval = ends_of(interval, "the interval")
        function.gap = 0.0
        function._native = _native.Function.polynomial(numbers.tolist(), function.interval)
        return function

    def __call__(self, x: EncryptedArray) -> EncryptedArray:
        """Returns the function of each element of `x`, which must lie in the interval."""
        return EncryptedArray._of(x)._apply(Op.function(self._native))

    def in_the_clear(self, x: object) -> Floats:
        """Evaluates the polynomials at plain numbers."""
        return self._evaluate([floats(x)], False)

    def exact(self, x: object) -> Floats:
        """Evaluates the function itself at plain numbers."""
        return self._evaluate([floats(x)], True)


class PairFunction(_Fitted):
    """A function of pairs of elements of two arrays, with broadcasting."""

    __slots__ = ()

    def __call__(self, a: object, b: object) -> EncryptedArray:
        """Returns the function of pairs of elements in the interval. One array may be plain."""
        return EncryptedArray._binary(Op.function(self._native), a, b)

    def in_the_clear(self, a: object, b: object) -> Floats:
        """Evaluates the polynomials at plain numbers."""
        return self._evaluate([floats(a), floats(b)], False)

    def exact(self, a: object, b: object) -> Floats:
        """Evaluates the function itself at plain numbers."""
        return self._evaluate([floats(a), floats(b)], True)


def _smooth(name: str, what: str) -> Callable[..., Function]:
    def make(
        interval: Interval, *, degree: int | None = None, precision_bits: float = 16
    ) -> Function:
        return Function(name, interval, degree, precision_bits)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = (
        f"{what}, for numbers in `interval`.\n\n"
        "    Parameters\n    ----------\n"
        "    interval : (float, float)\n        The lowest and the highest number.\n"
        "    degree : int, optional\n        The degree of the polynomial, at most 255.\n"
        "    precision_bits : float, default 16\n"
        "        Without `degree`: the polynomials have the minimum depth for an error of at most\n"
        "        `2**-precision_bits`.\n    "
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
    """Returns `sum(c * x**n for n, c in enumerate(coefficients))`, for numbers in `interval`.

    It is evaluated in Chebyshev polynomials of the interval, whose values stay small. Its depth is the
    number of binary digits of its degree. `max_error` is the error of rounding the coefficients.

    Parameters
    ----------
    coefficients : array_like
        Real coefficients, degree 0 first, up to degree 255.
    interval : (float, float)
        The lowest and the highest number.
    """
    return Function._polynomial(coefficients, interval)


def sign(
    interval: Interval, *, gap: float, degree: int | None = None, precision_bits: float = 16
) -> Function:
    """-1 for negative and 1 for positive numbers in `interval`.

    Numbers closer to 0 than `gap` give anything between.
    """
    return Function("sign", interval, degree, precision_bits, gap)


def step(
    interval: Interval, *, gap: float, degree: int | None = None, precision_bits: float = 16
) -> Function:
    """0 for negative and 1 for positive numbers in `interval`.

    Numbers closer to 0 than `gap` give anything between.
    """
    return Function("step", interval, degree, precision_bits, gap)


def compare(
    interval: Interval, *, gap: float, degree: int | None = None, precision_bits: float = 16
) -> PairFunction:
    """1 where the first number of a pair in `interval` is larger, and 0 where the second is larger.

    Numbers that differ by less than `gap` give anything between.
    """
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
