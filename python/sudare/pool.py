"""One model, or statistics, of the rows of several owners, who show them to no one.

Each owner has some of the rows, all with the same columns. One of the owners, or somebody else, holds the
key. A server computes.

| who | step |
|---|---|
| one owner | `schema = Schema.draft(X, y, owners=["north", "south"])`, which all agree on |
| holder of the key | `keys = plan(schema, n_rows, model).make_keys()` |
| each owner | `sums = encrypt_sums(schema, X, y, "north", keys.public)` |
| server | `total = add(schema, [sums, ...])` |
| holder of the key | `statistics(schema, total, keys.secret)`, which completes statistics |
| holder of the key | `transform = make_transform(schema, total, keys.secret)`, for the owners |
| each owner | `table = encrypt(transform, X, y, "north", keys.public)` |
| server | `result = sudare.linear_model.compute([table, ...], keys.evaluation)` |
| holder of the key | `model.decrypt(result, keys.secret)` |

A schema is public. A transform contains means, spreads and correlations of all rows together: it is for
the owners alone. The holder of the key must not receive the files that single owners send to the server. The
command `sudare` uses the same files, and can do any of the steps.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from sudare import _native, errors
from sudare._coding import Cells, Rules, classes_of, text_of, warn_of_left_out
from sudare._coding import read as read_cells
from sudare._estimator import column
from sudare._frames import Frame, Maker, is_missing
from sudare._keys import expected
from sudare._native import Data, PooledTransform, PublicKey, SecretKey, Sums, Table
from sudare._plain import (
    choice,
    expect_type,
    flag,
    items,
    mapping,
    optional,
    path_of,
    real,
    shown,
    string,
    whole,
)
from sudare._progress import Progress, callback
from sudare._shown import facts_html
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


def __dir__() -> list[str]:
    return sorted(__all__)


class Schema:
    """The agreement of the owners of rows.

    It has the columns with their minimum and maximum, categories, the classes of the target, and the names
    of the owners. It is public, and a JSON document that you may correct by hand.
    """

    def __init__(self, text: str) -> None:
        self._native = _native.Schema.from_json(string(text, "text"))

    @classmethod
    def draft(
        cls,
        X: object,
        y: object = None,
        *,
        owners: Sequence[str],
        missing: Literal["refuse", "drop", "flag"] = "refuse",
        unseen: Literal["refuse", "zero"] = "refuse",
        columns: Sequence[str] | None = None,
        drop: Sequence[str] | None = None,
        rare: int | None = None,
    ) -> Schema:
        """Drafts a schema from the table of one owner.

        The extremes of columns are rounded outwards to two digits.

        Parameters
        ----------
        X : array_like or data frame of shape (n_rows, n_features)
            The rows of the owner.
        y : array_like of shape (n_rows,), optional
            The classes of the rows; none for statistics.
        owners : sequence of str
            The names of all owners.
        missing : {"refuse", "drop", "flag"}, default "refuse"
            The treatment of missing values, as for `LogisticRegression`. Means cannot fill gaps, because
            nobody knows them.
        unseen : {"refuse", "zero"}, default "refuse"
            The treatment of unknown categories, as for `LogisticRegression`.
        columns, drop : sequence of str, optional
            The columns to use, or to leave out, as for `LogisticRegression`. The tables of owners may have
            the columns that are left out.
        rare : int, optional
            Joins categories with fewer rows of this owner, as for `LogisticRegression`.
        """
        names = [
            string(name, "the name of an owner")
            for name in items(owners, "owners", "the names of all owners")
        ]
        missing = choice(missing, "missing", ("refuse", "drop", "flag"))
        rules = Rules(columns, drop, missing, unseen, rare)
        target = None if y is None else _target(X, y, rules)
        cells = _cells(X, y, target, rules=rules)
        drafted = _native.Schema.draft(
            *cells.native(), rules.native(cells.declared), names, target=target
        )
        schema = cls(drafted.to_json())
        warn_of_left_out([name for name in schema._left_out() if not rules.skips(name)], 2)
        return schema

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Schema:
        """Opens the schema in a file."""
        return cls(_native.Schema.open(path_of(path)).to_json())

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Writes the schema to a file."""
        path, overwrite = path_of(path), flag(overwrite, "overwrite")
        try:
            with open(path, "w" if overwrite else "x", encoding="utf-8") as file:
                file.write(self.to_json())
        except FileExistsError:
            raise errors.ExistsError(f"{path} exists: pass overwrite=True to replace it") from None
        except OSError as error:
            raise errors.of_kind("Io", f"{path} cannot be written: {error.strerror}") from error

    def to_json(self) -> str:
        """Returns the JSON document."""
        return self._native.to_json()

    @property
    def columns(self) -> list[str]:
        """The features. A column of categories has one for each category."""
        return self._native.columns

    @property
    def target(self) -> str | None:
        """The name of the target."""
        return self._native.target

    @property
    def classes(self) -> list[str]:
        """The classes of the target, as text."""
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

    def _repr_html_(self) -> str:
        facts = {"columns": ", ".join(self.columns), "owners": ", ".join(self.owners)}
        if self.target is not None:
            facts["target"] = f"{self.target}: {', '.join(self.classes)}"
        return facts_html("Schema", facts)

    def _data(self, X: object, y: object) -> Data:
        """Returns the table of an owner for native code."""
        if (y is None) != (self.target is None):
            problem = "but y is missing: give y" if y is None else "and no target: leave y out"
            raise errors.ArgumentError(f"the schema has the classes {self.classes}, {problem}")
        return self._native.apply(*_cells(X, y, self.target, skips=self._left_out()).native())

    def _left_out(self) -> list[str]:
        """Returns the columns that tables may have and that are not used."""
        columns = json.loads(self.to_json())["columns"]
        return [column["name"] for column in columns if column["kind"] == "left_out"]


