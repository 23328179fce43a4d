"""Linear models in scikit-learn's conventions, fitted to encrypted tables.

>>> from sudare.linear_model import LogisticRegression
>>> model = LogisticRegression(mode="simulate")
>>> model.fit([[0.0, 1.0], [1.0, 3.0], [2.0, 2.0], [3.0, 5.0]], ["no", "no", "yes", "yes"])
LogisticRegression(mode='simulate')
>>> print(*model.predict([[0.5, 2.0], [2.5, 4.0]]))
no yes

`fit` does everything in one process, in the clear with `mode="simulate"`. Owner and server do it
apart in four steps:

| who | does |
|---|---|
| owner | `keys = model.plan(n_rows, n_features).make_keys()` |
| owner | `table = model.encrypt(X, y, keys.public)` |
| server | `result = train(table, keys.evaluation)`; of least squares `stats.compute` |
| owner | `model.load(result, keys.secret)`, which fits it |

Tables, keys and results are those of the command `sudare`, which may do any of the steps.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from sudare import _native, _plot, errors
from sudare._estimator import Estimator
from sudare._native import EvaluationKeys, PublicKey, Result, SecretKey, Table, TablePlan
from sudare._plain import Floats, to_native, whole
from sudare._progress import Progress, callback
from sudare.stats import Plan

__all__ = ["LinearRegression", "LogisticRegression", "Ridge", "train"]

_M = TypeVar("_M", bound="_Model")

_MAX_CONDITION = 1e5
"""Decrypted covariances are off by `1e-7` or so, and coefficients by up to this times as much."""


def train(
    table: Table,
    keys: EvaluationKeys,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    history: bool = False,
    progress: Progress = None,
) -> Result:
    """Trains on an encrypted table: for the server, which has the evaluation keys only.

    `checkpoint` is a folder for the states after the last two iterations, those of `sudare train`.
    With `resume`, training goes on from the last one there, to the same model bit for bit, or
    begins if there is none; with `overwrite` it begins whatever is there. With `history` the model
    has the weights after each iteration as well, 0.2 to 1 MB each, as with `sudare train --history`.
    """
    report = callback(progress)
    trainer = _native.Trainer(
        table,
        keys,
        checkpoint=checkpoint,
        resume=resume,
        overwrite=overwrite,
        history=history,
    )
    try:
        while trainer.iteration < trainer.iterations:
            trainer.step()
            if report is not None:
                report("training", trainer.iteration, trainer.iterations)
        return trainer.model()
    finally:
        # The traceback of an error does not keep the folder of states in use.
        del trainer


class _Model(Estimator):
    """What the owner of a table does."""

    mode: Literal["execute", "simulate"]
    progress: Progress
    history = False

    _kind: str
    """What results of its tables hold."""

    def plan(self, n_rows: int, n_features: int) -> Plan:
        """The plan of a fit to a table of this shape: what it takes, and keys for it."""
        return Plan(self._plan(whole(n_rows, "n_rows"), whole(n_features, "n_features")))

    def fit(self: _M, X: object, y: object) -> _M:
        """Fits to rows and their targets."""
        table = self._table(X, y)
        n_rows = table["numbers"][0][0]
        plan, report = self._plan(n_rows, self.n_features_in_), callback(self.progress)
        if self.mode == "simulate":
            simulated = _native.simulate(plan, **table, history=self.history, progress=report)
            self._set(simulated)
        elif self.mode == "execute":
            plan.parameters.warn_if_insecure(2)
            public, evaluation, secret = _native.generate_keys(plan, report)
            encrypted = plan.encrypt(public, **table, progress=report)
            self._set(self._compute(encrypted, evaluation).decrypt(secret).values())
        else:
            raise errors.ArgumentError(
                f"mode {self.mode!r} is neither 'execute' nor 'simulate': choose one of them"
            )
        return self

    def encrypt(
        self,
        X: object,
        y: object,
        key: PublicKey,
        *,
        path: str | os.PathLike[str] | None = None,
        overwrite: bool = False,
    ) -> Table:
        """Rows and their targets, encrypted for the plan that the key was made for; with `path` they
        are written to that file and not held in memory."""
        table, report = self._table(X, y), callback(self.progress)
        return TablePlan.of(key).encrypt(
            key, **table, path=path, overwrite=overwrite, progress=report
        )

    def load(self: _M, result: Result, key: SecretKey) -> _M:
        """Takes what a server has computed from a table of `encrypt`, which fits the estimator.

        Classes are not in it: an estimator that did not encrypt the table calls them 0 and 1.
        Coefficients carry errors that depend on the secret key: `sudare decrypt --share` releases
        those of keys that `sudare keygen --share` made.
        """
        values = result.decrypt(key).values()
        if values["kind"] != self._kind:
            raise errors.OtherJobError(
                f"the result holds {values['kind']}, but a {type(self).__name__} needs "
                f"{self._kind}: give the result of a table that it encrypted"
            )
        self._set(values)
        return self

    def _plan(self, n_rows: int, n_features: int) -> TablePlan:
        raise NotImplementedError

    def _table(self, X: object, y: object) -> dict[str, Any]:
        """Columns and numbers, and what else native code needs of a table, checked."""
        raise NotImplementedError

    def _compute(self, table: Table, keys: EvaluationKeys) -> Result:
        """What the server does."""
        raise NotImplementedError

    def _set(self, values: dict[str, Any]) -> None:
        """Takes a decrypted result."""
        raise NotImplementedError

    def _target(self, y: object) -> str:
        """A name for the target that no feature has."""
        name = getattr(y, "name", None)
        target = name if isinstance(name, str) and name else "y"
        while target in self._columns:
            target += "_"
        return target


class LogisticRegression(_Model):
    """Logistic regression of two classes, trained under encryption.

    Training is Nesterov's accelerated gradient descent with a polynomial for the sigmoid, for as
    many iterations as are asked for: on the server nobody sees whether it has converged. Features
    are divided by their largest magnitude, which `coef_` undoes.

    Parameters
    ----------
    max_iter : iterations, of which the first two are one step.
    batch_size : most rows of a batch, or all rows if `None`. Batches are taken in turn, of rows in
        an order that only their owner knows.
    learning_rate : step size of the first iteration; iteration `t` takes `learning_rate / t`.
    constant_rate : whether all iterations take the same step size.
    alpha : weight of the L2 penalty: half the sum of the squares of the weights of scaled features,
        times `alpha`, is added to the mean loss.
    class_weight : what the loss of a row is multiplied by, by its class: `None` for 1, `"balanced"`
        so that both classes count alike, or weights by class, where a class that is left out has
        1. Weights are divided by their mean over all rows, so that only their ratio counts and
        `learning_rate` and `alpha` mean what they do without. The server sees that there are
        weights, and whether they are balanced, but not the weights. The encrypted table is twice as
        large; weights of rows may be 8 at most in each batch (root mean square).
    sigmoid_degree : degree of the polynomial: 3, 5 or 7.
    sigmoid_range : inner products of a row and the weights that it is for, in magnitude; more for
        rows of many features.
    mode : what `fit` does: `"execute"` makes keys, encrypts, trains and decrypts, `"simulate"` the
        same steps in the clear, to choose parameters by.
    random_state : decides the order of rows. `None` is an order that nobody can know; of a number,
        whoever guesses it knows which rows are in which batch: for simulations and tests.
    workers : among how many each batch can be divided, for `sudare.distributed.train`.
    scorable : whether the model of a server may score encrypted rows before it is decrypted: see
        `sudare.scoring`. Takes a level more.
    history : whether `fit` keeps the weights after each iteration in `history_`, for `plot`.
    progress : called as `progress(step, done, total)`; `True` for bars of tqdm.
    insecure_log_n : `log2` of the degree of a ring to take in place of the secure one, for tests.
    """

    classes_: npt.NDArray[Any]
    """The two classes, 0 and 1 if another estimator encrypted the table. Scores are those of the
    second."""
    coef_: Floats
    """Weights of the features, of shape `(1, n_features)`."""
    intercept_: Floats
    """Of shape `(1,)`."""
    n_iter_: int
    """Iterations done."""
    log2_error_: float
    """After a simulation: `log2` of the standard deviation of the error that encryption would
    cause in a weight of a feature that is scaled to [-1, 1], without what bootstrapping adds."""
    history_: Floats
    """Intercept and weights after each iteration, of shape `(n_iter_, 1 + n_features)`, where they
    were kept: with `history`, or by a server with `train(..., history=True)` or
    `sudare train --history`."""

    _type = "classifier"
    _kind = "logistic regression"

    def __init__(
        self,
        *,
        max_iter: int = 5,
        batch_size: int | None = None,
        learning_rate: float = 10.0,
        constant_rate: bool = False,
        alpha: float = 0.0,
        class_weight: Literal["balanced"] | Mapping[Any, float] | None = None,
        sigmoid_degree: int = 3,
        sigmoid_range: float = 8.0,
        mode: Literal["execute", "simulate"] = "execute",
        random_state: Any = None,
        workers: int | None = None,
        scorable: bool = False,
        history: bool = False,
        progress: Progress = None,
        insecure_log_n: int | None = None,
    ) -> None:
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.constant_rate = constant_rate
        self.alpha = alpha
        self.class_weight = class_weight
        self.sigmoid_degree = sigmoid_degree
        self.sigmoid_range = sigmoid_range
        self.mode = mode
        self.random_state = random_state
        self.workers = workers
        self.scorable = scorable
        self.history = history
        self.progress = progress
        self.insecure_log_n = insecure_log_n

    def _plan(self, n_rows: int, n_features: int) -> TablePlan:
        for name in ("max_iter", "batch_size", "sigmoid_degree", "workers"):
            if getattr(self, name) is not None:
                whole(getattr(self, name), name)
        return TablePlan.train(
            n_rows,
            n_features,
            iterations=self.max_iter,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            constant_rate=self.constant_rate,
            l2=self.alpha,
            sigmoid_degree=self.sigmoid_degree,
            sigmoid_range=self.sigmoid_range,
            workers=self.workers,
            class_weights=self._class_weights(),
            scorable=self.scorable,
            insecure_log_n=self.insecure_log_n,
        )

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> LogisticRegression:
        """The model in a JSON file of `sudare decrypt` or `save`; its classes are 0 and 1."""
        values = _native.read_model(path)
        model = cls(max_iter=values["iterations"])
        model._set(values)
        return model

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Writes the model to a JSON file for `sudare predict`, where 1 is the second class."""
        self._expect_fitted()
        _native.write_model(path, json.dumps(self._model), overwrite)

    def _table(self, X: object, y: object) -> dict[str, Any]:
        rows, targets = self._training_data(X, y, numeric=False)
        classes, members = np.unique(targets, return_inverse=True)
        if len(classes) > 2:
            raise errors.ArgumentError(
                "Only binary classification is supported. The type of the target is multiclass: "
                f"{len(classes)} classes were found; take a model for each, as "
                "sklearn.multiclass.OneVsRestClassifier does"
            )
        if len(classes) < 2:
            raise errors.ArgumentError(
                f"all rows are of one class, {classes[0]!r}, but two are needed to tell apart"
            )
        self.classes_ = classes
        return {
            "columns": self._columns,
            "numbers": to_native(rows),
            "target": self._target(y),
            "labels": to_native(members.astype(np.float64)),
            "order": self._order(),
            "class_weights": self._given_weights(),
        }

    def _class_weights(self) -> str | None:
        """Where class weights come from, as the server sees it."""
        found = self.class_weight
        if found is None or isinstance(found, str) and found == "balanced":
            return found
        if isinstance(found, Mapping):
            return "given"
        raise errors.ArgumentError(
            f"class_weight is {found!r}: None, 'balanced' or weights by class are needed"
        )

    def _given_weights(self) -> list[float] | None:
        """The weights of both classes, if they are given."""
        if self._class_weights() != "given":
            return None
        given: Mapping[Any, float] = self.class_weight  # type: ignore[assignment]
        classes = self.classes_.tolist()
        unknown = [label for label in given if label not in classes]
        if unknown:
            raise errors.ArgumentError(
                f"class_weight has {unknown[0]!r}, which is no class: these are {classes}"
            )
        return [float(given.get(label, 1.0)) for label in classes]

    def _order(self) -> bytes | None:
        """What decides the order of rows."""
        state = self.random_state
        if state is None:
            return None
        generator = state if hasattr(state, "bytes") else np.random.default_rng(state)
        return bytes(generator.bytes(32))

    def _compute(self, table: Table, keys: EvaluationKeys) -> Result:
        return train(table, keys, history=self.history, progress=self.progress)

    def _set(self, values: dict[str, Any]) -> None:
        self._set_columns(values["columns"])
        weights = np.asarray(values["weights"])
        self.coef_ = (weights[1:] / np.asarray(values["divisors"]))[np.newaxis]
        self.intercept_ = weights[:1]
        self.n_iter_ = values["iterations"]
        if not hasattr(self, "classes_"):
            self.classes_ = np.array([0, 1])
        vars(self).pop("history_", None)
        if "history" in values:
            self.history_ = np.asarray(values["history"]) / np.append(1.0, values["divisors"])
        vars(self).pop("log2_error_", None)
        if "log2_error" in values:
            self.log2_error_ = values.pop("log2_error")
        self._model = values

    def decision_function(self, X: object) -> Floats:
        """The score of each row: above 0 where the second class is predicted."""
        rows = self._rows(X)
        scores: Floats = rows @ self.coef_[0] + self.intercept_[0]
        return scores

    def predict(self, X: object) -> npt.NDArray[Any]:
        """The class of each row."""
        second = self.decision_function(X) > 0
        classes: npt.NDArray[Any] = self.classes_[second.astype(int)]
        return classes

    def predict_proba(self, X: object) -> Floats:
        """The probabilities of both classes for each row."""
        probabilities: Floats = np.exp(self.predict_log_proba(X))
        return probabilities

    def predict_log_proba(self, X: object) -> Floats:
        """The logarithms of the probabilities of both classes for each row."""
        scores = self.decision_function(X)
        logarithms: Floats = -np.logaddexp(0.0, np.column_stack([scores, -scores]))
        return logarithms

    def score(self, X: object, y: object) -> float:
        """The accuracy: the part of rows whose class is predicted."""
        return float(np.mean(self.predict(X) == np.asarray(y).ravel()))

    def plot(self, X: object, y: object, *, axes: Any = None) -> list[Any]:
        """Draws the ROC curve for rows whose classes are known and, before it, the loss after each
        iteration if the model has `history_`.

        Takes matplotlib. Returns its axes, one or two, which are new unless `axes` are given.
        """
        rows = self._rows(X)
        second = np.asarray(y).ravel() == self.classes_[1]
        if len(second) != len(rows) or not 0 < second.sum() < len(second):
            raise errors.ArgumentError(
                f"{len(rows)} rows and {len(second)} classes, {second.sum()} of them "
                f"{self.classes_[1]!r}: a curve takes a class for each row, and rows of both"
            )
        losses = [
            _plot.log_loss(rows @ weights[1:] + weights[0], second)
            for weights in getattr(self, "history_", ())
        ]
        drawn = _plot.axes(2 if losses else 1, axes)
        if losses:
            _plot.draw_losses(drawn[0], losses)
        _plot.draw_roc(drawn[-1], rows @ self.coef_[0] + self.intercept_[0], second)
        return drawn


