#!/usr/bin/env python3
"""Compares sudare with other libraries on this machine: same sizes, same threads, in turn.

Builds the programs, and runs sudare and its peers in turn for several rounds, pinned to the same processors.
Reports parameters, security, precision, seconds, memory and ratios. target/peers/runs.jsonl stores finished runs,
and --resume continues from there. Exit status: 0; 1 if a program was left out because it could not be built,
failed, gave a wrong result or had too little memory, or if nothing was compared; 2 for a mistake on the command
line; 130 when interrupted.
"""

import argparse
import datetime
import json
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import report
from cases import CASES, PARTS, PEERS, SUDARE, Case, Entrant, in_turn
from programs import (
    BUILD_DIR, BUILDERS, ROOT, BuildFailed, Pricer, ProgramFailed, available_bytes, command, duration,
    run_lines, say,
)

RECORDS = BUILD_DIR / "runs.jsonl"
REPORT = ROOT / "docs" / "benchmarks.md"


def command_output(*command: str) -> str:
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def revision() -> str:
    found = command_output("git", "rev-parse", "--short=12", "HEAD") or "unknown"
    report_apart = f":!{REPORT.relative_to(ROOT)}"
    changed = command_output("git", "status", "--porcelain", "--", ".", report_apart)
    return found + (" with local changes" if changed else "")


def processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def available_processors() -> list[int]:
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def machine(found: str) -> list[str]:
    """Returns date and machine as lines of the report."""
    today = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
    pinned = "pinned with taskset" if shutil.which("taskset") else "not pinned (no taskset)"
    system = f"{platform.system()} {platform.machine()}"
    return [
        f"{today}, commit {found}",
        f"{processor()}, {os.cpu_count()} processors, {system}, {pinned}",
    ]


@dataclass(frozen=True)
class Turn:
    """A planned run of one program."""

    case: Case
    entrant: Entrant
    ops: tuple[str, ...]
    threads: int
    round: int
    runs: int

    def key(self, revision: str) -> dict:
        return {
            "part": self.case.part, "case": self.case.ours.params, "library": self.entrant.library,
            "params": self.entrant.params, "ops": list(self.ops), "threads": self.threads,
            "round": self.round, "runs": self.runs, "revision": revision,
        }

    def __str__(self) -> str:
        threads = f", {self.threads} threads" if self.threads > 1 else ""
        return f"{self.entrant.library} {self.entrant.params}{threads}, round {self.round}"


def turns(options: argparse.Namespace) -> list[Turn]:
    """Lists all runs of all programs, in order."""
    found = []
    for name in options.parts:
        part = PARTS[name]
        cases = [case for case in CASES if case.part == name and case.ours.params in options.sets]
        for threads in options.threads:
            for turn in range(1, (options.rounds or part.rounds) + 1):
                for case in cases:
                    found += case_turns(case, options, threads, turn, options.runs or part.runs)
    return found


def case_turns(
    case: Case, options: argparse.Namespace, threads: int, turn: int, runs: int
) -> list[Turn]:
    """Yields sudare, then its peers, each with the operations to compare."""
    peers = [
        Turn(case, peer, ops, threads, turn, runs)
        for peer in case.peers
        if peer.library in options.peers
        and threads <= (peer.max_threads or threads)
        and (ops := in_turn(peer, options.only))
    ]
    if not peers:
        return []
    ours = in_turn(case.ours, {op for peer in peers for op in peer.ops})
    return [Turn(case, case.ours, ours, threads, turn, runs), *peers]


def expected_seconds(turn: Turn, records: list[dict]) -> float:
    """Predicts the seconds of a run, from earlier runs or from its case."""
    same = ("library", "params", "ops", "threads", "runs")
    key = turn.key("")
    before = [r["seconds"] for r in records if all(r[field] == key[field] for field in same)]
    return median(before) if before else turn.entrant.seconds


def load_records(path: Path) -> list[dict]:
    """Returns the records of earlier runs, without an incomplete last line."""
    records = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            records.append(json.loads(line))
        except ValueError:
            continue
    return records


