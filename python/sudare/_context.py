"""Contexts of real numbers: parameters and keys, to encrypt, compute and decrypt with."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, Literal

from sudare import _native, errors
from sudare._array import EncryptedArray
from sudare._encrypted import natives
from sudare._explain import Explanation, Input, Output, Program, Shapes, record
from sudare._keys import KeysOf, SimulatingContextOf
from sudare._native import EvaluationKeys, Op, PublicKey, SecretKey
from sudare._plain import (
    Floats,
    choice,
    ends_of,
    flag,
    floats,
    items,
    optional,
    path_of,
    real,
    string,
    whole,
)
from sudare._progress import Progress


class Keys(KeysOf[PublicKey, EvaluationKeys, SecretKey]):
    """The keys of a context, each a value of its own."""

    __slots__ = ()


class Context(
    SimulatingContextOf[Keys, _native.Parameters, PublicKey, EvaluationKeys, SecretKey]
):
    """Computes with encrypted arrays of real numbers under one key.

    `Context(depth=d)` is for programs of up to `d` products one after the other, in the smallest ring with
    128 bits of security. Masks and sums along inner axes count, too: `explain` counts them. With
    `bootstrap=True` programs may be of any depth, with gigabytes of keys. With `mode="simulate"` the same
    programs run in the clear, and arrays know the error to expect.

    Arrays know a range for their elements: `encrypt` reads it off the data, and operations carry it on. A
    result that could be too large for its level, or an argument outside the interval of a function, is
    refused before it is computed, in simulation and execution alike. At the last level there is room for
    numbers up to 2^49, or less where the ring is full; `explain` says how much.

    The context makes its keys when you first need them: `explain` says before how large they are.
    Contexts may be shared between threads.

    Parameters
    ----------
    depth : int, optional
        The maximum number of products one after the other. Required without `bootstrap`.
    bootstrap : bool, default False
        Whether programs may be deeper than any ring.
    mode : {"execute", "simulate"}, default "execute"
        Whether to encrypt, or to run programs in the clear.
    progress : callable or bool, optional
        Called as `progress(step, done, total)` in long calls. `True` shows bars of tqdm.
    """

    _keys_type = Keys
    _classes = (EvaluationKeys, PublicKey, SecretKey)
    _check_pair: ClassVar[Any] = staticmethod(_native.check_pair)
    _generate: ClassVar[Any] = staticmethod(_native.generate_keys)
    _started: _native.Engine | None

    def __init__(
        self,
        depth: int | None = None,
        *,
        bootstrap: bool = False,
        mode: Literal["execute", "simulate"] = "execute",
        progress: Progress = None,
    ) -> None:
        bootstrap, mode = flag(bootstrap, "bootstrap"), mode_of(mode)
        if depth is None and not bootstrap:
            raise errors.ArgumentError(
                "depth is missing: pass the number of products one after the other, such as "
                "Context(depth=3), or let Context.for_program find it"
            )
        plan = _native.Plan.bootstrapping if bootstrap else _native.Plan.leveled
        self._start(plan(optional(whole, depth, "depth") or 0), progress, mode=mode)

    def _start(
        self,
        plan: _native.Plan | None,
        progress: Progress,
        keys: Keys | None = None,
        mode: Literal["execute", "simulate"] = "execute",
    ) -> None:
        super()._start(plan, progress, keys)
        self._mode = mode
        self._largest: float | None = None

    @classmethod
    def preset(
        cls,
        name: str,
        *,
        mode: Literal["execute", "simulate"] = "execute",
        progress: Progress = None,
        insecure_log_n: int | None = None,
    ) -> Context:
        """Makes a context with named parameters.

        A context that encrypts with less than 128 bits of security warns: `sudare.errors.SecurityWarning`.

        Parameters
        ----------
        name : str
            A name that `sudare params` lists.
        mode : {"execute", "simulate"}, default "execute"
            Whether to encrypt, or to run programs in the clear.
        progress : callable or bool, optional
            Called as `progress(step, done, total)` in long calls. `True` shows bars of tqdm.
        insecure_log_n : int, optional
            For tests: `log2` of the degree of another ring, without security.
        """
        name, mode = string(name, "name"), mode_of(mode)
        plan = _native.Plan.preset(name, optional(whole, insecure_log_n, "insecure_log_n"))
        if mode == "execute":
            # 2, so that the warning points at the caller of this method.
            plan.parameters.warn_if_insecure(2)
        return cls._with(plan, progress, None, mode)

    @classmethod
    def for_program(
        cls,
        program: Program,
        shapes: Shapes,
        *,
        bootstrap: bool = False,
        share_bits: int | None = None,
        assume_intervals: bool = False,
        calibration: object = None,
        ranges: Sequence[tuple[float, float] | None] | None = None,
        mode: Literal["execute", "simulate"] = "execute",
        progress: Progress = None,
    ) -> Context:
        """Makes a context for one program: the smallest ring with its levels, and exactly its keys.

        There is room for the numbers that the inputs can lead to. Pass `ranges` or `calibration` to say which
        numbers the inputs hold. Without them, an input may fill the interval of a function that it enters
        as it is. Other inputs may hold numbers up to a million in magnitude, or fewer where one more prime
        does not suffice for the numbers that follow from them. `encrypt` refuses numbers outside the range.

        Parameters
        ----------
        program : callable
            Called once, with arrays of these shapes that only record their operations.
        shapes : sequence of int or tuple of int
            The shape of each input.
        bootstrap : bool, default False
            Whether the program may be deeper than any ring. Arrays that are bootstrapped must be at most 1
            in magnitude, which simulation checks.
        share_bits : int, optional
            Bits after the point to which `release` shall share results, for inputs of at most 1 in
            magnitude. `encrypt` checks them.
        assume_intervals : bool, default False
            For `share_bits`: promises that arguments stay within the intervals of functions, where inputs
            could lead them out. If they leave them, released values may reveal the secret key.
        calibration : array_like or sequence of array_like, optional
            A sample of each input, of any shape. The range of the sample, widened by half its width on
            both sides, is planned for.
        ranges : sequence of (float, float) or None, optional
            The lowest and highest number of each input, or `None` where you know nothing.
        mode : {"execute", "simulate"}, default "execute"
            Whether to encrypt, or to run programs in the clear.
        progress : callable or bool, optional
            Called as `progress(step, done, total)` in long calls. `True` shows bars of tqdm.
        """
        bootstrap, mode = flag(bootstrap, "bootstrap"), mode_of(mode)
        share_bits = optional(whole, share_bits, "share_bits")
        assume_intervals = flag(assume_intervals, "assume_intervals")
        trace, outputs = record(program, shapes)
        plan = trace.plan(
            outputs,
            bootstrap=bootstrap,
            share_bits=share_bits,
            assume_intervals=assume_intervals,
            ranges=_ranges(len(shapes), calibration, ranges),
        )
        context = cls._with(plan, progress, None, mode)
        context._shares = share_bits is not None
        return context

    @property
    def _engine(self) -> _native.Engine:
        with self._lock:
            if self._started is None:
                if self._mode == "simulate":
                    assert self._plan is not None
                    self._started = _native.Engine.simulate(self._plan)
                else:
                    self._started = _native.Engine.execute(self.keys.evaluation)
            return self._started

    def encrypt(
        self, values: object, *, low: float | None = None, high: float | None = None
    ) -> EncryptedArray:
        """Encrypts an array of real numbers.

        The array knows its range. Without `low` and `high`, the range is read off the values. It is exact
        while the array is in memory, and rounded outward to a power of two in files and pickles, which
        others may read. In a context for a program whose inputs have a declared range, arrays have that
        range.

        Parameters
        ----------
        values : array_like
            Finite real numbers.
        low, high : float, optional
            The range that you declare. Values outside it are refused. If you pass only one of them, the
            range is symmetric about 0.
        """
        numbers = floats(values)
        declared = self._declared(numbers, low, high)
        if self._shares and (largest := float(abs(numbers).max())) > 1:
            raise errors.of_kind(
                "ValueTooLarge",
                f"a value has the magnitude {largest:g}, but the errors of results that you release are "
                "known only for inputs of at most 1: divide the inputs by their range",
            )
        self._largest = max(self._largest or 1.0, float(abs(numbers).max()))
        if self._mode == "simulate":
            return EncryptedArray(self, self._engine.encrypt_in_simulation(numbers, declared))
        value = _native.encrypt(self.keys.public, numbers, declared, self._callback)
        return EncryptedArray(self, value)

    def _declared(
        self, numbers: Floats, low: float | None, high: float | None
    ) -> tuple[float, float] | None:
        """Returns the declared range of an array, by its arguments or by the program."""
        planned = [known for known in self._inputs if known.shape == numbers.shape]
        if planned:
            # Inputs of one shape cannot be told apart, so the widest range counts.
            start, end = min(x.low for x in planned), max(x.high for x in planned)
            wrong = numbers[(numbers < start) | (numbers > end)]
            if wrong.size:
                raise errors.of_kind(
                    "ValueTooLarge",
                    f"a value is {wrong[0]:g}, but the program was planned for inputs from {start:g} "
                    f"to {end:g}: plan it with ranges=[(low, high), ...] or calibration=sample for "
                    "your data",
                )
        if low is None and high is None:
            known = bool(planned) and all(known.declared for known in planned)
            return (start, end) if known else None
        top = -real(low, "low") if high is None else real(high, "high")
        bottom = -top if low is None else real(low, "low")
        return bottom, top

    @cached_property
    def _inputs(self) -> tuple[Input, ...]:
        """The inputs of the planned program."""
        program = None if self._plan is None else Explanation.of(self._plan).program
        return program.inputs if program else ()

    def decrypt(self, array: EncryptedArray) -> Floats:
        """Decrypts an array: for the owner of the secret key.

        The values carry an error that depends on the secret key. To share values, use `release`.
        """
        value = EncryptedArray._of(array)._value
        if self._mode == "simulate":
            return self._engine.decrypt_in_simulation(value)
        return _native.decrypt(self.keys.secret, value)

    def release(
        self, array: EncryptedArray, bits: int, *, largest_error: float | None = None
    ) -> Floats:
        """Decrypts an array to values that others than the owner of the secret key may see.

        Noise hides the error that depends on the key. Values are rounded to multiples of `2**-bits`, within
        `2**-bits` of the decrypted ones. A call is one of the 1024 releases of a key, which are counted in a
        ledger next to the file of the secret key, or with a key that is only in memory:
        `SecretKey.releases`. The same array, to the same bits, is the same release with the same values.

        The noise is known for the results of the program that the context was planned for:
        `Context.for_program(..., share_bits=bits)` makes them precise enough. The context recognises a
        result by its operations on inputs of the planned shapes. Inputs must be at most 1 in magnitude,
        which contexts of existing keys do not check.

        Parameters
        ----------
        array : EncryptedArray
            The array to share.
        bits : int
            Bits after the point, at least 1.
        largest_error : float, optional
            For other results: a bound of the error of an element that holds for all inputs, such as the
            `largest_error` of an explained output. Never pass a measured error.
        """
        array, bits = EncryptedArray._of(array), whole(bits, "bits")
        if bits < 1:
            raise errors.ArgumentError(f"bits is {bits}: pass at least 1")
        if largest_error is None:
            largest_error = self._largest_error(array)
        elif (largest_error := real(largest_error, "largest_error")) <= 0:
            raise errors.ArgumentError(
                f"largest_error is {largest_error:g}: pass a positive bound, because noise must hide errors"
            )
        most = _native.most_release_bits(math.prod(array.shape), largest_error)
        if most is None or bits > most:
            possible = f"{most} bits are possible" if most else "not even one is possible"
            raise errors.of_kind(
                "TooLittlePrecision",
                f"cannot release {bits} bits after the point of {math.prod(array.shape)} values with errors "
                f"of up to {largest_error:.1e}: {possible}; plan the program with "
                f"Context.for_program(..., share_bits={bits}), or release fewer bits or values",
            )
        if self._mode == "simulate":
            return _native.release_in_simulation(self.decrypt(array), largest_error, bits)
        value = array._value
        return _native.release(self.keys.secret, value, largest_error, bits)

    @cached_property
    def _outputs(self) -> tuple[Output, ...]:
        """The results of the planned program."""
        program = None if self._plan is None else Explanation.of(self._plan).program
        # The error that bootstrapping adds is not known.
        return program.outputs if program and not program.bootstraps else ()

    def _planned(self, array: EncryptedArray) -> list[Output]:
        """Returns the outputs that an array can be, by its shape, its level and its operations."""
        known = (array.shape, array.level, array._value.lineage)
        return [out for out in self._outputs if (out.shape, out.level, out.lineage) == known]

    def _log2_error(self, array: EncryptedArray) -> float | None:
        found = [self._error_at(out) for out in self._planned(array)]
        return max(found, default=None)

    def _error_at(self, out: Output) -> float:
        """Returns `log2` of the error to expect in a result, for the inputs that were encrypted here, or
        without any for inputs that fill their ranges."""
        full = max((max(-known.low, known.high) for known in self._inputs), default=1.0)
        if self._largest is None or out.filled_log2_error <= out.log2_error or full <= 1.0:
            return max(out.log2_error, out.filled_log2_error)
        # Errors grow as a polynomial of the inputs: their logarithm is convex in the logarithm of the size.
        part = min(max(math.log(self._largest) / math.log(full), 0.0), 1.0)
        return out.log2_error + part * (out.filled_log2_error - out.log2_error)

    def _largest_error(self, array: EncryptedArray) -> float:
        """Returns a bound of the errors of a result of the planned program."""
        planned = self._planned(array if array.level is not None else self.attach(array))
        known = [out.largest_error for out in planned if out.largest_error is not None]
        # Without `_shares`, `encrypt` did not check the inputs that bounds are for.
        if not known or len(known) < len(planned) or not self._shares:
            raise errors.UnsupportedError(
                "no bound of the errors of this array is known: release a result of the program that "
                "Context.for_program(..., share_bits=...) planned, without bootstrapping and with functions "
                "whose arguments cannot leave their intervals, or pass a bound as largest_error="
            )
        return max(known)

    def attach(self, array: EncryptedArray) -> EncryptedArray:
        """Returns the same array, to compute with in this context."""
        if self._mode == "simulate":
            raise errors.of_kind(
                "Simulation",
                "a simulation cannot compute with encrypted arrays: encrypt the data in the simulation",
            )
        value = EncryptedArray._of(array)._value
        own = self.keys.any.key_id
        if value.key_id != own:
            raise errors.of_kind(
                "KeyMismatch",
                f"the array was encrypted under the key {value.key_id}, but this context has {own}: "
                "attach it to a context of its own key",
            )
        return EncryptedArray(self, value.attached(self._parameters))

    def load(self, path: str | os.PathLike[str]) -> EncryptedArray:
        """Opens an array that `EncryptedArray.save` wrote."""
        return self.attach(EncryptedArray(None, _native.Array.open(path_of(path))))

    def _apply(self, op: Op, operands: list[Any]) -> EncryptedArray:
        try:
            value = self._engine.apply(op, natives(operands), self._callback)
            return EncryptedArray(self, value)
        except errors.MissingKeyError as error:
            if not self._inputs:
                raise
            shapes = ", ".join(str(known.shape) for known in self._inputs)
            raise errors.of_kind(
                error.kind,
                "this context has no key for this operation: its keys are for one program on inputs of the "
                f"shapes {shapes}; plan a context for this program, or use Context(depth=...), which has "
                "keys for all",
            ) from None

    def explain(
        self,
        program: Program | None = None,
        shapes: Shapes = (),
        *,
        assume_intervals: bool = False,
    ) -> Explanation:
        """Returns sizes and security, before any key is made.

        Parameters
        ----------
        program : callable, optional
            A program, to explain its depth, bootstrappings, memory, time and errors as well.
        shapes : sequence of int or tuple of int, optional
            The shape of each input of the program.
        assume_intervals : bool, default False
            As for `for_program`.
        """
        plan = self._planned_for()
        assume_intervals = flag(assume_intervals, "assume_intervals")
        if program is None:
            return Explanation.of(plan)
        trace, outputs = record(program, shapes)
        measured = trace.measure(outputs, plan, assume_intervals=assume_intervals)
        return Explanation.of(measured)

    def _facts(self) -> dict[str, str]:
        found = self._parameters
        name = f"{found.name or 'sized to measure'} ({found.id})"
        facts = {"mode": self._mode, **super()._facts(), "parameters": name}
        if self._mode == "simulate":
            facts["keys"] = "none: nothing is encrypted"
        for i, known in enumerate(self._inputs):
            facts[f"input {i}"] = f"shape {known.shape}, from {known.low:g} to {known.high:g}"
        return facts

    def __repr__(self) -> str:
        return f"Context({self._mode}, {self._made or 'no keys yet'})"


def _ranges(
    inputs: int, calibration: object, ranges: Sequence[tuple[float, float] | None] | None
) -> list[tuple[float, float] | None]:
    """Returns the ranges of the inputs of a program, given or read off samples."""
    if calibration is not None and ranges is not None:
        raise errors.ArgumentError("calibration and ranges are both given: pass one of them")
    if calibration is not None:
        samples: list[object] = [calibration]
        if inputs != 1 and isinstance(calibration, (list, tuple)):
            samples = list(calibration)
        if len(samples) != inputs:
            raise errors.ArgumentError(
                f"calibration has {len(samples)} samples, but the program has {inputs} inputs: pass an "
                "array for each"
            )
        return [_widened(floats(sample)) for sample in samples]
    if ranges is None:
        return [None] * inputs
    entries = items(ranges, "ranges", "(low, high) or None for each input")
    if len(entries) != inputs:
        raise errors.ArgumentError(
            f"ranges has {len(entries)} entries, but the program has {inputs} inputs: pass (low, high) "
            "or None for each"
        )
    return [None if ends is None else ends_of(ends, "a range") for ends in entries]


def mode_of(mode: object) -> Literal["execute", "simulate"]:
    """Returns a mode of contexts and estimators."""
    return choice(mode, "mode", ("execute", "simulate"))


def _widened(sample: Floats) -> tuple[float, float]:
    """Returns the range of a sample with a margin of half its width, or its magnitude if it is constant."""
    low, high = float(sample.min()), float(sample.max())
    margin = (high - low) / 2 or abs(high) or 1.0
    return low - margin, high + margin
