"""What a server says of itself, with what that leaves open: headers, bodies, and names of what is there.

Without them, requests that are made up from it do not get past the first check.
"""

from __future__ import annotations

import base64
import secrets
from dataclasses import dataclass, field
from typing import Any

from blake3 import blake3

from desk import Desk

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "integer", "minimum": 0}
# The body of an upload, a state or a result, and its digest.
CONTENT = "made up"
DIGEST = blake3(CONTENT.encode()).hexdigest()
# How many there are of what requests use up.
SEVERAL = 5


def often(*values: str | int) -> Schema:
    """Values that a request has unless it is made up to be refused; the first is the example."""
    texts = [str(value) for value in values]
    return {"schema": {"enum": texts}, "example": texts[0]}


def always(*values: str | int) -> Schema:
    """The same of what is not left out, either."""
    return {**often(*values), "required": True}


def sent(example: Any, schema: Schema = TEXT, media_type: str = "application/json") -> Schema:
    """A body."""
    return {"content": {media_type: {"schema": schema, "example": example}}}


def members(example: dict[str, Any], **schemas: Schema) -> Schema:
    """A body that is an object, which needs the members of the example."""
    of = {"type": "object", "properties": schemas, "required": list(example), "additionalProperties": False}
    return sent(example, of)


@dataclass(frozen=True)
class Open:
    """What is left open of an operation."""

    path: dict[str, Schema] = field(default_factory=dict)
    headers: dict[str, Schema] = field(default_factory=dict)
    body: Schema | None = None

    def fill(self, operation: Any) -> None:
        parameters = {parameter["name"]: parameter for parameter in operation["parameters"]}
        for name, values in self.path.items():
            parameters[name].update(values)
        operation["parameters"] += [{"name": name, "in": "header", **of} for name, of in self.headers.items()]
        if self.body:
            operation["requestBody"] = self.body


def metadata(digest: str) -> str:
    return f"digest {base64.b64encode(digest.encode()).decode()}"


def leases(desk: Desk) -> dict[str, Schema]:
    """Parameters that name leases, each the first of its job."""
    found = [desk.lease() for _ in range(SEVERAL)]
    return {"name": often(*[lease["job"] for lease in found]), "fence": often(found[0]["fence"])}


def uploads(desk: Desk) -> dict[str, Schema]:
    """A parameter that names uploads."""
    return {"name": often(*[desk.upload() for _ in range(SEVERAL)])}


def completed(description: Any, desk: Desk) -> Any:
    """A description with what it leaves open, by what is there."""
    for operation, left_open in all_open(desk).items():
        method, path = operation.split()
        left_open.fill(description["paths"][path][method])
    return description


def all_open(desk: Desk) -> dict[str, Open]:
    """What the description of a server leaves open, by its operations."""
    done = often(desk.done())
    lease = desk.lease()
    renewed, left, finished, keeping = [leases(desk) for _ in range(4)]
    # As the path of a file in it: NAME/FENCE/files/EXPIRES/SIGNATURE/FILE.
    job, fence, _, *rest = lease["keys"]["path"].removeprefix("/v1/work/").split("/")
    address = {
        name: often(value)
        for name, value in zip(("name", "fence", "expires", "signature", "file"), (job, fence, *rest), strict=True)
    }
    keys, table, result = desk.objects()
    named = {
        "collection": {"example": "results"},
        "name": often(result, keys, table, desk.waiting(), desk.waiting()),
    }
    tus = {"Tus-Resumable": always("1.0.0")}
    begin = {
        **tus,
        "Upload-Length": always(1 << 20),
        "Upload-Metadata": always(*[metadata(secrets.token_hex(32)) for _ in range(SEVERAL)]),
        "Idempotency-Key": often(*[secrets.token_hex() for _ in range(SEVERAL)]),
    }
    ask = members(
        desk.request,
        kind={"enum": ["stats", "groups", "histogram", "train", "predict"]},
        keys=often(keys)["schema"],
        tables={"type": "array", "items": often(table)["schema"]},
        model=often(result)["schema"],
        iterations=NUMBER,
        history={"type": "boolean"},
    )
    offer = members(
        desk.offer,
        program=often(desk.offer["program"])["schema"],
        memory_bytes=NUMBER,
        wait_seconds={"const": 0},
    )
    report = {"done": 1, "total": 2, "cpu_milliseconds": 3}
    failure = {"type": "object", "properties": {"kind": TEXT, "detail": TEXT}, "required": ["kind", "detail"]}
    failed = {"type": "object", "properties": {"failed": failure}, "required": ["failed"]}
    state = {"file": often("iteration-000001.ct", "weights-000001.ct"), "digest": often(DIGEST)}
    content = sent(CONTENT, media_type="application/octet-stream")
    chunk = sent(CONTENT, media_type="application/offset+octet-stream")
    part = {**tus, "Upload-Offset": always(0, len(CONTENT))}
    span = {"Range": often("bytes=0-9", "bytes=9-", "bytes=-9")}
    work = "/v1/work/{name}/{fence}"
    return {
        "post /v1/{collection}": Open({"collection": {"example": "models"}}, begin, ask),
        "get /v1/{collection}/{name}": Open(named, span),
        "delete /v1/{collection}/{name}": Open(named),
        "get /v1/jobs/{name}/events": Open({"name": done}, {"Last-Event-ID": often(0)}),
        "get /v1/jobs/{name}/receipt": Open({"name": done}),
        "head /v1/uploads/{name}": Open(uploads(desk), tus),
        "patch /v1/uploads/{name}": Open(uploads(desk), part, chunk),
        "post /v1/uploads/{name}": Open(uploads(desk), {**part, "X-HTTP-Method-Override": always("PATCH")}, chunk),
        "delete /v1/uploads/{name}": Open(uploads(desk), tus),
        "post /v1/work/claim": Open(body=offer),
        f"post {work}/renew": Open(renewed, body=members(report, **dict.fromkeys(report, NUMBER))),
        f"post {work}/leave": Open(left, body=sent("released", {"anyOf": [{"enum": ["released", "died"]}, failed]})),
        f"put {work}/result/{{digest}}": Open({**finished, "digest": often(DIGEST)}, body=content),
        f"put {work}/states/{{file}}/{{digest}}": Open({**keeping, **state}, body=content),
        f"get {work}/files/{{expires}}/{{signature}}/{{file}}": Open(address, span),
    }
