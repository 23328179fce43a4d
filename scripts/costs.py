#!/usr/bin/env python3
"""Writes docs/costs.md: costs of programs and jobs, from plans made before any key.

python scripts/costs.py           # with the package sudare installed
python scripts/costs.py --check   # exits with 1 if the page differs
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from math import log2
from pathlib import Path
from typing import Any

import sudare
from sudare import stats

PAGE = Path(__file__).parents[1] / "docs" / "costs.md"


def covariance(x: sudare.EncryptedArray) -> sudare.EncryptedArray:
    centred = x - x.mean(axis=0)
    return centred.T @ centred / len(x)


def long_program(x: sudare.EncryptedArray) -> sudare.EncryptedArray:
    for _ in range(20):
        x = x * (1.4 - 0.5 * x * x)
    return x


# A description, the program, the shapes of its inputs, and whether it bootstraps.
PROGRAMS = [
    (
        "means and variances of columns",
        lambda x: [x.mean(axis=0), x.var(axis=0)],
        [(1000, 10)],
        False,
    ),
    ("covariances", covariance, [(500, 4)], False),
    ("covariances", covariance, [(16384, 9)], False),
    ("product of two encrypted matrices", lambda a, b: a @ b, [(64, 64), (64, 64)], False),
    (
        "scores of a linear model, encrypted weights",
        lambda x, w: x @ w,
        [(10000, 100), (100,)],
        False,
    ),
    (
        "sigmoid on [-8, 8], 16 bits",
        sudare.functions.sigmoid((-8, 8), precision_bits=16),
        [(100000,)],
        False,
    ),
    (
        "comparison of pairs, gap 0.01, 10 bits",
        sudare.functions.compare((0, 1), gap=0.01, precision_bits=10),
        [(10000,), (10000,)],
        False,
    ),
    ("60 products one after the other, bootstrapped", long_program, [(1000,)], True),
]


# A description of the statistics, the shape of the table, and the plan.
STATISTICS = [
    ("moments, covariances, correlations", (189, 10), stats.plan((189, 10))),
    ("moments, covariances, correlations", (16384, 9), stats.plan((16384, 9))),
    ("moments, covariances, correlations", (1000000, 20), stats.plan((1000000, 20))),
    (
        "histograms of 10 bins, quantiles",
        (100000, 5),
        stats.plan((100000, 5), "histogram", bins=10),
    ),
]

# Trainings with the settings of papers.
PAPER = {"preparation": "scale", "alpha": 0}
LARGE = {**PAPER, "learning_rate": 1, "rate": "constant", "sigmoid_range": 16}
# The data, its shape, the settings, and the time in docs/performance.md.
TRAININGS: list[tuple[str, tuple[int, int], dict[str, Any]]] = [
    ("lbw", (189, 9), {}),
    ("uis", (575, 8), {}),
    ("MNIST, 3 against 8", (11982, 196), {}),
    ("flights, four fifths", (261877, 200), {}),
    ("lbw", (189, 9), PAPER),
    ("lbw", (189, 9), {**PAPER, "max_iter": 30}),
    ("MNIST, 3 against 8", (11982, 196), {**LARGE, "max_iter": 32, "batch_size": 1024}),
    ("flights", (327346, 200), {**LARGE, "max_iter": 200, "batch_size": 512}),
]


def size(count: float) -> str:
    return f"{count / 1e6:.1f}\u00a0MB" if count < 1e9 else f"{count / 1e9:.1f}\u00a0GB"


def time(seconds: float) -> str:
    return f"{seconds:.2g}\u00a0s" if seconds < 100 else f"{seconds / 60:.0f}\u00a0min"


def shape_text(shape: tuple[int, ...]) -> str:
    return "\u00a0×\u00a0".join(f"{n:,}" for n in shape)


def row(*cells: object) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def head(*titles: str, last: tuple[str, ...] = ()) -> list[str]:
    titles = (*titles, "memory", "time", *last)
    return [row(*titles), row(*["---"] * len(titles))]


def errors(outputs: tuple[Any, ...]) -> tuple[str, str]:
    """Returns the expected error of the largest output, and its bound."""
    largest = [out.largest_error for out in outputs if out.largest_error is not None]
    bound = f"2^{log2(max(largest)):.0f}" if largest else "not known"
    return f"2^{max(out.log2_error for out in outputs):.0f}", bound


def program_rows() -> Iterator[str]:
    for what, program, shapes, bootstrap in PROGRAMS:
        context = sudare.Context.for_program(program, shapes, bootstrap=bootstrap)
        plan = context.explain(program, shapes)
        assert plan.program is not None
        yield row(
            what,
            ", ".join(map(shape_text, shapes)),
            f"2^{plan.log_n}",
            plan.program.depth,
            size(plan.evaluation_key_bytes),
            size(plan.program.input_bytes),
            size(plan.program.peak_memory_bytes),
            time(plan.program.seconds),
            *errors(plan.program.outputs),
        )


def statistics_rows() -> Iterator[str]:
    for what, shape, job in STATISTICS:
        plan = job.explain()
        assert plan.program is not None
        yield row(
            what,
            shape_text(shape),
            f"2^{plan.log_n}",
            size(plan.evaluation_key_bytes),
            size(plan.program.input_bytes),
            size(plan.program.peak_memory_bytes),
            time(plan.program.seconds),
        )


def training_rows() -> Iterator[str]:
    for what, shape, options in TRAININGS:
        job = sudare.LogisticRegression(**options).plan(*shape)
        plan = job.explain()
        assert plan.program is not None
        bootstraps = plan.program.bootstraps
        yield row(
            what,
            shape_text(shape),
            job.job.partition(", ")[2] + (f", {bootstraps} bootstrappings" if bootstraps else ""),
            f"2^{plan.log_n}",
            size(plan.evaluation_key_bytes),
            size(plan.program.input_bytes),
            size(plan.program.peak_memory_bytes),
            time(plan.program.seconds),
        )


def page() -> str:
    return "\n".join(
        [
            "# Costs",
            "",
            "This page is for you if you estimate a job. sudare plans it before it makes a key. `scripts/costs.py`",
            "wrote these tables from plans. You get the same figures for your own job with `explain()`.",
            "",
            "Rings, levels and sizes are exact. *Keys* is the size of the file of evaluation keys. *Table* and",
            "*inputs* are sizes in memory. *Memory* is the server's peak, keys included. Memory and *time* are",
            "predicted for one thread of the [reference machine](performance.md), from counts of operations",
            "and their rates. Time is the server's part alone. Add the time to make keys, encrypt and send.",
            "All rows have 128 bits of security or more.",
            "",
            "## Statistics of tables",
            "Use [`sudare.stats`](tutorials/statistics.md), or `sudare stats` on the command line.",
            "",
            *head("statistics", "rows × columns", "ring", "keys", "table"),
            *statistics_rows(),
            "",
            "## Training",
            "Use [`sudare.LogisticRegression`](tutorials/logistic-regression.md), or `sudare train`. The first four",
            "trainings use the default settings, the others the settings of published papers. For measured",
            "times see [large trainings](performance.md#large-trainings).",
            "",
            *head("data", "rows × features", "training", "ring", "keys", "table"),
            *training_rows(),
            "",
            "## Programs on arrays",
            "Use `Context.for_program(program, shapes)`, and `explain` for your own program. *Error* is the expected",
            "standard deviation of the error of encryption. *At most* bounds it for all inputs up to 1, and decides",
            "how much noise a [release](explain/noise.md) adds.",
            "",
            *head(
                *("program", "shapes", "ring", "levels", "keys", "inputs"),
                last=("error", "at most"),
            ),
            *program_rows(),
            "",
            "## Cost drivers",
            "- **Depth** decides the ring: [levels and scale](explain/levels.md).",
            "- **The number of values** matters in steps of thousands. A ciphertext that is half empty costs as much",
            "  as a full one ([slots](explain/slots.md)).",
            "- **Threads** divide the time. Results are the same, bit for bit.",
            "- **Your own part is small**: you encrypt and decrypt a ciphertext in milliseconds.",
            "",
            "[Choosing](choosing.md) shows how to make a job cheaper.",
            "",
        ]
    )


def main() -> int:
    text = page()
    if "--check" in sys.argv[1:]:
        return int(PAGE.read_text(encoding="utf-8") != text)
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
