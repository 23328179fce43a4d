"""Scores of encrypted rows by a logistic regression, which may be encrypted as well.

The owner of the rows plans, makes keys, and encrypts the rows like the table that the model was trained
on. A server computes scores with the evaluation keys. The owner decrypts the scores:

>>> import numpy as np
>>> from sudare import LogisticRegression, scoring
>>> X = [[0.0, 1.0], [1.0, 3.0], [2.0, 2.0], [3.0, 5.0]]
>>> model = LogisticRegression(mode="simulate").fit(X, [0, 0, 1, 1])
>>> plan = scoring.plan(4, 2)                                           # owner
>>> keys = plan.make_keys()
>>> rows = plan.encrypt(X, keys.secret, like=model)
>>> result = scoring.compute(rows, model, keys.evaluation)              # server
>>> scores = scoring.decrypt(result, keys.secret)                       # owner
>>> print(abs(scores.scores - model.decision_function(X)).max() < 1e-3)
True

A model that only its owner may know goes to the server encrypted, by `Plan.encrypt_model`. A server can
also score by a model that it has just trained, if its keys were made with
`LogisticRegression(scorable=True)`: the owner then encrypts rows with `Plan.of(key, n_rows)`.

The commands `sudare encrypt --like`, `predict` and `decrypt` use the same files.
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
from sudare._coding import left_out
from sudare._coding import read as read_cells
from sudare._estimator import column, expect_one_a_row
from sudare._frames import Frame, read
from sudare._keys import expected
from sudare._native import Data, EvaluationKeys, PublicKey, SecretKey
from sudare._native import Result as EncryptedResult
from sudare._native import Table as EncryptedTable
from sudare._plain import Floats, expect_type, flag, optional, path_of, real, whole
from sudare._plan import JobPlan, as_list
from sudare._progress import Progress, callback
from sudare._renamed import renamed
from sudare._shown import columns_html
from sudare.linear_model import LogisticRegression, labels_of

__all__ = ["Plan", "Scores", "compute", "decrypt", "plan", "release"]


def __dir__() -> list[str]:
    return sorted(__all__)


@dataclass(frozen=True)
class Scores:
    """Decrypted scores of rows, in their order."""

    scores: Floats
    """The values of `LogisticRegression.decision_function`, up to the error of encryption. With more than
    two classes, of shape `(n_rows, n_classes)`."""
    probabilities: Floats
    """Probabilities of the second of two classes, or of each of more classes. The server computes them if
    the plan has `probability_bits`; otherwise they follow from the scores."""
    classes: npt.NDArray[Any]
    """The classes of the model: text if that is known, and otherwise numbers if all classes look like
    numbers."""
    predicted: npt.NDArray[Any]
    """The predicted class of each row."""
    accuracy: float | None
    """The share of rows whose class is predicted, where classes were encrypted with the rows."""
    auc: float | None
    """The area under the ROC curve, where there were rows of all classes. With more than two classes, the
    mean area of each class against all others."""
    largest_class: float | None
    """The share of rows of the largest class: the accuracy of always predicting that class."""
    calibration_error: float | None
    """The mean distance of probabilities from shares, over ten bins of rows by probability."""

    def __repr__(self) -> str:
        return f"Scores of {len(self.scores)} rows"

    def _repr_html_(self) -> str:
        several = self.scores.ndim > 1
        columns: dict[str, Any] = {"predicted": self.predicted}
        if several:
            names = [f"probability of {name}" for name in self.classes]
            columns |= dict(zip(names, self.probabilities.T, strict=True))
        else:
            columns |= {"score": self.scores, "probability": self.probabilities}
        measures = {
            "Accuracy": self.accuracy,
            "AUC": self.auc,
            "share of the largest class": self.largest_class,
            "calibration error": self.calibration_error,
        }
        known = [f"{name} {value:.4f}" for name, value in measures.items() if value is not None]
        notes = [", ".join(known) + "."] if known else []
        return columns_html(repr(self), columns, notes)


@dataclass(frozen=True, repr=False)
class Plan(JobPlan):
    """The number of rows and the shape of the model, with parameters for them. Made by `plan`."""

    @classmethod
    def of(cls, key: PublicKey | EvaluationKeys | SecretKey, n_rows: int) -> Plan:
        """Makes the plan to score rows with an existing key.

        Parameters
        ----------
        key : PublicKey, EvaluationKeys or SecretKey
            A key that was made for scores of that number of rows, or for a training with `scorable`, which
            scores any number of rows.
        n_rows : int
            The number of rows.
        """
        expect_type(key, "key", PublicKey, EvaluationKeys, SecretKey)
        return cls(_native.TablePlan.scoring(key, whole(n_rows, "n_rows")))

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
        """Encrypts at most the planned number of rows, prepared like the table that the model was
        trained on.

        Parameters
        ----------
        X : data frame, dict or array_like
            A table with the columns of the model, in any order.
        key : PublicKey or SecretKey
            The key. The public key needs twice the bytes.
        like : LogisticRegression, path, tuple or table
            Says how to prepare rows. Pass the model in the clear, the estimator that encrypted its table,
            or the file of a model or of its `columns`, `centers` and `divisors`. Or pass the table that
            the model was trained on; for a model that a training leaves at the server, as `(X, y)`.
            Weights are not used.
        y : array_like, optional
            The classes of the rows, if they are known. The owner then learns how good the scores are.
        expect : str, optional
            The digest of the public key. Another key is refused.
        path : path, optional
            A file for the encrypted rows, which are otherwise in memory.
        overwrite : bool, default False
            Whether the file may exist.
        progress : callable or bool, optional
            Called as `progress(step, done, total)`. `True` shows bars of tqdm.
        """
        expect_type(key, "key", PublicKey, SecretKey)
        features = self._features(like)
        encoding = json.loads(features).get("encoding")
        if encoding is None:
            columns = read(X)
            names, rows = columns.names, columns.values
        else:
            cells = read_cells(X, skips=left_out(json.dumps(encoding)))
            names, rows = cells.encode(json.dumps(encoding))
            expect_one_a_row(len(rows), len(cells.numbers))
        return self._native.encrypt_rows(
            expected(key, expect),
            Data(names, rows, labels=None if y is None else _labels(y, names, len(rows))),
            features,
            path=optional(path_of, path),
            overwrite=flag(overwrite, "overwrite"),
            progress=callback(progress),
        )

    def encrypt_model(
        self, model: LogisticRegression, key: PublicKey | SecretKey, *, expect: str | None = None
    ) -> EncryptedResult:
        """Encrypts a model to score rows by.

        With `expect`, a public key with another digest is refused.
        """
        expect_type(key, "key", PublicKey, SecretKey)
        return self._native.encrypt_model(expected(key, expect), _json(model))

    def _features(self, like: Any) -> str:
        """Returns the columns of a model and their preparation, as JSON."""
        if isinstance(like, LogisticRegression):
            return like._features()
        if isinstance(like, (str, os.PathLike)):
            return self._native.read_features(path_of(like, "like"))
        if isinstance(like, tuple) and len(like) == 2:
            return self._native.features_of(LogisticRegression()._data(*like))
        columns = read(like)
        try:
            return self._native.features_of(Data(columns.names, columns.values))
        except errors.TableError as error:
            if error.kind != "NoTarget":
                raise
            raise errors.ArgumentError(
                "a model that a training leaves at the server needs the classes of its table, too: pass "
                "like=(X, y), or the estimator that encrypted the table"
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
    """Plans scores by a model that somebody has in the clear, in the smallest secure ring.

    Parameters
    ----------
    n_rows : int
        The maximum number of rows.
    n_features : int
        The number of features. A column of categories counts once for each category.
    n_classes : int, default 2
        The number of classes.
    probability_bits : int, optional
        From 1 to 16: the server also computes probabilities, to this number of bits.
    sigmoid_range : float, default 8.0
        For `probability_bits`: the maximum magnitude of scores. Models whose scores may be larger are
        refused.
    share_bits : int, optional
        From 1 to 12: scores are precise enough for `release` to this number of bits. More rows and a larger
        `score_range` leave fewer bits.
    score_range : float, optional
        For `share_bits`, from 1 to 1024 and public: the maximum magnitude of scores. Models whose scores
        may be larger are refused.
    insecure_log_n : int, optional
        For tests: `log2` of the degree of another ring, without security.
    """
    share_bits = optional(whole, share_bits, "share_bits")
    score_range = optional(real, score_range, "score_range")
    probability_bits = optional(whole, probability_bits, "probability_bits")
    if (share_bits is None) != (score_range is None):
        raise errors.of_kind(
            "Usage",
            "shared scores need share_bits and score_range, the maximum magnitude of a score: give both, or "
            "neither"
        )
    if share_bits is not None and probability_bits is not None:
        raise errors.of_kind(
            "Usage",
            "probabilities follow from shared scores: leave out probability_bits or share_bits"
        )
    return Plan(
        _native.TablePlan.predict(
            whole(n_rows, "n_rows"),
            whole(n_features, "n_features"),
            classes=whole(n_classes, "n_classes"),
            probability_bits=probability_bits,
            sigmoid_range=real(sigmoid_range, "sigmoid_range"),
            share_bits=share_bits,
            score_range=score_range,
            insecure_log_n=optional(whole, insecure_log_n, "insecure_log_n"),
        )
    )


def compute(
    rows: EncryptedTable,
    model: LogisticRegression | EncryptedResult,
    keys: EvaluationKeys,
    progress: Progress = None,
) -> EncryptedResult:
    """Computes the scores of encrypted rows: the server's part, which learns no row and no score.

    Parameters
    ----------
    rows : EncryptedTable
        The rows.
    model : LogisticRegression or EncryptedResult
        A model in the clear, the result of `Plan.encrypt_model`, or the result of a training with
        `scorable`.
    keys : EvaluationKeys
        The keys of the server.
    progress : callable or bool, optional
        Called as `progress(step, done, total)`. `True` shows bars of tqdm.
    """
    expect_type(rows, "rows", EncryptedTable)
    expect_type(keys, "keys", EvaluationKeys)
    by = model if isinstance(model, EncryptedResult) else _json(model)
    return rows.score(keys, by, callback(progress))


score = renamed(compute, "score")


def decrypt(
    result: EncryptedResult, key: SecretKey, *, table: EncryptedTable | None = None
) -> Scores:
    """Decrypts scores, for the owner of the key.

    They carry errors that depend on the secret key. To share scores, use `release`. With `table`, scores
    of other encrypted rows are refused.
    """
    return _scores(result, key, None, table)


def release(
    result: EncryptedResult, key: SecretKey, bits: int, *, table: EncryptedTable | None = None
) -> Scores:
    """Decrypts scores that others than the owner of the key may see.

    Noise hides the error that depends on the key, and scores are rounded to `bits` bits after the point.
    Probabilities follow from them. Plan with `plan(..., share_bits=bits, score_range=...)` for enough
    precision. A call is one of the 1024 releases of a key, which are counted in a ledger next to the file
    of the secret key, or with a key that is only in memory. The same result, to the same bits, is the same
    release with the same values. `table` is as for `decrypt`.
    """
    return _scores(result, key, whole(bits, "bits"), table)


def _scores(
    result: EncryptedResult, key: SecretKey, bits: int | None, table: EncryptedTable | None
) -> Scores:
    """Decrypts scores, to be shared to a number of bits if one is given."""
    expect_type(result, "result", EncryptedResult)
    expect_type(key, "key", SecretKey)
    values = result.decrypt(key, bits, tables=optional(as_list, table)).values()
    if values["kind"] != "scores":
        raise errors.of_kind(
            "OtherJob",
            f"the result holds {values['kind']}, but scores are needed: pass the result of `compute`"
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
    """Returns the file of a fitted model."""
    expect_type(model, "model", LogisticRegression)
    model._expect_fitted()
    return json.dumps(model._model)


def _labels(y: object, columns: list[str], count: int) -> tuple[str, list[str], list[int]]:
    """Returns the classes of rows under a name that no column has, which stays here."""
    labels = column(y)
    if len(labels) != count:
        raise errors.of_kind("Shapes", f"{count} rows, but {len(labels)} classes: pass a class for each row")
    _, texts, members = classes_of(labels)
    name = "label"
    while name in columns:
        name += "_"
    return name, texts, members.tolist()
