"""Encrypted arrays of integers."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from sudare import _native, errors
from sudare._encrypted import FUNCTIONS, Encrypted, ufuncs
from sudare._native import Op
from sudare._plain import array_of, shown, whole

Ints: TypeAlias = npt.NDArray[np.int64]
"""Integers."""

_MOST = 2**63 - 1


def integers(values: object) -> Ints:
    """Converts `values` to an array of integers."""
    array = array_of(values)
    if array.dtype.kind == "f" and not hasattr(values, "dtype"):
        # NumPy converts integers to floats if some fit no signed word and others no unsigned one.
        exact = np.asarray(values, dtype=object)
        array = exact if _whole(exact) else array
    if array.dtype.kind == "O" and _whole(array):
        _refuse_beyond_words(array)
        array = array.astype(np.int64)
    if array.dtype.kind not in "biu":
        raise errors.DtypeError(
            f"values have the type {array.dtype}, but integers are needed: round them, or use "
            "sudare.Context, which computes with real numbers"
        )
    if array.dtype.kind == "u":
        _refuse_beyond_words(array)
    return np.asarray(array, dtype=np.int64, order="C")


def _whole(array: np.ndarray[Any, np.dtype[Any]]) -> bool:
    """Tells whether all objects in an array are integers."""
    return all(isinstance(x, int | np.integer) for x in array.flat)


def _refuse_beyond_words(array: np.ndarray[Any, np.dtype[Any]]) -> None:
    for index, value in enumerate(array.flat):
        if not -_MOST <= int(value) <= _MOST:
            raise errors.of_kind(
                "ValueOutOfRange",
                f"value {index} is {shown(value)}, but integers must lie below the modulus, which has at most "
                "62 bits: use smaller ones",
            )


class Backend(Protocol):
    """A context that computes with arrays of integers."""

    def _apply(self, op: Op, operands: list[Any]) -> EncryptedIntegers: ...


class EncryptedIntegers(Encrypted[Backend]):
    """An array of integers modulo `t` that only the owner of the secret key can read.

    An array has any shape, and consists of one or more ciphertexts. Results are exact: sums and products
    are the results of NumPy, reduced modulo `t`. A product takes a level. So does a product with a scalar
    of more than 16 in magnitude, or with a plain array. Operations whose result might not decrypt are
    refused. Arrays come from `IntegerContext.encrypt` and `IntegerContext.load`, and never change.
    """

    __slots__ = ()

    _native = _native.Integers
    _plain: ClassVar[Any] = staticmethod(integers)
    _instead = "compute a polynomial modulo t, x.polynomial(coefficients)"
    _missing = "/, //, %, abs, round, float and int"

    @property
    def dtype(self) -> np.dtype[np.int64]:
        """The type of decrypted elements: `int64`."""
        return np.dtype(np.int64)

    @property
    def level(self) -> int | None:
        """Levels that are left; `None` before `IntegerContext.attach`."""
        level: int | None = self._value.level
        return level

    @property
    def key_id(self) -> str:
        """The key pair, in hexadecimal."""
        key: str = self._value.key_id
        return key

    def __repr__(self) -> str:
        value = self._value
        parts = [f"shape={self.shape}"]
        if value.level is not None and value.blocks is not None:
            parts.append(f"level={value.level}")
            parts.append(f"{value.blocks} ciphertext{'' if value.blocks == 1 else 's'}")
        parts += [f"{value.nbytes / 1e6:.1f} MB", f"key_id={value.key_id}"]
        return f"EncryptedIntegers({', '.join(parts)})"

    # Arithmetic.

    def __pow__(self, exponent: object) -> EncryptedIntegers:
        return self._apply(Op.power(whole(exponent, "an exponent", 1, 2**62)))

    __truediv__ = __rtruediv__ = __rpow__ = Encrypted._refuse

    def square(self) -> EncryptedIntegers:
        """Returns the square of each element, a level below."""
        return self * self

    def polynomial(self, coefficients: object) -> EncryptedIntegers:
        """Returns `sum(c * x**n for n, c in enumerate(coefficients))` of each element, modulo `t`.

        It takes one level for each binary digit of its degree.
        """
        coeffs = integers(coefficients)
        if coeffs.ndim != 1:
            raise errors.ShapeError(
                f"coefficients have the shape {coeffs.shape}: pass a list, degree 0 first"
            )
        return self._apply(Op.polynomial(coeffs))

    # Slots.

    def rotate(self, k: int) -> EncryptedIntegers:
        """Returns `numpy.roll(x, -k, axis=-1)`, where the last two axes are the two rows of slots.

        The shape is `(2, c)`, where `c` is a power of two, or a stack `(..., 2, c)` with `2 * c` slots of
        the context. A rotation takes one key switch for each binary digit 1 of `k`.
        """
        return self._apply(Op.rotate(whole(k, "k", -(2**62), 2**62)))

    def swap_rows(self) -> EncryptedIntegers:
        """Returns `numpy.flip(x, axis=-2)` of an array that can be rotated, with one key switch."""
        return self._apply(Op.swap_rows())

    def sum(self) -> EncryptedIntegers:
        """Returns the sum of all elements, as an array without axes.

        It takes a level if a product follows.
        """
        return self._apply(Op.sum(axes=range(self.ndim), keepdims=False))

    # Shapes.

    def _reshaped(self, sizes: list[int]) -> EncryptedIntegers:
        return EncryptedIntegers(self._context, self._value.reshaped(sizes))

    def _elements(self, *_key: object) -> NoReturn:
        raise errors.UnsupportedError(
            "encrypted integers do not support indexing: multiply with an array of 0 and 1, or with a "
            "plain matrix that selects"
        )

    __getitem__ = __iter__ = _elements


EncryptedIntegers._ufuncs = {
    **ufuncs(EncryptedIntegers),
    "square": lambda a: a.square(),
    "power": lambda a, b: EncryptedIntegers._of(a) ** b,
}
EncryptedIntegers._functions = {
    **FUNCTIONS,
    "sum": lambda a: a.sum(),
    "dot": EncryptedIntegers._dot,
}
