"""Compares functions of encrypted numbers with NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sudare
from sudare import errors, functions

SMOOTH: list[tuple[functions.Function, Callable[[Any], Any]]] = [
    (functions.inverse((0.5, 2), precision_bits=10), lambda x: 1 / x),
    (functions.exp((-2, 1), degree=7), np.exp),
    (functions.log((0.5, 4), precision_bits=8), np.log),
    (functions.sqrt((0.1, 1), precision_bits=7), np.sqrt),
    (functions.sigmoid((-6, 6), precision_bits=8), lambda x: 1 / (1 + np.exp(-x))),
    (functions.tanh((-3, 3), precision_bits=8), np.tanh),
    (functions.relu((-1, 1), precision_bits=6), lambda x: np.maximum(x, 0)),
    (functions.abs((-2, 2), precision_bits=5), np.abs),
]


@pytest.mark.parametrize(("function", "expected"), SMOOTH, ids=lambda f: getattr(f, "name", ""))
def test_functions_reach_the_error_that_they_state(
    function: functions.Function, expected: Callable[[Any], Any]
) -> None:
    start, end = function.interval
    # Padding is 0, which some intervals lack.
    x = np.linspace(start, end, 75).reshape(25, 3)
    np.testing.assert_allclose(function.exact(x), expected(x), rtol=1e-12, atol=1e-12)
    assert np.abs(function.in_the_clear(x) - expected(x)).max() <= function.max_error * 1.01
    ctx = sudare.Context.for_program(function, [x.shape], mode="simulate")
    y = function(ctx.encrypt(x))
    assert y.shape == x.shape
    np.testing.assert_allclose(ctx.decrypt(y), function.in_the_clear(x), rtol=0, atol=1e-5)
    total = ctx.decrypt(ctx.encrypt(np.ones(x.shape)).sum() + 0 * y.sum()) if y.level else None
    assert total is None or abs(total - 75) < 1e-3


def test_encrypted_values_are_those_in_the_clear() -> None:
    sigmoid = functions.sigmoid((-8, 8), degree=7)
    x = np.linspace(-8, 8, 100)
    ctx = sudare.Context.for_program(sigmoid, [x.shape])
    found = ctx.decrypt(sigmoid(ctx.encrypt(x)))
    np.testing.assert_allclose(found, sigmoid.in_the_clear(x), rtol=0, atol=1e-4)


@pytest.mark.parametrize("plain", [False, True])
def test_pairs_broadcast_and_may_be_half_plain(plain: bool) -> None:
    a, b = np.linspace(-1, 1, 15).reshape(5, 3), np.array([0.5, -0.5, 0.1])
    larger = functions.maximum((-1, 1), precision_bits=5)
    smaller = functions.minimum((-1, 1), precision_bits=5)
    for function, expected in [(larger, np.maximum(a, b)), (smaller, np.minimum(a, b))]:
        np.testing.assert_array_equal(function.exact(a, b), expected)

        def program(x: Any, y: Any, function: Any = function) -> Any:
            return function(x, b if plain else y)

        ctx = sudare.Context.for_program(program, [a.shape, b.shape], mode="simulate")
        found = ctx.decrypt(program(ctx.encrypt(a), ctx.encrypt(b)))
        assert np.abs(found - expected).max() < 2**-5 + 1e-4


def test_comparisons_are_sharp_beyond_their_gap() -> None:
    greater = functions.compare((0, 1), gap=0.1, precision_bits=6)
    a, b = np.array([0.9, 0.2, 0.5]), np.array([0.1, 0.35, 0.39])
    ctx = sudare.Context.for_program(greater, [a.shape, b.shape], mode="simulate")
    found = ctx.decrypt(greater(ctx.encrypt(a), ctx.encrypt(b)))
    np.testing.assert_allclose(found, [1, 0, 1], rtol=0, atol=2**-6 + 1e-4)
    sign = functions.sign((-1, 1), gap=0.2, precision_bits=6)
    assert "gap=0.2" in repr(sign) and len(sign.degrees) >= 1
    ctx = sudare.Context.for_program(sign, [(4,)], mode="simulate")
    found = ctx.decrypt(sign(ctx.encrypt([-1, -0.2, 0.3, 0.9])))
    np.testing.assert_allclose(found, [-1, -1, 1, 1], rtol=0, atol=2**-6 + 1e-4)


def test_impossible_functions_are_refused() -> None:
    makes: list[Callable[[], object]] = [
        lambda: functions.log((-1, 1)),
        lambda: functions.inverse((-1, 1)),
        lambda: functions.exp((1, 0)),
        lambda: functions.exp((0, float("nan"))),
        lambda: functions.sigmoid((-8, 8), degree=1000),
        lambda: functions.sign((-1, 1), gap=0.0),
        lambda: functions.sigmoid(5),
        lambda: functions.sigmoid((1, 2, 3)),
        lambda: functions.sigmoid((-1, 1), degree=-1),
        lambda: functions.sigmoid((-1, 1), degree=2.5),
        lambda: functions.polynomial([1.0], (-1, 1)),
        lambda: functions.polynomial([[1.0, 2.0]], (-1, 1)),
        lambda: functions.polynomial([1.0, float("inf")], (-1, 1)),
    ]
    for make in makes:
        with pytest.raises(errors.Error):
            make()


@pytest.mark.parametrize("wrong", ["a", None, [1, 2], 1j, float("nan"), 10**400], ids=repr)
def test_arguments_that_are_not_numbers_are_named(wrong: Any) -> None:
    makes: list[tuple[str, Callable[[], object]]] = [
        ("gap", lambda: functions.sign((-1, 1), gap=wrong)),
        ("precision_bits", lambda: functions.sigmoid((-1, 1), precision_bits=wrong)),
        ("the start of the interval", lambda: functions.sigmoid((wrong, 1))),
        ("the end of the interval", lambda: functions.maximum((0, wrong))),
        ("noise", lambda: functions.sigmoid((-1, 1)).stated_error(wrong)),
    ]
    for name, make in makes:
        with pytest.raises(errors.ArgumentError, match=name):
            make()


def test_polynomials_take_coefficients() -> None:
    coefficients = [0.5, -1.0, 0.0, 0.25]
    p = functions.polynomial(coefficients, (-2, 4))
    x = np.linspace(-2, 4, 60)
    expected = np.polynomial.polynomial.polyval(x, coefficients)
    np.testing.assert_allclose(p.exact(x), expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(p.in_the_clear(x), expected, rtol=0, atol=1e-12)
    assert (p.name, p.degrees, p.depth) == ("polynomial", (3,), 2)
    # The slope at 4 is 11.
    assert 0.9 < p.stated_error(1e-3, 0) / 11e-3 < 1.1
    ctx = sudare.Context.for_program(p, [x.shape])
    np.testing.assert_allclose(ctx.decrypt(p(ctx.encrypt(x))), expected, rtol=0, atol=1e-4)


def test_bootstrapped_functions_are_right_at_the_ends() -> None:
    ctx = sudare.Context.preset("n16-boot", insecure_log_n=8)
    x = np.array([1.0, -1.0, 0.999, -0.999, 1e-5, 0.0, 0.5, -0.25])
    y = ctx.encrypt(x)
    noise = 2**-16
    for function in (functions.abs((-1, 1)), functions.relu((-1, 1))):
        stated = function.stated_error(noise, noise)
        assert stated < 1e-4
        assert np.abs(ctx.decrypt(function(y)) - function.exact(x)).max() <= stated
    larger = functions.maximum((-1, 1))
    error = np.abs(ctx.decrypt(larger(y, ctx.encrypt(-x))) - np.abs(x)).max()
    assert error <= larger.stated_error(noise, noise) + noise


def test_functions_that_noise_makes_wrong_are_refused() -> None:
    ctx = sudare.Context.preset("n16-boot-fast", insecure_log_n=8)
    x = ctx.encrypt([1.0, -1.0])
    with pytest.raises(errors.Error, match="wider gap"):
        functions.sign((-1, 1), gap=1e-4)(x)
    with pytest.raises(errors.Error, match="fewer bits of precision"):
        functions.maximum((-1, 1))(x, -x)
    with pytest.raises(errors.Error, match="lower degree"):
        functions.abs((-1, 1), degree=254)(x)
    # At a scale of 2^40, noise in the largest ring is near 2^-22.
    precise = functions.abs((-1, 1), precision_bits=30)
    with pytest.raises(errors.Error, match="fewer bits of precision"):
        sudare.Context.for_program(precise, [(1024,)], mode="simulate")


@pytest.mark.parametrize(
    "function",
    [functions.inverse((0.05, 1), degree=15), functions.log((0.5, 4), degree=15)],
    ids=lambda f: f.name,
)
def test_errors_are_predicted_for_arguments_in_the_interval(function: functions.Function) -> None:
    ctx = sudare.Context.for_program(function, [(256,)])
    program = ctx.explain(function, [(256,)]).program
    assert program is not None
    x = np.random.default_rng(1).uniform(*function.interval, 256)
    error = ctx.decrypt(function(ctx.encrypt(x))) - function.in_the_clear(x)
    # Conservative, because arguments are assumed to fill the interval.
    assert -1 < program.outputs[0].log2_error - np.log2(error.std()) < 4


def test_polynomials_that_a_set_has_no_levels_for_are_named() -> None:
    ctx = sudare.Context.preset("n15-boot", mode="simulate")
    with pytest.raises(errors.Error, match="takes . levels, and bootstrapping leaves"):
        functions.sigmoid((-8, 8), degree=31)(ctx.encrypt([1.0]))
