"""The client of a service that computes: uploads, jobs and results over HTTP.

```python
import sudare

token = open("clinic.token").read()
key = "…"  # from the operator of the server
with sudare.Client("https://server.example", token, server_key=key) as client:
    job = client.train("keys/evaluation.key", "births.ct")
    job.wait(progress=print)
    job.result("model.ct")
```

The command and the classes of this package use the same files. The client does not send a file that the
service already has. Call again to continue an interrupted upload, job or download. The client checks every
file before it opens a connection: it sends only evaluation keys, encrypted tables and models. A result
comes with a receipt of the computation, its keys and its tables. The server signs the receipt, and the
client writes it next to the result. The client needs `httpx` and `blake3`, which
the extra `client` of this package installs.
"""

from __future__ import annotations

import base64
import contextlib
import ipaddress
import json
import logging
import os
import re
import socket
import ssl
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, TypeAlias

from sudare import errors
from sudare._native import Outgoing, read_receipt, read_server_key
from sudare._optional import missing
from sudare._plain import flag, items, optional, path_of, shown, string, whole
from sudare._progress import PartsProgress, callback_of_parts
from sudare._shown import duration, facts_html

try:
    import blake3
    import httpx
except ImportError as _error:
    raise missing(_error.name, "client", "a client of a service") from None

__all__ = ["Client", "Job"]


def __dir__() -> list[str]:
    return sorted(__all__)

_File: TypeAlias = str | os.PathLike[str]

_CHUNK_BYTES = 8 << 20
"""Bytes in one request."""

_PATIENCE = 120.0
"""The maximum seconds that a service may be unreachable."""

_NOTICE = 2.0
"""The seconds after which the client says that it has no response yet."""

_LONGEST_PAUSE = 10.0
"""The maximum seconds between two attempts."""

_MOST_ANSWER_BYTES = 16 << 20
"""The maximum bytes of a response in JSON."""

_MOST_EVENT_BYTES = 1 << 20
"""The maximum bytes of a line of an event."""

_UPLOAD = re.compile("/v1/uploads/[0-9A-Za-z]+")
"""The path of an upload, which must be on the same server."""

_NAME = re.compile("[0-9A-Za-z]+")
"""The name of a job, or a digest."""

_EXPIRED, _NOT_YET, _OTHER_NAMES = {10}, {9}, {62, 64}
"""Reasons of OpenSSL for a refused certificate: X509_V_ERR_CERT_HAS_EXPIRED and so on."""

_LOG = logging.getLogger(__name__)
"""Says that the client tries again: on the standard error, unless the program configures `logging`."""

_PASSING = {502, 503, 504}
"""Responses of failures that pass."""