class Comparison:
    """Runs the planned programs, and stores their records."""

    def __init__(self, options: argparse.Namespace, revision: str) -> None:
        self.options = options
        self.revision = revision
        self.programs: dict[str, list[str]] = {}
        self.notes: list[str] = []
        self.failed = False
        # Libraries and entrants that are left out from some point on.
        self.dropped: set[str | Entrant] = set()
        BUILD_DIR.mkdir(parents=True, exist_ok=True)
        if not options.resume and RECORDS.exists():
            RECORDS.replace(RECORDS.with_suffix(".old.jsonl"))
        earlier = load_records(RECORDS)
        self.records = [r for r in earlier if r["revision"] == revision]
        if len(self.records) < len(earlier):
            say(f"{len(earlier) - len(self.records)} records of other revisions left out")

    def note(self, message: str) -> None:
        if message not in self.notes:
            self.notes.append(message)
            say(message)

    def leave_out(self, what: str | Entrant, why: str) -> None:
        """Leaves a library or an entrant out, with the reason in the report."""
        self.failed = True
        self.dropped.add(what)
        self.note(why)

    def build(self, libraries: list[str]) -> None:
        """Builds the programs. Leaves out one that cannot be built, except sudare's."""
        for library in libraries:
            if library == SUDARE and self.options.sudare:
                self.programs[library] = [str(self.options.sudare.resolve())]
                continue
            try:
                self.programs[library] = BUILDERS[library]()
            except (BuildFailed, OSError) as error:
                if library == SUDARE:
                    raise
                self.leave_out(library, f"{library} skipped: {error}")

    def is_dropped(self, turn: Turn) -> bool:
        """Returns whether a run is left out. Without sudare, its whole case is."""
        named = (turn.entrant.library, turn.entrant, turn.case.ours)
        return any(name in self.dropped for name in named)

    def finished(self, turn: Turn) -> bool:
        key = turn.key(self.revision)
        return any(all(record[k] == v for k, v in key.items()) for record in self.records)

    def run(self, planned: list[Turn], processors: list[int]) -> None:
        for turn in planned:
            if turn.threads > len(processors):
                self.note(f"{turn.threads} threads skipped: {len(processors)} processors are available")
        planned = [t for t in planned if t.threads <= len(processors)]
        for index, turn in enumerate(planned, 1):
            if self.is_dropped(turn) or self.finished(turn):
                continue
            left = [t for t in planned[index - 1 :] if not (self.is_dropped(t) or self.finished(t))]
            ahead = sum(expected_seconds(t, self.records) for t in left)
            this = duration(expected_seconds(turn, self.records))
            say(f"[{index}/{len(planned)}] {turn}: about {this}, {duration(ahead)} in all")
            self.run_turn(turn, processors[: turn.threads])

    def run_turn(self, turn: Turn, processors: list[int]) -> None:
        available = available_bytes()
        if available is not None and available < turn.entrant.gib * 2**30:
            needed = f"needs {turn.entrant.gib:.0f} GiB, {available / 2**30:.1f} are available"
            self.leave_out(turn.entrant, f"{turn}: left out from here on: {needed}")
            return
        program = self.programs[turn.entrant.library]
        asked = command(program, turn.entrant, turn.ops, turn.threads, turn.runs)
        try:
            lines, done = run_lines(asked, str(turn), processors)
        except ProgramFailed as error:
            self.leave_out(turn.entrant, f"{turn}: left out from here on: {error}")
            return
        if missing := set(turn.ops) - {line["op"] for line in lines}:
            self.note(f"{turn}: {', '.join(sorted(missing))} not reported")
        record = turn.key(self.revision)
        record |= {"seconds": done.seconds, "peak_bytes": done.peak_bytes, "lines": lines}
        self.records.append(record)
        # An incomplete last line must not spoil this one.
        with RECORDS.open("a") as file:
            file.write("\n" + json.dumps(record) + "\n")


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value


def positive_list(text: str) -> list[int]:
    return [positive(part) for part in text.split(",")]


def names(known: tuple[str, ...]):
    """Returns a parser of comma-separated names that keeps the order of `known`."""

    def parse(text: str) -> tuple[str, ...]:
        asked = text.split(",")
        if unknown := sorted(set(asked) - set(known)):
            raise argparse.ArgumentTypeError(
                f"{', '.join(unknown)} unknown, there are {', '.join(known)}"
            )
        return tuple(name for name in known if name in asked)

    return parse


