"""Pods that cannot start on a simulated node as they are: ConfigMaps and Secrets that are missing, init containers that
fail, another operating system (interfaces.md 7.6 to 7.9).
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest

from tests.admission.plane import pod
from tests.controllers.world import Json, World


@pytest.fixture
def world() -> World:
    return World((), nodes=1)


def begin(world: World, annotations: Json | None = None, **spec: Any) -> Json:
    made = pod("p", **spec)
    made["metadata"]["annotations"] = annotations or {}
    made["spec"]["containers"] = spec.get("containers") or [{"name": "c", "image": "i"}]
    world.create(made)
    world.bind("p", "node-1")
    return read(world.forward(5))


def read(world: World) -> Json:
    return world.get("v1", "Pod", "p")


def waiting(found: Json, part: str = "containerStatuses") -> list[str]:
    """The reason of each container that waits, `running` or `terminated` for the others."""
    states = [one["state"] for one in found["status"].get(part) or ()]
    return [state["waiting"]["reason"] if "waiting" in state else next(iter(state)) for state in states]


def events(world: World) -> list[tuple[str, str]]:
    found = world.all("v1", "Event")
    assert {(one["involvedObject"]["kind"], one["involvedObject"]["name"]) for one in found} <= {("Pod", "p")}
    return [(one["reason"], one["message"]) for one in found]


def write(world: World, kind: str, **data: str) -> None:
    world.create(
        {
            "apiVersion": "v1",
            "kind": kind,
            "metadata": {"name": "x"},
            "stringData" if kind == "Secret" else "data": data,
        }
    )
    world.forward(5)


SECRET, MAP = {"secretName": "x"}, {"name": "x"}


@pytest.mark.parametrize(
    ("volume", "kind", "why"),
    [
        ({"configMap": MAP}, "ConfigMap", 'configmap "x" not found'),
        ({"secret": SECRET}, "Secret", 'secret "x" not found'),
        ({"projected": {"sources": [{"downwardAPI": {}}, {"secret": MAP}]}}, "Secret", 'secret "x" not found'),
        ({"projected": {"sources": [{"configMap": MAP}]}}, "ConfigMap", 'configmap "x" not found'),
    ],
)
def test_pod_waits_for_what_its_volumes_show(world: World, volume: Json, kind: str, why: str) -> None:
    """interfaces.md 7.7"""
    found = begin(world, volumes=[{"name": "v", **volume}])
    assert (found["status"]["phase"], waiting(found)) == ("Pending", ["ContainerCreating"])
    assert "podIP" not in found["status"]
    shown = [world.condition(found, one)["status"] for one in ("PodReadyToStartContainers", "Initialized", "Ready")]
    assert shown == ["False", "True", "False"]
    assert events(world) == [("FailedMount", f'MountVolume.SetUp failed for volume "v" : {why}')]
    revision = world.store.revision
    assert read(world.forward(7200)) == found
    assert world.store.revision - revision < 2 * 720, "the pod was written again and again"
    write(world, kind, k="v")
    found = read(world)
    assert (found["status"]["phase"], waiting(found)) == ("Running", ["running"])


@pytest.mark.parametrize(
    ("volume", "why"),
    [
        ({"configMap": {**MAP, "items": [{"key": "k", "path": "p"}]}}, "references non-existent config key: k"),
        ({"secret": {**SECRET, "items": [{"key": "k", "path": "p"}]}}, "references non-existent secret key: k"),
    ],
)
def test_pod_waits_for_a_key_that_its_volume_shows(world: World, volume: Json, why: str) -> None:
    """interfaces.md 7.7"""
    kind = "ConfigMap" if "configMap" in volume else "Secret"
    write(world, kind, other="v")
    assert waiting(begin(world, volumes=[{"name": "v", **volume}])) == ["ContainerCreating"]
    assert events(world) == [("FailedMount", f'MountVolume.SetUp failed for volume "v" : {why}')]
    world.patch("v1", kind, "x", {"data": {"k": "dg=="}})
    assert waiting(read(world.forward(1))) == ["running"]


@pytest.mark.parametrize(
    ("container", "why"),
    [
        ({"envFrom": [{"configMapRef": MAP}]}, 'configmap "x" not found'),
        ({"envFrom": [{"secretRef": MAP}]}, 'secret "x" not found'),
        ({"env": [{"name": "E", "valueFrom": {"configMapKeyRef": {**MAP, "key": "k"}}}]}, 'configmap "x" not found'),
        ({"env": [{"name": "E", "valueFrom": {"secretKeyRef": {**MAP, "key": "k"}}}]}, 'secret "x" not found'),
    ],
)
def test_container_waits_for_its_environment_beside_others_that_run(world: World, container: Json, why: str) -> None:
    """interfaces.md 7.8"""
    found = begin(world, containers=[{"name": "c", "image": "i", **container}, {"name": "d", "image": "i"}])
    assert (found["status"]["phase"], waiting(found)) == ("Pending", ["CreateContainerConfigError", "running"])
    assert found["status"]["containerStatuses"][0]["state"]["waiting"]["message"] == why
    assert found["status"]["podIP"]
    assert world.condition(found, "PodReadyToStartContainers")["status"] == "True"
    assert events(world) == [("Failed", f"Error: {why}")]
    beside = found["status"]["containerStatuses"][1]
    write(world, "ConfigMap" if why.startswith("configmap") else "Secret", k="v")
    found = read(world)
    assert (found["status"]["phase"], waiting(found)) == ("Running", ["running", "running"])
    assert found["status"]["containerStatuses"][1] == beside, "the other container was restarted"
    assert world.condition(found, "Ready")["status"] == "True"


@pytest.mark.parametrize(("kind", "field"), [("ConfigMap", "configMapKeyRef"), ("Secret", "secretKeyRef")])
def test_container_waits_for_a_key_of_its_environment(world: World, kind: str, field: str) -> None:
    """interfaces.md 7.8"""
    write(world, kind, other="v")
    env = [{"name": "E", "valueFrom": {field: {**MAP, "key": "k"}}}]
    found = begin(world, containers=[{"name": "c", "image": "i", "env": env}])
    message = found["status"]["containerStatuses"][0]["state"]["waiting"]["message"]
    assert message == f"couldn't find key k in {kind} default/x"
    world.patch("v1", kind, "x", {"data": {"k": "dg=="}})
    assert waiting(read(world.forward(1))) == ["running"]


def test_init_container_waits_for_its_environment(world: World) -> None:
    """interfaces.md 7.8"""
    first = [{"name": "a", "image": "i"}, {"name": "b", "image": "i", "envFrom": [{"secretRef": MAP}]}]
    found = begin(world, initContainers=first)
    assert waiting(found, "initContainerStatuses") == ["terminated", "CreateContainerConfigError"]
    assert waiting(found) == ["PodInitializing"]
    write(world, "Secret", k="v")
    found = read(world)
    assert waiting(found, "initContainerStatuses") == ["terminated", "terminated"]
    assert waiting(found) == ["running"]


OPTIONAL = [
    {"volumes": [{"name": "v", "configMap": {**MAP, "optional": True}}]},
    {"volumes": [{"name": "v", "secret": {**SECRET, "optional": True}}]},
    {"volumes": [{"name": "v", "projected": {"sources": [{"secret": {**MAP, "optional": True}}]}}]},
    {"containers": [{"name": "c", "image": "i", "envFrom": [{"secretRef": {**MAP, "optional": True}}]}]},
    {"volumes": [{"name": "v", "emptyDir": {}}]},
]


@pytest.mark.parametrize("spec", OPTIONAL)
def test_pod_starts_without_what_is_optional(world: World, spec: Json) -> None:
    """interfaces.md 7.7, 7.8"""
    assert begin(world, **spec)["status"]["phase"] == "Running"
    assert events(world) == []


@pytest.mark.parametrize("where", ["Pod", "Namespace"])
def test_annotation_lets_pods_start_without(world: World, where: str) -> None:
    """interfaces.md 7.7: the annotation of the pod or of its namespace."""
    ignore = {"reprieve.dev/missing-config": "ignore"}
    if where == "Namespace":
        world.patch("v1", "Namespace", "default", {"metadata": {"annotations": ignore}}, ns="")
    spec = {"volumes": [{"name": "v", "configMap": MAP}]}
    assert begin(world, ignore if where == "Pod" else None, **spec)["status"]["phase"] == "Running"


def test_pod_that_waits_is_deleted_and_a_server_that_starts_again_goes_on(world: World) -> None:
    """interfaces.md 7.7"""
    begin(world, volumes=[{"name": "v", "configMap": MAP}])
    again = World((), nodes=1, store=world.store, clock=world.set_clock)
    assert waiting(read(again.forward(5))) == ["ContainerCreating"]
    write(again, "ConfigMap", k="v")
    assert waiting(read(again)) == ["running"]
    again.delete("v1", "ConfigMap", "x")
    again.delete("v1", "Pod", "p")
    again.forward(60)
    begin(again, volumes=[{"name": "v", "configMap": MAP}])
    again.delete("v1", "Pod", "p")
    again.forward(60)
    assert again.all("v1", "Pod") == []
    write(again, "ConfigMap", k="v")


def test_deadline_counts_while_a_pod_waits(world: World) -> None:
    """interfaces.md 7.7"""
    begin(world, volumes=[{"name": "v", "configMap": MAP}], activeDeadlineSeconds=20)
    assert read(world.forward(30))["status"]["reason"] == "DeadlineExceeded"


# --- init containers that fail ----------------------------------------------------------------------------

FAILING = {"reprieve.dev/init-exit-code": "3"}
INIT = [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]


def test_pod_fails_with_its_init_container(world: World) -> None:
    """interfaces.md 7.9: if the pod is never restarted."""
    found = begin(world, FAILING, initContainers=INIT, restartPolicy="Never")
    assert found["status"]["phase"] == "Failed"
    first = found["status"]["initContainerStatuses"][0]
    assert (first["state"]["terminated"]["exitCode"], first["state"]["terminated"]["reason"]) == (3, "Error")
    assert waiting(found, "initContainerStatuses") == ["terminated", "PodInitializing"]
    assert waiting(found) == ["PodInitializing"]
    assert world.condition(found, "Initialized")["status"] == "False"
    assert read(world.forward(3600)) == found


@pytest.mark.parametrize("policy", ["Always", "OnFailure"])
def test_init_container_that_fails_is_restarted_later_each_time(world: World, policy: str) -> None:
    """interfaces.md 7.9: at once, then after 10 s, 20 s and so on."""
    found = begin(world, FAILING, initContainers=INIT, restartPolicy=policy)
    moments: list[tuple[int, int]] = []
    for second in range(5, 120):
        (first, _) = found["status"]["initContainerStatuses"]
        if not moments or moments[-1][1] != first["restartCount"]:
            moments.append((second, first["restartCount"]))
        found = read(world.forward(1))
    assert [count for _, count in moments] == [1, 2, 3, 4]
    pauses = [later[0] - sooner[0] for sooner, later in pairwise(moments)]
    assert pauses[1] < pauses[2]
    assert waiting(found, "initContainerStatuses")[0] == "CrashLoopBackOff"
    assert found["status"]["initContainerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 3
    assert found["status"]["phase"] == "Pending"
    world.patch("v1", "Pod", "p", {"metadata": {"annotations": {"reprieve.dev/init-exit-code": "0"}}})
    assert read(world.forward(400))["status"]["phase"] == "Running"


# --- another operating system -----------------------------------------------------------------------------


@pytest.mark.parametrize(("system", "phase"), [("windows", "Failed"), ("linux", "Running")])
def test_pod_for_another_operating_system_is_rejected(world: World, system: str, phase: str) -> None:
    """interfaces.md 7.6"""
    found = begin(world, os={"name": system}, securityContext={})
    assert found["status"]["phase"] == phase
    if phase == "Failed":
        assert found["status"]["reason"] == "PodOSNotSupported"
        assert re.match("Failed to admit pod as the OS field", found["status"]["message"])
