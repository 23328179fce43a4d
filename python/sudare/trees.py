"""Random forests and gradient boosted trees on encrypted rows.

The server has a model in the clear, and learns nothing about rows and predictions. The owner of the rows
gets a setup from the server, with the grids of features and the parameters of keys, but without thresholds
and leaves:

| who | step |
|---|---|
| server | `plan = trees.plan(forest, trees.Grid.fitted(sample))`, and sends `plan.setup` |
| owner | `secret, keys = setup.make_keys()` |
| owner | `rows = setup.encrypt(secret, x)` |
| server | `scores = plan.compute(keys, rows)` |
| owner | `setup.decrypt(secret, scores)` |

Each feature is replaced by the nearest point of its public grid. The predictions are those of the model on
the grid, with leaves rounded as `explain().error` says. Whole numbers on a grid of step 1 stay as they are.

>>> import numpy as np
>>> from sklearn.tree import DecisionTreeRegressor
>>> from sudare import trees
>>> x = np.arange(40.0).reshape(20, 2)
>>> model = DecisionTreeRegressor(max_depth=2, random_state=0).fit(x, x[:, 0] ** 2)
>>> forest = trees.Forest.from_estimator(model)
>>> bool(np.allclose(forest.predict(x), model.predict(x)))
True
>>> plan = trees.plan(forest, trees.Grid.fitted(x))
>>> plan.explain().levels
8
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from sudare import _native, errors
from sudare._plain import (
    choice,
    expect_type,
    flag,
    hidden,
    items,
    octets,
    optional,
    path_of,
    real,
    reals,
    string,
    whole,
)
from sudare._progress import Progress, callback
from sudare._shown import Facts, duration, facts_html, megabytes
from sudare._sklearn_trees import described

__all__ = ["Explanation", "Feature", "Forest", "Grid", "Keys", "Plan", "Secret", "Setup", "plan"]


def __dir__() -> list[str]:
    return sorted(__all__)


_Floats: TypeAlias = npt.NDArray[np.float64]
_Path: TypeAlias = str | os.PathLike[str]


class Forest:
    """A sum of trees in the clear."""

    def __init__(self, native: _native.TreesForest) -> None:
        self._native = native

    @classmethod
    def from_estimator(cls, model: Any) -> Forest:
        """Makes the forest of a fitted estimator of scikit-learn, from its public attributes.

        Parameters
        ----------
        model : decision tree, random forest, extra trees or gradient boosting of scikit-learn
            A classifier or a regressor with one output. Histogram gradient boosting has no public
            attributes with its trees: export it to ONNX, and use `from_onnx`.
        """
        return cls(_native.TreesForest.read(json.dumps(described(model), allow_nan=False).encode()))

    @classmethod
    def from_xgboost(cls, model: Any) -> Forest:
        """Makes the forest of a model of XGBoost.

        Parameters
        ----------
        model : Booster, estimator of XGBoost, path or bytes
            A trained model, or its JSON, as `save_model("model.json")` writes it. Missing values are not
            possible in encrypted rows, so a model that takes another number than NaN as missing is
            refused.
        """
        missing = getattr(model, "missing", None)
        if isinstance(missing, int | float) and not math.isnan(missing):
            raise errors.of_kind(
                "TreesFormat", f"the model takes {missing} as a missing value: train with missing=nan"
            )
        booster = model.get_booster() if hasattr(model, "get_booster") else model
        if hasattr(booster, "save_raw"):
            forest = cls._read(bytes(booster.save_raw(raw_format="json")))
        else:
            forest = cls._read(model)
        classes = getattr(model, "classes_", None)
        return forest if classes is None else forest.renamed(classes=[str(name) for name in classes])

    @classmethod
    def from_lightgbm(cls, model: Any) -> Forest:
        """Makes the forest of a model of LightGBM.

        Parameters
        ----------
        model : Booster, estimator of LightGBM, path or bytes
            A trained model, or its text, as `save_model` writes it.
        """
        booster = getattr(model, "booster_", model)
        if hasattr(booster, "model_to_string"):
            forest = cls._read(str(booster.model_to_string()).encode())
        else:
            forest = cls._read(model)
        classes = getattr(model, "classes_", None)
        return forest if classes is None else forest.renamed(classes=[str(name) for name in classes])

    @classmethod
    def from_onnx(cls, model: _Path | bytes) -> Forest:
        """Makes the forest of an ONNX model with one `TreeEnsembleClassifier` or `TreeEnsembleRegressor`.

        Parameters
        ----------
        model : path or bytes
            The file of the model, or its content.
        """
        return cls._read(model)

    @classmethod
    def load(cls, path: _Path) -> Forest:
        """Opens the file of a model: JSON of `save` or of XGBoost, text of LightGBM, or ONNX."""
        return cls(_native.TreesForest.load(path_of(path)))

    @classmethod
    def _read(cls, model: _Path | bytes) -> Forest:
        if isinstance(model, bytes | bytearray | memoryview):
            return cls(_native.TreesForest.read(octets(model, "model")))
        return cls.load(path_of(model, "model"))

    def save(self, path: _Path, *, overwrite: bool = False) -> None:
        """Writes the forest to a file of JSON, which the command line reads, too.

        Parameters
        ----------
        path : path
            The file.
        overwrite : bool, default False
            Whether the file may exist.
        """
        _write(path_of(path), self._native.to_json(), flag(overwrite, "overwrite"))

    def renamed(
        self, features: Sequence[str] | None = None, classes: Sequence[str] | None = None
    ) -> Forest:
        """Returns the forest with other names of features or of classes, in their order."""
        named = [_names(features, "features"), _names(classes, "classes")]
        return Forest(self._native.renamed(*named))

    @property
    def features(self) -> list[str]:
        """The names of the features."""
        return self._native.features

    @property
    def classes(self) -> list[str]:
        """The names of the classes; empty for regressions, and for models without names."""
        return self._native.classes

    def __len__(self) -> int:
        """Returns the number of trees."""
        return self._native.trees

    def predict(self, x: npt.ArrayLike) -> _Floats:
        """Computes predictions in the clear: a number for each row, or the probability of each class.

        Parameters
        ----------
        x : array_like of shape (rows, features)
            Rows without missing values.
        """
        return _flat(self._native.predict(_rows(x, len(self.features))))

    def __repr__(self) -> str:
        return f"Forest({len(self)} trees, {len(self.features)} features)"

    def _repr_html_(self) -> str:
        facts = {"trees": len(self), "features": len(self.features), "classes": ", ".join(self.classes)}
        return facts_html("Forest", facts)


@dataclass(frozen=True)
class Feature:
    """The public grid of a feature: `low + step * code` for each code below `points`."""

    name: str
    low: float
    step: float
    points: int

    def __post_init__(self) -> None:
        string(self.name, "name")
        real(self.low, "low")
        real(self.step, "step")
        whole(self.points, "points", 1, 2**32)

    def _described(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "low": float(self.low),
            "step": float(self.step),
            "points": int(self.points),
        }


class Grid:
    """The public grids of all features, in the order of a model."""

    def __init__(self, features: Sequence[Feature]) -> None:
        listed = items(features, "features", "a list of Feature")
        for feature in listed:
            expect_type(feature, "a feature", Feature)
        self.features: tuple[Feature, ...] = tuple(listed)

    @classmethod
    def fitted(
        cls, sample: npt.ArrayLike, *, digits: int = 2, names: Sequence[str] | None = None
    ) -> Grid:
        """Makes grids for rows like these, from the least to the greatest number of each feature.

        Whole numbers with at most `16 ** digits` values in their range keep their values. Other numbers
        get `16 ** digits` points. The grids are public: fit them to rows whose extremes are no secret.

        Parameters
        ----------
        sample : array_like of shape (rows, features)
            Rows without missing values.
        digits : int, default 2
            Digits of 4 bits, 1 to 8. More digits follow the model more closely, and take longer.
        names : sequence of str, optional
            The names of the features.
        """
        count = whole(digits, "digits", 1, 8)
        rows = reals(sample, "sample", "TreesCount")
        if rows.ndim != 2 or 0 in rows.shape:
            raise errors.of_kind(
                "TreesCount", f"the sample has the shape {rows.shape}: pass (rows, features)"
            )
        named = _names(names, "names") or [f"x{number}" for number in range(rows.shape[1])]
        if len(named) != rows.shape[1]:
            raise errors.of_kind(
                "TreesCount", f"{len(named)} names for {rows.shape[1]} features: pass one for each"
            )
        fitted = json.loads(_native.fit_trees_grid(named, np.ascontiguousarray(rows), count))
        return cls([Feature(**feature) for feature in fitted])

    def _json(self) -> str:
        return json.dumps([feature._described() for feature in self.features])

    def __len__(self) -> int:
        return len(self.features)

    def __repr__(self) -> str:
        return f"Grid({len(self)} features)"


@dataclass(frozen=True)
class Explanation(Facts):
    """The costs of a block of rows. Prints as a table."""

    log_n: int
    """`log2` of the degree of the ring."""
    log2_qp: float
    """Bits of the largest modulus with special primes."""
    security_bits: float
    """The security of the parameters, in bits."""
    t: int
    """The plaintext modulus."""
    levels: int
    """Levels from encrypted digits to scores."""
    block_rows: int
    """Rows of a block. A block costs the same whether it is full or not."""
    trees: int
    """The number of trees."""
    height: int
    """The most tests between the root of a tree and a leaf."""
    thresholds: int
    """The number of different tests."""
    inputs: int
    """Ciphertexts of a block of rows."""
    input_bytes: int
    """Bytes of a block of rows under a public key. The secret key halves them."""
    outputs: int
    """Ciphertexts of the scores of a block."""
    output_bytes: int
    """Bytes of the scores of a block."""
    key_bytes: int
    """Bytes of the evaluation keys."""
    relinearizations: int
    """Relinearisations of a block, which dominate the time."""
    constant_products: int
    """Products of ciphertexts with constants."""
    bootstraps: int
    """Bootstrapped ciphertexts: none."""
    seconds: float
    """Predicted time of a block on one thread."""
    memory_bytes: int
    """Approximate memory for a block."""
    error: float
    """A bound on the error of a raw score, by rounded leaves."""
    leakage: list[str]
    """The information that each party learns."""

    def _facts(self) -> dict[str, str]:
        return {
            "model": f"{self.trees} trees of height {self.height}, {self.thresholds} thresholds",
            "ring": f"N = 2^{self.log_n}, log2 QP {self.log2_qp:.0f}",
            "security": f"{self.security_bits:.0f} bits",
            "levels": str(self.levels),
            "evaluation keys": megabytes(self.key_bytes),
            "rows": f"{self.block_rows} in a block",
            "inputs": f"{self.inputs} ciphertexts, {megabytes(self.input_bytes)}",
            "outputs": f"{self.outputs} ciphertexts, {megabytes(self.output_bytes)}",
            "relinearisations": str(self.relinearizations),
            "time": f"about {duration(self.seconds)} a block on one thread",
            "memory": f"about {megabytes(self.memory_bytes)}",
            "error": f"at most {self.error:.1e} of a raw score, by rounded leaves",
            "leakage": "; ".join(self.leakage),
        }


class Keys:
    """The evaluation keys, for the server."""

    def __init__(self, data: bytes) -> None:
        self._data = octets(data, "keys")

    def to_bytes(self) -> bytes:
        """Returns the content of the file of the keys."""
        return self._data

    def save(self, path: _Path, *, overwrite: bool = False) -> None:
        """Writes the keys to a file, which the command line reads, too.

        Parameters
        ----------
        path : path
            The file.
        overwrite : bool, default False
            Whether the file may exist.
        """
        _write(path_of(path), self._data, flag(overwrite, "overwrite"))

    @classmethod
    def open(cls, path: _Path) -> Keys:
        """Opens the file of evaluation keys."""
        return cls(_content(path_of(path)))

    def __repr__(self) -> str:
        return f"Keys({len(self._data)} bytes)"


class Secret:
    """Encrypts rows and decrypts predictions. For the owner alone: it cannot be pickled."""

    def __init__(self, native: _native.TreesSecret) -> None:
        self._native = native

    @classmethod
    def open(cls, path: _Path, *, passphrase: str | None = None) -> Secret:
        """Opens the file of a secret key, which may be sealed by a passphrase."""
        return cls(
            _native.TreesSecret.open(path_of(path), optional(hidden, passphrase, "passphrase"))
        )

    def save(self, path: _Path, *, overwrite: bool = False, passphrase: str | None = None) -> None:
        """Writes the key to a file that only the user may read.

        Parameters
        ----------
        path : path
            The file.
        overwrite : bool, default False
            Whether the file may exist. You lose the rows that only the old key decrypts.
        passphrase : str, optional
            A passphrase that seals the file.
        """
        self._native.save(
            path_of(path),
            overwrite=flag(overwrite, "overwrite"),
            passphrase=optional(hidden, passphrase, "passphrase"),
        )

    @property
    def key_id(self) -> str:
        """The fingerprint of the key pair, which tells nothing about the key."""
        return self._native.key_id

    def __reduce__(self) -> tuple[Any, ...]:
        raise errors.of_kind(
            "SecretKeyPickle",
            "a secret key cannot be pickled or copied, so that it stays with its owner: use save()"
        )

    def __repr__(self) -> str:
        return "Secret(...)"


class Setup:
    """The public part of a plan, which is all that the owner of rows needs.

    It has the grids of features, the parameters of keys, and the scale of scores, and neither thresholds nor
    leaves.
    """

    def __init__(self, text: str) -> None:
        self._text = string(text, "a setup")
        try:
            described: dict[str, Any] = json.loads(self._text)
            self._setup = described["setup"]
            self.grid = Grid([Feature(**feature) for feature in self._setup["features"]])
            """The grids of the features."""
            self.classes: list[str] = list(self._setup["classes"])
            """The names of the classes, or nothing."""
        except (KeyError, RecursionError, TypeError, ValueError) as error:
            raise errors.of_kind(
                "TreesForest", f"this is no setup ({error!r}): pass the text of to_json()"
            ) from None

    def to_json(self) -> str:
        """Returns the setup as JSON, for `Setup(text)` and for `sudare trees keygen`."""
        return self._text

    def make_keys(self) -> tuple[Secret, Keys]:
        """Makes the owner's secret key, and the evaluation keys for the server."""
        secret, keys = _native.generate_trees_keys(self._text)
        return Secret(secret), Keys(keys)

    def encrypt(
        self,
        secret: Secret,
        x: npt.ArrayLike,
        *,
        outside: Literal["refuse", "clamp"] = "refuse",
        progress: Progress = None,
    ) -> bytes:
        """Encrypts rows, and returns the bytes of their file: the owner's part.

        Parameters
        ----------
        secret : Secret
            The key.
        x : array_like of shape (rows, features)
            Rows without missing values.
        outside : {"refuse", "clamp"}, default "refuse"
            The treatment of numbers outside a grid: an error, or the nearest end of the grid.
        progress : callable or bool, optional
            Called as `progress(step, done, total)`. `True` shows bars of tqdm.
        """
        self._expect(secret)
        clamp = choice(outside, "outside", ("refuse", "clamp")) == "clamp"
        rows = _rows(x, len(self.grid))
        return secret._native.encrypt(rows, clamp, callback(progress))

    def decrypt(self, secret: Secret, scores: bytes) -> _Floats:
        """Decrypts scores: a number for each row, or the probability of each class."""
        self._expect(secret)
        return _flat(secret._native.decrypt(octets(scores, "scores")))

    def _expect(self, secret: Secret) -> None:
        expect_type(secret, "secret", Secret)
        if json.loads(secret._native.setup()) != self._setup:
            raise errors.of_kind(
                "OtherJob", "the key was made for another setup: use the key of this setup, or make one"
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Setup) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return f"Setup({len(self.grid)} features)"


