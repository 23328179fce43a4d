"""Networks from ONNX models, against onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from sudare import nn

Floats = npt.NDArray[np.float64]


class Graph:
    """A model from `x` that grows node by node."""

    def __init__(self, shape: tuple[int, ...], seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.shape = shape
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.last = "x"

    def constant(self, *shape: int, spread: float = 1.0, around: float = 0.0) -> str:
        """Random numbers, of a model's size: their squares sum to about `spread` a row."""
        inputs = int(np.prod(shape[1:])) if len(shape) > 1 else 1
        values = around + spread * self.rng.uniform(-1, 1, shape) / np.sqrt(inputs / 3)
        return self.given(values.astype(np.float32))

    def given(self, values: npt.ArrayLike) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """A node of what the last one gave, or of these inputs."""
        output = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [output], **attributes))
        self.last = output
        return output

    def gemm(self, inputs: int, outputs: int, **attributes: Any) -> str:
        rows = attributes.get("transB", 0)
        shape = (outputs, inputs) if rows else (inputs, outputs)
        values = self.rng.uniform(-1, 1, shape) / np.sqrt(inputs / 3)
        weights = self.given(values.astype(np.float32))
        return self.node("Gemm", self.last, weights, self.constant(outputs), **attributes)

    def save(self, path: Path) -> None:
        ends = [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", *self.shape]),
            helper.make_tensor_value_info(self.last, TensorProto.FLOAT, ["batch", "n"]),
        ]
        graph = helper.make_graph(self.nodes, "graph", ends[:1], ends[1:], self.constants)
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9
        )
        onnx.checker.check_model(model)
        onnx.save(model, path)

    def samples(self, count: int) -> npt.NDArray[np.float32]:
        return self.rng.uniform(-1, 1, (count, *self.shape)).astype(np.float32)


def theirs(path: Path, samples: npt.NDArray[np.float32]) -> Floats:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (results,) = session.run(None, {"x": samples})
    return np.asarray(results, dtype=np.float64).reshape(len(samples), -1)


def general_products(seed: int) -> Graph:
    graph = Graph((9,), seed)
    graph.node("MatMul", graph.last, graph.given(graph.rng.normal(size=(9, 7)).astype(np.float32) / 3))
    graph.node("Add", graph.constant(7), graph.last)
    graph.node("Sigmoid", graph.last)
    graph.gemm(7, 6, transB=1, alpha=0.5, beta=2.0)
    graph.node("Tanh", graph.last)
    graph.node("Identity", graph.last)
    graph.gemm(6, 3)
    return graph


def images(seed: int) -> Graph:
    graph = Graph((2, 6, 5), seed)
    kernels, bias = graph.constant(4, 2, 3, 2), graph.constant(4)
    graph.node("Conv", graph.last, kernels, bias, pads=[1, 0, 1, 1], strides=[1, 2])
    parts = [graph.constant(4, around=2.0), graph.constant(4), graph.constant(4)]
    variance = graph.constant(4, around=2.0, spread=0.5)
    graph.node("BatchNormalization", graph.last, *parts, variance, epsilon=1e-3)
    graph.node("Mul", graph.last, graph.last)
    graph.node("AveragePool", graph.last, kernel_shape=[2, 1], strides=[2, 1])
    graph.node("Flatten", graph.last)
    graph.gemm(4 * 3 * 3, 5)
    graph.node("Pow", graph.last, graph.given(np.float32(2.0)))
    graph.gemm(5, 3, transB=1)
    return graph


def globally_pooled(seed: int) -> Graph:
    graph = Graph((1, 5, 5), seed)
    graph.node("Conv", graph.last, graph.constant(3, 1, 2, 2))
    graph.node("Relu", graph.last)
    graph.node("Conv", graph.last, graph.constant(4, 3, 2, 2), graph.constant(4), strides=[2, 2])
    graph.node("Gelu", graph.last)
    graph.node("GlobalAveragePool", graph.last)
    graph.node("Reshape", graph.last, graph.given(np.array([-1, 4], dtype=np.int64)))
    graph.gemm(4, 2)
    return graph


