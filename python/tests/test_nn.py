"""Networks on encrypted samples, against NumPy and scikit-learn."""

from __future__ import annotations

import json
import pickle
import warnings
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pytest
import sklearn.linear_model
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import RidgeClassifier
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)
from sklearn.tree import DecisionTreeRegressor

from sudare import errors, nn
from sudare.linear_model import LinearRegression, LogisticRegression


def layers(sizes: list[int], seed: int = 0) -> list[tuple[Any, Any]]:
    rng = np.random.default_rng(seed)
    pairs = zip(sizes[:-1], sizes[1:], strict=True)
    return [(rng.normal(size=(n, m)) / np.sqrt(m), rng.normal(size=n) / 4) for m, n in pairs]


def twin(parts: list[tuple[Any, Any]], x: Any) -> Any:
    """Computes the network by NumPy."""
    for weights, bias in parts[:-1]:
        x = (x @ weights.T + bias) ** 2
    weights, bias = parts[-1]
    return x @ weights.T + bias


@pytest.mark.parametrize(("count", "packing"), [(9, "features"), (1, "sample")])
def test_results_are_those_of_numpy(count: int, packing: Literal["features", "sample"]) -> None:
    parts = layers([6, 8, 3])
    network = nn.Network.dense(parts)
    samples = np.random.default_rng(1).uniform(-1, 1, (count, 6))
    assert np.allclose(network.predict(samples), twin(parts, samples))
    plan = nn.plan(network, count, calibration=samples, packing=packing, precision_bits=12)
    simulated = plan.simulate(samples)
    assert np.allclose(simulated.results, twin(parts, samples)) and simulated.headroom_bits > 0
    explanation = plan.explain()
    found = plan.execute(samples)
    assert np.abs(found - twin(parts, samples)).max() < 6 * explanation.error
    assert explanation.error < 0.05 * plan.ranges["output"]


def test_owner_and_server_exchange_bytes() -> None:
    parts = layers([4, 5, 2])
    network = nn.Network.dense(parts)
    samples = np.random.default_rng(2).uniform(-1, 1, (5, 4))
    owner = nn.plan(network, 5, calibration=samples)
    secret, keys = owner.make_keys()
    sent = owner.to_bytes(owner.encrypt(secret, samples))
    key_bytes = owner.to_bytes(keys)
    assert len(key_bytes) == owner.explain().key_bytes

    server = nn.plan(network, 5, ranges=owner.ranges)
    result = server.compute(server.keys_from_bytes(key_bytes), server.batch_from_bytes(sent, 5))
    answer = server.to_bytes(result)

    found = owner.decrypt(secret, owner.batch_from_bytes(answer, 5))
    assert np.abs(found - twin(parts, samples)).max() < 6 * owner.explain().error
    with pytest.raises(errors.UnsupportedError):
        pickle.dumps(secret)
    with pytest.raises(errors.Error):
        owner.batch_from_bytes(answer[:-1], 5)


def test_a_secret_key_waits_in_a_file(tmp_path: Path) -> None:
    network = nn.Network.dense(layers([3, 4, 2]))
    samples = np.random.default_rng(5).uniform(-1, 1, (5, 3))
    plan = nn.plan(network, 5, calibration=samples)
    secret, keys = plan.make_keys()
    answer = plan.compute(keys, plan.encrypt(secret, samples))
    expected = plan.decrypt(secret, answer)
    path = tmp_path / "secret.key"
    secret.save(path, passphrase="a long sentence")
    opened = plan.open_secret(path, passphrase="a long sentence")
    assert (plan.decrypt(opened, answer) == expected).all()
    with pytest.raises(errors.PassphraseError):
        plan.open_secret(path)
    with pytest.raises(errors.PassphraseError):
        plan.open_secret(path, passphrase="another sentence")
    with pytest.raises(errors.ExistsError):
        secret.save(path)
    secret.save(path, overwrite=True)
    assert (plan.decrypt(plan.open_secret(path), answer) == expected).all()
    deeper = nn.plan(network, 5, calibration=samples, packing="sample", precision_bits=14)
    with pytest.raises(errors.MismatchError):
        deeper.open_secret(path)
    path.chmod(0o644)
    with pytest.warns(errors.SecurityWarning, match="can be read by other users"):
        plan.open_secret(path)


