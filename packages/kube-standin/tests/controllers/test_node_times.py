"""Nodes that fall silent, taints that end and pods of lost nodes, to the second (upstream: nodelifecycle,
tainteviction, podgc), and that what is at rest is not written again.
"""

from __future__ import annotations

import pytest

from kube_standin.clock import stamp
from kube_standin.controllers import Times
from tests.admission.plane import pod
from tests.controllers.world import Json, World

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
LEASES = "kube-node-lease"


def node(name: str, taints: list[Json] | None = None, **conditions: str) -> Json:
    listed = [
        {"type": kind, "status": value, "lastHeartbeatTime": "2026-01-01T00:00:00Z"}
        for kind, value in conditions.items()
    ]
    spec = {"taints": taints} if taints else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "spec": spec,
        "status": {"conditions": listed},
    }


def lease(name: str, seconds: int | None = 40, renewed: str | None = None, ns: str = LEASES) -> Json:
    spec = {key: value for key, value in (("leaseDurationSeconds", seconds), ("renewTime", renewed)) if value}
    metadata = {"name": name, "namespace": ns}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


def ready(world: World, name: str = "n") -> str:
    found: str = world.condition(world.get("v1", "Node", name, ""), "Ready")["status"]
    return found


def with_lease(seconds: int | None = 40, *, renewed: bool = False) -> World:
    """A world with the ready node `n`; its lease was renewed at the start, if ever."""
    world = World(("node-lifecycle",))
    world.create(node("n", Ready="True"))
    now = world.set_clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    world.create(lease("n", seconds, now if renewed else None))
    return world.settle()


@pytest.mark.parametrize("renewed", [False, True])
@pytest.mark.parametrize(("seconds", "grace"), [(None, 50), (10, 50), (40, 50), (60, 60)])
def test_node_is_silent_after(seconds: int | None, grace: int, renewed: bool) -> None:
    """interfaces.md 7.1: more than 50 s, or the duration of the lease; looked at every five seconds."""
    world = with_lease(seconds, renewed=renewed).forward(grace)
    assert ready(world) == "True"
    world.forward(4)
    assert ready(world) == "True"
    world.forward(1)
    assert ready(world) == "Unknown"


def renew(world: World) -> None:
    now = world.set_clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    world.patch("coordination.k8s.io/v1", "Lease", "n", {"spec": {"renewTime": now}}, ns=LEASES)


def test_silence_counts_from_the_last_renewal() -> None:
    world = with_lease().forward(30)
    renew(world)
    world.forward(50)
    assert ready(world) == "True"
    world.forward(5)
    assert ready(world) == "Unknown"


def test_node_that_reports_again_may_fall_silent_again() -> None:
    world = with_lease().forward(55)
    assert ready(world) == "Unknown"
    renew(world)
    world.set_status("v1", "Node", "n", {"conditions": [{"type": "Ready", "status": "True"}]}, ns="")
    assert ready(world.forward(50)) == "True"
    assert ready(world.forward(5)) == "Unknown"


def test_node_that_reports_without_renewing_its_lease_stays_silent() -> None:
    """The lease is what a kubelet is heard by."""
    world = with_lease().forward(55)
    world.set_status("v1", "Node", "n", {"conditions": [{"type": "Ready", "status": "True"}]}, ns="")
    assert ready(world.settle()) == "Unknown"


def test_lease_of_another_namespace_is_of_no_node() -> None:
    world = World(("node-lifecycle",))
    world.create(node("n", Ready="True"))
    world.create(lease("n", ns="default"))
    assert ready(world.forward(300)) == "True"


def test_node_that_is_made_again_has_its_own_time() -> None:
    world = with_lease().forward(30)
    world.delete("v1", "Node", "n", ns="")
    world.settle()
    world.create(node("n", Ready="True"))
    assert ready(world.forward(50)) == "True"
    assert ready(world.forward(5)) == "Unknown"
    world.delete("v1", "Node", "n", ns="")
    world.settle()
    world.create(node("n", Ready="True"))
    assert ready(world.forward(50)) == "True"
    assert ready(world.forward(5)) == "Unknown"


