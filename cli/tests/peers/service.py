"""A server in a temporary directory, and the command."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import requests

SUDARE = Path(os.environ["SUDARE"])
# Seconds until a job is done or a server has ended, even on a busy machine.
MINUTES = 600


def sudare(folder: Path, line: str) -> str:
    """Runs the command in a directory and returns its output. Arguments are separated by blanks."""
    done = subprocess.run([SUDARE, *line.split()], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Service:
    """A running server. It gets SIGTERM at the end and must exit with status 0. `log` is its standard error."""

    def __init__(self, at: Path, options: str = "") -> None:
        self._at, self.log = at, at / "server.log"
        line = f"serve --json --listen 127.0.0.1:0 --folder store {options}"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [SUDARE, *line.split()], cwd=at, stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        assert said, self.log.read_text()
        self.url: str = json.loads(said)["listening"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        try:
            assert self.process.wait(MINUTES) == 0, self.log.read_text()
        finally:
            self.process.kill()

    def tenant(self, name: str) -> Guest:
        """Makes a token for a tenant."""
        return Guest(self.url, self._token("tenant", name))

    def worker(self, name: str) -> Guest:
        """Makes a token for a worker."""
        return Guest(self.url, self._token("worker", name))

    def _token(self, role: str, name: str) -> str:
        line = f"serve token add --folder store --{role} {name} --json"
        token: str = json.loads(sudare(self._at, line))["token"]
        return token

    def peak_bytes(self) -> int:
        """Returns the maximum resident memory of the server."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) << 10


class Guest:
    """A client with a token."""

    def __init__(self, url: str, token: str) -> None:
        self.url, self.token = url, token
        self._session = requests.Session()
        self._session.headers["Authorization"] = f"Bearer {token}"

    def ask(self, method: str, path: str, **options: Any) -> requests.Response:
        """Sends a request that must succeed."""
        answer = self._session.request(method, self.url + path, timeout=MINUTES, **options)
        assert answer.ok, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer

    def get(self, path: str) -> Any:
        """Returns the JSON of a response."""
        return self.ask("GET", path).json()

    def begin(self, collection: str, digest: str, length: int) -> tuple[str, int]:
        """Begins or resumes an upload by tus. Returns its name and its offset."""
        headers = {
            "Tus-Resumable": "1.0.0",
            "Upload-Length": str(length),
            "Upload-Metadata": f"digest {base64.b64encode(digest.encode()).decode()}",
        }
        begun = self.ask("POST", f"/v1/{collection}", headers=headers)
        return begun.headers["Location"].rpartition("/")[2], int(begun.headers["Upload-Offset"])

    def send(self, collection: str, digest: str, content: bytes) -> None:
        """Sends the bytes that the server lacks."""
        name, offset = self.begin(collection, digest, len(content))
        if offset < len(content):
            kind = "application/offset+octet-stream"
            headers = {"Tus-Resumable": "1.0.0", "Upload-Offset": str(offset), "Content-Type": kind}
            self.ask("PATCH", f"/v1/uploads/{name}", headers=headers, data=content[offset:])

    def until(self, job: str, wanted: Callable[[Any], bool]) -> Any:
        """Waits until `wanted` accepts the job."""
        end = time.monotonic() + MINUTES
        while not wanted(found := self.get(f"/v1/jobs/{job}")):
            assert time.monotonic() < end, found
            time.sleep(0.05)
        return found
