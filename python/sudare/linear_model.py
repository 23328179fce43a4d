"""Linear models with scikit-learn's conventions, fitted to encrypted tables.

>>> from sudare.linear_model import LogisticRegression
>>> model = LogisticRegression(mode="simulate")
>>> model.fit([[0.0, 1.0], [1.0, 3.0], [2.0, 2.0], [3.0, 5.0]], ["no", "no", "yes", "yes"])
LogisticRegression(mode='simulate')
>>> print(*model.predict([[0.5, 2.0], [2.5, 4.0]]))
no yes

`fit` does everything in one process, in the clear with `mode="simulate"`. An owner and a server do it in
four steps:

| who | step |
|---|---|
| owner | `keys = model.plan(X, y).make_keys()` |
| owner | `table = model.encrypt(X, y, keys.secret)` |
| server | `result = compute(table, keys.evaluation)` |
| owner | `model.decrypt(result, keys.secret)`, which fits the model |

`plan(n_rows, n_features)` makes keys for any table with at most that number of rows.
`decrypt(result, keys.secret, X, y)` also calibrates a `LogisticRegression`.

The command `sudare` uses the same files, and can do any of the steps.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import numpy as np
import numpy.typing as npt

from sudare import _native, _plot, errors
from sudare._coding import (
    Cells,
    DateParts,
    MissingRules,
    Rules,
    are_text,
    classes_of,
    codes,
    dropping,
    has_categories,
    is_plain,
    left_out,
    text_of,
    warn_of_identifiers,
)
from sudare._coding import read as read_cells
from sudare._context import mode_of
from sudare._estimator import Estimator, column, expect_one_a_row, given_weights, weights_of_rows
from sudare._inference import (
    LinearFit,
    LinearSummary,
    LogisticSummary,
    linear_fit,
    linear_summary,
    logistic_summary,
)
from sudare._frames import names_of
from sudare._keys import expected
from sudare._native import Data, EvaluationKeys, PublicKey, Result, SecretKey, Table, TablePlan
from sudare._onnx_file import to_onnx
from sudare._plain import (
    Floats,
    choice,
    expect_type,
    flag,
    floats,
    has_axes,
    optional,
    path_of,
    real,
    seeded,
    shown,
    string,
    whole,
)
from sudare._plan import as_list
from sudare._progress import Callback, Progress, callback
from sudare._renamed import renamed
from sudare.stats import Plan

__all__ = [
    "LinearRegression",
    "LinearSummary",
    "LogisticRegression",
    "LogisticSummary",
    "Ridge",
    "compute",
    "to_onnx",
]


def __dir__() -> list[str]:
    return sorted(__all__)

_L = TypeVar("_L", bound="_LeastSquares")
_M = TypeVar("_M", bound="_Model")

_USUAL_RANGE = 8.0
"""The range of the sigmoid without a table."""

_GOOD_RANGE = 16.0
"""The range up to which polynomials are close to the sigmoid."""

_MAX_CONDITION = 1e5
"""The maximum condition number. Decrypted covariances are off by about `1e-7`, and coefficients by up to
this factor more."""


def compute(
    tables: Table | Sequence[Table],
    keys: EvaluationKeys,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    history: bool = False,
    progress: Progress = None,
) -> Result:
    """Computes a model on an encrypted table: the server's part, which has only the evaluation keys.

    The options are for the training of a `LogisticRegression`.

    Parameters
    ----------
    tables : EncryptedTable or sequence of EncryptedTable
        The table. For keys that were made for several owners: the table of each.
    keys : EvaluationKeys
        The keys of the server.
    checkpoint : path, optional
        A directory for the states after the last two iterations, as of `sudare train`.
    resume : bool, default False
        Whether to continue from the last state in `checkpoint`, to the same model bit for bit. Without a
        state, training starts.
    overwrite : bool, default False
        Whether to start although `checkpoint` contains states.
    history : bool, default False
        Whether the result also has the weights after each iteration, 0.2 to 1 MB each.
    progress : callable or bool, optional
        Called as `progress(step, done, total)`. `True` shows bars of tqdm.
    """
    report = callback(progress)
    given = as_list(tables)
    expect_type(keys, "keys", EvaluationKeys)
    checkpoint = optional(path_of, checkpoint, "checkpoint")
    resume, overwrite = flag(resume, "resume"), flag(overwrite, "overwrite")
    history = flag(history, "history")
    if len(given) == 1 and given[0].job.startswith("stats:"):
        if checkpoint is not None or resume or history:
            raise errors.ArgumentError(
                "least squares have no iterations: leave out checkpoint, resume and history"
            )
        return given[0].compute(keys, report)
    trainer = _native.Trainer(
        given,
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
        # Otherwise the traceback of an error would keep the directory of states in use.
        del trainer


train = renamed(compute, "train")


class _Model(Estimator):
    """The part of the owner of a table."""

    mode: Literal["execute", "simulate"]
    progress: Progress
    share_bits: int | None
    history = False
    calibrate = False

    _encrypts_weights: bool
    """True if an encrypted table can carry the weights of rows."""
    columns: Sequence[str] | None
    drop: Sequence[str] | None
    missing: MissingRules
    dates: DateParts | None
    unseen: Literal["refuse", "zero"]
    rare: int | None

    encoding_: dict[str, Any] | None
    """The coding of columns as numbers; `None` if all were numbers."""

    _raw = False
    """True if the coefficients are for the owner of the key alone."""

    _kind: str
    """The kind of the results of its tables."""

    if TYPE_CHECKING:
        # scikit-learn makes it from the arguments of `fit`.
        def set_fit_request(self: _M, *, sample_weight: bool | str | None = ...) -> _M: ...

    def fit(self: _M, X: object, y: object, sample_weight: object = None) -> _M:
        """Fits the model to rows and their targets.

        Parameters
        ----------
        X : array_like or data frame of shape (n_rows, n_features)
            The rows.
        y : array_like of shape (n_rows,)
            The targets.
        sample_weight : array_like of shape (n_rows,), optional
            Factors of at least 0 for the losses of rows. The server does not learn them.
        """
        mode = self._read_options()
        history, calibrate = flag(self.history, "history"), flag(self.calibrate, "calibrate")
        data, report = self._data(X, y, sample_weight), callback(self.progress)
        plan, options = self._plan_for(data, report), self._options()
        if mode == "simulate":
            simulated = _native.simulate(
                plan,
                data,
                **options,
                history=history and self.share_bits is None,
                calibrate=calibrate and self.share_bits is None,
                progress=report,
            )
            self._set(simulated)
            self._raw = False
        else:
            plan.parameters.warn_if_insecure(2)
            _, evaluation, secret = _native.generate_keys(plan, report)
            encrypted = plan.encrypt(secret, data, **options, progress=report)
            decrypted = self._compute(encrypted, evaluation).decrypt(secret, self._share_bits())
            calibrated = calibrate and self.share_bits is None
            self._set(decrypted.calibrated(data) if calibrated else decrypted.values())
            self._raw = self.share_bits is None
        return self

    def encrypt(
        self,
        X: object,
        y: object,
        key: PublicKey | SecretKey,
        *,
        sample_weight: object = None,
        expect: str | None = None,
        path: str | os.PathLike[str] | None = None,
        overwrite: bool = False,
    ) -> Table:
        """Encrypts rows and their targets for the plan of a key.

        Parameters
        ----------
        X : array_like or data frame of shape (n_rows, n_features)
            At most the number of rows that the key was made for.
        y : array_like of shape (n_rows,)
            The targets.
        key : PublicKey or SecretKey
            The key. The secret key needs half the bytes.
        sample_weight : array_like of shape (n_rows,), optional
            As for `fit`, for a `LogisticRegression` that was planned with weights. Least squares are
            weighted by `fit` alone.
        expect : str, optional
            The digest of the public key. Another key is refused.
        path : path, optional
            A file for the table, which is otherwise in memory.
        overwrite : bool, default False
            Whether the file may exist.
        """
        expect_type(key, "key", PublicKey, SecretKey)
        key = expected(key, expect)
        self._read_options()
        path, overwrite = optional(path_of, path), flag(overwrite, "overwrite")
        if sample_weight is not None and not self._encrypts_weights:
            raise errors.UnsupportedError(
                f"a {type(self).__name__} of weighted rows is completed by means that the encrypted table "
                "does not have: call fit with sample_weight, or repeat rows"
            )
        data, report = self._data(X, y, sample_weight), callback(self.progress)
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
        """Decrypts the result of these tables, to be shared to a number of bits if one is given."""
        expect_type(result, "result", Result)
        expect_type(key, "key", SecretKey)
        self._read_options()
        share = self._share_bits() if share is None else whole(share, "share")
        promised, tables = flag(assume_range, "assume_range"), optional(as_list, table)
        decrypted = result.decrypt(key, share, assume_range=promised, tables=tables)
        values = decrypted.values()
        if values["kind"] != self._kind:
            raise errors.of_kind(
                "OtherJob",
                f"the result holds {values['kind']}, but a {type(self).__name__} needs "
                f"{self._kind}: pass the result of a table that it encrypted"
            )
        self._set(values)
        self._raw = share is None
        return decrypted

    def _share_bits(self) -> int | None:
        """Returns the bits to which coefficients are released, if they are."""
        return optional(whole, self.share_bits, "share_bits")

    def _read_options(self) -> Literal["execute", "simulate"]:
        """Checks options that are used after the table, and returns the mode."""
        return mode_of(self.mode)

    def _warn_if_raw(self, calls: int) -> None:
        """Warns before coefficients leave that reveal the secret key."""
        if self._raw and self.__sklearn_is_fitted__():
            warnings.warn(
                "these coefficients carry errors that tell about the secret key: keep them with its owner, or "
                f"share the coefficients of {type(self).__name__}(share_bits=...), or of "
                "decrypt(..., share=...) with keys of such a plan",
                errors.SecurityWarning,
                stacklevel=calls + 1,
            )

    def __reduce_ex__(self, protocol: Any) -> Any:
        self._warn_if_raw(2)
        return super().__reduce_ex__(protocol)

    def _plan_for(self, data: Data, report: Callback | None) -> TablePlan:
        """Makes the plan of a fit to a table."""
        raise NotImplementedError

    def _data(self, X: object, y: object, sample_weight: object = None) -> Data:
        """Checks a table, and returns it for native code."""
        raise NotImplementedError

    def _options(self) -> dict[str, Any]:
        """Returns further options for encrypting the table."""
        return {}

    def _encrypted(self, data: Data, key: PublicKey | SecretKey) -> None:
        """Remembers a table that was encrypted."""

    def _compute(self, table: Table, keys: EvaluationKeys) -> Result:
        """Does the part of the server."""
        raise NotImplementedError

    def _set(self, values: dict[str, Any]) -> None:
        """Fits the model to a decrypted result."""
        raise NotImplementedError

    def _rules(self) -> Rules:
        """Returns how columns become numbers."""
        return Rules(self.columns, self.drop, self.missing, self.unseen, self.rare, self.dates)

    def _is_plain(self, X: object, rules: Rules) -> bool:
        """Returns whether a table has only numbers, and no column that identifies rows."""
        if isinstance(X, Mapping) or not rules.is_default() or has_categories(X):
            return False
        if not hasattr(X, "columns"):
            return True
        cells = read_cells(X)
        return not np.isnan(cells.numbers).any() and is_plain(cells.fit(None, rules))

    def _coded(self, X: object) -> Cells:
        """Returns the cells of rows for the encoding."""
        cells = read_cells(X, skips=left_out(json.dumps(self.encoding_)))
        if names_of(X) is not None:
            return cells
        if len(cells.names) != self.n_features_in_:
            raise errors.of_kind(
                "Shapes",
                f"X has {len(cells.names)} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input"
            )
        return cells.named(self._columns)

    def _rows(self, X: object) -> Floats:
        self._expect_fitted()
        if self.encoding_ is None:
            return super()._rows(X)
        cells = self._coded(X)
        gaps = np.flatnonzero(cells.gaps(dropping(json.dumps(self.encoding_))))
        if len(gaps):
            raise errors.of_kind("MissingValue",
                f"row {gaps[0]} lacks a value, but this model was trained on complete rows: fill it, or leave "
                "the row out"
            )
        _, rows = cells.encode(json.dumps(self.encoding_))
        return rows

    def _target(self, y: object) -> str:
        """Returns a name for the target that no feature has."""
        name = getattr(y, "name", None)
        target = name if isinstance(name, str) and name else "y"
        while target in self._columns:
            target += "_"
        return target


class LogisticRegression(_Model):
    """Logistic regression of two or more classes, trained under encryption.

    Training is Nesterov's accelerated gradient descent with a polynomial for the sigmoid. The number of
    iterations is fixed, because nobody on the server sees whether training has converged. The owner
    whitens columns before encryption, so that a few iterations come close to the model of scikit-learn's
    `LogisticRegression` with the same `C` on standardised columns. Afterwards the owner calibrates
    probabilities. `coef_` and `intercept_` are for the original columns. With more than two classes, a
    model for each class tells it from all others, and the softmax compares their scores.

    Rows may come from a data frame whose columns are numbers, truth values, dates, or categories as text.
    Dates become days since 1970-01-01. A column of categories becomes one feature for each category, 1 for rows with the category and 0 for
    others. The shape of the table decides parameters that are `None`.

    Parameters
    ----------
    preparation : {"whiten", "standardize", "scale"}, default "whiten"
        How the owner prepares columns. `"whiten"` standardises them and rotates them to their principal
        components, each divided by its deviation. `"standardize"` needs more iterations the more columns
        depend on each other. `"scale"` divides them by their largest magnitude, as papers on encrypted
        training do, and uses their step sizes: with `alpha=0` and `calibrate=False` it is their training.
    C : float, default 1.0
        Inverse strength of the L2 penalty on the weights of standardised columns, as in scikit-learn:
        `alpha` is 1 over `C` times the sum of the weights of all rows. `np.inf` for none.
    alpha : float, optional
        The strength itself, in place of `C`: half the sum of the squares of these weights, times `alpha`,
        is added to the mean loss.
    max_iter : int, optional
        The number of iterations.
    batch_size : int, optional
        The maximum number of rows in a batch. Training uses batches in turn. Only the owner knows the
        order of rows.
    learning_rate : float, optional
        The step size of the first iteration.
    rate : {"constant", "slowing", "decaying"}, optional
        The step sizes of iterations `t = 0, 1, ...`: constant; divided by `1 + t / 2`, which suits
        batches; or divided by `1 + t`.
    class_weight : "balanced" or dict, optional
        Factors for the losses of rows, by class: 1 by default, equal influence of all classes with
        `"balanced"`, or a dictionary, where missing classes have 1. Losses are multiplied by the factors
        divided by their mean over all rows, so `learning_rate` and `alpha` keep their meaning. For `C` the
        sum of the factors counts, as in scikit-learn: a larger sum weakens the penalty. The server sees
        whether there are factors and whether they are balanced, but not the factors. The encrypted table
        is twice as large. The root mean square of the factors in each batch may be at most 8.
    sigmoid_degree : {3, 5, 7}, optional
        The degree of the polynomial for the sigmoid.
    sigmoid_range : float, optional
        The maximum magnitude of the inner product of a row and the weights, up to 256. By default `fit`
        and `plan(X, y)` choose it for the table, and other calls use 8. Rows that leave it are refused.
    calibrate : bool, default True
        Whether `fit` ends with fitting probabilities to the classes of its rows: scores are scaled and
        shifted, or with more than two classes replaced by linear functions of all scores.
    missing : {"refuse", "mean", "median", "most_frequent", "drop", "flag"} or dict, default "refuse"
        The treatment of missing values. `"mean"` and `"median"` fill numbers with the mean or median of the
        column, and make missing categories a category of their own. `"most_frequent"` fills both with the most frequent
        value. `"drop"` leaves out rows with missing values. `"flag"` is `"mean"` with another feature that
        marks missing numbers. A dictionary has a treatment for each column by its name, and under `"*"` the
        treatment of all others, `"refuse"` by default. Rows that one column drops count in no mean of others.
    unseen : {"refuse", "zero"}, default "refuse"
        The treatment of categories that the training table did not have. With `"zero"` all features of
        the column are 0.
    columns : sequence of str, optional
        The columns to use. Without it, columns that identify rows are left out with an
        `IdentifierWarning`: columns of at least 20 rows with text where nine in ten values differ, or
        with different integers under the name of an identifier, such as `patient_id`.
    drop : sequence of str, optional
        Columns to leave out.
    rare : int, optional
        Categories with fewer rows are joined as one category, `other`, of at least this number of rows.
        Values of later tables that are unknown count as `other`, too.
    dates : dict, optional
        Parts of dates that take the place of a column, by its name: `{"admitted": ["year", "month"]}` makes the
        columns `admitted year` and `admitted month` of numbers. The parts are `"days"`, `"year"`, `"month"`,
        `"day"`, `"weekday"` (0 is Monday) and `"hour"`, in UTC. Without it, dates are days since 1970-01-01.
    mode : {"execute", "simulate"}, default "execute"
        Whether `fit` makes keys, encrypts, trains and decrypts, or does the same steps in the clear, to
        choose parameters.
    random_state : int or numpy.random.Generator, optional
        Decides the order of rows. By default nobody can know the order. With a number, anybody who
        guesses it knows which rows are in which batch: use one for simulations and tests.
    workers : int, optional
        The number of workers that can share a batch, for `sudare.distributed.compute`.
    share_bits : int, optional
        From 1 to 12: bits after the point to which the weights of prepared columns are released. Others
        may see such a model, whose coefficients tell nothing about the secret key. It needs more
        precision, training without bootstrapping, and one of the 1024 releases of the key for each vector
        of weights. Probabilities are not calibrated, and there is no history. Without it, the model is
        for the owner of the key alone.
    scorable : bool, default False
        Whether the model may score encrypted rows on the server before it is decrypted: see
        `sudare.scoring`. It takes one more level.
    history : bool, default False
        Whether `fit` keeps the weights after each iteration in `history_`, for `plot`.
    progress : callable or bool, optional
        Called as `progress(step, done, total)`. `True` shows bars of tqdm.
    insecure_log_n : int, optional
        For tests: `log2` of the degree of another ring, without security.
    """

    classes_: npt.NDArray[Any]
    """The classes. With two classes, scores are for the second. If another estimator encrypted the table,
    and `decrypt` had no `X` and `y`, classes are text if that is known, and otherwise numbers if all of
    them look like numbers."""
    coef_: Floats
    """Weights of the features `columns_`, of shape `(1, n_columns)` for two classes, and otherwise
    `(n_classes, n_columns)`."""
    intercept_: Floats
    """Constant parts of scores, of shape `(1,)` or `(n_classes,)`."""
    columns_: npt.NDArray[np.object_]
    """Names of the features that have weights. Columns of categories have several."""
    encoding_: dict[str, Any] | None
    """The coding of columns as numbers, from the file of the model; `None` if all were numbers."""
    n_iter_: int
    """The number of iterations."""
    sigmoid_range_: float
    """The range of the polynomial for the sigmoid, if it is known."""
    log2_error_: float
    """After a simulation: `log2` of the standard deviation of the error that encryption would cause in a
    weight of a prepared feature, without the error of bootstrapping."""
    history_: Floats
    """Intercept and weights after each iteration, before calibration. The shape is
    `(n_iter_, 1 + n_columns)` for two classes, and otherwise `(n_iter_, n_classes, 1 + n_columns)`. They
    are kept with `history`, or by a server with `compute(..., history=True)` or
    `sudare train --history`."""

    _type = "classifier"
    _kind = "logistic regression"
    _encrypts_weights = True
    _weighted = False
    """True if the rows of the last table had weights."""

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
        missing: MissingRules = "refuse",
        unseen: Literal["refuse", "zero"] = "refuse",
        columns: Sequence[str] | None = None,
        drop: Sequence[str] | None = None,
        rare: int | None = None,
        dates: DateParts | None = None,
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
        self.columns = columns
        self.drop = drop
        self.rare = rare
        self.dates = dates
        self.mode = mode
        self.random_state = random_state
        self.workers = workers
        self.share_bits = share_bits
        self.scorable = scorable
        self.history = history
        self.progress = progress
        self.insecure_log_n = insecure_log_n

    @overload
    def plan(
        self, n_rows: int, n_features: int, *, n_classes: int = ..., sample_weight: bool = ...
    ) -> Plan: ...
    @overload
    def plan(self, n_rows: object, n_features: object, /, *, sample_weight: object = ...) -> Plan: ...
    def plan(
        self, n_rows: Any, n_features: Any, *, n_classes: int = 2, sample_weight: Any = None
    ) -> Plan:
        """Makes the plan of a fit, with its costs and keys.

        `plan(X, y)` plans for this table, and tells the server the range of its inner products.
        `plan(n_rows, n_features)` plans for any table of at most that number of rows, with that number of
        features and `n_classes` classes. A column of categories counts once for each category. Pass the
        `sample_weight` of `encrypt` to the first, and `sample_weight=True` to the second.
        """
        if has_axes(n_rows):
            self._read_options()
            data = self._data(n_rows, n_features, sample_weight)
            return Plan(self._plan_for(data, callback(self.progress)))
        self._weighted = sample_weight is not None and flag(sample_weight, "sample_weight")
        return Plan(
            self._plan(
                whole(n_rows, "n_rows"),
                whole(n_features, "n_features"),
                whole(n_classes, "n_classes"),
            )
        )

    def decrypt(
        self,
        result: Result,
        key: SecretKey,
        X: object = None,
        y: object = None,
        *,
        sample_weight: object = None,
        share: int | None = None,
        assume_range: bool = False,
        table: Table | Sequence[Table] | None = None,
    ) -> LogisticRegression:
        """Decrypts the result of a table of `encrypt`, and fits the estimator to it.

        Coefficients carry errors that depend on the secret key. With `share` they are released, so that
        others may see them.

        Parameters
        ----------
        result : EncryptedResult
            The result of the server.
        key : SecretKey
            The key of the owner.
        X, y : array_like, optional
            The encrypted rows and their classes, in any order, to fit probabilities to them, as `fit` does
            with `calibrate`.
        sample_weight : array_like, optional
            The weights of these rows, if they were encrypted with weights.
        share : int, optional
            Bits to which coefficients are released; `share_bits` by default. The plan of the keys must
            have `share_bits`.
        assume_range : bool, default False
            Required to share a model of several owners' rows. It promises that inner products and weights
            stay within the range of the keys in every iteration, which nobody can check. Otherwise the
            noise may not hide what the errors tell about the key.
        table : EncryptedTable or sequence of EncryptedTable, optional
            The encrypted table, or the tables of all owners. Results of another table are refused.
        """
        if (X is None) != (y is None):
            raise errors.ArgumentError("calibration needs both X and y: give both, or neither")
        if X is not None and not (share is None and self.share_bits is None):
            raise errors.ArgumentError(
                "a calibrated model reveals more about its table than a shared model may: leave out X and y, "
                "or share and share_bits"
            )
        decrypted = self._decrypt(result, key, share, table, assume_range=assume_range)
        if X is not None:
            data, classes = self._trained_on(X, y, sample_weight)
            self._set(decrypted.calibrated(data))
            self.classes_ = classes
        return self

    load = renamed(decrypt, "load")

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> LogisticRegression:
        """Opens the JSON file of a model that `sudare decrypt` or `save` wrote."""
        values = _native.read_model(path_of(path))
        model = cls(max_iter=values["iterations"])
        model._set(values)
        return model

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Writes the model to a JSON file for `sudare predict`, with classes as text.

        Only the user may read the file. Warns if the coefficients are for the owner of the key alone.
        """
        self._expect_fitted()
        path, overwrite = path_of(path), flag(overwrite, "overwrite")
        self._warn_if_raw(2)
        small = _native.write_model(path, json.dumps(self._model), overwrite)
        if small:
            told = ", ".join(f"{name} ({rows})" for name, rows in small[:12])
            warnings.warn(
                f"the model has categories of few rows, which reveal facts about single rows: {told}; keep its file "
                f"with the owner of the rows, or fit {type(self).__name__}(rare=5), which joins rare categories",
                errors.SecurityWarning,
                stacklevel=2,
            )

    def _plan(
        self,
        n_rows: int,
        n_features: int,
        n_classes: int,
        like: Data | None = None,
        n_tables: int = 1,
    ) -> TablePlan:
        return TablePlan.train(
            n_rows,
            n_features,
            iterations=optional(whole, self.max_iter, "max_iter"),
            preparation=string(self.preparation, "preparation"),
            learning_rate=optional(real, self.learning_rate, "learning_rate"),
            rate=optional(string, self.rate, "rate"),
            batch_size=optional(whole, self.batch_size, "batch_size"),
            # An infinite C is no penalty.
            c=real(self.C, "C", finite=False),
            alpha=optional(real, self.alpha, "alpha", finite=False),
            classes=n_classes,
            sigmoid_range=optional(real, self.sigmoid_range, "sigmoid_range"),
            sigmoid_degree=optional(whole, self.sigmoid_degree, "sigmoid_degree"),
            shared_bits=self._share_bits(),
            workers=optional(whole, self.workers, "workers"),
            class_weights=self._class_weights(),
            scorable=flag(self.scorable, "scorable"),
            tables=n_tables,
            like=like,
            weights=None if like is None else self._given_weights(),
            insecure_log_n=optional(whole, self.insecure_log_n, "insecure_log_n"),
        )

    def _pooled_plan(self, n_rows: int, n_features: int, n_classes: int, n_owners: int) -> Plan:
        """Makes the plan of a fit to the rows of several owners: see `sudare.pool`."""
        if isinstance(self.preparation, str) and self.preparation == "scale":
            raise errors.ArgumentError(
                "the columns of several owners cannot be scaled, because no party may know their largest "
                "values: pass preparation='whiten' or 'standardize'"
            )
        # The rows of several owners have no weights of their own.
        self._weighted = False
        return Plan(self._plan(n_rows, n_features, n_classes, n_tables=n_owners))

    def _plan_for(self, data: Data, report: Callback | None) -> TablePlan:
        plan = self._plan(data.rows, data.features, data.classes, data)
        found = plan.sigmoid_range
        if self.sigmoid_range is None and found is not None:
            if report is not None and found > _USUAL_RANGE:
                report(f"widening the sigmoid's range to {found:g}", 1, 1)
            if found > _GOOD_RANGE:
                warnings.warn(
                    f"this table needs a sigmoid range of {found:g}, over which the polynomial is rough: use "
                    "fewer iterations or a stronger penalty (smaller C), or merge rare categories",
                    stacklevel=3,
                )
        return plan

    def _data(self, X: object, y: object, sample_weight: object = None) -> Data:
        self._weighted = sample_weight is not None
        rules = self._rules()
        if self._is_plain(X, rules):
            rows, labels = self._training_data(X, y, numeric=False)
            self.classes_, self._texts, members = _classes(labels)
            named = (self._target(y), self._texts, members)
            text = are_text(self.classes_)
            weights = given_weights(sample_weight, len(rows))
            return Data(self._columns, rows, labels=named, text_labels=text, row_weights=weights)
        cells, labels = read_cells(X, rules=rules), self._labels(y)
        expect_one_a_row(len(cells.numbers), len(labels))
        weights = given_weights(sample_weight, len(labels))
        self._set_columns(cells.names)
        if complete := dropping(cells.fit(None, rules)):
            weights = None if weights is None else weights[~cells.gaps(complete)]
            cells, labels = cells.complete(labels, complete)
        self.classes_, self._texts, members = _classes(labels)
        target = self._target(y)
        encoding = cells.fit((target, self._texts), rules)
        warn_of_identifiers(encoding, 3)
        columns, rows = cells.encode(encoding)
        named = (target, self._texts, members)
        text = are_text(self.classes_)
        return Data(
            columns, rows, labels=named, encoding=encoding, text_labels=text, row_weights=weights
        )

    def _training_rows(
        self, X: object, y: object, sample_weight: object
    ) -> tuple[Floats, npt.NDArray[Any], Floats | None]:
        """Returns the features of the table that this model was trained on, its labels and its weights."""
        labels = self._labels(y)
        weights = given_weights(sample_weight, len(labels))
        if self.encoding_ is None:
            rows = self._rows(X)
            expect_one_a_row(len(rows), len(labels))
        else:
            cells = self._coded(X)
            expect_one_a_row(len(cells.numbers), len(labels))
            if complete := dropping(json.dumps(self.encoding_)):
                weights = None if weights is None else weights[~cells.gaps(complete)]
                cells, labels = cells.complete(labels, complete)
            _, rows = cells.encode(json.dumps(self.encoding_))
        return rows, labels, weights

    def _trained_on(
        self, X: object, y: object, sample_weight: object
    ) -> tuple[Data, npt.NDArray[Any]]:
        """Returns the table that this model was trained on, and its classes in the order of the model."""
        rows, labels, weights = self._training_rows(X, y, sample_weight)
        classes, texts, members = _classes(labels)
        named = (self._model["target"], texts, members)
        data = Data(self._model["columns"], rows, labels=named, row_weights=weights)
        if set(texts) != set(self._texts):
            return data, self.classes_
        return data, classes[[texts.index(text) for text in self._texts]]

    def _read_options(self) -> Literal["execute", "simulate"]:
        flag(self.scorable, "scorable")
        return super()._read_options()

    def _class_weights(self) -> str | None:
        """Returns the source of class weights, which the server sees."""
        found = self.class_weight
        if found is None:
            return "given" if self._weighted else None
        if isinstance(found, str) and found == "balanced":
            return found
        if isinstance(found, Mapping):
            return "given"
        raise errors.ArgumentError(
            f"class_weight is {shown(found)}: pass None, 'balanced' or a dictionary of weights by class"
        )

    def _given_weights(self) -> list[float] | None:
        """Returns the weights of all classes, if they are given."""
        if self._class_weights() != "given":
            return None
        given: Mapping[Any, float] = self.class_weight or {}  # type: ignore[assignment]
        classes = self.classes_.tolist()
        unknown = [label for label in given if label not in classes]
        if unknown:
            raise errors.ArgumentError(
                f"class_weight has {shown(unknown[0])}, which is not a class: the classes are {classes}"
            )
        return [
            real(given.get(label, 1.0), f"the class_weight of {shown(label)}", finite=False)
            for label in classes
        ]

    def _options(self) -> dict[str, Any]:
        return {"order": self._order(), "class_weights": self._given_weights()}

    def _order(self) -> bytes | None:
        """Returns the seed of the order of rows."""
        return optional(seeded, self.random_state, "random_state", 32)

    def _encrypted(self, data: Data, key: PublicKey | SecretKey) -> None:
        vars(self).pop("_inputs", None)
        if flag(self.scorable, "scorable"):
            # Rows can be encrypted for a model before its owner has it.
            plan = TablePlan.scoring(key, 1)
            self._inputs = plan.features_of(data, class_weights=self._given_weights())

    def _features(self) -> str:
        """Returns columns, classes and the preparation of rows to be scored, as JSON."""
        if not self.__sklearn_is_fitted__() and hasattr(self, "_inputs"):
            return self._inputs
        self._expect_fitted()
        shown = ("columns", "target", "classes", "text_labels", "centers", "divisors")
        names = [*shown, "transform", "encoding"]
        return json.dumps({name: self._model[name] for name in names if name in self._model})

    def _compute(self, table: Table, keys: EvaluationKeys) -> Result:
        return compute(table, keys, history=self.history, progress=self.progress)

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
        """Returns the score of each row.

        With two classes, scores are above 0 where the second class is predicted. With more, the shape is
        `(n_rows, n_classes)`, and the largest score is the score of the predicted class.
        """
        rows, model = self._rows(X), self._model
        weights = np.atleast_2d(model["weights"])
        # Relative to the centers, so that no digits are lost.
        near = (rows - model["centers"]) / model["divisors"]
        scores: Floats = near @ weights[:, 1:].T + weights[:, 0]
        return scores[:, 0] if len(weights) == 1 else scores

    def predict(self, X: object) -> npt.NDArray[Any]:
        """Predicts the class of each row."""
        scores = self.decision_function(X)
        best = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        classes: npt.NDArray[Any] = self.classes_[best]
        return classes

    def predict_proba(self, X: object) -> Floats:
        """Predicts the probabilities of all classes for each row."""
        probabilities: Floats = np.exp(self.predict_log_proba(X))
        return probabilities

    def predict_log_proba(self, X: object) -> Floats:
        """Predicts the logarithms of the probabilities of all classes for each row."""
        return _plot.log_probabilities(self.decision_function(X))

    if TYPE_CHECKING:
        # scikit-learn makes it from the arguments of `score`.
        def set_score_request(self: _M, *, sample_weight: bool | str | None = ...) -> _M: ...

    def score(self, X: object, y: object, sample_weight: object = None) -> float:
        """Returns the accuracy: the share of rows whose class is predicted, weighted by `sample_weight`.

        Classes are compared by their names, so `"3"` and 3 are the same. Rows of a class that the model
        does not know count as wrong. If it knows none of the classes, they are refused.
        """
        scores = self.decision_function(X)
        found = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        members = self._members(y)
        expect_one_a_row(len(found), len(members))
        weights = weights_of_rows(sample_weight, len(found))
        return float(np.average(found == members, weights=weights))

    def _members(self, y: object) -> npt.NDArray[np.intp]:
        """Returns the place of each label among the classes, and -1 for other labels."""
        labels, texts, members = classes_of(self._labels(y))
        places = {text: place for place, text in enumerate(self._texts)}
        found = np.array([places.get(text, -1) for text in texts], dtype=np.intp)
        if (found < 0).all():
            raise errors.ArgumentError(
                f"y has the classes {', '.join(map(repr, labels[:5].tolist()))}, but this "
                f"{type(self).__name__} knows {', '.join(map(repr, self.classes_[:5].tolist()))}: "
                "use the names of classes that it was fitted to"
            )
        return found[members]

    def summary(self, X: object, y: object, *, level: float = 0.95) -> LogisticSummary:
        """Returns the coefficients with standard errors, tests, intervals and odds ratios.

        The owner computes them in the clear, from the Fisher information of the rows that the model was
        trained on. Train with `C=np.inf` for the figures of a fit by maximum likelihood, as of
        `statsmodels.api.Logit`. With a penalty, coefficients are shrunk. The covariance is then the inverse of
        the information with the penalty. `LogisticSummary.distance` tells how close training came to the
        maximum of the likelihood. A `PrecisionWarning` reports more than a quarter of a standard error.

        Parameters
        ----------
        X : array_like or data frame of shape (n_rows, n_features)
            The rows of the training.
        y : array_like of shape (n_rows,)
            Their classes.
        level : float, default 0.95
            The probability of the confidence intervals.
        """
        self._expect_fitted()
        if len(self.classes_) > 2:
            raise errors.UnsupportedError(
                f"the model has {len(self.classes_)} classes, but standard errors are known for two: merge "
                "classes, or train a model for each class against the others"
            )
        training = self._model.get("training")
        if training is None or training["class_weights"] is not None:
            raise errors.UnsupportedError(
                "the model was trained with weights, or its training is not known, so its likelihood has no "
                "standard errors of this kind: train without class_weight and sample_weight"
            )
        rows, labels, _ = self._training_rows(X, y, None)
        if len(rows) != self._model["rows"]:
            raise errors.of_kind(
                "OtherTable",
                f"there are {len(rows)} rows, but the model was trained on {self._model['rows']}: pass the "
                "rows of the training",
            )
        return logistic_summary(
            [str(name) for name in self.columns_],
            float(self.intercept_[0]),
            self.coef_[0],
            rows,
            self._members(labels) == 1,
            penalty=_penalty_of(training["penalty"], len(rows)),
            level=level,
        )

    def plot(self, X: object, y: object, *, axes: Any = None) -> list[Any]:
        """Draws the ROC curve for rows with known classes, with matplotlib.

        With more than two classes it draws one curve for each class against all others. If the model has
        `history_`, it first draws the loss after each iteration.

        Parameters
        ----------
        X : array_like or data frame of shape (n_rows, n_features)
            The rows.
        y : array_like of shape (n_rows,)
            Their classes.
        axes : matplotlib.axes.Axes or list of them, optional
            Where to draw; new axes by default.

        Returns
        -------
        list of matplotlib.axes.Axes
            One or two axes.
        """
        rows, labels = self._rows(X), self._members(y)
        members = labels[:, np.newaxis] == np.arange(len(self.classes_))
        if len(labels) != len(rows) or not (members.any(axis=0).all() and members.any(axis=1).all()):
            raise errors.ArgumentError(
                f"{len(rows)} rows, but {len(labels)} classes: a curve needs a class for each row, and rows "
                f"of all of {', '.join(self._texts)}"
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


def _penalty_of(penalty: Any, rows: int) -> float:
    """Returns the factor of half the squares of weights that is added to the sum of losses."""
    if penalty == "none":
        return 0.0
    return float(1.0 / penalty["c"] if "c" in penalty else penalty["alpha"] * rows)


def _scores(rows: Floats, weights: Floats) -> Floats:
    """Returns the scores of rows by one model or several."""
    scores: Floats = rows @ weights[..., 1:].T + weights[..., 0]
    return scores


def _of_columns(values: dict[str, Any], weights: Floats) -> Floats:
    """Converts intercepts and weights of prepared columns to original columns, along the last axis."""
    slopes = weights[..., 1:] / np.asarray(values["divisors"])
    intercepts = weights[..., 0] - slopes @ np.asarray(values["centers"])
    return np.concatenate([intercepts[..., np.newaxis], slopes], axis=-1)


def _classes(labels: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], list[str], list[int]]:
    """Returns the classes, at least two, their names as text, and the place of each label among them."""
    classes, texts, members = classes_of(labels)
    if len(classes) < 2:
        raise errors.ArgumentError(
            f"all rows are of one class, {classes[0]!r}: pass rows of two or more classes"
        )
    return classes, texts, members.tolist()