def test_evaluations_compare_with_the_clear() -> None:
    network = nn.Network.dense(layers([3, 4, 2]))
    samples = np.random.default_rng(6).uniform(-1, 1, (9, 3))
    clear = network.predict(samples)
    labels = np.where(np.arange(9) < 6, clear.argmax(axis=1), 1 - clear.argmax(axis=1))
    shown = nn.plan(network, 9, calibration=samples, precision_bits=14)
    hidden = nn.plan_hidden(network, calibration=samples, precision_bits=14)
    for found in [
        shown.evaluate(samples, labels),
        hidden.evaluate(network, samples, labels),
    ]:
        assert found.samples == 9 and 0 < found.largest_difference < 0.01
        assert (found.agreement, found.accuracy, found.accuracy_in_clear) == (1, 6 / 9, 6 / 9)
    plan = nn.plan(network, 9, calibration=samples)
    assert plan.evaluate(samples).accuracy is None
    with pytest.raises(errors.NnError, match="one for each of 9 samples"):
        plan.evaluate(samples, labels[:4])


def test_digits_of_scikit_learn_are_told_apart() -> None:
    data = load_digits()
    x, y = data.data / 16, data.target
    # Features of squares, and a linear model of them.
    rng = np.random.default_rng(3)
    first = rng.integers(-3, 4, (64, 64)) / 8
    bias = np.ones(64)
    hidden = (x @ first.T + bias) ** 2
    model = RidgeClassifier(alpha=1.0).fit(hidden[:1400], y[:1400])
    network = nn.Network.dense([(first, bias), (model.coef_, model.intercept_)])
    plan = nn.plan(network, 397, calibration=x[:1400], precision_bits=12)
    plan.check(x[1400:])
    found = plan.execute(x[1400:]).argmax(axis=1)
    expected = model.predict(hidden[1400:])
    assert (found == expected).mean() > 0.99
    assert (found == y[1400:]).mean() > 0.85


def test_files_of_networks(tmp_path: Path) -> None:
    network = nn.Network.describe(
        (1, 4, 4),
        [
            {"average_pool": {"window": [2, 2], "stride": [2, 2]}},
            "flatten",
            {"activation": {"sigmoid": {"degree": 5}}},
            {"dense": {"weights": [[1, -1, 2, 0]], "bias": [0.5], "step": 0.5}},
        ],
    )
    network.save(tmp_path / "network.json")
    again = nn.Network.load(tmp_path / "network.json")
    x = np.arange(32).reshape(2, 1, 4, 4) / 32
    means = x.reshape(2, 2, 2, 2, 2).mean(axis=(2, 4)).reshape(2, 4)
    expected = (1 / (1 + np.exp(-means))) @ np.array([0.5, -0.5, 1, 0]) + 0.5
    assert np.allclose(again.predict(x)[:, 0], expected)


def described(weights: Any, bias: Any) -> dict[str, Any]:
    return {"dense": {"weights": weights, "bias": bias}}


@pytest.mark.parametrize("batch", [1, 7])
def test_residual_blocks_are_those_of_numpy(batch: int) -> None:
    (first, second, third, last) = layers([6, 5, 6, 6, 2])
    blocks: list[object] = [
        {"residual": {"layers": [described(*first), {"activation": "square"}, described(*second)]}},
        {"residual": {"layers": [{"activation": "square"}], "shortcut": [described(*third)]}},
        described(*last),
    ]
    network = nn.Network.describe([6], blocks)
    x = np.random.default_rng(4).uniform(-1, 1, (batch, 6))
    inner = (x @ first[0].T + first[1]) ** 2 @ second[0].T + second[1] + x
    outer = inner**2 + inner @ third[0].T + third[1]
    expected = outer @ last[0].T + last[1]
    assert np.allclose(network.predict(x), expected)
    plan = nn.plan(network, batch, calibration=x, precision_bits=12)
    assert np.abs(plan.execute(x) - expected).max() < 6 * plan.explain().error


def test_deep_networks_are_planned_with_bootstrapping() -> None:
    network = nn.Network.dense(layers([8] * 41), activation={"sigmoid": {"degree": 7}})
    samples = np.random.default_rng(5).uniform(-1, 1, (40, 8))
    plan = nn.plan(network, 1, calibration=samples)
    explanation = plan.explain()
    assert explanation.bootstrapping == "n15-boot-net" and explanation.log_n == 15
    assert 1 < explanation.bootstraps < 40 and explanation.seconds > 0.1 * explanation.bootstraps
    found = plan.simulate(samples[:1])
    assert np.abs(found.results - network.predict(samples[:1])).max() < 0.05
    shallow = nn.plan(nn.Network.dense(layers([8, 8, 8])), 1, calibration=samples).explain()
    assert shallow.bootstrapping is None and shallow.bootstraps == 0 < shallow.seconds


