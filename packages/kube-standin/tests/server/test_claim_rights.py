"""Parts of a resource claim's status ask for rights of their own (kube-apiserver 1.36)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.server.live import Live, live

RESOURCE = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
GROUP = "resource.k8s.io"
MERGE = {"Content-Type": "application/merge-patch+json"}
STATUS = [{"apiGroups": [GROUP], "resources": ["resourceclaims/status"], "verbs": ["patch", "update"]}]
BINDING = [{"apiGroups": [GROUP], "resources": ["resourceclaims/binding"], "verbs": ["patch"]}]
DRIVER = [
    {
        "apiGroups": [GROUP],
        "resources": ["resourceclaims/driver"],
        "resourceNames": ["gpu.example.com"],
        "verbs": ["arbitrary-node:update"],
    }
]
GRANT = {"request": "r", "driver": "gpu.example.com", "pool": "p", "device": "d"}
ALLOCATION: dict[str, Any] = {"allocation": {"devices": {"results": [GRANT]}}}
REPORT: dict[str, Any] = {"devices": [{"driver": "gpu.example.com", "pool": "p", "device": "d"}]}


@pytest.fixture(scope="module")
def plane() -> Iterator[Live]:
    with live() as running:
        yield running


def create(plane: Live, path: str, body: dict[str, Any]) -> None:
    status, answer, _ = plane.request("POST", path, body)
    assert status == 201, answer


@pytest.mark.parametrize(
    ("rules", "status", "allocated", "refused"),
    [
        (STATUS, ALLOCATION, False, 'cannot patch resource "resourceclaims/binding"'),
        ([*STATUS, *BINDING], ALLOCATION, False, None),
        ([*STATUS, *DRIVER], ALLOCATION, False, 'cannot patch resource "resourceclaims/binding"'),
        (STATUS, REPORT, True, 'cannot arbitrary-node:patch resource "resourceclaims/driver"'),
        ([*STATUS, *BINDING], REPORT, True, 'cannot arbitrary-node:patch resource "resourceclaims/driver"'),
        ([*STATUS, *DRIVER], REPORT, True, None),
        (BINDING, ALLOCATION, False, 'cannot patch resource "resourceclaims/status"'),
    ],
)
def test_service_accounts_may_write_their_part(
    rules: list[dict[str, Any]],
    status: dict[str, Any],
    allocated: bool,
    refused: str | None,
    plane: Live,
    request: pytest.FixtureRequest,
) -> None:
    name = f"case-{request.node.callspec.indices['rules']}"
    create(plane, "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": name}})
    create(plane, f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    create(
        plane, f"{RBAC}/clusterrolebindings", {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
    )
    asked = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
    create(plane, RESOURCE, {"metadata": {"name": name}, "spec": {"devices": {"requests": [asked]}}})
    if allocated:
        done = plane.request("PATCH", f"{RESOURCE}/{name}/status", {"status": ALLOCATION}, headers=MERGE)
        assert done[0] == 200, done[1]
    path = f"/api/v1/namespaces/default/serviceaccounts/{name}/token"
    token = plane.request("POST", path, {"spec": {}})[1]["status"]["token"]
    code, answer, _ = plane.request(
        "PATCH", f"{RESOURCE}/{name}/status", {"status": status}, headers=MERGE, token=token
    )
    assert code == (200 if refused is None else 403), answer
    if refused is not None:
        assert refused in answer["message"]
