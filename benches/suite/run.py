#!/usr/bin/env python3
"""Runs a workload of the public suite step by step, without its harness, and prints all figures.

    python3 benches/suite/run.py --size 1             # both: fetching payloads, and counting
    python3 benches/suite/run.py --size 1 --only fetch --queries 200
    python3 benches/suite/run.py --size 2 --only fetch

Makes data as the harness does, and compares the answers with the same search in the clear.
Needs NumPy and Cargo; on disk what the database takes, which `sudare search explain` says.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt

ROOT = Path(__file__).resolve().parents[2]
NAMES = ["toy", "small", "medium", "large"]
SHAPES = [(1_000, 128), (50_000, 128), (1_000_000, 256), (20_000_000, 512)]
PAYLOAD = 7
MOST = 32
ROWS_AT_A_TIME = 1 << 15

Vectors = npt.NDArray[np.float32]


def units(vectors: Vectors) -> Vectors:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


class Data:
    """Writes the records of a size to files below `root`."""

    def __init__(self, root: Path, size: int, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.rows, self.dimension = SHAPES[size]
        self.folder = root / "datasets" / NAMES[size]
        self.folder.mkdir(parents=True)
        self.centers = self.directions(max(1, self.rows // MOST))
        with (self.folder / "db.bin").open("wb") as db:
            for first in range(0, self.rows, ROWS_AT_A_TIME):
                self.records(min(ROWS_AT_A_TIME, self.rows - first)).tofile(db)
        payloads = self.rng.integers(512, size=(self.rows, PAYLOAD), dtype=np.int16)
        payloads.tofile(self.folder / "payloads.bin")
        self.payloads = payloads

    def directions(self, count: int) -> Vectors:
        return units(self.rng.standard_normal((count, self.dimension), dtype=np.float32))

    def near(self, count: int) -> Vectors:
        centers = self.centers[self.rng.integers(len(self.centers), size=count)]
        return units(centers + np.float32(0.3) * self.directions(count))

    def records(self, count: int) -> Vectors:
        alone = self.rng.random((count, 1)) < 0.5
        return np.where(alone, self.directions(count), self.near(count))

    def query(self) -> npt.NDArray[np.int16]:
        """Writes a query near a center, with at most the promised matches. Returns their payloads."""
        while True:
            query = self.near(1)[0]
            found = self.payloads[self.matches(query)]
            if len(found) <= MOST:
                query.tofile(self.folder / "query.bin")
                return found[np.lexsort(found.T[::-1])]

    def matches(self, query: Vectors) -> npt.NDArray[np.bool_]:
        db = np.memmap(self.folder / "db.bin", np.float32, "r", shape=(self.rows, self.dimension))
        return np.asarray(db @ query > 0.8)


def size_of(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


class Run:
    """Runs the steps of one mode."""

    def __init__(self, program: Path, root: Path, size: int, count_only: bool) -> None:
        self.program, self.root, self.size = program, root, size
        self.options = ["--count_only"] if count_only else []
        self.io = root / "io" / NAMES[size]
        self.figures: dict[str, float] = {}
        shutil.rmtree(self.io, ignore_errors=True)

    def best(self, name: str, seconds: float) -> None:
        """Returns the best of several queries."""
        self.figures[f"{name} (s)"] = min(seconds, self.figures.get(f"{name} (s)", math.inf))

    def step(self, name: str) -> None:
        start = time.perf_counter()
        command = [self.program, "fetch-by-similarity", name, str(self.size), *self.options]
        process = subprocess.Popen(command, cwd=self.root)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise subprocess.CalledProcessError(process.returncode, command)
        self.best(name, time.perf_counter() - start)
        if name in ("client_encode_encrypt_db", "server_encrypted_compute"):
            self.figures[f"{name}, peak memory (bytes)"] = 1024 * used.ru_maxrss

    def bytes(self, name: str, path: str) -> None:
        self.figures[f"{name} (bytes)"] = size_of(self.io / path)

    def prepare(self) -> None:
        self.step("client_preprocess_dataset")
        self.step("client_key_generation")
        self.bytes("keys", "keys")
        self.step("client_encode_encrypt_db")
        self.bytes("database", "ciphertexts_upload/db")
        self.step("server_preprocess_dataset")

    def answer(self) -> bytes:
        self.step("client_preprocess_query")
        self.step("client_encode_encrypt_query")
        self.bytes("query", "ciphertexts_upload/query.bin")
        self.step("server_encrypted_compute")
        self.bytes("answer", "ciphertexts_download/results.bin")
        for name, seconds in json.loads((self.io / "server_reported_steps.json").read_text()).items():
            self.best(f"server: {name}", seconds)
        self.step("client_decrypt_decode")
        self.step("client_postprocess")
        return (self.io / "results.bin").read_bytes()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--size", type=int, default=1, choices=range(4), help="0 toy, 1 small, 2 medium, 3 large")
    parser.add_argument("--only", choices=["fetch", "count"], help="one mode alone")
    parser.add_argument("--queries", type=int, default=1, help="queries, the best of which is timed")
    parser.add_argument("--seed", type=int, default=1, help="of the data")
    parser.add_argument("--program", type=Path, help="an executable that is there, in place of a build")
    parser.add_argument("--work", type=Path, default=ROOT / "target", help="where the database may lie")
    args = parser.parse_args()
    program = args.program
    if program is None:
        build = ["cargo", "build", "--locked", "--package", "sudare-suite", "--release"]
        subprocess.run(build, cwd=ROOT, check=True)
        program = ROOT / "target" / "release" / "sudare-suite"
    program = program.resolve()
    all_wrong = 0
    args.work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=args.work) as name:
        root = Path(name)
        data = Data(root, args.size, args.seed)
        for mode in [args.only] if args.only else ["fetch", "count"]:
            run = Run(program, root, args.size, mode == "count")
            run.prepare()
            wrong, matches = 0, []
            for i in range(args.queries):
                expected = data.query()
                matches.append(len(expected))
                counted = np.array([len(expected)], dtype=np.int64)
                needed = (expected if mode == "fetch" else counted).tobytes()
                right = run.answer() == needed
                wrong += not right
                print(f"query {i + 1}: {len(expected)} matches, {'right' if right else 'WRONG'}", flush=True)
            all_wrong += wrong
            print(
                f"{mode}, {NAMES[args.size]}: {args.queries} queries with {min(matches)} to {max(matches)} "
                f"matches, {sum(matches)} in all; {wrong} answers wrong"
            )
            for figure, value in run.figures.items():
                print(f"  {figure:45} {value:,.0f}" if "bytes" in figure else f"  {figure:45} {value:.2f}")
            print(json.dumps({"mode": mode, "size": NAMES[args.size], **run.figures}))
    return 1 if all_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
