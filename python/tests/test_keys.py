"""Keys as values: files, pickles, and secrets that stay with the owner."""

from __future__ import annotations

import copy
import os
import pickle
import stat
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import sudare
from sudare import LinearRegression, LogisticRegression, errors, scoring, stats


def test_keys_of_a_context_belong_together(ctx: sudare.Context) -> None:
    keys = ctx.keys
    assert keys.public.key_id == keys.evaluation.key_id == keys.secret.key_id
    assert ctx.keys is keys
    assert keys.evaluation.nbytes == len(keys.evaluation.to_bytes())
    explained = ctx.explain()
    assert explained.evaluation_key_bytes == keys.evaluation.nbytes
    assert explained.evaluation_keys == len(keys.evaluation)
    assert explained.security_bits >= 128


@pytest.mark.parametrize("protocol", [2, 5])
def test_public_and_evaluation_keys_are_picklable(ctx: sudare.Context, protocol: int) -> None:
    for key in (ctx.keys.public, ctx.keys.evaluation):
        again = pickle.loads(pickle.dumps(key, protocol=protocol))
        assert type(again) is type(key)
        assert again.to_bytes() == key.to_bytes()
        assert copy.copy(key).key_id == key.key_id


def test_evaluation_keys_travel_beside_the_pickle_without_a_copy(ctx: sudare.Context) -> None:
    keys = ctx.keys.evaluation
    buffers: list[pickle.PickleBuffer] = []
    start = time.perf_counter()
    data = pickle.dumps(keys, protocol=5, buffer_callback=buffers.append)
    assert time.perf_counter() - start < 0.01
    assert len(data) < 500
    (buffer,) = buffers
    # The same bytes that the keys compute with.
    assert buffer.raw().obj is keys.to_bytes()
    assert pickle.loads(data, buffers=buffers).key_id == keys.key_id
    # Dask passes buffers at any offset, read-only.
    shifted = memoryview(b"x" + bytes(buffer.raw()))[1:]
    assert pickle.loads(data, buffers=[shifted]).key_id == keys.key_id


def test_a_secret_key_is_not_pickled_copied_or_printed(ctx: sudare.Context) -> None:
    secret = ctx.keys.secret
    for leak in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be pickled") as caught:
            leak(secret)
        assert isinstance(caught.value, errors.UnsupportedError)
        with pytest.raises(errors.UnsupportedError):
            leak(ctx)
    assert repr(secret) == f"SecretKey(key_id={secret.key_id}, ...)"
    assert not hasattr(secret, "to_bytes")
    with pytest.raises(TypeError):
        sudare.SecretKey()


def test_keys_come_back_from_files(ctx: sudare.Context, tmp_path: Path) -> None:
    keys = ctx.keys
    paths = {name: tmp_path / f"{name}.key" for name in ("public", "evaluation", "secret")}
    keys.public.save(paths["public"])
    keys.evaluation.save(str(paths["evaluation"]))
    keys.secret.save(paths["secret"])
    assert stat.S_IMODE(paths["secret"].stat().st_mode) == 0o600
    with pytest.raises(FileExistsError) as caught:
        keys.secret.save(paths["secret"])
    assert isinstance(caught.value, errors.ExistsError)
    keys.secret.save(paths["secret"], overwrite=True)

    again = sudare.Context.from_keys(
        sudare.EvaluationKeys.open(paths["evaluation"]),
        public=sudare.PublicKey.open(paths["public"]),
        secret=sudare.SecretKey.open(paths["secret"]),
    )
    assert again.keys.evaluation.to_bytes() == keys.evaluation.to_bytes()
    assert again.keys.public.to_bytes() == keys.public.to_bytes()
    assert again.can_decrypt


@pytest.mark.parametrize("small", [False, True])
def test_keys_in_a_file_are_pickled_as_its_name(
    ctx: sudare.Context, tmp_path: Path, small: bool
) -> None:
    path = tmp_path / "evaluation.key"
    ctx.keys.evaluation.save(path)
    keys = sudare.EvaluationKeys.open(path, small=small)
    assert keys.path == path
    data = pickle.dumps(keys)
    assert len(data) < 500 and path.name.encode() in data
    assert pickle.loads(data).key_id == keys.key_id

    # Another owner's file replaces the name: the mapped keys stay, and the pickle is refused.
    sudare.Context(depth=3).keys.evaluation.save(path, overwrite=True)
    with pytest.raises(errors.FileError, match="digest"):
        pickle.loads(data)
    path.write_bytes(path.read_bytes()[:-64])
    with pytest.raises(errors.FileError, match="bytes instead of"):
        pickle.loads(data)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        pickle.loads(data)
    assert keys.to_bytes() == ctx.keys.evaluation.to_bytes()


