"""Trees of fitted estimators of scikit-learn, by their public attributes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from sudare import errors
from sudare._plain import Floats

_Leaf = Callable[[Floats], list[float]]
"""The numbers of a leaf, from the `value` of its node."""


def described(model: Any) -> dict[str, Any]:
    """Returns the description of a fitted estimator in the format of forests."""
    name = type(model).__name__
    if not hasattr(model, "n_features_in_"):
        raise errors.of_kind("NotFitted", f"this {name} is not fitted: call fit() first")
    if getattr(model, "n_outputs_", 1) != 1:
        raise _unsupported(f"this {name} has several outputs: train a model for each")
    if hasattr(model, "tree_"):
        return _averaged(model, [model])
    estimators = getattr(model, "estimators_", None)
    # Arrays of trees are gradient boosting, lists are forests.
    if isinstance(estimators, np.ndarray) and estimators.ndim == 2 and hasattr(model, "init_"):
        return _boosted(model, estimators)
    is_forest = name.endswith(("ForestClassifier", "ForestRegressor")) or name.startswith("ExtraTrees")
    if isinstance(estimators, list) and is_forest:
        return _averaged(model, estimators)
    raise _unsupported(
        f"a {name} has no public attributes with a sum of trees: pass a fitted decision tree, random forest, "
        "extra trees or gradient boosting, or export it to ONNX and use from_onnx"
    )


def _unsupported(message: str) -> errors.Error:
    return errors.of_kind("TreesFormat", message)


def _description(
    model: Any, link: str, offsets: list[float], trees: list[dict[str, Any]]
) -> dict[str, Any]:
    names = getattr(model, "feature_names_in_", None)
    features = [f"x{number}" for number in range(model.n_features_in_)] if names is None else list(names)
    return {
        "features": [str(feature) for feature in features],
        "link": link,
        "offsets": [float(offset) for offset in offsets],
        "classes": [str(label) for label in getattr(model, "classes_", [])],
        "trees": trees,
    }


def _averaged(model: Any, estimators: list[Any]) -> dict[str, Any]:
    """Describes the mean of trees. A classifier with two classes has one score, for the second class."""
    share = 1.0 / len(estimators)
    classes = len(getattr(model, "classes_", []))
    if classes == 1:
        raise _unsupported("the model has one class, so it predicts it always: no computation is needed")

    def number(value: Floats) -> list[float]:
        return [share * float(value[0])]

    def second(value: Floats) -> list[float]:
        return [share * float(value[1] / value.sum())]

    def shares(value: Floats) -> list[float]:
        return [share * float(part) for part in value / value.sum()]

    leaf: _Leaf = {0: number, 2: second}.get(classes, shares)
    output = None if classes > 2 else 0
    trees = [_tree(estimator.tree_, output, leaf) for estimator in estimators]
    link = "probability" if classes == 2 else "identity"
    return _description(model, link, [0.0] * (classes if classes > 2 else 1), trees)


def _boosted(model: Any, estimators: Any) -> dict[str, Any]:
    """Describes gradient boosting: the first prediction, and trees times the learning rate."""
    rate = float(model.learning_rate)
    outputs = estimators.shape[1]
    loss = getattr(model, "loss", None)
    # The raw scores of the exponential loss are half the logarithms of the odds.
    factor = 2.0 if loss == "exponential" else 1.0

    def leaf(value: Floats) -> list[float]:
        return [factor * rate * float(value[0])]

    trees = [
        _tree(tree.tree_, output, leaf)
        for stage in estimators
        for output, tree in enumerate(stage)
    ]
    offsets = _first(model, outputs)
    if not hasattr(model, "classes_"):
        return _description(model, "identity", offsets, trees)
    return _description(model, "logistic" if outputs == 1 else "softmax", offsets, trees)


def _first(model: Any, outputs: int) -> list[float]:
    """Returns the raw scores before the first tree."""
    init = model.init_
    if isinstance(init, str) and init == "zero":
        return [0.0] * outputs
    kind = type(init).__name__
    if kind == "DummyRegressor":
        return [float(np.ravel(init.constant_)[0])]
    if kind == "DummyClassifier" and init.strategy == "prior":
        # As scikit-learn keeps probabilities away from 0 and 1.
        least = float(np.finfo(np.float32).eps)
        prior = np.clip(np.asarray(init.class_prior_, dtype=np.float64), least, 1.0 - least)
        if outputs == 1:
            return [math.log(prior[1] / (1.0 - prior[1]))]
        logs = np.log(prior)
        return [float(score) for score in logs]
    raise _unsupported(
        f"gradient boosting starts from a {kind}, which is no constant: train with init=None or \"zero\""
    )


def _tree(tree: Any, output: int | None, leaf: _Leaf) -> dict[str, Any]:
    """Describes a tree, with children after their parents."""
    left, right = tree.children_left, tree.children_right
    values = np.asarray(tree.value, dtype=np.float64)[:, 0, :]
    order, places = [0], {0: 0}
    nodes: list[dict[str, Any]] = []
    while len(nodes) < len(order):
        node = order[len(nodes)]
        if left[node] == right[node]:
            nodes.append({"leaf": leaf(values[node])})
            continue
        for child in (int(left[node]), int(right[node])):
            places[child] = len(order)
            order.append(child)
        split = {
            "feature": int(tree.feature[node]),
            "at": float(tree.threshold[node]),
            "or_equal": True,
            # Features are 32-bit floats in trees.
            "single": True,
            "left": places[int(left[node])],
            "right": places[int(right[node])],
        }
        nodes.append({"split": split})
    return {"output": output, "nodes": nodes}
