"""Simulated kubelets: nodes that report, pods that start, run, end and stop."""

from __future__ import annotations

from typing import Any

import pytest

from kube_standin.kubelet.fleet import address, filled
from kube_standin.kubelet.settings import exit_code_of, seconds_of
from tests.admission.plane import pod
from tests.controllers.world import Json, World


def a_pod(name: str = "p", **annotations: str) -> Json:
    """Return a pod with annotations ``reprieve.dev/...``."""
    made = pod(name, restartPolicy="Never")
    made["metadata"]["annotations"] = {f"reprieve.dev/{key.replace('_', '-')}": one for key, one in annotations.items()}
    return made


def bound(world: World, made: Json, seconds: float = 1) -> Json:
    world.create(made)
    world.bind(made["metadata"]["name"], "node-1")
    world.forward(seconds)
    return world.get("v1", "Pod", made["metadata"]["name"])


@pytest.fixture
def world() -> World:
    return World((), nodes=2)


# -- nodes


def test_nodes_register_as_kubelets_do(world: World) -> None:
    node = world.get("v1", "Node", "node-1", "")
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "node-1"
    assert node["status"]["allocatable"]["cpu"] == "32"
    assert world.condition(node, "Ready")["reason"] == "KubeletReady"
    assert {one["type"] for one in node["status"]["addresses"]} == {"InternalIP", "Hostname"}
    lease = world.get("coordination.k8s.io/v1", "Lease", "node-1", "kube-node-lease")
    assert lease["spec"]["holderIdentity"] == "node-1"
    assert lease["metadata"]["ownerReferences"][0]["kind"] == "Node"


def test_nodes_of_a_template() -> None:
    template = {
        "metadata": {"labels": {"rack": "r{index}", "gpu": "yes"}},
        "spec": {"taints": [{"key": "t", "effect": "NoSchedule"}]},
        "status": {"allocatable": {"cpu": "64", "nvidia.com/gpu": "8"}},
    }
    world = World(("node-lifecycle",), nodes=3, template=template)
    node = world.get("v1", "Node", "node-3", "")
    assert node["metadata"]["labels"]["rack"] == "r3"
    assert node["status"]["allocatable"] == {"cpu": "64", "nvidia.com/gpu": "8", "pods": "110"}
    assert node["status"]["capacity"] == node["status"]["allocatable"]
    assert [one["key"] for one in node["spec"]["taints"]] == ["t"]


def test_nodes_of_manifests() -> None:
    metadata = {"name": "big", "uid": "1", "resourceVersion": "7", "creationTimestamp": "2020-01-01T00:00:00Z"}
    manifest = {"metadata": metadata, "status": {"allocatable": {"cpu": "128"}}}
    world = World((), nodes=0, manifests=(manifest,))
    assert world.get("v1", "Node", "big", "")["status"]["allocatable"]["cpu"] == "128"


def test_extended_resources_of_the_capacity_are_allocatable(world: World) -> None:
    """interfaces.md 7.4: a client that adds one to the capacity need not add it to what is allocatable."""

    def allocatable(capacity: Json, **stated: str) -> Json:
        own = {f"example.com/{name}": amount for name, amount in stated.items()}
        world.patch("v1", "Node", "node-1", {"status": {"capacity": capacity, "allocatable": own}}, "status", ns="")
        world.settle()
        now = world.get("v1", "Node", "node-1", "")["status"]["allocatable"]
        return {name: amount for name, amount in now.items() if "/" in name or name == "hugepages-2Mi"}

    assert allocatable({"example.com/a": "5", "hugepages-2Mi": "4Mi"}) == {"example.com/a": "5"}
    assert allocatable({"example.com/b": "9"}, b="3") == {"example.com/a": "5", "example.com/b": "3"}
    assert allocatable({"example.com/a": None, "example.com/b": None}) == {"example.com/b": "3"}


def test_other_peoples_nodes_are_adopted_unless_told_otherwise(world: World) -> None:
    for name, word in (("mine", None), ("theirs", "none")):
        annotations = {"reprieve.dev/kubelet": word} if word else {}
        manifest = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "annotations": annotations}}
        world.create(manifest)
    world.settle()
    assert world.condition(world.get("v1", "Node", "mine", ""), "Ready")["status"] == "True"
    assert world.condition(world.get("v1", "Node", "theirs", ""), "Ready") == {}
    assert world.has("coordination.k8s.io/v1", "Lease", "mine", "kube-node-lease")
    assert not world.has("coordination.k8s.io/v1", "Lease", "theirs", "kube-node-lease")


