"""A snapshot is loaded by `up -f` as it was written: what the API demands stays in it (interfaces.md 1.7)."""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kube_rules import objects as o
from kube_rules.errors import Origin
from kube_rules.foreign_groups import COSCHEDULING_VERSION, VOLCANO_VERSION
from kube_rules.manifests import PlainObject
from kube_rules.meta import KubernetesObject
from kube_standin.admission import admission_steps
from kube_standin.initial_objects import LoadReport, load_objects
from kube_standin.security import Secrets
from kube_standin.server.control_plane import ControlPlane
from kube_standin.storage import Store, open_log
from reprieve.client.cluster_reader import OPTIONAL, REQUIRED, ClusterReading, manifests_of
from reprieve.client.decoding import stored
from reprieve.client.discovery import Resource
from reprieve.client.snapshot import snapshot, text_of
from reprieve.inputs.loader import read
from reprieve.simulation.plan import PlanOptions, plan
from tests.client.test_snapshot import rich_objects
from tests.random_clusters import RandomCluster, random_clusters

Json = dict[str, Any]
KINDS: tuple[type[KubernetesObject], ...] = (o.Node, *OPTIONAL, *(kind for kind in REQUIRED if kind is not o.Node))
VERSIONS = {kind.KIND: kind.API_VERSION for kind in KINDS}


def server_of(manifests: Sequence[Json]) -> tuple[ControlPlane, LoadReport]:
    """A server that has loaded the manifests."""
    server = ControlPlane(
        Store(open_log(":memory:")), Secrets("admin", "reader", b"signing").tokens(), steps=admission_steps
    )
    given = [PlainObject(copy.deepcopy(one), Origin("snapshot", number)) for number, one in enumerate(manifests, 1)]
    return server, load_objects(server.registry, given)


def read_from(server: ControlPlane) -> list[KubernetesObject]:
    """What a client reads of a server, in the order in which it reads it."""
    found: list[KubernetesObject] = []
    for kind in KINDS:
        for version in (kind.API_VERSION, *((COSCHEDULING_VERSION, VOLCANO_VERSION) if kind is o.PodGroup else ())):
            row = server.registry.kinds.of(version, kind.KIND)
            if row is None:
                continue
            resource = Resource(row.group, row.version, row.plural, row.kind, row.namespaced)
            states = server.store.heads(row.storage_key)
            manifests = [server.registry.view(row, state) for state in states]
            found += [stored(kind, msgspec.json.encode(one), resource) for one in manifests]
    return found


def loadable(objects: Sequence[KubernetesObject], *, anonymize: bool = False, json: bool = True) -> list[Json]:
    """The manifests of a snapshot, as they stand in its text."""
    text = text_of(snapshot(objects, anonymize=anonymize)[0], json=json)
    return [msgspec.json.decode(msgspec.json.encode(one)) for one in documents_of(text, json=json)]


def documents_of(text: str, *, json: bool) -> list[Json]:
    import yaml

    return msgspec.json.decode(text)["items"] if json else list(yaml.safe_load_all(text))


LATER = 4_102_444_800.0
"""2100-01-01: one time for all plans, since two servers create the same objects at different times."""


def decided(objects: Sequence[KubernetesObject]) -> Json:
    answer = plan(manifests_of(ClusterReading(list(objects)), "x"), PlanOptions(now=LATER))
    document: Json = msgspec.json.decode(msgspec.json.encode(answer.plan))
    del document["stats"]
    return document


def admissible(manifest: Json) -> Json:
    """A manifest of a builder of tests as an API server takes it: with an image, and priorities that have a class."""
    spec, meta = manifest.get("spec", {}), manifest["metadata"]
    meta["annotations"] = {key: text for key, text in meta.get("annotations", {}).items() if "preemption" not in key}
    for container in spec.get("containers", ()) if manifest["kind"] == "Pod" else ():
        container.setdefault("image", "image")
        asked = container.get("resources", {}).get("requests", {})
        extended = {name: amount for name, amount in asked.items() if "/" in name}
        if extended:
            container["resources"].setdefault("limits", {}).update(extended)
    if "priority" in spec:
        spec["priorityClassName"] = f"priority.{spec.pop('priority')}".replace("-", "minus")
        spec.pop("preemptionPolicy", None)
    return manifest


