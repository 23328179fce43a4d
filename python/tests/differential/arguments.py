"""Calls public functions with wrong arguments.

The calls cover every public function and method of the package, and every parameter except keyword tables.
`uncovered` lists the rest.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

import httpx
import matplotlib as mpl

import sudare
from sudare import (
    Client,
    LogisticRegression,
    _native,
    client,
    distributed,
    errors,
    functions,
    linear_model,
    nn,
    pool,
    scoring,
    search,
    stats,
    trees,
)
from sudare._plain import shown

from .core import Case, Generator, Rng, Verdict, attempt, judge

SECONDS = 20.0
"""Maximum CPU seconds of a call. A slower one should have refused the argument."""


class Anything:
    """An object that no function accepts."""

    def __repr__(self) -> str:
        return "Anything()"


ODD: list[Any] = [
    None, True, -1, 0, 1.5, -0.5, 1e300, 2**70, -(2**70), float("nan"), float("inf"), "a", "", b"abc",
    [], [1, 2], (), {}, {"a": 1}, [[1], [2, 3]], [["a", "b", "c"]], np.array(["1", "2"]), np.zeros((0, 3)),
    np.ones(3) + 1j, np.array([None, 1]), Anything(), Anything, len, 3 + 4j, np.float32(2), np.int8(-3),
    np.array(5), pd.Series([1.0, None]), pd.NaT, Path("none"), 20000, range(3), np.array([1.0]),
    np.array([True, False]), np.datetime64("2026-01-01"), "\ud800", "\0", 10**5000, slice("a", None),
    pd.DataFrame({"a": [1]}), np.ma.masked, set(), iter([]), object,
]  # fmt: skip


SMALL = 11
"""`log2` of the degree of rings for tests."""


@dataclass(frozen=True)
class Of:
    """Refers to an object of the world by its name."""

    name: str


class _Silent(client.Client):
    """A client whose server refuses everything."""

    def __init__(self) -> None:
        super().__init__("http://127.0.0.1:1", "token")
        self._http.close()
        self._http = httpx.Client(
            base_url="http://127.0.0.1:1",
            transport=httpx.MockTransport(
                lambda request: httpx.Response(404, stream=httpx.ByteStream(b""))
            ),
        )


@cache
def _world() -> dict[str, Any]:
    """Objects and arguments of the calls."""
    mpl.use("Agg")
    rng = np.random.default_rng(0)
    folder = Path(tempfile.mkdtemp(prefix="sudare-differential-"))
    X, y = rng.normal(size=(40, 3)), np.arange(40) % 2
    ctx = sudare.Context(2, mode="simulate")
    integers = sudare.IntegerContext.preset("toy-n8")
    words = sudare.WordContext(np.uint8, 6, mode="simulate")
    world: dict[str, Any] = {
        "folder": folder,
        "X": X,
        "y": y,
        "rows": X[:6],
        "targets": y[:6],
        "ctx": ctx,
        "real": sudare.Context(1),
        "integers": integers,
        "words": words,
        "u": words.encrypt([[1, 2], [3, 4]]),
        "x": ctx.encrypt(X),
        "i": integers.encrypt([[1, 2], [3, 4]]),
        "b": integers.encrypt([[1, 0], [0, 1]]).astype(bool),
        "frame": pd.DataFrame(X, columns=["a", "b", "c"]),
        "summary": stats.run(X),
        "groups": stats.run({"k": y, "a": X[:, 0]}, "groups", by="k"),
        "histograms": stats.run(X, "histogram"),
        "client": _Silent(),
        "job": client.Job(_Silent(), {"id": "a", "state": "done", "error": None, "result": "b"}),
        **_searches(folder, X),
        **_networks(folder, X),
        **_tables(folder, X, y),
        **_trees(),
    }
    return world


def _trees() -> dict[str, Any]:
    # One test of one digit needs a small ring.
    split = {"feature": 0, "at": 0.5, "or_equal": True, "left": 1, "right": 2}
    nodes = [{"split": split}, {"leaf": [1.0]}, {"leaf": [2.0]}]
    described = {
        "features": ["a"],
        "link": "identity",
        "offsets": [0.0],
        "trees": [{"output": 0, "nodes": nodes}],
    }
    forest = trees.Forest(_native.TreesForest.read(json.dumps(described).encode()))
    plan = trees.plan(forest, trees.Grid([trees.Feature("a", 0.0, 1.0, 2)]))
    secret, keys = plan.setup.make_keys()
    rows = plan.setup.encrypt(secret, [[1.0]])
    return {
        "forest": forest,
        "trees": plan,
        "trees secret": secret,
        "trees keys": keys,
        "trees rows": rows,
        "trees scores": plan.compute(keys, rows),
    }


def _searches(folder: Path, X: Any) -> dict[str, Any]:
    keys = search.plan(8, 3, insecure_log_n=SMALL).make_keys(folder / "keys")
    index = search.Index.build(folder / "index", keys.secret, X[:6])
    server, query = search.Server(keys.evaluation), keys.secret.encrypt(X[0])
    answer = server.compute(query, folder / "index")
    return {
        "search": keys.secret,
        "searched": search.plan(8, 3, insecure_log_n=SMALL),
        "index": index,
        "folder of an index": folder / "index",
        "server": server,
        "query": query,
        "answer": answer,
        "scores": keys.secret.decrypt(answer),
    }


def _networks(folder: Path, X: Any) -> dict[str, Any]:
    network = nn.Network.dense([(np.eye(3), np.zeros(3))])
    network.save(folder / "m.json")
    (folder / "M.ONNX").write_bytes(b"\x08\xa8\xff")
    (folder / "m.pb").write_bytes(b"\x08\xa8\xff")
    plan = nn.plan(network, 2, calibration=X)
    hidden = nn.plan_hidden(network, calibration=X)
    secret, keys = plan.make_keys()
    other, server = hidden.make_keys()
    return {
        "network": network,
        "plan": plan,
        "hidden": hidden,
        "outline": hidden.outline,
        "secret": secret,
        "keys": keys,
        "batch": plan.encrypt(secret, X[:1]),
        "hidden secret": other,
        "hidden keys": server,
        "hidden batch": hidden.encrypt(other, X[:1]),
        "weights": hidden.weights_from_bytes(hidden.encrypt_weights(other, network)),
    }


def _tables(folder: Path, X: Any, y: Any) -> dict[str, Any]:
    model = LogisticRegression(mode="simulate", random_state=1).fit(X, y)
    owner = LogisticRegression(max_iter=1, insecure_log_n=SMALL)
    training = owner.plan(6, 3).make_keys()
    training.evaluation.save(folder / "evaluation.key")
    trained = owner.encrypt(X[:6], y[:6], training.secret)
    ridge = sudare.Ridge(insecure_log_n=SMALL)
    summed = ridge.plan(6, 3).make_keys()
    squares = ridge.encrypt(X[:6], y[:6], summed.secret)
    moments = stats.Plan(_native.TablePlan.statistics(6, 3, insecure_log_n=SMALL))
    scored = scoring.plan(6, 3, insecure_log_n=SMALL)
    scorer = scored.make_keys()
    rows = scored.encrypt(X[:6], scorer.secret, like=model)
    schema = pool.Schema.draft(X, y, owners=["north"])
    pooled = pool.plan(schema, 40, owner).make_keys()
    sums = pool.encrypt_sums(schema, X, y, "north", pooled.public)
    return {
        "model": model,
        "owner": owner,
        "training": training,
        "trained": trained,
        "result": linear_model.compute(trained, training.evaluation),
        "evaluation": sudare.EvaluationKeys.open(folder / "evaluation.key"),
        "ridge": ridge,
        "summed": summed,
        "squares": squares,
        "least squares": linear_model.compute(squares, summed.evaluation),
        "moments": moments,
        "statistics": stats.compute(squares, summed.evaluation),
        "scored": scored,
        "scorer": scorer,
        "scored rows": rows,
        "scored result": scoring.compute(rows, model, scorer.evaluation),
        "schema": schema,
        "file of keys": folder / "evaluation.key",
        "pooled": pooled,
        "sums": sums,
        "total": pool.add(schema, [sums]),
        "transform": pool.make_transform(schema, pool.add(schema, [sums]), pooled.secret),
        "executor": ThreadPoolExecutor(1),
        "secret of training": training.secret,
        "public of training": training.public,
        "keys of training": training.evaluation,
        "secret of sums": summed.secret,
        "public of sums": summed.public,
        "keys of sums": summed.evaluation,
        "secret of scores": scorer.secret,
        "public of scores": scorer.public,
        "keys of scores": scorer.evaluation,
        "secret of owners": pooled.secret,
        "public of owners": pooled.public,
    }


def _new(w: dict[str, Any]) -> Path:
    """A path that does not exist."""
    return Path(tempfile.mkdtemp(dir=w["folder"])) / "new"


def _fitted(name: str) -> Callable[..., Any]:
    """A fit of an estimator of this name with options."""
    return lambda w, **o: getattr(sudare, name)(**{"mode": "simulate", **o}).fit(w["X"], w["y"])


def _encrypted(name: str) -> Callable[..., Any]:
    """Executes with options that are read late."""
    return lambda w, **o: getattr(sudare, name)(insecure_log_n=SMALL, **o).encrypt(
        w["rows"], w["targets"], w["secret of training" if name[:2] == "Lo" else "secret of sums"]
    )


def _methods_of_plans(start: str) -> dict[str, dict[str, Any]]:
    """Methods of plans of networks, and their usual arguments."""
    return {
        "encrypt": {"secret": Of(f"{start}secret"), "samples": np.ones((1, 3))},
        "decrypt": {"secret": Of(f"{start}secret"), "batch": Of(f"{start}batch")},
        "open_secret": {"path": "none.key", "passphrase": None},
        "to_bytes": {"value": Of(f"{start}batch")},
        "keys_from_bytes": {"data": b""},
        "batch_from_bytes": {"data": b"", "samples": 1},
    }


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """Makes a directory the working directory, because some calls write files with odd names."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