class Plan:
    """The computation of a forest on encrypted rows, for the server."""

    def __init__(self, forest: Forest, native: _native.TreesPlan) -> None:
        self.forest = forest
        """The model."""
        self._native = native
        self.setup = Setup(native.planned())
        """The part for the owner of rows."""

    def explain(self) -> Explanation:
        """Returns the costs of a block of rows, and the information that each party learns."""
        return Explanation(**json.loads(self._native.explain()))

    def compute(self, keys: Keys, rows: bytes, *, progress: Progress = None) -> bytes:
        """Computes the scores of encrypted rows, and returns the bytes of their file: the server's part.

        Parameters
        ----------
        keys : Keys
            The evaluation keys of the owner.
        rows : bytes
            The result of `Setup.encrypt`.
        progress : callable or bool, optional
            Called as `progress(step, done, total)`. `True` shows bars of tqdm.
        """
        expect_type(keys, "keys", Keys)
        return self._native.compute(keys._data, octets(rows, "rows"), callback(progress))

    def execute(
        self,
        x: npt.ArrayLike,
        *,
        outside: Literal["refuse", "clamp"] = "refuse",
        progress: Progress = None,
    ) -> _Floats:
        """Does all steps in one process with new keys, and returns the predictions.

        The parameters are as for `Setup.encrypt`.
        """
        _rows(x, len(self.setup.grid))
        secret, keys = self.setup.make_keys()
        rows = self.setup.encrypt(secret, x, outside=outside, progress=progress)
        return self.setup.decrypt(secret, self.compute(keys, rows, progress=progress))

    def on_grid(self, x: npt.ArrayLike) -> _Floats:
        """Returns rows with each number replaced by the nearest point of its grid.

        `forest.predict(plan.on_grid(x))` are the predictions that encryption returns, with leaves as they
        are. Numbers outside a grid become its ends.
        """
        rows = _rows(x, len(self.setup.grid))
        low, step, most = (
            np.array([getattr(feature, name) for feature in self.setup.grid.features], dtype=np.float64)
            for name in ("low", "step", "points")
        )
        codes = np.clip(np.rint((rows - low) / step), 0, most - 1)
        return np.asarray(low + step * codes)

    def __repr__(self) -> str:
        return f"Plan({self.forest!r})"

    def _repr_html_(self) -> str:
        return facts_html("Plan", self.explain()._facts())


