"""Images that cannot be pulled on simulated nodes (interfaces.md 7.20)."""

from __future__ import annotations

import pytest

from kube_standin.controllers import CONTROLLERS
from tests.controllers.world import Json, World, owner
from tests.kubelet.test_missing_config import begin, events, read, waiting


@pytest.fixture
def world() -> World:
    return World((), nodes=1)


def set_image(world: World, image: str) -> Json:
    containers = read(world)["spec"]["containers"]
    containers[0]["image"] = image
    world.patch("v1", "Pod", "p", {"spec": {"containers": containers}})
    return read(world.forward(5))


@pytest.mark.parametrize("image", ["web:404", "foo:non-existent", "example.com:5000/a/b:nonexistent"])
def test_container_waits_for_its_image_until_it_has_another(world: World, image: str) -> None:
    """daemon_set.go and deployment.go stop a rollout with images that do not exist."""
    pod = begin(world, containers=[{"name": "c", "image": image}, {"name": "d", "image": "web:1"}])
    assert (pod["status"]["phase"], waiting(pod)) == ("Pending", ["ImagePullBackOff", "running"])
    state = pod["status"]["containerStatuses"][0]["state"]
    assert state["waiting"]["message"] == f'Back-off pulling image "{image}"'
    assert world.condition(pod, "Ready")["status"] == "False"
    assert events(world) == [("Failed", f'Failed to pull image "{image}": not found')]
    assert read(world.forward(7200)) == pod
    since = pod["status"]["containerStatuses"][1]["state"]
    pod = set_image(world, "web:2")
    assert (pod["status"]["phase"], waiting(pod)) == ("Running", ["running", "running"])
    assert pod["status"]["containerStatuses"][1]["state"] == since


@pytest.mark.parametrize("image", ["web:40", "nonexistent", "404/web:1", "web:404@sha256:" + "0" * 64])
def test_other_images_are_pulled(world: World, image: str) -> None:
    assert waiting(begin(world, containers=[{"name": "c", "image": image}])) == ["running"]


def test_init_container_waits_for_its_image(world: World) -> None:
    pod = begin(world, initContainers=[{"name": "i", "image": "web:404"}])
    assert waiting(pod, "initContainerStatuses") == ["ImagePullBackOff"]
    assert waiting(pod) == ["PodInitializing"]


def test_running_container_ends_for_an_image_that_cannot_be_pulled(world: World) -> None:
    begin(world)
    pod = set_image(world, "web:404")
    assert (pod["status"]["phase"], waiting(pod)) == ("Running", ["ImagePullBackOff"])
    assert world.condition(pod, "Ready")["status"] == "False"
    pod = set_image(world, "web:2")
    assert (waiting(pod), world.condition(pod, "Ready")["status"]) == (["running"], "True")


def test_daemon_set_stops_at_the_image(world: World) -> None:
    """daemon_set.go, "should rollback without unnecessary restarts": one pod is unavailable, the others stay."""
    world = World(CONTROLLERS, nodes=3, adopt=False)
    world.create(owner("DaemonSet", "d"))
    world.schedule().forward(2)
    before = set(world.names("Running"))
    template = owner("DaemonSet", "d")["spec"]["template"]
    template["spec"]["containers"][0]["image"] = "foo:non-existent"
    world.patch("apps/v1", "DaemonSet", "d", {"spec": {"template": template}})
    for _ in range(6):
        world.schedule().forward(20)
    assert len(before & set(world.names("Running"))) == len(before) - 1
