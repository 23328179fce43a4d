"""Encrypted arrays of integers."""

from __future__ import annotations

import math
import operator
import os
import pickle
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Protocol, SupportsIndex, TypeAlias

import numpy as np
import numpy.typing as npt

from sudare import _native, errors
from sudare._array import _by_name, _call, _flat
from sudare._native import IntegerEngine
from sudare._plain import Native, whole

Ints: TypeAlias = npt.NDArray[np.int64]
"""Integers."""

_MOST = 2**63 - 1


def integers(values: object) -> Ints:
    """`values` as an array of integers."""
    try:
        array = np.asarray(values)
    except (ValueError, OverflowError) as error:
        raise errors.ShapeError(
            f"values make no array ({error}): give rows of equal length"
        ) from None
    if 0 in array.shape:
        raise errors.ShapeError(
            f"an array of shape {array.shape} has no values: give at least one along every axis"
        )
    if array.dtype.kind == "f" and not hasattr(values, "dtype"):
        # NumPy makes floats of integers some of which fit no signed word and some no unsigned one.
        exact = np.asarray(values, dtype=object)
        array = exact if _whole(exact) else array
    if array.dtype.kind == "O" and _whole(array):
        _refuse_beyond_words(array)
        array = array.astype(np.int64)
    if array.dtype.kind not in "biu":
        raise errors.DtypeError(
            f"values of type {array.dtype} cannot be encrypted or computed with here: integers are "
            "needed; round them, or use sudare.Context, which computes with real numbers"
        )
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise errors.DtypeError("masked values have no number: fill them first")
    if array.dtype.kind == "u":
        _refuse_beyond_words(array)
    return np.asarray(array, dtype=np.int64, order="C")


def _whole(array: np.ndarray[Any, np.dtype[Any]]) -> bool:
    """Whether all objects in an array are integers."""
    return all(isinstance(x, int | np.integer) for x in array.flat)


def _refuse_beyond_words(array: np.ndarray[Any, np.dtype[Any]]) -> None:
    for index, value in enumerate(array.flat):
        if not -_MOST <= int(value) <= _MOST:
            raise errors.ValueOutOfRangeError(
                f"value {index} is {value}: integers below the modulus can be encrypted, which "
                "has at most 62 bits"
            )


def to_native(array: Ints) -> Native:
    """What native code takes."""
    return list(array.shape), array.tobytes()


def from_native(native: Native) -> Ints:
    """What native code gives."""
    shape, data = native
    return np.frombuffer(data, dtype=np.int64).reshape(shape).copy()


class Backend(Protocol):
    """Where arrays are computed with."""

    @property
    def _engine(self) -> IntegerEngine: ...

    @property
    def _callback(self) -> Callable[[str, int, int], object] | None: ...


