"""Scores of encrypted rows by an encrypted model: the server sees neither.

Owner and server exchange the files in a directory. Run `python python/examples/score_rows.py`.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import sudare
from sudare import scoring

TABLE = Path(__file__).parents[2] / "crates/apps/data/lbw.csv"


def owner_encrypts(
    model: sudare.LogisticRegression, rows: np.ndarray, shared: Path
) -> sudare.SecretKey:
    """Encrypts rows, prepared like the training table of the model, and the model."""
    plan = scoring.plan(*rows.shape)
    keys = plan.make_keys()
    keys.evaluation.save(shared / "evaluation.key")
    plan.encrypt(rows, keys.secret, like=model).save(shared / "rows.ct")
    plan.encrypt_model(model, keys.secret).save(shared / "model.ct")
    return keys.secret


def server_scores(shared: Path) -> None:
    """Computes the score of each row. Pass a plain model in place of the encrypted one if you have it."""
    rows = sudare.EncryptedTable.open(shared / "rows.ct")
    model = sudare.EncryptedResult.open(shared / "model.ct")
    keys = sudare.EvaluationKeys.open(shared / "evaluation.key")
    scoring.compute(rows, model, keys).save(shared / "scores.ct")


def owner_decrypts(shared: Path, secret: sudare.SecretKey) -> np.ndarray:
    """Returns a score for each row: above 0 for the second class."""
    return scoring.decrypt(sudare.EncryptedResult.open(shared / "scores.ct"), secret).scores


def main() -> None:
    data = np.loadtxt(TABLE, delimiter=",", skiprows=1)
    rows = data[:, :9]
    # Trained in the clear here, with the steps of an encrypted training.
    model = sudare.LogisticRegression(mode="simulate").fit(rows, data[:, 9])
    new = rows[:20]
    with TemporaryDirectory() as directory:
        secret = owner_encrypts(model, new, Path(directory))
        server_scores(Path(directory))
        scores = owner_decrypts(Path(directory), secret)
    print("scores", scores[:5].round(3), "classes", (scores[:5] > 0).astype(int))
    assert np.allclose(scores, new @ model.coef_.ravel() + model.intercept_, atol=1e-3)


if __name__ == "__main__":
    main()
