"""What a change is refused for: immutability and what only updates can break (transcripts 104 to 571)."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kube_rules.defaults import apply_defaults
from kube_rules.validation import validate_update
from kube_standin.patching import json_patch, merge_patch, strategic_merge
from kube_standin.schema import schema_for
from tests.recorded.oracle import needs_transcripts, transcript
from tests.recorded.shapes import pod, shape, stored

Json = dict[str, Any]
_ADMITTED = {
    "tolerations": [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in ("not-ready", "unreachable")
    ],
    "priorityClassName": "std",
    "priority": 10,
    "preemptionPolicy": "PreemptLowerPriority",
}


def _live(create: int) -> Json:
    """The object a recorded create left behind, with what admission fills in."""
    obj: Json = stored(copy.deepcopy(transcript(create).body))
    if obj["kind"] == "Pod":
        obj["spec"] |= {key: value for key, value in _ADMITTED.items() if key not in obj["spec"]}
    if obj["kind"] == "PodGroup":
        obj["spec"] |= {"priorityClassName": obj["spec"].get("priorityClassName", "std"), "priority": 10}
    return obj


def _changed(live: Json, content_type: str, body: Any) -> Json:
    schema = schema_for(live["apiVersion"], live["kind"])
    if "json-patch" in content_type:
        new = json_patch(live, body)
    elif "strategic" in content_type:
        new = strategic_merge(schema, live, body)
    elif "merge" in content_type:
        new = merge_patch(live, body)
    else:
        new = copy.deepcopy(body)
        new["metadata"] = {**live["metadata"], **new.get("metadata", {})}
    cleaned, _, problems = schema.check(new, collect_unknown=False)
    assert not problems
    cleaned = copy.deepcopy(cleaned)
    apply_defaults(shape(live["apiVersion"], live["kind"]), cleaned)
    return cleaned


def _without_diff(message: str) -> str:
    """The first line: the diff that follows shows Go's field names upstream and ours here."""
    return message.partition("\n")[0]


@needs_transcripts
@pytest.mark.parametrize(
    ("create", "change", "subresource"),
    [
        (93, 104, ""),
        (93, 105, ""),
        (136, 253, ""),
        (115, 124, ""),
        (116, 127, ""),
        (115, 128, "status"),
        (136, 239, ""),
        (136, 241, ""),
        (136, 242, ""),
        (364, 313, ""),
        (418, 431, ""),
        (418, 432, ""),
        (418, 433, ""),
        (419, 434, ""),
        *((439, number, "") for number in range(469, 476)),
        (454, 476, ""),
        (439, 480, "status"),
        (439, 481, "status"),
        (136, 495, ""),
        (518, 534, ""),
    ],
)
def test_recorded_refusals(create: int, change: int, subresource: str) -> None:
    one = transcript(change)
    live = _live(create)
    if change == 253:
        live["metadata"]["uid"] = "00000000-0000-4000-8000-000000000019"
    if change == 313:
        live |= {"immutable": True, "data": {"a": "4"}}
    body = one.body
    if change == 104:
        live["metadata"] = body["metadata"]
    if change == 474:
        assert "podGroupTemplateRef" in str(body)
    if change == 534:
        live["metadata"]["namespace"] = "w1"
    new = _changed(live, one.content_type, body)
    found = validate_update(shape(live["apiVersion"], live["kind"]), new, live, subresource)
    got = [(e.reason, e.path, _without_diff(e.message)) for e in found]
    assert got == [(reason, field, _without_diff(message)) for reason, field, message in one.causes]