@pytest.mark.parametrize(
    ("port", "phase"),
    [
        ({"hostPort": 80}, "Failed"),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, "Failed"),
        ({"hostPort": 80, "protocol": "UDP"}, "Running"),
        ({"hostPort": 81}, "Running"),
        ({}, "Running"),
    ],
)
def test_pod_that_wants_a_taken_host_port_is_rejected(world: World, port: Json, phase: str) -> None:
    """interfaces.md 7.5: until the pod that holds the port has ended."""

    def bound(name: str, ports: Json, node: str = "node-1") -> None:
        container = {"name": "c", "image": "i", "ports": [{"containerPort": 80, **ports}]}
        spec = {"containers": [container], "nodeName": node, "terminationGracePeriodSeconds": 0}
        world.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
        world.forward(5)

    bound("first", {"hostPort": 80})
    bound("second", port)
    bound("elsewhere", port, "node-2")
    second = world.get("v1", "Pod", "second")["status"]
    assert (second["phase"], second.get("reason")) == (phase, "NodePorts" if phase == "Failed" else None)
    world.delete("v1", "Pod", "first")
    world.forward(5)
    bound("third", port if phase == "Failed" else {"hostPort": 80})
    assert {world.get("v1", "Pod", name)["status"]["phase"] for name in ("elsewhere", "third")} == {"Running"}


def test_leases_are_renewed_in_time_and_cheaply() -> None:
    world = World((), nodes=300, renewals_per_second=10.0)
    world.forward(5)
    before = world.store.revision
    world.forward(60)
    renewals = world.store.revision - before
    assert 500 <= renewals <= 700  # 10 a second
    for lease in world.all("coordination.k8s.io/v1", "Lease"):
        assert lease["spec"]["leaseDurationSeconds"] >= 2 * 30


def test_large_fleets_are_made_in_batches() -> None:
    world = World((), nodes=130)
    assert len(world.all("v1", "Node")) < 130
    world.forward(1)
    assert len(world.all("v1", "Node")) == 130


def test_making_nodes_again_changes_nothing(world: World) -> None:
    world.patch("v1", "Node", "node-1", {"metadata": {"labels": {"kept": "yes"}}}, ns="")
    uid = world.get("v1", "Node", "node-1", "")["metadata"]["uid"]
    again = World((), nodes=2, store=world.store, clock=world.set_clock)
    node = again.get("v1", "Node", "node-1", "")
    assert (node["metadata"]["uid"], node["metadata"]["labels"]["kept"]) == (uid, "yes")


# -- pods


def test_bound_pod_runs(world: World) -> None:
    found = bound(world, pod("p", initContainers=[{"name": "first", "image": "x"}]))
    status = found["status"]
    assert status["phase"] == "Running"
    assert status["podIP"] == status["podIPs"][0]["ip"]
    assert status["hostIP"] == world.get("v1", "Node", "node-1", "")["status"]["addresses"][0]["address"]
    assert status["startTime"]
    conditions = {one["type"]: one["status"] for one in status["conditions"]}
    assert conditions == dict.fromkeys(
        ("PodScheduled", "Initialized", "Ready", "ContainersReady", "PodReadyToStartContainers"), "True"
    )
    (container,) = status["containerStatuses"]
    assert (container["name"], container["ready"], container["restartCount"]) == ("c", True, 0)
    assert container["state"]["running"]["startedAt"]
    assert status["initContainerStatuses"][0]["state"]["terminated"]["reason"] == "Completed"


def test_pods_have_their_own_addresses(world: World) -> None:
    addresses = {bound(world, pod(name))["status"]["podIP"] for name in "abc"}
    assert len(addresses) == 3
    host = bound(world, pod("h", hostNetwork=True))["status"]
    assert host["podIP"] == host["hostIP"]


def test_unbound_pods_and_pods_elsewhere_wait(world: World) -> None:
    world.create(pod("free"))
    world.create(pod("far"))
    world.bind("far", "elsewhere")
    world.forward(5)
    assert {one["status"]["phase"] for one in world.pods()} == {"Pending"}


