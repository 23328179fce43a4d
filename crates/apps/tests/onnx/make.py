"""Makes the ONNX models of this directory, and their results by onnxruntime. Needs onnx and onnxruntime."""

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

FOLDER = Path(__file__).parent
rng = np.random.default_rng(1)


def numbers(name, *shape):
    values = rng.integers(-8, 9, shape) / 8
    return numpy_helper.from_array(values.astype(np.float32), name)


def save(name, shape, nodes, constants):
    ends = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", *shape]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "n"]),
    ]
    graph = helper.make_graph(nodes, name, ends[:1], ends[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.checker.check_model(model)
    path = FOLDER / f"{name}.onnx"
    onnx.save(model, path)
    samples = (rng.integers(-8, 9, (3, *shape)) / 8).astype(np.float32)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (results,) = session.run(None, {"x": samples})
    results = np.asarray(results, dtype=np.float64).reshape(3, -1)
    said = {"samples": samples.reshape(3, -1).tolist(), "results": results.tolist()}
    (FOLDER / f"{name}.json").write_text(json.dumps(said) + "\n")


node = helper.make_node
save(
    "dense",
    (5,),
    [
        node("MatMul", ["x", "w1"], ["1"]),
        node("Add", ["b1", "1"], ["2"]),
        node("Tanh", ["2"], ["3"]),
        node("Gemm", ["3", "w2", "b2"], ["4"], transB=1, alpha=0.5, beta=2.0),
        node("Sigmoid", ["4"], ["5"]),
        node("Gemm", ["5", "w3", "b3"], ["y"]),
    ],
    [
        numbers("w1", 5, 4), numbers("b1", 4), numbers("w2", 3, 4), numbers("b2", 3),
        numbers("w3", 3, 2), numbers("b3", 2),
    ],
)  # fmt: skip
positive = numpy_helper.from_array(np.array([0.5, 2.0, 1.5], dtype=np.float32), "v")
save(
    "image",
    (1, 5, 4),
    [
        node("Conv", ["x", "k", "b1"], ["1"], pads=[1, 0, 1, 1], strides=[1, 2]),
        node("BatchNormalization", ["1", "s", "b2", "m", "v"], ["2"], epsilon=1e-3),
        node("Mul", ["2", "2"], ["3"]),
        node("AveragePool", ["3"], ["4"], kernel_shape=[2, 1], strides=[2, 1]),
        node("Flatten", ["4"], ["5"]),
        node("Gemm", ["5", "w", "b3"], ["y"]),
    ],
    [
        numbers("k", 3, 1, 3, 2), numbers("b1", 3), numbers("s", 3), numbers("b2", 3),
        numbers("m", 3), positive, numbers("w", 12, 3), numbers("b3", 3),
    ],
)  # fmt: skip
save(
    "residual",
    (2, 4, 3),
    [
        node("Conv", ["x", "k1", "b1"], ["1"], pads=[1, 1, 1, 1]),
        node("Sigmoid", ["1"], ["2"]),
        node("Conv", ["2", "k2"], ["3"], pads=[1, 1, 1, 1]),
        node("Add", ["3", "x"], ["4"]),
        node("Mul", ["4", "4"], ["5"]),
        node("Conv", ["5", "k3", "b3"], ["6"], strides=[2, 1]),
        node("Tanh", ["6"], ["7"]),
        node("Conv", ["5", "k4"], ["8"], strides=[2, 1]),
        node("Add", ["8", "7"], ["9"]),
        node("Flatten", ["9"], ["10"]),
        node("Gemm", ["10", "w", "b4"], ["y"]),
    ],
    [
        numbers("k1", 3, 2, 3, 3), numbers("b1", 3), numbers("k2", 2, 3, 3, 3),
        numbers("k3", 4, 2, 2, 1), numbers("b3", 4), numbers("k4", 4, 2, 2, 1),
        numbers("w", 24, 3), numbers("b4", 3),
    ],
)  # fmt: skip
