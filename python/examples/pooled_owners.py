"""One model of the rows of several owners, who show them to no one.

Parties exchange values here, which each could save and open as a file. Run
`python python/examples/pooled_owners.py`. It needs pandas and narwhals.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from sudare import LogisticRegression, linear_model, pool

TABLE = Path(__file__).parents[2] / "crates/apps/data/lbw.csv"
OWNERS = ["north", "south", "west"]


def agreed_schema(births: pd.DataFrame) -> pool.Schema:
    """Makes the schema that owners agree on: columns, possible values and classes.

    Two rows with the lowest and the highest possible values tell nothing about a table.
    """
    low = births.min().where(births.nunique() == 2, 0)
    high = births.max().where(births.nunique() == 2, 500)
    limits = pd.DataFrame([low, high]).astype(float)
    return pool.Schema.draft(limits.drop(columns="y"), pd.Series([0, 1], name="y"), owners=OWNERS)


def main() -> None:
    births = pd.read_csv(TABLE)
    tables = {owner: births.iloc[i::3] for i, owner in enumerate(OWNERS)}
    features = {owner: table.drop(columns="y") for owner, table in tables.items()}
    classes = {owner: table["y"] for owner, table in tables.items()}
    schema = agreed_schema(births)
    model = LogisticRegression(max_iter=3)

    # The holder of the key, who gets no file of a single owner.
    keys = pool.plan(schema, len(births), model).make_keys()
    # Each owner encrypts sums, the server adds them, and the holder derives a transform.
    own = {owner: (features[owner], classes[owner], owner, keys.public) for owner in OWNERS}
    sums = [pool.encrypt_sums(schema, *own[owner]) for owner in OWNERS]
    total = pool.add(schema, sums)
    summary = pool.statistics(schema, total, keys.secret)
    transform = pool.make_transform(schema, total, keys.secret)
    # Each owner encrypts rows, the server trains, and the holder decrypts the model.
    rows = [pool.encrypt(transform, *own[owner]) for owner in OWNERS]
    model.decrypt(linear_model.compute(rows, keys.evaluation), keys.secret)

    everything = births.drop(columns="y")
    print("rows", len(births), "accuracy", round(model.score(everything, births["y"]), 3))
    assert np.allclose(summary.mean, everything.mean(), rtol=1e-6)
    alone = LogisticRegression(max_iter=3, mode="simulate").fit(everything, births["y"])
    assert (model.predict(everything) == alone.predict(everything)).mean() > 0.95


if __name__ == "__main__":
    main()
