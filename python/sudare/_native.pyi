"""The native module. `sudare` exports its public parts."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar, final

import numpy as np
import numpy.typing as npt

__all__ = [
    "Array",
    "Data",
    "Decrypted",
    "Engine",
    "EvaluationKeys",
    "Function",
    "HiddenNetworkPlan",
    "IntegerEngine",
    "IntegerEvaluationKeys",
    "IntegerParameters",
    "IntegerPlan",
    "IntegerPublicKey",
    "IntegerSecretKey",
    "Integers",
    "Network",
    "NetworkBatch",
    "NetworkKeys",
    "NetworkPlan",
    "NetworkSecret",
    "NetworkWeights",
    "Op",
    "Outgoing",
    "Parameters",
    "Part",
    "Plan",
    "PooledTransform",
    "PublicKey",
    "Result",
    "Rules",
    "Schema",
    "SearchPlan",
    "SearchSecretKey",
    "SearchServer",
    "SearchWriter",
    "SecretKey",
    "Sums",
    "Table",
    "TablePlan",
    "Trace",
    "Trainer",
    "TreesForest",
    "TreesPlan",
    "TreesSecret",
    "WordArray",
    "WordEngine",
    "Worker",
    "__version__",
    "check_integer_pair",
    "check_pair",
    "cpu_info",
    "decrypt",
    "decrypt_integers",
    "decrypt_words",
    "encode",
    "encrypt",
    "encrypt_integers",
    "encrypt_words",
    "fit_encoding",
    "fit_trees_grid",
    "generate_integer_keys",
    "generate_keys",
    "generate_trees_keys",
    "integer_noise_budget",
    "most_release_bits",
    "read_model",
    "read_receipt",
    "read_server_key",
    "release",
    "release_in_simulation",
    "run_command",
    "simulate",
    "student_two_sided",
    "write_model",
]

__version__: str

_Path: TypeAlias = str | os.PathLike[str]
_Progress: TypeAlias = Callable[[str, int, int], object] | None
_Numbers: TypeAlias = npt.NDArray[np.float64]
_Words: TypeAlias = npt.NDArray[np.int64]

def cpu_info() -> tuple[str, int]:
    """Returns the instruction set and the number of threads in use: `sudare doctor` shows more."""

def run_command(args: list[str]) -> int: ...
def student_two_sided(t: float, degrees_of_freedom: float) -> float: ...
def generate_keys(
    plan: Plan | TablePlan, progress: _Progress = None
) -> tuple[PublicKey, EvaluationKeys, SecretKey]: ...
def check_pair(
    first: PublicKey | EvaluationKeys | SecretKey, key: PublicKey | EvaluationKeys | SecretKey
) -> None: ...
def encrypt(
    key: PublicKey,
    numbers: _Numbers,
    declared: tuple[float, float] | None = None,
    progress: _Progress = None,
) -> Array: ...
def decrypt(key: SecretKey, array: Array) -> _Numbers: ...
def release(key: SecretKey, array: Array, error: float, bits: int) -> _Numbers: ...
def release_in_simulation(numbers: _Numbers, error: float, bits: int) -> _Numbers: ...
def most_release_bits(count: int, error: float) -> int | None: ...

@final
class Op:
    @staticmethod
    def add() -> Op: ...
    @staticmethod
    def sub() -> Op: ...
    @staticmethod
    def mul() -> Op: ...
    @staticmethod
    def matmul() -> Op: ...
    @staticmethod
    def neg() -> Op: ...
    @staticmethod
    def power(exponent: int) -> Op: ...
    @staticmethod
    def sum(axes: Sequence[int], keepdims: bool) -> Op: ...
    @staticmethod
    def mean(axes: Sequence[int], keepdims: bool) -> Op: ...
    @staticmethod
    def var(axes: Sequence[int], keepdims: bool, ddof: int) -> Op: ...
    @staticmethod
    def slice(ranges: Sequence[tuple[int, int]]) -> Op: ...
    @staticmethod
    def reshape(shape: Sequence[int]) -> Op: ...
    @staticmethod
    def transpose(axes: Sequence[int]) -> Op: ...
    @staticmethod
    def within(low: float, high: float) -> Op: ...
    @staticmethod
    def polynomial(coefficients: _Words) -> Op: ...
    @staticmethod
    def rotate(steps: int) -> Op: ...
    @staticmethod
    def swap_rows() -> Op: ...
    @staticmethod
    def bootstrap() -> Op: ...
    @staticmethod
    def less() -> Op: ...
    @staticmethod
    def less_equal() -> Op: ...
    @staticmethod
    def greater() -> Op: ...
    @staticmethod
    def greater_equal() -> Op: ...
    @staticmethod
    def equal() -> Op: ...
    @staticmethod
    def not_equal() -> Op: ...
    @staticmethod
    def select() -> Op: ...
    @staticmethod
    def function(function: Function) -> Op: ...

@final
class Function:
    def __new__(
        cls,
        name: str,
        interval: tuple[float, float],
        gap: float,
        degree: int | None,
        precision_bits: float,
    ) -> Function: ...
    @staticmethod
    def polynomial(coefficients: Sequence[float], interval: tuple[float, float]) -> Function: ...
    @property
    def max_error(self) -> float: ...
    def stated_error(self, argument: float, between: float) -> float: ...
    @property
    def depth(self) -> int: ...
    @property
    def degrees(self) -> list[int]: ...
    def evaluate(self, operands: Sequence[_Numbers], exact: bool) -> _Numbers: ...

@final
class Array:
    @staticmethod
    def from_bytes(data: object) -> Array: ...
    @staticmethod
    def open(path: _Path) -> Array: ...
    def to_bytes(self) -> bytes: ...
    def save(self, path: _Path, *, overwrite: bool = False) -> None: ...
    def attached(self, parameters: Parameters) -> Array: ...
    @property
    def shape(self) -> list[int]: ...
    @property
    def blocks(self) -> int: ...
    @property
    def level(self) -> int | None: ...
    @property
    def log2_scale(self) -> float | None: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def key_id(self) -> str | None: ...
    @property
    def lineage(self) -> str | None: ...
    @property
    def range(self) -> tuple[float, float] | None: ...
    @property
    def log2_error(self) -> float | None: ...

@final
class Engine:
    @staticmethod
    def execute(keys: EvaluationKeys) -> Engine: ...
    @staticmethod
    def simulate(plan: Plan) -> Engine: ...
    def apply(
        self, op: Op, operands: Sequence[Array | _Numbers], progress: _Progress = None
    ) -> Array: ...
    def encrypt_in_simulation(
        self, numbers: _Numbers, declared: tuple[float, float] | None = None
    ) -> Array: ...
    def decrypt_in_simulation(self, array: Array) -> _Numbers: ...

@final
class Trace:
    def __new__(cls, shapes: Sequence[Sequence[int]]) -> Trace: ...
    def inputs(self) -> list[Array]: ...
    def apply(self, op: Op, operands: Sequence[Array | _Numbers]) -> Array: ...
    def plan(
        self,
        outputs: Sequence[Array],
        *,
        bootstrap: bool = False,
        share_bits: int | None = None,
        assume_intervals: bool = False,
        ranges: Sequence[tuple[float, float] | None] = ...,
    ) -> Plan: ...
    def measure(
        self, outputs: Sequence[Array], plan: Plan, *, assume_intervals: bool = False
    ) -> Plan: ...

@final
class Parameters:
    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...
    def warn_if_insecure(self, calls: int) -> None: ...

@final
class Plan:
    @staticmethod
    def leveled(depth: int) -> Plan: ...
    @staticmethod
    def bootstrapping(depth: int) -> Plan: ...
    @staticmethod
    def preset(name: str, insecure_log_n: int | None = None) -> Plan: ...
    @property
    def parameters(self) -> Parameters: ...
    def report(self) -> dict[str, Any]: ...

_K = TypeVar("_K")

class _PublicKey(Generic[_K]):
    @staticmethod
    def open(path: _Path) -> _K:
        """Opens the key in a file."""

    @staticmethod
    def from_bytes(data: object) -> _K:
        """Reads a key that `to_bytes` returned."""

    def to_bytes(self) -> bytes:
        """Returns the bytes of a file of the key."""

    def save(self, path: _Path, *, overwrite: bool = False) -> None:
        """Writes the key to a file."""

    @property
    def key_id(self) -> str:
        """The key pair, in hexadecimal."""

    @property
    def digest(self) -> str:
        """The digest of the file of the key, in hexadecimal, as `sudare keygen` prints it."""

    def __reduce_ex__(self, protocol: int, /) -> tuple[Any, ...]: ...  # type: ignore[override]

class _EvaluationKeys(Generic[_K]):
    @staticmethod
    def open(path: _Path, *, small: bool = False) -> _K:
        """Opens the keys in a file. The file stays mapped, and must not change: computing with keys
        whose file was changed raises a `FileError`.

        Half of each key is computed from a seed: once, or with `small` whenever it is used, which halves the
        memory and takes more time.
        """

    @staticmethod
    def from_bytes(data: object) -> _K:
        """Reads keys that `to_bytes` returned."""

    def to_bytes(self) -> bytes:
        """Returns the bytes of a file of the keys."""

    def save(self, path: _Path, *, overwrite: bool = False) -> None:
        """Writes the keys to a file."""

    @property
    def key_id(self) -> str:
        """The key pair, in hexadecimal."""

    @property
    def digest(self) -> str:
        """The digest of the file of the keys, in hexadecimal, as `sudare keygen` prints it."""

    @property
    def nbytes(self) -> int:
        """Bytes of the file of the keys."""

    @property
    def path(self) -> Path | None:
        """The file that the keys stay in, or `None` for keys in memory."""

    def __len__(self) -> int: ...
    @staticmethod
    def _reopen(path: _Path, digest: str, bytes: int) -> _K: ...
    def __reduce_ex__(self, protocol: int, /) -> tuple[Any, ...]: ...  # type: ignore[override]

class _SecretKey(Generic[_K]):
    @staticmethod
    def open(path: _Path, *, passphrase: str | None = None) -> _K:
        """Opens the key in a file, which a passphrase may seal.

        Warns (`SecurityWarning`) if others may read the file.
        """

    def save(
        self, path: _Path, *, overwrite: bool = False, passphrase: str | None = None
    ) -> None:
        """Writes the key to a file that only the user may read.

        A passphrase seals the file: nobody decrypts without it, and nobody can restore a forgotten one.
        Releases of the key are counted in a ledger next to the file from then on.
        """

    @property
    def key_id(self) -> str:
        """The key pair, in hexadecimal. It reveals nothing about the key."""

    def __reduce_ex__(self, protocol: int, /) -> tuple[Any, ...]: ...  # type: ignore[override]

@final
class PublicKey(_PublicKey[PublicKey]):
    """Encrypts. You may give it to anybody."""

    @property
    def _parameters(self) -> Parameters: ...

@final
class EvaluationKeys(_EvaluationKeys[EvaluationKeys]):
    """Computes on encrypted data. For the server.

    The keys hold their file, in memory or mapped from disk, and compute from it. With pickle protocol 5,
    keys in memory can travel outside the pickle, up to 64 MB without a copy. Keys from a file travel as its
    path, size and digest, and each process maps the file.
    """

    @property
    def _parameters(self) -> Parameters: ...

@final
class SecretKey(_SecretKey[SecretKey]):
    """Decrypts. For the owner alone: it cannot be printed, pickled or copied."""

    @property
    def releases(self) -> tuple[int, int]:
        """The counted releases of results, and their maximum."""

    @property
    def ledger_path(self) -> Path | None:
        """The file that counts releases; `None` if the key and the count are only in memory."""

    @property
    def _parameters(self) -> Parameters: ...

@final
class Data:
    def __new__(
        cls,
        columns: Sequence[str],
        numbers: _Numbers,
        *,
        labels: tuple[str, Sequence[str], Sequence[int]] | None = None,
        encoding: str | None = None,
        text_labels: bool = False,
        row_weights: Sequence[float] | _Numbers | None = None,
    ) -> Data: ...
    @property
    def rows(self) -> int: ...
    @property
    def features(self) -> int: ...
    @property
    def classes(self) -> int: ...

@final
class TablePlan:
    @staticmethod
    def statistics(
        rows: int,
        features: int,
        *,
        share_bits: int | None = None,
        insecure_log_n: int | None = None,
    ) -> TablePlan: ...
    @staticmethod
    def groups(
        rows: int,
        features: int,
        groups: int,
        *,
        share_bits: int | None = None,
        insecure_log_n: int | None = None,
    ) -> TablePlan: ...
    @staticmethod
    def histogram(
        rows: int,
        features: int,
        bins: int,
        *,
        share_bits: int | None = None,
        exact: bool = False,
        insecure_log_n: int | None = None,
    ) -> TablePlan: ...
    @staticmethod
    def train(
        rows: int,
        features: int,
        *,
        iterations: int | None = None,
        preparation: str = "whiten",
        learning_rate: float | None = None,
        rate: str | None = None,
        batch_size: int | None = None,
        c: float | None = None,
        alpha: float | None = None,
        classes: int = 2,
        sigmoid_range: float | None = None,
        sigmoid_degree: int | None = None,
        shared_bits: int | None = None,
        workers: int | None = None,
        class_weights: str | None = None,
        scorable: bool = False,
        tables: int = 1,
        like: Data | None = None,
        weights: Sequence[float] | None = None,
        insecure_log_n: int | None = None,
    ) -> TablePlan: ...
    @staticmethod
    def predict(
        rows: int,
        features: int,
        *,
        classes: int = 2,
        probability_bits: int | None = None,
        sigmoid_range: float | None = None,
        share_bits: int | None = None,
        score_range: float | None = None,
        insecure_log_n: int | None = None,
    ) -> TablePlan: ...
    @staticmethod
    def scoring(key: PublicKey | EvaluationKeys | SecretKey, rows: int) -> TablePlan: ...
    @staticmethod
    def of(key: PublicKey | EvaluationKeys | SecretKey) -> TablePlan: ...
    @property
    def parameters(self) -> Parameters: ...
    @property
    def job(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def rows(self) -> int: ...
    @property
    def features(self) -> int: ...
    @property
    def blocks(self) -> int: ...
    @property
    def sigmoid_range(self) -> float | None: ...
    def report(self) -> dict[str, Any]: ...
    def encrypt(
        self,
        key: PublicKey | SecretKey,
        data: Data,
        *,
        by: str | None = None,
        edges: Sequence[str | Sequence[float]] | None = None,
        order: bytes | None = None,
        class_weights: Sequence[float] | None = None,
        path: _Path | None = None,
        overwrite: bool = False,
        progress: _Progress = None,
    ) -> Table: ...
    def encrypt_rows(
        self,
        key: PublicKey | SecretKey,
        data: Data,
        features: str,
        *,
        path: _Path | None = None,
        overwrite: bool = False,
        progress: _Progress = None,
    ) -> Table: ...
    def features_of(
        self, data: Data, *, class_weights: Sequence[float] | None = None
    ) -> str: ...
    def read_features(
        self,
        path: _Path,
        *,
        target: str | None = None,
        class_weights: Sequence[float] | None = None,
    ) -> str: ...
    def encrypt_model(self, key: PublicKey | SecretKey, model: str) -> Result: ...

@final
class Table:
    """A table that is encrypted for one job, with the names and ranges of its columns.

    `sudare encrypt` writes the same file. A table in a file stays there, and is pickled as the path, size
    and digest of the file. A table in memory is pickled as its bytes, which protocol 5 sends without a copy
    up to 64 MB.
    """

    @staticmethod
    def open(path: _Path) -> Table:
        """Opens the table in a file, which stays there and must not change."""

    @staticmethod
    def from_bytes(data: object) -> Table:
        """Reads a table that `to_bytes` returned."""

    def to_bytes(self) -> bytes:
        """Returns the bytes of a file of the table."""

    def save(self, path: _Path, *, overwrite: bool = False) -> None:
        """Writes the table to a file."""

    @property
    def job(self) -> str:
        """The job that the table was encrypted for, as `sudare info` shows it."""

    @property
    def kind(self) -> str:
        """`train`, `stats`, `groups`, `histogram` or `predict`."""

    @property
    def rows(self) -> int:
        """The maximum number of rows, from the keys. The number of rows is encrypted."""

    @property
    def features(self) -> int:
        """Number of columns, without the target or the column that groups rows."""

    @property
    def blocks(self) -> int:
        """Number of ciphertexts, without names and ranges of columns."""

    @property
    def key_id(self) -> str:
        """The key pair, in hexadecimal."""

    @property
    def nbytes(self) -> int:
        """Bytes of the file."""

    @property
    def path(self) -> Path | None:
        """The file of the table, or `None` for a table in memory."""

    def compute(self, keys: EvaluationKeys, progress: _Progress = None) -> Result:
        """Computes the statistics that the table was encrypted for: the server's part."""

    def score(
        self, keys: EvaluationKeys, model: Result | str, progress: _Progress = None
    ) -> Result:
        """Computes scores of rows by a model, encrypted or as JSON: see `sudare.scoring`."""

    @staticmethod
    def _reopen(path: _Path, digest: str, bytes: int) -> Table: ...
    def __reduce_ex__(self, protocol: int, /) -> tuple[Any, ...]: ...  # type: ignore[override]