CLASSES = [
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": value}
    | {"metadata": {"name": f"priority.{value}".replace("-", "minus")}}
    for value in range(-10, 101)
]


@settings(max_examples=15, deadline=None)
@given(cluster=random_clusters(), seed=st.integers(0, 2**32 - 1), json=st.booleans())
def test_snapshot_of_a_cluster_is_loaded_and_decides_the_same(cluster: RandomCluster, seed: int, json: bool) -> None:
    made = [admissible(one) for one in loadable(rich_objects(cluster, random.Random(seed)))]
    first, _ = server_of([*CLASSES, *made])
    there = read_from(first)
    text = loadable(there, json=json)
    second, report = server_of(text)
    assert (report.left_out, report.warnings, report.orphaned) == ([], [], 0)
    assert decided(read_from(second)) == decided(there)
    assert decided([loaded.object for loaded in read([(f"{n}.json", one) for n, one in enumerate(text)]).all()]) == (
        decided(there)
    )


WHEN = "2026-01-01T00:00:00Z"
CONTAINER = {"name": "c", "image": "nginx"}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
WEIGHED = [{"weight": 1, "podAffinityTerm": {"topologyKey": "zone"}}]
SPREAD = {"topologyKey": "zone", "maxSkew": 1}
MOUNT = {"name": "v", "mountPath": "/x"}


def pod(container: Json | None = None, **spec: Any) -> tuple[str, Json]:
    return "Pod", {"spec": {"containers": [{**CONTAINER, **(container or {})}], **spec}}


