"""Networks on encrypted samples.

With `plan` the server has the weights in the clear, and learns nothing about samples and results. With
`plan_hidden` the weights are encrypted, too. The owner of the samples makes keys, encrypts and decrypts;
the server computes:

| who | step |
|---|---|
| owner | `secret, keys = plan.make_keys()` |
| owner | `batch = plan.encrypt(secret, samples)` |
| server | `results = plan.compute(keys, batch)` |
| owner | `plan.decrypt(secret, results)` |

>>> import numpy as np
>>> from sudare import nn
>>> rng = np.random.default_rng(0)
>>> layers = [(rng.normal(size=(8, 4)) / 2, np.zeros(8)), (rng.normal(size=(3, 8)) / 3, np.zeros(3))]
>>> network = nn.Network.dense(layers, activation="square")
>>> samples = rng.uniform(-1, 1, (5, 4))
>>> plan = nn.plan(network, batch=5, calibration=samples)
>>> results = plan.execute(samples)
>>> bool(np.allclose(results, network.predict(samples), atol=0.1))
True
"""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from sudare import _native, errors
from sudare._native import HiddenNetworkPlan, NetworkPlan
from sudare._plain import (
    choice,
    expect_type,
    flag,
    hidden,
    items,
    mapping,
    octets,
    optional,
    pair,
    path_of,
    plain_array,
    real,
    reals,
    whole,
)
from sudare._progress import Callback, Progress, callback
from sudare._renamed import renamed
from sudare._shown import Facts, duration, facts_html, megabytes
from sudare._sklearn import layers_of

__all__ = [
    "Batch",
    "Evaluation",
    "Explanation",
    "HiddenExplanation",
    "HiddenPlan",
    "Keys",
    "Network",
    "Plan",
    "Secret",
    "Simulation",
    "Weights",
    "plan",
    "plan_hidden",
]


def __dir__() -> list[str]:
    return sorted(__all__)

Numbers: TypeAlias = npt.NDArray[np.float64]
"""Real numbers."""

_FEW_SAMPLES = 500
"""With fewer samples, fitted activations come with a warning."""


