#!/usr/bin/env python3
"""Fuzzes the targets of crates/trust and adds what was run to docs/trust-log.md.

With nightly Rust and cargo-fuzz it is libFuzzer under AddressSanitizer that alters inputs, which
learns from the code that they reach; --plain alters them on any toolchain, without looking. New
inputs are kept in target/corpus; the committed ones in fuzz/corpus are only read.
"""

import argparse
import datetime
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LOG = ROOT / "docs/trust-log.md"
# Limits of a target for one input: seconds, and MiB at a time and in all.
LIMITS = ["-timeout=10", "-malloc_limit_mb=64", "-rss_limit_mb=2048"]


def targets():
    return sorted(path.stem for path in (ROOT / "fuzz/fuzz_targets").glob("*.rs"))


def with_coverage(target, seconds):
    """Runs of a target by libFuzzer, and whether none failed."""
    corpus = ROOT / "target/corpus" / target
    corpus.mkdir(parents=True, exist_ok=True)
    command = ["cargo", "+nightly", "fuzz", "run", target, corpus, ROOT / "fuzz/corpus" / target]
    command += ["--", f"-max_total_time={seconds}", "-print_final_stats=1", *LIMITS]
    run = subprocess.run(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    print(run.stderr[-2000:], file=sys.stderr)
    runs = re.search(r"stat::number_of_executed_units: *(\d+)", run.stderr)
    return int(runs[1]) if runs else 0, run.returncode == 0


def plain(target, seconds):
    command = ["cargo", "run", "--quiet", "--locked", "--package", "sudare-trust", "--"]
    run = subprocess.run([*command, "fuzz", target, str(seconds)], cwd=ROOT,
                         stdout=subprocess.PIPE, text=True)
    print(run.stdout, end="")
    runs = re.search(r"(\d+) executions", run.stdout)
    return int(runs[1]) if runs else 0, run.returncode == 0


def rows(text):
    """The table of the log: executions, seconds and failures of each target."""
    found = re.findall(r"^\| `(\w+)` \| ([\d ]+) \| ([\d.]+) \| (\d+) \|", text, re.MULTILINE)
    return {name: [int(runs.replace(" ", "")), float(hours), int(failed)]
            for name, runs, hours, failed in found}


def add(target, runs, seconds, kept):
    """Adds one campaign to the log."""
    text = LOG.read_text()
    table = rows(text)
    row = table.setdefault(target, [0, 0.0, 0])
    table[target] = [row[0] + runs, row[1] + seconds / 3600, row[2] + (not kept)]
    today = datetime.date.today().isoformat()
    last = dict(re.findall(r"^\| `(\w+)` .*\| ([\d-]+) \|$", text, re.MULTILINE))
    last[target] = today
    lines = [f"| `{name}` | {runs:,} | {hours:.2f} | {failed} | {last[name]} |".replace(",", " ")
             for name, (runs, hours, failed) in sorted(table.items())]
    total = f"{sum(runs for runs, _, _ in table.values()):,}".replace(",", " ")
    head, rest = text.split("<!-- fuzzing -->\n")[:2]
    _, tail = rest.split("<!-- end -->")
    header = "| target | executions | hours | campaigns with a fault | last |\n|---|---|---|---|---|\n"
    body = header + "\n".join(lines) + f"\n\n{total} executions in all.\n"
    LOG.write_text(f"{head}<!-- fuzzing -->\n{body}<!-- end -->{tail}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", choices=[*targets(), "all"])
    parser.add_argument("seconds", type=int, help="for each target")
    parser.add_argument("--plain", action="store_true", help="without nightly Rust")
    chosen = parser.parse_args()
    kept = True
    for target in targets() if chosen.target == "all" else [chosen.target]:
        run = plain if chosen.plain else with_coverage
        runs, well = run(target, chosen.seconds)
        add(target, runs, chosen.seconds, well)
        kept &= well
    sys.exit(0 if kept else 1)


if __name__ == "__main__":
    main()
