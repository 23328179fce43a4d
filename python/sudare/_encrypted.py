"""The common part of encrypted arrays of real numbers and of integers."""

from __future__ import annotations

import inspect
import math
import operator
import os
import pickle
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, Protocol, SupportsIndex, TypeVar

import numpy as np

from sudare import errors
from sudare._native import Op
from sudare._plain import MOST, flag, path_of, plain_array, several, whole
from sudare._shown import facts_html

if TYPE_CHECKING:
    from typing_extensions import Self

_B = TypeVar("_B", bound="Backend")


class Backend(Protocol):
    """A context that computes with arrays."""

    def _apply(self, op: Op, operands: list[Any]) -> Any: ...


def sizes(value: Any) -> str:
    """Returns the ciphertexts and the bytes of a value."""
    size = f"{value.nbytes / 1e6:.1f} MB"
    if value.blocks is None:
        return size
    return f"{value.blocks} ciphertext{'' if value.blocks == 1 else 's'}, {size}"


class Encrypted(Generic[_B]):
    """An encrypted array, with the operators and functions of NumPy."""

    __slots__ = ("__weakref__", "_backend", "_value")

    __array_priority__ = 1000.0
    # Higher than the priority of frames, which would treat an array on their right as a list.
    __pandas_priority__ = 5000
    # `__eq__` below would remove the hash.
    __hash__ = object.__hash__

    _native: ClassVar[Any]
    """The native class of the values."""
    _plain: ClassVar[Any]
    """Checks plain operands."""
    _instead: ClassVar[str]
    """The remedy for operations that are not supported."""
    _missing: ClassVar[str]
    """The operators that are not supported."""
    _ufuncs: ClassVar[dict[str, Callable[..., Any]]]
    _functions: ClassVar[dict[str, Callable[..., Any]]]

    def __init__(self, backend: _B | None, value: Any) -> None:
        self._backend = backend
        self._value = value

    # Attributes.

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
    def nbytes(self) -> int:
        """Bytes of its ciphertexts."""
        count: int = self._value.nbytes
        return count

    def _kind(self) -> str:
        """Returns the kind of the array."""
        raise NotImplementedError

    def _facts(self) -> dict[str, str]:
        """Returns the known facts about the array, by name."""
        raise NotImplementedError

    def __repr__(self) -> str:
        # The size says its units.
        parts = (
            value if name == "size" else f"{name}={value}" for name, value in self._facts().items()
        )
        return f"{self._kind()}({', '.join(parts)})"

    def _repr_html_(self) -> str:
        return facts_html(self._kind(), self._facts())

    def __len__(self) -> int:
        if not self.shape:
            raise errors.ShapeError("len() of an array without axes: use .size")
        return self.shape[0]

    # Files and other processes.

    def to_bytes(self) -> bytes:
        """Returns the bytes of a file of the array. They contain no key."""
        data: bytes = self._value.to_bytes()
        return data

    @classmethod
    def from_bytes(cls, data: object) -> Self:
        """Reads the result of `to_bytes`. Attach the array to a context to compute with it."""
        return cls(None, cls._native.from_bytes(data))

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Writes the array to a file. The file contains no key."""
        self._value.save(path_of(path), overwrite=flag(overwrite, "overwrite"))

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        data: Any = self.to_bytes()
        # From this protocol on, pickle can send the bytes outside its stream.
        if operator.index(protocol) >= 5:
            data = pickle.PickleBuffer(data)
        return type(self).from_bytes, (data,)

    # Arithmetic.

    def __add__(self, other: object) -> Self:
        return self._binary(Op.add(), self, other)

    def __radd__(self, other: object) -> Self:
        return self._binary(Op.add(), other, self)

    def __sub__(self, other: object) -> Self:
        return self._binary(Op.sub(), self, other)

    def __rsub__(self, other: object) -> Self:
        return self._binary(Op.sub(), other, self)

    def __mul__(self, other: object) -> Self:
        return self._binary(Op.mul(), self, other)

    def __rmul__(self, other: object) -> Self:
        return self._binary(Op.mul(), other, self)

    def __matmul__(self, other: object) -> Self:
        return self._binary(Op.matmul(), self, other)

    def __rmatmul__(self, other: object) -> Self:
        return self._binary(Op.matmul(), other, self)

    def __neg__(self) -> Self:
        return self._apply(Op.neg())

    def __pos__(self) -> Self:
        return self

    def _refuse(self, *_others: object) -> NoReturn:
        raise errors.UnsupportedError(
            f"encrypted values do not support {self._missing}: {self._instead}"
        )

    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __divmod__ = __rdivmod__ = _refuse
    __abs__ = __round__ = __float__ = __int__ = _refuse

    def dot(self, other: object) -> Self:
        """Returns the product with a scalar, a vector or a matrix, as `numpy.dot` does."""
        return self._dot(self, other)

    # Shapes.

    def reshape(self, *shape: int | Sequence[int]) -> Self:
        """Returns the same elements in C order in another shape. One size may be -1."""
        sizes = sizes_of(shape)
        if sizes.count(-1) == 1:
            known = -math.prod(sizes)
            if known > 0 and self.size % known == 0:
                sizes = [self.size // known if size == -1 else size for size in sizes]
        if any(size < 0 for size in sizes) or math.prod(sizes) != self.size:
            raise errors.ShapeError(
                f"cannot reshape array of size {self.size} into shape {tuple(sizes)}: choose a shape "
                "with the same number of elements"
            )
        return self._reshaped(sizes)

    def _reshaped(self, sizes: list[int]) -> Self:
        return self._apply(Op.reshape(shape=sizes))

    def ravel(self) -> Self:
        """Returns the elements along one axis."""
        return self.reshape(-1)

    # Python and NumPy would do these without asking.

    # The return type is for type checkers: with it, NumPy's operators and functions of encrypted arrays
    # accept them.
    def __array__(self, *_args: object, **_kwargs: object) -> np.ndarray[Any, np.dtype[Any]]:
        raise errors.UnsupportedError(
            "an encrypted array cannot become a NumPy array: decrypt it with its owner's context, "
            "ctx.decrypt(x); to multiply with a data frame, write frame.to_numpy() @ x"
        )

    def __bool__(self) -> NoReturn:
        raise errors.UnsupportedError(
            "the truth value of an encrypted array is secret: compute both branches and weight them, "
            "or let the owner decrypt"
        )

    def _compare(self, other: object) -> NoReturn:
        raise errors.UnsupportedError(
            f"encrypted values do not support ==, != and <: {self._instead}, or let the owner decrypt"
        )

    # Without these, == would silently compare identities.
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _compare

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Self:
        name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
        function = self._ufuncs.get(name)
        if function is None:
            raise self._unsupported(f"numpy.{name}")
        if method == "reduce":
            # NumPy reduces along the first axis by default.
            options.setdefault("axis", 0)
        result: Self = _call(name, function, inputs, options)
        return result

    def __array_function__(
        self,
        function: Callable[..., Any],
        _types: object,
        args: Sequence[Any],
        options: dict[str, Any],
    ) -> Any:
        name = function.__name__
        if name not in self._functions:
            raise self._unsupported(f"{function.__module__}.{name}")
        return _call(name, self._functions[name], *_by_name(function, args, options))

    def _unsupported(self, name: str) -> errors.UnsupportedError:
        known = sorted({*self._functions, *(name for name in self._ufuncs if "." not in name)})
        return errors.UnsupportedError(
            f"{name} does not support encrypted arrays: {self._instead}; these functions of NumPy are "
            f"supported: {', '.join(known)}"
        )

    # Operations.

    @classmethod
    def _of(cls, x: object) -> Self:
        """Returns `x`, which must be encrypted."""
        if not isinstance(x, cls):
            raise errors.UnsupportedError(
                f"expected an {cls.__name__}, got {type(x).__name__}: encrypt it first with ctx.encrypt(x), "
                "or compute in the clear (functions have in_the_clear)"
            )
        return x

    @property
    def _context(self) -> _B:
        """The context that computes with the array."""
        if self._backend is None:
            raise errors.of_kind(
                "Detached",
                "this array has no context, because it comes from bytes or from another process: attach "
                "it with ctx.attach(x)",
            )
        return self._backend

    def _apply(self, op: Op, *others: object) -> Self:
        result: Self = self._context._apply(op, [self, *others])
        return result

    @classmethod
    def _binary(cls, op: Op, left: object, right: object) -> Self:
        operands = [x if isinstance(x, cls) else cls._plain(x) for x in (left, right)]
        encrypted = [x for x in operands if isinstance(x, cls)]
        if not encrypted:
            raise errors.UnsupportedError(
                "neither operand is encrypted: encrypt one of them, or compute in the clear (functions have "
                "in_the_clear)"
            )
        # An array from bytes has no context, but the other operand may have one.
        attached = next((x for x in encrypted if x._backend is not None), encrypted[0])
        result: Self = attached._context._apply(op, operands)
        return result

    @classmethod
    def _dot(cls, a: Any, b: Any) -> Self:
        ranks = tuple(x.ndim if isinstance(x, cls) else plain_array(x).ndim for x in (a, b))
        if max(ranks) > 2:
            raise errors.ShapeError(
                f"dot of arrays with {ranks[0]} and {ranks[1]} axes: use @ for stacks of matrices"
            )
        # `numpy.dot` multiplies by scalars, which `@` refuses.
        return cls._binary(Op.mul() if 0 in ranks else Op.matmul(), a, b)


def natives(operands: Sequence[Any]) -> list[Any]:
    """Returns operands as native code expects them."""
    return [x._value if isinstance(x, Encrypted) else x for x in operands]


def sizes_of(sizes: Sequence[int | Sequence[int]]) -> list[int]:
    """Returns the arguments of a call: `f(1, 2)` and `f((1, 2))` mean the same."""
    listed = several(sizes[0]) if len(sizes) == 1 else sizes
    return [whole(size, "an axis or its size", -MOST, MOST) for size in listed]


def _by_name(
    function: Callable[..., Any], args: Sequence[Any], options: dict[str, Any]
) -> tuple[Sequence[Any], dict[str, Any]]:
    """Returns the arguments of a function of NumPy by their names, where these are known, without
    arguments that have their defaults."""
    try:
        signature = inspect.signature(function)
    except ValueError:
        return args, options
    given = signature.bind(*args, **options).arguments

    def matters(name: str) -> bool:
        value = given[name]
        default = signature.parameters[name].default
        # Only texts are compared, because `==` of an encrypted array raises.
        return not (value is default or isinstance(value, str) and value == default)

    return (), {name: given[name] for name in given if matters(name)}


def _call(
    name: str, function: Callable[..., Any], args: Sequence[Any], options: dict[str, Any]
) -> Any:
    """Calls the counterpart of a function of NumPy, without options that have no effect."""
    known = inspect.signature(function).parameters
    given = {k: v for k, v in options.items() if v is not np._NoValue}
    # `None` is the default of an option, but no operand.
    needed = {k for k in known if known[k].default is inspect.Parameter.empty}
    used = {k: v for k, v in given.items() if v is not None or k in needed}
    for option in used:
        if option not in known:
            raise errors.UnsupportedError(
                f"numpy.{name} of encrypted arrays has no option {option}: leave it out"
            )
    return function(*args, **used)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    # The second name is from NumPy before 2.1.
    "reshape": lambda a, shape=None, newshape=None: a.reshape(
        newshape if shape is None else shape
    ),
    "ravel": lambda a: a.ravel(),
    "shape": lambda a: a.shape,
    "ndim": lambda a: a.ndim,
    "size": lambda a: a.size,
}
"""Functions of NumPy that work on all encrypted arrays."""


def ufuncs(cls: type[Encrypted[Any]]) -> dict[str, Callable[..., Any]]:
    """Returns the universal functions that work on all encrypted arrays."""
    return {
        "add": lambda a, b: cls._binary(Op.add(), a, b),
        "subtract": lambda a, b: cls._binary(Op.sub(), a, b),
        "multiply": lambda a, b: cls._binary(Op.mul(), a, b),
        "matmul": lambda a, b: cls._binary(Op.matmul(), a, b),
        "negative": lambda a: -cls._of(a),
        "positive": lambda a: a,
    }
