"""Writes the files of this directory: `python make.py FOLDER`, with pyarrow 26 and polars 2.1."""

import sys
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 60
FOLDER = Path(sys.argv[1])

# Values of `expected` in tests.rs.
integers = [i * i % 17 - 8 for i in range(ROWS)]
TABLE = pa.table(
    {
        "flag": pa.array([i % 3 == 0 for i in range(ROWS)]),
        "byte": pa.array(integers, pa.int8()),
        "word": pa.array([1000 * x for x in integers], pa.int32()),
        "long": pa.array([x * 10**12 for x in integers], pa.int64()),
        "large": pa.array([2**63 + 2**40 * i for i in range(ROWS)], pa.uint64()),
        "count": pa.array([2**32 - 1 - i for i in range(ROWS)], pa.uint32()),
        "single": pa.array([x / 4 for x in integers], pa.float32()),
        "double": pa.array([x / 7 for x in integers], pa.float64()),
        "y": pa.array([i % 2 for i in range(ROWS)], pa.int64()),
    }
)


def write(name: str, table: pa.Table = TABLE, **options: object) -> None:
    pq.write_table(table, FOLDER / f"{name}.parquet", **options)


# Defaults of pyarrow, pandas and polars, and the other codecs, in several row groups.
for codec in ["none", "snappy", "gzip", "zstd", "lz4"]:
    write(codec, compression=codec, row_group_size=25)
write("v2", data_page_version="2.0", compression="zstd", data_page_size=64)
write("brotli", compression="brotli")
# Each encoding alone, if the type supports it.
encodings = {"flag": "RLE", "single": "BYTE_STREAM_SPLIT", "double": "BYTE_STREAM_SPLIT"}
encodings |= {name: "DELTA_BINARY_PACKED" for name in ["byte", "word", "long", "large", "count"]}
write("encodings", use_dictionary=False, column_encoding=encodings | {"y": "BYTE_STREAM_SPLIT"})
write("plain", use_dictionary=False, compression="none", store_schema=False)
required = pa.schema([field.with_nullable(False) for field in TABLE.schema])
write("required", TABLE.cast(required))

# Files that readers refuse.
one = pa.array([1, 2, 3])
for name, column in {
    "text": pa.array(["a", "b", "c"]),
    "decimal": pa.array([1, 2, 3]).cast(pa.decimal128(21, 2)),
    "date": pa.array([1, 2, 3], pa.int32()).cast(pa.date32()),
    "time": pa.array([1, 2, 3], pa.timestamp("ms")),
    "duration": pa.array([1, 2, 3], pa.duration("ns")),
    "category": pa.array(["a", "b", "a"]).dictionary_encode(),
    "nested": pa.array([[1], [2], [3]]),
    "null": pa.array([1, None, 3]),
    "nan": pa.array([1.0, float("nan"), 3.0]),
}.items():
    write(f"refused-{name}", pa.table({"one": one, "bad": column}))

# Text and nulls of `expected_frame` in tests.rs.
NAMES = ["Zoë", "", "a, b", '"c"', "naïve\nline", "aa", "aab"]
columns = {
    "name": pa.array([None if i % 7 == 3 else NAMES[i * i % 11 % 7] for i in range(ROWS)]),
    "kind": pa.array([None if i % 13 == 12 else f"k{i % 5}" for i in range(ROWS)]),
    "number": pa.array([None if i % 4 == 1 else i - 30 for i in range(ROWS)], pa.int32()),
    "real": pa.array([None if 20 <= i < 45 else i / 8 for i in range(ROWS)], pa.float64()),
    "flag": pa.array([None if i % 3 == 2 else i % 2 == 0 for i in range(ROWS)]),
    "y": pa.array(["yes" if i % 3 == 1 else "no" for i in range(ROWS)]),
}
TEXT = pa.table(columns)
categories = pa.table(columns | {"kind": columns["kind"].dictionary_encode()})
write("text", categories, row_group_size=25)
write("text-plain", TEXT, use_dictionary=False, compression="none", store_schema=False)
write("text-v2", TEXT, data_page_version="2.0", compression="zstd", data_page_size=64)
encodings = {"name": "DELTA_BYTE_ARRAY", "kind": "DELTA_LENGTH_BYTE_ARRAY", "y": "DELTA_BYTE_ARRAY"}
encodings |= {"number": "DELTA_BINARY_PACKED", "real": "BYTE_STREAM_SPLIT", "flag": "RLE"}
write("text-delta", TEXT, use_dictionary=False, column_encoding=encodings, row_group_size=50)
polars = pl.from_arrow(TEXT).with_columns(pl.col("kind").cast(pl.Categorical))
polars.write_parquet(FOLDER / "text-polars.parquet", row_group_size=25)
nulls = {"b": pa.nulls(2), "c": pa.nulls(2, pa.string())}
write("text-none", pa.table({"a": pa.array([1, 2])} | nulls))
