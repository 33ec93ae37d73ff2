"""What a kubelet writes of a pod, field for field, and how long simulated pods wait, by a clock that is set."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import pytest

from kube_standin.clock import parse_stamp
from kube_standin.kubelet import KubeletOptions, statuses
from kube_standin.kubelet.fleet import address, filled, label_as_kubelets_do
from kube_standin.kubelet.settings import exit_code_of, seconds_of
from tests.admission.plane import pod
from tests.controllers.world import Json, World

EARLY, LATE, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z"


def bare(**spec: Any) -> Json:
    containers = [{"name": "a", "image": "x"}, {"name": "b"}]
    return {"metadata": {"name": "p", "uid": "u"}, "spec": {"containers": containers, **spec}}


def started(**spec: Any) -> Json:
    made = bare(**spec)
    statuses.start(made, EARLY, pod_ip="10.1.0.1", host_ip="10.0.0.1")
    return made


def conditions(made: Json) -> dict[str, tuple[str, str, str]]:
    return {
        one["type"]: (one["status"], one.get("reason", ""), one["lastTransitionTime"])
        for one in made["status"]["conditions"]
    }


def containers(made: Json) -> list[Json]:
    found: list[Json] = made["status"]["containerStatuses"]
    return found


def test_pod_that_starts() -> None:
    made = bare()
    made["metadata"]["generation"] = 3
    made["status"] = {"phase": "Pending", "reason": "Why", "message": "text"}
    statuses.start(made, EARLY, pod_ip="10.1.0.1", host_ip="10.0.0.1")
    status = made["status"]
    assert (status["phase"], status["startTime"], status["observedGeneration"]) == ("Running", EARLY, 3)
    assert (status["hostIP"], status["hostIPs"]) == ("10.0.0.1", [{"ip": "10.0.0.1"}])
    assert (status["podIP"], status["podIPs"]) == ("10.1.0.1", [{"ip": "10.1.0.1"}])
    assert "reason" not in status
    assert "message" not in status
    assert "initContainerStatuses" not in status
    assert conditions(made) == dict.fromkeys(
        ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"), ("True", "", EARLY)
    )
    first, second = containers(made)
    assert {key: value for key, value in first.items() if key != "containerID"} == {
        "name": "a",
        "image": "x",
        "imageID": "x",
        "ready": True,
        "started": True,
        "restartCount": 0,
        "state": {"running": {"startedAt": EARLY}},
        "lastState": {},
        "resources": {},
    }
    assert first["containerID"] != second["containerID"]
    assert second["image"] == ""
    assert "observedGeneration" not in started()["status"]


@pytest.mark.parametrize(
    ("spec", "before", "address_"),
    [
        ({}, {}, "10.1.0.1"),
        ({"hostNetwork": True}, {}, "10.0.0.1"),
        ({}, {"podIP": "10.1.0.9", "startTime": LATER}, "10.1.0.9"),
    ],
)
def test_addresses_of_a_pod_that_starts(spec: Json, before: Json, address_: str) -> None:
    made = bare(**spec)
    made["status"] = dict(before)
    statuses.start(made, EARLY, pod_ip="10.1.0.1", host_ip="10.0.0.1")
    assert (made["status"]["podIP"], made["status"]["podIPs"]) == (address_, [{"ip": address_}])
    assert made["status"]["startTime"] == before.get("startTime", EARLY)


def test_init_containers_have_ended_and_sidecars_run() -> None:
    made = started(initContainers=[{"name": "i"}, {"name": "s", "restartPolicy": "Always"}])
    ended, running = made["status"]["initContainerStatuses"]
    times = {"startedAt": EARLY, "finishedAt": EARLY}
    assert ended["state"] == {"terminated": {"exitCode": 0, "reason": "Completed", **times}}
    assert (ended["ready"], ended["started"]) == (True, False)
    assert running["state"] == {"running": {"startedAt": EARLY}}
    assert (running["ready"], running["started"]) == (True, True)
    assert [(one["name"], one["restartCount"]) for one in (ended, running)] == [("i", 0), ("s", 0)]


@pytest.mark.parametrize(
    ("gates", "met", "expected"),
    [
        (["g"], [], ("False", "ReadinessGatesNotReady")),
        (["g", "h"], ["g"], ("False", "ReadinessGatesNotReady")),
        (["g", "h"], ["g", "h"], ("True", "")),
    ],
)
def test_gates_hold_a_pod_that_is_ready(gates: list[str], met: list[str], expected: tuple[str, str]) -> None:
    made = bare(readinessGates=[{"conditionType": gate} for gate in gates])
    made["status"] = {"conditions": [{"type": gate, "status": "True", "lastTransitionTime": EARLY} for gate in met]}
    statuses.start(made, EARLY, pod_ip="10.1.0.1", host_ip="10.0.0.1")
    found = conditions(made)
    assert found["Ready"][:2] == expected
    assert found["ContainersReady"][:2] == ("True", "")


@pytest.mark.parametrize(("code", "phase", "reason", "word"), [(0, "Succeeded", "PodCompleted", "Completed"),
                                                               (3, "Failed", "PodFailed", "Error")])  # fmt: skip
def test_pod_that_ends(code: int, phase: str, reason: str, word: str) -> None:
    made = started()
    identity = containers(made)[0]["containerID"]
    statuses.finish(made, LATE, code)
    assert made["status"]["phase"] == phase
    for one in containers(made):
        assert (one["ready"], one["started"]) == (False, False)
    assert containers(made)[0]["state"] == {
        "terminated": {
            "exitCode": code,
            "reason": word,
            "startedAt": EARLY,
            "finishedAt": LATE,
            "containerID": identity,
        }
    }
    found = conditions(made)
    assert found["Ready"] == found["ContainersReady"] == ("False", reason, LATE)
    assert found["PodReadyToStartContainers"] == ("False", "", LATE)
    assert found["Initialized"] == ("True", "", EARLY)
    again = copy.deepcopy(made)
    statuses.finish(again, LATER, code)
    assert again == made, "what has ended keeps its times"


def test_pod_that_ends_before_it_started_has_no_containers() -> None:
    made = bare()
    statuses.finish(made, LATE, 1)
    assert made["status"]["phase"] == "Failed"
    assert "containerStatuses" not in made["status"]


def test_restarts_are_counted() -> None:
    made = started()
    before = [one["containerID"] for one in containers(made)]
    assert not statuses.is_waiting(made)
    assert statuses.wait_to_restart(made, LATE, 3) == 0
    assert statuses.is_waiting(made)
    found = conditions(made)
    assert found["Ready"] == found["ContainersReady"] == ("False", "ContainersNotReady", LATE)
    for one in containers(made):
        waiting = {"reason": "CrashLoopBackOff", "message": "back-off restarting failed container"}
        assert one["state"] == {"waiting": waiting}
        assert one["lastState"]["terminated"]["exitCode"] == 3
        assert (one["ready"], one["restartCount"]) == (False, 0)
    statuses.restart(made, LATER)
    assert not statuses.is_waiting(made)
    for one, identity in zip(containers(made), before, strict=True):
        assert one["state"] == {"running": {"startedAt": LATER}}
        assert one["lastState"]["terminated"]["finishedAt"] == LATE
        assert (one["ready"], one["started"], one["restartCount"]) == (True, True, 1)
        assert one["containerID"] != identity
    assert conditions(made)["Ready"] == ("True", "", LATER)
    assert statuses.wait_to_restart(made, LATER, 3) == 1


def test_since_when_a_pod_runs() -> None:
    """Since the last of its containers started, else since the pod did."""
    made = started()
    assert statuses.running_since(made) == EARLY
    containers(made)[1]["state"] = {"running": {"startedAt": LATE}}
    assert statuses.running_since(made) == LATE
    containers(made)[0]["state"] = containers(made)[1]["state"] = {"running": {}}
    assert statuses.running_since(made) == EARLY
    assert statuses.running_since(bare()) is None


# -- options and annotations


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("1.5", 1.5), ("-0.1", None), ("nan", None), ("inf", None), ("x", None), ("", None),
     ("315360000", 315360000), ("315360001", None), (None, None)],
)  # fmt: skip
def test_seconds_of_annotations(text: str | None, seconds: float | None) -> None:
    """Up to ten years; what cannot be read counts as absent."""
    metadata = {"annotations": {"k": text}} if text is not None else {}
    assert seconds_of(metadata, "k") == seconds


@pytest.mark.parametrize(
    ("text", "code"), [("0", 0), ("255", 255), ("256", 0), ("-1", 0), ("x", 0), (None, 0), ("1", 1), ("9" * 5000, 0)]
)
def test_exit_codes_of_annotations(text: str | None, code: int) -> None:
    metadata = {"annotations": {"reprieve.dev/exit-code": text}} if text is not None else {}
    assert exit_code_of(metadata) == code


def test_templates_are_filled_in_everywhere() -> None:
    template = {"{name}": ["{index}", {"a": "{name}-{index}"}, 5, None]}
    assert filled(template, "n", 7) == {"n": ["7", {"a": "n-7"}, 5, None]}


@pytest.mark.parametrize(
    ("position", "found"), [(0, "10.0.0.0"), (1, "10.0.0.1"), (256, "10.0.1.0"), (2**22 - 1, "10.63.255.255"),
                            (2**22, "10.0.0.0")],
)  # fmt: skip
def test_addresses(position: int, found: str) -> None:
    assert address("10.0.0.0", position) == found


def test_labels_of_a_node_are_its_own_first() -> None:
    made: Json = {"metadata": {"name": "n", "labels": {"kubernetes.io/os": "windows", "a": "b"}}}
    label_as_kubelets_do(made)
    assert made["metadata"]["labels"] == {
        "kubernetes.io/hostname": "n",
        "kubernetes.io/os": "windows",
        "kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": "amd64",
        "a": "b",
    }


def test_fleet_by_default() -> None:
    """As docs/apiserver.md says."""
    options = KubeletOptions()
    assert (options.nodes, options.adopt, options.starts_per_second) == (0, True, None)
    assert (options.start_seconds, options.stop_seconds) == (0.3, 0.3)
    assert (options.lease_seconds, options.renewals_per_second) == (10.0, 50.0)
    assert options.resources == {"cpu": "32", "memory": "128Gi", "ephemeral-storage": "200Gi", "pods": "110"}


# -- to the second


def bound(world: World, name: str = "p", policy: str = "Never", **more: Any) -> World:
    made = pod(name, restartPolicy=policy, **more.pop("spec", {}))
    made["metadata"]["annotations"] = {
        f"reprieve.dev/{key.replace('_', '-')}": str(value) for key, value in more.items()
    }
    world.create(made)
    world.bind(name, "node-1")
    return world.settle()


def phase(world: World, name: str = "p") -> str:
    found: str = world.get("v1", "Pod", name)["status"]["phase"]
    return found


def test_how_long_a_pod_takes_to_start() -> None:
    """The fleet's time, or its own."""
    world = bound(World((), nodes=1, start_seconds=2.0))
    assert phase(world.forward(1.9)) == "Pending"
    assert phase(world.forward(0.1)) == "Running"
    bound(world, "q", start_seconds=5)
    assert phase(world.forward(4.9), "q") == "Pending"
    assert phase(world.forward(0.1), "q") == "Running"


