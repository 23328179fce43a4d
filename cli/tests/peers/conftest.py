"""Fixtures of all tests."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from blake3 import blake3

from service import sudare

LBW = Path(__file__).parents[3] / "crates/table/data/lbw.csv"


@dataclass(frozen=True)
class File:
    """A file with the digest that names it on the server."""

    path: Path

    @property
    def digest(self) -> str:
        return blake3(self.path.read_bytes()).hexdigest()

    @property
    def bytes(self) -> int:
        return self.path.stat().st_size


@dataclass(frozen=True)
class Files:
    """The files of an owner by collection, and the result that the command computes from the used ones."""

    used: dict[str, File]
    unused: dict[str, File]
    result: File


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Makes two sets of keys, a table and a model, and the statistics of the first table."""

    def make(name: str, weight: float) -> dict[str, File]:
        at = tmp_path_factory.mktemp(name)
        sudare(at, "keygen --params auto --for stats:189x9 --out keys")
        sudare(at, f"encrypt --public keys/public.key --data {LBW} --target y -o table.ct")
        model = {"kind": "logistic regression", "weights": [weight, 2.0], "columns": ["age"], "target": "y"}
        model |= {"divisors": [1.0], "iterations": 1, "rows": 2}
        (at / "model.json").write_text(json.dumps(model))
        names = {"keys": "keys/evaluation.key", "tables": "table.ct", "models": "model.json"}
        return {collection: File(at / name) for collection, name in names.items()}

    used = make("used", 1.0)
    at = used["tables"].path.parent
    sudare(at, "stats --evaluation-key keys/evaluation.key -i table.ct -o result.ct")
    return Files(used, make("unused", 3.0), File(at / "result.ct"))


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "minimum number of requests to generate from the description of the API"
    parser.addoption("--requests", type=int, default=2000, metavar="N", help=text)