def plan(schema: Schema, n_rows: int, model: LogisticRegression | None = None) -> Plan:
    """Plans a training on the rows of all owners, or their statistics.

    Parameters
    ----------
    schema : Schema
        The agreement of the owners.
    n_rows : int
        The maximum number of rows of all owners together.
    model : LogisticRegression, optional
        The model to train; without it, statistics are planned.
    """
    expect_type(schema, "schema", Schema)
    rows, columns = whole(n_rows, "n_rows"), len(schema.columns)
    if model is None:
        return Plan(_native.TablePlan.statistics(rows, columns))
    # Imported late, because it imports scikit-learn.
    from sudare.linear_model import LogisticRegression

    expect_type(model, "model", LogisticRegression)
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
    """Encrypts the sums of an owner's columns and of their products.

    They are exact, and of the same size for all rows. With `expect`, a public key with another digest is
    refused.
    """
    expect_type(schema, "schema", Schema)
    expect_type(key, "key", PublicKey)
    data = schema._data(X, y)
    return Sums.encrypt(expected(key, expect), schema._native, string(owner, "owner"), data)


def add(schema: Schema, sums: Sequence[Sums]) -> Sums:
    """Adds the sums of all owners: the server's part, which needs no key."""
    expect_type(schema, "schema", Schema)
    parts = items(sums, "sums", "the sums of all owners")
    for part in parts:
        expect_type(part, "an owner's part of sums", Sums)
    return Sums.add(schema._native, parts)


def statistics(schema: Schema, total: Sums, key: SecretKey, *, like: Frame | None = None) -> Summary:
    """Decrypts statistics of the rows of all owners, with the precision of one table.

    `like` is as for `sudare.stats.decrypt`.
    """
    _expect_total(schema, total, key)
    make = Maker.like(like)
    decrypted = total.statistics(schema._native, key)
    return Summary(decrypted, decrypted.values(), make)


def make_transform(
    schema: Schema,
    total: Sums,
    key: SecretKey,
    *,
    class_weight: Mapping[Any, float] | None = None,
) -> PooledTransform:
    """Makes the common preparation of rows, for the owners alone.

    `class_weight` has weights by class, for keys of a model with class weights.
    """
    _expect_total(schema, total, key)
    weights = None
    if class_weight is not None:
        given = mapping(class_weight, "class_weight", "a dictionary of weights by class")
        named = {
            text_of(label): real(weight, f"the class_weight of {shown(label)}", finite=False)
            for label, weight in given.items()
        }
        unknown = [label for label in named if label not in schema.classes]
        if unknown:
            raise errors.ArgumentError(
                f"class_weight has {unknown[0]!r}, which is not a class: the classes are {schema.classes}"
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
    """Encrypts the rows of an owner, to train on them with the rows of the others.

    With `path` they go to that file instead of memory. With `expect`, a public key with another digest is
    refused.
    """
    expect_type(transform, "transform", PooledTransform)
    expect_type(key, "key", PublicKey)
    owner, report = string(owner, "owner"), callback(progress)
    path, overwrite = optional(path_of, path), flag(overwrite, "overwrite")
    key = expected(key, expect)
    data = Schema(transform.schema.to_json())._data(X, y)
    return transform.encrypt(key, owner, data, path=path, overwrite=overwrite, progress=report)


def _expect_total(schema: Schema, total: Sums, key: SecretKey) -> None:
    """Checks the types of the arguments of `decrypt`."""
    expect_type(schema, "schema", Schema)
    expect_type(total, "total", Sums)
    expect_type(key, "key", SecretKey)


def _target(X: object, y: object, rules: Rules) -> str:
    """Returns a name for the target that no column has."""
    name = getattr(y, "name", None)
    target = name if isinstance(name, str) and name else "y"
    names = read_cells(X, rules=rules).names
    while target in names:
        target += "_"
    return target


def _cells(
    X: object,
    y: object,
    target: str | None,
    *,
    skips: Sequence[str] = (),
    rules: Rules | None = None,
) -> Cells:
    """Reads a table with its classes as a column of text."""
    cells = read_cells(X, skips, rules)
    if target is None:
        return cells
    labels = column(y).tolist()
    if len(labels) != len(cells.numbers):
        raise errors.of_kind(
            "Shapes",
            f"{len(cells.numbers)} rows, but {len(labels)} classes: pass a class for each row"
        )
    known = [label for label in labels if not is_missing(label)]
    if known:
        classes_of(column(known))
    return cells.beside(target, [None if is_missing(label) else text_of(label) for label in labels])
