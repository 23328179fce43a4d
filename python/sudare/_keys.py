"""The common part of contexts of real numbers and of integers: their keys."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

from sudare import _native, errors
from sudare._plain import shown, string
from sudare._progress import Progress, callback
from sudare._shown import facts_html

if TYPE_CHECKING:
    from typing_extensions import Self

_P = TypeVar("_P", bound=_native.PublicKey | _native.IntegerPublicKey)
_E = TypeVar("_E", bound=_native.EvaluationKeys | _native.IntegerEvaluationKeys)
_S = TypeVar("_S", bound=_native.SecretKey | _native.IntegerSecretKey)
_K = TypeVar("_K", bound="KeysOf[Any, Any, Any]")
_N = TypeVar("_N", bound=_native.Parameters | _native.IntegerParameters)
_Key = TypeVar("_Key")


class KeysOf(Generic[_P, _E, _S]):
    """The keys of a context, each a value of its own."""

    __slots__ = ("_evaluation", "_public", "_secret")

    _scheme: ClassVar[str] = ""
    """The prefix of class names in messages."""

    def __init__(self, public: _P | None, evaluation: _E | None, secret: _S | None) -> None:
        self._public = public
        self._evaluation = evaluation
        self._secret = secret

    @property
    def public(self) -> _P:
        """Encrypts. You may give it to anybody."""
        if self._public is None:
            raise errors.of_kind(
                "NoPublicKey",
                "this context has no public key, which encrypts: pass "
                f"public={self._scheme}PublicKey.open(...) to {self._scheme}Context.from_keys",
            )
        return self._public

    @property
    def evaluation(self) -> _E:
        """Computes on encrypted arrays. For the server."""
        if self._evaluation is None:
            raise errors.of_kind(
                "MissingRelinearizationKey",
                "this context has no evaluation keys, which compute: pass "
                f"evaluation={self._scheme}EvaluationKeys.open(...) to {self._scheme}Context.from_keys",
            )
        return self._evaluation

    @property
    def secret(self) -> _S:
        """Decrypts. For the owner alone."""
        if self._secret is None:
            raise errors.of_kind(
                "NoSecretKey",
                "this context has no secret key, so it cannot decrypt: send the result to the owner of "
                "the key",
            )
        return self._secret

    @property
    def any(self) -> _P | _E | _S:
        """One of the keys."""
        return self._public or self._evaluation or self.secret

    @property
    def can_decrypt(self) -> bool:
        """True if the secret key is present."""
        return self._secret is not None

    def _facts(self) -> dict[str, str]:
        """Returns the parts of the keys' representation."""
        named = {
            "public": self._public,
            "evaluation": self._evaluation,
            "secret": self._secret,
        }
        return {name: repr(key) for name, key in named.items() if key is not None}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._facts().values())})"

    def _repr_html_(self) -> str:
        return facts_html(type(self).__name__, self._facts())


