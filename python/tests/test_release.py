"""Values that others may see."""

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sudare
from sudare import EncryptedArray, errors, stats


def mean(x: EncryptedArray) -> EncryptedArray:
    return (x * x).mean(axis=0)


def half(x: EncryptedArray) -> EncryptedArray:
    return x * 0.5


@pytest.fixture(scope="module")
def context() -> sudare.Context:
    return sudare.Context.for_program(mean, [(100, 3)], share_bits=10)


def test_results_are_released_to_the_bits_planned_for(context: sudare.Context) -> None:
    x = np.linspace(-1, 1, 300).reshape(100, 3)
    explained = context.explain().program
    assert explained is not None
    (output,) = explained.outputs
    assert output.share_bits is not None and output.share_bits >= 10
    assert f"release to {output.share_bits} bits" in str(context.explain())
    result = mean(context.encrypt(x))
    expected = (x * x).mean(axis=0)
    assert output.largest_error is not None
    assert abs(context.decrypt(result) - expected).max() < output.largest_error
    for bits in (10, 4):
        shown = context.release(result, bits=bits)
        assert shown.shape == (3,)
        assert abs(shown - expected).max() <= 2.0**-bits
        assert (shown * 2.0**bits % 1 == 0).all()


def test_the_same_release_is_the_same_and_counts_once(tmp_path: Path) -> None:
    context = sudare.Context.for_program(mean, [(100, 3)], share_bits=10)
    # Each element is on the edge between two multiples, where noise decides.
    x = np.full((100, 3), np.sqrt(2.0**-11))
    result = mean(context.encrypt(x))
    secret = context.keys.secret
    assert secret.releases == (0, 1024) and secret.ledger_path is None
    shown = context.release(result, bits=10)
    again = [context.release(result, bits=10) for _ in range(20)]
    assert all((shown == other).all() for other in again)
    assert secret.releases == (1, 1024)
    # Each computation has its own noise.
    others = [context.release(mean(context.encrypt(x)), bits=10) for _ in range(20)]
    assert len({other.tobytes() for other in others}) > 1
    assert secret.releases == (21, 1024)
    context.release(result, bits=9)
    assert secret.releases == (22, 1024)

    # Counts in memory are saved with the key, and copies of the key count on there.
    secret.save(tmp_path / "secret.key")
    ledger = tmp_path / f"{secret.key_id}.ledger"
    assert secret.ledger_path == ledger and ledger.exists()
    copy = sudare.Context.from_keys(secret=sudare.SecretKey.open(tmp_path / "secret.key"))
    error = context._largest_error(result)
    assert (copy.release(result, bits=10, largest_error=error) == shown).all()
    copy.release(result, bits=8, largest_error=error)
    assert secret.releases == copy.keys.secret.releases == (23, 1024)
    told = command("info", ledger)
    assert (told["releases"], told["limit"], told["key_id"]) == (23, 1024, secret.key_id)

    older = ledger.read_bytes()
    context.release(result, bits=7)
    ledger.write_bytes(older)
    with pytest.raises(errors.ReleaseError):
        context.release(result, bits=6)
    ledger.write_bytes(b"nothing")
    for refused in (context, copy):
        with pytest.raises(errors.ReleaseError, match="nothing is released"):
            refused.release(result, bits=10, largest_error=error)
    ledger.unlink()
    alone = sudare.SecretKey.open(tmp_path / "secret.key")
    with pytest.warns(errors.SecurityWarning, match="counting starts at 0"):
        found = sudare.Context.from_keys(secret=alone).release(
            result, bits=10, largest_error=error
        )
    # The noise follows from the key, so a lost ledger does not change it.
    assert (found == shown).all()


def test_releases_are_counted_while_the_key_is_saved(tmp_path: Path) -> None:
    context = sudare.Context.for_program(half, [(2,)], share_bits=4)
    secret = context.keys.secret
    results = [half(context.encrypt(np.array([0.1, 0.2]))) for _ in range(60)]
    begun = threading.Event()

    def release(part: list[EncryptedArray]) -> None:
        for result in part:
            context.release(result, bits=4)
            begun.set()

    threads = [threading.Thread(target=release, args=(results[i::4],)) for i in range(4)]
    for thread in threads:
        thread.start()
    begun.wait()
    for number in range(5):
        secret.save(tmp_path / str(number) / "secret.key" if number else tmp_path / "secret.key")
        (tmp_path / str(number + 1)).mkdir()
    for thread in threads:
        thread.join()
    assert secret.releases == (60, 1024)
    assert secret.ledger_path == tmp_path / f"{secret.key_id}.ledger"
    assert sudare.SecretKey.open(tmp_path / "secret.key").releases == (60, 1024)


