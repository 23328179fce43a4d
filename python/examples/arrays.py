"""Your own NumPy program on encrypted arrays: the covariance of the columns of a matrix.

Owner and server exchange the files in a directory. Run `python python/examples/arrays.py`.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import sudare


def covariance(x: Any) -> Any:
    """Computes on plain and on encrypted arrays. Both sides have this program."""
    centred = x - x.mean(axis=0)
    return centred.T @ centred / len(x)


def owner_encrypts(rows: np.ndarray, shared: Path) -> sudare.SecretKey:
    """Finds ring, levels and keys for the program, and encrypts."""
    ctx = sudare.Context.for_program(covariance, [rows.shape], ranges=[(-6, 6)])
    plan = ctx.explain(covariance, [rows.shape])
    print(f"N = 2^{plan.log_n}, {plan.evaluation_key_bytes / 1e6:.0f} MB of keys")
    ctx.keys.evaluation.save(shared / "evaluation.key")
    ctx.encrypt(rows).save(shared / "rows.array")
    return ctx.keys.secret


def server_computes(shared: Path) -> None:
    """Runs the program. Levels, scales and rotations are automatic."""
    server = sudare.Context.from_keys(sudare.EvaluationKeys.open(shared / "evaluation.key"))
    assert not server.can_decrypt
    covariance(server.load(shared / "rows.array")).save(shared / "result.array")


def owner_decrypts(shared: Path, secret: sudare.SecretKey) -> np.ndarray:
    """Decrypts, in another process if you like: the secret key is enough."""
    owner = sudare.Context.from_keys(secret=secret)
    return owner.decrypt(owner.load(shared / "result.array"))


def main() -> None:
    rows = np.random.default_rng(0).normal(size=(200, 3))
    with TemporaryDirectory() as directory:
        secret = owner_encrypts(rows, Path(directory))
        server_computes(Path(directory))
        found = owner_decrypts(Path(directory), secret)
    print(found.round(4))
    assert np.allclose(found, np.cov(rows.T, bias=True), atol=1e-5)


if __name__ == "__main__":
    main()
