"""What a scheduler with its rights does in a cluster, an activity each; and the requests that make it do them."""

from __future__ import annotations

import itertools
import json
import ssl
import urllib.error
import urllib.request
from typing import Any

from kube_standin.errors import StatusError
from kube_standin.server.resources import ResourceCall
from tests.deploy.manifests import Json
from tests.e2e.cluster import condition, eventually, is_running, pod, pod_group
from tests.server.live import Live
from tests.waiting import DEADLINE

MERGE = {"Content-Type": "application/merge-patch+json"}


SCHEDULER = "reprieve-scheduler"
PODS = "/api/v1/namespaces/default/pods"


STAMP = "2026-01-01T00:00:00Z"
VOLCANO = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
COSCHEDULING = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups"


def post(plane: Live, path: str, body: Json) -> Json:
    status, answer, _ = plane.request("POST", path, body)
    assert status == 201, answer
    return dict(answer)


def patch(plane: Live, path: str, body: Json) -> Json:
    status, answer, _ = plane.request("PATCH", path, body, headers=MERGE)
    assert status == 200, answer
    return dict(answer)


def get(plane: Live, path: str) -> Json:
    return dict(plane.request("GET", path)[1])


def ours(name: str, *, annotations: Json | None = None, **fields: Any) -> Json:
    """A pod for the scheduler."""
    found = pod(name, **fields)
    found["spec"]["schedulerName"] = SCHEDULER
    if annotations:
        found["metadata"]["annotations"] = annotations
    return found


def runs(plane: Live, *names: str) -> bool:
    found = [get(plane, f"{PODS}/{name}") for name in names]
    return all(one["kind"] == "Pod" and is_running(one) for one in found)


def token(plane: Live, namespace: str, account: str) -> str:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    return str(post(plane, path, {"spec": {"expirationSeconds": 3600}})["status"]["token"])


def ask(port: int, path: str, bearer: str | None = None) -> int:
    """The status of a GET of its endpoint, which has an unknown certificate."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
    request = urllib.request.Request(f"https://127.0.0.1:{port}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, context=context, timeout=DEADLINE) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def binds(plane: Live) -> None:
    post(plane, PODS, ours("plain"))
    eventually(lambda: runs(plane, "plain"))


def binds_although_the_answer_was_lost(plane: Live) -> None:
    """The server binds, and says it failed: the scheduler asks again, and then for the pod's node."""
    resources = plane.server.control_plane.app.resources
    handle = resources.handle
    lost: list[str] = []

    async def losing(call: ResourceCall) -> Any:
        answer = await handle(call)
        if call.target.subresource == "binding" and not lost:
            lost.append(call.target.name)
            raise StatusError(500, "InternalError", "the answer is lost")
        return answer

    resources.handle = losing  # type: ignore[method-assign]
    try:
        post(plane, PODS, ours("lost"))
        eventually(lambda: runs(plane, "lost"))
        assert lost == ["lost"]
    finally:
        resources.handle = handle  # type: ignore[method-assign]


def says_again_and_again_what_does_not_fit(plane: Live) -> None:
    post(plane, PODS, ours("huge", cpu="100"))
    eventually(lambda: condition(get(plane, f"{PODS}/huge"), "PodScheduled").get("reason") == "Unschedulable")
    number = itertools.count()

    def told_again() -> bool:
        name = f"guest-{next(number)}"  # room that comes free is a reason to try again
        post(plane, PODS, ours(name))
        eventually(lambda: runs(plane, name))
        plane.request("DELETE", f"{PODS}/{name}")
        events = get(plane, "/apis/events.k8s.io/v1/namespaces/default/events")["items"]
        return any(event.get("reason") == "FailedScheduling" and event.get("series") for event in events)

    eventually(told_again, "a series of events")


def preempts(plane: Live) -> None:
    post(plane, PODS, ours("low", cpu="3", node="n2"))
    eventually(lambda: runs(plane, "low"))
    post(plane, PODS, ours("high", cpu="3", node="n2", priority="high"))
    eventually(lambda: runs(plane, "high"))
    assert get(plane, f"{PODS}/low")["kind"] == "Status"


def schedules_gangs(plane: Live, collection: str, group: Json, member: Json) -> None:
    name = group["metadata"]["name"]
    made = post(plane, collection, {key: value for key, value in group.items() if key not in ("apiVersion", "kind")})
    for index in range(2):
        post(plane, PODS, ours(f"{name}-{index}", node="n3", **member))
    eventually(lambda: runs(plane, f"{name}-0", f"{name}-1"))

    def told_by_phase() -> bool:
        status: Json = get(plane, f"{collection}/{name}").get("status", {})
        return bool(status.get("phase") == PLACED[collection])

    if collection in PLACED:
        eventually(told_by_phase, f"the phase of {name}")
        return

    def told() -> bool:
        found = get(plane, f"{collection}/{name}")
        assert found["metadata"]["uid"] == made["metadata"]["uid"]
        return condition(found, "PodGroupInitiallyScheduled").get("status") == "True"

    eventually(told, f"the condition of {name}")