class EncryptedIntegers:
    """An array of integers modulo `t` that only the owner of the secret key can read.

    It has any shape and lies in as many ciphertexts as that takes. Results are exact: sums and
    products are those of NumPy, reduced modulo `t`. Products take a level each, and one of an array
    with a scalar of more than 16 in size or with a plain array does, too. What might not decrypt is
    refused before it is computed. Arrays come from `IntegerContext.encrypt` and
    `IntegerContext.load`, and are never changed.
    """

    __slots__ = ("_backend", "_value", "__weakref__")

    __array_priority__ = 1000.0
    # Above that of frames, which would take an array on their right for a list.
    __pandas_priority__ = 5000
    __hash__ = object.__hash__

    def __init__(self, backend: Backend | None, value: _native.Integers) -> None:
        self._backend = backend
        self._value = value

    # What is public.

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements along each axis."""
        return tuple(self._value.shape)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def dtype(self) -> np.dtype[np.int64]:
        """The type of what decrypts: `int64`."""
        return np.dtype(np.int64)

    @property
    def level(self) -> int | None:
        """Levels that are left; `None` before `IntegerContext.attach`."""
        return self._value.level

    @property
    def nbytes(self) -> int:
        """Bytes of its ciphertexts."""
        return self._value.nbytes

    @property
    def key_id(self) -> str:
        """The key pair, in hexadecimal."""
        return self._value.key_id

    def __repr__(self) -> str:
        value = self._value
        parts = [f"shape={self.shape}"]
        if value.level is not None and value.blocks is not None:
            parts.append(f"level={value.level}")
            parts.append(f"{value.blocks} ciphertext{'' if value.blocks == 1 else 's'}")
        parts += [f"{value.nbytes / 1e6:.1f} MB", f"key_id={value.key_id}"]
        return f"EncryptedIntegers({', '.join(parts)})"

    def __len__(self) -> int:
        if not self.shape:
            raise errors.ShapeError("an array without axes has no length: use .size")
        return self.shape[0]

    # Files and other processes.

    def to_bytes(self) -> bytes:
        """The array as the bytes of its file. Keys are not in it."""
        return self._value.to_bytes()

    @staticmethod
    def from_bytes(data: object) -> EncryptedIntegers:
        """The array that `to_bytes` gave, without a context: `IntegerContext.attach` gives it
        one."""
        return EncryptedIntegers(None, _native.Integers.from_bytes(data))

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Writes the array to a file. Keys are not in it."""
        self._value.save(path, overwrite=overwrite)

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        data: Any = self.to_bytes()
        if operator.index(protocol) >= 5:
            data = pickle.PickleBuffer(data)
        return EncryptedIntegers.from_bytes, (data,)

    # Arithmetic.

    def __add__(self, other: object) -> EncryptedIntegers:
        return _add(self, other)

    def __radd__(self, other: object) -> EncryptedIntegers:
        return _add(other, self)

    def __sub__(self, other: object) -> EncryptedIntegers:
        return _sub(self, other)

    def __rsub__(self, other: object) -> EncryptedIntegers:
        return _sub(other, self)

    def __mul__(self, other: object) -> EncryptedIntegers:
        return _mul(self, other)

    def __rmul__(self, other: object) -> EncryptedIntegers:
        return _mul(other, self)

    def __matmul__(self, other: object) -> EncryptedIntegers:
        return _matmul(self, other)

    def __rmatmul__(self, other: object) -> EncryptedIntegers:
        return _matmul(other, self)

    def __neg__(self) -> EncryptedIntegers:
        backend = _backend(self)
        return EncryptedIntegers(backend, backend._engine.neg(self._value))

    def __pos__(self) -> EncryptedIntegers:
        return self

    def __pow__(self, exponent: object) -> EncryptedIntegers:
        power = whole(exponent, "an exponent", 1, 2**62)
        backend = _backend(self)
        value = backend._engine.power(self._value, power, backend._callback)
        return EncryptedIntegers(backend, value)

    def _refuse(self, *_others: object) -> NoReturn:
        raise errors.UnsupportedError(
            "encrypted integers have no /, //, %, abs, round, float and int: functions of them are "
            "polynomials modulo t, x.polynomial(coefficients)"
        )

    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = _refuse
    __mod__ = __rmod__ = __divmod__ = __rdivmod__ = __rpow__ = _refuse
    __abs__ = __round__ = __float__ = __int__ = _refuse

    def square(self) -> EncryptedIntegers:
        """The square of each element, a level below."""
        return _mul(self, self)

    def polynomial(self, coefficients: object) -> EncryptedIntegers:
        """The value of `sum(c * x**n for n, c in enumerate(coefficients))` at each element, modulo
        `t`. A polynomial of degree `d` takes as many levels as `d` has binary digits."""
        coeffs = integers(coefficients)
        if coeffs.ndim != 1:
            raise errors.ShapeError(
                f"coefficients have the shape {coeffs.shape}: give a list, that of degree 0 first"
            )
        backend = _backend(self)
        value = backend._engine.polynomial(self._value, to_native(coeffs), backend._callback)
        return EncryptedIntegers(backend, value)

    # Slots.

    def rotate(self, k: int) -> EncryptedIntegers:
        """`numpy.roll(x, -k, axis=-1)`, where the last two axes are the two rows of slots: of
        arrays of shape `(2, c)`, `c` a power of two, and of any stack of shape `(..., 2, c)` with
        `2 * c` slots of the context. One key switch for each binary digit 1 of `k`."""
        steps = whole(k, "k", -(2**62), 2**62)
        backend = _backend(self)
        value = backend._engine.rotate(self._value, steps, backend._callback)
        return EncryptedIntegers(backend, value)

    def swap_rows(self) -> EncryptedIntegers:
        """`numpy.flip(x, axis=-2)` of arrays that can be rotated: one key switch."""
        backend = _backend(self)
        return EncryptedIntegers(backend, backend._engine.swap_rows(self._value))

    def sum(self) -> EncryptedIntegers:
        """The sum of all elements, as an array without axes. Where a product follows, it takes a
        level."""
        backend = _backend(self)
        return EncryptedIntegers(backend, backend._engine.sum(self._value, backend._callback))

    def dot(self, other: object) -> EncryptedIntegers:
        """The product with a scalar, a vector or a plain matrix, as `numpy.dot`; of two encrypted
        vectors, too."""
        return _dot(self, other)

    # Shapes.

    def reshape(self, *shape: int | Sequence[int]) -> EncryptedIntegers:
        """The same elements in C order in another shape, of which one size may be -1."""
        sizes = _flat(shape)
        if sizes.count(-1) == 1:
            known = -math.prod(sizes)
            if known > 0 and self.size % known == 0:
                sizes = [self.size // known if size == -1 else size for size in sizes]
        if any(size < 0 for size in sizes) or math.prod(sizes) != self.size:
            raise errors.ShapeError(
                f"{self.size} elements do not fit the shape {tuple(sizes)}: choose one with as "
                "many elements"
            )
        return EncryptedIntegers(_backend(self), self._value.reshaped(sizes))

    def ravel(self) -> EncryptedIntegers:
        """The elements in one axis."""
        return self.reshape(-1)

    # What Python or NumPy would do without asking.

    # What it returns is for type checkers: by it, NumPy's operators and functions of encrypted
    # arrays are of any type.
    def __array__(self, *_args: object, **_kwargs: object) -> np.ndarray[Any, np.dtype[Any]]:
        raise errors.UnsupportedError(
            "an encrypted array has no values to make a NumPy array of: decrypt it with its "
            "owner's context, ctx.decrypt(x); to multiply with a frame or a series of pandas, "
            "write frame.to_numpy() @ x"
        )

    def _elements(self, *_key: object) -> NoReturn:
        raise errors.UnsupportedError(
            "elements of encrypted integers are not taken one by one: multiply with an array of 0 "
            "and 1, or with a plain matrix that selects"
        )

    __getitem__ = __iter__ = _elements

    def __bool__(self) -> NoReturn:
        raise errors.UnsupportedError(
            "a condition on an encrypted value cannot be known: compute both branches and weigh "
            "them, or let the owner decrypt"
        )

    def _compare(self, other: object) -> NoReturn:
        raise errors.UnsupportedError(
            "encrypted values cannot be compared with ==, != and <: compute a polynomial that is 1 "
            "where they are equal, or let the owner decrypt"
        )

    # Without these, == would silently compare identities.
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _compare

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any
    ) -> EncryptedIntegers:
        name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
        function = _UFUNCS.get(name)
        if function is None:
            raise _unsupported(f"numpy.{name}")
        result: EncryptedIntegers = _call(name, function, inputs, options)
        return result

    def __array_function__(
        self,
        function: Callable[..., Any],
        _types: object,
        args: Sequence[Any],
        options: dict[str, Any],
    ) -> Any:
        name = function.__name__
        if name not in _FUNCTIONS:
            raise _unsupported(f"{function.__module__}.{name}")
        return _call(name, _FUNCTIONS[name], *_by_name(function, args, options))


