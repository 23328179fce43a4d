"""Training on an encrypted table by several processes or machines.

The process that calls `train` has the table, the evaluation keys and the weights. In each
iteration it sends where the gradient is taken, workers compute its parts from blocks of the
encrypted table, these are summed, and it makes the step. The model is the same, bit for bit, as
that of `sudare.linear_model.train`, whatever the number of workers and whichever of them is lost
on the way.

```python
from concurrent.futures import ProcessPoolExecutor
from sudare import EncryptedTable, EvaluationKeys, distributed

table = EncryptedTable.open("table.ct")
keys = EvaluationKeys.open("evaluation.key")
result = distributed.train(table, keys, lambda: ProcessPoolExecutor(4))
```

Workers are those of any `concurrent.futures` executor or of a Dask client. The evaluation keys must
be in a file, which every worker finds at the same path and maps: they are never sent. So is the
table where it can be found; rows of a table that cannot are sent. `docs/distributed.md` has what
that takes.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent import futures
from typing import Any, Protocol, TypeAlias, TypeVar

from sudare import _native, errors
from sudare._native import EvaluationKeys, Result, Table
from sudare._plan import as_list
from sudare._progress import Progress, callback

__all__ = ["train"]

_T = TypeVar("_T")

_File: TypeAlias = tuple[os.PathLike[str], str, int]
"""Path, digest and size of a file, as it is pickled."""

_Share: TypeAlias = tuple[int, int]
"""Ciphertexts of a table, from one and up to another."""

_Rows: TypeAlias = _File | _native.Part
"""The file of a table, or rows of it."""

_FAN_IN = 8
"""Parts of a gradient that are summed at once, at most."""

_OPEN_FILES = 2
"""Files of keys, and of tables, that a process keeps open."""

_PATIENCE_SECONDS = 60.0
"""How long a cluster may be without workers."""

_LOOK_SECONDS = 0.5
"""Time between two looks at a cluster."""

_DaskTimeoutError = asyncio.TimeoutError
"""What Dask raises: in Python 3.10 it is not the builtin of that name."""


def train(
    tables: Table | Sequence[Table],
    keys: EvaluationKeys,
    executor: futures.Executor | Callable[[], futures.Executor] | Any,
    *,
    shares: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    history: bool = False,
    retries: int = 3,
    progress: Progress = None,
) -> Result:
    """Trains on an encrypted table with the workers of an executor.

    Parameters
    ----------
    tables : the table. In a file, workers open it where they find it, and are sent its rows where
        they do not. Or those of several owners, whose rows are sent.
    keys : evaluation keys, opened from a file that every worker has at the same path.
    executor : a `concurrent.futures` executor, a function that makes one, or a
        `distributed.Client`. A process pool that loses a worker is broken: only a function can
        make another one. Dask gives the tasks of a lost worker to others by itself.
    shares : parts that a batch is cut into, at most; twice as many as workers if `None`. The plan of
        the table says how many are possible: keys made for `workers` allow for at least as many.
    checkpoint, resume, overwrite, history : as for `sudare.linear_model.train`, which can go on
        from the same states.
    retries : times that an iteration is done again because workers were lost.
    progress : called as `progress("training", done, total)`; `True` for bars of tqdm.

    Raises
    ------
    sudare.errors.WorkersLostError : no worker is left, or too many were lost. States in
        `checkpoint` are whole: go on from them with `resume`.
    sudare.errors.KeysInMemoryError : the evaluation keys are not in a file.
    sudare.errors.NoFileError, sudare.errors.FileChangedError : a worker does not find the keys, or
        finds others.
    """
    if keys.path is None:
        raise errors.KeysInMemoryError(
            "the evaluation keys are in memory and would be sent with every task: save() them "
            "where every worker finds them, and open() that file"
        )
    report, key_file, pool = callback(progress), _file(keys), _pool(executor)
    given = as_list(tables)
    trainer = _native.Trainer(
        given,
        keys,
        checkpoint=checkpoint,
        resume=resume,
        overwrite=overwrite,
        history=history,
    )
    in_file = len(given) == 1 and given[0].path is not None
    tasks = _Tasks(trainer, key_file, _file(given[0]) if in_file else None)
    # Workers that are threads of this process compute with what it has open.
    _opened(_workers, key_file, lambda: tasks.trainer.worker)
    try:
        while trainer.iteration < trainer.iterations:
            cut = trainer.shares(shares or 2 * pool.size())
            trainer.update(_gradient(pool, tasks, cut, retries))
            if report is not None:
                report("training", trainer.iteration, trainer.iterations)
        return trainer.model()
    finally:
        # The traceback of an error does not keep the folder of states in use.
        del trainer, tasks.trainer
        pool.close()
        with _lock:
            _workers.pop(key_file, None)


def _gradient(pool: _Pool, tasks: _Tasks, shares: Sequence[_Share], retries: int) -> _native.Part:
    """The gradient over all shares, whatever workers are lost."""
    point = tasks.trainer.point()
    while True:
        try:
            gradient = pool.gradient(tasks, point, shares)
        except _LostError as lost:
            if retries <= 0 or not lost.replaceable:
                raise errors.WorkersLostError(
                    f"workers were lost after {tasks.trainer.iteration} iterations: "
                    f"{lost}; {lost.remedy}, and go on with resume=True from the states in "
                    "checkpoint if there are any"
                ) from lost
            retries -= 1
            continue
        if gradient is not None:
            return gradient
        # From now on, rows are sent.
        tasks.table = None


class _LostError(Exception):
    """Workers are lost, and perhaps there are others."""

    def __init__(self, problem: str, *, replaceable: bool, remedy: str = "") -> None:
        super().__init__(problem)
        self.replaceable = replaceable
        self.remedy = remedy or "give it workers with more memory, or fewer of them"


class _Tasks:
    """What workers of a training are given."""

    def __init__(self, trainer: _native.Trainer, keys: _File, table: _File | None) -> None:
        self.trainer = trainer
        self.keys = keys
        self.table = table

    def rows(self, share: _Share) -> _Rows:
        """Where the rows of a share are, or these."""
        return self.table or self.trainer.rows(*share)


class _Pool(Protocol):
    """Workers."""

    def size(self) -> int:
        """How many there are."""

    def gradient(
        self, tasks: _Tasks, point: _native.Part, shares: Sequence[_Share]
    ) -> _native.Part | None:
        """The gradient over all shares, `None` if a worker does not find the table.

        Raises `_LostError` if it has to be asked for again.
        """

    def close(self) -> None:
        """Gives up what was made here."""


def _pool(executor: Any) -> _Pool:
    dask = sys.modules.get("distributed")
    if dask is not None and isinstance(executor, dask.Client):
        return _Cluster(executor)
    if isinstance(executor, futures.Executor):
        return _Executor(executor, None)
    if callable(executor):
        return _Executor(None, executor)
    raise errors.ArgumentError(
        f"{executor!r} does not run tasks: give a concurrent.futures.Executor, a function that "
        "makes one, or a distributed.Client"
    )


class _Executor:
    """Workers of `concurrent.futures`."""

    def __init__(
        self, executor: futures.Executor | None, make: Callable[[], futures.Executor] | None
    ) -> None:
        self._executor = executor
        self._make = make

    def _workers(self) -> futures.Executor:
        if self._executor is None:
            assert self._make is not None
            self._executor = self._make()
        return self._executor

    def size(self) -> int:
        count = getattr(self._workers(), "_max_workers", None)
        return count if isinstance(count, int) else os.cpu_count() or 1

    def gradient(
        self, tasks: _Tasks, point: _native.Part, shares: Sequence[_Share]
    ) -> _native.Part | None:
        running: list[futures.Future[_native.Part | None]] = []
        try:
            workers = self._workers()
            for share in shares:
                rows = tasks.rows(share)
                running.append(workers.submit(_share_gradient, tasks.keys, point, share, rows))
            parts: list[_native.Part] = []
            for done in futures.as_completed(running):
                part = done.result()
                if part is None:
                    return None
                parts.append(part)
                if len(parts) == _FAN_IN:
                    parts = [tasks.trainer.worker.sum(parts)]
            return parts[0] if len(parts) == 1 else tasks.trainer.worker.sum(parts)
        except futures.BrokenExecutor as error:
            self.close()
            raise _LostError(
                str(error),
                replaceable=self._make is not None,
                remedy="give a function that makes the executor, so that another one can be made",
            ) from error
        finally:
            for future in running:
                future.cancel()

    def close(self) -> None:
        if self._make is not None and self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
            self._executor = None


class _Cluster:
    """Workers of Dask. Sums are made where parts are, and sent rows stay where they are."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._rows: dict[_Share, Any] = {}

    def size(self) -> int:
        return len(self._client.nthreads()) or 1

    def gradient(
        self, tasks: _Tasks, point: _native.Part, shares: Sequence[_Share]
    ) -> _native.Part | None:
        from distributed import CancelledError, KilledWorker
        from distributed.comm.core import CommClosedError

        def submit(task: Callable[..., Any], *args: Any) -> Any:
            return self._client.submit(task, tasks.keys, *args, pure=False)

        self._expect_workers()
        try:
            everywhere = self._scatter(point)
            parts = [
                submit(_share_gradient, everywhere, share, self._rows_of(tasks, share))
                for share in shares
            ]
            while len(parts) > 1:
                groups = [parts[i : i + _FAN_IN] for i in range(0, len(parts), _FAN_IN)]
                parts = [submit(_sum, group) for group in groups]
            return self._result(parts[0])
        except (CancelledError, CommClosedError, KilledWorker, _DaskTimeoutError) as error:
            raise self._lost(error) from error

    def _expect_workers(self) -> None:
        """Waits for one, for a while."""
        alone = 0.0
        while not self._client.nthreads():
            if alone >= _PATIENCE_SECONDS:
                raise _deserted()
            time.sleep(_LOOK_SECONDS)
            alone += _LOOK_SECONDS

    def _rows_of(self, tasks: _Tasks, share: _Share) -> Any:
        if tasks.table is not None:
            return tasks.table
        if share not in self._rows:
            self._rows[share] = self._scatter(tasks.rows(share))
        return self._rows[share]

    def _scatter(self, part: _Rows) -> Any:
        """Sends something to one of the workers, from whom others take it. To all of them at once
        would be for ever where one has just left."""
        try:
            return self._client.scatter(part)
        except (KeyError, OSError) as error:
            raise self._lost(error) from error

    def _lost(self, error: BaseException) -> _LostError:
        """Workers are lost, and what they were sent may be, too."""
        self._rows.clear()
        time.sleep(_LOOK_SECONDS)
        return _LostError(str(error), replaceable=True)

    def _result(self, future: Any) -> _native.Part | None:
        """What comes of a task, unless there is no worker for a while."""
        alone = 0.0
        while alone < _PATIENCE_SECONDS:
            try:
                part: _native.Part | None = future.result(timeout=_LOOK_SECONDS)
                return part
            except _DaskTimeoutError:
                alone = 0.0 if self._client.nthreads() else alone + _LOOK_SECONDS
        future.cancel()
        raise _deserted()

    def close(self) -> None:
        self._rows.clear()


