"""Programs that are traced before anything is encrypted."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import sudare
from sudare import EncryptedArray, errors


def covariance(x: Any) -> Any:
    """Computes `numpy.cov` of columns, with a divisor of n."""
    centred = x - x.mean(axis=0)
    return centred.T @ centred / len(x)


def test_a_planned_context_has_exactly_what_its_program_needs() -> None:
    a = np.random.default_rng(4).uniform(-1, 1, (50, 3))
    context = sudare.Context.for_program(covariance, [a.shape])
    explained = context.explain()
    assert explained.program is not None
    assert explained.program.depth == explained.levels
    assert not explained.program.missing_keys
    assert explained.program.outputs[0].shape == (3, 3)
    for part in ("security", "memory", "time", "output 0"):
        assert part in str(explained)

    result = covariance(context.encrypt(a))
    assert result.level == explained.program.outputs[0].level
    np.testing.assert_allclose(context.decrypt(result), covariance(a), atol=1e-4)
    assert len(context.keys.evaluation) == explained.evaluation_keys
    # A rotation that the program does not use has no key.
    with pytest.raises(errors.MissingKeyError):
        context.decrypt(context.encrypt(np.ones(7))[3] * 1.5)


def test_a_program_is_called_once_with_shapes_only() -> None:
    calls = []

    def program(x: Any, y: Any) -> list[EncryptedArray]:
        calls.append((x.shape, y.shape))
        assert "program" in repr(x)
        return [(x * y).sum(axis=0), x[0] + np.ones(4), y.T.reshape(2, 6), np.mean(x), -x]

    explained = sudare.Context.for_program(program, [(3, 4), (3, 4)]).explain()
    assert calls == [((3, 4), (3, 4))]
    assert explained.program is not None
    shapes = [output.shape for output in explained.program.outputs]
    assert shapes == [(4,), (4,), (2, 6), (), (3, 4)]


def test_a_program_cannot_see_values() -> None:
    outside = sudare.Context(1, mode="simulate").encrypt([1.0])
    for program, refused in [
        (lambda x: x if x > 0 else -x, errors.UnsupportedError),
        (lambda x: x + outside, errors.UnsupportedError),
        (lambda x: x.to_bytes(), errors.UnsupportedError),
        (lambda x: [], errors.UnsupportedError),
        (lambda x: None, errors.UnsupportedError),
        (lambda x: [1.0], errors.UnsupportedError),
        (lambda x: x + np.ones(5), errors.ShapeError),
        (lambda x: x @ np.ones((5, 2)), errors.ShapeError),
    ]:
        with pytest.raises(refused):
            sudare.Context.for_program(program, [3])


def test_a_context_explains_a_program_under_its_own_parameters() -> None:
    context = sudare.Context(depth=3)
    cost = context.explain(lambda x: (x * x + 1).mean(axis=0), [(3, 4)]).program
    assert cost is not None
    assert (cost.depth, cost.bootstraps, cost.missing_keys) == (2, 0, False)
    assert cost.seconds > 0 and cost.peak_memory_bytes > cost.input_bytes > 0
    with pytest.raises(errors.LevelExhaustedError):
        context.explain(lambda x: x**16, [4])


def test_shapes_that_do_not_fit_a_program_are_refused() -> None:
    wrong: list[tuple[Any, type[errors.Error], str]] = [
        ((3, 4), errors.ShapeError, r"2 shapes.*takes \(x\).*\[\(3, 4\)\]"),
        ([], errors.ShapeError, "0 shapes"),
        ([(3, 0)], errors.ArgumentError, r"shape \(3, 0\) is 0"),
        ([-1], errors.ArgumentError, "is -1"),
        ([2.5], errors.ArgumentError, "is 2.5"),
    ]
    for shapes, error, says in wrong:
        with pytest.raises(error, match=says):
            sudare.Context.for_program(lambda x: x * x, shapes)
        with pytest.raises(error, match=says):
            sudare.Context(depth=1).explain(lambda x: x * x, shapes)


def test_sizes_and_times_are_shown_in_units_of_their_size() -> None:
    explained = sudare.Context.for_program(covariance, [(300, 20)]).explain()
    assert explained.program is not None
    for seconds, shown in [(0.0123, "0.012 s"), (61, "61 s"), (300, "5 min"), (9000, "2.5 h")]:
        cost = dataclasses.replace(explained.program, seconds=seconds, input_bytes=28_400_000_000)
        text = str(dataclasses.replace(explained, program=cost))
        assert f"time             about {shown} on one thread" in text
        assert "inputs           28.4 GB" in text


def test_what_no_ring_has_is_refused_or_bootstrapped() -> None:
    def deep(x: EncryptedArray) -> EncryptedArray:
        for _ in range(50):
            x = x * x
        return x

    with pytest.raises(errors.LevelExhaustedError, match="bootstrapping"):
        sudare.Context.for_program(deep, [4])


def test_a_planned_context_simulates_its_program() -> None:
    a = np.random.default_rng(5).uniform(-1, 1, (20, 2))
    context = sudare.Context.for_program(covariance, [a.shape], mode="simulate")
    result = covariance(context.encrypt(a))
    np.testing.assert_allclose(context.decrypt(result), covariance(a), atol=1e-6)