Call = Callable[..., Any]

CALLS: dict[str, tuple[Call, dict[str, Any]]] = {
    "Context": (
        lambda w, **o: sudare.Context(**{"mode": "simulate", **o}),
        {"depth": 1, "bootstrap": False, "progress": None},
    ),
    "Context mode": (lambda w, **o: sudare.Context(1, **o), {"mode": "simulate"}),
    "Context.preset": (
        lambda w, **o: sudare.Context.preset(**o),
        {"name": "n13", "insecure_log_n": 10, "mode": "simulate", "progress": None},
    ),
    "Context.for_program": (
        lambda w, **o: sudare.Context.for_program(**o),
        {
            "program": lambda x: x * x, "shapes": [(3,)], "share_bits": None, "bootstrap": False,
            "assume_intervals": False, "calibration": None, "ranges": None, "mode": "simulate",
            "progress": None,
        },
    ),
    "Context.from_keys": (
        lambda w, **o: sudare.Context.from_keys(**o),
        {
            "evaluation": Of("keys of training"), "public": Of("public of training"), "secret": None,
            "expect": None, "progress": None,
        },
    ),
    "Context.encrypt": (lambda w, **o: w["ctx"].encrypt(**o), {"values": [1.0], "low": None, "high": None}),
    "Context.decrypt": (lambda w, **o: w["ctx"].decrypt(**o), {"array": Of("x")}),
    "Context.release": (
        lambda w, **o: w["ctx"].release(**o),
        {"array": Of("x"), "bits": 2, "largest_error": 1e-6},
    ),
    "Context.attach": (lambda w, **o: w["real"].attach(**o), {"array": None}),
    "Context.load": (lambda w, **o: w["real"].load(**o), {"path": "none.ct"}),
    "Context.explain": (
        lambda w, **o: w["ctx"].explain(**o),
        {"program": lambda x: x + 1, "shapes": [(2,)], "assume_intervals": False},
    ),
    "EncryptedArray.from_bytes": (lambda w, **o: sudare.EncryptedArray.from_bytes(**o), {"data": b""}),
    "EncryptedArray.save": (lambda w, **o: w["x"].save(**o), {"path": "none/x.ct", "overwrite": False}),
    "EncryptedArray.sum": (lambda w, **o: w["x"].sum(**o), {"axis": 0, "keepdims": False}),
    "EncryptedArray.mean": (lambda w, **o: w["x"].mean(**o), {"axis": 0, "keepdims": False}),
    "EncryptedArray.var": (lambda w, **o: w["x"].var(**o), {"axis": 0, "ddof": 0, "keepdims": False}),
    "EncryptedArray.reshape": (lambda w, shape: w["x"].reshape(shape), {"shape": (120,)}),
    "EncryptedArray.transpose": (lambda w, axes: w["x"].transpose(axes), {"axes": (1, 0)}),
    "EncryptedArray.within": (lambda w, **o: w["x"].within(**o), {"low": -9, "high": 9}),
    "EncryptedArray.dot": (lambda w, **o: w["x"].dot(**o), {"other": np.ones(3)}),
    "numpy.dot": (lambda w, other: np.dot(other, w["x"]), {"other": np.ones(40)}),
    "numpy.sum": (lambda w, **o: np.sum(w["x"], **o), {"axis": 0, "keepdims": False}),
    "numpy.transpose": (lambda w, axes: np.transpose(w["x"], axes), {"axes": (1, 0)}),
    "numpy.reshape": (lambda w, shape: np.reshape(w["x"], shape), {"shape": (120,)}),
    "numpy.expand_dims": (lambda w, axis: np.expand_dims(w["x"], axis), {"axis": 0}),
    "numpy.squeeze": (lambda w, axis: np.squeeze(w["x"][None], axis), {"axis": 0}),
    "index": (lambda w, key: w["x"][key], {"key": 0}),
    "indices": (lambda w, key: w["x"][0, key], {"key": 0}),
    "plus": (lambda w, other: w["x"] + other, {"other": 1}),
    "times": (lambda w, other: other * w["x"], {"other": 1}),
    "power": (lambda w, exponent: w["x"] ** exponent, {"exponent": 2}),
    "divide": (lambda w, other: w["x"] / other, {"other": 2}),
    "matmul": (lambda w, other: w["x"] @ other, {"other": np.ones(3)}),
    **{
        f"functions.{name}": (
            lambda w, name=name, **o: getattr(functions, name)(**o),
            {"interval": interval, "degree": 3, "precision_bits": 8},
        )
        for name, interval in {
            "abs": (-1, 1), "exp": (-1, 1), "inverse": (1, 2), "log": (0.5, 1), "maximum": (0, 1),
            "minimum": (0, 1), "relu": (-1, 1), "sigmoid": (-1, 1), "sqrt": (1, 2), "tanh": (-1, 1),
        }.items()
    },
    **{
        f"functions.{name}": (
            lambda w, name=name, **o: getattr(functions, name)(**o),
            {"interval": (-1, 1), "gap": 0.1, "degree": None, "precision_bits": 8},
        )
        for name in ("compare", "sign", "step")
    },
    "functions.polynomial": (
        lambda w, **o: functions.polynomial(**o),
        {"coefficients": [1.0, 2.0], "interval": (-1, 1)},
    ),
    "functions.Function.stated_error": (
        lambda w, **o: functions.tanh((-4, 4), degree=3).stated_error(**o),
        {"noise": 1e-6, "between": None},
    ),
    "functions.PairFunction.stated_error": (
        lambda w, **o: functions.maximum((-4, 4), degree=3).stated_error(**o),
        {"noise": 1e-6, "between": None},
    ),
    "functions call": (lambda w, x: functions.tanh((-9, 9), degree=3)(x), {"x": Of("x")}),
    "functions call of a pair": (
        lambda w, **o: functions.maximum((-9, 9), degree=3)(**o),
        {"a": Of("x"), "b": 0.5},
    ),
    **{
        f"functions.Function.{name}": (
            lambda w, x, name=name: getattr(functions.tanh((-4, 4), degree=3), name)(x),
            {"x": 1.0},
        )
        for name in ("in_the_clear", "exact")
    },
    **{
        f"functions.PairFunction.{name}": (
            lambda w, name=name, **o: getattr(functions.maximum((-4, 4), degree=3), name)(**o),
            {"a": np.ones(2), "b": 0.5},
        )
        for name in ("in_the_clear", "exact")
    },
    "IntegerContext": (
        lambda w, **o: sudare.IntegerContext(**o),
        {
            "t": 257, "depth": 1, "scheme": "bgv", "bootstrap": False, "signed": True, "progress": None,
        },
    ),
    "IntegerContext.preset": (
        lambda w, **o: sudare.IntegerContext.preset(**o),
        {
            "name": "toy-n8", "scheme": "bgv", "insecure_log_n": None, "signed": True, "progress": None,
        },
    ),
    "IntegerContext.from_keys": (
        lambda w, **o: sudare.IntegerContext.from_keys(**o),
        {"evaluation": None, "public": None, "secret": None, "expect": None, "progress": None},
    ),
    "IntegerContext.encrypt": (
        lambda w, **o: w["integers"].encrypt(**o),
        {"values": [1], "low": None, "high": None},
    ),
    "IntegerContext.table": (lambda w, **o: w["integers"].table(**o), {"x": Of("i"), "f": int}),
    "IntegerContext.tables": (
        lambda w, **o: w["integers"].tables(**o),
        {"x": Of("i"), "functions": [int, abs]},
    ),
    "IntegerContext.decrypt": (lambda w, **o: w["integers"].decrypt(**o), {"array": Of("i")}),
    "IntegerContext.noise_budget": (lambda w, **o: w["integers"].noise_budget(**o), {"array": Of("i")}),
    "IntegerContext.bootstrap": (lambda w, **o: w["integers"].bootstrap(**o), {"array": Of("i")}),
    "IntegerContext.attach": (lambda w, **o: w["integers"].attach(**o), {"array": Of("i")}),
    "IntegerContext.load": (lambda w, **o: w["integers"].load(**o), {"path": "none.ct"}),
    "EncryptedIntegers.from_bytes": (
        lambda w, **o: sudare.EncryptedIntegers.from_bytes(**o),
        {"data": b""},
    ),
    "EncryptedIntegers.save": (lambda w, **o: w["i"].save(**o), {"path": "none/i.ct", "overwrite": False}),
    "EncryptedIntegers.reshape": (lambda w, shape: w["i"].reshape(shape), {"shape": 4}),
    "EncryptedIntegers.dot": (lambda w, **o: w["i"].dot(**o), {"other": 2}),
    "EncryptedIntegers.polynomial": (lambda w, **o: w["i"].polynomial(**o), {"coefficients": [1, 2]}),
    "EncryptedIntegers.rotate": (lambda w, **o: w["i"].rotate(**o), {"k": 1}),
    "EncryptedIntegers.within": (lambda w, **o: w["i"].within(**o), {"low": 0, "high": 7}),
    "EncryptedIntegers.clip": (lambda w, **o: w["i"].clip(**o), {"min": 1, "max": 3}),
    "EncryptedIntegers.astype": (lambda w, **o: w["i"].astype(**o), {"dtype": int}),
    "integers plus": (lambda w, other: w["i"] + other, {"other": 1}),
    "integers power": (lambda w, exponent: w["i"] ** exponent, {"exponent": 2}),
    "integers matmul": (lambda w, other: other @ w["i"], {"other": np.ones((2, 2), int)}),
    "WordContext": (
        lambda w, **o: sudare.WordContext(**o),
        {
            "dtype": np.uint8, "depth": 1, "bootstrap": False, "digit_bits": 4, "mode": "simulate",
            "progress": None,
        },
    ),
    "WordContext.for_program": (
        lambda w, **o: sudare.WordContext.for_program(**o),
        {
            "program": abs, "shapes": [3], "dtypes": [np.uint8], "bootstrap": None, "digit_bits": 4,
            "mode": "simulate", "progress": None,
        },
    ),
    "WordContext.preset": (
        lambda w, **o: sudare.WordContext.preset(**o),
        {
            "name": "n13-t65537", "dtype": np.uint8, "digit_bits": 4, "mode": "simulate", "progress": None,
            "insecure_log_n": None,
        },
    ),
    "WordContext.from_keys": (
        lambda w, **o: sudare.WordContext.from_keys(**o),
        {"evaluation": None, "public": None, "secret": None, "expect": None, "progress": None},
    ),
    "WordContext.encrypt": (
        lambda w, **o: w["words"].encrypt(**o),
        {"values": [1], "dtype": None},
    ),
    "WordContext.decrypt": (lambda w, **o: w["words"].decrypt(**o), {"array": Of("u")}),
    "WordContext.carried": (lambda w, **o: w["words"].carried(**o), {"array": Of("u")}),
    "WordContext.attach": (lambda w, **o: w["words"].attach(**o), {"array": Of("u")}),
    "WordContext.load": (lambda w, **o: w["words"].load(**o), {"path": "none.ct"}),
    "EncryptedWords.from_bytes": (
        lambda w, **o: sudare.EncryptedWords.from_bytes(**o),
        {"data": b""},
    ),
    "EncryptedWords.save": (lambda w, **o: w["u"].save(**o), {"path": "none/u.ct", "overwrite": False}),
    "EncryptedWords.reshape": (lambda w, shape: w["u"].reshape(shape), {"shape": 4}),
    "EncryptedWords.dot": (lambda w, **o: w["u"].dot(**o), {"other": 2}),
    "EncryptedWords.clip": (lambda w, **o: w["u"].clip(**o), {"min": 1, "max": 3}),
    "EncryptedWords.astype": (lambda w, **o: w["u"].astype(**o), {"dtype": np.uint16}),
    "words plus": (lambda w, other: w["u"] + other, {"other": 1}),
    "words shifted": (lambda w, count: w["u"] << count, {"count": 1}),
    "words remainder": (lambda w, divisor: w["u"] % divisor, {"divisor": 4}),
    "stats.plan": (
        lambda w, **o: stats.plan(**o),
        {
            "table": (5, 2), "what": "summary", "by": None, "groups": None, "bins": None,
            "edges": None, "exact": False, "share_bits": None,
        },
    ),
    "stats.plan of groups": (
        lambda w, **o: stats.plan((5, 2), "groups", **o),
        {"by": "a", "groups": 2},
    ),
    "stats.plan of histograms": (
        lambda w, **o: stats.plan((5, 2), "histogram", **o),
        {"bins": None, "edges": None, "exact": False, "share_bits": None},
    ),
    "stats.plan of edges": (
        lambda w, edges: stats.plan(w["frame"], "histogram", edges={"a": edges}),
        {"edges": [0, 1]},
    ),
    "stats.run": (
        lambda w, **o: stats.run(**o),
        {
            "table": [[1.0]], "what": "summary", "by": None, "bins": None, "edges": None,
            "exact": False, "progress": None,
        },
    ),
    "stats.Plan.of": (
        lambda w, **o: stats.Plan.of(**o),
        {"key": Of("public of sums"), "by": None, "edges": None},
    ),
    "stats.Plan.encrypt": (
        lambda w, **o: w["moments"].encrypt(**o),
        {
            "table": Of("rows"), "key": Of("public of sums"), "expect": None, "path": None,
            "overwrite": False, "progress": None,
        },
    ),
    "stats.Plan.make_keys": (lambda w, **o: w["moments"].make_keys(**o), {"progress": None}),
    "stats.compute": (
        lambda w, **o: stats.compute(**o),
        {"table": Of("squares"), "keys": Of("keys of sums"), "progress": None},
    ),
    "stats.decrypt": (
        lambda w, **o: stats.decrypt(**o),
        {"result": Of("statistics"), "key": Of("secret of sums"), "table": None, "like": None},
    ),
    "stats.release": (
        lambda w, **o: stats.release(**o),
        {"result": Of("statistics"), "key": Of("secret of sums"), "bits": 2, "table": None, "like": None},
    ),
    "stats.Summary.weighted_mean": (lambda w, **o: w["summary"].weighted_mean(**o), {"weights": "x0"}),
    "stats.Summary.least_squares": (lambda w, **o: w["summary"].least_squares(**o), {"target": "x0"}),
    "stats.Summary.t_test": (lambda w, **o: w["summary"].t_test(**o), {"a": "x0", "b": "x1"}),
    "stats.Summary.to_frame": (lambda w, **o: w["summary"].to_frame(**o), {"what": "columns"}),
    "stats.Groups.t_test": (lambda w, **o: w["groups"].t_test(**o), {"a": 0, "b": 1}),
    "stats.Histograms.quantile": (lambda w, **o: w["histograms"].quantile(**o), {"p": 0.5}),
    "stats.Histograms.quantile_bounds": (
        lambda w, **o: w["histograms"].quantile_bounds(**o),
        {"p": [0.25, 0.5]},
    ),
    "linear_model.LogisticRegression": (
        _fitted("LogisticRegression"),
        {
            "preparation": "whiten", "C": 1.0, "alpha": None, "max_iter": 2, "batch_size": None,
            "learning_rate": None, "rate": None, "class_weight": None, "sigmoid_degree": None,
            "sigmoid_range": None, "calibrate": True, "missing": "refuse", "unseen": "refuse",
            "mode": "simulate", "random_state": None, "workers": None, "share_bits": None,
            "scorable": False, "history": False, "progress": None, "insecure_log_n": None,
        },
    ),
    "linear_model.LogisticRegression of weights": (
        lambda w, weight: LogisticRegression(
            mode="simulate", class_weight={0: weight}, max_iter=2
        ).fit(w["X"], w["y"]),
        {"weight": 2.0},
    ),
    "linear_model.LogisticRegression that encrypts": (
        _encrypted("LogisticRegression"),
        {
            "C": 1.0, "class_weight": None, "missing": "refuse", "mode": "execute",
            "random_state": None, "scorable": False, "share_bits": None, "progress": None,
        },
    ),
    "linear_model.LogisticRegression.fit": (
        lambda w, **o: LogisticRegression(mode="simulate", max_iter=2).fit(**o),
        {"X": Of("X"), "y": Of("y")},
    ),
    "linear_model.LogisticRegression.fit of a column": (
        lambda w, values: LogisticRegression(mode="simulate", max_iter=2, missing="mean").fit(
            pd.DataFrame({"a": w["X"][:, 0], "b": pd.Series([values] * 40, dtype=object)}), w["y"]
        ),
        {"values": 1.0},
    ),
    **{
        f"linear_model.LogisticRegression.{name}": (
            lambda w, name=name, **o: getattr(w["model"], name)(**o),
            {"X": np.zeros((1, 3))},
        )
        for name in ("decision_function", "predict", "predict_proba", "predict_log_proba")
    },
    "linear_model.LogisticRegression.score": (
        lambda w, **o: w["model"].score(**o),
        {"X": np.zeros((2, 3)), "y": [0, 1], "sample_weight": None},
    ),
    "linear_model.LogisticRegression.plot": (
        lambda w, **o: w["model"].plot(**o),
        {"X": None, "y": Of("y"), "axes": 1},
    ),
    "linear_model.LogisticRegression.plot on axes": (
        lambda w, axes: w["model"].plot(w["X"], w["y"], axes=axes),
        {"axes": 1},
    ),
    "linear_model.LogisticRegression.open": (
        lambda w, **o: LogisticRegression.open(**o),
        {"path": "none.json"},
    ),
    "linear_model.LogisticRegression.save": (
        lambda w, **o: w["model"].save(**o),
        {"path": "none/m.json", "overwrite": False},
    ),
    "linear_model.LogisticRegression.plan": (
        lambda w, n_rows, n_features, **o: LogisticRegression().plan(n_rows, n_features, **o),
        {"n_rows": 10, "n_features": 2, "n_classes": 2},
    ),
    "linear_model.LogisticRegression.encrypt": (
        lambda w, **o: w["owner"].encrypt(**o),
        {
            "X": Of("rows"), "y": Of("targets"), "key": Of("public of training"), "expect": None,
            "path": None, "overwrite": False,
        },
    ),
    "linear_model.LogisticRegression.decrypt": (
        lambda w, **o: LogisticRegression(max_iter=1).decrypt(**o),
        {
            "result": Of("result"), "key": Of("secret of training"), "X": None, "y": None,
            "share": None, "assume_range": False, "table": None,
        },
    ),
    "linear_model.LogisticRegression.decrypt to calibrate": (
        lambda w, **o: LogisticRegression(max_iter=1).decrypt(w["result"], w["training"].secret, **o),
        {"X": Of("rows"), "y": Of("targets")},
    ),
    **{
        f"linear_model.{name}": (
            _fitted(name),
            {
                **({"alpha": 1.0} if name == "Ridge" else {}), "fit_intercept": True,
                "share_bits": None, "mode": "simulate", "progress": None, "insecure_log_n": SMALL,
            },
        )
        for name in ("LinearRegression", "Ridge")
    },
    "linear_model.Ridge that encrypts": (
        _encrypted("Ridge"),
        {"alpha": 1.0, "fit_intercept": True, "share_bits": None, "mode": "execute"},
    ),
    **{
        f"linear_model.{name}.{method}": (
            lambda w, name=name, method=method, **o: getattr(
                getattr(sudare, name)(mode="simulate", insecure_log_n=SMALL), method
            )(**o),
            {"X": Of("X"), "y": Of("y")},
        )
        for name in ("LinearRegression", "Ridge")
        for method in ("fit",)
    },
    **{
        f"linear_model.{name}.plan": (
            lambda w, n_rows, n_features, name=name: getattr(sudare, name)().plan(n_rows, n_features),
            {"n_rows": 10, "n_features": 2},
        )
        for name in ("LinearRegression", "Ridge")
    },
    **{
        f"linear_model.{name}.encrypt": (
            lambda w, name=name, **o: getattr(sudare, name)().encrypt(**o),
            {
                "X": Of("rows"), "y": Of("targets"), "key": Of("public of sums"), "expect": None,
                "path": None, "overwrite": False,
            },
        )
        for name in ("LinearRegression", "Ridge")
    },
    **{
        f"linear_model.{name}.decrypt": (
            lambda w, name=name, **o: getattr(sudare, name)().decrypt(**o),
            {
                "result": Of("least squares"), "key": Of("secret of sums"), "share": None,
                "table": None,
            },
        )
        for name in ("LinearRegression", "Ridge")
    },
    **{
        f"linear_model.{name}.predict": (
            lambda w, X, name=name: getattr(sudare, name)(mode="simulate").fit(w["X"], w["y"]).predict(X),
            {"X": np.zeros((1, 3))},
        )
        for name in ("LinearRegression", "Ridge")
    },
    **{
        f"linear_model.{name}.score": (
            lambda w, name=name, **o: getattr(sudare, name)(mode="simulate")
            .fit(w["X"], w["y"])
            .score(**o),
            {"X": Of("rows"), "y": Of("targets"), "sample_weight": None},
        )
        for name in ("LinearRegression", "Ridge")
    },
    "linear_model.to_onnx": (
        lambda w, **o: linear_model.to_onnx(**o),
        {"model": Of("model"), "path": "none/m.onnx", "outputs": "all", "overwrite": False},
    ),
    "linear_model.compute": (
        lambda w, **o: linear_model.compute(**o),
        {
            "tables": Of("trained"), "keys": Of("keys of training"), "checkpoint": None,
            "resume": False, "overwrite": False, "history": False, "progress": None,
        },
    ),
    "distributed.compute": (
        lambda w, **o: distributed.compute(**o),
        {
            "tables": Of("trained"), "keys": Of("evaluation"), "executor": Of("executor"),
            "shares": None, "checkpoint": None, "resume": False, "overwrite": False,
            "history": False, "retries": 3, "progress": None,
        },
    ),
    "scoring.plan": (
        lambda w, **o: scoring.plan(**o),
        {
            "n_rows": 2, "n_features": 3, "n_classes": 2, "probability_bits": None,
            "sigmoid_range": 8.0, "share_bits": None, "score_range": None, "insecure_log_n": SMALL,
        },
    ),
    "scoring.plan to share": (
        lambda w, **o: scoring.plan(2, 3, **o),
        {"share_bits": 4, "score_range": 4.0, "insecure_log_n": SMALL},
    ),
    "scoring.Plan.of": (
        lambda w, **o: scoring.Plan.of(**o),
        {"key": Of("public of scores"), "n_rows": 6},
    ),
    "scoring.Plan.encrypt": (
        lambda w, **o: w["scored"].encrypt(**o),
        {
            "X": Of("rows"), "key": Of("secret of scores"), "like": Of("model"), "y": None,
            "expect": None, "path": None, "overwrite": False, "progress": None,
        },
    ),
    "scoring.Plan.encrypt_model": (
        lambda w, **o: w["scored"].encrypt_model(**o),
        {"model": Of("model"), "key": Of("public of scores"), "expect": None},
    ),
    "scoring.Plan.make_keys": (lambda w, **o: w["scored"].make_keys(**o), {"progress": None}),
    "scoring.compute": (
        lambda w, **o: scoring.compute(**o),
        {
            "rows": Of("scored rows"), "model": Of("model"), "keys": Of("keys of scores"),
            "progress": None,
        },
    ),
    "scoring.decrypt": (
        lambda w, **o: scoring.decrypt(**o),
        {"result": Of("scored result"), "key": Of("secret of scores"), "table": None},
    ),
    "scoring.release": (
        lambda w, **o: scoring.release(**o),
        {"result": Of("scored result"), "key": Of("secret of scores"), "bits": 2, "table": None},
    ),
    "search.plan": (
        lambda w, **o: search.plan(**o),
        {
            "rows": 8, "dimension": 3, "metric": "cosine", "largest": None, "largest_query": None,
            "mode": "encrypted", "answer": "matches", "at": 0.5, "margin": 0.2, "most": 4,
            "payload": "rows", "insecure_log_n": SMALL,
        },
    ),
    "search.plan of norms": (
        lambda w, **o: search.plan(8, 3, insecure_log_n=SMALL, **o),
        {"metric": "inner", "largest": 2.0, "largest_query": None},
    ),
    "search.Plan.make_keys": (
        lambda w, folder=None, **o: w["searched"].make_keys(folder, **o),
        {"folder": None, "passphrase": None, "overwrite": False, "progress": None},
    ),
    "search.Plan.make_keys in a directory": (
        lambda w, **o: w["searched"].make_keys(_new(w), **o),
        {"passphrase": None, "overwrite": False, "progress": None},
    ),
    "search.Keys": (
        lambda w, **o: search.Keys(**o),
        {"folder": "none", "passphrase": None},
    ),
    "search.PublicKey": (lambda w, path: search.PublicKey(path), {"path": "none.key"}),
    "search.PublicKey.encrypt": (
        lambda w, vector: search.PublicKey(w["folder"] / "keys/public.key").encrypt(vector),
        {"vector": np.ones(3)},
    ),
    "search.SecretKey": (
        lambda w, path="none.key", **o: search.SecretKey(path, **o),
        {"path": "none.key", "passphrase": None},
    ),
    "search.SecretKey.encrypt": (lambda w, vector: w["search"].encrypt(vector), {"vector": np.ones(3)}),
    "search.SecretKey.decrypt": (
        lambda w, **o: w["search"].decrypt(**o),
        {"answer": Of("answer"), "deleted": ()},
    ),
    "search.Index": (
        lambda w, **o: search.Index(**o),
        {"folder": "none", "key": Of("search")},
    ),
    "search.Index.build": (
        lambda w, **o: search.Index.build(_new(w), **o),
        {
            "key": Of("search"), "vectors": np.ones((2, 3)), "payloads": None, "deleted": (),
            "progress": None,
        },
    ),
    "search.Index.build in a directory": (
        lambda w, folder: search.Index.build(folder, w["search"], np.ones((2, 3))),
        {"folder": "none"},
    ),
    "search.Index.append": (
        lambda w, **o: search.Index.build(_new(w), w["search"], np.ones((1, 3))).append(**o),
        {"vectors": np.ones((1, 3)), "payloads": None, "progress": None},
    ),
    "search.Index.delete": (
        lambda w, **o: search.Index.build(_new(w), w["search"], np.ones((2, 3))).delete(**o),
        {"rows": [1], "progress": None},
    ),
    "search.Server": (lambda w, path: search.Server(path), {"path": "none.key"}),
    "search.Server.compute": (
        lambda w, **o: w["server"].compute(**o),
        {
            "query": Of("query"), "index": Of("folder of an index"), "payloads": None, "deleted": (),
            "answer": None, "progress": None,
        },
    ),
    "search.Scores.top_k": (lambda w, k: w["scores"].top_k(k), {"k": 2}),
    **{
        f"trees.Forest.from_{name}": (
            lambda w, model, name=name: getattr(trees.Forest, f"from_{name}")(model),
            {"model": "none.json"},
        )
        for name in ("estimator", "xgboost", "lightgbm", "onnx")
    },
    "trees.Forest.load": (lambda w, path: trees.Forest.load(path), {"path": "none.json"}),
    "trees.Forest.save": (
        lambda w, **o: w["forest"].save(**o),
        {"path": "none/f.json", "overwrite": False},
    ),
    "trees.Forest.renamed": (
        lambda w, **o: w["forest"].renamed(**o),
        {"features": ["a"], "classes": None},
    ),
    "trees.Forest.predict": (lambda w, x: w["forest"].predict(x), {"x": [[1.0]]}),
    "trees.Grid": (lambda w, features: trees.Grid(features), {"features": []}),
    "trees.Grid.fitted": (
        lambda w, **o: trees.Grid.fitted(**o),
        {"sample": np.ones((2, 1)), "digits": 2, "names": None},
    ),
    "trees.Feature of numbers": (
        lambda w, **o: trees.Feature(**o),
        {"name": "a", "low": 0.0, "step": 1.0, "points": 2},
    ),
    "trees.plan": (
        lambda w, **o: trees.plan(**o),
        {
            "forest": Of("forest"),
            "grid": trees.Grid([trees.Feature("a", 0.0, 1.0, 2)]),
            "tolerance": None,
        },
    ),
    "trees.Plan.compute": (
        lambda w, **o: w["trees"].compute(**o),
        {"keys": Of("trees keys"), "rows": Of("trees rows"), "progress": None},
    ),
    "trees.Plan.execute": (
        lambda w, **o: w["trees"].execute(**o),
        {"x": [[1.0]], "outside": "refuse", "progress": None},
    ),
    "trees.Plan.on_grid": (lambda w, x: w["trees"].on_grid(x), {"x": [[1.0]]}),
    "trees.Setup": (lambda w, text: trees.Setup(text), {"text": "{}"}),
    "trees.Setup.encrypt": (
        lambda w, **o: w["trees"].setup.encrypt(**o),
        {"secret": Of("trees secret"), "x": [[1.0]], "outside": "refuse", "progress": None},
    ),
    "trees.Setup.decrypt": (
        lambda w, **o: w["trees"].setup.decrypt(**o),
        {"secret": Of("trees secret"), "scores": Of("trees scores")},
    ),
    "trees.Keys": (lambda w, data: trees.Keys(data), {"data": b""}),
    "trees.Keys.save": (
        lambda w, **o: w["trees keys"].save(**o),
        {"path": "none/k.key", "overwrite": False},
    ),
    "trees.Keys.open": (lambda w, path: trees.Keys.open(path), {"path": "none.key"}),
    "trees.Secret.open": (
        lambda w, **o: trees.Secret.open(**o),
        {"path": "none.key", "passphrase": None},
    ),
    "trees.Secret.save": (
        lambda w, **o: w["trees secret"].save(**o),
        {"path": "none/s.key", "overwrite": False, "passphrase": None},
    ),
    "nn.Network.load": (
        lambda w, path="none.onnx", **o: nn.Network.load(path, **o),
        {"path": "none.onnx", "degree": 7},
    ),
    "nn.Network.load of its files": (
        lambda w, name: nn.Network.load(w["folder"] / (name if isinstance(name, str) else type(name).__name__)),
        {"name": "M.ONNX"},
    ),
    "nn.Network.save": (lambda w, path: w["network"].save(path), {"path": "none/m.json"}),
    "nn.Network.dense": (
        lambda w, **o: nn.Network.dense(**o),
        {"layers": [(np.eye(2), np.zeros(2)), (np.eye(2), np.zeros(2))], "activation": "square"},
    ),
    "nn.Network.dense of a layer": (
        lambda w, layer: nn.Network.dense([layer, (np.eye(2), np.zeros(2))]),
        {"layer": (np.eye(2), np.zeros(2))},
    ),
    "nn.Network.describe": (
        lambda w, **o: nn.Network.describe(**o),
        {"input_shape": [3], "layers": ["flatten"]},
    ),
    "nn.Network.describe of a layer": (
        lambda w, layer: nn.Network.describe([3], [layer]),
        {"layer": "flatten"},
    ),
    "nn.Network.fitted": (
        lambda w, **o: w["network"].fitted(**o),
        {"calibration": np.ones((500, 3)), "degree": 5, "margin": 1.35},
    ),
    "nn.Network.predict": (lambda w, samples: w["network"].predict(samples), {"samples": np.ones((1, 3))}),
    "nn.plan": (
        lambda w, **o: nn.plan(**o),
        {
            "network": Of("network"), "batch": 2, "calibration": np.ones((2, 3)), "ranges": None,
            "margin": 1.25, "packing": None, "precision_bits": 8.0,
        },
    ),
    "nn.plan_hidden": (
        lambda w, **o: nn.plan_hidden(**o),
        {
            "network": Of("network"), "calibration": np.ones((2, 3)), "ranges": None, "margin": 1.25,
            "precision_bits": 8.0,
        },
    ),
    "nn.HiddenPlan": (lambda w, **o: nn.HiddenPlan(**o), {"outline": Of("outline")}),
    **{
        f"nn.{name}.{method}": (
            lambda w, plan=plan, method=method, **o: getattr(w[plan], method)(**o),
            usual,
        )
        for name, plan, start in (("Plan", "plan", ""), ("HiddenPlan", "hidden", "hidden "))
        for method, usual in _methods_of_plans(start).items()
    },
    "nn.Plan.check": (lambda w, samples: w["plan"].check(samples), {"samples": np.ones((1, 3))}),
    "nn.Plan.simulate": (lambda w, samples: w["plan"].simulate(samples), {"samples": np.ones((1, 3))}),
    "nn.Plan.execute": (lambda w, samples: w["plan"].execute(samples), {"samples": None}),
    "nn.Plan.evaluate": (
        lambda w, **o: w["plan"].evaluate(**o),
        {"samples": None, "labels": [0]},
    ),
    "nn.Plan.compute": (
        lambda w, **o: w["plan"].compute(**o),
        {"keys": Of("keys"), "batch": Of("batch")},
    ),
    "nn.HiddenPlan.check": (
        lambda w, **o: w["hidden"].check(**o),
        {"network": Of("network"), "samples": np.ones((1, 3))},
    ),
    "nn.HiddenPlan.simulate": (
        lambda w, **o: w["hidden"].simulate(**o),
        {"network": Of("network"), "samples": np.ones((1, 3))},
    ),
    "nn.HiddenPlan.execute": (
        lambda w, **o: w["hidden"].execute(**o),
        {"network": Of("network"), "samples": None},
    ),
    "nn.HiddenPlan.evaluate": (
        lambda w, **o: w["hidden"].evaluate(**o),
        {"network": Of("network"), "samples": None, "labels": [0]},
    ),
    "nn.HiddenPlan.encrypt_weights": (
        lambda w, **o: w["hidden"].encrypt_weights(**o),
        {"secret": Of("hidden secret"), "network": Of("network")},
    ),
    "nn.HiddenPlan.weights_from_bytes": (
        lambda w, **o: w["hidden"].weights_from_bytes(**o),
        {"data": b""},
    ),
    "nn.HiddenPlan.compute": (
        lambda w, **o: w["hidden"].compute(**o),
        {"keys": Of("hidden keys"), "weights": Of("weights"), "batch": Of("hidden batch")},
    ),
    "nn.Secret.save": (
        lambda w, path="none/s.key", **o: w["secret"].save(path, **o),
        {"path": "none/s.key", "overwrite": False, "passphrase": None},
    ),
    **{
        f"{name}.open": (
            lambda w, path, cls=cls: cls.open(path),
            {"path": "none.ct"},
        )
        for name, cls in {
            "PublicKey": sudare.PublicKey, "EncryptedTable": sudare.EncryptedTable,
            "EncryptedResult": sudare.EncryptedResult, "IntegerPublicKey": sudare.IntegerPublicKey,
            "pool.Sums": pool.Sums, "pool.PooledTransform": pool.PooledTransform,
        }.items()
    },
    "SecretKey.open": (
        lambda w, **o: sudare.SecretKey.open(**o),
        {"path": "none.key", "passphrase": None},
    ),
    "EvaluationKeys.open": (
        lambda w, **o: sudare.EvaluationKeys.open(**o),
        {"path": "none.key", "small": False},
    ),
    **{
        f"save of {name}": (
            lambda w, name=name, **o: w[name].save(**o),
            {"path": "none/x", "overwrite": False},
        )
        for name in (
            "public of sums", "keys of sums", "secret of sums", "squares", "statistics", "sums", "transform",
        )
    },
    "EncryptedTable.compute": (lambda w, keys: w["squares"].compute(keys), {"keys": Of("keys of sums")}),
    "EncryptedTable.score": (
        lambda w, keys: w["scored rows"].score(keys, "{}"),
        {"keys": Of("keys of scores")},
    ),
    "EncryptedResult.decrypt": (
        lambda w, **o: w["statistics"].decrypt(**o),
        {"key": Of("secret of sums"), "share_bits": None, "assume_range": False},
    ),
    "pool.Schema": (lambda w, text: pool.Schema(text), {"text": "{}"}),
    "pool.Schema.draft": (
        lambda w, **o: pool.Schema.draft(**o),
        {
            "X": Of("rows"), "y": Of("targets"), "owners": ["north"], "missing": "refuse",
            "unseen": "refuse",
        },
    ),
    "pool.Schema.open": (lambda w, path: pool.Schema.open(path), {"path": "none.json"}),
    "pool.Schema.save": (
        lambda w, **o: w["schema"].save(**o),
        {"path": "none/schema.json", "overwrite": False},
    ),
    "pool.plan": (
        lambda w, **o: pool.plan(**o),
        {"schema": Of("schema"), "n_rows": 40, "model": None},
    ),
    "pool.encrypt_sums": (
        lambda w, **o: pool.encrypt_sums(**o),
        {
            "schema": Of("schema"), "X": Of("rows"), "y": Of("targets"), "owner": "north",
            "key": Of("public of owners"), "expect": None,
        },
    ),
    "pool.add": (lambda w, **o: pool.add(**o), {"schema": Of("schema"), "sums": None}),
    "pool.statistics": (
        lambda w, **o: pool.statistics(**o),
        {"schema": Of("schema"), "total": Of("total"), "key": Of("secret of owners"), "like": None},
    ),
    "pool.make_transform": (
        lambda w, **o: pool.make_transform(**o),
        {
            "schema": Of("schema"), "total": Of("total"), "key": Of("secret of owners"),
            "class_weight": None,
        },
    ),
    "pool.encrypt": (
        lambda w, **o: pool.encrypt(**o),
        {
            "transform": Of("transform"), "X": Of("X"), "y": Of("y"), "owner": "north",
            "key": Of("public of owners"), "expect": None, "path": None, "overwrite": False,
            "progress": None,
        },
    ),
    "client.Client": (
        lambda w, **o: Client(**o).close(),
        {"url": "http://127.0.0.1:1", "token": "token", "server_key": None, "verify": True},
    ),
    "client.Client.upload": (
        lambda w, **o: w["client"].upload(**o),
        {"path": "none.ct", "collection": "tables", "progress": None, "plain_model": False},
    ),
    **{
        f"client.Client.{name}": (
            lambda w, name=name, **o: getattr(w["client"], name)(**o),
            {"keys": Of("file of keys"), "table": "none.ct"},
        )
        for name in ("stats", "groups", "histogram")
    },
    "client.Client.train": (
        lambda w, **o: w["client"].train(**o),
        {"keys": Of("file of keys"), "table": "none.ct", "iterations": None, "history": False},
    ),
    "client.Client.predict": (
        lambda w, **o: w["client"].predict(**o),
        {"keys": Of("file of keys"), "rows": "none.ct", "model": "none.ct", "plain_model": False},
    ),
    "client.Client.job": (lambda w, **o: w["client"].job(**o), {"id": "a"}),
    "client.Job.wait": (lambda w, **o: w["job"].wait(**o), {"progress": None}),
    "client.Job.result": (lambda w, **o: w["job"].result(**o), {"path": "none/r.ct"}),
}


