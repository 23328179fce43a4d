#!/usr/bin/env python3
"""Writes docs/costs.md: what programs and jobs take, as planned before any key is made.

python scripts/costs.py           # with the package sudare installed
python scripts/costs.py --check   # whether the page is what would be written
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import sudare

PAGE = Path(__file__).parents[1] / "docs" / "costs.md"


def covariance(x: sudare.EncryptedArray) -> sudare.EncryptedArray:
    centred = x - x.mean(axis=0)
    return centred.T @ centred / len(x)


def long_program(x: sudare.EncryptedArray) -> sudare.EncryptedArray:
    for _ in range(20):
        x = x * (1.4 - 0.5 * x * x)
    return x


# What a program does, in words; the program; the shapes of its inputs; whether it bootstraps.
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


def size(count: float) -> str:
    return f"{count / 1e6:.1f}\u00a0MB" if count < 1e9 else f"{count / 1e9:.1f}\u00a0GB"


def time(seconds: float) -> str:
    return f"{seconds:.2g}\u00a0s" if seconds < 100 else f"{seconds / 60:.0f}\u00a0min"


def shape_text(shape: tuple[int, ...]) -> str:
    return "\u00a0×\u00a0".join(f"{n:,}" for n in shape)


def row(*cells: object) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


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
        )


def page() -> str:
    return "\n".join(
        [
            "# What can I do, and what does it cost?",
            "",
            "Everything in these tables is planned, not measured: by `scripts/costs.py`, from sudare",
            "itself, before a key is made. Rings, levels and sizes of files are exact. Memory is what",
            "the server has at once, its keys included. Times are those of one thread of the",
            "[reference machine](performance.md), from counts of operations and its rates, without",
            "reading keys. All rows have 128 bits of security or more.",
            "",
            "## Programs on arrays",
            "What `Context.for_program(program, shapes)` plans; any program of yours is explained in the",
            "same way, with [`Context.explain`](api/arrays.md).",
            "",
            row("program", "shapes", "ring", "levels", "keys", "inputs", "memory", "time"),
            row(*["---"] * 8),
            *program_rows(),
            "",
            "## What was measured",
            "[Performance](performance.md) has times of operations, bootstrappings and trainings on two",
            "cores, [benchmarks](benchmarks.md) other libraries on the same machine.",
            "",
            "## What decides the cost",
            "- **Depth** decides the ring: [levels and scale](explain/levels.md).",
            "- **The number of values** matters in steps of thousands: a ciphertext that is half empty",
            "  costs as much as a full one ([slots](explain/slots.md)).",
            "- **Threads** divide the time: results are the same bit for bit.",
            "- **The owner's part is small**: encrypting and decrypting take milliseconds a ciphertext.",
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
