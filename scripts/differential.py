#!/usr/bin/env python3
"""Runs random programs, tables, files and models by sudare and by libraries that do the same in the clear.

    python scripts/differential.py                       # every generator, for an hour
    python scripts/differential.py --cases 100000        # this number of cases in all
    python scripts/differential.py arrays --seed 3 --number 17   # one case again, executed, with its program

Each finding is a line with the command that repeats it. Counts come at the end. The exit status is 1 if
there are findings. Cases run in a process of their own: one that dies is a finding, too.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python" / "tests"))

from differential import registry  # noqa: E402
from differential.core import (  # noqa: E402
    Generator,
    Report,
    Verdict,
    case_of,
    run_case,
    shrink,
)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("generators", nargs="*", help="kinds of cases; all if left out")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--number", type=int, help="run this case alone, and print its program")
    parser.add_argument("--cases", type=int, help="cases of all generators; by time if left out")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--execute", type=int, help="execute one case in so many")
    parser.add_argument("--log", type=Path, help="append findings to this file, with their programs")
    parser.add_argument("--alike", type=int, default=3, help="findings alike that are told")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    warnings.simplefilter("ignore")
    options = parse()
    known = {generator.name: generator for generator in registry.GENERATORS}
    names = options.generators or list(known)
    if unknown := [name for name in names if name not in known]:
        print(f"no generator {', '.join(unknown)}: choose from {', '.join(known)}")
        return 2
    chosen = [known[name] for name in names]
    if options.number is not None:
        return single(chosen[0], options)
    if options.worker:
        work(chosen[0], options)
        return 0
    reports = {generator.name: Report() for generator in chosen}
    total = sum(generator.share for generator in chosen)
    for generator in chosen:
        share = generator.share / total
        count = None if options.cases is None else max(1, round(options.cases * share))
        until = time.monotonic() + 60 * options.minutes * share
        run(generator, reports[generator.name], count, until, options)
    for name, report in reports.items():
        print(f"{name}: {report}")
    return int(any(report.findings for report in reports.values()))


def run(
    generator: Generator, report: Report, count: int | None, until: float, options: argparse.Namespace
) -> None:
    """Runs cases in workers, and reports their findings."""
    every = options.execute or generator.executed_every
    last = None if count is None else options.first + count
    told: Counter[str] = Counter()
    number = options.first
    while (last is None or number < last) and time.monotonic() < until:
        command = [
            sys.executable, __file__, generator.name, "--worker", "--seed", str(options.seed), "--first", str(number),
            "--execute", str(every), "--minutes", str(max(0.01, (until - time.monotonic()) / 60)),
        ]  # fmt: skip
        command += ["--cases", str(last - number)] if last is not None else []
        command += ["--no-shrink"] if options.no_shrink else []
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
            assert worker.stdout is not None
            for line in worker.stdout:
                if not line.startswith("{"):
                    continue
                found = json.loads(line)
                number = found["number"] + 1
                verdict = Verdict(*found["verdict"])
                report.add(verdict, execute=found["executed"])
                if verdict.kind == "finding":
                    tell(generator, found["number"], options, verdict, found["program"], told)
        if worker.returncode > 0:
            raise SystemExit(f"the worker of {generator.name!r} failed: see above")
        if worker.returncode == 0:
            break
        verdict = Verdict("finding", "the process died", f"signal {-worker.returncode}")
        report.add(verdict, execute=number % every == 0)
        tell(generator, number, options, verdict, "", told)
        number += 1


def work(generator: Generator, options: argparse.Namespace) -> None:
    """Runs cases, and prints each verdict as JSON."""
    until = time.monotonic() + 60 * options.minutes
    number = options.first
    seen: Counter[str] = Counter()
    while (
        options.cases is None or number < options.first + options.cases
    ) and time.monotonic() < until:
        execute = number % options.execute == 0
        case = case_of(generator, options.seed, number)
        verdict = run_case(case, execute=execute)
        said: dict[str, Any] = {"number": number, "executed": execute, "program": ""}
        if verdict.kind == "finding":
            seen[signature(verdict)] += 1
            if not options.no_shrink and seen[signature(verdict)] <= 3:
                case, verdict = shrink(case, verdict, execute=execute)
            said["program"] = case.describe()
        print(json.dumps({**said, "verdict": [verdict.kind, verdict.reason, verdict.detail]}), flush=True)
        number += 1


def signature(verdict: Verdict) -> str:
    """Returns a finding without its numbers, so that equal findings are reported once."""
    return re.sub(r"[-+]?\d[\d.e+-]*|'[^']*'|0x\w+", "#", f"{verdict.reason}: {verdict.detail}")[:110]


def tell(
    generator: Generator,
    number: int,
    options: argparse.Namespace,
    verdict: Verdict,
    program: str,
    told: Counter[str],
) -> None:
    told[signature(verdict)] += 1
    if told[signature(verdict)] > options.alike:
        return
    detail = verdict.detail.replace("\n", " ")
    line = (
        f"{verdict.reason}: {detail}  # scripts/differential.py {generator.name!r} "
        f"--seed {options.seed} --number {number}"
    )
    print(line, flush=True)
    if options.log is not None:
        with options.log.open("a") as log:
            log.write(f"{line}\n{program}\n\n")


def single(generator: Generator, options: argparse.Namespace) -> int:
    case = case_of(generator, options.seed, options.number)
    print(case.describe(), flush=True)
    verdict = run_case(case, execute=True)
    print(f"{verdict.kind}: {verdict.reason}: {verdict.detail}")
    if verdict.kind == "finding" and not options.no_shrink:
        case, verdict = shrink(case, verdict, execute=True)
        print(f"\nshrunk:\n{case.describe()}\n{verdict.kind}: {verdict.reason}: {verdict.detail}")
    return int(verdict.kind == "finding")


if __name__ == "__main__":
    sys.exit(main())