def test_a_mapped_file_that_changes_in_its_place_is_found_out(
    ctx: sudare.Context, tmp_path: Path
) -> None:
    path = tmp_path / "evaluation.key"
    ctx.keys.evaluation.save(path)
    keys = sudare.EvaluationKeys.open(path)
    server = sudare.Context.from_keys(keys)
    x = server.attach(ctx.encrypt([1.5]))
    assert abs(ctx.decrypt(x * x)[0] - 2.25) < 1e-3
    # A new file under the name does not change the mapped one.
    path.rename(tmp_path / "moved.key")
    path.write_bytes(b"something else")
    assert abs(ctx.decrypt(x * x)[0] - 2.25) < 1e-3

    with (tmp_path / "moved.key").open("r+b") as file:
        file.seek(-1000, 2)
        file.write(bytes(1000))
        file.flush()
        for use in (lambda: x * x, keys.to_bytes, lambda: keys.save(tmp_path / "copy.key")):
            with pytest.raises(errors.FileError, match="written to.*open the new one"):
                use()
        file.truncate(100)
    # A read beyond the end of the file would kill the process.
    with pytest.raises(errors.FileError, match="100 bytes instead of"):
        x * x
    assert not (tmp_path / "copy.key").exists()


def test_damaged_and_wrong_files_are_told_apart(ctx: sudare.Context, tmp_path: Path) -> None:
    path = tmp_path / "evaluation.key"
    ctx.keys.evaluation.save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(errors.WrongFileError, match="evaluation.key"):
        sudare.EvaluationKeys.open(path)
    path.write_bytes(whole[:-100] + bytes(100))
    with pytest.raises(errors.WrongFileError):
        sudare.EvaluationKeys.open(path)
    path.write_bytes(b"no keys at all")
    with pytest.raises(errors.Error):
        sudare.EvaluationKeys.open(path)
    path.write_bytes(whole)
    with pytest.raises(errors.WrongFileError, match="public key"):
        sudare.PublicKey.open(path)
    with pytest.raises(errors.FileError):
        sudare.EvaluationKeys.open(tmp_path)
    with pytest.raises(errors.Error):
        sudare.EvaluationKeys.from_bytes(b"")
    with pytest.raises(errors.ArgumentError):
        sudare.EvaluationKeys.from_bytes(7)


def test_keys_of_two_owners_are_refused_by_both_names(
    ctx: sudare.Context, stranger: sudare.Context
) -> None:
    with pytest.raises(errors.MismatchError) as caught:
        sudare.Context.from_keys(ctx.keys.evaluation, public=stranger.keys.public)
    assert ctx.keys.public.key_id in str(caught.value)
    assert stranger.keys.public.key_id in str(caught.value)
    with pytest.raises(errors.MismatchError):
        sudare.Context.from_keys(ctx.keys.evaluation, public=sudare.Context(1).keys.public)


def test_a_server_cannot_decrypt(ctx: sudare.Context) -> None:
    server = ctx.for_server()
    assert ctx.can_decrypt and not server.can_decrypt
    with pytest.raises(errors.MissingKeyError):
        server.keys.secret  # noqa: B018
    again = pickle.loads(pickle.dumps(server))
    assert not again.can_decrypt
    assert again.keys.evaluation.key_id == ctx.keys.evaluation.key_id


def test_keys_that_are_not_secure_warn(tmp_path: Path) -> None:
    warns = pytest.warns(errors.SecurityWarning, match=r"\d+\.\d bits of security instead of 128")
    with warns as caught:
        context = sudare.Context.preset("n16-boot-real", insecure_log_n=10)
    assert caught[0].filename == __file__
    keys = LinearRegression(insecure_log_n=10).plan(4, 2)
    with warns as caught:
        made = keys.make_keys()
    assert caught[0].filename == __file__
    with warns as caught:
        LinearRegression(insecure_log_n=10).fit([[0.0], [1.0], [2.0]], [1.0, 2.0, 3.0])
    assert caught[0].filename == __file__
    paths = {name: tmp_path / name for name in ("public", "evaluation", "secret")}
    made.public.save(paths["public"])
    made.evaluation.save(paths["evaluation"])
    made.secret.save(paths["secret"])
    for read in (
        lambda: sudare.PublicKey.open(paths["public"]),
        lambda: sudare.EvaluationKeys.open(paths["evaluation"]),
        lambda: sudare.SecretKey.open(paths["secret"]),
        lambda: sudare.PublicKey.from_bytes(made.public.to_bytes()),
        lambda: sudare.EvaluationKeys.from_bytes(made.evaluation.to_bytes()),
        lambda: pickle.loads(pickle.dumps(sudare.EvaluationKeys.open(paths["evaluation"]))),
    ):
        with warns:
            read()
    # Without encryption, nothing is insecure.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sudare.Context.preset("n16-boot-real", insecure_log_n=10, mode="simulate")
        LinearRegression(insecure_log_n=10, mode="simulate").fit([[0.0], [1.0]], [1.0, 2.0])
        sudare.Context(1).keys.public.to_bytes()
        assert context.mode == "execute"