def test_results_are_known_by_their_operations(context: sudare.Context) -> None:
    x = np.linspace(-1, 1, 300).reshape(100, 3)
    array = context.encrypt(x)
    shown = context.release(mean(array), bits=4)
    # The result as a server returns it.
    received = sudare.EncryptedArray.from_bytes(mean(array).to_bytes())
    assert abs(context.release(received, bits=4) - shown).max() <= 2.0**-3
    # A result of the same shape and level from another computation.
    for other in ((array * array).sum(axis=0) * 0.01, (array * x).mean(axis=0), mean(array) * 1.0):
        with pytest.raises(errors.UnsupportedError, match="share_bits"):
            context.release(other, bits=1)
    doubled = mean(array) + mean(array)
    assert doubled.level == mean(array).level and doubled.shape == (3,)
    with pytest.raises(errors.UnsupportedError, match="share_bits"):
        context.release(doubled, bits=1)
    assert context.release(doubled, bits=4, largest_error=1e-12).shape == (3,)


def test_what_was_not_planned_is_refused(context: sudare.Context) -> None:
    result = mean(context.encrypt(np.ones((100, 3))))
    with pytest.raises(errors.ReleaseError, match=r"share_bits=25"):
        context.release(result, bits=25)
    with pytest.raises(errors.ReleaseError, match="not even one"):
        context.release(result, bits=1, largest_error=0.5)
    with pytest.raises(errors.UnsupportedError, match="share_bits"):
        context.release(context.encrypt(np.ones(3)), bits=1)
    with pytest.raises(errors.OutsideRangeError, match="from -1 to 1"):
        context.encrypt(np.full((100, 3), 1.5))
    with pytest.raises(errors.ArgumentError, match="at least 1"):
        context.release(result, bits=0)
    with pytest.raises(errors.ReleaseError):
        sudare.Context.for_program(mean, [(100, 3)], share_bits=30)


def test_functions_are_released_within_their_intervals() -> None:
    root = sudare.functions.sqrt((0.25, 1), precision_bits=10)
    with pytest.raises(errors.ReleaseError, match="4.33 half-widths"):
        sudare.Context.for_program(root, [(4,)], share_bits=4)
    context = sudare.Context.for_program(
        root, [(4,)], share_bits=4, assume_intervals=True, mode="simulate"
    )
    shown = context.release(root(context.encrypt(np.array([0.25, 0.5, 0.75, 1.0]))), bits=4)
    assert abs(shown - np.sqrt([0.25, 0.5, 0.75, 1.0])).max() < 2.0**-3
    # Without a promise there is no bound, and the estimate stays.
    for known in (True, False):
        program = context.explain(root, [(4,)], assume_intervals=known).program
        assert program is not None and program.outputs[0].log2_error < -10
        assert (program.outputs[0].largest_error is not None) == known
    # Magnitudes of 1 and less are in an interval about 0.
    tanh = sudare.functions.tanh((-1, 1), precision_bits=10)
    sudare.Context.for_program(tanh, [(4,)], share_bits=4)
    # Its inputs may be larger.
    context = sudare.Context.for_program(tanh, [(4,)], mode="simulate")
    with pytest.raises(errors.UnsupportedError, match="share_bits"):
        context.release(tanh(context.encrypt(np.full(4, 0.5))), bits=1)
    # The estimate is known without a promise.
    context = sudare.Context.for_program(root, [(4,)])
    found = root(context.encrypt(np.full(4, 0.5))).log2_error
    assert found is not None and found < -10


def test_errors_are_bounded_for_the_keys_that_there_are() -> None:
    def second(x: sudare.EncryptedArray) -> sudare.EncryptedArray:
        return x[21]

    # Keys for any program rotate by powers of two.
    general = sudare.Context(depth=2).explain(second, [(64, 16)]).program
    own = sudare.Context.for_program(second, [(64, 16)]).explain().program
    assert general is not None and own is not None
    bounds = [program.outputs[0].largest_error for program in (general, own)]
    assert bounds[0] is not None and bounds[1] is not None
    assert not general.missing_keys and bounds[0] > 1.1 * bounds[1]


