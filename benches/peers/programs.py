"""Builds and runs the programs of the comparison."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cases import SUDARE, VARIANTS, Entrant

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD_DIR = ROOT / "target" / "peers"

# Seconds between two messages that a program still runs.
HEARTBEAT = 30
# Maximum seconds of a program. One that takes longer hangs, and is stopped.
LONGEST = 3600
# Version of OpenFHE's wheel.
OPENFHE_PYTHON = "python3.10"


class BuildFailed(Exception):
    """A program cannot be built here, for the reason in the message."""


class ProgramFailed(Exception):
    """A benchmark program ended with an error or printed something unexpected."""


def say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no message"


def duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def gib(size: float) -> str:
    return f"{size / (1 << 30):.1f}"


@dataclass(frozen=True)
class Finished:
    """How a program ended."""

    status: int
    stdout: str
    stderr: str
    seconds: float
    # Peak memory.
    peak_bytes: int


def run(command: list[str], label: str, cwd: Path | None = None, env: dict | None = None) -> Finished:
    """Runs a program to its end, and reports now and then that it still runs.

    Raises OSError if it cannot be started.
    """
    with tempfile.TemporaryFile("w+") as stdout, tempfile.TemporaryFile("w+") as stderr:
        start = spoken = time.monotonic()
        child = subprocess.Popen(command, stdout=stdout, stderr=stderr, cwd=cwd, env=env)
        try:
            while True:
                ended, status, usage = os.wait4(child.pid, os.WNOHANG)
                now = time.monotonic()
                if ended:
                    child.returncode = os.waitstatus_to_exitcode(status)
                    break
                if now - start > LONGEST:
                    child.kill()
                elif now - spoken >= HEARTBEAT:
                    memory = gib(resident(child.pid))
                    say(f"  {label}: {duration(now - start)} so far, {memory} GiB")
                    spoken = now
                time.sleep(0.1)
        except BaseException:
            child.kill()
            child.wait()
            raise
        for stream in (stdout, stderr):
            stream.seek(0)
        unit = 1 if sys.platform == "darwin" else 1024
        peak = usage.ru_maxrss * unit
        return Finished(child.returncode, stdout.read(), stderr.read(), now - start, peak)


def resident(pid: int) -> int:
    """Returns the bytes of memory of a process, or 0 if the system does not report them."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def available_bytes() -> int | None:
    """Returns the available memory, or None if the system does not report it."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    except (OSError, ValueError, IndexError):
        pass
    return None


def _build(command: list[str], cwd: Path, env: dict | None = None) -> None:
    tool = shutil.which(command[0])
    if tool is None:
        raise BuildFailed(f"{command[0]} is not installed")
    what = " ".join([Path(command[0]).name, *command[1:2]])
    say(f"building in {cwd.relative_to(ROOT.parent)}/ ({what}), minutes the first time")
    done = run([tool, *command[1:]], what, cwd, env)
    if done.status != 0:
        raise BuildFailed(f"{what} failed in {cwd.name}/: {build_error(done.stderr)}")


def build_error(text: str) -> str:
    """Returns the most useful line of a failed build: the first error, or the last line."""
    errors = [line.strip() for line in text.splitlines() if line.strip().startswith("error")]
    return errors[0] if errors else last_line(text)


def build_sudare() -> list[str]:
    _build(["cargo", "build", "--release", "--locked", "--bin", "sudare"], ROOT)
    # Cargo resolves a relative directory against its own working directory.
    target = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
    return [str(target / "release" / "sudare")]


def build_lattigo() -> list[str]:
    program = str(BUILD_DIR / "sudare-peer-lattigo")
    _build(["go", "build", "-mod=readonly", "-o", program, "."], HERE / "lattigo")
    return [program]


def build_ntt() -> list[str]:
    target = BUILD_DIR / "ntt"
    _build(["cargo", "build", "--release", "--locked", "--target-dir", str(target)], HERE / "ntt")
    return [str(target / "release" / "sudare-peer-ntt")]


def has_ifma() -> bool:
    """True if programs may use AVX-512 IFMA: the processor has it, and `SUDARE_ISA` does not exclude it."""
    if os.environ.get("SUDARE_ISA", "avx512ifma") != "avx512ifma":
        return False
    try:
        return "avx512ifma" in Path("/proc/cpuinfo").read_text()
    except OSError:
        return False


def build_poulpy() -> list[str]:
    backend = "avx512ifma" if has_ifma() else "avx2"
    target = BUILD_DIR / f"poulpy-{backend}"
    # The directory specifies the compiler and the instructions.
    overriding = ("RUSTUP_TOOLCHAIN", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS")
    env = {name: value for name, value in os.environ.items() if name not in overriding}
    command = ["cargo", "build", "--release", "--locked", "--no-default-features", "--features", backend]
    _build([*command, "--target-dir", str(target)], HERE / "poulpy", env)
    return [str(target / "release" / "sudare-peer-poulpy")]


def build_openfhe() -> list[str]:
    """Makes a virtual environment with the wheel."""
    python = environment("openfhe", openfhe_python)
    return [python, str(HERE / "openfhe" / "bench.py")]


def build_tenseal() -> list[str]:
    """Returns the program of TenSEAL's values in a virtual environment."""
    return [environment("tenseal", lambda: sys.executable), str(HERE / "tenseal" / "values.py")]


