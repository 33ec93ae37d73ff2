"""The table of the kinds that are served: plurals, versions, subresources, and how each kind is treated."""

from __future__ import annotations

import pytest

from kube_rules.admission.refusals import plural_of
from kube_standin.kinds import BUILTIN, KindTable, subresource
from tests.recorded.shapes import custom_kind, shape


@pytest.mark.parametrize(
    ("kind", "plural"),
    [("Pod", "pods"), ("Endpoints", "endpoints"), ("NetworkPolicy", "networkpolicies"),
     ("PriorityClass", "priorityclasses"), ("CSIStorageCapacity", "csistoragecapacities"),
     ("DeviceClass", "deviceclasses")],
)  # fmt: skip
def test_plurals(kind: str, plural: str) -> None:
    assert plural_of(kind) == plural


def test_rows_are_found_by_path_and_by_kind_and_go_again() -> None:
    table = KindTable()
    first = table.generation
    gang = custom_kind("example.com", "v1", "Gang")
    table.add(gang)
    assert table.at("example.com", "v1", "gangs") is table.of("example.com/v1", "Gang") is gang
    assert table.groups()["example.com"] == ["v1"]
    assert table.in_version("example.com", "v1") == [gang]
    table.remove(gang)
    table.remove(gang)
    assert table.at("example.com", "v1", "gangs") is table.of("example.com/v1", "Gang") is None
    assert "example.com" not in table.groups()
    assert table.generation == first + 3
    assert list(table) == list(BUILTIN)


def test_versions_stand_best_first_and_others_as_they_came() -> None:
    table = KindTable([custom_kind("g", version, "Gang") for version in ("v2", "v1", "v3beta1", "v3")])
    assert table.groups() == {"g": ["v3", "v2", "v1", "v3beta1"]}
    table = KindTable(
        [custom_kind("scheduling.k8s.io", version, "Gang") for version in ("v1alpha2", "v9", "v1beta1", "v1")]
    )
    assert table.groups() == {"scheduling.k8s.io": ["v1", "v1beta1", "v1alpha2", "v9"]}


def test_kinds_are_stored_in_one_version() -> None:
    table = KindTable()
    old, new = table.of("scheduling.k8s.io/v1alpha2", "PodGroup"), table.of("scheduling.k8s.io/v1beta1", "PodGroup")
    assert old is not None
    assert new is not None
    assert table.storage_kind(old) is table.storage_kind(new) is new
    lonely = custom_kind("g", "v1", "Gang", storage_version="g/v2")
    assert table.storage_kind(lonely) is lonely
    assert (new.api_version, new.resource, new.gvk) == (
        "scheduling.k8s.io/v1beta1",
        "podgroups.scheduling.k8s.io",
        ("scheduling.k8s.io", "v1beta1", "PodGroup"),
    )
    assert (shape("v1", "Pod").api_version, shape("v1", "Pod").resource) == ("v1", "pods")


@pytest.mark.parametrize(
    ("name", "verbs", "api_version", "kind"),
    [
        ("binding", ("create",), "v1", "Binding"),
        ("eviction", ("create",), "policy/v1", "Eviction"),
        ("scale", ("get", "patch", "update"), "autoscaling/v1", "Scale"),
        ("token", ("create",), "authentication.k8s.io/v1", "TokenRequest"),
        ("finalize", ("update",), "v1", "Pod"),
        ("status", ("get", "patch", "update"), "v1", "Pod"),
    ],
)
def test_subresources(name: str, verbs: tuple[str, ...], api_version: str, kind: str) -> None:
    found = subresource(shape("v1", "Pod"), name)
    assert (found.name, found.verbs, found.api_version, found.kind) == (name, verbs, api_version, kind)


WEBHOOKS = [
    f"{sort}{kind}"
    for sort in ("Mutating", "Validating")
    for kind in ("WebhookConfiguration", "AdmissionPolicy", "AdmissionPolicyBinding")
]
FLOW_CONTROL = ("FlowSchema", "PriorityLevelConfiguration")
STRATEGY = {
    "custom": set(),
    "namespaced": {"Namespace", "Node", "PersistentVolume", "PriorityClass", "CSIDriver", "CSINode", "StorageClass",
                   "VolumeAttachment", "VolumeAttributesClass", "DeviceClass", "DeviceTaintRule", "ResourceSlice",
                   "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "SelfSubjectReview", "TokenReview",
                   "SelfSubjectAccessReview", "SelfSubjectRulesReview", "SubjectAccessReview", "RuntimeClass",
                   "APIService", "CertificateSigningRequest", "IngressClass", "IPAddress", "ServiceCIDR",
                   *FLOW_CONTROL, *WEBHOOKS},
    "generation": {"Pod", "PodTemplate", "ReplicationController", "DaemonSet", "Deployment", "ReplicaSet",
                   "StatefulSet", "CronJob", "Job", "PriorityClass", "PodDisruptionBudget", "EndpointSlice",
                   "CSIDriver", "DeviceClass", "DeviceTaintRule", "ResourceSlice", "CustomResourceDefinition",
                   "Ingress", "IngressClass", "NetworkPolicy", *FLOW_CONTROL, *WEBHOOKS},
    # Which kinds differ from what most do, as kube-apiserver's strategies have it.
    "graceful": {"Pod"},
    "orphans": {"Job", "ReplicationController"},
    "stored": {"Binding", "SelfSubjectReview", "TokenReview", "LocalSubjectAccessReview", "SelfSubjectAccessReview",
               "SelfSubjectRulesReview", "SubjectAccessReview"},
    "status_on_create": {"Node"},
    "create_on_update": {"Endpoints", "Event", "LimitRange", "Service", "Lease", "ClusterRole", "ClusterRoleBinding",
                         "Role", "RoleBinding"},
    "unconditional_update": {"ServiceAccount", "PodDisruptionBudget", "Lease", "CSIDriver", "CSINode",
                             "CSIStorageCapacity", "VolumeAttachment", "CustomResourceDefinition", "RuntimeClass",
                             "APIService", *FLOW_CONTROL, *WEBHOOKS},
    "returns_deleted": {"PersistentVolume", "PersistentVolumeClaim", "Pod", "PodTemplate", "ResourceQuota", "Service",
                        "ServiceAccount", "CSIDriver", "CSINode", "StorageClass", "VolumeAttachment",
                        "VolumeAttributesClass"},
}  # fmt: skip


@pytest.mark.parametrize("word", STRATEGY)
def test_how_kinds_are_treated(word: str) -> None:
    usual = word in ("stored", "unconditional_update", "namespaced")
    unusual = [kind.gvk for kind in KindTable() if kind.kind in STRATEGY[word]]
    assert [kind.gvk for kind in KindTable() if getattr(kind, word) is not usual] == unusual
