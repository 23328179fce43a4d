"""A tenant and a worker at a server, and what they have there."""

from __future__ import annotations

import secrets
from typing import Any

from conftest import Files
from service import Guest


class Desk:
    """What of everything is there, made anew; jobs of before are cancelled."""

    def __init__(self, tenant: Guest, worker: Guest, files: Files) -> None:
        self._tenant, self._worker, self._files = tenant, worker, files
        self.request = {"kind": "stats", "keys": files.keys.digest, "tables": [files.table.digest]}
        program = tenant.get("/v1/server-key")["program"]
        self.offer = {"program": program, "memory_bytes": 1 << 40, "wait_seconds": 0}
        for job in tenant.get("/v1/jobs"):
            if job["state"] in ("queued", "running"):
                tenant.ask("DELETE", f"/v1/jobs/{job['id']}")
        for collection, file in (("keys", files.keys), ("tables", files.table)):
            tenant.send(collection, file.digest, file.path.read_bytes())

    def waiting(self) -> str:
        """A job that waits for a worker."""
        job: str = self._tenant.ask("POST", "/v1/jobs", json=self.request).json()["id"]
        return job

    def lease(self) -> Any:
        """A job that the worker has claimed; before any waits."""
        job = self.waiting()
        claimed = self._worker.ask("POST", "/v1/work/claim", json=self.offer).json()
        assert claimed["job"] == job, "another job waits"
        return claimed

    def done(self) -> str:
        """A job that is done; before any waits."""
        lease, result = self.lease(), self._files.result
        path = f"/v1/work/{lease['job']}/{lease['fence']}/result/{result.digest}"
        self._worker.ask("PUT", path, data=result.path.read_bytes())
        job: str = lease["job"]
        return job

    def upload(self) -> str:
        """An upload of which nothing has come."""
        return self._tenant.begin("models", secrets.token_hex(32), 1 << 20)[0]

    def objects(self) -> list[str]:
        """Digests of keys, a table and a result."""
        return [file.digest for file in (self._files.keys, self._files.table, self._files.result)]
