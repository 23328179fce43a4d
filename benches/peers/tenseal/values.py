"""Prints results of TenSEAL's operations on real numbers, a line of JSON for each operation.

The example `real_slots` of sudare prints the same for the same numbers.
"""

import json

import tenseal as ts

LOG_N = 13
SLOTS = 1 << (LOG_N - 1)


def values(a: int, b: int, m: int) -> list[float]:
    return [((a * i * i + b * i) % m - m // 2) / 1024 for i in range(SLOTS)]


def main() -> None:
    context = ts.context(
        ts.SCHEME_TYPE.CKKS, poly_modulus_degree=1 << LOG_N, coeff_mod_bit_sizes=[60, 40, 40, 60]
    )
    context.global_scale = 2.0**40
    x, y = values(31, 7, 4093), values(17, 3, 2039)
    a, b = ts.ckks_vector(context, x), ts.ckks_vector(context, y)
    square = a * a
    for op, result in {
        "encrypted": a,
        "sum": a + b,
        "difference": a - b,
        "product": a * b,
        "fourth_power": square * square,
        "product_plain": a * y,
    }.items():
        print(json.dumps({"op": op, "slots": result.decrypt()}))


if __name__ == "__main__":
    main()
