#!/usr/bin/env python3
"""Puts our executables into a copy of a harness of the public suite, in place of its submission.

    python3 benches/suite/install.py fetch-by-similarity PATH-OF-THE-HARNESS
    python3 benches/suite/install.py ml-inference PATH-OF-THE-HARNESS

The harness then runs as its own documentation describes. It builds only our program, and only without
`--program`.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STEPS = {
    "fetch-by-similarity": [
        "client_preprocess_dataset",
        "client_key_generation",
        "client_encode_encrypt_db",
        "server_preprocess_dataset",
        "client_preprocess_query",
        "client_encode_encrypt_query",
        "server_encrypted_compute",
        "client_decrypt_decode",
        "client_postprocess",
    ],
    "ml-inference": [
        "client_key_generation",
        "server_preprocess_model",
        "client_preprocess_input",
        "client_encode_encrypt_input",
        "server_encrypted_compute",
        "client_decrypt_decode",
        "client_postprocess",
    ],
}
# Steps without a size argument.
WITHOUT_SIZE = {"server_preprocess_model"}


def script(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\nset -e\n{line}\n")
    path.chmod(0o755)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("workload", choices=sorted(STEPS))
    parser.add_argument("harness", type=Path, help="a copy of the repository of the harness")
    parser.add_argument("--program", type=Path, help="an executable that is there, in place of a build")
    args = parser.parse_args()
    if not (args.harness / "harness" / "run_submission.py").exists():
        print(f"{args.harness} has no harness/run_submission.py: name a copy of the harness", file=sys.stderr)
        return 2
    submission, scripts = args.harness / "submission", args.harness / "scripts"
    shutil.rmtree(submission, ignore_errors=True)
    (submission / "build").mkdir(parents=True)
    program = args.program and args.program.resolve()
    build = "# The executable is there."
    if program is None:
        target, manifest = ROOT / "target", ROOT / "Cargo.toml"
        program = target / "release" / "sudare-suite"
        build = (
            f'cargo build --locked --release --package sudare-suite --manifest-path "{manifest}" '
            f'--target-dir "{target}"'
        )
    for step in STEPS[args.workload]:
        arguments = "0" if step in WITHOUT_SIZE else '"$@"'
        script(submission / "build" / step, f'exec "{program}" {args.workload} {step} {arguments}')
    script(scripts / "build_task.sh", build)
    script(scripts / "get_openfhe.sh", "# Not needed.\nexit 0")
    return 0


if __name__ == "__main__":
    sys.exit(main())
