#!/usr/bin/env python3
"""Compares sudare with Lattigo and tfhe-ntt on this machine: same sizes, same threads, in turn.

Builds the three programs, runs sudare and each peer alternately for several rounds, pinned to the
same processors, and prints the ratio of their times. Exit status: 0; 1 when a program failed, gave
a wrong result, or nothing could be compared; 2 for a mistake on the command line.
"""

import argparse
import datetime
import json
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD_DIR = ROOT / "target" / "peers"

TRANSFORMS = ("ntt_forward", "ntt_inverse")
CKKS_OPS = (
    "encode", "encrypt", "decrypt", "add", "mul_plain", "mul_rescale", "rotate", "rotate_hoisted_8",
)
BOOTSTRAP = ("bootstrap",)
# Operations that a peer reports in a second form, compared with the same operation of sudare.
VARIANTS = {"ntt_inverse": ("ntt_inverse_normalized",)}
# Largest relative difference of log Q between two sets that count as the same size.
LOG_Q_TOLERANCE = 0.02


@dataclass(frozen=True)
class Case:
    """One parameter set of sudare and the set of one peer that it is compared with."""

    peer: str
    sudare_params: str
    peer_params: str
    ops: tuple[str, ...]


CASES = (
    *(Case("tfhe-ntt", f"n{log_n}", f"n{log_n}", TRANSFORMS) for log_n in range(13, 17)),
    Case("lattigo", "bench-n15-q610", "n15-q610", CKKS_OPS),
    Case("lattigo", "n16-d24", "n16-d24", TRANSFORMS + CKKS_OPS),
)
# With --bootstrap, instead of the others: each takes minutes and up to 17 GB of memory.
BOOTSTRAP_CASES = (
    Case("lattigo", "n16-boot", "n16qp1767h32768h32", BOOTSTRAP),
    Case("lattigo", "n15-boot", "n15qp880h16384h32", BOOTSTRAP),
)


class BuildFailed(Exception):
    """A program cannot be built here; the message says why."""


class ProgramFailed(Exception):
    """A benchmark program ended with an error or printed something unexpected."""


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no message"


def build(command: list[str], cwd: Path) -> None:
    tool = shutil.which(command[0])
    if tool is None:
        raise BuildFailed(f"{command[0]} is not installed")
    done = subprocess.run([tool, *command[1:]], cwd=cwd, capture_output=True, text=True)
    if done.returncode != 0:
        what = " ".join(command[:2])
        raise BuildFailed(f"{what} failed in {cwd.name}/: {last_line(done.stderr)}")


def build_lattigo() -> Path:
    program = BUILD_DIR / "sudare-peer-lattigo"
    build(["go", "build", "-mod=readonly", "-o", str(program), "."], HERE / "lattigo")
    return program


def build_ntt() -> Path:
    target = BUILD_DIR / "ntt"
    build(["cargo", "build", "--release", "--locked", "--target-dir", str(target)], HERE / "ntt")
    return target / "release" / "sudare-peer-ntt"


def build_sudare() -> Path:
    build(["cargo", "build", "--release", "--locked", "--bin", "sudare"], ROOT)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return target / "release" / "sudare"


BUILDERS = {"tfhe-ntt": build_ntt, "lattigo": build_lattigo}


def sudare_command(program: Path, case: Case, ops: list[str], threads: int, runs: int) -> list[str]:
    return [
        str(program), "bench", *ops, "--params", case.sudare_params, "--threads", str(threads),
        "--runs", str(runs), "--json",
    ]


def peer_command(program: Path, case: Case, ops: list[str], threads: int, runs: int) -> list[str]:
    common = ["--threads", str(threads), "--runs", str(runs)]
    if case.peer == "tfhe-ntt":
        ops = [name for op in ops for name in (op, *VARIANTS.get(op, ()))]
        size = case.peer_params.removeprefix("n")
        return [str(program), "--log-n", size, "--ops", ",".join(ops), *common]
    return [str(program), "-params", case.peer_params, "-ops", ",".join(ops), *common]


def run_lines(command: list[str], processors: list[int]) -> list[dict]:
    """Runs one program pinned to `processors` and returns its JSON lines."""
    if taskset := shutil.which("taskset"):
        command = [taskset, "-c", ",".join(map(str, processors)), *command]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    except OSError as error:
        raise ProgramFailed(f"{command[0]}: {error}") from error
    if done.returncode < 0:
        signal = -done.returncode
        raise ProgramFailed(f"ended by signal {signal}; 9 is also what a lack of memory sends")
    if done.returncode != 0:
        raise ProgramFailed(f"exit status {done.returncode}: {last_line(done.stderr)}")
    try:
        lines = [json.loads(text) for text in done.stdout.splitlines() if text.strip()]
        for line in lines:
            if not (float(line["median_ms"]) > 0 and line["op"]):
                raise ValueError(f"not a benchmark line: {line}")
    except (ValueError, KeyError, TypeError) as error:
        raise ProgramFailed(f"output is not benchmark lines: {error!r}") from error
    return lines


