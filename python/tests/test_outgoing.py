"""Bytes that leave a client, and responses of a hostile server or proxy."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import sudare
from sudare import client as client_module
from sudare import errors
from sudare.client import Client

TOKEN = "sudare_0123456789abcdef_secret"
COMMAND = [sys.executable, "-m", "sudare"]
LBW = Path(__file__).parents[2] / "crates/table/data/lbw.csv"
JOB: dict[str, Any] = {
    "id": "ab",
    "state": "done",
    "request": {},
    "progress": {"done": 1, "total": 1},
    "predicted": {"seconds": 1.0, "memory_bytes": 1},
    "error": None,
    "result": "0" * 64,
}


def run(folder: Path, line: str, **more: Any) -> None:
    subprocess.run([*COMMAND, *line.split()], cwd=folder, capture_output=True, check=True, **more)


class Listener:
    """A server that stores all requests. `answer` makes its responses."""

    def __init__(self, answer: Callable[[str, str], tuple[int, dict[str, str], bytes]] | None = None) -> None:
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        keep = self.requests

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                keep.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                status, headers, text = refusing if answer is None else answer(self.command, self.path)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                if "transfer-encoding" not in headers and "content-length" not in headers:
                    self.send_header("content-length", str(len(text)))
                self.end_headers()
                if self.command != "HEAD":
                    with contextlib.suppress(OSError):
                        self.wfile.write(text)

            do_GET = do_HEAD = do_POST = do_PATCH = do_PUT = do_DELETE = do_CONNECT = answer

        refusing: tuple[int, dict[str, str], bytes] = (403, {}, json.dumps({"kind": "Test", "detail": "not here"}).encode())
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self._server.server_port}"
        self.url = f"http://{self.host}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "_PATIENCE", 0.0)
    for name in ["http_proxy", "https_proxy", "all_proxy", "no_proxy"]:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of every kind."""
    at = tmp_path_factory.mktemp("outgoing")
    run(at, "keygen --params auto --for train:189x9 --iterations 2 --predict --out keys")
    run(at, f"encrypt --public keys/public.key --data {LBW} --target y -o table.ct")
    run(at, "train --evaluation-key keys/evaluation.key -i table.ct -o model.ct")
    run(at, "decrypt --secret keys/secret.key -i model.ct -o model.json")
    run(at, "keygen --params auto --for stats:9x2 --out stats")
    (at / "t.csv").write_text("a,b\n1,2\n3,4\n5,6\n")
    run(at, "encrypt --public stats/public.key --data t.csv -o stats.ct")
    run(at, "stats --evaluation-key stats/evaluation.key -i stats.ct -o statistics.ct")
    run(at, "decrypt --secret stats/secret.key -i statistics.ct -o statistics.json")
    context = sudare.Context(depth=1)
    context.keys.secret.save(at / "array.key")
    context.keys.secret.save(at / "sealed.key", passphrase="six random words")
    context.keys.evaluation.save(at / "array-evaluation.key")
    context.encrypt(np.array([0.5])).save(at / "array.ct")
    schemes: list[Literal["bgv", "bfv"]] = ["bgv", "bfv"]
    for scheme in schemes:
        exact = sudare.IntegerContext(65537, 1, scheme=scheme)
        exact.keys.secret.save(at / f"{scheme}.key")
        exact.keys.secret.save(at / f"{scheme}-sealed.key", passphrase="six random words")
        exact.keys.evaluation.save(at / f"{scheme}-evaluation.key")
        exact.encrypt(np.array([1, 2])).save(at / f"{scheme}.ct")
    np.save(at / "t.npy", np.eye(3))
    (at / "t.parquet").write_bytes(b"PAR1" + bytes(100) + b"PAR1")
    (at / "notes.txt").write_text("remember the milk")
    (at / "empty").write_bytes(b"")
    (at / "bytes").write_bytes(bytes(range(256)) * 9)
    (at / "cut.key").write_bytes((at / "keys/evaluation.key").read_bytes()[:1000])
    return at


SECRET = [
    *("keys/secret.key", "stats/secret.key", "array.key", "sealed.key"),
    *("bgv.key", "bfv.key", "bgv-sealed.key", "bfv-sealed.key"),
]
OTHERS = [
    *("keys/public.key", "array.ct", "array-evaluation.key", "statistics.ct", "statistics.json"),
    *("bgv-evaluation.key", "bfv-evaluation.key", "bgv.ct", "bfv.ct"),
    *("t.csv", "t.npy", "t.parquet", "notes.txt", "empty", "bytes", "cut.key"),
]
RIGHT = {"keys": "keys/evaluation.key", "tables": "table.ct", "models": "model.ct"}

