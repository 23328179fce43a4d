"""Contexts: parameters, keys, and what encrypts, computes and decrypts with them."""

from __future__ import annotations

import itertools
import math
import os
import threading
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal, TypeVar

from sudare import _native, errors
from sudare._array import EncryptedArray, encrypted
from sudare._explain import Explanation, Input, Output, Program, Shapes, record
from sudare._native import EvaluationKeys, Op, PublicKey, SecretKey
from sudare._plain import Floats, floats, from_native, to_native, whole
from sudare._progress import Progress, callback

_Key = TypeVar("_Key", bound=PublicKey | SecretKey)

class Keys:
    """The keys of a context, each a value of its own."""

    __slots__ = ("_evaluation", "_public", "_secret")

    def __init__(
        self,
        public: PublicKey | None,
        evaluation: EvaluationKeys | None,
        secret: SecretKey | None,
    ) -> None:
        self._public = public
        self._evaluation = evaluation
        self._secret = secret

    @property
    def public(self) -> PublicKey:
        """Encrypts. May be given to anybody."""
        if self._public is None:
            raise errors.NoPublicKeyError(
                "this context was made without a public key, which encrypts: pass "
                "public=PublicKey.open(...) to Context.from_keys"
            )
        return self._public

    @property
    def evaluation(self) -> EvaluationKeys:
        """Computes on encrypted arrays. For the server."""
        if self._evaluation is None:
            raise errors.MissingRelinearizationKeyError(
                "this context was made without evaluation keys, which compute: pass "
                "evaluation=EvaluationKeys.open(...) to Context.from_keys"
            )
        return self._evaluation

    @property
    def secret(self) -> SecretKey:
        """Decrypts. For the owner alone."""
        if self._secret is None:
            raise errors.NoSecretKeyError(
                "this context has no secret key, so it cannot decrypt: send the result to the "
                "owner of the key"
            )
        return self._secret

    @property
    def any(self) -> PublicKey | EvaluationKeys | SecretKey:
        """One of them."""
        return self._public or self._evaluation or self.secret

    @property
    def can_decrypt(self) -> bool:
        """Whether the secret key is among them."""
        return self._secret is not None

    def __repr__(self) -> str:
        held = [key for key in (self._public, self._evaluation, self._secret) if key is not None]
        return f"Keys({', '.join(map(repr, held))})"


