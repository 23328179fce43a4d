"""Prices a search by representations for a sparse ternary secret.

May, "How to Meet Ternary LWE Keys", Crypto 2021 (ePrint 2021/216), writes a secret with w entries of
each sign as a sum of two vectors with w/2 + x of each sign, where x entries cancel. There are many such
sums, so the search considers only sums whose halves meet a condition on the samples: a tree of lists.
This program prices a tree in favour of the attacker. Memory is unbounded and free. Guesses of all
coordinates of the error in conditions are free, and so are polynomial factors. The cost is the longest
list, or the largest number of pairs in a merge.

Prints a table for docs/notes/sparse-secrets.md. Standard library only.
"""

from functools import lru_cache
from math import inf, lgamma, log

SIZES = [(log_n, weight) for log_n in (15, 16) for weight in (32, 48, 64)]
# Possible numbers of cancelling entries of each sign, at a level of the tree.
EXTRA = (0, 1, 2, 3, 4, 5, 6, 8, 10, 12)
DEPTHS = (1, 2, 3, 4)


def log2_choose(n: float, k: float) -> float:
    """Returns log2 of a binomial coefficient, for real numbers."""
    if k < 0 or k > n:
        return -inf
    return (lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)) / log(2)


def log2_ternary(n: float, each: float) -> float:
    """Returns log2 of the number of vectors of length n with `each` entries of each sign."""
    return log2_choose(n, each) + log2_choose(n - each, each)


@lru_cache(maxsize=None)
def log2_sums(n: int, each: float, extra: int) -> float:
    """Returns log2 of the number of ways to write a vector with `each` entries of each sign as a sum."""
    return 2 * log2_choose(each, each / 2) + log2_ternary(n - 2 * each, extra)


def cost(n: int, weight: int, extras: tuple[int, ...]) -> float:
    """Returns log2 of the cost of a tree with these numbers of cancelling entries, from the top."""
    each = weight / 2
    vectors, sums = [], []
    for extra in extras:
        sums.append(log2_sums(n, each, extra))
        each = each / 2 + extra
        vectors.append(log2_ternary(n, each))
    # A list holds the vectors that meet one condition for each sum of the level above.
    lists = [all_of - conditions for all_of, conditions in zip(vectors, sums)]
    steps = list(lists)
    for above in range(len(lists) - 1):
        # Pairs of the list below, whose sum must meet the further conditions of the level above.
        steps.append(2 * lists[above + 1] - (sums[above] - sums[above + 1]))
    # The lists at the bottom are made of halves, by meeting in the middle.
    steps.append(vectors[-1] / 2)
    return max(0.0, *steps)


def cheapest(n: int, weight: int, depth: int) -> float:
    """Returns the minimum cost of a tree of this depth. Optimises one level after the other."""
    least = inf
    for start in EXTRA:
        extras = [start] * depth
        best = cost(n, weight, tuple(extras))
        while True:
            before = best
            for level in range(depth):
                for extra in EXTRA:
                    trial = tuple(extras[:level] + [extra] + extras[level + 1 :])
                    found = cost(n, weight, trial)
                    if found < best:
                        best, extras = found, list(trial)
            if best == before:
                break
        least = min(least, best)
    return least


def main() -> None:
    print("| N | weight | secrets | Meet-LWE, at least |")
    print("|---|---|---|---|")
    for log_n, weight in SIZES:
        n = 1 << log_n
        secrets = log2_choose(n, weight) + weight
        least = min(cheapest(n, weight, depth) for depth in DEPTHS)
        print(f"| 2^{log_n} | {weight} | 2^{secrets:.0f} | 2^{least:.0f} |")


if __name__ == "__main__":
    main()
