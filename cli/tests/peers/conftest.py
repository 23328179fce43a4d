"""What tests share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from blake3 import blake3

from service import sudare

LBW = Path(__file__).parents[3] / "crates/table/data/lbw.csv"


@dataclass(frozen=True)
class File:
    """A file, and how the server knows it."""

    path: Path

    @property
    def digest(self) -> str:
        return blake3(self.path.read_bytes()).hexdigest()

    @property
    def bytes(self) -> int:
        return self.path.stat().st_size


@dataclass(frozen=True)
class Files:
    """What an owner sends, and what the command itself computes of it."""

    keys: File
    table: File
    result: File


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Keys, a table and its statistics."""
    at = tmp_path_factory.mktemp("owner")
    sudare(at, "keygen --params auto --for stats:189x9 --out keys")
    sudare(at, f"encrypt --public keys/public.key --data {LBW} --target y -o table.ct")
    sudare(at, "stats --evaluation-key keys/evaluation.key -i table.ct -o result.ct")
    return Files(File(at / "keys/evaluation.key"), File(at / "table.ct"), File(at / "result.ct"))


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "requests that are made up from the description of the API, or a few more"
    parser.addoption("--requests", type=int, default=2000, metavar="N", help=text)
