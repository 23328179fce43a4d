"""Ranges of encrypted arrays: results are right, or both execution and simulation refuse them."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest

import sudare
from sudare import errors

Mode = Literal["execute", "simulate"]
MODES: tuple[Mode, ...] = ("simulate", "execute")
RNG = np.random.default_rng(11)


def mean_square(x: Any) -> Any:
    return (x * x).mean()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [1e-6, 1e-3, 1.0, 120.0, 1e4, 1e6])
def test_the_mean_of_squares_is_right_whatever_the_size(mode: Mode, size: float) -> None:
    data = RNG.uniform(0.2 * size, size, 1000)
    context = sudare.Context.for_program(mean_square, [data.shape], mode=mode)
    result = mean_square(context.encrypt(data))
    exact = mean_square(data)
    assert result.log2_error is not None
    assert abs(context.decrypt(result) - exact) < 2.0 ** (result.log2_error + 6)
    assert result.low <= exact <= result.high
    with pytest.raises(errors.OutsideRangeError, match="calibration=sample"):
        context.encrypt(np.full(data.shape, 1e9))


@pytest.mark.parametrize("mode", MODES)
def test_results_without_room_are_refused_before_the_computation(mode: Mode) -> None:
    context = sudare.Context(depth=2, mode=mode)
    x = context.encrypt([1e6, 2.0])
    with pytest.raises(errors.OutOfRoomError, match=r"within\(low, high\)"):
        x**4
    big = sudare.Context(depth=6, mode=mode)
    values = np.array([500.0, 3.0])
    for found, exact in (
        (big.encrypt(values) ** 7, values**7),
        (big.encrypt(values) + 1e16, values + 1e16),
        (big.encrypt(values) * 1e14, values * 1e14),
    ):
        assert np.allclose(big.decrypt(found), exact, rtol=1e-3)


@pytest.mark.parametrize("mode", MODES)
def test_padding_does_not_overflow(mode: Mode) -> None:
    data = 20 + RNG.uniform(-0.5, 0.5, 1000)

    def program(x: Any) -> Any:
        return (x - x.mean()) ** 4

    for context in (
        sudare.Context.for_program(program, [data.shape], mode=mode),
        sudare.Context(depth=5, mode=mode),
    ):
        found = context.decrypt(program(context.encrypt(data)))
        assert np.abs(found - program(data)).max() < 1e-3


@pytest.mark.parametrize("mode", MODES)
def test_arguments_outside_of_an_interval_are_refused(mode: Mode) -> None:
    sigmoid = sudare.functions.sigmoid((-6, 6), precision_bits=10)
    context = sudare.Context(depth=7, mode=mode)
    inside = context.encrypt([0.5, -5.9])
    assert np.abs(context.decrypt(sigmoid(inside)) - sigmoid.exact([0.5, -5.9])).max() < 2e-3
    with pytest.raises(errors.OutsideIntervalError, match="sigmoid"):
        sigmoid(context.encrypt([0.5, 6.5]))
    # Only the worst case of a weighted sum is known, and its user promises the interval.
    score = context.encrypt(np.full(50, 0.5)) @ np.where(np.arange(50) % 2, 1.0, -1.0)
    assert score.high is not None and score.high > 6
    assert abs(context.decrypt(sigmoid(score)) - 0.5) < 2e-3
    planned = sudare.Context.for_program(sigmoid, [(2,)], mode=mode)
    with pytest.raises(errors.OutsideRangeError, match="from -6 to 6"):
        planned.encrypt([0.5, 6.5])


def test_promises_are_checked_in_simulation_and_when_a_result_is_opened() -> None:
    trial = sudare.Context(depth=5, mode="simulate")
    with pytest.raises(errors.OutsideRangeError, match="element 1"):
        trial.encrypt([0.5, 60.0]).within(-8, 8)
    sigmoid = sudare.functions.sigmoid((-8, 8), precision_bits=10)
    context = sudare.Context(depth=5)
    broken = sigmoid(context.encrypt([0.5, 60.0]).within(-8, 8))
    with pytest.raises(errors.OutsideRangeError, match="promised"):
        context.decrypt(broken)
    kept = context.encrypt([0.5, 0.25]).within(0, 1)
    assert (kept.low, kept.high) == (0, 1)


def test_ranges_are_rounded_for_those_who_read_files() -> None:
    context = sudare.Context(depth=1)
    read_off = context.encrypt([3.0, 91.5])
    assert (read_off.low, read_off.high) == (3.0, 91.5)
    sent = pickle.loads(pickle.dumps(read_off))
    assert (sent.low, sent.high) == (0.0, 128.0)
    declared = pickle.loads(pickle.dumps(context.encrypt([3.0, 91.5], low=0, high=100)))
    assert (declared.low, declared.high) == (0.0, 100.0)
    square = context.for_server().attach(sent) ** 2
    assert (square.low, square.high) == (0.0, 2.0**14)
    assert np.allclose(context.decrypt(context.attach(square)), [9.0, 91.5**2], atol=1e-2)
    with pytest.raises(errors.OutsideRangeError):
        context.encrypt([3.0, 91.5], high=90)
    both = context.encrypt([3.0, 91.5], high=100)
    assert (both.low, both.high) == (-100.0, 100.0)


def test_plans_are_made_for_what_is_declared() -> None:
    sample = RNG.uniform(0, 100, 50)
    context = sudare.Context.for_program(
        mean_square, [(1000,)], calibration=sample, mode="simulate"
    )
    program = context.explain().program
    assert program is not None
    width = sample.max() - sample.min()
    assert program.inputs[0].low == pytest.approx(sample.min() - width / 2)
    assert program.inputs[0].high == pytest.approx(sample.max() + width / 2)
    assert "input 0" in str(context.explain())
    ranges = sudare.Context.for_program(
        lambda a, b: a * b, [(4,), (4,)], ranges=[(0, 1e8), None], mode="simulate"
    )
    found = ranges.decrypt(ranges.encrypt([1e8, 0, 1, 2]) * ranges.encrypt([1, 2, 3, 4]))
    assert np.allclose(found, [1e8, 0, 3, 8])
    wrong: list[Callable[[], object]] = [
        lambda: sudare.Context.for_program(mean_square, [(4,)], ranges=[]),
        lambda: sudare.Context.for_program(mean_square, [(4,)], ranges=[(2, 1)]),
        lambda: sudare.Context.for_program(mean_square, [(4,)], ranges=[3.0]),  # type: ignore[list-item]
        lambda: sudare.Context.for_program(
            mean_square, [(4,)], ranges=[(0, 1)], calibration=[0.0, 1.0]
        ),
        lambda: sudare.Context.for_program(lambda a, b: a + b, [(4,), (4,)], calibration=sample),
        lambda: context.encrypt([1.0], high="a"),  # type: ignore[arg-type]
    ]
    for call in wrong:
        with pytest.raises(errors.Error):
            call()


def test_constants_have_room_at_the_end_of_all_levels() -> None:
    # Seven levels fill the smallest ring.
    absolute = sudare.functions.abs((-327680, -896), degree=127)
    ctx = sudare.Context.for_program(lambda x: absolute(x), [3], mode="simulate")
    x = np.array([-327680.0, -5000.0, -896.0])
    found = ctx.decrypt(absolute(ctx.encrypt(x)))
    assert np.allclose(found, absolute.in_the_clear(x), rtol=1e-6)
    assert np.allclose(found, -x, atol=2 * absolute.max_error)


def test_misuse_has_a_class_and_a_remedy() -> None:
    context = sudare.Context(depth=2, mode="simulate")
    x = context.encrypt([1.0, 2.0, 3.0])
    assert np.allclose(context.decrypt(x * 2**70), np.array([1.0, 2.0, 3.0]) * 2.0**70)
    wrong: list[tuple[type[errors.Error], Callable[[], object]]] = [
        (errors.OutOfRoomError, lambda: x * 1e300),
        (errors.OutsideRangeError, lambda: x * 2**2000),
        (errors.ArgumentError, lambda: sudare.Context.preset(5)),  # type: ignore[arg-type]
        (errors.ArgumentError, lambda: sudare.Context.for_program(mean_square, 3)),  # type: ignore[arg-type]
        (errors.ArgumentError, lambda: sudare.Context.for_program(None, [(3,)])),  # type: ignore[arg-type]
        (errors.ParametersError, lambda: sudare.Context(depth=2**32 - 1)),
    ]
    for kind, call in wrong:
        with pytest.raises(kind):
            call()


def test_another_program_and_another_key_are_named() -> None:
    planned = sudare.Context.for_program(lambda x: (x * x).sum(axis=0), [(20, 3)])
    x = planned.encrypt(np.ones((20, 3)))
    with pytest.raises(errors.MissingKeyError, match=r"\(20, 3\).*depth="):
        x.sum(axis=1)
    with pytest.raises(errors.MismatchError, match="context of its own key"):
        sudare.Context(depth=1).attach(x)


def test_what_is_broadcast_into_padding_ends() -> None:
    programs: list[Callable[[Any], Any]] = [
        lambda a: a - a.mean(),
        lambda a: a.mean() + a,
        lambda a: a[:1] * a,
    ]
    for program in programs:
        context = sudare.Context.for_program(program, [(3,)], mode="simulate")
        values = np.array([1.0, 2.0, 6.0])
        assert np.allclose(context.decrypt(program(context.encrypt(values))), program(values))


@pytest.mark.parametrize("mode", MODES)
def test_noise_that_is_magnified_is_no_broken_range(mode: Mode) -> None:
    context = sudare.Context(depth=3, mode=mode)
    for x in (context.encrypt([0.0, 0.0]), context.encrypt([5000.0] * 2) - 5000.0):
        assert np.abs(context.decrypt(x * 1e10)).max() < 1e5
