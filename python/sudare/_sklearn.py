"""Networks from fitted estimators of scikit-learn, by their public attributes."""

from __future__ import annotations

from typing import Any

import numpy as np

from sudare import errors
from sudare._plain import Floats

Layer = tuple[Floats, Floats]
"""The weights of a dense layer, with a row for each output, and its bias."""

_ACTIVATIONS = {"relu": "relu", "tanh": "tanh", "logistic": "sigmoid", "identity": None}


def layers_of(model: Any) -> tuple[list[Layer], str | None]:
    """Returns the dense layers of a fitted estimator or pipeline, and the activation between them."""
    steps = [step for _, step in model.steps] if hasattr(model, "steps") else [model]
    *scalers, last = steps
    if hasattr(last, "coefs_"):
        activation = _ACTIVATIONS.get(last.activation)
        if last.activation not in _ACTIVATIONS:
            raise errors.UnsupportedError(
                f"the activation is {last.activation!r}: train with {', '.join(map(repr, _ACTIVATIONS))}"
            )
        weights = [np.asarray(matrix, dtype=np.float64).T for matrix in last.coefs_]
        biases = [np.asarray(bias, dtype=np.float64) for bias in last.intercepts_]
        layers = list(zip(weights, biases, strict=True))
    elif hasattr(last, "coef_") and getattr(last, "encoding_", None) is None:
        activation = None
        matrix = np.atleast_2d(np.asarray(last.coef_, dtype=np.float64))
        layers = [(matrix, np.broadcast_to(last.intercept_, len(matrix)).astype(np.float64))]
    else:
        raise errors.UnsupportedError(
            f"{type(last).__name__} has no dense layers: pass a fitted MLPClassifier, MLPRegressor or linear "
            "model of numbers, or a pipeline that ends in one"
        )
    if activation is None:
        layers = [_product(layers)]
    for scaler in reversed(scalers):
        factors, shifts = _scaling(scaler, layers[0][0].shape[1])
        matrix, bias = layers[0]
        layers[0] = matrix * factors, bias + matrix @ shifts
    return layers, activation


def _product(layers: list[Layer]) -> Layer:
    """Returns one layer in place of layers without an activation between them."""
    matrix, bias = layers[0]
    for weights, more in layers[1:]:
        matrix, bias = weights @ matrix, weights @ bias + more
    return matrix, bias


def _scaling(scaler: Any, features: int) -> Layer:
    """Returns the factors and shifts of columns by which a step of a pipeline scales them."""
    name = type(scaler).__name__
    ones, zeros = np.ones(features), np.zeros(features)
    if scaler is None or scaler == "passthrough":
        return ones, zeros
    factors, shifts = ones, zeros
    if name in ("StandardScaler", "RobustScaler"):
        center = scaler.mean_ if name == "StandardScaler" else scaler.center_
        with_center = scaler.with_mean if name == "StandardScaler" else scaler.with_centering
        if scaler.scale_ is not None:
            factors = 1.0 / np.asarray(scaler.scale_)
        if with_center:
            shifts = -np.asarray(center) * factors
    elif name == "MaxAbsScaler":
        factors = 1.0 / np.asarray(scaler.scale_)
    elif name == "MinMaxScaler" and not scaler.clip:
        factors, shifts = np.asarray(scaler.scale_), np.asarray(scaler.min_)
    else:
        clips = " that clips" if name == "MinMaxScaler" else ""
        raise errors.UnsupportedError(
            f"a {name}{clips} does not become part of a network: use a StandardScaler, MinMaxScaler, "
            "MaxAbsScaler or RobustScaler, or transform the samples before you encrypt them"
        )
    return factors, shifts
