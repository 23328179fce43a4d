#!/usr/bin/env python3.10
"""Times CKKS operations and bootstrapping of OpenFHE and prints one JSON line per operation.

The library's wheel needs Python 3.10. Every run of the program draws fresh inputs. Every result is decrypted and
compared with the expected one. A wrong result leads to exit status 1.
"""

import argparse
import json
import math
import os
import random
import sys
import time
from dataclasses import dataclass
from importlib.metadata import version
from statistics import median

# The library reads the number of threads when it is loaded.
PARSER = argparse.ArgumentParser(description=__doc__.splitlines()[0])
PARSER.add_argument("--params", required=True)
PARSER.add_argument("--ops", default="")
PARSER.add_argument("--runs", type=int, default=5)
PARSER.add_argument("--threads", type=int, default=1)
OPTIONS = PARSER.parse_args()
os.environ["OMP_NUM_THREADS"] = str(OPTIONS.threads)

import openfhe as fhe  # noqa: E402

# Minimum seconds over which one run averages.
MIN_RUN = 2e-3
# Maximum loss of the worst slot of a right result, in bits below the scale.
MARGIN_BITS = 26
# Minimum precision of the worst slot of a bootstrapping, in bits.
LEAST_BOOTSTRAP_BITS = 8
# Weight of the ephemeral secret of SPARSE_ENCAPSULATED. The library switches to it modulo q_0 and one special prime,
# which Python cannot query.
EPHEMERAL_WEIGHT = 32
# Bits of the library's special primes.
SPECIAL_BITS = 60
# Levels of one matrix each, for CoeffsToSlots and for SlotsToCoeffs.
MATRIX_LEVELS = [3, 3]


@dataclass(frozen=True)
class Set:
    """Sizes as arguments of the library: primes of `scale_bits`, the lowest of 60 bits."""

    log_n: int
    depth: int
    scale_bits: int
    digits: int
    bootstraps: bool = False
    first_bits: int = 60


SETS = {
    "n15-q610": Set(15, 10, 55, 3),
    "n16-d24": Set(16, 24, 45, 3),
    # The deepest chain of 50-bit primes that the library accepts at 128 bits.
    "n16-stc-first": Set(16, 27, 50, 6, bootstraps=True),
}


def context(chosen: Set):
    params = fhe.CCParamsCKKSRNS()
    secret = fhe.SPARSE_ENCAPSULATED if chosen.bootstraps else fhe.UNIFORM_TERNARY
    params.SetSecretKeyDist(secret)
    params.SetSecurityLevel(fhe.HEStd_128_classic)
    params.SetRingDim(1 << chosen.log_n)
    params.SetScalingTechnique(fhe.FLEXIBLEAUTO if chosen.bootstraps else fhe.FIXEDMANUAL)
    params.SetScalingModSize(chosen.scale_bits)
    params.SetFirstModSize(chosen.first_bits)
    params.SetNumLargeDigits(chosen.digits)
    params.SetKeySwitchTechnique(fhe.HYBRID)
    params.SetMultiplicativeDepth(chosen.depth)
    params.SetCKKSDataType(fhe.COMPLEX)
    made = fhe.GenCryptoContext(params)
    for feature in (fhe.PKE, fhe.KEYSWITCH, fhe.LEVELEDSHE, fhe.ADVANCEDSHE, fhe.FHE):
        made.Enable(feature)
    return made


def random_slots(count: int) -> list[complex]:
    return [complex(random.uniform(-1, 1), random.uniform(-1, 1)) for _ in range(count)]


def decrypted(made, secret, ciphertext, count: int) -> list[complex]:
    plaintext = made.Decrypt(ciphertext, secret)
    plaintext.SetLength(count)
    return plaintext.GetCKKSPackedValue()


def distances(got: list[complex], want: list[complex]) -> list[float]:
    found = [abs(a - b) for a, b in zip(got, want, strict=True)]
    if not all(map(math.isfinite, found)):
        sys.exit("a slot is not a number")
    return found


def times_ms(runs: int, call) -> list[float]:
    """Returns the milliseconds of one call in each run, after a warm-up."""
    repeats = 1
    while True:
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        if time.perf_counter() - start >= MIN_RUN:
            break
        repeats *= 2
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        times.append((time.perf_counter() - start) * 1e3 / repeats)
    return times


