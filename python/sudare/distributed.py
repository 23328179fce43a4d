"""Training on an encrypted table by several processes or machines.

The process that calls `compute` has the table, the evaluation keys and the weights. In each iteration it
sends the point of the gradient to workers, which compute parts of the gradient from blocks of the
encrypted table. It adds the parts, and makes the step. The model is the same, bit for bit, as the model of
`sudare.linear_model.compute`, for any number of workers and of lost workers.

```python
from concurrent.futures import ProcessPoolExecutor
from sudare import EncryptedTable, EvaluationKeys, distributed

table = EncryptedTable.open("table.ct")
keys = EvaluationKeys.open("evaluation.key")
result = distributed.compute(table, keys, lambda: ProcessPoolExecutor(4))
```

Workers belong to any `concurrent.futures` executor or to a Dask client. The evaluation keys must be in a
file that every worker finds at the same path and maps: they are never sent. Workers also map the table
where they find it; otherwise they are sent its rows. `docs/distributed.md` states the costs.
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
from sudare._plain import expect_type, flag, optional, path_of, shown, whole
from sudare._plan import as_list
from sudare._progress import Progress, callback
from sudare._renamed import renamed

__all__ = ["compute"]


def __dir__() -> list[str]:
    return sorted(__all__)

_T = TypeVar("_T")

_File: TypeAlias = tuple[os.PathLike[str], str, int]
"""Path, digest and size of a pickled file."""

_Share: TypeAlias = tuple[int, int]
"""The first ciphertext of a share of a table, and the first after it."""

_Rows: TypeAlias = _File | _native.Part
"""The file of a table, or some of its rows."""

_FAN_IN = 8
"""The maximum number of parts of a gradient in one sum."""

_OPEN_FILES = 2
"""The maximum number of files of keys, and of tables, that a process keeps open."""

_PATIENCE_SECONDS = 60.0
"""The maximum time that a cluster may be without workers."""

_LOOK_SECONDS = 0.5
"""The time between two checks of a cluster."""

_DaskTimeoutError = asyncio.TimeoutError
"""The timeout of Dask: in Python 3.10 it is not the builtin of that name."""


def compute(
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
    tables : EncryptedTable or sequence of EncryptedTable
        The table. Workers open its file where they find it, and are otherwise sent its rows. Or the tables
        of several owners, whose rows are sent.
    keys : EvaluationKeys
        The keys of the server, opened from a file that every worker has at the same path.
    executor : concurrent.futures.Executor, callable or distributed.Client
        An executor, a function that makes one, or a client of Dask. A process pool that loses a worker is
        broken: only a function can make another one. Dask gives the tasks of a lost worker to others.
    shares : int, optional
        The maximum number of parts of a batch, by default twice the number of workers. The plan of the
        table limits it: keys that were made for `workers` allow at least that number.
    checkpoint, resume, overwrite, history
        As for `sudare.linear_model.compute`, which can continue from the same states.
    retries : int, default 3
        The number of times that an iteration is repeated because workers were lost.
    progress : callable or bool, optional
        Called as `progress("training", done, total)`. `True` shows bars of tqdm.

    Raises
    ------
    sudare.errors.UnreachableError
        If no worker is left, or too many were lost. States in `checkpoint` are whole: continue from them
        with `resume`.
    sudare.errors.MissingKeyError
        If the evaluation keys are not in a file.
    sudare.errors.FileError
        If a worker does not find the keys, or finds others.
    """
    expect_type(keys, "keys", EvaluationKeys)
    most, tries = optional(whole, shares, "shares"), whole(retries, "retries")
    checkpoint = optional(path_of, checkpoint, "checkpoint")
    resume, overwrite = flag(resume, "resume"), flag(overwrite, "overwrite")
    history = flag(history, "history")
    if keys.path is None:
        raise errors.of_kind(
            "KeysInMemory",
            "the evaluation keys are in memory, and would be sent with every task: save() them where every "
            "worker finds them, and open() that file"
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
    # Workers that are threads of this process use its open files.
    _opened(_workers, key_file, lambda: tasks.trainer.worker)
    try:
        while trainer.iteration < trainer.iterations:
            cut = trainer.shares(most or 2 * pool.size())
            trainer.update(_gradient(pool, tasks, cut, tries))
            if report is not None:
                report("training", trainer.iteration, trainer.iterations)
        return trainer.model()
    finally:
        # Otherwise the traceback of an error would keep the directory of states in use.
        del trainer, tasks.trainer
        pool.close()
        with _lock:
            _workers.pop(key_file, None)


train = renamed(compute, "train")


def _gradient(pool: _Pool, tasks: _Tasks, shares: Sequence[_Share], retries: int) -> _native.Part:
    """Computes the gradient over all shares, and repeats it if workers are lost."""
    point = tasks.trainer.point()
    while True:
        try:
            gradient = pool.gradient(tasks, point, shares)
        except _LostError as lost:
            if retries <= 0 or not lost.replaceable:
                raise errors.of_kind(
                    "WorkersLost",
                    f"workers were lost after {tasks.trainer.iteration} iterations: {lost}; "
                    f"{lost.remedy}, and continue with resume=True from the states in checkpoint, if there "
                    "are any"
                ) from lost
            retries -= 1
            continue
        if gradient is not None:
            return gradient
        # A worker does not find the table: from now on, rows are sent.
        tasks.table = None


class _LostError(Exception):
    """Workers are lost; perhaps there are others."""

    def __init__(self, problem: str, *, replaceable: bool, remedy: str = "") -> None:
        super().__init__(problem)
        self.replaceable = replaceable
        self.remedy = remedy or "start workers with more memory, or fewer of them"


class _Tasks:
    """The inputs of the workers of a training."""

    def __init__(self, trainer: _native.Trainer, keys: _File, table: _File | None) -> None:
        self.trainer = trainer
        self.keys = keys
        self.table = table

    def rows(self, share: _Share) -> _Rows:
        """Returns the file of the rows of a share, or the rows."""
        return self.table or self.trainer.rows(*share)


class _Pool(Protocol):
    """Workers."""

    def size(self) -> int:
        """Returns the number of workers."""

    def gradient(
        self, tasks: _Tasks, point: _native.Part, shares: Sequence[_Share]
    ) -> _native.Part | None:
        """Computes the gradient over all shares; `None` if a worker does not find the table.

        Raises `_LostError` if workers were lost.
        """

    def close(self) -> None:
        """Stops workers that were started here."""


def _pool(executor: Any) -> _Pool:
    # A client of Dask exists only if its module is imported already.
    dask = sys.modules.get("distributed")
    if dask is not None and isinstance(executor, dask.Client):
        return _Cluster(executor)
    if isinstance(executor, futures.Executor):
        return _Executor(executor, None)
    if callable(executor):
        return _Executor(None, executor)
    raise errors.ArgumentError(
        f"executor is {shown(executor)}: pass a concurrent.futures.Executor, a function that makes one, or a "
        "distributed.Client"
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
            # Summed as they arrive, so that a gradient of many shares never needs all parts in
            # memory.
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
                remedy="pass a function that makes the executor, so that it can make another one",
            ) from error
        finally:
            # After an error, the remaining shares would keep workers busy.
            for future in running:
                future.cancel()

    def close(self) -> None:
        # An executor of the caller stays open.
        if self._make is not None and self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
            self._executor = None


class _Cluster:
    """Workers of Dask. They add parts where these are, and keep rows that they were sent."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._rows: dict[_Share, Any] = {}

    def size(self) -> int:
        return len(self._client.nthreads()) or 1

    def gradient(
        self, tasks: _Tasks, point: _native.Part, shares: Sequence[_Share]
    ) -> _native.Part | None:
        # Imported late, because Dask is optional.
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
        """Waits a while for workers."""
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
        """Sends something to one of the workers, from which others get it.

        Sending it to all at once would wait forever for a worker that has just left.
        """
        try:
            return self._client.scatter(part)
        except (KeyError, OSError) as error:
            raise self._lost(error) from error

    def _lost(self, error: BaseException) -> _LostError:
        """Forgets rows that lost workers were sent."""
        self._rows.clear()
        time.sleep(_LOOK_SECONDS)
        return _LostError(str(error), replaceable=True)

    def _result(self, future: Any) -> _native.Part | None:
        """Waits for the result of a task, unless there is no worker for a while."""
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
        f"the cluster has had no worker for {_PATIENCE_SECONDS:.0f} s",
        replaceable=False,
        remedy="start workers",
    )


# These functions run in workers.


def _share_gradient(
    keys: _File, point: _native.Part, share: _Share, rows: _Rows
) -> _native.Part | None:
    """Computes the part of a gradient of a share; `None` if its table is not found here."""
    worker = _worker(keys)
    if isinstance(rows, _native.Part):
        return worker.gradient(point, *share, rows)
    try:
        table = _opened(_tables, rows, lambda: Table._reopen(*rows))
    except errors.MissingFileError:
        return None
    return worker.gradient(point, *share, table)


def _sum(keys: _File, parts: Sequence[_native.Part | None]) -> _native.Part | None:
    """Adds parts of a gradient, unless one is missing."""
    found = [part for part in parts if part is not None]
    return _worker(keys).sum(found) if len(found) == len(parts) else None


def _worker(keys: _File) -> _native.Worker:
    def work() -> _native.Worker:
        try:
            return _native.Worker(EvaluationKeys._reopen(*keys))
        except errors.MissingFileError as error:
            raise errors.of_kind(
                "NoFile",
                f"the evaluation keys are missing on worker {socket.gethostname()}: {error}; copy their file "
                "there, to the same path"
            ) from error

    return _opened(_workers, keys, work)


_lock = threading.Lock()
_workers: OrderedDict[_File, _native.Worker] = OrderedDict()
_tables: OrderedDict[_File, Table] = OrderedDict()


def _opened(files: OrderedDict[_File, _T], file: _File, read: Callable[[], _T]) -> _T:
    """Reads a file once in this process."""
    with _lock:
        # Read under the lock, so that threads do not read a file of gigabytes twice.
        if file not in files:
            files[file] = read()
        files.move_to_end(file)
        while len(files) > _OPEN_FILES:
            files.popitem(last=False)
        return files[file]


def _file(held: EvaluationKeys | Table) -> _File:
    """Returns the file of keys or a table, as it is pickled."""
    _, (path, digest, size) = held.__reduce_ex__(5)
    return path, digest, size
