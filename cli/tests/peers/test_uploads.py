"""Uploads files by foreign clients of tus, and runs jobs on these files."""

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

# Sends a file under a digest to a collection, and returns the first byte sent, which an earlier run left in a file
# of notes. The last argument is the number of bytes after which the client is stopped, if any.
Send = Callable[[Guest, str, Path, str, Path, int | None], int]


class Refused(Exception):
    """The error of a client whose upload the server refused."""


def by_tuspy(guest: Guest, collection: str, file: Path, digest: str, notes: Path, until: int | None) -> int:
    """Uploads by tuspy in this process, which abandons the upload at `until`."""
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
    """Uploads by tus-js-client in another process, which is killed at `until`."""
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
    """A new tenant for each test."""
    return service.tenant(f"owner-{next(NUMBERS)}")


def expect_object(tenant: Guest, collection: str, file: File) -> None:
    """Checks that the collection has this file alone."""
    (found,) = tenant.get(f"/v1/{collection}")
    assert (found["digest"], found["bytes"]) == (file.digest, file.bytes)


def computed(tenant: Guest, request: dict[str, Any]) -> bytes:
    """Returns the result of a new job."""
    asked = tenant.ask("POST", "/v1/jobs", json=request).json()
    job = tenant.until(asked["id"], lambda job: job["state"] not in ("queued", "running"))
    assert job["state"] == "done", job
    return tenant.ask("GET", f"/v1/results/{job['result']}").content


@CLIENTS
@pytest.mark.parametrize("cut", [False, True], ids=["whole", "cut"])
def test_jobs_on_uploaded_files_equal_the_command(
    send: Send, cut: bool, tenant: Guest, files: Files, tmp_path: Path
) -> None:
    for collection, file in (("keys", files.used["keys"]), ("tables", files.used["tables"])):
        to = (tenant, collection, file.path, file.digest, tmp_path / collection)
        if cut:
            send(*to, file.bytes // 2)
            assert tenant.get(f"/v1/{collection}") == []
        begun_at = send(*to, None)
        assert (0 < begun_at < file.bytes) if cut else begun_at == 0
        expect_object(tenant, collection, file)
    request = {"kind": "stats", "keys": files.used["keys"].digest, "tables": [files.used["tables"].digest]}
    assert computed(tenant, request) == files.result.path.read_bytes()


@CLIENTS
def test_other_bytes_than_declared_are_refused(send: Send, tenant: Guest, files: Files, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="DigestMismatch"):
        send(tenant, "tables", files.used["tables"].path, files.used["keys"].digest, tmp_path / "notes", None)
    assert tenant.get("/v1/tables") == []
