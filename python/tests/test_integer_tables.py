"""Compares tables, comparisons and choices of encrypted integers with NumPy's."""

from __future__ import annotations

import operator
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sudare
from sudare import errors

T = 65537


@pytest.fixture(scope="module")
def ctx() -> sudare.IntegerContext:
    """256 slots modulo 65537 and 19 levels, which secure nothing."""
    return sudare.IntegerContext.preset("n15-t65537", insecure_log_n=8)


RANDOM = np.random.default_rng(50)
A = RANDOM.integers(0, 256, 240)
B = np.where(RANDOM.random(240) < 0.2, A, RANDOM.integers(0, 256, 240))

COMPARISONS: list[Callable[[Any, Any], Any]] = [
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
    operator.eq,
    operator.ne,
]


def same(ctx: sudare.IntegerContext, found: Any, expected: Any) -> None:
    """`found` decrypts to `expected`, in its type, and its range is right."""
    decrypted = ctx.decrypt(found)
    expected = np.asarray(expected)
    assert decrypted.dtype == found.dtype == expected.dtype
    assert isinstance(found, sudare.EncryptedBooleans) == (expected.dtype == bool)
    np.testing.assert_array_equal(decrypted, expected)
    assert found.low <= expected.min() and expected.max() <= found.high


def test_tables_are_functions_or_arrays(ctx: sudare.IntegerContext) -> None:
    x = ctx.encrypt(A, high=255)
    points = np.arange(256)
    squares, digits, odd = ctx.tables(
        x, [lambda v: v * v % 1000, points // 16, lambda v: v % 2 == 1]
    )
    same(ctx, squares, A * A % 1000)
    same(ctx, digits, A // 16)
    same(ctx, odd, A % 2 == 1)
    assert squares.level == x.level - 8  # type: ignore[operator]
    assert (digits.low, digits.high) == (0, 15)
    names = {v: 3 * v + 1 for v in range(256)}
    same(ctx, ctx.table(x, names.__getitem__), 3 * A + 1)
    # A negative range, and values beyond the modulus, which are reduced.
    low = ctx.encrypt([-3, 4, 0], low=-3, high=4)
    cubes = np.arange(-3, 5) ** 3
    same(ctx, ctx.table(low, cubes), np.array([-27, 64, 0]))
    wrapped = ctx.table(low, lambda v: 60000 if v == 4 else 0)
    assert list(ctx.decrypt(wrapped)) == [0, 60000 - T, 0]
    assert (wrapped.low, wrapped.high) == (-(T // 2), T // 2)


def test_tables_that_do_not_fit_are_refused(ctx: sudare.IntegerContext) -> None:
    x = ctx.encrypt(A, high=255)
    with pytest.raises(errors.ShapeError, match=r"from 0 to 255.*256 integers"):
        ctx.table(x, np.arange(255))
    with pytest.raises(errors.ShapeError):
        ctx.table(x, np.zeros((2, 128), dtype=int))
    for f in (lambda v: v / 2, np.linspace(0, 1, 256), lambda v: None, ["a"] * 256):
        with pytest.raises(errors.DtypeError):
            ctx.table(x, f)
    with pytest.raises(errors.DtypeError, match="masked"):
        ctx.table(x, np.ma.masked_equal(np.arange(256), 7))
    with pytest.raises(errors.OutsideRangeError):
        ctx.table(x, lambda v: T + v)
    functions: Any
    for functions in ([], len, None):
        with pytest.raises(errors.ArgumentError):
            ctx.tables(x, functions)
    with pytest.raises(ZeroDivisionError):
        ctx.table(x, lambda v: 1 // v)
    wide = ctx.encrypt(A, high=4096)
    calls: list[int] = []
    with pytest.raises(errors.OutsideIntervalError, match=r"from 0 to 4096.*within\(low, high\)"):
        ctx.table(wide, calls.append)
    assert not calls
    with pytest.raises(errors.OutsideIntervalError):
        _ = ctx.encrypt(A, high=4000) < ctx.encrypt(B, high=4000)
    shuffled = RANDOM.permutation(256)
    deep = ctx.table(ctx.table(x, shuffled), shuffled)
    same(ctx, deep, shuffled[shuffled[A]])
    with pytest.raises(errors.LevelExhaustedError, match="8 levels"):
        ctx.table(deep, shuffled)
    # A line has degree 1, whatever the range is.
    assert ctx.table(deep, lambda v: 3 * v - 7).level == deep.level - 1  # type: ignore[operator]


def test_ranges_are_declared_or_read_off(ctx: sudare.IntegerContext, tmp_path: Path) -> None:
    x = ctx.encrypt([3, -5, 200])
    assert (x.low, x.high) == (-8, 255)
    y = (2 * x + 1).within(0, 500)
    assert (y.low, y.high) == (0, 500)
    with pytest.raises(errors.OutsideRangeError, match="declared range from 0 to 255"):
        ctx.encrypt([256], high=255)
    for arguments in ({"low": 0}, {"low": 5, "high": 4}, {"high": 2**40}, {"high": 1.5}):
        with pytest.raises(errors.ArgumentError):
            ctx.encrypt([1], **arguments)
    with pytest.raises(errors.ArgumentError):
        x.within(300, 400)
    # Files keep the range.
    x.save(tmp_path / "x.ct")
    stored = sudare.EncryptedIntegers.from_bytes(x.to_bytes())
    assert stored.low is None and stored.high is None
    for again in (ctx.load(tmp_path / "x.ct"), ctx.attach(stored)):
        assert (again.low, again.high) == (-8, 255)
        same(ctx, again > 0, np.array([True, False, True]))


@pytest.mark.parametrize("compare", COMPARISONS)
def test_comparisons_are_those_of_numpy(
    ctx: sudare.IntegerContext, compare: Callable[[Any, Any], Any]
) -> None:
    x = ctx.encrypt(A[:64], high=255)
    y = ctx.encrypt(B[:64], high=255)
    same(ctx, compare(x, y), compare(A[:64], B[:64]))
    x = ctx.encrypt(A[:64] // 16, high=15)
    a = A[:64] // 16
    for c in (-1, 0, 7, np.int8(15), 16, 10**15):
        same(ctx, compare(x, c), compare(a, c))
        same(ctx, compare(c, x), compare(c, a))
    row = B[:64] // 16
    same(ctx, compare(x, row), compare(a, row))
    same(ctx, compare(row, x), compare(row, a))
    ufunc = {"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"}
    name = ufunc.get(compare.__name__, {"eq": "equal", "ne": "not_equal"}.get(compare.__name__))
    same(ctx, getattr(np, str(name))(x, 5), compare(a, 5))


def test_booleans_are_those_of_numpy(ctx: sudare.IntegerContext) -> None:
    a, b = np.array([True, True, False, False]), np.array([True, False, True, False])
    x, y = (ctx.encrypt(v).astype(bool) for v in (a, b))
    assert x.level == ctx.encrypt(a).level
    operations: list[Callable[[Any, Any], Any]] = [
        operator.and_,
        operator.or_,
        operator.xor,
        np.logical_and,
        np.logical_or,
        np.logical_xor,
        lambda p, q: p + q,
        lambda p, q: p * q,
        lambda p, q: p == q,
        lambda p, q: p != q,
    ]
    for operation in operations:
        same(ctx, operation(x, y), operation(a, b))
        same(ctx, operation(x, b), operation(a, b))
        same(ctx, operation(a, y), operation(a, b))
    same(ctx, ~x, ~a)
    same(ctx, np.logical_not(x), ~a)
    same(ctx, abs(x), a)
    n = np.array([5, -6, 7, 8])
    numbers: list[Callable[[Any, Any], Any]] = [
        lambda p, v: p + v,
        lambda p, v: v - p,
        lambda p, v: p - v,
        lambda p, v: p * v,
        lambda p, v: v @ p,
        lambda p, v: p @ v,
        lambda p, v: p.sum(),
        lambda p, v: p.reshape(2, 2),
        lambda p, v: p.astype(int),
    ]
    for operation in numbers:
        same(ctx, operation(x, n), operation(a, n))
    for refused in (lambda: x - y, lambda: -x, lambda: x & n, lambda: n | x, lambda: x @ y):
        with pytest.raises(errors.DtypeError):
            refused()
    with pytest.raises(errors.DtypeError):
        np.invert(ctx.encrypt([1]))
    with pytest.raises(errors.UnsupportedError, match="np.where"):
        bool(x)
    again = pickle.loads(pickle.dumps(x))
    assert isinstance(again, sudare.EncryptedBooleans)
    same(ctx, ctx.attach(again), a)
    with pytest.raises(errors.DtypeError):
        ctx.attach(sudare.EncryptedBooleans.from_bytes(ctx.encrypt([5]).to_bytes()))
    same(ctx, ctx.encrypt([0, 3, -2]).astype(bool), np.array([False, True, True]))


def test_choices_are_those_of_numpy(ctx: sudare.IntegerContext) -> None:
    a, b = A[:64] // 4, B[:64] // 4
    x, y = ctx.encrypt(a, high=63), ctx.encrypt(b, high=63)
    same(ctx, np.where(x < y, x, y), np.where(a < b, a, b))
    same(ctx, np.where(x < y, 5, y), np.where(a < b, 5, b))
    same(ctx, np.where(x < y, x, b), np.where(a < b, a, b))
    same(ctx, np.where(x < y, 3, -8), np.where(a < b, 3, -8))
    same(ctx, np.where(a < b, x, y), np.where(a < b, a, b))
    same(ctx, np.where(a < b, x, 9), np.where(a < b, a, 9))
    same(ctx, np.where(a < b, x < 5, y < 5), np.where(a < b, a < 5, b < 5))
    same(ctx, np.where(x < y, x < 5, b < 5), np.where(a < b, a < 5, b < 5))
    known: Any = np.where(a < b, x, y)
    assert known.high == 63
    # Numbers beyond the range are reduced, as in all arithmetic.
    wrapped: Any = np.where(a < b, x, 40_000)
    assert list(ctx.decrypt(wrapped)) == list(np.where(a < b, a, 40_000 - T))
    for extreme in (np.minimum, np.maximum):
        for other, plain in ((y, b), (b, b), (40, 40)):
            found: Any = extreme(x, other)
            same(ctx, found, extreme(a, plain))
            same(ctx, extreme(other, x), extreme(plain, a))
            assert found.high <= 63
    lowest: Any = np.minimum(x, 40)
    assert lowest.high == 40
    z = x - y
    same(ctx, abs(z), abs(a - b))
    same(ctx, np.abs(z), abs(a - b))
    assert (abs(z).low, abs(z).high) == (0, 63)
    same(ctx, x.clip(10, 20), a.clip(10, 20))
    same(ctx, np.clip(x, None, 20), np.clip(a, None, 20))
    same(ctx, np.isin(x, [3, 5, 900]), np.isin(a, [3, 5, 900]))
    edges = np.array([0, 10, 10, 40])
    for side in ("left", "right"):
        same(ctx, np.searchsorted(edges, x, side), np.searchsorted(edges, a, side))
    few = np.array([3, 0, 2, 3, 3, 5])
    same(ctx, np.bincount(ctx.encrypt(few, high=5)), np.bincount(few))
    same(ctx, np.bincount(ctx.encrypt(few, high=5), minlength=9), np.bincount(few, minlength=9))
    same(ctx, np.bincount(ctx.encrypt(few)), np.bincount(few, minlength=8))
    count = (x > 30).sum()
    same(ctx, count, np.asarray((a > 30).sum()))
    attempts: list[tuple[Callable[[], Any], type[Exception]]] = [
        (lambda: np.where(x, x, y), errors.DtypeError),
        (lambda: np.where(x < y), errors.UnsupportedError),
        (lambda: np.where(a, x, y), errors.DtypeError),
        (lambda: np.searchsorted(x, a), errors.UnsupportedError),
        (lambda: np.searchsorted([3, 1], x), errors.ArgumentError),
        (lambda: x < 1.5, errors.DtypeError),
        (lambda: x == None, errors.DtypeError),
        (lambda: x.astype(float), errors.DtypeError),
        (lambda: np.bincount(z), errors.ArgumentError),
        (lambda: np.bincount(x.reshape(8, 8)), errors.ShapeError),
        (lambda: x < ctx.encrypt([1, 2, 3]), errors.ShapeError),
    ]
    for attempt, error in attempts:
        with pytest.raises(error):
            attempt()
    with pytest.raises(errors.UnsupportedError, match="np.where"):
        if x < y:
            pass


@pytest.mark.parametrize("values", [[9, 3, 15, 3, 0, 9], [-4, -4, -4], [7], [2, 1]])
def test_orders_are_those_of_numpy(ctx: sudare.IntegerContext, values: list[int]) -> None:
    a = np.array(values)
    x = ctx.encrypt(a, low=-4, high=15)
    same(ctx, np.sort(x), np.sort(a))
    same(ctx, np.argsort(x), np.argsort(a, kind="stable"))
    same(ctx, np.argmax(x), np.asarray(np.argmax(a)))
    same(ctx, np.sort(x > 3), np.sort(a > 3))
    same(ctx, x.reshape(1, -1).argmin(), np.asarray(a.argmin()))
    with pytest.raises(errors.ShapeError, match="one axis"):
        np.sort(x.reshape(1, -1))