def test_node_that_is_silent_has_unknown_conditions() -> None:
    """All that a kubelet reports; what is unknown already keeps its times, and others are left alone."""
    world = World(("node-lifecycle",))
    made = node("n", Ready="Unknown", MemoryPressure="False", NetworkUnavailable="False")
    made["status"]["conditions"][0]["lastTransitionTime"] = "2025-12-31T00:00:00Z"
    world.create(made)
    world.create(lease("n"))
    world.forward(55)
    moment = stamp(world.set_clock.now())
    found = world.get("v1", "Node", "n", "")
    heard = "2026-01-01T00:00:00Z"
    told = {
        "status": "Unknown",
        "reason": "NodeStatusUnknown",
        "message": "Kubelet stopped posting node status.",
        "lastTransitionTime": moment,
    }
    assert world.condition(found, "Ready") == made["status"]["conditions"][0]
    assert world.condition(found, "MemoryPressure") == {"type": "MemoryPressure", "lastHeartbeatTime": heard, **told}
    for kind in ("DiskPressure", "PIDPressure"):
        assert world.condition(found, kind) == {"type": kind, "lastHeartbeatTime": None, **told}
    assert world.condition(found, "NetworkUnavailable")["status"] == "False"
    version = found["metadata"]["resourceVersion"]
    assert world.forward(60).get("v1", "Node", "n", "")["metadata"]["resourceVersion"] == version


def test_taints_carry_the_time_where_it_counts() -> None:
    """Evictions are counted from it, and a cordon shows it; those that only keep pods away have none."""
    world = World(("node-lifecycle",))
    world.set_clock.forward(60)
    made = node("n", Ready="False", MemoryPressure="True")
    made["spec"] = {"unschedulable": True}
    world.create(made)
    now = stamp(world.set_clock.now())
    found = world.settle().get("v1", "Node", "n", "")["spec"]["taints"]
    assert {(one["key"], one["effect"]): one.get("timeAdded") for one in found} == {
        (NOT_READY, "NoSchedule"): None,
        (NOT_READY, "NoExecute"): now,
        ("node.kubernetes.io/memory-pressure", "NoSchedule"): None,
        (UNSCHEDULABLE, "NoSchedule"): now,
    }


def test_taints_that_are_still_so_keep_their_time() -> None:
    early = {"key": NOT_READY, "effect": "NoExecute", "timeAdded": "2025-12-31T00:00:00Z"}
    gone = {"key": UNREACHABLE, "effect": "NoExecute", "timeAdded": "2025-12-31T00:00:00Z"}
    other = {"key": "gpu", "effect": "NoExecute", "value": "v"}
    world = World(("node-lifecycle",))
    world.create(node("n", [early, gone, other], Ready="False"))
    found = world.settle().get("v1", "Node", "n", "")
    assert found["spec"]["taints"] == [early, other, {"key": NOT_READY, "effect": "NoSchedule"}]
    world.set_status("v1", "Node", "n", {"conditions": [{"type": "Ready", "status": "True"}]}, ns="")
    found = world.settle().get("v1", "Node", "n", "")
    assert found["spec"]["taints"] == [other]
    world.patch("v1", "Node", "n", {"metadata": {"labels": {"a": "b"}}}, ns="")
    before = world.get("v1", "Node", "n", "")["metadata"]["resourceVersion"]
    assert world.settle().get("v1", "Node", "n", "")["metadata"]["resourceVersion"] == before


@pytest.mark.parametrize(("status", "unready"), [("False", True), ("Unknown", True), ("True", False), (None, False)])
def test_pods_of_a_node_that_is_not_ready(status: str | None, unready: bool) -> None:
    """Those that were ready, on that node alone; one that says nothing is taken at its word."""
    world = World(("node-lifecycle",))
    world.create(node("other", Ready="True"))
    for name, where in (("a", "n"), ("b", "n"), ("c", "other")):
        world.create(pod(name))
        world.bind(name, where)
        world.set_ready(name, ready=name != "a")
    before = world.get("v1", "Pod", "a")["metadata"]["resourceVersion"]
    world.create(node("n", Ready=status) if status else node("n"))
    world.settle()
    found = world.condition(world.get("v1", "Pod", "b"), "Ready")
    assert found["status"] == ("False" if unready else "True")
    assert (found.get("reason") == "NodeNotReady") is unready
    assert world.get("v1", "Pod", "a")["metadata"]["resourceVersion"] == before, "it was not ready before"
    assert world.condition(world.get("v1", "Pod", "c"), "Ready")["status"] == "True"


