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
| owner | `keys = model.plan(X, y).make_keys()` |
| owner | `table = model.encrypt(X, y, keys.secret)` |
| server | `result = train(table, keys.evaluation)`; of least squares `stats.compute` |
| owner | `model.load(result, keys.secret)`, which fits it |

`plan(n_rows, n_features)` makes keys for any table with at most as many rows. A
`LogisticRegression` is calibrated by `load(result, keys.secret, X, y)`.

Tables, keys and results are those of the command `sudare`, which may do any of the steps.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import numpy as np
import numpy.typing as npt

from sudare import _native, _plot, errors
from sudare._coding import Cells, are_text, classes_of, has_categories, text_of
from sudare._coding import read as read_cells
from sudare._context import expected
from sudare._estimator import Estimator, column, expect_one_a_row, names_of, weights_of_rows
from sudare._native import Data, EvaluationKeys, PublicKey, Result, SecretKey, Table, TablePlan
from sudare._plain import Floats, floats, to_native, whole
from sudare._plan import as_list
from sudare._progress import Callback, Progress, callback
from sudare.stats import Plan

__all__ = ["LinearRegression", "LogisticRegression", "Ridge", "train"]

_L = TypeVar("_L", bound="_LeastSquares")
_M = TypeVar("_M", bound="_Model")

_USUAL_RANGE = 8.0
"""Of the sigmoid where no table is at hand."""

_GOOD_RANGE = 16.0
"""Of the sigmoid up to which its polynomials are close to it."""

_MAX_CONDITION = 1e5
"""Decrypted covariances are off by `1e-7` or so, and coefficients by up to this times as much."""


