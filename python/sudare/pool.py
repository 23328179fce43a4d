"""Rows of several owners, who show them to nobody: one model, or statistics, of all of them.

Each owner has some of the rows, all with the same columns. One of them, or somebody else, holds the
key; a server computes.

| who | does |
|---|---|
| one owner | `schema = Schema.draft(X, y, owners=["north", "south"])`, which all agree on |
| holder of the key | `keys = plan(schema, n_rows, model).make_keys()` |
| each owner | `sums = encrypt_sums(schema, X, y, "north", keys.public)` |
| server | `total = add(schema, [sums, ...])` |
| holder of the key | `statistics(schema, total, keys.secret)`, and that is all of statistics |
| holder of the key | `transform = make_transform(schema, total, keys.secret)`, for the owners |
| each owner | `table = encrypt(transform, X, y, "north", keys.public)` |
| server | `result = sudare.linear_model.train([table, ...], keys.evaluation)` |
| holder of the key | `model.load(result, keys.secret)` |

A schema is public. A transform tells means, spreads and correlations of all rows together: it is for
the owners alone. Who holds the key must not get what single owners send to the server. All of it are
files of the command `sudare`, which may do any of the steps.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from sudare import _native, errors
from sudare._coding import Cells, classes_of, text_of
from sudare._coding import read as read_cells
from sudare._context import expected
from sudare._estimator import column, is_missing
from sudare._frames import Frame, Maker
from sudare._native import Data, PooledTransform, PublicKey, SecretKey, Sums, Table
from sudare._plain import whole
from sudare._progress import Progress, callback
from sudare.stats import Plan, Summary

if TYPE_CHECKING:
    from sudare.linear_model import LogisticRegression

__all__ = [
    "PooledTransform",
    "Schema",
    "Sums",
    "add",
    "encrypt",
    "encrypt_sums",
    "make_transform",
    "plan",
    "statistics",
]


class Schema:
    """What the owners of rows agree on: columns with the least and the largest value that each may
    have, categories, classes of the target, and the names of the owners. It is public, and a JSON
    document that may be corrected by hand.
    """

    def __init__(self, text: str) -> None:
        self._native = _native.Schema.from_json(text)

    @classmethod
    def draft(
        cls,
        X: object,
        y: object = None,
        *,
        owners: Sequence[str],
        missing: Literal["refuse", "drop", "flag"] = "refuse",
        unseen: Literal["refuse", "zero"] = "refuse",
    ) -> Schema:
        """That of the table of one owner, extremes of columns rounded outwards to two digits; `y`
        are the classes of its rows, of which there are none for statistics. `missing` and `unseen`
        are as for `LogisticRegression`; gaps cannot be filled by means, which nobody knows."""
        target = None if y is None else _target(X, y)
        cells = _cells(X, y, target)
        drafted = _native.Schema.draft(
            *cells.native(), list(owners), missing=missing, unseen=unseen, target=target
        )
        return cls(drafted.to_json())

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Schema:
        """The schema in a file."""
        return cls(_native.Schema.open(path).to_json())

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Writes the schema to a file."""
        try:
            with open(path, "w" if overwrite else "x", encoding="utf-8") as file:
                file.write(self.to_json())
        except FileExistsError:
            raise errors.ExistsError(f"{path} exists: pass overwrite=True to replace it") from None
        except OSError as error:
            raise errors.IoError(f"{path} cannot be written: {error.strerror}") from error

    def to_json(self) -> str:
        """The document."""
        return self._native.to_json()

    @property
    def columns(self) -> list[str]:
        """The features: one for each category of a column of categories."""
        return self._native.columns

    @property
    def target(self) -> str | None:
        """What is predicted."""
        return self._native.target

    @property
    def classes(self) -> list[str]:
        """The classes of that, as text."""
        return self._native.classes

    @property
    def owners(self) -> list[str]:
        """The names of all owners."""
        return self._native.owners

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self._native == other._native

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Schema({len(self.columns)} columns, owners {', '.join(self.owners)})"

    def _data(self, X: object, y: object) -> Data:
        """The table of an owner."""
        if (y is None) != (self.target is None):
            problem = "none are given: give y" if y is None else "there is no target: leave y out"
            raise errors.ArgumentError(f"by the schema rows have classes {self.classes}, {problem}")
        return self._native.apply(*_cells(X, y, self.target).native())