class Network:
    """A feed-forward network in the clear."""

    def __init__(self, native: _native.Network) -> None:
        self._native = native

    @classmethod
    def describe(cls, input_shape: Sequence[int], layers: Sequence[object]) -> Network:
        """Makes a network of layers.

        Parameters
        ----------
        input_shape : sequence of int
            The shape of a sample: `(features,)` or `(channels, rows, columns)`.
        layers : sequence
            `"flatten"`, or dictionaries with one name each: `select`, `dense`, `convolution`,
            `average_pool`, `normalize`, `reshape` and `activation`, as in the file of a network.
            `{"residual": {"layers": [...], "shortcut": [...]}}` adds the input of layers to their output,
            or the input after the affine layers of a shortcut.
        """
        listed = items(input_shape, "input_shape", "the sizes of a sample, such as (4,)")
        sizes = [whole(size, "a size of the input") for size in listed]
        description = {"input": sizes, "layers": items(layers, "layers", "a list of layers")}
        return cls(_native.Network.from_json(_json("layers", description)))

    @classmethod
    def dense(
        cls,
        layers: Sequence[tuple[npt.ArrayLike, npt.ArrayLike]],
        activation: str | dict[str, Any] = "square",
    ) -> Network:
        """Makes a network of dense layers.

        Parameters
        ----------
        layers : sequence of (array_like, array_like)
            The weights, with a row for each output, and the bias of each layer.
        activation : str or dict, default "square"
            The activation between two layers: `"square"`, `{"polynomial": coefficients}`, or `relu`,
            `gelu`, `sigmoid` or `tanh` as `{"relu": {"degree": 7}}`.
        """
        described: list[object] = []
        inputs = 0
        needed = "a pair (weights, bias) for each layer"
        for i, layer in enumerate(items(layers, "layers", needed)):
            weights, bias = pair(layer, f"layer {i}", needed)
            matrix = _weights(weights, f"the weights of layer {i}", 2)
            inputs = inputs or matrix.shape[1]
            if described:
                described.append({"activation": activation})
            dense = {"weights": matrix, "bias": _weights(bias, f"the bias of layer {i}", 1)}
            described.append({"dense": dense})
        return cls.describe([inputs], described)

    @classmethod
    def from_sklearn(cls, model: Any, *, degree: int = 7) -> Network:
        """Makes the network of a fitted estimator of scikit-learn.

        Its outputs are those before the last function. For an `MLPClassifier` these are scores of classes: the
        place of the largest is the place of the predicted class in `model.classes_`, and the sign of the
        single output tells two classes apart. For a regressor they are the predictions.

        Parameters
        ----------
        model : MLPClassifier, MLPRegressor, linear model or Pipeline
            A pipeline may scale columns first, with a `StandardScaler`, `MinMaxScaler`, `MaxAbsScaler` or
            `RobustScaler`, which become part of the first layer. Linear models have `coef_` and `intercept_`,
            such as the estimators of `sudare.linear_model`.
        degree : int, default 7
            The degree of the polynomials for activations.
        """
        layers, activation = layers_of(model)
        if activation is None:
            return cls.dense(layers)
        return cls.dense(layers, {activation: {"degree": whole(degree, "degree")}})

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, degree: int = 7) -> Network:
        """Opens the file of a network that `save` wrote, or of an ONNX model with layers and residual blocks.

        The first axis of an ONNX model's input counts samples. Weights may be in files next to the model,
        in its directory. A model with operators that would not be computed as ONNX defines them is refused
        with an `NnError`.

        Parameters
        ----------
        path : path
            The file. ONNX models are recognised by the name `.onnx` or by their content.
        degree : int, default 7
            The degree of the polynomials for activations of an ONNX model.
        """
        return cls(_native.Network.load(path_of(path), whole(degree, "degree")))

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Writes the network to a file of JSON.

        Parameters
        ----------
        path : path
            The file.
        overwrite : bool, default False
            Whether the file may exist.
        """
        self._native.save(path_of(path), overwrite=flag(overwrite, "overwrite"))

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of a sample."""
        return tuple(self._native.input)

    @property
    def outputs(self) -> int:
        """The number of outputs."""
        return self._native.outputs

    def predict(self, samples: npt.ArrayLike) -> Numbers:
        """Computes the results for samples in the clear, a row each.

        Samples have the shape `(n, features)` or `(n, *input_shape)`, images with channels first.
        """
        return self._native.forward(self._samples(samples))

    def fitted(
        self, calibration: npt.ArrayLike, degree: int = 63, *, margin: float = 1.35
    ) -> Network:
        """Fits a polynomial to each activation, by the numbers that samples lead to.

        `predict` of a fitted network computes with the polynomials, the same as on encrypted samples. Deep
        networks with `relu` need it: polynomials of the range alone are far off where most numbers are. Who
        gets the network learns how its numbers are distributed.

        Parameters
        ----------
        calibration : array_like
            Samples like the expected ones, 1,000 or more. With fewer than 500 you get a warning, because other
            samples may leave the ranges, and are refused then.
        degree : int, default 63
            The degree of the polynomials. Degree 63 takes six levels, 31 takes five.
        margin : float, default 1.35
            The factor that widens the range of each activation.
        """
        rows, widened = self._samples(calibration), real(margin, "margin")
        native = self._native.fitted(rows, whole(degree, "degree"), widened)
        if len(rows) < _FEW_SAMPLES:
            warnings.warn(
                f"{len(rows)} samples are few to fit activations to: other samples may leave the ranges, and"
                " are refused then. Pass 1,000 or more",
                stacklevel=2,
            )
        return Network(native)

    def _samples(self, samples: npt.ArrayLike) -> Numbers:
        return _matrix(samples, self.input_shape)

    def __repr__(self) -> str:
        return f"Network(input_shape={self.input_shape}, outputs={self.outputs})"

    def _repr_html_(self) -> str:
        facts = {"shape of a sample": self.input_shape, "outputs": self.outputs}
        return facts_html("Network", facts)


