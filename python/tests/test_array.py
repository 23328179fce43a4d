"""Compares encrypted arrays with NumPy."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import sudare
from sudare import errors

quick = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
values = st.floats(-4, 4, width=32)
shapes = hnp.array_shapes(min_dims=0, max_dims=3, max_side=6)


@pytest.fixture(scope="module", params=["execute", "simulate"])
def engine(request: pytest.FixtureRequest, ctx: sudare.Context) -> sudare.Context:
    """Runs a test in simulation and in execution."""
    return ctx if request.param == "execute" else sudare.Context(3, mode="simulate")


def close(context: sudare.Context, found: Any, expected: Any) -> None:
    """Checks that `found` decrypts to `expected`."""
    assert isinstance(found, sudare.EncryptedArray)
    decrypted = context.decrypt(found)
    assert found.shape == decrypted.shape == np.shape(expected)
    assert decrypted.dtype == np.float64
    np.testing.assert_allclose(decrypted, expected, rtol=0, atol=1e-3)


def test_the_first_example(engine: sudare.Context) -> None:
    x = engine.encrypt(np.arange(12.0).reshape(3, 4))
    y = (x * x + 1).mean(axis=0)
    close(engine, y, (np.arange(12.0).reshape(3, 4) ** 2 + 1).mean(axis=0))


OPERATIONS: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: b - a,
    lambda a, b: a * b,
    lambda a, b: b * a,
    lambda a, b: np.add(a, b),
    lambda a, b: np.subtract(b, a),
    lambda a, b: np.multiply(a, b),
]


@quick
@given(pair=hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=5), data=st.data())
@pytest.mark.parametrize("plain", [False, True])
def test_arithmetic_broadcasts_like_numpy(
    engine: sudare.Context, plain: bool, pair: Any, data: st.DataObject
) -> None:
    left, right = pair.input_shapes
    if 0 in left + right:
        return
    a = data.draw(hnp.arrays(np.float64, left, elements=values))
    b = data.draw(hnp.arrays(np.float64, right, elements=values))
    operation = data.draw(st.sampled_from(OPERATIONS))
    other = b if plain else engine.encrypt(b)
    close(engine, operation(engine.encrypt(a), other), operation(a, b))


@quick
@given(shape=shapes, data=st.data())
def test_reductions_are_those_of_numpy(
    engine: sudare.Context, shape: tuple[int, ...], data: st.DataObject
) -> None:
    a = data.draw(hnp.arrays(np.float64, shape, elements=values))
    axes = st.none() | (
        st.lists(st.integers(-len(shape), len(shape) - 1), min_size=1, max_size=1).map(tuple)
        if shape
        else st.none()
    )
    axis, keepdims = data.draw(axes), data.draw(st.booleans())
    x = engine.encrypt(a)
    close(engine, x.sum(axis, keepdims), a.sum(axis, keepdims=keepdims))
    close(engine, np.sum(x, axis=axis, keepdims=keepdims), a.sum(axis, keepdims=keepdims))
    close(engine, np.mean(x, axis=axis), a.mean(axis))
    close(engine, np.add.reduce(x, axis=axis), np.add.reduce(a, axis=axis))


def test_variances(engine: sudare.Context) -> None:
    a = np.linspace(-2, 3, 24).reshape(4, 6)
    x = engine.encrypt(a)
    close(engine, x.var(), a.var())
    close(engine, np.var(x, axis=0, ddof=1), a.var(axis=0, ddof=1))
    close(engine, x.var(axis=(0, 1), keepdims=True), a.var(keepdims=True))
    with pytest.raises(errors.ShapeError, match="ddof"):
        x.var(axis=0, ddof=4)


def test_shapes_change_like_those_of_numpy(engine: sudare.Context) -> None:
    a = np.arange(24.0).reshape(2, 3, 4)
    x = engine.encrypt(a)
    close(engine, x.T, a.T)
    close(engine, np.transpose(x, (1, 2, 0)), a.transpose(1, 2, 0))
    close(engine, x.reshape(4, -1), a.reshape(4, -1))
    close(engine, x.ravel(), a.ravel())
    close(engine, np.squeeze(np.expand_dims(x, 1), axis=1), a)
    assert (len(x), x.ndim, x.size, np.shape(x)) == (2, 3, 24, (2, 3, 4))
    assert x.dtype == np.float64
    wrong: list[Callable[[], object]] = [
        lambda: x.reshape(5, 5),
        lambda: x.reshape(-1, 7),
        lambda: x.transpose(0, 1),
    ]
    for function in wrong:
        with pytest.raises(errors.ShapeError):
            function()
    with pytest.raises(ValueError, match="axis 3"):
        x.sum(axis=3)


def test_powers_and_division(engine: sudare.Context) -> None:
    a = np.array([-1.5, 0.25, 2.0])
    x = engine.encrypt(a)
    close(engine, x**3, a**3)
    close(engine, np.square(x), a**2)
    close(engine, np.power(x, 1), a)
    close(engine, x / 4, a / 4)
    close(engine, np.divide(x, [1.0, 2.0, -4.0]), a / [1.0, 2.0, -4.0])
    close(engine, +(-x), -a)
    wrong: list[Callable[[], object]] = [
        lambda: x**0,
        lambda: x**0.5,
        lambda: 2**x,
        lambda: 1 / x,
        lambda: x / x,
    ]
    for function in wrong:
        with pytest.raises(errors.UnsupportedError):
            function()
    with pytest.raises(errors.OutsideRangeError):
        x / 0


INDICES: list[Any] = [
    1,
    -1,
    (0, 2),
    slice(1, 3),
    (slice(None), slice(1, 4)),
    (..., 2),
    (None, 1, slice(2, None)),
    (slice(-2, None), None, -1),
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_slices_are_those_of_numpy(engine: sudare.Context, index: Any) -> None:
    a = np.arange(15.0).reshape(3, 5)
    close(engine, engine.encrypt(a)[index], a[index])


def test_impossible_indices(engine: sudare.Context) -> None:
    x = engine.encrypt(np.ones((3, 5)))
    beyond: list[Any] = [3, -4, (0, 0, 0), (..., ...), slice(2, 2), (0, 9)]
    for index in beyond:
        with pytest.raises(errors.ShapeError):
            x[index]
    strange: list[Any] = [slice(None, None, 2), [0, 1], np.array([True, False, True]), "a", 1.5]
    for index in strange:
        with pytest.raises(errors.UnsupportedError):
            x[index]
    assert [row.shape for row in x] == [(5,)] * 3


PRODUCTS = [((5,), (5,)), ((3, 5), (5,)), ((3,), (3, 5)), ((3, 4), (4, 2)), ((1, 6), (6, 1))]


@pytest.mark.parametrize(("left", "right"), PRODUCTS)
@pytest.mark.parametrize("encrypted", ["both", "left", "right"])
def test_matrix_products_are_those_of_numpy(
    engine: sudare.Context, left: Any, right: Any, encrypted: str
) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.uniform(-1, 1, left), rng.uniform(-1, 1, right)
    x: Any = a if encrypted == "right" else engine.encrypt(a)
    y: Any = b if encrypted == "left" else engine.encrypt(b)
    close(engine, x @ y, a @ b)
    close(engine, np.dot(x, y), a @ b)
    with pytest.raises(errors.ShapeError):
        x @ engine.encrypt(np.ones((7, 7)))


def test_arrays_larger_than_a_ciphertext(ctx: sudare.Context) -> None:
    a = np.random.default_rng(1).uniform(-1, 1, (40, 700))
    x = ctx.encrypt(a)
    assert "ciphertexts" in repr(x) and x.nbytes > 3e6
    close(ctx, x * x - x, a * a - a)
    close(ctx, x.mean(axis=0), a.mean(axis=0))
    close(ctx, x.sum(), a.sum())


@pytest.mark.parametrize(
    "bad",
    [
        np.array([object()]),
        np.array(["1.0"]),
        np.array([1j]),
        np.array([np.datetime64("2024-01-01")]),
        np.ma.masked_array([1.0, 2.0], [True, False]),
        [[1.0], [2.0, 3.0]],
        None,
        "text",
    ],
)
def test_only_real_numbers_are_taken(ctx: sudare.Context, bad: Any) -> None:
    x = ctx.encrypt([1.0])
    for use in (lambda: ctx.encrypt(bad), lambda: x + bad):
        with pytest.raises((TypeError, ValueError)) as caught:
            use()
        if not isinstance(bad, list):
            assert isinstance(caught.value, errors.DtypeError)


def test_numbers_that_cannot_be_are_refused(ctx: sudare.Context) -> None:
    x = ctx.encrypt([1.0, 2.0])
    for bad in (np.nan, np.inf, -np.inf):
        with pytest.raises(errors.OutsideRangeError, match=r"\(1,\)"):
            ctx.encrypt([0.0, bad])
        with pytest.raises(errors.OutsideRangeError):
            x * bad
    with pytest.raises(OverflowError) as caught:
        ctx.encrypt([1e200])
    assert isinstance(caught.value, errors.OutsideRangeError)
    with pytest.raises(errors.ShapeError):
        ctx.encrypt(np.zeros((3, 0)))
    with pytest.raises(errors.ShapeError):
        x + np.ones(3)


def test_what_encryption_cannot_do_raises(ctx: sudare.Context) -> None:
    x = ctx.encrypt([1.0, 2.0])
    wrong: list[Callable[[], object]] = [
        lambda: np.sqrt(x),
        lambda: np.concatenate([x, x]),
        lambda: np.linalg.norm(x),
        lambda: np.asarray(x),
        lambda: np.array([x, x]),
        lambda: float(x),
        lambda: np.add(x, 1, out=np.zeros(2)),
        lambda: np.add(x, 1, where=[True, False]),
        lambda: np.add.accumulate(x),
        lambda: np.add.at(x, [0], 1),
        lambda: np.sum(x, dtype=np.float32),
        lambda: x == x,
        lambda: x < 1,
        lambda: bool(x),
        lambda: np.linalg.inv(x),
    ]
    for function in wrong:
        with pytest.raises(TypeError):
            function()
    array = np.ones(2)
    array += 1
    with pytest.raises(TypeError):
        array += x


def test_arguments_of_numpy_may_come_by_place(engine: sudare.Context) -> None:
    a = np.arange(6.0).reshape(2, 3)
    x: Any = engine.encrypt(a)
    no: Any = None
    close(engine, np.sum(x, 0, no, no, True), np.sum(a, 0, no, no, True))
    close(engine, np.mean(x, 1, no, no, True), np.mean(a, 1, no, no, True))
    close(engine, np.var(x, 0, no, no, 1), np.var(a, 0, no, no, 1))
    close(engine, np.reshape(x, (3, 2), "C"), np.reshape(a, (3, 2)))
    refused: list[tuple[Callable[[], object], str]] = [
        (lambda: np.sum(x, 0, np.float64), "option dtype"),
        (lambda: np.sum(x, 0, no, np.zeros(3)), "option out"),
        (lambda: np.sum(x, initial=1.0), "option initial"),
        (lambda: np.mean(x, where=a > 1), "option where"),
        (lambda: np.reshape(x, (3, 2), "F"), "option order"),
        (lambda: np.ravel(x, "F"), "option order"),
        (lambda: np.size(x, 0), "option axis"),
        (lambda: np.add(x, 1, casting="unsafe"), "option casting"),
        (lambda: np.matmul(x, x.T, axes=[(0, 1), (0, 1), (0, 1)]), "option axes"),
        (lambda: np.sort(x), "numpy.sort"),
        (lambda: np.fft.fft(x), "numpy.fft.fft"),
    ]
    for function, says in refused:
        with pytest.raises(errors.UnsupportedError, match=says):
            function()


def test_frames_may_be_on_either_side(engine: sudare.Context) -> None:
    a = np.arange(6.0).reshape(2, 3)
    x: Any = engine.encrypt(a)
    row, table = pd.Series([1.0, 2.0, 3.0]), pd.DataFrame(a + 1)
    close(engine, row * x, row.to_numpy() * a)
    close(engine, x - row, a - row.to_numpy())
    close(engine, table * x, (a + 1) * a)
    close(engine, x @ table.T, a @ (a + 1).T)


def test_arguments_of_other_kinds_are_refused(ctx: sudare.Context) -> None:
    x: Any = ctx.encrypt([[1.0, 2.0]])
    plain: Any = np.ones(2)
    nothing: Any = None
    sigmoid: Any = sudare.functions.sigmoid((-1, 1), degree=3)
    larger = sudare.functions.maximum((-1, 1), degree=3)
    refused: list[tuple[Callable[[], object], type[errors.Error], str]] = [
        (lambda: x.sum(axis=0.5), errors.ArgumentError, "axis is 0.5"),
        (lambda: x.reshape("2"), errors.ArgumentError, "'2'"),
        (lambda: x.var(ddof=0.5), errors.ArgumentError, "ddof is 0.5"),
        (lambda: ctx.decrypt(plain), errors.UnsupportedError, "got ndarray"),
        (lambda: ctx.attach(nothing), errors.UnsupportedError, "got NoneType"),
        (lambda: sigmoid(plain), errors.UnsupportedError, "in_the_clear"),
        (lambda: larger([0.5], [0.25]), errors.UnsupportedError, "in_the_clear"),
        (lambda: x // 2, errors.UnsupportedError, "sudare.functions"),
        (lambda: abs(x), errors.UnsupportedError, "sudare.functions"),
        (lambda: float(x), errors.UnsupportedError, "sudare.functions"),
    ]
    for function, error, says in refused:
        with pytest.raises(error, match=says):
            function()


def test_too_deep_a_program_says_what_to_do(engine: sudare.Context) -> None:
    x = engine.encrypt([0.5])
    with pytest.raises(errors.LevelExhaustedError, match="bootstrapping") as caught:
        x**16
    assert isinstance(caught.value, ArithmeticError)


def test_arrays_of_two_owners_are_refused_by_both_names(
    ctx: sudare.Context, stranger: sudare.Context
) -> None:
    x, y = ctx.encrypt([1.0]), stranger.encrypt([1.0])
    for wrong in (lambda: x + y, lambda: stranger.decrypt(x), lambda: stranger.attach(x) * 2):
        with pytest.raises(errors.MismatchError) as caught:
            wrong()
        assert str(x.key_id) in str(caught.value) and str(y.key_id) in str(caught.value)


def test_simulation_and_execution_do_not_mix(ctx: sudare.Context) -> None:
    simulation = sudare.Context(3, mode="simulate")
    x, y = ctx.encrypt([1.0]), simulation.encrypt([1.0])
    wrong: list[Callable[[], object]] = [
        lambda: x + y,
        lambda: y + x,
        lambda: ctx.decrypt(y),
        lambda: simulation.decrypt(x),
        lambda: simulation.attach(x),
        y.to_bytes,
    ]
    for function in wrong:
        with pytest.raises(errors.UnsupportedError):
            function()


def test_simulation_knows_the_error_to_expect(ctx: sudare.Context) -> None:
    a = np.random.default_rng(2).uniform(-1, 1, 4096)
    simulation = sudare.Context(3, mode="simulate")
    expected = ((simulation.encrypt(a) ** 2) * a).log2_error
    assert expected is not None and "error=2^" in repr(simulation.encrypt(a))
    found = np.log2(np.std(ctx.decrypt((ctx.encrypt(a) ** 2) * a) - a**3))
    assert abs(found - expected) < 3


def test_an_array_travels_without_keys(ctx: sudare.Context, tmp_path: Path) -> None:
    a = np.arange(6.0).reshape(2, 3)
    x = ctx.encrypt(a) * 2
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(x, protocol=5, buffer_callback=buffers.append)
    assert len(data) < 500 and len(buffers) == 1
    x.save(tmp_path / "x.ct")
    with pytest.raises(FileExistsError):
        x.save(tmp_path / "x.ct")
    for again in (
        pickle.loads(data, buffers=buffers),
        pickle.loads(pickle.dumps(x, protocol=2)),
        copy.deepcopy(x),
    ):
        assert (again.shape, again.key_id, again.level) == (x.shape, x.key_id, None)
        with pytest.raises(errors.UnsupportedError, match="attach"):
            again + 1
        close(ctx, again, a * 2)
        close(ctx, ctx.attach(again) + x, a * 4)
        close(ctx, x - again, a * 0)
    loaded = ctx.load(tmp_path / "x.ct")
    assert loaded.level == x.level
    close(ctx, loaded + 1, a * 2 + 1)
    server = ctx.for_server()
    computed = server.attach(loaded) * server.encrypt(a)
    with pytest.raises(errors.MissingKeyError):
        server.decrypt(computed)
    close(ctx, computed, a * a * 2)


def test_a_client_needs_no_evaluation_keys(ctx: sudare.Context) -> None:
    client = sudare.Context.from_keys(public=ctx.keys.public, secret=ctx.keys.secret)
    x = client.encrypt([1.0, 2.0])
    close(client, pickle.loads(pickle.dumps(x)), [1.0, 2.0])
    close(client, ctx.attach(x) * 3, [3.0, 6.0])
    with pytest.raises(errors.Error, match="evaluation"):
        x * 3


def test_damaged_arrays_are_refused(ctx: sudare.Context, tmp_path: Path) -> None:
    data = ctx.encrypt([1.0]).to_bytes()
    for damaged in (data[:-1], data[:100], b"", b"x" + data, data[:-64] + bytes(64)):
        with pytest.raises(errors.Error):
            ctx.attach(sudare.EncryptedArray.from_bytes(damaged))
    with pytest.raises(errors.WrongFileError):
        sudare.EncryptedArray.from_bytes(ctx.keys.public.to_bytes())
    with pytest.raises(FileNotFoundError):
        ctx.load(tmp_path / "none.ct")


def test_arrays_say_what_they_are(ctx: sudare.Context) -> None:
    x = ctx.encrypt(np.zeros((2, 3)))
    text = repr(x)
    for part in ("shape=(2, 3)", "level=3", "scale=2^40.0", "1 ciphertext", str(x.key_id)):
        assert part in text
    assert isinstance(hash(x), int)


def test_threads_share_a_context(ctx: sudare.Context) -> None:
    results: dict[int, Any] = {}

    def work(k: int) -> None:
        x = ctx.encrypt(np.full(100, float(k)))
        results[k] = ctx.decrypt((x * x).sum())

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(abs(results[k] - 100 * k * k) < 1e-2 for k in range(4))


def test_bootstrapping_is_automatic() -> None:
    context = sudare.Context.preset("n16-boot-real", insecure_log_n=10)
    a = np.linspace(-0.9, 0.9, 7)
    x, expected = context.encrypt(a), a
    for _ in range(3):
        x, expected = x**16, expected**16
        x, expected = x * 0.5 + 0.4, expected * 0.5 + 0.4
    assert np.abs(context.decrypt(x) - expected).max() < 1e-2


def test_simulation_bootstraps_what_encryption_would() -> None:
    trial = sudare.Context.preset("n16-boot-real", insecure_log_n=10, mode="simulate")
    x, expected = trial.encrypt(np.full(400, 0.5)), 0.5
    for _ in range(3):
        x, expected = x**16 * 0.5 + 0.4, expected**16 * 0.5 + 0.4
    assert np.abs(trial.decrypt(x) - expected).max() < 1e-3
    # Values beyond the bound, finite and not.
    for start in (1.1, 30.0):
        x = trial.encrypt([start])
        with pytest.raises((errors.BeyondBoundError, errors.OutOfRoomError), match="scale the data"):
            for _ in range(30):
                x = x * x * x
