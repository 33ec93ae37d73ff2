"""What a pod requests and is limited to, and what objects use of a quota: exactly, and in the form it was written in.

Quantities and requests: docs/rules/api.md; pkg/quota/v1/evaluator/core of kube-apiserver 1.36.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kube_rules.admission.amounts import ONE, ZERO, added, amount, amounts, of_pod, printed, subtracted
from kube_rules.admission.usage import in_scope, is_over, unspecified, usage_of
from tests.admission.plane import START, Plane

Json = dict[str, Any]
PLANE = Plane()


def holder(requests: Json | None = None, limits: Json | None = None, **more: Any) -> Json:
    """A container, or a pod's own resources."""
    parts = {"requests": requests, "limits": limits}
    return {"name": "c", "resources": {name: part for name, part in parts.items() if part is not None}, **more}


def sidecar(cpu: str) -> Json:
    return holder({"cpu": cpu}, restartPolicy="Always")


def asks(cpu: str, **more: Any) -> Json:
    return holder({"cpu": cpu}, **more)


@pytest.mark.parametrize(
    ("spec", "requests"),
    [
        ({}, {}),
        ({"containers": [asks("1"), asks("500m")]}, {"cpu": "1500m"}),
        # An init container runs alone: what counts is the most that is asked for at any time.
        ({"containers": [asks("1")], "initContainers": [asks("3"), asks("2")]}, {"cpu": "3"}),
        ({"containers": [asks("4")], "initContainers": [asks("3")]}, {"cpu": "4"}),
        ({"containers": [asks("1")], "initContainers": [holder({"memory": "1Gi"})]}, {"cpu": "1", "memory": "1Gi"}),
        # One that is restarted runs beside those after it, and beside the containers.
        ({"containers": [asks("1")], "initContainers": [sidecar("2")]}, {"cpu": "3"}),
        ({"containers": [asks("1")], "initContainers": [sidecar("2"), asks("5")]}, {"cpu": "7"}),
        ({"containers": [asks("1")], "initContainers": [asks("5"), sidecar("2")]}, {"cpu": "5"}),
        ({"containers": [asks("1")], "initContainers": [sidecar("2"), sidecar("3"), asks("1")]}, {"cpu": "6"}),
        ({"containers": [asks("1")], "initContainers": [sidecar("2"), asks("4"), sidecar("3")]}, {"cpu": "6"}),
        # What the pod states for all of them counts instead, for cpu, memory and huge pages.
        ({"containers": [asks("1")], "resources": holder({"cpu": "2"})["resources"]}, {"cpu": "2"}),
        ({"containers": [asks("3")], "resources": holder({"cpu": "2"})["resources"]}, {"cpu": "2"}),
        ({"containers": [asks("1")], "resources": holder({"memory": "1Gi"})["resources"]},
         {"cpu": "1", "memory": "1Gi"}),
        ({"containers": [asks("1")], "resources": holder({"nvidia.com/gpu": "2"})["resources"]}, {"cpu": "1"}),
        ({"containers": [asks("1")], "resources": holder({"hugepages-2Mi": "4Mi"})["resources"]},
         {"cpu": "1", "hugepages-2Mi": "4Mi"}),
        # Overhead comes on top of everything.
        ({"containers": [asks("1")], "overhead": {"cpu": "250m", "memory": "64Mi"}},
         {"cpu": "1250m", "memory": "64Mi"}),
        ({"containers": [asks("1")], "resources": holder({"cpu": "2"})["resources"], "overhead": {"cpu": "1"}},
         {"cpu": "3"}),
    ],
)  # fmt: skip
def test_pod_requests(spec: Json, requests: Json) -> None:
    """api.md "Quantities and requests"; resourcehelper.PodRequests."""
    assert printed(of_pod(spec, "requests")) == requests