def test_weights_are_hidden_from_the_server() -> None:
    parts = layers([6, 8, 3])
    network = nn.Network.dense(parts)
    samples = np.random.default_rng(6).uniform(-1, 1, (3, 6))
    owner = nn.plan_hidden(network, calibration=samples, precision_bits=12)
    explanation = owner.explain()
    # One diagonal for each row, rounded up, and the biases.
    assert explanation.weights == 8 + 1 + 4 + 1
    secret, keys = owner.make_keys()
    weights = owner.encrypt_weights(secret, network)
    assert explanation.weight_bytes < len(weights) < 1.1 * explanation.weight_bytes
    sent = [owner.to_bytes(owner.encrypt(secret, row[None])) for row in samples]
    key_bytes = owner.to_bytes(keys)
    assert len(key_bytes) == explanation.key_bytes

    # The server has bytes and the outline, which has no weights.
    server = nn.HiddenPlan(json.loads(json.dumps(owner.outline)))
    assert len(json.dumps(owner.outline)) < 500
    there = (server.keys_from_bytes(key_bytes), server.weights_from_bytes(weights))
    batches = [server.batch_from_bytes(data, 1) for data in sent]
    answers = [server.to_bytes(server.compute(*there, batch)) for batch in batches]

    found = [owner.decrypt(secret, owner.batch_from_bytes(data, 1))[0] for data in answers]
    expected = twin(parts, samples)
    most = np.abs(expected).max()
    assert np.abs(np.array(found) - expected).max() < 0.01 * most
    assert np.allclose(owner.simulate(network, samples), expected)
    assert np.abs(owner.execute(network, samples) - expected).max() < 0.01 * most

    with pytest.raises(errors.NnError, match="ciphertexts of weights"):
        owner.weights_from_bytes(sent[0])
    with pytest.raises(errors.NnError, match="differs from the planned one"):
        owner.encrypt_weights(secret, nn.Network.dense(layers([6, 7, 3])))
    with pytest.raises(errors.NnError):
        owner.encrypt(secret, samples)
    with pytest.raises(errors.NnError):
        owner.encrypt(secret, samples[:1] + 9)
    # Bounds of ranges are powers of two, which reveal only magnitudes.
    ranges = owner.outline["ranges"]
    for size in [*ranges["input"], *ranges["activations"], ranges["output"]]:
        assert np.frexp(abs(size))[0] == 0.5, size
    assert -ranges["input"][0] >= -samples.min() and ranges["input"][1] >= samples.max()
    given = {"input": [-1.0, 1.0], "activations": [5.7], "output": 41.6}
    rounded = {"input": [-1.0, 1.0], "activations": [8.0], "output": 64.0}
    assert nn.plan_hidden(network, ranges=given).outline["ranges"] == rounded
    # A block that adds its squares to its inputs, computed by a layer of two inputs.
    block = nn.Network.describe([3], [{"residual": {"layers": [{"activation": "square"}]}}])
    squares = nn.plan_hidden(block, calibration=samples[:, :3], precision_bits=12)
    assert squares.explain().bootstrapping is None and squares.explain().seconds > 0
    sums = squares.execute(block, samples[:1, :3])
    assert np.abs(sums - samples[:1, :3] ** 2 - samples[:1, :3]).max() < 0.01


def test_misuse_is_refused() -> None:
    network = nn.Network.dense(layers([3, 2]))
    samples = np.zeros((2, 3))
    plan = nn.plan(network, 2, calibration=samples + 0.5, packing="features")
    secret, _ = plan.make_keys()
    with pytest.raises(errors.NnError, match="calibrated range"):
        plan.encrypt(secret, samples + 9)
    with pytest.raises(errors.NnError):
        plan.encrypt(secret, samples + np.nan)
    with pytest.raises(errors.NnError):
        plan.encrypt(secret, np.zeros((2, 4)))
    with pytest.raises(errors.NnError):
        plan.encrypt(secret, np.zeros(3))
    with pytest.raises(errors.NnError):
        nn.plan(network, 2)
    with pytest.raises(errors.NnError):
        nn.Network.dense([(np.zeros((2, 3)), np.zeros(4))])
    with pytest.raises(errors.NnError):
        nn.Network.describe([3], [{"attention": {}}])
    with pytest.raises(errors.NnError, match="the shape"):
        nn.Network.describe([3], [{"residual": {"layers": [{"select": [0, 1]}]}}])