Call = Callable[[Client, Path, Path], object]
KEYS, TABLE, MODEL = RIGHT.values()
CALLS: dict[str, tuple[str, Call]] = {
    "upload keys": ("keys", lambda c, at, file: c.upload(file, "keys")),
    "upload tables": ("tables", lambda c, at, file: c.upload(file, "tables")),
    "upload models": ("models", lambda c, at, file: c.upload(file, "models")),
    "upload a plain model": ("models", lambda c, at, file: c.upload(file, "models", plain_model=True)),
    "stats by keys": ("keys", lambda c, at, file: c.stats(file, at / TABLE)),
    "stats of a table": ("tables", lambda c, at, file: c.stats(at / KEYS, file)),
    "groups by keys": ("keys", lambda c, at, file: c.groups(file, at / TABLE)),
    "groups of a table": ("tables", lambda c, at, file: c.groups(at / KEYS, file)),
    "histogram by keys": ("keys", lambda c, at, file: c.histogram(file, at / TABLE)),
    "histogram of a table": ("tables", lambda c, at, file: c.histogram(at / KEYS, file)),
    "train by keys": ("keys", lambda c, at, file: c.train(file, at / TABLE)),
    "train on a table": ("tables", lambda c, at, file: c.train(at / KEYS, file)),
    "train on the second table": ("tables", lambda c, at, file: c.train(at / KEYS, [at / TABLE, file])),
    "predict by keys": ("keys", lambda c, at, file: c.predict(file, at / TABLE, at / MODEL)),
    "predict of rows": ("tables", lambda c, at, file: c.predict(at / KEYS, file, at / MODEL)),
    "predict with a model": ("models", lambda c, at, file: c.predict(at / KEYS, at / TABLE, file)),
    "predict with a plain model": (
        "models",
        lambda c, at, file: c.predict(at / KEYS, at / TABLE, file, plain_model=True),
    ),
}


@pytest.mark.parametrize("call", CALLS)
def test_no_byte_of_a_wrong_file_leaves(folder: Path, call: str) -> None:
    collection, send = CALLS[call]
    plain = "plain" in call
    wrong = [*SECRET, *OTHERS, *(name for of, name in RIGHT.items() if of != collection)]
    if not plain:
        wrong.append("model.json")
    with Listener() as listener, Client(listener.url, TOKEN) as client:
        for name in wrong:
            with pytest.raises((errors.Error, ValueError)) as refused:
                send(client, folder, folder / name)
            assert not isinstance(refused.value, errors.RefusedError), name
            if name in SECRET:
                assert "secret key" in str(refused.value), name
            assert listener.requests == [], name
        # The client queries the service for the right file, for any response.
        right = "model.json" if plain else RIGHT[collection]
        with pytest.raises(errors.RefusedError):
            send(client, folder, folder / right)
        assert listener.requests != []


def test_a_model_in_clear_is_sent_where_that_is_said(folder: Path) -> None:
    with Listener() as listener, Client(listener.url, TOKEN) as client:
        with pytest.raises(errors.ArgumentError, match="plain_model=True"):
            client.upload(folder / "model.json", "models")
        with pytest.raises(errors.ArgumentError, match="not a collection"):
            client.upload(folder / "model.ct", "results")
        with pytest.raises(errors.MissingFileError):
            client.upload(folder / "never.ct", "models")
        assert listener.requests == []


VARIABLES = ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]


