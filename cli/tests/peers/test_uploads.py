"""Uploads by clients of tus that others wrote, and jobs on what they sent."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tusclient.client import TusClient
from tusclient.exceptions import TusUploadFailed
from tusclient.storage.filestorage import FileStorage

from conftest import File, Files
from service import Guest, Service

CHUNK_BYTES = 100_000
SCRIPT = Path(__file__).with_name("upload.mjs")
NUMBERS = itertools.count()

# Sends a file under a digest to a collection, and returns from which byte on: where a file of notes says that
# an earlier run was. The last argument is after how many bytes it is cut, if it is.
Send = Callable[[Guest, str, Path, str, Path, int | None], int]


class Refused(Exception):
    """What a client says of an upload that the server does not take."""


def by_tuspy(guest: Guest, collection: str, file: Path, digest: str, notes: Path, until: int | None) -> int:
    """By a client in this process, which is left lying where it is cut."""
    client = TusClient(f"{guest.url}/v1/{collection}", headers={"Authorization": f"Bearer {guest.token}"})
    uploader = client.uploader(
        str(file),
        chunk_size=CHUNK_BYTES,
        metadata={"digest": digest},
        store_url=True,
        url_storage=FileStorage(str(notes)),  # type: ignore[no-untyped-call]
    )
    begun_at: int = uploader.offset
    try:
        uploader.upload(stop_at=until)
    except TusUploadFailed as error:
        raise Refused(error.response_content) from error
    return begun_at


def by_tus_js(guest: Guest, collection: str, file: Path, digest: str, notes: Path, until: int | None) -> int:
    """By a client in a process of its own, which dies where it is cut."""
    line: list[str | Path] = ["node", SCRIPT, f"{guest.url}/v1/{collection}", file, digest, notes]
    cut = [] if until is None else [str(until)]
    environment = {**os.environ, "TOKEN": guest.token}
    done = subprocess.run([*line, *cut], env=environment, capture_output=True, text=True, check=False)
    if cut:
        assert done.returncode == -signal.SIGKILL, done.stderr
        return 0
    if done.returncode:
        raise Refused(done.stderr)
    return int(done.stdout)


CLIENTS = pytest.mark.parametrize("send", [by_tuspy, by_tus_js], ids=["tuspy", "tus-js-client"])


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("service")) as service:
        yield service


@pytest.fixture
def tenant(service: Service) -> Guest:
    """A tenant of one test, who has nothing yet."""
    return service.tenant(f"owner-{next(NUMBERS)}")


def expect_object(tenant: Guest, collection: str, file: File) -> None:
    """The server has this file, and no other of its kind."""
    (found,) = tenant.get(f"/v1/{collection}")
    assert (found["digest"], found["bytes"]) == (file.digest, file.bytes)


def computed(tenant: Guest, request: dict[str, Any]) -> bytes:
    """The result of a job."""
    asked = tenant.ask("POST", "/v1/jobs", json=request).json()
    job = tenant.until(asked["id"], lambda job: job["state"] not in ("queued", "running"))
    assert job["state"] == "done", job
    return tenant.ask("GET", f"/v1/results/{job['result']}").content


@CLIENTS
@pytest.mark.parametrize("cut", [False, True], ids=["whole", "cut"])
def test_jobs_on_what_was_sent_have_the_results_of_the_command(
    send: Send, cut: bool, tenant: Guest, files: Files, tmp_path: Path
) -> None:
    for collection, file in (("keys", files.keys), ("tables", files.table)):
        to = (tenant, collection, file.path, file.digest, tmp_path / collection)
        if cut:
            send(*to, file.bytes // 2)
            assert tenant.get(f"/v1/{collection}") == []
        begun_at = send(*to, None)
        assert (0 < begun_at < file.bytes) if cut else begun_at == 0
        expect_object(tenant, collection, file)
    request = {"kind": "stats", "keys": files.keys.digest, "tables": [files.table.digest]}
    assert computed(tenant, request) == files.result.path.read_bytes()


@CLIENTS
def test_what_was_not_declared_is_refused(send: Send, tenant: Guest, files: Files, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="DigestMismatch"):
        send(tenant, "tables", files.table.path, files.keys.digest, tmp_path / "notes", None)
    assert tenant.get("/v1/tables") == []
