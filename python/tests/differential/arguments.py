"""Public functions with arguments that are none."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

import sudare
from sudare import LogisticRegression, functions, nn, scoring, search, stats

from .core import Case, Generator, Rng, Verdict, attempt, judge

SECONDS = 20.0
"""Of a processor, after which an argument would better have been refused."""


class Anything:
    """An object of no use."""

    def __repr__(self) -> str:
        return "Anything()"


ODD: list[Any] = [
    None, True, -1, 0, 1.5, -0.5, 1e300, 2**70, -(2**70), float("nan"), float("inf"), "a", "", b"abc",
    [], [1, 2], (), {}, {"a": 1}, [[1], [2, 3]], [["a", "b", "c"]], np.array(["1", "2"]), np.zeros((0, 3)),
    np.ones(3) + 1j, np.array([None, 1]), Anything(), Anything, len, 3 + 4j, np.float32(2), np.int8(-3),
    np.array(5), pd.Series([1.0, None]), pd.NaT, Path("none"), 20000, range(3),
]  # fmt: skip


@cache
def _world() -> dict[str, Any]:
    """What functions are called on."""
    rng = np.random.default_rng(0)
    folder = Path(tempfile.mkdtemp(prefix="sudare-differential-"))
    X, y = rng.normal(size=(40, 3)), np.arange(40) % 2
    keys = search.plan(8, 3, insecure_log_n=11).make_keys(folder / "keys")
    search.Index.build(folder / "index", keys.secret, X[:6])
    answer = search.Server(keys.evaluation).compute(keys.secret.encrypt(X[0]), folder / "index")
    network = nn.Network.dense([(np.eye(3), np.zeros(3))])
    network.save(folder / "m.json")
    (folder / "M.ONNX").write_bytes(b"\x08\xa8\xff")
    (folder / "m.pb").write_bytes(b"\x08\xa8\xff")
    ctx = sudare.Context(2, mode="simulate")
    real = sudare.Context(1)
    integers = sudare.IntegerContext.preset("toy-n8")
    return {
        "folder": folder,
        "X": X,
        "y": y,
        "search": keys,
        "scores": keys.secret.decrypt(answer),
        "network": network,
        "plan": nn.plan(network, 2, calibration=X),
        "ctx": ctx,
        "real": real,
        "integers": integers,
        "x": ctx.encrypt(X),
        "i": integers.encrypt([[1, 2], [3, 4]]),
        "model": LogisticRegression(mode="simulate", random_state=1).fit(X, y),
        "frame": pd.DataFrame(X, columns=["a", "b", "c"]),
        "summary": stats.run(X),
    }


CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "Context": (lambda w, **o: sudare.Context(mode="simulate", **o), {"depth": 1}),
    "Context.mode": (lambda w, **o: sudare.Context(1, **o), {"mode": "simulate"}),
    "Context.preset": (
        lambda w, **o: sudare.Context.preset(mode="simulate", **o),
        {"name": "n13", "insecure_log_n": 10},
    ),
    "Context.for_program": (
        lambda w, **o: sudare.Context.for_program(mode="simulate", **o),
        {"program": lambda x: x * x, "shapes": [(3,)], "share_bits": None},
    ),
    "Context.encrypt": (lambda w, **o: w["ctx"].encrypt(**o), {"values": [1.0]}),
    "Context.decrypt": (lambda w, **o: w["ctx"].decrypt(**o), {"array": None}),
    "Context.attach": (lambda w, **o: w["real"].attach(**o), {"array": None}),
    "Context.load": (lambda w, **o: w["real"].load(**o), {"path": "none.ct"}),
    "Context.explain": (
        lambda w, **o: w["ctx"].explain(**o),
        {"program": lambda x: x + 1, "shapes": [(2,)]},
    ),
    "EncryptedArray.from_bytes": (lambda w, **o: sudare.EncryptedArray.from_bytes(**o), {"data": b""}),
    "sum": (lambda w, **o: w["x"].sum(**o), {"axis": 0, "keepdims": False}),
    "var": (lambda w, **o: w["x"].var(**o), {"axis": 0, "ddof": 0, "keepdims": False}),
    "reshape": (lambda w, shape: w["x"].reshape(shape), {"shape": (120,)}),
    "transpose": (lambda w, axes: w["x"].transpose(axes), {"axes": (1, 0)}),
    "index": (lambda w, key: w["x"][key], {"key": 0}),
    "plus": (lambda w, other: w["x"] + other, {"other": 1}),
    "times": (lambda w, other: other * w["x"], {"other": 1}),
    "power": (lambda w, exponent: w["x"] ** exponent, {"exponent": 2}),
    "divide": (lambda w, other: w["x"] / other, {"other": 2}),
    "matmul": (lambda w, other: w["x"] @ other, {"other": np.ones(3)}),
    "functions.sigmoid": (
        lambda w, **o: functions.sigmoid(**o),
        {"interval": (-1, 1), "degree": 3, "precision_bits": 8},
    ),
    "functions.sign": (
        lambda w, **o: functions.sign(**o),
        {"interval": (-1, 1), "gap": 0.1, "degree": None, "precision_bits": 8},
    ),
    "functions.log": (lambda w, **o: functions.log(**o), {"interval": (0.5, 1)}),
    "function call": (lambda w, x: functions.tanh((-4, 4), degree=3)(x), {"x": None}),
    "in_the_clear": (lambda w, x: functions.tanh((-4, 4), degree=3).in_the_clear(x), {"x": 1.0}),
    "IntegerContext": (lambda w, **o: sudare.IntegerContext(**o), {"t": 257, "depth": 1, "scheme": "bgv"}),
    "IntegerContext.preset": (
        lambda w, **o: sudare.IntegerContext.preset(**o),
        {"name": "toy-n8", "scheme": "bgv", "insecure_log_n": None},
    ),
    "IntegerContext.encrypt": (lambda w, **o: w["integers"].encrypt(**o), {"values": [1]}),
    "integers plus": (lambda w, other: w["i"] + other, {"other": 1}),
    "integers power": (lambda w, exponent: w["i"] ** exponent, {"exponent": 2}),
    "integers polynomial": (lambda w, c: w["i"].polynomial(c), {"c": [1, 2]}),
    "integers rotate": (lambda w, k: w["i"].rotate(k), {"k": 1}),
    "integers matmul": (lambda w, other: other @ w["i"], {"other": np.ones((2, 2), int)}),
    "stats.plan": (
        lambda w, **o: stats.plan(**o),
        {"table": (5, 2), "what": "summary", "by": None, "groups": None, "bins": None, "share_bits": None},
    ),
    "stats.run": (lambda w, **o: stats.run(**o), {"table": [[1.0]], "what": "summary", "by": None}),
    "weighted_mean": (lambda w, **o: w["summary"].weighted_mean(**o), {"weights": "x0"}),
    "least_squares": (lambda w, **o: w["summary"].least_squares(**o), {"target": "x0"}),
    "t_test": (lambda w, **o: w["summary"].t_test(**o), {"a": "x0", "b": "x1"}),
    "fit": (
        lambda w, **o: LogisticRegression(mode="simulate").fit(**o),
        {"X": np.random.default_rng(0).normal(size=(40, 3)), "y": np.arange(40) % 2},
    ),
    "LogisticRegression": (
        lambda w, **o: LogisticRegression(mode="simulate", **o).fit(w["X"], w["y"]),
        {
            "preparation": "whiten", "C": 1.0, "alpha": None, "max_iter": 2, "batch_size": None,
            "learning_rate": None, "rate": None, "class_weight": None, "sigmoid_degree": None,
            "sigmoid_range": None, "missing": "refuse", "unseen": "refuse", "random_state": None,
            "workers": None, "share_bits": None, "insecure_log_n": None,
        },
    ),
    "predict": (lambda w, **o: w["model"].predict(**o), {"X": np.zeros((1, 3))}),
    "score": (lambda w, **o: w["model"].score(**o), {"X": np.zeros((2, 3)), "y": [0, 1]}),
    "LogisticRegression.open": (lambda w, **o: LogisticRegression.open(**o), {"path": "none.json"}),
    "LogisticRegression.plan": (
        lambda w, n_rows, n_features, n_classes: LogisticRegression().plan(n_rows, n_features, n_classes=n_classes),
        {"n_rows": 10, "n_features": 2, "n_classes": 2},
    ),
    "Ridge": (lambda w, **o: sudare.Ridge(mode="simulate", **o).fit(w["X"], w["y"]), {"alpha": 1.0, "share_bits": None}),
    "scoring.plan": (lambda w, n_rows: scoring.plan(n_rows, 3), {"n_rows": 2}),
    "search.plan": (
        lambda w, **o: search.plan(insecure_log_n=11, **o),
        {"rows": 8, "dimension": 3, "metric": "cosine", "largest": None, "mode": "encrypted", "answer": "matches", "at": 0.5, "margin": 0.2, "most": 4, "payload": "rows"},
    ),
    "search.query": (lambda w, vector: w["search"].secret.encrypt(vector), {"vector": np.ones(3)}),
    "search.build": (
        lambda w, vectors: search.Index.build(Path(tempfile.mkdtemp(dir=w["folder"])) / "j", w["search"].secret, vectors),
        {"vectors": np.ones((2, 3))},
    ),
    "search.read": (lambda w, answer: w["search"].secret.decrypt(answer), {"answer": b""}),
    "search.Server": (lambda w, path: search.Server(path), {"path": "none.key"}),
    "top_k": (lambda w, k: w["scores"].top_k(k), {"k": 2}),
    "Network.load": (lambda w, path: nn.Network.load(path), {"path": "none.onnx"}),
    "Network.load of its files": (
        lambda w, name: nn.Network.load(w["folder"] / str(name)),
        {"name": "M.ONNX"},
    ),
    "Network.dense": (lambda w, **o: nn.Network.dense(**o), {"layers": [(np.eye(2), np.zeros(2))], "activation": "square"}),
    "Network.describe": (lambda w, **o: nn.Network.describe(**o), {"input_shape": [3], "layers": ["flatten"]}),
    "predict of a network": (lambda w, samples: w["network"].predict(samples), {"samples": np.ones((1, 3))}),
    "nn.plan": (
        lambda w, **o: nn.plan(w["network"], **o),
        {"batch": 2, "calibration": np.ones((2, 3)), "ranges": None, "margin": 1.25, "packing": None, "precision_bits": 8.0},
    ),
    "simulate of a network": (lambda w, samples: w["plan"].simulate(samples), {"samples": np.ones((1, 3))}),
}


def _duplicates(w: dict[str, Any], kind: str) -> Any:
    columns = list(w["X"].T)
    table = pa.table(columns, names=["a", "b", "a"]) if kind == "pyarrow" else pd.DataFrame(w["X"], columns=["a", "b", "a"])
    return LogisticRegression(mode="simulate").fit(table, w["y"])


CALLS["frame with two columns of a name"] = (_duplicates, {"kind": "pandas"})


@dataclass(frozen=True)
class CallCase(Case):
    """A call with one argument that may be none."""

    name: str
    argument: str
    value: Any

    def describe(self) -> str:
        return f"{self.name} with {self.argument}={self.value!r}"

    def run(self, *, execute: bool) -> Verdict:
        call, usual = CALLS[self.name]
        given = {**usual, self.argument: self.value}
        world = _world()
        start = time.process_time()
        found = attempt(lambda: call(world, **given))
        taken = time.process_time() - start
        if found.foreign and not _expected(found.error, self.value):
            return judge({self.name: found}, {})
        if taken > SECONDS:
            return Verdict("finding", "takes long", f"{taken:.0f} s")
        if found.error is not None:
            return Verdict("refused", type(found.error).__name__, str(found.error))
        return Verdict("right", "right")


PLAUSIBLE = (int, float, str, list, tuple, np.ndarray, np.generic, pd.Series)
"""Types of values that users give by mistake. Others may fail as Python has it."""

PYTHON = (
    "keyword argument",
    "positional argument",
    "os.PathLike",
)


def _expected(error: BaseException | None, value: object) -> bool:
    """Errors that Python itself raises before anything of sudare runs, or that pages promise."""
    text = str(error)
    if isinstance(error, FileNotFoundError | FileExistsError | IsADirectoryError | NotADirectoryError):
        return True
    if not isinstance(error, TypeError):
        return False
    usual = value is None or isinstance(value, PLAUSIBLE)
    return not usual or any(part in text for part in PYTHON)


PAIRS = [(name, argument) for name, (_, usual) in CALLS.items() for argument in usual]
VALUES = [*ODD, "M.ONNX", "m.pb", "pyarrow", "pandas"]

NAMED = [
    ("Context.preset", "name"), ("Context.for_program", "program"), ("Context.for_program", "shapes"),
    ("functions.sign", "gap"), ("functions.sign", "interval"), ("functions.sigmoid", "precision_bits"),
    ("EncryptedArray.from_bytes", "data"), ("plus", "other"), ("times", "other"), ("power", "exponent"),
    ("Context.encrypt", "values"), ("IntegerContext.encrypt", "values"), ("IntegerContext", "t"),
    ("fit", "X"), ("fit", "y"), ("stats.run", "table"), ("nn.plan", "batch"), ("nn.plan", "precision_bits"),
    ("predict of a network", "samples"), ("Network.load of its files", "name"),
    ("search.build", "vectors"), ("search.query", "vector"), ("top_k", "k"),
    ("frame with two columns of a name", "kind"),
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