def environment(module: str, interpreter: Callable[[], str]) -> str:
    """Returns the Python of a virtual environment with the wheel of a peer, and creates it if necessary."""
    folder = BUILD_DIR / module
    python = str(folder / "bin" / "python")
    if not imports(python, module):
        _build([interpreter(), "-m", "venv", "--clear", str(folder)], HERE / module)
        _build([python, "-m", "pip", "install", "-r", "requirements.txt"], HERE / module)
        if not imports(python, module):
            raise BuildFailed(f"the wheel of {module} cannot be imported")
    return python


def imports(python: str, module: str) -> bool:
    try:
        return run([python, "-c", f"import {module}"], f"import {module}").status == 0
    except OSError:
        return False


def openfhe_python() -> str:
    found = [shutil.which(OPENFHE_PYTHON)]
    found += map(str, Path.home().glob(f".pyenv/versions/3.10.*/bin/{OPENFHE_PYTHON}"))
    for candidate in filter(None, found):
        # A command in the path may stand in for a version that is not installed.
        if run([candidate, "--version"], candidate).status == 0:
            return candidate
    raise BuildFailed(f"{OPENFHE_PYTHON} is not installed, and the wheel is for no other version")


BUILDERS = {
    SUDARE: build_sudare,
    "lattigo": build_lattigo,
    "openfhe": build_openfhe,
    "poulpy": build_poulpy,
    "tfhe-ntt": build_ntt,
}


def command(
    program: list[str], entrant: Entrant, ops: tuple[str, ...], threads: int, runs: int
) -> list[str]:
    """Returns the command that times operations. All programs print the same JSON lines."""
    common = ["--threads", str(threads), "--runs", str(runs)]
    if entrant.library == SUDARE:
        return [*program, "bench", *ops, "--params", entrant.params, *common, "--json"]
    if entrant.library == "tfhe-ntt":
        names = [name for op in ops for name in (op, *VARIANTS.get(op, ()))]
        log_n, bits = entrant.params.removeprefix("n").split("-")
        size = ["--log-n", log_n, "--prime-bits", bits]
        return [*program, *size, "--ops", ",".join(names), *common]
    return [*program, "--params", entrant.params, "--ops", ",".join(ops), *common]


def parse_lines(stdout: str) -> list[dict]:
    """Returns the benchmark lines of a program's output."""
    try:
        lines = [json.loads(text) for text in stdout.splitlines() if text.strip()]
        for line in lines:
            if not (float(line["median_ms"]) > 0 and line["op"]):
                raise ValueError(f"not a benchmark line: {line}")
    except (ValueError, KeyError, TypeError) as error:
        raise ProgramFailed(f"output is not benchmark lines: {error!r}") from error
    if not lines:
        raise ProgramFailed("no benchmark lines")
    return lines


def run_lines(command: list[str], label: str, processors: list[int]) -> tuple[list[dict], Finished]:
    """Runs one program pinned to `processors`. Returns its benchmark lines, and how it ended."""
    if taskset := shutil.which("taskset"):
        command = [taskset, "-c", ",".join(map(str, processors)), *command]
    try:
        done = run(command, label)
    except OSError as error:
        raise ProgramFailed(f"{command[0]}: {error}") from error
    if done.seconds > LONGEST:
        raise ProgramFailed(f"stopped after {duration(LONGEST)}: no program takes as long")
    if done.status < 0:
        signal = -done.status
        raise ProgramFailed(f"ended by signal {signal}; 9 is also what a lack of memory sends")
    if done.status != 0:
        raise ProgramFailed(f"exit status {done.status}: {last_line(done.stderr)}")
    return parse_lines(done.stdout), done


class Pricer:
    """Sizes and security by `sudare params`, each queried once."""

    def __init__(self, program: list[str]) -> None:
        self._program = program
        self._answers: dict[tuple[str, ...], dict | None] = {}

    def _ask(self, *arguments: str) -> dict | None:
        if arguments not in self._answers:
            command = [*self._program, "params", *arguments, "--json"]
            try:
                done = subprocess.run(command, capture_output=True, text=True)
                answer = json.loads(done.stdout) if done.returncode == 0 else None
            except (OSError, ValueError):
                answer = None
            self._answers[arguments] = answer if isinstance(answer, dict) else None
        return self._answers[arguments]

    def describe(self, name: str) -> dict | None:
        """Returns the facts of a set of sudare, or None if no set has this name."""
        return self._ask(name)

    def security_bits(self, log_n: int, keys: list[dict]) -> float | None:
        """Returns the security of a peer's weakest published key, or None if one has no price."""
        prices = []
        for key in keys:
            size = ["--log-n", str(log_n), "--log-qp", str(key["log2_q"])]
            weight = ["--weight", str(key["weight"])] if key.get("weight") else []
            answer = self._ask(*size, *weight)
            if answer is None:
                return None
            prices.append(answer["security_bits"])
        return min(prices, default=None)