def labels_of(texts: list[str], *, text: bool = False) -> npt.NDArray[Any]:
    """Returns classes by their names: as numbers if all look like numbers and are not known to be
    `text`."""
    for kind in () if text else (np.int64, np.float64):
        try:
            found = np.array(texts, dtype=kind)
        except (OverflowError, ValueError):
            continue
        if [text_of(label) for label in found] == texts:
            return found
    return np.array(texts)


@dataclass(frozen=True)
class _Weighting:
    """Weighted moments of features and the target, which is last."""

    total: float
    """The sum of the weights."""
    means: Floats
    deviations: Floats


class _LeastSquares(_Model):
    """Computes coefficients from decrypted means and covariances, where the target is the last column.

    Any encrypted table can be used.
    """

    coef_: Floats
    """Coefficients of the features `columns_`, of shape `(n_columns,)`."""
    columns_: npt.NDArray[np.object_]
    """Names of the features that have coefficients. Columns of categories have several."""
    intercept_: float
    """The prediction where all features are 0."""

    _type = "regressor"
    _kind = "statistics"
    _encrypts_weights = False
    _weighting: _Weighting | None = None
    """The weighted moments of the last table, if its rows had weights."""
    _inference: LinearFit | None
    """The figures of inference, without a penalty."""

    def __init__(
        self,
        *,
        fit_intercept: bool = True,
        share_bits: int | None = None,
        missing: MissingRules = "refuse",
        unseen: Literal["refuse", "zero"] = "refuse",
        columns: Sequence[str] | None = None,
        drop: Sequence[str] | None = None,
        rare: int | None = None,
        dates: DateParts | None = None,
        mode: Literal["execute", "simulate"] = "execute",
        progress: Progress = None,
        insecure_log_n: int | None = None,
    ) -> None:
        self.fit_intercept = fit_intercept
        self.missing = missing
        self.unseen = unseen
        self.columns = columns
        self.drop = drop
        self.rare = rare
        self.dates = dates
        self.share_bits = share_bits
        self.mode = mode
        self.progress = progress
        self.insecure_log_n = insecure_log_n

    @overload
    def plan(self, n_rows: int, n_features: int) -> Plan: ...
    @overload
    def plan(self, n_rows: object, n_features: object, /) -> Plan: ...
    def plan(self, n_rows: Any, n_features: Any) -> Plan:
        """Makes the plan of a fit, with its costs and keys.

        `plan(X, y)` plans for this table. `plan(n_rows, n_features)` plans for any table of at most that
        number of rows, with that number of features.
        """
        if has_axes(n_rows):
            self._read_options()
            return Plan(self._plan_for(self._data(n_rows, n_features), callback(self.progress)))
        return Plan(self._plan(whole(n_rows, "n_rows"), whole(n_features, "n_features")))

    def decrypt(
        self: _L,
        result: Result,
        key: SecretKey,
        *,
        share: int | None = None,
        table: Table | None = None,
    ) -> _L:
        """Decrypts the result of a table of `encrypt`, and fits the estimator to it.

        Coefficients carry errors that depend on the secret key. With `share` they follow from released
        sums, so that others may see them.

        Parameters
        ----------
        result : EncryptedResult
            The result of the server.
        key : SecretKey
            The key of the owner.
        share : int, optional
            Bits to which sums are released; `share_bits` by default. The plan of the keys must have
            `share_bits`.
        table : EncryptedTable, optional
            The encrypted table. Results of another table are refused.
        """
        # Encrypted tables have no weights.
        self._weighting = None
        self._decrypt(result, key, share, table)
        return self

    load = renamed(decrypt, "load")

    def _plan(self, n_rows: int, n_features: int) -> TablePlan:
        return TablePlan.statistics(
            n_rows,
            n_features + 1,
            share_bits=self._share_bits(),
            insecure_log_n=optional(whole, self.insecure_log_n, "insecure_log_n"),
        )

    def _read_options(self) -> Literal["execute", "simulate"]:
        flag(self.fit_intercept, "fit_intercept")
        self._penalty()
        return super()._read_options()

    def _plan_for(self, data: Data, report: Callback | None) -> TablePlan:
        return self._plan(data.rows, data.features - 1)

    def _penalty(self) -> float:
        """Returns the addend of sums of squares of features."""
        return 0.0

    def _data(self, X: object, y: object, sample_weight: object = None) -> Data:
        rules, encoding = self._rules(), None
        if self._is_plain(X, rules):
            rows, targets = self._training_data(X, y, numeric=True)
            columns = self._columns
            weights = given_weights(sample_weight, len(rows))
        else:
            cells, targets = read_cells(X, rules=rules), floats(column(y))
            expect_one_a_row(len(cells.numbers), len(targets))
            weights = given_weights(sample_weight, len(targets))
            self._set_columns(cells.names)
            encoding = cells.fit(None, rules)
            warn_of_identifiers(encoding, 3)
            if complete := dropping(encoding):
                weights = None if weights is None else weights[~cells.gaps(complete)]
                cells, targets = cells.complete(targets, complete)
            columns, rows = cells.encode(encoding)
        if len(rows) < 2:
            raise errors.ArgumentError("1 sample has no covariances: pass at least 2")
        target = self._target(y)
        while target in columns:
            target += "_"
        self._encrypted_as = (target, list(columns), encoding)
        values = np.column_stack([rows, targets])
        self._weighting = None
        if weights is not None:
            means = np.average(values, axis=0, weights=weights)
            squares = np.average((values - means) ** 2, axis=0, weights=weights)
            self._weighting = _Weighting(float(weights.sum()), means, np.sqrt(squares))
            # The products of these columns are the weighted ones.
            near = values - means if self.fit_intercept else values
            values = np.sqrt(weights)[:, np.newaxis] * near
        return Data([*columns, target], values)

    def _compute(self, table: Table, keys: EvaluationKeys) -> Result:
        return table.compute(keys, callback(self.progress))

    def _set(self, values: dict[str, Any]) -> None:
        *columns, target = values["columns"]
        expected, coded, encoding = getattr(self, "_encrypted_as", (target, columns, None))
        if target != expected:
            raise errors.of_kind(
                "OtherJob",
                f"the last column is {target!r}, but {expected!r} is the target: pass the result of a table "
                "that this estimator encrypted"
            )
        # The result may be of a table that another estimator encrypted.
        self.encoding_ = json.loads(encoding) if encoding and columns == coded else None
        inputs = self.encoding_ and [column["name"] for column in self.encoding_["inputs"]]
        self._set_columns(inputs or columns)
        self.columns_ = np.asarray(columns, dtype=object)
        count = values["rows"]
        mean, covariance = np.asarray(values["mean"]), np.asarray(values["covariance"])
        deviations, weight = np.sqrt(np.diag(covariance) * (count - 1) / count), float(count)
        products = (count - 1) * covariance
        bounds = (count - 1) * np.asarray(values["covariance_error"])
        if self._weighting is not None or not self.fit_intercept:
            off, size = np.asarray(values["mean_error"]), np.abs(mean)
            products += count * np.outer(mean, mean)
            bounds += count * (np.outer(off, size + off) + np.outer(size, off))
        if self._weighting is not None:
            mean, deviations = self._weighting.means, self._weighting.deviations
            weight = self._weighting.total
            # The moments of the table must not travel with the model.
            self._weighting = None
        # A feature that is constant, as the intercept is, or 0 has no coefficient.
        nonzero = np.diag(products)[:-1] != 0.0
        used = np.flatnonzero(nonzero & ~np.isin(columns, self._references()))
        matrix = products[np.ix_(used, used)] + self._penalty() * np.eye(len(used))
        sizes = np.sqrt(np.diag(matrix))
        matrix /= np.outer(sizes, sizes)
        self._check_condition(matrix)
        self.coef_ = np.zeros(len(mean) - 1)
        self.coef_[used] = np.linalg.solve(matrix, products[used, -1] / sizes) / sizes
        centre = float(mean[-1] - self.coef_ @ mean[:-1])
        self.intercept_ = centre if self.fit_intercept else 0.0
        self._inference = None
        if self._penalty() == 0.0:
            self._inference = linear_fit(
                self.coef_,
                products,
                bounds,
                used=used,
                means=mean[:-1] if self.fit_intercept else None,
                rows=count,
                weight=weight,
                deviations=deviations[:-1],
            )

    def _references(self) -> list[str]:
        """Returns the features whose coefficients are 0, because the other categories of their columns and
        the intercept determine them."""
        if self.encoding_ is None or self._penalty() > 0.0:
            return []
        found = []
        for name, _, of_column in codes(self.encoding_):
            code = of_column.get("categories") or of_column.get("joined")
            if code is not None:
                found.append(f"{name}={code['values'][0]}")
        # Without an intercept, the categories of one column take its place.
        return found if self.fit_intercept else found[1:]

    def _check_condition(self, matrix: Floats) -> None:
        eigenvalues = np.linalg.eigvalsh(matrix)
        if len(eigenvalues) and eigenvalues[0] * _MAX_CONDITION < eigenvalues[-1]:
            condition = eigenvalues[-1] / max(eigenvalues[0], np.finfo(float).eps)
            raise errors.of_kind(
                "Regression",
                "the features are nearly linear functions of each other (condition number "
                f"{condition:.1e}, at most {_MAX_CONDITION:.0e}): leave some out, or use Ridge with a "
                "larger alpha"
            )

    def summary(self, *, level: float = 0.95) -> LinearSummary:
        """Returns the coefficients with standard errors, tests and intervals.

        They follow from the decrypted sums, without the rows, as of `statsmodels.api.OLS`, or `WLS` for
        weighted rows. Figures that the errors of encryption hide are NaN, with a `PrecisionWarning`: where
        the error of the variance of the residuals may exceed a sixteenth of it.

        Parameters
        ----------
        level : float, default 0.95
            The probability of the confidence intervals.
        """
        self._expect_fitted()
        if self._inference is None:
            raise errors.UnsupportedError(
                f"coefficients with a penalty of {self._penalty():g} are biased, so they have no tests: fit a "
                "LinearRegression, which has no penalty"
            )
        intercept = self.intercept_ if self.fit_intercept else None
        return linear_summary(self._columns, intercept, self.coef_, self._inference, level)

    def predict(self, X: object) -> Floats:
        """Predicts the target of each row."""
        rows = self._rows(X)
        targets: Floats = rows @ self.coef_ + self.intercept_
        return targets

    if TYPE_CHECKING:
        # scikit-learn makes it from the arguments of `score`.
        def set_score_request(self: _L, *, sample_weight: bool | str | None = ...) -> _L: ...

    def score(self, X: object, y: object, sample_weight: object = None) -> float:
        """Returns R squared: the share of the variance of targets that is predicted, weighted by
        `sample_weight`."""
        targets, found = floats(column(y)), self.predict(X)
        expect_one_a_row(len(found), len(targets))
        weights = weights_of_rows(sample_weight, len(found))
        residual = float(np.sum(weights * (targets - found) ** 2))
        mean = np.average(targets, weights=weights)
        spread = float(np.sum(weights * (targets - mean) ** 2))
        # Constant targets have no variance: scikit-learn returns these values.
        return 1.0 - residual / spread if spread else float(residual == 0.0)


