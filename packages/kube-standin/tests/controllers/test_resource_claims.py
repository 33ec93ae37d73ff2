"""Device claims (upstream: pkg/controller/resourceclaim): templates, reservations, devices given back."""

from __future__ import annotations

from typing import Any

import pytest

from kube_standin.controllers.claims import ResourceClaims
from tests.admission.plane import pod
from tests.controllers.world import Json, World

GROUP = "resource.k8s.io/v1"
CLAIM = "ResourceClaim"
FINALIZER = "resource.kubernetes.io/delete-protection"
DEVICES: Json = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}
NAMES = ("resourceclaim", "garbage-collector")


def template(name: str = "one-gpu") -> Json:
    inner = {"metadata": {"labels": {"team": "a"}, "annotations": {"note": "x"}}, "spec": {"devices": DEVICES}}
    return {"apiVersion": GROUP, "kind": "ResourceClaimTemplate", "metadata": {"name": name}, "spec": inner}


def claim(name: str, **metadata: Any) -> Json:
    return {"apiVersion": GROUP, "kind": CLAIM, "metadata": {"name": name, **metadata}, "spec": {"devices": DEVICES}}


def user(name: str, **source: str) -> Json:
    """A pod with one claim, by `resourceClaimName` or `resourceClaimTemplateName`."""
    one = pod(name)
    one["spec"]["resourceClaims"] = [{"name": "gpu", **source}]
    return one


def from_template(name: str) -> Json:
    return user(name, resourceClaimTemplateName="one-gpu")


