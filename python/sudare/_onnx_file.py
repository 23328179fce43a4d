"""Fitted estimators as ONNX models, whose bytes are written here."""

from __future__ import annotations

import os
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sudare import errors
from sudare._plain import Floats, choice, flag, path_of
from sudare._sklearn import layers_of

_OPSET = 13
"""The version of operators, the first with these forms of all that are used here."""

_IR_VERSION = 7
"""The version of the format that came with the operators."""

_FLOAT64, _INT64, _TEXT, _BOOL = 11, 7, 8, 9
"""Types of tensors, as ONNX numbers them."""


def to_onnx(
    model: Any,
    path: str | os.PathLike[str],
    *,
    outputs: Literal["all", "scores"] = "all",
    overwrite: bool = False,
) -> None:
    """Writes a fitted estimator, or a pipeline that ends in one, as an ONNX model.

    The input `X` has a row of 64-bit numbers for each sample. The outputs are `scores`, with the
    `decision_function` of a classifier or the prediction of a regressor, and for classifiers `label` and
    `probabilities`, with a column for each class. `nn.Network.load` reads a model of scores alone.

    Warns if the coefficients are for the owner of the key alone.

    Parameters
    ----------
    model : estimator or pipeline
        A fitted `LogisticRegression`, `LinearRegression` or `Ridge` of columns of numbers. Steps of a pipeline
        before it are a `StandardScaler`, `MinMaxScaler`, `MaxAbsScaler` or `RobustScaler`.
    path : path
        The file, such as `model.onnx`.
    outputs : {"all", "scores"}, default "all"
        The outputs of the model.
    overwrite : bool, default False
        Whether the file may exist.
    """
    path, overwrite = path_of(path), flag(overwrite, "overwrite")
    outputs = choice(outputs, "outputs", ("all", "scores"))
    last = model.steps[-1][1] if getattr(model, "steps", None) else model
    if not hasattr(last, "_warn_if_raw"):
        raise errors.UnsupportedError(
            f"{type(last).__name__} is not exported here: pass an estimator of sudare.linear_model, or a "
            "pipeline that ends in one; skl2onnx exports the estimators of scikit-learn"
        )
    last._expect_fitted()
    if last.encoding_ is not None:
        raise errors.UnsupportedError(
            f"this {type(last).__name__} codes columns of text, dates or gaps, which an ONNX model of numbers "
            "cannot: code them by steps of a pipeline of your own, or save the model as JSON with save"
        )
    ((weights, bias),), _ = layers_of(model)
    last._warn_if_raw(2)
    content = _model(weights, bias, getattr(last, "classes_", None), outputs == "all", _columns_of(last))
    try:
        # Only the user may read it: coefficients may be for the owner of the key alone.
        flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if overwrite else os.O_EXCL)
        with open(os.open(path, flags, 0o600), "wb") as file:
            file.write(content)
    except FileExistsError:
        raise errors.ExistsError(f"{path} exists: name another file, or pass overwrite=True") from None
    except OSError as error:
        raise errors.of_kind("Io", f"cannot write {path}: {error.strerror}") from None


def _columns_of(model: Any) -> str:
    """Returns the names of the features of an estimator, in one text."""
    names = getattr(model, "feature_names_in_", None)
    return "" if names is None else ", ".join(map(str, names))


def _model(
    weights: Floats, bias: Floats, classes: npt.NDArray[Any] | None, labels: bool, names: str
) -> bytes:
    """Returns an ONNX model of a dense layer, and of the classes if `labels` are wanted."""
    nodes = [_node("Gemm", ["X", "weights", "bias"], "scores", transB=1)]
    tensors = [_tensor("weights", weights), _tensor("bias", bias)]
    results = [_value("scores", _FLOAT64, len(weights))]
    if classes is not None and labels:
        if len(weights) == 1:
            nodes += [
                _node("Sigmoid", ["scores"], "of_second"),
                _node("Neg", ["scores"], "reversed"),
                # Not 1 minus the other, which would lose the digits of small probabilities.
                _node("Sigmoid", ["reversed"], "of_first"),
                _node("Concat", ["of_first", "of_second"], "probabilities", axis=1),
            ]
        else:
            nodes.append(_node("Softmax", ["scores"], "probabilities", axis=1))
        nodes += [
            _node("ArgMax", ["probabilities"], "place", axis=1, keepdims=0),
            _node("Gather", ["classes", "place"], "label"),
        ]
        tensors.append(_tensor("classes", classes))
        results.append(_value("label", _kind(classes), None))
        results.append(_value("probabilities", _FLOAT64, len(classes)))
    graph = b"".join(
        [
            *(_field(1, node) for node in nodes),
            _field(2, "model"),
            *(_field(5, tensor) for tensor in tensors),
            _field(10, f"columns: {names}" if names else ""),
            _field(11, _value("X", _FLOAT64, weights.shape[1])),
            *(_field(12, result) for result in results),
        ]
    )
    opset = _field(2, _OPSET)
    return b"".join([_field(1, _IR_VERSION), _field(2, "sudare"), _field(7, graph), _field(8, opset)])


def _kind(values: npt.NDArray[Any]) -> int:
    """Returns the type of a tensor of labels or numbers."""
    kinds = {"i": _INT64, "u": _INT64, "b": _BOOL, "f": _FLOAT64}
    return kinds.get(values.dtype.kind, _TEXT)


def _tensor(name: str, values: npt.NDArray[Any]) -> bytes:
    """Returns a constant."""
    kind = _kind(values)
    parts = [_field(1, size) for size in values.shape]
    parts.append(_field(2, kind))
    if kind == _TEXT:
        parts += [_field(6, str(value)) for value in values.tolist()]
    else:
        stored = {_INT64: "<i8", _BOOL: "?", _FLOAT64: "<f8"}[kind]
        parts.append(_field(9, np.ascontiguousarray(values, dtype=stored).tobytes()))
    return b"".join([*parts, _field(8, name)])


def _node(operator: str, inputs: list[str], output: str, **attributes: int) -> bytes:
    """Returns a node with integers as attributes."""
    integer = 2
    of_node = [
        b"".join([_field(1, name), _field(3, value), _field(20, integer)])
        for name, value in attributes.items()
    ]
    return b"".join(
        [
            *(_field(1, name) for name in inputs),
            _field(2, output),
            _field(3, output),
            _field(4, operator),
            *(_field(5, attribute) for attribute in of_node),
        ]
    )


def _value(name: str, kind: int, columns: int | None) -> bytes:
    """Returns an input or an output with a row for each sample: of `columns` columns, or of one axis."""
    axes = [_field(1, _field(2, "n"))]
    if columns is not None:
        axes.append(_field(1, _field(1, columns)))
    tensor = b"".join([_field(1, kind), _field(2, b"".join(axes))])
    return b"".join([_field(1, name), _field(2, _field(1, tensor))])


def _field(number: int, value: int | str | bytes) -> bytes:
    """Returns a field of Protocol Buffers, whose format ONNX uses: an integer, a text, or bytes."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    content = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    """Returns an integer in groups of seven bits, the lowest first."""
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)