@dataclass
class Row:
    """The times of one operation in every round, sudare's and the peer's from the same round."""

    case: Case
    peer_op: str
    threads: int
    sudare: list[dict] = field(default_factory=list)
    peer: list[dict] = field(default_factory=list)

    @property
    def sudare_ms(self) -> float:
        return median(line["median_ms"] for line in self.sudare)

    @property
    def peer_ms(self) -> float:
        return median(line["median_ms"] for line in self.peer)

    @property
    def ratios(self) -> list[float]:
        return [b["median_ms"] / a["median_ms"] for a, b in zip(self.sudare, self.peer, strict=True)]

    def cells(self) -> list[str]:
        low, high = min(self.ratios), max(self.ratios)
        return [
            self.peer_op, self.case.sudare_params, str(self.threads), f"{self.sudare_ms:.4g}",
            self.case.peer, f"{self.peer_ms:.4g}", f"{median(self.ratios):.2f}",
            f"{low:.2f}–{high:.2f}", f"{precision(self.sudare)} / {precision(self.peer)}",
        ]


    def bootstrap_cells(self) -> list[str]:
        low, high = min(self.ratios), max(self.ratios)

        def both(value) -> str:
            return f"{value(self.sudare)} / {value(self.peer)}"

        def last(field: str, unit: float, form: str):
            return lambda lines: format(lines[-1][field] / unit, form)

        return [
            self.case.sudare_params, self.case.peer_params, str(self.threads),
            f"{self.sudare_ms / 1e3:.2f} / {self.peer_ms / 1e3:.2f}",
            f"{median(self.ratios):.2f}", f"{low:.2f}–{high:.2f}", both(precision),
            both(lambda lines: f"{min(line['worst_precision_bits'] for line in lines):.1f}"),
            both(last("levels_left", 1, ".0f")), both(last("key_bytes", 1 << 30, ".1f")),
            both(last("keygen_s", 1, ".0f")),
        ]


BOOTSTRAP_HEADINGS = [
    "sudare", "peer", "threads", "seconds", "peer / sudare", "range", "precision bits",
    "worst slot", "levels left", "keys GiB", "keys s",
]
HEADINGS = [
    "op", "params", "threads", "sudare ms", "peer", "peer ms", "peer / sudare", "range",
    "precision bits",
]


def precision(lines: list[dict]) -> str:
    """The least precision over the rounds, or a dash for exact operations."""
    values = [line["precision_bits"] for line in lines if line.get("precision_bits") is not None]
    return f"{min(values):.1f}" if values else "–"


def add_round(
    rows: dict, case: Case, ops: list[str], threads: int, ours: list[dict], theirs: list[dict]
) -> list[str]:
    """Pairs the lines of one round; returns the operations that a side did not report."""
    sudare_lines = {line["op"]: line for line in ours}
    peer_lines = {line["op"]: line for line in theirs}
    missing = []
    for op in ops:
        if op not in sudare_lines or op not in peer_lines:
            missing.append(op)
            continue
        for name in (op, *VARIANTS.get(op, ())):
            if name in peer_lines:
                row = rows.setdefault((case, name, threads), Row(case, name, threads))
                row.sudare.append(sudare_lines[op])
                row.peer.append(peer_lines[name])
    return missing


def describe_params(program: Path, name: str) -> dict | None:
    """What `sudare params` says of a set, or None where it says nothing usable."""
    try:
        command = [str(program), "params", name, "--json"]
        done = subprocess.run(command, capture_output=True, text=True)
        described = json.loads(done.stdout) if done.returncode == 0 else None
    except (OSError, ValueError):
        return None
    return described if isinstance(described, dict) else None


def size_warnings(row: Row, described: dict | None) -> list[str]:
    """Ways in which the two sets of a row are not of the same size."""
    peer = row.peer[0]
    where = f"{row.case.sudare_params} and {row.case.peer} {row.case.peer_params}"
    ours = described or {}
    warnings = []
    if "log_n" in ours and "log_n" in peer and ours["log_n"] != peer["log_n"]:
        warnings.append(f"{where}: log N is {ours['log_n']} and {peer['log_n']}")
    # Bootstrapping sets are each side's own way to the same end.
    if row.case.peer == "tfhe-ntt" or row.case in BOOTSTRAP_CASES:
        return warnings
    if "log_q" in ours and "log_q" in peer:
        if abs(ours["log_q"] - peer["log_q"]) > LOG_Q_TOLERANCE * peer["log_q"]:
            warnings.append(f"{where}: log Q is {ours['log_q']:.1f} and {peer['log_q']:.1f}")
    if "dnum" in ours and "dnum" in peer and ours["dnum"] != peer["dnum"]:
        warnings.append(f"{where}: dnum is {ours['dnum']} and {peer['dnum']}")
    if not ours:
        warnings.append(f"{where}: sizes not compared, `sudare params` did not describe the set")
    return warnings


