"""Reads Parquet tables of other programs with the command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROWS = 300

_rng = np.random.default_rng(4)
COLUMNS: dict[str, npt.NDArray[Any]] = {
    "flag": _rng.integers(0, 2, ROWS).astype(bool),
    "byte": _rng.integers(-128, 128, ROWS).astype(np.int8),
    "word": _rng.integers(-(2**31), 2**31, ROWS).astype(np.int32),
    "long": _rng.integers(-(2**63), 2**63 - 1, ROWS),
    "large": _rng.integers(0, 2**64, ROWS, dtype=np.uint64),
    "sorted": np.sort(_rng.integers(0, 10**9, ROWS)),
    "constant": np.full(ROWS, 2.5),
    "single": _rng.normal(size=ROWS).astype(np.float32),
    "double": _rng.normal(size=ROWS),
}

ENCODINGS = {
    name: {"b": "RLE", "f": "BYTE_STREAM_SPLIT"}.get(values.dtype.kind, "DELTA_BINARY_PACKED")
    for name, values in COLUMNS.items()
}


def predict(folder: Path) -> subprocess.CompletedProcess[str]:
    """Returns scores of the rows of t.parquet: sums of all columns, scaled to a similar size."""
    model = {
        "kind": "logistic regression",
        "weights": [0.0, *map(weight, COLUMNS)],
        "columns": [*COLUMNS],
        "target": "y",
        "divisors": [1.0] * len(COLUMNS),
        "iterations": 1,
        "rows": 1,
    }
    (folder / "m.json").write_text(json.dumps(model))
    line = ["predict", "--model", "m.json", "--data", "t.parquet", "--json"]
    return subprocess.run(
        [sys.executable, "-m", "sudare", *line], cwd=folder, capture_output=True, text=True
    )


def weight(name: str) -> float:
    """Returns a power of two, so that products are exact."""
    largest = np.abs(COLUMNS[name].astype(np.float64)).max()
    return float(2.0 ** -np.ceil(np.log2(largest)))


def check(folder: Path) -> None:
    run = predict(folder)
    assert run.returncode == 0, run.stderr
    expected = np.zeros(ROWS)
    for name, values in COLUMNS.items():
        expected += weight(name) * values.astype(np.float64)
    assert json.loads(run.stdout)["scores"] == pytest.approx(expected.tolist(), rel=0, abs=1e-15)


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd", "lz4"])
@pytest.mark.parametrize("encoded", [False, True])
def test_all_that_pyarrow_writes_is_read(tmp_path: Path, codec: str, encoded: bool) -> None:
    options: dict[str, Any] = {"compression": codec, "row_group_size": 170, "data_page_size": 200}
    if encoded:
        options |= {"use_dictionary": False, "column_encoding": ENCODINGS}
        options |= {"data_page_version": "2.0"}
    pq.write_table(pa.table(COLUMNS), tmp_path / "t.parquet", **options)
    check(tmp_path)


def test_files_of_pandas_and_polars_are_read(tmp_path: Path) -> None:
    pl.DataFrame(COLUMNS).write_parquet(tmp_path / "t.parquet")
    check(tmp_path)
    frame = pd.DataFrame(COLUMNS)
    frame.to_parquet(tmp_path / "t.parquet")
    check(tmp_path)
    frame["word"] = frame["word"].astype("category")
    frame.to_parquet(tmp_path / "t.parquet")
    check(tmp_path)
    frame.sample(frac=1, random_state=1).to_parquet(tmp_path / "t.parquet")
    assert "write the file without them" in predict(tmp_path).stderr
    frame["word"] = pd.array([1, 2, None] * 100, dtype="Int64")
    frame.to_parquet(tmp_path / "t.parquet")
    run = predict(tmp_path)
    assert run.returncode == 2
    assert 'row 2, column "word": the cell is empty' in run.stderr
