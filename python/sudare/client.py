"""A service that computes: uploads, jobs and results over HTTP.

```python
import sudare

token, key = open("clinic.token").read(), "…"  # as the operator of the server tells them
with sudare.Client("https://server.example", token, server_key=key) as client:
    job = client.train("keys/evaluation.key", "births.ct")
    job.wait(progress=print)
    job.result("model.ct")
```

Files are those of the command and of the classes of this package. What the service has already is not
sent again, and whatever was interrupted goes on when it is called again: an upload, a job, a download.
A result comes with a receipt, which the server has signed and which is kept beside it: what was computed,
from which keys and tables.
Needs `httpx` and `blake3`: `pip install sudare[client]`.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, TypeAlias

import blake3
import httpx

from sudare import errors
from sudare._native import read_receipt, read_server_key

__all__ = ["Client", "Job"]

_File: TypeAlias = str | os.PathLike[str]

_CHUNK_BYTES = 8 << 20
"""Bytes that are sent by one request."""

_PATIENCE = 120.0
"""Seconds for which a service may be away before that is an error."""

_LONGEST_PAUSE = 10.0
"""Seconds between two attempts, at most."""

_PASSING = {502, 503, 504}
"""Answers that pass by themselves."""

_UNSETTLED = {404, 408, 409, 423, 507}
"""Answers to a part of an upload after which it is to be found out where it was."""


class Job:
    """A job of a service; made by the methods of `Client`."""

    def __init__(
        self, client: Client, state: dict[str, Any], request: dict[str, Any] | None = None
    ) -> None:
        self._client = client
        self._state = state
        self._request = request

    @property
    def id(self) -> str:
        """Its name."""
        return str(self._state["id"])

    @property
    def state(self) -> str:
        """`queued`, `running`, `done`, `failed` or `cancelled`, as was heard last."""
        return str(self._state["state"])

    @property
    def seconds(self) -> float:
        """About the seconds of computing that the service predicted."""
        return float(self._state["predicted"]["seconds"])

    def __repr__(self) -> str:
        return f"Job({self.id!r}, {self.state!r})"

    def refresh(self) -> Job:
        """Asks the service how far it is; the same job."""
        self._state = self._client._json("GET", f"/v1/jobs/{self.id}")
        return self

    def wait(self, progress: Callable[[int, int], object] | None = None) -> Job:
        """Waits until it has ended.

        Parameters
        ----------
        progress
            Called with the steps done and all of them, whenever there are more.

        Returns
        -------
        Job
            The same.

        Raises
        ------
        sudare.errors.RefusedError
            If it failed or was cancelled.
        sudare.errors.UnreachableError
            If the service is away for minutes.
        """
        patience = _Patience()
        while not self._is_final:
            try:
                for state in self._client._events(self.id):
                    self._state, patience = state, _Patience()
                    if progress is not None and state["progress"]["total"]:
                        progress(state["progress"]["done"], state["progress"]["total"])
                if not self._is_final and not self.refresh()._is_final:
                    patience.wait(errors.UnreachableError("the service ends its events"))
            except httpx.TransportError as error:
                patience.wait(error)
        self._expect_done()
        return self

    def cancel(self) -> Job:
        """Ends it, unless it has ended; the same job."""
        self._state = self._client._json("DELETE", f"/v1/jobs/{self.id}")
        return self

    def result(self, path: _File) -> Path:
        """Waits for its result and writes it to a new file, whole or not at all.

        Its receipt is checked before, and kept beside it: its name ends with `.receipt`.

        Raises
        ------
        FileExistsError
            If there is such a file, or one of the receipt's name.
        sudare.errors.RefusedError
            If it failed or was cancelled.
        sudare.errors.ReceiptError
            If its receipt is not the expected server's, or for something else.
        """
        path = Path(path)
        beside = path.with_name(f"{path.name}.receipt")
        for taken in (path, beside):
            if os.path.lexists(taken):
                raise FileExistsError(f"{taken} exists: choose another name")
        receipt = self.wait()._receipt()
        path = self._client._download(self._state["result"], path)
        if receipt is not None:
            with _new_file(beside) as file:
                file.write(receipt.encode())
        return path

    def receipt(self) -> dict[str, Any]:
        """What the server says of its result, under its signature, which is checked.

        Returns
        -------
        dict
            Digests of `keys`, `tables`, `model` and `result` (BLAKE3 of the files), the `job`, its `kind`,
            `iterations` and `history`, `program` (version), times and the `server_key`.

        Raises
        ------
        sudare.errors.ReceiptError
            If it is not the expected server's, or for something else, or there is none.
        """
        text = self.wait()._receipt()
        if text is None:
            raise errors.ReceiptMissingError(f"the server has no receipt of job {self.id}")
        return read_receipt(text, self._client._server_key)

    def _receipt(self) -> str | None:
        """The text of its receipt, which was checked, if the server has one."""
        pinned = self._client._server_key
        answer = self._client._answer("GET", f"/v1/jobs/{self.id}/receipt")
        if answer.status_code == 404:
            if pinned is not None:
                raise errors.ReceiptMissingError(f"the server has no receipt of job {self.id}")
            return None
        text = _expect_success(answer).text
        said = read_receipt(text, pinned)
        known = {"job": self.id, "result": self._state["result"]}
        if self._request is not None:
            names = ["kind", "keys", "tables", "model", "iterations"]
            known |= {name: self._request.get(name) for name in names}
            known["history"] = self._request.get("history", False)
        for name, expected in known.items():
            if said.get(name) != expected:
                raise errors.ReceiptDiffersError(
                    f"the receipt is for {name} {said.get(name)}, {expected} was expected: the server did "
                    "something else than it was asked to"
                )
        if pinned is None:
            warnings.warn(
                f"the receipt is signed by the server {said['server_key']}: ask its operator, by another "
                "way, whether that is its key, and pass it as server_key from then on",
                errors.SecurityWarning,
                stacklevel=3,
            )
        return text

    @property
    def _is_final(self) -> bool:
        return self.state not in {"queued", "running"}

    def _expect_done(self) -> None:
        error = self._state["error"]
        if error is not None:
            raise errors.RefusedError(error["detail"], error["kind"])
        if self.state != "done":
            raise errors.RefusedError(f"job {self.id} is {self.state}", "Usage")


class Client:
    """A service and the token by which it knows this client.

    Parameters
    ----------
    url
        Address of the service: `https://…`, or `http://…` of this machine.
    token
        As `sudare serve token add` has shown it.
    server_key
        The key that the server signs receipts with, of 64 hexadecimal digits, as its operator tells it by
        another way (`sudare serve key`): results without a receipt of this key are refused. Without it
        there is a `SecurityWarning` that has the key which signed.
    verify
        Whether certificates are checked by public authorities, or the file of another one's.
    """

    def __init__(
        self, url: str, token: str, *, server_key: str | None = None, verify: bool | str = True
    ) -> None:
        address = httpx.URL(url)
        if address.scheme == "http" and address.host not in {"127.0.0.1", "localhost", "::1"}:
            raise ValueError(
                f"{url}: the token would travel in clear: use https, or a tunnel to this machine"
            )
        if address.scheme not in {"http", "https"}:
            raise ValueError(f"{url!r} is no address such as https://server.example")
        self._server_key = None if server_key is None else read_server_key(server_key)
        self._http = httpx.Client(
            base_url=url.rstrip("/"),
            headers={"authorization": f"Bearer {token.strip()}"},
            timeout=httpx.Timeout(90.0, connect=20.0),
            verify=verify,
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes its connections."""
        self._http.close()

    def upload(
        self, path: _File, collection: str, progress: Callable[[int, int], object] | None = None
    ) -> str:
        """Sends a file, unless the service has it.

        Parameters
        ----------
        path
            Evaluation keys, an encrypted table or a model; never a secret key.
        collection
            `keys`, `tables` or `models`: what it is.
        progress
            Called with the bytes that are there and all of them.

        Returns
        -------
        str
            Its digest, by which the service names it.
        """
        with open(path, "rb") as file:
            if file.read(16).startswith((b"\x89sealed\n", b"\x89sudare\n\x01\x00\x00\x00\x01\x00\x01\x00")):
                raise ValueError(f"{os.fspath(path)} is a secret key, which is sent to nobody")
            file.seek(0)
            hasher = blake3.blake3()
            while block := file.read(1 << 20):
                hasher.update(block)
            digest, size = hasher.hexdigest(), file.tell()
            offset, patience = size, _Patience()
            if self._answer("GET", f"/v1/{collection}/{digest}").status_code == 404:
                place, offset = self._begin(collection, digest, size)
            while offset < size:
                if progress is not None:
                    progress(offset, size)
                file.seek(offset)
                sent = self._append(place, offset, file.read(_CHUNK_BYTES))
                if isinstance(sent, int):
                    offset, patience = sent, _Patience()
                else:
                    patience.wait(sent)
                    place, offset = self._begin(collection, digest, size)
        if progress is not None:
            progress(size, size)
        return digest

    def stats(self, keys: _File, table: _File) -> Job:
        """Statistics of the columns of an encrypted table."""
        return self._compute("stats", keys, [table])

    def groups(self, keys: _File, table: _File) -> Job:
        """Sums of columns by groups of rows."""
        return self._compute("groups", keys, [table])

    def histogram(self, keys: _File, table: _File) -> Job:
        """Counts of the values of columns in bins."""
        return self._compute("histogram", keys, [table])

    def train(
        self,
        keys: _File,
        table: _File | Sequence[_File],
        *,
        iterations: int | None = None,
        history: bool = False,
    ) -> Job:
        """A logistic regression on an encrypted table, or on those of several owners.

        Parameters
        ----------
        keys
            File of evaluation keys.
        table
            File of an encrypted table, or several.
        iterations
            All that the keys are for if left out.
        history
            Whether the weights after each iteration come with the model.
        """
        tables = [table] if isinstance(table, str | os.PathLike) else list(table)
        return self._compute("train", keys, tables, iterations=iterations, history=history)

    def predict(self, keys: _File, rows: _File, model: _File | Job) -> Job:
        """Scores of encrypted rows by a model: a file, or what a training of the service left."""
        if isinstance(model, Job):
            digest = str(model.wait()._state["result"])
        else:
            digest = self.upload(model, "models")
        return self._compute("predict", keys, [rows], model=digest)

    def usage(self) -> dict[str, Any]:
        """What was used of the service, and what may be: `bytes`, `jobs`, `requests`, `cpu_seconds`."""
        usage: dict[str, Any] = self._json("GET", "/v1/usage")
        return usage

    def job(self, id: str) -> Job:
        """The job with this name."""
        return Job(self, self._json("GET", f"/v1/jobs/{id}"))

    def jobs(self) -> list[Job]:
        """All jobs, the newest first."""
        return [Job(self, state) for state in self._json("GET", "/v1/jobs")]

    def _compute(self, kind: str, keys: _File, tables: Sequence[_File], **more: Any) -> Job:
        request = {
            "kind": kind,
            "keys": self.upload(keys, "keys"),
            "tables": [self.upload(table, "tables") for table in tables],
            **{name: value for name, value in more.items() if value is not None},
        }
        name = blake3.blake3(json.dumps(request, sort_keys=True).encode()).hexdigest()
        attempt = 0
        while True:
            headers = {"idempotency-key": f"{name}-{attempt}"}
            state = self._json("POST", "/v1/jobs", headers=headers, json=request)
            # The same request as before is the same job, unless that was of no use.
            result = state["result"]
            if result is not None:
                is_of_use = self._answer("HEAD", f"/v1/results/{result}").is_success
            else:
                is_of_use = state["state"] in {"queued", "running"}
            if is_of_use:
                return Job(self, state, request)
            attempt += 1

    def _begin(self, collection: str, digest: str, size: int) -> tuple[str, int]:
        """Begins an upload, or finds where it was."""
        metadata = base64.b64encode(digest.encode()).decode()
        headers = {
            "tus-resumable": "1.0.0",
            "upload-length": str(size),
            "upload-metadata": f"digest {metadata}",
        }
        answer = _expect_success(self._answer("POST", f"/v1/{collection}", headers=headers))
        return answer.headers["location"], int(answer.headers["upload-offset"])

    def _append(self, place: str, offset: int, part: bytes) -> int | Exception:
        headers = {
            "tus-resumable": "1.0.0",
            "upload-offset": str(offset),
            "content-type": "application/offset+octet-stream",
        }
        try:
            answer = self._http.patch(place, headers=headers, content=part)
        except httpx.TransportError as error:
            return error
        if answer.status_code in _UNSETTLED or _is_passing(answer):
            return _refusal(answer)
        return int(_expect_success(answer).headers["upload-offset"])

    def _download(self, digest: str, path: Path) -> Path:
        hasher, patience = blake3.blake3(), _Patience()
        with _new_file(path) as file:
            total = None
            while total is None or file.tell() < total:
                headers = {"range": f"bytes={file.tell()}-"}
                try:
                    with self._http.stream("GET", f"/v1/results/{digest}", headers=headers) as answer:
                        if answer.status_code != 206:
                            answer.read()
                            if not _is_passing(answer):
                                raise _refusal(answer)
                            patience.wait(_refusal(answer))
                            continue
                        total = int(answer.headers["content-range"].rpartition("/")[2])
                        for block in answer.iter_raw():
                            hasher.update(block)
                            file.write(block)
                            patience = _Patience()
                except httpx.TransportError as error:
                    patience.wait(error)
            if hasher.hexdigest() != digest:
                raise errors.OtherFileError(f"{path} has another digest than the service said")
        return path

    def _events(self, id: str) -> Iterator[dict[str, Any]]:
        """The job after each of its changes, until it ends or the connection does."""
        with self._http.stream("GET", f"/v1/jobs/{id}/events") as answer:
            if _is_passing(answer):
                return
            if not answer.is_success:
                answer.read()
                raise _refusal(answer)
            for line in answer.iter_lines():
                if line.startswith("data:"):
                    yield json.loads(line.removeprefix("data:"))

    def _json(self, method: str, path: str, **more: Any) -> Any:
        return _expect_success(self._answer(method, path, **more)).json()

    def _answer(self, method: str, path: str, **more: Any) -> httpx.Response:
        """An answer, once it is none of a failure that passes."""
        patience = _Patience()
        while True:
            try:
                answer = self._http.request(method, path, **more)
            except httpx.TransportError as error:
                patience.wait(error)
                continue
            if not _is_passing(answer):
                return answer
            patience.wait(_refusal(answer))