class LinearRegression(_LeastSquares):
    """Least squares of an encrypted table.

    The server computes means and covariances, and the owner solves for the coefficients. The units and
    offsets of columns do not matter. Features that are nearly linear functions of each other do: let `k` be
    the condition number of their correlations. Predictions are off by less than 1e-6 of the deviation of
    targets if `k` is at most 100, and by less than 1e-5 otherwise. Coefficients of standardised features
    are off by less than `1e-7 + 1e-8 k` of the largest. Above a `k` of 1e5, `fit` raises an
    `ArgumentError` of the kind `"Regression"`. The first category of each column of text has the coefficient
    0: the coefficients of the others are differences from it.

    Parameters
    ----------
    fit_intercept : bool, default True
        Whether predictions have a constant part.
    share_bits : int, optional
        From 1 to 12: bits after the point to which the means and products that the server computes are
        released, as parts of ranges. Others may see the coefficients, which follow from them with about
        the same precision. It takes one of the 1024 releases of the key. Without it, the model is for the
        owner of the key alone.
    missing : {"refuse", "mean", "median", "most_frequent", "drop", "flag"} or dict, default "refuse"
        The treatment of missing values, as for `LogisticRegression`.
    unseen : {"refuse", "zero"}, default "refuse"
        The treatment of categories that the table did not have, as for `LogisticRegression`.
    columns, drop : sequence of str, optional
        The columns to use, or to leave out, as for `LogisticRegression`.
    rare : int, optional
        Joins categories with fewer rows, as for `LogisticRegression`.
    dates : dict, optional
        Parts of dates in place of columns, as for `LogisticRegression`.
    mode : {"execute", "simulate"}, default "execute"
        Whether `fit` makes keys, encrypts, computes and decrypts, or does the same steps in the clear.
    progress : callable or bool, optional
        Called as `progress(step, done, total)`. `True` shows bars of tqdm.
    insecure_log_n : int, optional
        For tests: `log2` of the degree of another ring, without security.
    """


