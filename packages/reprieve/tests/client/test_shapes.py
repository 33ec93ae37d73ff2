"""What of each kind leaves in a snapshot, field by field: as it is, and under pseudonyms (`client/shapes.py`).

A row holds what of an object a scheduler reads.  All of it is in a plain snapshot, unchanged; in an anonymised one
every name is a pseudonym of its domain, those that the row lists, and all else stays.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kube_rules.admission import PREEMPTION_PRIORITY, PREEMPTION_PRIORITY_CLASS
from reprieve.client.snapshot import snapshot
from tests.client.leaving import LEAVING, WHEN
from tests.client.leaving_manifests import Json, group, manifest, pod
from tests.client.test_snapshot import typed


def leaving(kind: str, fields: Json, *, anonymize: bool) -> Json:
    """What leaves of one object, as it is written; without kind and name, and without a namespace that is not given."""
    given = {"namespace": "zz", **fields.get("metadata", {})}
    [found], _ = snapshot(typed(manifest(kind, {**fields, "metadata": given})), anonymize=anonymize)
    made: Json = msgspec.json.decode(msgspec.json.encode(found))
    hidden = {"name", *({"namespace"} if given["namespace"] == "zz" else ())}
    made["metadata"] = {name: value for name, value in made["metadata"].items() if name not in hidden}
    return {name: value for name, value in made.items() if value and name not in ("apiVersion", "kind")}


def renamed(value: Any, pseudonyms: dict[str, str]) -> Any:
    """The same with these texts replaced, wherever they are a whole key or value."""
    if isinstance(value, dict):
        return {renamed(name, pseudonyms): renamed(found, pseudonyms) for name, found in value.items()}
    if isinstance(value, list):
        return [renamed(found, pseudonyms) for found in value]
    return pseudonyms.get(value, value) if isinstance(value, str) else value


@pytest.mark.parametrize("row", LEAVING)
def test_fields_that_a_scheduler_reads_leave(row: str) -> None:
    kind, fields, pseudonyms = LEAVING[row]
    assert leaving(kind, fields, anonymize=False) == fields
    assert leaving(kind, fields, anonymize=True) == renamed(fields, pseudonyms)


STAYING: dict[str, tuple[str, Json, Json]] = {
    "a volume that no scheduler looks at, and the rest of one that it does": (
        "Pod",
        pod(
            {
                "volumes": [
                    {"name": "a", "hostPath": {"path": "/secret"}},
                    {"name": "b", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
                    {"name": "c", "csi": {"driver": "d", "volumeAttributes": {"secret": "secret"}}},
                ]
            }
        ),
        pod({"volumes": [{"name": "b", "emptyDir": {}}, {"name": "c", "csi": {"driver": "d"}}]}),
    ),
    "mounts, but for what a node has to be able to do; an API server takes none without a volume": (
        "Pod",
        pod({"ephemeralContainers": [{"name": "e", "volumeMounts": [{"name": "m", "bindMountOptions": ["exec"]}]}]}),
        pod(
            {"volumes": [{"name": "mount-1", "downwardAPI": {}}]},
            container={"volumeMounts": [{"name": "mount-1", "mountPath": "/mount-1", "bindMountOptions": ["exec"]}]},
        ),
    ),
    "conditions of other types, and what the others say in words": (
        "Node",
        {
            "status": {
                "conditions": [
                    {"type": "Secret", "status": "True"},
                    {"type": "Ready", "status": "True", "message": "secret", "lastHeartbeatTime": WHEN},
                ]
            }
        },
        {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
    ),
    "images that no pod uses": ("Node", {"status": {"images": [{"names": ["secret:1"], "sizeBytes": 5}]}}, {}),
    "empty maps that mean nothing": (
        "Pod",
        {
            **pod({"nodeSelector": {}, "overhead": {}, "volumes": [{"name": "a", "hostPath": {"path": "/secret"}}]}),
            "metadata": {"labels": {}, "annotations": {"secret": "secret"}},
        },
        pod(),
    ),
    "drivers' own configuration": (
        "ResourceClaim",
        {
            "spec": {
                "devices": {
                    "requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}],
                    "config": [{"opaque": {"driver": "d", "parameters": {"a": "secret"}}}],
                }
            }
        },
        {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}},
    ),
}


@pytest.mark.parametrize("row", STAYING)
def test_nothing_else_does(row: str) -> None:
    kind, fields, left = STAYING[row]
    assert leaving(kind, fields, anonymize=False) == left


OWNERS = [
    ("example.com/v1", "Telling", False),
    ("v1", "Telling", False),
    ("apps/v1", "Telling", False),
    ("apps/telling", "ReplicaSet", False),
    ("telling/v1", "Job", False),
    ("batch/v1", "Job", True),
    ("apps/v1", "ReplicaSet", True),
    ("v1", "Node", True),
    ("scheduling.k8s.io/v1beta1", "PodGroup", True),
    ("jobset.x-k8s.io/v1alpha2", "JobSet", True),
]


@pytest.mark.parametrize(("version", "kind", "public"), OWNERS)
def test_owner_of_a_kind_that_is_not_public_is_just_an_owner(version: str, kind: str, public: bool) -> None:
    owner = {"apiVersion": version, "kind": kind, "name": "acme", "uid": "acme-u"}
    fields = {**pod(), "metadata": {"ownerReferences": [owner]}}
    assert leaving("Pod", fields, anonymize=False)["metadata"]["ownerReferences"] == [owner]
    [hidden] = leaving("Pod", fields, anonymize=True)["metadata"]["ownerReferences"]
    assert (hidden["apiVersion"], hidden["kind"]) == ((version, kind) if public else ("example.com/v1", "Owner"))
    assert hidden["name"].endswith("-1")
    assert hidden["uid"] == "uid-1"


@pytest.mark.parametrize(
    ("of_the_pod", "of_the_node", "kept"),
    [
        ("nginx", ["nginx:latest"], True),
        ("nginx:latest", ["nginx"], True),
        ("nginx:1", ["nginx:2"], False),
        ("nginx", ["other", "nginx:latest"], True),
        ("registry:5000/nginx", ["registry:5000/nginx:latest"], True),
        ("registry:5000/nginx:1", ["registry:5000/nginx"], False),
    ],
)
def test_image_without_a_tag_is_the_latest(of_the_pod: str, of_the_node: list[str], kept: bool) -> None:
    """ImageLocality compares images with their tags; a colon before the last slash is the registry's port."""
    node = manifest("Node", {"status": {"images": [{"names": of_the_node, "sizeBytes": 7}]}})
    one = manifest("Pod", pod(container={"image": of_the_pod}))
    [found, with_image], _ = snapshot(typed(node, one))
    [container] = with_image["spec"]["containers"]
    assert container["image"] == "image-1:x"
    assert found["status"].get("images", []) == ([{"names": ["image-1:x"], "sizeBytes": 7}] if kept else [])


