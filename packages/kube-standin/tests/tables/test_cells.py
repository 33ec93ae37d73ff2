"""Single cells of tables: what a field that is missing shows, which headings are wide, every branch of a word.

The cells are those of kube-apiserver's printers (pkg/printers/internalversion/printers.go).
"""

from __future__ import annotations

from typing import Any

import pytest

from kube_standin import kinds
from kube_standin.tables import columns_of, jsonpaths, partial_object
from tests.recorded.shapes import custom_kind, shape
from tests.tables.test_tables import cells

Json = dict[str, Any]

_OF_TEMPLATE = ("Containers", "Images", "Selector")
WIDE = {
    ("v1", "Pod"): ("IP", "Node", "Nominated Node", "Readiness Gates"),
    ("v1", "Node"): ("Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime"),
    ("v1", "Service"): ("Selector",),
    ("v1", "PersistentVolume"): ("VolumeMode",),
    ("v1", "PersistentVolumeClaim"): ("VolumeMode",),
    ("v1", "ReplicationController"): _OF_TEMPLATE,
    ("v1", "Event"): ("Subobject", "Source", "First Seen", "Count", "Name"),
    ("events.k8s.io/v1", "Event"): ("Subobject", "Source", "First Seen", "Count", "Name"),
    ("apps/v1", "ReplicaSet"): _OF_TEMPLATE,
    ("apps/v1", "Deployment"): _OF_TEMPLATE,
    ("apps/v1", "StatefulSet"): ("Containers", "Images"),
    ("apps/v1", "DaemonSet"): _OF_TEMPLATE,
    ("batch/v1", "Job"): _OF_TEMPLATE,
    ("batch/v1", "CronJob"): _OF_TEMPLATE,
    ("rbac.authorization.k8s.io/v1", "RoleBinding"): ("Users", "Groups", "ServiceAccounts"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"): ("Users", "Groups", "ServiceAccounts"),
    ("scheduling.k8s.io/v1beta1", "CompositePodGroup"): ("Parent",),
    ("scheduling.k8s.io/v1alpha3", "CompositePodGroup"): ("Parent",),
}


@pytest.mark.parametrize("kind", [one for one in kinds.BUILTIN if one.stored], ids=lambda k: f"{k.group}-{k.kind}")
def test_headings_for_wide_output_alone(kind: kinds.ServedKind) -> None:
    """Priority 1 says that a column shows with `-o wide`; 0 that it always does."""
    priorities = {column.name: column.definition()["priority"] for column in columns_of(kind)}
    wide = WIDE.get((kind.api_version, kind.kind), ())
    assert {name: priority for name, priority in priorities.items() if priority} == dict.fromkeys(wide, 1)


@pytest.mark.parametrize(
    ("api_version", "kind", "expected"),
    [
        ("v1", "Pod", {"Ready": "0/0", "Status": "", "Restarts": "0", "IP": "<none>", "Node": "<none>",
                       "Nominated Node": "<none>", "Readiness Gates": "<none>", "Age": "<unknown>"}),
        ("v1", "Node", {"Status": "Unknown", "Roles": "<none>", "Version": "", "Internal-IP": "<none>",
                        "External-IP": "<none>", "OS-Image": "<unknown>", "Kernel-Version": "<unknown>",
                        "Container-Runtime": "<unknown>"}),
        ("v1", "Service", {"Cluster-IP": "<none>", "External-IP": "<none>", "Port(s)": "<none>",
                           "Selector": "<none>"}),
        ("v1", "ConfigMap", {"Data": 0}),
        ("v1", "Secret", {"Data": 0}),
        ("v1", "PersistentVolume", {"Claim": "", "VolumeAttributesClass": "<unset>", "VolumeMode": "<unset>",
                                    "Access Modes": "", "Reason": ""}),
        ("v1", "PersistentVolumeClaim", {"Status": "", "VolumeAttributesClass": "<unset>", "VolumeMode": "<unset>",
                                         "Access Modes": ""}),
        ("v1", "ResourceQuota", {"Request": "", "Limit": ""}),
        ("v1", "ReplicationController", {"Desired": 0, "Current": 0, "Ready": 0, "Containers": "", "Images": "",
                                         "Selector": "<none>"}),
        ("v1", "Endpoints", {"Endpoints": "<none>"}),
        ("v1", "Event", {"Last Seen": "<unknown>", "First Seen": "<unknown>", "Object": "", "Subobject": "",
                         "Source": "", "Message": "", "Count": 1}),
        ("apps/v1", "ReplicaSet", {"Desired": 0, "Current": 0, "Ready": 0, "Selector": "<none>"}),
        ("apps/v1", "Deployment", {"Ready": "0/0", "Up-to-date": 0, "Available": 0}),
        ("apps/v1", "StatefulSet", {"Ready": "0/0"}),
        ("apps/v1", "DaemonSet", {"Desired": 0, "Current": 0, "Ready": 0, "Up-to-date": 0, "Available": 0,
                                  "Node Selector": "<none>"}),
        ("apps/v1", "ControllerRevision", {"Controller": "<none>", "Revision": 0}),
        ("batch/v1", "Job", {"Status": "Running", "Completions": "0/1", "Duration": ""}),
        ("batch/v1", "CronJob", {"Timezone": "<none>", "Suspend": "False", "Active": 0, "Last Schedule": "<none>"}),
        ("scheduling.k8s.io/v1", "PriorityClass", {"Value": 0, "Global-Default": False, "PreemptionPolicy": ""}),
        ("scheduling.k8s.io/v1beta1", "PodGroup", {"Policy": "<none>", "Workload": "<none>", "Status": "Pending"}),
        ("scheduling.k8s.io/v1alpha3", "CompositePodGroup", {"Policy": "<none>", "Workload": "<none>",
                                                             "Status": "Pending", "Parent": "<none>"}),
        ("policy/v1", "PodDisruptionBudget", {"Min Available": "N/A", "Max Unavailable": "N/A",
                                              "Allowed Disruptions": 0}),
        ("storage.k8s.io/v1", "StorageClass", {"Name": "x", "AllowVolumeExpansion": False}),
        ("storage.k8s.io/v1", "VolumeAttachment", {"Attached": False}),
        ("storage.k8s.io/v1", "CSIDriver", {"AttachRequired": True, "PodInfoOnMount": False, "StorageCapacity": False,
                                            "TokenRequests": "<unset>", "RequiresRepublish": False,
                                            "Modes": "<none>"}),
        ("storage.k8s.io/v1", "CSINode", {"Drivers": 0}),
        ("resource.k8s.io/v1", "ResourceClaim", {"State": "pending"}),
        ("resource.k8s.io/v1", "ResourceSlice", {"Node": "<unset>", "Driver": "", "Pool": ""}),
        ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", {"Role": "/", "Users": "", "Groups": "",
                                                                "ServiceAccounts": ""}),
    ],
)  # fmt: skip
def test_cells_of_missing_values(api_version: str, kind: str, expected: Json) -> None:
    found = cells(shape(api_version, kind), {"metadata": {"name": "x"}})
    shown = {heading: found[heading] for heading in expected}
    assert shown == expected
    assert [type(value) for value in shown.values()] == [type(value) for value in expected.values()]


