"""Contexts before any array: parameters, errors, progress."""

from __future__ import annotations

import re

import pytest

import sudare
from sudare import errors


@pytest.mark.parametrize("depth", [0, 1, 2, 3, 7, 12, 20, 31])
def test_every_depth_gets_a_secure_ring(depth: int) -> None:
    explained = sudare.Context(depth).explain()
    assert explained.levels == depth
    assert explained.security_bits >= 128
    assert 13 <= explained.log_n <= 16
    assert f"{explained.security_bits:.1f} bits" in str(explained)


def test_small_depths_take_small_rings() -> None:
    rings = [sudare.Context(depth).explain().log_n for depth in (1, 4, 10, 20)]
    assert rings == [13, 14, 15, 16]


def test_what_cannot_be_is_refused_with_advice() -> None:
    with pytest.raises(errors.ParametersError, match="bootstrap=True"):
        sudare.Context(50)
    with pytest.raises(ValueError, match="depth is missing"):
        sudare.Context()
    with pytest.raises(errors.ArgumentError, match="execute"):
        sudare.Context(1, mode="guess")  # type: ignore[arg-type]
    with pytest.raises(errors.ParametersError, match="14"):
        sudare.Context(15, bootstrap=True)
    with pytest.raises(errors.ParametersError, match="n16-boot-real"):
        sudare.Context.preset("n99")
    with pytest.raises(errors.ArgumentError, match="at least one key"):
        sudare.Context.from_keys()
    for depth in (-1, 2.5, "3", 2**40):
        with pytest.raises(errors.ArgumentError, match="depth is"):
            sudare.Context(depth)  # type: ignore[arg-type]
    public = sudare.Context(1).keys.public
    with pytest.raises(errors.ArgumentError, match="PublicKey was given as EvaluationKeys"):
        sudare.Context.from_keys(public)  # type: ignore[arg-type]


def test_presets_keep_their_parameters() -> None:
    explained = sudare.Context.preset("n13").explain()
    assert (explained.log_n, explained.levels, explained.bootstrap_levels) == (13, 3, None)
    small = sudare.Context.preset("n16-boot-real", insecure_log_n=10).explain()
    assert small.log_n == 10 and small.security_bits < 128
    assert small.bootstrap_levels is not None and small.bootstrap_levels >= 14


def test_simulation_has_no_keys() -> None:
    with pytest.raises(errors.UnsupportedError):
        sudare.Context(3, mode="simulate").keys  # noqa: B018


def test_progress_is_told() -> None:
    calls: list[tuple[str, int, int]] = []
    context = sudare.Context(3, progress=lambda *call: calls.append(call))
    count = len(context.keys.evaluation)
    assert calls[-1] == ("evaluation keys", count, count)
    assert [done for _, done, _ in calls] == sorted(done for _, done, _ in calls)
    # Bars of tqdm, if it is installed.
    assert sudare.Context(1, progress=True).keys


def test_what_progress_raises_comes_out() -> None:
    def stop(*_: object) -> None:
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        sudare.Context(3, progress=stop).keys  # noqa: B018


def test_the_machine_is_described() -> None:
    isa, threads = sudare.cpu_info()
    assert isa and threads >= 1
    assert re.fullmatch(r"\d+\.\d+\.\d+", sudare.__version__)