def image_network() -> tuple[nn.Network, Any]:
    rng = np.random.default_rng(7)
    kernels, weights = rng.normal(size=(2, 3, 2, 2)), rng.normal(size=(2, 24))
    layer = {"kernels": kernels, "bias": np.zeros(2), "stride": [1, 1], "padding": [0] * 4}
    layers: list[object] = [{"convolution": layer}, "flatten", described(weights, np.zeros(2))]
    return nn.Network.describe([3, 4, 5], layers), rng.normal(size=(6, 3, 4, 5))


@pytest.mark.parametrize("hidden", [False, True])
def test_samples_come_flat_or_in_the_shape_of_the_network(hidden: bool) -> None:
    """Refuses images with channels last or of other sizes, whose number of values is the same."""
    network, x = image_network()
    if hidden:
        secret_weights = nn.plan_hidden(network, calibration=x)
        execute: Any = lambda samples: secret_weights.execute(network, samples)
        rest: list[Any] = [
            lambda samples: secret_weights.simulate(network, samples),
            lambda samples: secret_weights.check(network, samples),
            lambda samples: nn.plan_hidden(network, calibration=samples),
            lambda samples: secret_weights.encrypt(secret_weights.make_keys()[0], samples[:1]),
        ]
    else:
        plan = nn.plan(network, 6, calibration=x)
        execute = plan.execute
        rest = [
            network.predict,
            plan.simulate,
            plan.check,
            lambda samples: nn.plan(network, 6, calibration=samples),
            lambda samples: plan.encrypt(plan.make_keys()[0], samples),
        ]
    needed = r"the shape \(n, 3, 4, 5\) or \(n, 60\).*channels first"
    others = [
        x.transpose(0, 2, 3, 1),
        x.transpose(0, 1, 3, 2),
        x.reshape(6, 60, 1),
        x.reshape(6, 3, 20),
    ]
    for samples in [*others, x[:, :2], x.reshape(60, 6), x[0], x[:0]]:
        for call in [execute, *rest]:
            with pytest.raises(errors.NnError, match=needed):
                call(samples)
    for samples in [x, x.reshape(6, 60), x.reshape(6, 60).tolist()]:
        for call in rest:
            call(samples)
    expected = network.predict(x)
    assert np.abs(execute(x.reshape(6, 60)[:1]) - expected[:1]).max() < 0.1 * np.abs(expected).max()


def test_samples_that_leave_the_ranges_are_not_encrypted() -> None:
    """Tests samples inside the range of features, but outside the range of a sum of features."""
    layers: list[tuple[Any, Any]] = [([[1.0, 1.0]], [0.0]), ([[1.0]], [0.0])]
    network = nn.Network.dense(layers, activation={"tanh": {"degree": 9}})
    calibration = np.array([[1.0, -1.0], [-1.0, 1.0], [0.5, 0.25]])
    sample = np.array([[1.0, -0.5], [0.9, 0.8]])
    plan = nn.plan(network, 2, calibration=calibration, packing="features", precision_bits=10)
    assert plan.ranges["activations"] == [1.0]
    secret, _ = plan.make_keys()
    found = plan.execute(sample[:1])
    assert np.abs(found - np.tanh(0.5)).max() < 0.01
    for call in (plan.check, plan.execute, plan.simulate, lambda x: plan.encrypt(secret, x)):
        with pytest.raises(errors.NnError, match="pre-activation 0 of sample 1 is 1.7"):
            call(sample)
    hidden = nn.plan_hidden(network, calibration=calibration, precision_bits=10)
    for hidden_call in (hidden.check, hidden.execute, hidden.simulate):
        with pytest.raises(errors.NnError, match="pre-activation 0 of sample 1 is 1.7"):
            hidden_call(network, sample)


