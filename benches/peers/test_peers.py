"""Tests of the comparison itself, without building or timing anything.

Run by `python3 -m unittest discover --start-directory benches/peers`.
"""

import json
import math
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import agree
import agree_reals
import programs
import report
import run
import values
from cases import CASES, PEERS, SUDARE, Case, Entrant
from programs import ProgramFailed


class FakePricer:
    """Prices that record their queries."""

    def describe(self, name: str) -> dict | None:
        if name == "missing":
            return None
        sizes = {"log_n": 15, "log_q": 610.0, "log_p": 240.0, "dnum": 3, "security_bits": 131.0}
        return sizes | {"q_bits": [[44.0], [37.0]], "log2_scale": 37.0}

    def security_bits(self, log_n: int, keys: list[dict]) -> float:
        return min(key["log2_q"] for key in keys) / 10


CASE = Case(
    "leveled",
    Entrant(SUDARE, "ours", ("rotate", "add"), 10),
    (Entrant("lattigo", "theirs", ("rotate",), 20, max_threads=1),),
)
BOOTSTRAP_CASE = next(case for case in CASES if case.ours.params == "n16-boot")


def record(case: Case, entrant: Entrant, turn: int, line: dict, **more) -> dict:
    return {
        "part": case.part, "case": case.ours.params, "library": entrant.library,
        "params": entrant.params, "threads": 1, "round": turn, "runs": 3, "seconds": 5.0,
        "peak_bytes": 1 << 30, "lines": [line],
    } | more


class Throughput(unittest.TestCase):
    def test_published_sets_of_lattigo(self):
        # Sets I and III' of https://ckks.org/blog/2026/less-mod-ckks.
        first = report.log2_throughput(1 << 15, 27.8, 580, 25.98)
        self.assertAlmostEqual(first, 24.28, delta=0.01)
        # 2^5 slots, 2^2 bits of them, 2^1 bits of modulus, 2^-1 seconds.
        self.assertAlmostEqual(report.log2_throughput(32, 4, 2, 0.5), 9)

    def test_remaining_modulus(self):
        ours, peer = BOOTSTRAP_CASE.ours, BOOTSTRAP_CASE.peers[0]
        line = {"levels_left": 14, "residual_bits": 580}
        self.assertEqual(report.residual_bits(ours, line, FakePricer()), 44 + 14 * 37)
        self.assertEqual(report.residual_bits(peer, line, FakePricer()), 580)
        self.assertIsNone(report.residual_bits(peer, {}, FakePricer()))


