#!/usr/bin/env python3
"""Runs the publications' bootstrapping sets and writes docs/reproductions.md's tables.

    scripts/reproductions.py                        # every table, hours
    scripts/reproductions.py seal-boot-3:10,15      # one set, 2^10 and 2^15 slots
    scripts/reproductions.py dft --threads 2
    scripts/reproductions.py bfv-thesis-full-127 digits-127-3-1 --runs 1
    scripts/reproductions.py --tables               # the tables again, from earlier measurements

Results are stored as JSON lines, in a file for each number of threads. A new measurement replaces the older one.
Needs a release build of `sudare-bench` and up to 16 GB of memory.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reproductions.md"
ALL_SLOTS = 15
SEAL = [f"seal-boot-{number}" for number in range(1, 13)]
SETS = {"fullrns-boot": [ALL_SLOTS], "thesis-boot": [ALL_SLOTS]}
SETS |= {name: list(range(10, ALL_SLOTS + 1)) for name in SEAL}
DFT_LOG_SLOTS = range(6, 16)
# Sets of exact ciphertexts, in the order of the thesis.
FULL = ["bfv-thesis-full-127", "bfv-thesis-full-257", "n15-t127-2-full", "n15-t257-2-full"]
SLIM = ["bfv-thesis-slim-127", "n15-t127-2-boot", "n15-t127-3-boot", "bfv-thesis-slim-257",
        "n15-t257-boot", "n15-t257-2-boot"]
DIGITS = [f"digits-{sizes}" for sizes in ("2-11-5", "2-21-13", "5-6-3", "17-4-2", "31-3-1",
                                          "127-3-1")]
EXACT = {name: op for names, op in ((FULL, "bfv_bootstrap"), (SLIM, "bfv_bootstrap_slim"),
                                    (DIGITS, "digit_removal")) for name in names}
NOT_MEASURED = "–"


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "sets", nargs="*", metavar="SET[:K,K...]",
        help="a set, with log2 of its slots where there is a choice, or dft"
    )
    parser.add_argument("--runs", type=int, default=3, help="timed runs of each (default 3)")
    parser.add_argument("--threads", type=int, default=1, help="threads (default 1)")
    parser.add_argument("--tables", action="store_true", help="measure nothing, write the tables")
    parser.add_argument(
        "--bench", type=pathlib.Path, default=ROOT / "target" / "release" / "sudare-bench"
    )
    parser.add_argument(
        "--results", type=pathlib.Path, help="default: target/reproductions-THREADS.jsonl"
    )
    args = parser.parse_args()
    args.results = args.results or ROOT / "target" / f"reproductions-{args.threads}.jsonl"
    return args


def chosen(names):
    """Returns pairs of a set and log2 of its slots."""
    known = {**SETS, "dft": list(DFT_LOG_SLOTS), **{name: [None] for name in EXACT}}
    for name in names or known:
        name, _, slots = name.partition(":")
        if name not in known:
            sys.exit(f"{name} is no set of a publication: choose from {', '.join(known)}")
        for log_slots in map(int, slots.split(",")) if slots else known[name]:
            yield name, log_slots


def measure(args, name, log_slots):
    """Returns the total line, or None if the program refuses."""
    op = EXACT.get(name, "dft" if name == "dft" else "bootstrap")
    what = [op, "--radix", "4"] if name == "dft" else [op, "--params", name]
    slots = [] if name in EXACT else ["--log-slots", log_slots]
    command = [args.bench, *what, *slots, "--runs", args.runs]
    command += ["--threads", args.threads, "--json"]
    case = name if name in EXACT else f"{name}, 2^{log_slots} slots"
    print(case, file=sys.stderr, flush=True)
    found = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True)
    if found.returncode != 0:
        print(f"{case}: status {found.returncode}", file=sys.stderr)
        return None
    lines = map(json.loads, found.stdout.splitlines())
    return next((line for line in lines if line["op"] == op), None)


def key(line):
    """Runs transforms in the smallest set with enough slots and levels."""
    if line["params"] in EXACT:
        return (line["params"], None)
    return ("dft" if line["op"] == "dft" else line["params"], line["log_slots"])


def read(path):
    if not path.exists():
        return {}
    lines = map(json.loads, path.read_text().splitlines())
    return {key(line): line for line in lines}


def save(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(text)
    os.replace(part, path)


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def pair(line, field, digits):
    """Returns a pair of a published and a measured value."""
    printed, found = line["published"][field], line[field]
    return f"{printed:.{digits}f}", f"{found:.{digits}f}"


def whole_set(lines, name):
    line = lines.get((name, ALL_SLOTS))
    head = ["", "threads", "seconds", "ms per slot", "bits of precision", "levels left"]
    if line is None:
        return table(head, [[who, *[NOT_MEASURED] * 5] for who in ("printed", "sudare")])
    printed = line["published"]
    per_slot = printed["seconds"] * 1e3 / 2**ALL_SLOTS
    bits, found_bits = pair(line, "precision_bits", 1)
    rows = [
        ["printed", printed["threads"], f"{printed['seconds']:.1f}", f"{per_slot:.2f}", bits,
         printed["levels_left"]],
        ["sudare", line["threads"], f"{line['seconds']:.1f}", f"{line['amortised_ms']:.3f}",
         found_bits, line["levels_left"]],
    ]
    return table(head, rows)


def seal(lines):
    head = ["set", "slots", "bits, printed", "bits", "worst slot", "levels left, printed",
            "levels left", "seconds, printed", "seconds", "times faster"]
    rows = []
    for name in SEAL:
        for log_slots in SETS[name]:
            line = lines.get((name, log_slots))
            start = [f"`{name}`", f"2^{log_slots}"]
            if line is None:
                rows.append(start + [NOT_MEASURED] * 8)
                continue
            integer = f"{line['integer_bits']} + "
            bits, found_bits = pair(line, "precision_bits", 2)
            seconds, found_seconds = pair(line, "seconds", 1)
            rows.append([
                *start, integer + bits, integer + found_bits,
                integer + f"{line['worst_precision_bits']:.2f}", *pair(line, "levels_left", 0),
                seconds, found_seconds,
                f"{line['published']['seconds'] / line['seconds']:.0f}",
            ])
    return table(head, rows)


def dft(lines):
    rows = []
    for log_slots in DFT_LOG_SLOTS:
        line = lines.get(("dft", log_slots))
        if line is None:
            rows.append([f"2^{log_slots}", *[NOT_MEASURED] * 4])
            continue
        levels = -(-log_slots // 2)
        rows.append([f"2^{log_slots}", f"`{line['params']}`", levels,
                     f"{line['median_ms'] / 1e3:.3f}", f"{line['precision_bits']:.1f}"])
    return table(["length", "set", "levels used", "seconds", "bits, worst slot"], rows)


def measured_with(lines, threads):
    kernels = sorted({line["isa"] for line in lines})
    if not kernels:
        return "Not measured yet."
    return f"Measured with {threads} thread(s), on kernels for {' and '.join(kernels)}."


def exact(lines, names):
    """Returns a table of the thesis on bootstrapping of exact ciphertexts."""
    head = ["set", "slots", "log2 Q, QP", "security, printed", "security", "levels, printed",
            "levels", "seconds, printed", "seconds", "times faster", "set-up, printed", "set-up",
            "GB, printed", "GB"]
    rows = []
    for name in names:
        line = lines.get((name, None))
        if line is None:
            rows.append([f"`{name}`", *[NOT_MEASURED] * (len(head) - 1)])
            continue
        printed, degree = line["published"], line["slot_degree"]
        slots = f"{line['slots']} mod {line['plaintext_modulus']}"
        digits = 1 if line["seconds"] >= 10 else 2
        rows.append([
            f"`{name}`", slots + (f", degree {degree}" if degree > 1 else ""),
            f"{line['log_q']:.0f}, {line['log_qp']:.0f}", printed["security_bits"],
            f"{line['security_bits']:.1f}",
            f"{printed['levels_before']} / {printed['levels_left']}",
            f"{line['levels_before']} / {line['levels_left']}",
            f"{printed['seconds']:g}", f"{line['seconds']:.{digits}f}",
            f"{printed['seconds'] / line['seconds']:.0f}", f"{printed['prepare_s']:.0f}",
            f"{line['keygen_s'] + line['prepare_s']:.0f}", printed["memory_gb"],
            f"{line['peak_rss_bytes'] / 1e9:.1f}",
        ])
    return table(head, rows)


def digits(lines):
    head = ["p, e, v", "N", "values", "degree", "products", "levels, HElib", "levels, printed",
            "levels", "seconds, HElib", "seconds, printed", "seconds", "times faster"]
    rows = []
    for name in DIGITS:
        line = lines.get((name, None))
        sizes = ", ".join(name.removeprefix("digits-").split("-"))
        if line is None:
            rows.append([sizes, *[NOT_MEASURED] * (len(head) - 1)])
            continue
        printed = line["published"]
        rows.append([
            sizes, f"2^{line['log_n']}", line["slots"], line["degree"], line["products"],
            f"{printed['levels_before']} / {printed['helib_levels_left']}",
            f"{printed['levels_before']} / {printed['levels_left']}",
            f"{line['level']} / {line['levels_left']}", f"{printed['helib_seconds']:g}",
            f"{printed['seconds']:g}", f"{line['seconds']:.2f}",
            f"{printed['seconds'] / line['seconds']:.0f}",
        ])
    return table(head, rows)


def write(lines, threads):
    page = PAGE.read_text()
    parts = {
        "fullrns-boot": whole_set(lines, "fullrns-boot"),
        "thesis-boot": whole_set(lines, "thesis-boot"),
        "seal-boot": seal(lines),
        "dft": dft(lines),
        "exact-digits": digits(lines),
        "exact-full": exact(lines, FULL),
        "exact-slim": exact(lines, SLIM),
        "machine": measured_with(lines.values(), threads),
    }
    for name, text in parts.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        before, _, rest = page.partition(begin)
        _, found, after = rest.partition(end)
        if not found:
            sys.exit(f"{PAGE} has no place for {name}: {begin.strip()} to {end}")
        page = before + begin + text + "\n" + end + after
    save(PAGE, page)


def main():
    args = arguments()
    lines = read(args.results)
    for name, log_slots in [] if args.tables else chosen(args.sets):
        line = measure(args, name, log_slots)
        if line is not None:
            lines[key(line)] = line
            save(args.results, "".join(json.dumps(line) + "\n" for line in lines.values()))
            write(lines, args.threads)
    write(lines, args.threads)


if __name__ == "__main__":
    main()