class ContextOf(Generic[_K, _N, _P, _E, _S]):
    """A context: a plan, or keys that were given."""

    _keys_type: ClassVar[type[Any]]
    _classes: ClassVar[tuple[type[Any], type[Any], type[Any]]]
    """The classes of keys: for evaluation, public, secret."""
    _check_pair: ClassVar[Any]
    _generate: ClassVar[Any]
    _plan: Any
    _started: Any

    def _start(self, plan: Any, progress: Progress, keys: _K | None = None) -> None:
        self._plan = plan
        self._callback = callback(progress)
        self._made = keys
        self._shares = False
        self._started = None
        # Reentrant: an engine starts under this lock, and makes the keys under it.
        self._lock = threading.RLock()

    @classmethod
    def _with(cls, *args: Any) -> Self:
        context = cls.__new__(cls)
        context._start(*args)
        return context

    @classmethod
    def from_keys(
        cls,
        evaluation: _E | None = None,
        *,
        public: _P | None = None,
        secret: _S | None = None,
        expect: str | None = None,
        progress: Progress = None,
    ) -> Self:
        """Makes a context of existing keys. A server has `evaluation`, and perhaps `public`.

        Parameters
        ----------
        evaluation : EvaluationKeys, optional
            The keys that compute.
        public : PublicKey, optional
            The key that encrypts.
        secret : SecretKey, optional
            The key that decrypts.
        expect : str, optional
            The digest of the public key. A public key with another digest is refused.
        progress : callable or bool, optional
            Called as `progress(step, done, total)` in long calls. `True` shows bars of tqdm.
        """
        given = (evaluation, public, secret)
        held = [key for key in given if key is not None]
        if not held:
            raise errors.ArgumentError("a context needs at least one key: pass one")
        for key, kind in zip(given, cls._classes, strict=True):
            if not (key is None or isinstance(key, kind)):
                raise errors.ArgumentError(
                    f"{type(key).__name__} was given as {kind.__name__}: pass keys as "
                    "from_keys(evaluation, public=..., secret=...)"
                )
        for first, key in itertools.combinations(held, 2):
            cls._check_pair(first, key)
        if public is not None:
            expected(public, expect)
        elif expect is not None:
            raise errors.ArgumentError(
                "expect is the digest of a public key, which is missing: pass public=..."
            )
        return cls._with(None, progress, cls._keys_type(public, evaluation, secret))

    @property
    def keys(self) -> _K:
        """The keys. The first call makes them."""
        with self._lock:
            # Two threads that ask at once must get the same keys.
            if self._made is None:
                made: _K = self._keys_type(*type(self)._generate(self._plan, self._callback))
                self._made = made
            return self._made

    def _facts(self) -> dict[str, str]:
        """Returns facts that take no time."""
        keys = {"keys": "none yet: made when you first need them"}
        return {
            "parameters": self._parameters.id,
            **(keys if self._made is None else self._made._facts()),
        }

    def _repr_html_(self) -> str:
        return facts_html(type(self).__name__, self._facts())

    @property
    def _parameters(self) -> _N:
        parameters: _N
        if self._plan is not None:
            parameters = self._plan.parameters
        else:
            assert self._made is not None
            parameters = self._made.any._parameters
        return parameters

    def _planned_for(self) -> Any:
        """Returns the plan, to explain it."""
        if self._plan is None:
            raise errors.UnsupportedError(
                "a context of existing keys has no plan to explain: print its keys, or explain the context "
                "that made them"
            )
        return self._plan

    @property
    def can_decrypt(self) -> bool:
        """True if the secret key is present."""
        # A context without keys makes a secret key with the others.
        return self._made is None or self._made.can_decrypt

    def __reduce__(self) -> tuple[Any, ...]:
        if self.can_decrypt:
            raise errors.of_kind(
                "SecretKeyPickle",
                "this context has a secret key and stays in its process: pickle ctx.for_server() or "
                "single keys",
            )
        return _restore, (type(self), self.keys._evaluation, self.keys._public, self._shares)

    def for_server(self) -> Self:
        """Returns the same context without the secret key. It computes, can be pickled, and cannot
        decrypt."""
        return _restore(type(self), self.keys.evaluation, self.keys.public, self._shares)


class SimulatingContextOf(ContextOf[_K, _N, _P, _E, _S]):
    """A context that encrypts, or runs programs in the clear."""

    _mode: Literal["execute", "simulate"] = "execute"

    @property
    def mode(self) -> Literal["execute", "simulate"]:
        """`execute` or `simulate`."""
        return self._mode

    @property
    def keys(self) -> _K:
        """The keys. The first call makes them."""
        if self._mode == "simulate":
            raise errors.of_kind(
                "Simulation",
                "simulation encrypts nothing, so there are no keys: use mode='execute'",
            )
        return super().keys

    @property
    def can_decrypt(self) -> bool:
        """True if the secret key is present."""
        return self._mode == "execute" and super().can_decrypt

    def __reduce__(self) -> tuple[Any, ...]:
        if self._mode == "simulate":
            raise errors.of_kind(
                "SecretKeyPickle", "a simulation stays in its process: make another one there"
            )
        return super().__reduce__()


_C = TypeVar("_C", bound=ContextOf[Any, Any, Any, Any, Any])


def _restore(cls: type[_C], evaluation: Any, public: Any, shares: bool) -> _C:
    context = cls.from_keys(evaluation, public=public)
    context._shares = shares
    return context


def expected(key: _Key, digest: str | None) -> _Key:
    """Returns the key, whose file must have this digest if one is given."""
    if digest is None:
        return key
    digest = string(digest, "expect")
    if not isinstance(key, _native.PublicKey | _native.IntegerPublicKey):
        raise errors.ArgumentError(
            f"expect is the digest of a public key, and this is a {type(key).__name__}: leave it out"
        )
    needed = digest.lower()
    if len(needed) != 64 or any(digit not in "0123456789abcdef" for digit in needed):
        raise errors.ArgumentError(
            f"expect is {shown(digest)}: pass the 64 hexadecimal digits of `PublicKey.digest`"
        )
    if key.digest != needed:
        raise errors.of_kind(
            "OtherFile",
            f"the public key has the digest {key.digest}, but {needed} was expected: do not use it, and "
            "ask its owner for the right one",
        )
    return key
