"""Completes the description of a server with names, digests and bodies that exist on it.

With made-up values alone, requests would fail at the first check.
"""

from __future__ import annotations

import base64
import copy
import secrets
from dataclasses import dataclass, field
from typing import Any

from blake3 import blake3

from desk import Desk

Schema = dict[str, Any]

# Body of an upload, a state or a result, and its digest.
CONTENT = "made up"
DIGEST = blake3(CONTENT.encode()).hexdigest()
# Number of values that an operation gets if each request uses one up.
SEVERAL = 5


def optional(*values: str | int) -> Schema:
    """Limits a parameter to these values. The first is the example."""
    texts = [str(value) for value in values]
    return {"schema": {"enum": texts}, "example": texts[0]}


def required(*values: str | int) -> Schema:
    """Limits a parameter to these values, and requires it."""
    return {**optional(*values), "required": True}


@dataclass(frozen=True)
class Known:
    """Values for an operation: parameters, a body, and members of the body."""

    parameters: dict[str, Schema] = field(default_factory=dict)
    body: Any = None
    members: dict[str, Schema] = field(default_factory=dict)

    def fill(self, operation: Any, schemas: Any) -> None:
        parameters = {parameter["name"]: parameter for parameter in operation["parameters"]}
        for name, values in self.parameters.items():
            parameters[name].update(values)
        if self.body is not None:
            (content,) = operation["requestBody"]["content"].values()
            content["example"] = self.body
            if self.members:
                content["schema"] = copy.deepcopy(schemas[content["schema"]["$ref"].rpartition("/")[2]])
                content["schema"]["properties"].update(self.members)


def metadata(digest: str) -> str:
    return f"digest {base64.b64encode(digest.encode()).decode()}"


def leases(desk: Desk) -> dict[str, Schema]:
    """Returns parameters that name leases, each the first of its job."""
    found = [desk.lease() for _ in range(SEVERAL)]
    return {"name": optional(*[lease["job"] for lease in found]), "fence": optional(found[0]["fence"])}


def uploads(desk: Desk) -> dict[str, Schema]:
    """Returns a parameter that names uploads."""
    return {"name": optional(*[desk.upload() for _ in range(SEVERAL)])}


def begun() -> dict[str, Schema]:
    """Returns headers that begin uploads. One upload of a digest refuses the others, so each collection has its own."""
    return {
        "Tus-Resumable": required("1.0.0"),
        "Upload-Length": required(1 << 20),
        "Upload-Metadata": required(*[metadata(secrets.token_hex(32)) for _ in range(SEVERAL)]),
    }


def completed(description: Any, desk: Desk) -> Any:
    """Returns the description with values that exist."""
    for operation, known in all_known(desk).items():
        method, path = operation.split()
        known.fill(description["paths"][path][method], description["components"]["schemas"])
    return description


def all_known(desk: Desk) -> dict[str, Known]:
    """Returns values for the operations of a server."""
    done = optional(desk.done())
    lease = desk.lease()
    renewed, left, finished, training = [leases(desk) for _ in range(4)]
    # The path of a file is NAME/FENCE/files/EXPIRES/SIGNATURE/FILE.
    job, fence, _, *rest = lease["keys"]["path"].removeprefix("/v1/work/").split("/")
    address = {
        name: optional(value)
        for name, value in zip(("name", "fence", "expires", "signature", "file"), (job, fence, *rest), strict=True)
    }
    request = {
        "keys": optional(desk.used["keys"])["schema"],
        "tables": {"type": "array", "items": optional(desk.used["tables"])["schema"]},
        "model": optional(desk.used["models"])["schema"],
    }
    idempotency = {"Idempotency-Key": optional(*[secrets.token_hex() for _ in range(SEVERAL)])}
    offer = {"program": optional(desk.offer["program"])["schema"], "wait_seconds": {"const": 0}}
    report = {"done": 1, "total": 2, "cpu_milliseconds": 3}
    state = {"file": optional("iteration-000001.ct", "weights-000001.ct"), "digest": optional(DIGEST)}
    offset = {"Upload-Offset": required(0, len(CONTENT))}
    span = {"Range": optional("bytes=0-9", "bytes=9-", "bytes=-9")}
    work = "/v1/work/{name}/{fence}"
    collections = {
        f"{method} /v1/{collection}/{{digest}}": Known({"digest": optional(digest)})
        for method, digests in (("get", desk.used), ("delete", desk.unused))
        for collection, digest in digests.items()
    }
    return {
        **{f"post /v1/{collection}": Known(begun()) for collection in desk.used},
        **collections,
        "get /v1/results/{digest}": Known({"digest": optional(desk.result), **span}),
        "delete /v1/results/{digest}": Known({"digest": optional(desk.result)}),
        "post /v1/jobs": Known(idempotency, desk.request, request),
        "get /v1/jobs/{name}": Known({"name": optional(desk.waiting())}),
        "delete /v1/jobs/{name}": Known({"name": optional(desk.waiting())}),
        "get /v1/jobs/{name}/events": Known({"name": done, "Last-Event-ID": optional(0)}),
        "get /v1/jobs/{name}/receipt": Known({"name": done}),
        "head /v1/uploads/{name}": Known(uploads(desk)),
        "patch /v1/uploads/{name}": Known({**uploads(desk), **offset}, CONTENT),
        "post /v1/uploads/{name}": Known(
            {**uploads(desk), **offset, "X-HTTP-Method-Override": required("PATCH")}, CONTENT
        ),
        "delete /v1/uploads/{name}": Known(uploads(desk)),
        "post /v1/work/claim": Known(body=desk.offer, members=offer),
        f"post {work}/renew": Known(renewed, report),
        f"post {work}/leave": Known(left, "released"),
        f"put {work}/result/{{digest}}": Known({**finished, "digest": optional(DIGEST)}, CONTENT),
        f"put {work}/states/{{file}}/{{digest}}": Known({**training, **state}, CONTENT),
        f"get {work}/files/{{expires}}/{{signature}}/{{file}}": Known({**address, **span}),
    }
