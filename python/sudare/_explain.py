"""What a context or a program costs, before anything heavy runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf, log2
from typing import Any, TypeAlias

from sudare import _native, errors
from sudare._array import EncryptedArray
from sudare._plain import MOST, Floats, to_native, whole

Program: TypeAlias = Callable[..., EncryptedArray | Sequence[EncryptedArray]]
"""A function of encrypted arrays that returns one or several. Which operations it does may depend
on shapes, not on values."""

Shapes: TypeAlias = Sequence[int | Sequence[int]]
"""The shape of each argument of a program."""


@dataclass(frozen=True)
class Input:
    """An input of a program."""

    shape: tuple[int, ...]
    """Elements along each axis."""
    low: float
    """The lowest number that it may hold."""
    high: float
    """The highest number that it may hold."""
    declared: bool
    """Whether the range was declared or follows from the program, rather than from the room that
    there is."""


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
    """`log2` of the standard deviation of the error of an element that noise causes: an estimate, for
    inputs that fill their declared ranges, or of magnitude 1 where none was declared. What
    bootstrapping adds is not in it."""
    largest_error: float | None = None
    """A bound of that error for `Context.release`, whatever the inputs of magnitude 1 or less and
    however often they are used; `None` where none is known, as with bootstrapping, and where inputs
    could lead to arguments outside the interval of a function, unless intervals are assumed."""
    share_bits: int | None = None
    """Bits after the point to which all elements can be released; `None` if not even one."""
    filled_log2_error: float = -inf
    """The same for inputs that fill the ranges that there is room for."""
    lineage: str | None = None
    """What tells arrays that the program computes from others: a digest of its operations."""


@dataclass(frozen=True)
class ProgramCost:
    """What a program takes."""

    depth: int
    """Levels from the inputs to the lowest result."""
    bootstraps: int
    """Ciphertexts that are bootstrapped."""
    missing_keys: bool
    """Whether the keys of the context are not enough for it."""
    input_bytes: int
    """Bytes of the encrypted inputs."""
    peak_memory_bytes: int
    """Bytes of memory, keys included, about."""
    seconds: float
    """Time on one thread of the machine of the reference, about."""
    outputs: tuple[Output, ...]
    """The results."""
    inputs: tuple[Input, ...] = ()
    """The inputs."""


@dataclass(frozen=True)
class Explanation:
    """Sizes and security of parameters and keys. Prints as a table."""

    params: str
    """Name of the parameter set; empty for one that was made for a depth or a program."""
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
    """Bytes of their file."""
    evaluation_key_memory_bytes: int
    """Bytes that they take in memory."""
    ciphertext_bytes: int
    """Bytes of a new ciphertext."""
    program: ProgramCost | None = None
    """What the program takes, if one was explained."""

    @classmethod
    def of(cls, plan: _native.Plan | _native.TablePlan) -> Explanation:
        """What a plan says of itself."""
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

    def __str__(self) -> str:
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
                f"{self.evaluation_keys}, {_megabytes(self.evaluation_key_bytes)} in a file, "
                f"{_megabytes(self.evaluation_key_memory_bytes)} in memory"
            ),
            "ciphertext": _megabytes(self.ciphertext_bytes),
        }
        if self.program is not None:
            cost = self.program
            keys = "; more keys are needed" if cost.missing_keys else ""
            rows |= {
                "depth": f"{cost.depth}, {cost.bootstraps} bootstrappings{keys}",
                "inputs": _megabytes(cost.input_bytes),
                "memory": f"about {_megabytes(cost.peak_memory_bytes)}",
                "time": f"about {_duration(cost.seconds)} on one thread",
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
        width = max(map(len, rows))
        return "\n".join(f"{name:{width}}  {value}" for name, value in rows.items())


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count < 1e9 else f"{count / 1e9:.1f} GB"


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.2g} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


class _Recorder:
    """Where the arrays of a program compute that is only recorded."""

    def __init__(self, trace: _native.Trace) -> None:
        self._trace = trace

    def _apply(self, op: _native.Op, operands: list[EncryptedArray | Floats]) -> EncryptedArray:
        native = [x._value if isinstance(x, EncryptedArray) else to_native(x) for x in operands]
        return EncryptedArray(self, self._trace.apply(op, native))

    def _log2_error(self, array: EncryptedArray) -> None:
        return None


def _sizes(shape: int | Sequence[int]) -> list[int]:
    axes = shape if isinstance(shape, Iterable) else [shape]
    return [whole(size, f"an axis of the shape {shape!r}", 1, MOST) for size in axes]


def _check_arguments(program: Program, shapes: Shapes) -> None:
    """Refuses other arguments than a program takes, where that is known."""
    try:
        takes = inspect.signature(program)
    except (TypeError, ValueError):
        return
    try:
        takes.bind(*shapes)
    except TypeError:
        raise errors.ShapeError(
            f"{len(shapes)} shapes were given, but the program takes {takes}: give a shape for "
            "each argument, such as [(3, 4)] for a single matrix"
        ) from None


def record(program: Program, shapes: Shapes) -> tuple[_native.Trace, list[_native.Array]]:
    """A program as native code has it, and its results, after one call of it."""
    if not callable(program):
        raise errors.ArgumentError(
            f"the program is {program!r}: give a function of encrypted arrays, such as lambda x: x * x"
        )
    if not isinstance(shapes, Sequence):
        raise errors.ArgumentError(
            f"the shapes are {shapes!r}: give a list with the shape of each argument, such as [(3, 4)]"
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
            "a program returns an encrypted array or a sequence of them: return what it computes"
        )
    return trace, [output._value for output in outputs]