@dataclass(frozen=True)
class Explanation(Facts):
    """The costs of a run of a plan. Prints as a table."""

    log_n: int
    """`log2` of the degree of the ring."""
    log2_qp: float
    """Bits of the largest modulus with special primes."""
    levels: int
    """The level of encrypted samples."""
    samples: int
    """The maximum number of samples of one run."""
    inputs: int
    """The number of ciphertexts of the input."""
    input_bytes: int
    """Bytes of the input."""
    outputs: int
    """The number of ciphertexts of the result."""
    keys: int
    """The number of evaluation keys."""
    key_bytes: int
    """Bytes of the evaluation keys."""
    diagonals: int
    """The number of encoded diagonals of the matrices of layers."""
    matrix_bytes: int
    """Memory of the encoded matrices of layers and of bootstrapping."""
    memory_bytes: int
    """Memory of keys and encoded matrices on the server."""
    bootstrapping: str | None
    """The parameter set for bootstrapping, if there is any."""
    bootstraps: int
    """The number of ciphertexts that a run bootstraps."""
    seconds: float
    """Predicted time of a run on one thread, without the encoding of matrices."""
    error: float
    """The standard deviation of the error of a result by encryption, if all numbers fill their ranges."""

    def _facts(self) -> dict[str, str]:
        return {
            "ring": f"N = 2^{self.log_n}, log2 QP {self.log2_qp:.0f}",
            "levels": str(self.levels),
            "bootstrapping": _bootstrapping(self.bootstrapping, self.bootstraps),
            "evaluation keys": f"{self.keys}, {megabytes(self.key_bytes)}",
            "memory of the server": f"{megabytes(self.memory_bytes)} of keys and matrices",
            "samples": f"up to {self.samples} in a run",
            "inputs": f"{self.inputs} ciphertexts, {megabytes(self.input_bytes)}",
            "outputs": f"{self.outputs} ciphertexts",
            "time": f"about {duration(self.seconds)} a run on one thread",
            "error": f"about {self.error:.1e}",
        }


@dataclass(frozen=True)
class HiddenExplanation(Facts):
    """The costs of encrypted weights, and of a run on them. Prints as a table."""

    log_n: int
    """`log2` of the degree of the ring."""
    log2_qp: float
    """Bits of the largest modulus with special primes."""
    levels: int
    """The level of encrypted samples."""
    weights: int
    """The number of ciphertexts of the weights."""
    weight_bytes: int
    """Bytes of the weights."""
    input_bytes: int
    """Bytes of an encrypted sample."""
    keys: int
    """The number of evaluation keys."""
    key_bytes: int
    """Bytes of the evaluation keys."""
    bootstrapping: str | None
    """The parameter set for bootstrapping, if there is any."""
    bootstraps: int
    """The number of ciphertexts that a run bootstraps."""
    seconds: float
    """Predicted time of a run on one thread, without reading the weights."""

    def _facts(self) -> dict[str, str]:
        return {
            "ring": f"N = 2^{self.log_n}, log2 QP {self.log2_qp:.0f}",
            "levels": str(self.levels),
            "bootstrapping": _bootstrapping(self.bootstrapping, self.bootstraps),
            "evaluation keys": f"{self.keys}, {megabytes(self.key_bytes)}",
            "weights": f"{self.weights} ciphertexts, {megabytes(self.weight_bytes)}",
            "input": f"{megabytes(self.input_bytes)} a sample",
            "time": f"about {duration(self.seconds)} a sample on one thread",
        }


def _bootstrapping(name: str | None, count: int) -> str:
    return "none" if name is None else f"{count} ciphertexts a run, parameters {name}"


@dataclass(frozen=True)
class Simulation(Facts):
    """The result of a simulated run."""

    results: Numbers
    """A row for each sample, without errors of encryption."""
    error: float
    """An estimate of the standard deviation of the errors of encryption."""
    headroom_bits: float
    """The number of bits between the largest number of the run and its modulus."""

    def _facts(self) -> dict[str, str]:
        return {
            "results": f"shape {self.results.shape}",
            "error": f"about {self.error:.1e}",
            "headroom": f"{self.headroom_bits:.1f} bits",
        }


@dataclass(frozen=True)
class Evaluation(Facts):
    """A comparison of encrypted and clear results. Prints as a table."""

    samples: int
    """The number of samples."""
    largest_difference: float
    """The largest difference between an encrypted and a clear result."""
    agreement: float
    """The share of samples with the same class in both. The class is the place of the largest output; with
    one output it is the sign."""
    accuracy: float | None
    """The share of samples whose encrypted class is their label, if labels were given."""
    accuracy_in_clear: float | None
    """The share of samples whose clear class is their label, if labels were given."""

    def _facts(self) -> dict[str, str]:
        facts = {
            "samples": str(self.samples),
            "largest difference": f"{self.largest_difference:.1e}",
            "same class": f"{self.agreement:.1%}",
        }
        if self.accuracy is not None:
            facts["accuracy"] = f"{self.accuracy:.1%}"
        if self.accuracy_in_clear is not None:
            facts["accuracy in clear"] = f"{self.accuracy_in_clear:.1%}"
        return facts


