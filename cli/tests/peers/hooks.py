"""What schemathesis takes from this project: tokens, a check of problems, and counts of what was answered."""

from __future__ import annotations

import atexit
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import schemathesis
from schemathesis import AuthContext, Case, CheckContext, HookContext, Response

answers: Counter[tuple[str, int]] = Counter()


class Token:
    """Below /v1/work that of a worker, elsewhere that of a tenant."""

    def get(self, case: Case[Any], context: AuthContext) -> str:
        return os.environ["WORKER_TOKEN" if case.path.startswith("/v1/work/") else "TENANT_TOKEN"]

    def set(self, case: Case[Any], data: str, context: AuthContext) -> None:
        case.headers["Authorization"] = f"Bearer {data}"


schemathesis.auth(refresh_interval=None)(Token)
schemathesis.serializer.alias("application/offset+octet-stream", "application/octet-stream")


@schemathesis.hook
def filter_body(context: HookContext, body: Any) -> bool:
    # A worker that waits for a job does so for half a minute.
    return not (isinstance(body, dict) and body.get("wait_seconds"))


@schemathesis.hook
def after_call(context: HookContext, case: Case[Any], response: Response) -> None:
    answers[f"{case.method} {case.path}", response.status_code] += 1


@schemathesis.check
def is_problem(context: CheckContext, response: Response, case: Case[Any]) -> None:
    """What is refused is said in problem details, with the word for it."""
    if response.status_code < 400:
        return
    assert response.headers.get("content-type") == ["application/problem+json"], response.headers
    if case.method != "HEAD":
        problem = response.json()
        assert problem["status"] == response.status_code and problem["kind"], problem


@atexit.register
def report() -> None:
    lines = [[operation, status, count] for (operation, status), count in answers.items()]
    Path(os.environ["ANSWERS"]).write_text(json.dumps(lines))