# Booleans are integers with operators of their own.
CALLS.update(
    {
        name.replace("Integers", "Booleans"): (
            lambda w, call=call, **o: call({**w, "i": w["b"]}, **o),
            usual,
        )
        for name, (call, usual) in CALLS.items()
        if name.startswith("EncryptedIntegers.")
    }
)


CALLS |= {
    **{
        f"linear_model.{name} with a coding": (
            lambda w, name=name, **o: getattr(linear_model, name)(mode="simulate", **o).fit(w["frame"], w["y"]),
            {
                "columns": None, "drop": None, "missing": "refuse", "unseen": "refuse", "rare": None,
                "dates": None,
            },
        )
        for name in ("LinearRegression", "LogisticRegression", "Ridge")
    },
    "pool.Schema.draft with a coding": (
        lambda w, **o: pool.Schema.draft(w["rows"], w["targets"], owners=["north"], **o),
        {"columns": None, "drop": None, "rare": None},
    ),
    "stats.plan with a coding": (
        lambda w, **o: stats.plan(w["frame"], **o),
        {"columns": None, "drop": None, "missing": "refuse", "rare": None, "dates": None},
    ),
    "stats.run with a coding": (
        lambda w, **o: stats.run(w["frame"], **o),
        {"columns": None, "drop": None, "missing": "refuse", "rare": None, "dates": None},
    ),
    "stats.Plan.of with a coding": (
        lambda w, **o: stats.Plan.of(w["public of sums"], **o),
        {"columns": None, "drop": None, "missing": "refuse", "rare": None, "dates": None},
    ),
}