def test_a_bound_can_be_given() -> None:
    program = sudare.Context(depth=2).explain(mean, [(100, 3)]).program
    assert program is not None
    context = sudare.Context(depth=2, mode="simulate")
    result = mean(context.encrypt(np.full((100, 3), 0.5)))
    assert program.outputs[0].share_bits is None
    with pytest.raises(errors.ReleaseError, match="values with errors of up to"):
        context.release(result, bits=4, largest_error=program.outputs[0].largest_error)
    shown = context.release(result, bits=4, largest_error=1e-14)
    assert (shown == 0.25).all()


def test_results_show_the_error_that_was_planned(context: sudare.Context) -> None:
    program = context.explain().program
    assert program is not None
    (output,) = program.outputs
    x = context.encrypt(np.linspace(-1, 1, 300).reshape(100, 3))
    result = mean(x)
    assert result.log2_error == output.log2_error
    assert f"error=2^{output.log2_error:.1f}" in repr(result)
    # Nothing is known about an unplanned program, or without a plan.
    detached = sudare.EncryptedArray.from_bytes(result.to_bytes())
    for other in (x, context.encrypt(np.ones(3)), detached):
        assert other.log2_error is None and "error" not in repr(other)
    server = context.for_server()
    assert server.attach(result).log2_error is None


def command(*args: object) -> Any:
    run = [sys.executable, "-m", "sudare", *map(str, args), "--json"]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def births() -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(5)
    smoker = rng.integers(0, 2, 60)
    return {"age": rng.integers(14, 46, 60), "weight": rng.normal(60, 9, 60), "smoker": smoker}


def test_statistics_are_released_to_the_bits_planned_for(tmp_path: Path) -> None:
    table = births()
    plan = stats.plan(table, share_bits=10)
    keys = plan.make_keys()
    result = stats.compute(plan.encrypt(table, keys.public), keys.evaluation)
    own, shown = stats.decrypt(result, keys.secret), stats.release(result, keys.secret, 10)
    stats.release(result, keys.secret, 10)
    assert keys.secret.releases == (1, 1024)
    assert isinstance(own, stats.Summary) and isinstance(shown, stats.Summary)

    def check(mean: Any) -> None:
        """Returns whether means are multiples of 2^-10 of the largest distance, and within that of the true ones."""
        for name, found, exact in zip(table, mean, own.mean, strict=True):
            centre = table[name].mean()
            unit = np.abs(table[name] - centre).max() / 1024
            assert abs(found - exact) <= 1.000_001 * unit
            steps = (found - centre) / unit
            assert abs(steps - round(steps)) < 1e-5

    check(shown.mean)
    assert not np.array_equal(own.covariance, shown.covariance)
    assert np.allclose(own.correlation, shown.correlation, atol=0.05)
    with pytest.raises(errors.ReleaseError):
        stats.release(result, keys.secret, 13)
    with pytest.raises(errors.ReleaseError):
        stats.plan(table, share_bits=0)

    # The same keys at the command line.
    keys.secret.save(tmp_path / "secret.key")
    result.save(tmp_path / "result.ct")
    secret = ["--secret", tmp_path / "secret.key"]
    check(command("decrypt", *secret, "-i", tmp_path / "result.ct", "--share", 10)["values"]["mean"])
    made = command(
        "keygen", "--params", "auto", "--for", plan.job, "--share", 10, "--out", tmp_path / "keys"
    )
    report = plan.explain()
    assert (made["log_n"], made["evaluation_key_bytes"]) == (
        report.log_n,
        report.evaluation_key_bytes,
    )


def test_groups_are_released() -> None:
    table = births()
    plan = stats.plan(table, "groups", by="smoker", share_bits=8)
    keys = plan.make_keys()
    result = stats.compute(plan.encrypt(table, keys.public), keys.evaluation)
    own, shown = stats.decrypt(result, keys.secret), stats.release(result, keys.secret, 8)
    assert isinstance(own, stats.Groups) and isinstance(shown, stats.Groups)
    assert np.array_equal(own.count, shown.count)
    assert not np.array_equal(own.mean, shown.mean)
    assert np.allclose(own.mean, shown.mean, atol=1.0)


def test_statistics_that_were_not_planned_for_it_are_not_released() -> None:
    table = births()
    plan = stats.plan(table)
    keys = plan.make_keys()
    result = stats.compute(plan.encrypt(table, keys.public), keys.evaluation)
    with pytest.raises(errors.ArgumentError, match="not precise enough"):
        stats.release(result, keys.secret, 12)
    # A server could claim another job with smaller errors for the result.
    other = stats.plan((60, 2)).make_keys()
    with pytest.raises(errors.MismatchError, match="stats:60x3.*stats:60x2"):
        stats.release(result, other.secret, 4)
