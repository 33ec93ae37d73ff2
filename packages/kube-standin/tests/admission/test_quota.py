"""ResourceQuotas: what they charge, what they cover, what they refuse."""

from typing import Any

import pytest

from kube_rules.admission.amounts import ONE
from kube_rules.admission.usage import in_scope, usage_of
from kube_standin.admission_chain import AdmissionRequest, Step
from tests.admission.plane import Plane, pod, pod_group, refused

Json = dict[str, Any]


def quota(name: str, hard: Json, used: Json | None = None, **spec: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name},
        "spec": {"hard": hard, **spec},
        "status": {"hard": hard, "used": used if used is not None else dict.fromkeys(hard, "0")},
    }


def with_quota(plane: Plane, name: str, hard: Json, used: Json | None = None, **spec: Any) -> None:
    wanted = quota(name, hard, used, **spec)
    plane.create(wanted)
    plane.patch("v1", "ResourceQuota", name, {"status": wanted["status"]}, "status")


def used(plane: Plane, name: str) -> Json:
    found: Json = plane.get("v1", "ResourceQuota", name)["status"]["used"]
    return found


def sized(name: str, **requests: str) -> Json:
    return pod(name, containers=[{"name": "c", "image": "i", "resources": {"requests": requests}}])


def test_quota_with_empty_status_restricts_nothing(plane: Plane) -> None:
    plane.create({**quota("q", {"pods": "1"}), "status": {}})  # 538
    for name in ("a", "b"):
        plane.create(pod(name))


def test_quota_of_a_priority_class(plane: Plane) -> None:
    scope = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}
    with_quota(
        plane, "q", {"pods": "1", "requests.cpu": "1"}, {"pods": "1", "requests.cpu": "100m"}, scopeSelector=scope
    )
    error = refused(plane, pod("qp1", priorityClassName="high"))  # 540
    assert error.message == (
        'pods "qp1" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1'
    )
    plane.create(pod("qp2"))  # 541
    assert used(plane, "q") == {"pods": "1", "requests.cpu": "100m"}


def test_quota_charges_and_refuses(plane: Plane) -> None:
    with_quota(plane, "qm", {"requests.memory": "1Gi"})
    error = refused(plane, pod("qp3"))  # 544
    assert error.message == 'pods "qp3" is forbidden: failed quota: qm: must specify requests.memory for: c'
    plane.create(sized("qp4", memory="256Mi", cpu="1m"))  # 545
    assert used(plane, "qm") == {"requests.memory": "256Mi"}  # 546
    error = refused(plane, sized("qp5", memory="800Mi", cpu="1m"))  # 547
    assert error.message == (
        'pods "qp5" is forbidden: exceeded quota: qm, requested: requests.memory=800Mi, used: requests.memory=256Mi, '
        "limited: requests.memory=1Gi"
    )
    assert used(plane, "qm") == {"requests.memory": "256Mi"}


def test_quota_is_not_charged_by_dry_runs_and_failed_creates(plane: Plane) -> None:
    with_quota(plane, "q", {"pods": "5"})
    plane.create(pod("a"), dry_run=True)
    assert used(plane, "q") == {"pods": "0"}
    plane.create(pod("a"))
    assert refused(plane, pod("a")).reason == "AlreadyExists"
    assert used(plane, "q") == {"pods": "1"}


def test_create_within_a_create_is_charged_like_any_other(plane: Plane) -> None:
    """Charges belong to their request: another one that passes in between takes nothing from them."""

    class Twin(Step):
        kinds = frozenset(("pods",))

        def validate(self, request: AdmissionRequest) -> None:
            if request.name == "outer":
                plane.create(pod("inner"))

    plane.registry.chain.add(Twin())
    with_quota(plane, "q", {"pods": "3"})
    plane.create(pod("outer"))
    assert used(plane, "q") == {"pods": "2"}


def test_quota_counts_what_device_classes_serve(plane: Plane) -> None:
    """By either name of the resource (devices.md 4.1)."""
    names = ("example.com/gpu", "deviceclass.resource.kubernetes.io/gpu")
    with_quota(plane, "q", {f"requests.{name}": "1" for name in names})
    for name in names:
        one = {"requests": {name: "1"}, "limits": {name: "1"}}
        for turn, fits in (("first", True), ("second", False)):
            wanted = pod(f"{turn}-{names.index(name)}", containers=[{"name": "c", "image": "i", "resources": one}])
            if fits:
                plane.create(wanted)
            else:
                assert f"requested: requests.{name}=1, used: requests.{name}=1" in refused(plane, wanted).message


