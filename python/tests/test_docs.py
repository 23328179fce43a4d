"""Runs the blocks of the documents, and compares their output with the pages.

Blocks marked `python` and `sh` run in the order of the page, in a directory with the repository's `crates`. A title
that ends in `.py` names the file for the block. Any other title names its terminal, a shell or a Python of its own. A
`text` block right after another block is its output: numbers may differ by one unit of the last digit, and `…`
stands for anything. A comment before a block gives the reason to leave it out: `<!-- slow: WHY -->` for blocks that
only `make test-full` runs, `<!-- not run: WHY -->` for others. Mark blocks that change the machine as `console`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Tests of Rust run the commands of these pages.
ELSEWHERE = {"README.md", "docs/interfaces.md"}
# Pages whose programs in Rust are doctests of the crate `sudare`.
RUST = {"README.md", "docs/start/rust.md"}
LANGUAGES = {"python", "sh", "text", "console"}
# Runs code from JSON lines, and responds with its output and its error, if any.
INTERPRETER = """
import contextlib, io, json, sys, traceback
names = {"__name__": "__main__"}
for line in sys.stdin:
    page, text = json.loads(line)
    printed, error = io.StringIO(), None
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(text, page, "exec"), names)
    except BaseException:
        error = traceback.format_exc()
    print(json.dumps([printed.getvalue(), error]), flush=True)
"""
NUMBER = r"-?\d+(?:\.\d*)?(?:e[-+]?\d+)?"


@dataclass
class Block:
    language: str
    title: str
    marker: str
    line: int
    text: str
    output: str | None = None


def blocks(page: str) -> list[Block]:
    found: list[Block] = []
    opened: Block | None = None
    between: list[str] = []
    for number, line in enumerate((ROOT / page).read_text(encoding="utf-8").splitlines(), 1):
        if opened is not None and line != "```":
            opened.text += line + "\n"
        elif opened is not None:
            if opened.language == "text" and found and not between:
                found[-1].output = opened.text
            found.append(opened)
            opened, between = None, []
        elif line.lstrip().startswith("```"):
            head = re.fullmatch(r'```(\w+)(?: title="([^"]+)")?', line)
            assert head, f"{page}:{number}: a block starts with its language, at the margin"
            marker = re.fullmatch(r"<!-- (slow|not run): .+ -->", between[-1] if between else "")
            opened = Block(head[1], head[2] or "", marker[1] if marker else "", number, "")
        elif line.strip():
            between.append(line)
    assert opened is None, f"{page}: a block does not end"
    return found


def pages() -> list[str]:
    found = [path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")]
    return sorted({*found, *ELSEWHERE, "python/README.md"})


def check_output(found: str, expected: str) -> None:
    """Checks that `expected` describes `found`."""

    def pattern(part: str) -> str:
        if re.fullmatch(NUMBER, part):
            return f"({NUMBER})"
        return ".*?" if part == "…" else r"\s+".join(map(re.escape, re.split(r"\s+", part)))

    parts = re.split(f"({NUMBER}|…)", expected.strip())
    match = re.fullmatch("".join(map(pattern, parts)), found.strip(), re.DOTALL)
    assert match, f"printed\n{found}\nand not\n{expected}"
    for number, shown in zip(match.groups(), re.findall(NUMBER, expected), strict=True):
        mantissa, _, exponent = shown.partition("e")
        digits = len(mantissa.partition(".")[2])
        unit = 10.0 ** (int(exponent or 0) - digits) if digits or exponent else 0.0
        assert abs(float(number) - float(shown)) <= 1.01 * unit, f"printed {number}, not {shown}"


class Terminal:
    """A shell, with a Python that starts when the first block needs it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python: subprocess.Popen[str] | None = None

    def run_python(self, page: str, block: Block) -> str:
        if self.python is None:
            self.python = subprocess.Popen(
                [sys.executable, "-c", INTERPRETER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=self.folder,
            )
        assert self.python.stdin is not None and self.python.stdout is not None
        # Line numbers are the page's.
        print(
            json.dumps([page, "\n" * block.line + block.text]), file=self.python.stdin, flush=True
        )
        printed, error = json.loads(self.python.stdout.readline())
        assert error is None, f"{printed}\n{error}"
        return str(printed)

    def run_shell(self, page: str, block: Block) -> str:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        ran = subprocess.run(
            ["sh", "-eu", "-c", f"{block.text}\npwd >&2"],
            capture_output=True,
            text=True,
            cwd=self.folder,
            env={**os.environ, "PATH": path},
            check=False,
        )
        assert ran.returncode == 0, f"{page}:{block.line}: {ran.stdout}\n{ran.stderr}"
        self.folder = Path(ran.stderr.splitlines()[-1])
        return ran.stdout

    def close(self) -> None:
        if self.python is not None:
            self.python.communicate()


def follow(page: str, folder: Path, *, slow: bool = False) -> None:
    """Runs the blocks of a page."""
    (folder / "crates").symlink_to(ROOT / "crates")
    terminals: dict[str, Terminal] = {}
    try:
        for block in blocks(page):
            if block.language not in ("python", "sh") or block.marker not in ("", "slow" * slow):
                continue
            if block.title.endswith(".py"):
                (folder / block.title).write_text(block.text, encoding="utf-8")
                continue
            if block.language == "sh" and page in ELSEWHERE:
                continue
            terminal = terminals.setdefault(block.title, Terminal(folder))
            run = terminal.run_python if block.language == "python" else terminal.run_shell
            printed = run(page, block)
            if block.output is not None:
                check_output(printed, block.output)
    finally:
        for terminal in terminals.values():
            terminal.close()


@pytest.mark.parametrize("page", pages())
def test_the_blocks_of_a_page_run(page: str, tmp_path: Path) -> None:
    follow(page, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in pages() if any(b.marker == "slow" for b in blocks(p))])
def test_the_slow_blocks_of_a_page_run(page: str, tmp_path: Path) -> None:
    follow(page, tmp_path, slow=True)


@pytest.mark.slow
def test_costs_are_those_of_today() -> None:
    script = [sys.executable, str(ROOT / "scripts/costs.py"), "--check"]
    assert subprocess.run(script, check=False).returncode == 0, "run scripts/costs.py"


def test_diagrams_are_those_of_today() -> None:
    script = [sys.executable, str(ROOT / "scripts/diagrams.py"), "--check"]
    assert subprocess.run(script, check=False).returncode == 0, "run scripts/diagrams.py"


def test_blocks_say_what_they_are() -> None:
    """Checks that every block has a known language."""
    for page in [*pages(), "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md"]:
        allowed = LANGUAGES | ({"rust", "toml"} if page in RUST else set())
        for block in blocks(page):
            assert block.language in allowed, f"{page}:{block.line}: {block.language}"


@pytest.mark.parametrize(
    ("found", "expected"),
    [("1.2345", "1.2346"), ("a 12 b", "a 12  b"), ("x\n1e-7 y 3", "x … 3"), ("-0.50", "-0.51")],
)
def test_outputs_may_differ_in_the_last_digit(found: str, expected: str) -> None:
    check_output(found, expected)


@pytest.mark.parametrize(
    ("found", "expected"), [("1.2345", "1.2347"), ("12", "13"), ("a b", "a c"), ("a b", "a")]
)
def test_other_outputs_are_refused(found: str, expected: str) -> None:
    with pytest.raises(AssertionError):
        check_output(found, expected)