def test_image_of_unknown_size_has_none() -> None:
    """Its size counts as nought for ImageLocality."""
    node = manifest("Node", {"status": {"images": [{"names": ["nginx:1"]}]}})
    [found, _], _ = snapshot(typed(node, manifest("Pod", pod(container={"image": "nginx:1"}))))
    assert found["status"]["images"] == [{"names": ["image-1:x"], "sizeBytes": 0}]


def test_classes_of_the_system_keep_their_names() -> None:
    """They mean the same everywhere; others are renamed where they are defined and where a pod names them."""
    names = ("system-cluster-critical", "acme-high")
    manifests, _ = snapshot(typed(*(manifest("PriorityClass", {"value": 1}, name) for name in names)), anonymize=True)
    assert [found["metadata"]["name"] for found in manifests] == ["system-cluster-critical", "priorityclass-1"]


def test_preemption_priority_leaves_as_it_is_and_its_class_under_a_pseudonym() -> None:
    for noted, hidden in (
        ({PREEMPTION_PRIORITY: "9"}, {PREEMPTION_PRIORITY: "9"}),
        ({PREEMPTION_PRIORITY_CLASS: "dear"}, {PREEMPTION_PRIORITY_CLASS: "priorityclass-1"}),
    ):
        made = manifest("PodGroup", {**group(priority=9), "metadata": {"annotations": noted}})
        [found, _], _ = snapshot(typed(made, manifest("PriorityClass", {"value": 9}, "dear")), anonymize=True)
        assert found["metadata"]["annotations"] == hidden