def test_only_real_numbers_are_taken() -> None:
    network = nn.Network.dense(layers([3, 2]))
    plain = np.ones((2, 3))
    wrong: list[Any] = [
        plain + 5j,
        plain.astype(str),
        plain.astype("S"),
        [["1", "2", "3"]],
        [[1, 2, 3], [4]],
        [[None] * 3],
        plain.astype("M8[D]"),
        np.ma.masked_equal(plain, 1),
    ]
    for samples in wrong:
        with pytest.raises(errors.NnError):
            network.predict(samples)
        with pytest.raises(errors.NnError):
            nn.plan(network, 2, calibration=samples)
    exact: Any = [[Decimal(1), Fraction(1), 1]]
    assert np.allclose(network.predict(exact), network.predict(plain[:1]))
    for weights in wrong[:3]:
        with pytest.raises(errors.NnError, match="weights of layer 0"):
            nn.Network.dense([(weights, np.zeros(2))])
    with pytest.raises(errors.NnError, match=r"weights of layer 1 are nan at \(0, 1\)"):
        nn.Network.dense([(np.eye(2), np.zeros(2)), ([[1.0, np.nan]], [0.0])])
    with pytest.raises(errors.NnError, match="bias of layer 0 are inf"):
        nn.Network.dense([(np.eye(2), [0.0, np.inf])])
    for bad in [np.nan, np.array([[1j]]), np.array([["a"]]), 1j, object()]:
        with pytest.raises(errors.NnError, match="numbers"):
            nn.Network.describe([1], [described(bad, [0.0])])


def test_options_are_named_in_messages() -> None:
    network, x = nn.Network.dense(layers([3, 2])), np.ones((4, 3))
    named: list[tuple[dict[str, Any], str]] = [
        ({"packing": "foo"}, "packing is 'foo': pass 'features' or 'sample'"),
        ({"batch": 1.5}, "batch is 1.5: pass a whole number"),
        ({"batch": "a"}, "batch is 'a'"),
        ({"precision_bits": "a"}, "precision_bits is 'a'"),
        ({"precision_bits": np.nan}, "precision_bits is nan"),
        ({"margin": None}, "margin is None"),
    ]
    for options, part in named:
        with pytest.raises(errors.ArgumentError, match=part):
            nn.plan(network, **{"batch": 3, "calibration": x, **options})
    for bits in (-5, 1, 31):
        with pytest.raises(errors.NnError, match=f"at {bits} bits of precision: 2 to 30"):
            nn.plan(network, 3, calibration=x, precision_bits=bits)
    with pytest.raises(errors.NnError, match="found 0 samples"):
        nn.plan(network, 0, calibration=x)
    ranges: Any = {"input": [0, 1], "activations": [1]}
    with pytest.raises(errors.NnError, match="ranges that cannot be read"):
        nn.plan(network, 3, ranges=ranges)
    batch: Any = np.int64(3)
    given = nn.plan(
        network, batch, ranges={"input": [np.float32(0), 1], "activations": [], "output": 9}
    )
    assert given.explain().samples >= 3
    plan = nn.plan(network, 3, calibration=x)
    for data, samples in (("abc", 1), (b"", -1), (b"", 1.5)):
        with pytest.raises(errors.ArgumentError):
            plan.batch_from_bytes(data, samples)  # type: ignore[arg-type]


SCALERS: list[Any] = [
    None,
    StandardScaler(),
    StandardScaler(with_mean=False),
    StandardScaler(with_std=False),
    RobustScaler(),
    MaxAbsScaler(),
    MinMaxScaler((-1, 1)),
    "passthrough",
]


@pytest.mark.parametrize("scaler", SCALERS, ids=str)
@pytest.mark.parametrize("activation", ["relu", "tanh", "logistic", "identity"])
def test_a_pipeline_of_scikit_learn_is_a_network(scaler: Any, activation: str) -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 3)) * [1, 100, 0.1] + [0, 500, 1]
    hidden = MLPRegressor(
        hidden_layer_sizes=(6, 4), activation=activation, max_iter=5, random_state=0
    )
    steps = [hidden] if scaler is None else [scaler, hidden]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = make_pipeline(*steps).fit(rows, rows[:, 1] / 100)
    network = nn.Network.from_sklearn(model)
    np.testing.assert_allclose(network.predict(rows)[:, 0], model.predict(rows), rtol=1e-9)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_classifier_of_scikit_learn_predicts_the_same_encrypted(classes: int) -> None:
    rng = np.random.default_rng(1)
    places = np.arange(90) % classes
    centers = np.array([[0.0, 50.0], [3.0, 80.0], [-3.0, 120.0]])
    rows = centers[places] + rng.normal(size=(90, 2)) * [1, 10]
    labels = np.array(["a", "b", "c"])[places]
    hidden = MLPClassifier((8,), activation="tanh", solver="lbfgs", alpha=0.1, random_state=0)
    model = make_pipeline(StandardScaler(), hidden).fit(rows, labels)
    network = nn.Network.from_sklearn(model, degree=15)
    results = nn.plan(network, batch=90, calibration=rows, precision_bits=5).execute(rows)
    places = results.argmax(axis=1) if classes > 2 else (results[:, 0] > 0) * 1
    assert np.mean(model.classes_[places] == model.predict(rows)) > 0.95


