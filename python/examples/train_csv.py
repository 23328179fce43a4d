"""Logistic regression on a CSV file with text and missing values.

Owner and server exchange the files in a directory. Run `python python/examples/train_csv.py`. It needs pandas,
narwhals and scikit-learn.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sudare
from sudare import linear_model

TABLE = Path(__file__).parents[2] / "crates/apps/data/lbw.csv"


def with_gaps(path: Path) -> None:
    """Writes a CSV file with a column of text and empty cells."""
    births = pd.read_csv(TABLE)
    births["race"] = births.pop("race_white").map({1: "white", 0: "other"})
    births["race"] = births["race"].mask(births.pop("race_black") == 1, "black")
    births["lwt"] = births["lwt"].astype(float).mask(births.index % 11 == 0)
    births.to_csv(path, index=False)


def server_trains(shared: Path) -> None:
    """Trains on the encrypted table."""
    table = sudare.EncryptedTable.open(shared / "births.ct")
    keys = sudare.EvaluationKeys.open(shared / "evaluation.key")
    linear_model.compute(table, keys).save(shared / "model.ct")


def main() -> None:
    with TemporaryDirectory() as directory:
        shared = Path(directory)
        with_gaps(shared / "births.csv")
        # The owner: gaps get the mean of their column, and each race a column of 0 and 1.
        births = pd.read_csv(shared / "births.csv")
        classes = births.pop("y")
        model = sudare.LogisticRegression(missing="mean", max_iter=3)
        keys = model.plan(births, classes).make_keys()
        keys.evaluation.save(shared / "evaluation.key")
        model.encrypt(births, classes, keys.secret, path=shared / "births.ct")
        server_trains(shared)
        # The owner again: rows and classes calibrate the probabilities.
        model.decrypt(sudare.EncryptedResult.open(shared / "model.ct"), keys.secret, births, classes)
    print("accuracy", round(model.score(births, classes), 3))

    plain = pd.get_dummies(births.fillna({"lwt": births["lwt"].mean()}), dtype=float)
    usual = make_pipeline(StandardScaler(), LogisticRegression()).fit(plain, classes)
    assert (model.predict(births) == usual.predict(plain)).mean() > 0.95


if __name__ == "__main__":
    main()
