"""Statistics of a confidential table: means, deviations, correlations and a regression.

Owner and server exchange the files in a directory. Run `python python/examples/table_statistics.py`.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import sudare
from sudare import stats

TABLE = Path(__file__).parents[2] / "crates/apps/data/lbw.csv"
COLUMNS = ("age", "lwt", "smoke", "y")


def owner_encrypts(births: dict[str, np.ndarray], shared: Path) -> sudare.SecretKey:
    """Makes keys for this job alone, and encrypts. The plan uses the shape of the table."""
    plan = stats.plan(births)
    keys = plan.make_keys()
    keys.evaluation.save(shared / "evaluation.key")
    plan.encrypt(births, keys.secret).save(shared / "births.ct")
    return keys.secret


def server_computes(shared: Path) -> None:
    """Computes without the secret key."""
    keys = sudare.EvaluationKeys.open(shared / "evaluation.key")
    table = sudare.EncryptedTable.open(shared / "births.ct")
    stats.compute(table, keys).save(shared / "result.ct")


def owner_decrypts(shared: Path, secret: sudare.SecretKey) -> stats.Summary:
    """Decrypts the statistics. Results of another table are refused."""
    table = sudare.EncryptedTable.open(shared / "births.ct")
    result = sudare.EncryptedResult.open(shared / "result.ct")
    summary = stats.decrypt(result, secret, table=table)
    assert isinstance(summary, stats.Summary)
    return summary


def main() -> None:
    data = np.genfromtxt(TABLE, delimiter=",", names=True)
    births = {name: data[name] for name in COLUMNS}
    with TemporaryDirectory() as directory:
        secret = owner_encrypts(births, Path(directory))
        server_computes(Path(directory))
        summary = owner_decrypts(Path(directory), secret)
    print(dict(zip(summary.columns, summary.mean.round(2).tolist(), strict=True)))
    print("on birth weight:", summary.least_squares("y").coefficients.round(4))

    table = np.column_stack([births[name] for name in COLUMNS])
    assert np.allclose(summary.mean, table.mean(axis=0), rtol=1e-4)
    assert np.allclose(summary.std, table.std(axis=0, ddof=1), rtol=1e-4)
    assert np.allclose(summary.correlation, np.corrcoef(table.T), atol=1e-4)


if __name__ == "__main__":
    main()