# -- NoExecute


def tainted(*tolerations: Json, taints: list[Json], created: float = 0) -> World:
    """The pod `p` on a node with taints."""
    world = World(("taint-eviction",))
    world.create(pod("p", tolerations=list(tolerations)))
    world.bind("p", "n")
    world.set_clock.forward(created)
    world.create(node("n", taints))
    return world.settle()


def for_seconds(key: str, seconds: int | None) -> Json:
    wait = {"tolerationSeconds": seconds} if seconds is not None else {}
    return {"key": key, "operator": "Exists", "effect": "NoExecute", **wait}


def execute(key: str, added: str | None = None) -> Json:
    return {"key": key, "effect": "NoExecute", **({"timeAdded": added} if added else {})}


def leaves_after(world: World, seconds: float) -> None:
    """The pod is deleted at that second and not before (a bound pod's grace is 30 s)."""
    assert "deletionTimestamp" not in world.forward(seconds - 1).get("v1", "Pod", "p")["metadata"]
    found = world.forward(1).get("v1", "Pod", "p")
    assert found["metadata"]["deletionTimestamp"]
    condition = world.condition(found, "DisruptionTarget")
    assert (condition["status"], condition["reason"]) == ("True", "DeletionByTaintManager")
    events = [(one["reason"], one["message"]) for one in world.all("v1", "Event")]
    assert events == [("TaintManagerEviction", "Marking for deletion Pod default/p")]


def test_shortest_of_all_tolerations_that_are_used_counts() -> None:
    taints = [execute("a"), execute("b"), {"key": "c", "effect": "NoSchedule"}]
    asked = (for_seconds("a", 60), for_seconds("a", None), for_seconds("b", 20), for_seconds("b", 90))
    leaves_after(tainted(*asked, taints=taints), 20)
    leaves_after(tainted(*reversed(asked), taints=taints[::-1]), 20)


def test_toleration_without_end_beside_one_with() -> None:
    leaves_after(tainted(for_seconds("a", None), for_seconds("b", 20), taints=[execute("a"), execute("b")]), 20)
    leaves_after(tainted(for_seconds("a", 2**62), for_seconds("b", 20), taints=[execute("a"), execute("b")]), 20)


def test_time_runs_from_when_the_taint_was_added() -> None:
    """As the taint says, else from when it was first seen; a taint that is replaced begins again."""
    leaves_after(tainted(for_seconds("a", 60), taints=[execute("a", "2026-01-01T00:00:00Z")], created=40), 20)
    leaves_after(tainted(for_seconds("a", 60), taints=[execute("a")], created=40), 60)
    world = tainted(for_seconds("a", 60), for_seconds("b", None), taints=[execute("a")]).forward(30)
    world.patch("v1", "Node", "n", {"spec": {"taints": [execute("a"), execute("b")]}}, ns="")
    leaves_after(world, 30)
    world = tainted(for_seconds("a", 60), taints=[execute("a")]).forward(30)
    world.patch("v1", "Node", "n", {"spec": {"taints": [{**execute("a"), "value": "new"}]}}, ns="")
    world.settle()
    leaves_after(world, 60)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_pod_that_has_ended_is_not_evicted(phase: str) -> None:
    world = World(("taint-eviction",))
    world.create(pod("p"))
    world.bind("p", "n")
    world.set_phase("p", phase)
    world.create(node("n", [execute("a")]))
    assert "deletionTimestamp" not in world.settle().get("v1", "Pod", "p")["metadata"]


def test_pod_that_comes_to_a_tainted_node_is_evicted() -> None:
    world = World(("taint-eviction",))
    world.create(node("n", [execute("a")]))
    world.create(pod("p"))
    world.settle()
    world.bind("p", "n")
    assert world.settle().get("v1", "Pod", "p")["metadata"]["deletionTimestamp"]