def test_quota_counts_every_kind(plane: Plane) -> None:
    with_quota(
        plane, "q", {"count/podgroups.scheduling.k8s.io": "1", "configmaps": "1", "requests.nvidia.com/gpu": "4"}
    )
    plane.create(pod_group("g"))
    assert "exceeded quota: q, requested: count/podgroups.scheduling.k8s.io=1" in refused(plane, pod_group("h")).message
    plane.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})
    assert refused(plane, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}}).code == 403
    gpu = {"requests": {"nvidia.com/gpu": "3"}, "limits": {"nvidia.com/gpu": "3"}}
    for name, fits in (("x", True), ("y", False)):
        wanted = pod(name, containers=[{"name": "c", "image": "i", "resources": gpu}])
        if fits:
            plane.create(wanted)
        else:
            assert (
                "requested: requests.nvidia.com/gpu=3, used: requests.nvidia.com/gpu=3"
                in refused(plane, wanted).message
            )


def test_quota_with_unknown_use(plane: Plane) -> None:
    with_quota(plane, "q", {"pods": "5"}, {})
    assert refused(plane, pod("x")).message == 'pods "x" is forbidden: status unknown for quota: q, resources: pods'


def test_quota_counts_limits_of_its_own(plane: Plane) -> None:
    """Limits count for `limits.*` and nowhere else; those of extended resources do not count at all."""
    with_quota(plane, "q", {"limits.cpu": "4", "limits.memory": "4Gi", "requests.cpu": "4"})
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "3", "memory": "2Gi", "a.com/x": "1"}}
    resources["requests"]["a.com/x"] = "1"
    for name in ("x", "y"):
        wanted = pod(name, containers=[{"name": "c", "image": "i", "resources": resources}])
        if name == "x":
            plane.create(wanted)
        else:
            assert (
                "requested: limits.cpu=3, used: limits.cpu=3, limited: limits.cpu=4" in refused(plane, wanted).message
            )
    assert used(plane, "q") == {"limits.cpu": "3", "limits.memory": "2Gi", "requests.cpu": "1"}


def test_quota_asks_what_a_pod_specifies(plane: Plane) -> None:
    """Each container states what a quota limits, unless the pod states it for all of them (PodLevelResources)."""
    with_quota(plane, "q", {"requests.cpu": "2"})
    assert "must specify requests.cpu for: c" in refused(plane, pod("none", cpu=None)).message
    plane.create(pod("whole", cpu=None, resources={"requests": {"cpu": "1500m"}}))
    assert used(plane, "q") == {"requests.cpu": "1500m"}
    assert "requested: requests.cpu=1" in refused(plane, pod("more", cpu="1")).message


def test_quota_asks_nothing_of_a_pod_that_is_there(plane: Plane) -> None:
    """One that was made before the quota was may still be written."""
    plane.create(pod("early", cpu=None))
    with_quota(plane, "q", {"requests.cpu": "2"})
    plane.patch("v1", "Pod", "early", {"metadata": {"labels": {"a": "b"}}})
    assert plane.get("v1", "Pod", "early")["metadata"]["labels"] == {"a": "b"}
    assert used(plane, "q") == {"requests.cpu": "0"}


@pytest.mark.parametrize(
    ("kind", "scope", "obj", "covered"),
    [
        ("PersistentVolumeClaim", "VolumeAttributesClass", {"spec": {"volumeAttributesClassName": "gold"}}, True),
        ("PersistentVolumeClaim", "VolumeAttributesClass", {"spec": {"volumeAttributesClassName": "tin"}}, False),
        (
            "PersistentVolumeClaim",
            "VolumeAttributesClass",
            {"status": {"currentVolumeAttributesClassName": "gold"}},
            True,
        ),
        ("PersistentVolumeClaim", "PriorityClass", {"spec": {"volumeAttributesClassName": "gold"}}, False),
        ("Pod", "VolumeAttributesClass", {"spec": {"volumeAttributesClassName": "gold"}}, False),
        ("Pod", "PriorityClass", {"spec": {"priorityClassName": "gold"}}, True),
        ("Service", "PriorityClass", {"spec": {"priorityClassName": "gold"}}, False),
    ],
)
def test_which_scopes_cover_which_kinds(plane: Plane, kind: str, scope: str, obj: Json, covered: bool) -> None:
    """pkg/quota of 1.36: a scope covers one kind; of another kind the quota counts nothing."""
    term = {"scopeName": scope, "operator": "In", "values": ["gold"]}
    selected = quota("q", {}, scopeSelector={"matchExpressions": [term]})
    assert in_scope(selected, plane.kind("v1", kind).resource, {"metadata": {"name": "x"}, **obj}) is covered


