"""The common part of estimators: scikit-learn's conventions, by scikit-learn where it is installed."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from sudare import errors
from sudare._frames import expect_numbers, is_missing, names_of
from sudare._plain import Floats, floats, plain_array
from sudare._shown import facts_html

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
        """The arguments of a constructor, as attributes."""

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            """Returns the parameters by name."""
            return {name: getattr(self, name) for name in _defaults(self)}

        def set_params(self: _S, **params: Any) -> _S:
            """Sets parameters by name."""
            names = _defaults(self)
            for name, value in params.items():
                if name not in names:
                    raise errors.ArgumentError(
                        f"{type(self).__name__} has no parameter {name!r}: choose from {', '.join(names)}"
                    )
                setattr(self, name, value)
            return self

        # scikit-learn has a property.
        if not TYPE_CHECKING:

            def _repr_html_(self) -> str:
                shown = {name: repr(value) for name, value in self.get_params().items()}
                return facts_html(type(self).__name__, shown)

    class _NotFitted(errors.NotFittedError):
        """An estimator that is not fitted."""

else:

    class _Parameters(_sklearn.base.BaseEstimator):
        """The arguments of a constructor, as attributes."""

    class _NotFitted(errors.NotFittedError, _sklearn.exceptions.NotFittedError):
        """An estimator that is not fitted, for both packages."""


def _defaults(estimator: object) -> dict[str, Any]:
    parameters = inspect.signature(type(estimator)).parameters
    return {name: parameter.default for name, parameter in parameters.items()}


class Estimator(_Parameters):
    """An estimator that checks data, and remembers its features."""

    n_features_in_: int
    """The number of features that it was fitted to."""
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
                f"this {name} has no coefficients yet: call fit, or decrypt with the result of a server"
            )

    def _training_data(
        self, X: object, y: object, *, numeric: bool
    ) -> tuple[Floats, npt.NDArray[Any]]:
        """Checks rows and their targets, and remembers the features."""
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
        """Checks rows of the features that this estimator was fitted to."""
        self._expect_fitted()
        expect_numbers(X)
        if _sklearn is None:
            return self._own_rows(X, reset=False)
        with _own_errors():
            validate = _sklearn.utils.validation.validate_data
            rows: Floats = validate(self, X, dtype=np.float64, reset=False)
            return rows

    def _labels(self, y: object) -> npt.NDArray[Any]:
        """Checks the labels of rows."""
        labels = column(y)
        missing = [is_missing(label) for label in labels] if labels.dtype.kind == "O" else []
        if any(missing):
            raise errors.of_kind("MissingValue",
                f"y has no class for row {missing.index(True)}: pass a class for each row, or leave out rows "
                "without one"
            )
        if labels.dtype.kind == "f" and not np.array_equal(labels, np.floor(labels)):
            raise errors.ArgumentError(
                "some labels are missing or not whole numbers: pass a class for each row, as whole numbers "
                "or as text"
            )
        return labels

    def _own_rows(self, X: object, *, reset: bool) -> Floats:
        rows = floats(X)
        names = names_of(X)
        if rows.ndim != 2:
            raise errors.ShapeError(
                f"X has {rows.ndim} axes instead of 2: pass a row for each sample and a column for each "
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
            raise errors.of_kind(
                "Shapes",
                f"X has {rows.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input"
            )
        elif names is not None and known is not None and list(names) != list(known):
            raise errors.ArgumentError(
                f"X has the features {', '.join(names)}, but this {type(self).__name__} was fitted to "
                f"{', '.join(known)}: pass these in their order"
            )
        return rows

    @property
    def _columns(self) -> list[str]:
        """The names of features."""
        names = getattr(self, "feature_names_in_", None)
        if names is not None:
            return [str(name) for name in names]
        return [f"x{i}" for i in range(self.n_features_in_)]

    def _set_columns(self, columns: list[str]) -> None:
        """Remembers features with these names."""
        self.n_features_in_ = len(columns)
        vars(self).pop("feature_names_in_", None)
        if columns != self._columns:
            self.feature_names_in_ = np.asarray(columns, dtype=object)


def column(y: object) -> npt.NDArray[Any]:
    """Checks that there is one axis of targets."""
    targets = plain_array(y, "y")
    if targets.ndim == 2 and targets.shape[1] == 1:
        targets = targets.ravel()
    if targets.ndim != 1:
        raise errors.ShapeError(
            f"y has the shape {targets.shape}: pass one target for each row"
        )
    return targets


def expect_one_a_row(rows: int, targets: int) -> None:
    """Refuses a number of targets that differs from the number of rows."""
    if targets != rows:
        raise errors.of_kind("Shapes", f"{rows} rows, but {targets} targets: pass one target for each row")


def weights_of_rows(weights: object, rows: int) -> Floats:
    """Returns the weight of each row in a score, 1 by default."""
    found = given_weights(weights, rows)
    return np.ones(rows) if found is None else found


def given_weights(weights: object, rows: int) -> Floats | None:
    """Returns the weight of each row, or `None` if no weights are given."""
    if weights is None:
        return None
    found = floats(weights)
    if found.shape != (rows,):
        raise errors.of_kind(
            "Shapes",
            f"sample_weight has the shape {found.shape}, but there are {rows} rows: pass one weight for each"
        )
    if found.min() < 0.0 or not found.any():
        raise errors.ArgumentError(
            "sample_weight has negative weights, or only zeros: pass weights of at least 0, one of them "
            "positive"
        )
    return found


@contextmanager
def _own_errors() -> Iterator[None]:
    """Converts errors of scikit-learn to errors of this package."""
    try:
        yield
    except errors.Error:
        raise
    except TypeError as error:
        raise errors.DtypeError(str(error)) from error
    except (AttributeError, LookupError, OverflowError, RuntimeError, ValueError) as error:
        raise errors.ArgumentError(str(error)) from error
