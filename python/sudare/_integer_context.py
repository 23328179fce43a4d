"""Contexts of integers: parameters, keys, and what encrypts, computes and decrypts with them."""

from __future__ import annotations

import itertools
import os
import threading
from dataclasses import dataclass
from typing import Any, Literal

from sudare import _native, errors
from sudare._explain import _megabytes
from sudare._integers import EncryptedIntegers, Ints, encrypted, from_native, integers, to_native
from sudare._native import IntegerEvaluationKeys, IntegerPublicKey, IntegerSecretKey
from sudare._plain import whole
from sudare._progress import Progress, callback


@dataclass(frozen=True)
class IntegerBootstrapping:
    """What bootstrapping leaves, takes and promises."""

    levels: int
    """Levels of an array that was bootstrapped."""
    log2_failure: float
    """`log2` of a bound of the probability that one ciphertext becomes wrong."""
    budget_bits: float
    """Bits by which the error of an array that was bootstrapped may grow."""
    seconds: float
    """Predicted time of one ciphertext, with one thread of the machine of docs/performance.md."""
    matrix_bytes: int
    """Bytes of the matrices, which are made when an array is first bootstrapped."""


@dataclass(frozen=True)
class IntegerExplanation:
    """Sizes and security of parameters and keys. Prints as a table."""

    params: str
    """Name of the parameter set; empty for one that was made for a depth."""
    params_id: str
    """Fingerprint of the parameters."""
    scheme: str
    """`bgv` or `bfv`."""
    signed: bool
    """Whether elements decrypt to integers in `(-t/2, t/2]`, not in `[0, t)`."""
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
    """Predicted time of a product of two ciphertexts, with one thread of the machine of
    docs/performance.md; `None` without levels, and for BFV, whose products change bases as well."""
    rotation_seconds: float
    """Predicted time of a rotation of a ciphertext by a power of two, likewise."""
    bootstrapping: IntegerBootstrapping | None
    """What bootstrapping leaves and takes; `None` without."""
    evaluation_keys: int
    """Number of evaluation keys."""
    evaluation_key_bytes: int
    """Bytes of their file."""
    evaluation_key_memory_bytes: int
    """Bytes that they take in memory."""
    ciphertext_bytes: int
    """Bytes of a new ciphertext."""
    reason: str
    """Why the parameters are as they are."""

    def __str__(self) -> str:
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
                f"2^{boot.log2_failure:.1f}, matrices of {_megabytes(boot.matrix_bytes)}"
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
                f"{self.evaluation_keys}, {_megabytes(self.evaluation_key_bytes)} in a file, "
                f"{_megabytes(self.evaluation_key_memory_bytes)} in memory"
            ),
            "ciphertext": _megabytes(self.ciphertext_bytes),
        }
        width = max(map(len, rows))
        return "\n".join(f"{name:{width}}  {value}" for name, value in rows.items())


class IntegerKeys:
    """The keys of a context of integers, each a value of its own."""

    __slots__ = ("_evaluation", "_public", "_secret")

    def __init__(
        self,
        public: IntegerPublicKey | None,
        evaluation: IntegerEvaluationKeys | None,
        secret: IntegerSecretKey | None,
    ) -> None:
        self._public = public
        self._evaluation = evaluation
        self._secret = secret

    @property
    def public(self) -> IntegerPublicKey:
        """Encrypts. May be given to anybody."""
        if self._public is None:
            raise errors.NoPublicKeyError(
                "this context was made without a public key, which encrypts: pass "
                "public=IntegerPublicKey.open(...) to IntegerContext.from_keys"
            )
        return self._public

    @property
    def evaluation(self) -> IntegerEvaluationKeys:
        """Computes on encrypted arrays. For the server."""
        if self._evaluation is None:
            raise errors.MissingRelinearizationKeyError(
                "this context was made without evaluation keys, which compute: pass "
                "evaluation=IntegerEvaluationKeys.open(...) to IntegerContext.from_keys"
            )
        return self._evaluation

    @property
    def secret(self) -> IntegerSecretKey:
        """Decrypts. For the owner alone."""
        if self._secret is None:
            raise errors.NoSecretKeyError(
                "this context has no secret key, so it cannot decrypt: send the result to the "
                "owner of the key"
            )
        return self._secret

    @property
    def any(self) -> IntegerPublicKey | IntegerEvaluationKeys | IntegerSecretKey:
        """One of them."""
        return self._public or self._evaluation or self.secret

    @property
    def can_decrypt(self) -> bool:
        """Whether the secret key is among them."""
        return self._secret is not None

    def __repr__(self) -> str:
        held = [key for key in (self._public, self._evaluation, self._secret) if key is not None]
        return f"IntegerKeys({', '.join(map(repr, held))})"


