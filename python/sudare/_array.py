"""Encrypted arrays."""

from __future__ import annotations

import inspect
import math
import operator
import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from types import EllipsisType
from typing import Any, NoReturn, Protocol, SupportsIndex, TypeAlias

import numpy as np

from sudare import _native, errors
from sudare._native import Op
from sudare._plain import MOST, Floats, floats, whole

Axes: TypeAlias = int | Sequence[int] | None
"""One axis, several, or all of them."""

_Index: TypeAlias = SupportsIndex | slice | EllipsisType | None
Key: TypeAlias = _Index | tuple[_Index, ...]
"""What an array can be indexed with: integers, slices without a step, `...` and `None`."""


class Backend(Protocol):
    """Where arrays are computed with."""

    def _apply(self, op: Op, operands: list[EncryptedArray | Floats]) -> EncryptedArray: ...

    def _log2_error(self, array: EncryptedArray) -> float | None:
        """`log2` of the error to expect in an array, where it is known beforehand."""


class EncryptedArray:
    """An array of real numbers that only the owner of the secret key can read.

    It has any shape and lies in as many ciphertexts as that takes. Operators, methods and the
    NumPy functions of the same names compute on it; rescaling, alignment of levels and
    bootstrapping happen by themselves. What encryption cannot do raises `UnsupportedError`.
    Arrays come from `Context.encrypt` and `Context.load`, and are never changed.
    """

    __slots__ = ("_backend", "_value", "__weakref__")

    __array_priority__ = 1000.0
    # Above that of frames, which would take an array on their right for a list.
    __pandas_priority__ = 5000
    __hash__ = object.__hash__

    def __init__(self, backend: Backend | None, value: _native.Array) -> None:
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
    def dtype(self) -> np.dtype[np.float64]:
        """The type of what decrypts: `float64`."""
        return np.dtype(np.float64)

    @property
    def level(self) -> int | None:
        """The level; `None` before `Context.attach`."""
        return self._value.level

    @property
    def log2_scale(self) -> float | None:
        """`log2` of the scale; `None` before `Context.attach`."""
        return self._value.log2_scale

    @property
    def nbytes(self) -> int:
        """Bytes of its ciphertexts."""
        return self._value.nbytes

    @property
    def key_id(self) -> str | None:
        """The key pair, in hexadecimal; `None` in simulation."""
        return self._value.key_id

    @property
    def log2_error(self) -> float | None:
        """`log2` of the error to expect in an element: of the largest standard deviation of any
        ciphertext. An estimate.

        Known in simulation; else of results of the program that `Context.for_program` planned,
        without bootstrapping. These are recognised by shape, level and the operations that they come
        from.
        """
        known = self._value.log2_error
        if known is None and self._backend is not None:
            return self._backend._log2_error(self)
        return known

    @property
    def low(self) -> float | None:
        """No element is lower; `None` where that is not known."""
        return None if self._value.range is None else self._value.range[0]

    @property
    def high(self) -> float | None:
        """No element is higher; `None` where that is not known."""
        return None if self._value.range is None else self._value.range[1]

    def within(self, low: float, high: float) -> EncryptedArray:
        """The same array, whose elements you promise to lie from `low` to `high`.

        Use it where you know more than the ranges of the inputs tell, such as that a weighted sum
        stays within the interval of a function. Simulation refuses values outside. In execution
        nobody can see them: a promise that does not hold gives wrong results, which `decrypt`
        refuses only where they leave the range.
        """
        ends = floats([low, high])
        return self._apply(Op.within(float(ends[0]), float(ends[1])))

    @property
    def T(self) -> EncryptedArray:
        """The array with its axes in reverse order."""
        return self.transpose()

    def __repr__(self) -> str:
        value = self._value
        if value.level is None and value.key_id is None:
            return f"EncryptedArray of a program(shape={self.shape})"
        kind = "EncryptedArray" if value.key_id else "EncryptedArray in simulation"
        parts = [f"shape={self.shape}"]
        if value.level is not None and value.log2_scale is not None:
            parts += [f"level={value.level}", f"scale=2^{value.log2_scale:.1f}"]
        blocks = f"{value.blocks} ciphertext{'' if value.blocks == 1 else 's'}"
        parts.append(f"{blocks}, {value.nbytes / 1e6:.1f} MB")
        if value.key_id:
            parts.append(f"key_id={value.key_id}")
        if (error := self.log2_error) is not None:
            parts.append(f"error=2^{error:.1f}")
        return f"{kind}({', '.join(parts)})"

    def __len__(self) -> int:
        if not self.shape:
            raise errors.ShapeError("an array without axes has no length: use .size")
        return self.shape[0]

    # Files and other processes.

    def to_bytes(self) -> bytes:
        """The array as the bytes of its file. Keys are not in it."""
        return self._value.to_bytes()

    @staticmethod
    def from_bytes(data: object) -> EncryptedArray:
        """The array that `to_bytes` gave, without a context: `Context.attach` gives it one."""
        return EncryptedArray(None, _native.Array.from_bytes(data))

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Writes the array to a file. Keys are not in it."""
        self._value.save(path, overwrite=overwrite)

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        data: Any = self.to_bytes()
        if operator.index(protocol) >= 5:
            data = pickle.PickleBuffer(data)
        return EncryptedArray.from_bytes, (data,)

    # Arithmetic.

    def __add__(self, other: object) -> EncryptedArray:
        return _binary(Op.add(), self, other)

    def __radd__(self, other: object) -> EncryptedArray:
        return _binary(Op.add(), other, self)

    def __sub__(self, other: object) -> EncryptedArray:
        return _binary(Op.sub(), self, other)

    def __rsub__(self, other: object) -> EncryptedArray:
        return _binary(Op.sub(), other, self)

    def __mul__(self, other: object) -> EncryptedArray:
        return _binary(Op.mul(), self, other)

    def __rmul__(self, other: object) -> EncryptedArray:
        return _binary(Op.mul(), other, self)

    def __truediv__(self, other: object) -> EncryptedArray:
        return _divide(self, other)

    def __rtruediv__(self, other: object) -> EncryptedArray:
        return _divide(other, self)

    def __matmul__(self, other: object) -> EncryptedArray:
        return _binary(Op.matmul(), self, other)

    def __rmatmul__(self, other: object) -> EncryptedArray:
        return _binary(Op.matmul(), other, self)

    def __neg__(self) -> EncryptedArray:
        return self._apply(Op.neg())

    def __pos__(self) -> EncryptedArray:
        return self

    def __pow__(self, exponent: object) -> EncryptedArray:
        return _power(self, exponent)

    def __rpow__(self, base: object) -> EncryptedArray:
        return _power(base, self)

    def _refuse(self, *_others: object) -> NoReturn:
        raise errors.UnsupportedError(
            "encrypted values have no //, %, abs, round, float and int: functions of them are "
            "approximated on an interval by sudare.functions"
        )

    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __divmod__ = __rdivmod__ = _refuse
    __abs__ = __round__ = __float__ = __int__ = _refuse

    # Reductions.

    def sum(self, axis: Axes = None, keepdims: bool = False) -> EncryptedArray:
        """The sum along axes."""
        return self._apply(Op.sum(axes=self._axes(axis), keepdims=bool(keepdims)))

    def mean(self, axis: Axes = None, keepdims: bool = False) -> EncryptedArray:
        """The mean along axes."""
        return self._apply(Op.mean(axes=self._axes(axis), keepdims=bool(keepdims)))

    def var(self, axis: Axes = None, ddof: int = 0, keepdims: bool = False) -> EncryptedArray:
        """The variance along axes, with the divisor `n - ddof`."""
        axes, ddof = self._axes(axis), whole(ddof, "ddof", -MOST, MOST)
        count = math.prod(self.shape[i] for i in axes)
        if not 0 <= ddof < count:
            raise errors.ShapeError(
                f"a variance of {count} elements with ddof={ddof} divides by {count - ddof}: "
                f"choose ddof from 0 to {count - 1}"
            )
        return self._apply(Op.var(axes=axes, keepdims=bool(keepdims), ddof=ddof))

    def dot(self, other: object) -> EncryptedArray:
        """The product with a scalar, vector or matrix, as `numpy.dot`."""
        return _dot(self, other)

    # Shapes.

    def reshape(self, *shape: int | Sequence[int]) -> EncryptedArray:
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
        return self._apply(Op.reshape(shape=sizes))

    def ravel(self) -> EncryptedArray:
        """The elements in one axis."""
        return self.reshape(-1)

    def transpose(self, *axes: int | Sequence[int]) -> EncryptedArray:
        """The axes in another order; in reverse if none is given."""
        order = [_axis(axis, self.ndim) for axis in _flat(axes)] or list(range(self.ndim))[::-1]
        if sorted(order) != list(range(self.ndim)):
            raise errors.ShapeError(
                f"{tuple(order)} is no order of {self.ndim} axes: name each of them once"
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

    # What Python or NumPy would do without asking.

    # What it returns is for type checkers: by it, NumPy's operators and functions of encrypted
    # arrays are of any type.
    def __array__(self, *_args: object, **_kwargs: object) -> np.ndarray[Any, np.dtype[Any]]:
        raise errors.UnsupportedError(
            "an encrypted array has no values to make a NumPy array of: decrypt it with its "
            "owner's context, ctx.decrypt(x); to multiply with a frame, take frame.to_numpy() @ x"
        )

    def __bool__(self) -> NoReturn:
        raise errors.UnsupportedError(
            "a condition on an encrypted value cannot be known: compute both branches and weigh "
            "them, or let the owner decrypt"
        )

    def _compare(self, other: object) -> NoReturn:
        raise errors.UnsupportedError(
            "encrypted values cannot be compared with ==, != and <: take "
            "sudare.functions.compare, or let the owner decrypt"
        )

    # Without these, == would silently compare identities.
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _compare

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any
    ) -> EncryptedArray:
        name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
        function = _UFUNCS.get(name)
        if function is None:
            raise _unsupported(f"numpy.{name}")
        if method == "reduce":
            # NumPy reduces along the first axis if none is named.
            options.setdefault("axis", 0)
        result: EncryptedArray = _call(name, function, inputs, options)
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

    def _apply(self, op: Op, *others: EncryptedArray | Floats) -> EncryptedArray:
        return _backend(self)._apply(op, [self, *others])

    def _axes(self, axis: Axes) -> list[int]:
        if axis is None:
            return list(range(self.ndim))
        axes = [_axis(i, self.ndim) for i in (axis if isinstance(axis, Sequence) else [axis])]
        if len(set(axes)) < len(axes):
            raise errors.ShapeError(f"{tuple(axes)} names an axis twice: name each once")
        return sorted(axes)


def encrypted(x: object) -> EncryptedArray:
    """`x`, which must be encrypted."""
    if not isinstance(x, EncryptedArray):
        raise errors.UnsupportedError(
            f"a {type(x).__name__} was given, but an encrypted array is needed: encrypt it first "
            "with ctx.encrypt(x), or compute in the clear, as functions do with in_the_clear"
        )
    return x


def _backend(array: EncryptedArray) -> Backend:
    if array._backend is None:
        raise errors.DetachedError(
            "this array came from another process or from bytes, without keys: give it a context "
            "with ctx.attach(x)"
        )
    return array._backend


def _binary(op: Op, left: object, right: object) -> EncryptedArray:
    operands = [x if isinstance(x, EncryptedArray) else floats(x) for x in (left, right)]
    encrypted = [x for x in operands if isinstance(x, EncryptedArray)]
    if not encrypted:
        raise errors.UnsupportedError(
            "neither operand is encrypted: encrypt one of them, or compute in the clear, as "
            "functions do with in_the_clear"
        )
    attached = next((x for x in encrypted if x._backend is not None), encrypted[0])
    return _backend(attached)._apply(op, operands)


def _divide(left: object, right: object) -> EncryptedArray:
    if not isinstance(left, EncryptedArray) or isinstance(right, EncryptedArray):
        raise errors.UnsupportedError(
            "dividing by encrypted values is no single operation: multiply with "
            "sudare.functions.inverse(interval)(x), on the interval that they are in"
        )
    divisor = floats(right)
    if (divisor == 0).any():
        raise errors.NotFiniteError("a divisor is zero: divide by numbers other than zero")
    return left * (1.0 / divisor)


def _power(base: object, exponent: object) -> EncryptedArray:
    if isinstance(base, EncryptedArray) and not isinstance(exponent, EncryptedArray):
        value = floats(exponent)
        if value.shape == () and value == int(value) and 1 <= value <= 2**16:
            return base._apply(Op.power(exponent=int(value)))
    raise errors.UnsupportedError(
        "encrypted values can be raised to whole powers from 1 to 65536 only: other powers need "
        "an approximation on an interval"
    )


def _dot(a: Any, b: Any) -> EncryptedArray:
    ranks = np.ndim(a), np.ndim(b)
    if 0 in ranks:
        return _binary(Op.mul(), a, b)
    if max(ranks) > 2:
        raise errors.ShapeError(
            "dot of more than two axes pairs the last axis with the last but one: use @ for stacks "
            "of matrices"
        )
    return _binary(Op.matmul(), a, b)


def _axis(axis: object, ndim: int) -> int:
    index = whole(axis, "an axis", -MOST, MOST)
    if not -ndim <= index < ndim:
        raise errors.ShapeError(
            f"axis {index} is none of {ndim}: name one from {-ndim} to {ndim - 1}"
            if ndim
            else f"axis {index} is none of an array without axes: leave it out"
        )
    return index % ndim


def _flat(sizes: Sequence[int | Sequence[int]]) -> list[int]:
    """`f(1, 2)` and `f((1, 2))` mean the same."""
    if len(sizes) == 1 and isinstance(sizes[0], Sequence):
        sizes = sizes[0]
    return [whole(size, "an axis, or elements along one,", -MOST, MOST) for size in sizes]


def _selection(key: Key, shape: tuple[int, ...]) -> tuple[list[tuple[int, int]], list[int]]:
    """The range that `key` takes of each axis, and the shape of what it takes."""
    keys = list(key) if isinstance(key, tuple) else [key]
    named = sum(k is not None and k is not Ellipsis for k in keys)
    dots = sum(k is Ellipsis for k in keys)
    if dots > 1 or named > len(shape):
        raise errors.ShapeError(
            f"{named} indices and {dots} ellipses do not fit {len(shape)} axes: give at most one "
            "index for each axis and one ellipsis"
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
            start, stop, step = k.indices(size)
            if step != 1:
                raise errors.UnsupportedError(
                    f"a slice with step {step} would move every value: take a slice without a "
                    "step, or multiply with a plain matrix that selects"
                )
            if stop <= start:
                raise errors.ShapeError(
                    f"{start}:{stop} takes nothing of axis {axis}: take at least one element"
                )
            ranges.append((start, stop))
            result.append(stop - start)
            continue
        try:
            index = operator.index(k)  # type: ignore[arg-type]
        except TypeError:
            raise errors.UnsupportedError(
                f"{k!r} cannot index an encrypted array: use integers and slices, or multiply "
                "with a plain matrix that selects"
            ) from None
        if isinstance(k, (bool, np.bool_)) or not -size <= index < size:
            raise errors.ShapeError(
                f"{k!r} is no index of axis {axis}, which has {size} elements"
            )
        ranges.append((index % size, index % size + 1))
    return ranges, result


def _unsupported(name: str) -> errors.UnsupportedError:
    supported = ", ".join(sorted({*_FUNCTIONS, *(n for n in _UFUNCS if "." not in n)}))
    return errors.UnsupportedError(
        f"{name} does not work on encrypted arrays: these NumPy functions do: {supported}; "
        "others are approximated on an interval by sudare.functions"
    )


def _by_name(
    function: Callable[..., Any], args: Sequence[Any], options: dict[str, Any]
) -> tuple[Sequence[Any], dict[str, Any]]:
    """The arguments of a function of NumPy, by their names where these are known, without those
    that are as if they were left out."""
    try:
        signature = inspect.signature(function)
    except ValueError:
        return args, options
    given = signature.bind(*args, **options).arguments

    def says_something(name: str) -> bool:
        value, default = given[name], signature.parameters[name].default
        return not (value is default or isinstance(value, str) and value == default)

    return (), {name: given[name] for name in given if says_something(name)}


def _call(
    name: str, function: Callable[..., Any], args: Sequence[Any], options: dict[str, Any]
) -> Any:
    """What stands for a function of NumPy, which passes options on that say nothing."""
    used = {k: v for k, v in options.items() if v is not None and v is not np._NoValue}
    for option in used:
        if option not in inspect.signature(function).parameters:
            raise errors.UnsupportedError(
                f"numpy.{name} of encrypted arrays has no option {option}: leave it out"
            )
    return function(*args, **used)


def _sum(a: EncryptedArray, axis: Axes = None, keepdims: bool = False) -> EncryptedArray:
    return a.sum(axis, keepdims)


def _negative(a: EncryptedArray) -> EncryptedArray:
    return -a


_UFUNCS: dict[str, Callable[..., EncryptedArray]] = {
    "add": lambda a, b: _binary(Op.add(), a, b),
    "add.reduce": _sum,
    "subtract": lambda a, b: _binary(Op.sub(), a, b),
    "multiply": lambda a, b: _binary(Op.mul(), a, b),
    "matmul": lambda a, b: _binary(Op.matmul(), a, b),
    "divide": _divide,
    "true_divide": _divide,
    "power": _power,
    "float_power": _power,
    "square": lambda a: _power(a, 2),
    "negative": _negative,
    "positive": lambda a: a,
}

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sum": _sum,
    "mean": lambda a, axis=None, keepdims=False: a.mean(axis, keepdims),
    "var": lambda a, axis=None, ddof=0, keepdims=False: a.var(axis, ddof, keepdims),
    "dot": _dot,
    # The second name is that of NumPy before 2.1.
    "reshape": lambda a, shape=None, newshape=None: a.reshape(
        newshape if shape is None else shape
    ),
    "ravel": lambda a: a.ravel(),
    "transpose": lambda a, axes=None: a.transpose(*(axes or ())),
    "expand_dims": lambda a, axis: a.reshape(
        np.expand_dims(np.broadcast_to(0.0, a.shape), axis).shape
    ),
    "squeeze": lambda a, axis=None: a.reshape(
        np.squeeze(np.broadcast_to(0.0, a.shape), axis).shape
    ),
    "shape": lambda a: a.shape,
    "ndim": lambda a: a.ndim,
    "size": lambda a: a.size,
}
