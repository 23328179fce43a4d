"""Sends requests that schemathesis generates from the OpenAPI description of a running server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from conftest import Files
from described import completed
from desk import Desk
from service import Service

HERE = Path(__file__).parent
# Checks of schemathesis, and `is_problem` of hooks.py. The description lists every status, so an undocumented
# one is a failure.
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,"
    "response_headers_conformance,unsupported_method,allow_header_conformance,ignored_auth,is_problem"
)
# Requests for each operation in a round, about two thousand together.
EXAMPLES = 60
# Maximum memory of the server, for any requests.
MAX_BYTES = 256 << 20

# Number of responses by operation and status.
Answers = Counter[tuple[str, int]]


def round_of_answers(at: Path, description: Any, url: str, tokens: dict[str, str]) -> Answers:
    """Sends many requests, whose responses must pass all checks, and counts the responses."""
    answers = at / "answers.json"
    (at / "openapi.json").write_text(json.dumps(description))
    line = (
        f"run openapi.json --url {url} --checks {CHECKS} --max-examples {EXAMPLES} --continue-on-failure --no-color"
    )
    hooks = {"SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": str(HERE), "ANSWERS": str(answers)}
    done = subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", *line.split()],
        cwd=at,
        env={**os.environ, **tokens, **hooks},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return Counter({(operation, status): count for operation, status, count in json.loads(answers.read_text())})


def without_success(description: Any, answers: Answers) -> list[str]:
    """Lists the operations without a successful response."""
    return [
        operation
        for path, methods in description["paths"].items()
        for method, of in methods.items()
        if not any(
            answers[operation := f"{method.upper()} {path}", int(status)]
            for status in of["responses"]
            if int(status) < 400
        )
    ]


def test_responses_are_as_described(
    files: Files, tmp_path: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    answers: Answers = Counter()
    # Leases outlast a round, and no job runs on the server.
    with Service(tmp_path, "--jobs 0 --lease 3600 --tenant-requests 1000000") as service:
        tenant, worker = service.tenant("clinic"), service.worker("north")
        tokens = {"TENANT_TOKEN": tenant.token, "WORKER_TOKEN": worker.token}
        description: Any = {}
        while answers.total() < request.config.getoption("requests"):
            description = completed(tenant.get("/v1/openapi.json"), Desk(tenant, worker, files))
            answers += round_of_answers(tmp_path, description, service.url, tokens)
        assert tenant.ask("GET", "/readyz").text == "ready\n"
        peak = service.peak_bytes()
    statuses: Counter[int] = Counter()
    for (_, status), count in answers.items():
        statuses[status] += count
    with capsys.disabled():
        print(f"\n{answers.total()} answers, {peak >> 20} MiB: {dict(sorted(statuses.items()))}")
    assert max(statuses) < 500
    assert peak < MAX_BYTES
    assert "panicked" not in service.log.read_text()
    # Most requests pass tokens and limits, and each operation succeeds at least once.
    assert statuses[401] + statuses[429] < answers.total() // 2
    assert without_success(description, answers) == []
