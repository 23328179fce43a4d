"""Means that you may show to others: released with noise that hides the error of encryption.

The error of a decrypted value depends on the secret key, so show only what `release` returns.
"""

from typing import Any

import numpy as np

import sudare
from sudare import stats

BITS = 10


def means(x: Any) -> Any:
    """Both sides have this program."""
    return x.mean(axis=0)


def server_computes(keys: sudare.EvaluationKeys, sent: bytes) -> bytes:
    """Runs the program. Bytes stand for files."""
    server = sudare.Context.from_keys(keys)
    result: sudare.EncryptedArray = means(server.attach(sudare.EncryptedArray.from_bytes(sent)))
    return result.to_bytes()


def of_arrays(answers: np.ndarray) -> np.ndarray:
    """Releases the result of your own program. The plan makes scales precise enough."""
    ctx = sudare.Context.for_program(means, [answers.shape], ranges=[(-1, 1)], share_bits=BITS)
    answer = server_computes(ctx.keys.evaluation, ctx.encrypt(answers).to_bytes())
    return ctx.release(ctx.attach(sudare.EncryptedArray.from_bytes(answer)), bits=BITS)


def of_a_table(table: dict[str, np.ndarray]) -> np.ndarray:
    """Releases statistics of a table. The server's part is `stats.compute`."""
    plan = stats.plan(table, share_bits=BITS)
    keys = plan.make_keys()
    result = stats.compute(plan.encrypt(table, keys.secret), keys.evaluation)
    summary = stats.release(result, keys.secret, bits=BITS)
    assert isinstance(summary, stats.Summary)
    return summary.mean


def main() -> None:
    rng = np.random.default_rng(0)
    answers = rng.uniform(-1, 1, size=(200, 3))
    table = {"age": rng.uniform(20, 80, size=100), "dose": rng.uniform(0, 3, size=100)}
    shown = of_arrays(answers)
    released = of_a_table(table)
    print("answers", shown.round(4), "table", released.round(3))
    assert (shown * 2**BITS % 1 == 0).all()
    assert np.abs(shown - answers.mean(axis=0)).max() < 1.01 / 2**BITS
    columns = np.column_stack(list(table.values()))
    # Errors are parts of the largest deviation of a column, which is below 60 and 3.
    assert (np.abs(released - columns.mean(axis=0)) < np.array([60, 3]) / 2**BITS).all()


if __name__ == "__main__":
    main()
