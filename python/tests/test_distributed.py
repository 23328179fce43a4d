"""Trainings that several workers share."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from distributed import Client, LocalCluster

import sudare
from sudare import _native, distributed, errors, pool
from sudare._plain import Floats

ITERATIONS = 5


class Job(NamedTuple):
    """Makes a table and keys in files, and the model of one process."""

    table: _native.Table
    keys: _native.EvaluationKeys
    model: bytes


def table_of(rows: Floats) -> _native.Data:
    members = (rows.sum(axis=1) > 0).astype(int).tolist()
    return _native.Data(["a", "b", "c"], rows, labels=("y", ["no", "yes"], members))


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """Plans batches of 300 rows with class weights, which four workers can share."""
    folder = tmp_path_factory.mktemp("job")
    random = np.random.default_rng(7)
    rows = random.normal(size=(600, 3))
    plan = _native.TablePlan.train(
        *rows.shape,
        iterations=ITERATIONS,
        batch_size=300,
        alpha=0.01,
        workers=4,
        class_weights="given",
        insecure_log_n=8,
    )
    public, evaluation, _ = _native.generate_keys(plan)
    evaluation.save(folder / "evaluation.key")
    plan.encrypt(
        public,
        table_of(rows),
        class_weights=[1.0, 2.0],
        path=folder / "table.ct",
    )
    table = _native.Table.open(folder / "table.ct")
    keys = _native.EvaluationKeys.open(folder / "evaluation.key")
    trainer = _native.Trainer([table], keys)
    assert len(trainer.shares(99)) >= 4
    while trainer.iteration < ITERATIONS:
        trainer.step()
    return Job(table, keys, trainer.model().to_bytes())


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield client


def processes() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn"))


def killing(victim: Callable[[], int], after: int) -> Callable[[str, int, int], None]:
    """Kills a process after `iterations` iterations."""

    def progress(what: str, done: int, total: int) -> None:
        assert (what, total) == ("training", ITERATIONS)
        if done == after:
            os.kill(victim(), signal.SIGKILL)

    return progress


@pytest.mark.parametrize("shares", [None, 1, 3])
def test_threads_train_the_same_model(job: Job, shares: int | None) -> None:
    with ThreadPoolExecutor(2) as executor:
        result = distributed.compute(job.table, job.keys, executor, shares=shares)
    assert result.to_bytes() == job.model


def test_processes_train_the_same_model_though_one_is_killed(job: Job) -> None:
    made: list[ProcessPoolExecutor] = []

    def make() -> Executor:
        made.append(processes())
        return made[-1]

    progress = killing(lambda: next(iter(made[-1]._processes)), after=3)
    result = distributed.compute(job.table, job.keys, make, progress=progress)
    assert result.to_bytes() == job.model
    assert len(made) == 2


def test_a_broken_pool_ends_a_training_that_can_go_on(job: Job, tmp_path: Path) -> None:
    with processes() as executor:
        progress = killing(lambda: next(iter(executor._processes)), after=3)
        with pytest.raises(errors.UnreachableError, match="a function that makes"):
            distributed.compute(
                job.table, job.keys, executor, checkpoint=tmp_path, progress=progress
            )
    done: list[int] = []
    with ThreadPoolExecutor(1) as executor:
        result = distributed.compute(
            job.table,
            job.keys,
            executor,
            checkpoint=tmp_path,
            resume=True,
            progress=lambda what, count, total: done.append(count),
        )
    assert done == [4, 5]
    assert result.to_bytes() == job.model


def test_dask_trains_the_same_model_though_a_worker_is_killed(job: Job, client: Client) -> None:
    pids = client.run(os.getpid)
    progress = killing(lambda: next(iter(pids.values())), after=2)
    result = distributed.compute(job.table, job.keys, client, progress=progress)
    assert result.to_bytes() == job.model
    assert client.run(os.getpid) != pids


def test_rows_are_sent_where_the_table_is_not_found(job: Job, client: Client) -> None:
    in_memory = _native.Table.from_bytes(job.table.to_bytes())
    with ThreadPoolExecutor(2) as executor:
        assert distributed.compute(in_memory, job.keys, executor).to_bytes() == job.model
    assert distributed.compute(in_memory, job.keys, client).to_bytes() == job.model


def test_a_file_that_workers_do_not_find_is_sent(
    job: Job, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = distributed._file(job.table)
    monkeypatch.setattr(
        distributed,
        "_file",
        lambda held: (Path("/nowhere/table.ct"), *elsewhere[1:])
        if held is job.table
        else tuple(held.__reduce_ex__(5)[1]),
    )
    for executor in ThreadPoolExecutor(2), client:
        result = distributed.compute(job.table, job.keys, executor)
        assert result.to_bytes() == job.model


def test_a_cluster_without_workers_ends_a_training(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distributed, "_PATIENCE_SECONDS", 1.0)
    with (
        LocalCluster(n_workers=0, dashboard_address=None) as cluster,
        Client(cluster) as client,
        pytest.raises(errors.UnreachableError, match="start workers"),
    ):
        distributed.compute(job.table, job.keys, client)


def test_keys_must_be_in_a_file_that_stays(job: Job, tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as executor:
        in_memory = sudare.EvaluationKeys.from_bytes(job.keys.to_bytes())
        with pytest.raises(errors.MissingKeyError, match="save"):
            distributed.compute(job.table, in_memory, executor)
    gone = tmp_path / "evaluation.key"
    job.keys.save(gone)
    keys = sudare.EvaluationKeys.open(gone)
    gone.unlink()
    with pytest.raises(errors.MissingFileError, match="missing on worker"):
        distributed.compute(job.table, keys, processes)
    with pytest.raises(errors.ArgumentError, match="distributed.Client"):
        distributed.compute(job.table, job.keys, 3)


def test_parts_travel_without_a_copy_and_are_checked(job: Job) -> None:
    trainer = _native.Trainer([job.table], job.keys)
    # The first iteration uses no rows.
    assert trainer.iteration == 1
    trainer.step()
    point = trainer.point()
    assert (point.holds, point.blocks) == ("point", 1)
    buffers: list[pickle.PickleBuffer] = []
    message = pickle.dumps(point, protocol=5, buffer_callback=buffers.append)
    assert len(message) < 200 and len(buffers) == 1
    assert pickle.loads(message, buffers=buffers).to_bytes() == point.to_bytes()
    assert pickle.loads(pickle.dumps(point, protocol=4)).nbytes == len(point.to_bytes())

    worker, cut = trainer.worker, trainer.shares(4)
    parts = [worker.gradient(point, *share, job.table) for share in cut]
    assert all(part.holds == "gradient" for part in parts)
    sent = pickle.loads(pickle.dumps(trainer.rows(*cut[0])))
    assert worker.gradient(point, *cut[0], sent).to_bytes() == parts[0].to_bytes()
    with pytest.raises(errors.MismatchError, match="rows of ciphertexts"):
        worker.gradient(point, *cut[1], sent)
    with pytest.raises(errors.MismatchError, match="gradient"):
        worker.sum([parts[0], point])
    with pytest.raises(errors.MismatchError, match="twice"):
        worker.sum([parts[0], parts[0]])
    with pytest.raises(errors.MismatchError, match="shares of a gradient"):
        trainer.update(parts[0])
    with pytest.raises(errors.Error):
        _native.Part.from_bytes(job.table.to_bytes())
    damaged = bytearray(parts[1].to_bytes())
    damaged[-40] ^= 1
    with pytest.raises(errors.WrongFileError):
        worker.sum([parts[0], _native.Part.from_bytes(bytes(damaged))])
    trainer.update(worker.sum(parts[::-1]))
    assert trainer.iteration == 3


def test_tasks_are_small(job: Job) -> None:
    """Tasks carry neither keys nor a table from a file."""
    task: tuple[Any, ...] = (distributed._file(job.keys), (0, 4), distributed._file(job.table))
    assert len(pickle.dumps(task)) < 1000


def test_tables_with_fewer_rows_are_trained_on_alike(tmp_path: Path) -> None:
    rows = np.random.default_rng(8).normal(size=(90, 3))
    plan = _native.TablePlan.train(600, 3, iterations=3, workers=2, insecure_log_n=8)
    public, evaluation, _ = _native.generate_keys(plan)
    evaluation.save(tmp_path / "evaluation.key")
    keys = _native.EvaluationKeys.open(tmp_path / "evaluation.key")
    table = plan.encrypt(public, table_of(rows), path=tmp_path / "table.ct")
    # The server does not see their number.
    whole = plan.encrypt(public, table_of(np.tile(rows, (6, 1))))
    assert table.rows == whole.rows == 600 and table.blocks == whole.blocks
    expected = sudare.linear_model.compute(table, keys).to_bytes()
    for given in (table, [table], _native.Table.from_bytes(table.to_bytes())):
        with ThreadPoolExecutor(2) as executor:
            assert distributed.compute(given, keys, executor).to_bytes() == expected


def test_several_tables_take_keys_for_several_owners(job: Job) -> None:
    with pytest.raises(errors.PooledError, match="2 tables"):
        sudare.linear_model.compute([job.table, job.table], job.keys)
    with ThreadPoolExecutor(1) as executor, pytest.raises(errors.PooledError):
        distributed.compute([job.table, job.table], job.keys, executor)
    with pytest.raises(errors.ArgumentError, match="at least one"):
        sudare.linear_model.compute([], job.keys)


@pytest.mark.parametrize("workers", [lambda: ThreadPoolExecutor(2), processes])
def test_rows_of_several_owners_are_shared_alike(
    workers: Callable[[], Executor], tmp_path: Path
) -> None:
    owners = ["north", "south", "west"]
    rows = np.random.default_rng(9).normal(size=(600, 3))
    classes = np.where(rows.sum(axis=1) > 0.5, "yes", "no")
    model = sudare.LogisticRegression(max_iter=3, insecure_log_n=9)
    schema = pool.Schema.draft(rows, classes, owners=owners)
    with pytest.warns(errors.SecurityWarning):
        keys = pool.plan(schema, 600, model).make_keys()
    keys.evaluation.save(tmp_path / "evaluation.key")
    evaluation = sudare.EvaluationKeys.open(tmp_path / "evaluation.key")
    parts = dict(zip(owners, np.split(np.arange(600), [300, 450]), strict=True))
    sums = [
        pool.encrypt_sums(schema, rows[part], classes[part], owner, keys.public)
        for owner, part in parts.items()
    ]
    transform = pool.make_transform(schema, pool.add(schema, sums), keys.secret)
    tables = [
        pool.encrypt(transform, rows[part], classes[part], owner, keys.public)
        for owner, part in parts.items()
    ]
    expected = sudare.linear_model.compute(tables, evaluation)
    found = distributed.compute(tables, evaluation, workers, checkpoint=tmp_path / "state")
    assert found.to_bytes() == expected.to_bytes()
    model.decrypt(found, keys.secret)
    assert model.score(rows, classes) > 0.9
    with pytest.raises(errors.PooledError, match="west"):
        distributed.compute(tables[:2], evaluation, workers)
