"""The health of components, which `kubectl get cs` shows (kube-apiserver, registry/core/componentstatus)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kube_standin.server.app import AppOptions
from kube_standin.server.control_plane import ServeOptions
from tests.server.inprocess import Plane
from tests.server.live import live

COMPONENTS = "/api/v1/componentstatuses"
HEALTHY = {"type": "Healthy", "status": "True", "message": "ok"}
NOT_ASKED = {
    "type": "Healthy",
    "status": "Unknown",
    "error": "not part of kube-standin, which does not ask other programs",
}
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
WARNING = '299 - "v1 ComponentStatus is deprecated in v1.19+"'


@pytest.fixture
def plane() -> Iterator[Plane]:
    """A control plane with controllers."""
    found = Plane(AppOptions(controllers=True))
    yield found
    found.close()


def test_components_of_this_process_are_healthy(plane: Plane) -> None:
    answer = plane.ask(f"GET {COMPONENTS}")
    assert (answer.status, dict(answer.headers)["warning"]) == (200, WARNING)
    assert answer.json["kind"] == "ComponentStatusList"
    found = {one["metadata"]["name"]: one["conditions"] for one in answer.json["items"]}
    assert found == {"controller-manager": [HEALTHY], "etcd-0": [HEALTHY], "scheduler": [NOT_ASKED]}


def test_one_component(plane: Plane) -> None:
    answer = plane.ask(f"GET {COMPONENTS}/etcd-0")
    assert answer.json == {
        "kind": "ComponentStatus",
        "apiVersion": "v1",
        "metadata": {"name": "etcd-0"},
        "conditions": [HEALTHY],
    }
    unknown = plane.ask(f"GET {COMPONENTS}/x")
    assert (unknown.status, unknown.json["message"]) == (500, "Component not found: x")
    assert "reason" not in unknown.json


def test_table_of_components(plane: Plane) -> None:
    table = plane.ask(f"GET {COMPONENTS}", accept=TABLE).json
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Status", "Message", "Error"]
    assert [row["cells"] for row in table["rows"]] == [
        ["controller-manager", "Healthy", "ok", ""],
        ["etcd-0", "Healthy", "ok", ""],
        ["scheduler", "Unhealthy", "", NOT_ASKED["error"]],
    ]


def test_selectors_choose_components(plane: Plane) -> None:
    by_name = plane.ask(f"GET {COMPONENTS}?fieldSelector=metadata.name%3Detcd-0").json["items"]
    assert [one["metadata"]["name"] for one in by_name] == ["etcd-0"]
    assert plane.ask(f"GET {COMPONENTS}?labelSelector=a%3Db").json["items"] == []


@pytest.mark.parametrize(
    "request_line",
    [
        f"POST {COMPONENTS}",
        f"DELETE {COMPONENTS}",
        f"PUT {COMPONENTS}/etcd-0",
        f"PATCH {COMPONENTS}/etcd-0",
        f"DELETE {COMPONENTS}/etcd-0",
        f"GET {COMPONENTS}?watch=true",
    ],
)
def test_components_are_only_read(plane: Plane, request_line: str) -> None:
    assert plane.ask(request_line, {}).status == 405


def test_components_are_in_discovery(plane: Plane) -> None:
    [found] = [one for one in plane.ask("GET /api/v1").json["resources"] if one["kind"] == "ComponentStatus"]
    assert found == {
        "name": "componentstatuses",
        "singularName": "componentstatus",
        "namespaced": False,
        "kind": "ComponentStatus",
        "verbs": ["get", "list"],
        "shortNames": ["cs"],
    }


@pytest.mark.parametrize(("switches", "condition"), [("none", NOT_ASKED), ("namespace", HEALTHY)])
def test_controllers_of_this_server_are_healthy(switches: str, condition: dict[str, str]) -> None:
    with live(ServeOptions(controllers=switches)) as server:
        _, found, _ = server.request("GET", f"{COMPONENTS}/controller-manager")
    assert found["conditions"] == [condition]
