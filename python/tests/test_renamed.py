"""Old names of functions work for one more release, and warn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sudare import distributed, errors, linear_model, nn, scoring, search

RENAMED: list[tuple[Any, str, str]] = [
    (distributed, "train", "compute"),
    (linear_model, "train", "compute"),
    (linear_model.LogisticRegression, "load", "decrypt"),
    (linear_model.Ridge, "load", "decrypt"),
    (nn.HiddenPlan, "generate_keys", "make_keys"),
    (nn.HiddenPlan, "run", "compute"),
    (nn.Plan, "generate_keys", "make_keys"),
    (nn.Plan, "run", "compute"),
    (scoring, "score", "compute"),
    (search.PublicKey, "query", "encrypt"),
    (search.SecretKey, "query", "encrypt"),
    (search.SecretKey, "read", "decrypt"),
    (search.Server, "search", "compute"),
]


@pytest.mark.parametrize(("owner", "old", "new"), RENAMED)
def test_old_names_warn(owner: Any, old: str, new: str) -> None:
    alias: Callable[..., Any] = getattr(owner, old)
    assert alias.__name__ == old and getattr(owner, new).__name__ == new
    with pytest.warns(DeprecationWarning, match=f"{old} will be removed: call {new} instead") as caught:
        with pytest.raises(TypeError):
            # The function is not called with this argument.
            alias(no_such_argument=None)
    assert caught[0].filename == __file__


def test_old_names_do_the_same() -> None:
    model = linear_model.Ridge(mode="simulate").fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
    with pytest.warns(DeprecationWarning), pytest.raises(errors.ArgumentError):
        model.load(None, None)  # type: ignore[arg-type]
    rng_layers = [([[0.5, 0.25]], [0.0])]
    network = nn.Network.dense(rng_layers)
    plan = nn.plan(network, batch=1, calibration=[[0.1, 0.2]])
    with pytest.warns(DeprecationWarning):
        secret, keys = plan.generate_keys()
    batch = plan.encrypt(secret, [[0.1, 0.2]])
    with pytest.warns(DeprecationWarning):
        result = plan.run(keys, batch)
    assert abs(plan.decrypt(secret, result)[0, 0] - 0.1) < 0.01


def test_lazy_names_are_listed() -> None:
    import sudare

    assert {"LogisticRegression", "Ridge", "nn", "search", "pool", "scoring"} <= set(dir(sudare))
