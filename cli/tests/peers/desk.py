"""A tenant and a worker of a server, and their objects, uploads and jobs there."""

from __future__ import annotations

import secrets
from typing import Any

from conftest import Files
from service import Guest


class Desk:
    """Uploads all files again, cancels older jobs, and starts jobs and uploads on request."""

    def __init__(self, tenant: Guest, worker: Guest, files: Files) -> None:
        self._tenant = tenant
        self._worker = worker
        self._result = files.result
        program = tenant.get("/v1/server-key")["program"]
        self.offer = {"program": program, "memory_bytes": 1 << 40, "wait_seconds": 0}
        for job in tenant.get("/v1/jobs"):
            if job["state"] in ("queued", "running"):
                tenant.ask("DELETE", f"/v1/jobs/{job['id']}")
        for owned in (files.used, files.unused):
            for collection, file in owned.items():
                tenant.send(collection, file.digest, file.path.read_bytes())
        # Digests by collection. Jobs use the former, so only the latter can be removed.
        self.used = {collection: file.digest for collection, file in files.used.items()}
        self.unused = {collection: file.digest for collection, file in files.unused.items()}
        self.result = files.result.digest
        self.request = {"kind": "stats", "keys": self.used["keys"], "tables": [self.used["tables"]]}

    def waiting(self) -> str:
        """Submits a job, which waits for a worker."""
        job: str = self._tenant.ask("POST", "/v1/jobs", json=self.request).json()["id"]
        return job

    def lease(self) -> Any:
        """Claims a new job. No older one may wait."""
        job = self.waiting()
        claimed = self._worker.ask("POST", "/v1/work/claim", json=self.offer).json()
        assert claimed["job"] == job, "another job waits"
        return claimed

    def done(self) -> str:
        """Completes a new job. No older one may wait."""
        lease = self.lease()
        path = f"/v1/work/{lease['job']}/{lease['fence']}/result/{self._result.digest}"
        self._worker.ask("PUT", path, data=self._result.path.read_bytes())
        job: str = lease["job"]
        return job

    def upload(self) -> str:
        """Begins an upload, without data."""
        return self._tenant.begin("models", secrets.token_hex(32), 1 << 20)[0]
