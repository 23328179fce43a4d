#!/usr/bin/env python3
"""Writes a synthetic table of credit records as CSV, always the same for the same arguments.

Features follow a few common factors, as in real records. A quarter of them are 0 or 1, the rest real in [-1, 1]. A
logistic model of a tenth of the features draws the column `default`.
Needs NumPy.

    scripts/synthetic_table.py --output table.csv                      # 422,108 x 200, 590 MB
    scripts/synthetic_table.py --rows 10000 --features 20 -o small.csv
"""

import argparse
from pathlib import Path

import numpy as np

FACTORS = 12
BASE_RATE = 0.2
SIGNAL = 1.2  # Standard deviation of the logit.
CHUNK = 8192


def chunks(rows, features, seed):
    """Yields arrays of at most CHUNK rows, the target in the last column."""
    random = np.random.default_rng(seed)
    loadings = random.normal(size=(FACTORS, features)) / np.sqrt(FACTORS)
    weights = np.where(random.random(features) < 0.1, random.normal(size=features), 0.0)
    weights[0] = 1.0
    binary = np.arange(features) % 4 == 3
    for start in range(0, rows, CHUNK):
        count = min(CHUNK, rows - start)
        factors = random.normal(size=(count, FACTORS))
        latent = factors @ loadings + random.normal(size=(count, features))
        values = np.where(binary, latent > 1.0, np.tanh(latent / 2)).round(4)
        logit = values @ weights
        logit = (logit - logit.mean()) / logit.std() * SIGNAL + np.log(BASE_RATE / (1 - BASE_RATE))
        target = random.random(count) < 1 / (1 + np.exp(-logit))
        yield np.column_stack([values, target])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=422_108)
    parser.add_argument("--features", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    with options.output.open("w") as file:
        file.write(",".join([f"x{i}" for i in range(options.features)] + ["default"]) + "\n")
        for chunk in chunks(options.rows, options.features, options.seed):
            np.savetxt(file, chunk, fmt="%.4g", delimiter=",")


if __name__ == "__main__":
    main()
