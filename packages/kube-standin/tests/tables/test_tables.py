"""Tables as `kubectl get` prints them (transcripts 108, 133, 280 to 287, 386, 437, 488, 535, 579)."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_rules.flow_control import FLOW_SCHEMAS, PRIORITY_LEVELS
from kube_standin import kinds
from kube_standin.kinds import ServedKind
from kube_standin.tables import ages, columns_of, jsonpaths, table
from tests.recorded.oracle import Transcript, every, needs_transcripts, transcript
from tests.recorded.shapes import custom_kind, pod, shape, stored

Json = dict[str, Any]
NOW = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
_PLURALS = {kind.plural: shape(kind.api_version, kind.kind) for kind in reversed(kinds.BUILTIN)}


def cells(kind: ServedKind, obj: Json, now: datetime = NOW) -> Json:
    """Heading -> cell."""
    made = table(kind, [obj], include_object="None", now=now, list_meta={})
    headings = [column["name"] for column in made["columnDefinitions"]]
    return dict(zip(headings, made["rows"][0]["cells"], strict=True))


def _tables() -> list[Transcript]:
    return [
        t for t in every() if isinstance(t.answer, dict) and t.answer.get("kind") == "Table" and "gangs" not in t.path
    ]


def _shape_of(one: Transcript) -> ServedKind:
    steps = one.path.partition("?")[0].strip("/").split("/")
    return next(_PLURALS[step] for step in reversed(steps) if step in _PLURALS and step != "namespaces")


@needs_transcripts
@pytest.mark.parametrize("one", _tables(), ids=lambda t: t.name)
def test_headings_are_the_recorded_ones(one: Transcript) -> None:
    made = table(_shape_of(one), [], include_object="", now=NOW, list_meta={})["columnDefinitions"]
    recorded = copy.deepcopy(one.answer["columnDefinitions"])
    for mine, theirs in zip(made, recorded, strict=True):
        # Field documentation begins with the field's name since 1.37, and some grew or lost a sentence.
        for column in (mine, theirs):
            column["description"] = column["description"].lower().partition(". ")[0]
        assert mine == theirs


@needs_transcripts
@pytest.mark.parametrize(
    ("create", "listed", "row"),
    [
        (93, 108, 0),
        (94, 108, 1),
        (116, 133, 1),
        (379, 386, 0),
        (381, 386, 1),
        (418, 437, 0),
        (440, 488, 1),
        (442, 488, 3),
    ],
)
def test_cells_are_the_recorded_ones(create: int, listed: int, row: int) -> None:
    obj = stored(copy.deepcopy(transcript(create).body))
    one = transcript(listed)
    found = cells(shape(obj["apiVersion"], obj["kind"]), obj)
    recorded = one.answer["rows"][row]["cells"]
    assert [cell for cell in found.values() if cell != "<unknown>"] == [
        cell for cell in recorded if cell not in ("<age>", "<unknown>")
    ]


@pytest.mark.parametrize(
    ("status", "spec", "meta", "expected"),
    [
        ({"phase": "Pending"}, {}, {}, "Pending"),
        ({"phase": "Running"}, {}, {"deletionTimestamp": "x"}, "Terminating"),
        ({"phase": "Running", "reason": "NodeLost"}, {}, {"deletionTimestamp": "x"}, "Unknown"),
        ({"phase": "Succeeded"}, {}, {"deletionTimestamp": "x"}, "Succeeded"),
        ({"phase": "Failed", "reason": "Evicted"}, {}, {}, "Evicted"),
        ({"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}, {}, {},
         "SchedulingGated"),
        ({"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]}, {}, {},
         "ImagePullBackOff"),
        ({"phase": "Running", "containerStatuses": [{"state": {"terminated": {"exitCode": 3}}}]}, {}, {}, "ExitCode:3"),
        ({"phase": "Running", "containerStatuses": [{"state": {"terminated": {"signal": 9}}}]}, {}, {}, "Signal:9"),
        ({"phase": "Running", "containerStatuses": [{"state": {"terminated": {"reason": "OOMKilled"}}}]}, {}, {},
         "OOMKilled"),
        ({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [
            {"state": {"terminated": {"reason": "Completed"}}}, {"ready": True, "state": {"running": {}}}]}, {}, {},
         "Running"),
        ({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"running": {}}}]},
         {"initContainers": [{"name": "i"}, {"name": "j"}]}, {}, "Init:0/2"),
        ({"phase": "Pending", "initContainerStatuses": [{"name": "i",
             "state": {"waiting": {"reason": "ErrImagePull"}}}]},
         {"initContainers": [{"name": "i"}]}, {}, "Init:ErrImagePull"),
        ({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 1}}}]},
         {"initContainers": [{"name": "i"}]}, {}, "Init:ExitCode:1"),
        ({"phase": "Running", "initContainerStatuses": [{"name": "s", "started": True, "state": {"running": {}}}]},
         {"initContainers": [{"name": "s", "restartPolicy": "Always"}]}, {}, "Running"),
    ],
)  # fmt: skip
def test_word_for_what_a_pod_does(status: Json, spec: Json, meta: Json, expected: str) -> None:
    obj = pod()
    obj |= {"status": status, "metadata": {"name": "p", **meta}}
    obj["spec"] |= spec
    assert cells(shape("v1", "Pod"), obj)["Status"] == expected


def test_ready_and_restarted_containers_are_counted_sidecars_included() -> None:
    ended = "2025-12-31T23:56:00Z"
    running = {"ready": True, "state": {"running": {}}}
    obj = pod(initContainers=[{"name": "s", "restartPolicy": "Always"}])
    obj["status"] = {
        "initContainerStatuses": [{"name": "s", "restartCount": 1, "started": True, **running}],
        "containerStatuses": [{"name": "c", "restartCount": 2, "lastState": {"terminated": {"finishedAt": ended}}}],
    }
    found = cells(shape("v1", "Pod"), obj)
    assert (found["Ready"], found["Restarts"]) == ("1/2", "3 (5m ago)")


@pytest.mark.parametrize(
    ("api_version", "kind", "obj", "expected"),
    [
        ("v1", "Node", {"spec": {"unschedulable": True}, "status": {"conditions": [{"type": "Ready",
             "status": "True"}]}},
         {"Status": "Ready,SchedulingDisabled"}),
        ("v1", "Node", {"metadata": {"labels": {"node-role.kubernetes.io/b": "", "node-role.kubernetes.io/a": ""}},
                        "status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}},
         {"Status": "Unknown", "Roles": "a,b", "Internal-IP": "10.0.0.1"}),
        ("v1", "Service", {"spec": {"type": "NodePort", "clusterIP": "1.2.3.4", "selector": {"a": "b"},
                                    "ports": [{"port": 80, "nodePort": 30000, "protocol": "TCP"}]}},
         {"Port(s)": "80:30000/TCP", "Cluster-IP": "1.2.3.4", "External-IP": "<none>", "Selector": "a=b"}),
        ("v1", "Service", {"spec": {"type": "LoadBalancer"}}, {"External-IP": "<pending>", "Port(s)": "<none>"}),
        ("v1", "PersistentVolume", {"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce",
             "ReadOnlyMany"],
                                             "claimRef": {"namespace": "n", "name": "c"}}},
         {"Capacity": "1Gi", "Access Modes": "RWO,ROX", "Claim": "n/c", "VolumeMode": "<unset>"}),
        ("v1", "ResourceQuota", {"status": {"hard": {"pods": "2", "limits.cpu": "1"}, "used": {"pods": "1"}}},
         {"Request": "pods: 1/2", "Limit": "limits.cpu: 0/1"}),
        ("apps/v1", "Deployment", {"spec": {"replicas": 3, "selector": {"matchExpressions": [
            {"key": "a", "operator": "In", "values": ["y", "x"]}]}}, "status": {"readyReplicas": 1}},
         {"Ready": "1/3", "Up-to-date": 0, "Selector": "a in (x,y)"}),
        ("batch/v1", "Job", {"spec": {"completions": 2}, "status": {"succeeded": 1,
             "startTime": "2026-01-01T00:00:00Z"}},
         {"Status": "Running", "Completions": "1/2", "Duration": "60s"}),
        ("batch/v1", "Job", {"spec": {"parallelism": 3}, "status": {"conditions": [{"type": "Complete",
             "status": "True"}]}},
         {"Status": "Complete", "Completions": "0/1 of 3", "Duration": ""}),
        ("resource.k8s.io/v1", "ResourceClaim", {"status": {"allocation": {}, "reservedFor": [{}]}},
         {"State": "allocated,reserved"}),
        ("storage.k8s.io/v1", "StorageClass",
         {"metadata": {"name": "s", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}},
         {"Name": "s (default)"}),
        ("v1", "Event", {"involvedObject": {"kind": "Pod", "name": "p"}, "series": {"count": 7,
                         "lastObservedTime": "2026-01-01T00:00:30.000000Z"}, "message": " m "},
         {"Object": "pod/p", "Count": 7, "Last Seen": "30s", "Message": "m"}),
        ("events.k8s.io/v1", "Event", {"regarding": {"kind": "Node", "name": "n"}, "note": "m",
                                       "reportingController": "s", "reportingInstance": "s-1"},
         {"Object": "node/n", "Count": 1, "Message": "m", "Source": "s, s-1"}),
        ("scheduling.k8s.io/v1beta1", "PodGroup", {"spec": {"schedulingPolicy": {"gang": {}}, "workloadRef": {
            "workloadName": "w"}}, "status": {"conditions": [{"type": "PodGroupInitiallyScheduled",
                 "status": "True"}]}},
         {"Policy": "Gang", "Workload": "w", "Status": "Scheduled"}),
        ("scheduling.k8s.io/v1alpha3", "CompositePodGroup", {"spec": {"schedulingPolicy": {"gang": {}}, "workloadRef": {
            "workloadName": "w"}, "parentCompositePodGroupName": "root"}, "status": {"conditions": [
                {"type": "CompositePodGroupInitiallyScheduled", "status": "False", "reason": "Invalid"}]}},
         {"Policy": "Gang", "Workload": "w", "Status": "Invalid", "Parent": "root"}),
        ("v1", "LimitRange", {"metadata": {"name": "l", "creationTimestamp": "2026-01-01T00:00:00Z"}},
         {"Name": "l", "Created At": "2026-01-01T00:00:00Z"}),
        # As a kube-apiserver 1.36.2 shows them.
        ("v1", "Node", {"status": {"nodeInfo": {"kernelVersion": "6", "architecture": "amd64"}}},
         {"Kernel-Version": "6 (amd64)"}),
        ("v1", "Endpoints", {"subsets": [{"addresses": [{"ip": f"10.1.2.{n}"} for n in range(4)],
                                          "ports": [{"port": 80}]}]},
         {"Endpoints": "10.1.2.0:80,10.1.2.1:80,10.1.2.2:80 + 1 more..."}),
        ("v1", "PodTemplate", {"template": {"metadata": {"labels": {"a": "b"}},
                                            "spec": {"containers": [{"name": "c", "image": "nginx"}]}}},
         {"Containers": "c", "Images": "nginx", "Pod Labels": "a=b"}),
        ("apps/v1", "ControllerRevision", {"revision": 1, "metadata": {"ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "controller": True}]}},
         {"Controller": "statefulset.apps/s", "Revision": 1}),
        ("apps/v1", "ControllerRevision", {}, {"Controller": "<none>"}),
        ("batch/v1", "CronJob", {"spec": {"schedule": "@every 5m", "suspend": True, "jobTemplate": {"spec": {
            "template": {"spec": {"containers": [{"name": "c", "image": "nginx:1"}]}}}}}},
         {"Suspend": "True", "Containers": "c", "Images": "nginx:1", "Selector": "<none>"}),
        ("discovery.k8s.io/v1", "EndpointSlice", {"addressType": "IPv4", "ports": [{"port": 80}],
                                                  "endpoints": [{"addresses": ["10.1.2.3"]}]},
         {"AddressType": "IPv4", "Ports": "80", "Endpoints": "10.1.2.3"}),
        ("discovery.k8s.io/v1", "EndpointSlice", {}, {"Ports": "<unset>", "Endpoints": "<unset>"}),
        ("rbac.authorization.k8s.io/v1", "RoleBinding", {"roleRef": {"kind": "Role", "name": "x"}, "subjects": [
            {"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s", "namespace": "n"}]},
         {"Role": "Role/x", "Users": "u", "Groups": "", "ServiceAccounts": "n/s"}),
        ("storage.k8s.io/v1", "CSIDriver", {"spec": {"attachRequired": True, "volumeLifecycleModes": ["Persistent"]}},
         {"AttachRequired": True, "PodInfoOnMount": False, "TokenRequests": "<unset>", "Modes": "Persistent"}),
        ("storage.k8s.io/v1", "VolumeAttributesClass", {"driverName": "d.e"}, {"DriverName": "d.e"}),
        ("flowcontrol.apiserver.k8s.io/v1", "FlowSchema",
         {"spec": FLOW_SCHEMAS["catch-all"], "status": {"conditions": [{"type": "Dangling", "status": "False"}]}},
         {"PriorityLevel": "catch-all", "MatchingPrecedence": 10000, "DistinguisherMethod": "ByUser",
          "MissingPL": "False"}),
        ("flowcontrol.apiserver.k8s.io/v1", "FlowSchema", {"spec": FLOW_SCHEMAS["exempt"]},
         {"DistinguisherMethod": "<none>", "MissingPL": "?"}),
        ("flowcontrol.apiserver.k8s.io/v1", "PriorityLevelConfiguration", {"spec": PRIORITY_LEVELS["node-high"]},
         {"Type": "Limited", "NominalConcurrencyShares": "40", "Queues": "64", "HandSize": "6",
          "QueueLengthLimit": "50"}),
        ("flowcontrol.apiserver.k8s.io/v1", "PriorityLevelConfiguration", {"spec": PRIORITY_LEVELS["exempt"]},
         {"Type": "Exempt", "NominalConcurrencyShares": "<none>", "Queues": "<none>"}),
    ],
)  # fmt: skip
def test_cells_of_other_kinds(api_version: str, kind: str, obj: Json, expected: Json) -> None:
    found = cells(shape(api_version, kind), obj)
    assert {heading: found[heading] for heading in expected} == expected


@pytest.mark.parametrize("kind", [kind for kind in kinds.BUILTIN if kind.stored], ids=lambda k: f"{k.group}-{k.kind}")
def test_bare_object_of_every_kind_can_be_shown(kind: kinds.ServedKind) -> None:
    made = table(kind, [{"metadata": {"name": "x"}}], include_object="", now=NOW, list_meta={})
    assert len(made["rows"][0]["cells"]) == len(made["columnDefinitions"])
    for column in made["columnDefinitions"]:
        assert column["description"], column["name"]


def test_row_carries() -> None:
    obj = {"metadata": {"name": "x"}, "data": {"a": "b"}}
    kind = shape("v1", "ConfigMap")
    rows = {
        include: table(kind, [obj], include_object=include, now=NOW, list_meta={"resourceVersion": "5"})["rows"][0][
            "object"
        ]
        for include in ("", "Metadata", "Object", "None")
    }
    assert rows["Metadata"] == rows[""] == {
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "x"}
    }  # fmt: skip
    assert rows["Object"] is obj
    assert rows["None"] is None


def _custom(columns: list[Json] | None) -> ServedKind:
    definition: Json = {"additionalPrinterColumns": columns} if columns else {}
    return custom_kind("wire.example.com", "v1", "Gang", definition=definition)


@needs_transcripts
def test_custom_resource_shows_its_own_columns() -> None:
    version = transcript(554).body["spec"]["versions"][0]
    kind = _custom(version["additionalPrinterColumns"])
    one = transcript(579)
    assert [column.definition() for column in columns_of(kind)] == one.answer["columnDefinitions"]
    obj = {"metadata": {"name": "a"}, "spec": {"size": 3}, "status": {"phase": "Run"}}
    assert list(cells(kind, obj).values()) == one.answer["rows"][0]["cells"]
    assert (
        list(cells(kind, {"metadata": {"name": "b"}, "spec": {"size": 1}}).values()) == one.answer["rows"][1]["cells"]
    )


@pytest.mark.parametrize(
    ("kind", "value", "shown"),
    [
        ("string", {"b": 1, "a": True}, "map[a:true b:1]"),
        ("string", [1, "x"], "[1 x]"),
        ("integer", "5", None),
        ("boolean", False, False),
        ("number", 1.5, 1.5),
        ("date", "2026-01-01T00:00:00Z", "60s"),
        ("date", 5, None),
    ],
)
def test_custom_cells_by_type(kind: str, value: Any, shown: Any) -> None:
    column = {"name": "X", "type": kind, "jsonPath": ".x"}
    assert cells(_custom([column]), {"metadata": {"name": "n"}, "x": value})["X"] == shown


def test_custom_resource_without_columns_shows_name_and_age() -> None:
    assert [column.name for column in columns_of(_custom(None))] == ["Name", "Age"]


_DOCUMENT: Json = {
    "a": {"b.c": 1, "d-e": [10, 20, {"f": "g"}]},
    "conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}],
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".a.d-e[0]", [10]),
        (".a.d-e[-1].f", ["g"]),
        (".a['b.c']", [1]),
        (".a.b\\.c", [1]),
        ("{.a.d-e[1]}", [20]),
        (".conditions[*].type", ["Ready", "Other"]),
        ('.conditions[?(@.type=="Ready")].status', ["True"]),
        (".conditions[?(@.type != 'Ready')].status", ["False"]),
        (".a.nosuch.x", []),
        (".a.d-e[9]", []),
        (".conditions.type", []),
        (".a[", []),
    ],
)
def test_json_paths(path: str, found: list[Any]) -> None:
    assert jsonpaths.find(path, _DOCUMENT) == found


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-5, "<invalid>"), (-1, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (125, "2m5s"), (599, "9m59s"),
             (600, "10m"),
        (3 * 3600 - 1, "179m"), (3 * 3600, "3h"), (3 * 3600 + 60, "3h1m"), (8 * 3600, "8h"), (48 * 3600 - 1, "47h"),
        (48 * 3600, "2d"), (49 * 3600, "2d1h"), (8 * 86400, "8d"), (729 * 86400, "729d"), (730 * 86400, "2y"),
        (731 * 86400, "2y1d"), (8 * 365 * 86400, "8y"), (-2, "<invalid>"), (605, "10m"), (8 * 3600 - 60, "7h59m"),
        (8 * 3600 + 60, "8h"), (8 * 86400 - 3600, "7d23h"), (8 * 86400 + 3600, "8d"), (2919 * 86400, "7y364d"),
        (2921 * 86400, "8y"), (20 * 365 * 86400 + 86400, "20y"),
    ],
)  # fmt: skip
def test_ages(seconds: int, shown: str) -> None:
    """apimachinery's HumanDuration."""
    assert ages.human(seconds) == shown


