"""Hooks of schemathesis: tokens, a check of error responses, and a count of responses by status."""

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
    """Sends the token of the worker below /v1/work, and of the tenant elsewhere."""

    def get(self, case: Case[Any], context: AuthContext) -> str:
        return os.environ["WORKER_TOKEN" if case.path.startswith("/v1/work/") else "TENANT_TOKEN"]

    def set(self, case: Case[Any], data: str, context: AuthContext) -> None:
        case.headers["Authorization"] = f"Bearer {data}"


schemathesis.auth(refresh_interval=None)(Token)
schemathesis.serializer.alias("application/offset+octet-stream", "application/octet-stream")


@schemathesis.hook
def filter_body(context: HookContext, body: Any) -> bool:
    # A claim would wait up to half a minute for a job.
    return not (isinstance(body, dict) and body.get("wait_seconds"))


@schemathesis.hook
def after_call(context: HookContext, case: Case[Any], response: Response) -> None:
    answers[f"{case.method} {case.path}", response.status_code] += 1


@schemathesis.check
def is_problem(context: CheckContext, response: Response, case: Case[Any]) -> None:
    """Checks that an error response has problem details with a kind."""
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
