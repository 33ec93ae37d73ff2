"""APIServices: which there are, what is refused, that none is proxied (kube-aggregator, autoregister_controller)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from kube_standin.storage import Store
from tests.server.definitions import CRDS, Json, definition
from tests.server.inprocess import Plane, running

PLACE = "/apis/apiregistration.k8s.io/v1/apiservices"
MERGE = {"content_type": "application/merge-patch+json"}
LABEL = "kube-aggregator.kubernetes.io/automanaged"
SERVICE = {"name": "server", "namespace": "ns"}
VISIBILITY = "v1beta1.visibility.example.com"
CUSTOM = "v1.stable.example.com"


@pytest.fixture
def plane() -> Iterator[Plane]:
    with running() as made:
        yield made


def api_service(name: str = VISIBILITY, **more: Any) -> Json:
    version, _, group = name.partition(".")
    spec = {"group": group, "version": version, "groupPriorityMinimum": 100, "versionPriority": 100, **more}
    return {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": name}, "spec": spec}


def read(plane: Plane, name: str) -> Json:
    found: Json = plane.ask(f"GET {PLACE}/{name}").json
    return found


def available(plane: Plane, name: str) -> tuple[str, ...]:
    [condition] = read(plane, name)["status"]["conditions"]
    assert condition["type"] == "Available"
    assert condition["lastTransitionTime"]
    return tuple(condition[word] for word in ("status", "reason", "message"))


LOCAL = ("True", "Local", "Local APIServices are always available")
NOT_PROXIED = (
    "False",
    "NotProxied",
    "This server does not proxy aggregated APIs: visibility.example.com/v1beta1 is not served",
)


def test_each_group_version_has_one(plane: Plane) -> None:
    """All but that of apiregistration.k8s.io itself, as in any cluster."""
    names = {one["metadata"]["name"] for one in plane.ask(f"GET {PLACE}").json["items"]}
    served = {f"{version}.{group}" for group, versions in plane.registry.kinds.groups().items() for version in versions}
    assert names == served - {"v1.apiregistration.k8s.io"}
    core, apps = read(plane, "v1."), read(plane, "v1.apps")
    assert core["spec"] == {"version": "v1", "groupPriorityMinimum": 18000, "versionPriority": 1}
    assert apps["spec"] == {"group": "apps", "version": "v1", "groupPriorityMinimum": 17800, "versionPriority": 15}
    assert apps["metadata"]["labels"] == {LABEL: "onstart"}
    assert {available(plane, name) for name in names} == {LOCAL}


def test_they_follow_definitions(plane: Plane) -> None:
    assert plane.ask(f"GET {PLACE}/{CUSTOM}").status == 404
    assert plane.ask(f"POST {CRDS}", definition()).status == 201
    made = read(plane, CUSTOM)
    assert made["metadata"]["labels"] == {LABEL: "true"}
    assert made["spec"] == {
        "group": "stable.example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 100
    }  # fmt: skip
    assert available(plane, CUSTOM) == LOCAL
    assert plane.ask(f"DELETE {PLACE}/{CUSTOM}").status == 200
    assert read(plane, CUSTOM)["metadata"]["uid"] != made["metadata"]["uid"]
    name = definition()["metadata"]["name"]
    assert plane.ask(f"DELETE {CRDS}/{name}").status == 200
    plane.run(asyncio.sleep(1))  # of simulated time
    assert plane.ask(f"GET {CRDS}/{name}").status == 404
    assert plane.ask(f"GET {PLACE}/{CUSTOM}").status == 404


PRIORITY = {"spec": {"versionPriority": 7}}


def test_spec_of_a_managed_one_is_put_back(plane: Plane) -> None:
    """interfaces.md 4.5: of custom resources, at once; without the label it is the client's."""
    assert plane.ask(f"POST {CRDS}", definition()).status == 201
    before = read(plane, CUSTOM)["spec"]
    change = {"spec": {"versionPriority": 7, "service": SERVICE}}
    assert plane.ask(f"PATCH {PLACE}/{CUSTOM}", change, **MERGE).status == 200
    assert read(plane, CUSTOM)["spec"] == before
    assert available(plane, CUSTOM) == LOCAL
    for label in (None, "false", "onstart"):
        labelled = {**PRIORITY, "metadata": {"labels": {LABEL: label}}}
        assert plane.ask(f"PATCH {PLACE}/{CUSTOM}", labelled, **MERGE).status == 200
        assert read(plane, CUSTOM)["spec"]["versionPriority"] == 7
    back = {"metadata": {"labels": {LABEL: "true"}}}
    assert plane.ask(f"PATCH {PLACE}/{CUSTOM}", back, **MERGE).status == 200
    assert read(plane, CUSTOM)["spec"] == before


@pytest.mark.parametrize(("label", "kept"), [("true", False), ("onstart", True), ("false", True)])
def test_managed_one_of_nothing_is_deleted(plane: Plane, label: str, kept: bool) -> None:
    """interfaces.md 4.5"""
    made = api_service()
    made["metadata"]["labels"] = {LABEL: label}
    assert plane.ask(f"POST {PLACE}", made).status == 201
    assert (plane.ask(f"GET {PLACE}/{VISIBILITY}").status == 200) is kept


@pytest.mark.parametrize(("label", "priority"), [("onstart", 15), ("true", 15), ("false", 7), (None, 7)])
def test_spec_of_a_built_in_group_is_put_back_at_a_start(label: str | None, priority: int) -> None:
    """interfaces.md 4.5"""
    store = Store()
    with running(store=store) as plane:
        labelled = {**PRIORITY, "metadata": {"labels": {LABEL: label}}}
        assert plane.ask(f"PATCH {PLACE}/v1.apps", labelled, **MERGE).status == 200
        assert read(plane, "v1.apps")["spec"]["versionPriority"] == 7
    with running(store=store) as plane:
        assert read(plane, "v1.apps")["spec"]["versionPriority"] == priority