class Rows(unittest.TestCase):
    def test_ratios_are_taken_within_a_round(self):
        peer, records = CASE.peers[0], []
        for turn, ours, theirs in [(1, 10, 30), (2, 20, 40), (3, 10, 100)]:
            records.append(record(CASE, CASE.ours, turn, {"op": "rotate", "median_ms": ours}))
            # The peer failed in the third round.
            if turn < 3:
                records.append(record(CASE, peer, turn, {"op": "rotate", "median_ms": theirs}))
        (row,) = report.rows_of(records, CASE, 1)
        self.assertEqual(row.ratios, [3, 2])
        cells = report.operation_cells(row)
        self.assertEqual(cells[2:8], ["15", "lattigo", "theirs", "35", "2.50", "2.00–3.00"])
        self.assertEqual(report.rows_of(records, CASE, 2), [])

    def test_exact_operations_have_no_precision(self):
        case = next(case for case in CASES if case.part == "exact")
        line = {"op": "bfv_mul", "median_ms": 6, "log_n": 14, "log_q": 330, "dnum": 3}
        records = [record(case, case.ours, 1, line | {"median_ms": 3})]
        records.append(record(case, case.peers[0], 1, line))
        table = next(s for s in report.sections(records, FakePricer()) if "BGV" in s.title)
        self.assertEqual(len(table.headings), len(table.table[0]))
        self.assertNotIn("precision", " ".join(table.headings))
        self.assertEqual(table.table[0][6], "2.00")
        # The described set has another ring.
        self.assertEqual(len(report.size_warnings(records, FakePricer())), 2)

    def test_variants_are_compared_with_the_operation(self):
        case = CASES[0]
        peer = case.peers[0]
        records = [record(case, case.ours, 1, {"op": "ntt_inverse", "median_ms": 2})]
        both = [{"op": "ntt_inverse", "median_ms": 4}, {"op": "ntt_inverse_normalized", "median_ms": 6}]
        records.append(record(case, peer, 1, both[0], lines=both))
        found = {row.op: row.ratios for row in report.rows_of(records, case, 1)}
        self.assertEqual(found, {"ntt_inverse": [2], "ntt_inverse_normalized": [3]})

    def test_bootstrapping(self):
        case, peer = BOOTSTRAP_CASE, BOOTSTRAP_CASE.peers[0]
        line = {
            "op": "bootstrap", "median_ms": 2000, "log_slots": 15, "precision_bits": 21.5,
            "worst_precision_bits": 18.2, "levels_left": 14, "key_bytes": 3 << 30, "keygen_s": 12.0,
            "prepare_s": 4.0,
        }
        theirs = line | {
            "median_ms": 20000, "log_n": 16, "residual_bits": 580,
            "keys": [{"log2_q": 1767.0}, {"log2_q": 121.0, "weight": 32}],
        }
        records = [record(case, case.ours, 1, line), record(case, peer, 1, theirs)]
        ours, other = report.bootstrap_table(records, case, 1, FakePricer())
        self.assertEqual(len(ours), len(report.BOOTSTRAP_HEADINGS))
        self.assertEqual(ours[3:8], ["2^15", "131.0", "2.00", "–", "–"])
        self.assertEqual(other[4:8], ["12.1", "20.00", "10.00", "10.00–10.00"])
        self.assertEqual(ours[12], f"{math.log2(2**15 * 21.5 * 562 / 2):.1f}")
        text = report.markdown(records, ["today"], ["poulpy skipped: why"], FakePricer())
        self.assertIn("## Bootstrapping, 1 thread", text)
        self.assertIn("- poulpy skipped: why", text)
        for line in text.splitlines():
            self.assertFalse(line.startswith("|") and not line.endswith("|"), line)

    def test_sizes_that_differ_are_said(self):
        case = next(case for case in CASES if case.part == "leveled")
        same = {"op": "rotate", "median_ms": 1, "log_n": 15, "log_q": 608, "dnum": 3}
        for line, warnings in [(same, 0), (same | {"log_q": 660}, 1), (same | {"dnum": 4, "log_n": 14}, 2)]:
            records = [record(case, case.peers[0], 1, line)]
            self.assertEqual(len(report.size_warnings(records, FakePricer())), warnings, line)


class Programs(unittest.TestCase):
    def test_benchmark_lines(self):
        line = {"op": "rotate", "median_ms": 1.5}
        self.assertEqual(programs.parse_lines(json.dumps(line) + "\n\n"), [line])
        for bad in ["", "no JSON", '{"op": "rotate"}', '{"op": "rotate", "median_ms": 0}', "[1]"]:
            with self.assertRaises(ProgramFailed):
                programs.parse_lines(bad)

    def test_failures_are_told_from_results(self):
        def python(script: str):
            return programs.run_lines([sys.executable, "-c", script], "test", [0])

        good = "print('{\"op\": \"add\", \"median_ms\": 2}'); x = bytearray(50 << 20)"
        lines, done = python(good)
        self.assertEqual(lines[0]["median_ms"], 2)
        self.assertGreater(done.peak_bytes, 50 << 20)
        self.assertLess(done.peak_bytes, 10 << 30)
        with self.assertRaisesRegex(ProgramFailed, "exit status 3: too bad"):
            python("import sys; print('too bad', file=sys.stderr); sys.exit(3)")
        with self.assertRaisesRegex(ProgramFailed, "signal 9"):
            python("import os; os.kill(os.getpid(), 9)")
        with self.assertRaises(ProgramFailed):
            programs.run_lines(["/no/such/program"], "test", [0])

    def test_a_program_that_hangs_is_stopped(self):
        with mock.patch.object(programs, "LONGEST", 0.2):
            with self.assertRaisesRegex(ProgramFailed, "stopped after"):
                programs.run_lines([sys.executable, "-c", "import time; time.sleep(60)"], "test", [0])

    def test_errors_of_builds(self):
        text = "   Compiling x\nerror: feature `enable-ifma` requires AVX512-IFMA\n  --> y\nerror: gave up"
        self.assertEqual(
            programs.build_error(text), "error: feature `enable-ifma` requires AVX512-IFMA"
        )
        self.assertEqual(programs.build_error("a\nb\n"), "b")

    def test_a_peer_is_as_secure_as_its_weakest_key(self):
        pricer = programs.Pricer(["sudare"])
        asked = []

        def answer(command, **_):
            asked.append(command)
            bits = 100 if "--weight" in command else 130
            return mock.Mock(returncode=0, stdout=json.dumps({"security_bits": bits}))

        keys = [{"log2_q": 880}, {"log2_q": 120.5, "weight": 32}]
        with mock.patch("subprocess.run", answer):
            self.assertEqual(pricer.security_bits(15, keys), 100)
            self.assertEqual(pricer.security_bits(15, keys[:1]), 130)
        self.assertEqual(
            asked[1],
            ["sudare", "params", "--log-n", "15", "--log-qp", "120.5", "--weight", "32", "--json"],
        )
        self.assertEqual(len(asked), 2)

    def test_every_library_has_a_builder(self):
        self.assertEqual({SUDARE, *PEERS}, set(programs.BUILDERS))


