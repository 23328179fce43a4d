"""Networks from ONNX models, against onnxruntime."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from sudare import errors, nn

Floats = npt.NDArray[np.float64]
SILENCE = onnxruntime.SessionOptions()
SILENCE.log_severity_level = 4


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
        """Adds a node on the last output, or on these inputs."""
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
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
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
    graph.node(
        "MatMul", graph.last, graph.given(graph.rng.normal(size=(9, 7)).astype(np.float32) / 3)
    )
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
    # onnxruntime uses single precision, and sums of large numbers may be small.
    atol = 2e-6 * max(np.abs(expected).max(), 1.0)
    np.testing.assert_allclose(network.predict(samples), expected, atol=atol, rtol=1e-5)


# The largest case takes as long as all others together.
ENCRYPTED = [
    pytest.param(
        make, batch, marks=pytest.mark.slow if (make, batch) == (globally_pooled, 6) else ()
    )
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
    # The plan states the error of encryption, and polynomials of activations add theirs.
    assert np.abs(results[: len(clear)] - clear).max() < 6 * plan.explain().error
    squares = make in (images, with_constants, residual)
    expected = theirs(path, some)
    scale = np.abs(expected).max()
    assert np.abs(results - expected).max() < (0.002 if squares else 0.05) * max(scale, 1.0)


N = helper.make_node
Case = tuple[tuple[int, ...], Sequence[onnx.NodeProto], dict[str, Any]]


def written(path: Path, case: Case, opset: int, batch: int | str = "batch") -> Path:
    """A model of these nodes from `x` to `y`, with constants by name."""
    shape, nodes, constants = case
    ends = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, *shape]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, None),
    ]
    tensors = [
        numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()
    ]
    graph = helper.make_graph(list(nodes), "graph", ends[:1], ends[1:], tensors)
    domains = {node.domain for node in nodes if node.domain}
    imports = [helper.make_opsetid("", opset), *[helper.make_opsetid(name, 1) for name in domains]]
    model = helper.make_model(graph, opset_imports=imports, ir_version=9)
    path.write_bytes(model.SerializeToString())
    return path


def compare(path: Path, shape: tuple[int, ...], batch: int = 5) -> None:
    samples = np.random.default_rng(8).uniform(-1, 1, (batch, *shape)).astype(np.float32)
    expected = theirs(path, samples)
    found = nn.Network.load(path).predict(samples)
    np.testing.assert_allclose(found, expected, atol=1e-5 * max(1.0, np.abs(expected).max()))


def floats(*shape: int, seed: int = 1) -> npt.NDArray[np.float32]:
    values = np.random.default_rng([seed, *shape]).normal(size=shape)
    return np.asarray(values / np.sqrt(np.prod(shape[1:])), dtype=np.float32)


def whole(*numbers: int) -> npt.NDArray[np.int64]:
    return np.array(numbers, dtype=np.int64)


K, FLAT = floats(3, 2, 3, 3), N("Flatten", ["1"], ["y"])
POOLED = [N("Flatten", ["2"], ["3"]), N("MatMul", ["3", "w"], ["y"])]

# Output of exporters, by operator version, sample shape, nodes and constants.
EXPORTED: dict[str, tuple[int, Case]] = {
    "an initializer through Identity": (
        17,
        (
            (6,),
            [N("Identity", ["b"], ["c"]), N("Gemm", ["x", "w", "c"], ["y"])],
            {"w": floats(6, 4), "b": floats(4)},
        ),
    ),
    "a transposed initializer": (
        17,
        ((6,), [N("Transpose", ["w"], ["v"]), N("MatMul", ["x", "v"], ["y"])], {"w": floats(4, 6)}),
    ),
    "kernels in the order of Keras": (
        17,
        (
            (2, 5, 5),
            [N("Transpose", ["k"], ["v"], perm=[3, 2, 0, 1]), N("Conv", ["x", "v"], ["1"]), FLAT],
            {"k": floats(3, 2, 2, 3)},
        ),
    ),
    "an initializer that is cast": (
        17,
        (
            (6,),
            [N("Cast", ["w"], ["v"], to=TensorProto.FLOAT), N("MatMul", ["x", "v"], ["y"])],
            {"w": floats(6, 4).astype(np.float64)},
        ),
    ),
    "arithmetic on constants": (
        17,
        (
            (6,),
            [
                N("Add", ["v", "e"], ["1"]),
                N("Sqrt", ["1"], ["2"]),
                N("Div", ["s", "2"], ["3"]),
                N("Neg", ["3"], ["4"]),
                N("Mul", ["x", "4"], ["y"]),
            ],
            {"v": np.abs(floats(6)), "e": np.float32(1e-3), "s": floats(6, seed=2)},
        ),
    ),
    "a shape that is computed": (
        17,
        (
            (2, 5, 5),
            [
                N("Conv", ["x", "k"], ["1"]),
                N("Shape", ["1"], ["s"]),
                N("Gather", ["s", "i"], ["n"]),
                N("Unsqueeze", ["n", "a"], ["n1"]),
                N("Concat", ["n1", "m"], ["t"], axis=0),
                N("Reshape", ["1", "t"], ["f"]),
                N("MatMul", ["f", "w"], ["y"]),
            ],
            {"k": K, "i": np.int64(0), "a": whole(0), "m": whole(-1), "w": floats(27, 2)},
        ),
    ),
    "a shape that is cut": (
        17,
        (
            (2, 5, 5),
            [
                N("Conv", ["x", "k"], ["1"]),
                N("Shape", ["1"], ["s"]),
                N("Slice", ["s", "o", "e"], ["n"]),
                N("Concat", ["n", "m"], ["t"], axis=-1),
                N("Reshape", ["1", "t"], ["y"]),
            ],
            {"k": K, "o": whole(0), "e": whole(1), "m": whole(27)},
        ),
    ),
    "a part of a shape": (
        17,
        (
            (2, 5, 5),
            [
                N("Shape", ["x"], ["s"], start=0, end=1),
                N("Concat", ["s", "m"], ["t"], axis=0),
                N("Reshape", ["x", "t"], ["y"]),
            ],
            {"m": whole(10, 5)},
        ),
    ),
    "ReduceMean with axes of its own": (
        17,
        (
            (2, 5, 5),
            [
                N("Conv", ["x", "k"], ["1"]),
                N("ReduceMean", ["1"], ["2"], axes=[2, 3], keepdims=0),
                *POOLED,
            ],
            {"k": K, "w": floats(3, 2)},
        ),
    ),
    "ReduceMean with axes as an input": (
        18,
        (
            (2, 5, 5),
            [N("Conv", ["x", "k"], ["1"]), N("ReduceMean", ["1", "a"], ["2"], keepdims=1), *POOLED],
            {"k": K, "w": floats(3, 2), "a": whole(2, 3)},
        ),
    ),
    "ReduceMean of rows": (
        18,
        ((2, 4, 5), [N("ReduceMean", ["x", "a"], ["y"], keepdims=0)], {"a": whole(-2)}),
    ),
    "ReduceMean of nothing": (
        18,
        (
            (2, 4, 5),
            [N("ReduceMean", ["x"], ["1"], noop_with_empty_axes=1), N("Relu", ["1"], ["y"])],
            {},
        ),
    ),
    "Squeeze": (
        17,
        (
            (2, 5, 5),
            [
                N("GlobalAveragePool", ["x"], ["1"]),
                N("Squeeze", ["1", "a"], ["2"]),
                N("MatMul", ["2", "w"], ["y"]),
            ],
            {"w": floats(2, 3), "a": whole(2, 3)},
        ),
    ),
    "Squeeze with axes of its own": (
        11,
        (
            (2, 5, 5),
            [
                N("GlobalAveragePool", ["x"], ["1"]),
                N("Squeeze", ["1"], ["2"], axes=[-1, 2]),
                N("MatMul", ["2", "w"], ["y"]),
            ],
            {"w": floats(2, 3)},
        ),
    ),
    "Squeeze of the only feature": (
        17,
        (
            (6,),
            [
                N("MatMul", ["x", "w"], ["1"]),
                N("Squeeze", ["1", "a"], ["2"]),
                N("Add", ["2", "b"], ["y"]),
            ],
            {"w": floats(6, 1), "a": whole(1), "b": floats(1)},
        ),
    ),
    "Unsqueeze": (
        17,
        (
            (4, 5, 1),
            [
                N("Squeeze", ["x", "l"], ["1"]),
                N("Unsqueeze", ["1", "a"], ["2"]),
                N("Conv", ["2", "k"], ["y"]),
            ],
            {"l": whole(3), "a": whole(1), "k": floats(2, 1, 2, 2)},
        ),
    ),
    "Cast of samples": (
        17,
        (
            (6,),
            [N("Cast", ["x"], ["1"], to=TensorProto.FLOAT), N("MatMul", ["1", "w"], ["y"])],
            {"w": floats(6, 4)},
        ),
    ),
    "Flatten from the end": (
        17,
        ((2, 2, 2), [N("Flatten", ["x"], ["f"], axis=-3), N("Relu", ["f"], ["y"])], {}),
    ),
    "Transpose that keeps the order": (
        17,
        ((1, 3, 4), [N("Transpose", ["x"], ["1"], perm=[0, 2, 1, 3]), FLAT], {}),
    ),
    "Transpose of channels last": (
        17,
        (
            (4, 5, 3),
            [
                N("Transpose", ["x"], ["1"], perm=[0, 3, 1, 2]),
                N("Conv", ["1", "k"], ["2"]),
                N("Transpose", ["2"], ["3"], perm=[0, 2, 3, 1]),
                N("Flatten", ["3"], ["4"]),
                N("MatMul", ["4", "w"], ["y"]),
            ],
            {"k": floats(2, 3, 2, 2), "w": floats(24, 3)},
        ),
    ),
    "Reshape to an image": (
        17,
        (
            (18,),
            [
                N("Reshape", ["x", "s"], ["1"]),
                N("Conv", ["1", "k"], ["2"]),
                N("Flatten", ["2"], ["y"]),
            ],
            {"s": whole(-1, 2, 3, 3), "k": K},
        ),
    ),
    "Reshape that copies sizes": (
        17,
        (
            (2, 3, 4),
            [
                N("Reshape", ["x", "s"], ["1"]),
                N("Relu", ["1"], ["2"]),
                N("Reshape", ["2", "t"], ["y"]),
            ],
            {"s": whole(0, 0, -1), "t": whole(0, 24)},
        ),
    ),
    "Sum of branches": (
        17,
        (
            (6,),
            [
                N("MatMul", ["x", "w"], ["1"]),
                N("Tanh", ["1"], ["2"]),
                N("Sum", ["2", "x", "b"], ["y"]),
            ],
            {"w": floats(6, 6), "b": floats(6)},
        ),
    ),
    "Sub of branches": (
        17,
        (
            (6,),
            [N("MatMul", ["x", "w"], ["1"]), N("Tanh", ["1"], ["2"]), N("Sub", ["x", "2"], ["y"])],
            {"w": floats(6, 6)},
        ),
    ),
    "Sub of a branch": (
        17,
        (
            (6,),
            [N("MatMul", ["x", "w"], ["1"]), N("Tanh", ["1"], ["2"]), N("Sub", ["2", "x"], ["y"])],
            {"w": floats(6, 6)},
        ),
    ),
    "a sum in another shape": (
        17,
        (
            (2, 3, 1),
            [
                N("Conv", ["x", "k"], ["1"]),
                N("Tanh", ["1"], ["2"]),
                N("Reshape", ["2", "s"], ["3"]),
                N("Flatten", ["x"], ["4"]),
                N("Add", ["3", "4"], ["y"]),
            ],
            {"k": floats(2, 2, 1, 1), "s": whole(0, 6)},
        ),
    ),
    "Neg": (
        17,
        ((6,), [N("MatMul", ["x", "w"], ["1"]), N("Neg", ["1"], ["y"])], {"w": floats(6, 4)}),
    ),
    "an input that is left out": (
        17,
        ((6,), [N("Gemm", ["x", "w", ""], ["y"])], {"w": floats(6, 4)}),
    ),
    "Constant of a float": (
        17,
        ((6,), [N("Constant", [], ["c"], value_float=2.0), N("Mul", ["x", "c"], ["y"])], {}),
    ),
    "Constant of floats": (
        17,
        (
            (2,),
            [N("Constant", [], ["c"], value_floats=[2.0, -1.0]), N("Mul", ["x", "c"], ["y"])],
            {},
        ),
    ),
    "Constant of integers": (
        17,
        (
            (2, 3, 1),
            [N("Constant", [], ["s"], value_ints=[-1, 6]), N("Reshape", ["x", "s"], ["y"])],
            {},
        ),
    ),
    "Constant of an integer": (
        17,
        ((6,), [N("Constant", [], ["e"], value_int=3), N("Pow", ["x", "e"], ["y"])], {}),
    ),
    "an exponent of 32 bits": (17, ((6,), [N("Pow", ["x", "e"], ["y"])], {"e": np.int32(2)})),
    "a truth value that no node takes": (
        17,
        (
            (6,),
            [N("MatMul", ["x", "w"], ["y"])],
            {"w": floats(6, 4), "flag": [True], "none": np.zeros(0, np.float32)},
        ),
    ),
    "Dropout that is told not to train": (
        17,
        (
            (6,),
            [N("Dropout", ["x", "r", "t"], ["1", "mask"]), N("Relu", ["1"], ["y"])],
            {"r": np.float32(0.5), "t": np.array(False)},
        ),
    ),
    "depthwise kernels": (
        17,
        ((2, 6, 6), [N("Conv", ["x", "k"], ["1"], group=2), FLAT], {"k": floats(2, 1, 3, 3)}),
    ),
    "groups of channels": (
        17,
        (
            (4, 5, 6),
            [N("Conv", ["x", "k", "b"], ["1"], group=2, strides=[2, 1]), FLAT],
            {"k": floats(6, 2, 3, 3), "b": floats(6)},
        ),
    ),
    "SAME_UPPER": (
        17,
        (
            (2, 6, 5),
            [N("Conv", ["x", "k"], ["1"], auto_pad="SAME_UPPER", strides=[2, 2]), FLAT],
            {"k": K},
        ),
    ),
    "SAME_LOWER": (
        17,
        (
            (2, 6, 5),
            [N("Conv", ["x", "k"], ["1"], auto_pad="SAME_LOWER", strides=[2, 1]), FLAT],
            {"k": floats(3, 2, 4, 2)},
        ),
    ),
    "VALID": (
        17,
        (
            (2, 6, 5),
            [N("AveragePool", ["x"], ["1"], auto_pad="VALID", kernel_shape=[2, 2]), FLAT],
            {},
        ),
    ),
    "SAME_UPPER of windows that fit": (
        19,
        (
            (2, 6, 4),
            [
                N(
                    "AveragePool",
                    ["x"],
                    ["1"],
                    auto_pad="SAME_UPPER",
                    kernel_shape=[2, 2],
                    strides=[2, 2],
                    ceil_mode=1,
                    dilations=[1, 1],
                ),
                FLAT,
            ],
            {},
        ),
    ),
    "dilations of groups": (
        21,
        (
            (4, 9, 8),
            [
                N("Conv", ["x", "k"], ["1"], dilations=[2, 3], group=2, pads=[2, 1, 2, 2]),
                FLAT,
            ],
            {"k": floats(6, 2, 3, 2)},
        ),
    ),
    "dilations with strides and uneven padding": (
        17,
        (
            (3, 11, 7),
            [N("Conv", ["x", "k"], ["1"], dilations=[3, 2], strides=[2, 3], pads=[2, 0, 1, 3]), FLAT],
            {"k": floats(2, 3, 3, 3)},
        ),
    ),
    "a constant of each feature": (
        17,
        (
            (2, 3, 2),
            [N("Sub", ["x", "c"], ["1"]), N("Mul", ["1", "r"], ["2"]), N("Flatten", ["2"], ["y"])],
            {"c": floats(1, 2, 3, 2), "r": floats(3, 1)},
        ),
    ),
    "a bias of one row": (
        17,
        (
            (6,),
            [N("Gemm", ["x", "w", "c"], ["y"], beta=0.5)],
            {"w": floats(6, 4), "c": floats(1, 4)},
        ),
    ),
    "BatchNormalization of old models": (
        8,
        (
            (2, 3, 3),
            [
                N("BatchNormalization", ["x", "s", "b", "m", "v"], ["1"], spatial=1, momentum=0.5),
                FLAT,
            ],
            {
                "s": floats(2),
                "b": floats(2, seed=2),
                "m": floats(2, seed=3),
                "v": np.array([0.5, 2], np.float32),
            },
        ),
    ),
    "Gelu": (20, ((6,), [N("Gelu", ["x"], ["y"], approximate="none")], {})),
}


@pytest.mark.parametrize("name", EXPORTED)
def test_what_exporters_write_is_read(tmp_path: Path, name: str) -> None:
    opset, case = EXPORTED[name]
    compare(written(tmp_path / "model.onnx", case, opset), case[0])


def test_models_for_a_fixed_number_of_samples(tmp_path: Path) -> None:
    reshaped = (
        (2, 3, 1),
        [N("Reshape", ["x", "s"], ["1"]), N("MatMul", ["1", "w"], ["y"])],
        {"s": whole(2, -1), "w": floats(6, 3)},
    )
    compare(written(tmp_path / "model.onnx", reshaped, 17, batch=2), (2, 3, 1), batch=2)
    with pytest.raises(errors.NnError, match="samples must stay apart"):
        nn.Network.load(written(tmp_path / "model.onnx", reshaped, 17))


PARTS = {name: floats(2, seed=seed) for seed, name in enumerate("sbm")} | {
    "v": np.array([1, 0.2], np.float32)
}
SAMPLES = np.arange(1, 5, dtype=np.float32)[:, None]

# Models that look like supported layers, but that ONNX defines differently.
SILENT: dict[str, tuple[int, int | str, Case, str]] = {
    "BatchNormalization in training": (15, "b", ((2, 4, 4), [N("BatchNormalization", ["x", "s", "b", "m", "v"], ["1", "rm", "rv"], training_mode=1), FLAT], PARTS), "outputs|training"),
    "BatchNormalization in training, with one output": (15, "b", ((2, 4, 4), [N("BatchNormalization", ["x", "s", "b", "m", "v"], ["1"], training_mode=1), FLAT], PARTS), "training mode"),
    "Reshape of samples": (17, "b", ((27,), [N("Reshape", ["x", "s"], ["1"]), N("Relu", ["1"], ["y"])], {"s": whole(-1, 9)}), "samples must stay apart"),
    "Reshape that joins samples": (17, "b", ((6,), [N("Reshape", ["x", "s"], ["1"]), N("Relu", ["1"], ["y"])], {"s": whole(1, -1)}), "samples must stay apart"),
    "a bias of samples": (17, 4, ((6,), [N("Gemm", ["x", "w", "c"], ["y"])], {"w": floats(6, 4), "c": SAMPLES}), "each sample"),
    "a constant of samples": (17, 4, ((4,), [N("Add", ["x", "c"], ["y"])], {"c": SAMPLES}), "each sample"),
    "a constant of samples of images": (17, 4, ((4, 2, 2), [N("Mul", ["x", "c"], ["1"]), FLAT], {"c": SAMPLES[:, :, None, None]}), "each sample"),
    "a constant that repeats features": (17, "b", ((1,), [N("Add", ["x", "c"], ["y"])], {"c": floats(3)}), "does not fit"),
    "an exponent of each feature": (17, "b", ((2,), [N("Pow", ["x", "e"], ["y"])], {"e": np.array([2, 3], np.float32)}), "one whole exponent"),
    "Gelu by the tangent": (20, "b", ((6,), [N("Gelu", ["x"], ["y"], approximate="tanh")], {}), "tanh"),
    "the mean of samples": (17, "b", ((3, 2, 2), [N("ReduceMean", ["x"], ["y"], keepdims=1)], {}), "samples are averaged"),
    "samples that broadcast": (17, 6, ((6,), [N("MatMul", ["x", "w"], ["1"]), N("Squeeze", ["1", "a"], ["2"]), N("Add", ["1", "2"], ["y"])], {"w": floats(6, 1), "a": whole(1)}), "adds the shapes"),
    "a product over samples": (17, 5, ((1,), [N("Squeeze", ["x", "a"], ["1"]), N("MatMul", ["1", "w"], ["y"])], {"a": whole(1), "w": floats(5, 3)}), "without an axis"),
    "another domain": (17, "b", ((6,), [N("Relu", ["x"], ["y"], domain="my.ops")], {}), "my.ops"),
    "Gelu of another domain": (20, "b", ((6,), [N("Gelu", ["x"], ["y"], domain="com.microsoft")], {}), "com.microsoft"),
    "an attribute of a later version": (17, "b", ((6,), [N("Relu", ["x"], ["y"], alpha=0.1)], {}), "alpha"),
    "integer samples": (17, "b", ((6,), [N("Cast", ["x"], ["1"], to=TensorProto.INT64), N("Cast", ["1"], ["y"], to=TensorProto.FLOAT)], {}), "data type 7"),
}  # fmt: skip


@pytest.mark.parametrize("name", SILENT)
def test_what_would_be_computed_otherwise_is_refused(tmp_path: Path, name: str) -> None:
    opset, batch, case, part = SILENT[name]
    with pytest.raises(errors.NnError, match=part):
        nn.Network.load(written(tmp_path / "model.onnx", case, opset, batch))


@pytest.mark.parametrize("seed", range(60))
def test_random_nodes_are_computed_alike_or_refused(tmp_path: Path, seed: int) -> None:
    """Chains of nodes with random attributes and constants, most of them with something unusual."""
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 5, rng.choice([1, 3], p=[0.3, 0.7])))
    nodes: list[onnx.NodeProto] = []
    constants: dict[str, Any] = {}

    def constant(values: npt.ArrayLike) -> str:
        name = f"c{len(constants)}"
        constants[name] = np.asarray(values)
        return name

    def any_of(*choices: Any) -> Any:
        return choices[int(rng.integers(len(choices)))]

    def reals(*sizes: int) -> str:
        return constant(rng.normal(size=sizes).astype(np.float32))

    def broadcast() -> str:
        sizes = [any_of(1, size) for size in (1, *shape)][int(rng.integers(len(shape) + 2)) :]
        return reals(*sizes)

    last = "x"
    rank = len(shape) + 1
    makers: list[Callable[[], tuple[str, list[str], dict[str, Any]]]] = [
        lambda: (any_of("Add", "Sub", "Mul", "Div"), any_of([last, broadcast()], [broadcast(), last]), {}),
        lambda: (any_of("Relu", "Sigmoid", "Tanh", "Neg", "Identity"), [last], {}),
        lambda: ("Pow", [last, constant(np.float32(any_of(1, 2, 3, 0, 0.5)))], {}),
        lambda: ("Flatten", [last], {"axis": int(rng.integers(-rank, rank + 1))}),
        lambda: ("Transpose", [last], any_of({}, {"perm": [0, *(rng.permutation(rank - 1) + 1)]})),
        lambda: ("Reshape", [last, constant(whole(*any_of((0, -1), (-1, 1), (0, 0, -1), (-1, 2), (1, -1))))], {}),
        lambda: ("ReduceMean", [last], {"axes": sorted({int(a) for a in rng.integers(-2, rank, 2)}), "keepdims": any_of(0, 1)}),
        lambda: ("Squeeze", any_of([last], [last, constant(whole(int(rng.integers(-1, rank))))]), {}),
        lambda: ("Unsqueeze", [last, constant(whole(int(rng.integers(0, rank + 1))))], {}),
        lambda: ("Gemm", [last, reals(shape[0], 3), any_of(reals(3), reals(1), reals(1, 3), reals(4, 1), "")], {"alpha": 0.5, "beta": any_of(1.0, 2.0)}),
        lambda: ("MatMul", [last, reals(shape[-1], any_of(1, 3))], {}),
        lambda: ("Conv", [last, reals(2, shape[0], any_of(1, 2), any_of(1, 2))], any_of({}, {"auto_pad": any_of("SAME_UPPER", "SAME_LOWER", "VALID")}, {"pads": [0, 1, 1, 0]}, {"strides": [2, 1]}, {"dilations": [1, 2]})),
        lambda: ("Conv", [last, reals(2 * shape[0], 1, 1, any_of(1, 2)), reals(2 * shape[0])], {"group": any_of(shape[0], 1)}),
        lambda: ("AveragePool", [last], {"kernel_shape": [any_of(1, 2), any_of(1, 2)], "ceil_mode": any_of(0, 1), "strides": [any_of(1, 2), 1]} | any_of({}, {"auto_pad": "SAME_UPPER"}, {"pads": [0, 0, 1, 0], "count_include_pad": 1})),
        lambda: ("GlobalAveragePool", [last], {}),
        lambda: ("BatchNormalization", [last, *[reals(shape[0]) for _ in range(3)], constant(rng.uniform(0.5, 2, shape[0]).astype(np.float32))], any_of({}, {"epsilon": 0.1}, {"training_mode": 1})),
        lambda: (any_of("Add", "Sub", "Sum", "Mul"), [last, any_of("x", last)], {}),
        lambda: ("Cast", [last], {"to": any_of(TensorProto.FLOAT, TensorProto.INT32)}),
        lambda: ("Dropout", any_of([last], [last, constant(np.float32(0.5)), constant(np.array(any_of(True, False)))]), {}),
    ]  # fmt: skip
    path, count, start = tmp_path / "model.onnx", int(any_of(1, 4)), shape
    samples = rng.uniform(-1, 1, (count, *shape)).astype(np.float32)
    agreed = refused = 0
    # Keep nodes that onnxruntime accepts, so that later ones use them.
    for step in range(40):
        operator, inputs, attributes = any_of(*makers)()
        node = N(operator, inputs, [f"t{step}"], **attributes)
        end = N("Identity", [f"t{step}"], ["y"])
        kept = dict(constants)
        written(path, (start, [*nodes, node, end], kept), 17, any_of("batch", count))
        try:
            session = onnxruntime.InferenceSession(
                path, SILENCE, providers=["CPUExecutionProvider"]
            )
            (results,) = session.run(None, {"x": samples})
        except Exception:  # Any exception: a model that onnxruntime refuses is invalid.
            continue
        try:
            found = nn.Network.load(path).predict(samples)
        except errors.NnError:
            refused += 1
            continue
        assert results.shape[0] == count, node
        expected = results.reshape(count, -1).astype(np.float64)
        assert found.shape == expected.shape, node
        if np.abs(expected).max() > 1e4:
            continue
        np.testing.assert_allclose(
            found, expected, atol=2e-4 * max(1.0, np.abs(expected).max()), err_msg=str(node)
        )
        agreed += 1
        if len(nodes) < 6:
            nodes.append(node)
            last = f"t{step}"
            shape, rank = tuple(results.shape[1:]), results.ndim
            if not shape:
                break
    assert agreed + refused > 0


def test_weights_beside_the_model(tmp_path: Path) -> None:
    case: Case = (
        (6,),
        [N("MatMul", ["x", "w"], ["1"]), N("Add", ["1", "b"], ["y"])],
        {"w": floats(6, 4), "b": floats(4)},
    )
    whole_model = written(tmp_path / "whole.onnx", case, 17)
    folder = tmp_path / "model"
    folder.mkdir()
    path = folder / "model.onnx"

    def save(location: str) -> None:
        model = onnx.load(whole_model)
        onnx.save(model, str(path), save_as_external_data=True, location=location, size_threshold=0)

    save("model.onnx.data")
    compare(path, (6,))
    data = folder / "model.onnx.data"
    # In another directory, and relative to the program's.
    before = Path.cwd()
    os.chdir(folder)
    try:
        compare(Path("model.onnx"), (6,))
    finally:
        os.chdir(before)
    elsewhere = tmp_path / "elsewhere.data"
    data.rename(elsewhere)
    with pytest.raises(errors.NnError, match="cannot be read"):
        nn.Network.load(path)
    data.symlink_to(elsewhere)
    with pytest.raises(errors.NnError, match="out of the directory"):
        nn.Network.load(path)
    data.unlink()
    data.write_bytes(elsewhere.read_bytes()[:-4])
    with pytest.raises(errors.NnError, match="too few"):
        nn.Network.load(path)
    save("other.data")
    text = path.read_bytes().replace(b"other.data", b"../el.data")
    path.write_bytes(text)
    with pytest.raises(errors.NnError, match="in the directory of the model"):
        nn.Network.load(path)


def test_files_are_told_by_their_content(tmp_path: Path) -> None:
    case = EXPORTED["Neg"][1]
    model = written(tmp_path / "model.onnx", case, 17).read_bytes()
    for name in ("MODEL.ONNX", "model.pb", "model"):
        (tmp_path / name).write_bytes(model)
        assert nn.Network.load(tmp_path / name).outputs == 4
    nn.Network.load(tmp_path / "model.onnx").save(tmp_path / "network")
    assert nn.Network.load(tmp_path / "network").outputs == 4
    for name in ("damaged.ONNX", "damaged.pb"):
        (tmp_path / name).write_bytes(b"\x08\xa8\xff")
        with pytest.raises(errors.NnError):
            nn.Network.load(tmp_path / name)
    (tmp_path / "bytes.json").write_bytes(b"\x08\xa8\xff")
    with pytest.raises(errors.NnError, match="UTF-8"):
        nn.Network.load(tmp_path / "bytes.json")
    with pytest.raises(errors.MissingFileError):
        nn.Network.load(tmp_path / "none.onnx")
    with pytest.raises(errors.FileError):
        nn.Network.load(tmp_path)


def kernels(seed: int, size: tuple[int, int], **attributes: Any) -> Graph:
    """A convolution of this kind, a square, and another one on the image that it leaves."""
    group = attributes.get("group", 1)
    graph = Graph((4, 9, 7), seed)
    outputs = 8 if group == 4 else 6
    graph.node("Conv", "x", graph.constant(outputs, 4 // group, *size), **attributes)
    graph.node("Mul", graph.last, graph.last)
    graph.node("Conv", graph.last, graph.constant(3, outputs, 2, 2), pads=[1, 0, 0, 1])
    graph.node("Flatten", graph.last)
    return graph


KINDS: dict[str, tuple[tuple[int, int], dict[str, Any]]] = {
    "kernels of 1": ((1, 1), {}),
    "kernels of 3": ((3, 3), {"pads": [1, 1, 1, 1]}),
    "kernels of 5": ((5, 5), {"pads": [2, 2, 2, 2]}),
    "stride 2": ((3, 3), {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
    "stride 3": ((3, 3), {"pads": [1, 1, 1, 1], "strides": [3, 3]}),
    "uneven strides and padding": ((2, 3), {"pads": [2, 0, 1, 1], "strides": [1, 2]}),
    "groups": ((3, 3), {"group": 2, "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "depthwise": ((3, 3), {"group": 4, "pads": [1, 1, 1, 1]}),
    "dilation": ((3, 2), {"dilations": [2, 3], "pads": [2, 1, 2, 2]}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_convolutions_of_one_sample_are_those_of_onnx(tmp_path: Path, kind: str) -> None:
    size, attributes = KINDS[kind]
    graph = kernels(5, size, **attributes)
    graph.save(tmp_path / "model.onnx")
    samples = graph.samples(3)
    expected = theirs(tmp_path / "model.onnx", samples)
    network = nn.Network.load(tmp_path / "model.onnx")
    assert np.abs(network.predict(samples) - expected).max() < 1e-5 * np.abs(expected).max()
    plan = nn.plan(network, 1, calibration=samples, precision_bits=12)
    found = plan.simulate(samples[:1]).results
    assert np.abs(found - expected[:1]).max() < 1e-5 * np.abs(expected).max()
    # A rotation for each weight of a kernel, not for each distance of features.
    assert plan.explain().diagonals < 1000