def command_output(*command: str) -> str:
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def available_processors() -> list[int]:
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def commit() -> str:
    revision = command_output("git", "rev-parse", "--short=12", "HEAD") or "unknown"
    return revision + (" with local changes" if command_output("git", "status", "--porcelain") else "")


def processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def size(value: object) -> str:
    return f"{value:.0f}" if isinstance(value, (int, float)) else "–"


def sets_table(rows: list[Row], described: dict[str, dict | None]) -> list[list[str]]:
    """One line per parameter set and library, in the order of the rows."""
    table: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        peer = row.peer[0]
        ours = described.get(row.case.sudare_params) or {}
        version = f"{row.case.peer} {peer.get('version', '')}".strip()
        for library, name, values, line in (
            ("sudare", row.case.sudare_params, ours, row.sudare[0]),
            (version, row.case.peer_params, peer, peer),
        ):
            keys = ("log_n", "log_q", "log_p", "dnum", "security_bits")
            cells = [library, name, *(size(values.get(key)) for key in keys)]
            cells += [size(line.get("level")), line.get("isa", "–")]
            table.setdefault((library, name), cells)
    return list(table.values())


SETS_HEADINGS = [
    "library", "set", "log N", "log Q", "log P", "dnum", "security bits", "level", "kernels",
]


def markdown_table(headings: list[str], table: list[list[str]]) -> list[str]:
    lines = [headings, ["---"] * len(headings), *table]
    return ["| " + " | ".join(cells) + " |" for cells in lines]


def text_table(headings: list[str], table: list[list[str]]) -> str:
    lines = [headings, *table]
    widths = [max(len(line[i]) for line in lines) for i in range(len(headings))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines
    )


def results(rows: list[Row]) -> tuple[list[str], list[list[str]]]:
    """Headings and cells of the comparison."""
    if all(row.case in BOOTSTRAP_CASES for row in rows):
        return BOOTSTRAP_HEADINGS, [row.bootstrap_cells() for row in rows]
    return HEADINGS, [row.cells() for row in rows]


def report(rows: list[Row], described: dict, notes: list[str], options: argparse.Namespace) -> str:
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
    pinned = "pinned with taskset" if shutil.which("taskset") else "not pinned (no taskset)"
    lines = [
        "# Benchmarks against other libraries",
        "",
        "Written by `make bench-peers`; how the comparison is kept fair is in `benches/peers/README.md`.",
        "",
        f"- {now}, commit {commit()}",
        f"- {processor()}, {os.cpu_count()} processors, {platform.system()} {platform.machine()}",
        f"- {options.rounds} rounds in turn, each the median of {options.runs} runs after a warm-up,"
        f" {pinned}",
        "- Times are medians over the rounds. The ratio is the median of the ratios of each round (above 1:"
        " sudare is faster), with their range.",
        "- Precision is that of the worst slot, of bootstrapping that of the mean error, sudare /"
        " peer, the least over the rounds.",
        *(f"- {note}" for note in notes),
        "",
        *markdown_table(*results(rows)),
        "",
        "## Parameter sets",
        "",
        *markdown_table(SETS_HEADINGS, sets_table(rows, described)),
        "",
    ]
    return "\n".join(lines)


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value


def positive_list(text: str) -> list[int]:
    return [positive(part) for part in text.split(",")]


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--bootstrap", action="store_true",
        help="compare bootstrapping instead: minutes a round, and 17 GB of memory",
    )
    parser.add_argument(
        "--rounds", type=positive, help="rounds in turn (default 5; with --bootstrap 2)"
    )
    parser.add_argument(
        "--runs", type=positive, help="timed runs per round (default 7; with --bootstrap 3)"
    )
    parser.add_argument(
        "--threads", type=positive_list, help="thread counts (default 1,2; with --bootstrap 1)"
    )
    parser.add_argument("--only", metavar="OPS", help="operations, comma-separated")
    parser.add_argument("--peers", metavar="NAMES", help="peers, comma-separated: lattigo, tfhe-ntt")
    parser.add_argument("--sudare", type=Path, metavar="PATH", help="a built sudare; otherwise it is built")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write a Markdown report")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all lines as JSON lines")
    options = parser.parse_args()

    options.cases = BOOTSTRAP_CASES if options.bootstrap else CASES
    options.rounds = options.rounds or (2 if options.bootstrap else 5)
    options.runs = options.runs or (3 if options.bootstrap else 7)
    options.threads = options.threads or ([1] if options.bootstrap else [1, 2])
    known = {op for case in options.cases for op in case.ops}
    options.only = set(options.only.split(",")) if options.only else known
    if unknown := options.only - known:
        parser.error(f"--only {','.join(sorted(unknown))}: there are {', '.join(sorted(known))}")
    peers = {case.peer for case in options.cases}
    options.peers = set(options.peers.split(",")) if options.peers else peers
    if unknown := options.peers - peers:
        parser.error(f"--peers {','.join(sorted(unknown))}: there are {', '.join(sorted(peers))}")
    if options.sudare and not options.sudare.is_file():
        parser.error(f"--sudare {options.sudare}: no such file")
    return options


