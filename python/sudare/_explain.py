"""The costs of a context or a program, before anything heavy runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf, log2
from typing import Any, TypeAlias

from sudare import _native, errors
from sudare._array import EncryptedArray
from sudare._encrypted import natives
from sudare._plain import MOST, has_axes, items, shown, whole
from sudare._shown import Facts, duration, megabytes

Program: TypeAlias = Callable[..., EncryptedArray | Sequence[EncryptedArray]]
"""A function of encrypted arrays that returns one or several. Its operations may depend on shapes, but not
on values."""

Shapes: TypeAlias = Sequence[int | Sequence[int]]
"""The shape of each argument of a program."""


@dataclass(frozen=True)
class Input:
    """An input of a program."""

    shape: tuple[int, ...]
    """Elements along each axis."""
    low: float
    """The lowest number that the input may hold."""
    high: float
    """The highest number that the input may hold."""
    declared: bool
    """True if the range was declared or follows from the program; false if it is the available room."""


@dataclass(frozen=True)
class Output:
    """A result of a program."""

    shape: tuple[int, ...]
    """Elements along each axis."""
    level: int
    """Levels that are left."""
    ciphertexts: int
    """Number of ciphertexts."""
    log2_error: float
    """An estimate of `log2` of the standard deviation of an element's error by noise, without
    bootstrapping. Inputs fill their declared ranges, or have magnitude 1 where none was declared."""
    largest_error: float | None = None
    """A bound of the error for `Context.release`, for all inputs of magnitude 1 or less. It is `None` with
    bootstrapping, and where inputs could lead to arguments outside the interval of a function, unless
    intervals are assumed."""
    share_bits: int | None = None
    """Bits after the point to which all elements can be released. `None` if they cannot be released."""
    filled_log2_error: float = -inf
    """`log2_error` for inputs that fill the available room."""
    lineage: str | None = None
    """A digest of the operations, by which the context recognises results of the program."""


@dataclass(frozen=True)
class ProgramCost:
    """The costs of a program."""

    depth: int
    """Levels from the inputs to the lowest result."""
    bootstraps: int
    """The number of ciphertexts that are bootstrapped."""
    missing_keys: bool
    """True if the context lacks keys for the program."""
    input_bytes: int
    """Bytes of the encrypted inputs."""
    peak_memory_bytes: int
    """Predicted bytes of memory, with keys."""
    seconds: float
    """Predicted time on one thread of the reference machine."""
    outputs: tuple[Output, ...]
    """The results."""
    inputs: tuple[Input, ...] = ()
    """The inputs."""


@dataclass(frozen=True)
class Explanation(Facts):
    """Sizes and security of parameters and keys. Prints as a table."""

    params: str
    """Name of the parameter set; empty for parameters that were made for a depth or a program."""
    params_id: str
    """Fingerprint of the parameters."""
    log_n: int
    """`log2` of the degree of the ring."""
    slots: int
    """Numbers in a ciphertext."""
    levels: int
    """Levels of new arrays."""
    log2_scale: float
    """`log2` of the scale of new arrays."""
    log2_qp: float
    """`log2` of the largest modulus of a key."""
    security_bits: float
    """Security of the weakest key."""
    bootstrap_levels: int | None
    """Levels between two bootstrappings; `None` without."""
    evaluation_keys: int
    """Number of evaluation keys."""
    evaluation_key_bytes: int
    """Bytes of the file of evaluation keys."""
    evaluation_key_memory_bytes: int
    """Bytes of the evaluation keys in memory."""
    ciphertext_bytes: int
    """Bytes of a new ciphertext."""
    program: ProgramCost | None = None
    """The costs of the program, if one was explained."""

    @classmethod
    def of(cls, plan: _native.Plan | _native.TablePlan) -> Explanation:
        """Explains a plan."""
        report = plan.report()
        program: dict[str, Any] | None = report.pop("program")
        if program is None:
            return cls(**report)
        outputs = tuple(
            Output(**{**output, "shape": tuple(output["shape"])})
            for output in program.pop("outputs")
        )
        inputs = tuple(
            Input(**{**found, "shape": tuple(found["shape"])}) for found in program.pop("inputs")
        )
        return cls(**report, program=ProgramCost(**program, inputs=inputs, outputs=outputs))

    def _facts(self) -> dict[str, str]:
        bootstrap = (
            "none" if self.bootstrap_levels is None else f"{self.bootstrap_levels} levels each time"
        )
        rows = {
            "parameters": f"{self.params or 'sized to measure'} ({self.params_id})",
            "ring": f"N = 2^{self.log_n}, {self.slots} slots",
            "security": f"{self.security_bits:.1f} bits at log2 QP {self.log2_qp:.0f}",
            "levels": f"{self.levels} at a scale of 2^{self.log2_scale:g}",
            "bootstrapping": bootstrap,
            "evaluation keys": (
                f"{self.evaluation_keys}, {megabytes(self.evaluation_key_bytes)} in a file, "
                f"{megabytes(self.evaluation_key_memory_bytes)} in memory"
            ),
            "ciphertext": megabytes(self.ciphertext_bytes),
        }
        if self.program is not None:
            cost = self.program
            keys = "; more keys are needed" if cost.missing_keys else ""
            rows |= {
                "depth": f"{cost.depth}, {cost.bootstraps} bootstrappings{keys}",
                "inputs": megabytes(cost.input_bytes),
                "memory": f"about {megabytes(cost.peak_memory_bytes)}",
                "time": f"about {duration(cost.seconds)} on one thread",
            }
            for i, found in enumerate(cost.inputs):
                rows[f"input {i}"] = f"shape {found.shape}, from {found.low:g} to {found.high:g}"
            for i, out in enumerate(cost.outputs):
                share = f", release to {out.share_bits} bits" if out.share_bits else ""
                bound = f", at most 2^{log2(out.largest_error):.1f}" if out.largest_error else ""
                filled = (
                    f" (inputs to 1), 2^{out.filled_log2_error:.1f} (inputs to the ends)"
                    if out.filled_log2_error > out.log2_error
                    else ""
                )
                rows[f"output {i}"] = (
                    f"shape {out.shape}, level {out.level}, error about "
                    f"2^{out.log2_error:.1f}{filled}{bound}{share}"
                )
        return rows


class _Recorder:
    """Records the operations of a program."""

    def __init__(self, trace: _native.Trace) -> None:
        self._trace = trace

    def _apply(self, op: _native.Op, operands: list[Any]) -> EncryptedArray:
        return EncryptedArray(self, self._trace.apply(op, natives(operands)))

    def _log2_error(self, array: EncryptedArray) -> None:
        return None


def _sizes(shape: int | Sequence[int]) -> list[int]:
    what = f"an axis of the shape {shown(shape)}"
    axes = items(shape, "a shape", "its sizes") if has_axes(shape) else [shape]
    return [whole(size, what, 1, MOST) for size in axes]


def _check_arguments(program: Program, shapes: Shapes) -> None:
    """Refuses arguments that a program does not take, where its signature is known."""
    try:
        takes = inspect.signature(program)
    except (TypeError, ValueError):
        return
    try:
        takes.bind(*shapes)
    except TypeError:
        raise errors.ShapeError(
            f"{len(shapes)} shapes were given, but the program takes {takes}: pass a shape for each "
            "argument, such as [(3, 4)] for a single matrix"
        ) from None


def record(program: Program, shapes: Shapes) -> tuple[_native.Trace, list[_native.Array]]:
    """Calls a program once, and returns its record and its results."""
    if not callable(program):
        raise errors.ArgumentError(
            f"program is {shown(program)}: pass a function of encrypted arrays, such as lambda x: x * x"
        )
    if not isinstance(shapes, Sequence) or isinstance(shapes, (str, bytes)):
        raise errors.ArgumentError(
            f"shapes is {shown(shapes)}: pass a list with the shape of each argument, such as [(3, 4)]"
        )
    _check_arguments(program, shapes)
    sizes = [_sizes(shape) for shape in shapes]
    trace = _native.Trace(sizes)
    recorder = _Recorder(trace)
    results = program(*(EncryptedArray(recorder, value) for value in trace.inputs()))
    several = not isinstance(results, EncryptedArray) and isinstance(results, Iterable)
    outputs: list[Any] = list(results) if several else [results]
    if not outputs or not all(isinstance(output, EncryptedArray) for output in outputs):
        raise errors.UnsupportedError(
            "the program did not return an encrypted array or a sequence of them: return its results"
        )
    return trace, [output._value for output in outputs]