@pytest.mark.parametrize(
    ("before", "after", "allowed"),
    [
        ({}, {"activeDeadlineSeconds": 5}, True),
        ({"activeDeadlineSeconds": 5}, {"activeDeadlineSeconds": 4}, True),
        ({"activeDeadlineSeconds": 5}, {"activeDeadlineSeconds": 6}, False),
        ({"activeDeadlineSeconds": 5}, {"activeDeadlineSeconds": None}, False),
        ({}, {"tolerations": [{"key": "a", "operator": "Exists"}]}, True),
        ({"tolerations": [{"key": "a", "operator": "Exists"}]}, {"tolerations": None}, False),
        ({"schedulingGates": [{"name": "a"}]}, {"schedulingGates": None}, True),
        ({"schedulingGates": [{"name": "a"}]}, {"nodeSelector": {"z": "1"}}, True),
        ({"schedulingGates": [{"name": "a"}], "nodeSelector": {"z": "1"}}, {"nodeSelector": {"z": "2"}}, False),
        ({}, {"nodeSelector": {"z": "1"}}, False),
        ({}, {"schedulerName": "other"}, False),
        ({}, {"containers": [{"name": "c", "image": "img:2", "imagePullPolicy": "Always"}]}, True),
        ({}, {"containers": [{"name": "c", "image": "img:2"}]}, False),  # the policy follows the tag: IfNotPresent
        ({}, {"containers": [{"name": "c", "image": "img:1"}, {"name": "d", "image": "x"}]}, False),
        ({}, {"containers": [{"name": "c", "image": "i", "env": [{"name": "A"}]}]}, False),
        ({"terminationGracePeriodSeconds": -1}, {"terminationGracePeriodSeconds": 1}, True),
        ({"terminationGracePeriodSeconds": 5}, {"terminationGracePeriodSeconds": 1}, False),
        ({}, {"schedulingGroup": {"podGroupName": "g"}}, False),
    ],
)
def test_pod_fields_that_may_change(before: Json, after: Json, allowed: bool) -> None:
    """api.md 2.3."""
    live = stored(pod(**before))
    new = _changed(live, "merge", {"spec": after})
    found = validate_update(shape("v1", "Pod"), new, live, None)
    assert (found == []) == allowed, found


def test_refusal_of_a_pod_shows_what_changed() -> None:
    live = stored(pod())
    new = _changed(live, "merge", {"spec": {"priority": 3}})
    (error,) = validate_update(shape("v1", "Pod"), new, live, None)
    told, head, *shown = error.message.splitlines()
    assert told.startswith("Forbidden: pod updates may not change fields other than")
    # As recorded (234, 241, 242): no names of files before it, three lines around what changed and no more.
    assert head.startswith("@@ -")
    added = shown.index('+ "priority": 3,')
    assert (added, len(shown)) == (3, 7)
    assert all(line.startswith(" ") for line in (*shown[:added], *shown[added + 1 :]))


@pytest.mark.parametrize("version", ["v1beta1", "v1alpha3"])
def test_min_count_may_change_in_the_newer_versions(version: str) -> None:
    """api.md: only minCount is mutable, the choice of the policy is not."""
    api_version = f"scheduling.k8s.io/{version}"
    policy = {"gang": {"minCount": 2}}
    template = {"name": "a", "schedulingPolicy": policy}
    for kind, spec, path in (
        ("PodGroup", {"schedulingPolicy": policy}, ["schedulingPolicy"]),
        ("Workload", {"podGroupTemplates": [template]}, ["podGroupTemplates", 0, "schedulingPolicy"]),
    ):
        live = stored({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, "spec": spec})
        pointer = "/spec/" + "/".join(str(step) for step in path)
        for value, count in (({"gang": {"minCount": 3}}, 0), ({"gang": {"minCount": 0}}, 1), ({"basic": {}}, 1)):
            new = json_patch(live, [{"op": "replace", "path": pointer, "value": value}])
            found = validate_update(shape(api_version, kind), new, live, "")
            assert len(found) == count, (kind, value, found)


_DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "d"},
    "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b", "c": "d"}}, "spec": pod()["spec"]},
    },
}
_JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "j"},
    "spec": {"suspend": True, "template": {"spec": {**pod()["spec"], "restartPolicy": "Never"}}},
}


