"""Pictures of fitted models, by matplotlib where it is installed."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import numpy.typing as npt

from sudare import errors
from sudare._plain import Floats


def axes(count: int, given: Any) -> list[Any]:
    """As many axes: those given, or those of a new figure, next to each other."""
    if given is not None:
        found = list(np.ravel(given))
        if len(found) != count:
            raise errors.ArgumentError(f"{len(found)} axes are given, but {count} are drawn on")
        return found
    try:
        pyplot = importlib.import_module("matplotlib.pyplot")
    except ImportError:
        raise errors.MissingDependencyError(
            "plotting takes matplotlib: pip install matplotlib, or let `sudare report` make a page"
        ) from None
    _, new = pyplot.subplots(1, count, figsize=(5.0 * count, 4.0), layout="constrained")
    return list(np.ravel(new))


def roc(scores: Floats, second: npt.NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """For falling thresholds, the shares of rows of the first and of the second class that score
    at or above."""
    order = np.argsort(-scores, kind="stable")
    last = np.append(np.diff(scores[order]) != 0, True)
    shares = (np.cumsum(members[order])[last] / members.sum() for members in (~second, second))
    first_share, second_share = (np.append(0.0, share) for share in shares)
    return first_share, second_share


def area(x: Floats, y: Floats) -> float:
    """The area under a line."""
    return float(np.sum(np.diff(x) * (y[1:] + y[:-1])) / 2)


def log_loss(scores: Floats, second: npt.NDArray[np.bool_]) -> float:
    """The mean of minus the logarithm of the probability of the class of each row."""
    return float(np.mean(np.logaddexp(0.0, np.where(second, -scores, scores))))


def draw_losses(on: Any, losses: list[float]) -> None:
    """The loss by iteration."""
    on.plot(np.arange(1, len(losses) + 1), losses, marker="." if len(losses) < 50 else None)
    on.set(title="Training", xlabel="iteration", ylabel="log loss")
    on.locator_params(axis="x", integer=True)
    on.grid(alpha=0.3)


def draw_roc(on: Any, scores: Floats, second: npt.NDArray[np.bool_]) -> None:
    """The ROC curve."""
    x, y = roc(scores, second)
    on.plot(x, y, label=f"AUC {area(x, y):.4f}")
    on.plot([0, 1], [0, 1], color="gray", linestyle="--", linewidth=1)
    on.set(title="ROC", xlabel="share of the first class", ylabel="share of the second class")
    on.set(xlim=(0, 1), ylim=(0, 1.01), aspect="equal")
    on.legend(loc="lower right")
    on.grid(alpha=0.3)