@final
class Result:
    """The encrypted result of a computation on an encrypted table.

    `sudare stats`, `train` and `predict` write the same file.
    """

    @staticmethod
    def open(path: _Path) -> Result:
        """Opens the result in a file."""

    @staticmethod
    def from_bytes(data: object) -> Result:
        """Reads a result that `to_bytes` returned."""

    def to_bytes(self) -> bytes:
        """Returns the bytes of a file of the result."""

    def save(self, path: _Path, *, overwrite: bool = False) -> None:
        """Writes the result to a file."""

    @property
    def job(self) -> str:
        """The job of the table, as `sudare info` shows it."""

    @property
    def content(self) -> str:
        """`model`, `statistics` or `scores`."""

    @property
    def iterations(self) -> int:
        """The number of iterations of a training."""

    @property
    def key_id(self) -> str:
        """The key pair, in hexadecimal."""

    @property
    def nbytes(self) -> int:
        """Bytes of the file."""

    def decrypt(
        self,
        key: SecretKey,
        share_bits: int | None = None,
        *,
        assume_range: bool = False,
        tables: Sequence[Table] | None = None,
    ) -> Decrypted:
        """Decrypts the values, for the owner of the key alone, or with `share_bits` for others.

        With `tables`, results of other tables are refused.
        """

    def __reduce_ex__(self, protocol: int, /) -> tuple[Any, ...]: ...  # type: ignore[override]