LOADED: dict[str, tuple[str, Json]] = {
    "spread, hard": pod(topologySpreadConstraints=[{**SPREAD, "whenUnsatisfiable": "DoNotSchedule"}]),
    "spread, soft": pod(topologySpreadConstraints=[{**SPREAD, "whenUnsatisfiable": "ScheduleAnyway"}]),
    "affinity to nodes": pod(
        affinity={
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]},
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}],
            }
        }
    ),
    "affinity to pods": pod(affinity={"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": WEIGHED}}),
    "tolerations": pod(tolerations=[{"key": "a", "operator": "Equal"}, {"operator": "Exists"}]),
    "ports": pod({"ports": [{"containerPort": 80, "hostPort": 80}]}),
    "mounts": pod(
        {"volumeMounts": [MOUNT, {"name": "w", "mountPath": "/y", "bindMountOptions": ["noexec"]}]},
        volumes=[{"name": "v", "emptyDir": {}}, {"name": "w", "configMap": {"name": "m"}}],
    ),
    "a sidecar": pod(
        initContainers=[
            {
                **CONTAINER,
                "name": "i",
                "restartPolicy": "Always",
                "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}],
            }
        ]
    ),
    "volumes": pod(
        volumes=[
            {"name": "a", "emptyDir": {}},
            {"name": "b", "iscsi": {"targetPortal": "1.2.3.4:3260", "iqn": "iqn.2001-04.com.example:x", "lun": 0}},
            {"name": "c", "rbd": {"monitors": ["m"], "image": "i"}},
            {"name": "d", "persistentVolumeClaim": {"claimName": "claim"}},
            {"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": CLAIM}}},
            {"name": "f", "csi": {"driver": "csi.example.com"}},
            {"name": "g", "secret": {"secretName": "s"}},
        ]
    ),
    "devices": pod(
        {"resources": {"claims": [{"name": "gpu"}]}}, resourceClaims=[{"name": "gpu", "resourceClaimName": "gpus"}]
    ),
    "a status": (
        "Pod",
        {
            "spec": {"containers": [CONTAINER], "nodeName": "n"},
            "status": {
                "phase": "Running",
                "startTime": WHEN,
                "containerStatuses": [
                    {"name": "c", "image": "i", "imageID": "", "ready": False, "restartCount": 0}
                    | {"allocatedResources": {"cpu": "1"}}
                ],
            },
        },
    ),
    "a class of 0": ("PriorityClass", {"value": 0}),
    "a basic group": ("PodGroup", {"spec": {"schedulingPolicy": {"basic": {}}}}),
    "a workload": ("Workload", {"spec": {"podGroupTemplates": [{"name": "t", "schedulingPolicy": {"basic": {}}}]}}),
    "a tree": (
        "CompositePodGroup",
        {"spec": {"schedulingPolicy": {"basic": {}}, "workloadRef": {"workloadName": "w", "templateName": "t"}}},
    ),
    "a budget of 0": (
        "PodDisruptionBudget",
        {
            "spec": {"maxUnavailable": 0, "selector": {}},
            "status": {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0},
        },
    ),
    "a service": ("Service", {"spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}}),
    "a volume": (
        "PersistentVolume",
        {"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}},
    ),
    "a claim": ("PersistentVolumeClaim", {"spec": {**CLAIM, "storageClassName": ""}}),
    "a storage class": ("StorageClass", {"provisioner": "csi.example.com"}),
    "a driver": ("CSIDriver", {"spec": {}}),
    "a node's drivers": ("CSINode", {"spec": {"drivers": [{"name": "d", "nodeID": "n", "allocatable": {"count": 0}}]}}),
    "an attachment": (
        "VolumeAttachment",
        {"spec": {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "v"}}},
    ),
    "no capacity": ("CSIStorageCapacity", {"storageClassName": "s", "capacity": "0"}),
    "a device class": ("DeviceClass", {"spec": {}}),
    "a device claim": ("ResourceClaim", {"spec": {}}),
    "devices of a node": (
        "ResourceSlice",
        {
            "spec": {
                "driver": "d.example.com",
                "pool": {"name": "p", "generation": 0, "resourceSliceCount": 1},
                "nodeName": "n",
                "devices": [{"name": "d0"}],
            }
        },
    ),
    "a device taint": ("DeviceTaintRule", {"spec": {"taint": {"key": "a", "effect": "NoSchedule"}}}),
}


@pytest.mark.parametrize("anonymize", [False, True])
@pytest.mark.parametrize("name", LOADED)
def test_fields_that_the_api_demands_stay_in_a_snapshot(name: str, anonymize: bool) -> None:
    """Fields at their default too: `maxSkew: 1` is demanded of a topology spread constraint."""
    kind, fields = LOADED[name]
    (row,) = [one for one in KINDS if kind == one.KIND]
    meta = {"name": "x", **({"namespace": "default"} if row.NAMESPACED else {})}
    first, _ = server_of([{"apiVersion": VERSIONS[kind], "kind": kind, "metadata": meta, **fields}])
    there = [one for one in read_from(first) if kind == one.KIND and not one.name.startswith("system-")]
    assert len(there) == 1
    manifests = loadable(there, anonymize=anonymize)
    second, report = server_of(manifests)
    assert (len(manifests), report.left_out, report.warnings) == (
        int(not anonymize or row.__module__ != DEVICES),
        [],
        [],
    )
    if manifests and not anonymize:
        (again,) = [one for one in read_from(second) if kind == one.KIND and one.name == "x"]
        assert loadable([again])[0].get("spec") == manifests[0].get("spec")


DEVICES = o.ResourceSlice.__module__


@pytest.mark.parametrize("version", [VOLCANO_VERSION, COSCHEDULING_VERSION])
@pytest.mark.parametrize(
    "spec",
    [
        {"minMember": 2, "priorityClassName": "system-node-critical", "minTaskMember": {"w": 2}},
        {"minMember": 4, "subGroupPolicy": [{"name": "s", "subGroupSize": 2, "minSubGroups": 2}]},
        {},
    ],
)
def test_groups_of_other_schedulers_are_loaded_without_their_definition(version: str, spec: Json) -> None:
    """whatif.md 12.5."""
    if version == COSCHEDULING_VERSION:
        spec = {"minMember": 2}
    meta = {"name": "g", "namespace": "default"}
    given = {"apiVersion": version, "kind": "PodGroup", "metadata": meta, "spec": spec}
    group, _, _ = version.partition("/")
    first, report = server_of([given])
    assert (report.made, report.added) == (1, [f'CustomResourceDefinition "podgroups.{group}"'])
    there = [one for one in read_from(first) if isinstance(one, o.PodGroup)]
    assert [one.foreign is not None and one.foreign.api_version for one in there] == [version]
    second, report = server_of(loadable(there))
    assert (report.made, report.left_out) == (1, [])
    again = [one for one in read_from(second) if isinstance(one, o.PodGroup)]
    assert [(one.spec, one.foreign) for one in again] == [(one.spec, one.foreign) for one in there]
