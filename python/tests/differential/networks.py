"""Compares random networks with onnxruntime and NumPy."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from sudare import nn

from .core import Case, Expected, Generator, Outcome, Rng, Verdict, attempt, judge
from .values import Floats, ordered

onnxruntime.set_default_logger_severity(4)

SAMPLES = 3


class Graph:
    """An ONNX model that grows node by node while onnxruntime accepts it."""

    def __init__(self, rng: Rng, shape: tuple[int, ...]) -> None:
        self.rng = rng
        self.input = shape
        self.fixed = bool(rng.random() < 0.3)
        """Whether the model is for one number of samples only."""
        self.opset = int(rng.choice([13, 15, 17, 20]))
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.names = 0
        self.last = "x"
        self.shape: tuple[int, ...] = (SAMPLES, *shape)
        self.tensors: list[tuple[str, tuple[int, ...]]] = [("x", self.shape)]
        self.said: list[str] = []

    def name(self) -> str:
        self.names += 1
        return f"t{self.names}"

    def constant(self, values: Any, dtype: Any = np.float32) -> str:
        """An initializer; now and then a node that computes the same."""
        name = self.name()
        array = np.asarray(values, dtype=dtype)
        self.constants.append(numpy_helper.from_array(array, name))
        kind = self.rng.random()
        if kind < 0.04:
            return self._node("Identity", [name])
        if kind < 0.06 and array.ndim == 2 and dtype == np.float32:
            self.constants[-1] = numpy_helper.from_array(np.ascontiguousarray(array.T), name)
            return self._node("Transpose", [name])
        if kind < 0.08:
            self.constants.pop()
            self.nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array)))
        return name

    def weights(self, *shape: int) -> str:
        """Random weights."""
        inputs = max(1, int(np.prod(shape[1:])))
        return self.constant(self.rng.uniform(-1, 1, shape) / np.sqrt(inputs / 3))

    def _node(self, operator: str, inputs: list[str], **attributes: Any) -> str:
        output = self.name()
        self.nodes.append(helper.make_node(operator, inputs, [output], **attributes))
        return output

    def add(self, operator: str, *inputs: str, outputs: int = 1, **attributes: Any) -> bool:
        """A node, unless onnxruntime refuses it."""
        before = (len(self.nodes), self.last, self.shape)
        self.last = self._node(operator, list(inputs), **attributes)
        self.nodes[-1].output.extend(self.name() for _ in range(outputs - 1))
        found = attempt(lambda: self.compute(np.ones((SAMPLES, *self.input), np.float32)))
        value = found.value
        small = found.error is None and 0 < value.size < 2000 and value.dtype == np.float32
        if not small or not np.isfinite(value).all():
            self.nodes, self.last, self.shape = self.nodes[: before[0]], before[1], before[2]
            return False
        self.shape = value.shape
        self.tensors.append((self.last, self.shape))
        self.said.append(f"{operator}({', '.join(inputs)}, {attributes}) -> {self.shape}")
        return True

    def model(self) -> bytes:
        batch: Any = SAMPLES if self.fixed else "batch"
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, *self.input])
        y = helper.make_tensor_value_info(self.last, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "graph", [x], [y], self.constants)
        made = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", self.opset), helper.make_opsetid("my.ops", 1)], ir_version=9
        )
        return bytes(made.SerializeToString())

    def compute(self, x: npt.NDArray[np.float32]) -> Any:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(
            self.model(), options, providers=["CPUExecutionProvider"]
        )
        return session.run(None, {"x": x})[0]


def _vector(g: Graph) -> None:
    rng, n = g.rng, g.shape[-1]
    m = int(rng.integers(1, 8))
    same = [name for name, shape in g.tensors if shape == g.shape and name != g.last]
    other = str(rng.choice(same)) if same else g.last
    shapes = [(n,), (1,), (), (1, n), (SAMPLES, 1), (n, 1), (1, 1)]
    some = shapes[int(rng.choice(len(shapes), p=[0.5, 0.12, 0.1, 0.12, 0.06, 0.05, 0.05]))]
    biases = [(m,), (1, m), (), (1,), (SAMPLES, 1), (SAMPLES, m)]
    bias = biases[int(rng.choice(len(biases), p=[0.6, 0.15, 0.05, 0.05, 0.1, 0.05]))]
    lazy: list[tuple[float, Callable[[], Any]]] = [
        (3.0, lambda: g.add("MatMul", g.last, g.weights(n, m))),
        (1.5, lambda: g.add("Gemm", g.last, g.weights(n, m), g.weights(*bias))),
        (1.0, lambda: g.add("Gemm", g.last, g.weights(m, n), g.weights(*bias), transB=1, alpha=float(rng.choice([1, 0.5])), beta=float(rng.choice([1, 2.0])))),
        (0.3, lambda: g.add("Gemm", g.last, g.weights(n, m), "")),
        (0.2, lambda: g.add("Gemm", g.last, g.weights(n, m), g.weights(m), transA=1)),
        (1.5, lambda: g.add(str(rng.choice(["Add", "Sub", "Mul"])), g.last, g.weights(*some))),
        (0.6, lambda: g.add(str(rng.choice(["Add", "Sub", "Mul"])), g.weights(*some), g.last)),
        (0.4, lambda: g.add("Div", g.last, g.constant(2.0 + rng.random(some)))),
        (0.2, lambda: g.add("Div", g.constant(1.0), g.last)),
        (0.8, lambda: g.add(str(rng.choice(["Add", "Sum", "Sub", "Mul"])), g.last, other)),
        (0.3, lambda: g.add("Sum", g.last, other, g.last)),
        (0.4, lambda: g.add("Neg", g.last)),
        (0.5, lambda: g.add("Mul", g.last, g.last)),
        (0.6, lambda: g.add("Pow", g.last, g.constant(float(rng.choice([1, 2, 2, 3, 0.5]))))),
        (0.2, lambda: g.add("Pow", g.last, g.constant(2, np.int32))),
        (0.4, lambda: g.add("BatchNormalization", g.last, *[g.constant(0.5 + rng.random(n)) for _ in range(4)], epsilon=float(rng.choice([1e-5, 1e-3, 0.1])))),
        (0.1, lambda: _training(g, n)),
        (0.5, lambda: g.add("Reshape", g.last, g.constant(_sizes(rng, n), np.int64))),
        (0.4, lambda: g.add("Flatten", g.last, axis=int(rng.integers(-1, 3)))),
        (0.3, lambda: g.add("Unsqueeze", g.last, g.constant([int(rng.integers(1, 3))], np.int64))),
        (0.2, lambda: g.add("Softmax", g.last)),
        (0.2, lambda: g.add("ReduceSum", g.last, g.constant([1], np.int64), keepdims=1)),
        (0.2, lambda: g.add("Slice", g.last, g.constant([0], np.int64), g.constant([max(1, n - 1)], np.int64), g.constant([1], np.int64))),
        (0.2, lambda: g.add("Concat", g.last, g.last, axis=1)),
        (0.2, lambda: g.add("Gather", g.last, g.constant([0], np.int64), axis=1)),
    ]
    _choose(g, [*lazy, *_any(g)])


def _sizes(rng: Rng, n: int) -> list[int]:
    options = [[-1, n], [0, -1], [0, n], [SAMPLES, n], [-1, 1, n], [1, -1], [-1, n, 1, 1]]
    if n % 3 == 0:
        options += [[-1, n // 3], [-1, 3, n // 3]]
    return options[rng.integers(len(options))]


def _image(g: Graph) -> None:
    rng, (_, c, h, w) = g.rng, g.shape
    k = (int(rng.integers(1, min(h, 3) + 1)), int(rng.integers(1, min(w, 3) + 1)))
    m = int(rng.integers(1, 4))
    pool: dict[str, Any] = {"kernel_shape": list(k)}
    if rng.random() < 0.7:
        pool["strides"] = [int(n) for n in rng.integers(1, 3, 2)]
    if rng.random() < 0.2:
        pool["pads"] = [int(n) for n in rng.integers(0, 2, 4)]
    if rng.random() < 0.15:
        pool["ceil_mode"] = 1
    if rng.random() < 0.15:
        pool["count_include_pad"] = 1
    if rng.random() < 0.1 and "pads" not in pool:
        pool["auto_pad"] = str(rng.choice(["SAME_UPPER", "SAME_LOWER", "VALID"]))
    conv: dict[str, Any] = {}
    if rng.random() < 0.5:
        conv["strides"] = [int(n) for n in rng.integers(1, 3, 2)]
    if rng.random() < 0.4:
        conv["pads"] = [int(n) for n in rng.integers(0, 2, 4)]
    elif rng.random() < 0.2:
        conv["auto_pad"] = str(rng.choice(["SAME_UPPER", "SAME_LOWER", "VALID"]))
    if rng.random() < 0.1:
        conv["dilations"] = [int(n) for n in rng.integers(1, 3, 2)]
    depthwise = c > 1 and rng.random() < 0.15
    inputs = 1 if depthwise else c
    kernels = (c * m if depthwise else m, inputs, *k)
    if depthwise:
        conv["group"] = c
    bias = [g.weights(kernels[0])] if rng.random() < 0.5 else []
    shapes = [(c, 1, 1), (1, c, 1, 1), (SAMPLES, 1, 1, 1), (1,), (h, w), (c, h, w)]
    some = shapes[int(rng.choice(len(shapes), p=[0.4, 0.2, 0.1, 0.1, 0.1, 0.1]))]
    same = [name for name, shape in g.tensors if shape == g.shape and name != g.last]
    other = str(rng.choice(same)) if same else g.last
    norm: dict[str, Any] = {"epsilon": float(rng.choice([1e-5, 1e-3]))}
    axes = [2, 3] if rng.random() < 0.8 else [3]
    reduce: Callable[[], Any] = (
        (lambda: g.add("ReduceMean", g.last, g.constant(axes, np.int64), keepdims=int(rng.integers(0, 2))))
        if g.opset >= 18
        else (lambda: g.add("ReduceMean", g.last, axes=axes, keepdims=int(rng.integers(0, 2))))
    )
    lazy: list[tuple[float, Callable[[], Any]]] = [
        (3.0, lambda: g.add("Conv", g.last, g.weights(*kernels), *bias, **conv)),
        (1.0, lambda: g.add("AveragePool", g.last, **pool)),
        (0.2, lambda: g.add("MaxPool", g.last, kernel_shape=list(k))),
        (0.5, lambda: g.add("GlobalAveragePool", g.last)),
        (0.5, reduce),
        (0.8, lambda: g.add("BatchNormalization", g.last, *[g.constant(0.5 + rng.random(c)) for _ in range(4)], **norm)),
        (0.2, lambda: _training(g, c)),
        (1.0, lambda: g.add(str(rng.choice(["Add", "Mul", "Sub"])), g.last, g.weights(*some))),
        (0.6, lambda: g.add(str(rng.choice(["Add", "Sum", "Sub"])), g.last, other)),
        (0.5, lambda: g.add("Mul", g.last, g.last)),
        (1.5, lambda: g.add("Flatten", g.last, axis=int(rng.choice([1, 1, 1, -3, 0, 2])))),
        (0.8, lambda: g.add("Reshape", g.last, g.constant([[0, -1], [-1, c * h * w], [SAMPLES, -1], [-1, c, h * w], [-1, h * w]][rng.integers(5)], np.int64))),
        (0.3, lambda: g.add("Transpose", g.last, perm=[[0, 1, 2, 3], [0, 2, 3, 1], [0, 1, 3, 2]][rng.integers(3)])),
        (0.3, lambda: _view(g)),
        (0.2, lambda: g.add("Squeeze", g.last)),
    ]
    _choose(g, [*lazy, *_any(g)])


def _training(g: Graph, channels: int) -> None:
    """Normalisation by the samples themselves, with two results more."""
    inputs = [g.last, *[g.constant(0.5 + g.rng.random(channels)) for _ in range(4)]]
    g.add("BatchNormalization", *inputs, outputs=3, training_mode=1)


def _view(g: Graph) -> None:
    """`x.view(x.size(0), -1)` as exporters write it."""
    sizes = g._node("Shape", [g.last])
    first = g._node("Gather", [sizes, g.constant(0, np.int64)])
    axis = g._node("Unsqueeze", [first, g.constant([0], np.int64)])
    both = g._node("Concat", [axis, g.constant([-1], np.int64)], axis=0)
    g.add("Reshape", g.last, both)


def _any(g: Graph) -> list[tuple[float, Callable[[], Any]]]:
    """Nodes for tensors of any shape."""
    rng = g.rng
    found: list[tuple[float, Callable[[], Any]]] = [
        (2.0, lambda: g.add(str(rng.choice(["Relu", "Sigmoid", "Tanh"])), g.last)),
        (0.3, lambda: g.add("Identity", g.last)),
        (0.3, lambda: g.add("Cast", g.last, to=TensorProto.FLOAT)),
        (0.2, lambda: g.add("Dropout", g.last)),
        (0.2, lambda: g.add(str(rng.choice(["LeakyRelu", "Elu", "Abs", "Exp", "HardSigmoid", "Softplus", "Selu", "Erf", "Sqrt"])), g.last)),
        (0.1, lambda: g.add("Clip", g.last, g.constant(-1.0), g.constant(1.0))),
    ]
    if g.opset >= 20:
        found.append((0.5, lambda: g.add("Gelu", g.last, approximate=str(rng.choice(["none", "tanh"])))))
    return found


def _choose(g: Graph, lazy: list[tuple[float, Callable[[], Any]]]) -> None:
    weights = np.array([weight for weight, _ in lazy])
    lazy[int(g.rng.choice(len(lazy), p=weights / weights.sum()))][1]()


@dataclass(frozen=True)
class OnnxCase(Case):
    """A model that `Network.load` reads or refuses."""

    model: bytes
    said: tuple[str, ...]
    x: npt.NDArray[np.float32]
    needed: npt.NDArray[np.float32] | None
    """`None` where onnxruntime does not know the operators."""

    def describe(self) -> str:
        return "\n".join([f"x of shape {self.x.shape}", *self.said])

    def run(self, *, execute: bool) -> Verdict:
        found = attempt(self._found)
        if self.needed is None or self.needed.shape[:1] != (SAMPLES,):
            # Its result differs for other numbers of samples.
            return judge({"predict": found}, None)
        right = self.needed.reshape(SAMPLES, -1).astype(np.float64)
        tolerance = 1e-4 * max(1.0, float(np.abs(right).max()))
        return judge({"predict": found}, {"predict": Expected(right, tolerance)})

    def _found(self) -> Floats:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "m.onnx"
            path.write_bytes(self.model)
            return nn.Network.load(path).predict(self.x)


def draw_onnx(rng: Rng) -> Case:
    """A model."""
    image = rng.random() < 0.5
    shape = tuple(int(n) for n in rng.integers(1, 5, 3)) if image else (int(rng.integers(1, 10)),)
    g = Graph(rng, shape)
    for _ in range(int(rng.integers(1, 7))):
        if len(g.shape) == 4:
            _image(g)
        elif len(g.shape) == 2:
            _vector(g)
        else:
            _choose(g, [(1.0, lambda: g.add("Flatten", g.last)), *_any(g)])
    if not g.said:
        g.add("Relu", "x")
    x = rng.uniform(-1, 1, (SAMPLES, *shape)).astype(np.float32)
    if rng.random() < 0.03:
        # The same name in another domain is another operator.
        other = rng.integers(len(g.nodes))
        g.nodes[other].domain = "my.ops"
        g.said.append(f"node {other} of the domain my.ops")
        return OnnxCase(g.model(), tuple(g.said), x, None)
    return OnnxCase(g.model(), tuple(g.said), x, np.asarray(g.compute(x)))


@dataclass(frozen=True)
class NetworkCase(Case):
    """A network of dense layers or convolutions, on samples as users have them."""

    sizes: tuple[int, ...]
    shape: tuple[int, ...]
    activation: str
    degree: int
    seed: int
    samples: Any
    plain: Floats | None
    """The samples as rows of the input's shape, `None` if they are invalid."""
    what: str
    batch: int
    packing: Any
    hidden: bool

    def describe(self) -> str:
        return (
            f"network of input {self.shape}, layers {self.sizes}, {self.activation} of degree {self.degree}, "
            f"seed {self.seed}, samples {self.what} of shape {np.shape(self.samples)}, batch {self.batch}, "
            f"packing {self.packing}, hidden {self.hidden}"
        )

    def network(self) -> tuple[nn.Network, Callable[[Floats], Floats]]:
        """The network, and the same by NumPy."""
        rng = np.random.default_rng(self.seed)
        layers: list[Any] = []
        steps: list[Callable[[Floats], Floats]] = []
        features = int(np.prod(self.shape))
        if len(self.shape) == 3:
            c, h, w = self.shape
            kernels, bias = rng.normal(size=(2, c, 2, 2)) / np.sqrt(4 * c), rng.normal(size=2) / 4
            layers += [{"convolution": {"kernels": kernels, "bias": bias, "stride": [1, 1], "padding": [0] * 4}}, "flatten"]

            def convolve(x: Floats, kernels: Floats = kernels, bias: Floats = bias) -> Floats:
                out = np.zeros((len(x), 2, h - 1, w - 1))
                for i in range(2):
                    for j in range(2):
                        part = x[:, :, i : i + h - 1, j : j + w - 1]
                        out += np.einsum("ncyx,oc->noyx", part, kernels[:, :, i, j])
                return (out + bias[:, None, None]).reshape(len(x), -1)

            steps.append(convolve)
            features = 2 * (h - 1) * (w - 1)
        for i, size in enumerate(self.sizes):
            weights, bias = rng.normal(size=(size, features)) / np.sqrt(features), rng.normal(size=size) / 4
            if i or len(self.shape) == 3:
                layers.append({"activation": "square" if self.activation == "square" else {self.activation: {"degree": self.degree}}})
                steps.append(ACTIVATIONS[self.activation])
            layers.append({"dense": {"weights": weights, "bias": bias}})
            steps.append(lambda x, weights=weights, bias=bias: x @ weights.T + bias)  # type: ignore[misc]
            features = size

        def clear(x: Floats) -> Floats:
            for step in steps:
                x = step(x)
            return x

        return nn.Network.describe(list(self.shape), layers), clear

    def run(self, *, execute: bool) -> Verdict:
        network, clear = self.network()
        ways = {"predict": attempt(lambda: network.predict(self.samples))}
        ways["calibrate"] = attempt(lambda: nn.plan(network, 1, calibration=self.samples) and 0)
        if self.plain is None:
            for way, outcome in ways.items():
                verdict = judge({way: outcome}, None)
                if verdict.kind == "finding":
                    return verdict
            return verdict
        right = clear(self.plain)
        expected = {"predict": Expected(right, 1e-9 * max(1.0, float(np.abs(right).max())))}
        verdict = judge({"predict": ways["predict"]}, expected, must="samples have the shape of the input" if self.what in PLAIN else None)
        if verdict.kind != "right":
            return verdict
        return self._planned(network, right, execute=execute)

    def _planned(self, network: nn.Network, right: Floats, *, execute: bool) -> Verdict:
        """In simulation and encrypted."""
        if self.hidden:
            made: Any = attempt(lambda: nn.plan_hidden(network, calibration=self.samples, precision_bits=12))
        else:
            made = attempt(
                lambda: nn.plan(network, self.batch, calibration=self.samples, packing=self.packing, precision_bits=12)
            )
        if made.error is not None:
            return judge({"plan": made}, {})
        plan = made.value
        some = self.samples if self.hidden else self.samples[: plan.samples_per_run]
        scale = max(1.0, float(np.abs(right).max()))
        # Polynomials of activations are rough, the more so the smaller their degrees.
        rough = {3: 0.6, 7: 0.25, 15: 0.12}[self.degree] * len(self.sizes) * scale
        if self.activation == "square":
            rough = 1e-6 * scale
        ways: dict[str, Outcome] = {}
        expected = {}
        if self.hidden:
            ways["simulate"] = attempt(lambda: plan.simulate(network, some))
            error = 0.01 * scale
        else:
            ways["simulate"] = attempt(lambda: plan.simulate(some).results)
            explained = attempt(plan.explain)
            if explained.error is not None:
                return judge({"explain": explained}, {})
            error = 64 * explained.value.error
        expected["simulate"] = Expected(right[: len(some)], rough)
        if execute:
            run = (lambda: plan.execute(network, some)) if self.hidden else (lambda: plan.execute(some))
            ways["execute"] = attempt(run)
            expected["execute"] = Expected(right[: len(some)], rough + error)
        return judge(ways, expected)

    def smaller(self) -> Iterator[Case]:
        if len(self.sizes) > 1:
            yield replace(self, sizes=self.sizes[1:])
        if self.batch > 1:
            yield replace(self, batch=1, packing=None)


