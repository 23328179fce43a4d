"""Means that you may show to others: released with noise that hides the error of encryption.

The error of a decrypted value depends on the secret key, so show nobody the result of `decrypt`. Run
`python python/examples/release.py`.
"""

from typing import Any

import numpy as np

import sudare
from sudare import stats

BITS = 10


def means(x: Any) -> Any:
    """Both sides have this program."""
    return x.mean(axis=0)


def of_arrays(answers: np.ndarray) -> np.ndarray:
    """Releases the result of your own program. The plan makes scales precise enough."""
    ctx = sudare.Context.for_program(means, [answers.shape], ranges=[(-1, 1)], share_bits=BITS)
    server = sudare.Context.from_keys(ctx.keys.evaluation)
    result = means(server.attach(ctx.encrypt(answers)))
    return ctx.release(result, bits=BITS)


def of_a_table(table: dict[str, np.ndarray]) -> np.ndarray:
    """Releases statistics of a table."""
    plan = stats.plan(table, share_bits=BITS)
    keys = plan.make_keys()
    result = stats.compute(plan.encrypt(table, keys.secret), keys.evaluation)
    summary = stats.release(result, keys.secret, bits=BITS)
    assert isinstance(summary, stats.Summary)
    return summary.mean


def main() -> None:
    rng = np.random.default_rng(0)
    answers = rng.uniform(-1, 1, size=(200, 3))
    shown = of_arrays(answers)
    print("answers", shown)
    assert (shown * 2**BITS % 1 == 0).all()
    assert np.abs(shown - answers.mean(axis=0)).max() < 1.01 / 2**BITS

    table = {"age": rng.uniform(20, 80, size=100), "dose": rng.uniform(0, 3, size=100)}
    released = of_a_table(table)
    print("table", released.round(3))
    for mean, column in zip(released, table.values(), strict=True):
        largest = np.abs(column - column.mean()).max()
        assert abs(mean - column.mean()) < 2 * largest / 2**BITS


if __name__ == "__main__":
    main()
