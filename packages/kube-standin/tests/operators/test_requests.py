"""What the controllers of JobSet 0.11 and LeaderWorkerSet 0.8 send: the answers have the recorded statuses.

`requests.json` has their requests while a gang of ours was created, failed and was restarted as a whole. `others` are
what the built-in controllers did meanwhile. Bodies that came as protobuf are JSON there; texts, uids and managedFields
are left out, and `<present>` is the resourceVersion that the object has.
"""

from __future__ import annotations

import json
import ssl
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from kube_standin.server.control_plane import ServeOptions
from tests.server.live import Live, live
from tests.waiting import DEADLINE

Json = dict[str, Any]
REQUESTS: dict[str, list[Json]] = json.loads((Path(__file__).parent / "requests.json").read_text())
KINDS = {"jobset": ("jobset.x-k8s.io", "v1alpha2", "JobSet", "ring"),
         "leaderworkerset": ("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", "serve")}  # fmt: skip
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def definition(group: str, version: str, kind: str) -> Json:
    """A definition with a status that takes every field."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": anything}}}
    names = {"kind": kind, "plural": f"{kind.lower()}s"}
    served = {"name": version, "served": True, "storage": True, "schema": schema, "subresources": {"status": {}}}
    spec = {"group": group, "names": names, "scope": "Namespaced", "versions": [served]}
    return {"metadata": {"name": f"{names['plural']}.{group}"}, "spec": spec}


def watched(server: Live, path: str) -> int:
    """The status of a watch, which is then left."""
    headers = {"Authorization": f"Bearer {server.server.keys.admin_token}"}
    request = urllib.request.Request(server.url + path, headers=headers)
    context: ssl.SSLContext = server.context
    with urllib.request.urlopen(request, context=context, timeout=DEADLINE) as answer:
        status: int = answer.status
        return status


def status_of(server: Live, request: Json) -> tuple[int, Any]:
    """Send a recorded request; the status and the answer."""
    path, body = request["path"], request.get("body")
    if "watch=true" in path:
        return watched(server, path), None
    if body is not None and (body.get("metadata") or {}).get("resourceVersion") == "<present>":
        present = server.request("GET", path)[1]["metadata"]["resourceVersion"]
        body = {**body, "metadata": {**body["metadata"], "resourceVersion": present}}
    headers = {"Content-Type": request["type"]} if "type" in request else {}
    return server.request(request["method"], path, body, headers=headers)[:2]


@pytest.mark.parametrize("operator", list(REQUESTS))
def test_statuses_are_the_recorded_ones(operator: str) -> None:
    group, version, kind, name = KINDS[operator]
    with live(ServeOptions()) as server:
        crd = definition(group, version, kind)
        assert server.request("POST", DEFINITIONS, crd)[0] == 201
        path = f"/apis/{group}/{version}/namespaces/default/{kind.lower()}s"
        owner = {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": {"name": name}, "spec": {}}
        assert server.request("POST", path, owner)[0] == 201
        for number, request in enumerate(REQUESTS[operator]):
            status, answer = status_of(server, request)
            assert status == request["status"], (number, request["method"], request["path"], answer)


def test_recording_has_a_restart() -> None:
    for requests in REQUESTS.values():
        sent = {(request["method"], request["path"].partition("?")[0].rpartition("/")[2]) for request in requests}
        assert {"POST", "PUT", "DELETE", "GET"} <= {method for method, _ in sent}
        assert {201, 200, 409} == {request["status"] for request in requests}