def allocate(world: World, name: str, *pods: str) -> None:
    """What a scheduler writes for pods that are to use a claim."""
    world.patch(GROUP, CLAIM, name, {"metadata": {"finalizers": [FINALIZER]}})
    consumers = [
        {"resource": "pods", "name": one, "uid": world.get("v1", "Pod", one)["metadata"]["uid"]} for one in pods
    ]
    results = [{"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}]
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": consumers}
    world.set_status(GROUP, CLAIM, name, status)
    world.settle()


def generated(world: World) -> list[str]:
    return [one["metadata"]["name"] for one in world.all(GROUP, CLAIM, "default")]


def status_of(world: World, name: str) -> Json:
    found: Json = world.get(GROUP, CLAIM, name).get("status", {})
    return found


def test_claim_is_made_from_the_template_and_named_in_the_pods_status() -> None:
    world = World(NAMES)
    world.create(template())
    made = world.create(from_template("p"))
    world.settle()
    (name,) = generated(world)
    found = world.get(GROUP, CLAIM, name)
    assert name.startswith("p-gpu-")
    assert found["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == "gpu.example.com"
    assert found["metadata"]["labels"] == {"team": "a"}
    assert found["metadata"]["annotations"] == {"note": "x", "resource.kubernetes.io/pod-claim-name": "gpu"}
    (owner,) = found["metadata"]["ownerReferences"]
    assert owner == {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "p",
        "uid": made["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    statuses = world.get("v1", "Pod", "p")["status"]["resourceClaimStatuses"]
    assert statuses == [{"name": "gpu", "resourceClaimName": name}]


def test_pod_waits_for_its_template() -> None:
    world = World(NAMES)
    world.create(from_template("p"))
    world.settle()
    assert generated(world) == []
    (event,) = [one for one in world.all("v1", "Event", "default") if one["involvedObject"]["name"] == "p"]
    assert event["reason"] == "FailedResourceClaimCreation"
    assert event["message"] == 'PodResourceClaim gpu: resource claim template "one-gpu" not found'
    world.create(template())
    world.settle()
    assert len(generated(world)) == 1


def test_deleted_object_waits_for_no_template() -> None:
    """Templates that never come cost nothing: pods and groups are forgotten when they go, or need no claims."""
    world = World(GROUPS)
    controller = world.controllers.running["resourceclaim"]
    assert isinstance(controller, ResourceClaims)
    world.create(pod_group(OURS))
    world.create(member("a", resourceClaimTemplateName="two"))
    for name in ("p", "q", "r"):
        world.create(from_template(name))
    world.settle()
    assert controller.lacking == 5
    world.delete("v1", "Pod", "p", grace=0)
    world.set_phase("q", "Succeeded")
    world.delete("v1", "Pod", "a", grace=0)
    world.settle()
    assert controller.lacking == 2
    world.create(template())
    world.settle()
    assert controller.lacking == 0
    assert sorted(name[:6] for name in generated(world)) == ["g-gpu-", "r-gpu-"]


def test_claim_made_before_a_crash_is_found_again() -> None:
    world = World(NAMES)
    world.create(template())
    world.create(from_template("p"))
    world.settle()
    names = generated(world)
    world.set_status("v1", "Pod", "p", {"resourceClaimStatuses": None})
    world.restarted(NAMES)
    assert generated(world) == names
    statuses = world.get("v1", "Pod", "p")["status"]["resourceClaimStatuses"]
    assert statuses == [{"name": "gpu", "resourceClaimName": names[0]}]


def test_claim_by_name_is_left_to_its_maker() -> None:
    world = World(NAMES)
    world.create(user("p", resourceClaimName="mine"))
    world.settle()
    assert generated(world) == []
    assert "resourceClaimStatuses" not in world.get("v1", "Pod", "p")["status"]


def test_last_consumer_that_ends_gives_the_devices_back() -> None:
    world = World(NAMES)
    world.create(claim("shared"))
    for name in ("a", "b"):
        world.create(user(name, resourceClaimName="shared"))
        world.bind(name, "n1")
    allocate(world, "shared", "a", "b")
    world.set_phase("a", "Succeeded")
    world.settle()
    assert [one["name"] for one in status_of(world, "shared")["reservedFor"]] == ["b"]
    assert "allocation" in status_of(world, "shared")
    world.set_phase("b", "Failed")
    world.settle()
    assert not status_of(world, "shared").get("allocation")
    assert not status_of(world, "shared").get("reservedFor")
    assert not world.get(GROUP, CLAIM, "shared")["metadata"].get("finalizers")


def test_consumer_that_is_gone_or_replaced_is_taken_off() -> None:
    world = World(NAMES)
    world.create(claim("shared"))
    world.create(user("a", resourceClaimName="shared"))
    allocate(world, "shared", "a")
    world.delete("v1", "Pod", "a")
    world.create(user("a", resourceClaimName="shared"))
    world.settle()
    assert not status_of(world, "shared").get("reservedFor")
    assert not status_of(world, "shared").get("allocation")


def test_consumer_that_is_no_pod_or_group_is_left_alone() -> None:
    world = World(NAMES)
    world.create(claim("shared"))
    world.create(user("a", resourceClaimName="shared"))
    allocate(world, "shared", "a")
    group = {"apiGroup": "example.com", "resource": "things", "name": "g", "uid": "thing-uid"}
    world.set_status(GROUP, CLAIM, "shared", {"reservedFor": [group]})
    world.delete("v1", "Pod", "a")
    world.settle()
    assert status_of(world, "shared")["reservedFor"] == [group]
    assert "allocation" in status_of(world, "shared")


def test_claim_of_a_pod_that_ended_is_deleted_and_one_of_a_pod_that_is_gone_collected() -> None:
    world = World(NAMES)
    world.create(template())
    for name in ("a", "b"):
        world.create(from_template(name))
        world.bind(name, "n1")
    world.settle()
    for name in generated(world):
        allocate(world, name, name[0])
    world.set_phase("a", "Succeeded")
    world.settle()
    assert [name[0] for name in generated(world)] == ["b"]
    world.delete("v1", "Pod", "b", grace=0)
    world.settle()
    assert generated(world) == []


def test_deleted_claim_is_removed_once_no_pod_uses_it() -> None:
    world = World(NAMES)
    world.create(claim("shared"))
    world.create(user("a", resourceClaimName="shared"))
    world.bind("a", "n1")
    allocate(world, "shared", "a")
    world.delete(GROUP, CLAIM, "shared")
    world.settle()
    assert generated(world) == ["shared"], "in use"
    world.set_phase("a", "Succeeded")
    world.settle()
    assert generated(world) == []


def test_pod_bound_by_hand_reserves_its_allocated_claim() -> None:
    world = World(NAMES)
    world.create(claim("shared"))
    world.create(user("a", resourceClaimName="shared"))
    allocate(world, "shared", "a")
    world.create(user("b", resourceClaimName="shared"))
    world.bind("b", "n1")
    world.settle()
    assert [one["name"] for one in status_of(world, "shared")["reservedFor"]] == ["a", "b"]


@pytest.mark.parametrize("how", ["going", "ended", "gone"])
def test_pod_that_needs_no_claim_gets_none(how: str, caplog: pytest.LogCaptureFixture) -> None:
    """Its claim is deleted while it terminates, or the pod has ended, or is gone itself."""
    world = World(("resourceclaim",))
    world.create(template())
    made = from_template("p")
    made["metadata"]["finalizers"] = ["example.com/wait"]
    world.create(made)
    (name,) = generated(world.settle())
    if how == "ended":
        world.set_phase("p", "Failed")
    else:
        world.delete("v1", "Pod", "p", grace=0)
    if how == "gone":
        world.patch("v1", "Pod", "p", {"metadata": {"finalizers": None}})
        assert world.names() == []
    if world.has(GROUP, CLAIM, name):
        world.delete(GROUP, CLAIM, name)
    assert generated(world.forward(1)) == []
    assert [one for one in caplog.records if one.levelname == "ERROR"] == []


# -- pod groups (KEP-5729) -----------------------------------------------------------------------------


OURS: Json = {"name": "gpu", "resourceClaimTemplateName": "one-gpu"}
SCHEDULING = "scheduling.k8s.io/v1beta1"
GROUPS = (*NAMES, "podgroup-protection")


def pod_group(*claims: Json) -> Json:
    spec = {"schedulingPolicy": {"basic": {}}, "resourceClaims": list(claims)}
    return {"apiVersion": SCHEDULING, "kind": "PodGroup", "metadata": {"name": "g"}, "spec": spec}


def member(name: str, **source: str) -> Json:
    one = user(name, **source)
    one["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    return one


def reserve_for_group(world: World, name: str) -> None:
    """What a scheduler writes for the pods of a group."""
    allocate(world, name)
    uid = world.get(SCHEDULING, "PodGroup", "g")["metadata"]["uid"]
    consumer = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": uid}
    world.set_status(GROUP, CLAIM, name, {"reservedFor": [consumer]})
    world.settle()


@pytest.mark.parametrize("group_first", [True, False])
def test_groups_claim_is_made_once_and_named_in_its_pods(group_first: bool) -> None:
    world = World(GROUPS)
    world.create(template())
    members = [member(name, resourceClaimTemplateName="one-gpu") for name in ("a", "b")]
    parts = [pod_group(OURS), *members] if group_first else [*members, pod_group(OURS)]
    for part in parts:
        world.create(part)
        world.settle()
    (name,) = generated(world)
    found = world.get(GROUP, CLAIM, name)
    assert name.startswith("g-gpu-")
    assert found["metadata"]["annotations"]["resource.kubernetes.io/pod-claim-name"] == "gpu"
    (owner,) = found["metadata"]["ownerReferences"]
    assert (owner["apiVersion"], owner["kind"], owner["name"], owner["controller"]) == (
        SCHEDULING,
        "PodGroup",
        "g",
        True,
    )
    said = [{"name": "gpu", "resourceClaimName": name}]
    assert world.get(SCHEDULING, "PodGroup", "g")["status"]["resourceClaimStatuses"] == said
    for pod_name in ("a", "b"):
        assert world.get("v1", "Pod", pod_name)["status"]["resourceClaimStatuses"] == said


def test_group_waits_for_its_template() -> None:
    world = World(GROUPS)
    world.create(pod_group(OURS))
    world.create(member("a", resourceClaimTemplateName="one-gpu"))
    world.settle()
    assert generated(world) == []
    world.create(template())
    world.settle()
    assert [name[:6] for name in generated(world)] == ["g-gpu-"]
    assert world.get("v1", "Pod", "a")["status"]["resourceClaimStatuses"]


def test_entry_unlike_the_groups_is_the_pods_own() -> None:
    world = World(GROUPS)
    world.create(template())
    world.create(template("two"))
    world.create(pod_group(OURS))
    world.create(member("a", resourceClaimTemplateName="two"))
    world.settle()
    assert sorted(name[:6] for name in generated(world)) == ["a-gpu-", "g-gpu-"]


def test_groups_claim_is_kept_until_the_group_is_gone() -> None:
    """Pods come and go; the group gives the devices back, and with it goes what was made for it."""
    world = World(GROUPS)
    world.create(template())
    world.create(claim("named"))
    world.create(pod_group(OURS, {"name": "more", "resourceClaimName": "named"}))
    world.create(member("a", resourceClaimTemplateName="one-gpu"))
    world.settle()
    made = next(name for name in generated(world) if name != "named")
    reserve_for_group(world, made)
    reserve_for_group(world, "named")
    world.delete("v1", "Pod", "a")
    world.settle()
    assert status_of(world, made)["allocation"]
    world.delete(SCHEDULING, "PodGroup", "g")
    world.settle()
    assert generated(world) == ["named"]
    assert status_of(world, "named") == {}
    assert FINALIZER not in world.get(GROUP, CLAIM, "named")["metadata"].get("finalizers", ())


def test_member_bound_by_hand_reserves_for_its_group() -> None:
    world = World(GROUPS)
    world.create(claim("named"))
    world.create(pod_group({"name": "gpu", "resourceClaimName": "named"}))
    world.settle()
    reserve_for_group(world, "named")
    world.set_status(GROUP, CLAIM, "named", {"reservedFor": None})
    bound = member("a", resourceClaimName="named")
    bound["spec"]["nodeName"] = "n1"
    world.create(bound)
    world.settle()
    (consumer,) = status_of(world, "named")["reservedFor"]
    assert (consumer["resource"], consumer["name"]) == ("podgroups", "g")