def with_constants(seed: int) -> Graph:
    graph = Graph((6,), seed)
    graph.node("Sub", graph.constant(6), graph.last)
    graph.node("Div", graph.last, graph.constant(1, around=3.0))
    graph.node("Mul", graph.constant(6, around=2.0), graph.last)
    graph.gemm(6, 5)
    graph.node("Pow", graph.last, graph.given(np.float32(2.0)))
    graph.node("Sub", graph.last, graph.constant(1))
    graph.gemm(5, 4)
    return graph


def residual(seed: int) -> Graph:
    """Blocks with an identity, with a convolution of a larger stride, and of dense layers."""
    graph = Graph((2, 6, 5), seed)
    graph.node("Conv", graph.last, graph.constant(3, 2, 3, 3), pads=[1, 1, 1, 1])
    graph.node("Pow", graph.last, graph.given(np.float32(2.0)))
    graph.node("Conv", graph.last, graph.constant(2, 3, 3, 3), pads=[1, 1, 1, 1])
    block = graph.node("Add", "x", graph.last)
    graph.node("Mul", graph.last, graph.last)
    graph.node("Conv", graph.last, graph.constant(4, 2, 2, 2), graph.constant(4), strides=[2, 2])
    branch = graph.last
    graph.node("Conv", block, graph.constant(4, 2, 2, 1), strides=[2, 2])
    graph.node("BatchNormalization", graph.last, *[graph.constant(4, around=2.0) for _ in range(4)])
    graph.node("AveragePool", graph.last, kernel_shape=[1, 2])
    graph.node("Add", graph.last, graph.node("AveragePool", branch, kernel_shape=[1, 1]))
    graph.node("Flatten", graph.last)
    start = graph.last
    graph.gemm(24, 5)
    graph.node("Pow", graph.last, graph.given(np.float32(2.0)))
    graph.gemm(5, 24)
    graph.node("Add", graph.last, start)
    graph.gemm(24, 3)
    return graph


MODELS = (general_products, images, globally_pooled, with_constants, residual)


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("seed", range(4))
def test_models_compute_what_onnxruntime_does(tmp_path: Path, make: Any, seed: int) -> None:
    graph, path = make(seed), tmp_path / "model.onnx"
    graph.save(path)
    samples = graph.samples(20)
    network = nn.Network.load(path)
    assert network.input_shape == graph.shape
    expected = theirs(path, samples)
    # Theirs are of single precision, and sums of large numbers may be small.
    atol = 2e-6 * max(np.abs(expected).max(), 1.0)
    np.testing.assert_allclose(network.predict(samples), expected, atol=atol, rtol=1e-5)


# Of many samples, the largest takes as long as the others together.
ENCRYPTED = [
    pytest.param(make, batch, marks=pytest.mark.slow if (make, batch) == (globally_pooled, 6) else ())
    for make in MODELS
    for batch in (1, 6)
]


@pytest.mark.parametrize(("make", "batch"), ENCRYPTED)
def test_encrypted_models_are_within_what_is_planned(tmp_path: Path, make: Any, batch: int) -> None:
    graph, path = make(7), tmp_path / "model.onnx"
    graph.save(path)
    samples = graph.samples(200)
    network = nn.Network.load(path, degree=15)
    plan = nn.plan(network, batch, calibration=samples, precision_bits=12.0)
    some = samples[:batch]
    results, clear = plan.execute(some), plan.simulate(some[: plan.samples_per_run]).results
    # Encryption adds what the plan says, the polynomials of activations what they are off by.
    assert np.abs(results[: len(clear)] - clear).max() < 6 * plan.explain().error
    squares = make in (images, with_constants, residual)
    expected = theirs(path, some)
    scale = np.abs(expected).max()
    assert np.abs(results - expected).max() < (0.002 if squares else 0.05) * max(scale, 1.0)