class Ridge(_LeastSquares):
    """Least squares of an encrypted table, with a penalty of `alpha` times the squares of the coefficients.

    It can use the tables and results of a `LinearRegression`. The condition number is computed from the
    products of features with the penalty, scaled to a diagonal of 1.

    Parameters
    ----------
    alpha : float, default 1.0
        The factor of the squares of the coefficients, at least 0.
    fit_intercept : bool, default True
        Whether predictions have a constant part, which has no penalty.
    share_bits : int, optional
        As for `LinearRegression`.
    missing : {"refuse", "mean", "median", "most_frequent", "drop", "flag"} or dict, default "refuse"
        The treatment of missing values, as for `LogisticRegression`.
    unseen : {"refuse", "zero"}, default "refuse"
        The treatment of categories that the table did not have, as for `LogisticRegression`.
    columns, drop : sequence of str, optional
        The columns to use, or to leave out, as for `LogisticRegression`.
    rare : int, optional
        Joins categories with fewer rows, as for `LogisticRegression`.
    dates : dict, optional
        Parts of dates in place of columns, as for `LogisticRegression`.
    mode : {"execute", "simulate"}, default "execute"
        Whether `fit` makes keys, encrypts, computes and decrypts, or does the same steps in the clear.
    progress : callable or bool, optional
        Called as `progress(step, done, total)`. `True` shows bars of tqdm.
    insecure_log_n : int, optional
        For tests: `log2` of the degree of another ring, without security.
    """

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        fit_intercept: bool = True,
        share_bits: int | None = None,
        missing: MissingRules = "refuse",
        unseen: Literal["refuse", "zero"] = "refuse",
        columns: Sequence[str] | None = None,
        drop: Sequence[str] | None = None,
        rare: int | None = None,
        dates: DateParts | None = None,
        mode: Literal["execute", "simulate"] = "execute",
        progress: Progress = None,
        insecure_log_n: int | None = None,
    ) -> None:
        super().__init__(
            fit_intercept=fit_intercept,
            share_bits=share_bits,
            missing=missing,
            unseen=unseen,
            columns=columns,
            drop=drop,
            rare=rare,
            dates=dates,
            mode=mode,
            progress=progress,
            insecure_log_n=insecure_log_n,
        )
        self.alpha = alpha

    def _penalty(self) -> float:
        found = real(self.alpha, "alpha", finite=False)
        if not 0.0 <= found < np.inf:
            raise errors.ArgumentError(f"alpha is {found}: it must be finite and not negative")
        return found
