"""What may change of kinds other than pods, and label keys of new pods."""

from __future__ import annotations

import copy

import pytest

from kube_rules.defaults import apply_identity
from kube_rules.validation import validate_create, validate_update
from tests.recorded.shapes import shape, stored
from tests.rules.test_other_kinds import Json, _causes

POD = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
APPS = {"selector": {"matchLabels": {"a": "b"}}, "template": POD}
NOT_NEGATIVE = "must be greater than or equal to 0"


@pytest.mark.parametrize(
    ("kind", "path", "value", "expected"),
    [
        ("StatefulSet", "spec.updateStrategy.type", "Foo", ["spec.updateStrategy"]),
        (
            "StatefulSet",
            "spec.updateStrategy.rollingUpdate.partition",
            -1,
            ["spec.updateStrategy.rollingUpdate.partition"],
        ),
        ("StatefulSet", "spec.minReadySeconds", -1, ["spec.minReadySeconds"]),
        ("StatefulSet", "spec.revisionHistoryLimit", -1, []),
        ("DaemonSet", "spec.minReadySeconds", -1, ["spec.minReadySeconds"]),
        ("DaemonSet", "spec.revisionHistoryLimit", -1, ["spec.revisionHistoryLimit"]),
        (
            "DaemonSet",
            "spec.updateStrategy.rollingUpdate.maxUnavailable",
            0,
            ["spec.updateStrategy.rollingUpdate.maxUnavailable"],
        ),
        ("DaemonSet", "spec.updateStrategy.rollingUpdate.maxSurge", 1, ["spec.updateStrategy.rollingUpdate.maxSurge"]),
        ("DaemonSet", "spec.selector.matchLabels.a", "z", ["spec.selector", "spec.template.metadata.labels"]),
    ],
)
def test_changes_of_sets(kind: str, path: str, value: object, expected: list[str]) -> None:
    """An update through the main resource; what is wrong stands at these fields."""
    old = stored({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "x"}, "spec": copy.deepcopy(APPS)}, "d")
    assert [field for field, _ in _changed(old, kind, path, value, "")] == expected


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet"])
def test_numbers_of_a_status(kind: str) -> None:
    """None is below zero, none above that of all replicas, and an available replica is ready."""
    old = stored({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "x"}, "spec": copy.deepcopy(APPS)}, "d")
    old["status"] = {"replicas": 3, "readyReplicas": 2, "availableReplicas": 2}
    assert _changed(old, kind, "status.readyReplicas", 3, "status") == []
    found = _changed(old, kind, "status.replicas", -2, "status")
    assert found[0] == ("status.replicas", f"Invalid value: -2: {NOT_NEGATIVE}")
    assert ("status.readyReplicas", "Invalid value: 2: cannot be greater than status.replicas") in found
    said = ("status.availableReplicas", "Invalid value: 2: cannot be greater than readyReplicas")
    assert _changed(old, kind, "status.readyReplicas", 1, "status") == [said]


def test_phase_of_a_namespace() -> None:
    old = stored({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}})
    old["status"] = {"phase": "Active"}
    said = "Invalid value: \"Foo\": may only be 'Active' if `deletionTimestamp` is empty"
    assert _changed(old, "Namespace", "status.phase", "Foo", "status", "v1") == [("status.Phase", said)]
    assert _changed(old, "Namespace", "status.conditions", [], "status", "v1") == []


def test_claim_grows_only_when_it_is_bound() -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    for volume, expected in (("", ["spec"]), ("pv", [])):
        body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "x"}}
        old = stored({**body, "spec": {**copy.deepcopy(claim), **({"volumeName": volume} if volume else {})}}, "d")
        grown = {"requests": {"storage": "2Gi"}}
        found = _changed(old, "PersistentVolumeClaim", "spec.resources", grown, "", "v1")
        assert [field for field, _ in found] == expected


def _changed(
    old: Json, kind: str, path: str, value: object, subresource: str, version: str = "apps/v1"
) -> list[tuple[str, str]]:
    """What is wrong with setting the field at a path."""
    new = copy.deepcopy(old)
    *above, last = path.split(".")
    holder = new
    for step in above:
        holder = holder.setdefault(step, {})
    holder[last] = value
    return _causes(validate_update(shape(version, kind), new, old, subresource))


def test_label_keys_become_requirements_of_a_new_pod() -> None:
    """As a kube-apiserver stores them: keys of labels the pod has, in selectors that are there."""
    app = {"matchLabels": {"app": "x"}}
    keys = {"matchLabelKeys": ["hash", "none"], "topologyKey": "zone"}
    term = {**keys, "mismatchLabelKeys": ["tenant"], "labelSelector": copy.deepcopy(app)}
    spread = {**keys, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": copy.deepcopy(app)}
    affinity = {
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [copy.deepcopy(term)]},
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": copy.deepcopy(term)}]
        },
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "labels": {"hash": "1", "tenant": "t"}}}
    containers = [{"name": "c", "image": "i"}]
    bare = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}
    spec = {"containers": containers, "affinity": affinity, "topologySpreadConstraints": [spread, bare]}
    obj = stored({**pod, "spec": spec}, "d")
    assert _causes(validate_create(shape("v1", "Pod"), obj)) == []
    in_hash = {"key": "hash", "operator": "In", "values": ["1"]}
    not_in = {"key": "tenant", "operator": "NotIn", "values": ["t"]}
    found = obj["spec"]["affinity"]
    [required] = found["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    [preferred] = found["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    for one in (required, preferred["podAffinityTerm"]):
        assert one["labelSelector"] == {**app, "matchExpressions": [in_hash, not_in]}
    assert obj["spec"]["topologySpreadConstraints"][0]["labelSelector"] == {**app, "matchExpressions": [in_hash]}
    assert "labelSelector" not in obj["spec"]["topologySpreadConstraints"][1]


def test_label_key_that_the_selector_has_as_well() -> None:
    term = {"matchLabelKeys": ["a"], "topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}
    spread = {**copy.deepcopy(term), "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "labels": {"a": "1"}}}
    spec = {"containers": [{"name": "c", "image": "i"}], "affinity": affinity, "topologySpreadConstraints": [spread]}
    found = _causes(validate_create(shape("v1", "Pod"), stored({**pod, "spec": copy.deepcopy(spec)}, "d")))
    said = 'Invalid value: "a": exists in both matchLabelKeys and labelSelector'
    assert found == [
        ("spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0][0]", said),
        ("spec.topologySpreadConstraints[0][0]", said),
    ]


@pytest.mark.parametrize("own", [{}, {"mine": "1"}])
def test_job_without_labels_has_those_of_its_pods(own: Json) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]}}
    job = {"metadata": {"name": "x", "uid": "u", "labels": dict(own)}, "spec": {"template": template}}
    apply_identity(shape("batch/v1", "Job"), job)
    assert job["metadata"]["labels"] == (own or job["spec"]["template"]["metadata"]["labels"])  # type: ignore[index]