@final
class Decrypted:
    def values(self) -> dict[str, Any]: ...
    def calibrated(self, data: Data) -> dict[str, Any]: ...
    def weighted_mean(self, weights: int) -> list[float]: ...
    def least_squares(self, target: int) -> dict[str, Any]: ...
    def t_test(self, a: int, b: int) -> list[dict[str, float] | None]: ...
    def quantiles(self, probabilities: Sequence[float]) -> list[list[float]]: ...
    def quantile_bounds(
        self, probabilities: Sequence[float]
    ) -> list[list[tuple[float, float]]]: ...

@final
class Trainer:
    def __new__(
        cls,
        tables: Sequence[Table],
        keys: EvaluationKeys,
        *,
        checkpoint: _Path | None = None,
        resume: bool = False,
        overwrite: bool = False,
        history: bool = False,
    ) -> Trainer: ...
    @property
    def iteration(self) -> int: ...
    @property
    def iterations(self) -> int: ...
    @property
    def level(self) -> int | None: ...
    def step(self) -> None: ...
    def shares(self, most: int) -> list[tuple[int, int]]: ...
    def rows(self, start: int, stop: int) -> Part: ...
    def point(self) -> Part: ...
    def update(self, gradient: Part) -> None: ...
    @property
    def worker(self) -> Worker: ...
    def model(self) -> Result: ...

