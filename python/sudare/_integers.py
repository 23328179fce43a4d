"""Encrypted arrays of integers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn, Protocol, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from sudare import _native, errors
from sudare._encrypted import Encrypted, FUNCTIONS, sizes, ufuncs
from sudare._native import Op
from sudare._plain import MOST, array_of, choice, shown, whole

if TYPE_CHECKING:
    from typing_extensions import Self

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
    """Returns whether all objects in an array are integers."""
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

    def table(self, x: EncryptedIntegers, f: Any) -> EncryptedIntegers: ...

    def tables(self, x: EncryptedIntegers, functions: Any) -> list[EncryptedIntegers]: ...


class EncryptedIntegers(Encrypted[Backend]):
    """An array of integers modulo `t` that only the owner of the secret key can read.

    An array has any shape, and consists of one or more ciphertexts. Results are exact: sums and products
    are the results of NumPy, reduced modulo `t`. A product takes a level. So does a product with a scalar
    of more than 16 in magnitude, or with a plain array. Operations whose result might not decrypt are
    refused. Arrays come from `IntegerContext.encrypt` and `IntegerContext.load`, and never change.

    Comparisons and tables are polynomials on the range that elements are known to have, from `low` to `high`.
    Operations carry the range on. The smaller it is, the fewer levels they take.
    """

    __slots__ = ()

    _native = _native.Integers
    _plain: ClassVar[Any] = staticmethod(integers)
    _instead = "look values up in a table, ctx.table(x, f)"
    _missing = "/, //, %, round, float and int"

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
    def low(self) -> int | None:
        """The lowest integer that an element can be; `None` before `IntegerContext.attach`."""
        return None if self._value.range is None else int(self._value.range[0])

    @property
    def high(self) -> int | None:
        """The highest integer that an element can be; `None` before `IntegerContext.attach`."""
        return None if self._value.range is None else int(self._value.range[1])

    def within(self, low: int, high: int) -> Self:
        """Returns the same array, whose elements you promise to lie from `low` to `high`.

        Use it where you know more than the ranges of the inputs tell. Nobody can see a promise that does
        not hold: tables and comparisons then give wrong results.
        """
        ends = whole(low, "low", -_MOST, _MOST), whole(high, "high", -_MOST, _MOST)
        return self._like(self._attached.within(*ends))

    @property
    def key_id(self) -> str:
        """The key pair, in hexadecimal."""
        key: str = self._value.key_id
        return key

    def _kind(self) -> str:
        return "EncryptedIntegers"

    def _facts(self) -> dict[str, str]:
        value = self._value
        facts = {"shape": str(self.shape)}
        if value.level is not None:
            facts["level"] = str(value.level)
        return {**facts, "size": sizes(value), "key_id": value.key_id}

    # Arithmetic.

    def __pow__(self, exponent: object) -> EncryptedIntegers:
        return self._apply(Op.power(whole(exponent, "an exponent", 1, 2**62)))

    __truediv__ = __rtruediv__ = __rpow__ = Encrypted._refuse

    # Comparisons and tables.

    def __lt__(self, other: object) -> EncryptedBooleans:  # type: ignore[override]
        return _compared(Op.less(), self, other)

    def __le__(self, other: object) -> EncryptedBooleans:  # type: ignore[override]
        return _compared(Op.less_equal(), self, other)

    def __gt__(self, other: object) -> EncryptedBooleans:  # type: ignore[override]
        return _compared(Op.greater(), self, other)

    def __ge__(self, other: object) -> EncryptedBooleans:  # type: ignore[override]
        return _compared(Op.greater_equal(), self, other)

    def __eq__(self, other: object) -> EncryptedBooleans:  # type: ignore[override]
        return _compared(Op.equal(), self, other)

    def __ne__(self, other: object) -> EncryptedBooleans:  # type: ignore[override]
        return _compared(Op.not_equal(), self, other)

    # Python removes the hash of classes with `__eq__`.
    __hash__ = Encrypted.__hash__

    def __bool__(self) -> NoReturn:
        raise errors.UnsupportedError(
            "the truth value of an encrypted array is secret: compute both branches and choose with "
            "np.where(mask, a, b), or let the owner decrypt"
        )

    def __abs__(self) -> EncryptedIntegers:  # type: ignore[override]
        return self._mapped(np.abs)

    def clip(self, min: object = None, max: object = None) -> EncryptedIntegers:
        """Returns the elements limited to an interval, as `numpy.clip` does."""
        limited = self
        if min is not None:
            limited = _extreme(np.maximum, limited, min)
        if max is not None:
            limited = _extreme(np.minimum, limited, max)
        return limited

    def argmin(self) -> EncryptedIntegers:
        """Returns the first index of the lowest of up to 128 elements, in C order."""
        return _arg_extreme(self, 0)

    def argmax(self) -> EncryptedIntegers:
        """Returns the first index of the highest of up to 128 elements, in C order."""
        return _arg_extreme(self, -1)

    @overload
    def astype(self, dtype: type[bool | np.bool_]) -> EncryptedBooleans: ...
    @overload
    def astype(self, dtype: object) -> EncryptedIntegers: ...
    def astype(self, dtype: object) -> EncryptedIntegers:
        """Returns the elements as integers or as booleans, which are true unless an element is 0.

        Booleans from elements known to be 0 and 1 cost nothing, others a comparison.
        """
        try:
            kind = np.dtype(dtype)  # type: ignore[call-overload]
        except (TypeError, ValueError, SyntaxError):
            raise errors.DtypeError(f"dtype is {shown(dtype)}: pass int or bool") from None
        if kind == np.int64:
            return EncryptedIntegers(self._context, self._value)
        if kind != np.bool_:
            raise errors.DtypeError(f"dtype is {kind}: pass int or bool")
        if _is_mask(self):
            return EncryptedBooleans(self._context, self._value)
        return self != 0

    def _mapped(self, f: Callable[[Ints], Any]) -> EncryptedIntegers:
        """Returns a function of each element, which takes all integers of the range at once."""
        return self._context.table(self, _OfRange(f))

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

    def _reshaped(self, sizes: list[int]) -> Self:
        return self._like(self._attached.reshaped(sizes))

    def _like(self, value: Any) -> Self:
        return type(self)(self._backend, value)

    @property
    def _attached(self) -> Any:
        """The native value of an array with a context."""
        _ = self._context
        return self._value

    def _elements(self, *_key: object) -> NoReturn:
        raise errors.UnsupportedError(
            "encrypted integers do not support indexing: multiply with an array of 0 and 1, or with a "
            "plain matrix that selects"
        )

    __getitem__ = __iter__ = _elements


class _OfRange:
    """A function of all integers of a range at once."""

    def __init__(self, f: Callable[[Ints], Any]) -> None:
        self.f = f


class EncryptedBooleans(EncryptedIntegers):
    """An array of encrypted booleans: the result of a comparison.

    `&`, `|` and `^` take a level if both operands are encrypted. `~` takes none. `np.where(mask, a, b)` chooses
    between two arrays. Sums count. Other arithmetic treats elements as 0 and 1, as NumPy does.
    """

    __slots__ = ()

    @property
    def dtype(self) -> np.dtype[np.bool_]:  # type: ignore[override]
        """The type of decrypted elements: `bool`."""
        return np.dtype(np.bool_)

    def __and__(self, other: object) -> EncryptedBooleans:
        return _and(self, other)

    def __or__(self, other: object) -> EncryptedBooleans:
        return _or(self, other)

    def __xor__(self, other: object) -> EncryptedBooleans:
        return _xor(self, other)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __invert__(self) -> EncryptedBooleans:
        return _boolean(1 - self.astype(int))

    # NumPy's arithmetic of two booleans is logical, and it has no difference of them.

    def __add__(self, other: object) -> EncryptedIntegers:  # type: ignore[override]
        return self | other if _is_boolean(other) else self.astype(int) + other

    def __mul__(self, other: object) -> EncryptedIntegers:  # type: ignore[override]
        return self & other if _is_boolean(other) else self.astype(int) * other

    __radd__, __rmul__ = __add__, __mul__  # type: ignore[assignment]

    def __sub__(self, other: object) -> EncryptedIntegers:  # type: ignore[override]
        return self._number(other) - other

    def __rsub__(self, other: object) -> EncryptedIntegers:  # type: ignore[override]
        return other - self._number(other)

    def __neg__(self) -> EncryptedIntegers:  # type: ignore[override]
        return -self._number(self)

    def __pos__(self) -> EncryptedIntegers:  # type: ignore[override]
        return self._number(self)

    def __matmul__(self, other: object) -> EncryptedIntegers:  # type: ignore[override]
        return self._number(other) @ other

    def __rmatmul__(self, other: object) -> EncryptedIntegers:  # type: ignore[override]
        return other @ self._number(other)

    def _number(self, other: object) -> EncryptedIntegers:
        """Returns the elements as integers, to combine with numbers that are no booleans."""
        if _is_boolean(other):
            raise errors.DtypeError(
                "two arrays of booleans have no difference, negative or product of matrices: use ^, ~ or &, "
                "or convert one of them with astype(int)"
            )
        return self.astype(int)

    def __pow__(self, exponent: object) -> EncryptedIntegers:
        return self.astype(int) ** exponent

    def polynomial(self, coefficients: object) -> EncryptedIntegers:
        """Returns a polynomial of the elements as integers."""
        return self.astype(int).polynomial(coefficients)

    def __abs__(self) -> EncryptedBooleans:  # type: ignore[override]
        return self

    def rotate(self, k: int) -> EncryptedBooleans:
        """Returns `numpy.roll(x, -k, axis=-1)`; see `EncryptedIntegers.rotate`."""
        return _boolean(super().rotate(k))

    def swap_rows(self) -> EncryptedBooleans:
        """Returns `numpy.flip(x, axis=-2)`; see `EncryptedIntegers.swap_rows`."""
        return _boolean(super().swap_rows())


def _boolean(x: EncryptedIntegers) -> EncryptedBooleans:
    """Returns elements that are 0 and 1, which operations on booleans keep."""
    return EncryptedBooleans(x._context, x._attached.within(0, 1))


def _arithmetic(name: str, op: Callable[[], Op]) -> Callable[[Any, Any], EncryptedIntegers]:
    """Returns the universal function of an operator, which booleans define for themselves."""

    def apply(a: Any, b: Any) -> EncryptedIntegers:
        if isinstance(a, EncryptedBooleans):
            result: EncryptedIntegers = getattr(a, f"__{name}__")(b)
        elif isinstance(b, EncryptedBooleans):
            result = getattr(b, f"__r{name}__")(a)
        else:
            result = EncryptedIntegers._binary(op(), a, b)
        return result

    return apply


def _is_mask(x: EncryptedIntegers) -> bool:
    return x.low is not None and x.high is not None and x.low >= 0 and x.high <= 1


def _is_boolean(x: object) -> bool:
    if isinstance(x, EncryptedIntegers):
        return isinstance(x, EncryptedBooleans)
    return array_of(x).dtype.kind == "b"


def _compared(op: Op, a: object, b: object) -> EncryptedBooleans:
    return _boolean(EncryptedIntegers._binary(op, a, b))


def _logical(
    op: Callable[[Any, Any], EncryptedIntegers], a: object, b: object
) -> EncryptedBooleans:
    def number(x: object) -> Any:
        if not _is_boolean(x):
            kind = x.dtype if isinstance(x, EncryptedIntegers) else array_of(x).dtype
            raise errors.DtypeError(
                f"&, | and ^ need booleans, but an operand has the type {kind}: compare it first, such as x != 0"
            )
        return x.astype(int) if isinstance(x, EncryptedIntegers) else integers(x)

    return _boolean(op(number(a), number(b)))


def _and(a: object, b: object) -> EncryptedBooleans:
    return _logical(lambda a, b: a * b, a, b)


def _or(a: object, b: object) -> EncryptedBooleans:
    return _logical(lambda a, b: a + b - a * b, a, b)


def _xor(a: object, b: object) -> EncryptedBooleans:
    return _logical(_differ, a, b)


def _differ(a: Any, b: Any) -> EncryptedIntegers:
    """Returns the exclusive or of 0 and 1."""
    if isinstance(a, EncryptedIntegers) and isinstance(b, EncryptedIntegers):
        # (a - b)^2 rather than a + b - 2ab: the product is the last step.
        return (a - b).square()
    (x, c) = (a, b) if isinstance(a, EncryptedIntegers) else (b, a)
    result: EncryptedIntegers = c + x * (1 - 2 * c)
    return result


def _inverted(x: EncryptedIntegers) -> EncryptedBooleans:
    if not isinstance(x, EncryptedBooleans):
        raise errors.DtypeError(
            f"~ needs booleans, but the type is {x.dtype}: compare it first, such as x != 0"
        )
    return ~x


def _selected(condition: object, x: object = None, y: object = None) -> EncryptedIntegers:
    """Returns `numpy.where(condition, x, y)`."""
    if x is None or y is None:
        raise errors.UnsupportedError(
            "numpy.where of one argument would show where a condition holds: pass both choices, np.where(mask, a, b)"
        )
    if not isinstance(condition, EncryptedIntegers):
        mask = array_of(condition)
        if mask.dtype.kind != "b":
            raise errors.DtypeError(f"a condition has the type {mask.dtype}: pass booleans")
        # The condition is public: choose with a plain mask.
        weights = mask.astype(np.int64)
        chosen: EncryptedIntegers = _times(x, weights) + _times(y, 1 - weights)
        (low, high), (least, most) = _ends(x), _ends(y)
        chosen = _limited(chosen, min(low, least), max(high, most))
        return _boolean(chosen) if _is_boolean(x) and _is_boolean(y) else chosen
    if not isinstance(condition, EncryptedBooleans):
        raise errors.DtypeError(
            f"a condition has the type {condition.dtype}: compare it first, such as x != 0"
        )
    context = next(
        a._context for a in (condition, x, y) if isinstance(a, EncryptedIntegers) and a._backend
    )
    choices = [a if isinstance(a, EncryptedIntegers) else integers(a) for a in (x, y)]
    chosen = context._apply(Op.select(), [condition, *choices])
    return _boolean(chosen) if _is_boolean(x) and _is_boolean(y) else chosen


def _times(x: object, weights: Ints) -> Any:
    return x.astype(int) * weights if isinstance(x, EncryptedIntegers) else integers(x) * weights


def _ends(x: object) -> tuple[int, int]:
    """Returns the lowest and the highest element that an operand can have."""
    if isinstance(x, EncryptedIntegers):
        ends: tuple[int, int] = x._attached.range
        return ends
    plain = integers(x)
    return int(plain.min()), int(plain.max())


def _limited(x: EncryptedIntegers, low: int, high: int) -> EncryptedIntegers:
    """Returns elements that lie between two integers, unless these were reduced modulo `t`."""
    known = _ends(x)
    return x.within(low, high) if known[0] <= low and high <= known[1] else x


def _extreme(which: np.ufunc, a: object, b: object) -> EncryptedIntegers:
    """Returns the lower or the higher of two operands, `which` is `numpy.minimum` or `numpy.maximum`."""
    if isinstance(b, EncryptedIntegers) and not isinstance(a, EncryptedIntegers):
        a, b = b, a
    x = EncryptedIntegers._of(a)
    if not isinstance(b, EncryptedIntegers):
        plain = integers(b)
        if plain.ndim == 0:
            return x._mapped(lambda points: which(points, plain))
    chosen = _selected(x < b, *((x, b) if which is np.minimum else (b, x)))
    (low, high), (least, most) = _ends(x), _ends(b)
    return _limited(chosen, int(which(low, least)), int(which(high, most)))


def _isin(element: object, test_elements: object) -> EncryptedIntegers:
    return EncryptedIntegers._of(element)._mapped(
        lambda points: np.isin(points, integers(test_elements))
    )


def _searchsorted(
    a: object, v: object, side: Literal["left", "right"] = "left"
) -> EncryptedIntegers:
    if isinstance(a, EncryptedIntegers):
        raise errors.UnsupportedError(
            "numpy.searchsorted has encrypted edges: pass plain edges and encrypted values"
        )
    edges = integers(a)
    if edges.ndim != 1 or (edges[1:] < edges[:-1]).any():
        raise errors.ArgumentError("edges must be a list in ascending order: sort them first")
    side = choice(side, "side", ("left", "right"))
    return EncryptedIntegers._of(v)._mapped(lambda points: np.searchsorted(edges, points, side))


def _bincount(x: object, minlength: object = 0) -> EncryptedIntegers:
    values = EncryptedIntegers._of(x)
    least = whole(minlength, "minlength", 0, MOST)
    if values.ndim != 1:
        raise errors.ShapeError(f"numpy.bincount of an array with {values.ndim} axes: pass ravel()")
    known = values._attached.range
    if known[0] < 0:
        raise errors.ArgumentError(
            f"numpy.bincount of elements that can be {known[0]}: promise more with within(low, high)"
        )
    context = values._context
    size = max(known[1] + 1, least)
    # Few bins at a time, because each has an array of its own until it is summed.
    counts = np.zeros(size, np.int64)
    total: Any = counts
    for start in range(known[0], known[1] + 1, _BINS):
        bins = range(start, min(start + _BINS, known[1] + 1))
        found = context.tables(values, [_OfRange(partial(np.equal, b)) for b in bins])
        for b, mask in zip(bins, found, strict=True):
            place = counts.copy()
            place[b] = 1
            total = mask.sum() * place + total
    result: EncryptedIntegers = total
    # Bins that elements cannot be in are 0, and no bin has more than all elements.
    return result.within(0, min(values.size, result._attached.range[1]))


def _ranks(x: EncryptedIntegers, *, first: bool) -> EncryptedIntegers:
    """Returns the place of each element in ascending order, with equal elements in their own order if
    `first`, and in reverse otherwise."""
    n = x.size
    if x.ndim != 1 or n > _MAX_SORTED:
        raise errors.ShapeError(
            f"an array of shape {x.shape} cannot be sorted: pass one axis of up to {_MAX_SORTED} elements"
        )
    j, i = np.divmod(np.arange(n * n), n)
    # Element j * n + i is below 0 if element j comes before element i.
    pairs = np.repeat(np.eye(n, dtype=np.int64), n, axis=0)
    pairs -= np.tile(np.eye(n, dtype=np.int64), (n, 1))
    differences = _product(pairs, x) - ((j < i) if first else (j > i))
    return _product(np.tile(np.eye(n, dtype=np.int64), n), differences < 0).within(0, n - 1)


def _permutation(x: EncryptedIntegers) -> EncryptedBooleans:
    """Returns, at `i * n + r`, whether element `i` comes to place `r`."""
    n = x.size
    return _spread(_ranks(x, first=True)).within(0, n - 1) == np.tile(np.arange(n), n)


def _spread(x: EncryptedIntegers) -> EncryptedIntegers:
    """Returns `numpy.repeat(x, n)` of `n` elements."""
    return _product(np.repeat(np.eye(x.size, dtype=np.int64), x.size, axis=0), x)


def _product(matrix: Ints, x: EncryptedIntegers) -> EncryptedIntegers:
    return EncryptedIntegers._binary(Op.matmul(), matrix, x)


def _argsort(a: object) -> EncryptedIntegers:
    x = EncryptedIntegers._of(a)
    weights = np.kron(np.arange(x.size), np.eye(x.size, dtype=np.int64))
    return _product(weights, _permutation(x)).within(0, x.size - 1)


def _sorted(a: object) -> EncryptedIntegers:
    x = EncryptedIntegers._of(a)
    moved = _permutation(x).astype(int) * _spread(x)
    found = _product(np.tile(np.eye(x.size, dtype=np.int64), x.size), moved)
    return _boolean(found) if isinstance(x, EncryptedBooleans) else _limited(found, *_ends(x))


def _arg_extreme(a: object, rank: int) -> EncryptedIntegers:
    """Returns the first index of the lowest element, rank 0, or of the highest, rank -1."""
    x = EncryptedIntegers._of(a).ravel()
    n = x.size
    found = _ranks(x, first=rank == 0) == rank % n
    return _product(np.arange(n), found).within(0, n - 1)


_MAX_SORTED = 128
"""The maximum number of elements to sort. A plain matrix with this number of columns, and its square of rows,
compares them in pairs."""

_BINS = 32
"""Bins that are counted together."""


EncryptedIntegers._ufuncs = {
    **ufuncs(EncryptedIntegers),
    "add": _arithmetic("add", Op.add),
    "subtract": _arithmetic("sub", Op.sub),
    "multiply": _arithmetic("mul", Op.mul),
    "matmul": _arithmetic("matmul", Op.matmul),
    "square": lambda a: a.square(),
    "power": lambda a, b: EncryptedIntegers._of(a) ** b,
    "less": lambda a, b: _compared(Op.less(), a, b),
    "less_equal": lambda a, b: _compared(Op.less_equal(), a, b),
    "greater": lambda a, b: _compared(Op.greater(), a, b),
    "greater_equal": lambda a, b: _compared(Op.greater_equal(), a, b),
    "equal": lambda a, b: _compared(Op.equal(), a, b),
    "not_equal": lambda a, b: _compared(Op.not_equal(), a, b),
    "minimum": lambda a, b: _extreme(np.minimum, a, b),
    "maximum": lambda a, b: _extreme(np.maximum, a, b),
    "absolute": abs,
    "bitwise_and": _and,
    "bitwise_or": _or,
    "bitwise_xor": _xor,
    "logical_and": _and,
    "logical_or": _or,
    "logical_xor": _xor,
    "invert": _inverted,
    "logical_not": _inverted,
}
EncryptedIntegers._functions = {
    **FUNCTIONS,
    "sum": lambda a: a.sum(),
    "dot": EncryptedIntegers._dot,
    "where": _selected,
    "clip": lambda a, a_min=None, a_max=None, min=None, max=None: EncryptedIntegers._of(a).clip(
        a_min if min is None else min, a_max if max is None else max
    ),
    "isin": _isin,
    "searchsorted": _searchsorted,
    "bincount": _bincount,
    "sort": _sorted,
    "argsort": _argsort,
    "argmin": lambda a: _arg_extreme(a, 0),
    "argmax": lambda a: _arg_extreme(a, -1),
}
