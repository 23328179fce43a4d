"""Exact sums and counts of encrypted integers: amounts in cents by public regions.

Owner and server exchange the files in a directory. Run `python python/examples/integers.py`.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import sudare

# A prime above twice the largest result, with a place for an integer in every coefficient.
T = 786433


def owner_encrypts(amounts: np.ndarray, late: np.ndarray, shared: Path) -> sudare.IntegerContext:
    """Makes keys for two products in a row, and encrypts amounts and marks of 0 and 1."""
    ctx = sudare.IntegerContext(t=T, depth=2)
    ctx.keys.evaluation.save(shared / "evaluation.key")
    ctx.encrypt(amounts).save(shared / "amounts.array")
    ctx.encrypt(late).save(shared / "late.array")
    return ctx


def server_computes(regions: np.ndarray, shared: Path) -> None:
    """Sums the amounts of late payments by region. A row of the matrix marks a region."""
    keys = sudare.IntegerEvaluationKeys.open(shared / "evaluation.key")
    server = sudare.IntegerContext.from_keys(keys)
    amounts = server.load(shared / "amounts.array")
    late = server.load(shared / "late.array")
    members = (regions == np.arange(3)[:, None]).astype(int)
    (members @ (amounts * late)).save(shared / "sums.array")
    late.sum().save(shared / "count.array")


def main() -> None:
    rng = np.random.default_rng(0)
    amounts = rng.integers(100, 20_000, size=60)
    late = rng.integers(0, 2, size=60)
    regions = rng.integers(0, 3, size=60)
    with TemporaryDirectory() as directory:
        shared = Path(directory)
        owner = owner_encrypts(amounts, late, shared)
        server_computes(regions, shared)
        sums = owner.decrypt(owner.load(shared / "sums.array"))
        count = owner.decrypt(owner.load(shared / "count.array"))
    print("late, in cents by region:", sums, "payments:", int(count))
    assert np.array_equal(sums, [(amounts * late)[regions == k].sum() for k in range(3)])
    assert count == late.sum()


if __name__ == "__main__":
    main()
