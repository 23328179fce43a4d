"""Scores of encrypted rows by a logistic regression, which may be encrypted as well.

The owner of rows plans, makes keys and encrypts rows as those that the model was trained on; a server
scores them with the evaluation keys; the owner decrypts the scores:

>>> import numpy as np
>>> from sudare import LogisticRegression, scoring
>>> X = [[0.0, 1.0], [1.0, 3.0], [2.0, 2.0], [3.0, 5.0]]
>>> model = LogisticRegression(mode="simulate").fit(X, [0, 0, 1, 1])
>>> plan = scoring.plan(4, 2)                                           # owner
>>> keys = plan.make_keys()
>>> rows = plan.encrypt(X, keys.secret, like=model)
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
import numpy.typing as npt

from sudare import _native, errors
from sudare._coding import classes_of
from sudare._coding import read as read_cells
from sudare._context import expected
from sudare._estimator import column, expect_one_a_row
from sudare._frames import Frame, read
from sudare._native import Data, EvaluationKeys, PublicKey, SecretKey
from sudare._native import Result as EncryptedResult
from sudare._native import Table as EncryptedTable
from sudare._plain import Floats, to_native, whole
from sudare._plan import JobPlan
from sudare._progress import Progress, callback
from sudare.linear_model import LogisticRegression, labels_of

__all__ = ["Plan", "Scores", "decrypt", "plan", "release", "score"]


@dataclass(frozen=True)
class Scores:
    """Decrypted scores of rows, in their order."""

    scores: Floats
    """As `LogisticRegression.decision_function` gives them, up to the error of encryption: of more
    than two classes, of shape `(n_rows, n_classes)`."""
    probabilities: Floats
    """Of the second of two classes, or of each of more: those of the server if the plan has
    `probability_bits`, else computed from the scores."""
    classes: npt.NDArray[Any]
    """What the model tells apart: text if that is known, and otherwise numbers if all classes look
    so."""
    predicted: npt.NDArray[Any]
    """The class that the model says of each row."""
    accuracy: float | None
    """The part of rows whose class is predicted, where classes were encrypted with the rows."""
    auc: float | None
    """The area under the ROC curve, of more than two classes the mean of each against all others;
    where there were rows of all classes."""
    largest_class: float | None
    """The part of rows that are of the largest class: the accuracy of saying always that."""
    calibration_error: float | None
    """Mean distance of probabilities from shares, over ten bins of rows by probability."""

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
        key: PublicKey | SecretKey,
        *,
        like: LogisticRegression | str | os.PathLike[str] | Frame,
        y: object = None,
        expect: str | None = None,
        path: str | os.PathLike[str] | None = None,
        overwrite: bool = False,
        progress: Progress = None,
    ) -> EncryptedTable:
        """At most as many rows as planned, encrypted as those that a model was trained on were
        prepared.

        Parameters
        ----------
        X : a table with the columns of the model, in any order.
        key : secret key, or the public one, for twice the bytes.
        like : the model in the clear, or the estimator that encrypted the table for it; or the file
            of one, or of its `columns`, `centers` and `divisors`; or the table that it was trained
            on, for a model that a training leaves as `(X, y)`. Weights are not used.
        y : the classes of the rows, if they are known: the owner then learns how good scores are.
        expect : digest of the public key, without which any key is taken.
        path : file for the encrypted rows, which are else in memory.
        overwrite : whether the file may exist.
        progress : called as `progress(step, done, total)`; `True` for bars of tqdm.
        """
        features = self._features(like)
        encoding = json.loads(features).get("encoding")
        if encoding is None:
            columns = read(X)
            names, rows = columns.names, columns.values
        else:
            cells = read_cells(X)
            names, rows = cells.encode(json.dumps(encoding))
            expect_one_a_row(len(rows), len(cells.numbers))
        return self._native.encrypt_rows(
            expected(key, expect),
            Data(names, to_native(rows), labels=None if y is None else _labels(y, names, len(rows))),
            features,
            path=path,
            overwrite=overwrite,
            progress=callback(progress),
        )

    def encrypt_model(
        self, model: LogisticRegression, key: PublicKey | SecretKey, *, expect: str | None = None
    ) -> EncryptedResult:
        """A model, encrypted to score rows by. With `expect`, any other key than that of this digest
        is refused."""
        return self._native.encrypt_model(expected(key, expect), _json(model))

    def _features(self, like: Any) -> str:
        """The columns of a model and how they are prepared, as JSON."""
        if isinstance(like, LogisticRegression):
            return like._features()
        if isinstance(like, (str, os.PathLike)):
            return self._native.read_features(like)
        if isinstance(like, tuple) and len(like) == 2:
            return self._native.features_of(LogisticRegression()._data(*like))
        columns = read(like)
        try:
            return self._native.features_of(Data(columns.names, to_native(columns.values)))
        except errors.NoTargetError:
            raise errors.ArgumentError(
                "rows are prepared for a model that a training leaves by the classes, too, of the "
                "table that it was trained on: give like=(X, y), or the estimator that encrypted it"
            ) from None


def plan(
    n_rows: int,
    n_features: int,
    *,
    n_classes: int = 2,
    probability_bits: int | None = None,
    sigmoid_range: float = 8.0,
    share_bits: int | None = None,
    score_range: float | None = None,
    insecure_log_n: int | None = None,
) -> Plan:
    """Scores of at most so many rows by a model of so many classes that somebody has in the clear, in
    the smallest secure ring. `n_features` counts those of categories.

    With `probability_bits`, from 1 to 16, the server computes probabilities too, to so many bits and
    for scores of at most `sigmoid_range` in magnitude: models whose scores may be larger are
    refused.

    With `share_bits`, from 1 to 12, scores are precise enough for `release` to so many bits, if they
    are at most `score_range` in magnitude, which is from 1 to 1024 and public: models whose scores
    may be larger are refused. The more rows and the larger the range, the fewer bits there are.

    `insecure_log_n` is `log2` of the degree of a ring to take in place of the secure one, for tests.
    """
    if (share_bits is None) != (score_range is None):
        raise errors.UsageError(
            "scores to be shared take share_bits and score_range, what no score exceeds in magnitude: "
            "give both, or neither"
        )
    if share_bits is not None and probability_bits is not None:
        raise errors.UsageError(
            "probabilities follow from scores that are shared: leave out probability_bits or share_bits"
        )
    return Plan(
        _native.TablePlan.predict(
            n_rows,
            n_features,
            classes=whole(n_classes, "n_classes"),
            probability_bits=probability_bits,
            sigmoid_range=sigmoid_range,
            share_bits=share_bits,
            score_range=score_range,
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


def decrypt(
    result: EncryptedResult, key: SecretKey, *, table: EncryptedTable | None = None
) -> Scores:
    """The scores of a result, for the owner of the key. With `table`, scores that say that they are of
    other encrypted rows are refused.

    They carry errors that depend on the secret key: `release` makes what others may see.
    """
    return _scores(result, key, None, table)


def release(
    result: EncryptedResult, key: SecretKey, bits: int, *, table: EncryptedTable | None = None
) -> Scores:
    """The scores of a result as others than the owner of the key may see them.

    They have noise that hides the error which depends on the key, and are rounded to `bits` bits after
    the point; probabilities follow from them. Keys are made precise enough with
    `plan(..., share_bits=bits, score_range=...)`. It is one of the 1024 releases that a key has, which
    are counted in a ledger beside the file of the secret key, or with a key that is in memory only; the
    same result, to the same bits, is the same release and has the same values. `table` is as for
    `decrypt`.
    """
    return _scores(result, key, whole(bits, "bits"), table)


def _scores(
    result: EncryptedResult, key: SecretKey, bits: int | None, table: EncryptedTable | None
) -> Scores:
    """The scores of a result, to be shared to so many bits, if any are given."""
    values = result.decrypt(key, bits, tables=None if table is None else [table]).values()
    if values["kind"] != "scores":
        raise errors.OtherJobError(
            f"the result holds {values['kind']}, but scores are needed: give what `score` gave"
        )
    classes = labels_of(values["classes"], text=values.get("text_labels", False))
    places = {name: place for place, name in enumerate(values["classes"])}
    return Scores(
        scores=np.array(values["scores"]),
        probabilities=np.array(values["probabilities"]),
        classes=classes,
        predicted=classes[[places[name] for name in values["predicted"]]],
        accuracy=values["accuracy"],
        auc=values["auc"],
        largest_class=values["largest_class"],
        calibration_error=values["calibration_error"],
    )


def _json(model: LogisticRegression) -> str:
    """A fitted model, as its file has it."""
    model._expect_fitted()
    return json.dumps(model._model)


def _labels(y: object, columns: list[str], count: int) -> tuple[str, list[str], list[int]]:
    """The classes of rows under a name that no column has, which goes nowhere."""
    labels = column(y)
    if len(labels) != count:
        raise errors.ShapesError(f"{count} rows and {len(labels)} classes: give one a row")
    _, texts, members = classes_of(labels)
    name = "label"
    while name in columns:
        name += "_"
    return name, texts, members.tolist()