def line(made, keys, chosen: Set, op: str, times: list[float], **more) -> dict:
    """Returns the common fields of all lines. The size of a key shows the number of special primes."""
    log_q = math.log2(made.GetElementParams().GetModulus())
    key = made.GetEvalMultKeyVector(keys.secretKey.GetKeyTag())[0]
    rows = len(fhe.Serialize(key, fhe.BINARY)) / (2 * chosen.digits * 8 << chosen.log_n)
    log_p = SPECIAL_BITS * (int(rows) - chosen.depth - 1)
    priced = [{"what": "evaluation keys", "log2_q": log_q + log_p}]
    if chosen.bootstraps:
        below = chosen.first_bits + SPECIAL_BITS
        what = "key to the ephemeral secret"
        priced.append({"what": what, "log2_q": below, "weight": EPHEMERAL_WEIGHT})
    return {
        "op": op, "params": OPTIONS.params, "threads": OPTIONS.threads, "isa": "scalar",
        "median_ms": median(times), "min_ms": min(times), "runs": len(times),
        "library": "openfhe", "version": version("openfhe"), "log_n": chosen.log_n,
        "log_q": round(log_q, 2), "log_p": log_p, "dnum": chosen.digits, "keys": priced, **more,
    }


def leveled(chosen: Set, ops: list[str]) -> None:
    made, slots = context(chosen), 1 << (chosen.log_n - 1)
    keys = made.KeyGen()
    made.EvalMultKeyGen(keys.secretKey)
    made.EvalRotateKeyGen(keys.secretKey, [1])
    x, y = random_slots(slots), random_slots(slots)
    ct_x, ct_y = (made.Encrypt(keys.publicKey, made.MakeCKKSPackedPlaintext(v)) for v in (x, y))
    work = {
        "mul_rescale": lambda: made.Rescale(made.EvalMult(ct_x, ct_y)),
        "rotate": lambda: made.EvalRotate(ct_x, 1),
    }
    for op in ops:
        if op not in work:
            PARSER.error(f"unknown operation {op}; there are {', '.join(work)}")
        times = times_ms(OPTIONS.runs, work[op])
        want = [a * b for a, b in zip(x, y)] if op == "mul_rescale" else x[1:] + x[:1]
        got = decrypted(made, keys.secretKey, work[op](), slots)
        bits = -math.log2(max(distances(got, want)))
        if bits < chosen.scale_bits - MARGIN_BITS:
            sys.exit(f"{op}: wrong result: the worst slot is right to {bits:.1f} bits")
        more = {"level": chosen.depth, "precision_bits": round(bits, 2)}
        print(json.dumps(line(made, keys, chosen, op, times, **more)), flush=True)


def bootstrap(chosen: Set) -> None:
    start, slots = time.perf_counter(), 1 << (chosen.log_n - 1)
    made = context(chosen)
    # 0: the library's own choice of inner dimensions, slots and correction.
    made.EvalBootstrapSetup(MATRIX_LEVELS, [0, 0], 0, 0, True, True)
    prepared = time.perf_counter()
    keys = made.KeyGen()
    made.EvalMultKeyGen(keys.secretKey)
    made.EvalBootstrapKeyGen(keys.secretKey, slots)
    generated = time.perf_counter()
    # SlotsToCoeffs and the correction come first, below the level that is raised.
    input_level = chosen.depth - MATRIX_LEVELS[1] - 1
    times, errors, level = [], [], 0
    # The first run is the warm-up.
    for run in range(OPTIONS.runs + 1):
        plaintext = made.MakeCKKSPackedPlaintext(random_slots(slots), 1, input_level)
        ciphertext = made.Encrypt(keys.publicKey, plaintext)
        want = decrypted(made, keys.secretKey, ciphertext, slots)
        begin = time.perf_counter()
        refreshed = made.EvalBootstrap(ciphertext)
        elapsed = time.perf_counter() - begin
        if run > 0:
            times.append(elapsed * 1e3)
        errors += distances(decrypted(made, keys.secretKey, refreshed, slots), want)
        # A level is dropped when a product needs it, one late.
        level = refreshed.GetLevel() + refreshed.GetNoiseScaleDeg() - 1
    worst = -math.log2(max(errors))
    if worst < LEAST_BOOTSTRAP_BITS:
        sys.exit(f"bootstrap: wrong result: the worst slot is right to {worst:.1f} bits")
    levels_left = input_level - level
    more = {
        "level": 0, "precision_bits": round(-math.log2(sum(errors) / len(errors)), 2),
        "worst_precision_bits": round(worst, 2), "log_slots": chosen.log_n - 1, "ciphertexts": 1,
        "levels_left": levels_left, "scale_bits": chosen.scale_bits,
        "residual_bits": chosen.first_bits + levels_left * chosen.scale_bits,
        "keygen_s": generated - prepared, "prepare_s": prepared - start,
    }
    print(json.dumps(line(made, keys, chosen, "bootstrap", times, **more)), flush=True)


def main() -> None:
    chosen = SETS.get(OPTIONS.params)
    if chosen is None:
        PARSER.error(f"unknown set {OPTIONS.params}; there are {', '.join(SETS)}")
    ops = [op for op in OPTIONS.ops.split(",") if op]
    if chosen.bootstraps:
        bootstrap(chosen)
    else:
        leveled(chosen, ops or ["mul_rescale", "rotate"])


if __name__ == "__main__":
    main()
