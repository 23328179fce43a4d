"""Rows of several owners: the whole journey, and files that do not belong together."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sudare
from sudare import distributed, errors, pool
from sudare.linear_model import LogisticRegression, compute

OWNERS = ["north", "south", "west"]


@pytest.fixture(scope="module")
def table() -> tuple[Any, Any]:
    generator = np.random.default_rng(7)
    rows = generator.normal(size=(600, 4)) * [1.0, 1e3, 1e-3, 5.0] + [0.0, 5e4, 2.0, -7.0]
    rows[:, 3] += 4e-3 * rows[:, 1]
    scores = rows[:, 0] + (rows[:, 1] - 5e4) / 1e3 - 0.5
    classes = np.where(scores + generator.logistic(size=600) > 0, "late", "paid")
    return rows, classes


def thirds(table: tuple[Any, Any]) -> list[tuple[Any, Any]]:
    """Splits the rows among owners. The first has more, and the last has one class only."""
    rows, classes = table
    order = np.argsort(classes == "paid", kind="stable")
    parts = np.split(order, [300, 450])
    return [(rows[part], classes[part]) for part in parts]


def totals(
    schema: pool.Schema, table: tuple[Any, Any], model: LogisticRegression | None
) -> tuple[Any, pool.Sums]:
    keys = pool.plan(schema, 600, model).make_keys()
    sums = [
        pool.encrypt_sums(schema, rows, classes, owner, keys.public)
        for owner, (rows, classes) in zip(OWNERS, thirds(table), strict=True)
    ]
    assert [part.owners for part in sums] == [[owner] for owner in OWNERS]
    total = pool.add(schema, [pickle.loads(pickle.dumps(part)) for part in reversed(sums)])
    assert total.owners == OWNERS
    return keys, total


@pytest.fixture(scope="module")
def schema(table: tuple[Any, Any]) -> pool.Schema:
    return pool.Schema.draft(*table, owners=OWNERS)


def test_owners_train_the_model_of_all_their_rows(
    table: tuple[Any, Any], schema: pool.Schema, tmp_path: Path
) -> None:
    model = LogisticRegression(insecure_log_n=12)
    with pytest.warns(errors.SecurityWarning):
        keys, total = totals(schema, table, model)
    transform = pool.make_transform(schema, total, keys.secret)
    assert transform.rows == 600
    again = pool.PooledTransform.from_json(transform.to_json())
    tables = [
        pool.encrypt(again, rows, classes, owner, keys.public)
        for owner, (rows, classes) in zip(OWNERS, thirds(table), strict=True)
    ]
    result = compute(tables, keys.evaluation)
    model.decrypt(result, keys.secret)
    alone = LogisticRegression(mode="simulate", sigmoid_range=16.0, calibrate=False).fit(*table)
    assert list(model.classes_) == ["late", "paid"]
    largest = np.abs(alone.coef_ * table[0].std(axis=0)).max()
    gap = np.abs((model.coef_ - alone.coef_) * table[0].std(axis=0)).max()
    assert gap < 1e-4 * largest
    assert abs(model.score(*table) - alone.score(*table)) < 0.01

    keys.evaluation.save(tmp_path / "evaluation.key")
    in_file = sudare.EvaluationKeys.open(tmp_path / "evaluation.key")
    with ThreadPoolExecutor(2) as executor:
        assert distributed.compute(tables, in_file, executor).to_bytes() == result.to_bytes()

    with pytest.raises(errors.PooledError, match="west"):
        compute(tables[:2], keys.evaluation)
    with pytest.raises(errors.PooledError, match="south"):
        compute([*tables, tables[1]], keys.evaluation)
    other = pool.make_transform(schema, total, keys.secret)
    tables[2] = pool.encrypt(other, *thirds(table)[2], "west", keys.public)
    with pytest.raises(errors.PooledError, match="the latest transform"):
        compute(tables, keys.evaluation)
    with pytest.raises(errors.PooledError, match="east"):
        pool.encrypt(other, *thirds(table)[2], "east", keys.public)
    with pytest.raises(errors.ArgumentError, match="omit them"):
        pool.make_transform(schema, total, keys.secret, class_weight={"late": 2.0})


def test_the_holder_of_the_key_reads_statistics(
    table: tuple[Any, Any], schema: pool.Schema
) -> None:
    keys, total = totals(schema, table, None)
    summary = pool.statistics(schema, total, keys.secret)
    rows = table[0]
    assert np.allclose(summary.mean, rows.mean(axis=0), rtol=1e-12)
    assert np.allclose(summary.std, rows.std(axis=0, ddof=1), rtol=1e-9)
    assert np.allclose(summary.correlation, np.corrcoef(rows.T), atol=1e-9)
    with pytest.raises(errors.ArgumentError, match="prepares no rows"):
        pool.make_transform(schema, total, keys.secret)
    with pytest.raises(errors.PooledError):
        pool.add(schema, [total_of_one(schema, table, keys)])


def total_of_one(schema: pool.Schema, table: tuple[Any, Any], keys: Any) -> pool.Sums:
    return pool.encrypt_sums(schema, *thirds(table)[0], "north", keys.public)


def test_schemas_are_documents(
    table: tuple[Any, Any], schema: pool.Schema, tmp_path: Any
) -> None:
    path = tmp_path / "schema.json"
    schema.save(path)
    assert pool.Schema.open(path) == schema
    assert (schema.columns, schema.target) == (["x0", "x1", "x2", "x3"], "y")
    assert schema.classes == ["late", "paid"]
    with pytest.raises(FileExistsError):
        schema.save(path)
    with pytest.raises(errors.PooledError):
        pool.Schema("{}")
    keys = pool.plan(schema, 600).make_keys()
    rows, classes = table
    for changed, error in [
        (rows + 1e300, errors.PooledError),
        (rows[:, :3], errors.TableError),
    ]:
        with pytest.raises((error, errors.Error)):
            pool.encrypt_sums(schema, changed, classes, "north", keys.public)
    with pytest.raises(errors.ArgumentError, match="give y"):
        pool.encrypt_sums(schema, rows, None, "north", keys.public)
    with pytest.raises(errors.ShapeError, match="a class for each row"):
        pool.encrypt_sums(schema, rows, classes[:5], "north", keys.public)


def test_frames_have_categories(table: tuple[Any, Any]) -> None:
    pandas = pytest.importorskip("pandas")
    rows, classes = table
    frame = pandas.DataFrame({"amount": rows[:, 1], "purpose": ["car", "home", "boat"] * 200})
    schema = pool.Schema.draft(frame, pandas.Series(classes, name="outcome"), owners=["a", "b"])
    assert schema.columns == ["amount", "purpose=boat", "purpose=car", "purpose=home"]
    assert schema.target == "outcome"
    keys = pool.plan(schema, 600).make_keys()
    parts = [
        pool.encrypt_sums(schema, part, classes[part.index], owner, keys.public)
        for owner, part in [("a", frame[:200]), ("b", frame[200:])]
    ]
    summary = pool.statistics(schema, pool.add(schema, parts), keys.secret)
    assert np.allclose(summary.mean[1:], 1 / 3)
    assert sudare.pool is pool
