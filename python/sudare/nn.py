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
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from sudare import _native, _plain, errors
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

_Native: TypeAlias = tuple[int, bytes]
"""How many rows, and their numbers."""


class Network:
    """A feed-forward network in the clear."""

    def __init__(self, native: _native.Network) -> None:
        self._native = native

    @classmethod
    def describe(cls, input_shape: Sequence[int], layers: Sequence[object]) -> Network:
        """The network of these layers for samples of this shape, `(features,)` or
        `(channels, rows, columns)`.

        Layers are `"flatten"` or dictionaries of one name each: `select`, `dense`, `convolution`,
        `average_pool`, `normalize`, `reshape` and `activation`, as in the file of a network; and
        `{"residual": {"layers": [...], "shortcut": [...]}}`, the sum of what layers give and of what
        they take, or of what the affine layers of a shortcut make of that."""
        sizes = [_plain.whole(size, "a size of the input") for size in input_shape]
        description = {"input": sizes, "layers": list(layers)}
        return cls(_native.Network.from_json(_json("layers", description)))

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
            matrix = _weights(weights, f"the weights of layer {i}", 2)
            inputs = inputs or matrix.shape[1]
            if described:
                described.append({"activation": activation})
            dense = {"weights": matrix, "bias": _weights(bias, f"the bias of layer {i}", 1)}
            described.append({"dense": dense})
        return cls.describe([inputs], described)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, degree: int = 7) -> Network:
        """The network in a file, as `save` writes it, or of an ONNX model, which is told by the name
        `.onnx` or by its content: layers and residual blocks, whose activations get polynomials of this
        degree.

        The first axis of the model's input counts samples. Weights may be in files beside the model, in
        its directory. A model with anything that is not computed as ONNX defines it is refused
        (`NnOperatorError`, `NnOnnxError`)."""
        return cls(_native.Network.load(Path(path), _plain.whole(degree, "degree")))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the network to a file of JSON, also in place of another one."""
        self._native.save(Path(path))

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Sizes along the axes of a sample."""
        return tuple(self._native.input)

    @property
    def outputs(self) -> int:
        """Numbers of a result."""
        return self._native.outputs

    def predict(self, samples: npt.ArrayLike) -> Numbers:
        """The results for samples in the clear, a row each.

        Samples are of the shape `(n, features)` or `(n, *input_shape)`, images with channels first."""
        return _array(self._native.forward(self._samples(samples)))

    def _samples(self, samples: npt.ArrayLike) -> _Native:
        return _native_rows(_matrix(samples, self.input_shape))

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

    def open_secret(self, path: str | os.PathLike[str], *, passphrase: str | None = None) -> Secret:
        """The owner's key in a file that `Secret.save` wrote. Keys for another plan are refused.

        Warns (`SecurityWarning`) if others may read the file."""
        return Secret(self._native.open_secret(Path(path), passphrase))

    def _matrix(self, samples: npt.ArrayLike) -> Numbers:
        """Samples as rows."""
        raise NotImplementedError

    def encrypt(self, secret: Secret, samples: npt.ArrayLike) -> Batch:
        """Encrypts the samples of one run. Refuses those that leave the calibrated ranges
        (`NnOutOfRangeError`)."""
        rows = _native_rows(self._matrix(samples))
        return Batch(self._native.encrypt(secret._native, rows))

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
        return Keys(self._native.read_keys(_plain.octets(data, "the file of keys")))

    def batch_from_bytes(self, data: bytes, samples: int) -> Batch:
        """The batch of so many samples that `to_bytes` gave."""
        file, count = _plain.octets(data, "the file of a batch"), _plain.whole(samples, "samples")
        return Batch(self._native.read_batch(file, count))


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

    def _matrix(self, samples: npt.ArrayLike) -> Numbers:
        return _matrix(samples, self.network.input_shape)

    def check(self, samples: npt.ArrayLike) -> None:
        """Refuses samples that leave the calibrated ranges anywhere in the network, as `encrypt`,
        `execute` and `simulate` do."""
        self._native.check(_native_rows(self._matrix(samples)))

    def run(self, keys: Keys, batch: Batch) -> Batch:
        """Computes the network on encrypted samples."""
        return Batch(self._native.run(keys._native, batch._native))

    def execute(self, samples: npt.ArrayLike) -> Numbers:
        """All of it in one process, with keys of its own, in as many runs as it takes."""
        rows = self._matrix(samples)
        self.check(rows)
        secret, keys = self.generate_keys()
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
        rows = _native_rows(self._matrix(samples))
        results, error, headroom_bits = self._native.simulate(rows)
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
        self._native = HiddenNetworkPlan(_json("an outline", outline))
        self._input_shape: tuple[int, ...] = (int(outline["features"]),)

    def _matrix(self, samples: npt.ArrayLike) -> Numbers:
        return _matrix(samples, self._input_shape)

    def explain(self) -> HiddenExplanation:
        """What weights and a run take, before a key is made."""
        return HiddenExplanation(**json.loads(self._native.explain()))

    def encrypt_weights(self, secret: Secret, network: Network) -> bytes:
        """Encrypts the weights of the network, as the bytes of a file."""
        return self._native.encrypt_weights(secret._native, network._native)

    def weights_from_bytes(self, data: bytes) -> Weights:
        """The weights that `encrypt_weights` gave."""
        return Weights(self._native.read_weights(_plain.octets(data, "the file of weights")))

    def check(self, network: Network, samples: npt.ArrayLike) -> None:
        """Refuses samples that leave the calibrated ranges anywhere in the network, as `execute` and
        `simulate` do. `encrypt` knows no weights, and checks features alone."""
        self._native.check(network._native, network._samples(samples))

    def run(self, keys: Keys, weights: Weights, batch: Batch) -> Batch:
        """Computes the network on an encrypted sample."""
        return Batch(self._native.run(keys._native, weights._native, batch._native))

    def execute(self, network: Network, samples: npt.ArrayLike) -> Numbers:
        """All of it in one process, with keys of its own, sample after sample."""
        rows = _matrix(samples, network.input_shape)
        self.check(network, rows)
        secret, keys = self.generate_keys()
        weights = self.weights_from_bytes(self.encrypt_weights(secret, network))
        batches = (self.encrypt(secret, row[None]) for row in rows)
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
        rows = _matrix(samples, network.input_shape)
        self.check(network, rows)
        results = [self._native.simulate(network._native, _native_rows(row[None])) for row in rows]
        return np.concatenate([_array(result) for result in results])


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
    those of another plan. A server sees ranges, so that each bound of calibrated ones is the next power
    of two outwards. One or two samples are packed one in a ciphertext (`"sample"`), more by
    features, unless `packing` says otherwise. `precision_bits` is `-log2` of the tolerable error of
    each activation as a part of its range. A network of more levels than a ring has is bootstrapped.
    """
    if packing not in (None, "features", "sample"):
        raise errors.ArgumentError(
            f"packing is {packing!r}: 'features', 'sample', or None for the faster one is needed"
        )
    count = _plain.whole(batch, "batch")
    ranges = _ranges(network, calibration, ranges, margin)
    options = {
        "samples": count,
        "packing": packing or ("sample" if count <= 2 else "features"),
        "precision_bits": _plain.real(precision_bits, "precision_bits"),
    }
    native = NetworkPlan(network._native, _json("ranges", ranges), json.dumps(options))
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
    too. The server makes its plan of the outline: `HiddenPlan(outline)`. In it, bounds of given ranges
    become powers of two as well.
    """
    bits = _plain.real(precision_bits, "precision_bits")
    ranges = _ranges(network, calibration, ranges, margin)
    outline = json.loads(network._native.outline(_json("ranges", ranges), bits))
    planned = HiddenPlan(outline)
    planned._input_shape = network.input_shape
    return planned


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
    samples, widened = network._samples(calibration), _plain.real(margin, "margin")
    calibrated: dict[str, Any] = json.loads(network._native.calibrate(samples, widened))
    return calibrated