def encrypted(x: object) -> EncryptedIntegers:
    """`x`, which must be encrypted."""
    if not isinstance(x, EncryptedIntegers):
        raise errors.UnsupportedError(
            f"a {type(x).__name__} was given, but encrypted integers are needed: encrypt them first "
            "with IntegerContext.encrypt"
        )
    return x


def _backend(array: EncryptedIntegers) -> Backend:
    if array._backend is None:
        raise errors.DetachedError(
            "this array came from another process or from bytes, without keys: give it a context "
            "with ctx.attach(x)"
        )
    return array._backend


_Operand: TypeAlias = _native.Integers | Native


def _operands(left: object, right: object) -> tuple[Backend, _Operand, _Operand]:
    """Where two operands are computed with, and what native code takes for them."""
    held = [x for x in (left, right) if isinstance(x, EncryptedIntegers)]
    if not held:
        raise errors.UnsupportedError("neither operand is encrypted: encrypt one of them")
    backend = _backend(next((x for x in held if x._backend is not None), held[0]))

    def native(x: object) -> _Operand:
        return x._value if isinstance(x, EncryptedIntegers) else to_native(integers(x))

    return backend, native(left), native(right)


def _add(left: object, right: object) -> EncryptedIntegers:
    backend, a, b = _operands(left, right)
    return EncryptedIntegers(backend, backend._engine.add(a, b, backend._callback))


def _sub(left: object, right: object) -> EncryptedIntegers:
    backend, a, b = _operands(left, right)
    return EncryptedIntegers(backend, backend._engine.sub(a, b, backend._callback))


def _mul(left: object, right: object) -> EncryptedIntegers:
    backend, a, b = _operands(left, right)
    return EncryptedIntegers(backend, backend._engine.mul(a, b, backend._callback))


def _matmul(left: object, right: object) -> EncryptedIntegers:
    backend, a, b = _operands(left, right)
    return EncryptedIntegers(backend, backend._engine.matmul(a, b, backend._callback))


def _dot(a: Any, b: Any) -> EncryptedIntegers:
    return _mul(a, b) if 0 in (np.ndim(a), np.ndim(b)) else _matmul(a, b)


def _negative(a: EncryptedIntegers) -> EncryptedIntegers:
    return -a


def _sum(a: EncryptedIntegers) -> EncryptedIntegers:
    return a.sum()


def _unsupported(name: str) -> errors.UnsupportedError:
    supported = ", ".join(sorted({*_FUNCTIONS, *_UFUNCS}))
    return errors.UnsupportedError(
        f"{name} does not work on encrypted integers: these NumPy functions do: {supported}; others "
        "are polynomials modulo t, x.polynomial(coefficients)"
    )


_UFUNCS: dict[str, Callable[..., EncryptedIntegers]] = {
    "add": _add,
    "subtract": _sub,
    "multiply": _mul,
    "matmul": _matmul,
    "negative": _negative,
    "positive": lambda a: a,
    "square": lambda a: a.square(),
    "power": lambda a, b: encrypted(a) ** b,
}

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sum": _sum,
    "dot": _dot,
    # The second name is that of NumPy before 2.1.
    "reshape": lambda a, shape=None, newshape=None: a.reshape(
        newshape if shape is None else shape
    ),
    "ravel": lambda a: a.ravel(),
    "shape": lambda a: a.shape,
    "ndim": lambda a: a.ndim,
    "size": lambda a: a.size,
}
