#!/usr/bin/env python3
"""Runs a workload of the public suite step by step, without its harness, and prints all figures.

    python3 benches/suite/run.py --size 1             # both: fetching payloads, and counting
    python3 benches/suite/run.py --size 1 --only count --queries 3

Data are made as the harness makes them, answers are checked against the same search in the clear.
Needs nothing but Python and Cargo.
"""

from __future__ import annotations

import argparse
import array
import json
import math
import operator
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAMES = ["toy", "small", "medium", "large"]
SHAPES = [(1_000, 128), (50_000, 128), (1_000_000, 256), (20_000_000, 512)]
PAYLOAD = 7
MOST = 32


def unit(vector: list[float]) -> list[float]:
    norm = math.sqrt(math.fsum(x * x for x in vector))
    return [x / norm for x in vector]


def direction(rng: random.Random, dimension: int) -> list[float]:
    return unit([rng.gauss(0, 1) for _ in range(dimension)])


def near(rng: random.Random, center: list[float]) -> list[float]:
    noise = direction(rng, len(center))
    return unit([c + 0.3 * x for c, x in zip(center, noise)])


class Data:
    """The records of a size, in files below `root`."""

    def __init__(self, root: Path, size: int, seed: int) -> None:
        self.rng = random.Random(seed)
        self.rows, self.dimension = SHAPES[size]
        self.folder = root / "datasets" / NAMES[size]
        self.folder.mkdir(parents=True)
        self.centers = [
            direction(self.rng, self.dimension) for _ in range(max(1, self.rows // 32))
        ]
        with (self.folder / "db.bin").open("wb") as db:
            for _ in range(self.rows):
                alone = self.rng.random() < 0.5
                vector = (
                    direction(self.rng, self.dimension)
                    if alone
                    else near(self.rng, self.rng.choice(self.centers))
                )
                array.array("f", vector).tofile(db)
        self.payloads = array.array(
            "h", (self.rng.randrange(512) for _ in range(self.rows * PAYLOAD))
        )
        with (self.folder / "payloads.bin").open("wb") as payloads:
            self.payloads.tofile(payloads)

    def query(self) -> list[tuple[int, ...]]:
        """Writes a query near a center with at most as many matches as promised; their payloads."""
        while True:
            query = array.array("f", near(self.rng, self.rng.choice(self.centers)))
            found = self.matches(query)
            if len(found) <= MOST:
                with (self.folder / "query.bin").open("wb") as file:
                    query.tofile(file)
                return found

    def matches(self, query: array.array[float]) -> list[tuple[int, ...]]:
        found = []
        with (self.folder / "db.bin").open("rb") as db:
            for row in range(self.rows):
                vector = array.array("f")
                vector.fromfile(db, self.dimension)
                if sum(map(operator.mul, vector, query)) > 0.8:
                    found.append(tuple(self.payloads[PAYLOAD * row : PAYLOAD * (row + 1)]))
        return sorted(found)


def size_of(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


class Run:
    """The steps of one mode."""

    def __init__(self, program: Path, root: Path, size: int, count_only: bool) -> None:
        self.program, self.root, self.size = program, root, size
        self.options = ["--count_only"] if count_only else []
        self.io = root / "io" / NAMES[size]
        self.figures: dict[str, float] = {}
        shutil.rmtree(self.io, ignore_errors=True)

    def step(self, name: str) -> None:
        start = time.perf_counter()
        command = [self.program, "fetch-by-similarity", name, str(self.size), *self.options]
        subprocess.run(command, cwd=self.root, check=True)
        seconds = time.perf_counter() - start
        # The best of several queries.
        self.figures[f"{name} (s)"] = min(seconds, self.figures.get(f"{name} (s)", math.inf))

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
            key = f"server: {name} (s)"
            self.figures[key] = min(seconds, self.figures.get(key, math.inf))
        self.step("client_decrypt_decode")
        self.step("client_postprocess")
        return (self.io / "results.bin").read_bytes()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--size", type=int, default=1, choices=range(4), help="0 toy, 1 small, 2 medium, 3 large")
    parser.add_argument("--only", choices=["fetch", "count"], help="one mode alone")
    parser.add_argument("--queries", type=int, default=1, help="queries, the best of which is timed")
    parser.add_argument("--seed", type=int, default=1, help="of the data")
    parser.add_argument("--profile", default="release", help="of Cargo")
    args = parser.parse_args()
    build = ["cargo", "build", "--locked", "--package", "sudare-suite", "--profile", args.profile]
    subprocess.run(build, cwd=ROOT, check=True)
    folder = "debug" if args.profile == "dev" else args.profile
    program = ROOT / "target" / folder / "sudare-suite"
    wrong = 0
    with tempfile.TemporaryDirectory(dir=ROOT / "target") as name:
        root = Path(name)
        data = Data(root, args.size, args.seed)
        for mode in [args.only] if args.only else ["fetch", "count"]:
            run = Run(program, root, args.size, mode == "count")
            run.prepare()
            for _ in range(args.queries):
                expected = data.query()
                if mode == "fetch":
                    flat = array.array("h", (x for payload in expected for x in payload))
                    needed = flat.tobytes()
                else:
                    needed = array.array("q", [len(expected)]).tobytes()
                wrong += run.answer() != needed
            print(f"{mode}, {NAMES[args.size]}: {args.queries} queries, {wrong} wrong")
            for figure, value in run.figures.items():
                print(f"  {figure:40} {value:,.0f}" if "bytes" in figure else f"  {figure:40} {value:.2f}")
            print(json.dumps({"mode": mode, "size": NAMES[args.size], **run.figures}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