def _json(what: str, value: object) -> str:
    """The value as JSON; messages say that the network has `what`."""
    try:
        return json.dumps(value, default=_listed, allow_nan=False)
    except errors.Error:
        raise
    except (TypeError, ValueError) as error:
        raise errors.NnNetworkError(
            f"the network has {what} that cannot be written ({error}): finite numbers are needed"
        ) from None


def _listed(value: object) -> object:
    """What JSON takes for an array."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return value.tolist()
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        return value.item()
    kind = value.dtype if isinstance(value, np.ndarray) else type(value).__name__
    raise errors.NnNetworkError(f"the network has a value of type {kind}: real numbers are needed")


def _weights(values: npt.ArrayLike, what: str, axes: int) -> Numbers:
    """Finite numbers along so many axes."""
    array = _plain.reals(values, what, errors.NnShapeError)
    if array.ndim != axes:
        needed = "a matrix" if axes == 2 else "a number for each output"
        raise errors.NnShapeError(f"{what} have the shape {array.shape}: {needed} is needed")
    wrong = np.argwhere(~np.isfinite(array))
    if len(wrong):
        place = tuple(int(i) for i in wrong[0])
        raise errors.NnLayerError(
            f"{what} are {array[place]} at {place}: finite numbers are needed"
        )
    return array


def _matrix(samples: npt.ArrayLike, shape: tuple[int, ...]) -> Numbers:
    """Samples of this shape, or flat, as rows."""
    array = _plain.reals(samples, "samples", errors.NnShapeError)
    features = (math.prod(shape),)
    if len(array.shape) < 2 or array.shape[0] == 0 or array.shape[1:] not in (features, shape):
        axes = " or ".join(
            f"(n, {', '.join(str(size) for size in sizes)})"
            for sizes in dict.fromkeys((shape, features))
        )
        first = ", images with channels first" if len(shape) == 3 else ""
        raise errors.NnShapeError(
            f"samples have the shape {array.shape}, but the network takes {axes}, of one sample or "
            f"more{first}"
        )
    return np.ascontiguousarray(array.reshape(len(array), -1))


def _native_rows(rows: Numbers) -> _Native:
    """What native code takes."""
    return len(rows), rows.tobytes()


def _array(native: _Native) -> Numbers:
    """What native code gives."""
    count, data = native
    return np.frombuffer(data, dtype=np.float64).reshape(count, -1).copy()