def plan(schema: Schema, n_rows: int, model: LogisticRegression | None = None) -> Plan:
    """The plan of a training of `model` on the rows of all owners, at most so many together, or
    without a model of their statistics: what it takes, and keys for it."""
    rows, columns = whole(n_rows, "n_rows"), len(schema.columns)
    if model is None:
        return Plan(_native.TablePlan.statistics(rows, columns))
    return model._pooled_plan(rows, columns, len(schema.classes), len(schema.owners))


def encrypt_sums(
    schema: Schema,
    X: object,
    y: object,
    owner: str,
    key: PublicKey,
    *,
    expect: str | None = None,
) -> Sums:
    """The sums of an owner's columns and of their products, encrypted: exact, and of one size
    whatever the rows are. With `expect`, any other key than that of this digest is refused."""
    return Sums.encrypt(expected(key, expect), schema._native, owner, schema._data(X, y))


def add(schema: Schema, sums: Sequence[Sums]) -> Sums:
    """The sums of all owners, one of each, added: for the server, which needs no key."""
    return Sums.add(schema._native, list(sums))


def statistics(schema: Schema, total: Sums, key: SecretKey, *, like: Frame | None = None) -> Summary:
    """Statistics of the rows of all owners, as exact as those of one table; `like` is as for
    `sudare.stats.decrypt`."""
    decrypted = total.statistics(schema._native, key)
    return Summary(decrypted, decrypted.values(), Maker.like(like))


def make_transform(
    schema: Schema,
    total: Sums,
    key: SecretKey,
    *,
    class_weight: Mapping[Any, float] | None = None,
) -> PooledTransform:
    """How all owners prepare their rows, for the owners alone. `class_weight` are weights by class,
    for keys of a model with such."""
    weights = None
    if class_weight is not None:
        named = {text_of(label): float(weight) for label, weight in class_weight.items()}
        unknown = [label for label in named if label not in schema.classes]
        if unknown:
            raise errors.ArgumentError(
                f"class_weight has {unknown[0]!r}, which is no class: these are {schema.classes}"
            )
        weights = [named.get(label, 1.0) for label in schema.classes]
    return total.transform(schema._native, key, weights)


def encrypt(
    transform: PooledTransform,
    X: object,
    y: object,
    owner: str,
    key: PublicKey,
    *,
    expect: str | None = None,
    path: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    progress: Progress = None,
) -> Table:
    """The rows of an owner, encrypted to be trained on with those of the others; with `path` they
    are written to that file and not held in memory. With `expect`, any other key than that of this
    digest is refused."""
    data = Schema(transform.schema.to_json())._data(X, y)
    report = callback(progress)
    key = expected(key, expect)
    return transform.encrypt(key, owner, data, path=path, overwrite=overwrite, progress=report)


def _target(X: object, y: object) -> str:
    """A name for the target that no column has."""
    name = getattr(y, "name", None)
    target = name if isinstance(name, str) and name else "y"
    names = read_cells(X).names
    while target in names:
        target += "_"
    return target


def _cells(X: object, y: object, target: str | None) -> Cells:
    """A table with its classes as a column of text."""
    cells = read_cells(X)
    if target is None:
        return cells
    labels = column(y).tolist()
    if len(labels) != len(cells.numbers):
        raise errors.ShapesError(
            f"{len(cells.numbers)} rows and {len(labels)} classes: give one class a row"
        )
    known = [label for label in labels if not is_missing(label)]
    if known:
        classes_of(column(known))
    return cells.beside(target, [None if is_missing(label) else text_of(label) for label in labels])