def test_start_makes_what_is_missing_and_deletes_what_is_gone() -> None:
    store = Store()
    with running(store=store) as plane:
        gone = api_service()
        gone["metadata"]["labels"] = {LABEL: "onstart"}
        assert plane.ask(f"POST {PLACE}", gone).status == 201
        assert plane.ask(f"DELETE {PLACE}/v1.apps").status == 200
        assert plane.ask(f"GET {PLACE}/v1.apps").status == 404
    with running(store=store) as plane:
        assert available(plane, "v1.apps") == LOCAL
        assert plane.ask(f"GET {PLACE}/{VISIBILITY}").status == 404
    revision = store.revision
    with running(store=store):
        assert store.revision == revision


def test_no_request_is_proxied(plane: Plane) -> None:
    made = plane.ask(f"POST {PLACE}", api_service(service=SERVICE))
    assert made.status == 201
    assert made.json["spec"]["service"]["port"] == 443
    assert available(plane, VISIBILITY) == NOT_PROXIED
    assert plane.ask("GET /apis/visibility.example.com/v1beta1/things").status == 404
    assert "visibility.example.com" not in {group["name"] for group in plane.ask("GET /apis").json["groups"]}
    claimed = {"status": {"conditions": [{"type": "Available", "status": "True"}]}}
    assert plane.ask(f"PATCH {PLACE}/{VISIBILITY}/status", claimed, **MERGE).status == 200
    assert available(plane, VISIBILITY) == NOT_PROXIED
    assert plane.ask(f"PATCH {PLACE}/{VISIBILITY}", {"spec": {"service": None}}, **MERGE).status == 200
    assert available(plane, VISIBILITY) == LOCAL


def test_service_does_not_shadow_what_is_served(plane: Plane) -> None:
    """Whichever comes first, the definition or the APIService of its group version."""
    assert plane.ask(f"POST {PLACE}", api_service(CUSTOM, service=SERVICE)).status == 201
    assert available(plane, CUSTOM)[:2] == ("False", "NotProxied")
    assert plane.ask(f"POST {CRDS}", definition()).status == 201
    assert available(plane, CUSTOM)[:2] == ("True", "Local")
    metrics = plane.ask(f"PATCH {PLACE}/v1beta1.metrics.k8s.io", {"spec": {"service": SERVICE}}, **MERGE)
    assert metrics.status == 200
    assert available(plane, "v1beta1.metrics.k8s.io")[:2] == ("True", "Local")
    assert plane.ask("GET /apis/metrics.k8s.io/v1beta1/nodes").status == 200


@pytest.mark.parametrize(
    ("name", "spec", "field", "detail"),
    [
        ("v1.other", {"group": "a.b"}, "metadata.name",
         'Invalid value: "v1.other": must be `spec.version+"."+spec.group`: "v1.a.b"'),
        ("v2.", {"group": ""}, "spec.group",
         "Required value: only v1 may have an empty group and it better be legacy kube"),
        ("1.a.b", {}, "spec.version", 'Invalid value: "1": a DNS-1035 label must consist of'),
        ("v1.A", {}, "spec.group", 'Invalid value: "A": a lowercase RFC 1123 subdomain must consist of'),
        ("v1.a", {"groupPriorityMinimum": 20001}, "spec.groupPriorityMinimum",
         "Invalid value: 20001: must be positive and less than 20000"),
        ("v1.a", {"versionPriority": 0}, "spec.versionPriority",
         "Invalid value: 0: must be positive and less than 1000"),
        ("v1.a", {"caBundle": "QUJD"}, "spec.caBundle",
         'Invalid value: "3 bytes": local APIServices may not have a caBundle'),
        ("v1.a", {"insecureSkipTLSVerify": True}, "spec.insecureSkipTLSVerify",
         "Invalid value: true: local APIServices may not have insecureSkipTLSVerify"),
        ("v1.a", {"service": {"name": "s"}}, "spec.service.namespace", "Required value"),
        ("v1.a", {"service": {"namespace": "s"}}, "spec.service.name", "Required value"),
        ("v1.a", {"service": SERVICE, "caBundle": "QUJD", "insecureSkipTLSVerify": True},
         "spec.insecureSkipTLSVerify", "Invalid value: true: may not be true if caBundle is present"),
    ],
)  # fmt: skip
def test_what_is_refused(plane: Plane, name: str, spec: Json, field: str, detail: str) -> None:
    answer = plane.ask(f"POST {PLACE}", api_service(name, **spec))
    assert answer.status == 422
    [cause] = answer.json["details"]["causes"]
    assert cause["field"] == field
    assert cause["message"].startswith(detail)


def test_conditions_are_true_false_or_unknown(plane: Plane) -> None:
    change = {"status": {"conditions": [{"type": "Other", "status": "Maybe"}]}}
    answer = plane.ask(f"PATCH {PLACE}/v1.apps/status", change, **MERGE)
    assert answer.status == 422
    assert answer.json["details"]["causes"][0]["field"] == "status.conditions[0].status"


def test_table(plane: Plane) -> None:
    plane.ask(f"POST {PLACE}", api_service(service=SERVICE))
    table = plane.ask(f"GET {PLACE}", accept="application/json;as=Table;g=meta.k8s.io;v=v1").json
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Service", "Available", "Age"]
    rows = {row["cells"][0]: row["cells"][1:3] for row in table["rows"]}
    assert rows[VISIBILITY] == ["ns/server", "False (NotProxied)"]
    assert rows["v1.apps"] == ["Local", "True"]
