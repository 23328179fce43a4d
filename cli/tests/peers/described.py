"""What a server says of itself, with values that are there: names, digests, and bodies that go with them.

Without them, requests that are made up from it do not get past the first check.
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


@dataclass(frozen=True)
class There:
    """What is there for an operation: values of parameters, a body, and values of its members."""

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
    """Parameters that name leases, each the first of its job."""
    found = [desk.lease() for _ in range(SEVERAL)]
    return {"name": often(*[lease["job"] for lease in found]), "fence": often(found[0]["fence"])}


def uploads(desk: Desk) -> dict[str, Schema]:
    """A parameter that names uploads."""
    return {"name": often(*[desk.upload() for _ in range(SEVERAL)])}


def completed(description: Any, desk: Desk) -> Any:
    """A description with what is there."""
    for operation, there in all_there(desk).items():
        method, path = operation.split()
        there.fill(description["paths"][path][method], description["components"]["schemas"])
    return description


def all_there(desk: Desk) -> dict[str, There]:
    """What there is for the operations of a server."""
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
    begin = {
        "collection": {"example": "models"},
        "Tus-Resumable": always("1.0.0"),
        "Upload-Length": always(1 << 20),
        "Upload-Metadata": always(*[metadata(secrets.token_hex(32)) for _ in range(SEVERAL)]),
        "Idempotency-Key": often(*[secrets.token_hex() for _ in range(SEVERAL)]),
    }
    ask = {
        "keys": often(keys)["schema"],
        "tables": {"type": "array", "items": often(table)["schema"]},
        "model": often(result)["schema"],
    }
    offer = {"program": often(desk.offer["program"])["schema"], "wait_seconds": {"const": 0}}
    report = {"done": 1, "total": 2, "cpu_milliseconds": 3}
    state = {"file": often("iteration-000001.ct", "weights-000001.ct"), "digest": often(DIGEST)}
    offset = {"Upload-Offset": always(0, len(CONTENT))}
    span = {"Range": often("bytes=0-9", "bytes=9-", "bytes=-9")}
    work = "/v1/work/{name}/{fence}"
    return {
        "post /v1/{collection}": There(begin, desk.request, ask),
        "get /v1/{collection}/{name}": There({**named, **span}),
        "delete /v1/{collection}/{name}": There(named),
        "get /v1/jobs/{name}/events": There({"name": done, "Last-Event-ID": often(0)}),
        "get /v1/jobs/{name}/receipt": There({"name": done}),
        "head /v1/uploads/{name}": There(uploads(desk)),
        "patch /v1/uploads/{name}": There({**uploads(desk), **offset}, CONTENT),
        "post /v1/uploads/{name}": There(
            {**uploads(desk), **offset, "X-HTTP-Method-Override": always("PATCH")}, CONTENT
        ),
        "delete /v1/uploads/{name}": There(uploads(desk)),
        "post /v1/work/claim": There(body=desk.offer, members=offer),
        f"post {work}/renew": There(renewed, report),
        f"post {work}/leave": There(left, "released"),
        f"put {work}/result/{{digest}}": There({**finished, "digest": often(DIGEST)}, CONTENT),
        f"put {work}/states/{{file}}/{{digest}}": There({**keeping, **state}, CONTENT),
        f"get {work}/files/{{expires}}/{{signature}}/{{file}}": There({**address, **span}),
    }