class Context:
    """Everything that computes with arrays under one key.

    `Context(depth=d)` is for programs of up to `d` products one after the other (masks and sums
    along inner axes count, too; `explain` knows), in the smallest ring of 128 bits of security.
    With `bootstrap=True` programs may be of any depth, at gigabytes of keys. With
    `mode="simulate"` the same programs run in the clear, where arrays know the error to expect.

    Arrays know between which numbers their elements lie: `encrypt` looks at the data, and operations
    carry it on. A result that could be too large for its level, or an argument outside the interval
    of a function, is refused before it is computed, in simulation and execution alike. At the last
    level there is room for numbers up to 2^49, or less where the ring is full; `explain` says how
    much.

    Keys are made when they are first needed, exactly those of the context: `explain` says before
    how large they are. `progress` is called as `progress(step, done, total)` in long calls;
    `True` shows bars of tqdm where it is installed. Contexts may be shared between threads.
    """

    def __init__(
        self,
        depth: int | None = None,
        *,
        bootstrap: bool = False,
        mode: Literal["execute", "simulate"] = "execute",
        progress: Progress = None,
    ) -> None:
        if depth is None and not bootstrap:
            raise errors.InvalidSpecError(
                "depth is missing: name the products that a program has one after the other, "
                "such as Context(depth=3), or let Context.for_program find it out"
            )
        plan = _native.Plan.bootstrapping if bootstrap else _native.Plan.leveled
        self._init(plan(whole(depth or 0, "depth")), mode, progress)

    def _init(
        self,
        plan: _native.Plan | None,
        mode: Literal["execute", "simulate"],
        progress: Progress,
        keys: Keys | None = None,
    ) -> None:
        if mode not in ("execute", "simulate"):
            raise errors.InvalidSpecError(
                f"mode {mode!r} is neither 'execute' nor 'simulate': choose one of them"
            )
        self._plan = plan
        self._mode = mode
        self._callback = callback(progress)
        self._made = keys
        self._shares = False
        self._largest: float | None = None
        self._started: _native.Engine | None = None
        self._lock = threading.RLock()

    @classmethod
    def _of(cls, *args: Any) -> Context:
        context = cls.__new__(cls)
        context._init(*args)
        return context

    @classmethod
    def preset(
        cls,
        name: str,
        *,
        mode: Literal["execute", "simulate"] = "execute",
        progress: Progress = None,
        insecure_log_n: int | None = None,
    ) -> Context:
        """A context with the parameters of this name: `sudare params` lists them.

        `insecure_log_n` asks for the same in a ring of degree `2**insecure_log_n`, without
        security, for tests. A context that encrypts with less than 128 bits of security warns of
        that: `sudare.errors.SecurityWarning`.
        """
        if not isinstance(name, str):
            raise errors.ArgumentError(
                f"the name of a parameter set is {name!r}: give a string, such as 'n16-boot'"
            )
        if insecure_log_n is not None:
            insecure_log_n = whole(insecure_log_n, "insecure_log_n")
        plan = _native.Plan.preset(name, insecure_log_n)
        if mode == "execute":
            plan.parameters.warn_if_insecure(2)
        return cls._of(plan, mode, progress)

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
        """A context for one program: the smallest ring with its levels, and exactly its keys.

        `program` is called once, with arrays of these shapes that only record what is done with
        them. With `bootstrap`, it may be deeper than any ring; arrays that are bootstrapped must
        be at most 1 in magnitude, which simulation checks.

        There is room for what inputs can lead to. To say what they hold, pass `ranges`, a pair
        `(low, high)` or `None` for each input, or `calibration`, a sample of the data: an array for
        each input (or one array for a single input), of any shape. The range that is planned for is
        that of the sample, widened by half its width on both sides. An input of which nothing is
        said may fill the interval of a function that it goes into as it is; others may hold numbers
        up to a million in magnitude, or fewer where one prime more does not suffice for what
        follows from them. `encrypt` refuses numbers outside of the range.

        With `share_bits`, the results are precise enough for `release` to so many bits after the
        point. That holds for inputs of at most 1 in magnitude, which `encrypt` then checks. Where
        these could lead to arguments outside the interval of a function, `assume_intervals` says that
        they do not: if they do, what is released may tell about the secret key.
        """
        if share_bits is not None:
            share_bits = whole(share_bits, "share_bits")
        trace, outputs = record(program, shapes)
        plan = trace.plan(
            outputs,
            bootstrap=bootstrap,
            share_bits=share_bits,
            assume_intervals=assume_intervals,
            ranges=_ranges(len(shapes), calibration, ranges),
        )
        context = cls._of(plan, mode, progress)
        context._shares = share_bits is not None
        return context

    @classmethod
    def from_keys(
        cls,
        evaluation: EvaluationKeys | None = None,
        *,
        public: PublicKey | None = None,
        secret: SecretKey | None = None,
        expect: str | None = None,
        progress: Progress = None,
    ) -> Context:
        """A context with keys that there are: a server has `evaluation` and perhaps `public`. With
        `expect`, any other public key than that of this digest is refused."""
        held = [key for key in (evaluation, public, secret) if key is not None]
        if not held:
            raise errors.InvalidSpecError("a context needs at least one key: pass one")
        kinds = (EvaluationKeys, PublicKey, SecretKey)
        for key, kind in zip((evaluation, public, secret), kinds, strict=True):
            if not (key is None or isinstance(key, kind)):
                raise errors.WrongKindError(
                    f"a {type(key).__name__} was given as {kind.__name__}: name keys as "
                    "from_keys(evaluation, public=..., secret=...) has them"
                )
        for first, key in itertools.combinations(held, 2):
            _native.check_pair(first, key)
        if public is not None:
            expected(public, expect)
        elif expect is not None:
            raise errors.ArgumentError(
                "expect is the digest of a public key, and there is none: pass public=..."
            )
        return cls._of(None, "execute", progress, Keys(public, evaluation, secret))

    @property
    def mode(self) -> Literal["execute", "simulate"]:
        """`execute` or `simulate`."""
        return self._mode

    @property
    def keys(self) -> Keys:
        """The keys, made now if there are none yet."""
        if self._mode == "simulate":
            raise errors.SimulationError(
                "nothing is encrypted in simulation, so there are no keys: use mode='execute'"
            )
        with self._lock:
            if self._made is None:
                assert self._plan is not None
                self._made = Keys(*_native.generate_keys(self._plan, self._callback))
            return self._made

    @property
    def _parameters(self) -> _native.Parameters:
        if self._plan is not None:
            return self._plan.parameters
        assert self._made is not None
        return self._made.any._parameters

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
        """An array of real numbers, encrypted.

        It knows its range. With `low` and `high`, that is the range which you declare, and values
        outside of it are refused; one of them alone means the same magnitude on both sides of 0.
        Otherwise the range is read off the values: it stays as it is while the array is in memory,
        and is rounded outward to a power of two in files and pickles, which others may read. In a
        context for a program whose inputs have a declared range, arrays have that one.
        """
        numbers = floats(values)
        declared = self._declared(numbers, low, high)
        if self._shares and (largest := float(abs(numbers).max())) > 1:
            raise errors.ValueTooLargeError(
                f"a value has the magnitude {largest:g}, but results are to be released, whose "
                "errors are known for inputs of at most 1: divide the inputs by their range"
            )
        self._largest = max(self._largest or 1.0, float(abs(numbers).max()))
        array = to_native(numbers)
        if self._mode == "simulate":
            return EncryptedArray(self, self._engine.encrypt_in_simulation(array, declared))
        value = _native.encrypt(self.keys.public, array, declared, self._callback)
        return EncryptedArray(self, value)

    def _declared(
        self, numbers: Floats, low: float | None, high: float | None
    ) -> tuple[float, float] | None:
        """The range that is declared for an array, by its arguments or by the program."""
        planned = [known for known in self._inputs if known.shape == numbers.shape]
        if planned:
            start, end = min(x.low for x in planned), max(x.high for x in planned)
            wrong = numbers[(numbers < start) | (numbers > end)]
            if wrong.size:
                raise errors.ValueTooLargeError(
                    f"a value is {wrong[0]:g}, but the program was planned for inputs from {start:g} "
                    f"to {end:g}: plan it with ranges=[(low, high), ...] or calibration=sample for "
                    "the data that you have"
                )
        if low is None and high is None:
            known = bool(planned) and all(known.declared for known in planned)
            return (start, end) if known else None
        top = -_number(low, "low") if high is None else _number(high, "high")
        bottom = -top if low is None else _number(low, "low")
        return bottom, top

    @cached_property
    def _inputs(self) -> tuple[Input, ...]:
        """The inputs of the program that was planned."""
        program = None if self._plan is None else Explanation.of(self._plan).program
        return program.inputs if program else ()

    def decrypt(self, array: EncryptedArray) -> Floats:
        """The values of an array: for the owner of the secret key.

        They carry an error that depends on the secret key: `release` makes what others may see.
        """
        value = encrypted(array)._value
        if self._mode == "simulate":
            return from_native(self._engine.decrypt_in_simulation(value))
        return from_native(_native.decrypt(self.keys.secret, value))

    def release(
        self, array: EncryptedArray, bits: int, *, largest_error: float | None = None
    ) -> Floats:
        """The values of an array as others than the owner of the secret key may see them.

        Noise hides the error that depends on the key, and values are rounded to multiples of
        `2**-bits`, within `2**-bits` of what they were. It is one of the 1024 releases that a key
        has, which are counted in a ledger beside the file of the secret key, or with a key that is in
        memory only: `SecretKey.releases`. The same array, to the same bits, is the same release and
        has the same values.

        How much noise it takes is known for the results of the program that the context was
        planned for: `Context.for_program(..., share_bits=bits)` makes them precise enough. A result
        is recognised by the operations that it comes from, which are those of the program on inputs
        of the planned shapes; inputs are at most 1 in magnitude, which contexts of given keys do not
        check. Else `largest_error` says it: a bound of the error of an element that holds whatever
        the inputs, such as that of an `explain`ed output, and never one that was measured.
        """
        if whole(bits, "bits") < 1:
            raise errors.InvalidSpecError(f"{bits} bits after the point: at least 1 is needed")
        if largest_error is None:
            largest_error = self._largest_error(encrypted(array))
        most = _native.most_release_bits(math.prod(array.shape), largest_error)
        if most is None or bits > most:
            possible = f"{most} bits are possible" if most else "not even one is possible"
            raise errors.TooLittlePrecisionError(
                f"{bits} bits after the point cannot be released of {math.prod(array.shape)} values "
                f"with errors of up to {largest_error:.1e}: {possible}; plan the program with "
                f"Context.for_program(..., share_bits={bits}), or release fewer bits or values"
            )
        if self._mode == "simulate":
            values = to_native(self.decrypt(array))
            return from_native(_native.release_in_simulation(values, largest_error, bits))
        value = encrypted(array)._value
        return from_native(_native.release(self.keys.secret, value, largest_error, bits))

    @cached_property
    def _outputs(self) -> tuple[Output, ...]:
        """What is known of the results of the program that was planned."""
        program = None if self._plan is None else Explanation.of(self._plan).program
        # What bootstrapping adds is not known.
        return program.outputs if program and not program.bootstraps else ()

    def _planned(self, array: EncryptedArray) -> list[Output]:
        """Those of them that an array can be, by its shape, its level and the operations that it
        comes from; none if it is bootstrapped."""
        known = (array.shape, array.level, array._value.lineage)
        return [out for out in self._outputs if (out.shape, out.level, out.lineage) == known]

    def _log2_error(self, array: EncryptedArray) -> float | None:
        found = [self._error_at(out) for out in self._planned(array)]
        return max(found, default=None)

    def _error_at(self, out: Output) -> float:
        """`log2` of the error to expect in a result for the inputs that were encrypted here, or for
        those that fill their ranges if none were."""
        full = max((max(-known.low, known.high) for known in self._inputs), default=1.0)
        if self._largest is None or out.filled_log2_error <= out.log2_error or full <= 1.0:
            return max(out.log2_error, out.filled_log2_error)
        # Errors grow as a polynomial of the inputs: their logarithm is convex in that of the size.
        part = min(max(math.log(self._largest) / math.log(full), 0.0), 1.0)
        return out.log2_error + part * (out.filled_log2_error - out.log2_error)

    def _largest_error(self, array: EncryptedArray) -> float:
        """A bound of the errors of a result of the program that was planned."""
        planned = self._planned(array if array.level is not None else self.attach(array))
        known = [out.largest_error for out in planned if out.largest_error is not None]
        # Without `_shares`, inputs were not held to what bounds are for.
        if not known or len(known) < len(planned) or not self._shares:
            raise errors.UnsupportedError(
                "how large the errors of this array can be is not known: release a result of the "
                "program that the context was made for by Context.for_program(..., share_bits=...), "
                "without bootstrapping and with functions of arguments that cannot leave their "
                "intervals, or give a bound as largest_error="
            )
        return max(known)

    def attach(self, array: EncryptedArray) -> EncryptedArray:
        """The same array, to compute with in this context."""
        if self._mode == "simulate":
            raise errors.SimulationError(
                "what is encrypted has no values in simulation: encrypt the data there"
            )
        value = encrypted(array)._value
        own = self.keys.any.key_id
        if value.key_id != own:
            raise errors.KeyMismatchError(
                f"the array was encrypted under the key {value.key_id}, and this context has {own}: "
                "attach it to a context of its own key"
            )
        return EncryptedArray(self, value.attached(self._parameters))

    def load(self, path: str | os.PathLike[str]) -> EncryptedArray:
        """The array that `EncryptedArray.save` wrote."""
        return self.attach(EncryptedArray(None, _native.Array.open(path)))

    def _apply(self, op: Op, operands: list[EncryptedArray | Floats]) -> EncryptedArray:
        native = [x._value if isinstance(x, EncryptedArray) else to_native(x) for x in operands]
        try:
            return EncryptedArray(self, self._engine.apply(op, native, self._callback))
        except (errors.MissingGaloisKeyError, errors.MissingRelinearizationKeyError) as error:
            if not self._inputs:
                raise
            shapes = ", ".join(str(known.shape) for known in self._inputs)
            raise type(error)(
                f"this context has keys for the program that it was planned for, on inputs of the "
                f"shapes {shapes}, and another operation was asked for: plan it for this program, "
                "or use Context(depth=...), which has keys for any"
            ) from None

    def explain(
        self,
        program: Program | None = None,
        shapes: Shapes = (),
        *,
        assume_intervals: bool = False,
    ) -> Explanation:
        """Sizes and security, before any key is made; of a program on arrays of these shapes also
        depth, bootstrappings, memory, time and errors: with `assume_intervals` as for `for_program`."""
        if self._plan is None:
            raise errors.UnsupportedError(
                "a context of given keys has no plan to explain: print its keys, or explain the "
                "context that made them"
            )
        if program is None:
            return Explanation.of(self._plan)
        trace, outputs = record(program, shapes)
        measured = trace.measure(outputs, self._plan, assume_intervals=assume_intervals)
        return Explanation.of(measured)

    @property
    def can_decrypt(self) -> bool:
        """Whether the secret key is here."""
        return self._mode == "execute" and (self._made is None or self._made.can_decrypt)

    def __reduce__(self) -> tuple[Any, ...]:
        if self._mode == "simulate" or self.can_decrypt:
            raise errors.SecretKeyPickleError(
                "this context is its owner's and stays in its process: pickle ctx.for_server() "
                "or single keys"
            )
        return _restore, (self.keys._evaluation, self.keys._public, self._shares)

    def for_server(self) -> Context:
        """The same context without the secret key: it computes, may be pickled, and cannot
        decrypt."""
        return _restore(self.keys.evaluation, self.keys.public, self._shares)

    def __repr__(self) -> str:
        return f"Context({self._mode}, {self._made or 'no keys yet'})"


