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
Every file is checked before a connection is opened: only evaluation keys, encrypted tables and models
are sent.
A result comes with a receipt, which the server has signed and which is kept beside it: what was computed,
from which keys and tables.
Needs `httpx` and `blake3`: `pip install sudare[client]`.
"""

from __future__ import annotations

import base64
import contextlib
import ipaddress
import json
import os
import re
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
from sudare._native import Outgoing, read_receipt, read_server_key

__all__ = ["Client", "Job"]

_File: TypeAlias = str | os.PathLike[str]

_CHUNK_BYTES = 8 << 20
"""Bytes that are sent by one request."""

_PATIENCE = 120.0
"""Seconds for which a service may be away before that is an error."""

_LONGEST_PAUSE = 10.0
"""Seconds between two attempts, at most."""

_MOST_ANSWER_BYTES = 16 << 20
"""Bytes of an answer in JSON, at most."""

_MOST_EVENT_BYTES = 1 << 20
"""Bytes of a line of an event, at most."""

_UPLOAD = re.compile("/v1/uploads/[0-9A-Za-z]+")
"""The path of an upload, which must be on the server that was asked."""

_NAME = re.compile("[0-9A-Za-z]+")
"""The name of a job, or a digest."""

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
        self._state = self._client._job("GET", self.id)
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
        self._state = self._client._job("DELETE", self.id)
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
        if answer.status == 404:
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
        if address.userinfo:
            # The password is not repeated.
            raise ValueError(
                f"{address.scheme}://…@{address.host}: leave out the name and the password: a service takes "
                "tokens alone"
            )
        if address.scheme == "http" and address.host not in {"127.0.0.1", "localhost", "::1"}:
            raise ValueError(
                f"{url}: the token would travel in clear: use https, or a tunnel to this machine"
            )
        if address.scheme not in {"http", "https"}:
            raise ValueError(f"{url!r} is no address such as https://server.example")
        self._server_key = None if server_key is None else read_server_key(server_key)
        # A proxy of the environment would see a token that is sent to this machine in clear.
        transport = httpx.HTTPTransport(verify=verify) if _is_loopback(address.host) else None
        self._http = httpx.Client(
            base_url=url.rstrip("/"),
            headers={"authorization": f"Bearer {_checked_token(token)}", "accept-encoding": "identity"},
            timeout=httpx.Timeout(90.0, connect=20.0),
            verify=verify,
            transport=transport,
        )

    def __repr__(self) -> str:
        return f"Client({str(self._http.base_url)!r}, …)"

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
        self,
        path: _File,
        collection: str,
        progress: Callable[[int, int], object] | None = None,
        *,
        plain_model: bool = False,
    ) -> str:
        """Sends a file, unless the service has it.

        Parameters
        ----------
        path
            Evaluation keys, an encrypted table or a model. Any other file is refused before a connection is
            opened.
        collection
            `keys`, `tables` or `models`: what it is.
        progress
            Called with the bytes that are there and all of them.
        plain_model
            Whether a model that is not encrypted may be sent: the server sees its weights.

        Returns
        -------
        str
            Its digest, by which the service names it.

        Raises
        ------
        sudare.errors.UsageError
            If the file is not of the collection, and for a secret key whatever the collection.
        """
        return self._send(Outgoing(path, collection, plain_model), progress)

    def _send(self, file: Outgoing, progress: Callable[[int, int], object] | None = None) -> str:
        """Sends a file that was checked, unless the service has it."""
        collection, size, digest = file.collection, file.size, file.digest()
        offset, patience = size, _Patience()
        known = self._answer("GET", f"/v1/{collection}/{digest}")
        if known.status == 404:
            place, offset = self._begin(collection, digest, size)
        else:
            _expect_success(known)
        while offset < size:
            if progress is not None:
                progress(offset, size)
            sent = self._append(place, offset, file.part(offset, _CHUNK_BYTES))
            if isinstance(sent, int) and sent > offset:
                offset, patience = sent, _Patience()
            elif isinstance(sent, int):
                # A server that takes nothing would be sent the same for ever.
                patience.wait(errors.RefusedError("the server has taken nothing of an upload", "Http"))
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

    def predict(
        self, keys: _File, rows: _File, model: _File | Job, *, plain_model: bool = False
    ) -> Job:
        """Scores of encrypted rows by a model.

        Parameters
        ----------
        keys
            File of evaluation keys.
        rows
            File of encrypted rows.
        model
            File of a model, or the job of a training that left one at the service.
        plain_model
            Whether a model that is not encrypted may be sent: the server sees its weights.
        """
        if isinstance(model, Job):
            return self._compute("predict", keys, [rows], model=str(model.wait()._state["result"]))
        return self._compute("predict", keys, [rows], model=Outgoing(model, "models", plain_model))

    def usage(self) -> dict[str, Any]:
        """What was used of the service, and what may be: `bytes`, `jobs`, `requests`, `cpu_seconds`."""
        usage: dict[str, Any] = self._json("GET", "/v1/usage")
        return usage

    def job(self, id: str) -> Job:
        """The job with this name."""
        return Job(self, self._job("GET", id))

    def jobs(self) -> list[Job]:
        """All jobs, the newest first."""
        states = self._json("GET", "/v1/jobs")
        if not isinstance(states, list):
            raise errors.RefusedError("the server's answer is not a list of jobs", "Http")
        return [Job(self, _checked_job(state)) for state in states]

    def _job(self, method: str, id: str) -> dict[str, Any]:
        """A job as the service tells of it."""
        if not _NAME.fullmatch(id):
            raise ValueError(f"{id!r} is not the name of a job")
        return _checked_job(self._json(method, f"/v1/jobs/{id}"))

    def _compute(self, kind: str, keys: _File, tables: Sequence[_File], **more: Any) -> Job:
        # All files are checked before the first one is sent.
        files = [Outgoing(keys, "keys", False), *(Outgoing(table, "tables", False) for table in tables)]
        digests = [self._send(file) for file in files]
        request = {"kind": kind, "keys": digests[0], "tables": digests[1:]}
        for name, value in more.items():
            if value is not None:
                request[name] = self._send(value) if isinstance(value, Outgoing) else value
        name = blake3.blake3(json.dumps(request, sort_keys=True).encode()).hexdigest()
        attempt = 0
        while True:
            headers = {"idempotency-key": f"{name}-{attempt}"}
            state = _checked_job(self._json("POST", "/v1/jobs", headers=headers, json=request))
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
        place, offset = answer.headers.get("location", ""), _offset(answer)
        if not _UPLOAD.fullmatch(place) or offset > size:
            raise errors.RefusedError(
                f"the server asks to send the file to {place!r} from byte {offset} on, not to an upload of its "
                "own",
                "Http",
            )
        return place, offset

    def _append(self, place: str, offset: int, part: bytes) -> int | Exception:
        headers = {
            "tus-resumable": "1.0.0",
            "upload-offset": str(offset),
            "content-type": "application/offset+octet-stream",
        }
        try:
            answer = self._ask("PATCH", place, headers=headers, content=part)
        except httpx.TransportError as error:
            return error
        if answer.status in _UNSETTLED or answer.is_passing:
            return _refusal(answer)
        return _offset(_expect_success(answer))

    def _download(self, digest: str, path: Path) -> Path:
        hasher, patience = blake3.blake3(), _Patience()
        with _new_file(path) as file:
            total = None
            while total is None or file.tell() < total:
                headers = {"range": f"bytes={file.tell()}-"}
                try:
                    with self._http.stream("GET", f"/v1/results/{digest}", headers=headers) as got:
                        if got.status_code != 206:
                            answer = _Answer(got)
                            if not answer.is_passing:
                                raise _refusal(answer)
                            patience.wait(_refusal(answer))
                            continue
                        total = _total(got, file.tell(), total)
                        for block in got.iter_raw():
                            if file.tell() + len(block) > total:
                                raise errors.RefusedError(
                                    f"the result is longer than the {total} bytes that the server announced",
                                    "Http",
                                )
                            hasher.update(block)
                            file.write(block)
                            patience = _Patience()
                    if file.tell() < total:
                        patience.wait(errors.UnreachableError("the connection breaks"))
                except httpx.TransportError as error:
                    patience.wait(error)
            if hasher.hexdigest() != digest:
                raise errors.OtherFileError(f"{path} has another digest than the service said")
        return path

    def _events(self, id: str) -> Iterator[dict[str, Any]]:
        """The job after each of its changes, until it ends or the connection does."""
        with self._http.stream("GET", f"/v1/jobs/{id}/events") as got:
            if not got.is_success:
                answer = _Answer(got)
                if answer.is_passing:
                    return
                raise _refusal(answer)
            for line in _lines(got):
                if line.startswith(b"data:"):
                    yield _checked_job(_parsed(line.removeprefix(b"data:")))

    def _json(self, method: str, path: str, **more: Any) -> Any:
        return _parsed(_expect_success(self._answer(method, path, **more)).body)

    def _answer(self, method: str, path: str, **more: Any) -> _Answer:
        """The answer to a request, which is repeated after failures that pass."""
        patience = _Patience()
        while True:
            try:
                answer = self._ask(method, path, **more)
            except httpx.TransportError as error:
                patience.wait(error)
                continue
            if not answer.is_passing:
                return answer
            patience.wait(_refusal(answer))

    def _ask(self, method: str, path: str, **more: Any) -> _Answer:
        """The answer to one request."""
        with self._http.stream(method, path, **more) as got:
            return _Answer(got)


class _Answer:
    """An answer that was read whole, if it is not too long."""

    def __init__(self, got: httpx.Response) -> None:
        self.url = got.url
        self.status = got.status_code
        self.is_success = got.is_success
        self.headers = got.headers
        body = bytearray()
        for block in got.iter_raw():
            body += block
            if len(body) > _MOST_ANSWER_BYTES:
                raise errors.RefusedError(
                    f"{self.url} answers with more than {_MOST_ANSWER_BYTES} bytes", "Http"
                )
        self.body = bytes(body)

    @property
    def text(self) -> str:
        """The body, which must be text."""
        try:
            return self.body.decode()
        except UnicodeDecodeError as error:
            raise errors.RefusedError(f"{self.url} answers with bytes that are not text", "Http") from error

    @property
    def is_passing(self) -> bool:
        """Whether it tells of a failure that passes soon."""
        if self.status == 429:
            seconds = self.headers.get("retry-after", "")
            return re.fullmatch("[0-9]{1,9}", seconds) is not None and int(seconds) <= _LONGEST_PAUSE
        return self.status in _PASSING


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


def _refusal(answer: _Answer) -> errors.RefusedError:
    try:
        problem = json.loads(answer.body)
        return errors.RefusedError(str(problem["detail"]), str(problem["kind"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        detail = f"{answer.url} answers {answer.status} without saying why"
        return errors.RefusedError(detail, "Http")


def _expect_success(answer: _Answer) -> _Answer:
    if answer.is_success:
        return answer
    raise _refusal(answer)


def _parsed(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise errors.RefusedError(f"the server's answer is not JSON: {error}", "Http") from error


def _checked_job(state: Any) -> dict[str, Any]:
    """A job as the service tells of it, with all that is needed."""
    try:
        good = isinstance(state["state"], str) and _NAME.fullmatch(state["id"]) is not None
        good = good and (state["result"] is None or _NAME.fullmatch(state["result"]) is not None)
        if good and state["error"] is not None:
            good = isinstance(state["error"]["detail"], str) and isinstance(state["error"]["kind"], str)
        steps = state["progress"]
        good = good and isinstance(steps["done"], int) and isinstance(steps["total"], int)
        good = good and isinstance(state["predicted"]["seconds"], int | float)
    except (KeyError, TypeError):
        good = False
    if not good:
        raise errors.RefusedError("the server's answer is not a job", "Http")
    checked: dict[str, Any] = state
    return checked


def _offset(answer: _Answer) -> int:
    """The bytes of an upload that the service has."""
    text = answer.headers.get("upload-offset", "")
    if not re.fullmatch("[0-9]{1,19}", text):
        raise errors.RefusedError("the server does not say how much of an upload it has", "Http")
    return int(text)


def _total(got: httpx.Response, first: int, before: int | None) -> int:
    """The bytes of a result, in an answer with the part from `first` on."""
    found = re.fullmatch("bytes ([0-9]{1,19})-[0-9]{1,19}/([0-9]{1,19})", got.headers.get("content-range", ""))
    if found is None or int(found[1]) != first or before not in {None, int(found[2])}:
        raise errors.RefusedError(
            "the server, or a proxy on the way, does not send the part of the result that was asked for", "Http"
        )
    return int(found[2])


def _lines(got: httpx.Response) -> Iterator[bytes]:
    """The lines of a stream of events."""
    rest = b""
    for block in got.iter_raw():
        *lines, rest = (rest + block).split(b"\n")
        yield from lines
        if len(rest) > _MOST_EVENT_BYTES:
            raise errors.RefusedError(
                f"the server sends an event of more than {_MOST_EVENT_BYTES} bytes", "Http"
            )


def _checked_token(text: str) -> str:
    """The token, if a header can carry it. Messages never repeat it."""
    token = text.strip()
    if not re.fullmatch("[!-~]+", token):
        raise ValueError(
            "the token is empty, or has blanks or other characters that no token has: use the line that "
            "`sudare serve token add` has printed"
        )
    return token


def _is_loopback(host: str) -> bool:
    """Whether a host is this machine, whose addresses no proxy is asked for."""
    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