def test_so_many_pods_start_in_a_second() -> None:
    world = World((), nodes=1, start_seconds=0.0, starts_per_second=2.0)
    for name in "abcd":
        bound(world, name)
    counts = [len(world.forward(wait).pods("Running")) for wait in (0, 0.5, 0.5, 0.5)]
    assert counts == [1, 2, 3, 4]


def test_how_long_a_pod_runs() -> None:
    world = bound(World((), nodes=1, start_seconds=0.0), run_seconds=5)
    assert phase(world.forward(4.9)) == "Running"
    assert phase(world.forward(0.1)) == "Succeeded"


def test_deadline_of_a_pod_counts_from_its_start() -> None:
    world = bound(World((), nodes=1, start_seconds=0.0), run_seconds=50, spec={"activeDeadlineSeconds": 5})
    assert phase(world.forward(4.9)) == "Running"
    found = world.forward(0.1).get("v1", "Pod", "p")["status"]
    assert (found["phase"], found["reason"]) == ("Failed", "DeadlineExceeded")
    assert found["message"] == "Pod was active on the node longer than the specified deadline"
    assert found["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137
    early = bound(World((), nodes=1, start_seconds=0.0), run_seconds=4, spec={"activeDeadlineSeconds": 5})
    assert phase(early.forward(4)) == "Succeeded"


def test_restarts_wait_longer_each_time() -> None:
    """At once, then after ten seconds, twenty and so on, five minutes at most."""
    world = bound(World((), nodes=1, start_seconds=0.0), policy="Always", run_seconds=1)
    restarts, moments = 0, list[float]()
    begin = world.set_clock.now()
    while len(moments) < 9:
        world.forward(1)
        count = world.get("v1", "Pod", "p")["status"]["containerStatuses"][0]["restartCount"]
        if count != restarts:
            restarts = count
            moments.append((world.set_clock.now() - begin).total_seconds())
    waits = [round(later - earlier - 1) for earlier, later in itertools.pairwise(moments)]
    assert waits == [10, 20, 40, 80, 160, 300, 300, 300]


@pytest.mark.parametrize(
    ("policy", "code", "ends"), [("Never", 0, True), ("Never", 1, True), ("OnFailure", 0, True),
                                 ("OnFailure", 1, False), ("Always", 0, False), ("Always", 1, False)],
)  # fmt: skip
def test_containers_that_run_again(policy: str, code: int, ends: bool) -> None:
    world = bound(World((), nodes=1, start_seconds=0.0), policy=policy, run_seconds=1, exit_code=code)
    assert (phase(world.forward(1)) != "Running") is ends


@pytest.mark.parametrize(
    ("grace", "stop", "after", "code"),
    [(30, 5, 5, 143), (30, 60, 30, 137), (30, 30, 30, 137), (30, None, 0, 143), (5, 5, 5, 137)],
)
def test_how_long_a_pod_takes_to_stop(grace: int, stop: int | None, after: int, code: int) -> None:
    """As long as it says and no longer than its grace; then it is killed."""
    more: Json = {"stop_seconds": stop} if stop is not None else {}
    world = bound(World((), nodes=1, start_seconds=0.0), **more, spec={"terminationGracePeriodSeconds": grace})
    world.patch("v1", "Pod", "p", {"metadata": {"finalizers": ["example.com/wait"]}})
    world.delete("v1", "Pod", "p")
    if after:
        assert phase(world.forward(after - 0.1)) == "Running"
        world.forward(0.1)
    found = world.settle().get("v1", "Pod", "p")
    assert found["status"]["phase"] == "Failed"
    assert found["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == code
    assert found["metadata"]["deletionGracePeriodSeconds"] == 0


def test_deleted_pod_is_seen_terminating() -> None:
    """For as long as the fleet says, also at the end of a second: deletionTimestamp has whole seconds."""
    world = bound(World((), nodes=1, start_seconds=0.0, stop_seconds=0.3)).forward(0.9)
    world.delete("v1", "Pod", "p")
    world.settle().forward(0.2)
    assert (phase(world), "deletionTimestamp" in world.get("v1", "Pod", "p")["metadata"]) == ("Running", True)
    assert world.forward(0.1).names() == []


# -- leases


def test_leases_are_renewed_a_part_at_a_time() -> None:
    """Each at least every ten seconds, and so many in a second that all get their turn."""
    world = World((), nodes=25)
    world.forward(15)
    for _ in range(20):
        before = world.store.revision
        world.forward(1)
        assert 2 <= world.store.revision - before <= 3
        now = world.set_clock.now()
        for one in world.all("coordination.k8s.io/v1", "Lease"):
            renewed = parse_stamp(one["spec"]["renewTime"])
            assert (now - renewed).total_seconds() <= 10
            assert one["spec"]["leaseDurationSeconds"] == 40


@pytest.mark.parametrize(("size", "rate", "lasts"), [(1, 50.0, 40), (20, 1.0, 80), (5, 0.25, 80), (8, 1.0, 40)])
def test_leases_of_a_large_fleet_last_longer(size: int, rate: float, lasts: int) -> None:
    """Four times as long as from one renewal to the next, and forty seconds at least."""
    world = World((), nodes=size, renewals_per_second=rate)
    world.forward(1)
    found = {one["spec"]["leaseDurationSeconds"] for one in world.all("coordination.k8s.io/v1", "Lease")}
    assert found == {lasts}


def test_address_of_a_pod_s_node_is_its_internal_one() -> None:
    listed = [{"type": "Hostname", "address": "n"}, {"type": "ExternalIP", "address": "9.9.9.9"},
              {"type": "InternalIP", "address": "10.7.7.7"}]  # fmt: skip
    own = {"metadata": {"name": "node-1"}, "status": {"addresses": listed}}
    world = bound(World((), nodes=0, manifests=(own,)))
    assert world.forward(1).get("v1", "Pod", "p")["status"]["hostIP"] == "10.7.7.7"
    other = {"metadata": {"name": "node-1"}, "status": {"addresses": listed[:2]}}
    without = bound(World((), nodes=0, manifests=(other,)))
    assert without.forward(1).get("v1", "Pod", "p")["status"]["hostIP"] == "127.0.0.1"


def test_fleet_that_stops_does_nothing_any_more() -> None:
    world = bound(World((), nodes=60, start_seconds=5.0))
    assert world.kubelets is not None
    world.kubelets.stop()
    before = world.store.revision
    assert phase(world.forward(60)) == "Pending"
    assert world.store.revision == before
    assert len(world.all("v1", "Node")) == 50, "nor makes the rest of its nodes"


def test_pods_and_nodes_have_addresses_of_their_own_ranges() -> None:
    world = bound(World((), nodes=1, addresses=("10.5.0.0", "10.9.0.0")))
    found = world.forward(1).get("v1", "Pod", "p")["status"]
    assert (found["podIP"], found["hostIP"]) == ("10.5.0.1", "10.9.0.1")


def test_pod_that_runs_is_not_written_again() -> None:
    """By kubelets that come back and find it as they left it."""
    world = bound(World((), nodes=1, start_seconds=0.0)).forward(5)
    before = world.get("v1", "Pod", "p")
    again = World((), nodes=1, store=world.store, clock=world.set_clock).forward(5)
    assert again.get("v1", "Pod", "p") == before