_UNSETTLED = {404, 408, 409, 423, 507}
"""Responses after which the client asks for the offset of an upload."""


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
        """The name of the job."""
        return str(self._state["id"])

    @property
    def state(self) -> str:
        """The last known state: `queued`, `running`, `done`, `failed` or `cancelled`."""
        return str(self._state["state"])

    @property
    def seconds(self) -> float:
        """The seconds of computing that the service predicted."""
        return float(self._state["predicted"]["seconds"])

    def __repr__(self) -> str:
        return f"Job({self.id!r}, {self.state!r})"

    def _repr_html_(self) -> str:
        steps = self._state["progress"]
        facts = {
            "job": self.id,
            "state": self.state,
            "progress": f"{steps['done']} of {steps['total']}",
            "predicted": f"{duration(self.seconds)} of computing",
        }
        return facts_html("Job", facts)

    def refresh(self) -> Job:
        """Updates the state from the service, and returns the same job."""
        self._state = self._client._job("GET", self.id)
        return self

    def wait(self, progress: PartsProgress = None) -> Job:
        """Waits until the job ends.

        Parameters
        ----------
        progress : callable or bool, optional
            Called as `progress(done, total)` after each step. `True` shows bars of tqdm, or text.

        Returns
        -------
        Job
            The same job.

        Raises
        ------
        sudare.errors.RefusedError
            If the job failed or was cancelled.
        sudare.errors.UnreachableError
            If the service is unreachable for minutes, or for a reason that lasts.
        """
        report = callback_of_parts(progress, "computing")
        patience = self._client._patience()
        while not self._is_final:
            try:
                for state in self._client._events(self.id):
                    self._state, patience = state, self._client._patience()
                    if report is not None and state["progress"]["total"]:
                        report(state["progress"]["done"], state["progress"]["total"])
                if not self._is_final and not self.refresh()._is_final:
                    patience.wait(errors.UnreachableError("the service closed the stream of events: call wait() again"))
            except httpx.TransportError as error:
                patience.wait(error)
        self._expect_done()
        return self

    def cancel(self) -> Job:
        """Cancels the job, unless it has ended, and returns the same job."""
        self._state = self._client._job("DELETE", self.id)
        return self

    def result(
        self, path: _File, *, overwrite: bool = False, progress: PartsProgress = None
    ) -> Path:
        """Waits for the result, and writes it to a file, whole or not at all.

        The client checks the receipt first, and writes it next to the result, as `NAME.receipt`.

        Parameters
        ----------
        path : path
            The file.
        overwrite : bool, default False
            Whether the file and the receipt may exist.
        progress : callable or bool, optional
            As for `wait`.

        Returns
        -------
        pathlib.Path
            The file.

        Raises
        ------
        sudare.errors.ExistsError
            If the file or the receipt exists, without `overwrite`.
        sudare.errors.RefusedError
            If the job failed or was cancelled.
        sudare.errors.WrongFileError
            If the receipt is from another server, or for another computation.
        """
        path, overwrite = path_of(path), flag(overwrite, "overwrite")
        beside = path.with_name(f"{path.name}.receipt")
        for taken in () if overwrite else (path, beside):
            if os.path.lexists(taken):
                raise errors.ExistsError(
                    f"{taken} exists: choose another name, or pass overwrite=True to replace it"
                )
        receipt = self.wait(progress)._receipt()
        if overwrite:
            # A receipt of another result must not stay beside the new one.
            beside.unlink(missing_ok=True)
        path = self._client._download(self._state["result"], path, overwrite)
        if receipt is not None:
            with _written_file(beside, overwrite) as file:
                file.write(receipt.encode())
        return path

    def receipt(self) -> dict[str, Any]:
        """Returns the receipt of the result, after checking the signature of the server.

        Returns
        -------
        dict
            Digests of `keys`, `tables`, `model` and `result` (BLAKE3 of the files), the `job`, its `kind`,
            `iterations` and `history`, `program` (version), times and the `server_key`.

        Raises
        ------
        sudare.errors.WrongFileError
            If the receipt is from another server, or for another computation, or missing.
        """
        text = self.wait()._receipt()
        if text is None:
            raise errors.of_kind("ReceiptMissing", f"the server has no receipt of job {self.id}: ask its operator")
        return read_receipt(text, self._client._server_key)

    def _receipt(self) -> str | None:
        """Returns the text of the checked receipt, if the server has one."""
        pinned = self._client._server_key
        answer = self._client._answer("GET", f"/v1/jobs/{self.id}/receipt")
        if answer.status == 404:
            if pinned is not None:
                raise errors.of_kind("ReceiptMissing", f"the server has no receipt of job {self.id}: ask its operator")
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
                raise errors.of_kind(
                    "ReceiptDiffers",
                    f"the receipt has {name} {said.get(name)} instead of {expected}: the server computed "
                    "something else; do not use the result"
                )
        if pinned is None:
            warnings.warn(
                f"the receipt is signed with the key {said['server_key']}, which you have not confirmed: ask the "
                "operator of the server whether it is right, over another channel, and pass it as server_key",
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
            raise errors.RefusedError(f"job {self.id} is {self.state}: it has no result", "Usage")


class Client:
    """A client of a service, with its token.

    Parameters
    ----------
    url : str
        The address of the service: `https://…`, or `http://…` on this machine.
    token : str
        The token from `sudare serve token add`.
    server_key : str, optional
        The key with which the server signs receipts, of 64 hexadecimal digits. The operator tells it over
        another channel (`sudare serve key`). Results without a receipt of this key are refused. Without it, a
        `SecurityWarning` shows the key that signed.
    verify : bool or str, default True
        Whether public authorities must certify the server, or the file of another authority's certificate,
        or of the certificate that the server made for itself (`sudare serve --tls-self-signed`).

    Notes
    -----
    A wrong address, certificate or token is an error at once. The client tries again for two minutes where
    the reason may pass by itself, and says so through the logger `sudare.client`.
    """

    def __init__(
        self, url: str, token: str, *, server_key: str | None = None, verify: bool | str = True
    ) -> None:
        url, token = string(url, "url"), _checked_token(token)
        try:
            address = httpx.URL(url)
        except (httpx.InvalidURL, ValueError):
            # The message does not repeat the address, which may have a password.
            raise errors.ArgumentError(
                "url is not an address: pass one such as https://server.example"
            ) from None
        if address.userinfo:
            # The message does not repeat the password.
            raise errors.ArgumentError(
                f"url is {address.scheme}://…@{address.host}: leave out the name and the password, because a "
                "service accepts only tokens"
            )
        if address.scheme == "http" and address.host not in {"127.0.0.1", "localhost", "::1"}:
            raise errors.ArgumentError(
                f"url is {url}: the token would travel in clear: use https, or a tunnel to this machine"
            )
        if address.scheme not in {"http", "https"}:
            raise errors.ArgumentError(f"url is {shown(url)}: pass an address such as https://server.example")
        pinned = optional(string, server_key, "server_key")
        self._server_key = None if pinned is None else read_server_key(pinned)
        is_path = isinstance(verify, str | os.PathLike)
        verify = str(path_of(verify, "verify")) if is_path else flag(verify, "verify")
        self._authority = verify if isinstance(verify, str) else None
        self._is_known = False
        try:
            self._http = _connections(url, address, token, verify)
        except OSError as error:
            kind = "NoFile" if isinstance(error, FileNotFoundError) else "Read"
            raise errors.of_kind(
                kind, f"verify is {shown(verify)}: {error}: pass the file of an authority's certificate"
            ) from None

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
        """Closes the connections."""
        self._http.close()

    def upload(
        self,
        path: _File,
        collection: str,
        progress: PartsProgress = None,
        *,
        plain_model: bool = False,
    ) -> str:
        """Uploads a file, unless the service has it.

        Parameters
        ----------
        path : path
            Evaluation keys, an encrypted table or a model. Other files are refused before a connection is
            opened.
        collection : {"keys", "tables", "models"}
            The kind of the file.
        progress : callable or bool, optional
            Called as `progress(sent, total)`, in bytes. `True` shows bars of tqdm, or text.
        plain_model : bool, default False
            Whether a model in clear may be sent: the server sees its weights.

        Returns
        -------
        str
            The digest, by which the service names the file.

        Raises
        ------
        sudare.errors.ArgumentError
            If the file is not of the collection, and for a secret key whatever the collection.
        """
        said = flag(plain_model, "plain_model")
        return self._send(Outgoing(path_of(path), string(collection, "collection"), said), progress)

    def _send(self, file: Outgoing, progress: PartsProgress = None) -> str:
        """Uploads a checked file, unless the service has it."""
        report = callback_of_parts(progress, f"uploading to {file.collection}")
        collection, size, digest = file.collection, file.size, file.digest()
        offset, patience = size, self._patience()
        known = self._answer("GET", f"/v1/{collection}/{digest}")
        if known.status == 404:
            place, offset = self._begin(collection, digest, size)
        else:
            _expect_success(known)
        while offset < size:
            if report is not None:
                report(offset, size)
            sent = self._append(place, offset, file.part(offset, _CHUNK_BYTES))
            if isinstance(sent, int) and sent > offset:
                offset, patience = sent, self._patience()
            elif isinstance(sent, int):
                # Otherwise the client would repeat the part forever.
                patience.wait(errors.RefusedError("the server has taken nothing of an upload: try again later", "Http"))
            else:
                patience.wait(sent)
                place, offset = self._begin(collection, digest, size)
        if report is not None:
            report(size, size)
        return digest

    def stats(self, keys: _File, table: _File, *, progress: PartsProgress = None) -> Job:
        """Starts statistics of the columns of an encrypted table.

        `progress` is as for `upload`.
        """
        return self._compute("stats", keys, [table], progress)

    def groups(self, keys: _File, table: _File, *, progress: PartsProgress = None) -> Job:
        """Starts sums of columns by groups of rows.

        `progress` is as for `upload`.
        """
        return self._compute("groups", keys, [table], progress)

    def histogram(self, keys: _File, table: _File, *, progress: PartsProgress = None) -> Job:
        """Starts counts of the values of columns in bins.

        `progress` is as for `upload`.
        """
        return self._compute("histogram", keys, [table], progress)

    def train(
        self,
        keys: _File,
        table: _File | Sequence[_File],
        *,
        iterations: int | None = None,
        history: bool = False,
        progress: PartsProgress = None,
    ) -> Job:
        """Starts a logistic regression on an encrypted table, or on the tables of several owners.

        Parameters
        ----------
        keys : path
            The file of evaluation keys.
        table : path or sequence of path
            The file of an encrypted table, or several.
        iterations : int, optional
            The number of iterations; by default the maximum of the keys.
        history : bool, default False
            Whether the result has the weights after each iteration.
        progress : callable or bool, optional
            As for `upload`.
        """
        single = isinstance(table, str | os.PathLike)
        needed = "the path of a table, or a list of them"
        tables: list[Any] = [table] if single else items(table, "table", needed)
        return self._compute(
            "train",
            keys,
            tables,
            progress,
            iterations=optional(whole, iterations, "iterations"),
            history=flag(history, "history"),
        )

    def predict(
        self,
        keys: _File,
        rows: _File,
        model: _File | Job,
        *,
        plain_model: bool = False,
        progress: PartsProgress = None,
    ) -> Job:
        """Starts scores of encrypted rows by a model.

        Parameters
        ----------
        keys : path
            The file of evaluation keys.
        rows : path
            The file of encrypted rows.
        model : path or Job
            The file of a model, or the job of a training that left a model at the service.
        plain_model : bool, default False
            Whether a model in clear may be sent: the server sees its weights.
        progress : callable or bool, optional
            As for `upload`.
        """
        by: str | Outgoing
        if isinstance(model, Job):
            by = str(model.wait(progress)._state["result"])
        else:
            by = Outgoing(path_of(model, "model"), "models", flag(plain_model, "plain_model"))
        return self._compute("predict", keys, [rows], progress, model=by)

    def usage(self) -> dict[str, Any]:
        """Returns the usage of the service and its limits: `bytes`, `jobs`, `requests`, `cpu_seconds`."""
        usage: dict[str, Any] = self._json("GET", "/v1/usage")
        return usage

    def job(self, id: str) -> Job:
        """Returns the job with this name."""
        return Job(self, self._job("GET", id))

    def jobs(self) -> list[Job]:
        """Returns all jobs, the newest first."""
        states = self._json("GET", "/v1/jobs")
        if not isinstance(states, list):
            raise errors.RefusedError("the response is not a list of jobs", "Http")
        return [Job(self, _checked_job(state)) for state in states]

    def _job(self, method: str, id: str) -> dict[str, Any]:
        """Requests the state of a job."""
        if not _NAME.fullmatch(string(id, "id")):
            raise errors.ArgumentError(f"id is {shown(id)}: pass the name of a job")
        return _checked_job(self._json(method, f"/v1/jobs/{id}"))

    def _compute(
        self, kind: str, keys: _File, tables: Sequence[_File], progress: PartsProgress, **more: Any
    ) -> Job:
        # The client checks all files before it sends the first.
        files = [
            Outgoing(path_of(keys, "keys"), "keys", False),
            *(Outgoing(path_of(table, "table"), "tables", False) for table in tables),
        ]
        digests = [self._send(file, progress) for file in files]
        request = {"kind": kind, "keys": digests[0], "tables": digests[1:]}
        for name, value in more.items():
            if value is not None:
                is_file = isinstance(value, Outgoing)
                request[name] = self._send(value, progress) if is_file else value
        # The same request has the same name in any process, so the service finds its job.
        name = blake3.blake3(json.dumps(request, sort_keys=True).encode()).hexdigest()
        attempt = 0
        while True:
            headers = {"idempotency-key": f"{name}-{attempt}"}
            state = _checked_job(self._json("POST", "/v1/jobs", headers=headers, json=request))
            # The same request is the same job, unless that job failed or its result is gone.
            result = state["result"]
            if result is not None:
                is_of_use = self._answer("HEAD", f"/v1/results/{result}").is_success
            else:
                is_of_use = state["state"] in {"queued", "running"}
            if is_of_use:
                return Job(self, state, request)
            attempt += 1

    def _begin(self, collection: str, digest: str, size: int) -> tuple[str, int]:
        """Begins an upload, or finds its offset."""
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
                f"the server redirects the upload to {place!r} from byte {offset}, which is not an upload of its "
                "own: do not use this server",
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

    def _download(self, digest: str, path: Path, overwrite: bool) -> Path:
        hasher, patience = blake3.blake3(), self._patience()
        with _written_file(path, overwrite) as file:
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
                            # A server could send without an end and fill the disk.
                            if file.tell() + len(block) > total:
                                raise errors.RefusedError(
                                    f"the result is longer than the {total} bytes that the server announced: call again",
                                    "Http",
                                )
                            hasher.update(block)
                            file.write(block)
                            patience = self._patience()
                    if file.tell() < total:
                        patience.wait(errors.UnreachableError("the connection broke: call again to continue"))
                except httpx.TransportError as error:
                    patience.wait(error)
            if hasher.hexdigest() != digest:
                raise errors.of_kind("OtherFile", f"the download to {path} has another digest than the service announced: call again")
        return path

    def _events(self, id: str) -> Iterator[dict[str, Any]]:
        """Yields the job after each change, until the job or the connection ends."""
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
        """Sends a request, and repeats it after failures that pass."""
        patience = self._patience()
        while True:
            try:
                with self._notice():
                    answer = self._ask(method, path, **more)
            except httpx.TransportError as error:
                patience.wait(error)
                continue
            if not answer.is_passing:
                self._is_known = True
                return answer
            patience.wait(_refusal(answer))

    def _patience(self) -> _Patience:
        return _Patience(self)

    @contextlib.contextmanager
    def _notice(self) -> Iterator[None]:
        """Says after a moment that the service has not responded, the first time that it is asked."""
        if self._is_known:
            yield
            return
        # A firewall may drop the packets to a wrong port, so the first attempt may last long.
        text = "%s has not responded yet: check host and port; still waiting"
        timer = threading.Timer(_NOTICE, _LOG.warning, [text, self._http.base_url])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _reason(self, error: httpx.TransportError) -> tuple[str, bool]:
        """Returns the reason of a failed request in plain words, and whether it lasts."""
        cause = _cause(error)
        if isinstance(cause, ssl.SSLCertVerificationError):
            return self._certificate_problem(cause), True
        # A service that has responded may restart, and its proxy may break a connection.
        lasts = not self._is_known
        if isinstance(cause, ConnectionRefusedError):
            return "nothing listens there: check host and port, and that the server runs", lasts
        if isinstance(cause, socket.gaierror):
            return "no such host is known: check the name, and the network of this machine", lasts
        if isinstance(cause, ssl.SSLError) and cause.reason in {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"}:
            return (
                "its port does not speak TLS: check the port; `sudare serve` speaks TLS with --tls-cert, and "
                "without it use http:// on the machine of the server",
                lasts,
            )
        # The end of a connection is an SSLError, too, and may pass.
        if isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError):
            return f"TLS fails: {cause}", lasts
        text = str(error) or type(error).__name__
        if lasts and isinstance(error, httpx.RemoteProtocolError | httpx.ReadError):
            is_answer = "illegal" in text
            if is_answer:
                text = f"its response is not HTTP ({text}): check the address"
            # Some servers send an alert of TLS, and some close the connection, as failing ones do.
            if self._http.base_url.scheme == "http":
                text += "; if its port speaks TLS, use https://"
            return text, is_answer
        return text, False

    def _certificate_problem(self, error: ssl.SSLCertVerificationError) -> str:
        if error.verify_code in _EXPIRED:
            return (
                "its certificate has expired: its operator must renew it; check the clock of this machine, too"
            )
        if error.verify_code in _NOT_YET:
            return "its certificate is not valid yet: check the clocks of both machines"
        if error.verify_code in _OTHER_NAMES:
            return (
                f"its certificate is for other names ({error.verify_message}): use one of them in the address, "
                "or have its operator add this one"
            )
        if self._authority is None:
            return (
                "no public authority signed its certificate: ask its operator for the certificate of its "
                f"authority, and pass the file as verify ({error.verify_message})"
            )
        return (
            f"{self._authority} did not sign its certificate: pass the certificate of its authority, or its own "
            f"if it is self-signed ({error.verify_message})"
        )

    def _ask(self, method: str, path: str, **more: Any) -> _Answer:
        """Sends a request once."""
        with self._http.stream(method, path, **more) as got:
            return _Answer(got)


def _connections(url: str, address: httpx.URL, token: str, verify: bool | str) -> httpx.Client:
    """Makes the connections to a service."""
    trust = ssl.create_default_context(cafile=verify) if isinstance(verify, str) else verify
    # A proxy of the environment would see a token that goes to this machine in clear.
    transport = httpx.HTTPTransport(verify=trust) if _is_loopback(address.host) else None
    return httpx.Client(
        base_url=url.rstrip("/"),
        # Responses are read raw, so the server must not compress them.
        headers={"authorization": f"Bearer {token}", "accept-encoding": "identity"},
        timeout=httpx.Timeout(90.0, connect=20.0),
        verify=trust,
        transport=transport,
    )


class _Answer:
    """A response, read whole up to a maximum size."""

    def __init__(self, got: httpx.Response) -> None:
        self.url = got.url
        self.status = got.status_code
        self.is_success = got.is_success
        self.headers = got.headers
        body = bytearray()
        for block in got.iter_raw():
            body += block
            # A server could send without an end.
            if len(body) > _MOST_ANSWER_BYTES:
                raise errors.RefusedError(
                    f"{self.url} responds with more than {_MOST_ANSWER_BYTES} bytes", "Http"
                )
        self.body = bytes(body)

    @property
    def text(self) -> str:
        """The body as text."""
        try:
            return self.body.decode()
        except UnicodeDecodeError as error:
            raise errors.RefusedError(f"{self.url} responds with bytes that are not text", "Http") from error

    @property
    def is_passing(self) -> bool:
        """True for a failure that passes soon."""
        if self.status == 429:
            seconds = self.headers.get("retry-after", "")
            return re.fullmatch("[0-9]{1,9}", seconds) is not None and int(seconds) <= _LONGEST_PAUSE
        return self.status in _PASSING


class _Patience:
    """Growing pauses, up to a maximum time."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._since = time.monotonic()
        self._pause = 0.2
        self._is_noticed = False

    def wait(self, error: Exception) -> None:
        """Pauses before the next attempt. Raises the error if it lasts, or after too long."""
        url, problem, waited = self._client._http.base_url, str(error), time.monotonic() - self._since
        if isinstance(error, httpx.TransportError):
            problem, lasts = self._client._reason(error)
            if lasts:
                raise errors.of_kind("NoConnection", f"cannot connect to {url}: {problem}") from error
        if waited > _PATIENCE:
            if isinstance(error, httpx.TransportError):
                raise errors.UnreachableError(f"cannot reach {url}: {problem}; call again to continue") from error
            raise error
        if not self._is_noticed and waited + self._pause >= _NOTICE:
            self._is_noticed = True
            _LOG.warning("cannot reach %s: %s; trying again for up to %.0f s", url, problem, _PATIENCE - waited)
        time.sleep(self._pause)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)


def _cause(error: BaseException) -> BaseException:
    """Returns the first exception behind an error of httpx."""
    while (before := error.__cause__ or error.__context__) is not None:
        error = before
    return error


@contextlib.contextmanager
def _written_file(path: Path, overwrite: bool) -> Iterator[BinaryIO]:
    """Writes a file, whole or not at all."""
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    try:
        with open(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if overwrite:
            os.replace(temporary, path)
        else:
            # This fails if the name was taken meanwhile.
            os.link(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)


def _refusal(answer: _Answer) -> errors.RefusedError:
    try:
        problem = json.loads(answer.body)
        return errors.RefusedError(str(problem["detail"]), str(problem["kind"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        detail = f"{answer.url} responds with status {answer.status} and no reason"
        return errors.RefusedError(detail, "Http")


def _expect_success(answer: _Answer) -> _Answer:
    if answer.is_success:
        return answer
    raise _refusal(answer)


def _parsed(text: bytes) -> Any:
    try:
        return json.loads(text)
    # Deeply nested JSON ends in a RecursionError.
    except (ValueError, RecursionError) as error:
        raise errors.RefusedError(f"the response is not JSON: {error}", "Http") from error


def _checked_job(state: Any) -> dict[str, Any]:
    """Checks the state of a job from the service."""
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
        raise errors.RefusedError("the response is not a job", "Http")
    checked: dict[str, Any] = state
    return checked


def _offset(answer: _Answer) -> int:
    """Returns the bytes of an upload that the service has."""
    text = answer.headers.get("upload-offset", "")
    if not re.fullmatch("[0-9]{1,19}", text):
        raise errors.RefusedError("the response has no offset of the upload", "Http")
    return int(text)


def _total(got: httpx.Response, first: int, before: int | None) -> int:
    """Returns the size of a result, from a response with the part from `first`."""
    found = re.fullmatch("bytes ([0-9]{1,19})-[0-9]{1,19}/([0-9]{1,19})", got.headers.get("content-range", ""))
    if found is None or int(found[1]) != first or before not in {None, int(found[2])}:
        raise errors.RefusedError(
            "the server, or a proxy on the way, does not send the requested part of the result", "Http"
        )
    return int(found[2])


def _lines(got: httpx.Response) -> Iterator[bytes]:
    """Yields the lines of a stream of events."""
    rest = b""
    for block in got.iter_raw():
        *lines, rest = (rest + block).split(b"\n")
        yield from lines
        if len(rest) > _MOST_EVENT_BYTES:
            raise errors.RefusedError(
                f"the server sent an event of more than {_MOST_EVENT_BYTES} bytes", "Http"
            )


def _checked_token(given: object) -> str:
    """Returns the token, if a header can carry it. Messages never repeat it."""
    token = given.strip() if isinstance(given, str) else ""
    if not re.fullmatch("[!-~]+", token):
        raise errors.ArgumentError(
            "the token is empty, or has blanks or other characters that tokens do not have: pass the line "
            "that `sudare serve token add` printed"
        )
    return token


def _is_loopback(host: str) -> bool:
    """Returns whether a host is this machine, which needs no proxy."""
    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