def conditions(*given: Json) -> Json:
    return {"status": {"conditions": list(given)}}


def group_status(status: str, reason: str | None = None) -> Json:
    other = {"type": "DisruptionTarget", "status": "True"}
    one: Json = {"type": "PodGroupScheduled", "status": status}
    return conditions(other, one | ({"reason": reason} if reason is not None else {}))


def ports(count: int, **more: Any) -> Json:
    return {"subsets": [{"addresses": [{"ip": f"10.0.0.{n}"} for n in range(count)], **more}]}


_SELECTOR = {"matchLabels": {"b": "2", "a": "1"}}


@pytest.mark.parametrize(
    ("api_version", "kind", "obj", "expected"),
    [
        ("v1", "Node", conditions({"type": "MemoryPressure", "status": "True"}, {"type": "Ready", "status": "False"}),
         {"Status": "NotReady"}),
        ("v1", "Node", {"metadata": {"labels": {"node-role.kubernetes.io/": "", "kubernetes.io/role": "edge"}}},
         {"Roles": "edge"}),
        ("v1", "Node", {"metadata": {"labels": {"kubernetes.io/role": "", "node-role.kubernetes.io/x": ""}}},
         {"Roles": "x"}),
        ("v1", "Node", {"status": {"addresses": [{"type": "Hostname", "address": "h"},
                                                 {"type": "ExternalIP", "address": "1.1.1.1"},
                                                 {"type": "ExternalIP", "address": "2.2.2.2"}]}},
         {"External-IP": "1.1.1.1", "Internal-IP": "<none>"}),
        ("v1", "Node", {"status": {"nodeInfo": {"kernelVersion": "6"}}}, {"Kernel-Version": "6"}),
        ("v1", "Node", {"status": {"nodeInfo": {"architecture": "arm64"}}}, {"Kernel-Version": "<unknown>"}),
        ("v1", "Service", {"spec": {"type": "ExternalName", "externalName": "a.example", "externalIPs": ["1.1.1.1"]}},
         {"External-IP": "a.example"}),
        ("v1", "Service", {"spec": {"type": "ExternalName"}}, {"External-IP": "<none>"}),
        ("v1", "Service", {"spec": {"type": "LoadBalancer", "externalIPs": ["9.9.9.9"]},
                           "status": {"loadBalancer": {"ingress": [{"ip": "1.1.1.1"}, {"hostname": "h"}]}}},
         {"External-IP": "1.1.1.1,h,9.9.9.9"}),
        ("v1", "Service", {"spec": {"type": "ClusterIP", "externalIPs": ["9.9.9.9", "8.8.8.8"],
                                    "ports": [{"port": 53, "protocol": "UDP"}, {"port": 80, "protocol": "TCP"}]}},
         {"External-IP": "9.9.9.9,8.8.8.8", "Port(s)": "53/UDP,80/TCP"}),
        ("v1", "ConfigMap", {"data": {"a": "", "b": ""}, "binaryData": {"c": ""}}, {"Data": 3}),
        ("v1", "Secret", {"data": {"a": "", "b": ""}, "type": "Opaque"}, {"Data": 2, "Type": "Opaque"}),
        ("v1", "PersistentVolume", {"metadata": {"deletionTimestamp": "x"}, "status": {"phase": "Bound"}},
         {"Status": "Terminating"}),
        ("v1", "PersistentVolumeClaim", {"status": {"phase": "Bound", "accessModes": ["ReadWriteOncePod",
             "ReadWriteMany"], "capacity": {"storage": "1Gi"}}},
         {"Status": "Bound", "Access Modes": "RWX,RWOP", "Capacity": "1Gi"}),
        ("v1", "ResourceQuota", {"status": {"hard": {"requests.cpu": "2", "pods": "5", "limits.memory": "1Gi"},
                                            "used": {"limits.memory": "1Mi"}}},
         {"Request": "pods: 0/5, requests.cpu: 0/2", "Limit": "limits.memory: 1Mi/1Gi"}),
        ("v1", "Endpoints", ports(3), {"Endpoints": "10.0.0.0,10.0.0.1,10.0.0.2"}),
        ("v1", "Endpoints", ports(4), {"Endpoints": "10.0.0.0,10.0.0.1,10.0.0.2 + 1 more..."}),
        ("v1", "Endpoints", ports(1, ports=[{"port": 80}, {"port": 81}]), {"Endpoints": "10.0.0.0:80,10.0.0.0:81"}),
        ("v1", "Endpoints", {"subsets": [{"addresses": [{"ip": "fd00::1"}], "ports": [{}]}]},
         {"Endpoints": "[fd00::1]:0"}),
        ("discovery.k8s.io/v1", "EndpointSlice", {"ports": [{"port": n} for n in range(5)],
             "endpoints": [{"addresses": ["a", "b"]}, {}, {"addresses": ["c"]}]},
         {"Ports": "0,1,2 + 2 more...", "Endpoints": "a,b,c"}),
        ("discovery.k8s.io/v1", "EndpointSlice", {"ports": [{"name": "any"}], "endpoints": [{}]},
         {"Ports": "*", "Endpoints": "<none>"}),
        ("apps/v1", "ControllerRevision", {"metadata": {"ownerReferences": [
            {"kind": "Node", "name": "n", "apiVersion": "v1"},
            {"kind": "Pod", "name": "p", "apiVersion": "v1", "controller": True}]}}, {"Controller": "pod/p"}),
        ("rbac.authorization.k8s.io/v1", "RoleBinding", {"subjects": [{"kind": "Group", "name": "g"},
            {"kind": "Group", "name": "h"}, {"kind": "User", "name": "u"}, {"kind": "User", "name": "v"}]},
         {"Users": "u, v", "Groups": "g, h", "ServiceAccounts": ""}),
        ("apps/v1", "Deployment", {"spec": {"selector": {**_SELECTOR, "matchExpressions": [
            {"key": "k", "operator": "NotIn", "values": ["z", "y"]}, {"key": "e", "operator": "Exists"},
            {"key": "d", "operator": "DoesNotExist"}, {"key": "q", "operator": "Near"}]}}},
         {"Selector": "a=1,b=2,k notin (y,z),e,!d,<error>"}),
        ("apps/v1", "ReplicaSet", {"spec": {"replicas": 3, "selector": _SELECTOR, "template": {"spec": {"containers": [
            {"name": "c", "image": "i"}, {"name": "d"}]}}}, "status": {"replicas": 2, "readyReplicas": 1}},
         {"Desired": 3, "Current": 2, "Ready": 1, "Containers": "c,d", "Images": "i,", "Selector": "a=1,b=2"}),
        ("apps/v1", "DaemonSet", {"spec": {"template": {"spec": {"nodeSelector": {"b": "2", "a": "1"}}}}},
         {"Node Selector": "a=1,b=2"}),
        ("batch/v1", "Job", {"spec": {"parallelism": 1}, "status": {"succeeded": 1}}, {"Completions": "1/1"}),
        ("batch/v1", "Job", {"spec": {"parallelism": 2}, "status": {"succeeded": 1}}, {"Completions": "1/1 of 2"}),
        ("batch/v1", "Job", {"status": {"startTime": "2026-01-01T00:00:00Z",
                                        "completionTime": "2026-01-01T00:00:07Z"}}, {"Duration": "7s"}),
        ("batch/v1", "Job", {"metadata": {"deletionTimestamp": "x"},
                             **conditions({"type": "Suspended", "status": "True"})}, {"Status": "Terminating"}),
        ("batch/v1", "Job", {"metadata": {"deletionTimestamp": "x"},
                             **conditions({"type": "Failed", "status": "True"})}, {"Status": "Failed"}),
        ("batch/v1", "Job", conditions({"type": "Failed", "status": "False"},
                                       {"type": "FailureTarget", "status": "True"}), {"Status": "FailureTarget"}),
        ("batch/v1", "CronJob", {"spec": {"timeZone": "UTC"}, "status": {"active": [{}, {}],
             "lastScheduleTime": "2026-01-01T00:00:00Z"}},
         {"Timezone": "UTC", "Active": 2, "Last Schedule": "60s", "Suspend": "False"}),
        ("scheduling.k8s.io/v1beta1", "PodGroup", group_status("True"), {"Status": "Scheduled"}),
        ("scheduling.k8s.io/v1beta1", "PodGroup", group_status("True", "Why"), {"Status": "Why"}),
        ("scheduling.k8s.io/v1beta1", "PodGroup", group_status("False", "Unschedulable"),
         {"Status": "Unschedulable"}),
        ("scheduling.k8s.io/v1beta1", "PodGroup", {"spec": {"schedulingPolicy": {"basic": {}},
             "podGroupTemplateRef": {"workload": {"workloadName": "w"}}}},
         {"Policy": "Basic", "Workload": "w", "Status": "Pending"}),
        ("policy/v1", "PodDisruptionBudget", {"spec": {"minAvailable": 0, "maxUnavailable": "10%"},
                                              "status": {"disruptionsAllowed": 2}},
         {"Min Available": "0", "Max Unavailable": "10%", "Allowed Disruptions": 2}),
        ("v1", "Event", {"firstTimestamp": "2026-01-01T00:00:00Z", "count": 3,
                         "source": {"component": "kubelet", "host": "n"},
                         "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec.containers{c}"}},
         {"Last Seen": "60s", "First Seen": "60s", "Count": 3, "Source": "kubelet, n",
          "Subobject": "spec.containers{c}"}),
        ("v1", "Event", {"eventTime": "2026-01-01T00:00:20.000000Z", "lastTimestamp": "2026-01-01T00:00:50Z",
                         "involvedObject": {"kind": "Pod"}},
         {"Last Seen": "10s", "First Seen": "40s", "Object": "pod"}),
        ("events.k8s.io/v1", "Event", {"deprecatedCount": 4, "deprecatedFirstTimestamp": "2026-01-01T00:00:00Z",
             "deprecatedLastTimestamp": "2026-01-01T00:00:50Z", "deprecatedSource": {"component": "s"}},
         {"Count": 4, "First Seen": "60s", "Last Seen": "10s", "Source": "s"}),
        ("storage.k8s.io/v1", "StorageClass", {"metadata": {"name": "s", "annotations": {
            "storageclass.kubernetes.io/is-default-class": "false"}}, "allowVolumeExpansion": True},
         {"Name": "s", "AllowVolumeExpansion": True}),
        ("storage.k8s.io/v1", "CSIDriver", {"spec": {"tokenRequests": [{"audience": "a"}, {}],
             "volumeLifecycleModes": ["Persistent", "Ephemeral"], "attachRequired": False, "requiresRepublish": True}},
         {"TokenRequests": "a,", "Modes": "Persistent,Ephemeral", "AttachRequired": False, "RequiresRepublish": True}),
        ("storage.k8s.io/v1", "CSINode", {"spec": {"drivers": [{}, {}]}}, {"Drivers": 2}),
        ("resource.k8s.io/v1", "ResourceClaim", {"metadata": {"deletionTimestamp": "x"}, "status": {
            "reservedFor": []}}, {"State": "deleted,pending"}),
    ],
)  # fmt: skip
def test_cells(api_version: str, kind: str, obj: Json, expected: Json) -> None:
    obj = {**obj, "metadata": {"name": "x", **obj.get("metadata", {})}}
    found = cells(shape(api_version, kind), obj)
    assert {heading: found[heading] for heading in expected} == expected


