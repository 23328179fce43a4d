"""Arguments of wrong types are refused before use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sudare
from sudare import (
    Client,
    LogisticRegression,
    Ridge,
    distributed,
    errors,
    functions,
    linear_model,
    nn,
    pool,
    scoring,
    search,
    stats,
)

ctx = sudare.Context(2, mode="simulate")
x = ctx.encrypt(np.ones((2, 3)))
X, y = np.random.default_rng(0).normal(size=(20, 2)), np.arange(20) % 2
summary = stats.run({"a": X[:, 0], "b": X[:, 1]})
network = nn.Network.dense([(np.eye(2), np.zeros(2))])

ARRAYS = [np.array([1, 0]), pd.Series([1.0, None]), np.zeros((0, 2)), [[1], [2, 3]]]
FLAGS = [*ARRAYS, None, "yes", 2, 0.5]
WORDS = [*ARRAYS, None, 5, "", np.array(["a", "b"])]
COUNTS = [*ARRAYS, "5", 2.5, 2**70, -1]
NUMBERS = [*ARRAYS, "5", float("nan"), 1j, 10**400, np.datetime64("2026-01-01"), np.array([1.0])]
PATHS = [*ARRAYS, 5, "", b"a", "a\0b", "\ud800"]
OBJECTS = [*ARRAYS, None, 5, "a", object()]
SEEDS = [-1, 0.5, "a", {"a": 1}, [0.5], object()]
SEQUENCES = [None, 5, "a", b"a", {"a": 1}, object()]


def fit(estimator: Any) -> Any:
    return estimator.fit(X, y)


def logistic(name: str) -> Callable[[Any], Any]:
    return lambda v: fit(LogisticRegression(**{"mode": "simulate", "max_iter": 1, name: v}))


def ridge(name: str) -> Callable[[Any], Any]:
    return lambda v: fit(Ridge(**{"mode": "simulate", name: v}))


CALLS: list[tuple[str, list[Any], Callable[[Any], Any]]] = [
    ("bootstrap", FLAGS, lambda v: sudare.Context(1, bootstrap=v)),
    ("mode", WORDS, lambda v: sudare.Context(1, mode=v)),
    ("progress", ARRAYS, lambda v: sudare.Context(1, progress=v)),
    ("mode", WORDS, lambda v: sudare.Context.preset("n13", mode=v)),
    ("name", WORDS, lambda v: sudare.Context.preset(v)),
    ("insecure_log_n", COUNTS, lambda v: sudare.Context.preset("n13", insecure_log_n=v)),
    ("assume_intervals", FLAGS, lambda v: sudare.Context.for_program(lambda x: x, [2], assume_intervals=v)),
    ("ranges", SEQUENCES[1:], lambda v: sudare.Context.for_program(lambda x: x, [2], ranges=v)),
    ("largest_error", [*NUMBERS, 0, -1], lambda v: ctx.release(x, 2, largest_error=v)),
    ("array", OBJECTS, lambda v: ctx.release(v, 2, largest_error=1e-9)),
    ("path", PATHS, lambda v: sudare.Context(1).load(v)),
    ("expect", OBJECTS[4:7], lambda v: sudare.Context.from_keys(public=v)),
    ("keepdims", FLAGS, lambda v: x.sum(0, keepdims=v)),
    ("axis", [*ARRAYS, "", "a", 0.5], lambda v: x.sum(v)),
    ("axes", [np.array([1, 0]), "ab", 5], lambda v: np.transpose(x, v)),
    ("axis", [9, "a", 0.5], lambda v: np.expand_dims(x, v)),
    ("other", [*ARRAYS, None, "a", object()], lambda v: x.dot(v)),
    ("key", [slice("a", None), slice(None, None, 0), [[1], [2, 3]], "a"], lambda v: x[v]),
    ("path", PATHS, lambda v: x.save(v)),
    ("overwrite", FLAGS, lambda v: x.save("none/x", overwrite=v)),
    ("b", [np.ones(3), "a"], lambda v: functions.maximum((0, 1)).in_the_clear(np.ones(2), v)),
    ("bootstrap", FLAGS, lambda v: sudare.IntegerContext(257, 1, bootstrap=v)),
    ("signed", FLAGS, lambda v: sudare.IntegerContext(257, 1, signed=v)),
    ("scheme", WORDS, lambda v: sudare.IntegerContext(257, 1, scheme=v)),
    ("what", WORDS, lambda v: stats.plan((5, 2), v)),
    ("exact", FLAGS, lambda v: stats.plan((5, 2), "histogram", exact=v)),
    ("share_bits", COUNTS, lambda v: stats.plan((5, 2), share_bits=v)),
    ("by", WORDS[:4], lambda v: stats.plan((5, 2), "groups", by=v, groups=2)),
    ("edges", [5, "even", {"a": 5}, {0: [1, 2]}, [[1], [2, 3]]], lambda v: stats.plan((5, 2), "histogram", edges=v)),
    ("weights", OBJECTS, lambda v: summary.weighted_mean(v)),
    ("what", WORDS, lambda v: summary.to_frame(v)),
    ("table", OBJECTS, lambda v: stats.compute(v, v)),
    ("result", OBJECTS, lambda v: stats.decrypt(v, v)),
    ("preparation", WORDS, logistic("preparation")),
    ("C", [*NUMBERS, 0, -1], logistic("C")),
    ("alpha", [*NUMBERS, -1], logistic("alpha")),
    ("learning_rate", NUMBERS, logistic("learning_rate")),
    ("rate", [*WORDS[:4], "a"], logistic("rate")),
    ("class_weight", [*ARRAYS, 5, "a", {0: "a"}, {0: [1]}, {5: 1.0}], logistic("class_weight")),
    ("batch_size", COUNTS, logistic("batch_size")),
    ("sigmoid_range", NUMBERS, logistic("sigmoid_range")),
    ("calibrate", FLAGS, logistic("calibrate")),
    ("missing", WORDS, logistic("missing")),
    ("unseen", WORDS, logistic("unseen")),
    ("mode", WORDS, logistic("mode")),
    ("random_state", SEEDS, logistic("random_state")),
    ("workers", COUNTS, logistic("workers")),
    ("share_bits", COUNTS, logistic("share_bits")),
    ("scorable", FLAGS, logistic("scorable")),
    ("history", FLAGS, logistic("history")),
    ("progress", ARRAYS, logistic("progress")),
    ("insecure_log_n", COUNTS, logistic("insecure_log_n")),
    ("n_rows", [*COUNTS[4:], [[1], [2, 3]]], lambda v: LogisticRegression().plan(v, 2)),
    ("path", PATHS, LogisticRegression.open),
    ("alpha", [*NUMBERS, -1], ridge("alpha")),
    ("fit_intercept", FLAGS, ridge("fit_intercept")),
    ("tables", OBJECTS, lambda v: linear_model.compute(v, v)),
    ("keys", OBJECTS, lambda v: distributed.compute(v, v, None)),
    ("n_rows", COUNTS, lambda v: scoring.plan(v, 2)),
    ("sigmoid_range", NUMBERS, lambda v: scoring.plan(2, 2, sigmoid_range=v)),
    ("score_range", NUMBERS, lambda v: scoring.plan(2, 2, share_bits=4, score_range=v)),
    ("rows", OBJECTS, lambda v: scoring.compute(v, v, v)),
    ("metric", WORDS, lambda v: search.plan(8, 3, metric=v)),
    ("answer", WORDS, lambda v: search.plan(8, 3, answer=v)),
    ("payload", WORDS, lambda v: search.plan(8, 3, payload=v)),
    ("folder", [*PATHS, None], lambda v: search.Keys(v)),
    ("passphrase", WORDS[:4], lambda v: search.SecretKey("none", passphrase=v)),
    ("layers", [*SEQUENCES, [5], [(1, 2, 3)], [np.float32(2)]], nn.Network.dense),
    ("input_shape", SEQUENCES, lambda v: nn.Network.describe(v, [])),
    ("layers", SEQUENCES, lambda v: nn.Network.describe([2], v)),
    ("network", OBJECTS, lambda v: nn.plan(v, 2)),
    ("packing", WORDS[:4], lambda v: nn.plan(network, 2, calibration=X, packing=v)),
    ("ranges", OBJECTS[:4], lambda v: nn.plan(network, 2, ranges=v)),
    ("outline", OBJECTS, lambda v: nn.HiddenPlan(v)),
    ("schema", OBJECTS, lambda v: pool.plan(v, 5)),
    ("owners", SEQUENCES, lambda v: pool.Schema.draft(X, y, owners=v)),
    ("text", OBJECTS, lambda v: pool.Schema(v)),
    ("path", PATHS, sudare.PublicKey.open),
    ("path", PATHS, sudare.SecretKey.open),
    ("passphrase", WORDS[:4], lambda v: sudare.SecretKey.open("none", passphrase=v)),
    ("small", FLAGS, lambda v: sudare.EvaluationKeys.open("none", small=v)),
    ("path", PATHS, sudare.IntegerSecretKey.open),
    ("path", PATHS, sudare.EncryptedTable.open),
    ("path", PATHS, sudare.EncryptedResult.open),
    ("path", PATHS, pool.Sums.open),
    ("path", PATHS, pool.PooledTransform.open),
    ("url", [*OBJECTS, "http://host:port", "\ud800"], lambda v: Client(v, "token")),
    ("token", OBJECTS[:6], lambda v: Client("http://localhost", v)),
    ("verify", [5, None, "none.pem"], lambda v: Client("https://localhost", "token", verify=v)),
]


NAMED = [
    pytest.param(values, call, id=f"{place}-{argument}")
    for place, (argument, values, call) in enumerate(CALLS)
]


@pytest.mark.parametrize(("values", "call"), NAMED)
@pytest.mark.filterwarnings("ignore")
def test_arguments_of_other_types_are_refused(values: list[Any], call: Callable[[Any], Any]) -> None:
    for value in values:
        with pytest.raises(errors.Error) as caught:
            call(value)
        assert len(str(caught.value)) < 600


def test_messages_name_argument_value_and_need() -> None:
    said: list[tuple[Callable[[], Any], str]] = [
        (lambda: x.sum(keepdims=np.ones(2)), "keepdims is array([1., 1.]): pass True or False"),  # type: ignore[arg-type]
        (lambda: sudare.Context(1, mode="fast"), "mode is 'fast': pass 'execute' or 'simulate'"),  # type: ignore[arg-type]
        (lambda: scoring.plan("a" * 99, 2), f"n_rows is '{'a' * 59}…: pass a whole number"),  # type: ignore[arg-type]
        (lambda: scoring.plan(10**5000, 2), "n_rows is a value of type int: pass a number from 0 to 4294967295"),
        # No message repeats a passphrase.
        (lambda: search.SecretKey("none", passphrase=b"abc"), "passphrase is of type bytes: pass text"),  # type: ignore[arg-type]
        (lambda: sudare.SecretKey.open("none", passphrase=b"abc"), "passphrase is of type bytes: pass text"),  # type: ignore[arg-type]
        (lambda: Client("http://me:abc@host:port", "token"), "url is not an address: pass one such as https://server.example"),
        (lambda: stats.compute(5, 5), "table is 5 of type int, but EncryptedTable is needed: pass one"),  # type: ignore[arg-type]
    ]
    for call, text in said:
        with pytest.raises(errors.ArgumentError) as caught:
            call()
        assert str(caught.value) == text


def test_numbers_of_numpy_are_taken() -> None:
    exact: Any = np.bool_(True)
    assert x.sum(0, keepdims=exact).shape == (1, 3)
    assert x.sum(0, keepdims=1).shape == (1, 3)  # type: ignore[arg-type]
    state: Any = np.random.default_rng(1)
    for random_state in (state, np.random.RandomState(1), [1, 2], np.int64(3), 2**70):
        logistic("random_state")(random_state)
    assert fit(Ridge(alpha=np.float32(1), mode="simulate")).coef_.shape == (2,)  # type: ignore[arg-type]
