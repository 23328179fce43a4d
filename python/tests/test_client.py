"""Whole journeys from Python to a service and back."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import blake3
import pytest

from sudare import errors
from sudare.client import Client

LBW = Path(__file__).parents[2] / "crates/table/data/lbw.csv"
COMMAND = [sys.executable, "-m", "sudare"]


def run(folder: Path, line: str) -> str:
    done = subprocess.run([*COMMAND, *line.split()], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keys, a table and a model of a training."""
    at = tmp_path_factory.mktemp("service")
    run(at, "keygen --params auto --for train:189x9 --iterations 3 --predict --out keys")
    run(at, f"encrypt --public keys/public.key --data {LBW} --target y -o table.ct")
    run(at, f"encrypt --public keys/public.key --data {LBW} --target y --like {LBW} -o rows.ct")
    run(at, "train --evaluation-key keys/evaluation.key -i table.ct -o local.ct")
    return at


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[Client]:
    token = run(folder, "serve token add --folder store --tenant clinic").strip()
    line = "serve --folder store --listen 127.0.0.1:0 --json"
    with subprocess.Popen(
        [*COMMAND, *line.split()], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdout is not None
        url = json.loads(server.stdout.readline())["listening"]
        key = run(folder, "serve key --folder store").strip()
        with Client(url, token, server_key=key) as client:
            yield client
        server.terminate()
        assert server.wait(60) == 0


def test_results_are_those_of_the_command(client: Client, folder: Path, tmp_path: Path) -> None:
    steps: list[tuple[int, int]] = []
    training = client.train(folder / "keys/evaluation.key", folder / "table.ct")
    training.wait(progress=lambda done, total: steps.append((done, total)))
    assert training.state == "done" and steps[-1] == (3, 3) and training.seconds > 0
    model = training.result(tmp_path / "model.ct")
    assert model.read_bytes() == (folder / "local.ct").read_bytes()
    with pytest.raises(FileExistsError):
        training.result(model)
    # The same request returns the same job, also under its name.
    again = client.train(folder / "keys/evaluation.key", folder / "table.ct")
    assert again.id == training.id == client.job(training.id).id == client.jobs()[-1].id
    line = "predict --evaluation-key keys/evaluation.key --model local.ct -i rows.ct"
    run(folder, f"{line} -o {tmp_path}/local.ct")
    scores = client.predict(folder / "keys/evaluation.key", folder / "rows.ct", training)
    found = scores.result(tmp_path / "scores.ct")
    assert found.read_bytes() == (tmp_path / "local.ct").read_bytes()
    usage = client.usage()
    assert usage["cpu_seconds"]["total"] > 0 and usage["jobs"]["under_way"] == 0
    names = ["local.ct", "model.ct", "model.ct.receipt", "scores.ct", "scores.ct.receipt"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_receipts_are_those_of_the_pinned_server(client: Client, folder: Path, tmp_path: Path) -> None:
    files = (folder / "keys/evaluation.key", folder / "table.ct")
    job = client.train(*files)
    said = job.receipt()
    assert (said["job"], said["kind"], said["server_key"]) == (job.id, "train", client._server_key)
    result = job.result(tmp_path / "model.ct")
    assert said["result"] == blake3.blake3(result.read_bytes()).hexdigest()
    line = f"receipt check {result}.receipt --server-key {said['server_key']} --result {result}"
    assert "result" in run(folder, f"{line} --evaluation-key {files[0]} -i {files[1]}")
    # A receipt for another request, and of another server.
    url, token = str(client._http.base_url), client._http.headers["authorization"].removeprefix("Bearer ")
    with Client(url, token) as other:
        with pytest.warns(errors.SecurityWarning, match=str(client._server_key)):
            other.job(job.id).receipt()
        asked = other.train(*files)
        assert asked._request is not None
        asked._request["iterations"] = 2
        with pytest.raises(errors.WrongFileError, match="iterations"):
            asked.result(tmp_path / "never.ct")
    key = run(folder, "serve key --folder other").strip()
    with Client(url, token, server_key=key) as other:
        with pytest.raises(errors.WrongFileError):
            other.job(job.id).result(tmp_path / "never.ct")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.ct", "model.ct.receipt"]
    with pytest.raises(errors.ArgumentError, match="hexadecimal"):
        Client(url, token, server_key="00")


def test_uploads_go_on_where_they_were(client: Client, tmp_path: Path, folder: Path) -> None:
    digest = client.upload(folder / "table.ct", "tables")
    client._answer("DELETE", f"/v1/tables/{digest}")
    size = (folder / "table.ct").stat().st_size
    place, offset = client._begin("tables", digest, size)
    assert offset == 0
    part = (folder / "table.ct").read_bytes()[:100_000]
    assert client._append(place, 0, part) == len(part)
    assert isinstance(client._append(place, 7, part), errors.RefusedError)
    sent: list[int] = []
    assert client.upload(folder / "table.ct", "tables", lambda there, _: sent.append(there)) == digest
    assert sent[0] == len(part) and sent[-1] == size


def test_what_is_refused_is_typed(client: Client, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="secret key"):
        client.upload(folder / "keys/secret.key", "keys")
    with pytest.raises(errors.RefusedError, match="not a stats job") as refused:
        client.stats(folder / "keys/evaluation.key", folder / "table.ct")
    assert refused.value.kind == "Usage"
    with pytest.raises(errors.RefusedError) as refused:
        client.job("0123456789abcdef")
    assert refused.value.kind == "NotFound"
    cancelled = client.train(folder / "keys/evaluation.key", folder / "table.ct", iterations=2).cancel()
    if cancelled.state == "cancelled":
        with pytest.raises(errors.RefusedError, match="cancelled"):
            cancelled.result(tmp_path / "never.ct")
    with pytest.raises(ValueError, match="in clear"):
        Client("http://server.example", "token")
    with pytest.raises(errors.RefusedError, match="token"), Client(str(client._http.base_url), "x") as other:
        other.jobs()