def running(**more: Any) -> Json:
    return {"name": "c", "ready": True, "state": {"running": {}}, **more}


def waits(reason: str) -> Json:
    return {"name": "c", "state": {"waiting": {"reason": reason}}}


def ended(**how: Any) -> Json:
    return {"name": "c", "state": {"terminated": how}}


READY = [{"type": "Ready", "status": "True"}]
_SIDECAR = [{"name": "s", "restartPolicy": "Always"}, {"name": "i"}]


@pytest.mark.parametrize(
    ("spec", "status", "word"),
    [
        # The first container in the list that waits or ended gives the word, whatever follows it.
        ({}, {"containerStatuses": [waits("First"), ended(reason="Second")]}, "First"),
        ({}, {"containerStatuses": [running(), waits("Last")]}, "Last"),
        ({}, {"phase": "Running", "containerStatuses": [{"state": {"waiting": {}}}]}, "Running"),
        # What ended tells its reason, else its signal, else its code.
        ({}, {"containerStatuses": [ended(reason="Error", signal=9, exitCode=1)]}, "Error"),
        ({}, {"containerStatuses": [ended(signal=9, exitCode=137)]}, "Signal:9"),
        ({}, {"containerStatuses": [ended()]}, "ExitCode:0"),
        # Completed beside one that runs: ready or not.
        ({}, {"conditions": READY, "containerStatuses": [ended(reason="Completed"), running()]}, "Running"),
        ({}, {"containerStatuses": [ended(reason="Completed"), running()]}, "NotReady"),
        ({}, {"containerStatuses": [ended(reason="Completed"), running(ready=False)]}, "Completed"),
        ({}, {"containerStatuses": [ended(reason="Completed"), {"ready": True, "state": {}}]}, "Completed"),
        ({}, {"containerStatuses": [ended(reason="Error"), running()]}, "Error"),
        # Init containers: those that ended well, and sidecars that have started, do not hold up the pod.
        ({"initContainers": [{"name": "c"}]}, {"initContainerStatuses": [ended(exitCode=0)], "phase": "Running"},
         "Running"),
        ({"initContainers": [{"name": "c"}]}, {"initContainerStatuses": [ended(reason="Error", exitCode=2)]},
         "Init:Error"),
        ({"initContainers": [{"name": "c"}]}, {"initContainerStatuses": [ended(signal=9, exitCode=137)]},
         "Init:Signal:9"),
        ({"initContainers": [{"name": "c"}]}, {"initContainerStatuses": [waits("PodInitializing")]}, "Init:0/1"),
        ({"initContainers": _SIDECAR}, {"initContainerStatuses": [{"name": "s", "started": True, "state": {}},
                                                                  {"name": "i", "state": {"running": {}}}]},
         "Init:1/2"),
        ({"initContainers": _SIDECAR}, {"initContainerStatuses": [{"name": "s", "started": False, "state": {}}]},
         "Init:0/2"),
        ({"initContainers": _SIDECAR}, {"initContainerStatuses": [{"name": "i", "started": True, "state": {}}]},
         "Init:0/2"),
        ({}, {"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "Unschedulable"}]}, "Pending"),
    ],
)  # fmt: skip
def test_word_for_a_pod(spec: Json, status: Json, word: str) -> None:
    assert cells(shape("v1", "Pod"), {"metadata": {"name": "p"}, "spec": spec, "status": status})["Status"] == word


def test_pod_s_counts_leave_plain_init_containers_out() -> None:
    """Sidecars count, other init containers do not; a container that is ready and does not run is not ready."""
    spec = {"initContainers": _SIDECAR, "containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}
    status = {
        "conditions": [{"type": "Initialized", "status": "True"}],
        "initContainerStatuses": [running(name="s", restartCount=1), running(name="i", restartCount=20)],
        "containerStatuses": [
            running(name="a", restartCount=2, lastState={"terminated": {"finishedAt": "2026-01-01T00:00:00Z"}}),
            running(name="b", ready=False, lastState={"terminated": {"finishedAt": "2026-01-01T00:00:30Z"}}),
            {"name": "c", "ready": True, "state": {"waiting": {}}},
        ],
    }
    found = cells(shape("v1", "Pod"), {"metadata": {"name": "p"}, "spec": spec, "status": status})
    assert (found["Ready"], found["Restarts"]) == ("2/4", "3 (30s ago)")


@pytest.mark.parametrize(("initialized", "shown"), [("False", "5 (30s ago)"), ("True", "1")])
def test_restarts_are_those_of_init_containers_while_they_hold_the_pod(initialized: str, shown: str) -> None:
    """printPod of kubectl: of those up to the one that holds the pod, until the pod has been initialized."""
    ended = {"lastState": {"terminated": {"finishedAt": "2026-01-01T00:00:30Z"}}}
    status = {
        "conditions": [{"type": "Initialized", "status": initialized}],
        "initContainerStatuses": [
            running(name="s", started=True, restartCount=1),
            {"name": "i", "restartCount": 4, "state": {"waiting": {"reason": "CrashLoopBackOff"}}, **ended},
            {"name": "j", "restartCount": 8, "state": {"waiting": {"reason": "PodInitializing"}}},
        ],
    }
    spec = {"initContainers": [*_SIDECAR, {"name": "j"}], "containers": [{"name": "a"}]}
    found = cells(shape("v1", "Pod"), {"metadata": {"name": "p"}, "spec": spec, "status": status})
    assert (found["Status"], found["Restarts"]) == ("Init:CrashLoopBackOff", shown)


@pytest.mark.parametrize(
    ("restarts", "finished", "shown"),
    [(0, "2026-01-01T00:00:00Z", "0"), (1, None, "1"), (1, "2026-01-01T00:00:00Z", "1 (60s ago)")],
)
def test_when_a_pod_restarted_last(restarts: int, finished: str | None, shown: str) -> None:
    last = {"terminated": {"finishedAt": finished}} if finished else {}
    status = {"containerStatuses": [{"restartCount": restarts, "lastState": last}]}
    assert cells(shape("v1", "Pod"), {"metadata": {"name": "p"}, "status": status})["Restarts"] == shown


def test_pod_s_gates_and_addresses() -> None:
    gates = [{"conditionType": "a"}, {"conditionType": "b"}, {"conditionType": "c"}]
    met = [{"type": "a", "status": "True"}, {"type": "b", "status": "False"}]
    obj: Json = {"metadata": {"name": "p"}, "spec": {"readinessGates": gates}, "status": {"conditions": met}}
    assert cells(shape("v1", "Pod"), obj)["Readiness Gates"] == "1/3"
    for status, shown in (
        ({"podIPs": [{"ip": "1.1.1.1"}, {"ip": "2.2.2.2"}], "podIP": "3.3.3.3"}, "1.1.1.1"),
        ({"podIP": "3.3.3.3"}, "3.3.3.3"),
        ({"podIPs": [{}]}, "<none>"),
    ):
        assert cells(shape("v1", "Pod"), {**obj, "status": status})["IP"] == shown


# -- custom resources


@pytest.mark.parametrize(
    ("kind", "value", "shown"),
    [
        ("integer", 5, 5),
        ("integer", 5.9, 5),
        ("integer", True, None),
        ("number", True, None),
        ("number", "1", None),
        ("number", 0, 0),
        ("boolean", True, True),
        ("boolean", 1, None),
        ("string", "", ""),
        ("string", None, "<nil>"),
        ("string", 7, "7"),
    ],
)
def test_custom_cells_of_other_types(kind: str, value: Any, shown: Any) -> None:
    column = {"name": "X", "type": kind, "jsonPath": ".x"}
    made = custom_kind("g.example", "v1", "Thing", definition={"additionalPrinterColumns": [column]})
    found = cells(made, {"metadata": {"name": "n"}, "x": value})["X"]
    assert (found, type(found)) == (shown, type(shown))


def test_custom_column_that_finds_several_values_shows_them_all() -> None:
    column = {"name": "X", "type": "string", "jsonPath": ".x[*]"}
    made = custom_kind("g.example", "v1", "Thing", definition={"additionalPrinterColumns": [column]})
    assert cells(made, {"metadata": {"name": "n"}, "x": [1, 2]})["X"] == "[1 2]"
    assert cells(made, {"metadata": {"name": "n"}, "x": ["one"]})["X"] == "one"
    assert cells(made, {"metadata": {"name": "n"}, "x": []})["X"] is None


def test_custom_headings() -> None:
    """Priority, format and description are the definition's; without them 0, none and the path."""
    full = {"name": "A", "type": "integer", "jsonPath": ".a", "priority": 2, "format": "int32", "description": "about"}
    bare = {"name": "B", "type": "string", "jsonPath": ".b", "priority": 0}
    made = custom_kind("g.example", "v1", "Thing", definition={"additionalPrinterColumns": [full, bare]})
    name, *found = [column.definition() for column in columns_of(made)]
    assert name["name"] == "Name"
    assert found == [
        {"name": "A", "type": "integer", "format": "int32", "description": "about", "priority": 1},
        {
            "name": "B",
            "type": "string",
            "format": "",
            "description": "Custom resource definition column (in JSONPath format): .b",
            "priority": 0,
        },
    ]


_LIST = {"x": [{"n": 1, "t": True, "s": "a"}, {"n": 2, "t": False, "s": "b"}, {"s": "c"}], "m": {"k": 1, "l": 2}}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".x[?(@.n==1)].s", ["a"]),
        (".x[?(@.n!=1)].s", ["b", "c"]),
        (".x[?(@.t==true)].s", ["a"]),
        (".x[?(@.t==false)].s", ["b"]),
        (".x[?(@.n==-1)].s", []),
        (".m.*", [1, 2]),
        (".m[*]", [1, 2]),
        (".x.*.s", ["a", "b", "c"]),
        ("x[2].s", ["c"]),
        ("$.x[-3].s", ["a"]),
        (".x[3].s", []),
        (".x[-4].s", []),
        (".m[0]", []),
        (".m.k[*]", []),
        ("", [_LIST]),
        (".x[0].s.t", []),
        (".x[?(@.s=='a')]['n']", [1]),
    ],
)
def test_paths(path: str, found: list[Any]) -> None:
    assert jsonpaths.find(path, _LIST) == found


def test_paths_have_a_length_and_give_so_many_values() -> None:
    assert jsonpaths.compiled("." + "a" * 1023) is not None
    assert jsonpaths.compiled("." + "a" * 1024) is None
    assert len(jsonpaths.find("[*]", list(range(200)))) == 100
    assert jsonpaths.find("[*]", list(range(200)), most=3) == [0, 1, 2]


@pytest.mark.parametrize(("given", "version"), [((), "v1"), (("v1beta1",), "v1beta1")])
def test_partial_objects(given: tuple[str, ...], version: str) -> None:
    made = partial_object({"metadata": {"name": "x"}, "spec": {}}, *given)
    assert made == {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": {"name": "x"},
    }