def test_linear_models_are_networks_of_one_layer() -> None:
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(50, 3))
    classes = np.arange(50) % 3
    for model in (
        sklearn.linear_model.LogisticRegression().fit(rows, classes),
        LogisticRegression(mode="simulate", max_iter=2).fit(rows, classes),
        LogisticRegression(mode="simulate", max_iter=2).fit(rows, classes > 0),
    ):
        scores = nn.Network.from_sklearn(model).predict(rows)
        expected = model.decision_function(rows)
        np.testing.assert_allclose(scores.reshape(expected.shape), expected, rtol=1e-9, atol=1e-9)
    fitted = LinearRegression(mode="simulate").fit(rows, rows[:, 0])
    np.testing.assert_allclose(
        nn.Network.from_sklearn(fitted).predict(rows)[:, 0], fitted.predict(rows), atol=1e-9
    )


def test_models_and_steps_that_are_no_layers_are_refused() -> None:
    rows, targets = np.arange(20.0).reshape(10, 2), np.arange(10.0)
    frame = pd.DataFrame({"x": list("ab") * 5})
    coded = LogisticRegression(mode="simulate", max_iter=2).fit(frame, np.arange(10) % 3 > 0)
    linear = sklearn.linear_model.LinearRegression()
    for model, says in [
        (DecisionTreeRegressor().fit(rows, targets), "DecisionTreeRegressor has no dense layers"),
        (coded, "linear model of numbers"),
        (MLPRegressor(), "no dense layers"),
        (make_pipeline(MinMaxScaler(clip=True), linear).fit(rows, targets), "MinMaxScaler that clips"),
        (make_pipeline(PolynomialFeatures(1), linear).fit(rows, targets), "PolynomialFeatures"),
    ]:
        with pytest.raises(errors.UnsupportedError, match=says):
            nn.Network.from_sklearn(model)


def test_fitted_activations_are_the_least_squares_of_numpy() -> None:
    (first, last) = layers([20, 30, 4])
    relu = nn.Network.dense([first, last], activation={"relu": {"degree": 7}})
    x = np.random.default_rng(8).uniform(-1, 1, (600, 20))
    numbers = x @ first[0].T + first[1]
    size = 1.5 * np.abs(numbers).max()
    # The numbers, and a hundredth of the weight by the density of Chebyshev polynomials.
    nodes = np.cos(np.pi * (np.arange(2000) + 0.5) / 2000)
    t = np.concatenate([numbers.ravel() / size, nodes])
    weight = np.r_[np.full(numbers.size, 0.99 / numbers.size), np.full(2000, 0.01 / 2000)]
    fit = np.polynomial.chebyshev.Chebyshev.fit(
        t, np.maximum(size * t, 0), 15, w=np.sqrt(weight), domain=[-1, 1]
    )
    expected = fit(numbers / size) @ last[0].T + last[1]
    network = relu.fitted(x, 15, margin=1.5)
    found = network.predict(x)
    # The numbers are in bins, and each bin counts at its centre.
    assert np.abs(found - expected).max() < 2e-3 * np.abs(expected).max()
    assert 1e-4 < np.abs(found - relu.predict(x)).max() < 0.2 * np.abs(expected).max()
    plan = nn.plan(network, 1, calibration=x, precision_bits=12)
    assert np.abs(plan.simulate(x[:1]).results - found[:1]).max() < 1e-6
    assert np.abs(plan.execute(x[:1]) - found[:1]).max() < 6 * plan.explain().error
    with pytest.warns(UserWarning, match="499 samples are few"):
        relu.fitted(x[:499], 15)
    with pytest.raises(errors.NnError):
        nn.plan(network, 1, calibration=9 * x)


def test_plans_predict_the_memory_of_a_server() -> None:
    network = nn.Network.dense(layers([16, 16, 3]))
    samples = np.random.default_rng(5).uniform(-1, 1, (5, 16))
    found = nn.plan(network, 1, calibration=samples).explain()
    assert found.diagonals == 16 + 4 and found.matrix_bytes > 2**13 * 8
    assert found.memory_bytes > found.matrix_bytes + found.key_bytes
    assert nn.plan(network, 5, calibration=samples).explain().matrix_bytes == 0