@pytest.mark.parametrize(
    ("scopes", "inside", "outside"),
    [
        (["BestEffort"], pod("i", cpu=None), pod("o")),
        (["NotBestEffort"], pod("i"), pod("o", cpu=None)),
        (["Terminating"], pod("i", activeDeadlineSeconds=5), pod("o")),
        (["NotTerminating"], pod("i"), pod("o", activeDeadlineSeconds=5)),
    ],
)
def test_quota_scopes(plane: Plane, scopes: list[str], inside: Json, outside: Json) -> None:
    with_quota(plane, "q", {"pods": "0"}, scopes=scopes)
    plane.create(outside)
    assert "exceeded quota: q" in refused(plane, inside).message


@pytest.mark.parametrize(
    ("operator", "values", "name", "covered"),
    [
        ("In", ["high"], "high", True),
        ("In", ["high"], "std", False),
        ("NotIn", ["high"], "std", True),
        ("NotIn", ["high"], "high", False),
        ("Exists", [], "high", True),
    ],
)
def test_quota_scope_selector(plane: Plane, operator: str, values: list[str], name: str, covered: bool) -> None:
    term: Json = {"scopeName": "PriorityClass", "operator": operator}
    if values:
        term["values"] = values
    with_quota(plane, "q", {"pods": "0"}, scopeSelector={"matchExpressions": [term]})
    if covered:
        assert "exceeded quota: q" in refused(plane, pod("x", priorityClassName=name)).message
    else:
        plane.create(pod("x", priorityClassName=name))


def test_quota_of_storage(plane: Plane) -> None:
    with_quota(plane, "q", {"requests.storage": "10Gi", "fast.storageclass.storage.k8s.io/requests.storage": "4Gi"})

    def claim(name: str, size: str, storage_class: str) -> Json:
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
            "storageClassName": storage_class,
        }
        return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}

    plane.create(claim("a", "3Gi", "fast"))
    assert "fast.storageclass.storage.k8s.io/requests.storage=3Gi" in refused(plane, claim("b", "3Gi", "fast")).message
    plane.create(claim("c", "7Gi", "slow"))
    assert refused(plane, claim("d", "1Gi", "slow")).code == 403


@pytest.mark.parametrize(
    ("spec", "node_ports", "load_balancers"),
    [
        ({}, 0, 0),
        ({"type": "ClusterIP"}, 0, 0),
        ({"type": "ExternalName"}, 0, 0),
        ({"type": "NodePort"}, 2, 0),
        ({"type": "NodePort", "allocateLoadBalancerNodePorts": False}, 2, 0),
        ({"type": "NodePort", "ports": None}, 0, 0),
        ({"type": "LoadBalancer"}, 2, 1),
        ({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": True}, 2, 1),
        ({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": False}, 0, 1),
        ({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": False,
          "ports": [{"port": 80, "nodePort": 30080}, {"port": 81}]}, 1, 1),
    ],
)  # fmt: skip
def test_service_uses(plane: Plane, spec: Json, node_ports: int, load_balancers: int) -> None:
    """pkg/quota/v1/evaluator/core/services.go: every port of these types; where none are allocated, the asked-for."""
    service = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}, {"port": 81}], **spec}}
    used = usage_of("services", service, plane.clock.now())
    counted = {name: one.nano / ONE.nano for name, one in used.items()}
    assert (counted.pop("services.nodeports", 0), counted.pop("services.loadbalancers", 0)) == (
        node_ports,
        load_balancers,
    )
    assert counted == {"services": 1, "count/services": 1}


def test_quota_of_node_ports(plane: Plane) -> None:
    """Services are counted by their ports at the door as well."""
    with_quota(plane, "q", {"services.nodeports": "2", "services.loadbalancers": "1"})

    def service(name: str, kind: str, ports: int) -> Json:
        spec = {"type": kind, "ports": [{"name": f"p{n}", "port": 80 + n} for n in range(ports)]}
        return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}

    plane.create(service("a", "ClusterIP", 3))
    plane.create(service("b", "LoadBalancer", 1))
    assert (
        "requested: services.nodeports=2, used: services.nodeports=1"
        in refused(plane, service("c", "NodePort", 2)).message
    )
    plane.create(service("d", "NodePort", 1))