_CLAIM: Json = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "c"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "s"},
}
_BOUND = {**_CLAIM, "spec": {**_CLAIM["spec"], "volumeName": "v"}}
_VOLUME: Json = {
    "apiVersion": "v1",
    "kind": "PersistentVolume",
    "metadata": {"name": "v"},
    "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}},
}


def _reaching(key: str) -> Json:
    """The node affinity of a volume that is on nodes with a label."""
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": key, "operator": "Exists"}]}]}}


_LOCAL = {**_VOLUME, "spec": {**_VOLUME["spec"], "nodeAffinity": _reaching("a")}}


@pytest.mark.parametrize(
    ("body", "patch", "fields"),
    [
        (_DEPLOYMENT, {"spec": {"replicas": 5}}, []),
        (_DEPLOYMENT, {"spec": {"selector": {"matchLabels": {"c": "d"}}}}, ["spec.selector"]),
        (_JOB, {"spec": {"parallelism": 2}}, []),
        (_JOB, {"spec": {"completions": 2}}, ["spec.completions"]),
        (_JOB, {"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}}, []),
        (_JOB, {"spec": {"template": {"spec": {"priorityClassName": "x"}}}}, ["spec.template"]),
        ({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}, {"type": "x"}, ["type"]),
        ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "immutable": True},
         {"immutable": False}, ["immutable"]),
        ({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}}, {"spec": {"scopes": ["BestEffort"]}},
         ["spec.scopes"]),
        ({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "s"}, "provisioner": "p"},
         {"provisioner": "q", "parameters": {"a": "b"}, "reclaimPolicy": "Retain"},
         ["parameters", "provisioner", "reclaimPolicy"]),
        (_CLAIM, {"spec": {"volumeName": "v"}}, []),
        (_BOUND, {"spec": {"volumeName": "w"}}, ["spec"]),
        (_BOUND, {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}, []),
        (_BOUND, {"spec": {"resources": {"requests": {"storage": "1024Mi"}}}}, []),
        (_BOUND, {"spec": {"resources": {"requests": {"storage": "1023Mi"}}}}, ["spec.resources.requests.storage"]),
        (_BOUND, {"spec": {"volumeAttributesClassName": "fast"}}, []),
        (_BOUND, {"spec": {"storageClassName": "t"}}, ["spec"]),
        (_CLAIM, {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}, ["spec"]),
        (_VOLUME, {"spec": {"capacity": {"storage": "2Gi"}}}, []),
        (_VOLUME, {"spec": {"hostPath": {"path": "/y"}}}, ["spec.persistentvolumesource"]),
        (_VOLUME, {"spec": {"nodeAffinity": _reaching("a")}}, []),
        (_LOCAL, {"spec": {"nodeAffinity": _reaching("b")}}, ["spec.nodeAffinity"]),
        (_LOCAL, {"spec": {"nodeAffinity": None}}, ["spec.nodeAffinity"]),
        (_LOCAL, {"spec": {"nodeAffinity": _reaching("a")}}, []),
        ({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"}},
         {"spec": {"devices": {"requests": []}}}, ["spec"]),
        ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "uid": "u"}}, {"metadata": {"uid": "v"}},
         ["metadata.uid", "metadata.uid"]),
        ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}, {"metadata": {"labels": {"a b": "c"}}},
         ["metadata.labels"]),
        ({"apiVersion": "v1", "kind": "ConfigMap",
          "metadata": {"name": "c", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a.b/c"]}},
         {"metadata": {"finalizers": ["a.b/c", "a.b/d"]}}, ["metadata.finalizers"]),
    ],
)  # fmt: skip
def test_other_kinds(body: Json, patch: Json, fields: list[str]) -> None:
    live = stored(copy.deepcopy(body))
    new = _changed(live, "merge", patch)
    found = validate_update(shape(body["apiVersion"], body["kind"]), new, live, "")
    assert [error.path for error in found] == fields


def test_update_through_status_is_held_to_the_rules_of_the_status_only() -> None:
    live = stored(pod())
    broken = {**live, "spec": {}}
    assert validate_update(shape("v1", "Pod"), broken, live, "status") == []