def train(
    tables: Table | Sequence[Table],
    keys: EvaluationKeys,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    history: bool = False,
    progress: Progress = None,
) -> Result:
    """Trains on an encrypted table, or on those of several owners together: for the server, which
    has the evaluation keys only.

    Several tables take keys that were made for several owners, and the table of each.

    `checkpoint` is a folder for the states after the last two iterations, those of `sudare train`.
    With `resume`, training goes on from the last one there, to the same model bit for bit, or
    begins if there is none; with `overwrite` it begins whatever is there. With `history` the model
    has the weights after each iteration as well, 0.2 to 1 MB each, as with `sudare train --history`.
    """
    report = callback(progress)
    trainer = _native.Trainer(
        as_list(tables),
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
    share_bits: int | None
    history = False
    calibrate = False

    _raw = False
    """Whether the coefficients were decrypted for the owner of the key alone."""

    _kind: str
    """What results of its tables hold."""

    def fit(self: _M, X: object, y: object) -> _M:
        """Fits to rows and their targets."""
        data, report = self._data(X, y), callback(self.progress)
        plan, options = self._plan_for(data, report), self._options()
        if self.mode == "simulate":
            simulated = _native.simulate(
                plan,
                data,
                **options,
                history=self.history and self.share_bits is None,
                calibrate=self.calibrate and self.share_bits is None,
                progress=report,
            )
            self._set(simulated)
            self._raw = False
        elif self.mode == "execute":
            plan.parameters.warn_if_insecure(2)
            _, evaluation, secret = _native.generate_keys(plan, report)
            encrypted = plan.encrypt(secret, data, **options, progress=report)
            decrypted = self._compute(encrypted, evaluation).decrypt(secret, self._share_bits())
            calibrated = self.calibrate and self.share_bits is None
            self._set(decrypted.calibrated(data) if calibrated else decrypted.values())
            self._raw = self.share_bits is None
        else:
            raise errors.ArgumentError(
                f"mode {self.mode!r} is neither 'execute' nor 'simulate': choose one of them"
            )
        return self

    def encrypt(
        self,
        X: object,
        y: object,
        key: PublicKey | SecretKey,
        *,
        expect: str | None = None,
        path: str | os.PathLike[str] | None = None,
        overwrite: bool = False,
    ) -> Table:
        """Rows and their targets, at most as many as the key was made for, encrypted for its plan;
        with `path` they are written to that file and not held in memory. Under the secret key they take
        half the bytes that they take under the public one. With `expect`, any other public key than
        that of this digest is refused."""
        key = expected(key, expect)
        data, report = self._data(X, y), callback(self.progress)
        table = TablePlan.of(key).encrypt(
            key, data, **self._options(), path=path, overwrite=overwrite, progress=report
        )
        self._encrypted(data, key)
        return table

    def _decrypt(
        self,
        result: Result,
        key: SecretKey,
        share: int | None,
        table: Table | Sequence[Table] | None,
        *,
        assume_range: bool = False,
    ) -> _native.Decrypted:
        """Takes what a server has computed of these tables, to be shared to so many bits, if any are
        given."""
        share = self._share_bits() if share is None else whole(share, "share")
        tables = None if table is None else as_list(table)
        decrypted = result.decrypt(key, share, assume_range=assume_range, tables=tables)
        values = decrypted.values()
        if values["kind"] != self._kind:
            raise errors.OtherJobError(
                f"the result holds {values['kind']}, but a {type(self).__name__} needs "
                f"{self._kind}: give the result of a table that it encrypted"
            )
        self._set(values)
        self._raw = share is None
        return decrypted

    def _share_bits(self) -> int | None:
        """Bits to which coefficients are released, if they are."""
        return None if self.share_bits is None else whole(self.share_bits, "share_bits")

    def _warn_if_raw(self, calls: int) -> None:
        """Warns before coefficients leave that tell about the secret key."""
        if self._raw and self.__sklearn_is_fitted__():
            warnings.warn(
                "these coefficients carry errors that tell about the secret key: keep them where it "
                f"is, or give others those of {type(self).__name__}(share_bits=...), or of "
                "load(..., share=...) with keys of such a plan",
                errors.SecurityWarning,
                stacklevel=calls + 1,
            )

    def __reduce_ex__(self, protocol: Any) -> Any:
        self._warn_if_raw(2)
        return super().__reduce_ex__(protocol)

    def _plan_for(self, data: Data, report: Callback | None) -> TablePlan:
        """The plan of a fit to a table."""
        raise NotImplementedError

    def _data(self, X: object, y: object) -> Data:
        """A table as native code has it, checked."""
        raise NotImplementedError

    def _options(self) -> dict[str, Any]:
        """What else encrypting the table takes."""
        return {}

    def _encrypted(self, data: Data, key: PublicKey | SecretKey) -> None:
        """Remembers a table that is encrypted."""

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
    """Logistic regression of two or more classes, trained under encryption.

    Training is Nesterov's accelerated gradient descent with a polynomial for the sigmoid, for a
    fixed number of iterations: on the server nobody sees whether it has converged. Before they are
    encrypted, columns are whitened, so that a few iterations come close to the model of
    scikit-learn's `LogisticRegression` with the same `C` on standardised columns, and afterwards
    the owner calibrates probabilities; `coef_` and `intercept_` are those of the columns as they
    were. Of more than two classes, each is told from all others by a model of its own, and their
    scores are compared by the softmax.

    Rows may be those of a data frame whose columns are numbers, truth values, or categories as
    text: a column of categories is as many features as it has different values, 1 for rows with the
    value and 0 for others. What is `None` of the parameters is chosen by the shape of the table.

    Parameters
    ----------
    preparation : how columns are prepared by whoever encrypts: `"whiten"` for standardised columns
        in the basis of their principal components, each divided by its deviation;
        `"standardize"`, which takes more iterations the more columns depend on each other;
        `"scale"`, divided by their largest magnitude, as in the papers on encrypted training,
        whose step sizes are then taken: with `alpha=0` and `calibrate=False` it is their training.
    C : inverse strength of the L2 penalty on the weights of standardised columns, as scikit-learn
        has it: `alpha` is 1 over `C` times the sum of the weights of all rows. `np.inf` for none.
    alpha : the strength itself, in place of `C`: half the sum of the squares of these weights, times
        `alpha`, is added to the mean loss.
    max_iter : iterations.
    batch_size : most rows of a batch. Batches are taken in turn, of rows in an order that only
        their owner knows.
    learning_rate : step size of the first iteration.
    rate : step sizes of iterations `t = 0, 1, ...`: `"constant"`; `"slowing"`, divided by
        `1 + t / 2`, which suits batches; or `"decaying"`, by `1 + t`.
    class_weight : what the loss of a row is multiplied by, by its class: `None` for 1, `"balanced"`
        so that all classes count alike, or weights by class, where a class that is left out has
        1. Losses are multiplied by the weights divided by their mean over all rows, so
        `learning_rate` and `alpha` mean what they do without. For `C` the sum of the weights counts
        as well, as in scikit-learn: the larger it is, the weaker is the penalty. The server sees that
        there are weights, and whether they are balanced, but not the weights. The encrypted table is twice as
        large; weights of rows may be 8 at most in each batch (root mean square).
    sigmoid_degree : degree of the polynomial: 3, 5 or 7.
    sigmoid_range : inner products of a row and the weights that it is for, in magnitude, up to 256.
        If `None`, what the table takes where it is at hand, in `fit` and `plan(X, y)`, and 8
        elsewhere; rows that leave it are refused.
    calibrate : whether `fit` ends with fitting probabilities to the classes of its rows: scores are
        multiplied by a number and shifted, of more than two classes by linear functions of all.
    missing : what becomes of missing values: `"refuse"`; `"mean"`, a number is the mean of its
        column, and a missing category a category of its own; `"drop"`, rows with any are left out
        of the table to train on; `"flag"`, as `"mean"`, and another feature says where a number is
        missing.
    unseen : what becomes of categories that the table to train on did not have: `"refuse"`, or
        `"zero"`, all features of the column are 0.
    mode : what `fit` does: `"execute"` makes keys, encrypts, trains and decrypts, `"simulate"` the
        same steps in the clear, to choose parameters by.
    random_state : decides the order of rows. `None` is an order that nobody can know; of a number,
        whoever guesses it knows which rows are in which batch: for simulations and tests.
    workers : among how many each batch can be divided, for `sudare.distributed.train`.
    share_bits : bits after the point, from 1 to 12, to which the weights of prepared columns are
        released: others may see the fitted model, whose coefficients tell nothing of the secret key.
        Takes more precision, trainings that are not bootstrapped, and one of the 1024 releases of the
        key for each vector of weights; probabilities are then not calibrated, and there is no history.
        Without it, the model is for the owner of the key alone.
    scorable : whether the model of a server may score encrypted rows before it is decrypted: see
        `sudare.scoring`. Takes a level more.
    history : whether `fit` keeps the weights after each iteration in `history_`, for `plot`.
    progress : called as `progress(step, done, total)`; `True` for bars of tqdm.
    insecure_log_n : `log2` of the degree of a ring to take in place of the secure one, for tests.
    """

    classes_: npt.NDArray[Any]
    """The classes. Of two, scores are those of the second. If another estimator encrypted the
    table without this one's `load(result, key, X, y)`, they are text if that is known, and otherwise
    numbers if all of them look so."""
    coef_: Floats
    """Weights of the features `columns_`, of shape `(1, n_columns)` for two classes, otherwise
    `(n_classes, n_columns)`."""
    intercept_: Floats
    """Of shape `(1,)` or `(n_classes,)`."""
    columns_: npt.NDArray[np.object_]
    """Names of the features that have weights: more than those of `X` where there are categories."""
    encoding_: dict[str, Any] | None
    """How columns became numbers, as the file of the model has it; `None` if they were."""
    n_iter_: int
    """Iterations done."""
    sigmoid_range_: float
    """The range of the sigmoid's polynomial, if that is known."""
    log2_error_: float
    """After a simulation: `log2` of the standard deviation of the error that encryption would
    cause in a weight of a prepared feature, without what bootstrapping adds."""
    history_: Floats
    """Intercept and weights after each iteration, before calibration, of shape
    `(n_iter_, 1 + n_columns)` for two classes, otherwise `(n_iter_, n_classes, 1 + n_columns)`;
    where they were kept: with `history`, or by a server with `train(..., history=True)` or
    `sudare train --history`."""

    _type = "classifier"
    _kind = "logistic regression"

    def __init__(
        self,
        *,
        preparation: Literal["whiten", "standardize", "scale"] = "whiten",
        C: float = 1.0,
        alpha: float | None = None,
        max_iter: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        rate: Literal["constant", "slowing", "decaying"] | None = None,
        class_weight: Literal["balanced"] | Mapping[Any, float] | None = None,
        sigmoid_degree: int | None = None,
        sigmoid_range: float | None = None,
        calibrate: bool = True,
        missing: Literal["refuse", "mean", "drop", "flag"] = "refuse",
        unseen: Literal["refuse", "zero"] = "refuse",
        mode: Literal["execute", "simulate"] = "execute",
        random_state: Any = None,
        workers: int | None = None,
        share_bits: int | None = None,
        scorable: bool = False,
        history: bool = False,
        progress: Progress = None,
        insecure_log_n: int | None = None,
    ) -> None:
        self.preparation = preparation
        self.C = C
        self.alpha = alpha
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.rate = rate
        self.class_weight = class_weight
        self.sigmoid_degree = sigmoid_degree
        self.sigmoid_range = sigmoid_range
        self.calibrate = calibrate
        self.missing = missing
        self.unseen = unseen
        self.mode = mode
        self.random_state = random_state
        self.workers = workers
        self.share_bits = share_bits
        self.scorable = scorable
        self.history = history
        self.progress = progress
        self.insecure_log_n = insecure_log_n

    @overload
    def plan(self, n_rows: int, n_features: int, *, n_classes: int = ...) -> Plan: ...
    @overload
    def plan(self, n_rows: object, n_features: object, /) -> Plan: ...
    def plan(self, n_rows: Any, n_features: Any, *, n_classes: int = 2) -> Plan:
        """The plan of a fit, what it takes and keys for it: `plan(X, y)` to this table, which tells
        the server the range of its inner products, or `plan(n_rows, n_features)` to any with at
        most so many rows and so many features, those of categories counted, and `n_classes`."""
        if np.ndim(n_rows):
            return Plan(self._plan_for(self._data(n_rows, n_features), callback(self.progress)))
        return Plan(
            self._plan(
                whole(n_rows, "n_rows"),
                whole(n_features, "n_features"),
                whole(n_classes, "n_classes"),
            )
        )

    def load(
        self,
        result: Result,
        key: SecretKey,
        X: object = None,
        y: object = None,
        *,
        share: int | None = None,
        assume_range: bool = False,
        table: Table | Sequence[Table] | None = None,
    ) -> LogisticRegression:
        """Takes what a server has computed from a table of `encrypt`, which fits the estimator.

        With the rows and classes that were encrypted, in any order, probabilities are fitted to
        them, as `fit` does with `calibrate`. Coefficients carry errors that depend on the secret
        key; with `share`, which is `share_bits` if left out, they are released to so many bits, so
        that others may see them. Keys are made for that by a plan with `share_bits`. Of a model of
        several owners' rows, that takes `assume_range=True`: that inner products and weights stay within
        what the keys are for in every iteration, which nobody can check, and without which the noise
        may not hide what errors tell about the key. With `table`, a result that says that it comes from another
        encrypted table is refused; of several owners, give the tables of all.
        """
        if (X is None) != (y is None):
            raise errors.ArgumentError("to calibrate takes both X and y: give both, or neither")
        if X is not None and not (share is None and self.share_bits is None):
            raise errors.ArgumentError(
                "a model that is calibrated tells more of its table than one that is shared may: "
                "leave out X and y, or share and share_bits"
            )
        decrypted = self._decrypt(result, key, share, table, assume_range=assume_range)
        if X is not None:
            data, classes = self._trained_on(X, y)
            self._set(decrypted.calibrated(data))
            self.classes_ = classes
        return self

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> LogisticRegression:
        """The model in a JSON file of `sudare decrypt` or `save`."""
        values = _native.read_model(path)
        model = cls(max_iter=values["iterations"])
        model._set(values)
        return model

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Writes the model to a JSON file for `sudare predict`, with classes as text, that the user
        alone may read. Warns of coefficients that are for the owner of the key alone."""
        self._expect_fitted()
        self._warn_if_raw(2)
        _native.write_model(path, json.dumps(self._model), overwrite)

    def _plan(
        self,
        n_rows: int,
        n_features: int,
        n_classes: int,
        like: Data | None = None,
        n_tables: int = 1,
    ) -> TablePlan:
        for name in ("max_iter", "batch_size", "sigmoid_degree", "workers"):
            if getattr(self, name) is not None:
                whole(getattr(self, name), name)
        return TablePlan.train(
            n_rows,
            n_features,
            iterations=self.max_iter,
            preparation=self.preparation,
            learning_rate=self.learning_rate,
            rate=self.rate,
            batch_size=self.batch_size,
            c=self.C,
            alpha=self.alpha,
            classes=n_classes,
            sigmoid_range=self.sigmoid_range,
            sigmoid_degree=self.sigmoid_degree,
            shared_bits=self._share_bits(),
            workers=self.workers,
            class_weights=self._class_weights(),
            scorable=self.scorable,
            tables=n_tables,
            like=like,
            weights=None if like is None else self._given_weights(),
            insecure_log_n=self.insecure_log_n,
        )

    def _pooled_plan(self, n_rows: int, n_features: int, n_classes: int, n_owners: int) -> Plan:
        """The plan of a fit to the rows of several owners: see `sudare.pool`."""
        if self.preparation == "scale":
            raise errors.ArgumentError(
                "the columns of several owners cannot be scaled, as nobody may tell their largest "
                "values: take preparation='whiten', or 'standardize'"
            )
        return Plan(self._plan(n_rows, n_features, n_classes, n_tables=n_owners))

    def _plan_for(self, data: Data, report: Callback | None) -> TablePlan:
        plan = self._plan(data.rows, data.features, data.classes, data)
        found = plan.sigmoid_range
        if self.sigmoid_range is None and found is not None:
            if report is not None and found > _USUAL_RANGE:
                report(f"widening the sigmoid's range to {found:g}", 1, 1)
            if found > _GOOD_RANGE:
                warnings.warn(
                    f"inner products of rows and weights take a sigmoid's range of {found:g}, over "
                    "which its polynomial is rough: fewer iterations, a stronger penalty (smaller "
                    "C) or merging rare categories make the model better",
                    stacklevel=3,
                )
        return plan

    def _data(self, X: object, y: object) -> Data:
        if self.missing == "refuse" and not has_categories(X):
            rows, labels = self._training_data(X, y, numeric=False)
            self.classes_, self._texts, members = _classes(labels)
            named = (self._target(y), self._texts, members)
            text = are_text(self.classes_)
            return Data(self._columns, to_native(rows), labels=named, text_labels=text)
        cells, labels = read_cells(X), self._labels(y)
        expect_one_a_row(len(cells.numbers), len(labels))
        self._set_columns(cells.names)
        if self.missing == "drop":
            cells, labels = cells.complete(labels)
        self.classes_, self._texts, members = _classes(labels)
        target = self._target(y)
        encoding = cells.fit((target, self._texts), missing=self.missing, unseen=self.unseen)
        columns, rows = cells.encode(encoding)
        named = (target, self._texts, members)
        text = are_text(self.classes_)
        return Data(
            columns, to_native(rows), labels=named, encoding=encoding, text_labels=text
        )

    def _trained_on(self, X: object, y: object) -> tuple[Data, npt.NDArray[Any]]:
        """The table that this model was trained on, and its classes in the order of the model."""
        labels = self._labels(y)
        if self.encoding_ is None:
            rows = self._rows(X)
            expect_one_a_row(len(rows), len(labels))
        else:
            cells = self._coded(X)
            expect_one_a_row(len(cells.numbers), len(labels))
            if self.encoding_["missing"] == "drop":
                cells, labels = cells.complete(labels)
            _, rows = cells.encode(json.dumps(self.encoding_))
        classes, texts, members = _classes(labels)
        named = (self._model["target"], texts, members)
        data = Data(self._model["columns"], to_native(rows), labels=named)
        if set(texts) != set(self._texts):
            return data, self.classes_
        return data, classes[[texts.index(text) for text in self._texts]]

    def _coded(self, X: object) -> Cells:
        """The cells of rows that the encoding makes numbers of."""
        cells = read_cells(X)
        if names_of(X) is not None:
            return cells
        if len(cells.names) != self.n_features_in_:
            raise errors.ShapesError(
                f"X has {len(cells.names)} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input"
            )
        return cells.named(self._columns)

    def _rows(self, X: object) -> Floats:
        self._expect_fitted()
        if self.encoding_ is None:
            return super()._rows(X)
        cells = self._coded(X)
        gaps = np.flatnonzero(cells.gaps())
        if self.encoding_["missing"] == "drop" and len(gaps):
            raise errors.MissingValueError(
                f"row {gaps[0]} lacks a value, and this model was trained on whole rows: fill it, "
                "or leave the row out"
            )
        _, rows = cells.encode(json.dumps(self.encoding_))
        return rows

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
        """The weights of all classes, if they are given."""
        if self._class_weights() != "given":
            return None
        given: Mapping[Any, float] = self.class_weight  # type: ignore[assignment]
        classes = self.classes_.tolist()
        unknown = [label for label in given if label not in classes]
        if unknown:
            raise errors.ArgumentError(
                f"class_weight has {unknown[0]!r}, which is no class: these are {classes}"
            )
        try:
            return [float(given.get(label, 1.0)) for label in classes]
        except (TypeError, ValueError) as error:
            raise errors.ArgumentError(f"class_weight: {error}: give a number by class") from None

    def _options(self) -> dict[str, Any]:
        return {"order": self._order(), "class_weights": self._given_weights()}

    def _order(self) -> bytes | None:
        """What decides the order of rows."""
        state = self.random_state
        if state is None:
            return None
        generator = state if hasattr(state, "bytes") else np.random.default_rng(state)
        return bytes(generator.bytes(32))

    def _encrypted(self, data: Data, key: PublicKey | SecretKey) -> None:
        vars(self).pop("_inputs", None)
        if self.scorable:
            # Rows can be encrypted for a model before its owner has it.
            plan = TablePlan.scoring(key, 1)
            self._inputs = plan.features_of(data, class_weights=self._given_weights())

    def _features(self) -> str:
        """Columns, classes and how rows are prepared to be scored, as JSON."""
        if not self.__sklearn_is_fitted__() and hasattr(self, "_inputs"):
            return self._inputs
        self._expect_fitted()
        shown = ("columns", "target", "classes", "text_labels", "centers", "divisors")
        names = [*shown, "transform", "encoding"]
        return json.dumps({name: self._model[name] for name in names if name in self._model})

    def _compute(self, table: Table, keys: EvaluationKeys) -> Result:
        return train(table, keys, history=self.history, progress=self.progress)

    def _set(self, values: dict[str, Any]) -> None:
        self.encoding_ = values.get("encoding")
        inputs = self.encoding_ and [column["name"] for column in self.encoding_["inputs"]]
        self._set_columns(inputs or values["columns"])
        self.columns_ = np.asarray(values["columns"], dtype=object)
        if getattr(self, "_texts", None) != values["classes"]:
            self._texts = values["classes"]
            self.classes_ = labels_of(self._texts, text=values.get("text_labels", False))
        weights = _of_columns(values, np.atleast_2d(values["weights"]))
        self.coef_, self.intercept_ = weights[:, 1:], weights[:, 0]
        self.n_iter_ = values["iterations"]
        for name in ("history_", "log2_error_", "sigmoid_range_"):
            vars(self).pop(name, None)
        if values.get("history") is not None:
            self.history_ = _of_columns(values, np.asarray(values["history"]))
        if values.get("training") is not None:
            self.sigmoid_range_ = values["training"]["sigmoid"]["range"]
        if "log2_error" in values:
            self.log2_error_ = values.pop("log2_error")
        self._model = values

    def decision_function(self, X: object) -> Floats:
        """The score of each row: of two classes above 0 where the second is predicted; of more, of
        shape `(n_rows, n_classes)`, the largest for the class that is predicted."""
        rows, model = self._rows(X), self._model
        weights = np.atleast_2d(model["weights"])
        # From the centers, where no digits are lost.
        near = (rows - model["centers"]) / model["divisors"]
        scores: Floats = near @ weights[:, 1:].T + weights[:, 0]
        return scores[:, 0] if len(weights) == 1 else scores

    def predict(self, X: object) -> npt.NDArray[Any]:
        """The class of each row."""
        scores = self.decision_function(X)
        best = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        classes: npt.NDArray[Any] = self.classes_[best]
        return classes

    def predict_proba(self, X: object) -> Floats:
        """The probabilities of all classes for each row."""
        probabilities: Floats = np.exp(self.predict_log_proba(X))
        return probabilities

    def predict_log_proba(self, X: object) -> Floats:
        """The logarithms of the probabilities of all classes for each row."""
        return _plot.log_probabilities(self.decision_function(X))

    if TYPE_CHECKING:
        # scikit-learn makes it of the arguments of `score`.
        def set_score_request(self: _M, *, sample_weight: bool | str | None = ...) -> _M: ...

    def score(self, X: object, y: object, sample_weight: object = None) -> float:
        """The accuracy: the part of rows whose class is predicted, each counted as often as
        `sample_weight` says.

        Classes are compared by what they are called, so `"3"` and 3 are the same. Rows of a class
        that the model does not know count as wrong. If it knows none of them, they are refused.
        """
        scores = self.decision_function(X)
        found = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        members = self._members(y)
        expect_one_a_row(len(found), len(members))
        weights = weights_of_rows(sample_weight, len(found))
        return float(np.average(found == members, weights=weights))

    def _members(self, y: object) -> npt.NDArray[np.intp]:
        """The place of each label among the classes, and -1 for labels of no class."""
        labels, texts, members = classes_of(self._labels(y))
        places = {text: place for place, text in enumerate(self._texts)}
        found = np.array([places.get(text, -1) for text in texts], dtype=np.intp)
        if (found < 0).all():
            raise errors.ArgumentError(
                f"y has the classes {', '.join(map(repr, labels[:5].tolist()))}, and this "
                f"{type(self).__name__} knows {', '.join(map(repr, self.classes_[:5].tolist()))}: "
                "call classes as they were called when it was fitted"
            )
        return found[members]

    def plot(self, X: object, y: object, *, axes: Any = None) -> list[Any]:
        """Draws the ROC curve for rows whose classes are known, of more than two classes one for
        each against all others, and, before it, the loss after each iteration if the model has
        `history_`.

        Takes matplotlib. Returns its axes, one or two, which are new unless `axes` are given.
        """
        rows, labels = self._rows(X), self._members(y)
        members = labels[:, np.newaxis] == np.arange(len(self.classes_))
        if len(labels) != len(rows) or not (members.any(axis=0).all() and members.any(axis=1).all()):
            raise errors.ArgumentError(
                f"{len(rows)} rows and {len(labels)} classes: a curve takes a class for each row, "
                f"and rows of all of {', '.join(self._texts)}"
            )
        losses = [
            _plot.log_loss(_scores(rows, weights), members)
            for weights in getattr(self, "history_", ())
        ]
        drawn = _plot.axes(2 if losses else 1, axes)
        if losses:
            _plot.draw_losses(drawn[0], losses)
        scores = self.decision_function(X)
        if scores.ndim == 1:
            _plot.draw_roc(drawn[-1], {"": (scores, members[:, 1])})
        else:
            of_classes = zip(self._texts, scores.T, members.T, strict=True)
            _plot.draw_roc(drawn[-1], {name: (found, own) for name, found, own in of_classes})
        return drawn


def _scores(rows: Floats, weights: Floats) -> Floats:
    """Of rows by intercept and weights of their columns, of one model or of several."""
    scores: Floats = rows @ weights[..., 1:].T + weights[..., 0]
    return scores


def _of_columns(values: dict[str, Any], weights: Floats) -> Floats:
    """Intercepts and weights of the columns, for those of values from their centers, divided: along
    the last axis."""
    slopes = weights[..., 1:] / np.asarray(values["divisors"])
    intercepts = weights[..., 0] - slopes @ np.asarray(values["centers"])
    return np.concatenate([intercepts[..., np.newaxis], slopes], axis=-1)


def _classes(labels: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], list[str], list[int]]:
    """The classes, at least two, what they are called elsewhere, and the place among them of each
    label."""
    classes, texts, members = classes_of(labels)
    if len(classes) < 2:
        raise errors.ArgumentError(
            f"all rows are of one class, {classes[0]!r}, but two are needed to tell apart"
        )
    return classes, texts, members.tolist()


def labels_of(texts: list[str], *, text: bool = False) -> npt.NDArray[Any]:
    """Classes by what they are called: numbers if all look so and they are not known to be
    `text`."""
    for kind in () if text else (np.int64, np.float64):
        try:
            found = np.array(texts, dtype=kind)
        except (OverflowError, ValueError):
            continue
        if [text_of(label) for label in found] == texts:
            return found
    return np.array(texts)


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
        share_bits: int | None = None,
        mode: Literal["execute", "simulate"] = "execute",
        progress: Progress = None,
        insecure_log_n: int | None = None,
    ) -> None:
        self.fit_intercept = fit_intercept
        self.share_bits = share_bits
        self.mode = mode
        self.progress = progress
        self.insecure_log_n = insecure_log_n

    @overload
    def plan(self, n_rows: int, n_features: int) -> Plan: ...
    @overload
    def plan(self, n_rows: object, n_features: object, /) -> Plan: ...
    def plan(self, n_rows: Any, n_features: Any) -> Plan:
        """The plan of a fit, what it takes and keys for it: `plan(X, y)` or
        `plan(n_rows, n_features)`, to tables with at most so many rows and so many features."""
        if np.ndim(n_rows):
            return Plan(self._plan_for(self._data(n_rows, n_features), callback(self.progress)))
        return Plan(self._plan(whole(n_rows, "n_rows"), whole(n_features, "n_features")))

    def load(
        self: _L,
        result: Result,
        key: SecretKey,
        *,
        share: int | None = None,
        table: Table | None = None,
    ) -> _L:
        """Takes what a server has computed from a table of `encrypt`, which fits the estimator.

        Coefficients carry errors that depend on the secret key; with `share`, which is `share_bits`
        if left out, they follow from sums that are released to so many bits, so that others may see
        them. Keys are made for that by a plan with `share_bits`. With `table`, a result that says that
        it comes from another encrypted table is refused.
        """
        self._decrypt(result, key, share, table)
        return self

    def _plan(self, n_rows: int, n_features: int) -> TablePlan:
        return TablePlan.statistics(
            n_rows,
            n_features + 1,
            share_bits=self._share_bits(),
            insecure_log_n=self.insecure_log_n,
        )

    def _plan_for(self, data: Data, report: Callback | None) -> TablePlan:
        return self._plan(data.rows, data.features - 1)

    def _penalty(self) -> float:
        """What is added to sums of squares of features."""
        return 0.0

    def _data(self, X: object, y: object) -> Data:
        rows, targets = self._training_data(X, y, numeric=True)
        if len(rows) < 2:
            raise errors.ArgumentError("1 sample has no covariances: at least 2 are needed")
        self._encrypted_target = self._target(y)
        columns = [*self._columns, self._encrypted_target]
        return Data(columns, to_native(np.column_stack([rows, targets])))

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
        used = np.flatnonzero(np.diag(products)[:-1])
        matrix = products[np.ix_(used, used)] + self._penalty() * np.eye(len(used))
        sizes = np.sqrt(np.diag(matrix))
        matrix /= np.outer(sizes, sizes)
        self._check_condition(matrix)
        self.coef_ = np.zeros(len(mean) - 1)
        self.coef_[used] = np.linalg.solve(matrix, products[used, -1] / sizes) / sizes
        centre = float(mean[-1] - self.coef_ @ mean[:-1])
        self.intercept_ = centre if self.fit_intercept else 0.0

    def _check_condition(self, matrix: Floats) -> None:
        eigenvalues = np.linalg.eigvalsh(matrix)
        if len(eigenvalues) and eigenvalues[0] * _MAX_CONDITION < eigenvalues[-1]:
            condition = eigenvalues[-1] / max(eigenvalues[0], np.finfo(float).eps)
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

    if TYPE_CHECKING:
        # scikit-learn makes it of the arguments of `score`.
        def set_score_request(self: _L, *, sample_weight: bool | str | None = ...) -> _L: ...

    def score(self, X: object, y: object, sample_weight: object = None) -> float:
        """R squared: the part of the targets' variance that is predicted, each row counted as often
        as `sample_weight` says."""
        targets, found = floats(column(y)), self.predict(X)
        expect_one_a_row(len(found), len(targets))
        weights = weights_of_rows(sample_weight, len(found))
        residual = float(np.sum(weights * (targets - found) ** 2))
        mean = np.average(targets, weights=weights)
        spread = float(np.sum(weights * (targets - mean) ** 2))
        # Constant targets have no variance; as scikit-learn has it.
        return 1.0 - residual / spread if spread else float(residual == 0.0)


class LinearRegression(_LeastSquares):
    """Least squares of an encrypted table.

    The server computes means and covariances, from which their owner solves for the coefficients.
    Sizes and offsets of columns do not matter, but features that are nearly linear functions of each
    other do: of a condition number `k` of their correlations, predictions are off by less than 1e-6
    of the targets' deviation if `k` is at most 100 and 1e-5 otherwise, and coefficients, of features
    divided by their deviations, by less than `1e-7 + 1e-8 k` of the largest. Above a `k` of 1e5
    none are computed: `fit` raises `RegressionError`.

    Parameters
    ----------
    fit_intercept : whether predictions have a constant part.
    share_bits : bits after the point, from 1 to 12, to which the means and products that the server
        computes are released, as parts of ranges: others may see coefficients, which follow from
        them and are about as precise. Takes one of the 1024 releases of the key. Without it, the
        model is for the owner of the key alone.
    mode : what `fit` does: `"execute"` makes keys, encrypts, computes and decrypts, `"simulate"`
        the same steps in the clear.
    progress : called as `progress(step, done, total)`; `True` for bars of tqdm.
    insecure_log_n : `log2` of the degree of a ring to take in place of the secure one, for tests.
    """


class Ridge(_LeastSquares):
    """Least squares of an encrypted table, with `alpha` times the squares of the coefficients
    added: as `LinearRegression`, whose table and result it can take. The condition number is that
    of the products of features with the penalty, brought to a diagonal of 1.

    Parameters
    ----------
    alpha : weight of the squares of the coefficients, at least 0.
    fit_intercept : whether predictions have a constant part, whose square is not added.
    share_bits : as of `LinearRegression`.
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
        share_bits: int | None = None,
        mode: Literal["execute", "simulate"] = "execute",
        progress: Progress = None,
        insecure_log_n: int | None = None,
    ) -> None:
        super().__init__(
            fit_intercept=fit_intercept,
            share_bits=share_bits,
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
