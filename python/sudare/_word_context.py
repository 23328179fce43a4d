"""Contexts of machine words: parameters and keys, to encrypt, compute and decrypt with."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from sudare import _native, errors
from sudare._context import mode_of
from sudare._encrypted import natives
from sudare._integer_context import (
    IntegerBootstrapping,
    IntegerExplanation,
    IntegerKeys,
)
from sudare._keys import SimulatingContextOf
from sudare._native import IntegerEvaluationKeys, IntegerPublicKey, IntegerSecretKey
from sudare._plain import flag, items, optional, path_of, several, shown, string, whole
from sudare._progress import Progress
from sudare._shown import Facts
from sudare._words import EncryptedWords, checked, native_words, opened_words, plain_words, word_type


@dataclass(frozen=True)
class WordNeeds:
    """Needs of a program, found by its simulation."""

    relinearizations: int
    """Relinearisations, without those of bootstrapping."""
    bootstraps: int
    """Bootstrapped ciphertexts."""
    depth: int
    """Levels between new arrays and the lowest result."""
    seconds: float
    """Predicted time, on one thread of the machine of docs/performance.md."""
    log2_failure: float
    """`log2` of a bound on the probability that a result is wrong: the sum of `2**-128` for each operation on a
    ciphertext, and of the probability that a bootstrapping fails for each of them."""


@dataclass(frozen=True)
class WordExplanation(Facts):
    """Sizes, security and costs of a context of words. Prints as a table."""

    parameters: IntegerExplanation
    """The parameters and keys."""
    digit_bits: int
    """Bits of a digit. Each digit of all elements has ciphertexts of its own."""
    needs: WordNeeds | None
    """The needs of the program, or of all computations in simulation; `None` if they are not known."""

    def _facts(self) -> dict[str, str]:
        facts = self.parameters._facts()
        facts["integers"] = f"digits of {self.digit_bits} bits, modulo {self.parameters.t}"
        if self.needs is not None:
            needs = self.needs
            facts["program"] = (
                f"{needs.relinearizations} relinearisations, depth {needs.depth}, {needs.bootstraps} "
                f"bootstrappings, {needs.seconds:.2g} s, wrong with probability below 2^{needs.log2_failure:.0f}"
            )
        return facts


class WordContext(
    SimulatingContextOf[
        IntegerKeys,
        _native.IntegerParameters,
        IntegerPublicKey,
        IntegerEvaluationKeys,
        IntegerSecretKey,
    ]
):
    """Computes exactly with encrypted machine words, `uint8` to `uint64` and `int8` to `int64`, under one key.

    Results are NumPy's: sums and products wrap, and comparisons give encrypted booleans. `for_program` plans the
    parameters for a program. `WordContext(np.uint32, depth=8)` is for programs of up to `depth` levels in the
    smallest ring with 128 bits of security. With `bootstrap=True` programs may be of any depth, with gigabytes
    of keys. A comparison of `uint32` takes 8 levels, and a sum takes 8 when its carries are needed.

    All elements of an array are computed at once, so one word costs the same as full ciphertexts of them. The
    context makes its keys when you first need them: `explain` says before how large they are.

    Parameters
    ----------
    dtype : dtype
        The type of the words that `encrypt` makes.
    depth : int, optional
        Levels of the program. Required without `bootstrap`.
    bootstrap : bool, default False
        Whether programs may be of any depth.
    digit_bits : {4, 8}, default 4
        Bits of a digit. Digits of 8 bits halve the number of ciphertexts, and need more levels.
    mode : {"execute", "simulate"}, default "execute"
        Whether to encrypt, or to run programs in the clear, where everything is refused that encryption would
        refuse.
    progress : callable or bool, optional
        Called as `progress(step, done, total)` in long calls. `True` shows bars of tqdm.
    """

    _keys_type = IntegerKeys
    _classes = (IntegerEvaluationKeys, IntegerPublicKey, IntegerSecretKey)
    _check_pair: ClassVar[Any] = staticmethod(_native.check_integer_pair)
    _generate: ClassVar[Any] = staticmethod(_native.generate_integer_keys)
    _started: _native.WordEngine | None
    _dtype: np.dtype[Any] | None = None
    _digit_bits: int = 4
    _needs: WordNeeds | None = None

    def __init__(
        self,
        dtype: object,
        depth: int | None = None,
        *,
        bootstrap: bool = False,
        digit_bits: int = 4,
        mode: Literal["execute", "simulate"] = "execute",
        progress: Progress = None,
    ) -> None:
        kind, bits = word_type(dtype), _bits(digit_bits)
        found = mode_of(mode)
        levels = optional(whole, depth, "depth")
        if flag(bootstrap, "bootstrap"):
            # A set in the larger ring has room for every operation.
            plan = _bootstrapping(levels or 0)
        elif levels is None:
            raise errors.ArgumentError(
                "depth is missing: pass the levels of the program, such as WordContext(np.uint32, depth=8), or "
                "bootstrap=True, or let WordContext.for_program find it"
            )
        else:
            plan = _native.IntegerPlan.words(levels)
        self._start(plan, progress)
        self._set(found, kind, bits)

    def _set(
        self,
        mode: Literal["execute", "simulate"],
        dtype: np.dtype[Any] | None,
        digit_bits: int,
        needs: WordNeeds | None = None,
    ) -> None:
        self._mode, self._dtype, self._digit_bits, self._needs = mode, dtype, digit_bits, needs

    @classmethod
    def for_program(
        cls,
        program: Callable[..., Any],
        shapes: Sequence[object],
        dtypes: Sequence[object],
        *,
        bootstrap: bool | None = None,
        digit_bits: int | None = None,
        mode: Literal["execute", "simulate"] = "execute",
        progress: Progress = None,
    ) -> WordContext:
        """Makes a context for one program: the parameters that are predicted to compute it in the least time.

        The program runs in simulation, under each set of parameters and with each size of digits that may suit
        it. The fastest is chosen.

        Parameters
        ----------
        program : callable
            Called several times, with arrays of these shapes and types. It returns an array or several.
        shapes : sequence of int or tuple of int
            The shape of each input.
        dtypes : sequence of dtype
            The type of each input.
        bootstrap : bool, optional
            Whether to bootstrap. By default, programs that no ring has enough levels for are bootstrapped.
        digit_bits : {4, 8}, optional
            Bits of a digit. By default, both are tried.
        mode : {"execute", "simulate"}, default "execute"
            Whether to encrypt, or to run programs in the clear.
        progress : callable or bool, optional
            Called as `progress(step, done, total)` in long calls. `True` shows bars of tqdm.
        """
        kinds = [word_type(dtype, "a dtype") for dtype in items(dtypes, "dtypes", "a list of types")]
        axes = [_axes(shape) for shape in items(shapes, "shapes", "a list of shapes")]
        if len(kinds) != len(axes) or not kinds:
            raise errors.ArgumentError(
                f"there are {len(axes)} shapes and {len(kinds)} dtypes: pass one of both for each input"
            )
        if not callable(program):
            raise errors.ArgumentError(f"program is {shown(program)}: pass a function of arrays")
        found = mode_of(mode)
        boot = optional(flag, bootstrap, "bootstrap")
        sizes = [4, 8] if digit_bits is None else [_bits(digit_bits)]
        inputs = [np.zeros(shape, kind) for shape, kind in zip(axes, kinds, strict=True)]

        def measured(plan: _native.IntegerPlan, bits: int) -> WordNeeds:
            context = cls._with(plan, None)
            context._set("simulate", None, bits)
            program(*(context.encrypt(x) for x in inputs))
            return WordNeeds(**context._engine.usage())

        best: tuple[WordNeeds, _native.IntegerPlan, int] | None = None
        refused: errors.Error | None = None
        if not boot:
            for bits in sizes:
                try:
                    plan, needs = _leveled(measured, bits)
                except (errors.LevelExhaustedError, errors.ParametersError) as error:
                    refused = error
                else:
                    if best is None or needs.seconds < best[0].seconds:
                        best = needs, plan, bits
        if boot or best is None and boot is None:
            for name in _native.IntegerPlan.word_sets():
                plan = _native.IntegerPlan.preset(name, "bgv", True).for_words()
                for bits in sizes:
                    try:
                        needs = measured(plan, bits)
                    except errors.LevelExhaustedError as error:
                        refused = error
                    else:
                        if best is None or needs.seconds < best[0].seconds:
                            best = needs, plan, bits
        if best is None:
            assert refused is not None
            raise refused
        context = cls._with(best[1], progress)
        context._set(found, kinds[0] if len(set(kinds)) == 1 else None, best[2], best[0])
        return context

    @classmethod
    def preset(
        cls,
        name: str,
        dtype: object,
        *,
        digit_bits: int = 4,
        mode: Literal["execute", "simulate"] = "execute",
        progress: Progress = None,
        insecure_log_n: int | None = None,
    ) -> WordContext:
        """Makes a context with named parameters of `IntegerContext.preset`.

        A context that encrypts with less than 128 bits of security warns: `sudare.errors.SecurityWarning`.

        Parameters
        ----------
        name : str
            A name that `sudare params` lists.
        dtype : dtype
            The type of the words that `encrypt` makes.
        digit_bits : {4, 8}, default 4
            Bits of a digit.
        mode : {"execute", "simulate"}, default "execute"
            Whether to encrypt, or to run programs in the clear.
        progress : callable or bool, optional
            Called as `progress(step, done, total)` in long calls. `True` shows bars of tqdm.
        insecure_log_n : int, optional
            For tests: `log2` of the degree of another ring, without security.
        """
        log_n = optional(whole, insecure_log_n, "insecure_log_n")
        plan = _native.IntegerPlan.preset(string(name, "name"), "bgv", True, log_n).for_words()
        kind, bits, found = word_type(dtype), _bits(digit_bits), mode_of(mode)
        if found == "execute":
            plan.parameters.warn_if_insecure(2)
        context = cls._with(plan, progress)
        context._set(found, kind, bits)
        return context

    @property
    def _engine(self) -> _native.WordEngine:
        with self._lock:
            if self._started is None:
                if self._mode == "simulate":
                    self._started = _native.WordEngine.simulate(self._planned_for())
                else:
                    self._started = _native.WordEngine.execute(self.keys.evaluation)
            return self._started

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """The type of the words that `encrypt` makes; `None` if they keep their type."""
        return self._dtype

    @property
    def digit_bits(self) -> int:
        """Bits of a digit of the arrays that `encrypt` makes."""
        return self._digit_bits

    @property
    def slots(self) -> int:
        """Words of an array that fill its ciphertexts, one for each digit."""
        return self._parameters.slots

    def encrypt(self, values: object, *, dtype: object = None) -> EncryptedWords:
        """Encrypts an array of integers or booleans.

        Booleans stay booleans. Integers get the type of the context, which must have all of them.

        Parameters
        ----------
        values : array_like
            Integers or booleans.
        dtype : dtype, optional
            Another type. A context for a program with inputs of several types keeps the types of arrays.
        """
        array = plain_words(values)
        if dtype is not None:
            kind = word_type(dtype)
        elif array.dtype.kind == "b" or self._dtype is None:
            kind = word_type(array.dtype, "the type of values")
        else:
            kind = self._dtype
        words = native_words(checked(array, kind))
        name, bits = str(kind), self._digit_bits
        if self._mode == "simulate":
            value = self._engine.encrypt_in_simulation(words, name, bits)
        else:
            value = _native.encrypt_words(self.keys.public, words, name, bits, self._callback)
        return EncryptedWords(self, value)

    def decrypt(self, array: EncryptedWords) -> npt.NDArray[Any]:
        """Decrypts an array exactly: for the owner of the secret key."""
        array = EncryptedWords._of(array)
        if self._mode == "simulate":
            words = self._engine.decrypt_in_simulation(array._value)
        else:
            words = _native.decrypt_words(self.keys.secret, array._value)
        return opened_words(words, array.dtype)

    def carried(self, array: EncryptedWords) -> EncryptedWords:
        """Returns the same array with its carries computed.

        Operations do this where they need it, and an array keeps the result. Call this to choose the moment.
        """
        return self._apply("carry", [EncryptedWords._of(array)])

    def attach(self, array: EncryptedWords) -> EncryptedWords:
        """Returns the same array, to compute with in this context, whose key it must have."""
        value = EncryptedWords._of(array)._value
        return EncryptedWords(self, value.attached(self.keys.any))

    def load(self, path: str | os.PathLike[str]) -> EncryptedWords:
        """Opens an array that `EncryptedWords.save` wrote."""
        return self.attach(EncryptedWords(None, _native.WordArray.open(path_of(path))))

    def _apply(
        self, op: str, operands: Sequence[Any], numbers: Sequence[int] = (), dtype: str | None = None
    ) -> EncryptedWords:
        value = self._engine.apply(op, natives(operands), list(numbers), dtype, self._callback)
        return EncryptedWords(self, value)

    def explain(self) -> WordExplanation:
        """Returns sizes, security and predicted costs, before any key is made.

        With bootstrapping that itself takes seconds.
        """
        report = self._planned_for().report()
        boot = report.pop("bootstrapping")
        bootstrapping = None if boot is None else IntegerBootstrapping(**boot)
        needs = self._needs
        if self._mode == "simulate":
            needs = WordNeeds(**self._engine.usage())
        parameters = IntegerExplanation(bootstrapping=bootstrapping, **report)
        return WordExplanation(parameters, self._digit_bits, needs)

    def for_server(self) -> WordContext:
        """Returns the same context without the secret key. It computes, can be pickled, and cannot
        decrypt."""
        context = super().for_server()
        context._set("execute", self._dtype, self._digit_bits, self._needs)
        return context

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (super().__reduce__(), self._dtype, self._digit_bits, self._needs)

    def _facts(self) -> dict[str, str]:
        kind = "words" if self._dtype is None else str(self._dtype)
        facts = {"words": f"{kind} in digits of {self._digit_bits} bits"}
        if self._mode == "simulate":
            return {**facts, "parameters": self._parameters.id, "mode": "simulation"}
        return {**facts, **super()._facts()}

    def __repr__(self) -> str:
        state = "simulation" if self._mode == "simulate" else self._made or "no keys yet"
        return f"WordContext({self._dtype or 'words'}, {state})"


def _restored(
    made: tuple[Any, ...], dtype: np.dtype[Any] | None, digit_bits: int, needs: WordNeeds | None
) -> WordContext:
    restore, arguments = made
    context: WordContext = restore(*arguments)
    context._set("execute", dtype, digit_bits, needs)
    return context


def _bits(digit_bits: object) -> int:
    bits = whole(digit_bits, "digit_bits", 4, 8)
    if bits not in (4, 8):
        raise errors.ArgumentError(f"digit_bits is {bits}: pass 4 or 8")
    return bits


def _axes(shape: object) -> tuple[int, ...]:
    listed = [shape] if isinstance(shape, int) else several(shape)
    return tuple(whole(size, "a size", 1, 2**40) for size in listed)


def _bootstrapping(depth: int) -> _native.IntegerPlan:
    """Returns a plan that bootstraps words and leaves at least `depth` levels, and enough for products."""
    needed = max(depth, _MOST_IN_A_ROW)
    sets = _native.IntegerPlan.word_sets()
    for name in sets:
        plan = _native.IntegerPlan.preset(name, "bgv", True).for_words()
        if plan.usable_levels >= needed:
            return plan
    raise errors.ParametersError(
        f"depth is {depth}, but bootstrapping leaves fewer levels: choose a smaller depth, as programs may be of "
        "any length"
    )


_MOST_IN_A_ROW = 12
"""Levels of the deepest table of an operation: a sum of 16 products of digits of 4 bits."""

_TRIED = 4
"""Levels above the measured depth that are tried where errors need more room."""


def _leveled(
    measured: Callable[[_native.IntegerPlan, int], WordNeeds], bits: int
) -> tuple[_native.IntegerPlan, WordNeeds]:
    """Returns the smallest plan without bootstrapping for a program, and its needs."""
    depth = measured(_native.IntegerPlan.measuring_words(), bits).depth
    for more in range(_TRIED):
        plan = _native.IntegerPlan.words(depth + more)
        try:
            return plan, measured(plan, bits)
        except errors.LevelExhaustedError:
            if more + 1 == _TRIED:
                raise
    raise AssertionError