def going(world: World) -> list[str]:
    return [one["metadata"]["name"] for one in world.pods() if one["metadata"].get("deletionTimestamp")]


def test_since_when_a_taint_is_there_is_known_node_by_node() -> None:
    """Another node that changes does not set it back; one that is taken off and comes again begins again."""
    world = World(("taint-eviction",))
    for name in ("m", "n"):
        world.create(node(name, [execute("a")]))
    for name, seconds in (("p", 60), ("q", 90)):
        late = {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
        world.create(pod(name, tolerations=[late]))
        world.bind(name, "n")
    world.forward(30)
    world.patch("v1", "Node", "m", {"spec": {"taints": [execute("b")]}}, ns="")
    assert going(world.forward(29)) == []
    assert going(world.forward(1)) == ["p"]
    world.patch("v1", "Node", "n", {"spec": {"taints": None}}, ns="")
    world.forward(10)
    world.patch("v1", "Node", "n", {"spec": {"taints": [execute("a")]}}, ns="")
    assert going(world.forward(89)) == ["p"]
    assert going(world.forward(1)) == ["p", "q"]


# -- pods of lost nodes


def test_pods_of_a_lost_node_wait_forty_seconds() -> None:
    world = World(("pod-garbage-collector",))
    world.create(node("n"))
    for name in ("a", "b"):
        world.create(pod(name))
        world.bind(name, "n")
    world.delete("v1", "Node", "n", ns="")
    assert world.forward(39).names() == ["a", "b"]
    assert world.forward(1).names() == []


def test_node_may_be_lost_twice() -> None:
    """And time begins again for a pod that is bound to it later."""
    world = World(("pod-garbage-collector",))
    for round_ in ("first", "second"):
        world.create(pod(round_))
        world.bind(round_, "nowhere")
        assert world.forward(39).names() == [round_]
        assert world.forward(1).names() == []


def test_pod_that_ended_on_a_lost_node_keeps_how() -> None:
    world = World(("pod-garbage-collector",))
    held = pod("p")
    held["metadata"]["finalizers"] = ["example.com/wait"]
    world.create(held)
    world.bind("p", "nowhere")
    world.set_phase("p", "Succeeded")
    found = world.forward(40).get("v1", "Pod", "p")
    assert found["metadata"]["deletionTimestamp"]
    assert found["status"]["phase"] == "Succeeded"
    assert world.condition(found, "DisruptionTarget") == {}


def test_pod_that_was_loaded_while_it_ended_goes() -> None:
    """One that terminates with grace left and has no node: no kubelet ends it."""
    world = World(())
    world.create(pod("p"))
    state = world.store.head("pods", "default", "p")
    assert state is not None
    body = state.decode()
    body["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:30Z", "deletionGracePeriodSeconds": 30}
    world.controllers.context.put(state, body)
    world.store.flush()
    assert world.names() == ["p"]
    assert world.restarted(("pod-garbage-collector",)).names() == []


@pytest.mark.parametrize(("most", "left"), [(3, ["a", "b", "c"]), (2, ["b", "c"]), (0, [])])
def test_oldest_of_too_many_finished_pods_go(most: int, left: list[str]) -> None:
    world = World(("pod-garbage-collector",), times=Times(most_finished=most))
    for name, phase in (("c", "Succeeded"), ("a", "Failed"), ("b", "Succeeded"), ("d", "Running")):
        if name == "c":
            world.set_clock.forward(3600)
        world.create(pod(name))
        world.set_phase(name, phase)
        if name == "c":
            world.set_clock.forward(-3600)
    assert world.settle().names() == [*left, "d"]


def test_finished_pods_of_one_moment_go_by_name() -> None:
    world = World(("pod-garbage-collector",), times=Times(most_finished=1))
    for name in ("b", "c", "a"):
        world.create(pod(name))
    for name in ("a", "b", "c"):
        world.set_phase(name, "Succeeded")
    assert world.settle().names() == ["c"]