def say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


class Comparison:
    """Runs the cases in turn and collects their rows, lines and notes."""

    def __init__(self, sudare: Path, programs: dict[str, Path], options: argparse.Namespace) -> None:
        self.sudare = sudare
        self.programs = programs
        self.options = options
        self.rows: dict[tuple[Case, str, int], Row] = {}
        self.lines: list[dict] = []
        self.notes: list[str] = []
        self.failed = False

    def note(self, message: str) -> None:
        if message not in self.notes:
            self.notes.append(message)
            say(message)

    def measure(self, threads: int, processors: list[int]) -> None:
        """All rounds with one thread count."""
        cases = [
            case
            for case in self.options.cases
            if case.peer in self.programs and self.chosen_ops(case) and self.has_set(case)
        ]
        for turn in range(1, self.options.rounds + 1):
            for case in list(cases):
                say(
                    f"round {turn} of {self.options.rounds}, threads {threads}:"
                    f" {case.sudare_params} against {case.peer}"
                )
                if not self.measure_case(case, turn, threads, processors):
                    # A failing program leaves no half-measured rows behind.
                    cases.remove(case)
                    self.failed = True
                    self.rows = {
                        key: row
                        for key, row in self.rows.items()
                        if (row.case, row.threads) != (case, threads)
                    }

    def has_set(self, case: Case) -> bool:
        """Whether sudare has the set of a case; says so if not."""
        found = describe_params(self.sudare, case.sudare_params) is not None
        if not found:
            self.note(f"{case.peer_params} skipped: sudare has no set {case.sudare_params}")
        return found

    def chosen_ops(self, case: Case) -> list[str]:
        return [op for op in case.ops if op in self.options.only]

    def measure_case(self, case: Case, turn: int, threads: int, processors: list[int]) -> bool:
        """One round of one case: sudare, then the peer. False when a program failed."""
        ops, runs = self.chosen_ops(case), self.options.runs
        commands = {
            "sudare": sudare_command(self.sudare, case, ops, threads, runs),
            case.peer: peer_command(self.programs[case.peer], case, ops, threads, runs),
        }
        both = []
        for library, command in commands.items():
            try:
                both.append(run_lines(command, processors))
            except ProgramFailed as error:
                self.note(f"{library}, {case.sudare_params}, threads {threads}: failed: {error}")
                return False
            self.lines += [{"library": library, **line, "round": turn} for line in both[-1]]
        for op in add_round(self.rows, case, ops, threads, *both):
            self.note(f"{op}, {case.sudare_params}: not reported by both sides")
        return True


def build_peers(comparison: Comparison) -> None:
    for peer, build_peer in BUILDERS.items():
        if peer in comparison.options.peers:
            try:
                comparison.programs[peer] = build_peer()
            except BuildFailed as error:
                comparison.note(f"{peer} skipped: {error}")


def main() -> int:
    options = parse_options()
    BUILD_DIR.mkdir(parents=True, exist_ok=True)
    try:
        sudare = options.sudare.resolve() if options.sudare else build_sudare()
    except BuildFailed as error:
        say(f"sudare cannot be built: {error}")
        return 1

    comparison = Comparison(sudare, {}, options)
    build_peers(comparison)
    processors = available_processors()
    for threads in options.threads:
        if threads > len(processors):
            comparison.note(f"threads {threads} skipped: {len(processors)} processors are available")
        else:
            comparison.measure(threads, processors[:threads])

    if options.json:
        options.json.write_text("".join(json.dumps(line) + "\n" for line in comparison.lines))
    rows = list(comparison.rows.values())
    if not rows:
        say("nothing could be compared")
        return 1
    described = {name: describe_params(sudare, name) for name in {row.case.sudare_params for row in rows}}
    for row in rows:
        for warning in size_warnings(row, described[row.case.sudare_params]):
            comparison.note(warning)
    print(text_table(*results(rows)))
    if options.write:
        options.write.write_text(report(rows, described, comparison.notes, options))
    return 1 if comparison.failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