class Planning(unittest.TestCase):
    def options(self, *arguments: str):
        return run.parse_options(list(arguments))

    def test_sudare_runs_before_its_peers_in_every_round(self):
        planned = run.turns(self.options("--parts", "bootstrapping", "--rounds", "2"))
        self.assertEqual({turn.round for turn in planned}, {1, 2})
        half = len(planned) // 2
        self.assertEqual([t.round for t in planned], [1] * half + [2] * half)
        for case in (case for case in CASES if case.part == "bootstrapping"):
            entrants = [t.entrant for t in planned[:half] if t.case is case]
            self.assertEqual(entrants, list(case.entrants))

    def test_only_what_is_compared_is_run(self):
        planned = run.turns(self.options("--parts", "leveled", "--peers", "poulpy", "--rounds", "1"))
        self.assertEqual({t.ops for t in planned}, {("mul_rescale", "rotate")})
        planned = run.turns(self.options("--only", "encode", "--rounds", "1"))
        self.assertEqual({t.entrant.library for t in planned}, {SUDARE, "lattigo"})
        # Poulpy is compared on one thread.
        planned = run.turns(self.options("--peers", "poulpy", "--threads", "2"))
        self.assertEqual(planned, [])

    def test_the_report_of_everything_has_a_place(self):
        self.assertEqual(self.options().write, run.REPORT)
        self.assertIsNone(self.options("--parts", "leveled").write)
        for mistake in (["--parts", "x"], ["--rounds", "0"], ["--peers", "lattigo,x"], ["--sudare", "/x"]):
            with self.assertRaises(SystemExit), mock.patch("sys.stderr"):
                self.options(*mistake)

    def test_estimates_follow_what_was_measured(self):
        turn = run.turns(self.options("--parts", "leveled"))[0]
        self.assertEqual(run.expected_seconds(turn, []), turn.entrant.seconds)
        before = turn.key("a") | {"round": 7, "seconds": 3.0}
        self.assertEqual(run.expected_seconds(turn, [before]), 3)


class Agreement(unittest.TestCase):
    def test_differences_are_named(self):
        ours = {"bgv_mul": [1, 2], "swap_rows": [2, 1], "coefficients": [5, 0]}
        self.assertEqual(agree.differences(ours, dict(ours)), [])
        theirs = ours | {"swap_rows": [1, 2]}
        (found,) = agree.differences(ours, theirs)
        self.assertIn("swap_rows: 2 of 2", found)
        self.assertEqual(len(agree.differences(ours, {})), 3)
        # At another root of unity, and at a number that is not a root.
        polynomial = [7, 1, 2, 3]
        self.assertEqual(agree.image(polynomial, 3), [7, 3, 65535, 1])
        for theirs, count in [(agree.image(polynomial, 5), 0), ([7, 1, 3, 2], 1)]:
            found = agree.differences({"coefficients": polynomial}, {"coefficients": theirs})
            self.assertEqual(len(found), count)
        self.assertEqual(values.parse('{"op": "a", "slots": [1]}\n'), {"a": [1]})

    def test_real_numbers_are_compared_one_by_one(self):
        ours = {"sum": [1.0, 2.0], "product": [0.5, 0.25]}
        self.assertEqual(agree_reals.compared(ours, dict(ours)), {"sum": 0.0, "product": 0.0})
        near = ours | {"sum": [1.0, 2.5]}
        self.assertEqual(agree_reals.compared(ours, near)["sum"], 0.5)
        infinite = float("inf")
        for theirs in ([1.0], [1.0, float("nan")], []):
            self.assertEqual(agree_reals.largest(ours["sum"], theirs), infinite)
        self.assertEqual(agree_reals.compared(ours, {}), {"sum": infinite, "product": infinite})