def _deserted() -> _LostError:
    return _LostError(
        f"the cluster has had none for {_PATIENCE_SECONDS:.0f} s",
        replaceable=False,
        remedy="start workers",
    )


# What follows runs in workers.


def _share_gradient(
    keys: _File, point: _native.Part, share: _Share, rows: _Rows
) -> _native.Part | None:
    """The part of a gradient that a share makes, `None` if its table is not found here."""
    worker = _worker(keys)
    if isinstance(rows, _native.Part):
        return worker.gradient(point, *share, rows)
    try:
        table = _opened(_tables, rows, lambda: Table._reopen(*rows))
    except errors.NoFileError:
        return None
    return worker.gradient(point, *share, table)


def _sum(keys: _File, parts: Sequence[_native.Part | None]) -> _native.Part | None:
    """The sum of parts of a gradient, if there are all."""
    found = [part for part in parts if part is not None]
    return _worker(keys).sum(found) if len(found) == len(parts) else None


def _worker(keys: _File) -> _native.Worker:
    def work() -> _native.Worker:
        try:
            return _native.Worker(EvaluationKeys._reopen(*keys))
        except errors.NoFileError as error:
            raise errors.NoFileError(
                f"the evaluation keys are missing on worker {socket.gethostname()}: {error}; copy "
                "their file there, to the same path"
            ) from error

    return _opened(_workers, keys, work)


_lock = threading.Lock()
_workers: OrderedDict[_File, _native.Worker] = OrderedDict()
_tables: OrderedDict[_File, Table] = OrderedDict()


def _opened(files: OrderedDict[_File, _T], file: _File, read: Callable[[], _T]) -> _T:
    """What is in a file, read once in this process."""
    with _lock:
        if file not in files:
            files[file] = read()
        files.move_to_end(file)
        while len(files) > _OPEN_FILES:
            files.popitem(last=False)
        return files[file]


def _file(held: EvaluationKeys | Table) -> _File:
    """The file that something is in: what it is pickled as."""
    _, (path, digest, size) = held.__reduce_ex__(5)
    return path, digest, size