@pytest.mark.parametrize(
    ("code", "policy", "phase"),
    [(0, "Never", "Succeeded"), (3, "Never", "Failed"), (0, "OnFailure", "Succeeded")],
)
def test_run_that_ends(world: World, code: int, policy: str, phase: str) -> None:
    made = a_pod(run_seconds="10", exit_code=str(code))
    made["spec"]["restartPolicy"] = policy
    assert bound(world, made, 9)["status"]["phase"] == "Running"
    world.forward(3)
    status = world.get("v1", "Pod", "p")["status"]
    assert status["phase"] == phase
    terminated = status["containerStatuses"][0]["state"]["terminated"]
    assert (terminated["exitCode"], terminated["reason"]) == (code, "Completed" if code == 0 else "Error")
    ready = world.condition(world.get("v1", "Pod", "p"), "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "PodCompleted" if code == 0 else "PodFailed")


@pytest.mark.parametrize(("code", "policy"), [(0, "Always"), (1, "Always"), (1, "OnFailure")])
def test_run_that_is_restarted(world: World, code: int, policy: str) -> None:
    made = a_pod(run_seconds="10", exit_code=str(code))
    made["spec"]["restartPolicy"] = policy
    bound(world, made, 12)
    container = world.get("v1", "Pod", "p")["status"]["containerStatuses"][0]
    assert (container["restartCount"], container["ready"]) == (1, True)
    assert container["lastState"]["terminated"]["exitCode"] == code
    world.forward(10)  # the second end: now it has to wait
    container = world.get("v1", "Pod", "p")["status"]["containerStatuses"][0]
    assert container["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert world.condition(world.get("v1", "Pod", "p"), "Ready")["status"] == "False"
    world.forward(10)
    container = world.get("v1", "Pod", "p")["status"]["containerStatuses"][0]
    assert (container["restartCount"], container["ready"]) == (2, True)


def test_deadline(world: World) -> None:
    made = a_pod()
    made["spec"]["activeDeadlineSeconds"] = 20
    bound(world, made, 22)
    status = world.get("v1", "Pod", "p")["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")


def test_readiness_gates(world: World) -> None:
    """pods.go, "should support pod readiness gates": the pod is ready while all of them are true."""
    gates = ["example.com/up", "example.com/in"]
    made = pod("p", readinessGates=[{"conditionType": gate} for gate in gates])
    assert world.condition(bound(world, made), "Ready")["status"] == "False"
    for gate, status, ready in [(0, "True", "False"), (1, "True", "True"), (0, "False", "False")]:
        conditions = world.get("v1", "Pod", "p")["status"]["conditions"]
        others = [one for one in conditions if one["type"] != gates[gate]]
        world.set_status("v1", "Pod", "p", {"conditions": [*others, {"type": gates[gate], "status": status}]})
        assert world.condition(world.forward(1).get("v1", "Pod", "p"), "Ready")["status"] == ready


@pytest.mark.parametrize(
    ("stop", "grace", "gone_after", "code"),
    [(None, 30, 1, 143), ("5", 30, 6, 143), ("50", 10, 11, 137), ("50", 0, 1, None), (None, None, 1, 143)],
)
def test_deletion_honours_grace(
    world: World, stop: str | None, grace: int | None, gone_after: float, code: Any
) -> None:
    made = a_pod(**({"stop_seconds": stop} if stop else {}))
    made["metadata"]["finalizers"] = ["example.com/look"]
    bound(world, made)
    world.delete("v1", "Pod", "p", grace=grace)
    if gone_after > 2:
        world.forward(gone_after - 2)
        assert world.get("v1", "Pod", "p")["status"]["phase"] == "Running"
        world.forward(2)
    world.forward(1)
    found = world.get("v1", "Pod", "p")
    assert found["metadata"]["deletionGracePeriodSeconds"] == 0
    assert found["status"]["observedGeneration"] == found["metadata"]["generation"] == 2
    if code is not None:
        assert found["status"]["phase"] == "Failed"
        assert found["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == code
    world.patch("v1", "Pod", "p", {"metadata": {"finalizers": None}})
    assert world.names() == []


def test_second_deletion_may_hurry_it(world: World) -> None:
    bound(world, a_pod(stop_seconds="100"))
    world.delete("v1", "Pod", "p", grace=60)
    world.forward(5)
    assert world.names() == ["p"]
    world.delete("v1", "Pod", "p", grace=1)
    world.forward(2)
    assert world.names() == []


def test_pod_deleted_before_it_started_goes_at_once(world: World) -> None:
    world.create(pod("p"))
    world.bind("p", "node-1")
    world.delete("v1", "Pod", "p")
    world.settle()
    assert world.names() == []


def test_start_takes_time_and_has_a_rate() -> None:
    world = World((), nodes=1, start_seconds=2.0)
    assert bound(world, a_pod(), 1.5)["status"]["phase"] == "Pending"
    assert world.forward(1).names("Running") == ["p"]
    assert bound(world, a_pod("slow", start_seconds="20"), 19)["status"]["phase"] == "Pending"
    world = World((), nodes=1, starts_per_second=1.0)
    for index in range(10):
        world.create(pod(f"p{index}"))
        world.bind(f"p{index}", "node-1")
    assert 4 <= len(world.forward(5).names("Running")) <= 6
    assert len(world.forward(6).names("Running")) == 10


def test_kubelet_that_is_down_does_nothing_until_it_is_back(world: World) -> None:
    bound(world, a_pod("running"))
    down = {"metadata": {"annotations": {"reprieve.dev/kubelet": "down"}}}
    world.patch("v1", "Node", "node-1", down, ns="")
    world.settle()
    bound(world, a_pod("late"), 5)
    world.delete("v1", "Pod", "running", grace=1)
    world.forward(5)
    assert [(one["metadata"]["name"], one["status"]["phase"]) for one in world.pods()] == [
        ("late", "Pending"),
        ("running", "Running"),
    ]
    world.patch("v1", "Node", "node-1", {"metadata": {"annotations": {"reprieve.dev/kubelet": None}}}, ns="")
    world.forward(2)
    assert world.names("Running") == ["late"]
    assert world.names() == ["late"]


@pytest.mark.parametrize("moment", [0.1, 5, 14, 25])
def test_killed_server_goes_on_where_it_was(moment: float) -> None:
    """A pod that runs 20 s and one that takes 10 s to stop, the server killed at any moment."""
    world = World((), nodes=1)
    for name, more in (("run", {"run_seconds": "20"}), ("stop", {"stop_seconds": "10"})):
        world.create(a_pod(name, **more))
        world.bind(name, "node-1")
    world.forward(moment)
    again = World((), nodes=1, store=world.store, clock=world.set_clock)
    again.forward(max(0.0, 26 - moment))
    assert again.get("v1", "Pod", "run")["status"]["phase"] == "Succeeded"
    again.delete("v1", "Pod", "stop", grace=30)
    again.forward(5)
    last = World((), nodes=1, store=world.store, clock=world.set_clock)
    assert last.names("Running") == ["stop"]
    assert last.forward(6).names("Running") == []


def test_evicted_by_taint_while_others_stay() -> None:
    world = World(("node-lifecycle", "taint-eviction", "replicaset"), nodes=2)
    world.create(a_pod())
    world.bind("p", "node-1")
    world.forward(2)
    world.patch("v1", "Node", "node-1", {"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}}, ns="")
    world.forward(2)
    assert world.names() == []


# -- parts


@pytest.mark.parametrize(
    ("text", "expected"), [("5", 5.0), ("0.5", 0.5), ("x", None), ("-1", None), ("nan", None), ("1e99", None)]
)
def test_reading_seconds(text: str, expected: float | None) -> None:
    assert seconds_of({"annotations": {"a": text}}, "a") == expected


@pytest.mark.parametrize(("text", "expected"), [("3", 3), ("256", 0), ("-1", 0), ("x", 0)])
def test_reading_exit_codes(text: str, expected: int) -> None:
    assert exit_code_of({"annotations": {"reprieve.dev/exit-code": text}}) == expected


def test_addresses_count_on() -> None:
    assert address("10.128.0.0", 257) == "10.128.1.1"


def test_templates_are_filled_everywhere() -> None:
    assert filled({"a-{index}": ["{name}", 3]}, "n", 7) == {"a-7": ["n", 3]}