def schedules_trees(plane: Live, version: str, leaves: str, member: Json) -> None:
    """A CompositePodGroup over a group of two, which names its parent; all of them say that they are scheduled."""
    composites = f"/apis/{version}/namespaces/default/compositepodgroups"
    reference = {"workloadName": "w", "templateName": "t"}
    policy = {"gang": {"minGroupCount": 1}}
    body = {"metadata": {"name": "tree"}, "spec": {"workloadRef": reference, "schedulingPolicy": policy}}
    kind = {"apiVersion": version, "kind": "CompositePodGroup"}
    post(plane, composites, {**kind, **body})
    group = pod_group("leaf", 2, parentCompositePodGroupName="tree", workloadRef=reference)
    schedules_gangs(plane, leaves, group, {"cpu": "10m", **member})

    def told() -> bool:
        found = get(plane, f"{composites}/tree")
        return condition(found, "CompositePodGroupInitiallyScheduled").get("status") == "True"

    eventually(told, "the condition of the tree")


def claims_volumes(plane: Live) -> None:
    classes = "/apis/storage.k8s.io/v1/storageclasses"
    claims = "/api/v1/namespaces/default/persistentvolumeclaims"
    for name, provisioner in (("local", "kubernetes.io/no-provisioner"), ("made", "example.com/disks")):
        body = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
        post(plane, classes, body)
    size, modes = {"storage": "1Gi"}, ["ReadWriteOnce"]
    on_n1 = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}
    volume = {
        "metadata": {"name": "disk"},
        "spec": {
            "capacity": size,
            "accessModes": modes,
            "storageClassName": "local",
            "local": {"path": "/disk"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_n1]}]}},
        },
    }
    post(plane, "/api/v1/persistentvolumes", volume)
    for name in ("local", "made"):
        spec = {"accessModes": modes, "storageClassName": name, "resources": {"requests": size}}
        post(plane, claims, {"metadata": {"name": name}, "spec": spec})
        manifest = ours(f"with-{name}")
        manifest["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]
        post(plane, PODS, manifest)
    claim = "/api/v1/persistentvolumes/disk"
    eventually(lambda: (get(plane, claim)["spec"].get("claimRef") or {}).get("name") == "local", "the volume claimed")
    selected = "volume.kubernetes.io/selected-node"
    eventually(lambda: selected in (get(plane, f"{claims}/made")["metadata"].get("annotations") or {}), "a node chosen")
    # What volume controllers would do then.
    bound = {"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": "disk"}}
    patch(plane, f"{claims}/local", bound)
    patch(plane, f"{claims}/local/status", {"status": {"phase": "Bound", "capacity": size, "accessModes": modes}})
    eventually(lambda: runs(plane, "with-local"))