def expected(key: _Key, digest: str | None) -> _Key:
    """The key, whose file must have this digest, if one is given: public keys have one."""
    if digest is None:
        return key
    if not isinstance(key, PublicKey):
        raise errors.ArgumentError("expect is the digest of a public key: leave it out")
    needed = digest.lower()
    if len(needed) != 64 or any(digit not in "0123456789abcdef" for digit in needed):
        raise errors.ArgumentError(
            f"expect is {digest!r}: give the 64 hexadecimal digits of `PublicKey.digest`"
        )
    if key.digest != needed:
        raise errors.OtherFileError(
            f"the public key has the digest {key.digest}, {needed} was expected: do not use it, and "
            "ask its owner for the right one"
        )
    return key


def _number(value: object, name: str) -> float:
    number = floats(value)
    if number.shape != ():
        raise errors.ArgumentError(f"{name} is {value!r}: give one number")
    return float(number)


def _ranges(
    inputs: int, calibration: object, ranges: Sequence[tuple[float, float] | None] | None
) -> list[tuple[float, float] | None]:
    """The ranges of the inputs of a program, as they are given or read off samples."""
    if calibration is not None and ranges is not None:
        raise errors.ArgumentError("calibration and ranges say the same: give one of them")
    if calibration is not None:
        samples: list[object] = [calibration]
        if inputs != 1 and isinstance(calibration, (list, tuple)):
            samples = list(calibration)
        if len(samples) != inputs:
            raise errors.ArgumentError(
                f"calibration has {len(samples)} samples, but the program has {inputs} inputs: give "
                "an array for each"
            )
        return [_widened(floats(sample)) for sample in samples]
    if ranges is None:
        return [None] * inputs
    if len(ranges) != inputs:
        raise errors.ArgumentError(
            f"ranges has {len(ranges)} entries, but the program has {inputs} inputs: give (low, high) "
            "or None for each"
        )
    return [None if pair is None else _pair(pair) for pair in ranges]


def _pair(pair: object) -> tuple[float, float]:
    ends = floats(pair)
    if ends.shape != (2,) or ends[0] > ends[1]:
        raise errors.ArgumentError(f"a range is {pair!r}: give (low, high), the lower end first")
    return float(ends[0]), float(ends[1])


def _widened(sample: Floats) -> tuple[float, float]:
    """The range of a sample with a margin of half its width, or its size if it is constant."""
    low, high = float(sample.min()), float(sample.max())
    margin = (high - low) / 2 or abs(high) or 1.0
    return low - margin, high + margin


def _restore(
    evaluation: EvaluationKeys | None, public: PublicKey | None, shares: bool
) -> Context:
    context = Context.from_keys(evaluation, public=public)
    context._shares = shares
    return context
