"""Every error of the library has a class of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import sudare
from sudare import errors

CRATES = Path(__file__).parents[2] / "crates"

# Each hands on the errors that are inside.
INSIDE = {"Apps", "Array", "File", "Index", "Ledger", "Library", "Metric", "Passphrase", "Pool", "PoolFile", "Pooled",
          "Receipt", "ReceiptFile", "Seal", "Search", "Stats", "Table", "TableFile", "Train"}  # fmt: skip

# The command line alone writes to standard output.
ELSEWHERE = {"Stdout"}

# In front of the names of these.
PREFIXES = {
    "LedgerError": "Ledger",
    "NnError": "Nn",
    "PoolError": "Pool",
    "PooledError": "Pooled",
    "ReceiptError": "Receipt",
    "SearchError": "Search",
}


def variants(file: str) -> list[tuple[str, str]]:
    """The enums of errors in a file, each with its variants."""
    text = (CRATES / file).read_text()
    found = re.findall(r"pub enum (\w*Error) \{(.*?)\n\}", text, re.DOTALL)
    assert found
    return [
        (enum, variant)
        for enum, body in found
        for variant in re.findall(r"^    ([A-Z]\w*)[ ({,]", body, re.MULTILINE)
    ]


@pytest.mark.parametrize(
    "file",
    [
        "sudare/src/error.rs",
        "apps/src/logreg/error.rs",
        "apps/src/array.rs",
        "apps/src/logreg/spec.rs",
        "table/src/metrics.rs",
        "apps/src/nn/error.rs",
        "apps/src/pool/error.rs",
        "apps/src/search/error.rs",
        "apps/src/stats.rs",
        "table/src/error.rs",
        "roles/src/error.rs",
        "roles/src/error/index.rs",
        "roles/src/error/ledger.rs",
        "roles/src/error/pooled.rs",
        "roles/src/error/receipt.rs",
        "roles/src/sealed.rs",
    ],
)
def test_errors_have_classes(file: str) -> None:
    for enum, variant in variants(file):
        prefix = PREFIXES.get(enum, "")
        if variant not in INSIDE | ELSEWHERE:
            found = getattr(errors, f"{prefix}{variant}Error", None)
            assert found is not None, f"{enum}::{variant}"
            assert issubclass(found, errors.Error) and found.__doc__


def test_files_are_made_of_bytes() -> None:
    for kind in (
        sudare.EncryptedArray,
        sudare.EncryptedIntegers,
        sudare.PublicKey,
        sudare.EvaluationKeys,
        sudare.EncryptedTable,
    ):
        for data in ("abc", None, 3, [1, 2]):
            with pytest.raises(errors.UsageError, match="bytes of a file are needed"):
                kind.from_bytes(data)