def parse_options(arguments: list[str] | None = None) -> argparse.Namespace:
    parts, sets = tuple(PARTS), tuple(case.ours.params for case in CASES)
    ops = tuple(dict.fromkeys(op for case in CASES for op in case.ours.ops))
    parser = argparse.ArgumentParser(
        description="Compares sudare with other libraries on this machine, in turn.",
        epilog="With everything chosen the report goes to docs/benchmarks.md.",
    )
    add = parser.add_argument
    add("--parts", type=names(parts), default=parts, metavar="NAMES", help=", ".join(parts))
    add("--sets", type=names(sets), default=sets, metavar="NAMES", help=", ".join(sets))
    add("--peers", type=names(PEERS), default=PEERS, metavar="NAMES", help=", ".join(PEERS))
    add("--only", type=names(ops), default=ops, metavar="OPS", help="operations, comma-separated")
    rounds = ", ".join(f"{part.rounds} of {name}" for name, part in PARTS.items())
    add("--rounds", type=positive, help=f"rounds in turn (default {rounds})")
    runs = ", ".join(f"{part.runs} of {name}" for name, part in PARTS.items())
    add("--runs", type=positive, help=f"timed runs in a round (default {runs})")
    add("--threads", type=positive_list, default=[1], help="thread counts, comma-separated (default 1)")
    add("--resume", action="store_true", help="go on with what an earlier run of this commit left")
    add("--plan", action="store_true", help="say what would be run, and end")
    add("--sudare", type=Path, metavar="PATH", help="a built sudare; otherwise it is built")
    add("--write", type=Path, metavar="FILE", help="write the report there")
    options = parser.parse_args(arguments)
    chosen = (options.parts, options.sets, options.peers, options.only)
    if options.write is None and chosen == (parts, sets, PEERS, ops):
        options.write = REPORT
    if options.sudare and not options.sudare.is_file():
        parser.error(f"--sudare {options.sudare}: no such file")
    return options


def announce(planned: list[Turn], records: list[dict]) -> None:
    """Describes the planned runs, with predicted time and memory."""
    for name, part in PARTS.items():
        ahead = [turn for turn in planned if turn.case.part == name]
        if not ahead:
            continue
        seconds = sum(expected_seconds(turn, records) for turn in ahead)
        most = max(turn.entrant.gib for turn in ahead)
        rounds = max(turn.round for turn in ahead)
        libraries = ", ".join(dict.fromkeys(turn.entrant.library for turn in ahead))
        say(f"{part.title}: {libraries}; {rounds} rounds, about {duration(seconds)}, {most:.0f} GiB")
    total = sum(expected_seconds(turn, records) for turn in planned)
    say(f"{len(planned)} runs of programs, about {duration(total)} in all, one at a time")


def main() -> int:
    options = parse_options()
    planned = turns(options)
    if options.plan:
        announce(planned, [])
        return 0
    comparison = Comparison(options, revision())
    announce([turn for turn in planned if not comparison.finished(turn)], comparison.records)
    try:
        comparison.build(list(dict.fromkeys([SUDARE, *(turn.entrant.library for turn in planned)])))
    except (BuildFailed, OSError) as error:
        say(f"sudare cannot be built: {error}")
        return 1
    pricer = Pricer(comparison.programs[SUDARE])
    for case in dict.fromkeys(turn.case for turn in planned):
        if pricer.describe(case.ours.params) is None:
            missing = f"sudare has no set {case.ours.params}: it is not compared"
            comparison.leave_out(case.ours, missing)
    comparison.run(planned, available_processors())

    records = comparison.records
    if not any(record["library"] != SUDARE for record in records):
        say("nothing could be compared")
        return 1
    for warning in report.size_warnings(records, pricer):
        comparison.note(warning)
    print(report.text(records, pricer))
    if options.write:
        where = machine(comparison.revision)
        options.write.write_text(report.markdown(records, where, comparison.notes, pricer))
        say(f"written: {options.write}")
    return 1 if comparison.failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        say("interrupted; --resume goes on from here")
        sys.exit(130)
