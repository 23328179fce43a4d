"""Encrypted machine words beside NumPy's."""

from __future__ import annotations

import operator
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sudare
from sudare import _native, errors

KINDS = [np.dtype(f"{sign}int{bits}") for sign in ("u", "") for bits in (8, 16, 32, 64)]

COMPARISONS: list[Callable[[Any, Any], Any]] = [
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
    operator.eq,
    operator.ne,
]

OPERATIONS: list[Callable[[Any, Any], Any]] = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.and_,
    operator.or_,
    operator.xor,
    np.minimum,
    np.maximum,
    *COMPARISONS,
]


@pytest.fixture(scope="module")
def ctx() -> sudare.WordContext:
    """256 slots modulo 65537 and 19 levels, which secure nothing."""
    return sudare.WordContext.preset("n15-t65537", np.uint32, insecure_log_n=8)


@pytest.fixture(scope="module")
def sim() -> sudare.WordContext:
    """60 levels modulo 65537, which no secure ring has, in the clear."""
    context = sudare.WordContext._with(_native.IntegerPlan.measuring_words(), None)
    context._set("simulate", np.dtype(np.uint32), 4)
    return context


def numbers(dtype: np.dtype[Any], seed: int = 1, count: int = 60) -> Any:
    """Both ends of a type, and numbers of all sizes."""
    random = np.random.default_rng(seed)
    limits = np.iinfo(dtype)
    found = random.integers(limits.min, limits.max, count, dtype, endpoint=True)
    found >>= random.integers(0, dtype.itemsize * 8, count).astype(dtype)
    found[:6] = [limits.max, limits.min, limits.max, 0, 1, limits.min]
    return found


def same(ctx: sudare.WordContext, found: Any, expected: Any) -> None:
    """`found` decrypts to `expected`, in its type."""
    decrypted = ctx.decrypt(found)
    expected = np.asarray(expected)
    assert decrypted.dtype == found.dtype == expected.dtype
    np.testing.assert_array_equal(decrypted, expected)