class _Patience:
    """Pauses that grow, until it has been too long."""

    def __init__(self) -> None:
        self._since = time.monotonic()
        self._pause = 0.2

    def wait(self, error: Exception) -> None:
        if time.monotonic() - self._since > _PATIENCE:
            if isinstance(error, httpx.TransportError):
                raise errors.UnreachableError(f"the service cannot be reached: {error}") from error
            raise error
        time.sleep(self._pause)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)


@contextlib.contextmanager
def _new_file(path: Path) -> Iterator[BinaryIO]:
    """A new file, which is there whole or not at all."""
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    try:
        with open(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        # Unless somebody took the name meanwhile.
        os.link(temporary, path)
    finally:
        os.unlink(temporary)


def _is_passing(answer: httpx.Response) -> bool:
    """Whether an answer is that of a failure that passes soon."""
    if answer.status_code == 429:
        seconds = answer.headers.get("retry-after", "")
        return seconds.isascii() and seconds.isdigit() and int(seconds) <= _LONGEST_PAUSE
    return answer.status_code in _PASSING


def _refusal(answer: httpx.Response) -> errors.RefusedError:
    try:
        problem = answer.json()
        return errors.RefusedError(str(problem["detail"]), str(problem["kind"]))
    except (ValueError, KeyError, TypeError):
        detail = f"{answer.url} answers {answer.status_code} without saying why"
        return errors.RefusedError(detail, "Http")


def _expect_success(answer: httpx.Response) -> httpx.Response:
    if answer.is_success:
        return answer
    raise _refusal(answer)