@given(st.integers(0, 10**9))
def test_age_is_short(seconds: int) -> None:
    assert len(ages.human(seconds)) <= 6


@pytest.mark.parametrize("stamp", [None, "", "x"])
def test_age_that_is_not_known(stamp: str | None) -> None:
    assert ages.age(stamp, NOW) == "<unknown>"
    assert ages.age("2026-01-01T00:00:00.5Z", NOW + timedelta(seconds=1)) == "60s"


@pytest.mark.parametrize("zone", ["Z", "+00:00", ""])
def test_time_without_a_zone_is_utc(zone: str) -> None:
    assert ages.age(f"2026-01-01T00:00:00{zone}", datetime(2026, 1, 1, 5, tzinfo=UTC)) == "5h"
    assert ages.age("2026-01-01T02:00:00+02:00", datetime(2026, 1, 1, 5, tzinfo=UTC)) == "5h"


@pytest.mark.parametrize(
    ("selector", "shown"),
    [
        ({"a": "b"}, "a=b"),
        ({"matchLabels": "x"}, "matchLabels=x"),
        ({"matchExpressions": "x", "a": "b"}, "a=b,matchExpressions=x"),
        ({}, "<none>"),
    ],
)
def test_plain_selector_of_a_replication_controller(selector: Json, shown: str) -> None:
    obj = {"metadata": {"name": "a"}, "spec": {"selector": selector}}
    assert cells(shape("v1", "ReplicationController"), obj)["Selector"] == shown
