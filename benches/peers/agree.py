#!/usr/bin/env python3
"""Compares what slots of integers become in sudare and in Lattigo, value by value.

Both programs encode and encrypt the same slots modulo 65537 at N = 2^12, each under keys of its own, and
decrypt products of BGV and BFV, rotations within rows and rows exchanged. Coefficients of encodings are
compared up to the root of unity that each library evaluates at: an automorphism. Prints what was
compared. Exit status: 0 where all of it agrees; 1 where it does not, or a program cannot be built or run.
"""

import sys

from programs import BUILDERS, BuildFailed, say
from values import of_example, of_program


MODULUS = 65537


def image(coefficients: list[int], exponent: int) -> list[int]:
    """The coefficients of `a(X**exponent)` modulo `X**n + 1`."""
    n = len(coefficients)
    out = [0] * n
    for i, c in enumerate(coefficients):
        place = i * exponent % (2 * n)
        out[place % n] = c if place < n else -c % MODULUS
    return out


def same_encoding(ours: list[int], theirs: list[int]) -> bool:
    """Whether an automorphism takes one polynomial to the other."""
    n = len(ours)
    if len(theirs) != n:
        return False
    # Where the coefficient of X may go.
    signed = (ours[1], -ours[1] % MODULUS)
    likely = (k for k in range(1, 2 * n, 2) if theirs[k % n] == signed[k >= n])
    return any(image(ours, k) == theirs for k in likely)


def differences(ours: dict[str, list[int]], theirs: dict[str, list[int]]) -> list[str]:
    """What is not the same in both, in words."""
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
