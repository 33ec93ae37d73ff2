"""Init containers, sidecars and probes of simulated pods (interfaces.md 7.2 and 7.3)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.admission.plane import pod
from tests.controllers.world import Json, World

SLOW = {"reprieve.dev/start-seconds": "10"}
NAMES = ("first", "side", "second")
INIT = [{"name": name, "image": "x", **({"restartPolicy": "Always"} if name == "side" else {})} for name in NAMES]


@pytest.fixture
def world() -> World:
    return World((), nodes=1)


def bound(world: World, **spec: Any) -> None:
    made = pod("p", **spec)
    made["metadata"]["annotations"] = SLOW
    world.create(made)
    world.bind("p", "node-1")


def read(world: World) -> Json:
    return world.get("v1", "Pod", "p")


def states(found: Json, part: str = "initContainerStatuses") -> list[str]:
    return [next(iter(one["state"])) for one in found["status"].get(part) or ()]


def shown(found: Json, *kinds: str) -> list[str]:
    return [next(one["status"] for one in found["status"]["conditions"] if one["type"] == kind) for kind in kinds]


CONDITIONS = ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")


def test_init_containers_run_in_order(world: World) -> None:
    """interfaces.md 7.2: each for as long as containers take to start; a sidecar runs before what follows it."""
    bound(world, initContainers=INIT)
    seen = []
    for _ in range(3):
        found = world.forward(10).get("v1", "Pod", "p")
        seen.append((found["status"]["phase"], states(found), states(found, "containerStatuses")))
    assert seen == [
        ("Pending", ["running", "waiting", "waiting"], ["waiting"]),
        ("Pending", ["terminated", "running", "running"], ["waiting"]),
        ("Running", ["terminated", "running", "terminated"], ["running"]),
    ]
    assert shown(found, *CONDITIONS) == ["True"] * 4


def test_pod_that_initializes_says_so(world: World) -> None:
    """interfaces.md 7.2"""
    bound(world, initContainers=INIT)
    found = read(world.forward(10))
    assert shown(found, *CONDITIONS) == ["True", "False", "False", "False"]
    initialized = world.condition(found, "Initialized")
    assert (initialized["reason"], initialized["message"]) == (
        "ContainersNotInitialized",
        "containers with incomplete status: [first side second]",
    )
    (main,) = found["status"]["containerStatuses"]
    assert main["state"] == {"waiting": {"reason": "PodInitializing"}}
    assert (main["ready"], main["started"]) == (False, False)
    assert found["status"]["podIP"]
    address = found["status"]["podIP"]
    found = read(world.forward(10))
    assert world.condition(found, "Initialized")["message"] == "containers with incomplete status: [second]"
    assert read(world.forward(10))["status"]["podIP"] == address


def test_sidecars_stop_with_the_pod(world: World) -> None:
    """interfaces.md 7.2"""
    made = pod("p", initContainers=INIT, restartPolicy="Never")
    made["metadata"]["annotations"] = {"reprieve.dev/run-seconds": "5"}
    world.create(made)
    world.bind("p", "node-1")
    found = read(world.forward(10))
    assert found["status"]["phase"] == "Succeeded"
    assert states(found) == ["terminated"] * 3
    assert [one["state"]["terminated"]["exitCode"] for one in found["status"]["initContainerStatuses"]] == [0, 143, 0]


def test_deadline_counts_while_a_pod_initializes(world: World) -> None:
    """interfaces.md 7.2"""
    bound(world, initContainers=INIT, activeDeadlineSeconds=15, restartPolicy="Never")
    assert read(world.forward(24))["status"]["phase"] == "Pending"
    found = read(world.forward(2))
    assert (found["status"]["phase"], found["status"]["reason"]) == ("Failed", "DeadlineExceeded")
    assert "running" not in states(found)


def test_server_that_starts_again_goes_on_with_init_containers(world: World) -> None:
    """interfaces.md 7.2"""
    bound(world, initContainers=INIT)
    world.forward(20)
    again = World((), nodes=1, store=world.store, clock=world.set_clock)
    assert states(read(again)) == ["terminated", "running", "running"]
    assert read(again.forward(10))["status"]["phase"] == "Running"


@pytest.mark.parametrize(
    "written",
    [
        [],
        [{"name": "first"}, {"name": "side"}, {"name": "second"}],
        [{"name": name, "state": {"running": {}}} for name in NAMES],
        [{"name": name, "state": {"running": {}}} for name in ("some", "other", "names")],
    ],
)
def test_pod_starts_whatever_a_client_wrote_of_its_init_containers(world: World, written: list[Json]) -> None:
    """interfaces.md 7.2"""
    bound(world, initContainers=INIT)
    world.forward(10)
    world.set_status("v1", "Pod", "p", {**read(world)["status"], "initContainerStatuses": written})
    assert read(world.forward(10).forward(10).forward(10))["status"]["phase"] == "Running"


@pytest.mark.parametrize(
    ("probes", "started", "ready"),
    [
        ({}, 0, 0),
        ({"readinessProbe": 20}, 0, 20),
        ({"startupProbe": 20}, 20, 20),
        ({"startupProbe": 20, "readinessProbe": 30}, 20, 30),
        ({"startupProbe": 30, "readinessProbe": 20}, 30, 30),
        ({"livenessProbe": 20}, 0, 0),
    ],
)
def test_probes_succeed_when_they_are_first_due(world: World, probes: dict[str, int], started: int, ready: int) -> None:
    """interfaces.md 7.3"""
    given = {name: {"tcpSocket": {"port": 1}, "initialDelaySeconds": delay} for name, delay in probes.items()}
    bound(world, containers=[{"name": "c", "image": "x", **given}])
    world.forward(10)
    for second in range(40):
        found = read(world)
        (one,) = found["status"]["containerStatuses"]
        assert (one["started"], one["ready"]) == (second >= started, second >= ready), second
        assert shown(found, "ContainersReady", "Ready") == [str(second >= ready)] * 2
        assert found["status"]["phase"] == "Running"
        world.forward(1)


def test_container_that_restarts_is_probed_anew(world: World) -> None:
    """interfaces.md 7.3"""
    probe = {"tcpSocket": {"port": 1}, "initialDelaySeconds": 20}
    made = pod("p", containers=[{"name": "c", "image": "x", "readinessProbe": probe}])
    made["metadata"]["annotations"] = {"reprieve.dev/run-seconds": "30"}
    world.create(made)
    world.bind("p", "node-1")
    ready = []
    for _ in range(5):
        world.forward(10)
        ready.append(read(world)["status"]["containerStatuses"][0]["ready"])
    assert ready == [False, True, False, False, True]
