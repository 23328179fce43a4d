"""Encrypted arrays of machine words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, NoReturn, Protocol

import numpy as np
import numpy.typing as npt

from sudare import _native, errors
from sudare._encrypted import FUNCTIONS, Encrypted, sizes
from sudare._plain import array_of, choice, shown, whole

DTYPES = tuple(
    np.dtype(name)
    for name in ("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")
)
"""The types of words."""

_BOOL = np.dtype(bool)
_INT64 = np.dtype(np.int64)


def word_type(dtype: object, what: str = "dtype") -> np.dtype[Any]:
    """Reads a type of words; messages call it `what`."""
    try:
        found = np.dtype(dtype)  # type: ignore[call-overload]
    except (TypeError, ValueError, SyntaxError):
        found = None
    for known in DTYPES:
        if found == known:
            return known
    raise errors.DtypeError(
        f"{what} is {shown(dtype)}, but words have a type from uint8 to uint64 or from int8 to int64, or bool: "
        "pass one, such as np.uint32"
    )


def plain_words(values: object) -> npt.NDArray[Any]:
    """Converts `values` to an array of integers or booleans."""
    array = array_of(values)
    if array.dtype.kind not in "biu":
        raise errors.DtypeError(
            f"values have the type {array.dtype}, but words are integers or booleans of at most 64 bits: round "
            "them, or use sudare.Context, which computes with real numbers"
        )
    return array


def checked(array: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Returns numbers in a type that has all of them."""
    if array.dtype == dtype:
        return array
    if dtype == _BOOL:
        raise errors.DtypeError(
            f"values have the type {array.dtype}, but booleans were expected: compare them first, such as "
            "values != 0"
        )
    found = array.astype(dtype)
    # Comparisons of int64 with uint64 would round, so the signs are compared on their own.
    wrong = (found != array) | ((found < 0) != (array < 0))
    if wrong.any():
        index = int(np.flatnonzero(wrong)[0])
        limits = np.iinfo(dtype)
        raise errors.of_kind(
            "ValueOutOfRange",
            f"value {index} is {array.flat[index]}, but {dtype} has integers from {limits.min} to {limits.max}: "
            "use a wider type, or convert the values with astype",
        )
    return found