@pytest.mark.parametrize(
    ("spec", "limits"),
    [
        ({"containers": [holder({"cpu": "1"}, {"cpu": "2"}), holder({"cpu": "1"})]}, {"cpu": "2"}),
        ({"containers": [holder(limits={"cpu": "2"})], "resources": holder(limits={"cpu": "5"})["resources"]},
         {"cpu": "5"}),
        # Overhead raises a limit and makes none.
        ({"containers": [holder(limits={"cpu": "2"})], "overhead": {"cpu": "1", "memory": "64Mi"}}, {"cpu": "3"}),
        ({"containers": [holder({"cpu": "2"})], "overhead": {"cpu": "1"}}, {}),
    ],
)  # fmt: skip
def test_pod_limits(spec: Json, limits: Json) -> None:
    """resourcehelper.PodLimits."""
    assert printed(of_pod(spec, "limits")) == limits


@pytest.mark.parametrize(
    ("left", "right", "total", "difference"),
    [
        ({"a": "1"}, {"a": "500m"}, {"a": "1500m"}, {"a": "500m"}),
        ({"a": "1Gi"}, {"a": "1G"}, {"a": "2073741824"}, {"a": "73741824"}),
        ({"a": "0"}, {"a": "1Gi"}, {"a": "1Gi"}, {"a": "-1Gi"}),
        ({"b": "1"}, {"a": "2"}, {"a": "2", "b": "1"}, {"a": "-2", "b": "1"}),
        ({}, {}, {}, {}),
    ],
)
def test_sums_have_the_form_of_their_first_part(left: Json, right: Json, total: Json, difference: Json) -> None:
    """Quantities are added as upstream adds them; nothing has no form. They are printed by name."""
    assert printed(added(amounts(left), amounts(right))) == total
    assert list(printed(added(amounts(left), amounts(right)))) == sorted(total)
    assert printed(subtracted(amounts(left), amounts(right))) == difference


def test_amounts_of_one_and_nothing() -> None:
    assert (amount("1"), amount(0)) == (ONE, ZERO)
    assert (ONE.text, ZERO.text) == ("1", "0")


def claim(size: str | None = None, storage_class: str | None = None, annotation: str | None = None) -> Json:
    spec: Json = {"resources": {"requests": {"storage": size}}} if size else {}
    if storage_class is not None:
        spec["storageClassName"] = storage_class
    annotations = {"volume.beta.kubernetes.io/storage-class": annotation} if annotation else {}
    return {"metadata": {"name": "x", "annotations": annotations}, "spec": spec}


def of_class(name: str, **used: str) -> Json:
    return {f"{name}.storageclass.storage.k8s.io/{key.replace('_', '.')}": value for key, value in used.items()}


def of_containers(*containers: Json) -> Json:
    return {"metadata": {"name": "x"}, "spec": {"containers": list(containers)}}


_PODS: Json = {"count/pods": "1", "pods": "1"}
_CLAIMS: Json = {"count/persistentvolumeclaims": "1", "persistentvolumeclaims": "1"}