@pytest.mark.parametrize("variable", VARIABLES)
def test_no_proxy_sees_what_stays_on_this_machine(
    variable: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Listener() as proxy, Listener() as server:
        monkeypatch.setenv(variable, proxy.url)
        port = server.host.rpartition(":")[2]
        for host in ["127.0.0.1", "localhost"]:
            with Client(f"http://{host}:{port}", TOKEN) as client:
                with pytest.raises(errors.RefusedError, match="not here"):
                    client.usage()
                with pytest.raises(errors.RefusedError, match="not here"):
                    client.upload(folder / TABLE, "tables")
        assert proxy.requests == [] and len(server.requests) == 4
        with Client(f"https://127.0.0.1:{port}", TOKEN) as client, pytest.raises(errors.UnreachableError):
            client.usage()
        assert proxy.requests == []


@pytest.mark.parametrize("variable", ["https_proxy", "ALL_PROXY"])
def test_a_proxy_passes_on_tls_and_nothing_else(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Listener() as proxy:
        monkeypatch.setenv(variable, proxy.url)
        with Client("https://service.invalid", TOKEN) as client, pytest.raises(errors.UnreachableError):
            client.usage()
        assert [request[:2] for request in proxy.requests] == [("CONNECT", "service.invalid:443")]
        assert TOKEN not in str(proxy.requests)


@pytest.mark.parametrize(
    "place",
    [
        "http://{other}/v1/uploads/0",
        "//{other}/v1/uploads/0",
        "@{other}/v1/uploads/0",
        "/v1/uploads/../../x",
        "/v1/uploads/",
        "/v1/keys/0",
        "",
    ],
)
def test_uploads_stay_at_the_server(place: str, folder: Path) -> None:
    with Listener() as other:

        def answer(method: str, path: str) -> tuple[int, dict[str, str], bytes]:
            if method == "POST":
                location = place.format(other=other.host)
                return 201, {"location": location, "upload-offset": "0"}, b""
            return 404, {}, b""

        with Listener(answer) as server, Client(server.url, TOKEN) as client:
            with pytest.raises(errors.RefusedError, match="upload of its own"):
                client.upload(folder / TABLE, "tables")
            assert other.requests == []
            assert [method for method, *_ in server.requests] == ["GET", "POST"]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(status: int, folder: Path) -> None:
    with Listener() as other:

        def answer(method: str, path: str) -> tuple[int, dict[str, str], bytes]:
            return status, {"location": f"{other.url}{path}"}, b""

        with Listener(answer) as server, Client(server.url, TOKEN) as client:
            with pytest.raises(errors.RefusedError):
                client.usage()
            with pytest.raises(errors.RefusedError):
                client.jobs()
            with pytest.raises(errors.RefusedError):
                client.upload(folder / TABLE, "tables")
            assert other.requests == []


def endless(method: str, path: str) -> tuple[int, dict[str, str], bytes]:
    """A job whose events and result have no end."""
    chunks = b"100000\r\n" + b"x" * (1 << 20) + b"\r\n"
    if path.endswith("/events"):
        return 200, {"transfer-encoding": "chunked"}, b"5\r\ndata:\r\n" + 20 * chunks + b"0\r\n\r\n"
    if path.startswith("/v1/results/"):
        headers = {"transfer-encoding": "chunked", "content-range": "bytes 0-9/10"}
        return 206, headers, 20 * chunks + b"0\r\n\r\n"
    if path.endswith("/receipt"):
        return 404, {}, b"{}"
    if path == "/v1/usage":
        return 200, {"transfer-encoding": "chunked"}, 20 * chunks + b"0\r\n\r\n"
    state = "running" if path == "/v1/jobs/cd" else "done"
    return 200, {}, json.dumps({**JOB, "state": state, "id": path.rpartition("/")[2]}).encode()


def test_answers_without_an_end_are_refused(tmp_path: Path) -> None:
    with Listener(endless) as server, Client(server.url, TOKEN) as client:
        with pytest.raises(errors.RefusedError, match="event of more than"):
            client.job("cd").wait()
        with pytest.raises(errors.RefusedError, match="longer than the 10 bytes"):
            client.job("ab").result(tmp_path / "result.ct")
        with pytest.raises(errors.RefusedError, match="more than 16777216 bytes"):
            client.usage()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"\xff",
        b"[" * 100_000,
        json.dumps({**JOB, "id": "../x"}).encode(),
        json.dumps({**JOB, "result": "../../keys/0"}).encode(),
        json.dumps({**JOB, "error": "x"}).encode(),
        json.dumps({**JOB, "progress": None}).encode(),
    ],
)
def test_answers_that_are_not_jobs_are_typed(text: bytes, tmp_path: Path) -> None:
    with Listener(lambda *_: (200, {}, text)) as server, Client(server.url, TOKEN) as client:
        with pytest.raises(errors.RefusedError):
            client.job("ab").result(tmp_path / "result.ct")
        if text != b"[]":
            with pytest.raises(errors.RefusedError):
                client.jobs()


def test_a_server_that_takes_nothing_is_left(folder: Path) -> None:
    def answer(method: str, path: str) -> tuple[int, dict[str, str], bytes]:
        if method == "POST":
            return 201, {"location": "/v1/uploads/0", "upload-offset": "0"}, b""
        return (204, {"upload-offset": "0"}, b"") if method == "PATCH" else (404, {}, b"")

    with Listener(answer) as server, Client(server.url, TOKEN) as client:
        begun = time.monotonic()
        with pytest.raises(errors.RefusedError, match="taken nothing"):
            client.upload(folder / TABLE, "tables")
        assert time.monotonic() - begun < 30


def test_no_message_has_the_token() -> None:
    with Listener() as server, Client(server.url, TOKEN) as client:
        with pytest.raises(errors.RefusedError) as refused:
            client.usage()
        for text in [repr(client), str(client), repr(vars(client)), str(refused.value), repr(refused.value)]:
            assert TOKEN not in text
        assert server.host in repr(client)
    with Client("http://127.0.0.1:9", TOKEN) as client, pytest.raises(errors.UnreachableError) as gone:
        client.usage()
    assert TOKEN not in str(gone.value)
    for bad in ["", " ", f"{TOKEN}\nx: y", f"{TOKEN} {TOKEN}", f"{TOKEN}é"]:
        with pytest.raises(ValueError, match="the token is empty") as refusal:
            Client("http://127.0.0.1:9", bad)
        assert TOKEN not in str(refusal.value)
    with pytest.raises(ValueError, match="leave out the name") as url:
        Client("https://name:hunter2@service.example", TOKEN)
    assert "hunter2" not in str(url.value)