class Secret:
    """Encrypts samples and decrypts results. For the owner alone: it cannot be pickled."""

    def __init__(self, native: _native.NetworkSecret) -> None:
        self._native = native

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        passphrase: str | None = None,
    ) -> None:
        """Writes the key to a file that only the user may read. `open_secret` of the plan opens it.

        A passphrase seals the file: nobody decrypts without it, and nobody can restore a forgotten one.
        """
        self._native.save(
            path_of(path),
            overwrite=flag(overwrite, "overwrite"),
            passphrase=optional(hidden, passphrase, "passphrase"),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        raise errors.of_kind(
            "SecretKeyPickle",
            "a secret key cannot be pickled or copied, so that it stays with its owner: use save()"
        )

    def __repr__(self) -> str:
        return "Secret(...)"


class Keys:
    """Computes on encrypted samples. For the server."""

    def __init__(self, native: _native.NetworkKeys) -> None:
        self._native = native

    def __repr__(self) -> str:
        return "Keys(for evaluation)"


class Weights:
    """Encrypted weights. For the server."""

    def __init__(self, native: _native.NetworkWeights) -> None:
        self._native = native

    def __repr__(self) -> str:
        return "Weights(encrypted)"


class Batch:
    """The encrypted samples of one run, or their results."""

    def __init__(self, native: _native.NetworkBatch) -> None:
        self._native = native

    def __len__(self) -> int:
        return self._native.samples

    def __repr__(self) -> str:
        return f"Batch({len(self)} encrypted samples)"


class _Planned:
    """The common part of plans."""

    _native: NetworkPlan | HiddenNetworkPlan

    def _repr_html_(self) -> str:
        return facts_html(type(self).__name__, self.explain()._facts())

    def explain(self) -> Explanation | HiddenExplanation:
        """Returns the costs of a run, before any key is made."""
        raise NotImplementedError

    def make_keys(self) -> tuple[Secret, Keys]:
        """Makes the keys of the plan: for the owner, and for the server."""
        secret, keys = self._native.generate_keys()
        return Secret(secret), Keys(keys)

    generate_keys = renamed(make_keys, "generate_keys")

    def open_secret(self, path: str | os.PathLike[str], *, passphrase: str | None = None) -> Secret:
        """Opens the owner's key that `Secret.save` wrote. Keys for another plan are refused.

        Warns (`SecurityWarning`) if others may read the file.
        """
        return Secret(self._native.open_secret(path_of(path), optional(hidden, passphrase, "passphrase")))

    def _matrix(self, samples: npt.ArrayLike) -> Numbers:
        """Returns samples as rows."""
        raise NotImplementedError

    def encrypt(self, secret: Secret, samples: npt.ArrayLike) -> Batch:
        """Encrypts the samples of one run.

        Samples outside the calibrated ranges are refused (`NnError` of the kind `"NnOutOfRange"`).
        """
        expect_type(secret, "secret", Secret)
        return Batch(self._native.encrypt(secret._native, self._matrix(samples)))

    def decrypt(self, secret: Secret, batch: Batch) -> Numbers:
        """Decrypts results, a row for each sample."""
        expect_type(secret, "secret", Secret)
        expect_type(batch, "batch", Batch)
        return self._native.decrypt(secret._native, batch._native)

    def to_bytes(self, value: Keys | Batch) -> bytes:
        """Returns the bytes of a file of the server's keys or of a batch."""
        expect_type(value, "value", Keys, Batch)
        if isinstance(value, Keys):
            return self._native.write_keys(value._native)
        return self._native.write_batch(value._native)

    def keys_from_bytes(self, data: bytes) -> Keys:
        """Reads keys that `to_bytes` returned."""
        return Keys(self._native.read_keys(octets(data, "the file of keys")))

    def batch_from_bytes(self, data: bytes, samples: int) -> Batch:
        """Reads a batch of this number of samples that `to_bytes` returned."""
        file, count = octets(data, "the file of a batch"), whole(samples, "samples")
        return Batch(self._native.read_batch(file, count))


class Plan(_Planned):
    """The computation of a network on encrypted samples, the same for owner and server."""

    _native: NetworkPlan

    def __init__(self, network: Network, ranges: dict[str, Any], native: NetworkPlan) -> None:
        self.network = network
        self.ranges = ranges
        self._native = native

    def __repr__(self) -> str:
        return f"Plan({self.network!r}, samples_per_run={self.samples_per_run})"

    def explain(self) -> Explanation:
        """Returns the costs of a run, before any key is made."""
        return Explanation(**json.loads(self._native.explain()))

    @property
    def samples_per_run(self) -> int:
        """The maximum number of samples of one run."""
        return self._native.samples_per_run

    def _matrix(self, samples: npt.ArrayLike) -> Numbers:
        return _matrix(samples, self.network.input_shape)

    def check(self, samples: npt.ArrayLike) -> None:
        """Refuses samples that leave the calibrated ranges anywhere in the network.

        `encrypt`, `execute` and `simulate` do it, too.
        """
        self._native.check(self._matrix(samples))

    def compute(self, keys: Keys, batch: Batch) -> Batch:
        """Computes the network on encrypted samples: the server's part."""
        expect_type(keys, "keys", Keys)
        expect_type(batch, "batch", Batch)
        return Batch(self._native.run(keys._native, batch._native))

    run = renamed(compute, "run")

    def execute(self, samples: npt.ArrayLike, *, progress: Progress = None) -> Numbers:
        """Does all steps in one process with new keys, in one run or several.

        Parameters
        ----------
        samples : array_like
            The samples.
        progress : callable or bool, optional
            Called as `progress(step, done, total)`. `True` shows bars of tqdm, or text.
        """
        rows, report = self._matrix(samples), callback(progress)
        self.check(rows)
        secret, keys = _made(self, report)
        parts = range(0, len(rows), self.samples_per_run)
        batches = (rows[first : first + self.samples_per_run] for first in parts)
        results = (self.decrypt(secret, self.compute(keys, self.encrypt(secret, x))) for x in batches)
        return _collected(results, len(parts), report)

    def evaluate(
        self,
        samples: npt.ArrayLike,
        labels: npt.ArrayLike | None = None,
        *,
        progress: Progress = None,
    ) -> Evaluation:
        """Computes samples encrypted and in the clear, and compares the results.

        With `labels`, the class of each sample as an integer, it also returns the accuracy of both.
        `progress` is as for `execute`.
        """
        encrypted = self.execute(samples, progress=progress)
        return _evaluation(self.network.predict(samples), encrypted, labels)

    def simulate(self, samples: npt.ArrayLike) -> Simulation:
        """Does the same steps with samples in the clear."""
        return Simulation(*self._native.simulate(self._matrix(samples)))


class HiddenPlan(_Planned):
    """The computation of a network with encrypted weights, one sample after the other.

    Owner and server make the same plan from the outline of the network. Weights, samples and results are
    under one key of their owner. The server learns the outline: the number of outputs of layers, their
    inputs from earlier layers, their operations, and the ranges of numbers.
    """

    _native: HiddenNetworkPlan

    def __init__(self, outline: dict[str, Any]) -> None:
        mapping(outline, "outline", "the dictionary of an outline")
        self.outline = outline
        """The knowledge of the server, as JSON."""
        self._native = HiddenNetworkPlan(_json("an outline", outline))
        self._input_shape: tuple[int, ...] = (int(outline["features"]),)

    def _matrix(self, samples: npt.ArrayLike) -> Numbers:
        return _matrix(samples, self._input_shape)

    def __repr__(self) -> str:
        return f"HiddenPlan(input_shape={self._input_shape})"

    def explain(self) -> HiddenExplanation:
        """Returns the costs of weights and of a run, before any key is made."""
        return HiddenExplanation(**json.loads(self._native.explain()))

    def encrypt_weights(self, secret: Secret, network: Network) -> bytes:
        """Encrypts the weights of the network, and returns the bytes of their file."""
        expect_type(secret, "secret", Secret)
        expect_type(network, "network", Network)
        return self._native.encrypt_weights(secret._native, network._native)

    def weights_from_bytes(self, data: bytes) -> Weights:
        """Reads weights that `encrypt_weights` returned."""
        return Weights(self._native.read_weights(octets(data, "the file of weights")))

    def check(self, network: Network, samples: npt.ArrayLike) -> None:
        """Refuses samples that leave the calibrated ranges anywhere in the network.

        `execute` and `simulate` do it, too. `encrypt` does not know the weights, and checks only features.
        """
        expect_type(network, "network", Network)
        self._native.check(network._native, network._samples(samples))

    def compute(self, keys: Keys, weights: Weights, batch: Batch) -> Batch:
        """Computes the network on an encrypted sample: the server's part."""
        expect_type(keys, "keys", Keys)
        expect_type(weights, "weights", Weights)
        expect_type(batch, "batch", Batch)
        return Batch(self._native.run(keys._native, weights._native, batch._native))

    run = renamed(compute, "run")

    def execute(
        self, network: Network, samples: npt.ArrayLike, *, progress: Progress = None
    ) -> Numbers:
        """Does all steps in one process with new keys, sample after sample.

        `progress` is as for `Plan.execute`.
        """
        expect_type(network, "network", Network)
        rows, report = _matrix(samples, network.input_shape), callback(progress)
        self.check(network, rows)
        secret, keys = _made(self, report)
        weights = self.weights_from_bytes(self.encrypt_weights(secret, network))
        batches = (self.encrypt(secret, row[None]) for row in rows)
        results = (self.decrypt(secret, self.compute(keys, weights, batch)) for batch in batches)
        return _collected(results, len(rows), report)

    def evaluate(
        self,
        network: Network,
        samples: npt.ArrayLike,
        labels: npt.ArrayLike | None = None,
        *,
        progress: Progress = None,
    ) -> Evaluation:
        """Compares encrypted and clear results like `Plan.evaluate`, for a network with this outline."""
        expect_type(network, "network", Network)
        encrypted = self.execute(network, samples, progress=progress)
        return _evaluation(network.predict(samples), encrypted, labels)

    def simulate(self, network: Network, samples: npt.ArrayLike) -> Numbers:
        """Does the same steps with samples in the clear, without errors of encryption."""
        expect_type(network, "network", Network)
        rows = _matrix(samples, network.input_shape)
        self.check(network, rows)
        return np.concatenate(
            [self._native.simulate(network._native, row[None]) for row in rows]
        )


def plan(
    network: Network,
    batch: int,
    *,
    calibration: npt.ArrayLike | None = None,
    ranges: dict[str, Any] | None = None,
    margin: float = 1.25,
    packing: Literal["features", "sample"] | None = None,
    precision_bits: float = 8.0,
) -> Plan:
    """Plans a network for a batch of samples.

    A network of more levels than a ring has is bootstrapped.

    Parameters
    ----------
    network : Network
        The network.
    batch : int
        The number of samples.
    calibration : array_like, optional
        Samples like the expected ones. Ranges follow from them. A server sees ranges, so each bound is
        rounded outwards to a power of two.
    ranges : dict, optional
        The ranges of another plan, in place of `calibration`.
    margin : float, default 1.25
        The factor that widens calibrated ranges.
    packing : {"features", "sample"}, optional
        `"sample"` packs one sample in a ciphertext, `"features"` one feature of all samples. The default
        is the faster one: `"sample"` for one or two samples.
    precision_bits : float, default 8.0
        `-log2` of the tolerable error of each activation, relative to its range.
    """
    expect_type(network, "network", Network)
    packed = optional(choice, packing, "packing", ("features", "sample"))
    count = whole(batch, "batch")
    ranges = _ranges(network, calibration, ranges, margin)
    options = {
        "samples": count,
        "packing": packed or ("sample" if count <= 2 else "features"),
        "precision_bits": real(precision_bits, "precision_bits"),
    }
    native = NetworkPlan(network._native, _json("ranges", ranges), json.dumps(options))
    return Plan(network, ranges, native)


def plan_hidden(
    network: Network,
    *,
    calibration: npt.ArrayLike | None = None,
    ranges: dict[str, Any] | None = None,
    margin: float = 1.25,
    precision_bits: float = 8.0,
) -> HiddenPlan:
    """Plans a network whose weights are encrypted for the server, like the samples.

    The parameters are as for `plan`. The server makes its plan from the outline: `HiddenPlan(outline)`. In
    it, the bounds of given ranges become powers of two as well.
    """
    expect_type(network, "network", Network)
    bits = real(precision_bits, "precision_bits")
    ranges = _ranges(network, calibration, ranges, margin)
    outline = json.loads(network._native.outline(_json("ranges", ranges), bits))
    planned = HiddenPlan(outline)
    planned._input_shape = network.input_shape
    return planned


def _made(plan: Plan | HiddenPlan, report: Callback | None) -> tuple[Secret, Keys]:
    """Makes the keys of a plan, and reports it."""
    made = plan.make_keys()
    if report is not None:
        report("keys", 1, 1)
    return made


def _collected(results: Iterable[Numbers], count: int, report: Callback | None) -> Numbers:
    """Collects the results of a number of runs, and reports each."""
    found = []
    for result in results:
        found.append(result)
        if report is not None:
            report("computing", len(found), count)
    return np.concatenate(found)


def _evaluation(clear: Numbers, encrypted: Numbers, labels: npt.ArrayLike | None) -> Evaluation:
    classes = [_classes(clear), _classes(encrypted)]
    shares: list[float | None] = [None, None]
    if labels is not None:
        known = plain_array(labels, "labels")
        if known.dtype.kind not in "biuf":
            raise errors.DtypeError(
                f"labels have the type {known.dtype}: pass the place of the class of each sample, from 0"
            )
        if known.shape != (len(clear),):
            raise errors.of_kind(
                "NnShape",
                f"labels have the shape {known.shape}: pass one for each of {len(clear)} samples"
            )
        shares = [float(np.mean(found == known)) for found in classes]
    return Evaluation(
        samples=len(clear),
        largest_difference=float(np.max(np.abs(encrypted - clear))),
        agreement=float(np.mean(classes[0] == classes[1])),
        accuracy=shares[1],
        accuracy_in_clear=shares[0],
    )


def _classes(results: Numbers) -> npt.NDArray[np.int64]:
    """Returns the class of each result."""
    if results.shape[1] == 1:
        return (results[:, 0] > 0).astype(np.int64)
    return np.asarray(np.argmax(results, axis=1), dtype=np.int64)


def _ranges(
    network: Network,
    calibration: npt.ArrayLike | None,
    ranges: dict[str, Any] | None,
    margin: float,
) -> dict[str, Any]:
    """Returns the given ranges, or the ranges of samples."""
    if ranges is not None:
        return dict(mapping(ranges, "ranges", "the ranges of another plan"))
    if calibration is None:
        raise errors.of_kind("NnShape", "no ranges are known: pass samples as calibration, or ranges")
    samples, widened = network._samples(calibration), real(margin, "margin")
    calibrated: dict[str, Any] = json.loads(network._native.calibrate(samples, widened))
    return calibrated


def _json(what: str, value: object) -> str:
    """Returns a value as JSON; messages say that the network has `what`."""
    try:
        return json.dumps(value, default=_listed, allow_nan=False)
    except errors.Error:
        raise
    # Deeply nested layers end in a RecursionError.
    except (RecursionError, TypeError, ValueError) as error:
        raise errors.of_kind(
            "NnNetwork",
            f"the network has {what} that cannot be written ({error}): pass finite numbers"
        ) from None


def _listed(value: object) -> object:
    """Converts an array for JSON."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return value.tolist()
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        return value.item()
    kind = value.dtype if isinstance(value, np.ndarray) else type(value).__name__
    raise errors.of_kind("NnNetwork", f"the network has a value of type {kind}, but real numbers are needed: convert it")


def _weights(values: npt.ArrayLike, what: str, axes: int) -> Numbers:
    """Converts weights to finite numbers with a number of axes."""
    array = reals(values, what, "NnShape")
    if array.ndim != axes:
        needed = "a matrix" if axes == 2 else "one number for each output"
        raise errors.of_kind("NnShape", f"{what} have the shape {array.shape}: pass {needed}")
    wrong = np.argwhere(~np.isfinite(array))
    if len(wrong):
        place = tuple(int(i) for i in wrong[0])
        raise errors.of_kind(
            "NnLayer",
            f"{what} are {array[place]} at {place}, but finite numbers are needed"
        )
    return array


def _matrix(samples: npt.ArrayLike, shape: tuple[int, ...]) -> Numbers:
    """Converts samples of this shape, or flat ones, to rows."""
    array = reals(samples, "samples", "NnShape")
    features = (math.prod(shape),)
    if len(array.shape) < 2 or array.shape[0] == 0 or array.shape[1:] not in (features, shape):
        axes = " or ".join(
            f"(n, {', '.join(str(size) for size in sizes)})"
            for sizes in dict.fromkeys((shape, features))
        )
        first = ", images with channels first" if len(shape) == 3 else ""
        raise errors.of_kind(
            "NnShape",
            f"samples have the shape {array.shape}: pass the shape {axes} with one sample or more{first}"
        )
    return np.ascontiguousarray(array.reshape(len(array), -1))