def _least_squares(w: dict[str, Any]) -> Any:
    return linear_model.LinearRegression(mode="simulate").fit(w["X"], np.arange(40.0) % 7)


CALLS |= {
    **{
        f"client.Client.{name} with progress": (
            lambda w, name=name, **o: getattr(w["client"], name)("none.key", "none.ct", **o),
            {"progress": None},
        )
        for name in ("stats", "groups", "histogram", "train")
    },
    "client.Client.predict with progress": (
        lambda w, **o: w["client"].predict("none.key", "none.ct", "none.ct", **o),
        {"progress": None},
    ),
    "client.Job.result again": (
        lambda w, **o: w["job"].result("r.ct", **o),
        {"overwrite": False, "progress": None},
    ),
    **{
        f"linear_model.{name}.fit with weights": (
            lambda w, name=name, **o: getattr(linear_model, name)(mode="simulate").fit(w["X"], w["y"], **o),
            {"sample_weight": None},
        )
        for name in ("LinearRegression", "LogisticRegression", "Ridge")
    },
    **{
        f"linear_model.{name}.encrypt with weights": (
            lambda w, name=name, **o: getattr(linear_model, name)().encrypt(
                w["rows"], w["targets"], w["public of training"], **o
            ),
            {"sample_weight": None},
        )
        for name in ("LinearRegression", "LogisticRegression", "Ridge")
    },
    "linear_model.LogisticRegression.plan with weights": (
        lambda w, **o: LogisticRegression().plan(10, 2, **o),
        {"sample_weight": None},
    ),
    "linear_model.LogisticRegression.decrypt with weights": (
        lambda w, **o: LogisticRegression(max_iter=1).decrypt(
            w["result"], w["secret of training"], w["rows"], w["targets"], **o
        ),
        {"sample_weight": None},
    ),
    "linear_model.LinearRegression.summary": (lambda w, **o: _least_squares(w).summary(**o), {"level": 0.95}),
    "linear_model.Ridge.summary": (
        lambda w, **o: linear_model.Ridge(alpha=0.0, mode="simulate").fit(w["X"], w["y"]).summary(**o),
        {"level": 0.95},
    ),
    "linear_model.LogisticRegression.summary": (
        lambda w, **o: w["model"].summary(**o),
        {"X": Of("X"), "y": Of("y"), "level": 0.95},
    ),
    "linear_model.LinearSummary.to_frame": (
        lambda w, **o: _least_squares(w).summary().to_frame(**o),
        {"like": None},
    ),
    "linear_model.LogisticSummary.to_frame": (
        lambda w, **o: w["model"].summary(w["X"], w["y"]).to_frame(**o),
        {"like": None},
    ),
    "nn.Network.from_sklearn": (
        lambda w, model, **o: nn.Network.from_sklearn(_least_squares(w) if model is None else model, **o),
        {"model": None, "degree": 7},
    ),
    "nn.Network.save again": (
        lambda w, **o: w["network"].save("none/m.json", **o),
        {"overwrite": False},
    ),
    **{
        f"nn.Plan.{name} with progress": (
            lambda w, name=name, **o: getattr(w["plan"], name)(w["X"][:1], **o),
            {"progress": None},
        )
        for name in ("execute", "evaluate")
    },
    **{
        f"nn.HiddenPlan.{name} with progress": (
            lambda w, name=name, **o: getattr(w["hidden"], name)(w["network"], w["X"][:1], **o),
            {"progress": None},
        )
        for name in ("execute", "evaluate")
    },
    "stats.Summary.var": (lambda w, **o: w["summary"].var(**o), {"ddof": 1}),
    "stats.Summary.sem": (lambda w, **o: w["summary"].sem(**o), {"ddof": 1}),
    "stats.Summary.skew": (lambda w, **o: w["summary"].skew(**o), {"bias": True}),
    "stats.Summary.kurt": (lambda w, **o: w["summary"].kurt(**o), {"fisher": True, "bias": True}),
    "stats.Summary.describe": (lambda w, **o: w["summary"].describe(**o), {"table": None}),
    "stats.Groups.var": (lambda w, **o: w["groups"].var(**o), {"ddof": 1}),
}


