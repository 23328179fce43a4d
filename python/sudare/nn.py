"""Networks on encrypted samples.

The server has the weights in the clear and learns nothing of samples and results (`plan`). Or it has the
weights encrypted, too (`plan_hidden`).

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
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from sudare import _native, errors
from sudare._native import HiddenNetworkPlan, NetworkPlan

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

Numbers: TypeAlias = npt.NDArray[np.float64]
"""Real numbers."""


class Network:
    """A feed-forward network in the clear."""

    def __init__(self, native: _native.Network) -> None:
        self._native = native

    @classmethod
    def describe(cls, input_shape: Sequence[int], layers: Sequence[object]) -> Network:
        """The network of these layers for samples of this shape, `(features,)` or
        `(channels, rows, columns)`.

        Layers are `"flatten"` or dictionaries of one name each: `select`, `dense`, `convolution`,
        `average_pool`, `normalize` and `activation`, as in the file of a network; and
        `{"residual": {"layers": [...], "shortcut": [...]}}`, the sum of what layers give and of what
        they take, or of what the affine layers of a shortcut make of that."""
        description = {"input": list(input_shape), "layers": list(layers)}
        return cls(_native.Network.from_json(json.dumps(description, default=_plain)))

    @classmethod
    def dense(
        cls,
        layers: Sequence[tuple[npt.ArrayLike, npt.ArrayLike]],
        activation: str | dict[str, Any] = "square",
    ) -> Network:
        """The network of dense layers `(weights, bias)`, weights with a row for each output, and an
        activation between any two: `"square"`, `{"polynomial": coefficients}`, or `relu`, `gelu`,
        `sigmoid` or `tanh` as `{"relu": {"degree": 7}}`."""
        described: list[object] = []
        inputs = 0
        for i, (weights, bias) in enumerate(layers):
            matrix = np.asarray(weights, dtype=np.float64)
            if matrix.ndim != 2:
                raise errors.NnShapeError(
                    f"the weights of layer {i} have the shape {matrix.shape}: a matrix is needed"
                )
            inputs = inputs or matrix.shape[1]
            if described:
                described.append({"activation": activation})
            dense = {"weights": matrix, "bias": np.asarray(bias, dtype=np.float64)}
            described.append({"dense": dense})
        return cls.describe([inputs], described)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, degree: int = 7) -> Network:
        """The network in a file, as `save` writes it, or of an ONNX model if its name ends in
        `.onnx`: layers and residual blocks, whose activations get polynomials of this degree."""
        if Path(path).suffix == ".onnx":
            return cls(_native.Network.from_onnx(Path(path).read_bytes(), degree))
        return cls(_native.Network.from_json(Path(path).read_text()))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the network to a file of JSON."""
        Path(path).write_text(self._native.to_json())

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Sizes along the axes of a sample."""
        return tuple(self._native.input)

    @property
    def outputs(self) -> int:
        """Numbers of a result."""
        return self._native.outputs

    def predict(self, samples: npt.ArrayLike) -> Numbers:
        """The results for samples in the clear, a row each."""
        return _array(self._native.forward(_samples(samples)))

    def __repr__(self) -> str:
        return f"Network(input_shape={self.input_shape}, outputs={self.outputs})"


@dataclass(frozen=True)
class Explanation:
    """What a run of a plan takes."""

    log_n: int
    """`log2` of the degree of the ring."""
    log2_qp: float
    """Bits of the largest modulus with special primes."""
    levels: int
    """The level of encrypted samples."""
    samples: int
    """The most samples of one run."""
    inputs: int
    """Ciphertexts that are sent."""
    input_bytes: int
    """Bytes of these."""
    outputs: int
    """Ciphertexts of the result."""
    keys: int
    """Evaluation keys."""
    key_bytes: int
    """Bytes of these."""
    bootstrapping: str | None
    """The parameter set that it bootstraps with, if it does."""
    bootstraps: int
    """Ciphertexts that one run bootstraps."""
    seconds: float
    """The time of one run by one thread, without the encoding of matrices. An estimate."""
    error: float
    """The standard deviation of the error of a result by encryption, if all numbers are as large as
    their ranges allow."""


@dataclass(frozen=True)
class HiddenExplanation:
    """What weights that are encrypted, and a run on them, take."""

    log_n: int
    """`log2` of the degree of the ring."""
    log2_qp: float
    """Bits of the largest modulus with special primes."""
    levels: int
    """The level of encrypted samples."""
    weights: int
    """Ciphertexts of the weights."""
    weight_bytes: int
    """Bytes of these."""
    input_bytes: int
    """Bytes of an encrypted sample."""
    keys: int
    """Evaluation keys."""
    key_bytes: int
    """Bytes of these."""
    bootstrapping: str | None
    """The parameter set that it bootstraps with, if it does."""
    bootstraps: int
    """Ciphertexts that a run bootstraps."""
    seconds: float
    """The time of a run by one thread, without the reading of weights. An estimate."""


@dataclass(frozen=True)
class Simulation:
    """What a simulated run gives."""

    results: Numbers
    """A row for each sample, without errors by encryption."""
    error: float
    """The standard deviation that these errors would have, an estimate."""
    headroom_bits: float
    """Bits left between the largest number met and the modulus that held it."""


@dataclass(frozen=True)
class Evaluation:
    """How results of an encrypted run compare with those in the clear."""

    samples: int
    """How many were run."""
    largest_difference: float
    """The largest difference between a number of a result and the same in the clear."""
    agreement: float
    """The share of samples whose class is the same: that of the largest number of a result or, of a
    network with one output, whether that is positive."""
    accuracy: float | None
    """The share of samples whose class is their label, if labels were given."""
    accuracy_in_clear: float | None
    """The same of the network in the clear."""


class Secret:
    """Encrypts samples and decrypts results. For the owner alone: it is never pickled."""

    def __init__(self, native: _native.NetworkSecret) -> None:
        self._native = native

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        passphrase: str | None = None,
    ) -> None:
        """Writes the key to a file that the user alone may read, which `open_secret` of the plan opens.

        With a passphrase, the file is sealed by it: nobody decrypts without it, and nobody can
        restore one that is forgotten."""
        self._native.save(Path(path), overwrite=overwrite, passphrase=passphrase)

    def __reduce__(self) -> tuple[Any, ...]:
        raise errors.SecretKeyPickleError(
            "a secret key is never pickled or copied, so that it does not travel with other things"
        )


class Keys:
    """Computes on encrypted samples. For the server."""

    def __init__(self, native: _native.NetworkKeys) -> None:
        self._native = native


class Weights:
    """Encrypted weights. For the server."""

    def __init__(self, native: _native.NetworkWeights) -> None:
        self._native = native


class Batch:
    """Encrypted samples of one run, or their results."""

    def __init__(self, native: _native.NetworkBatch) -> None:
        self._native = native

    def __len__(self) -> int:
        return self._native.samples


class _Planned:
    """What plans have in common."""

    _native: NetworkPlan | HiddenNetworkPlan

    def generate_keys(self) -> tuple[Secret, Keys]:
        """Keys for this plan: the owner's, and the server's."""
        secret, keys = self._native.generate_keys()
        return Secret(secret), Keys(keys)

    def open_secret(
        self, path: str | os.PathLike[str], *, passphrase: str | None = None
    ) -> Secret:
        """The owner's key in a file that `Secret.save` wrote. Keys for another plan are refused.

        Warns (`SecurityWarning`) if others may read the file."""
        return Secret(self._native.open_secret(Path(path), passphrase))

    def encrypt(self, secret: Secret, samples: npt.ArrayLike) -> Batch:
        """Encrypts the samples of one run."""
        return Batch(self._native.encrypt(secret._native, _samples(samples)))

    def decrypt(self, secret: Secret, batch: Batch) -> Numbers:
        """The results, a row for each sample."""
        return _array(self._native.decrypt(secret._native, batch._native))

    def to_bytes(self, value: Keys | Batch) -> bytes:
        """Keys of the server, or a batch, as the bytes of a file."""
        if isinstance(value, Keys):
            return self._native.write_keys(value._native)
        return self._native.write_batch(value._native)

    def keys_from_bytes(self, data: bytes) -> Keys:
        """The keys that `to_bytes` gave."""
        return Keys(self._native.read_keys(data))

    def batch_from_bytes(self, data: bytes, samples: int) -> Batch:
        """The batch of so many samples that `to_bytes` gave."""
        return Batch(self._native.read_batch(data, samples))


class Plan(_Planned):
    """How a network is computed on encrypted samples: the same for owner and server."""

    _native: NetworkPlan

    def __init__(self, network: Network, ranges: dict[str, Any], native: NetworkPlan) -> None:
        self.network = network
        self.ranges = ranges
        self._native = native

    def explain(self) -> Explanation:
        """What a run takes, before a key is made."""
        return Explanation(**json.loads(self._native.explain()))

    @property
    def samples_per_run(self) -> int:
        """The most samples of one run."""
        return self._native.samples_per_run

    def check(self, samples: npt.ArrayLike) -> None:
        """Refuses samples that leave the calibrated ranges anywhere in the network."""
        self.network._native.check(json.dumps(self.ranges), _samples(samples))

    def run(self, keys: Keys, batch: Batch) -> Batch:
        """Computes the network on encrypted samples."""
        return Batch(self._native.run(keys._native, batch._native))

    def execute(self, samples: npt.ArrayLike) -> Numbers:
        """All of it in one process, with keys of its own, in as many runs as it takes."""
        secret, keys = self.generate_keys()
        rows = _matrix(samples)
        parts = range(0, len(rows), self.samples_per_run)
        batches = (rows[first : first + self.samples_per_run] for first in parts)
        return np.concatenate(
            [self.decrypt(secret, self.run(keys, self.encrypt(secret, x))) for x in batches]
        )

    def evaluate(self, samples: npt.ArrayLike, labels: npt.ArrayLike | None = None) -> Evaluation:
        """Runs samples encrypted, as `execute`, and in the clear, and compares the results; with the
        class of each sample, as an integer, also what share each gets right."""
        return _evaluation(self.network.predict(samples), self.execute(samples), labels)

    def simulate(self, samples: npt.ArrayLike) -> Simulation:
        """Runs the same steps on samples in the clear."""
        results, error, headroom_bits = self._native.simulate(_samples(samples))
        return Simulation(_array(results), error, headroom_bits)


class HiddenPlan(_Planned):
    """How a network whose weights are encrypted is computed, one sample after the other: the same for
    owner and server, who make it from the outline of the network alone.

    Weights, samples and results are under one key, that of their owner. The server learns the outline:
    how many numbers layers give, which earlier layers they take these from, what is applied to them, and
    how large they become."""

    _native: HiddenNetworkPlan

    def __init__(self, outline: dict[str, Any]) -> None:
        self.outline = outline
        """What a server is told, as JSON has it."""
        self._native = HiddenNetworkPlan(json.dumps(outline))

    def explain(self) -> HiddenExplanation:
        """What weights and a run take, before a key is made."""
        return HiddenExplanation(**json.loads(self._native.explain()))

    def encrypt_weights(self, secret: Secret, network: Network) -> bytes:
        """Encrypts the weights of the network, as the bytes of a file."""
        return self._native.encrypt_weights(secret._native, network._native)

    def weights_from_bytes(self, data: bytes) -> Weights:
        """The weights that `encrypt_weights` gave."""
        return Weights(self._native.read_weights(data))

    def run(self, keys: Keys, weights: Weights, batch: Batch) -> Batch:
        """Computes the network on an encrypted sample."""
        return Batch(self._native.run(keys._native, weights._native, batch._native))

    def execute(self, network: Network, samples: npt.ArrayLike) -> Numbers:
        """All of it in one process, with keys of its own, sample after sample."""
        secret, keys = self.generate_keys()
        weights = self.weights_from_bytes(self.encrypt_weights(secret, network))
        batches = (self.encrypt(secret, row[None]) for row in _matrix(samples))
        return np.concatenate(
            [self.decrypt(secret, self.run(keys, weights, batch)) for batch in batches]
        )

    def evaluate(
        self, network: Network, samples: npt.ArrayLike, labels: npt.ArrayLike | None = None
    ) -> Evaluation:
        """As `Plan.evaluate`, of a network with this outline."""
        return _evaluation(network.predict(samples), self.execute(network, samples), labels)

    def simulate(self, network: Network, samples: npt.ArrayLike) -> Numbers:
        """Runs the same steps on samples in the clear: results without errors by encryption."""
        rows = (_samples(row[None]) for row in _matrix(samples))
        return np.concatenate([_array(self._native.simulate(network._native, row)) for row in rows])


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
    """Plans a network for a batch of so many samples.

    Ranges follow from samples like those to be expected, `calibration`, widened by `margin`; or are
    those of another plan. One or two samples are packed one in a ciphertext (`"sample"`), more by
    features, unless `packing` says otherwise. `precision_bits` is `-log2` of the tolerable error of
    each activation as a part of its range. A network of more levels than a ring has is bootstrapped.
    """
    ranges = _ranges(network, calibration, ranges, margin)
    options = {
        "samples": batch,
        "packing": packing or ("sample" if batch <= 2 else "features"),
        "precision_bits": precision_bits,
    }
    native = NetworkPlan(network._native, json.dumps(ranges), json.dumps(options))
    return Plan(network, dict(ranges), native)


def plan_hidden(
    network: Network,
    *,
    calibration: npt.ArrayLike | None = None,
    ranges: dict[str, Any] | None = None,
    margin: float = 1.25,
    precision_bits: float = 8.0,
) -> HiddenPlan:
    """Plans a network whose weights are encrypted for the server, as samples are.

    Ranges and `precision_bits` as in `plan`; a network of more levels than a ring has is bootstrapped,
    too. The server makes its plan of the outline: `HiddenPlan(outline)`.
    """
    ranges = _ranges(network, calibration, ranges, margin)
    return HiddenPlan(json.loads(network._native.outline(json.dumps(ranges), precision_bits)))


def _evaluation(clear: Numbers, encrypted: Numbers, labels: npt.ArrayLike | None) -> Evaluation:
    classes = [_classes(clear), _classes(encrypted)]
    shares: list[float | None] = [None, None]
    if labels is not None:
        known = np.asarray(labels)
        if known.shape != (len(clear),):
            raise errors.NnShapeError(
                f"labels have the shape {known.shape}: one for each of {len(clear)} samples is needed"
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
    """The class that each result names."""
    if results.shape[1] == 1:
        return (results[:, 0] > 0).astype(np.int64)
    return np.asarray(np.argmax(results, axis=1), dtype=np.int64)


def _ranges(
    network: Network,
    calibration: npt.ArrayLike | None,
    ranges: dict[str, Any] | None,
    margin: float,
) -> dict[str, Any]:
    """Those that are given, or of samples."""
    if ranges is not None:
        return ranges
    if calibration is None:
        raise errors.NnShapeError("no ranges are known: give samples for calibration, or ranges")
    calibrated: dict[str, Any] = json.loads(network._native.calibrate(_samples(calibration), margin))
    return calibrated


def _plain(value: object) -> object:
    """What JSON takes for an array."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    raise errors.NnNetworkError(f"the network has a {type(value).__name__}: numbers are needed")


def _matrix(samples: npt.ArrayLike) -> Numbers:
    """Samples as rows."""
    try:
        array = np.asarray(samples, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise errors.NnShapeError(f"samples are no array of numbers ({error})") from None
    if array.ndim < 2 or array.size == 0:
        raise errors.NnShapeError(
            f"samples have the shape {array.shape}: give one or more along the first axis"
        )
    return np.ascontiguousarray(array.reshape(len(array), -1))


def _samples(samples: npt.ArrayLike) -> tuple[int, bytes]:
    """What native code takes."""
    rows = _matrix(samples)
    return len(rows), rows.tobytes()


def _array(native: tuple[int, bytes]) -> Numbers:
    """What native code gives."""
    count, data = native
    return np.frombuffer(data, dtype=np.float64).reshape(count, -1).copy()