def native_words(array: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """Returns words in two's complement of 64 bits."""
    if array.dtype.kind == "u":
        return np.asarray(array, np.uint64, order="C")
    return np.asarray(array, np.int64, order="C").view(np.uint64)


def opened_words(words: npt.NDArray[np.uint64], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Returns words of their type; see `native_words`."""
    return words.view(np.int64).astype(dtype) if dtype.kind == "i" else words.astype(dtype)


class Backend(Protocol):
    """A context that computes with arrays of words."""

    def _apply(
        self, op: str, operands: Sequence[Any], numbers: Sequence[int] = (), dtype: str | None = None
    ) -> EncryptedWords: ...


class EncryptedWords(Encrypted[Any]):
    """An array of machine words, or of booleans, that only the owner of the secret key can read.

    Operators and functions give NumPy's results for the same types: sums and products wrap, and operands of
    different types are promoted. Comparisons give encrypted booleans for `&`, `|`, `^`, `~` and `np.where`.
    Arrays come from `WordContext.encrypt` and `WordContext.load`, and never change.

    Sums and differences take no level until an operation needs their carries, which are computed once. Products
    of encrypted arrays take most. Shifts, divisors and the numbers of `np.isin` and `np.searchsorted` are in the
    clear for the machine that computes.
    """

    __slots__ = ()

    _native = _native.WordArray
    _plain: ClassVar[Any] = staticmethod(plain_words)
    _instead = "use // or % by a number"
    _missing = "/, @, round, float and int"

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of decrypted elements."""
        kind: np.dtype[Any] = np.dtype(self._value.dtype)
        return kind

    @property
    def level(self) -> int | None:
        """Levels that are left; `None` before `WordContext.attach`."""
        level: int | None = self._value.level
        return level

    @property
    def digit_bits(self) -> int:
        """Bits of a digit: each digit of all elements has ciphertexts of its own."""
        bits: int = self._value.digit_bits
        return bits

    @property
    def key_id(self) -> str | None:
        """The key pair, in hexadecimal; `None` in simulation."""
        key: str | None = self._value.key_id
        return key

    def _kind(self) -> str:
        return "EncryptedWords"

    def _facts(self) -> dict[str, str]:
        value = self._value
        facts = {"dtype": str(self.dtype), "shape": str(self.shape)}
        if value.level is not None:
            facts["level"] = str(value.level)
        facts["size"] = sizes(value)
        return facts if value.key_id is None else {**facts, "key_id": value.key_id}

    # Arithmetic.

    def __add__(self, other: object) -> EncryptedWords:
        return _binary("add", self, other)

    def __radd__(self, other: object) -> EncryptedWords:
        return _binary("add", other, self)

    def __sub__(self, other: object) -> EncryptedWords:
        return _binary("subtract", self, other)

    def __rsub__(self, other: object) -> EncryptedWords:
        return _binary("subtract", other, self)

    def __mul__(self, other: object) -> EncryptedWords:
        return _binary("multiply", self, other)

    def __rmul__(self, other: object) -> EncryptedWords:
        return _binary("multiply", other, self)

    def __neg__(self) -> EncryptedWords:
        return self._own("negative")

    def __abs__(self) -> EncryptedWords:  # type: ignore[override]
        return self._own("absolute")

    def __floordiv__(self, divisor: object) -> EncryptedWords:  # type: ignore[override]
        return _divided("floor_divide", self, divisor)

    def __mod__(self, divisor: object) -> EncryptedWords:  # type: ignore[override]
        return _divided("remainder", self, divisor)

    def __divmod__(self, divisor: object) -> tuple[EncryptedWords, EncryptedWords]:  # type: ignore[override]
        return self // divisor, self % divisor

    def __pow__(self, exponent: object) -> EncryptedWords:
        """Returns a power with a whole exponent from 1 on, by repeated products."""
        count = whole(exponent, "an exponent", 1, 2**16)
        base: EncryptedWords = self
        found: EncryptedWords | None = None
        while True:
            if count & 1:
                found = base if found is None else found * base
            count >>= 1
            if not count:
                assert found is not None
                return found
            base = base * base

    def __lshift__(self, count: object) -> EncryptedWords:
        return _shifted("left_shift", self, count)

    def __rshift__(self, count: object) -> EncryptedWords:
        return _shifted("right_shift", self, count)

    def __and__(self, other: object) -> EncryptedWords:
        return _binary("bitwise_and", self, other)

    def __or__(self, other: object) -> EncryptedWords:
        return _binary("bitwise_or", self, other)

    def __xor__(self, other: object) -> EncryptedWords:
        return _binary("bitwise_xor", self, other)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __invert__(self) -> EncryptedWords:
        return self._own("invert")

    __truediv__ = __rtruediv__ = __rpow__ = __rfloordiv__ = __rmod__ = __rdivmod__ = Encrypted._refuse

    def __rlshift__(self, _other: object) -> NoReturn:
        raise errors.UnsupportedError(
            "a shift by an encrypted count is not possible: choose among plain counts with np.where"
        )

    __rrshift__ = __rlshift__

    @classmethod
    def _binary(cls, _op: object, _left: object, _right: object) -> NoReturn:
        raise errors.UnsupportedError(
            "products of matrices of encrypted words are not supported: use sudare.IntegerContext, whose integers "
            "do not wrap"
        )

    # Comparisons.

    def __lt__(self, other: object) -> EncryptedWords:  # type: ignore[override]
        return _compared("less", self, other)

    def __le__(self, other: object) -> EncryptedWords:  # type: ignore[override]
        return _compared("less_equal", self, other)

    def __gt__(self, other: object) -> EncryptedWords:  # type: ignore[override]
        return _compared("greater", self, other)

    def __ge__(self, other: object) -> EncryptedWords:  # type: ignore[override]
        return _compared("greater_equal", self, other)

    def __eq__(self, other: object) -> EncryptedWords:  # type: ignore[override]
        return _compared("equal", self, other)

    def __ne__(self, other: object) -> EncryptedWords:  # type: ignore[override]
        return _compared("not_equal", self, other)

    # Python removes the hash of classes with `__eq__`.
    __hash__ = Encrypted.__hash__

    def __bool__(self) -> NoReturn:
        raise errors.UnsupportedError(
            "the truth value of an encrypted array is secret: compute both branches and choose with "
            "np.where(mask, a, b), or let the owner decrypt"
        )

    def clip(self, min: object = None, max: object = None) -> EncryptedWords:
        """Returns the elements limited to an interval, as `numpy.clip` does."""
        limited = self
        if min is not None:
            limited = _binary("maximum", limited, min)
        if max is not None:
            limited = _binary("minimum", limited, max)
        return limited

    def astype(self, dtype: object) -> EncryptedWords:
        """Returns the elements in another type, as NumPy's `astype` does: numbers wrap, and booleans are true
        unless a number is 0."""
        return self._own("astype", dtype=str(word_type(dtype)))

    # Shapes.

    def _reshaped(self, sizes: list[int]) -> EncryptedWords:
        return self._own("reshape", sizes)

    def _own(self, op: str, numbers: Sequence[int] = (), dtype: str | None = None) -> EncryptedWords:
        result: EncryptedWords = self._context._apply(op, [self], numbers, dtype)
        return result

    def _elements(self, *_key: object) -> NoReturn:
        raise errors.UnsupportedError(
            "encrypted words do not support indexing: choose with np.where and a plain mask, or encrypt the "
            "parts on their own"
        )

    __getitem__ = __iter__ = _elements


def _dtype_with(kind: np.dtype[Any], other: object, op: str) -> np.dtype[Any]:
    """Returns the common type of words and another operand, as NumPy promotes them."""
    if isinstance(other, EncryptedWords):
        found = np.promote_types(kind, other.dtype)
    elif isinstance(other, int):
        # Numbers of Python take the type of the array, unless they are of a higher kind.
        weak = _INT64 if kind == _BOOL and not isinstance(other, bool) else kind
        return weak
    else:
        found = np.promote_types(kind, plain_words(other).dtype)
    if found not in DTYPES:
        raise errors.DtypeError(
            f"numpy.{op} of {kind} and {other.dtype if hasattr(other, 'dtype') else shown(other)} has the type "
            f"{found}: convert one of them with astype"
        )
    return found


def _operands(op: str, *given: object) -> list[Any]:
    """Returns operands of one type. One or more are encrypted."""
    encrypted = [x for x in given if isinstance(x, EncryptedWords)]
    if not encrypted:
        raise errors.UnsupportedError(
            "neither operand is encrypted: encrypt one of them, or compute in the clear"
        )
    kind = encrypted[0].dtype
    for x in given:
        kind = _dtype_with(kind, x, op)

    def converted(x: object) -> Any:
        if isinstance(x, EncryptedWords):
            return x if x.dtype == kind else x.astype(kind)
        if isinstance(x, int):
            return native_words(checked(_number(x), kind) if kind != _BOOL else np.asarray(x))
        return native_words(plain_words(x).astype(kind))

    return [converted(x) for x in given]


def _number(x: int) -> npt.NDArray[Any]:
    """Returns a number of Python as an array, if a word of any type has it."""
    if not -(2**63) <= x < 2**64:
        raise errors.of_kind(
            "ValueOutOfRange", f"value 0 is {shown(x)}, but words have at most 64 bits: use a smaller number"
        )
    return np.asarray(x, np.uint64 if x >= 2**63 else np.int64)


def _context_of(operands: Sequence[Any]) -> Any:
    """Returns the context of operands, where arrays from bytes have none."""
    encrypted = [x for x in operands if isinstance(x, EncryptedWords)]
    attached = next((x for x in encrypted if x._backend is not None), encrypted[0])
    return attached._context


def _binary(op: str, *given: object) -> EncryptedWords:
    operands = _operands(op, *given)
    result: EncryptedWords = _context_of(operands)._apply(op, operands)
    return result


_ALWAYS = {
    # A number above all words, then one below them: the comparison, and its result for every word.
    "less": (True, False),
    "less_equal": (True, False),
    "greater": (False, True),
    "greater_equal": (False, True),
    "equal": (False, False),
    "not_equal": (True, True),
}

_SWAPPED = {
    "less": "greater",
    "less_equal": "greater_equal",
    "greater": "less",
    "greater_equal": "less_equal",
    "equal": "equal",
    "not_equal": "not_equal",
}


def _compared(op: str, a: object, b: object) -> EncryptedWords:
    if isinstance(a, int) and isinstance(b, EncryptedWords):
        return _compared(_SWAPPED[op], b, a)
    if isinstance(a, EncryptedWords) and isinstance(b, int) and a.dtype != _BOOL:
        limits = np.iinfo(a.dtype)
        if not limits.min <= b <= limits.max:
            # The answer is known. A comparison with the least word has it in encrypted form.
            holds = _ALWAYS[op][b < limits.min]
            return _binary("greater_equal" if holds else "less", a, int(limits.min))
    return _binary(op, a, b)


def _plain_scalar(op: str, value: object) -> tuple[int, np.dtype[Any] | None]:
    """Returns a number in the clear, and its type if it has one."""
    if isinstance(value, EncryptedWords):
        raise errors.UnsupportedError(
            f"numpy.{op} has an encrypted second operand: pass a number in the clear, or choose among plain ones "
            "with np.where"
        )
    array = plain_words(value)
    if array.size != 1:
        raise errors.UnsupportedError(
            f"numpy.{op} has a second operand of shape {array.shape}: pass one number"
        )
    return int(array.flat[0]), None if isinstance(value, int) else array.dtype


def _typed(op: str, x: EncryptedWords, value: object) -> tuple[EncryptedWords, int]:
    """Returns words in the common type of both, and the number."""
    number, dtype = _plain_scalar(op, value)
    kind = _dtype_with(x.dtype, number if dtype is None else np.asarray(number, dtype), op)
    if kind == _BOOL:
        # NumPy computes these with the smallest integers.
        kind = np.dtype(np.int8)
    return (x if x.dtype == kind else x.astype(kind)), number


def _divided(op: str, x: object, divisor: object) -> EncryptedWords:
    words, number = _typed(op, EncryptedWords._of(x), divisor)
    if number == 0:
        raise errors.ArgumentError(f"numpy.{op} by 0: divide by a number from 1 on")
    if number < 0:
        raise errors.ArgumentError(
            f"numpy.{op} by {number}: divide by a positive number, and negate where you need it"
        )
    checked(_number(number), words.dtype)
    return words._own(op, [number])


def _shifted(op: str, x: object, count: object) -> EncryptedWords:
    words, number = _typed(op, EncryptedWords._of(x), count)
    if number < 0:
        raise errors.ArgumentError(f"numpy.{op} by {number}: shift by a number from 0 on")
    return words._own(op, [number])


def _selected(condition: object, x: object = None, y: object = None) -> EncryptedWords:
    """Returns `numpy.where(condition, x, y)`."""
    if x is None or y is None:
        raise errors.UnsupportedError(
            "numpy.where of one argument would show where a condition holds: pass both choices, np.where(mask, a, b)"
        )
    kind = condition.dtype if isinstance(condition, EncryptedWords) else array_of(condition).dtype
    if kind != _BOOL:
        raise errors.DtypeError(
            f"a condition has the type {kind}: compare it first, such as x != 0"
        )
    mask = condition if isinstance(condition, EncryptedWords) else native_words(plain_words(condition))
    if isinstance(x, EncryptedWords) or isinstance(y, EncryptedWords):
        choices = _operands("where", x, y)
    else:
        # Both choices are in the clear: one of them becomes encrypted like the condition.
        chosen = np.result_type(*(v if isinstance(v, int) else plain_words(v) for v in (x, y)))
        kind = word_type(chosen)
        zero = EncryptedWords._of(condition).astype(kind)
        if kind == _BOOL:
            zero = zero ^ zero
        else:
            zero = zero - zero
        return _selected(condition, _binary("bitwise_or", zero, x), y)
    result: EncryptedWords = _context_of([mask, *choices])._apply("where", [mask, *choices])
    return result


def _isin(element: object, test_elements: object) -> EncryptedWords:
    x = EncryptedWords._of(element)
    numbers = [_native_number(v) for v in plain_words(test_elements).flat if _has(x.dtype, v)]
    return x._own("isin", numbers)


def _has(dtype: np.dtype[Any], number: Any) -> bool:
    if dtype == _BOOL:
        return int(number) in (0, 1)
    limits = np.iinfo(dtype)
    return int(limits.min) <= int(number) <= int(limits.max)


def _native_number(number: Any) -> int:
    return int(number) % 2**64


def _searchsorted(a: object, v: object, side: Literal["left", "right"] = "left") -> EncryptedWords:
    if isinstance(a, EncryptedWords):
        raise errors.UnsupportedError(
            "numpy.searchsorted has encrypted edges: pass plain edges and encrypted values"
        )
    edges = plain_words(a)
    if edges.ndim != 1 or (edges[1:] < edges[:-1]).any():
        raise errors.ArgumentError("edges must be a list in ascending order: sort them first")
    side = choice(side, "side", ("left", "right"))
    x = EncryptedWords._of(v)
    kind = _dtype_with(x.dtype, edges, "searchsorted")
    if kind == _BOOL:
        kind = np.dtype(np.int8)
    x = x if x.dtype == kind else x.astype(kind)
    return x._own(f"searchsorted_{side}", [_native_number(edge) for edge in edges])


def _boolean(op: str) -> Callable[[object, object], Any]:
    """Returns a logical function, which compares numbers with 0 first."""

    def truth(x: object) -> Any:
        if isinstance(x, EncryptedWords):
            return x.astype(bool)
        return plain_words(x).astype(bool)

    return lambda a, b: _binary(op, truth(a), truth(b))


_TWO = (
    "add",
    "subtract",
    "multiply",
    "minimum",
    "maximum",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
)


def _named(function: Callable[..., Any], op: str) -> Callable[[object, object], Any]:
    return lambda a, b: function(op, a, b)


EncryptedWords._ufuncs = {
    **{op: _named(_binary, op) for op in _TWO},
    **{op: _named(_compared, op) for op in _ALWAYS},
    "floor_divide": _named(_divided, "floor_divide"),
    "remainder": _named(_divided, "remainder"),
    "divmod": lambda a, b: divmod(EncryptedWords._of(a), b),
    "left_shift": _named(_shifted, "left_shift"),
    "right_shift": _named(_shifted, "right_shift"),
    "power": lambda a, b: EncryptedWords._of(a) ** b,
    "square": lambda a: a * a,
    "negative": lambda a: -EncryptedWords._of(a),
    "positive": lambda a: a,
    "absolute": abs,
    "invert": lambda a: ~a,
    "logical_and": _boolean("bitwise_and"),
    "logical_or": _boolean("bitwise_or"),
    "logical_xor": _boolean("bitwise_xor"),
    "logical_not": lambda a: ~EncryptedWords._of(a).astype(bool),
}
EncryptedWords._functions = {
    **FUNCTIONS,
    "where": _selected,
    "clip": lambda a, a_min=None, a_max=None, min=None, max=None: EncryptedWords._of(a).clip(
        a_min if min is None else min, a_max if max is None else max
    ),
    "isin": _isin,
    "searchsorted": _searchsorted,
}