@pytest.mark.parametrize(
    ("api_version", "kind", "obj", "used"),
    [
        ("v1", "Pod", of_containers(), _PODS),
        ("v1", "Pod", of_containers(asks("1")), {**_PODS, "cpu": "1", "requests.cpu": "1"}),
        ("v1", "Pod", of_containers(holder({"memory": "1Gi"}, {"cpu": "2", "memory": "2Gi"})),
         {**_PODS, "memory": "1Gi", "requests.memory": "1Gi", "limits.cpu": "2", "limits.memory": "2Gi"}),
        ("v1", "Pod", of_containers(holder({"ephemeral-storage": "1Gi"}, {"ephemeral-storage": "2Gi"})),
         {**_PODS, "ephemeral-storage": "1Gi", "requests.ephemeral-storage": "1Gi",
          "limits.ephemeral-storage": "2Gi"}),
        # Huge pages and resources of vendors are not overcommitted: their limits are their requests.
        ("v1", "Pod", of_containers(holder({"hugepages-2Mi": "4Mi"}, {"hugepages-2Mi": "4Mi"})),
         {**_PODS, "hugepages-2Mi": "4Mi", "requests.hugepages-2Mi": "4Mi"}),
        ("v1", "Pod", of_containers(holder({"a.com/x": "2"}, {"a.com/x": "2"})), {**_PODS, "requests.a.com/x": "2"}),
        ("v1", "PersistentVolumeClaim", claim(), _CLAIMS),
        ("v1", "PersistentVolumeClaim", claim("1Gi"), {**_CLAIMS, "requests.storage": "1Gi"}),
        ("v1", "PersistentVolumeClaim", claim("1Gi", "fast"),
         {**_CLAIMS, "requests.storage": "1Gi",
          **of_class("fast", persistentvolumeclaims="1", requests_storage="1Gi")}),
        ("v1", "PersistentVolumeClaim", claim(None, "fast"),
         {**_CLAIMS, **of_class("fast", persistentvolumeclaims="1")}),
        # The annotation of old wins.
        ("v1", "PersistentVolumeClaim", claim("1Gi", "fast", "old"),
         {**_CLAIMS, "requests.storage": "1Gi", **of_class("old", persistentvolumeclaims="1", requests_storage="1Gi")}),
        ("v1", "ConfigMap", {"metadata": {}}, {"count/configmaps": "1", "configmaps": "1"}),
        ("v1", "Secret", {"metadata": {}}, {"count/secrets": "1", "secrets": "1"}),
        ("v1", "Event", {"metadata": {}}, {"count/events": "1"}),
        # Kinds of other groups are counted by their full name alone, also one that is called as a core one is.
        ("apps/v1", "Deployment", {"metadata": {}}, {"count/deployments.apps": "1"}),
        ("events.k8s.io/v1", "Event", {"metadata": {}}, {"count/events.events.k8s.io": "1"}),
    ],
)  # fmt: skip
def test_objects_use(api_version: str, kind: str, obj: Json, used: Json) -> None:
    """A quota counts objects by name, of some core kinds by their bare plural too; and what pods and claims ask for."""
    found = usage_of(PLANE.kind(api_version, kind).resource, obj, START)
    assert {name: one.text for name, one in found.items()} == used


ENDS = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("status", "metadata", "seconds", "over"),
    [
        ({}, {}, 0, False),
        ({"phase": "Running"}, {}, 0, False),
        ({"phase": "Succeeded"}, {}, 0, True),
        ({"phase": "Failed"}, {}, 0, True),
        # One that is going counts until its grace is over.
        ({}, {"deletionTimestamp": "2026-01-01T12:00:00Z", "deletionGracePeriodSeconds": 30}, 30, False),
        ({}, {"deletionTimestamp": "2026-01-01T12:00:00Z", "deletionGracePeriodSeconds": 30}, 31, True),
        ({}, {"deletionTimestamp": "2026-01-01T12:00:00Z", "deletionGracePeriodSeconds": 0}, 1, True),
        ({}, {"deletionTimestamp": "2026-01-01T12:00:00Z"}, 99, False),
        ({}, {"deletionGracePeriodSeconds": 0}, 99, False),
    ],
)
def test_when_a_pod_uses_nothing_any_more(status: Json, metadata: Json, seconds: int, over: bool) -> None:
    """QuotaV1Pod: terminal, or terminating past its grace. It is still an object, and counted as one."""
    pod = {**of_containers(asks("1")), "metadata": metadata, "status": status}
    now = ENDS + timedelta(seconds=seconds)
    assert is_over(pod, now) is over
    used = {name: one.text for name, one in usage_of("pods", pod, now).items()}
    assert used == ({"count/pods": "1"} if over else {**_PODS, "cpu": "1", "requests.cpu": "1"})


