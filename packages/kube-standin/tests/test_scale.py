"""The scale of an object: where it is read from and written to."""

from __future__ import annotations

from typing import Any

import pytest

from kube_standin.kinds import ServedKind
from kube_standin.registry import WriteOptions
from kube_standin.scale import scale_of, write_scale_now
from tests.admission.plane import Plane
from tests.recorded.shapes import custom_kind, shape
from tests.refused import message_of
from tests.server.inprocess import running

Json = dict[str, Any]


@pytest.fixture
def plane() -> Plane:
    return Plane()


def scaled(**paths: str) -> ServedKind:
    scale = {"specReplicasPath": ".spec.size.wanted", "statusReplicasPath": ".status.size", **paths}
    definition = {"subresources": {"scale": scale}, "schema": {"openAPIV3Schema": {
        "type": "object", "x-kubernetes-preserve-unknown-fields": True}}}  # fmt: skip
    return custom_kind("g", "v1", "Gang", definition=definition, storage_version="g/v1", storage_key="g/gangs",
                       subresources=frozenset(("scale",)))  # fmt: skip


META: Json = {"name": "n", "namespace": "s", "uid": "u", "resourceVersion": "5", "creationTimestamp": "t", "labels": {}}


SHOWN = {key: META[key] for key in META if key != "labels"}


BY_LABELS: Json = {"matchLabels": {"b": "2", "a": "1"}}


BY_SEVERAL_KEYS: Json = {
    "matchLabels": {"z": "1", "a": "2"}, "matchExpressions": [{"key": "m", "operator": "In", "values": ["y", "x"]}]
}  # fmt: skip


BY_EXPRESSION: Json = {"matchExpressions": [{"key": "k", "operator": "Exists"}], **BY_LABELS}


@pytest.mark.parametrize(
    ("kind", "body", "replicas", "found", "selector"),
    [
        (shape("apps/v1", "Deployment"), {"spec": {"replicas": 3, "selector": BY_LABELS}, "status": {"replicas": 2}},
         3, 2, "a=1,b=2"),
        (shape("apps/v1", "Deployment"), {"spec": {"selector": BY_EXPRESSION}}, 0, 0, "a=1,b=2,k"),
        (shape("apps/v1", "Deployment"), {"spec": {"selector": BY_SEVERAL_KEYS}}, 0, 0, "a=2,m in (x,y),z=1"),
        (shape("apps/v1", "Deployment"), {"spec": {"selector": {}}}, 0, 0, None),
        (shape("apps/v1", "Deployment"), {"spec": None, "status": None}, 0, 0, None),
        (shape("v1", "ReplicationController"), {"spec": {"selector": {"b": "2", "a": "1"}}}, 0, 0, "a=1,b=2"),
        (scaled(), {"spec": {"size": {"wanted": 3}, "selector": BY_LABELS}, "status": {"size": 2}}, 3, 2, None),
        (scaled(), {"spec": {"size": 7}}, 0, 0, None),
        (scaled(labelSelectorPath=".status.chosen"), {"status": {"chosen": "x=y"}}, 0, 0, "x=y"),
        (scaled(labelSelectorPath=".status.chosen"), {"status": {}}, 0, 0, None),
        (custom_kind("g", "v1", "Gang"), {"spec": {"replicas": 4}}, 4, 0, None),
        (custom_kind("g", "v1", "Gang", definition={"subresources": None}), {"spec": {"replicas": 4}}, 4, 0, None),
    ],
)  # fmt: skip
def test_scale_of_an_object(kind: ServedKind, body: Json, replicas: int, found: int, selector: str | None) -> None:
    """Of a custom resource where its definition says that the fields are."""
    status: Json = {"replicas": found, **({} if selector is None else {"selector": selector})}
    assert scale_of(kind, {"metadata": META, **body}) == {
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": SHOWN, "spec": {"replicas": replicas},
        "status": status}  # fmt: skip


