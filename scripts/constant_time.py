"""Searches compiled code for dependence on secrets, by Valgrind: `make constant-time`.

Memcheck runs key generation, encryption by either key, decryption, their samplers and the noise of releases, also
of exact arithmetic, with the secrets marked undefined. It reports branches and addresses that depend on secrets.
Only the one in crates/probes/constant-time.supp is allowed, and a planted leak must be reported. Callgrind counts
instructions of encryption, decryption and release under 64 keys. All counts must be equal. Both run on portable and
AVX2 kernels, because Valgrind lacks AVX-512.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PARTS = (
    "samplers",
    "keygen",
    "encryption",
    "owner-encryption",
    "decryption",
    "exact-encryption",
    "exact-decryption",
    "release",
)
KEYS = 64


def build(profile: str) -> pathlib.Path:
    """Builds the program, and returns its path."""
    command = ["cargo", "build", "--locked", "--package", "sudare-probes", "--profile", profile]
    subprocess.run(command, cwd=ROOT, check=True)
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return target / ("debug" if profile == "dev" else profile) / "constant-time"


def valgrind(program: pathlib.Path, isa: str, *arguments: str) -> str:
    """Runs the program under Valgrind, and returns the report."""
    command = ["valgrind", *arguments[:-1], str(program), arguments[-1]]
    environment = {**os.environ, "SUDARE_ISA": isa}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if "done" not in run.stdout:
        sys.exit(f"{' '.join(command)} failed:\n{run.stdout}{run.stderr}")
    return run.stderr


def reports(program: pathlib.Path, isa: str, part: str) -> tuple[int, str]:
    """Returns the number of reports of a part, and their text."""
    supp = ROOT / "crates/probes/constant-time.supp"
    text = valgrind(program, isa, "--tool=memcheck", "--leak-check=no", f"--suppressions={supp}", part)
    summary = re.search(r"ERROR SUMMARY: ([\d,]+) errors", text)
    if not summary:
        sys.exit(f"no summary of Valgrind:\n{text}")
    return int(summary[1].replace(",", "")), text


def counts(program: pathlib.Path, isa: str) -> list[int]:
    """Counts instructions under each key."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = (
            "--tool=callgrind",
            "--collect-atstart=no",
            # Valgrind merges two equal patterns.
            "--toggle-collect=*linux*counted*",
            "--dump-after=*counted*",
            f"--callgrind-out-file={folder}/out",
        )
        valgrind(program, isa, *arguments, "count")
        found = []
        for path in sorted(pathlib.Path(folder).iterdir()):
            totals = re.search(r"^(?:totals|summary): (\d+)", path.read_text(), re.MULTILINE)
            if totals and int(totals[1]) > 0:
                found.append(int(totals[1]))
        return found


def main() -> None:
    program = build(sys.argv[1] if len(sys.argv) > 1 else "release")
    failed = False
    for isa in ("scalar", "avx2"):
        for part in PARTS:
            found, text = reports(program, isa, part)
            print(f"{isa:7} {part:16} {found} reports")
            if found:
                failed = True
                print(text)
        found, _ = reports(program, isa, "leak")
        print(f"{isa:7} {'leak':16} {found} reports, one or more needed")
        failed |= found == 0
        instructions = counts(program, isa)
        low, high = min(instructions, default=0), max(instructions, default=0)
        print(f"{isa:7} {len(instructions)} keys, {low} to {high} instructions")
        failed |= len(instructions) != KEYS or low != high
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
