#!/usr/bin/env python3
"""Compares operations on slots of integers in sudare and in Lattigo, value by value.

Both programs encode and encrypt the same slots modulo 65537 at N = 2^12, each under its own keys. They decrypt
products of BGV and BFV, rotations within rows and exchanged rows. Coefficients of encodings are equal up to an
automorphism, because each library evaluates at another root of unity. Prints the comparisons. Exit status: 0 if
all agree; 1 if they differ, or a program cannot be built or run.
"""

import sys

from programs import BUILDERS, BuildFailed, say
from values import of_example, of_program


MODULUS = 65537


def image(coefficients: list[int], exponent: int) -> list[int]:
    """Returns the coefficients of `a(X**exponent)` modulo `X**n + 1`."""
    n = len(coefficients)
    out = [0] * n
    for i, c in enumerate(coefficients):
        place = i * exponent % (2 * n)
        out[place % n] = c if place < n else -c % MODULUS
    return out


def same_encoding(ours: list[int], theirs: list[int]) -> bool:
    """Returns whether an automorphism maps one polynomial to the other."""
    n = len(ours)
    if len(theirs) != n:
        return False
    # Possible images of the coefficient of X.
    signed = (ours[1], -ours[1] % MODULUS)
    likely = (k for k in range(1, 2 * n, 2) if theirs[k % n] == signed[k >= n])
    return any(image(ours, k) == theirs for k in likely)


def differences(ours: dict[str, list[int]], theirs: dict[str, list[int]]) -> list[str]:
    """Describes the differences."""
    found = []
    for op in dict.fromkeys([*ours, *theirs]):
        a, b = ours.get(op, []), theirs.get(op, [])
        if len(a) != len(b):
            found.append(f"{op}: {len(a)} and {len(b)} values")
        elif op == "coefficients":
            if not same_encoding(a, b):
                found.append(f"{op}: no automorphism makes them the same")
        elif wrong := sum(x != y for x, y in zip(a, b)):
            found.append(f"{op}: {wrong} of {len(a)} values differ")
    return found


def main() -> int:
    try:
        ours = of_example("integer_slots")
        theirs = of_program([*BUILDERS["lattigo"](), "-slots"])
    except (BuildFailed, OSError) as error:
        say(str(error))
        return 1
    found = differences(ours, theirs)
    for difference in found:
        say(difference)
    print(f"{len(ours)} results of sudare and lattigo: {', '.join(ours)}: {len(found)} differ")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
