"""Contexts of integers: parameters and keys, to encrypt, compute and decrypt with."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from sudare import _native, errors
from sudare._encrypted import natives
from sudare._integers import (
    _MOST,
    EncryptedBooleans,
    EncryptedIntegers,
    _is_mask,
    _OfRange,
    integers,
)
from sudare._keys import ContextOf, KeysOf
from sudare._native import IntegerEvaluationKeys, IntegerPublicKey, IntegerSecretKey, Op
from sudare._plain import array_of, flag, items, optional, path_of, shown, string, whole
from sudare._progress import Progress
from sudare._shown import Facts, megabytes


@dataclass(frozen=True)
class IntegerBootstrapping:
    """The levels, the cost and the failure probability of bootstrapping."""

    levels: int
    """Levels of a bootstrapped array."""
    log2_failure: float
    """`log2` of a bound on the probability that one ciphertext becomes wrong."""
    budget_bits: float
    """Bits by which the error of a bootstrapped array may grow."""
    seconds: float
    """Predicted time of one ciphertext, on one thread of the machine of docs/performance.md."""
    matrix_bytes: int
    """Bytes of the matrices, which the first bootstrapping makes."""


@dataclass(frozen=True)
class IntegerExplanation(Facts):
    """Sizes and security of parameters and keys. Prints as a table."""

    params: str
    """Name of the parameter set; empty for parameters that were made for a depth."""
    params_id: str
    """Fingerprint of the parameters."""
    scheme: str
    """`bgv` or `bfv`."""
    signed: bool
    """True if elements decrypt to integers in `(-t/2, t/2]`, and false for `[0, t)`."""
    t: int
    """The modulus of the integers."""
    log_n: int
    """`log2` of the degree of the ring."""
    slots: int
    """Integers in a ciphertext."""
    levels: int
    """Levels of new arrays: products that can be computed one after the other."""
    log2_qp: float
    """`log2` of the largest modulus of a key."""
    security_bits: float
    """Security of the weakest key."""
    product_seconds: float | None
    """Predicted time of a product of two ciphertexts, on one thread of the machine of
    docs/performance.md; `None` without levels, and for BFV, whose products also change bases."""
    rotation_seconds: float
    """Predicted time of a rotation of a ciphertext by a power of two, on the same thread."""
    bootstrapping: IntegerBootstrapping | None
    """Facts about bootstrapping; `None` without it."""
    evaluation_keys: int
    """Number of evaluation keys."""
    evaluation_key_bytes: int
    """Bytes of the file of evaluation keys."""
    evaluation_key_memory_bytes: int
    """Bytes of the evaluation keys in memory."""
    ciphertext_bytes: int
    """Bytes of a new ciphertext."""
    reason: str
    """The reason for these parameters."""

    def _facts(self) -> dict[str, str]:
        boot = self.bootstrapping
        # Moduli with slots are odd.
        least, most = (-(self.t // 2), self.t // 2) if self.signed else (0, self.t - 1)
        rows = {
            "parameters": f"{self.params or 'sized to measure'} ({self.params_id})",
            "scheme": self.scheme.upper(),
            "integers": f"modulo {self.t}, from {least} to {most}",
            "ring": f"N = 2^{self.log_n}, {self.slots} slots in 2 rows",
            "security": f"{self.security_bits:.1f} bits at log2 QP {self.log2_qp:.0f}",
            "levels": f"{self.levels}",
            "bootstrapping": (
                "none"
                if boot is None
                else f"{boot.levels} levels each time, fails with probability "
                f"2^{boot.log2_failure:.1f}, matrices of {megabytes(boot.matrix_bytes)}"
            ),
            "predicted": ", ".join(
                f"{seconds:.2g} s a {what}"
                for what, seconds in (
                    ("product", self.product_seconds),
                    ("rotation", self.rotation_seconds),
                    ("bootstrapping", None if boot is None else boot.seconds),
                )
                if seconds is not None
            ),
            "evaluation keys": (
                f"{self.evaluation_keys}, {megabytes(self.evaluation_key_bytes)} in a file, "
                f"{megabytes(self.evaluation_key_memory_bytes)} in memory"
            ),
            "ciphertext": megabytes(self.ciphertext_bytes),
        }
        return rows


class IntegerKeys(KeysOf[IntegerPublicKey, IntegerEvaluationKeys, IntegerSecretKey]):
    """The keys of a context of integers, each a value of its own."""

    __slots__ = ()

    _scheme = "Integer"


class IntegerContext(
    ContextOf[
        IntegerKeys,
        _native.IntegerParameters,
        IntegerPublicKey,
        IntegerEvaluationKeys,
        IntegerSecretKey,
    ]
):
    """Computes exactly with encrypted arrays of integers modulo `t` under one key.

    `IntegerContext(t, depth)` is for programs of up to `depth` products one after the other, in the
    smallest ring with 128 bits of security. Products with plain arrays and matrices count. Before each
    product there is room for a sum of 16 arrays, or a product with a scalar of up to 16 in magnitude, and
    after the last for a sum of up to 2^18 elements. A larger sum before a product counts, too.

    With `bootstrap=True` programs may be of any depth, with gigabytes of keys: an operation that finds
    too few levels bootstraps its operands first. There are sets for the moduli 65537, 786433 and
    4293918721 with all slots, and for 257, its square and its cube with 128. For other primes of up to 50
    bits and their powers the context makes a set, if a ring has room.

    The context makes its keys when you first need them: `explain` says before how large they are.
    Contexts may be shared between threads.

    Parameters
    ----------
    t : int, default 65537
        The modulus: a prime, or a power of a prime, that has slots. The best moduli are 1 modulo twice the
        degree of the ring, such as 65537 and 786433: they have one slot for each coefficient
        of a ciphertext. An error names such primes near `t`.
    depth : int, optional
        The maximum number of products one after the other. With `bootstrap`, of the longest step between
        two bootstrappings. Required without `bootstrap`.
    bootstrap : bool, default False
        Whether programs may be of any depth.
    scheme : {"bgv", "bfv"}, default "bgv"
        `"bgv"` has faster products. The products of `"bfv"` do not depend on the size of errors.
    signed : bool, default True
        Whether elements are from `-(t // 2)` to `t // 2`, or from 0 to `t - 1`. Results are reduced to
        that range.
    progress : callable or bool, optional
        Called as `progress(step, done, total)` in long calls. `True` shows bars of tqdm.
    """

    _keys_type = IntegerKeys
    _classes = (IntegerEvaluationKeys, IntegerPublicKey, IntegerSecretKey)
    _check_pair: ClassVar[Any] = staticmethod(_native.check_integer_pair)
    _generate: ClassVar[Any] = staticmethod(_native.generate_integer_keys)
    _started: _native.IntegerEngine | None

    def __init__(
        self,
        t: int = 65537,
        depth: int | None = None,
        *,
        bootstrap: bool = False,
        scheme: Literal["bgv", "bfv"] = "bgv",
        signed: bool = True,
        progress: Progress = None,
    ) -> None:
        bootstrap = flag(bootstrap, "bootstrap")
        if depth is None and not bootstrap:
            raise errors.ArgumentError(
                "depth is missing: pass the number of products one after the other, such as "
                "IntegerContext(t=65537, depth=3), or bootstrap=True"
            )
        modulus = whole(t, "t", 2, 2**62 - 1)
        levels = optional(whole, depth, "depth") or 0
        make = _native.IntegerPlan.bootstrapping if bootstrap else _native.IntegerPlan.leveled
        self._start(
            make(modulus, levels, string(scheme, "scheme"), flag(signed, "signed")), progress
        )

    @classmethod
    def preset(
        cls,
        name: str,
        *,
        scheme: Literal["bgv", "bfv"] = "bgv",
        signed: bool = True,
        progress: Progress = None,
        insecure_log_n: int | None = None,
    ) -> IntegerContext:
        """Makes a context with named parameters.

        A context that encrypts with less than 128 bits of security warns: `sudare.errors.SecurityWarning`.

        Parameters
        ----------
        name : str
            A name that `sudare params` lists.
        scheme : {"bgv", "bfv"}, default "bgv"
            The scheme.
        signed : bool, default True
            Whether elements may be negative.
        progress : callable or bool, optional
            Called as `progress(step, done, total)` in long calls. `True` shows bars of tqdm.
        insecure_log_n : int, optional
            For tests: `log2` of the degree of another ring, without security.
        """
        plan = _native.IntegerPlan.preset(
            string(name, "name"),
            string(scheme, "scheme"),
            flag(signed, "signed"),
            optional(whole, insecure_log_n, "insecure_log_n"),
        )
        plan.parameters.warn_if_insecure(2)
        return cls._with(plan, progress)

    @property
    def _engine(self) -> _native.IntegerEngine:
        with self._lock:
            if self._started is None:
                self._started = _native.IntegerEngine.execute(self.keys.evaluation)
            return self._started

    @property
    def t(self) -> int:
        """The modulus of the integers."""
        return self._parameters.t

    @property
    def slots(self) -> int:
        """Integers in a ciphertext, in two rows of half that number."""
        return self._parameters.slots

    @property
    def scheme(self) -> str:
        """`bgv` or `bfv`."""
        return self._parameters.scheme

    @property
    def signed(self) -> bool:
        """True if elements decrypt to integers in `(-t/2, t/2]`, and false for `[0, t)`."""
        return self._parameters.signed

    def encrypt(
        self, values: object, *, low: int | None = None, high: int | None = None
    ) -> EncryptedIntegers:
        """Encrypts an array of integers, which must lie in the range of the context.

        The array knows a range of its elements, which is public. Without `high`, it is read off the values,
        and its ends move outward: to 0, to `-2**k` or to `2**k - 1`. Comparisons and tables are faster on
        smaller ranges.

        Parameters
        ----------
        values : array_like
            Integers, or booleans, which become 0 and 1: `astype(bool)` makes an encrypted mask of them.
        low, high : int, optional
            The range that you declare, with `low=0` by default. Values outside it are refused.
        """
        numbers = integers(values)
        declared = None
        if high is not None:
            ends = 0 if low is None else low, high
            declared = (whole(ends[0], "low", -_MOST, _MOST), whole(ends[1], "high", -_MOST, _MOST))
        elif low is not None:
            raise errors.ArgumentError(f"low is {shown(low)} without high: pass both")
        value = _native.encrypt_integers(self.keys.public, numbers, declared, self._callback)
        return EncryptedIntegers(self, value)

    def decrypt(self, array: EncryptedIntegers) -> npt.NDArray[Any]:
        """Decrypts an array exactly: for the owner of the secret key."""
        array = EncryptedIntegers._of(array)
        return _native.decrypt_integers(self.keys.secret, array._value).astype(
            array.dtype, copy=False
        )

    def table(self, x: EncryptedIntegers, f: object) -> EncryptedIntegers:
        """Returns any function of each element; see `tables`."""
        return self.tables(x, [f])[0]

    def tables(self, x: EncryptedIntegers, functions: Sequence[object]) -> list[EncryptedIntegers]:
        """Returns several functions of each element, which together cost less than one after the other.

        The functions are polynomials on the known range of the elements, `x.low` to `x.high`, which may have
        up to 4096 integers. A range of `n` integers takes `ceil(log2(n))` levels. The machine that computes
        knows the functions, but not the elements.

        Parameters
        ----------
        x : EncryptedIntegers
            An array of this context.
        functions : sequence
            Each is a function of an integer, or an array with the value for each integer of the range, from
            `x.low` on. Values are integers or booleans.

        Returns
        -------
        list of EncryptedIntegers
            One array for each function, of booleans if all its values are.
        """
        x = EncryptedIntegers._of(x)
        points = self._engine.points(x._attached)
        values = [_values(f, points) for f in items(functions, "functions", "a list of functions")]
        if not values:
            raise errors.ArgumentError("functions is empty: pass one or more")
        words = [integers(found) for found in values]
        arrays = self._engine.tables(x._attached, words, self._callback)
        kinds = [
            EncryptedBooleans if found.dtype.kind == "b" else EncryptedIntegers for found in values
        ]
        return [kind(self, array) for kind, array in zip(kinds, arrays, strict=True)]

    def noise_budget(self, array: EncryptedIntegers) -> float:
        """Measures the bits by which the errors in an array may still grow.

        The measurement depends on the secret key: it is for the owner alone. Operations do not need it to
        refuse results that would not decrypt.
        """
        array = EncryptedIntegers._of(array)
        return _native.integer_noise_budget(self.keys.secret, array._value)

    def bootstrap(self, array: EncryptedIntegers) -> EncryptedIntegers:
        """Returns the same array with the levels that bootstrapping leaves.

        The context must be made with `bootstrap=True`. Operations bootstrap automatically where they find
        too few levels. Call this to choose the moment, such as before several results are computed from one
        array. An array remembers its bootstrapped form, so it is bootstrapped once.
        """
        array = EncryptedIntegers._of(array)
        return array._like(self._apply(Op.bootstrap(), [array])._value)

    def attach(self, array: EncryptedIntegers) -> EncryptedIntegers:
        """Returns the same array, to compute with in this context, whose key it must have."""
        value = EncryptedIntegers._of(array)._value
        attached = EncryptedIntegers(self, value.attached(self.keys.any))
        if not isinstance(array, EncryptedBooleans):
            return attached
        if not _is_mask(attached):
            raise errors.DtypeError(
                f"the file has integers from {attached.low} to {attached.high}, but booleans were expected: read "
                "it with sudare.EncryptedIntegers.from_bytes"
            )
        return attached.astype(bool)

    def load(self, path: str | os.PathLike[str]) -> EncryptedIntegers:
        """Opens an array that `EncryptedIntegers.save` wrote."""
        return self.attach(EncryptedIntegers(None, _native.Integers.open(path_of(path))))

    def _apply(self, op: Op, operands: list[Any]) -> EncryptedIntegers:
        value = self._engine.apply(op, natives(operands), self._callback)
        return EncryptedIntegers(self, value)

    def explain(self) -> IntegerExplanation:
        """Returns sizes, security and predicted seconds, before any key is made.

        With bootstrapping that itself takes seconds.
        """
        report = self._planned_for().report()
        boot = report.pop("bootstrapping")
        bootstrapping = None if boot is None else IntegerBootstrapping(**boot)
        return IntegerExplanation(bootstrapping=bootstrapping, **report)

    def _facts(self) -> dict[str, str]:
        facts = {"scheme": self.scheme.upper(), "modulus": str(self.t)}
        return {**facts, **super()._facts()}

    def __repr__(self) -> str:
        return f"IntegerContext({self.scheme}, t={self.t}, {self._made or 'no keys yet'})"


def _values(f: Any, points: list[int]) -> npt.NDArray[Any]:
    """Returns the values of a table at its points."""
    if isinstance(f, _OfRange):
        return np.asarray(f.f(np.array(points)))
    found = array_of([f(x) for x in points] if callable(f) else f)
    if found.shape != (len(points),):
        raise errors.ShapeError(
            f"a table has the shape {found.shape}, but elements are from {points[0]} to {points[-1]}: pass a "
            f"function of an integer, or one value for each of these {len(points)} integers"
        )
    return found