def allocates_devices(plane: Live) -> None:
    base = "/apis/resource.k8s.io/v1"
    post(plane, f"{base}/deviceclasses", {"metadata": {"name": "gpu"}, "spec": {}})
    inventory = {
        "driver": "gpu.example.com",
        "nodeName": "n1",
        "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
        "devices": [
            {"name": "gpu-0"},
            {"name": "gpu-1", "bindingConditions": ["attached"], "bindingFailureConditions": ["broken"]},
        ],
    }
    post(plane, f"{base}/resourceslices", {"metadata": {"name": "n1-gpus"}, "spec": inventory})
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
    claims = f"{base}/namespaces/default/resourceclaims"

    def with_device(name: str, **fields: Any) -> None:
        post(plane, claims, {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}})
        manifest = ours(f"with-{name}", **fields)
        manifest["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": name}]
        post(plane, PODS, manifest)

    def allocation(name: str) -> Any:
        return (get(plane, f"{claims}/{name}").get("status") or {}).get("allocation")

    with_device("one", cpu="10m")
    eventually(lambda: runs(plane, "with-one"))
    # One that has to be attached first, which its driver says when it is done.
    with_device("two", cpu="10m")
    eventually(lambda: allocation("two"))
    attached = {"type": "attached", "status": "True", "reason": "Done", "message": "", "lastTransitionTime": STAMP}
    device = {"driver": "gpu.example.com", "pool": "n1", "device": "gpu-1", "conditions": [attached]}
    patch(plane, f"{claims}/two/status", {"status": {"devices": [device]}})
    eventually(lambda: runs(plane, "with-two"))
    # No pod uses it any more, but it holds the next pod to a node where that cannot run: it is given back.
    plane.request("DELETE", f"{PODS}/with-two?gracePeriodSeconds=0")
    patch(plane, f"{claims}/two/status", {"status": {"reservedFor": None}})
    # It is asked for on a node with room, so that a change of the claim, whenever that is heard, has it tried again.
    manifest = ours("elsewhere", node="n3", cpu="10m")
    manifest["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "two"}]
    post(plane, PODS, manifest)
    eventually(lambda: not allocation("two"), "the device given back")


def makes_claims_for_extended_resources(plane: Live) -> None:
    """And deletes what an attempt has left that was killed after the first of its calls."""
    base = "/apis/resource.k8s.io/v1"
    claims = f"{base}/namespaces/default/resourceclaims"
    post(plane, f"{base}/deviceclasses", {"metadata": {"name": "fpga"}, "spec": {"extendedResourceName": "x.com/fpga"}})
    pool = {"name": "n2-fpgas", "generation": 1, "resourceSliceCount": 1}
    inventory = {"driver": "fpga.example.com", "nodeName": "n2", "pool": pool, "devices": [{"name": "fpga-0"}]}
    post(plane, f"{base}/resourceslices", {"metadata": {"name": "n2-fpgas"}, "spec": inventory})
    manifest = ours("asks", cpu="10m", node="n2")
    manifest["spec"]["containers"][0]["resources"] = {"limits": {"x.com/fpga": "1"}}
    manifest["spec"]["schedulingGates"] = [{"name": "example.com/later"}]
    made = post(plane, PODS, manifest)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "asks", "uid": made["metadata"]["uid"], "controller": True}
    left: Json = {
        "name": "asks-extended-resources-x",
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        "finalizers": ["resource.kubernetes.io/delete-protection"],
        "ownerReferences": [owner],
    }
    request = {"name": "container-0-request-0", "exactly": {"deviceClassName": "fpga"}}
    post(plane, claims, {"metadata": left, "spec": {"devices": {"requests": [request]}}})
    # Claims have a watch of their own: it has heard of this one when it has tried a pod with a later claim.
    post(plane, claims, {"metadata": {"name": "later"}, "spec": {"devices": {"requests": [request]}}})
    probe = ours("probe", cpu="10m", node="nowhere")
    probe["spec"]["resourceClaims"] = [{"name": "fpga", "resourceClaimName": "later"}]
    post(plane, PODS, probe)
    tried = "didn't match Pod's node affinity"
    eventually(lambda: tried in condition(get(plane, f"{PODS}/probe"), "PodScheduled").get("message", ""), "the probe")
    patch(plane, f"{PODS}/asks", {"spec": {"schedulingGates": None}})
    eventually(lambda: runs(plane, "asks"))
    said = get(plane, f"{PODS}/asks")["status"]["extendedResourceClaimStatus"]
    assert said["resourceClaimName"] != left["name"]
    assert get(plane, f"{claims}/{left['name']}")["kind"] == "Status"
    assert get(plane, f"{claims}/{said['resourceClaimName']}")["status"]["reservedFor"][0]["name"] == "asks"


def lets_clients_with_the_right_read_its_metrics(plane: Live, port: int) -> None:
    """observability.md: as kube-scheduler, it asks the API server for the user of a token and the user's rights."""
    for name in ("prometheus", "unbound"):
        post(plane, "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": name}})
    binding = {
        "metadata": {"name": "prometheus"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "reprieve-scheduler-reader",
        },
        "subjects": [{"kind": "ServiceAccount", "name": "prometheus", "namespace": "default"}],
    }
    post(plane, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
    for path in ("/metrics", "/explain?kind=Pod&name=plain"):
        assert ask(port, path) == 401
        assert ask(port, path, token(plane, "default", "unbound")) == 403
        assert ask(port, path, token(plane, "default", "prometheus")) == 200


def answers_what_if(plane: Live, port: int) -> None:
    """page.md 8.1: a plan with manifests reads the cluster with the scheduler's own rights."""
    asked: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "asked"}, "spec": ours("asked")["spec"]}
    body = json.dumps({"manifests": json.dumps(asked), "changes": ["--add-nodes 1 --like n3"]}).encode()
    headers = {"Authorization": f"Bearer {plane.server.keys.admin_token}", "Content-Type": "application/json"}
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    request = urllib.request.Request(f"https://127.0.0.1:{port}/ui/api/v1/whatif", body, headers)
    with urllib.request.urlopen(request, context=context, timeout=DEADLINE) as answer:
        planned = json.loads(answer.read())["plan"]
    assert [found["name"] for found in planned["pods"] if found["nodeName"]] == ["asked"]


PLACED = {COSCHEDULING: "Scheduled", VOLCANO: "Running"}
"""What PodGroups of other schedulers say of being placed."""