PLAIN = ("rows", "in the shape of the input", "rows in another order of memory", "list", "float32")

ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "square": lambda x: x * x,
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
}


def draw_network(rng: Rng) -> Case:
    """A network."""
    shape: tuple[int, ...] = (int(rng.integers(1, 8)),)
    if rng.random() < 0.5:
        shape = (int(rng.integers(1, 4)), int(rng.integers(2, 6)), int(rng.integers(2, 6)))
    sizes = tuple(int(n) for n in rng.integers(1, 8, int(rng.integers(1, 4))))
    count = int(rng.integers(1, 10))
    x = rng.uniform(-1, 1, (count, *shape))
    rows = x.reshape(count, -1)
    options: list[tuple[str, Any, Floats | None]] = [
        ("rows", rows, x),
        ("in the shape of the input", x, x),
        ("rows in another order of memory", ordered(rng, rows), x),
        ("list", x.tolist(), x),
        ("float32", x.astype(np.float32), x.astype(np.float32).astype(np.float64)),
        ("whole numbers", np.round(x).astype(int), np.round(x)),
        ("complex", x + 2j, None),
        ("text", x.astype(str), None),
        ("objects", x.astype(object), x),
        ("one sample without its axis", x[0], None),
    ]
    if len(shape) == 3:
        last = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
        same = last.shape == x.shape
        options += [
            ("channels last", last, last if same else None),
            ("rows of images", x.reshape(count, shape[0], -1), None),
            ("images in two axes", x.transpose(0, 1, 3, 2), x.transpose(0, 1, 3, 2) if shape[1] == shape[2] else None),
        ]
    else:
        options.append(("a further axis", x[:, :, None], None))
    what, samples, plain = options[rng.integers(len(options))]
    if what == "one sample without its axis" and shape[0] == 1 and len(shape) == 3:
        # It looks like a sample of an image in two axes.
        what, samples, plain = "rows", rows, x
    packing = str(rng.choice(["features", "sample", ""])) or None
    return NetworkCase(
        sizes,
        shape,
        str(rng.choice(list(ACTIVATIONS))),
        int(rng.choice([3, 7, 15])),
        int(rng.integers(1000)),
        samples,
        plain,
        what,
        int(rng.integers(1, 9)),
        packing,
        bool(rng.random() < 0.2),
    )


GENERATORS = [
    Generator(
        "onnx",
        draw_onnx,
        ("attributes, inputs and axes of models that are not looked at", "patterns of exporters"),
        share=0.4,
    ),
    Generator(
        "networks",
        draw_network,
        ("samples of another shape", "imaginary parts", "errors of other packages"),
        executed_every=20,
        share=0.3,
    ),
]
