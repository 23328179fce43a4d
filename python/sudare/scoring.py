"""Scores of encrypted rows by a logistic regression, which may be encrypted as well.

The owner of rows plans, makes keys and encrypts rows as those that the model was trained on; a server
scores them with the evaluation keys; the owner decrypts the scores:

>>> import numpy as np
>>> from sudare import LogisticRegression, scoring
>>> X = [[0.0, 1.0], [1.0, 3.0], [2.0, 2.0], [3.0, 5.0]]
>>> model = LogisticRegression(mode="simulate").fit(X, [0, 0, 1, 1])
>>> plan = scoring.plan(4, 2)                                           # owner
>>> keys = plan.make_keys()
>>> rows = plan.encrypt(X, keys.public, like=model)
>>> result = scoring.score(rows, model, keys.evaluation)                # server
>>> scores = scoring.decrypt(result, keys.secret)                       # owner
>>> print(abs(scores.scores - model.decision_function(X)).max() < 1e-3)
True

A model that only its owner knows is given to the server encrypted, by `Plan.encrypt_model`. One that
a server has just trained is scored by as it is, if its keys were made with
`LogisticRegression(scorable=True)`: rows are then encrypted by `Plan.of(key, n_rows)`.

Tables, keys and results are those of the commands `sudare encrypt --like`, `predict` and `decrypt`.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from sudare import _native, errors
from sudare._frames import Frame, read
from sudare._native import EvaluationKeys, PublicKey, SecretKey
from sudare._native import Result as EncryptedResult
from sudare._native import Table as EncryptedTable
from sudare._plain import Floats, floats, to_native
from sudare._plan import JobPlan
from sudare._progress import Progress, callback
from sudare.linear_model import LogisticRegression

__all__ = ["Plan", "Scores", "decrypt", "plan", "score"]


@dataclass(frozen=True)
class Scores:
    """Decrypted scores of rows, in their order."""

    scores: Floats
    """As `LogisticRegression.decision_function` gives them, up to the error of encryption."""
    probabilities: Floats
    """Of the second class: those of the server if the plan has `probability_bits`, else computed
    from the scores."""
    accuracy: float | None
    """The part of rows whose class is predicted, where classes were encrypted with the rows."""
    auc: float | None
    """The area under the ROC curve, where there were rows of both classes."""

    def __repr__(self) -> str:
        return f"Scores of {len(self.scores)} rows"


@dataclass(frozen=True, repr=False)
class Plan(JobPlan):
    """How many rows to score by what model, and parameters for it: made by `plan`."""

    @classmethod
    def of(cls, key: PublicKey | EvaluationKeys | SecretKey, n_rows: int) -> Plan:
        """The plan to score so many rows with a key that was made for scores of as many, or for a
        training with `scorable`, which scores any number of rows."""
        return cls(_native.TablePlan.scoring(key, n_rows))

    def encrypt(
        self,
        X: Frame,
        key: PublicKey,
        *,
        like: LogisticRegression | str | os.PathLike[str] | Frame,
        y: object = None,
        path: str | os.PathLike[str] | None = None,
        overwrite: bool = False,
        progress: Progress = None,
    ) -> EncryptedTable:
        """Rows, encrypted as those that a model was trained on were scaled.

        Parameters
        ----------
        X : a table with the columns of the model, in any order.
        key : public key.
        like : the model in the clear; or the file of one, or of its `columns` and `divisors`; or the
            table of features that it was trained on. Weights are not used.
        y : the classes of the rows, if they are known: the owner then learns how good scores are.
        path : file for the encrypted rows, which are else in memory.
        overwrite : whether the file may exist.
        progress : called as `progress(step, done, total)`; `True` for bars of tqdm.
        """
        columns = read(X)
        return self._native.encrypt_rows(
            key,
            columns.names,
            to_native(columns.values),
            _features(like),
            labels=None if y is None else to_native(_labels(y, like, len(columns.values))),
            path=path,
            overwrite=overwrite,
            progress=callback(progress),
        )

    def encrypt_model(self, model: LogisticRegression, key: PublicKey) -> EncryptedResult:
        """A model, encrypted to score rows by."""
        return self._native.encrypt_model(key, _json(model))


def plan(
    n_rows: int,
    n_features: int,
    *,
    probability_bits: int | None = None,
    sigmoid_range: float = 8.0,
    insecure_log_n: int | None = None,
) -> Plan:
    """Scores of so many rows by a model that somebody has in the clear, in the smallest secure ring.

    With `probability_bits`, from 1 to 16, the server computes probabilities too, to so many bits and
    for scores of at most `sigmoid_range` in magnitude: models whose scores may be larger are
    refused. `insecure_log_n` is `log2` of the degree of a ring to take in place of the secure one,
    for tests.
    """
    return Plan(
        _native.TablePlan.predict(
            n_rows,
            n_features,
            probability_bits=probability_bits,
            sigmoid_range=sigmoid_range,
            insecure_log_n=insecure_log_n,
        )
    )


def score(
    rows: EncryptedTable,
    model: LogisticRegression | EncryptedResult,
    keys: EvaluationKeys,
    progress: Progress = None,
) -> EncryptedResult:
    """Scores of encrypted rows: the server's part, which learns no row and no score.

    The model is one in the clear, one of `Plan.encrypt_model`, or what a training with `scorable`
    gave.
    """
    by = model if isinstance(model, EncryptedResult) else _json(model)
    return rows.score(keys, by, callback(progress))


def decrypt(result: EncryptedResult, key: SecretKey) -> Scores:
    """The scores of a result, for the owner of the key.

    They carry errors that depend on the secret key and cannot be released: they are for their owner
    alone.
    """
    values = result.decrypt(key).values()
    if values["kind"] != "scores":
        raise errors.OtherJobError(
            f"the result holds {values['kind']}, but scores are needed: give what `score` gave"
        )
    return Scores(
        np.array(values["scores"]),
        np.array(values["probabilities"]),
        values["accuracy"],
        values["auc"],
    )


def _json(model: LogisticRegression) -> str:
    """A fitted model, as its file has it."""
    model._expect_fitted()
    return json.dumps(model._model)


def _features(like: Any) -> str:
    """The columns of a model and what they are divided by, as JSON."""
    if isinstance(like, LogisticRegression):
        like._expect_fitted()
        names = ("columns", "divisors", "target")
        return json.dumps({name: like._model[name] for name in names})
    if isinstance(like, (str, os.PathLike)):
        return _native.read_features(like)
    columns = read(like)
    return _native.features_of(columns.names, to_native(columns.values))


def _labels(y: object, like: Any, count: int) -> Floats:
    """1 where a row is of the second class."""
    classes = np.asarray(y).ravel()
    if len(classes) != count:
        raise errors.ShapesError(f"{count} rows and {len(classes)} classes: give one a row")
    if isinstance(like, LogisticRegression):
        unknown = set(classes.tolist()) - set(like.classes_.tolist())
        if unknown:
            raise errors.ArgumentError(
                f"the model knows no class {unknown.pop()!r}: give rows of "
                f"{' and '.join(map(repr, like.classes_.tolist()))}"
            )
        classes = classes == like.classes_[1]
    return floats(classes)