@pytest.mark.parametrize(
    ("spec", "hard", "said"),
    [
        ({"containers": [holder()]}, {"pods": "1", "requests.a.com/x": "1", "limits.ephemeral-storage": "1"}, ""),
        ({"containers": [holder()]}, {"cpu": "1"}, "must specify cpu for: c"),
        ({"containers": [asks("1")]}, {"cpu": "1", "requests.cpu": "1"}, ""),
        ({"containers": [asks("1")]}, {"limits.cpu": "1", "memory": "1"},
         "must specify limits.cpu for: c; memory for: c"),
        ({"containers": [asks("1", name="z"), holder(name="b"), holder(name="a")]}, {"cpu": "1"},
         "must specify cpu for: a,b"),
        ({"containers": [asks("1")], "initContainers": [holder(name="i")]}, {"cpu": "1"}, "must specify cpu for: i"),
        ({"containers": [holder()], "resources": {"requests": {"memory": "1"}}}, {"cpu": "1"}, ""),
    ],
)  # fmt: skip
def test_quota_names_what_containers_fail_to_specify(spec: Json, hard: Json, said: str) -> None:
    """PodEvaluator.Constraints: sorted by resource, then by container; a pod that states resources answers for all."""
    assert unspecified({"spec": spec}, hard) == said


def near(**term: Any) -> Json:
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "z", **term}]}}


def apart(**term: Any) -> Json:
    preferred = [{"weight": 1, "podAffinityTerm": {"topologyKey": "z", **term}}]
    return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


def scoped(scope: str, operator: str | None = None, values: list[str] | None = None) -> Json:
    if operator is None:
        return {"spec": {"scopes": [scope]}}
    term = {"scopeName": scope, "operator": operator, "values": values or []}
    return {"spec": {"scopeSelector": {"matchExpressions": [term]}}}


@pytest.mark.parametrize(
    ("quota", "spec", "covered"),
    [
        ({}, {}, True),
        ({"spec": {}}, {}, True),
        (scoped("CrossNamespacePodAffinity"), {}, False),
        (scoped("CrossNamespacePodAffinity"), {"affinity": {"nodeAffinity": {}}}, False),
        (scoped("CrossNamespacePodAffinity"), {"affinity": near()}, False),
        (scoped("CrossNamespacePodAffinity"), {"affinity": near(namespaces=["a"])}, True),
        (scoped("CrossNamespacePodAffinity"), {"affinity": near(namespaces=[])}, False),
        (scoped("CrossNamespacePodAffinity"), {"affinity": near(namespaceSelector={})}, True),
        (scoped("CrossNamespacePodAffinity"), {"affinity": apart(namespaces=["a"])}, True),
        (scoped("CrossNamespacePodAffinity"), {"affinity": apart()}, False),
        (scoped("CrossNamespacePodAffinity"), {"affinity": {**near(), **apart(namespaceSelector={})}}, True),
        (scoped("BestEffort"), {"containers": [holder(limits={"cpu": "1"})]}, False),
        (scoped("BestEffort"), {"containers": [holder({"memory": "1"})]}, False),
        (scoped("BestEffort"), {"containers": [holder({"cpu": "0"})]}, True),
        (scoped("BestEffort"), {"containers": [holder({"a.com/x": "1"})]}, True),
        (scoped("Terminating"), {"activeDeadlineSeconds": 0}, True),
        (scoped("NotTerminating"), {"activeDeadlineSeconds": 0}, False),
        (scoped("Nobody"), {}, False),
        (scoped("PriorityClass"), {}, False),
        (scoped("PriorityClass"), {"priorityClassName": "a"}, True),
        (scoped("PriorityClass", "Exists"), {}, False),
        (scoped("PriorityClass", "DoesNotExist"), {}, True),
        (scoped("PriorityClass", "DoesNotExist"), {"priorityClassName": "a"}, False),
        (scoped("PriorityClass", "NotIn", ["a"]), {}, True),
        (scoped("PriorityClass", "In", ["a", "b"]), {"priorityClassName": "b"}, True),
        ({"spec": {"scopes": ["Terminating", "BestEffort"]}}, {"activeDeadlineSeconds": 1}, True),
        ({"spec": {"scopes": ["Terminating", "NotBestEffort"]}}, {"activeDeadlineSeconds": 1}, False),
        ({"spec": {"scopes": ["NotTerminating"], **scoped("PriorityClass", "Exists")["spec"]}}, {}, False),
    ],
)  # fmt: skip
def test_scopes_of_a_quota(quota: Json, spec: Json, covered: bool) -> None:
    """All scopes have to fit; an unknown one fits nothing."""
    assert in_scope(quota, "pods", {"metadata": {}, "spec": spec}) is covered