class Resuming(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        records = Path(folder.name) / "runs.jsonl"
        for patch in (
            mock.patch.object(run, "RECORDS", records),
            mock.patch.object(run, "BUILD_DIR", records.parent),
            mock.patch.object(run, "say"),
            mock.patch.object(run, "available_bytes", lambda: 64 << 30),
        ):
            patch.start()
            self.addCleanup(patch.stop)

    def comparison(self, *arguments: str, revision: str = "r1"):
        options = run.parse_options(["--parts", "leveled", "--peers", "lattigo,poulpy", *arguments])
        comparison = run.Comparison(options, revision)
        comparison.programs = {name: [name] for name in programs.BUILDERS}
        return comparison, run.turns(options)

    def go(self, comparison, planned, failing: str = "") -> list[str]:
        """Runs programs that do nothing, and returns their libraries."""
        ran = []

        def run_lines(command, label, processors):
            ran.append(command[0])
            if command[0] == failing:
                raise ProgramFailed("no memory")
            ops = [op for turn in planned for op in turn.ops]
            lines = [{"op": op, "median_ms": 1.0} for op in dict.fromkeys(ops)]
            return lines, programs.Finished(0, "", "", 2.0, 1 << 20)

        with mock.patch.object(run, "run_lines", run_lines):
            comparison.run(planned, [0])
        return ran

    def test_finished_runs_are_not_repeated(self):
        comparison, planned = self.comparison("--rounds", "1")
        self.assertEqual(len(self.go(comparison, planned)), len(planned))
        comparison, planned = self.comparison("--rounds", "2", "--resume")
        again = self.go(comparison, planned)
        self.assertEqual(len(again), len(planned) // 2)
        # Everything runs for another commit, or without --resume.
        comparison, planned = self.comparison("--rounds", "1", "--resume", revision="r2")
        self.assertEqual(len(self.go(comparison, planned)), len(planned))
        comparison, planned = self.comparison("--rounds", "1", revision="r2")
        self.assertEqual(comparison.records, [])

    def test_a_cut_off_line_is_left_out(self):
        comparison, planned = self.comparison("--rounds", "1")
        self.go(comparison, planned)
        text = run.RECORDS.read_text()
        run.RECORDS.write_text(text[:-20])
        comparison, planned = self.comparison("--rounds", "1", "--resume")
        self.assertEqual(len(self.go(comparison, planned)), 1)
        self.assertEqual(len(run.load_records(run.RECORDS)), len(planned))

    def test_a_failing_peer_is_left_out_and_named(self):
        comparison, planned = self.comparison("--rounds", "2")
        ran = self.go(comparison, planned, failing="lattigo")
        # Once at each size.
        self.assertEqual(ran.count("lattigo"), 2)
        self.assertEqual(ran.count("poulpy"), 4)
        self.assertTrue(comparison.failed)
        self.assertIn("no memory", comparison.notes[0])

    def test_a_peer_that_cannot_be_built_is_left_out_and_named(self):
        comparison, planned = self.comparison("--rounds", "1")

        def fail():
            raise programs.BuildFailed("no compiler")

        builders = {name: lambda: ["program"] for name in programs.BUILDERS}
        with mock.patch.dict(run.BUILDERS, builders | {"lattigo": fail}):
            comparison.build([SUDARE, "lattigo", "poulpy"])
        self.assertEqual(comparison.notes, ["lattigo skipped: no compiler"])
        self.assertTrue(comparison.failed)
        self.assertNotIn("lattigo", self.go(comparison, planned))

    def test_nothing_runs_beside_a_failing_sudare(self):
        comparison, planned = self.comparison("--rounds", "2")
        self.assertEqual(self.go(comparison, planned, failing=SUDARE), [SUDARE, SUDARE])

    def test_too_little_memory_is_said_before(self):
        comparison, planned = self.comparison("--rounds", "1")
        with mock.patch.object(run, "available_bytes", lambda: 1 << 28):
            self.assertEqual(self.go(comparison, planned), [])
        self.assertIn("GiB", comparison.notes[0])


if __name__ == "__main__":
    unittest.main()