def plan(forest: Forest, grid: Grid, *, tolerance: float | None = None) -> Plan:
    """Plans a forest on rows with these grids, without bootstrapping.

    Parameters
    ----------
    forest : Forest
        The model.
    grid : Grid
        The grid of each feature.
    tolerance : float, optional
        The maximum error of a raw score by rounded leaves. A smaller one takes a larger modulus. The
        default is the fastest plan.
    """
    expect_type(forest, "forest", Forest)
    expect_type(grid, "grid", Grid)
    most = None if tolerance is None else real(tolerance, "tolerance")
    return Plan(forest, _native.TreesPlan(forest._native, grid._json(), most))


def _names(names: Sequence[str] | None, what: str) -> list[str]:
    """Checks names; nothing for no names."""
    if names is None:
        return []
    return [string(name, f"a name of {what}") for name in items(names, what, "a list of names")]


def _rows(x: npt.ArrayLike, features: int) -> _Floats:
    """Converts rows of a number of features."""
    rows = reals(x, "rows", "TreesCount")
    if rows.ndim != 2 or rows.shape[0] == 0 or rows.shape[1] != features:
        raise errors.of_kind(
            "TreesCount", f"rows have the shape {rows.shape}: pass the shape (rows, {features})"
        )
    return np.ascontiguousarray(rows)


def _flat(predictions: _Floats) -> _Floats:
    """Returns one number for each row without an axis of its own."""
    return predictions[:, 0] if predictions.shape[1] == 1 else predictions


def _write(path: Path, content: bytes, overwrite: bool) -> None:
    try:
        with path.open("wb" if overwrite else "xb") as file:
            file.write(content)
    except FileExistsError:
        raise errors.of_kind(
            "Exists", f"{path} exists: pass overwrite=True, or another path"
        ) from None
    except OSError as error:
        raise errors.of_kind("Io", f"cannot write {path}: {error}") from None


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise errors.of_kind("NoFile", f"cannot read {path}: {error}") from None
    except OSError as error:
        raise errors.of_kind("Io", f"cannot read {path}: {error}") from None
