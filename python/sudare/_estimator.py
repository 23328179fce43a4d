"""What estimators share: scikit-learn's conventions, by its own means where it is installed, and
by those of this file where it is not.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from sudare import errors
from sudare._plain import Floats, floats

_sklearn: Any = None
if not TYPE_CHECKING:
    try:
        import sklearn as _sklearn
        import sklearn.base
        import sklearn.exceptions
        import sklearn.utils
        import sklearn.utils.multiclass
        import sklearn.utils.validation
    except ImportError:
        _sklearn = None

if TYPE_CHECKING or _sklearn is None:
    _S = TypeVar("_S", bound="_Parameters")

    class _Parameters:
        """The arguments of a constructor, as attributes of their names."""

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            """The parameters by name."""
            return {name: getattr(self, name) for name in _defaults(self)}

        def set_params(self: _S, **params: Any) -> _S:
            """Sets parameters by name."""
            names = _defaults(self)
            for name, value in params.items():
                if name not in names:
                    raise errors.ArgumentError(
                        f"{type(self).__name__} has no parameter {name!r}: choose from "
                        f"{', '.join(names)}"
                    )
                setattr(self, name, value)
            return self

    class _NotFitted(errors.NotFittedError):
        """An estimator that is not fitted."""

else:

    class _Parameters(_sklearn.base.BaseEstimator):
        """The arguments of a constructor, as attributes of their names."""

    class _NotFitted(errors.NotFittedError, _sklearn.exceptions.NotFittedError):
        """An estimator that is not fitted, to both packages."""


def _defaults(estimator: object) -> dict[str, Any]:
    parameters = inspect.signature(type(estimator)).parameters
    return {name: parameter.default for name, parameter in parameters.items()}


class Estimator(_Parameters):
    """Checks data, and remembers the features that it was fitted to."""

    n_features_in_: int
    """Features of the table that it was fitted to."""
    feature_names_in_: npt.NDArray[np.object_]
    """Their names, if they are strings."""

    _type: Literal["classifier", "regressor"]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.estimator_type = self._type
        tags.target_tags.required = True
        if self._type == "classifier":
            tags.classifier_tags = _sklearn.utils.ClassifierTags(multi_class=True)
        else:
            tags.regressor_tags = _sklearn.utils.RegressorTags()
        return tags

    def __repr__(self) -> str:
        changed = (
            f"{name}={getattr(self, name)!r}"
            for name, default in _defaults(self).items()
            if repr(getattr(self, name)) != repr(default)
        )
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")

    def _expect_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            name = type(self).__name__
            raise _NotFitted(
                f"this {name} has no coefficients yet: call fit, or load with what a server has "
                "computed"
            )

    def _training_data(
        self, X: object, y: object, *, numeric: bool
    ) -> tuple[Floats, npt.NDArray[Any]]:
        """Rows and their targets, checked. Remembers the features."""
        expect_numbers(X)
        if _sklearn is None:
            rows, targets = self._own_rows(X, reset=True), column(y)
            expect_one_a_row(len(rows), len(targets))
            return rows, floats(targets) if numeric else self._labels(targets)
        with _own_errors():
            validate = _sklearn.utils.validation.validate_data
            rows, targets = validate(self, X, y, dtype=np.float64, order="C", y_numeric=numeric)
            if not numeric:
                _sklearn.utils.multiclass.check_classification_targets(targets)
            return rows, targets.astype(np.float64) if numeric else targets

    def _rows(self, X: object) -> Floats:
        """Rows of the features that this estimator was fitted to."""
        self._expect_fitted()
        expect_numbers(X)
        if _sklearn is None:
            return self._own_rows(X, reset=False)
        with _own_errors():
            validate = _sklearn.utils.validation.validate_data
            rows: Floats = validate(self, X, dtype=np.float64, reset=False)
            return rows

    def _labels(self, y: object) -> npt.NDArray[Any]:
        """Labels of rows that are validated otherwise."""
        labels = column(y)
        missing = [is_missing(label) for label in labels] if labels.dtype.kind == "O" else []
        if any(missing):
            raise errors.MissingValueError(
                f"y has no class for row {missing.index(True)}: give a class for each row, or leave rows "
                "without one out"
            )
        if labels.dtype.kind == "f" and not np.array_equal(labels, np.floor(labels)):
            raise errors.ArgumentError(
                "labels are real numbers, some of them missing or not whole: give a class for each "
                "row, as whole numbers or as text"
            )
        return labels

    def _own_rows(self, X: object, *, reset: bool) -> Floats:
        rows = floats(X)
        names = names_of(X)
        if rows.ndim != 2:
            raise errors.ShapeError(
                f"X has {rows.ndim} axes, two are needed: a row for each sample, a column for each "
                "feature"
            )
        known = getattr(self, "feature_names_in_", None)
        if reset:
            self.n_features_in_ = rows.shape[1]
            if names is not None:
                self.feature_names_in_ = names
            elif known is not None:
                del self.feature_names_in_
        elif rows.shape[1] != self.n_features_in_:
            raise errors.ShapesError(
                f"X has {rows.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input"
            )
        elif names is not None and known is not None and list(names) != list(known):
            raise errors.ArgumentError(
                f"X has the features {', '.join(names)}, this {type(self).__name__} was fitted to "
                f"{', '.join(known)}: give these in their order"
            )
        return rows

    @property
    def _columns(self) -> list[str]:
        """A name for each feature."""
        names = getattr(self, "feature_names_in_", None)
        if names is not None:
            return [str(name) for name in names]
        return [f"x{i}" for i in range(self.n_features_in_)]

    def _set_columns(self, columns: list[str]) -> None:
        """Remembers features that have these names."""
        self.n_features_in_ = len(columns)
        vars(self).pop("feature_names_in_", None)
        if columns != self._columns:
            self.feature_names_in_ = np.asarray(columns, dtype=object)


def names_of(X: object) -> npt.NDArray[np.object_] | None:
    """The names of the columns of a frame, if they are strings."""
    # The columns of a pyarrow table are arrays, not names.
    columns = getattr(X, "column_names", None)
    if columns is None:
        columns = getattr(X, "columns", None)
    if columns is None or not all(isinstance(name, str) for name in columns):
        return None
    return np.asarray(list(columns), dtype=object)


def column(y: object) -> npt.NDArray[Any]:
    """One target for each row."""
    targets = np.asarray(y)
    if targets.ndim == 2 and targets.shape[1] == 1:
        targets = targets.ravel()
    if targets.ndim != 1:
        raise errors.ShapeError(
            f"y has the shape {targets.shape}: one target for each row is needed"
        )
    return targets


def expect_one_a_row(rows: int, targets: int) -> None:
    """Refuses more or fewer targets than rows."""
    if targets != rows:
        raise errors.ShapesError(f"{rows} rows and {targets} targets: give one target a row")


def expect_numbers(X: object) -> None:
    """Refuses arrays that NumPy would turn into numbers by their unit or by what bytes spell."""
    kind = getattr(getattr(X, "dtype", None), "kind", None)
    if kind is not None and kind in "mMSV":
        raise errors.DtypeError(
            f"X holds values of type {getattr(X, 'dtype', None)}, and numbers are needed: give "
            "numbers, such as seconds or days since a date"
        )


def is_missing(value: object) -> bool:
    """Whether a value stands for none: None, NaN, or a missing value of pandas."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))


def weights_of_rows(weights: object, rows: int) -> Floats:
    """What each row counts in a score; all the same if no weights are given."""
    if weights is None:
        return np.ones(rows)
    found = floats(weights)
    if found.shape != (rows,):
        raise errors.ShapesError(
            f"sample_weight has the shape {found.shape}, and there are {rows} rows: give one weight a row"
        )
    if found.min() < 0.0 or not found.any():
        raise errors.ArgumentError(
            "sample_weight has negative weights, or zeros only: give weights of at least 0, one of "
            "them positive"
        )
    return found


@contextmanager
def _own_errors() -> Iterator[None]:
    """What scikit-learn refuses, as errors of this package."""
    try:
        yield
    except TypeError as error:
        raise errors.DtypeError(str(error)) from error
    except ValueError as error:
        raise errors.ArgumentError(str(error)) from error