class IntegerContext:
    """Everything that computes exactly with arrays of integers modulo `t` under one key.

    `IntegerContext(t, depth)` is for programs of up to `depth` products one after the other, in the
    smallest ring of 128 bits of security. Products with plain arrays and matrices count. Before each
    product there is room for a sum of 16 arrays, or a product with a scalar of up to 16 in size,
    and after the last for a sum of up to 2^18 elements; a larger sum before a product counts, too.
    `t` is a prime, or a power of one, with slots: best one that is 1 modulo twice the degree of the
    ring, such as 65537 and 786433, which has as many slots as a ciphertext has coefficients. An
    error names primes near `t` that do.

    With `bootstrap=True` programs may be of any depth, at gigabytes of keys: an operation that finds
    too few levels bootstraps its operands first. `depth`, if it is given, is then that of the longest
    step between two bootstrappings. There are sets for the moduli 65537, 786433 and 4293918721 with
    all slots, and for 257, its square and its cube with 128; for other primes of up to 50 bits and
    their powers one is made, if a ring has room.

    Elements are from `-(t // 2)` to `t // 2`, or with `signed=False` from 0 to `t - 1`, and results
    are reduced to that range. `scheme` is `"bgv"`, whose products are faster, or `"bfv"`, whose
    products do not depend on how large errors are.

    Keys are made when they are first needed: `explain` says before how large they are. `progress`
    is called as `progress(step, done, total)` in long calls; `True` shows bars of tqdm where it is
    installed. Contexts may be shared between threads.
    """

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
        if depth is None and not bootstrap:
            raise errors.InvalidSpecError(
                "depth is missing: name the products that a program has one after the other, such "
                "as IntegerContext(t=65537, depth=3), or write bootstrap=True"
            )
        modulus, levels = whole(t, "t", 2, 2**62 - 1), whole(depth or 0, "depth")
        make = _native.IntegerPlan.bootstrapping if bootstrap else _native.IntegerPlan.leveled
        self._init(make(modulus, levels, _scheme(scheme), bool(signed)), progress)

    def _init(
        self,
        plan: _native.IntegerPlan | None,
        progress: Progress,
        keys: IntegerKeys | None = None,
    ) -> None:
        self._plan = plan
        self._callback = callback(progress)
        self._made = keys
        self._started: _native.IntegerEngine | None = None
        self._lock = threading.RLock()

    @classmethod
    def _of(cls, *args: Any) -> IntegerContext:
        context = cls.__new__(cls)
        context._init(*args)
        return context

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
        """A context with the parameters of this name: `sudare params` lists them, those with
        bootstrapping among them.

        `insecure_log_n` asks for the same in a ring of degree `2**insecure_log_n`, without security,
        for tests. A context that encrypts with less than 128 bits of security warns of that:
        `sudare.errors.SecurityWarning`.
        """
        if insecure_log_n is not None:
            insecure_log_n = whole(insecure_log_n, "insecure_log_n")
        if not isinstance(name, str):
            raise errors.ArgumentError(
                f"the name of a preset is {name!r}: give a string, such as 'n14-t65537'"
            )
        plan = _native.IntegerPlan.preset(name, _scheme(scheme), bool(signed), insecure_log_n)
        plan.parameters.warn_if_insecure(2)
        return cls._of(plan, progress)

    @classmethod
    def from_keys(
        cls,
        evaluation: IntegerEvaluationKeys | None = None,
        *,
        public: IntegerPublicKey | None = None,
        secret: IntegerSecretKey | None = None,
        progress: Progress = None,
    ) -> IntegerContext:
        """A context with keys that there are: a server has `evaluation` and perhaps `public`."""
        held = [key for key in (evaluation, public, secret) if key is not None]
        if not held:
            raise errors.InvalidSpecError("a context needs at least one key: pass one")
        kinds = (IntegerEvaluationKeys, IntegerPublicKey, IntegerSecretKey)
        for key, kind in zip((evaluation, public, secret), kinds, strict=True):
            if not (key is None or isinstance(key, kind)):
                raise errors.WrongKindError(
                    f"a {type(key).__name__} was given as {kind.__name__}: name keys as "
                    "from_keys(evaluation, public=..., secret=...) has them"
                )
        for first, key in itertools.combinations(held, 2):
            _native.check_integer_pair(first, key)
        return cls._of(None, progress, IntegerKeys(public, evaluation, secret))

    @property
    def keys(self) -> IntegerKeys:
        """The keys, made now if there are none yet."""
        with self._lock:
            if self._made is None:
                assert self._plan is not None
                self._made = IntegerKeys(
                    *_native.generate_integer_keys(self._plan, self._callback)
                )
            return self._made

    @property
    def _parameters(self) -> _native.IntegerParameters:
        if self._plan is not None:
            return self._plan.parameters
        assert self._made is not None
        return self._made.any._parameters

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
        """Integers in a ciphertext, in two rows of half as many."""
        return self._parameters.slots

    @property
    def scheme(self) -> str:
        """`bgv` or `bfv`."""
        return self._parameters.scheme

    @property
    def signed(self) -> bool:
        """Whether elements decrypt to integers in `(-t/2, t/2]`, not in `[0, t)`."""
        return self._parameters.signed

    def encrypt(self, values: object) -> EncryptedIntegers:
        """An array of integers, encrypted. They must be in the range of the context."""
        words = to_native(integers(values))
        return EncryptedIntegers(
            self, _native.encrypt_integers(self.keys.public, words, self._callback)
        )

    def decrypt(self, array: EncryptedIntegers) -> Ints:
        """The values of an array, exactly: for the owner of the secret key."""
        return from_native(_native.decrypt_integers(self.keys.secret, encrypted(array)._value))

    def noise_budget(self, array: EncryptedIntegers) -> float:
        """The bits by which the errors in an array could grow before it does not decrypt.

        It is measured with the secret key and depends on it: for its owner alone. What may be
        computed is known without, and refused in time.
        """
        return _native.integer_noise_budget(self.keys.secret, encrypted(array)._value)

    def bootstrap(self, array: EncryptedIntegers) -> EncryptedIntegers:
        """The same array with as many levels as bootstrapping leaves: for contexts made to
        bootstrap.

        Operations do so by themselves where they find too few levels. It is for choosing when, such
        as before several results are computed from one array. An array remembers what it becomes, so
        that it is bootstrapped once.
        """
        value = encrypted(array)._value
        return EncryptedIntegers(self, self._engine.bootstrap(value, self._callback))

    def attach(self, array: EncryptedIntegers) -> EncryptedIntegers:
        """The same array, to compute with in this context, whose key it must have."""
        return EncryptedIntegers(self, encrypted(array)._value.attached(self.keys.any))

    def load(self, path: str | os.PathLike[str]) -> EncryptedIntegers:
        """The array that `EncryptedIntegers.save` wrote."""
        return self.attach(EncryptedIntegers(None, _native.Integers.open(path)))

    def explain(self) -> IntegerExplanation:
        """Sizes, security and predicted seconds, before any key is made. With bootstrapping that
        takes seconds itself."""
        if self._plan is None:
            raise errors.UnsupportedError(
                "a context of given keys has no plan to explain: print its keys, or explain the "
                "context that made them"
            )
        report = self._plan.report()
        boot = report.pop("bootstrapping")
        bootstrapping = None if boot is None else IntegerBootstrapping(**boot)
        return IntegerExplanation(bootstrapping=bootstrapping, **report)

    @property
    def can_decrypt(self) -> bool:
        """Whether the secret key is here."""
        return self._made is None or self._made.can_decrypt

    def __reduce__(self) -> tuple[Any, ...]:
        if self.can_decrypt:
            raise errors.SecretKeyPickleError(
                "this context is its owner's and stays in its process: pickle ctx.for_server() "
                "or single keys"
            )
        return _restore, (self.keys._evaluation, self.keys._public)

    def for_server(self) -> IntegerContext:
        """The same context without the secret key: it computes, may be pickled, and cannot
        decrypt."""
        return _restore(self.keys.evaluation, self.keys.public)

    def __repr__(self) -> str:
        return f"IntegerContext({self.scheme}, t={self.t}, {self._made or 'no keys yet'})"


def _scheme(name: object) -> str:
    """The name of a scheme, which native code then looks up."""
    if not isinstance(name, str):
        raise errors.ArgumentError(f"scheme is {name!r}: give 'bgv' or 'bfv'")
    return name


def _restore(
    evaluation: IntegerEvaluationKeys | None, public: IntegerPublicKey | None
) -> IntegerContext:
    return IntegerContext.from_keys(evaluation, public=public)
