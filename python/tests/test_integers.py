"""Compares encrypted integers with NumPy's, reduced modulo t."""

from __future__ import annotations

import copy
import pickle
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import sudare
from sudare import errors

T = 7681
quick = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
values = st.integers(-(T // 2), T // 2)
shapes = hnp.array_shapes(min_dims=0, max_dims=3, max_side=7)


def toy(
    scheme: Literal["bgv", "bfv"] = "bgv", *, signed: bool = True
) -> sudare.IntegerContext:
    """256 slots modulo 7681 and 4 levels, which secure nothing."""
    return sudare.IntegerContext.preset("toy-n8", scheme=scheme, signed=signed)


@pytest.fixture(scope="module", params=["bgv", "bfv"])
def ctx(request: pytest.FixtureRequest) -> sudare.IntegerContext:
    """An owner's context with keys."""
    return toy(request.param)


@pytest.fixture(scope="module")
def stranger() -> sudare.IntegerContext:
    """Another owner's context under the same parameters."""
    return toy()


def reduced(expected: Any, t: int = T) -> Any:
    """In the range of signed contexts."""
    residues = np.mod(np.asarray(expected, dtype=object), t)
    return np.where(residues > t // 2, residues - t, residues).astype(np.int64)


def same(context: sudare.IntegerContext, found: Any, expected: Any) -> None:
    """`found` decrypts to `expected`, modulo t."""
    assert isinstance(found, sudare.EncryptedIntegers)
    decrypted = context.decrypt(found)
    assert found.shape == decrypted.shape == np.shape(expected)
    assert decrypted.dtype == np.int64
    np.testing.assert_array_equal(decrypted, reduced(expected, context.t))


OPERATIONS: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: b - a,
    lambda a, b: a * b,
    lambda a, b: b * a,
    lambda a, b: np.add(a, b),
    lambda a, b: np.subtract(b, a),
    lambda a, b: np.multiply(a, b),
    lambda a, b: -a * b + a,
]


@quick
@given(shape=shapes, data=st.data())
@pytest.mark.parametrize("plain", [False, True])
def test_arithmetic_is_that_of_numpy(
    ctx: sudare.IntegerContext, plain: bool, shape: tuple[int, ...], data: st.DataObject
) -> None:
    a, b = (data.draw(hnp.arrays(np.int64, shape, elements=values)) for _ in range(2))
    operation = data.draw(st.sampled_from(OPERATIONS))
    other = b if plain else ctx.encrypt(b)
    same(ctx, operation(ctx.encrypt(a), other), operation(a, b))


@quick
@given(shape=shapes, data=st.data())
def test_plain_operands_and_scalars_are_broadcast(
    ctx: sudare.IntegerContext, shape: tuple[int, ...], data: st.DataObject
) -> None:
    a = data.draw(hnp.arrays(np.int64, shape, elements=values))
    row = data.draw(hnp.arrays(np.int64, shape[-1:], elements=values))
    scalar = data.draw(st.integers(1 - T, T - 1))
    x = ctx.encrypt(a)
    same(ctx, x + row, a + row)
    same(ctx, row * x, row * a)
    same(ctx, scalar * x - scalar, scalar * a - scalar)
    one = ctx.encrypt(int(reduced(scalar)))
    same(ctx, one * x, scalar * a)
    same(ctx, one - x, scalar - a)
    same(ctx, x.sum(), a.sum())
    same(ctx, np.sum(x + 1), (a + 1).sum())


@quick
@given(columns=st.integers(0, 7), stack=st.integers(1, 2), k=st.integers(-300, 300))
def test_rows_are_rolled_and_flipped(
    ctx: sudare.IntegerContext, columns: int, stack: int, k: int
) -> None:
    width = 2**columns
    shape = (stack, 2, width) if width == 128 else (2, width)
    a = np.arange(np.prod(shape)).reshape(shape)
    x = ctx.encrypt(a)
    same(ctx, x.rotate(k), np.roll(a, -k, axis=-1))
    same(ctx, x.swap_rows(), np.flip(a, axis=-2))


@quick
@given(sizes=st.tuples(st.integers(1, 6), st.integers(1, 9), st.integers(1, 4)), data=st.data())
def test_plain_matrices_are_multiplied(
    ctx: sudare.IntegerContext, sizes: tuple[int, int, int], data: st.DataObject
) -> None:
    m, n, k = sizes
    a = data.draw(hnp.arrays(np.int64, (m, n), elements=values))
    b = data.draw(hnp.arrays(np.int64, (n, k), elements=values))
    same(ctx, a @ ctx.encrypt(b), a @ b)
    same(ctx, ctx.encrypt(a) @ b, a @ b)
    same(ctx, np.matmul(a, ctx.encrypt(b[:, 0])), a @ b[:, 0])
    same(ctx, ctx.encrypt(b[:, 0]).dot(b), b[:, 0] @ b)
    same(ctx, ctx.encrypt(b[:, 0]) @ ctx.encrypt(b[:, -1]), b[:, 0] @ b[:, -1])
    same(ctx, np.dot(ctx.encrypt(a), 3), a * 3)


@quick
@given(coeffs=st.lists(values, min_size=1, max_size=15), data=st.data())
def test_polynomials_and_powers(
    ctx: sudare.IntegerContext, coeffs: list[int], data: st.DataObject
) -> None:
    a = data.draw(hnp.arrays(np.int64, 5, elements=values)).astype(object)
    x = ctx.encrypt(a.astype(np.int64))
    same(ctx, x.polynomial(coeffs), sum(c * a**n for n, c in enumerate(coeffs)) + 0 * a)
    exponent = data.draw(st.integers(1, 16))
    same(ctx, x**exponent, a**exponent)
    same(ctx, np.square(x), a * a)
    same(ctx, x.square().square(), a**4)


def test_arrays_of_any_size(ctx: sudare.IntegerContext) -> None:
    a = np.arange(600).reshape(3, 200)
    x = ctx.encrypt(a)
    assert repr(x).startswith("EncryptedIntegers(shape=(3, 200), level=4, 3 ciphertexts, ")
    same(ctx, (x * x).sum(), (a * a).sum())
    same(ctx, x.reshape(4, -1), a.reshape(4, -1))
    same(ctx, np.ravel(x), a.ravel())
    assert (len(x), x.ndim, x.size, np.shape(x)) == (3, 2, 600, (3, 200))
    with pytest.raises(errors.ShapeError):
        x.reshape(7, 7)
    with pytest.raises(errors.ShapeError):
        len(x.sum())


def test_unsigned_integers() -> None:
    context = toy(signed=False)
    x = context.encrypt([0, 5, T - 1])
    np.testing.assert_array_equal(context.decrypt(x - 6), [T - 6, T - 1, T - 7])
    with pytest.raises(errors.OutsideRangeError, match="from 0 to 7680"):
        context.encrypt([-1])
    assert not context.signed and toy().signed


def test_values_out_of_range_are_refused(ctx: sudare.IntegerContext) -> None:
    x = ctx.encrypt([T // 2, -(T // 2)])
    with pytest.raises(errors.OutsideRangeError, match="value 1 is 3841"):
        ctx.encrypt([0, T // 2 + 1])
    refused: list[Callable[[], object]] = [
        lambda: ctx.encrypt(2**70),
        lambda: ctx.encrypt(np.uint64(2**64 - 1)),
        lambda: ctx.encrypt([-(2**63)]),
        lambda: ctx.encrypt([2**63, -1]),
        lambda: x * 2**100,
        lambda: x + T,
        lambda: x * [1, -T],
        lambda: x.polynomial([0, T]),
        lambda: [T, 0] @ x,
    ]
    for attempt in refused:
        with pytest.raises(errors.OutsideRangeError):
            attempt()
    objects = np.array([np.int64(2), np.uint8(3), 4, True], dtype=object)
    same(ctx, ctx.encrypt(objects), [2, 3, 4, 1])
    for values in (1.5, [0.0], ["1"], [None], 1j, [1, 2.0], [2**70, 1.5]):
        with pytest.raises(errors.DtypeError):
            ctx.encrypt(values)
        with pytest.raises(errors.DtypeError):
            x + values
    with pytest.raises(errors.ShapeError):
        ctx.encrypt([])
    with pytest.raises(errors.ShapeError):
        ctx.encrypt([[1], [2, 3]])


def test_exhausted_depth_is_refused(ctx: sudare.IntegerContext) -> None:
    x = ctx.encrypt([3, -4])
    y = x**16
    assert y.level == 0
    budget = ctx.noise_budget(y)
    assert 0 < budget < ctx.noise_budget(x)
    same(ctx, y + y, 2 * np.array([3, -4], dtype=object) ** 16)
    refused: list[Callable[[], object]] = [
        lambda: y * y,
        lambda: y * [1, 2],
        lambda: y.square(),
        lambda: x**17,
        lambda: x.polynomial([0] * 16 + [1]),
        lambda: [[1, 2]] @ y,
    ]
    for attempt in refused:
        with pytest.raises(errors.LevelExhaustedError, match="level"):
            attempt()
    # An operation without a level may still exceed the error budget.
    z = y
    with pytest.raises(errors.LevelExhaustedError, match="bootstrap"):
        for _ in range(60):
            z = z + z


def test_a_sum_of_many_goes_on(ctx: sudare.IntegerContext) -> None:
    a = np.arange(-128, 128)
    x = ctx.encrypt(a)
    variance = 256 * (x * x).sum() - x.sum() ** 2
    same(ctx, variance, 256 * (a * a).sum() - a.sum() ** 2)


def test_what_is_no_arithmetic_is_refused(ctx: sudare.IntegerContext) -> None:
    x = ctx.encrypt(np.arange(6).reshape(2, 3))
    refused: list[Callable[[], Any]] = [
        lambda: x / 2,
        lambda: x // 2,
        lambda: x % 5,
        lambda: 2**x,
        lambda: int(x),
        lambda: bool(x),
        lambda: x[0],
        lambda: list(x),
        lambda: np.array(x),
        lambda: np.median(x),
        lambda: np.add(x, x, where=False),
        lambda: np.sqrt(x),
        lambda: np.sum(x, axis=0),
        lambda: ctx.decrypt(np.arange(3)),  # type: ignore[arg-type]
    ]
    for attempt in refused:
        with pytest.raises(errors.UnsupportedError):
            attempt()
    with pytest.raises(errors.ShapeError, match=r"\(2, c\).*\(…, 2, 128\)"):
        x.rotate(1)
    with pytest.raises(errors.ArgumentError, match="repeated"):
        x + ctx.encrypt([1, 2, 3])
    with pytest.raises(errors.ShapeError):
        x + [1, 2]
    with pytest.raises(errors.ShapeError):
        x @ np.ones((2, 3), dtype=int)
    for exponent in (0, -1, 1.5, "2"):
        with pytest.raises(errors.ArgumentError):
            x**exponent
    with pytest.raises(errors.ShapeError):
        x.polynomial(3)


@pytest.mark.parametrize("t", [2, 127, 2**16])
def test_a_modulus_without_slots_names_primes(t: int) -> None:
    with pytest.raises(errors.ParametersError, match="such as .*65537"):
        sudare.IntegerContext(t=t, depth=1)


def test_a_public_key_is_the_expected_one(ctx: sudare.IntegerContext) -> None:
    public = ctx.keys.public
    assert sudare.IntegerContext.from_keys(public=public, expect=public.digest.upper())
    with pytest.raises(errors.WrongFileError, match=f"{'0' * 64} was expected") as caught:
        sudare.IntegerContext.from_keys(public=public, expect="0" * 64)
    assert caught.value.kind == "OtherFile"


def test_other_parameters_are_refused() -> None:
    with pytest.raises(errors.ParametersError, match="1001 is neither.*65537"):
        sudare.IntegerContext(t=1001, depth=1)
    with pytest.raises(errors.ArgumentError, match="depth"):
        sudare.IntegerContext(65537)
    with pytest.raises(errors.ParametersError, match=r"at most \d+"):
        sudare.IntegerContext(65537, 500)
    with pytest.raises(errors.ParametersError, match="neither"):
        sudare.IntegerContext(65537, 1, scheme="ckks")  # type: ignore[arg-type]
    for t in (0, 1, -5, 2**62, 2.5):
        with pytest.raises(errors.ArgumentError):
            sudare.IntegerContext(t, 1)  # type: ignore[arg-type]
    with pytest.raises(errors.ParametersError, match="n14-t65537"):
        sudare.IntegerContext.preset("n16")


def test_contexts_explain_themselves_before_there_are_keys() -> None:
    context = sudare.IntegerContext(t=65537, depth=2)
    explained = context.explain()
    assert context._made is None
    assert (explained.t, explained.levels, explained.scheme) == (65537, 2, "bgv")
    assert explained.security_bits >= 128 and explained.slots == 2**explained.log_n
    assert "128 bits of security" in explained.reason
    assert "from -32768 to 32768" in str(explained)
    assert context.slots == explained.slots
    assert repr(context) == "IntegerContext(bgv, t=65537, no keys yet)"
    # The keys agree with their explanation.
    assert context.keys.evaluation.nbytes == explained.evaluation_key_bytes
    assert len(context.keys.evaluation) == explained.evaluation_keys
    x = context.encrypt([300, -2])
    assert x.nbytes == explained.ciphertext_bytes
    same(context, x * x * x, np.array([300, -2]) ** 3)
    preset = sudare.IntegerContext.preset("bfv-n12", scheme="bfv", signed=False)
    assert (preset.scheme, preset.signed, preset.explain().params) == ("bfv", False, "n12-t65537")


def test_other_keys_are_refused(
    ctx: sudare.IntegerContext, stranger: sudare.IntegerContext
) -> None:
    x, y = ctx.encrypt([1, 2]), stranger.encrypt([1, 2])
    for attempt in (
        lambda: x + y,
        lambda: x * y,
        lambda: ctx.decrypt(y),
        lambda: ctx.noise_budget(y),
    ):
        with pytest.raises(errors.MismatchError):
            attempt()
    with pytest.raises(errors.MismatchError):
        sudare.IntegerContext.from_keys(
            toy(ctx.scheme).keys.evaluation,  # type: ignore[arg-type]
            public=ctx.keys.public,
        )
    other = sudare.IntegerContext.preset("toy-n5")
    with pytest.raises(errors.MismatchError):
        ctx.decrypt(other.encrypt([1]))
    with pytest.raises(errors.MismatchError):
        x * other.encrypt([1])
    with pytest.raises(errors.ArgumentError):
        sudare.IntegerContext.from_keys(ctx.keys.public)  # type: ignore[arg-type]
    reals = sudare.Context(depth=1)
    with pytest.raises(errors.Error):
        reals.decrypt(x)  # type: ignore[arg-type]
    with pytest.raises(errors.Error):
        sudare.PublicKey.from_bytes(ctx.keys.public.to_bytes())
    with pytest.raises(errors.Error):
        sudare.IntegerPublicKey.from_bytes(reals.keys.public.to_bytes())


def test_both_schemes_do_not_mix() -> None:
    keys = [toy("bgv").keys, toy("bfv").keys]
    with pytest.raises(errors.MismatchError, match="bfv.*bgv"):
        sudare.IntegerContext.from_keys(keys[0].evaluation, public=keys[1].public)


def test_three_roles_exchange_files(ctx: sudare.IntegerContext, tmp_path: Path) -> None:
    paths = {name: tmp_path / f"{name}.key" for name in ("public", "evaluation", "secret")}
    ctx.keys.public.save(paths["public"])
    ctx.keys.evaluation.save(paths["evaluation"])
    ctx.keys.secret.save(paths["secret"])
    assert stat.S_IMODE(paths["secret"].stat().st_mode) == 0o600

    sender = sudare.IntegerContext.from_keys(public=sudare.IntegerPublicKey.open(paths["public"]))
    sender.encrypt(np.arange(300)).save(tmp_path / "numbers.ct")
    with pytest.raises(errors.MissingKeyError):
        sender.load(tmp_path / "numbers.ct") + 1

    for small in (False, True):
        evaluation = sudare.IntegerEvaluationKeys.open(paths["evaluation"], small=small)
        server = sudare.IntegerContext.from_keys(evaluation)
        x = server.load(tmp_path / "numbers.ct")
        assert server.scheme == ctx.scheme and server.t == T
        (x * x).sum().save(tmp_path / "result.ct", overwrite=True)
    with pytest.raises(errors.MissingKeyError):
        server.decrypt(x)
    with pytest.raises(errors.MissingKeyError):
        server.encrypt([1])
    with pytest.raises(errors.UnsupportedError, match="explain"):
        server.explain()

    owner = sudare.IntegerContext.from_keys(
        public=sudare.IntegerPublicKey.open(paths["public"]),
        secret=sudare.IntegerSecretKey.open(paths["secret"]),
    )
    same(owner, owner.load(tmp_path / "result.ct"), (np.arange(300) ** 2).sum())


def test_bytes_and_pickles(ctx: sudare.IntegerContext) -> None:
    x = ctx.encrypt([1, 2, 3])
    again = sudare.EncryptedIntegers.from_bytes(x.to_bytes())
    assert (again.shape, again.level, again.key_id) == ((3,), None, x.key_id)
    with pytest.raises(errors.UnsupportedError):
        again + 1
    same(ctx, ctx.attach(again) + 1, [2, 3, 4])
    same(ctx, again, [1, 2, 3])
    same(ctx, x * again, [1, 4, 9])
    for protocol in (2, 5):
        same(ctx, pickle.loads(pickle.dumps(x, protocol=protocol)), [1, 2, 3])
        for key in (ctx.keys.public, ctx.keys.evaluation):
            copied = pickle.loads(pickle.dumps(key, protocol=protocol))
            assert type(copied) is type(key) and copied.to_bytes() == key.to_bytes()
            assert copied.digest == key.digest
    server = pickle.loads(pickle.dumps(ctx.for_server()))
    assert not server.can_decrypt and ctx.can_decrypt
    same(ctx, server.attach(x) * 2, [2, 4, 6])
    for leak in (pickle.dumps, copy.copy, copy.deepcopy):
        for secret in (ctx, ctx.keys.secret):
            with pytest.raises(errors.UnsupportedError):
                leak(secret)


def test_evaluation_keys_in_a_file_are_pickled_as_its_name(
    ctx: sudare.IntegerContext, tmp_path: Path
) -> None:
    path = tmp_path / "evaluation.key"
    ctx.keys.evaluation.save(path)
    keys = sudare.IntegerEvaluationKeys.open(path)
    assert keys.path == path and keys.to_bytes() == ctx.keys.evaluation.to_bytes()
    data = pickle.dumps(keys)
    assert len(data) < 500 and pickle.loads(data).key_id == keys.key_id
    toy().keys.evaluation.save(path, overwrite=True)
    with pytest.raises(errors.FileError, match="digest"):
        pickle.loads(data)


def test_altered_bytes_are_refused(ctx: sudare.IntegerContext, tmp_path: Path) -> None:
    data = ctx.encrypt([1, 2, 3]).to_bytes()
    for place in range(0, len(data), 97):
        altered = bytearray(data)
        altered[place] ^= 1
        with pytest.raises(errors.Error):
            ctx.attach(sudare.EncryptedIntegers.from_bytes(bytes(altered)))
    for cut in (b"", data[:100], data[:-1]):
        with pytest.raises(errors.Error):
            ctx.attach(sudare.EncryptedIntegers.from_bytes(cut))
    path = tmp_path / "numbers.ct"
    path.write_bytes(data[:-1])
    with pytest.raises(errors.Error, match=r"numbers\.ct"):
        ctx.load(path)
    with pytest.raises(errors.WrongFileError):
        sudare.EncryptedIntegers.from_bytes(ctx.keys.public.to_bytes())
    with pytest.raises(FileNotFoundError):
        ctx.load(tmp_path / "none.ct")
    key = ctx.keys.evaluation.to_bytes()
    with pytest.raises(errors.WrongFileError):
        sudare.IntegerEvaluationKeys.from_bytes(key[:-100] + bytes(100))
    with pytest.raises(errors.WrongFileError):
        sudare.IntegerPublicKey.from_bytes(key)


def test_sealed_keys(ctx: sudare.IntegerContext, tmp_path: Path) -> None:
    path = tmp_path / "secret.key"
    ctx.keys.secret.save(path, passphrase="six random words")
    assert path.read_bytes().startswith(b"\x89sealed\n")
    secret = sudare.IntegerSecretKey.open(path, passphrase="six random words")
    owner = sudare.IntegerContext.from_keys(public=ctx.keys.public, secret=secret)
    same(owner, ctx.encrypt([7]), [7])
    with pytest.raises(errors.PassphraseError):
        sudare.IntegerSecretKey.open(path, passphrase="six random word")
    with pytest.raises(errors.PassphraseError):
        sudare.IntegerSecretKey.open(path)
    with pytest.raises(errors.ExistsError):
        ctx.keys.secret.save(path)
    assert repr(secret) == f"IntegerSecretKey(key_id={secret.key_id}, ...)"


def test_insecure_parameters_warn(tmp_path: Path) -> None:
    warns = pytest.warns(errors.SecurityWarning, match=r"\d+\.\d bits of security instead of 128")
    with warns as caught:
        context = sudare.IntegerContext.preset("toy-n8")
    assert caught[0].filename == __file__
    context.keys.public.save(tmp_path / "public.key")
    with warns:
        sudare.IntegerPublicKey.open(tmp_path / "public.key")
    with warns:
        sudare.IntegerEvaluationKeys.from_bytes(context.keys.evaluation.to_bytes())


@pytest.fixture(scope="module", params=["bgv", "bfv"])
def boot(request: pytest.FixtureRequest) -> sudare.IntegerContext:
    """Bootstraps 256 slots modulo 65537, which secures nothing."""
    return sudare.IntegerContext.preset("n15-t65537-boot", scheme=request.param, insecure_log_n=8)


def test_programs_of_any_depth_are_bootstrapped(boot: sudare.IntegerContext) -> None:
    a = np.arange(-3, 250)
    x = boot.encrypt(a)
    explained = boot.explain()
    assert explained.bootstrapping is not None
    assert explained.levels == explained.bootstrapping.levels == 7
    # 0 at 0 and 1 elsewhere, by Fermat: 16 levels deep.
    same(boot, x**65536, a != 0)
    y = x
    for _ in range(10):
        y = y * 3000
    expected = a.astype(object) * 3000**10
    same(boot, y, expected)
    same(boot, y + x, expected + a)
    same(boot, y.sum() ** 2, expected.sum() ** 2)
    same(boot, y.polynomial([1, 2, 3]), 1 + 2 * expected + 3 * expected**2)


def test_arrays_are_bootstrapped_when_it_is_asked_for(boot: sudare.IntegerContext) -> None:
    a = np.arange(600).reshape(3, 200)
    x = boot.encrypt(a)
    low = x**64
    assert x.level is not None and low.level == x.level - 6
    fresh = boot.bootstrap(low)
    assert fresh.level == x.level
    same(boot, fresh, a.astype(object) ** 64)
    same(boot, boot.bootstrap(low.reshape(-1)), (a.astype(object) ** 64).ravel())
    toys = toy()
    with pytest.raises(errors.ArgumentError, match="set for bootstrapping"):
        toys.bootstrap(toys.encrypt([1]))
    with pytest.raises(errors.LevelExhaustedError, match="needs 9 levels"):
        x.polynomial([1] * 300)


def test_servers_bootstrap_from_files_bytes_and_pickles(
    boot: sudare.IntegerContext, tmp_path: Path
) -> None:
    path = tmp_path / "evaluation.key"
    boot.keys.evaluation.save(path)
    assert boot.keys.evaluation.nbytes == path.stat().st_size
    x = boot.encrypt([2, 3])
    opened = sudare.IntegerEvaluationKeys.open(path)
    small = sudare.IntegerEvaluationKeys.open(path, small=True)
    pickled = pickle.loads(pickle.dumps(boot.for_server()))
    contexts = [sudare.IntegerContext.from_keys(keys) for keys in (opened, small)]
    for server in (*contexts, pickled):
        y = server.attach(sudare.EncryptedIntegers.from_bytes(x.to_bytes())) ** 1000
        same(boot, y, np.array([2, 3], dtype=object) ** 1000)
        same(boot, server.bootstrap(y), np.array([2, 3], dtype=object) ** 1000)
    secret = tmp_path / "secret.key"
    boot.keys.secret.save(secret)
    owner = sudare.IntegerContext.from_keys(secret=sudare.IntegerSecretKey.open(secret))
    same(owner, x, [2, 3])


def test_sets_for_bootstrapping_are_found_and_explained() -> None:
    context = sudare.IntegerContext(bootstrap=True)
    explained = context.explain()
    boot = explained.bootstrapping
    assert context._made is None and boot is not None
    assert (explained.params, explained.log_n, boot.levels) == ("n15-t65537-boot", 15, 7)
    assert explained.security_bits >= 128 and boot.log2_failure < -128
    assert explained.evaluation_key_memory_bytes > 10**9 and boot.matrix_bytes > 10**8
    assert explained.product_seconds is not None and 0 < explained.rotation_seconds < boot.seconds
    assert boot.budget_bits > 200 and " s a bootstrapping" in str(explained)
    for text in ("7 levels each time", "2^-1", "matrices of"):
        assert text in str(explained)
    assert "none" in str(sudare.IntegerContext(depth=1).explain())
    deep = sudare.IntegerContext(65537, 12, bootstrap=True)
    assert deep.explain().params == "n16-t65537-boot"
    with pytest.raises(errors.ParametersError, match="at most 20"):
        sudare.IntegerContext(65537, 30, bootstrap=True)
    with pytest.raises(errors.ParametersError):
        sudare.IntegerContext(127, bootstrap=True)
    assert sudare.IntegerContext(257**2, bootstrap=True).slots == 128
    with pytest.raises(errors.ParametersError):
        sudare.IntegerContext.preset("n15-t127-boot")


@pytest.mark.slow
def test_sets_of_other_primes_are_found_again_by_their_names() -> None:
    context = sudare.IntegerContext(12289, 5, bootstrap=True)
    name = context.explain().params
    assert name.endswith("-t12289-auto") and context.slots == 2**11
    assert sudare.IntegerContext.preset(name).explain() == context.explain()


@pytest.mark.slow
def test_every_slot_is_bootstrapped_at_full_size() -> None:
    context = sudare.IntegerContext(bootstrap=True)
    a = np.random.default_rng(7).integers(-32768, 32769, 2**15)
    a[:3] = 0
    same(context, context.encrypt(a) ** 65536, a != 0)


@pytest.mark.parametrize(
    ("t", "depth", "scheme"),
    [
        (65537, 0, "bgv"),
        (65537, 0, "bfv"),
        (65537, 1, "bgv"),
        (257, 2, "bfv"),
        (4293918721, 1, "bgv"),
    ],
)
def test_depth_covers_what_costs_no_level(
    t: int, depth: int, scheme: Literal["bgv", "bfv"]
) -> None:
    context = sudare.IntegerContext(t, depth, scheme=scheme)
    a = np.arange(1, min(8192, 8 * context.slots) + 1) % (t // 2)
    x = context.encrypt(a)
    y, expected = x, a.astype(object)
    for _ in range(depth):
        # A scalar of up to 16, or a sum of 16 arrays, before each product.
        y, expected = y * 16 * x, expected * 16 * a
    assert y.level == 0
    same(context, y * 16, expected * 16)
    same(context, y.sum(), expected.sum())
    few = context.encrypt(a[:64])
    power = few if depth == 0 else few ** (2**depth)
    same(context, power.sum(), (a[:64].astype(object) ** (2**depth)).sum())
    if depth == 1:
        same(context, x @ x, (a.astype(object) ** 2).sum())
        sixteen = x
        for _ in range(4):
            sixteen = sixteen + sixteen
        same(context, sixteen * x, 16 * a.astype(object) ** 2)


def test_contexts_without_levels_explain_themselves() -> None:
    for scheme in ("bgv", "bfv"):
        explained = sudare.IntegerContext(65537, 0, scheme=scheme).explain()
        assert (explained.levels, explained.product_seconds) == (0, None)
        assert "a product" not in str(explained) and "a rotation" in str(explained)


@pytest.mark.parametrize(
    ("t", "name"),
    [
        (10**6, "1000000 is neither"),
        (36, "36 is neither"),
        (196611, "196611 is neither"),
        (2**32, r"modulus 2\^32 allows 0 slots"),
        (127**3, r"modulus 127\^3 allows 0 slots"),
        (1000003, "modulus 1000003 allows 0 slots"),
        (1048573, "modulus 1048573 allows 2 slots"),
    ],
)
def test_errors_about_moduli_name_primes_that_are_taken(t: int, name: str) -> None:
    with pytest.raises(errors.Error, match=name) as refused:
        sudare.IntegerContext(t, 1)
    listed = re.search(r"such as (\d+) (?:and|or) (\d+)", str(refused.value))
    assert listed is not None
    for prime in map(int, listed.groups()):
        assert sudare.IntegerContext(prime, 1).slots >= 4096
        assert prime < 4 * max(t, 200_000) and (t < 65537 or t < 4 * prime)


def test_arrays_of_another_key_are_refused_by_what_computes_nothing(
    stranger: sudare.IntegerContext,
) -> None:
    own = toy()
    rows = np.arange(8).reshape(2, 4)
    for values in (5, [1, 2], rows):
        foreign = own.encrypt(values)
        for array in (foreign, sudare.EncryptedIntegers.from_bytes(foreign.to_bytes())):
            with pytest.raises(errors.MismatchError, match=own.keys.public.key_id):
                stranger.attach(array)
    # Also by a server, and by a context whose keys are still to be made.
    server = stranger.for_server()
    with pytest.raises(errors.MismatchError):
        server.attach(own.encrypt(1))
    with pytest.raises(errors.MismatchError):
        toy().attach(own.encrypt(1))
    same(own, own.for_server().attach(own.encrypt(rows)).rotate(0), rows)


def test_arguments_of_another_kind_are_refused() -> None:
    attempts: list[Callable[[], object]] = [
        lambda: sudare.IntegerContext.preset(5),  # type: ignore[arg-type]
        lambda: sudare.IntegerContext.preset("toy-n8", scheme=None),  # type: ignore[arg-type]
        lambda: sudare.IntegerContext(65537, 1, scheme=5),  # type: ignore[arg-type]
        lambda: sudare.IntegerContext(65537, "two"),  # type: ignore[arg-type]
        lambda: sudare.IntegerContext(65537, 2**70),
        lambda: sudare.IntegerContext("65537", 1),  # type: ignore[arg-type]
    ]
    for attempt in attempts:
        with pytest.raises(errors.ArgumentError):
            attempt()


class Program:
    """Compares random operations with big integers."""

    def __init__(self, context: sudare.IntegerContext, seed: int) -> None:
        self.context = context
        self.random = np.random.default_rng(seed)
        self.t = context.t
        shapes = [(), (1,), (5,), (2, 4), (3, 7), (2, 128), (300,)]
        self.shape = shapes[self.random.integers(len(shapes))]

    def values(self, shape: tuple[int, ...], least: int, most: int) -> Any:
        """Extremes often, in a type of NumPy that holds them."""
        edges = np.array([least, most, 0, 1, max(-1, least), most // 2])
        found = np.where(
            self.random.random(shape) < 0.3,
            self.random.choice(edges, shape),
            self.random.integers(least, most, shape, endpoint=True),
        )
        kinds = [np.int64, np.int32, np.int16, np.uint64, np.uint16, object]
        holds = [k for k in kinds if k is object or (found.astype(k) == found).all()]
        return np.asarray(found).astype(holds[self.random.integers(len(holds))])

    def element(self, shape: tuple[int, ...]) -> Any:
        """Reduces values to the range of the context."""
        if self.context.signed:
            return self.values(shape, -(self.t // 2), self.t // 2)
        return self.values(shape, 0, self.t - 1)

    def step(self, x: sudare.EncryptedIntegers, a: Any) -> tuple[sudare.EncryptedIntegers, Any]:
        """One operation of `x`, which holds `a` modulo t."""
        plain = self.values(a.shape, 1 - self.t, self.t - 1)
        other = self.element(a.shape)
        scalar = int(self.values((), 1 - self.t, self.t - 1))
        y = self.context.encrypt(other)
        p, o = plain.astype(object), other.astype(object)
        operations: list[Callable[[], tuple[Any, Any]]] = [
            lambda: (x + y, a + o),
            lambda: (y - x, o - a),
            lambda: (x - plain, a - p),
            lambda: (plain - x, p - a),
            lambda: (scalar - x, scalar - a),
            lambda: (-x, -a),
            lambda: (x * y, a * o),
            lambda: (plain * x, p * a),
            lambda: (x * scalar, a * scalar),
            lambda: (x * np.int8(-16), a * -16),
            lambda: (x + True, a + 1),
            lambda: (x**2, a**2),
            lambda: (x.polynomial([scalar, -1, 2]), scalar - a + 2 * a**2),
            lambda: (np.subtract(plain, x), p - a),
        ]
        if a.shape == (2, 4) or a.shape == (2, 128):
            k = int(self.random.integers(-300, 300))
            operations.append(lambda: (x.rotate(k), np.roll(a, -k, axis=-1)))
            operations.append(lambda: (x.swap_rows(), np.flip(a, axis=-2)))
        if a.ndim == 1 and a.size > 1:
            operations.append(lambda: (x @ plain, np.asarray(a @ p, dtype=object)))
            operations.append(lambda: (x @ y, np.asarray(a @ o, dtype=object)))
        if a.ndim == 2 and a.shape == (3, 7):
            operations.append(lambda: (x @ plain.T, a @ p.T))
            operations.append(lambda: (plain.T @ x, p.T @ a))
        if a.ndim > 0:
            operations.append(lambda: (x.sum(), np.asarray(a.sum(), dtype=object)))
            operations.append(lambda: (x.reshape(-1), a.reshape(-1)))
        return operations[self.random.integers(len(operations))]()

    def run(self) -> None:
        start = self.element(self.shape)
        x, a = self.context.encrypt(start), np.asarray(start.astype(object))
        for _ in range(6):
            try:
                x, a = self.step(x, a)
            except errors.LevelExhaustedError:
                break
            a = np.asarray(np.mod(a, self.t), dtype=object)
        found = self.context.decrypt(x)
        assert found.shape == a.shape and found.dtype == np.int64
        expected = reduced(a, self.t) if self.context.signed else a.astype(np.int64)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("scheme", ["bgv", "bfv"])
def test_random_programs_give_what_big_integers_give(
    scheme: Literal["bgv", "bfv"], signed: bool
) -> None:
    context = toy(scheme, signed=signed)
    for seed in range(60):
        Program(context, seed).run()