@final
class Worker:
    def __new__(cls, keys: EvaluationKeys) -> Worker: ...
    def gradient(
        self, point: Part, start: int, stop: int, rows: Table | Part
    ) -> Part: ...
    def sum(self, parts: Sequence[Part]) -> Part: ...

@final
class Part:
    @staticmethod
    def from_bytes(data: object) -> Part: ...
    def to_bytes(self) -> bytes: ...
    @property
    def holds(self) -> str: ...
    @property
    def blocks(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    def __reduce_ex__(self, protocol: int, /) -> tuple[Any, ...]: ...  # type: ignore[override]

@final
class Schema:
    @staticmethod
    def draft(
        columns: Sequence[str],
        numbers: _Numbers,
        texts: Sequence[tuple[int, Sequence[str | None]]],
        rules: Rules,
        owners: Sequence[str],
        *,
        target: str | None = None,
    ) -> Schema: ...
    @staticmethod
    def from_json(text: str) -> Schema: ...
    @staticmethod
    def open(path: _Path) -> Schema: ...
    def to_json(self) -> str: ...
    @property
    def columns(self) -> list[str]: ...
    @property
    def classes(self) -> list[str]: ...
    @property
    def target(self) -> str | None: ...
    @property
    def owners(self) -> list[str]: ...
    def apply(
        self,
        columns: Sequence[str],
        numbers: _Numbers,
        texts: Sequence[tuple[int, Sequence[str | None]]],
    ) -> Data: ...
    def __eq__(self, other: object, /) -> bool: ...

@final
class Sums:
    @staticmethod
    def encrypt(key: PublicKey, schema: Schema, owner: str, data: Data) -> Sums: ...
    @staticmethod
    def add(schema: Schema, parts: Sequence[Sums]) -> Sums: ...
    @staticmethod
    def open(path: _Path) -> Sums: ...
    @staticmethod
    def from_bytes(data: object) -> Sums: ...
    def to_bytes(self) -> bytes: ...
    def save(self, path: _Path, *, overwrite: bool = False) -> None: ...
    @property
    def owners(self) -> list[str]: ...
    @property
    def job(self) -> str: ...
    @property
    def key_id(self) -> str: ...
    @property
    def nbytes(self) -> int: ...
    def statistics(self, schema: Schema, key: SecretKey) -> Decrypted: ...
    def transform(
        self, schema: Schema, key: SecretKey, class_weights: Sequence[float] | None = None
    ) -> PooledTransform: ...
    def __reduce_ex__(self, protocol: int, /) -> tuple[Any, ...]: ...  # type: ignore[override]

@final
class PooledTransform:
    @staticmethod
    def open(path: _Path) -> PooledTransform: ...
    def save(self, path: _Path, *, overwrite: bool = False) -> None: ...
    @staticmethod
    def from_json(text: str) -> PooledTransform: ...
    def to_json(self) -> str: ...
    @property
    def rows(self) -> int: ...
    @property
    def schema(self) -> Schema: ...
    def encrypt(
        self,
        key: PublicKey,
        owner: str,
        data: Data,
        *,
        path: _Path | None = None,
        overwrite: bool = False,
        progress: _Progress = None,
    ) -> Table: ...

def simulate(
    plan: TablePlan,
    data: Data,
    *,
    order: bytes | None = None,
    class_weights: Sequence[float] | None = None,
    history: bool = False,
    calibrate: bool = False,
    progress: _Progress = None,
) -> dict[str, Any]: ...
@final
class Rules:
    def __new__(
        cls,
        *,
        missing: Mapping[str, str],
        dates: Mapping[str, Sequence[str]],
        unseen: str,
        categorical: Sequence[str],
        columns: Sequence[str] | None,
        drop: Sequence[str],
        rare: int,
    ) -> Rules: ...

def fit_encoding(
    columns: Sequence[str],
    numbers: _Numbers,
    texts: Sequence[tuple[int, Sequence[str | None]]],
    rules: Rules,
    *,
    target: tuple[str, Sequence[str]] | None = None,
) -> str: ...
def encode(
    encoding: str,
    columns: Sequence[str],
    numbers: _Numbers,
    texts: Sequence[tuple[int, Sequence[str | None]]],
) -> tuple[list[str], _Numbers]: ...
def read_model(path: _Path) -> dict[str, Any]: ...
@final
class Outgoing:
    """An open file that may be sent to a collection of a service. Other files are refused."""

    def __new__(cls, path: _Path, collection: str, plain_model: bool) -> Outgoing:
        """Opens the file at `path`."""

    @property
    def collection(self) -> str:
        """The collection."""

    @property
    def size(self) -> int:
        """Bytes of the file."""

    def digest(self) -> str:
        """Returns the BLAKE3 of all bytes, in hexadecimal."""

    def part(self, offset: int, most: int) -> bytes:
        """Returns at most `most` bytes from `offset`."""

def read_receipt(text: str, server_key: str | None) -> dict[str, Any]: ...
def read_server_key(text: str) -> str: ...
def write_model(path: _Path, model: str, overwrite: bool) -> list[tuple[str, int]]: ...

def generate_integer_keys(
    plan: IntegerPlan, progress: _Progress = None
) -> tuple[IntegerPublicKey, IntegerEvaluationKeys, IntegerSecretKey]: ...
def check_integer_pair(
    first: IntegerPublicKey | IntegerEvaluationKeys | IntegerSecretKey,
    key: IntegerPublicKey | IntegerEvaluationKeys | IntegerSecretKey,
) -> None: ...
def encrypt_integers(
    key: IntegerPublicKey,
    words: _Words,
    declared: tuple[int, int] | None = None,
    progress: _Progress = None,
) -> Integers: ...
def decrypt_integers(key: IntegerSecretKey, array: Integers) -> _Words: ...
def integer_noise_budget(key: IntegerSecretKey, array: Integers) -> float: ...

@final
class Integers:
    @staticmethod
    def from_bytes(data: object) -> Integers: ...
    @staticmethod
    def open(path: _Path) -> Integers: ...
    def to_bytes(self) -> bytes: ...
    def save(self, path: _Path, *, overwrite: bool = False) -> None: ...
    def attached(
        self, key: IntegerPublicKey | IntegerEvaluationKeys | IntegerSecretKey
    ) -> Integers: ...
    def reshaped(self, shape: Sequence[int]) -> Integers: ...
    def within(self, low: int, high: int) -> Integers: ...
    @property
    def range(self) -> tuple[int, int] | None: ...
    @property
    def shape(self) -> list[int]: ...
    @property
    def blocks(self) -> int | None: ...
    @property
    def level(self) -> int | None: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def key_id(self) -> str: ...

@final
class IntegerEngine:
    @staticmethod
    def execute(keys: IntegerEvaluationKeys) -> IntegerEngine: ...
    def apply(
        self, op: Op, operands: Sequence[Integers | _Words], progress: _Progress = None
    ) -> Integers: ...
    def points(self, array: Integers) -> list[int]: ...
    def tables(
        self, array: Integers, functions: Sequence[_Words], progress: _Progress = None
    ) -> list[Integers]: ...

_Unsigned: TypeAlias = npt.NDArray[np.uint64]
"""Words in two's complement of 64 bits."""

def encrypt_words(
    key: IntegerPublicKey,
    values: _Unsigned,
    dtype: str,
    digit_bits: int,
    progress: _Progress = None,
) -> WordArray: ...
def decrypt_words(key: IntegerSecretKey, array: WordArray) -> _Unsigned: ...

@final
class WordArray:
    @staticmethod
    def from_bytes(data: object) -> WordArray: ...
    @staticmethod
    def open(path: _Path) -> WordArray: ...
    def to_bytes(self) -> bytes: ...
    def save(self, path: _Path, *, overwrite: bool = False) -> None: ...
    def attached(
        self, key: IntegerPublicKey | IntegerEvaluationKeys | IntegerSecretKey
    ) -> WordArray: ...
    @property
    def shape(self) -> list[int]: ...
    @property
    def dtype(self) -> str: ...
    @property
    def digit_bits(self) -> int: ...
    @property
    def blocks(self) -> int | None: ...
    @property
    def level(self) -> int | None: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def key_id(self) -> str | None: ...

@final
class WordEngine:
    @staticmethod
    def execute(keys: IntegerEvaluationKeys) -> WordEngine: ...
    @staticmethod
    def simulate(plan: IntegerPlan) -> WordEngine: ...
    def apply(
        self,
        name: str,
        operands: Sequence[WordArray | _Unsigned],
        numbers: Sequence[int],
        dtype: str | None = None,
        progress: _Progress = None,
    ) -> WordArray: ...
    def encrypt_in_simulation(
        self, values: _Unsigned, dtype: str, digit_bits: int
    ) -> WordArray: ...
    def decrypt_in_simulation(self, array: WordArray) -> _Unsigned: ...
    def usage(self) -> dict[str, Any]: ...

@final
class IntegerParameters:
    @property
    def id(self) -> str: ...
    @property
    def t(self) -> int: ...
    @property
    def slots(self) -> int: ...
    @property
    def scheme(self) -> str: ...
    @property
    def signed(self) -> bool: ...
    def warn_if_insecure(self, calls: int) -> None: ...

@final
class IntegerPlan:
    @staticmethod
    def leveled(t: int, depth: int, scheme: str, signed: bool) -> IntegerPlan: ...
    @staticmethod
    def bootstrapping(t: int, depth: int, scheme: str, signed: bool) -> IntegerPlan: ...
    @staticmethod
    def preset(
        name: str, scheme: str, signed: bool, insecure_log_n: int | None = None
    ) -> IntegerPlan: ...
    @staticmethod
    def words(depth: int) -> IntegerPlan: ...
    @staticmethod
    def measuring_words() -> IntegerPlan: ...
    @staticmethod
    def word_sets() -> list[str]: ...
    def for_words(self) -> IntegerPlan: ...
    @property
    def usable_levels(self) -> int: ...
    @property
    def parameters(self) -> IntegerParameters: ...
    def report(self) -> dict[str, Any]: ...

@final
class IntegerPublicKey(_PublicKey[IntegerPublicKey]):
    """Encrypts integers. You may give it to anybody."""

    @property
    def _parameters(self) -> IntegerParameters: ...

@final
class IntegerEvaluationKeys(_EvaluationKeys[IntegerEvaluationKeys]):
    """Computes on encrypted integers. For the server.

    The keys hold their file, in memory or mapped from disk, and compute from it. With pickle protocol 5,
    keys in memory can travel outside the pickle, up to 64 MB without a copy. Keys from a file travel as its
    path, size and digest, and each process maps the file.
    """

    @property
    def _parameters(self) -> IntegerParameters: ...

@final
class IntegerSecretKey(_SecretKey[IntegerSecretKey]):
    """Decrypts integers. For the owner alone: it cannot be printed, pickled or copied."""

    @property
    def _parameters(self) -> IntegerParameters: ...

_Samples: TypeAlias = _Numbers
"""Samples, a row each."""

@final
class Network:
    @staticmethod
    def from_json(text: str) -> Network: ...
    @staticmethod
    def load(path: _Path, degree: int) -> Network: ...
    def save(self, path: _Path, *, overwrite: bool = False) -> None: ...
    @property
    def input(self) -> list[int]: ...
    @property
    def outputs(self) -> int: ...
    def forward(self, data: _Samples) -> _Samples: ...
    def calibrate(self, data: _Samples, margin: float) -> str: ...
    def fitted(self, data: _Samples, degree: int, margin: float) -> Network: ...
    def outline(self, ranges: str, precision_bits: float) -> str: ...

@final
class NetworkPlan:
    def __new__(cls, network: Network, ranges: str, options: str) -> NetworkPlan: ...
    def explain(self) -> str: ...
    @property
    def samples_per_run(self) -> int: ...
    def generate_keys(self) -> tuple[NetworkSecret, NetworkKeys]: ...
    def encrypt(self, secret: NetworkSecret, data: _Samples) -> NetworkBatch: ...
    def run(self, keys: NetworkKeys, batch: NetworkBatch) -> NetworkBatch: ...
    def decrypt(self, secret: NetworkSecret, batch: NetworkBatch) -> _Samples: ...
    def check(self, data: _Samples) -> None: ...
    def simulate(self, data: _Samples) -> tuple[_Samples, float, float]: ...
    def open_secret(self, path: _Path, passphrase: str | None) -> NetworkSecret: ...
    def read_keys(self, data: bytes) -> NetworkKeys: ...
    def write_keys(self, keys: NetworkKeys) -> bytes: ...
    def read_batch(self, data: bytes, samples: int) -> NetworkBatch: ...
    def write_batch(self, batch: NetworkBatch) -> bytes: ...

@final
class HiddenNetworkPlan:
    def __new__(cls, outline: str) -> HiddenNetworkPlan: ...
    def explain(self) -> str: ...
    def generate_keys(self) -> tuple[NetworkSecret, NetworkKeys]: ...
    def encrypt_weights(self, secret: NetworkSecret, network: Network) -> bytes: ...
    def read_weights(self, data: bytes) -> NetworkWeights: ...
    def encrypt(self, secret: NetworkSecret, data: _Samples) -> NetworkBatch: ...
    def run(
        self, keys: NetworkKeys, weights: NetworkWeights, batch: NetworkBatch
    ) -> NetworkBatch: ...
    def decrypt(self, secret: NetworkSecret, batch: NetworkBatch) -> _Samples: ...
    def check(self, network: Network, data: _Samples) -> None: ...
    def simulate(self, network: Network, data: _Samples) -> _Samples: ...
    def open_secret(self, path: _Path, passphrase: str | None) -> NetworkSecret: ...
    def read_keys(self, data: bytes) -> NetworkKeys: ...
    def write_keys(self, keys: NetworkKeys) -> bytes: ...
    def read_batch(self, data: bytes, samples: int) -> NetworkBatch: ...
    def write_batch(self, batch: NetworkBatch) -> bytes: ...

@final
class NetworkWeights: ...

@final
class NetworkSecret:
    def save(
        self, path: _Path, *, overwrite: bool = False, passphrase: str | None = None
    ) -> None: ...

@final
class NetworkKeys: ...

@final
class NetworkBatch:
    @property
    def samples(self) -> int: ...

_Payloads: TypeAlias = tuple[int, list[list[int]] | None, list[bytes] | None]

@final
class SearchPlan:
    @staticmethod
    def make(setup: str, insecure_log_n: int | None = None) -> SearchPlan: ...
    def explain(self) -> str: ...
    def write_keys(
        self,
        folder: _Path,
        passphrase: str | None = None,
        overwrite: bool = False,
        progress: _Progress = None,
    ) -> None: ...

@final
class SearchWriter:
    @staticmethod
    def public(path: _Path) -> SearchWriter: ...
    def setup(self) -> str: ...
    def query(self, vector: _Numbers) -> bytes: ...
    def update(
        self,
        folder: _Path,
        catalogue: _Path,
        records: tuple[_Numbers, _Payloads],
        deleted: set[int],
        progress: _Progress = None,
    ) -> list[int]: ...

@final
class SearchSecretKey:
    @staticmethod
    def open(path: _Path, passphrase: str | None = None) -> SearchSecretKey: ...
    def setup(self) -> str: ...
    def writer(self) -> SearchWriter: ...
    @property
    def largest_error(self) -> float: ...
    def read(self, answer: bytes) -> dict[str, Any]: ...
    def nearest(
        self, scores: list[float], deleted: set[int], most: int
    ) -> tuple[list[int], list[float]]: ...

@final
class SearchServer:
    @staticmethod
    def open(path: _Path) -> SearchServer: ...
    def setup(self) -> str: ...
    def search_index(
        self,
        query: bytes | _Numbers,
        folder: _Path,
        wanted: str | None,
        progress: _Progress = None,
    ) -> bytes: ...
    def search_records(
        self,
        query: bytes,
        records: tuple[_Numbers, _Payloads],
        deleted: set[int],
        wanted: str | None,
        progress: _Progress = None,
    ) -> bytes: ...

@final
class TreesForest:
    @staticmethod
    def read(data: bytes) -> TreesForest: ...
    @staticmethod
    def load(path: _Path) -> TreesForest: ...
    def to_json(self) -> bytes: ...
    def renamed(self, features: list[str], classes: list[str]) -> TreesForest: ...
    @property
    def features(self) -> list[str]: ...
    @property
    def classes(self) -> list[str]: ...
    @property
    def trees(self) -> int: ...
    @property
    def predictions(self) -> int: ...
    def predict(self, rows: _Numbers) -> _Numbers: ...

def fit_trees_grid(features: list[str], rows: _Numbers, digits: int) -> str: ...
def generate_trees_keys(planned: str) -> tuple[TreesSecret, bytes]: ...

@final
class TreesPlan:
    def __new__(
        cls, forest: TreesForest, grid: str, tolerance: float | None = None
    ) -> TreesPlan: ...
    def explain(self) -> str: ...
    def planned(self) -> str: ...
    def compute(self, keys: bytes, rows: bytes, progress: _Progress = None) -> bytes: ...

@final
class TreesSecret:
    @staticmethod
    def open(path: _Path, passphrase: str | None = None) -> TreesSecret: ...
    def save(
        self, path: _Path, *, overwrite: bool = False, passphrase: str | None = None
    ) -> None: ...
    def setup(self) -> str: ...
    @property
    def key_id(self) -> str: ...
    def encrypt(self, rows: _Numbers, clamp: bool, progress: _Progress = None) -> bytes: ...
    def decrypt(self, scores: bytes) -> _Numbers: ...
