#!/usr/bin/env python3
"""Fuzzes the targets of crates/trust, and adds the campaign to docs/trust-log.md.

With nightly Rust and cargo-fuzz, libFuzzer alters inputs and learns from the code that they reach, under
AddressSanitizer. --fast leaves out AddressSanitizer and the record of comparisons. It runs several times as often,
and still finds panics and excesses of time and heap. --plain alters inputs at random, on any toolchain. New inputs
go to target/corpus. The committed ones in fuzz/corpus are only read.
"""

import argparse
import concurrent.futures
import datetime
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LOG = ROOT / "docs/trust-log.md"
# In rings this small, several threads cost more than they save.
ONE_THREAD = os.environ | {"RAYON_NUM_THREADS": "1"}
# Limits of a target for one input: seconds, and MiB at a time and in all.
LIMITS = ["-timeout=10", "-malloc_limit_mb=64", "-rss_limit_mb=2048"]


def targets():
    return sorted(path.stem for path in (ROOT / "fuzz/fuzz_targets").glob("*.rs"))


def with_coverage(target, seconds, *options):
    """Runs a target by libFuzzer. Returns its figures, and whether no input failed."""
    corpus = ROOT / "target/corpus" / target
    corpus.mkdir(parents=True, exist_ok=True)
    command = ["cargo", "+nightly", "fuzz", "run", *options, target, corpus]
    command += [ROOT / "fuzz/corpus" / target, "--", f"-max_total_time={seconds}", "-print_final_stats=1", *LIMITS]
    run = subprocess.run(command, cwd=ROOT, env=ONE_THREAD, stderr=subprocess.PIPE, text=True)
    print(run.stderr[-2000:], file=sys.stderr)
    runs = re.search(r"stat::number_of_executed_units: *(\d+)", run.stderr)
    return int(runs[1]) if runs else 0, run.returncode == 0


def fast(target, seconds):
    return with_coverage(target, seconds, "--sanitizer=none", "--no-trace-compares",
                         "--target-dir=fuzz/target/fast")


def plain(target, seconds):
    command = ["cargo", "run", "--quiet", "--locked", "--package", "sudare-trust", "--"]
    run = subprocess.run([*command, "fuzz", target, str(seconds)], cwd=ROOT, env=ONE_THREAD,
                         stdout=subprocess.PIPE, text=True)
    print(run.stdout, end="")
    runs = re.search(r"(\d+) executions", run.stdout)
    return int(runs[1]) if runs else 0, run.returncode == 0


def rows(text):
    """Returns executions, executions without AddressSanitizer, seconds and failures by target, from the log's table."""
    found = re.findall(r"^\| `(\w+)`((?: \| [\d ]+){4}) \|", text, re.MULTILINE)
    return {name: [int(number.replace(" ", "")) for number in cells.split("|")[1:]]
            for name, cells in found}


def spaced(number):
    return f"{number:,}".replace(",", " ")


def add(target, runs, seconds, kept, unsanitized):
    """Adds one campaign to the log."""
    text = LOG.read_text()
    table = rows(text)
    row = table.setdefault(target, [0, 0, 0, 0])
    new = [runs, runs if unsanitized else 0, seconds, int(not kept)]
    table[target] = [had + more for had, more in zip(row, new)]
    today = datetime.date.today().isoformat()
    last = dict(re.findall(r"^\| `(\w+)` .*\| ([\d-]+) \|$", text, re.MULTILINE))
    last[target] = today
    lines = [f"| `{name}` | {' | '.join(map(spaced, row))} | {last[name]} |"
             for name, row in sorted(table.items())]
    total, without = (spaced(sum(row[i] for row in table.values())) for i in range(2))
    head, rest = text.split("<!-- fuzzing -->\n")[:2]
    _, tail = rest.split("<!-- end -->")
    header = "| target | executions | without AddressSanitizer | seconds | campaigns with a fault | last |\n"
    header += "|---|---|---|---|---|---|\n"
    body = header + "\n".join(lines)
    body += f"\n\n{total} executions in all, {without} of them without AddressSanitizer.\n"
    LOG.write_text(f"{head}<!-- fuzzing -->\n{body}<!-- end -->{tail}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", choices=[*targets(), "all"])
    parser.add_argument("seconds", type=int, help="for each target")
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--fast", action="store_true", help="without AddressSanitizer")
    way.add_argument("--plain", action="store_true", help="without nightly Rust")
    parser.add_argument("--jobs", type=int, default=1, help="targets at a time")
    chosen = parser.parse_args()
    run = plain if chosen.plain else fast if chosen.fast else with_coverage
    names = targets() if chosen.target == "all" else [chosen.target]
    kept = True
    with concurrent.futures.ThreadPoolExecutor(chosen.jobs) as pool:
        running = {pool.submit(run, name, chosen.seconds): name for name in names}
        for done in concurrent.futures.as_completed(running):
            runs, well = done.result()
            add(running[done], runs, chosen.seconds, well, chosen.fast or chosen.plain)
            kept &= well
    sys.exit(0 if kept else 1)


if __name__ == "__main__":
    main()