EXCUSED = {
    # Only other calls make these.
    "client.Job", "functions.Function", "functions.PairFunction", "nn.Batch", "nn.Keys", "nn.Network",
    "nn.Plan", "nn.Secret", "nn.Weights", "scoring.Plan", "search.Plan", "search.Scores", "stats.Groups",
    "stats.Histograms", "stats.Plan", "stats.Summary", "trees.Forest", "trees.Plan", "trees.Secret",
    "EncryptedArray", "EncryptedIntegers", "Keys", "EncryptedBooleans", "EncryptedWords", "IntegerKeys",
    "Explanation.of",
}  # fmt: skip


def _public() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Returns the public functions and methods of Python code, by name."""
    for module in ("", *_MODULES):
        known = importlib.import_module(f"sudare.{module}" if module else "sudare")
        for name in known.__all__:
            found = getattr(known, name)
            if not (getattr(found, "__module__", "") or "").startswith("sudare"):
                continue
            if not module and not found.__module__.startswith("sudare._"):
                continue
            path = f"{module}.{name}" if module else name
            if inspect.isfunction(found):
                yield path, found
            elif inspect.isclass(found) and found.__module__ != "sudare._native":
                if issubclass(found, BaseException):
                    continue
                yield from _methods(path, found)


_MODULES = ("client", "distributed", "functions", "linear_model", "nn", "pool", "scoring", "search", "stats", "trees")


def _methods(path: str, cls: type[Any]) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in dir(cls):
        found = inspect.getattr_static(cls, name)
        found = found.__func__ if isinstance(found, classmethod | staticmethod) else found
        own = inspect.isfunction(found) and found.__module__.startswith("sudare")
        excused = name.startswith("_") or f"{path}.{name}" in EXCUSED or hasattr(found, "__wrapped__")
        if own and not excused:
            yield f"{path}.{name}", found
    if path not in EXCUSED and "__init__" in dir(cls) and not hasattr(cls, "__dataclass_fields__"):
        yield path, cls.__init__


def uncovered() -> list[str]:
    """Lists public functions and parameters that no call covers."""
    covered: dict[str, set[str]] = {}
    for name, (_, usual) in CALLS.items():
        covered.setdefault(name.split(" ")[0], set()).update(usual)
    missing = []
    for name, function in _public():
        parameters = [
            parameter.name
            for parameter in inspect.signature(function).parameters.values()
            if parameter.name != "self" and parameter.kind != parameter.VAR_KEYWORD
        ]
        if parameters[:1] == ["cls"]:
            parameters = parameters[1:]
        missing += [f"{name}({p})" for p in parameters if p not in covered.get(name, ())]
    return missing


def _duplicates(w: dict[str, Any], library: str) -> Any:
    columns = list(w["X"].T)
    table = (
        pa.table(columns, names=["a", "b", "a"])
        if isinstance(library, str) and library == "pyarrow"
        else pd.DataFrame(w["X"], columns=["a", "b", "a"])
    )
    return LogisticRegression(mode="simulate").fit(table, w["y"])


CALLS["frame with two columns of a name"] = (_duplicates, {"library": "pandas"})


@dataclass(frozen=True)
class CallCase(Case):
    """A call with one argument that may be wrong."""

    name: str
    argument: str
    value: Any

    def describe(self) -> str:
        return f"{self.name} with {self.argument}={shown(self.value)}"

    def run(self, *, execute: bool) -> Verdict:
        call, usual = CALLS[self.name]
        world = _world()
        given = {
            name: world[value.name] if isinstance(value, Of) else value
            for name, value in {**usual, self.argument: self.value}.items()
        }
        start = time.process_time()
        with _inside(world["folder"]):
            found = attempt(lambda: call(world, **given))
        taken = time.process_time() - start
        if found.foreign and not _expected(found.error, self.value):
            return judge({self.name: found}, {})
        if taken > SECONDS:
            return Verdict("finding", "takes long", f"{taken:.0f} s")
        if found.error is not None:
            return Verdict("refused", type(found.error).__name__, str(found.error))
        return Verdict("right", "right")


def _expected(error: BaseException | None, value: object) -> bool:
    """Tells whether a function that was given, such as a callback of progress, does not take its arguments.

    Errors of functions that users pass reach them unchanged.
    """
    return isinstance(error, TypeError) and callable(value)


PAIRS = [(name, argument) for name, (_, usual) in CALLS.items() for argument in usual]
VALUES = [*ODD, "M.ONNX", "m.pb", "pyarrow", "pandas"]

NAMED = [
    ("Context.preset", "name"), ("Context.for_program", "program"), ("Context.for_program", "shapes"),
    ("functions.sign", "gap"), ("functions.sign", "interval"), ("functions.sigmoid", "precision_bits"),
    ("EncryptedArray.from_bytes", "data"), ("plus", "other"), ("times", "other"), ("power", "exponent"),
    ("Context.encrypt", "values"), ("IntegerContext.encrypt", "values"), ("IntegerContext", "t"),
    ("linear_model.LogisticRegression.fit", "X"), ("linear_model.LogisticRegression.fit", "y"),
    ("stats.run", "table"), ("nn.plan", "batch"), ("nn.plan", "precision_bits"),
    ("nn.Network.predict", "samples"), ("nn.Network.load of its files", "name"),
    ("search.Index.build", "vectors"), ("search.SecretKey.encrypt", "vector"),
    ("search.Scores.top_k", "k"), ("frame with two columns of a name", "library"),
]  # fmt: skip
"""Arguments that users often get wrong."""


def draw(rng: Rng) -> Case:
    """A call."""
    name, argument = PAIRS[rng.integers(len(PAIRS))]
    return CallCase(name, argument, VALUES[rng.integers(len(VALUES))])


def draw_named(rng: Rng) -> Case:
    """A call with an argument that users often get wrong."""
    name, argument = NAMED[rng.integers(len(NAMED))]
    return CallCase(name, argument, VALUES[rng.integers(len(VALUES))])


GENERATORS = [
    Generator(
        "arguments",
        draw,
        ("errors of other packages", "sizes whose refusal takes long"),
        share=0.4,
    ),
    Generator(
        "usual arguments",
        draw_named,
        ("errors of other packages", "sizes whose refusal takes long"),
        share=0.1,
    ),
]