@pytest.fixture
def gangs(plane: Plane) -> ServedKind:
    """The row of a custom kind with a scale, of which there is one object `g` in `default`."""
    kind = scaled()
    plane.registry.kinds.add(kind)
    plane.registry.declare(kind)
    plane.registry.create_now(kind, "default", {"metadata": {"name": "g"}, "spec": {"a": 1}}, WriteOptions(manager=""))
    return kind


def test_scale_is_written_to_the_fields_the_definition_names(plane: Plane, gangs: ServedKind) -> None:
    def put(scale: Json) -> Any:
        return write_scale_now(plane.registry, gangs, "default", "g", scale, WriteOptions(manager=""))

    assert put({"spec": {"replicas": 3}}).object["spec"] == {"replicas": 3}
    found = plane.registry.find(gangs, "default", "g")
    assert found is not None
    assert found["spec"] == {"a": 1, "size": {"wanted": 3}}
    version = found["metadata"]["resourceVersion"]
    assert put({"metadata": {"name": "g", "resourceVersion": version}, "spec": None}).object["spec"] == {"replicas": 0}
    modified = "the object has been modified; please apply your changes to the latest version and try again"
    for scale, refused in (
        ({"metadata": {"name": "x"}}, (400, "the name of the object (x) does not match the name on the URL (g)")),
        ({"metadata": {"resourceVersion": version}},
         (409, f'Operation cannot be fulfilled on gangs.g "g": {modified}')),
        *(({"spec": {"replicas": bad}},
           (422, f'Scale.autoscaling "g" is invalid: spec.replicas: Invalid value: {shown}: must be greater than or '
            "equal to 0")) for bad, shown in ((-1, "-1"), (True, "true"), ("x", '"x"'))),
    ):  # fmt: skip
        assert message_of(put, scale) == refused
    absent = message_of(write_scale_now, plane.registry, gangs, "default", "x", {}, WriteOptions())
    assert absent == (404, 'gangs.g "x" not found')


APPLY = {"content_type": "application/apply-patch+yaml"}


def test_applied_scale_owns_the_replicas() -> None:
    """The replicas of the workload follow, its manager is noted for the subresource, and others conflict."""
    labels = {"a": "b"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    path = "/apis/apps/v1/namespaces/default/deployments"
    with running() as plane:
        plane.create(
            path, {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": labels}, "template": template}}
        )
        scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}}
        line = f"PATCH {path}/d/scale?fieldManager=hpa&force=true"
        applied = plane.ask(line, {**scale, "spec": {"replicas": 3}}, **APPLY)
        assert (applied.status, applied.json["kind"], applied.json["spec"]) == (200, "Scale", {"replicas": 3})
        stored = plane.ask(f"GET {path}/d").json
        assert stored["spec"]["replicas"] == 3
        [owned] = [one for one in stored["metadata"]["managedFields"] if one["manager"] == "hpa"]
        assert (owned["subresource"], owned["fieldsV1"]) == ("scale", {"f:spec": {"f:replicas": {}}})
        other = plane.ask(f"PATCH {path}/d/scale?fieldManager=x", {**scale, "spec": {"replicas": 4}}, **APPLY)
        assert (other.status, other.json["reason"]) == (409, "Conflict")
        wrong = plane.ask(line, {**scale, "spec": {"replicas": -1}}, **APPLY)
        assert wrong.status == 422
        assert plane.ask(f"PATCH {path}/x/scale?fieldManager=hpa", scale, **APPLY).status == 404


def test_dry_run_takes_an_object_with_a_resource_version() -> None:
    """It stores nothing that another version could be meant for; without a dry run it is refused."""
    path = "/api/v1/namespaces/default/configmaps"
    with running() as plane:
        made = plane.create(path, {"metadata": {"name": "a"}})
        made["metadata"]["name"] = "b"
        assert plane.ask(f"POST {path}?dryRun=All", made).status == 201
        assert plane.ask(f"GET {path}/b").status == 404
        assert plane.ask(f"POST {path}", made).status == 500
