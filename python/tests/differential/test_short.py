"""Runs a few random cases of each kind: right within the stated error, or refused in all modes.

`scripts/differential.py` runs many more, and repeats single ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sudare import errors

from .arguments import uncovered
from .core import Expected, Generator, Outcome, attempt, case_of, judge, run_case
from .registry import GENERATORS

# Classes of faults, and the generators that draw cases of them.
CLASSES = {
    "numbers that leave the room of the modulus": {"arrays", "large numbers"},
    "numbers of padding": {"arrays"},
    "numbers outside of the interval of a function": {"arrays", "functions"},
    "compositions of polynomials that run away": {"functions"},
    "contexts that refuse inputs which they were planned for": {"arrays", "functions"},
    "stated errors that say nothing": {"arrays", "functions"},
    "ranges that do not hold": {"arrays"},
    "depths that do not cover what pages count": {"integers", "moduli"},
    "negative zeros and large integers that name groups": {"statistics"},
    "variances below their error": {"statistics", "least squares"},
    "weights whose sum is below its error": {"statistics"},
    "marks of thousands": {"text tables"},
    "words for missing values": {"text tables"},
    "types that are no numbers": {"parquet tables", "columns"},
    "penalties and weights of classes": {"classifiers"},
    "labels that change their kind": {"classifiers", "calibration"},
    "columns in another order": {"classifiers"},
    "few rows": {"classifiers"},
    "other tables in later steps": {"calibration", "held-out rows"},
    "attributes, inputs and axes of models that are not looked at": {"onnx"},
    "patterns of exporters": {"onnx"},
    "samples of another shape": {"networks"},
    "imaginary parts": {"networks", "searches"},
    "payloads that end in zeros": {"searches"},
    "headers that look like numbers": {"files of vectors"},
    "types, orders and containers of operands": {
        "arrays",
        "integers",
        "statistics",
        "classifiers",
        "searches",
    },
    "errors of other packages": {
        "arrays",
        "integers",
        "moduli",
        "statistics",
        "networks",
        "searches",
        "arguments",
        "usual arguments",
    },
    "sizes whose refusal takes long": {"arguments", "usual arguments"},
}

# Number of drawn and of executed cases of each kind. The script runs the other kinds.
SHORT: dict[str, tuple[int, int]] = {
    "arrays": (200, 12),
    "functions": (30, 4),
    "large numbers": (40, 6),
    "integers": (40, 40),
    "moduli": (6, 6),
    "statistics": (14, 14),
    "text tables": (12, 12),
    "parquet tables": (10, 10),
    "classifiers": (10, 1),
    "columns": (20, 20),
    "least squares": (20, 2),
    "calibration": (5, 5),
    "held-out rows": (1, 1),
    "onnx": (60, 60),
    "networks": (30, 1),
    "searches": (10, 10),
    "files of vectors": (2, 2),
    "arguments": (400, 400),
    "usual arguments": (60, 60),
}
SEED = 2026


CHOSEN = [generator for generator in GENERATORS if generator.name in SHORT]


@pytest.mark.parametrize("generator", CHOSEN, ids=lambda generator: generator.name)
def test_cases_are_right_or_refused(generator: Generator) -> None:
    drawn, executed = SHORT[generator.name]
    wrong = []
    for number in range(drawn):
        case = case_of(generator, SEED, number)
        verdict = run_case(case, execute=number * executed % drawn < executed)
        if verdict.kind == "finding":
            again = f"scripts/differential.py {generator.name!r} --seed {SEED} --number {number}"
            wrong.append(f"{again}: {verdict.reason}: {verdict.detail}")
    assert not wrong, "\n".join(wrong)


def test_each_class_has_its_generators() -> None:
    found: dict[str, set[str]] = {}
    for generator in GENERATORS:
        for name in generator.covers:
            found.setdefault(name, set()).add(generator.name)
    assert found == CLASSES


def test_every_parameter_of_the_package_is_drawn() -> None:
    assert uncovered() == []


def test_a_case_is_the_same_again() -> None:
    for generator in GENERATORS:
        first, second = (case_of(generator, SEED, 3).describe() for _ in range(2))
        assert first == second, generator.name


REFUSED = Outcome(error=errors.ShapeError("no"))
FOREIGN = Outcome(error=KeyError("no"))
RIGHT = Outcome(np.array([1.0, 2.0]))
EXPECTED = Expected(np.array([1.0, 2.0]), 0.1)


@pytest.mark.parametrize(
    ("simulated", "executed", "expected", "kind"),
    [
        (RIGHT, Outcome(np.array([1.05, 2.0])), EXPECTED, "right"),
        (RIGHT, Outcome(np.array([1.0, 2.2])), EXPECTED, "wrong value"),
        (RIGHT, Outcome(np.array([1.0, np.nan])), EXPECTED, "wrong value"),
        (RIGHT, Outcome(np.array([1.0])), EXPECTED, "wrong value"),
        (RIGHT, REFUSED, EXPECTED, "refused in one way only"),
        (REFUSED, REFUSED, EXPECTED, "ShapeError"),
        (REFUSED, REFUSED, None, "ShapeError"),
        (RIGHT, RIGHT, None, "taken though the reference refuses"),
        (RIGHT, FOREIGN, EXPECTED, "foreign exception"),
        (FOREIGN, FOREIGN, None, "foreign exception"),
    ],
)
def test_verdicts(simulated: Any, executed: Any, expected: Any, kind: str) -> None:
    outcomes = {"simulate": simulated, "execute": executed}
    both = None if expected is None else dict.fromkeys(outcomes, expected)
    assert judge(outcomes, both).reason == kind


def test_promises_and_exact_integers() -> None:
    refused = judge({"execute": REFUSED}, {"execute": EXPECTED}, must="a page says so")
    assert refused.reason == "refused though a page says so"
    large = Expected(np.array([2**70], dtype=object), 0.0)
    assert large.fault(np.array([2**70 + 1], dtype=object)) is not None
    assert large.fault(np.array([2**70], dtype=object)) is None


def test_panics_are_foreign() -> None:
    class Panic(BaseException):
        pass

    def fail() -> None:
        raise Panic

    assert attempt(fail).foreign