class _LeastSquares(_Model):
    """Coefficients from decrypted means and covariances, of which the target's are the last: also
    of a table that was encrypted otherwise."""

    coef_: Floats
    """Of each feature, of shape `(n_features,)`."""
    intercept_: float
    """Predicted where all features are 0."""

    _type = "regressor"
    _kind = "statistics"

    def __init__(
        self,
        *,
        fit_intercept: bool = True,
        mode: Literal["execute", "simulate"] = "execute",
        progress: Progress = None,
        insecure_log_n: int | None = None,
    ) -> None:
        self.fit_intercept = fit_intercept
        self.mode = mode
        self.progress = progress
        self.insecure_log_n = insecure_log_n

    def _plan(self, n_rows: int, n_features: int) -> TablePlan:
        return TablePlan.statistics(n_rows, n_features + 1, insecure_log_n=self.insecure_log_n)

    def _penalty(self) -> float:
        """What is added to sums of squares of features."""
        return 0.0

    def _table(self, X: object, y: object) -> dict[str, Any]:
        rows, targets = self._training_data(X, y, numeric=True)
        if len(rows) < 2:
            raise errors.ArgumentError("1 sample has no covariances: at least 2 are needed")
        self._encrypted_target = self._target(y)
        columns = [*self._columns, self._encrypted_target]
        return {"columns": columns, "numbers": to_native(np.column_stack([rows, targets]))}

    def _compute(self, table: Table, keys: EvaluationKeys) -> Result:
        return table.compute(keys, callback(self.progress))

    def _set(self, values: dict[str, Any]) -> None:
        target = values["columns"][-1]
        expected = getattr(self, "_encrypted_target", target)
        if target != expected:
            raise errors.OtherJobError(
                f"the last column is {target!r}, but {expected!r} is the target: give the result "
                "of a table that this estimator encrypted"
            )
        self._set_columns(values["columns"][:-1])
        count = values["rows"]
        mean, covariance = np.asarray(values["mean"]), np.asarray(values["covariance"])
        products = (count - 1) * covariance
        if not self.fit_intercept:
            products += count * np.outer(mean, mean)
        # A feature that is constant, as the intercept is, or 0 has no coefficient.
        sizes = np.sqrt(np.diag(products)[:-1])
        used = np.flatnonzero(sizes)
        sizes = sizes[used]
        matrix = products[np.ix_(used, used)] / np.outer(sizes, sizes)
        matrix += np.diag(self._penalty() / sizes**2)
        self._check_condition(matrix)
        self.coef_ = np.zeros(len(mean) - 1)
        self.coef_[used] = np.linalg.solve(matrix, products[used, -1] / sizes) / sizes
        centre = float(mean[-1] - self.coef_ @ mean[:-1])
        self.intercept_ = centre if self.fit_intercept else 0.0

    def _check_condition(self, matrix: Floats) -> None:
        eigenvalues = np.linalg.eigvalsh(matrix)
        if len(eigenvalues) and eigenvalues[0] * _MAX_CONDITION < eigenvalues[-1]:
            condition = eigenvalues[-1] / max(eigenvalues[0], np.finfo(float).tiny)
            raise errors.RegressionError(
                "the features are nearly linear functions of each other (condition number "
                f"{condition:.1e}, at most {_MAX_CONDITION:.0e}): leave some out, or take Ridge "
                "with a larger alpha"
            )

    def predict(self, X: object) -> Floats:
        """The target of each row."""
        rows = self._rows(X)
        targets: Floats = rows @ self.coef_ + self.intercept_
        return targets

    def score(self, X: object, y: object) -> float:
        """R squared: the part of the targets' variance that is predicted."""
        targets = np.asarray(y, dtype=np.float64).ravel()
        residual = float(np.sum((targets - self.predict(X)) ** 2))
        spread = float(np.sum((targets - targets.mean()) ** 2))
        # Constant targets have no variance; as scikit-learn has it.
        return 1.0 - residual / spread if spread else float(residual == 0.0)


