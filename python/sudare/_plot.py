"""Pictures of fitted models, by matplotlib where it is installed."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from sudare import errors
from sudare._optional import missing
from sudare._plain import Floats, plain_array, shown


def axes(count: int, given: Any) -> list[Any]:
    """Returns the given axes, or the axes of a new figure."""
    if given is not None:
        found = list(np.ravel(plain_array(given, "axes")))
        if not all(hasattr(on, "plot") for on in found):
            raise errors.ArgumentError(f"axes is {shown(given)}: pass axes of matplotlib")
        if len(found) != count:
            raise errors.ArgumentError(f"{len(found)} axes are given: pass {count}")
        return found
    try:
        pyplot = importlib.import_module("matplotlib.pyplot")
    except ImportError:
        raise missing("matplotlib", "plot", "plotting", "make a page with `sudare report`") from None
    _, new = pyplot.subplots(1, count, figsize=(5.0 * count, 4.0), layout="constrained")
    return list(np.ravel(new))


def roc(scores: Floats, second: npt.NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Returns the shares of rows of the first and of the second class with scores at or above falling
    thresholds."""
    order = np.argsort(-scores, kind="stable")
    last = np.append(np.diff(scores[order]) != 0, True)
    shares = (np.cumsum(members[order])[last] / members.sum() for members in (~second, second))
    first_share, second_share = (np.append(0.0, share) for share in shares)
    return first_share, second_share


def area(x: Floats, y: Floats) -> float:
    """Returns the area under a line."""
    return float(np.sum(np.diff(x) * (y[1:] + y[:-1])) / 2)


def log_probabilities(scores: Floats) -> Floats:
    """Returns the logarithms of the probabilities of all classes.

    There is one score for the second of two classes, or a score for each of more classes.
    """
    if scores.ndim == 1:
        logarithms: Floats = -np.logaddexp(0.0, np.column_stack([scores, -scores]))
        return logarithms
    shifted = scores - scores.max(axis=1, keepdims=True)
    softmax: Floats = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return softmax


def log_loss(scores: Floats, members: npt.NDArray[np.bool_]) -> float:
    """Returns the mean negative logarithm of the probability of the class of each row.

    `members` marks the class of each row.
    """
    return float(-np.mean(log_probabilities(scores)[members]))


def draw_losses(on: Any, losses: list[float]) -> None:
    """Draws the loss by iteration."""
    on.plot(np.arange(1, len(losses) + 1), losses, marker="." if len(losses) < 50 else None)
    on.set(title="Training", xlabel="iteration", ylabel="log loss")
    on.locator_params(axis="x", integer=True)
    on.grid(alpha=0.3)


def draw_roc(on: Any, curves: Mapping[str, tuple[Floats, npt.NDArray[np.bool_]]]) -> None:
    """Draws ROC curves: by name, the scores, and marks for rows that should have high scores."""
    for name, (scores, second) in curves.items():
        x, y = roc(scores, second)
        on.plot(x, y, label=f"{name} AUC {area(x, y):.4f}".strip())
    on.plot([0, 1], [0, 1], color="gray", linestyle="--", linewidth=1)
    first = "the first class" if len(curves) == 1 else "all other classes"
    own = "the second class" if len(curves) == 1 else "the class"
    on.set(title="ROC", xlabel=f"share of {first}", ylabel=f"share of {own}")
    on.set(xlim=(0, 1), ylim=(0, 1.01), aspect="equal")
    on.legend(loc="lower right")
    on.grid(alpha=0.3)