def test_sealed_keys(ctx: sudare.Context, tmp_path: Path) -> None:
    secret, path = ctx.keys.secret, tmp_path / "secret.key"
    secret.save(path, passphrase="six random words")
    sealed = path.read_bytes()
    assert sealed.startswith(b"\x89sealed\n")
    if os.name == "posix":
        assert path.stat().st_mode & 0o777 == 0o600
    opened = sudare.SecretKey.open(path, passphrase="six random words")
    public, evaluation = ctx.keys.public, ctx.keys.evaluation
    again = sudare.Context.from_keys(evaluation, public=public, secret=opened)
    assert abs(again.decrypt(ctx.encrypt([1.5, -2.0])) - [1.5, -2.0]).max() < 1e-6

    with pytest.raises(errors.PassphraseError):
        sudare.SecretKey.open(path, passphrase="six random word")
    with pytest.raises(errors.PassphraseError):
        sudare.SecretKey.open(path, passphrase="")
    with pytest.raises(errors.PassphraseError):
        secret.save(tmp_path / "other.key", passphrase="")
    with pytest.raises(errors.PassphraseError):
        secret.save(tmp_path / "other.key", passphrase="x" * 1025)
    with pytest.raises(errors.PassphraseError, match="passphrase"):
        sudare.SecretKey.open(path)
    path.write_bytes(sealed[:12] + b"\xff" * 4 + sealed[16:])
    with pytest.raises(errors.WrongFileError):
        sudare.SecretKey.open(path, passphrase="six random words")
    path.write_bytes(sealed[:100])
    with pytest.raises(errors.Error):
        sudare.SecretKey.open(path, passphrase="six random words")
    assert [file.name for file in tmp_path.iterdir()] == ["secret.key"]


@pytest.mark.skipif(os.name != "posix", reason="modes of files")
def test_keys_that_others_can_read_are_warned_of(ctx: sudare.Context, tmp_path: Path) -> None:
    path = tmp_path / "secret.key"
    ctx.keys.secret.save(path)
    path.chmod(0o644)
    with pytest.warns(errors.SecurityWarning, match="chmod 600"):
        sudare.SecretKey.open(path)


def test_digests(ctx: sudare.Context, tmp_path: Path) -> None:
    keys = ctx.keys
    keys.public.save(tmp_path / "public.key")
    opened = sudare.PublicKey.open(tmp_path / "public.key")
    assert opened.digest == keys.public.digest and len(opened.digest) == 64
    again = sudare.EvaluationKeys.from_bytes(keys.evaluation.to_bytes())
    assert again.digest == keys.evaluation.digest
    assert keys.evaluation.digest != keys.public.digest


def test_a_key_of_another_digest_encrypts_nothing(ctx: sudare.Context) -> None:
    rows = np.arange(12.0).reshape(4, 3)
    plan = stats.plan(rows)
    keys, other = plan.make_keys(), plan.make_keys()
    assert plan.encrypt(rows, keys.public, expect=keys.public.digest.upper()).rows == 4
    scores = scoring.plan(4, 3, insecure_log_n=11)
    line = LinearRegression(insecure_log_n=11)
    model = LogisticRegression(mode="simulate").fit(rows, [0, 1, 0, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.SecurityWarning)
        of_scores, of_line = scores.make_keys().public, line.plan(4, 2).make_keys().public
    for refused in (
        lambda digest: plan.encrypt(rows, keys.public, expect=digest),
        lambda digest: line.encrypt(rows[:, :2], rows[:, 2], of_line, expect=digest),
        lambda digest: scores.encrypt(rows, of_scores, like=model, expect=digest),
        lambda digest: scores.encrypt_model(model, of_scores, expect=digest),
        lambda digest: sudare.Context.from_keys(public=ctx.keys.public, expect=digest),
    ):
        with pytest.raises(errors.WrongFileError, match=f"{other.public.digest} was expected"):
            refused(other.public.digest)
        with pytest.raises(errors.ArgumentError, match="64 hexadecimal digits"):
            refused("f00")
    with pytest.raises(errors.ArgumentError, match="which is missing"):
        sudare.Context.from_keys(ctx.keys.evaluation, expect=ctx.keys.public.digest)


def test_a_result_of_another_table_is_refused(tmp_path: Path) -> None:
    rows = np.arange(12.0).reshape(4, 3)
    plan = stats.plan(rows)
    keys = plan.make_keys()
    table = plan.encrypt(rows, keys.public)
    other = plan.encrypt(rows, keys.public, path=tmp_path / "other.ct")
    result = stats.compute(table, keys.evaluation)
    found = stats.decrypt(result, keys.secret, table=table)
    assert isinstance(found, stats.Summary)
    np.testing.assert_allclose(found.mean, rows.mean(0), atol=1e-4)
    with pytest.raises(errors.WrongFileError, match="is not a result of .*other.ct"):
        stats.decrypt(result, keys.secret, table=other)
    with pytest.raises(errors.WrongFileError, match="is not a result of .*other.ct"):
        stats.release(result, keys.secret, 4, table=other)
    line = LinearRegression(insecure_log_n=11)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.SecurityWarning)
        pair = line.plan(4, 2).make_keys()
    features = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0], [3.0, 1.0]])
    first, second = (line.encrypt(features, rows[:, 2] ** 2, pair.public) for _ in range(2))
    fitted = line._compute(first, pair.evaluation)
    with pytest.raises(errors.WrongFileError, match="the bytes in memory"):
        line.decrypt(fitted, pair.secret, table=second)
    line.decrypt(fitted, pair.secret, table=first)