class LinearRegression(_LeastSquares):
    """Least squares of an encrypted table.

    The server computes means and covariances, from which their owner solves for the coefficients:
    to some six digits where features are well conditioned. Features that are nearly linear
    functions of each other are refused.

    Parameters
    ----------
    fit_intercept : whether predictions have a constant part.
    mode : what `fit` does: `"execute"` makes keys, encrypts, computes and decrypts, `"simulate"`
        the same steps in the clear.
    progress : called as `progress(step, done, total)`; `True` for bars of tqdm.
    insecure_log_n : `log2` of the degree of a ring to take in place of the secure one, for tests.
    """


class Ridge(_LeastSquares):
    """Least squares of an encrypted table, with `alpha` times the squares of the coefficients
    added: as `LinearRegression`, whose table and result it can take.

    Parameters
    ----------
    alpha : weight of the squares of the coefficients, at least 0.
    fit_intercept : whether predictions have a constant part, whose square is not added.
    mode : what `fit` does: `"execute"` makes keys, encrypts, computes and decrypts, `"simulate"`
        the same steps in the clear.
    progress : called as `progress(step, done, total)`; `True` for bars of tqdm.
    insecure_log_n : `log2` of the degree of a ring to take in place of the secure one, for tests.
    """

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        fit_intercept: bool = True,
        mode: Literal["execute", "simulate"] = "execute",
        progress: Progress = None,
        insecure_log_n: int | None = None,
    ) -> None:
        super().__init__(
            fit_intercept=fit_intercept,
            mode=mode,
            progress=progress,
            insecure_log_n=insecure_log_n,
        )
        self.alpha = alpha

    def _penalty(self) -> float:
        if not 0.0 <= self.alpha < np.inf:
            raise errors.ArgumentError(
                f"alpha is {self.alpha}, but it must be finite and not negative"
            )
        return self.alpha