@pytest.mark.parametrize("dtype", KINDS, ids=str)
def test_operations_are_those_of_numpy(sim: sudare.WordContext, dtype: np.dtype[Any]) -> None:
    a, b = numbers(dtype), numbers(dtype, 2)
    b[10:20] = a[10:20]
    x, y = sim.encrypt(a, dtype=dtype), sim.encrypt(b, dtype=dtype)
    with np.errstate(over="ignore"):
        for operation in OPERATIONS:
            same(sim, operation(x, y), operation(a, b))
            same(sim, operation(x, b), operation(a, b))
            same(sim, operation(x, 7), operation(a, 7))
            same(sim, operation(7, x), operation(7, a))
        same(sim, -x, -a)
        same(sim, ~x, ~a)
        same(sim, abs(x), abs(a))
        same(sim, x**3, a**3)
        same(sim, np.square(x), np.square(a))
        for count in (0, 1, 4, 7, dtype.itemsize * 8 - 1):
            same(sim, x << count, a << count)
            same(sim, x >> count, a >> count)
        for divisor in (1, 2, 3, 10, 100, int(np.iinfo(dtype).max)):
            same(sim, x // divisor, a // divisor)
            same(sim, x % divisor, a % divisor)
        same(sim, np.where(x < y, x, y), np.where(a < b, a, b))
        same(sim, np.where(x < y, x, 9), np.where(a < b, a, dtype.type(9)))
        same(sim, np.where(x < y, 3, 9), np.where(a < b, 3, 9))
        same(sim, np.where(a < b, x, y), np.where(a < b, a, b))
        same(sim, np.clip(x, 3, 50), np.clip(a, 3, 50))
        same(sim, np.isin(x, a[3:9]), np.isin(a, a[3:9]))
        edges = np.sort(b[:5])
        for side in ("left", "right"):
            found = np.searchsorted(edges, x, side)
            same(sim, found, np.searchsorted(edges, a, side))
        for to in (*KINDS, np.dtype(bool)):
            same(sim, x.astype(to), a.astype(to))


def test_types_are_promoted_as_numpy_does(sim: sudare.WordContext) -> None:
    for left in (*KINDS, np.dtype(bool)):
        a = np.array([0, 1, 1, 0]).astype(left) if left == bool else numbers(left, count=8)[:4]
        x = sim.encrypt(a, dtype=left)
        for right in (*KINDS, np.dtype(bool)):
            b = np.array([1, 0, 1, 1]).astype(right)
            y = sim.encrypt(b, dtype=right)
            if np.promote_types(left, right).kind == "f":
                with pytest.raises(errors.DtypeError, match="float64"):
                    x + y
                continue
            with np.errstate(over="ignore"):
                same(sim, x + y, a + b)
                same(sim, x | b, a | b)
                same(sim, x >= y, a >= b)
    m = sim.encrypt([True, False])
    same(sim, m + 1, np.array([True, False]) + 1)
    same(sim, m & True, np.array([True, False]))
    same(sim, m.astype(np.uint8) * 200, np.array([200, 0], np.uint8))
    same(sim, np.logical_or(m, sim.encrypt([0, 0])), np.array([True, False]))
    # Numbers of Python beyond the type compare as in NumPy.
    a = np.array([0, 5, 255], np.uint8)
    x = sim.encrypt(a, dtype=np.uint8)
    for compare in COMPARISONS:
        for c in (-1, 256, 10**30, 5):
            same(sim, compare(x, c), compare(a, c))
            same(sim, compare(c, x), compare(c, a))


def test_bad_input_is_refused(sim: sudare.WordContext) -> None:
    x = sim.encrypt([1, 2, 3])
    attempts: list[tuple[Callable[[], Any], type[Exception]]] = [
        (lambda: sim.encrypt([1.5]), errors.DtypeError),
        (lambda: sim.encrypt(["a"]), errors.DtypeError),
        (lambda: sim.encrypt([-1]), errors.OutsideRangeError),
        (lambda: sim.encrypt([2**32]), errors.OutsideRangeError),
        (lambda: sim.encrypt(np.array([2**63], np.uint64), dtype=np.int64), errors.OutsideRangeError),
        (lambda: sim.encrypt([]), errors.ShapeError),
        (lambda: sim.encrypt([3], dtype=bool), errors.DtypeError),
        (lambda: sim.encrypt([1], dtype=np.float32), errors.DtypeError),
        (lambda: sim.encrypt([1], dtype="uint24"), errors.DtypeError),
        (lambda: x + 2**32, errors.OutsideRangeError),
        (lambda: x + (-1), errors.OutsideRangeError),
        (lambda: x + 1.5, errors.DtypeError),
        (lambda: x / 2, errors.UnsupportedError),
        (lambda: x // 0, errors.ArgumentError),
        (lambda: x % -3, errors.ArgumentError),
        (lambda: x // x, errors.UnsupportedError),
        (lambda: 7 // x, errors.UnsupportedError),
        (lambda: x << -1, errors.ArgumentError),
        (lambda: 1 << x, errors.UnsupportedError),
        (lambda: x << x, errors.UnsupportedError),
        (lambda: x[0], errors.UnsupportedError),
        (lambda: x @ x, errors.UnsupportedError),
        (lambda: x**-1, errors.ArgumentError),
        (lambda: bool(x < 3), errors.UnsupportedError),
        (lambda: np.sin(x), errors.UnsupportedError),
        (lambda: np.where(x, x, x), errors.DtypeError),
        (lambda: np.where(x < 2), errors.UnsupportedError),
        (lambda: x + sim.encrypt([1, 2]), errors.ShapeError),
        (lambda: x.reshape(2), errors.ShapeError),
        (lambda: np.searchsorted([3, 1], x), errors.ArgumentError),
        (lambda: sim.encrypt([True]) - sim.encrypt([True]), errors.ArgumentError),
        (lambda: sim.keys, errors.UnsupportedError),
        (lambda: sudare.WordContext(np.float64, depth=3), errors.DtypeError),
        (lambda: sudare.WordContext(np.uint8), errors.ArgumentError),
        (lambda: sudare.WordContext(np.uint8, depth=3, digit_bits=5), errors.ArgumentError),
        (lambda: sudare.WordContext(np.uint8, depth=90), errors.ParametersError),
    ]
    for attempt, error in attempts:
        with pytest.raises(error):
            attempt()
    with pytest.raises(errors.UnsupportedError, match="np.where"):
        if x < 3:
            pass
    # Shifts by the width or more are NumPy's.
    same(sim, x << 40, np.zeros(3, np.uint32))
    same(sim, x >> 32, np.zeros(3, np.uint32))
    shallow = sudare.WordContext(np.uint32, depth=4, mode="simulate")
    y = shallow.encrypt([1, 2, 3])
    with pytest.raises(errors.LevelExhaustedError):
        y < y + 1
    other = sudare.WordContext(np.uint32, depth=4, mode="simulate").encrypt([1, 2, 3])
    with pytest.raises(errors.ArgumentError, match="simulation"):
        y + other


def test_encrypted_words_are_those_of_numpy(ctx: sudare.WordContext) -> None:
    a, b = numbers(np.dtype(np.uint32)), numbers(np.dtype(np.uint32), 2)
    x, y = ctx.encrypt(a), ctx.encrypt(b)
    same(ctx, x, a)
    with np.errstate(over="ignore"):
        same(ctx, ctx.carried(x + y), a + b)
        same(ctx, np.where(x < y, x - y, x >> 3), np.where(a < b, a - b, a >> 3))
        same(ctx, (x == y) | (x > 1000), (a == b) | (a > 1000))
        same(ctx, x % 16, a % 16)
        same(ctx, ctx.encrypt(a % 256, dtype=np.uint8) // 10, (a % 256).astype(np.uint8) // 10)
        same(ctx, (x ^ b) & 255, (a ^ b) & 255)
    rows = ctx.encrypt(a.reshape(6, 10))
    same(ctx, np.maximum(rows, 12), np.maximum(a.reshape(6, 10), 12))
    one = ctx.encrypt(7)
    same(ctx, rows < one, a.reshape(6, 10) < 7)


def test_owner_and_server_share_files(ctx: sudare.WordContext, tmp_path: Path) -> None:
    a = numbers(np.dtype(np.int16), 5)
    x = ctx.encrypt(a, dtype=np.int16)
    x.save(tmp_path / "x.ct")
    ctx.keys.evaluation.save(tmp_path / "evaluation.key")
    keys = sudare.IntegerEvaluationKeys.open(tmp_path / "evaluation.key")
    server = sudare.WordContext.from_keys(keys)
    received = server.load(tmp_path / "x.ct")
    assert (received.shape, received.digit_bits) == ((60,), 4)
    assert received.dtype == np.dtype(np.int16)
    # Digits that wait for their carries keep their ranges.
    lazy = pickle.loads(pickle.dumps(received + received - 3))
    answer = server.attach(lazy) > 5
    result = sudare.EncryptedWords.from_bytes(answer.to_bytes())
    with np.errstate(over="ignore"):
        same(ctx, result, a + a - 3 > 5)
    assert not server.can_decrypt
    computing = pickle.loads(pickle.dumps(ctx.for_server()))
    assert (computing.dtype, computing.digit_bits) == (np.uint32, 4)
    same(ctx, computing.encrypt([9]) + 1, np.array([10], np.uint32))
    with pytest.raises(errors.UnsupportedError, match="attach"):
        _ = result + 1
    with pytest.raises(errors.WrongFileError):
        sudare.EncryptedIntegers.from_bytes(x.to_bytes())
    with pytest.raises(errors.WrongFileError):
        sudare.EncryptedWords.from_bytes(b"no file")
    strange = sudare.WordContext.preset("n15-t65537", np.int16, insecure_log_n=8)
    with pytest.raises(errors.MismatchError):
        strange.attach(x) + 1


def test_programs_are_planned() -> None:
    def program(x: Any, y: Any) -> Any:
        return np.where(x < y, x, y)

    found = sudare.WordContext.for_program(program, [1000, 1000], [np.uint32, np.uint32])
    explained = found.explain()
    needs = explained.needs
    assert needs is not None
    assert explained.digit_bits == found.digit_bits == 4
    assert (needs.depth, needs.bootstraps) == (9, 0)
    assert needs.log2_failure < -110 and 0.1 < needs.seconds < 10
    assert explained.parameters.security_bits >= 128
    assert explained.parameters.levels == 9
    assert "relinearisations" in str(explained)
    # Words rotate no slots, so there is one key.
    assert explained.parameters.evaluation_keys == 1
    assert found.dtype == np.uint32
    mixed = sudare.WordContext.for_program(
        lambda a, b: a + b, [(2, 3), (2, 3)], ["uint8", "int16"], mode="simulate"
    )
    assert mixed.dtype is None
    a, b = np.full((2, 3), 200, np.uint8), np.ones((2, 3), np.int16)
    same(mixed, mixed.encrypt(a) + mixed.encrypt(b), a + b)
    for arguments in (([], []), ([3], []), ([3], ["float32"]), ([0], ["uint8"])):
        with pytest.raises(errors.Error):
            sudare.WordContext.for_program(program, *arguments)


def test_simulations_have_no_keys() -> None:
    ctx = sudare.WordContext(np.uint8, depth=1, mode="simulate")
    assert not ctx.can_decrypt
    with pytest.raises(sudare.errors.UnsupportedError, match="no keys"):
        _ = ctx.keys
    with pytest.raises(sudare.errors.Error, match="stays in its process"):
        pickle.dumps(ctx)
