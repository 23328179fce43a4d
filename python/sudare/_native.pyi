"""The native module. Its parts that are for users are exported by `sudare`."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias, final

__all__ = [
    "Array",
    "Engine",
    "EvaluationKeys",
    "Function",
    "Op",
    "Parameters",
    "Plan",
    "PublicKey",
    "SecretKey",
    "Trace",
    "__version__",
    "check_pair",
    "cpu_info",
    "decrypt",
    "encrypt",
    "generate_keys",
    "run_command",
]

__version__: str

_Path: TypeAlias = str | os.PathLike[str]
_Progress: TypeAlias = Callable[[str, int, int], object] | None
_Numbers: TypeAlias = tuple[list[int], bytes]

def cpu_info() -> tuple[str, int]:
    """The instruction set that is used, and the threads: `sudare doctor` says more."""

def run_command(args: list[str]) -> int: ...
def generate_keys(
    plan: Plan, progress: _Progress = None
) -> tuple[PublicKey, EvaluationKeys, SecretKey]: ...
def check_pair(
    first: PublicKey | EvaluationKeys | SecretKey, key: PublicKey | EvaluationKeys | SecretKey
) -> None: ...
def encrypt(key: PublicKey, numbers: _Numbers, progress: _Progress = None) -> Array: ...
def decrypt(key: SecretKey, array: Array) -> _Numbers: ...

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
    @property
    def max_error(self) -> float: ...
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
    def encrypt_in_simulation(self, numbers: _Numbers) -> Array: ...
    def decrypt_in_simulation(self, array: Array) -> _Numbers: ...

@final
class Trace:
    def __new__(cls, shapes: Sequence[Sequence[int]]) -> Trace: ...
    def inputs(self) -> list[Array]: ...
    def apply(self, op: Op, operands: Sequence[Array | _Numbers]) -> Array: ...
    def plan(self, outputs: Sequence[Array], *, bootstrap: bool = False) -> Plan: ...
    def measure(self, outputs: Sequence[Array], plan: Plan) -> Plan: ...

@final
class Parameters:
    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...

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

@final
class PublicKey:
    """Encrypts. May be given to anybody."""

    @staticmethod
    def open(path: _Path) -> PublicKey:
        """The key in the file at `path`."""

    @staticmethod
    def from_bytes(data: object) -> PublicKey:
        """The key that `to_bytes` gave."""

    def to_bytes(self) -> bytes:
        """The key as the bytes of its file."""

    def save(self, path: _Path, *, overwrite: bool = False) -> None:
        """Writes the key to a file."""

    @property
    def key_id(self) -> str:
        """The key pair, in hexadecimal."""

    @property
    def _parameters(self) -> Parameters: ...
    def __reduce_ex__(self, protocol: int, /) -> tuple[Any, ...]: ...  # type: ignore[override]

@final
class EvaluationKeys:
    """Computes on what was encrypted. For the server.

    The keys hold their file, in memory or mapped from disk, and compute from it. Pickled with
    protocol 5, keys in memory can travel beside the pickle without a copy; keys that were opened
    from a file travel as its path, size and digest, and each process maps it.
    """

    @staticmethod
    def open(path: _Path, *, small: bool = False) -> EvaluationKeys:
        """The keys in the file at `path`, which stays mapped and must stay as it is.

        Half of each key is computed from a seed: once, or with `small` whenever it is used, which
        halves the memory and takes more time.
        """

    @staticmethod
    def from_bytes(data: object) -> EvaluationKeys:
        """The keys that `to_bytes` gave."""

    def to_bytes(self) -> bytes:
        """The keys as the bytes of their file."""

    def save(self, path: _Path, *, overwrite: bool = False) -> None:
        """Writes the keys to a file."""

    @property
    def key_id(self) -> str:
        """The key pair, in hexadecimal."""

    @property
    def nbytes(self) -> int:
        """Bytes of their file."""

    @property
    def path(self) -> Path | None:
        """The file that they stay in, or `None` for keys in memory."""

    def __len__(self) -> int: ...
    @property
    def _parameters(self) -> Parameters: ...
    @staticmethod
    def _reopen(path: _Path, digest: str, bytes: int) -> EvaluationKeys: ...
    def __reduce_ex__(self, protocol: int, /) -> tuple[Any, ...]: ...  # type: ignore[override]

@final
class SecretKey:
    """Decrypts. For the owner alone: never printed, pickled or copied."""

    @staticmethod
    def open(path: _Path) -> SecretKey:
        """The key in the file at `path`."""

    def save(self, path: _Path, *, overwrite: bool = False) -> None:
        """Writes the key to a file that the user alone may read."""

    @property
    def key_id(self) -> str:
        """The key pair, in hexadecimal. Says nothing about the key."""

    @property
    def _parameters(self) -> Parameters: ...
    def __reduce_ex__(self, protocol: int, /) -> tuple[Any, ...]: ...  # type: ignore[override]
