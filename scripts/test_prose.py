#!/usr/bin/env python3
"""Plants a fault of each check of scripts/prose.py, which must find it."""

from __future__ import annotations

import contextlib
import io
import subprocess
import tempfile
import unittest
from pathlib import Path

import prose

LONG = "The server " + "and the other server " * 8 + "answer."
FAULTS = {
    "opener": ("crates/a/src/lib.rs", "/// Whether the key is new.\nfn new() {}\n"),
    "start": ("docs/a.md", "Of all rings this one is the smallest.\n"),
    "what": ("docs/a.md", "It writes what the owner\nsent, and what others sent, and what was there.\n"),
    "chain": ("docs/a.md", "A table, the rows of which are encrypted. Its rows and those of others.\n"),
    "long": ("docs/a.md", f"- {LONG}\n"),
    "word": ("crates/a/src/lib.rs", 'const MESSAGE: &str = "keys are made by whoever \\\n    decrypts";\n'),
    "none": ("python/sudare/a.py", 'raise ValueError(f"axis {axis} is none of {rank}")\n'),
    "number": ("docs/a.md", "It takes so many rows, and as many columns.\n"),
    "tuple": ("cli/src/main.rs", "fn main() {\n    let (mut a, b) = (f(1, (2)), 3);\n}\n"),
}
RIGHT = {
    "crates/a/src/lib.rs": """/// Returns `what` it found, or 'a char: '"', which opens no string.
fn f((a, b): Pair) { let (c, d) = (pair).split(); let (e, f) = g(a, b); }
#[cfg(test)]
mod tests {
    /// Whether nobody looks.
    const NOBODY: &str = "nobody";
}
""",
    "crates/a/tests/t.rs": '/// What tests document is not checked.\nconst NOBODY: &str = "nobody"; // As above.\n',
    "docs/a.md": f"What is a level? A number.\n\n```text\n{LONG}\n```\n\n| {LONG} |\n\n## Of levels\n\nYou pass it.\n",
    "python/sudare/a.py": '"""Returns a key.\n\nOf these there are two.\n"""\n',
}


def run(files: dict[str, str], table: str, *arguments: str) -> tuple[int, str, str]:
    """Returns the status of a run over a tree, its output, and the table after it."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        for path, source in {**files, "scripts/prose.toml": table}.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(source)
        subprocess.run("git init -q && git add .", cwd=root, shell=True, check=True)
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()):
            status = prose.main(list(arguments), root)
        return status, out.getvalue(), (root / "scripts/prose.toml").read_text()


class Prose(unittest.TestCase):
    def test_each_fault_is_found_by_its_check(self) -> None:
        self.assertEqual(FAULTS.keys(), prose.CHECKS.keys())
        for name, (path, source) in FAULTS.items():
            with self.subTest(name):
                found, _ = prose.check(path, source)
                self.assertIn(name, {fault[1] for fault in found})
                if name != "opener" and name != "long":  # Shares that are always allowed leave room for one.
                    status, out, _ = run({path: source * 2}, "")
                    self.assertEqual(status, 1)
                    self.assertRegex(out, rf"^{path}:\d: rule {prose.CHECKS[name].rule} \({name}\)")

    def test_lines_are_those_of_the_findings(self) -> None:
        found, _ = prose.check("docs/a.md", "A page.\n\n```sh\nnobody\n```\n\nIt has `a\nb`, and nobody\nelse.\n")
        self.assertEqual(found, [(8, "word", "nobody")])

    def test_tuple_parameters_are_found(self) -> None:
        found, _ = prose.check("cli/src/a.rs", "fn f(\n    g: u8,\n    (a, b): (u8, u8),\n) {}\n")
        self.assertEqual([fault[:2] for fault in found], [(3, "tuple")])

    def test_comments_and_python_outside_the_package_are_checked(self) -> None:
        for path, source in [
            ("crates/a/tests/t.rs", "fn f() {\n    // What is sent\n    // again is kept.\n}\n"),
            ("crates/a/src/lib.rs", "#[cfg(test)]\nmod tests {\n    // Whoever asks.\n}\n"),
            ("python/tests/test_a.py", 'def test() -> None:\n    """Whether it holds."""\n'),
            ("scripts/a.py", "A = 1\n# Of the table.\nB = 2\n"),
        ]:
            with self.subTest(path):
                found, _ = prose.check(path, source)
                self.assertEqual((found[0][0], found[0][1]), (3 if "src" in path else 2, "opener"))

    def test_plain_english_passes(self) -> None:
        self.assertEqual(run(RIGHT, ""), (0, "", ""))

    def test_limits_allow_and_only_go_down(self) -> None:
        path, source = FAULTS["tuple"]
        head, one, two = "# Limits.\n", '"cli" = { tuple = 1 }\n', '"cli" = { tuple = 2 }\n'
        self.assertEqual(run({path: source}, head + one)[0], 0)
        self.assertEqual(run({path: source}, head + two, "--write"), (0, "", head + one))
        status, out, table = run({path: source * 2}, head + one)
        self.assertEqual((status, out.count("rule 13"), table), (1, 2, head + one))
        self.assertEqual(run({path: source * 2}, head + one, "--write")[2], head + one)
        self.assertEqual(run(RIGHT, head + one, "--write")[2], head)


if __name__ == "__main__":
    unittest.main()
