#!/usr/bin/env python3
"""Compares operations on slots of real numbers in sudare and in TenSEAL, value by value.

Both programs encrypt the same numbers at N = 2^13 with a scale of 2^40, each under its own keys. They decrypt
sums, differences, products and powers. Prints the largest difference of each. Exit status: 0 if all differences
are within the errors of CKKS at this scale; 1 if not, or if a program cannot be run.

Needs Python 3.8 to 3.12 for the wheel of TenSEAL, which goes into a virtual environment below `target/`.
"""

import sys

from programs import BuildFailed, build_tenseal, say
from values import of_example, of_program

# Values are below 2, results below 16. Errors of encryption reach 2^-23. TenSEAL divides them by a special prime, to
# 2^-27. It reads a rescaled product at the scale of the factors, which differs by the quotient of a prime and that
# scale: 2^-22 once, 2^-16 in a fourth power.
OF_SUMS = 2.0**-21
OF_PRODUCTS = 2.0**-14


def tolerance(op: str) -> float:
    """Returns the largest difference to expect."""
    return OF_SUMS if op in ("encrypted", "sum", "difference") else OF_PRODUCTS


def largest(ours: list[float], theirs: list[float]) -> float:
    """Returns the largest difference, infinite if the results cannot be compared."""
    if len(ours) != len(theirs) or not ours:
        return float("inf")
    differences = [abs(a - b) for a, b in zip(ours, theirs)]
    return float("inf") if any(d != d for d in differences) else max(differences)


def compared(ours: dict[str, list[float]], theirs: dict[str, list[float]]) -> dict[str, float]:
    """Returns the largest difference by operation."""
    names = dict.fromkeys([*ours, *theirs])
    return {op: largest(ours.get(op, []), theirs.get(op, [])) for op in names}


def main() -> int:
    try:
        ours = of_example("real_slots")
        theirs = of_program(build_tenseal())
    except (BuildFailed, OSError) as error:
        say(str(error))
        return 1
    found = compared(ours, theirs)
    for op, difference in found.items():
        print(f"{op}: at most {difference:.1e} apart")
    return 0 if found and all(found[op] <= tolerance(op) for op in found) else 1


if __name__ == "__main__":
    sys.exit(main())
