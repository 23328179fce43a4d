"""Standard errors, tests and intervals of the coefficients of linear models."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sudare import _native, errors
from sudare._frames import Frame, Maker
from sudare._plain import Floats, real
from sudare._shown import columns_html, text_of

_TOLD = 1 / 16
"""The largest bound of the relative error, by encryption, of a variance that is shown."""

_FAR = 0.25
"""The largest distance from the maximum of the likelihood, in standard errors, without a warning. Intervals
of 95 % that are off by it cover 94 %."""

_MAX_CONDITION = 1e10
"""The maximum condition number of a matrix that is inverted."""


@dataclass(frozen=True, eq=False)
class _Summary:
    """Coefficients with their figures, as arrays in the order of `names`."""

    names: tuple[str, ...]
    """The intercept, if there is one, and the features."""
    coefficients: Floats
    """The coefficients of the features as they are, and the intercept."""
    standard_errors: Floats
    """Their standard errors."""
    statistics: Floats
    """Coefficients over their standard errors."""
    p_values: Floats
    """Two-sided probabilities of such statistics if the coefficients of the population are 0."""
    low: Floats
    """The lower ends of the confidence intervals."""
    high: Floats
    """The upper ends of the confidence intervals."""
    per_std: Floats
    """Coefficients times the standard deviations of their features, which divide by the number of rows: the
    coefficients for standardised features. NaN for the intercept."""
    level: float
    """The probability of the confidence intervals."""
    rows: int
    """The number of rows."""

    _statistic: ClassVar[str]

    def _columns(self) -> dict[str, Any]:
        return {
            "name": list(self.names),
            "coefficient": self.coefficients,
            "standard_error": self.standard_errors,
            self._statistic: self.statistics,
            "p_value": self.p_values,
            "low": self.low,
            "high": self.high,
            "per_std": self.per_std,
        }

    def _notes(self) -> list[str]:
        """Returns sentences about the model."""
        raise NotImplementedError

    def to_frame(self, like: Frame | None = None) -> Any:
        """Returns a row for each coefficient.

        Parameters
        ----------
        like : data frame, optional
            A frame of the library to use. Otherwise a dictionary of columns is returned.
        """
        return Maker.like(like)(self._columns())

    def _title(self) -> str:
        return f"{len(self.names)} coefficients from {self.rows} rows"

    def __str__(self) -> str:
        columns = self._columns()
        cells = [[name, *map(text_of, column)] for name, column in columns.items()]
        widths = [max(map(len, column)) for column in cells]
        lines = [
            "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
            for row in zip(*cells, strict=True)
        ]
        return "\n".join([*lines, *self._notes()])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._title()})"

    def _repr_html_(self) -> str:
        return columns_html(self._title(), self._columns(), self._notes())


@dataclass(frozen=True, eq=False, repr=False)
class LinearSummary(_Summary):
    """The inference of least squares. Made by `LinearRegression.summary`. Prints as a table."""

    degrees_of_freedom: int
    """The number of rows minus the number of coefficients."""
    residual_variance: float
    """The sum of the squares of residuals, times the weights of rows, over the degrees of freedom."""
    r_squared: float
    """The share of the variance of the target that is explained; without an intercept, of its squares."""

    _statistic = "t"

    def _notes(self) -> list[str]:
        return [
            f"R squared {self.r_squared:.4f}, residual variance {self.residual_variance:.6g} with "
            f"{self.degrees_of_freedom} degrees of freedom, intervals of {self.level:.0%}."
        ]


@dataclass(frozen=True, eq=False, repr=False)
class LogisticSummary(_Summary):
    """The inference of a logistic regression. Made by `LogisticRegression.summary`. Prints as a table."""

    odds_ratios: Floats
    """The exponentials of the coefficients: the factors of the odds for one more unit of the feature."""
    odds_ratios_low: Floats
    """The lower ends of their confidence intervals."""
    odds_ratios_high: Floats
    """The upper ends of their confidence intervals."""
    log_likelihood: float
    """The logarithm of the likelihood of the classes of the rows."""
    penalty: float
    """The factor of half the squares of the coefficients of standardised features that training added to the
    negative log-likelihood: 1 over `C`, and 0 without a penalty."""
    distance: float
    """The largest distance of a coefficient from the maximum of the likelihood with the penalty, in standard
    errors."""

    _statistic = "z"

    def _columns(self) -> dict[str, Any]:
        return {
            **super()._columns(),
            "odds_ratio": self.odds_ratios,
            "odds_ratio_low": self.odds_ratios_low,
            "odds_ratio_high": self.odds_ratios_high,
        }

    def _notes(self) -> list[str]:
        notes = [
            f"Log-likelihood {self.log_likelihood:.6g}, intervals of {self.level:.0%}, at most "
            f"{self.distance:.2g} standard errors from the maximum of the likelihood."
        ]
        if self.penalty:
            notes.append(
                f"Training shrank the coefficients by a penalty of {self.penalty:.6g}. Standard errors are "
                "from the inverse of the penalised information. Train with C=inf for standard errors "
                "without a penalty."
            )
        return notes


@dataclass(frozen=True)
class LinearFit:
    """The figures of least squares that do not depend on the level of intervals."""

    standard_errors: Floats
    """The standard errors of the intercept, NaN without one, and of all features."""
    deviations: Floats
    """The standard deviations of features, which divide by the number of rows."""
    rows: int
    degrees_of_freedom: int
    residual_variance: float
    r_squared: float


def linear_fit(
    coefficients: Floats,
    products: Floats,
    bounds: Floats,
    *,
    used: npt.NDArray[np.intp],
    means: Floats | None,
    rows: int,
    weight: float,
    deviations: Floats,
) -> LinearFit:
    """Computes the figures of least squares from the sums of the products of its columns.

    Parameters
    ----------
    coefficients : numpy.ndarray
        The coefficients of all features.
    products : numpy.ndarray
        The sums of products of features and the target, which is last: of their differences from their
        means, if there is an intercept.
    bounds : numpy.ndarray
        Bounds of the errors of the products by encryption.
    used : numpy.ndarray
        The places of features that have a coefficient.
    means : numpy.ndarray or None
        The means of all features, if there is an intercept.
    rows : int
        The number of rows.
    weight : float
        The sum of the weights of rows, which is their number if none have weights.
    deviations : numpy.ndarray
        The standard deviations of features.
    """
    freedom = rows - len(used) - (means is not None)
    places = np.append(used, len(coefficients))
    with_target, with_bounds = products[np.ix_(places, places)], bounds[np.ix_(places, places)]
    # The residuals are the target minus the features times their coefficients.
    factors = np.append(-coefficients[used], 1.0)
    squares = float(factors @ with_target @ factors)
    hidden = float(np.abs(factors) @ with_bounds @ np.abs(factors)) > _TOLD * squares
    variance = squares / freedom if freedom > 0 and not hidden else math.nan
    sizes = np.sqrt(np.diag(with_target)[:-1])
    inverse = np.linalg.inv(with_target[:-1, :-1] / np.outer(sizes, sizes)) / np.outer(sizes, sizes)
    # To first order, errors of the products change the inverse by this much.
    changes = np.diag(np.abs(inverse) @ with_bounds[:-1, :-1] @ np.abs(inverse))
    of_used = np.where(changes <= _TOLD * np.diag(inverse), np.diag(inverse), np.nan)
    of_features = np.full(len(coefficients), np.nan)
    of_features[used] = np.sqrt(variance * of_used)
    standard_errors = of_features
    if means is not None:
        near = means[used]
        of_intercept = variance * (1 / weight + near @ inverse @ near) if len(used) else variance / weight
        if np.isnan(of_used).any():
            of_intercept = math.nan
        standard_errors = np.append(math.sqrt(of_intercept), of_features)
    total = float(products[-1, -1])
    return LinearFit(
        standard_errors=standard_errors,
        deviations=deviations,
        rows=rows,
        degrees_of_freedom=freedom,
        residual_variance=variance,
        r_squared=1.0 - squares / total if total > 0 else math.nan,
    )


def linear_summary(
    names: Sequence[str], intercept: float | None, coefficients: Floats, fit: LinearFit, level: float
) -> LinearSummary:
    """Returns the inference of least squares."""
    freedom = fit.degrees_of_freedom
    if freedom < 1:
        raise errors.of_kind(
            "Regression",
            f"{fit.rows} rows and {fit.rows - freedom} coefficients leave no residuals: pass more rows "
            "than coefficients",
        )
    if np.isnan(fit.residual_variance):
        warnings.warn(
            "standard errors are missing, because the errors of encryption are too large for the variance of "
            "the residuals: leave out outliers",
            errors.PrecisionWarning,
            stacklevel=3,
        )
    values, per_std = _with_intercept(intercept, coefficients, fit.deviations)
    common = _common(
        _names(names, intercept),
        values,
        fit.standard_errors,
        lambda t: _native.student_two_sided(t, freedom),
        _student_quantile(_checked_level(level), freedom),
    )
    return LinearSummary(
        **common,
        per_std=per_std,
        level=level,
        rows=fit.rows,
        degrees_of_freedom=freedom,
        residual_variance=fit.residual_variance,
        r_squared=fit.r_squared,
    )


def logistic_summary(
    names: Sequence[str],
    intercept: float,
    coefficients: Floats,
    rows: Floats,
    second: npt.NDArray[np.bool_],
    *,
    penalty: float,
    level: float,
) -> LogisticSummary:
    """Returns the inference of a logistic regression of two classes.

    Parameters
    ----------
    names : sequence of str
        The names of features.
    intercept, coefficients : float, numpy.ndarray
        The model of the score of the second class.
    rows : numpy.ndarray
        The rows that the model was trained on.
    second : numpy.ndarray
        Marks rows of the second class.
    penalty : float
        The factor of half the squares of the coefficients of standardised features.
    level : float
        The probability of the confidence intervals.
    """
    quantile = NormalDist().inv_cdf((1 + _checked_level(level)) / 2)
    centers, deviations = rows.mean(axis=0), rows.std(axis=0)
    # Rounding leaves a deviation to constant columns of numbers that are not exact.
    used = np.flatnonzero(deviations > 1e-12 * np.abs(rows).max(axis=0))
    near = np.column_stack([np.ones(len(rows)), (rows[:, used] - centers[used]) / deviations[used]])
    slopes = coefficients[used] * deviations[used]
    standardised = np.append(intercept + coefficients @ centers, slopes)
    scores = near @ standardised
    # Both tails, without a difference of nearly equal numbers.
    upper, lower = np.exp(-np.logaddexp(0.0, -scores)), np.exp(-np.logaddexp(0.0, scores))
    penalties = np.append(0.0, np.full(len(used), penalty))
    information = near.T @ (near * (upper * lower)[:, np.newaxis]) + np.diag(penalties)
    covariance = _inverse(information)
    gradient = near.T @ np.where(second, lower, -upper) - penalties * standardised
    # From standardised features to the features, and from their centers to 0.
    back = np.diag(np.append(1.0, 1.0 / deviations[used]))
    back[0, 1:] = -centers[used] / deviations[used]
    variances = np.diag(back @ covariance @ back.T)
    step = back @ covariance @ gradient
    distance = float(np.max(np.abs(step) / np.sqrt(variances)))
    if distance > _FAR:
        warnings.warn(
            f"a coefficient is {distance:.2g} standard errors from the maximum of the likelihood, so intervals "
            "and p-values are rough: train with more iterations, or a narrower sigmoid_range",
            errors.PrecisionWarning,
            stacklevel=3,
        )
    standard_errors = np.full(len(coefficients) + 1, np.nan)
    standard_errors[np.append(0, 1 + used)] = np.sqrt(variances)
    values, per_std = _with_intercept(intercept, coefficients, deviations)
    common = _common(
        _names(names, intercept),
        values,
        standard_errors,
        lambda z: math.erfc(abs(z) / math.sqrt(2)),
        quantile,
    )
    with np.errstate(over="ignore"):
        ratios = [np.exp(ends) for ends in (values, common["low"], common["high"])]
    return LogisticSummary(
        **common,
        per_std=per_std,
        level=level,
        rows=len(rows),
        odds_ratios=ratios[0],
        odds_ratios_low=ratios[1],
        odds_ratios_high=ratios[2],
        log_likelihood=float(-np.logaddexp(0.0, np.where(second, -scores, scores)).sum()),
        penalty=penalty,
        distance=distance,
    )


def _names(names: Sequence[str], intercept: float | None) -> tuple[str, ...]:
    return tuple(names) if intercept is None else ("intercept", *names)


def _with_intercept(
    intercept: float | None, coefficients: Floats, deviations: Floats
) -> tuple[Floats, Floats]:
    """Returns all coefficients, and the coefficients for standardised features."""
    per_std = coefficients * deviations
    if intercept is None:
        return coefficients, per_std
    return np.append(intercept, coefficients), np.append(np.nan, per_std)


def _common(
    names: tuple[str, ...],
    values: Floats,
    standard_errors: Floats,
    two_sided: Callable[[float], float],
    quantile: float,
) -> dict[str, Any]:
    """Returns the figures that all summaries have."""
    statistics = values / standard_errors
    p_values = [np.nan if np.isnan(found) else two_sided(found) for found in statistics.tolist()]
    return {
        "names": names,
        "coefficients": values,
        "standard_errors": standard_errors,
        "statistics": statistics,
        "p_values": np.array(p_values),
        "low": values - quantile * standard_errors,
        "high": values + quantile * standard_errors,
    }


def _checked_level(level: float) -> float:
    if not 0.0 < real(level, "level") < 1.0:
        raise errors.ArgumentError(f"level is {level}: pass a probability between 0 and 1, such as 0.95")
    return float(level)


def _student_quantile(level: float, degrees_of_freedom: float) -> float:
    """Returns the magnitude that Student's distribution does not exceed with this probability."""
    outside = 1.0 - level
    low, high = 0.0, 1.0
    while _native.student_two_sided(high, degrees_of_freedom) > outside:
        low, high = high, 2.0 * high
    for _ in range(60):
        middle = (low + high) / 2
        if _native.student_two_sided(middle, degrees_of_freedom) > outside:
            low = middle
        else:
            high = middle
    return high


def _inverse(information: Floats) -> Floats:
    """Inverts an information matrix, and refuses a singular one."""
    sizes = np.sqrt(np.diag(information))
    scaled = information / np.outer(sizes, sizes)
    eigenvalues = np.linalg.eigvalsh(scaled)
    if not eigenvalues[0] * _MAX_CONDITION > eigenvalues[-1]:
        raise errors.of_kind(
            "Regression",
            "the features are linear functions of each other, as all categories of a column are, or the "
            "classes can be told apart without an error: leave out features, or train with a penalty "
            "(a smaller C)",
        )
    inverse: Floats = np.linalg.inv(scaled) / np.outer(sizes, sizes)
    return inverse
